"""Writes files and folders that appear only when they are complete: stores of an export, results of `vfs reduce`.

Each is written beside its final name, flushed to the disk, and renamed at the end, so what has the final name is
always complete. A name that is taken is refused. `MarksFile` notes beside it how far it is, so that what was
interrupted can go on. `not_ours` says whether a folder is fit for files that nobody else may write.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from shlex import quote

from vfs.errors import OptionError, VfsError

PAGE_ENDING = ".html"
"""How names of a scan that is written as one page end."""
OF_STORES = ("codec", "shards", "chunks", "resume", "verify", "zarr_format")
"""Options of an export that have no effect on such a page; nor on references, apart from chunks."""
_FLUSHED = 16  # files that are flushed at the same time


@contextmanager
def whole(target: str | os.PathLike[str], replace: bool = False) -> Iterator[str]:
    """Have a file or folder appear only when it is complete.

    Args:
        replace: a file that has this name is replaced; the caller knows which one that is.

    Yields: the name that it is written under, beside its own; it is renamed at the end. Whatever
        fails, nothing is left behind.

    Raises:
        OptionError: it cannot be written, or see `check_target`.
    """
    target = check_target(target, replace)
    partial = f"{target}.{os.getpid()}.part"
    try:
        yield partial
        flush_all(partial)
        appear(partial, target, replace)
    except BaseException as error:
        if os.path.isdir(partial):
            shutil.rmtree(partial, ignore_errors=True)
        elif os.path.lexists(partial):
            os.unlink(partial)
        if isinstance(error, OSError) and not isinstance(error, VfsError):
            raise unwritten(target, error) from None
        raise


def appear(partial: str, target: str, replace: bool = False) -> None:
    """Give what is complete its final name, and have the disk hold that.

    Raises:
        OptionError: there is something of this name.
    """
    check_target(target, replace)  # for what came meanwhile: a file would be replaced
    os.rename(partial, target)
    flush(os.path.dirname(target))


def unwritten(target: str, error: OSError) -> OptionError:
    """Return the error for a file or folder that cannot be written."""
    return OptionError(f"{target}: cannot be written: {error.strerror or error}")


def flush(path: str) -> int:
    """Have the disk hold what was written to a file, or the names in a folder. Return its bytes."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


def flush_together(paths: Sequence[str]) -> int:
    """Flush files or folders, many at once. Return their bytes.

    A disk writes its journal for several files as fast as for one. 512 files of 128 KiB took 0.6 to 1.1 s one after the
    other, and 0.1 to 0.2 s so (ext4).
    """
    with ThreadPoolExecutor(min(_FLUSHED, max(1, len(paths))), "vfs-flush") as pool:
        return sum(pool.map(flush, paths))


def flush_all(path: str) -> None:
    """Flush a file, or a folder and all below it."""
    found = list(os.walk(path))
    flush_together([os.path.join(folder, name) for folder, _, names in found for name in names])
    flush_together([folder for folder, _, _ in found] or [path])


def check_target(target: str | os.PathLike[str], replace: bool = False) -> str:
    """Check that a file or folder can be made, and return its absolute path.

    Args:
        replace: it may exist.

    Raises:
        OptionError: it exists already, the folder above it does not, or it is a URL.
    """
    if "://" in os.fspath(target):
        raise OptionError(f"{target}: only stores (OUT.zarr) are written to URLs; write it here, and copy it")
    target = os.path.abspath(target)
    if os.path.lexists(target) and not replace:
        raise OptionError(f"{target}: exists already; remove it, or give another name")
    if not os.path.isdir(os.path.dirname(target)):
        raise OptionError(
            f"{target}: there is no folder {os.path.dirname(target)}; make it first: mkdir -p"
            f" {quote(os.path.dirname(target))}"
        )
    return target


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


class MarkLines(ABC):
    """The lines of a journal, which only ever grow. Only one process can have it.

    Attributes:
        name: for messages.
        rest: what to remove in order to begin anew.
        other: what else might be running.
    """

    name: str
    rest: str
    other: str

    @abstractmethod
    def lines(self) -> list[bytes]:
        """Return the lines that are there. The last one may not be whole."""

    @abstractmethod
    def cut(self, lines: Sequence[bytes]) -> None:
        """Forget all but these first lines."""

    @abstractmethod
    def add(self, lines: Sequence[bytes]) -> None:
        """Write lines, and have the disk hold them.

        Raises:
            OptionError: another process writes there, too.
        """

    @abstractmethod
    def remove(self) -> None:
        """Remove all."""

    @abstractmethod
    def close(self) -> None:
        """Let other processes have it."""

    def another(self) -> OptionError:
        """Return the error for another process that has it."""
        return OptionError(f"{self.name}: {self.other} of this name is running; wait for it, or end it")


class MarksFile(MarkLines):
    """Lines of a file.

    Raises:
        OptionError: another process has it.
    """

    rest = "the two .part files of this name"

    def __init__(self, name: str, other: str = "another export") -> None:
        self.name, self.other = name, other
        self._file = open(name, "a+b")  # noqa: SIM115  (open as long as the export)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise self.another() from None

    def lines(self) -> list[bytes]:
        self._file.seek(0)
        return self._file.read().splitlines(keepends=True)

    def cut(self, lines: Sequence[bytes]) -> None:
        self._file.truncate(sum(map(len, lines)))

    def add(self, lines: Sequence[bytes]) -> None:
        self._file.writelines(lines)
        self._file.flush()
        os.fsync(self._file.fileno())

    def remove(self) -> None:
        os.unlink(self.name)

    def close(self) -> None:
        self._file.close()
