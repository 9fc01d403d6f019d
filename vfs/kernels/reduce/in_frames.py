"""Kernels for what is made of the pixels of each frame: sums under masks, centres of mass, sums over
rings, counts of values.

Sums of floats may be taken in any order ("reassoc"): what vectors of the processor add up side by
side. It is the same order every time.
"""

from __future__ import annotations

import numpy as np

from vfs.kernels.compiled import inner, kernel
from vfs.kernels.reduce.pixels import kept_pixel, pixel, plus

_ANY_ORDER = {"reassoc", "contract"}
GROUP = 4  # frames, and masks, that are weighed together: their sums stay in registers
STRIP = 8192  # pixels: of four masks, in float64, they fit a core's own cache
LONG = 1 << 16  # pixels: of four masks, in float64, 2 MiB


@kernel(fastmath=_ANY_ORDER)
def masked_sums(places, like, order, runs, words, at, out, column, part, overflow):
    """Add up the pixels under a mask of yes and no: out[at[k], column] of frame k.

    Four frames at a time share what is loaded of the mask, and the sums of a run stay in registers,
    as many side by side as `part` allows: then this waits for memory alone (uint16).

    Args:
        runs: int64[r, 2], first and last pixel (half-open) of what has pixels of the mask in it.
        words: see `kept_pixel`: one for each pixel of the frame.
        part: empty, of a dtype that holds the sum of the pixels of a run.
        overflow: see `plus`.
    """
    mask, n, kind, short = words.ctypes.data, places.shape[0], out.dtype.type, part.dtype.type
    k = 0
    while k + GROUP <= n:
        a, b, c, d = places[k], places[k + 1], places[k + 2], places[k + 3]
        s = t = u = v = kind(0)
        for r in range(runs.shape[0]):
            e = f = g = h = short(0)
            for i in range(runs[r, 0], runs[r, 1]):
                e = short(plus(e, short(kept_pixel(a, i, like, order, mask)), like, overflow))
                f = short(plus(f, short(kept_pixel(b, i, like, order, mask)), like, overflow))
                g = short(plus(g, short(kept_pixel(c, i, like, order, mask)), like, overflow))
                h = short(plus(h, short(kept_pixel(d, i, like, order, mask)), like, overflow))
            s, t = plus(s, kind(e), like, overflow), plus(t, kind(f), like, overflow)
            u, v = plus(u, kind(g), like, overflow), plus(v, kind(h), like, overflow)
        out[at[k], column], out[at[k + 1], column] = s, t
        out[at[k + 2], column], out[at[k + 3], column] = u, v
        k += GROUP
    while k < n:
        total = kind(0)
        for r in range(runs.shape[0]):
            e = short(0)
            for i in range(runs[r, 0], runs[r, 1]):
                e = short(plus(e, short(kept_pixel(places[k], i, like, order, mask)), like, overflow))
            total = plus(total, kind(e), like, overflow)
        out[at[k], column] = total
        k += 1


@inner
def _zeros(sums):
    for i in range(sums.shape[0]):
        for j in range(sums.shape[1]):
            sums[i, j] = 0


@kernel(fastmath=_ANY_ORDER)
def weighted_sums(places, like, order, first, last, weights, at, out, column):
    """Add up pixels times weights: out[at[k], column + j] of frame k and mask j.

    Four frames and four masks at a time, sixteen sums in registers, over strips of the masks. Where
    frames are gone through for one group of masks only, strips are long: the processor fetches ahead,
    and waits where a strip begins (uint16, float64: 0.9 of what a Zen 4 can multiply and add, with
    short strips 0.7). With more groups strips stay in a core's own cache: 0.7 (float32) to 0.83
    (float64) of that with 16 masks.

    Args:
        first, last: pixels (half-open) beyond which all weights are 0.
        weights: [m, pixels], in the dtype that is calculated in.
    """
    kind = weights.dtype.type
    n, m, pitch = places.shape[0], weights.shape[0], weights.strides[0]
    sums = np.empty((n, m), weights.dtype)
    _zeros(sums)
    strip = LONG if m == 1 or m == GROUP else STRIP
    for lo in range(first, last, strip):
        hi = min(last, lo + strip)
        j = 0
        while j < m:
            row, four = weights.ctypes.data + j * pitch, m - j >= GROUP
            for k in range(0, n, GROUP):
                a = places[k]
                b, c, d = places[min(n - 1, k + 1)], places[min(n - 1, k + 2)], places[min(n - 1, k + 3)]
                if four:
                    s = _four_by_four(a, b, c, d, like, order, lo, hi, row, pitch, weights)
                    for q in range(GROUP):
                        for p in range(min(GROUP, n - k)):
                            sums[k + p, j + q] += s[GROUP * q + p]
                    continue
                u = v = w = x = kind(0)
                for i in range(lo, hi):
                    g = pixel(row, i, weights, None)
                    u += g * kind(pixel(a, i, like, order))
                    v += g * kind(pixel(b, i, like, order))
                    w += g * kind(pixel(c, i, like, order))
                    x += g * kind(pixel(d, i, like, order))
                for p, value in enumerate((u, v, w, x)):
                    if k + p < n:
                        sums[k + p, j] += value
            j += GROUP if four else 1
    for k in range(n):
        for j in range(m):
            out[at[k], column + j] = sums[k, j]


