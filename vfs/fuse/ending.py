"""How a mount ends that a signal ends: Ctrl-C, SIGTERM, SIGHUP. Nobody can refuse these.

Where a process that has read from the mount still runs, the mount is left dead: whoever asks for something there gets an error (ENOTCONN), where
an empty folder would say that it is absent, which zarr clients take for blank. `vfs unmount` and the next mount there clear it, as they
clear the mount of a server that was killed. Otherwise libfuse unmounts.

Signals strike in any thread; a thread of its own hears of them through a pipe. libfuse does not get to see them: it would unmount in any case.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from vfs.fuse.points import DEVICE
from vfs.fuse.status import ENDING

log = logging.getLogger("vfs.fuse")

KICK = signal.SIGUSR1  # wakes who waits; means nothing
AGAIN = 0.05  # seconds until libfuse is woken again: it may have looked away just then


class Ending:
    """Takes the signals that end a mount as long as its `with` block lasts, in the main thread.

    Args:
        module: the library that mounts, see `vfs.fuse.view.library`. Its `signal` does nothing meanwhile.
        shown: the mount point, for people.
        readers: who has read from it and still runs; nothing is left for nobody.

    Attributes:
        left: for whom the mount was left dead.
    """

    def __init__(self, module: Any, shown: str, readers: Callable[[], list[str]]) -> None:
        self.left: list[str] = []
        self._library = module._libfuse
        self._module = module
        self._shown = shown
        self._readers = readers
        self._taken = {number for number in (*ENDING, signal.SIGTSTP) if signal.getsignal(number) is not signal.SIG_IGN}  # ignored ones stay so: nohup
        self._lock = threading.Lock()  # held while libfuse is told, so that the session lasts so long
        self._session: ctypes.c_void_p | None = None
        self._mounted, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._watch, name="signals", daemon=True)

    def __enter__(self) -> Ending:
        self._pipe, to = os.pipe()
        os.set_blocking(to, False)
        self._wakeup = signal.set_wakeup_fd(to, warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, lambda number, frame: None) for number in (*self._taken, KICK)}
        self._signal, self._module.signal = self._module.signal, lambda number, handler: handler  # it gives SIGINT back to libfuse
        self._thread.start()
        return self

    def begin(self) -> None:
        """The mount is there. To be called by libfuse."""
        session = self._library.fuse_get_session
        session.restype, session.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
        self._library.fuse_session_exit.restype, self._library.fuse_session_exit.argtypes = None, [ctypes.c_void_p]
        with self._lock:
            self._session = ctypes.c_void_p(session(self._library.fuse_get_context().contents.fuse))
        self._mounted.set()

    def end(self) -> None:
        """The mount is gone. To be called by libfuse, before it frees the session."""
        with self._lock:
            self._session = None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
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
                log.warning("%s: not stopped: whoever reads there would hang; Ctrl-C ends it, `vfs mount --background` gives the terminal back", self._shown)
        self._mounted.wait()  # libfuse is at it: what it has half done nobody would clear
        with self._lock:
            if self._session is None:
                return
            left = self._readers()
            if left and _keep_mounted():
                self.left = left
            self._library.fuse_session_exit(self._session)
        while not self._over.wait(AGAIN):
            signal.pthread_kill(threading.main_thread().ident or 0, KICK)

    def _next(self) -> int:
        """The number of the next signal that came; 0: it is over."""
        return int.from_bytes(os.read(self._pipe, 1))

    def say(self) -> None:
        """Say for whom the mount was left dead."""
        if self.left:
            who = ", ".join(self.left)
            log.warning("%s: ended; %s read there and may go on: there it gets errors, not zeros, until `vfs unmount %s`", self._shown, who, self._shown)


def _keep_mounted() -> bool:
    """See that libfuse does not unmount when its loop ends, which closes the connection to the kernel and so leaves the mount dead.

    libfuse leaves alone a mount whose connection is broken already (poll says POLLERR). A pipe that nobody reads, in the place of
    /dev/fuse, looks like that.

    Returns: False where that cannot be done; then libfuse unmounts.
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
    except OSError:  # of the folder that was listed
        return ""
