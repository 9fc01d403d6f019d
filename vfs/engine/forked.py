"""Lets a forked process compute with dask, and use what other threads of its parent were about to compute.

dask's threaded scheduler keeps its threads in pools of the process. A fork inherits the pools but not the
threads, and believes that they are idle: what it hands to them is never computed, and its `compute()` waits for
ever (dask 2026.8, also without vfs). A worker of a pool of processes that reads our arrays through dask would
wait so, too. A child therefore forgets the pools, and dask makes new ones.

dask's modules have locks: it takes one while it names what it computes. One that another thread of the parent has
at the fork would stay locked in the child for ever. Python 3.11 also has a lock in each `functools.cached_property`,
which all objects of the class share; a thread may be inside one at the fork (dask is, when it names an expression).
A child therefore frees both: those of dask's modules, and those of properties of dask, vfs, xarray and zarr.
"""

import os
import sys
import threading
from collections.abc import Iterator
from functools import cached_property
from typing import Any

_PACKAGES = {"dask", "vfs", "xarray", "zarr"}
_LOCKS = (type(threading.Lock()), type(threading.RLock()))


def _forget_threads() -> None:
    threaded = sys.modules.get("dask.threaded")
    if threaded is not None:
        threaded.default_pool = None  # type: ignore[attr-defined]
        threaded.pools.clear()


def _free_locks() -> None:
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "dask":
            for known in list(vars(module).values()):
                if isinstance(known, _LOCKS):
                    _free(known)


def _free_properties() -> None:
    for one in _cached_properties():
        _free(one.lock)


def _free(lock: Any) -> None:
    if lock.acquire(blocking=False):
        lock.release()
    else:  # a thread has it that is not in this process
        lock._at_fork_reinit()


def _cached_properties() -> Iterator[Any]:
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in _PACKAGES:
            for known in list(vars(module).values()):
                if isinstance(known, type):
                    yield from (one for one in list(vars(known).values()) if isinstance(one, cached_property))


os.register_at_fork(after_in_child=_forget_threads)
os.register_at_fork(after_in_child=_free_locks)
if sys.version_info < (3, 12):
    os.register_at_fork(after_in_child=_free_properties)
