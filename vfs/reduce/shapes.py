"""Sums of the pixels of every frame in a shape: `Disk`, `Ring`, `Rectangle`, `Point`, `Polygon`, cells of a `Grid`.

Pixels outside of a shape do not count, whatever they hold: a NaN there is no NaN in the result. Sums of integers are
exact. What does not fit the frames is an OptionError, which `reduce` raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vfs.errors import OptionError
from vfs.model.wording import shown
from vfs.reduce import masks
from vfs.reduce.in_frames import LabelledSums, is_count
from vfs.reduce.reduction import Buffers, FrameType, Reduction, real_pixels
from vfs.reduce.sums import masked_sums


class _Shape(Reduction):
    """Sum of the pixels whose centres lie inside a shape. Frames of one axis, as spectra, are one row."""

    dtype: Any
    masked: bool

    def bound(self, frames: FrameType) -> Reduction:
        shape = masks.picture(type(self).__name__, frames.shape)
        mask = masks.inside(str(self), shape, self.inside(shape)).reshape(frames.shape)
        mask = masks.measured(str(self), mask, frames, self.masked)
        return masked_sums(type(self).__name__, mask[None], frames, self.dtype)

    def inside(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return bool[rows, columns], the pixels inside."""
        raise NotImplementedError

    def _numbers(self, *names: str) -> list[float]:
        return [masks.number(type(self).__name__, getattr(self, name), name) for name in names]


@dataclass(frozen=True)
class Disk(_Shape):
    """Sum of the pixels of every frame that are less than `r` from (cy, cx): a bright-field image, [*scan].

    A disk that holds no pixel's centre is an OptionError; one that the edge of the frame cuts is not.

    Args:
        cy, cx: the centre, in pixels; pixel (y, x) has its centre at (y, x).
        r: radius, in pixels.
        dtype: see `FrameSum`.
        masked: True: pixels that the set's own mask marks as dead do not count. Where it has none, or `dead` replaces
            them, all count.
    """

    cy: float
    cx: float
    r: float
    dtype: Any = None
    masked: bool = False

    def inside(self, shape: tuple[int, ...]) -> np.ndarray:
        cy, cx, r = self._numbers("cy", "cx", "r")
        return masks.between(shape, cy, cx, 0, r)


@dataclass(frozen=True)
class Ring(_Shape):
    """Sum of the pixels of every frame that are at least `r0` and less than `r1` from (cy, cx): an
    annular dark-field image, [*scan]. Else as `Disk`.

    Args:
        cy, cx: the centre, in pixels; pixel (y, x) has its centre at (y, x).
        r0, r1: inner and outer radius, in pixels.
        dtype: see `FrameSum`.
        masked: see `Disk`.
    """

    cy: float
    cx: float
    r0: float
    r1: float
    dtype: Any = None
    masked: bool = False

    def inside(self, shape: tuple[int, ...]) -> np.ndarray:
        cy, cx, r0, r1 = self._numbers("cy", "cx", "r0", "r1")
        return masks.between(shape, cy, cx, r0, r1)


@dataclass(frozen=True)
class Rectangle(_Shape):
    """Sum of the pixels of every frame from (y0, x0) to (y1, x1), half-open: [*scan]. Else as `Disk`.

    A spectrum is one row: `Rectangle(0, 120, 1, 180)` is the image of its channels 120 to 179.

    Args:
        y0, x0, y1, x1: in pixels; pixel (y, x) has its centre at (y, x).
        dtype: see `FrameSum`.
        masked: see `Disk`.
    """

    y0: float
    x0: float
    y1: float
    x1: float
    dtype: Any = None
    masked: bool = False

    def inside(self, shape: tuple[int, ...]) -> np.ndarray:
        y0, x0, y1, x1 = self._numbers("y0", "x0", "y1", "x1")
        y, x = np.ogrid[: shape[0], : shape[1]]
        return np.asarray((y >= y0) & (y < y1) & (x >= x0) & (x < x1))


@dataclass(frozen=True)
class Point(_Shape):
    """Pixel (y, x) of every frame: [*scan].

    Args:
        y, x: which one, from 0; one outside of the frame is an OptionError.
        dtype: see `FrameSum`.
        masked: see `Disk`.
    """

    y: int
    x: int
    dtype: Any = None
    masked: bool = False

    def inside(self, shape: tuple[int, ...]) -> np.ndarray:
        y, x = self._numbers("y", "x")
        rows, columns = np.ogrid[: shape[0], : shape[1]]
        return np.asarray((rows == y) & (columns == x))


