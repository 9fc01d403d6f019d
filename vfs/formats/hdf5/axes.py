"""Names and calibrates the axes of HDF5 data sets, by the conventions of the programs that write them.

    HyperSpy   groups `axis-0`, `axis-1`, … beside `data`: attributes name, scale, offset, units,
               navigate
    EMD        (NCEM, Prismatic, py4DSTEM) a group with emd_group_type: vectors `dim1`, `dim2`, … or
               `dim0`, `dim1`, … beside the data, with attributes name and units
    Velox      JSON in `Metadata` beside `Data`: size and unit of a pixel of images (y, x, frame) and
               the time of a frame; dispersion and offset of spectra (energy, spectrum), eV
    Nion Swift JSON in the attribute `properties`: offset, scale, units of each axis, axes of the scan
    abTEM      vectors `offset`, `sampling`, `units`, `name` beside `array`: an element for each axis
    DM5        attributes of groups `Calibrations/Dimension/[0]` …, beside `Data`
    TopSpin    XML in `Metadata` beside each frame: position of the beam (m), angle of a pixel (rad)
    NeXus      attribute `axes` of an NXdata group, or of the data set itself, names vectors beside
               it, with attribute units
    NXmx       (Dectris) size of a pixel (m) and time of a frame (s) in instrument/detector

An axis has a scale and an offset (of element 0) if its vector is even; of an uneven one the
calibration names the array, `values`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import Any, cast

import numpy as np

from vfs.formats.hdf5 import abtem, dm5, nion, topspin, velox
from vfs.formats.hdf5.pieces import StoredData
from vfs.formats.hdf5.small import read_small
from vfs.h5.facts import Survey
from vfs.model.stored import scan_dims
from vfs.model.units import DIFFRACTION, ENERGIES, LENGTHS, spelled

_EVEN = 1e-3  # most distance, in steps, of an element of an even vector from its place
_NO_NAME = {"none", "_none_", "undefined", "t.undefined", "<undefined>", "[]"}


@dataclass(frozen=True)
class Axis:
    """Holds name ("" if unknown) and calibration (known ones of scale, offset, unit, values) of an axis."""

    name: str = ""
    calibration: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Axes:
    """Holds the axes of a data set, slowest first.

    Attributes:
        nav_ndim: number of navigation axes; None if the file does not say.
        picture: axes without a name are those of a picture, beside others that have one.
    """

    axes: tuple[Axis, ...]
    nav_ndim: int | None = None
    picture: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names, if all axes have one and all are different; else (). Of a picture, "" for its axes."""
        names = tuple(axis.name for axis in self.axes)
        return names if self.picture or (all(names) and len(set(names)) == len(names)) else ()


def axes_of(name: str, shape: tuple[int, ...], survey: Survey, found: Mapping[str, StoredData]) -> Axes | None:
    """Return the axes of a data set from the metadata of the file; None if there are none.

    Args:
        name: path of the data set.
        found: the arrays of the file.
    """
    if name in survey.data and survey.data[name].parts_each:
        return _with_parts(_by_convention(name, shape[:-1], survey, found), len(shape))
    return _by_convention(name, shape, survey, found)


def _with_parts(axes: Axes | None, ndim: int) -> Axes:
    """Add the axis of the fields of compounds to those of an array of `ndim` axes; at most two others are an image."""
    nav = max(0, ndim - 3) if axes is None or axes.nav_ndim is None else axes.nav_ndim
    known = (Axis(),) * (ndim - 1) if axes is None else axes.axes
    return Axes((*known, Axis("s")), nav_ndim=nav, picture=axes is None or axes.picture)


def _by_convention(name: str, shape: tuple[int, ...], survey: Survey, found: Mapping[str, StoredData]) -> Axes | None:
    """Return what the first convention says that the file follows."""
    group, _, own = name.rpartition("/")
    for convention in (_hyperspy, _emd, _velox, _topspin, _dm5, _nion, _abtem, _nexus, _nxmx, _image):
        axes = convention(group, own, shape, survey, found)
        if axes is not None:
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


