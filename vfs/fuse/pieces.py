"""Holds decoded pieces in a table for native reads, and keeps memory that they may still be using."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vfs.kernels.native import memory
from vfs.kernels.native.fuse import lookup, state
from vfs.kernels.native.fuse.tables import PROBES, PieceWord, StateWord
from vfs.kernels.native.words import LINE

PLACES = 1 << 16
"""Number of places in the table.

A piece that finds none free takes that of another one, which is then read through the interpreter.
"""


class Retired:
    """Keeps objects whose memory native code may still read, until no such read is left.

    Native reads count themselves in and out in one of two counters; every `collect` switches to the
    other one. Once both counters were seen at zero after an object was retired, no read uses it any
    more, and it is freed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: list[tuple[set[int], Any]] = []  # (counters that were seen at zero since, object to free)

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, what: object) -> bool:
        return any(kept is what for _, kept in self._kept)

    def add(self, what: Any) -> None:
        """Keep an object until no native read can be using it."""
        with self._lock:
            self._kept.append((set(), what))

    def collect(self) -> None:
        """Free objects that no native read can be using. Without any reads, two calls free everything."""
        with self._lock:
            for counter in (0, 1):
                if memory.read_word(state.STATE.ctypes.data, StateWord.INSIDE + LINE * counter) == 0:
                    for seen, _ in self._kept:
                        seen.add(counter)
            self._kept = [(seen, what) for seen, what in self._kept if len(seen) < 2]
            state.STATE[StateWord.EPOCH] ^= 1


class PieceTable:
    """Holds the addresses of decoded pieces in memory.

    Attributes:
        places: int64[PLACES], addresses of the words of pieces (`PieceWord`), 0: free.
        retired: receives pieces that were dropped.
    """

    def __init__(self, retired: Retired) -> None:
        self.places = np.zeros(PLACES, np.int64)
        self.retired = retired
        self.lock = threading.Lock()


@dataclass(slots=True, eq=False)
class Piece:
    """Keeps a piece of the chunk cache in the table as long as the cache holds it.

    It implements `vfs.engine.cache.EvictionListener`.

    Attributes:
        key: see `lookup.handle`.
        ahead: True if it was made before a reader asked for it.
        moves: state of the files (`Files.moves`) when it was read.
        piece, words: its elements, and its words (`PieceWord`) for native reads.
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
            memory.write_word(table.places.ctypes.data, free[0] if free else at, self.words.ctypes.data)
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
                    memory.write_word(table.places.ctypes.data, place, 0)
        table.retired.add(self)
        table.retired.collect()
