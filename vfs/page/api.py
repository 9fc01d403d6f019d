"""Answers what the page asks for below `api/`: what is there, pictures, thumbnails, computations.

The page `serve` (`vfs docs serve`) describes the requests. Everything is bounded: the length of a
request, of a record, how much a client may ask for at once, and the memory that it takes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, Protocol

from vfs.engine.abandon import check
from vfs.errors import OptionError, SourceChangedError, VfsError, printable
from vfs.http.answers import Answer
from vfs.http.guard import RefusedError
from vfs.http.limits import AtOnce
from vfs.http.reads import Reads
from vfs.http.requests import (
    MAX_ENTRIES,
    Answering,
    Request,
    answer_json,
    body_of,
    check_fields,
    flag,
    indices,
    page_of,
    read_json,
    with_body,
)
from vfs.http.tally import ServerLog
from vfs.page import mail
from vfs.page.centre import centre
from vfs.page.describing import Describing
from vfs.page.events import Events
from vfs.page.first_look import FirstLook
from vfs.page.listing import SetListing
from vfs.page.pictures import Pictures
from vfs.page.reopened import Reopened
from vfs.page.streams import Computing, Stopping
from vfs.page.taken import MAX_NUMBERS_BYTES as MAX_TAKEN_BYTES
from vfs.page.taken import written

ARRAYS = 200
"""Arrays of a set that come with the page."""
AT_ONCE = {"events": 8, "compute": 8, "thumbnails": 8, "frame": 64, "open": 4, "guesses": 2, "hspy": 2, "mail": 1}
"""Requests of a kind that a client may have under way."""


class Threads(Protocol):
    """Runs work in a thread, for as long as a client waits for it."""

    async def __call__(self, key: Any, work: Callable[[], Any], receive: Any, pool: Reads | None = None) -> Any: ...


class RequestKind(NamedTuple):
    """A kind of request: what answers it, its methods, the fields that its query may have; if it reads numbers; if its
    body has numbers, of which few are read at once.
    """

    answering: Answering
    methods: tuple[str, ...] = ("GET", "HEAD")
    fields: tuple[str, ...] = ()
    reads: bool = False
    numbers: bool = False


class Api:
    """Answers requests below `api/`. It is called in the thread of the event loop.

    Args:
        contents: what is served.
        threads: runs work in threads.
        log: counts and logs what is done.
        allow_describe: descriptions may be saved beside the data.

    Attributes:
        kinds: what paths below `api/` begin with -> the kind of request. All else there is a folder `api` of the data.
        pictures, streams: answer requests for pictures and computations.
        computing: the threads that compute; ahead: computes before somebody asks.
    """

    def __init__(
        self,
        contents: Reopened,
        threads: Threads,
        log: ServerLog,
        allow_describe: bool = False,
    ) -> None:
        self.contents = contents
        self._threads, self._tally = threads, log.tally
        self._listing = SetListing(contents)
        self._describing = Describing(contents, self._listing, allow_describe)
        self.streams = Computing(contents, self._listing, threads, log.failed)
        self.computing, self.ahead = self.streams.pool, self.streams.ahead
        self._look = FirstLook(self._all, self._listing, contents.cache)
        self.pictures = Pictures(contents, self._listing, threads)
        self._at_once, self._stopping = AtOnce(AT_ONCE), Stopping()
        self.kinds = self._known()

    def _known(self) -> dict[str, RequestKind]:
        """Return the kinds of requests, by the names that paths begin with."""
        return {
            "list": RequestKind(self._list, fields=("first", "count", "known")),
            "set": RequestKind(self._set, fields=("first", "count", "file")),
            "array": RequestKind(self._array),
            "windows": RequestKind(partial(self._told, self._listing.windows), reads=True),
            "original": RequestKind(partial(self._told, self._listing.original)),
            "python": RequestKind(self._python),
            "frame": RequestKind(
                self.pictures.frame,
                fields=("at", "max", "part", "level", "box", "bin", "plane", "background"),
                reads=True,
            ),
            "thumbnails": RequestKind(
                self.pictures.thumbnails, ("GET",), ("first", "count", "size", "main", "whole", "id"), True
            ),
            "centre": RequestKind(self._centre, fields=("within",)),
            "compute": RequestKind(self.streams.compute, ("POST",), ("id",), True),
            "events": RequestKind(Events(self.contents, self._threads).send, ("GET",)),
            "hspy": RequestKind(self._hyperspy, ("POST",), numbers=True),
            "mail": RequestKind(self._mail, ("POST",), reads=True),
            "stop": RequestKind(self._stopping.stop, ("POST",)),
            "options": RequestKind(partial(self._told, self._describing.known)),
            "guesses": RequestKind(partial(self._told, self._describing.guesses)),
            "open": RequestKind(self._open, ("POST",)),
            "description": RequestKind(partial(self._told, self._describing.description)),
            "save": RequestKind(partial(self._told, self._describing.save), ("POST",)),
        }

    async def answer(self, request: Request, answer: Answer) -> None:
        """Answer a request.

        Raises:
            RefusedError: it asks for nothing that is here.
            VfsError: a source cannot be read.
        """
        what, _, rest = request.path.partition("/")
        kind = self.kinds[what]
        if request.method not in kind.methods:
            raise RefusedError(
                405, f"api/{what}: expected {kind.methods[0]}", allow=", ".join((*kind.methods, "OPTIONS"))
            )
        check_fields(request, what, kind.fields)
        await self._stopping.until_stopped(partial(self._once_there_is_room, what), rest, request, answer)

    async def _once_there_is_room(self, what: str, rest: str, request: Request, answer: Answer) -> None:
        """Answer a request once its client has few of its kind under way."""
        kind, receive = self.kinds[what], request.receive
        # A body that never ends must not keep a place that others wait for
        if "POST" in kind.methods and not kind.numbers:
            request = await with_body(request)
        try:
            # What comes before a body of numbers was taken is no sign that the client has gone away
            async with self._at_once.waited(what, request.client, None if kind.numbers else receive):
                self._tally.reads += kind.reads
                await kind.answering(rest, request, answer)
        except OptionError as error:
            if answer.status:
                raise
            raise RefusedError(400, printable(str(error))) from None
        finally:
            self._tally.bytes += answer.sent if kind.reads else 0

    async def _json(self, request: Request, answer: Answer, work: Callable[[], Any]) -> None:
        """Answer with what a function returns, called in a thread; equal requests at the same time share a run."""
        key = ("api", request.path, tuple(sorted(request.query.items())), request.rights)
        await answer_json(answer, request, await self._threads(key, work, request.receive))

    async def _list(self, path: str, request: Request, answer: Answer) -> None:
        known = flag(request, "known")
        await self._json(request, answer, partial(self._listing.folder, path, *page_of(request), known, request.rights))

    async def _set(self, key: str, request: Request, answer: Answer) -> None:
        file = flag(request, "file")
        await self._json(request, answer, partial(self._listing.dataset, key, *page_of(request), file))

    async def _array(self, key: str, request: Request, answer: Answer) -> None:
        await self._json(request, answer, partial(self._listing.array, key))

    async def _python(self, key: str, request: Request, answer: Answer) -> None:
        await self._json(request, answer, partial(self._listing.opened, key))

    async def _told(self, ask: Callable[[str], Any], key: str, request: Request, answer: Answer) -> None:
        await self._json(request, answer, partial(ask, key))

    async def _open(self, key: str, request: Request, answer: Answer) -> None:
        body = await body_of(request.receive)
        work = partial(self._describing.open, key, read_json(body))
        await answer_json(answer, request, await self._threads(("open", key, body), work, request.receive))

    async def _hyperspy(self, key: str, request: Request, answer: Answer) -> None:
        body = await body_of(request.receive, MAX_TAKEN_BYTES)
        array = await self._threads(("hspy", key), partial(self._listing.found, key), request.receive)
        file = await self._threads(object(), partial(written, array[2], body), request.receive)
        await answer.whole(200, file, b"application/octet-stream")

    async def _mail(self, key: str, request: Request, answer: Answer) -> None:
        file = await self._threads(("mail", key), partial(self._page, key), request.receive, self.computing)
        await answer.whole(200, file, b"application/octet-stream")

    def _page(self, key: str) -> bytes:
        """Return an array as a page that stands alone, unless its client goes away meanwhile."""
        _, path, array = self._listing.found(key)
        opening = self.contents.at(key.removesuffix(f"/{path}")).opening
        if opening is None:
            raise RefusedError(404, f"no data set is called {printable(key[:200])}")
        return mail.page(opening, array, check)

    async def _centre(self, key: str, request: Request, answer: Answer) -> None:
        await self._json(request, answer, partial(self._found_centre, key, indices(request, "within")))

    def _found_centre(self, key: str, within: tuple[int, ...]) -> dict[str, Any]:
        _, _, array = self._listing.found(key)
        # What was found is kept for as long as nobody sees that files changed
        version = self.contents.at(key).version()
        found = centre(array, within, self.contents.cache)
        if self.contents.at(key).version() != version:
            raise SourceChangedError(f"{key}: its files changed while they were read; ask again")
        return found._asdict()

    # What a page will ask for

    def first(self) -> dict[str, Any]:
        """Answer what the page asks first: what is there and, where that is one set, what is in it.

        Of folders that may hold many sets, nothing is looked at before somebody asks.
        """
        if not self.contents.faces:
            return {}
        known: dict[str, Any] = {"listing": self._listing.folder("", 0, MAX_ENTRIES)}
        entries = known["listing"]["entries"]
        if len(entries) == 1:
            with suppress(VfsError):  # said when the page asks
                known["set"] = self._listing.dataset(entries[0]["key"], 0, ARRAYS)
                known |= self._look.disk()
        return known

    def _all(self) -> list[dict[str, str]]:
        """Return the first two entries of what is served, unless folders are."""
        entries: list[dict[str, str]] = self._listing.folder("", 0, 2)["entries"] if self.contents.faces else []
        return entries

    def load(self) -> None:
        """Load what a page will need, before one is asked for: kernels take a tenth of a second. Then begin."""

        def loaded(done: asyncio.Future[None]) -> None:
            if not done.cancelled() and done.exception() is None:
                self.begin()

        self.computing.start("load", self._look.load).add_done_callback(loaded)

    def begin(self) -> None:
        """Begin with what the page will ask for first, or go on with it."""
        self.ahead.begin(self._look.image)

    def end_early(self) -> None:
        """End what computes for long."""
        for pool in (self.computing, self.pictures.pool):
            pool.end_early()

    def close(self) -> None:
        """End the threads."""
        self.streams.close()
        self.pictures.close()
