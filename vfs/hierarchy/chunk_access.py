"""Whole chunks of an array: the one place where they are made, for the store, the pipeline and the mount.

A chunk is the file's own bytes where a backend maps the file and these are the answer; else it is
read into memory, and what was read is kept in the array's cache: for readers who come back for the
rest of a chunk (`Chunks.cached`) as long as there is room, for those who take it whole
(`Chunks.get`) until the next few were read. The same bytes in C order, without chunks, are what a
.npy file holds (`Chunks.run`).

Most arrays are cut into chunks of whole frames that lie one after the other in one file: one such
chunk is read like the next, but for where it begins. They are planned once, and from then on the
plan is shifted.

Where such a chunk lies in a mapped file, but in other byte order or with headers between its
frames, there is a `ChunkView` of it: nothing of it is decoded that is not looked at.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property, partial
from operator import sub
from typing import Any, NamedTuple, cast

import numpy as np

from vfs.buffers import lender
from vfs.engine.array import ArrayReader
from vfs.engine.reader import scratch_none
from vfs.errors import RegionError, SourceError
from vfs.kernels.locate import locate_one
from vfs.kernels.ranges import COLUMNS, FILE, LINES, START, STEP, STOP, by_file
from vfs.model.decode import PlainDecoder
from vfs.model.layout import FrameLayout
from vfs.model.region import Region, flat_boxes, select
from vfs.model.stored import TRIES

_NO_ROWS = np.empty((0, COLUMNS), np.int64)

MOST = 4096
"""Read ranges of a plan that is kept: a longer one takes much less time to make than what it says takes to read."""


class Chunks:
    """The chunks of an array, each filled up beyond the array's edge.

    Args:
        array: what reads boxes of it.
    """

    def __init__(self, array: ArrayReader) -> None:
        self.array = array
        # A kernel does all there is to do
        self._direct = (array.as_stored or array.converts) and array.groups.chunks == array.chunks
        self._blocks = array.decodes_whole and array.corrections is None and array.groups.chunks == array.chunks

    @cached_property
    def _plan(self) -> _Plan | None:
        return _plan(self.array)

    def kept(self, position: tuple[int, ...]) -> bool:
        """Say whether a chunk is in the cache."""
        return self.array.cache.peek((self.array.token, self.array.moved(0), position)) is not None

    def get(self, position: tuple[int, ...]) -> np.ndarray:
        """Return the bytes of a chunk: uint8[bytes of a chunk], read-only, because they are the
        file's, or shared with the next reader.

        Raises:
            RegionError: there is no such chunk.
            SourceError: the source cannot be read.
        """
        array, plan = self.array, self._plan
        run: tuple[int, int, int] | None = None
        if plan is not None:
            place = plan.place(position) if plan.straight else None
            run = None if place is None else (place[0], place[1] + plan.first, place[1] + plan.last)
        elif array.views:
            region = array.grid.region(position)
            run = array.straight(region) if region.shape == array.chunks else None
        if run is not None:
            try:
                return array.backend.span(*run, scratch_none)
            except SourceError as error:
                raise array.unread(error, array.grid.region(position)) from None
        key = array.token, array.moved(0), position
        made = array.cache.peek(key)
        if made is None:
            made = self.make(position, lender.lend(array.chunk_bytes))
            array.cache.passing(key, made)
        return made.reshape(-1).view(np.uint8)

    def cached(self, position: tuple[int, ...]) -> np.ndarray:
        """Return a chunk through the cache, for readers who come back for the rest of it: dtype[chunks], read-only.

        Raises:
            RegionError, SourceError: see `get`.
        """
        return self.array.cache.get((self.array.token, self.array.moved(0), position), partial(self.make, position))

    def make(self, position: tuple[int, ...], memory: np.ndarray | None = None) -> np.ndarray:
        """Read a chunk.

        Args:
            memory: uint8[bytes of a chunk] that it is written to; None: new memory.

        Returns: dtype[chunks], C-contiguous, in that memory.

        Raises:
            RegionError, SourceError: see `get`.
        """
        array, plan = self.array, self._plan
        out = np.empty(array.chunks, array.dtype) if memory is None else memory.view(array.dtype).reshape(array.chunks)
        flat, before = out.reshape(-1), array.moved(0)
        place = None if plan is None else plan.place(position)
        region, done = None, True
        try:
            if plan is not None and place is not None:
                array.fetch(plan.rows(*place), flat)
            else:
                region = array.grid.region(position)
                whole = tuple(map(sub, region.stop, region.start)) == array.chunks
                rows, covered = array.plan(region, flat) if self._direct and whole else (_NO_ROWS, -1)
                done = covered >= 0 or (self._blocks and whole)
                if covered >= 0:
                    array.fetch(rows, flat)
                elif done:
                    array.gather_blocks(region, out)
        except SourceError as error:
            raise array.unread(error, array.grid.region(position)) from None
        if not done or array.moved(0) != before:
            self._read_apart(region or array.grid.region(position), out)
        return out

    def _read_apart(self, region: Region, out: np.ndarray) -> None:
        """Read a chunk that sticks out of the array, is read together with others or is corrected,
        or whose files were touched meanwhile.
        """
        array, inside = self.array, out
        if region.shape != array.chunks:
            out[...] = array.fill
            inside = out[tuple([slice(0, n) for n in region.shape])]
        if array.groups.chunks != array.chunks:
            array.read_grouped(region, array.groups, inside)
        else:
            array.read_box(region, inside)

    def run(self, start: int, stop: int, position: tuple[int, ...] | None = None) -> np.ndarray:
        """Read the bytes `start` to `stop` (half-open) of the array in C order, or of the chunk at
        `position`, and no others.

        Returns: uint8[stop - start].

        Raises:
            RegionError, SourceError: see `get`.
        """
        array, width = self.array, self.array.dtype.itemsize
        first, last = start // width, -(-stop // width)
        shape, inside = (array.shape, None) if position is None else (array.chunks, array.grid.region(position))
        out = np.empty(last - first, array.dtype)
        for _ in TRIES:  # until all boxes were read in one state of the files
            before, done = array.moved(0), 0
            for box in flat_boxes(shape, first, last):
                part = out[done : done + box.size]
                done += part.size
                there, to = box, part.reshape(box.shape)
                if inside is not None:  # of a chunk, which may stick out of the array
                    there = box.placed(inside)
                    part.fill(array.fill)
                    to = to[tuple([slice(0, n) for n in there.shape])]
                if there.size:
                    array.read_box(there, to)
            if array.moved(0) == before:
                return out.view(np.uint8)[start - first * width : stop - first * width]
        raise array.dataset.files.restless()

    @cached_property
    def viewed(self) -> bool:
        """True where chunks lie in mapped files and decode as fast as memory is copied, so that
        there may be a `view` of each.
        """
        array = self.array
        return (
            not array.backend.copies
            and array.as_stored
            and isinstance(array.dataset.decoder, PlainDecoder)
            and self._plan is not None
            and not self._plan.straight
        )

    def view(self, position: tuple[int, ...]) -> ChunkView | None:
        """A chunk that is decoded when it is looked at; None where `get` is the way.

        Raises:
            SourceError: the file is not the one that was opened, or too short.
        """
        array, plan = self.array, self._plan
        place = plan.place(position) if plan is not None and self.viewed else None
        if plan is None or place is None:
            return None
        file, base = place
        try:
            stored = array.backend.span(file, base + plan.first, base + plan.last, scratch_none)
        except SourceError as error:
            raise array.unread(error, array.grid.region(position)) from None
        return ChunkView(StoredChunk(array, position, plan, stored), np.dtype(np.uint8), (array.chunk_bytes,))


class _Plan:
    """Read ranges of a chunk of `count` frames that lie one after the other in one file, counted
    from the first byte of its first frame.

    Attributes:
        nav: number of navigation axes; count: frames in a chunk.
        ranges: of the whole chunk; frame: of its first frame. They begin at `first` and end at `last`.
        straight: one range of native bytes is the chunk.
    """

    def __init__(
        self, array: ArrayReader, layout: FrameLayout, count: int, ranges: np.ndarray, frame: np.ndarray
    ) -> None:
        self.nav = nav = len(layout.nav_shape)
        self.layout = layout
        self.frame = by_file(frame) if len(frame) > 1 else frame
        self.count = count
        self.length = count * layout.stride - layout.header  # bytes from the first frame on
        self.ranges = by_file(ranges) if len(ranges) > 1 else ranges
        inner = [math.prod(array.shape[k + 1 : nav]) for k in range(nav)]
        # of every axis: chunks that are whole, and how many frames further the next one begins
        self.axes = [
            (n // c, c * inner[k] if k < nav else 0)
            for k, (n, c) in enumerate(zip(array.shape, array.chunks, strict=True))
        ]
        self.first, self.last = int(ranges[:, START].min()), int(ranges[:, STOP].max())
        self.straight = (
            array.views
            and len(ranges) == 1
            and ranges[0, STEP] == 1
            and ranges[0, LINES] <= 1
            and self.last - self.first == array.chunk_bytes
        )

    def place(self, position: tuple[int, ...]) -> tuple[int, int] | None:
        """Return (file, byte where the first frame's record begins); None for a chunk that does not
        lie as the plan says.
        """
        first = 0
        for p, (whole, step) in zip(position, self.axes, strict=True):
            if not 0 <= p < whole:
                return None
            first += p * step
        file, byte, left = locate_one(first, *self.layout.how, self.layout.stream)
        if left < self.length or first + self.layout.offset + self.count > self.layout.stored:
            return None
        return file, byte - self.layout.header

    def rows(self, file: int, base: int) -> np.ndarray:
        """Return the read ranges of the chunk that begins at a byte of a file: those of the plan, shifted."""
        made = self.ranges.copy()
        made[:, START : STOP + 1] += base
        made[:, FILE] = file
        return made


def _plan(array: ArrayReader) -> _Plan | None:
    """Plan the chunks of an array; None where they are not whole frames that lie one after the
    other as they are stored.
    """
    layout, chunks = array.dataset.layout, array.chunks
    if (
        type(layout) is not FrameLayout
        or layout.chosen is not None
        or not (array.as_stored or array.converts)
        or array.accumulates
        or array.groups.chunks != chunks
    ):
        return None
    nav = len(layout.nav_shape)
    # The first axis of which a chunk has more than one position
    cut = next((k for k in range(nav) if chunks[k] != 1), nav)
    if chunks[cut + 1 :] != array.shape[cut + 1 :] or chunks[nav:] != array.shape[nav:]:
        return None
    count = math.prod(chunks[:nav])
    alone = np.array([[0, count * layout.stride, 0, 0]], np.int64)
    first = replace(layout, nav_shape=(count,), stream=alone, stored=count, offset=0)
    ranges, covered = first.read_ranges(Region.whole(first.shape), MOST)
    if covered != math.prod(chunks) or not covered:
        return None
    frame, _ = first.read_ranges(Region.whole((1, *layout.sig_shape)), MOST)
    return _Plan(array, layout, count, ranges, frame)


class StoredChunk(NamedTuple):
    """A chunk as it lies in a mapped file: `data` are the bytes that its plan calls `first` to `last`."""

    array: ArrayReader
    position: tuple[int, ...]
    plan: _Plan
    data: np.ndarray


class ChunkView:
    """A chunk that is decoded when it is looked at, and as much of it as is looked at: what a view
    of a mapped file is to plain bytes.

    It does what zarr's buffers and codecs ask of arrays (`ArrayLike`, `NDArrayLike`): seen as
    bytes, as elements or in the chunk's shape it stays what it is; whatever else is done with it is
    done with a numpy array of its elements. It is read-only.
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, stored: StoredChunk, dtype: np.dtype, shape: tuple[int, ...]) -> None:
        self._stored = stored
        self.dtype = dtype
        self.shape = shape

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("a chunk that is decoded when it is looked at cannot become a numpy array without a copy")
        made = self._decoded(0, self._stored.plan.count).view(self.dtype).reshape(self.shape)
        return made if dtype is None else made.astype(dtype, copy=False)

    def __getitem__(self, key: Any) -> Any:
        array, position, plan, _ = self._stored
        if self.shape != array.chunks or self.dtype != array.dtype:
            return np.asarray(self)[key]
        parts = key if type(key) is tuple else (key,)
        frame = _frame(parts, self.shape[: plan.nav])
        if frame is not None:
            one = self._decoded(frame, 1).view(self.dtype).reshape((1,) * plan.nav + self.shape[plan.nav :])
            return one[
                tuple(slice(None) if type(part) is slice else 0 for part in parts[: plan.nav]) + parts[plan.nav :]
            ]
        try:
            chosen = None if parts and _most(parts[0], self.shape[0]) else select(key, self.shape)
        except RegionError:  # no box, or none of this chunk: numpy knows
            chosen = None
        if chosen is None or chosen.region.size * 2 > self.size:
            return np.asarray(self)[key]
        region = chosen.region
        start, stop = (
            tuple(p * c + a for p, c, a in zip(position, array.chunks, ends, strict=True))
            for ends in (region.start, region.stop)
        )
        part = lender.lend(region.size * self.dtype.itemsize).view(self.dtype).reshape(region.shape)
        return array.read(Region(start, stop, region.step), part)[chosen.post]

    def _decoded(self, frame: int, count: int) -> np.ndarray:
        """Decode one frame of the chunk, or all of them. Returns uint8[bytes of the elements]."""
        array, _, plan, data = self._stored
        memory = lender.lend(array.chunk_bytes // plan.count * count)
        ranges, at = (
            (plan.ranges, plan.first) if count == plan.count else (plan.frame, plan.first - frame * plan.layout.stride)
        )
        cast(PlainDecoder, array.dataset.decoder).decode(ranges, data, at, memory.view(array.dtype))
        return memory

    def view(self, dtype: Any) -> Any:
        if self.ndim == 1 and np.dtype(dtype) == self._stored.array.dtype:
            return ChunkView(self._stored, np.dtype(dtype), (self.nbytes // np.dtype(dtype).itemsize,))
        return np.asarray(self).view(dtype)

    def reshape(self, *shape: Any, **more: Any) -> Any:
        wanted = shape[0] if len(shape) == 1 else shape
        if wanted == self._stored.array.chunks and self.dtype == self._stored.array.dtype and not more:
            return ChunkView(self._stored, self.dtype, wanted)
        return np.asarray(self).reshape(*shape, **more)

    def __setitem__(self, key: Any, value: Any) -> None:
        raise ValueError("a chunk is read-only")

    def fill(self, value: Any) -> None:
        raise ValueError("a chunk is read-only")

    def astype(self, dtype: Any, *args: Any, **more: Any) -> np.ndarray:
        return np.asarray(self).astype(dtype, *args, **more)

    def copy(self) -> np.ndarray:
        return np.array(self)

    def transpose(self, *axes: Any) -> np.ndarray:
        return np.asarray(self).transpose(*axes)

    def ravel(self, *args: Any) -> np.ndarray:
        return np.asarray(self).ravel(*args)

    def all(self) -> Any:
        return np.asarray(self).all()

    def __eq__(self, other: object) -> Any:
        return np.asarray(self) == other

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # not the ways to memory that goes with the array it belongs to
            raise AttributeError(name)
        return getattr(np.asarray(self), name)


def _frame(parts: tuple[Any, ...], nav_shape: tuple[int, ...]) -> int | None:
    """Return the frame of a chunk that the first parts of an index choose; None where they choose more than one."""
    if len(parts) < len(nav_shape):
        return None
    frame = 0
    for part, n in zip(parts, nav_shape, strict=False):
        if type(part) is slice:
            at = part.start or 0
            if part.step not in (1, None) or (n if part.stop is None else part.stop) - at != 1:
                return None
        elif type(part) is int or isinstance(part, np.integer):
            at = int(part)
        else:
            return None
        if not 0 <= at < n:
            return None
        frame = frame * n + at
    return frame


def _most(part: Any, n: int) -> bool:
    """Say whether part of an index obviously takes most of an axis."""
    return (
        type(part) is slice
        and part.step in (1, None)
        and ((n if part.stop is None else part.stop) - (part.start or 0)) * 2 > n
    )


def _bytes(chunk: np.ndarray) -> np.ndarray:
    return chunk.reshape(-1).view(np.uint8)
