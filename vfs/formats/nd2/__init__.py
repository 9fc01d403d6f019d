"""Reads `.nd2` of Nikon's NIS-Elements, version 2 and 3: frames in chunks, with a map of them at the end.

The facts come from the reader in nd2 (https://github.com/tlambert03/nd2). All numbers are little endian::

    chunk: 0x0ABECEDA (uint32) | bytes of the name (uint32) | bytes of the data (uint64) | name, up to "!" | data
    data of ImageDataSeq|N!: milliseconds (float64) | frame N, or a frame compressed with zlib
    map: name!, byte of the chunk (uint64), bytes of its data (uint64), …
    end of the file: "ND2 CHUNK MAP SIGNATURE 0000001!" | byte of the map (uint64)

A frame is rows of pixels; a pixel holds all channels, and all colours of a channel, blue first: they are shown as
red, green, blue. `ImageAttributes` says size and type, `ImageMetadata` the loops of the acquisition,
`ImageMetadataSeq|0` channels and the size of a pixel. Where some channels have colours and others have none, each
colour is a channel, in the order of the file. A file without a map (the acquisition was stopped, or the file was cut)
is read chunk by chunk. Version 1, which is a JPEG 2000, is not read.
"""

from __future__ import annotations

import math
import re
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from vfs.errors import DecodeError, FormatError, TruncatedSourceError
from vfs.formats import Format
from vfs.formats.headers import read_at
from vfs.formats.nd2.loops import Loop, loops_of
from vfs.formats.nd2.per_frame import STAGE, positions, time_stamps
from vfs.formats.nd2.said import TERMS, attrs_of, channels_of, planes_of
from vfs.formats.nd2.variants import Tree, inside, read_tree
from vfs.formats.planes import PlaneTable, StoredPlane
from vfs.model.colours import AXIS, red_first
from vfs.model.decode import MadeBlocks
from vfs.model.files import Files
from vfs.model.layout import altered
from vfs.model.metadata import Told
from vfs.model.sources import Sources
from vfs.model.stored import Absence, StoredArray

_CHUNK = struct.Struct("<IIQ")
_MAGIC = 0x0ABECEDA
_START = b"\xda\xce\xbe\x0a"
_JPEG_2000 = b"\0\0\0\x0cjP  "
_END = b"ND2 CHUNK MAP SIGNATURE 0000001!"
_MAP = b"ND2 FILEMAP SIGNATURE NAME 0001!"
_FRAME = re.compile(rb"ImageDataSeq\|(\d{1,12})!")
_TIME = 8  # bytes of the time before a frame
_LONGEST_NAME = 1 << 16
_MAX_MAP = 1 << 30  # bytes
_MAX_CHUNK = 64 << 20  # bytes of metadata
_MAX_SHOWN = 4 << 20  # bytes of a chunk that `original` shows
_MAX_SIDE = 1 << 24
_REAL = 2
_KINDS = {0: "i", 1: "u", _REAL: "f"}
"""`ePixelType`: integers with a sign, integers without, real numbers."""
_UNSAID = {8: "u1", 16: "<u2", 32: "<f4"}
"""Bits -> dtype in files that do not say `ePixelType`."""
_ORDERS = {3: "BGR", 4: "BGRA"}
"""Number of colours of a pixel -> their order."""


class _Chunk(NamedTuple):
    at: int  # its first byte
    size: int  # bytes of its data


class _FrameForm(NamedTuple):
    """What frames have in common: pixels, bytes of a row, channels, colours of each, dtype, True if compressed."""

    height: int
    width: int
    row: int
    channels: int
    colours: int
    stored: np.dtype
    packed: bool

    @property
    def order(self) -> str:
        """Order of the colours of a pixel in the file; "" if it has none."""
        return _ORDERS.get(self.colours, "")


