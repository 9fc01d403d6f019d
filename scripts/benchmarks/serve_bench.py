"""`vfs serve` against nginx, a server in C, and zarr-http-server: `scripts/bench serve`.

All are asked in turns by one client (`http_client.c`, compiled in the same run), and the best of
many short turns counts. The client has one thread and copies bodies into one buffer, as every
client must; on two cores it has one of them. So nginx runs with one worker, and with as many as
there are cores, and the faster one counts. It sends ready files from the page cache with sendfile,
which does not copy. `http_server.c` does what is left if bytes have to pass through the server's
memory: pread and send, in a thread for each connection. `LEAST` does the same in one thread of
Python's event loop, and nothing else, not even parse a request: it bounds what a server in Python
can do. `zarr-http-server` serves the store of the same array, in an environment of its own (it
needs Python 3.12). What is missing is said on stderr, and its rows are left out.
"""

from __future__ import annotations

import getpass
import json
import math
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import numpy as np

import vfs
from scripts.benchmarks.mount_bench import settle
from scripts.benchmarks.rows import Row, Size
from vfs.testing import writers

ROOT = Path(__file__).parents[2]
PEER_PYTHON = ROOT / ".venv-http-peer/bin/python"  # made by scripts/bench
PEER = """
import json, sys
import uvicorn, vfs, zarr_http_server
path, options, port = json.loads(sys.argv[1])
app = zarr_http_server.store_app(vfs.open(path, **options).store())
uvicorn.run(app, port=port, log_level="error", access_log=False)
"""
LEAST = """
import asyncio, os, sys
source = os.open(sys.argv[1], os.O_RDONLY)
class Connection(asyncio.Protocol):
    def connection_made(self, transport):
        self.socket = transport.get_extra_info("socket").fileno()
        self.transport = transport
    def data_received(self, data):  # GET /LENGTH/N HTTP/1.1
        _, length, n = data[:data.index(b" HTTP")].split(b"/")
        body = memory[:int(length)]
        os.preadv(source, [body], int(n) * len(body))
        head = b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body)
        try:
            sent = os.writev(self.socket, [head, body])
        except BlockingIOError:
            sent = 0
        self.transport.write((head + body)[sent:] if sent < len(head) else body[sent - len(head):])
memory = memoryview(bytearray(8 << 20))
async def main():
    await (await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", int(sys.argv[2]))).serve_forever()
asyncio.run(main())
"""
NGINX = """
worker_processes {workers}; daemon off; {user} pid {folder}/pid; error_log stderr error;
events {{ worker_connections 512; }}
http {{
    access_log off; default_type application/octet-stream; sendfile on; tcp_nopush on; keepalive_requests 1000000000;
    client_body_temp_path {folder}/1; proxy_temp_path {folder}/2; fastcgi_temp_path {folder}/3;
    uwsgi_temp_path {folder}/4; scgi_temp_path {folder}/5;
    server {{ listen 127.0.0.1:{port}; root {root}; }}
}}
"""
FRAME = 128 * 256 * 2  # bytes
LARGE = 1 << 30  # bytes of the .npy file
CONNECTIONS = 1, 8, 32


class Asked(NamedTuple):
    """What is asked of one server: GET of `names` below a URL, over and over.

    Attributes:
        more: further header lines, one for each name or the same for all; each with its line end.
    """

    url: str
    names: Sequence[str]
    length: int
    status: int = 200
    more: Sequence[str] = ("",)

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 80

    def requests(self, turn: int, count: int) -> bytes:
        """Return the requests of a turn; the next turn goes on where this one ends."""
        path, made = urlsplit(self.url).path, []
        for n in range(turn * count, (turn + 1) * count):
            more = self.more[n % len(self.more)]
            made.append(
                f"GET {path}{self.names[n % len(self.names)]} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n{more}\r\n\0"
            )
        return "".join(made).encode()


