"""Reads in which order the axes of an array are shown, which of them are the scan, and which are turned over.

    scan_x, scan_y | y, x           lines of the scan become columns
    scan_y, scan_x | -y, x          the last row of every frame comes first
    scan_y=dim_2, scan_x=dim_3 | y=dim_0, x=dim_1       the file stores an image of the scan for each pixel

No files, only values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from vfs.errors import OptionError
from vfs.model.wording import option

MAX_NAME_CHARACTERS = 200  # most characters of a name


class AxisOrder(NamedTuple):
    """An order of axes.

    Attributes:
        axes: for each axis that is shown, its number in the array as it is stored.
        flipped: for each, if its last element comes first.
        dims: their names.
        nav_ndim: how many of them are navigation axes.
    """

    axes: tuple[int, ...]
    flipped: tuple[bool, ...]
    dims: tuple[str, ...]
    nav_ndim: int

    @property
    def moves(self) -> bool:
        """True if any element gets another place."""
        return any(self.flipped) or self.axes != tuple(range(len(self.axes)))

    def calibrated(self, said: Mapping[str, Any], before: Sequence[str], shape: Sequence[int]) -> dict[str, Any]:
        """Return a calibration for the names and directions of this order.

        Element k of a flipped axis is where element n - 1 - k was. Positions of uneven steps are an array of the set,
        which stays as it is: so of a flipped axis they are left out.

        Args:
            said: axis name -> entries; before: names of the axes so far; shape: their lengths.
        """
        found: dict[str, Any] = {}
        for axis, flipped, name in zip(self.axes, self.flipped, self.dims, strict=True):
            known = said.get(before[axis])
            if not isinstance(known, Mapping) or (flipped and "values" in known):
                continue
            found[name] = _reversed(known, shape[axis]) if flipped else known
        return found


def _reversed(known: Mapping[str, Any], n: int) -> Mapping[str, Any]:
    try:
        scale, offset = float(known["scale"]), float(known.get("offset") or 0.0)
    except (KeyError, TypeError, ValueError):  # nobody knows the positions
        return known
    return {**known, "scale": -scale, "offset": offset + (n - 1) * scale}


def axis_order(text: Any, dims: Sequence[str], nav_ndim: int) -> AxisOrder:
    """Read an order.

    Args:
        text: names of axes with commas between them, each once. "-" before a name turns the axis over, "new=" before
            it gives it another name, "|" stands between the axes of the scan and those of a frame. Without "|" so many
            axes are the scan as before.
        dims: names of the axes as they are stored; nav_ndim: how many of them are navigation axes.

    Raises:
        OptionError: it is no such order of these axes.
    """
    if not isinstance(text, str):
        raise OptionError(f"{option(axes=text)}: expected text such as 'scan_x, scan_y | -y, x'")
    parts = [_words(part) for part in text.split("|")]
    words = [word for part in parts for word in part]
    read = [_word(word, text, dims) for word in words]
    axes, flipped, names = (tuple(column) for column in zip(*read, strict=True)) if read else ((), (), ())
    if len(parts) > 2 or sorted(axes) != list(range(len(dims))):
        raise _unfitting(text, dims, "each axis once, and at most one |")
    if len({*names}) < len(names):
        raise _unfitting(text, dims, "another name for each axis")
    return AxisOrder(axes, flipped, names, len(parts[0]) if len(parts) == 2 else nav_ndim)


def _words(part: str) -> list[str]:
    return [word.strip() for word in part.split(",")] if part.strip() else []


def _word(word: str, text: str, dims: Sequence[str]) -> tuple[int, bool, str]:
    """Read one axis: its number, if it is turned over, its name."""
    name, equals, old = (part.strip() for part in word.rpartition("="))
    flipped = old.startswith("-") and old not in dims
    old = old[1:].strip() if flipped else old
    if old not in dims or (equals and not _is_name(name)):
        raise _unfitting(text, dims, "names of axes" if old not in dims else "a name before =")
    return dims.index(old), flipped, name if equals else old


def _is_name(name: str) -> bool:
    return 0 < len(name) <= MAX_NAME_CHARACTERS and name.isprintable() and not {*name} & {*'|,=/"\\'} and name[0] != "-"


def _unfitting(text: str, dims: Sequence[str], expected: str) -> OptionError:
    return OptionError(f"{option(axes=text)}: expected {expected}; the axes are {', '.join(dims) or 'none'}")
