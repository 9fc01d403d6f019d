"""Finds the bright-field disk of a scan: the brightest connected spot in the mean of a few frames.

The page draws its first detector there; `vfs.BrightField` and its like are around it.

Noise has bright spots, too. So a spot is looked for in every second pixel, as on a chessboard, and the other pixels
must confirm it: in noise they know nothing of it. What is too weak for single pixels is looked for in larger ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from vfs.engine.array import ArrayReader, ahead
from vfs.engine.pixel_masks import masked_pixels
from vfs.errors import OptionError, VfsError
from vfs.pictures.small_frames import small_frame

LOOKED = 256
"""Pixels along y and x of the pictures in which it is looked for."""
EDGE = 0.5
"""Of the brightest: where a disk ends."""
MAX_PIXEL = 1e300
"""What a pixel counts for at most, so that sums are finite."""
MIN_SIDE = 8
"""Fewest rows and columns in which a disk is looked for with larger pixels."""
SURE = 5.0
"""Standard errors by which the other pixels of a spot are brighter than the rest. Of 2,000 patterns of noise (normal,
uniform, or few counts) none reached it; a disk of 11 pixels across in 32 x 32 reaches 20."""
ALONE = 1.0
"""Standard deviations of parts beside a spot by which it is brighter than the brightest of so many parts of noise.
Where pixels know of each other (smooth noise), others confirm a spot; but parts elsewhere are as bright."""
PARTS = 6
"""Fewest parts beside a spot that tell how bright parts are."""
COVERED = 0.8
"""Part of the frame that a disk covers at most."""
SLOPE = 0.62
"""Part of its box that a spot in a corner of the frame fills at least. A quarter of a disk has 0.79, a triangle 0.5."""
ROUND, WHOLE = 0.75, 0.9
"""Part of the ellipse with its second moments that a spot fills at least, and one that reaches from edge to edge both
ways. A disk has 1, one with flares 0.8; a triangle 0.83, three quarters of a frame 0.87, smooth noise 0.7."""
EVEN = 0.25
"""What varies beside a spot at most, as standard deviation, for each unit that the spot is brighter. Disks have 0.03 to
0.2, also with others around; smooth noise has 0.3 to 1."""
CORNERS = 0.15
"""Part of the height and width of a spot's box in which each of its corners is dark. A disk leaves 0.146."""
CORNERED, HALF = 12, 0.6
"""Fewest rows and columns of a spot whose corners are looked at; depth by width, at most, of half of a disk."""
QUARTERS: dict[int, list[tuple[int, ...]]] = {1: [(2,), (1,), (3,)], 2: [(2, 2), (1, 1), (1, 3), (3, 1), (3, 3)]}
"""Positions that stand for a scan of so many axes: its middle, and some around."""


class CentralDisk(NamedTuple):
    """The bright-field disk of a scan: centre and radius in pixels of the frame, with one decimal.

    Attributes:
        found: False: there is none, and this one is in the middle of the frame.
    """

    cy: float
    cx: float
    r: float
    found: bool = True


class Spot(NamedTuple):
    """A connected spot: its pixels bool[height, width], and what the dimmest of them has."""

    mask: np.ndarray
    threshold: float


def scanned(array: ArrayReader) -> bool:
    """Return True for a scan along two axes, of frames with two, of real numbers: the page shows its image at once."""
    n = array.dataset.nav_ndim
    named = all(name.startswith("scan") for name in array.dims[max(0, n - 2) : n])
    return n > 1 and named and array.ndim == n + 2 and array.size > 0 and array.dtype.kind in "biuf"


