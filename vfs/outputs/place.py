"""What is asked of every place that an output is written to: see `vfs.outputs.places`."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import BinaryIO, Self

from vfs.errors import OptionError, VfsError
from vfs.outputs.journals import MarkLines
from vfs.outputs.outputs import unwritten
from vfs.outputs.sums import Mark, Subject, sums_name


class OutputPlace(ABC):
    """Where an output is written.

    Of a store, `make` begins it, and `with` holds it while it is written, here or by a worker.

    Args:
        target: its name.
        what: "export" or "reduction".

    Attributes:
        target: its name, absolute.
        sums: the name of the sums.
        marks: the name of the journal.
        holds: the name of what holds it while it is unfinished: a store, or the state of a pass.
        folder: a folder of this machine, below which files are written under temporary names.
        by_many: True where several processes can write.
        everywhere: True where all machines find the same by this name.
    """

    folder: str
    by_many = True
    everywhere = False

    def __init__(self, target: str, holds: str, what: str) -> None:
        self.target, self.holds, self.what = target, holds, what
        self.sums, self.marks = sums_name(target), f"{target}.part.marks"

    @abstractmethod
    def exists(self) -> bool:
        """Return True if there is something of this name."""

    @abstractmethod
    def there(self, name: str) -> bool:
        """Return True if there is something of a name beside it."""

    @abstractmethod
    def open(self, name: str) -> BinaryIO:
        """Open a file or an object beside it, to be read.

        Raises:
            OSError: it cannot be read; FileNotFoundError: it is not there.
        """

    @abstractmethod
    def writing(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Write a file or an object beside it, instead of the one that may be there, which stays if that fails."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete a file or an object beside it, if it is there."""

    @abstractmethod
    def journal(self) -> MarkLines:
        """Open the journal: see `MarkLines`."""

    def begun(self) -> bool:
        """Return True if something unfinished is there."""
        return self.there(self.holds)

    def noted(self) -> bool:
        """Return True if there is a journal."""
        return self.there(self.marks)

    def check(self, resume: bool) -> bool:
        """Check that an export can begin, or go on.

        Returns: True if one is complete that this one may be: its journal says so (it was killed behind its last step
            but one), or its sums say what it is (`complete`).

        Raises:
            OptionError: something is in its way.
            OSError: that cannot be found out.
        """
        if self.exists():
            if resume and not self._unfinished():
                return True
            raise OptionError(f"{self.target}: exists already; remove it, or give another name")
        self.check_sums()
        self.check_begun()
        return False

    def check_begun(self) -> None:
        """Check that what is unfinished there has a journal.

        Raises:
            OptionError: it has none, and is in the way.
        """
        if not self.noted() and self.begun():
            raise OptionError(f"{self.holds}: does not come from an interrupted {self.what}; remove it")

    def _unfinished(self) -> bool:
        """Return True if something of an unfinished store is there beside one of this name."""
        return False

    def complete(self, subject: Subject) -> int:
        """Return the bytes of the chunks of a store that is complete, from its sums.

        Raises:
            OptionError: it is another one, or nothing tells.
        """
        try:
            told, marks = self.read_sums()
            if told == subject:
                return sum(mark.size for mark in marks)
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            why = f"{self.sums} does not say what it was written from"
        else:
            why = "was written from other files, with other options, or by other code of vfs"
        raise OptionError(f"{self.target}: exists already, and {why}; remove it, or give another name")

    @abstractmethod
    def read_sums(self) -> tuple[Subject, Iterator[Mark]]:
        """Read the sums.

        Raises:
            FileNotFoundError: there are none.
            ValueError, KeyError, TypeError: something else has their name.
            OSError: they cannot be read.
        """

    def check_sums(self) -> None:
        """Refuse to replace a file that holds no sums.

        Raises:
            OptionError: there is such a file.
        """
        try:
            self.read_sums()
        except FileNotFoundError:
            return
        except (ValueError, KeyError, TypeError):
            own = os.path.basename(self.target)
            raise OptionError(f"{self.sums}: exists already, and the sums of {own} have this name; move it") from None

    @abstractmethod
    def check_free(self, replace: bool) -> None:
        """Check that results can be written there.

        Args:
            replace: there may be something of this name already.

        Raises:
            OptionError: it is taken, or cannot be written.
        """

    @abstractmethod
    def whole(self) -> AbstractContextManager[str]:
        """Have a store appear only when it is complete: see `vfs.outputs.outputs.whole`."""

    @abstractmethod
    def make(self, documents: Mapping[str, bytes]) -> None:
        """Begin a store, or go on."""

    @abstractmethod
    def __enter__(self) -> Self: ...

    @abstractmethod
    def __exit__(self, *raised: object) -> None: ...

    @abstractmethod
    def keep(self, paths: Sequence[str]) -> int:
        """Have the place hold files that were written under temporary names. Return their bytes."""

    @abstractmethod
    def has(self, paths: Sequence[str], size: int) -> bool:
        """Return True if files that were kept are there, with so many bytes.

        Called in the order of the marks.
        """

    def check_units(self, units: Iterable[tuple[Sequence[str], int]]) -> None:
        """Check that all that was kept is still there, before a store is made of it.

        Args:
            units: paths of the files of each, and how many bytes these have.

        Raises:
            OptionError: files were removed or changed meanwhile, by somebody else.
        """
        for paths, size in units:
            if not self.has(paths, size):
                raise OptionError(
                    f"{self.holds}: files in it were removed or changed while it was written, such as"
                    f" {os.path.relpath(paths[0], self.folder)}"
                )

    @abstractmethod
    def finish(self, documents: Mapping[str, bytes], sums: Iterable[bytes]) -> int:
        """Write documents and sums, and make it a store. Return the bytes of the documents.

        Args:
            sums: lines.
        """

    @abstractmethod
    def clear(self) -> None:
        """Remove what there is of a store."""

    def unwritten(self, error: OSError) -> OptionError:
        """Return what to say where it cannot be written."""
        return unwritten(self.target, error)

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn errors of the disk, or of the store of objects, into those of vfs.

        Raises:
            OptionError: it cannot be written.
        """
        try:
            yield
        except VfsError:
            raise
        except OSError as error:
            raise self.unwritten(error) from None
