"""Threads without the interpreter answer requests for chunks as all other code does, and leave the rest to it."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.http.support import Asgi, answer, application_of, look, natively, request, reread, talk
from tests.waiting import until
from vfs.contents import face_folder
from vfs.contents.contents import Contents
from vfs.contents.shown import InFace
from vfs.engine.cache import ChunkCache
from vfs.faces.face import ZarrFace
from vfs.folder_tree.plans import folder, folder_tree
from vfs.http.answers import CLOSING
from vfs.http.conditions import etag_of, split
from vfs.http.guard import Guard
from vfs.http.persons import Person
from vfs.http.reads import Reads
from vfs.model.file_state import FileState
from vfs.server import connection, native, native_tables
from vfs.server.application import AnswerHow, Application
from vfs.testing.inside import set_of
from vfs.testing.writers import write_mib

VALUES = np.arange(24 * 64 * 32, dtype="u2").reshape(24, 64, 32)
Reader, Writer = asyncio.StreamReader, asyncio.StreamWriter


@pytest.fixture(scope="module", autouse=True)
def _looked_at_for_long() -> Iterator[None]:
    """Files are not looked at again during a test, however slow the machine is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(face_folder.LOOKS, "least", 600.0)
        yield


def contents_of(path: Path, **how: Any) -> Contents:
    """The contents of a server of one set, of which all was read once: its files are open and in the page cache."""
    cache = ChunkCache()
    shown = folder([set_of(vfs.open_group(path, backend="buffered", cache=cache, **how))], cache)
    for name, face in shown.faces.items():
        if isinstance(face, ZarrFace):
            for key in face.keys(""):
                shown.at(f"{name}/{key}").get()
            look(shown, f"{name}/zarr.json")
    shown.cache.clear()
    return shown


def test_a_connection_is_lent_to_one_person(tmp_path: Path) -> None:
    """Threads know the token of who asks on a connection, and no other; what they know of arrays goes for all."""
    path, how = raw(tmp_path, chunks=(2, -1, -1))
    ada, ben = Person("ada", "token_of_ada.~~~~~~"), Person("ben", "token_of_ben.~~~~~~")
    application = Application(contents_of(path, **how), Guard((ada, ben)), Reads(2))

    async def to(reader: Reader, writer: Writer) -> None:
        for _ in range(2):
            for person in (ada, ben):
                got = await natively(application, reader, writer, f"t/{person.token}/scan.zarr/data/c/3/0/0")
                assert got == (200, VALUES[6:8].tobytes())
        writer.write(request(f"t/{ben.token[:-1]}x/scan.zarr/data/c/3/0/0"))
        assert (await answer(reader))[0] == 401
        assert application.native is not None
        assert len(application.native._sources) == 1

    talk(application, to)


def test_chunks_and_documents_may_be_cached(tmp_path: Path) -> None:
    """As the server was told, however they are answered; and nothing else may."""
    path, how = raw(tmp_path, chunks=(2, -1, -1))
    application = application_of(contents_of(path, **how), how=AnswerHow(caching=b"public, max-age=60"))
    heads: dict[str, list[bytes]] = {}

    async def to(reader: Reader, writer: Writer) -> None:
        chunk = "scan.zarr/data/c/3/0/0"
        await natively(application, reader, writer, chunk)
        for key in (
            chunk,
            "scan.zarr/zarr.json",
            "scan.npy",
            "scan.zarr/nope",
            "scan.zarr/data/c/99/0/0",
            "scan.zarr/",
        ):
            writer.write(request(key))
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            await reader.readexactly(int(head.partition(b"content-length: ")[2].split()[0]))
            heads[key] = [line for line in head.split(b"\r\n") if line.startswith(b"cache-control")]

    talk(application, to)
    kept, asked = [b"cache-control: public, max-age=60"], [b"cache-control: private, no-cache"]
    assert list(heads.values()) == [kept, kept, kept, asked, asked, asked]


def raw(folder: Path, values: np.ndarray = VALUES, **how: Any) -> tuple[Path, dict[str, Any]]:
    path = folder / "scan.raw"
    values.tofile(path)
    return path, {"format": "raw", "dtype": values.dtype.str, "sig_shape": values.shape[1:], **how}


