"""Keeps the lines of a journal where an export is written: in a file, or as objects, one a line."""

from __future__ import annotations

import fcntl
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence

from vfs.errors import OptionError
from vfs.zarr.buckets import Bucket


class MarkLines(ABC):
    """The lines of a journal, which only ever grow. Only one process can have it.

    Attributes:
        name: for messages.
        rest: what to remove in order to begin anew.
    """

    name: str
    rest: str

    @abstractmethod
    def lines(self) -> list[bytes]:
        """Return the lines that are there. The last one may not be whole."""

    @abstractmethod
    def cut(self, lines: Sequence[bytes]) -> None:
        """Forget all but these first lines."""

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
        return OptionError(f"{self.name}: another export of this name is running; wait for it, or end it")


class MarksFile(MarkLines):
    """Lines of a file.

    Raises:
        OptionError: another process has it.
    """

    rest = "the two .part files of this name"

    def __init__(self, name: str) -> None:
        self.name = name
        self._file = open(name, "a+b")  # noqa: SIM115  (open as long as the export)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise self.another() from None

    def lines(self) -> list[bytes]:
        self._file.seek(0)
        return self._file.read().splitlines(keepends=True)

    def cut(self, lines: Sequence[bytes]) -> None:
        self._file.truncate(sum(map(len, lines)))

    def add(self, lines: Sequence[bytes]) -> None:
        self._file.writelines(lines)
        self._file.flush()
        os.fsync(self._file.fileno())

    def remove(self) -> None:
        os.unlink(self.name)

    def close(self) -> None:
        self._file.close()


class MarksObjects(MarkLines):
    """Objects below a name, each with a line; their names are numbers in order.

    No object is written over: of two processes, one is told that there is another.
    """

    rest = "OUT and OUT.part.marks"

    def __init__(self, bucket: Bucket, name: str) -> None:
        self.name = name
        self.rest = f"{name.removesuffix('.part.marks')} and {name}"
        self._bucket = bucket
        self._next = 0

    def lines(self) -> list[bytes]:
        names = sorted(self._bucket.sizes(self.name))
        self._next = int(names[-1].rpartition("/")[2]) + 1 if names else 0
        return [line for line in self._bucket.read_all(names) if line is not None]

    def cut(self, lines: Sequence[bytes]) -> None:
        names = sorted(self._bucket.sizes(self.name))
        self._bucket.delete(names[len(lines) :])
        self._next = len(lines)

    def add(self, lines: Sequence[bytes]) -> None:
        for line in lines:
            if not self._bucket.create(f"{self.name}/{self._next:08d}", line):
                raise self.another()
            self._next += 1

    def remove(self) -> None:
        names = sorted(self._bucket.sizes(self.name))
        self._bucket.delete(names[1:])
        self._bucket.delete(names[:1])  # last, for it says what the others are about

    def close(self) -> None:
        """Do nothing: nobody is kept out."""