@dataclass(frozen=True)
class Polygon(_Shape):
    """Sum of the pixels of every frame whose centres lie in a polygon: [*scan]. Else as `Disk`.

    Where edges cross, even-odd counts. `Polygon(…).inside(shape)` is the mask bool[shape], also of a scan, for `roi`.

    Args:
        y, x: of each vertex, in pixels, at least three; pixel (y, x) has its centre at (y, x).
        dtype: see `FrameSum`.
        masked: see `Disk`.
    """

    y: Sequence[float]
    x: Sequence[float]
    dtype: Any = None
    masked: bool = False

    def inside(self, shape: tuple[int, ...]) -> np.ndarray:
        y, x = (np.array(self._vertices(name)) for name in ("y", "x"))
        if len(y) != len(x) or len(y) < 3:
            raise OptionError(f"{self}: expected y and x of three vertices or more, found {len(y)} and {len(x)}")
        rows, columns = np.arange(shape[0])[:, None], np.arange(shape[1])
        found = np.zeros(shape, bool)
        for y0, x0, y1, x1 in zip(y, x, np.roll(y, -1), np.roll(x, -1), strict=True):
            if y0 != y1:
                across = x0 + (rows - y0) * ((x1 - x0) / (y1 - y0))
                found ^= ((rows >= y0) != (rows >= y1)) & (columns < across)
        return found

    def _vertices(self, name: str) -> list[float]:
        given = getattr(self, name)
        if not isinstance(given, Sequence | np.ndarray) or isinstance(given, str) or len(given) > MAX_VERTICES:
            raise OptionError(f"Polygon: {name}={shown(given)}: expected at most {MAX_VERTICES:,} numbers of pixels")
        return [masks.number("Polygon", one, name) for one in given]


MAX_VERTICES = 1 << 12
"""Vertices of a polygon: each costs a look at every pixel."""


@dataclass(frozen=True)
class Grid(Reduction):
    """Sums of the pixels of every frame in each cell of a grid over the frame: [*scan, rows, columns].

    Virtual backscatter images are made so: each cell is a detector, and three of them may be red, green and blue. Row k
    has the rows of the frame from `round(k * height / rows)` to `round((k + 1) * height / rows)`, half-open.

    Args:
        rows, columns: of the grid, at most `MAX_CELLS` cells together.
        dtype: see `FrameSum`.
        masked: see `Disk`.
    """

    rows: int = 5
    columns: int = 5
    dtype: Any = None
    masked: bool = False

    def bound(self, frames: FrameType) -> Reduction:
        masks.frame_of_two("Grid", frames.shape)
        real_pixels("Grid", frames)
        if not (is_count(self.rows, MAX_CELLS) and is_count(self.columns, MAX_CELLS // self.rows)):
            raise OptionError(f"{self}: expected numbers of rows and columns, at most {MAX_CELLS:,} cells")
        if self.rows > frames.shape[0] or self.columns > frames.shape[1]:
            raise OptionError(
                f"{self}: frames have {frames.shape[0]} x {frames.shape[1]} pixels: a cell would have none"
            )
        rows, columns = (_cells(n, k) for n, k in zip(frames.shape, (self.rows, self.columns), strict=True))
        taken = masks.measured(str(self), np.ones(frames.shape, bool), frames, self.masked)
        return _Cells(self, np.where(taken, rows[:, None] * self.columns + columns, MAX_CELLS), frames)


def _cells(length: int, count: int) -> np.ndarray:
    """Return int64[length], the cell of each pixel along an axis that is cut into `count` cells."""
    edges = np.round(np.arange(1, count) * length / count)
    return np.searchsorted(edges, np.arange(length), "right")


class _Cells(LabelledSums):
    """Sums over the cells of a grid, prepared for frames of one kind."""

    dims = ("row", "column")

    def __init__(self, grid: Grid, cells: np.ndarray, frames: FrameType) -> None:
        super().__init__("Grid", frames, cells.astype(np.int32), grid.rows * grid.columns, grid.dtype)
        self.grid = grid.rows, grid.columns

    def finish(self, buffers: Buffers) -> np.ndarray:
        made = super().finish(buffers)
        return made.reshape(len(made), *self.grid)

    def calibration(self) -> dict[str, dict[str, Any]]:
        return {}


MAX_CELLS = 1 << 16
"""Cells of a grid: each is a number for every position of the scan."""