@dataclass(frozen=True)
class FrameDecoder(MadeBlocks):
    """Decodes frames that are compressed with zlib.

    Attributes:
        stored: dtype of elements.
        shape: rows, pixels of a row, channels, colours of each.
        row: bytes of a row.
        order: order of the colours of a pixel in the file; "" if it has none.
    """

    stored: np.dtype
    shape: tuple[int, int, int, int]
    row: int
    order: str

    @property
    def dtype(self) -> np.dtype:
        return self.stored.newbyteorder("=")

    def decode_block(self, data: np.ndarray, block: int, shape: tuple[int, ...]) -> np.ndarray:
        height, width, channels, colours = self.shape
        size = height * self.row
        inflate = zlib.decompressobj()
        try:
            got = inflate.decompress(data.data, size + 1)
        except zlib.error as error:
            raise DecodeError(f"frame {block}: does not decode (zlib): {str(error)[:120]}") from None
        if len(got) != size:
            found = f"{len(got):,}" if len(got) < size else "more"
            raise DecodeError(f"frame {block}: expected {size:,} bytes after decoding, found {found}")
        used = width * channels * colours * self.stored.itemsize
        rows = np.frombuffer(got, np.uint8).reshape(height, self.row)[:, :used]
        pixels = np.ascontiguousarray(rows).view(self.stored).reshape(self.shape).transpose(2, 0, 1, 3)
        if self.order:
            pixels = pixels[..., red_first(self.order)]
        return np.ascontiguousarray(pixels, self.dtype).reshape(shape)


def sniff(path: str, first_bytes: bytes, sources: Sources) -> bool:
    if path.lower().endswith(".nd2") and first_bytes.startswith(_JPEG_2000):
        return True  # opening says what to do with it
    return first_bytes.startswith(_START) and first_bytes[16:48] == b"ND2 FILE SIGNATURE CHUNK NAME01!"


def _mapped(sources: Sources, path: str, size: int) -> dict[bytes, _Chunk] | None:
    """Read the map of chunks; None if the file has none.

    Raises:
        FormatError: it is garbled.
    """
    end = sources.read(path, max(0, size - 40), 40)
    if len(end) < 40 or end[:32] != _END:
        return None
    at = int.from_bytes(end[32:], "little")
    head = sources.read(path, at, _CHUNK.size) if at < size else b""
    if len(head) < _CHUNK.size:
        raise FormatError(f"{path}: expected the map of chunks at byte {at:,}, the file has {size:,} bytes")
    magic, name, nbytes = _CHUNK.unpack(head)
    if magic != _MAGIC or name > _LONGEST_NAME or nbytes > min(_MAX_MAP, size):
        raise FormatError(f"{path}: expected the map of chunks at byte {at:,}, found {head[:8]!r}")
    data = read_at(sources, path, name + nbytes, at + _CHUNK.size)
    if not data.startswith(_MAP):
        raise FormatError(f"{path}: expected the map of chunks at byte {at:,}, found {data[:16]!r}")
    found: dict[bytes, _Chunk] = {}
    begin = name
    while True:
        end_of_name = data.find(b"!", begin) + 1
        if not end_of_name or end_of_name + 16 > len(data):
            return found
        found[data[begin:end_of_name]] = _Chunk(*struct.unpack_from("<QQ", data, end_of_name))
        begin = end_of_name + 16


def _walked(sources: Sources, path: str, size: int) -> dict[bytes, _Chunk]:
    """Find the chunks of a file without a map, one after the other, up to the one that is not whole."""
    found: dict[bytes, _Chunk] = {}
    at = 0
    while at + _CHUNK.size <= size:
        head = sources.read(path, at, 256)
        magic, name, nbytes = _CHUNK.unpack_from(head)
        if magic != _MAGIC or name > _LONGEST_NAME:
            later = sources.read(path, at, 1 << 16).find(_START)  # chunks begin at multiples of 4,096 bytes
            if later <= 0:
                break
            at += later
            continue
        if at + _CHUNK.size + name + nbytes > size:
            break
        found[head[_CHUNK.size :].partition(b"!")[0] + b"!"] = _Chunk(at, nbytes)
        at += _CHUNK.size + name + nbytes
    return found


