"""A forked process computes with dask, though the threads of its parent's pools are not in it."""

from __future__ import annotations

import multiprocessing
import threading
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import vfs
from tests.waiting import PATIENCE
from vfs.testing.writers import write_npy


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


def test_a_child_computes_what_another_thread_was_about_to(tmp_path: Path) -> None:
    """A thread had locks of dask when the process was forked, one of them in a `cached_property` of Python 3.11."""
    dask, tokenize = (pytest.importorskip(f"dask.{name}") for name in ("_expr", "tokenize"))
    path = write_npy(tmp_path, np.ones((6, 10, 10), "u2"))
    vfs.open(path).dask()
    inside, forked = threading.Event(), threading.Event()

    class Slow(dask.Expr):  # type: ignore[misc, name-defined]
        deterministic_token = "1"

        @property
        def _funcname(self) -> str:  # `_name`, which is cached, asks for it
            with tokenize.tokenize_lock:
                inside.set()
                forked.wait(PATIENCE)
            return "slow"

    thread = threading.Thread(target=lambda: Slow()._name)
    thread.start()
    try:
        assert inside.wait(PATIENCE)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = multiprocessing.get_context("fork").Process(target=_summed, args=(path, "dask"))
            child.start()
        child.join(PATIENCE)
        assert child.exitcode == 0
    finally:
        forked.set()
        thread.join()
        child.kill()


def _summed(path: Path, way: str) -> int:
    if way == "dask":
        return int(vfs.open(path).dask("200B").sum().compute())
    import xarray

    return int(xarray.open_dataset(path, engine="vfs", chunks={"frame": 1})["data"].sum())
