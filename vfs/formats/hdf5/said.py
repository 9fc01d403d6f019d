"""What programs that write HDF5 say, in the vocabulary of `vfs.model.metadata`: Velox, HyperSpy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vfs.model.hyperspy_places import PLACES
from vfs.model.metadata import Term, of_epoch


def _instrument(entry: Any) -> str | None:
    """Return what Velox calls 1 (TEM) and 2 (STEM)."""
    return {"1": "TEM", "2": "STEM"}.get(str(entry))


_VELOX = (
    Term("title", "name"),
    Term("sample", "metadata:Sample:SampleDescription"),
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
)
"""Of the metadata beside an image. All are in SI units, angles in radians."""


def _time(general: Any) -> str | None:
    """Return the time that HyperSpy has as a date and a time of the day."""
    if not isinstance(general, Mapping) or not general.get("date"):
        return None
    return f"{general['date']}T{general['time']}" if general.get("time") else str(general["date"])


_HYPERSPY = tuple(
    Term(name, f"metadata:{place.replace('.', ':')}", 1 / factor)
    for name, places in PLACES.items()
    for place, factor in places
)


def _sem(group: Any) -> str | None:
    """Return SEM for the group in which HyperSpy has what it knows of one."""
    return "SEM" if isinstance(group, Mapping) else None


TERMS = (
    *_VELOX,
    *_HYPERSPY,
    Term("instrument", "metadata:Acquisition_instrument:SEM", take=_sem),
    Term("time", "metadata:General", take=_time),
)
