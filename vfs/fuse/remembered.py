"""Asks the kernel to forget names before they take too much of the server's memory.

libfuse keeps some 180 bytes for each name that was looked up, until the kernel forgets the name.
The kernel does so only when it wants memory for itself, so a server would grow with the number of
chunks that were looked at.

`Remembered.look` is called now and then. If names have made this process grow, it asks the kernel to
forget unused ones (FUSE_NOTIFY_INVAL_ENTRY of libfuse 3, for the top folders; Linux then drops
everything below them that is not in use). The kernel tells libfuse which names it forgot, and
libfuse frees them. Pages of files go with their names. A folder that is the working folder of a
process stays: its name is looked up again at once, and Linux finds the same folder by it.

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

KEPT = 24 << 20  # bytes that names may take: some 130,000 names
MIN_REQUESTS = 4096  # requests other than reads; after fewer, too few names were looked up to matter
ROOT = 1  # libfuse's number of the folder that is mounted


def anonymous() -> int:
    """Return the number of bytes of this process's memory that belong to no file."""
    _, resident, shared, *_ = map(int, Path("/proc/self/statm").read_text().split())
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")


class Remembered:
    """Limits the number of names that the kernel remembers of one mount.

    Args:
        module: the library that mounts, see `vfs.fuse.view.library`.
        memory: returns the bytes of memory of this process.
    """

    def __init__(self, module: Any, memory: Callable[[], int] = anonymous) -> None:
        self._library = module._libfuse
        self._three = getattr(module, "fuse_version_major", 2) == 3
        self._memory = memory
        self._lock = Lock()  # held while libfuse is called, so that it does not free the session meanwhile
        self._session: ctypes.c_void_p | None = None
        self._least = 1 << 62  # least bytes of memory besides caches so far, when there were fewest names
        self._asked = 0  # number of requests when the kernel was last asked to forget

    def begin(self) -> None:
        """Note that the mount is ready. libfuse calls this."""
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
        """Note that the mount has ended. libfuse calls this before it frees the session."""
        with self._lock:
            self._session = None

    def look(self, point: str, tops: list[str], asked: int, cached: int) -> bool:
        """Ask the kernel to forget names if they take too much memory.

        A thread that answers the kernel must not call this.

        Args:
            point: the mount point.
            tops: names of the folders at the top of the mount.
            asked: number of requests so far, reads excepted.
            cached: bytes of caches, which are no names.

        Returns: True if the kernel was asked to forget.
        """
        spare = self._memory() - cached
        self._least = min(self._least, spare)
        if spare - self._least <= KEPT or asked - self._asked < MIN_REQUESTS:
            return False
        self._asked = asked
        for name in tops:
            answer = self._forget(os.fsencode(name))
            if answer == 0:
                with suppress(OSError):  # looks it up, so that a process finds its working folder by name
                    os.stat(os.path.join(point, name))
            elif answer != -errno.ENOENT:
                # The kernel does not know the name: the mount is being unmounted, and libfuse would
                # write a line on stderr for each further name
                break
        return True

    def _forget(self, name: bytes) -> int:
        with self._lock:
            if self._session is None:
                return -errno.ENOTCONN
            return int(self._library.fuse_lowlevel_notify_inval_entry(self._session, ROOT, name, len(name)))
