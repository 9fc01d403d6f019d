"""Notes which processes have read from a mount, and says which of them still run.

When the mount is gone its folder is empty, and a zarr client takes chunks that are absent for blank
ones: a process that reads on would get zeros. So whoever ends a mount asks for such processes
first.

A thread that opens a file of a mount waits for the server's answer, and meanwhile can be looked up
in /proc: its process is written into the file `readers` of the mount's entry, which outlives the
server. A thread that was met within about a second is not looked up again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from vfs.errors import printable

FILE = "readers"
MOST = 4096  # processes that are remembered, at most: those that came last


class Process(NamedTuple):
    """A process: its number, and when it started (clock ticks since the machine did), as numbers
    are given out again.
    """

    pid: int
    start: int


class Readers:
    """The processes that have opened files of one mount. Many threads may use it.

    Args:
        folder: of the mount's entry; None: they are not written down.

    Attributes:
        table: int64[THREADS], numbers of threads that were met lately, where native code looks for them.
    """

    def __init__(self, folder: str | None = None) -> None:
        # Imports the compiler, which a process that only asks does not need
        from vfs.kernels.fuse.tables import THREADS

        self.table = np.zeros(THREADS, np.int64)
        self._path = folder and os.path.join(folder, FILE)
        self._met: dict[Process, None] = {}  # in the order in which they came
        self._lock = threading.Lock()

    def meet(self, thread: int) -> None:
        """Note the process of a thread that waits for a file to be opened.

        Args:
            thread: its number; 0: it runs in another container and cannot be seen from here.
        """
        place = thread % len(self.table)
        if self.table[place] == thread:
            return
        process = _process_of(thread)
        with self._lock:
            if process is not None and process not in self._met:
                self._met[process] = None
                self._write([process], os.O_APPEND)
                if len(self._met) > MOST:
                    self._thin_out()
            self.table[place] = thread

    def look_again(self) -> None:
        """Look up every thread again when it comes next: its number may have been given out anew."""
        self.table[:] = 0

    def living(self) -> list[str]:
        """Return those that still run, as "name (pid 123)"."""
        with self._lock:
            met = list(self._met)
        return _living(met)

    def _thin_out(self) -> None:
        self._met = dict.fromkeys([process for process in self._met if _name(process)][-MOST // 2 :])
        self._write(self._met, os.O_TRUNC)

    def _write(self, processes: Iterable[Process], how: int) -> None:
        if self._path:
            with suppress(OSError):  # then `vfs unmount` cannot know of them
                fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | how, 0o600)
                try:
                    os.write(fd, "".join(f"{pid} {start}\n" for pid, start in processes).encode())
                finally:
                    os.close(fd)


def readers_of(folder: str) -> list[str]:
    """Return the processes other than this one that have read from a mount and still run, as "name (pid 123)".

    Args:
        folder: of the mount's entry.
    """
    met = []
    with suppress(OSError), open(os.path.join(folder, FILE)) as file:
        for line in file:
            with suppress(ValueError, TypeError):
                met.append(Process(*map(int, line.split())))
    return _living(process for process in met if process.pid != os.getpid())


def _living(processes: Iterable[Process]) -> list[str]:
    return [f"{name} (pid {process.pid})" for process in processes if (name := _name(process))]


def _process_of(thread: int) -> Process | None:
    """Return the process of a thread; None where it cannot be seen."""
    with suppress(OSError, StopIteration, ValueError), open(f"/proc/{thread}/status") as file:
        pid = int(next(line for line in file if line.startswith("Tgid:")).split()[1])
        return Process(pid, int(_stat(pid)[2]))
    return None


def _name(process: Process) -> str:
    """Return the name of a process; "" where it has ended."""
    with suppress(OSError):
        name, state, start = _stat(process.pid)
        return printable(name) if int(start) == process.start and state not in "ZX" else ""
    return ""


def _stat(pid: int) -> tuple[str, str, str]:
    """Return (name, state, start) of a process, see proc(5)."""
    with open(f"/proc/{pid}/stat", errors="replace") as file:
        before, _, after = file.read().rpartition(")")
    fields = after.split()
    return before.partition("(")[2], fields[0], fields[19]
