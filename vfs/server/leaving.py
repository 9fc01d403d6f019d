"""Notices that a client goes away, in the messages of ASGI, so that nothing is read for nobody."""

from __future__ import annotations

import asyncio
from typing import Any

from vfs.http.reads import Receive, left

MOMENT = 0.01  # seconds that a read takes before anything looks whether its client still waits


class Departure:
    """Gives up a read when its client goes away.

    It looks after a moment only, because most reads are over by then, and looking takes a task.

    Attributes:
        gone: True if the client has gone away.
    """

    def __init__(self, receive: Receive, waiting: asyncio.Future[Any]) -> None:
        self.gone = False
        self._receive = receive
        self._waiting: asyncio.Future[Any] | None = waiting
        self._looking: asyncio.Task[None] | None = None
        self._later = waiting.get_loop().call_later(MOMENT, self._begin)

    def _begin(self) -> None:
        self._looking = asyncio.ensure_future(self._look())

    async def _look(self) -> None:
        await left(self._receive)
        self.gone = True
        if self._waiting is not None:
            self._waiting.cancel()

    def end(self) -> None:
        """Look no longer. A task that was cancelled refers to itself, and must not keep what was read."""
        self._later.cancel()
        self._waiting = None
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
