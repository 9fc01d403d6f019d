"""Finds sources and pieces in the tables by their numbers, and makes handles for open files.

Nothing is freed while it is used. A reader is counted in (`enter`) before it follows an address of
a table, and counted out (`leave`) when it is done. There are two counters, and the lowest bit of
`EPOCH` says which one new readers use. Code that takes an entry out of a table must not free it
before it has seen each counter at 0 once since then: readers that are counted in later cannot find
the entry any more. Changing that bit of `EPOCH` lets the counter that is in use go down to 0. See
`vfs.fuse.pieces`.
"""

from __future__ import annotations

import time

import numpy as np
from numba.extending import register_jitable

from vfs.kernels.clib import clock_gettime
from vfs.kernels.compiled import inner, kernel
from vfs.kernels.intrinsics import get
from vfs.kernels.native.fuse.state import state
from vfs.kernels.native.fuse.tables import PROBES, PieceWord, SourceWord, StateWord
from vfs.kernels.native.memory import atomic_add, atomic_get, room
from vfs.kernels.native.words import LINE, SECOND, FrameWord, Timespec

OURS = 1 << 62
"""The bit that tells our handles from any other content of `fi->fh`."""
_NUMBER_BITS = 32
FILES_MOST, SOURCES_MOST = 1 << _NUMBER_BITS, OURS >> _NUMBER_BITS
"""Limits of numbers: files and pieces of a source are below the first, sources below the second.

The last bits of a source's number are its place in the table of sources."""

_CLOCK = time.CLOCK_MONOTONIC
_room_for_a_time = room(len(Timespec))


@register_jitable
def handle(source, number):
    """Return the handle for file `number` of a source (`fi->fh`), or for its piece `number` (a key of pieces).

    It is never 0.
    """
    return OURS | source << _NUMBER_BITS | number


@register_jitable
def parts(made):
    """Return the (source, number) from which `handle` made a handle."""
    return (made & ~OURS) >> _NUMBER_BITS, made & ((1 << _NUMBER_BITS) - 1)


@inner
def enter():
    """Count a reader in. Return the word of its counter, for `leave`."""
    inside = StateWord.INSIDE + LINE * (atomic_get(state(), StateWord.EPOCH) & 1)
    atomic_add(state(), inside, 1)
    return inside


@inner
def leave(inside):
    """Count a reader out, at the counter that `enter` returned."""
    atomic_add(state(), inside, -1)


@kernel
def place(key, mask):
    """Return the place at which the search for a key begins in a table of `mask + 1` places.

    The key lies there or in one of the next `PROBES - 1` places.
    """
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(mixed >> np.uint64(20)) & mask


@inner
def source_of(number):
    """Return the address of a source, 0 if it is gone or its files have to be checked again.

    Callers are between `enter` and `leave`.
    """
    places = atomic_get(state(), StateWord.SOURCE_PLACES)
    if places == 0:
        return 0
    source = atomic_get(get(state(), StateWord.SOURCES), number & (places - 1))
    if source == 0 or get(source, SourceWord.NUMBER) != number:
        return 0
    until = atomic_get(source, FrameWord.UNTIL)
    if until:
        now = _room_for_a_time()
        if (
            clock_gettime(np.int32(_CLOCK), now) != 0
            or get(now, Timespec.SECONDS) * SECOND + get(now, Timespec.NANOSECONDS) >= until
        ):
            return 0
    return source


@inner
def piece_of(pieces, mask, key, made):
    """Return the address of a piece, 0 if there is none. Callers are between `enter` and `leave`.

    Args:
        pieces, mask: address of the table of pieces, and its number of places less one.
        key: see `PieceWord.KEY`.
        made: see `PieceWord.MADE`.
    """
    at = place(key, mask)
    for _ in range(PROBES):
        piece = atomic_get(pieces, at)
        if piece and get(piece, PieceWord.KEY) == key and get(piece, PieceWord.MADE) == made:
            return piece
        at = (at + 1) & mask
    return 0
