"""Tells whether a set that cannot be opened may open later, because its files are still being written."""

from __future__ import annotations

import errno
import glob
import os
from collections.abc import Sequence
from contextlib import suppress

from vfs.errors import FormatError, OutsideError, SourceError
from vfs.sources.local import LocalSources

_HEAD = 4096  # first bytes of a file that are looked at
_NEVER = (errno.EACCES, errno.EPERM)


def may_open_later(error: FormatError | SourceError, paths: Sequence[str], settle: float) -> bool:
    """Return True if writing may make a set open that does not open now.

    That is so where a file is missing, locked, or ends too early. What is not of its format may become it as long as
    one of the files that are called alike is empty, begins with zeros, or was not seen to rest for `settle` seconds.

    Args:
        error: why it does not open.
        paths: the files that name it, with globs.
    """
    if isinstance(error, SourceError):
        return not isinstance(error, OutsideError) and error.errno not in _NEVER
    return any(_begins(path, settle) for given in paths for path in glob.glob(given) + glob.glob(_alike(given)))


def _alike(path: str) -> str:
    """Return a pattern for the files whose names begin like that of a file, without numbers at its end."""
    return glob.escape(os.path.splitext(path)[0].rstrip("0123456789")) + "*"


def _begins(path: str, settle: float) -> bool:
    """Return True if a file is empty, begins with zeros, or was seen to be written just now, or for the first time."""
    from vfs.live.file_watch import SEEN

    with suppress(OSError), open(path, "rb") as file:
        return not any(file.read(_HEAD)) or SEEN.look(LocalSources(), os.path.abspath(path)).quiet < settle
    return False