WAYS: dict[str, Callable[[Path], tuple[Path, dict[str, Any]]]] = {
    "read": lambda at: raw(at, chunks=(2, -1, -1)),
    "mapped": lambda at: raw(at, np.arange(12 * 256 * 128, dtype="f4").reshape(12, 256, 128), chunks=(2, -1, -1)),
    "mapped at odd bytes": lambda at: raw(
        at, np.arange(12 * 255 * 129, dtype="u2").reshape(12, 255, 129), chunks=(3, -1, -1)
    ),
    "scan": lambda at: raw(at, nav_shape=(4, 6), chunks=(2, 6, -1, -1)),
    "offset": lambda at: raw(at, sync_offset=5, chunks=(2, -1, -1)),
    "swapped": lambda at: raw(at, VALUES.astype(">u2"), chunks=(5, -1, -1)),
    "gaps": lambda at: raw(
        at,
        np.arange(20 * 80 * 32, dtype="u2").reshape(20, 80, 32),
        sig_shape=(70, 32),
        frame_header=300,
        frame_footer=340,
        chunks=(5, -1, -1),
    ),
    "converted": lambda at: (write_mib(at, VALUES), {"nav_shape": (24,), "chunks": (3, -1, -1), "dtype": "f4"}),
    "mirrored": lambda at: (write_mib(at, VALUES), {"nav_shape": (24,), "chunks": (3, -1, -1), "flip_y": True}),
    "MIB": lambda at: (write_mib(at, VALUES, frames_per_file=6), {"nav_shape": (24,), "chunks": (3, -1, -1)}),
    "R64": lambda at: (
        write_mib(at, VALUES & 4095, kind="R64", depth=12),
        {"nav_shape": (24,), "chunks": (4, -1, -1)},
    ),
    "4 chips": lambda at: (
        write_mib(at, VALUES & 63, kind="R64", depth=6, quad=True),
        {"nav_shape": (24,), "chunks": (4, -1, -1)},
    ),
    "cut frames": lambda at: raw(at, chunks=(2, 32, -1)),
}


