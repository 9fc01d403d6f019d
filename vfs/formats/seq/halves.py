"""Finds the other half of a Celeritas camera's frames, where one half is named.

Each half has the time at which its file was made in its name, `<base>_Top_14-13-42.780.seq` and
`<base>_Bottom_14-13-42.822.seq`: two files belong together if their times differ by less than
`_APART`, and no other file does.
"""

from __future__ import annotations

import re
from contextlib import suppress

from vfs.errors import SourceError
from vfs.model.sources import Sources
from vfs.sources.names import beside, dirname

_HALF = re.compile(r"(.*)_(Top|Bottom)_([^/\\]*)\.seq", re.IGNORECASE | re.DOTALL)
_TIME = re.compile(r"(\d\d)-(\d\d)-(\d\d)\.(\d{1,6})", re.ASCII)
_APART = 10.0  # s between the files of two halves
_DAY = 86400.0  # s


def half_of(path: str) -> tuple[str, str] | None:
    """Return what a file of half frames is called by: path of the whole, "top" or "bottom"; None for other files."""
    found = _HALF.fullmatch(path)
    return (found[1], found[2].lower()) if found else None


def other_half(sources: Sources, path: str) -> str | None:
    """Return the path of the file beside this one that has the other halves of its frames.

    Returns: None for a file without halves, or if there is no such file, or more than one.
    """
    mine = half_of(path)
    if mine is None:
        return None
    names: list[str] = []
    with suppress(SourceError):
        names = sorted(sources.names(dirname(path)))
    others = [
        one
        for one in [beside(path, name) for name in names]
        if (half := half_of(one)) and half[0] == mine[0] and half[1] != mine[1]
    ]
    near = [one for one in others if _together(path, one)]
    return near[0] if len(near) == 1 else None


def _together(one: str, other: str) -> bool:
    """Return True if the times in two names are near each other, or names have none."""
    mine, others = _seconds(one), _seconds(other)
    if mine is None or others is None:
        return mine is others
    apart = abs(mine - others)
    return min(apart, _DAY - apart) < _APART


def _seconds(path: str) -> float | None:
    """Return the time in a name, s since midnight; None if there is none."""
    half = _HALF.fullmatch(path)
    found = _TIME.fullmatch(half[3]) if half else None
    if found is None:
        return None
    return int(found[1]) * 3600 + int(found[2]) * 60 + float(f"{found[3]}.{found[4]}")
