"""Kernels against one line of numpy."""

from __future__ import annotations

import numpy as np
import pytest

from vfs.kernels import shuffle


@pytest.mark.parametrize("width", [2, 4, 8])
def test_unshuffle(width: int) -> None:
    for n in (0, 1, 5, 1000):
        raw = np.random.default_rng(n).integers(0, 256, n * width, np.uint8)
        out = np.empty(n, f"<u{width}")
        getattr(shuffle, f"unshuffle{width}")(raw, out)
        np.testing.assert_array_equal(out, raw.reshape(width, n).T.copy().view(f"<u{width}").reshape(-1))


def test_end_of_blocks() -> None:
    sizes = [0, 5, 300, 1]
    data = np.frombuffer(b"head" + b"".join(n.to_bytes(4, "big") + bytes(n) for n in sizes), np.uint8)
    assert [shuffle.end_of_blocks(data, 4, k) for k in range(5)] == [4, 8, 17, 321, 326]
    assert shuffle.end_of_blocks(data, 4, 5) == -1
    assert shuffle.end_of_blocks(data[:-1], 4, 4) == -1
    assert shuffle.end_of_blocks(np.frombuffer(b"\xff" * 8, np.uint8), 0, 1) == -1
