"""Real files: what the door to HyperSpy says of the acquisition is what RosettaSciIO's own readers say.

Compared are all fields below `Acquisition_instrument`, `General` and `Sample` that RosettaSciIO fills, by its metadata
or its mapping. vfs may say nothing of a field only where it is listed, and something else only for the reason given:
the page on metadata has the same list.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

import vfs
from tests.conftest import SHARED

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # theirs are not ours to mend
    pytest.mark.skipif(importlib.util.find_spec("rsciio") is None, reason="RosettaSciIO is not installed"),
    pytest.mark.skipif(not SHARED.exists(), reason="no real files here"),
]

TEM = "Acquisition_instrument.TEM."
STAGE = {
    **{f"{TEM}Stage.{axis}": "RosettaSciIO gives metres where HyperSpy has mm" for axis in "xyz"},
    **{f"{TEM}Stage.tilt_{axis}": "RosettaSciIO rounds to three digits" for axis in ("alpha", "beta")},
}
CASES: list[tuple[str, str, dict[str, str]]] = [
    ("blo/*/*.blo", "blockfile", {f"{TEM}camera_length": "RosettaSciIO gives metres where HyperSpy has mm"}),
    (
        "dm/*/*.dm[34]",
        "digitalmicrograph",
        {"General.time": "DigitalMicrograph has two: vfs takes the start of the acquisition, in UTC"},
    ),
    (
        "hdf5/*/*.emd",
        "emd",
        {**STAGE, f"{TEM}microscope": "RosettaSciIO gives the class of instruments (Titan), vfs the model (Themis)"},
    ),
    ("hdf5/*/*.hspy", "hspy", {}),
    ("mib/*/*.mib", "quantumdetector", {}),
    ("ser_emi/*/*.emi", "tia", {f"{TEM}microscope": "TIA puts the word Microscope before the name"}),
]
"""Files, the reader in RosettaSciIO, fields that differ, and why."""

UNSAID = {
    "General.timestamp",  # what General.date and time say
    "General.time_zone",  # of a time for which the file has none
    f"{TEM}rotation",
    f"{TEM}frames_per_second",
    f"{TEM}detector",
    f"{TEM}Detector.EDS.number_of_frames",  # the length of an axis
    f"{TEM}Detector.Camera.Name",
    f"{TEM}Detector.Camera.exposure",  # vfs: Detector.EELS.exposure
    f"{TEM}dwell_time",  # vfs: Detector.EELS.dwell_time
    "Acquisition_instrument.dwell_time",
}
"""Fields that RosettaSciIO has elsewhere, or that the vocabulary does not have."""
OF_SEVERAL = {"General.date", "General.time", f"{TEM}magnification"}
"""Fields in which objects of an .emi differ, of which RosettaSciIO takes the first."""


def fields(tree: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from fields(value, f"{above}{name}.")
        elif isinstance(value, str | int | float) and value != "":
            yield f"{above}{name}", value


def theirs_of(signal: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a signal, with those that its mapping takes from its original metadata."""
    made = dict(fields(signal["metadata"]))
    for path, (place, make) in (signal.get("mapping") or {}).items():
        value: Any = signal["original_metadata"]
        for name in path.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        try:
            value = make(value) if make and value is not None else value
        except Exception:  # theirs is not ours to mend
            continue
        if isinstance(value, str | int | float):
            made[place] = value
    wanted = ("Acquisition_instrument.", "General.", "Sample.")
    own = ("General.title", "General.original_filename", "General.FileIO")
    return {place: value for place, value in made.items() if place.startswith(wanted) and not place.startswith(own)}


def alike(one: Any, other: Any) -> bool:
    try:
        return math.isclose(float(one), float(other), rel_tol=1e-4, abs_tol=1e-9)
    except (TypeError, ValueError):
        return str(one).strip() == str(other).strip()


@pytest.mark.parametrize(("files", "reader", "reasons"), CASES, ids=[reader for _, reader, _ in CASES])
def test_fields_are_those_of_rosettasciio(files: str, reader: str, reasons: dict[str, str]) -> None:
    read = importlib.import_module(f"rsciio.{reader}").file_reader
    same, differ, unsaid = 0, set(), set()
    for path in sorted(SHARED.glob(files)):
        try:
            theirs = read(str(path), lazy=True)
        except Exception:  # a file that it does not read
            continue
        for other, mine in zip(theirs, vfs.rsciio.file_reader(path, lazy=True), strict=False):
            ours = dict(fields(mine["metadata"]))
            for place, value in theirs_of(other).items():
                if place not in ours:
                    unsaid |= {place} if value not in (0, 0.0) else set()  # 0 says that the program did not know
                elif alike(value, ours[place]):
                    same += 1
                else:
                    differ.add(place)
    assert same
    assert differ <= reasons.keys()
    assert unsaid <= UNSAID | (OF_SEVERAL if reader == "tia" else set()) | (
        {f"{TEM.replace('TEM', 'SEM')}Stage.tilt_alpha"} if reader == "hspy" else set()
    )
