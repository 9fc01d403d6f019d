"""Reductions of every pixel over the scan that leave NaN out: `vfs.Sum(skipna=True)`, and so on.

They take tiles and know how often each pixel was a number. Spreads are joined as T. F. Chan, G. H. Golub and
R. J. LeVeque do (The American Statistician 37, 1983, page 242), which cancels nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vfs.model.region import Region
from vfs.reduce.reduction import Buffers, FrameType, Reduction, Spec

_EXTREMES = {"Max": np.fmax, "Min": np.fmin}


class WithoutNan(Reduction):
    """Takes frames of floats.

    Args:
        name: of the class that it does the work of: Sum, Mean, Variance, Std, Max or Min.
        dtype: of the result; None: float64, of extremes that of the pixels.
    """

    kind = "sig"
    units = None

    def __init__(self, name: str, dtype: Any) -> None:
        self.name, self.dtype = name, dtype

    def buffers(self, frames: FrameType) -> Mapping[str, Spec]:
        made: dict[str, Spec] = {"count": ("sig", np.int64, ())}
        if self.name in _EXTREMES:
            return {**made, "found": ("sig", frames.dtype, ())}
        names = ("mean", "squares") if self.name in ("Variance", "Std") else ("total",)
        return made | dict.fromkeys(names, ("sig", np.float64, ()))

    def process(self, tile: np.ndarray, region: Region, buffers: Buffers) -> None:
        good = ~np.isnan(tile)
        part: dict[str, np.ndarray] = {"count": good.sum(axis=0)}
        if self.name in _EXTREMES:
            part["found"] = _EXTREMES[self.name].reduce(tile, axis=0)
        else:
            numbers = np.where(good, tile, 0).astype(np.float64)
            part["total"] = numbers.sum(axis=0)
            if "squares" in buffers:
                part["mean"] = part["total"] / np.maximum(1, part["count"])
                part["squares"] = (np.where(good, numbers - part["mean"], 0) ** 2).sum(axis=0)
        self.merge(buffers, part)

    def merge(self, into: Buffers, other: Buffers) -> None:
        mine, theirs = into["count"], other["count"]
        if self.name in _EXTREMES:
            pick, found = _EXTREMES[self.name], into["found"]
            found[...] = np.where(mine > 0, np.where(theirs > 0, pick(found, other["found"]), found), other["found"])
        elif "squares" in into:
            off, both = other["mean"] - into["mean"], np.maximum(1, mine + theirs)
            into["mean"][...] += off * theirs / both
            into["squares"][...] += other["squares"] + off * off * mine * theirs / both
        else:
            into["total"][...] += other["total"]
        into["count"][...] += theirs

    def finish(self, buffers: Buffers) -> np.ndarray:
        count = buffers["count"]
        with np.errstate(all="ignore"):
            if self.name == "Sum":
                made = buffers["total"]
            elif self.name == "Mean":
                made = buffers["total"] / count
            elif self.name in _EXTREMES:
                made = np.where(count > 0, buffers["found"], buffers["found"].dtype.type(np.nan))
            else:
                made = buffers["squares"] / count
                made = np.sqrt(made) if self.name == "Std" else made
        return made if self.dtype is None else made.astype(self.dtype, copy=False)
