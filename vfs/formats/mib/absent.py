"""Finds the frames that a set of MIB files lacks.

Frames are numbered, so frames missing between two files leave a gap in the numbers. Only the .hdr
has the total number of frames.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from vfs.errors import MissingSourceError, TruncatedSourceError
from vfs.formats import series
from vfs.formats.mib.heads import MibFiles
from vfs.formats.mib.scan import ScanSaid
from vfs.model.layout.scan_order import surplus
from vfs.model.name_order import natural
from vfs.model.stored import Absence
from vfs.model.wording import are
from vfs.sources.names import basename

_BLANK = "shows these frames as blank"


class StoredFrames(NamedTuple):
    """Counts the frames that the files hold, in runs of frames that follow one another: a file, or a part of one."""

    found: MibFiles
    full: np.ndarray
    """int64[m], the file of each run; all of them hold whole frames"""
    counts: np.ndarray
    """int64[m], number of frames in each run"""
    begin: np.ndarray
    """int64[m], index of each run's first frame, counted from the first one of all files"""
    record: int
    """bytes"""
    ahead: np.ndarray | int = 0
    """int64[m], frames of the same file in front of each run"""

    @property
    def span(self) -> int:
        """The number of frames from the first file's first one to the last stored one."""
        return int(self.begin[-1] + self.counts[-1])


def in_front(stored: StoredFrames, expected: int) -> int:
    """Count the frames that are missing in front of the first file.

    Some are missing if fewer are stored than the .hdr says, their numbers begin above 1, and by its
    name the first file is not the first of its series.

    Args:
        expected: number of frames in the .hdr; 0 if it has none.
    """
    before = int(stored.found.sequences[0]) - 1
    if before < 1 or (absent := expected - stored.span) < 1:
        return 0
    path = stored.found.files.paths[0]
    # Usual series begin with 1, rare ones with 0
    if series.in_front(path).count or (series.in_front(path, 0).count and stored.counts.item(0) == before):
        return min(before, absent)
    return 0


def absences(
    named: str,
    stored: StoredFrames,
    front: int,
    said: ScanSaid,
    scan: Sequence[int],
    whole_series: bool,
) -> tuple[Absence, ...]:
    """Report missing frames, the worst loss first.

    Args:
        named: the .hdr, or the first file.
        front: number of blank frames that are shown in front of those of the first file.
        said: what the .hdr says about the scan.
        scan: shape of the scan that is shown.
        whole_series: True if the files were found by the name of one of them.
    """
    expected, line_skip, span = said.expected, said.line_skip, stored.span
    total, shown = front + span, math.prod(scan) + math.prod(scan[:-1]) * line_skip
    found = list(_first_ones(named, stored, front, expected, whole_series))
    rests = stored.found.files.sizes % stored.record
    if stored.counts.sum() < span:
        found += _holes(named, stored, rests, front, max(expected, total))
    if rests.any():
        found.append(_left_over(stored, rests))
    if expected > total + line_skip:  # frames behind the last line are no loss
        less = expected - total
        text = f"{named}: says {expected:,} frames, {total:,} are stored: {_last(less)} missing"
        found.append(Absence(text, counts={"frames_missing": less}, to_come=True))
    if total > shown:
        more = total - shown
        hint = "" if line_skip else surplus(scan, total)
        text = (
            f"{named}: says a scan of {' × '.join(map(str, scan))}, {total:,} frames are stored:"
            f" {are(more)} not shown{hint}"
        )
        found.append(Absence(text, counts={"frames_left_out": more}))
    elif 0 < expected < total and len(scan) == 1:
        hint = surplus(said.scan, total, shown=False) if said.scan else ""
        text = f"{named}: says {expected:,} frames, {total:,} are stored: all are shown, along one axis{hint}"
        found.append(Absence(text, arrangement=True))
    return tuple(found)


def behind_the_scan(named: str, declared: int, expected: int, stored: int) -> tuple[Absence, ...]:
    """Report an acquisition that stopped behind a whole scan.

    Args:
        declared: number of frames of the acquisition in the .hdr; 0 if it has none.
        expected: number of frames of the scan in the .hdr.
        stored: number of frames in the files.
    """
    if not expected <= stored < declared:
        return ()
    text = f"{named}: says {declared:,} frames, {stored:,} are stored; the scan of {expected:,} frames is whole"
    return (Absence(text, to_come=True),)


