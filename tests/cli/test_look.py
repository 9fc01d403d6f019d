"""`vfs look`: the figures are those of the frame, however large it is; what is written is what the
terminal can show.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
import zlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import vfs
from vfs.cli import app
from vfs.errors import OptionError
from vfs.pictures import frames
from vfs.pictures.frames import FrameView, look
from vfs.testing.inside import reader_of
from vfs.testing.tiff_writers import write_tiff
from vfs.testing.writers import write_mib, write_npy

RANDOM = np.random.default_rng(8)


def opened(folder: Path, values: np.ndarray, **options: Any) -> FrameView:
    return FrameView.of(reader_of(vfs.open(write_npy(folder, values), **options)))


def binned(values: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Means of what falls into one place of a picture, one by one."""
    places = [np.arange(n) * m // n for n, m in zip(values.shape, (rows, columns), strict=True)]
    with np.errstate(all="ignore"):
        return np.array(
            [
                [np.mean(part[np.isfinite(part)]) for part in row]
                for row in [
                    [values[np.ix_(places[0] == r, places[1] == c)] for c in range(columns)] for r in range(rows)
                ]
            ]
        )


@pytest.mark.parametrize("band", [1 << 20, 600])
def test_pictures_and_figures_are_those_of_the_frame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, band: int
) -> None:
    monkeypatch.setattr(frames, "BAND", band)  # of a few rows: frames that are larger than that
    values = RANDOM.integers(0, 60_000, (3, 45, 31)).astype("u2")
    values[1, 7, 4:7] = 65535
    seen = look(opened(tmp_path, values), (1,), 20, 20)
    assert seen.picture.shape == (20, 14)
    np.testing.assert_allclose(seen.picture, binned(values[1], 20, 14))
    assert (seen.low, seen.high, seen.count, seen.odd, seen.full, seen.saturated) == (
        values[1].min(),
        65535,
        45 * 31,
        0,
        65535,
        3,
    )
    assert seen.mean == pytest.approx(values[1].mean())
    assert sorted(seen.values) == sorted(values[1].ravel())
    assert (seen.share, seen.stored) == (1.0, True)
    broken = np.where(RANDOM.random((45, 31)) < 0.3, np.nan, RANDOM.normal(size=(45, 31)))
    broken[0, 0] = -np.inf
    broken[20:24] = np.nan
    seen = look(opened(tmp_path, broken), (), 50, 50)
    np.testing.assert_allclose(seen.picture, np.where(np.isfinite(broken), broken, np.nan))
    assert seen.odd == np.count_nonzero(~np.isfinite(broken))
    assert (seen.low, seen.high, seen.full) == (np.nanmin(broken[broken > -np.inf]), np.nanmax(broken), None)


def test_kinds_of_frames(tmp_path: Path) -> None:
    complex_ = (RANDOM.normal(size=(4, 5)) + 1j * RANDOM.normal(size=(4, 5))).astype("c8")
    np.testing.assert_allclose(look(opened(tmp_path, complex_), (), 9, 9).picture, np.abs(complex_), rtol=1e-6)
    mask = RANDOM.random((4, 5)) < 0.5
    np.testing.assert_array_equal(look(opened(tmp_path, mask), (), 9, 9).picture, mask)
    spectra = RANDOM.integers(0, 99, (3, 100)).astype("i4")
    lined = look(opened(tmp_path, spectra, sig_ndim=1), (2,), 9, 25)
    np.testing.assert_array_equal(lined.picture, spectra[2].reshape(25, 4).max(axis=1))  # a peak is not to get lost
    colours = RANDOM.integers(0, 255, (6, 4, 3)).astype("u1")
    for planar in (False, True):
        pages = [np.moveaxis(colours, 2, 0).copy()] if planar else [colours]
        seen = look(
            FrameView.of(reader_of(vfs.open(write_tiff(tmp_path / f"{planar}.tif", pages, planar=planar)))), (), 9, 9
        )
        np.testing.assert_array_equal(seen.picture, colours)
    photo = RANDOM.integers(0, 255, (40, 32, 3)).astype("u1")
    np.testing.assert_array_equal(look(opened(tmp_path, photo), (), 99, 99).picture, photo)
    assert opened(tmp_path, photo.astype("u2")).colour is None
    assert look(opened(tmp_path, np.array(5.5)), (), 9, 9).mean == 5.5


def test_saturated_pixels_are_those_of_the_counter(tmp_path: Path) -> None:
    frame = np.zeros((1, 8, 8), "u2")
    frame[0, 2, 2:5] = 4095
    path = write_mib(tmp_path, frame, kind="R64", depth=12)
    assert (
        look(FrameView.of(reader_of(vfs.open(path))), (0,), 9, 9).saturated,
        look(FrameView.of(reader_of(vfs.open(path, dtype="f4"))), (0,), 9, 9).full,
    ) == (3, None)


