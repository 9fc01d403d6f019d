"""Corrects detector frames: dark, gain, and excluded pixels.

Kernels subtract dark, multiply by gain, and replace excluded pixels by the mean of good pixels around them.
"""

from __future__ import annotations

import numpy as np

from vfs.kernels.compiled import inner, kernel

_LOWEST = np.int64(-(2**63))


@kernel
def dark_gain(raw, dark, gain, out):
    """Calculate out = (raw - dark) * gain.

    Args:
        raw: [n, pixels] of any real dtype.
        dark, gain, out: [pixels], [pixels] and [n, pixels], all float32 or all float64.
    """
    for f in range(raw.shape[0]):
        src, dst = raw[f], out[f]
        for i in range(src.shape[0]):
            dst[i] = (src[i] - dark[i]) * gain[i]


@kernel
def dark_gain_single(raw, dark, gain, out):
    """Do what `dark_gain` does, calculated in float32, for pixels that float32 holds exactly.

    numba would calculate with float64 for integers, at 0.65 of the speed.
    """
    for f in range(raw.shape[0]):
        src, dst = raw[f], out[f]
        for i in range(src.shape[0]):
            dst[i] = (np.float32(src[i]) - dark[i]) * gain[i]


@kernel
def distances(excluded):
    """Measure how far every excluded pixel is from the nearest good one.

    The distance is the number of rows or of columns between them, whichever is larger. It is 0 for
    good pixels.

    Args:
        excluded: bool[h, w], at least one of them False.

    Returns: int32[h, w].
    """
    h, w = excluded.shape
    far = np.zeros((h, w), np.int32)
    # From above and from the left, then from below and from the right: two passes are exact for
    # this distance
    for y in range(h):
        for x in range(w):
            if excluded[y, x]:
                d = h + w
                for b, a in ((y, x - 1), (y - 1, x - 1), (y - 1, x), (y - 1, x + 1)):
                    if b >= 0 and 0 <= a < w:
                        d = min(d, far[b, a] + 1)
                far[y, x] = d
    for y in range(h - 1, -1, -1):
        for x in range(w - 1, -1, -1):
            if excluded[y, x]:
                d = far[y, x]
                for b, a in ((y, x + 1), (y + 1, x + 1), (y + 1, x), (y + 1, x - 1)):
                    if b < h and 0 <= a < w:
                        d = min(d, far[b, a] + 1)
                far[y, x] = d
    return far


@kernel
def neighbours(excluded, far, most):
    """Find the good pixels that replace every excluded pixel.

    These are the good pixels in the smallest square around it that has any.

    Args:
        excluded: bool[h, w], at least one of them False.
        far: int32[h, w], from `distances`.
        most: the search stops once there are more good pixels than this.

    Returns:
        (pixels int64[n], begins int64[n + 1], good int32[m]). Pixels and good ones are flat
        indices; pixels are in order. Those of pixel k are `good[begins[k] : begins[k + 1]]`.
    """
    h, w = excluded.shape
    n = 0
    for y in range(h):
        for x in range(w):
            n += excluded[y, x]
    pixels = np.empty(n, np.int64)
    begins = np.zeros(n + 1, np.int64)
    good = np.empty(8 * n + 8, np.int32)
    k = 0
    m = 0
    for y in range(h):
        for x in range(w):
            if not excluded[y, x]:
                continue
            r = far[y, x]
            if m + 8 * r > good.shape[0]:
                more = np.empty(2 * m + 8 * r, np.int32)
                more[:m] = good[:m]
                good = more
            # All good pixels lie on the edge of the square: smaller squares have none
            for b in range(max(0, y - r), min(h, y + r + 1)):
                edge = b == y - r or b == y + r
                a = x - r
                while a <= x + r:
                    if 0 <= a < w and not excluded[b, a]:
                        good[m] = b * w + a
                        m += 1
                    a += 1 if edge else 2 * r
            pixels[k] = y * w + x
            k += 1
            begins[k] = m
            if m > most:
                return pixels[:k], begins[: k + 1], good[:m]
    return pixels, begins, good[:m].copy()


@inner
def _inside(good, begin, end, width, top, left, h, w):
    """Say whether all good pixels of an excluded one lie in a cut-out."""
    inside = True
    for j in range(begin, end):
        b, a = good[j] // width - top, good[j] % width - left
        inside &= 0 <= b < h and 0 <= a < w
    return inside


@kernel
def patch(frames, pixels, begins, good, first, last, width, top, left):
    """Replace excluded pixels by the mean of their good neighbours, in place.

    Args:
        frames: float[n, h, w], a cut-out of frames.
        pixels, begins, good: from `neighbours`.
        first, last: only the pixels `first` to `last` (half-open) that lie in the cut-out are replaced.
        width: pixels in a row of a whole frame.
        top, left: corner of the cut-out in the frame.
    """
    n, h, w = frames.shape
    for k in range(first, last):
        y = pixels[k] // width - top
        x = pixels[k] % width - left
        if not (0 <= y < h and 0 <= x < w) or not _inside(good, begins[k], begins[k + 1], width, top, left, h, w):
            continue  # good pixels outside of the cut-out: the pixel lies in the margin that was read for others
        for f in range(n):
            total = 0.0
            for j in range(begins[k], begins[k + 1]):
                total += frames[f, good[j] // width - top, good[j] % width - left]
            frames[f, y, x] = total / (begins[k + 1] - begins[k])


@kernel
def patch_integers(frames, flip, pixels, begins, good, first, last, width, top, left):
    """Do what `patch` does, for integers: the mean is exact and rounded to the nearest, halves to even.

    Args:
        frames: int64[n, h, w] or any smaller integers.
        flip: True if `frames` is the memory of uint64.
    """
    n, h, w = frames.shape
    lowest = _LOWEST if flip else np.int64(0)
    for k in range(first, last):
        y = pixels[k] // width - top
        x = pixels[k] % width - left
        if not (0 <= y < h and 0 <= x < w) or not _inside(good, begins[k], begins[k + 1], width, top, left, h, w):
            continue
        count = begins[k + 1] - begins[k]
        for f in range(n):
            whole, rest = np.int64(0), np.int64(0)
            for j in range(begins[k], begins[k + 1]):
                value = np.int64(frames[f, good[j] // width - top, good[j] % width - left]) ^ lowest
                if frames.itemsize == 8:  # a sum would not fit
                    whole += value // count
                    rest += value % count
                else:
                    rest += value
            whole += rest // count
            rest %= count
            whole += 2 * rest > count or (2 * rest == count and whole & 1 == 1)
            frames[f, y, x] = whole ^ lowest
