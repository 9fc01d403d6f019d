"""Connects to web servers, past proxies and with TLS, and sends requests: every wait ends at a deadline.

The library `http.client` writes requests and reads the heads of replies. Bytes of a body go from the socket into the
memory where they belong.
"""

from __future__ import annotations

import io
import select
import socket
import ssl
import time
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any, Literal, cast
from urllib.parse import SplitResult, unquote, urlsplit

from vfs.errors import printable

_FEW_BYTES, _PIECE_BYTES = 1 << 14, 1 << 18
"""Bytes: of more than `_FEW_BYTES` that are wanted, up to `_PIECE_BYTES` are waited for, since each turn of a thread
takes time."""
_PORTS = {"http": 80, "https": 443}


class AskError(Exception):
    """A web server did not answer as it should.

    Args:
        words: what went wrong.
        again: it may go better the next time.
        status: of the reply; 0: there was none, or it is not to blame.
        pause: seconds that the server wants to be left alone for.
        size: bytes of the file, where the reply says that it has no others (status 416); -1 if it does not say.
    """

    def __init__(self, words: str, again: bool = False, status: int = 0, pause: int = 0, size: int = -1) -> None:
        super().__init__(words)
        self.again, self.status, self.pause, self.size = again, status, pause, size


class ClosedError(Exception):
    """The other side has closed the connection, and said nothing."""


class WebConnection:
    """A connection to a server, or to a proxy that leads there.

    Args:
        root: the server; proxy: URL of the proxy, "" without one; until: when it must stand (monotonic seconds).

    Attributes:
        used: when it was used last; 0: never.
    """

    def __init__(self, root: str, proxy: str, until: float) -> None:
        self.used, self._plain, self._wanted = 0.0, root.startswith("http:"), 1
        url, through = urlsplit(root), urlsplit(proxy or root)
        self._said = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "vfs"}
        self._root = ""
        plain = None
        try:
            self._said["Host"] = url.netloc.encode("idna").decode()
            plain = _connected(through.hostname or "", through.port or _PORTS.get(through.scheme, 80), until)
            if self._plain and proxy:
                self._root, self._said = root, self._said | _basic(through)
            elif proxy:
                _tunnel(plain, self._said["Host"], url.port, through, until)
            if not self._plain:
                plain.settimeout(_left(until))
                plain = _context().wrap_socket(plain, server_hostname=url.hostname)
        except socket.gaierror:
            raise AskError("there is no such server") from None
        except AskError:
            _close(plain)
            raise
        except ssl.SSLCertVerificationError as error:
            _close(plain)
            raise AskError(f"the server's certificate is not trusted: {printable(error.verify_message)}") from None
        except ssl.SSLError as error:
            _close(plain)
            raise AskError(
                f"the server speaks no TLS that is spoken here ({error.reason or 'broken off'})", True
            ) from None
        except (OSError, HTTPException, ValueError) as error:
            _close(plain)
            late = isinstance(error, TimeoutError)
            raise AskError("no answer in time" if late else "cannot connect to the server", True) from None
        except BaseException:
            _close(plain)
            raise
        self._socket = _TimedSocket(plain)
        self._http = HTTPConnection(url.hostname or "", 80)
        self._http.sock = cast(socket.socket, self._socket)

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        with suppress(AttributeError, OSError):
            self._http.close()

    def ask(self, method: str, target: str, headers: Mapping[str, str], until: float) -> HTTPResponse:
        """Send a request, and read the head of the reply.

        Raises:
            ClosedError: the other side has closed the connection, or says what does not belong to this request.
            AskError: nothing comes in time, or it is no HTTP.
        """
        self._wake_at(1)
        self._socket.until = until
        try:
            self._socket.in_head = True
            self._http.request(method, self._root + target, headers={**self._said, **headers})
            answer = self._http.getresponse()
            self._socket.in_head = False
            return answer
        except TimeoutError:
            raise AskError("no answer in time", True) from None
        except OSError:  # also if nothing comes, not even a status
            raise ClosedError from None
        except (HTTPException, ValueError):
            if self.used:  # more than it said came behind the last reply
                raise ClosedError from None
            raise AskError("the server does not answer in HTTP") from None

    def read(self, answer: HTTPResponse, most: int) -> bytes:
        """Read a body before the deadline of its head, see `WebReply.read`."""
        try:
            return answer.read(most)
        except TimeoutError:
            raise AskError("no answer in time", True) from None
        except (OSError, HTTPException, ValueError):
            raise AskError("the connection broke", True) from None

    def receive(self, answer: HTTPResponse, memory: memoryview, until: float, held: Any) -> int:
        """Read some bytes, see `WebReply.read_into`. Returns 0 if the other side has closed the connection.

        Raises:
            AskError: nothing comes in time, or the connection broke.
        """
        if answer.chunked:
            return self._decoded(answer, memory, until, held)
        stream = answer.fp
        self._socket.until = None
        try:
            while True:
                with held:
                    n = cast(int | None, stream.readinto1(memory))
                if n is not None:
                    return n
                self._wait(until, len(memory))
        except OSError:
            raise AskError("the connection broke", True) from None

    def _decoded(self, answer: HTTPResponse, memory: memoryview, until: float, held: Any) -> int:
        """Do what `receive` does with a body that comes in pieces, between which it says how long the next one is."""
        self._socket.until = until
        try:
            part = answer.read1(min(len(memory), _PIECE_BYTES))
        except TimeoutError:
            raise AskError("no answer in time", True) from None
        except (OSError, HTTPException, ValueError):
            raise AskError("the connection broke", True) from None
        with held:
            memory[: len(part)] = part
        return len(part)

    def _wait(self, until: float, room: int) -> None:
        """Wait until something can be read: up to `_PIECE_BYTES` of `room` bytes, which are less than are to come."""
        self._wake_at(min(_PIECE_BYTES, room) if self._plain and room > _FEW_BYTES else 1)
        poll = select.poll()
        poll.register(self._socket.plain, select.POLLIN)
        if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
            raise AskError("no answer in time", True)

    def _wake_at(self, wanted: int) -> None:
        """Have the system wake this thread when so many bytes are there."""
        if wanted != self._wanted:
            self._wanted = wanted
            self._socket.plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wanted)


