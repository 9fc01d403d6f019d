"""The memory of a server. Pieces of a cache are made by one thread and dropped by another, long and short ones in any order: glibc keeps the holes
between them, by itself for each thread its own, and what a server holds grows by half of its cache and more. Other C libraries are left alone.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress

_ARENA_MAX = -8  # M_ARENA_MAX of malloc.h


def share_heap() -> None:
    """See that what one thread of this process frees, the others use again. Matters to threads that begin later."""
    with suppress(AttributeError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)


def give_back() -> None:
    """Give the pages of what was freed back to the system."""
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(ctypes.c_size_t(0))
