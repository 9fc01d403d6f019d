"""The files that a description names: relative to its folder, and nothing outside of it unless that is allowed."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from vfs.dataset import Files
from vfs.errors import MissingSourceError, SourceError
from vfs.formats.description.schema import Value


@dataclass(frozen=True)
class Folder:
    """The folder a description lies in.

    Attributes:
        path: absolute path as it was given.
        follow_outside: accept absolute paths, "..", and symbolic links that lead out.
    """

    path: str
    follow_outside: bool = False
    _inside: dict[str, bool] = field(default_factory=dict, init=False, compare=False, repr=False)

    def resolve(self, name: Value) -> str:
        """The path of a file that a description names.

        Raises:
            FormatError: not the name of a file, or one that leaves the folder.
        """
        text = name.text()
        if "\0" in text or len(text) > 4096:
            name.expected("the name of a file")
        path = os.path.join(self.path, text)
        if not self.follow_outside and not self.holds(path, text):
            name.fail(f"{text!r} leaves the folder of the description; put the description beside its files, or open it with follow_outside=True")
        return path

    def holds(self, path: str, text: str) -> bool:
        """True where a path, and all that symbolic links make of it, stays in the folder; `text` is what it was called."""
        if os.path.isabs(text) or ".." in text.split("/"):
            return False
        if os.path.islink(path):
            return self._within(os.path.realpath(path))
        above = os.path.dirname(path)
        known = self._inside.get(above)  # a hundred thousand files lie in a few folders
        if known is None:
            known = self._inside[above] = self._within(os.path.realpath(above))
        return known

    def _within(self, real: str) -> bool:
        root = os.path.realpath(self.path)
        return real == root or real.startswith(os.path.join(root, ""))

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

    def files(self, names: Value) -> Files:
        """The files of a set.

        Raises:
            FormatError: not a list of names, or one leaves the folder.
            MissingSourceError, SourceError: one is not there or is no file.
        """
        given = names.items()
        paths = [self.resolve(name) for name in given]
        if not paths:
            names.expected("at least one file")
        try:
            return Files.stat(paths)
        except SourceError:
            for name, path in zip(given, paths, strict=True):
                self._look(name, path)
            raise

    @staticmethod
    def _look(name: Value, path: str) -> None:
        try:
            Files.stat([path])
        except SourceError as error:
            raise type(error)(f"{name.file}: {name.place}: {error}", error.errno or 5) from None
