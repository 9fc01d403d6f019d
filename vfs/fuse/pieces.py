"""Decoded pieces where native reads find them, and memory that native reads may still be looking at."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vfs.kernels.fuse import lookup, native
from vfs.kernels.fuse.tables import LINE, PROBES, PieceWord, StateWord

PLACES = 1 << 16
"""Places in the table: a piece that finds none takes that of another one, which is then read
through the interpreter.
"""


class Retired:
    """Keeps objects whose memory native code may still read, and frees them when no read is left
    that began before they were retired.

    Native reads count themselves in and out in one of two counters, and which one changes with
    every `collect`: what was retired before both counters were seen at zero is in nobody's hands
    any more.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: list[tuple[set[int], Any]] = []  # (which counters were seen at zero since, what is to be freed)

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, what: object) -> bool:
        return any(kept is what for _, kept in self._kept)

    def add(self, what: Any) -> None:
        """Keep something until no native read can be looking at it."""
        with self._lock:
            self._kept.append((set(), what))

    def collect(self) -> None:
        """Free what no native read can be looking at. Two calls free everything, if there are no reads at all."""
        with self._lock:
            for counter in (0, 1):
                if native.read_word(native.STATE.ctypes.data, StateWord.INSIDE + LINE * counter) == 0:
                    for seen, _ in self._kept:
                        seen.add(counter)
            self._kept = [(seen, what) for seen, what in self._kept if len(seen) < 2]
            native.STATE[StateWord.EPOCH] ^= 1


class PieceTable:
    """Says where decoded pieces lie in memory.

    Attributes:
        places: int64[PLACES], addresses of the words of pieces (`PieceWord`), 0: free.
        retired: pieces that were dropped go there.
    """

    def __init__(self, retired: Retired) -> None:
        self.places = np.zeros(PLACES, np.int64)
        self.retired = retired
        self.lock = threading.Lock()


@dataclass(slots=True, eq=False)
class Piece:
    """Shows a piece of the chunk cache in the table as long as the cache holds it: see
    `vfs.engine.cache.EvictionListener`.

    Attributes:
        key: see `lookup.handle`.
        ahead: it is made before anybody asked for it.
        moves: state of the files (`Files.moves`) that it is of.
        piece, words: the elements, and what native reads go by.
    """

    table: PieceTable
    key: int
    ahead: bool
    moves: int
    piece: np.ndarray = field(init=False)
    words: np.ndarray = field(init=False)

    def put(self, piece: np.ndarray) -> None:
        self.piece, table = piece, self.table
        self.words = np.array([self.key, piece.ctypes.data, piece.nbytes, self.ahead, 1, self.moves], np.int64)
        with table.lock:
            at = int(lookup.place(self.key, PLACES - 1))
            free = [place for k in range(PROBES) if table.places[place := (at + k) % PLACES] == 0]
            native.write_word(table.places.ctypes.data, free[0] if free else at, self.words.ctypes.data)
        table.retired.collect()

    def used(self) -> bool:
        found = bool(self.words[PieceWord.USED])
        self.words[PieceWord.USED] = 0
        return found

    def drop(self) -> None:
        table = self.table
        with table.lock:
            at = int(lookup.place(self.key, PLACES - 1))
            for place in [(at + k) % PLACES for k in range(PROBES)]:
                if table.places[place] == self.words.ctypes.data:
                    native.write_word(table.places.ctypes.data, place, 0)
        table.retired.add(self)
        table.retired.collect()
