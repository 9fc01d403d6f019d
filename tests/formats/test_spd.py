"""EDAX .spd: what is peculiar to it. The files beside it, maps that were stopped."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

import vfs
from tests.formats.frame_checks import check_boxes, frames_of, opens_incomplete, refuses, same
from vfs.testing.backscatter_writers import write_spd

TWIN = frames_of((3, 4, 20), "u2")


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4"])
def test_counts(tmp_path: Path, dtype: str) -> None:
    twin = frames_of((3, 4, 20), dtype)
    path = write_spd(tmp_path, twin)
    check_boxes(path, twin, count=10)
    array = vfs.open(path)
    assert array.dims == ("scan_y", "scan_x", "energy")
    assert array.calibration["scan_y"] == {"scale": 0.25, "offset": 0.0, "unit": "um"}
    assert array.calibration["scan_x"] == {"scale": 0.5, "offset": 0.0, "unit": "um"}
    assert array.calibration["energy"] == {"scale": 0.01, "offset": pytest.approx(-0.2), "unit": "keV"}


def test_files_beside_it_may_be_missing_or_garbled(tmp_path: Path) -> None:
    path = write_spd(tmp_path, TWIN)
    assert {name: one.value for name, one in vfs.open(path).metadata.items()} == {
        "elements": "Al O",
        "beam_energy": 20_000,
        "live_time": 12.5,
        "stage.alpha": pytest.approx(np.radians(3)),
        "eds.azimuth": pytest.approx(np.radians(45)),
        "eds.elevation": pytest.approx(np.radians(35)),
        "eds.resolution": 130,
    }
    (tmp_path / "map.spc").write_bytes(b"short")
    assert not vfs.open(path).metadata
    (tmp_path / "image.ipr").unlink()
    array = vfs.open(path)
    same(array[...], TWIN)
    assert array.calibration == {}


def test_a_stopped_map_is_blank_at_the_end(tmp_path: Path) -> None:
    path = write_spd(tmp_path, TWIN, map_shape=(4, 4))
    found = opens_incomplete(path, "12 of 16 spectra", counts={"frames_missing": 4}).main[...]
    same(found, np.concatenate([TWIN, np.zeros((1, 4, 20), "u2")]))
    path.write_bytes(path.read_bytes()[:-7])
    opens_incomplete(path, "11 of 16 spectra", counts={"frames_missing": 5, "bytes_left_over": 33})


def test_more_spectra_than_the_map_has(tmp_path: Path) -> None:
    path = write_spd(tmp_path, TWIN, map_shape=(3, 3))
    hint = "12 spectra are stored; 3 are not shown; that is 1 frame a line: line_skip=1 skips"
    same(
        opens_incomplete(path, hint, counts={"frames_left_out": 3}).main[...],
        TWIN.reshape(12, 20)[:9].reshape(3, 3, 20),
    )
    same(vfs.open(path, line_skip=1)[...], TWIN[:, :3])
    path = write_spd(tmp_path, TWIN)
    path.write_bytes(path.read_bytes() + bytes(7))
    same(opens_incomplete(path, "7 bytes are left over", counts={"bytes_left_over": 7}).main[...], TWIN)


@pytest.mark.parametrize(
    ("at", "value", "word"),
    [
        (0, struct.pack("<i", 0), "MAPSPECTRA_DATA"),
        (24, struct.pack("<i", -4), "3 × -4 spectra"),
        (28, struct.pack("<I", 0), "0 × 4 spectra"),
        (32, struct.pack("<I", 0), "0 channels"),
        (32, struct.pack("<I", 1 << 31), "truncated"),
        (36, struct.pack("<I", 3), "channels of 3 bytes"),
        (40, struct.pack("<I", 1 << 31), "truncated"),
    ],
)
def test_garbled(tmp_path: Path, at: int, value: bytes, word: str) -> None:
    path = write_spd(tmp_path, TWIN)
    raw = bytearray(path.read_bytes())
    raw[at : at + len(value)] = value
    path.write_bytes(raw)
    refuses(path, "map.spd", word, format="spd")
