"""MIB: Merlin detectors of Quantum Detectors (Medipix3).

A set is `<prefix><digits>.mib` files and a text file `<prefix>.hdr`. Files hold records, one a frame::

    file:   | record | record | …                 a partial last record (an interrupted acquisition) is left out
    record: | header, ASCII, NUL padded | pixels |

A frame's header is comma separated: 0 `MQ1`, 1 sequence number, 2 header size in bytes, 3 number of chips, 4 x and 5 y size,
6 pixel type, 7 sensor layout (`1x1`, `2x2`, `Nx1`; a `G` says that gap pixels are inserted), 8 chip select mask, 9 time,
10 exposure in s, 11 counter, 12 colour mode, 13 gain mode, 14 to 21 thresholds in keV, settings of every chip; newer software
appends `MQ1A`, time in UTC to the nanosecond, exposure in ns, counter depth in bits. Files come in the order of
their first sequence number, whatever they are called; missing files leave blank frames.

Pixel types U08, U16 and U32 are big-endian images. R64 is what the chip sends, big-endian 64-bit words (see
`vfs.kernels.unpack`); the counter depth says what is in them::

    depth   pixels a word   bytes a frame   dtype
      1          64            y*x/8        uint8
      6           8            y*x          uint8
     12           4            y*x*2        uint16
     24           4            y*x*4        uint32   two images, high 12 bits first; the header's x counts both

R64 of four chips (2x2) stores every row of the sectors side by side, `[bottom right | bottom left | top right | top left]`,
where the lower sectors are turned by 180 degrees: x = 4w and y = h in the header are an image of 2h rows of 2w pixels.

Rows are shown as they are stored. RosettaSciIO turns images upside down; `flip_y=True` does the same.

Facts from real files and from what LiberTEM 0.16 and RosettaSciIO 0.15 read. R64 of 24 bits with four chips follows the same
rule, but no such file was at hand; R64 of other layouts is refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from vfs.boundary import current, open_found
from vfs.dataset import Dataset, Files
from vfs.decode import PlainDecoder
from vfs.errors import DecodeError, FormatError, MissingSourceError, OptionError, SourceError
from vfs.formats import Format
from vfs.headers import nav_dims, read_at
from vfs.kernels import stamps, steps
from vfs.layout import FrameLayout, altered, whole_frame

_HEAD = 1024  # bytes that are read of every file: holds the headers of one and of four chips
_MOST_HEADER = 1 << 20  # bytes a header may have
_MOST_SIDE = 1 << 20  # pixels
_MOST_HDR = 1 << 16  # bytes a .hdr file may have
_MOST_BLANK = 1_000_000  # frames that may be missing between files: as many as six digits of sequence number can count
_MOST_SCAN = 1 << 32  # positions of a scan
_RAW = {1: (np.uint8, 64), 6: (np.uint8, 8), 12: (np.uint16, 4), 24: (np.uint32, 4)}  # depth in bits -> dtype, pixels a word
_START = re.compile(rb"MQ1,([0-9]{1,18}),((?:[^,\0]*,){5}[^,\0]*),")  # sequence number, fields 2 to 7
_NUMBER = re.compile(r"[0-9]+(\.[0-9]*)?(E[+-]?[0-9]{1,3})?")
_PLAIN = {"U08": ">u1", "U16": ">u2", "U32": ">u4"}


@dataclass(frozen=True)
class RawDecoder:
    """R64 pixels.

    Args:
        depth: of the counters in bits: 1, 6, 12 or 24.
    """

    depth: int
    word_bytes: int = 8
    straight: bool = False
    lined: bool = True

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(_RAW[self.depth][0])

    @property
    def word_pixels(self) -> int:
        return _RAW[self.depth][1]

    @property
    def accumulates(self) -> bool:
        return self.depth == 24

    def step(self, dtype: np.dtype) -> int:
        return steps.unpacking(self.depth)

    def decode(self, ranges: np.ndarray, data: np.ndarray, base: int, out: np.ndarray) -> None:
        steps.decode(steps.unpacking(self.depth), ranges, data, base, out.view(np.uint8))


@dataclass(frozen=True)
class StampDecoder:
    """One number out of each frame's header: its time (int64, ns since 1970) or its exposure (float64, seconds).

    Args:
        paths: of the files, for messages.
        word_bytes: size of a header.
        exposure: which of the two.
    """

    paths: tuple[str, ...]
    word_bytes: int
    exposure: bool
    word_pixels: int = 1
    accumulates: bool = False
    straight: bool = False

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.float64 if self.exposure else np.int64)

    def decode(self, ranges: np.ndarray, data: np.ndarray, base: int, out: np.ndarray) -> None:
        kernel = stamps.place_exposures if self.exposure else stamps.place_times
        bad = kernel(ranges, data, base, self.word_bytes, out)
        if bad >= 0:
            what = "an exposure" if self.exposure else "a time"
            raise DecodeError(f"{self.paths[int(ranges[0, 0])]}: the frame header at byte {bad:,} has no field that is {what}; it looks garbled")


class _Geometry(NamedTuple):
    """What the headers of a set have in common."""

    header: int
    """bytes"""
    chips: int
    x: int
    y: int
    kind: str
    layout: str
    depth: int
    """of R64, in bits; 0 for the other kinds"""

    def __str__(self) -> str:
        depth = f" of {self.depth} bits" if self.depth else ""
        return f"{self.x} × {self.y} pixels {self.kind}{depth}, chips {self.layout}, headers of {self.header} bytes"


class _Found(NamedTuple):
    """The files of a set in the order of their first frames."""

    paths: tuple[str, ...]
    sequences: np.ndarray
    """int64[n] number of the first frame"""
    sizes: np.ndarray
    """int64[n] bytes"""
    times: np.ndarray
    """int64[n] of the last change, ns"""
    head: bytes
    """how the first one begins"""


class _Words(NamedTuple):
    """The words of a header that all headers of a set have in common: where another one has the same bytes there, it need not be parsed."""

    start: int = 0
    """where the sequence number ends"""
    stop: int = 0
    words: bytes = b"-"
    """from there on; what no header has before there was one"""
    last: int = 0
    """where the comma before the last field is"""
    end: int = 0
    """where the header ends"""
    tail: bytes = b""
    """from that comma to the end, where the last field matters (R64)"""


def sniff(path: str, head: bytes) -> bool:
    return head.startswith(b"MQ1,") or (head.startswith(b"HDR,") and path.lower().endswith(".hdr"))


def open(paths: Sequence[str], *, series: bool = True, flip_y: bool = False) -> list[Dataset]:
    """Open MIB files.

    Args:
        series: where a single .mib file is named, open all files of its series and their .hdr; false: that file by itself
        flip_y: last row first, as RosettaSciIO and HyperSpy show it

    Raises:
        FormatError: a file is no MIB file, a header is garbled, files do not belong together, not one whole frame.
        OptionError: several .hdr files, or one without its .mib files.
        MissingSourceError, SourceError: a file cannot be opened.
    """
    hdr_path, mib_paths = _members(paths, series)
    hdr = _read_hdr(hdr_path) if hdr_path else {}
    geometry, found = _read_heads(mib_paths, hdr)
    decoder, sig, payload, pieces = _pixels(found.paths[0], geometry)
    if flip_y:
        pieces = _upside_down(pieces, sig[0])

    sizes = found.sizes
    record = geometry.header + payload
    counts = sizes // record
    full = np.flatnonzero(counts)  # the files that hold a whole frame
    if not len(full):
        raise FormatError(f"{found.paths[0]}: expected at least one frame of {record:,} bytes ({geometry}), the file has {sizes[0]:,}; it looks truncated")
    layout = FrameLayout.of(
        sig,
        counts[full],
        word_bytes=decoder.word_bytes,
        word_pixels=decoder.word_pixels,
        payload=payload,
        frame_header=geometry.header,
        first=_first_frames(found, full, counts[full], record),
        files=full,
        pieces=pieces,
    )

    nav = _scan(hdr_path, hdr, layout.stored)
    files = Files(found.paths, sizes, found.times, current())
    attrs = _attrs(found, geometry, hdr) | {
        "frames": layout.stored,
        "frames_missing": layout.stored - int(counts.sum()),
        "files_with_partial_frame": int(np.count_nonzero(sizes % record)),
        "rows": "last stored row first (flip_y)" if flip_y else "as stored",
    }
    names = nav_dims(len(nav))
    datasets = [Dataset("data", files, layout.arranged(nav), decoder, nav + sig, (*names, "y", "x"), len(nav), attrs=attrs)]
    headers = altered(layout, sig_shape=(), header=0, word_bytes=geometry.header, word_pixels=1, pieces=whole_frame(())).arranged(nav)
    beside = altered(datasets[0], layout=headers, shape=nav, dims=names, companion=True)
    for name, units, about in (
        ("timestamp", "nanoseconds since 1970-01-01", "start of the frame: UTC, of older software (no MQ1A) local time; 0 where no frame is stored"),
        ("exposure", "s", "shutter open time; 0 where no frame is stored"),
    ):
        stamp = StampDecoder(files.paths, geometry.header, name == "exposure")
        datasets.append(altered(beside, path=name, decoder=stamp, attrs={"about": about}, conventions={"units": units}))
    return datasets


def _members(paths: Sequence[str], series: bool) -> tuple[str | None, list[str]]:
    """The .hdr file (or None) and the .mib files that are named, or that the one named file stands for.

    A .hdr stands for the files of its name, with or without a number behind it; a .mib for what its own .hdr stands for or,
    without one, for the files that are called the same up to the digits at the end. What has a .hdr of its own belongs to that one.
    """
    hdr_paths = [p for p in paths if p.lower().endswith(".hdr")]
    if len(hdr_paths) > 1:
        raise OptionError(f"{hdr_paths[1]}: expected files of one set, found a second .hdr; open {hdr_paths[0]} and this one separately")
    folder, name = os.path.split(os.path.abspath(paths[0]))
    stem, ending = os.path.splitext(name)
    if len(paths) > 1 or ending.lower() not in (".mib", ".hdr") or not (series or hdr_paths):
        return (os.path.abspath(hdr_paths[0]) if hdr_paths else None), [os.path.abspath(p) for p in paths if p not in hdr_paths]
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        names = []
    except OSError as error:
        raise SourceError(f"{folder}: cannot be listed: {error.strerror}", error.errno or 5) from None
    if name not in names:
        raise MissingSourceError(f"{paths[0]}: no such file")
    hdrs = {n[:-4]: n for n in names if n[-4:].lower() == ".hdr"}
    prefix, between = (stem, " _-") if stem in hdrs else (stem.rstrip("0123456789"), "")
    mine = [n for n in names if _belongs(n, prefix, between) and (n[:-4] not in hdrs or n[:-4] == prefix)]
    if not mine:
        raise MissingSourceError(f"{paths[0]}: expected its data in {prefix}.mib or {prefix}<number>.mib beside it, found no such file")
    hdr = hdrs.get(prefix) or hdrs.get(prefix.rstrip(" _-"))
    return (os.path.join(folder, hdr) if hdr else None), [folder + os.sep + n for n in mine]


def _belongs(name: str, prefix: str, between: str) -> bool:
    """True for the prefix, at most one of the characters `between`, digits or none, and .mib. Not by a pattern: compiling it takes longer than opening."""
    if not name.startswith(prefix) or name[-4:].lower() != ".mib":
        return False
    digits = name[len(prefix) : -4]
    if digits and digits[0] in between:
        digits = digits[1:]
    return not digits or (digits.isascii() and digits.isdigit())


def _read_heads(paths: Sequence[str], hdr: dict[str, str]) -> tuple[_Geometry, _Found]:
    """The first header of every file (one open, stat and read each). Returns what they agree on, and the files in their order."""
    if not paths:
        raise OptionError("expected .mib files beside the .hdr file, found none; name them too, or the .hdr file alone")
    sequences, sizes, times = np.empty((3, len(paths)), np.int64)
    known: dict[tuple[bytes, bytes], _Geometry] = {}
    least, lowest = (1 << 62, ""), b""
    at, stop, words, last, end, tail = _Words()
    for k, path in enumerate(paths):
        head, found = _head(path)
        digits = head[4:at]
        if head[at:stop] != words or head[last:end] != tail or not digits.isdigit() or head[:4] != b"MQ1," or (last and b"\0" in head[:last]):
            digits, key, (at, stop, words, last, end, tail) = _parsed(head, path)
            if key not in known:
                known[key] = _geometry(path, *key, hdr)
                first = next(iter(known.values()))
                if known[key] != first:
                    raise FormatError(f"{path}: holds {known[key]}; {paths[0]} holds {first}; name the files that belong together, or one with series=false")
        sequence = int(digits)
        sequences[k], sizes[k], times[k] = sequence, found.st_size, found.st_mtime_ns
        if sequence <= least[0] and (sequence, path) < least:
            least, lowest = (sequence, path), head
    if len(paths) == 1:
        return first, _Found((path,), sequences, sizes, times, lowest)
    order = np.argsort(sequences, kind="stable")
    if (np.diff(sequences[order]) == 0).any():
        order = np.array(sorted(range(len(paths)), key=lambda k: (sequences.item(k), paths[k])))
    return first, _Found(tuple([paths[k] for k in order.tolist()]), sequences[order], sizes[order], times[order], lowest)


def _head(path: str) -> tuple[bytes, os.stat_result]:
    """Returns (first bytes, what the file is)."""
    try:
        fd, found = open_found(path)
        try:
            head = os.pread(fd, _HEAD, 0)
        finally:
            os.close(fd)
    except OSError as error:
        if isinstance(error, SourceError):
            raise
        raise SourceError(f"{path}: cannot be read: {error.strerror}", error.errno or 5) from None
    if not head:
        raise FormatError(f"{path}: expected frames, found an empty file")
    return head, found


def _parsed(head: bytes, path: str) -> tuple[bytes, tuple[bytes, bytes], _Words]:
    """Returns (sequence number, fields 2 to 7 and, of R64, the last one, what a header that says the same has in common with this one)."""
    start = _START.match(head)
    if start is None:
        raise FormatError(f"{path}: expected a frame header, comma separated, that begins with MQ1 and a sequence number, found {head[:16]!r}")
    common = _Words(start.end(1), start.end(), head[start.end(1) : start.end()])
    if b"R64" not in start[2].upper():
        return start[1], (start[2], b""), common
    # the last field is the counter depth, except in headers of older software; field 2 is the header's size
    size = start[2].partition(b",")[0]
    most = min(int(size), _MOST_HEADER) if size.isdigit() else 0
    text = read_at(path, most, short_ok=True) if most > len(head) else head
    before, _, depth = text[:most].partition(b"\0")[0].rstrip(b", \r\n").rpartition(b",")
    common = common._replace(last=len(before), end=most, tail=text[len(before) : most]) if before and most <= len(head) else _Words()
    return start[1], (start[2], depth), common


def _geometry(path: str, words: bytes, last: bytes, hdr: dict[str, str]) -> _Geometry:
    """The geometry that fields 2 to 7 of a header and its last one tell."""
    fields = [f.strip() for f in words.split(b",")]
    header, chips, x, y = (int(f) if f.isdigit() else -1 for f in fields[:4])
    kind = fields[4].decode("latin-1").upper()
    layout = fields[5].decode("latin-1").upper().removesuffix("G").lower()
    if kind != "R64" and kind not in _PLAIN:
        raise FormatError(f"{path}: expected pixels of type U08, U16, U32 or R64 in the frame header, found {kind[:8]!r}")
    if not (chips > 0 and 0 < x <= _MOST_SIDE and 0 < y <= _MOST_SIDE):
        raise FormatError(f"{path}: expected chips and 1 to {_MOST_SIDE:,} pixels in x and y in the frame header, found {b','.join(fields[1:4])[:40]!r}")
    if not 64 <= header <= _MOST_HEADER:
        raise FormatError(f"{path}: expected a header size of 64 to {_MOST_HEADER:,} bytes in the frame header, found {fields[0][:20]!r}")
    depth = 0
    if kind == "R64":
        says = [last.decode("latin-1"), hdr.get("Counter Depth (number)", "")]
        depth = next((int(word) for word in says if word in ("1", "6", "12", "24")), 0)
        if not depth:
            raise FormatError(f"{path}: R64 pixels need a counter depth of 1, 6, 12 or 24 bits, neither the frame header nor a .hdr file says one")
    return _Geometry(header, chips, x, y, kind, layout, depth)


def _pixels(path: str, geometry: _Geometry) -> tuple[RawDecoder | PlainDecoder, tuple[int, int], int, np.ndarray]:
    """Returns (decoder, frame shape, bytes a frame, pieces of a frame)."""
    _, chips, x, y, kind, layout, depth = geometry
    if kind != "R64":
        plain = PlainDecoder(np.dtype(_PLAIN[kind]))
        return plain, (y, x), y * x * plain.word_bytes, whole_frame((y, x))
    quad = layout == "2x2" and chips == 4
    if not quad and (layout, chips) != ("1x1", 1):
        raise FormatError(f"{path}: R64 pixels are read of one chip (1x1) and of four (2x2), found {chips} chips {layout}; export them as U16, or open as raw")
    decoder = RawDecoder(depth)
    halves = 2 if depth == 24 else 1
    width = x // halves
    if width % ((4 if quad else 1) * decoder.word_pixels) or x % halves:
        raise FormatError(
            f"{path}: R64 rows of {depth} bits are whole words of 64 bits, {decoder.word_pixels} pixels in each chip; found rows of {width} pixels"
        )
    size = width * y
    if quad:
        sig = (2 * y, width // 2)
        w = width // 4
        boxes = [  # origin, shape, strides, first element: the lower sectors, seen together, are one turned box
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


def _upside_down(pieces: np.ndarray, height: int) -> np.ndarray:
    """The pieces of a frame (origin y x, shape y x, strides y x, first element, plane) with the last row first."""
    turned = pieces.copy()
    turned[:, 0] = height - pieces[:, 0] - pieces[:, 2]
    turned[:, 4] = -pieces[:, 4]
    turned[:, 6] += (pieces[:, 2] - 1) * pieces[:, 4]
    return turned


def _first_frames(found: _Found, full: np.ndarray, counts: np.ndarray, record: int) -> np.ndarray:
    """Index of the first frame of every file that has whole ones: its sequence number minus the smallest, which may be in a file that was cut before its end.

    Args:
        full: int64[m], these files; counts: int64[m] frames in each, at least one.
        record: bytes of a frame and its header.

    Raises:
        FormatError: two files hold the same frames, or so many are missing that a number must be wrong.
    """
    begin: np.ndarray = found.sequences[full]
    lowest = found.sequences.item(0)
    for k in np.flatnonzero(begin[1:] < begin[:-1] + counts[:-1])[:1].tolist() if len(full) > 1 else ():
        before, file = full[k : k + 2].tolist()
        raise FormatError(
            f"{found.paths[file]}: its first frame is number {begin[k + 1]}, {found.paths[before]} has the numbers {begin[k]} to {begin[k] + counts[k] - 1}; "
            "name the files that belong together, or one with series=false"
        )
    highest, held = begin.item(-1) + counts.item(-1) - 1, int(counts.sum())
    total = highest + 1 - lowest
    if total > held + _MOST_BLANK or total * record >= 1 << 62:
        raise FormatError(f"{found.paths[full[-1]]}: frames are numbered {lowest} to {highest}, the files hold {held:,}; a sequence number looks garbled")
    shifted: np.ndarray = begin - lowest
    return shifted


def _read_hdr(path: str) -> dict[str, str]:
    """A .hdr file: lines `key:<TAB>value` between `HDR,` and `End`."""
    text = read_at(path, _MOST_HDR, short_ok=True).decode("latin-1")
    if not text.startswith("HDR,"):
        raise FormatError(f"{path}: expected a Merlin header file that begins with 'HDR,', found {text[:16]!r}")
    pairs = (line.split(":\t", 1) for line in text.splitlines()[1:])
    return {pair[0].strip(): pair[1].strip() for pair in pairs if len(pair) == 2}


def _scan(path: str | None, hdr: dict[str, str], stored: int) -> tuple[int, ...]:
    """The scan shape that a .hdr file tells, by default one axis of all frames.

    ScanY and ScanX hold whatever number of frames there is: more are left out, fewer leave blank frames at the end. Without them
    lines are what a trigger starts, if there are several of several frames; not if that would leave out frames.

    Raises:
        FormatError: ScanY or ScanX is no number, or absurd.
    """
    scan = {key: hdr.get(key, "") or "0" for key in ("ScanY", "ScanX")}
    for key, word in scan.items():
        if not re.fullmatch("[0-9]{1,9}", word):
            raise FormatError(f"{path}: {key} says {word[:24]!r}, expected a number of frames; open the .mib files by name, without the .hdr")
    y, x = map(int, scan.values())
    if y * x > _MOST_SCAN:
        raise FormatError(f"{path}: ScanY {y} × ScanX {x} are too many, expected at most {_MOST_SCAN:,}; open the .mib files by name, without the .hdr")
    if y and x:
        return y, x
    lines = [hdr.get(key, "") for key in ("Frames in Acquisition (Number)", "Frames per Trigger (Number)")]
    if all(re.fullmatch("[0-9]{1,9}", word) for word in lines):
        frames, line = map(int, lines)
        if 1 < line < frames and frames % line == 0 and stored <= frames:
            return frames // line, line
    return (stored,)


def _attrs(found: _Found, geometry: _Geometry, hdr: dict[str, str]) -> dict[str, Any]:
    """What the header of the first frame and the .hdr file say."""
    head = found.head
    if len(head) < min(geometry.header, found.sizes.item(0)):
        head = read_at(found.paths[0], geometry.header, short_ok=True)
    text = head[: geometry.header].partition(b"\0")[0].decode("latin-1")
    fields = list(map(str.strip, text.split(",")))
    fields += [""] * (22 - len(fields))
    time, exposure, depth = (*fields[fields.index("MQ1A") + 1 :], "", "", "")[:3] if "MQ1A" in fields else (fields[9], fields[10], "")
    seconds = _number(exposure.removesuffix("ns"))
    attrs: dict[str, Any] = {
        "pixel_type": geometry.kind,
        "counter_depth": geometry.depth or (int(depth) if depth.isdecimal() else None),
        "header_bytes": geometry.header,
        "chips": geometry.chips,
        "sensor_layout": fields[7],
        "chip_select": fields[8],
        "sequence_number": found.sequences.item(0),
        "time": time,
        "exposure_s": seconds / 1e9 if seconds is not None and exposure.endswith("ns") else seconds,
        "counter": fields[11],
        "colour_mode": fields[12],
        "gain_mode": fields[13],
        "thresholds_keV": [value for value in map(_number, fields[14:22]) if value is not None],
    }
    return {k: v for k, v in attrs.items() if v not in (None, "", [])} | ({"hdr": hdr} if hdr else {})


def _number(word: str) -> float | None:
    return float(word) if _NUMBER.fullmatch(word) else None


FORMAT = Format(
    "mib",
    (".mib", ".hdr"),
    "https://quantumdetectors.com/products/merlinem/",
    "Quantum Detectors Merlin (Medipix3): .mib series with .hdr",
    sniff,
    open,
    leads=(".hdr",),
)
