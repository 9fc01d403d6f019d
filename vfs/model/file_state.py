"""The state of a file: what tells whether it is still the file that was opened."""

from __future__ import annotations

from typing import NamedTuple


class FileState(NamedTuple):
    """The state of a file.

    Attributes:
        size: bytes.
        written: time of writing (mtime), ns since 1970.
        changed: time of change (ctime), ns since 1970; 0 if it is not known.
        tag: what a store calls this version (an ETag); "" for files of this machine.
    """

    size: int
    written: int
    changed: int = 0
    tag: str = ""
