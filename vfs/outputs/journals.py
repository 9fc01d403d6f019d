"""Notes how far an output is, so that what was interrupted can go on: an export, results of a pass.

A journal lies beside the output (`vfs.outputs.outputs`), and only ever grows. Its first line says what the output is
of, and how it is made: what is of something else cannot go on.
"""

from __future__ import annotations

import errno
import fcntl
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import Generic, Self, TypeVar

from vfs.errors import OptionError
from vfs.model.wording import option
from vfs.new_files import reopen
from vfs.outputs.buckets import Bucket


class MarkLines(ABC):
    """The lines of a journal, which only ever grow. Only one process can have it.

    Attributes:
        name: for messages.
        rest: what to remove in order to begin anew.
        what: what is under way: "export" or "reduction".
    """

    name: str
    rest: str
    what: str

    @property
    def a_what(self) -> str:
        """`what`, with its article."""
        return f"{'an' if self.what == 'export' else 'a'} {self.what}"

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
        return OptionError(f"{self.name}: another {self.what} of this name is running; wait for it, or end it")


class MarksFile(MarkLines):
    """Lines of a file.

    Raises:
        OptionError: another process has it.
    """

    rest = "the two .part files of this name"

    def __init__(self, name: str, what: str = "export") -> None:
        self.name, self.what = name, what
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


class MarksObjects(MarkLines):
    """Objects below a name, each with a line; their names are numbers in order.

    No object is written over: of two processes, one is told that there is another.
    """

    def __init__(self, bucket: Bucket, name: str, rest: str, what: str = "export") -> None:
        self.name, self.rest, self.what = name, rest, what
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

    def begin(self, line: bytes) -> None:
        self.add([line])

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


class JournalSubject(ABC):
    """What an output is of, and how it is made: the first line of its journal."""

    @abstractmethod
    def line(self) -> bytes:
        """Return it as a line."""

    @classmethod
    @abstractmethod
    def of(cls, line: bytes) -> Self:
        """Read the first line of a journal.

        Raises:
            ValueError, KeyError, TypeError: it is something else.
        """

    @abstractmethod
    def unlike(self, told: Self) -> str:
        """Return in what an interrupted output was another one than this; "" if it was the same."""


_Subject = TypeVar("_Subject", bound=JournalSubject)


class Journal(Generic[_Subject]):
    """The journal of an output that is under way.

    Args:
        lines: its lines.
        subject: what the output is of.
        resume: True to go on with what is there.
        anew: True if there is nothing to go on with: a journal that is there is begun anew.

    Attributes:
        subject: what the output is of.
        told: the subject of the journal that is gone on with; None if it was begun anew.
        found: its lines; the last one may not be whole.

    Raises:
        OptionError: it is there and `resume` is False, or it is about something else.
        OSError: it cannot be written.
    """

    def __init__(self, lines: MarkLines, subject: _Subject, resume: bool, anew: bool) -> None:
        self._lines, self.subject = lines, subject
        self.found = lines.lines()
        self.told = self._told(subject, "it" if anew else lines.rest)
        if anew or self.told is None:
            self.begin(subject)
        else:
            self._check(subject, self.told, resume)

    def begin(self, subject: _Subject) -> None:
        """Begin anew. What cannot be begun leaves nothing."""
        self.subject, self.told, self.found = subject, None, []
        self._lines.cut([])
        try:
            self._lines.begin(subject.line())
        except OSError:  # of it nothing is there to go on from
            self._lines.remove()
            raise

    def _told(self, subject: _Subject, rest: str) -> _Subject | None:
        """Read the first line; None if it was not written to its end, and tells of nothing."""
        if not self.found or not self.found[0].endswith(b"\n"):
            return None
        try:
            return subject.of(self.found[0])
        except (ValueError, KeyError, TypeError):
            name, what = self._lines.name, self._lines.a_what
            raise OptionError(
                f"{name}: is no journal of {what}, or is damaged; remove {rest}, or give another name"
            ) from None

    def _check(self, subject: _Subject, told: _Subject, resume: bool) -> None:
        name, rest = self._lines.name, self._lines.rest
        if not resume:
            raise OptionError(
                f"{name}: belongs to {self._lines.a_what} that was interrupted; {option(resume=True)} continues with"
                f" it, or remove {rest}"
            )
        if why := subject.unlike(told):
            raise OptionError(
                f"{name}: the interrupted {self._lines.what} {why}; give the same again, or remove {rest}, and begin"
                " again"
            )
