"""Answers HTTP requests: `Application` is an ASGI callable over a `Contents`.

What a response is, `vfs.server.deciding` decides. Here threads do what that asks for, and the response is sent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from vfs.contents.contents import Contents
from vfs.faces.absence import FOLDER_ENDING
from vfs.http.access_log import AccessLog
from vfs.http.answers import NO_CACHE, STEP, Answer, ForBody, Reply, Work
from vfs.http.guard import Guard
from vfs.http.persons import Person
from vfs.http.proxies import Network, client_of, user_of
from vfs.http.reads import GoneError, Reads, Receive, left
from vfs.http.requests import Request, body_of, query_of
from vfs.http.tally import ServerLog, Tally
from vfs.page.api import Api
from vfs.page.computing import passed
from vfs.page.reopened import Reopened
from vfs.server.deciding import Decided, Decisions, ForApi, ForNative, OwnPages
from vfs.server.leaving import Departure
from vfs.server.native import NativeAnswers
from vfs.serving.status import asked

DECIDED = "vfs.decided"
"""Name of the extension of ASGI by which the connection hands over what was `decided` of a request, and is told who
`asks`."""

Scope = Mapping[str, Any]
Send = Callable[[Any], Awaitable[None]]


class AnswerHow(NamedTuple):
    """Says how answers are logged and cached.

    Attributes:
        proxies: addresses of proxies that say for whom they ask.
        access: the log of what is answered; None: there is none.
        caching: how documents and chunks are cached, as `Cache-Control` says it.
    """

    proxies: Sequence[Network] = ()
    access: AccessLog | None = None
    caching: bytes = NO_CACHE


class Application:
    """Answers the requests of one server. It is called in the thread of the event loop.

    Args:
        contents: what is served. Its arrays should use the buffered backend, as those of a mount.
        guard: checks requests.
        reads: threads that read.
        debug: log every request, and put tracebacks into the log.
        natively: requests may be answered without the interpreter; none are where all are logged.
        allow_describe: the page may save descriptions beside the data.
        how: how answers are logged and cached, and for whom proxies ask.

    Attributes:
        decisions: decides how requests are answered.
        log: counts and logs what is done, but natively.
        access, caching: see `AnswerHow`.
    """

    def __init__(
        self,
        contents: Contents,
        guard: Guard,
        reads: Reads,
        *,
        debug: bool = False,
        natively: bool = True,
        allow_describe: bool = False,
        how: AnswerHow | None = None,
    ) -> None:
        self._proxies, self.access, self.caching = how or AnswerHow()
        self.contents = shown = Reopened(contents)
        self.reads = reads
        self.natively = natively and not debug
        self.log = ServerLog(debug)
        self.api = Api(shown, self._read, self.log, allow_describe)
        own = OwnPages(self.metrics, self.api.first, self.api.begin, self.api.kinds, lambda: len(reads.hanging()))
        self.decisions = Decisions(shown, guard, own, self.log, self.caching)

    @property
    def native(self) -> NativeAnswers | None:
        """What answers requests natively; None: nothing does."""
        return self.decisions.native

    @property
    def tally(self) -> Tally:
        """What was done so far, but natively."""
        return self.log.tally

    @property
    def done(self) -> Tally:
        """What was done so far, natively too."""
        requests, nbytes = (0, 0) if self.native is None else self.native.done
        tally = self.tally
        return Tally(tally.requests + requests, tally.reads + requests, tally.bytes + nbytes, tally.errors)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as ASGI says."""
        if scope["type"] != "http":
            return
        method, headers = scope["method"], dict(scope["headers"])
        extension = scope.get("extensions", {}).get(DECIDED, {})
        decided = extension.get("decided")
        if decided is None:
            decided = self.decisions.decide(method, scope["raw_path"], headers)
            if "asks" in extension:
                extension["asks"](decided.person)
        usual = self.decisions.usual(headers.get(b"origin"))
        answer = Answer(method, usual, send, STEP if scope.get("scheme") == "https" else None)
        began, decision = time.perf_counter(), decided.decision
        assert not isinstance(decision, ForNative)  # nothing is lent here
        path = "" if isinstance(decision, Reply) else decision.path
        try:
            if isinstance(decision, Reply):  # all of it is there, and counted
                await answer.reply(decision)
            elif isinstance(decision, ForApi):
                await self.api.answer(self._request(scope, decided, headers, receive), answer)
            else:
                if isinstance(decision, ForBody):
                    decision = decision.then(await body_of(receive))
                reply = await self._done(decision, receive)
                if reply.rest is None:
                    await answer.reply(reply)
                else:
                    await self._send_parts(reply, reply.rest, receive, answer)
        except GoneError:
            pass
        except Exception as error:
            sorry = self.decisions.sorry(method, path, error, headers)
            if not answer.status:  # else only a broken connection says that what was sent is not all
                await answer.reply(sorry)
        finally:
            if self.access is not None and answer.status:
                asks = self.asks(decided.person, scope.get("client"), headers, method)
                self.access.add(asks, decided.path, answer.status, answer.sent, time.perf_counter() - began)
        if self.log.debug and not isinstance(decided.decision, Reply):
            self.log.answered(method, path, answer.status)

    def asks(
        self, person: Person | None, peer: tuple[str, int] | None, headers: Mapping[bytes, bytes], method: str
    ) -> bytes:
        """Return what the access log, which there is, says of who asks."""
        assert self.access is not None
        address = client_of(peer[0] if peer else "", headers, self._proxies)
        return self.access.asks(self._name(person, peer, headers), address, method)

    def _name(self, person: Person | None, peer: tuple[str, int] | None, headers: Mapping[bytes, bytes]) -> str:
        """Return the name of who asks, as a proxy says it, else as the token does; "" for nobody who is known."""
        user = user_of(peer[0], headers, self._proxies) if peer and person is not None else ""
        return user or ("" if person is None else person.name)

    async def _done(self, decision: Reply | Work, receive: Receive) -> Reply:
        """Do what must be done before a response is known."""
        while isinstance(decision, Work):
            place = decision.path.partition(f"{FOLDER_ENDING}/")[0].rpartition("/")[0]  # the folder of the set
            decision = decision.then(await self._read(decision.key, decision.run, receive, place=place))
        return decision

    async def _send_parts(self, reply: Reply, rest: Work | None, receive: Receive, answer: Answer) -> None:
        """Send a response, of which the next part is made while one is sent.

        Raises:
            GoneError: the client has gone away.
        """
        leaving = asyncio.ensure_future(left(receive))
        coming: asyncio.Future[Reply] | None = None
        try:
            await answer.begin(reply.status, reply.about)
            while rest is not None:
                coming = asyncio.ensure_future(self._done(rest, receive))
                await answer.send(reply.body, last=False)
                reply = await coming
                rest = reply.rest
                if leaving.done():
                    raise GoneError
            await answer.send(reply.body, last=True)
        finally:
            leaving.cancel()
            if coming is not None:
                coming.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await coming

    async def _read(
        self, key: Any, work: Callable[[], Any], receive: Receive, pool: Reads | None = None, place: str = ""
    ) -> Any:
        """Run work in a thread, as long as the client waits for it.

        Args:
            pool: the threads; None: those that read.
            place: see `Reads.start`.

        Raises:
            GoneError: the client has gone away.
            RefusedError: see `Reads.start`.
        """
        reads = self.reads if pool is None else pool
        waiting = reads.start(key, work, place)
        watch = Departure(receive, waiting)
        try:
            return await waiting
        except asyncio.CancelledError:
            if watch.gone:
                raise GoneError from None
            raise
        finally:
            watch.end()
            reads.leave(key, waiting)
            del waiting  # of an error that came with it, the traceback has this frame: a cycle

    def _request(self, scope: Scope, decided: Decided, headers: Mapping[bytes, bytes], receive: Receive) -> Request:
        """Return what is known of a request below `api/`. Its client is a person; else an address."""
        assert isinstance(decided.decision, ForApi)
        peer = scope.get("client")
        return Request(
            scope["method"],
            decided.decision.path.removeprefix("api/"),
            query_of(scope.get("query_string", b"")),
            headers,
            self._name(decided.person, peer, headers) or client_of(peer[0] if peer else "", headers, self._proxies),
            receive,
            None if decided.person is None else decided.person.rights,
        )

    def metrics(self) -> bytes:
        """Return the counts as text that Prometheus reads."""
        remote, (sets, opened) = asked(), self.contents.open_sets
        cache, tally, native = self.contents.cache, self.done, self.native.done[0] if self.native else 0
        rows: list[tuple[str, str, str, int]] = [
            ("requests_total", "counter", "Requests that came", tally.requests),
            ("native_requests_total", "counter", "Requests of these that needed no interpreter", native),
            ("reads_total", "counter", "Requests for bytes", tally.reads),
            ("sent_bytes_total", "counter", "Bytes of bodies", tally.bytes),
            ("computed_bytes_total", "counter", "Bytes of frames that computations went over", passed.nbytes),
            ("errors_total", "counter", "Requests whose source could not be read", tally.errors),
            ("cache_hits_total", "counter", "Decoded pieces that were in the cache", cache.hits),
            ("cache_misses_total", "counter", "Decoded pieces that were not in the cache", cache.misses),
            ("cache_bytes", "gauge", "Bytes of decoded pieces in the cache", cache.held),
            ("cache_limit_bytes", "gauge", "Most bytes of decoded pieces in the cache", cache.limit),
            ("sets_open", "gauge", "Data sets that are open", sets),
            ("sets_opened_total", "counter", "Data sets that were opened", opened),
            (
                "remote_requests_total",
                "counter",
                "Requests to servers that have sources",
                remote["requests"],
            ),
            ("remote_bytes_total", "counter", "Bytes that came from them", remote["bytes"]),
            (
                "remote_kept_bytes_total",
                "counter",
                "Bytes that were kept on the disk and taken instead",
                remote["kept"],
            ),
            ("reads_under_way", "gauge", "Reads that wait or are under way", self.reads.waiting),
            ("reads_hanging", "gauge", "Reads whose file system has not answered for 2 s", len(self.reads.hanging())),
        ]
        lines = [f"# HELP vfs_{n} {about}.\n# TYPE vfs_{n} {kind}\nvfs_{n} {value}\n" for n, kind, about, value in rows]
        return "".join(lines).encode()
