"""Reads the trees of named values in which NIS-Elements writes metadata: in bytes (LV), or as XML in older files.

The facts come from the reader in nd2 (https://github.com/tlambert03/nd2). In bytes, little endian::

    entry: type (uint8) | characters of the name, with a NUL at its end (uint8) | name (UTF-16) | value
    type 11, a level: entries (uint32) | bytes from the first of this entry on (uint64) | entries | uint64 for each
    type 76: 10 bytes | entries, compressed with zlib

A level whose entries have no names is a list.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any
from xml.etree.ElementTree import Element

from vfs.errors import FormatError
from vfs.formats.headers import parse_xml

_NUMBERS = {1: "<?", 2: "<i", 3: "<I", 4: "<q", 5: "<Q", 6: "<d", 7: "<Q"}
_TEXT, _BYTES, _LEVEL, _PACKED = 8, 9, 11, 76
_DEEPEST = 64  # levels
_MAX_UNPACKED_BYTES = 64 << 20  # bytes of entries that were compressed
_MAX_BYTES = 4096  # longest row of bytes that is shown

Tree = dict[str, Any]


def read_tree(data: bytes, path: str) -> Tree:
    """Read a chunk of metadata.

    Returns: name -> number, text, tree or list of them.

    Raises:
        FormatError: it is garbled.
    """
    try:
        if data.lstrip(b"\xef\xbb\xbf \r\n").startswith(b"<"):
            found = _of_xml(parse_xml(data.rstrip(b"\0"), path), 0)
        else:
            found = _entries(data, None, 0)[0]
    except (struct.error, zlib.error, UnicodeDecodeError, ValueError) as error:
        raise FormatError(f"{path}: the metadata cannot be understood: {str(error)[:120]}") from None
    return found if isinstance(found, dict) else {"": found}


def _entries(data: bytes, count: int | None, depth: int, at: int = 0) -> tuple[Tree | list[Any], int]:
    """Read entries from a byte on: `count` of them, or all.

    Returns: (their values, the byte behind them).
    """
    if depth > _DEEPEST:
        raise ValueError(f"there are more than {_DEEPEST} levels")
    named: Tree = {}
    nameless: list[Any] = []
    while (count is None or count > 0) and at + 2 <= len(data):
        begin, kind = at, data[at]
        if kind == _PACKED:
            inflate = zlib.decompressobj()
            return _entries(inflate.decompress(data[at + 12 :], _MAX_UNPACKED_BYTES), None, depth + 1)
        end = at + 2 + 2 * data[at + 1]
        name = data[at + 2 : end].decode("utf-16-le").rstrip("\0")
        value, at = _value(data, kind, begin, end, depth)
        if name:
            named[name] = value
        else:
            nameless.append(value)
        count = None if count is None else count - 1
    return (named or nameless), at


def _value(data: bytes, kind: int, begin: int, at: int, depth: int) -> tuple[Any, int]:
    """Read the value of an entry at byte `at`, which begins at byte `begin`. Returns: (it, the byte behind it)."""
    if kind in _NUMBERS:
        return struct.unpack_from(_NUMBERS[kind], data, at)[0], at + struct.calcsize(_NUMBERS[kind])
    if kind == _TEXT:
        end = at
        while data[end : end + 2] not in (b"\0\0", b""):
            end += 2
        return data[at:end].decode("utf-16-le"), end + 2
    if kind == _BYTES:
        (size,) = struct.unpack_from("<Q", data, at)
        return list(data[at + 8 : at + 8 + min(size, _MAX_BYTES)]), at + 8 + size
    if kind == _LEVEL:
        entries, size = struct.unpack_from("<IQ", data, at)
        if not at + 12 - begin <= size <= len(data) - begin:  # with fewer, it would be read again and again
            raise ValueError(f"a level of {size:,} bytes is shorter than its head, or longer than what holds it")
        return _entries(data[at + 12 : begin + size], entries, depth + 1)[0], begin + size + 8 * entries
    raise ValueError(f"an entry of type {kind} is not known")


def _of_xml(node: Element, depth: int) -> Any:
    """Return the value of a node."""
    if depth > _DEEPEST:
        raise ValueError(f"there are more than {_DEEPEST} levels")
    kind, text = node.get("runtype", ""), node.get("value")
    if text is not None and not len(node):
        if kind == "bool":
            return text.lower() in ("true", "1")
        if kind in ("double", "float"):
            return float(text)
        return int(text) if kind.startswith("lx_") else text
    named: Tree = {}
    nameless: list[Any] = []
    for child in node:
        value = _of_xml(child, depth + 1)
        if child.tag == "no_name":
            nameless.append(value)
        else:
            named[child.tag] = value
    if node.tag == "variant" and not named and len(nameless) == 1:
        return nameless[0]
    return named or nameless


def inside(tree: Tree, name: str) -> Tree:
    """Return the tree of a name, or the tree itself if it has no such name (XML has no level for it)."""
    found = tree.get(name, tree)
    return found if isinstance(found, dict) else {}


def values(found: Any) -> list[Any]:
    """Return what a level holds, whether its entries have names or not."""
    return list(found.values()) if isinstance(found, dict) else found if isinstance(found, list) else []
