"""Slow twins of all reductions: Python's integers and one line of numpy each. And what several tests use."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import vfs
from vfs.testing.writers import write_raw

CY, CX, R = 2.25, 3.5, 2.5
WEIGHTS = np.random.default_rng(1).normal(size=(5, 6, 7)) * (
    np.random.default_rng(2).random((5, 6, 7)) < [[[0.03]], [[1]], [[1]], [[0.5]], [[1]]]
)
WHOLE = np.random.default_rng(3).integers(-9, 10, (2, 6, 7))


def exactly(frames: np.ndarray) -> np.ndarray:
    """Frames as Python's integers; floats and the like as float64."""
    return frames.astype(object) if frames.dtype.kind in "iub" else frames.astype(float)


def far(shape: tuple[int, ...], cy: float = CY, cx: float = CX) -> np.ndarray:
    """Distance of every pixel, one by one."""
    return np.array([[math.dist((y, x), (cy, cx)) for x in range(shape[1])] for y in range(shape[0])])


def under(mask: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Sums of the pixels under a mask."""
    return lambda frames: exactly(frames)[:, mask].sum(axis=1)


def centre(frames: np.ndarray, cy: float = 0, cx: float = 0, mask: Any = True) -> np.ndarray:
    """Centres of mass."""
    kept = np.where(mask, frames.astype(float), 0)
    y, x = np.mgrid[: frames.shape[1], : frames.shape[2]]
    total = kept.sum(axis=(1, 2))
    with np.errstate(all="ignore"):
        return (
            np.stack([(kept * (y - cy)).sum(axis=(1, 2)), (kept * (x - cx)).sum(axis=(1, 2))], axis=1)
            / np.where(total == 0, np.nan, total)[:, None]
        )


def weighed(weights: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Frames times masks; pixels of weight 0 do not count."""

    def sums(frames: np.ndarray) -> np.ndarray:
        return np.stack(
            [
                (exactly(frames)[:, one != 0] * one[one != 0].astype(object if one.dtype.kind == "i" else float)).sum(
                    axis=1
                )
                for one in weights
            ],
            1,
        )

    return sums


SHAPE = (6, 7)
RINGS = far(SHAPE).astype(int)
TWINS: dict[str, tuple[vfs.Reduction, Callable[[np.ndarray], np.ndarray]]] = {
    "sum": (vfs.Sum(), lambda f: exactly(f).sum(axis=0)),
    "mean": (vfs.Mean(), lambda f: f.astype(float).mean(axis=0)),
    "variance": (vfs.Variance(), lambda f: f.astype(float).var(axis=0)),
    "std": (vfs.Std(), lambda f: f.astype(float).std(axis=0)),
    "max": (vfs.Max(), lambda f: f.max(axis=0)),
    "min": (vfs.Min(), lambda f: f.min(axis=0)),
    "frame_sum": (vfs.FrameSum(), under(np.ones(SHAPE, bool))),
    "disk": (vfs.Disk(CY, CX, R), under(far(SHAPE) < R)),
    "ring": (vfs.Ring(CY, CX, 1, 3.25), under((far(SHAPE) >= 1) & (far(SHAPE) < 3.25))),
    "rectangle": (vfs.Rectangle(1, 2, 4, 5), lambda f: exactly(f)[:, 1:4, 2:5].sum(axis=(1, 2))),
    "point": (vfs.Point(5, 0), lambda f: exactly(f)[:, 5, 0]),
    "yes_and_no": (
        vfs.Masks(WEIGHTS > 0),
        lambda f: np.stack([exactly(f)[:, one > 0].sum(axis=1) for one in WEIGHTS], 1),
    ),
    "weights": (vfs.Masks(WEIGHTS), weighed(WEIGHTS)),
    "weight": (vfs.Masks(WEIGHTS[1]), lambda f: weighed(WEIGHTS[1:2])(f)[:, 0]),
    "whole": (vfs.Masks(WHOLE, dtype="f8"), lambda f: weighed(WHOLE)(f).astype(float)),
    "centre": (vfs.CenterOfMass(), centre),
    "centre_near": (vfs.CenterOfMass(CY, CX, R), lambda f: centre(f, CY, CX, far(SHAPE) < R)),
    "radial": (
        vfs.RadialSum(CY, CX),
        lambda f: np.stack([exactly(f)[:, k == RINGS].sum(axis=1) for k in range(RINGS.max() + 1)], 1),
    ),
    "radial_few": (
        vfs.RadialSum(CY, CX, bins=2),
        lambda f: np.stack([exactly(f)[:, k == RINGS].sum(axis=1) for k in range(2)], 1),
    ),
    "histogram": (vfs.Histogram(9, (-3, 100)), lambda f: np.histogram(f * np.uint8(1), 9, (-3, 100))[0]),
}
EXACT = (
    "sum",
    "max",
    "min",
    "frame_sum",
    "disk",
    "ring",
    "rectangle",
    "point",
    "yes_and_no",
    "radial",
    "radial_few",
    "histogram",
)
"""Of integers."""


def check(name: str, got: np.ndarray, frames: np.ndarray, rtol: float = 1e-9) -> None:
    """Compare with the twin: exactly where it is integers, else as closely as float64 can be added up in any order."""
    wanted = TWINS[name][1](frames)
    assert got.shape == wanted.shape
    if frames.dtype.kind in "iub" and name in EXACT:
        assert (got.astype(object) == wanted.astype(object)).all(), name
        return
    scale = float(np.abs(np.nan_to_num(frames.astype(float), nan=0, posinf=0, neginf=0)).max(initial=0)) or 1.0
    slack = {"variance": scale**2, "std": scale * 1e4, "centre": 1e5, "centre_near": 1e5}.get(name, scale * 100)
    np.testing.assert_allclose(got.astype(float), wanted.astype(float), rtol=rtol, atol=slack * 1e-12, err_msg=name)


def opened(folder: Path, frames: np.ndarray, **options: Any) -> vfs.VirtualArray:
    paths = write_raw(folder, frames, frame_header=10, files=3)
    return vfs.open(paths, format="raw", dtype="u2", sig_shape=(40, 50), frame_header=10, nav_shape=(15, 20), **options)


class FrameMean(vfs.Reduction):
    """Asks for tiles, so that nothing is taken where it lies."""

    def buffers(self, frames: Any) -> Mapping[str, Any]:
        return {"x": ("nav", "f8", ())}

    def process(self, tile: np.ndarray, region: vfs.Region, buffers: Mapping[str, np.ndarray]) -> None:
        assert tile.shape == region.shape
        assert buffers["x"].shape == (len(tile),)
        buffers["x"][:] = tile.mean(axis=(1, 2))
