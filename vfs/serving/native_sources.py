"""Holds what native code of a mount and of an HTTP server reads, and frees it when that is done.

`vfs.kernels.native.sources` is how native code finds a source.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np

from vfs.kernels.native import memory
from vfs.kernels.native.words import LINE, TABLE_WORDS, FrameWord, TableWord

NUMBERS = 1 << 30
"""Numbers of sources are below this."""


class Retired:
    """Keeps objects whose memory native code may still read, until no such reader is left.

    Readers count themselves in and out in one of two counters of a table; every `collect` switches to the other one.
    Once both counters were seen at zero after an object was retired, no reader can find it any more, and it is freed;
    unless it belongs to a source that a reader has put down as its own, to come back to it.

    Args:
        table: int64[TABLE_WORDS], see `TableWord`.
        held: returns the addresses of the sources that readers have put down.
    """

    def __init__(self, table: np.ndarray, held: Callable[[], Collection[int]] = frozenset) -> None:
        self._table, self._held = table, held
        self._lock = threading.Lock()
        # (counters that were seen at zero since, address of the source it belongs to or 0, object to free)
        self._kept: list[tuple[set[int], int, Any]] = []

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[Any]:
        return (what for _, _, what in self._kept.copy())

    def add(self, what: Any, source: np.ndarray | None = None) -> None:
        """Keep an object until no reader can be using it.

        Args:
            source: words of the source that it belongs to; None: readers find it only while they are counted in.
        """
        with self._lock:
            self._kept.append((set(), 0 if source is None else source.ctypes.data, what))

    def collect(self) -> None:
        """Free objects that no reader can be using. Without any readers, two calls free everything."""
        with self._lock:
            for counter in (0, 1):
                if memory.read_word(self._table.ctypes.data, TableWord.INSIDE + LINE * counter) == 0:
                    for seen, _, _ in self._kept:
                        seen.add(counter)
            held = self._held() if self._kept else ()
            self._kept = [entry for entry in self._kept if len(entry[0]) < 2 or entry[1] in held]
            self._table[TableWord.EPOCH] ^= 1


class SourceTable:
    """Shows native code sources. None is freed while it is read, and no number is used twice.

    Args:
        most: places for sources, a power of two.
        held: see `Retired`.

    Attributes:
        words: int64[TABLE_WORDS], see `TableWord`. places: int64[most], addresses of the words of sources, 0: free.
        retired: keeps what was taken out.
    """

    def __init__(self, most: int, held: Callable[[], Collection[int]] = frozenset) -> None:
        self.places = np.zeros(most, np.int64)
        self.words = np.zeros(TABLE_WORDS, np.int64)
        self.words[TableWord.PLACES], self.words[TableWord.COUNT] = self.places.ctypes.data, most
        self.retired = Retired(self.words, held)
        self._next = 0

    def number(self, again: int | None = None) -> int:
        """Return a number for a source.

        Args:
            again: the number of one that was taken out and comes back; None: a number that none ever had.

        Returns: -1 if there is no place for it.
        """
        most = len(self.places)
        for number in range(self._next, min(self._next + most, NUMBERS)) if again is None else (again,):
            if self.places[number % most] == 0:
                self._next = max(self._next, number + 1)
                return number
        return -1

    def add(self, number: int, words: np.ndarray) -> None:
        """Show native code a source.

        Args:
            number: what the method of this name returned.
            words: the words of the source, of which the first are as in `FrameWord`.
        """
        words[FrameWord.NUMBER] = number
        memory.write_word(self.places.ctypes.data, number % len(self.places), words.ctypes.data)

    def remove(self, what: Any, words: np.ndarray) -> None:
        """Show a source no longer.

        Args:
            what: object to keep as long as native code may read what its words point to.
        """
        memory.write_word(self.places.ctypes.data, int(words[FrameWord.NUMBER]) % len(self.places), 0)
        self.retired.add(what, words)
