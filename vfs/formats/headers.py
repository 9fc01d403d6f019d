"""Helps formats to read headers and options, and to find the files of a series."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from vfs.errors import FormatError, MissingSourceError, SourceError, TruncatedSourceError
from vfs.model.sources import Sources
from vfs.model.stored import Absence
from vfs.sources.names import beside, split

_MAX_TEXT = 64 << 20  # most bytes of a side file, which is read whole
_NPY = re.compile(
    rb"\x93NUMPY\x01\x00(..)\{'descr': '([<>][iuf][248]|[<>]c(?:8|16)|\|[bui]1)', 'fortran_order': (True|False), "
    rb"'shape': \((|[1-9][0-9]{0,17},|[1-9][0-9]{0,17}(?:, [1-9][0-9]{0,17})+)\), \} *\n",
    re.DOTALL,
)
"""The header that `np.save` writes for most arrays, to the byte.

Matching it is faster than numpy's own reader, which uses Python's parser.
"""
_NPY_MOST = 512  # most bytes of such a header; usual ones have 128


def read_at(sources: Sources, path: str, size: int, offset: int = 0, short_ok: bool = False) -> bytes:
    """Read `size` bytes of a file from `offset` on.

    Args:
        short_ok: accept fewer bytes at the end of the file.

    Raises:
        MissingSourceError, SourceError: the file cannot be read.
        TruncatedSourceError: it ends before, unless `short_ok`.
    """
    got = sources.read(path, offset, size)
    if len(got) < size and not short_ok:
        raise TruncatedSourceError(
            f"{path}: expected {size:,} bytes of header at byte {offset:,}, found {len(got):,}; the file looks"
            " truncated"
        )
    return got


def exists(sources: Sources, path: str) -> bool:
    """Return False if there is no such file. One that cannot be looked at exists: reading it tells what is wrong."""
    try:
        sources.state(path)
    except MissingSourceError:
        return False
    except SourceError:
        pass
    return True


def numbered(sources: Sources, start: str, ending: str) -> list[tuple[int, str]]:
    """List the files of a numbered series, `start` + digits + `ending`, sorted by number.

    Args:
        start: path up to the digits.
        ending: text after the digits, in upper or lower case.

    Returns: (number, path) of each file; empty if there is none.

    Raises:
        SourceError: the folder cannot be listed.
        FormatError: two files have the same number (scan_1.x and scan_01.x).
    """
    folder, stem = split(start)
    begin, end, last = len(stem), len(ending), ending.lower()
    names = sources.names(folder)
    found = []
    for name in names:  # without a pattern: compiling one for each series takes longer than opening it
        if name.startswith(stem) and name.lower().endswith(last):
            digits = name[begin : len(name) - end]
            if digits.isascii() and digits.isdigit():
                found.append((int(digits), name))
    found.sort()
    for (a, first), (b, second) in pairwise(found):
        if a == b:
            raise FormatError(
                f"{beside(start, second)}: has the same number in its series as {first}; remove one, or name the"
                " files of the set"
            )
    return [(number, beside(start, name)) for number, name in found]


def npy_header(stream: BinaryIO, most: int) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Read a .npy header. The stream is at the first number afterwards.

    Args:
        most: most bytes that the header may have.

    Returns: (shape, True for Fortran order, dtype).

    Raises:
        Exception: of any kind, if the header is garbled.
    """
    start = stream.tell()
    plain = _NPY.match(stream.read(_NPY_MOST))
    if plain is not None and len(plain[0]) == 10 + int.from_bytes(plain[1], "little") and len(plain[0]) <= most:
        stream.seek(start + len(plain[0]))
        return tuple([int(n) for n in plain[4].split(b",") if n]), plain[3] == b"True", np.dtype(plain[2].decode())
    stream.seek(start)
    version = npy.read_magic(stream)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    start = stream.tell()
    for again in range(20, -1, -1):
        try:
            shape, fortran, dtype = read(stream, max_header_size=most)
            break
        except SystemError:
            # Python 3.11 counts levels of syntax for all threads together: a thread that was
            # interrupted may find a wrong count
            if not again:
                raise
            stream.seek(start)
    return tuple(shape), fortran, dtype


def parse_xml(text: bytes, path: str) -> ElementTree.Element:
    """Parse an XML document and return its root.

    Documents that declare entities are refused: a few lines of them can fill any memory.

    Raises:
        FormatError: the document cannot be understood.
    """
    plain = text.replace(b"\0", b"")  # so that the check works for UTF-16 and UTF-32, too
    if b"<!ENTITY" in plain or b"<!DOCTYPE" in plain:
        raise FormatError(f"{path}: expected plain XML, found a document type or entities declared in it")
    try:
        return ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        # LookupError: an encoding that Python does not know
        raise FormatError(f"{path}: the XML is not valid: {error}") from None


def depth_of(element: ElementTree.Element) -> int:
    """Count the levels below an element, without recursion: a garbled file may nest them by the thousand."""
    level, row = 0, [element]
    while row:
        level, row = level + 1, [child for parent in row for child in parent]
    return level


_DEEPEST = 64  # levels of XML elements that are shown


def xml_tree(root: ElementTree.Element, deep: int = 0) -> Any:
    """Return an XML element as values that JSON can hold.

    One with neither attributes nor elements is its text. Others are objects: attributes and elements under their names,
    without namespaces, in a list where several have one name, and their own text as `text`.
    """
    made: dict[str, Any] = {}
    text = (root.text or "").strip()
    if deep > _DEEPEST:
        return text
    pairs = [*root.attrib.items(), *((one.tag, xml_tree(one, deep + 1)) for one in root if isinstance(one.tag, str))]
    for name, value in pairs:
        own = name.rpartition("}")[2]
        if own not in made:
            made[own] = value
        elif isinstance(made[own], list):
            made[own].append(value)
        else:
            made[own] = [made[own], value]
    if not made:
        return text
    return made | ({"text": text} if text else {})


def leaves(node: ElementTree.Element | None, *names: str) -> dict[str, str]:
    """Return what an element says by itself: its attributes, and the texts of children that have none of their own.

    Args:
        node: None says nothing. Namespaces of names are left out.
        names: those that are wanted; none: all.
    """
    if node is None:
        return {}
    below = {child.tag.rpartition("}")[2]: (child.text or "").strip() for child in node if not len(child)}
    return {name: text for name, text in {**below, **node.attrib}.items() if text and (not names or name in names)}


def read_side_file(sources: Sources, path: str) -> bytes:
    """Read all of a text file that belongs to a set.

    Raises:
        MissingSourceError, SourceError: it cannot be read.
        FormatError: it is too long for a text file of this kind.
    """
    size = sources.state(path).size
    if size > _MAX_TEXT:
        raise FormatError(f"{path}: expected a text file of at most {_MAX_TEXT:,} bytes, found {size:,}")
    return sources.read(path, 0, size)


def left_out(error: FormatError) -> Absence:
    """Report metadata beside the pixels that cannot be understood: the pixels are shown without them."""
    return Absence(f"{error}; the pixels are shown without these metadata")


def fields(record: np.void) -> dict[str, Any]:
    """Turn the fields of a header into attributes: text up to its first NUL, and Python numbers.

    Fields whose names begin with _ are left out.
    """
    found = {}
    for name, value in zip(record.dtype.names or (), record.item(), strict=True):
        if not name.startswith("_"):
            if isinstance(value, bytes):
                value = value.split(b"\0")[0].decode("latin1").strip()
            found[name] = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    return found
