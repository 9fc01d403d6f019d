"""One connection of a client.

It limits what the connection may cost: the length of a request's head, and the time that the head and the body take to
come. A request that it refuses has one answer: nothing is written into another one, or behind its own.
It lends itself to threads that answer one request for a chunk after the other (`vfs.server.native`), and sends what
else is at hand at once. All else goes the way of ASGI, through uvicorn.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from http import HTTPStatus
from typing import Any, TypeGuard

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from vfs.http.answers import CACHING, CLOSING, STEP, Reply, Usual, uncached
from vfs.http.persons import Person
from vfs.server.accepting import Rest
from vfs.server.application import DECIDED, Application
from vfs.server.deciding import Decided, Decision, ForNative
from vfs.server.native import NativeAnswers
from vfs.server.native_tables import Loan, Repeated
from vfs.server.sending import SendingTransport

MAX_HEAD_BYTES = 64 << 10
"""Most bytes of a request line and headers. Longer ones get status 414 or 431."""
SECONDS = 20.0
"""Time that a request line and headers may take from their first byte on, and then the body; after that the connection
is closed. The bodies that are read have at most 64 KiB (`vfs.http.requests.MAX_BODY_BYTES`): 3 KiB/s are enough. Of
numbers that become a file there may be more (`vfs.page.taken.MAX_NUMBERS_BYTES`).
"""
KEPT = 75  # seconds that a connection without requests is kept

KNOWN = 256
"""Most headers of requests that are remembered."""
LONGEST_KNOWN = 4 << 10  # bytes of them
PAUSE = 0.05
"""Seconds for which a connection is not lent again that came back with the request with which it was lent."""

_LONG_LINE = b"HTTP/1.1 414 URI Too Long\r\n"
_LONG_HEAD = b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
_LATE = b"HTTP/1.1 408 Request Timeout\r\n"
_BAD = b"HTTP/1.1 400 Bad Request\r\n"
_TOO_LONG = "The head of the request is too long."


_PLAIN_GET = re.compile(rb"GET (/[!-\"$->@-~]*) HTTP/1\.1")
"""A request line that needs no parser: a path without `?` and `#`."""


class _RefusedError(Exception):
    """A request is refused while it is parsed."""


class KnownHeaders:
    """Remembers headers of requests: clients repeat them with every request, and need not have them parsed again."""

    def __init__(self) -> None:
        self._known: dict[bytes, Mapping[bytes, bytes]] = {}  # by the lines behind the request line

    def get(self, lines: bytes) -> Mapping[bytes, bytes] | None:
        return self._known.get(lines)

    def add(self, data: bytes, headers: Mapping[bytes, bytes]) -> None:
        """Remember headers.

        Args:
            data: a request, if it came in one piece that holds nothing else.
        """
        line, _, lines = data.partition(b"\r\n")
        if (
            len(lines) <= LONGEST_KNOWN
            and _PLAIN_GET.fullmatch(line)
            and lines.find(b"\r\n\r\n") == len(lines) - 4
            and lines not in self._known
        ):
            if len(self._known) >= KNOWN:
                self._known.clear()
            self._known[lines] = headers


class Shared:
    """What the connections of a server have in common. It is made in the thread of the event loop.

    Args:
        application: answers requests.
        common: returns header lines that every answer has, and that change now and then.

    Attributes:
        decisions: decides how requests are answered.
        native: answers requests for chunks; None: nothing does it natively.
        known: headers that came before.
    """

    def __init__(self, application: Application, common: Callable[[], bytes]) -> None:
        self.application = application
        self.decisions = application.decisions
        self.native = NativeAnswers(common, application.caching, application.access) if application.natively else None
        self.decisions.native = self.native
        self.known = KnownHeaders()

    def close(self) -> None:
        """End the threads."""
        if self.native is not None:
            self.native.close()


class Connection(HttpToolsProtocol):
    """A connection of uvicorn with limits, which it does not have itself when it parses with httptools.

    Args:
        shared: what it has in common with others.
        args, how: what uvicorn gives to its connections.

    Attributes:
        person: who asked last; None: nobody who may.
    """

    def __init__(self, *args: Any, shared: Shared, **how: Any) -> None:
        super().__init__(*args, **how)
        self._shared = shared
        self.person: Person | None = None
        self._came = 0.0  # when something came, seconds of `time.perf_counter`
        self._loan: Loan | None = None
        self._keeps_until = 0.0  # it is not lent before
        self._decided: Decided | None = None  # of the request that is to be parsed, if it is known already
        self._replied = False  # to the request that is being parsed
        self._data = b""  # what is being parsed, if it began with a request
        self._in_message = False  # a request has begun and not ended
        self._in_head = False  # its head has not
        self._head = 0  # bytes of that head, about
        self._requests = 0  # heads that have ended
        self._unanswered: deque[Any] = deque()  # cycles of uvicorn; the first one is being answered
        self._status = _BAD
        self._refusal = ""  # why a request is refused while it is parsed
        self._late: asyncio.TimerHandle | None = None
        self._resting: asyncio.TimerHandle | None = None
        self._rests_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if transport.get_extra_info("sslcontext") is None:
            transport = SendingTransport(transport, self)
        super().connection_made(transport)
        self._rests_since = self.loop.time()
        self._late = self.loop.call_later(SECONDS, self._close_late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_time()
        if self._resting is not None:
            self._resting.cancel()
        if isinstance(self.transport, SendingTransport):
            self.transport.lost(exc)
        super().connection_lost(exc)  # tells the last request only
        self.pipeline.clear()
        for cycle in self._unanswered:
            _leave(cycle)

    def data_received(self, data: bytes) -> None:
        self._came = time.perf_counter()
        if self.transport.is_closing() or self._repeats(data):
            return
        before = self._requests
        self._data = b"" if self._in_message else data
        super().data_received(data)
        self._data, self._decided = b"", None
        if self._in_message and self._late is None and not self.transport.is_closing():
            self._late = self.loop.call_later(SECONDS, self._close_late)
        if self._in_head and not self.transport.is_closing():
            # Of data that also held the end of another request, nobody says how much belongs to this one
            self._head = self._head + len(data) if self._requests == before else 0
            if self._head > MAX_HEAD_BYTES:
                self._status = _LONG_HEAD if self.url else _LONG_LINE
                self.send_400_response(_TOO_LONG)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_message, self._in_head, self._lines, self._hosts = True, True, 0, 0

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > MAX_HEAD_BYTES:
            self._status, self._refusal = _LONG_LINE, _TOO_LONG
            raise _RefusedError

    def on_header(self, name: bytes, value: bytes) -> None:
        self._lines += len(name) + len(value)
        if self._lines > MAX_HEAD_BYTES:
            self._status, self._refusal = _LONG_HEAD, _TOO_LONG
            raise _RefusedError
        self._hosts += name.lower() == b"host"
        if self._hosts > 1:
            self._refusal = "The request has several Host headers."
            raise _RefusedError
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._on_time()
        self._in_head, self._head = False, 0
        self._requests += 1
        decided, self._decided = self._decided, None
        headers = self._headers_at_once() if decided is None else None
        if headers is not None:
            decided = self._decide(self.parser.get_method().decode("ascii"), self.url, headers)
            self._shared.known.add(self._data, headers)
        if decided is not None and headers is not None and self._goes_at_once(decided.decision):
            self._replied = True
            self._send(decided, headers, self.parser.get_method().decode("ascii"))
        else:
            self.scope["extensions"] = {DECIDED: {"decided": decided, "asks": self._asks}}
            super().on_headers_complete()
            self._unanswered.append(self.cycle)

    def on_message_complete(self) -> None:
        self._on_time()
        self._in_message = False
        if self._replied:
            self._replied = False
        else:
            super().on_message_complete()

    def _free(self) -> bool:
        """Return True if a request may be answered now: no other waits, and the client takes what it asked for."""
        return (
            not self.flow.write_paused
            and (self.cycle is None or self.cycle.response_complete)
            and not self.transport.is_closing()
        )

    def _headers_at_once(self) -> Mapping[bytes, bytes] | None:
        """Return the headers of a request that may be answered at once: it has no body and keeps the connection."""
        parser = self.parser
        if (
            not self._free()
            or parser.get_http_version() != "1.1"
            or parser.should_upgrade()
            or not parser.should_keep_alive()
        ):
            return None
        headers = dict(self.headers)
        return headers if _UNUSUAL.isdisjoint(headers) and b"?" not in self.url else None

    def _repeats(self, data: bytes) -> bool:
        """Answer a request whose headers came before, and need not be parsed again.

        Returns: False if the parser must look at it.
        """
        end = data.find(b"\r\n", 0, MAX_HEAD_BYTES)
        headers = None if self._in_message or end < 0 else self._shared.known.get(data[end + 2 :])
        line = None if headers is None else _PLAIN_GET.fullmatch(data, 0, end)
        if headers is None or line is None or not self._free():
            return False
        decided = self._decide("GET", line[1], headers, self._may_be_lent)
        if isinstance(decided.decision, ForNative) and not self._lend(headers, data, end + 2):
            decided = self._decide("GET", line[1], headers)
        if self._goes_at_once(decided.decision):
            self._send(decided, headers, "GET")
        elif not isinstance(decided.decision, ForNative):
            self._decided = decided
            return False
        self._on_time()
        self._requests += 1
        return True

    def _decide(self, method: str, path: bytes, headers: Mapping[bytes, bytes], lends: bool = False) -> Decided:
        """Decide how a request of this connection is answered, see `Decisions.decide`."""
        decided = self._shared.decisions.decide(method, path, headers, lends)
        self._asks(decided.person)
        return decided

    def _asks(self, person: Person | None) -> None:
        """Remember who asks. Nobody knows who sent what is refused."""
        self.person = person or self.person

    def _goes_at_once(self, reply: Decision) -> TypeGuard[Reply]:
        """Return True if a response needs no ASGI: it keeps the connection, and nothing large of it is copied."""
        plain = isinstance(self.transport, SendingTransport)
        if not isinstance(reply, Reply):
            return False
        return reply.status not in CLOSING and (plain or reply.body.nbytes <= STEP)

    @property
    def _may_be_lent(self) -> bool:
        lends = self._shared.native is not None and isinstance(self.transport, SendingTransport)
        return lends and self.loop.time() >= self._keeps_until

    def _lend(self, headers: Mapping[bytes, bytes], request: bytes, line: int) -> bool:
        """Have a request and those after it answered natively. Returns False if that cannot be.

        Args:
            headers: those of the request.
            line: bytes of its request line.
        """
        transport, native = self.transport, self._shared.native
        assert isinstance(transport, SendingTransport)
        assert native is not None
        fd = transport.lend()
        if fd is None:
            return False
        first = _STATUS[HTTPStatus.OK] + _lines(uncached(self._usual(headers)))
        assert self.person is not None
        application = self._shared.application
        asks = b"" if application.access is None else application.asks(self.person, self.client, headers, "GET")
        same = Repeated(request[line:], first, self.person.base, asks)
        self._loan = native.lend(fd, same, request, partial(self._taken_back, request))
        if self._loan is None:
            transport.taken_back()
            return False
        self._rest()
        return True

    def _taken_back(self, began: bytes, data: bytes, broken: bool) -> None:
        """Go on with this connection, which was lent.

        Args:
            began: the request with which it was lent.
            data: what came and was not answered.
            broken: the last answer was cut off: only a broken connection says that it is not all.
        """
        transport, self._loan = self.transport, None
        assert isinstance(transport, SendingTransport)
        if data == began:
            self._keeps_until = self.loop.time() + PAUSE
        self._rests_since = self.loop.time()
        transport.taken_back()
        if broken:
            transport.abort()
        elif data:
            try:
                self.data_received(data)
            except Exception:
                transport.abort()  # as asyncio does with what it gives
                raise

    def _usual(self, headers: Mapping[bytes, bytes]) -> Usual:
        """Return the headers of every response to a request with these headers."""
        return self._shared.decisions.usual(headers.get(b"origin"))

    def _send(self, decided: Decided, request: Mapping[bytes, bytes], method: str) -> None:
        """Send a response to a request with these headers."""
        reply = decided.decision
        assert isinstance(reply, Reply)
        usual = self._usual(request)
        if reply.about and reply.about[0][0] == CACHING:
            usual = uncached(usual)
        lines = [_STATUS[reply.status], _lines(usual)]
        for name, value in (*self.server_state.default_headers, *reply.about):
            lines += name, b": ", value, b"\r\n"
        head, body = b"".join([*lines, b"\r\n"]), reply.body
        if isinstance(self.transport, SendingTransport):
            self.transport.send(head, body)
        else:
            self.transport.write(head)
            self.transport.write(body)
        if (access := self._shared.application.access) is not None:
            asks = self._shared.application.asks(decided.person, self.client, request, method)
            access.add(asks, decided.path, reply.status, body.nbytes, time.perf_counter() - self._came)
        self._rest()

    def on_response_complete(self) -> None:
        self._unanswered.popleft()
        super().on_response_complete()
        self._unset_keepalive_if_required()  # uvicorn's timer, which it makes and cancels for every request
        self._rest()

    def _rest(self) -> None:
        """Begin to wait for the next request."""
        self._rests_since = self.loop.time()
        if self._resting is None:
            self._resting = self.loop.call_later(KEPT, self._close_resting)

    @property
    def rests(self) -> Rest | None:
        """Since when it has no request under way; None: it has one. A first one that has only begun does not count."""
        asked = self._requests > 0
        answering = self.cycle is not None and not self.cycle.response_complete
        if self.transport.is_closing() or self.flow.write_paused or answering or (asked and self._in_head):
            return None
        if self._loan is None:
            return Rest(asked, self._rests_since)
        return None if self._loan.busy else Rest(True, max(self._rests_since, self._loan.since))

    def _close_resting(self) -> None:
        """Close the connection if it has had no request for `KEPT` seconds."""
        rest = self.rests
        left = KEPT if rest is None else rest.since + KEPT - self.loop.time()
        self._resting = None
        if left > 0:
            self._resting = self.loop.call_later(left, self._close_resting)
        else:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Refuse a request that cannot be parsed, and close the connection."""
        own = self.cycle if self._in_message and not self._in_head else None  # else nobody answers it yet
        if not self._unanswered:
            if own is None:
                self._write_refusal(self._refusal or msg)
            self.transport.close()
        elif own is not None and own is self._unanswered[0] and not own.response_started:
            _leave(own)
            self._write_refusal(self._refusal or msg)
            self.transport.close()
        else:  # what is written now would be a part of another answer, or be taken for it
            self.transport.abort()

    def _write_refusal(self, reason: str) -> None:
        text = reason.encode("ascii")
        head = b"content-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n" % len(text)
        usual = _lines(self._usual({}))
        self.transport.write(self._status + usual + head + b"connection: close\r\n\r\n" + text)
        if (access := self._shared.application.access) is not None:  # nobody knows what it is
            asks = self._shared.application.asks(None, self.client, {}, "-")
            access.add(asks, b"-", int(self._status.split()[1]), len(text), time.perf_counter() - self._came)

    def _on_time(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _close_late(self) -> None:
        """Close the connection, whose client is late with what it sends, unless the client waits for an answer."""
        own: Any = self.cycle if self._in_message and not self._in_head else None
        first: Any = self._unanswered[0] if self._unanswered else None
        if self.flow.read_paused or (first is not None and (first is not own or first.response_started)):
            self._late = self.loop.call_later(SECONDS, self._close_late)
        elif own is None:
            self.transport.abort()
        else:
            self._status = _LATE
            self.send_400_response(f"expected the whole body within {SECONDS:g} seconds")


def _leave(cycle: Any) -> None:
    """Tell who answers a request that nobody waits for the answer, of which no more is written."""
    cycle.disconnected = True
    cycle.message_event.set()


@lru_cache(64)
def _lines(headers: tuple[tuple[bytes, bytes], ...]) -> bytes:
    """Write headers that come again and again."""
    return b"".join(b"%s: %s\r\n" % header for header in headers)


_STATUS: dict[int, bytes] = {status: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
_UNUSUAL = frozenset((b"content-length", b"transfer-encoding", b"expect"))
