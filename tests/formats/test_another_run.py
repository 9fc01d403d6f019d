"""Files of another run under the right name: where anything in them tells, they are refused, whatever their size."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.formats.frame_checks import frames_of, incomplete, same, warned
from vfs.testing.backscatter_writers import write_nordif
from vfs.testing.frame_writers import write_frms6, write_tvips
from vfs.testing.plane_writers import write_ndtiff
from vfs.testing.stack_writers import write_emi, write_ser
from vfs.testing.writers import write_mib

FRAMES = frames_of((12, 4, 8), "u2")
OTHERS = FRAMES + np.uint16(1000)
DAY = 86_400_000_000_000  # ns


def swapped(first: int) -> np.ndarray:
    """Return the frames, of which four from one on are those of the other run."""
    twin = FRAMES.copy()
    twin[first : first + 4] = OTHERS[first : first + 4]
    return twin


def two(tmp_path: Path) -> tuple[Path, Path]:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    return tmp_path / "a", tmp_path / "b"


@pytest.mark.parametrize("file", [0, 1, 2])
@pytest.mark.parametrize("later", [40 * DAY, -40 * DAY])
@pytest.mark.parametrize("extended", [True, False])
def test_a_mib_file_of_another_day(tmp_path: Path, later: int, file: int, extended: bool) -> None:
    a, b = two(tmp_path)
    path = write_mib(a, FRAMES, frames_per_file=4, extended=extended)
    start = str(np.datetime64("2020-05-18T14:51:49.971626178", "ns") + later)
    write_mib(b, OTHERS, frames_per_file=4, extended=extended, start=start)
    name = f"scan{file + 1:03}.mib"
    shutil.copy(b / name, a / name)
    same(
        incomplete(path, "before it at 20", "it belongs to another acquisition", kind=vfs.FormatError)[...],
        swapped(4 * file),
    )


def test_a_mib_file_of_the_same_day(tmp_path: Path) -> None:
    """It begins before the one in front of it ends; an hour earlier may be the end of summer time."""
    a, b = two(tmp_path)
    path = write_mib(a, FRAMES, frames_per_file=4)
    write_mib(b, OTHERS, frames_per_file=4, start="2020-05-18T14:41:49.971626178")
    shutil.copy(b / "scan002.mib", a / "scan002.mib")
    incomplete(path, "scan002.mib: begins at 2020-05-18T14:41:49", kind=vfs.FormatError)
    write_mib(b, OTHERS, frames_per_file=4, start="2020-05-18T13:51:49.971626178")
    shutil.copy(b / "scan002.mib", a / "scan002.mib")
    same(vfs.open(path)[...], swapped(4))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("Counter Depth (number):\t6", "a counter depth of 6"),
        ("Assembly Size (NX1, 2X2):\t   2x2", "chips 2x2"),
        ("Time and Date Stamp (day, mnth, yr, hr, min, s):\t25/05/2020 14:51:49", "the day 25/05/2020"),
        ("Assembly Size (NX1, 2X2):\t   1x1", ""),
        ("Time and Date Stamp (day, mnth, yr, hr, min, s):\t18/05/2020 14:51:49", ""),
        ("Time and Date Stamp (day, mnth, yr, hr, min, s):\t05/19/2020 01:51:49", ""),
        ("Time and Date Stamp (day, mnth, yr, hr, min, s):\t99/99/2020 01:51:49", ""),
    ],
)
def test_a_hdr_of_another_run(tmp_path: Path, line: str, said: str) -> None:
    twin = frames_of((12, 4, 64), "u2") % 4096
    path = write_mib(tmp_path, twin, kind="R64", depth=12, scan=(3, 4))
    text = path.read_bytes().decode("latin-1").replace("Counter Depth (number):\t12\r\n", "")
    path.write_bytes(text.replace("HDR,\t\r\n", f"HDR,\t\r\n{line}\r\n").encode("latin-1"))
    array = incomplete(path, f"{path}: says {said}", kind=vfs.FormatError) if said else vfs.open(path)
    same(array[...], twin.reshape(3, 4, 4, 64))


@pytest.mark.parametrize(("version", "header_bytes"), [(1, 12), (2, 108)])
@pytest.mark.parametrize(
    ("take", "days", "said"),
    [
        ("001", 0, "scan_002.tvips: begins with frame number 4, the file before it ends with 7"),
        ("002", 40, "scan_002.tvips: begins at 2020-10-23"),
        ("002", -40, "scan_002.tvips: begins at 2020-08-04"),
        ("002", 1, ""),
    ],
)
def test_a_tvips_file_of_another_run(
    tmp_path: Path, take: str, days: int, said: str, version: int, header_bytes: int
) -> None:
    a, b = two(tmp_path)
    how: dict[str, Any] = {"version": version, "header_bytes": header_bytes, "frames_per_file": 4}
    path = write_tvips(a, FRAMES, **how)
    write_tvips(b, OTHERS, times=[(1_600_000_010 + days * 86_400 + n) * 1000 + 1 for n in range(12)], **how)
    shutil.copy(b / f"scan_{take}.tvips", a / "scan_002.tvips")
    array = (
        incomplete(path, said, "it belongs to another acquisition", kind=vfs.FormatError) if said else vfs.open(path)
    )
    same(array[:8], FRAMES[:8])
    same(array[8:], OTHERS[4:8] if take == "001" else OTHERS[8:])


def test_tvips_counters_that_start_anew_in_every_file(tmp_path: Path) -> None:
    path = write_tvips(tmp_path, FRAMES, frames_per_file=4)
    record = 108 + FRAMES[0].nbytes
    for file in sorted(tmp_path.glob("*.tvips")):
        raw = bytearray(file.read_bytes())
        for k in range(4):
            at = len(raw) - (4 - k) * record
            raw[at : at + 4] = k.to_bytes(4, "little")
        file.write_bytes(raw)
    same(vfs.open(path)[...], FRAMES)


@pytest.mark.parametrize("sig_ndim", [1, 2])
@pytest.mark.parametrize(
    ("date", "right"),
    [("Sun Sep 13 05:26:40 2020", True), ("Tue Sep  1 05:26:40 2020", False), ("yesterday", True)],
)
def test_a_ser_file_of_another_day(tmp_path: Path, date: str, right: bool, sig_ndim: int) -> None:
    write_ser(tmp_path, FRAMES, sig_ndim=sig_ndim)
    emi = write_emi(tmp_path)
    emi.write_bytes(emi.read_bytes().replace(b"<Root>", f"<AcquireDate>{date}</AcquireDate><Root>".encode()))
    said = ["set_1.ser: was recorded at 2020-09-13T12:26:40, its .emi says 2020-09-01T05:26:40"]
    array = vfs.open(emi) if right else incomplete(emi, *said, kind=vfs.FormatError)
    same(array[...], FRAMES)
    same(vfs.open(tmp_path / "set_1.ser")[...], FRAMES)


@pytest.mark.parametrize("file", [1, 2, 3])
@pytest.mark.parametrize("days", [-40, 40, 1])
def test_a_frms6_file_of_another_day(tmp_path: Path, days: int, file: int) -> None:
    path = write_frms6(tmp_path, FRAMES, frames_per_file=4)
    other = tmp_path / f"scan_{file:03}.frms6"
    raw = bytearray(other.read_bytes())
    for k in range(4):
        at = 1024 + k * (64 + FRAMES[0].nbytes) + 4
        raw[at : at + 4] = (1_600_000_000 + days * 86_400 + k).to_bytes(4, "little")
    other.write_bytes(raw)
    said = "before it at 2020", "it belongs to another acquisition"
    array = vfs.open(path) if days == 1 else incomplete(path, *said, kind=vfs.FormatError)
    same(array[...].reshape(FRAMES.shape), FRAMES)


def test_patterns_of_another_nordif_run(tmp_path: Path) -> None:
    """Neither their number nor their size are those of the settings; a map that was stopped has fewer."""
    patterns = frames_of((2, 3, 8, 8), "u1")
    path = write_nordif(tmp_path, patterns)
    data = tmp_path / "Pattern.dat"
    data.write_bytes(patterns.tobytes() + bytes(164))
    array = incomplete(path, "and 36 bytes that are none: it belongs to another acquisition", kind=vfs.FormatError)
    same(array[...], patterns)
    data.write_bytes(patterns.tobytes() + bytes(128))
    warned(path, "2 are not shown")
    data.write_bytes(patterns.tobytes()[:-10])
    warned(path, "the others are blank")


def test_an_ndtiff_file_of_another_run(tmp_path: Path) -> None:
    planes = frames_of((6, 5, 6), "u2")
    path = write_ndtiff(tmp_path, planes, {"z": range(6)}, files=3)
    file = tmp_path / "run_NDTiffStack_1.tif"
    summary = re.search(rb"\{.*?\}", file.read_bytes())
    assert summary is not None
    other = json.dumps({**json.loads(summary[0]), "z-step_um": 9.0}).encode()
    assert len(other) == len(summary[0])
    file.write_bytes(file.read_bytes().replace(summary[0], other, 1))
    said = "run_NDTiffStack_1.tif: its summary differs from that of the other files (z-step_um)"
    same(incomplete(path, said, "it belongs to another acquisition", kind=vfs.FormatError)[...], planes)
