"""Finds the bright-field disk of a scan: the brightest connected spot in the mean of a few frames.

The page draws its first detector there, and the server begins with its image before the page asks.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from vfs.engine.array import ArrayReader
from vfs.engine.cache import ChunkCache
from vfs.errors import OptionError, VfsError
from vfs.http.computing import picture_of, state_of
from vfs.http.views import picture

LOOKED = 256
"""Pixels along y and x of the pictures in which it is looked for."""
EDGE = 0.5
"""Of the brightest: where a disk ends."""
MOST = 1e300
"""What a pixel counts for at most, so that sums are finite."""
QUARTERS: dict[int, list[tuple[int, ...]]] = {1: [(2,), (1,), (3,)], 2: [(2, 2), (1, 1), (1, 3), (3, 1), (3, 3)]}
"""Positions that stand for a scan of so many axes: its middle, and some around."""


class CentralDisk(NamedTuple):
    """The bright-field disk of a scan: centre and radius in pixels of the frame, with one decimal."""

    cy: float
    cx: float
    r: float


def scanned(array: ArrayReader) -> bool:
    """Return True for a scan along two axes, of frames with two, of real numbers: the page shows its image at once."""
    n = array.dataset.nav_ndim
    named = all(name.startswith("scan") for name in array.dims[max(0, n - 2) : n])
    return n > 1 and named and array.ndim == n + 2 and array.size > 0 and array.dtype.kind in "biuf"


def middle(array: ArrayReader) -> tuple[int, ...]:
    """Return the part of a scan that the page shows first: indices along its axes before the last two."""
    return tuple(n // 2 for n in array.shape[: max(0, array.dataset.nav_ndim - 2)])


def centre(array: ArrayReader, within: tuple[int, ...], cache: ChunkCache) -> CentralDisk:
    """Find the disk of a scan.

    Args:
        within: indices along the axes of the scan before the last two.
        cache: keeps it.

    Returns: the disk; where all is dark or even, or no frame can be read, one in the middle.

    Raises:
        OptionError: the array is no scan of frames with two axes, or has no such part.
    """
    n = array.dataset.nav_ndim
    if not n or array.ndim - n != 2 or not array.size:
        raise OptionError(f"{array.dataset.path}: expected a scan of frames with two axes")
    picture_of(array.shape[:n], within)
    kept = cache.get(_key(array, within), lambda: np.array(_look(array, within)))
    return CentralDisk(*map(float, kept[:3]))


def at_hand(array: ArrayReader, within: tuple[int, ...], cache: ChunkCache) -> CentralDisk | None:
    """Return what `centre` has found, None if it must look."""
    kept = cache.peek(_key(array, within))
    return None if kept is None else CentralDisk(*map(float, kept[:3]))


def _key(array: ArrayReader, within: tuple[int, ...]) -> tuple[Hashable, ...]:
    return ("centre", *state_of(array), within)


def _look(array: ArrayReader, within: tuple[int, ...]) -> CentralDisk:
    """Find the disk in frames."""
    n = array.dataset.nav_ndim
    nav = array.shape[:n]
    shape = nav[-2:]
    places = {tuple((m - 1) * part // 4 for m, part in zip(shape, at, strict=True)) for at in QUARTERS[len(shape)]}
    height, width = array.shape[n:]
    mean, side = np.zeros((1, 1)), max(height, width)
    for at in sorted(places):
        try:
            numbers, side = picture(array, (*within, *at), LOOKED)
        except VfsError:  # what is wrong is said where this frame is looked at
            continue
        mean = mean + np.where(np.isfinite(numbers), numbers, 0).astype(np.float64).clip(-MOST, MOST)
    cy, cx, r = (math.floor(10 * value + 0.5) / 10 for value in find_disk(mean, side))
    return CentralDisk(cy, cx, r)


def find_disk(pattern: np.ndarray, side: int) -> CentralDisk:
    """Find centre and radius.

    Args:
        pattern: float64[height, width], finite as are sums of all its pixels.
        side: pixels of the whole frame in one of the pattern, along y and x.

    Returns: pixels of the whole frame. Where all is dark or even: the middle.
    """
    height, width = pattern.shape
    smooth = _smoothed(pattern)
    darkest, brightest = float(smooth.min()), float(smooth.max())
    middle = CentralDisk(height * side / 2 - 0.5, width * side / 2 - 0.5, min(height, width) * side / 8)
    if not brightest > darkest:
        return middle
    count, y, x = _brightest_spot(smooth, darkest + EDGE * (brightest - darkest))
    if count > 0.8 * smooth.size:
        return middle
    return CentralDisk((y + 0.5) * side - 0.5, (x + 0.5) * side - 0.5, max(1.0, math.sqrt(count / math.pi) * side))


def _smoothed(pattern: np.ndarray) -> np.ndarray:
    """Return means over 3 x 3 pixels, so that one hot pixel is not the brightest."""
    padded = np.pad(pattern, 1, mode="edge")
    across = padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]
    smooth: np.ndarray = (across[:-2] + across[1:-1] + across[2:]) / 9
    return smooth


def _brightest_spot(pattern: np.ndarray, threshold: float) -> tuple[int, float, float]:
    """Return pixels and centroid (y, x) of the connected spot with the largest sum."""
    height, width = pattern.shape
    bright = np.zeros((height, width + 2), np.int8)
    bright[:, 1:-1] = pattern >= threshold
    edges = np.diff(bright, axis=1)
    rows, first = np.nonzero(edges == 1)  # runs of bright pixels, row by row
    stop = np.nonzero(edges == -1)[1]
    sums = np.concatenate([[0.0], np.cumsum(pattern)])
    total = sums[rows * width + stop] - sums[rows * width + first]
    root = _connected(rows.tolist(), first.tolist(), stop.tolist())
    best = int(np.argmax(np.bincount(root, total)))
    own = np.asarray(root) == best
    length = (stop - first)[own]
    count = int(length.sum())
    y = float((rows[own] * length).sum()) / count
    x = float(((first[own] + stop[own] - 1) / 2 * length).sum()) / count
    return count, y, x


def _connected(rows: Sequence[int], first: Sequence[int], stop: Sequence[int]) -> list[int]:
    """Return for each run the number of one that it is connected with: the same for all of a spot."""
    root = list(range(len(rows)))

    def find(k: int) -> int:
        while root[k] != k:
            root[k] = root[root[k]]
            k = root[k]
        return k

    above = 0
    for k, row in enumerate(rows):
        while rows[above] < row - 1 or (rows[above] == row - 1 and stop[above] <= first[k]):
            above += 1
        other = above
        while rows[other] == row - 1 and first[other] < stop[k]:
            root[find(k)] = find(other)
            other += 1
    return [find(k) for k in range(len(rows))]
