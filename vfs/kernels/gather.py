"""Copies elements from a file's bytes to their places in the output.

On the way it may swap their bytes or convert them to floats. If frames are not stored as they are
shown, ranges are rows of a few hundred bytes, so the fixed cost of a range counts. Views of the
input are made once, and again only if the alignment of words changes. Rows of 512 bytes in reverse
order reach 0.89 of memcpy; with a slice for each row it was 0.59.
"""

from __future__ import annotations

import numpy as np

from vfs.kernels.clib import memcpy
from vfs.kernels.columns import COUNT, DEST, LINES, NEXT, PITCH, START, STEP
from vfs.kernels.compiled import kernel
from vfs.kernels.intrinsics import swap_bytes


@kernel
def _words(data, phase, out):
    """Return the whole words of uint8[n] from byte `phase` on, as words of the dtype of `out`."""
    return data[phase : phase + (data.shape[0] - phase) // out.itemsize * out.itemsize].view(out.dtype)


@kernel
def _mirror(src, a, dst, b, n):
    """Copy `n` words in reverse order. They are written backwards: `vfs.kernels.unpack` says why.

    Indices are unsigned: with signed ones numba checks for negative indices, and the loop does not
    vectorise (0.41 of memcpy instead of 0.76).
    """
    last = b + np.uint64(n - 1)
    for i in range(np.uint64(n)):
        dst[last - i] = src[a + i]


@kernel
def place(ranges, data, base, out, parts):
    """Copy elements to their places.

    Args:
        ranges: int64[n, 11].
        data: uint8[m], a file's bytes from `base` on.
        out: unsigned words.
        parts: words of an element (2 for complex).
    """
    width = out.itemsize
    src, phase = _words(data, 0, out), 0
    for r in range(ranges.shape[0]):
        count = ranges[r, COUNT] * parts
        a = ranges[r, START] - base
        to = ranges[r, DEST] * parts
        by = ranges[r, STEP]
        pitch, after = ranges[r, PITCH], ranges[r, NEXT] * parts
        if by == 1:
            for line in range(max(1, ranges[r, LINES])):
                memcpy(
                    out.ctypes.data + (to + line * after) * width, data.ctypes.data + a + line * pitch, count * width
                )
            continue
        for _ in range(max(1, ranges[r, LINES])):
            if a % width != phase:
                phase = a % width
                src = _words(data, phase, out)
            first = a // width
            if by == -1 and parts == 1:
                _mirror(src, np.uint64(first), out, np.uint64(to - count + 1), count)
            elif parts == 1:
                for i in range(count):
                    out[to + i * by] = src[first + i]
            else:
                for i in range(count // 2):
                    out[to + 2 * i * by] = src[first + 2 * i]
                    out[to + 2 * i * by + 1] = src[first + 2 * i + 1]
            a += pitch
            to += after


@kernel
def _swap(src, a, dst, b, n):
    for i in range(np.uint64(n)):
        dst[b + i] = swap_bytes(src[a + i])


@kernel
def place_swapped(ranges, data, base, out, parts):
    """Do what `place` does, for words that are stored in the other byte order."""
    width = out.itemsize
    src, phase = _words(data, 0, out), 0
    for r in range(ranges.shape[0]):
        count = ranges[r, COUNT] * parts
        a = ranges[r, START] - base
        to = ranges[r, DEST] * parts
        by = ranges[r, STEP]
        for _ in range(max(1, ranges[r, LINES])):
            if a % width != phase:
                phase = a % width
                src = _words(data, phase, out)
            first = a // width
            if by == 1:
                _swap(src, np.uint64(first), out, np.uint64(to), count)
            elif parts == 1:
                for i in range(count):
                    out[to + i * by] = swap_bytes(src[first + i])
            else:
                for i in range(count // 2):
                    out[to + 2 * i * by] = swap_bytes(src[first + 2 * i])
                    out[to + 2 * i * by + 1] = swap_bytes(src[first + 2 * i + 1])
            a += ranges[r, PITCH]
            to += ranges[r, NEXT] * parts


@kernel
def _cast(src, a, dst, b, n):
    for i in range(np.uint64(n)):
        dst[b + i] = src[a + i]


@kernel
def place_as(ranges, data, base, like, out):
    """Copy integers to their places as floats, in one pass.

    It took 28 ms where copying into the cache and converting from there took 69.

    Args:
        ranges: int64[n, 11].
        data: uint8[m], a file's bytes from `base` on.
        like: any array of the dtype of the stored integers, in native byte order.
        out: floats.
    """
    width = like.itemsize
    src, phase = _words(data, 0, like), 0
    for r in range(ranges.shape[0]):
        count = ranges[r, COUNT]
        a = ranges[r, START] - base
        to = ranges[r, DEST]
        by = ranges[r, STEP]
        for _ in range(max(1, ranges[r, LINES])):
            if a % width != phase:
                phase = a % width
                src = _words(data, phase, like)
            first = a // width
            if by == 1:
                _cast(src, np.uint64(first), out, np.uint64(to), count)
            else:
                for i in range(count):
                    out[to + i * by] = src[first + i]
            a += ranges[r, PITCH]
            to += ranges[r, NEXT]


@kernel
def place_swapped_as(ranges, data, base, like, out):
    """Do what `place_as` does, for integers that are stored in the other byte order."""
    width = like.itemsize
    src, phase = _words(data, 0, like), 0
    for r in range(ranges.shape[0]):
        count = ranges[r, COUNT]
        a = ranges[r, START] - base
        to = ranges[r, DEST]
        by = ranges[r, STEP]
        for _ in range(max(1, ranges[r, LINES])):
            if a % width != phase:
                phase = a % width
                src = _words(data, phase, like)
            first = a // width
            if by == 1:
                _swap(src, np.uint64(first), out, np.uint64(to), count)
            else:
                for i in range(count):
                    out[to + i * by] = swap_bytes(src[first + i])
            a += ranges[r, PITCH]
            to += ranges[r, NEXT]
