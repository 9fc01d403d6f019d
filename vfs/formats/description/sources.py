"""Finds the files that a description names.

Names are relative to the folder of the description, and may not lead out of it unless the user
allows that.
"""

from __future__ import annotations

from dataclasses import dataclass

from vfs.errors import MissingSourceError, OutsideError, SourceError
from vfs.formats.description.schema import Value
from vfs.model.files import Files
from vfs.model.sources import Sources
from vfs.model.stored import Absence
from vfs.sources.boundary import reads_outside
from vfs.sources.names import is_absolute


def leads_out(name: str) -> bool:
    """Return True for a name that may lead out of the folder of its description."""
    return is_absolute(name) or ".." in name.split("/")


@dataclass(frozen=True)
class DescribedFolder:
    """The folder of a description.

    Attributes:
        sources: where its files are.
        path: its absolute name.
    """

    sources: Sources
    path: str

    def resolve(self, name: Value) -> str:
        """Return the path of a file that a description names.

        Raises:
            FormatError: the value is not the name of a file.
            OutsideError: the name leads out of the folder, and that is not allowed.
        """
        text = name.text()
        if "\0" in text or len(text) > 4096:
            name.expected("the name of a file")
        leaves = (
            f"{text!r} leaves the folder of the description; put the description beside its files; {reads_outside()}"
        )
        if leads_out(text) and not self.sources.anywhere:
            name.fail(leaves, OutsideError)
        try:
            return self.sources.join(self.path, text)
        except OutsideError as error:
            name.fail(str(error) if self.sources.anywhere else leaves, OutsideError)

    def existing(self, name: Value) -> str:
        """Return the path of a file that exists.

        Raises:
            FormatError: see `resolve`.
            MissingSourceError: it does not exist.
            SourceError: it cannot be opened.
        """
        path = self.resolve(name)
        try:
            self.sources.state(path)
        except SourceError as error:
            name.fail(str(error), type(error))
        return path

    def files(self, names: Value) -> tuple[Files, tuple[Absence, ...]]:
        """Return the files of a set, and the absence of missing ones.

        Raises:
            FormatError: the value is not a list of names.
            OutsideError: a name leads out of the folder.
            MissingSourceError: none of the files exists.
            SourceError: a name is not that of a file.
        """
        given = names.items()
        paths = [self.resolve(name) for name in given]
        if not paths:
            names.expected("at least one file")
        try:
            files = Files.stat(self.sources, paths, missing_ok=True)
        except SourceError:
            for name, path in zip(given, paths, strict=True):
                self._look(name, path)
            raise
        gone = [k for k, size in enumerate(files.sizes.tolist()) if size < 0]
        if not gone:
            return files, ()
        said = given[gone[0]].line(
            f"{files.paths[gone[0]]}: no such file" + f", nor are {len(gone) - 1:,} others there" * (len(gone) > 1)
        )
        if len(gone) == len(files):
            raise MissingSourceError(said)
        counts = {"files_missing": len(gone)}
        return files, (
            Absence(
                said, MissingSourceError, "shows what they hold as blank", counts, tuple([files.paths[k] for k in gone])
            ),
        )

    def _look(self, name: Value, path: str) -> None:
        try:
            Files.stat(self.sources, [path], missing_ok=True)
        except SourceError as error:
            raise type(error)(f"{name.file}: {name.place}: {error}", error.errno or 5) from None
