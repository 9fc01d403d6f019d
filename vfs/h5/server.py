"""Says what the helper process does for HDF5 files (see `vfs.helper.server`): it reads them with h5py.

A request is {"path", "folders", "files"}: the path of the file, and its boundary; with "tree" its attributes and small
values are read, without it the facts of its arrays. Without "folders" the file is not on
this machine, and its descriptor is a socket: see `vfs.h5.asking`.
"""

from __future__ import annotations

from typing import Any

from vfs.helper.messages import packed
from vfs.helper.server import Reader, Write, serve
from vfs.sources.boundary import Boundary


def main() -> None:
    """Answer requests until there are no more."""
    serve(_load)


def _load() -> Reader:
    """Return the function that reads a file; without h5py, one that reports the missing package."""
    try:
        from vfs.h5.reading import read
        from vfs.h5.tree import TreeReader
    except ImportError as error:
        missing = packed({"missing": str(error)})
        return lambda request, file, write: write(missing)

    def answer(request: dict[str, Any], file: int, write: Write) -> None:
        boundary = Boundary(tuple(request["folders"]), tuple(request["files"])) if "folders" in request else None
        read(request["path"], file, boundary, write, TreeReader if request.get("tree") else None)

    return answer
