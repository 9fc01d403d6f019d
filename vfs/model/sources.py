"""Says what formats, and the backends of files that are not on this machine, can ask sources for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import BinaryIO, NamedTuple, Protocol, runtime_checkable

from vfs.errors import SourceError
from vfs.model.file_state import FileState

_MAX_FAR = 16  # places of a file that is not on this machine


def worth_looking(sources: Sources, most: int) -> int:
    """Return how many places of a file may be looked at in case something is wrong there.

    They are `most`, or a few where each question takes long.
    """
    return min(most, _MAX_FAR) if sources.far_away else most


@runtime_checkable
class Sources(Protocol):
    """Where the files of a set come from: the file system of this machine, a store of objects, memory.

    Names are absolute: paths that begin with `/`, or URLs. Sources are pickled with the arrays that are read from them,
    so they are small, and compare equal if they are the same. A class of them derives from this one: `again`, `states`,
    `expect` and `known_states` answer for sources that answer each question at once.

    Attributes:
        far_away: True if each question takes long, as of a server.
        as_stored: True if what is read are the bytes of the files; False if they are what is packed in some of them.
    """

    far_away: bool = False
    as_stored: bool = True

    @property
    def anywhere(self) -> bool:
        """True if the files of a set may name any others; the user allowed this."""

    def state(self, name: str) -> FileState:
        """Look at a file.

        Raises:
            MissingSourceError: it does not exist.
            OutsideError: the set may not use it.
            SourceError: it cannot be looked at, or is not a file.
        """

    def read(self, name: str, start: int, size: int) -> bytes:
        """Read `size` bytes from byte `start` on, fewer only at the end of the file.

        A garbled header may ask for any bytes: those that the file does not have take no memory.

        Raises: what `state` raises; SourceError: it cannot be read.
        """

    def stream(self, name: str) -> BinaryIO:
        """Open a file as a stream that can seek, for libraries that need one.

        Raises: what `state` raises.
        """

    def names(self, folder: str) -> Sequence[str]:
        """List a folder: the names of the files and folders in it, without the folder, in any order.

        Raises:
            MissingSourceError: it does not exist.
            SourceError: it cannot be listed.
        """

    def join(self, folder: str, name: str) -> str:
        """Return the absolute name of a file that another file calls `name`, relative to a folder.

        Raises:
            OutsideError: the set may not use that file.
        """

    def opening(self) -> AbstractContextManager[Sources]:
        """Return the same sources for opening one set, in one thread.

        Until that ends they may keep what makes the next question quick: open folders, first bytes.
        """

    def again(self, name: str) -> FileState:
        """Look where the name of a file that was opened leads now, which may be something else than a file of the set.

        Raises:
            OSError: it cannot be looked at.
        """
        return self.state(name)

    def states(self, names: Sequence[str]) -> list[FileState | SourceError]:
        """Look at many files. Return what `state` returns, or raises, for each."""
        return [looked_at(self, name) for name in names]

    def expect(self, names: Sequence[str], starts: Sequence[int] | None = None) -> None:
        """Say that the states and some bytes of many files are asked for next, so that all can be asked for at once.

        Args:
            starts: first of the bytes that are asked for of each file; None: those at its beginning.
        """
        return

    def known_states(self, names: Sequence[str]) -> list[FileState] | None:
        """Return the states of files that are far away, if a list of names said all of them; None if not."""
        return None


def looked_at(sources: Sources, name: str) -> FileState | SourceError:
    """Return the state of a file, or the error that looking at it raised."""
    try:
        return sources.state(name)
    except SourceError as error:
        return error


Inside = Mapping[str, FileState | None]
"""Name in a folder -> the state of a file, `UNKNOWN` where the list of names does not say it; None for a folder."""


class FolderLook(NamedTuple):
    """What is known of a folder without reading the names in it.

    Attributes:
        real: its name, with links followed.
        state: another one after names in it came or went; None: only its names tell.
        time: when they did last, ns since 1970; 0 if that is not known.
    """

    real: str
    state: object = None
    time: int = 0


@runtime_checkable
class FolderSources(Sources, Protocol):
    """Sources whose folders can be walked through, as a tree of folders is shown."""

    def folder(self, name: str) -> FolderLook:
        """Look at a folder.

        Raises:
            SourceError: it cannot be looked at, or lies where the set may use nothing.
        """

    def inside(self, folder: str, above: Collection[str]) -> Inside:
        """Read the names of the files and folders in a folder. A link counts as its target, where that may be used.

        Args:
            above: real names of this folder and the folders above it. A link to one of them, or to a folder above one,
                would lead round in circles and is left out.

        Raises:
            SourceError: it cannot be listed.
        """

    def look(self, name: str) -> tuple[FileState, int] | None:
        """Return the state of a file, and a number that tells another file from one that looks the same; None: there
        is no such file, or it cannot be looked at.
        """

    def holds_any(self, folder: str, names: Collection[str]) -> bool:
        """Return True if a folder has something with one of these names."""
