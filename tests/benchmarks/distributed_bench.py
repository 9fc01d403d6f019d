"""How fast executors make results of frames: what a partition costs, and 1 to 4 processes against
threads of one process, by the clock. Figures of several processes say something only on a machine
with as many cores that have nothing else to do.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import vfs
from tests.benchmarks.rows import Row, Size, frames_of
from vfs.reduce import partitions

WORK: dict[str, vfs.Reduction] = {"a": vfs.Disk(128, 128, 41), "b": vfs.CenterOfMass(), "c": vfs.Sum()}


@contextmanager
def dask(workers: int) -> Iterator[Any]:
    """A cluster of processes with a thread each."""
    from distributed import Client, LocalCluster

    how: dict[str, Any] = {"processes": True, "host": "127.0.0.1", "dashboard_address": ":0"}
    with LocalCluster(n_workers=workers, threads_per_worker=1, **how) as cluster, Client(cluster) as client:
        yield client


def processes(workers: int) -> ProcessPoolExecutor:
    """A pool of processes."""
    return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))


EXECUTORS: dict[str, Callable[[int], Any]] = {"threads": ThreadPoolExecutor, "processes": processes, "dask": dask}


def rows(folder: Path, size: Size) -> Iterator[Row]:
    """See the module."""
    frames_of(size.frames).tofile(folder / "plain.raw")
    array = vfs.open(folder / "plain.raw", format="raw", dtype="<u2", sig_shape=(256, 256))
    one = _least(lambda: array.reduce(**WORK, workers=0), size)
    two = _least(lambda: array.reduce(**WORK, workers=2), size)
    yield Row("2 threads, no executor", one / two, "of one thread")
    few = max(1, array.nbytes // 4)
    for name, made in EXECUTORS.items():
        for workers in (1, 2, 4) if size.rounds > 1 else (1,):
            with made(workers) as executor, patch.object(partitions, "RETURNED", 0):
                with patch.object(partitions, "PARTITION", few):
                    mine = _least(lambda executor=executor: array.reduce(**WORK, executor=executor), size)  # type: ignore[misc]
                yield Row(f"{name}, {workers}", one / mine, "of one thread")
                if workers > 1:
                    continue
                with patch.object(partitions, "PARTITION", few // 8):
                    many = _least(lambda executor=executor: array.reduce(**WORK, executor=executor), size)  # type: ignore[misc]
            yield Row(f"{name}, a partition more", max(1e-3, (many - mine) / 28 * 1e3), "ms")


def _least(call: Callable[[], object], size: Size) -> float:
    """Least seconds of a call, by the clock."""
    call()
    best = float("inf")
    for _ in range(size.rounds):
        began = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - began)
    return best
