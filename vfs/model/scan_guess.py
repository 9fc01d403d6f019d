"""Guesses the shape of a scan whose files say none: from intervals between frames, or from their number.

While the beam returns to the next line, no frame is recorded, or some that belong to no position. So the
interval behind the last frame of each line is longer, or frames with another exposure follow it. What repeats
after the same number of frames, and nearly nowhere else, is the end of a line. A guess is sure where chance would
make the like less often than once in a hundred thousand times, and nothing else explains it.

Nothing here reads files: times come as numpy arrays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class ScanGuess:
    """A shape that the scan of a flat series of frames may have.

    Attributes:
        nav_shape: lines and columns, as the option `nav_shape` takes them.
        reason: a sentence that says what speaks for it.
        sure: True if hardly anything else explains it.
        source: what was looked at: "time stamps", "exposures", "frame numbers", "likeness of frames" or
            "number of frames".
        line_skip: frames behind each line that belong to no position, as the option `line_skip` takes them.
        sync_offset: frames in front of the first whole line, as the option `sync_offset` takes them.
    """

    nav_shape: tuple[int, int]
    reason: str
    sure: bool
    source: str
    line_skip: int = 0
    sync_offset: int = 0


@dataclass(frozen=True)
class _Period:
    """What is long again and again.

    Attributes:
        frames: from one repetition to the next.
        first: place of the first long value within the period, counted from frame 0.
        run: number of long values that follow one another.
        lines: number of repetitions that were looked at; found: that many of them are long.
        chance: logarithm (base 10) of how often chance does the like.
        steady: False if repetitions shift, as behind lost frames.
        long: int64[m], places of all long values.
    """

    frames: int
    first: int
    run: int
    lines: int
    found: int
    chance: float
    steady: bool
    long: np.ndarray

    @property
    def ends(self) -> np.ndarray:
        """bool[m]: which long values are at the ends of lines."""
        within: np.ndarray = (self.long - self.first) % self.frames < self.run
        return within


def from_intervals(
    times: np.ndarray,
    count: int,
    source: str = "time stamps",
    *,
    at: np.ndarray | None = None,
    file: np.ndarray | None = None,
    step: float | None = None,
) -> list[ScanGuess]:
    """Guess the shape from longer intervals behind each line.

    Args:
        times: int64 or float64[n], start of each frame, or its number, in any unit. NaN, or 0 of integers, is unknown.
        count: number of frames of the whole series.
        source: what `times` are, in words.
        at: int64[n], numbers of these frames, ascending; None: 0, 1, 2, …
        file: int64[n], file of each frame: a pause wherever a file begins is no sure sign of a line.
        step: what the clock counts in, in the unit of `times`; None: as intervals show.

    Returns: best first; empty if intervals show no lines.
    """
    frames = np.arange(len(times)) if at is None else at
    times = times.astype(np.int64) if times.dtype.kind in "iu" else times
    known = np.isfinite(times) & ((times != 0) | (times.dtype.kind == "f"))
    pairs = known[1:] & known[:-1] & (np.diff(frames) == 1)
    if pairs.sum() < _MIN_VALUES:
        return []
    with np.errstate(invalid="ignore", over="ignore"):
        interval = np.diff(times)[pairs].astype(np.float64)
    if (interval < 0).mean() > _DISORDER:
        return []
    index = frames[:-1][pairs]
    seams = None if file is None else index[(np.diff(file) != 0)[pairs]]
    step = _clock(interval) if step is None else step
    found = []
    stop = int(frames[-1]) + 1
    for period in _periods(index, interval, stop, 1.5 * step) or _periods(index, interval, stop, 0.5 * step):
        skip, start = period.run - 1, (period.first + 1) % period.frames
        # Behind surplus frames at the start no line begins: the first one starts behind the last long interval
        start = (start + skip) % period.frames
        said = (
            f"the interval after each {_ordinal(period.frames)} frame is longer"
            if not skip
            else f"{skip + 1} intervals after each {_ordinal(period.frames - skip)} frame are longer"
        )
        doubt = _doubt(period, index, interval, step, seams)
        found += _guesses(period, count, start, skip, source, said, doubt)
    return found


def from_exposures(values: np.ndarray, count: int, *, at: np.ndarray | None = None) -> list[ScanGuess]:
    """Guess the shape from frames behind each line that have longer exposures.

    Args:
        values: float64[n], exposure of each frame, in any unit. NaN and 0 are unknown.
        count: number of frames of the whole series.
        at: as of `from_intervals`.

    Returns: best first; empty if exposures show no lines.
    """
    frames = np.arange(len(values)) if at is None else at
    known = np.isfinite(values) & (values > 0)
    if known.sum() < _MIN_VALUES:
        return []
    found = []
    for period in _periods(frames[known], values[known].astype(np.float64), frames[-1] + 1):
        start = (period.first + period.run) % period.frames
        said = f"{_frames(period.run)} after each {_ordinal(period.frames - period.run)} one had a longer exposure"
        found += _guesses(period, count, start, period.run, "exposures", said, "")
    return found


def from_count(count: int, most: int = 6) -> list[ScanGuess]:
    """Return the shapes that hold exactly so many frames, the squarest first. None of them is sure.

    Args:
        count: number of frames.
        most: number of shapes.
    """
    rows = [n for n in range(math.isqrt(count), 1, -1) if count % n == 0][: (most + 1) // 2] if count > 3 else []
    pairs = [(n, count // n) for n in rows]
    shapes = dict.fromkeys(shape for a, b in pairs for shape in ((a, b), (b, a)))
    return [
        ScanGuess(
            shape,
            f"from the number of frames: {shape[0]:,} lines of {shape[1]:,} are {count:,}",
            False,
            "number of frames",
        )
        for shape in list(shapes)[:most]
    ]


def of_line(columns: int, count: int, reason: str, source: str) -> ScanGuess | None:
    """Return a guess, which is not sure, of lines with so many columns; None if not even two of them are stored."""
    rows = count // columns if columns > 1 else 0
    said = f"from the {source}: {reason}{_rest(count - rows * columns)}"
    return ScanGuess((rows, columns), said, False, source) if rows > 1 else None


def best_first(guesses: Sequence[ScanGuess]) -> list[ScanGuess]:
    """Put sure guesses first, and leave out what another one says already. Guesses that contradict are not sure."""
    sure = {(one.nav_shape[1] + one.line_skip, one.sync_offset) for one in guesses if one.sure}
    if len(sure) > 1:
        guesses = [replace(one, sure=False) for one in guesses]
    kept: dict[tuple[object, ...], ScanGuess] = {}
    for one in sorted(guesses, key=lambda one: not one.sure):
        kept.setdefault((one.nav_shape, one.line_skip, one.sync_offset), one)
    return list(kept.values())


_MIN_VALUES = 8  # values of which a pattern can be told
_DISORDER = 0.01  # share of frames that may be older than the one in front of them
_LINES = 4  # fewest lines of a sure guess
_COVERED = 0.9  # share of lines that must show their end
_OWN = 0.5  # share of long values that must be at ends of lines
_FOLLOWING = 0.75  # share of long values that must follow one another where lines shift
_RARE = -5.0  # logarithm of the chance below which a pattern is none
_LONGEST_PAUSE = 10  # times that of a line
_MIN_EXCESS = 0.01  # share of the usual value by which a long one is longer
_STEP = 0.7  # from one level of what counts as long to the next
_LEVELS = 40  # most levels
_RUNS = 8  # most long values that follow one another


def _guesses(period: _Period, count: int, start: int, skip: int, source: str, said: str, doubt: str) -> list[ScanGuess]:
    """Return the guess of a period, and if that leaves frames out, behind it one which does not.

    Args:
        start: first frame of the first whole line.
        skip: frames to leave out behind each line.
        said: what repeats, in words.
        doubt: what else explains it; "" if nothing does.
    """
    columns = period.frames - skip
    rows = (count - start + skip) // period.frames
    if rows < 2 or columns < 2:
        return []
    if not doubt and not period.steady:
        doubt = "; not all along, as if frames were lost"
    if not doubt and period.lines < _LINES:
        doubt = f"; but only {period.lines} lines were looked at"
    reason = said + doubt + _rest(max(0, count - start - rows * period.frames))
    sure = not doubt and period.chance < _RARE
    first = ScanGuess((rows, columns), f"from the {source}: {reason}", sure, source, skip, start)
    if not skip:
        return [first]
    whole = (count - start) // period.frames
    second = replace(first, nav_shape=(whole, period.frames), sure=False, line_skip=0)
    return [first, second] if whole > 1 else [first]


def _clock(interval: np.ndarray) -> float:
    """Return the smallest step of a clock that intervals show: the shortest of them, or what two of them differ by."""
    seen = np.unique(np.append(interval, 0))
    steps = np.diff(seen)
    return float(steps[steps > 1e-9 * np.abs(seen).max()].min(initial=math.inf))


def _doubt(period: _Period, index: np.ndarray, interval: np.ndarray, step: float, seams: np.ndarray | None) -> str:
    """Return what else explains that intervals are longer: new files, batches, or rounding."""
    ends = period.long[period.ends]
    if seams is not None and np.isin(ends, seams).mean() > _OWN:
        return "; files begin there, too, which may be why"
    behind = np.isin(index, ends)
    if interval[behind].sum() > _LONGEST_PAUSE * interval[~behind].sum():
        return "; much longer than a line, as if frames were stamped in batches"
    if np.median(interval[behind]) - np.median(interval) < 1.5 * step:
        return "; by one step of the clock, as rounding makes them, too"
    return ""


def _periods(index: np.ndarray, values: np.ndarray, stop: int, least: float = 0) -> list[_Period]:
    """Find what is long again and again, at several levels of what counts as long.

    Args:
        index: int64[n], places of the values, ascending.
        values: float64[n].
        stop: all places are below this number.
        least: what is long is longer by more than that.

    Returns: the least probable first. If there is more than one, none explains the other.
    """
    usual = np.median(values)
    more, seen = values - usual, 2
    found: dict[int, _Period] = {}
    for level in _levels(float(more.max()), max(least, _MIN_EXCESS * abs(usual))):
        long = index[more > level]
        if len(long) == seen or not 2 < len(long) <= len(index) / 2:
            continue
        seen, period = len(long), _period(index, long, stop)
        if period is not None and (period.frames not in found or period.chance < found[period.frames].chance):
            found[period.frames] = period
    ordered = sorted(found.values(), key=lambda one: one.chance)
    kept = [one for k, one in enumerate(ordered) if not any(_explains(first, one) for first in ordered[:k])]
    if len(kept) > 1:
        kept = [replace(one, chance=0.0) for one in kept]
    return kept


def _levels(top: float, least: float) -> np.ndarray:
    """Return levels between the usual and the longest value, highest first.

    Args:
        top: by how much the longest value is longer.
        least: no level is below it.
    """
    if top <= least:
        return np.empty(0)
    count = min(_LEVELS, int(math.log(max(least / top, 1e-9)) / math.log(_STEP)))
    return np.append(top * _STEP ** np.arange(1, count + 1), least)


def _period(index: np.ndarray, long: np.ndarray, stop: int) -> _Period | None:
    """Find the number of frames after which long values repeat.

    Args:
        index: int64[n], places that were looked at.
        long: int64[m], those of long values.
        stop: all places are below this number.
    """
    best = (0.0, 0, 0)
    for run in range(1, min(_RUNS, len(long) - 1) + 1):
        lengths, counts = np.unique(long[run:] - long[:-run], return_counts=True)
        length, share = int(lengths[counts.argmax()]), float(counts.max() / (len(long) - run))
        if share <= _OWN or length < run + 2:
            continue
        if found := _folded(index, long, length, run, stop):
            return found
        best = max(best, (share, length, run))
    return _shifting(long, *best)


def _folded(index: np.ndarray, long: np.ndarray, length: int, run: int, stop: int) -> _Period | None:
    """Return the period if the same places of nearly every line are long, which follow one another."""
    seen = np.bincount(index % length, minlength=length)
    hit = np.bincount(long % length, minlength=length)
    # One end may lack where lines are few: frames in front of the first line have none
    ends = (hit >= _COVERED * seen) | ((hit == seen - 1) & (hit >= _LINES))
    if ends.sum() != run:
        return None
    first = np.flatnonzero(ends & ~np.roll(ends, 1))
    lines, found = int(seen[ends].sum()), int(hit[ends].sum())
    if len(first) != 1 or found < _OWN * len(long):
        return None
    chance = _chance(len(index), len(long), lines, found) + math.log10(stop * length)
    return _Period(length, int(first[0]), run, lines // run, found // run, chance, True, long)


def _shifting(long: np.ndarray, share: float, length: int, run: int) -> _Period | None:
    """Return the period if most long values follow one another after it, though not all."""
    if share < _FOLLOWING or len(long) < _LINES * run:
        return None
    lines = len(long) // run
    return _Period(length, int(long[0]) % length, run, lines, int(share * lines), 0.0, False, long)


def _chance(places: int, long: int, ends: int, found: int) -> float:
    """Return the logarithm of the chance that, of so many places, those at ends are long.

    Args:
        places: number of values; long: that many are long; ends: that many are at ends of lines; found: that many
            are both.
    """
    ways = _choices(ends, found) + _choices(places - ends, long - found) - _choices(places, long)
    return ways / math.log(10)


def _choices(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _explains(first: _Period, second: _Period) -> bool:
    """Return True if the second period is only a choice, by chance, of the longest of the first one's ends."""
    if second.frames % first.frames or not first.steady:
        return not second.steady
    ends = first.long[first.ends]
    chosen = second.long[np.isin(second.long, ends)]
    at = (ends - second.first) % second.frames < second.run
    found = int(((chosen - second.first) % second.frames < second.run).sum())
    tries = math.log10(max(1, second.frames // first.frames * len(ends)))
    return _chance(len(ends), len(chosen), int(at.sum()), found) + tries > _RARE


def _rest(frames: int) -> str:
    return f"; {_frames(frames)} after the last whole line" if frames else ""


def _frames(n: int) -> str:
    return f"{n:,} frame{'s' * (n != 1)}"


def _ordinal(n: int) -> str:
    ending = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n:,}{ending}"
