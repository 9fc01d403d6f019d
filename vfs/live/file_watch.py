"""Remembers what this process saw of files that are still being written: `SEEN` and `FrameFingerprint`.

Times that files say prove nothing: they are of the clock of another machine, or of a program that set them. So what
counts is when a look found a file other than the look before, by the clock of this process.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from vfs.errors import SourceError
from vfs.kernels.columns import FILE, START, STOP
from vfs.model.file_state import UNKNOWN, FileState
from vfs.model.files import Files
from vfs.model.region import Region
from vfs.model.sources import Sources
from vfs.model.stored import StoredArray
from vfs.sources.local import LocalSources

FINGERPRINT_BYTES = 1 << 16
"""Of a frame, at most."""
_TWICE = 2  # looks that find a file written and no longer: a header may be written anew once, at the end
_ROWS = 64  # read ranges of a frame of which bytes are remembered
_MAX_FILES = 10_000  # files that are remembered
_RUNS = 4096  # runs of zeros that are remembered of a file


def look_at(sources: Sources, path: str) -> FileState | None:
    """Look at a file or folder; None: it cannot be looked at."""
    with suppress(OSError, SourceError):
        return FileState.of(os.stat(path)) if isinstance(sources, LocalSources) else sources.state(path)
    return None


def tells_writes(state: FileState) -> bool:
    """Return False where no look tells that bytes were written in place: a server says no ETag and no Last-Modified."""
    return bool(state.written or state.tag or state.changed)


@dataclass
class Noticed:
    """What this process saw of a file.

    Attributes:
        look: the last look at it.
        since: when a look found it written last, or found it at all (monotonic seconds).
        grew: it was seen to become longer while it was filled up to its end.
        in_place: it was seen to be written without becoming longer, again and again.
        cut: it was seen to become shorter.
        sparse: holes were found in it, so its size came neither with zeros nor with space that is kept.
        dark: frames of zeros were found in it that somebody had written.
        doubts: runs of zeros that may be no pixels: first byte -> (bytes, when they were met first).
    """

    look: FileState
    since: float
    grew: bool = False
    cut: bool = False
    sparse: bool = False
    dark: bool = False
    doubts: dict[int, tuple[int, float]] = field(default_factory=dict)
    _written: int = 0
    _end: int = -1
    _filled: tuple[int, int] = (0, 0)

    @property
    def quiet(self) -> float:
        """Seconds for which nobody was seen to write it."""
        return time.monotonic() - self.since

    @property
    def in_place(self) -> bool:
        return self._written >= _TWICE

    def after(self, look: FileState) -> Noticed:
        """Return what is known after another look."""
        before, now = self.look, time.monotonic()
        if look == before:
            return self
        other = (look.device, look.inode) != (before.device, before.inode)
        if look.size < before.size or (other and look.size == before.size):
            return Noticed(look, now, cut=look.size < before.size)
        if look.size > before.size and self._filled == (before.size, 1):
            self.grew = True
        if not self.in_place:
            self._written = self._written + 1 if look.size == before.size else 0
        self.look, self.since = look, now
        return self

    def doubt(self, start: int, length: int) -> float:
        """Note a run of zeros that may be no pixels. Returns for how many seconds it is known."""
        now = time.monotonic()
        if len(self.doubts) >= _RUNS:
            self.doubts.clear()
        if self.doubts.get(start, (0, 0.0))[0] != length:
            self.doubts[start] = length, now
        return now - self.doubts[start][1]

    def note(self, end: int, filled: bool) -> None:
        """Note the byte up to which it is written, and if that is its end, but for less than a frame."""
        if not tells_writes(self.look) and end != self._end:
            self.since = time.monotonic()
        self._end, self._filled = end, (self.look.size, int(filled))


class FileWatch:
    """Remembers what was seen of files, by their paths. Safe for many threads."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, Noticed] = OrderedDict()
        self._lock = threading.Lock()

    def note(self, path: str, look: FileState) -> Noticed:
        """Note what a look at a file found. Returns what is known of it."""
        with self._lock:
            known = self._seen.get(path)
            found = Noticed(look, time.monotonic()) if known is None else known.after(look)
            self._seen[path] = found
            self._seen.move_to_end(path)
            while len(self._seen) > _MAX_FILES:
                self._seen.popitem(last=False)
            return found

    def look(self, sources: Sources, path: str) -> Noticed:
        """Look at a file. Returns what is known of it; of one that is not there, that it was seen just now."""
        return self.note(path, look_at(sources, path) or UNKNOWN)

    def of(self, files: Files, file: int) -> Noticed:
        """Look at a file of a set, of which the index is given. Servers were asked when the set was opened."""
        if isinstance(files.sources, LocalSources):
            return self.look(files.sources, files.paths[file])
        return self.note(files.paths[file], files.state(file))

    def look_at_last(self, files: Files, count: int) -> None:
        """Look at the last files of a set, so many at most."""
        for file in range(max(0, len(files) - count), len(files)):
            self.of(files, file)

    def peek(self, path: str) -> Noticed | None:
        """Return what is known of a file; None if it was not looked at."""
        return self._seen.get(path)

    def known(self, files: Files, file: int) -> Noticed:
        """Return what is known of a file without a look, if it was looked at before."""
        return self.peek(files.paths[file]) or self.of(files, file)

    def forget(self, paths: tuple[str, ...]) -> None:
        """Forget files that were begun anew: nothing that was seen of the old ones holds for the new ones."""
        with self._lock:
            for path in paths:
                self._seen.pop(path, None)


