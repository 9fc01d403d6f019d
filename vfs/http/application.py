"""Answers HTTP requests: `Application` is an ASGI callable over a `Contents`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from vfs.buffers import scratch
from vfs.engine.abandon import AbandonedError
from vfs.errors import SourceChangedError, SourceError, VfsError, printable
from vfs.hierarchy.absence import check_no_chunk
from vfs.hierarchy.contents import Contents
from vfs.hierarchy.faces import Node
from vfs.http import conditions
from vfs.http.answers import METHODS, SHARED, STEP, USUAL, Answer, Headers, Reply, Usual
from vfs.http.api import Api
from vfs.http.guard import Guard, Place, RefusedError
from vfs.http.index import index, links
from vfs.http.leaving import Receive, Watch, left
from vfs.http.native import NativeAnswers
from vfs.http.pages import POLICY, assets, etag_of, page
from vfs.http.reads import GoneError, Reads
from vfs.http.requests import Request, query_of
from vfs.model.stored import TRIES
from vfs.serving.failures import Failures
from vfs.serving.gate import Gate

log = logging.getLogger("vfs.http")

WHOLE = 64 << 20
"""Bytes. Longer bodies are read and sent in pieces, so that memory stays small."""
PIECE = 8 << 20  # bytes of such a piece
LONGEST_REPLY = 1 << 20  # bytes of a body that is sent without ASGI

Scope = Mapping[str, Any]
Send = Callable[[Any], Awaitable[None]]


@dataclass
class Tally:
    """Counts what a server has done, as `vfs.serving.status.Status` says."""

    requests: int = 0
    reads: int = 0
    bytes: int = 0
    errors: int = 0


class Looked(NamedTuple):
    """What is known of a path before anything is read: its node, the version of its sources, its ETag."""

    node: Node
    version: bytes
    etag: bytes


class _Wanted(NamedTuple):
    """How a request for a file is to be answered: status, headers, the bytes of the body (None: it has none)."""

    status: int
    about: Headers
    span: conditions.Span | None


class _StaleError(Exception):
    """The sources are in another state than when the request was looked at."""


class Application:
    """Answers the requests of one server. It is called in the thread of the event loop.

    Args:
        contents: what is served. Its arrays should use the buffered backend, as those of a mount.
        guard: checks requests.
        reads: threads that read.
        debug: put tracebacks into the log.

    Attributes:
        tally: what was done so far, but natively.
        native: answers requests natively; None: nothing does.
        failures: log of requests that failed.
    """

    def __init__(self, contents: Contents, guard: Guard, reads: Reads, *, debug: bool = False) -> None:
        self.contents = contents
        self.guard = guard
        self.reads = reads
        self.tally = Tally()
        self.failures = Failures(log)
        self.native: NativeAnswers | None = None
        self._same_usual = None if guard.names_origins else _FOR_ALL if guard.allows(None) else _FOR_OWN
        self._debug = debug
        self._gate = Gate()
        self.api = Api(contents, self._read, self._failed)

    def lends(self, path: bytes, headers: Mapping[bytes, bytes]) -> Usual | None:
        """Say if requests for a chunk, and for others of its array, may be answered natively.

        Args:
            path: path of the URL, with its %-escapes.
            headers: names in lower case.

        Returns: headers of all answers; None if not.
        """
        chunk = path[-1:].isdigit()  # nearly always; this is asked of every request
        if not chunk or self._debug or self.native is None or not _CONDITIONS.isdisjoint(headers):
            return None
        try:
            self.guard.check("GET", headers)
            key, slash = self.guard.place(path)
            found = None if slash or key.startswith(_OWN) else self.contents.at_hand(key)
            if found is None or not self.native.learn(path, key, found):
                return None
        except Exception:  # `__call__` meets it again, and says what it is
            return None
        return self.usual(headers.get(b"origin"))

    @property
    def done(self) -> Tally:
        """What was done so far, natively too."""
        requests, nbytes = (0, 0) if self.native is None else self.native.done
        tally = self.tally
        return Tally(tally.requests + requests, tally.reads + requests, tally.bytes + nbytes, tally.errors)

    def at_once(self, method: str, path: bytes, headers: Mapping[bytes, bytes]) -> Reply | None:
        """Answer a request for a file that is at hand. ASGI's messages take as long as a short read; this has none.

        Args:
            path: path of the URL, with its %-escapes.
            headers: names in lower case.

        Returns: None if `__call__` must answer: what is asked for is no file, or is refused, or takes a thread.
        """
        if method not in ("GET", "HEAD"):
            return None
        try:
            self.guard.check(method, headers)
            key, slash = self.guard.place(path)
            found = None if slash or key.startswith(_OWN) else self.contents.at_hand(key)
            node = found and found.face.node(found.key)
            if found is None or node is None or node.folder:
                return None
            looked = Looked(node, found.version, conditions.etag_of(found.version, key))
            status, about, span = _wanted(method, key, looked, headers)
            body = _NOTHING
            if span is not None:
                start, stop = span
                data = None if stop - start > LONGEST_REPLY else found.face.at_once(found.key, start, stop)
                if data is None:
                    return None
                body = self._checked(data, key, looked.version, start, stop)
                self.tally.reads += 1
                self.tally.bytes += body.nbytes
        except Exception:  # `__call__` meets it again, and says what it is
            return None
        self.tally.requests += 1
        if self._debug:
            log.debug("%s", printable(f"{method} {key} {status}"))
        return Reply(status, self.usual(headers.get(b"origin")), about, body)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as ASGI says."""
        if scope["type"] != "http":
            return
        self.tally.requests += 1
        headers: dict[bytes, bytes] = dict(scope["headers"])
        step = STEP if scope.get("scheme") == "https" else None
        answer = Answer(scope["method"], self.usual(headers.get(b"origin")), send, step)
        key = ""
        try:
            self.guard.check(scope["method"], headers)
            place = self.guard.place(scope["raw_path"])
            key = place.key
            if scope["method"] == "OPTIONS":
                await answer.options(headers)
            elif place.key.startswith("api/"):
                await self.api.answer(_request(scope, place, headers, receive), answer)
            elif scope["method"] not in ("GET", "HEAD"):
                raise RefusedError(405, f"{scope['method']}: this server is read-only; it answers {METHODS}")
            elif place == _METRICS:
                await answer.whole(200, self.metrics(), b"text/plain; version=0.0.4; charset=utf-8")
            elif place.key.startswith("assets/"):
                await self._asset(place, headers, answer)
            else:
                await self._get(place, headers, receive, answer)
        except RefusedError as refused:
            await answer.refuse(refused, b"text/html" in headers.get(b"accept", b"").lower())
        except GoneError:
            pass
        except AbandonedError:
            if not answer.status:
                await answer.refuse(RefusedError(503, "the server is ending"))
        except Exception as error:
            known = isinstance(error, VfsError)
            what = self._failed(key, error)
            if not answer.status:  # else only a broken connection says that what was sent is not all
                await answer.refuse(
                    RefusedError(422 if known else 500, what if known else "a bug in vfs; its log says more")
                )
        if self._debug:
            log.debug("%s", printable(f"{scope['method']} {key} {answer.status}"))

    def _failed(self, key: str, error: Exception) -> str:
        """Count and log that something could not be answered. Returns what is wrong."""
        self.tally.errors += 1
        what = str(error) if isinstance(error, VfsError) else f"{type(error).__name__}: {error}"
        self.failures.add(printable(what), printable(f"{key[:200]}: {what}"), trace=self._debug)
        return what

    def usual(self, origin: bytes | None) -> Usual:
        """Return the headers of every response.

        Args:
            origin: the origin of the page that asks; None: no page does, or it is not known.
        """
        if self._same_usual is not None:
            return self._same_usual
        allowed = self.guard.allows(origin)
        return _FOR_OTHERS if allowed is None else ((b"access-control-allow-origin", allowed), *_FOR_OTHERS)

    async def _get(self, place: Place, headers: Mapping[bytes, bytes], receive: Receive, answer: Answer) -> None:
        for _ in TRIES:
            try:
                await self._get_once(place, headers, receive, answer)
            except _StaleError:
                if answer.status:
                    raise SourceChangedError("its files came, went or changed while it was sent") from None
            else:
                return
        raise SourceChangedError(f"{place.key}: its files change again and again while they are read")

    async def _get_once(self, place: Place, headers: Mapping[bytes, bytes], receive: Receive, answer: Answer) -> None:
        """Answer a request from one state of the sources.

        Raises:
            _StaleError: they changed meanwhile.
        """
        key = place.key
        if self.contents.at_hand(key) is not None:
            looked = self._look(key)
        else:
            looked = await self._read(("look", key), partial(self._look, key), receive)
        if looked is None or looked.node.folder != place.slash:
            check_no_chunk(key)
            raise RefusedError(404, f"nothing is called {printable(key[:200])}")
        if looked.node.folder:
            if not looked.node.listed:
                check_no_chunk(key)
                raise RefusedError(404, f"{printable(key[:200])} is a folder that is not listed")
            listed = await self._read(("index", key), partial(self._index, key), receive)
            etag = etag_of(listed)
            if not key:
                self.api.begin()
            if conditions.matched(headers, etag):
                await answer.headers(304, [(b"etag", etag)])
            else:
                about = [(b"etag", etag), (b"content-security-policy", POLICY)]
                await answer.whole(200, listed, b"text/html; charset=utf-8", about)
            return
        status, about, span = _wanted(answer.method, key, looked, headers)
        if span is None:
            await answer.headers(status, about)
            return
        start, stop = span
        self.tally.reads += 1
        if stop - start <= WHOLE:
            body = await self._bytes(key, looked.version, start, stop, receive)
            await answer.begin(status, about)
            await answer.send(body, last=True)
            self.tally.bytes += stop - start
        else:
            await self._in_pieces(key, looked.version, start, stop, receive, answer, status, about)

    async def _asset(self, place: Place, headers: Mapping[bytes, bytes], answer: Answer) -> None:
        """Send a file of the page."""
        found = assets().get(place.key.removeprefix("assets/"))
        if found is None or place.slash:
            raise RefusedError(404, f"nothing is called {printable(place.key[:200])}")
        if conditions.matched(headers, found.etag):
            await answer.headers(304, [(b"etag", found.etag)])
        else:
            await answer.whole(200, found.body, found.kind, [(b"etag", found.etag)])

    async def _in_pieces(
        self,
        key: str,
        version: bytes,
        start: int,
        stop: int,
        receive: Receive,
        answer: Answer,
        status: int,
        about: Headers,
    ) -> None:
        """Send a long body, of which the next piece is read while one is sent.

        Raises:
            GoneError: the client has gone away.
        """
        leaving = asyncio.ensure_future(left(receive))
        coming = asyncio.ensure_future(self._bytes(key, version, start, min(stop, start + PIECE), receive))
        try:
            while start < stop:
                piece = await coming
                if leaving.done():
                    raise GoneError
                if not answer.status:
                    await answer.begin(status, about)
                start += piece.nbytes
                if start < stop:
                    coming = asyncio.ensure_future(self._bytes(key, version, start, min(stop, start + PIECE), receive))
                await answer.send(piece, last=start == stop)
                self.tally.bytes += piece.nbytes
        finally:
            leaving.cancel()
            coming.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await coming

    def _look(self, key: str) -> Looked | None:
        """Look at a path. None if there is nothing."""
        node = self.contents.node(key)
        if node is None or node.folder:
            return node and Looked(node, b"", b"")
        version = self.contents.version(key)
        return Looked(node, version, conditions.etag_of(version, key))

    def _index(self, key: str) -> bytes:
        """Return the page that lists a folder; of the root, the page that shows data."""
        entries = []
        for name in self.contents.children(key):
            if name == "/":  # it vanished
                continue
            try:
                node = self.contents.node(f"{key}/{name}" if key else name)
            except SourceError:
                node = None
            if node is not None:
                entries.append((name, node.folder))
        return index(key, entries) if key else page(links(entries), self.api.first())

    async def _bytes(self, key: str, version: bytes, start: int, stop: int, receive: Receive) -> memoryview:
        """Return bytes of a file, in one state of its sources.

        Raises:
            SourceError: they cannot be read.
            _StaleError: the sources are not in the state `version` any more.
        """
        if start == stop:
            return _NOTHING
        if (prompt := self._prompt(key, start, stop)) is not None:
            return self._checked(prompt, key, version, start, stop)
        work = partial(self._in_thread, key, version, start, stop)
        data: memoryview = await self._read((key, version, start, stop), work, receive)
        return data

    def _prompt(self, key: str, start: int, stop: int) -> memoryview | None:
        """Return bytes of a file if they can be had in the thread of the event loop, else None."""
        found = self.contents.at_hand(key)
        return None if found is None else found.face.at_once(found.key, start, stop)

    def _in_thread(self, key: str, version: bytes, start: int, stop: int) -> memoryview:
        try:
            with self._gate.shared():
                return self._take(key, version, start, stop)
        except MemoryError:
            pass  # leaving this block frees the exception, and with it the memory taken so far
        with self._gate.alone():  # try again with no other read under way, and so with their memory
            self.contents.cache.clear()
            scratch.clear()
            return self._take(key, version, start, stop)

    def _take(self, key: str, version: bytes, start: int, stop: int) -> memoryview:
        data = self.contents.get(key, start, stop)
        return self._checked(_NOTHING if data is None else data, key, version, start, stop)

    def _checked(self, data: memoryview, key: str, version: bytes, start: int, stop: int) -> memoryview:
        """Return bytes of a file that were read.

        Raises:
            _StaleError: they are too few, or the sources are not in the state `version` any more.
        """
        if data.nbytes != stop - start or self.contents.version(key) != version:
            raise _StaleError
        return data

    async def _read(self, key: Any, work: Callable[[], Any], receive: Receive, pool: Reads | None = None) -> Any:
        """Run work in a thread, as long as the client waits for it.

        Args:
            pool: the threads; None: those that read.

        Raises:
            GoneError: the client has gone away.
        """
        reads = self.reads if pool is None else pool
        waiting = reads.start(key, work)
        watch = Watch(receive, waiting)
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

    def metrics(self) -> bytes:
        """Return the counts as text that Prometheus reads."""
        cache, tally, native = self.contents.cache, self.done, self.native.done[0] if self.native else 0
        rows: list[tuple[str, str, str, int]] = [
            ("requests_total", "counter", "Requests that came", tally.requests),
            ("native_requests_total", "counter", "Requests of these that needed no interpreter", native),
            ("reads_total", "counter", "Requests for bytes", tally.reads),
            ("sent_bytes_total", "counter", "Bytes of bodies", tally.bytes),
            ("errors_total", "counter", "Requests whose source could not be read", tally.errors),
            ("cache_hits_total", "counter", "Decoded pieces that were in the cache", cache.hits),
            ("cache_misses_total", "counter", "Decoded pieces that were not in the cache", cache.misses),
            ("cache_bytes", "gauge", "Bytes of decoded pieces in the cache", cache.held),
            ("cache_limit_bytes", "gauge", "Most bytes of decoded pieces in the cache", cache.limit),
            ("reads_under_way", "gauge", "Reads that wait or are under way", self.reads.waiting),
        ]
        lines = [f"# HELP vfs_{n} {about}.\n# TYPE vfs_{n} {kind}\nvfs_{n} {value}\n" for n, kind, about, value in rows]
        return "".join(lines).encode()


