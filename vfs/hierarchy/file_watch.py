"""Remembers what was seen of files that are still being written: `FileWatch`, and `FrameMarks` of what was in them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from vfs.errors import SourceError
from vfs.hierarchy.written_part import AT_REST, UNIT, Quiet
from vfs.kernels.columns import FILE, START, STOP
from vfs.model.files import Files
from vfs.model.layout import FrameLayout
from vfs.model.region import Region
from vfs.model.stored import StoredArray

_TWICE = 2  # looks that find a file written and no longer: a header may be written anew once, at the end
_ROWS = 64  # read ranges of a frame of which bytes are compared


class FileLook(NamedTuple):
    """What a look at a file finds: what tells if it is the same file, and what tells if it was written."""

    device: int
    inode: int
    size: int
    written: int


class FileWatch:
    """Remembers how files were written: a `vfs.hierarchy.written_part.Writing`."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[tuple[int, int], float]] = {}  # path -> (size, time of writing), since when
        self._filled: dict[str, tuple[int, bool]] = {}  # path -> its size, and if it was filled up to its end
        self._grew: set[str] = set()
        self._in_place: dict[str, int] = {}  # path -> looks that found it written and no longer
        self._cut: set[str] = set()  # that became shorter
        self._last: Mapping[str, FileLook] = {}

    def look(self, found: Mapping[str, FileLook]) -> None:
        """Note what a look at the files found."""
        for path, now in found.items():
            before = self._last.get(path)
            size, filled = self._filled.get(path, (now.size, False))
            if now.size > size and filled:
                self._grew.add(path)
            if before is None or before == now or self._in_place.get(path, 0) >= _TWICE:
                continue
            self._in_place[path] = self._in_place.get(path, 0) + 1 if now.size == before.size else 0
        self._last = found

    def quiet(self, files: Files, file: int) -> Quiet:
        path, state = files.paths[file], (int(files.sizes[file]), int(files.written[file]))
        now = time.monotonic()
        known = self._since.get(path)
        if known is not None and state[0] < known[0][0]:
            self._cut.add(path)
        if known is None or known[0] != state:
            known = self._since[path] = state, now
        seconds = max(now - known[1], AT_REST.quiet(files, file).seconds)
        return Quiet(seconds, path in self._grew, self._in_place.get(path, 0) >= _TWICE, path in self._cut)

    def note(self, files: Files, file: int, filled: bool) -> None:
        self._filled[files.paths[file]] = int(files.sizes[file]), filled


class FrameMarks:
    """Remembers bytes of the first and the last whole frame of an array, to tell if its files were begun anew.

    A program may write another acquisition into the same file, from its beginning on. If that is longer by the time
    that somebody looks, neither the name of the file nor its size tells. The bytes of frames that were whole tell:
    they never change while a set grows. Frames that hold the same values in both acquisitions tell nothing.
    """

    def __init__(self, dataset: StoredArray) -> None:
        self._paths, self._sources = dataset.files.paths, dataset.files.sources
        self._places = [place for n in _first_and_last(dataset) for place in _places(dataset, n)]
        self._digest = self._now()

    def same(self) -> bool:
        """Return True if these frames are still there. False also if they cannot be read any more."""
        try:
            return self._now() == self._digest
        except SourceError:
            return False

    def _now(self) -> bytes:
        found = blake2b(digest_size=16)
        for file, start, stop in self._places:
            found.update(self._sources.read(self._paths[file], start, stop - start))
        return found.digest()


def _first_and_last(dataset: StoredArray) -> list[int]:
    """Return the flat scan positions of the first and the last frame that are there."""
    frames = dataset.layout.frames
    if frames is not None and frames.in_order:
        held = dataset.held if dataset.head is None else np.minimum(dataset.held, dataset.head - frames.offset)
        held = held[held[:, 0] < held[:, 1]]
        return sorted({int(held[0, 0]), int(held[-1, 1]) - 1}) if len(held) else []
    there = np.flatnonzero(dataset.valid.reshape(-1) & dataset.written(None).reshape(-1))
    return sorted({int(there[0]), int(there[-1])}) if len(there) else []


def _places(dataset: StoredArray, position: int) -> list[tuple[int, int, int]]:
    """Return where bytes of a frame are: (file, first byte, the one behind the last), of its first read ranges."""
    nav = dataset.shape[: dataset.nav_ndim]
    at = np.unravel_index(position, nav)
    start = (*(int(n) for n in at), *[0] * (len(dataset.shape) - len(nav)))
    stop = (*(int(n) + 1 for n in at), *dataset.shape[len(nav) :])
    region, layout = Region(start, stop, (1,) * len(start)), dataset.layout
    alone = layout.range_of_frame(region) if isinstance(layout, FrameLayout) else None
    rows, _ = alone or layout.read_ranges(region, _ROWS)  # the kernel may have to be compiled first
    most = max(1, UNIT // max(1, len(rows)))
    return [(f, a, min(b, a + most)) for f, a, b in rows[:, (FILE, START, STOP)].tolist()]
