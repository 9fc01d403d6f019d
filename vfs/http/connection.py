"""Limits what a connection may cost: the length of a request's head, and the time it takes to come."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST = 64 << 10
"""Most bytes of a request line and headers. Longer ones get status 414 or 431."""
SECONDS = 20.0
"""Time that a request line and headers may take from their first byte on; then the connection is closed."""
KEPT = 75  # seconds that a connection without requests is kept

_LONG_LINE = b"HTTP/1.1 414 URI Too Long\r\n"
_LONG_HEAD = b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
_BAD = b"HTTP/1.1 400 Bad Request\r\n"


class _TooLongError(Exception):
    """The head of a request is too long."""


class Connection(HttpToolsProtocol):
    """A connection of uvicorn with limits, which it does not have itself when it parses with httptools."""

    def __init__(self, *args: Any, **how: Any) -> None:
        super().__init__(*args, **how)
        self._in_head = False  # a head has begun and not ended
        self._head = 0  # bytes of that head, about
        self._requests = 0  # heads that have ended
        self._status = _BAD
        self._late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._late = self.loop.call_later(SECONDS, self._close_late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_time()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        before = self._requests
        super().data_received(data)
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
        self._in_head, self._lines = True, 0

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
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse a request that cannot be parsed, and close the connection."""
        text = msg.encode("ascii")
        head = b"content-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n" % len(text)
        self.transport.write(
            self._status + head + b"access-control-allow-origin: *\r\nconnection: close\r\n\r\n" + text
        )
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
