"""Makes zarr fast: a codec pipeline and an array that read stores of vfs straight into the output.

zarr gives a pipeline a batch of chunks and the array that they go into. zarr's default pipeline
makes a coroutine, a buffer and a copy for every chunk. `Pipeline` makes none of them: it finds the
box of the array that the batch is, and reads it at once. What is no box (masks, lists of
coordinates) it reads chunk by chunk. Arrays of other stores it leaves to the default pipeline, from
which it is derived, so it can be set for all of zarr::

    import vfs.zarr.pipeline                                                 # registers it
    zarr.config.set({"codec_pipeline.path": vfs.zarr.pipeline.NAME})

`a.zarr()` uses it for the array that it opens, and for nothing else. That array is a `DirectArray`:
for integers and slices it makes no list of chunks, and small reads do not go through zarr's event
loop; everything else it leaves to zarr. A frame of 128 KiB costs 22 µs instead of 150 (zarr's
MemoryStore: 180).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import zarr
from zarr.core.buffer import default_buffer_prototype
from zarr.core.buffer.cpu import NDBuffer
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.core.sync import sync
from zarr.registry import register_pipeline
from zarr.storage import StorePath

from vfs.engine.array import ArrayReader
from vfs.errors import RegionError
from vfs.hierarchy.chunk_access import Chunks
from vfs.model.region import Region, Selection, select
from vfs.zarr.store import WORTH_A_THREAD, Store

SHARE = 4 << 20
"""Bytes from which a read is shared among threads."""

THREADS = 4


@dataclass(frozen=True)
class Pipeline(BatchedCodecPipeline):
    """A codec pipeline that reads stores of vfs without buffers and copies; see the module."""

    async def read(self, batch_info: Iterable[tuple[Any, ...]], out: Any, drop_axes: tuple[int, ...] = ()) -> Any:
        """Read chunks into `out`, as zarr asks a pipeline to."""
        batch = list(batch_info)
        if (
            not batch
            or type(out) is not NDBuffer
            or not all(isinstance(at, StorePath) and isinstance(at.store, Store) for at, *_ in batch)
        ):
            return await super().read(batch, out, drop_axes)
        target = out.as_numpy_array()
        jobs = _jobs(batch, target, drop_axes)
        if target.nbytes <= WORTH_A_THREAD:
            _run(jobs)
        else:
            await _run_shared(jobs)
        return ({"status": "present"},) * len(batch)


@dataclass(frozen=True)
class _Box:
    """A box of an array that is read into a view of the output of the same shape."""

    array: ArrayReader
    region: Region
    view: np.ndarray

    def run(self) -> None:
        self.array.read(self.region, self.view)

    def shared(self) -> list[_Box]:
        """Cut a large box into parts for several threads, along the slowest axis that is long enough."""
        axis = next((k for k, n in enumerate(self.view.shape) if n >= 2), 0)
        n = min(THREADS, self.view.nbytes // (SHARE // 2), self.view.shape[axis] if self.view.ndim else 1)
        if self.view.nbytes < SHARE or n < 2:
            return [self]
        edges = np.linspace(0, self.view.shape[axis], n + 1).astype(int).tolist()
        grain = self.array.chunks[axis] if self.array.decodes_whole else 1  # do not decode a block twice
        edges = sorted({0, self.view.shape[axis], *(e // grain * grain for e in edges[1:-1])})
        r, parts = self.region, []
        for a, b in pairwise(edges):
            start = (*r.start[:axis], r.start[axis] + a * r.step[axis], *r.start[axis + 1 :])
            stop = (*r.stop[:axis], min(r.stop[axis], r.start[axis] + b * r.step[axis]), *r.stop[axis + 1 :])
            parts.append(
                _Box(self.array, Region(start, stop, r.step), self.view[(slice(None),) * axis + (slice(a, b),)])
            )
        return parts


@dataclass(frozen=True)
class _Picked:
    """Elements of one chunk that form no box, read through the whole chunk."""

    chunks: Chunks
    position: tuple[int, ...]
    of: Any
    target: np.ndarray
    to: Any
    drop: tuple[int, ...]

    def run(self) -> None:
        part = self.chunks.cached(self.position)[self.of]
        self.target[self.to] = part.squeeze(axis=self.drop) if self.drop else part

    def shared(self) -> list[_Picked]:
        return [self]


def _run(jobs: Sequence[_Box | _Picked]) -> None:
    for job in jobs:
        job.run()


async def _run_shared(jobs: Sequence[_Box | _Picked]) -> None:
    parts = [part for job in jobs for part in job.shared()]
    if len(parts) <= THREADS:
        await asyncio.gather(*(asyncio.to_thread(part.run) for part in parts))
    else:
        await asyncio.gather(*(asyncio.to_thread(_run, parts[n::THREADS]) for n in range(THREADS)))


def _jobs(batch: list[tuple[Any, ...]], target: np.ndarray, drop: tuple[int, ...]) -> list[_Box | _Picked]:
    """The reads for a batch: one where all of it is one box, else one for every chunk."""
    if len(batch) > 1 and not drop:
        whole = _union(batch, target)
        if whole is not None:
            return [whole]
    jobs: list[_Box | _Picked] = []
    for at, _, of, to, _ in batch:
        array, position, _ = at.store.face.chunk(at.path)
        cut = _cut(array, position, of, to, target, drop)
        jobs.append(
            _Picked(at.store.face.chunks[array], position, of, target, to, drop)
            if cut is None
            else _Box(cut.array, cut.region, _view(target, cut))
        )
    return jobs


@dataclass(frozen=True)
class _Cut:
    """A box of an array, the slices of the output that it goes into, and which axes the output lacks (`gone`)."""

    array: ArrayReader
    region: Region
    to: tuple[slice, ...]
    gone: tuple[bool, ...]


def _cut(
    array: ArrayReader, position: tuple[int, ...], of: Any, to: Any, target: np.ndarray, drop: tuple[int, ...]
) -> _Cut | None:
    """The box that a selection in a chunk is; None where it is none."""
    of, to = (part if isinstance(part, tuple) else (part,) for part in (of, to))
    if drop or len(of) != array.ndim or not all(isinstance(cut, slice) for cut in to):
        return None
    start, stop, step = [], [], []
    for cut, p, c in zip(of, position, array.chunks, strict=True):
        if isinstance(cut, int | np.integer):
            a, b, s = int(cut), int(cut) + 1, 1
        elif isinstance(cut, slice):
            a, b, s = cut.indices(c)
            if s < 1:
                return None
        else:
            return None
        start.append(p * c + a)
        stop.append(p * c + b)
        step.append(s)
    ends = tuple(min(b, n) for b, n in zip(stop, array.shape, strict=True))
    region = Region(tuple(start), ends, tuple(step))
    gone = tuple(not isinstance(cut, slice) for cut in of)
    kept = tuple(n for n, away in zip(region.shape, gone, strict=True) if not away)
    return _Cut(array, region, tuple(to), gone) if kept == target[tuple(to)].shape else None


def _view(target: np.ndarray, cut: _Cut) -> np.ndarray:
    """The part of the output that a cut goes into, as a view with all axes of the array, also those
    indexed by integers.
    """
    if not target.ndim:
        return target.reshape(cut.region.shape)
    return target[cut.to][tuple(None if gone else slice(None) for gone in cut.gone)]


def _union(batch: list[tuple[Any, ...]], target: np.ndarray) -> _Box | None:
    """All chunks of a batch as one box that fills the output in order; None where they form none.

    A slice of a chunk and the slice of the output that it goes into say by how much indices of the
    array differ from those of the output. Where this is the same for all chunks, and together they
    have as many elements as the output, the output is one box of the array.
    """
    face = batch[0][0].store.face
    array, _, _ = face.chunk(batch[0][0].path)
    gone = [type(cut) is not slice for cut in batch[0][2]] if isinstance(batch[0][2], tuple) else []
    if len(gone) != array.ndim or target.ndim != gone.count(False):
        return None
    chunks: tuple[int, ...] = array.chunks
    away: list[int] | None = None
    size = 0
    for at, _, of, to, _ in batch:
        here, position, _ = face.chunk(at.path) if at.store.face is face else (None, (), False)
        if here is not array or len(to) != target.ndim:
            return None
        off, n, k = [], 1, 0
        for p, c, cut, integer in zip(position, chunks, of, gone, strict=True):
            if integer:
                if not isinstance(cut, int | np.integer):
                    return None
                off.append(p * c + int(cut))
                continue
            out = to[k]
            k += 1
            if (
                type(cut) is not slice
                or type(out) is not slice
                or cut.start is None
                or out.start is None
                or (cut.step or 1) != 1
                or (out.step or 1) != 1
            ):
                return None
            length = out.stop - out.start
            if cut.stop - cut.start != length:
                return None
            off.append(p * c + cut.start - out.start)
            n *= length
        if away is None:
            away = off
        elif off != away:
            return None
        size += n
    if away is None or size != target.size:  # chunks of a batch are different ones: they do not overlap
        return None
    lengths = iter(target.shape)
    stop = [a + (1 if integer else next(lengths)) for a, integer in zip(away, gone, strict=True)]
    return _Box(array, Region.box(away, stop), target[tuple(None if integer else slice(None) for integer in gone)])


class DirectArray(zarr.Array[Any]):
    """A zarr.Array over a store of vfs that answers integers and slices itself; see the module."""

    @cached_property
    def _reader(self) -> ArrayReader | None:
        store = self._async_array.store_path.store
        reader = store.face.arrays.get(self._async_array.store_path.path) if isinstance(store, Store) else None
        return reader if self._async_array.order == "C" else None

    def __reduce__(self) -> tuple[Any, ...]:
        return DirectArray, (self._async_array,)

    def __getitem__(self, selection: Any) -> Any:
        """The same as zarr's `Array` gives."""
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
            sync(_run_shared([_Box(reader, chosen.region, out)]))
        got = out[chosen.post]
        return got if got.flags.c_contiguous else got.copy()


def _basic(selection: Any, shape: tuple[int, ...]) -> Selection | None:
    """Translate integers, slices with positive steps and an Ellipsis; None for a scalar and for
    anything that zarr has rules or errors of its own for.
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
    with zarr.config.set({"codec_pipeline.path": NAME}):  # the pipeline stays with the array
        return DirectArray(zarr.open_array(store, path=path, mode="r")._async_array)
