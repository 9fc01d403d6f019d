"""Finds what an FRMS6 set should hold and does not.

The headers and the .hdr say how many frames there should be; the numbers of the files say which
files are missing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vfs.errors import MissingSourceError, TruncatedSourceError
from vfs.formats import series
from vfs.formats.frms6.members import FRAME_HEADER, HEADER, Frms6Set
from vfs.formats.recorded import Recorded
from vfs.model.files import Files
from vfs.model.stored import Absence
from vfs.sources.names import basename

_MAX_BLANK = 1_000_000  # most frames that may be missing between files
_OLDEST = 1_000_000_000  # seconds since 1970
_BLANK = "shows these frames as blank"


@dataclass(frozen=True)
class FrameCounts:
    """Counts the frames in a file.

    Attributes:
        said: number of frames in its header; 0 in older files.
        stored: number of whole frames, at most the number in the header.
        rest: bytes behind them.
        record: bytes of a frame and its header.
    """

    said: int
    stored: int
    rest: int
    record: int

    @classmethod
    def of(cls, header: np.void, size: int) -> FrameCounts:
        """Count the frames in a file with this header.

        Args:
            size: size of the file in bytes.
        """
        record = FRAME_HEADER.itemsize + 2 * int(header["width"]) * int(header["height"])
        said, whole = int(header["frames"]), (size - HEADER.itemsize) // record
        stored = min(said, whole) if said else whole
        return cls(said, stored, size - HEADER.itemsize - stored * record, record)

    def of_none(self, size: int, others: Sequence[FrameCounts]) -> FrameCounts:
        """Count the frames in a file that ends within its header; it should hold as many as the other files of a set.

        Args:
            size: size of the file in bytes.
        """
        return FrameCounts(max(1, *(one.said or one.stored for one in others)), 0, size, self.record)

    @property
    def cut(self) -> bool:
        return self.said > self.stored or (not self.said and self.rest > 0)


def of_another_day(files: Files, counts: Sequence[FrameCounts]) -> tuple[Absence, ...]:
    """Report files with signal whose first time stamp is days away from that of the file in front of them."""
    at = HEADER.itemsize + int(FRAME_HEADER.fields["timestamp_seconds"][1])  # type: ignore[index]
    lines = []
    last: tuple[str, int] | None = None
    for path, one in zip(files.paths, counts, strict=True):
        time = int.from_bytes(files.sources.read(path, at, 4), "little") if one.stored and len(counts) > 1 else 0
        if time < _OLDEST:  # no time, or one that counts from elsewhere
            continue
        if last is not None and abs(time - last[1]) > series.LONGEST_PAUSE:
            before, after = np.datetime64(last[1], "s"), np.datetime64(time, "s")
            lines.append(f"{path}: begins at {after}, {last[0]} before it at {before}")
        last = path, time
    return series.of_another_run(lines)


def positions(chosen: Frms6Set, counts: Sequence[FrameCounts]) -> list[int] | None:
    """Return the index of the first frame of each file; None if it is not known.

    It follows all frames that the files in front of it should hold. All files of a series but the
    last one hold equally many frames, so missing files held as many as the existing ones.
    """
    held = [one.said or one.stored for one in counts]
    usual = max(held[:-1], default=0)
    numbers = chosen.numbers or range(1, len(held) + 1)
    if chosen.lost.count and (held[-1] > usual or any(one != usual for one in held[:-1])):
        return None
    first, at, before = [], 0, 0
    for number, one, count in zip(numbers, counts, held, strict=True):
        at += (number - before - 1) * usual
        first.append(at)
        at, before = at + (max(count, usual) if one.cut else count), number
    blank, stored = first[-1] - sum(held[:-1]), sum(one.stored for one in counts)
    return first if blank <= _MAX_BLANK and first[-1] <= stored + _MAX_BLANK else None


def absences(chosen: Frms6Set, counts: Sequence[FrameCounts], first: Sequence[int]) -> tuple[Absence, ...]:
    """Report the frames that the files lack, except at the end of the set."""
    found = []
    if chosen.lost.count:
        blank = first[-1] - sum(one.said or one.stored for one in counts[:-1])
        lost = {"files_missing": chosen.lost.count, "frames_missing": blank}
        frames = series.ranges(series.holes(first, [one.said or one.stored for one in counts]))
        said = (
            f"{chosen.hdr or chosen.signal[0]}: {chosen.lost}, with {frames}; the set continues to"
            f" {basename(chosen.signal[-1])}"
        )
        found.append(Absence(said, MissingSourceError, _BLANK, lost, chosen.lost.paths))
    for k, (path, one) in enumerate(zip(chosen.signal, counts, strict=True)):
        last = k == len(counts) - 1
        if one.cut or one.rest:
            wanted = f"{one.said:,} records" if one.said else "whole records"
            said = (
                f"{path}: expected {wanted} of {one.record:,} bytes after the header, found {one.stored:,} and"
                f" {one.rest:,} bytes more"
            )
            less = 0 if last else first[k + 1] - first[k] - one.stored
            lost = {"bytes_left_over": one.rest} | ({"frames_missing": less} if less > 0 and one.cut else {})
            found.append(
                Absence(said, TruncatedSourceError if one.cut and not last else None, _BLANK, lost, to_come=last)
            )
    return tuple(found)


def at_the_end(
    chosen: Frms6Set,
    hdr: Mapping[str, str],
    scan: tuple[int, int] | None,
    nav: tuple[int, ...],
    said: int,
    stored: int,
) -> tuple[Absence, ...]:
    """Compare the .hdr with the stored frames.

    Frames may be missing at the end, or there may be more than its scan has places for.
    """
    if chosen.hdr is None:
        return ()
    found = []
    less, more = max(said, math.prod(nav)) - stored, stored - math.prod(nav)
    if less > 0:
        text = (
            f"{chosen.hdr}: says {stored + less:,} signal frames, {stored:,} are stored:"
            f" {'the last one is' if less == 1 else f'the last {less:,} are'} missing"
        )
        found.append(Absence(text, counts={"frames_missing": less}, to_come=True))
    if nav != scan and chosen.numbers:
        text = (
            f"{chosen.hdr}: stemImageSize says {hdr.get('stemimagesize', '')[:24]!r}, expected a scan AxB of {stored:,}"
            " frames: they are one axis"
        )
        found.append(Absence(text))
    if more > 0:
        found += Recorded(chosen.hdr, "frames", "it", stored, 0).absences("a scan", nav)
    return tuple(found)


def without_dark(chosen: Frms6Set, hdr: Mapping[str, str]) -> tuple[Absence, ...]:
    """Report missing dark frames, if the .hdr mentions some and their file does not exist."""
    if chosen.dark or not chosen.numbers or not hdr.get("darkframes", "").strip("0"):
        return ()
    lost = series.in_front(chosen.signal[0], 0)
    name = basename(lost.paths[0])
    return (
        Absence(
            f"{chosen.hdr}: says {hdr['darkframes'][:24]} dark frames, {name} is missing",
            counts={"files_missing": 1},
            files=lost.paths[:1],
        ),
    )
