"""Asks web servers for ranges of bytes of files, over connections that are kept: HTTP/1.1, with and without TLS.

The library `http.client` speaks with them; bytes of a body go from the socket into the memory where they belong. What a
server sends is believed as far as it was asked for: a body as long as it says and as was wanted, before a deadline. A
body that says what went wrong is not read. A server that leads to another one is followed only where the set may use
files anywhere.
"""

from __future__ import annotations

import io
import re
import select
import socket
import ssl
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from functools import lru_cache
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any, Literal, cast
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from vfs.errors import OutsideError, printable
from vfs.model.file_state import FileState
from vfs.sources.boundary import reads_outside
from vfs.sources.urls import InStore, login, place

_HOPS = 5
"""Times that a server may lead to another URL."""
_FEW, _PIECE = 1 << 14, 1 << 18
"""Bytes: of more than `_FEW` that are wanted, up to `_PIECE` are waited for, since each turn of a thread takes time."""
_IDLE = 20.0
"""Seconds after which a connection is not used again: servers close those that nobody used for a while."""
_LEADS = {301, 302, 303, 307, 308}
_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})$")
_SECONDS = re.compile(r"[0-9]{1,6}$")
_PORTS = {"http": 80, "https": 443}


class AskError(Exception):
    """A web server did not answer as it should.

    Args:
        words: what went wrong.
        again: it may go better the next time.
        status: of the reply; 0: there was none, or it is not to blame.
        pause: seconds that the server wants to be left alone for.
    """

    def __init__(self, words: str, again: bool = False, status: int = 0, pause: int = 0) -> None:
        super().__init__(words)
        self.again, self.status, self.pause = again, status, pause


