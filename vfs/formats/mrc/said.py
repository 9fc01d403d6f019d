"""What MRC files say in the vocabulary of `vfs.model.metadata`: extended headers of FEI, and files beside them."""

from __future__ import annotations

from typing import Any

from vfs.formats import serialem
from vfs.model.metadata import DEGREES, Term, of_epoch

_DAY, _DAYS_TO_1970 = 86400, 25569
_TEM = ("fei:instrument_mode", "1")
_STEM = ("fei:instrument_mode", "2")


def _of_days(entry: Any) -> str | None:
    """Return the time so many days after 1899-12-30, without a zone."""
    if not isinstance(entry, int | float) or entry <= 0:
        return None
    said = of_epoch(round((entry - _DAYS_TO_1970) * _DAY, 3))
    return said.removesuffix("+00:00") if said else None


def _instrument(entry: Any) -> str | None:
    return {"1": "TEM", "2": "STEM"}.get(str(entry))


def _both(fei: Any) -> Any:
    return [fei.get("binning_y"), fei.get("binning_x")] if isinstance(fei, dict) and fei.get("binning_x") else None


_FEI = (
    Term("time", "fei:timestamp", take=_of_days),
    Term("microscope", "fei:microscope"),
    Term("serial_number", "fei:serial_number"),
    Term("software", "fei:application"),
    Term("instrument", "fei:instrument_mode", take=_instrument),
    Term("beam_energy", "fei:high_tension", zero=False),
    Term("convergence_angle", "fei:convergence_angle", zero=False, given=_STEM),
    Term("magnification", "fei:magnification", zero=False),
    Term("camera_length", "fei:camera_length", zero=False),
    Term("defocus", "fei:defocus"),
    Term("spot_size", "fei:spot_index", zero=False),
    Term("dwell_time", "fei:dwell_time", zero=False, given=_STEM),
    Term("exposure_time", "fei:integration_time", zero=False),
    Term("frame_time", "fei:frame_time", zero=False),
    Term("tilt_axis_angle", "fei:tilt_axis_angle", DEGREES, zero=False),
    Term("stage.alpha", "fei:alpha_tilt", DEGREES),
    Term("stage.beta", "fei:beta_tilt", DEGREES),
    Term("stage.x", "fei:stage_x"),
    Term("stage.y", "fei:stage_y"),
    Term("stage.z", "fei:stage_z"),
    Term("detector", "fei:stem_detector", given=_STEM),
    Term("detector", "fei:camera", given=_TEM),
    Term("binning", "fei", take=_both, given=_TEM),
    Term("slit_width", "fei:slit_width", zero=False, given=("fei:slit_inserted", "True")),
    Term("drift_tube", "fei:drift_tube_voltage", zero=False),
    Term("dose", "fei:dose", zero=False),
)
"""Of the first section."""

_INFO = (
    Term("time", "info:Timestamp (seconds since Epoch)", take=of_epoch),
    Term("software", "info:Server Software Version"),
    Term("beam_energy", "info:Instrument Accelerating Voltage (V)", zero=False),
    Term("magnification", "info:Instrument Project Magnification", zero=False),
    Term("camera_length", "info:Instrument Project Camera Length (centimeters)", 1e-2, zero=False),
    Term("dwell_time", "info:Scan - Dwell Time (microseconds)", 1e-6, zero=False),
    Term("exposure_time", "info:Exposure Time (seconds)", zero=False),
    Term("frame_time", "info:Frame Exposure Time (nanoseconds)", 1e-9, zero=False),
    Term("serial_number", "info:Camera SN"),
    Term("detector", "info:Camera Model"),
)
"""Of Direct Electron's _info.txt."""

_LABELS = (
    Term("software", "labels", take=serialem.software),
    Term("microscope", "labels", take=serialem.microscope),
    Term("tilt_axis_angle", "labels", DEGREES, take=serialem.tilt_axis),
)

TERMS = (*_INFO, *serialem.TERMS, *_FEI, *_LABELS)
