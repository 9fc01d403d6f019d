"""Answers requests for computations: a stream of records, that the client or another request may stop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from vfs.contents.contents import Contents
from vfs.errors import VfsError, printable
from vfs.http.answers import Answer
from vfs.http.guard import RefusedError
from vfs.http.limits import Held
from vfs.http.reads import GoneError, Reads
from vfs.http.requests import Answering, Request, answer_json, body_of, read_json
from vfs.page.ahead import Ahead
from vfs.page.computing import COST, Asked, Computation, following
from vfs.page.listing import SetListing
from vfs.page.records import record

COMPUTING = 2
"""Computations that are made at once; others wait."""
ALL = 2 * COST
"""Bytes that the computations of all clients may need together."""

_NUMBERS = b"application/octet-stream"


class Stopping:
    """Sends streams until somebody stops them: not every proxy says that its client has gone away."""

    def __init__(self) -> None:
        self._streams: dict[tuple[str, str], asyncio.Event] = {}  # client and id -> set when the stream is to stop

    async def until_stopped(self, stream: Answering, key: str, request: Request, answer: Answer) -> None:
        """Send a stream, until `stop` ends it, which may wait to begin.

        Raises:
            RefusedError: another one under way has its id.
        """
        name = request.query.get("id")
        if name is None:
            await stream(key, request, answer)
            return
        own = request.client, name
        if own in self._streams:
            raise RefusedError(400, f"id={printable(name[:40])}: another request under way has it")
        stopped = self._streams[own] = asyncio.Event()
        try:
            await stream(key, request._replace(receive=partial(_message, request.receive, stopped)), answer)
        except GoneError:
            if not stopped.is_set():
                raise
            if not answer.status:
                await answer.begin(200, [(b"content-type", _NUMBERS)])
            await answer.send(record({"error": "it was stopped"}).data, last=True)
        finally:
            del self._streams[own]

    async def stop(self, name: str, request: Request, answer: Answer) -> None:
        """Stop a stream of the client. It is no error that there is none: it may just have ended."""
        stopped = self._streams.get((request.client, name))
        if stopped is not None:
            stopped.set()
        await answer_json(answer, request, {"stopped": stopped is not None})


class Computing:
    """Answers requests for computations, in the thread of the event loop.

    Args:
        contents, listing: what is served.
        threads: runs work in threads, also in those of a pool that is named.
        failed: counts and logs an error, given the path that it is about.

    Attributes:
        pool: the threads that compute; ahead: begins before somebody asks.
    """

    def __init__(
        self, contents: Contents, listing: SetListing, threads: Any, failed: Callable[[str, Exception], str]
    ) -> None:
        self._contents, self._listing, self._threads, self._failed = contents, listing, threads, failed
        self._held = Held(COST, ALL)
        self.pool = Reads(COMPUTING)
        self.ahead = Ahead(self.pool)

    async def compute(self, key: str, request: Request, answer: Answer) -> None:
        """Answer with the records of a computation."""
        asked = Asked.of(read_json(await body_of(request.receive)))
        computation = await self._threads(object(), partial(self._plan, key, asked), request.receive)
        free = await self._held.waited(request.client, computation.cost, request.receive)
        try:
            await self._send(key, computation, request, answer)
        finally:
            free()

    def _plan(self, key: str, asked: Asked) -> Computation:
        array = self._listing.found(key)[2]
        self._contents.at(key).version()  # its files may have changed
        return Computation(array, asked, self._contents.cache)

    async def _send(self, key: str, computation: Computation, request: Request, answer: Answer) -> None:
        """Send the records of a computation: each is made while the one before is sent."""
        self.ahead.met(computation.key)
        coming: asyncio.Future[Any] | None = None
        steps, before = computation.steps(), None
        try:
            while (step := following(steps, before)) is not None:
                coming = asyncio.ensure_future(self._threads(step.key, step.make, request.receive, self.pool))
                if before is not None:
                    await _send(answer, before)
                before = await coming
            if before is not None:
                await _send(answer, before)
        except (VfsError, MemoryError) as error:
            if not answer.status:
                raise
            said = printable(self._failed(key, error))
            await answer.send(record({"error": said}).data, last=True)
            return
        finally:
            if coming is not None:
                coming.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await coming
            del coming
        await answer.send(record({"end": True}).data, last=True)

    def close(self) -> None:
        """End the threads."""
        self.pool.close()


async def _send(answer: Answer, made: np.ndarray) -> None:
    """Send a record; before the first, say what comes."""
    if not answer.status:
        await answer.begin(200, [(b"content-type", _NUMBERS)])
    await answer.send(made.data, last=False)


async def _message(receive: Callable[[], Awaitable[Any]], stopped: asyncio.Event) -> Any:
    """Return the next message of a client; once its stream is to stop, that it has gone away."""
    coming, stop = asyncio.ensure_future(receive()), asyncio.ensure_future(stopped.wait())
    try:
        await asyncio.wait((coming, stop), return_when=asyncio.FIRST_COMPLETED)
        return {"type": "http.disconnect"} if stopped.is_set() else await coming
    finally:
        coming.cancel()
        stop.cancel()
