"""Decodes the next pieces of a file while somebody reads it from one piece to the next."""

from __future__ import annotations

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from vfs.errors import VfsError
from vfs.fuse.pieces import Piece, PieceTable
from vfs.fuse.sources import NativeSource
from vfs.kernels.fuse import lookup

DEPTH = 2  # pieces that are made ahead of a reader


class ReadAhead:
    """A thread that makes pieces before a reader comes for them.

    Attributes:
        making: (number of the source, number of the piece) of those that it was asked for and has not made yet.
    """

    def __init__(self, pieces: PieceTable) -> None:
        self.pieces = pieces
        self.making: set[tuple[int, int]] = set()
        self._lock = threading.Lock()
        self._worker = ThreadPoolExecutor(
            1, "vfs-ahead", initializer=signal.pthread_sigmask, initargs=(signal.SIG_BLOCK, signal.valid_signals())
        )

    def go_on(self, which: int, source: NativeSource, number: int) -> None:
        """Have the pieces behind piece `number` of a source made, as long as they take but little of the cache."""
        cache = source.array.cache
        for n in range(number + 1, min(source.count, number + 1 + DEPTH)):
            if source.piece(n)[0] in cache:
                continue
            with self._lock:
                full = len(self.making) >= 2 * DEPTH or source.size * (len(self.making) + 2) > cache.limit // 4
                if full or (which, n) in self.making:
                    continue
                self.making.add((which, n))
            with suppress(RuntimeError):  # shut down
                self._worker.submit(self._make, which, source, n)

    def _make(self, which: int, source: NativeSource, n: int) -> None:
        try:
            with suppress(VfsError, MemoryError, OSError):  # who comes for it gets the error
                key, make = source.piece(n)
                source.array.cache.get(
                    key, make, Piece(self.pieces, lookup.handle(which, n), True, source.sources.moves.item(0))
                )
        finally:
            with self._lock:
                self.making.discard((which, n))

    def close(self) -> None:
        """End the thread."""
        self._worker.shutdown(cancel_futures=True)
