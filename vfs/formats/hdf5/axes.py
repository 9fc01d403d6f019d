"""Names and calibrates the axes of HDF5 data sets, by what the programs that wrote them say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain, count

from vfs.formats.hdf5.program import Axes, Axis, Found
from vfs.formats.hdf5.programs import PROGRAMS
from vfs.h5.facts import Survey
from vfs.model.stored import scan_dims
from vfs.model.units import DIFFRACTION, ENERGIES, LENGTHS, spelled

_AXES = tuple(program.axes for program in PROGRAMS if program.axes)


def axes_of(name: str, shape: tuple[int, ...], found: Found, survey: Survey) -> Axes | None:
    """Return the axes of a data set from the metadata of the file; None if there are none.

    Args:
        name: path of the data set.
        found: the arrays of the file.
    """
    if name in survey.data and survey.data[name].parts_each:
        return _with_parts(_by_program(name, shape[:-1], found, survey), len(shape))
    return _by_program(name, shape, found, survey)


def _with_parts(axes: Axes | None, ndim: int) -> Axes:
    """Add the axis of the fields of compounds to those of an array of `ndim` axes; at most two others are an image."""
    nav = max(0, ndim - 3) if axes is None or axes.nav_ndim is None else axes.nav_ndim
    known = (Axis(),) * (ndim - 1) if axes is None else axes.axes
    unnamed = axes is None or not axes.names
    if unnamed:
        known = tuple([replace(axis, name="") for axis in known])
    return Axes((*known, Axis("s")), nav_ndim=nav, picture=unnamed or (axes is not None and axes.picture))


def _by_program(name: str, shape: tuple[int, ...], found: Found, survey: Survey) -> Axes | None:
    """Return what the first program says that knows the array."""
    for axes_by in _AXES:
        if (axes := axes_by(name, shape, found, survey)) is not None:
            return _named_by_unit(_curves(axes))
    return None


def _named_by_unit(axes: Axes) -> Axes:
    """Name axes of which none has a name by their units, if these show spectra or diffraction patterns of a scan."""
    if axes.picture or any(axis.name for axis in axes.axes):
        return axes
    units = [spelled((axis.calibration or {}).get("unit")) for axis in axes.axes]
    scan, patterns = units[:-2], len(units) > 2 and {*units[-2:]} <= DIFFRACTION
    names: tuple[str, ...] = ()
    if len(units) > 1 and units[-1] in ENERGIES and LENGTHS.issuperset(units[:-1]):
        names = (*scan_dims(units[:-1]), "energy")
    elif len(units) == 3 and units[0] in ENERGIES and LENGTHS.issuperset(units[1:]):
        names = ("energy", "y", "x")
    elif patterns and LENGTHS.issuperset(scan):
        names = (*scan_dims(scan), "y", "x")
    if not names:
        return axes
    return replace(axes, axes=tuple([replace(axis, name=name) for axis, name in zip(axes.axes, names, strict=True)]))


def _curves(axes: Axes) -> Axes:
    """Say that each position of a scan holds a curve, where the file does not: lengths, and behind them another unit.

    The last axis is that of spectra or of the angles of a detector; images have two axes alike.
    """
    *scan, last = [spelled((axis.calibration or {}).get("unit")) for axis in axes.axes]
    if axes.nav_ndim is None and len(scan) > 1 and LENGTHS.issuperset(scan) and last in ENERGIES | DIFFRACTION:
        return replace(axes, nav_ndim=len(scan))
    return axes


def dimensions(arrays: Mapping[str, tuple[tuple[int, ...], tuple[str, ...]]]) -> dict[str, tuple[str, ...]]:
    """Name the axes of all arrays of a file.

    If the file does not name axes, the last two are y and x, and those before dim_0, dim_1 …. In a
    group, all axes of one name must have one length: otherwise xarray refuses to open it. So an
    invented name gets the length as suffix (x_2048) if the group uses the name for another length,
    or has an array of that name.

    Args:
        arrays: path -> (shape, given names or (); "" for the axes y and x of a picture); earlier arrays
            get a name first.
    """
    lengths: dict[str, dict[str, int]] = {}  # group -> name of an axis -> its length
    for path, (shape, given) in arrays.items():
        known = {name: n for name, n in zip(given, shape, strict=False) if name}
        lengths.setdefault(path.rpartition("/")[0], {}).update(known)
    names = dict.fromkeys(arrays, ())  # type: dict[str, tuple[str, ...]]
    for path, (shape, given) in arrays.items():
        group = path.rpartition("/")[0]
        missing = iter(_usual(given.count("") if given else len(shape)))
        names[path] = tuple(
            name or _invented(next(missing), n, group, lengths[group], arrays)
            for name, n in zip(given or ("",) * len(shape), shape, strict=True)
        )
    return names


def _usual(ndim: int) -> tuple[str, ...]:
    return tuple(f"dim_{k}" for k in range(ndim - 2)) + ("y", "x")[max(0, 2 - ndim) :]


def _invented(
    name: str,
    length: int,
    group: str,
    lengths: dict[str, int],
    arrays: Mapping[str, tuple[tuple[int, ...], tuple[str, ...]]],
) -> str:
    """Return the name, or if it is taken the name with the length, and underscores until it is unique."""
    for made in chain([name], (f"{name}_{length}{'_' * k}" for k in count())):
        shape, _ = arrays.get(f"{group}/{made}".lstrip("/"), ((length,), ()))
        if shape == (length,) and lengths.setdefault(made, length) == length:
            return made
    raise AssertionError
