"""What NeXus, Dectris and programs of backscatter diffraction record in HDF5, in the vocabulary."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.formats.frame_checks import frames_of, same
from vfs.testing.hdf5_writers import write_patterns

h5py = pytest.importorskip("h5py")

FRAMES = frames_of((3, 4, 5), "u2")
DETECTOR = {
    "description": b"EIGER 9M",
    "detector_number": b"E-18-0001",
    "sensor_material": b"Si",
    "sensor_thickness": (450.0, "um"),
    "threshold_energy": (6.2, "keV"),
    "beam_center_x": (498.5, "pixel"),
    "beam_center_y": (515.25, "pixel"),
    "x_pixel_size": (75e-6, "m"),
    "y_pixel_size": (0.1, "mm"),
    "detector_distance": ([211.4], "mm"),
    "count_time": 0.5,
    "frame_time": (501.0, "ms"),
    "saturation_value": 65535,
}


def write_nexus(path: Path, detector: Mapping[str, Any] = DETECTOR, **entries: Any) -> Path:
    """Write frames in an NXdata group, and what stands beside: paths with __ for / -> value, or (value, units)."""
    with h5py.File(path, "w") as file:
        data = file.create_group("entry/data")
        data["data"] = FRAMES
        data.attrs.update(NX_class="NXdata", signal="data")
        file["entry"].attrs.update(NX_class="NXentry", default="data")
        file.create_group("entry/instrument/detector").attrs["NX_class"] = "NXdetector"
        beam = {"entry__instrument__detector__" + name: value for name, value in detector.items()} | entries
        for name, said in beam.items():
            value, units = said if isinstance(said, tuple) else (said, "")
            file[name.replace("__", "/")] = np.bytes_(value) if isinstance(value, bytes) else value
            if units:
                file[name.replace("__", "/")].attrs["units"] = units
    return path


def values(array: vfs.VirtualArray) -> dict[str, Any]:
    return {name: one.value for name, one in array.metadata.items()}


def test_nexus(tmp_path: Path) -> None:
    path = write_nexus(
        tmp_path / "a.nxs",
        entry__title=b"a title",
        entry__start_time=b"2019-02-14T14:25:57Z",
        entry__sample__name=b"lysozyme",
        entry__instrument__beam__incident_wavelength=(0.98, "angstrom"),
        entry__instrument__beam__incident_energy=(12.65, "keV"),
    )
    array = vfs.open(path)
    same(array[...], FRAMES)
    found = values(array)
    assert (found["title"], found["sample"], found["time"]) == ("a title", "lysozyme", "2019-02-14T14:25:57Z")
    assert (found["detector"], found["serial_number"], found["sensor_material"]) == ("EIGER 9M", "E-18-0001", "Si")
    assert found["sensor_thickness"] == pytest.approx(450e-6)
    assert (found["threshold_energy"], found["beam_energy"]) == (pytest.approx(6200), pytest.approx(12650))
    assert (found["beam_center"], found["pixel_size"]) == ((515.25, 498.5), pytest.approx((1e-4, 75e-6)))
    assert (found["detector_distance"], found["wavelength"]) == (pytest.approx(0.2114), pytest.approx(0.98e-10))
    assert (found["exposure_time"], found["frame_time"], found["saturation"]) == (0.5, pytest.approx(0.501), 65535)
    assert array.metadata["exposure_time"].source == "nexus:detector:count_time"
    assert values(vfs.open_group(path)["entry/data/data"]) == found


def test_what_dectris_does_not_know_is_not_said(tmp_path: Path) -> None:
    """0 where no one told the detector; its own entries stand in `detectorSpecific`."""
    unknown = {"beam_center_x": 0.0, "beam_center_y": 0.0, "detector_distance": (0.0, "m")}
    specific = "entry__instrument__detector__detectorSpecific__"
    said = {
        "photon_energy": (3e5, "eV"),
        "software_version": b"1.8.0",
        "data_collection_date": b"2025-05-03T01:51:00+02:00",
    }
    path = write_nexus(tmp_path / "a.h5", unknown, **{specific + name: value for name, value in said.items()})
    found = values(vfs.open(path))
    assert found == {"beam_energy": 3e5, "software": "1.8.0", "time": "2025-05-03T01:51:00+02:00"}


def test_a_detector_of_several_is_that_of_the_array(tmp_path: Path) -> None:
    path = write_nexus(tmp_path / "a.nxs")
    with h5py.File(path, "a") as file:
        other = file.create_group("entry/instrument/monitor")
        other.attrs["NX_class"], other["count_time"] = "NXdetector", 7.0
    assert "exposure_time" not in values(vfs.open(path)), "nobody says which of both it is"
    with h5py.File(path, "a") as file:
        file.move("entry/data", "entry/monitor")
        file["entry"].attrs["default"] = "monitor"
    assert values(vfs.open(path))["exposure_time"] == 7.0


@pytest.mark.parametrize(
    "garbled",
    [
        {"count_time": (math.nan, "s"), "x_pixel_size": (1e-4, "m"), "sensor_material": b"\xff\xfe"[:0] + b" "},
        {"count_time": (1.0, "furlongs"), "beam_center_x": ([1.0, 2.0], "pixel"), "beam_center_y": (1.0, "pixel")},
        {"count_time": (np.ones((2, 2)), "s"), "threshold_energy": b"twelve"},
    ],
)
def test_garbled_entries_say_nothing(tmp_path: Path, garbled: dict[str, Any]) -> None:
    array = vfs.open(write_nexus(tmp_path / "a.nxs", garbled, entry__start_time=b"yesterday"))
    same(array[...], FRAMES)
    assert values(array) == {}


OXFORD = {
    "Beam Voltage": [20.0],
    "Magnification": [500.0],
    "Working Distance": [15.5],
    "Tilt Angle": [math.radians(70)],
    "Camera Exposure Time": [0.8],
    "Camera Binning Mode": np.bytes_(b"4x4 (156x128 px)"),
}
EDAX = {"Working Distance": [24.5], "Sample Tilt": [70.0], "Operator": np.bytes_(b"somebody"), "Notes": np.bytes_(b"")}
BRUKER = {"KV": 15.0, "Magnification": 200.0, "WD": 17.0, "SampleTilt": 70.0, "Date": np.bytes_(b"2017-05-01")}
KIKUCHIPY = {"binning": 8, "exposure_time": 3.5e-3, "sample_tilt": 70.0, "detector": np.bytes_(b"NORDIF UF1100")}


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (
            OXFORD,
            {
                "beam_energy": 20e3,
                "magnification": 500,
                "working_distance": 0.0155,
                "exposure_time": 8e-4,
                "binning": 4,
            },
        ),
        (EDAX, {"working_distance": 0.0245, "authors": "somebody"}),
        ({**BRUKER, "Time": np.bytes_(b"10:11:12")}, {"beam_energy": 15e3, "working_distance": 0.017}),
        (KIKUCHIPY, {"binning": 8, "exposure_time": 3.5e-3, "detector": "NORDIF UF1100"}),
    ],
)
def test_backscatter_diffraction(tmp_path: Path, header: dict[str, Any], expected: dict[str, Any]) -> None:
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["Camera Exposure Time"] = 1
    path = write_patterns(tmp_path / "a.h5", FRAMES, header)
    if header is OXFORD:
        with h5py.File(path, "a") as file:
            file["1/EBSD/Header/Camera Exposure Time"].attrs["Unit"] = "ms"
    found = values(vfs.open(path))
    assert found["instrument"] == "SEM"
    assert found["stage.alpha"] == pytest.approx(math.radians(70))
    assert {name: found[name] for name in expected} == {
        name: pytest.approx(value) if isinstance(value, float) else value for name, value in expected.items()
    }
    assert found.get("time") == ("2017-05-01T10:11:12" if "Time" in header else None)
    assert "notes" not in found


def test_what_kikuchipy_says_of_the_microscope(tmp_path: Path) -> None:
    path = write_patterns(tmp_path / "a.h5", FRAMES, {})
    with h5py.File(path, "a") as file:
        header = file.create_group("1/SEM/Header")
        header["beam_energy"], header["magnification"], header["working_distance"] = [20.0], [200], [24.7]
        header["microscope"] = np.bytes_(b"Hitachi SU-6600")
    found = values(vfs.open(path))
    assert (found["microscope"], found["beam_energy"], found["magnification"]) == ("Hitachi SU-6600", 20e3, 200)
    assert found["working_distance"] == pytest.approx(24.7e-3)


def test_texts_of_variable_length_are_not_read(tmp_path: Path) -> None:
    """Libhdf5 may crash on damaged ones, and a file must open."""
    path = write_nexus(tmp_path / "a.nxs", {}, entry__title="a title", entry__start_time=b"2019-02-14T14:25:57Z")
    assert values(vfs.open(path)) == {"time": "2019-02-14T14:25:57Z"}
