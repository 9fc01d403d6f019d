"""Decodes the pixels of CBF files that are compressed by their differences (x-CBF_BYTE_OFFSET).

Each pixel is the one before it and a difference, of one byte; if that is -128, of the two bytes behind it; if that is
-32,768, of the four behind these; if that is the lowest again, of the eight behind these. All are little endian.
"""

from __future__ import annotations

import numpy as np

from vfs.kernels.compiled import inner, kernel


@inner
def _number(data, at, width):
    """Return the number of `width` bytes from byte `at` on, whose highest bit is its sign."""
    value = np.int64(0)
    for k in range(width):
        value |= np.int64(data[at + k]) << np.int64(8 * k)
    shift = np.int64(64 - 8 * width)
    return (value << shift) >> shift


@kernel
def sums(data, out):
    """Decode differences.

    Args:
        data: uint8[m]; out: integers[n], written to.

    Returns: bytes that were used; -1 if there are too few.
    """
    at, value = 0, np.int64(0)
    for k in range(out.shape[0]):
        width = 1
        while True:
            if at + width > data.shape[0]:
                return -1
            step = _number(data, at, width)
            at += width
            if width == 8 or step != -(np.int64(1) << np.int64(8 * width - 1)):
                break
            width *= 2
        value += step
        out[k] = value
    return at