class Client:
    """The client in C."""

    def __init__(self, program: Path) -> None:
        self.program = program

    def turn(self, asked: Asked, connections: int, count: int, turn: int) -> tuple[float, float]:
        """Return the seconds of a turn, and the median of the seconds to the first byte of an answer."""
        given = [asked.port, connections, count, asked.status, asked.length]
        done = subprocess.run(
            [self.program, *map(str, given)], input=asked.requests(turn, count), capture_output=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{asked.url}: {done.stderr.decode(errors='replace')}")
        seconds, first = map(float, done.stdout.split())
        return seconds, first

    def best(
        self, candidates: dict[str, Asked], connections: int, count: int, rounds: int
    ) -> dict[str, tuple[float, float]]:
        """Return the best seconds of a turn and to the first byte, of each candidate."""
        best = dict.fromkeys(candidates, (math.inf, math.inf))
        names = list(candidates)
        for turn in range(rounds):
            for n in range(len(names)):
                name = names[(turn + n) % len(names)]  # nobody always comes after the same one
                took, first = self.turn(candidates[name], connections, count, turn)
                best[name] = min(took, best[name][0]), min(first, best[name][1])
        return best


def rows(folder: Path, size: Size) -> Iterator[Row]:
    """See the module."""
    count = 2 * size.frames
    frames = np.random.default_rng(1).integers(0, 4096, (count, 128, 256)).astype("<u2")
    raw = folder / "plain.raw"
    frames.tofile(raw)
    (folder / "mib").mkdir()
    mib = writers.write_mib(folder / "mib", frames, kind="U16", depth=12)
    began = time.perf_counter()
    with vfs.serve(raw, port=0, **_options("raw", raw, 1, count)):
        yield Row("serve, until it answers", time.perf_counter() - began, "s")
    if not shutil.which("cc"):
        print("bench: no C compiler, so no client to measure servers with: apt install gcc libc6-dev", file=sys.stderr)
        return
    programs = {}
    for name in ("http_client", "http_server"):
        programs[name] = folder / name
        source = Path(__file__).with_name(f"{name}.c")
        subprocess.run(["cc", "-O2", "-pthread", "-Wall", "-Wextra", "-o", programs[name], source], check=True)
    client = Client(programs["http_client"])
    ready = folder / "ready"
    ready.mkdir()
    with ExitStack() as stack:
        nginx = [url for n in ("1", "auto") if (url := stack.enter_context(_nginx(folder, ready, n)))]
        in_c = stack.enter_context(_in_c(programs["http_server"], raw))
        least = stack.enter_context(_least(raw))
        if not PEER_PYTHON.exists():
            print("bench: no zarr-http-server to compare with: scripts/bench serve installs it", file=sys.stderr)
        for chunk in sorted({min(n, count) for n in (1, 8, 128)}):
            for n in range(count // chunk):
                (ready / f"{chunk}-{n}").write_bytes(frames[n * chunk : (n + 1) * chunk].tobytes())
            settle(*ready.iterdir(), raw, *(folder / "mib").iterdir())
            for kind, path in (("raw", raw), ("MIB U16", mib)):
                yield from _chunks(client, kind, path, chunk, count, nginx, in_c, least, size)
        yield from _small(client, folder, raw, count, ready, nginx, size)


def _options(kind: str, path: Path, chunk: int, count: int) -> dict[str, object]:
    layout = {"format": "raw", "dtype": "<u2", "sig_shape": (128, 256)} if kind == "raw" else {"nav_shape": (count,)}
    return {**layout, "chunks": (chunk, 128, 256)}


def _chunks(
    client: Client,
    kind: str,
    path: Path,
    chunk: int,
    frames: int,
    nginx: Sequence[str],
    in_c: str,
    least: str,
    size: Size,
) -> Iterator[Row]:
    """Chunks of one size, of which no server has more than a few in a cache of its own."""
    length, names = chunk * FRAME, [f"c/{n}/0/0" for n in range(frames // chunk)]
    options = _options(kind, path, chunk, frames)
    with ExitStack() as stack:
        server = stack.enter_context(vfs.serve(path, port=0, **options))
        candidates = {"ours": Asked(f"{server.url}{path.stem}.zarr/data/", names, length)}
        for n, url in enumerate(nginx):
            candidates[f"nginx {n}"] = Asked(f"{url}{chunk}-", [name.split("/")[1] for name in names], length)
        for name, url in (("C", in_c), ("least", least)):
            candidates[name] = Asked(f"{url}{length}/", [each.split("/")[1] for each in names], length)
        peer = stack.enter_context(_peer(path, options))
        if peer:
            candidates["peer"] = Asked(f"{peer}data/", names, length)
        _equal(candidates)
        for connections in CONNECTIONS:
            # Clients keep their connections: to make one must not be most of what is measured
            count = max(min(frames * FRAME, 32 << 20) // length, (8 if length <= 1 << 20 else 2) * connections)
            best = client.best(candidates, connections, count, size.rounds)
            said = f"serve, {kind}, {length >> 10:,} KiB chunks × {connections}"
            mine = best["ours"][0]
            if nginx:
                theirs = min(took for name, (took, _) in best.items() if name.startswith("nginx"))
                aim = "" if chunk == 1 else "≥ 0.6" if kind == "raw" else "≥ 0.5"
                yield Row(said, theirs / mine, "of nginx", aim)
            yield Row(said, best["C"][0] / mine, "of pread and send in C")
            yield Row(said, best["least"][0] / mine, "of pread and send in asyncio")
            if peer:
                aim = "≥ 3" if length == 512 << 10 else "≥ 1"
                yield Row(said, best["peer"][0] / mine, "of zarr-http-server", aim)
            if peer and nginx:  # what bounds it: to be 3 times as fast may mean to be faster than nginx
                yield Row(f"{said}: nginx", best["peer"][0] / theirs, "of zarr-http-server")
        if chunk == 1 and nginx:  # one chunk again and again: it is in memory
            cached = {name: asked._replace(names=asked.names[:1]) for name, asked in candidates.items()}
            best = client.best(cached, 1, 100, 2 * size.rounds)
            theirs = min(first for name, (_, first) in best.items() if name.startswith("nginx"))
            yield Row(
                f"serve, {kind}, first byte of a chunk in memory",
                best["ours"][1] / theirs,
                "× the time of nginx",
                "≤ 3",
            )


def _small(
    client: Client, folder: Path, raw: Path, frames: int, ready: Path, nginx: Sequence[str], size: Size
) -> Iterator[Row]:
    """Documents, 304s, and short ranges of a long file."""
    long = ready / "long.npy"
    with long.open("wb") as file:
        shape = (LARGE >> 17, 256, 256)
        np.lib.format.write_array_header_1_0(file, {"descr": "<u2", "fortran_order": False, "shape": shape})
        file.truncate(file.tell() + LARGE)  # a hole
    pages = np.random.default_rng(2).integers(0, LARGE >> 12, 1000).tolist()
    ranges = [f"Range: bytes={page << 12}-{(page << 12) + 4095}\r\n" for page in pages]
    options = _options("raw", raw, 1, frames)
    with ExitStack() as stack:
        server = stack.enter_context(vfs.serve(raw, port=0, **options))
        below = f"{server.url}plain.zarr/"
        peer = stack.enter_context(_peer(raw, options))
        with urllib.request.urlopen(f"{below}zarr.json") as answer:
            document = answer.read()
        (ready / "zarr.json").write_bytes(document)
        (ready / "zarr.json").chmod(0o644)
        cases: dict[str, dict[str, Asked]] = {"documents": {}, "304s": {}, "4 KiB of 1 GiB .npy": {}}
        for name, url in [("ours", below), *((f"nginx {n}", url) for n, url in enumerate(nginx)), ("peer", peer)]:
            if not url:
                continue
            cases["documents"][name] = Asked(url, ["zarr.json"], len(document))
            if name != "peer":
                with urllib.request.urlopen(f"{url}zarr.json") as answer:
                    etag = answer.headers["ETag"]
                cases["304s"][name] = Asked(url, ["zarr.json"], 0, 304, [f"If-None-Match: {etag}\r\n"])
                where = url
                if name == "ours":
                    where = stack.enter_context(vfs.serve(long, port=0)).url
                cases["4 KiB of 1 GiB .npy"][name] = Asked(where, ["long.npy"], 4096, 206, ranges)
        for what, candidates in cases.items():
            for connections in CONNECTIONS:
                best = client.best(candidates, connections, max(200, 2 * connections), size.rounds)
                said = f"serve, {what} × {connections}"
                if nginx:
                    theirs = min(took for name, (took, _) in best.items() if name.startswith("nginx"))
                    yield Row(said, theirs / best["ours"][0], "of nginx")
                if "peer" in best:
                    yield Row(said, best["peer"][0] / best["ours"][0], "of zarr-http-server", "≥ 1")


def _equal(candidates: dict[str, Asked]) -> None:
    """Fetch one chunk of all candidates, which must be the same."""
    bodies = set()
    for asked in candidates.values():
        with urllib.request.urlopen(f"{asked.url}{asked.names[-1]}") as answer:
            bodies.add(answer.read())
    assert len(bodies) == 1


@contextmanager
def _running(command: Sequence[str | Path], port: int) -> Iterator[None]:
    """A server that listens on a port, until the block ends."""
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        for _ in range(3000):
            if process.poll() is not None:
                assert process.stderr is not None
                raise RuntimeError(f"{command[0]} ended: {process.stderr.read().decode(errors='replace')[-500:]}")
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except ConnectionRefusedError:
                time.sleep(0.02)
        yield
    finally:
        process.terminate()
        process.communicate()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def _nginx(folder: Path, root: Path, workers: str) -> Iterator[str]:
    """The URL of an nginx; "" if it is not installed."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        if workers == "1":
            print("bench: no nginx to compare with: apt install nginx-light", file=sys.stderr)
        yield ""
        return
    home, port = folder / f"nginx-{workers}", _free_port()
    home.mkdir()
    user = getpass.getuser()
    config = NGINX.format(
        workers=workers, user="user root;" if user == "root" else "", folder=home, port=port, root=root
    )
    (home / "conf").write_text(config)
    with _running([program, "-p", home, "-c", home / "conf"], port):
        yield f"http://127.0.0.1:{port}/"


@contextmanager
def _in_c(program: Path, source: Path) -> Iterator[str]:
    """The URL of the server in C."""
    process = subprocess.Popen([program, source], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/"
    finally:
        process.kill()
        process.communicate()


@contextmanager
def _least(source: Path) -> Iterator[str]:
    """The URL of the server that does the least that one in Python can do."""
    port = _free_port()
    with _running([sys.executable, "-c", LEAST, str(source), str(port)], port):
        yield f"http://127.0.0.1:{port}/"


@contextmanager
def _peer(path: Path, options: dict[str, object]) -> Iterator[str]:
    """The URL of a zarr-http-server; "" if it is not installed."""
    if not PEER_PYTHON.exists():
        yield ""
        return
    port = _free_port()
    with _running([PEER_PYTHON, "-c", PEER, json.dumps([str(path), options, port])], port):
        yield f"http://127.0.0.1:{port}/"
