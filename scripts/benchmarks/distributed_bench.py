"""How fast executors make results of frames: what a partition costs, and 1 to 4 processes against
threads of one process, by the clock. Figures of several processes say something only on a machine
with as many cores that have nothing else to do.

Then what dask's scheduler and its client take for partitions of a petabyte (sparse files), which 100 workers
are sent. These open the set and make buffers, but read nothing: they are in one process. At most 300 partitions
are under way, however many there are: `python -m scripts.benchmarks.distributed_bench 100000` has so many made.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import vfs
from scripts.benchmarks.rows import Row, Size, frames_of
from vfs.engine.open_sets import OPEN
from vfs.reduce import partitions
from vfs.reduce.partitions import Partition, PartitionResult, PartitionWork, PartOfPass

MACHINES, PARTITIONS = 100, 5_000
FILES, FILE = 67, 15 << 40
"""Files of the petabyte, and bytes of one: no file of ext4 is longer than 16 TiB."""
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
    yield from _scheduled(folder, *(MACHINES, PARTITIONS) if size.rounds > 1 else (2, 20))


def _scheduled(folder: Path, machines: int, count: int) -> Iterator[Row]:
    """Have machines that read nothing make the partitions of a petabyte."""
    from distributed import Client

    for k in range(FILES):
        with open(folder / f"part{k:02}.raw", "wb") as file:
            file.truncate(FILE)
    array = vfs.open(f"{folder}/part*.raw", format="raw", dtype="<u2", sig_shape=(256, 256))
    ports = "--host", "127.0.0.1", "--port", "0", "--dashboard-address", ":0", "--no-dashboard"
    told = "--scheduler-file", str(folder / "scheduler.json")
    with _process("-m", "distributed.cli.dask_scheduler", *ports, *told) as scheduler:
        while not (folder / "scheduler.json").exists() and scheduler.poll() is None:
            time.sleep(0.05)
        address = json.loads((folder / "scheduler.json").read_text())["address"]
        with _process("-m", "scripts.benchmarks.distributed_bench", address, str(machines)), Client(address) as client:
            client.wait_for_workers(machines)
            with patch.multiple(partitions, MOST=machines, reduce_partition=answered):
                array.reduce(**ASKED, executor=client)  # each has opened the set
            began = time.perf_counter(), time.process_time(), *_spent(scheduler.pid)
            with patch.multiple(partitions, MOST=count, reduce_partition=answered):
                array.reduce(**ASKED, executor=client)
            ended = time.perf_counter(), time.process_time(), *_spent(scheduler.pid)
    took, own, theirs, memory = (b - a for a, b in zip(began, ended, strict=True))
    each = f"a partition of {count:,}, {machines} workers that read nothing"
    yield Row(each, took / count * 1e3, "ms")
    yield Row(f"{each}: processor of the caller", own / count * 1e3, "ms")
    yield Row(f"{each}: processor of the scheduler", theirs / count * 1e3, "ms")
    yield Row("memory that the scheduler has more afterwards", max(1e-3, memory / (1 << 20)), "MiB")


ASKED = {"h": vfs.Histogram(16, (0, 4096))}


def answered(task: Partition, held: PartitionWork | None = None) -> PartitionResult:
    """Make a partition without its frames."""
    work = held or task.work
    assert work is not None
    array = OPEN.array(work.opening, task.path)
    return partitions._part(
        PartOfPass(array, work.reductions, None, task.first, task.last), array.backend.files.identity()
    )


def _spent(pid: int) -> tuple[float, float]:
    """Return seconds of the processor that a process took, and bytes that it has in memory."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def _process(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    # A hundred workers that look every 10 ms what each does would be all that this process does
    quiet = os.environ | {"DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False"}
    with subprocess.Popen([sys.executable, *command], stderr=subprocess.DEVNULL, env=quiet) as process:
        try:
            yield process
        finally:
            process.terminate()


async def _machines(address: str, count: int) -> None:
    """Be workers, with a thread each, for as long as their scheduler is there."""
    from distributed import Worker

    made = [await Worker(address, nthreads=1, memory_limit=0) for _ in range(count)]
    await asyncio.gather(*(one.finished() for one in made))


def _least(call: Callable[[], object], size: Size) -> float:
    """Least seconds of a call, by the clock."""
    call()
    best = float("inf")
    for _ in range(size.rounds):
        began = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - began)
    return best


if __name__ == "__main__":
    if len(sys.argv) > 2:
        asyncio.run(_machines(sys.argv[1], int(sys.argv[2])))
    else:
        from scripts.benchmarks import distributed_bench  # what is in `__main__` is sent whole, and not by its name

        with tempfile.TemporaryDirectory() as place:
            for row in distributed_bench._scheduled(Path(place), MACHINES, int(sys.argv[1])):
                print(f"{row.name}: {row.value:.2f} {row.unit}")
