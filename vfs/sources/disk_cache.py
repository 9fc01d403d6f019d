"""Caches blocks of bytes in a folder of this machine.

Each is a file, whose name is a digest of what the bytes are. The digest and a checksum of both precede the bytes: a
block that was cut, damaged or renamed counts as absent.

Of files of servers a block is `BLOCK` bytes, fewer at the end of the file. The digest is of the URL and of what
the server's reply said the file to be: its ETag and size; without one, when it was written and its size. So a file that
was replaced has other blocks, and no name holds a URL. `vfs.reduce.level_store` keeps levels of images.

Several processes may use a folder. Blocks have temporary names until they are complete. A process that has
written a sixteenth of the folder's limit removes the least recently used blocks.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from zlib import crc32

from vfs.errors import OptionError, SourceError
from vfs.model.file_state import FileState
from vfs.model.wording import option
from vfs.new_files import put

BLOCK = 1 << 17
"""Bytes: a frame of 256 x 256 pixels, and what a reader of a few rows of it gets more than it asked for, at most."""
Put = Callable[[int, bytes | memoryview], None]
"""Takes (a byte of a file, what it and the next ones are)."""
_MARK = b"vfs block 1\n"
_DIGEST, _SUM = 32, 4
_BEFORE = len(_MARK) + _DIGEST + _SUM
_USED = 60.0
"""Seconds after which a use is noted again."""
_LEFT = 3600.0
"""Seconds after which a file under a temporary name was left behind by a process that was ended."""
_LOOKS = 16
"""The part of its size that is written between two looks through the folder is 1 / this."""


class DiskCache:
    """Blocks in a folder.

    Args:
        folder: absolute path. It is made, for this user only.
        size: bytes that all blocks together have at most, about: each process may add a sixteenth of it for a moment.
    """

    def __init__(self, folder: str, size: int) -> None:
        self.folder, self.size = folder, size
        self._written = size  # of all processes before: the first block looks through the folder
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type, tuple[str, int]]:
        return type(self), (self.folder, self.size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DiskCache) and self.__reduce__() == other.__reduce__()

    def __hash__(self) -> int:
        return hash((self.folder, self.size))

    def check(self, name: str = "cache_dir") -> None:
        """Make the folder, and see that nobody else could put blocks into it.

        Args:
            name: of the option that says it.

        Raises:
            OptionError: it cannot be used.
        """
        try:
            os.makedirs(self.folder, 0o700, exist_ok=True)
            found = os.stat(self.folder)
        except (OSError, ValueError) as error:  # a NUL in its name
            why = error.strerror if isinstance(error, OSError) else error
            raise OptionError(f"{option(**{name: self.folder})}: cannot be used: {why}") from None
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o022:
            raise OptionError(
                f"{option(**{name: self.folder})}: expected a folder of your own that nobody else can write to"
                " (chmod 700)"
            )

    def blocks(self, name: str, state: FileState, place: str) -> KeptBlocks | None:
        """Return the blocks of a file in a state; None if its server says too little to tell it from another one.

        Args:
            place: what else the meaning of a URL depends on, such as the endpoint of a store.
        """
        if state.size < 0 or not state.tells:
            return None
        said = place, name, state.tag, str(state.size), "" if state.proves else str(state.written)
        return KeptBlocks(self, sha256("\0".join(said).encode()), state.size)

    def get(self, digest: bytes, size: int) -> bytes | None:
        """Return the block that a digest names; None if it is not there with so many bytes, or damaged."""
        path = self._path(digest)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)  # a pipe may stand there
        except OSError:
            return None
        try:
            with open(fd, "rb", buffering=0) as file:
                found = os.fstat(fd)
                right = stat.S_ISREG(found.st_mode) and found.st_size == _BEFORE + size
                whole = file.read(_BEFORE + size + 1) if right else b""
                if time.time() - found.st_mtime > _USED:
                    os.utime(fd)
        except OSError:
            return None
        data = whole[_BEFORE:]
        if whole[:_BEFORE] != _head(digest, data) or len(data) != size:
            with suppress(OSError):
                os.unlink(path)
            return None
        return data

    def has(self, digest: bytes, size: int) -> bool:
        """Return True if there is a block of so many bytes of that name. It may be damaged."""
        try:
            found = os.stat(self._path(digest), follow_symlinks=False)
        except OSError:
            return False
        return stat.S_ISREG(found.st_mode) and found.st_size == _BEFORE + size

    def put(self, digest: bytes, data: bytes) -> OSError | None:
        """Keep a block. Where that is not possible (no room on the disk), it is not kept; return why."""
        path = self._path(digest)
        failed = None
        try:
            try:
                put(path, _head(digest, data) + data, mode=0o600)
            except FileNotFoundError:
                os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
                put(path, _head(digest, data) + data, mode=0o600)
        except OSError as error:
            failed = error
        with self._lock:
            self._written += _BEFORE + len(data)
            looks = self._written * _LOOKS >= self.size
            self._written = 0 if looks else self._written
        if looks:
            self._make_room()
        return failed

    def _path(self, digest: bytes) -> str:
        text = digest.hex()
        return f"{self.folder}/{text[:2]}/{text}"

    def _make_room(self) -> None:
        """Remove what was not used for longest until a sixteenth of the size is free."""
        found, now = [], time.time()
        for path, state in self._files():
            if path.endswith(".part") and now - state.st_mtime > _LEFT:
                with suppress(OSError):
                    os.unlink(path)
            else:
                found.append((state.st_mtime, state.st_size, path))
        total = sum(size for _, size, _ in found)
        room = self.size - self.size // _LOOKS
        for _, size, path in sorted(found):
            if total <= room:
                break
            with suppress(OSError):
                os.unlink(path)
            total -= size

    def _files(self) -> Iterator[tuple[str, os.stat_result]]:
        for first in range(256):
            with suppress(OSError), os.scandir(f"{self.folder}/{first:02x}") as entries:
                for entry in entries:
                    with suppress(OSError):
                        yield entry.path, entry.stat(follow_symlinks=False)


def _head(digest: bytes, data: bytes) -> bytes:
    """Return what stands before the bytes of a block."""
    return _MARK + digest + crc32(data, crc32(digest)).to_bytes(_SUM, "little")


class KeptBlocks:
    """The blocks of one file in one state.

    Args:
        start: a digest of both; size: bytes of the file.
    """

    def __init__(self, cache: DiskCache, start: object, size: int) -> None:
        self._cache, self._start, self.size = cache, start, size

    def _digest(self, number: int) -> bytes:
        made = self._start.copy()  # type: ignore[attr-defined]
        made.update(b"\0%d" % number)
        return bytes(made.digest())

    def _length(self, number: int) -> int:
        return min(BLOCK, self.size - number * BLOCK)

    def give(self, start: int, stop: int, put: Put) -> list[tuple[int, int]]:
        """Give those bytes of a range that are kept. Returns what is missing: (first byte, end), whole blocks."""
        missing: list[tuple[int, int]] = []
        stop = min(stop, self.size)
        for number in range(start // BLOCK, -(-stop // BLOCK)):
            first, length = number * BLOCK, self._length(number)
            data = self._cache.get(self._digest(number), length)
            if data is not None:
                into(put, start, stop)(first, data)
            elif missing and missing[-1][1] == first:
                missing[-1] = missing[-1][0], first + length
            else:
                missing.append((first, first + length))
        return missing

    def keep(self, first: int, data: bytearray) -> None:
        """Keep bytes of the file, which are whole blocks.

        Raises:
            SourceError: they are not.
        """
        if first % BLOCK or (len(data) % BLOCK and first + len(data) != self.size):
            raise SourceError(f"expected whole blocks, found {len(data)} bytes from {first} on")
        for at in range(0, len(data), BLOCK):
            self._cache.put(self._digest((first + at) // BLOCK), bytes(data[at : at + BLOCK]))


def into(
    put: Callable[[int, bytes | memoryview], None], start: int, stop: int
) -> Callable[[int, bytes | memoryview], None]:
    """Return what hands on those bytes that lie in a range."""

    def some(at: int, part: bytes | memoryview) -> None:
        lo, hi = max(start, at), min(stop, at + len(part))
        if lo < hi:
            put(lo, part[lo - at : hi - at])

    return some
