"""Reuses memory, because fresh pages are slow: a page fault takes longer than filling the page.

`scratch` is borrowed for the length of a `with` block and never leaves the function that borrowed
it. `lender` lends memory to callers: it belongs to the caller alone, and is used again once no
array, view, or view of a view refers to it any more. `large` lends it to blocks that are kept.
"""

from __future__ import annotations

import math
import mmap
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import cast

import numpy as np

LINE = 64  # bytes: of a processor's cache line, and of its widest vectors
KEPT = 64 << 20  # bytes: longer buffers are rare (a huge compressed block) and not worth keeping
TOTAL = 128 << 20  # bytes kept between uses: sixteen threads that convert tiles need half of it
HUGE = 1 << 21  # bytes: of a huge page
SHORT = 1 << 17  # bytes: shorter memory comes from malloc, which has it at hand; longer one comes from the system


def aligned(shape: int | tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return an array with any content that begins with a cache line.

    Vectors that lie across two lines take twice as long, and numpy's large arrays begin 16 bytes behind a line.
    """
    size = math.prod(shape if isinstance(shape, tuple) else (shape,)) * dtype.itemsize
    memory = np.empty(size + LINE, np.uint8)
    first = -memory.ctypes.data % LINE
    return memory[first : first + size].view(dtype).reshape(shape)


class MemoryPool:
    """Keeps page-aligned buffers for reuse: at most `keep` of them and `total` bytes while unused.

    Buffers that were not used for longest are freed first. Safe from many threads: the ends of a
    deque are, and so is its copy.
    """

    def __init__(self, keep: int = 8, total: int = TOTAL) -> None:
        self.total = total
        self._free: deque[np.ndarray] = deque(maxlen=keep)

    @property
    def held(self) -> int:
        """Bytes that are kept for reuse."""
        return sum(free.size for free in self._free.copy())

    @contextmanager
    def borrow(self, size: int) -> Iterator[np.ndarray]:
        """Lend a page-aligned uint8 buffer of at least `size` bytes, with any content."""
        try:
            buffer = self._free.pop()
        except IndexError:
            buffer = np.empty(0, np.uint8)
        if buffer.size < size:  # fresh pages cost a fault each: grow in powers of two, so that it happens once
            length = max(1 << 16, 1 << (size - 1).bit_length()) if size <= KEPT else size
            buffer = np.frombuffer(_mapped(length), np.uint8)
        try:
            yield buffer
        finally:
            if buffer.size <= KEPT:
                self._free.append(buffer)
                while sum(free.size for free in self._free.copy()) > self.total:  # `held`, without a call for each read
                    try:
                        self._free.popleft()
                    except IndexError:  # another thread was faster
                        break

    def clear(self) -> None:
        """Free the memory that is kept for reuse."""
        self._free.clear()


scratch = MemoryPool()


def keep_freed() -> None:
    """Have the C library keep what is freed from now on for what is wanted next, up to 64 MiB a thread.

    glibc gives long blocks back to the system and takes fresh pages for the next, but for blocks no longer than the
    longest that was freed so far, of at most 32 MiB. This frees one of that length, which nobody touched. Codecs
    get 2 MiB for each chunk of 2 MiB, and cut that to the length of the result: of a process that exports 512 MiB, the
    page faults went from 34,000 to 14,000, and the processor time from 0.87 to 0.78 s.
    """
    np.empty((32 << 20) - (1 << 16), np.uint8)


class _Lent(np.ndarray):
    """Lent memory, which returns to its `MemoryLender` when the last array that shows it is deleted."""

    back: Callable[[mmap.mmap], None] | None = None

    def __del__(self) -> None:
        if self.back is not None:  # else it is a view, which refers to the lent memory
            self.back(cast(mmap.mmap, self.base))


class MemoryLender:
    """Lends page-aligned memory that callers may keep as long as they like.

    At most `keep` blocks and `total` bytes wait to be lent again; the ones that came back first are
    freed first. Safe from many threads, and from the garbage collector at any time, because nothing
    is locked.

    Args:
        least: bytes of the shortest memory that is lent. Shorter arrays come from malloc: lending them does not pay.
    """

    def __init__(self, keep: int = 16, total: int = 64 << 20, least: int = SHORT) -> None:
        self.total, self.least = total, least
        self._free: deque[mmap.mmap] = deque(maxlen=keep)

    @property
    def held(self) -> int:
        """Bytes that wait to be lent again."""
        return sum(map(len, self._free.copy()))

    def lend(self, size: int) -> np.ndarray:
        """Return uint8[size] with any content."""
        if size < self.least:
            return np.empty(size, np.uint8)
        length = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        lent = _Lent((size,), np.uint8, self._found(length) or self._made(length))
        lent.back = self._back
        return lent.view(np.ndarray)

    def _made(self, length: int) -> mmap.mmap:
        memory = _mapped(length)
        if self.least >= HUGE:
            with suppress(OSError):  # a system without huge pages
                memory.madvise(mmap.MADV_HUGEPAGE)
        return memory

    def _found(self, length: int) -> mmap.mmap | None:
        for _ in range(len(self._free)):
            try:
                memory = self._free.pop()
            except IndexError:  # another thread was faster
                return None
            if len(memory) == length:
                return memory
            self._free.appendleft(memory)
        return None

    def _back(self, memory: mmap.mmap) -> None:
        self._free.append(memory)
        while self.held > self.total:
            try:
                self._free.popleft()
            except IndexError:
                break

    def clear(self) -> None:
        """Free the memory that waits to be lent again."""
        self._free.clear()


def is_lent(array: np.ndarray) -> bool:
    """Return True if what an array shows is lent for as long as an array shows it."""
    shown: object = array
    while isinstance(shown, np.ndarray) and not isinstance(shown, _Lent):
        shown = shown.base
    return isinstance(shown, _Lent)


lender = MemoryLender()
large = MemoryLender(keep=8, total=16 << 20, least=HUGE)
"""Lends huge pages (2 MiB). A fault of one takes 0.1 ms, 512 of small pages take 0.8 ms: twice as long as to halve the
8 MiB of an image that become one. What is lent again has none.
"""


def _mapped(length: int) -> mmap.mmap:
    """Return fresh memory of `length` bytes."""
    # private: python's default would share the memory with forked processes, which use the same buffers
    try:
        return mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"{length:,} bytes of memory: {error.strerror}") from None
