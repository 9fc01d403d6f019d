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


def terms(at: str) -> tuple[Term, ...]:
    """Return what tags of an image say.

    Its stage is in micrometres and degrees, the sample time in microseconds.

    Args:
        at: path of the tags in the attributes.
    """
    info, eels = f"{at}:Microscope Info:", f"{at}:EELS:Experimental Conditions:"
    stage = f"{info}Stage Position:Stage "
    return (
        Term("authors", f"{at}:Session Info:Operator"),
        Term("authors", f"{info}Operator"),
        Term("sample", f"{at}:Session Info:Specimen"),
        Term("sample", f"{info}Specimen"),
        Term("time", f"{at}:Acquisition:Frame:Sequence:Acquisition Start Time (epoch)", take=_milliseconds),
        Term("time", f"{at}:SI:Acquisition", take=_begun),
        Term("time", f"{at}:EELS:Acquisition", take=_begun),
        Term("time", f"{at}:EDS:Acquisition", take=_begun),
        Term("time", f"{at}:DataBar", take=_data_bar),
        Term("microscope", f"{at}:Session Info:Microscope", take=_named),
        Term("microscope", f"{info}Name", take=_named),
        Term("software", f"{at}:GMS Version:Created"),
        Term("instrument", f"{info}Illumination Mode", take=_instrument),
        Term("mode", f"{at}:Microscope Info", take=_mode),
        Term("beam_energy", f"{info}Voltage", zero=False),
        Term("beam_current", f"{info}Probe Current (nA)", 1e-9, zero=False),
        Term("convergence_angle", f"{eels}Convergence semi-angle (mrad)", 1e-3, zero=False),
        Term("convergence_angle", f"{at}:EELS:Convergence semi-angle (mrad)", 1e-3, zero=False),
        Term("collection_angle", f"{eels}Collection semi-angle (mrad)", 1e-3, zero=False),
        Term("collection_angle", f"{at}:EELS:Collection semi-angle (mrad)", 1e-3, zero=False),
        Term("magnification", f"{info}Indicated Magnification", zero=False),
        Term("camera_length", f"{info}STEM Camera Length", 1e-3, zero=False),
        Term("dwell_time", f"{at}:SI:Acquisition:Pixel time (s)", zero=False),
        Term("dwell_time", f"{at}:DigiScan:Sample Time", 1e-6, zero=False),
        Term("exposure_time", f"{at}:EELS:Acquisition:Exposure (s)", zero=False),
        Term("exposure_time", f"{at}:EDS:Acquisition:Exposure (s)", zero=False),
        Term("exposure_time", f"{at}:DataBar:Exposure Time (s)", zero=False),
        Term("exposure_time", f"{at}:Acquisition:Parameters:High Level:Exposure (s)", zero=False),
        Term("live_time", f"{at}:EDS:Live time", zero=False),
        Term("real_time", f"{at}:EDS:Real time", zero=False),
        Term("scan_rotation", f"{at}:DigiScan:Rotation", DEGREES),
        Term("stage.alpha", f"{stage}Alpha", DEGREES),
        Term("stage.beta", f"{stage}Beta", DEGREES),
        Term("stage.x", f"{stage}X", 1e-6),
        Term("stage.y", f"{stage}Y", 1e-6),
        Term("stage.z", f"{stage}Z", 1e-6),
        Term("detector", f"{at}:Acquisition:Device:Name"),
        Term("detector", f"{at}:DataBar:Device Name"),
        Term("binning", f"{at}:Acquisition:Parameters:High Level:Binning"),
        Term("eds.azimuth", f"{at}:EDS:Detector Info:Azimuthal angle", DEGREES),
        Term("eds.elevation", f"{at}:EDS:Detector Info:Elevation angle", DEGREES),
        Term("spectrometer", f"{at}:EELS Spectrometer:Instrument name"),
        Term("drift_tube", f"{at}:EELS Spectrometer:Drift tube voltage (V)", zero=False),
    )
