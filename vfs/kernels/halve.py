"""Halve images: every pixel of the result is the mean of 2 × 2 pixels.

At odd edges it is the mean of the pixels that are there: the last line counts twice, which is the same. Means of
integers are rounded, halves upwards. The sums of four pixels never overflow.
"""

from __future__ import annotations

import numpy as np

from vfs.kernels.compiled import kernel


@kernel
def narrow(images, left, out):
    """Halve columns of images of integers of at most 16 bits.

    Args:
        images: [n, y, x], C-contiguous.
        left: the first column. The last one is that of `images`, or after an even number.
        out: [n, …, …], half of what is halved along y and x, of the same dtype, written to.
    """
    two = np.int32(2)
    for n in range(out.shape[0]):
        for j in range(out.shape[1]):
            y = 2 * j
            a, b = images[n, y, left:], images[n, min(y + 1, images.shape[1] - 1), left:]
            row, pairs = out[n, j], min(out.shape[2], len(a) // 2)
            for i in range(pairs):
                s = np.int32(a[2 * i]) + np.int32(a[2 * i + 1]) + np.int32(b[2 * i]) + np.int32(b[2 * i + 1])
                row[i] = (s + two) >> two
            if pairs < out.shape[2]:
                row[pairs] = (np.int32(a[2 * pairs]) + np.int32(b[2 * pairs]) + np.int32(1)) >> np.int32(1)


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
                s = np.int64(a[2 * i]) + np.int64(a[2 * i + 1]) + np.int64(b[2 * i]) + np.int64(b[2 * i + 1])
                row[i] = (s + two) >> two
            if pairs < out.shape[2]:
                row[pairs] = (np.int64(a[2 * pairs]) + np.int64(b[2 * pairs]) + np.int64(1)) >> np.int64(1)


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
            for i in range(out.shape[2]):
                k = min(2 * i + 1, len(a) - 1)
                p, q, r, s = a[2 * i], a[k], b[2 * i], b[k]
                over = (p & rest) + (q & rest) + (r & rest) + (s & rest) + two
                out[n, j, i] = (p >> two) + (q >> two) + (r >> two) + (s >> two) + (over >> two)


@kernel
def real(images, left, out):
    """Do what `narrow` does, for floats. What has NaN among its pixels is NaN."""
    q = 0.25
    for n in range(out.shape[0]):
        for j in range(out.shape[1]):
            y = 2 * j
            a, b = images[n, y, left:], images[n, min(y + 1, images.shape[1] - 1), left:]
            row, pairs = out[n, j], min(out.shape[2], len(a) // 2)
            for i in range(pairs):
                row[i] = (a[2 * i] * q + a[2 * i + 1] * q) + (b[2 * i] * q + b[2 * i + 1] * q)
            if pairs < out.shape[2]:
                row[pairs] = a[2 * pairs] * 0.5 + b[2 * pairs] * 0.5
