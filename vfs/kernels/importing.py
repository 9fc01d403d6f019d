"""Imports kernels when they are first used.

A fork waits until another thread has imported what it imports here. Otherwise the child would find
the lock of a module held by a thread that it does not have, and its first read would wait for ever.
Kernels import each other by full names (`import vfs.kernels.gather as gather`, never `from
vfs.kernels import gather`, which asks here): two threads could wait for each other.
"""

import os
from importlib import import_module
from threading import RLock
from typing import Any

from vfs.own_code import check

loading = RLock()
os.register_at_fork(
    before=loading.acquire,
    after_in_parent=loading.release,
    after_in_child=loading.release,
)


def module_of(package: str, name: str) -> Any:
    """Import a module of a package, when it is first used.

    Raises:
        AttributeError: there is none with this name.
        DependencyError: it may be of another version than what is loaded: see `vfs.own_code.check`.
    """
    module = f"{package}.{name}"
    try:
        with loading:
            check()
            return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise AttributeError(f"module {package!r} has no attribute {name!r}") from None
