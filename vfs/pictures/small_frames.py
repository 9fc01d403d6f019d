"""Reads frames as pictures that fit a screen: of a larger one the means of squares of its pixels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from vfs.engine.array import ArrayReader
from vfs.errors import OptionError
from vfs.model.region import Region
from vfs.pictures.frames import MAX_FRAME_BYTES, FrameView, is_masked, look, with_nan, without_masked

PARTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "abs": np.abs,
    "phase": np.angle,
    "real": np.real,
    "imag": np.imag,
}
"""What can be shown of complex numbers."""
MAX_LINES = 3
"""Rows or columns that are not binned: the page draws them as lines."""
BAND = 16 << 20  # bytes of a large frame that are read at once


def small_frame(
    array: ArrayReader, at: Sequence[int], most: int, part: str = "abs", plane: tuple[int, ...] = ()
) -> tuple[np.ndarray, int]:
    """Read a frame of an array, or a smaller picture of it.

    Args:
        at: an index along each axis that is not shown.
        most: rows and columns that the picture may have. One with more is binned: each number is
            the mean of a square of pixels that are numbers, or of those of a row or column where
            there are no more than `MAX_LINES` of them.
        part: of complex numbers, see `PARTS`.
        plane: two axes that are shown as rows and columns, instead of those of the frame.

    Returns: numbers, [], [n], [rows, columns] or [rows, columns, samples]; and the side of the squares.

    Raises:
        OptionError: there is no such picture.
        SourceError: it cannot be read.
    """
    view = checked_view(array, at, plane)
    factor = _factor(view, most)
    frame = frame_bytes(view)
    if is_sampled(view):
        return _sampled(view, at, most)
    lines = view.sizes[0] if view.sizes else 1
    if not frame:
        return np.zeros(_shape(view, 1), np.uint8), 1
    step = max(1, BAND // (frame // lines) // factor) * factor if factor > 1 else lines
    sides = _sides(view, factor)
    bands = [
        binned(shown_part(view, at, range(first, min(first + step, lines)), None, part), sides)
        for first in range(0, lines, step)
    ]
    made = bands[0] if len(bands) == 1 else np.concatenate(bands)
    return made if view.palette is None else np.rint(made).astype(np.uint8), factor


def size_of(
    array: ArrayReader, at: Sequence[int], most: int, part: str = "abs", plane: tuple[int, ...] = ()
) -> tuple[int, np.dtype]:
    """Return how many numbers a picture has, or a few more, and of which dtype, before it is read.

    Arguments are those of `small_frame`.

    Raises:
        OptionError: there is no such picture.
    """
    view = checked_view(array, at, plane)
    factor = _factor(view, most)
    if is_sampled(view):
        return math.prod(min(n, most) for n in view.sizes), np.dtype(np.float64)
    read = part_of(np.zeros(1, array.dtype), part)
    if factor > 1:
        return math.prod(_shape(view, factor)), np.dtype(np.float32)
    return math.prod(_shape(view, factor)), with_nan(read.dtype) if is_masked(view) else read.dtype


def checked_view(array: ArrayReader, at: Sequence[int], plane: tuple[int, ...] = ()) -> FrameView:
    """Return how a picture lies in an array.

    Args:
        at: an index along each axis that is not shown.
        plane: see `small_frame`.

    Raises:
        OptionError: there is none.
    """
    view = FrameView.of(array)
    if plane:
        axes = sorted({*view.where, *view.shown})
        if len(set(plane)) != 2 or not set(plane) <= set(axes):
            raise OptionError(f"plane={','.join(map(str, plane))}: expected two of the axes {axes}")
        view = replace(view, where=tuple(k for k in axes if k not in plane), shown=plane)
    if array.dtype.kind not in "biufcmM":
        raise OptionError(f"{array.dataset.path} is {array.dtype}: expected numbers")
    if not all(view.counts):
        raise OptionError(f"{array.dataset.path} has shape {list(array.shape)}: there is nothing to show")
    if len(at) != len(view.where) or not all(0 <= k < n for k, n in zip(at, view.counts, strict=True)):
        each = ", ".join(f"{array.dims[k]} 0 to {array.shape[k] - 1}" for k in view.where)
        raise OptionError(f"at={','.join(map(str, at))}: expected {each or 'no index'}")
    return view


def _factor(view: FrameView, most: int) -> int:
    """Return the side of the squares of which a picture has means."""
    return max(1, *(-(-n // most) for n in view.sizes)) if view.sizes else 1


def _sides(view: FrameView, factor: int) -> list[int]:
    """Return how many pixels become one, along each axis."""
    return [1 if len(view.sizes) == 2 and n <= MAX_LINES else factor for n in view.sizes]


def _shape(view: FrameView, factor: int) -> list[int]:
    """Return the shape of a picture."""
    sizes = [-(-n // side) for n, side in zip(view.sizes, _sides(view, factor), strict=True)]
    return [*sizes, *([] if view.colour is None and view.palette is None else [view.samples])]


def frame_bytes(view: FrameView) -> int:
    """Return the bytes of a picture, as they are read."""
    return math.prod(view.sizes) * view.samples * view.array.dtype.itemsize


def is_sampled(view: FrameView) -> bool:
    """Return True if a picture is too large to be read: a smaller one of it is made of rows or tiles from all over."""
    return frame_bytes(view) > MAX_FRAME_BYTES


def part_of(values: np.ndarray, part: str) -> np.ndarray:
    """Return what is shown of complex numbers; others as they are."""
    return PARTS[part](values) if values.dtype.kind == "c" else values


def shown_part(view: FrameView, at: Sequence[int], rows: range, columns: range | None, part: str) -> np.ndarray:
    """Read rows of a picture, with its axes in their order, colours last.

    Args:
        at: an index along each axis that is not shown.
        columns: of a picture with rows and columns; None: all.
        part: of complex numbers, see `PARTS`.

    Raises:
        SourceError: it cannot be read.
    """
    array = view.array
    read = array.read(Region.of(_box(view, at, rows, columns), array.shape))
    kept = [*view.shown, *(() if view.colour is None else (view.colour,))]
    values = read.transpose([*view.where, *kept])[(0,) * len(view.where)]
    if view.palette is not None:
        return view.coloured(values)
    return without_masked(view, part_of(values, part), rows, columns)


def _box(view: FrameView, at: Sequence[int], rows: range, columns: range | None) -> list[slice]:
    box = [slice(0, n) for n in view.array.shape]
    for axis, k in zip(view.where, at, strict=True):
        box[axis] = slice(k, k + 1)
    if view.shown:
        box[view.shown[0]] = slice(rows.start, rows.stop)
    if columns is not None:
        box[view.shown[1]] = slice(columns.start, columns.stop)
    return box


def binned(values: np.ndarray, sides: Sequence[int]) -> np.ndarray:
    """Average boxes of pixels, so many along each of the first axes. Those that are not finite do not count."""
    if all(side == 1 for side in sides):
        return values
    if values.dtype.kind in "mM":
        values = np.where(np.isnat(values), np.nan, values.astype(np.int64).astype(np.float64))
    good = np.isfinite(values)
    sums: np.ndarray = np.where(good, values, 0).astype(np.float64)
    counts = good.astype(np.float64)
    for axis, side in enumerate(sides):
        edges = np.arange(0, values.shape[axis], side)
        sums, counts = (np.add.reduceat(part, edges, axis=axis) for part in (sums, counts))
    with np.errstate(all="ignore"):
        return np.where(counts > 0, sums / counts, np.nan).astype(np.float32)


def _sampled(view: FrameView, at: Sequence[int], most: int) -> tuple[np.ndarray, int]:
    """Look at a frame that is too large to be read: at rows of it at even distances, or at tiles."""
    if len(view.shown) != 2:
        raise OptionError(f"{view.array.dataset.path}: a line of {view.sizes[0]:,} numbers is too long to be shown")
    drawn = look(view, at, most, most).picture
    made = drawn.astype(np.float32) if view.palette is None else np.nan_to_num(drawn).astype(np.uint8)
    return made, max(1, round(view.sizes[0] / max(1, len(drawn))))
