"""Makes whole chunks of an array, for the store, the pipeline and the mount.

If a backend maps the file and the chunk is stored as it is shown, a chunk is a view of the file's
own bytes. Else it is read into memory and kept in the array's cache. Readers who come back for the
rest of a chunk use `Chunks.cached`: their chunk is kept as long as there is room. Readers who take
a chunk whole use `Chunks.get`: their chunk is kept until the next few were read. `Chunks.run` reads
bytes of the array in C order, without chunks, as a .npy file holds them.

Most arrays are cut into chunks of whole frames that lie one after the other in one file. Such
chunks differ only in the byte at which they begin. So the read is planned once, and the plan is
shifted for each chunk.

If such a chunk lies in a mapped file, but in the other byte order or with headers between its
frames, there is a `ChunkView` of it, which decodes only the parts that are looked at.
"""

from __future__ import annotations

import math
from functools import cached_property, partial
from operator import sub
from typing import Any, NamedTuple, cast

import numpy as np

from vfs.buffers import lender
from vfs.engine.array import ArrayReader
from vfs.engine.chunk_plan import WORTH_A_THREAD, ChunkPlan, RunPlan, plan_of, run_plan
from vfs.engine.reader import INTO_PLACE
from vfs.engine.windows import NO_SCRATCH
from vfs.errors import RegionError, SourceError
from vfs.kernels.columns import NO_ROWS
from vfs.model.decode import PlainDecoder
from vfs.model.one_state import in_one_state
from vfs.model.region import flat_boxes, select


