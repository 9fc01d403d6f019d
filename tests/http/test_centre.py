"""The search of the bright-field disk: in disks, in noise, and in frames that have nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import vfs
from vfs.engine.cache import ChunkCache
from vfs.page.centre import centre
from vfs.reduce.bright_field import find_disk

NOISE: dict[str, Callable[[np.random.Generator, tuple[int, int]], np.ndarray]] = {
    "normal": lambda rng, size: rng.normal(size=size),
    "uniform": lambda rng, size: rng.random(size),
    "negative": lambda rng, size: -rng.exponential(size=size),
    "few counts": lambda rng, size: rng.poisson(0.01, size).astype(float),
    "counts": lambda rng, size: rng.poisson(3, size).astype(float),
    "hot pixels": lambda rng, size: rng.poisson(5, size) + 1e3 * (rng.random(size) < 0.002),
    "wild": lambda rng, size: rng.standard_cauchy(size).clip(-1e300, 1e300),
    "an offset a row": lambda rng, size: rng.normal(size=size) + rng.normal(size=(size[0], 1)),
    "an offset a row and a column": lambda rng, size: (
        rng.normal(size=size) + 2 * rng.normal(size=(size[0], 1)) + 2 * rng.normal(size=(1, size[1]))
    ),
    "a gain a row": lambda rng, size: rng.poisson(5 * rng.uniform(0.5, 1.5, (size[0], 1)), size).astype(float),
    "a walk along the rows": lambda rng, size: rng.normal(size=size) + np.cumsum(rng.normal(size=(size[0], 1)), 0),
    "a gentle slope": lambda rng, size: rng.normal(size=size) + np.add.outer(*(np.linspace(0, 3, n) for n in size)),
}


def smooth(rng: np.random.Generator, size: tuple[int, int], part: float) -> np.ndarray:
    """Return noise whose neighbours know of each other: means over about so large a part of the frame."""
    y, x = (np.fft.fftfreq(n) * n for n in size)
    waves = np.fft.fft2(rng.normal(size=size)) * np.exp(-np.add.outer(y * y, x * x) * (3 * part) ** 2)
    made = np.fft.ifft2(waves).real
    return made / made.std()


NOISE |= {
    "smooth": lambda rng, size: smooth(rng, size, 0.02),
    "smoother": lambda rng, size: smooth(rng, size, 0.05),
    "broad": lambda rng, size: smooth(rng, size, 0.1),
    "smooth and pixels": lambda rng, size: smooth(rng, size, 0.03) + rng.normal(size=size),
}


@pytest.mark.parametrize("kind", NOISE)
@pytest.mark.parametrize("size", [(8, 8), (12, 20), (64, 64), (256, 256), (1, 64)])
def test_noise_has_no_disk(kind: str, size: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    found = [find_disk(NOISE[kind](rng, size), 1) for _ in range(5 if size[0] < 99 else 2)]
    assert not any(one.found for one in found)
    assert found[0][:2] == ((size[0] - 1) / 2, (size[1] - 1) / 2)


def counted_more(part: str, size: int = 64) -> np.ndarray:
    """Counts of a detector of which a part counts more, float64[size, size]; there is no disk."""
    y, x = np.mgrid[:size, :size]
    more = {
        "rows": 20 * ((y > 20) & (y < 28)),
        "columns at an edge": 20 * (x < 6),
        "a corner": 20 * ((y < size // 2) & (x < size // 2)),
        "a slope": 40 * (y + x) / size,
        "half": 20 * (y < size // 2),
        "three quarters": 20 * ((y < size // 2) | (x < size // 2)),
        "chips": np.array([[3, 30], [12, 18]])[y * 2 // size, x * 2 // size],
        "a chip": 20 * ((y // 16 == 1) & (x // 16 == 2)),
    }
    return np.random.default_rng(2).poisson(5 + more[part]).astype(float)


@pytest.mark.parametrize(
    "part", ["rows", "columns at an edge", "a corner", "a slope", "half", "three quarters", "chips", "a chip"]
)
@pytest.mark.parametrize("turns", range(4))
def test_parts_that_count_more_are_no_disks(part: str, turns: int) -> None:
    assert not find_disk(np.rot90(counted_more(part), turns), 1).found


@pytest.mark.parametrize(("cy", "cx"), [(0, 0), (-2, 30), (9, 4), (63, 63), (31, 60), (2, 62)])
@pytest.mark.parametrize(("height", "width", "r"), [(64, 64, 16), (64, 64, 8), (128, 40, 50)])
def test_disks_at_edges_are_found(cy: int, cx: int, height: int, width: int, r: int) -> None:
    y, x = np.mgrid[:height, :width]
    inside = np.hypot(y - cy * height / 64, x - cx * width / 64) < r
    assert find_disk(np.random.default_rng(3).poisson(np.where(inside, 60, 5)).astype(float), 1).found


@pytest.mark.parametrize(
    ("r", "counts", "ground"), [(2, 1000, 10), (6, 5, 0.2), (15, 0.3, 0.01), (40, 0.05, 0.001), (50, 1.2, 1)]
)
@pytest.mark.parametrize("offset", [0.0, -1e4])
def test_disks_are_found_in_noise(r: float, counts: float, ground: float, offset: float) -> None:
    y, x = np.mgrid[:128, :128]
    shape = ground + (counts - ground) / (1 + np.exp((np.hypot(y - 60.3, x - 66.8) - r).clip(-50, 50) * 4))
    cy, cx, radius, found = find_disk(np.random.default_rng(0).poisson(5 * shape) + offset, 2)
    assert found
    assert (cy, cx) == pytest.approx((121.1, 134.1), abs=max(1.5, r / 4))
    assert radius == pytest.approx(2 * r, rel=0.3, abs=1)


@given(
    pattern=hnp.arrays(
        np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=20), elements=st.floats(-1e301, 1e301)
    ),
    side=st.integers(1, 99),
)
def test_any_pattern_has_an_answer_inside(pattern: np.ndarray, side: int) -> None:
    cy, cx, r, _ = find_disk(pattern, side)
    assert -0.5 <= cy <= pattern.shape[0] * side - 0.5
    assert -0.5 <= cx <= pattern.shape[1] * side - 0.5
    assert r >= 1


def searched(folder: Path, frames: np.ndarray) -> Any:
    np.save(folder / "a.npy", frames)
    (array,) = vfs.open_group(folder / "a.npy").values()
    return centre(array._reader, (), ChunkCache())


NEGATIVE = np.full((2, 3, 32, 32), -1.0)
NEGATIVE[..., 3:5, 3:5] = NEGATIVE[..., 20:22, 20:22] = -0.4


@pytest.mark.parametrize(
    "frames",
    [
        NEGATIVE,
        np.zeros((2, 3, 16, 16), "u2"),
        np.full((2, 3, 16, 16), np.nan),
        np.full((2, 3, 16, 16), -np.inf),
        np.full((2, 3, 16, 16), 1e308),
        np.full((2, 3, 16, 16), -7, "i8"),
        np.ones((2, 3, 1, 1)),
        np.ones((2, 3, 1, 9), "f2"),
        np.arange(54.0).reshape(2, 3, 9, 1) % 2,
        np.zeros((1, 1, 4, 4), bool),
    ],
)
def test_frames_without_a_disk(tmp_path: Path, frames: np.ndarray) -> None:
    found = searched(tmp_path, frames)
    assert not found.found
    assert found[:2] == ((frames.shape[2] - 1) / 2, (frames.shape[3] - 1) / 2)


def test_frames_that_are_no_number_do_not_hide_the_others(tmp_path: Path) -> None:
    frames = np.zeros((3, 3, 32, 32))
    y, x = np.mgrid[:32, :32]
    frames[:, :, np.hypot(y - 14, x - 17) < 6] = 50
    frames[0], frames[2, :, 5] = np.nan, np.inf
    found = searched(tmp_path, frames)
    assert found.found
    assert found[:3] == pytest.approx((14, 17, 6), abs=0.7)


@pytest.mark.parametrize("frames", [np.ones((3, 4, 5)), np.ones((2, 3, 4, 5), "c8"), np.ones((2, 3, 0, 5))])
def test_what_has_no_patterns_is_refused(tmp_path: Path, frames: np.ndarray) -> None:
    if frames.ndim == 3:
        frames = frames[0]
    with pytest.raises(vfs.errors.OptionError, match="expected a scan of frames"):
        searched(tmp_path, frames)
