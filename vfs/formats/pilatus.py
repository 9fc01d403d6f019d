"""What PILATUS and EIGER detectors write into the headers of their frames: lines `Key value`, in CBF and in TIFF."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from vfs.model.metadata import DEGREES, Term, first_number, numbers_of

_LINE = re.compile(r"([A-Za-z]\w*)[ :=]+(\S.*?)\s*")
_TIME = re.compile(r"\d{4}[-/]\w{2,3}[-/]\d\d[T ]\d\d:\d\d:\d\d\S*")
_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"
_SENSOR = re.compile(r"(\w+) sensor, thickness ([\d.eE+-]+) m")


def lines_of(lines: Iterable[str]) -> dict[str, str]:
    """Return the entries of a header, by their keys; what has no key is `Detector`, `sensor` or `time`."""
    found: dict[str, str] = {}
    for line in map(str.strip, lines):
        if _TIME.fullmatch(line):
            found["time"] = line
        elif sensor := _SENSOR.fullmatch(line):
            found["sensor"] = sensor[0]
        elif named := _LINE.fullmatch(line):
            found.setdefault(named[1], named[2])
    return found


def _yx(entry: Any) -> list[str] | None:
    """Return two numbers of x and y in the order y, x."""
    found = numbers_of(str(entry).replace(" m x ", " "))
    return found[1::-1] if len(found) >= 2 else None


def _material(entry: Any) -> str | None:
    return hit[1] if (hit := _SENSOR.fullmatch(str(entry))) else None


def _thickness(entry: Any) -> str | None:
    return hit[2] if (hit := _SENSOR.fullmatch(str(entry))) else None


def _model(entry: Any) -> str:
    return re.split(r", *(?:S/N|SN)\b", str(entry))[0]


def _serial(entry: Any) -> str | None:
    parts = re.split(r", *(?:S/N|SN)\b *", str(entry), maxsplit=1)
    return parts[1] if len(parts) > 1 else None


def _when(entry: Any) -> str:
    """Return a time, of which the month may be a word, as ISO 8601."""
    text = str(entry).replace("/", "-")
    month = _MONTHS.find(text[5:8]) if text[5:8].isalpha() else -1
    return f"{text[:5]}{month // 3 + 1:02}{text[8:]}" if month >= 0 else text


def calibration(said: Any) -> dict[str, Any]:
    """Return the calibration of x and y by the size of the pixels, in metres."""
    sizes = _yx(said.get("Pixel_size")) if isinstance(said, dict) else None
    return {dim: {"scale": size, "offset": 0.0, "unit": "m"} for dim, size in zip("yx", sizes or (), strict=False)}


def terms(at: str) -> tuple[Term, ...]:
    """Return what entries say in the vocabulary of `vfs.model.metadata`.

    Args:
        at: key of the attribute that has them.
    """
    return (
        Term("time", f"{at}:time", take=_when),
        Term("serial_number", f"{at}:Detector", take=_serial),
        Term("exposure_time", f"{at}:Exposure_time", take=first_number),
        Term("frame_time", f"{at}:Exposure_period", take=first_number),
        Term("detector", f"{at}:Detector", take=_model),
        Term("saturation", f"{at}:Count_cutoff", take=first_number),
        Term("threshold_energy", f"{at}:Threshold_setting", take=first_number, zero=False),
        Term("sensor_material", f"{at}:sensor", take=_material),
        Term("sensor_thickness", f"{at}:sensor", take=_thickness, zero=False),
        Term("wavelength", f"{at}:Wavelength", 1e-10, take=first_number, zero=False),
        Term("detector_distance", f"{at}:Detector_distance", take=first_number, zero=False),
        Term("beam_center", f"{at}:Beam_xy", take=_yx),
        Term("pixel_size", f"{at}:Pixel_size", take=_yx),
        Term("two_theta", f"{at}:Detector_2theta", DEGREES, take=first_number),
    )
