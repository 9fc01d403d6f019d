"""Holds the structure of one TIFF file: its pages, and the tags of its first one."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from vfs.errors import FormatError, TruncatedSourceError
from vfs.formats.tiff_structure.alike import START
from vfs.formats.tiff_structure.headers import DESCRIPTION, Field, Order, Reader
from vfs.model.sources import Sources
from vfs.model.stored import Absence

_TOLD = {270, 271, 272, 282, 283, 305, 306, 315}  # tags with texts and resolutions


@dataclass(frozen=True)
class Structure:
    """Describes the structure of one file of a `PageTable`.

    Attributes:
        index: number of the file in the table.
        rows: rows of its pages, in the order of the file.
        subs: row of a page -> rows of its sub-directories (smaller versions), -1 for each that does
            not exist.
        tags: tags of the first directory.
        start: the first `START` bytes of the first page's description.
        cut: error in the directory behind the last page, where the rest of the file cannot be had;
            else None.
        lost: tags of the first and the last page of which values lie beyond the end of the file.
    """

    sources: Sources
    path: str
    index: int
    size: int
    order: Order
    big: bool
    rows: range
    subs: dict[int, list[int]]
    tags: dict[int, Field]
    start: str
    cut: FormatError | TruncatedSourceError | None = None
    lost: tuple[int, ...] = ()

    def without_values(self) -> tuple[Absence, ...]:
        """Report tags of which values lie beyond the end of the file, where nothing else says that it is cut."""
        if self.cut is not None or not self.lost:
            return ()
        named = ", ".join(map(str, self.lost[:5])) + ", …" * (len(self.lost) > 5)
        s = "s" * (len(self.lost) > 1)
        return (
            Absence(
                f"{self.path}: values of the tag{s} {named} lie beyond the end of the file, which has {self.size:,}"
                " bytes; it looks truncated, and the pixels are shown without these metadata"
            ),
        )

    def text(self, tag: int, most: int = 1 << 62) -> str:
        """Return the text of a tag of the first directory; "" if there is none, or one longer than `most`."""
        field = self.tags.get(tag)
        if field is None or field.type != 2 or field.length > most or not within(self.size, field):
            return ""
        if tag == DESCRIPTION and field.length <= START:
            return self.start
        reader = Reader(self.sources, self.path)
        return reader.text(field)

    def blob(self, tag: int, most: int) -> bytes:
        """Return the bytes of a tag of the first directory; b"" if there is none, or more than `most`."""
        field = self.tags.get(tag)
        if field is None or not within(self.size, field):
            return b""
        reader = Reader(self.sources, self.path)
        size = field.length * reader.width(field)
        return reader.read(field.at, size) if size <= most else b""

    def number(self, tag: int) -> int:
        """Return an unsigned integer of the first directory; 0 if there is none."""
        found = self._values(tag, {3: ("H", 1), 4: ("I", 1)})
        return int(found[0]) if found else 0

    def ratio(self, tag: int) -> float:
        """Return a ratio of unsigned integers of the first directory; 0 if there is none."""
        found = self._values(tag, {5: ("I", 2)})
        return found[0] / found[1] if found and found[1] else 0.0

    def real(self, tag: int) -> float:
        """Return a floating-point number of the first directory; 0 if there is none."""
        found = self._values(tag, {11: ("f", 1), 12: ("d", 1)})
        return float(found[0]) if found else 0.0

    def _values(self, tag: int, forms: dict[int, tuple[str, int]]) -> tuple[Any, ...]:
        field = self.tags.get(tag)
        if field is None or field.type not in forms or field.length != 1 or not within(self.size, field):
            return ()
        code, count = forms[field.type]
        form = struct.Struct(f"{self.order}{count}{code}")
        reader = Reader(self.sources, self.path)
        return form.unpack(reader.read(field.at, form.size))


def within(size: int, field: Field) -> bool:
    """Return True if a file of `size` bytes has the values of a field."""
    return field.at + field.length * Reader.width(field) <= size


def lost_values(reader: Reader, entries: Iterable[tuple[int, Field, bytes]]) -> list[int]:
    """Return the tags of which values lie beyond the end of the file."""
    return [tag for tag, field, _ in entries if not within(reader.size, field)]


def lost_text(reader: Reader, tags: dict[int, Field]) -> TruncatedSourceError | None:
    """Return the error for a text or a resolution that lies beyond the end of the file; None if there is none."""
    for tag in sorted(_TOLD & set(tags)):
        if not within(reader.size, tags[tag]):
            return TruncatedSourceError(
                f"{reader.path}: tag {tag} lies at byte {tags[tag].at:,}, the file has {reader.size:,}; it looks"
                " truncated"
            )
    return None
