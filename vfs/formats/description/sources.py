"""Finds the files that a description names.

Names are relative to the folder of the description, and may not lead out of it unless the user
allows that.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from vfs.boundary import Boundary, current, reads_outside
from vfs.errors import MissingSourceError, OutsideError, SourceError
from vfs.formats.description.schema import Value
from vfs.model.stored import Absence, Files


@dataclass(frozen=True)
class DescribedFolder:
    """The folder of a description.

    Attributes:
        path: absolute path as it was given.
    """

    path: str
    _inside: Boundary = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_inside", Boundary.around([os.path.join(self.path, "x")]))

    def resolve(self, name: Value) -> str:
        """Return the path of a file that a description names.

        Raises:
            FormatError: the value is not the name of a file.
            OutsideError: the name leads out of the folder, and that is not allowed.
        """
        text = name.text()
        if "\0" in text or len(text) > 4096:
            name.expected("the name of a file")
        path = os.path.join(self.path, text)
        if not current().unlimited and not self.holds(path, text):
            name.fail(
                f"{text!r} leaves the folder of the description; put the description beside its files;"
                f" {reads_outside()}",
                OutsideError,
            )
        return path

    def holds(self, path: str, text: str) -> bool:
        """Return True if a path stays in the folder, after all symbolic links are followed.

        Args:
            text: the name in the description.
        """
        return not os.path.isabs(text) and ".." not in text.split("/") and self._inside.covers(path)

    def existing(self, name: Value) -> str:
        """Return the path of a file that exists.

        Raises:
            FormatError: see `resolve`.
            MissingSourceError: it does not exist.
        """
        path = self.resolve(name)
        try:
            os.stat(path)
        except FileNotFoundError:
            name.fail(f"{path}: no such file", MissingSourceError)
        except OSError as error:
            name.fail(f"{path}: cannot be opened: {error.strerror}", SourceError)
        return path

    @staticmethod
    def is_there(path: str) -> bool:
        """Return True if a file of that path exists."""
        return os.path.exists(path)

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
            files = Files.stat(paths, missing_ok=True)
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

    @staticmethod
    def _look(name: Value, path: str) -> None:
        try:
            Files.stat([path], missing_ok=True)
        except SourceError as error:
            raise type(error)(f"{name.file}: {name.place}: {error}", error.errno or 5) from None
