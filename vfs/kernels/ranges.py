"""Cuts and groups the read ranges of a plan, by pure functions on small integer arrays.

No file is touched here. `vfs.kernels.columns` says what they are.
"""

from __future__ import annotations

import numpy as np

from vfs.kernels.columns import (
    COLUMNS,
    COUNT,
    DEST,
    FILE,
    LINES,
    NEXT,
    PITCH,
    PLANE,
    SKIP,
    START,
    STEP,
    STOP,
    W_FILE,
    W_FIRST,
    W_LAST,
    W_START,
    W_STOP,
    W_WANTED,
)
from vfs.kernels.deferred import inner, kernel

MAX_INTERLEAVED = 16
"""Most interleaved ranges whose lines are read in the order of the file."""


def _rows(ranges, *_):
    """Return the number of ranges that a kernel goes through."""
    return len(ranges)


@inner
def _doubled(table):
    """Return a table with twice as many rows: those of `table`, and room for more."""
    more = np.empty((2 * table.shape[0], table.shape[1]), np.int64)
    for r in range(table.shape[0]):  # a loop: assigning slices makes numba compile its error messages too, for 2.5 s
        for c in range(table.shape[1]):
            more[r, c] = table[r, c]
    return more


@inner
def _end_of_interleaved(ranges, r):
    """Return the end of the ranges from `r` on whose lines lie interleaved in a file.

    Lines of detector sectors side by side do. They are read together, from front to back, once.
    """
    end = r + 1
    if ranges[r, LINES] > 1:
        while (
            end < ranges.shape[0]
            and end - r < MAX_INTERLEAVED
            and ranges[end, FILE] == ranges[r, FILE]
            and ranges[end, PITCH] == ranges[r, PITCH]
            and ranges[end - 1, START] <= ranges[end, START] < ranges[r, STOP]
        ):
            end += 1
    return end


@kernel(rows=_rows)
def in_lines(ranges, limit):
    """Cut ranges of several lines until none spans more than `limit` bytes; single lines are not cut.

    Interleaved ranges are cut together and come in the order of the file.
    """
    n = 0
    r = 0
    while r < ranges.shape[0]:
        end = _end_of_interleaved(ranges, r)
        most = _slab(ranges, r, end, limit)
        for k in range(r, end):
            if most > 0:
                ahead = (ranges[k, START] - ranges[r, START]) // ranges[r, PITCH]
                n += (ahead + ranges[k, LINES] - 1) // most - ahead // most
            n += 1
        r = end
    if n == ranges.shape[0]:
        return ranges
    rows = np.empty((n, ranges.shape[1]), np.int64)
    n = 0
    r = 0
    while r < ranges.shape[0]:
        end = _end_of_interleaved(ranges, r)
        most = _slab(ranges, r, end, limit)
        first, missing = 0, True  # the slab's first line
        while missing:
            missing = False
            for k in range(r, end):
                pitch, lo, hi = ranges[k, PITCH], 0, ranges[k, LINES]
                if most > 0:
                    ahead = (ranges[k, START] - ranges[r, START]) // pitch
                    lo, hi = max(0, first - ahead), min(hi, first + most - ahead)
                    missing |= first + most - ahead < ranges[k, LINES]
                    if hi <= lo:
                        continue
                row = rows[n]
                for c in range(ranges.shape[1]):
                    row[c] = ranges[k, c]
                if most > 0:
                    row[START] += lo * pitch
                    row[STOP] -= (ranges[k, LINES] - hi) * pitch
                    row[DEST] += lo * row[NEXT]
                    row[LINES] = hi - lo
                    if hi - lo == 1:
                        row[PITCH], row[NEXT] = 0, 0
                n += 1
            first += most
        r = end
    return rows


