"""Serves a folder over HTTP with ranges of bytes, as a store of objects does: late, or wrongly, if a test wants that.

    with RangeServer(folder, latency=0.02) as server:
        vfs.open(f"{server.url}/scan.hdr")
        server.asked        # what was asked for

Every connection has a thread, and bodies go from the file to the socket without Python's help, so that the server is
no bottleneck for what is measured with it.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from html import escape
from pathlib import Path
from types import TracebackType
from typing import BinaryIO
from urllib.parse import parse_qsl, quote, unquote

_PACED = 1 << 16
"""Bytes after which a paced server waits, at least."""
_PAUSES = 4096
"""How often a paced server waits in a second, at most."""
_HEAD_MOST = 1 << 16
_RANGE = re.compile(r"bytes=(\d*)-(\d*)$")
_WORDS = {200: "OK", 206: "Partial Content", 404: "Not Found", 416: "Range Not Satisfiable", 503: "Unavailable"}


@dataclass
class ServedRequest:
    """What was asked for, and what was answered.

    Attributes:
        method, path: GET or HEAD, and the path without quoting.
        query: what follows the question mark.
        headers: names in lower case.
        first, last: bytes that were asked for, `last` not included; None without a range. A negative `first` counts
            from the end.
        number: how many requests came before.
        sent: bytes of the body that were sent.
        body: what came with it.
    """

    method: str
    path: str
    headers: dict[str, str]
    first: int | None = None
    last: int | None = None
    number: int = 0
    sent: int = 0
    query: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass
class OtherReply:
    """An answer instead of the right one.

    Attributes:
        status, headers: as sent.
        body: pieces of the body. They may be endless.
        closes: the connection is closed behind it.
        resets: it is closed so that the other side sees a reset.
    """

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: Iterable[bytes] = ()
    closes: bool = False
    resets: bool = False


class RangeServer:
    """A server on 127.0.0.1, for as long as `with` lasts.

    Args:
        folder: what it serves. Files may change meanwhile.
        latency: seconds that every request waits for its answer.
        tags: it says an ETag for each file; else only Last-Modified.
        lists: it answers a folder with a page of links.
        rate: bytes a second that all connections share; 0: no limit.

    Attributes:
        url: without a slash at the end.
        asked: all requests, in the order in which they came; most_at_once: how many were answered at the same time.
        connected: connections that were made.
        hook: makes another reply than the right one, or changes the request; None: the right one.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        latency: float = 0.0,
        *,
        tags: bool = True,
        lists: bool = True,
        rate: float = 0.0,
    ) -> None:
        self.folder = Path(folder)
        self.latency = latency
        self.tags = tags
        self.lists = lists
        self.rate = rate
        self._free_at = 0.0
        self.asked: list[ServedRequest] = []
        self.connected = 0
        self.most_at_once = self._now = 0
        self.hook: Callable[[ServedRequest], OtherReply | None] | None = None
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()

    def __enter__(self) -> RangeServer:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with self._lock:
            for one in self._open:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    @property
    def sent(self) -> int:
        """Bytes of bodies that were sent so far."""
        return sum(request.sent for request in self.asked)

    def _accept(self) -> None:
        while True:
            try:
                one, _ = self._socket.accept()
            except OSError:
                return
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._open.add(one)
                self.connected += 1
            threading.Thread(target=self._talk, args=(one,), daemon=True).start()

    def _talk(self, one: socket.socket) -> None:
        try:
            with one, one.makefile("rb") as stream, suppress(OSError):
                while (request := _parsed(stream)) is not None:
                    with self._lock:
                        request.number = len(self.asked)
                        self.asked.append(request)
                        self._now += 1
                        self.most_at_once = max(self.most_at_once, self._now)
                    try:
                        time.sleep(self.latency)
                        if not self._answer(one, request):
                            return
                    finally:
                        with self._lock:
                            self._now -= 1
        finally:
            with self._lock:
                self._open.discard(one)

    def _answer(self, one: socket.socket, request: ServedRequest) -> bool:
        """Answer a request. Returns False if the connection ends with it."""
        reply = self.hook(request) if self.hook else None
        if reply is not None:
            return _send(one, request, reply)
        path = (self.folder / request.path.lstrip("/")).resolve()
        if path.is_dir() and self.lists:
            return _send(one, request, _plain(200, self._listing(path), "text/html"))
        try:
            with open(path, "rb") as file:
                return self._send_file(one, request, file)
        except OSError:
            return _send(one, request, _plain(404, b"no such file"))

    def _send_file(self, one: socket.socket, request: ServedRequest, file: BinaryIO) -> bool:
        found = os.fstat(file.fileno())
        first, last = request.first or 0, found.st_size if request.last is None else min(request.last, found.st_size)
        first = max(0, first + found.st_size) if first < 0 else first
        headers = {"Accept-Ranges": "bytes", "Last-Modified": formatdate(found.st_mtime, usegmt=True)}
        if self.tags:
            headers["ETag"] = f'"{found.st_mtime_ns:x}-{found.st_size:x}"'
        if request.first is not None:
            if first >= found.st_size:
                return _send(one, request, _plain(416, b"no such bytes"))
            headers["Content-Range"] = f"bytes {first}-{last - 1}/{found.st_size}"
        headers["Content-Length"] = str(last - first)
        one.sendall(_head(200 if request.first is None else 206, headers))
        if request.method != "HEAD" and last > first:
            piece = max(_PACED, int(self.rate) // _PAUSES) if self.rate else last - first
            for at in range(first, last, piece):
                request.sent += one.sendfile(file, at, min(piece, last - at))
                self._wait(piece)
        return True

    def _wait(self, nbytes: int) -> None:
        """Wait as long as a line of `rate` takes for so many bytes, behind those of all others."""
        if self.rate:
            with self._lock:
                self._free_at = max(self._free_at, time.monotonic()) + nbytes / self.rate
                until = self._free_at
            time.sleep(max(0.0, until - time.monotonic()))

    def _listing(self, folder: Path) -> bytes:
        names = [f"{path.name}/" if path.is_dir() else path.name for path in sorted(folder.iterdir())]
        links = "".join(f'<a href="{quote(name)}">{escape(name)}</a>\n' for name in names)
        return f'<html><body><a href="../">..</a>\n{links}</body></html>'.encode()


def _parsed(stream: BinaryIO) -> ServedRequest | None:
    """Read the head of a request; None where the other side has gone."""
    lines: list[str] = []
    while line := stream.readline(_HEAD_MOST):
        if line in (b"\r\n", b"\n"):
            break
        lines.append(line.decode("latin-1").rstrip())
    if not lines:
        return None
    method, target, *_ = lines[0].split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in lines[1:])}
    path, _, query = target.partition("?")
    request = ServedRequest(method, unquote(path), headers, query=dict(parse_qsl(query, keep_blank_values=True)))
    request.body = stream.read(int(headers.get("content-length", 0)))
    wanted = _RANGE.match(headers.get("range", ""))
    if wanted and wanted[1]:
        request.first = int(wanted[1])
        request.last = int(wanted[2]) + 1 if wanted[2] else None
    elif wanted and wanted[2]:
        request.first = -int(wanted[2])
    return request


def _plain(status: int, body: bytes, kind: str = "text/plain") -> OtherReply:
    return OtherReply(status, {"Content-Type": kind, "Content-Length": str(len(body))}, [body])


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {_WORDS.get(status, 'Status')}", *(f"{k}: {v}" for k, v in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _send(one: socket.socket, request: ServedRequest, reply: OtherReply) -> bool:
    if reply.status:
        one.sendall(_head(reply.status, reply.headers))
    if request.method != "HEAD":
        for piece in reply.body:
            one.sendall(piece)
            request.sent += len(piece)
    if reply.resets:  # data that nobody reads makes the kernel reset the connection, as SO_LINGER 0 does
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    return not (reply.closes or reply.resets)


def main() -> None:
    """Serve a folder until the process that started this one ends. The URL is written to a file, and printed.

    Arguments: the folder, the file, seconds that every request waits (0), and bytes a second (0: no limit).
    """
    folder, to, latency, rate = [*sys.argv[1:], "0", "0"][:4]
    parent = os.getppid()
    with RangeServer(folder, float(latency), rate=float(rate)) as server:
        Path(to).write_text(server.url)
        print(server.url, flush=True)
        while os.getppid() == parent:
            time.sleep(0.2)


if __name__ == "__main__":
    main()
