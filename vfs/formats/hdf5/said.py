"""What programs that write HDF5 say, in the vocabulary of `vfs.model.metadata`.

These are Velox, HyperSpy, NeXus, Dectris and Imaris, and programs of backscatter diffraction."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from vfs.model import hyperspy_places
from vfs.model.metadata import DEGREES, Term, date_and_time, first_number, of_epoch
from vfs.model.units import factor, spelled


def _instrument(entry: Any) -> str | None:
    """Return what Velox calls 1 (TEM) and 2 (STEM)."""
    return {"1": "TEM", "2": "STEM"}.get(str(entry))


def _sem(group: Any) -> str | None:
    """Return SEM for a group in which a program has what it knows of one."""
    return "SEM" if isinstance(group, Mapping) else None


def _detector_of(metadata: Any) -> Mapping[str, Any]:
    """Return what Velox says of the detector of an image or spectrum, by its number or its name."""
    if not isinstance(metadata, Mapping):
        return {}
    result, all_of = metadata.get("BinaryResult"), metadata.get("Detectors")
    if not isinstance(result, Mapping) or not isinstance(all_of, Mapping):
        return {}
    one = all_of.get(f"Detector-{result.get('DetectorIndex')}")
    if one is None and result.get("Detector"):
        one = next((d for d in all_of.values() if _named(d, result["Detector"])), None)
    return one if isinstance(one, Mapping) else {}


def _named(detector: Any, name: Any) -> bool:
    return isinstance(detector, Mapping) and detector.get("DetectorName") == name


def _of_detector(key: str, metadata: Any) -> Any:
    return _detector_of(metadata).get(key)


_VELOX = (
    Term("title", "name"),
    Term("sample", "metadata:Sample:SampleDescription"),
    Term("elements", "elements"),
    Term("authors", "metadata:Core:UserId"),
    Term("time", "metadata:Acquisition:AcquisitionStartDatetime:DateTime", take=of_epoch),
    Term("microscope", "metadata:Instrument:InstrumentModel"),
    Term("manufacturer", "metadata:Instrument:Manufacturer"),
    Term("serial_number", "metadata:Instrument:InstrumentId"),
    Term("software", "metadata:Instrument:ControlSoftwareVersion"),
    Term("instrument", "metadata:Optics:OperatingMode", take=_instrument),
    Term("beam_energy", "metadata:Optics:AccelerationVoltage", zero=False),
    Term("convergence_angle", "metadata:Optics:BeamConvergence", zero=False),
    Term("magnification", "metadata:CustomProperties:StemMagnification:value", zero=False),
    Term("camera_length", "metadata:Optics:CameraLength", zero=False),
    Term("defocus", "metadata:Optics:Defocus"),
    Term("spot_size", "metadata:Optics:SpotIndex"),
    Term("dwell_time", "metadata:Scan:DwellTime", zero=False),
    Term("frame_time", "metadata:Scan:FrameTime", zero=False),
    Term("scan_rotation", "metadata:Scan:ScanRotation"),
    Term("stage.alpha", "metadata:Stage:AlphaTilt"),
    Term("stage.beta", "metadata:Stage:BetaTilt"),
    Term("stage.x", "metadata:Stage:Position:x"),
    Term("stage.y", "metadata:Stage:Position:y"),
    Term("stage.z", "metadata:Stage:Position:z"),
    Term("detector", "metadata:BinaryResult:Detector"),
    *(
        Term(name, "metadata", take=partial(_of_detector, key), zero=False)
        for name, key in [
            ("exposure_time", "ExposureTime"),
            ("live_time", "LiveTime"),
            ("real_time", "RealTime"),
            ("eds.azimuth", "AzimuthAngle"),
            ("eds.elevation", "ElevationAngle"),
        ]
    ),
)
"""Of the metadata beside an image. All are in SI units, angles in radians."""


_HYPERSPY = (
    *(
        one for one in hyperspy_places.TERMS if one.name not in ("time", "elements")
    ),  # a list of texts of variable length
    *(Term("stage.alpha", f"metadata:Acquisition_instrument:{kind}:tilt_stage", DEGREES) for kind in ("TEM", "SEM")),
)
"""Earlier versions of HyperSpy called the tilt of the stage `tilt_stage`."""


def _in(unit: str, own: str, entry: Any) -> float | None:
    """Return a number in a unit, that an entry has with its own or, where it says none, in `own`."""
    value, said = (entry.get("value"), entry.get("unit")) if isinstance(entry, Mapping) else (entry, own)
    by = {"deg": DEGREES}.get(spelled(said)) if unit == "rad" else None
    by = by or factor(spelled(said) or own, unit)
    return value * by if isinstance(value, int | float) and by is not None else None


def _yx(unit: str, y: str, x: str, group: Any) -> list[float] | None:
    """Return two entries of a group in a unit; None where one says nothing, or both are 0."""
    entries = [group.get(y), group.get(x)] if isinstance(group, Mapping) else []
    found = [
        (one.get("value") if isinstance(one, Mapping) else one) if unit == "px" else _in(unit, unit, one)
        for one in entries
    ]
    return found if any(found) and None not in found else None  # type: ignore[return-value]


def _value(entry: Any) -> Any:
    return entry.get("value") if isinstance(entry, Mapping) else entry


_DETECTOR = "nexus:detector:"
_NEXUS = (
    Term("title", "nexus:entry:title"),
    Term("authors", "nexus:entry:user/name"),
    Term("authors", "nexus:entry:user01/name"),
    Term("sample", "nexus:entry:sample/name"),
    Term("time", "nexus:entry:start_time"),
    Term("time", "nexus:specific:data_collection_date"),
    Term("serial_number", f"{_DETECTOR}detector_number"),
    Term("software", "nexus:specific:software_version"),
    *(
        Term("beam_energy", f"nexus:{place}", take=partial(_in, "eV", "eV"), zero=False)
        for place in ("beam:incident_energy", "beam:energy", "specific:photon_energy")
    ),
    Term("exposure_time", f"{_DETECTOR}count_time", take=partial(_in, "s", "s"), zero=False),
    Term("frame_time", f"{_DETECTOR}frame_time", take=partial(_in, "s", "s"), zero=False),
    Term("detector", f"{_DETECTOR}description"),
    Term("gain", f"{_DETECTOR}gain_setting"),
    Term("saturation", f"{_DETECTOR}saturation_value", take=_value, zero=False),
    Term("saturation", "nexus:specific:countrate_correction_count_cutoff", take=_value, zero=False),
    Term("threshold_energy", f"{_DETECTOR}threshold_energy", take=partial(_in, "eV", "eV"), zero=False),
    Term("sensor_material", f"{_DETECTOR}sensor_material"),
    Term("sensor_thickness", f"{_DETECTOR}sensor_thickness", take=partial(_in, "m", "m"), zero=False),
    *(
        Term("wavelength", f"nexus:beam:{name}", take=partial(_in, "m", "angstrom"), zero=False)
        for name in ("incident_wavelength", "wavelength")
    ),
    *(
        Term("detector_distance", f"{_DETECTOR}{name}", take=partial(_in, "m", "m"), zero=False)
        for name in ("detector_distance", "distance")
    ),
    Term("beam_center", "nexus:detector", take=partial(_yx, "px", "beam_center_y", "beam_center_x")),
    Term("pixel_size", "nexus:detector", take=partial(_yx, "m", "y_pixel_size", "x_pixel_size")),
)
"""Of NeXus and of Dectris."""


def _binning(mode: Any) -> str | None:
    """Return the first number of a mode of a camera: 2x2 (…)."""
    return hit[1] if (hit := re.match(r"(\d{1,3})\s*x\s*\d", str(mode))) else None


def _of_bruker(header: Any) -> str | None:
    return date_and_time(header.get("Date"), header.get("Time")) if isinstance(header, Mapping) else None


_HEADER = "ebsd:header:"
_EBSD = (
    Term("notes", f"{_HEADER}Notes"),
    Term("notes", f"{_HEADER}Project Notes"),
    Term("authors", f"{_HEADER}Operator"),
    Term("sample", f"{_HEADER}Sample ID"),
    Term("time", f"{_HEADER}Acquisition Date"),
    Term("time", "ebsd:header", take=_of_bruker),
    Term("microscope", "ebsd:sem:microscope"),
    Term("instrument", "ebsd", take=_sem),
    *(
        Term("beam_energy", f"ebsd:{place}", 1e3, take=_value, zero=False)
        for place in ("header:Beam Voltage", "header:KV", "sem:beam_energy")
    ),
    *(
        Term("magnification", f"ebsd:{place}", take=_value, zero=False)
        for place in ("header:Magnification", "sem:magnification")
    ),
    *(
        Term("working_distance", f"ebsd:{place}", take=partial(_in, "m", "mm"), zero=False)
        for place in ("header:Working Distance", "header:WD", "sem:working_distance")
    ),
    Term("exposure_time", f"{_HEADER}Camera Exposure Time", take=partial(_in, "s", "ms"), zero=False),
    Term("exposure_time", f"{_HEADER}exposure_time", take=partial(_in, "s", "s"), zero=False),
    Term("stage.alpha", f"{_HEADER}Tilt Angle", take=partial(_in, "rad", "rad")),
    *(
        Term("stage.alpha", f"{_HEADER}{name}", DEGREES, take=_value)
        for name in ("Sample Tilt", "SampleTilt", "sample_tilt")
    ),
    Term("detector", f"{_HEADER}detector"),
    Term("binning", f"{_HEADER}Camera Binning Mode", take=_binning),
    Term("binning", f"{_HEADER}binning", take=_value),
)
"""Of Oxford, EDAX, Bruker and kikuchipy: energies in keV, distances in mm."""

_IMARIS = (
    Term("title", "imaris:Image:Name"),
    Term("notes", "imaris:Image:Description"),
    Term("time", "imaris:TimeInfo:TimePoint1"),
    Term("time", "imaris:Image:RecordingDate"),
    Term("software", "imaris:ImarisDataSet:Creator"),
    Term("objective.magnification", "imaris:Image:LensPower", take=first_number, zero=False),
    Term("objective.na", "imaris:Image:NumericalAperture", take=first_number, zero=False),
    Term("channels", "channels"),
)

TERMS = (
    *_VELOX,
    *_NEXUS,
    *_EBSD,
    *_HYPERSPY,
    *_IMARIS,
    Term("instrument", "metadata:Acquisition_instrument:SEM", take=_sem),
    *(one for one in hyperspy_places.TERMS if one.name == "time"),
)