def _hyperspy(
    group: str, own: str, shape: tuple[int, ...], survey: Survey, found: Mapping[str, StoredData]
) -> Axes | None:
    said = [survey.groups.get(f"{group}/axis-{k}") for k in range(len(shape))]
    if own != "data" or not shape or any(axis is None for axis in said):
        return None
    axes = []
    for axis in cast(list[Mapping[str, Any]], said):
        known: dict[str, Any] = {"unit": axis.get("units")}
        if all(isinstance(axis.get(word), int | float) for word in ("scale", "offset")):
            known = {"scale": float(axis["scale"]), "offset": float(axis["offset"]), **known}
        axes.append(Axis(_word(axis.get("name")), known))
    navigate = [axis.get("navigate") for axis in said if axis is not None]
    nav = sum(flag is True for flag in navigate)
    told = navigate == [True] * nav + [False] * (len(shape) - nav)
    return Axes(tuple(axes), nav if told else None)


def _emd(group: str, own: str, shape: tuple[int, ...], survey: Survey, found: Mapping[str, StoredData]) -> Axes | None:
    if "emd_group_type" not in survey.groups.get(group, {}) or not shape or re.fullmatch(r"dim\d+", own):
        return None
    first = 0 if f"{group}/dim0" in survey.data else 1
    names = [f"{group}/dim{first + k}" for k in range(len(shape))]
    if not all(vector in survey.data for vector in names):
        return None
    return Axes(tuple(_vector(vector, n, survey, found, short=True) for vector, n in zip(names, shape, strict=True)))


def _velox(
    group: str, own: str, shape: tuple[int, ...], survey: Survey, found: Mapping[str, StoredData]
) -> Axes | None:
    if own == "Data" and re.fullmatch(r"Data/EelsSpectrumImage/[^/]+", group):
        return _velox_eels(group, len(shape), survey, found)
    kind = re.fullmatch(r"Data/(Image|Spectrum)/[^/]+", group)
    if own != "Data" or not kind or f"{group}/Metadata" not in found:
        return None
    names, calibrated = _VELOX[kind[1]]
    if len(shape) != len(names):
        return None
    said = velox.metadata(group, found, survey)
    known: dict[str, dict[str, Any]] = {}
    for axis in names:
        with suppress(ValueError, KeyError, TypeError):
            known |= calibrated(axis, said)
    return Axes(tuple(Axis(axis, known.get(axis)) for axis in names), nav_ndim=0)  # none of frames that come first


def _velox_eels(group: str, ndim: int, survey: Survey, found: Mapping[str, StoredData]) -> Axes | None:
    """Return the axes of a spectrum image of energy losses, or of a line of spectra."""
    said = velox.metadata(group, found, survey, "AcquisitionMetadata").get("Data")
    if ndim not in (2, 3) or not isinstance(said, dict):
        return None
    known: dict[str, dict[str, Any]] = {}
    with suppress(ValueError, KeyError, TypeError):
        known["energy"] = {"scale": float(said["dispersion"]), "offset": float(said["offset"]), "unit": "eV"}
    maps = (name.rpartition("/")[0] for name in found if re.fullmatch(r"Data/SpectrumImage/[^/]+/Metadata", name))
    if (of := next(maps, None)) is not None:
        for axis in ("y", "x"):
            with suppress(ValueError, KeyError, TypeError):
                known |= _velox_image(axis, velox.metadata(of, found, survey))
    return Axes(
        tuple(Axis(axis, known.get(axis)) for axis in ("x", "energy", "y")[:ndim]),
        nav_ndim=3 - ndim,
    )


