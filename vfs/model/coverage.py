"""Works with selections of scan positions.

It finds the boxes of a scan around and inside a selection, and puts results back into the scan.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vfs.errors import OptionError
from vfs.model.stored import StoredArray
from vfs.model.wording import option_names


def bounding(mask: np.ndarray) -> tuple[slice, ...]:
    """Find the smallest box of a scan that holds all its valid positions.

    Args:
        mask: bool[scan shape], True where a position is valid.

    Returns: a slice for each axis; empty slices if no position is valid.
    """
    if not mask.any():
        return (slice(0, 0),) * mask.ndim
    found = []
    for axis in range(mask.ndim):
        hits = np.flatnonzero(mask.any(axis=tuple(k for k in range(mask.ndim) if k != axis)))
        found.append(slice(int(hits[0]), int(hits[-1]) + 1))
    return tuple(found)


def inner(mask: np.ndarray) -> tuple[slice, ...]:
    """Find the longest run of whole scan rows (steps of the slowest axis) that are valid.

    Args:
        mask: bool[scan shape], True where a position is valid.

    Returns: a slice for each axis; empty slices if no row is valid as a whole.
    """
    full = mask.all(axis=tuple(range(1, mask.ndim))) if mask.ndim else np.zeros(0, bool)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], full, [False]]).astype(np.int8)))
    if not len(edges):
        return (slice(0, 0),) * mask.ndim
    runs = edges.reshape(-1, 2)
    first, last = runs[np.argmax(runs[:, 1] - runs[:, 0])].tolist()
    return (slice(first, last), *(slice(0, n) for n in mask.shape[1:]))


def unroi(dataset: StoredArray, result: Any) -> np.ndarray:
    """Put results, one for each selected frame, at the positions of these frames in the scan.

    Args:
        result: [selected frames, …], any dtype.

    Returns:
        [scan shape, …]; positions that were not selected hold NaN (floats, complex), NaT (times),
        False, 0, '' or None.

    Raises:
        OptionError: no frames were selected with roi, or `result` does not have one entry for each.
    """
    if dataset.chosen is None or dataset.scan is None:
        raise OptionError(f"unroi needs an array that was opened with {option_names('roi')}")
    values = np.asarray(result)
    if values.ndim == 0 or len(values) != len(dataset.chosen):
        raise OptionError(
            f"result has shape {values.shape}, expected [{len(dataset.chosen)}, …]: one entry a selected frame"
        )
    return put_back(values, dataset.chosen, dataset.scan)


def nothing(dtype: np.dtype) -> Any:
    """Return what stands where there is no result: NaN (floats, complex), NaT (times), False, 0, '' or None."""
    return {"f": np.nan, "c": np.nan, "M": "NaT", "m": "NaT", "b": False, "U": "", "T": "", "S": b"", "O": None}.get(
        dtype.kind, 0
    )


def put_back(values: np.ndarray, chosen: np.ndarray, scan: tuple[int, ...]) -> np.ndarray:
    """Put values [m, …] to the flat positions `chosen` of a scan: [scan, …], with `nothing` elsewhere.

    Raises:
        OptionError: memory does not hold so many.
    """
    shape = math.prod(scan), *values.shape[1:]
    try:
        out = np.full(shape, nothing(values.dtype), values.dtype)
    except (MemoryError, ValueError):
        raise OptionError(
            f"a result in the shape of the scan takes {math.prod(shape) * values.dtype.itemsize:,} bytes, which memory"
            f" does not hold; Python's `selected` has that of the {len(chosen):,} selected frames alone"
        ) from None
    out[chosen] = values
    return out.reshape(*scan, *values.shape[1:])
