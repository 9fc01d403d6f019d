"""SER and EMI: what is peculiar to them. Offsets of both widths, spectra, stopped scans, rows that
are turned over, several signals.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

import vfs
from tests.conftest import SHARED, same_values
from tests.formats.frame_checks import check_boxes, frames_of, opens_incomplete, refuses, same, warned
from vfs.testing.stack_writers import write_emi, write_ser

BESIDE = ("timestamp", "position_x", "position_y")
"""Companions that `write_ser` gives each file."""


@pytest.mark.parametrize("version", [0x0210, 0x0220])
@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "i1", "i2", "i4", "f4", "f8"])
def test_images(tmp_path: Path, version: int, dtype: str) -> None:
    twin = frames_of((2, 3, 4, 5), dtype)
    path = write_ser(tmp_path, twin, version=version)
    check_boxes(path, twin, count=10)
    array = vfs.open(path)
    assert array.dims == ("scan_y", "scan_x", "y", "x")
    assert array.attrs["rows_flipped"] is True
    assert array.attrs["scan_axes"][1] == {"name": "Position", "scale": 0.5, "offset": 9.0, "unit": "meters"}
    assert array.calibration["scan_x"] == {"scale": 0.5, "offset": 9.0, "unit": "m"}
    assert array.calibration["y"] == {"scale": 0.25, "offset": 1.0, "unit": ""}


def test_complex_images(tmp_path: Path) -> None:
    twin = (frames_of((3, 4, 5), "f4") + 1j * frames_of((3, 4, 5), "f4", 2)).astype("c8")
    check_boxes(write_ser(tmp_path, twin), twin)


def test_spectra(tmp_path: Path) -> None:
    twin = frames_of((2, 3, 11), "u4")
    path = write_ser(tmp_path, twin, sig_ndim=1)
    check_boxes(path, twin)
    assert vfs.open(path).dims == ("scan_y", "scan_x", "energy")
    line = vfs.open(write_ser(tmp_path, twin[0], sig_ndim=1, name="line"))
    assert line.dims == ("scan_x", "energy")  # its axis is a length, as in DM
    assert line.calibration["scan_x"] == {"scale": 0.5, "offset": 9.0, "unit": "m"}


def test_one_image_has_no_scan(tmp_path: Path) -> None:
    twin = frames_of((1, 4, 5), "u2")
    same(vfs.open(write_ser(tmp_path, twin))[...], twin[0])


@pytest.mark.parametrize("short", [False, True])
def test_stopped_scans_keep_their_shape_and_stopped_series_do_not(tmp_path: Path, short: bool) -> None:
    twin = frames_of((3, 4, 5, 6), "u2")
    group = opens_incomplete(
        write_ser(tmp_path, twin, valid=7, short_tables=short),
        "12 elements were allocated, 7 are stored",
        counts={"frames_missing": 5},
    )
    want = twin.copy().reshape(12, 5, 6)
    want[7:] = 0
    same(group.main[...], want.reshape(twin.shape))
    assert group.main.valid.sum() == 7
    assert group["timestamp"][...].reshape(-1).tolist() == [1_600_000_000 + k for k in range(7)] + [0] * 5
    series = opens_incomplete(
        write_ser(tmp_path, twin[0], valid=3, short_tables=short, name="series"),
        "stopped",
        counts={"frames_missing": 1},
    )
    same(series.main[...], twin[0, :3])


def test_emi_names_the_signals_beside_it(tmp_path: Path) -> None:
    first, second = frames_of((2, 4, 5), "u2"), frames_of((3, 9), "f4")
    write_ser(tmp_path, first)
    path = write_emi(tmp_path)
    assert {*vfs.open_group(path)} == {"data", *BESIDE}
    write_ser(tmp_path, second, sig_ndim=1, name="set_2")
    group = vfs.open_group(path)
    assert {*group} == {f"{n}/{name}" for n in (1, 2) for name in ("data", *BESIDE)}
    same(group["1/data"][...], first)
    same(group["2/data"][...], second)
    assert sorted(vfs.open_group([path, tmp_path / "set_1.ser", tmp_path / "set_2.ser"])) == sorted(group)
    assert group.main.attrs["emi"]["object_1"] == {"High tension": "200 kV", "AcceleratingVoltage": "200000"}
    (tmp_path / "set_1.ser").unlink()
    write_ser(tmp_path, first, name="set_4")
    group = opens_incomplete(path, "set.emi: set_1.ser and set_3.ser are missing", counts={"files_missing": 2})
    assert {*group} == {f"{n}/{name}" for n in (2, 4) for name in ("data", *BESIDE)}
    (tmp_path / "set_2.ser").unlink()
    write_ser(tmp_path, first)
    (tmp_path / "set_4.ser").unlink()
    path.write_bytes(path.read_bytes().replace(b"High", b"\xb5"))
    same(warned(path, "set.emi: the XML is not valid", "without these metadata")[...], first)
    (tmp_path / "alone.emi").write_bytes(path.read_bytes())
    refuses(tmp_path / "alone.emi", "alone_1.ser", kind=vfs.MissingSourceError)


@pytest.mark.parametrize(
    ("at", "value", "word"),
    [
        (0, b"xx", "expected set_1_1.ser"),
        (6, struct.pack("<I", 0x4121), "0x4121"),
        (14, struct.pack("<I", 1 << 31), "elements"),
        (18, struct.pack("<I", 0), "valid"),
        (22, struct.pack("<q", 1 << 60), "truncated"),
        (22, struct.pack("<q", -5), "truncated"),
        (30, struct.pack("<i", 99), "dimensions"),
        (34, struct.pack("<i", -4), "scan axis"),
        (58, struct.pack("<i", 1 << 30), "name of a scan axis"),
    ],
)
def test_garbled(tmp_path: Path, at: int, value: bytes, word: str) -> None:
    path = write_ser(tmp_path, frames_of((2, 3, 4, 5), "u2"))
    data = bytearray(path.read_bytes())
    data[at : at + len(value)] = value
    path.write_bytes(data)
    refuses(path, word, format="ser")


def test_elements_of_several_kinds_are_no_array(tmp_path: Path) -> None:
    path = write_ser(tmp_path, frames_of((3, 4, 5), "u2"))
    data = path.read_bytes()
    kind = struct.pack("<hii", 2, 5, 4)
    second = data.index(kind, data.index(kind) + 1)
    path.write_bytes(data[:second] + struct.pack("<hii", 2, 4, 5) + data[second + 10 :])
    refuses(path, "element 1", "another dtype or shape")


@pytest.mark.filterwarnings(
    "ignore:.*(200 elements were allocated, 5|10 elements were allocated, 1) are stored:vfs.IncompleteWarning"
)
def test_real_files(oracle: dict[str, Any]) -> None:
    seen = 0
    for name, entry in oracle.items():
        if entry["format"] not in ("ser", "ser_emi"):
            continue
        for file, array in entry["arrays"].items():
            path = next(SHARED / f for f in entry["files"] if f.endswith(file))
            for backend in ("mmap", "buffered"):
                assert same_values(vfs.open(path, backend=backend)[...], array), (name, file)
            seen += 1
        emi = next((SHARED / f for f in entry["files"] if f.endswith(".emi")), None)
        if emi is not None:
            assert vfs.open_group(emi).main.attrs["emi"]
    assert seen


def test_time_stamps_that_are_cut_are_said(tmp_path: Path) -> None:
    """They were left out without a word."""
    twin = frames_of((3, 4, 5), "u2")
    path = write_ser(tmp_path, twin)
    data = path.read_bytes()
    path.write_bytes(data[:-1])  # the table of tags is behind them
    same(warned(path, "ends within the tags of its 3 elements")[...], twin)
    path.write_bytes(data[:-8] + struct.pack("<q", len(data) - 9))
    warned(path, "ends within the tags")


def test_positions_of_the_beam_are_coordinates(tmp_path: Path) -> None:
    pytest.importorskip("xarray")
    twin = frames_of((3, 4, 5), "u2")
    shown = vfs.open(write_ser(tmp_path, twin)).xarray()
    assert shown.position_x.values.tolist() == [0, 0.5, 1]
    assert shown.position_y.values.tolist() == [0, -0.5, -1]
    assert shown.position_x.attrs["units"] == "m"
