"""A reduction for quick looks: the magnitudes of complex frames, added up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from vfs.errors import OptionError
from vfs.model.region import Region
from vfs.reduce.reduction import Buffers, FrameType, Reduction, Spec


@dataclass(frozen=True)
class MagnitudeSum(Reduction):
    """Sum of the magnitudes of every complex frame, in float64: the page's image of a scan of such frames.

    It is no part of `derive=`. Its numbers are those of `np.abs(frame).sum(dtype=np.float64)`, to the bit.
    """

    def bound(self, frames: FrameType) -> Reduction:
        if frames.dtype.kind != "c":
            raise OptionError(f"magnitude_sum(): frames are {frames.dtype}, expected complex numbers; see frame_sum()")
        return self

    def buffers(self, frames: FrameType) -> Mapping[str, Spec]:
        return {"sum": ("nav", np.float64, ())}

    def process(self, tile: np.ndarray, region: Region, buffers: Buffers) -> None:
        buffers["sum"][:] = [one.sum(dtype=np.float64) for one in np.abs(tile)]  # each by itself: see above
