"""Creates files: always new ones, never through a link, in folders that are held open meanwhile.

Whoever may write into a folder of ours (a shared folder of a group, a folder for temporary files) can leave a link
there that has the name of a file that we are about to write, or of a folder above it. Nothing that such a link leads to
is opened for writing, replaced or removed.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_AGAIN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def create(path: str | os.PathLike[str], mode: int = 0o666, folder: int | None = None) -> int:
    """Create a file and return its descriptor, open for reading and writing.

    Args:
        mode: its permissions, before the umask.
        folder: descriptor of the folder that a relative path begins in.

    Raises:
        FileExistsError: there is something of this name, if only a link that leads nowhere.
        OSError: it cannot be created.
    """
    return os.open(path, _NEW, mode, dir_fd=folder)


def create_anew(path: str, mode: int = 0o666, folder: int | None = None) -> int:
    """Do what `create` does, but remove before what an earlier process, or somebody else, left under this name."""
    with suppress(FileNotFoundError):
        os.unlink(path, dir_fd=folder)
    return create(path, mode, folder)


def reopen(path: str, flags: int = 0, mode: int = 0o666) -> int:
    """Open a file of ours that may be there already, or create it, and return its descriptor.

    Args:
        flags: further ones of `os.open`.
        mode: permissions of a new one, before the umask.

    Raises:
        OSError: it cannot be opened; or there is a link, no file, or a file that has other names, too.
    """
    try:
        descriptor = os.open(path, _AGAIN | flags, mode)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _not_ours(path, "a link") from None
        raise
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(descriptor)
        raise _not_ours(path, "another name of a file" if stat.S_ISREG(found.st_mode) else "no file")
    return descriptor


def _not_ours(path: str, what: str) -> OSError:
    return OSError(errno.ELOOP, f"{path} is {what}; remove it", path)


@contextmanager
def folder_below(top: str, path: str) -> Iterator[int]:
    """Hold a folder open that lies below another one, and make it if it is not there.

    Args:
        top: a folder, which may be named by a link.
        path: of the other one, relative to it; no part of it may be a link.

    Yields: its descriptor.

    Raises:
        OSError: a part of it is a link, or no folder; or it cannot be made.
    """
    folder = os.open(top, _FOLDER)
    try:
        for name in filter(None, path.split("/")):
            try:
                below = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            except FileNotFoundError:
                with suppress(FileExistsError):  # another thread did
                    os.mkdir(name, dir_fd=folder)
                below = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            folder, above = below, folder
            os.close(above)
        yield folder
    finally:
        os.close(folder)


@contextmanager
def replacing(path: str, part: str = "", mode: int = 0o666) -> Iterator[BinaryIO]:
    """Have a file appear, or replace the one of its name, only when it is whole.

    Args:
        part: name that it is written under, in the same folder; what has it is removed. "": one that nobody knows.

    Yields: the file, open for writing. Whatever fails, nothing is left behind.

    Raises:
        OSError: it cannot be written.
    """
    above, name = os.path.split(path)
    part = part or f"{name}.{secrets.token_hex(8)}.part"
    with folder_below(above or ".", "") as folder:
        try:
            with open(create_anew(part, mode, folder), "wb") as file:
                yield file
            os.replace(part, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(part, dir_fd=folder)
            raise


def put(path: str, data: bytes, part: str = "", mode: int = 0o666) -> None:
    """Write a file that has its name only once it is whole: see `replacing`."""
    with replacing(path, part, mode) as file:
        file.write(data)
