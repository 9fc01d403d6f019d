"""Reads and decodes in a few threads, for an event loop that must not wait."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from vfs.engine.abandon import asked

PATIENCE = 5.0  # seconds that work under way has to end when the threads end


class GoneError(Exception):
    """The client has gone away."""


class _SharedRead:
    """Work that is waiting or under way, and the requests that wait for it.

    Attributes:
        waiting: a future for each request.
        left: True once nobody waits for it any more.
    """

    __slots__ = ("key", "left", "loop", "waiting", "work")

    def __init__(self, key: Hashable, work: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> None:
        self.key = key
        self.work = work
        self.loop = loop
        self.waiting: list[asyncio.Future[Any]] = []
        self.left = False


class Reads:
    """Runs functions in threads. Requests for the same bytes share one run.

    Work that all its requests have given up is taken out of the queue. What is under way ends early
    if it computes for long (`vfs.engine.abandon`).
    All methods are called in the thread of the event loop.

    There is one future for each request, and one call from a thread to the event loop for each run.
    An executor of `concurrent.futures`, with `asyncio.wrap_future` and `asyncio.shield`, takes twice the time.

    Args:
        workers: number of threads.
    """

    def __init__(self, workers: int) -> None:
        self._queue: SimpleQueue[_SharedRead | None] = SimpleQueue()
        self._flights: dict[Hashable, _SharedRead] = {}
        self._closed = False
        self._threads = [threading.Thread(target=self._run, name=f"vfs-read-{n}", daemon=True) for n in range(workers)]
        for thread in self._threads:
            thread.start()

    def start(self, key: Hashable, work: Callable[[], Any]) -> asyncio.Future[Any]:
        """Run a function in a thread.

        Args:
            key: requests with equal keys at the same time share one run.

        Returns: a future of what the function returns or raises, for one request. It must be passed to
            `leave` when the request waits no longer; it may be cancelled before.
        """
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = _SharedRead(key, work, asyncio.get_running_loop())
            self._queue.put(flight)
        waiting = flight.loop.create_future()
        flight.waiting.append(waiting)
        return waiting

    def leave(self, key: Hashable, waiting: asyncio.Future[Any]) -> None:
        """Say that a request does not wait any longer."""
        flight = self._flights.get(key)
        if flight is None or waiting not in flight.waiting:  # the work is over
            return
        flight.waiting.remove(waiting)
        if not flight.waiting:
            flight.left = True
            del self._flights[key]

    def _run(self) -> None:
        while (flight := self._queue.get()) is not None:
            self._run_one(flight)
            del flight  # its memory must not wait for the next work

    def _run_one(self, flight: _SharedRead) -> None:
        if flight.left:
            return
        made, error = None, None
        try:
            asked.gone = lambda: flight.left or self._closed
            made = flight.work()
        except BaseException as raised:
            error = raised
        asked.gone = None
        with suppress(RuntimeError):  # the event loop has ended
            flight.loop.call_soon_threadsafe(self._end, flight, made, error)
        del error  # its traceback has this frame, and those that hold what was read so far

    def _end(self, flight: _SharedRead, made: Any, error: BaseException | None) -> None:
        if self._flights.get(flight.key) is flight:
            del self._flights[flight.key]
        every, flight.waiting = flight.waiting, []  # of an error, the traceback has a frame that has the flight
        for waiting in every:
            if waiting.done():
                continue
            if error is None:
                waiting.set_result(made)
            else:
                waiting.set_exception(error)

    @property
    def waiting(self) -> int:
        """Number of pieces of work that wait or are under way."""
        return len(self._flights)

    def end_early(self) -> None:
        """End what computes for long: it raises AbandonedError."""
        self._closed = True

    def close(self) -> None:
        """Drop what waits, and end the threads. What is under way has some seconds to end."""
        self._closed = True
        for flight in self._flights.values():
            flight.left = True
        for _ in self._threads:
            self._queue.put(None)
        until = time.monotonic() + PATIENCE
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