class Web:
    """Connections to web servers, of this process.

    Args:
        wait: seconds for a request with its body; connect: seconds until a connection stands, at most.
        headers: that are sent with each request to the servers that sets name.
        anywhere: servers may lead to others.
    """

    def __init__(self, wait: float, connect: float, headers: Mapping[str, str], anywhere: bool) -> None:
        self._wait, self._connect, self._anywhere = wait, connect, anywhere
        self._headers = dict(headers)
        self._free: dict[tuple[str, str], list[_Connection]] = {}
        self._proxies: dict[str, str] = {}

    def state(self, name: str) -> FileState:
        """Look at a file.

        Raises: what `get` raises.
        """
        try:
            with self._ask(name, "HEAD") as reply:
                if reply.length >= 0:
                    return reply.state(reply.length)
        except AskError as error:
            if error.status not in (405, 501):
                raise
        return self.get(name, 0, 1).close()  # it answers no HEAD, or says no length there

    def get(self, name: str, start: int, stop: int) -> WebReply:
        """Ask for bytes of a file, fewer at its end. Returns the reply, of which the body has yet to be read.

        Raises:
            FileNotFoundError: it does not exist.
            OutsideError: the server leads to another one.
            AskError: anything else.
        """
        reply = self._ask(name, "GET", start, stop)
        try:
            if reply.status == 200:
                if reply.length == 0:
                    raise AskError("", status=416)  # some servers say so of an empty file
                raise AskError("the server does not serve ranges of bytes; copy the file, or serve it otherwise")
            found = _RANGE.match(reply.headers.get("content-range", ""))
            if found is None or reply.status != 206:
                raise AskError("the server answers with other bytes than it was asked for")
            first, last, size = int(found[1]), int(found[2]) + 1, int(found[3])
            if first != start or last != min(stop, size) or last <= first:
                raise AskError("the server answers with other bytes than it was asked for")
            reply.now, reply.left = reply.state(size), min(reply.length, last - first)
            reply.more = reply.length > last - first
        except BaseException:
            reply.drop()
            raise
        return reply

    def page(self, name: str, most: int) -> tuple[bytes, str]:
        """Read all of a page, or as many bytes of it as are wanted. Returns them, and the URL that they came from.

        Raises: what `get` raises.
        """
        reply = self._ask(name, "GET", kind="text/html")
        try:
            return reply.read(most), reply.url
        finally:
            reply.drop()

    def _ask(self, name: str, method: str, start: int = 0, stop: int = 0, kind: str = "") -> WebReply:
        """Send a request, and read the head of the reply."""
        where, until = place(name), time.monotonic() + self._wait
        accepted = {"Accept": kind} if kind else {}
        headers: Mapping[str, str] = {**self._headers, **accepted}
        target = f"/{quote(where.path)}"
        for _ in range(_HOPS + 1):
            reply = self._answered(where, target, method, headers, (start, stop), until)
            if reply.status not in _LEADS or "location" not in reply.headers:
                break
            reply.drop()
            where, target, same = self._led(name, where, target, reply.headers["location"])
            headers = headers if same else accepted
        else:
            raise AskError("the server leads round in a circle")
        if reply.status in (200, 206):
            if reply.headers.get("content-encoding", "identity").lower() not in ("identity", ""):
                reply.drop()
                raise AskError("the server packs its answers (Content-Encoding), of which ranges tell nothing")
            if reply.length < 0 and stop:
                reply.drop()
                raise AskError("the server does not say how long its answer is")
            return reply
        reply.drop()
        if reply.status in (404, 410):
            raise FileNotFoundError(name)
        later = reply.headers.get("retry-after", "")
        raise AskError("", status=reply.status, pause=int(later) if _SECONDS.match(later) else 0)

    def _led(self, name: str, where: InStore, target: str, to: str) -> tuple[InStore, str, bool]:
        """Return where a server leads to: the server, what to ask it for, and whether it is the same one.

        Raises:
            OutsideError: it is another one.
        """
        try:
            url = urlsplit(urljoin(f"{where.root}{target}", to))
            new = InStore(f"{url.scheme}://{url.netloc.rpartition('@')[2]}", "")
            old = urlsplit(where.root)
            same = url.hostname == old.hostname and (url.scheme, url.port) in (("https", None), (old.scheme, old.port))
        except ValueError:
            raise AskError("the server leads nowhere") from None
        if url.scheme not in ("http", "https") or (not same and not self._anywhere):
            raise OutsideError(
                f"{name}: the server leads to another one, {printable(new.root)[:200]}; {reads_outside()}"
            )
        path = quote(url.path or "/", safe="/%:@!$&'()*+,;=~")  # as the server quotes it, which may be signed
        return new, f"{path}?{url.query}" if url.query else path, same

    def _answered(
        self, where: InStore, target: str, method: str, headers: Mapping[str, str], cut: tuple[int, int], until: float
    ) -> WebReply:
        """Ask once. A connection that was kept may have been closed meanwhile: then on a new one."""
        more = {"Authorization": said} if (said := login(where)) else {}
        if cut[1]:
            more["Range"] = f"bytes={cut[0]}-{cut[1] - 1}"
        proxy = self._proxies.get(where.root)
        if proxy is None:  # the environment takes long to look through
            proxy = self._proxies[where.root] = _proxy(where)
        while True:
            kept = self._kept((where.root, proxy))
            one = kept or _Connection(where.root, proxy, min(until, time.monotonic() + self._connect))
            try:
                answer = one.ask(method, target, {**more, **headers}, until)
            except _ClosedError:
                one.close()
                if kept is None:
                    raise AskError("the connection broke", True) from None
                continue
            except BaseException:
                one.close()
                raise
            back = None if answer.will_close else self._free.setdefault((where.root, proxy), []).append
            return WebReply(one, answer, until, back, method == "HEAD", where.root + target)

    def _kept(self, key: tuple[str, str]) -> _Connection | None:
        """Return the connection that was used last, and close those that nobody used for long."""
        free, oldest = self._free.get(key, []), time.monotonic() - _IDLE
        with suppress(IndexError):  # there are no more; other threads take them, too
            while free[0].used < oldest:
                free.pop(0).close()
            return free.pop()
        return None


