"""Patterns without their background."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

import vfs
from vfs.testing.hdf5_writers import write_patterns

FRAMES = np.random.default_rng(4).integers(1, 250, (12, 20, 24)).astype("u1")
MAP = {"n_rows": 3, "n_columns": 4}


def blurred(frames: np.ndarray, std: float = 3) -> np.ndarray:
    """Each frame blurred, as kikuchipy does it."""
    return np.stack([gaussian_filter(one, std) for one in frames.astype(float)])


def without(frames: np.ndarray, background: np.ndarray, way: str) -> np.ndarray:
    return frames - background if way == "subtract" else frames / background


@pytest.mark.parametrize("way", ["subtract", "divide"])
@pytest.mark.parametrize("own", [True, False])
def test_backgrounds_are_taken_away(tmp_path: Path, way: str, own: bool) -> None:
    path = write_patterns(tmp_path / "a.h5", FRAMES, MAP)
    image = np.random.default_rng(1).integers(1, 90, FRAMES.shape[1:]).astype("u1")
    if own:
        with h5py.File(path, "a") as file:
            file["1/EBSD/Header/static_background"] = image
    background = image if own else FRAMES.mean(axis=0)
    texts = {"static": f"static={way}", "dynamic": f"dynamic={way}", "both": f"static={way}, dynamic={way}, dtype=f8"}
    group = vfs.open_group(path, derive={name: f"withoutbackground({text})" for name, text in texts.items()})
    static = without(FRAMES.astype(float), background, way)
    expected = {
        "static": static,
        "dynamic": without(FRAMES.astype(float), blurred(FRAMES), way),
        "both": without(static, blurred(static), way),
    }
    assert group["derived/both"].dtype == np.float64
    assert group["derived/static"].dims == ("scan_y", "scan_x", "y", "x")
    for name, numbers in expected.items():
        found = group[f"derived/{name}"][...].reshape(FRAMES.shape)
        np.testing.assert_allclose(found, numbers, rtol=1e-5, atol=1e-4)
    part = group.main.reduce(p=vfs.WithoutBackground(way), roi=[3, 7])["p"].selected
    np.testing.assert_array_equal(part, group["derived/static"][...].reshape(FRAMES.shape)[[3, 7]])


def test_the_set_s_background_turns_with_the_axes(tmp_path: Path) -> None:
    path = write_patterns(tmp_path / "a.h5", FRAMES, MAP)
    image = np.arange(480.0).reshape(20, 24)
    with h5py.File(path, "a") as file:
        file["1/EBSD/Header/Processed Static Background"] = image
    turned = vfs.open(path, axes="scan_y,scan_x|-x,y")
    expected = turned[...] - image.T[::-1]
    np.testing.assert_array_equal(turned.reduce(p=vfs.WithoutBackground("subtract"))["p"].data, expected)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "expected static=subtract or divide, or dynamic, or both"),
        ({"static": "remove"}, "static='remove': expected subtract or divide"),
        ({"dynamic": "divide", "std": 0}, "std=0: expected a number of pixels above 0"),
        ({"static": "divide", "background": np.ones((3, 4))}, r"background is float64\[3, 4\], expected real numbers"),
    ],
)
def test_what_does_not_fit_is_a_line(array: vfs.VirtualArray, given: dict[str, Any], said: str) -> None:
    with pytest.raises(vfs.OptionError, match=said):
        array.reduce(p=vfs.WithoutBackground(**given))
