"""A server under load: 64 connections, some slow, some cut off, for as long as `VFS_LOAD` says, else until it was asked
for enough.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import numpy as np
import pytest

import vfs
from tests.http.support import memory_of
from tests.waiting import eventually
from vfs.server import servers
from vfs.testing.writers import write_mib

SECONDS = float(os.environ.get("VFS_LOAD", "0"))
CONNECTIONS = 64
FRAMES, SIDE, PER = 512, 128, 8
CHUNK = PER * SIDE * SIDE * 2
CACHE = 16 << 20
SLACK = 80 << 20  # what allocators keep, and the copies of what sockets have not taken
VALUES = np.random.default_rng(5).integers(0, 1 << 16, (FRAMES, SIDE, SIDE)).astype("u2")


class Load:
    """Asks a server at random, in many connections at once, and compares every byte.

    Args:
        url: the server's.
        may_break: sources vanish meanwhile, so that 422 is an answer too.
        least: responses that there have to be at least, by status.

    Attributes:
        counts: how many responses there were, by status; "cut" of them were not read to the end.
        problems: what was not as it should be.
    """

    def __init__(self, url: str, may_break: bool = False, **least: int) -> None:
        self.parts = urlsplit(url)
        self.may_break = may_break
        self._until = time.monotonic() + SECONDS
        statuses: dict[str, object] = {"ok": 200, "part": 206, "changed": 422}
        self._least = {statuses.get(name, name): count for name, count in least.items()}
        self.counts = Counter[object]()
        self.problems: list[str] = []
        self.whole = VALUES.tobytes()

    @property
    def goes_on(self) -> bool:
        """True until the time is over and there were enough responses."""
        enough = all(self.counts[status] >= least for status, least in self._least.items())
        return not self.problems and not (enough and time.monotonic() >= self._until)

    async def run(self) -> None:
        await asyncio.gather(*(self._client(k) for k in range(CONNECTIONS)))

    async def _client(self, number: int) -> None:
        chance, slow = random.Random(number), number % 2 == 0
        while self.goes_on:
            reader, writer = await asyncio.open_connection(self.parts.hostname, self.parts.port)
            try:
                while self.goes_on:
                    if not await self._ask(reader, writer, chance, slow):
                        break
            except (ConnectionError, asyncio.IncompleteReadError) as error:
                self.problems.append(f"client {number}: {error!r}")
                return
            finally:
                writer.close()
                with suppress(ConnectionError):
                    await writer.wait_closed()

    async def _ask(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, chance: random.Random, slow: bool
    ) -> bool:
        """Ask once. Returns False if the connection is to be cut off."""
        chunk = chance.randrange(FRAMES // PER)
        begin = chunk * CHUNK
        first, last = 0, CHUNK - 1
        kind = chance.choice(["whole", "part", "npy"])
        key = "scan.npy" if kind == "npy" else f"scan.zarr/data/c/{chunk}/0/0"
        if kind != "whole":
            first = chance.randrange(CHUNK)
            last = chance.randrange(first, CHUNK)
        skip = 128 + begin if kind == "npy" else 0
        span = "" if kind == "whole" else f"Range: bytes={first + skip}-{last + skip}\r\n"
        writer.write(f"GET {self.parts.path}{key} HTTP/1.1\r\nHost: localhost\r\n{span}\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        status = int(head.split()[1])
        length = int(head.partition("content-length: ")[2].split()[0])
        if chance.random() < 0.03:
            self.counts["cut"] += 1
            writer.transport.abort()
            return False
        body = bytearray()
        while len(body) < length:
            part = await reader.read(4096 if slow else 1 << 20)
            if not part:
                raise asyncio.IncompleteReadError(bytes(body), length)
            body += part
            if slow:
                await asyncio.sleep(0.001)
        self.counts[status] += 1
        if status in (200, 206):
            if body != self.whole[begin + first : begin + last + 1]:
                self.problems.append(f"{key}, {span}: other bytes")
        elif status != 422 or not self.may_break:
            self.problems.append(f"{key}: {status} {bytes(body)!r}")
        return True


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    return write_mib(tmp_path, VALUES, frames_per_file=FRAMES // 8)


def own(pid: int) -> tuple[int, int]:
    """Threads and descriptors of a process."""
    return len(os.listdir(f"/proc/{pid}/task")), len(os.listdir(f"/proc/{pid}/fd"))


def native_requests(url: str) -> int:
    """How many requests were answered without Python."""
    with urlopen(f"{url}metrics") as answer:
        counted = dict(line.split() for line in answer.read().decode().splitlines() if not line.startswith("#"))
    return int(counted["vfs_native_requests_total"])


def is_native(url: str) -> bool:
    """Ask for a chunk some times in one connection. True if one of the answers needed no Python."""
    parts = urlsplit(url)
    connection = HTTPConnection(str(parts.hostname), parts.port)
    for _ in range(5):
        connection.request("GET", f"{parts.path}scan.zarr/data/c/0/0/0")
        connection.getresponse().read()
    connection.close()
    return native_requests(url) > 0


def is_well(url: str) -> bool:
    """Return True if a chunk is answered, not called changed."""
    try:
        with urlopen(f"{url}scan.zarr/data/c/0/0/0") as answer:
            return len(answer.read()) == CHUNK
    except HTTPError:
        return False


@pytest.mark.timeout(SECONDS + 600)
@pytest.mark.parametrize(("vanishing", "native"), [(False, True), (True, True), (False, False)])
def test_under_load_every_byte_is_right_and_nothing_grows(scan: Path, vanishing: bool, native: bool) -> None:
    how = {"nav_shape": FRAMES, "chunks": (PER, SIDE, SIDE), "cache_size": CACHE, "no_native": not native}
    with vfs.serve(scan, port=0, **how) as server:
        pid = next(one.pid for one in servers() if one.address == server.address)
        most = 0
        assert not native or eventually(
            lambda: is_native(server.url), 110
        )  # what answers natively is compiled, if nobody has yet
        asyncio.run(Load(server.url, ok=64, part=64).run())  # opens files
        load = Load(server.url, may_break=vanishing, ok=200, part=200, cut=10, changed=vanishing)
        before, native_before = own(pid), native_requests(server.url)
        idle = memory_of(pid)

        async def watch() -> None:
            nonlocal most
            file, away = scan.parent / "scan003.mib", scan.parent / "away"
            while load.goes_on:
                most = max(most, memory_of(pid))
                if vanishing:
                    file.rename(away)
                    await another(422)
                    away.rename(file)
                    await another(200)
                await asyncio.sleep(0.1)

        async def another(status: int) -> None:
            """Wait until somebody gets such an answer."""
            told = load.counts[status]
            while load.counts[status] == told and load.goes_on:
                await asyncio.sleep(0.05)

        async def both() -> None:
            await asyncio.gather(load.run(), watch())

        asyncio.run(both())
        assert load.problems == []
        assert (load.counts[422] > 0) == vanishing
        assert most < idle + CACHE + CONNECTIONS * CHUNK + SLACK
        threads, fds = before
        assert eventually(lambda: own(pid)[0] <= threads + 8 and own(pid)[1] <= fds + 8 + 2)
        assert (native_requests(server.url) > native_before) == native
        # It lives, and is as it was
        again = Load(server.url, ok=1)
        assert eventually(lambda: is_well(server.url))  # the files are looked at again after a second
        asyncio.run(again.run())
        assert again.problems == []
