"""Decides how requests are answered: every rule about who may ask, and for what, stands here or is called from here.

`Decisions.decide` waits for nothing. It returns the response, if all of it is at hand; else what a thread must do first
(`Work`), or who answers instead. The connection of a client asks it, and so does the ASGI callable
(`vfs.server.application`), for what the connection did not ask.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, NamedTuple

from vfs.buffers import scratch
from vfs.contents.contents import Paths
from vfs.contents.rights import Rights, seen
from vfs.contents.shown import PATIENCE, InFace
from vfs.engine.abandon import AbandonedError
from vfs.errors import NotYetError, SourceChangedError, VfsError, printable
from vfs.faces.absence import check_no_chunk
from vfs.http import conditions
from vfs.http.access_log import path_of
from vfs.http.answers import (
    METHODS,
    NO_CACHE,
    NOTHING,
    SHARED,
    USUAL,
    ForBody,
    Headers,
    Reply,
    Usual,
    Work,
    options,
    policy,
    refusal,
    whole,
)
from vfs.http.guard import Guard, RefusedError
from vfs.http.index import ROWS, FolderPage, links, quoted
from vfs.http.persons import Person
from vfs.http.tally import ServerLog
from vfs.model.one_state import TRIES
from vfs.page.pages import assets, etag_of, page
from vfs.page.reopened import Reopened
from vfs.server import drive
from vfs.server.folders import entries, folder_page
from vfs.server.looking import Looked, looked_at, wanted
from vfs.server.native import NativeAnswers
from vfs.server.seeing import check_seen
from vfs.serving.gate import Gate

WHOLE = 64 << 20
"""Bytes. Longer bodies are read and sent in parts, so that memory stays small."""
PART = 8 << 20  # bytes of such a part


class ForApi(NamedTuple):
    """`vfs.page.api` answers the request.

    Attributes:
        path: path below the token, which begins with `api/`.
    """

    path: str


class ForNative(NamedTuple):
    """Threads without the interpreter can answer the request, and those for other chunks of its array.

    Attributes:
        path: path below the token.
    """

    path: str


Decision = Reply | Work | ForApi | ForBody | ForNative


class Decided(NamedTuple):
    """What was decided of a request.

    Attributes:
        decision: how it is answered; person: who asks, None where nobody knows.
        key: path of what is asked for, without the token; None where the token was not found.
    """

    decision: Decision
    person: Person | None
    key: str | None

    @property
    def path(self) -> bytes:
        """The path as the access log has it."""
        return b"-" if self.key is None else path_of(self.key)


class OwnPages(NamedTuple):
    """What a server answers of itself.

    Attributes:
        metrics: returns its counts as text.
        first: returns what the page to look at data need not ask for.
        opened: is called when somebody opens the page.
        requests: what paths below `api/` begin with that `vfs.page.api` answers.
        hanging: returns how many reads hang in their file systems.
    """

    metrics: Callable[[], bytes]
    first: Callable[[], Mapping[str, Any]]
    opened: Callable[[], None]
    requests: Collection[str]
    hanging: Callable[[], int]


class _PathAsked(NamedTuple):
    """A request for a path of the contents.

    Attributes:
        key: its path in the contents; slash: True if it ends with a slash.
        headers: by lower-case name.
        rights: what lists show; None: all.
        tries: how often it may be looked at while its sources change.
    """

    method: str
    key: str
    slash: bool
    headers: Mapping[bytes, bytes]
    rights: Rights | None = None
    tries: int = len(TRIES)


class _Body(NamedTuple):
    """A body that is to be read in one state of the sources: bytes `start` to `stop` of a file, `step` at a time."""

    asked: _PathAsked
    version: bytes
    status: int
    about: Headers
    start: int
    stop: int
    step: int


class Decisions:
    """Decides how the requests of one server are answered. It is called in the thread of the event loop.

    Args:
        contents: what is served.
        guard: checks requests.
        own: what the server answers of itself.
        log: counts and logs.
        caching: how documents and chunks are cached, as `Cache-Control` says it.

    Attributes:
        native: answers requests natively; None: nothing does.
    """

    def __init__(
        self, contents: Reopened, guard: Guard, own: OwnPages, log: ServerLog, caching: bytes = NO_CACHE
    ) -> None:
        self._caching = caching
        self.contents = contents
        self.guard = guard
        self.native: NativeAnswers | None = None
        self._own = own
        self._log = log
        self._tally = log.tally
        self._same_usual = None if guard.names_origins else _FOR_ALL if guard.allows(None) else _FOR_OWN
        self._gate = Gate()

    def usual(self, origin: bytes | None) -> Usual:
        """Return the headers of every response.

        Args:
            origin: the origin of the page that asks; None: no page does, or it is not known.
        """
        if self._same_usual is not None:
            return self._same_usual
        allowed = self.guard.allows(origin)
        return _FOR_OTHERS if allowed is None else ((b"access-control-allow-origin", allowed), *_FOR_OTHERS)

    def decide(self, method: str, path: bytes, headers: Mapping[bytes, bytes], lends: bool = False) -> Decided:
        """Decide how a request is answered.

        A request that is refused, or whose source cannot be read, has a `Reply`, too.

        Args:
            method: as it came.
            path: path of the URL, with its %-escapes.
            headers: by lower-case name.
            lends: its connection can be lent, so that the answer may be `ForNative`. Then the request is not counted.
        """
        key, person = "", None
        try:
            if path in _HEALTH and method in _READS:
                return Decided(self._health(method, path), None, path[1:].decode())
            self.guard.check(method, headers)
            if method == "OPTIONS" and path in (b"/", b"*"):  # Explorer asks these first, whatever folder it is to open
                return Decided(self._options(headers), None, "")
            key, slash, person = self.guard.place(path, method, headers)
            if person.rights is not None:
                check_seen(person.rights, key, self.contents, self._own.requests)
            lends = lends and person.rights is None and path[-1:].isdigit()  # lent, it may ask for all that is served
            if lends and self._is_native(path[len(person.base) - 1 :], key, slash, headers):
                return Decided(ForNative(key), person, key)
            own = method not in _READS or key.startswith(_OWN)  # or of a folder so called
            asked = _PathAsked(method, key, slash, headers, person.rights)
            decision: Decision | None = self._of_server(asked, path) if own else None
            if decision is None:
                decision = self._path(asked)
        except Exception as error:
            decision = self.sorry(method, key, error, headers)
        self._tally.requests += 1
        if self._log.debug and isinstance(decision, Reply):
            self._log.answered(method, key, decision.status)
        return Decided(decision, person, None if person is None else key)

    def sorry(self, method: str, path: str, error: Exception, headers: Mapping[bytes, bytes]) -> Reply:
        """Return the response to a request that met an error."""
        if isinstance(error, AbandonedError):
            error = RefusedError(503, "the server is ending")
        if isinstance(error, NotYetError):  # nothing is wrong, and it is asked for again and again
            error = RefusedError(422, str(error), retry_after=1)
        if not isinstance(error, RefusedError):
            what = self._log.failed(path, error)
            known = isinstance(error, VfsError)
            error = RefusedError(422 if known else 500, what if known else "a bug in vfs; its log says more")
        return refusal(method, error, b"text/html" in headers.get(b"accept", b"").lower())

    def _is_native(self, path: bytes, key: str, slash: bool, headers: Mapping[bytes, bytes]) -> bool:
        """Return True if threads without the interpreter can answer a request for a chunk.

        Args:
            path: path of the URL behind the token.
        """
        if self.native is None or slash or key.startswith(_OWN) or not _CONDITIONS.isdisjoint(headers):
            return False
        found = self.contents.at_hand(key)
        return found is not None and self.native.ready(path, key, found, found.time())

    def _health(self, method: str, path: bytes) -> Reply:
        """Answer who watches servers, and knows neither token nor name: is it alive, and does it read?"""
        hanging = self._own.hanging() if path == b"/readyz" else 0
        said = f"{hanging} reads hang: their file systems do not answer\n" if hanging else "ok\n"
        return whole(method, 503 if hanging else 200, said.encode(), _TEXT)

    def _options(self, headers: Mapping[bytes, bytes]) -> Reply:
        """Answer with what goes here."""
        may = any(name == b"access-control-allow-origin" for name, _ in self.usual(headers.get(b"origin")))
        return options(headers, may)

    def _of_server(self, asked: _PathAsked, path: bytes) -> Reply | ForApi | ForBody | None:
        """Decide how a request is answered that does not read the contents; None: it does.

        Args:
            path: path of the URL.
        """
        method, key, slash, headers, rights, _ = asked
        if method == "OPTIONS":
            return self._options(headers)
        if method == "PROPFIND":
            return drive.propfind(seen(self.contents, rights), self.guard.base_of(path), key, headers)
        if key.startswith("api/") and key.split("/", 2)[1] in self._own.requests:  # else a folder of the data
            return ForApi(key)
        if method not in _READS:
            raise RefusedError(405, f"{method}: this server is read-only; it answers {METHODS}")
        if key == "metrics" and not slash and rights is None:
            return whole(method, 200, self._own.metrics(), b"text/plain; version=0.0.4; charset=utf-8")
        if not slash and key.startswith("assets/") and key.removeprefix("assets/") in assets():
            return _asset(method, key, headers)
        return None

    def _path(self, asked: _PathAsked) -> Reply | Work:
        """Decide how a request for a path of the contents is answered."""
        key = asked.key
        found = self.contents.at_hand(key)
        if found is None:
            return Work(key, ("look", key), partial(self._look, key), partial(self._looked, asked, None))
        return self._looked(asked, found, looked_at(key, found))

    def _look(self, key: str) -> Looked | None:
        """Look at a path. None if there is nothing."""
        return looked_at(key, self.contents.at(key))

    def _looked(self, asked: _PathAsked, found: InFace | None, looked: Looked | None) -> Reply | Work:
        """Go on with a request for a path that was looked at.

        Args:
            found: the path, if its sources were looked at a moment ago.
        """
        key = asked.key
        if looked is not None and looked.node.folder:
            return self._folder(asked)
        if looked is None or asked.slash:
            check_no_chunk(key)
            has = f"; api/ has {', '.join(sorted(self._own.requests))}" if key.startswith("api/") else ""
            raise RefusedError(404, f"nothing is called {printable(key[:200])}{has}")
        status, about, span = wanted(asked.method, looked, asked.headers, self._caching)
        if span is None:
            return Reply(status, about)
        self._tally.reads += 1
        start, stop = span
        if stop - start > WHOLE:
            return self._part(_Body(asked, looked.version, status, about, start, stop, PART), start)
        body = _Body(asked, looked.version, status, about, start, stop, stop - start)
        if (made := self._at_hand(key, found, start, stop)) is not None:
            return self._made(body, start, self._checked(made, key, body.version, start, stop))
        return self._part(body, start)

    def _folder(self, asked: _PathAsked) -> Reply | Work:
        """Answer with the page that lists a folder; lead there who asks for it without the slash at its end.

        Where a chunk of an array with fewer axes would be, only the client that lists so is led there (fsspec, whose
        library is aiohttp). All others read arrays, and some take anything for a chunk (zarrita, GDAL).
        """
        key, agent = asked.key, asked.headers.get(b"user-agent", b"").lower()
        if not asked.slash:
            if b"aiohttp" not in agent or b"range" in asked.headers:
                check_no_chunk(key)
            there = f"./{quoted(key.rpartition('/')[2])}/".encode()
            return whole(asked.method, 301, b"a folder has a slash at its end\n", _TEXT, [(b"location", there)])
        # Who goes to a page with a browser sees soon what is known, and that it is not all
        until = time.monotonic() + PATIENCE if _BROWSES in asked.headers.get(b"accept", b"") else math.inf
        shown = seen(self.contents, asked.rights)
        if not key:
            make = partial(self._page, shown, until)
            return Work(key, ("index", key, until < math.inf, asked.rights), make, partial(self._listed, asked))
        flat = agent.startswith(b"wget")
        look = partial(folder_page, shown, key, flat, until)
        return Work(key, ("index", key, flat, until < math.inf, asked.rights), look, partial(self._rows, asked))

    def _page(self, shown: Paths, until: float) -> bytes:
        """Return the page that shows data, which lists the root."""
        names = [(one.name, one.folder) for one in entries(shown, "", until=until)]
        return page(links(names, len(shown.at("").unopened())), self._own.first())

    def _listed(self, asked: _PathAsked, listed: bytes) -> Reply:
        """Answer with the page that shows data."""
        etag = etag_of(listed)
        self._own.opened()
        if conditions.matched(asked.headers, etag):
            return Reply(304, [(b"etag", etag)])
        about = [(b"etag", etag), (b"vary", b"accept"), (b"content-security-policy", policy(self.guard.embed))]
        return whole(asked.method, 200, listed, _HTML, about)

    def _rows(self, asked: _PathAsked, listed: FolderPage) -> Reply | Work:
        """Answer with the page that lists a folder, of which more than `ROWS` numbered rows are sent in parts."""
        about = [(b"etag", listed.etag), (b"vary", b"user-agent, accept")]
        if conditions.matched(asked.headers, listed.etag):
            return Reply(304, about)
        about += [
            (b"content-security-policy", policy(self.guard.embed)),
            (b"content-type", _HTML),
            (b"content-length", b"%d" % listed.length),
        ]
        return Reply(200, about) if asked.method == "HEAD" else _rows_from(0, asked.key, listed, about)

    def _part(self, body: _Body, start: int) -> Work:
        """Return the work that makes a part of a body."""
        key, stop = body.asked.key, min(body.stop, start + body.step)
        run = partial(self._in_thread, key, body.version, start, stop)
        return Work(key, (key, body.version, start, stop), run, partial(self._made, body, start))

    def _at_hand(self, key: str, found: InFace | None, start: int, stop: int) -> memoryview | None:
        """Return bytes of a file if they can be had in the thread of the event loop, else None.

        Args:
            found: see `_looked`; it may be known only now.
        """
        if start == stop:
            return NOTHING
        found = self.contents.at_hand(key) if found is None else found
        return None if found is None else found.face.at_once(found.key, start, stop)

    def _made(self, body: _Body, start: int, made: memoryview | None) -> Reply | Work:
        """Go on with a body of which a part was read.

        Args:
            made: the part from byte `start` on; None: the sources are not in the state of the body any more.
        """
        asked = body.asked
        if made is None:
            if start > body.start:
                raise SourceChangedError("its files came, went or changed while it was sent")
            if asked.tries <= 1:
                raise SourceChangedError(f"{asked.key}: its files change again and again while they are read")
            return self._path(asked._replace(tries=asked.tries - 1))
        self._tally.bytes += made.nbytes
        stop = start + made.nbytes
        return Reply(body.status, body.about, made, None if stop == body.stop else self._part(body, stop))

    def _in_thread(self, key: str, version: bytes, start: int, stop: int) -> memoryview | None:
        try:
            with self._gate.shared():
                return self._take(key, version, start, stop)
        except MemoryError:
            pass  # leaving this block frees the exception, and with it the memory taken so far
        with self._gate.alone():  # try again with no other read under way, and so with their memory
            self.contents.cache.clear()
            scratch.clear()
            return self._take(key, version, start, stop)

    def _take(self, key: str, version: bytes, start: int, stop: int) -> memoryview | None:
        made = self.contents.at(key).get(start, stop)
        return self._checked(NOTHING if made is None else made, key, version, start, stop)

    def _checked(self, made: memoryview, key: str, version: bytes, start: int, stop: int) -> memoryview | None:
        """Return bytes that were read; None if they are too few, or the sources are not in this state any more."""
        return made if made.nbytes == stop - start and self.contents.at(key).version() == version else None


_FOR_ALL: Usual = ((b"access-control-allow-origin", b"*"), *SHARED, *USUAL)
_FOR_OTHERS: Usual = ((b"vary", b"origin"), *SHARED, *USUAL)
_FOR_OWN: Usual = ((b"cross-origin-resource-policy", b"same-origin"), *USUAL)
_READS = frozenset(("GET", "HEAD"))
_TEXT, _HTML = b"text/plain; charset=utf-8", b"text/html; charset=utf-8"
_CONDITIONS = frozenset((b"range", b"if-match", b"if-none-match", b"if-range", b"authorization"))
"""Headers of a request that no thread without the interpreter looks at."""
_HEALTH = frozenset((b"/healthz", b"/readyz"))
_BROWSES = b"application/xhtml+xml"  # what browsers accept when a person goes to a page, and no program that lists
_OWN = ("api/", "assets/", "metrics")  # what keys of the server itself begin with


def _rows_from(first: int, key: str, listed: FolderPage, about: Headers) -> Work:
    """Return the work that writes a part of the page that lists a folder."""

    def then(body: bytes) -> Reply:
        last = first + ROWS >= listed.rows
        return Reply(200, about, memoryview(body), None if last else _rows_from(first + ROWS, key, listed, about))

    return Work(key, ("rows", key, listed.etag, first), partial(listed.part, first), then)


def _asset(method: str, key: str, headers: Mapping[bytes, bytes]) -> Reply:
    """Answer with a file of the page."""
    found = assets()[key.removeprefix("assets/")]
    if conditions.matched(headers, found.etag):
        return Reply(304, [(b"etag", found.etag)])
    return whole(method, 200, found.body, found.kind, [(b"etag", found.etag)])
