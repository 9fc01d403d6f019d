"""Finds the frame of a scan position in the files, for planning, for layouts and for libfuse.

Three steps lead there. A list of chosen positions and an offset turn the scan position into the
number of a stored frame. The stride turns that into a byte of the stream in which frames follow one
another. A table of the stream's parts turns that into a file and a byte of the file. A position is
blank if no frame is stored for it, or no file holds the frame.
"""

from __future__ import annotations

import numpy as np

from vfs.kernels.columns import S_BYTE, S_COLUMNS, S_FILE, S_START, S_STOP
from vfs.kernels.deferred import get, inner, kernel

STRIDE, HEADER, STORED, OFFSET = range(4)
"""Indices of the numbers that place frames.

Frame n starts at stream byte `n * stride + header`, there are `stored` frames, and scan position p
shows frame `p + offset`."""


# Indices into the tuple that `tables` returns
_HOW, _CHOSEN, _CHOICES, _STREAM, _ROWS = range(5)


@inner
def tables(how, chosen, stream):
    """Return the addresses of the arrays that say where frames lie, as the functions below take them.

    They take addresses because a call that takes arrays counts references to each of them,
    atomically: that takes 50 ns a frame, and all the rest takes 3. The caller must keep the arrays.

    Args:
        how: int64[4 or more], see `STRIDE`.
        chosen: int64[m] flat scan positions that are shown; empty to show all.
        stream: int64[f, 4], see `S_START`. All three arrays are C-contiguous.

    Returns: (address of how, address of chosen, length of chosen, address of stream, rows of stream).
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
    """Return a number of a row of the stream."""
    return get(tables[_STREAM], S_COLUMNS * row + column)


@inner
def row_of(tables, byte, guess):
    """Find the row of a stream that holds a byte.

    Args:
        guess: row to try first, negative for none. Frames that are asked for one after the other
            mostly lie in one file.

    Returns: the row. If no file holds the byte: -1 - n, where n is the first row behind it.
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
    """Return the number of the stored frame that a flat scan position shows; -1 if there is none."""
    if tables[_CHOICES] > 0:
        position = get(tables[_CHOSEN], position)
    frame = position + get(tables[_HOW], OFFSET)
    return frame if 0 <= frame < get(tables[_HOW], STORED) else -1


@inner
def locate(tables, position, ahead, guess):
    """Find where the frame of a scan position begins.

    Args:
        position: flat position along the navigation axes that are shown.
        ahead: bytes from the beginning of the frame to the byte whose row is wanted.
        guess: see `row_of`.

    Returns:
        (stream byte at which the frame begins, row of the stream that holds the byte `ahead` of
        it). The first is -1 if no frame is stored for this position, the second is negative if no
        file holds the byte.
    """
    frame = stored_frame(tables, position)
    if frame < 0:
        return -1, -1
    begin = frame * get(tables[_HOW], STRIDE) + get(tables[_HOW], HEADER)
    return begin, row_of(tables, begin + ahead, guess)


@inner
def file_byte(tables, begin, row):
    """Find the place of a stream byte in the file of a row.

    Returns: (file, byte of the file, bytes that the row holds from there on); (-1, -1, 0) if `row`
        is negative.
    """
    if row < 0:
        return -1, -1, 0
    first, last = stream_word(tables, row, S_START), stream_word(tables, row, S_STOP)
    return stream_word(tables, row, S_FILE), begin - first + stream_word(tables, row, S_BYTE), last - begin


@kernel(error_model="numpy")
def locate_one(position, how, chosen, stream):
    """Find where the frame of a scan position begins.

    Returns:
        (file, byte of the file, bytes of the stream that the file holds from there on). It is
        (-1, -1, 0) if the position is blank: no frame is stored for it, or no file holds the first
        byte of the frame.
    """
    where = tables(how, chosen, stream)
    begin, row = locate(where, position, 0, -1)
    return file_byte(where, begin, row)
