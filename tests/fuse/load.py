"""Load: processes that read a mount at random for as long as is asked, every byte compared, while
the server is watched.

A set of frames with headers between them, in several files, is mounted by `vfs mount`: as many
chunk files as are asked for, of one frame each, and the .npy face. Its elements are a function of
their place, so that a reader can compute what it must get. The server's memory, threads and
descriptors are looked at every second; after half of the time none of it may grow.

    scripts/load [--seconds N] [--processes N] [--chunks N] [--cache BYTES]

Ctrl-C, SIGTERM and SIGHUP end it at the next opportunity, with nothing left mounted or lying about.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.fuse.support import free
from vfs.fuse import unmount

FRAME = (16, 32)  # 1 KiB of uint16
SIZE = 16 * 32 * 2
HEADER = 64
FILES = 20
SLACK = 150 << 20  # bytes of anonymous memory beside the cache and two chunks a thread
GROWTH = 16 << 20  # bytes that it may grow in the second half of the time
LONG = 30  # seconds from which on growth is judged


def values(first: int, last: int) -> np.ndarray:
    """The elements `first` to `last` of the array, C order, uint16."""
    at = np.arange(first, last, dtype=np.uint64)
    return ((at * np.uint64(40503) + (at >> np.uint64(9)) * np.uint64(7)) & np.uint64(0xFFFF)).astype("<u2")


def write(folder: Path, chunks: int) -> None:
    """The set: `chunks` frames, big-endian, in `FILES` files."""
    elements = SIZE // 2
    for n, part in enumerate(np.array_split(np.arange(chunks), FILES)):
        records = np.zeros((len(part), HEADER + SIZE), np.uint8)
        pixels = values(int(part[0]) * elements, int(part[-1] + 1) * elements).astype(">u2")
        records[:, HEADER:] = pixels.view(np.uint8).reshape(len(part), SIZE)
        records.tofile(folder / f"part{n:02}.raw")


def read(point: str, name: str, chunks: int, seconds: float, seed: int) -> dict[str, int]:
    """What one process does. Returns how much it read and how often that was something else than it should be."""
    rng = random.Random(seed)
    done = {"reads": 0, "bytes": 0, "wrong": 0, "errors": 0}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if rng.random() < 0.7:
            k = rng.randrange(chunks)
            path, at, size, first = (
                f"{point}/{name}.{rng.choice(['zarr/data/c', 'v2.zarr/data'])}/{k}/0/0",
                0,
                SIZE,
                k * SIZE,
            )
        else:
            size = rng.choice([100, 4096, 100_000, 1 << 20])
            first = rng.randrange(chunks * SIZE - size)
            path, at = f"{point}/{name}.npy", 128 + first
        try:
            fd = os.open(path, os.O_RDONLY)
            try:
                if rng.random() < 0.5:
                    # What the kernel has of it: the server is to be asked
                    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                got = os.pread(fd, size, at)
            finally:
                os.close(fd)
        except OSError:
            done["errors"] += 1
            continue
        want = values(first // 2, -(-(first + size) // 2)).tobytes()[first % 2 :][:size]
        done["reads"] += 1
        done["bytes"] += len(got)
        done["wrong"] += got != want
    return done


@dataclass(frozen=True)
class Seen:
    """A look at the server."""

    anonymous: int
    resident: int
    threads: int
    descriptors: int

    @classmethod
    def of(cls, pid: int) -> Seen:
        status = Path(f"/proc/{pid}/status").read_text()
        number = {key: int(value) for key, value in re.findall(r"^(RssAnon|VmRSS|Threads):\s+(\d+)", status, re.M)}
        return cls(
            number["RssAnon"] << 10, number["VmRSS"] << 10, number["Threads"], len(os.listdir(f"/proc/{pid}/fd"))
        )


def load(
    folder: Path, seconds: float, processes: int, chunks: int, cache: int, go_on: Callable[[], None] = lambda: None
) -> dict[str, object]:
    """Put a mount under load. Returns figures, and what was wrong under "problems".

    Args:
        go_on: asked now and then; what it raises ends us.
    """
    data, point, runtime = folder / "data", folder / "mnt", folder / "runtime"
    data.mkdir()
    point.mkdir()
    runtime.mkdir(mode=0o700)
    write(data, chunks)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "XDG_RUNTIME_DIR": str(runtime)}
    options = [
        "--format",
        "raw",
        "-o",
        "dtype=>u2",
        "-o",
        f"sig_shape={FRAME[0]},{FRAME[1]}",
        "-o",
        f"frame_header={HEADER}",
    ]
    command = [
        sys.executable,
        "-P",
        "-m",
        "vfs",
        "mount",
        *options,
        "--chunks",
        "1,16,32",
        "--cache-size",
        str(cache),
        f"{data}/part*.raw",
        str(point),
    ]
    log = (folder / "log").open("w+")
    server = subprocess.Popen(command, stderr=log, env=environment)
    readers: list[subprocess.Popen[str]] = []
    try:
        while not os.path.ismount(point):
            go_on()
            if server.poll() is not None:
                raise RuntimeError((folder / "log").read_text())
            time.sleep(0.05)
        name = next(entry.removesuffix(".npy") for entry in os.listdir(point) if entry.endswith(".npy"))
        idle = Seen.of(server.pid)
        code = "import json, sys; from tests.fuse.load import read; a = sys.argv; print(flush=True); sys.stdin.read(); "
        code += "print(json.dumps(read(a[1], a[2], int(a[3]), float(a[4]), int(a[5]))))"
        waits, begins = os.pipe()
        for seed in range(processes):
            arguments = [str(point), name, str(chunks), str(seconds), str(seed)]
            command = [sys.executable, "-c", code, *arguments]
            # Ctrl-C is for us
            readers.append(
                subprocess.Popen(
                    command, stdin=waits, stdout=subprocess.PIPE, text=True, env=environment, process_group=0
                )
            )
        os.close(waits)
        for reader in readers:  # all at once: a server that some of them have not come to yet would seem to grow
            assert reader.stdout is not None
            reader.stdout.readline()
            go_on()
        os.close(begins)
        seen: list[Seen] = []
        start = time.monotonic()
        while any(reader.poll() is None for reader in readers) and time.monotonic() < start + seconds + 300:
            go_on()
            seen.append(Seen.of(server.pid))
            time.sleep(min(1.0, seconds / 20))
        took = time.monotonic() - start
        said = [json.loads(reader.communicate(timeout=250)[0] or '{"errors": 1}') for reader in readers]
        unmount(point)
        status = server.wait(100)
    finally:
        for process in (*readers, server):
            process.kill()
            process.wait()
        log.close()
        free(point)
    total = {key: sum(one.get(key, 0) for one in said) for key in ("reads", "bytes", "wrong", "errors")}
    first, rest = seen[: len(seen) // 2], seen[len(seen) // 2 :]
    before = {name: max(getattr(one, name) for one in first) for name in ("anonymous", "threads", "descriptors")}
    peak = max(one.anonymous for one in seen)
    threads, descriptors = max(one.threads for one in rest), max(one.descriptors for one in rest)
    limit = cache + 2 * SIZE * threads + SLACK
    # Of less the cache fills, and threads begin, all the time
    growth = rest[-1].anonymous - before["anonymous"] if seconds >= LONG else 0
    checks = {
        f"{total['wrong']} reads were not what they should be": total["wrong"] > 0,
        f"{total['errors']} reads failed": total["errors"] > 0,
        "nothing was read": total["reads"] == 0,
        f"the server ended with status {status}": status != 0,
        f"{peak >> 20} MiB of memory, the limit is {limit >> 20} MiB": peak > limit,
        f"memory grew by {growth >> 20} MiB": growth > GROWTH,
        f"threads grew from {before['threads']} to {rest[-1].threads}": (
            seconds >= LONG and rest[-1].threads > before["threads"] + 2
        ),
        f"{threads} threads": threads > 32,
        f"descriptors grew from {before['descriptors']} to {rest[-1].descriptors}": (
            seconds >= LONG and rest[-1].descriptors > before["descriptors"] + 2
        ),
        f"{descriptors} descriptors": descriptors > 2 * FILES + 64,
    }
    return {
        "seconds": round(took, 1),
        "processes": processes,
        "chunks": chunks,
        "reads": total["reads"],
        "MiB": total["bytes"] >> 20,
        "memory, MiB": {
            "idle": idle.anonymous >> 20,
            "most of the first half": before["anonymous"] >> 20,
            "end": rest[-1].anonymous >> 20,
            "most": peak >> 20,
        },
        "limit, MiB": limit >> 20,
        "resident with files, MiB": max(one.resident for one in seen) >> 20,
        "threads": {"idle": idle.threads, "end": rest[-1].threads, "most": threads},
        "descriptors": {"idle": idle.descriptors, "end": rest[-1].descriptors, "most": descriptors},
        "problems": [what for what, wrong in checks.items() if wrong],
    }


def main() -> int:
    """Returns the exit status: 1 where something was wrong."""
    parser = argparse.ArgumentParser(
        description="Puts a mount under load: processes that read at random, every byte compared."
    )
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--processes", type=int, default=32)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--cache", type=int, default=64 << 20, help="bytes")
    given = parser.parse_args()
    signals: list[int] = []

    # Asked where nothing is half done: an exception of a handler could strike before we know of
    # what was just started
    def go_on() -> None:
        if signals:
            raise SystemExit(128 + signals[0])

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: signals.append(number))
    with tempfile.TemporaryDirectory(prefix="vfs-load-") as folder:
        found = load(Path(folder), given.seconds, given.processes, given.chunks, given.cache, go_on)
    for name, value in found.items():
        print(f"{name:>26}  {value}")
    return 1 if found["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