_NOTHING = memoryview(b"")
_FOR_ALL: Usual = ((b"access-control-allow-origin", b"*"), *SHARED, *USUAL)
_FOR_OTHERS: Usual = ((b"vary", b"origin"), *SHARED, *USUAL)
_FOR_OWN: Usual = ((b"cross-origin-resource-policy", b"same-origin"), *USUAL)
_METRICS = Place("metrics", False)
_CONDITIONS = frozenset((b"range", b"if-match", b"if-none-match", b"if-range"))
_OWN = ("api/", "assets/", "metrics")  # what keys of the server itself begin with
_DOCUMENTS = (".json", ".zarray", ".zattrs", ".zgroup", ".zmetadata")


def _wanted(method: str, key: str, looked: Looked, headers: Mapping[bytes, bytes]) -> _Wanted:
    """Return how a request for a file is to be answered.

    Raises:
        RefusedError: it wants bytes that are not there, or of another state.
    """
    size, etag = looked.node.size, looked.etag
    about = [(b"etag", etag), (b"content-type", _kind(key))]
    if conditions.matched(headers, etag):
        return _Wanted(304, about, None)
    if_range = headers.get(b"if-range")
    asked = headers.get(b"range") if if_range is None or if_range.strip() == etag else None
    if method == "HEAD":
        asked = None
    try:
        part = conditions.wanted(asked, size)
    except ValueError:
        raise RefusedError(416, f"the file has {size:,} bytes", size) from None
    span = part or conditions.Span(0, size)
    if part is not None:
        about.append((b"content-range", b"bytes %d-%d/%d" % (part.start, part.stop - 1, size)))
    about.append((b"content-length", b"%d" % (span.stop - span.start)))
    return _Wanted(200 if part is None else 206, about, None if method == "HEAD" else span)


def _kind(key: str) -> bytes:
    """Return the content type of a file."""
    return b"application/json" if key.endswith(_DOCUMENTS) else b"application/octet-stream"


def _request(scope: Scope, place: Place, headers: Mapping[bytes, bytes], receive: Receive) -> Request:
    """Return what is known of a request below `api/`."""
    client = scope.get("client")
    return Request(
        scope["method"],
        place.key.removeprefix("api/"),
        query_of(scope.get("query_string", b"")),
        headers,
        client[0] if client else "",
        receive,
    )
