"""Cuts frames that lie in files into groups that are read together."""

from __future__ import annotations

from vfs.kernels.compiled import kernel

P_FILE, P_START, P_STOP, P_FRAME = range(4)
"""Columns of a table of frames: index of the file, first byte, byte after the last one, which frame it is."""


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
