"""Arrays as dask arrays on a cluster of processes: what they open, keep and say, and what a lost one costs."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.reduce import spread
from tests.waiting import eventually
from vfs.sets.opening import Opening
from vfs.testing.writers import write_npy, write_raw

distributed = pytest.importorskip("distributed")
dask = pytest.importorskip("dask")

HOW: dict[str, Any] = {"format": "raw", "dtype": "u2", "sig_shape": (64, 64), "frame_header": 10}
BLOCK = "256KiB"  # of 32 frames


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """A cluster of two processes, whose scheduler is in this process. They may keep 2 MiB of results in memory."""
    spilling = {
        "distributed.worker.memory.target": 2**21 / 2**30,
        "distributed.worker.memory.spill": False,
        "distributed.worker.memory.pause": False,
        "distributed.worker.memory.terminate": False,
    }
    how: dict[str, Any] = {"processes": True, "host": "127.0.0.1", "dashboard_address": ":0", "memory_limit": "1GiB"}
    with (
        dask.config.set(spilling),
        distributed.LocalCluster(n_workers=2, threads_per_worker=2, **how) as cluster,
        distributed.Client(cluster) as made,
    ):
        yield made


@pytest.fixture
def frames() -> np.ndarray:
    return np.random.default_rng(3).integers(0, 60000, (1024, 64, 64)).astype("u2")


@pytest.fixture
def array(tmp_path: Path, frames: np.ndarray) -> vfs.VirtualArray:
    return vfs.open(write_raw(tmp_path, frames, frame_header=10, files=3), nav_shape=(32, 32), **HOW)


def test_each_worker_opens_a_set_once_and_who_passes_tasks_on_never(
    array: vfs.VirtualArray, client: Any, frames: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Any] = []
    made = array.dask(BLOCK)
    assert made.npartitions == 32
    client.run(spread.count_opening)
    monkeypatch.setattr(Opening, "open", lambda *given: opened.append(given))
    np.testing.assert_array_equal(made.sum(axis=(0, 1)).compute(), frames.sum(axis=0))
    assert int(made[3, 4].sum().compute()) == int(frames[100].sum())
    futures = client.map(lambda array, n: int(array[0, n].sum()), [array] * 8, range(8))
    assert client.gather(futures) == frames[:8].sum(axis=(1, 2)).tolist()
    assert opened == []
    assert 1 <= max(client.run(spread.opened).values()) <= 1


def test_blocks_are_in_memory_of_workers_and_not_of_files(tmp_path: Path, client: Any) -> None:
    frames = np.random.default_rng(3).integers(0, 60000, (32, 256, 256)).astype("u2")
    made = vfs.open(write_npy(tmp_path, frames)).dask("1MiB")
    made[:2].sum().compute()  # which loads what is needed
    before = client.run(spread.mapped)
    total = made.sum().compute()
    after = client.run(spread.mapped)
    assert total == frames.sum()
    assert sum(after[worker] - before[worker] for worker in before) < frames.nbytes / 4


def test_what_cannot_be_read_is_our_error(array: vfs.VirtualArray, client: Any) -> None:
    made = array.dask(BLOCK)
    made.sum().compute()  # every worker has it open
    os.truncate(array.files[1], 5000)
    with pytest.raises(vfs.SourceError, match=r"part1\.bin.*\[\d+:\d+") as caught:
        made.sum().compute()
    assert caught.value.errno == errno.EIO


def test_results_are_kept_spilled_and_made_again_where_a_worker_is_lost(
    array: vfs.VirtualArray, client: Any, frames: np.ndarray
) -> None:
    kept = array.dask(BLOCK).persist()
    distributed.wait(kept)
    spilled = client.run(lambda dask_worker: len(dask_worker.data.disk))
    assert sum(spilled.values()) > 0
    lost, pid = next(iter(client.run(os.getpid).items()))
    os.kill(pid, signal.SIGKILL)
    np.testing.assert_array_equal(kept.compute(), frames.reshape(32, 32, 64, 64))
    assert eventually(lambda: lost not in client.nthreads() and len(client.nthreads()) == 2)
