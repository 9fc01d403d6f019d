"""Elements whose bytes are numpy's own, possibly swapped: from a file's bytes to their places in the output."""

from __future__ import annotations

import numpy as np
from numba import njit

from vfs.kernels.intrinsics import memcpy, swap_bytes
from vfs.kernels.ranges import COUNT, DEST, START, STEP


@njit(nogil=True, cache=True)
def _mirror(src, dst):
    """Copy backwards. Unsigned indices: with signed ones numba looks for negative indices, and the loop does not vectorise (0.41 of memcpy instead of 0.76)."""
    n = np.uint64(src.size)
    for i in range(n):
        dst[n - np.uint64(1) - i] = src[i]


@njit(nogil=True, cache=True)
def place(ranges, data, base, out, parts):
    """Copy elements to their places.

    Args:
        ranges: int64[n, 8]; data: uint8[m], a file's bytes from `base` on.
        out: unsigned words, `parts` of them an element (2 for complex).
    """
    width = out.itemsize
    for r in range(ranges.shape[0]):
        count = ranges[r, COUNT] * parts
        a = ranges[r, START] - base
        to = ranges[r, DEST] * parts
        by = ranges[r, STEP]
        src = data[a : a + count * width].view(out.dtype)
        if by == 1:
            memcpy(out.ctypes.data + to * width, data.ctypes.data + a, count * width)
        elif by == -1 and parts == 1:
            _mirror(src, out[to - count + 1 : to + 1])
        elif parts == 1:
            for i in range(count):
                out[to + i * by] = src[i]
        else:
            for i in range(count // 2):
                out[to + 2 * i * by] = src[2 * i]
                out[to + 2 * i * by + 1] = src[2 * i + 1]


@njit(nogil=True, cache=True)
def place_swapped(ranges, data, base, out, parts):
    """The same for words stored in the other byte order."""
    width = out.itemsize
    for r in range(ranges.shape[0]):
        count = ranges[r, COUNT] * parts
        a = ranges[r, START] - base
        to = ranges[r, DEST] * parts
        by = ranges[r, STEP]
        src = data[a : a + count * width].view(out.dtype)
        if by == 1:
            dst = out[to : to + count]
            for i in range(count):
                dst[i] = swap_bytes(src[i])
        elif parts == 1:
            for i in range(count):
                out[to + i * by] = swap_bytes(src[i])
        else:
            for i in range(count // 2):
                out[to + 2 * i * by] = swap_bytes(src[2 * i])
                out[to + 2 * i * by + 1] = swap_bytes(src[2 * i + 1])
