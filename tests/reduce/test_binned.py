"""Frames binned for quick looks, compared with numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vfs
from vfs.reduce.binned import Binned


@pytest.mark.parametrize("dtype", ["bool", "u1", "i1", "<u2", ">i2", "u4", ">i8", "f2", ">f4", "f8"])
@pytest.mark.parametrize("most", [1, 2, 3, 7, 256])
def test_squares_are_added_up(tmp_path: Path, dtype: str, most: int) -> None:
    frames = np.random.default_rng(2).integers(-99, 99, (5, 11, 7)).astype(dtype)
    np.save(tmp_path / "x.npy", frames)
    made = vfs.open(tmp_path / "x.npy").reduce(b=Binned(most))["b"].data
    factor = max(1, -(-11 // most))
    rows, columns = (range(0, n, factor) for n in (11, 7))
    expected = np.array(
        [[[frame[r : r + factor, c : c + factor].sum(dtype="f8") for c in columns] for r in rows] for frame in frames]
    )
    np.testing.assert_array_equal(made, expected)
    lines = vfs.open(tmp_path / "x.npy", sig_ndim=1).reduce(b=Binned(most))["b"].data
    step = max(1, -(-7 // most))
    expected = np.stack([frames[..., c : c + step].sum(-1, dtype="f8") for c in range(0, 7, step)], -1)[..., None, :]
    np.testing.assert_array_equal(lines, expected)


def test_the_largest_pixels_fit(tmp_path: Path) -> None:
    for dtype, value in (("u2", 65535), ("i2", -32768), ("u1", 255)):
        np.save(tmp_path / "x.npy", np.full((1, 40_000, 3), value, dtype))
        assert vfs.open(tmp_path / "x.npy").reduce(b=Binned(1))["b"].data.tolist() == [[[120_000.0 * value]]]


@pytest.mark.parametrize(
    ("frame", "most", "says"), [((2, 3, 4), 3, "two axes"), ((4, 4), 0, "1 to 256"), ((4, 4), 257, "1 to 256")]
)
def test_what_cannot_be_binned(tmp_path: Path, frame: tuple[int, ...], most: int, says: str) -> None:
    np.save(tmp_path / "x.npy", np.zeros((3, *frame), "u1"))
    with pytest.raises(vfs.OptionError, match=says):
        vfs.open(tmp_path / "x.npy", sig_ndim=len(frame)).reduce(b=Binned(most))
