"""Keeps compiled kernels on the disk: a file for each, whose name is a digest of all that it is made of.

Processes that run before and after an update of the package, with several versions of numba, and on several kinds of
processors share a folder: none finds a kernel of another one. What was not used for longest is removed.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from hashlib import blake2b
from types import FunctionType
from typing import Any

from numba.core.caching import CompileResultCacheImpl, _Cache
from numba.core.runtime import rtsys
from numba.core.serialize import dumps

import vfs.kernels.notice as notice
from vfs.kernels.made_of import UntoldError, digest
from vfs.new_files import put

PATIENCE = 30.0
"""Seconds that a process waits for another one to compile a kernel. None of ours takes that long."""

ROOM = 128 << 20
"""Bytes in a folder of compiled kernels. One for one version of vfs takes 20 to 150 KiB, and there are some hundred."""

_USED = 86400.0  # seconds: a kernel's file says at most so late that it was used
_OURS = (".nbc", ".nbi", ".lock", ".part")
_SUM = 16  # bytes of the digest before the rest of a file


class KernelCache(_Cache):
    """Keeps one kernel, compiled for any types of arguments: numba asks it before it compiles.

    It loads what was compiled without making the compiler ready before. That takes numba 0.35 s, most of it for imports
    (scipy.linalg is one of them), and machine code needs none of it: only the functions that count references must be
    there. Where nothing is found, numba compiles, and makes the compiler ready by itself.

    One process at a time compiles a kernel, and those that wait for it load what it has made. Else all workers of a
    cluster would compile the same.

    numba's own cache has an index for all types of arguments, and knows a kernel by the one file that defines it; but
    what a kernel calls or takes from other files is compiled into it, and a process that began before an update has
    other code than the files.

    Args:
        function: what is compiled.
        options: how, as `numba.njit` takes them.
    """

    _turn = -1  # descriptor of the locked file
    _absent = ""  # name of the file that was not there before numba compiled

    def __init__(self, function: FunctionType, options: Mapping[str, Any]) -> None:
        self._function, self._options = function, options
        self._impl = CompileResultCacheImpl(function)
        self._folder = self._impl.locator.get_cache_path()
        module = function.__module__.rpartition(".")[2]
        name = function.__qualname__.replace("<", "").replace(">", "")
        self._name = f"{module}.{name}.py{sys.version_info[0]}{sys.version_info[1]}{sys.abiflags}"

    @property
    def cache_path(self) -> str:
        return str(self._folder)

    def enable(self) -> None: ...

    def disable(self) -> None: ...

    def flush(self) -> None: ...

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)
        key = sig, target_context.codegen().magic_tuple()
        path = self._path(key)
        found = self._load(path, key, target_context)
        if found is None and path:
            self._take_turn()
            found = self._load(path, key, target_context)
            if found is not None:
                self._end_turn()
        self._absent = path
        if found is None:
            notice.compiling()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled. Where that is not possible (no room on the disk), it is not kept."""
        try:
            key = sig, data.codegen.magic_tuple()
            path = self._path(key)
            if path and path == self._absent and self._impl.check_cachable(data):
                self._save(path, dumps((key, self._impl.reduce(data))))
        finally:
            self._end_turn()

    def _path(self, key: Any) -> str:
        """Return the name of the file of a kernel; "" if nobody can tell what the kernel is made of.

        Args:
            key: types of its arguments, and the processor, as numba tells them.
        """
        with suppress(UntoldError):
            return f"{self._folder}/{self._name}.{digest(self._function, self._options, key).hex()}.nbc"
        return ""

    def _load(self, path: str, key: Any, target_context: Any) -> Any:
        try:
            with open(path, "rb") as file:
                told, data = file.read(_SUM), file.read()
                if time.time() - os.fstat(file.fileno()).st_mtime > _USED:
                    os.utime(path)
        except OSError:
            return None
        if told != _sum(data):
            return None  # damaged, and replaced by the one that is compiled now
        kept, made = pickle.loads(data)
        return self._impl.rebuild(target_context, made) if kept == key else None

    def _save(self, path: str, data: bytes) -> None:
        with suppress(OSError):
            self._impl.locator.ensure_cache_path()
            put(path, _sum(data) + data)
            make_room(self._folder)

    def _take_turn(self) -> None:
        """Wait until no other process compiles this kernel, and let others wait until it is saved.

        Not for ever: a process whose compiling was interrupted may live on.
        """
        self._end_turn()
        until = time.monotonic() + PATIENCE
        with suppress(OSError):  # every process for itself where there are no locks
            self._impl.locator.ensure_cache_path()
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._turn = os.open(f"{self._folder}/{self._name}.lock", flags, 0o600)
            while time.monotonic() < until:
                with suppress(BlockingIOError):
                    flock(self._turn, LOCK_EX | LOCK_NB)
                    return
                time.sleep(0.02)

    def _end_turn(self) -> None:
        if self._turn >= 0:
            os.close(self._turn)
            self._turn = -1


def _sum(data: bytes) -> bytes:
    return blake2b(data, digest_size=_SUM).digest()


def make_room(folder: str) -> None:
    """Remove kernels that were not used for longest, until a folder holds no more than it may.

    Raises:
        OSError: the folder cannot be read.
    """
    with os.scandir(folder) as entries:
        names = [entry.path for entry in entries if entry.name.endswith(_OURS)]
    found = []
    for name in names:
        with suppress(OSError):
            state = os.stat(name, follow_symlinks=False)
            found.append((state.st_mtime, state.st_size, name))
    total = sum(size for _, size, _ in found)
    for _, size, name in sorted(found):
        if total <= ROOM:
            break
        with suppress(OSError):
            os.unlink(name)
        total -= size