@pytest.mark.parametrize("piece", [1 << 20, 1])
@pytest.mark.parametrize("way", WAYS)
def test_all_chunks_are_those_of_asgi(tmp_path: Path, way: str, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vfs.engine.chunk_plan.PIECE", piece)
    path, how = WAYS[way](tmp_path)
    shown = contents_of(path, **how)
    application = application_of(shown)
    keys = [
        f"{name}/{key}"
        for name, face in shown.faces.items()
        if isinstance(face, ZarrFace)
        for key in face.keys("data/")
        if key not in face.documents
    ]

    async def to(reader: Reader, writer: Writer) -> None:
        assert application.native is not None
        for first in {key.partition("/")[0]: key for key in reversed(keys)}.values():
            if way != "cut frames":
                await natively(application, reader, writer, first)
        before = application.native.done
        whole = 0
        for key in keys:
            expected = await Asgi(application, f"/{key}").run()
            writer.write(request(key))
            head = await reader.readuntil(b"\r\n\r\n")
            status, *lines = head.decode().splitlines()[:-1]
            assert status == "HTTP/1.1 200 OK"
            headers = {name.decode(): value.decode() for name, value in expected.sent[0]["headers"]}
            assert dict(line.split(": ", 1) for line in lines) == headers
            body = await reader.readexactly(int(headers["content-length"]))
            assert body == expected.body
            whole += len(body)
        native = application.native
        if way == "cut frames":
            assert native.done[0] == 0
        elif way not in ("offset", "swapped"):  # whose last chunks are cut, or hold blank frames
            await until(lambda: native.done == (before[0] + len(keys), before[1] + whole))
        else:
            await until(lambda: native.done[0] > before[0])
            assert native.done[0] < before[0] + len(keys)
        assert application.done.bytes == application.tally.bytes + native.done[1]

    talk(application, to)


@pytest.mark.parametrize("native", [True, False])
def test_the_rest_is_left_to_others(tmp_path: Path, native: bool) -> None:
    path, how = raw(tmp_path, nav_shape=(4, 6), chunks=(1, 6, -1, -1))
    application = application_of(contents_of(path, **how), natively=native)
    rows = [row.tobytes() for row in VALUES.reshape(4, 6, 64, 32)]
    key = "scan.zarr/data/c/{}/0/0/0".format
    none = (422, b"")  # they look like chunks, and are none
    asked: list[tuple[list[bytes], list[tuple[int, bytes]]]] = [
        ([request(key(1), "HEAD")], [(200, b"")]),
        ([request(key(1), more="Range: bytes=5-9\r\n")], [(206, rows[1][5:10])]),
        ([request("scan.zarr/data/zarr.json")], [(200, b"{")]),
        ([request("scan.npy")], [(200, b"\x93NUMPY")]),
        *[([request(key(number))], [none]) for number in ("4", "01", "-1", "+1", "", "9" * 19, "9" * 99, "1/1")],
        *[
            ([request(f"scan.zarr/data/{rest}")], [none])
            for rest in ("c/1/0/0", "c/1/0/0/0/", "c/1/0/0/0/0", "c1/0/0/0", "c/0/1/0/0", "c/0/0/1/0")
        ],
        ([request("scan.zarr/dada/c/1/0/0/0")], [none]),
        ([request(key(1)).replace(b"localhost", b"elsewhere")], [(400, b"")]),
        ([request(key("%31"))], [(200, rows[1])]),
        ([request(key(1), "PUT")], [(405, b"")]),
        ([request(key(1)) + request(key(2))], [(200, rows[1]), (200, rows[2])]),
        ([request(key(3)) * 20], [(200, rows[3])] * 20),
        ([request(key(1))[:20], request(key(1))[20:]], [(200, rows[1])]),
        ([request(key(2))[:-2], b"\r\n"], [(200, rows[2])]),
        ([request(key(2), more="X: 1\r\n")], [(200, rows[2])]),
        ([request(key(2), more=f"X: {'x' * 5000}\r\n")], [(200, rows[2])]),
        ([request("x" * 5000)], [(404, b"nothing")]),
    ]

    async def to(reader: Reader, writer: Writer) -> None:
        for parts, answers in asked:
            if reader.at_eof():
                writer.close()
                await writer.wait_closed()
                reader, writer = await asyncio.open_connection(*writer.get_extra_info("peername"))
            assert await natively(application, reader, writer, key(0)) == (200, rows[0])
            for part in parts:
                writer.write(part)
                await asyncio.sleep(0.02)
            for status, body in answers:
                got = await answer(reader, body=not parts[0].startswith(b"HEAD"))
                assert (got[0], got[1][: len(body)]) == (status, body), parts
            if status in CLOSING:
                assert await reader.read() == b""
        writer.close()

    talk(application, to)


@pytest.mark.parametrize("native", [True, False])
def test_a_request_that_cannot_be_parsed_ends_the_connection(tmp_path: Path, native: bool) -> None:
    path, how = raw(tmp_path, chunks=(2, -1, -1))
    application = application_of(contents_of(path, **how), natively=native)

    async def to(reader: Reader, writer: Writer) -> bytes:
        await natively(application, reader, writer, "scan.zarr/data/c/1/0/0")
        writer.write(b"\x00\x01\r\n\r\n")
        return await reader.read()

    assert talk(application, to).startswith(b"HTTP/1.1 400 ")


CHANGES: dict[str, tuple[Callable[[Path], object], int]] = {
    "truncated": (lambda path: os.truncate(path, 100), 422),
    "other bytes": (lambda path: path.write_bytes(bytes(path.stat().st_size)), 422),
    "replaced": (lambda path: shutil.copy(path, path.with_name("new")).replace(path), 422),
    "deleted": (lambda path: path.unlink(), 422),
    "touched": (lambda path: path.chmod(0o600), 200),
    "linked": (lambda path: os.link(path, path.with_name("link")), 200),
}


def touch(shown: Contents, path: Path) -> None:
    """Touch a file, and find that out as a read does, which goes on with it."""
    path.chmod(0o600)
    face = shown.faces["scan.zarr"]
    assert isinstance(face, ZarrFace)
    assert face.arrays["data"].dataset.files.same(0, FileState.of(path.stat()))


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changes(tmp_path: Path, change: str, mapped: bool) -> None:
    values = np.arange(24 * 256 * 128, dtype="f4").reshape(24, 256, 128) if mapped else VALUES
    path, how = raw(tmp_path, values, chunks=(2, -1, -1))
    application = application_of(contents_of(path, **how))
    act, status = CHANGES[change]
    key = "scan.zarr/data/c/{}/0/0".format

    async def to(reader: Reader, writer: Writer) -> None:
        assert application.native is not None
        assert await natively(application, reader, writer, key(1)) == (200, values[2:4].tobytes())
        act(path)
        done = application.native.done[0]
        for n in range(2, 6):  # others: the first one may be kept, until the files are looked at again
            writer.write(request(key(n)))
            got = await answer(reader)
            assert got[0] == status
            assert (got[1] == values[2 * n : 2 * n + 2].tobytes()) == (status == 200)
        if status == 200:  # it is learnt anew
            await natively(application, reader, writer, key(6))
        else:
            assert application.native.done[0] == done

    talk(application, to)


def test_files_are_looked_at_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(face_folder.LOOKS, "least", 0.3)
    (tmp_path / "in").mkdir()
    path, how = raw(tmp_path / "in", chunks=(2, -1, -1))
    application = application_of(contents_of(path, **how))
    key = "scan.zarr/data/c/1/0/0"

    async def to(reader: Reader, writer: Writer) -> None:
        got = await natively(application, reader, writer, key)
        path.parent.rename(tmp_path / "away")  # the open file does not tell
        while got[0] == 200:
            writer.write(request(key))
            got = await answer(reader)
        assert got[0] == 422

    talk(application, to)


def test_a_file_found_touched_while_it_is_learnt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, how = raw(tmp_path, chunks=(2, -1, -1))
    shown = contents_of(path, **how)
    application = application_of(shown)
    at_hand = shown.at_hand

    def then_touched(key: str) -> InFace | None:
        found = at_hand(key)
        monkeypatch.setattr(shown, "at_hand", at_hand)
        touch(shown, path)
        return found

    async def to(reader: Reader, writer: Writer) -> None:
        await natively(application, reader, writer, "scan.v2.zarr/data/1/0/0")
        monkeypatch.setattr(shown, "at_hand", then_touched)
        for n in range(1, 5):
            key = f"scan.zarr/data/c/{n}/0/0"
            writer.write(request(key))
            head = await reader.readuntil(b"\r\n\r\n")
            assert etag_of(shown.at(key).version(), key) in head
            assert await reader.readexactly(2 * VALUES[0].nbytes) == VALUES[2 * n : 2 * n + 2].tobytes()

    talk(application, to)


LARGE = 48 << 20
"""Bytes of a chunk that sockets do not take at once."""


def large(folder: Path, stored: str) -> tuple[Path, dict[str, Any], bytes]:
    """A set with one large chunk, and the bytes of that."""
    values = np.random.default_rng(0).integers(0, 1 << 16, LARGE // 2, "u2").reshape(-1, 256, 256)
    path, how = raw(folder, values.astype(stored), chunks=(-1, -1, -1))
    return path, how, values.tobytes()


async def slow(application: Application | None, writer: Writer, key: str) -> tuple[socket.socket, bytes]:
    """Ask for a chunk on another connection, and read only its head and some bytes.

    Args:
        application: answers natively; None: it may do so or not.
    """
    loop = asyncio.get_running_loop()
    application = application if application and application.native else None
    reads = application.tally.reads if application else 0
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    made.setblocking(False)
    await loop.sock_connect(made, writer.get_extra_info("peername"))
    await loop.sock_sendall(made, request(key))
    got = b""
    while len(got) < 10_000:
        got += await loop.sock_recv(made, 10_000)
    await asyncio.sleep(0.05)  # the socket is full
    head, _, body = got.partition(b"\r\n\r\n")
    if application and application.tally.reads != reads:
        reread(application)
        await rest(
            made, body, int(head.partition(b"content-length: ")[2].split()[0])
        )  # so that all of the file is read
        return await slow(application, writer, key)
    return made, body


async def rest(made: socket.socket, got: bytes, size: int = LARGE) -> bytes:
    """Read the rest of an answer, until it is whole or the connection is closed."""
    loop, parts, left = asyncio.get_running_loop(), [got], size - len(got)
    with made, suppress(ConnectionResetError):
        while left and (part := await loop.sock_recv(made, 1 << 20)):
            parts.append(part)
            left -= len(part)
    return b"".join(parts)


@pytest.mark.parametrize("stored", ["<u2", pytest.param(">u2", marks=pytest.mark.thorough)])
@pytest.mark.parametrize("change", ["nothing", "evicted", "truncated", "other bytes", "touched", "touched and seen"])
def test_a_file_that_changes_while_it_is_sent(tmp_path: Path, stored: str, change: str) -> None:
    path, how, whole = large(tmp_path, stored)
    shown = contents_of(path, **how)
    application = application_of(shown)
    key = "scan.zarr/data/c/0/0/0"

    def evict() -> None:
        os.sync()
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    acts = {name: act for name, (act, _) in CHANGES.items()} | {
        "nothing": lambda _: None,
        "evicted": lambda _: evict(),
        "touched and seen": partial(touch, shown),
    }

    async def to(reader: Reader, writer: Writer) -> None:
        assert (await natively(application, reader, writer, key))[1] == whole
        clients = [await slow(application, writer, key) for _ in range(3)]
        acts[change](path)
        for client in clients:
            got = await rest(*client)
            if change in ("nothing", "evicted"):
                assert got == whole
            else:  # what was sent after the change is not all
                assert len(got) < len(whole)

    talk(application, to)


@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.parametrize(("way", "asked", "kept"), [("read", 0, 0), ("mapped", 5, 0), ("large", 0, 4 << 20)])
def test_what_waits_for_a_disk_is_left_to_others(
    tmp_path: Path, way: str, asked: int, kept: int, ours: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the page cache has the first piece, and of another user's file, of which mincore may not tell."""
    if not ours:
        monkeypatch.setattr(os, "geteuid", lambda: -1)
    path, how = large(tmp_path, ">u2")[:2] if way == "large" else WAYS[way](tmp_path)
    shown = contents_of(path, **how)
    application = application_of(shown)
    key = f"scan.zarr/data/c/{asked}/0/0"
    whole = shown.at(key).get()

    async def to(reader: Reader, writer: Writer) -> None:
        assert application.native is not None
        await natively(application, reader, writer, "scan.zarr/data/c/0/0/0")
        before = application.native.done
        os.sync()
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), kept, 0, os.POSIX_FADV_DONTNEED)
            try:
                os.preadv(file.fileno(), [bytearray(1)], path.stat().st_size - 1, os.RWF_NOWAIT)
            except BlockingIOError:
                pass
            else:
                pytest.skip("the page cache keeps the file")
        reads = application.tally.reads
        writer.write(request(key))
        assert await answer(reader) == (200, whole)
        assert (application.native.done, application.tally.reads) == (before, reads + 1)

    talk(application, to)


@pytest.mark.parametrize("native", [True, False])
def test_slow_clients_keep_nobody_waiting(tmp_path: Path, native: bool) -> None:
    path, how, whole = large(tmp_path, ">u2")
    application = application_of(contents_of(path, **how), natively=native)
    key = "scan.zarr/data/c/0/0/0"

    async def to(reader: Reader, writer: Writer) -> None:
        await natively(application, reader, writer, key)
        clients = [await slow(application, writer, key) for _ in range(10)]
        assert (await natively(application, reader, writer, key))[1] == whole
        for gone, _ in clients[::2]:
            gone.close()
        assert (await natively(application, reader, writer, key))[1] == whole
        for client in clients[1::2]:
            assert await rest(*client) == whole

    talk(application, to)


@pytest.mark.parametrize(("stored", "native"), [("<u2", True), (">u2", True), (">u2", False)])
def test_clients_that_go_away_leave_nothing(tmp_path: Path, stored: str, native: bool) -> None:
    path, how, _ = large(tmp_path, stored)
    application = application_of(contents_of(path, **how), natively=native)
    key = "scan.zarr/data/c/0/0/0"

    async def to(reader: Reader, writer: Writer) -> None:
        await natively(application, reader, writer, key)
        await asyncio.sleep(0.05)
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            clients = [(await slow(application, writer, key))[0] for _ in range(4)]
            for client in clients:
                client.close()
        await until(lambda: len(os.listdir("/proc/self/fd")) <= before)
        writer.write(request(key)[:10])  # the connection is given back

    talk(application, to)  # waits until no connection is left
    assert application.tally.errors == 0


def test_a_connection_that_fails_keeps_no_other_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, how = raw(tmp_path, chunks=(2, -1, -1))
    application = application_of(contents_of(path, **how))
    received = connection.Connection.data_received

    def fails(self: connection.Connection, data: bytes) -> None:
        if b"bad" in data:
            raise MemoryError
        received(self, data)

    monkeypatch.setattr(connection.Connection, "data_received", fails)

    async def to(reader: Reader, writer: Writer) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        bad = await asyncio.open_connection(*writer.get_extra_info("peername"))
        for connected in ((reader, writer), bad):
            await natively(application, *connected, "scan.zarr/data/c/1/0/0")
        bad[1].write(request("bad"))
        time.sleep(0.05)  # the event loop gets both back at once
        writer.write(request("good"))
        time.sleep(0.05)
        assert (await answer(reader))[0] == 404
        assert await bad[0].read() == b""
        bad[1].close()

    talk(application, to)


def test_a_lent_connection_that_rests_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "KEPT", 10.0)
    path, how = raw(tmp_path, chunks=(2, -1, -1))
    application = application_of(contents_of(path, **how))
    ahead = asked = 0.0  # seconds that were let pass: so far, and until the last request
    since = native_tables.Loan.since.fget
    monkeypatch.setattr(native_tables.Loan, "since", property(lambda loan: since(loan) + asked))

    async def to(reader: Reader, writer: Writer) -> bytes:
        nonlocal ahead, asked
        loop = asyncio.get_running_loop()
        real = loop.time
        monkeypatch.setattr(loop, "time", lambda: real() + ahead)
        for _ in range(4):
            await natively(application, reader, writer, "scan.zarr/data/c/1/0/0")
            asked = ahead
            ahead += 7  # each request comes in time, since the one before counts
        assert not reader.at_eof()
        ahead += 10
        return await reader.read()

    assert talk(application, to) == b""


