"""Plans how chunks of whole frames are read that lie one after the other in one file.

Such chunks differ only in the byte at which they begin, so one plan does for all of them.

What is small and lies in the page cache is read and decoded by one kernel, in less time than the way to a thread
and back takes (`AtHand`).
"""

from __future__ import annotations

import math
from functools import cached_property, partial
from typing import NamedTuple, cast

import numpy as np

from vfs import kernels
from vfs.backends import Backend
from vfs.buffers import scratch
from vfs.engine.array import ArrayReader
from vfs.engine.frame_run import FrameRun
from vfs.engine.reader import INTO_PLACE, Way
from vfs.kernels.columns import COUNT, DEST, FILE, LINES, NEXT, NO_ROWS, PITCH, PLANE, START, STEP, STOP
from vfs.model.decode import Decoder
from vfs.model.layout import FrameLayout
from vfs.model.region import Region

MAX_PLAN_RANGES = 4096
"""Most read ranges of a plan that is kept: a longer plan takes much less time to make than to read."""

WORTH_A_THREAD = 1 << 19
"""Bytes. Making more of them takes longer than the way to a thread and back."""

PIECE = 1 << 20
"""Bytes of a piece of a chunk, about. Smaller pieces wake the reader more often: a request of 8 MiB over one connection
took 3.9 ms with 256 KiB, 3.0 with 1 MiB and 3.9 with 8 MiB.
"""
LARGEST_FRAME = 4 << 20  # bytes of a frame that is a piece

MAX_BETWEEN = 4
"""Bytes of a frame's record that are read, at most, for each that is decoded."""

MAX_BOX_RANGES = 64  # read ranges of a box that is read where it is at hand


