"""Records the processes that have read from a mount, and tells which of them still run.

When the mount is gone, its folder is empty, and a zarr client takes absent chunks for blank ones: a
process that reads on would get zeros. So a mount is ended only after a check for such processes.

A thread that opens a file of a mount waits for the server's answer, and meanwhile can be looked up
in /proc: its process is written into the file `readers` of the mount's entry, which outlives the
server. A thread that was seen within the last second or so is not looked up again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from vfs.errors import printable
from vfs.serving.entry import READERS

MAX_PROCESSES = 4096  # at most so many processes are remembered, the latest ones


class Process(NamedTuple):
    """A process: its id, and its start in clock ticks since the machine started, as ids are reused."""

    pid: int
    start: int


class Readers:
    """Records the processes that have opened files of one mount. Threads may share it.

    Args:
        folder: the folder of the mount's entry; None: write nothing there.

    Attributes:
        table: int64[THREADS], ids of threads that were seen lately; native code looks them up here.
    """

    def __init__(self, folder: str | None = None) -> None:
        # Imported here since it loads the compiler, which a process that only lists readers does not need
        import numpy as np

        from vfs.kernels.native.fuse.tables import THREADS

        self.table = np.zeros(THREADS, np.int64)
        self._path = folder and os.path.join(folder, READERS)
        self._readers: dict[Process, None] = {}  # in the order in which they were first seen
        self._all_seen = True
        self._lock = threading.Lock()

    def meet(self, thread: int) -> None:
        """Record the process of a thread that waits for a file to be opened.

        Args:
            thread: its id; 0: it runs in another container and cannot be seen from here.
        """
        place = thread % len(self.table)
        if self.table[place] == thread:
            return
        process = _process_of(thread)
        with self._lock:
            self._all_seen &= process is not None
            if process is not None and process not in self._readers:
                self._readers[process] = None
                self._write([process], os.O_APPEND)
                if len(self._readers) > MAX_PROCESSES:
                    self._thin_out()
            self.table[place] = thread

    def look_again(self) -> None:
        """Look up every thread again when it opens a file next, since its id may have been reused."""
        self.table[:] = 0

    def living(self) -> list[str]:
        """Return the recorded processes that still run, as "name (pid 123)"."""
        with self._lock:
            met = list(self._readers)
        return _living(met)

    def hold(self, path: str) -> bool:
        """Return True if a process may still have a file open or mapped.

        The kernel does not say so: it reads ahead of a program, and does not take such a request
        back when the program is killed.

        Args:
            path: path of the file in the mount.
        """
        with self._lock:
            met = list(self._readers)
        return not self._all_seen or any(_holds(process, f"/{path}") for process in met)

    def _thin_out(self) -> None:
        self._all_seen = False
        self._readers = dict.fromkeys([process for process in self._readers if _name(process)][-MAX_PROCESSES // 2 :])
        self._write(self._readers, os.O_TRUNC)

    def _write(self, processes: Iterable[Process], how: int) -> None:
        if self._path:
            with suppress(OSError):  # `vfs unmount` will not know of these processes then
                fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | how, 0o600)
                try:
                    os.write(fd, "".join(f"{pid} {start}\n" for pid, start in processes).encode())
                finally:
                    os.close(fd)


def readers_of(folder: str) -> list[str]:
    """Return the processes that have read from a mount and still run, as "name (pid 123)".

    This process is left out.

    Args:
        folder: the folder of the mount's entry.
    """
    met = []
    with suppress(OSError), open(os.path.join(folder, READERS)) as file:
        for line in file:
            with suppress(ValueError, TypeError):
                met.append(Process(*map(int, line.split())))
    return _living(process for process in met if process.pid != os.getpid())


def _living(processes: Iterable[Process]) -> list[str]:
    return [f"{name} (pid {process.pid})" for process in processes if (name := _name(process))]


def _process_of(thread: int) -> Process | None:
    """Return the process of a thread; None if it cannot be seen."""
    with suppress(OSError, StopIteration, ValueError), open(f"/proc/{thread}/status") as file:
        pid = int(next(line for line in file if line.startswith("Tgid:")).split()[1])
        return Process(pid, int(_stat(pid)[2]))
    return None


def _name(process: Process) -> str:
    """Return the name of a process; "" if it has ended."""
    with suppress(OSError):
        name, state, start = _stat(process.pid)
        return printable(name) if int(start) == process.start and state not in "ZX" else ""
    return ""


def _holds(process: Process, ending: str) -> bool:
    """Return True if a process has a file open or mapped whose path has this ending, or if that cannot be seen."""
    if not _name(process):
        return False
    try:
        for fd in os.listdir(f"/proc/{process.pid}/fd"):
            with suppress(FileNotFoundError):
                if os.readlink(f"/proc/{process.pid}/fd/{fd}").endswith(ending):
                    return True
        with open(f"/proc/{process.pid}/maps", errors="surrogateescape") as file:
            return any(line.rstrip("\n").endswith(ending) for line in file)
    except FileNotFoundError:  # it has ended
        return False
    except OSError:
        return True


def _stat(pid: int) -> tuple[str, str, str]:
    """Return (name, state, start) of a process, see proc(5)."""
    with open(f"/proc/{pid}/stat", errors="replace") as file:
        before, _, after = file.read().rpartition(")")
    fields = after.split()
    return before.partition("(")[2], fields[0], fields[19]