@inner
def _slab(ranges, r, end, limit):
    """Return how many lines of interleaved ranges `in_lines` leaves together; 0 for all of them.

    Lines count in pitches from the first line.
    """
    pitch, wide, high, lines = ranges[r, PITCH], 0, 0, 0
    for k in range(r, end):
        if ranges[k, LINES] > 1:
            ahead = (ranges[k, START] - ranges[r, START]) // pitch
            wide = max(wide, ranges[k, STOP] - ranges[r, START] - (ahead + ranges[k, LINES] - 1) * pitch)
            lines = max(lines, ahead + ranges[k, LINES])
            high = max(high, ranges[k, STOP] - ranges[r, START])
    if high <= limit:
        return 0
    most = (limit - wide) // pitch + 1 if limit > wide else 1
    pieces = -(-lines // most)
    return -(-lines // pieces)  # pieces of equal lengths, as far as possible


@inner
def interleaved(ranges, r, ahead):
    """Find the ranges from `r` on that are read together, line by line, in the order of the file.

    Args:
        ahead: int64[MAX_INTERLEAVED], receives for each range how many pitches its first line
            lies behind that of range `r`.

    Returns: (the range after the last one, number of lines in all). Line n of all is line
        `n - ahead` of a range, if the range has that line.
    """
    end, lines = _end_of_interleaved(ranges, r), 1
    for k in range(r, end):
        ahead[k - r] = 0
        if ranges[k, LINES] > 1:
            ahead[k - r] = (ranges[k, START] - ranges[r, START]) // ranges[r, PITCH]
            lines = max(lines, ahead[k - r] + ranges[k, LINES])
    return end, lines


@kernel(rows=_rows)
def split(ranges, limit, word_bytes, word_pixels):
    """Cut ranges of one line that are longer than `limit` bytes, at borders of words."""
    words = max(1, limit // word_bytes)
    rows = np.empty((ranges.shape[0] + 16, COLUMNS), np.int64)
    n = 0
    for r in range(ranges.shape[0]):
        row = ranges[r].copy()
        while True:
            if n == rows.shape[0]:
                rows = _doubled(rows)
            rows[n] = row
            n += 1
            cut = row[START] + words * word_bytes
            if cut >= row[STOP]:
                break
            here = words * word_pixels - row[SKIP]
            rows[n - 1, STOP] = cut
            rows[n - 1, COUNT] = here
            row[START] = cut
            row[DEST] += here * row[STEP]
            row[COUNT] -= here
            row[SKIP] = 0
    return rows[:n]


@kernel
def at_edges(ranges, edges, word_bytes, word_pixels):
    """Cut ranges at the edges of tiles of the output.

    Args:
        edges: int64[m + 1], first element of each tile in the flat output, and the end of the last one.

    Returns:
        (ranges whose places count from the tile's first element, int64[m + 1] first range of each
        tile). The second is empty if the ranges do not go through the tiles in order, or if a
        range that is not a single forward line crosses an edge.
    """
    m = edges.shape[0] - 1
    rows = np.empty((ranges.shape[0] + m, COLUMNS), np.int64)
    begins = np.zeros(m + 1, np.int64)
    failed = begins[:0]
    if ranges.shape[1] != COLUMNS:
        return rows[:0], failed
    n, t = 0, 0
    for r in range(ranges.shape[0]):
        start, to, by = ranges[r, START], ranges[r, DEST], ranges[r, STEP]
        skip, count = ranges[r, SKIP], ranges[r, COUNT]
        low, high = min(to, to + (count - 1) * by), max(to, to + (count - 1) * by)
        lines = max(1, ranges[r, LINES])
        if lines > 1:
            low, high = low + min(0, (lines - 1) * ranges[r, NEXT]), high + max(0, (lines - 1) * ranges[r, NEXT])
        while t + 1 < m and edges[t + 1] <= low:
            t += 1
            begins[t] = n
        if low < edges[t] or (high >= edges[t + 1] and (by != 1 or lines > 1 or ranges[r, PLANE] < 0)):
            return rows[:0], failed
        while True:
            here = min(count, edges[t + 1] - to) if by == 1 and lines == 1 else count
            row = rows[n]
            row[FILE], row[START] = ranges[r, FILE], start
            row[STOP] = (
                ranges[r, STOP]
                if here == count
                else start + (skip + here + word_pixels - 1) // word_pixels * word_bytes
            )
            row[DEST], row[STEP], row[SKIP], row[COUNT], row[PLANE] = to - edges[t], by, skip, here, ranges[r, PLANE]
            row[LINES], row[PITCH], row[NEXT] = lines, ranges[r, PITCH], ranges[r, NEXT]
            n += 1
            if here == count:
                break
            start += (skip + here) // word_pixels * word_bytes
            skip = (skip + here) % word_pixels
            to += here
            count -= here
            t += 1
            begins[t] = n
    for k in range(t + 1, m + 1):
        begins[k] = n
    return rows[:n], begins


@kernel(rows=_rows)
def by_file(ranges):
    """Sort rows by file if files alternate, so that `windows` finds neighbours."""
    for r in range(1, ranges.shape[0]):
        if ranges[r, FILE] < ranges[r - 1, FILE]:
            return ranges[np.argsort(ranges[:, FILE], kind="mergesort")]
    return ranges


@kernel(rows=_rows)
def windows(ranges, limit):
    """Group neighbouring rows of one file into windows of at most `limit` bytes.

    Returns: int64[m, 6]: file, first byte, last byte (half-open), first row, last row (half-open),
        bytes wanted.
    """
    out = np.empty((16, 6), np.int64)
    n = 0
    rows = ranges.shape[0]
    file, lo, hi, first, wanted = -1, 0, 0, 0, 0
    for r in range(rows + 1):
        if r < rows:
            a, b = ranges[r, START], ranges[r, STOP]
            size = b - a
            if ranges[r, LINES] > 1:
                size = (size - (ranges[r, LINES] - 1) * ranges[r, PITCH]) * ranges[r, LINES]
            if r > first and ranges[r, FILE] == file and max(hi, b) - min(lo, a) <= limit:
                lo, hi = min(lo, a), max(hi, b)
                wanted += size
                continue
        if r > 0:
            if n == out.shape[0]:
                out = _doubled(out)
            out[n, W_FILE], out[n, W_START], out[n, W_STOP] = file, lo, hi
            out[n, W_FIRST], out[n, W_LAST], out[n, W_WANTED] = first, r, wanted
            n += 1
        if r < rows:
            file, lo, hi, first, wanted = ranges[r, FILE], a, b, r, size
    return out[:n]