@kernel(fastmath=_ANY_ORDER)
def _four_by_four(a, b, c, d, like, order, lo, hi, row, pitch, weights):
    """Add up four frames times four masks, whose weights begin at `row` and are `pitch` bytes apart."""
    kind = weights.dtype.type
    s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = s20 = s21 = s22 = s23 = s30 = s31 = s32 = s33 = kind(0)
    for i in range(lo, hi):
        pa, pb = kind(pixel(a, i, like, order)), kind(pixel(b, i, like, order))
        pc, pd = kind(pixel(c, i, like, order)), kind(pixel(d, i, like, order))
        g = pixel(row, i, weights, None)
        s00 += g * pa
        s01 += g * pb
        s02 += g * pc
        s03 += g * pd
        g = pixel(row + pitch, i, weights, None)
        s10 += g * pa
        s11 += g * pb
        s12 += g * pc
        s13 += g * pd
        g = pixel(row + 2 * pitch, i, weights, None)
        s20 += g * pa
        s21 += g * pb
        s22 += g * pc
        s23 += g * pd
        g = pixel(row + 3 * pitch, i, weights, None)
        s30 += g * pa
        s31 += g * pb
        s32 += g * pc
        s33 += g * pd
    return s00, s01, s02, s03, s10, s11, s12, s13, s20, s21, s22, s23, s30, s31, s32, s33


@kernel
def listed_sums(places, like, order, where, weights, at, out, column):
    """Do what `weighted_sums` does for one mask with few pixels that are not 0.

    Args:
        where: int64[n], these pixels; weights: [n], theirs.
    """
    kind = weights.dtype.type
    for k in range(places.shape[0]):
        total = kind(0)
        for i in range(where.shape[0]):
            total += weights[i] * kind(pixel(places[k], where[i], like, order))
        out[at[k], column] = total


@inner
def _seen(address, index, like, order, words, mask):
    """Load a pixel, or 0 where there is a mask that says so."""
    if words is None:
        return pixel(address, index, like, order)
    return kept_pixel(address, index, like, order, mask)


@kernel(fastmath=_ANY_ORDER)
def centres(places, like, order, box, width, words, flip, part, cy, cx, at, out):
    """Find centres of mass: out[at[k]] = y, x of frame k, from (cy, cx).

    Sums of rows and of columns are taken in one go, exactly where pixels are integers, and weighted
    once a frame. Four rows are added up one after the other, as the processor expects and fetches
    them, then their columns, which are in its cache by then.

    Args:
        box: int64[4], first row, last row, first column, last column (half-open) of what is looked
            at; width: of a frame, in pixels.
        words: None, or as of `masked_sums`.
        flip: 0, or 1 less than how many pixels come backwards at a time.
        part: [columns of the box], working memory of a dtype that holds the sum of a row, or of a column.
    """
    top, bottom, left, columns = box[0], box[1], box[2], box[3] - box[2]
    mask, kind = 0 if words is None else words.ctypes.data, part.dtype.type
    for k in range(places.shape[0]):
        a = places[k]
        for x in range(columns):
            part[x] = 0
        all_rows, down, right = 0.0, 0.0, 0.0
        for y in range(top, bottom, GROUP):
            last = min(bottom, y + GROUP)
            for z in range(y, last):
                row = kind(0)
                for x in range(columns):
                    row = kind(row + kind(_seen(a, z * width + left + x, like, order, words, mask)))
                all_rows += np.float64(row)
                down += (z - cy) * np.float64(row)
            lo = y * width + left
            if last - y < GROUP:
                for z in range(last - y):
                    for x in range(columns):
                        part[x] += kind(_seen(a, lo + z * width + x, like, order, words, mask))
                continue
            for x in range(columns):
                one = kind(_seen(a, lo + x, like, order, words, mask))
                two = kind(_seen(a, lo + width + x, like, order, words, mask))
                three = kind(_seen(a, lo + 2 * width + x, like, order, words, mask))
                four = kind(_seen(a, lo + 3 * width + x, like, order, words, mask))
                part[x] += kind((one + two) + (three + four))
        for x in range(columns):
            right += (left + (x ^ flip) - cx) * np.float64(part[x])
        if all_rows == 0:
            out[at[k], 0] = out[at[k], 1] = np.nan
        else:
            out[at[k], 0], out[at[k], 1] = down / all_rows, right / all_rows


