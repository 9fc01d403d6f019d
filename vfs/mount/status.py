"""What a server has done so far: counters that Python and C code increase side by side.

A row for each of them, so that neither loses what the other adds, each with a cache line of its own:

- row `PYTHON`: through `add`, from any thread.
- row `NATIVE`: by code that runs without the interpreter, at `Counters.native_address`, which stays for the life of the server;
  int64 at `8 * REQUESTS` and so on. Such code has to add atomically where several threads run it.
"""

from __future__ import annotations

import threading

import numpy as np

FIELDS = ("requests", "reads", "bytes", "hits", "misses", "errors")
REQUESTS, READS, BYTES, HITS, MISSES, ERRORS = range(len(FIELDS))
"""Positions in a row: requests answered, of any kind; those that were reads; bytes that reads were answered with; decoded pieces found in the
cache, or not; requests answered with EIO."""
PYTHON, NATIVE = 0, 1
WIDTH = 8  # int64 a row: a cache line


class Counters:
    """Counts of one server, from 0.

    Attributes:
        table: int64[2, WIDTH], a row for Python and a row for native code. Never moved or replaced.
    """

    def __init__(self) -> None:
        memory = np.zeros(3 * WIDTH, np.int64)
        skip = -memory.ctypes.data % (8 * WIDTH) // 8
        self.table = memory[skip : skip + 2 * WIDTH].reshape(2, WIDTH)
        self._lock = threading.Lock()

    @property
    def native_address(self) -> int:
        """Address of the row that native code adds to."""
        return int(self.table[NATIVE].ctypes.data)

    def add(self, *, reads: int = 0, nbytes: int = 0, errors: int = 0) -> None:
        """Count one request."""
        row = self.table[PYTHON]
        with self._lock:
            row[REQUESTS] += 1
            if reads:
                row[READS] += reads
                row[BYTES] += nbytes
            if errors:
                row[ERRORS] += errors

    def totals(self) -> dict[str, int]:
        """Field -> count, both rows together."""
        return dict(zip(FIELDS, self.table.sum(axis=0)[: len(FIELDS)].tolist(), strict=True))
