"""Recognises TIFF pages that are alike, because taking each of 10^5 pages apart would be slow.

One comparison of integers tells whether a directory says the same as the one before, except for the
places of its pixels. A `PagePattern` is what the directories of a stack have in common, a `FilePattern` what
files of one page each have in common. Nothing is refused here: `vfs.formats.tiff_structure.pages`
takes apart what is not alike, and says what is wrong with it.
"""

from __future__ import annotations

import os
from typing import Literal, NamedTuple

from vfs.formats.tiff_structure.headers import DESCRIPTION, HOW, SOFTWARE, Order, Reader

MISSING = 1 << 60
"""Offset that stands for a plane which cannot be read: it is beyond the end of any file, so reading it is an error."""

STRIPS, STRIP_SIZES, TILES, TILE_SIZES, SUB = 273, 279, 324, 325, 330
WHERE = {STRIPS, STRIP_SIZES, TILES, TILE_SIZES, SUB}
START = 4096  # bytes of a description, or of a file, that are read at once: most are shorter


class PagePattern(NamedTuple):
    """What a directory has in common with the next one of a stack, which differs only in places of pixels.

    Attributes:
        form: byte order, BigTIFF or not, bytes of the entries.
        mask: the bits of the entries, as one number, that must agree.
        common: the value of these bits.
        kind: number of these pages' `Kind`.
        used: bytes of their table of offsets.
        places: where the entries say the place of the offsets, and that of the byte counts: (type,
            count, first byte, last byte half-open) each.
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

        None if it points to more than its tables of offsets and byte counts, or has smaller
        versions.
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
    """What a file of one page has in common with the other files of a sequence.

    Attributes:
        like: the pattern of its directory.
        order: its byte order.
        start: its first bytes, up to the place of the directory, which is `pointer` bytes long.
        mask: the bits of the whole directory (with the number of entries and the place of the next
            directory) that must agree.
        common: the value of these bits.
        head: bytes before the entries.
        length: bytes of the whole directory.
        texts: texts that may say more about the pages: (first byte of the text's place in the
            directory, whether the text itself stands there, the text).
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
    def of(cls, path: str, at: int, like: PagePattern) -> FilePattern | None:
        """Make the pattern of a file whose first directory is at byte `at`.

        None if there is a second directory, or a text is long.
        """
        with Reader(path) as reader:
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

    def same(self, fd: int, size: int) -> tuple[int, bytes] | None:
        """Compare an open file of `size` bytes.

        Returns: (place of the directory, its entries) if it says the same, else None.
        """
        window = os.pread(fd, START, 0)
        begin = len(self.start)
        at = int.from_bytes(window[begin : begin + self.pointer], self.order)
        if at > size - self.length or self.length + self.like.used > size or not window.startswith(self.start):
            return None
        data = window[at : at + self.length] if at + self.length <= len(window) else os.pread(fd, self.length, at)
        if len(data) != self.length or int.from_bytes(data, "little") & self.mask != self.common:
            return None
        for value, inside, text in self.texts:
            first = at + value if inside else int.from_bytes(data[value : value + self.pointer], self.order)
            if first > size - len(text):
                return None
            if (
                window[first : first + len(text)]
                if first + len(text) <= len(window)
                else os.pread(fd, len(text), first)
            ) != text:
                return None
        return at, data[self.head : -self.pointer]
