"""EMPAD: what is peculiar to it. Footer rows, the versions of the XML, the rule of sizes, raw files without XML."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.conftest import SHARED, same_values
from tests.formats.frame_checks import (
    frames_of,
    incomplete,
    refuses,
    same,
    warned,
)
from tests.formats.sets import empad_set
from vfs.testing.frame_writers import write_empad, write_empad_g2

RECORD = 130 * 128 * 4


def words_of(nav: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Random words of EMPAD-G2."""
    return frames_of((*nav, 128, 128), "u4", seed) & 0xBFFFFFFF


def test_the_second_generation(tmp_path: Path) -> None:
    words = words_of((2, 3))
    constants = frames_of((2, 3, 128, 128), "f4")
    path = write_empad_g2(tmp_path, words, constants=constants)
    group = vfs.open_group(path)
    twins = {"data": words, "analog": words & 0x3FFF, "counter": words >> 14 & 0xFFFF, "gain": words >> 31}
    for name, dtype in (("data", "u4"), ("analog", "u2"), ("counter", "u2"), ("gain", "u1")):
        same(group[name][...], twins[name].astype(dtype))
        same(group[name][1, 1:, 5:9, ::7], twins[name].astype(dtype)[1, 1:, 5:9, ::7])
    array = vfs.open(path, constants=tmp_path / "constants")
    half = np.arange(3) % 2
    first, base, second = (constants[half, k] for k in range(3))
    analog, counter = twins["analog"].astype("f4"), twins["counter"]
    want = np.where(twins["gain"] == 1, first * (analog - base), analog) + second * counter
    same(array[...], want.astype("f4"))
    same(array[1, 2], want[1, 2].astype("f4"))
    assert array.dims == ("scan_y", "scan_x", "y", "x")
    same(vfs.open(path, constants=tmp_path / "constants", nav_shape=(3, 2))[0, 1], want[0, 1].astype("f4"))
    assert array.group.main.attrs["generation"] == 2
    (tmp_path / "constants" / "G1B.r32").write_bytes(b"")
    refuses(path, "G1B.r32", "0 bytes", constants=tmp_path / "constants")
    (tmp_path / "constants" / "G1B.r32").unlink()
    refuses(path, "G1B.r32", kind=vfs.MissingSourceError, constants=tmp_path / "constants")
    refuses(path, "generation=3", "1 or 2", kind=vfs.OptionError, generation=3)


def test_the_second_generation_is_told_by_size(tmp_path: Path) -> None:
    words = words_of((2, 3))
    path = write_empad_g2(tmp_path, words)
    whole = path.read_bytes()
    path.write_bytes(whole[: 4 * 65536 + 9])
    twin = words.copy().reshape(6, 128, 128)
    twin[4:] = 0
    same(warned(path, "4 of 6 records", "9 bytes are left over")[...], twin.reshape(words.shape))
    path.write_bytes(whole[:9])
    refuses(path, "9 bytes", kind=vfs.TruncatedSourceError, generation=2)
    path.write_bytes((words.reshape(-1) | 1 << 30).astype("<u4").tobytes())  # numbers of the first generation
    assert warned(path, "5 of 6 records").dtype == np.float32
    first = write_empad(tmp_path, frames_of((2, 3, 128, 128), "f4"))
    refuses(first, "constants", "EMPAD-G2", kind=vfs.OptionError, constants=tmp_path)


def test_attributes(tmp_path: Path) -> None:
    path, _, _ = empad_set(tmp_path)
    array = vfs.open(path)
    assert array.dims == ("scan_y", "scan_x", "y", "x")
    assert array.attrs["metadata"]["raw_file"]["filename"] == "C:\\data\\scan.raw"
    assert array.attrs["calibration"] == {
        name: {"scale": 1e-8 / 0.5 / 3, "offset": 0.0, "unit": "m"} for name in ("scan_y", "scan_x")
    }
    same(vfs.open_group(path)["footer"][...], np.full((2, 3, 2, 128), -1, "f4"))


