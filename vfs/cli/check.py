"""Says of data sets whether they are whole, for `vfs check`.

A set is opened as `allow_incomplete` opens it, so that all that is absent is known at once. Sets in folders are found
as `vfs info FOLDER` finds them. Several folders are looked at, and several sets are read, in threads at once; those
that do not answer are given up (`vfs.cli.hands`), and none is lost for what another one does.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from threading import Lock
from typing import Any, TypeVar

from vfs.cli.folders import below, folders_below, look
from vfs.cli.hands import Hands
from vfs.cli.opening import is_folder, is_zarr
from vfs.cli.report.facts import file_sizes
from vfs.cli.tables import count as counted
from vfs.engine.array import ArrayReader
from vfs.errors import SourceError, VfsError, printable, size
from vfs.folder_tree.records import DESCRIPTION
from vfs.formats import HEADERLESS, by_name, formats
from vfs.live.doubts import said_of_holes
from vfs.model.checksums import ByteSum
from vfs.model.open_options import OpenOptions
from vfs.model.sources import Sources
from vfs.sets.opening import OpenedSet
from vfs.sets.set_sources import folder_name
from vfs.sources.boundary import Boundary
from vfs.sources.local import LocalSources
from vfs.sources.names import is_url
from vfs.sources.urls import shown

FOLDERS = 4
"""Folders that are looked at at once."""
SETS = 2
"""Sets that are read at once, each with several threads: 150 compressed stacks of 1 MiB take 0.9 s instead of 1.2 s."""

_OPEN = 200  # sets of a folder that stay open until they are read: one takes 20 KB or more
_STEP = 8 << 20  # bytes of which a checksum is computed at once
# Endings that other programs use for files of their own: nobody misses a set in such a file
_TEXTS = (".xml", ".json", ".txt", ".hdr")
_TABLES = (".csv", ".pro", ".eds", ".mas")
_ANYBODYS = (*_TEXTS, *_TABLES, ".map", ".st", ".rec", ".msk", ".spe", ".fit", ".index", ".mat", ".nc", ".scn")

WHOLE, ABSENT, UNREADABLE = range(3)
"""The states of a set; the highest of all sets is the exit status."""
_STATES = ("whole", "incomplete", "unreadable")

Tell = Callable[[int, int], object]
Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


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
        about = [self.format, counted(self.files, "file"), size(self.nbytes)] if self.format else []
        about += [f"{size(self.read)} read"] * bool(self.read)
        said = ": " + "; ".join(self.said) if self.said else ""
        return printable(f"{self.path}: {_STATES[self.state]}{', ' * bool(about)}{', '.join(about)}{said}")

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
        hands: the threads.
    """

    open_one: Callable[[str, Sources | None], OpenedSet]
    options: OpenOptions
    read: bool
    tell: Tell
    hands: Hands = field(default_factory=lambda: Hands(lambda: None))


@dataclass(frozen=True)
class _FoundSet:
    """A set that was found.

    Attributes:
        checked: what is known of it by now.
        files: real paths of its files.
        nbytes: bytes of its arrays, if it has yet to be read.
        again: opens it then.
    """

    checked: Checked
    files: frozenset[str]
    nbytes: int = 0
    again: Callable[[], OpenedSet] | None = None

    def of(self, path: str) -> _FoundSet:
        """Return it with the path of the file that names it."""
        return replace(self, checked=replace(self.checked, path=path))


def check(paths: Sequence[str], how: How) -> Iterator[Checked]:
    """Check files and folders with all that is below them, in order.

    Files of one set are checked once, and so is a set that is named again, or is in a folder that is.
    """
    told = replace(how, tell=_in_turn(how))
    found = _once(paths, told)
    if not how.read:
        yield from (one.checked for one in found)
        return
    for one, checked in how.hands.each(found, lambda one: _read_through(one, told), SETS):
        yield checked or replace(one.checked, state=UNREADABLE, said=(*one.checked.said, how.hands.silence))


