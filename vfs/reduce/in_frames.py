"""What is made of every frame by itself: `FrameSum`, `Disk`, `Ring`, `Rectangle`, `Point`, `Masks`,
`CenterOfMass`, `RadialSum`; and `Histogram`.

Pixels outside of a mask do not count, whatever they hold: a NaN there is no NaN in the result. Sums
    of integers are exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from vfs.errors import OptionError
from vfs.kernels.reduce import in_frames as kernels
from vfs.reduce import masks
from vfs.reduce.reduction import (
    FrameBlock,
    FrameType,
    Kernel,
    Reduction,
    Spec,
    dtype_of,
    fits,
    real_pixels,
    taken_as,
    total_of,
)

Buffers = Mapping[str, np.ndarray]

SPARSE = 16
"""A mask of weights with fewer than one pixel in so many that is not 0 is taken as a list of these."""
LARGEST = {1: 1 << 8, 2: 1 << 16, 4: 1 << 32, 8: 1 << 64}
"""What no pixel of so many bytes is larger than."""


class _Masked(Kernel):
    """Sums under masks of yes and no.

    Args:
        name: for messages; chosen: bool[m, *frame]; alone: there is one mask, and no axis of masks.
    """

    def __init__(self, name: str, chosen: np.ndarray, frames: FrameType, dtype: Any, alone: bool = True) -> None:
        real_pixels(name, frames)
        self.name, self.dtype, self.alone = name, dtype, alone
        self.total = total_of(frames.dtype, dtype, name)
        pixels = taken_as(frames.dtype)
        flat = chosen.reshape(len(chosen), -1)
        self.masks = [(masks.runs_of(mask), masks.words_of(mask, pixels)) for mask in flat]
        self.seen = masks.rows_of(np.asarray(chosen.any(axis=0)))
        self.dims = () if alone else ("mask",)
        self.units = None

    def rows(self, frames: FrameType) -> tuple[int, int]:
        return self.seen

    def buffers(self, frames: FrameType) -> Mapping[str, Spec]:
        return {"sums": ("nav", self.total, (len(self.masks),))}

    def take(self, block: FrameBlock, buffers: Buffers, shared: Buffers) -> None:
        overflow = np.zeros(1, np.uint8)
        for column, (runs, words) in enumerate(self.masks):
            kernels.masked_sums(
                block.places, block.like, block.order, runs, words, block.at, shared["sums"], column, overflow
            )
        fits(overflow, self.name, self.total)

    def finish(self, buffers: Buffers) -> np.ndarray:
        sums = buffers["sums"]
        made = sums if self.dtype is None else sums.astype(self.dtype, copy=False)
        return made[:, 0] if self.alone else made


class _Weighted(Kernel):
    """Sums of pixels times weights.

    Args:
        weights: [m, pixels], in the dtype that is calculated in; made: dtype of the result.
    """

    def __init__(self, weights: np.ndarray, made: np.dtype, frames: FrameType, alone: bool) -> None:
        self.made, self.alone = made, alone
        held = [np.flatnonzero(one) for one in weights]
        self.listed = [len(where) * SPARSE < frames.size for where in held]
        self.lists = [(where, np.ascontiguousarray(one[where])) for where, one in zip(held, weights, strict=True)]
        self.full = [j for j, listed in enumerate(self.listed) if not listed]
        self.weights = np.ascontiguousarray(weights[self.full])
        some = np.concatenate(held)
        self.span = (int(some.min()), int(some.max()) + 1) if len(some) else (0, 1)
        pitch = frames.size // frames.shape[0] if frames.shape else 1
        self.seen = self.span[0] // pitch, (self.span[1] - 1) // pitch + 1
        self.dims = () if alone else ("mask",)
        self.tile_bytes = 8 << 20

    def rows(self, frames: FrameType) -> tuple[int, int]:
        return self.seen

    def buffers(self, frames: FrameType) -> Mapping[str, Spec]:
        return {"sums": ("nav", self.weights.dtype, (len(self.listed),))}

    def take(self, block: FrameBlock, buffers: Buffers, shared: Buffers) -> None:
        sums = shared["sums"]
        for column, listed in enumerate(self.listed):
            if listed:
                self._list(block.places, block, block.at, sums, column)
        if self.full:
            made = np.empty((len(block), len(self.full)), sums.dtype)
            kernels.weighted_sums(
                block.places, block.like, block.order, *self.span, self.weights, np.arange(len(block)), made, 0
            )
            sums[block.at[:, None], self.full] = made
            odd = ~np.isfinite(made).all(axis=1) if block.like.dtype.kind == "f" else np.zeros(1, bool)
            if odd.any():  # 0 times NaN: these frames again, without the pixels that do not count
                for column in self.full:
                    self._list(block.places[odd], block, block.at[odd], sums, column)

    def _list(self, places: np.ndarray, block: FrameBlock, at: np.ndarray, sums: np.ndarray, column: int) -> None:
        kernels.listed_sums(places, block.like, block.order, *self.lists[column], at, sums, column)

    def finish(self, buffers: Buffers) -> np.ndarray:
        sums = buffers["sums"].astype(self.made, copy=False)
        return sums[:, 0] if self.alone else sums


@dataclass(frozen=True)
class FrameSum(Reduction):
    """Sum of every frame: uint64, int64 or float64.

    Args:
        dtype: of the result, of this and of all that follow; with a float, integers are added up in float64, too.
    """

    dtype: Any = None

    def bound(self, frames: FrameType) -> Reduction:
        return _Masked("FrameSum", np.ones((1, *frames.shape), bool), frames, self.dtype)


class _Shape(Reduction):
    """Sum of the pixels whose centres lie inside a shape."""

    dtype: Any

    def bound(self, frames: FrameType) -> Reduction:
        masks.frame_of_two(type(self).__name__, frames.shape)
        mask = masks.inside(str(self), frames.shape, self.inside(frames.shape))
        return _Masked(type(self).__name__, mask[None], frames, self.dtype)

    def inside(self, shape: tuple[int, ...]) -> np.ndarray:
        """bool[shape]."""
        raise NotImplementedError

    def _numbers(self, *names: str) -> list[float]:
        return [masks.number(type(self).__name__, getattr(self, name), name) for name in names]


@dataclass(frozen=True)
class Disk(_Shape):
    """Sum of the pixels of every frame that are less than `r` from (cy, cx): a bright-field image.

    Args:
        cy, cx: the centre, in pixels; pixel (y, x) has its centre there. r: radius, in pixels. dtype: see `FrameSum`.
    """

    cy: float
    cx: float
    r: float
    dtype: Any = None

    def inside(self, shape: tuple[int, ...]) -> np.ndarray:
        cy, cx, r = self._numbers("cy", "cx", "r")
        return masks.between(shape, cy, cx, 0, r)


@dataclass(frozen=True)
class Ring(_Shape):
    """Sum of the pixels of every frame that are at least `r0` and less than `r1` from (cy, cx): an
    annular dark-field image.
    """

    cy: float
    cx: float
    r0: float
    r1: float
    dtype: Any = None

    def inside(self, shape: tuple[int, ...]) -> np.ndarray:
        cy, cx, r0, r1 = self._numbers("cy", "cx", "r0", "r1")
        return masks.between(shape, cy, cx, r0, r1)


@dataclass(frozen=True)
class Rectangle(_Shape):
    """Sum of the pixels of every frame from (y0, x0) to (y1, x1), half-open."""

    y0: float
    x0: float
    y1: float
    x1: float
    dtype: Any = None

    def inside(self, shape: tuple[int, ...]) -> np.ndarray:
        y0, x0, y1, x1 = self._numbers("y0", "x0", "y1", "x1")
        y, x = np.ogrid[: shape[0], : shape[1]]
        return np.asarray((y >= y0) & (y < y1) & (x >= x0) & (x < x1))


@dataclass(frozen=True)
class Point(_Shape):
    """Pixel (y, x) of every frame."""

    y: int
    x: int
    dtype: Any = None

    def inside(self, shape: tuple[int, ...]) -> np.ndarray:
        y, x = self._numbers("y", "x")
        rows, columns = np.ogrid[: shape[0], : shape[1]]
        return np.asarray((rows == y) & (columns == x))


@dataclass(frozen=True, eq=False)
class Masks(Reduction):
    """Every frame times a mask, or each of a stack of them, added up.

    Args:
        array: [*frame] or [m, *frame]: bool, integers or floats; or a sparse array or matrix [m,
            pixels] of scipy. Integers times integers are exact.
        dtype: of the result. With float32 it is also calculated in it, twice as fast; otherwise floats in float64.
    """

    array: Any
    dtype: Any = None

    def bound(self, frames: FrameType) -> Reduction:
        real_pixels("Masks", frames)
        given, alone = self._given(frames.shape)
        if given.dtype.kind == "b" or (
            given.dtype.kind in "iu" and given.size and given.min() >= 0 and given.max() <= 1
        ):
            return _Masked("Masks", given != 0, frames, self.dtype, alone)
        weights = given.reshape(len(given), -1)
        if weights.dtype.kind == "f" or frames.dtype.kind == "f":
            made = np.dtype(np.float64) if self.dtype is None else float_of(self.dtype)
            return _Weighted(weights.astype(np.float32 if made == np.float32 else np.float64), made, frames, alone)
        # integers times integers: exact in float64 where no sum gets beyond 2 ** 53, which is faster; else in int64
        most = (
            max(int(sum(abs(value) for value in one.tolist())) for one in weights.astype(object))
            * LARGEST[frames.dtype.itemsize]
        )
        own = np.dtype(np.int64 if most < 1 << 63 else np.float64)
        made = own if self.dtype is None else own if dtype_of(self.dtype) == own else float_of(self.dtype)
        if most >= 1 << 63 and (self.dtype is None or made.kind != "f"):
            raise OptionError(
                f"Masks: {frames.dtype} pixels times these weights may be larger than int64 holds;"
                " dtype='f8' adds up in float64"
            )
        return _Weighted(
            weights.astype(np.float64 if most < 1 << 53 or made.kind == "f" else np.int64), made, frames, alone
        )

    def _given(self, shape: tuple[int, ...]) -> tuple[np.ndarray, bool]:
        """The masks [m, *frame], and whether it is one that has no axis of masks."""
        given = self.array
        if hasattr(given, "todense"):  # sparse
            given = given.toarray() if hasattr(given, "toarray") else given.todense()
            size = int(np.prod(shape))
            if given.ndim == 2 and given.shape != shape and given.shape[1] == size:
                given = given.reshape(-1, *shape)
        try:
            given = np.asarray(given)
        except ValueError:
            given = np.asarray(None)
        alone = given.shape == shape
        if given.dtype.kind not in "biuf" or not (
            alone or (given.ndim == len(shape) + 1 and given.shape[1:] == shape and len(given))
        ):
            raise OptionError(
                f"Masks: array is {given.dtype}{list(given.shape)}, expected numbers or bool of shape"
                f" {list(shape)}, or a stack of such masks"
            )
        return given[None] if alone else given, alone


def float_of(asked: Any) -> np.dtype:
    """A float dtype that results are asked for in.

    Raises:
        OptionError: it is something else.
    """
    made = dtype_of(asked)
    if made.kind != "f" or made.itemsize > 8:
        raise OptionError(f"dtype={asked!r}: expected float64, float32 or float16")
    return made


@dataclass(frozen=True)
class CenterOfMass(Reduction):
    """Centre of mass of every frame, y then x, in pixels: float64[…, 2]. NaN where the pixels add up to 0.

    Args:
        cy, cx: it counts from there; else from pixel (0, 0). r: only pixels less than this from (cy, cx) count.
    """

    cy: float | None = None
    cx: float | None = None
    r: float | None = None

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
        if self.r is None:
            return _Centre(frames, cy, cx, None)
        near = masks.between(frames.shape, cy, cx, 0, masks.number("CenterOfMass", self.r, "r"))
        return _Centre(frames, cy, cx, masks.inside(str(self), frames.shape, near))


class _Centre(Kernel):
    dims = ("axis",)
    units = "px"

    def __init__(self, frames: FrameType, cy: float, cx: float, near: np.ndarray | None) -> None:
        self.cy, self.cx, self.width = cy, cx, frames.shape[1]
        across = (0, frames.shape[1]) if near is None else masks.rows_of(near.T)
        self.seen = (0, frames.shape[0]) if near is None else masks.rows_of(near)
        self.box = np.array([*self.seen, *across], np.int64)
        pixels = taken_as(frames.dtype)
        self.words = None if near is None else masks.words_of(near.reshape(-1), pixels)
        short = pixels.kind in "iu" and pixels.itemsize <= 2 and max(frames.shape) <= kernels_most(pixels)
        exact = pixels.kind in "iu" and pixels.itemsize <= 4
        self.part = np.dtype(f"{pixels.kind}{4 if short else 8}" if exact else np.float64)
        self.total = np.empty(0, f"{pixels.kind}8" if exact else np.float64)

    def rows(self, frames: FrameType) -> tuple[int, int]:
        return self.seen

    def buffers(self, frames: FrameType) -> Mapping[str, Spec]:
        return {"centre": ("nav", np.float64, (2,))}

    def take(self, block: FrameBlock, buffers: Buffers, shared: Buffers) -> None:
        part = np.empty(int(self.box[3] - self.box[2]), self.part)
        kernels.centres(
            block.places,
            block.like,
            block.order,
            self.box,
            self.width,
            self.words,
            part,
            self.total,
            self.cy,
            self.cx,
            block.at,
            shared["centre"],
        )


def kernels_most(pixels: np.dtype) -> int:
    """How many pixels of 1 or 2 bytes add up to what 4 bytes hold."""
    return 1 << (31 - 8 * pixels.itemsize)


@dataclass(frozen=True)
class RadialSum(Reduction):
    """Sums of every frame over rings one pixel wide around (cy, cx): ring k has the pixels at least
    k and less than k + 1 from there.

    Args:
        bins: number of rings; None: as many as the frame has pixels in.
    """

    cy: float
    cx: float
    bins: int | None = None
    dtype: Any = None

    def bound(self, frames: FrameType) -> Reduction:
        masks.frame_of_two("RadialSum", frames.shape)
        cy, cx = (masks.number("RadialSum", c, n) for c, n in ((self.cy, "cy"), (self.cx, "cx")))
        far = np.floor(np.sqrt(masks.squares(frames.shape, cy, cx)))
        if self.bins is not None and (not isinstance(self.bins, int | np.integer) or not 1 <= self.bins <= 1 << 20):
            raise OptionError(f"RadialSum: bins={self.bins!r}: expected how many rings, each one pixel wide")
        bins = int(min(far.max() + 1, 1 << 20)) if self.bins is None else int(self.bins)
        masks.inside(str(self), frames.shape, far < bins)
        return _Rings(frames, np.minimum(far, bins).astype(np.int32), bins, self.dtype)


class _Rings(Kernel):
    dims = ("ring",)
    units = None

    def __init__(self, frames: FrameType, rings: np.ndarray, bins: int, dtype: Any) -> None:
        real_pixels("RadialSum", frames)
        self.bins, self.dtype = bins, dtype
        self.total = total_of(frames.dtype, dtype, "RadialSum")
        self.seen = masks.rows_of(rings < bins)
        self.rings = np.ascontiguousarray(rings[self.seen[0] : self.seen[1]]).reshape(-1)
        self.first = self.seen[0] * frames.shape[1]

    def rows(self, frames: FrameType) -> tuple[int, int]:
        return self.seen

    def buffers(self, frames: FrameType) -> Mapping[str, Spec]:
        return {"sums": ("nav", self.total, (self.bins,))}

    def take(self, block: FrameBlock, buffers: Buffers, shared: Buffers) -> None:
        overflow = np.zeros(1, np.uint8)
        kernels.ring_sums(
            block.places, block.like, block.order, self.first, self.rings, block.at, shared["sums"], overflow
        )
        fits(overflow, "RadialSum", self.total)

    def finish(self, buffers: Buffers) -> np.ndarray:
        return buffers["sums"] if self.dtype is None else buffers["sums"].astype(self.dtype, copy=False)

    def calibration(self) -> dict[str, dict[str, Any]]:
        return {"ring": {"scale": 1.0, "offset": 0.5, "unit": "px"}}


@dataclass(frozen=True)
class Histogram(Reduction):
    """How many pixels of all frames have a value in each bin: uint64[bins]. Bins are half-open, the
    last one is closed, as in numpy.

    Args:
        bins: number of equal bins; range: (lowest, highest) value.
    """

    bins: int
    range: Sequence[float]

    kind = "single"
    dims = ("value",)

    def bound(self, frames: FrameType) -> Reduction:
        real_pixels("Histogram", frames)
        if not isinstance(self.bins, int | np.integer) or not 1 <= self.bins <= 1 << 24:
            raise OptionError(f"Histogram: bins={self.bins!r}: expected how many bins, at least one")
        try:
            low, high = (float(end) for end in self.range)
        except (TypeError, ValueError):
            low = high = np.nan
        if not (np.isfinite(low) and np.isfinite(high) and low < high):
            raise OptionError(f"Histogram: range={self.range!r}: expected the lowest and the highest value")
        return _Counts(frames, int(self.bins), low, high)


class _Counts(Kernel):
    kind = "single"
    dims = ("value",)

    def __init__(self, frames: FrameType, bins: int, low: float, high: float) -> None:
        self.size, self.bins, self.low, self.high = frames.size, bins, low, high
        self.edges = np.linspace(low, high, bins + 1)
        pixels = taken_as(frames.dtype)
        self.short = pixels.kind in "iu" and pixels.itemsize <= 2
        info = np.iinfo(pixels) if self.short else None
        self.values = np.arange(int(info.min), int(info.max) + 1) if info else np.empty(0, int)
        self.units = frames.units

    def buffers(self, frames: FrameType) -> Mapping[str, Spec]:
        return {"counts": ("single", np.uint64, (4, len(self.values)) if self.short else (self.bins,))}

    def take(self, block: FrameBlock, buffers: Buffers, shared: Buffers) -> None:
        if self.short:
            kernels.count_values(
                block.places, block.like, block.order, self.size, int(self.values[0]), buffers["counts"]
            )
        else:
            kernels.count_bins(block.places, block.like, block.order, self.size, self.edges, buffers["counts"])

    def finish(self, buffers: Buffers) -> np.ndarray:
        counts = buffers["counts"]
        if not self.short:
            return counts
        within = (self.values >= self.low) & (self.values <= self.high)
        to = np.minimum(np.searchsorted(self.edges, self.values[within], "right") - 1, self.bins - 1)
        made = np.zeros(self.bins, np.uint64)
        np.add.at(made, to, cast(np.ndarray, counts.sum(axis=0))[within])
        return made

    def calibration(self) -> dict[str, dict[str, Any]]:
        width = (self.high - self.low) / self.bins
        return {"value": {"scale": width, "offset": self.low + width / 2, "unit": self.units or ""}}