def test_few_files_are_kept_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "MAX_FILES", 2)
    shown = contents_of(write_mib(tmp_path, VALUES, frames_per_file=3), nav_shape=(24,), chunks=(3, -1, -1))
    application = application_of(shown)

    async def to(reader: Reader, writer: Writer) -> None:
        for n in (0, 1, 2, 7, 6, 5, 0):
            got = await natively(application, reader, writer, f"scan.zarr/data/c/{n}/0/0")
            assert got == (200, VALUES[3 * n : 3 * n + 3].tobytes())

    talk(application, to)


def test_a_source_that_ended_answers_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "MAX_FILES", 1)
    values = np.arange(2 * 3 << 20, dtype="u2").reshape(-1, 1024, 1024)  # sockets do not take 6 MiB at once
    shown = contents_of(write_mib(tmp_path, values, frames_per_file=3), nav_shape=(len(values),), chunks=(3, -1, -1))
    application = application_of(shown)
    key = "scan.zarr/data/c/0/0/0"

    async def to(reader: Reader, writer: Writer) -> None:
        assert application.native is not None
        await natively(application, reader, writer, key)
        client, _ = await slow(application, writer, key)  # so its memory is kept
        others = await asyncio.open_connection(*writer.get_extra_info("peername"))
        await natively(application, *others, "scan.v2.zarr/data/1/0/0")
        before = application.native.done
        reads = application.tally.reads
        writer.write(request(key))
        assert await answer(reader) == (200, values[:3].tobytes())
        assert (application.native.done, application.tally.reads) == (before, reads + 1)
        client.close()
        others[1].close()

    talk(application, to)


