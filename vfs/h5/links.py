"""Follows paths and links within an HDF5 file, and opens the files that it links to.

libhdf5 would open whatever file a link names, even a pipe, by its name and without asking. So it
follows no link and opens no file by its name: every step of a path is checked here first, and
`vfs.sources.boundary` opens every file and gives it to libhdf5 as a descriptor.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import h5py

from vfs.errors import MissingSourceError, OutsideError, SourceError
from vfs.h5 import writers
from vfs.h5.asking import AskedFile, AskedFiles
from vfs.h5.facts import AbsentError, LeftOutError
from vfs.helper.budget import Budget
from vfs.helper.messages import packed
from vfs.sources.boundary import Boundary, open_found

KEPT = 8  # linked files that are open at once
MAX_HOPS = 16  # most links behind links: as many as libhdf5 follows


@dataclass(frozen=True, eq=False)
class Opened:
    """An open file. Objects found in it are valid as long as this exists.

    Attributes:
        path: its real path.
        size: bytes.
        mark: device and inode.
        root: its root group.
    """

    path: str
    size: int
    mark: tuple[int, int]
    root: Any


class Links:
    """Opens the files of a set.

    Args:
        boundary: the folders in which they may lie.
        budget: limits of this process.
        write: takes messages: each file is reported once, with its size and time.
    """

    def __init__(self, boundary: Boundary, budget: Budget, write: Callable[[bytes], None]) -> None:
        self.boundary = boundary
        self.budget = budget
        self.write = write
        self.files: dict[str, Opened] = {}
        self.said: set[str] = set()
        self.locks: dict[writers.Inode, int] | None = None

    def opened(self, path: str, fd: int) -> Opened:
        """Open a file by its descriptor, and close the descriptor.

        Raises:
            OSError: it is not an HDF5 file.
            BusyError: a program is writing it.
        """
        try:
            found = os.fstat(fd)
            self.budget.file(found.st_size)
            root, growing = _root(f"/proc/self/fd/{fd}", found)
        finally:
            os.close(fd)
        if path not in self.said:
            self.said.add(path)
            self.locks = writers.locks() if self.locks is None else self.locks
            writer = self.locks.get((found.st_dev, found.st_ino))
            said = {} if writer is None else {"writer": writers.program(writer)}
            said |= {"growing": growing} if growing else {}
            self.write(packed({"file": path, "size": found.st_size, "time": found.st_mtime_ns, **said}))
        return Opened(path, found.st_size, (found.st_dev, found.st_ino), root)

    def place(self, name: str, of: Opened) -> str:
        """Return the real path of a file that another one names.

        Raises:
            AbsentError: see `descriptor`.
        """
        fd = self.descriptor(name, of)
        try:
            return os.readlink(f"/proc/self/fd/{fd}")
        finally:
            os.close(fd)

    def open(self, name: str, of: Opened) -> Opened:
        """Open the file that another one names; "." is that one itself.

        Raises:
            AbsentError: see `descriptor`; or it is not an HDF5 file.
        """
        if name == ".":
            return of
        path = os.path.join(os.path.dirname(of.path), name)
        if path not in self.files:
            there = self._opener(name, of)
            while len(self.files) >= KEPT:
                self.files.pop(next(iter(self.files)))
            try:
                self.files[path] = there()
            except OSError as error:
                raise AbsentError(
                    f"links to {name}, which cannot be read as HDF5 ({first_line(error)})", path
                ) from None
        return self.files[path]

    def descriptor(self, name: str, of: Opened) -> int:
        """Return a descriptor of a file that another one names.

        Raises:
            AbsentError: it lies outside the folder, does not exist, or is not a file.
        """
        with self._absent(name, os.path.join(os.path.dirname(of.path), name)) as path:
            return open_found(path, self.boundary)[0]

    def _opener(self, name: str, of: Opened) -> Callable[[], Opened]:
        """Find a file that another one names. Returns a function that opens it, which may raise OSError.

        Raises:
            AbsentError: see `descriptor`.
        """
        fd = self.descriptor(name, of)
        return lambda: self.opened(os.readlink(f"/proc/self/fd/{fd}"), fd)

    @staticmethod
    @contextmanager
    def _absent(name: str, path: str) -> Iterator[str]:
        """Have a file that cannot be opened raise `AbsentError`.

        Args:
            name: the link; path: where it leads.
        """
        try:
            yield path
        except MissingSourceError:
            raise AbsentError(f"links to {name}, which is missing", path) from None
        except OutsideError:
            raise AbsentError(f"links to {name}, outside the folder", path, outside=True) from None
        except (SourceError, ValueError) as error:  # ValueError: a null character in the name
            raise AbsentError(
                f"links to {name}, which cannot be opened ({first_line(error).removeprefix(f'{path}: ')})", path
            ) from None

    def follow(self, at: Opened, group: Any, path: str) -> tuple[Opened, Any]:
        """Return the object to which a path leads from a group on, and its file.

        Returns: (file, object).

        Raises:
            AbsentError: another file on the way cannot be read, or does not hold it.
            LeftOutError: the path leads nowhere.
        """
        of, found, hops = at, group, 0
        steps = deque([path])
        try:
            while steps:
                step = steps.popleft()
                if "/" in step:
                    found = at.root if step.startswith("/") else found
                    steps.extendleft(reversed(step.split("/")))
                elif step not in ("", "."):
                    target = _target(found, step)
                    if target is None:
                        found = found[step]
                        continue
                    hops += 1
                    if hops > MAX_HOPS:
                        raise LeftOutError(f"its link leads nowhere (more than {MAX_HOPS} links, one after the other)")
                    if target[0]:
                        at = self.open(target[0], at)
                        found = at.root
                    steps.appendleft(f"{target[1]}/")
        except (KeyError, OSError, RuntimeError, ValueError, TypeError) as error:
            if at is of:
                raise LeftOutError(f"its link leads nowhere ({first_line(error)})") from None
            raise AbsentError(f"links to {at.path}, which does not hold it ({first_line(error)})", at.path) from None
        return at, found


class AskedLinks(Links):
    """Opens files that are not on this machine: their bytes are asked for."""

    def __init__(self, asked: AskedFiles, budget: Budget, write: Callable[[bytes], None]) -> None:
        super().__init__(Boundary(()), budget, write)
        self.asked = asked
        self.marks: dict[str, tuple[int, int]] = {}

    def opened(self, path: str, fd: int) -> Opened:
        """Open a file by its name."""
        size, time = self.asked.state(path)
        self.budget.file(size)
        root = h5py.File(AskedFile(self.asked, path, size), "r", locking=False)
        if path not in self.said:
            self.said.add(path)
            self.write(packed({"file": path, "size": size, "time": time}))
        return Opened(path, size, self.marks.setdefault(path, (0, len(self.marks))), root)

    def place(self, name: str, of: Opened) -> str:
        with self._absent(name, name):
            path = self.asked.join(of.path, name)
            self.asked.state(path)
        return path

    def _opener(self, name: str, of: Opened) -> Callable[[], Opened]:
        path = self.place(name, of)
        return lambda: self.opened(path, -1)


def _root(name: str, found: os.stat_result) -> tuple[Any, str]:
    """Open a file. Returns: (its root group, words for who writes it, if that is with SWMR; else "").

    SWMR ("single writer, multiple readers") keeps the structure of a file whole at each moment.

    Raises:
        OSError: it is not an HDF5 file.
        BusyError: a program is writing it, without SWMR.
    """
    try:
        return h5py.File(name, "r", locking=False), ""
    except OSError as error:
        why = writers.explained(first_line(error), found)
        if not isinstance(why, writers.BusyError):
            raise why from None
        try:
            return h5py.File(name, "r", locking=False, swmr=True), str(why)
        except OSError:
            raise why from None


def _target(group: Any, name: str) -> tuple[str, str] | None:
    """Return (file or "", path) that a link names; None if it is the object itself.

    Raises: whatever h5py raises if there is no such link.
    """
    if not isinstance(group, h5py.Group):
        raise KeyError(f"no group holds {name}")
    links, coded = group.id.links, name.encode("utf-8", "surrogateescape")
    kind = links.get_info(coded).type
    if kind == h5py.h5l.TYPE_HARD:
        return None
    if kind not in (h5py.h5l.TYPE_SOFT, h5py.h5l.TYPE_EXTERNAL):
        raise TypeError("a link of a kind that is not known")
    value = links.get_val(coded)
    file, path = (b"", value) if kind == h5py.h5l.TYPE_SOFT else value
    return os.fsdecode(file), path.decode("utf-8", "surrogateescape")


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message."""
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return text.splitlines()[0][:400] if text else type(error).__name__
