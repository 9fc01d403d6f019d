"""Says of data sets whether they are whole, for `vfs check`.

A set is opened as `allow_incomplete` opens it, so that all that is absent is known at once. Sets in folders are found
as `vfs info FOLDER` finds them. Several folders are looked at, and several sets are read, in threads at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

from vfs.cli.common import is_folder, is_zarr
from vfs.cli.folders import folders_below, look
from vfs.cli.report import count, sources
from vfs.engine.array import ArrayReader, ahead
from vfs.errors import FormatError, SourceError, VfsError, size
from vfs.hierarchy.opening import OpenedSet
from vfs.model.checksums import ByteSum
from vfs.model.open_options import OpenOptions
from vfs.model.sources import Sources

FOLDERS = 4
"""Folders that are looked at at once."""
SETS = 2
"""Sets that are read at once, each with several threads: 150 compressed stacks of 1 MiB take 0.9 s instead of 1.2 s."""

_STEP = 8 << 20  # bytes of which a checksum is computed at once

WHOLE, ABSENT, UNREADABLE = range(3)
"""The states of a set; the highest of all sets is the exit status."""
_STATES = ("whole", "incomplete", "unreadable")

Tell = Callable[[int, int], object]


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
        tell: is called with the bytes of the arrays, as they are read, and with those that more sets have: in any
            thread, one at a time.
    """

    open_one: Callable[[str, Sources | None], OpenedSet]
    options: OpenOptions
    read: bool
    tell: Tell


def check(paths: Sequence[str], how: How) -> Iterator[Checked]:
    """Check files and folders with all that is below them, in order.

    Files of one set are checked once, and so is a set that is named again, or is in a folder that is.
    """
    told = replace(how, tell=_in_turn(how.tell))
    if not how.read:
        yield from (_checked(one, told) for one in _once(paths, told))
        return
    for _, checked in ahead(_once(paths, told), lambda one: _checked(one, told), SETS):
        yield checked


def _in_turn(tell: Tell) -> Tell:
    """Return a function that several threads may call."""
    lock = Lock()

    def told(nbytes: int, more: int) -> None:
        with lock:
            tell(nbytes, more)

    return told


def _checked(one: Checked | tuple[str, OpenedSet], how: How) -> Checked:
    return one if isinstance(one, Checked) else _of_set(*one, how)


def _once(paths: Sequence[str], how: How) -> Iterator[Checked | tuple[str, OpenedSet]]:
    """Open sets, or say why they do not open: each once."""
    seen: set[str] = set()
    done: set[frozenset[str]] = set()
    for path in paths:
        if is_folder(path) and not is_zarr(path):
            found: Iterator[Checked | tuple[str, OpenedSet]] = _in_folder(path, how)
        elif os.path.realpath(path) in seen:
            continue
        else:
            found = iter([_opened(path, how)])
        now: set[frozenset[str]] = set()  # sets of one folder may share all files
        for one in found:
            files = {one.path} if isinstance(one, Checked) else sources(one[1]).keys()
            real = frozenset(map(os.path.realpath, files))
            if real in done:
                if not isinstance(one, Checked):
                    how.tell(0, -_nbytes(one[1]))
                continue
            now.add(real)
            seen |= real
            yield one
        done |= now


def _opened(path: str, how: How) -> Checked | tuple[str, OpenedSet]:
    try:
        group = how.open_one(path, None)
        how.tell(0, _nbytes(group))
        return path, group
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
        for array in group.arrays.values():
            if (look := getattr(array.backend, "look_at_all", None)) is not None:
                look()
        for nbytes in _read(group) if how.read else ():
            read += nbytes
            how.tell(nbytes, 0)
    except VfsError as error:
        return Checked(path, UNREADABLE, (*said, str(error)), *about, read)
    return Checked(path, ABSENT if said else WHOLE, said, *about, read)


def _nbytes(group: OpenedSet) -> int:
    return sum(array.nbytes for array in group.arrays.values())


def _read(group: OpenedSet) -> Iterator[int]:
    """Read all elements that are stored, and yield their bytes from time to time. Compare checksums in the files.

    Raises:
        SourceError: something does not decode, or has another checksum.
    """
    for array in group.arrays.values():
        for _, tile in array.tiles(reuse=True):
            yield tile.nbytes
    for array in group.arrays.values():
        for one in array.dataset.sums:
            yield 0
            wrong = one.wrong(_bytes(array, one))
            if wrong:
                raise SourceError(f"{array.dataset.files.paths[one.file]}: {wrong}")


def _bytes(array: ArrayReader, run: ByteSum) -> Iterator[bytes]:
    files = array.dataset.files
    for at in range(run.start, run.stop, _STEP):
        yield files.sources.read(files.paths[run.file], at, min(_STEP, run.stop - at))


def _in_folder(top: str, how: How) -> Iterator[Checked | tuple[str, OpenedSet]]:
    """Open the sets in a folder and all below it."""
    for _, found in ahead(folders_below(top), lambda folder: _look(folder, how), FOLDERS):
        yield from found


def _look(folder: str, how: How) -> list[Checked | tuple[str, OpenedSet]]:
    try:
        found = look(folder, how.open_one, how.options, lambda group: group)
    except FormatError:  # neither sets nor folders
        return []
    except VfsError as error:
        return [_failed(folder, error)]
    sets = [(os.path.join(folder, name), group) for name, group in found.sets.items()]
    how.tell(0, sum(_nbytes(group) for _, group in sets))
    return [*sets, *(_failed(os.path.join(folder, name), why) for name, why in found.broken.items())]
