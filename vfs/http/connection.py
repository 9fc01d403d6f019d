"""One connection of a client.

It limits what the connection may cost: the length of a request's head, and the time it takes to come.
It sends what is at hand at once. All else goes the way of ASGI, through uvicorn.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable, Mapping
from functools import lru_cache
from http import HTTPStatus
from typing import Any, NamedTuple

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from vfs.http.answers import USUAL, Reply
from vfs.http.sending import Sender, SendingTransport

MOST = 64 << 10
"""Most bytes of a request line and headers. Longer ones get status 414 or 431."""
SECONDS = 20.0
"""Time that a request line and headers may take from their first byte on; then the connection is closed."""
KEPT = 75  # seconds that a connection without requests is kept

AtOnce = Callable[[str, bytes, Mapping[bytes, bytes]], Reply | None]
"""See `vfs.http.application.Application.at_once`."""

_LONG_LINE = b"HTTP/1.1 414 URI Too Long\r\n"
_LONG_HEAD = b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
_BAD = b"HTTP/1.1 400 Bad Request\r\n"


_PLAIN_GET = re.compile(rb"GET (/[!-\"$->@-~]*) HTTP/1\.1")
"""A request line that needs no parser: a path without `?` and `#`."""


class _TooLongError(Exception):
    """The head of a request is too long."""


class _Parsed(NamedTuple):
    """Headers of a request that was answered at once, as they came and as they were parsed."""

    lines: bytes
    headers: Mapping[bytes, bytes]


class Connection(HttpToolsProtocol):
    """A connection of uvicorn with limits, which it does not have itself when it parses with httptools.

    Args:
        at_once: answers a request that needs no ASGI.
        sender: sends large bodies.
        args, how: what uvicorn gives to its connections.
    """

    def __init__(self, *args: Any, at_once: AtOnce, sender: Sender, **how: Any) -> None:
        super().__init__(*args, **how)
        self._reply_at_once = at_once
        self._sender = sender
        self._replied = False  # to the request that is being parsed
        self._data = b""  # what is being parsed, if it began with a request
        self._parsed: _Parsed | None = None  # a client repeats its headers with every request
        self._in_message = False  # a request has begun and not ended
        self._in_head = False  # its head has not
        self._head = 0  # bytes of that head, about
        self._requests = 0  # heads that have ended
        self._unanswered: deque[Any] = deque()  # cycles of uvicorn; the first one is being answered
        self._status = _BAD
        self._late: asyncio.TimerHandle | None = None
        self._resting: asyncio.TimerHandle | None = None
        self._rests_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if transport.get_extra_info("sslcontext") is None:
            transport = SendingTransport(transport, self, self._sender)
        super().connection_made(transport)
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
            cycle.disconnected = True
            cycle.message_event.set()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing() or self._repeats(data):
            return
        before = self._requests
        self._data = b"" if self._in_message else data
        super().data_received(data)
        self._data = b""
        if self._in_head and not self.transport.is_closing():
            if self._late is None:
                self._late = self.loop.call_later(SECONDS, self._close_late)
            # Of data that also held the end of another request, nobody says how much belongs to this one
            self._head = self._head + len(data) if self._requests == before else 0
            if self._head > MOST:
                self._status = _LONG_HEAD if self.url else _LONG_LINE
                self.send_400_response("The head of the request is too long.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_message, self._in_head, self._lines = True, True, 0

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > MOST:
            self._status = _LONG_LINE
            raise _TooLongError

    def on_header(self, name: bytes, value: bytes) -> None:
        self._lines += len(name) + len(value)
        if self._lines > MOST:
            self._status = _LONG_HEAD
            raise _TooLongError
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._on_time()
        self._in_head, self._head = False, 0
        self._requests += 1
        headers = self._headers_at_once()
        method = self.parser.get_method().decode("ascii")
        reply = None if headers is None else self._reply_at_once(method, self.url, headers)
        if headers is None or reply is None:
            super().on_headers_complete()
            self._unanswered.append(self.cycle)
        else:
            self._replied = True
            self._remember(headers)
            self._send(reply)

    def on_message_complete(self) -> None:
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

    def _remember(self, headers: Mapping[bytes, bytes]) -> None:
        """Keep headers as they came, if request line and headers came in one piece that holds nothing else."""
        line, _, lines = self._data.partition(b"\r\n")
        if _PLAIN_GET.fullmatch(line) and lines.find(b"\r\n\r\n") == len(lines) - 4:
            self._parsed = _Parsed(lines, headers)

    def _repeats(self, data: bytes) -> bool:
        """Answer a request whose headers are those of the one before, which need not be parsed again.

        Returns: False if the parser must look at it, or it is not answered at once.
        """
        parsed = self._parsed
        if parsed is None or self._in_message or not data.endswith(parsed.lines):
            return False
        end = len(data) - len(parsed.lines) - 2
        line = _PLAIN_GET.fullmatch(data, 0, end) if 0 < end <= MOST and data[end : end + 2] == b"\r\n" else None
        if line is None or not self._free():
            return False
        reply = self._reply_at_once("GET", line[1], parsed.headers)
        if reply is None:
            return False
        self._requests += 1
        self._send(reply)
        return True

    def _send(self, reply: Reply) -> None:
        lines = [_STATUS[reply.status], _lines(reply.usual)]
        for name, value in (*self.server_state.default_headers, *reply.about):
            lines += name, b": ", value, b"\r\n"
        head, body = b"".join([*lines, b"\r\n"]), reply.body
        if isinstance(self.transport, SendingTransport):
            self.transport.send(head, body)
        else:
            self.transport.write(head)
            self.transport.write(body)
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

    def _close_resting(self) -> None:
        """Close the connection if it has had no request for `KEPT` seconds."""
        busy = self._in_head or (self.cycle is not None and not self.cycle.response_complete)
        left = KEPT if busy else self._rests_since + KEPT - self.loop.time()
        self._resting = None
        if left > 0:
            self._resting = self.loop.call_later(left, self._close_resting)
        else:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Refuse a request that cannot be parsed, and close the connection."""
        text = msg.encode("ascii")
        head = b"content-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n" % len(text)
        last = b"access-control-allow-origin: *\r\nconnection: close\r\n\r\n"
        self.transport.write(self._status + _lines(USUAL) + head + last + text)
        self.transport.close()

    def _on_time(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _close_late(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:  # it waits for an answer to an earlier request
            self._late = self.loop.call_later(SECONDS, self._close_late)
        else:
            self.transport.abort()


@lru_cache(64)
def _lines(headers: tuple[tuple[bytes, bytes], ...]) -> bytes:
    """Write headers that come again and again."""
    return b"".join(b"%s: %s\r\n" % header for header in headers)


_STATUS: dict[int, bytes] = {status: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
_UNUSUAL = frozenset((b"content-length", b"transfer-encoding", b"expect"))
