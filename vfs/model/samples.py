"""Chooses a few of many things to look at."""

from __future__ import annotations

import numpy as np


def spread(count: int, most: int) -> np.ndarray:
    """Return numbers from 0 to count - 1, the first and the last one among them, evenly apart.

    `np.unique` is not needed, since steps are at least 1. It would load `numpy.ma`, which takes 15 ms of the first
    frame in a new process.

    Args:
        count: how many there are.
        most: how many are chosen; fewer if there are fewer.

    Returns: int64[min(count, most)], rising.
    """
    return np.linspace(0, count - 1, min(count, most)).astype(np.int64)
