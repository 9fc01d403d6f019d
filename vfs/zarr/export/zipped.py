"""Writes a store as one zip file, as NGFF's RFC-9 asks: nothing is compressed by the zip, and documents come first.

The root's document is the first file of the archive, then come the other documents, those above before those below,
then chunks or shards as they are done (https://ngff.openmicroscopy.org/rfc/9/index.html). An archive with images of
OME-Zarr has a comment that says so.

The files of a unit are written into a folder beside the archive, and moved into it when the unit is done, so that an
open shard takes no memory. Times of files are left out: the same data make the same bytes.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from zipfile import ZIP_STORED, ZipFile, ZipInfo

from vfs.reduce.outputs import flush
from vfs.zarr.export.files import TEMPORARY

ENDINGS = (".zarr.zip", ".ozx")
"""Endings of the names of stores that are one file."""

_STEP = 1 << 20  # bytes that are copied at once


def is_zipped(target: str | os.PathLike[str]) -> bool:
    """Return True for the name of a store that is one file."""
    return os.fspath(target).lower().endswith(ENDINGS)


class Archive:
    """A zip file while it is written.

    Args:
        path: its name.
        root: the folder that files are moved from, whose names in the archive are relative to it.
        documents: key -> document of the store.

    Raises:
        OSError: it cannot be written.
    """

    def __init__(self, path: str, root: str, documents: Mapping[str, bytes]) -> None:
        self.path = path
        self._root = root
        self._zip = ZipFile(path, "w", ZIP_STORED)
        self._zip.comment = _comment(documents)
        self._documents = sum(map(len, documents.values()))
        for key in sorted(documents, key=lambda key: (key.count("/"), key)):
            self._zip.writestr(_entry(key), documents[key])

    def take(self, paths: Sequence[str]) -> int:
        """Move files, which have temporary names, into the archive. Return their bytes."""
        size = 0
        for path in paths:
            entry = _entry(os.path.relpath(path, self._root))
            with open(path + TEMPORARY, "rb") as file, self._zip.open(entry, "w", force_zip64=True) as into:
                shutil.copyfileobj(file, into, _STEP)
                size += file.tell()
            os.unlink(path + TEMPORARY)
        return size

    def close(self) -> int:
        """Write the list of files, and flush all to the disk. Return the bytes of the documents."""
        self._zip.close()
        flush(self.path)
        return self._documents

    def abandon(self) -> None:
        """Close the file as it is."""
        if self._zip.fp is not None:
            self._zip.fp.close()
            self._zip.fp = None  # its destructor would write the list of files


def _entry(name: str) -> ZipInfo:
    entry = ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    entry.external_attr = 0o644 << 16
    return entry


def _comment(documents: Mapping[str, bytes]) -> bytes:
    """Return the comment of the archive: for OME-Zarr, its version, and that documents come first in the list."""
    ome = json.loads(documents.get("zarr.json", b"{}")).get("attributes", {}).get("ome")
    if not ome:
        return b""
    first = {"centralDirectory": {"jsonFirst": True}}
    return json.dumps({"ome": {"version": ome.get("version", "0.5"), "zipFile": first}}).encode()
