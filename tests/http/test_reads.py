"""Threads that read for an event loop: what a file system that does not answer keeps from others."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Iterator

import pytest

from tests.waiting import PATIENCE, eventually
from vfs.http import reads
from vfs.http.guard import RefusedError
from vfs.http.reads import Reads


class FileSystem:
    """One that does not answer before `set`: a pipe that nobody wrote to."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()

    def wait(self) -> bytes:
        return os.read(self._read, 1)

    def set(self) -> None:
        os.write(self._write, b"x" * 100)


@pytest.fixture
def go(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileSystem]:
    monkeypatch.setattr(reads, "HANGS", 0.05)
    made = FileSystem()
    yield made
    made.set()


def in_loop(act: Callable[[Reads], Awaitable[None]], workers: int = 2) -> None:
    async def run() -> None:
        pool = Reads(workers)
        try:
            await asyncio.wait_for(act(pool), PATIENCE)
        finally:
            pool.close()

    asyncio.run(run())


def test_others_go_on_beside_reads_that_hang(go: FileSystem, caplog: pytest.LogCaptureFixture) -> None:
    async def act(pool: Reads) -> None:
        hung = [pool.start(n, go.wait, "bad") for n in range(3)]
        assert [await pool.start(f"ok {n}", lambda n=n: n, "good") for n in range(5)] == [0, 1, 2, 3, 4]
        while len(pool.hanging()) < 3:
            await asyncio.sleep(0.01)
        assert set(pool.hanging()) == {"bad"}
        assert not any(one.done() for one in hung)
        go.set()
        assert await asyncio.gather(*hung) == [b"x"] * 3
        assert await pool.start("after", lambda: 7, "bad") == 7
        assert eventually(lambda: pool.hanging() == [])
        assert eventually(lambda: len(pool._threads) == 2)  # as many as before

    in_loop(act)
    assert caplog.messages[0].startswith("bad: a read has not ended for ")


def test_nothing_more_is_begun_where_reads_hang(go: FileSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reads, "REFUSED", 0.2)

    async def act(pool: Reads) -> None:
        hung = [pool.start(n, go.wait, place) for n, place in enumerate(("bad", "", "bad/below"))]
        while len(pool._hanging(0.3)) < 3:
            await pool.start("ok", lambda: 1, "good")
        for place in ("bad", "bad/below"):
            with pytest.raises(RefusedError) as caught:
                pool.start("more", go.wait, place)
            assert caught.value.status == 503
            assert caught.value.reason == f"{place}: its file system does not answer"
            assert caught.value.retry_after is not None
        assert await pool.start("unknown", lambda: 2) == 2  # nobody knows where
        assert pool.start(0, go.wait, "bad") is not hung[0]  # the same read may be waited for
        go.set()

    in_loop(act)


def test_threads_are_limited(go: FileSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reads, "MORE", 3)

    async def act(pool: Reads) -> None:
        for n in range(9):
            pool.start(n, go.wait, f"{n}")
        while len(pool.hanging()) < 5:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)
        assert (len(pool._threads), len(pool.hanging())) == (5, 5)
        go.set()

    in_loop(act)


def test_closing_does_not_wait_for_ever(go: FileSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reads, "PATIENCE", 0.1)

    async def act(pool: Reads) -> None:
        for n in range(2):
            pool.start(n, go.wait, "bad")

    in_loop(act)


def test_work_that_computes_or_waits_for_others_is_not_replaced(go: FileSystem) -> None:
    over = threading.Event()

    def compute() -> None:
        while not over.is_set():
            pass

    async def act(pool: Reads) -> None:
        for n, work in enumerate((compute, over.wait, over.wait)):
            pool.start(n, work, "slow")
        await asyncio.sleep(0.3)
        assert (len(pool._threads), pool.hanging()) == (2, [])
        over.set()

    in_loop(act)
