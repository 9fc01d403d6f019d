"""TIFF pages that are alike: one comparison of integers tells whether a directory says the same as the one before, but for places.

A `Pattern` is what the directories of a stack have in common, a `Lead` what files of one page each have. What is not alike is taken apart
by `vfs.formats.tiff_structure.pages`, which says what is wrong with it; nothing is refused here.
"""

from __future__ import annotations

import os
from typing import Literal, NamedTuple

from vfs.formats.tiff_structure.headers import DESCRIPTION, HOW, SOFTWARE, Order, Reader

MISSING = 1 << 60
"""Offset of a plane that cannot be read: beyond the end of any file, so that reading it is an error."""

STRIPS, STRIP_SIZES, TILES, TILE_SIZES, SUB = 273, 279, 324, 325, 330
WHERE = {STRIPS, STRIP_SIZES, TILES, TILE_SIZES, SUB}
START = 4096  # bytes of a description, or of a file, that are read at once: most have fewer


class Pattern(NamedTuple):
    """What a directory has in common with the next one of a stack, which differs only in places: it is told by one comparison of integers.

    Attributes:
        form: byte order, BigTIFF or not, bytes of entries.
        mask, common: the bits that matter, of the entries as one number, and their value.
        kind, used: what these pages are, and the bytes of their table of offsets.
        places: (type, count, first byte, last byte half-open) of the place of the offsets, and of the byte counts.
    """

    form: tuple[Order, bool, int]
    mask: int
    common: int
    kind: int
    used: int
    places: tuple[tuple[int, int, int, int], ...]

    @classmethod
    def of(cls, reader: Reader, data: bytes, first: int, kind: int, used: int) -> Pattern | None:
        """None where a directory points to more than its tables of offsets and byte counts, or has smaller versions."""
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
        return cls((reader.order, reader.big, len(data)), bits, common, kind, used, tuple(p or (0, 0, 0, 0) for p in order))

    def fits(self, reader: Reader, data: bytes) -> bool:
        return self.form == (reader.order, reader.big, len(data)) and int.from_bytes(data, "little") & self.mask == self.common

    def where(self, data: bytes) -> list[int]:
        """The six numbers of a page of the table."""
        order: Literal["little", "big"] = "little" if self.form[0] == "<" else "big"
        found = []
        for kind, count, a, b in self.places:
            found += [kind, min(count, MISSING), min(int.from_bytes(data[a:b], order), MISSING)]
        return found


class Lead(NamedTuple):
    """What a file of one page has in common with others of a sequence.

    Attributes:
        like: of its directory; order: of its bytes.
        start: what the file begins with, up to the place of the directory, which is `pointer` bytes long.
        mask, common: the bits that matter of the directory with the number of its entries and the place of the next one, and their value.
        head, length: bytes before the entries; bytes of all of the directory.
        texts: (first byte of its place in the entries, whether it stands there itself, the text) of what may say more about the pages.
    """

    like: Pattern
    order: Literal["little", "big"]
    start: bytes
    pointer: int
    mask: int
    common: int
    head: int
    length: int
    texts: tuple[tuple[int, bool, bytes], ...]

    @classmethod
    def of(cls, path: str, at: int, like: Pattern) -> Lead | None:
        """Of a file whose first directory is at byte `at`. None where there is another one, or a text is long."""
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
        return cls(like, "little" if reader.order == "<" else "big", start, pointer, bits, common, head, len(whole), tuple(texts))

    def same(self, fd: int, size: int) -> tuple[int, bytes] | None:
        """(place of the directory, its entries) of an open file of `size` bytes that says the same; None: it does not."""
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
            if (window[first : first + len(text)] if first + len(text) <= len(window) else os.pread(fd, len(text), first)) != text:
                return None
        return at, data[self.head : -self.pointer]
