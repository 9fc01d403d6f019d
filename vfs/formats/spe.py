"""Reads `.spe`, the frames of cameras of Princeton Instruments (WinView and WinSpec 2.x, LightField 3.0).

The facts come from Princeton Instruments' "SPE 3.0 File Format Specification" and from readers of both versions. All
numbers are little endian::

    header (`HEADER`, 4,100 bytes) | frame | frame | …                             2.x
    header | regions of frame 0, its metadata | regions of frame 1, … | XML        3.0

Version 2.x says size, type and number of frames in the header. In version 3.0 the XML at the end of the file does: how
many frames, how many bytes from one to the next, and in each the regions of the sensor, one after the other. A region
is an array; what lies behind the regions of a frame (times, gates) is not shown. Several files are one series.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element

import numpy as np

from vfs.errors import FormatError, TruncatedSourceError
from vfs.formats import Format
from vfs.formats.headers import fields, parse_xml, read_at, xml_tree
from vfs.formats.numbering import joined
from vfs.formats.planes import PlaneTable, StoredPlane, plausible
from vfs.formats.recorded import Recorded
from vfs.model.files import Files
from vfs.model.layout import altered
from vfs.model.metadata import Term, Told, in_form
from vfs.model.sources import Sources
from vfs.model.stored import Absence, StoredArray

HEADER = np.dtype(
    {
        "names": [
            *("exposure", "date", "noscan", "columns", "wavelength", "type", "time", "rows", "xml"),
            *("frames", "regions", "version", "_mark"),
        ],
        "formats": ["<f4", "S10", "<i2", "<u2", "<f4", "<i2", "S7", "<u2", "<u8", "<i4", "<i2", "<f4", "<u4"],
        # s; day; -1; pixels; nm; see _TYPES; of day; pixels; first byte of the XML, 0: none; number; number; …
        "offsets": [10, 20, 34, 42, 72, 108, 172, 656, 678, 1446, 1510, 1992, 2996],
        "itemsize": 4100,
    }
)
_MARK = 0x01234567  # of WinView and LightField
_TYPES = {0: "<f4", 1: "<i4", 2: "<i2", 3: "<u2", 5: "<f8", 6: "u1", 8: "<u4"}
_PIXELS = {
    "MonochromeUnsigned8": "u1",
    "MonochromeUnsigned16": "<u2",
    "MonochromeUnsigned32": "<u4",
    "MonochromeFloating32": "<f4",
    "MonochromeFloating64": "<f8",
}
_MAX_XML = 64 << 20  # bytes: it may hold a wavelength for each column, and all settings
_MAX_FRAMES = 1 << 40
_MIN_HEADER_BYTES = 3000  # bytes of a header with all fields
_LIGHTFIELD = 3  # first version with an XML


class _Region(NamedTuple):
    shape: tuple[int, ...]  # y, x
    stored: np.dtype
    start: int  # bytes from the start of the frame


class _FrameShape(NamedTuple):
    number: int
    stride: int  # bytes from one frame to the next
    regions: tuple[_Region, ...]
    header: dict[str, Any]


def sniff(path: str, first_bytes: bytes, sources: Sources) -> bool:
    """Return True for a header of a known version whose numbers make sense."""
    if len(first_bytes) < _MIN_HEADER_BYTES:
        return False
    header = np.frombuffer(first_bytes[: HEADER.itemsize].ljust(HEADER.itemsize, b"\0"), HEADER)[0]
    if header["_mark"] != _MARK and not path.lower().endswith(".spe"):
        return False
    plain = int(header["type"]) in _TYPES and bool(header["columns"]) and bool(header["rows"])
    return plain or (header["xml"] >= HEADER.itemsize and _LIGHTFIELD <= header["version"] < 10)


def _frames(sources: Sources, path: str, size: int, lost: list[Absence]) -> _FrameShape:
    """Read what a file says of its frames; add what it lacks to `lost`.

    Raises:
        FormatError: it is garbled.
        TruncatedSourceError: it ends within the header.
    """
    header = np.frombuffer(read_at(sources, path, HEADER.itemsize), HEADER)[0]
    known = fields(header)
    if known["xml"]:
        if HEADER.itemsize <= known["xml"] < size:
            return _of_xml(path, parse_xml(_xml(sources, path, known["xml"], size), path), known)
        said = f"{path}: expected its XML at byte {known['xml']:,}, the file has {size:,} bytes; it looks truncated"
    elif known["version"] >= _LIGHTFIELD:
        said = f"{path}: expected the XML of version {known['version']:.1f}, found none; its writer did not finish"
    else:
        said = ""
    shape, kind, count = (known["rows"], known["columns"]), known["type"], known["frames"]
    if not all(shape) or kind not in _TYPES or count < 1:
        told = f"{count:,} of {shape[0]:,} × {shape[1]:,} pixels, type {kind}"
        raise FormatError(said or f"{path}: expected frames in its header, found {told}")
    if said:
        lost.append(Absence(said, TruncatedSourceError, "takes the frames as its header has them"))
    stored = np.dtype(_TYPES[kind])
    return _FrameShape(count, math.prod(shape) * stored.itemsize, (_Region(shape, stored, 0),), known)


def _xml(sources: Sources, path: str, at: int, size: int) -> bytes:
    if size - at > _MAX_XML:
        raise FormatError(f"{path}: expected an XML of at most {_MAX_XML:,} bytes at byte {at:,}, found {size - at:,}")
    return read_at(sources, path, size - at, at).strip(b" \r\n\t\0")


def _of_xml(path: str, root: Element, known: dict[str, Any]) -> _FrameShape:
    """Return what the XML says of frames.

    Raises:
        FormatError: it says nothing of them, or something that this reader does not know.
    """
    blocks = [one for one in root.iterfind("{*}DataFormat/{*}DataBlock") if one.get("type") == "Frame"]
    if len(blocks) != 1 or blocks[0].get("pixelFormat") not in _PIXELS:
        found = ", ".join(str(one.get("pixelFormat")) for one in blocks) or "none"
        raise FormatError(f"{path}: expected one block of frames in its XML ({' or '.join(_PIXELS)}), found {found}")
    stored, regions, at = np.dtype(_PIXELS[str(blocks[0].get("pixelFormat"))]), [], 0
    for one in blocks[0]:
        if one.get("type") != "Region":
            raise FormatError(f"{path}: expected regions in a frame, found a block {one.get('type')!r}")
        rows, columns, count = (_number(path, one, name) for name in ("height", "width", "count"))
        nbytes, stride = rows * columns * stored.itemsize, _number(path, one, "stride")
        if not nbytes or stride < nbytes:
            raise FormatError(
                f"{path}: expected a region of {rows:,} × {columns:,} pixels {stored.str}, the XML says {stride:,}"
            )
        regions += [_Region((rows, columns), stored, at + k * stride) for k in range(min(count, 1 << 16))]
        at += count * stride
    count, stride = _number(path, blocks[0], "count"), _number(path, blocks[0], "stride")
    if not regions or not 0 < count < _MAX_FRAMES or stride < regions[-1].start + nbytes:
        raise FormatError(
            f"{path}: expected frames with regions of {at:,} bytes, the XML says {count:,} of {stride:,} bytes"
        )
    return _FrameShape(count, stride, tuple(regions), known)


def _number(path: str, block: Element, name: str) -> int:
    text = block.get(name, "")
    if not (text.isascii() and text.isdigit() and len(text) < 13):
        raise FormatError(f"{path}: expected a number for {name} of a {block.get('type')}, the XML says {text[:20]!r}")
    return int(text)


def open(paths: Sequence[str], sources: Sources) -> list[StoredArray]:
    """Open .spe files.

    Raises:
        FormatError: a header is garbled, or files differ in size or type of frames.
        TruncatedSourceError: there is no whole frame.
    """
    files = Files.stat(sources, paths)
    lost: list[Absence] = []
    sets = [_frames(sources, path, size, lost) for path, size in zip(files.paths, files.sizes.tolist(), strict=True)]
    first = sets[0]
    for path, one in zip(files.paths, sets, strict=True):
        if one[1:3] != first[1:3]:
            raise FormatError(f"{path}: expected frames {_told(first)} as in {files.paths[0]}, found {_told(one)}")
    for path, one, size in zip(files.paths, sets, files.sizes.tolist(), strict=True):
        plausible(path, one.number, one.stride, size)
        end = one.header["xml"] or size
        held = Recorded(path, "frames", "it", *divmod(max(0, end - HEADER.itemsize), one.stride))
        if held.stored >= one.number:  # else its planes say what is not there
            lost += held.absences("a series", (one.number,))
    row = joined(sources, files.paths, np.array([one.number for one in sets], np.int64))
    return [*_arrays(files, sets, row.first, row.frames, (*lost, *row.absent))]


def _told(frames: _FrameShape) -> str:
    return ", ".join(f"{list(one.shape)} {one.stored.str}" for one in frames.regions[:4])


def _arrays(
    files: Files, sets: Sequence[_FrameShape], begin: np.ndarray, frames: int, absent: tuple[Absence, ...]
) -> Iterator[StoredArray]:
    """Yield an array for each region.

    Args:
        begin: int64[files], position of the first frame of each; frames: positions.
    """
    counts = np.array([one.number for one in sets], np.int64)
    file = np.repeat(np.arange(len(files)), counts)
    number = np.arange(counts.sum()) - np.repeat(counts.cumsum() - counts, counts)
    several = len(sets[0].regions) > 1
    told = Told(partial(_lightfield, files.sources, files.paths[0])) if sets[0].header["xml"] else None
    for k, region in enumerate(sets[0].regions):
        offset = HEADER.itemsize + number * sets[0].stride + region.start
        table = PlaneTable(file, offset, number + np.repeat(begin, counts), files.paths[0])
        attrs = {"header": sets[0].header}
        dims, path = ("frame", "y", "x"), f"region_{k}/data" if several else "data"
        made = table.array(path, files, (frames,), StoredPlane(region.shape, region.stored), dims, attrs)
        own = tuple(one for one in made.absent if one.refused is not None)  # blank files are told by `absent`
        yield altered(made, absent=absent + own, told=told)


def _root(sources: Sources, path: str) -> Element | None:
    """Return the XML of a file; None if it has none."""
    at, size = int(np.frombuffer(read_at(sources, path, HEADER.itemsize), HEADER)[0]["xml"]), sources.state(path).size
    return parse_xml(_xml(sources, path, at, size), path) if HEADER.itemsize <= at < size else None


def _lightfield(sources: Sources, path: str) -> dict[str, Any]:
    """Return the first elements of the XML that say who took the frames, and with what: their attributes, or text."""
    root = _root(sources, path)
    found: dict[str, Any] = {}
    for node in () if root is None else root.iter():
        name = node.tag.rpartition("}")[2]
        if name in ("Origin", "Camera", "Spectrometer", "ExposureTime") and name not in found:
            found[name] = dict(node.attrib) if name != "ExposureTime" else (node.text or "").strip()
    return {"lightfield": found} if found else {}


def original(paths: Sequence[str], sources: Sources) -> dict[str, Any]:
    """Return the header of the first of some files, and its XML.

    Raises:
        FormatError, SourceError: it is garbled or cannot be read.
    """
    header = fields(np.frombuffer(read_at(sources, paths[0], HEADER.itemsize), HEADER)[0])
    root = _root(sources, paths[0])
    return {"header": header, **({} if root is None else {root.tag.rpartition("}")[2]: xml_tree(root)})}


def _time(header: Any) -> str | None:
    """Return the day (02JAN2010) and the time of day (134502) of the header."""
    return (
        in_form("%d%b%Y %H%M%S", f"{header.get('date')} {header.get('time')}") if isinstance(header, Mapping) else None
    )


TERMS = (
    Term("authors", "lightfield:Origin:creator"),
    Term("time", "lightfield:Origin:created"),
    Term("time", "header", take=_time),
    Term("serial_number", "lightfield:Camera:serialNumber"),
    Term("software", "lightfield:Origin:software"),
    Term("exposure_time", "lightfield:ExposureTime", 1e-3, zero=False),
    Term("exposure_time", "header:exposure", zero=False),
    Term("detector", "lightfield:Camera:model"),
    Term("spectrometer", "lightfield:Spectrometer:model"),
)
"""What the header and the XML say, in the vocabulary of `vfs.model.metadata`."""


FORMAT = Format(
    "spe",
    (".spe",),
    "https://www.princetoninstruments.com",
    "Princeton Instruments: frames of WinView and WinSpec (2.x) and of LightField (3.0)",
    sniff,
    open,
    terms=TERMS,
    original=original,
)
