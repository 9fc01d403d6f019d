"""Nion Swift: names and calibrations of axes, title and metadata of its data.

The facts come from the program (https://github.com/nion-software/nionswift, `HDF5Handler`). The attribute `properties`
of a data set is JSON::

    data                            of a library, `.h5`
    data/0, data/1, …               of an export, `.nhdf`
    is_sequence                     the first axis counts recordings
    collection_dimension_count      axes of the scan behind it
    datum_dimension_count           axes of what was recorded at each position: 1 a spectrum, 2 an image
    dimensional_calibrations        offset of element 0, scale, units, for each axis, slowest first

Pixels in colours have one axis more, which is not counted there: blue, green, red (and opacity). In libraries of
earlier versions these properties are in `data_source`, or in the first of `data_sources`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from vfs.formats.hdf5.program import Axes, Axis, Found, Program, json_of
from vfs.h5.facts import Survey
from vfs.model.colours import AXIS
from vfs.model.stored import nav_dims, scan_dims
from vfs.model.units import ENERGIES, spelled

_COLOURS = ("Blue", "Green", "Red", "Opacity")
"""The order in which a pixel has its colours."""


def _axes(name: str, shape: tuple[int, ...], found: Found, survey: Survey) -> Axes | None:
    """Return the axes of a data set; None if Nion Swift did not write it, or says another number of axes."""
    said = _data(_properties(name, survey))
    counts = _counts(said)
    if counts is None or not sum(counts):
        return None
    coloured = _coloured(counts, shape)
    if sum(counts) + coloured != len(shape):
        return None
    calibrations = [_calibration(one) for one in _list(said.get("dimensional_calibrations"))[: sum(counts)]]
    calibrations += [{}] * (len(shape) - len(calibrations))
    names, nav_ndim = _named(*counts, [spelled(one.get("unit")) for one in calibrations])
    return Axes(tuple(map(Axis, (*names, *((AXIS,) if coloured else ())), calibrations)), nav_ndim)


def _about(found: Found, survey: Survey) -> dict[str, dict[str, Any]]:
    """Return data set -> its attributes: `name`, its title, `properties` as an object, and `samples` of colours."""
    made: dict[str, dict[str, Any]] = {}
    for name, data in survey.data.items():
        if not (said := _properties(name, survey)):
            continue
        title, counts = said.get("title"), _counts(_data(said))
        made[name] = {"properties": said, **({"name": title} if isinstance(title, str) and title else {})}
        if counts and _coloured(counts, data.shape):
            made[name]["samples"] = list(_COLOURS[: data.shape[-1]])
    return made


def _properties(name: str, survey: Survey) -> dict[str, Any]:
    """Return the properties of a data set; {} if it has none. They are the text that is read of numbers."""
    data = survey.data.get(name)
    return json_of(name, survey) if data is not None and not data.left_out else {}


def _data(said: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return those properties that describe the data, whichever version of the program wrote them."""
    for one in (said, said.get("data_source"), *_list(said.get("data_sources"))[:1]):
        if isinstance(one, dict) and "dimensional_calibrations" in one:
            return one
    return {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _counts(said: Mapping[str, Any]) -> tuple[int, int, int] | None:
    """Return the number of axes: of the sequence (0 or 1), of the scan, of what was recorded; None if not said."""
    scan, datum = (said.get(f"{of}_dimension_count") for of in ("collection", "datum"))
    if type(scan) is not int or type(datum) is not int or min(scan, datum) < 0:
        return None
    return int(said.get("is_sequence") is True), scan, datum


def _coloured(counts: tuple[int, int, int], shape: Sequence[int]) -> bool:
    return len(shape) == sum(counts) + 1 and shape[-1] in (3, 4)


def _calibration(said: Any) -> dict[str, Any]:
    """Return scale, offset and unit; {} for an axis that was not calibrated: the program then says scale 1, no unit."""
    about = said if isinstance(said, dict) else {}
    scale, offset, unit = about.get("scale", 1.0), about.get("offset", 0.0), about.get("units", "")
    if not all(type(one) in (int, float) and math.isfinite(one) for one in (scale, offset)):
        return {}
    known = {"scale": float(scale), "offset": float(offset)} if scale else {}
    plain = not spelled(unit) and known == {"scale": 1.0, "offset": 0.0}
    return {} if plain or not known else {**known, "unit": unit}


def _named(sequence: int, scan: int, datum: int, units: Sequence[str]) -> tuple[tuple[str, ...], int]:
    """Return (names of the axes without that of colours, number of navigation axes)."""
    if not datum and scan:  # one number at each position: an image of the scan, or a line of it
        scan, datum = max(0, scan - 2), min(scan, 2)
    nav = sequence + scan
    first = nav_dims(nav) if sequence and scan != 1 else ("t",) * sequence + scan_dims(units[sequence:nav])
    *others, last_unit = units[nav : nav + datum] or [""]
    last = "energy" if last_unit in ENERGIES and not ENERGIES & {*others} else "x"
    return (*first, *(f"dim_{k}" for k in range(datum - 2)), *("y", last)[max(0, 2 - datum) :]), nav


PROGRAM = Program(axes=_axes, about=_about)
