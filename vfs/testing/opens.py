"""Who opens the files of a set: everything but `vfs.boundary` opens by a path that may lead elsewhere by then."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import vfs.boundary

_watched: dict[str, list[str]] = {}  # folder -> what was opened there, and by whom
_hooked = False


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if event != "open" or not _watched or not isinstance(args[0], str | bytes):
        return
    caller = sys._getframe(1).f_code.co_filename
    if caller == vfs.boundary.__file__:
        return
    path = os.path.abspath(os.fsdecode(args[0]))
    for folder, opened in _watched.items():
        if path.startswith(folder + os.sep) and not os.path.isdir(path):
            opened.append(f"{path} by {caller}")


@contextmanager
def opened_past_the_boundary(folder: str | os.PathLike[str]) -> Iterator[list[str]]:
    """The files in a folder that are opened by this process in the meantime, but not by `vfs.boundary`: a line for each."""
    global _hooked
    if not _hooked:
        sys.addaudithook(_hook)  # there is no way to take it away
        _hooked = True
    opened = _watched.setdefault(os.path.abspath(folder), [])
    try:
        yield opened
    finally:
        del _watched[os.path.abspath(folder)]