class Chunks:
    """Makes the chunks of an array. Beyond the array's edge they hold the fill value.

    Args:
        array: reader of the array.
    """

    def __init__(self, array: ArrayReader) -> None:
        self.array = array
        self._grouped = array.groups.chunks != array.chunks
        # Nothing is left to do with elements when they are where they belong
        straight = array.decodes_into and array.corrections is None and array.dtype == array.stored
        self._straight = (array.way in INTO_PLACE or straight) and not self._grouped
        self._fetch = array.fetch_blocks if array.decodes_whole else array.fetch

    @cached_property
    def plan(self) -> ChunkPlan | None:
        """How chunks of whole frames are read that lie one after the other in one file; None if they do not."""
        return plan_of(self.array)

    @cached_property
    def _run_plan(self) -> RunPlan | None:
        return run_plan(self.array)

    def in_memory(self, position: tuple[int, ...]) -> bool:
        """Return True if a chunk is in the cache."""
        return self.array.cache.peek((self.array.token, self.array.moved(0), position)) is not None

    def at_once(self, position: tuple[int, ...], keep: bool) -> np.ndarray | None:
        """Return the bytes of a chunk as `get` does, if that takes less time than the way to a thread and back.

        Args:
            keep: put the chunk into the cache, for readers who come back for the rest of it.

        Returns: None if it is not in the cache and takes longer, waits for a disk, or cannot be read.
        """
        array, plan = self.array, self.plan
        key = array.token, array.moved(0), position
        made = array.cache.peek(key)
        if made is None:
            found = None if plan is None or array.chunk_bytes > WORTH_A_THREAD else plan.at_hand
            place = None if plan is None or found is None else plan.place(position)
            if found is None or place is None:
                return None
            piece = made = lender.lend(array.chunk_bytes)
            if not found.read(array.backend, *place, piece):
                return None
            if keep:
                made = array.cache.get(key, lambda: piece.view(array.dtype).reshape(array.chunks))
            else:
                array.cache.latest(key, piece)
        return made.reshape(-1).view(np.uint8)

    def get(self, position: tuple[int, ...]) -> np.ndarray:
        """Return the bytes of a chunk, for readers who take it whole: uint8[bytes of a chunk].

        They are read-only, because they are the file's own or shared with the next reader.

        Raises:
            RegionError: there is no such chunk.
            SourceError: the source cannot be read.
        """
        array, plan = self.array, self.plan
        run: tuple[int, int, int] | None = None
        if plan is not None:
            place = plan.place(position) if plan.straight else None
            run = None if place is None else (place[0], place[1] + plan.first, place[1] + plan.last)
        elif array.views:
            region = array.grid.region(position)
            run = array.straight(region) if region.shape == array.chunks else None
        if run is not None:
            try:
                return array.backend.span(*run, NO_SCRATCH)
            except SourceError as error:
                raise array.unread(error, array.grid.region(position)) from None
        key = array.token, array.moved(0), position
        made = array.cache.peek(key)
        if made is None:
            made = self.make(position, lender.lend(array.chunk_bytes))
            if plan is not None and plan.run and array.chunk_bytes <= WORTH_A_THREAD:
                made.flags.writeable = False  # to read it again costs no more than to keep it
            else:
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
            memory: uint8[bytes of a chunk] to write to; None for new memory.

        Returns: dtype[chunks], C-contiguous, in that memory.

        Raises:
            RegionError, SourceError: see `get`.
        """
        array, plan = self.array, self.plan
        out = np.empty(array.chunks, array.dtype) if memory is None else memory.view(array.dtype).reshape(array.chunks)
        place = None if plan is None else plan.place(position)
        run = plan is not None and plan.run and array.backend.in_place
        region, inside = None, out
        if place is None:
            region = array.grid.region(position)
            shape = tuple(map(sub, region.stop, region.start))
            if shape != array.chunks:  # it sticks out of the array
                out[...] = array.fill
                inside = out[tuple([slice(0, n) for n in shape])]
            if self._grouped:
                array.read_grouped(region, array.groups, inside)
                return out

        def once() -> None:
            rows, covered = NO_ROWS, -1
            if plan is not None and place is not None and run:
                data = out.reshape(-1).view(np.uint8)
                array.backend.span(place[0], place[1] + plan.first, place[1] + plan.last, data)
            elif plan is not None and place is not None:
                rows, covered = plan.rows(*place), out.size
            elif region is not None and self._straight and inside.flags.c_contiguous:
                rows, covered = array.plan(region, inside.reshape(-1))
            if covered >= 0:
                self._fetch(rows, inside.reshape(-1))
            elif region is not None:
                array.read_once(region, inside)

        try:
            in_one_state(array.backend, once)
        except SourceError as error:
            raise array.unread(error, region or array.grid.region(position)) from None
        return out

    def run_at_once(self, start: int, stop: int) -> np.ndarray | None:
        """Do what `run` does, if that takes less time than the way to a thread and back, as `at_once`; else None.

        Args:
            start, stop: bytes of the array.
        """
        array, width, plan = self.array, self.array.dtype.itemsize, self._run_plan
        if stop - start > WORTH_A_THREAD or plan is None:
            return None
        first, last = start // width, -(-stop // width)
        out, before = np.empty((last - first) * width, np.uint8), array.moved(0)
        if not plan.read(first, last, out) or array.moved(0) != before:
            return None
        return out[start - first * width : stop - first * width]

    def run(self, start: int, stop: int, position: tuple[int, ...] | None = None) -> np.ndarray:
        """Read the bytes `start` to `stop` (half-open) of the array in C order, and no others.

        Args:
            position: read bytes of the chunk at this position instead.

        Returns: uint8[stop - start].

        Raises:
            RegionError, SourceError: see `get`.
        """
        array, width = self.array, self.array.dtype.itemsize
        first, last = start // width, -(-stop // width)
        shape, inside = (array.shape, None) if position is None else (array.chunks, array.grid.region(position))
        out = np.empty(last - first, array.dtype)

        def once() -> None:
            done = 0
            for box in flat_boxes(shape, first, last):
                sides = box.shape
                to = out[done : done + math.prod(sides)].reshape(sides)
                done += to.size
                if inside is not None:  # of a chunk, which may stick out of the array
                    box = box.placed(inside)
                    to.fill(array.fill)
                    to = to[tuple([slice(0, n) for n in box.shape])]
                try:
                    if to.size:
                        array.read_once(box, to)
                except SourceError as error:
                    raise array.unread(error, box) from None

        in_one_state(array.backend, once)
        return out.view(np.uint8)[start - first * width : stop - first * width]

    @cached_property
    def viewed(self) -> bool:
        """True if chunks lie in mapped files and decode as fast as memory is copied, so that `view` works."""
        array = self.array
        return (
            not array.backend.copies
            and array.way.as_stored
            and isinstance(array.dataset.decoder, PlainDecoder)
            and self.plan is not None
            and not self.plan.straight
        )

    def view(self, position: tuple[int, ...]) -> ChunkView | None:
        """Return a chunk that is decoded when it is looked at; None if the chunk must be read with `get`.

        Raises:
            SourceError: the file is not the one that was opened, or too short.
        """
        array, plan = self.array, self.plan
        place = plan.place(position) if plan is not None and self.viewed else None
        if plan is None or place is None:
            return None
        file, base = place
        try:
            stored = array.backend.span(file, base + plan.first, base + plan.last, NO_SCRATCH)
        except SourceError as error:
            raise array.unread(error, array.grid.region(position)) from None
        return ChunkView(StoredChunk(array, position, plan, stored), np.dtype(np.uint8), (array.chunk_bytes,))


class StoredChunk(NamedTuple):
    """A chunk as it lies in a mapped file. `data` are the bytes `first` to `last` of its plan."""

    array: ArrayReader
    position: tuple[int, ...]
    plan: ChunkPlan
    data: np.ndarray


class ChunkView:
    """A chunk that decodes only the parts that are looked at, at that moment.

    It is an array as zarr's buffers and codecs need it (`ArrayLike`, `NDArrayLike`). Viewed as
    bytes, as elements or in the chunk's shape it stays a `ChunkView`; all other operations make a
    numpy array of its elements. It is read-only.

    zarr's own pipeline needs less processor time with it (16 frames of 128 KiB a chunk, swapped,
    with and without headers): 0.5 for single frames in any order, 0.6 to 0.75 for parts of chunks,
    whole chunks and whole arrays. Frames in order take as long as without, from the cache.
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
        except RegionError:  # not a box, or not in this chunk: numpy handles it
            chosen = None
        if chosen is None or chosen.region.size * 2 > self.size:
            return np.asarray(self)[key]
        region = chosen.region.placed(array.grid.region(position))
        part = lender.lend(region.size * self.dtype.itemsize).view(self.dtype).reshape(region.shape)
        return array.read(region, part)[chosen.post]

    def _decoded(self, frame: int, count: int) -> np.ndarray:
        """Decode one frame of the chunk, or all of them. Return uint8[bytes of the elements]."""
        array, _, plan, data = self._stored
        memory = lender.lend(array.chunk_bytes // plan.count * count)
        ranges, at = plan.frame, plan.first - frame * plan.layout.stride
        if count == plan.count:
            ranges, at = plan.ranges, plan.first
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
        if name.startswith("__"):  # e.g. `__array_interface__`: it gives memory that is freed with the new array
            raise AttributeError(name)
        return getattr(np.asarray(self), name)


def _frame(parts: tuple[Any, ...], nav_shape: tuple[int, ...]) -> int | None:
    """Return the frame of a chunk that the first parts of an index choose; None if they choose several or none."""
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
    """Return True if a part of an index obviously takes more than half of an axis of length `n`."""
    return (
        type(part) is slice
        and part.step in (1, None)
        and ((n if part.stop is None else part.stop) - (part.start or 0)) * 2 > n
    )
