"""Asks web servers for ranges of bytes of files, over connections that are kept: HTTP/1.1, with and without TLS.

Bytes go from the socket into the memory where they belong. What a server sends is believed as far as it was asked for:
a head of a few KiB, a body as long as it says and as was wanted, before a deadline. A body that says what went wrong is
not read. A server that leads to another one is followed only where the set may use files anywhere.
"""

from __future__ import annotations

import re
import select
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote_to_bytes, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from vfs.errors import OutsideError, printable
from vfs.model.file_state import FileState
from vfs.sources.boundary import reads_outside
from vfs.sources.urls import InStore, login, place

_HEAD = 1 << 16
"""Bytes of the head of a reply at most."""
_HOPS = 5
"""Times that a server may lead to another URL."""
_FEW, _PIECE = 1 << 14, 1 << 18
"""Bytes: of more than `_FEW` that are wanted, up to `_PIECE` are waited for, since each turn of a thread takes time."""
_IDLE = 20.0
"""Seconds after which a connection is not used again: servers close those that nobody used for a while."""
_LEADS = {301, 302, 303, 307, 308}
_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})$")
_STATUS = re.compile(rb"HTTP/1\.([01]) (\d{3})(?: |$)")


class AskError(Exception):
    """A web server did not answer as it should.

    Args:
        words: what went wrong.
        again: it may go better the next time.
        status: of the reply; 0: there was none, or it is not to blame.
    """

    def __init__(self, words: str, again: bool = False, status: int = 0) -> None:
        super().__init__(words)
        self.again, self.status = again, status


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

    def state(self, name: str) -> FileState:
        """Look at a file.

        Raises: what `get` raises.
        """
        try:
            with self._ask(name, "HEAD") as reply:
                return reply.state(reply.length)
        except AskError as error:
            if error.status not in (405, 501):
                raise
        return self.get(name, 0, 1).close()  # it answers no HEAD

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

    def _ask(self, name: str, method: str, start: int = 0, stop: int = 0) -> WebReply:
        """Send a request, and read the head of the reply."""
        where, headers, until = place(name), self._headers, time.monotonic() + self._wait
        target = f"/{quote(where.path)}"
        for _ in range(_HOPS + 1):
            reply = self._answered(where, target, method, headers, (start, stop), until)
            if reply.status not in _LEADS or "location" not in reply.headers:
                break
            reply.drop()
            where, target, same = self._led(name, where, target, reply.headers["location"])
            headers = headers if same else {}
        else:
            raise AskError("the server leads round in a circle")
        if reply.status in (200, 206):
            if reply.headers.get("content-encoding", "identity").lower() not in ("identity", ""):
                reply.drop()
                raise AskError("the server packs its answers (Content-Encoding), of which ranges tell nothing")
            if reply.length < 0:
                reply.drop()
                raise AskError("the server does not say how long its answer is")
            return reply
        reply.drop()
        if reply.status in (404, 410):
            raise FileNotFoundError(name)
        raise AskError("", status=reply.status)

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
        path = quote(unquote_to_bytes(url.path or "/"))
        return new, f"{path}?{url.query}" if url.query else path, same

    def _answered(
        self, where: InStore, target: str, method: str, headers: Mapping[str, str], cut: tuple[int, int], until: float
    ) -> WebReply:
        """Ask once. A connection that was kept may have been closed meanwhile: then on a new one."""
        more = {"Authorization": said} if (said := login(where)) else {}
        if cut[1]:
            more["Range"] = f"bytes={cut[0]}-{cut[1] - 1}"
        proxy = _proxy(where)
        while True:
            kept = self._kept((where.root, proxy))
            one = kept or _Connection(where.root, proxy, min(until, time.monotonic() + self._connect))
            try:
                one.send(method, target, {**more, **headers}, until)
                status, keeps, said_headers, rest = one.head(until)
            except _ClosedError:
                one.close()
                if kept is None:
                    raise AskError("the connection broke", True) from None
                continue
            except BaseException:
                one.close()
                raise
            back = self._free.setdefault((where.root, proxy), []).append if keeps else None
            return WebReply(one, status, said_headers, rest, until, back, method == "HEAD")

    def _kept(self, key: tuple[str, str]) -> _Connection | None:
        free = self._free.get(key, [])
        while free:
            with suppress(IndexError):  # another thread took it
                one = free.pop()
                if time.monotonic() - one.used < _IDLE:
                    return one
                one.close()
        return None


