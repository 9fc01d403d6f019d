"""Helps formats to read headers and options, and to find the files of a series."""

from __future__ import annotations

import glob
import os
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise, takewhile
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from vfs.boundary import Boundary, absolute, open_found, read_open, remember, remembered
from vfs.errors import FormatError, MissingSourceError, OptionError, SourceError, TruncatedSourceError
from vfs.model.name_order import in_order, numbers_in
from vfs.model.stored import Absence
from vfs.wording import format_option, option, shown

_MOST_TEXT = 64 << 20  # most bytes of a side file, which is read whole
_NPY = re.compile(
    rb"\x93NUMPY\x01\x00(..)\{'descr': '([<>][iuf][248]|[<>]c(?:8|16)|\|[bui]1)', 'fortran_order': (True|False), "
    rb"'shape': \((|[1-9][0-9]{0,17},|[1-9][0-9]{0,17}(?:, [1-9][0-9]{0,17})+)\), \} *\n",
    re.DOTALL,
)
"""The header that `np.save` writes for most arrays, to the byte.

Matching it is faster than numpy's own reader, which uses Python's parser.
"""
_NPY_MOST = 512  # most bytes of such a header; usual ones have 128


def read_at(path: str, size: int, offset: int = 0, short_ok: bool = False) -> bytes:
    """Read `size` bytes of a file from `offset` on.

    Args:
        short_ok: accept fewer bytes at the end of the file.

    Raises:
        MissingSourceError, SourceError: the file cannot be read.
        TruncatedSourceError: it ends before, unless `short_ok`.
    """
    known = remembered(path)
    if known is not None and offset >= 0 and (offset + size <= len(known[0]) or known[1].st_size == len(known[0])):
        got = known[0][offset : offset + size]
    else:
        got = read_and_stat(path, size, offset)[0]
    if len(got) < size and not short_ok:
        raise TruncatedSourceError(
            f"{path}: expected {size:,} bytes of header at byte {offset:,}, found {len(got):,}; the file looks"
            " truncated"
        )
    return got


def read_first(path: str, size: int) -> bytes:
    """Read the first `size` bytes of a file, or fewer if it is shorter.

    They are remembered until the set is open, so that `read_at` does not read them again.

    Raises:
        MissingSourceError, SourceError: the file cannot be read.
    """
    head, found = read_and_stat(path, size)
    remember(absolute(path), head, found)
    return head


def read_and_stat(path: str, size: int, offset: int = 0) -> tuple[bytes, os.stat_result]:
    """Read `size` bytes of a file from `offset` on, or fewer if it is shorter.

    Returns: (bytes, status of the file).

    Raises:
        MissingSourceError, SourceError: the file cannot be read.
    """
    try:
        fd, found = open_found(path)
        try:
            # A garbled header may name any place and size: take no memory for bytes that do not exist
            left = max(0, min(size, found.st_size - offset)) if offset >= 0 else 0
            got = read_open(fd, left, offset)
        finally:
            os.close(fd)
    except OSError as error:
        if isinstance(error, SourceError):
            raise
        raise SourceError(f"{path}: cannot be read: {error.strerror}", error.errno or 5) from None
    return got, found


def expand(paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], follow_outside: bool = False) -> list[str]:
    """Turn names and globs into file names.

    Files that a glob finds are in the order of the numbers in their names (see
    `vfs.model.name_order`), named files in the given order.

    Args:
        follow_outside: a glob may find links that lead out of the folder in which it searches.

    Raises:
        OutsideError: a glob finds such a link.
        OptionError: nothing is given.
        MissingSourceError: a glob finds nothing.
    """
    given = [paths] if isinstance(paths, str | os.PathLike) or not isinstance(paths, Iterable) else list(paths)
    if not given:
        raise OptionError("no file given: expected a file, several files, or a glob")
    found = []
    for item in given:
        name = file_name(item)
        if not glob.has_magic(name) or os.path.exists(name):
            found.append(name)
            continue
        hits = in_order([hit for hit in glob.glob(name, recursive=True) if os.path.isfile(hit)])
        if not hits:
            raise MissingSourceError(f"{name}: no file matches")
        if not follow_outside:  # the user named the glob, not these files
            parts = os.path.abspath(name).split(os.sep)
            searched = Boundary.around(
                [os.sep.join([*takewhile(lambda part: not glob.has_magic(part), parts[:-1]), "x"])]
            )
            for hit in hits:
                searched.check(hit)
        found += hits
    return found


