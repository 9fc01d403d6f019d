"""Takes complex pixels as pairs of floats.

Kernels know real pixels only. To them a frame of complex pixels has one more axis, of real and
imaginary part, and what they make of the two is joined at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from vfs.errors import OptionError
from vfs.reduce.reduction import Buffers, FrameBlock, FrameType, Kernel, Spec, dtype_of, taken_as

Join = Callable[[np.ndarray], np.ndarray]


class JoinedParts(Kernel):
    """Makes a result of the parts that a kernel makes.

    Args:
        inner: makes the parts.
        taken: the frames that it is prepared for.
        join: makes the result of them.
        dims: names for its further axes.
    """

    def __init__(self, inner: Kernel, taken: FrameType, join: Join, dims: tuple[str, ...] = ()) -> None:
        self.inner, self.taken, self.join, self.dims = inner, taken, join, dims
        self.kind, self.units = inner.kind, inner.units
        self.tile_bytes, self.tile_frames = inner.tile_bytes, inner.tile_frames

    def rows(self, frames: FrameType) -> tuple[int, int]:
        return self.inner.rows(self.taken)

    def buffers(self, frames: FrameType) -> Mapping[str, Spec]:
        more = self.taken.shape[len(frames.shape) :]
        specs = self.inner.buffers(self.taken).items()
        return {name: (kind, dtype, more + extra if kind == "sig" else extra) for name, (kind, dtype, extra) in specs}

    def take(self, block: FrameBlock, buffers: Buffers, shared: Buffers) -> None:
        self.inner.take(block, buffers, shared)

    def merge(self, into: Buffers, other: Buffers) -> None:
        self.inner.merge(into, other)

    def finish(self, buffers: Buffers) -> np.ndarray:
        return self.join(self.inner.finish(buffers))

    def calibration(self) -> dict[str, dict[str, Any]]:
        return self.inner.calibration()


def parts_of(frames: FrameType) -> FrameType:
    """Describe frames of complex pixels as frames of their parts."""
    return replace(frames, shape=(*frames.shape, 2), dtype=taken_as(frames.dtype), dims=(*frames.dims, "part"))


def join_to(asked: Any, alone: bool) -> Join:
    """Make a function that joins parts, floats[…, 2 n], to complex numbers [..., n].

    Args:
        asked: dtype of the result; None: complex128.
        alone: n is 1, and the result has no such axis.

    Raises:
        OptionError: the dtype is not complex.
    """
    dtype = np.dtype(np.complex128) if asked is None else dtype_of(asked)
    if dtype not in (np.complex64, np.complex128):
        raise OptionError(f"dtype={asked!r}: expected complex128 or complex64")

    def join(parts: np.ndarray) -> np.ndarray:
        found: np.ndarray = np.ascontiguousarray(parts).view(f"c{2 * parts.itemsize}").astype(dtype, copy=False)
        return found[..., 0] if alone else found

    return join
