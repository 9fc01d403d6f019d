"""Computes hashes and inode numbers of paths, from the text of a path alone.

This is a module apart from `vfs.kernels.native.fuse.names`, whose callbacks are compiled or loaded as soon
as it is imported: a mount that is only described, not served, needs none of those.
"""

from __future__ import annotations

import numpy as np

from vfs.kernels.compiled import inner, kernel
from vfs.kernels.native.memory import peek8

BASIS = np.uint64(0xCBF29CE484222325)
PRIME = np.uint64(0x100000001B3)


@inner
def hashed(h, text, start, stop):
    """Return the FNV-1a hash of the bytes `start` to `stop`, counted from the address `text`.

    Args:
        h: hash of the bytes before these; `BASIS` if there are none.
    """
    for i in range(start, stop):
        h = (h ^ np.uint64(peek8(text + i))) * PRIME
    return h


@inner
def inode(h):
    """Compute an inode number from a path's hash: never 0 or 1, at most 63 bits."""
    h ^= h >> np.uint64(33)
    h *= np.uint64(0xFF51AFD7ED558CCD)
    h ^= h >> np.uint64(33)
    h *= np.uint64(0xC4CEB9FE1A85EC53)
    h ^= h >> np.uint64(33)
    return np.int64(h >> np.uint64(1)) | 2


@kernel
def path_hash(text, length):
    """Return the hash of a path, as int64.

    Args:
        text: address of the path's bytes, without the first slash.
        length: number of these bytes.
    """
    return np.int64(hashed(BASIS, text, 0, length))


@kernel
def path_inode(text, length):
    """Return the inode number of a path, given as for `path_hash`."""
    return inode(hashed(BASIS, text, 0, length))
