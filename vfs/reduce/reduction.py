"""Defines reductions, and what they know of the frames they take.

A reduction turns frames into a result. It names the buffers it needs, takes tiles of frames into
them, merges the buffers of two threads, and makes the result of them at the end. It keeps nothing
itself: one object may serve many threads and many passes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Flag, auto
from typing import Any

import numpy as np

from vfs.errors import OptionError
from vfs.model.region import Region

KINDS = ("nav", "sig", "single")

Buffers = Mapping[str, np.ndarray]
Spec = tuple[str, Any, tuple[int, ...]]
"""A buffer: its kind, its dtype, its extra shape."""


def _all_measured() -> None:
    return None


def _no_background() -> np.ndarray:
    raise OptionError("these frames have no static background")


@dataclass(frozen=True)
class FrameType:
    """Describes what all frames of a pass have in common.

    Attributes:
        shape: of a frame.
        dtype: of its pixels, in native byte order.
        count: number of frames that were selected, blank ones too.
        dims: a name for each axis of a frame.
        units: of a pixel, "" where nobody says.
        calibration: see `VirtualArray.calibration`, of these axes.
        masked: returns bool[*shape], the pixels that the set's own mask marks; None: it marks none.
        background: returns float[*shape], the static background of frames: an image of the set, else their mean.
        nav: shape of the navigation; nav_dims: a name for each of its axes.
        positions: int64[count], flat positions in the navigation that were selected; None: all.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    count: int
    dims: tuple[str, ...] = ()
    units: str = ""
    calibration: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    masked: Callable[[], np.ndarray | None] = _all_measured
    background: Callable[[], np.ndarray] = field(default=_no_background, compare=False)
    nav: tuple[int, ...] = ()
    nav_dims: tuple[str, ...] = ()
    positions: np.ndarray | None = field(default=None, compare=False)

    @property
    def size(self) -> int:
        """Pixels of a frame."""
        return math.prod(self.shape)

    @property
    def steps(self) -> int:
        """Steps along the slowest axis of a frame: the rows of a picture."""
        return self.shape[0] if self.shape else 1


@dataclass(frozen=True, eq=False)
class FrameBlock:
    """Holds some frames in reach of kernels, until the next block is made.

    Attributes:
        places, like, order: see `vfs.kernels.reduce`.
        at: int64[n], the entries of "nav" buffers that the frames have; origin: the place in the selection of entry 0.
        elements: [n, rows, …] in native byte order; None where frames can be had by `places` only.
        memory: what the addresses lead to.
        turned: so many pixels come backwards at a time, along the last axis, which is a multiple of it; 1: none do.
        patch: the box of each frame that this is, for kernels that take patches; None: all that is looked at.
        last: no more of these frames follows.
    """

    places: np.ndarray
    like: np.ndarray
    order: bool | None
    at: np.ndarray
    elements: np.ndarray | None
    memory: Any
    turned: int = 1
    patch: Region | None = None
    last: bool = True
    origin: int = 0

    def __len__(self) -> int:
        return len(self.at)


class Takes(Flag):
    """Ways in which a reduction can take frames, other than in tiles that are decoded."""

    TILES = 0
    """No other way."""
    PLACES = auto()
    """By their addresses, wherever they lie, also in a mapped file."""
    TURNED = auto()
    """By their addresses also where pixels come backwards, some at a time."""
    PATCHES = auto()
    """In patches: one patch of some frames after the other, then those of the next ones."""


