"""Kernels that Python runs until numba is loaded: a few rows are planned sooner than numba is there (0.3 s).

The functions are marked here. Once `vfs.kernels.compiled` has been imported, kernels stand in their places. So a
process that shows headers, time stamps or axes of a file needs neither numba nor a compiled kernel, and each has one
source.

Python runs a kernel in the lock of `vfs.kernels.importing`: no other thread replaces meanwhile what it calls.
"""

from collections.abc import Callable
from ctypes import c_int64
from functools import partial
from typing import Any

import numpy as np

import vfs.kernels as kernels
from vfs.kernels.importing import loading, module_of

ROWS = 1 << 14
"""Rows up to which Python runs a kernel. One takes it 1 to 20 µs: time stamps at both ends of a long series."""

_waiting: list[tuple[object, str, Callable[..., Any], dict[str, Any]]] = []
_decorators: dict[str, Callable[..., Any]] = {}


class Deferred:
    """Stands in its module for a kernel that is not compiled.

    Args:
        function: the kernel's source.
        rows: takes the kernel's arguments and returns the number of rows that it goes through; None if Python never
            runs it.
    """

    def __init__(self, function: Callable[..., Any], rows: Callable[..., int] | None) -> None:
        self.function, self.rows = function, rows

    def __call__(self, *args: Any) -> Any:
        with loading:
            if not _decorators and self.rows is not None and self.rows(*args) <= ROWS and not kernels.wanted():
                with kernels.in_python(), np.errstate(all="ignore"):  # numbers of a garbled header wrap, as compiled
                    return self.function(*args)
            module_of("vfs.kernels", "compiled")
        return getattr(module_of("vfs.kernels", self.function.__module__.rpartition(".")[2]), self.function.__name__)(
            *args
        )


def kernel(function: Any = None, *, rows: Callable[..., int] | None = None, **options: Any) -> Any:
    """Mark a function at module level as a kernel.

    Args:
        rows: see `Deferred`.
        options: see `vfs.kernels.compiled.kernel`.
    """
    if function is None:
        return partial(kernel, rows=rows, **options)
    return _deferred(Deferred(function, rows), "kernel", function, **options)


def inner(function: Any = None, *, python: Callable[..., Any] | None = None) -> Any:
    """Mark a function at module level that only kernels call: see `vfs.kernels.compiled.inner`.

    Args:
        python: what Python calls instead, where a loop over bytes would take it long.
    """
    if function is None:
        return partial(inner, python=python)
    return _deferred(python or function, "inner", function)


def inlined(function: Any) -> Any:
    """Mark a function at module level whose code stands for its calls in kernels (`vfs.kernels.compiled.inlined`)."""
    return _deferred(function, "inlined", function)


def intrinsic(function: Any) -> Any:
    """Mark what Python does where kernels have the intrinsic of that name (`vfs.kernels.intrinsics`)."""
    return _deferred(function, "intrinsic", function)


def _deferred(stands: Any, decorator: str, function: Callable[..., Any], **options: Any) -> Any:
    if _decorators:
        return _decorators[decorator](function, **options)
    _waiting.append((stands, decorator, function, options))
    return stands


def compile_all(modules: dict[str, Any], **decorators: Callable[..., Any]) -> None:
    """Put kernels into the places of what stands for them.

    Args:
        modules: all that are loaded.
        decorators: name of each decorator above -> what makes a kernel of a function.
    """
    with loading:
        _decorators.update(decorators)
        made = {id(stands): decorators[name](function, **options) for stands, name, function, options in _waiting}
        for space in [vars(module) for name, module in modules.items() if name.startswith("vfs.kernels.")]:
            space.update({name: made[id(value)] for name, value in space.items() if id(value) in made})


@intrinsic
def get(table: int, word: int) -> int:
    """Return an int64 word of the table at an address."""
    return c_int64.from_address(int(table) + 8 * int(word)).value
