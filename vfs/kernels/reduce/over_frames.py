"""Kernels for what is made of each pixel over many frames: sums, sums of squares, extremes.

A strip of pixels is taken of one frame after the other, so that what it adds up to stays in a fast
cache: as many pixels as working memory has, 32 KiB of sums. Eight frames go into a sum, or an
extreme, before it is loaded and stored. With strips of 16 KiB, and four frames, sums take 1.4 times
as long (uint16, Zen 4).

What is made of pixels may be that of a patch of the frames: `patch` is (pixels, width of a row, pitch):
the buffers begin with the first pixel of the patch, and the next row is `pitch` pixels on. Of
whole frames all three are the pixels of a frame.

`turned` is how many pixels of a frame come backwards at a time, 1 where they come in order. They are added
up as they come, and what a strip adds up to is turned once for all frames.

Buffers are taken in slices, not by an index that is a sum: of that the compiler does not know that
it is not negative, and then it makes no vectors.
"""

from __future__ import annotations

import numpy as np

from vfs.kernels.compiled import inner, kernel
from vfs.kernels.reduce.pixels import pixel, plus

STRIP = 1 << 15  # bytes of working memory
MAX_FRAMES = 1 << 15  # frames at once: so many pixels of 2 bytes add up to what 4 bytes hold


@inner
def _run(patch, at, most):
    """Find pixel `at` of a patch: (its place in a buffer, how many of `most` pixels from it on lie in its row)."""
    y, x = divmod(at, patch[1])
    return y * patch[2] + x, min(patch[1] - x, most)


