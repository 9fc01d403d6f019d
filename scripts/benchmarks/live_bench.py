"""Sets that are still being written: how late an event comes, what following costs, how much is read.

A process writes a MIB set again at a steady rate; what it takes itself is not counted.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import vfs
from scripts.benchmarks.rows import FRAME, STATUS, Row, Size
from vfs.testing.counted import counted
from vfs.testing.recording import Recording
from vfs.testing.writers import write_mib

RATE = 400_000_000  # bytes per second, as fast detectors write
HEADER = 384  # bytes before each frame


def rows(folder: Path, size: Size) -> Iterator[Row]:
    """See the module."""
    source = folder / "live"
    source.mkdir()
    one = np.random.default_rng(5).poisson(3, (size.frames, 256, 256)).astype(np.uint16)
    frames = np.concatenate([one] * 4)
    named = write_mib(source, frames, frames_per_file=size.frames, scan=(4, size.frames))
    files = [named, *sorted(source.glob("*.mib"))]
    late = _late(files, folder / "live1", size.rounds)
    yield Row("from the proof of a frame to the event of a server", late, "s", "<= 1")
    busy, read = _cost(files, folder / "live2", named)
    yield Row("following a writer of 400 MB/s, beside the pass itself", busy, "cores", "<= 0.1")
    yield Row("bytes read by a pass that follows, of those of the set", read, "", "1")
    count = min(65_536, size.frames * 128)
    memory, read = _long(folder / "long", count)
    yield Row(f"peak memory of a pass that follows {count:,} frames, of that of the finished scan", memory, "", "1")
    yield Row("bytes that it reads, of those that the pass over the finished scan reads", read, "", "1")


def _late(files: list[Path], folder: Path, rounds: int) -> float:
    """Return the longest time from the first byte of the frame behind a frame to the event that says so."""
    recording = Recording(files, folder, at_once=0)
    record = HEADER + FRAME
    recording.write(files[0].stat().st_size + 2 * record + 1)
    heard: list[tuple[float, int]] = []
    with vfs.serve([folder / files[0].name], port=0, follow=True, settle=1e9) as server:

        def listen() -> None:
            for line in urllib.request.urlopen(server.url + "api/events"):
                if line.startswith(b"data: ") and b"frames" in line:
                    heard.append((time.monotonic(), json.loads(line[6:])["frames"]))

        threading.Thread(target=listen, daemon=True).start()
        late = []
        for n in range(3, 3 + max(2, rounds)):
            recording.write(record)
            written = time.monotonic()
            while not (times := [at for at, frames in list(heard) if frames >= n]):
                time.sleep(0.002)
                if time.monotonic() - written > 30:
                    raise TimeoutError(f"no event of frame {n}")
            late.append(times[0] - written)
    return max(late)


def _cost(files: list[Path], folder: Path, named: Path) -> tuple[float, float]:
    """Return the cores that following takes besides what the pass takes, and the bytes read as a share of the set."""
    command = [sys.executable, "-m", "vfs.testing.recording", str(folder), *map(str, files), "--rate", str(RATE)]
    total = sum(file.stat().st_size for file in files)
    kind = vfs.FrameSum()
    finished = vfs.open(named, backend="buffered")
    finished.reduce(workers=1, total=kind)  # loads kernels
    began = time.process_time()
    finished.reduce(workers=1, total=kind)
    alone = time.process_time() - began
    writer = subprocess.Popen(command)
    try:
        while True:
            try:
                scan = vfs.open(folder / named.name, follow=True, backend="buffered", settle=0.5)
                break
            except vfs.VfsError:
                time.sleep(0.01)
        before, began = time.process_time(), time.monotonic()
        _, nbytes = counted(lambda: scan.reduce(follow=True, workers=1, total=kind), "self")
        busy, lasted = time.process_time() - before - alone, time.monotonic() - began
    finally:
        writer.wait()
    return max(0.0, busy) / lasted, nbytes / total


_PASS = (
    STATUS
    + """
import sys, time, vfs
from vfs.testing.counted import counted
path, how = sys.argv[1], {"follow": True} if sys.argv[2:] else {}
while True:
    try:
        scan = vfs.open(path, backend="buffered", **how)
        break
    except vfs.VfsError:
        time.sleep(0.02)
_, nbytes = counted(lambda: scan.reduce(workers=1, total=vfs.FrameSum(), **how), "self")
print(status("VmHWM:"), nbytes)
"""
)


def _long(folder: Path, count: int) -> tuple[float, float]:
    """Follow a scan of many small frames, in a process of its own, and go through it when it is finished.

    Returns: peak memory and bytes read of the first, as shares of those of the second.
    """
    source, copy = folder / "finished", folder / "microscope"
    source.mkdir(parents=True)
    frames = np.random.default_rng(6).integers(1, 4000, (count, 32, 32), "u2")
    named = write_mib(source, frames, frames_per_file=count // 4, scan=(256, count // 256))
    files = [named, *sorted(source.glob("*.mib"))]
    writer = subprocess.Popen([sys.executable, "-m", "vfs.testing.recording", copy, *files, "--rate", "16MB"])
    found = []
    try:
        for path, more in ((copy / named.name, ["follow"]), (named, [])):
            made = subprocess.run([sys.executable, "-c", _PASS, path, *more], stdout=subprocess.PIPE, check=True)
            found.append([int(word) for word in made.stdout.split()])
    finally:
        writer.wait()
    (memory, nbytes), (memory_after, nbytes_after) = found
    return memory / memory_after, nbytes / nbytes_after
