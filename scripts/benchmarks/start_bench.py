"""Processes of their own: how long they take to their first frame, to a first result and to their
help, and how much memory a long pass takes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from scripts.benchmarks.rows import FRAME, TINY, Row, Size, frames_of
from vfs.testing.writers import write_mib

_RAW = "import sys, vfs; a = vfs.open(sys.argv[1], format='raw', dtype='<u2', sig_shape=(256, 256)); "
_MIB = "import sys, vfs; a = vfs.open(sys.argv[1]); "
_FRAME = "a[3]"
_IMAGE = "a.reduce(bf=vfs.Disk(cy=128, cx=128, r=41))['bf'].data"
_NUMPY = "import sys, numpy as np; a = np.memmap(sys.argv[1], '<u2').reshape(-1, 256, 256); "
_IMAGE_BY_NUMPY = """
y, x = np.ogrid[:256, :256]
disk = (y - 128) ** 2 + (x - 128) ** 2 < 41 ** 2
[frame[disk].sum() for frame in a]
"""
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
    large, mib = _gibibyte(folder, size)
    for what, code, by_numpy, aim in (
        ("its first frame", _FRAME, _FRAME, "≤ 0.5 s"),
        ("a bright-field image of 1 GiB", _IMAGE, _IMAGE_BY_NUMPY, "≤ 1 s"),
    ):
        limit = _best(_NUMPY + by_numpy, large, size)
        for kind, opens, path in (("raw", _RAW, large), ("MIB", _MIB, mib)):
            took = _best(opens + code, path, size)
            yield Row(f"a fresh process to {what}, {kind}", took, "s", aim)
            yield Row(f"the same, {kind}", took / limit, "of numpy's time for raw")
    empty = []
    for _ in range(1 + size.rounds // 4):
        with tempfile.TemporaryDirectory() as kernels:
            empty.append(_took(_RAW + (_FRAME if size == TINY else _IMAGE), raw, NUMBA_CACHE_DIR=kernels))
    yield Row("a first bright-field image with no kernel compiled yet", min(empty), "s")
    yield Row("vfs --help", _best(_HELP, raw, size), "s", "≤ 0.25 s")
    done = subprocess.run(
        [sys.executable, "-c", _PASS, str(raw), str(frames.nbytes // 10)], capture_output=True, text=True, check=True
    )
    yield Row("peak memory of a pass over ten times the cache", float(done.stdout), "of the cache", "≤ 3")


def _gibibyte(folder: Path, size: Size) -> tuple[Path, Path]:
    """Write a set of 1 GiB, or a small one where little is to be measured, as raw and as MIB."""
    count = size.frames if size == TINY else (1 << 30) // FRAME
    frames = np.resize(frames_of(min(count, 64)), (count, 256, 256))
    frames.tofile(folder / "large.raw")
    mib = folder / "mib"
    mib.mkdir()
    return folder / "large.raw", write_mib(mib, frames)


def _best(code: str, path: Path, size: Size) -> float:
    """Least seconds of a process, of a few: the first one brings files and kernels into memory."""
    return min(_took(code, path) for _ in range(1 if size == TINY else 5))


def _took(code: str, path: Path, **environment: str) -> float:
    """Seconds of a process."""
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", code, str(path)], env=os.environ | environment, capture_output=True, check=True
    )
    return time.perf_counter() - began
