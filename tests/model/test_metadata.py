"""What files say is found under the names of one vocabulary."""

from __future__ import annotations

import math
import pickle
import re
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr

import vfs
from vfs.cli.app import main
from vfs.formats import formats
from vfs.model import spoken
from vfs.model.hyperspy_places import PLACES
from vfs.model.metadata import CHANNELS, COUNT, TEXT, VOCABULARY, WHEN, Said, Term, in_form, measured, of_epoch, said
from vfs.testing.gatan_writers import write_dm

PAGE = Path(vfs.__file__).parent / "docs" / "metadata.md"
TAGS = {
    "Microscope Info": {
        "Voltage": 300000.0,
        "Indicated Magnification": 2.1e6,
        "Probe Current (nA)": 0.0,
        "Illumination Mode": "STEM NANOPROBE",
        "Operation Mode": "SCANNING",
        "Stage Position": {"Stage Alpha": -24.0, "Stage X": -461.276},
    },
    "Session Info": {"Microscope": "Titan"},
    "DigiScan": {"Sample Time": 10.0},
    "DataBar": {"Acquisition Date": "3/4/2021", "Acquisition Time": "10:22:31 PM"},
}


@pytest.fixture
def image(tmp_path: Path) -> Path:
    return write_dm(tmp_path, np.ones((4, 6), np.float32), tags=TAGS)


def test_tags_of_a_microscope_have_names_units_and_sources(image: Path) -> None:
    found = vfs.open(image).metadata
    assert found["beam_energy"] == Said(300000.0, "eV", "tags:Microscope Info:Voltage")
    assert found["magnification"] == Said(2.1e6, "", "tags:Microscope Info:Indicated Magnification")
    assert found["dwell_time"].value == pytest.approx(1e-5)
    assert found["stage.alpha"].value == pytest.approx(math.radians(-24))
    assert found["stage.x"].value == pytest.approx(-461.276e-6)
    assert (found["instrument"].value, found["mode"].value, found["microscope"].value) == ("STEM", "scan", "Titan")
    assert found["time"].value == "2021-03-04T22:22:31"
    assert "beam_current" not in found, "0 says that DigitalMicrograph does not know it"
    assert vfs.open_group(image).metadata == found
    with pytest.raises(TypeError):
        found["beam_energy"] = found["magnification"]  # type: ignore[index]


def test_zarr_and_info_have_it(image: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for zarr_format in (3, 2):
        root = zarr.open_group(vfs.open_group(image).store(zarr_format=zarr_format), mode="r", zarr_format=zarr_format)
        (array,) = [one for one in root.members(max_depth=None) if isinstance(one[1], zarr.Array)]
        for node in (root, array[1]):
            found: Any = node.attrs["vfs"]
            said = {"value": 300000.0, "unit": "eV", "source": "tags:Microscope Info:Voltage"}
            assert found["recorded"]["beam_energy"] == said
    assert main(["info", "-v", str(image)]) == 0
    assert "beam_energy: 300 keV (as tags:Microscope Info:Voltage says)" in capsys.readouterr().out


def test_info_has_a_line_of_what_people_ask_first(image: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(image)]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "  300 kV STEM, 2.1 M×, 10 µs a pixel, 2021-03-04 22:22, Titan"
    diffraction = {"mode": Said("diffraction", "", ""), "camera_length": Said(0.55, "m", "")}
    assert spoken.line(diffraction | {"magnification": Said(320, "", "")}) == "camera length 0.55 m"
    assert spoken.line({"magnification": Said(320, "", "")}) == "320×"
    assert spoken.line({"exposure_time": Said(0.2, "s", ""), "notes": Said("x", "", "")}) == "0.2 s exposure"
    assert spoken.line({}) == ""


def test_hyperspy_has_it_in_its_places(image: Path) -> None:
    (signal,) = vfs.rsciio.file_reader(image)
    microscope = signal["metadata"]["Acquisition_instrument"]["TEM"]
    assert microscope["beam_energy"] == pytest.approx(300)
    assert microscope["acquisition_mode"] == "STEM"
    assert microscope["Stage"]["tilt_alpha"] == pytest.approx(-24)
    assert microscope["Stage"]["x"] == pytest.approx(-0.461276)
    assert microscope["Detector"]["EELS"]["dwell_time"] == pytest.approx(1e-5)
    general = signal["metadata"]["General"]
    assert (general["date"], general["time"]) == ("2021-03-04", "22:22:31")


@pytest.mark.parametrize(
    ("date", "clock", "found"),
    [
        ("7/9/2014", "6:56:37 PM", "2014-07-09T18:56:37"),
        ("14/05/2019", "20:50:13", "2019-05-14T20:50:13"),
        ("05/14/2019", "20:50:13", "2019-05-14T20:50:13"),
        ("8/8/2016", "16:26:37", "2016-08-08T16:26:37"),
        ("7/9/2014", "18:56:37", None),
        ("2014-09-07", "12:00:01 AM", "2014-09-07T00:00:01"),
        ("99/99/2014", "18:56:37", None),
        ("yesterday", "18:56:37", None),
    ],
)
def test_dates_of_digitalmicrograph(date: str, clock: str, found: str | None, tmp_path: Path) -> None:
    tags = {"DataBar": {"Acquisition Date": date, "Acquisition Time": clock}}
    metadata = vfs.open(write_dm(tmp_path, np.ones((4, 6), np.float32), tags=tags)).metadata
    assert (metadata["time"].value if "time" in metadata else None) == found


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        (200000, 200000),
        ("2e5", 2e5),
        (b"x", None),
        (True, None),
        ("inf", None),
        (float("nan"), None),
        ({}, None),
        (None, None),
        ([], None),
        ([1, 2.5], None),
    ],
)
def test_an_entry_that_is_no_number_says_nothing(entry: Any, found: Any) -> None:
    made = said([Term("beam_energy", "a:b")], {"a": {"b": entry}})
    assert (made["beam_energy"].value if made else None) == found


