"""What is at hand is answered in the connection, without ASGI: with the same answers, in the same order."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vfs
from tests.http.support import Asgi, answer, application_of, look, request, talk
from tests.waiting import until
from vfs.contents import face_folder
from vfs.engine.cache import ChunkCache
from vfs.faces.face import Face
from vfs.folder_tree.plans import folder
from vfs.http.answers import Reply, Work
from vfs.http.conditions import etag_of
from vfs.server import connection, deciding
from vfs.server.application import Application
from vfs.server.connection import Connection
from vfs.server.deciding import Decision, ForApi
from vfs.testing.inside import set_of
from vfs.testing.writers import write_mib

VALUES = np.arange(24 * 16 * 32, dtype="u2").reshape(24, 16, 32)
CHUNK = "scan.zarr/data/c/1/0/0/0"


@pytest.fixture(scope="module", autouse=True)
def _looked_at_for_long() -> Iterator[None]:
    """Files are not looked at again during a test, however slow the machine is: that would take a thread."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(face_folder.LOOKS, "least", 600.0)
        yield


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Application:
    """Serves a scan of four files, of which all were read once."""
    path = write_mib(tmp_path_factory.mktemp("scan"), VALUES, frames_per_file=6, scan=(4, 6))
    shown = folder([set_of(vfs.open_group(path, backend="buffered", chunks=(1, 6, -1, -1)))], ChunkCache())
    assert shown.at("scan.npy").get() is not None
    made = application_of(shown)
    look(shown, CHUNK)
    return made


FILES = [CHUNK, "scan.zarr/zarr.json", "scan.zarr/data/zarr.json", "scan.v2.zarr/data/3/0/0/0", "scan.npy"]
OTHERS: dict[str, int | type] = {  # status of the answer, or what must be done or asked before there is one
    "scan.v2.zarr/data/3.0.0.0": 422,
    "scan.zarr/data/c/4/0/0/0": 422,
    "scan.zarr/data": 301,
    "scan.zarr/": Work,
    "": Work,
    "api/set": ForApi,
    "metrics": 200,
    "assets/page.js": 200,
    "nothing": Work,  # a folder may have it by now
}
RANGES = [None, "bytes=0-9", "bytes=-5", "bytes=100-", "bytes=5000000-", "bytes=0-1,4-5", "lines=1-2"]


def decided(application: Application, key: str, method: str = "GET", **headers: str) -> Decision:
    named = {"host": "localhost"} | headers
    given_ = {name.replace("_", "-").encode(): value.encode() for name, value in named.items()}
    return application.decisions.decide(method, f"/{key}".encode(), given_).decision


def expected(size: int, etag: str, method: str, span: str | None, condition: str, tag: str) -> tuple[int, int, int]:
    """Status, first byte and byte behind the last one of the answer to a request for a file that is there."""
    if condition == "if_match" and tag != etag:
        return 412, 0, 0
    if condition == "if_none_match" and tag == etag:
        return 304, 0, 0
    if method == "HEAD" or span is None or (condition == "if_range" and tag != etag):
        return 200, 0, 0 if method == "HEAD" else size
    known = {"bytes=0-9": (0, 10), "bytes=-5": (max(0, size - 5), size), "bytes=100-": (100, size)}
    if span == "bytes=5000000-":
        return 416, 0, 0
    return (206, *known[span]) if span in known else (200, 0, size)


