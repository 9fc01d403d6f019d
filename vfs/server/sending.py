"""Keeps in order what one connection sends, and copies nothing of it."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from contextlib import suppress
from typing import Any


class SendingTransport(asyncio.Transport):
    """Writes to the socket of a transport: everything in its order, head and body in one call, nothing copied.

    asyncio's own transport copies what the socket does not take at once (before Python 3.12). This one also leaves the
    connection to others for a time (`lend`).

    Args:
        transport: the transport of a socket, without TLS.
        flow: its protocol, which is told while something waits for room in the socket.
    """

    def __init__(self, transport: asyncio.Transport, flow: asyncio.Protocol) -> None:
        super().__init__()
        self._transport = transport
        self._flow = flow
        self._loop = asyncio.get_running_loop()
        self._socket = transport.get_extra_info("socket")
        self._own: socket.socket | None = None  # the same, once something waits
        self._parts: deque[memoryview] = deque()  # what is left to send
        self._lent = False  # others have the connection
        self._closing = False  # once all of it is sent
        self._lost = False  # the connection has ended; what was written before is still sent

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._closing or self._transport.is_closing()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        if not self._closing:
            self._transport.resume_reading()

    def lend(self) -> int | None:
        """Leave the connection to others, until it is `taken_back`. Nothing is written meanwhile.

        Returns: its descriptor; None if it cannot be left just now.
        """
        if self._parts or self._closing or self._lost:
            return None
        try:
            fd = self._own_socket().fileno()
        except OSError:
            return None
        self._transport.pause_reading()
        self._lent = True
        return fd

    def taken_back(self) -> None:
        """Go on with a connection that was lent."""
        self._lent = False
        if self._lost:
            self._let_go()
        elif self._closing:
            self._transport.close()
        else:
            self._transport.resume_reading()

    def get_write_buffer_size(self) -> int:
        return sum(part.nbytes for part in self._parts)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.send(b"", memoryview(data))

    def send(self, head: bytes, body: memoryview) -> None:
        """Write two parts together. The memory of the second one must not be used again."""
        if self._lost or self._closing:
            return
        waits = bool(self._parts)
        self._parts.extend(part for part in (memoryview(head), body) if part.nbytes)
        if not waits and self._parts:
            self._go()
            if self._parts:
                self._flow.pause_writing()

    def _go(self) -> None:
        """Send what is left, or as much of it as the socket takes."""
        parts = [self._parts[k] for k in range(min(2, len(self._parts)))]
        try:
            self._take_out(os.writev((self._own or self._socket).fileno(), parts))
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:  # the client has gone
            self.abort()
        self._wait()

    def _own_socket(self) -> socket.socket:
        """Return the socket with a descriptor of its own.

        It must not become another file's while others have it, and asyncio lets nobody wait for that of a transport.

        Raises:
            OSError: there is none left.
        """
        if self._own is None:
            like = self._socket
            self._own = socket.socket(like.family, like.type, like.proto, fileno=os.dup(like.fileno()))
        return self._own

    def _wait(self) -> None:
        """Go on when the socket has room, if anything is left."""
        if self._parts:
            try:
                self._loop.add_writer(self._own_socket(), self._again)
            except OSError:
                self.abort()

    def _again(self) -> None:
        self._loop.remove_writer(self._own_socket())
        self._go()
        self._end()

    def _take_out(self, sent: int) -> None:
        while self._parts and sent >= self._parts[0].nbytes:
            sent -= self._parts.popleft().nbytes
        if self._parts and sent:
            self._parts[0] = self._parts[0][sent:]

    def _end(self) -> None:
        """Go on with what waits until all is sent."""
        if self._parts:
            return
        if self._lost:
            self._let_go()
        else:
            self._flow.resume_writing()
            if self._closing:
                self._transport.close()

    def close(self) -> None:
        """Close the connection when all is sent."""
        if self._lent and self._own is not None:
            self._closing = True
            with suppress(OSError):  # it may have ended by itself
                self._own.shutdown(socket.SHUT_RD)  # those who have it take this for the end of the client's requests
        elif self._parts and not self._lost:
            self._closing = True
            self._transport.pause_reading()
        else:
            self._transport.close()

    def abort(self) -> None:
        self._closing = True
        self._drop()
        self._transport.abort()

    def lost(self, error: Exception | None) -> None:
        """Say that the connection has ended. A client that has all it asked for under way may have said so itself."""
        self._lost = True
        if error is not None:
            self._drop()
        elif not self._parts:
            self._let_go()

    def _drop(self) -> None:
        """Send nothing more."""
        if self._own is not None and self._lent:
            with suppress(OSError):  # it may have ended by itself
                self._own.shutdown(socket.SHUT_RDWR)
        elif self._own is not None:
            self._loop.remove_writer(self._own)
        self._parts.clear()
        if self._lost:
            self._let_go()

    def _let_go(self) -> None:
        """Close the descriptor, unless somebody uses it: then this is called again."""
        if self._own is not None and not self._lent:
            self._own.close()
            self._own = None
