"""Reads the frame headers of MIB files: kind and numbers of frames, and the parts of a frame."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from vfs.errors import FormatError, OptionError
from vfs.formats.mib.decoders import RawDecoder
from vfs.model.decode import PlainDecoder
from vfs.model.file_state import UNKNOWN
from vfs.model.files import Files
from vfs.model.layout import whole_frame
from vfs.model.sources import Sources
from vfs.model.wording import format_option

_HEAD = 1024  # bytes that are read of every file, enough for the headers of one and of four chips
_STAMP = 40  # bytes
_MAX_HEADER = 1 << 20  # most bytes of a header
_MAX_SIDE = 1 << 20  # most pixels along an axis
_MAX_BLANK = 1_000_000  # most frames that may be missing between files: sequence numbers have six digits
_START = re.compile(rb"MQ1,([0-9]{1,18}),((?:[^,\0]*,){5}[^,\0]*),")  # sequence number, fields 2 to 7
_PLAIN = {"U08": ">u1", "U16": ">u2", "U32": ">u4"}


class Geometry(NamedTuple):
    """Holds the fields that all headers of a set have in common."""

    header: int
    """bytes"""
    chips: int
    x: int
    y: int
    kind: str
    layout: str
    depth: int
    """counter depth of R64 in bits; 0 for the other kinds"""

    def __str__(self) -> str:
        depth = f" of {self.depth} bits" if self.depth else ""
        return f"{self.x} × {self.y} pixels {self.kind}{depth}, chips {self.layout}, headers of {self.header} bytes"


class MibFiles(NamedTuple):
    """Holds the files of a set, in the order of their first frames."""

    files: Files
    sequences: np.ndarray
    """int64[n] number of each file's first frame"""
    head: bytes
    """first bytes of the first file"""
    stamps: tuple[bytes, ...]
    """what stands behind the sensor layout in the first header of each file: chip select and time"""


class _Words(NamedTuple):
    """Holds words that all headers of a set have in common, so that equal headers need not be parsed."""

    start: int = 0
    """end of the sequence number"""
    stop: int = 0
    words: bytes = b"-"
    """bytes from `start` to `stop`; the default fits no header"""
    last: int = 0
    """place of the comma before the last field"""
    end: int = 0
    """end of the header"""
    tail: bytes = b""
    """bytes from that comma to the end, if the last field matters (R64)"""


def read_heads(sources: Sources, paths: Sequence[str], hdr: Mapping[str, str]) -> tuple[Geometry, MibFiles, list[str]]:
    """Read the first header of every file (one open, stat and read each).

    Returns: (the geometry that they share, the files in their order, those that are empty and left out).

    Raises:
        FormatError: a header is garbled, files do not belong together, or all are empty.
    """
    if not paths:
        raise OptionError("expected .mib files beside the .hdr file, found none; name them too, or the .hdr file alone")
    sequences, states, stamps = np.empty(len(paths), np.int64), [UNKNOWN] * len(paths), [b""] * len(paths)
    known: dict[tuple[bytes, bytes], Geometry] = {}
    empty: list[int] = []
    least, lowest = (1 << 62, ""), b""
    at, stop, words, last, end, tail = _Words()
    sources.expect(paths)
    for k, path in enumerate(paths):
        head = sources.read(path, 0, _HEAD)
        if not head:
            empty.append(k)
            continue
        digits = head[4:at]
        if (
            head[at:stop] != words
            or head[last:end] != tail
            or not digits.isdigit()
            or head[:4] != b"MQ1,"
            or (last and b"\0" in head[:last])
        ):
            digits, key, (at, stop, words, last, end, tail) = parsed(partial(sources.read, path, 0), head, path)
            if key not in known:
                known[key] = geometry_of(path, *key, hdr)
                first = next(iter(known.values()))
                if known[key] != first:
                    raise FormatError(
                        f"{path}: holds {known[key]}; {paths[0]} holds {first}; name the files that belong together, or"
                        f" one with {format_option(series=False)}"
                    )
        sequence = int(digits)
        sequences[k], states[k], stamps[k] = sequence, sources.state(path), head[stop : stop + _STAMP]
        if sequence <= least[0] and (sequence, path) < least:
            least, lowest = (sequence, path), head
    if not known:
        raise FormatError(f"{paths[0]}: expected frames, found an empty file")
    sequences[empty] = 1 << 62  # behind all others
    order = np.argsort(sequences, kind="stable")[: len(paths) - len(empty)]
    if (np.diff(sequences[order]) == 0).any():
        order = np.array(sorted(order.tolist(), key=lambda k: (sequences.item(k), paths[k])))
    chosen = order.tolist()
    files = Files.of(list(map(paths.__getitem__, chosen)), list(map(states.__getitem__, chosen)), sources)
    made = MibFiles(files, sequences[order], lowest, tuple(map(stamps.__getitem__, chosen)))
    return next(iter(known.values())), made, [paths[k] for k in empty]


def parsed(read: Callable[[int], bytes], first_bytes: bytes, path: str) -> tuple[bytes, tuple[bytes, bytes], _Words]:
    """Parse a header.

    Args:
        read: reads so many bytes of the file, from its beginning; first_bytes: those that are known.

    Returns: (sequence number, (fields 2 to 7, the last field for R64), words that equal headers have
        in common with this one).
    """
    start = _START.match(first_bytes)
    if start is None:
        raise FormatError(
            f"{path}: expected a frame header, comma separated, that begins with MQ1 and a sequence number, found"
            f" {first_bytes[:16]!r}"
        )
    common = _Words(start.end(1), start.end(), first_bytes[start.end(1) : start.end()])
    if b"R64" not in start[2].upper():
        return start[1], (start[2], b""), common
    # The last field is the counter depth, except in headers of older software; field 2 is the header's size
    size = start[2].partition(b",")[0]
    most = min(int(size), _MAX_HEADER) if size.isdigit() else 0
    text = read(most) if most > len(first_bytes) else first_bytes
    before, _, depth = text[:most].partition(b"\0")[0].rstrip(b", \r\n").rpartition(b",")
    common = (
        common._replace(last=len(before), end=most, tail=text[len(before) : most])
        if before and most <= len(first_bytes)
        else _Words()
    )
    return start[1], (start[2], depth), common