def test_of_a_frame_that_is_too_large_a_share_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.repeat(np.arange(400, dtype="u2"), 50).reshape(400, 50)
    monkeypatch.setattr(frames, "BAND", 1000)
    monkeypatch.setattr(frames, "MAX_FRAME_BYTES", 4000)
    seen = look(opened(tmp_path, values), (), 100, 100)
    assert seen.share == 0.1
    assert seen.count == 40 * 50
    np.testing.assert_array_equal(seen.picture[:, 0], np.arange(5, 400, 10))
    numbers = np.arange(25 * 13).reshape(25, 13)
    tiled = np.kron(numbers, np.ones((16, 16), int)).astype("u2")[:395, :200]  # each tile has a number
    monkeypatch.setattr(frames, "MAX_FRAME_BYTES", 25 * 512)  # of 25 tiles of 16 x 16 pixels
    for how in ({}, {"compression": 8, "encode": zlib.compress}):
        path = write_tiff(tmp_path / "tiled.tif", [tiled], tile=(16, 16), **how)
        seen = look(FrameView.of(reader_of(vfs.open(path))), (), 100, 100)
        assert (seen.picture.shape, seen.count) == ((6, 4), 6 * 4 * 256)
        assert np.isfinite(seen.picture).all()
        np.testing.assert_array_equal(seen.picture, numbers[2::4][:, [1, 4, 8, 11]])
    monkeypatch.setattr(frames, "MAX_FRAME_BYTES", 40)
    with pytest.raises(OptionError, match="a row of a frame has 100 B: too long to be looked at"):
        look(opened(tmp_path, values), (), 100, 100)


@pytest.mark.parametrize(
    ("shape", "options", "where", "shown"),
    [
        ((3, 4, 5, 6), {}, ("scan_y", "scan_x"), ("y", "x")),
        ((3, 4, 5), {"sig_ndim": 1}, ("scan_y", "scan_x"), ("x",)),
        ((4, 5), {}, (), ("y", "x")),
        ((5,), {}, (), ("x",)),
        ((), {}, (), ()),
        ((2, 3, 4), {"sig_ndim": 3}, ("sig_0",), ("sig_1", "sig_2")),
    ],
)
def test_which_axes_are_shown(
    tmp_path: Path, shape: tuple[int, ...], options: dict[str, Any], where: tuple[str, ...], shown: tuple[str, ...]
) -> None:
    view = opened(tmp_path, np.zeros(shape, "u1"), **options)
    assert (tuple(view.array.dims[k] for k in view.where), tuple(view.array.dims[k] for k in view.shown)) == (
        where,
        shown,
    )


def test_positions(tmp_path: Path) -> None:
    view = opened(tmp_path, np.zeros((3, 4, 5, 6), "u1"))
    assert view.middle == (1, 2)
    assert [view.position(text) for text in ("2,3", " 0 , 1", "-1,0", "5", "-1")] == [
        (2, 3),
        (0, 1),
        (2, 0),
        (1, 1),
        (2, 3),
    ]
    for text in ("3,0", "0,4", "12", "-13", "1,1,1", "a", "", "1.5", "1,", "9" * 30):
        with pytest.raises(OptionError, match=r"expected scan_y 0 to 2, scan_x 0 to 3, or one number from 0 to 11$"):
            view.position(text)
    with pytest.raises(OptionError, match="position '0': data is a single frame, leave the position out"):
        opened(tmp_path, np.zeros((5, 6))).position("0")


# the command


def shown(capsys: pytest.CaptureFixture[str], *arguments: object, warned: str = "") -> list[str]:
    assert app.main(["look", *map(str, arguments)]) == 0
    out, err = capsys.readouterr()
    assert warned in err if warned else not err
    return out.splitlines()


def test_what_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = np.zeros((12, 6, 8), "u2")
    values[5, 2, 3] = 999
    path = write_mib(tmp_path, values, scan=(3, 4))
    lines = shown(capsys, path, "1,1")
    assert lines[:2] == ["scan data[1, 1]  y: 6, x: 8  uint16", "scan_y 1 of 0 to 2, scan_x 1 of 0 to 3"]
    assert "minimum 0, maximum 999, mean 20.8125, saturated 0 (at 4,095)" in lines
    assert "".join(lines[2:26]).count("@") == 8 * 4  # a pixel as a square: a letter stands for two rows
    assert lines[-1].split() == ["0", "999"]
    assert shown(capsys, path, "5") == lines
    assert "minimum 0, maximum 0, mean 0, saturated 0 (at 4,095)" in shown(capsys, path)
    assert "not stored in the files: reads as 0" in shown(
        capsys, path, "12", "--nav-shape", "4,4", warned="4 are blank"
    )
    assert "exposure  scan_y: 3, scan_x: 4  float64" in shown(capsys, path, "--array", "exposure")[0]
    assert shown(capsys, write_npy(tmp_path, np.zeros((0, 4, 5))))[1:] == [
        "nothing to show: the array has shape (0, 4, 5)"
    ]
    assert shown(capsys, write_npy(tmp_path, np.full((2, 2), np.nan)))[-1] == "not finite 4 of 4"
    assert shown(capsys, write_npy(tmp_path, np.array(5)))[1:] == ["minimum 5, maximum 5, mean 5"]
    assert app.main(["look", str(path), "9,9"]) == 2
    assert (
        capsys.readouterr().err
        == "vfs: position '9,9': expected scan_y 0 to 2, scan_x 0 to 3, or one number from 0 to 11\n"
    )
    assert app.main(["look", str(path), "--chunks", "frames"]) == 2
    assert "--chunks" in capsys.readouterr().err
    assert app.main(["look", str(path), "--graphics", "oil"]) == 2
    assert app.main(["look", str(path), "--colours", "jet"]) == 2
    assert "expected auto, kitty, sixel, truecolor, 256, plain" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::vfs.errors.IncompleteWarning")