def test_slow_clients_keep_few_files_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "MAX_FILES", 1)
    values = np.arange(8 * 3 << 20, dtype="u2").reshape(-1, 1024, 1024)  # sockets do not take 6 MiB at once
    files = len(values) // 3
    shown = contents_of(write_mib(tmp_path, values, frames_per_file=3), nav_shape=(len(values),), chunks=(3, -1, -1))
    application = application_of(shown)

    def opened() -> int:
        found = 0
        for fd in os.listdir("/proc/self/fd"):
            with suppress(FileNotFoundError):  # one that another thread has closed since
                found += str(tmp_path) in os.readlink(f"/proc/self/fd/{fd}")
        return found

    async def to(reader: Reader, writer: Writer) -> None:
        clients, before = [], opened()
        await natively(application, reader, writer, "scan.zarr/data/c/0/0/0")
        for n in range(files):
            key = f"scan.zarr/data/c/{n}/0/0"
            for _ in range(3):  # it is learnt, if it can be
                writer.write(request(key))
                await answer(reader)
            clients.append(await slow(None, writer, key))
        assert opened() <= before + 2
        for n, client in enumerate(clients):
            assert await rest(*client, values[:3].nbytes) == values[3 * n : 3 * n + 3].tobytes()
        await natively(application, reader, writer, "scan.zarr/data/c/7/0/0")

    talk(application, to)


