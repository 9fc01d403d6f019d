"""Finds out which lengths and times the axes of a TIFF file stand for.

DigitalMicrograph  tags 65003 to 65011: unit, offset and step of x, y and the pages
FEI                PixelWidth and PixelHeight of [Scan], m
Zeiss              AP_IMAGE_PIXEL_SIZE, or AP_PIXEL_SIZE, with its unit
Tescan             PixelSizeX and PixelSizeY of [MAIN], m
Olympus SIS        the size of a pixel, m
TVIPS              PixelSizeX and PixelSizeY, nm; of a diffraction pattern nobody knows the unit
JEOL SightX        dots per inch of the detector, over the magnification; of a diffraction pattern over the camera
                   length times the wavelength, which follows from the voltage
PILATUS            Pixel_size of the detector, m
Hitachi, JEOL SEM  the text beside the file: PixelSize, nm; SM_MICRON_MARKER over SM_MICRON_BAR
ImageJ             the description: unit, spacing (z), finterval (t); x and y by the resolution
others             the resolution, if it is not that of a screen or of a printer

`vfs.formats.tiff_structure.instruments` reads what their makers write.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from vfs.formats import pilatus
from vfs.formats.tiff_structure import sem_texts
from vfs.formats.tiff_structure.headers import DESCRIPTION
from vfs.formats.tiff_structure.structure import Structure
from vfs.model.units import spelled

_MAX_CHARACTERS = 1 << 16  # most characters of a description that is searched
_RESOLUTIONS = {"x": 282, "y": 283}
_RESOLUTION_UNIT = 296
_MAX_DOTS = 4800  # per inch
_USUAL_DOTS = (72, 90, 96, 120, 150, 180, 200, 240, 300, 360, 400, 600, 720, 1200, 2400, 4800)  # per inch
DERIVED = "camera length, dots of the detector, and the wavelength that follows from the voltage"
"""Where steps in a diffraction pattern come from that no entry of a file has."""
_MASS = 9.1093837015e-31  # of an electron, kg
TVIPS_DIFFRACTION = 3
"""TemMode of a diffraction pattern."""


def dots(found: Structure) -> dict[str, Any]:
    """Return the resolution in the tags of the first page: dots along x and y per "inch", "cm" or ""; else {}."""
    each = {axis: found.ratio(tag) for axis, tag in _RESOLUTIONS.items()}
    unit = {2: "inch", 3: "cm"}.get(found.number(_RESOLUTION_UNIT), "")
    return {**each, "per": unit} if all(each.values()) else {}


def calibration(found: Structure, makers: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the calibration of the axes, from the tags of the first page.

    Args:
        makers: what `instruments.instrument` returns of them.
    """
    if known := _digital_micrograph(found):
        return known
    for maker, said in makers.items():
        with suppress(KeyError, TypeError, ValueError, AttributeError, ArithmeticError):  # if it does not say all
            return _MAKERS[maker](said, found)
    return _imagej_or_resolution(found)


def _steps(x: Any, y: Any, unit: str) -> dict[str, dict[str, Any]]:
    """Return the calibration of x and y by the size of a pixel. Raises what `float` does of anything else."""
    return {axis: {"scale": float(step), "offset": 0.0, "unit": unit} for axis, step in (("x", x), ("y", y))}


def _digital_micrograph(found: Structure) -> dict[str, dict[str, Any]]:
    steps = {axis: found.real(65009 + k) for k, axis in enumerate(("x", "y", "frame"))}
    if not (steps["x"] and steps["y"]):
        return {}
    return {
        axis: {"scale": step, "offset": found.real(65006 + k), "unit": found.text(65003 + k, _MAX_CHARACTERS)}
        for k, (axis, step) in enumerate(steps.items())
    }


def _fei(said: Mapping[str, Any], found: Structure) -> dict[str, dict[str, Any]]:
    scan = said.get("Scan") or said[said["Beam"]["Scan"]]
    return _steps(scan["PixelWidth"], scan["PixelHeight"], "m")


def _zeiss(said: Mapping[str, Any], found: Structure) -> dict[str, dict[str, Any]]:
    size = said.get("AP_IMAGE_PIXEL_SIZE") or said["AP_PIXEL_SIZE"]
    return _steps(size["value"], size["value"], size["unit"])


def _tescan(said: Mapping[str, Any], found: Structure) -> dict[str, dict[str, Any]]:
    return _steps(said["MAIN"]["PixelSizeX"], said["MAIN"]["PixelSizeY"], "m")


def _sis(said: Mapping[str, Any], found: Structure) -> dict[str, dict[str, Any]]:
    return _steps(said["pixelsizex"], said["pixelsizey"], "m")


def _tvips(said: Mapping[str, Any], found: Structure) -> dict[str, dict[str, Any]]:
    return _steps(said["PixelSizeX"], said["PixelSizeY"], "nm") if said["TemMode"] != TVIPS_DIFFRACTION else {}


def _jeol(said: Mapping[str, Any], found: Structure) -> dict[str, dict[str, Any]]:
    lenses, per = said["ImageFormingSystem"], {"inch": 0.0254, "cm": 0.01}[dots(found)["per"]]
    value = float(lenses["SelectorValue"])
    if said["Eos"]["EosMode"] != "eosTEM":
        return {}
    if lenses["ModeString"] == "DIFF":
        length = value * {"m": 1.0, "cm": 1e-2, "mm": 1e-3}[lenses["SelectorUnitString"]]
        per, value, unit = per * 1e-9, length * _wavelength(float(said["ElectronGun"]["AccelerationVoltage"])), "1/nm"
    elif lenses["ModeString"] == "MAG":
        unit = "m"
    else:
        return {}
    each = dots(found)
    return _steps(per / each["x"] / value, per / each["y"] / value, unit)


def _wavelength(volts: float) -> float:
    """Return the wavelength in m of electrons of a beam."""
    energy = volts * 1.602176634e-19
    return 6.62607015e-34 / math.sqrt(2 * _MASS * energy * (1 + energy / (2 * _MASS * 299792458.0**2)))


def _pilatus(said: Mapping[str, Any], found: Structure) -> dict[str, dict[str, Any]]:
    return pilatus.calibration(said)


def _of_text(
    step: Callable[[Any, Structure], tuple[Any, str]], said: Mapping[str, Any], found: Structure
) -> dict[str, dict[str, Any]]:
    size, unit = step(said, found)
    return _steps(size, size, unit)


_MAKERS: Mapping[str, Callable[[Any, Structure], dict[str, dict[str, Any]]]] = {
    "fei": _fei,
    "zeiss": _zeiss,
    "tescan": _tescan,
    "sis": _sis,
    "tvips": _tvips,
    "jeol": _jeol,
    "pilatus": _pilatus,
    "hitachi": partial(_of_text, sem_texts.hitachi_step),
    "jeol_sem": partial(_of_text, sem_texts.jeol_step),
}
"""Maker -> what makes the calibration of its entries: {} where the pixels are no lengths that are known."""


def _imagej_or_resolution(found: Structure) -> dict[str, dict[str, Any]]:
    text = found.text(DESCRIPTION, _MAX_CHARACTERS)
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
        return all(n <= _MAX_DOTS and abs(n - round(n)) < 1e-6 for n in (x, y))
    if unit == "cm":
        return x == y == 1 or all(any(abs(n * 2.54 - dots) < 0.03 for dots in _USUAL_DOTS) for n in (x, y))
    return False
