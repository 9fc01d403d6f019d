"""Recognises TIFF pages that are alike, because parsing each of 10^5 pages would be slow.

One comparison of integers tells if a directory equals the one before, except for the places of its
pixels. A `PagePattern` holds the common part of the directories of a stack, a `FilePattern` the
common part of files of one page each. Nothing is refused here: `vfs.formats.tiff_structure.pages`
parses pages that are not alike, and reports errors in them.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from vfs.formats.tiff_structure.headers import DESCRIPTION, SOFTWARE, Order, Reader
from vfs.formats.tiff_structure.kinds import HOW
from vfs.model.sources import Sources

MISSING = 1 << 60
"""The offset of a plane that cannot be read. It is beyond the end of any file, so reading it is an error."""

STRIPS, STRIP_SIZES, TILES, TILE_SIZES, SUB = 273, 279, 324, 325, 330
WHERE = {STRIPS, STRIP_SIZES, TILES, TILE_SIZES, SUB}
START = 4096  # bytes of a description, or of a file, that are read at once; most are shorter


class PagePattern(NamedTuple):
    """Holds the common part of the directories of a stack, which differ only in places of pixels.

    Attributes:
        form: byte order, BigTIFF or not, bytes of the entries.
        mask: the bits of the entries, as one number, that must agree.
        common: the value of these bits.
        kind: number of these pages' `Kind`.
        used: bytes of their table of offsets.
        places: for the offsets and for the byte counts, the part of the entries that holds their
            place: (type, count, first byte, last byte half-open) each.
    """

    form: tuple[Order, bool, int]
    mask: int
    common: int
    kind: int
    used: int
    places: tuple[tuple[int, int, int, int], ...]

    @classmethod
    def of(cls, reader: Reader, data: bytes, first: int, kind: int, used: int) -> PagePattern | None:
        """Make the pattern of a directory.

        Returns None if the directory points to more than its tables of offsets and byte counts, or
        has smaller versions.
        """
        mask = bytearray(len(data))
        places: dict[int, tuple[int, int, int, int]] = {}
        entry, room = (20, 8) if reader.big else (12, 4)
        for i, (tag, field, _) in enumerate(reader.entries(data, first)):
            begin, value = i * entry, (i + 1) * entry - room
            inside = field.at == first + value
            mask[begin : begin + 2] = b"\xff\xff"
            if tag in HOW:
                mask[begin : begin + entry] = b"\xff" * entry
            elif tag in WHERE:
                mask[begin:value] = b"\xff" * (value - begin)
                size = reader.width(field) if field.length == 1 else room
                places.setdefault(tag, (0 if field.length == 1 else field.type, field.length, value, value + size))
            if tag == SUB or (tag in HOW and not inside) or (tag in WHERE and inside != (field.length == 1)):
                return None
        order = places.get(TILES) or places.get(STRIPS), places.get(TILE_SIZES) or places.get(STRIP_SIZES)
        bits = int.from_bytes(mask, "little")
        common = int.from_bytes(data, "little") & bits
        return cls(
            (reader.order, reader.big, len(data)), bits, common, kind, used, tuple(p or (0, 0, 0, 0) for p in order)
        )

    def fits(self, reader: Reader, data: bytes) -> bool:
        return (
            self.form == (reader.order, reader.big, len(data))
            and int.from_bytes(data, "little") & self.mask == self.common
        )

    def where(self, data: bytes) -> list[int]:
        """Return the six numbers that `PageTable` keeps of a page.

        They are type, count and place of the offsets, then of the byte counts.
        """
        order: Literal["little", "big"] = "little" if self.form[0] == "<" else "big"
        found = []
        for kind, count, a, b in self.places:
            found += [kind, min(count, MISSING), min(int.from_bytes(data[a:b], order), MISSING)]
        return found


class FilePattern(NamedTuple):
    """Holds the common part of the files of a sequence, which have one page each.

    Attributes:
        like: the pattern of its directory.
        order: its byte order.
        start: its first bytes, up to the place of the directory, which is `pointer` bytes long.
        mask: the bits of the whole directory (with the number of entries and the place of the next
            directory) that must agree.
        common: the value of these bits.
        head: bytes before the entries.
        length: bytes of the whole directory.
        texts: texts that may hold more about the pages: (first byte of the text's place in the
            directory, True if the text itself is there, the text).
    """

    like: PagePattern
    order: Literal["little", "big"]
    start: bytes
    pointer: int
    mask: int
    common: int
    head: int
    length: int
    texts: tuple[tuple[int, bool, bytes], ...]

    @classmethod
    def of(cls, sources: Sources, path: str, at: int, like: PagePattern) -> FilePattern | None:
        """Make the pattern of a file whose first directory is at byte `at`.

        Returns None if there is a second directory, or a text is long.
        """
        reader = Reader(sources, path)
        head, entry, pointer = (8, 20, 8) if reader.big else (2, 12, 4)
        data, first, after = reader.directory(at)
        if after:
            return None
        start = reader.read(0, 8 if reader.big else 4)
        mask, texts = bytearray(like.mask.to_bytes(len(data), "little")), []
        for i, (tag, field, _) in enumerate(reader.entries(data, first)):
            if tag in (DESCRIPTION, SOFTWARE):
                value = (i + 1) * entry - pointer
                mask[i * entry : value] = b"\xff" * (value - i * entry)
                size = field.length * reader.width(field)
                if size > START:
                    return None
                texts.append((head + value, field.at == first + value, reader.read(field.at, size)))
        whole = reader.read(at, head + len(data) + pointer)
        every = b"\xff" * head + mask + b"\xff" * pointer
        bits = int.from_bytes(every, "little")
        common = int.from_bytes(whole, "little") & bits
        return cls(
            like,
            "little" if reader.order == "<" else "big",
            start,
            pointer,
            bits,
            common,
            head,
            len(whole),
            tuple(texts),
        )

    def same(self, sources: Sources, path: str, size: int) -> tuple[int, bytes] | None:
        """Compare a file of `size` bytes with the pattern.

        Returns: (place of the directory, its entries) if the file fits, else None.
        """
        window = sources.read(path, 0, START)
        begin = len(self.start)
        at = int.from_bytes(window[begin : begin + self.pointer], self.order)
        if at > size - self.length or self.length + self.like.used > size or not window.startswith(self.start):
            return None
        data = window[at : at + self.length] if at + self.length <= len(window) else sources.read(path, at, self.length)
        if len(data) != self.length or int.from_bytes(data, "little") & self.mask != self.common:
            return None
        for value, inside, text in self.texts:
            first = at + value if inside else int.from_bytes(data[value : value + self.pointer], self.order)
            if first > size - len(text):
                return None
            last = first + len(text)
            found = window[first:last] if last <= len(window) else sources.read(path, first, len(text))
            if found != text:
                return None
        return at, data[self.head : -self.pointer]
