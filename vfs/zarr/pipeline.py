"""Makes zarr fast: a codec pipeline and an array that read stores of vfs directly into the output.

zarr gives a pipeline a batch of chunks, and the array that receives them. zarr's default pipeline
makes a coroutine, a buffer and a copy for every chunk. `Pipeline` makes none of them: if the batch
is a box of the array, it reads this box at once. Other batches (of masks, lists of coordinates) it
reads chunk by chunk. Arrays of other stores go to the default pipeline, from which this one is
derived, so it can be set for all of zarr::

    import vfs.zarr.pipeline                                                 # registers it
    zarr.config.set({"codec_pipeline.path": vfs.zarr.pipeline.NAME})

`a.zarr()` uses it only for the array that it opens. That array is a `DirectArray`: for integers and
slices it makes no list of chunks, and small reads do not go through zarr's event loop; it passes all
other requests to zarr. A frame of 128 KiB takes 22 µs instead of 150 (with zarr's MemoryStore: 180).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from operator import sub
from typing import Any, NamedTuple

import numpy as np
import zarr
from zarr.core.buffer import default_buffer_prototype
from zarr.core.buffer.cpu import NDBuffer
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.core.sync import sync
from zarr.registry import register_pipeline
from zarr.storage import StorePath

from vfs.engine.array import ArrayReader
from vfs.engine.chunk_access import Chunks
from vfs.engine.chunk_plan import WORTH_A_THREAD
from vfs.errors import RegionError
from vfs.model.region import Region, Selection, select
from vfs.zarr.store import Store

SHARE = 4 << 20
"""Bytes. A larger read is shared among threads."""

THREADS = 4


@dataclass(frozen=True)
class Pipeline(BatchedCodecPipeline):
    """A codec pipeline that reads stores of vfs without buffers and copies; see the module."""

    async def read(self, batch_info: Iterable[tuple[Any, ...]], out: Any, drop_axes: tuple[int, ...] = ()) -> Any:
        """Read chunks into `out`. zarr calls this."""
        batch = list(batch_info)
        if (
            not batch
            or type(out) is not NDBuffer
            or not all(isinstance(at, StorePath) and isinstance(at.store, Store) for at, *_ in batch)
        ):
            return await super().read(batch, out, drop_axes)
        target = out.as_numpy_array()
        jobs = _reads(batch, target, drop_axes)
        if target.nbytes <= WORTH_A_THREAD:
            for job in jobs:
                job()
        else:
            await _run_shared(jobs)
        return ({"status": "present"},) * len(batch)


Job = Callable[[], object]
"""Reads a part of a batch into the output."""


class _Box(NamedTuple):
    """A box of an array, and the part of the output that it goes into.

    Attributes:
        start, stop, step: of the box, see `vfs.model.region.Region`.
        gone: for every axis of the array, whether the output lacks it.
        to: where in the output the box goes, a slice for every axis of the output.
        away: by how much indices of the array differ from those of the output.
    """

    array: ArrayReader
    start: list[int]
    stop: list[int]
    step: list[int]
    gone: list[bool]
    to: tuple[slice, ...]
    away: list[int]

    def jobs(self, target: np.ndarray) -> list[Job]:
        """The reads that fill its part of the output."""
        region = Region(tuple(self.start), tuple(self.stop), tuple(self.step))
        view = target[self.to] if target.ndim else target
        return _jobs(self.array, region, view.reshape(region.shape))


def _jobs(array: ArrayReader, region: Region, view: np.ndarray) -> list[Job]:
    """The reads of a box into memory of its shape: a large one is cut into parts for several
    threads, along the slowest axis that is long enough.
    """
    axis = next((k for k, n in enumerate(view.shape) if n >= 2), 0)
    n = min(THREADS, view.nbytes // (SHARE // 2), view.shape[axis] if view.ndim else 1)
    if view.nbytes < SHARE or n < 2:
        return [partial(array.read, region, view)]
    edges = np.linspace(0, view.shape[axis], n + 1).astype(int).tolist()
    grain = array.chunks[axis] if array.decodes_whole else 1  # do not decode a block twice
    edges = sorted({0, view.shape[axis], *(e // grain * grain for e in edges[1:-1])})
    parts: list[Job] = []
    r = region
    for a, b in pairwise(edges):
        start = (*r.start[:axis], r.start[axis] + a * r.step[axis], *r.start[axis + 1 :])
        stop = (*r.stop[:axis], min(r.stop[axis], r.start[axis] + b * r.step[axis]), *r.stop[axis + 1 :])
        parts.append(partial(array.read, Region(start, stop, r.step), view[(slice(None),) * axis + (slice(a, b),)]))
    return parts


def _pick(
    chunks: Chunks, position: tuple[int, ...], of: Any, target: np.ndarray, to: Any, drop: tuple[int, ...]
) -> None:
    """Read elements of one chunk that form no box, through the whole chunk."""
    part = chunks.cached(position)[of]
    target[to] = part.squeeze(axis=drop) if drop else part


async def _run_shared(jobs: Sequence[Job]) -> None:
    """Run jobs in at most `THREADS` threads."""
    await asyncio.gather(*(asyncio.to_thread(_run, jobs[n::THREADS]) for n in range(min(THREADS, len(jobs)))))


def _run(jobs: Sequence[Job]) -> None:
    for job in jobs:
        job()


def _reads(batch: list[tuple[Any, ...]], target: np.ndarray, drop: tuple[int, ...]) -> list[Job]:
    """The reads for a batch: of one box where all of it is one, else of every chunk."""
    boxes, jobs = [], []
    for at, _, of, to, _ in batch:
        array, position, _, _ = at.store.face.part(at.path)
        box = None if drop else _box(array, position, of, to)
        if box is not None:
            boxes.append(box)
        else:
            jobs.append(partial(_pick, at.store.face.chunks[array], position, of, target, to, drop))
    whole = _union(boxes, target) if len(boxes) > 1 and not jobs else None
    return [*jobs, *(job for box in (boxes if whole is None else [whole]) for job in box.jobs(target))]


def _box(array: ArrayReader, position: tuple[int, ...], of: Any, to: Any) -> _Box | None:
    """Translate a selection in a chunk to a box of the array; None where it is none.

    It is done for every chunk of a batch: `Region.of` and `Region.placed` take 20 us for the same.
    """
    of = of if isinstance(of, tuple) else (of,)
    to = to if isinstance(to, tuple) else (to,)
    if len(of) != array.ndim:
        return None
    box, places = _Box(array, [], [], [], [], to, []), iter(to)
    for cut, p, c, n in zip(of, position, array.chunks, array.shape, strict=True):
        first = p * c
        if isinstance(cut, slice):
            a, b, step = cut.indices(c if first + c <= n else n - first)
            place = next(places, None)
            if step < 1 or not isinstance(place, slice):
                return None
            away = first + a - (place.start or 0)
        elif isinstance(cut, int | np.integer):
            a, b, step = int(cut), int(cut) + 1, 1
            away = first + a
        else:
            return None
        box.start.append(first + a)
        box.stop.append(first + b)
        box.step.append(step)
        box.gone.append(not isinstance(cut, slice))
        box.away.append(away)
    return box if next(places, None) is None else None


def _union(boxes: list[_Box], target: np.ndarray) -> _Box | None:
    """All boxes as one that fills the output in order; None where they form none.

    Where the place of a box in the array differs from that in the output by as much for all boxes,
    and together they have as many elements as the output, the output is one box of the array. A
    batch of 256 chunks of 128 KiB takes 0.6 of the time that it takes chunk by chunk, one of chunks
    that are parts of frames a fifth.
    """
    array, _, _, ones, gone, _, away = boxes[0]
    size = 0
    for box in boxes:  # chunks of a batch are different ones: they do not overlap
        if box.array is not array or box.gone != gone or box.away != away or box.step != ones:
            return None
        size += math.prod(map(sub, box.stop, box.start))
    if size != target.size or any(step != 1 for step in ones):
        return None
    lengths = iter(target.shape)
    stop = [a + (1 if integer else next(lengths)) for a, integer in zip(away, gone, strict=True)]
    return _Box(array, away, stop, ones, gone, (slice(None),) * target.ndim, away)


class DirectArray(zarr.Array[Any]):
    """A zarr.Array on a store of vfs that answers integers and slices itself; see the module."""

    @cached_property
    def _reader(self) -> ArrayReader | None:
        store = self._async_array.store_path.store
        reader = store.face.arrays.get(self._async_array.store_path.path) if isinstance(store, Store) else None
        return reader if self._async_array.order == "C" else None

    def __reduce__(self) -> tuple[Any, ...]:
        return DirectArray, (self._async_array,)

    def __getitem__(self, selection: Any) -> Any:
        """Return the same result as zarr's `Array`."""
        reader = self._reader
        chosen = (
            None
            if reader is None or default_buffer_prototype().nd_buffer is not NDBuffer
            else _basic(selection, reader.shape)
        )
        if reader is None or chosen is None:
            return super().__getitem__(selection)
        out = np.empty(chosen.region.shape, reader.dtype)
        if out.nbytes <= SHARE:
            reader.read(chosen.region, out)
        else:
            sync(_run_shared(_jobs(reader, chosen.region, out)))
        got = out[chosen.post]
        return got if got.flags.c_contiguous else got.copy()


def _basic(selection: Any, shape: tuple[int, ...]) -> Selection | None:
    """Translate integers, slices with positive steps and an Ellipsis.

    Returns None for a scalar, and for anything for which zarr has its own rules or errors.
    """
    parts = selection if type(selection) is tuple else (selection,)
    for part in parts:
        if type(part) is slice:
            if part.step is not None and (type(part.step) is not int or part.step < 1):
                return None
        elif part is not ... and type(part) is not int and not isinstance(part, np.integer):
            return None
    try:
        chosen = select(parts, shape) if len(parts) != 1 else select(parts[0], shape)
    except RegionError:
        return None
    scalar = len(chosen.post) == len(shape) and not any(type(part) is slice for part in chosen.post)
    return None if scalar else chosen


NAME = f"{Pipeline.__module__}.{Pipeline.__qualname__}"
register_pipeline(Pipeline)


def direct(store: Store, path: str) -> DirectArray:
    """Open an array of a store of vfs as a `DirectArray` with this pipeline."""
    with zarr.config.set({"codec_pipeline.path": NAME}):  # the array keeps the pipeline
        return DirectArray(zarr.open_array(store, path=path, mode="r")._async_array)
