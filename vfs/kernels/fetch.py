"""Reading many small ranges of one file without going through the interpreter for each."""

from __future__ import annotations

from numba import njit

from vfs.kernels.intrinsics import pread
from vfs.kernels.ranges import START, STOP

GAP = 4096  # bytes: what lies closer together is read in one piece, storage hands out pages anyway


@njit(nogil=True, cache=True)
def read_ranges(fd, ranges, out, base):
    """pread every range into `out`, whose first byte is byte `base` of the file; neighbours less than `GAP` apart are read together.

    Returns: -1, or the first row that could not be read completely.
    """
    r = 0
    n = ranges.shape[0]
    while r < n:
        a, b = ranges[r, START], ranges[r, STOP]
        last = r + 1
        while last < n and a <= ranges[last, START] <= b + GAP:
            b = max(b, ranges[last, STOP])
            last += 1
        while a < b:
            got = pread(fd, out.ctypes.data + a - base, b - a, a)
            if got <= 0:
                return r
            a += got
        r = last
    return -1