@pytest.mark.parametrize("xml", ["acquire", "search", "pix"])
def test_scans_of_every_version(tmp_path: Path, xml: str) -> None:
    twin = frames_of((3, 2, 128, 128), "f4")
    same(vfs.open(write_empad(tmp_path, twin, xml=xml))[...], twin)


@pytest.mark.parametrize("xml", ["series", "series_count"])
def test_series(tmp_path: Path, xml: str) -> None:
    twin = frames_of((4, 128, 128), "f4")
    array = vfs.open(write_empad(tmp_path, twin, xml=xml))
    same(array[...], twin)
    assert array.dims == ("frame", "y", "x")


@pytest.mark.parametrize("xml", ["name", None])
@pytest.mark.parametrize(("name", "nav"), [("scan_x3_y2.raw", (2, 3)), ("series_x6.raw", (6,))])
def test_the_name_tells_the_scan(tmp_path: Path, xml: str | None, name: str, nav: tuple[int, ...]) -> None:
    twin = frames_of((*nav, 128, 128), "f4")
    same(vfs.open(write_empad(tmp_path, twin, raw=name, xml=xml))[...], twin)


@pytest.mark.parametrize(
    ("xml", "raw", "nav", "told"),
    [
        ({"acquire": (2, 3), "search": (1, 6)}, "scan_x6_y1.raw", (1, 6), False),
        ({"acquire": (2, 3), "search": (1, 6)}, "scan_x3_y2.raw", (2, 3), False),
        ({"acquire": (2, 3), "search": (1, 6)}, "map.raw", (2, 3), True),
        ({"acquire": (2, 3), "search": (9, 9)}, "scan_x6_y1.raw", (1, 6), True),
        ({"acquire": (2, 3), "search": (9, 9)}, "scan_x7_y1.raw", (2, 3), False),
    ],
)
def test_the_name_decides_between_scans_that_fit(
    tmp_path: Path, xml: dict[str, tuple[int, int]], raw: str, nav: tuple[int, int], told: bool
) -> None:
    twin = frames_of((*nav, 128, 128), "f4")
    path = write_empad(tmp_path, twin, raw=raw, xml="name")
    modes = "".join(
        f'<scan_parameters mode="{mode}"><scan_resolution_y>{y}</scan_resolution_y>'
        f"<scan_resolution_x>{x}</scan_resolution_x></scan_parameters>"
        for mode, (y, x) in xml.items()
    )
    path.write_text(path.read_text().replace("<iom_", modes + "<iom_", 1))
    same((warned(path, "which both fit") if told else vfs.open(path))[...], twin)


def test_the_scan_covers_a_part_of_the_field_of_view(tmp_path: Path) -> None:
    path = write_empad(tmp_path, frames_of((2, 3, 128, 128), "f4"))
    whole = path.read_text()
    for mode, part in (("search", 1.0), ("acquire", 0.6)):
        begin = f'<scan_parameters mode="{mode}">'
        path.write_text(path.read_text().replace(begin, f"{begin}<scan_size>{part}</scan_size>"))
    assert vfs.open(path).calibration["scan_x"]["scale"] == pytest.approx(1e-8 / 0.5 * 0.6 / 3)
    old = "<optics.get_full_scan_field_of_view>[2e-8, 3e-8]</optics.get_full_scan_field_of_view>"
    path.write_text(whole.replace("<iom_measurements>", "<iom_measurements>" + old))
    assert vfs.open(path).calibration["scan_y"]["scale"] == pytest.approx(1e-8)
    path.write_text(whole.replace("<scale_factor>0.5</scale_factor>", ""))
    assert "calibration" not in vfs.open(path).attrs


