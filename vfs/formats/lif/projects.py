"""Reads the projects of Leica's LAS X: XML that names files of images. See `vfs.formats.lif`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any
from urllib.parse import unquote
from xml.etree.ElementTree import Element

import numpy as np

from vfs.errors import FormatError, MissingSourceError, OutsideError, SourceError, TruncatedSourceError, printable
from vfs.formats.headers import parse_xml, read_side_file, xml_tree
from vfs.formats.lif.containers import LostImages, image_of_object
from vfs.formats.lif.images import LeicaImage, image_of, number
from vfs.formats.lif.said import attrs_of
from vfs.formats.tiff_structure.kinds import Kind
from vfs.formats.tiff_structure.pages import PageTable
from vfs.formats.tiff_structure.planes import arrange
from vfs.model.files import Files
from vfs.model.metadata import Told
from vfs.model.sources import Sources
from vfs.model.stored import Absence, StoredArray
from vfs.sources.names import dirname

_MAX_FILES = 1 << 16  # of XML in a project
_DEEP = 20  # collections within collections
_TIFF = (".tif", ".tiff")


def is_project(first_bytes: bytes) -> bool:
    """Return True for the first bytes of an .xlef, .xlcf or .xlif."""
    plain = first_bytes.replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n")
    return plain.startswith(b"<") and b"<LMSDataContainerHeader" in plain


def _file(sources: Sources, path: str, name: str) -> str:
    """Return the absolute name of a file that the XML of another names, in Windows' way.

    Raises:
        FormatError: it is no name of a file.
        OutsideError: it may not be used.
    """
    plain = re.sub(r"^(\./)+", "", unquote(name).replace("\\", "/"))
    if plain.rpartition("/")[2] in ("", ".", ".."):
        raise FormatError(f"{path}: expected the name of a file, found {printable(name)!r}")
    return sources.join(dirname(path), plain)


def _nodes(
    sources: Sources, path: str, names: tuple[str, ...], lost: LostImages, seen: set[str], deep: int = 0
) -> Iterator[tuple[str, str, Element, Element]]:
    """Yield (file, name, `Image`, `Memory`) of all images of a project; add files that cannot be read to `lost`.

    Raises:
        FormatError: the file is garbled, or collections run in a circle.
        SourceError: it cannot be read.
    """
    if path in seen or len(seen) >= _MAX_FILES or deep > _DEEP:
        raise FormatError(f"{path}: expected collections that hold others once, found them run in a circle")
    seen.add(path)
    element = parse_xml(read_side_file(sources, path), path).find("Element")
    if element is None:
        raise FormatError(f"{path}: expected an Element in the XML, found none")
    own = (*names, element.get("Name", "")) if deep else ()
    image, memory = element.find("Data/Image"), element.find("Memory")
    if image is not None and memory is not None:
        yield path, "/".join(own) or element.get("Name", ""), image, memory
    for reference in element.findall("Children/Reference"):
        try:
            yield from _nodes(sources, _file(sources, path, reference.get("File", "")), own, lost, seen, deep + 1)
        except MissingSourceError as error:
            counts = {"files_missing": 1}
            lost.append(Absence(f"{error}; {path} names it", type(error), "shows the other images", counts))
        except (FormatError, OutsideError) as error:
            lost.leave_out(error)


def images_of_project(sources: Sources, path: str) -> tuple[list[StoredArray], LostImages]:
    """Return the images of a project, in their order, and what it lacks.

    Raises:
        FormatError: a file is garbled, or pixels are in files of another kind.
        OutsideError: a file lies outside of the folder.
        SourceError: a file cannot be read.
    """
    lost = LostImages()
    listed = [one for one in _nodes(sources, path, (), lost, set()) if number(one[3], "Size")]
    made: list[StoredArray] = []
    for k, (file, name, image, memory) in enumerate(listed):
        place = f"image_{k}/data" if len(listed) > 1 else "data"
        try:
            made.append(_image(sources, file, place, name, image, memory))
        except (FormatError, MissingSourceError, OutsideError, TruncatedSourceError) as error:
            lost.leave_out(error, name)
    return made, lost


def trees_of_project(sources: Sources, path: str) -> dict[str, Any]:
    """Return the XML of a file of a project and of those that it names, by their names in its folder.

    Raises:
        FormatError, SourceError: the file that is named is garbled or cannot be read.
    """
    made: dict[str, Any] = {}
    left: list[str] = []
    waiting, seen, folder = [path], {path}, dirname(path)
    for file in waiting:
        try:
            root = parse_xml(read_side_file(sources, file), file)
            named = [_file(sources, file, node.get("File", "")) for node in root.iter("Reference")]
        except (FormatError, SourceError) as error:
            if file == path:
                raise
            left.append(str(error))
            continue
        made[file.removeprefix(folder).lstrip("/")] = xml_tree(root)
        for one in named[: _MAX_FILES - len(waiting)]:
            if one not in seen:
                seen.add(one)
                waiting.append(one)
    return made | ({"left_out": left} if left else {})


def _image(sources: Sources, path: str, place: str, name: str, image: Element, memory: Element) -> StoredArray:
    """Make the array of an image whose block of memory is in other files.

    Raises:
        FormatError: these are of a kind that is not read, or do not fit.
        SourceError: none of them can be read.
    """
    blocks = [node for node in memory if node.get("File")]
    files = [_file(sources, path, node.get("File", "")) for node in blocks]
    if len(files) == 1 and files[0].lower().endswith(".lof"):
        return image_of_object(sources, files[0], place, name)
    if not files or not all(file.lower().endswith(_TIFF) for file in files):
        other = next((file for file in files if not file.lower().endswith(_TIFF)), "none")
        raise FormatError(f"{path}: {name}: expected its pixels in one .lof or in TIFF files, found {other}")
    known = image_of(path, name, image, number(memory, "Size"), Told(partial(_told, sources, path)))
    starts = [number(node, "Offset") for node in blocks]
    return _of_pages(sources, path, place, known, files, starts)


def _told(sources: Sources, path: str) -> dict[str, Any]:
    """Read what an .xlif says of its image."""
    image = parse_xml(read_side_file(sources, path), path).find("Element/Data/Image")
    return {} if image is None else attrs_of(image)


def _of_pages(
    sources: Sources, path: str, place: str, image: LeicaImage, names: list[str], starts: list[int]
) -> StoredArray:
    """Make the array of an image whose planes are pages of TIFF files.

    Args:
        starts: byte of the block of memory at which the first page of each file begins.

    Raises:
        FormatError: pages do not fit the image.
        MissingSourceError, TruncatedSourceError: no page is there.
    """
    files, table = Files.stat(sources, names, missing_ok=True), PageTable(sources)
    position = {offset: k for k, offset in enumerate(image.offsets.tolist())}
    order = np.argsort(image.offsets, kind="stable")  # pages of a file follow on each other in memory
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    rows = np.full(len(image.offsets), -1, np.int64)
    lost: list[Absence] = []
    gone = [name for name, size in zip(files.paths, files.sizes.tolist(), strict=True) if size < 0]
    for name, start, size in zip(files.paths, starts, files.sizes.tolist(), strict=True):
        if start not in position:
            raise FormatError(f"{path}: {image.name}: expected a plane at byte {start:,} of its memory for {name}")
        if size < 0:
            table.skip(name, 0)
            continue
        try:
            pages = table.add(name).rows
        except (FormatError, TruncatedSourceError) as error:
            lost.append(Absence(str(error), type(error), "shows its planes as blank", {"files_missing": 1}))
            continue
        first = int(rank[position[start]])
        many = pages if len(names) == 1 else pages[:1]
        at = order[first : first + len(many)]
        rows[at] = many[: len(at)]
    if gone:
        said = f"{gone[0]}: no such file" + f", and {len(gone) - 1:,} more" * (len(gone) > 1) + f"; {path} names it"
        counts = {"files_missing": len(gone)}
        lost.append(Absence(said, MissingSourceError, "shows their planes as blank", counts, tuple(gone)))
    if (rows < 0).all():
        raise (lost[0].refused or FormatError)(lost[0].said)
    _check(path, image, table, rows)
    found = table.planes(rows)
    kind = found.parts[0].kind
    shown = kind.shown if len(image.sig) == len(kind.shown) else (2, 3)
    layout, decoder, block = arrange(
        found.parts, np.arange(len(rows)), image.nav, kind, shown, image.stored.newbyteorder("=")
    )
    missing = int((rows < 0).sum())
    if missing and not lost:
        said = f"{path}: {image.name}: expected {len(rows):,} planes, its files have {len(rows) - missing:,}"
        lost.append(Absence(said, TruncatedSourceError, "shows the others as blank", {"frames_missing": missing}))
    absent = (*lost, *found.absent())
    shape = image.nav + image.sig
    return StoredArray(
        place,
        files,
        layout,
        decoder,
        shape,
        image.dims,
        len(image.nav),
        block=block,
        attrs=image.attrs,
        absent=absent,
        told=image.told,
    )


def _check(path: str, image: LeicaImage, table: PageTable, rows: np.ndarray) -> None:
    """Check that pages are as large as planes, and of their type.

    Raises:
        FormatError: they are not.
    """
    samples = image.sig[2] if len(image.sig) > 2 else 1
    wanted = (1, 1, *image.sig[:2], samples)
    for number_of_kind in {table.kind[row] for row in rows.tolist() if row >= 0}:
        kind = table.kinds[number_of_kind]
        if not isinstance(kind, Kind):
            raise FormatError(f"{path}: {image.name}: {kind}")
        other = kind.dtype.itemsize != image.stored.itemsize or (kind.signed and kind.dtype.kind != image.stored.kind)
        if kind.shaped != wanted or other:
            raise FormatError(
                f"{path}: {image.name}: expected pages {list(wanted[2:])} of {image.stored.newbyteorder('=')}, found"
                f" {list(kind.shaped[2:])} of {kind.dtype}"
            )
