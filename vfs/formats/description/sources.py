"""The files that a description names: relative to its folder, and nothing outside of it unless that is allowed."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from vfs.boundary import ALLOW, Boundary, current
from vfs.errors import MissingSourceError, OutsideError, SourceError
from vfs.formats.description.schema import Value
from vfs.model.stored import Absence, Files


@dataclass(frozen=True)
class DescribedFolder:
    """The folder a description lies in.

    Attributes:
        path: absolute path as it was given.
    """

    path: str
    _inside: Boundary = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_inside", Boundary.around([os.path.join(self.path, "x")]))

    def resolve(self, name: Value) -> str:
        """The path of a file that a description names.

        Raises:
            FormatError: not the name of a file.
            OutsideError: it leaves the folder, and that is not allowed.
        """
        text = name.text()
        if "\0" in text or len(text) > 4096:
            name.expected("the name of a file")
        path = os.path.join(self.path, text)
        if not current().unlimited and not self.holds(path, text):
            name.fail(f"{text!r} leaves the folder of the description; put the description beside its files, or open it with {ALLOW}", OutsideError)
        return path

    def holds(self, path: str, text: str) -> bool:
        """True where a path, and all that symbolic links make of it, stays in the folder; `text` is what it was called."""
        return not os.path.isabs(text) and ".." not in text.split("/") and self._inside.covers(path)

    def existing(self, name: Value) -> str:
        """The path of a file that is there.

        Raises:
            FormatError: see `resolve`.
            MissingSourceError: it is not there.
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
        """True where there is a file of that path."""
        return os.path.exists(path)

    def files(self, names: Value) -> tuple[Files, tuple[Absence, ...]]:
        """The files of a set, and which of them are missing.

        Raises:
            FormatError: not a list of names.
            OutsideError: one leaves the folder.
            MissingSourceError: none is there.
            SourceError: one is no file.
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
        said = given[gone[0]].line(f"{files.paths[gone[0]]}: no such file" + f", nor are {len(gone) - 1:,} others there" * (len(gone) > 1))
        if len(gone) == len(files):
            raise MissingSourceError(said)
        counts = {"files_missing": len(gone)}
        return files, (Absence(said, MissingSourceError, "shows what they hold as blank", counts, tuple([files.paths[k] for k in gone])),)

    @staticmethod
    def _look(name: Value, path: str) -> None:
        try:
            Files.stat([path], missing_ok=True)
        except SourceError as error:
            raise type(error)(f"{name.file}: {name.place}: {error}", error.errno or 5) from None