class ChunkPlan:
    """Holds the read ranges of a chunk whose frames lie one after the other in one file.

    Bytes count from the first byte of the record of its first frame.

    Attributes:
        nav: number of navigation axes.
        count: number of frames in a chunk.
        ranges: read ranges of the whole chunk, from byte `first` to byte `last`.
        frame: read ranges of its first frame.
        run: True if the chunk is one range of native bytes, which needs no decoding.
        straight: True if such a chunk lies in a mapped file.
    """

    def __init__(
        self, array: ArrayReader, layout: FrameLayout, count: int, ranges: np.ndarray, frame: np.ndarray
    ) -> None:
        self.nav = nav = len(layout.nav_shape)
        self.layout = layout
        self.frame = kernels.ranges.by_file(frame) if len(frame) > 1 else frame
        self.count = count
        self.length = count * layout.stride - layout.header  # bytes from the first frame on
        self.ranges = kernels.ranges.by_file(ranges) if len(ranges) > 1 else ranges
        inner = [math.prod(array.shape[k + 1 : nav]) for k in range(nav)]
        # For each axis: number of whole chunks, and number of frames from a chunk to the next one
        self.axes = [
            (n // c, c * inner[k] if k < nav else 0)
            for k, (n, c) in enumerate(zip(array.shape, array.chunks, strict=True))
        ]
        self.first, self.last = int(ranges[:, START].min()), int(ranges[:, STOP].max())
        self.run = (
            array.way is Way.NATIVE
            and len(ranges) == 1
            and ranges[0, STEP] == 1
            and ranges[0, LINES] <= 1
            and self.last - self.first == array.chunk_bytes
        )
        self.straight = self.run and array.views
        self.array = array

    @cached_property
    def at_hand(self) -> AtHand | None:
        """How the chunk is read where it is at hand; None if it never is."""
        return _at_hand(self.array, self.ranges)

    @cached_property
    def pieces(self) -> Pieces | None:
        """How the chunk is made piece by piece; None if a kernel's step does not do."""
        return _pieces(self)

    def place(self, position: tuple[int, ...]) -> tuple[int, int] | None:
        """Return (file, byte at which the record of a chunk's first frame begins).

        Return None if the plan does not fit the chunk: it is not whole, or lies in several files.
        """
        first = 0
        for p, (whole, step) in zip(position, self.axes, strict=True):
            if not 0 <= p < whole:
                return None
            first += p * step
        file, byte, left = kernels.locate.locate_one(first, *self.layout.how, self.layout.stream)
        if left < self.length or first + self.layout.offset + self.count > self.layout.stored:
            return None
        return file, byte - self.layout.header

    def rows(self, file: int, base: int) -> np.ndarray:
        """Return the read ranges of the chunk that begins at byte `base` of a file."""
        made = self.ranges.copy()
        made[:, START : STOP + 1] += base
        made[:, FILE] = file
        return made


def _run_of(array: ArrayReader) -> FrameRun | None:
    """Return how frames lie that differ only in where they begin and that kernels put into place, else None."""
    run = array.frame_run
    if run is None or array.way not in INTO_PLACE or array.accumulates:
        return None
    return run if run.layout.periodic and run.layout.in_order else None


def plan_of(array: ArrayReader) -> ChunkPlan | None:
    """Plan the chunks of an array.

    Return None if chunks are not whole frames that lie one after the other in the files.
    """
    run, chunks = _run_of(array), array.chunks
    if run is None or array.groups.chunks != chunks:
        return None
    nav = len(run.layout.nav_shape)
    # The first axis along which a chunk has more than one position
    cut = next((k for k in range(nav) if chunks[k] != 1), nav)
    if chunks[cut + 1 :] != array.shape[cut + 1 :] or chunks[nav:] != array.shape[nav:]:
        return None
    count = math.prod(chunks[:nav])
    first = run.alone(count)
    ranges, covered = first.read_ranges(Region.whole(first.shape), MAX_PLAN_RANGES)
    if covered != math.prod(chunks) or not covered:
        return None
    return ChunkPlan(array, run.layout, count, ranges, run.rows)


class FrameStep(NamedTuple):
    """Says how one kernel's step decodes frames whose bytes are in memory.

    Attributes:
        step: address of the step, see `vfs.kernels.steps`.
        ranges: read ranges of a frame, or of several, in bytes from the record of the first one on.
        rows: number of ranges of a frame.
    """

    step: int
    ranges: np.ndarray
    rows: int

    @classmethod
    def of(cls, array: ArrayReader, ranges: np.ndarray) -> FrameStep | None:
        """Say how ranges of one frame are decoded; None if one step does not do.

        Args:
            array: its decoder works on ranges.
        """
        decoder = cast(Decoder, array.dataset.decoder)
        step = decoder.step(array.dtype)
        if step is None or decoder.accumulates:
            return None
        rows = ranges if decoder.takes_lines else kernels.ranges.in_lines(ranges, 0)
        return cls(step, rows, len(rows))

    @classmethod
    def in_parts(cls, array: ArrayReader) -> FrameStep | None:
        """Say how a frame is decoded of which any part may be decoded by itself; None if it is not so.

        It is so where the ranges have all elements, no two lines of one overlap in the output, or each of them has one
        element of every channel, and the file has not much else between them.
        """
        run = array.frame_run
        if run is None or not (array.way in INTO_PLACE and run.layout.periodic and run.rows.size) or array.accumulates:
            return None
        rows = run.rows
        lines, count, by, after = np.maximum(1, rows[:, LINES]), rows[:, COUNT], abs(rows[:, STEP]), abs(rows[:, NEXT])
        channels = (by > (lines - 1) * after) & (count <= MAX_BETWEEN)
        apart = (lines == 1) | (after > (count - 1) * by) | channels
        if not apart.all() or (count * lines)[rows[:, PLANE] == 0].sum() != run.size:
            return None
        made = cls.of(array, rows)
        wanted = lines * (rows[:, STOP] - rows[:, START] - (lines - 1) * rows[:, PITCH])
        return made if made is not None and made.span <= MAX_BETWEEN * wanted.sum() else None

    @property
    def first(self) -> int:
        """The first byte of a frame's record that is wanted."""
        return int(self.ranges[: self.rows, START].min())

    @property
    def span(self) -> int:
        """Bytes from there to the end of the last one that is wanted."""
        return int(self.ranges[: self.rows, STOP].max()) - self.first


class AtHand(NamedTuple):
    """Ranges of one file that lie close together, to be read at once where the page cache has them.

    Attributes:
        step: address of the step that decodes them, see `vfs.kernels.steps`; 0 if the bytes are the output.
        ranges: in bytes of the file, or in those of a plan; from byte `first` to byte `last`.
        to: with step 0, byte of the output that is the first of them.
    """

    step: int
    ranges: np.ndarray
    first: int
    last: int
    to: int

    @staticmethod
    def load() -> None:
        """Load the kernel that reads, before the thread of an event loop would wait for it."""
        nothing = np.empty(0, np.uint8)
        kernels.native.at_hand.read(NO_ROWS, 0, nothing, nothing, 0, 0, -1, np.zeros(3, np.int64))

    def read(self, backend: Backend, file: int, base: int, out: np.ndarray) -> bool:
        """Read and decode them, without waiting for a disk. Return False if that cannot be.

        Args:
            base: byte of the file that is byte 0 of the ranges.
            out: uint8, the output.
        """
        step, ranges, first, last, to = self
        if step == 0:
            read = partial(kernels.native.at_hand.read, ranges, step, out[to : to + last - first], out, base, first)
            return backend.at_hand(file, base + first, base + last, read)
        with scratch.borrow(last - first) as memory:
            read = partial(kernels.native.at_hand.read, ranges, step, memory[: last - first], out, base, first)
            return backend.at_hand(file, base + first, base + last, read)


def _at_hand(array: ArrayReader, ranges: np.ndarray) -> AtHand | None:
    """Say how ranges of one file are read at once; None if they are far apart or need more than a step.

    Args:
        array: its decoder works on ranges.
    """
    straight = len(ranges) == 1 and ranges.item(0, STEP) == 1 and ranges.item(0, LINES) <= 1
    first, last = int(ranges[:, START].min()), int(ranges[:, STOP].max())
    if last - first > 2 * WORTH_A_THREAD:
        return None
    bare = straight and array.way is Way.NATIVE
    decoding = FrameStep(0, ranges, 1) if bare else FrameStep.of(array, ranges)
    if decoding is None:
        return None
    return AtHand(decoding.step, decoding.ranges, first, last, ranges.item(0, DEST) * array.dtype.itemsize)


class Pieces(NamedTuple):
    """Says how a chunk is made of pieces: some frames each, one after the other, by one kernel's step.

    Bytes count from the first byte of the record of a piece's first frame.

    Attributes:
        decoding: how a piece is decoded, with its ranges frame by frame; None if its bytes are those of the chunk.
        frames: number of frames of a piece.
        first: the first byte of a frame that is wanted.
        span: bytes from there to the last one that is wanted.
    """

    decoding: FrameStep | None
    frames: int
    first: int
    span: int


def _pieces(plan: ChunkPlan) -> Pieces | None:
    array, frame = plan.array, plan.frame
    size = math.prod(plan.layout.sig_shape) * array.dtype.itemsize
    if plan.run:
        return Pieces(None, plan.count, plan.first, size)
    first, last = int(frame[:, START].min()), int(frame[:, STOP].max())
    one = FrameStep.of(array, frame) if max(size, last - first) <= LARGEST_FRAME else None
    if one is None:
        return None
    count = max(1, min(plan.count, PIECE // size))
    ranges = np.tile(one.ranges, (count, 1))
    number = np.repeat(np.arange(count), one.rows)
    ranges[:, START] += number * plan.layout.stride
    ranges[:, STOP] += number * plan.layout.stride
    ranges[:, DEST] += number * (size // array.dtype.itemsize)
    return Pieces(FrameStep(one.step, ranges, one.rows), count, first, last - first)


class RunPlan(NamedTuple):
    """Plans how elements that follow one another in C order are read, where each frame lies so in a file.

    Attributes:
        size: elements of a frame, which lie at byte `begin` of its record, one after the other.
        step: see `AtHand`.
    """

    array: ArrayReader
    layout: FrameLayout
    size: int
    begin: int
    step: int

    def read(self, first: int, last: int, out: np.ndarray) -> bool:
        """Read elements of the array if they are at hand, without waiting for a disk.

        Args:
            first, last: flat indices, half-open.
            out: uint8[bytes of these elements].

        Returns: False if that cannot be.
        """
        frames = range(first // self.size, -(-last // self.size))
        if len(frames) > MAX_BOX_RANGES:
            return False
        width = self.array.stored.itemsize
        for frame in frames:
            at = max(first, frame * self.size)
            count = min(last, (frame + 1) * self.size) - at
            file, byte, left = kernels.locate.locate_one(frame, *self.layout.how, self.layout.stream)
            skip = (at - frame * self.size) * width
            if left < skip + count * width:  # it is blank, or goes on in another file
                return False
            start = byte - self.layout.header + self.begin + skip
            stop = start + count * width
            row = np.array([[file, start, stop, at - first, 1, 0, count, 0, 1, 0, 0]], np.int64)
            to = (at - first) * self.array.dtype.itemsize
            if not AtHand(self.step, row, start, stop, to).read(self.array.backend, file, 0, out):
                return False
        return True


def run_plan(array: ArrayReader) -> RunPlan | None:
    """Plan how elements in C order are read. None if frames do not lie so, or need more than a kernel's step."""
    run = _run_of(array)
    if run is None:
        return None
    size, frame = run.size, run.rows
    if (
        not size
        or run.layout.word_pixels != 1
        or len(frame) != 1
        or frame.item(0, STEP) != 1
        or frame.item(0, LINES) > 1
        or frame.item(0, STOP) - frame.item(0, START) != size * array.stored.itemsize
    ):
        return None
    step = 0 if array.way is Way.NATIVE else cast(Decoder, array.dataset.decoder).step(array.dtype)
    return None if step is None else RunPlan(array, run.layout, size, frame.item(0, START), step)
