"""Find where whole frames lie in files, and which of them are taken together."""

from __future__ import annotations

from vfs.kernels.columns import COUNT, DEST, FILE, LINES, NEXT, PITCH, SKIP, START, STEP
from vfs.kernels.compiled import kernel

P_FILE, P_START, P_STOP, P_FRAME = range(4)
"""Columns of a table of frames: index of the file, first byte, byte after the last one, which frame it is."""


@kernel
def frame_places(ranges, size, width, table):
    """Find where frames begin, of read ranges that hold them one by one, in whatever order.

    Args:
        ranges: see `vfs.kernels.columns`; size: elements that are wanted of a frame; width: bytes of one.
        table: int64[frames, 4], written to: see `P_FILE`.

    Returns: how many there are; -1 where some frame is not in one piece.
    """
    n = 0
    for r in range(ranges.shape[0]):
        count, to, by, start = ranges[r, COUNT], ranges[r, DEST], ranges[r, NEXT], ranges[r, START]
        lines = max(1, ranges[r, LINES])
        if (
            count % size != 0
            or to % size != 0
            or (lines > 1 and by % size != 0)
            or (ranges[r, STEP] != 1 and count > 1)
            or ranges[r, SKIP] != 0
        ):
            return -1
        for line in range(lines):
            for j in range(count // size):
                first = start + line * ranges[r, PITCH] + j * size * width
                table[n, P_FILE], table[n, P_START], table[n, P_STOP] = ranges[r, FILE], first, first + size * width
                table[n, P_FRAME] = (to + line * by) // size + j
                n += 1
    return n


@kernel
def groups(table, frames, nbytes, out):
    """Cut a table of frames where a file ends, or where frames lie further apart than `nbytes`, or at `frames` of them.

    It makes no array: to load code that does takes numba 30 ms of imports.

    Args:
        out: int64[rows of table, 5], written to: rows (file, first byte, byte after the last one,
            first row, row after the last one).

    Returns: how many there are.
    """
    g = 0
    first = 0
    while first < table.shape[0]:
        file, lo, hi = table[first, P_FILE], table[first, P_START], table[first, P_STOP]
        last = first + 1
        while last < table.shape[0] and last - first < frames and table[last, P_FILE] == file:
            a, b = min(lo, table[last, P_START]), max(hi, table[last, P_STOP])
            if b - a > nbytes:
                break
            lo, hi = a, b
            last += 1
        out[g, 0], out[g, 1], out[g, 2], out[g, 3], out[g, 4] = file, lo, hi, first, last
        g += 1
        first = last
    return g
