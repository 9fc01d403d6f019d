"""Cuts the read ranges of a frame to a part of it, on tables at addresses.

A reader of a mount asks for some bytes of a frame, from any element on. If no two lines of a range overlap in the
output, at most its first and its last line are cut by that: a range becomes three at most. So it does if they overlap
because each has one element of every channel: then the first and the last channel are cut.
"""

from __future__ import annotations

from vfs.kernels.clib import memcpy
from vfs.kernels.columns import COLUMNS, COUNT, DEST, FILE, LINES, NEXT, PITCH, PLANE, SKIP, START, STEP, STOP
from vfs.kernels.compiled import inner
from vfs.kernels.intrinsics import get
from vfs.kernels.native.memory import address, put
from vfs.kernels.native.words import WORD

MAX_PARTS = 3
"""Most ranges that a range becomes."""


@inner
def _within(first, last, at, by, count):
    """Find which of `count` places `at`, `at + by`, … lie in `first` to `last`.

    Returns: (index of the first one, index behind the last one). There is none if the second is not larger.
    """
    if by < 0:
        first, last, at, by = 1 - last, 1 - first, -at, -by
    return max(0, -((at - first) // by)), min(count, -((at - last) // by))


@inner
def _append(parts, n, whole, line, lines, begin, end, first, word_bytes, word_pixels):
    """Add `lines` lines of a range to `n` ranges, of each the elements `begin` to `end`; they stay in file order.

    Args:
        first: the element of the frame that is the first of the output.
    """
    skip = get(whole, SKIP) + begin
    start = get(whole, START) + line * get(whole, PITCH) + skip // word_pixels * word_bytes
    skip %= word_pixels
    pitch, after = (get(whole, PITCH), get(whole, NEXT)) if lines > 1 else (0, 0)
    while n > 0 and get(address(parts, (n - 1) * COLUMNS), START) > start:
        memcpy(address(parts, n * COLUMNS), address(parts, (n - 1) * COLUMNS), COLUMNS * WORD)
        n -= 1
    part = address(parts, n * COLUMNS)
    put(part, FILE, get(whole, FILE))
    put(part, START, start)
    put(part, STOP, start + (lines - 1) * pitch - -(skip + end - begin) // word_pixels * word_bytes)
    put(part, DEST, get(whole, DEST) + line * get(whole, NEXT) + begin * get(whole, STEP) - first)
    put(part, STEP, get(whole, STEP))
    put(part, SKIP, skip)
    put(part, COUNT, end - begin)
    put(part, PLANE, get(whole, PLANE))
    put(part, LINES, lines)
    put(part, PITCH, pitch)
    put(part, NEXT, after)


@inner
def cut(ranges, rows, first, last, word_bytes, word_pixels, parts):
    """Write the ranges of the elements `first` to `last` of a frame, in the order of the file.

    Args:
        ranges: address of int64[rows, 11], the ranges of the frame. In the output, the lines of a range lie one behind
            the other, forwards or backwards; or else so do the first elements of all lines, the second ones, and so on.
        word_bytes, word_pixels: see `vfs.kernels.columns`.
        parts: address of int64[MAX_PARTS * rows, 11], receives them. Places (DEST) count from element `first`.

    Returns: number of ranges.
    """
    n = 0
    for row in range(rows):
        whole = address(ranges, row * COLUMNS)
        lines, many, by, at = max(1, get(whole, LINES)), get(whole, COUNT), get(whole, STEP), get(whole, DEST)
        after = get(whole, NEXT) if lines > 1 else 1
        channels = lines > 1 and (many - 1) * abs(by) >= abs(after)
        if channels:
            lines, many, by, after = many, lines, after, by
        span = (many - 1) * abs(by)
        low = at + min(0, (many - 1) * by)
        k, end = _within(first - span, last, low, after, lines)
        uncut, behind = _within(first, last - span, low, after, lines)
        while k < end:
            beyond, a, b = k + 1, 0, many
            if uncut <= k < behind:
                beyond = behind
            else:
                a, b = _within(first, last, at + k * after, by, many)
            if a < b:
                if channels:
                    _append(parts, n, whole, a, b - a, k, beyond, first, word_bytes, word_pixels)
                else:
                    _append(parts, n, whole, k, beyond - k, a, b, first, word_bytes, word_pixels)
                n += 1
            k = beyond
    return n
