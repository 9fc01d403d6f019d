"""Which positions of a scan, or frames of a stack, a request is about."""

from __future__ import annotations

from typing import Any

import numpy as np

from vfs.errors import OptionError
from vfs.reduce.masks import between
from vfs.reduce.shapes import Polygon


def positions(region: Any, shape: tuple[int, ...]) -> np.ndarray | None:
    """Return int64[m], the flat positions of a region in a scan's picture; None: all.

    Raises:
        OptionError: it is no region of such a scan, or nothing lies in it.
    """
    if region is None:
        return None
    if isinstance(region, dict) and set(region) == {"polygon"} and len(shape) == 2:
        return _some(_polygon(region["polygon"], shape), shape)
    kinds = {"rectangle": 4, "disk": 3, "point": 2} if len(shape) == 2 else {"range": 2}
    if isinstance(region, dict) and "box" in region:
        kinds = {"box": 2 * len(shape)}
    said = " or ".join(f"{kind} of {n} numbers" for kind, n in kinds.items())
    if not isinstance(region, dict) or len(region) != 1 or not set(region) <= set(kinds):
        raise OptionError(f"region: expected {said}")
    ((kind, numbers),) = region.items()
    if kind == "box":
        return _box(numbers, shape)
    if (
        not isinstance(numbers, list)
        or len(numbers) != kinds[kind]
        or not all(type(k) in (int, float) and abs(k) < 1e9 for k in numbers)
    ):
        raise OptionError(f"region: expected {said}")
    if kind == "disk":
        inside = between(shape, numbers[0], numbers[1], 0, numbers[2])
    elif kind == "range":
        inside = (np.arange(shape[0]) >= numbers[0]) & (np.arange(shape[0]) < numbers[1])
    else:
        y0, x0, *end = numbers
        y1, x1 = end or (y0 + 1, x0 + 1)
        y, x = np.ogrid[: shape[0], : shape[1]]
        inside = np.asarray((y >= y0) & (y < y1) & (x >= x0) & (x < x1))
    return _some(inside, shape)


def _some(inside: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return the flat positions of a mask.

    Raises:
        OptionError: there are none.
    """
    chosen = np.flatnonzero(inside)
    if not len(chosen):
        raise OptionError(f"region: no position of a scan of {list(shape)} lies in it")
    return chosen


def _polygon(vertices: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return bool[shape], the positions in a polygon of which y and x of each vertex are given.

    Raises:
        OptionError: it is none.
    """
    if not isinstance(vertices, list) or len(vertices) != 2 or not all(isinstance(one, list) for one in vertices):
        raise OptionError("region: expected a polygon of [[y, …], [x, …]]")
    return Polygon(*vertices).inside(shape)


def _box(ends: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return int64[m], the flat positions of a box of frames.

    Raises:
        OptionError: there is no such box.
    """
    given: list[Any] = ends if isinstance(ends, list) and len(ends) == len(shape) else [None] * len(shape)
    for one, n in zip(given, shape, strict=True):
        whole = isinstance(one, list) and len(one) == 2 and all(type(k) is int for k in one)
        if not whole or not 0 <= one[0] < one[1] <= n:
            raise OptionError(f"region: expected a box of [first, stop] along each of {list(shape)}, half-open")
    axes = np.ix_(*(np.arange(first, stop) for first, stop in given))
    return np.ravel_multi_index(np.broadcast_arrays(*axes), shape).reshape(-1)
