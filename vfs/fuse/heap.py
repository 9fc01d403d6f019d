"""Keeps the memory of a server small, with two calls of glibc. On other C libraries nothing is done.

One thread makes the pieces of a cache, another drops them, long and short ones in any order. glibc
keeps the holes between them, and by default does so for each thread apart: a server would grow by
half of its cache and more.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress

_ARENA_MAX = -8  # M_ARENA_MAX of malloc.h


def share_heap() -> None:
    """Let threads use again what other threads freed. This concerns threads that begin later."""
    with suppress(AttributeError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)


def give_back() -> None:
    """Give memory that was freed back to the system."""
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(ctypes.c_size_t(0))
