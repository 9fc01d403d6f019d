"""Halve images: every pixel of the result is the mean of 2 × 2 pixels, or the first of them.

At odd edges it is the mean of the pixels that are there: the last line counts twice, which is the same. Means of
integers are rounded, halves upwards. The sums of four pixels never overflow.

Images are given as they lie in a file. Where their bytes are the other way round they are words of another dtype
than the result (`intrinsics.pixel`): to put them in order on the way takes nothing beside the memory's speed, in a pass
before as long as the rest.
"""

from __future__ import annotations

import numpy as np

from vfs.kernels.compiled import kernel
from vfs.kernels.intrinsics import pixel


@kernel
def nearest(images, left, out):
    """Do what `narrow` does, but take the first of each 2 × 2 pixels, whatever they are. All are words of bits."""
    for n in range(out.shape[0]):
        for j in range(out.shape[1]):
            a, row = images[n, 2 * j, left:], out[n, j]
            for i in range(len(row)):
                row[i] = pixel(a[2 * i], row)


@kernel
def narrow(images, left, out):
    """Halve columns of images of integers of at most 16 bits.

    Args:
        images: [n, y, x], C-contiguous; of the dtype of `out`, or of another one of that size, with bytes the other way
            round.
        left: the first column. The last one is that of `images`, or after an even number.
        out: [n, …, …], half of what is halved along y and x, written to.
    """
    two = np.int32(2)
    for n in range(out.shape[0]):
        for j in range(out.shape[1]):
            y = 2 * j
            a, b = images[n, y, left:], images[n, min(y + 1, images.shape[1] - 1), left:]
            row, pairs = out[n, j], min(out.shape[2], len(a) // 2)
            for i in range(pairs):
                s = np.int32(pixel(a[2 * i], row)) + np.int32(pixel(a[2 * i + 1], row))
                row[i] = (s + np.int32(pixel(b[2 * i], row)) + np.int32(pixel(b[2 * i + 1], row)) + two) >> two
            if pairs < out.shape[2]:
                s = np.int32(pixel(a[2 * pairs], row)) + np.int32(pixel(b[2 * pairs], row))
                row[pairs] = (s + np.int32(1)) >> np.int32(1)


@kernel
def middle(images, left, out):
    """Do what `narrow` does, for integers of 32 bits."""
    two = np.int64(2)
    for n in range(out.shape[0]):
        for j in range(out.shape[1]):
            y = 2 * j
            a, b = images[n, y, left:], images[n, min(y + 1, images.shape[1] - 1), left:]
            row, pairs = out[n, j], min(out.shape[2], len(a) // 2)
            for i in range(pairs):
                s = np.int64(pixel(a[2 * i], row)) + np.int64(pixel(a[2 * i + 1], row))
                row[i] = (s + np.int64(pixel(b[2 * i], row)) + np.int64(pixel(b[2 * i + 1], row)) + two) >> two
            if pairs < out.shape[2]:
                s = np.int64(pixel(a[2 * pairs], row)) + np.int64(pixel(b[2 * pairs], row))
                row[pairs] = (s + np.int64(1)) >> np.int64(1)


@kernel
def wide(images, left, out, one):
    """Do what `narrow` does, for integers of 64 bits: quarters are added up, then what is left of them.

    Args:
        one: 1, of the dtype of the pixels.
    """
    two, rest = one + one, one + one + one
    for n in range(out.shape[0]):
        for j in range(out.shape[1]):
            y = 2 * j
            a, b = images[n, y, left:], images[n, min(y + 1, images.shape[1] - 1), left:]
            row, pairs = out[n, j], min(out.shape[2], len(a) // 2)
            for i in range(pairs):
                p, q = pixel(a[2 * i], row), pixel(a[2 * i + 1], row)
                r, s = pixel(b[2 * i], row), pixel(b[2 * i + 1], row)
                over = (p & rest) + (q & rest) + (r & rest) + (s & rest) + two
                row[i] = (p >> two) + (q >> two) + (r >> two) + (s >> two) + (over >> two)
            if pairs < out.shape[2]:
                p, q = pixel(a[2 * pairs], row), pixel(b[2 * pairs], row)
                row[pairs] = (p >> one) + (q >> one) + (((p & one) + (q & one) + one) >> one)


@kernel
def single(images, left, out):
    """Do what `narrow` does, for floats of 32 bits, calculated with 64. What has NaN among its pixels is NaN."""
    for n in range(out.shape[0]):
        for j in range(out.shape[1]):
            y = 2 * j
            a, b = images[n, y, left:], images[n, min(y + 1, images.shape[1] - 1), left:]
            row, pairs = out[n, j], min(out.shape[2], len(a) // 2)
            for i in range(pairs):
                s = np.float64(pixel(a[2 * i], row)) + np.float64(pixel(a[2 * i + 1], row))
                row[i] = (s + (np.float64(pixel(b[2 * i], row)) + np.float64(pixel(b[2 * i + 1], row)))) * 0.25
            if pairs < out.shape[2]:
                row[pairs] = (np.float64(pixel(a[2 * pairs], row)) + np.float64(pixel(b[2 * pairs], row))) * 0.5


@kernel
def double(images, left, out):
    """Do what `single` does, for floats of 64 bits: quarters are added up, whose sum does not overflow."""
    q = 0.25
    for n in range(out.shape[0]):
        for j in range(out.shape[1]):
            y = 2 * j
            a, b = images[n, y, left:], images[n, min(y + 1, images.shape[1] - 1), left:]
            row, pairs = out[n, j], min(out.shape[2], len(a) // 2)
            for i in range(pairs):
                s = pixel(a[2 * i], row) * q + pixel(a[2 * i + 1], row) * q
                row[i] = s + (pixel(b[2 * i], row) * q + pixel(b[2 * i + 1], row) * q)
            if pairs < out.shape[2]:
                row[pairs] = pixel(a[2 * pairs], row) * 0.5 + pixel(b[2 * pairs], row) * 0.5
