"""Pixels packed into big-endian 64-bit words, the one with the smallest x in the lowest bits: Medipix raw data.

A word holds 64, 8 or 4 pixels of 1, 8 or 16 bits; 24-bit pixels are two images of 16-bit lanes, high 12 bits and low 12 bits.
Ranges of any SKIP, COUNT and STEP decode. What costs time are whole words that go on forwards (STEP 1) or backwards
(STEP -1, sectors mounted upside down): these are 64-bit loads and stores; only ragged ends and other steps go by pixels.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from vfs.kernels.intrinsics import swap_bytes
from vfs.kernels.ranges import COUNT, DEST, PLANE, SKIP, START, STEP, STOP


def _spread_bits():
    """The eight pixels of a byte as a word of eight bytes: uint64[2, 256], lowest bit first, and highest bit first."""
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
    return np.stack([np.ascontiguousarray(order).view(np.uint64)[:, 0] for order in (bits, bits[:, ::-1])])


_SPREAD = _spread_bits()


@njit(nogil=True, cache=True, inline="always")
def _whole(skip, count, by, lanes):
    """Where in a range whole words begin and end, in pixels: what lies before and behind goes by pixels."""
    if by != 1 and by != -1:
        return count, count
    head = min(count, (lanes - skip) % lanes)
    return head, head + (count - head) // lanes * lanes


@njit(nogil=True, cache=True)
def _pixels(words, bits, first, last, skip, out, to, by):
    """Pixels `first` to `last` of a range, one by one."""
    lanes = 64 // bits
    mask = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    for i in range(first, last):
        q = skip + i
        out[to + i * by] = (swap_bytes(words[q // lanes]) >> np.uint64(q % lanes * bits)) & mask


@njit(nogil=True, cache=True)
def place_lanes(ranges, data, base, out):
    """Words of 8 pixels of 8 bits (`out` uint8) or 4 pixels of 16 bits (`out` uint16).

    Args:
        ranges: int64[n, 8]; data: uint8[m], a file's bytes from `base` on.
        out: uint8 or uint16, contiguous.
    """
    bits = out.itemsize * 8
    lanes = 64 // bits
    for r in range(ranges.shape[0]):
        count, skip, by, to = ranges[r, COUNT], ranges[r, SKIP], ranges[r, STEP], ranges[r, DEST]
        words = data[ranges[r, START] - base : ranges[r, STOP] - base].view(np.uint64)
        head, tail = _whole(skip, count, by, lanes)
        _pixels(words, bits, 0, head, skip, out, to, by)
        n = (tail - head) // lanes
        if n > 0:
            first = (skip + head) // lanes
            src = words[first : first + n]
            if by == 1:
                dst = out[to + head : to + tail].view(np.uint64)
                for i in range(n):
                    dst[i] = swap_bytes(src[i])
            else:
                dst = out[to - tail + 1 : to - head + 1].view(np.uint64)
                if bits == 8:  # stored backwards, wanted backwards
                    for i in range(n):
                        dst[i] = src[n - 1 - i]
                else:
                    low, eight = np.uint64(0x00FF00FF00FF00FF), np.uint64(8)
                    for i in range(n):
                        word = src[n - 1 - i]
                        dst[i] = ((word & low) << eight) | ((word >> eight) & low)
        _pixels(words, bits, tail, count, skip, out, to, by)


@njit(nogil=True, cache=True)
def place_bits(ranges, data, base, out):
    """Words of 64 pixels of 1 bit.

    Args:
        ranges: int64[n, 8]; data: uint8[m], a file's bytes from `base` on.
        out: uint8, contiguous.
    """
    for r in range(ranges.shape[0]):
        count, skip, by, to = ranges[r, COUNT], ranges[r, SKIP], ranges[r, STEP], ranges[r, DEST]
        stored = data[ranges[r, START] - base : ranges[r, STOP] - base]
        words = stored.view(np.uint64)
        head, tail = _whole(skip, count, by, 64)
        _pixels(words, 1, 0, head, skip, out, to, by)
        n = (tail - head) // 64
        if n > 0:
            first = (skip + head) // 64
            src = stored[first * 8 : (first + n) * 8]
            if by == 1:
                dst = out[to + head : to + tail].view(np.uint64)
                for i in range(n):
                    for j in range(8):
                        dst[8 * i + j] = _SPREAD[0, src[8 * i + 7 - j]]
            else:
                dst = out[to - tail + 1 : to - head + 1].view(np.uint64)
                last = 8 * n - 1
                for i in range(n):
                    for j in range(8):
                        dst[last - 8 * i - j] = _SPREAD[1, src[8 * i + 7 - j]]
        _pixels(words, 1, tail, count, skip, out, to, by)
