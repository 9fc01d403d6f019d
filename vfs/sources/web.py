"""Asks web servers for ranges of bytes of files, over connections that are kept: HTTP/1.1, with and without TLS.

`vfs.sources.web_connection` speaks with them. A body must have the length that the
server announces and the reader asked for, and come before a deadline. Error pages are not read. A redirect to another
server is followed only if the set may use files anywhere.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from email.utils import parsedate_to_datetime
from functools import lru_cache
from http.client import HTTPResponse
from typing import Any
from urllib.parse import quote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from vfs.errors import OutsideError, printable
from vfs.model.file_state import FileState
from vfs.sources.boundary import reads_outside
from vfs.sources.urls import InStore, Queries, login, place
from vfs.sources.web_connection import AskError, ClosedError, WebConnection

_HOPS = 5
"""Times that a server may lead to another URL."""
_IDLE = 20.0
"""Seconds after which a connection is not used again: servers close those that nobody used for a while."""
_LEADS = {301, 302, 303, 307, 308}
_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)$", re.IGNORECASE)
_NO_RANGE = re.compile(r"bytes \*/(\d{1,18})$", re.IGNORECASE)
_SENT = "/%:@!$&'()*+,;=~?[]"
"""Characters that stay as they are in what servers and users give as quoted."""
_OTHER_BYTES = "the server answers with other bytes than those asked for"
_SECONDS = re.compile(r"[0-9]{1,6}$")


class Web:
    """Connections to web servers, of this process.

    Args:
        wait: seconds for a request with its body; connect: seconds until a connection stands, at most.
        headers: that are sent with each request to the servers that sets name.
        anywhere: servers may lead to others.
        queries: what is sent behind the paths of URLs.
    """

    def __init__(
        self, wait: float, connect: float, headers: Mapping[str, str], anywhere: bool, queries: Queries
    ) -> None:
        self._queries = queries
        self._wait, self._connect, self._anywhere = wait, connect, anywhere
        self._headers = dict(headers)
        self._free: dict[tuple[str, str], list[WebConnection]] = {}
        self._proxies: dict[str, str] = {}
        self._lengths: dict[str, tuple[FileState, int]] = {}  # name -> what a reply said of a file, and its bytes

    def state(self, name: str) -> FileState:
        """Look at a file, by its first byte.

        What servers say to HEAD is often something else: 403 of a URL that is signed for GET, the length of a packed
        file, a weak tag or one that ends with `-gzip`.

        Raises: what `get` raises.
        """
        try:
            with self.get(name, 0, 1) as reply:
                reply.read_into(memoryview(bytearray(1)), nullcontext())
                return reply.now
        except AskError as error:
            if error.status == 416:  # it has no first byte
                return FileState(0)
            raise

    def get(self, name: str, start: int, stop: int) -> WebReply:
        """Ask for bytes of a file. Returns the reply, of which the body has yet to be read; it may have fewer bytes.

        Raises:
            FileNotFoundError: it does not exist.
            OutsideError: the server leads to another one.
            AskError: anything else.
        """
        try:
            reply = self._ask(name, "GET", start, stop)
        except AskError as error:
            if error.status != 416 or not start < error.size < stop:
                raise
            reply = self._ask(name, "GET", start, error.size)  # it answers only where the range ends in the file
        try:
            first, last, size = self._bytes_of(name, reply, stop)
            if first != start or not first < last <= min(stop, size):
                raise AskError(_OTHER_BYTES)
            reply.now, reply.stop = reply.state(size), last
            reply.left = last - first if reply.length < 0 else min(reply.length, last - first)
            reply.more = reply.length > last - first
        except BaseException:
            reply.drop()
            raise
        return reply

    def _bytes_of(self, name: str, reply: WebReply, stop: int) -> tuple[int, int, int]:
        """Return which bytes of a file a reply has: the first one, their end, and bytes of the file.

        Raises:
            AskError: it has bytes that nobody asked for, or does not say which.
        """
        if reply.status == 200:
            if reply.length == 0:
                raise AskError("", status=416)  # some servers say so of an empty file
            if reply.length < 0:
                raise AskError("the server does not say how long its answer is")
            if reply.length > stop:
                raise AskError("the server does not serve ranges of bytes; copy the file, or use another server")
            return 0, reply.length, reply.length
        found = _RANGE.match(reply.headers.get("content-range", ""))
        if found is None or reply.headers.get("content-type", "").lower().startswith("multipart/"):
            raise AskError(_OTHER_BYTES)
        size = self._length(name, reply) if found[3] == "*" else int(found[3])
        return int(found[1]), int(found[2]) + 1, size

    def _length(self, name: str, reply: WebReply) -> int:
        """Return the bytes of a file whose server does not say them beside a range: it says them to HEAD.

        Raises:
            AskError: it does not.
        """
        said = reply.state(0)
        known = self._lengths.get(name)
        if known is None or known[0] != said:
            with self._ask(name, "HEAD") as whole:
                known = self._lengths[name] = said, whole.length
        if known[1] < 0:
            raise AskError("the server does not say how long the file is")
        return known[1]

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
        query = self._queries.of(name)
        target = f"/{quote(where.path)}?{quote(query, safe=_SENT)}" if query else f"/{quote(where.path)}"
        for _ in range(_HOPS + 1):
            reply = self._answered(where, target, method, headers, (start, stop), until)
            if reply.status not in _LEADS or "location" not in reply.headers:
                break
            reply.drop()
            where, target, same = self._led(name, where, target, reply.headers["location"])
            headers = headers if same else accepted
        else:
            raise AskError("the server redirects in a circle")
        if reply.status in (200, 206):
            if reply.headers.get("content-encoding", "identity").lower() not in ("identity", ""):
                reply.drop()
                raise AskError(
                    "the server compresses its answers (Content-Encoding), so no ranges of bytes can be read"
                )
            return reply
        reply.drop()
        if reply.status in (404, 410):
            raise FileNotFoundError(name)
        later, size = reply.headers.get("retry-after", ""), _NO_RANGE.match(reply.headers.get("content-range", ""))
        pause = int(later) if _SECONDS.match(later) else 0
        raise AskError("", status=reply.status, pause=pause, size=int(size[1]) if size else -1)

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
        path = quote(url.path or "/", safe=_SENT)  # as the server quotes it, which may be signed
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
            kept = self._unused((where.root, proxy))
            one = kept or WebConnection(where.root, proxy, min(until, time.monotonic() + self._connect))
            try:
                answer = one.ask(method, target, {**more, **headers}, until)
            except ClosedError:
                one.close()
                if kept is None:
                    raise AskError("the connection broke", True) from None
                continue
            except BaseException:
                one.close()
                raise
            back = None if answer.will_close else self._free.setdefault((where.root, proxy), []).append
            return WebReply(one, answer, until, back, method == "HEAD", where.root + target)

    def _unused(self, key: tuple[str, str]) -> WebConnection | None:
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
        now: what the file is, as the reply says; stop: end of the bytes of the file that it has.
        left: bytes of the body that are wanted and have yet to come.
        more: the server says that it sends more than that.
    """

    def __init__(
        self,
        connection: WebConnection,
        answer: HTTPResponse,
        until: float,
        back: Callable[[WebConnection], None] | None,
        empty: bool,
        url: str,
    ) -> None:
        self.url, self.status = url, answer.status
        self.headers = {name.lower(): value for name, value in answer.headers.items()}
        said = self.headers.get("content-length", "")
        sized = said.isdecimal() and len(said) < 19 and "transfer-encoding" not in self.headers
        self.length = int(said) if sized else -1
        self.now, self.stop, self.left, self.more = FileState(-1), 0, 0 if empty else -1, False
        self._connection, self._answer, self._until, self._back = connection, answer, until, back

    def __enter__(self) -> WebReply:
        return self

    def __exit__(self, *error: object) -> None:
        if self._back is None or self.left or self.more or (self.stop and self.length < 0):
            self.drop()  # also where nothing says where its body ends
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