class WebReply:
    """A reply, whose body is read into memory. With `with`, its connection is used again if all of it was read.

    Attributes:
        url: that was asked; status, headers: as sent, names in lower case.
        length: bytes of the body as the server says; -1 if it does not.
        now: what the file is, as the reply says; left: bytes of the body that are wanted and have yet to come.
        more: the server says that it sends more than that.
    """

    def __init__(
        self,
        connection: _Connection,
        answer: HTTPResponse,
        until: float,
        back: Callable[[_Connection], None] | None,
        empty: bool,
        url: str,
    ) -> None:
        self.url, self.status = url, answer.status
        self.headers = {name.lower(): value for name, value in answer.headers.items()}
        said = self.headers.get("content-length", "")
        sized = said.isdecimal() and len(said) < 19 and "transfer-encoding" not in self.headers
        self.length = int(said) if sized else -1
        self.now, self.left, self.more = FileState(-1), 0 if empty else -1, False
        self._connection, self._answer, self._until, self._back = connection, answer, until, back

    def __enter__(self) -> WebReply:
        return self

    def __exit__(self, *error: object) -> None:
        if self._back is None or self.left or self.more:
            self.drop()
        else:
            self._answer.close()  # the connection stays
            self._connection.used = time.monotonic()
            self._back(self._connection)
        self._back = None

    def drop(self) -> None:
        """Read no more of it."""
        self._back = None
        self._answer.close()
        self._connection.close()

    def close(self) -> FileState:
        """Read no more of it, and return what it says of the file."""
        self.drop()
        return self.now

    def state(self, size: int) -> FileState:
        """Return the state of a file of so many bytes, as the headers say it."""
        return FileState(size, _written(self.headers.get("last-modified", "")), 0, self.headers.get("etag", ""))

    def read(self, most: int) -> bytes:
        """Read as many bytes of the body as are wanted, fewer at its end, before the deadline.

        Raises:
            AskError: the connection broke, or nothing came in time.
        """
        data = self._connection.read(self._answer, most)
        if len(data) < min(most, self.length):
            raise AskError("the connection broke", True)
        return data

    def read_into(self, memory: memoryview, held: Any) -> int:
        """Wait for some bytes of the body, and read as many as are there. Returns how many; 0 at its end.

        Args:
            memory: where they belong.
            held: is entered only while bytes are written to memory, never while nobody knows when some come.

        Raises:
            AskError: the connection broke, or nothing came in time.
        """
        memory = memory[: self.left]
        if not len(memory):
            return 0
        n = self._connection.receive(self._answer, memory, self._until, held)
        if not n:
            raise AskError("the connection broke", True)
        self.left -= n
        return n


class _ClosedError(Exception):
    """The other side has closed the connection, and said nothing."""


class _Connection:
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
            _ClosedError: the other side has closed the connection, or says what does not belong to this request.
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
            raise _ClosedError from None
        except (HTTPException, ValueError):
            if self.used:  # more than it said came behind the last reply
                raise _ClosedError from None
            raise AskError("the server answers with what is no HTTP") from None

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

    def _wait(self, until: float, room: int) -> None:
        """Wait until something can be read: up to `_PIECE` of `room` bytes, which are less than are to come."""
        self._wake_at(min(_PIECE, room) if self._plain and room > _FEW else 1)
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


@lru_cache(64)
def _written(said: str) -> int:
    """Return a time that a header says, ns since 1970; 0 if it says none."""
    try:
        return max(0, int(parsedate_to_datetime(said).timestamp())) * 1_000_000_000
    except (TypeError, ValueError, OverflowError):
        return 0


def _proxy(where: InStore) -> str:
    """Return the URL of the proxy by which the environment has a server asked; "" for none."""
    proxy = getproxies().get(where.scheme, "")
    if not proxy or proxy_bypass(where.root.partition("://")[2]):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _basic(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    said = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {b64encode(said.encode()).decode()}"}
