"""Decodes the next pieces of a file in advance for a reader that goes from piece to piece."""

from __future__ import annotations

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from vfs.errors import VfsError
from vfs.fuse.pieces import Piece, PieceTable
from vfs.fuse.sources import NativeSource
from vfs.kernels.native.fuse import lookup

DEPTH = 2  # pieces that are made in advance


class ReadAhead:
    """Makes pieces in a thread before a reader asks for them.

    Attributes:
        making: (number of the source, number of the piece) of the pieces that are requested but not
            made yet.
    """

    def __init__(self, pieces: PieceTable) -> None:
        self.pieces = pieces
        self.making: set[tuple[int, int]] = set()
        self._lock = threading.Lock()
        self._worker = ThreadPoolExecutor(
            1, "vfs-ahead", initializer=signal.pthread_sigmask, initargs=(signal.SIG_BLOCK, signal.valid_signals())
        )

    def go_on(self, which: int, source: NativeSource, number: int) -> None:
        """Request the pieces after piece `number` of a source, unless they take a large part of the cache."""
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
            with suppress(VfsError, MemoryError, OSError):  # the reader will get the error
                key, make = source.piece(n)
                source.array.cache.get(
                    key, make, Piece(self.pieces, lookup.handle(which, n), True, source.source_files.moves.item(0))
                )
        finally:
            with self._lock:
                self.making.discard((which, n))

    def close(self) -> None:
        """End the thread."""
        self._worker.shutdown(cancel_futures=True)
