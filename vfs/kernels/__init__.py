"""Numba kernels: arrays and integers in, arrays out. Nothing else in vfs imports numba.

Every kernel stands at module level (only then it reaches numba's disk cache), releases the GIL and
runs on one thread. What takes addresses, and calls the system, is in `vfs.kernels.native`.

To import numba takes a quarter of a second. So modules that every opening
needs say `kernels.planning.plan_frames`, which imports `vfs.kernels.planning` when it is first used,
and a process that shows a few frames gets along without it (`wanted`).

Kernels import each other by full names (`vfs.kernels.importing` says why).
"""

import sys
from itertools import count
from typing import Any

from vfs.kernels.importing import module_of

FEW = 5000
"""Times that Python does what a kernel would do: it takes 20 µs longer, and loading kernels 0.3 s."""

_without = count()


def wanted() -> bool:
    """Tell whether kernels are to do what a few lines of Python can do, too.

    They are once numba is loaded, and after `FEW` times in which it was not.
    """
    return "numba" in sys.modules or next(_without) >= FEW


def __getattr__(name: str) -> Any:
    return module_of(__name__, name)