def _first_ones(named: str, stored: StoredFrames, front: int, expected: int, whole_series: bool) -> Iterator[Absence]:
    """Report frames missing in front of the first file.

    If no .hdr has the number of frames, the array begins with the first stored frame.
    """
    path, number = stored.found.files.paths[0], stored.found.sequences.item(0)
    lost = series.in_front(path)
    names = f", {lost}" if lost.count else ""
    if front:
        said = (
            f"{named}: says {expected:,} frames, {path} begins with number {number:,}: the first {front:,} are"
            f" missing{names}"
        )
        yield Absence(
            said, MissingSourceError, _BLANK, {"files_missing": lost.count, "frames_missing": front}, lost.paths
        )
    elif (
        whole_series
        and not expected
        and len(stored.full) > 1
        and lost.count
        and lost.count * stored.counts.item(0) == number - 1
    ):
        said = f"{path}: begins with frame number {number:,}{names}: the array begins with this frame"
        yield Absence(said, counts={"files_missing": lost.count, "frames_missing": number - 1}, files=lost.paths)


def _holes(named: str, stored: StoredFrames, rests: np.ndarray, front: int, total: int) -> Iterator[Absence]:
    """Report frames missing between stored ones, because files are missing or were cut, or frames were lost."""
    paths = stored.found.files.paths
    ends = np.concatenate([[0], (stored.begin + stored.counts)[:-1]])
    lost, lost_frames, cut_frames, cut = series.Lost(), list[tuple[int, int]](), list[tuple[int, int]](), list[int]()
    inside: dict[int, list[tuple[int, int]]] = {}
    for k in np.flatnonzero(stored.begin > ends).tolist():
        frames = front + int(ends[k]), front + stored.begin.item(k) - 1
        before, after = stored.full.item(k - 1) if k else 0, stored.full.item(k)
        if k and before == after:
            inside.setdefault(after, []).append(frames)
            continue
        gone = series.between(paths[before], paths[after])
        if gone.count and after == before + 1:
            lost, lost_frames = lost + gone, [*lost_frames, frames]
        else:
            cut, cut_frames = [*cut, before + int(np.argmax(rests[before:after] > 0))], [*cut_frames, frames]
    if lost_frames:
        counts = {"files_missing": lost.count, "frames_missing": _count(lost_frames)}
        yield Absence(
            f"{named}: {lost}, with {series.ranges(lost_frames)} of {total:,}",
            MissingSourceError,
            _BLANK,
            counts,
            lost.paths,
        )
    if cut_frames:
        file, count = cut[0], _count(cut_frames)
        how = f"ends too early, before {basename(paths[file + 1])} begins"
        said = (
            f"{paths[file]}: {how}{_others(len(cut))}: {series.ranges(cut_frames)} of {total:,}"
            f" {'is' if count == 1 else 'are'} missing"
        )
        yield Absence(said, TruncatedSourceError, _BLANK, {"frames_missing": count})
    for file, ranges in inside.items():
        count = _count(ranges)
        said = (
            f"{paths[file]}: by the numbers in its frame headers, {series.ranges(ranges)} of {total:,}"
            f" {'was lost: it is' if count == 1 else 'were lost: they are'} blank"
        )
        yield Absence(said, counts={"frames_missing": count})


def _left_over(stored: StoredFrames, rests: np.ndarray) -> Absence:
    """Report the bytes behind the last whole frame of files."""
    files, left = np.flatnonzero(rests), int(rests.sum())
    said = (
        f"{stored.found.files.paths[files[0]]}: ends within a frame{_others(len(files))}: {are(left, 'byte')} not shown"
    )
    return Absence(said, counts={"bytes_left_over": left}, to_come=bool(files[-1] == len(rests) - 1))


def without_frames(empty: Sequence[str], others: Sequence[str]) -> tuple[Absence, ...]:
    """Report files that hold nothing. One behind all others of the series may just have been begun."""
    if not empty:
        return ()
    said = f"{empty[0]}: expected frames, found an empty file{_others(len(empty))}"
    last = len(empty) == 1 and natural(empty[0]) > max(map(natural, others))
    shows = "shows the frames of the other files"
    return (Absence(said, TruncatedSourceError, shows, files=tuple(empty), to_come=last),)


def _count(ranges: Sequence[tuple[int, int]]) -> int:
    return sum(last + 1 - first for first, last in ranges)


def _others(files: int) -> str:
    return "" if files == 1 else f", as {files - 1:,} other{'s do' if files > 2 else ' does'}"


def _last(count: int) -> str:
    return "the last one is" if count == 1 else f"the last {count:,} are"
