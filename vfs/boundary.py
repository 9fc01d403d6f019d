"""Decides which files a set may consist of: those that the user named, and files in their folders.

A server of a folder that others can write to must not serve more than that folder. A description,
OME-XML, an HDF5 link, or a symbolic link called `scan002.mib` could name any file that the server's
user may read. So `open_file` opens every source file and looks where it *really* lies, with all
symbolic links followed: this must be in the folder of a file that the user named, or below it. A
named file itself may be a link to anywhere. The kernel is asked for the place of the file after
opening it, so that nobody can exchange it between the check and the opening. `follow_outside`
(`ANYWHERE`) lifts all of this.

While a set is opened its boundary is `current()`. Sets that are opened on the way (those that a
description stands for) are bound by the same one.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple

from vfs.errors import MissingSourceError, OutsideError, SourceError
from vfs.wording import option


def reads_outside() -> str:
    """Return the end of a message on a file outside of the folder of its set: the option that reads it."""
    return f"{option(follow_outside=True)} reads it nevertheless"


@dataclass(frozen=True)
class Boundary:
    """Says where the files of a set may lie.

    Attributes:
        folders: real paths of folders.
        files: real paths of files elsewhere: the targets of links that the user named.
    """

    folders: tuple[str, ...]
    files: tuple[str, ...] = ()
    _known: dict[str, bool] = field(default_factory=dict, init=False, compare=False, repr=False)

    @classmethod
    def around(cls, named: Sequence[str | os.PathLike[str]], handles: dict[str, int] | None = None) -> Boundary:
        """Make the boundary for the files that the user named.

        Args:
            handles: receives descriptors of their folders, by the folders' names; the caller closes
                them.
        """
        names = [absolute(name) for name in named]
        folders = {}
        for folder in dict.fromkeys([name[: name.rfind("/")] or "/" for name in names]):
            fd, folders[folder] = _open_folder(folder)
            if handles is not None and len(handles) < _MOST_HANDLES:
                handles[folder] = fd
            elif fd >= 0:
                os.close(fd)
        made = cls(
            tuple(dict.fromkeys(folders.values())),
            tuple(os.path.realpath(name) for name in names if os.path.islink(name)),
        )
        made._known.update(dict.fromkeys(folders, True))
        return made

    @property
    def unlimited(self) -> bool:
        """True if a set may consist of any files."""
        return "/" in self.folders

    def holds(self, real: str) -> bool:
        """Return True if a path without links lies within."""
        for folder in self.folders:
            if real.startswith(folder) and (folder == "/" or real[len(folder) : len(folder) + 1] in ("/", "")):
                return True
        return real in self.files

    def covers(self, path: str) -> bool:
        """Return True if a path lies within, with all its links followed."""
        if self.unlimited:
            return True
        if os.path.islink(path):
            return self.holds(os.path.realpath(path))
        folder, name = os.path.split(os.path.abspath(path))
        known = self._known.get(folder)  # a hundred thousand files lie in a few folders
        if known is None:
            known = self._known[folder] = self.holds(os.path.realpath(folder))
        return known or self.holds(os.path.join(os.path.realpath(folder), name))

    def check(self, path: str) -> None:
        """Refuse a path that leads outside.

        Raises:
            OutsideError: it does.
        """
        if not self.covers(path):
            raise self._outside(path, os.path.realpath(path))

    def check_open(self, path: str, fd: int) -> None:
        """Refuse an open file that lies outside, whatever path it was opened by.

        Raises:
            OutsideError: it does.
        """
        if self.unlimited:
            return
        try:
            real = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:  # no /proc
            real = os.path.realpath(path)
        if not self.holds(real) and not self.holds(real.removesuffix(" (deleted)")):
            raise self._outside(path, real)

    def _outside(self, path: str, real: str) -> OutsideError:
        leads = f"leads to {real}, " if real != os.path.abspath(path) else "lies "
        return OutsideError(
            f"{path}: {leads}outside of {', '.join(self.folders[:3])}, the folder of the set; {reads_outside()}"
        )


def absolute(path: str | os.PathLike[str]) -> str:
    """Return `os.path.abspath(path)`, five times as fast for paths that are absolute already."""
    name = os.fspath(path)
    if name[:1] == "/" and name[-1:] != "/" and "/." not in name and "//" not in name:
        return name
    return os.path.abspath(name)


def _open_folder(folder: str) -> tuple[int, str]:
    """Open a folder, only to find files in it.

    Returns: (its descriptor or -1, its real path). The kernel knows that path at once, however deep
        the folder lies.
    """
    try:
        fd = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return -1, os.path.realpath(folder)
    try:
        return fd, os.readlink(f"/proc/self/fd/{fd}")
    except OSError:  # no /proc
        os.close(fd)
        return -1, os.path.realpath(folder)


ANYWHERE = Boundary(("/",))


class _Opening(NamedTuple):
    """The state of a set while it is being opened."""

    boundary: Boundary
    handles: dict[str, int]
    """Name of a folder with files of the set -> its descriptor; -1 if the folder cannot be used."""
    heads: dict[str, tuple[bytes, os.stat_result]]
    """Path -> (first bytes, stat) of the file that told the format: the format asks for both once more."""

    def place(self, path: str) -> tuple[int, str]:
        """Return (descriptor of a file's folder, name of the file); (-1, path) if it must be opened by path.

        A name in such a folder that is not a link is a file within the boundary: nothing else needs
        to be checked, and the kernel does not walk down the path for each of a hundred thousand
        files.
        """
        cut = path.rfind("/")
        if cut < 1:
            return -1, path
        folder = path[:cut]
        fd = self.handles.get(folder)
        if fd is None:
            fd = -1
            if len(self.handles) < _MOST_HANDLES:
                fd, real = _open_folder(folder)
                if fd >= 0 and not self.boundary.holds(real):  # the file is opened by its path, which raises the error
                    os.close(fd)
                    fd = -1
                self.handles[folder] = fd
        return fd, path[cut + 1 :]


_MOST_HANDLES = 16
"""Most folders that are kept open while a set is opened: descriptors are few, and most sets lie in one folder."""

_current: ContextVar[_Opening | None] = ContextVar("opening", default=None)


def current() -> Boundary:
    """Return the boundary of the set that is being opened, `ANYWHERE` if there is none."""
    opening = _current.get()
    return ANYWHERE if opening is None else opening.boundary


@contextmanager
def within(boundary: Boundary | None, named: Sequence[str | os.PathLike[str]] = ()) -> Iterator[Boundary]:
    """Open a set within a boundary. An opening inside of another one keeps the outer boundary.

    Args:
        boundary: None makes one around the files that are `named`.
    """
    outer = _current.get()
    handles: dict[str, int] = {}
    try:
        if outer is None:
            bound = Boundary.around(named, handles) if boundary is None else boundary
            token = _current.set(_Opening(bound, handles, {}))
        else:  # the folders' descriptors belong to the outer opening, which closes them
            bound = outer.boundary
            token = _current.set(_Opening(bound, outer.handles, {}))
        try:
            yield bound
        finally:
            _current.reset(token)
    finally:
        for fd in handles.values():
            if fd >= 0:
                os.close(fd)


def remember(path: str, head: bytes, found: os.stat_result) -> None:
    """Keep the first bytes of a file, and its stat, until the set is open."""
    opening = _current.get()
    if opening is not None:
        opening.heads[path] = head, found


def remembered(path: str) -> tuple[bytes, os.stat_result] | None:
    """Return what `remember` kept of a file, None if it kept nothing."""
    opening = _current.get()
    return None if opening is None else opening.heads.get(path)


def look_at(path: str) -> os.stat_result:
    """Return the stat of a file of the set that is being opened.

    Raises:
        MissingSourceError: it does not exist.
        OutsideError: it lies outside of the boundary.
        SourceError: it cannot be looked at, or is not a file.
    """
    opening = _current.get()
    if opening is not None:
        if path in opening.heads:
            return opening.heads[path][1]
        folder, name = opening.place(path)
        if folder >= 0:
            try:
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except OSError:
                pass  # looking at it by its path raises the error
            else:
                if stat.S_ISREG(found.st_mode):
                    return found
    try:
        found = os.stat(path)
    except FileNotFoundError:
        raise MissingSourceError(f"{path}: no such file") from None
    except OSError as error:
        raise SourceError(f"{path}: cannot be opened: {error.strerror}", error.errno or errno.EIO) from None
    current().check(path)
    if not stat.S_ISREG(found.st_mode):
        raise SourceError(f"{path}: expected a file, found something else (a folder or a device)")
    return found


def open_file(path: str, boundary: Boundary | None = None, flags: int = 0) -> int:
    """Open a file for reading and return its descriptor: see `open_found`."""
    return open_found(path, boundary, flags)[0]


def open_found(path: str, boundary: Boundary | None = None, flags: int = 0) -> tuple[int, os.stat_result]:
    """Open a file for reading. Returns (its descriptor, its stat).

    Args:
        boundary: where it may lie; None for `current()`.
        flags: more flags of `os.open`.

    Raises:
        MissingSourceError: it does not exist.
        OutsideError: it lies outside of the boundary.
        SourceError: it cannot be opened, or is a folder, a pipe or a device (opening a pipe would
            wait for its writer).
    """
    flags |= os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
    opening = _current.get() if boundary is None else None
    if opening is not None:
        folder, name = opening.place(path)
        if folder >= 0:
            try:
                fd = os.open(name, flags | os.O_NOFOLLOW, dir_fd=folder)
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
    try:
        try:
            fd = os.open(path, flags)
        except BlockingIOError:  # another process (a file server) holds a lease on it
            fd = _open_leased(path, flags & ~os.O_NONBLOCK)
    except FileNotFoundError:
        raise MissingSourceError(f"{path}: no such file") from None
    except OSError as error:
        raise SourceError(f"{path}: cannot be opened: {error.strerror}", error.errno or errno.EIO) from None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise SourceError(f"{path}: expected a file, found something else (a folder or a device)")
        (boundary or current()).check_open(path, fd)
    except BaseException:
        os.close(fd)
        raise
    return fd, found


def read_open(fd: int, size: int, offset: int) -> bytes:
    """Read `size` bytes of an open file at `offset`, fewer only at its end.

    A read that returns less before the end of the file is continued.
    """
    got = os.pread(fd, size, offset) if size else b""
    while len(got) < size and (more := os.pread(fd, size - len(got), offset + len(got))):
        got += more
    return got


def _open_leased(path: str, flags: int) -> int:
    """Open a file with a lease on it, waiting for its holder, but never wait for a pipe or device.

    Something else may have its name by now.
    """
    handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return os.dup(handle)  # the caller checks what it is, and refuses it
        return os.open(f"/proc/self/fd/{handle}", flags)
    finally:
        os.close(handle)


def open_stream(path: str) -> BinaryIO:
    """Open a file as a stream of bytes, for libraries that would otherwise open its path.

    See `open_found`.
    """
    return os.fdopen(open_file(path), "rb")


def not_ours(path: str) -> str:
    """Say why a folder does not belong to us alone; "" if it does."""
    try:
        found = os.lstat(path)
    except OSError as error:
        return str(error.strerror)
    if not stat.S_ISDIR(found.st_mode):
        return "not a folder"
    if found.st_uid != os.geteuid():
        return f"it belongs to user {found.st_uid}"
    if found.st_mode & 0o077:
        return f"others may use it (mode {stat.S_IMODE(found.st_mode):04o})"
    return ""
