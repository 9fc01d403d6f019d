"""FRMS6: what is peculiar to it. Folded halves, binning, dark frames, gain maps, what the .hdr says, frame counts."""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.formats.frame_checks import (
    arranged,
    check_boxes,
    frames_of,
    incomplete,
    refuses,
    same,
    warned,
)
from vfs.testing.frame_writers import write_frms6


def test_folded_by_hand(tmp_path: Path) -> None:
    """One frame of 2 stored rows of 6 pixels, written without the writer."""
    stored = np.arange(12, dtype="<u2").reshape(2, 6)
    path = tmp_path / "a_001.frms6"
    path.write_bytes(struct.pack("<HH3xB80sHH928sI", 1024, 64, 6, b"", 6, 2, b"", 1) + bytes(64) + stored.tobytes())
    same(vfs.open(path)[0], np.array([[0, 1, 2], [6, 7, 8], [11, 10, 9], [5, 4, 3]], "u2"))


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("per_file", [None, 5, (1, 7, 4)])
def test_boxes(tmp_path: Path, counted: bool, per_file: Any) -> None:
    frames = frames_of((12, 6, 5), "u2")
    path = write_frms6(tmp_path, frames, frames_per_file=per_file, counted=counted, scan=(3, 4))
    check_boxes(path, frames.reshape(3, 4, 6, 5))
    array = vfs.open(path)
    assert array.dims == ("scan_y", "scan_x", "y", "x")
    assert array.attrs["hdr"]["dwelltimemicroseconds"] == "1000"
    assert "dark" not in vfs.open_group(path)


@pytest.mark.parametrize("binning", [2, 3, 4])
def test_binned(tmp_path: Path, binning: int) -> None:
    frames, dark = frames_of((5, 6, 7), "u2"), frames_of((2, 6, 7), "u2")
    path = write_frms6(tmp_path, frames, binning=binning, frames_per_file=2, dark=dark)
    said = {name: one.value for name, one in vfs.open(path).metadata.items()}
    assert said == {"dwell_time": pytest.approx(1e-3), "binning": (binning, 1), "gain": "1"}
    check_boxes(path, frames[None])
    assert vfs.open(path).attrs["binning"] == binning
    assert vfs.open(path).calibration == {"y": {"scale": binning, "offset": 0.0, "unit": "px"}}
    wide = np.repeat(frames, binning, axis=1)[None]
    check_boxes(path, wide, repeat_rows=True)
    arranged(path, wide[0], repeat_rows=True)
    same(vfs.open_group(path, repeat_rows=True)["dark"][...], np.repeat(dark, binning, axis=1))
    assert vfs.open(path, repeat_rows=True).calibration == {}


def test_dark_frames(tmp_path: Path) -> None:
    frames, dark = frames_of((6, 4, 3), "u2"), frames_of((3, 4, 3), "u2")
    path = write_frms6(tmp_path, frames, dark=dark, scan=(2, 3))
    check_boxes(path, dark, path="dark")
    group = vfs.open_group(path, nav_shape=(3, 2), sync_offset=1)
    same(group["dark"][...], dark)  # dark frames are no part of the scan
    assert group["dark"].dims == ("dark_frame", "y", "x")
    corrected = vfs.open(path, dark="dark")[...]
    np.testing.assert_allclose(
        corrected, frames.reshape(2, 3, 4, 3) - dark.mean(axis=0, dtype="f8"), rtol=1e-4, atol=0.02
    )


def test_gain_map(tmp_path: Path) -> None:
    frames = frames_of((6, 4, 3), "u2")
    gain = np.linspace(0.5, 2, 12).reshape(4, 3)
    csv = tmp_path / "gain.csv"
    csv.write_text("\n".join(";".join(map(str, line)) + ";" for line in gain.T) + "\n")
    path = write_frms6(tmp_path, frames, scan=(2, 3))
    check_boxes(path, gain, path="gain", gain_map=str(csv))
    np.testing.assert_allclose(vfs.open(path, gain_map=str(csv), gain="gain")[1, 2], frames[5] * gain, rtol=1e-6)
    refuses(path, ".csv", gain_map="gain.npy", kind=vfs.OptionError)
    csv.write_text("1;2\n3\n")
    refuses(path, "gain.csv", "rows of numbers", gain_map=str(csv), kind=vfs.FormatError)
    csv.write_text("1;two\n")
    refuses(path, "gain.csv", "two", gain_map=str(csv), kind=vfs.FormatError)
    refuses(path, "none.csv", gain_map=str(tmp_path / "none.csv"), kind=vfs.MissingSourceError)


