"""Keeps data sets open between the tasks of a worker.

A worker gets a scan in many parts, as tasks that know nothing of each other: partitions of a
reduction, blocks of a dask array, arrays that were pickled. Each says how the set was opened, and
the first one opens it: 0.1 s with its headers for some formats, for others more than a part takes.
The last few sets are kept, and closed when nobody has asked for a while.
"""

from __future__ import annotations

import os
import pickle
import threading
from collections import OrderedDict
from typing import Any

from vfs.engine.array import ArrayReader
from vfs.engine.cache import ChunkCache

MAX_SETS = 16  # sets that are kept
IDLE = 60.0  # seconds after which they are closed
DECODED = 64 << 20
"""Bytes of decoded blocks that all sets keep together. A pass decodes each once, so it only needs those
that two tiles share; and a worker's memory is counted.
"""


class OpenSets:
    """Opens sets once, however many tasks ask for them. Safe from many threads, and after a fork."""

    def __init__(self) -> None:
        self._sets: OrderedDict[bytes, Any] = OrderedDict()
        self._cache = ChunkCache(DECODED)
        self._lock, self._timer = threading.Lock(), _no_timer()
        os.register_at_fork(after_in_child=self._after_fork)

    def array(self, opening: bytes, path: str) -> ArrayReader:
        """Return an array of a set.

        Args:
            opening: see `opened`.
            path: of the array in the set.

        Raises: what `Opening.open` raises.
        """
        array: ArrayReader = self.opened(opening).arrays[path]
        return array

    def opened(self, opening: bytes) -> Any:
        """Return a set, as `Opening.open` does; one that is still being written as it is now.

        Args:
            opening: what `for_workers` of `vfs.sets.live_set` returned.

        Raises: what `Opening.open` raises.
        """
        with self._lock:
            found = self._sets.pop(opening, None)
            if found is None:
                found = pickle.loads(opening)(self._cache)
            self._sets[opening] = found
            while len(self._sets) > MAX_SETS:
                self._sets.popitem(last=False)
            self._close_later()
        return found.now()

    def close(self) -> None:
        """Let go of all sets. Their files are closed when the last task that uses them ends."""
        with self._lock:
            self._timer.cancel()
            self._sets.clear()
            self._cache.clear()

    def _close_later(self) -> None:
        self._timer.cancel()
        self._timer = threading.Timer(IDLE, self.close)
        self._timer.name = "vfs-open-sets"
        self._timer.daemon = True
        self._timer.start()

    def _after_fork(self) -> None:  # the lock and the timer belong to threads that the child does not have
        self._lock, self._timer = threading.Lock(), _no_timer()


def _no_timer() -> threading.Timer:
    return threading.Timer(IDLE, lambda: None)


OPEN = OpenSets()
"""The open sets of this process."""
