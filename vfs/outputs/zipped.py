"""Writes a store as one zip file, as NGFF's RFC-9 asks: nothing is compressed by the zip, and documents come first.

The root's document is the first file of the archive, then come the other documents, those above before those below,
then chunks or shards as they are done (https://ngff.openmicroscopy.org/rfc/9/index.html). An archive with images of
OME-Zarr has a comment that says so.

The files of a unit are written into a folder beside the archive, and moved into it when the unit is done, so that an
open shard takes no memory. Times of files are left out: the same data make the same bytes. An archive that was not
written to its end has no list of files: what is whole of it is found from its beginning on.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO
from zipfile import ZIP_STORED, ZipFile, ZipInfo

from vfs.new_files import reopen
from vfs.outputs.outputs import TEMPORARY

ENDINGS = (".zarr.zip", ".ozx")
"""Endings of the names of stores that are one file."""

_STEP = 1 << 20  # bytes that are copied at once


def is_zipped(target: str | os.PathLike[str]) -> bool:
    """Return True for the name of a store that is one file."""
    return os.fspath(target).lower().endswith(ENDINGS)


class Archive:
    """A zip file while it is written.

    Args:
        path: its name. One that is there is gone on with.
        root: the folder that files are moved from, whose names in the archive are relative to it.
        documents: key -> document of the store.

    Raises:
        OSError: it cannot be written.
    """

    def __init__(self, path: str, root: str, documents: Mapping[str, bytes]) -> None:
        self._root = root
        self._documents = documents
        self._zip: ZipFile | None = None
        self._file = open(reopen(path), "r+b")  # noqa: SIM115  (open as long as this)
        self._found = list(_entries(self._file))
        names = [entry.filename for entry, _ in self._found]
        self._same = len(documents) if names[: len(documents)] == _in_order(documents) else 0

    @property
    def descriptor(self) -> int:
        """Descriptor of its file."""
        return self._file.fileno()

    def has(self, paths: Sequence[str], size: int) -> bool:
        """Return True if the next entries are files that were moved into the archive before, with so many bytes.

        To be asked for units in the order in which they were moved: entries behind those that were asked for go.
        """
        names = {os.path.relpath(path, self._root) for path in paths}
        end = self._same
        while end < len(self._found) and self._found[end][0].filename in names:
            end += 1
        same = self._same > 0 and sum(entry.file_size for entry, _ in self._found[self._same : end]) == size
        self._same = end if same else self._same
        return same

    def take(self, paths: Sequence[str]) -> int:
        """Move files, which have temporary names, into the archive, and flush it. Return their bytes."""
        size, archive = 0, self._begun()
        for path in paths:
            entry = _entry(os.path.relpath(path, self._root))
            with open(path + TEMPORARY, "rb") as file, archive.open(entry, "w", force_zip64=True) as into:
                shutil.copyfileobj(file, into, _STEP)
                size += file.tell()
            os.unlink(path + TEMPORARY)
        self._flush()
        return size

    def close(self) -> None:
        """Write the list of files, and flush all to the disk."""
        self._begun().close()
        self._flush()
        self._file.close()

    def abandon(self) -> None:
        """Close the file as it is."""
        if self._zip is not None and self._zip.fp is not None:
            self._zip.fp = None  # its destructor would write the list of files
        self._file.close()

    def _begun(self) -> ZipFile:
        """Return the archive, with what was kept, or else with documents, and nothing behind."""
        if self._zip is None:
            kept = self._found[: self._same]
            self._file.seek(kept[-1][1] if kept else 0)
            self._file.truncate()
            self._zip = ZipFile(self._file, "w", ZIP_STORED)
            self._zip.comment = _comment(self._documents)
            self._zip.filelist[:] = [entry for entry, _ in kept]
            self._zip.NameToInfo.update({entry.filename: entry for entry, _ in kept})
            for key in _in_order(self._documents) if not kept else ():
                self._zip.writestr(_entry(key), self._documents[key])
        return self._zip

    def _flush(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())


def _in_order(documents: Mapping[str, bytes]) -> list[str]:
    return sorted(documents, key=lambda key: (key.count("/"), key))


def is_sound(path: str) -> bool:
    """Return True if an archive has the files that its list names, and nothing between them.

    What stands before each must say what the list says, and a reader that goes by either must find the same bytes.
    Whose archive it is does not matter. What the files hold is not looked at.
    """
    try:
        with ZipFile(path) as archive, open(path, "rb") as file:
            entries = sorted(archive.infolist(), key=lambda entry: entry.header_offset)
            ends = [*(entry.header_offset for entry in entries[1:]), archive.start_dir]
            return all(_is_listed(file, *one) for one in zip(entries, ends, strict=True))
    except Exception:  # zipfile raises half a dozen kinds for what is damaged
        return False


def _is_listed(file: BinaryIO, entry: ZipInfo, end: int) -> bool:
    file.seek(entry.header_offset)
    signature, _, flags, method, _, _, *about, length, extra = _HEADER.unpack(file.read(_HEADER.size))
    name = file.read(length).decode("utf-8" if flags & _UTF8 else "cp437")
    if about[1:] == [_IN_EXTRA] * 2:
        about[1:] = reversed(_LONG.unpack(file.read(extra)[: _LONG.size])[2:])
    same = flags & _BEHIND or about == [entry.CRC, entry.compress_size, entry.file_size]
    rest = end - (entry.header_offset + _HEADER.size + length + extra + entry.compress_size)
    told = (signature, method, name, flags) == (b"PK\3\4", entry.compress_type, entry.orig_filename, entry.flag_bits)
    return bool(same) and told and not flags & _UNREADABLE and rest in (_SIZES if flags & _BEHIND else (0,))


_UNREADABLE = 1 << 0 | 1 << 5 | 1 << 6 | 1 << 13
"""Flags of what zipfile, and zarr-python with it, does not read: encrypted files, and patches."""
_SIZES = (12, 16, 20, 24)
"""Bytes that checksum and sizes take behind a file: sizes of 4 or 8 bytes each, with a signature or without."""
_BEHIND, _UTF8 = 1 << 3, 1 << 11  # flags: a file's checksum and sizes stand behind it; how its name is written
_IN_EXTRA = (1 << 32) - 1  # sizes that stand in the field for sizes of zip64
_HEADER = struct.Struct(
    "<4s5H3I2H"
)  # signature, version, flags, method, time, date, CRC, sizes, lengths of name and extra
_LONG = struct.Struct("<2H2Q")  # number and length of the field for sizes of zip64, and both sizes


def _entries(file: BinaryIO) -> Iterator[tuple[ZipInfo, int]]:
    """Return the whole files of an archive of this module that has no list of files, in order, and where each ends."""
    end = os.fstat(file.fileno()).st_size
    at = 0
    while True:
        file.seek(at)
        head = file.read(_HEADER.size)
        if len(head) < _HEADER.size or not head.startswith(b"PK\3\4"):
            return
        _, version, _, _, _, _, crc, _, size, name, extra = _HEADER.unpack(head)
        try:
            entry = _entry(file.read(name).decode())
            _, _, size, _ = _LONG.unpack(file.read(extra)) if extra else (0, 0, size, 0)
        except (ValueError, struct.error):
            return
        entry.CRC, entry.file_size, entry.compress_size = crc, size, size
        entry.extract_version = entry.create_version = version
        entry.header_offset, at = at, file.tell() + size
        if at > end:
            return
        yield entry, at


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
