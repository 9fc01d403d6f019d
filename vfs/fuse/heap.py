"""Keeps the memory of a server small, with two calls of glibc. On other C libraries it does nothing.

One thread makes the pieces of a cache, another one drops them, long and short ones in any order.
glibc keeps the holes between them, by default for each thread separately: a server would grow by
half of its cache and more.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress

_ARENA_MAX = -8  # M_ARENA_MAX of malloc.h


def share_heap() -> None:
    """Let threads that start from now on reuse memory that other threads freed."""
    with suppress(AttributeError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)


def give_back() -> None:
    """Return freed memory to the system."""
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(ctypes.c_size_t(0))
