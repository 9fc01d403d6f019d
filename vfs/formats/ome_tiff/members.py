"""Finds the files of an OME-TIFF set by their UUIDs, or by the names in the XML if files have none.

A name may not lead out of the folder of the set, unless the user allows that.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from vfs.errors import FormatError, MissingSourceError, OutsideError, VfsError
from vfs.formats.headers import exists, read_side_file
from vfs.formats.ome_said import attrs_of, described, root_of
from vfs.formats.ome_tiff.document import Document, parse
from vfs.formats.tiff_structure.headers import DESCRIPTION, Reader, header_of
from vfs.model.sources import Sources
from vfs.model.wording import option
from vfs.sources.boundary import reads_outside
from vfs.sources.names import beside, dirname

_SCANNED = 10_000  # most files of a folder that are searched for a UUID
_START = 1 << 16  # first bytes of a description, which are searched for the UUID


def inside(sources: Sources, path: str, name: str) -> str:
    """Return the path of a file whose name the file `path` holds.

    Raises:
        OutsideError: the path is outside of the folder of the set.
    """
    try:
        return sources.join(dirname(path), name)
    except OutsideError:
        raise OutsideError(
            f"{path}: its OME-XML names {name[:200]!r}, a file outside of its folder; {reads_outside()}"
        ) from None


def document_at(sources: Sources, path: str) -> tuple[Document, str]:
    """Read the document that describes the set of a file.

    Returns: (document, file that holds it).

    Raises:
        MissingSourceError: the file holds only pixels, and the file that describes them does not
            exist.
        FormatError: there is no OME-XML, or it is garbled.
    """
    found = _own(sources, path)
    if not found.elsewhere:
        return found, path
    target = inside(sources, path, found.elsewhere)
    try:
        there = _own(sources, target)
    except MissingSourceError:
        raise MissingSourceError(
            f"{path}: holds only pixels; {target}, which describes the set, is missing; open with"
            f" {option(format='tiff')} to see the pages of this file alone"
        ) from None
    if there.elsewhere:
        raise FormatError(f"{path}: says that {target} describes the set, which says the same of {there.elsewhere!r}")
    return there, target


def _own(sources: Sources, path: str) -> Document:
    return parse(text_of(sources, path), path)


def text_of(sources: Sources, path: str) -> str:
    """Read the text of a document.

    Raises:
        FormatError: there is no OME-XML.
        MissingSourceError, SourceError: the file cannot be read.
    """
    if is_tiff(sources, path):
        reader = Reader(sources, path)
        text = description(reader, 1 << 62)
        if not text:
            raise FormatError(
                f"{path}: expected OME-XML in the description of the first page, found none; open with"
                f" {option(format='tiff')}"
            )
        return text
    data = read_side_file(sources, path)
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return text


def told_of(sources: Sources, path: str) -> dict[str, Any]:
    """Read what the document of a file says of each image, by their numbers.

    Raises: what `text_of` raises.
    """
    root = root_of(text_of(sources, path), path)
    return {str(k): attrs_of(root, image, pixels) for k, (image, pixels) in enumerate(described(root))}


def is_tiff(sources: Sources, path: str) -> bool:
    """Return True if a file begins like a TIFF.

    Raises:
        MissingSourceError, SourceError: the file cannot be read.
    """
    return header_of(sources.read(path, 0, 16)) is not None


def description(reader: Reader, most: int) -> str:
    """Return the first `most` bytes of the first page's description; "" if it has none."""
    data, at, _ = reader.directory(reader.first)
    for tag, field, _ in reader.entries(data, at):
        if tag == DESCRIPTION:
            return reader.text(field._replace(length=min(field.length, most)))
    return ""


def _uuid(sources: Sources, path: str) -> str:
    try:
        reader = Reader(sources, path)
        found = re.search(r"<(?:\w+:)?OME\b[^>]*\bUUID\s*=\s*[\"']([^\"']+)", description(reader, _START))
    except VfsError:
        return ""
    return found[1] if found else ""


def members(sources: Sources, document: Document, holder: str) -> tuple[dict[tuple[str, str], str], list[str]]:
    """Find the files that the document names, by their UUID if they have one, else by their name.

    A file may have been renamed, and the file of another acquisition may have its name.

    Args:
        holder: the file that holds the document.

    Returns: ({(UUID, name): path} of all these files, of which some may be missing; words for each
        file that has the right name and another UUID).

    Raises:
        OutsideError: a name leads out of the folder.
        FormatError: the document names no file for some pixels.
    """
    tiff = is_tiff(sources, holder)
    wanted = list(dict.fromkeys(run.file for image in document.images for run in image.runs))
    shared = Counter(_plain(uuid) for uuid, _ in wanted if uuid)
    told = {key: key[0] for key in wanted if shared[_plain(key[0])] == 1}  # a UUID of several files tells nothing
    alone = tiff and len(wanted) == 1
    found: dict[tuple[str, str], str] = {}
    strange: dict[tuple[str, str], str] = {}
    for key in wanted:
        name, uuid = key[1], told.get(key, "")
        target = inside(sources, holder, name) if name else ""
        if tiff and (not any(key) or (uuid and _same(uuid, document.uuid))):
            found[key] = holder
        elif not any(key):
            raise FormatError(f"{holder}: its OME-XML does not say which file holds the pixels")
        elif target and exists(sources, target):
            own = document.uuid if target == holder else _uuid(sources, target)
            if not (uuid and own) or _same(uuid, own):
                found[key] = target
            elif not alone:
                strange[key] = f"{name} is another file, with UUID {own[:80]}, expected {uuid[:80]}"
        if alone:
            found.setdefault(key, holder)  # a file that was renamed
    missing = [key for key in wanted if key not in found]
    if missing:
        uuids = {_plain(told[key]) for key in missing if told.get(key)}
        renamed = _by_uuid(sources, holder, uuids, set(found.values()))
        found |= {key: renamed[_plain(key[0])] for key in missing if key in told and _plain(key[0]) in renamed}
        missing = [key for key in missing if key not in found]
    if tiff and len(missing) == 1 and holder not in found.values() and not (document.uuid and told.get(missing[0])):
        found[missing.pop()] = holder  # renamed, and without a UUID that tells
    for uuid, name in missing:
        if name and (uuid, name) not in strange:
            found[uuid, name] = inside(sources, holder, name)
        else:
            found[uuid, name] = beside(holder, uuid.replace("/", "_"))
    strange = {key: words for key, words in strange.items() if key in missing}
    return found, list(strange.values())


def _plain(uuid: str) -> str:
    return uuid.strip().lower().removeprefix("urn:uuid:")


def _same(a: str, b: str) -> bool:
    return _plain(a) == _plain(b)


def _by_uuid(sources: Sources, holder: str, uuids: set[str], known: Iterable[str]) -> dict[str, str]:
    """Return {UUID: path} of other TIFF files in the folder of a file that have one of these UUIDs (see `_plain`)."""
    found: dict[str, str] = {}
    for name in sources.names(dirname(holder))[:_SCANNED]:
        if len(found) == len(uuids):
            break
        path = beside(holder, name)
        if name.lower().endswith((".tif", ".tiff", ".btf", ".tf2", ".tf8")) and path not in known:
            uuid = _plain(_uuid(sources, path))
            if uuid in uuids:
                found.setdefault(uuid, path)
    return found
