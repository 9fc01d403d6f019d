"""Has the files of this machine, within a boundary."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import BinaryIO

from vfs.errors import MissingSourceError, OutsideError, SourceError
from vfs.model.file_state import UNKNOWN, FileState
from vfs.model.sources import FolderLook, FolderSources, Inside
from vfs.sources.boundary import (
    ANYWHERE,
    FLAGS,
    MAX_FOLDERS,
    Boundary,
    look_at,
    open_folder,
    open_found,
)
from vfs.sources.names import absolute, is_url

_HEADS = 8
"""Most files whose first bytes are kept while a set is opened. The file that tells the format is among them."""
_HEAD = 1 << 16
"""Most bytes that are kept of one."""
_FILES = 12
"""Most files that stay open while a set is opened: more than the sectors of a K2 camera, which are read by turns."""


class LocalSources(FolderSources):
    """The files of this machine.

    While a set is opened (`opening`, `around`), its folders and the files that were opened last stay open, and first
    bytes that were read are kept: the next question about them asks nobody.

    Args:
        boundary: where the files may lie.
    """

    def __init__(self, boundary: Boundary = ANYWHERE) -> None:
        self.boundary = boundary
        self._folders: dict[str, int] | None = None
        """Name of a folder of the set -> its descriptor, -1 if it cannot be used; None while no set is opened."""
        self._heads: dict[str, tuple[bytes, os.stat_result]] = {}
        self._files: dict[str, tuple[int, os.stat_result]] = {}

    def __reduce__(self) -> tuple[type, tuple[Boundary]]:
        return type(self), (self.boundary,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalSources) and self.boundary == other.boundary

    def __hash__(self) -> int:
        return hash((self.boundary.folders, self.boundary.files))

    @classmethod
    def around(cls, named: Sequence[str]) -> LocalSources:
        """Make sources for opening the set that some files name: it may consist of these and of what is beside them.

        To be used as `with` uses it.
        """
        folders: dict[str, int] = {}
        made = cls(Boundary.around(named, folders))
        made._folders = folders
        return made

    def opening(self) -> LocalSources:
        made = LocalSources(self.boundary)
        made._folders = {}
        return made

    def __enter__(self) -> LocalSources:
        return self

    def __exit__(self, *error: object) -> None:
        folders, self._folders = self._folders or {}, None
        for fd in folders.values():
            if fd >= 0:
                os.close(fd)
        while self._files:
            os.close(self._files.popitem()[1][0])
        self._heads.clear()

    @property
    def anywhere(self) -> bool:
        return self.boundary.unlimited

    # the verbs

    def state(self, name: str) -> FileState:
        if name in self._heads:
            found = self._heads[name][1]
        elif name in self._files:
            found = self._files[name][1]
        else:
            folder, last = self._place(name)
            if folder >= 0:
                with suppress(OSError):  # looking at it by its path raises the error
                    found = os.stat(last, dir_fd=folder, follow_symlinks=False)
                    if stat.S_ISREG(found.st_mode):
                        return FileState.of(found)
            found = look_at(name, self.boundary)
        return FileState.of(found)

    def read(self, name: str, start: int, size: int) -> bytes:
        head = self._heads.get(name)
        if head is not None and start >= 0 and (start + size <= len(head[0]) or head[1].st_size == len(head[0])):
            return head[0][start : start + size]
        fd, found = self._opened(name)
        try:
            left = max(0, min(size, found.st_size - start)) if start >= 0 else 0
            got = os.pread(fd, left, start) if left else b""
            while len(got) < left and (more := os.pread(fd, left - len(got), start + len(got))):
                got += more  # a read that returns less before the end of the file is continued
        except OSError as error:
            raise SourceError(f"{name}: cannot be read: {error.strerror}", error.errno or 5) from None
        finally:
            if self._folders is None:
                os.close(fd)
        if start == 0 and self._folders is not None and len(self._heads) < _HEADS and len(got) <= _HEAD:
            self._heads.setdefault(name, (got, found))
        return got

    def stream(self, name: str) -> BinaryIO:
        return os.fdopen(self.open(name)[0], "rb")

    def names(self, folder: str) -> Sequence[str]:
        self.boundary.check(f"{folder}/x")
        try:
            return os.listdir(folder)
        except FileNotFoundError:
            raise MissingSourceError(f"{folder}: no such folder") from None
        except OSError as error:
            raise _unlisted(folder, error) from None

    def join(self, folder: str, name: str) -> str:
        if is_url(name):
            raise OutsideError(f"{name}: is on a server, where files of this machine lead to none; open it by its URL")
        path = absolute(os.path.join(folder, name))
        self.boundary.check(path)
        return path

    def again(self, name: str) -> FileState:
        return FileState.of(os.stat(name))

    # folders

    def folder(self, name: str) -> FolderLook:
        real = os.path.realpath(name)
        if not self.boundary.holds(real):
            raise SourceError(f"{name}: leads out of the tree, to {real}")
        try:
            found = os.stat(name)
        except OSError as error:
            raise _unlisted(name, error) from None
        return FolderLook(real, (found.st_mtime_ns, found.st_ino, found.st_dev), found.st_mtime_ns)

    def inside(self, folder: str, above: Collection[str]) -> Inside:
        found: dict[str, FileState | None] = {}
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        target = os.path.realpath(entry.path)
                        if not self.boundary.holds(target):
                            continue
                        if os.path.isfile(target):
                            found[entry.name] = UNKNOWN
                        elif self.anywhere and os.path.isdir(target) and not any(_below(one, target) for one in above):
                            found[entry.name] = None
                    elif entry.is_dir(follow_symlinks=False):
                        found[entry.name] = None
                    elif entry.is_file(follow_symlinks=False):
                        found[entry.name] = UNKNOWN
        except OSError as error:
            raise _unlisted(folder, error) from None
        return found

    def look(self, name: str) -> tuple[FileState, int] | None:
        try:
            found = os.stat(name)
        except OSError:
            return None
        return (FileState.of(found), found.st_ino) if stat.S_ISREG(found.st_mode) else None

    def holds_any(self, folder: str, names: Collection[str]) -> bool:
        return any(os.path.lexists(os.path.join(folder, name)) for name in names)

    # what only files of this machine have

    def open(self, name: str, flags: int = 0) -> tuple[int, os.stat_result]:
        """Open a file for reading. Returns (its descriptor, its stat): see `open_found`."""
        folder, last = self._place(name)
        if folder >= 0:
            try:
                fd = os.open(last, flags | FLAGS | os.O_NOFOLLOW, dir_fd=folder)
            except OSError:
                pass  # a link, or something is wrong: opening it by its path tells
            else:
                try:
                    found = os.fstat(fd)
                    if stat.S_ISREG(found.st_mode):
                        return fd, found
                except BaseException:
                    os.close(fd)
                    raise
                os.close(fd)
        return open_found(name, self.boundary, flags)

    def _opened(self, name: str) -> tuple[int, os.stat_result]:
        """Open a file, or return one that is open. While a set is opened, it stays open."""
        opened = self._files.get(name)
        if opened is None:
            opened = self.open(name)
            if self._folders is not None:
                if len(self._files) >= _FILES:
                    os.close(self._files.pop(next(iter(self._files)))[0])
                self._files[name] = opened
        return opened

    def _place(self, path: str) -> tuple[int, str]:
        """Return (descriptor of a file's folder, name of the file); (-1, path) if it must be opened by path.

        A name in such a folder that is not a link is a file within the boundary: nothing else needs
        to be checked, and the kernel does not walk down the path for each of a hundred thousand
        files.
        """
        folders = self._folders
        cut = path.rfind("/")
        if folders is None or cut < 1:
            return -1, path
        folder = path[:cut]
        fd = folders.get(folder)
        if fd is None:
            fd = -1
            if len(folders) < MAX_FOLDERS:
                fd, real = open_folder(folder)
                if fd >= 0 and not self.boundary.holds(real):  # the file is opened by its path, which raises the error
                    os.close(fd)
                    fd = -1
                folders[folder] = fd
        return fd, path[cut + 1 :]


def _below(path: str, folder: str) -> bool:
    """Return True if a path is this folder or lies below it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _unlisted(folder: str, error: OSError) -> SourceError:
    return SourceError(f"{folder}: the folder cannot be listed: {error.strerror}", error.errno or 5)


class LocalWithout(LocalSources):
    """Sources of files of this machine in which one file does not exist: a set is opened as it was before that came.

    What is pickled, and opened again, has it.

    Args:
        within: the sources, in which it may exist.
        name: of that file.
    """

    def __init__(self, within: LocalSources, name: str) -> None:
        super().__init__(within.boundary)
        self._within, self._without = within, name

    def __reduce__(self) -> tuple[type, tuple[Boundary]]:
        return LocalSources, (self.boundary,)

    def state(self, name: str) -> FileState:
        return self._within.state(self._other(name))

    def read(self, name: str, start: int, size: int) -> bytes:
        return self._within.read(self._other(name), start, size)

    def names(self, folder: str) -> Sequence[str]:
        return [name for name in self._within.names(folder) if f"{folder}/{name}" != self._without]

    def open(self, name: str, flags: int = 0) -> tuple[int, os.stat_result]:
        return self._within.open(self._other(name), flags)

    def _other(self, name: str) -> str:
        if name == self._without:
            raise MissingSourceError(f"{name}: no such file")
        return name
