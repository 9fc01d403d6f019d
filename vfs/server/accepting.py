"""Accepts connections, as many as the descriptors of this process allow.

A server without a descriptor answers nobody and opens no file. So connections have half of what open files leave. A
connection may take two: one more for the threads that answer beside the event loop. Where there are too many,
some that rest are closed: first those that never asked for anything, then those that rest longest. Clients that wait
for an answer keep their connections; while all do, new ones wait.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any, NamedTuple

from vfs.backends import handles
from vfs.serving.failures import Failures

DESCRIPTORS = 1 << 16
"""Most descriptors that a server asks the system for."""
MIN_CONNECTIONS, MAX_CONNECTIONS = 8, 4096  # connections
BATCH = 16
"""One of so many connections is closed at a time, so that they are not looked at for each one that comes."""
MOMENT = 0.1  # seconds that a connection rests before it is closed: its request may be on its way
WAIT = 0.01  # seconds between two looks if there is room
RETRY = 0.5  # seconds after which accepting is tried again where the system refused


class Rest(NamedTuple):
    """What a connection is without a request under way. The smallest is closed first.

    Attributes:
        asked: its client has asked before.
        since: seconds of the event loop's clock.
    """

    asked: bool
    since: float


def more_descriptors() -> None:
    """Let this process have as many descriptors as it may, up to `DESCRIPTORS`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def most() -> int:
    """Return how many connections there may be: two descriptors each, half of those that open files leave."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(MIN_CONNECTIONS, min(MAX_CONNECTIONS, (soft - handles.limit()) // 4))


class Acceptor:
    """Accepts connections until it is closed, as a server of asyncio does.

    Args:
        listener: a socket that is bound; its backlog is `backlog`.
        make: makes the protocol of a connection.
        encryption: encrypts connections; None: nothing does.
        held: the connections there are (`vfs.server.connection.Connection`).
        failures: log of what goes wrong.
    """

    def __init__(
        self,
        listener: socket.socket,
        backlog: int,
        make: Callable[[], asyncio.Protocol],
        encryption: ssl.SSLContext | None,
        held: Collection[Any],
        failures: Failures,
    ) -> None:
        listener.setblocking(False)
        listener.listen(backlog)
        self._listener = listener
        self._make = make
        self._encryption = encryption
        self._held = held
        self._failures = failures
        self._most = most()
        self._loop = asyncio.get_running_loop()
        self._coming: dict[asyncio.Task[None], float] = {}  # connections that are no protocol yet, and since when
        self._accepting = self._loop.create_task(self._accept())

    async def _accept(self) -> None:
        while True:
            try:
                connection, _ = await self._loop.sock_accept(self._listener)
            except OSError as error:
                self._failures.add(f"accept: {error}", f"a connection cannot be accepted: {error.strerror}")
                self._close_resting()
                await asyncio.sleep(RETRY)
                continue
            try:
                await self._has_room()
            except BaseException:
                connection.close()
                raise
            task = self._loop.create_task(self._begin(connection))
            self._coming[task] = self._loop.time()
            task.add_done_callback(self._coming.pop)

    async def _begin(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make, connection, ssl=self._encryption)
        except (OSError, EOFError):  # the client has gone, or what it says is no TLS
            connection.close()
        except BaseException:
            connection.close()
            raise

    async def _has_room(self) -> None:
        """Wait until there is room for one more connection."""
        while self._full:
            await asyncio.sleep(WAIT)  # some may be ending
            if self._full:
                text = f"{self._most} connections are open, as many as descriptors allow: the ones that rest are closed"
                self._failures.add(text, text)
                self._close_resting()

    @property
    def _full(self) -> bool:
        return len(self._held) + len(self._coming) >= self._most

    def _close_resting(self) -> None:
        """Close some connections that rest, and some that have not even begun."""
        late = self._loop.time() - MOMENT
        count = max(1, self._most // BATCH)
        resting = sorted(((rest, held) for held in self._held if (rest := held.rests)), key=lambda each: each[0])
        kind = resting[0][0].asked if resting else False  # who has asked is safe while others are there
        for task in [task for task, since in self._coming.items() if since < late][:count]:
            task.cancel()
        for held in [held for rest, held in resting if rest.asked == kind and rest.since < late][:count]:
            held.transport.close()

    def close(self) -> None:
        """Accept no more."""
        self._accepting.cancel()
        for task in list(self._coming):
            task.cancel()
        self._listener.close()

    async def wait_closed(self) -> None:
        """Wait until it accepts no more."""
        await asyncio.gather(self._accepting, *self._coming, return_exceptions=True)
