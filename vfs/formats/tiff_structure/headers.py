"""Reads TIFF headers: directories and their tags. Shared by `tiff` and `ome_tiff`.

Specification: TIFF 6.0, https://www.itu.int/itudoc/itu-t/com16/tiff-fx/docs/tiff6.pdf, and BigTIFF,
https://www.awaresystems.be/imaging/tiff/bigtiff.html
"""

from __future__ import annotations

import logging
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Literal, NamedTuple

import numpy as np

from vfs.errors import DependencyError, FormatError, SourceError, TruncatedSourceError, extra
from vfs.model.sources import Sources

NEW_SUBFILE, SUBFILE = 254, 255
DESCRIPTION, SOFTWARE = 270, 305
OLYMPUS_SIS = 33560
COMPRESSION = 259
EER = range(65000, 65003)
"""Values of `COMPRESSION` of electron events of Falcon cameras."""
EER_METADATA = 65001
Order = Literal["<", ">"]

# TIFF type -> bytes of a value
BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}
UNSIGNED = {1: "B", 3: "H", 4: "I", 13: "I", 16: "Q", 18: "Q"}
_WINDOW = 4096  # bytes that are read at once
_MAX_TAG_BYTES = 1 << 20  # most bytes of a tag about storage


def tifffile() -> ModuleType:
    """Import tifffile when it is first needed.

    Raises:
        DependencyError: it is not installed.
    """
    try:
        import tifffile as module
    except ImportError:
        raise DependencyError(f"reading TIFF needs tifffile: {extra('tiff')}") from None
    return module  # type: ignore[no-any-return]


_muted = threading.local()


def _heard(record: logging.LogRecord) -> bool:
    return not getattr(_muted, "on", False)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep log lines of tifffile off the terminal, since problems that matter are raised."""
    before = getattr(_muted, "on", False)
    logging.getLogger("tifffile").addFilter(_heard)  # adds it once
    _muted.on = True
    try:
        yield
    finally:
        _muted.on = before


def header_of(first_bytes: bytes) -> tuple[Order, bool, int] | None:
    """Parse the first 16 bytes of a file.

    Returns: (byte order, True for BigTIFF, offset of the first directory); None if it is not a TIFF.
    """
    if first_bytes[:2] not in (b"II", b"MM") or len(first_bytes) < 8:
        return None
    order: Order = "<" if first_bytes[:2] == b"II" else ">"
    version, *rest = struct.unpack(order + "HHH", first_bytes[2:8])
    if version == 42:
        return order, False, struct.unpack(order + "I", first_bytes[4:8])[0]
    if version == 43 and rest == [8, 0] and len(first_bytes) >= 16:
        return order, True, struct.unpack(order + "Q", first_bytes[8:16])[0]
    return None


class Field(NamedTuple):
    """Holds a tag of a directory: TIFF type, number of values, and the byte of the file where they begin."""

    type: int
    length: int
    at: int


class Reader:
    """Reads the structure of one TIFF file.

    Raises:
        MissingSourceError, SourceError: the file cannot be read.
        FormatError: it is not a TIFF.
        TruncatedSourceError: it is too short for one.
    """

    def __init__(self, sources: Sources, path: str) -> None:
        self.path = path
        self.sources = sources
        self._window, self._at = sources.read(path, 0, _WINDOW), 0
        self.size = sources.state(path).size
        head = self._window[:16]
        found = header_of(head)
        if found is None:
            if header_of((head + bytes(16))[:16]) is not None:
                raise TruncatedSourceError(f"{path}: a TIFF file of {self.size} bytes; it looks truncated")
            raise FormatError(
                f"{path}: expected a TIFF file, " + (f"it begins with {head[:8]!r}" if head else "found an empty file")
            )
        self.order, self.big, self.first = found

    def read(self, at: int, size: int) -> bytes:
        """Read `size` bytes at byte `at`.

        Raises:
            TruncatedSourceError: the file ends before.
        """
        inside = at - self._at
        if inside >= 0 and inside + size <= len(self._window):
            return self._window[inside : inside + size]
        if at + size > self.size:
            raise TruncatedSourceError(
                f"{self.path}: expected {size:,} bytes of tags at byte {at:,}, the file has {self.size:,}; it looks"
                " truncated"
            )
        got = self.sources.read(self.path, at, max(size, _WINDOW))  # values of a directory's tags are often next to it
        if len(got) < size:
            raise TruncatedSourceError(
                f"{self.path}: expected {size:,} bytes at byte {at:,}, found {len(got):,}; it looks truncated"
            )
        if len(got) <= 1 << 16:
            self._window, self._at = got, at
        return got[:size]

    def directory(self, at: int) -> tuple[bytes, int, int]:
        """Read the directory at byte `at`.

        Returns: (its entries, byte where they begin, byte of the next directory or 0; -1 if the file
            ends before it says that).
        """
        head, entry, pointer = (8, 20, 8) if self.big else (2, 12, 4)
        order: Literal["little", "big"] = "little" if self.order == "<" else "big"
        count = int.from_bytes(self.read(at, head), order)
        if not 1 <= count <= 4096:
            raise FormatError(
                f"{self.path}: the directory at byte {at:,} claims {count:,} entries, expected 1 to 4,096; the file is"
                " garbled"
            )
        data = self.read(at + head, count * entry)
        end = at + head + len(data)
        after = -1 if end + pointer > self.size else int.from_bytes(self.read(end, pointer), order)
        return data, at + head, after

    def entries(self, data: bytes, at: int) -> Iterator[tuple[int, Field, bytes]]:
        """Yield (tag, field, value in the entry) of a directory's entries, which begin at byte `at`."""
        form, entry, room = ("HHQ8s", 20, 8) if self.big else ("HHI4s", 12, 4)
        pointer = struct.Struct(self.order + ("Q" if self.big else "I"))
        for tag, kind, count, value in struct.iter_unpack(self.order + form, data):
            inside = BYTES.get(kind, 1) * count <= room
            yield tag, Field(kind, count, at + entry - room if inside else pointer.unpack(value)[0]), value
            at += entry

    def stored(self, field: Field, value: bytes) -> bytes:
        """Return the bytes of a field's values; b"" if there are too many for a tag about storage."""
        size = field.length * BYTES.get(field.type, 1)
        if size <= len(value):
            return value[:size]
        return self.read(field.at, size) if size <= _MAX_TAG_BYTES else b""

    @staticmethod
    def width(field: Field) -> int:
        """Return the size of one value of a field in bytes."""
        return BYTES.get(field.type, 1)

    def number(self, field: Field, value: bytes) -> int:
        """Return the value of a field of one unsigned integer."""
        if field.type not in UNSIGNED:
            raise FormatError(
                f"{self.path}: expected a whole number at byte {field.at:,}, found TIFF type {field.type}"
            )
        raw = value[: BYTES[field.type]]
        return int.from_bytes(
            raw if len(raw) == BYTES[field.type] else self.read(field.at, BYTES[field.type]),
            "little" if self.order == "<" else "big",
        )

    def numbers(self, field: Field, most: int = 1 << 62) -> np.ndarray:
        """Return the values of a field of unsigned integers, at most `most` of them: int64[n]."""
        if field.type not in UNSIGNED:
            raise FormatError(f"{self.path}: expected whole numbers at byte {field.at:,}, found TIFF type {field.type}")
        count = min(field.length, most)
        dtype = np.dtype(f"{self.order}u{BYTES[field.type]}")
        return np.frombuffer(self.read(field.at, count * dtype.itemsize), dtype).astype(np.int64)

    def text(self, field: Field) -> str:
        """Return the values of a field as text: UTF-8, else Latin-1, up to the first NUL."""
        raw = self.read(field.at, field.length * BYTES.get(field.type, 1)).split(b"\0", 1)[0]
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return raw.decode("latin-1")


