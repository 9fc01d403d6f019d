"""DigitalMicrograph: images in `.dm5`, which of them is shown first, and their axes.

The facts come from the reader in nionswift-io (https://github.com/nion-software/nionswift-io). Groups and attributes
are the tags of DM3 and DM4 (`vfs.formats.dm`); a list has the members `[0]`, `[1]`, …::

    ImageList/[k]/ImageData/Data                                the pixels, slowest axis first
    ImageList/[k]/ImageData/Calibrations/Dimension/[i]          attributes Origin, Scale, Units; fastest axis first
    ImageList/[k]/ImageTags/Meta Data                           attributes Format, Signal, Data Order Swapped
    DocumentObjectList/[0]: ImageSource = n, ImageSourceList/[n]: ImageRef = k      the image that is shown

Images are shown as they are stored: spectrum images as a map for each energy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from vfs.formats.hdf5.program import Axes, Axis, Found, Program
from vfs.h5.facts import Survey
from vfs.model.stored import nav_dims, scan_dims
from vfs.model.units import DIFFRACTION, ENERGIES, spelled

_IMAGE = re.compile(r"(ImageList/\[\d{1,9}\])/ImageData/Data", re.ASCII)


def _first(found: Found, survey: Survey) -> list[str]:
    """Return the image that DigitalMicrograph shows; without a word of it all that are no thumbnails."""
    images = [name for name in found if _IMAGE.fullmatch(name)]
    source = survey.groups.get("DocumentObjectList/[0]", {}).get("ImageSource")
    shown = survey.groups.get(f"ImageSourceList/[{source}]", {}).get("ImageRef")
    named = f"ImageList/[{shown}]/ImageData/Data"
    if named in images or (images and named in survey.data):
        return [named]
    thumbnails = {
        f"ImageList/[{about.get('ImageIndex')}]/ImageData/Data"
        for path, about in survey.groups.items()
        if re.fullmatch(r"Thumbnails/\[\d+\]", path, re.ASCII)
    }
    return [name for name in images if name not in thumbnails]


def _axes(name: str, shape: tuple[int, ...], found: Found, survey: Survey) -> Axes | None:
    image, ndim = _IMAGE.fullmatch(name), len(shape)
    if image is None or not ndim:
        return None
    about = [
        survey.groups.get(f"{image[1]}/ImageData/Calibrations/Dimension/[{ndim - 1 - k}]", {}) for k in range(ndim)
    ]
    calibrations = [_calibration(one) for one in about]
    units = [spelled(one.get("unit")) for one in calibrations]
    tags = survey.groups.get(f"{image[1]}/ImageTags/Meta Data", {})
    names, nav_ndim = _named(units, tags)
    return Axes(tuple(map(Axis, names, calibrations)), nav_ndim)


def _calibration(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return scale, offset of the first element, and unit; those that are there."""
    scale, origin, unit = (about.get(key) for key in ("Scale", "Origin", "Units"))
    known: dict[str, Any] = {"unit": unit} if isinstance(unit, str) else {}
    if isinstance(scale, int | float):
        start = float(origin) if isinstance(origin, int | float) else 0.0
        known |= {"scale": float(scale), "offset": -start * float(scale) if start else 0.0}
    return known


def _named(units: list[str], tags: Mapping[str, Any]) -> tuple[tuple[str, ...], int]:
    """Return (names of the axes, number of navigation axes)."""
    ndim = len(units)
    spectra = str(tags.get("Format", "")).lower().startswith("spectrum")
    if ndim == 1:
        return ("energy" if spectra or units[0] in ENERGIES else "x",), 0
    if units[-1] in ENERGIES:
        return (*scan_dims(units[:-1]), "energy"), ndim - 1
    if units[0] in ENERGIES or (spectra and ndim == 3):
        return ("energy", *(f"dim_{k}" for k in range(ndim - 3)), *("y", "x")[max(0, 3 - ndim) :]), 1
    if ndim == 4 and {*units[:2]} <= DIFFRACTION and not {*units[2:]} <= DIFFRACTION:
        return ("y", "x", "scan_y", "scan_x"), 2
    scanned = {*units[-2:]} <= DIFFRACTION or bool(tags.get("Data Order Swapped"))
    return (*(scan_dims(units[:-2]) if scanned else nav_dims(ndim - 2)), "y", "x"), ndim - 2


PROGRAM = Program(first=_first, axes=_axes)
