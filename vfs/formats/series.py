"""Finds the missing files of a numbered series, from the numbers of its other files, and files of another run.

It also makes the words for messages about them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vfs.errors import FormatError
from vfs.model.stored import Absence
from vfs.sources.names import basename, splitext

MAX_NAMED = 1000  # most files whose names are worked out: a garbled number may leave any number of gaps
_MAX_SAID = 4  # most names in a message
_MAX_RUNS = 3  # most runs of frames in a message
_SET_BACK = 2  # seconds by which a clock is set back while it runs
_HOUR = (3540, 3660)  # seconds by which it is set back at the end of summer
LONGEST_PAUSE = 2 * 86_400
"""Seconds between two times of one run, at most."""


@dataclass(frozen=True)
class Lost:
    """Describes the missing files of a series.

    Attributes:
        count: number of missing files.
        paths: paths of the first of them; not of all, since a garbled number may leave any number of
            gaps.
    """

    count: int = 0
    paths: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return words for a message: "scan2.mib is missing", "scan2.mib, … (12 files) are missing"."""
        names = [basename(path) for path in self.paths[:_MAX_SAID]]
        if self.count > len(names):
            return f"{', '.join(names)}, … ({self.count:,} files) are missing"
        return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]])) + (
            " is missing" if len(names) == 1 else " are missing"
        )

    def __add__(self, other: Lost) -> Lost:
        return Lost(self.count + other.count, (self.paths + other.paths)[:MAX_NAMED])


def between(before: str, after: str) -> Lost:
    """Find the missing files between two of a series, by the last number in each name.

    There are none if the names differ in more than that number.
    """
    start, low, ending = _parts(before)
    other, high, tail = _parts(after)
    if not low or not high or (start, ending.lower()) != (other, tail.lower()):
        return Lost()
    return _run(start, int(low) + 1, int(high), padded([low, high]), ending)


def in_front(path: str, first: int = 1) -> Lost:
    """Find the missing files of a series before one of its files. The series begins with number `first`."""
    start, digits, ending = _parts(path)
    return _run(start, first, int(digits), padded([digits]), ending) if digits else Lost()


def ranges(frames: Sequence[tuple[int, int]]) -> str:
    """Return words for a message about runs of frames: "frame 3", "frames 20 to 39, 60 to 79".

    Args:
        frames: first and last frame of each run.
    """
    words = [f"{first:,}" if first == last else f"{first:,} to {last:,}" for first, last in frames[:_MAX_RUNS]]
    one = len(frames) == 1 and frames[0][0] == frames[0][1]
    return ("frame " if one else "frames ") + ", ".join(words) + (", …" if len(frames) > _MAX_RUNS else "")


def holes(first: Sequence[int], held: Sequence[int]) -> list[tuple[int, int]]:
    """Find the frames that no file holds, before the first file and between files.

    Args:
        first: number of the first frame of each file.
        held: number of frames in each file.

    Returns: (first frame, last frame) of each run.
    """
    ends = [0, *(begin + n for begin, n in zip(first, held, strict=True))]
    return [(end, begin - 1) for end, begin in zip(ends, first, strict=False) if begin > end]


def may_follow(before: float, after: float) -> bool:
    """Return True if two times, in seconds, may be those of a file and of the next one of the same run."""
    pause = after - before
    return -_SET_BACK <= pause <= LONGEST_PAUSE or _HOUR[0] <= -pause <= _HOUR[1]


def of_another_run(lines: Sequence[str]) -> tuple[Absence, ...]:
    """Report files that have the right name and size, and say that they are of another run.

    Args:
        lines: for each such file, its path and what it says.
    """
    if not lines:
        return ()
    others = f" (and {len(lines) - 1:,} more like it)" if len(lines) > 1 else ""
    said = f"{lines[0]}{others}: it belongs to another acquisition"
    return (Absence(said, FormatError, "shows what it holds in the place of its name"),)


def _run(start: str, low: int, high: int, width: int, ending: str) -> Lost:
    count = max(0, high - low)
    return Lost(
        count, tuple([f"{start}{number:0{width}d}{ending}" for number in range(low, low + min(count, MAX_NAMED))])
    )


def padded(numbers: Iterable[str]) -> int:
    """Return the number of digits to which numbers of a series are padded; 0 if these do not tell."""
    return max((len(digits) for digits in numbers if digits[0] == "0"), default=0)


def _parts(path: str) -> tuple[str, str, str]:
    """Split a file's name into (text before the number at its end, the digits or "", the ending)."""
    stem, ending = splitext(path)
    start = stem.rstrip("0123456789")
    return start, stem[len(start) :], ending
