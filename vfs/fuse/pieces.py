"""Holds decoded pieces in a table for native reads."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import numpy as np

from vfs.kernels.native import memory
from vfs.kernels.native.fuse import lookup
from vfs.kernels.native.fuse.tables import PROBES, PieceWord
from vfs.serving.native_sources import Retired

PLACES = 1 << 16
"""Number of places in the table.

A piece that finds none free takes that of another one, which is then read through the interpreter.
"""


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
