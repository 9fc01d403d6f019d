"""What a connection does with requests that cannot be parsed, or do not end: no answer holds a part of another."""

from __future__ import annotations

import asyncio
import threading
from asyncio import StreamReader, StreamWriter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.http.support import answer, application_of, look, request, talk
from tests.waiting import until
from vfs.engine.cache import ChunkCache
from vfs.folder_tree.plans import folder
from vfs.server import connection, deciding
from vfs.server.application import Application
from vfs.server.connection import Connection
from vfs.testing.inside import set_of
from vfs.testing.writers import write_mib

VALUES = np.arange(24 * 16 * 32, dtype="u2").reshape(24, 16, 32)


@pytest.fixture
def application(tmp_path: Path) -> Application:
    path = write_mib(tmp_path, VALUES, scan=(4, 6))
    shown = folder([set_of(vfs.open_group(path, backend="buffered", chunks=(1, 6, -1, -1)))], ChunkCache())
    look(shown, "scan.npy")
    return application_of(shown)


GARBAGE = {
    "bytes": b"\x00\x01\r\n\r\n",
    "two hosts": request("metrics", more="Host: x\r\n"),
    "unknown coding": request("metrics", more="Transfer-Encoding: x\r\n"),
    "no length": request("metrics", "POST", "Content-Length: -1\r\n"),
    "long path": b"GET /" + b"a" * (80 << 10),
    "long head": b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * (80 << 8),
    "no chunk": request("api/stop/x", "POST", "Transfer-Encoding: chunked\r\n") + b"x\r\n",
    "no second chunk": request("api/stop/x", "POST", "Transfer-Encoding: chunked\r\n") + b"1\r\n \r\nx\r\n",
}


@pytest.mark.parametrize("garbage", GARBAGE)
def test_garbage_has_one_answer(application: Application, garbage: str) -> None:
    async def to(reader: StreamReader, writer: StreamWriter) -> bytes:
        writer.write(request("nothing"))
        assert (await answer(reader))[0] == 404
        writer.write(GARBAGE[garbage])
        return await reader.read()

    got = talk(application, to)
    assert got.count(b"HTTP/1.1") == 1
    assert got.split()[1] in (b"400", b"414", b"431")


@pytest.mark.parametrize("coding", ["no chunk", "no second chunk"])
def test_what_was_answered_before_its_body_broke_is_not_answered_again(application: Application, coding: str) -> None:
    async def to(reader: StreamReader, writer: StreamWriter) -> bytes:
        head, end, rest = GARBAGE[coding].replace(b"POST /api/stop/x", b"GET /metrics").partition(b"\r\n\r\n")
        writer.write(head + end)
        assert (await answer(reader))[0] == 200
        writer.write(rest)
        return await reader.read()

    assert talk(application, to) == b""


async def _whole(reader: StreamReader) -> bytes:
    """What comes until the connection ends, or breaks."""
    got = b""
    try:
        while part := await reader.read(1 << 16):
            got += part
    except ConnectionResetError:
        pass
    return got


@pytest.mark.parametrize("at", [1, 3])
@pytest.mark.parametrize("garbage", GARBAGE)
def test_garbage_behind_an_answer_under_way_breaks_the_connection(
    application: Application, monkeypatch: pytest.MonkeyPatch, garbage: str, at: int
) -> None:
    """Before the first byte of that answer, and in its middle, where a 400 would be a part of the file."""
    monkeypatch.setattr(deciding, "WHOLE", 1000)
    monkeypatch.setattr(deciding, "PART", 400)
    monkeypatch.setattr(application.decisions, "_at_hand", lambda *_: None)  # as if the bytes had to come from a disk
    reads, parsed = 0, threading.Event()
    take, refuse = application.decisions._take, Connection.send_400_response

    def read(*arguments: Any) -> memoryview:
        nonlocal reads
        reads += 1
        assert reads < at or parsed.wait(100)
        return take(*arguments)

    def told(self: Connection, message: str) -> None:
        refuse(self, message)
        parsed.set()

    monkeypatch.setattr(application.decisions, "_take", read)
    monkeypatch.setattr(Connection, "send_400_response", told)

    async def to(reader: StreamReader, writer: StreamWriter) -> bytes:
        writer.write(request("scan.npy"))
        await until(lambda: reads >= at)
        writer.write(GARBAGE[garbage])
        return await _whole(reader)

    got = talk(application, to)
    head, _, body = got.partition(b"\r\n\r\n")
    assert not got or head.startswith(b"HTTP/1.1 200")
    expected = application.contents.at("scan.npy").get()
    assert expected is not None
    assert bytes(expected).startswith(body)
    assert len(body) < expected.nbytes


BODY = "Content-Length: 60\r\n"
COMPUTE = "api/compute/scan.zarr/data"


@pytest.mark.parametrize("sent", [b"", b"{"])
def test_a_body_that_never_ends_is_cut_off(
    application: Application, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(connection, "SECONDS", 0.3)

    async def to(reader: StreamReader, writer: StreamWriter) -> tuple[list[tuple[int, bytes]], bytes]:
        writer.write(request(COMPUTE, "POST", BODY) + sent)
        return await answer(reader), await reader.read()

    (status, said), rest = talk(application, to)
    assert (status, rest) == (408, b"")
    assert said == b"expected the whole body within 0.3 seconds"
    assert not application.api._at_once._under_way


def test_a_body_that_nobody_waits_for_is_cut_off(application: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "SECONDS", 0.3)

    async def to(reader: StreamReader, writer: StreamWriter) -> bytes:
        writer.write(request("metrics", more=BODY))
        assert (await answer(reader))[0] == 200
        return await reader.read()

    assert talk(application, to) == b""


@pytest.mark.parametrize("slow", ["request", "answer"])
def test_what_the_server_is_slow_with_is_not_cut_off(
    application: Application, monkeypatch: pytest.MonkeyPatch, slow: str
) -> None:
    """The body of a request behind a slow one is not read; and an answer does not wait for a body nobody wants."""
    monkeypatch.setattr(connection, "SECONDS", 10.0)
    monkeypatch.setattr(deciding, "WHOLE", 1000)
    monkeypatch.setattr(deciding, "PART", 30_000)
    monkeypatch.setattr(application.decisions, "_at_hand", lambda *_: None)
    take, reads, ahead = application.decisions._take, 0, 0.0

    def read(*arguments: Any) -> memoryview:
        nonlocal reads, ahead
        reads += 1
        if reads == 2:
            ahead = 50.0  # it takes so many seconds
        return take(*arguments)

    monkeypatch.setattr(application.decisions, "_take", read)

    async def to(reader: StreamReader, writer: StreamWriter) -> bytes:
        loop = asyncio.get_running_loop()
        real = loop.time
        monkeypatch.setattr(loop, "time", lambda: real() + ahead)
        writer.write(request("scan.npy", more=BODY if slow == "answer" else ""))
        if slow == "request":
            writer.write(request("metrics", more=BODY))
        status, body = await answer(reader)
        assert status == 200
        if slow == "request":
            writer.write(b" " * 60)
            assert (await answer(reader))[0] == 200
        return body

    assert talk(application, to) == application.contents.at("scan.npy").get()
