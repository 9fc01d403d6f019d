"""Knows which files the code of this process came from, and in which state: an update may replace them while it runs.

Python loads a module when it is first used. After an update a process that began before has old modules in memory,
finds new ones on the disk, and would put the two together; and neither the version, which is read from the disk, nor
the contents of the files say what such a process computes with. A checkout changes without any change of its version.
So the state of each file is noted just before Python loads it, by an import hook: that takes 10 µs for a module, 0.1 ms
for `import vfs`, and 1 ms for all that opens a set. To note all files of the package at once would take 4 ms, and
longer on a share.

What Python loads is the file's contents, or what it compiled of a file of equal size and time of writing. Who changes a
file within its second, without changing its size, gets the code of before from Python itself; that is not told here.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from vfs.errors import DependencyError

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

State = tuple[int, int, int, int]
"""Size in bytes, time of writing, time of change (both in ns), inode."""

AGAIN = 0.1
"""Seconds before `check` looks at the files again. To look at 130 takes 0.7 ms, and whoever begins to compute loads
twenty modules one by one; no installer replaces the package as fast."""

_FOLDER = os.path.dirname(__file__)
_loaded: dict[str, State] = {}
"""Path of each file that was loaded -> its state before."""
_checked = float("-inf")


class _Notes:
    """Notes files before Python loads them, as the first in `sys.meta_path`; who finds modules comes after."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None, /) -> ModuleSpec | None:
        if path is not None and name.startswith("vfs."):
            module = name.rpartition(".")[2]
            for folder in path:
                if _note(f"{folder}/{module}.py") or _note(f"{folder}/{module}/__init__.py"):
                    break
        return None


def _note(path: str) -> bool:
    """Note the state of a file, unless it was loaded before: then that one counts. Return False if it is not there."""
    try:
        _loaded.setdefault(path, _state(os.stat(path)))
    except OSError:
        return False
    return True


def _state(found: os.stat_result) -> State:
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


def check() -> None:
    """Refuse to go on once files of loaded modules were replaced: call it before another module is loaded.

    A changed mode, and links that a backup makes, change neither size nor time of writing, and count for nothing.

    Raises:
        DependencyError: they were.
    """
    global _checked
    if time.monotonic() - _checked < AGAIN:
        return
    for path, (size, written, *_) in list(_loaded.items()):
        try:
            found = os.stat(path)
        except FileNotFoundError:
            pass
        except OSError:  # nothing tells
            continue
        else:
            if (found.st_size, found.st_mtime_ns) == (size, written):
                continue
        raise DependencyError(f"vfs was updated while this process ran ({path} changed): start it again")
    _checked = time.monotonic()


def contents() -> bytes:
    """Return a digest of all code of the package, whose modules this process has loaded or may load yet.

    It is taken of the contents of the files when it is first asked for, which takes 40 ms, together with their states.
    So it holds as long as each module that is loaded, before that or since, came from a file in that state. Times are
    not compared with a clock, only with each other.

    Returns: 32 bytes; none if a file was touched between, and nothing tells what this process computes with.
    """
    states, digest = _read()
    return digest if all(states.get(path) == state for path, state in list(_loaded.items())) else b""


def code_key() -> str:
    """Return a text that is the same in processes of the same code, and in no other: of what is gone on with later."""
    return (contents() or _untold()).hex()


@cache
def _untold() -> bytes:
    return os.urandom(32)


@cache
def _read() -> tuple[dict[str, State], bytes]:
    from hashlib import sha256  # which few processes need, and takes as long as all that `import vfs` loads of vfs

    states, digest = {}, sha256()
    try:
        for path in sorted(_files(_FOLDER)):
            with open(path, "rb", buffering=0) as file:
                states[path] = _state(os.fstat(file.fileno()))
                data = file.read()
                if states[path] != _state(os.fstat(file.fileno())):
                    return {}, b""
            digest.update(b"%s\0%d\0" % (os.fsencode(path[len(_FOLDER) :]), len(data)))
            digest.update(data)
    except OSError:
        return {}, b""
    return states, digest.digest()


def _files(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield entry.path
            elif "." not in entry.name and entry.is_dir():
                yield from _files(entry.path)


for _path in ("__init__.py", "errors.py", os.path.basename(__file__)):  # which are loaded already
    _note(f"{_FOLDER}/{_path}")
sys.meta_path.insert(0, _Notes)
