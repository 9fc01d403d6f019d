"""Works with the names of files: paths of this machine, and URLs.

A name is a text with `/` between its parts. These functions read and make names and ask no file system, so they are
the same for all sources. What may need one, the name that a file gives to another, is `Sources.join`.
"""

from __future__ import annotations

import os
import re
from posixpath import basename, dirname, split, splitext

__all__ = ["absolute", "basename", "beside", "dirname", "is_absolute", "is_url", "split", "splitext"]

_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")


def is_url(name: str) -> bool:
    """Return True for the name of a file that a source other than this machine's file system holds: `s3://bucket/x`."""
    return "://" in name and _URL.match(name) is not None


def is_absolute(name: str) -> bool:
    """Return True for a name that means the same file in every folder."""
    return name.startswith("/") or is_url(name)


def absolute(path: str | os.PathLike[str]) -> str:
    """Return `os.path.abspath(path)`, five times as fast for paths that are absolute already. URLs stay whole."""
    name = os.fspath(path)
    if name[:1] == "/" and name[-1:] != "/" and "/." not in name and "//" not in name:
        return name
    return name if is_url(name) else os.path.abspath(name)


def beside(path: str, name: str) -> str:
    """Return the name of another file in the folder of a file."""
    return f"{path[: path.rfind('/') + 1]}{name}"
