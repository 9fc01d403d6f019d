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
TOTAL = 128 << 20  # bytes kept between uses: sixteen threads that convert tiles need half of it


class Pool:
    """Page-aligned buffers for reuse, at most `keep` of them and `total` bytes between uses: those that were not used for longest go
    first. Safe from many threads (a deque's ends are, and so is its copy).
    """

    def __init__(self, keep: int = 8, total: int = TOTAL) -> None:
        self.total = total
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
            try:
                buffer = np.frombuffer(mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), np.uint8)
            except OSError as error:
                raise MemoryError(f"{length:,} bytes of scratch memory: {error.strerror}") from None
        try:
            yield buffer
        finally:
            if buffer.size <= KEPT:
                self._free.append(buffer)
                while sum(free.size for free in self._free.copy()) > self.total:
                    try:
                        self._free.popleft()
                    except IndexError:  # another thread was faster
                        break

    def clear(self) -> None:
        """Give back the memory that is kept."""
        self._free.clear()


scratch = Pool()
