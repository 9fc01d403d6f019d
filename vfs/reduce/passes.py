"""One pass over the frames of an array, for any number of reductions.

Threads share it. Each takes a stretch of the frames, the first the first ones, and has its own
buffers of what is no result of single positions; these are merged at the end, in the order of the
stretches. So integers are the same whatever the number of threads, and floats are the same every
time for the same number of threads: sums of floats that are added up in another order differ in
their last digits.

A thread looks between two blocks, every few milliseconds, whether it is to stop. Who leaves the
pass, by Ctrl-C too, waits until all have.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import closing
from itertools import pairwise
from typing import Any

import numpy as np

from vfs.engine.array import ArrayReader, threads_asked
from vfs.errors import OptionError
from vfs.model import coverage
from vfs.model.stored import TRIES, nav_dims
from vfs.reduce.blocks import Source, chosen_positions, source_of, stored_positions
from vfs.reduce.reduction import KINDS, FrameType, Kernel, Reduction
from vfs.reduce.result import Result

Progress = Callable[[int, int], object]
Results = Mapping[str, Result]

TOLD = 0.1  # seconds between two calls of `progress`
SHARED = 1 << 22
"""Bytes of frames that several reductions take one after the other: they stay in a core's own cache."""


def reduce(
    array: ArrayReader,
    reductions: Mapping[str, Any],
    *,
    roi: Any = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Results:
    """See `vfs.api.VirtualArray.reduce`."""
    files = array.dataset.files
    for _ in TRIES:
        before = files.moves.item(0)
        for results in _Pass(array, reductions, roi, workers).run(1, progress):
            if files.moves.item(0) == before:
                return results
    raise files.restless()


def reduce_partial(
    array: ArrayReader,
    reductions: Mapping[str, Any],
    *,
    parts: int = 16,
    roi: Any = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Iterator[Results]:
    """See `vfs.api.VirtualArray.reduce_partial`."""
    if isinstance(parts, bool) or not isinstance(parts, int | np.integer) or parts < 1:
        raise OptionError(f"parts={parts!r}: expected how many times results are given, at least 1")
    before, files = array.dataset.files.moves.item(0), array.dataset.files
    for results in _Pass(array, reductions, roi, workers).run(int(parts), progress):
        if files.moves.item(0) != before:
            raise files.restless()
        yield results


class _Pass:
    """A pass: what is to be made, of which frames, by how many threads; and the buffers of all of them."""

    def __init__(self, array: ArrayReader, reductions: Mapping[str, Any], roi: Any, workers: int | None) -> None:
        self.array = array
        self.workers = max(1, threads_asked(workers))
        dataset = array.dataset
        chosen = chosen_positions(array, roi)
        self.stored = stored_positions(array, chosen)
        n = dataset.nav_ndim
        sig, dims = array.shape[n:], array.dims[n:]
        units, known = str(dataset.conventions.get("units", "")), array.calibration
        self.frames = FrameType(
            sig, array.dtype, len(self.stored), dims, units, {dim: known[dim] for dim in dims if dim in known}
        )
        if not reductions:
            raise OptionError("expected at least one reduction: a.reduce(total=vfs.Sum())")
        if not self.frames.size:
            raise OptionError(f"{dataset.path} has frames of shape {list(sig)}: there is nothing in them")
        self.bound = {name: _bound(name, reduction, self.frames) for name, reduction in reductions.items()}
        self.specs = {name: reduction.buffers(self.frames) for name, reduction in self.bound.items()}
        kernels = all(isinstance(reduction, Kernel) for reduction in self.bound.values())
        seen = [reduction.rows(self.frames) for reduction in self.bound.values()]
        sizes = [reduction.tile_bytes for reduction in self.bound.values()]
        size = max(1, sizes[0] if len(sizes) == 1 else min(SHARED, *sizes))
        self.source: Source = source_of(
            array, chosen, self.stored, (min(a for a, _ in seen), max(b for _, b in seen)), kernels, size
        )
        self.chosen = chosen
        self.shared = {name: self._zeros(name, nav=True) for name in self.bound}
        self.own = [{name: self._zeros(name, nav=False) for name in self.bound}]
        self.done = np.zeros(len(self.stored), bool)
        self.counted = [0]
        self.stopped = threading.Event()

    def _zeros(self, name: str, nav: bool) -> dict[str, np.ndarray]:
        made = {}
        for key, (kind, dtype, extra) in self.specs[name].items():
            if (kind == "nav") == nav:
                lead = (self.frames.count,) if nav else self.frames.shape if kind == "sig" else ()
                made[key] = np.zeros(lead + tuple(extra), dtype)
        return made

    def run(self, parts: int, progress: Progress | None) -> Iterator[Results]:
        """Go through all frames. Gives results after each of so many parts, the last ones complete."""
        total = int(np.count_nonzero(self.stored))

        def tell() -> None:
            if progress is not None:
                progress(sum(self.counted), total)

        tell()
        edges = sorted({self.source.units * k // parts for k in range(parts + 1)})
        for first, last in pairwise(edges):
            self._part(first, last, tell)
            yield self._results()

    def _part(self, first: int, last: int, tell: Callable[[], None]) -> None:
        """The units `first` to `last`, which as many threads as there are share."""
        workers = min(self.workers, last - first)
        while len(self.own) < workers:
            self.own.append({name: self._zeros(name, nav=False) for name in self.bound})
            self.counted.append(0)
        stretches = list(pairwise(first + (last - first) * k // workers for k in range(workers + 1)))
        if workers == 1:
            self._stretch(0, *stretches[0], _now_and_then(tell))
        else:
            self._threads(stretches, tell)
        tell()

    def _threads(self, stretches: Sequence[tuple[int, int]], tell: Callable[[], None]) -> None:
        with ThreadPoolExecutor(len(stretches), "vfs-reduce") as pool:
            try:
                futures: list[Future[None]] = [
                    pool.submit(self._stretch, k, first, last) for k, (first, last) in enumerate(stretches)
                ]
                while wait(futures, TOLD, FIRST_EXCEPTION).not_done and not any(
                    one.done() and one.exception() for one in futures
                ):
                    tell()
            finally:
                self.stopped.set()  # they are done, or something is wrong, or it is Ctrl-C
        self.stopped.clear()
        for future in futures:  # of several errors that of the first frames
            future.result()

    def _stretch(self, worker: int, first: int, last: int, tell: Callable[[], None] | None = None) -> None:
        """What one thread does: the units `first` to `last`."""
        own, shared, done = self.own[worker], self.shared, self.done
        with np.errstate(all="ignore"), closing(self.source.blocks(first, last)) as blocks:
            for block in blocks:
                for name, reduction in self.bound.items():
                    reduction.take(block, own[name], shared[name])
                done[block.at] = True
                self.counted[worker] += len(block)
                if tell is not None:
                    tell()
                if self.stopped.is_set():
                    return

    def _results(self) -> Results:
        complete = self.done if self.done.all() else self.done.copy()
        return {name: self._result(name, reduction, complete) for name, reduction in self.bound.items()}

    def _result(self, name: str, reduction: Reduction, done: np.ndarray) -> Result:
        into = {key: buffer.copy() for key, buffer in self.own[0][name].items()}
        for other in self.own[1:] if into else ():
            reduction.merge(into, other[name])
        every = {key: into[key] if key in into else self.shared[name][key] for key in self.specs[name]}
        with np.errstate(all="ignore"):
            made = np.asarray(reduction.finish(every))
        array, n, extra = self.array, self.array.dataset.nav_ndim, tuple(reduction.dims)
        nav = array.dims[:n]
        scan, positions = array.shape[:n], self.chosen
        # Opened with roi: back into the scan that it was taken of
        if array.dataset.chosen is not None and array.dataset.scan is not None:
            scan = array.dataset.scan
            positions = array.dataset.chosen if positions is None else array.dataset.chosen[positions]
            nav = nav_dims(len(scan))
        if reduction.kind == "nav":
            if made.shape[:1] != done.shape:
                raise OptionError(
                    f"{name}: the result has shape {made.shape}, expected [{len(done)}, …]: an entry for"
                    " each selected frame"
                )
            made = _with_nothing(made, done)
        before = {"nav": nav, "sig": self.frames.dims, "single": ()}[reduction.kind]
        ndim = made.ndim + (len(scan) - 1 if reduction.kind == "nav" else 0)
        dims = (
            *before,
            *(extra if len(before) + len(extra) == ndim else (f"axis_{k}" for k in range(ndim - len(before)))),
        )
        known = array.calibration | reduction.calibration()
        calibration = {dim: dict(known[dim]) for dim in dims if dim in known}
        units = self.frames.units if reduction.units is None else reduction.units
        filled = done if reduction.kind == "nav" else np.asarray(bool(done.any()))
        return Result(name, reduction.kind, made, dims, units, calibration, scan, positions, filled)


def _with_nothing(made: np.ndarray, done: np.ndarray) -> np.ndarray:
    """A result in memory of its own, with NaN, NaT, False, 0, '' where there is none."""
    made = made.copy()
    if not done.all():
        made[~done] = coverage.nothing(made.dtype)
    return made


def _now_and_then(tell: Callable[[], None]) -> Callable[[], None]:
    """A function that calls another one, but not more often than every `TOLD` seconds."""
    last = time.monotonic()

    def now() -> None:
        nonlocal last
        if time.monotonic() - last >= TOLD:
            tell()
            last = time.monotonic()

    return now


def _bound(name: str, reduction: Any, frames: FrameType) -> Reduction:
    if not isinstance(reduction, Reduction):
        raise OptionError(
            f"{name}={reduction!r}: expected a reduction: vfs.{', vfs.'.join(NAMES)}, or an object"
            " of a subclass of vfs.Reduction"
        )
    try:
        made = reduction.bound(frames)
    except OptionError as error:
        raise OptionError(f"{name}: {error}") from None
    if made.kind not in KINDS:
        raise OptionError(f"{name}: {type(made).__name__}.kind is {made.kind!r}, expected one of {', '.join(KINDS)}")
    for key, spec in made.buffers(frames).items():
        if len(spec) != 3 or spec[0] not in KINDS:
            raise OptionError(
                f"{name}: buffer {key} is {spec!r}, expected (kind, dtype, extra shape), with a kind"
                f" of {', '.join(KINDS)}"
            )
    return made


NAMES = (
    *("Sum", "Mean", "Std", "Variance", "Max", "Min", "FrameSum", "Disk", "Ring", "Rectangle", "Point"),
    *("Masks", "CenterOfMass", "RadialSum", "Histogram"),
)
