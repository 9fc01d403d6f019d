"""Reads the segments of a CZI file: its directory, and where the pixels of each sub-block lie.

The facts come from the reader in czifile (https://github.com/cgohlke/czifile) and from libCZI
(https://github.com/ZEISS/libczi). All numbers are little endian::

    segment: `SEGMENT` | data
    ZISRAWFILE: the first one, `FILE`; it says where the directory and the metadata are
    ZISRAWDIRECTORY: entries (int32) | 124 bytes | entry | entry | …
    ZISRAWSUBBLOCK: `BLOCK` | entry | up to byte 256, or to the end of the entry | metadata | pixels | attachments
    ZISRAWMETADATA: bytes of XML (int32) | 252 bytes | XML
    entry: `ENTRY` | `DIMENSION` for each dimension
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import NamedTuple
from xml.etree.ElementTree import Element

import numpy as np

from vfs.errors import FormatError, TruncatedSourceError
from vfs.formats.headers import parse_xml, read_at
from vfs.model.sources import Sources
from vfs.model.stored import Absence

SEGMENT = np.dtype([("id", "S16"), ("allocated", "<i8"), ("used", "<i8")])  # bytes behind this header
FILE = np.dtype(
    [
        ("major", "<i4"),
        ("minor", "<i4"),
        ("_reserved", "V8"),
        ("_primary", "V16"),
        ("_own", "V16"),
        ("part", "<i4"),  # 0, or the number of a file of a set of several
        ("directory", "<i8"),  # byte of the file
        ("metadata", "<i8"),
        ("update_pending", "<i4"),
        ("attachments", "<i8"),
    ]
)
ENTRY = np.dtype(
    [
        ("schema", "S2"),  # DV
        ("pixel_type", "<i4"),  # see `TYPES`
        ("at", "<i8"),  # byte of the segment
        ("part", "<i4"),
        ("compression", "<i4"),
        ("pyramid", "u1"),
        ("_spare", "V5"),
        ("dimensions", "<i4"),
    ]
)
DIMENSION = np.dtype(
    [
        ("name", "S4"),  # X, Y, C, Z, T, S (scene), M (tile of a mosaic), …
        ("start", "<i4"),
        ("size", "<i4"),  # pixels of the image, or positions; more than are stored in smaller versions of it
        ("coordinate", "<f4"),
        ("stored", "<i4"),  # 0: as many as `size`
    ]
)
BLOCK = np.dtype([("metadata", "<i4"), ("attachments", "<i4"), ("pixels", "<i8")])  # bytes of each
TYPES = {
    0: ("u1", 1),
    1: ("<u2", 1),
    2: ("<f4", 1),
    3: ("u1", 3),
    4: ("<u2", 3),
    8: ("<f4", 3),
    9: ("u1", 4),
    10: ("<c8", 1),
    11: ("<c8", 3),
    12: ("<i4", 1),
    13: ("<f8", 1),
}
"""Pixel type -> dtype in the file, samples of a pixel: see `ORDERS`."""
ORDERS = {3: "BGR", 4: "BGRA"}
"""Samples of a pixel -> their order: see `vfs.model.colours`."""
_ALONE = ("X", "Y", "S", "M")
"""Dimensions of which a sub-block has one position, or that its plane has."""
_MIN_DATA_OFFSET = 256  # bytes between the start of a sub-block's data and its metadata
_MAX_ENTRIES = 1 << 24
_MAX_DIMENSIONS = 64
_MAX_XML = 1 << 28
_MAX_FILE_BYTES = 1 << 60


class Tile(NamedTuple):
    """A sub-block: the piece of a plane that it holds.

    Attributes:
        pixel_type, compression: codes.
        at: first byte of its segment.
        start: position along each dimension by its letter, X and Y in pixels of the image.
        size: (rows, columns) that it has in the image.
        stored: (rows, columns) that it has in the file.
        head: bytes of its entry.
        spans: (letter, positions that it has) of its dimensions besides those of its plane; its planes follow each
            other, the first dimension slowest.
        pyramid: True if it is a smaller version of others.
    """

    pixel_type: int
    compression: int
    at: int
    start: dict[str, int]
    size: tuple[int, int]
    stored: tuple[int, int]
    head: int
    spans: tuple[tuple[str, int], ...] = ()
    pyramid: bool = False

    @property
    def planes(self) -> int:
        """Number of its planes."""
        return math.prod(count for _, count in self.spans)

    @property
    def ratio(self) -> tuple[float, float]:
        """Rows and columns in the file for each of the image."""
        return self.stored[0] / self.size[0], self.stored[1] / self.size[1]


class Places(NamedTuple):
    """Where the pixels of sub-blocks lie: int64[n] first byte, int64[n] bytes; int64[n] bytes of attachments behind and
    of metadata before.
    """

    offset: np.ndarray
    nbytes: np.ndarray
    attached: np.ndarray
    metadata: np.ndarray


def header_of(sources: Sources, path: str) -> np.void:
    """Read the header of a file.

    Raises:
        FormatError: it is none.
        TruncatedSourceError: the file ends before.
    """
    data = read_at(sources, path, SEGMENT.itemsize + FILE.itemsize)
    segment = np.frombuffer(data, SEGMENT, 1)[0]
    if segment["id"] != b"ZISRAWFILE":
        raise FormatError(f"{path}: expected a CZI file, it begins with {data[:10]!r}")
    found: np.void = np.frombuffer(data, FILE, 1, SEGMENT.itemsize)[0]
    if found["part"]:
        raise FormatError(
            f"{path}: expected a file of its own, found part {int(found['part'])} of several; ZEN joins them"
        )
    return found


def _segment(sources: Sources, path: str, at: int, name: bytes) -> bool:
    """Return True if a segment of that name begins at a byte."""
    return at > 0 and sources.read(path, at, 16).rstrip(b"\0") == name


def tiles_of(sources: Sources, path: str, size: int, directory: int, lost: list[Absence]) -> list[Tile]:
    """Read the directory; without one, find the sub-blocks one after the other, and say so in `lost`.

    Raises:
        FormatError: an entry is garbled.
        TruncatedSourceError: the file has neither.
    """
    if _segment(sources, path, directory, b"ZISRAWDIRECTORY"):
        at = directory + SEGMENT.itemsize
        count = int.from_bytes(read_at(sources, path, 4, at), "little")
        used = int(np.frombuffer(read_at(sources, path, SEGMENT.itemsize, directory), SEGMENT, 1)["used"][0])
        if count > _MAX_ENTRIES or not 0 <= used <= size:
            raise FormatError(f"{path}: expected a directory of fewer entries at byte {directory:,}, found {count:,}")
        data, begin = read_at(sources, path, max(0, used - 128), at + 128, short_ok=True), 0
        found: list[Tile] = []
        for _ in range(count):
            tile = _entry(path, data, begin)
            if tile is None:
                raise FormatError(
                    f"{path}: expected {count:,} entries in the directory, entry {len(found):,} is garbled"
                )
            found.append(tile)
            begin += tile.head
        return found
    said = f"{path}: expected a directory at byte {directory:,}, found none; the file was cut, or never ended"
    lost.append(Absence(said, TruncatedSourceError, "shows the blocks that are whole"))
    return list(_walked(sources, path, size))


def _walked(sources: Sources, path: str, size: int) -> Iterator[Tile]:
    """Yield the sub-blocks of a file without a directory, up to the one that is not whole."""
    at = 0
    while at + SEGMENT.itemsize <= size:
        data = sources.read(path, at, SEGMENT.itemsize + 16 + ENTRY.itemsize + 16 * DIMENSION.itemsize)
        segment = np.frombuffer(data, SEGMENT, 1)[0]
        behind = at + SEGMENT.itemsize + int(segment["allocated"])
        if segment["allocated"] < 1 or behind > size or not segment["id"].startswith((b"ZISRAW", b"DELETED")):
            return
        if segment["id"] == b"ZISRAWSUBBLOCK":
            tile = _entry(path, data, SEGMENT.itemsize + BLOCK.itemsize)
            if tile is not None and tile.at == at:
                yield tile
        at = behind


def _entry(path: str, data: bytes, begin: int) -> Tile | None:
    """Read the entry at a byte; None if it is garbled.

    Raises:
        FormatError: it names another file, or a type that nobody knows.
    """
    if begin + ENTRY.itemsize > len(data):
        return None
    _, pixel_type, at, part, compression, pyramid, _, count = struct.unpack_from("<2siqiiB5si", data, begin)
    head = ENTRY.itemsize + count * DIMENSION.itemsize
    if data[begin : begin + 2] != b"DV" or not 1 <= count <= _MAX_DIMENSIONS or begin + head > len(data):
        return None
    start, sizes = {}, {}
    for name, first, extent, _, stored in struct.iter_unpack("<4siifi", data[begin + ENTRY.itemsize : begin + head]):
        letter = name.rstrip(b"\0 ").decode("latin-1")
        start[letter], sizes[letter] = first, (extent, stored or extent)
    (rows, kept_rows), (columns, kept_columns) = sizes.get("Y", (1, 1)), sizes.get("X", (0, 0))  # lines have no Y
    if part:
        raise FormatError(f"{path}: expected a file of its own, found sub-blocks of its part {part}; ZEN joins them")
    if pixel_type not in TYPES or min(rows, columns, kept_rows, kept_columns) < 1 or not 0 < at < _MAX_FILE_BYTES:
        return None
    spans = tuple((letter, n) for letter, (_, n) in reversed(sizes.items()) if letter not in _ALONE)
    several = any(n != 1 for _, n in spans)
    if any(not 0 < n < 1 << 31 for _, n in spans) or (
        several and [*sizes][: 1 + ("Y" in sizes)] not in (["X", "Y"], ["X"])
    ):
        return None
    size, kept = (rows, columns), (kept_rows, kept_columns)
    return Tile(pixel_type, compression, at, start, size, kept, head, spans, bool(pyramid))


def places_of(sources: Sources, path: str, tiles: list[Tile]) -> Places:
    """Find the pixels of sub-blocks: the header of each is read.

    Raises:
        FormatError: one is not where the directory says.
    """
    offset, nbytes, attached, before = np.empty((4, len(tiles)), np.int64)
    wanted = SEGMENT.itemsize + BLOCK.itemsize
    for k, tile in enumerate(tiles):
        data = sources.read(path, tile.at, wanted)
        if len(data) < wanted:  # beyond the end of the file: the table of planes says so
            offset[k], nbytes[k], attached[k], before[k] = tile.at + wanted, 1, 0, 0
            continue
        if not data.startswith(b"ZISRAWSUBBLOCK\0"):
            raise FormatError(f"{path}: expected a sub-block at byte {tile.at:,}, found {data[:14]!r}")
        metadata, attachments, pixels = struct.unpack_from("<iiq", data, SEGMENT.itemsize)
        if metadata < 0 or not 0 < pixels < _MAX_FILE_BYTES:
            raise FormatError(f"{path}: expected pixels in the sub-block at byte {tile.at:,}, found {pixels:,} bytes")
        offset[k] = tile.at + SEGMENT.itemsize + max(_MIN_DATA_OFFSET, BLOCK.itemsize + tile.head) + metadata
        nbytes[k], attached[k], before[k] = pixels, max(0, attachments), metadata
    return Places(offset, nbytes, attached, before)


def metadata_of(sources: Sources, path: str, at: int) -> Element | None:
    """Read the metadata; None if there are none.

    Raises:
        FormatError: they cannot be understood.
    """
    if not _segment(sources, path, at, b"ZISRAWMETADATA"):
        return None
    size = int.from_bytes(sources.read(path, at + SEGMENT.itemsize, 4), "little")
    if not 0 < size <= _MAX_XML:
        return None
    return parse_xml(sources.read(path, at + SEGMENT.itemsize + 256, size).rstrip(b"\0"), path)
