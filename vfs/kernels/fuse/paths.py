"""Inode numbers, and hashes of names: both follow from a path's text alone.

Apart from `vfs.kernels.fuse.names`, whose callbacks are loaded as soon as it is imported: who shows what may change needs none of them.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from vfs.kernels.fuse.native import peek8
from vfs.kernels.ranges import inner

BASIS = np.uint64(0xCBF29CE484222325)
PRIME = np.uint64(0x100000001B3)


@inner
def hashed(h, text, start, stop):
    """FNV-1a of the bytes `start` to `stop` at an address, going on from `h`, of which `BASIS` is the first."""
    for i in range(start, stop):
        h = (h ^ np.uint64(peek8(text + i))) * PRIME
    return h


@inner
def inode(h):
    """The inode number that follows from a path's hash: never 0 or 1, at most 63 bits."""
    h ^= h >> np.uint64(33)
    h *= np.uint64(0xFF51AFD7ED558CCD)
    h ^= h >> np.uint64(33)
    h *= np.uint64(0xC4CEB9FE1A85EC53)
    h ^= h >> np.uint64(33)
    return np.int64(h >> np.uint64(1)) | 2


@njit(nogil=True, cache=True)
def path_hash(text, length):
    """The hash of a path without its first slash, as int64; its bytes are at an address."""
    return np.int64(hashed(BASIS, text, 0, length))


@njit(nogil=True, cache=True)
def path_inode(text, length):
    """The inode number of a path."""
    return inode(hashed(BASIS, text, 0, length))