def series(paths: Sequence[str]) -> str | None:
    """Return a glob for files whose names differ only in numbers and their signs; None if they differ in more."""
    folders, names = zip(*map(os.path.split, paths), strict=True)
    stems, endings = zip(*map(os.path.splitext, names), strict=True)
    found = numbers_in(stems)
    if found is None or len({*folders}) > 1 or len({*endings}) > 1:
        return None
    places, behind = found
    if not all(place.signed or len({*place.signs}) == 1 for place in places):
        return None
    texts = [place.before + ("" if place.signed else place.signs[0]) + "*" for place in places]
    return os.path.join(str(folders[0]), "".join(texts) + behind + str(endings[0]))


def file_name(given: Any) -> str:
    """Return the text of a name or path, after checking that it can be the name of a file.

    Raises:
        OptionError: it cannot.
    """
    try:
        name = os.fspath(given)
        if isinstance(name, str) and "\0" not in name and (name.isascii() or os.fsencode(name)):
            return name
    except (TypeError, UnicodeEncodeError):
        pass
    raise OptionError(f"{shown(given)}: expected the name of a file, several of them in a list, or a glob")


def shape_option(
    value: int | str | Sequence[int], name: str, write: Callable[..., str] = format_option
) -> tuple[int, ...]:
    """Read a shape given as numbers, as "256,256" or as "256x256".

    Args:
        name: name of the option, for the error.
        write: writes it: `format_option`, or `option` for one that every format has.

    Raises:
        OptionError: the value is not a shape.
    """
    if isinstance(value, str):
        parts: Sequence[object] = re.split(r"[x,]", value.strip("() ").removesuffix(","))
    else:
        parts = list(value) if isinstance(value, Iterable) and not isinstance(value, bytes) else [value]
    try:
        shape = tuple(int(str(part)) for part in parts)
    except ValueError:
        shape = ()
    if not shape or any(n < 1 for n in shape):
        raise OptionError(f"{write(**{name: value})}: expected one or more positive numbers such as 256,256")
    return shape


def dtype_option(value: Any, write: Callable[..., str] = option, name: str = "dtype") -> np.dtype:
    """Read a dtype given in any way that numpy takes.

    Args:
        write, name: see `shape_option`.

    Raises:
        OptionError: the value is not a dtype.
    """
    try:
        dtype: np.dtype = np.dtype(value)
    except (TypeError, ValueError, SyntaxError):  # ValueError: text that is not UTF-8; SyntaxError: "f4,,"
        raise OptionError(f"{write(**{name: value})}: not a numpy dtype") from None
    return dtype


def numbered(start: str, ending: str) -> list[tuple[int, str]]:
    """List the files of a numbered series, `start` + digits + `ending`, sorted by number.

    Args:
        start: path up to the digits.
        ending: text after the digits, in upper or lower case.

    Returns: (number, path) of each file; empty if there is none.

    Raises:
        SourceError: the folder cannot be listed.
        FormatError: two files have the same number (scan_1.x and scan_01.x).
    """
    folder, stem = os.path.split(start)
    begin, end, last = len(stem), len(ending), ending.lower()
    try:
        names = os.listdir(folder or ".")
    except OSError as error:
        raise SourceError(f"{folder or '.'}: the folder cannot be listed: {error.strerror}", error.errno or 5) from None
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
                f"{os.path.join(folder, second)}: has the same number in its series as {first}; remove one, or name the"
                " files of the set"
            )
    return [(number, os.path.join(folder, name)) for number, name in found]


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
        raise FormatError(f"{path}: the XML cannot be understood: {error}") from None


def read_side_file(path: str) -> bytes:
    """Read all of a text file that belongs to a set.

    Raises:
        MissingSourceError, SourceError: it cannot be read.
        FormatError: it is too long for a text file of this kind.
    """
    try:
        size = os.path.getsize(path)
    except OSError:
        size = 0  # `read_at` will raise the error
    if size > _MOST_TEXT:
        raise FormatError(f"{path}: expected a text file of at most {_MOST_TEXT:,} bytes, found {size:,}")
    return read_at(path, max(size, 1), short_ok=True)


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