def middle(array: ArrayReader) -> tuple[int, ...]:
    """Return the part of a scan that the page shows first: indices along its axes before the last two."""
    return tuple(n // 2 for n in array.shape[: max(0, array.dataset.nav_ndim - 2)])


def central_disk(array: ArrayReader, within: tuple[int, ...]) -> CentralDisk:
    """Find the disk of a scan, in its middle frame and four around.

    Args:
        within: indices along the axes of the scan before the last two.

    Raises:
        OptionError: the array is no scan of frames with two axes of real numbers.
        SourceError: no frame can be read.
    """
    n = array.dataset.nav_ndim
    if not n or array.ndim - n != 2 or not array.size or array.dtype.kind not in "biuf":
        raise OptionError(f"{array.dataset.path}: expected a scan of frames with two axes, of real numbers")
    nav = array.shape[:n]
    shape = nav[-2:]
    places = {tuple((m - 1) * part // 4 for m, part in zip(shape, at, strict=True)) for at in QUARTERS[len(shape)]}
    if array.dataset.written.head is not None:
        places.add((0,) * len(shape))  # the others may not be written yet
    height, width = array.shape[n:]
    mean, side, wrong, lacking = None, max(height, width), None, np.zeros((1, 1), bool)

    def look(at: tuple[int, ...]) -> tuple[np.ndarray, int] | VfsError:
        try:
            return small_frame(array, (*within, *at), LOOKED)
        except VfsError as error:  # what is wrong is said where this frame is looked at
            return error

    together = len(places) if array.backend.parallel > 1 else 0  # where each waits for a server
    for _, looked in ahead(iter(sorted(places)), look, together):
        if isinstance(looked, VfsError):
            wrong = looked
            continue
        numbers, side = looked
        lacking = np.isnan(numbers)  # of a set with a mask: the same in all
        seen = np.where(np.isfinite(numbers), numbers, 0).astype(np.float64).clip(-MAX_PIXEL, MAX_PIXEL)
        mean = seen if mean is None else mean + seen
    if mean is None:
        assert wrong is not None
        raise wrong
    found = find_disk(mean if masked_pixels(array) is None else _filled(mean, lacking), side)
    cy, cx, r = (math.floor(10 * value + 0.5) / 10 for value in found[:3])
    return CentralDisk(cy, cx, r, found.found)


def _filled(pattern: np.ndarray, lacking: np.ndarray) -> np.ndarray:
    """Return a pattern in which pixels without a number are as bright as those beside them: a gap cuts no disk."""
    while lacking.any():
        smooth, beside = _smoothed(pattern, ~lacking), lacking & (_added((~lacking).astype(np.float64)) > 0)
        if not beside.any():
            break
        pattern, lacking = np.where(beside, smooth, pattern), lacking & ~beside
    return pattern


def find_disk(pattern: np.ndarray, side: int) -> CentralDisk:
    """Find centre and radius.

    Args:
        pattern: float64[height, width], finite as are sums of all its pixels.
        side: pixels of the whole frame in one of the pattern, along y and x.

    Returns: pixels of the whole frame. Where there is no disk: the middle.
    """
    height, width = pattern.shape
    middle = CentralDisk(
        (height * side - 1) / 2, (width * side - 1) / 2, max(1.0, min(height, width) * side / 8), False
    )
    light = _scaled(pattern)
    while light is not None:
        spot = _confirmed_spot(light)
        if spot is not None and not _has_dark_corners(light, spot):
            break  # larger pixels would hide its corners
        if spot is not None and all(test(light, spot) for test in (_is_alone, _is_own, _stands_out)):
            rows, columns = np.nonzero(spot)
            cy, cx = (float(at.mean() + 0.5) * side - 0.5 for at in (rows, columns))
            return CentralDisk(cy, cx, max(1.0, math.sqrt(len(rows) / math.pi) * side))
        light, side = _halved(light), 2 * side
    return middle


def _scaled(pattern: np.ndarray) -> np.ndarray | None:
    """Return a pattern from 0 to 1; None where it is even."""
    most = float(np.abs(pattern).max())
    light = pattern / most if most else pattern
    light = light - light.min()
    brightest = float(light.max())
    return light / brightest if brightest else None


def _halved(pattern: np.ndarray) -> np.ndarray | None:
    """Return means over 2 x 2 pixels; None where there would be too few."""
    height, width = (n // 2 for n in pattern.shape)
    if min(height, width) < MIN_SIDE:
        return None
    made: np.ndarray = pattern[: 2 * height, : 2 * width].reshape(height, 2, width, 2).mean((1, 3))
    return made


def _confirmed_spot(pattern: np.ndarray) -> np.ndarray | None:
    """Find the brightest spot.

    Args:
        pattern: float64[height, width], 0 or more.

    Returns: bool[height, width]; None where what is found may be noise of single pixels, or has no disk's shape.
    """
    some = np.indices(pattern.shape).sum(0) % 2 == 0
    first, spot = _brightest_spot(pattern, some), _brightest_spot(pattern, np.ones_like(some))
    if first is None or spot is None or not _confirmed(pattern, ~some, first) or not _is_disk(spot.mask):
        return None
    shared = np.count_nonzero(first.mask & spot.mask)
    return spot.mask if 2 * shared >= min(np.count_nonzero(one.mask) for one in (first, spot)) else None


def _confirmed(pattern: np.ndarray, others: np.ndarray, spot: Spot) -> bool:
    """Tell whether pixels know of a spot that was found without them.

    The brightest of them does not count: it may be a hot one, or the only count among few.
    """
    within, beside = np.sort(pattern[others & spot.mask])[:-1], pattern[others & ~spot.mask]
    if not within.size or not beside.size:
        return False
    error = pattern[others].std() * math.sqrt(1 / within.size + 1 / beside.size)
    return bool(within.mean() >= spot.threshold and within.mean() - beside.mean() > SURE * error)


def _is_alone(pattern: np.ndarray, mask: np.ndarray) -> bool:
    """Tell whether a spot is brighter than the squares beside it that are half as wide, also than some as bright as
    noise makes the brightest of them."""
    side = max(1, round(math.sqrt(np.count_nonzero(mask)) / 2))
    counts, sums = (_in_squares(one, side) for one in ((~mask).astype(np.float64), np.where(mask, 0.0, pattern)))
    beside = 2 * counts > side * side
    if np.count_nonzero(beside) < PARTS:
        return True
    means = sums[beside] / counts[beside]
    brightest = math.sqrt(2 * math.log(means.size))  # of so many normal numbers, about
    return bool(pattern[mask].mean() - means.mean() > (ALONE + brightest) * means.std())


def _is_own(pattern: np.ndarray, mask: np.ndarray) -> bool:
    """Tell whether a spot explains more of a pattern's variance than brighter rows and columns do: offsets, a slope.

    They explain half to 0.7 of a disk's variance, and its spot nearly all.
    """
    height, width = pattern.shape
    light = pattern - pattern.mean()
    rows, columns = light.mean(1), light.mean(0)
    variance = float(np.square(light).mean())
    free = (height - 1) * (width - 1)
    if not free or not variance:
        return True
    left = 1 - float(np.square(rows).mean() + np.square(columns).mean()) / variance
    part = np.count_nonzero(mask) / mask.size
    spot = float(light[mask].mean()) ** 2 * part / (1 - part) / variance
    return bool(spot > 1 - left * (pattern.size - 1) / free)  # means of noise vary, too


def _stands_out(pattern: np.ndarray, mask: np.ndarray) -> bool:
    """Tell whether a spot is far brighter than what varies beside it. In smooth noise it is one of many."""
    smooth = _smoothed(pattern, np.ones_like(mask))
    beside = smooth[~mask]
    return bool(beside.std() < EVEN * (smooth[mask].mean() - beside.mean()))


def _has_dark_corners(pattern: np.ndarray, mask: np.ndarray) -> bool:
    """Tell whether the corners of a spot's box are dark, of those that no edge of the frame cuts. Parts of a detector
    that count more are rectangles. Of a few pixels nobody can tell.

    Where a spot fills an edge of the frame and goes no deeper than half of a disk, it has two such corners.
    """
    sides = [np.flatnonzero(mask.any(axis)) for axis in (1, 0)]
    cut = [(bool(at[0] == 0), bool(at[-1] == n - 1)) for at, n in zip(sides, mask.shape, strict=True)]
    ends = [  # a spot is found in means of 3 x 3 pixels, which may add one around
        (at[0] + (not before), at[-1] + 1 - (not behind)) for at, (before, behind) in zip(sides, cut, strict=True)
    ]
    lengths = [high - low for low, high in ends]
    if min(lengths) < CORNERED:
        return True
    for across, deep in ((0, 1), (1, 0)):
        if all(cut[across]) and sum(cut[deep]) == 1 and lengths[deep] <= HALF * lengths[across]:
            cut[across] = (False, False)
    corners = np.zeros_like(mask)
    for y, x in np.ndindex(2, 2):
        if not cut[0][y] and not cut[1][x]:
            corners[tuple(_end(*ends[axis], last) for axis, last in enumerate((y, x)))] = True
    if not corners.any():
        return True
    within, beside = pattern[mask].mean(), pattern[~mask].mean()
    return bool(pattern[corners].mean() < (within + beside) / 2)


def _end(low: int, high: int, last: int) -> slice:
    """Return the first or last part of an axis of a box."""
    part = max(1, int(CORNERS * (high - low)) - 1)
    return slice(high - part, high) if last else slice(low, low + part)


def _in_squares(pattern: np.ndarray, side: int) -> np.ndarray:
    """Return sums over squares of so many pixels along y and x. Those at the end may be smaller."""
    rows, columns = (np.arange(0, n, side) for n in pattern.shape)
    sums: np.ndarray = np.add.reduceat(np.add.reduceat(pattern, rows, 0), columns, 1)
    return sums


def _is_disk(mask: np.ndarray) -> bool:
    """Tell whether a spot may be a disk: it leaves something dark, and does not run through the frame like noise."""
    rows, columns = np.nonzero(mask)
    if len(rows) > COVERED * mask.size or not _is_cut_disk(mask, rows, columns):
        return False
    filled = WHOLE if mask.any(0).all() and mask.any(1).all() else ROUND
    spread = np.cov(rows, columns) if len(rows) > 1 else np.zeros((2, 2))
    return bool(len(rows) > filled * 4 * math.pi * math.sqrt(max(0.0, float(np.linalg.det(spread)))))


def _is_cut_disk(mask: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> bool:
    """Tell whether a spot at edges of the frame may be a part of a disk.

    Rows or columns that are brighter run from edge to edge, and a slope makes a triangle.
    """
    height, width = (int(np.ptp(at)) + 1 for at in (rows, columns))
    top, bottom, left, right = (bool(edge.any()) for edge in (mask[0], mask[-1], mask[:, 0], mask[:, -1]))
    if (left and right and 2 * height < width) or (top and bottom and 2 * width < height):
        return False
    in_corner = top != bottom and left != right
    return not in_corner or len(rows) > SLOPE * height * width


def _smoothed(pattern: np.ndarray, some: np.ndarray) -> np.ndarray:
    """Return means over those of 3 x 3 pixels that count, so that one hot pixel is not the brightest."""
    sums, counts = (_added(one) for one in (np.where(some, pattern, 0), some.astype(np.float64)))
    smooth: np.ndarray = np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)
    return smooth


def _added(pattern: np.ndarray) -> np.ndarray:
    """Return sums over 3 x 3 pixels, of which those at the edge count as often as they are nearest."""
    padded = np.pad(pattern, 1, mode="edge")
    across = padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]
    added: np.ndarray = across[:-2] + across[1:-1] + across[2:]
    return added


def _brightest_spot(pattern: np.ndarray, some: np.ndarray) -> Spot | None:
    """Find the connected spot with the largest sum, in some of the pixels. None where all is even."""
    smooth = _smoothed(pattern, some)
    darkest, brightest = float(smooth.min()), float(smooth.max())
    if not brightest > darkest:
        return None
    threshold = darkest + EDGE * (brightest - darkest)
    return Spot(_spot(smooth, threshold), threshold)


def _spot(pattern: np.ndarray, threshold: float) -> np.ndarray:
    """Return bool[height, width], the connected spot with the largest sum. One pixel at least has the threshold."""
    height, width = pattern.shape
    bright = np.zeros((height, width + 2), np.int8)
    bright[:, 1:-1] = pattern >= threshold
    edges = np.diff(bright, axis=1)
    rows, first = np.nonzero(edges == 1)  # runs of bright pixels, row by row
    stop = np.nonzero(edges == -1)[1]
    sums = np.concatenate([[0.0], np.cumsum(pattern)])
    total = sums[rows * width + stop] - sums[rows * width + first]
    root = np.asarray(_connected(rows.tolist(), first.tolist(), stop.tolist()))
    own = root == root[np.argmax(np.bincount(root, total)[root])]
    made = np.zeros((height, width + 1), np.int8)
    made[rows[own], first[own]] = 1
    made[rows[own], stop[own]] = -1
    mask: np.ndarray = np.cumsum(made, axis=1)[:, :width] > 0
    return mask


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


def tidy(value: float) -> float:
    """Return a number of pixels with one decimal, as the page rounds it."""
    return math.floor(value * 10 + 0.5) / 10
