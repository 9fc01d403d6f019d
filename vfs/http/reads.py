"""Reads and decodes in a few threads, for an event loop that must not wait."""

from __future__ import annotations

import asyncio
import logging
import platform
import threading
import time
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from vfs.engine.abandon import asked
from vfs.errors import printable
from vfs.http.guard import RefusedError

log = logging.getLogger("vfs.http")

PATIENCE = 5.0  # seconds that work under way has to end when the threads end
HANGS = 2.0
"""Seconds in one system call of a file after which a thread has another one in its place, where other work waits."""
REFUSED = 10.0
"""Seconds in it after which nothing more is begun in that folder: its file system does not answer."""
MORE = 32
"""Most threads that are begun in the places of others."""

_OF_FILES = {
    "x86_64": {0, 3, 4, 5, 6, 17, 19, 21, 89, 137, 138, 217, 257, 262, 267, 269, 295, 327, 332, 439},
    "aarch64": {43, 44, 48, 56, 57, 61, 63, 65, 67, 69, 78, 79, 80, 286, 291, 439},
}.get(platform.machine(), set())
"""Numbers of the system calls that open, look at, list and read files (the kernel's unistd.h). What waits for another
thread, or computes, is in none of them.
"""


Receive = Callable[[], Awaitable[Any]]
"""Gives messages of ASGI."""


class GoneError(Exception):
    """The client has gone away."""


async def left(receive: Receive) -> None:
    """Return when the client has gone away."""
    while (await receive())["type"] != "http.disconnect":
        pass


class _SharedRead:
    """Work that is waiting or under way, and the requests that wait for it.

    Attributes:
        place: the folder that it reads in; "" where that is not known.
        waiting: a future for each request.
        left: True once nobody waits for it any more.
        thread: the system's number of the thread that does it; 0 before one does.
        call: the system call of a file in which the thread was met, with its arguments; "": it was in none.
        since: `time.monotonic()` when it was first met there.
        replaced: another thread was begun in the place of the one that does it.
    """

    __slots__ = ("call", "key", "left", "loop", "place", "replaced", "since", "thread", "waiting", "work")

    def __init__(self, key: Hashable, work: Callable[[], Any], loop: asyncio.AbstractEventLoop, place: str) -> None:
        self.key = key
        self.work = work
        self.loop = loop
        self.place = place
        self.waiting: list[asyncio.Future[Any]] = []
        self.left = self.replaced = False
        self.call, self.since, self.thread = "", 0.0, 0


class Reads:
    """Runs functions in threads. Requests for the same bytes share one run.

    Work that all its requests have given up is taken out of the queue. What is under way ends early
    if it computes for long (`vfs.engine.abandon`). A system call of a file system that does not answer cannot be
    ended: another thread is begun, so that others go on, and soon nothing more is begun in that folder.
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
        self._workers = workers
        self._running: set[_SharedRead] = set()
        self._looks = False  # at threads that hang
        self._threads = [threading.Thread(target=self._run, name=f"vfs-read-{n}", daemon=True) for n in range(workers)]
        for thread in self._threads:
            thread.start()

    def start(self, key: Hashable, work: Callable[[], Any], place: str = "") -> asyncio.Future[Any]:
        """Run a function in a thread.

        Args:
            key: requests with equal keys at the same time share one run.
            place: the folder that the function reads in; "" where that is not known.

        Returns: a future of what the function returns or raises, for one request. It must be passed to
            `leave` when the request waits no longer; it may be cancelled before.

        Raises:
            RefusedError: other work in that folder does not come to an end.
        """
        flight = self._flights.get(key)
        if flight is None:
            loop = asyncio.get_running_loop()
            if len(self._running) >= self._workers and any(one.replaced for one in list(self._running)):
                self._check(place)
            if not self._looks:
                self._looks = True
                loop.call_later(HANGS / 2, self._look, loop)
            flight = self._flights[key] = _SharedRead(key, work, loop, place)
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

    def _hanging(self, seconds: float) -> list[_SharedRead]:
        """Return work whose thread has been in one system call of a file for so long, as far as it was looked at."""
        found, now = [], time.monotonic()
        for one in list(self._running):
            call = _call_of(one.thread)
            if not call or call != one.call:
                one.call, one.since = call, now
            elif now - one.since >= seconds:
                found.append(one)
        return found

    def hanging(self) -> list[str]:
        """Return the folder of each piece of work that hangs in its file system."""
        return [one.place for one in self._hanging(HANGS)]

    def _check(self, place: str) -> None:
        """Refuse work in a folder where other work does not come to an end.

        Raises:
            RefusedError: there is some.
        """
        if place and any(one.place == place for one in self._hanging(REFUSED)):
            raise RefusedError(503, f"{printable(place)}: its file system does not answer", retry_after=int(REFUSED))

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin a thread in the place of each that hangs, as far as work waits."""
        self._looks = not self._closed and not self._queue.empty()
        if not self._looks:
            return
        late = [one for one in self._hanging(HANGS) if not one.replaced]
        room = MORE - sum(one.replaced for one in list(self._running))
        for one in late[: max(0, min(room, self._queue.qsize()))]:
            one.replaced = True
            log.warning("%s: a read has not ended for %.0f s; others go on", printable(one.place or "."), HANGS)
            self._threads.append(threading.Thread(target=self._run, name="vfs-read-more", daemon=True))
            self._threads[-1].start()
        loop.call_later(HANGS / 2, self._look, loop)

    def _run(self) -> None:
        while (flight := self._queue.get()) is not None:
            flight.thread = threading.get_native_id()
            self._running.add(flight)
            self._run_one(flight)
            self._running.discard(flight)
            if flight.replaced:  # the other thread stays
                self._threads.remove(threading.current_thread())
                return
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
        for thread in list(self._threads):
            thread.join(max(0.0, until - time.monotonic()))


def _call_of(thread: int) -> str:
    """Return the system call of a file that a thread of this process is in, with its arguments; "" for none."""
    try:
        with open(f"/proc/self/task/{thread}/syscall", encoding="ascii") as file:
            text = file.read()
    except OSError:  # it has ended, or the kernel does not say
        return ""
    number = text.partition(" ")[0]
    return text if number.isdigit() and int(number) in _OF_FILES else ""
