"""Lets a forked process compute with dask.

dask's threaded scheduler keeps its threads in pools of the process. A fork inherits the pools but not the
threads, and believes that they are idle: what it hands to them is never computed, and its `compute()` waits for
ever (dask 2026.8, also without vfs). A worker of a pool of processes that reads our arrays through dask would
wait so, too. A child therefore forgets the pools, and dask makes new ones.
"""

import os
import sys
import threading


def _forget_threads() -> None:
    threaded = sys.modules.get("dask.threaded")
    if threaded is not None:
        threaded.default_pool = None  # type: ignore[attr-defined]
        threaded.pools.clear()
        threaded.pools_lock = threading.Lock()  # type: ignore[attr-defined]


os.register_at_fork(after_in_child=_forget_threads)