def _velox_image(axis: str, said: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the calibration of an axis of an image."""
    if axis == "frame":
        return {axis: {"scale": float(said["Scan"]["FrameTime"]), "offset": 0.0, "unit": "s"}}
    made = said["BinaryResult"]
    return {
        axis: {
            "scale": float(made["PixelSize"]["height" if axis == "y" else "width"]),
            "offset": float(made["Offset"][axis]),
            "unit": made[f"PixelUnit{axis.upper()}"],
        }
    }


def _velox_spectrum(axis: str, said: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the calibration of the energies of a spectrum."""
    if axis != "energy":
        return {}
    detector = said["Detectors"][f"Detector-{said['BinaryResult']['DetectorIndex']}"]
    step = {"scale": float(detector["Dispersion"]), "offset": float(detector["OffsetEnergy"]), "unit": "eV"}
    return {axis: step}


_VELOX: Mapping[str, tuple[tuple[str, ...], Callable[[str, Mapping[str, Any]], dict[str, dict[str, Any]]]]] = {
    "Image": (("y", "x", "frame"), _velox_image),
    "Spectrum": (("energy", "spectrum"), _velox_spectrum),
}


def _topspin(
    group: str, own: str, shape: tuple[int, ...], survey: Survey, found: Mapping[str, StoredData]
) -> Axes | None:
    whole = f"{group}/{own}"
    if not topspin.is_scan(whole) or whole in survey.data or len(shape) < 3:
        return None
    known = topspin.calibration(whole, survey)
    scan: tuple[Axis, ...] = (Axis("frame"),)
    if len(shape) == 4 and (of := topspin.raster(whole, math.prod(shape[:2]), survey)):
        scan = tuple(
            Axis(name, {"scale": scale, "offset": offset, "unit": "m"} if scale else None)
            for name, (scale, offset) in (("scan_y", of.y), ("scan_x", of.x))
        )
    return Axes((*scan, Axis("y", known.get("y")), Axis("x", known.get("x"))), nav_ndim=len(scan))


def _dm5(group: str, own: str, shape: tuple[int, ...], survey: Survey, found: Mapping[str, StoredData]) -> Axes | None:
    said = dm5.axes(f"{group}/{own}", len(shape), survey)
    if said is None:
        return None
    return Axes(tuple(map(Axis, said.names, said.calibrations)), said.nav_ndim)


def _nion(group: str, own: str, shape: tuple[int, ...], survey: Survey, found: Mapping[str, StoredData]) -> Axes | None:
    said = nion.axes(f"{group}/{own}".strip("/"), shape, survey)
    return None if said is None else Axes(tuple(map(Axis, said.names, said.calibrations)), said.nav_ndim)


def _abtem(
    group: str, own: str, shape: tuple[int, ...], survey: Survey, found: Mapping[str, StoredData]
) -> Axes | None:
    said = abtem.axes(f"{group}/{own}".strip("/"), shape, survey, found)
    if said is None:
        return None
    return Axes(tuple(map(Axis, map(_word, said.names), said.calibrations)), said.nav_ndim)


def _nexus(
    group: str, own: str, shape: tuple[int, ...], survey: Survey, found: Mapping[str, StoredData]
) -> Axes | None:
    about = survey.groups.get(group, {})
    data = survey.data.get(f"{group}/{own}".strip("/"))
    attrs = data.attrs if data else {}
    signals = [about.get("signal"), *_list(about.get("auxiliary_signals"))]
    names = _list(attrs.get("axes")) if "axes" in attrs else _list(about.get("axes")) if own in signals else []
    if not names or not shape:
        return None
    axes: list[Axis] = [Axis()] * len(shape)
    for k, axis in enumerate(names):
        at = about.get(f"{axis}_indices", k)
        if not isinstance(at, int):
            at = at[0] if isinstance(at, list) and len(at) == 1 else k
        if axis not in (".", "") and isinstance(at, int) and 0 <= at < len(shape):
            path = f"{group}/{axis}".strip("/")
            found_axis = _vector(path, shape[at], survey, found) if path in survey.data else Axis()
            axes[at] = Axis(axis, found_axis.calibration)
    nav = {"scalar": 0, "spectrum": 1, "image": 2}.get(str(attrs.get("interpretation", about.get("interpretation"))))
    return Axes(tuple(axes), None if nav is None or nav > len(shape) else len(shape) - nav)


def _nxmx(group: str, own: str, shape: tuple[int, ...], survey: Survey, found: Mapping[str, StoredData]) -> Axes | None:
    if not re.fullmatch(r"data(_\d{6})?", own, re.ASCII) or len(shape) != 3:
        return None
    detector = f"{group.rpartition('/')[0]}/instrument/detector".lstrip("/")
    axes = []
    for name in ("frame_time", "y_pixel_size", "x_pixel_size"):
        path = f"{detector}/{name}"
        value = read_small(survey.origin, found[path]) if path in found and math.prod(found[path].shape) == 1 else None
        known = None
        if value is not None and float(value[0]) > 0:
            known = {"scale": float(value[0]), "offset": 0.0, "unit": survey.data[path].attrs.get("units")}
        axes.append(Axis("", known))
    return Axes(tuple(axes)) if any(axis.calibration for axis in axes) else None


_COLOURS: Mapping[str, tuple[str, str, str]] = {
    "INTERLACE_PIXEL": ("", "", "s"),
    "INTERLACE_LINE": ("", "s", ""),
    "INTERLACE_PLANE": ("s", "", ""),
}
"""Word of the HDF5 Image specification -> names of the axes of a picture in colours; s: red, green, blue."""


def _image(
    group: str, own: str, shape: tuple[int, ...], survey: Survey, found: Mapping[str, StoredData]
) -> Axes | None:
    name = f"{group}/{own}".strip("/")
    attrs = survey.data[name].attrs if name in survey.data else {}
    names = _COLOURS.get(str(attrs.get("INTERLACE_MODE")), ())
    if attrs.get("IMAGE_SUBCLASS") != "IMAGE_TRUECOLOR" or len(shape) != len(names) or shape[names.index("s")] != 3:
        return None
    return Axes(tuple(map(Axis, names)), nav_ndim=0, picture=True)


def _list(value: Any) -> list[str]:
    """Return the names in a list, or in a text with commas, colons or spaces between them."""
    if isinstance(value, str):
        return [part for part in re.split(r"[,:\s\[\]]+", value) if part]
    return [str(part) for part in value] if isinstance(value, list) else []


def _word(value: Any) -> str:
    text = str(value).strip() if isinstance(value, str) else ""
    return "" if text.lower() in _NO_NAME or not text.isprintable() else text


def _vector(path: str, length: int, survey: Survey, found: Mapping[str, StoredData], short: bool = False) -> Axis:
    """Make an axis from a vector of its positions, or of the edges between them.

    Args:
        short: True if a vector of two elements is allowed, which determine all others.
    """
    attrs = survey.data[path].attrs
    known: dict[str, Any] = {"unit": attrs.get("units")}
    if path in found and len(found[path].shape) == 1:
        values = read_small(survey.origin, found[path])
        line = None if values is None else _line(np.asarray(values, "f8"), length, short)
        known = {"values": path, **known} if line is None else {"scale": line[0], "offset": line[1], **known}
    return Axis(_word(attrs.get("name")), known)


def _line(values: np.ndarray, length: int, short: bool) -> tuple[float, float] | None:
    """Return (scale, offset) of an even vector; None for any other."""
    n = len(values)
    if not np.isfinite(values).all() or n < 2 or n not in (length, length + 1, 2 if short else length):
        return None
    scale = float(values[-1] - values[0]) / (n - 1)
    if scale == 0 or np.abs(values - values[0] - scale * np.arange(n)).max() > _EVEN * abs(scale):
        return None
    return scale, float(values[0]) + (scale / 2 if n == length + 1 and not (short and n == 2) else 0.0)
