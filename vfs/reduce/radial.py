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
    """Means of every frame over rings around (cy, cx), one pixel wide unless `r1` says else: [*scan, bins], floats.

    They are NaN where a ring has no pixel. Ring k has the pixels at least k and less than k + 1 from the centre, as of
    `RadialSum`. Where both axes of the frame have one step and unit, the rings are calibrated in it.

    Args:
        cy, cx: the centre, in pixels; pixel (y, x) has its centre at (y, x). None: that of the bright-field disk.
        bins: number of rings; None: as many as the frame has pixels in.
        ratio: of the longer to the shorter axis of the ellipses that patterns are distorted to; radii are along the
            shorter one. 1: they are circles.
        angle: degrees from x to the longer axis, towards larger y.
        r0: where the first ring begins, in pixels.
        r1: where the last one ends, half-open; with `bins` they are equally wide: bins=1 is one mean over all pixels
            between. None: the rings are one pixel wide.
        dtype: a float; None: float64.
        masked: see `Disk`.
    """

    cy: float | None = None
    cx: float | None = None
    bins: int | None = None
    ratio: float = 1.0
    angle: float = 0.0
    r0: float = 0.0
    r1: float | None = None
    dtype: Any = None
    masked: bool = False

    def bound(self, frames: FrameType) -> Reduction:
        masks.frame_of_two("RadialMean", frames.shape)
        real_pixels("RadialMean", frames)
        if self.cy is None or self.cx is None:
            raise OptionError("RadialMean: expected both cy and cx, or neither")
        cy, cx, ratio, angle, r0 = (
            masks.number("RadialMean", getattr(self, name), name) for name in ("cy", "cx", "ratio", "angle", "r0")
        )
        r1 = np.inf if self.r1 is None else masks.number("RadialMean", self.r1, "r1")
        if not ratio >= 1:
            raise OptionError(f"RadialMean: ratio={self.ratio!r}: expected 1 or more, longer axis to shorter one")
        if self.bins is not None and not is_count(self.bins, MAX_RINGS):
            raise OptionError(f"RadialMean: bins={self.bins!r}: expected 1 to {MAX_RINGS:,} rings")
        if not 0 <= r0 < r1:
            raise OptionError(f"RadialMean: r0={self.r0!r}, r1={self.r1!r}: expected 0 <= r0 < r1, pixels")
        width = 1.0 if self.bins is None or self.r1 is None else (r1 - r0) / self.bins
        y, x = np.ogrid[: frames.shape[0], : frames.shape[1]]
        cos, sin = np.cos(np.deg2rad(angle)), np.sin(np.deg2rad(angle))
        along, across = (x - cx) * cos + (y - cy) * sin, (y - cy) * cos - (x - cx) * sin
        far = np.sqrt((along / ratio) ** 2 + across**2)
        ring = np.floor((far - r0) / width)
        bins = int(min(np.ceil(min(ring.max() + 1, r1 - r0)), MAX_RINGS)) if self.bins is None else int(self.bins)
        if self.r1 is not None:
            ring = np.minimum(ring, bins - 1)  # rounding takes none that is nearer than r1 beyond the last one
        inside = masks.inside(str(self), frames.shape, (far >= r0) & (far < r1) & (ring < bins))
        seen = masks.measured(str(self), inside, frames, self.masked)
        return _Means(frames, np.where(seen, ring, bins).astype(np.int32), bins, self.dtype, (r0, width))


class _Means(LabelledSums):
    """Means over rings, prepared for frames of one kind; `placed`: where the first one begins, and how wide each is."""

    def __init__(
        self, frames: FrameType, rings: np.ndarray, bins: int, dtype: Any, placed: tuple[float, float]
    ) -> None:
        super().__init__("RadialMean", frames, rings, bins, None)
        self.placed = placed
        self.made = np.dtype(np.float64) if dtype is None else float_of(dtype)
        self.count = np.bincount(rings.reshape(-1), minlength=bins)[:bins]
        self.known = _step(frames.calibration, frames.dims)

    def finish(self, buffers: Buffers) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            return (super().finish(buffers) / self.count).astype(self.made, copy=False)

    def calibration(self) -> dict[str, dict[str, Any]]:
        (scale, unit), (first, width) = self.known, self.placed
        return {"ring": {"scale": scale * width, "offset": scale * (first + width / 2), "unit": unit}}


def _step(calibration: Mapping[str, Mapping[str, Any]], dims: tuple[str, ...]) -> tuple[float, str]:
    """Return step and unit of a frame's axes, if both have the same ones; else 1 and px."""
    steps = {(abs(one.get("scale") or 0), one.get("unit") or "") for one in (calibration.get(dim, {}) for dim in dims)}
    (first, *others) = steps
    return first if not others and all(first) else (1.0, "px")
