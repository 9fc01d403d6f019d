"""Says of data sets whether they are whole, for `vfs check`.

A set is opened as `allow_incomplete` opens it, so that all that is absent is known at once. Sets in folders are found
as `vfs info FOLDER` finds them. Several folders are looked at in threads, and each set is read with several.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from vfs.cli.common import is_zarr
from vfs.cli.folders import look
from vfs.cli.report import count, sources
from vfs.engine.array import ahead
from vfs.errors import FormatError, VfsError, size
from vfs.hierarchy.opening import OpenedSet
from vfs.model.open_options import OpenOptions
from vfs.model.sources import Sources

FOLDERS = 4
"""Folders that are looked at at once."""

WHOLE, ABSENT, UNREADABLE = range(3)
"""The states of a set; the highest of all sets is the exit status."""
_STATES = ("whole", "incomplete", "unreadable")

Tell = Callable[[int], object]


@dataclass(frozen=True)
class Checked:
    """What was found of a set.

    Attributes:
        path: the file that names it.
        state: WHOLE, ABSENT or UNREADABLE.
        said: a line for each thing that it lacks; the error if it cannot be read.
        format, files, nbytes: name of the format, number and bytes of the files; "" and 0 if it cannot be opened.
        read: bytes of its arrays that were read.
    """

    path: str
    state: int
    said: tuple[str, ...] = ()
    format: str = ""
    files: int = 0
    nbytes: int = 0
    read: int = 0

    def line(self) -> str:
        """Return it for people."""
        about = [self.format, count(self.files, "file"), size(self.nbytes)] if self.format else []
        about += [f"{size(self.read)} read"] * bool(self.read)
        said = ": " + "; ".join(self.said) if self.said else ""
        return f"{self.path}: {_STATES[self.state]}{', ' * bool(about)}{', '.join(about)}{said}"

    def json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "path": self.path,
            "state": _STATES[self.state],
            "said": list(self.said),
            "format": self.format or None,
            "files": self.files,
            "bytes": self.nbytes,
            "bytes_read": self.read,
        }


@dataclass(frozen=True)
class How:
    """How sets are checked.

    Attributes:
        open_one: opens the set that a file names, with the files of some sources; None: those of this machine.
        options: those that it is opened with.
        read: True to read every element.
        tell: is called with the bytes of the arrays, as they are read.
    """

    open_one: Callable[[str, Sources | None], OpenedSet]
    options: OpenOptions
    read: bool
    tell: Tell


def check(paths: Sequence[str], how: How) -> Iterator[Checked]:
    """Check files and folders with all that is below them, in order. Files of one set are checked once."""
    seen: set[str] = set()
    for path in paths:
        if os.path.isdir(path) and not is_zarr(path):
            found: Iterator[Checked | tuple[str, OpenedSet]] = _in_folder(path, how)
        elif os.path.realpath(path) in seen:
            continue
        else:
            found = iter([_opened(path, how)])
        for one in found:
            if isinstance(one, Checked):
                yield one
                continue
            name, group = one
            seen.update(map(os.path.realpath, sources(group)))
            yield _of_set(name, group, how)


def _opened(path: str, how: How) -> Checked | tuple[str, OpenedSet]:
    try:
        return path, how.open_one(path, None)
    except VfsError as error:
        return _failed(path, error)


def _failed(path: str, error: VfsError | str) -> Checked:
    return Checked(path, UNREADABLE, (str(error).removeprefix(f"{os.path.abspath(path)}: ").removeprefix(f"{path}: "),))


def _of_set(path: str, group: OpenedSet, how: How) -> Checked:
    files = sources(group)
    about = group.opening.format, len(files), sum(n for n in files.values() if n > 0)
    said = tuple(one.said for one in group.absent)
    read = 0
    try:
        for nbytes in _read(group) if how.read else ():
            read += nbytes
            how.tell(nbytes)
    except VfsError as error:
        return Checked(path, UNREADABLE, (*said, str(error)), *about, read)
    return Checked(path, ABSENT if said else WHOLE, said, *about, read)


def _read(group: OpenedSet) -> Iterator[int]:
    """Read all elements that are stored, and yield their bytes from time to time."""
    for array in group.arrays.values():
        for _, tile in array.tiles(reuse=True):
            yield tile.nbytes


def _in_folder(top: str, how: How) -> Iterator[Checked | tuple[str, OpenedSet]]:
    """Open the sets in a folder and all below it."""
    for _, found in ahead(_folders(top), lambda folder: _look(folder, how), FOLDERS):
        yield from found


def _look(folder: str, how: How) -> list[Checked | tuple[str, OpenedSet]]:
    try:
        found = look(folder, how.open_one, how.options, lambda group: group)
    except FormatError:  # neither sets nor folders
        return []
    except VfsError as error:
        return [_failed(folder, error)]
    sets = [(os.path.join(folder, name), group) for name, group in found.sets.items()]
    return [*sets, *(_failed(os.path.join(folder, name), why) for name, why in found.broken.items())]


def _folders(top: str) -> Iterator[str]:
    """Yield a folder and those below it, without zarr stores; links to folders are not followed."""
    for folder, below, _ in os.walk(top):
        yield folder
        below[:] = sorted(name for name in below if not is_zarr(os.path.join(folder, name)))