def test_sets_of_a_folder_that_changes(tmp_path: Path) -> None:
    path, new = tmp_path / "tree" / "scan.npy", tmp_path / "new.npy"
    path.parent.mkdir()
    np.save(path, VALUES)
    application = application_of(folder_tree(path.parent))
    key = "scan.zarr/data/c/0/0/0"

    async def to(reader: Reader, writer: Writer) -> None:
        size = 0
        for k in range(3):
            np.save(new, VALUES + k)
            new.replace(path)
            while True:
                writer.write(request(key))
                status, body = await answer(reader)
                if k and status == 422:  # it was read from the changed file, before that was looked at again
                    continue
                assert status == 200
                size = len(body) // VALUES[0].nbytes
                if body == (VALUES + k)[:size].tobytes():
                    break
                assert k
                assert body == (VALUES + k - 1)[:size].tobytes()
            assert (await natively(application, reader, writer, key))[1] == (VALUES + k)[:size].tobytes()

    talk(application, to)


def test_files_that_were_replaced_are_let_go(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "scan.npy"
    np.save(path, VALUES)
    application = application_of(folder_tree(path.parent))

    async def to(reader: Reader, writer: Writer) -> None:
        for _ in range(3):
            await natively(application, reader, writer, "scan.zarr/data/c/0/0/0")
            np.save(tmp_path / "new.npy", VALUES)
            (tmp_path / "new.npy").replace(path)
        while f"{path} (deleted)" in Path("/proc/self/maps").read_text():
            writer.write(request("scan.zarr/data/c/0/0/0"))
            await answer(reader)
            await asyncio.sleep(0.01)

    gc.disable()  # it may not come for long
    try:
        talk(application, to)
    finally:
        gc.enable()


def test_etags_end_with_coordinates() -> None:
    assert [split(key) for key in ("a/c/1/0", "a7/1", "a", "", "7", "0/0", "a/1x/2", "a/1.2/3")] == [
        ("a/c", "/1/0"),
        ("a7", "/1"),
        ("a", ""),
        ("", ""),
        ("7", ""),
        ("0", "/0"),
        ("a/1x", "/2"),
        ("a/1.2", "/3"),
    ]
    made = [
        etag_of(version, key) for version in (b"1", b"2") for key in ("a/c/1/0", "a/c/1/1", "b/c/1/0", "a/c/10", "a/c")
    ]
    assert len(set(made)) == 10
    assert etag_of(b"", "a") != etag_of(b"", "a")
