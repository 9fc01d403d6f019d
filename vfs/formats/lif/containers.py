"""Reads the two binary files of Leica: `.lif`, with many images, and `.lof`, with one. See `vfs.formats.lif`."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from vfs.errors import DecodeError, FormatError, MissingSourceError, TruncatedSourceError, VfsError
from vfs.formats.headers import parse_xml, read_at, xml_tree
from vfs.formats.lif.images import Memory, image_of, number, tile_places
from vfs.formats.lif.said import STAMPS, attrs_of, stamps_of, ticks_of
from vfs.model.decode import MadeBlocks
from vfs.model.files import Files
from vfs.model.layout import BlockLayout, BlockTable
from vfs.model.metadata import Told
from vfs.model.sources import Sources
from vfs.model.stored import Absence, StoredArray
from vfs.sources.names import basename, splitext

_BLOCK, _MARK = 0x70, 0x2A
_MAX_XML = 256 << 20  # bytes
_XML_HEAD = 13  # bytes before a text
_MAX_IMAGES = 1 << 16
_MAX_FILE_BYTES = 1 << 60  # bytes
_TO_1970 = 11_644_473_600  # seconds from 1601 to 1970
_OBJECT = "LMS_Object_File"
_OBJECT_START = struct.Struct("<BIBIBQ")  # of a .lof, behind its first text: 0x2A, version, 0x2A, version, 0x2A, bytes


def is_container(first_bytes: bytes) -> bool:
    """Return True for the first bytes of a .lif."""
    return _first_text(first_bytes).startswith("<LMSDataContainer")


def is_object(first_bytes: bytes) -> bool:
    """Return True for the first bytes of a .lof."""
    return _first_text(first_bytes).startswith(_OBJECT)


def _first_text(first_bytes: bytes) -> str:
    if len(first_bytes) < 32 or first_bytes[:4] != b"\x70\0\0\0" or first_bytes[8:9] != b"\x2a":
        return ""
    return first_bytes[13:].decode("utf-16-le", "ignore").lstrip("\ufeff")


def _text(sources: Sources, path: str, at: int) -> tuple[bytes, int]:
    """Read a block of text. Returns: (the text in UTF-16, the byte behind it).

    Raises:
        FormatError: it is garbled.
        TruncatedSourceError: the file ends before it does.
    """
    first, size, mark, count = struct.unpack("<IIBI", read_at(sources, path, _XML_HEAD, at))
    if first != _BLOCK or mark != _MARK or size != 5 + 2 * count or size > _MAX_XML:
        raise FormatError(
            f"{path}: expected a block of XML at byte {at:,}, found one of {size:,} bytes, {count:,} characters"
        )
    return read_at(sources, path, 2 * count, at + _XML_HEAD), at + _XML_HEAD + 2 * count


def _parsed(text: bytes, path: str) -> Element:
    return parse_xml(text if text[:2] == b"\xff\xfe" else b"\xff\xfe" + text, path)


def _memories(sources: Sources, path: str, at: int, wide: bool, size: int, lost: list[Absence]) -> dict[str, Memory]:
    """Find the blocks of memory from a byte on. What is behind a header that is not whole is added to `lost`.

    Args:
        wide: True if sizes have eight bytes.

    Raises:
        FormatError: a header is garbled.
    """
    found: dict[str, Memory] = {}
    form = struct.Struct("<IIBQBI" if wide else "<IIBIBI")
    while at < size:
        head = sources.read(path, at, form.size + 512)
        if len(head) < form.size:
            counts = {"bytes_left_over": size - at}
            said = f"{path}: expected a block of memory at byte {at:,}, the file ends within its header"
            lost.append(Absence(said, TruncatedSourceError, "shows the blocks before it", counts))
            break
        first, _, mark, nbytes, other, count = form.unpack_from(head)
        if first != _BLOCK or (mark, other) != (_MARK, _MARK) or count > 1 << 16 or nbytes > _MAX_FILE_BYTES:
            raise FormatError(f"{path}: expected a block of memory at byte {at:,}, found {head[:8]!r}")
        name = read_at(sources, path, 2 * count, at + form.size, short_ok=True).decode("utf-16-le", "replace")
        at += form.size + 2 * count
        found.setdefault(name.rstrip("\0"), Memory(at, nbytes))
        at += nbytes
    return found


def _images(node: Element) -> Iterator[tuple[str, Element, Element]]:
    """Yield (its name with those of folders above it, `Image`, `Memory`) of all images, in their order."""
    stack: list[tuple[Element, tuple[str, ...]]] = [(node, ())]
    while stack:
        here, names = stack.pop()
        own = (*names, here.get("Name", "")) if here.tag == "Element" else names
        image, memory = here.find("Data/Image"), here.find("Memory")
        if here.tag == "Element" and image is not None and memory is not None:
            yield "/".join(own[1:] or own), image, memory
        below = [*here.findall("Element"), *here.findall("Children/Element")]
        stack += [(one, own) for one in reversed(below)]


def images_of_container(sources: Sources, path: str) -> tuple[list[StoredArray], LostImages]:
    """Return the images of a .lif, in their order, and what it lacks.

    Raises:
        FormatError: it is garbled.
        TruncatedSourceError: it ends within its XML.
    """
    files, lost = Files.stat(sources, [path]), LostImages()
    text, behind = _text(sources, path, 0)
    root = _parsed(text, path)
    memories = _memories(sources, path, behind, number(root, "Version") >= 2, int(files.sizes[0]), lost)
    listed = _listed(root)
    if len(listed) > _MAX_IMAGES:
        raise FormatError(f"{path}: expected at most {_MAX_IMAGES:,} images")
    made: list[StoredArray] = []
    nodes, places = [*root.iter(STAMPS)], [*_lists_of_stamps(text)]
    lists = {id(node): place for node, place in zip(nodes, places, strict=False)} if len(nodes) == len(places) else {}
    told = Told(partial(_told, sources, path))
    for k, (name, image, memory) in enumerate(listed):
        try:
            label = memory.get("MemoryBlockID", "")
            block = memories.get(label)
            if block is None or not block.size:
                found = "not in the file" if block is None else "empty"
                raise TruncatedSourceError(f"{path}: {name}: its memory {label[:40]!r} is {found}; it looks truncated")
            place = f"image_{k}/data" if len(listed) > 1 else "data"
            made.append(image_of(path, name, image, block.size, told.of(str(k))).array(place, files, block))
            main = made[-1]
            if stamps_of(image) == math.prod(main.shape[: main.nav_ndim]) > 1:
                made += _time_stamps(main, *lists.get(id(image.find(STAMPS)), (0, 0)))
            made += tile_places(main, image)
        except (FormatError, TruncatedSourceError) as error:
            lost.leave_out(error)
    return made, lost


def _listed(root: Element) -> list[tuple[str, Element, Element]]:
    return [(name, image, memory) for name, image, memory in _images(root) if number(memory, "Size")]


def _told(sources: Sources, path: str) -> dict[str, Any]:
    """Read what the XML of a .lif says of each image, by their numbers."""
    listed = _listed(_parsed(_text(sources, path, 0)[0], path))
    return {str(k): attrs_of(image) for k, (_, image, _) in enumerate(listed)}


def _lists_of_stamps(text: bytes) -> Iterator[tuple[int, int]]:
    """Yield (first byte, bytes) of each list of time stamps in an XML in UTF-16, in their order."""
    start, close = (f"<{mark}".encode("utf-16-le") for mark in (STAMPS, f"/{STAMPS}>"))
    begin = _find(text, start, 0)
    while begin >= 0:
        end = _find(text, b">\0", begin)
        if text[end - 2 : end] != b"/\0":
            end = _find(text, close, begin) + len(close) - 2
        yield begin, end + 2 - begin
        begin = _find(text, start, max(end, begin + 2))


def _find(text: bytes, part: bytes, at: int) -> int:
    """Return the first place of a part of a text in UTF-16 from a byte on; -1 if there is none."""
    found = text.find(part, at)
    while found % 2 and found > 0:
        found = text.find(part, found + 1)
    return found


@dataclass(frozen=True)
class _Times(MadeBlocks):
    """Decodes a list of time stamps to the time of each plane, in s since 1970; NaN where nobody can tell.

    Args:
        path: of the file, for messages.
        planes: number of planes.
    """

    path: str
    planes: int
    dtype: np.dtype = field(default_factory=lambda: np.dtype("f8"))

    def decode_block(self, data: np.ndarray, block: int, shape: tuple[int, ...]) -> np.ndarray:
        made = np.full(self.planes, np.nan, self.dtype)
        try:
            ticks = ticks_of(_parsed(data.tobytes(), self.path), made.size)
        except FormatError as error:
            raise DecodeError(str(error)) from None
        if len(ticks) == made.size and all(0 < one < 1 << 63 for one in ticks):
            made[:] = [one / 1e7 - _TO_1970 for one in ticks]
        return made.reshape(shape)


def _time_stamps(main: StoredArray, at: int, size: int) -> list[StoredArray]:
    """Make the companion with the time of each plane of an image.

    Args:
        at: first byte of the list of time stamps in the XML; size: its bytes, 0 if nobody knows where it is.
    """
    if not size:
        return []
    nav, dims, path = main.shape[: main.nav_ndim], main.dims[: main.nav_ndim], main.files.paths[0]
    zeros, one = np.zeros(1, np.int64), np.ones(1, np.int64)
    begin = (_XML_HEAD + at) * one
    table = BlockTable(np.zeros((1, len(nav)), np.int64), np.array([nav], np.int64), zeros, begin, size * one)
    about: dict[str, Any] = {"attrs": {"unit": "s since 1970-01-01"}, "companion": True, "coordinate": True}
    place, layout = main.path.removesuffix("data") + "timestamp", BlockLayout.of(nav, table, pitch=nav)
    return [
        StoredArray(place, main.files, layout, _Times(path, math.prod(nav)), nav, dims, len(nav), block=nav, **about)
    ]


class LostImages(list[Absence]):
    """What a set lacks of its images.

    Attributes:
        error: the first one for which an image was left out; None if none was.
    """

    error: VfsError | None = None

    def leave_out(self, error: VfsError, name: str = "") -> None:
        """Leave out an image that cannot be shown. It hides no other: only of one that was cut the set is incomplete.

        Args:
            name: of the image, where the error does not say it.
        """
        self.error = self.error or error
        self.append(_left_out(error, name))


def _left_out(error: VfsError, name: str) -> Absence:
    said = f"{error}; the image {name}" if name else str(error)
    if isinstance(error, MissingSourceError | TruncatedSourceError):
        return Absence(said, type(error), "shows the other images", {"frames_missing": 1})
    return Absence(f"{said}; it is not shown", counts={"frames_left_out": 1})


def tree_of_container(sources: Sources, path: str) -> dict[str, Any]:
    """Return the XML of a .lif.

    Raises:
        FormatError, SourceError: it is garbled or cannot be read.
    """
    root = _parsed(_text(sources, path, 0)[0], path)
    return {root.tag: xml_tree(root)}


def tree_of_object(sources: Sources, path: str) -> dict[str, Any]:
    """Return the XML of a .lof.

    Raises:
        FormatError, SourceError: it is garbled or cannot be read.
    """
    at, size = _memory_of_object(sources, path)
    root = _described(sources, path, at + size)[0]
    return {root.tag: xml_tree(root)}


def _memory_of_object(sources: Sources, path: str) -> tuple[int, int]:
    """Return (first byte, bytes) of the block of memory in a .lof.

    Raises:
        FormatError: it is garbled.
        TruncatedSourceError: it ends before.
    """
    text, at = _text(sources, path, 0)
    if not text.decode("utf-16-le", "replace").startswith(_OBJECT):
        raise FormatError(f"{path}: expected an object file of Leica, found {text[:16]!r}")
    *marks, size = _OBJECT_START.unpack(read_at(sources, path, _OBJECT_START.size, at))
    if marks[::2] != [_MARK] * 3 or size > _MAX_FILE_BYTES:
        raise FormatError(f"{path}: expected a block of memory at byte {at:,}, found {bytes(marks[::2])!r}")
    return at + _OBJECT_START.size, size


def image_of_object(sources: Sources, path: str, place: str, name: str = "") -> StoredArray:
    """Return the image of a .lof.

    Args:
        place: of the array in the hierarchy.
        name: of the image; "" for the one in the file, or the file's own.

    Raises:
        FormatError: it is garbled.
        MissingSourceError: it does not exist.
        TruncatedSourceError: it was cut before its XML, which stands behind the pixels.
    """
    files = Files.stat(sources, [path])
    at, size = _memory_of_object(sources, path)
    root, image = _described(sources, path, at + size)
    own = next((node.get("Name", "") for node in root.iter("Element")), "") or splitext(basename(path))[0]
    told = Told(partial(_told_of_object, sources, path, at + size))
    return image_of(path, name or own, image, size, told).array(place, files, Memory(at, size))


def _told_of_object(sources: Sources, path: str, at: int) -> Mapping[str, Any]:
    return attrs_of(_described(sources, path, at)[1])


def _described(sources: Sources, path: str, at: int) -> tuple[Element, Element]:
    """Read the XML of a .lof. Returns: (its root, `Image`).

    Raises:
        FormatError: it is garbled, or describes no image.
        TruncatedSourceError: it is not whole.
    """
    root = _parsed(_text(sources, path, at)[0], path)
    image = root if root.tag == "Image" else next((node for node in root.iter("Image")), None)
    if image is None:
        raise FormatError(f"{path}: expected an image in the XML of the object file, found none")
    return root, image
