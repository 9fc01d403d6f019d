"""Reads `.lif` of Leica's LAS AF and LAS X, and the projects of LAS X: `.xlef` and the files that it names.

The facts come from the reader in liffile (https://github.com/cgohlke/liffile). All numbers are little endian::

    .lif: block of XML | block of memory | block of memory | …
    block of XML: 0x70 (uint32) | bytes that follow (uint32) | 0x2A | characters (uint32) | XML in UTF-16
    block of memory: 0x70 | bytes of this header that follow | 0x2A | bytes of the data | 0x2A | characters | its name
        in UTF-16 | data
    .lof: block with the text LMS_Object_File | 0x2A | version (uint32) | 0x2A | version | 0x2A | bytes of the data
        (uint64) | data | block of XML
    .xlef, .xlcf: XML; `Children/Reference File=` names collections (.xlcf) and images (.xlif)
    .xlif: XML of an image; `Memory` names the files with its pixels: one .lof, or TIFF files, each with the byte of the
        image's block of memory at which it belongs (`Offset`)

`bytes of the data` of a .lif is a uint64 if the file's version (`LMSDataContainerHeader Version`) is 2 or more. In the
XML, an `Image` names its block (`MemoryBlockID`) and says how many bytes it is from one element to the next along each
dimension and channel (`BytesInc`). Names of the axes are those of the dimensions' numbers, `DimID`. Colours that the
channels call blue, green, red (`ChannelTag`) are shown as red, green, blue.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vfs.errors import FormatError
from vfs.formats import Format
from vfs.formats.lif.containers import (
    image_of_object,
    images_of_container,
    is_container,
    is_object,
    tree_of_container,
    tree_of_object,
)
from vfs.formats.lif.projects import images_of_project, is_project, trees_of_project
from vfs.formats.lif.said import TERMS
from vfs.model.layout import altered
from vfs.model.sources import Sources
from vfs.model.stored import StoredArray

_HEAD = 512  # bytes that tell which of the files it is
_XML = (b"<", b" ", b"\t", b"\r", b"\n", b"\xef", b"\xff", b"\xfe")  # with which a text of XML may begin


def sniff(path: str, first_bytes: bytes, sources: Sources) -> bool:
    if first_bytes[:1] == b"\x70":
        return is_container(first_bytes) or is_object(first_bytes)
    return first_bytes[:1] in _XML and is_project(first_bytes)


def open(paths: Sequence[str], sources: Sources) -> list[StoredArray]:
    """Open all images of a .lif file, of a project (.xlef, .xlcf), or one image (.xlif, .lof).

    Raises:
        FormatError: it is garbled, or has no images.
        MissingSourceError: no image is there.
        TruncatedSourceError: no image is there.
    """
    path = paths[0]
    head = sources.read(path, 0, _HEAD)
    if is_object(head):
        return [image_of_object(sources, path, "data")]
    made, lost = (images_of_project if is_project(head) else images_of_container)(sources, path)
    if not made:
        if lost.error is not None:
            raise lost.error
        if lost:
            raise (lost[0].refused or FormatError)(lost[0].said)
        raise FormatError(f"{path}: expected images, found none")
    return [altered(one, absent=(*lost, *one.absent), main=one is made[0] or None) for one in made]


def original(paths: Sequence[str], sources: Sources) -> dict[str, Any]:
    """Return the XML of a file; of a project, that of each file with XML, by the names of these.

    Raises:
        FormatError, SourceError: the file is garbled or cannot be read.
    """
    path = paths[0]
    head = sources.read(path, 0, _HEAD)
    if is_object(head):
        return tree_of_object(sources, path)
    return (trees_of_project if is_project(head) else tree_of_container)(sources, path)


FORMAT = Format(
    "lif",
    (".lif", ".lof", ".xlef", ".xlcf", ".xlif"),
    "https://github.com/cgohlke/liffile",
    "LIF of Leica's LAS AF and LAS X, and its projects (XLEF): all images",
    sniff,
    open,
    index_extensions=(".xlef",),
    single=True,
    terms=TERMS,
    original=original,
)
