"""Counts what servers and stores were asked for: by each set, and by this process."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field


@dataclass
class Counts:
    """Counts what was asked for, in all threads.

    Attributes:
        requests: how many, those that failed among them; nbytes: of the bodies that came.
        kept: bytes that were taken from blocks on this machine (`vfs.sources.disk_cache`).
        of_all: counts that have the same added to them.
    """

    requests: int = 0
    nbytes: int = 0
    kept: int = 0
    of_all: Counts | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, requests: int = 0, nbytes: int = 0, kept: int = 0) -> None:
        with self._lock:
            self.requests += requests
            self.nbytes += nbytes
            self.kept += kept
        if self.of_all is not None:
            self.of_all.add(requests, nbytes, kept)

    def afresh(self) -> None:
        """Go on in a fork, where a thread that is gone may hold the lock."""
        self._lock = threading.Lock()


in_all = Counts()
"""What this process asked for."""
os.register_at_fork(after_in_child=in_all.afresh)
