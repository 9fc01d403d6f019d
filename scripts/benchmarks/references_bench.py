"""References: how long a process takes to write them for 10 ** 6 chunks, and how much its memory grows.

The frames lie between headers in four files that are holes, so that each is a chunk. What a process takes to start, and
to open the set, is not counted; what it loads to write them is.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from scripts.benchmarks.rows import TINY, Row, Size

COUNT = 1_000_000
_HEADER, _SIDE = 384, 64
_WRITE = f"""
import os, sys, time, vfs
options = dict(format="raw", stored_dtype=">u2", sig_shape=({_SIDE}, {_SIDE}), frame_header={_HEADER})
group = vfs.open_group(sys.argv[3:], **options)
def memory(what):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(what)) / 1024
before, started = memory("VmRSS:"), time.perf_counter()
vfs.export(group, sys.argv[1], to=sys.argv[2])
print(time.perf_counter() - started, memory("VmHWM:") - before)
"""


def rows(folder: Path, size: Size) -> Iterator[Row]:
    """See the module."""
    count = 1000 if size is TINY else COUNT
    files = []
    for n in range(4):
        files.append(folder / f"holes{n}.raw")
        with files[-1].open("wb") as file:
            file.truncate(count // 4 * (_HEADER + 2 * _SIDE * _SIDE))
    for name, to, seconds, mib in (
        ("refs.parquet", "kerchunk", "≤ 2", "≤ 150"),
        ("refs.json", "kerchunk", "", ""),
        ("refs.icechunk", "icechunk", "", ""),
    ):
        command = [sys.executable, "-c", _WRITE, folder / name, to, *files]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        took, grew = map(float, done.stdout.split())
        yield Row(f"{count:,} references, {name}", took, "s", seconds)
        yield Row(f"{count:,} references, {name}: memory", max(0.01, grew), "MiB", mib)
