"""Counts the pixels of all frames by their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vfs.errors import OptionError
from vfs.kernels.reduce import in_frames as kernels
from vfs.reduce.in_frames import is_count
from vfs.reduce.reduction import Buffers, FrameBlock, FrameType, Kernel, Reduction, Spec, real_pixels, taken_as

MAX_COUNTED = (1 << 32) - 1
"""Pixels that are counted in 4 bytes, which stay in a faster cache than 8, before they are taken into the counts."""
MAX_BINS = 1 << 24
"""Bins: every thread has a counter of 8 bytes for each."""


@dataclass(frozen=True)
class Histogram(Reduction):
    """Number of pixels of all frames that have a value in each bin: uint64[bins].

    Bins are half-open, the last one is closed, as in numpy. Pixels outside of them, and NaN, are in none.

    Args:
        bins: number of equal bins, at most 2 ** 24.
        range: (lowest, highest) value, both finite.
    """

    bins: int
    range: Sequence[float]

    kind = "single"
    dims = ("value",)

    def bound(self, frames: FrameType) -> Reduction:
        real_pixels("Histogram", frames)
        if not is_count(self.bins, MAX_BINS):
            raise OptionError(f"Histogram: bins={self.bins!r}: expected 1 to {MAX_BINS:,} bins")
        try:
            low, high = (float(end) for end in self.range)
        except (TypeError, ValueError, OverflowError):
            low = high = np.nan
        if not (np.isfinite(low) and np.isfinite(high) and low < high):
            raise OptionError(f"Histogram: range={self.range!r}: expected the lowest and the highest value")
        with np.errstate(all="ignore"):
            edges = np.linspace(low, high, int(self.bins) + 1)
            apart = np.isfinite(high - low) and bool((np.diff(edges) > 0).all())
        if not apart:
            raise OptionError(
                f"Histogram: bins={self.bins}, range={self.range!r}: expected bins that float64 can tell apart"
            )
        return _Counts(frames, edges)


class _Counts(Kernel):
    """Counts of values, prepared for frames of one kind.

    Args:
        edges: float64[bins + 1], of the bins.
    """

    kind = "single"
    dims = ("value",)

    def __init__(self, frames: FrameType, edges: np.ndarray) -> None:
        self.size, self.bins, self.low, self.high = frames.size, len(edges) - 1, float(edges[0]), float(edges[-1])
        self.edges = edges
        pixels = taken_as(frames.dtype)
        self.short = pixels.kind in "iu" and pixels.itemsize <= 2
        self.most = MAX_COUNTED if frames.size <= MAX_COUNTED else 1 << 63
        info = np.iinfo(pixels) if self.short else None
        self.values = np.arange(int(info.min), int(info.max) + 1) if info else np.empty(0, int)
        self.units = frames.units

    def buffers(self, frames: FrameType) -> Mapping[str, Spec]:
        if not self.short:
            return {"counts": ("single", np.uint64, (self.bins,))}
        return {
            "counts": ("single", np.uint64, (len(self.values),)),
            "lately": ("single", np.uint32 if self.most == MAX_COUNTED else np.uint64, (2, len(self.values))),
            "pixels": ("single", np.uint64, (1,)),  # that `lately` counts
        }

    def take(self, block: FrameBlock, buffers: Buffers, shared: Buffers) -> None:
        if not self.short:
            kernels.count_bins(block.places, block.like, block.order, self.size, self.edges, buffers["counts"])
            return
        most = max(1, self.most // max(1, self.size))  # frames
        for first in range(0, len(block.places), most):
            places = block.places[first : first + most]
            if int(buffers["pixels"][0]) + len(places) * self.size > self.most:
                self._settle(buffers)
            buffers["pixels"] += np.uint64(len(places) * self.size)
            how = self.size, int(self.values[0]), buffers["lately"]
            kernels.count_values(places, block.like, block.order, *how)

    @staticmethod
    def _settle(buffers: Buffers) -> None:
        """Take what was counted lately into the counts."""
        buffers["counts"] += buffers["lately"].sum(axis=0, dtype=np.uint64)
        buffers["lately"][...] = 0
        buffers["pixels"][...] = 0

    def merge(self, into: Buffers, other: Buffers) -> None:
        into["counts"] += other["counts"]
        if self.short:
            into["counts"] += other["lately"].sum(axis=0, dtype=np.uint64)

    def finish(self, buffers: Buffers) -> np.ndarray:
        counts = buffers["counts"]
        if not self.short:
            return counts
        counts = counts + buffers["lately"].sum(axis=0, dtype=np.uint64)
        within = (self.values >= self.low) & (self.values <= self.high)
        to = np.minimum(np.searchsorted(self.edges, self.values[within], "right") - 1, self.bins - 1)
        made = np.zeros(self.bins, np.uint64)
        np.add.at(made, to, counts[within])
        return made

    def calibration(self) -> dict[str, dict[str, Any]]:
        width = (self.high - self.low) / self.bins
        return {"value": {"scale": width, "offset": self.low + width / 2, "unit": self.units or ""}}