def beside_others(sources: Sources, path: str, at: int) -> bool:
    """Return True if the directory at byte `at` says of its page that it is a smaller version or a mask of another.

    That is bit 0 or 2 of NewSubfileType, or 2 or 4 in the older SubfileType. Thumbnails, labels and overviews of
    slides have these.
    """
    reader = Reader(sources, path)
    data, begin, _ = reader.directory(at)
    for tag, field, value in reader.entries(data, begin):
        if tag in (NEW_SUBFILE, SUBFILE) and field.length == 1 and field.type in UNSIGNED:
            kind = reader.number(field, value)
            return bool(kind & 5) if tag == NEW_SUBFILE else kind in (2, 4)
    return False


def has_tag(sources: Sources, path: str, at: int, tag: int) -> bool:
    """Return True if the directory at byte `at` has a tag."""
    reader = Reader(sources, path)
    data, begin, _ = reader.directory(at)
    return any(number == tag for number, _, _ in reader.entries(data, begin))


def holds_events(sources: Sources, path: str) -> bool:
    """Return True if a TIFF file begins with electron events of a Falcon camera (EER), or with what belongs to them.

    Their pages are compressed by one of three numbers, or are plain images with metadata in the tag of the same number.
    The name tells it, too. False if the first directory cannot be read.
    """
    if path.lower().endswith(".eer"):
        return True
    try:
        reader = Reader(sources, path)
        data, at, _ = reader.directory(reader.first)
        tags = {tag: (field, value) for tag, field, value in reader.entries(data, at)}
        packed = reader.number(*tags[COMPRESSION]) if COMPRESSION in tags else 1
        if packed in EER or packed != 1 or EER_METADATA not in tags:
            return packed in EER
        field = tags[EER_METADATA][0]
        return field.type in (1, 7) and reader.read(field.at, min(field.length, 10)) == b"<metadata>"
    except (FormatError, SourceError):
        return False


def described_as_ome(sources: Sources, path: str) -> bool:
    """Return True if the description of a TIFF file's first page ends like OME-XML.

    Raises:
        FormatError, SourceError: the file is garbled or cannot be read.
    """
    reader = Reader(sources, path)
    data, at, _ = reader.directory(reader.first)
    for tag, field, _ in reader.entries(data, at):
        if tag == DESCRIPTION and field.type in (1, 2, 7):
            tail = min(field.length, 64)
            return reader.read(field.at + field.length - tail, tail).rstrip(b"\0 \t\r\n").endswith(b"OME>")
    return False
