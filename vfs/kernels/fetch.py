"""Reads many ranges of one file in one call, without the interpreter for each."""

from __future__ import annotations

import numpy as np

from vfs.kernels.clib import MADV_WILLNEED, madvise, pread, preadv
from vfs.kernels.columns import (
    COLUMNS,
    COUNT,
    DEST,
    LINES,
    PITCH,
    START,
    STEP,
    STOP,
    W_FIRST,
    W_LAST,
    W_START,
    W_STOP,
    W_WANTED,
)
from vfs.kernels.compiled import kernel
from vfs.kernels.ranges import in_lines
from vfs.kernels.steps import call

GAP = 4096  # bytes: ranges with a smaller gap are read at once with the gap, since storage delivers whole pages
_MAX_RANGES = 512  # most ranges of one preadv, with as many gaps; the operating system takes 1,024 pieces


@kernel
def read_ranges(fd, ranges, out, base, step, gap):
    """Read every range into `out`, whose first byte is byte `base` of the file.

    Ranges at most `gap` bytes apart are read together.

    Args:
        step: reads begin at multiples of this number and have multiples of it as lengths, so that
            more than the ranges may be read. `base` and the length of `out` must be multiples, too.

    Returns: -1, or the first row that could not be read completely.
    """
    r = 0
    n = ranges.shape[0]
    while r < n:
        a, b = ranges[r, START], ranges[r, STOP]
        last = r + 1
        while last < n and a <= ranges[last, START] <= b + gap:
            b = max(b, ranges[last, STOP])
            last += 1
        a, end = a // step * step, -(-b // step) * step
        while a < b:
            got = pread(fd, out.ctypes.data + a - base, end - a, a)
            if got > 0 and a + got < b:
                got = (a + got) // step * step - a  # a step that was read in part is read again
            if got <= 0:
                return r
            a += got
        r = last
    return -1


@kernel
def read_ahead(at, ranges, page):
    """Have the system begin to read every range of a mapped file, and nothing around them.

    Args:
        at: address that byte 0 of the file would have; page: bytes of a page.
    """
    for r in range(ranges.shape[0]):
        first = ranges[r, START] // page * page
        madvise(at + first, ranges[r, STOP] - first, MADV_WILLNEED)


@kernel
def in_runs(ranges, least):
    """Return True if all lines of ranges go forwards in the output and have `least` bytes or more on average."""
    size, total = 0, 0
    for r in range(ranges.shape[0]):
        if ranges[r, STEP] != 1 and ranges[r, COUNT] > 1:
            return False
        lines = max(1, ranges[r, LINES])
        size += lines * (ranges[r, STOP] - ranges[r, START] - (lines - 1) * ranges[r, PITCH])
        total += lines
    return size >= least * total


@kernel
def read_places(fd, ranges, out, width):
    """Read every range straight to its place in the output, with one preadv for ranges that lie close together.

    Args:
        ranges: int64[n, 11], all of one file, with STEP 1.
        out: uint8, the output.
        width: bytes of an element.

    Returns: -1, or the first row that could not be read completely.
    """
    pieces = np.empty((2 * _MAX_RANGES, 2), np.int64)  # struct iovec of each piece: address and bytes
    gap = np.empty(GAP, np.uint8)
    n = ranges.shape[0]
    r = 0
    while r < n:
        a = ranges[r, START]
        at, last, k = a, r, 0
        while last < n and last < r + _MAX_RANGES and at <= ranges[last, START] <= at + GAP:
            if ranges[last, START] > at:
                pieces[k, 0], pieces[k, 1] = gap.ctypes.data, ranges[last, START] - at
                k += 1
            at = ranges[last, STOP]
            pieces[k, 0], pieces[k, 1] = out.ctypes.data + ranges[last, DEST] * width, at - ranges[last, START]
            k += 1
            last += 1
        done = a + max(0, preadv(fd, pieces.ctypes.data, k, a))
        if done < at:  # the file ended, a signal came, or it was more than 2 GiB: read the rest one by one
            for row in range(r, last):
                a = max(done, ranges[row, START])
                to = out.ctypes.data + ranges[row, DEST] * width + a - ranges[row, START]
                while a < ranges[row, STOP]:
                    got = pread(fd, to, ranges[row, STOP] - a, a)
                    if got <= 0:
                        return row
                    a += got
                    to += got
        r = last
    return -1


@kernel
def decode_windows(ranges, wins, step, memory, out, fd):
    """Read and decode windows of one file, one after the other, in one call.

    With the interpreter between them it would take a tenth longer, and keep other threads waiting.

    Args:
        ranges: int64[n, 11], C-contiguous.
        wins: int64[m, 6] from `vfs.kernels.ranges.windows`.
        step: address of the step that decodes, see `vfs.kernels.steps`.
        memory: uint8, as long as the longest window.
        out: uint8, the output.
        fd: descriptor of the file; it is the last argument, where `vfs.backends.Backend.lend` adds it.

    Returns: -1, or the first window that could not be read completely. That window and the ones
        after it are not decoded.
    """
    for w in range(wins.shape[0]):
        start, size = wins[w, W_START], wins[w, W_STOP] - wins[w, W_START]
        first, last = wins[w, W_FIRST], wins[w, W_LAST]
        if 2 * wins[w, W_WANTED] < size:
            if read_ranges(fd, in_lines(ranges[first:last], 0), memory, start, 1, GAP) >= 0:
                return w
        else:
            done = 0
            while done < size:
                got = pread(fd, memory.ctypes.data + done, size - done, start + done)
                if got <= 0:
                    return w
                done += got
        table = ranges.ctypes.data + first * COLUMNS * 8
        call(step, table, last - first, memory.ctypes.data, size, start, out.ctypes.data, out.shape[0])
    return -1
