"""People at one server, each with a token, a connection and half a second of thought: `scripts/bench serve --people N`.

They look at data sets of a folder at random: chunks, documents, lists, pictures, thumbnails and computations, as `MIX`
says. Prints how long answers took, what failed, the memory of the server, and how evenly people were served. Server and
people share the processors of this machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import random
import secrets
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

import vfs

THOUGHT = 0.5
"""Mean seconds that people think between two requests."""
SCAN, DETECTOR = (16, 16), (64, 64)
MIX = {"chunk": 50, "document": 20, "list": 10, "picture": 10, "thumbnails": 6, "computation": 4}
"""Kinds of requests, and how many of a hundred are of each."""


@dataclass
class Seen:
    """What people saw.

    Attributes:
        took: kind -> seconds of each answer that was one.
        statuses: how many answers had each status; 0: the connection broke.
        answers: person -> how many answers there were.
        memory: most bytes that the server held, without pages of files.
        worked: seconds of processors that the server took.
    """

    took: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in MIX})
    statuses: Counter[int] = field(default_factory=Counter)
    answers: Counter[int] = field(default_factory=Counter)
    memory: int = 0
    worked: float = 0.0

    @property
    def errors(self) -> int:
        """Answers that are neither data nor a request to come again."""
        return sum(count for status, count in self.statuses.items() if status not in (200, 429))

    @property
    def fairness(self) -> float:
        """Jain's index of the answers that people got: 1 if all got as many, 1/N if one of N got all."""
        counts = list(self.answers.values())
        return sum(counts) ** 2 / (len(counts) * sum(count * count for count in counts)) if counts else math.nan


async def _answer(reader: asyncio.StreamReader) -> int:
    """Read an answer to its end, and return its status."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if b"transfer-encoding: chunked" in head:
        while size := int((await reader.readline()).strip(), 16):
            await reader.readexactly(size + 2)
        await reader.readexactly(2)
    else:
        await reader.readexactly(int(head.partition(b"content-length: ")[2].split()[0]))
    return int(head.split()[1])


def _request(kind: str, base: str, name: str, choice: random.Random) -> bytes:
    y, x = (choice.randrange(count) for count in SCAN)
    body = b""
    path = {
        "chunk": f"{name}.zarr/data/c/{y}/{x}/0/0",
        "document": f"{name}.zarr/zarr.json",
        "list": "api/list/",
        "picture": f"api/frame/{name}.zarr/data?at={y},{x}",
        "thumbnails": f"api/thumbnails/{name}.zarr?size=64&main=1",
        "computation": f"api/compute/{name}.zarr/data",
    }[kind]
    if kind == "computation":
        body = json.dumps({"results": {"a": f"disk(cy=32, cx=32, r={choice.randrange(2, 30)})"}}).encode()
    method = "POST" if body else "GET"
    return f"{method} {base}{path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


async def _person(number: int, url: str, sets: int, until: float, seen: Seen) -> None:
    choice, parts = random.Random(number), urlsplit(url)
    connection = None
    await asyncio.sleep(choice.uniform(0, THOUGHT))
    while time.monotonic() < until:
        (kind,) = choice.choices(list(MIX), list(MIX.values()))
        began = time.perf_counter()
        try:
            if connection is None:
                connection = await asyncio.open_connection(parts.hostname, parts.port)
            connection[1].write(_request(kind, parts.path, f"s{choice.randrange(sets)}", choice))
            status = await _answer(connection[0])
        except (OSError, EOFError):
            status, connection = 0, None
        seen.statuses[status] += 1
        if status == 200:
            seen.took[kind].append(time.perf_counter() - began)
            seen.answers[number] += 1
        await asyncio.sleep(choice.expovariate(1 / THOUGHT))
    if connection is not None:
        connection[1].close()


async def _watch(pid: int, until: float, seen: Seen) -> None:
    while time.monotonic() < until:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                seen.memory = max(seen.memory, int(line.split()[1]) << 10)
        ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        seen.worked = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
        await asyncio.sleep(0.2)


def measure(folder: Path, people: int, sets: int, seconds: float) -> Seen:
    """Write data sets into a folder, serve it, and let people look at it.

    Args:
        folder: an empty one.
    """
    (folder / "data").mkdir()
    values = np.random.default_rng(1).poisson(3, (*SCAN, *DETECTOR)).astype("u2")
    for number in range(sets):
        np.save(folder / "data" / f"s{number}.npy", values)
    tokens = [secrets.token_urlsafe() for _ in range(people)]
    file = folder / "tokens"
    file.touch(0o600)
    file.write_text("".join(f"p{n} {token}\n" for n, token in enumerate(tokens)))
    seen = Seen(answers=Counter(dict.fromkeys(range(people), 0)))
    how = {"tree": True, "port": 0, "tokens": str(file), "chunks": "frames"}
    with vfs.serve(folder / "data", **how) as server:
        pid = next(one.pid for one in vfs.server.servers() if one.address == server.address)

        async def run() -> None:
            until = time.monotonic() + seconds
            every = (_person(n, f"{server.address}t/{token}/", sets, until, seen) for n, token in enumerate(tokens))
            await asyncio.gather(_watch(pid, until, seen), *every)

        asyncio.run(run())
    return seen


def main() -> None:
    """Print what people saw."""
    parser = argparse.ArgumentParser(prog="scripts/bench serve")
    parser.add_argument("--people", type=int, required=True)
    parser.add_argument("--sets", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=30.0)
    given = parser.parse_args(sys.argv[2:])
    with tempfile.TemporaryDirectory(prefix="vfs-people-") as folder:
        seen = measure(Path(folder), given.people, given.sets, given.seconds)
    print(f"{given.people} people, {given.sets} sets, {given.seconds:.0f} s, {os.cpu_count()} processors")
    every = [seconds for took in seen.took.values() for seconds in took]
    print(f"{'':12} {'answers/s':>9} {'p50':>8} {'p95':>8} {'p99':>8}  (ms)")
    for kind, took in [*seen.took.items(), ("all", every)]:
        if took:
            p50, p95, p99 = (1000 * np.percentile(took, p) for p in (50, 95, 99))
            print(f"{kind:12} {len(took) / given.seconds:9.1f} {p50:8.1f} {p95:8.1f} {p99:8.1f}")
    counts = seen.answers.values()
    print(f"errors {seen.errors}, 429s {seen.statuses[429]}, statuses {dict(sorted(seen.statuses.items()))}")
    each = f"{1000 * seen.worked / max(1, len(every)):.2f} ms an answer"
    print(f"memory of the server {seen.memory >> 20:,} MiB, processor time {seen.worked:.1f} s, {each}")
    print(f"fairness {seen.fairness:.3f} (Jain's index); answers of a person {min(counts)} to {max(counts)}")


if __name__ == "__main__":
    main()
