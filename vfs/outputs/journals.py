"""Notes how far an output is, so that what was interrupted can go on: an export, results of a pass.

A journal lies beside the output (`vfs.outputs.outputs`), and only ever grows.
"""

from __future__ import annotations

import errno
import fcntl
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress

from vfs.errors import OptionError
from vfs.new_files import reopen


class MarkLines(ABC):
    """The lines of a journal, which only ever grow. Only one process can have it.

    Attributes:
        name: for messages.
        rest: what to remove in order to begin anew.
        other: what else might be running.
    """

    name: str
    rest: str
    other: str

    @abstractmethod
    def lines(self) -> list[bytes]:
        """Return the lines that are there. The last one may not be whole."""

    @abstractmethod
    def cut(self, lines: Sequence[bytes]) -> None:
        """Forget all but these first lines."""

    @abstractmethod
    def begin(self, line: bytes) -> None:
        """Write the first line. The disk need not hold it before it holds another one."""

    @abstractmethod
    def add(self, lines: Sequence[bytes]) -> None:
        """Write lines, and have the disk hold them.

        Raises:
            OptionError: another process writes there, too.
        """

    @abstractmethod
    def remove(self) -> None:
        """Remove all."""

    @abstractmethod
    def close(self) -> None:
        """Let other processes have it."""

    def another(self) -> OptionError:
        """Return the error for another process that has it."""
        return OptionError(f"{self.name}: {self.other} of this name is running; wait for it, or end it")


class MarksFile(MarkLines):
    """Lines of a file.

    Raises:
        OptionError: another process has it.
    """

    rest = "the two .part files of this name"

    def __init__(self, name: str, other: str = "another export") -> None:
        self.name, self.other = name, other
        while not self._locked():  # another process removed it before this one locked it
            self._file.close()

    def _locked(self) -> bool:
        """Open the file and lock it. Return True if it still has its name."""
        try:
            descriptor = reopen(self.name, os.O_APPEND)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise OptionError(str(error.strerror)) from None
            raise
        self._file = open(descriptor, "a+b")  # noqa: SIM115  (open as long as the export)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise self.another() from None
        with suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(descriptor), os.stat(self.name, follow_symlinks=False))
        return False

    def lines(self) -> list[bytes]:
        self._file.seek(0)
        return self._file.read().splitlines(keepends=True)

    def cut(self, lines: Sequence[bytes]) -> None:
        self._file.truncate(sum(map(len, lines)))

    def begin(self, line: bytes) -> None:
        self._file.write(line)
        self._file.flush()

    def add(self, lines: Sequence[bytes]) -> None:
        self._file.writelines(lines)
        self._file.flush()
        os.fsync(self._file.fileno())

    def remove(self) -> None:
        with suppress(FileNotFoundError):  # somebody did
            os.unlink(self.name)

    def close(self) -> None:
        self._file.close()
