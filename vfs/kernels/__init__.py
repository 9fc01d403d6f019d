"""Numba kernels: arrays and integers in, arrays out. Nothing else in vfs imports numba.

Every kernel stands at module level (only then it reaches numba's disk cache), releases the GIL and
runs on one thread. What takes addresses, and calls the system, is in `vfs.kernels.native`.

To import numba takes a quarter of a second, and to compile kernels, after an installation, ten. So modules that every
opening needs say `kernels.planning.plan_frames`, which imports `vfs.kernels.planning` when it is first used. A process
that shows a few frames or time stamps gets along without numba: Python runs its kernels (`vfs.kernels.deferred`).

Kernels import each other by full names (`vfs.kernels.importing` says why).
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from vfs.kernels.importing import module_of

PATIENCE = 0.6
"""Seconds that Python runs kernels in all. Loading numba and kernels that are kept on the disk takes 0.3."""

_spent = [0.0]


def wanted() -> bool:
    """Tell whether numba is to run kernels: it is loaded, or Python has run them for `PATIENCE`."""
    return "numba" in sys.modules or _spent[0] > PATIENCE


@contextmanager
def in_python() -> Iterator[None]:
    """Count the time in which Python does what a kernel would do."""
    begin = perf_counter()
    try:
        yield
    finally:
        _spent[0] += perf_counter() - begin


def __getattr__(name: str) -> Any:
    return module_of(__name__, name)