@pytest.mark.parametrize("packed", [False, True])
def test_gain_map_of_matlab(tmp_path: Path, packed: bool) -> None:
    scipy_io = pytest.importorskip("scipy.io", reason="gain maps of MATLAB need scipy")
    frames = frames_of((6, 4, 3), "u2")
    path = write_frms6(tmp_path, frames, scan=(2, 3), binning=2)
    gain, mat = np.linspace(0.5, 2, 12).reshape(4, 3), tmp_path / "gain.mat"
    scipy_io.savemat(mat, {"other": np.zeros(3), "GainMap": gain}, do_compression=packed)
    check_boxes(path, gain, path="gain", gain_map=str(mat))
    np.testing.assert_allclose(vfs.open(path, gain_map=str(mat), gain="gain")[1, 2], frames[5] * gain, rtol=1e-6)
    scipy_io.savemat(mat, {"GainMap": np.ones((8, 3))}, do_compression=packed)  # of the sensor, whose rows were binned
    assert vfs.open(path, gain_map=str(mat), gain="gain", repeat_rows=True)[0, 0].shape == (8, 3)
    scipy_io.savemat(mat, {"GainMap": np.ones((5000, 3))}, do_compression=packed)
    refuses(path, "gain.mat", "(4, 3) or (8, 3)", "(5000, 3)", gain_map=str(mat), kind=vfs.FormatError)
    scipy_io.savemat(mat, {"other": gain}, do_compression=packed)
    refuses(path, "gain.mat", "variable GainMap", "other", gain_map=str(mat), kind=vfs.FormatError)
    whole = mat.read_bytes()
    for content in (b"", b"MATLAB 7.3", whole[:150], whole[:130] + bytes(40), bytes(300)):
        mat.write_bytes(content)
        refuses(path, "gain.mat", gain_map=str(mat), kind=vfs.FormatError)


def test_a_gain_map_of_matlab_without_scipy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    (tmp_path / "gain.mat").write_bytes(bytes(200))
    refuses(
        write_frms6(tmp_path, frames_of((2, 4, 3), "u2")),
        "pip install 'vfs[frms6]'",
        gain_map=str(tmp_path / "gain.mat"),
        kind=vfs.DependencyError,
    )


def test_a_gain_map_that_changes_is_an_error(tmp_path: Path) -> None:
    csv = tmp_path / "gain.csv"
    csv.write_text("1;2\n3;4\n")
    group = vfs.open_group(write_frms6(tmp_path, frames_of((2, 4, 3), "u2")), gain_map=str(csv), backend="buffered")
    csv.write_text("1;2;3;4\n")
    with pytest.raises(vfs.SourceError, match=r"gain\.csv"):
        group["gain"][...]


def test_frame_headers(tmp_path: Path) -> None:
    path = write_frms6(tmp_path, frames_of((7, 4, 3), "u2"), frames_per_file=3)
    group = vfs.open_group(path, nav_shape=(7,))
    same(group["frame_number"][...], np.array([1, 2, 3, 1, 2, 3, 1], "u4"))
    same(group["timestamp_microseconds"][...], np.array([0, 1, 2, 0, 1, 2, 0], "u4"))
    same(group["timestamp_seconds"][...], np.array([0, 1, 2, 0, 1, 2, 0], "u4") + np.uint32(1_600_000_000))
    assert group["timestamp_microseconds"].attrs["unit"] == "µs"


def test_any_file_names_the_set(tmp_path: Path) -> None:
    frames = frames_of((9, 4, 3), "u2")
    write_frms6(tmp_path, frames, frames_per_file=3, dark=frames_of((1, 4, 3), "u2"), scan=(3, 3))
    write_frms6(tmp_path, frames_of((1, 4, 3), "u2"), name="scan_2")  # somebody else's files
    for name in ("scan.hdr", "scan_000.frms6", "scan_002.frms6"):
        same(vfs.open(tmp_path / name)[...], frames.reshape(3, 3, 4, 3))
    some = [tmp_path / f"scan_{k:03}.frms6" for k in (3, 1)]
    same(vfs.open(some)[...], frames[[0, 1, 2, 6, 7, 8]])
    assert "dark" not in vfs.open_group(some)
    same(
        vfs.open([*some, tmp_path / "scan_002.frms6", tmp_path / "scan_000.frms6", tmp_path / "scan.hdr"])[...],
        frames.reshape(3, 3, 4, 3),
    )
    assert vfs.open_group(tmp_path / "scan.hdr").name == "scan"


