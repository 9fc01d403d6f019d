"""Time stamps of scans, made up."""

from __future__ import annotations

import numpy as np


def times(
    rows: int, columns: int, *, skip: int = 0, before: int = 0, jitter: float = 0, flyback: float = 5, seed: int = 0
) -> np.ndarray:
    """Start of each frame in nanoseconds: one a millisecond, and `flyback` ms more around frames behind a line."""
    random, count = np.random.default_rng(seed), before + rows * (columns + skip)
    interval = 1e6 * (1 + jitter * random.uniform(-1, 1, count))
    interval[(np.arange(count) - before) % (columns + skip) >= columns - 1] += flyback * 1e6
    interval[:before] = 1e6
    return 1_600_000_000 * 10**9 + np.cumsum(np.append(0, interval[:-1])).astype(np.int64)
