"""Processes of their own: how long they take to their help, to `info`, a first frame, a mount, a picture and a result,
with kernels compiled and without; and how much memory a long pass takes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

from scripts.benchmarks.rows import FRAME, STATUS, TINY, Row, Size, frames_of
from tests import first_uses
from vfs.testing.tiff_writers import write_tiff
from vfs.testing.writers import write_mib, write_npy

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
_SMALL = "a.reduce(bf=vfs.Disk(cy=32, cx=32, r=10))['bf'].data"
_PASS = (
    STATUS
    + """
import sys, vfs
from vfs.engine.cache import ChunkCache
limit = int(sys.argv[2])
def opened(most):
    options = dict(format='raw', dtype='<u2', sig_shape=(256, 256), chunks='scan', backend='buffered')
    return vfs.open(sys.argv[1], **options, cache=ChunkCache(most))
next(opened(limit).tiles(workers=0))  # kernels, scratch memory
before = status("VmHWM:")
array = opened(limit)
for _, tile in array.tiles(workers=0):
    tile.sum()
print(max(1, status("VmHWM:") - before) * 1024 / limit)
"""
)


def rows(folder: Path, size: Size) -> Iterator[Row]:
    """See the module."""
    yield from _commands(folder, size)
    large, mib = _gibibyte(folder, size)
    images = (_RAW + _IMAGE, large), (_MIB + _IMAGE, mib), (_NUMPY + _IMAGE_BY_NUMPY, large)
    *took, limit = (_median(partial(_took, sys.executable, "-c", *made), size) for made in images)
    for kind, seconds in zip(("raw", "MIB"), took, strict=True):
        yield Row(f"a fresh process to a bright-field image of 1 GiB, {kind}", seconds, "s", "≤ 0.6 s")
        yield Row(f"the same, {kind}", seconds / limit, "of numpy's time for raw")
    yield from _nothing_compiled(folder, size)
    frames = frames_of(size.frames)
    raw = folder / "start.raw"
    frames.tofile(raw)
    done = subprocess.run(
        [sys.executable, "-c", _PASS, str(raw), str(frames.nbytes // 10)], capture_output=True, text=True, check=True
    )
    yield Row("peak memory of a pass over ten times the cache", float(done.stdout), "of the cache", "≤ 3")


def _commands(folder: Path, size: Size) -> Iterator[Row]:
    """What people type all day: the help, `info`, a first frame, a mount, a page."""

    def took(*words: str | Path) -> float:
        return _median(partial(_took, sys.executable, *words), size)

    yield Row("vfs --help", took("-m", "vfs", "--help"), "s", "≤ 0.12 s")
    yield Row("vfs completes a word", took("-m", "vfs", "completion", "bash", "--", "in"), "s", "≤ 0.12 s")
    small = _made(folder / "small")
    paths = [*first_uses.sets(small), write_npy(small, frames_of(64), name="frames.npy")]
    for path in paths:
        yield Row(f"vfs info {path.name}", took("-m", "vfs", "info", path), "s", "≤ 0.40 s")
    for path in paths:
        yield Row(f"a fresh process to its first frame, {path.name}", took("-c", _MIB + _FRAME, path), "s", "≤ 0.25 s")
    least, most = (took("-m", "vfs", "info", "-r", _sets(folder / str(n), n)) for n in (3, 300))
    yield Row("vfs info FOLDER, each set of 300 more", (most - least) / 297 * 1000, "ms", "≤ 12 ms")

    def until(use: Callable[[], AbstractContextManager[None]]) -> float:
        return _median(lambda: _entered(use()), size)

    for path in (paths[0], paths[-1]):
        pictured = until(partial(first_uses.pictured, path))
        yield Row(f"vfs {path.name} to the numbers of its first picture", pictured, "s", "≤ 1.5 s")
        mounted = until(partial(first_uses.mounted, path, folder / "mnt"))
        yield Row(f"vfs mount {path.name} --background, and a first read", mounted, "s", "≤ 0.6 s")


def _nothing_compiled(folder: Path, size: Size) -> Iterator[Row]:
    """The same where no kernel is compiled yet."""
    paths = first_uses.sets(_made(folder / "uncompiled"))
    for what, code, aim in (("first frame", _FRAME, "≤ 1.5 s"), ("first bright-field image", _SMALL, "≤ 1.2 s")):
        took = []
        for _ in range(1 + size.rounds // 4):
            with tempfile.TemporaryDirectory() as kernels:
                took.append(_took(sys.executable, "-c", _MIB + code, paths[0], NUMBA_CACHE_DIR=kernels))
        yield Row(f"a {what} with no kernel compiled yet, MIB", min(took), "s", aim)


def _sets(folder: Path, count: int) -> Path:
    """Write small sets of three formats into a folder."""
    frame = frames_of(1)[:, :64, :64]
    for k in range(count):
        which = _made(folder / f"{k:03}")
        if k % 3 == 0:
            write_mib(which, frame, prefix=f"scan{k}", hdr=False)
        elif k % 3 == 1:
            write_npy(which, frame, name=f"frame{k}.npy")
        else:
            write_tiff(which / f"image{k}.tif", list(frame))
    return folder


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def _gibibyte(folder: Path, size: Size) -> tuple[Path, Path]:
    """Write a set of 1 GiB, or a small one where little is to be measured, as raw and as MIB."""
    count = size.frames if size == TINY else (1 << 30) // FRAME
    frames = np.resize(frames_of(min(count, 64)), (count, 256, 256))
    frames.tofile(folder / "large.raw")
    mib = folder / "mib"
    mib.mkdir()
    return folder / "large.raw", write_mib(mib, frames)


def _median(took: Callable[[], float], size: Size) -> float:
    """Median of eleven times; one before them brings files and kernels into memory."""
    took()
    return median(took() for _ in range(1 if size == TINY else 11))


def _took(*command: str | Path, **environment: str) -> float:
    """Seconds of a process."""
    began = time.perf_counter()
    subprocess.run(command, env=os.environ | environment, capture_output=True, check=True)
    return time.perf_counter() - began


def _entered(use: AbstractContextManager[None]) -> float:
    """Seconds until something is there."""
    began = time.perf_counter()
    with use:
        return time.perf_counter() - began