class WebReply:
    """A reply, whose body is read into memory. With `with`, its connection is used again if all of it was read.

    Attributes:
        status, headers: as sent; names in lower case.
        length: bytes of the body as the server says; -1 if it does not.
        now: what the file is, as the reply says; left: bytes of the body that are wanted and have yet to come.
        more: the server says that it sends more than that.
    """

    def __init__(
        self,
        connection: _Connection,
        status: int,
        headers: Mapping[str, str],
        rest: memoryview,
        until: float,
        back: Callable[[_Connection], None] | None,
        empty: bool,
    ) -> None:
        self.status, self.headers = status, headers
        said = headers.get("content-length", "")
        self.length = int(said) if said.isdecimal() and len(said) < 19 and "transfer-encoding" not in headers else -1
        self.now, self.left, self.more = FileState(-1), 0 if empty else -1, False
        self._connection, self._rest, self._until, self._back = connection, rest, until, back

    def __enter__(self) -> WebReply:
        return self

    def __exit__(self, *error: object) -> None:
        if self._back is not None and self.left == 0 and not self.more and not self._rest:
            self._connection.used = time.monotonic()
            self._back(self._connection)
        else:
            self._connection.close()
        self._back = None

    def drop(self) -> None:
        """Read no more of it."""
        self._back = None
        self._connection.close()

    def close(self) -> FileState:
        """Read no more of it, and return what it says of the file."""
        self.drop()
        return self.now

    def state(self, size: int) -> FileState:
        """Return the state of a file of so many bytes, as the headers say it."""
        return FileState(size, _written(self.headers.get("last-modified", "")), 0, self.headers.get("etag", ""))

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
        if self._rest:
            n = min(len(memory), len(self._rest))
            with held:
                memory[:n] = self._rest[:n]
            self._rest = self._rest[n:]
        else:
            n = self._connection.receive(memory, self._until, held)
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
        used: when it was used last.
    """

    def __init__(self, root: str, proxy: str, until: float) -> None:
        self.used, self._plain, self._wanted = 0.0, root.startswith("http:"), 1
        self._target_root = root if proxy and root.startswith("http:") else ""
        self._host = root.partition("://")[2]
        url, through = urlsplit(root), urlsplit(proxy or root)
        try:
            port = through.port or (443 if through.scheme == "https" else 80)
            self._socket = socket.create_connection((through.hostname or "", port), max(0.01, until - time.monotonic()))
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._through = _basic(through) if proxy else {}
            if proxy and url.scheme == "https":
                self._tunnel(url, until)
            if url.scheme == "https":
                self._socket.settimeout(max(0.01, until - time.monotonic()))
                self._socket = _context().wrap_socket(self._socket, server_hostname=url.hostname)
            self._socket.settimeout(0)
        except socket.gaierror:
            raise AskError("there is no such server") from None
        except ssl.SSLCertVerificationError as error:
            self.close()
            raise AskError(f"the server's certificate is not trusted: {printable(error.verify_message)}") from None
        except (OSError, ValueError) as error:
            self.close()
            late = isinstance(error, TimeoutError)
            raise AskError("no answer in time" if late else "cannot connect to the server", True) from None
        except BaseException:
            self.close()
            raise

    def _tunnel(self, url: Any, until: float) -> None:
        """Ask the proxy for a way to a server."""
        self._socket.settimeout(0)
        at = f"{url.hostname}:{url.port or 443}"
        lines = [f"CONNECT {at} HTTP/1.1", f"Host: {at}", *(f"{k}: {v}" for k, v in self._through.items())]
        self._send("\r\n".join([*lines, "", ""]).encode("latin-1"), until)
        try:
            status = self.head(until)[0]
        except _ClosedError:
            status = 0
        if status != 200:
            raise AskError(f"the proxy does not lead there (status {status})", True)

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        with suppress(AttributeError, OSError):
            self._socket.close()

    def send(self, method: str, target: str, headers: Mapping[str, str], until: float) -> None:
        """Send a request.

        Raises:
            _ClosedError: the other side has closed the connection.
            AskError: it takes nothing in time.
        """
        said = {"Host": self._host, "Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "vfs", **headers}
        said |= self._through if self._target_root else {}
        lines = [
            f"{method} {self._target_root}{target} HTTP/1.1",
            *(f"{name}: {value}" for name, value in said.items()),
        ]
        self._send("\r\n".join([*lines, "", ""]).encode("latin-1"), until)

    def _send(self, data: bytes, until: float) -> None:
        while data:
            try:
                data = data[self._socket.send(data) :]
            except (BlockingIOError, ssl.SSLWantWriteError):
                self._ready(select.POLLOUT, until)
            except ssl.SSLWantReadError:
                self._ready(select.POLLIN, until)
            except OSError:
                raise _ClosedError from None

    def head(self, until: float) -> tuple[int, bool, Mapping[str, str], memoryview]:
        """Read the head of a reply. Returns (status, whether the connection lives on, headers, what came behind it).

        Raises:
            _ClosedError: nothing comes.
            AskError: nothing comes in time, or it is no HTTP.
        """
        came, memory = b"", memoryview(bytearray(1 << 12))
        while True:
            while (end := came.find(b"\r\n\r\n")) < 0:
                if len(came) > _HEAD or (came and not b"HTTP/1.".startswith(came[:7])):
                    raise AskError("the server answers with what is no HTTP")
                n = self.receive(memory, until, _NOBODY)
                if not n:
                    raise AskError("the connection broke", True) if came else _ClosedError
                came += memory[:n]
            first, *lines = came[:end].split(b"\r\n")
            found = _STATUS.match(first)
            if found is None:
                raise AskError("the server answers with what is no HTTP")
            status = int(found[2])
            if status >= 200 or status == 101:
                break
            came = came[end + 4 :]  # 100 Continue and such
        pairs = (line.decode("latin-1").partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        keeps = found[1] == b"1" and headers.get("connection", "").lower() != "close"
        return status, keeps, headers, memoryview(came)[end + 4 :]

    def receive(self, memory: memoryview, until: float, held: Any) -> int:
        """Read some bytes, see `WebReply.read_into`. Returns 0 if the other side has closed the connection.

        Raises:
            AskError: nothing comes in time, or the connection broke.
        """
        while True:
            try:
                with held:
                    return self._socket.recv_into(memory)
            except (BlockingIOError, ssl.SSLWantReadError):
                self._ready(select.POLLIN, until, len(memory))
            except ssl.SSLWantWriteError:
                self._ready(select.POLLOUT, until)
            except (ConnectionResetError, BrokenPipeError, ssl.SSLEOFError):
                return 0
            except OSError:
                raise AskError("the connection broke", True) from None

    def _ready(self, what: int, until: float, room: int = 1) -> None:
        """Wait until something can be sent or read: up to `_PIECE` of `room` bytes, which are less than are to come."""
        if self._plain:
            wanted = min(_PIECE, room) if room > _FEW else 1
            if wanted != self._wanted:
                self._wanted = wanted
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wanted)
        poll = select.poll()
        poll.register(self._socket, what)
        if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
            raise AskError("no answer in time", True)


class _Nobody:
    """Is held by nobody."""

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...


_NOBODY = _Nobody()


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


def _basic(proxy: Any) -> dict[str, str]:
    from base64 import b64encode
    from urllib.parse import unquote

    if proxy.username is None:
        return {}
    said = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {b64encode(said.encode()).decode()}"}
