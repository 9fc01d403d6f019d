"""BLO: what is peculiar to it. The array against numpy, bits and byte orders, short files, the preview."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.conftest import SHARED, same_values
from tests.formats.frame_checks import check_boxes, frames_of, opens_incomplete, refuses, same, warned
from vfs.testing.frame_writers import write_blo

VARIANTS = [(dtype, big) for dtype in ("u1", "u2") for big in (False, True)]


@pytest.mark.parametrize(("dtype", "big"), VARIANTS)
def test_boxes(tmp_path: Path, dtype: str, big: bool) -> None:
    twin = frames_of((3, 4, 5, 5), dtype)
    path = write_blo(tmp_path, twin, big_endian=big)
    check_boxes(path, twin)
    group = vfs.open_group(path)
    assert group["data"].dims == ("scan_y", "scan_x", "y", "x")
    same(group["frame_number"][...], np.arange(12, dtype="u4").reshape(3, 4))
    same(group["virtual_bright_field"][...], np.arange(12, dtype="u1").reshape(3, 4))
    assert group.main.attrs["bit_depth"] == twin.itemsize * 8


def test_metadata(tmp_path: Path) -> None:
    array = vfs.open(write_blo(tmp_path, frames_of((2, 3, 4, 4), "u1"), note="Precession angle : 1"))
    assert array.attrs["note"] == "Precession angle : 1"
    assert array.attrs["calibration"]["scan_y"] == {"scale": 2.5, "offset": 0.0, "unit": "nm"}
    assert array.attrs["calibration"]["scan_x"] == {"scale": 1.5, "offset": 0.0, "unit": "nm"}
    assert array.attrs["calibration"]["x"] == {"scale": 100 / 6226, "offset": 0.0, "unit": "cm"}
    assert (array.attrs["beam_energy_kV"], array.attrs["camera_length_m"], array.attrs["scan_rotation_degrees"]) == (
        200.0,
        0.2,
        25.0,
    )
    assert array.attrs["acquired"] == "2015-12-01T12:00:00"


def test_a_stopped_scan_is_blank_at_the_end(tmp_path: Path) -> None:
    twin = frames_of((3, 4, 5, 5), "u2")
    path = write_blo(tmp_path, twin, stored=7)
    twin.reshape(12, 5, 5)[7:] = 0
    group = opens_incomplete(
        path, "scan.blo", "scan of 3 × 4, 7 of 12 patterns are stored", counts={"frames_missing": 5}
    )
    same(group.main[...], twin)
    assert group.main.attrs["stored_frames"] == 7
    same(group["frame_number"][...].ravel()[7:], np.zeros(5, "u4"))
    assert group["virtual_bright_field"][2, 3] == 11
    path.write_bytes(path.read_bytes()[:-9])
    group = opens_incomplete(
        path, "6 of 12", "47 bytes are left over", counts={"frames_missing": 6, "bytes_left_over": 47}
    )
    assert group.main.valid.sum() == 6
    path = write_blo(tmp_path, twin)
    path.write_bytes(path.read_bytes() + path.read_bytes()[-56:] * 2)
    same(
        opens_incomplete(path, "14 patterns are stored; 2 are not shown", counts={"frames_left_out": 2}).main[...], twin
    )


def test_companions_follow_the_scan(tmp_path: Path) -> None:
    path = write_blo(tmp_path, frames_of((3, 4, 5, 5), "u1"))
    group = vfs.open_group(path, nav_shape=(2, 5), sync_offset=1)
    same(group["frame_number"][...], np.arange(1, 11, dtype="u4").reshape(2, 5))
    same(group["virtual_bright_field"][...], np.arange(1, 11, dtype="u1").reshape(2, 5))


def test_bits_by_the_marks_where_the_note_is_missing(tmp_path: Path) -> None:
    twin = frames_of((2, 3, 4, 4), "u2")
    path = write_blo(tmp_path, twin)
    path.write_bytes(path.read_bytes().replace(b"Blo Bit Depth", b"Blo Bit Breit"))
    same(vfs.open(path)[...], twin)


def test_a_file_without_a_preview(tmp_path: Path) -> None:
    twin = frames_of((2, 3, 4, 4), "u1")
    path = write_blo(tmp_path, twin)
    raw = bytearray(path.read_bytes())
    raw[8:12] = bytes(4)
    path.write_bytes(raw)
    same(vfs.open(path)[...], twin)
    assert "virtual_bright_field" not in vfs.open_group(path)


def test_real_file(oracle: dict[str, Any]) -> None:
    entry = oracle["blo/test2"]
    group = vfs.open_group(SHARED / entry["files"][0])
    assert same_values(group["data"][...], entry["arrays"]["frames"])
    assert same_values(group["virtual_bright_field"][...], entry["arrays"]["virtual_bright_field"])
    same(group["frame_number"][...], np.arange(6, dtype="u4").reshape(2, 3))


@pytest.mark.parametrize(
    ("at", "value", "word"),
    [
        (6, struct.pack("<H", 0x0104), "version"),
        (12, struct.pack("<I", 0), "byte 0"),
        (12, struct.pack("<I", 1 << 31), "truncated"),
        (12, struct.pack("<I", 300), "AA 55"),
        (20, struct.pack("<H", 0), "0 × 0"),
        (20, struct.pack("<H", 65535), "expected patterns of 4,294,836,231 bytes"),
        (24, struct.pack("<H", 0), "positive"),
        (24, struct.pack("<HH", 65535, 65535), "65535"),
    ],
)
def test_garbled(tmp_path: Path, at: int, value: bytes, word: str) -> None:
    path = write_blo(tmp_path, frames_of((2, 3, 5, 5), "u1"))
    raw = bytearray(path.read_bytes())
    raw[at : at + len(value)] = value
    path.write_bytes(raw)
    refuses(path, "scan.blo", word)


def test_refused(tmp_path: Path) -> None:
    write_blo(tmp_path, frames_of((2, 3, 5, 5), "u1"))
    (tmp_path / "foreign.blo").write_bytes(b"something else" * 100)
    refuses(tmp_path / "foreign.blo", "foreign.blo", kind=vfs.UnknownFormatError)
    refuses(tmp_path / "foreign.blo", "begins with", format="blo", kind=vfs.FormatError)


def test_lost_patterns_leave_their_positions_blank(tmp_path: Path) -> None:
    twin = frames_of((3, 4, 5, 5), "u1") | 1
    path = write_blo(tmp_path, twin)
    raw, record = path.read_bytes(), 6 + 25
    first = len(raw) - 12 * record
    lost = [2, 5, 6]
    kept = [raw[first + k * record : first + (k + 1) * record] for k in range(12) if k not in lost]
    path.write_bytes(raw[:first] + b"".join(kept))
    twin.reshape(12, 25)[lost] = 0
    found = opens_incomplete(path, "9 of 12 patterns are stored; the others are blank", counts={"frames_missing": 3})
    same(found.main[...], twin)
    # Numbers beyond the scan say nothing
    path.write_bytes(raw[:first] + b"".join(kept[:-1]) + b"\xaa\x55" + struct.pack("<I", 99) + kept[-1][6:])
    found = opens_incomplete(path, "9 of 12 patterns are stored", counts={"frames_missing": 3})
    same(found.main[2, 1:], np.zeros((3, 5, 5), "u1"))


@pytest.mark.filterwarnings("ignore::vfs.errors.IncompleteWarning")
def test_skipped_patterns_are_not_in_the_preview(tmp_path: Path) -> None:
    twin = frames_of((3, 4, 5, 5), "u1")
    path = write_blo(tmp_path, twin)
    raw = bytearray(path.read_bytes())
    raw[24:28] = struct.pack("<HH", 3, 3)  # the scan has 3 columns and a pattern more a row
    path.write_bytes(raw)
    hint = "3 are not shown; that is 1 frame a line: line_skip=1 skips the end of each line"
    opens_incomplete(path, hint, counts={"frames_left_out": 3})
    group = vfs.open_group(path, line_skip=1)
    same(group["data"][...], twin[:, :3])
    same(group["frame_number"][...], np.arange(12, dtype="u4").reshape(3, 4)[:, :3])
    same(group["virtual_bright_field"][...], np.arange(9, dtype="u1").reshape(3, 3))


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("big_endian", [False, True])
@pytest.mark.parametrize(
    "order",
    [
        [0, 1, 2, 3, 4, 4, 6, 7, 8, 9, 10, 11],  # one twice, and one never
        [0, 1, 2, 3, 5, 4, 6, 7, 8, 9, 10, 11],
        [*range(11, -1, -1)],
        [0, 1, 2, 3, 7, 6, 5, 4, 8, 9, 10, 11],  # a line backwards
        [0, 1, 1, 2, 3, 5, 6, 7, 8],  # and stopped
    ],
    ids=str,
)
def test_patterns_are_where_their_numbers_say(tmp_path: Path, order: list[int], big_endian: bool, start: int) -> None:
    twin = frames_of((3, 4, 5, 5), "u2") | 1
    path = write_blo(tmp_path, twin, big_endian=big_endian)
    raw, record = path.read_bytes(), 6 + 50
    first = len(raw) - 12 * record
    numbers = [struct.pack(">I" if big_endian else "<I", start + n) for n in order]
    stored = [raw[first + k * record : first + (k + 1) * record] for k in range(len(order))]
    path.write_bytes(raw[:first] + b"".join(p[:2] + n + p[6:] for p, n in zip(stored, numbers, strict=True)))
    shown = np.zeros((12, 5, 5), "u2")
    shown[order] = twin.reshape(12, 5, 5)[: len(order)]
    again = len(order) - len({*order})
    said = ["1 has the number of a later one, which is shown", "1 was never recorded: blank"] * again
    array = warned(path, *said) if again else vfs.open(path)
    same(array[...], shown.reshape(3, 4, 5, 5))
    assert np.flatnonzero(~array.valid.ravel()).tolist() == sorted({*range(12)} - {*order})
    assert array.group["frame_number"][...].ravel()[order[0]] == start + order[0]


def test_numbers_that_go_beyond_the_scan_are_told(tmp_path: Path) -> None:
    twin = frames_of((3, 4, 5, 5), "u1")
    path = write_blo(tmp_path, twin)
    raw = bytearray(path.read_bytes())
    for k in range(12):
        at = len(raw) - (12 - k) * 31
        raw[at + 2 : at + 6] = struct.pack("<I", k + (k > 4))
    path.write_bytes(raw)
    same(warned(path, "1 was lost, but they go beyond the scan")[...], twin)
