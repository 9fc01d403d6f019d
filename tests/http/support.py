"""What the tests of the HTTP server share: a client of plain sockets, and one that needs no server."""

from __future__ import annotations

import asyncio
import http.client
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import uvicorn
from uvicorn.server import ServerState

from tests.waiting import PATIENCE, until
from vfs.contents.contents import Contents
from vfs.http.guard import Guard
from vfs.http.reads import Reads
from vfs.server.application import Application
from vfs.server.connection import Connection, Shared

CORS = "access-control-allow-origin"


class Reply(NamedTuple):
    """A response: its status, its headers by lower-case name, its body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Client:
    """A client of one server, with one connection.

    Args:
        url: the URL of the server, with the token.
    """

    def __init__(self, url: str) -> None:
        self.parts = urlsplit(url)
        self.connection = http.client.HTTPConnection(self.parts.hostname or "", self.parts.port, timeout=250)

    def raw(self, target: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Reply:
        """Ask for a target, as it is. Names of headers have _ for -."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.request(method, target, body, named)
        answer = self.connection.getresponse()
        body = answer.read()
        return Reply(answer.status, {name.lower(): value for name, value in answer.getheaders()}, body)

    def ask(self, key: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Reply:
        """Ask for a path of the contents."""
        return self.raw(self.parts.path + quote(os.fsencode(key)), method, body, **headers)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()


def connected(url: str) -> socket.socket:
    """A bare connection to a server."""
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname or "", parts.port or 0), timeout=250)


def everything(connection: socket.socket) -> bytes:
    """What comes until the other side closes the connection."""
    parts = []
    try:
        while part := connection.recv(1 << 16):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def memory_of(pid: int) -> int:
    """Bytes that a process holds in memory, without pages of files."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) << 10
    raise AssertionError


class Asgi:
    """Asks an `Application` without a server, in an event loop of the caller.

    Attributes:
        gone: set it, and the application is told that the client went away.
        sent: the messages that it has sent.
    """

    def __init__(
        self, application: Application, path: str, method: str = "GET", body: bytes = b"", **headers: str
    ) -> None:
        self.application = application
        path, _, query = path.partition("?")
        named = {b"host": b"localhost"} | {
            name.replace("_", "-").encode(): value.encode() for name, value in headers.items()
        }
        self.scope = {
            "type": "http",
            "method": method,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": list(named.items()),
            "client": ("127.0.0.1", 1),
        }
        self.given = body
        self.gone = asyncio.Event()
        self.sent: list[Any] = []
        self._asked = False

    async def receive(self) -> Any:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": self.given, "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    async def run(self) -> Asgi:
        await self.application(self.scope, self.receive, self.send)
        return self

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"]) if self.sent else 0

    @property
    def body(self) -> bytes:
        return b"".join(bytes(message["body"]) for message in self.sent[1:])

    @property
    def ended(self) -> bool:
        """True if the body was ended; else the server breaks the connection."""
        return bool(self.sent) and self.sent[-1].get("more_body") is False


def application_of(contents: Contents, workers: int = 2, **how: Any) -> Application:
    """An application without a token."""
    return Application(contents, Guard(""), Reads(workers), **how)


def look(shown: Contents, key: str) -> None:
    """Look at the files, as the first request does in a thread."""
    assert all(shown.faces[name] for name in shown.faces if ".ome." not in name)  # made when first asked for
    assert shown.at(key).version()
    assert shown.at_hand(key)


Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[Any]]


def talk(application: Application, to: Talk) -> Any:
    """Talk to a connection of the application over a socket."""

    async def run() -> Any:
        config = uvicorn.Config(application, ws="none", lifespan="off", log_config=None, access_log=False)
        config.load()
        state, loop = ServerState(), asyncio.get_running_loop()
        shared = Shared(application, lambda: b"")
        server = await loop.create_server(
            lambda: Connection(config=config, server_state=state, app_state={}, shared=shared), "127.0.0.1", 0
        )
        try:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            made = await asyncio.wait_for(to(reader, writer), 2 * PATIENCE)
            writer.close()
            await writer.wait_closed()
            await until(lambda: not state.connections and not state.tasks)
            return made
        finally:
            server.close()
            await server.wait_closed()
            shared.close()

    return asyncio.run(run())


async def answer(reader: asyncio.StreamReader, body: bool = True) -> tuple[int, bytes]:
    """Read one response."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.partition(b"content-length: ")[2].split()[0]) if b"content-length" in head else 0
    return int(head.split()[1]), await reader.readexactly(length if body else 0)


def request(key: str, method: str = "GET", more: str = "") -> bytes:
    return f"{method} /{key} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n".encode()


def waiting(application: Application) -> int:
    """Requests that wait for threads which read."""
    return sum(len(flight.waiting) for flight in application.reads._flights.values())


def reread(application: Application) -> None:
    """Let the server read files at the next request: the system may have taken them from its page cache, of which
    native answers come, and decoded pieces that are kept would be sent without reading them.
    """
    application.contents.cache.clear()


async def natively(
    application: Application, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: str
) -> tuple[int, bytes]:
    """Ask for a chunk until it is answered natively. Once, if nothing is."""
    if application.native is None:
        writer.write(request(key))
        return await answer(reader)
    while True:
        before = application.native.done[0]
        writer.write(request(key))
        got = await answer(reader)
        await asyncio.sleep(0.01)
        if application.native.done[0] > before:
            return got
        reread(application)
