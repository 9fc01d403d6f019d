"""Makes the folder of a user in the folder for temporary files: for compiled kernels, and for the state of servers.

Others may not write there: code that lies there is run. Loads no numba.
"""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress


def temporary() -> str:
    """Return the path of the folder.

    Raises:
        OSError: there is no folder for temporary files.
    """
    return os.path.join(tempfile.gettempdir(), f"vfs-{os.geteuid()}")


def made(path: str) -> str:
    """Make a folder for this user, unless it is there. Return why it does not belong to the user alone; "" if it does.

    Raises:
        OSError: it cannot be made.
    """
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    return not_ours(path)


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