def test_without_hdr(tmp_path: Path) -> None:
    frames = frames_of((5, 4, 3), "u2")
    same(vfs.open(write_frms6(tmp_path, frames, frames_per_file=2, hdr=False))[...], frames)


def test_a_scan_that_was_stopped(tmp_path: Path) -> None:
    frames = frames_of((9, 4, 3), "u2")
    path = write_frms6(tmp_path, frames, frames_per_file=3, scan=(3, 3))
    (tmp_path / "scan_003.frms6").unlink()
    frames[6:] = 0
    array = warned(path, "scan.hdr: says 9 signal frames, 6 are stored: the last 3 are missing")
    same(array[...], frames.reshape(3, 3, 4, 3))
    assert array.group.attrs["vfs"]["incomplete"] == {"frames_missing": 3}


def test_more_frames_than_the_scan_has(tmp_path: Path) -> None:
    frames = frames_of((9, 4, 3), "u2")
    path = write_frms6(tmp_path, frames, scan=(2, 4))
    same(warned(path, "says a scan of 2 × 4, 9 frames are stored; 1 is not shown")[...], frames[:8].reshape(2, 4, 4, 3))
    same(vfs.open(path, nav_shape=(3, 3))[...], frames.reshape(3, 3, 4, 3))


@pytest.mark.parametrize("counted", [True, False])
def test_a_last_file_that_is_cut(tmp_path: Path, counted: bool) -> None:
    frames = frames_of((5, 4, 3), "u2")
    path = write_frms6(tmp_path, frames, frames_per_file=3, counted=counted)
    last = tmp_path / "scan_002.frms6"
    last.write_bytes(last.read_bytes()[:-1])
    array = warned(path, "scan_002.frms6: expected", "found 1 and 87 bytes more", "the last one is missing")
    same(array[0], np.concatenate([frames[:4], np.zeros((1, 4, 3), "u2")]))
    assert array.group.attrs["vfs"]["incomplete"] == {"bytes_left_over": 87, "frames_missing": 1}


@pytest.mark.parametrize("counted", [True, False])
def test_a_file_in_the_middle_that_is_cut(tmp_path: Path, counted: bool) -> None:
    frames = frames_of((9, 4, 3), "u2")
    path = write_frms6(tmp_path, frames, frames_per_file=3, counted=counted, scan=(3, 3))
    middle = tmp_path / "scan_002.frms6"
    middle.write_bytes(middle.read_bytes()[:-100])
    frames[4:6] = 0
    array = incomplete(path, "scan_002.frms6: expected", "found 1 and 76 bytes more", kind=vfs.TruncatedSourceError)
    same(array[...], frames.reshape(3, 3, 4, 3))
    assert array.group.attrs["vfs"]["incomplete"] == {"bytes_left_over": 76, "frames_missing": 2}


@pytest.mark.parametrize("lost", [1, 2])
def test_missing_files(tmp_path: Path, lost: int) -> None:
    """The others tell how many frames they held."""
    frames = frames_of((6, 4, 3), "u2")
    path = write_frms6(tmp_path, frames, frames_per_file=2, scan=(2, 3))
    (tmp_path / f"scan_{lost:03}.frms6").unlink()
    frames[2 * lost - 2 : 2 * lost] = 0
    said = (
        f"scan.hdr: scan_{lost:03}.frms6 is missing, with frames {2 * lost - 2} to {2 * lost - 1}; the set continues to"
        " scan_003"
    )
    array = incomplete(path, said, kind=vfs.MissingSourceError)
    same(array[...], frames.reshape(2, 3, 4, 3))
    assert array.group.attrs["vfs"]["incomplete"] == {"files_missing": 1, "frames_missing": 2}
    named = [tmp_path / f"scan_{k:03}.frms6" for k in (1, 2, 3) if k != lost]
    same(vfs.open(named)[...], np.delete(frames, slice(2 * lost - 2, 2 * lost), axis=0))  # these are the set


def test_missing_files_that_held_nobody_knows_what(tmp_path: Path) -> None:
    path = write_frms6(tmp_path, frames_of((6, 4, 3), "u2"), frames_per_file=(1, 2, 3))
    (tmp_path / "scan_002.frms6").unlink()
    refuses(
        path,
        "scan_002.frms6 is missing, and the other files do not tell",
        kind=vfs.MissingSourceError,
        allow_incomplete=True,
    )
    for k in (1, 3):
        (tmp_path / f"scan_{k:03}.frms6").unlink()
    refuses(path, "scan_001.frms6", kind=vfs.MissingSourceError)