@given(
    key=st.sampled_from([*FILES, *OTHERS]),
    method=st.sampled_from(["GET", "HEAD", "POST", "OPTIONS"]),
    span=st.sampled_from(RANGES),
    condition=st.sampled_from(["", "if_none_match", "if_match", "if_range"]),
    right=st.booleans(),
    host=st.sampled_from(["localhost", "127.0.0.1:8000", "example.org"]),
)
def test_one_decision_for_every_request(
    application: Application, key: str, method: str, span: str | None, condition: str, right: bool, host: str
) -> None:
    look(application.contents, CHUNK)
    etag = etag_of(application.contents.at(key).version(), key).decode()
    tag = etag if right else '"other"'
    headers = {"host": host} | ({"range": span} if span else {}) | ({condition: tag} if condition else {})
    decision = decided(application, key, method, **headers)
    if host == "example.org" or method == "OPTIONS" or (method == "POST" and not key.startswith("api/")):
        assert isinstance(decision, Reply)
        assert decision.status == (400 if host == "example.org" else 200 if method == "OPTIONS" else 405)
    elif key in FILES:  # all of it is at hand
        assert isinstance(decision, Reply)
        whole = application.contents.at(key).get()
        assert whole is not None
        status, start, stop = expected(whole.nbytes, etag, method, span, condition, tag)
        assert decision.status == status
        if status < 400:
            assert bytes(decision.body) == whole[start:stop]
            assert (b"etag", etag.encode()) in decision.about
            kind = b"json" if key.endswith("zarr.json") else b"octet-stream"
            assert (b"content-type", b"application/" + kind) in decision.about
        if status in (200, 206):
            assert (b"content-length", b"%d" % (stop - start if method == "GET" else whole.nbytes)) in decision.about
    else:
        other = key == "assets/page.js" and condition == "if_match"
        assert (decision.status if isinstance(decision, Reply) else type(decision)) == (412 if other else OTHERS[key])


def test_what_the_page_cache_does_not_have_takes_a_thread(tmp_path: Path) -> None:
    path = write_mib(tmp_path, VALUES, scan=(4, 6))
    shown = folder([set_of(vfs.open_group(path, backend="buffered", chunks=(1, 1, -1, -1)))], ChunkCache())
    application = application_of(shown)
    look(shown, CHUNK)
    assert isinstance(decided(application, CHUNK), Work)  # no file is open yet
    assert shown.at("scan.zarr/data/c/0/0/0/0").get() is not None
    assert isinstance(decided(application, CHUNK), Reply)
    with (tmp_path / "scan.mib").open("rb+") as file:
        os.fsync(file.fileno())

        def takes_a_thread(key: str, **headers: str) -> bool:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            return isinstance(decided(application, key, **headers), Work)

        assert not takes_a_thread(CHUNK)  # this chunk is still kept
        # A read that may not wait begins one ahead in Linux 6, which sometimes ends before the pages are looked for
        assert any(takes_a_thread(CHUNK.replace("c/1/0", f"c/2/{k}")) for k in range(6))
        assert any(takes_a_thread("scan.npy", range=f"bytes={k}-{k + 9}") for k in range(9000, 24000, 2048))
    assert isinstance(decided(application, "scan.npy", range="bytes=0-9"), Reply)  # its header


def test_a_source_that_broke_is_an_error(tmp_path: Path) -> None:
    path = write_mib(tmp_path, VALUES, scan=(4, 6))
    shown = folder([set_of(vfs.open_group(path, backend="buffered", chunks=(1, 6, -1, -1)))], ChunkCache())
    application = application_of(shown)
    assert shown.at(CHUNK).get() is not None
    look(shown, CHUNK)
    data = tmp_path / "scan.mib"
    os.truncate(data, data.stat().st_size - 1)
    other = CHUNK.replace("/1/", "/3/")  # of the first one the bytes are still kept
    assert isinstance(decided(application, other), Work)
    assert application.tally.errors == 0
    assert asyncio.run(Asgi(application, f"/{other}").run()).status == 422
    assert application.tally.errors == 1


