"""What a reduction is.

A reduction turns frames into a result. It says which buffers it needs, takes tiles of frames into
them, merges the buffers of two threads, and makes the result of what is in them at the end. It
keeps nothing itself: one object may work for many threads and many passes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vfs.errors import OptionError
from vfs.model.region import Region

KINDS = ("nav", "sig", "single")

Spec = tuple[str, Any, tuple[int, ...]]
"""A buffer: its kind, its dtype, its extra shape."""


@dataclass(frozen=True)
class FrameType:
    """What all frames of a pass have in common.

    Attributes:
        shape: of a frame; dtype: of its pixels, in native byte order.
        count: number of frames that were selected, blank ones too.
        dims: a name for each axis of a frame. units: of a pixel, "" where nobody says.
        calibration: see `VirtualArray.calibration`, of these axes.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    count: int
    dims: tuple[str, ...] = ()
    units: str = ""
    calibration: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Pixels of a frame."""
        return math.prod(self.shape)


@dataclass(frozen=True, eq=False)
class FrameBlock:
    """Some frames in reach of kernels, for as long as a tile lives.

    Attributes:
        places, like, order: see `vfs.kernels.reduce`.
        at: int64[n], the places in the selection that the frames have.
        elements: [n, rows, …] in native byte order and at their places; None where the frames are
            to be had by `places` only.
        memory: what the addresses lead to.
    """

    places: np.ndarray
    like: np.ndarray
    order: bool | None
    at: np.ndarray
    elements: np.ndarray | None
    memory: Any

    def __len__(self) -> int:
        return len(self.at)


class Reduction:
    """Frames to a result. Subclass it: say `kind`, `buffers` and `process`, and whatever of the
    rest is not right as it is.

    Attributes:
        kind: of the result: "nav" (for each position of the scan), "sig" (for each pixel of a frame), "single".
        dims: a name for each further axis of the result. units: of its values; None: those of the pixels.
        tile_bytes: how much is best taken at once, in bytes of frames. What must be decoded comes
            in the tiles that suit its decoder.
    """

    kind: str = "nav"
    dims: tuple[str, ...] = ()
    units: str | None = ""
    tile_bytes: int = 1 << 19

    def bound(self, frames: FrameType) -> Reduction:
        """This reduction for these frames: the place to check that it fits them, and to prepare what all threads share.

        Raises:
            OptionError: it does not fit.
        """
        return self

    def buffers(self, frames: FrameType) -> Mapping[str, Spec]:
        """Name -> (kind, dtype, extra shape) of every buffer. They begin as zeros.

        A "nav" buffer is [selected frames, *extra shape], and all threads share it; a "sig" one is
        [*frame, *extra shape] and a "single" one [*extra shape], of which every thread has its own.
        """
        raise NotImplementedError(f"{type(self).__name__}.buffers")

    def process(self, tile: np.ndarray, region: Region, buffers: Mapping[str, np.ndarray]) -> None:
        """Take a tile of frames. Called by many threads at once, each with its own buffers.

        Args:
            tile: [n, *frame], read-only by agreement, gone after the call. Frames that are not stored are left out.
            region: where these frames are among those selected, as one axis, and the whole frame.
            buffers: as `buffers` said; of "nav" ones the part of these n frames.
        """
        raise NotImplementedError(f"{type(self).__name__}.process")

    def merge(self, into: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> None:
        """Take the "sig" and "single" buffers of another thread into one's own. They are added
        where nothing else is said.
        """
        for name, buffer in into.items():
            buffer += other[name]

    def finish(self, buffers: Mapping[str, np.ndarray]) -> np.ndarray:
        """The result: of kind "nav" [selected frames, …], "sig" [*frame, …], else anything. By
        default the only buffer.
        """
        if len(buffers) != 1:
            raise OptionError(
                f"{type(self).__name__} has the buffers {', '.join(buffers)}: its `finish` must say what the result is"
            )
        return next(iter(buffers.values()))

    def calibration(self) -> dict[str, dict[str, Any]]:
        """Where values along `dims` are: as `VirtualArray.calibration`."""
        return {}

    def take(self, block: FrameBlock, buffers: Mapping[str, np.ndarray], shared: Mapping[str, np.ndarray]) -> None:
        """Take frames, in tiles.

        Args:
            buffers: of this thread; shared: the "nav" ones, whole.
        """
        tile = block.elements
        assert tile is not None, "frames whose place is all that is known are for kernels"
        first, last = int(block.at[0]), int(block.at[-1]) + 1
        region = Region.box((first, *[0] * (tile.ndim - 1)), (last, *tile.shape[1:]))
        self.process(tile, region, {**buffers, **{name: buffer[first:last] for name, buffer in shared.items()}})

    def rows(self, frames: FrameType) -> tuple[int, int]:
        """The first and last (half-open) step along the slowest axis of a frame that are looked at:
        the others need not be decoded.
        """
        return (0, frames.shape[0]) if frames.shape else (0, 1)


class Kernel(Reduction):
    """A reduction that takes frames by their addresses, wherever they are: `take` and perhaps
    `rows` instead of `process`.
    """

    tile_bytes = 2 << 20


def real_pixels(name: str, frames: FrameType) -> None:
    """Check that frames have pixels that kernels can take.

    Raises:
        OptionError: they have not.
    """
    if frames.dtype.kind not in "biuf":
        raise OptionError(
            f"{name}: frames are {frames.dtype}, expected real pixels; open the array with another"
            " dtype=, or write a Reduction of your own"
        )


def taken_as(dtype: np.dtype) -> np.dtype:
    """The dtype that kernels take pixels as: of bool bytes; the others as they are."""
    if dtype.kind == "b":
        return np.dtype(np.uint8)
    return np.dtype(np.float32) if dtype == np.float16 else dtype


def dtype_of(asked: Any) -> np.dtype:
    """A dtype that was asked for; that of objects where it is none."""
    made: np.dtype = np.dtype(object)
    with suppress(TypeError):
        made = np.dtype(asked)
    return made


def total_of(dtype: np.dtype, asked: Any, name: str) -> np.dtype:
    """What pixels are added up in: uint64, int64 or float64.

    Args:
        asked: `dtype=` of the reduction: None, a float, or the integers that are added up in anyway.

    Raises:
        OptionError: it is something else.
    """
    own = np.dtype(np.float64 if dtype.kind == "f" else np.int64 if dtype.kind == "i" else np.uint64)
    if asked is None:
        return own
    target = dtype_of(asked)
    if not (target.kind == "f" or target == own) or target.itemsize > 8:
        raise OptionError(
            f"{name}: dtype={asked!r}: expected float64, float32, float16 or {own}, in which"
            f" {dtype} pixels are added up exactly"
        )
    return np.dtype(np.float64) if target.kind == "f" else own


def fits(overflow: np.ndarray, name: str, total: np.dtype) -> None:
    """Raise where a kernel said that a sum does not fit.

    Raises:
        OptionError: it does not.
    """
    if overflow[0]:
        raise OptionError(f"{name}: a sum is larger than {total} holds; dtype='f8' adds up in float64")


def added(into: np.ndarray, other: np.ndarray, name: str) -> None:
    """into += other, checked.

    Raises:
        OptionError: a sum does not fit.
    """
    with np.errstate(all="ignore"):
        made = into + other
    wrong = np.zeros(1, bool)
    if into.dtype.kind == "u":
        wrong = np.asarray(made < other)
    elif into.dtype.kind == "i":
        wrong = np.asarray(((made ^ into) & (made ^ other)) < 0)
    fits(np.array([wrong.any()]), name, into.dtype)
    into[...] = made