class _Metadata:
    """Reads metadata of a file by the names of their chunks, which end in LV in version 3."""

    def __init__(self, sources: Sources, path: str, chunks: dict[bytes, _Chunk]) -> None:
        self.sources, self.path, self.chunks = sources, path, chunks

    def tree(self, name: str, level: str, part: str = "") -> Tree:
        """Return the tree of a chunk; {} if there is none.

        Raises:
            FormatError: it is garbled.
        """
        for key in (f"{name}LV{part}!", f"{name}{part}!"):
            chunk = self.chunks.get(key.encode())
            if chunk is not None:
                behind = _data(self.sources, self.path, chunk, key.encode())
                if chunk.size > _MAX_CHUNK:
                    raise FormatError(f"{self.path}: expected {key} of at most {_MAX_CHUNK:,} bytes")
                return inside(read_tree(read_at(self.sources, self.path, chunk.size, behind), self.path), level)
        return {}

    def spare(self, name: str, level: str) -> Tree:
        """Return the tree of a chunk that nothing depends on; {} if there is none, or it is garbled."""
        try:
            return self.tree(name, level)
        except (FormatError, TruncatedSourceError):
            return {}


def _data(sources: Sources, path: str, chunk: _Chunk, name: bytes) -> int:
    """Return the byte at which the data of a chunk begin.

    Raises:
        FormatError: another chunk is there.
    """
    head = read_at(sources, path, _CHUNK.size + len(name), chunk.at)
    magic, length, nbytes = _CHUNK.unpack_from(head)
    if (
        magic != _MAGIC
        or not len(name) <= length <= _LONGEST_NAME
        or head[_CHUNK.size :] != name
        or nbytes != chunk.size
    ):
        raise FormatError(
            f"{path}: expected the chunk {name.decode('latin-1')} of {chunk.size:,} bytes at byte {chunk.at:,}, found"
            f" {head[:24]!r}"
        )
    return int(chunk.at + _CHUNK.size + length)


