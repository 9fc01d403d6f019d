"""Tells the workers of a pass that it ended early, by a file.

A pool of processes cannot end a task that runs, and neither can dask. So the tasks look, every few
milliseconds. A file is what all processes of a machine can look at: two system calls, 1 µs. Workers
on other machines do not find it, and end with the partition that they are at.
"""

from __future__ import annotations

import os
import threading
from tempfile import NamedTemporaryFile
from types import TracebackType


class StopFile:
    """Is there as long as a pass goes on; whoever leaves the `with` statement stops all that have it open.

    Attributes:
        path: where workers look for it.
    """

    def __enter__(self) -> StopFile:
        self._file = NamedTemporaryFile(prefix="vfs-reduce-")
        self.path = self._file.name
        return self

    def stop(self) -> None:
        """Stop tasks, also those that have not begun yet."""
        os.write(self._file.fileno(), b"stop")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._file.close()


class Stopped(threading.Event):
    """Is set when a `StopFile` says stop, or is gone. Used in a `with` statement.

    Args:
        path: of the file. Where it cannot be opened, on another machine, nothing says stop.
    """

    def __init__(self, path: str) -> None:
        super().__init__()
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._fd = -1

    def is_set(self) -> bool:
        """Return whether to stop."""
        if self._fd < 0:
            return super().is_set()
        found = os.fstat(self._fd)
        return bool(found.st_size or not found.st_nlink)

    def __enter__(self) -> Stopped:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._fd >= 0:
            os.close(self._fd)