@inner
def _turn(part, m, by):
    """Reverse `by` elements at a time, of the first `m` of a strip."""
    for first in range(0, m if by > 1 else 0, by):
        for k in range(by // 2):
            a, b = first + k, first + by - 1 - k
            part[a], part[b] = part[b], part[a]


@kernel
def add_frames(places, like, order, patch, turned, part, total, overflow):
    """Add frames to `total`.

    Args:
        places, like, order: see `vfs.kernels.reduce`; at most `MAX_FRAMES` frames.
        patch, turned: see above.
        part: a strip, working memory of a dtype that holds the sum of so many pixels; total: [pixels] of the same kind.
        overflow: see `plus`.
    """
    n, size, kind = places.shape[0], patch[0], part.dtype.type
    for at in range(0, size, part.shape[0]):
        m = min(part.shape[0], size - at)
        for i in range(m):
            part[i] = 0
        f = 0
        while f + 8 <= n and part.itemsize < 8:
            a, b, c, d = places[f], places[f + 1], places[f + 2], places[f + 3]
            p, q, r, s = places[f + 4], places[f + 5], places[f + 6], places[f + 7]
            for i in range(m):
                one = kind(pixel(a, at + i, like, order)) + kind(pixel(b, at + i, like, order))
                two = kind(pixel(c, at + i, like, order)) + kind(pixel(d, at + i, like, order))
                three = kind(pixel(p, at + i, like, order)) + kind(pixel(q, at + i, like, order))
                four = kind(pixel(r, at + i, like, order)) + kind(pixel(s, at + i, like, order))
                part[i] += (one + two) + (three + four)
            f += 8
        while f < n:
            a = places[f]
            for i in range(m):
                part[i] = plus(part[i], kind(pixel(a, at + i, like, order)), like, overflow)
            f += 1
        _turn(part, m, turned)
        done = 0
        while done < m:
            to, run = _run(patch, at + done, m - done)
            here, some = total[to : to + run], part[done : done + run]
            for i in range(run):
                here[i] = plus(here[i], total.dtype.type(some[i]), like, overflow)
            done += run


@kernel
def add_squares(places, like, order, patch, turned, part, part_squares, total, squares):
    """Add frames of integers of at most 2 bytes to `total`, and their squares to `squares`.

    A square has 4 bytes; it is widened before it is added up. Halves of 2 bytes that are added up apart, twice as many
    at a time, take 1.4 times as long (uint16, Zen 4).

    Args:
        patch, turned, part: see `add_frames`.
        part_squares: a strip, working memory of uint64; of pixels of 1 byte uint32, which holds the squares of
            `MAX_FRAMES` frames.
        squares: uint64[pixels].
    """
    n, size, kind, word, wide = places.shape[0], patch[0], part.dtype.type, np.uint32, part_squares.dtype.type
    strip = min(part.shape[0], part_squares.shape[0])
    for at in range(0, size, strip):
        m = min(strip, size - at)
        for i in range(m):
            part[i] = 0
            part_squares[i] = 0
        f = 0
        while f + 4 <= n:
            a, b, c, d = places[f], places[f + 1], places[f + 2], places[f + 3]
            for i in range(m):
                p, q = kind(pixel(a, at + i, like, order)), kind(pixel(b, at + i, like, order))
                r, s = kind(pixel(c, at + i, like, order)), kind(pixel(d, at + i, like, order))
                part[i] += (p + q) + (r + s)
                one, two = wide(word(p * p)) + wide(word(q * q)), wide(word(r * r)) + wide(word(s * s))
                part_squares[i] += one + two
            f += 4
        while f < n:
            a = places[f]
            for i in range(m):
                p = kind(pixel(a, at + i, like, order))
                part[i] += p
                part_squares[i] += wide(word(p * p))
            f += 1
        _turn(part, m, turned)
        _turn(part_squares, m, turned)
        done = 0
        while done < m:
            to, run = _run(patch, at + done, m - done)
            sums, others = total[to : to + run], squares[to : to + run]
            some, further = part[done : done + run], part_squares[done : done + run]
            for i in range(run):
                sums[i] += some[i]
                others[i] += np.uint64(further[i])
            done += run


@kernel
def spread(places, like, order, patch, count, mean, spreads):
    """Take frames into a running mean and sum of squared distances from it, both float64[pixels].

    The mean of these frames and the distances from it come first, while they are in cache, then
    both are joined: nothing cancels.

    Args:
        patch: see above; count: frames that are in it already.
    """
    n, size = places.shape[0], patch[0]
    strip = STRIP // 8
    here, far = np.empty(strip, np.float64), np.empty(strip, np.float64)
    for at in range(0, size, strip):
        m = min(strip, size - at)
        for i in range(m):
            here[i] = 0
            far[i] = 0
        for f in range(n):
            a = places[f]
            for i in range(m):
                here[i] += np.float64(pixel(a, at + i, like, order))
        for i in range(m):
            here[i] /= n
        for f in range(n):
            a = places[f]
            for i in range(m):
                off = np.float64(pixel(a, at + i, like, order)) - here[i]
                far[i] += off * off
        done = 0
        while done < m:
            to, run = _run(patch, at + done, m - done)
            means, others = mean[to : to + run], spreads[to : to + run]
            new, apart = here[done : done + run], far[done : done + run]
            for i in range(run):
                off = new[i] - means[i]
                means[i] += off * n / (count + n)
                others[i] += apart[i] + off * off * count * n / (count + n)
            done += run


@inner
def _further(one, best, lowest):
    """Return the larger one of two values, or the smaller one; NaN where one of them is."""
    if lowest is None:
        return one if (one > best) | (one != one) else best
    return one if (one < best) | (one != one) else best


@kernel
def extremes(places, like, order, patch, turned, part, found, worst, lowest):
    """Put the largest of `found` and the frames into `found`, [pixels] of their dtype; NaN where one of them is.

    Args:
        patch, turned: see above; part: a strip of the same dtype, working memory.
        worst: a value that every other one beats, or equals, where `found` has nothing yet; else None.
        lowest: None, or True for the smallest: the compiler makes a kernel for each.
    """
    n, size = places.shape[0], patch[0]
    for at in range(0, size, part.shape[0]):
        m = min(part.shape[0], size - at)
        done = 0
        while done < m:
            to, run = _run(patch, at + done, m - done)
            here, some = found[to : to + run], part[done : done + run]
            for i in range(run):
                some[i] = here[i] if worst is None else worst
            done += run
        _turn(part, m, turned)
        f = 0
        while f + 8 <= n:
            a, b, c, d = places[f], places[f + 1], places[f + 2], places[f + 3]
            p, q, r, s = places[f + 4], places[f + 5], places[f + 6], places[f + 7]
            for i in range(m):
                one = _further(pixel(a, at + i, like, order), pixel(b, at + i, like, order), lowest)
                two = _further(pixel(c, at + i, like, order), pixel(d, at + i, like, order), lowest)
                three = _further(pixel(p, at + i, like, order), pixel(q, at + i, like, order), lowest)
                four = _further(pixel(r, at + i, like, order), pixel(s, at + i, like, order), lowest)
                one, three = _further(one, two, lowest), _further(three, four, lowest)
                part[i] = _further(_further(one, three, lowest), part[i], lowest)
            f += 8
        while f < n:
            a = places[f]
            for i in range(m):
                part[i] = _further(pixel(a, at + i, like, order), part[i], lowest)
            f += 1
        _turn(part, m, turned)
        done = 0
        while done < m:
            to, run = _run(patch, at + done, m - done)
            here, some = found[to : to + run], part[done : done + run]
            for i in range(run):
                here[i] = some[i]
            done += run