def _colours(metadata: Tree, parts: int) -> list[int]:
    """Return the number of colours of each channel, 1 if it has none.

    Args:
        parts: numbers that a pixel has.
    """
    said = [one.get("uiCompCount") for one in planes_of(metadata)]
    counts = [n for n in said if isinstance(n, int) and n > 0]
    if len(counts) == len(said) and sum(counts) == parts:
        return counts
    planes = metadata.get("sPicturePlanes")
    channels = planes.get("uiCount", 1) if isinstance(planes, dict) else 1
    channels = channels if isinstance(channels, int) and channels > 0 and not parts % channels else 1
    return [parts // channels] * channels


def _stored(attributes: Tree) -> np.dtype | None:
    """Return the dtype of numbers in the file; None if nobody knows it."""
    kind, bits = attributes.get("ePixelType"), attributes.get("uiBpcInMemory")
    if kind is None:
        return np.dtype(_UNSAID[bits]) if bits in _UNSAID else None
    if kind not in _KINDS or bits not in (8, 16, 32, 64) or (kind == _REAL and bits == 8):
        return None
    return np.dtype(f"<{_KINDS[kind]}{bits // 8}")


def _frame(path: str, attributes: Tree, metadata: Tree) -> _FrameForm:
    """Return what frames have in common.

    Raises:
        FormatError: the attributes do not say it, or frames are stored in another way.
    """
    names = ("uiHeight", "uiWidth", "uiWidthBytes", "uiComp", "uiBpcInMemory", "ePixelType")
    numbers = [attributes.get(name) for name in names]
    height, width, row, parts = [n if isinstance(n, int) else 0 for n in numbers[:4]]
    stored = _stored(attributes)
    element = stored.itemsize if stored is not None else 1
    row = row or width * parts * element
    sides = all(0 < n < _MAX_SIDE for n in (height, width, parts))
    if stored is None or not sides or row < width * parts * element or row % element or row >= 1 << 40:
        told = ", ".join(f"{name} {str(n)[:20]}" for name, n in zip(names, numbers, strict=True))
        raise FormatError(f"{path}: expected the size and the type of frames in ImageAttributes, found {told}")
    if attributes.get("eCompression", 2) == 1:
        raise FormatError(f"{path}: expected frames of all their bytes, found a lossy compression (JPEG 2000)")
    counts = _colours(metadata, parts)
    channels, each = (len(counts), counts[0]) if len(set(counts)) == 1 else (parts, 1)
    return _FrameForm(height, width, row, channels, each, stored, attributes.get("eCompression", 2) == 0)


def _calibration(metadata: Tree, loops: Sequence[Loop]) -> dict[str, Any]:
    found: dict[str, Any] = {
        loop.name: {"scale": loop.step[0], "offset": 0.0, "unit": loop.step[1]} for loop in loops if loop.step
    }
    size = metadata.get("dCalibration")
    if isinstance(size, float) and size > 0 and metadata.get("bCalibrated", True):
        found |= {dim: {"scale": size, "offset": 0.0, "unit": "um"} for dim in "yx"}
    return found


def open(paths: Sequence[str], sources: Sources) -> list[StoredArray]:
    """Open an .nd2 file.

    Raises:
        FormatError: it is garbled, or of version 1.
        TruncatedSourceError: no frame is there.
    """
    path, files = paths[0], Files.stat(sources, paths)
    size = int(files.sizes[0])
    head = read_at(sources, path, _CHUNK.size + 96)
    if head.startswith(_JPEG_2000):
        raise FormatError(
            f"{path}: expected ND2 of version 2 or 3, found version 1 (JPEG 2000, to 2008); NIS-Elements saves it again"
        )
    if not head.startswith(_START):
        raise FormatError(f"{path}: expected an .nd2 file, it begins with {head[:8]!r}")
    chunks, lost = _mapped(sources, path, size), list[Absence]()
    if chunks is None:
        said = f"{path}: expected a map of chunks at the end, found none; the file was cut, or never ended"
        lost.append(Absence(said, TruncatedSourceError, "shows the frames that are there"))
        chunks = _walked(sources, path, size)
    known = _Metadata(sources, path, chunks)
    metadata = known.tree("ImageMetadataSeq", "SLxPictureMetadata", "|0")
    attributes = known.tree("ImageAttributes", "SLxImageAttributes")
    if lost and not attributes:
        raise TruncatedSourceError(f"{lost[0].said}; without ImageAttributes nobody knows the size of frames")
    frame = _frame(path, attributes, metadata)
    loops = loops_of(known.tree("ImageMetadata", "SLxExperiment"))
    places = {int(name[1]): chunk for key, chunk in chunks.items() if (name := _FRAME.fullmatch(key))}
    if not places:
        raise (TruncatedSourceError if lost else FormatError)(f"{path}: expected frames, found none")
    declared = attributes.get("uiSequenceCount")
    if isinstance(declared, int) and 0 < declared <= max(places):
        said = f"{path}: its attributes say {declared:,} frames, the file holds {len(places):,}: all are shown"
        lost.append(Absence(said))
    array, stamps = _array(files, frame, loops, places, attributes, metadata)
    told = Told(partial(_told, known, metadata, frame, [loop.name for loop in loops]))
    made = [altered(array, absent=(*lost, *array.absent), told=told)]
    return made + _companions(array, chunks, stamps) if array.nav_ndim else made


def _companions(
    main: StoredArray, chunks: dict[bytes, _Chunk], stamps: tuple[np.ndarray, np.ndarray]
) -> list[StoredArray]:
    """Make companions of what is said of each frame.

    Args:
        stamps: int64[n], byte of the time of each frame; int64[n], its number.
    """
    nbytes = 8 * math.prod(main.shape[: main.nav_ndim])
    found = {name: next((one for one in names if one in chunks), b"") for name, names in STAGE.items()}
    there = {name: chunks[key] for name, key in found.items() if key and chunks[key].size == nbytes}
    made = [time_stamps(main, *stamps)]
    if there:
        name, chunk = next(iter(there.items()))
        try:  # the headers of these chunks are alike: one is looked at
            before = _data(main.files.sources, main.files.paths[0], chunk, found[name]) - chunk.at
        except (FormatError, TruncatedSourceError):
            return made
        size = int(main.files.sizes[0])
        places = {one: chunk.at + before for one, chunk in there.items() if chunk.at + before + nbytes <= size}
        made += positions(main, places)
    return made


def _told(known: _Metadata, metadata: Tree, frame: _FrameForm, loops: Sequence[str]) -> dict[str, Any]:
    """Return what the metadata say of the acquisition."""
    counts = _colours(metadata, frame.channels * frame.colours)
    texts, program = known.spare("ImageTextInfo", "SLxImageTextInfo"), known.spare("CustomDataVar|AppInfo_V1_0", "")
    return attrs_of(metadata, texts, program, loops) | {"channels": channels_of(metadata, counts, frame.colours)}


def _array(
    files: Files,
    frame: _FrameForm,
    loops: list[Loop],
    places: dict[int, _Chunk],
    attrs: dict[str, Any],
    metadata: Tree,
) -> tuple[StoredArray, tuple[np.ndarray, np.ndarray]]:
    """Make the array of all frames.

    Args:
        places: chunk of each frame by its number.

    Returns: (the array, (int64[n], byte of the time of each frame; int64[n], its number)).

    Raises:
        FormatError: chunks are not where the map says.
        TruncatedSourceError: no frame is whole.
    """
    path, last = files.paths[0], max(places)
    if last >= math.prod(loop.turns for loop in loops):
        if last >= 1000 * len(places):
            raise FormatError(f"{path}: expected about as many frames as their numbers say, found frame {last:,}")
        loops = [Loop("frame", last + 1)]
    numbers = sorted(places)
    # The headers of all chunks of frames are alike: two are looked at
    before = {_data(files.sources, path, places[n], b"ImageDataSeq|%d!" % n) - places[n].at for n in (numbers[0], last)}
    if len(before) > 1:
        raise FormatError(f"{path}: expected names of one length in the chunks of frames, found {sorted(before)} bytes")
    skip = before.pop() + _TIME
    offsets = np.array([places[n].at + skip for n in numbers], np.int64)
    sizes = np.array([places[n].size - _TIME for n in numbers], np.int64)
    least = 1 if frame.packed else frame.height * frame.row
    if (sizes < least).any() or (offsets < 0).any() or (sizes > 1 << 60).any():
        raise FormatError(f"{path}: expected chunks of {least:,} bytes for each frame, found {int(sizes.min()):,}")
    nav = tuple(loop.turns for loop in loops)
    shape = (frame.channels, frame.height, frame.width, frame.colours)
    element = frame.stored.itemsize
    pixel = frame.channels * frame.colours
    strides = (frame.colours, frame.row // element, pixel, 1)
    shown = [k for k in range(4) if k in (1, 2) or shape[k] > 1]
    sig, steps = tuple(shape[k] for k in shown), tuple(strides[k] for k in shown)
    dims = (*(loop.name for loop in loops), *(("c", "y", "x", AXIS)[k] for k in shown))
    table = PlaneTable(
        np.zeros(len(numbers), np.int64), offsets, np.array(numbers), path, sizes if frame.packed else None
    )
    decoder = FrameDecoder(frame.stored, (*shape[1:3], frame.channels, frame.colours), frame.row, frame.order)
    if frame.packed:
        plane = StoredPlane(sig, frame.stored, decoder=decoder)
    else:
        plane = StoredPlane(sig, frame.stored, strides=steps, order=frame.order)
    called = {loop.name: [*loop.names] for loop in loops if loop.names}
    said = {**attrs, "calibration": _calibration(metadata, loops), **({"axes": called} if called else {})}
    made = table.array("data", files, nav, plane, dims, said)
    return made, (offsets - _TIME, table.position)


def original(paths: Sequence[str], sources: Sources) -> dict[str, Any]:
    """Return what the chunks of metadata say, by their names; those of frames, of the first one.

    Raises:
        FormatError, SourceError: the file is garbled or cannot be read.
    """
    path = paths[0]
    size = sources.state(path).size
    made: dict[str, Any] = {}
    left: list[str] = []
    later = 0
    for key, chunk in (_mapped(sources, path, size) or _walked(sources, path, size)).items():
        name = key.decode("latin-1").removesuffix("!")
        number = name.rpartition("|")[2]
        if _FRAME.fullmatch(key) or name.startswith("ND2 "):
            continue
        if number.isdecimal() and int(number):
            later += 1
        elif name.startswith("CustomData|") or chunk.size > _MAX_SHOWN:  # arrays with a number for each frame
            left.append(f"{name}: {chunk.size:,} bytes")
        else:
            try:
                data = read_at(sources, path, chunk.size, _data(sources, path, chunk, key))
                made[name] = read_tree(data, path)
            except FormatError:
                left.append(f"{name}: {chunk.size:,} bytes")
    left += [f"metadata of frames after the first one: {later:,}"] if later else []
    return made | ({"left_out": left} if left else {})


FORMAT = Format(
    "nd2",
    (".nd2",),
    "https://github.com/tlambert03/nd2",
    "ND2 of Nikon's NIS-Elements, version 2 and 3: frames of all channels, also compressed",
    sniff,
    open,
    single=True,
    terms=TERMS,
    original=original,
)