def test_a_scan_of_no_mode_covers_what_is_acquired(tmp_path: Path) -> None:
    path = write_empad(tmp_path, frames_of((2, 3, 128, 128), "f4"), xml="pix")
    modes = "".join(
        f'<scan_parameters mode="{mode}"><scan_size>{part}</scan_size><scan_resolution_x>9</scan_resolution_x>'
        "<scan_resolution_y>9</scan_resolution_y></scan_parameters>"
        for mode, part in (("search", 0.6), ("acquire", 1.0))
    )
    path.write_text(path.read_text().replace("<iom_measurements>", f"{modes}<iom_measurements>"))
    assert vfs.open(path).calibration["scan_x"]["scale"] == pytest.approx(1e-8 / 0.5 / 3)


def test_what_the_microscope_measured(tmp_path: Path) -> None:
    path = write_empad(tmp_path, frames_of((2, 3, 128, 128), "f4"))
    said = (
        "<is_column_in_stem_mode>True</is_column_in_stem_mode><high_voltage>300000.0</high_voltage>"
        "<nominal_camera_length>0.1159</nominal_camera_length><scan_rotation>-0.1</scan_rotation>"
        "<spot_size_index>9</spot_size_index><calibrated_diffraction_angle>1e-3</calibrated_diffraction_angle>"
    )
    text = path.read_text().replace("<iom_measurements>", f"<exposure_time>1</exposure_time><iom_measurements>{said}")
    path.write_text(text)
    array = vfs.open(path)
    found = {name: one.value for name, one in array.metadata.items()}
    assert (found["beam_energy"], found["camera_length"], found["exposure_time"]) == (300e3, 0.1159, 1e-3)
    assert (found["instrument"], found["scan_rotation"], found["spot_size"]) == ("STEM", -0.1, 9)
    assert array.calibration["x"] == {"scale": 1e-3, "offset": -0.064, "unit": "rad"}


def test_what_the_second_generation_measured(tmp_path: Path) -> None:
    """The elements are those of a file of software v2.0."""
    path = write_empad_g2(tmp_path, words_of((2, 3)))
    path.with_suffix(".xml").write_text(
        '<root name="right"><timestamp timestamp="1624351503.609866" isoformat="2021-06-22T04:45:03.609866"/>'
        "<software_version>v2.0_3</software_version><scan><type>scan</type><shape>(2, 3)</shape>"
        "<exposure_time>0.0001</exposure_time></scan><sensor><type>EMPAD2</type><shape>(128,128)</shape></sensor>"
        "<pdcu><SerialNumber>20-12-A0L-SX3</SerialNumber></pdcu><iom_measurements>"
        "<ColumnGetScanRotation>-2.83</ColumnGetScanRotation><ColumnOpticsSpotSizeIndex>8</ColumnOpticsSpotSizeIndex>"
        "<ColumnOpticsGetCameraLengthNominalCameraLength>1.197</ColumnOpticsGetCameraLengthNominalCameraLength>"
        "<ColumnOpticsGetMagnificationNominalMagnification>186966.9</ColumnOpticsGetMagnificationNominalMagnification>"
        "<ColumnOpticsGetFullScanFieldOfViewx>5.4e-08</ColumnOpticsGetFullScanFieldOfViewx>"
        "<ColumnSourceHighVoltage>300000.0</ColumnSourceHighVoltage></iom_measurements>"
        "<rawfile><filename>scan_x3_y2.raw</filename></rawfile></root>"
    )
    array = vfs.open(path)
    found = {name: one.value for name, one in array.metadata.items()}
    assert (found["beam_energy"], found["camera_length"], found["exposure_time"]) == (300e3, 1.197, 1e-4)
    assert (found["scan_rotation"], found["spot_size"], found["magnification"]) == (-2.83, 8, 186966.9)
    assert (found["serial_number"], found["detector"]) == ("20-12-A0L-SX3", "EMPAD2")
    assert array.calibration["scan_x"] == {"scale": pytest.approx(1.8e-8), "offset": 0.0, "unit": "m"}


