"""What headers of detectors and settings of microscopes say, in the vocabulary: formats with a short table."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.formats.frame_checks import frames_of
from vfs.testing.backscatter_writers import write_nordif
from vfs.testing.detector_writers import write_sls
from vfs.testing.event_writers import write_eer
from vfs.testing.gatan_writers import write_k2is, write_tags
from vfs.testing.plane_writers import fits_unit, write_edf
from vfs.testing.writers import write_ripple

FRAMES = frames_of((2, 4, 5), "u2")


def values(path: Path) -> dict[str, Any]:
    return {name: one.value for name, one in vfs.open(path).metadata.items()}


def test_edf(tmp_path: Path) -> None:
    said = {"Title": "a title", "ExposureTime": "0.5 s", "WaveLength": "9.95e-11", "SampleDistance": "1.25_m"}
    found = values(write_edf(tmp_path / "a.edf", FRAMES, Center_1="498.5", Center_2="515.25", **said))
    assert (found["title"], found["exposure_time"], found["wavelength"]) == ("a title", 0.5, 9.95e-11)
    assert (found["detector_distance"], found["beam_center"]) == (1.25, (515.25, 498.5))
    assert found["pixel_size"] == (172e-6, 75e-6)
    garbled = values(write_edf(tmp_path / "a.edf", FRAMES, ExposureTime="long", Center_1="1", PSize_1="", Date="today"))
    assert garbled == {}


def test_fits(tmp_path: Path) -> None:
    cards: dict[str, Any] = {"OBJECT": "M 31", "OBSERVER": "somebody", "EXPTIME": 30.5, "INSTRUME": "ALTA"}
    (tmp_path / "a.fits").write_bytes(fits_unit(FRAMES, SIMPLE=True, **{"DATE-OBS": "2020-01-02T03:04:05", **cards}))
    found = values(tmp_path / "a.fits")
    assert (found["title"], found["authors"], found["exposure_time"]) == ("M 31", "somebody", 30.5)
    assert (found["time"], found["detector"]) == ("2020-01-02T03:04:05", "ALTA")
    (tmp_path / "a.fits").write_bytes(fits_unit(FRAMES, SIMPLE=True, **{"DATE-OBS": "02/01/99", "EXPTIME": "long"}))
    assert values(tmp_path / "a.fits") == {}


def test_eer(tmp_path: Path) -> None:
    path = write_eer(tmp_path / "a.eer", [np.eye(8, 8, dtype=bool)] * 4)
    assert values(path) == {"exposure_time": 2.0, "pixel_size": (5e-11, 5e-11)}
    assert values(write_eer(tmp_path / "a.eer", [np.eye(8, 8, dtype=bool)], metadata=False)) == {}


def test_nordif(tmp_path: Path) -> None:
    path = write_nordif(tmp_path, frames_of((2, 3, 4, 5), "u1"))
    more = "\r\n[Specimen]\r\nName\tNi\t\r\n[EBSD detector]\r\nModel\tUF1100\t\r\n"
    text = path.read_bytes().decode("latin1")
    text = text.replace(
        "Tilt angle", "Model\tSU-6600\t\r\nAccelerating voltage\t20\tkV\r\nWorking distance\t24.7\tmm\r\nTilt angle"
    )
    path.write_bytes((text.replace("[Area]", "Exposure time\t3500\t\xb5s\r\n[Area]") + more).encode("latin1"))
    found = values(path)
    assert (found["microscope"], found["beam_energy"], found["instrument"]) == ("SU-6600", 20e3, "SEM")
    assert (found["working_distance"], found["exposure_time"]) == (pytest.approx(24.7e-3), pytest.approx(3.5e-3))
    assert (found["stage.alpha"], found["sample"], found["detector"]) == (
        pytest.approx(math.radians(70)),
        "Ni",
        "UF1100",
    )


def test_ripple(tmp_path: Path) -> None:
    said = {
        "beam_energy": 200,
        "elevation_angle": 18,
        "convergence_angle": 15.5,
        "live_time": 0.5,
        "date": "2020-01-02",
    }
    found = values(write_ripple(tmp_path, FRAMES, title="a map", time="03:04:05", **said))
    assert (found["title"], found["time"], found["beam_energy"]) == ("a map", "2020-01-02T03:04:05", 200e3)
    assert (found["convergence_angle"], found["live_time"]) == (pytest.approx(15.5e-3), 0.5)
    assert found["eds.elevation"] == pytest.approx(math.radians(18))
    assert values(write_ripple(tmp_path, FRAMES, beam_energy="", date="", live_time="long")) == {}


def test_sls(tmp_path: Path) -> None:
    said: dict[str, Any] = {"Exptime": "10us", "Period": "1.5ms", "Threshold Energy": -1}
    found = values(write_sls(tmp_path, FRAMES, **said))
    assert (found["exposure_time"], found["frame_time"]) == (pytest.approx(1e-5), pytest.approx(1.5e-3))
    assert found["detector"] == "Jungfrau"
    assert "threshold_energy" not in found, "-1 says that none was set"


def test_k2is(tmp_path: Path) -> None:
    path = write_k2is(tmp_path, np.zeros((2, 1860, 2048), "u2"))
    info = {"Voltage": 300000.0, "Indicated Magnification": 29000.0, "Stage Position": {"Stage Alpha": 30.0}}
    for root in ({"Microscope Info": info}, {"SI Image Tags": {"Microscope Info": info}}):
        write_tags(path, root, 3)
        found = values(path)
        assert (found["beam_energy"], found["magnification"]) == (300e3, 29000)
        assert found["stage.alpha"] == pytest.approx(math.radians(30))
