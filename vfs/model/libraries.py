"""Libraries of others that read files: what they are called, and how they are installed. `vfs.libraries` asks them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

from vfs.errors import DependencyError, extra


class LibraryError(Exception):
    """A library does not read a file, or does not come to an end. The message is the end of a sentence."""


@dataclass(frozen=True)
class Library:
    """A library that reads files in another process.

    Attributes:
        name: what its makers call it.
        licence: its SPDX identifier.
        extra: the extra of vfs that installs it.
        module: the module by which one sees that it is installed.
        reader: "MODULE:CLASS" of what runs in the fork: see `vfs.libraries.server.LibraryReader`.
        seconds: by the clock, for an answer about a small file.
    """

    name: str
    licence: str
    extra: str
    module: str
    reader: str
    seconds: float = 30.0

    @property
    def install(self) -> str:
        """What to type to install it."""
        return extra(self.extra)

    @property
    def installed(self) -> bool:
        """True if it is there."""
        return find_spec(self.module) is not None

    def check(self, path: str) -> None:
        """Check that the library is there.

        Raises:
            DependencyError: it is not.
        """
        if not self.installed:
            raise DependencyError(f"{path}: reading it needs {self.name} ({self.licence}): {self.install}")
