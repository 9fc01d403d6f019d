"""Computes results for the page, in steps: each is a record that is sent as soon as it is there.

Results for each position of the scan come coarse at first (every step-th position), then exact, some
rows at a time: more of them as long as a step takes less time than anybody sees. These steps go into
the cache, and those who ask for the same at the same time share one run. Results for each pixel come
again and again while they fill.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import count
from threading import Lock
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from vfs.engine.abandon import check
from vfs.engine.array import ArrayReader
from vfs.engine.cache import ChunkCache
from vfs.engine.pixel_masks import masked_pixels
from vfs.engine.stored_reader import Token
from vfs.errors import NotYetError, OptionError, size
from vfs.model.stored import StoredArray
from vfs.model.wording import ANY, option
from vfs.page.positions import positions
from vfs.page.records import described, head_of, record, sendable
from vfs.reduce import spelling
from vfs.reduce.binned import Binned
from vfs.reduce.in_frames import Masks
from vfs.reduce.magnitudes import MagnitudeSum
from vfs.reduce.passes import Needs, Pass, needs, reduce, reduce_partial, usual_threads
from vfs.reduce.reduction import Reduction
from vfs.reduce.result import Result
from vfs.reduce.usual import leaving_out

RESULTS = 16
"""Most results of one computation."""
STEP = 32 << 20
"""Bytes of frames of the first exact step; a row of the scan may be more. The next one has twice as many after
a step that took less than `QUICK`, and as long as they do, one thread makes them: others wait for processors
then, above all a browser that begins. The exact image of 2 GiB came after 0.46 instead of 0.63 s so, on two.
"""
QUICK = 0.05  # seconds
SENT = 16 << 20
"""Most bytes of numbers of a step; of a row of the scan, four times as many."""
FIRST = 64 << 20
"""Bytes of frames of the first, coarse step; the next has up to 16 times as many, or 4 where frames come from a server:
each is a request there, and 612 MiB of them at 20 ms take 3.2 s.
"""
WORTH = 16
"""Least times that an exact result takes what a coarse one does: else the exact one is there soon enough."""
MIN_FRAMES = 16
"""Least frames of a coarse step, however large they are."""
PARTS = 32
"""Most times that a result for each pixel is sent, and of how many bytes of frames it is one more at least."""
MORE = 256 << 20
COST = 1 << 30
"""Bytes that the results of a computation may need while they are made, on all threads. A single one may need four
times as many: it is what the page asks for of large cameras, 720 MiB of float64 for 94 million pixels."""

TABLES = 8
"""Bytes for each pixel of a frame that a result may need to know which pixels count."""

_BINNED = re.compile(r"\s*binned\(\s*([0-9]{1,4})\s*\)\s*")
_numbers = count()
_tokens: WeakKeyDictionary[Token, int] = WeakKeyDictionary()


class Step(NamedTuple):
    """A step of a computation.

    Attributes:
        key: computations that have a step in common share its run.
        make: makes its record, uint8[bytes].
    """

    key: Hashable
    make: Callable[[], np.ndarray]


Steps = Generator[Step, np.ndarray | None, None]


def following(steps: Steps, made: np.ndarray | None) -> Step | None:
    """Return the next step of a computation; None: there is none.

    Args:
        made: the record of the step before; None: none was made yet.
    """
    try:
        return steps.send(made)
    except StopIteration:
        return None


class Passed:
    """Counts the bytes of frames that the computations of this process went over, in all threads."""

    def __init__(self) -> None:
        self.nbytes = 0
        self._lock = Lock()

    def add(self, nbytes: int) -> None:
        """Count some more."""
        with self._lock:
            self.nbytes += nbytes


passed = Passed()
"""What `vfs mounts` says of a server."""


@dataclass(frozen=True)
class Asked:
    """What a request asks for.

    Attributes:
        results: name -> reduction in words, as `derive=` takes them; also `binned(n)` and `magnitude_sum()`.
        region: positions of the scan: {"rectangle": [y0, x0, y1, x1]}, {"disk": [cy, cx, r]}, {"point": [y, x]},
            {"polygon": [[y, …], [x, …]]}, of a scan with one axis {"range": [first, stop]}; or of all axes of frames
            {"box": [[first, stop], …]}, which `within` says nothing of; None: all.
        within: indices along the axes of the scan before the last two.
        coarse: begin with every step-th position.

    Raises:
        OptionError: it is something else.
    """

    results: Mapping[str, str]
    region: Mapping[str, Any] | None = None
    within: tuple[int, ...] = ()
    coarse: bool = True

    @classmethod
    def of(cls, given: Any) -> Asked:
        """Read what came as JSON."""
        known = {"results", "region", "within", "coarse"}
        if not isinstance(given, dict) or not set(given) <= known or "results" not in given:
            raise OptionError('expected {"results": {"NAME": "KIND(…)"}, "region": …, "within": […], "coarse": …}')
        results, within = given["results"], given.get("within", [])
        if (
            not isinstance(results, dict)
            or not 0 < len(results) <= RESULTS
            or not all(isinstance(text, str) and len(text) <= 1000 for text in results.values())
        ):
            raise OptionError(f'results: expected {{"NAME": "KIND(…)"}}, at most {RESULTS} of them')
        if not isinstance(within, list) or not all(type(k) is int for k in within):
            raise OptionError("within: expected a list of indices")
        coarse = given.get("coarse", True)
        if not isinstance(coarse, bool):
            raise OptionError("coarse: expected true or false")
        return cls(dict(results), given.get("region"), tuple(within), coarse)


class Computation:
    """Makes the results of a request.

    Args:
        array: what is reduced.
        asked: what is to be made of it.
        cache: keeps the steps.

    Attributes:
        reach: of results for each position, so many can be made: fewer than all of a set that is still being written.
        kind: of all its results, "nav" or "sig"; shape: of the picture of the scan.
        cost: bytes that it needs at most; workers: threads with which it needs no more.
        step: bytes of frames of the next exact step; quick: the one before was.

    Raises:
        OptionError: it cannot be made.
    """

    def __init__(self, array: ArrayReader, asked: Asked, cache: ChunkCache) -> None:
        self.array, self.cache = array, cache
        said = {spelling.check_name(name): _reduction(text) for name, text in asked.results.items()}
        self.reductions: dict[str, Reduction] = leaving_out(array, said)
        nav = array.shape[: array.dataset.nav_ndim]
        if not nav or not math.prod(array.shape):
            raise OptionError(f"{array.dataset.path} has shape {list(array.shape)}: there are no frames to reduce")
        boxed = isinstance(asked.region, dict) and "box" in asked.region
        self.shape = nav if boxed else nav[-2:]
        self.first = 0 if boxed and not asked.within else picture_of(nav, asked.within) * math.prod(self.shape)
        pixels = math.prod(array.shape[len(nav) :])
        self.frame = pixels * array.dtype.itemsize
        self.count = math.prod(self.shape)
        self.kind = self._kind(asked)
        self._bound(pixels * TABLES * len(self.reductions))
        needed = needs(array, self.reductions)
        self._bound_entry(sum(one.frame for one in needed.values()))
        self.workers = usual_threads(array, sum(one.thread for one in needed.values()))
        self._bound(self._needed(needed, pixels))
        tried = Pass(array, self.reductions, [0], 0).results()
        if any(one.dtype.kind == "c" for one in tried.values()):
            raise OptionError(f"results: expected real ones, {array.dataset.path} is {array.dtype}")
        nav_sent = [one.selected[:1].size for one in tried.values() if one.kind == "nav"]
        self.entry = sum(nav_sent) * 8  # bytes sent for a position, at most
        self._bound_entry(self.entry)
        self.chosen = positions(asked.region, self.shape)
        self.coarse = asked.coarse
        self.reach = self.count
        if array.dataset.written.head is not None:
            self._bound_by_head(array.dataset)
        self.step, self.quick = STEP, array.backend.parallel == 1
        token, self.moves = state_of(array)
        # What is made of rows of a set that is still being written holds for ever, other results for the present frames
        now = array.dataset.written.head if self.kind == "sig" else None
        words = tuple(asked.results.items()), repr(asked.region), asked.within, now
        self.key: tuple[Hashable, ...] = ("computation", token, self.moves, *words)

    def _bound_by_head(self, dataset: StoredArray) -> None:
        """Take only frames that are written, of a set that is still being written.

        Raises:
            NotYetError: none of those that are asked for is written.
        """
        there = dataset.there_at(np.arange(self.first, self.first + self.count))
        self.coarse = False
        self.reach = self.count if there.all() else int(there.argmin())
        if self.kind == "sig":
            chosen = np.arange(self.count) if self.chosen is None else self.chosen
            self.chosen = chosen[there[chosen]]
        if not (self.reach if self.chosen is None else len(self.chosen)):
            head = dataset.written.head or 0
            raise NotYetError(
                f"{dataset.files.paths[0]}: none of these frames is written yet: {head:,} are there", head=head
            )

    def _kind(self, asked: Asked) -> str:
        """Return the kind of all results, as their words say, before anything is made for them.

        Raises:
            OptionError: they are of several kinds, or of another one, or of one that does not fit the request.
        """
        kinds = {one.kind for one in self.reductions.values()}
        if len(kinds) > 1 or not kinds <= {"nav", "sig"}:
            raise OptionError("results: expected all of kind nav, or all of kind sig")
        kind = kinds.pop()
        if kind == "nav" and asked.region is not None:
            raise OptionError("region: goes with results of kind sig")
        return kind

    def _needed(self, needed: Mapping[str, Needs], pixels: int) -> int:
        """Return the bytes that results need while they are made and sent, with as many threads as these allow."""
        tables = pixels * TABLES * len(needed)
        if self.kind == "nav":  # what a step is made in, what it has, its record, and the record before
            return tables + 4 * min(4 * SENT, self.count * sum(one.frame for one in needed.values()))
        thread, sent = sum(one.thread for one in needed.values()), pixels * 8 * len(needed)
        self.workers = max(1, min(self.workers, (COST - 3 * sent) // max(1, thread) - 1))
        return (self.workers + 1) * thread + 3 * sent + 16 * self.count

    def _bound(self, cost: int) -> None:
        """Note what is known to be needed.

        Raises:
            OptionError: it is too much.
        """
        most = COST if len(self.reductions) > 1 else 4 * COST
        if cost > most:
            raise OptionError(
                f"results: they need {size(cost)} of memory, expected at most {size(most)}; ask for fewer"
            )
        self.cost = cost

    def _bound_entry(self, nbytes: int) -> None:
        """Check what results of kind nav have for each position.

        Raises:
            OptionError: it is too much.
        """
        if self.kind == "nav" and nbytes > 4 * SENT:
            raise OptionError(
                f"results: these have {nbytes >> 20:,} MiB for each position, expected at most {4 * SENT >> 20}"
            )

    def steps(self) -> Steps:
        """Go through the steps, in their order, with `following`."""
        return self._by_position() if self.kind == "nav" else self._by_pixel()

    def _by_position(self) -> Steps:
        budget, before, finer = FIRST, 0, 16 if self.array.backend.parallel == 1 else 4
        while self.coarse and before != 1 and budget <= FIRST * 16:
            step = self._coarse(budget)
            if step ** len(self.shape) >= WORTH and step != before:
                yield self._kept((step,), partial(self._every, step))
            before, budget = step, budget * finer
        first = 0
        while first < self.reach:
            made = yield self._kept(("rows", first), partial(self._rows, first))
            assert made is not None
            head = head_of(made)  # whoever made it has chosen how far it goes
            first, self.step = head["done"], max(self.step, head["count"] * self.frame)

    def _coarse(self, budget: int) -> int:
        """Return the step with which so many bytes of frames are looked at; 1 where it is not worth it."""
        few = max(1, min(max(MIN_FRAMES, budget // max(1, self.frame)), SENT // max(1, self.entry)))
        step = 1
        while math.prod(-(-n // step) for n in self.shape) > few:
            step *= 2
        return step

    def _kept(self, key: tuple[Hashable, ...], make: Callable[[], np.ndarray]) -> Step:
        whole = (*self.key, *key)
        return Step(whole, lambda: self.cache.get(whole, make))

    def _every(self, step: int) -> np.ndarray:
        """Make the record of every step-th position."""
        axes = [np.arange(0, n, step) for n in self.shape]
        chosen = np.ravel_multi_index(np.meshgrid(*axes, indexing="ij"), self.shape).reshape(-1)
        head = {"step": step, "done": 0, "of": self.count, "exact": False}
        return self._record(head, self._reduced(chosen, self.workers), tuple(map(len, axes)))

    def _rows(self, first: int) -> np.ndarray:
        """Make the record of some positions that follow each other: of whole rows, where these are not too long."""
        row = self.shape[-1] if len(self.shape) == 2 else 1
        few = max(1, min(self.step // max(1, self.frame), SENT // max(1, self.entry)))
        few = max(1, few // row) * row if few >= row or self.entry * row <= 4 * SENT else few
        few = min(few, self.reach - first)
        began = time.monotonic()
        results = self._reduced(np.arange(first, first + few), 0 if self.quick else self.workers)
        self.quick = time.monotonic() - began < QUICK
        if self.quick:
            self.step = max(self.step, 2 * few * self.frame)
        head = {"first": first, "count": few, "done": first + few, "of": self.count, "exact": True}
        return self._record(head, results, (few,))

    def _reduced(self, chosen: np.ndarray, workers: int) -> Mapping[str, Result]:
        self._same()
        made = reduce(self.array, self.reductions, roi=chosen + self.first, workers=workers, progress=check)
        self._same()
        passed.add(len(chosen) * self.frame)
        return made

    def _same(self) -> None:
        """Raise SourceChangedError if the files were touched since it began: all its records are of one state."""
        files = self.array.backend.files
        if int(files.moves.item(0)) != self.moves and not files.accepts:
            raise files.restless()

    def _record(self, head: dict[str, Any], results: Mapping[str, Result], shape: tuple[int, ...]) -> np.ndarray:
        parts = {}
        for name, one in results.items():
            numbers = one.selected.astype(np.float64 if one.selected.ndim == 1 or _small(one) else np.float32)
            numbers[~one.filled] = np.nan
            parts[name] = numbers.reshape(shape + numbers.shape[1:])
        return _packed("nav", head, parts)

    def _by_pixel(self) -> Steps:
        final = (*self.key, "pixels")
        kept = self.cache.peek(final)
        if kept is not None:
            yield Step(final, lambda: kept)
            return
        total = self.count if self.chosen is None else len(self.chosen)
        few = max(MIN_FRAMES, FIRST // max(1, self.frame))
        if self.coarse and total > 4 * few:
            every = -(-total // few)
            sample = np.arange(0, total, every) if self.chosen is None else self.chosen[::every]
            yield Step(("once", next(_numbers)), partial(self._sample, sample, total))
        parts = max(1, min(PARTS, total * self.frame // MORE))
        passes: list[Pass] = []

        def make(*given: Any) -> Pass:
            passes.append(Pass(*given))
            return passes[-1]

        how: dict[str, Any] = {"roi": self._all(), "workers": self.workers, "progress": check, "make": make}
        whole = reduce_partial(self.array, self.reductions, parts=parts, **how)
        parts = max(1, min(parts, passes[0].supply.units))  # there are no more, and the last one must be known
        for k in range(parts):
            yield Step(("once", next(_numbers)), partial(self._more, whole, k + 1, parts, total, final))

    def _all(self) -> np.ndarray | None:
        """Return the flat positions in the scan that are taken; None: all, however many these are."""
        if self.chosen is not None:
            return self.chosen + self.first
        if self.count == math.prod(self.array.shape[: self.array.dataset.nav_ndim]):
            return None
        return np.arange(self.first, self.first + self.count)

    def _sample(self, chosen: np.ndarray, total: int) -> np.ndarray:
        """Make the record of some frames, from all over."""
        results = self._reduced(chosen, self.workers)
        head = {"done": len(chosen), "of": total, "exact": False}
        return _packed("sig", head, {name: self._pixels(one, np.float32) for name, one in results.items()})

    def _more(
        self, whole: Iterator[Mapping[str, Result]], k: int, parts: int, total: int, final: tuple[Hashable, ...]
    ) -> np.ndarray:
        """Go on with all frames, and make the record of those so far: k of `parts`."""
        self._same()
        results = next(whole)
        self._same()
        passed.add(total * k // parts * self.frame - total * (k - 1) // parts * self.frame)
        share, last = k / parts, k == parts
        head = {"done": round(total * share), "of": total, "exact": last}
        if last:  # with equal numbers of both, sums of floats have equal bits
            head |= {
                "parts": parts,
                "workers": self.workers,
                "stored": any(bool(one.filled) for one in results.values()),
            }
        kind = np.float64 if last else np.float32
        made = _packed("sig", head, {name: self._pixels(one, kind) for name, one in results.items()})
        return self.cache.get(final, lambda: made) if last else made

    def _pixels(self, one: Result, kind: type[np.floating[Any]]) -> np.ndarray:
        """Return a result for each pixel as it is sent: NaN where no frame is stored, and for masked pixels."""
        if not one.filled:
            return np.full(one.selected.shape, np.nan, kind)
        made: np.ndarray = one.selected.astype(kind, copy=False)
        dead = masked_pixels(self.array)
        return made if dead is None else np.where(dead, kind(np.nan), made)


def _small(one: Result) -> bool:
    """Return True for a few numbers for each position, as a centre of mass has."""
    return one.selected[:1].size <= 4


def _packed(kind: str, head: dict[str, Any], parts: Mapping[str, np.ndarray]) -> np.ndarray:
    sent = {name: sendable(numbers) for name, numbers in parts.items()}
    results = [described(name, numbers) for name, numbers in sent.items()]
    return record({"kind": kind, **head, "results": results}, list(sent.values()))


def _reduction(text: str) -> Reduction:
    """Read a reduction.

    Raises:
        OptionError: there is none such, or it names a file, which the page may not.
    """
    binned = _BINNED.fullmatch(text)
    if binned:
        return Binned(int(binned[1]))
    if text.strip() == "magnitude_sum()":
        return MagnitudeSum()
    made = spelling.read_call(text)
    if isinstance(made, Masks):  # it would be a way to look at files that are not served
        raise OptionError(
            f"masks are in files, which no request may name; serve the set with {option(derive=ANY)} for them"
        )
    return made


def state_of(array: ArrayReader) -> tuple[int, int]:
    """Return a number of the array, and how often its files were touched: what is kept of it belongs to both."""
    return _tokens.setdefault(array.token, next(_numbers)), int(array.backend.files.moves.item(0))


def picture_of(nav: tuple[int, ...], within: tuple[int, ...]) -> int:
    """Return the number of the picture of the scan that indices along its other axes choose.

    Raises:
        OptionError: there is no such picture.
    """
    others = nav[:-2]
    if len(within) != len(others) or not all(0 <= k < n for k, n in zip(within, others, strict=True)):
        raise OptionError(f"within: expected an index for each of {list(others)}, found {list(within)}")
    return int(np.ravel_multi_index(within, others)) if others else 0
