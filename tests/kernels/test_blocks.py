"""Kernels against one line of numpy."""

from __future__ import annotations

import numpy as np
import pytest

from vfs.kernels import blocks


@pytest.mark.parametrize(("nd", "m"), [(1, 1), (2, 1), (3, 2), (4, 3)])
def test_mark(nd: int, m: int) -> None:
    rng = np.random.default_rng(nd)
    for n in (0, 1, 2, 5):
        shape = rng.integers(1, 7, nd)
        low = rng.integers(0, shape, (n, nd))
        high = rng.integers(low + 1, shape + 1, (n, nd))
        found, want = np.zeros(shape[:m], np.uint8), np.zeros(shape[:m], np.uint8)
        blocks.mark(np.concatenate([low, high], axis=1), shape[:m], found.reshape(-1))
        for a, b in zip(low, high, strict=True):
            want[tuple(slice(a[k], b[k]) for k in range(m))] = 1
        np.testing.assert_array_equal(found, want)