def _in_turn(how: How) -> Tell:
    """Return a function that several threads may call, each to say that it goes on."""
    lock = Lock()

    def told(nbytes: int, more: int) -> None:
        how.hands.goes_on()
        with lock:
            how.tell(nbytes, more)

    return told


def _once(paths: Sequence[str], how: How) -> Iterator[_FoundSet]:
    """Find sets, each once."""
    seen: set[str] = set()
    done: set[frozenset[str]] = set()
    for path in paths:
        kind = _answer(_kind, path, how)
        if kind is None:
            yield _failed(path, how.hands.silence)
            continue
        folder, real = kind
        if folder:
            found = _in_folder(path, how, seen)
        elif real in seen:
            continue
        else:
            found = _named(path, how)
        now: set[frozenset[str]] = set()  # sets of one folder may share all files
        for one in found:
            if one.files in done:
                how.tell(0, -one.nbytes)
                continue
            now.add(one.files)
            seen |= one.files
            yield one
        done |= now


def _kind(path: str) -> tuple[bool, str]:
    """Say whether a path is a folder in which sets are looked for, and where it really is."""
    return is_folder(path) and not is_zarr(path), os.path.realpath(path)


def _answer(work: Callable[[Asked], Answer], thing: Asked, how: How) -> Answer | None:
    """Return what is made of a thing; None if it does not answer."""
    return next(found for _, found in how.hands.each(iter([thing]), work, 1))


def _named(path: str, how: How) -> Iterator[_FoundSet]:
    """Open the set that a file names."""
    yield _answer(lambda name: _opened(name, how), path, how) or _failed(path, how.hands.silence)


def _opened(path: str, how: How) -> _FoundSet:
    try:
        return _known(how.open_one(path, None), how).of(path)
    except Exception as error:  # whatever is wrong with it, others are checked
        return _failed(path, _said(error))


def _known(group: OpenedSet, how: How, stays: bool = True) -> _FoundSet:
    """Say what is known of a set that was opened.

    Args:
        stays: it stays open until it is read.
    """
    files = file_sizes(group)
    said = tuple(one.said for one in group.absent)
    checked = Checked(
        "", ABSENT if said else WHOLE, said, group.opening.format, len(files), sum(n for n in files.values() if n > 0)
    )
    real = frozenset(map(os.path.realpath, files))
    if not how.read:
        return _FoundSet(_looked_at(group, checked), real)
    nbytes = sum(array.nbytes for array in group.arrays.values())
    how.tell(0, nbytes)
    return _FoundSet(checked, real, nbytes, (lambda: group) if stays else group.opening.open)


def _failed(path: str, said: str) -> _FoundSet:
    said = said.removeprefix(f"{os.path.abspath(path)}: ").removeprefix(f"{path}: ")
    return _FoundSet(Checked(shown(path), UNREADABLE, (said,)), frozenset([os.path.realpath(path)]))


def _said(error: Exception) -> str:
    if isinstance(error, VfsError):
        return str(error)
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    return f"{type(error).__name__}: {error} (this is a bug in vfs)"


def _looked_at(group: OpenedSet, checked: Checked) -> Checked:
    """Look at the files of a set that were not looked at when it was opened."""
    try:
        for array in group.arrays.values():
            if (look := getattr(array.backend, "look_at_all", None)) is not None:
                look()
        said = dict.fromkeys(line for array in group.arrays.values() for line in said_of_holes(array.dataset))
    except Exception as error:
        return replace(checked, state=UNREADABLE, said=(*checked.said, _said(error)))
    return replace(checked, state=ABSENT, said=(*checked.said, *said)) if said else checked


def _read_through(one: _FoundSet, how: How) -> Checked:
    """Read a set."""
    checked, read = one.checked, 0
    if one.again is None:
        return checked
    try:
        group = one.again()
        checked = _looked_at(group, checked)
        if checked.state == UNREADABLE:
            return checked
        for nbytes in _read(group):
            read += nbytes
            how.tell(nbytes, 0)
    except Exception as error:  # whatever is wrong with it, others are checked
        checked = replace(checked, state=UNREADABLE, said=(*checked.said, _said(error)))
    return replace(checked, read=read)


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


