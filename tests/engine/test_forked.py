"""A forked process computes with dask, though the threads of its parent's pools are not in it."""

from __future__ import annotations

import multiprocessing
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import vfs
from vfs.testing.writers import write_npy

PATIENCE = 60  # seconds


@pytest.mark.parametrize("way", ["dask", "xarray"])
def test_a_worker_of_a_forked_pool_reads_through_dask(tmp_path: Path, way: str) -> None:
    """It waited for ever for threads that only its parent has."""
    dask = pytest.importorskip("dask")
    frames = np.arange(600, dtype="u2").reshape(6, 10, 10)
    path = write_npy(tmp_path, frames)
    with dask.config.set(scheduler="threads"):
        assert _summed(path, way) == frames.sum()  # dask has threads now
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is what is tested
            with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
                task = pool.submit(_summed, path, way)
                try:
                    assert task.result(PATIENCE) == frames.sum()
                finally:
                    for process in list(pool._processes.values()):
                        process.kill()


def _summed(path: Path, way: str) -> int:
    if way == "dask":
        return int(vfs.open(path).dask("200B").sum().compute())
    import xarray

    return int(xarray.open_dataset(path, engine="vfs", chunks={"frame": 1})["data"].sum())
