"""Processes of their own: how long they take to their first frame and to their help, and how much
memory a long pass takes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.rows import Row, Size, frames_of

_FRAME = (
    "import sys, vfs; vfs.open(sys.argv[1], format='raw', dtype='<u2', sig_shape=(256, 256), backend='buffered')[3]"
)
_HELP = "from vfs.cli.app import main; main(['--help'])"
_PASS = """
import resource, sys, vfs
from vfs.engine.cache import ChunkCache
limit = int(sys.argv[2])
def opened(most):
    options = dict(format='raw', dtype='<u2', sig_shape=(256, 256), chunks='scan', backend='buffered')
    return vfs.open(sys.argv[1], **options, cache=ChunkCache(most))
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
next(opened(limit).tiles(workers=0))  # kernels, scratch memory
before = peak()
array = opened(limit)
for _, tile in array.tiles(workers=0):
    tile.sum()
print(max(1, peak() - before) / limit)
"""


def rows(folder: Path, size: Size) -> Iterator[Row]:
    """See the module."""
    raw = folder / "start.raw"
    frames = frames_of(size.frames)
    frames.tofile(raw)
    yield Row(
        "a fresh process to its first frame", min(_took(_FRAME, raw) for _ in range(1 + size.rounds // 2)), "s", "≤ 1 s"
    )
    empty = []
    for _ in range(1 + size.rounds // 4):
        with tempfile.TemporaryDirectory() as kernels:
            empty.append(_took(_FRAME, raw, NUMBA_CACHE_DIR=kernels))
    yield Row("the same with no kernel compiled yet", min(empty), "s", "≤ 3 s")
    yield Row("vfs --help", min(_took(_HELP, raw) for _ in range(1 + size.rounds // 2)), "s", "≤ 0.25 s")
    done = subprocess.run(
        [sys.executable, "-c", _PASS, str(raw), str(frames.nbytes // 10)], capture_output=True, text=True, check=True
    )
    yield Row("peak memory of a pass over ten times the cache", float(done.stdout), "of the cache", "≤ 3")


def _took(code: str, path: Path, **environment: str) -> float:
    """Seconds of a process."""
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", code, str(path)], env=os.environ | environment, capture_output=True, check=True
    )
    return time.perf_counter() - began
