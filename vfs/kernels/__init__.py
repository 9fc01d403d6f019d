"""Numba kernels: arrays and integers in, arrays out. Nothing else in vfs imports numba.

Every kernel stands at module level (only then it reaches numba's disk cache), releases the GIL and
runs on one thread. The kernels of `vfs.kernels.fuse` are the exception to "arrays in, arrays out":
libfuse calls them with addresses, and they read tables of words there.

To import numba takes a quarter of a second. So modules that every opening
needs say `kernels.planning.plan_frames`, which imports `vfs.kernels.planning` when it is first used,
and a process that shows a few frames gets along without it (`wanted`).

A fork waits until another thread has imported what it imports here. Otherwise the child would find
the lock of a module held by a thread that it does not have, and its first read would wait for ever.
Kernels import each other by full names (`import vfs.kernels.gather as gather`, never `from
vfs.kernels import gather`, which asks here): two threads could wait for each other.
"""

import os
import sys
from importlib import import_module
from itertools import count
from threading import RLock
from typing import Any

FEW = 5000
"""Times that Python does what a kernel would do: it takes 20 µs longer, and loading kernels 0.3 s."""

_without = count()
_loading = RLock()
os.register_at_fork(
    before=_loading.acquire,
    after_in_parent=_loading.release,
    after_in_child=_loading.release,
)


def wanted() -> bool:
    """Tell whether kernels are to do what a few lines of Python can do, too.

    They are once numba is loaded, and after `FEW` times in which it was not.
    """
    return "numba" in sys.modules or next(_without) >= FEW


def __getattr__(name: str) -> Any:
    module = f"{__name__}.{name}"
    try:
        with _loading:
            return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
