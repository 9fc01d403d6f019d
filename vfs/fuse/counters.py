"""Counts the work of a server.

Python and native code count at the same time, each in a row of its own, so that no count is lost.
"""

from __future__ import annotations

import threading

import numpy as np

from vfs.kernels.native.fuse.tables import CounterWord
from vfs.kernels.native.words import LINE, WORD

FIELDS = tuple(word.name.lower() for word in CounterWord)
"""The fields of a `vfs.serving.status.Status` that are counted here."""
PYTHON, NATIVE = 0, 1
"""Rows of the counters.

Python adds through `Counters.add`, native code adds atomically to the words at `Counters.native_address`.
"""


class Counters:
    """Holds the counts of one server, which begin at 0.

    Attributes:
        table: int64[2, LINE], each row in a cache line of its own; `CounterWord` gives the columns.
            It is never moved or replaced.
    """

    def __init__(self) -> None:
        memory = np.zeros(3 * LINE, np.int64)
        skip = -memory.ctypes.data % (WORD * LINE) // WORD
        self.table = memory[skip : skip + 2 * LINE].reshape(2, LINE)
        self._lock = threading.Lock()

    @property
    def native_address(self) -> int:
        """The address of the row that native code adds to. It is the same for the life of the server."""
        return int(self.table[NATIVE].ctypes.data)

    def add(self, *, reads: int = 0, nbytes: int = 0, errors: int = 0) -> None:
        """Count one request."""
        row = self.table[PYTHON]
        with self._lock:
            row[CounterWord.REQUESTS] += 1
            if reads:
                row[CounterWord.READS] += reads
                row[CounterWord.BYTES] += nbytes
            if errors:
                row[CounterWord.ERRORS] += errors

    def totals(self) -> dict[str, int]:
        """Return the counts so far, the sum of both rows, by field."""
        return dict(zip(FIELDS, self.table.sum(axis=0)[: len(FIELDS)].tolist(), strict=True))