def geometry_of(path: str, words: bytes, last: bytes, hdr: Mapping[str, str]) -> Geometry:
    """Parse the geometry from fields 2 to 7 of a header and its last one."""
    fields = [f.strip() for f in words.split(b",")]
    header, chips, x, y = (int(f) if f.isdigit() else -1 for f in fields[:4])
    kind = fields[4].decode("latin-1").upper()
    layout = fields[5].decode("latin-1").upper().removesuffix("G").lower()
    if kind != "R64" and kind not in _PLAIN:
        raise FormatError(
            f"{path}: expected pixels of type U08, U16, U32 or R64 in the frame header, found {kind[:8]!r}"
        )
    if not (chips > 0 and 0 < x <= _MAX_SIDE and 0 < y <= _MAX_SIDE):
        raise FormatError(
            f"{path}: expected chips and 1 to {_MAX_SIDE:,} pixels in x and y in the frame header, found"
            f" {b','.join(fields[1:4])[:40]!r}"
        )
    if not 64 <= header <= _MAX_HEADER:
        raise FormatError(
            f"{path}: expected a header size of 64 to {_MAX_HEADER:,} bytes in the frame header, found"
            f" {fields[0][:20]!r}"
        )
    depth = 0
    if kind == "R64":
        says = [last.decode("latin-1"), hdr.get("Counter Depth (number)", "")]
        depth = next((int(word) for word in says if word in ("1", "6", "12", "24")), 0)
        if not depth:
            raise FormatError(
                f"{path}: R64 pixels need a counter depth of 1, 6, 12 or 24 bits, neither the frame header nor a .hdr"
                " file says one"
            )
    return Geometry(header, chips, x, y, kind, layout, depth)


def pixels(path: str, geometry: Geometry) -> tuple[RawDecoder | PlainDecoder, tuple[int, int], int, np.ndarray]:
    """Return (decoder, frame shape, bytes of a frame, pieces of a frame)."""
    _, chips, x, y, kind, layout, depth = geometry
    if kind != "R64":
        plain = PlainDecoder(np.dtype(_PLAIN[kind]))
        return plain, (y, x), y * x * plain.word_bytes, whole_frame((y, x))
    quad = layout == "2x2" and chips == 4
    if not quad and (layout, chips) != ("1x1", 1):
        raise FormatError(
            f"{path}: R64 pixels are read of one chip (1x1) and of four (2x2), found {chips} chips {layout}; export"
            " them as U16, or open as raw"
        )
    decoder = RawDecoder(depth)
    halves = 2 if depth == 24 else 1
    width = x // halves
    if width % ((4 if quad else 1) * decoder.word_pixels) or x % halves:
        raise FormatError(
            f"{path}: R64 rows of {depth} bits are whole words of 64 bits, {decoder.word_pixels} pixels in each chip;"
            f" found rows of {width} pixels"
        )
    size = width * y
    if quad:
        sig = (2 * y, width // 2)
        w = width // 4
        boxes = [  # origin, shape, strides, first element; both lower sectors together are one turned box
            (y, 0, y, 2 * w, -width, -1, (y - 1) * width + 2 * w - 1),
            (0, w, y, w, width, 1, 2 * w),
            (0, 0, y, w, width, 1, 3 * w),
        ]
        one = np.array([(*box, 0) for box in boxes], np.int64)
    else:
        sig = (y, width)
        one = whole_frame(sig)
    planes = []
    for half in range(halves):
        plane = one.copy()
        plane[:, -2] += half * size
        plane[:, -1] = half
        planes.append(plane)
    return decoder, sig, halves * size // decoder.word_pixels * 8, np.concatenate(planes)


def first_frames(found: MibFiles, full: np.ndarray, counts: np.ndarray, record: int) -> np.ndarray:
    """Return the index of the first frame of every file with whole frames: int64[m].

    The index is the sequence number minus the smallest one, which may be in a file without a whole
    frame.

    Args:
        full: int64[m], indices of these files.
        counts: int64[m], number of frames in each, at least one.
        record: bytes of a frame and its header.

    Raises:
        FormatError: two files hold the same frames, or so many frames are missing that a number must
            be wrong.
    """
    begin: np.ndarray = found.sequences[full]
    lowest = found.sequences.item(0)
    for k in np.flatnonzero(begin[1:] < begin[:-1] + counts[:-1])[:1].tolist() if len(full) > 1 else ():
        before, file = full[k : k + 2].tolist()
        raise FormatError(
            f"{found.files.paths[file]}: its first frame is number {begin[k + 1]}, {found.files.paths[before]} has the"
            f" numbers {begin[k]} to {begin[k] + counts[k] - 1}; name the files that belong together, or one with"
            f" {format_option(series=False)}"
        )
    highest, held = begin.item(-1) + counts.item(-1) - 1, int(counts.sum())
    total = highest + 1 - lowest
    if total > held + _MAX_BLANK or total * record >= 1 << 62:
        raise FormatError(
            f"{found.files.paths[full[-1]]}: frames are numbered {lowest} to {highest}, the files hold {held:,}; a"
            " sequence number looks garbled"
        )
    shifted: np.ndarray = begin - lowest
    return shifted