def test_another_array_is_not_shown_for_the_main_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "scan_master.h5"
    with h5py.File(path, "w") as file:
        file["flatfield"] = np.ones((4, 5))
        file["entry/data/data_000001"] = h5py.ExternalLink("scan_data_000001.h5", "/data")
    assert app.main(["look", str(path)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(
        f"vfs: {path}: entry/data/data_000001 links to scan_data_000001.h5, which is missing; --allow-incomplete"
    )
    assert said.err.count("\n") == 1
    for option in (["--allow-incomplete"], ["--array", "flatfield"]):
        assert app.main(["look", str(path), *option]) == 0
        assert "minimum 1, maximum 1" in capsys.readouterr().out


def test_nothing_but_text_goes_into_a_pipe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_npy(tmp_path, RANDOM.normal(size=(9, 9)))
    monkeypatch.setenv("TERM", "xterm-kitty")
    monkeypatch.setenv("COLORTERM", "truecolor")
    assert not any("\x1b" in line for line in shown(capsys, path))
    for way, mark in (("kitty", "\x1b_G"), ("sixel", "\x1bP"), ("truecolor", "\x1b[38;2;"), ("256", "\x1b[38;5;")):
        # Whoever asks for it gets it
        assert any(line.startswith(mark) for line in shown(capsys, path, "--graphics", way)), way


CHILD = """
import json, os, sys
os.close(os.open(os.ttyname(1), os.O_RDWR))  # the terminal of this session from now on
from vfs.cli import screen
screen._WAIT = float(sys.argv[2])
found = []
for environment in json.loads(sys.argv[3]):
    os.environ.update(environment)
    seen = screen.screen()
    found.append([seen.way, seen.columns, seen.rows, seen.cell])
with open(sys.argv[1], "w") as file:
    json.dump(found, file)
"""
KITTY, ATTRIBUTES = b"\x1b_Gi=31;OK\x1b\\", b"\x1b[?62;22c"
CASES: list[tuple[dict[str, str], bytes, str]] = [
    ({"TERM": "xterm-256color", "COLORTERM": "", "NO_COLOR": "", "TMUX": ""}, KITTY + ATTRIBUTES, "kitty"),
    ({}, b"\x1b_Gi=31;ENOENT\x1b\\" + ATTRIBUTES, "256"),
    ({}, b"\x1b[?62;4;22c", "sixel"),
    ({"COLORTERM": "truecolor"}, b"\x1b[?64;44c", "truecolor"),  # 44 is not 4
    ({"COLORTERM": "", "TERM": "xterm"}, ATTRIBUTES, "plain"),
    ({"TERM": "tmux-256color"}, b"\x1b[?1;2;4c", "sixel"),
]


def talk(tmp_path: Path, cases: list[tuple[dict[str, str], bytes, str]], wait: float) -> tuple[list[Any], list[bytes]]:
    """What is found out of a terminal that answers so, and what it was asked."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 100, 900, 500))
    child = subprocess.Popen(
        [
            sys.executable,
            "-c",
            CHILD,
            str(tmp_path / "found"),
            str(wait),
            json.dumps([environment for environment, _, _ in cases]),
        ],
        env={name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")},
        stdin=theirs,
        stdout=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    asked = []
    try:
        for _, answer, _ in cases:
            question = b""
            while not question.endswith(b"\x1b[c"):
                question += os.read(ours, 100)
            asked.append(question)
            os.write(ours, answer)
        assert child.wait(100) == 0
    finally:
        child.kill()
        child.wait()
        os.close(ours)
    return json.loads((tmp_path / "found").read_text()), asked


def test_terminals_are_asked_what_they_can_show(tmp_path: Path) -> None:
    found, asked = talk(tmp_path, CASES, 60)
    assert found == [[way, 100, 50, [9, 10]] for _, _, way in CASES]
    # Tmux would take the first for a title
    assert asked == [b"\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\\x1b[c"] * 5 + [b"\x1b[c"]


def test_a_terminal_that_does_not_answer_is_not_waited_for(tmp_path: Path) -> None:
    found, _ = talk(tmp_path, [({**CASES[0][0], "COLORTERM": "24bit"}, b"", "truecolor")], 0.05)
    assert found[0][0] == "truecolor"
