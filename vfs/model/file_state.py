"""The state of a file: how "is this still the file that was opened?" is answered."""

from __future__ import annotations

import os
import time
from typing import NamedTuple

_SECOND = 1_000_000_000


class FileState(NamedTuple):
    """What is known of a file without reading it. Two equal states are two looks at the same bytes.

    A file on a disk has no tag: as long as its size and its time of writing (mtime) are the same, it
    counts as the *same* file. If only its time of change (ctime) differs, it was *touched*: somebody
    changed its rights or links, renamed it and back, or wrote other bytes or another file in its
    place and kept the old mtime (`cp -p`, `rsync -t`, a backup that is restored). So it did if another file has its
    name now (inode and device). Nothing tells which of these it was: `vfs.model.one_state` says what follows.

    An object in a store or on a web server has a tag (ETag), which decides together with its size. A weak tag (`W/"…"`)
    proves no bytes: there the time of its writing (Last-Modified) counts, too. What has neither another tag nor such a
    time cannot be told from what replaces it (`tells`).

    Attributes:
        size: bytes; -1 if they are not known, because the file was missing or may change. Any file
            is the same as one of unknown size.
        written: when its content was written (mtime, Last-Modified), ns since 1970; 0 if not known.
        changed: when its content, name or rights changed (ctime), ns since 1970; 0 if not known.
        tag: what the store calls its content (ETag); "" for a file on a disk.
        inode, device: which file of this machine has the name; 0 if that is not known.
    """

    size: int
    written: int = 0
    changed: int = 0
    tag: str = ""
    inode: int = 0
    device: int = 0

    @classmethod
    def of(cls, found: os.stat_result) -> FileState:
        """Return the state of a file on a disk."""
        times = found.st_mtime_ns, found.st_ctime_ns
        return _new(cls, (found.st_size, *times, "", _signed(found.st_ino), _signed(found.st_dev)))

    def same(self, now: FileState) -> bool:
        """Return True if a file that had this state is the same file now. It may have been touched."""
        if self.size < 0:
            return True
        if self.size != now.size or self.tag != now.tag:
            return False
        return self.proves or self.written == now.written

    @property
    def proves(self) -> bool:
        """True if the tag stands for the bytes."""
        return bool(self.tag) and not self.tag.startswith("W/")

    @property
    def tells(self) -> bool:
        """True if another file of the same size in its place would have another state."""
        return self.proves or bool(self.written)

    def touched(self, now: FileState) -> str:
        """Say what else differs of a file that is the `same`: "ctime …, now …"; "" if nothing that is known of both."""
        said = []
        if self.changed != now.changed and self.changed and now.changed:
            fine = self.changed // _SECOND == now.changed // _SECOND
            said.append(f"ctime {_spelled(self.changed, fine)}, now {_spelled(now.changed, fine)}")
        for name in ("inode", "device"):
            before, after = getattr(self, name), getattr(now, name)
            if before != after and before and after:
                said.append(f"{name} {before}, now {after}")
        return "; ".join(said)

    def difference(self, now: FileState) -> str:
        """Say why `same` is False: "it had 100 bytes, now 200"."""
        if self.size != now.size:
            return f"it had {self.size:,} bytes, now {now.size:,}"
        if self.tag != now.tag:
            return f"its tag was {self.tag or 'none'}, now {now.tag or 'none'}"
        fine = self.written // _SECOND == now.written // _SECOND
        return f"it was written on {_spelled(self.written, fine)}, now on {_spelled(now.written, fine)}"


UNKNOWN = FileState(-1)
"""The state of a file that is missing, or that may change."""

_new = tuple.__new__  # a third of the time of FileState(…)


def _signed(number: int) -> int:
    """Return a number of 64 bits as tables hold it: inodes of some file systems are hashes, which need all of them."""
    return number if number < 1 << 63 else number - (1 << 64)


def _spelled(when: int, fine: bool) -> str:
    """Return a time, ns since 1970, in words; `fine` adds nanoseconds."""
    seconds, rest = divmod(when, _SECOND)
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds)) + (f".{rest:09d}" if fine else "") + " UTC"