def test_names_of_several_numbers() -> None:
    terms = [Term("binning", "bin"), Term("beam_energy", "kV")]
    assert said(terms, {"bin": [1, 2.5], "kV": [1, 2]}) == {"binning": Said((1, 2.5), "", "bin")}, (
        "one beam, one energy"
    )
    assert said(terms, {"bin": [1, "x"]}) == {}
    assert said(terms, {"bin": 4})["binning"].value == 4


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        ("2020-05-18T14:51:49.971626178Z", "2020-05-18T14:51:49.971626178Z"),
        ("2020-05-18 14:51:49", "2020-05-18T14:51:49"),
        ("2014-07-09", "2014-07-09"),
        ("May 2014", None),
        ("2014-13-09", None),
        ("", None),
    ],
)
def test_times_are_iso_8601(entry: str, found: str | None) -> None:
    made = said([Term("time", "at")], {"at": entry})
    assert (made["time"].value if made else None) == found


def test_what_hyperspy_wrote_comes_back_in_its_place(tmp_path: Path) -> None:
    """Of an SEM as of a TEM; and a list where one number belongs is no number."""
    for place, other in (("SEM", "TEM"), ("TEM", "SEM")):
        with h5py.File(tmp_path / f"{place}.hspy", "w") as file:
            file.attrs["file_format"] = "HyperSpy"
            signal = file.create_group("Experiments/signal")
            signal["data"] = np.ones((4, 5), np.float32)
            microscope = signal.create_group(f"metadata/Acquisition_instrument/{place}")
            microscope.attrs["beam_energy"], microscope.attrs["magnification"] = 15.0, [1.0, 2.0]
        (made,) = vfs.rsciio.file_reader(tmp_path / f"{place}.hspy")
        instruments = made["metadata"]["Acquisition_instrument"]
        assert instruments[place]["beam_energy"] == pytest.approx(15.0)
        assert other not in instruments
        assert instruments[place]["magnification"] == [1.0, 2.0], "no magnification, and as HyperSpy wrote it"


def test_objects_that_differ_say_nothing() -> None:
    terms = [Term("beam_energy", "*:kV", 1e3)]
    assert said(terms, {"a": {"kV": 200}, "b": {"kV": 200}, "c": {}})["beam_energy"].value == 200e3
    assert not said(terms, {"a": {"kV": 200}, "b": {"kV": 80}})
    assert not said(terms, {"a": {"kV": 200}, "b": {"other": 1}}), "of which of both it is said nobody knows"
    assert not said(terms, {})


def test_texts_with_units() -> None:
    assert [measured(text) for text in ("-0.158 um", "0.260 m", "115000 x", "90 deg", "3 furlongs", "")] == [
        pytest.approx(-0.158e-6),
        0.26,
        115000,
        pytest.approx(math.pi / 2),
        None,
        None,
    ]
    assert of_epoch("1709189884") == "2024-02-29T06:58:04+00:00"
    assert (of_epoch("0"), of_epoch(1e300), of_epoch("x")) == (None, None, None)
    assert in_form("%Y:%m:%d %H:%M:%S", "2018:11:15 19:42:31") == "2018-11-15T19:42:31"
    assert in_form("%Y:%m:%d %H:%M:%S", "0000:00:00 00:00:00") is None


def test_formats_use_names_of_the_vocabulary() -> None:
    for kind in formats().values():
        assert {term.name for term in kind.terms} <= VOCABULARY.keys(), kind.name
        pickle.loads(pickle.dumps(kind.terms))
    assert PLACES.keys() <= VOCABULARY.keys()


def test_the_page_has_the_names() -> None:
    units = {TEXT: "", COUNT: "number", WHEN: "time", CHANNELS: "see above"}
    text = PAGE.read_text().partition("<!-- names -->")[2].partition("<!-- /names -->")[0]
    listed = re.findall(r"`([\w.]+)`(?:\s\(([^)]+)\))?(?=,|$)", text, re.M)
    assert dict(listed) == {name: units.get(unit, f"`{unit}`") for name, unit in VOCABULARY.items()}


def test_a_time_of_another_form_says_nothing() -> None:
    terms = [Term("time", "date_time", take=partial(in_form, "%Y:%m:%d %H:%M:%S"))]
    assert said(terms, {"date_time": "2015/07/30 7:17"}) == {}