def test_the_name_that_is_left_tells_the_scan(tmp_path: Path) -> None:
    twin = frames_of((2, 3, 128, 128), "f4")
    path = write_empad(tmp_path, twin, name="map", raw="scan_x3_y2.raw", xml="name")
    (tmp_path / "scan_x3_y2.raw").rename(tmp_path / "map.raw")  # renamed together with the XML
    same(vfs.open(path)[...], twin)
    same(vfs.open(tmp_path / "map.raw", format="empad")[...], twin)


def test_raw_and_xml_named_together_or_alone(tmp_path: Path) -> None:
    twin = frames_of((2, 3, 128, 128), "f4")
    path = write_empad(tmp_path, twin, name="meta", raw="scan_x9_y9.raw")
    (tmp_path / "other.xml").write_text("<root><raw_file filename='another.raw'/></root>")
    (tmp_path / "broken.xml").write_text("<root><raw_file")
    raw = tmp_path / "scan_x9_y9.raw"
    for paths in (path, raw, [raw, path], [path, raw]):
        array = vfs.open(paths)
        same(array[...], twin)
        assert array.attrs["xml"] == "meta.xml"


def test_a_raw_file_without_metadata(tmp_path: Path) -> None:
    twin = frames_of((3, 128, 128), "f4")
    path = write_empad(tmp_path, twin, xml=None)
    refuses(path, "no format", kind=vfs.UnknownFormatError)  # nothing in it says what it is
    same(vfs.open(path, format="empad")[...], twin)


def test_older_calibrations(tmp_path: Path) -> None:
    path = write_empad(tmp_path, frames_of((2, 3, 128, 128), "f4"))
    view = (
        "<optics><get_full_scan_field_of_view>(2e-8,"
        " 3e-8)</get_full_scan_field_of_view></optics><calibrated_pixelsize>2e-11</calibrated_pixelsize>"
    )
    path.write_text(path.read_text().replace("<iom_measurements>", "<iom_measurements>" + view))
    calibration = vfs.open(path).attrs["calibration"]
    assert calibration["scan_y"]["scale"] == pytest.approx(1e-8)
    assert calibration["scan_x"]["scale"] == pytest.approx(1e-8)
    assert calibration["y"] == {"scale": pytest.approx(0.02), "offset": pytest.approx(-1.28), "unit": "1/nm"}


def test_sizes_that_fit_nothing(tmp_path: Path) -> None:
    twin = frames_of((2, 3, 128, 128), "f4")
    path = write_empad(tmp_path, twin)
    raw = tmp_path / "scan.raw"
    whole = raw.read_bytes()
    raw.write_bytes(whole + whole[:RECORD])
    refuses(path, "scan.raw", "2 × 3 or 3 × 4", "7 whole records", kind=vfs.FormatError)
    raw.write_bytes(whole[: 4 * RECORD + 100])
    array = incomplete(path, "scan.raw", "2 × 3 or 3 × 4", "4 whole records", kind=vfs.TruncatedSourceError)
    same(array[...], twin.reshape(6, 128, 128)[:4])
    assert array.group.attrs["vfs"]["incomplete"] == {"bytes_left_over": 100}
    same(warned(path, allow_incomplete=True, nav_shape=(2, 3))[1, 1:], np.zeros((2, 128, 128), "f4"))


@pytest.mark.parametrize(("kept", "rest"), [(4, 0), (5, 100)])
def test_a_scan_that_was_stopped(tmp_path: Path, kept: int, rest: int) -> None:
    twin = frames_of((2, 3, 128, 128), "f4")
    path = write_empad(tmp_path, twin, xml="pix")
    os.truncate(tmp_path / "scan.raw", kept * RECORD + rest)
    array = warned(
        path,
        f"scan.raw: scan.xml says a scan of 2 × 3, {kept} of 6 records are stored",
    )
    same(
        array[...].reshape(6, 128, 128),
        np.concatenate([twin.reshape(6, 128, 128)[:kept], np.zeros((6 - kept, 128, 128), "f4")]),
    )
    assert array.group.attrs["vfs"]["incomplete"] == {"frames_missing": 6 - kept} | (
        {"bytes_left_over": rest} if rest else {}
    )
    assert array.valid.sum() == kept


