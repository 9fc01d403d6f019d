"""Watches who opens the files of a set.

Only `vfs.boundary` may: a path that others open may lead elsewhere by then.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import vfs.boundary

_watched: dict[str, list[str]] = {}  # folder -> a line for each file opened there: path and caller
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
    """Watch the files in a folder that this process opens, but not by `vfs.boundary`.

    Yields: a list that gets a line for each.
    """
    global _hooked
    if not _hooked:
        sys.addaudithook(_hook)  # it cannot be removed
        _hooked = True
    opened = _watched.setdefault(os.path.abspath(folder), [])
    try:
        yield opened
    finally:
        del _watched[os.path.abspath(folder)]
