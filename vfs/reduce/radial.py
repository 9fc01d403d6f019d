"""Radial means of every frame: over rings, or over ellipses of one shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vfs.errors import OptionError
from vfs.reduce import masks
from vfs.reduce.in_frames import MAX_RINGS, LabelledSums, is_count
from vfs.reduce.reduction import Buffers, FrameType, Reduction, float_of, real_pixels


@dataclass(frozen=True)
class RadialMean(Reduction):
    """Means of every frame over rings one pixel wide around (cy, cx): [*scan, bins], floats.

    They are NaN where a ring has no pixel. Ring k has the pixels at least k and less than k + 1 from the centre, as of
    `RadialSum`. Where both axes of the frame have one step and unit, the rings are calibrated in it.

    Args:
        cy, cx: the centre, in pixels; pixel (y, x) has its centre at (y, x). None: that of the bright-field disk.
        bins: number of rings; None: as many as the frame has pixels in.
        ratio: of the longer to the shorter axis of the ellipses that patterns are distorted to; radii are along the
            shorter one. 1: they are circles.
        angle: degrees from x to the longer axis, towards larger y.
        dtype: a float; None: float64.
        masked: see `Disk`.
    """

    cy: float | None = None
    cx: float | None = None
    bins: int | None = None
    ratio: float = 1.0
    angle: float = 0.0
    dtype: Any = None
    masked: bool = False

    def bound(self, frames: FrameType) -> Reduction:
        masks.frame_of_two("RadialMean", frames.shape)
        real_pixels("RadialMean", frames)
        if self.cy is None or self.cx is None:
            raise OptionError("RadialMean: expected both cy and cx, or neither")
        cy, cx, ratio, angle = (
            masks.number("RadialMean", getattr(self, name), name) for name in ("cy", "cx", "ratio", "angle")
        )
        if not ratio >= 1:
            raise OptionError(f"RadialMean: ratio={self.ratio!r}: expected 1 or more, longer axis to shorter one")
        if self.bins is not None and not is_count(self.bins, MAX_RINGS):
            raise OptionError(f"RadialMean: bins={self.bins!r}: expected 1 to {MAX_RINGS:,} rings")
        y, x = np.ogrid[: frames.shape[0], : frames.shape[1]]
        cos, sin = np.cos(np.deg2rad(angle)), np.sin(np.deg2rad(angle))
        along, across = (x - cx) * cos + (y - cy) * sin, (y - cy) * cos - (x - cx) * sin
        far = np.floor(np.sqrt((along / ratio) ** 2 + across**2))
        bins = int(min(far.max() + 1, MAX_RINGS)) if self.bins is None else int(self.bins)
        seen = masks.measured(str(self), masks.inside(str(self), frames.shape, far < bins), frames, self.masked)
        return _Means(frames, np.where(seen, far, bins).astype(np.int32), bins, self.dtype)


class _Means(LabelledSums):
    """Means over rings, prepared for frames of one kind."""

    def __init__(self, frames: FrameType, rings: np.ndarray, bins: int, dtype: Any) -> None:
        super().__init__("RadialMean", frames, rings, bins, None)
        self.made = np.dtype(np.float64) if dtype is None else float_of(dtype)
        self.count = np.bincount(rings.reshape(-1), minlength=bins)[:bins]
        self.known = _step(frames.calibration, frames.dims)

    def finish(self, buffers: Buffers) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            return (super().finish(buffers) / self.count).astype(self.made, copy=False)

    def calibration(self) -> dict[str, dict[str, Any]]:
        scale, unit = self.known
        return {"ring": {"scale": scale, "offset": scale / 2, "unit": unit}}


def _step(calibration: Mapping[str, Mapping[str, Any]], dims: tuple[str, ...]) -> tuple[float, str]:
    """Return step and unit of a frame's axes, if both have the same ones; else 1 and px."""
    steps = {(abs(one.get("scale") or 0), one.get("unit") or "") for one in (calibration.get(dim, {}) for dim in dims)}
    (first, *others) = steps
    return first if not others and all(first) else (1.0, "px")
