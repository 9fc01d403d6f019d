"""Has obstore, the library that talks to servers and stores, for this process: a fork gets a copy of its own.

obstore keeps its threads, connections and what wakes them in variables of the library. A fork inherits these and not
the threads, so it would wait for ever; where it touches them, it also breaks the memory of its parent, with which it
shares what the kernel wakes them by. A fork therefore leaves all of that alone and loads the library once more, from
memory, under a name that the loader of shared libraries does not know yet. That takes 20 ms and 24 MB, once.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from importlib.util import spec_from_file_location
from typing import Any

from vfs.errors import SourceError

_NATIVE = "obstore._obstore"
_loaded: Any = None
_inherited = False
"""True in a fork of a process that had loaded obstore."""
_lock = threading.Lock()


def obstore() -> Any:
    """Return the module `obstore` that this process may use.

    Raises:
        ImportError: it is not installed.
        SourceError: this process is a fork, and cannot load a copy.
    """
    global _loaded
    if _loaded is None:
        with _lock:
            _loaded = _loaded or (_copy() if _inherited else _imported())
    return _loaded


def leave(objects: object) -> None:
    """Never free objects that were made with the library of the process that this one was forked from."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(objects))


def _imported() -> Any:
    import obstore
    import obstore.store

    return obstore


def _copy() -> Any:
    """Load obstore once more. Whoever else uses it in this process still finds the one that was loaded first."""
    first = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "obstore"}
    try:
        with _Elsewhere(str(first[_NATIVE].__file__)):
            for name in first:
                del sys.modules[name]
            return _imported()
    except (AttributeError, ImportError, OSError) as error:  # no such files here, or none that may run
        raise SourceError(
            "this process was forked from one that had loaded obstore, and cannot load a copy of it to read from"
            f" servers ({error}): start processes with multiprocessing's spawn or forkserver"
        ) from None
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "obstore"]:
            del sys.modules[name]
        sys.modules.update(first)


class _Elsewhere:
    """Has the native part of obstore found in a file of memory, while `with` lasts.

    Args:
        file: from which that file is copied.
    """

    def __init__(self, file: str) -> None:
        self._file = file

    def __enter__(self) -> None:
        self._memory = os.memfd_create("obstore")
        with open(self._file, "rb") as library, open(self._memory, "wb", closefd=False) as to:
            to.write(library.read())
        sys.meta_path.insert(0, self)

    def __exit__(self, *error: object) -> None:
        sys.meta_path.remove(self)
        os.close(self._memory)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != _NATIVE:
            return None
        here = f"/proc/{os.getpid()}/fd/{self._memory}"  # a copy of a copy needs another name than that
        return spec_from_file_location(name, here, loader=ExtensionFileLoader(name, here))


def _forked() -> None:
    global _loaded, _inherited, _lock
    _lock = threading.Lock()
    _loaded = None
    _inherited = _inherited or _NATIVE in sys.modules


os.register_at_fork(after_in_child=_forked)