def _in_folder(top: str, how: How, seen: set[str]) -> Iterator[_FoundSet]:
    """Find the sets in a folder and all below it.

    Args:
        seen: real paths of files whose sets were found.
    """
    outside: list[str] = []
    folders = folders_below(top, lambda folder: _answer(below, folder, how) or [])
    try:
        for folder, found in how.hands.each(folders, lambda name: _look(name, how), FOLDERS):
            if found is None:
                yield _failed(folder, how.hands.silence)
            else:
                yield from found.sets
                outside += found.outside
    except VfsError as error:  # a server does not list it
        yield _failed(top, str(error))
    for link in outside:
        if (_answer(os.path.realpath, link, how) or link) not in seen:
            yield from _named(link, how)


@dataclass(frozen=True)
class _Folder:
    """What is in a folder: sets; and links to files outside of it, which may be sets."""

    sets: Sequence[_FoundSet]
    outside: Sequence[str]


def _look(folder: str, how: How) -> _Folder:
    try:
        return _within(folder, how)
    except Exception as error:  # whatever is wrong with it, others are checked
        return _Folder([_failed(folder, _said(error))], ())


def _within(folder: str, how: How) -> _Folder:
    number = count()
    found = look(folder, how.open_one, how.options, lambda group: _known(group, how, next(number) < _OPEN))
    sets = [one.of(os.path.join(folder, name)) for name, one in found.sets.items()]
    sets += [_failed(os.path.join(folder, name), why) for name, why in found.broken.items()]
    endings = _telling(how.options)
    sets += [_opened(os.path.join(folder, name), how) for name in found.refused if name.lower().endswith(endings)]
    if is_url(folder_name(folder)):
        return _Folder(sets, ())
    texts = [
        os.path.join(folder, name)
        for name in found.refused
        if name.lower().endswith(_TEXTS) and not name.lower().endswith(endings)
    ]
    sets += [_failed(name, "holds zeros where a text should begin") for name in texts if _is_blank(name)]
    lost, outside = _links(folder, endings, frozenset().union(*(one.files for one in sets)), how.options)
    return _Folder([*sets, *lost], outside)


def _telling(options: OpenOptions) -> tuple[str, ...]:
    """Return endings of files that are sets: one that no format recognises is damaged."""
    kinds = [by_name(options.format)] if options.format else list(formats().values())
    return tuple(
        ending
        for kind in kinds
        for ending in kind.extensions
        if kind.name != HEADERLESS
        and (kind.name == DESCRIPTION or not ending.endswith((*_ANYBODYS, *by_name(HEADERLESS).extensions)))
    )


def _is_blank(path: str) -> bool:
    """Return True if a file begins with zeros, as one that was not written to its end before a power failure."""
    head = LocalSources().read(path, 0, 16)
    return bool(head) and not head.strip(b"\0")


def _links(
    folder: str, endings: tuple[str, ...], known: frozenset[str], options: OpenOptions
) -> tuple[list[_FoundSet], list[str]]:
    """Find links in a folder that are named as sets are, and lead nowhere, or to files outside of it.

    Args:
        known: real paths of files whose sets were found.
    """
    lost, outside, boundary = [], [], Boundary((os.path.realpath(folder),))
    with os.scandir(folder) as entries:
        links = [one.path for one in entries if one.is_symlink() and one.name.lower().endswith(endings)]
    for link in sorted(links):
        real = os.path.realpath(link)
        if real in known:
            continue
        try:
            found = os.stat(link)
        except OSError as error:
            lost.append(_failed(link, f"a link to {os.readlink(link)}: {error.strerror}"))
        else:
            if stat.S_ISREG(found.st_mode) and not boundary.holds(real) and not options.follow_outside:
                outside.append(link)
    return lost, outside
