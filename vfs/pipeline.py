"""zarr's fast lane: a codec pipeline that reads arrays of our stores straight into zarr's output array.

zarr hands a pipeline a whole batch of chunks and the array they go to. The default pipeline makes a coroutine, a buffer and a
copy a chunk. This one asks the engine for the box that the batch is, in one read, without any of them; what is no box
(masks, lists of coordinates) it takes a chunk at a time. Arrays of other stores it leaves to the default pipeline, which
it is derived from; so it may be chosen for everything::

    import vfs.pipeline                                                 # registers it
    zarr.config.set({"codec_pipeline.path": vfs.pipeline.NAME})

`a.zarr()` chooses it for the array it opens, and for nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from zarr.core.buffer.cpu import NDBuffer
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.registry import register_pipeline
from zarr.storage import StorePath

from vfs.array import ArrayReader
from vfs.geometry import Region
from vfs.store import WORTH_A_THREAD, Store

SHARE = 4 << 20
"""Bytes from which a read is shared among threads."""

THREADS = 4


@dataclass(frozen=True)
class Pipeline(BatchedCodecPipeline):
    """See the module."""

    async def read(self, batch_info: Iterable[tuple[Any, ...]], out: Any, drop_axes: tuple[int, ...] = ()) -> Any:
        """Read chunks into `out`; zarr's contract."""
        batch = list(batch_info)
        if not batch or type(out) is not NDBuffer or not all(isinstance(at, StorePath) and isinstance(at.store, Store) for at, *_ in batch):
            return await super().read(batch, out, drop_axes)
        target = out.as_numpy_array()
        jobs = _jobs(batch, target, drop_axes)
        if target.nbytes <= WORTH_A_THREAD:
            for job in jobs:
                job.run()
        else:
            parts = [part for job in jobs for part in job.shared()]
            if len(parts) <= THREADS:
                await asyncio.gather(*(asyncio.to_thread(part.run) for part in parts))
            else:
                await asyncio.gather(*(asyncio.to_thread(_run, parts[n::THREADS]) for n in range(THREADS)))
        return tuple({"status": "present"} for _ in batch)


@dataclass(frozen=True)
class _Box:
    """A box of an array that is read into a view of the output of the same shape."""

    array: ArrayReader
    region: Region
    view: np.ndarray

    def run(self) -> None:
        self.array.read(self.region, self.view)

    def shared(self) -> list[_Box]:
        """The same in parts for several threads, where it is large; cut along the slowest axis that is long enough."""
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
            parts.append(_Box(self.array, Region(start, stop, r.step), self.view[(slice(None),) * axis + (slice(a, b),)]))
        return parts


@dataclass(frozen=True)
class _Picked:
    """Elements of one chunk that are no box."""

    array: ArrayReader
    position: tuple[int, ...]
    of: Any
    target: np.ndarray
    to: Any
    drop: tuple[int, ...]

    def run(self) -> None:
        part = self.array.cached_chunk(self.position)[self.of]
        self.target[self.to] = part.squeeze(axis=self.drop) if self.drop else part

    def shared(self) -> list[_Picked]:
        return [self]


def _run(jobs: list[_Box | _Picked]) -> None:
    for job in jobs:
        job.run()


def _jobs(batch: list[tuple[Any, ...]], target: np.ndarray, drop: tuple[int, ...]) -> list[_Box | _Picked]:
    """What to read for a batch: one box where it is one, else a job a chunk."""
    cuts: list[_Cut] = []
    jobs: list[_Box | _Picked] = []
    for at, _, of, to, _ in batch:
        array, position, _ = at.store.face.chunk(at.path)
        cut = _cut(array, position, of, to, target, drop)
        if cut is None:
            jobs.append(_Picked(array, position, of, target, to, drop))
        else:
            cuts.append(cut)
    whole = _union(cuts, target) if not jobs and len(cuts) > 1 else None
    if whole is not None:
        return [whole]
    return jobs + [_Box(cut.array, cut.region, _view(target, cut)) for cut in cuts]


@dataclass(frozen=True)
class _Cut:
    """A box of an array, the slices of the output it goes to, and which of its axes integers took away."""

    array: ArrayReader
    region: Region
    to: tuple[slice, ...]
    gone: tuple[bool, ...]


def _cut(array: ArrayReader, position: tuple[int, ...], of: Any, to: Any, target: np.ndarray, drop: tuple[int, ...]) -> _Cut | None:
    """What a chunk's selection is, or None where it is no box."""
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
    """The part of the output that a cut goes to, as a view that has the axes which integers took away."""
    if not target.ndim:
        return target.reshape(cut.region.shape)
    return target[cut.to][tuple(None if gone else slice(None) for gone in cut.gone)]


def _union(cuts: list[_Cut], target: np.ndarray) -> _Box | None:
    """All boxes as one, where together they are one box that fills the output in order."""
    first = cuts[0]
    regions = [cut.region for cut in cuts]
    if any(cut.array is not first.array or cut.gone != first.gone or set(cut.region.step) != {1} for cut in cuts):
        return None
    start = tuple(map(min, zip(*(r.start for r in regions), strict=True)))
    stop = tuple(map(max, zip(*(r.stop for r in regions), strict=True)))
    whole = _Cut(first.array, Region.box(start, stop), (slice(None),) * target.ndim, first.gone)
    if whole.region.size != target.size or sum(r.size for r in regions) != target.size:
        return None
    view = _view(target, whole)
    for cut in cuts:  # every box must go where it lies
        inside = view[tuple(slice(a - o, b - o) for a, b, o in zip(cut.region.start, cut.region.stop, start, strict=True))]
        if inside.__array_interface__["data"] != target[cut.to].__array_interface__["data"]:
            return None
    return _Box(first.array, whole.region, view)


NAME = f"{Pipeline.__module__}.{Pipeline.__qualname__}"
register_pipeline(Pipeline)
