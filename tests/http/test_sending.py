"""What a connection writes comes whole and in order."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from tests.waiting import PATIENCE, until
from vfs.server.sending import SendingTransport

DATA = memoryview(np.random.default_rng(0).bytes(6 << 20))


class Server(asyncio.Protocol):
    """A connection that notes what it is told."""

    def __init__(self) -> None:
        self.paused = False
        self.made = asyncio.get_running_loop().create_future()
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = SendingTransport(transport, self)
        self.made.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        self.transport.lost(error)
        self.ended.set_result(error)

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False


Do = Callable[[Server, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[Any]]


def connected(do: Do) -> Any:
    """Do something with the two ends of a connection; afterwards no socket of it is left."""

    async def run() -> Any:
        loop, made = asyncio.get_running_loop(), list[Server]()

        def accept() -> Server:
            made.append(Server())
            return made[-1]

        listening = await loop.create_server(accept, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname(), limit=1 << 16)
        while not made:
            await asyncio.sleep(0)
        await made[0].made
        try:
            done = await asyncio.wait_for(do(made[0], reader, writer), PATIENCE)
            writer.close()
            made[0].transport.close()
            await asyncio.wait_for(made[0].ended, PATIENCE)
            with suppress(OSError):  # the server may have broken it off
                await writer.wait_closed()
            return done
        finally:
            listening.close()
            await listening.wait_closed()

    asyncio.run(asyncio.sleep(0))  # what it opens once is open
    before = _sockets()  # of other tests' threads, too, which may close theirs meanwhile
    done = asyncio.run(run())
    assert not _sockets() - before
    return done


def _sockets() -> set[str]:
    """Return the sockets of this process, by inode."""
    found = set()
    for fd in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # that of the folder itself, which is closed by now
            found.add(os.readlink(f"/proc/self/fd/{fd}"))
    return {name for name in found if name.startswith("socket:")}


@pytest.mark.parametrize("slow", [True, False])
def test_all_comes_in_order(slow: bool) -> None:
    sizes = [1, 100, 1 << 17, 0, 1 << 20, 17, (3 << 20) + 1, 5, (1 << 17) - 1, 1 << 20, 1, 1, 2]
    expected = b"".join(DATA[n : n + size] for n, size in enumerate(sizes))

    async def do(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        for n, size in enumerate(sizes):
            server.transport.send(bytes(DATA[n : n + min(size, 7)]), DATA[n + min(size, 7) : n + size])
        assert server.paused
        assert server.transport.get_write_buffer_size() > 0
        got = bytearray()
        while len(got) < len(expected):
            got += await reader.read(1 << 18)
            if slow:
                await asyncio.sleep(0.005)
        assert server.transport.get_write_buffer_size() == 0
        return bytes(got)

    assert connected(do) == expected


def test_a_client_that_says_that_it_asks_no_more_gets_all() -> None:
    async def do(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        server.transport.send(b"", DATA)
        writer.write_eof()
        await server.ended
        return await reader.read()

    assert connected(do) == DATA


def test_closing_waits_until_all_is_sent() -> None:
    async def do(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        server.transport.send(b"head", DATA)
        server.transport.close()
        assert server.transport.is_closing()
        server.transport.write(b" and what comes too late")
        return await reader.read()

    assert connected(do) == b"head" + DATA


def test_aborting_sends_no_more() -> None:
    async def do(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        server.transport.send(b"", DATA)
        await reader.readexactly(1)
        server.transport.abort()
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""

    assert len(connected(do)) < len(DATA) - 1


@pytest.mark.parametrize("reading", [True, False])
def test_a_client_that_breaks_off_is_let_go(reading: bool) -> None:
    """Also where nobody reads from it, who would hear of it otherwise."""

    async def do(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not reading:
            server.transport.pause_reading()
        for _ in range(4):
            server.transport.send(b"", DATA)
        await reader.readexactly(1)
        end = writer.get_extra_info("socket")
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        await server.ended
        server.transport.write(b"to nobody")
        await until(lambda: not server.transport.get_write_buffer_size())

    connected(do)


def test_without_a_descriptor_left_the_connection_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(fd: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    async def do(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
        monkeypatch.setattr(os, "dup", none_left)
        server.transport.send(b"", DATA[:100])
        assert await reader.readexactly(100) == DATA[:100]
        server.transport.send(b"", DATA)
        try:
            return len(await reader.read())
        except ConnectionResetError:
            return 0

    assert connected(do) < len(DATA)
