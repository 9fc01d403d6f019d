"""Finds code that opens files of a set without `vfs.sources`.

Only `vfs.sources` may open them: it checks each path, and other code may open a path after it has
become another file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import vfs.sources

_watched: dict[str, list[str]] = {}  # folder -> a line for each file opened there: path and caller
_hooked = False
_OURS = os.path.dirname(vfs.sources.__file__) + os.sep


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if event != "open" or not _watched or not isinstance(args[0], str | bytes):
        return
    caller = sys._getframe(1).f_code.co_filename
    if caller.startswith(_OURS):
        return
    path = os.path.abspath(os.fsdecode(args[0]))
    for folder, opened in _watched.items():
        if path.startswith(folder + os.sep) and not os.path.isdir(path):
            opened.append(f"{path} by {caller}")


@contextmanager
def opened_past_the_boundary(folder: str | os.PathLike[str]) -> Iterator[list[str]]:
    """Watch a folder for files that this process opens without `vfs.sources`.

    Yields: a list that receives a line for each such file.
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
