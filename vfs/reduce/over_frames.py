"""Reductions of every pixel over the scan: `Sum`, `Mean`, `Variance`, `Std`, `Max`, `Min`.

Frames that are not stored do not count. Integers are added up exactly; so are squares of integers
of one or two bytes. Of all others the mean and the squared distances from it are kept in float64,
which cancels nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from vfs.buffers import aligned
from vfs.errors import OptionError
from vfs.kernels.reduce import over_frames as kernels
from vfs.model import coverage
from vfs.reduce.complex_parts import Join, JoinedParts, join_to, parts_of
from vfs.reduce.reduction import (
    Buffers,
    FrameBlock,
    FrameType,
    Kernel,
    Reduction,
    Spec,
    Takes,
    added,
    fits,
    float_of,
    real_pixels,
    short_of,
    taken_as,
    total_of,
)
from vfs.reduce.without_nan import WithoutNan


def _strip(dtype: np.dtype) -> np.ndarray:
    """Make working memory for a strip of pixels."""
    return aligned(kernels.STRIP // dtype.itemsize, dtype)


def _cast(values: np.ndarray, asked: Any) -> np.ndarray:
    return values if asked is None else values.astype(asked, copy=False)


@dataclass(frozen=True)
class _OfPixels(Kernel):
    """Takes frames into buffers of kind "sig" and counts them in "count"."""

    dtype: Any = None
    over: Any = ()
    skipna: bool = False
    frames: FrameType | None = field(default=None, init=False, repr=False, compare=False)
    total: np.dtype | None = field(default=None, init=False, repr=False, compare=False)

    kind = "sig"
    units = None
    tile_frames = 8
    takes = Takes.PLACES | Takes.TURNED | Takes.PATCHES

    def bound(self, frames: FrameType) -> Reduction:
        name = type(self).__name__
        real_pixels(name, frames)
        if self.skipna and frames.dtype.kind == "f":
            total_of(taken_as(frames.dtype), self.dtype, name)
            return WithoutNan(name, self.dtype)
        made = type(self)(self.dtype, self.over)
        object.__setattr__(made, "frames", frames)
        object.__setattr__(made, "total", total_of(taken_as(frames.dtype), self.dtype, name))
        return made

    def take(self, block: FrameBlock, buffers: Buffers, shared: Buffers) -> None:
        assert self.frames is not None
        size, flat = self.frames.size, {name: buffer.reshape(-1) for name, buffer in buffers.items()}
        patch = size, size, size
        if block.patch is not None:  # of few frames, which are large
            (y, x), (rows, columns), width = block.patch.start, block.patch.shape, self.frames.shape[1]
            patch = rows * columns, columns, width
            flat = {name: buffer if name == "count" else buffer[y * width + x :] for name, buffer in flat.items()}
        for first in range(0, len(block), kernels.MAX_FRAMES):
            places = block.places[first : first + kernels.MAX_FRAMES]
            self._add(block, places, patch, flat)
            flat["count"] += len(places) * block.last

    def _add(self, block: FrameBlock, places: np.ndarray, patch: tuple[int, int, int], buffers: Buffers) -> None:
        """Take some frames of a block.

        Args:
            patch: see `vfs.kernels.reduce.over_frames`.
            buffers: each as one axis that begins with the patch, but for "count": frames in it as wholes.
        """
        raise NotImplementedError


def _of_parts(reduction: _OfPixels, frames: FrameType, join: Join) -> JoinedParts:
    """Prepare a reduction for the parts of complex pixels.

    Raises:
        OptionError: it is to leave NaN out.
    """
    if reduction.skipna:
        raise OptionError(f"skipna=True: expected real pixels, found {frames.dtype}")
    taken = parts_of(frames)
    return JoinedParts(cast(Kernel, reduction.bound(taken)), taken, join)


@dataclass(frozen=True)
class Sum(_OfPixels):
    """Sum of every pixel over the scan.

    Args:
        dtype: of the result. None: uint64, int64 or float64, in which pixels are added up exactly, or
            complex128. A float: integers are added up in float64, too.
        over: the axes of the navigation that it goes over, by name; the others are axes of the result. Or name ->
            slice, which positions along it count: `over="z"`, `over={"z": slice(3, 9)}`. (): all axes.
        skipna: leave NaN out, as numpy's `nansum` does: what is NaN in all frames is 0, and NaN in the other
            reductions. Of integers nothing is. Pixels are then added up in tiles, in float64.
    """

    def bound(self, frames: FrameType) -> Reduction:
        if frames.dtype.kind != "c":
            return super().bound(frames)
        return _of_parts(type(self)(skipna=self.skipna), frames, join_to(self.dtype, alone=True))

    def buffers(self, frames: FrameType) -> Mapping[str, Spec]:
        assert self.total is not None
        return {"total": ("sig", self.total, ()), "count": ("single", np.int64, ())}

    def _add(self, block: FrameBlock, places: np.ndarray, patch: tuple[int, int, int], buffers: Buffers) -> None:
        total, overflow = buffers["total"], np.zeros(1, np.uint8)
        part = _strip(short_of(block.like.dtype, total.dtype))
        kernels.add_frames(places, block.like, block.order, patch, block.turned, part, total, overflow)
        fits(overflow, type(self).__name__, total.dtype)

    def merge(self, into: Buffers, other: Buffers) -> None:
        added(into["total"], other["total"], type(self).__name__)
        into["count"][...] += other["count"]

    def finish(self, buffers: Buffers) -> np.ndarray:
        return _cast(buffers["total"], self.dtype)


@dataclass(frozen=True)
class Mean(Sum):
    """Mean of every pixel over the scan. NaN where no frame is stored.

    Args:
        dtype: of the result: a float, by default float64 (complex128 of complex pixels). Integers are
            added up exactly, unless it is given.
        over, skipna: see `Sum`.
    """

    def bound(self, frames: FrameType) -> Reduction:
        if frames.dtype.kind != "c":
            float_of(np.float64 if self.dtype is None else self.dtype)
        return super().bound(frames)

    def finish(self, buffers: Buffers) -> np.ndarray:
        with np.errstate(all="ignore"):
            return _cast(buffers["total"] / buffers["count"], self.dtype)


@dataclass(frozen=True)
class Variance(_OfPixels):
    """Variance of every pixel over the scan: of all frames, not of a sample. NaN where no frame is stored.
    That of complex pixels is the mean squared distance from their mean, as in numpy.

    Args:
        dtype: of the result: a float, by default float64. Squares of integers of one or two bytes are
            added up exactly.
        over, skipna: see `Sum`.
    """

    @property
    def _exact(self) -> bool:
        assert self.frames is not None
        return taken_as(self.frames.dtype).kind in "iu" and self.frames.dtype.itemsize <= 2

    def bound(self, frames: FrameType) -> Reduction:
        float_of(np.float64 if self.dtype is None else self.dtype)
        if frames.dtype.kind != "c":
            return super().bound(frames)
        return _of_parts(
            Variance(skipna=self.skipna), frames, lambda parts: _cast(self._of_variance(parts.sum(axis=-1)), self.dtype)
        )

    def buffers(self, frames: FrameType) -> Mapping[str, Spec]:
        kinds = ("i8" if frames.dtype.kind == "i" else "u8", "u8") if self._exact else ("f8", "f8")
        return {"first": ("sig", kinds[0], ()), "second": ("sig", kinds[1], ()), "count": ("single", np.int64, ())}

    def _add(self, block: FrameBlock, places: np.ndarray, patch: tuple[int, int, int], buffers: Buffers) -> None:
        first, second = buffers["first"], buffers["second"]
        if self._exact:
            like = block.like
            part = _strip(short_of(like.dtype, first.dtype))
            squares = _strip(np.dtype("u4" if like.dtype.itemsize == 1 else "u8"))
            kernels.add_squares(places, like, block.order, patch, block.turned, part, squares, first, second)
        else:
            kernels.spread(places, block.like, block.order, patch, int(buffers["count"][0]), first, second)

    def merge(self, into: Buffers, other: Buffers) -> None:
        mine, theirs = int(into["count"]), int(other["count"])
        if self._exact:
            into["first"][...] += other["first"]
            into["second"][...] += other["second"]
        elif theirs:
            with np.errstate(all="ignore"):
                off = other["first"] - into["first"]
                into["first"][...] += off * theirs / (mine + theirs)
                into["second"][...] += other["second"] + off * off * mine * theirs / (mine + theirs)
        into["count"][...] += theirs

    def finish(self, buffers: Buffers) -> np.ndarray:
        return _cast(self._of_variance(self._variance(buffers)), self.dtype)

    def _of_variance(self, variance: np.ndarray) -> np.ndarray:
        """Return what is wanted of the variance."""
        return variance

    def _variance(self, buffers: Buffers) -> np.ndarray:
        """Return the variance in float64."""
        first, second, count = buffers["first"], buffers["second"], int(buffers["count"])
        if not count:
            return np.full(first.shape, np.nan)
        if not self._exact:
            return second / count
        # Distances from the whole part of the mean: integers, exact modulo 2 ** 64
        whole = first // first.dtype.type(count)
        rest = first - whole * first.dtype.type(count)
        squares = second - (whole * (first + rest)).view(np.uint64)
        return np.asarray(squares / count - (rest / count) ** 2)


@dataclass(frozen=True)
class Std(Variance):
    """Standard deviation of every pixel over the scan: of all frames, not of a sample. NaN where no
    frame is stored.

    Args:
        dtype, over, skipna: see `Variance`.
    """

    def _of_variance(self, variance: np.ndarray) -> np.ndarray:
        return np.asarray(np.sqrt(variance))


@dataclass(frozen=True)
class Max(_OfPixels):
    """Largest value of every pixel over the scan. NaN wins, as in numpy. Where no frame is stored
    NaN, or 0 where the result is integers.

    Args:
        dtype: of the result: None, that of the pixels, or a float.
        over, skipna: see `Sum`.
    """

    def bound(self, frames: FrameType) -> Reduction:
        float_of(np.float64 if self.dtype is None else self.dtype)
        return super().bound(frames)

    def buffers(self, frames: FrameType) -> Mapping[str, Spec]:
        return {"found": ("sig", taken_as(frames.dtype), ()), "count": ("single", np.int64, ())}

    def _add(self, block: FrameBlock, places: np.ndarray, patch: tuple[int, int, int], buffers: Buffers) -> None:
        found, lowest = buffers["found"], None if self._largest else True
        worst = None if buffers["count"][0] else found.dtype.type(_worst(found.dtype, self._largest))
        how = patch, block.turned, _strip(found.dtype)
        kernels.extremes(places, block.like, block.order, *how, found, worst, lowest)

    @property
    def _largest(self) -> bool:
        return True

    def merge(self, into: Buffers, other: Buffers) -> None:
        mine, theirs = into["found"], other["found"]
        if int(other["count"]):
            pick = np.maximum if self._largest else np.minimum
            mine[...] = pick(mine, theirs) if int(into["count"]) else theirs
        into["count"][...] += other["count"]

    def finish(self, buffers: Buffers) -> np.ndarray:
        assert self.frames is not None
        found = buffers["found"]
        if not int(buffers["count"]):
            made = self.frames.dtype if self.dtype is None else np.dtype(self.dtype)
            return np.full(found.shape, coverage.nothing(made), made)
        found = found.view(np.bool_) if self.frames.dtype.kind == "b" else found.astype(self.frames.dtype, copy=False)
        return _cast(found, self.dtype)


@dataclass(frozen=True)
class Min(Max):
    """Smallest value of every pixel over the scan. Else as `Max`.

    Args:
        dtype, over, skipna: see `Max`.
    """

    @property
    def _largest(self) -> bool:
        return False


def _worst(dtype: np.dtype, largest: bool) -> Any:
    """Return a value that every other one beats, or equals."""
    if dtype.kind == "f":
        return -np.inf if largest else np.inf
    info = np.iinfo(dtype)
    return info.min if largest else info.max
