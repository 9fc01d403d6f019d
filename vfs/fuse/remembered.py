"""Asks the kernel to forget names before they take too much of the server's memory.

libfuse keeps some 180 bytes for each name that was looked up, until the kernel forgets the name.
The kernel does so only when it wants memory for itself, so a server would grow with the number of
chunks that were looked at.

`Remembered.look` is to be called now and then. Where this process has grown by names, the kernel is
asked to forget those that nobody uses (FUSE_NOTIFY_INVAL_ENTRY of libfuse 3, for the top folders;
Linux then drops everything below them that is not in use). The kernel tells libfuse what it forgot,
and libfuse frees it. Pages of files go with their names. A folder that is somebody's working folder
stays: its name is looked up again at once, by which Linux finds the folder that it has.

With libfuse 2 nothing is done: it frees the channel to the kernel, which the call needs, before it
    says that the mount ends.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

KEPT = 24 << 20  # bytes that names may take: some 130,000 of them
LEAST = 4096  # requests other than reads: after fewer no names that would matter were looked up
ROOT = 1  # libfuse's number of the folder that is mounted


def anonymous() -> int:
    """Return how many bytes of memory this process has that belong to no file."""
    _, resident, shared, *_ = map(int, Path("/proc/self/statm").read_text().split())
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")


class Remembered:
    """Keeps the number of names small that the kernel remembers of one mount.

    Args:
        module: the library that mounts, see `vfs.fuse.view.library`.
        memory: returns how many bytes of memory this process has.
    """

    def __init__(self, module: Any, memory: Callable[[], int] = anonymous) -> None:
        self._library = module._libfuse
        self._three = getattr(module, "fuse_version_major", 2) == 3
        self._memory = memory
        self._lock = Lock()  # held while libfuse is called, so that it does not free the session meanwhile
        self._session: ctypes.c_void_p | None = None
        self._least = 1 << 62  # bytes of memory besides caches, when there were fewest names
        self._asked = 0  # when the kernel was asked to forget

    def begin(self) -> None:
        """Note that the mount is there. libfuse calls it."""
        if not self._three:
            return
        session = self._library.fuse_get_session
        session.restype, session.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
        notify = self._library.fuse_lowlevel_notify_inval_entry
        notify.restype, notify.argtypes = (
            ctypes.c_int,
            [
                ctypes.c_void_p,
                ctypes.c_uint64,
                ctypes.c_char_p,
                ctypes.c_size_t,
            ],
        )
        with self._lock:
            self._session = ctypes.c_void_p(session(self._library.fuse_get_context().contents.fuse))

    def end(self) -> None:
        """Note that the mount is gone. libfuse calls it before it frees the session."""
        with self._lock:
            self._session = None

    def look(self, point: str, tops: list[str], asked: int, cached: int) -> bool:
        """Have names forgotten if they take too much memory. A thread that answers the kernel must not call this.

        Args:
            point: where it is mounted.
            tops: names of folders in it.
            asked: requests so far that were no reads.
            cached: bytes in caches, which are not names.

        Returns: whether the kernel was asked to forget.
        """
        spare = self._memory() - cached
        self._least = min(self._least, spare)
        if spare - self._least <= KEPT or asked - self._asked < LEAST:
            return False
        self._asked = asked
        for name in tops:
            answer = self._forget(os.fsencode(name))
            if answer == 0:
                with suppress(OSError):  # so that whoever has it as working folder finds it under its name
                    os.stat(os.path.join(point, name))
            elif answer != -errno.ENOENT:
                # Which is a name that the kernel does not know: it is being unmounted, and libfuse
                # writes a line on stderr each time
                break
        return True

    def _forget(self, name: bytes) -> int:
        with self._lock:
            if self._session is None:
                return -errno.ENOTCONN
            return int(self._library.fuse_lowlevel_notify_inval_entry(self._session, ROOT, name, len(name)))
