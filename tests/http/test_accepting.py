"""A server with few descriptors goes on answering, whoever holds connections open."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.http.support import Client, connected
from tests.waiting import until
from vfs.server import accepting
from vfs.server.accepting import Acceptor, Rest
from vfs.serving.failures import Failures

VALUES = np.arange(8 * 64 * 64, dtype="u2").reshape(8, 64, 64)
FEW = 128  # descriptors: 16 connections


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, Path]]:
    """A server with few descriptors: its URL and its log."""
    np.save(folder / "a.npy", VALUES)
    command = [sys.executable, "-P", "-m", "vfs", "serve", str(folder / "a.npy"), "--port", "0"]
    limited = f"ulimit -n {FEW}; exec " + " ".join(command)
    with open(folder / "log", "w") as log:
        running = subprocess.Popen(["sh", "-c", limited], stdout=subprocess.PIPE, stderr=log, text=True)
    with running:
        try:
            assert running.stdout is not None
            yield running.stdout.readline().strip(), folder / "log"
        finally:
            running.terminate()
            running.communicate(timeout=250)


@pytest.mark.parametrize(
    "begun", [b"GET /", *(pytest.param(one, marks=pytest.mark.thorough) for one in (b"", b"\x16\x03\x01"))]
)
def test_connections_that_ask_nothing_keep_nobody_out(tmp_path: Path, begun: bytes) -> None:
    with served(tmp_path) as (url, log), Client(url) as before, ExitStack() as left:
        assert before.ask("a.npy").body == (tmp_path / "a.npy").read_bytes()
        kept = before.connection.sock
        for _ in range(2 * FEW):
            connection = left.enter_context(connected(url))
            with suppress(ConnectionError):
                connection.sendall(begun)
        with Client(url) as other:
            assert other.ask("a.npy").status == 200
        assert before.ask("a.npy").status == 200
        assert before.connection.sock is kept, "who has asked keeps a connection"
        assert len(log.read_text().splitlines()) < 20


def test_connections_that_asked_are_closed_when_they_rest_longest(tmp_path: Path) -> None:
    """Also those that are lent to threads."""
    with served(tmp_path) as (url, _), ExitStack() as left:
        held = [left.enter_context(Client(url)) for _ in range(12)]
        for client in [*held * 3, *(left.enter_context(Client(url)) for _ in range(12))]:
            assert client.ask("a.zarr/data/c/0/0/0").body == VALUES.tobytes()


class Protocol(asyncio.Protocol):
    """A connection that rests, or does not."""

    def __init__(self, held: set[Any], rests: Rest | None) -> None:
        self.held = held
        self.rests = rests

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.held.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self.held.discard(self)


def accepted(monkeypatch: pytest.MonkeyPatch, rests: list[Rest | None], let_in: int) -> list[int]:
    """Connect clients, of which three may be there. Returns the numbers of those that were let in and stay.

    Args:
        let_in: how many are let in, at least.
    """
    monkeypatch.setattr(accepting, "most", lambda: 3)
    monkeypatch.setattr(accepting, "MOMENT", -1e9)
    held: set[Any] = set()

    async def run() -> list[int]:
        made: list[Protocol] = []

        def make() -> asyncio.Protocol:
            made.append(Protocol(held, rests[len(made)]))
            return made[-1]

        with socket.create_server(("127.0.0.1", 0)) as listener, ExitStack() as left:
            acceptor = Acceptor(listener, 5, make, None, held, Failures(logging.getLogger("test")))
            for n in range(len(rests)):
                left.enter_context(socket.create_connection(listener.getsockname()))
                if n < let_in:
                    await until(lambda n=n: len(made) > n)
            await asyncio.sleep(0.05)  # who is not let in has time to come in
            stay = sorted(made.index(each) for each in held)
            acceptor.close()
            await acceptor.wait_closed()
            for each in list(held):
                each.transport.abort()
            await asyncio.sleep(0)
            return stay

    return asyncio.run(run())


def test_who_never_asked_is_closed_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert accepted(monkeypatch, [Rest(True, 1.0), Rest(False, 2.0), None, None], 4) == [0, 2, 3]
    assert accepted(monkeypatch, [Rest(True, 2.0), Rest(True, 1.0), None, None], 4) == [0, 2, 3]


def test_who_waits_for_an_answer_is_not_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert accepted(monkeypatch, [None] * 4, 3) == [0, 1, 2]


def test_a_system_without_descriptors_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(accepting, "RETRY", 0.001)
    refusals, real = iter(range(30)), socket.socket.accept

    def accept(self: socket.socket) -> Any:
        if next(refusals, None) is not None:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real(self)

    monkeypatch.setattr(socket.socket, "accept", accept)
    assert accepted(monkeypatch, [None], 1) == [0]
    assert len(caplog.records) <= 11
    assert "a connection cannot be accepted: Too many open files" in caplog.text
