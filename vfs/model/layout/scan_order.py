"""Says which frame each position of a scan shows, where that is not simply the next one (`ScanOrder`).

Cameras record frames one after the other. A scan may visit its positions in another order (random,
winding, from a list), lose frames, or record more of them than it has positions. A format that
knows turns what the files say into a `ScanOrder`; a `FrameLayout` that has one puts each frame into
its place, and no other part of vfs hears of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from vfs.model.samples import spread
from vfs.model.wording import option

NO_FRAME = -(1 << 61)
"""Stands in a table of frames for "none": it stays negative with any offset added."""


@dataclass(frozen=True, eq=False)
class ScanOrder:
    """Says which recorded frame each position of a scan shows.

    Attributes:
        shape: shape of the scan, slowest axis first.
        frames: int64[positions] number of the recorded frame that each flat position shows, before
            an offset is added; `NO_FRAME` where none was recorded.
        line_skip: number of frames that were recorded behind each line of the scan and are not
            shown. 0 if the files say the position of each frame.
    """

    shape: tuple[int, ...]
    frames: np.ndarray
    line_skip: int = 0

    @classmethod
    def skipping(cls, shape: Sequence[int], line_skip: int) -> ScanOrder:
        """Leave out `line_skip` frames behind each line (the last axis of the scan)."""
        places = np.arange(math.prod(shape))
        return cls(tuple(shape), places + places // shape[-1] * line_skip, line_skip)

    @classmethod
    def winding(cls, shape: Sequence[int]) -> ScanOrder:
        """Show scans of two axes that go back along every second line (serpentine) as they lie on the specimen."""
        places = np.arange(math.prod(shape)).reshape(-1, *shape[-2:])
        places[:, 1::2] = places[:, 1::2, ::-1].copy()
        return cls(tuple(shape), places.reshape(-1))

    @classmethod
    def visiting(cls, positions: np.ndarray, shape: Sequence[int], frames: np.ndarray | None = None) -> ScanOrder:
        """Put frames where positions say.

        Where a position was visited several times, the last of its frames is shown; `visits` tells
        visits apart, for a scan that shows all of them.

        Args:
            positions: int64[n] flat position in the scan of each frame.
            frames: int64[n] numbers of these frames; by default 0, 1, 2, …
        """
        table = np.full(math.prod(shape), NO_FRAME)
        table[positions] = np.arange(len(positions)) if frames is None else frames  # of equal ones the last counts
        return cls(tuple(shape), table)

    def several(self, count: int) -> ScanOrder:
        """Show `count` frames at each position, recorded one after the other, along a further axis."""
        frames = self.frames[:, None] * count + np.arange(count)
        frames[self.frames == NO_FRAME] = NO_FRAME
        return ScanOrder((*self.shape, count), frames.reshape(-1))

    @property
    def missing(self) -> int:
        """Number of positions for which no frame was recorded."""
        return int(np.count_nonzero(self.frames == NO_FRAME))


def visits(positions: np.ndarray) -> np.ndarray:
    """Count how often each position was visited before: int64[n], 0 at the first visit.

    Args:
        positions: int64[n] flat positions, in the order in which they were visited.
    """
    order = np.argsort(positions, kind="stable")
    same = np.diff(positions[order], prepend=-1) == 0
    number = np.arange(len(order))
    first = np.maximum.accumulate(np.where(same, 0, number))
    counted = np.empty(len(order), np.int64)
    counted[order] = number - first
    return counted


@dataclass(frozen=True, eq=False)
class FrameRuns:
    """Numbers of frames, ascending, as runs of those that follow one another: a set may have 10 ** 10 frames.

    Attributes:
        first: int64[r] the first number of each run; counts: int64[r] how many it has.
    """

    first: np.ndarray
    counts: np.ndarray

    @classmethod
    def one(cls, count: int) -> FrameRuns:
        """Return 0, 1, 2, …, so many."""
        return cls(np.zeros(1, np.int64), np.array([count]))

    def __len__(self) -> int:
        return int(self.counts.sum())

    def at(self, places: np.ndarray) -> np.ndarray:
        """Return the numbers at some places, from 0 on: int64[n]."""
        ends = self.counts.cumsum()
        run = np.searchsorted(ends, places, "right")
        return np.asarray(self.first[run] + places - (ends - self.counts)[run])

    def part(self, first: int, last: int) -> FrameRuns:
        """Return those between two places (half-open), of which the last may be beyond the end."""
        begins = self.counts.cumsum() - self.counts
        low, high = np.maximum(begins, first), np.minimum(begins + self.counts, last)
        kept = low < high
        return FrameRuns((self.first + low - begins)[kept], (high - low)[kept])

    def numbers(self) -> np.ndarray:
        """List them: int64[n]."""
        return self.at(np.arange(len(self)))


class Shifts(NamedTuple):
    """Says by how much numbers that grow from frame to frame are above those of the frames.

    Attributes:
        begin: int64[r] places, the first 0, from which each shift holds; by: int64[r] the shifts.
    """

    begin: np.ndarray
    by: np.ndarray

    def numbers(self, frames: FrameRuns) -> np.ndarray:
        """List the numbers of all frames: int64[n]."""
        made: np.ndarray = frames.numbers() + np.repeat(self.by, np.diff(self.begin, append=len(frames)))
        return made


def placed(numbers: Callable[[np.ndarray], np.ndarray], frames: FrameRuns, look: int) -> Shifts | None:
    """Find the number of each frame (a position, a count) from those of a few, if numbers grow from frame to frame.

    Between two frames whose numbers are as far apart as they are, none was lost, so nothing is read
    there: frames without a loss cost `look` numbers, and each loss the logarithm of their count.

    Args:
        numbers: returns the numbers of frames, int64[m]; -1 where a frame has none.
        frames: those that are stored, at least one.
        look: number of frames that are looked at in any case, spread evenly.

    Returns: None if the numbers do not grow.
    """
    known = spread(len(frames), look)
    found = numbers(frames.at(known))
    while True:
        by = found - frames.at(known)
        lost = np.diff(by)
        if (lost < 0).any() or (found < 0).any():
            return None
        between = np.flatnonzero((lost > 0) & (np.diff(known) > 1))
        if not len(between):
            break
        middle = (known[between] + known[between + 1]) // 2
        more = numbers(frames.at(middle))
        known, found = np.insert(known, between + 1, middle), np.insert(found, between + 1, more)
    changes = np.flatnonzero(np.append(1, lost))
    return Shifts(known[changes], by[changes])


def numbered_runs(numbers: Callable[[np.ndarray], np.ndarray], count: int, look: int) -> np.ndarray | None:
    """Cut frames that are numbered where some were lost.

    Args:
        numbers: returns the numbers of frames, counted from that of the first one: int64[m].
        count: how many frames are stored.
        look: see `placed`.

    Returns: int64[r, 3], for each run of frames that follow one another: frames in front of it,
        number of its first frame, count. None if numbers do not grow.
    """
    found = placed(numbers, FrameRuns.one(count), look)
    if found is None:
        return None
    return np.stack([found.begin, found.begin + found.by, np.diff(found.begin, append=count)], axis=1)


def surplus(shape: Sequence[int], stored: int, *, shown: bool = True) -> str:
    """Return words for a message on frames for which a scan has no place; "" where there is no more to say.

    As many surplus frames as lines, or a multiple of that, are mostly recorded behind each line
    while the beam returned; the last line may have none. Then all lines but the first one are shifted, and
    `line_skip` puts them right. As many as the scan has positions are the scan once more.

    Args:
        shape: shape of the scan, slowest axis first.
        stored: number of stored frames.
        shown: True if the frames are shown as this scan; else the words name it, too.
    """
    positions, lines = math.prod(shape), math.prod(shape[:-1])
    more = stored - positions
    if lines < 2 or more < 1:
        return ""
    if not stored % positions:
        times = stored // positions
        return f"; that is the scan {times:,} times: {option(nav_shape=(times, *shape))} shows all"
    behind = next((n for n in (lines, lines - 1) if n > 1 and not more % n and more // n < shape[-1]), 0)
    if not behind:
        return ""
    skip = more // behind
    frames = "is 1 frame" if skip == 1 else f"are {skip:,} frames"
    last = "" if behind == lines else " but the last"
    scan = {} if shown else {"nav_shape": tuple(shape)}
    return f"; that {frames} a line{last}: {option(**scan, line_skip=skip)} skips the end of each line"
