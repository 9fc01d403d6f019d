"""Caches decoded pieces of arrays: chunks, groups of chunks, and native blocks.

The cache is limited in bytes. Two readers that want one piece at the same time decode it once.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from vfs.errors import VfsError

CACHE = 256 << 20
"""Bytes that a cache holds at most by default."""


class EvictionListener(Protocol):
    """Receives a cached piece, so that it can be served without asking the cache.

    It is told when the cache drops the piece. All three methods are called while the cache is locked.
    """

    def put(self, piece: np.ndarray) -> None:
        """Take note that the cache holds this piece from now on."""

    def used(self) -> bool:
        """Say whether the piece was served since the last call."""
        ...

    def drop(self) -> None:
        """Take note that the cache drops the piece: it must not be served any more."""


SHOWN = 1024
"""Bytes that a piece with a listener counts beyond its own.

The tables that find it and free it take 700 (measured with 60,000 pieces of 1 KiB).
"""


PASSING = 2
"""Number of passing pieces that are held at most, see `ChunkCache.passing`.

zarr asks for the same chunk again for each of `z[0]`, `z[1]`, …
"""


@dataclass(slots=True, eq=False)
class _Flight:
    """A piece that is being made: the thread that holds `lock` makes it, the others wait for the lock.

    A lock that `with` takes is released whatever interrupts its holder. So if a thread stops before
    the piece is made, the next thread makes it.
    """

    lock: threading.Lock
    made: np.ndarray | None = None
    error: VfsError | None = None


class ChunkCache:
    """Keeps decoded pieces, at most `limit` bytes of them; drops the ones that were not used for longest.

    While one thread makes a piece, others that want it wait for it and get the same one. A piece
    that could not be made is not kept; the threads that wait for it get the error too. An interrupt
    (a signal handler that raises) may come between any two calls that are made here. So values that
    must change together are changed without a call in between.

    Attributes:
        limit: most bytes that are held.
        held: bytes that are held now.
        hits: how often `get` found a piece held or being made.
        misses: how often a piece had to be made.
    """

    def __init__(self, limit: int = CACHE) -> None:
        self.limit = limit
        self._bounds: list[int] = []
        self._own = limit
        self.held = self.hits = self.misses = 0
        self._lock = threading.Lock()
        self._pieces: OrderedDict[Hashable, np.ndarray] = OrderedDict()
        self._passing: dict[Hashable, None] = {}
        self._shown: dict[Hashable, EvictionListener] = {}
        self._latest: tuple[Hashable, np.ndarray | None] = None, None
        self._making: dict[Hashable, _Flight] = {}
        _CACHES.add(self)

    @contextmanager
    def bounded(self, limit: int) -> Iterator[None]:
        """Hold at most `limit` bytes meanwhile, for callers that read everything once."""
        try:
            with self._lock:
                self._own = self._own if self._bounds else self.limit
                self._bounds.append(limit)
                self.limit = min(self._own, *self._bounds)
                while self.held > self.limit:
                    self._drop_one()
            yield
        finally:
            with self._lock:
                self._bounds.remove(limit)
                self.limit = min(self._own, *self._bounds) if self._bounds else self._own

    def peek(self, key: Hashable) -> np.ndarray | None:
        """Return the piece `key` if it is held, else None. This does not count as use."""
        latest, piece = self._latest
        if latest == key:
            return piece
        with self._lock:
            return self._pieces.get(key)

    def get(self, key: Hashable, make: Callable[[], np.ndarray], shown: EvictionListener | None = None) -> np.ndarray:
        """Return the piece `key`, made by `make` if it is not held. It is read-only, because it is shared.

        Args:
            shown: is told when the piece is held, unless another listener was told already, and
                when it is dropped.

        Raises: the errors of `make`. If another thread is making the piece, a VfsError of that
            thread is raised here too. Anything else that stops that thread (Ctrl-C, no memory)
            concerns that thread alone.
        """
        with self._lock:
            kept = self._pieces.get(key)
            if kept is not None:
                self._pieces.move_to_end(key)
                self._passing.pop(key, None)
                if shown is not None:
                    self._keep(key, kept, shown)
                self.hits += 1
                return kept
            flight = self._making.get(key)
            if flight is None or flight.error is not None:  # a piece that failed before is tried again
                flight = self._making[key] = _Flight(threading.Lock())
                self.misses += 1
            else:
                self.hits += 1
        try:
            with flight.lock:
                if flight.error is not None:
                    raise copy(flight.error)
                if flight.made is None:
                    try:
                        made = make()
                    except VfsError as error:
                        flight.error = copy(error)  # without its traceback, whose frames hold on to memory
                        raise
                    made.flags.writeable = False
                    flight.made = made
                return flight.made
        finally:  # in every thread that wanted the piece: any of them may have been interrupted
            with self._lock:
                over = flight.made is not None or flight.error is not None or not flight.lock.locked()
                if over and self._making.get(key) is flight:
                    del self._making[key]
                if flight.made is not None:
                    self._keep(key, flight.made, shown)

    def passing(self, key: Hashable, piece: np.ndarray) -> None:
        """Hold a piece for a moment. It becomes read-only.

        This is for pieces that most readers take whole, and once: only the last `PASSING` of them
        are held. The caller asks `peek` before it makes such a piece. Two threads may both make one.
        """
        piece.flags.writeable = False
        with self._lock:
            self.misses += 1
            if self._keep(key, piece):
                self._passing[key] = None
                if len(self._passing) > PASSING:
                    self._drop(next(iter(self._passing)))

    def latest(self, key: Hashable, piece: np.ndarray) -> None:
        """Hold a small piece beside all others until the next such piece comes. It becomes read-only.

        This is for pieces that are made as fast as they are kept, and serves readers who ask for one again and again.
        """
        piece.flags.writeable = False
        self._latest = key, piece

    @property
    def spent_limit(self) -> int:
        """Bytes that are held while pieces are spent: the rest of the limit is for those who make others of them."""
        return self.limit - self.limit // 4

    def spent(self, keys: Iterable[Hashable]) -> None:
        """Drop pieces: what was wanted of them is made. Others go, too, as far as more than `spent_limit` is held."""
        with self._lock:
            for key in keys:
                if key in self._pieces:
                    self._drop(key)
            while self.held > self.spent_limit:
                self._drop_one()

    def _keep(self, key: Hashable, piece: np.ndarray, shown: EvictionListener | None = None) -> bool:
        """Hold a piece if it fits, and tell its listener. Return False if it does not fit or is held already."""
        new = piece.nbytes <= self.limit and key not in self._pieces
        if new:
            self._pieces[key] = piece  # no call between these two
            self.held += piece.nbytes
        if shown is not None and key in self._pieces and key not in self._shown:
            self._shown[key] = shown  # no call between these two
            self.held += SHOWN
            shown.put(self._pieces[key])
        while self.held > self.limit:
            self._drop_one()
        return new

    def __contains__(self, key: Hashable) -> bool:
        """Say whether a piece is held or being made."""
        with self._lock:
            return key in self._pieces or key in self._making

    def _drop_one(self) -> None:
        """Drop the piece that was not used for longest.

        A piece that its listener served since this method last asked counts as used now.
        """
        for _ in range(len(self._pieces)):
            key = next(iter(self._pieces))
            shown = self._shown.get(key)
            if shown is None or not shown.used():
                break
            self._pieces.move_to_end(key)
        self._drop(next(iter(self._pieces)))

    def _drop(self, key: Hashable) -> None:
        self._passing.pop(key, None)
        shown = self._shown.get(key)
        if shown is not None:
            shown.drop()  # before the piece goes: it is handed out no longer
            del self._shown[key]  # no call between these two
            self.held -= SHOWN
        size = self._pieces[key].nbytes
        del self._pieces[key]  # no call between these two
        self.held -= size

    def clear(self) -> None:
        """Drop every piece."""
        self._latest = None, None
        with self._lock:
            while self._pieces:
                self._drop_one()

    def _after_fork(self) -> None:  # the lock and the unfinished pieces belong to threads that the child does not have
        self._lock = threading.Lock()
        self._making = {}


_CACHES: weakref.WeakSet[ChunkCache] = weakref.WeakSet()


def _after_fork() -> None:
    for cache in _CACHES:
        cache._after_fork()


os.register_at_fork(after_in_child=_after_fork)
