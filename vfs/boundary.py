"""Which files a set may consist of: those that somebody named, and what lies in their folders.

Whoever serves a folder that others can write to must not serve more than that folder: a description, OME-XML, an HDF5 link, or a
symbolic link called `scan002.mib` could name any file that the server's user may read. So every source file is opened by
`open_file`, and where it *really* lies (with all symbolic links followed) decides: in the folder of a file that the user named, or
below it; or it is such a named file itself, which may be a link to anywhere. The kernel is asked for the place of the opened file,
so that what is changed between looking and opening makes no difference. `follow_outside` (`ANYWHERE`) lifts all of this.

While a set is opened its boundary is `current()`; what that opens in turn (what a description stands for) is bound by the same one.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from vfs.errors import MissingSourceError, OutsideError, SourceError

ALLOW = "--follow-outside (follow_outside=True)"


@dataclass(frozen=True)
class Boundary:
    """Where the files of a set may lie.

    Attributes:
        folders: real paths of folders.
        files: real paths of files elsewhere: what the links that were named led to then.
    """

    folders: tuple[str, ...]
    files: tuple[str, ...] = ()
    _known: dict[str, bool] = field(default_factory=dict, init=False, compare=False, repr=False)

    @classmethod
    def around(cls, named: Sequence[str | os.PathLike[str]]) -> Boundary:
        """Around the files that somebody named."""
        names = [os.path.abspath(os.fspath(name)) for name in named]
        folders = {folder: _real(folder) for folder in dict.fromkeys(map(os.path.dirname, names))}
        made = cls(tuple(dict.fromkeys(folders.values())), tuple(os.path.realpath(name) for name in names if os.path.islink(name)))
        made._known.update(dict.fromkeys(folders, True))
        return made

    @property
    def unlimited(self) -> bool:
        """True where a set may consist of any files."""
        return "/" in self.folders

    def holds(self, real: str) -> bool:
        """True where a path without links lies within."""
        for folder in self.folders:
            if real.startswith(folder) and (folder == "/" or real[len(folder) : len(folder) + 1] in ("/", "")):
                return True
        return real in self.files

    def covers(self, path: str) -> bool:
        """True where a path, and all that links make of it, lies within now."""
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
        """Raises:
        OutsideError: the path leads out.
        """
        if not self.covers(path):
            raise self._outside(path, os.path.realpath(path))

    def check_open(self, path: str, fd: int) -> None:
        """Raises:
        OutsideError: the file that was opened by that path lies elsewhere.
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
        return OutsideError(f"{path}: {leads}outside of {', '.join(self.folders[:3])}, the folder of the set; {ALLOW} reads it nevertheless")


def _real(folder: str) -> str:
    """`os.path.realpath` of a folder; the kernel knows it at once, however deep the folder lies."""
    try:
        fd = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return os.path.realpath(folder)
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:  # no /proc
        return os.path.realpath(folder)
    finally:
        os.close(fd)


ANYWHERE = Boundary(("/",))

_current: ContextVar[Boundary | None] = ContextVar("boundary", default=None)


def current() -> Boundary:
    """The boundary of the set that is being opened; `ANYWHERE` where none is."""
    return _current.get() or ANYWHERE


@contextmanager
def within(boundary: Boundary) -> Iterator[Boundary]:
    """Open a set within a boundary: inside of another one, within that one."""
    bound = _current.get() or boundary
    token = _current.set(bound)
    try:
        yield bound
    finally:
        _current.reset(token)


def open_file(path: str, boundary: Boundary | None = None, flags: int = 0) -> int:
    """A descriptor of a file, for reading.

    Args:
        boundary: where it may lie; None: `current()`.
        flags: more flags of `os.open`.

    Raises:
        MissingSourceError: it is not there.
        OutsideError: it lies outside of the boundary.
        SourceError: it cannot be opened, or is no file but a folder, a pipe or a device (opening a pipe would wait for its writer).
    """
    flags |= os.O_RDONLY | os.O_CLOEXEC
    try:
        try:
            fd = os.open(path, flags | os.O_NONBLOCK)
        except BlockingIOError:  # another process (a file server) holds a lease of it
            fd = os.open(path, flags)
    except FileNotFoundError:
        raise MissingSourceError(f"{path}: no such file") from None
    except OSError as error:
        raise SourceError(f"{path}: cannot be opened: {error.strerror}", error.errno or errno.EIO) from None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise SourceError(f"{path}: expected a file, found something else (a folder or a device)")
        (boundary or current()).check_open(path, fd)
    except BaseException:
        os.close(fd)
        raise
    return fd
