"""One pass over the frames of an array, for any number of reductions.

Threads share the pass, and each has its own "sig" and "single" buffers, which are merged at the end.
A thread takes one stretch of frames after the other, shorter and shorter ones: so all are done at
the same time, also where a core is slower than others, or has other work to do. Where that could
matter for results, because floats are added up or by a reduction of somebody else, each takes a
single stretch, the first thread the first one, and buffers are merged in this order. So integers are
the same whatever the number of threads. Floats are the same every time for the same number of
threads; sums of floats that are added up in another order differ in their last digits.

Between two blocks, every few milliseconds, a thread checks whether to stop. A caller that leaves the
pass, also by Ctrl-C, waits until all threads have stopped.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import closing, suppress
from dataclasses import replace
from functools import cached_property, partial
from itertools import pairwise
from operator import index
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from vfs.engine.array import ArrayReader, threads_asked
from vfs.engine.pixel_masks import masked_pixels, read_image
from vfs.engine.stored_reader import Token
from vfs.errors import OptionError
from vfs.model import coverage
from vfs.model.calibration import of_axes
from vfs.model.files import Files
from vfs.model.one_state import TRIES, MovedError, in_one_state
from vfs.model.stored import nav_dims
from vfs.model.wording import shown
from vfs.pictures.frames import FrameView
from vfs.reduce import CLASSES
from vfs.reduce.blocks import check_written, chosen_positions, supply_of
from vfs.reduce.demand import Demand
from vfs.reduce.held_frames import HeldFrames
from vfs.reduce.over_frames import Mean
from vfs.reduce.projections import Projection, projected
from vfs.reduce.reduction import KINDS, FrameType, Kernel, Reduction
from vfs.reduce.result import Result, Results
from vfs.reduce.spelling import spelled
from vfs.reduce.usual import placed

OnProgress = Callable[[int, int], object]
"""Called with the frames that are done, and all."""

TOLD = 0.1  # seconds between two calls of `progress`
WAITING = 1 << 28
"""Bytes of buffers that threads have for themselves, of all threads together, where they mostly wait for a server."""
STRETCH = 1 << 25
"""Bytes of frames that a thread takes at least, one stretch after the other. To plan a stretch takes a tenth of a
millisecond, and the last ones of two threads end so much apart at most: a millisecond where nothing is decoded.
"""


def reduce(
    array: ArrayReader,
    reductions: Mapping[str, Any],
    *,
    roi: Any = None,
    workers: int | None = None,
    progress: OnProgress | None = None,
    make: Callable[..., Pass] | None = None,
) -> Results:
    """See `vfs.VirtualArray.reduce`.

    Args:
        make: makes the pass, with these arguments; None: one by threads of this process.
    """
    if make is not None:
        array.backend.files.look()

    def once() -> Results:
        (results,) = (make or Pass)(array, reductions, roi, workers, progress).run(1)
        return results

    return in_one_state(array.backend, once)


def reduce_partial(
    array: ArrayReader,
    reductions: Mapping[str, Any],
    *,
    parts: int = 16,
    roi: Any = None,
    workers: int | None = None,
    progress: OnProgress | None = None,
    make: Callable[..., Pass] | None = None,
) -> Iterator[Results]:
    """See `vfs.VirtualArray.reduce_partial`, and `reduce`."""
    if isinstance(parts, bool) or not isinstance(parts, int | np.integer) or parts < 1:
        raise OptionError(f"parts={parts!r}: expected how many times results are given, at least 1")
    if make is not None:
        array.backend.files.look()

    def begin() -> Iterator[Results]:
        return (make or Pass)(array, reductions, roi, workers, progress).run(int(parts))

    return _in_one_state(array.backend.files, begin(), begin)


def _in_one_state(files: Files, given: Iterator[Results], begin: Callable[[], Iterator[Results]]) -> Iterator[Results]:
    """Pass results on as long as no file moves. Once, begin again, and catch up: see `vfs.model.one_state`.

    Raises:
        SourceChangedError: files move again, or a set that is still being written was begun anew.
    """
    told = 0
    for again in TRIES:
        before = files.moves.item(0)
        given = begin() if again else given
        with suppress(MovedError):
            for k, results in enumerate(given):
                if files.moves.item(0) != before and not files.accepts:
                    break
                files.check_begun_anew()
                if k >= told:
                    told = k + 1
                    yield results
            else:
                return
    raise files.restless()


class Needs(NamedTuple):
    """The memory that buffers of a reduction need, bytes: for each frame that is selected, and for each thread."""

    frame: int
    thread: int


def needs(array: ArrayReader, reductions: Mapping[str, Any]) -> dict[str, Needs]:
    """Say how much memory the buffers of reductions need, before any is made.

    Raises:
        OptionError: a reduction does not fit.
    """
    frames = _frame_type(array, 1)
    found = placed(array, reductions)
    return {name: _needs(_bound(name, reduction, frames), frames) for name, reduction in found.items()}


def usual_threads(array: ArrayReader, nbytes: int) -> int:
    """Return how many threads a pass has if nobody says it: more where each of them mostly waits for a server.

    Args:
        nbytes: of the buffers that each has for itself.
    """
    return max(1, threads_asked(None), min(array.backend.parallel, WAITING // max(1, nbytes)))


def _needs(reduction: Reduction, frames: FrameType) -> Needs:
    nbytes = dict.fromkeys(KINDS, 0)
    for kind, dtype, extra in reduction.buffers(frames).values():
        nbytes[kind] += np.dtype(dtype).itemsize * math.prod(map(index, extra))
    return Needs(nbytes["nav"], nbytes["sig"] * frames.size + nbytes["single"])


def _frame_type(array: ArrayReader, count: int, chosen: np.ndarray | None = None) -> FrameType:
    """Describe so many frames of an array, at the positions that were chosen."""
    dataset = array.dataset
    nav, named = array.shape[: dataset.nav_ndim], array.dims[: dataset.nav_ndim]
    dims, known = array.dims[dataset.nav_ndim :], array.calibration
    units = str(dataset.conventions.get("units", ""))
    calibration = {dim: known[dim] for dim in dims if dim in known}
    shape = array.shape[dataset.nav_ndim :]
    given = partial(masked_pixels, array), partial(static_background, array)
    return FrameType(shape, array.dtype, count, dims, units, calibration, *given, nav, named, chosen)


_backgrounds: WeakKeyDictionary[Token, tuple[int, np.ndarray]] = WeakKeyDictionary()


def static_background(array: ArrayReader) -> np.ndarray:
    """Return the static background of an array's frames: an image of its set, else the mean of all frames of the scan.

    It stays as long as the array is open and its files are not touched, since it may have taken a pass over all of it.

    Raises:
        SourceError: it cannot be read.
    """
    state = int(array.backend.files.moves.item(0))
    found = _backgrounds.get(array.token)
    if found is None or found[0] != state:
        image = array.dataset.background
        key = ("static background", id(array.token), state)
        made = array.cache.get(key, partial(_background, array) if image is None else partial(read_image, image))
        found = _backgrounds[array.token] = state, made
    return found[1]


def _background(array: ArrayReader) -> np.ndarray:
    return np.asarray(reduce(array, {"mean": Mean()})["mean"].data)


class Pass:
    """Makes results of the frames of an array, once.

    Args:
        array, reductions, roi, workers, progress: see `vfs.VirtualArray.reduce`.
        grows: frames may be selected that are yet to be written; nobody takes them.

    Attributes:
        given: the reductions, those that look for the bright-field disk with the place that they found.
        frames: what the frames have in common; stored: which of those selected are stored.
        bound: the reductions, prepared for these frames.
        shared: buffers that have an entry for each frame, by the names of reduction and buffer.
        own: the other buffers, of each thread.
        origin: the first place in the selection that is taken here, at which `shared` and `done` begin.
        done: bool[m], which frames were taken; counted: how many, by each thread.

    Raises:
        OptionError: an argument does not fit.
    """

    def __init__(
        self,
        array: ArrayReader,
        reductions: Mapping[str, Any],
        roi: Any = None,
        workers: int | None = None,
        progress: OnProgress | None = None,
        grows: bool = False,
    ) -> None:
        self.array, self.progress = array, progress
        self.workers = max(1, threads_asked(workers))
        if progress is not None and not callable(progress):
            raise OptionError(f"progress={progress!r}: expected a function of the frames done and all frames")
        dataset = array.dataset
        chosen = chosen_positions(array, roi)
        if not grows:
            check_written(array, chosen)
        self.stored = HeldFrames(array.dataset, chosen)
        self.frames = _frame_type(array, len(self.stored), chosen)
        if not reductions:
            raise OptionError("expected at least one reduction: a.reduce(total=vfs.Sum())")
        if not self.frames.size:
            raise OptionError(f"{dataset.path} has frames of shape {list(self.frames.shape)}: there is nothing in them")
        self.given = placed(array, reductions)
        self.bound = {name: _bound(name, reduction, self.frames) for name, reduction in self.given.items()}
        self.specs = {name: reduction.buffers(self.frames) for name, reduction in self.bound.items()}
        if workers is None:
            self.workers = usual_threads(array, sum(_needs(one, self.frames).thread for one in self.bound.values()))
        self.supply = supply_of(array, chosen, self.stored, Demand.of(self.bound.values(), self.frames))
        self.chosen = chosen
        self.origin, last = self._places()
        self.done = np.zeros(last - self.origin, bool)
        self.shared = {name: self._zeros(name, nav=True) for name in self.bound}
        self.own = [{name: self._zeros(name, nav=False) for name in self.bound}]
        self.counted = [0]
        self.stopped = threading.Event()

    def _zeros(self, name: str, nav: bool) -> dict[str, np.ndarray]:
        """Make the buffers of a reduction that all threads share (`nav`), or those of one thread."""
        made = {}
        for key, (kind, dtype, extra) in self.specs[name].items():
            if (kind == "nav") == nav:
                lead = self.done.shape if nav else self.frames.shape if kind == "sig" else ()
                shape = lead + tuple(extra)
                try:
                    made[key] = np.zeros(shape, dtype)
                except (MemoryError, ValueError) as error:
                    fewer = "; select fewer positions (roi)" if nav else ""
                    said = f"{name}: no memory for {key}, {np.dtype(dtype)}{list(shape)}: {error}{fewer}"
                    raise OptionError(said) from None
        return made

    def _places(self) -> tuple[int, int]:
        """Return between which places of the selection (half-open) the frames are that are taken here."""
        return 0, len(self.stored)

    @cached_property
    def to_take(self) -> int:
        """How many of the selected frames are stored."""
        return self.stored.total

    @cached_property
    def each(self) -> bool:
        """Whether any result, or any buffer, has an entry for each frame."""
        kinds = [spec[0] for specs in self.specs.values() for spec in specs.values()]
        return "nav" in (*kinds, *(one.kind for one in self.bound.values()))

    def run(self, parts: int) -> Iterator[Results]:
        """Go through all frames. Gives results after each of at most so many parts; the last ones are complete."""
        units = self.supply.units
        parts = max(1, min(parts, units))
        self._tell()
        for k in range(parts):
            self.take(units * k // parts, units * (k + 1) // parts)
            yield self.results(last=k == parts - 1)

    def _tell(self) -> None:
        if self.progress is not None:
            self.progress(sum(self.counted), self.to_take)

    def take(self, first: int, last: int) -> None:
        """Take the units `first` to `last`, shared out among the threads."""
        workers = min(self.workers, last - first)
        while len(self.own) < workers:
            self.own.append({name: self._zeros(name, nav=False) for name in self.bound})
            self.counted.append(0)
        if workers > 1:
            self._threads(self._shares(first, last, workers))
        else:
            self.array.backend.settled(partial(self._stretch, 0, first, last, _now_and_then(self._tell)))
        self._tell()

    def _shares(self, first: int, last: int, workers: int) -> list[deque[tuple[int, int]]]:
        """Cut units into stretches: those that each thread takes, which may be the same ones for all."""
        own = [
            (one, spec) for name, one in self.bound.items() for spec in self.specs[name].values() if spec[0] != "nav"
        ]
        if not all(isinstance(one, Kernel) and np.dtype(dtype).kind in "biu" for one, (_, dtype, _) in own):
            edges = [first + (last - first) * k // workers for k in range(workers + 1)]
            return [deque([ends]) for ends in pairwise(edges)]
        nbytes = max(1, len(self.stored) * self.frames.size * self.frames.dtype.itemsize)
        least = max(1, min(STRETCH * self.supply.units // nbytes, (last - first) // workers))
        stretches: deque[tuple[int, int]] = deque()
        while first < last:
            end = min(last, first + max(least, (last - first) // (2 * workers)))
            stretches.append((first, end))
            first = end
        return [stretches] * workers

    def _threads(self, shares: Sequence[deque[tuple[int, int]]]) -> None:
        """Take stretches of units in a thread for each share, and wait for all of them."""
        failed: list[tuple[int, BaseException]] = []

        def work(worker: int) -> None:
            while shares[worker] and not self.stopped.is_set():
                try:
                    first, last = shares[worker].popleft()
                except IndexError:  # another thread was faster
                    return
                try:
                    self.array.backend.settled(partial(self._stretch, worker, first, last))
                except BaseException as error:
                    failed.append((first, error))
                    raise

        with ThreadPoolExecutor(len(shares), "vfs-reduce") as pool:
            try:
                futures: list[Future[None]] = [pool.submit(work, worker) for worker in range(len(shares))]
                while wait(futures, TOLD, FIRST_EXCEPTION).not_done and not failed:
                    self._tell()
            finally:
                self.stopped.set()  # they are done, or something is wrong, or it is Ctrl-C
        self.stopped.clear()
        if failed:  # of several errors that of the first frames
            raise min(failed, key=lambda one: one[0])[1]

    def _stretch(self, worker: int, first: int, last: int, tell: Callable[[], None] | None = None) -> None:
        """Take the units `first` to `last` in one thread."""
        own, shared, done = self.own[worker], self.shared, self.done
        with np.errstate(all="ignore"), closing(self.supply.blocks(first, last)) as blocks:
            for block in blocks:
                moved = replace(block, at=block.at - self.origin, origin=self.origin) if self.origin else block
                for name, reduction in self.bound.items():
                    reduction.take(moved, own[name], shared[name])
                if block.last:
                    done[moved.at] = True
                    self.counted[worker] += len(block)
                if tell is not None:
                    tell()
                if self.stopped.is_set():
                    return

    def results(self, last: bool = True) -> Results:
        """Make results of what was taken so far. Before `run` they show what results will be like.

        Args:
            last: nothing more will be taken, and no results made: these may lie in the buffers, and those of
                all threads are merged in the first one's.
        """
        complete = self.done if last or not self.each else self.done.copy()
        return Results((name, self._result(name, reduction, complete, last)) for name, reduction in self.bound.items())

    def _result(self, name: str, reduction: Reduction, done: np.ndarray, last: bool) -> Result:
        mine = self.own[0][name]
        into = mine if last else {key: buffer.copy() for key, buffer in mine.items()}
        for other in self.own[1:] if into else ():
            reduction.merge(into, other[name])
        every = {key: into[key] if key in into else self.shared[name][key] for key in self.specs[name]}
        with np.errstate(all="ignore"):
            made = np.asarray(reduction.finish(every))
        lead = {"nav": done.shape, "sig": self.frames.shape, "single": ()}[reduction.kind]
        if made.shape[: len(lead)] != lead:
            each = "an entry for each selected frame" if reduction.kind == "nav" else "one for each pixel of a frame"
            raise OptionError(
                f"{name}: the result has shape {made.shape}, expected [{', '.join(map(str, lead))}, …]: {each}"
            )
        if reduction.kind == "nav":
            made = _with_nothing(made if last else made.copy(), done)
        return self._described(name, reduction, made, done)

    def _described(self, name: str, reduction: Reduction, made: np.ndarray, done: np.ndarray) -> Result:
        """Say of a result where it lies in the scan, and what its axes and values are."""
        array, n, extra = self.array, self.array.dataset.nav_ndim, tuple(reduction.dims)
        nav, scan, positions = array.dims[:n], array.shape[:n], self.chosen
        opened = array.dataset.chosen
        if opened is not None and array.dataset.scan is not None:  # with roi: back into the scan that it was taken of
            scan = array.dataset.scan
            positions = opened if positions is None else opened[positions]
            nav = nav_dims(len(scan))
        before = {"nav": nav, "sig": self.frames.dims, "single": ()}[reduction.kind]
        ndim = made.ndim + (len(scan) - 1 if reduction.kind == "nav" else 0)
        more = ndim - len(before)
        dims = (*before, *(extra if len(extra) == more else (f"axis_{k}" for k in range(more))))
        calibration = of_axes(array.calibration | reduction.calibration(), dims)
        units = self.frames.units if reduction.units is None else reduction.units
        filled = done if reduction.kind == "nav" else np.asarray(bool(done.any()))
        upward = FrameView.of(array).upward
        said, of = spelled(self.given[name]), array.dataset.path
        kind = "sig" if isinstance(reduction, Projection) else reduction.kind  # frames, of each position that is kept
        return Result(name, kind, made, dims, units, calibration, scan, positions, filled, upward, said, of)


def _with_nothing(made: np.ndarray, done: np.ndarray) -> np.ndarray:
    """Put NaN, NaT, False, 0, '' into a result where there is none."""
    if not done.all():
        made = made if made.flags.writeable else made.copy()
        made[~done] = coverage.nothing(made.dtype)
    return made


def _now_and_then(tell: Callable[[], None]) -> Callable[[], None]:
    """Make a function that calls another one, but not more often than every `TOLD` seconds."""
    last = time.monotonic()

    def now() -> None:
        nonlocal last
        if time.monotonic() - last >= TOLD:
            tell()
            last = time.monotonic()

    return now


def _bound(name: str, reduction: Any, frames: FrameType) -> Reduction:
    """Prepare a reduction for frames.

    Raises:
        OptionError: it is none, or does not fit them, or contradicts itself.
    """
    if isinstance(reduction, type) and issubclass(reduction, Reduction):
        raise OptionError(f"{name}={reduction.__name__}: is a class; {reduction.__name__}(…) is a reduction")
    if not isinstance(reduction, Reduction):
        raise OptionError(
            f"{name}={shown(reduction)}: expected a reduction: vfs.{', vfs.'.join(CLASSES)}, or an object"
            " of a subclass of vfs.Reduction; vfs.Masks(…) takes an array of weights"
        )
    try:
        made = projected(reduction, reduction.bound(frames), frames)
    except OptionError as error:
        raise OptionError(f"{name}: {error}") from None
    if made.kind not in KINDS:
        raise OptionError(f"{name}: {type(made).__name__}.kind is {made.kind!r}, expected one of {', '.join(KINDS)}")
    specs = made.buffers(frames)
    if not isinstance(specs, Mapping):
        raise OptionError(f"{name}: {type(made).__name__}.buffers returned {specs!r}, expected name -> buffer")
    for key, spec in specs.items():
        if not _is_spec(spec):
            raise OptionError(
                f"{name}: buffer {key} is {spec!r}, expected (kind, dtype, extra shape), with a kind"
                f" of {', '.join(KINDS)}"
            )
    return made


def _is_spec(spec: Any) -> bool:
    """Tell whether this says what a buffer is."""
    try:
        kind, dtype, extra = spec
        np.dtype(dtype), tuple(map(index, extra))
    except (TypeError, ValueError, SyntaxError):
        return False
    return kind in KINDS
