"""What NeXus files and masters of Dectris record of a measurement: attribute `nexus` of what they show first.

    entry                           title, start_time; sample/name, user/name
    instrument/detector             the NXdetector of the array, or the only one
    detectorSpecific                in it, of Dectris
    instrument/beam, sample/beam    NXbeam, or NXmonochromator: wavelength, energy

https://manual.nexusformat.org/classes/applications/NXmx.html has their units, which files write beside numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vfs.formats.hdf5.program import Found, Program, entries
from vfs.formats.hdf5.programs import dectris, nexus
from vfs.h5.facts import Survey

_ENTRY = ("title", "start_time", "end_time", "sample/name", "user/name", "user01/name")
_DETECTOR = (
    *("description", "detector_number", "sensor_material", "sensor_thickness", "threshold_energy", "gain_setting"),
    *("beam_center_x", "beam_center_y", "x_pixel_size", "y_pixel_size", "detector_distance", "distance"),
    *("count_time", "frame_time", "saturation_value", "bit_depth_readout", "bit_depth_image"),
)
_SPECIFIC = ("data_collection_date", "software_version", "photon_energy", "countrate_correction_count_cutoff")
_BEAM = ("incident_wavelength", "incident_energy", "wavelength", "energy")


def _about(found: Found, survey: Survey) -> dict[str, dict[str, Any]]:
    made: dict[str, dict[str, Any]] = {}
    known: dict[tuple[str, str], dict[str, Any]] = {}  # of an entry and a detector, which many arrays may share
    for name in nexus.first(found, survey) or dectris.first(found, survey):
        entry = name.partition("/")[0]
        if name not in found or "/" not in name:
            continue
        at = entry, _detector(name, entry, survey)
        if at not in known:
            known[at] = _recorded(*at, found, survey)
        if known[at]:
            made[name] = {"nexus": known[at]}
    return made


def _detector(name: str, entry: str, survey: Survey) -> str:
    """Return the group of an array's detector: that which holds it or has the name of its group, or the only one."""
    kinds = {path: about.get("NX_class") for path, about in survey.groups.items() if path.startswith(f"{entry}/")}
    detectors = [path for path, kind in kinds.items() if kind == "NXdetector"]
    usual = f"{entry}/instrument/detector"
    detectors = detectors or [usual] * (usual in survey.groups)
    group = name.rpartition("/")[0]
    own = [
        path for path in detectors if name.startswith(f"{path}/") or path.rpartition("/")[2] == group.rpartition("/")[2]
    ]
    return own[0] if own else detectors[0] if len(detectors) == 1 else ""


def _beams(entry: str, survey: Survey) -> Iterator[str]:
    for path, about in survey.groups.items():
        named = path in (f"{entry}/instrument/beam", f"{entry}/sample/beam", f"{entry}/instrument/monochromator")
        if path.startswith(f"{entry}/") and (named or about.get("NX_class") in ("NXbeam", "NXmonochromator")):
            yield path


def _recorded(entry: str, detector: str, found: Found, survey: Survey) -> dict[str, Any]:
    said = {"entry": entries(entry, _ENTRY, found, survey)}
    if detector:
        said["detector"] = entries(detector, _DETECTOR, found, survey)
        said["specific"] = entries(f"{detector}/detectorSpecific", _SPECIFIC, found, survey)
    said["beam"] = {}
    for beam in _beams(entry, survey):
        said["beam"] |= entries(beam, _BEAM, found, survey)
    return {part: inside for part, inside in said.items() if inside}


PROGRAM = Program(about=_about)
