"""Decoded pieces for those who come back for the rest of one: limited in bytes, and two readers of one piece decode it once."""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from copy import copy
from typing import Protocol

import numpy as np

from vfs.errors import VfsError

CACHE = 256 << 20
"""Bytes that a cache holds at most, where nobody says otherwise."""


class EvictionListener(Protocol):
    """Who hands out a piece past the cache as long as the cache holds it. All three are called with the cache locked."""

    def put(self, piece: np.ndarray) -> None:
        """It is held from now on."""

    def used(self) -> bool:
        """Whether anybody got it since this was asked last."""
        ...

    def drop(self) -> None:
        """It is held no longer."""


SHOWN = 1024
"""Bytes that a piece counts beyond its own where it is shown to somebody: what is kept to find it and to let go of it takes 700 (60,000 pieces of 1 KiB)."""


PASSING = 2
"""Pieces that are held of those that pass: for readers who take a chunk apart by asking for it again and again, as zarr's do for `z[0]`, `z[1]`, …"""


class _Flight:
    """A piece on its way: who holds `lock` makes it, the others wait for that.

    A lock that `with` takes is let go whatever interrupts its holder, so a piece that somebody stopped making is made by the next one.
    """

    __slots__ = ("error", "lock", "made")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.made: np.ndarray | None = None
        self.error: VfsError | None = None

    def result(self, make: Callable[[], np.ndarray]) -> np.ndarray:
        """Return the piece, made by `make` unless somebody else makes it meanwhile.

        Raises:
            VfsError: it could not be made, here or there. Anything else that stops who makes it (Ctrl-C, no memory) concerns that one only.
        """
        with self.lock:
            if self.error is not None:
                raise copy(self.error)
            if self.made is None:
                try:
                    made = make()
                except VfsError as error:
                    self.error = copy(error)  # without its traceback, whose frames hold on to memory
                    raise
                made.flags.writeable = False
                self.made = made
            return self.made

    def in_the_air(self) -> bool:
        """Whether somebody is making it just now."""
        return self.made is None and self.error is None and self.lock.locked()


class ChunkCache:
    """Decoded pieces, at most `limit` bytes of them, the ones used last.

    Single-flight: while one thread makes a piece, others that want it wait for that one. A piece that could not be made
    is not kept; whoever waits for it gets the error too. An interrupt (a signal's handler that raises) may come between any two calls
    made here: what has to change together changes without a call in between.

    Attributes:
        limit: bytes; held: bytes that are held now.
        hits, misses: how often a piece was there or on its way, and how often it had to be made.
    """

    def __init__(self, limit: int = CACHE) -> None:
        self.limit = limit
        self.held = self.hits = self.misses = 0
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, np.ndarray] = OrderedDict()
        self._passing: dict[Hashable, None] = {}
        self._shown: dict[Hashable, EvictionListener] = {}
        self._making: dict[Hashable, _Flight] = {}
        _CACHES.add(self)

    def peek(self, key: Hashable) -> np.ndarray | None:
        """The piece `key` if it is there. Does not count as use."""
        with self._lock:
            return self._kept.get(key)

    def get(self, key: Hashable, make: Callable[[], np.ndarray], shown: EvictionListener | None = None) -> np.ndarray:
        """The piece `key`, made by `make` if it is not there. Read-only: it is shared.

        Args:
            shown: is told when the piece is held, unless somebody else is already, and when it is no longer.

        Raises: what `make` raises; of what it raises in another thread, which made the piece meanwhile, VfsErrors only.
        """
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
                self._passing.pop(key, None)
                self._show(key, kept, shown)
                self.hits += 1
                return kept
            flight = self._making.get(key)
            if flight is None or flight.error is not None:  # what failed before is tried again
                flight = self._making[key] = _Flight()
                self.misses += 1
            else:
                self.hits += 1
        try:
            return flight.result(make)
        finally:
            self._landed(key, flight, shown)

    def _landed(self, key: Hashable, flight: _Flight, shown: EvictionListener | None) -> None:
        """Keep what was made. Everybody who had to do with a flight says so: any of them may have been interrupted."""
        with self._lock:
            if self._making.get(key) is flight and not flight.in_the_air():
                del self._making[key]
            if flight.made is not None:
                self._keep(key, flight.made)
            kept = self._kept.get(key)
            if kept is not None:
                self._show(key, kept, shown)
            self._shrink()

    def passing(self, key: Hashable, make: Callable[[], np.ndarray]) -> np.ndarray:
        """`get` for pieces that most readers take whole, and once: of those only the last `PASSING` are held. Two threads may both make one."""
        kept = self.peek(key)
        if kept is not None:
            self.hits += 1
            return kept
        made = make()
        made.flags.writeable = False
        with self._lock:
            self.misses += 1
            if self._keep(key, made):
                self._passing[key] = None
                if len(self._passing) > PASSING:
                    self._drop(next(iter(self._passing)))
                self._shrink()
        return made

    def _keep(self, key: Hashable, piece: np.ndarray) -> bool:
        """Hold a piece if it fits. Returns False where it does not, or is held already."""
        if piece.nbytes > self.limit or key in self._kept:
            return False
        self._kept[key] = piece  # no call between these two
        self.held += piece.nbytes
        return True

    def _shrink(self) -> None:
        while self.held > self.limit:
            self._drop_one()

    def __contains__(self, key: Hashable) -> bool:
        """Whether a piece is there or on its way."""
        with self._lock:
            return key in self._kept or key in self._making

    def _show(self, key: Hashable, piece: np.ndarray, shown: EvictionListener | None) -> None:
        if shown is not None and key not in self._shown:
            self._shown[key] = shown  # no call between these two
            self.held += SHOWN
            shown.put(piece)

    def _drop_one(self) -> None:
        """Drop what was not used for longest; what was used past us since it came up here last is used now."""
        for _ in range(len(self._kept)):
            key = next(iter(self._kept))
            shown = self._shown.get(key)
            if shown is None or not shown.used():
                break
            self._kept.move_to_end(key)
        self._drop(next(iter(self._kept)))

    def _drop(self, key: Hashable) -> None:
        self._passing.pop(key, None)
        shown = self._shown.get(key)
        if shown is not None:
            shown.drop()  # before the piece goes: it is handed out no longer
            del self._shown[key]  # no call between these two
            self.held -= SHOWN
        size = self._kept[key].nbytes
        del self._kept[key]  # nor here
        self.held -= size

    def clear(self) -> None:
        """Let go of everything that is held."""
        with self._lock:
            while self._kept:
                self._drop_one()

    def _after_fork(self) -> None:  # the lock, and what was being made, belong to threads that the child does not have
        self._lock = threading.Lock()
        self._making = {}


_CACHES: weakref.WeakSet[ChunkCache] = weakref.WeakSet()


def _after_fork() -> None:
    for cache in _CACHES:
        cache._after_fork()


os.register_at_fork(after_in_child=_after_fork)