SEEN = FileWatch()
"""What this process saw. All sets share it, so a set that is opened again knows what its files did before."""


def quiet(paths: Iterable[str]) -> float:
    """Return the seconds for which nobody was seen to write any of some files; 0 if none was looked at."""
    return min((seen.quiet for path in paths if (seen := SEEN.peek(path)) is not None), default=0.0)


class FrameFingerprint:
    """Remembers bytes of the first and the last whole frame of an array, to tell if its files were begun anew.

    A program may write another acquisition into the same file, from its beginning on. If that is longer by the time
    that somebody looks, neither the name of the file nor its size tells. The bytes of frames that were whole tell:
    they never change while a set grows. Frames that hold the same values in both acquisitions tell nothing, nor do
    zeros: they may be what nobody had written yet.
    """

    def __init__(self, dataset: StoredArray) -> None:
        self._paths, self._sources = dataset.files.paths, dataset.files.sources
        self._numbers = _first_and_last(dataset)
        self._places = [place for n in self._numbers for place in places(dataset, n)]
        self._bytes = self._now()

    def __bool__(self) -> bool:
        return any(part.any() for part in self._bytes)

    def stay(self, dataset: StoredArray) -> bool:
        """Return True if these frames have the same places in the array as it is now: no file came in front of them."""
        now = [(dataset.files.paths[file], a) for n in self._numbers for file, a, _ in places(dataset, n)]
        return now == [(self._paths[file], a) for file, a, _ in self._places]

    def same(self) -> bool:
        """Return True if these frames are still there. False also if they cannot be read any more."""
        try:
            return all(
                len(a) == len(b) and not (a[b != 0] != b[b != 0]).any()
                for a, b in zip(self._now(), self._bytes, strict=True)
            )
        except SourceError:
            return False

    def _now(self) -> list[np.ndarray]:
        read = self._sources.read
        return [np.frombuffer(read(self._paths[k], start, stop - start), np.uint8) for k, start, stop in self._places]


def _first_and_last(dataset: StoredArray) -> list[int]:
    """Return the flat scan positions of the first and the last frame that are there."""
    frames = dataset.layout.frames
    if frames is not None and frames.in_order:
        held, head = dataset.held, dataset.written.head
        held = held if head is None else np.minimum(held, head - frames.offset)
        held = held[held[:, 0] < held[:, 1]]
        return sorted({int(held[0, 0]), int(held[-1, 1]) - 1}) if len(held) else []
    there = np.flatnonzero(dataset.valid.reshape(-1) & dataset.there_at(None).reshape(-1))
    return sorted({int(there[0]), int(there[-1])}) if len(there) else []


def places(dataset: StoredArray, position: int) -> list[tuple[int, int, int]]:
    """Return where bytes of a frame are: (file, first byte, the one behind the last), of its first read ranges."""
    nav = dataset.shape[: dataset.nav_ndim]
    at = np.unravel_index(position, nav)
    start = (*(int(n) for n in at), *[0] * (len(dataset.shape) - len(nav)))
    stop = (*(int(n) + 1 for n in at), *dataset.shape[len(nav) :])
    rows, _ = dataset.layout.read_ranges(Region(start, stop, (1,) * len(start)), _ROWS)
    most = max(1, FINGERPRINT_BYTES // max(1, len(rows)))
    return [(f, a, min(b, a + most)) for f, a, b in rows[:, (FILE, START, STOP)].tolist()]