def test_dark_frames_that_are_missing_or_cut(tmp_path: Path) -> None:
    frames, dark = frames_of((6, 4, 3), "u2"), frames_of((3, 4, 3), "u2")
    path = write_frms6(tmp_path, frames, dark=dark, scan=(2, 3))
    file = tmp_path / "scan_000.frms6"
    file.write_bytes(file.read_bytes()[:-1])
    same(warned(path, "scan_000.frms6: expected 3 dark frames, found 2").group["dark"][...], dark[:2])
    file.unlink()
    same(warned(path, "says 3 dark frames, scan_000.frms6 is missing")[...], frames.reshape(2, 3, 4, 3))


def test_equal_numbers_are_refused(tmp_path: Path) -> None:
    path = write_frms6(tmp_path, frames_of((6, 4, 3), "u2"), frames_per_file=3)
    (tmp_path / "scan_2.frms6").write_bytes((tmp_path / "scan_002.frms6").read_bytes())
    refuses(path, "same number", kind=vfs.FormatError)


@pytest.mark.parametrize(
    ("file", "at", "value", "word"),
    [
        (1, 0, struct.pack("<H", 1023), "1023"),
        (1, 2, struct.pack("<H", 0), "frame headers"),
        (1, 7, b"\x05", "version"),
        (1, 88, struct.pack("<H", 0), "0 pixels"),
        (1, 88, struct.pack("<H", 7), "even"),
        (1, 90, struct.pack("<H", 0), "0 stored rows"),
        (1, 88, struct.pack("<HH", 65534, 65535), "65535 of 65534"),
        (3, 88, struct.pack("<HH", 65534, 65535), "65535 rows of 65534"),
        (2, 88, struct.pack("<H", 8), "alike"),
        (1, 1020, struct.pack("<I", (1 << 32) - 1), "4,294,967,295"),
        (0, 88, struct.pack("<HH", 8, 1), "signal"),
    ],
)
def test_garbled(tmp_path: Path, file: int, at: int, value: bytes, word: str) -> None:
    path = write_frms6(tmp_path, frames_of((9, 4, 3), "u2"), frames_per_file=3, dark=frames_of((1, 4, 3), "u2"))
    victim = tmp_path / f"scan_{file:03}.frms6"
    raw = bytearray(victim.read_bytes())
    raw[at : at + len(value)] = value
    if file == 0:
        raw[1020:1024] = struct.pack("<I", 1)
    victim.write_bytes(raw)
    refuses(path, victim.name, word)


@pytest.mark.parametrize(
    "text",
    [
        "no section [measurementInfo]",
        "[measurementInfo]\n  signalFrames\n = = \x00",
        "\xff\xfe[measurementInfo]",
    ],
)
def test_garbled_hdr(tmp_path: Path, text: str) -> None:
    path = write_frms6(tmp_path, frames_of((6, 4, 3), "u2"))
    whole = vfs.open(path)[...].reshape(6, *vfs.open(path).shape[-2:])
    path.write_text(text, "latin1")
    array = warned(path, "scan.hdr", "measurementInfo", "without these metadata", format="frms6")
    same(array[...].reshape(6, *array.shape[-2:]), whole)


@pytest.mark.parametrize(
    "scan", ["0x6", "99999999x3", "70000x70000", "2147483648x2147483648", "6", "axb", "-2x-3", "3x3"]
)
def test_a_scan_that_cannot_be_is_left_out(tmp_path: Path, scan: str) -> None:
    frames = frames_of((6, 4, 3), "u2")
    path = write_frms6(tmp_path, frames, scan=(1, 6))
    path.write_text(path.read_text().replace("stemImageSize=1x6", f"stemImageSize={scan}"))
    same(warned(path, f"stemImageSize says '{scan}'", "one axis")[...], frames)


def test_refused(tmp_path: Path) -> None:
    path = write_frms6(tmp_path, frames_of((6, 4, 3), "u2"))
    refuses([path, path], "several .hdr", format="frms6", kind=vfs.OptionError)
    refuses(path, "no option", binning=2, kind=vfs.OptionError)
    empty = write_frms6(tmp_path, np.empty((0, 4, 3), "u2"), name="empty", hdr=False)
    refuses(empty, "have none", kind=vfs.FormatError)
