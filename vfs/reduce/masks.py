"""Finds the pixels of a detector whose centres lie inside a shape. Pixel (y, x) has its centre at (y, x)."""

from __future__ import annotations

import numpy as np

from vfs.buffers import aligned
from vfs.errors import OptionError
from vfs.reduce.reduction import SHORT, FrameType

GAP = 1 << 9
"""Pixels: runs of a mask that lie no further apart are taken as one. To go on through them takes less
than to begin anew, and the processor fetches ahead what it expects.
"""


def squares(shape: tuple[int, ...], cy: float, cx: float) -> np.ndarray:
    """Return float64[shape], the square of the distance of every pixel from a centre."""
    y, x = np.ogrid[: shape[0], : shape[1]]
    return np.asarray((y - cy) ** 2 + (x - cx) ** 2)


def between(shape: tuple[int, ...], cy: float, cx: float, r0: float, r1: float) -> np.ndarray:
    """Return bool[shape], the pixels at least `r0` and less than `r1` from a centre."""
    far = squares(shape, cy, cx)
    return np.asarray((far >= max(0.0, r0) ** 2) & (far < max(0.0, r1) ** 2))


def frame_of_two(name: str, shape: tuple[int, ...]) -> None:
    """Check that a frame is a picture.

    Raises:
        OptionError: it is not.
    """
    if len(shape) != 2:
        raise OptionError(f"{name}: expected frames of two axes, found {list(shape)}; Masks takes masks of any shape")


def picture(name: str, shape: tuple[int, ...]) -> tuple[int, int]:
    """Return rows and columns of a frame. One with one axis, as a spectrum, is one row.

    Raises:
        OptionError: it has no axis, or more than two.
    """
    two = (1, *shape) if len(shape) == 1 else shape
    frame_of_two(name, two)
    return two[0], two[1]


def number(name: str, value: object, what: str) -> float:
    """Return a number of pixels.

    Raises:
        OptionError: it is no finite number, or none that a distance can be made of.
    """
    try:
        found = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        found = np.nan
    if not abs(found) < 1e100:  # its square is a float
        raise OptionError(f"{name}: {what}={value!r}: expected a number of pixels")
    return found


def inside(name: str, shape: tuple[int, ...], mask: np.ndarray) -> np.ndarray:
    """Return a mask that has a pixel in it.

    Raises:
        OptionError: it has none.
    """
    if not mask.any():
        last = ", ".join(str(n - 1) for n in shape)
        raise OptionError(f"{name} has no pixel's centre inside; frames have pixels from 0, 0 to {last}")
    return mask


def measured(name: str, mask: np.ndarray, frames: FrameType, masked: bool | None) -> np.ndarray:
    """Return a mask without the pixels that the set's own mask marks, if `masked` says so.

    Raises:
        OptionError: no pixel is left.
        SourceError: its mask cannot be read.
    """
    if not masked:
        return mask
    dead = frames.masked()
    left = mask if dead is None else mask & ~dead
    if mask.any() and not left.any():
        raise OptionError(f"{name} has only pixels inside that the set's mask marks: masked=False takes them")
    return left


def runs_of(mask: np.ndarray) -> np.ndarray:
    """Find runs of pixels that hold all of a mask bool[pixels], of at most `SHORT` pixels.

    They reach from the first pixel of the mask to its last one, and not beyond: rows that hold none
    of it need not be in memory.

    Returns: int64[r, 2], first and last pixel (half-open).
    """
    inside = np.flatnonzero(mask)
    far = np.flatnonzero(np.diff(inside) > GAP) + 1
    held = [(int(one[0]), int(one[-1]) + 1) for one in np.split(inside, far) if len(one)]
    runs = [(at, min(at + SHORT, last)) for first, last in held for at in range(first, last, SHORT)]
    return np.array(runs, np.int64).reshape(-1, 2)


def words_of(mask: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return a mask bool[pixels] as words that pixels of a dtype are ANDed with."""
    word = np.dtype(f"u{dtype.itemsize}")
    words = aligned(mask.shape, word)
    words[...] = np.where(mask, word.type(np.iinfo(word).max), word.type(0))
    return words


def turned(runs: np.ndarray, words: np.ndarray, by: int) -> tuple[np.ndarray, np.ndarray]:
    """Turn what `runs_of` and `words_of` made, for frames whose pixels come backwards, `by` at a time."""
    made = aligned(words.shape, words.dtype)
    made.reshape(-1, by)[...] = words.reshape(-1, by)[:, ::-1]
    first, last = runs[:, 0] // by * by, -(-runs[:, 1] // by) * by
    return np.stack([np.maximum(first, np.r_[:1, last[:-1]][: len(first)]), last], axis=1), made


def rows_of(mask: np.ndarray) -> tuple[int, int]:
    """Find the first and last (half-open) step along the slowest axis that has something of a mask.

    Returns: 0, 1 where none has.
    """
    held = np.flatnonzero(mask.reshape(len(mask), -1).any(axis=1)) if mask.ndim else np.zeros(1, int)
    return (int(held[0]), int(held[-1]) + 1) if len(held) else (0, 1)
