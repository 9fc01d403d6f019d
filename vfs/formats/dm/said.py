"""What DigitalMicrograph's tags say, in the vocabulary of `vfs.model.metadata`.

Many tags are 0 where a microscope did not tell DigitalMicrograph. A date like 7/9/2014 has the order of the computer's
language: with AM or PM the month comes first; else it counts only where one of both numbers can be no month.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vfs.model.metadata import DEGREES, Term, date_and_time, of_epoch


def _time(date: str, clock: str, tags: Any) -> str | None:
    """Return the time that two tags give."""
    return date_and_time(tags.get(date, ""), tags.get(clock, "")) if isinstance(tags, Mapping) else None


def _data_bar(tags: Any) -> str | None:
    return _time("Acquisition Date", "Acquisition Time", tags)


def _begun(tags: Any) -> str | None:
    return _time("Date", "Start time", tags)


def _milliseconds(entry: Any) -> str | None:
    return of_epoch(entry / 1000) if isinstance(entry, int | float) else None


def _instrument(entry: Any) -> str | None:
    """Return STEM or TEM, as the illumination of a microscope says; an SEM's says nothing of the kind."""
    return "STEM" if "STEM" in str(entry) else "TEM" if str(entry).startswith("TEM") else None


def _mode(info: Any) -> str | None:
    if not isinstance(info, Mapping):
        return None
    if info.get("Operation Mode") == "SCANNING":
        return "scan"
    return {"DIFFRACTION": "diffraction", "IMAGING": "image"}.get(str(info.get("Operation Mode")))


def _named(entry: Any) -> str | None:
    return None if str(entry).startswith("[") else str(entry)  # [Default TEM]: nobody gave it a name


_INFO = "tags:Microscope Info:"
_STAGE = f"{_INFO}Stage Position:Stage "
_EELS = "tags:EELS:Experimental Conditions:"

TERMS = (
    Term("title", "name"),
    Term("authors", "tags:Session Info:Operator"),
    Term("authors", f"{_INFO}Operator"),
    Term("sample", "tags:Session Info:Specimen"),
    Term("sample", f"{_INFO}Specimen"),
    Term("time", "tags:Acquisition:Frame:Sequence:Acquisition Start Time (epoch)", take=_milliseconds),
    Term("time", "tags:SI:Acquisition", take=_begun),
    Term("time", "tags:EELS:Acquisition", take=_begun),
    Term("time", "tags:EDS:Acquisition", take=_begun),
    Term("time", "tags:DataBar", take=_data_bar),
    Term("microscope", "tags:Session Info:Microscope", take=_named),
    Term("microscope", f"{_INFO}Name", take=_named),
    Term("software", "tags:GMS Version:Created"),
    Term("instrument", f"{_INFO}Illumination Mode", take=_instrument),
    Term("mode", "tags:Microscope Info", take=_mode),
    Term("beam_energy", f"{_INFO}Voltage", zero=False),
    Term("beam_current", f"{_INFO}Probe Current (nA)", 1e-9, zero=False),
    Term("convergence_angle", f"{_EELS}Convergence semi-angle (mrad)", 1e-3, zero=False),
    Term("convergence_angle", "tags:EELS:Convergence semi-angle (mrad)", 1e-3, zero=False),
    Term("collection_angle", f"{_EELS}Collection semi-angle (mrad)", 1e-3, zero=False),
    Term("collection_angle", "tags:EELS:Collection semi-angle (mrad)", 1e-3, zero=False),
    Term("magnification", f"{_INFO}Indicated Magnification", zero=False),
    Term("camera_length", f"{_INFO}STEM Camera Length", 1e-3, zero=False),
    Term("dwell_time", "tags:SI:Acquisition:Pixel time (s)", zero=False),
    Term("dwell_time", "tags:DigiScan:Sample Time", 1e-6, zero=False),
    Term("exposure_time", "tags:EELS:Acquisition:Exposure (s)", zero=False),
    Term("exposure_time", "tags:EDS:Acquisition:Exposure (s)", zero=False),
    Term("exposure_time", "tags:DataBar:Exposure Time (s)", zero=False),
    Term("exposure_time", "tags:Acquisition:Parameters:High Level:Exposure (s)", zero=False),
    Term("live_time", "tags:EDS:Live time", zero=False),
    Term("real_time", "tags:EDS:Real time", zero=False),
    Term("scan_rotation", "tags:DigiScan:Rotation", DEGREES),
    Term("stage.alpha", f"{_STAGE}Alpha", DEGREES),
    Term("stage.beta", f"{_STAGE}Beta", DEGREES),
    Term("stage.x", f"{_STAGE}X", 1e-6),
    Term("stage.y", f"{_STAGE}Y", 1e-6),
    Term("stage.z", f"{_STAGE}Z", 1e-6),
    Term("detector", "tags:Acquisition:Device:Name"),
    Term("detector", "tags:DataBar:Device Name"),
    Term("binning", "tags:Acquisition:Parameters:High Level:Binning"),
    Term("eds.azimuth", "tags:EDS:Detector Info:Azimuthal angle", DEGREES),
    Term("eds.elevation", "tags:EDS:Detector Info:Elevation angle", DEGREES),
    Term("spectrometer", "tags:EELS Spectrometer:Instrument name"),
    Term("drift_tube", "tags:EELS Spectrometer:Drift tube voltage (V)", zero=False),
)
"""Of the tags of an image. Its stage is in micrometres and degrees, the sample time in microseconds."""
