"""A reduction for quick looks: every frame, binned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from vfs.errors import OptionError
from vfs.kernels.reduce import binned as kernels
from vfs.model.region import Region
from vfs.reduce.masks import picture
from vfs.reduce.reduction import Buffers, FrameType, Reduction, Spec, real_pixels, taken_as


@dataclass(frozen=True)
class Binned(Reduction):
    """Every frame, its pixels added up in squares of one size, in float64. A frame of one axis is one row.

    It is no part of `derive=`: it is what the page previews detectors with.

    Args:
        most: rows and columns that a binned frame may have. Squares have the smallest side, in
            whole pixels, with which it has no more.
        dead: bool[*frame], the pixels that do not count: those that the set's own mask marks.
    """

    most: int
    dead: np.ndarray | None = None

    dims = ("y", "x")

    def bound(self, frames: FrameType) -> Reduction:
        picture("Binned", frames.shape)
        real_pixels("Binned", frames)
        if not 1 <= self.most <= 256:
            raise OptionError(f"binned({self.most}): expected 1 to 256 rows and columns")
        return replace(self, dead=frames.masked())

    def buffers(self, frames: FrameType) -> Mapping[str, Spec]:
        shape = picture("Binned", frames.shape)
        factor = self.factor(shape)
        return {"binned": ("nav", np.float64, tuple(-(-n // factor) for n in shape))}

    def factor(self, shape: tuple[int, ...]) -> int:
        """Return the side of the squares for frames of a shape."""
        return max(1, *(-(-n // self.most) for n in shape))

    def process(self, tile: np.ndarray, region: Region, buffers: Buffers) -> None:
        kind = taken_as(tile.dtype)
        pixels = tile.view(kind) if kind.itemsize == tile.dtype.itemsize else tile.astype(kind)
        pixels = pixels.reshape(len(tile), *picture("Binned", tile.shape[1:]))
        if self.dead is not None:
            pixels = np.where(self.dead.reshape(pixels.shape[1:]), pixels.dtype.type(0), pixels)
        short = kind.itemsize <= 2 and pixels.shape[1] <= 1 << 15  # so many add up to what four bytes hold
        line = np.empty(pixels.shape[2], f"{kind.kind}4" if short else np.float64)
        kernels.add_bins(pixels, self.factor(pixels.shape[1:]), line, buffers["binned"])
