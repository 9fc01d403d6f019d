"""Looks at what is read of a set that is still being written for zeros that may be no pixels: `Doubts`.

Frames that nobody has written, or has written a part of, hold a run of zeros. A run is believed to be of pixels

- if it is shorter than a block, and no longer than four times the longest one in each of eight other frames;
- if it was first met `settle` seconds ago, and is shorter than a block, or something proves that it was written: what
  records of its format have (`Written.proof`), or that the disk, which knows holes, has none there. Once frames of
  a file were believed to be dark, those that are proved are, at once.

All others are a `NotYetError`. One that the disk knows to be a hole always is. `said_of_holes` says of any set which
frames are nothing but holes, and `without_holes` leaves these out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from vfs.errors import NotYetError, SourceError, size
from vfs.kernels.columns import FILE, S_BYTE, S_FILE, S_START, S_STOP, START, STOP
from vfs.live.file_watch import SEEN, places
from vfs.live.written_part import BLOCK, SHORT, WrittenPart
from vfs.model.files import Files
from vfs.model.layout import BlockLayout, FrameLayout, altered
from vfs.model.open_options import OpenOptions
from vfs.model.region import Region
from vfs.model.stored import StoredArray
from vfs.model.wording import option
from vfs.model.written import INDEX
from vfs.sources.holes import holes, tells_holes

_WORD = 8  # bytes that are compared at once
_MUCH = 4  # times as many bytes as before
_SAMPLES = 9  # frames with which one is compared: not all of them are being written just now
_ROWS = 1 << 20  # read ranges of an array that are asked for
_Samples = list[tuple[list[tuple[int, int, int]], int]]
"""Some frames: where their bytes are (file, start, stop), and the bytes of the longest run of zeros in each."""


@dataclass(frozen=True)
class Doubts:
    """Checks what is read of an array.

    Attributes:
        dataset: the array; files: its files, as they are read.
        options: `settle`, `give_up`.
    """

    dataset: StoredArray
    files: Files
    options: OpenOptions
    _sampled: list[_Samples] = field(default_factory=list, init=False, repr=False, compare=False)

    def check(self, file: int, ranges: np.ndarray) -> None:
        """Check that parts of a file are written, by what it holds now.

        Args:
            ranges: int64[n, ≥ 2], first bytes and those behind the last ones; n > 0.

        Raises:
            NotYetError: nothing proves that they are.
            SourceError: it cannot be read.
        """
        part = WrittenPart(self.files, self.options.settle, self.options.give_up)
        if part.as_it_is(file):
            return
        low, high = int(ranges[:, 0].min()), int(ranges[:, 1].max())
        begin = max(0, low - BLOCK) // _WORD * _WORD
        held = self.files.sources.read(self.files.paths[file], begin, high + BLOCK - begin)
        wrong = None
        for start, stop in (runs_of_zeros(np.frombuffer(held, np.uint8)) + begin).tolist():
            if ((ranges[:, 0] < stop) & (ranges[:, 1] > start)).any() and self._of_pixels(file, start, stop):
                why = self._doubt(part, file, start, stop)
                if why and wrong is None:  # all are noted
                    wrong = f"{self.files.paths[file]}: bytes {start:,} to {stop:,} are zeros, {why}"
        if wrong is not None:
            raise NotYetError(wrong, head=self.dataset.written.head or 0)

    def _of_pixels(self, file: int, start: int, stop: int) -> bool:
        """Return True if a run of zeros is not one of a header or of a gap."""
        layout = self.dataset.layout
        if isinstance(layout, FrameLayout):
            return layout.pixels_between(file, start, stop) >= min(SHORT, layout.pixel_bytes)
        rows = self._ranges
        return not len(rows) or bool(
            ((rows[:, FILE] == file) & (rows[:, START] < stop) & (rows[:, STOP] > start)).any()
        )

    @cached_property
    def _ranges(self) -> np.ndarray:
        """The read ranges of the array; none where there are too many."""
        return self.dataset.layout.read_ranges(Region.whole(self.dataset.shape), _ROWS)[0]

    def _doubt(self, part: WrittenPart, file: int, start: int, stop: int) -> str:
        """Return why a run of zeros may be no pixels; "" if it is believed to be."""
        seen, length = SEEN.known(self.files, file), stop - start
        if length >= BLOCK:
            if part.holes(file, start, stop):
                return "and the disk knows that nobody has written all of them"
            known = self.dataset.written.proof == INDEX or part.knows_holes(file)
            if not (known or self._has_proof(file, start, stop)):
                seen.doubt(start, length)
                return f"and nothing proves yet that they were written; {option(give_up=0)} takes the set as it is"
            if seen.dark and (known or self._is_dark(file, start, stop)):
                return ""
        elif length <= max(SHORT, _MUCH * self._in_others(file, start, stop)):
            return ""
        if seen.doubt(start, length) < self.options.settle:
            more = "a frame that is dark" if length >= BLOCK else "more than other frames have"
            return f"{more}; they are pixels if they are still there {self.options.settle:g} s after they were met"
        seen.dark |= length >= BLOCK
        return ""

    def _has_proof(self, file: int, start: int, stop: int) -> bool:
        """Return True if the records at both ends of a run have what proves that they were written."""
        proof, layout = self.dataset.written.proof, self.dataset.layout.frames
        if proof is None or layout is None:
            return False
        rows = layout.stream[layout.stream[:, S_FILE] == file]
        for at in (start, stop - 1):
            row = rows[(rows[:, S_BYTE] <= at) & (at < rows[:, S_BYTE] + rows[:, S_STOP] - rows[:, S_START])]
            if not len(row):
                continue
            first = row.item(0, S_BYTE)
            record = first + (at - first) // layout.stride * layout.stride
            if not any(self.files.sources.read(self.files.paths[file], record + proof.at, proof.size)):
                return False
        return True

    def _is_dark(self, file: int, start: int, stop: int) -> bool:
        """Return True if a run covers all pixels of the frames that it touches."""
        layout = self.dataset.layout
        if not isinstance(layout, FrameLayout):
            return False
        return layout.pixels_between(file, start, stop) % layout.pixel_bytes == 0

    def _samples(self) -> _Samples:
        """Return samples, which are read once. A `cached_property` of Python 3.11 has one lock for all sets: one whose
        file hangs would hold up all others.
        """
        if not self._sampled:
            self._sampled.append(self._read_samples())
        return self._sampled[0]

    def _read_samples(self) -> _Samples:
        frames = min(self.dataset.written.head or 0, math.prod(self.dataset.shape[: self.dataset.nav_ndim]))
        found = []
        for number in sorted({k * (frames - 1) // (_SAMPLES - 1) for k in range(_SAMPLES)}) if frames > 1 else ():
            at, longest = places(self.dataset, number), 0
            for file, start, stop in at:
                held = np.frombuffer(self.files.sources.read(self.files.paths[file], start, stop - start), np.uint8)
                longest = max(longest, int(np.diff(runs_of_zeros(held)).max(initial=0)))
            if at:
                found.append((at, longest))
        return found

    def _in_others(self, file: int, start: int, stop: int) -> int:
        """Return the least of the longest runs of zeros in frames that a run does not touch."""
        others = (
            longest
            for at, longest in self._samples()
            if not any(k == file and a < stop and b > start for k, a, b in at)
        )
        return min(found) if len(found := list(others)) >= _SAMPLES - 1 else 0


def said_of_holes(dataset: StoredArray) -> Iterator[str]:
    """Say of each file which frames and blocks are zeros only because its disk holds nothing there: a line each.

    Raises:
        SourceError: a file cannot be opened.
    """
    for file, parts in _holes(dataset).items():
        path, pixels, first = dataset.files.paths[file], 0, 0
        for begin, end in parts:
            within = _whole_pixels_between(dataset, file, begin, end)
            pixels, first = pixels + within, first if pixels else begin
        if pixels:
            yield (
                f"{path}: nothing proves that {size(pixels)} of its pixels were written, from byte {first:,} on: the"
                " disk holds no bytes there, and shows zeros"
            )


def without_holes(dataset: StoredArray) -> StoredArray:
    """Leave out the frames, and the blocks that decode in parts, of which a disk holds no byte: they are missing.

    Raises:
        SourceError: a file cannot be opened.
    """
    layout, parts = dataset.layout, _holes(dataset)
    if not parts or not isinstance(layout, FrameLayout | BlockLayout):
        return dataset
    return altered(dataset, layout=layout.without(parts))


def _holes(dataset: StoredArray) -> dict[int, Sequence[tuple[int, int]]]:
    """Return the holes of each file that has some, as far as its disk tells."""
    files, sources = dataset.files, dataset.files.sources
    if dataset.companion or dataset.computed:
        return {}
    told = {k: files.paths[k] for k in np.flatnonzero(files.sizes > 0).tolist() if tells_holes(sources, files.paths[k])}
    found = {k: holes(sources, path, 0, files.sizes.item(k)) for k, path in told.items()}
    return {k: parts for k, parts in found.items() if parts}


def _whole_pixels_between(dataset: StoredArray, file: int, start: int, stop: int) -> int:
    """Return how many bytes between two bytes of a file are of pixels, if these are a frame, or a block."""
    layout = dataset.layout
    if isinstance(layout, FrameLayout):
        found = layout.pixels_between(file, start, stop)
        return found if found >= layout.pixel_bytes else 0
    if layout.blocks is None:
        return 0
    at, first, nbytes, _ = layout.blocks.place.T
    inside = np.minimum(first + nbytes, stop) - np.maximum(first, start)
    frame = math.prod(dataset.shape[dataset.nav_ndim :]) * dataset.dtype.itemsize
    return int(inside[(at == file) & (inside > 0) & (inside >= np.minimum(nbytes, frame))].sum())


def runs_of_zeros(held: np.ndarray) -> np.ndarray:
    """Find the runs of zeros of `SHORT` bytes and more.

    Args:
        held: uint8[n].

    Returns: int64[m, 2], the first byte of each and the one behind its last, in words.
    """
    blank = held[: held.size // _WORD * _WORD].view(np.uint64) == 0
    if not blank.any():
        return np.empty((0, 2), np.int64)
    runs = np.flatnonzero(np.diff(blank.view(np.int8), prepend=0, append=0)).reshape(-1, 2) * _WORD
    return runs[runs[:, 1] - runs[:, 0] >= SHORT]


def may_be_blank(held: np.ndarray) -> bool:
    """Return True if bytes that were read hold zeros that have to be looked at: uint8[n], which may be few."""
    return len(runs_of_zeros(held)) > 0 or (held.size < SHORT + 2 * _WORD and not held.any())


def still_doubted(files: Sequence[Files]) -> bool:
    """Return True if zeros were met that are still there, and of which nothing proves that they were written."""
    every = ((one, path, SEEN.peek(path)) for one in files for path in one.paths)
    return any(_still(seen.doubts, one, path) for one, path, seen in every if seen is not None and seen.doubts)


def _still(doubts: dict[int, tuple[int, float]], files: Files, path: str) -> bool:
    for start, (length, _) in list(doubts.items()):
        try:
            if length >= BLOCK and not any(files.sources.read(path, start, length)):
                return True
        except SourceError:
            return True
        doubts.pop(start, None)
    return False
