"""What every benchmark gives: rows, and how much of it is measured; and how one is taken.

A set that lies whole in the processor's cache says something else than one that does not: copying
then runs at several times the speed of memory. So sets are at least four times as large as the
largest cache of this machine, reads and copies go on through all of it, and what is about sets that
fit the cache says so.
"""

from __future__ import annotations

import os
import platform
import re
import sys
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from vfs import VirtualArray


class Row(NamedTuple):
    """A line of the table: what was measured, its value, in what, and what is aimed at."""

    name: str
    value: float
    unit: str
    aim: str = ""


class Size(NamedTuple):
    """How much to measure: the real thing, or just enough to see that it runs."""

    frames: int  # of 128 KiB, in one file
    files: int  # of one frame each
    rounds: int
    seconds: float  # a measurement goes on for


STATUS = """
def status(name):  # KiB; ru_maxrss begins with that of the process which started this one
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name))
"""
"""What the code of a process begins with that says how much memory it took: "VmHWM:", "VmRSS:"."""
FRAME = 256 * 256 * 2
"""Bytes of the frames that are measured."""
READ = 8 << 20
"""Bytes that are read at once: more than a core's own cache has."""


def caches() -> dict[str, int]:
    """Bytes of the caches of a core, "L1d", "L2", "L3", as far as the system tells them."""
    found = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, said = ((index / name).read_text().strip() for name in ("level", "type", "size"))
        if kind != "Instruction" and (number := re.fullmatch(r"(\d+)([KM]?)", said)):
            found[f"L{level}{'d' if kind == 'Data' else ''}"] = int(number[1]) << {"": 0, "K": 10, "M": 20}[number[2]]
    return found


def machine() -> str:
    """What figures depend on, in a line: the processor and its caches, how many cores, what is
    installed, what else is running.
    """
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    model = re.search(r"^model name\s*: (.+)$", info, re.M)
    sizes = ", ".join(f"{name} {nbytes >> 10:,} KiB" for name, nbytes in caches().items()) or "caches unknown"
    name = model[1].strip() if model else platform.machine()
    return (
        f"{name}, {os.cpu_count()} cores, {sizes}; Python {sys.version.split()[0]}, numpy {np.__version__}; load"
        f" {os.getloadavg()[0]:.1f}"
    )


_LARGEST = max(caches().values(), default=0)
FULL = Size(max(512, 4 * _LARGEST // FRAME), 8192, 7, 0.15)
FITS = min(READ, _LARGEST // 4 or READ)
"""Bytes of a set that lies in the largest cache together with what is made of it and what that is compared with."""
TINY = Size(32, 40, 1, 0.0)


def against(candidate: Callable[[], object], limit: Callable[[], object], size: Size) -> tuple[float, float]:
    """Best seconds of (candidate, limit), taken in turns."""
    best = [float("inf"), float("inf")]
    for _ in range(size.rounds):
        for i, call in enumerate((candidate, limit)):
            call()
            began = time.perf_counter()
            n = 0
            while n == 0 or time.perf_counter() - began < size.seconds:
                once = time.perf_counter()
                call()
                best[i] = min(best[i], time.perf_counter() - once)
                n += 1
    return best[0], best[1]


def going_on(frames: int, nbytes: int) -> Callable[[], slice]:
    """Gives the next frames each time, as many as make `READ` bytes, from the first to the last and
    from the first again.

    Args:
        frames: how many there are; nbytes: of one.
    """
    n = max(1, min(frames, READ // nbytes))
    parts: Iterator[slice] = cycle([slice(first, first + n) for first in range(0, frames - n + 1, n)])
    return lambda: next(parts)


def walk(array: VirtualArray) -> tuple[Callable[[], object], Callable[[], object]]:
    """Reading an array of frames [n, y, x] and its limit, each into memory for all of it.

    Returns: (a read of the next frames, an `np.copyto` of the next of as many bytes).
    """
    out = np.zeros(array.shape, array.dtype)
    warm = np.ones_like(out)
    mine, theirs = going_on(len(out), out[0].nbytes), going_on(len(out), out[0].nbytes)

    def read() -> None:
        part = mine()
        array.read((part,), out[part])

    def copied() -> None:
        part = theirs()
        np.copyto(out[part], warm[part])

    return read, copied


def share(
    name: str,
    candidate: Callable[[], object],
    limit: Callable[[], object],
    size: Size,
    unit: str = "of memcpy",
    aim: str = "",
) -> Row:
    """How much of the limit's speed the candidate reaches (1 = as fast)."""
    mine, theirs = against(candidate, limit, size)
    return Row(name, theirs / mine, unit, aim)


def spent(name: str, call: Callable[[], object], size: Size, aim: str = "") -> Row:
    """Microseconds a call takes."""
    return Row(name, against(call, lambda: None, size)[0] * 1e6, "µs", aim)


def frames_of(count: int, shape: tuple[int, int] = (256, 256), dtype: str = "u2", most: int = 4095) -> np.ndarray:
    """Frames of noise."""
    return np.random.default_rng(1).integers(0, most + 1, (count, *shape)).astype(dtype)


def drop_cache(*paths: Path) -> None:
    """Ask the kernel to forget the pages of these files."""
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)
