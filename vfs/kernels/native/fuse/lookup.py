"""Finds pieces in their table by their numbers, and makes handles for open files."""

from __future__ import annotations

import numpy as np
from numba.extending import register_jitable

from vfs.kernels.compiled import inner, kernel
from vfs.kernels.intrinsics import get
from vfs.kernels.native.fuse.tables import PROBES, PieceWord
from vfs.kernels.native.memory import atomic_get

OURS = 1 << 62
"""The bit that tells our handles from any other content of `fi->fh`."""
_NUMBER_BITS = 32
FILES_MOST = 1 << _NUMBER_BITS
"""Numbers of files and pieces of a source are below this; those of sources: `vfs.serving.native_sources.NUMBERS`."""


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


@kernel
def place(key, mask):
    """Return the place at which the search for a key begins in a table of `mask + 1` places.

    The key lies there or in one of the next `PROBES - 1` places.
    """
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(mixed >> np.uint64(20)) & mask


@inner
def piece_of(pieces, mask, key, made):
    """Return the address of a piece, 0 if there is none. Callers are between `sources.enter` and `leave`.

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
