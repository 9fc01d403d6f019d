"""Calculates with boxes and grids of elements: only integers, no files, no data.

A `Region` is a box with steps, in elements: `start`, `stop` (half-open) and `step` (positive) for
every axis. A `ChunkGrid` cuts a shape into regular chunks; the last chunk of an axis may reach
beyond the array. A `Selection` is a numpy index as a region and a second index.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from operator import index
from typing import Any

import numpy as np

from vfs.errors import RegionError


@dataclass(frozen=True, slots=True)
class Region:
    """A box with steps in an N-d array.

    Attributes:
        start, stop: half-open bounds in elements, one per axis, `0 <= start <= stop`.
        step: distance between neighbouring elements, one per axis, at least 1.
    """

    start: tuple[int, ...]
    stop: tuple[int, ...]
    step: tuple[int, ...]

    @classmethod
    def box(cls, start: Sequence[int], stop: Sequence[int]) -> Region:
        """Make the box from `start` to `stop` with every step 1."""
        return cls(tuple(start), tuple(stop), (1,) * len(start))

    @classmethod
    def whole(cls, shape: Sequence[int]) -> Region:
        """Make the region of a whole array of this shape."""
        return cls((0,) * len(shape), tuple(shape), (1,) * len(shape))

    @classmethod
    def of(cls, region: Region | slice | Sequence[slice], shape: Sequence[int]) -> Region:
        """Make a region from slices, by numpy's rules, and check that it fits `shape`.

        Args:
            region: a Region (checked), or at most one slice per axis with positive steps; axes not
                named are taken whole.
            shape: shape of the array.

        Raises:
            RegionError: too many axes, a step below 1, or something that is not a slice.
        """
        if isinstance(region, Region):
            if not len(region.start) == len(region.stop) == len(region.step) == len(shape):
                raise RegionError(f"region has {len(region.start)} axes, the array has {len(shape)}")
            for axis, (a, b, s, n) in enumerate(zip(region.start, region.stop, region.step, shape, strict=True)):
                if not (0 <= a <= b <= n and 1 <= s < 1 << 63):
                    raise RegionError(f"region {a}:{b}:{s} does not fit axis {axis} of length {n}")
            return region
        cuts = [region] if isinstance(region, slice) else region
        if not isinstance(cuts, Sequence):
            raise RegionError(f"a region is a tuple of slices or a vfs.Region, not {type(region).__name__}")
        if len(cuts) > len(shape):
            raise RegionError(f"region has {len(cuts)} axes, the array has {len(shape)}")
        start, stop, step = [], [], []
        for axis, n in enumerate(shape):
            cut = cuts[axis] if axis < len(cuts) else slice(None)
            if not isinstance(cut, slice):
                raise RegionError(f"axis {axis} of a region must be a slice, not {type(cut).__name__}")
            a, b, s = _indices(cut, n, axis)
            if s < 1:
                raise RegionError(f"axis {axis} of a region has step {s}; only indexing takes negative steps")
            start.append(a)
            stop.append(max(a, b))
            step.append(s)
        return cls(tuple(start), tuple(stop), tuple(step))

    def last_position(self, nav: Sequence[int]) -> int:
        """Return the flat index of the last position that the box touches along the first axes of an array.

        Args:
            nav: their lengths.

        Returns: -1 for an empty box.
        """
        if not self.size:
            return -1
        last = 0
        for start, stop, step, n in zip(self.start, self.stop, self.step, nav, strict=False):
            last = last * n + start + (stop - start - 1) // step * step
        return last

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of elements per axis."""
        return tuple([-(-(b - a) // s) for a, b, s in zip(self.start, self.stop, self.step, strict=True)])

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod([-(-(b - a) // s) for a, b, s in zip(self.start, self.stop, self.step, strict=True)])

    @property
    def slices(self) -> tuple[slice, ...]:
        """The region as an index for numpy."""
        return tuple(slice(a, b, s) for a, b, s in zip(self.start, self.stop, self.step, strict=True))

    def flat(self, shape: Sequence[int]) -> np.ndarray:
        """Return int64[size], the flat indices of its elements in an array of this shape, in C order."""
        made = np.zeros(1, np.int64)
        for n, a, b, s in zip(shape, self.start, self.stop, self.step, strict=True):
            made = (made[:, None] * n + np.arange(a, b, s)).reshape(-1)
        return made

    def halves(self) -> tuple[Region, Region]:
        """Cut the region in two, across the slowest axis that has more than one element."""
        axis = next(k for k, n in enumerate(self.shape) if n > 1)
        middle = self.start[axis] + self.shape[axis] // 2 * self.step[axis]
        stop = (*self.stop[:axis], middle, *self.stop[axis + 1 :])
        start = (*self.start[:axis], middle, *self.start[axis + 1 :])
        return Region(self.start, stop, self.step), Region(start, self.stop, self.step)

    def placed(self, inside: Region) -> Region:
        """Return this box moved by the start of the box `inside`, and cut off at its end.

        `inside` must have steps of 1. It finds the place of a part of a chunk in the array.
        """
        start, stop = (
            tuple([min(n + o, end) for n, o, end in zip(ends, inside.start, inside.stop, strict=True)])
            for ends in (self.start, self.stop)
        )
        return Region(start, stop, self.step)

    def __str__(self) -> str:
        return (
            "["
            + ", ".join(
                f"{a}:{b}" + (f":{s}" if s != 1 else "")
                for a, b, s in zip(self.start, self.stop, self.step, strict=True)
            )
            + "]"
        )


@dataclass(frozen=True, slots=True)
class ChunkGrid:
    """Cuts a shape into regular chunks, each `chunks` elements long per axis (at least 1)."""

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    counts: tuple[int, ...] = field(init=False)
    """Number of chunks per axis (0 where the axis is empty)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "counts", tuple(-(-n // c) for n, c in zip(self.shape, self.chunks, strict=True)))

    def region(self, position: Sequence[int]) -> Region:
        """Return the part of the array that the chunk at `position` holds.

        It is shorter than `chunks` at the far edges.

        Raises:
            RegionError: there is no such chunk.
        """
        if len(position) != len(self.shape) or not all(0 <= p < n for p, n in zip(position, self.counts, strict=True)):
            raise RegionError(f"chunk {tuple(position)}: the array has {self.counts} chunks")
        start = tuple([p * c for p, c in zip(position, self.chunks, strict=True)])
        stop = tuple([min(a + c, n) for a, c, n in zip(start, self.chunks, self.shape, strict=True)])
        return Region(start, stop, (1,) * len(start))

    def touched(self, region: Region) -> Iterator[tuple[int, ...]]:
        """Return the positions of the chunks that a region touches, in C order."""
        if region.size == 0:
            return iter(())
        spans = (range(a // c, -(-b // c)) for a, b, c in zip(region.start, region.stop, self.chunks, strict=True))
        return product(*spans)


def flat_boxes(shape: Sequence[int], first: int, last: int) -> Iterator[Region]:
    """Cut the elements `first` to `last` (half-open, C order) of an array into boxes, in order.

    A contiguous piece of a C-ordered array is at most `2 * ndim - 1` boxes: the rest of a row, the rest of a plane, …,
    whole steps of the slowest axis, and the same backwards.
    """
    inner = [1] * (len(shape) + 1)  # inner[k]: elements below one step along axis k - 1
    for axis in range(len(shape) - 1, -1, -1):
        inner[axis] = inner[axis + 1] * shape[axis]
    while first < last:
        # the slowest axis along which whole steps can be taken from here
        axis = next(k for k in range(len(shape) + 1) if first % inner[k] == 0 and first + inner[k] <= last)
        if axis == 0:
            yield Region.whole(shape)
            return
        rows = (last - first) // inner[axis]
        start = [first // inner[k + 1] % shape[k] for k in range(len(shape))]
        rows = min(rows, shape[axis - 1] - start[axis - 1])
        stop = [a + 1 for a in start]
        stop[axis - 1] = start[axis - 1] + rows
        for k in range(axis, len(shape)):
            start[k], stop[k] = 0, shape[k]
        yield Region(tuple(start), tuple(stop), (1,) * len(shape))
        first += rows * inner[axis]


def _indices(cut: slice, length: int, axis: int) -> tuple[int, int, int]:
    """Do what `slice.indices` does, with our errors. A step beyond the axis is as long as the axis."""
    try:
        start, stop, step = cut.indices(length)
        return start, stop, max(-max(1, length), min(max(1, length), step))
    except (TypeError, ValueError) as error:  # bounds that are not integers, or a step of 0
        raise RegionError(f"axis {axis}: {cut} cannot be used: {error}") from None


@dataclass(frozen=True, slots=True)
class Selection:
    """A numpy basic index in two steps: read `region`, then apply `post` to what was read.

    Attributes:
        region: the box to read.
        post: index for numpy. It drops the axes that were integers and applies negative steps, and
            the steps of the last axis, which is read in one piece. It ends with Ellipsis if the
            index had one: numpy then returns an array, not a scalar, even if no axes are left.
    """

    region: Region
    post: tuple[Any, ...]


def _is_integer(part: object) -> bool:
    if isinstance(part, bool | np.bool_) or getattr(part, "ndim", 0) != 0:
        return False
    try:
        index(part)  # type: ignore[arg-type]
    except TypeError:
        return False
    return True


def _filled(parts: tuple[Any, ...], ndim: int) -> tuple[Any, ...]:
    """Return an integer or a slice for each of `ndim` axes: those of an index, and whole axes where it has none.

    Raises:
        RegionError: see `select`.
    """
    for part in parts:
        if part is None:
            raise RegionError(
                "np.newaxis is not supported: index first, then add axes to the numpy array that comes back"
            )
        if not (part is Ellipsis or isinstance(part, slice) or _is_integer(part)):
            kind = f"an array of {part.dtype}" if isinstance(part, np.ndarray) else type(part).__name__
            raise RegionError(
                f"basic indexing takes integers, slices and Ellipsis, not {kind}; for masks and lists use"
                " a.zarr().oindex or read a box first"
            )
    dots = sum(part is Ellipsis for part in parts)
    if dots > 1:
        raise RegionError("an index can only have a single Ellipsis")
    given = len(parts) - dots
    if given > ndim:
        raise RegionError(f"too many indices: the array has {ndim} axes, {given} were given")
    at = next((i for i, part in enumerate(parts) if part is Ellipsis), len(parts))
    return parts[:at] + (slice(None),) * (ndim - given) + parts[at + 1 :]


def select(key: object, shape: Sequence[int]) -> Selection:
    """Translate a numpy basic index into a `Selection`.

    Raises:
        RegionError: the index has newaxis, arrays, lists, masks or floats, is out of bounds, or has
            too many parts.
    """
    if type(key) is int and shape and -shape[0] <= key < shape[0]:  # one frame: the most frequent index
        i, ones = key % shape[0], (1,) * len(shape)
        return Selection(Region((i,) + (0,) * (len(shape) - 1), (i + 1, *shape[1:]), ones), (0,))
    parts = key if isinstance(key, tuple) else (key,)
    full = _filled(parts, len(shape))

    start, stop, step = [], [], []
    post: list[Any] = []
    after: int | slice
    for axis, (part, n) in enumerate(zip(full, shape, strict=True)):
        if not isinstance(part, slice):
            i = index(part)
            if not -n <= i < n:
                raise RegionError(f"index {i} is out of bounds for axis {axis} of length {n}")
            a, b, s, after = i % n, i % n + 1, 1, 0
        else:
            a, b, s = _indices(part, n, axis)
            count = max(0, -(-(b - a) // s) if s > 0 else -(-(a - b) // -s))
            reverse = s < 0
            if reverse:
                a, s = a + (count - 1) * s, -s
            a = max(a, 0) if count else 0
            b = a + (count - 1) * s + 1 if count else a
            after = slice(None, None, -1 if reverse else None)
            if axis == len(shape) - 1 and s > 1:  # pixels of a row lie together: read the row once, then pick
                after = slice(None, None, s) if not reverse else slice(None, None, -s)
                if reverse and count:
                    after = slice((count - 1) * s, None, -s)
                s = 1
        start.append(a)
        stop.append(b)
        step.append(s)
        post.append(after)
    if any(part is Ellipsis for part in parts):
        post.append(Ellipsis)
    return Selection(Region(tuple(start), tuple(stop), tuple(step)), tuple(post))
