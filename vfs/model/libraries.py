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
        modules: the modules by which one sees that it is installed.
        reader: "MODULE:CLASS" of what runs in the fork: see `vfs.libraries.server.LibraryReader`.
        seconds: by the clock, for an answer about a small file.
        together: True if one process answers for all sets, as it is slow to start. Questions then have "set", the
            opening of the one that they are about; the reader looks after changed files itself.
    """

    name: str
    licence: str
    extra: str
    modules: tuple[str, ...]
    reader: str
    seconds: float = 30.0
    together: bool = False

    @property
    def install(self) -> str:
        """What to type to install it."""
        return extra(self.extra)

    @property
    def installed(self) -> bool:
        """True if it is there."""
        return all(find_spec(module) is not None for module in self.modules)

    def check(self, path: str) -> None:
        """Check that the library is there.

        Raises:
            DependencyError: it is not.
        """
        if not self.installed:
            raise DependencyError(f"{path}: reading it needs {self.name} ({self.licence}): {self.install}")
