"""What the tables hold, found by its number, and handles, which say what is open.

Nothing is freed while it is used. A reader is counted in (`enter`) before it follows an address of
a table, and counted out (`leave`) when it is done. There are two counters, and the lowest bit of
`EPOCH` says which one readers use now. Whoever takes something out of a table waits, before freeing
it, until he has seen each counter at 0 once since then: readers who are counted in later cannot
find it any more. Turning `EPOCH` over lets the counter that is in use run dry. See
`vfs.fuse.retired`.
"""

from __future__ import annotations

import time

import numpy as np
from numba import njit
from numba.extending import register_jitable

from vfs.kernels.fuse.native import atomic_add, atomic_get, clock_gettime, room, state
from vfs.kernels.fuse.tables import LINE, PROBES, SECOND, PieceWord, SourceWord, StateWord, Timespec
from vfs.kernels.intrinsics import get
from vfs.kernels.ranges import inner

OURS = 1 << 62
"""The bit that tells our handles from whatever else `fi->fh` may be."""
_NUMBER_BITS = 32
FILES_MOST, SOURCES_MOST = 1 << _NUMBER_BITS, OURS >> _NUMBER_BITS
"""The numbers of files and pieces of a source are below the first, those of sources below the
second. A source lies at the last bits of its number in the table of sources."""

_CLOCK = time.CLOCK_MONOTONIC
_room_for_a_time = room(len(Timespec))


@register_jitable
def handle(source, number):
    """Return what stands for file `number` of a source, as `fi->fh`, or for its piece `number`, in
    the table of pieces. Never 0.
    """
    return OURS | source << _NUMBER_BITS | number


@register_jitable
def parts(made):
    """Return (source, number) of what `handle` made."""
    return (made & ~OURS) >> _NUMBER_BITS, made & ((1 << _NUMBER_BITS) - 1)


@inner
def enter():
    """Count a reader in. Returns where, for `leave`."""
    inside = StateWord.INSIDE + LINE * (atomic_get(state(), StateWord.EPOCH) & 1)
    atomic_add(state(), inside, 1)
    return inside


@inner
def leave(inside):
    """Count a reader out."""
    atomic_add(state(), inside, -1)


@njit(nogil=True, cache=True)
def place(key, mask):
    """Return where the search for a key begins in a table of `mask + 1` places: it lies there or in
    one of the next `PROBES - 1`.
    """
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(mixed >> np.uint64(20)) & mask


@inner
def source_of(number):
    """Return the address of a source that is good now; 0: there is none, any more. To be called
    between `enter` and `leave`.
    """
    places = atomic_get(state(), StateWord.SOURCE_PLACES)
    if places == 0:
        return 0
    source = atomic_get(get(state(), StateWord.SOURCES), number & (places - 1))
    if source == 0 or get(source, SourceWord.NUMBER) != number:
        return 0
    until = atomic_get(source, SourceWord.UNTIL)
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
    """Return the address of the piece of that key and state, 0 where there is none. To be called
    between `enter` and `leave`.
    """
    at = place(key, mask)
    for _ in range(PROBES):
        piece = atomic_get(pieces, at)
        if piece and get(piece, PieceWord.KEY) == key and get(piece, PieceWord.MADE) == made:
            return piece
        at = (at + 1) & mask
    return 0
