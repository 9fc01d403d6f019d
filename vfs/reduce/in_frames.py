"""Reductions of every frame by itself: `FrameSum`, `Masks`, `CenterOfMass`, `RadialSum`; `vfs.reduce.shapes` has more.

Pixels outside of a mask do not count, whatever they hold: a NaN there is no NaN in the result. Sums
of integers are exact. What does not fit the frames is an OptionError, which `reduce` raises: an
object is made of any arguments, because it knows no frames.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vfs.buffers import aligned
from vfs.errors import OptionError
from vfs.kernels.reduce import in_frames as kernels
from vfs.reduce import masks
from vfs.reduce.complex_parts import JoinedParts, join_to, parts_of
from vfs.reduce.reduction import (
    Buffers,
    FrameBlock,
    FrameType,
    Kernel,
    Reduction,
    Spec,
    Takes,
    dtype_of,
    fits,
    float_of,
    real_pixels,
    taken_as,
    total_of,
)
from vfs.reduce.sums import WeightedSums, complex_sums, masked_sums
from vfs.sources.given import saved
from vfs.sources.local import LocalSources

LARGEST = {1: 1 << 8, 2: 1 << 16, 4: 1 << 32, 8: 1 << 64}
"""What no pixel of so many bytes is larger than."""


@dataclass(frozen=True)
class FrameSum(Reduction):
    """Sum of all pixels of every frame: [*scan], in the unit of the pixels.

    Args:
        dtype: of the result. None: that in which pixels are added up, uint64 (also of bool), int64,
            float64 of floats, or complex128. Integers are added up exactly then, and a sum that does not
            fit is an OptionError. A float: all are added up in float64. Of complex pixels complex64 or 128.
        masked: see `Disk`.
    """

    dtype: Any = None
    masked: bool = False

    def bound(self, frames: FrameType) -> Reduction:
        taken = masks.measured(str(self), np.ones(frames.shape, bool), frames, self.masked)
        return masked_sums("FrameSum", taken[None], frames, self.dtype)


@dataclass(frozen=True, eq=False)
class Masks(Reduction):
    """Sum of the pixels of every frame times a mask, [*scan], or times each of a stack of masks, [*scan, m].

    Args:
        array: [*frame] or [m, *frame]: bool, integers, floats or complex; or a sparse array or matrix
            [m, pixels] of scipy; or the name of a .npy file.
        dtype: of the result. None: as of `FrameSum` where masks are bool, or integers that are 0 and 1;
            int64, exact, of other integers times integers; complex128 where pixels or masks are complex;
            else float64. With float32 or complex64 floats are also calculated in float32, which is
            faster; otherwise in float64.
    """

    array: Any
    dtype: Any = None

    def bound(self, frames: FrameType) -> Reduction:
        stack, alone = self._stack(frames.shape)
        if _yes_and_no(stack):
            chosen = np.stack(list(_rows(stack))) != 0
            return masked_sums("Masks", chosen.reshape(-1, *frames.shape), frames, self.dtype, alone)
        if "c" in (stack.dtype.kind, frames.dtype.kind):
            return complex_sums(_rows(stack), self.dtype, frames, alone)
        if stack.dtype.kind == "f" or frames.dtype.kind == "f":
            made = np.dtype(np.float64) if self.dtype is None else float_of(self.dtype)
            inner = np.dtype(np.float32 if made == np.float32 else np.float64)
        else:
            made, inner = self._exact(frames.dtype, max(_magnitude(one) for one in _rows(stack)))
        return WeightedSums((np.asarray(one, inner) for one in _rows(stack)), inner, made, frames, alone)

    def _exact(self, pixels: np.dtype, weight: int) -> tuple[np.dtype, np.dtype]:
        """Choose dtypes for integers times integers. They are exact in float64, which is faster, where
        no sum gets beyond 2 ** 53; else in int64.

        Args:
            weight: what the absolute values of the weights of a mask add up to at most.

        Returns: (dtype of the result, dtype to calculate in).

        Raises:
            OptionError: a sum may be larger than int64 holds.
        """
        most, floats, own = weight * LARGEST[pixels.itemsize], np.dtype(np.float64), np.dtype(np.int64)
        if self.dtype is not None and dtype_of(self.dtype) != own:
            return float_of(self.dtype), floats
        if most >= 1 << 63:
            raise OptionError(
                f"Masks: {pixels} pixels times these weights may be larger than int64 holds;"
                " dtype='f8' adds up in float64"
            )
        return own, floats if most < 1 << 53 else own

    def _stack(self, shape: tuple[int, ...]) -> tuple[Any, bool]:
        """Return the masks [m, pixels], perhaps as a sparse matrix, and whether it is one that has no axis of masks."""
        given, size = self.array, math.prod(shape)
        if isinstance(given, str | os.PathLike):
            given = saved(LocalSources(), os.fspath(given), f"masks={os.fspath(given)}", "a mask, or a stack of masks")
        if not _sparse(given):
            try:
                given = np.asarray(given)
            except (ValueError, MemoryError):  # lists of unequal lengths; a range of very many numbers
                given = np.asarray(None)
        alone = given.shape == shape
        flat = _sparse(given) and len(given.shape) == 2 and given.shape[1] == size
        fitting = alone or flat or (len(given.shape) == len(shape) + 1 and given.shape[1:] == shape)
        if given.dtype.kind not in "biufc" or not fitting or given.shape[:1] == (0,):
            raise OptionError(
                f"Masks: array is {given.dtype}{list(given.shape)}, expected numbers or bool of shape"
                f" {list(shape)}, or a stack of such masks"
            )
        stack = given.reshape((1 if alone else given.shape[0], size))
        return stack.tocsr() if _sparse(stack) else stack, alone


def lasting(given: Mapping[str, Reduction]) -> dict[str, Reduction]:
    """Give reductions that name a file its absolute path, so that they mean the same in another process."""
    return {
        name: replace(one, array=os.path.abspath(one.array))
        if isinstance(one, Masks) and isinstance(one.array, str | os.PathLike)
        else one
        for name, one in given.items()
    }


def _sparse(array: Any) -> bool:
    return hasattr(array, "tocsr")


def _yes_and_no(stack: Any) -> bool:
    """Tell whether masks are bool, or integers that are 0 and 1."""
    values = stack.data if _sparse(stack) else stack
    if stack.dtype.kind in "bfc" or not values.size:
        return bool(stack.dtype.kind == "b")
    return bool(values.min() >= 0 and values.max() <= 1)


def _rows(stack: Any) -> Iterator[np.ndarray]:
    """Go through masks [m, pixels], perhaps sparse, one after the other."""
    return (stack[[j]].toarray()[0] for j in range(stack.shape[0])) if _sparse(stack) else iter(stack)


def _magnitude(weights: np.ndarray) -> int:
    """Add up the absolute values of integers, exactly."""
    sizes = weights.astype(np.uint64) if weights.dtype.kind == "u" else np.abs(weights.astype(np.int64)).view(np.uint64)
    return (int((sizes >> np.uint64(32)).sum()) << 32) + int((sizes & np.uint64(0xFFFFFFFF)).sum())


@dataclass(frozen=True)
class CenterOfMass(Reduction):
    """Centre of mass of every frame, y then x, in pixels: float64[…, 2]. NaN where the pixels add up to 0.

    Args:
        cy, cx: where it counts from, in pixels; None: from pixel (0, 0).
        r: only pixels less than this from (cy, cx) count; None: all.
        masked: True: pixels that the set's own mask marks as dead do not count; None: so, if it has one. See `Disk`.
    """

    cy: float | None = None
    cx: float | None = None
    r: float | None = None
    masked: bool | None = None

    dims = ("axis",)
    units = "px"

    def bound(self, frames: FrameType) -> Reduction:
        masks.frame_of_two("CenterOfMass", frames.shape)
        real_pixels("CenterOfMass", frames)
        if (self.cy is None) != (self.cx is None) or (self.r is not None and self.cy is None):
            raise OptionError(f"{self}: expected both cy and cx, or neither; r needs them")
        cy, cx = (
            0.0 if c is None else masks.number("CenterOfMass", c, n) for c, n in ((self.cy, "cy"), (self.cx, "cx"))
        )
        dead = None if self.masked is False else frames.masked()
        if self.r is None and dead is None:
            return _Centre(frames, cy, cx, None)
        near = np.ones(frames.shape, bool)
        if self.r is not None:
            near = masks.between(frames.shape, cy, cx, 0, masks.number("CenterOfMass", self.r, "r"))
            near = masks.inside(str(self), frames.shape, near)
        return _Centre(frames, cy, cx, masks.measured(str(self), near, frames, dead is not None))


class _Centre(Kernel):
    """A centre of mass, prepared for frames of one kind."""

    dims = ("axis",)
    units = "px"
    takes = Takes.PLACES | Takes.TURNED

    def __init__(self, frames: FrameType, cy: float, cx: float, near: np.ndarray | None) -> None:
        self.cy, self.cx, self.width = cy, cx, frames.shape[1]
        across = (0, frames.shape[1]) if near is None else masks.rows_of(near.T)
        self.seen = (0, frames.shape[0]) if near is None else masks.rows_of(near)
        self.box = np.array([*self.seen, *across], np.int64)
        pixels = taken_as(frames.dtype)
        self.words = None if near is None else masks.words_of(near.reshape(-1), pixels)
        # A row or column of so many pixels of 1 or 2 bytes adds up to what 4 bytes hold
        short = pixels.kind in "iu" and pixels.itemsize <= 2 and max(frames.shape) <= 1 << (31 - 8 * pixels.itemsize)
        exact = pixels.kind in "iu" and pixels.itemsize <= 4
        self.part = np.dtype(f"{pixels.kind}{4 if short else 8}" if exact else np.float64)

    def rows(self, frames: FrameType) -> tuple[int, int]:
        return self.seen

    def buffers(self, frames: FrameType) -> Mapping[str, Spec]:
        return {"centre": ("nav", np.float64, (2,))}

    def take(self, block: FrameBlock, buffers: Buffers, shared: Buffers) -> None:
        box, words, by = self.box, self.words, block.turned
        if by > 1 and words is not None:
            box = np.array([*box[:2], box[2] // by * by, -(-box[3] // by) * by])
            words = np.ascontiguousarray(words.reshape(-1, by)[:, ::-1]).reshape(-1)
        part = aligned(int(box[3] - box[2]), self.part)
        from_ = self.cy, self.cx
        how = box, self.width, words, by - 1, part
        kernels.centres(block.places, block.like, block.order, *how, *from_, block.at, shared["centre"])


@dataclass(frozen=True)
class RadialSum(Reduction):
    """Sums of every frame over rings one pixel wide around (cy, cx): [*scan, bins]. Ring k has the pixels
    at least k and less than k + 1 from there.

    Args:
        cy, cx: the centre, in pixels; pixel (y, x) has its centre at (y, x).
        bins: number of rings, at most 2 ** 20; None: as many as the frame has pixels in.
        dtype: see `FrameSum`.
        masked: see `Disk`.
    """

    cy: float
    cx: float
    bins: int | None = None
    dtype: Any = None
    masked: bool = False

    def bound(self, frames: FrameType) -> Reduction:
        masks.frame_of_two("RadialSum", frames.shape)
        cy, cx = (masks.number("RadialSum", c, n) for c, n in ((self.cy, "cy"), (self.cx, "cx")))
        far = np.floor(np.sqrt(masks.squares(frames.shape, cy, cx)))
        if self.bins is not None and not is_count(self.bins, MAX_RINGS):
            raise OptionError(f"RadialSum: bins={self.bins!r}: expected 1 to {MAX_RINGS:,} rings, each one pixel wide")
        bins = int(min(far.max() + 1, MAX_RINGS)) if self.bins is None else int(self.bins)
        seen = masks.measured(str(self), masks.inside(str(self), frames.shape, far < bins), frames, self.masked)
        rings = np.where(seen, far, bins).astype(np.int32)
        if frames.dtype.kind != "c":
            return LabelledSums("RadialSum", frames, rings, bins, self.dtype)
        taken, join = parts_of(frames), join_to(self.dtype, alone=False)
        inner = LabelledSums("RadialSum", taken, np.stack([2 * rings, 2 * rings + 1], -1), 2 * bins, None)
        return JoinedParts(inner, taken, join, inner.dims)


class LabelledSums(Kernel):
    """Sums over the pixels of each label, prepared for frames of one kind: over rings, unless a subclass says others.

    Args:
        name: for messages.
        labels: int32[*frame]; those of `bins` or more do not count.
        dtype: of the result, None: as it is added up.
    """

    dims: tuple[str, ...] = ("ring",)
    units = None

    def __init__(self, name: str, frames: FrameType, labels: np.ndarray, bins: int, dtype: Any) -> None:
        real_pixels(name, frames)
        self.name, self.bins, self.dtype = name, bins, dtype
        self.total = total_of(frames.dtype, dtype, name)
        self.seen = masks.rows_of(labels < bins)
        self.labels = np.ascontiguousarray(labels[self.seen[0] : self.seen[1]]).reshape(-1)
        self.first = self.seen[0] * (frames.size // frames.steps)

    def rows(self, frames: FrameType) -> tuple[int, int]:
        return self.seen

    def buffers(self, frames: FrameType) -> Mapping[str, Spec]:
        return {"sums": ("nav", self.total, (self.bins,))}

    def take(self, block: FrameBlock, buffers: Buffers, shared: Buffers) -> None:
        overflow = np.zeros(1, np.uint8)
        kernels.ring_sums(
            block.places, block.like, block.order, self.first, self.labels, block.at, shared["sums"], overflow
        )
        fits(overflow, self.name, self.total)

    def finish(self, buffers: Buffers) -> np.ndarray:
        return buffers["sums"] if self.dtype is None else buffers["sums"].astype(self.dtype, copy=False)

    def calibration(self) -> dict[str, dict[str, Any]]:
        return {"ring": {"scale": 1.0, "offset": 0.5, "unit": "px"}}


def is_count(value: Any, most: int) -> bool:
    """Return True for an integer from 1 to `most`."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(1 <= value <= most)


MAX_RINGS = 1 << 20
"""Rings: the diagonal of no detector is longer."""
