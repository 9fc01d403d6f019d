"""Asks a native source where its frames lie and which of its files are open: see `FrameWord`."""

from __future__ import annotations

import numpy as np

from vfs.kernels.clib import pread
from vfs.kernels.compiled import inner
from vfs.kernels.intrinsics import get
from vfs.kernels.native.at_hand import same
from vfs.kernels.native.memory import address, atomic_get
from vfs.kernels.native.words import FrameWord, GridRow

_GRID_WORDS = len(GridRow)


@inner
def frame_tables(source):
    """Return what `vfs.kernels.locate.tables` returns, for a source."""
    return (
        get(source, FrameWord.HOW),
        get(source, FrameWord.CHOSEN),
        get(source, FrameWord.CHOICES),
        get(source, FrameWord.STREAM),
        get(source, FrameWord.STREAM_ROWS),
    )


@inner
def placed(source, number):
    """Return one of the numbers that place frames: see `vfs.kernels.locate.STRIDE`."""
    return get(get(source, FrameWord.HOW), number)


@inner
def along(source, axis):
    """Return (chunks along a navigation axis, frames of a chunk along it, frames of the array along it)."""
    row = address(get(source, FrameWord.GRID), axis * _GRID_WORDS)
    return get(row, GridRow.COUNT), get(row, GridRow.CHUNK), get(row, GridRow.LENGTH)


@inner
def descriptor(source, file):
    """Return the descriptor of a file of a source; -1 if it is not open."""
    return atomic_get(get(source, FrameWord.DESCRIPTORS), file) - 1


@inner
def unchanged(source, fd, path, file):
    """Return True if a file of a source is in the state that its table has. See `at_hand.same`."""
    return same(fd, path, get(source, FrameWord.STATES), file)


@inner
def moves(source):
    """Return how many times a file of a source was found touched."""
    return atomic_get(get(source, FrameWord.MOVES), 0)


@inner
def read_whole(fd, memory, size, begin):
    """Read `size` bytes of a file from byte `begin` on, to an address. Returns False if that cannot be."""
    done = 0
    while done < size:
        got = pread(np.int32(fd), memory + done, size - done, begin + done)
        if got <= 0:
            return False
        done += got
    return True
