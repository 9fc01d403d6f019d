"""Ends a mount when a signal comes: Ctrl-C, SIGTERM or SIGHUP.

If a process that has read from the mount still runs, the mount is left dead: reading there gives an
error (ENOTCONN). If it were unmounted, the process would find an empty folder, and zarr clients take
absent chunks for blank ones. `vfs unmount` and the next mount there clear a dead mount, as they
clear that of a server that was killed. If no such process runs, libfuse unmounts.

Python's signal handlers run in the main thread, which is inside libfuse. So signals are written
into a pipe that another thread reads. libfuse does not get them: it would unmount in any case.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any

from vfs.fuse.points import DEVICE
from vfs.serving.status import ENDING

log = logging.getLogger("vfs.fuse")

KICK = signal.SIGUSR1  # wakes the main thread, which waits in libfuse; has no other effect
AGAIN = 0.05  # seconds until libfuse is woken again, since it may have missed the signal


class Ending:
    """Handles the signals that end a mount, while its `with` block lasts. The main thread enters it.

    Args:
        module: the library that mounts, see `vfs.fuse.view.library`. Its `signal` does nothing
            meanwhile.
        shown: the mount point, for messages.
        readers: returns the processes that have read from the mount and still run. The mount is
            left dead only if there are some.

    Attributes:
        left: the processes for which the mount was left dead.
    """

    def __init__(self, module: Any, shown: str, readers: Callable[[], list[str]]) -> None:
        self.left: list[str] = []
        self._library = module._libfuse
        self._module = module
        self._shown = shown
        self._readers = readers
        self._taken = {
            number for number in (*ENDING, signal.SIGTSTP) if signal.getsignal(number) is not signal.SIG_IGN
        }  # signals that are ignored stay ignored: nohup
        self._lock = threading.Lock()  # held while libfuse is called, so that it does not free the session meanwhile
        self._session: ctypes.c_void_p | None = None
        self._mounted, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._watch, name="signals", daemon=True)

    def __enter__(self) -> Ending:
        self._pipe, to = os.pipe()
        os.set_blocking(to, False)
        self._wakeup = signal.set_wakeup_fd(to, warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, lambda number, frame: None) for number in (*self._taken, KICK)}
        # mfusepy and fusepy call this to give SIGINT back to libfuse
        self._signal, self._module.signal = self._module.signal, lambda number, handler: handler
        self._thread.start()
        return self

    def begin(self) -> None:
        """Note that the mount is ready. libfuse calls this."""
        session = self._library.fuse_get_session
        session.restype, session.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
        self._library.fuse_session_exit.restype, self._library.fuse_session_exit.argtypes = None, [ctypes.c_void_p]
        with self._lock:
            self._session = ctypes.c_void_p(session(self._library.fuse_get_context().contents.fuse))
        self._mounted.set()

    def end(self) -> None:
        """Note that the mount has ended. libfuse calls this before it frees the session."""
        with self._lock:
            self._session = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._mounted.set()
        self._module.signal = self._signal
        for number, handler in self._before.items():
            signal.signal(number, handler)
        to = signal.set_wakeup_fd(self._wakeup)
        os.close(to)
        self._thread.join()
        os.close(self._pipe)

    def _watch(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while (number := self._next()) not in ENDING:
            if not number:
                return
            if number == signal.SIGTSTP:
                log.warning(
                    "%s: not stopped: programs that read there would hang; Ctrl-C ends the mount,"
                    " `vfs mount --background` gives the terminal back",
                    self._shown,
                )
        self._mounted.wait()  # while libfuse is mounting: nothing would clear a half-made mount
        with self._lock:
            if self._session is None:
                return
            left = self._readers()
            if left and _keep_mounted():
                self.left = left
            before = _children()
            self._library.fuse_session_exit(self._session)
        while not self._over.wait(AGAIN):
            if _children() <= before:  # else libfuse waits for a program that unmounts, and would not do so for long
                signal.pthread_kill(threading.main_thread().ident or 0, KICK)

    def _next(self) -> int:
        """Wait for the next signal, and return its number; 0 if the `with` block has ended."""
        return int.from_bytes(os.read(self._pipe, 1))

    def say(self) -> None:
        """Log the processes for which the mount was left dead."""
        if self.left:
            who = ", ".join(self.left)
            log.warning(
                "%s: ended; still running after reading there: %s; reads there give errors, not zeros, until"
                " `vfs unmount %s`",
                self._shown,
                who,
                self._shown,
            )


def _children() -> set[str]:
    """Return the processes that the main thread has begun and that are not waited for yet."""
    with suppress(OSError), open(f"/proc/self/task/{os.getpid()}/children") as file:  # a few kernels have no such file
        return set(file.read().split())
    return set()


def _keep_mounted() -> bool:
    """Keep libfuse from unmounting when its loop ends.

    This closes the connection to the kernel, which leaves the mount dead. libfuse does not unmount
    if the connection is broken already (poll says POLLERR). A pipe that nobody reads, in the place
    of /dev/fuse, looks like that.

    Returns: False if that cannot be done; then libfuse unmounts.
    """
    try:
        [fuse] = [fd for fd in map(int, os.listdir("/proc/self/fd")) if _name(fd) == DEVICE]
        read, write = os.pipe()
        os.close(read)
        os.dup2(write, fuse, inheritable=False)
        os.close(write)
    except (OSError, ValueError):
        return False
    return True


def _name(fd: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:  # the descriptor was the one that listed the folder, which is closed by now
        return ""