def test_real_files(oracle: dict[str, Any]) -> None:
    entry = oracle["empad/series_x10"]
    for name in entry["files"]:
        assert same_values(vfs.open(SHARED / name)[...], entry["arrays"]["frames"])
    refuses(
        SHARED / oracle["empad/xml_only_v1.2.0_128x128"]["files"][0],
        "scan_x128_y128.raw",
        "no such file",
        kind=vfs.MissingSourceError,
    )


def test_real_xml_with_both_scans(oracle: dict[str, Any], tmp_path: Path) -> None:
    """The size decides between the scans of an XML of version 1.2: acquire 128 × 128, search 64 × 64."""
    text = (SHARED / oracle["empad/xml_only_v1.2.0_128x128"]["files"][0]).read_text()
    (tmp_path / "map.xml").write_text(text)
    for side, part in ((128, 1.0), (64, 0.6)):
        with (tmp_path / "scan_x128_y128.raw").open("wb") as file:
            file.truncate(side * side * RECORD)  # a hole: takes no space
        array = vfs.open(tmp_path / "map.xml")
        assert array.shape == (side, side, 128, 128)
        assert array.attrs["calibration"]["scan_x"]["scale"] == pytest.approx(
            9.266641250196717e-09 / 0.72 * part / side
        )
        assert array.attrs["metadata"]["iom_measurements"]["nominal_camera_length"] == "0.1159"


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("<scan_resolution_y>2<", "<scan_resolution_y>2147483648<", "3 × 4 records"),
        ("<scan_resolution_y>2<", "<scan_resolution_y>0<", "3 × 4 records"),
        ("<scan_resolution_x>3<", "<scan_resolution_x>-3<", "3 × 4 records"),
        ("<scan_resolution_x>3<", "<scan_resolution_x>99999999<", "99999999"),
        ("<root", "<!DOCTYPE root [<!ENTITY a 'b'>]><root", "entities"),
        ("<root name", "<" + "a><" * 60 + "root name", "XML"),
        ("</root>", "<b>" * 60 + "</b>" * 60 + "</root>", "levels"),
        ("scan.raw", "../../etc/passwd.raw", "passwd.raw"),
    ],
)
def test_garbled(tmp_path: Path, old: str, new: str, word: str) -> None:
    path = write_empad(tmp_path, frames_of((2, 3, 128, 128), "f4"), name="meta", raw="scan.raw")
    path.write_text(path.read_text().replace(old, new))
    refuses(path, word, format="empad")


def test_a_garbled_xml_does_not_keep_the_pixels_back(tmp_path: Path) -> None:
    twin = frames_of((2, 3, 128, 128), "f4")
    path = write_empad(tmp_path, twin, name="scan", raw="scan.raw")
    path.write_bytes(path.read_bytes().replace(b"</root>", b"<a>\xb5</a></root>"))
    for named in (path, tmp_path / "scan.raw"):
        array = warned(named, "scan.xml", "XML is not valid", "without these metadata", format="empad")
        same(array[...], twin.reshape(6, 128, 128))


def test_refused(tmp_path: Path) -> None:
    path = write_empad(tmp_path, frames_of((2, 1, 128, 128), "f4"))
    refuses([path, path], "one .raw and one .xml", kind=vfs.OptionError)
    (tmp_path / "empty.raw").write_bytes(b"")
    refuses(tmp_path / "empty.raw", "0 bytes", format="empad")
    (tmp_path / "odd.raw").write_bytes(bytes(RECORD + 1))
    assert incomplete(tmp_path / "odd.raw", "1 byte is left over", format="empad").shape == (1, 128, 128)