class Reduction:
    """Turns frames into a result. Subclass it to write your own.

    Say `kind`, `buffers` and `process`, and whatever else is not right as it is. The page
    `reductions` (`vfs docs reductions`) has an example.

    Attributes:
        kind: of the result: "nav" (a value, or an array, for each position of the scan), "sig" (for
            each pixel of a frame) or "single".
        dims: a name for each further axis of the result.
        units: of its values; None: those of the pixels.
        tile_bytes: bytes of frames that are best taken at once. It is a wish: frames that must be
            decoded come in tiles that suit their decoder, and several reductions share tiles.
        tile_frames: frames that are best taken at once at least, where frames are large.
        takes: ways in which it can take frames; kernels know more than tiles.
    """

    kind: str = "nav"
    dims: tuple[str, ...] = ()
    units: str | None = ""
    tile_bytes: int = 1 << 19
    tile_frames: int = 1
    takes: Takes = Takes.TILES

    def bound(self, frames: FrameType) -> Reduction:
        """Prepare this reduction for frames of one kind: check that it fits them, and make what all threads share.

        Returns: this reduction, or another one that does the work.

        Raises:
            OptionError: it does not fit.
        """
        return self

    def buffers(self, frames: FrameType) -> Mapping[str, Spec]:
        """Name the buffers that the reduction needs. They begin as zeros.

        Returns: name -> (kind, dtype, extra shape). A "nav" buffer is [selected frames, *extra
            shape], and all threads share it. A "sig" one is [*frame, *extra shape] and a "single"
            one [*extra shape]; every thread has its own.

        Raises:
            OptionError: a subclass does not have this method.
        """
        raise OptionError(
            f"{type(self).__name__} names no buffers: a Reduction needs the methods `buffers` and `process`"
        )

    def process(self, tile: np.ndarray, region: Region, buffers: Buffers) -> None:
        """Take a tile of frames. Many threads call it at once, each with its own buffers.

        Args:
            tile: [n, *frame], read-only, gone after the call. Frames that are not stored are left out.
            region: where these frames are among those selected, as one axis, and the whole frame.
            buffers: as `buffers` named them; of "nav" ones the part of these n frames.

        Raises:
            OptionError: a subclass does not have this method.
        """
        raise OptionError(
            f"{type(self).__name__} takes no tiles: a Reduction needs the methods `buffers` and `process`"
        )

    def merge(self, into: Buffers, other: Buffers) -> None:
        """Take the "sig" and "single" buffers of another thread into one's own. Without this method they are added."""
        for name, buffer in into.items():
            buffer += other[name]

    def finish(self, buffers: Buffers) -> np.ndarray:
        """Make the result. Without this method it is the only buffer.

        Returns: of kind "nav" [selected frames, …], of kind "sig" [*frame, …], else any array.

        Raises:
            OptionError: there are several buffers, and a subclass does not have this method.
        """
        if len(buffers) != 1:
            names = ", ".join(buffers)
            raise OptionError(
                f"{type(self).__name__} has the buffers {names}: its `finish` must say what the result is"
            )
        return next(iter(buffers.values()))

    def calibration(self) -> dict[str, dict[str, Any]]:
        """Say where the values along `dims` are, as `VirtualArray.calibration` does."""
        return {}

    def take(self, block: FrameBlock, buffers: Buffers, shared: Buffers) -> None:
        """Take frames, in tiles.

        Args:
            buffers: of this thread; shared: the "nav" ones, with an entry for each frame of this pass.
        """
        assert block.elements is not None, "frames whose place is all that is known are for kernels"
        tile = block.elements.view()
        tile.flags.writeable = False
        first, last = int(block.at[0]), int(block.at[-1]) + 1
        start, zeros = first + block.origin, [0] * (tile.ndim - 1)
        region = Region.box((start, *zeros), (start + last - first, *tile.shape[1:]))
        self.process(tile, region, {**buffers, **{name: buffer[first:last] for name, buffer in shared.items()}})


class Kernel(Reduction):
    """Takes frames by their addresses, wherever they are: has `take`, and perhaps `rows`, instead of `process`."""

    takes = Takes.PLACES
    tile_bytes = 16 << 20  # a block costs 10 µs, and in frames that are taken where they lie nothing stays in cache

    def rows(self, frames: FrameType) -> tuple[int, int]:
        """Find the first and last (half-open) step along the slowest axis of a frame that are looked
        at. The others need not be read.
        """
        return 0, frames.steps


def real_pixels(name: str, frames: FrameType) -> None:
    """Check that frames have pixels that kernels can take.

    Raises:
        OptionError: they have not.
    """
    if frames.dtype.kind not in "biuf":
        raise OptionError(
            f"{name}: frames are {frames.dtype}, expected real pixels; complex ones are for Sum, Mean, Variance,"
            " Std, FrameSum, Disk, Ring, Rectangle, Point, RadialSum, Masks and a Reduction of your own"
        )


def taken_as(dtype: np.dtype) -> np.dtype:
    """Return the dtype that kernels take pixels as: bytes for bool, float32 for float16, of complex pixels
    that of their parts, else what they are.
    """
    if dtype.kind == "b":
        return np.dtype(np.uint8)
    if dtype.kind == "c":
        return np.dtype(f"f{dtype.itemsize // 2}")
    return np.dtype(np.float32) if dtype == np.float16 else dtype


def dtype_of(asked: Any) -> np.dtype:
    """Return a dtype that was asked for; that of objects where it is none."""
    made: np.dtype = np.dtype(object)
    with suppress(TypeError, ValueError, SyntaxError):  # numpy takes texts of some kinds for Python
        made = np.dtype(asked)
    return made


def float_of(asked: Any) -> np.dtype:
    """Return a float dtype that results are asked for in.

    Raises:
        OptionError: it is something else.
    """
    made = dtype_of(asked)
    if made.kind != "f" or made.itemsize > 8:
        raise OptionError(f"dtype={asked!r}: expected float64, float32 or float16")
    return made


def total_of(dtype: np.dtype, asked: Any, name: str) -> np.dtype:
    """Choose the dtype that pixels are added up in: uint64, int64 or float64.

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


SHORT = 1 << 15
"""Pixels of 1 or 2 bytes that add up to what 4 bytes hold: a processor adds up twice as many of these at a time."""


def short_of(pixels: np.dtype, total: np.dtype) -> np.dtype:
    """Choose the dtype that at most `SHORT` pixels are added up in, before that is added to a total."""
    short = pixels.kind in "iu" and pixels.itemsize <= 2
    return np.dtype(f"{pixels.kind}4") if short else total


def fits(overflow: np.ndarray, name: str, total: np.dtype) -> None:
    """Check what a kernel said of the sums that it made.

    Raises:
        OptionError: one does not fit.
    """
    if overflow[0]:
        raise OptionError(f"{name}: a sum is larger than {total} holds; dtype='f8' adds up in float64")


def added(into: np.ndarray, other: np.ndarray, name: str) -> None:
    """Add `other` to `into`, and check that all sums fit.

    Raises:
        OptionError: one does not.
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
