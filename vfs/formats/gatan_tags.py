"""Reads tags of Gatan DigitalMicrograph files (DM3, DM4, GTG): a tree of named values, without pixels.

There is no public specification; the layout is known from programs that read it. Everything but the
values is big-endian::

    u4 version, 3 or 4 | Q bytes of the rest | u4 byte order of the values, 1 little | root group
    group:  u1 sorted | u1 open | Q entries | entry | entry | …
    entry:  u1 20 group, 21 value | u2 length of the name | name | DM4: u8 bytes of the rest |
        group, or "%%%%" and a value
    value:  Q length of its type | type, Q each | bytes

where Q is u4 in DM3 and u8 in DM4. A type is one number, or one of ::

    20, type, count                        an array (of u2: text in UTF-16)
    15, 0, fields, then 0, type for each   a record
    18, count                              text in UTF-16

Long arrays, and all arrays called `Data`, stay in the file: the tree holds a `StoredTag` with their
place. Time and memory are bounded by the number of tags (at most 200,000, at most 64 deep), even if
a garbled file claims other sizes. `original` returns the tree with what is longer, for who asks for all of it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from vfs.errors import FormatError, TruncatedSourceError
from vfs.model.sources import Sources

TYPES = {2: "i2", 3: "i4", 4: "u2", 5: "u4", 6: "f4", 7: "f8", 8: "?", 9: "i1", 10: "u1", 11: "i8", 12: "u8"}
_RECORD, _TEXT, _ARRAY = 15, 18, 20
_GROUP, _VALUE = 20, 21
_MAX_TAGS = 200_000
_MAX_DEPTH = 64
_MAX_TYPE = 1024  # numbers of a type
_MAX_NAME = 4096  # bytes of a name
_MAX_TEXT = 8192  # bytes of a text; longer ones stay in the file
_MAX_NUMBERS = 64  # elements of an array; longer ones stay in the file
_BUFFER = 1 << 16  # bytes read at once
_WHOLE_TEXT, _WHOLE_NUMBERS = 1 << 20, 1 << 16
"""The same where all is asked for."""
_MAX_WHOLE = 8 << 20
"""Bytes of all long values of a file where all is asked for; then they stay in the file."""


@dataclass(frozen=True)
class StoredTag:
    """Holds the place of an array that stays in the file.

    Attributes:
        offset, nbytes: its first byte and its number of bytes, which lie within the file.
    """

    offset: int
    nbytes: int


@dataclass(frozen=True)
class Tags:
    """Holds the tags of a file.

    Attributes:
        version: 3 or 4.
        order: byte order of the values, also of arrays that stay in the file.
        root: name -> group, number, text, list of numbers, or `StoredTag`. Entries without a name
            get their position as name, from "0" on.
    """

    version: int
    order: Literal["<", ">"]
    root: dict[str, Any]

    def get(self, path: str, default: Any = None) -> Any:
        """Return the value at a path, which is names joined with "/"."""
        return find(self.root, path, default)


def find(group: Mapping[str, Any], path: str, default: Any = None) -> Any:
    """Return the value at a path, which is names joined with "/", starting from a group."""
    found: Any = group
    for name in path.split("/"):
        if not isinstance(found, dict) or name not in found:
            return default
        found = found[name]
    return found


def is_tag_file(first_bytes: bytes) -> bool:
    """Return True if a file begins like a tag file of version 3 or 4."""
    if len(first_bytes) < 24 or first_bytes[:3] != b"\0\0\0" or first_bytes[3] not in (3, 4):
        return False
    at = 8 if first_bytes[3] == 3 else 12
    return (
        first_bytes[at : at + 3] == b"\0\0\0"
        and first_bytes[at + 3] <= 1
        and first_bytes[at + 4] <= 1
        and first_bytes[at + 5] <= 1
    )


def read_tags(sources: Sources, path: str, whole: bool = False) -> Tags:
    """Read the tags of a file.

    Args:
        whole: longer arrays and texts are read too, as many as fit into 8 MiB, but no pixels.

    Raises:
        MissingSourceError, SourceError: the file cannot be read.
        FormatError: it is not a tag file, or garbled.
        TruncatedSourceError: it ends within its tags, or within an array.
    """
    return _Parser(sources, path, whole).tags()


def original(paths: Sequence[str], sources: Sources) -> dict[str, Any]:
    """Return all tags of the first of some files, and in `left_out` a line for each array that stays in the file.

    Raises: what `read_tags` raises.
    """
    left: list[str] = []

    def copied(group: Mapping[str, Any], path: str) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name, value in group.items():
            if isinstance(value, dict):
                made[name] = copied(value, f"{path}{name}/")
            elif isinstance(value, StoredTag):
                left.append(f"{path}{name}: an array of {value.nbytes:,} bytes")
            else:
                made[name] = value
        return made

    made = copied(read_tags(sources, paths[0], whole=True).root, "")
    left += [f"tags of {len(paths) - 1:,} more files"] if len(paths) > 1 else []
    return made | ({"left_out": left} if left else {})


class _Parser:
    def __init__(self, sources: Sources, path: str, whole: bool) -> None:
        self.sources = sources
        self.path = path
        self.whole = whole
        self.most_text, self.most_numbers = (_WHOLE_TEXT, _WHOLE_NUMBERS) if whole else (_MAX_TEXT, _MAX_NUMBERS)
        self.left = _MAX_WHOLE
        self.at = 0
        self.buffer = sources.read(path, 0, _BUFFER)
        self.size = sources.state(path).size
        self.first = 0  # byte of the file at which the buffer begins

    def take(self, size: int) -> bytes:
        """Read the next bytes."""
        a = self.at - self.first
        if a < 0 or a + size > len(self.buffer):
            if size > self.size - self.at:
                raise TruncatedSourceError(
                    f"{self.path}: its tags end at byte {self.at + size:,} or later, the file has {self.size:,}; it"
                    " looks truncated"
                )
            self.buffer = self.sources.read(self.path, self.at, max(size, _BUFFER))
            self.first, a = self.at, 0
            if len(self.buffer) < size:
                raise TruncatedSourceError(
                    f"{self.path}: expected {size:,} bytes at byte {self.at:,}, found {len(self.buffer):,}"
                )
        self.at += size
        return self.buffer[a : a + size]

    def numbers(self, count: int) -> tuple[int, ...]:
        return struct.unpack(f">{count}{self.word}", self.take(count * self.width))

    def garbled(self, what: str) -> FormatError:
        return FormatError(f"{self.path}: garbled tags: {what}, before byte {self.at:,}")

    def tags(self) -> Tags:
        head = self.take(16) if self.size >= 16 else b""
        version = int.from_bytes(head[:4], "big")
        if version not in (3, 4):
            raise FormatError(
                f"{self.path}: expected a DigitalMicrograph file of version 3 or 4, it begins with {head[:4]!r}"
            )
        self.dm4 = version == 4
        self.word, self.width = ("Q", 8) if self.dm4 else ("I", 4)
        self.at = 4 + self.width
        little = int.from_bytes(self.take(4), "big")
        if little > 1:
            raise self.garbled(f"expected 0 or 1 for the byte order, found {little}")
        self.order: Literal["<", ">"] = "<" if little else ">"
        root: dict[str, Any] = {}
        self.fill(root)
        return Tags(version, self.order, root)

    def fill(self, root: dict[str, Any]) -> None:
        """Read the root group.

        The groups in it are kept on a list instead of recursing, so that no depth can exhaust
        Python's stack.
        """
        self.take(2)
        open_groups = [(root, "", self.numbers(1)[0], 0)]
        count = 0
        while open_groups:
            group, own, total, done = open_groups.pop()
            while done < total:
                count += 1
                if count > _MAX_TAGS:
                    raise self.garbled(f"more than {_MAX_TAGS:,} tags")
                kind, length = struct.unpack(">BH", self.take(3))
                if length > _MAX_NAME:
                    raise self.garbled(f"a name of {length:,} bytes")
                name = self.take(length).decode("latin1") or str(done)
                if self.dm4:
                    self.take(8)
                done += 1
                if kind == _VALUE:
                    group[name] = self.value(name, own)
                elif kind == _GROUP:
                    self.take(2)
                    inner: dict[str, Any] = {}
                    group[name] = inner
                    open_groups.append((group, own, total, done))
                    if len(open_groups) > _MAX_DEPTH:
                        raise self.garbled(f"groups more than {_MAX_DEPTH} deep")
                    group, own, total, done = inner, name, self.numbers(1)[0], 0
                else:
                    raise self.garbled(f"expected a group (20) or a value (21), found {kind}")

    def value(self, name: str, group: str) -> Any:
        """Read the value of a tag in a group of that name."""
        is_data = name == "Data" and (group == "ImageData" or not self.whole)
        name = name[:40]  # for messages
        if self.take(4) != b"%%%%":
            raise self.garbled(f"expected the mark of a value of {name!r}")
        length = self.numbers(1)[0]
        if not 1 <= length <= _MAX_TYPE:
            raise self.garbled(f"the type of {name!r} has {length:,} numbers")
        kind = self.numbers(length)
        dtype, count = self.dtype(kind, name)
        nbytes = dtype.itemsize * count
        if nbytes > self.size - self.at:
            raise TruncatedSourceError(
                f"{self.path}: {name!r} at byte {self.at:,} is {nbytes:,} bytes long, the file has"
                f" {self.size - self.at:,} more; it looks truncated"
            )
        text = kind[0] == _TEXT or kind[:2] == (_ARRAY, 4)
        array = kind[0] in (_ARRAY, _TEXT)
        if array and (is_data or nbytes > self.most_text or (count > self.most_numbers and not text)):
            self.at += nbytes
            return StoredTag(self.at - nbytes, nbytes)
        if array and nbytes > _MAX_NUMBERS:
            self.left -= nbytes
            if self.left < 0:
                self.most_text, self.most_numbers = _MAX_TEXT, _MAX_NUMBERS
        raw = self.take(nbytes)
        if text and not (self.whole and kind[0] == _ARRAY and not _readable(raw, self.order)):
            return raw.decode("utf-16-le" if self.order == "<" else "utf-16-be", "replace").rstrip("\0")
        found = np.frombuffer(raw, dtype, count).tolist()
        found = [list(v) if isinstance(v, tuple) else v for v in found]
        return found if array else found[0]

    def dtype(self, kind: tuple[int, ...], name: str) -> tuple[np.dtype, int]:
        """Return (dtype, number of elements) for a type."""
        count = 1
        if kind[0] == _TEXT and len(kind) == 2:
            return np.dtype(self.order + "u2"), kind[1]
        if kind[0] == _ARRAY and len(kind) > 2:
            kind, count = kind[1:-1], kind[-1]
        if len(kind) == 1 and kind[0] in TYPES:
            return np.dtype(TYPES[kind[0]]).newbyteorder(self.order), count
        if (
            kind[0] == _RECORD
            and len(kind) >= 3
            and len(kind) == 3 + 2 * kind[2]
            and all(k in TYPES for k in kind[4::2])
            and kind[2]
        ):
            return (
                np.dtype([(f"f{n}", np.dtype(TYPES[k]).newbyteorder(self.order)) for n, k in enumerate(kind[4::2])]),
                count,
            )
        raise self.garbled(f"the type of {name!r} is {list(kind[:8])}, which is not known")


def plain(group: Mapping[str, Any], most: int = 2000) -> dict[str, Any]:
    """Return a group as attributes, without arrays that stay in the file.

    Args:
        most: number of values to keep, the first ones; a long text counts as several.
    """
    left = most

    def copied(of: Mapping[str, Any]) -> dict[str, Any]:
        nonlocal left
        made: dict[str, Any] = {}
        for name, value in of.items():
            if left <= 0:
                break
            left -= 1 + len(name) // 64 + (len(value) // 64 if isinstance(value, str) else 0)
            if isinstance(value, dict):
                inner = copied(value)
                if inner:
                    made[name] = inner
            elif not isinstance(value, StoredTag):
                made[name] = value
        return made

    return copied(group)


def _readable(raw: bytes, order: str) -> bool:
    """Return True if numbers of two bytes are the characters of a text."""
    text = raw.decode("utf-16-le" if order == "<" else "utf-16-be", "replace").rstrip("\0")
    return all(one.isprintable() or one in "\t\r\n" for one in text)
