"""Calibrates axes: says at which positions the elements along an axis lie. No files, only values.

Formats put the calibration that a file gives into the attribute `calibration` of an array: axis
name -> some of `scale`, `offset` (of element 0) and `unit`, as the file writes them. An axis with
uneven steps has `values` instead: the array of the set that holds a position for each element.
When a set is opened, `calibrated` puts what `of_axes` makes of it in its place: units get one
spelling, and what says nothing is left out. So `a.calibration` and the attribute are the same.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from vfs.errors import OptionError
from vfs.model.layout.scan import Scan
from vfs.model.units import spelled
from vfs.model.wording import option, option_names, shown

Calibration = Mapping[str, Mapping[str, Any]]

_MIN_SCALE, _MAX_SCALE = 1e-30, 1e30
"""Sizes of a step that can be meant. Bytes that are no numbers often read as far smaller or larger ones."""


def of_axes(said: object, dims: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the calibration of all calibrated axes, in the order of the axes.

    A step that is zero, infinite, no number, or of no possible size is left out, and so is an axis
    of which nothing is left. Steps of 1 from 0 without a unit, or in pixels, are what programs
    write of axes that nobody calibrated: they are left out, too.

    Args:
        said: the attribute `calibration` of an array; anything else counts as no calibration.

    Returns: axis name -> {"scale": float or None, "offset": float or None, "unit": str}, and
        "values" where the axis is uneven. Scale and offset are None where there is no step; `unit` is
        "" where the file names none, else spelled as `vfs.model.units` does.
    """
    known = said if isinstance(said, Mapping) else {}
    found = {dim: _axis(known[dim]) for dim in dims if isinstance(known.get(dim), Mapping)}
    return {dim: axis for dim, axis in found.items() if not _says_nothing(axis)}


def _axis(said: Mapping[str, Any]) -> dict[str, Any]:
    scale = _number(said.get("scale"))
    if scale is not None and not _MIN_SCALE <= abs(scale) <= _MAX_SCALE:
        scale = None
    offset = None if scale is None else (_number(said.get("offset")) or 0.0)
    uneven = {"values": said["values"]} if "values" in said else {}
    return {"scale": scale, "offset": offset, "unit": spelled(said.get("unit")), **uneven}


def _says_nothing(axis: Mapping[str, Any]) -> bool:
    if "values" in axis:
        return False
    if axis["scale"] is None:
        return axis["unit"] in ("", "px")
    return bool(axis["scale"] == 1 and axis["offset"] == 0 and axis["unit"] in ("", "px"))


def _number(value: object) -> float | None:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def for_scan(
    said: Calibration, names: Sequence[str], before: Sequence[int], scan: Scan
) -> dict[str, Mapping[str, Any]]:
    """Return the part of a calibration that still holds for frames that are shown as another scan.

    A scan keeps its steps if only the number of its lines changed. If its lines have another
    length, or only selected frames are shown, nobody measured the steps. A series along one axis
    begins `sync_offset` steps later. In a scan of more axes `sync_offset` only moves frames to
    their right places.

    Args:
        names, before: names and lengths of the navigation axes before.
    """
    kept, after = dict(said), scan.over(tuple(before))
    if scan.chosen is not None or len(after) != len(before) or after[1:] != tuple(before[1:]):
        return {name: axis for name, axis in kept.items() if name not in names}
    slowest = kept.get(names[0], {}) if names else {}
    shift = scan.sync_offset if len(before) == 1 else 0
    if "values" in slowest and (shift or after[0] != before[0]):
        del kept[names[0]]
    elif shift and (scale := _number(slowest.get("scale"))) is not None:
        kept[names[0]] = {**slowest, "offset": (_number(slowest.get("offset")) or 0.0) + shift * scale}
    return kept


_TYPED = re.compile(
    r"\s*(?P<scale>[-+]?[\d.]+(?:e[-+]?\d+)?)\s*(?P<unit>\S.*?)?(?:\s+from\s+(?P<offset>[-+]?[\d.]+(?:e[-+]?\d+)?))?\s*",
    re.I,
)
_EXAMPLE = "scan_x=5.3nm, or energy=0.5 eV from -20"
_NO_UNIT = "@=,;:"  # signs that no unit has, and people type before an offset
_MAX_UNIT_CHARACTERS, _MAX_TYPED_CHARACTERS = 40, 200  # most characters of a unit that is typed, and of all of it


def asked(given: object) -> dict[str, dict[str, Any]]:
    """Read a calibration that a user gives.

    Args:
        given: axis name -> scale, unit and offset, as a mapping or as text ("0.5 eV from -20"); or texts
            AXIS=SCALE UNIT.

    Returns: axis name -> {"scale": float, "offset": float, "unit": str}.

    Raises:
        OptionError: it is something else.
    """
    if isinstance(given, str):
        given = [given]
    if isinstance(given, Sequence) and all(isinstance(one, str) and "=" in one for one in given):
        given = dict(one.rsplit("=", 1) for one in given)
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise OptionError(f"{option(calibration=given)}: expected an axis, its step and its unit, such as {_EXAMPLE}")
    return {name.strip(): _asked(name.strip(), one) for name, one in given.items()}


def written(name: str, axis: Mapping[str, Any]) -> str:
    """Write the calibration of an axis as text that `asked` reads: "energy=0.5 eV from -20"."""
    offset = f" from {axis['offset']!r}" if axis["offset"] else ""
    return f"{name}={axis['scale']!r} {axis['unit']}".rstrip() + offset


def _asked(name: str, given: object) -> dict[str, Any]:
    known: Any = given
    if isinstance(given, str):
        found = _TYPED.fullmatch(given) if len(given) <= _MAX_TYPED_CHARACTERS else None
        known = found.groupdict() if found else {}
    if not isinstance(known, Mapping) or not {"scale"} <= {*known} <= {"scale", "offset", "unit"}:
        raise OptionError(
            f"{option_names('calibration')}: {name}={shown(given)}: expected a step and its unit, such as {_EXAMPLE}"
        )
    scale, offset, unit = _number(known["scale"]), _number(known.get("offset") or 0.0), known.get("unit") or ""
    if scale is None or not _MIN_SCALE <= abs(scale) <= _MAX_SCALE or offset is None or abs(offset) > _MAX_SCALE:
        raise OptionError(
            f"{option_names('calibration')}: {name}={shown(given)}: expected a step that is a number other than 0"
        )
    if not isinstance(unit, str) or len(unit) > _MAX_UNIT_CHARACTERS or not unit.isprintable():
        raise OptionError(
            f"{option_names('calibration')}: {name}={shown(given)}: expected a unit of at most"
            f" {_MAX_UNIT_CHARACTERS} characters"
        )
    if isinstance(given, str) and (sign := next((one for one in unit if one in _NO_UNIT), "")):
        raise OptionError(
            f"{option_names('calibration')}: {name}={shown(given)}: expected a unit, found {shown(sign)} in it; the"
            f" position of element 0 follows `from`, as in {_EXAMPLE}"
        )
    return {"scale": scale, "offset": offset, "unit": spelled(unit)}
