"""Defines every exception that vfs raises on purpose.

Each derives from `VfsError` *and* from the built-in exception that a caller would expect::

    VfsError
    ├── FormatError        (ValueError)         a file is not what its format says: garbled, foreign, absurd sizes
    │   └── UnknownFormatError                  no format recognises the file
    ├── OptionError        (ValueError)         an option or argument does not fit (nav_shape, dtype, chunks, …)
    ├── RegionError        (IndexError)         an index or region outside the array, or of a kind numpy would refuse
    ├── UnknownArrayError  (KeyError)           a container has no array of that name
    ├── DependencyError    (ImportError)        a package is needed, or was replaced; the message says what to do
    ├── SourceError        (OSError, EIO)       source bytes cannot be read: this is an error, never a fill value
    │   ├── MissingSourceError (FileNotFoundError, ENOENT)
    │   ├── OutsideError       (PermissionError, EACCES)    the file lies outside of the folder of its set
    │   ├── TruncatedSourceError                the file ends before the bytes that are needed
    │   ├── SourceChangedError                  the file was changed after it was opened
    │   ├── NotYetError                         frames of a set that is still being written, and are not there yet
    │   ├── NoChunkError                        a key that looks like a chunk, and no array has this chunk
    │   └── DecodeError                         the bytes of a block cannot be decoded (a garbled compressed strip)
    ├── VerifyError        (ValueError)         an exported store does not read as what was written
    ├── NotReferenceableError (ValueError)      the chunks of an array are not single runs of bytes that zarr decodes
    ├── ExecutorError      (RuntimeError)       whoever was to do the work cannot: a pool of processes that broke
    └── ServeError         (OSError)            serving cannot work; the message says why and what to do
        └── MountError                          mounting or unmounting cannot work
"""

from __future__ import annotations

import errno
import importlib.util
import os
import shlex
import shutil
import sys
from typing import Any


def printable(text: object) -> str:
    """Return text that fits on one line of a log or terminal.

    Characters that cannot be printed (newlines, escapes, bytes that are not UTF-8) are spelled out.
    """
    said = str(text)
    if said.isprintable():
        return said
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in said)


def size(nbytes: int) -> str:
    """Write a number of bytes with the unit that fits: 17 B, 4.2 MiB."""
    value = float(nbytes)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if value < 1024 or unit == "PiB":
            break
        value /= 1024
    return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"


def installing(package: str) -> str:
    """Return what to type in a shell to install a package beside vfs: `pip install 'vfs[plot]'`.

    The shell's `pip` may be that of another Python (vfs came by pipx, or runs in a notebook): then the path of this one
    stands before it.
    """
    package, python = shlex.quote(package), shlex.quote(sys.executable or "python3")
    if importlib.util.find_spec("pip") is None:
        return f"uv pip install {package} --python {python}"
    beside = os.path.dirname(shutil.which("pip") or "") == os.path.dirname(sys.executable or "")
    return f"{'' if beside else f'{python} -m '}pip install {package}"


def extra(name: str) -> str:
    """Return what to type to install the libraries of an extra of vfs: see `installing`."""
    return installing(f"vfs[{name}]")


class VfsError(Exception):
    """Base class of all errors that vfs raises on purpose.

    Its text is always one line, whatever the names of files and the texts in their headers contain.
    """

    def __str__(self) -> str:
        return printable(self.args[-1]) if self.args else ""


class FormatError(VfsError, ValueError):
    """A file is not what its format says."""


class UnknownFormatError(FormatError):
    """No format recognises the file."""


class OptionError(VfsError, ValueError):
    """An option or argument does not fit."""


class RegionError(VfsError, IndexError):
    """An index or region that the array does not have."""


class UnknownArrayError(VfsError, KeyError):
    """A container has no array of that name."""


NOT_INSTALLED = "vfs is on Python's path, but not installed: pip install -e FOLDER of a checkout"


class DependencyError(VfsError, ImportError):
    """An optional package is needed, or vfs was updated while the process ran."""


class SourceError(VfsError, OSError):
    """Source bytes cannot be read.

    `errno` is EIO unless said otherwise, so that it passes through FUSE as an I/O error.
    """

    def __init__(self, message: str, code: int = errno.EIO) -> None:
        super().__init__(code, message)

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), (str(self), int(self.args[0]))


class MissingSourceError(SourceError, FileNotFoundError):
    """A source file is not there."""

    def __init__(self, message: str, code: int = errno.ENOENT) -> None:
        super().__init__(message, code)


class OutsideError(SourceError, PermissionError):
    """A file lies outside of the folder of its set, and `follow_outside` was not given."""

    def __init__(self, message: str, code: int = errno.EACCES) -> None:
        super().__init__(message, code)


class TruncatedSourceError(SourceError):
    """A source file ends before the bytes that are needed."""


class SourceChangedError(SourceError):
    """A source file was changed or replaced after it was opened."""


class NotYetError(SourceError):
    """Frames of a set that is still being written (`follow`) are not there yet: ask again later.

    Args:
        head: number of frames that are there.
    """

    def __init__(self, message: str, code: int = errno.EIO, head: int = 0) -> None:
        super().__init__(message, code)
        self.head = head

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), (str(self), int(self.args[0]), self.head)


class NoChunkError(SourceError):
    """A key looks like a chunk, and no array that is shown has this chunk.

    Whoever asks for it knows the arrays from before, as they were shown at this place by another
    mount or server. Zarr's clients turn an absent chunk into fill values, so it is not absent but an
    error.

    Args:
        stands_in: (True for a folder, bytes of a file) of what the key would be if its array were
            larger; None if the array has no key of this kind.
    """

    def __init__(self, message: str, code: int = errno.EIO, stands_in: tuple[bool, int] | None = None) -> None:
        super().__init__(message, code)
        self.stands_in = stands_in


class DecodeError(SourceError):
    """The bytes of a block cannot be decoded."""


class VerifyError(VfsError, ValueError):
    """An exported store does not read as what was written."""


class NotReferenceableError(VfsError, ValueError):
    """The bytes of a file are not what a chunk of zarr is, so that nobody can refer to them as one."""


class ExecutorError(VfsError, RuntimeError):
    """The executor that was to do the work lost a worker for good, or takes no tasks."""


class IncompleteWarning(UserWarning):
    """A set holds less than it should, or more than is shown.

    The numbers that are shown are right; absent frames are blank or left out. Each opening gives one
    warning, with a line for each finding. If shown numbers would be wrong, opening is an error
    instead, unless `allow_incomplete=True` is given.
    """


class ServeError(VfsError, OSError):
    """Serving cannot work."""


class MountError(ServeError):
    """Mounting or unmounting cannot work."""
