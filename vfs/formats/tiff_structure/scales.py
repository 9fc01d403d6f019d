"""Finds out which lengths and times the axes of a TIFF file stand for.

DigitalMicrograph  tags 65003 to 65011: unit, offset and step of x, y and the pages
FEI                tags 34680 and 34682: PixelWidth and PixelHeight of [Scan], m
Zeiss              tag 34118: Image Pixel Size, with its unit
ImageJ             the description: unit, spacing (z), finterval (t); x and y by the resolution
others             the resolution, if it is not that of a screen or of a printer
"""

from __future__ import annotations

import re
from typing import Any

from vfs.formats.tiff_structure.headers import DESCRIPTION
from vfs.formats.tiff_structure.structure import Structure
from vfs.model.units import spelled

_LONGEST = 1 << 16  # most characters of a description that is searched
_LONGEST_OF_VENDORS = 1 << 20
_RESOLUTIONS = {"x": 282, "y": 283}
_RESOLUTION_UNIT = 296
_MOST_DOTS = 4800  # per inch
_USUAL_DOTS = (72, 90, 96, 120, 150, 180, 200, 240, 300, 360, 400, 600, 720, 1200, 2400, 4800)  # per inch
_FEI, _ZEISS = (34680, 34682), 34118


def dots(found: Structure) -> dict[str, Any]:
    """Return the resolution in the tags of the first page: dots along x and y per "inch", "cm" or ""; else {}."""
    each = {axis: found.ratio(tag) for axis, tag in _RESOLUTIONS.items()}
    unit = {2: "inch", 3: "cm"}.get(found.number(_RESOLUTION_UNIT), "")
    return {**each, "per": unit} if all(each.values()) else {}


def calibration(found: Structure) -> dict[str, dict[str, Any]]:
    """Return the calibration of the axes, from the tags of the first page."""
    return _digital_micrograph(found) or _fei(found) or _zeiss(found) or _imagej_or_resolution(found)


def _digital_micrograph(found: Structure) -> dict[str, dict[str, Any]]:
    steps = {axis: found.real(65009 + k) for k, axis in enumerate(("x", "y", "frame"))}
    if not (steps["x"] and steps["y"]):
        return {}
    return {
        axis: {"scale": step, "offset": found.real(65006 + k), "unit": found.text(65003 + k, _LONGEST)}
        for k, (axis, step) in enumerate(steps.items())
    }


def _fei(found: Structure) -> dict[str, dict[str, Any]]:
    text = next((said for tag in _FEI if (said := found.text(tag, _LONGEST_OF_VENDORS))), "")
    scan = re.search(r"^\[Scan\]\s*$([^\[]*)", text, re.M)
    steps = {
        axis: step[1] if (step := re.search(rf"^{key}=(\S+)", scan[1], re.M)) else ""
        for axis, key in (("x", "PixelWidth"), ("y", "PixelHeight"))
        if scan
    }
    return {axis: {"scale": step, "offset": 0.0, "unit": "m"} for axis, step in steps.items() if step}


def _zeiss(found: Structure) -> dict[str, dict[str, Any]]:
    said = re.search(r"^Image Pixel Size = ([\d.eE+-]+) (\S+)\s*$", found.text(_ZEISS, _LONGEST_OF_VENDORS), re.M)
    return {axis: {"scale": said[1], "offset": 0.0, "unit": said[2]} for axis in ("y", "x")} if said else {}


def _imagej_or_resolution(found: Structure) -> dict[str, dict[str, Any]]:
    text = found.text(DESCRIPTION, _LONGEST)
    told = dict(re.findall(r"^(\w+)=(.*)$", text, re.M)) if text.startswith("ImageJ=") else {}
    said = dots(found)
    unit = spelled(told["unit"]) if "unit" in told else said.get("per", "")
    known: dict[str, dict[str, Any]] = {}
    if said and unit and not _of_a_screen(said["x"], said["y"], unit):  # without a unit only their ratio is meant
        known |= {axis: {"scale": 1 / said[axis], "offset": 0.0, "unit": unit} for axis in ("y", "x")}
    if "spacing" in told and unit:
        known["z"] = {"scale": told["spacing"], "offset": 0.0, "unit": unit}
    if "finterval" in told:
        known["t"] = {"scale": told["finterval"], "offset": 0.0, "unit": told.get("tunit", "s")}
    return known


def _of_a_screen(x: float, y: float, unit: str) -> bool:
    """Return True if dots per unit are one, or those of screens and printers.

    Programs write these into files of which they know nothing: 72, 96 or 300 per inch, also as
    28.35 per cm. Other whole numbers per inch are no pixels of an instrument either; of those in cm
    254 per inch are pixels of 0.1 mm.
    """
    if unit == "inch":
        return all(n <= _MOST_DOTS and abs(n - round(n)) < 1e-6 for n in (x, y))
    if unit == "cm":
        return x == y == 1 or all(any(abs(n * 2.54 - dots) < 0.03 for dots in _USUAL_DOTS) for n in (x, y))
    return False
