"""Where HyperSpy keeps what files say: in `.hspy` files, and at the door to HyperSpy.

https://hyperspy.org/hyperspy-doc/current/reference/metadata.html lists its fields and their units.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from vfs.model.metadata import Term

_TEM, _SEM = "Acquisition_instrument.TEM.", "Acquisition_instrument.SEM."
_DEGREES = 180 / math.pi

_MICROSCOPE = {
    "microscope": ("microscope", 1.0),
    "beam_energy": ("beam_energy", 1e-3),
    "beam_current": ("beam_current", 1e9),
    "convergence_angle": ("convergence_angle", 1e3),
    "magnification": ("magnification", 1.0),
    "working_distance": ("working_distance", 1e3),
    "detector": ("detector", 1.0),
    "stage.alpha": ("Stage.tilt_alpha", _DEGREES),
    "stage.beta": ("Stage.tilt_beta", _DEGREES),
    "stage.rotation": ("Stage.rotation", _DEGREES),
    "stage.x": ("Stage.x", 1e3),
    "stage.y": ("Stage.y", 1e3),
    "stage.z": ("Stage.z", 1e3),
    "live_time": ("Detector.EDS.live_time", 1.0),
    "real_time": ("Detector.EDS.real_time", 1.0),
    "eds.azimuth": ("Detector.EDS.azimuth_angle", _DEGREES),
    "eds.elevation": ("Detector.EDS.elevation_angle", _DEGREES),
    "eds.resolution": ("Detector.EDS.energy_resolution_MnKa", 1.0),
}
_ONLY_TEM = {
    "instrument": ("acquisition_mode", 1.0),
    "camera_length": ("camera_length", 1e3),
    "collection_angle": ("Detector.EELS.collection_angle", 1e3),
    "dwell_time": ("Detector.EELS.dwell_time", 1.0),
    "exposure_time": ("Detector.EELS.exposure", 1.0),
    "spectrometer": ("Detector.EELS.spectrometer", 1.0),
}

PLACES: Mapping[str, tuple[tuple[str, float], ...]] = {
    "title": (("General.title", 1.0),),
    "notes": (("General.notes", 1.0),),
    "authors": (("General.authors", 1.0),),
    "sample": (("Sample.description", 1.0),),
    "elements": (("Sample.elements", 1.0),),
    **{name: ((_TEM + place, factor), (_SEM + place, factor)) for name, (place, factor) in _MICROSCOPE.items()},
    **{name: ((_TEM + place, factor),) for name, (place, factor) in _ONLY_TEM.items()},
}
"""Name of `vfs.model.metadata.VOCABULARY` -> its places, of a TEM and of an SEM, each with the factor of its unit."""


def _time(general: Any) -> str | None:
    """Return the time that HyperSpy has as a date and a time of the day."""
    if not isinstance(general, Mapping) or not general.get("date"):
        return None
    return f"{general['date']}T{general['time']}" if general.get("time") else str(general["date"])


TERMS = (
    Term("time", "metadata:General", take=_time),
    *(
        Term(name, f"metadata:{place.replace('.', ':')}", 1 / factor)
        for name, places in PLACES.items()
        for place, factor in places
    ),
)
"""What an attribute `metadata` says that has HyperSpy's form."""