@kernel
def ring_sums(places, like, order, first, rings, at, out, overflow):
    """Add up pixels over rings: out[at[k], j] of frame k.

    Four frames at a time: neighbouring pixels mostly go to the same ring, and an addition that waits
    for the one before it takes four times as long.

    Args:
        first: the first pixel.
        rings: int32[pixels from there on], the ring that each is in; beyond the last one: none.
    """
    n, bins = places.shape[0], out.shape[1]
    sums = np.empty((bins, GROUP), out.dtype)
    kind = out.dtype.type
    k = 0
    while k < n:
        _zeros(sums)
        a, b, c, d = places[k], places[min(n - 1, k + 1)], places[min(n - 1, k + 2)], places[min(n - 1, k + 3)]
        for i in range(rings.shape[0]):
            j = rings[i]
            if j < bins:
                sums[j, 0] = plus(sums[j, 0], kind(pixel(a, first + i, like, order)), like, overflow)
                sums[j, 1] = plus(sums[j, 1], kind(pixel(b, first + i, like, order)), like, overflow)
                sums[j, 2] = plus(sums[j, 2], kind(pixel(c, first + i, like, order)), like, overflow)
                sums[j, 3] = plus(sums[j, 3], kind(pixel(d, first + i, like, order)), like, overflow)
        for p in range(min(GROUP, n - k)):
            for j in range(bins):
                out[at[k + p], j] = sums[j, p]
        k += GROUP


@kernel
def count_values(places, like, order, size, low, counts):
    """Count each value of integers of at most 2 bytes: counts[0 or 1, value - low] += 1.

    A word of several pixels is loaded, and swapped, at once: whatever their order in it, each is counted. There are two
    tables, since equal neighbours would wait for each other; four reach beyond the fastest cache. Of 12 bits this
    ran at 0.60 of memcpy in either byte order; one pixel at a time into four tables of uint64 at 0.31, swapped at 0.15.

    Args:
        size: pixels of a frame; low: the lowest value of their dtype; counts: [2, values].
    """
    one, two, more = counts[0], counts[1], counts.dtype.type(1)
    bits = np.uint64(8 * like.itemsize)
    per, mask = 8 // like.itemsize, (np.uint64(1) << bits) - np.uint64(1)
    flip = np.uint64(0)  # makes value - low of the bits of a signed value
    for j in range(per if low < 0 else 0):
        flip |= (np.uint64(1) << (bits - np.uint64(1))) << (bits * np.uint64(j))
    words = np.empty(0, np.uint64)
    for k in range(places.shape[0]):
        a = places[k]
        if per == 4:
            for i in range(size // 4):
                word = pixel(a, i, words, order) ^ flip
                one[word & mask] += more
                two[(word >> np.uint64(16)) & mask] += more
                one[(word >> np.uint64(32)) & mask] += more
                two[word >> np.uint64(48)] += more
        else:
            for i in range(size // 8):
                word = pixel(a, i, words, order) ^ flip
                for _ in range(4):
                    one[word & mask] += more
                    two[(word >> bits) & mask] += more
                    word >>= np.uint64(16)
        for i in range(size // per * per, size):
            one[np.int64(pixel(a, i, like, order)) - low] += more


@kernel
def count_bins(places, like, order, size, edges, counts):
    """Count the pixels in each bin, as numpy does: half-open, the last one closed.

    Args:
        edges: of the bins, in the dtype that they are compared in; counts: uint64[bins].
    """
    bins = counts.shape[0]
    low, high = edges[0], edges[bins]
    scale = bins / (np.float64(high) - np.float64(low))
    for k in range(places.shape[0]):
        for i in range(size):
            value = pixel(places[k], i, like, order)
            if low <= value <= high:
                j = min(bins - 1, np.int64((np.float64(value) - np.float64(low)) * scale))
                if value < edges[j]:
                    j -= 1
                elif j + 1 < bins and value >= edges[j + 1]:
                    j += 1
                counts[j] += np.uint64(1)