class _TimedSocket:
    """A socket for `http.client` that waits until a deadline, however often it is read.

    Args:
        plain: the socket.

    Attributes:
        until: the deadline, monotonic seconds; None: it never waits, and `read` returns None where nothing has come.
        in_head: it must not end, since `http.client` would take what came for all of the head.
    """

    def __init__(self, plain: socket.socket) -> None:
        self.plain = plain
        self.until: float | None = None
        self.in_head = False

    def set_time(self) -> None:
        """Have the next call wait as long as it may.

        Raises:
            TimeoutError: it may wait no longer.
        """
        self.plain.settimeout(0.0 if self.until is None else _left(self.until))

    def sendall(self, data: Any) -> None:
        self.set_time()
        self.plain.sendall(data)

    def makefile(self, mode: Literal["rb"]) -> io.BufferedReader:
        return io.BufferedReader(_TimedStream(self, cast(io.RawIOBase, self.plain.makefile(mode, 0))))

    def close(self) -> None:
        self.plain.close()


class _TimedStream(io.RawIOBase):
    """What is read of a `_TimedSocket`."""

    def __init__(self, timed: _TimedSocket, stream: io.RawIOBase) -> None:
        self._timed, self._stream = timed, stream

    def readable(self) -> bool:
        return True

    def readinto(self, memory: Any) -> int | None:
        self._timed.set_time()
        n: int | None
        try:
            n = self._stream.readinto(memory)
        except ssl.SSLWantReadError:
            return None
        except (ConnectionResetError, BrokenPipeError, ssl.SSLEOFError):
            n = 0
        if n == 0 and self._timed.in_head:
            raise ConnectionResetError
        return n

    def close(self) -> None:
        self._stream.close()
        super().close()


def _left(until: float) -> float:
    """Return for how long something may take yet.

    Raises:
        TimeoutError: no longer.
    """
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _connected(host: str, port: int, until: float) -> socket.socket:
    """Connect to one of the addresses of a server, of which each gets its part of the time.

    Raises:
        OSError: none answers.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for k, (family, kind, protocol, _, address) in enumerate(found):
        made = socket.socket(family, kind, protocol)
        try:
            made.settimeout(_left(until) / (len(found) - k))
            made.connect(address)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return made
        except OSError:
            made.close()
            if k + 1 == len(found):
                raise
        except BaseException:
            made.close()
            raise
    raise OSError("no address")


def _tunnel(plain: socket.socket, host: str, port: int | None, proxy: SplitResult, until: float) -> None:
    """Have a proxy lead to a server.

    Raises:
        AskError: it does not.
    """
    to = host if port else f"{host}:{_PORTS['https']}"
    said = "".join(f"{name}: {value}\r\n" for name, value in _basic(proxy).items())
    timed = _TimedSocket(plain)
    timed.until, timed.in_head = until, True
    timed.sendall(f"CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n{said}\r\n".encode("ascii"))
    answer = HTTPResponse(cast(socket.socket, timed), method="CONNECT")
    try:
        answer.begin()
        if answer.status // 100 != 2:
            raise AskError(f"the proxy does not lead there (status {answer.status})", True)
    finally:
        answer.close()


def _close(one: socket.socket | None) -> None:
    if one is not None:
        one.close()


@lru_cache(1)
def _context() -> ssl.SSLContext:
    return ssl.create_default_context()


def _basic(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    said = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {b64encode(said.encode()).decode()}"}
