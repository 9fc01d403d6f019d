"""Reads what electron microscopes, their cameras and X-ray detectors write into tags of their own in TIFF files.

FEI/Thermo Fisher   34680, 34682: text, `[Section]` and `Key=value`
Zeiss               34118: text, a line with a key (AP_WD), below it `WD = 5.0 mm`
Olympus SIS         33560: binary, in the page of the numbers (a preview may come first)
TVIPS               37706: binary
Tescan              50431: text as that of FEI, between binary parts
JEOL SightX         the description: XML, <TemReporter>
PILATUS             the description: lines `# Key value`

tifffile interprets the binary ones. What cannot be understood says nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from vfs.errors import FormatError, VfsError
from vfs.formats.headers import depth_of, parse_xml, xml_tree
from vfs.formats.pilatus import lines_of
from vfs.formats.tiff_structure.headers import DESCRIPTION, OLYMPUS_SIS, Reader, quiet, tifffile
from vfs.formats.tiff_structure.structure import Structure
from vfs.sources.names import basename

_MAX_TAG_BYTES = 1 << 20  # bytes of a tag; a longer one says nothing
_FEI, _ZEISS, _TVIPS, _TESCAN = (34680, 34682), 34118, 37706, 50431
_DEEPEST = 20  # levels of XML
_BINARY = re.compile(rb"[^\x20-\x7e\xa0-\xff\r\n]+")
_KEY = re.compile(r"[A-Z]{2}_\w+", re.ASCII)
_NAMED = re.compile(r"([^=:]{1,64}?)\s*[=:]\s*(.*)")
_SECTION = re.compile(r"\[([\w .-]{1,64})\]")
_NUMBER = re.compile(r"([-+]?\d[\d.]*(?:[eE][-+]?\d+)?)(?:\s+(\S+|K X))?")


def of_page(found: Structure, at: int) -> Structure:
    """Return the structure of a file with the tags of the page whose directory is at a byte, where numbers of Olympus
    are; else the structure itself."""
    reader = Reader(found.sources, found.path)
    data, begin, _ = reader.directory(at)
    tags = {tag: field for tag, field, _ in reader.entries(data, begin)}
    return replace(found, tags=tags, start="") if OLYMPUS_SIS in tags else found


def instrument(found: Structure, page: int = 0) -> dict[str, Any]:
    """Return what the tags of a page say of its instrument: maker -> its entries; {} if none does.

    Args:
        found: structure of the file, with the tags of the page.
        page: number of the page in the file.
    """
    made: dict[str, Any] = {}
    tags = found.tags.keys()
    if tags & {*_FEI}:
        made["fei"] = sections(next((said for tag in _FEI if (said := found.text(tag, _MAX_TAG_BYTES))), ""))
    if _ZEISS in tags:
        made["zeiss"] = _zeiss(found.text(_ZEISS, _MAX_TAG_BYTES))
    if _TESCAN in tags:
        made["tescan"] = sections(_BINARY.sub(b"\n", found.blob(_TESCAN, _MAX_TAG_BYTES)).decode("latin-1"))
    if OLYMPUS_SIS in tags:
        made["sis"] = _by_tifffile(found, page, OLYMPUS_SIS)
    if _TVIPS in tags:
        made["tvips"] = _by_tifffile(found, page, _TVIPS)
    text = found.start
    if "<TemReporter" in text[:4096]:
        made["jeol"] = _jeol(found.text(DESCRIPTION, _MAX_TAG_BYTES), found.path)
    elif text.startswith("# ") and "Pixel_size" in text:
        made["pilatus"] = lines_of(line.lstrip("# ") for line in found.text(DESCRIPTION, _MAX_TAG_BYTES).splitlines())
    return {maker: said for maker, said in made.items() if said}


def sections(text: str) -> dict[str, dict[str, Any]]:
    """Return the entries of a text of lines `[Section]` and `Key=value`; numbers as such."""
    found: dict[str, dict[str, Any]] = {}
    at: dict[str, Any] | None = None
    for line in map(str.strip, text.splitlines()):
        if section := _SECTION.fullmatch(line):
            at = found.setdefault(section[1], {})
        elif at is not None and "=" in line:
            key, _, value = line.partition("=")
            if value.strip() and key.isprintable():
                at[key.strip()] = as_number(value.strip())
    return found


def as_number(text: str) -> Any:
    """Return a text that is a plain number as one."""
    try:
        number = int(text) if text.isdigit() and len(text) < 16 and (text == "0" or text[0] != "0") else float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) else text


def _zeiss(text: str) -> dict[str, dict[str, Any]]:
    """Return key -> name, value and unit of what a Zeiss microscope writes."""
    found: dict[str, dict[str, Any]] = {}
    key = ""
    for line in map(str.strip, text.splitlines()):
        if _KEY.fullmatch(line):
            key = line
        elif key and (named := _NAMED.fullmatch(line)):
            number = _NUMBER.fullmatch(named[2])
            value = as_number(number[1]) if number else named[2]
            unit = (number[2] or "") if number and not isinstance(value, str) else ""
            plain = named[2] if number and isinstance(value, str) else value
            found[key] = {"name": named[1], "value": plain, **({"unit": unit} if unit else {})}
            key = ""
    return found


def _jeol(text: str, path: str) -> dict[str, Any]:
    """Return the elements of a report of a JEOL microscope."""
    plain = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f]", "", text)  # the description is filled up with other characters
    try:
        root = parse_xml(plain.strip().encode(), path)
    except FormatError:
        return {}
    said = xml_tree(root) if depth_of(root) <= _DEEPEST else {}
    return said if isinstance(said, dict) else {}


def _by_tifffile(found: Structure, page: int, tag: int) -> dict[str, Any]:
    """Return what tifffile makes of a tag of a page."""
    if found.tags[tag].length > _MAX_TAG_BYTES:
        return {}
    try:
        with found.sources.stream(found.path) as stream, quiet(), np.errstate(all="ignore"):
            file = tifffile().TiffFile(stream, name=basename(found.path), is_ome=False)
            said = file.pages[page].tags.valueof(tag)
    except (VfsError, MemoryError):
        raise
    except Exception:  # of a garbled tag tifffile raises what it meets
        return {}
    return {str(name): _plain(value) for name, value in said.items()} if isinstance(said, Mapping) else {}


def _plain(value: Any) -> Any:
    """Return a value of tifffile as one of JSON: times as ISO 8601, complex numbers as their parts."""
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, complex):
        return [value.real, value.imag]
    if isinstance(value, bytes):
        return value.split(b"\0")[0].decode("latin-1")
    return value if isinstance(value, str | int | float) else value.isoformat()
