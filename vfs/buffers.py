"""Reused scratch memory.

Scratch is borrowed for the length of a `with` block and never leaves the function that borrowed it: what a caller gets is
made for that caller.
"""

from __future__ import annotations

import mmap
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

KEPT = 64 << 20  # bytes: longer buffers are rare (a huge compressed block) and not worth keeping


class Pool:
    """Page-aligned buffers for reuse, at most `keep` of them between uses. Safe from many threads (a deque's ends are)."""

    def __init__(self, keep: int = 8) -> None:
        self._free: deque[np.ndarray] = deque(maxlen=keep)

    @contextmanager
    def borrow(self, size: int) -> Iterator[np.ndarray]:
        """A uint8 buffer of at least `size` bytes with any content; page-aligned."""
        try:
            buffer = self._free.pop()
        except IndexError:
            buffer = np.empty(0, np.uint8)
        if buffer.size < size:  # fresh pages cost a fault each: grow in powers of two, so that it happens once
            length = max(1 << 16, 1 << (size - 1).bit_length()) if size <= KEPT else size
            # private: python's default would share the memory with forked processes, which borrow the same buffers
            buffer = np.frombuffer(mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), np.uint8)
        try:
            yield buffer
        finally:
            if buffer.size <= KEPT:
                self._free.append(buffer)


scratch = Pool()
