"""Reads `.lif` of Leica's LAS AF and LAS X: many images in one file, their planes anywhere in blocks of memory.

The facts come from the reader in liffile (https://github.com/cgohlke/liffile). All numbers are little endian::

    file: block of XML | block of memory | block of memory | …
    block of XML: 0x70 (uint32) | bytes that follow (uint32) | 0x2A | characters (uint32) | XML in UTF-16
    block of memory: 0x70 | bytes of this header that follow | 0x2A | bytes of the data | 0x2A | characters | its name
        in UTF-16 | data

`bytes of the data` is a uint64 if the file's version (`LMSDataContainerHeader Version`) is 2 or more. In the XML, an
`Image` names its block (`MemoryBlockID`) and says how many bytes it is from one element to the next along each
dimension and channel (`BytesInc`). Names of the axes are those of the dimensions' numbers, `DimID`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element

import numpy as np

from vfs.errors import FormatError, OptionError, TruncatedSourceError
from vfs.formats import Format
from vfs.formats.headers import parse_xml, read_at
from vfs.formats.planes import PlaneTable
from vfs.model.files import Files
from vfs.model.layout import altered
from vfs.model.sources import Sources
from vfs.model.stored import Absence, StoredArray

_BLOCK, _MARK = 0x70, 0x2A
_MOST_XML = 256 << 20  # bytes
_MOST_IMAGES = 1 << 16
_MOST_PLANES = 1 << 24
_MOST = 1 << 60  # bytes
_NAMES = {1: "x", 2: "y", 3: "z", 4: "t", 5: "lambda", 6: "rotation", 7: "x2", 8: "t2", 9: "excitation", 10: "m"}
_PLANE = (1, 2)  # axes that are shown even if they have one element
_OTHERS = "dim_{}"  # axes of other numbers
_DIMENSIONS = "ImageDescription/Dimensions/DimensionDescription"
_CHANNELS = "ImageDescription/Channels/ChannelDescription"


class _Axis(NamedTuple):
    name: str
    length: int
    step: int  # bytes
    calibration: dict[str, Any] | None = None


class _Memory(NamedTuple):
    at: int  # its first byte
    size: int


def sniff(path: str, head: bytes, sources: Sources) -> bool:
    if len(head) < 32 or head[:4] != b"\x70\0\0\0" or head[8:9] != b"\x2a":
        return False
    return head[13:].decode("utf-16-le", "ignore").lstrip("\ufeff").startswith("<LMSDataContainer")


def _document(sources: Sources, path: str) -> tuple[Element, int]:
    """Read the XML at the start. Returns: (its root, the byte behind it).

    Raises:
        FormatError: it is garbled.
        TruncatedSourceError: the file ends before it does.
    """
    first, size, mark, count = struct.unpack("<IIBI", read_at(sources, path, 13))
    if first != _BLOCK or mark != _MARK or size != 5 + 2 * count or size > _MOST_XML:
        raise FormatError(
            f"{path}: expected a block of XML at byte 0, found one of {size:,} bytes, {count:,} characters"
        )
    text = read_at(sources, path, 2 * count, 13)
    return parse_xml(text if text[:2] == b"\xff\xfe" else b"\xff\xfe" + text, path), 13 + 2 * count


def _memories(sources: Sources, path: str, at: int, wide: bool, size: int, lost: list[Absence]) -> dict[str, _Memory]:
    """Find the blocks of memory from a byte on. What is behind a header that is not whole is added to `lost`.

    Args:
        wide: True if sizes have eight bytes.

    Raises:
        FormatError: a header is garbled.
    """
    found: dict[str, _Memory] = {}
    form = struct.Struct("<IIBQBI" if wide else "<IIBIBI")
    while at < size:
        head = sources.read(path, at, form.size + 512)
        if len(head) < form.size:
            counts = {"bytes_left_over": size - at}
            said = f"{path}: expected a block of memory at byte {at:,}, the file ends within its header"
            lost.append(Absence(said, TruncatedSourceError, "shows the blocks before it", counts))
            break
        first, _, mark, nbytes, other, count = form.unpack_from(head)
        if first != _BLOCK or (mark, other) != (_MARK, _MARK) or count > 1 << 16 or nbytes > _MOST:
            raise FormatError(f"{path}: expected a block of memory at byte {at:,}, found {head[:8]!r}")
        name = read_at(sources, path, 2 * count, at + form.size, short_ok=True).decode("utf-16-le", "replace")
        at += form.size + 2 * count
        found.setdefault(name.rstrip("\0"), _Memory(at, nbytes))
        at += nbytes
    return found


def _images(node: Element) -> Iterator[tuple[str, Element, Element]]:
    """Yield (its name with those of folders above it, `Image`, `Memory`) of all images, in their order."""
    stack: list[tuple[Element, tuple[str, ...]]] = [(node, ())]
    while stack:
        here, names = stack.pop()
        own = (*names, here.get("Name", "")) if here.tag == "Element" else names
        image, memory = here.find("Data/Image"), here.find("Memory")
        if here.tag == "Element" and image is not None and memory is not None:
            yield "/".join(own[1:] or own), image, memory
        below = [*here.findall("Element"), *here.findall("Children/Element")]
        stack += [(one, own) for one in reversed(below)]


def _number(node: Element, name: str, kind: type[int] | type[float] = int) -> Any:
    """Return a number of an element; 0 if there is none."""
    try:
        found = kind(node.get(name, "0") or "0")
    except ValueError:
        return 0
    return found if math.isfinite(found) else 0


def _axes(path: str, name: str, image: Element) -> list[_Axis]:
    """Return the axes of dimensions, the one with the longest step first; of one element only x and y.

    Raises:
        FormatError: they are absurd.
    """
    found = []
    for node in image.findall(_DIMENSIONS):
        number, count, step = (_number(node, key) for key in ("DimID", "NumberOfElements", "BytesInc"))
        if not 1 <= count < 1 << 32 or not 0 <= step < _MOST:
            raise FormatError(
                f"{path}: {name}: expected dimensions of 1 or more elements, found {count:,} × {step:,} bytes"
            )
        if count == 1 and number not in _PLANE:
            continue
        length, unit = _number(node, "Length", float), node.get("Unit", "")
        known = None
        if count > 1 and length and unit:
            known = {"scale": length / (count - 1), "offset": _number(node, "Origin", float), "unit": unit}
        found.append(_Axis(_NAMES.get(number, _OTHERS.format(number)), count, step, known))
    return sorted(found, key=lambda axis: -axis.step)


def _channels(path: str, name: str, image: Element) -> tuple[np.dtype, list[int]]:
    """Return dtype of elements, and the first byte of each channel from that of the image on.

    Raises:
        FormatError: channels have several types, or one that nobody knows.
    """
    nodes = image.findall(_CHANNELS)
    types = {(_number(node, "DataType"), -(-_number(node, "Resolution") // 8)) for node in nodes}
    stored = {(0, 1): "u1", (0, 2): "<u2", (0, 4): "<u4", (1, 2): "<f2", (1, 4): "<f4", (1, 8): "<f8"}
    kind = next(iter(types)) if len(types) == 1 else (9, 9)
    steps = [_number(node, "BytesInc") for node in nodes]
    if kind not in stored or not all(0 <= step < _MOST for step in steps):
        told = ", ".join(f"type {a}, {b} bytes" for a, b in sorted(types)) or "no channel"
        raise FormatError(f"{path}: {name}: expected channels of one type, integers or floats; found {told}")
    return np.dtype(stored[kind]), steps


def _colours(axes: list[_Axis], channels: list[int], element: int) -> bool:
    """Return True if channels are the colours of a pixel, one behind the other."""
    across = next((axis.step for axis in axes if axis.name == "x"), 0)
    return (
        len(channels) > 1
        and channels == [k * element for k in range(len(channels))]
        and across == len(channels) * element
    )


def _array(files: Files, place: str, name: str, image: Element, memory: _Memory) -> StoredArray:
    """Make the array of an image.

    Raises:
        FormatError: its dimensions are absurd.
        MissingSourceError, TruncatedSourceError: no plane is there.
    """
    path = files.paths[0]
    stored, channels = _channels(path, name, image)
    axes, element = _axes(path, name, image), stored.itemsize
    inner, outer, first = axes[-2:], axes[:-2], np.zeros(1, np.int64)
    together = _colours(axes, channels, element)
    sig = (*(axis.length for axis in inner), *((len(channels),) if together else ()))
    steps = (*(axis.step // element for axis in inner), *((1,) if together else ()))
    if len(channels) > 1 and not together:
        outer, first = _with_channels(outer, channels)
    nav = tuple(axis.length for axis in outer)
    reach = (sum((n - 1) * step for n, step in zip(sig, steps, strict=True)) + 1) * element
    if math.prod(nav) > _MOST_PLANES or reach > memory.size or any(axis.step % element for axis in inner):
        raise FormatError(f"{path}: {name}: expected planes of whole elements within its memory, found {nav} of {sig}")
    offsets = np.zeros(1, np.int64)
    for axis in outer:
        if axis.length * axis.step > _MOST:
            raise FormatError(
                f"{path}: {name}: expected an axis in its memory, found {axis.length:,} × {axis.step:,} bytes"
            )
        places = first if axis.name == "c" and len(first) > 1 else np.arange(axis.length) * axis.step
        offsets = (offsets[:, None] + places).reshape(-1)
    if int(offsets.max()) + reach > memory.size:
        raise FormatError(
            f"{path}: {name}: expected planes within its memory of {memory.size:,} bytes, they reach to byte"
            f" {int(offsets.max()) + reach:,}"
        )
    dims = _unique([axis.name for axis in (*outer, *inner)] + ["s"] * together)
    table = PlaneTable(np.zeros(len(offsets), np.int64), offsets + memory.at, np.arange(len(offsets)), path)
    calibration = {axis.name: axis.calibration for axis in axes if axis.calibration}
    attrs = {"name": name, "channels": _luts(image), "calibration": calibration}
    return table.array(place, files, nav, sig, dims, stored, attrs, None, steps)


def _with_channels(outer: list[_Axis], channels: list[int]) -> tuple[list[_Axis], np.ndarray]:
    """Put the axis of channels where it belongs by its step. Returns: (the axes, first byte of each channel)."""
    step = min(abs(b - a) for a, b in pairwise(sorted(channels)))
    made = sorted([*outer, _Axis("c", len(channels), step)], key=lambda axis: -axis.step)
    return made, np.array(channels, np.int64)


def _unique(names: list[str]) -> tuple[str, ...]:
    return tuple(f"{name}_{names[:k].count(name)}" if name in names[:k] else name for k, name in enumerate(names))


def _luts(image: Element) -> list[str]:
    """Return the names of the channels' colours."""
    return [node.get("LUTName", "") for node in image.findall(_CHANNELS)]


