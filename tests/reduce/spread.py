"""Reductions and questions that tests send to the workers of executors, which import this module."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import vfs
from vfs.sets.opening import Opening

_opened: list[str] = []
_open = Opening.open


class FrameMean(vfs.Reduction):
    """Asks for tiles, so that nothing is taken where it lies."""

    def buffers(self, frames: Any) -> Mapping[str, Any]:
        return {"x": ("nav", "f8", ())}

    def process(self, tile: np.ndarray, region: vfs.Region, buffers: Mapping[str, np.ndarray]) -> None:
        buffers["x"][:] = tile.mean(axis=(1, 2))


class Where(FrameMean):
    """Says of every frame where among those selected it was said to be."""

    def process(self, tile: np.ndarray, region: vfs.Region, buffers: Mapping[str, np.ndarray]) -> None:
        buffers["x"][:] = np.arange(region.start[0], region.stop[0])


class Slow(FrameMean):
    """Takes its time with each frame, more after some, and writes a byte into a file for it."""

    tile_bytes = 1

    def __init__(self, log: Path) -> None:
        self.log = log

    def process(self, tile: np.ndarray, region: vfs.Region, buffers: Mapping[str, np.ndarray]) -> None:
        with self.log.open("ab", buffering=0) as file:
            file.write(b"." * len(tile))
            many = file.tell() > 80
        time.sleep(0.2 if many else 0.02)


class Deadly(FrameMean):
    """Kills the process that takes some frame: the first one of all that do."""

    def __init__(self, marker: Path, frame: int) -> None:
        self.marker, self.frame = marker, frame

    def process(self, tile: np.ndarray, region: vfs.Region, buffers: Mapping[str, np.ndarray]) -> None:
        if region.start[0] <= self.frame < region.stop[0]:
            try:
                self.marker.touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        super().process(tile, region, buffers)


class Broken(FrameMean):
    """Has a mistake that the frames bring out."""

    def process(self, tile: np.ndarray, region: vfs.Region, buffers: Mapping[str, np.ndarray]) -> None:
        raise ZeroDivisionError("no")


def count_opening() -> None:
    """Count from now on how often this process opens sets."""

    def counted(self: Opening, *args: Any) -> Any:
        _opened.append(self.paths[0])
        return _open(self, *args)

    _opened.clear()
    Opening.open = counted  # type: ignore[method-assign]


def opened() -> int:
    """How often this process opened sets; stops counting."""
    Opening.open = _open  # type: ignore[method-assign]
    return len(_opened)


def is_busy(dask_worker: Any) -> bool:
    """Whether a worker of dask has tasks."""
    return bool(len(dask_worker.state.executing) + len(dask_worker.state.ready))


def read_so_far() -> int:
    """Bytes that this process has read from files."""
    found = re.search(r"rchar: (\d+)", Path("/proc/self/io").read_text())
    assert found is not None
    return int(found[1])


def mapped() -> int:
    """Bytes of files that lie in the memory of this process."""
    found = re.search(r"RssFile:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) << 10


def reduced(path: str, options: Mapping[str, Any], reductions: Mapping[str, vfs.Reduction]) -> None:
    """Make a pass in this process, which loads what it needs."""
    vfs.open(path, **options).reduce(**reductions, workers=0)
