"""Bounds what requests may cost that are under way: how many a client has, and how many bytes they hold."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from typing import NamedTuple

from vfs.errors import size
from vfs.http.guard import RefusedError
from vfs.http.reads import GoneError, Receive, left

SECONDS = 10.0
"""Time that a request waits for room, at most."""
MAX_WAITING = 128
"""Requests of a client that wait for one kind of room, at most: it may be many people behind one proxy. Each holds up
to 64 KiB."""
MOMENT = 0.05  # seconds between two looks: memory becomes free in any thread, and tells nobody
RETRY = 5  # seconds after which a client that is refused may ask again


class _Waiter(NamedTuple):
    """A request that waits: it takes room, is told by the future, and until when it waits."""

    take: Callable[[], None]
    told: asyncio.Future[None]
    until: float


class FairQueue:
    """Has requests wait for room. Clients take turns, and those of one client wait for each other."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[_Waiter]] = {}  # the client whose turn it is comes first
        self._looking: asyncio.Task[None] | None = None

    async def until(self, client: str, take: Callable[[], None], receive: Receive | None = None) -> None:
        """Wait until a function takes room, and refuses no more.

        Args:
            client: whose request it is.
            take: takes room. Who asks gives it back, also if this raises after that: the request may be cancelled.
            receive: says that the client has gone away: its request waits no longer. None: nobody looks.

        Raises:
            RefusedError: it refuses for `SECONDS`, or at once and too many wait.
            GoneError: the client has gone away.
        """
        if client not in self._waiting:
            with suppress(RefusedError):
                take()
                return
        loop, queue = asyncio.get_running_loop(), self._waiting.setdefault(client, deque())
        if len(queue) >= MAX_WAITING:
            raise RefusedError(429, f"{len(queue)} requests like this one wait already", retry_after=RETRY)
        waiter = _Waiter(take, loop.create_future(), loop.time() + SECONDS)
        queue.append(waiter)
        if self._looking is None:
            self._looking = loop.create_task(self._look())
        leaving = None if receive is None else asyncio.ensure_future(left(receive))
        if leaving is not None:
            leaving.add_done_callback(lambda _: waiter.told.cancel())
        try:
            await waiter.told
        except asyncio.CancelledError:
            if leaving is not None and leaving.done():
                raise GoneError from None
            raise
        finally:
            if leaving is not None:
                leaving.cancel()

    async def _look(self) -> None:
        """Look for room again and again, as long as some wait: for one request of each client in turn."""
        try:
            while self._waiting:
                await asyncio.sleep(MOMENT)
                while sum(map(self._next_of, list(self._waiting))):  # all have had a turn
                    pass
        finally:
            self._looking = None

    def _next_of(self, client: str) -> bool:
        """Have the first request of a client take room, if there is some. Then others have their turn before.

        Returns: True if it took some.
        """
        queue, took = self._waiting[client], False
        while queue and queue[0].told.done():  # nobody waits any more
            queue.popleft()
        if queue:
            take, told, until = queue[0]
            try:
                take()
            except RefusedError as error:
                if told.get_loop().time() >= until:
                    told.set_exception(error)
            else:
                took = True
                told.set_result(None)
                self._waiting[client] = self._waiting.pop(client)
        while queue and queue[0].told.done():
            queue.popleft()
        if not queue:
            del self._waiting[client]
        return took


class AtOnce:
    """Bounds how many requests of a kind a client has under way.

    Args:
        most: of each kind; kinds that it does not name have no bound.
    """

    def __init__(self, most: dict[str, int]) -> None:
        self._most = most
        self._under_way: Counter[tuple[str, str]] = Counter()
        self._queue = FairQueue()

    @asynccontextmanager
    async def waited(self, what: str, client: str, receive: Receive | None = None) -> AsyncIterator[None]:
        """Count a request while it is under way, once there is room.

        Args:
            receive: see `FairQueue.until`.

        Raises:
            RefusedError: the client has too many, and those that wait are too many, too, or wait for long.
            GoneError: see `FairQueue.until`.
        """
        with ExitStack() as place:

            def take() -> None:
                place.enter_context(self.counted(what, client))

            await self._queue.until(f"{what} {client}", take, receive)
            yield

    @contextmanager
    def counted(self, what: str, client: str) -> Iterator[None]:
        """Count a request while it is under way.

        Raises:
            RefusedError: the client has too many.
        """
        key = (what, client)
        if self._under_way[key] >= self._most.get(what, 1 << 30):
            under_way = f"{self._most[what]} requests for api/{what} are under way; wait for one of them"
            raise RefusedError(429, under_way, retry_after=RETRY)
        self._under_way[key] += 1
        try:
            yield
        finally:
            self._under_way[key] -= 1
            if not self._under_way[key]:
                del self._under_way[key]


class Held:
    """Bounds the bytes that requests hold, for each client and for all of them together.

    What is alone is let in whatever it holds: who knows what one request may cost bounds that.

    Args:
        client: most bytes of a client; every: of all clients.
    """

    def __init__(self, client: int, every: int) -> None:
        self._most = client, every
        self._clients: Counter[str] = Counter()
        self._total = 0
        self._left: deque[tuple[str, int]] = deque()
        self._queue = FairQueue()

    async def waited(self, client: str, nbytes: int, receive: Receive | None = None) -> Callable[[], None]:
        """Do what `take` does, once there is room.

        Args:
            receive: see `FairQueue.until`.

        Raises:
            RefusedError: there is none for long, or too many wait.
            GoneError: see `FairQueue.until`.
        """
        taken: list[Callable[[], None]] = []
        try:
            await self._queue.until(client, lambda: taken.append(self.take(client, nbytes)), receive)
        except BaseException:
            for free in taken:
                free()
            raise
        return taken[0]

    def take(self, client: str, nbytes: int) -> Callable[[], None]:
        """Count bytes.

        Returns: a function to call once when they are free again, in any thread: also when memory is freed.

        Raises:
            RefusedError: there would be too many.
        """
        self._settle()
        for held, most in zip((self._clients[client], self._total), self._most, strict=True):
            if held and held + nbytes > most:
                holds = f"answers under way hold {size(held)}, this one {size(nbytes)}, at most {size(most)} go; wait"
                raise RefusedError(429, holds, retry_after=RETRY)
        self._clients[client] += nbytes
        self._total += nbytes
        return lambda: self._left.append((client, nbytes))

    def _settle(self) -> None:
        """Take what is free again into account."""
        with suppress(IndexError):
            while True:
                client, nbytes = self._left.popleft()
                self._total -= nbytes
                self._clients[client] -= nbytes
                if not self._clients[client]:
                    del self._clients[client]
