"""Finds files of another run in a MIB set: by the times in frame headers, and by what a .hdr says of the frames."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from vfs.errors import FormatError
from vfs.formats.mib.heads import Geometry, MibFiles
from vfs.formats.series import LONGEST_PAUSE, may_follow, of_another_run
from vfs.model.stored import Absence

_TIME = re.compile(rb"[^,]*,([0-9]{4}-[0-9]{2}-[0-9]{2})[ T]([0-9]{2}:[0-9]{2}:[0-9]{2})")
_DAY = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4})")


def seconds_of(stamp: bytes) -> float | None:
    """Return the seconds since 1970 of the field behind the sensor layout; None if it has no time."""
    hit = _TIME.match(stamp)
    try:
        return hit and float(np.datetime64(f"{hit[1].decode()}T{hit[2].decode()}", "s").astype(np.int64))
    except ValueError:
        return None


def strangers(found: MibFiles) -> tuple[Absence, ...]:
    """Report files that begin before the one in front of them, or days later."""
    if len(found.stamps) < 2:
        return ()
    ends = [seconds_of(found.stamps[k]) for k in (0, -1)]
    if None not in ends and may_follow(*ends) and [*found.stamps] == sorted(found.stamps):  # type: ignore[arg-type]
        return ()  # as in most sets
    times = [seconds_of(stamp) for stamp in found.stamps]
    lines = []
    last: tuple[int, float] | None = None
    for k, time in enumerate(times):
        if time is None:
            continue
        if last is not None and not may_follow(last[1], time):
            before, after = (np.datetime64(int(one), "s") for one in (last[1], time))
            lines.append(
                f"{found.files.paths[k]}: begins at {after}, {found.files.paths[last[0]]} before it at {before}"
            )
        last = k, time
    return of_another_run(lines)


def hdr_of_another_run(path: str, hdr: Mapping[str, str], geometry: Geometry, found: MibFiles) -> tuple[Absence, ...]:
    """Report a .hdr file whose counter depth, chips or day are not those of the frames."""
    depth, chips = hdr.get("Counter Depth (number)", ""), hdr.get("Assembly Size (NX1, 2X2)", "").strip().lower()
    lines = []
    if geometry.depth and depth.isdecimal() and int(depth) != geometry.depth:
        lines.append(f"a counter depth of {depth}, {found.files.paths[0]} has {geometry.depth}")
    if re.fullmatch(r"\d+x\d+", chips) and chips != geometry.layout:
        lines.append(f"chips {chips}, {found.files.paths[0]} has {geometry.layout}")
    day = _DAY.match(hdr.get("Time and Date Stamp (day, mnth, yr, hr, min, s)", ""))
    first = seconds_of(found.stamps[0])
    if day and first is not None:
        a, b, year = day.groups()
        days = [one for one in (_day(year, b, a), _day(year, a, b)) if one is not None]
        if days and min(abs(first - one) for one in days) > LONGEST_PAUSE:
            start = np.datetime64(int(first), "s")
            lines.append(f"the day {day[0]}, {found.files.paths[0]} begins at {start}")
    if not lines:
        return ()
    said = f"{path}: says {'; '.join(lines)}: it belongs to another acquisition"
    return (Absence(said, FormatError, "heeds what it says of the scan"),)


def _day(year: str, month: str, day: str) -> float | None:
    """Return the seconds since 1970 of a day; None if there is no such day."""
    try:
        return float(np.datetime64(f"{year}-{int(month):02}-{int(day):02}", "s").astype(np.int64))
    except ValueError:
        return None