def test_requests_in_one_go_are_answered_in_order(application: Application) -> None:
    """Those that need ASGI stand between those that do not."""
    one = VALUES.reshape(4, 6, 16, 32)[1].tobytes()
    asked = [
        (request(CHUNK), (200, one)),
        (request("nothing"), (404, b"nothing is called nothing\n")),
        (request(CHUNK, more="Range: bytes=4-7\r\n"), (206, one[4:8])),
        (request("metrics", "HEAD"), (200, b"")),
        (request(CHUNK, "HEAD"), (200, b"")),
        (request(CHUNK, more="Content-Length: 3\r\n") + b"abc", (200, one)),
        (request(CHUNK), (200, one)),
    ] * 30

    async def to(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> list[tuple[int, bytes]]:
        writer.write(b"".join(each for each, _ in asked))
        return [await answer(reader, body=not each.startswith(b"HEAD")) for each, _ in asked]

    look(application.contents, CHUNK)
    assert talk(application, to) == [expected for _, expected in asked]


def test_headers_that_repeat_are_parsed_once(application: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = []
    complete = Connection.on_headers_complete
    monkeypatch.setattr(
        Connection, "on_headers_complete", lambda self: (parsed.append(self.url), complete(self))[1], raising=True
    )
    keys = [CHUNK, "scan.zarr/data/c/0/0/0/0", "nothing", CHUNK, "scan.v2.zarr/data/3/0/0/0", CHUNK]

    async def to(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> list[tuple[int, bytes]]:
        got = []
        for key in keys:
            writer.write(request(key))
            got.append(await answer(reader))
        return got

    look(application.contents, CHUNK)
    stored = {f"scan.zarr/data/c/{n}/0/0/0": part.tobytes() for n, part in enumerate(VALUES.reshape(4, 6, 16, 32))}
    stored["scan.v2.zarr/data/3/0/0/0"] = stored["scan.zarr/data/c/3/0/0/0"]
    missing = (404, b"nothing is called nothing\n")
    assert talk(application, to) == [(200, stored[key]) if key in stored else missing for key in keys]
    assert parsed == [f"/{CHUNK}".encode(), b"/nothing"]


def test_what_only_looks_like_a_repeated_request_is_parsed(application: Application) -> None:
    one = VALUES.reshape(4, 6, 16, 32)[1].tobytes()
    plain = request(CHUNK)
    whole, refused = (200, one), (400, b"the Host header names nothing")
    talks: list[list[tuple[list[bytes], tuple[int, bytes]]]] = [
        # a body that comes by itself and reads like a request
        [
            ([plain], whole),
            ([request(CHUNK, more=f"Content-Length: {len(plain)}\r\n"), plain], whole),
            ([plain], whole),
        ],
        # heads in pieces, of which the last ends with the headers that are known
        [([plain], whole), ([b"GET /nothing HTTP/1.1\r\nX: ", plain], (404, b"nothing is called")), ([plain], whole)],
        [([b"GET /metr", request("")[5:]], (404, b"nothing is called metr")), ([plain], whole)],
        [
            ([plain.split(b"Host")[0] + b"Range: bytes=0-3\r\nX: ", plain], (206, one[:4])),
            ([plain], whole),
            ([plain[:-2] + b"host: localhost\r\n\r\n"], (400, b"The request has several Host headers.")),
        ],
        [([b"\r\n" + plain], whole), ([plain.split(b"Host")[0] + plain], (400, b"Invalid HTTP"))],
        # headers that are not all of them
        [([plain[:-2] + b"A: 1\r\n", b"B: 2\r\n\r\n"], whole), ([plain.split(b"Host")[0] + b"B: 2\r\n\r\n"], refused)],
        [
            ([plain], whole),
            ([plain.replace(b"localhost", b"example.org")], (400, b"the Host header names example.org")),
        ],
        # request lines that no parser lets through
        [([plain], whole), ([plain.replace(b"HTTP/1.1", b"HTTP/1.2 ")], (400, b"Invalid HTTP"))],
        [([plain], whole), ([plain.replace(b"/1/", b"/\x01/")], (400, b""))],
    ]
    for turns in talks:

        async def to(
            reader: asyncio.StreamReader,
            writer: asyncio.StreamWriter,
            turns: list[tuple[list[bytes], tuple[int, bytes]]] = turns,
        ) -> None:
            for parts, (status, body) in turns:
                for part in parts:
                    writer.write(part)
                    await asyncio.sleep(0.05)  # so that parts come apart
                got = await answer(reader)
                assert (got[0], got[1][: len(body)]) == (status, body), parts
            with suppress(TimeoutError):
                assert await asyncio.wait_for(reader.read(1), 0.1) == b""  # nothing else was answered

        look(application.contents, CHUNK)
        talk(application, to)


@pytest.fixture(scope="module")
def flat_faces(tmp_path_factory: pytest.TempPathFactory) -> list[Face]:
    """The .npy faces of a scan of four files, opened in several ways, of which all was read once."""
    path = write_mib(tmp_path_factory.mktemp("scan"), VALUES, frames_per_file=6, scan=(4, 6))
    ways: list[dict[str, Any]] = [
        {},
        {"dtype": "f4"},
        {"sync_offset": -3},
        {"sync_offset": 3},
        {"nav_shape": (5, 2)},
        {"nav_shape": (30,)},
        {"flip_y": True},
        {"roi": [3, 1, 20]},
    ]
    faces = []
    for how in ways:
        shown = folder([set_of(vfs.open_group(path, backend="buffered", **how))], ChunkCache())
        faces.append(shown.faces["scan.npy"])
        faces[-1].get("")
    return faces


@given(data=st.data())
def test_parts_of_a_flat_file_are_those_of_the_whole(flat_faces: list[Face], data: st.DataObject) -> None:
    which = data.draw(st.integers(0, len(flat_faces) - 1))
    face = flat_faces[which]
    node = face.node("")
    assert node is not None
    start = data.draw(st.integers(0, node.size))
    stop = data.draw(st.integers(start, node.size))
    got, whole = face.at_once("", start, stop), face.get("", start, stop)
    assert got is None or got == whole
    if which < 2:  # all frames are stored, each as it is shown
        assert got is not None


def test_a_client_that_does_not_read_is_not_answered_at_once(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it asked for waits in memory, which a client could fill."""
    replies = 0
    real = application.decisions.decide

    def counted(*arguments: Any) -> Any:
        nonlocal replies
        replies += 1
        return real(*arguments)

    monkeypatch.setattr(application.decisions, "decide", counted)
    many, one = 20_000, VALUES.reshape(4, 6, 16, 32)[1].tobytes()

    async def to(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        full = asyncio.Event()
        pause = Connection.pause_writing
        monkeypatch.setattr(Connection, "pause_writing", lambda of: (pause(of), full.set()))
        writer.write(request(CHUNK) * many)
        await full.wait()
        for _ in range(1000):  # all that could be answered meanwhile
            await asyncio.sleep(0)
        assert 0 < replies < many // 2
        for _ in range(many):
            assert await answer(reader) == (200, one)

    look(application.contents, CHUNK)
    talk(application, to)


def test_a_client_that_goes_away_leaves_all_its_requests(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the one that is being answered while others wait behind it."""
    monkeypatch.setattr(deciding, "WHOLE", 1000)
    monkeypatch.setattr(deciding, "PART", 100)
    monkeypatch.setattr(application.decisions, "_at_hand", lambda *_: None)  # as if the bytes had to come from a disk
    reads, gone = 0, threading.Event()
    take, lost = application.decisions._take, Connection.connection_lost

    def read(*arguments: Any) -> memoryview:
        nonlocal reads
        reads += 1
        if reads == 3:
            assert gone.wait(100)
        return take(*arguments)

    def leave(self: Connection, error: Exception | None) -> None:
        lost(self, error)
        gone.set()

    monkeypatch.setattr(application.decisions, "_take", read)
    monkeypatch.setattr(Connection, "connection_lost", leave)

    async def to(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(request("scan.npy") * 3)
        await until(lambda: reads >= 3)
        writer.transport.abort()

    talk(application, to)
    assert reads < 10


def test_a_connection_that_rests_is_closed(application: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "KEPT", 10.0)

    async def to(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        loop, ahead = asyncio.get_running_loop(), 0.0
        real = loop.time
        monkeypatch.setattr(loop, "time", lambda: real() + ahead)
        for key in (CHUNK, "metrics", CHUNK):
            ahead += 7  # each request comes in time, since the one before counts
            writer.write(request(key))
            assert (await answer(reader))[0] == 200
        assert not reader.at_eof()
        ahead += 10
        return await reader.read()

    assert talk(application, to) == b""
