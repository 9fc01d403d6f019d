"""abTEM before version 1.0: axes of measurements, waves and potentials.

The facts come from the program (https://github.com/abTEM/abTEM, 1.0.0beta31, `Measurement.write`). At the root are::

    array                               the values; x before y, scan before detector
    offset, sampling, is_none           float64[n], float64[n], bool[n]: of each axis, slowest first
    units, name                         text of 10 bytes for each axis: Å, mrad, …; x, y, alpha_x, alpha_y, …
    extent                              float64[2], instead of these, of waves and potentials: length in x and y, Å
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vfs.formats.hdf5.program import Axes, Axis, Found, Program, axis_name
from vfs.formats.hdf5.small import read_small
from vfs.h5.facts import Survey
from vfs.model.units import DIFFRACTION, spelled

_VECTORS = ("offset", "sampling", "is_none")
_TEXTS = ("units", "name")


def _axes(name: str, shape: tuple[int, ...], found: Found, survey: Survey) -> Axes | None:
    if name != "array" or not shape:
        return None
    return _measured(len(shape), found, survey) or _in_space(shape, found, survey)


def _measured(ndim: int, found: Found, survey: Survey) -> Axes | None:
    """Return the axes of a measurement."""
    numbers = [_vector(name, ndim, found, survey) for name in _VECTORS]
    texts = [survey.data[name].text.split("\0") if name in survey.data else [] for name in _TEXTS]
    if any(one is None for one in numbers) or any(len(text) != ndim for text in texts):
        return None
    offsets, steps, absent = (one.tolist() for one in numbers if one is not None)
    units, names = texts
    calibrations = tuple(
        {"scale": step, "offset": offset, "unit": unit}
        if step and np.isfinite([step, offset]).all() and not gone
        else {}
        for offset, step, gone, unit in zip(offsets, steps, absent, units, strict=True)
    )
    named, nav_ndim = _named(names, [spelled(unit) for unit in units])
    return Axes(tuple(map(Axis, map(axis_name, named), calibrations)), nav_ndim)


def _in_space(shape: Sequence[int], found: Found, survey: Survey) -> Axes | None:
    """Return the axes of waves or of a potential, whose last two are x and y."""
    extent = _vector("extent", 2, found, survey)
    if extent is None or len(shape) < 2 or not {"energy", "slice_thicknesses"} & found.keys():
        return None
    before = len(shape) - 2
    steps = [float(length) / n if n else 0.0 for length, n in zip(extent, shape[-2:], strict=True)]
    known = tuple({"scale": step, "offset": 0.0, "unit": "angstrom"} if step > 0 else {} for step in steps)
    names = ("slice",) if before == 1 and "slice_thicknesses" in found else tuple(f"dim_{k}" for k in range(before))
    return Axes(tuple(map(Axis, (*names, "x", "y"), (*({},) * before, *known))), before)


def _vector(name: str, length: int, found: Found, survey: Survey) -> np.ndarray | None:
    if name not in found or found[name].shape != (length,):
        return None
    return read_small(survey.origin, found[name])


def _named(names: Sequence[str], units: Sequence[str]) -> tuple[tuple[str, ...], int | None]:
    """Return (names of the axes, number of navigation axes, if it is known).

    Where the axes of a detector follow, x and y before them are scan_x and scan_y; its own, alpha_x and alpha_y of
    patterns, are x and y, of angles as their unit says.
    """
    detector = sum(unit in DIFFRACTION for unit in units)
    if not detector and len(names) > 2 and (*names[-2:],) == ("x", "y"):
        detector = 2  # waves at each position
    nav = len(names) - detector if detector else None
    made = tuple(
        f"scan_{name}" if k < (nav or 0) and name in ("x", "y") else name.removeprefix("alpha_") or f"dim_{k}"
        for k, name in enumerate(names)
    )
    return made, nav


PROGRAM = Program(axes=_axes)
