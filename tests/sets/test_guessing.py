"""Guessed scan shapes of files: `vfs.guess_nav_shape` finds what stands beside the frames of each format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import vfs
from tests.model.scan_times import times
from vfs.testing.frame_writers import write_frms6, write_seq, write_tvips
from vfs.testing.writers import write_mib, write_npy

FRAMES = np.zeros((12 * 15, 4, 64), np.uint16)
BEGAN = 1_600_000_000_000_000_000


def write_h5(folder: Path, stamps: np.ndarray, name: str) -> Path:
    with h5py.File(folder / "scan.h5", "w") as file:
        file["entry/data/data"] = FRAMES
        file[f"entry/instrument/{name}"] = stamps
    return folder / "scan.h5"


WRITERS: dict[str, Callable[[Path, np.ndarray], tuple[Path, dict[str, Any]]]] = {
    "mib": lambda folder, ns: (write_mib(folder, FRAMES, times_ns=ns - BEGAN, frames_per_file=50), {}),
    "mib without hdr": lambda folder, ns: (
        write_mib(folder, FRAMES, times_ns=ns - BEGAN, hdr=False, extended=False),
        {},
    ),
    "seq": lambda folder, ns: (write_seq(folder, FRAMES, times=ns // 1000), {}),
    "seq in ms": lambda folder, ns: (write_seq(folder, FRAMES, times=ns // 1000, version=4), {}),
    "tvips": lambda folder, ns: (write_tvips(folder, FRAMES, times=ns // 10**6, frames_per_file=70), {"scan": "none"}),
    "hdf5": lambda folder, ns: (write_h5(folder, ns / 1e9, "timestamp"), {}),
    "hdf5, start times": lambda folder, ns: (write_h5(folder, ns.astype("u8"), "detector/start_time"), {}),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_time_stamps_of_every_format_show_lines(tmp_path: Path, kind: str) -> None:
    path, options = WRITERS[kind](tmp_path, times(12, 15, jitter=0.05))
    array = vfs.open(path, **options)
    best = vfs.guess_nav_shape(array)[0]
    assert (best.nav_shape, best.line_skip, best.sync_offset, best.sure) == ((12, 15), 0, 0, True)
    assert best.source == "time stamps"
    assert array.shape == FRAMES.shape  # it is only said
    again = vfs.open(path, nav_shape=(15, 12), **options)
    assert vfs.guess_nav_shape(again)[0] == best


def test_exposures_and_options_that_put_lines_right(tmp_path: Path) -> None:
    frames = np.arange(3 + 12 * 16).astype("u2")[:, None, None] + np.zeros((4, 64), "u2")
    exposure = np.full(len(frames), 500_000)
    exposure[2::16] = 9_000_000
    path = write_mib(tmp_path, frames, exposure_ns=exposure.tolist())
    best, *_ = vfs.guess_nav_shape(vfs.open(path))
    assert (best.source, best.sure) == ("exposures", True)
    scan = vfs.open(path, nav_shape=best.nav_shape, line_skip=best.line_skip, sync_offset=best.sync_offset)
    assert np.array_equal(scan[..., 0, 0], 3 + np.arange(12)[:, None] * 16 + np.arange(15))


def test_a_file_for_each_line_is_not_sure_and_unreadable_stamps_are_none(tmp_path: Path) -> None:
    path = write_mib(tmp_path, FRAMES, times_ns=times(12, 15) - BEGAN, frames_per_file=15)
    array = vfs.open(path)
    assert [one.sure for one in vfs.guess_nav_shape(array)] == [False] * 6
    assert "files begin there" in vfs.guess_nav_shape(array)[0].reason
    (tmp_path / "scan003.mib").write_bytes(b"")
    assert {one.source for one in vfs.guess_nav_shape(array)} == {"number of frames"}


def test_frames_show_lines_where_nothing_else_does(tmp_path: Path) -> None:
    y, x = np.mgrid[:30, :41].reshape(2, -1, 1, 1)
    v, u = np.mgrid[:70, :50]
    frames = 40 + 20 * np.sin(x / 4 + u / 9) + 9 * np.cos(y / 5 + v / 7) + 9 * (x > 12)
    frames = np.random.default_rng(1).poisson(frames).astype(np.uint16)
    array = vfs.open(write_npy(tmp_path, frames))
    best = vfs.guess_nav_shape(array)[0]
    assert (best.nav_shape, best.source, best.sure) == ((30, 41), "likeness of frames", False)
    as_complex = vfs.open(write_npy(tmp_path, frames[:, ::8, ::8] * 1j, name="complex.npy"))
    assert vfs.guess_nav_shape(as_complex)[0].nav_shape == (30, 41)


def test_regular_time_stamps_show_nothing(tmp_path: Path) -> None:
    for path in (write_mib(tmp_path, FRAMES), write_seq(tmp_path, FRAMES), write_frms6(tmp_path, FRAMES)):
        assert not any(one.source == "time stamps" for one in vfs.guess_nav_shape(vfs.open(path)))


def test_what_has_no_frames_has_no_scan(tmp_path: Path) -> None:
    with pytest.raises(vfs.OptionError, match=r"^data: has no axis of frames"):
        vfs.guess_nav_shape(vfs.open(write_npy(tmp_path, np.zeros((4, 5)))))
    with pytest.raises(vfs.OptionError, match="open it without roi"):
        vfs.guess_nav_shape(vfs.open(write_npy(tmp_path, np.zeros((9, 4, 5))), roi=[1, 2]))
    assert vfs.guess_nav_shape(vfs.open(write_npy(tmp_path, np.zeros((0, 4, 5))))) == []
    assert vfs.guess_nav_shape(vfs.open(write_npy(tmp_path, np.zeros((1, 4, 5))))) == []
