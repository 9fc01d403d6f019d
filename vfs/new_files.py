"""Creates files: always new ones, never through a link.

Whoever may write into a folder of ours (a shared folder of a group, a folder for temporary files) can leave a link
there that has the name of a file that we are about to write. Nothing that it leads to is ever opened for writing.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress

_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


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


def put(path: str, data: bytes, mode: int = 0o666) -> None:
    """Write a file that has its name only once it is whole, and replaces what had that name.

    Raises:
        OSError: it cannot be written; then nothing is left behind.
    """
    above, name = os.path.split(path)
    folder = os.open(above or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    part = f"{name}.{secrets.token_hex(8)}.part"
    try:
        try:
            with open(create(part, mode, folder), "wb") as file:
                file.write(data)
            os.replace(part, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(part, dir_fd=folder)
            raise
    finally:
        os.close(folder)
