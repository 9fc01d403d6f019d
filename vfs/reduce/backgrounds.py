"""Patterns of electron backscatter diffraction without their background, as kikuchipy takes it away.

The static background is the same in all patterns: an image that the set has of it, else the mean of all patterns. The
dynamic one is the pattern itself, blurred by a Gaussian.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np

from vfs.errors import OptionError
from vfs.model.region import Region
from vfs.model.wording import shown
from vfs.reduce import masks
from vfs.reduce.reduction import Buffers, FrameType, Reduction, Spec, float_of, real_pixels

WAYS = ("subtract", "divide")
"""What can be done with a background."""
REACH = 4.0
"""Standard deviations after which a Gaussian ends."""


@dataclass(frozen=True, eq=False)
class WithoutBackground(Reduction):
    """Every frame without its background: [*scan, *frame], floats. First the static one goes, then the dynamic one.

    Numbers are those of the operation, and are not scaled to another range. Where a pixel is divided by 0 it is NaN.

    Args:
        static: "subtract" or "divide" by `background`; None: neither.
        dynamic: "subtract" or "divide" by the frame, blurred by a Gaussian; None: neither.
        std: standard deviation of the Gaussian, pixels; None: an eighth of the frame's columns.
        background: the static background, real numbers [*frame]; None: the set's own, else the mean of all frames.
        dtype: a float; None: float32.
    """

    static: str | None = None
    dynamic: str | None = None
    std: float | None = None
    background: Any = None
    dtype: Any = None

    def bound(self, frames: FrameType) -> Reduction:
        masks.frame_of_two("WithoutBackground", frames.shape)
        real_pixels("WithoutBackground", frames)
        for name in ("static", "dynamic"):
            way = getattr(self, name)
            if way is not None and way not in WAYS:
                raise OptionError(f"WithoutBackground: {name}={shown(way)}: expected {' or '.join(WAYS)}")
        if self.static is None and self.dynamic is None:
            raise OptionError("WithoutBackground: expected static=subtract or divide, or dynamic, or both")
        std = frames.shape[1] / 8 if self.std is None else masks.number("WithoutBackground", self.std, "std")
        if not std > 0:
            raise OptionError(f"WithoutBackground: std={self.std!r}: expected a number of pixels above 0")
        given = None if self.background is None else _image(self.background, frames.shape)
        return _Cleaned(self, frames, given, std)


def _image(given: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return the image of the background, float64[*frame].

    Raises:
        OptionError: it does not fit the frames.
    """
    image = np.asarray(given)
    if image.dtype.kind not in "biuf" or image.shape != shape:
        raise OptionError(
            f"WithoutBackground: background is {image.dtype}{list(image.shape)}, expected real numbers of shape"
            f" {list(shape)}"
        )
    return image.astype(np.float64)


class _Cleaned(Reduction):
    """Takes backgrounds away, prepared for frames of one kind."""

    units = None

    def __init__(self, wanted: WithoutBackground, frames: FrameType, image: np.ndarray | None, std: float) -> None:
        self.wanted, self.frames, self._image = wanted, frames, image
        self.dims = frames.dims
        self.dtype = np.dtype(np.float32) if wanted.dtype is None else float_of(wanted.dtype)
        self.std, self._lock = std, Lock()

    def bound(self, frames: FrameType) -> Reduction:
        return _Cleaned(self.wanted, frames, self._image, self.std)

    def buffers(self, frames: FrameType) -> Mapping[str, Spec]:
        return {"frame": ("nav", self.dtype, frames.shape)}

    def process(self, tile: np.ndarray, region: Region, buffers: Buffers) -> None:
        made = tile.astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.wanted.static is not None:
                made = _without(made, self._static(), self.wanted.static)
            if self.wanted.dynamic is not None:
                rows, columns = self._blur
                made = _without(made, rows @ made @ columns.T, self.wanted.dynamic)
            buffers["frame"][...] = made

    def _static(self) -> np.ndarray:
        """Return the static background, which may take a pass over all frames: once, for the first thread."""
        with self._lock:
            if self._image is None:
                self._image = self.frames.background().astype(np.float64)
            return self._image

    @cached_property
    def _blur(self) -> tuple[np.ndarray, np.ndarray]:
        rows, columns = (blurring(n, self.std) for n in self.frames.shape)
        return rows, columns

    def calibration(self) -> dict[str, dict[str, Any]]:
        return {dim: dict(known) for dim, known in self.frames.calibration.items()}


def _without(frames: np.ndarray, background: np.ndarray, way: str) -> np.ndarray:
    made: np.ndarray
    made = frames - background if way == "subtract" else np.where(background == 0, np.nan, frames / background)
    return made


def blurring(length: int, std: float) -> np.ndarray:
    """Return the matrix that blurs an axis by a Gaussian, float64[length, length].

    It ends after `REACH` standard deviations; beyond the edge it sees the mirrored pixels, with the edge between two.
    """
    reach = min(int(REACH * std + 0.5), 64 * length)
    off = np.arange(-reach, reach + 1)
    weights = np.exp(-0.5 * (off / std) ** 2)
    at = (np.arange(length)[:, None] + off) % (2 * length)
    made = np.zeros((length, length))
    np.add.at(
        made, (np.arange(length)[:, None], np.where(at < length, at, 2 * length - 1 - at)), weights / weights.sum()
    )
    return made
