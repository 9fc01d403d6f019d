"""Decides which files a set may consist of: those that the user named, and files in their folders.

A server of a folder that others can write to must not serve more than that folder. A description,
OME-XML, an HDF5 link, or a symbolic link called `scan002.mib` could name any file that the server's
user may read. So `open_file` opens every source file and looks where it *really* lies, with all
symbolic links followed: this must be in the folder of a file that the user named, or below it. A
named file itself may be a link to anywhere. The kernel is asked for the place of the file after
opening it, so that nobody can exchange it between the check and the opening. `follow_outside`
(`ANYWHERE`) lifts all of this.

A boundary belongs to the `LocalSources` through which a set is opened (`vfs.sources.local`). Sets that are opened
on the way (those that a description stands for) are opened through the same ones.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field

from vfs.errors import MissingSourceError, OutsideError, SourceError
from vfs.model.wording import option
from vfs.sources.names import absolute


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
            fd, folders[folder] = open_folder(folder)
            if handles is not None and len(handles) < MAX_FOLDERS:
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


FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
"""Flags with which files are opened."""

MAX_FOLDERS = 16
"""Most folders that are kept open while a set is opened: descriptors are few, and most sets lie in one folder."""


def open_folder(folder: str) -> tuple[int, str]:
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


def open_file(path: str, boundary: Boundary, flags: int = 0) -> int:
    """Open a file for reading and return its descriptor: see `open_found`."""
    return open_found(path, boundary, flags)[0]


def open_found(path: str, boundary: Boundary, flags: int = 0) -> tuple[int, os.stat_result]:
    """Open a file for reading. Returns (its descriptor, its stat).

    Args:
        boundary: where it may lie.
        flags: more flags of `os.open`.

    Raises:
        MissingSourceError: it does not exist.
        OutsideError: it lies outside of the boundary.
        SourceError: it cannot be opened, or is a folder, a pipe or a device (opening a pipe would
            wait for its writer).
    """
    flags |= FLAGS
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
        check_file(path, found)
        boundary.check_open(path, fd)
    except BaseException:
        os.close(fd)
        raise
    return fd, found


def look_at(path: str, boundary: Boundary) -> os.stat_result:
    """Return the stat of a file.

    Raises:
        MissingSourceError: it does not exist.
        OutsideError: it lies outside of the boundary.
        SourceError: it cannot be looked at, or is not a file.
    """
    try:
        found = os.stat(path)
    except FileNotFoundError:
        raise MissingSourceError(f"{path}: no such file") from None
    except OSError as error:
        raise SourceError(f"{path}: cannot be opened: {error.strerror}", error.errno or errno.EIO) from None
    boundary.check(path)
    check_file(path, found)
    return found


def check_file(path: str, found: os.stat_result) -> None:
    """Refuse what is not a file.

    Raises:
        SourceError: it is a folder, a pipe or a device.
    """
    if stat.S_ISDIR(found.st_mode):
        raise SourceError(f"{path}: expected a file, found a folder: name a file of a set in it, or all by a glob")
    if not stat.S_ISREG(found.st_mode):
        raise SourceError(f"{path}: expected a file, found something else (a pipe or a device)")


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
