"""Where the frame of a scan position lies: the one place that says so, for planning, for layouts
and for what libfuse calls.

Scan position -> stored frame (a list of chosen positions, an offset) -> byte of the stream that frames follow one
another in -> file, and byte of the file. A position is blank where no frame is stored for it, or no file holds it.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from vfs.kernels.intrinsics import get
from vfs.kernels.ranges import inner

STRIDE, HEADER, STORED, OFFSET = range(4)
"""The numbers that place frames: frame n starts at stream byte `n * stride + header`, there are `stored` frames, and
scan position p shows frame `p + offset`."""

S_START, S_STOP, S_BYTE, S_FILE = range(4)
S_COLUMNS = 4
"""Columns of a stream: its bytes from S_START to S_STOP (half-open) lie in file S_FILE from byte S_BYTE on. Rows are
sorted and do not overlap; bytes that no row has are in no file."""


# what `tables` returns
_HOW, _CHOSEN, _CHOICES, _STREAM, _ROWS = range(5)


@inner
def tables(how, chosen, stream):
    """Get the addresses of the arrays that say where frames lie, as the functions below take them.

    Addresses, since a call that takes arrays counts references to each of them, atomically: that takes 50 ns a frame,
    where all the rest takes 3. Whoever calls a kernel keeps the arrays.

    Args:
        how: int64[4 or more], see `STRIDE`.
        chosen: int64[m] flat scan positions that are shown, or empty: all.
        stream: int64[f, 4], see `S_START`. All of them C-contiguous.

    Returns: (address of how, of chosen, its length, address of stream, its rows).
    """
    return (
        np.int64(how.ctypes.data),
        np.int64(chosen.ctypes.data),
        chosen.shape[0],
        np.int64(stream.ctypes.data),
        stream.shape[0],
    )


@inner
def stream_word(tables, row, column):
    """Get a number of a row of the stream."""
    return get(tables[_STREAM], S_COLUMNS * row + column)


@inner
def row_of(tables, byte, guess):
    """Find the row of a stream that holds a byte.

    Args:
        guess: row that is looked at first, negative for none. Frames that are asked for one after
            the other mostly lie in one file.

    Returns: the row; where no file holds the byte -1 - n, n the first row behind it.
    """
    stream = tables[_STREAM]
    if guess >= 0 and get(stream, S_COLUMNS * guess + S_START) <= byte < get(stream, S_COLUMNS * guess + S_STOP):
        return guess
    lo, hi = 0, tables[_ROWS]
    while lo < hi:
        mid = (lo + hi) >> 1
        if get(stream, S_COLUMNS * mid + S_START) <= byte:
            lo = mid + 1
        else:
            hi = mid
    return lo - 1 if lo > 0 and byte < get(stream, S_COLUMNS * (lo - 1) + S_STOP) else -1 - lo


@inner
def stored_frame(tables, position):
    """Find which stored frame a (flat) scan position shows; -1 where none is stored for it."""
    if tables[_CHOICES] > 0:
        position = get(tables[_CHOSEN], position)
    frame = position + get(tables[_HOW], OFFSET)
    return frame if 0 <= frame < get(tables[_HOW], STORED) else -1


@inner
def locate(tables, position, ahead, guess):
    """Find where the frame of a scan position begins.

    Args:
        position: flat, of the navigation axes that are shown.
        ahead: bytes from the frame's first one to the one whose row is wanted.
        guess: see `row_of`.

    Returns:
        (stream byte where the frame begins, -1 where no frame is stored for this position; row of the stream that
        holds the byte `ahead` of it, negative where no file does).
    """
    frame = stored_frame(tables, position)
    if frame < 0:
        return -1, -1
    begin = frame * get(tables[_HOW], STRIDE) + get(tables[_HOW], HEADER)
    return begin, row_of(tables, begin + ahead, guess)


@inner
def file_byte(tables, begin, row):
    """Get where a byte of a row lies: (file, byte of the file, bytes that the row holds from there
    on); (-1, -1, 0) for no row.
    """
    if row < 0:
        return -1, -1, 0
    first, last = stream_word(tables, row, S_START), stream_word(tables, row, S_STOP)
    return stream_word(tables, row, S_FILE), begin - first + stream_word(tables, row, S_BYTE), last - begin


@njit(nogil=True, cache=True, error_model="numpy")
def locate_one(position, how, chosen, stream):
    """Find where the frame of a scan position begins.

    Returns:
        (file, byte of the file, bytes that the file holds of the stream from there on), (-1, -1, 0) where the position
        is blank: no frame is stored for it, or no file holds its first byte.
    """
    where = tables(how, chosen, stream)
    begin, row = locate(where, position, 0, -1)
    return file_byte(where, begin, row)


@njit(nogil=True, cache=True, error_model="numpy")
def locate_all(positions, how, chosen, stream, found):
    """Do what `locate_one` does for int64[n] positions, into the rows of `found`, int64[n, 3]."""
    where = tables(how, chosen, stream)
    row = -1
    for k in range(positions.shape[0]):
        begin, row = locate(where, positions[k], 0, row)
        found[k, 0], found[k, 1], found[k, 2] = file_byte(where, begin, row)
