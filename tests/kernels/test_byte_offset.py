"""The kernel of CBF against what the writer of tests compresses."""

from __future__ import annotations

import numpy as np
import pytest

from vfs.kernels import byte_offset
from vfs.testing import detector_writers


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4"])
@pytest.mark.parametrize("scale", [1, 3, 1000, 1 << 20])
def test_sums(dtype: str, scale: int) -> None:
    values = (np.random.default_rng(scale).standard_normal(500) * scale).astype("i8").astype(dtype)
    data = np.frombuffer(detector_writers.byte_offset(values), np.uint8)
    out = np.empty(500, dtype)
    assert byte_offset.sums(data, out) == len(data)
    np.testing.assert_array_equal(out, values)
    assert byte_offset.sums(data[:-1], out) == -1
    assert byte_offset.sums(np.concatenate([data, data]), out) == len(data)


def test_widest_steps() -> None:
    values = np.array([0, -(1 << 31), (1 << 31) - 1, -(1 << 31), -128, 0, -32768, 0, 127, 255, 32767], "i4")
    data = np.frombuffer(detector_writers.byte_offset(values), np.uint8)
    out = np.empty(len(values), "i4")
    assert byte_offset.sums(data, out) == len(data)
    np.testing.assert_array_equal(out, values)