def open(paths: Sequence[str], sources: Sources) -> list[StoredArray]:
    """Open a .lif file: all its images.

    Raises:
        FormatError: it is garbled, or has no images.
        OptionError: several files are named.
        TruncatedSourceError: no image is there.
    """
    if len(paths) > 1:
        raise OptionError(f"{paths[1]}: a .lif file is a set of its own; open one at a time")
    path, files = paths[0], Files.stat(sources, paths)
    root, behind = _document(sources, path)
    lost: list[Absence] = []
    wide = _number(root, "Version") >= 2
    memories = _memories(sources, path, behind, wide, int(files.sizes[0]), lost)
    found: list[tuple[str, Element, _Memory]] = []
    listed = [(name, image, memory) for name, image, memory in _images(root) if _number(memory, "Size")]
    for name, image, memory in listed:
        if len(listed) > _MOST_IMAGES:
            raise FormatError(f"{path}: expected at most {_MOST_IMAGES:,} images")
        block = memories.get(memory.get("MemoryBlockID", ""))
        if block is None:
            label = memory.get("MemoryBlockID", "")[:40]
            said = f"{path}: {name}: its memory {label!r} is not in the file; it looks truncated"
            lost.append(Absence(said, TruncatedSourceError, "shows the others", {"frames_missing": 1}))
        elif block.size:
            found.append((name, image, block))
    made: list[StoredArray] = []
    for k, (name, image, block) in enumerate(found):
        try:
            made.append(_array(files, f"image_{k}/data" if len(listed) > 1 else "data", name, image, block))
        except TruncatedSourceError as error:
            lost.append(Absence(str(error), TruncatedSourceError, "shows the others", {"frames_missing": 1}))
    if not made:
        raise (
            (lost[0].refused or FormatError)(lost[0].said)
            if lost
            else FormatError(f"{path}: expected images, found none")
        )
    return [altered(one, absent=(*lost, *one.absent), main=one is made[0] or None) for one in made]


FORMAT = Format(
    "lif",
    (".lif",),
    "https://github.com/cgohlke/liffile",
    "LIF of Leica's LAS AF and LAS X: all images of a file",
    sniff,
    open,
)
