"""EDAX .up1 and .up2: what is peculiar to them. Versions, hexagonal grids, maps that were stopped."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

import vfs
from tests.formats.frame_checks import check_boxes, frames_of, incomplete, opens_incomplete, refuses, same, warned
from vfs.testing.backscatter_writers import write_up

TWIN = frames_of((3, 4, 5, 6), "u2")


@pytest.mark.parametrize("dtype", ["u1", "u2"])
def test_versions(tmp_path: Path, dtype: str) -> None:
    twin = TWIN.astype(dtype)
    path = write_up(tmp_path, twin)
    check_boxes(path, twin, count=10)
    array = vfs.open(path)
    assert array.dims == ("scan_y", "scan_x", "y", "x")
    assert array.calibration["scan_y"] == {"scale": 0.25, "offset": 0.0, "unit": "um"}
    assert array.calibration["scan_x"] == {"scale": 0.5, "offset": 0.0, "unit": "um"}
    array = vfs.open(write_up(tmp_path, twin, version=1))
    assert array.dims == ("frame", "y", "x")
    same(array[...], twin.reshape(12, 5, 6))
    same(vfs.open(path, nav_shape=(3, 4))[...], twin)


def test_hexagonal_grids_are_one_axis(tmp_path: Path) -> None:
    for shape in ((3, 4), (5, 3), (8, 2)):  # 12 patterns, or 13, or 12 without those at the ends of short rows
        path = write_up(tmp_path, TWIN, hexagonal=True, map_shape=shape)
        said = "5 rows of 3 and 2, which has 13 patterns (or 15); 12 are stored"
        array = warned(path, said) if shape == (5, 3) else vfs.open(path)
        assert array.dims == ("frame", "y", "x")
        assert array.attrs["grid"].startswith("hexagonal")
        same(array[...], TWIN.reshape(12, 5, 6))
    assert warned(write_up(tmp_path, TWIN, hexagonal=True, map_shape=(2, 4)), "has 7 patterns").shape[0] == 12


def test_maps_that_do_not_fit(tmp_path: Path) -> None:
    path = write_up(tmp_path, TWIN, map_shape=(4, 4))
    found = opens_incomplete(path, "12 of 16 patterns", counts={"frames_missing": 4}).main[...]
    same(found, np.concatenate([TWIN, np.zeros((1, 4, 5, 6), "u2")]))
    path.write_bytes(path.read_bytes()[:-7])
    opens_incomplete(path, "53 bytes are left over", counts={"frames_missing": 5, "bytes_left_over": 53})
    path = write_up(tmp_path, TWIN, map_shape=(3, 3))
    found = opens_incomplete(path, "3 are not shown", "line_skip=1", counts={"frames_left_out": 3}).main
    same(vfs.open(path, line_skip=1)[...], TWIN[:, :3])
    for version, hexagonal in ((1, False), (3, True)):
        path = write_up(tmp_path, TWIN, version=version, hexagonal=hexagonal)
        path.write_bytes(path.read_bytes()[:-7])
        same(incomplete(path, "map.up2", "53 bytes", kind=vfs.TruncatedSourceError)[...], TWIN.reshape(12, 5, 6)[:-1])


@pytest.mark.parametrize(
    ("at", "value", "word"),
    [
        (0, struct.pack("<I", 2), "version 2"),
        (0, struct.pack("<I", 0), "version 0"),
        (0, struct.pack("<I", 1 << 31), "version 2,147,483,648"),
        (4, struct.pack("<I", 0), "5 × 0 pixels"),
        (8, struct.pack("<I", 1 << 30), "1,073,741,824 × 6"),
        (4, struct.pack("<II", 65536, 65536), "truncated"),
        (12, struct.pack("<I", 8), "at byte 8"),
        (12, struct.pack("<I", 1 << 20), "truncated"),
    ],
)
def test_garbled(tmp_path: Path, at: int, value: bytes, word: str) -> None:
    path = write_up(tmp_path, TWIN)
    raw = bytearray(path.read_bytes())
    raw[at : at + len(value)] = value
    path.write_bytes(raw)
    refuses(path, "map.up2", word, format="edax")


def test_maps_without_positions_are_one_axis(tmp_path: Path) -> None:
    path = write_up(tmp_path, TWIN, map_shape=(0, 4))
    same(vfs.open(path)[...], TWIN.reshape(12, 5, 6))


def test_refused(tmp_path: Path) -> None:
    path = write_up(tmp_path, TWIN)
    refuses(path.rename(tmp_path / "map.dat"), ".up1", kind=vfs.OptionError, format="edax")
