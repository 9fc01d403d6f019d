"""Reads all tags of TIFF files, with what tifffile makes of those of microscopes, when somebody asks for them."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from vfs.errors import FormatError, VfsError
from vfs.formats.headers import parse_xml, read_side_file, xml_tree
from vfs.formats.tiff_structure.headers import header_of, quiet, tifffile
from vfs.model.sources import Sources
from vfs.sources.names import basename

_MAX_PAGES = 64
_MAX_BYTES = 1 << 20  # of a tag
_MAX_VALUES = 4096  # of a tag of numbers
_MAX_HEX = 4096  # bytes of a tag that are neither text nor known


def original(paths: Sequence[str], sources: Sources) -> dict[str, Any]:
    """Return the tags of the first of some files, by their names.

    Those of the first page are at the top, those of further pages that differ in `pages`: number -> tags. Fractions are
    [numerator, denominator], of XML there is the text and an object, and bytes that are no text are hexadecimal.

    Raises:
        FormatError: the file is garbled.
        SourceError: it cannot be read.
    """
    if header_of(sources.read(paths[0], 0, 16)) is None:  # OME-XML that names the files
        text = read_side_file(sources, paths[0]).decode("utf-8", "replace")
        return {"document": text, "document (XML)": _xml(text, paths[0])}
    left: list[str] = [f"tags of {len(paths) - 1:,} more files"] if len(paths) > 1 else []
    try:
        with sources.stream(paths[0]) as stream, quiet(), np.errstate(all="ignore"):
            file = tifffile().TiffFile(stream, name=basename(paths[0]))
            tree: dict[str, Any] = {}
            for number, page in enumerate(_pages(file, left)):
                tags = _tags(page, f"page {number}: ", paths[0], left)
                if number == 0:
                    tree = tags
                elif other := {name: value for name, value in tags.items() if tree.get(name) != value}:
                    tree.setdefault("pages", {})[str(number)] = other
    except (VfsError, MemoryError):
        raise
    except Exception as error:  # tifffile raises all kinds
        raise FormatError(f"{paths[0]}: its tags cannot be understood: {' '.join(str(error).split())[:200]}") from None
    return tree | ({"left_out": left} if left else {})


def _pages(file: Any, left: list[str]) -> Iterator[Any]:
    """Yield the first pages."""
    for number in range(_MAX_PAGES + 1):
        try:
            page = file.pages[number]
        except IndexError:
            return
        if number == _MAX_PAGES:
            left.append(f"tags of the pages from number {_MAX_PAGES} on")
        else:
            yield page


def _tags(page: Any, where: str, path: str, left: list[str]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for tag in page.tags:
        name = tag.name if not tag.name.isdigit() else str(tag.code)
        if tag.valuebytecount > _MAX_BYTES:
            left.append(f"{where}{name}: {tag.valuebytecount:,} bytes")
            continue
        try:
            value = tag.value
        except Exception as error:  # of one tag that is garbled
            left.append(f"{where}{name}: {' '.join(str(error).split())[:100]}")
            continue
        if isinstance(value, tuple | np.ndarray) and len(value) > _MAX_VALUES:
            left.append(f"{where}{name}: {len(value):,} values")
        elif isinstance(value, bytes) and len(value) > _MAX_HEX and _text(value) is None:
            left.append(f"{where}{name}: {len(value):,} bytes")
        else:
            made[name] = _fractions(value) if tag.dtype in (5, 10) else _plain(value)
            if (parsed := _xml(made[name], path)) is not None:
                made[f"{name} (XML)"] = parsed
    return made


def _fractions(value: Any) -> Any:
    numbers = list(value)
    pairs = [numbers[k : k + 2] for k in range(0, len(numbers), 2)]
    return pairs[0] if len(pairs) == 1 else pairs


def _plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    if isinstance(value, bytes):
        text = _text(value)
        return value.hex() if text is None else text
    return value


def _xml(value: Any, path: str) -> Any:
    """Return the object in a text of XML; None for anything else."""
    text = value.strip("\ufeff \t\r\n\0") if isinstance(value, str) else ""
    if text[:1] != "<":
        return None
    try:
        return xml_tree(parse_xml(text.encode("utf-8", "replace"), path))
    except FormatError:
        return None


def _text(value: bytes) -> str | None:
    """Return bytes as text; None if they are none."""
    try:
        text = value.rstrip(b"\0").decode()
    except UnicodeDecodeError:
        return None
    return text if all(one.isprintable() or one in "\t\r\n" for one in text) else None
