"""Reads BLO, the block files of NanoMegas ASTAR: https://nanomegas.com

There is no public specification; the format is known from programs that read it. One file is one
scan of square diffraction patterns, 8 bit (version 1.2) or 16 bit (version 1.3)::

    240 bytes header | note | virtual bright-field image, NY × NX bytes | … | record 0 | record 1 |
    …
    record: AA 55 | frame number, 4 bytes | pattern, DP_SZ × DP_SZ pixels

A scan that was stopped has fewer records than NY × NX: the other patterns read as 0, with a warning.
So do lost ones, which the frame numbers tell: later patterns stay at their positions.
The preview image that the instrument stored is the companion `virtual_bright_field`. The magic
number shows the byte order.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

import numpy as np

from vfs.errors import FormatError
from vfs.formats import Format
from vfs.formats.headers import fields, read_at
from vfs.formats.recorded import Recorded
from vfs.model.decode import PlainDecoder
from vfs.model.files import Files
from vfs.model.layout import FrameLayout, FrameRecord, Scan, altered
from vfs.model.layout.scan_order import ScanOrder, numbered_runs
from vfs.model.metadata import DEGREES, Term
from vfs.model.samples import spread
from vfs.model.sources import Sources, worth_looking
from vfs.model.stored import Absence, StoredArray, nav_dims, per_frame, scan_array
from vfs.model.written import Proof, Written

HEADER = np.dtype(
    [
        ("id", "S6"),  # IMGBLO
        ("magic", "<u2"),  # 0x0102 or 0x0103
        ("vbf_offset", "<u4"),  # bytes
        ("dp_offset", "<u4"),  # bytes
        ("flags", "<u4"),
        ("dp_size", "<u2"),  # pixels, of a square
        ("dp_rotation", "<u2"),
        ("nx", "<u2"),  # scan positions
        ("ny", "<u2"),
        ("scan_rotation", "<u2"),  # 0.01 degrees
        ("sx", "<f8"),  # nm a scan step
        ("sy", "<f8"),
        ("beam_energy", "<u4"),  # V
        ("sdp", "<u2"),  # pixels per metre: 100 × pixels per cm
        ("camera_length", "<u4"),  # 0.1 mm
        ("acquisition_time", "<f8"),  # days since 1899-12-30
        ("centering", "<f8", 8),
        ("distortion", "<f8", 14),
    ]
)
_BEGIN = b"IMGBLO"
_MARK = 6  # bytes before every pattern
_PROOF = Proof(0, 2)  # AA 55
_LOOK = 256  # patterns whose numbers are read in any case where some were lost
_ORDER = 64  # patterns whose numbers are read of any file: on a cold disk each is a seek
_MAX_NOTE = 1 << 20  # bytes of free text that are read


_ORDERS: dict[bytes, Literal["<", ">"]] = {b"\x02\x01": "<", b"\x03\x01": "<", b"\x01\x02": ">", b"\x01\x03": ">"}


def _header(sources: Sources, path: str) -> tuple[np.void, str]:
    """Read the header. Returns (header, byte order "<" or ">")."""
    raw = read_at(sources, path, HEADER.itemsize)
    if not raw.startswith(_BEGIN):
        raise FormatError(f"{path}: expected a BLO file, it begins with {raw[:6]!r}")
    order = _ORDERS.get(raw[6:8])
    if order is None:
        raise FormatError(f"{path}: expected version 0x0102 or 0x0103, found {raw[6:8][::-1].hex()}")
    return np.frombuffer(raw, HEADER.newbyteorder(order))[0], order


def _bit_depth(sources: Sources, path: str, note: str, at: int, pixels: int, size: int) -> int:
    """Return the bits per pixel, 8 or 16, from the note and the mark before the second pattern."""
    said = re.search(r"Blo Bit Depth\s*:\s*(\d+)", note)
    depth = int(said[1]) if said else 8
    if depth not in (8, 16):
        raise FormatError(f"{path}: the note says {depth} bits a pixel, expected 8 or 16")
    marks = (b"\xaa\x55", b"\x55\xaa")
    first = read_at(sources, path, 2, at)
    if first not in marks:
        raise FormatError(
            f"{path}: expected the mark AA 55 of the first pattern at byte {at:,}, found {first.hex(' ')}"
        )
    for bits in (depth, 24 - depth):
        second = at + _MARK + pixels * bits // 8
        if second + 2 > size or read_at(sources, path, 2, second) in marks:
            return bits
    raise FormatError(
        f"{path}: no pattern of {pixels:,} pixels of 8 or 16 bits lies between the first mark and a second one"
    )


def _iso_time(days: float) -> str | None:
    """Return the ISO time of a serial date; None if the number is not a date."""
    return (datetime(1899, 12, 30) + timedelta(days=days)).isoformat() if 1 < days < 200_000 else None


def open(paths: Sequence[str], sources: Sources) -> list[StoredArray]:
    """Open a BLO file.

    Raises:
        FormatError: the header is garbled, or does not fit the file.
        TruncatedSourceError: there is no whole pattern.
    """
    files = Files.stat(sources, paths)
    path, size = files.paths[0], int(files.sizes[0])
    header, order, note = _headers(sources, path)
    side, nx, ny = int(header["dp_size"]), int(header["nx"]), int(header["ny"])
    first, preview = int(header["dp_offset"]), int(header["vbf_offset"])
    depth = _bit_depth(sources, path, note, first, side * side, size)
    dtype = np.dtype(f"{order}u{depth // 8}")
    record = _MARK + side * side * dtype.itemsize
    recorded = Recorded.of(files, "patterns", record, first, proof=_PROOF)
    stored = recorded.stored
    room = first - preview if preview >= HEADER.itemsize else 0
    if stored < nx * ny and room < nx * ny:  # patterns or preview must confirm the size of the scan
        raise FormatError(
            f"{path}: the header says a scan of {ny} × {nx}; the file has {stored:,} patterns, and room for"
            f" {max(room, 0):,} bytes of preview before them"
        )
    numbers = _Numbers(sources, path, order, first + 2, record)
    ahead, begin, counts = _runs(numbers, stored, nx * ny).T
    layout = FrameLayout.of(
        FrameRecord((side, side), dtype.itemsize, header=_MARK),
        counts,
        file_header=first + ahead * record,
        first=begin,
        files=np.zeros_like(begin),
    ).arranged(Scan((ny, nx)))
    visited, strange = _order(numbers, stored, (ny, nx)) if len(counts) == 1 else (None, ())
    layout = layout if visited is None else layout.ordered(visited)
    attrs: dict[str, Any] = {"header": fields(header), "note": note, "bit_depth": depth, "stored_frames": stored}
    main = scan_array(
        files, layout, PlainDecoder(dtype), attrs=attrs | _said(header), written=Written(nx * ny, recorded.proof)
    )
    found = [main, per_frame(main, "frame_number", f"{order}u4", 2)]
    if room >= nx * ny:
        image = FrameLayout.of(FrameRecord((), 1), [nx * ny], file_header=preview).arranged(Scan((ny, nx)))
        found.append(
            StoredArray(
                "virtual_bright_field",
                files,
                image,
                PlainDecoder(np.dtype("u1")),
                (ny, nx),
                nav_dims(2),
                2,
                companion=True,
            )
        )
    absent = recorded.absences("a scan", (ny, nx)) + strange
    return [altered(one, absent=absent) for one in found] if absent else found


def _headers(sources: Sources, path: str) -> tuple[np.void, str, str]:
    """Read what is in front of the patterns. Returns (header, byte order "<" or ">", note).

    Raises:
        FormatError: the header is garbled.
        TruncatedSourceError: the file ends within the header.
    """
    header, order = _header(sources, path)
    side, nx, ny = int(header["dp_size"]), int(header["nx"]), int(header["ny"])
    first, preview = int(header["dp_offset"]), int(header["vbf_offset"])
    if side < 1 or nx < 1 or ny < 1 or first < HEADER.itemsize:
        raise FormatError(
            f"{path}: the header says {ny} × {nx} patterns of {side} × {side} pixels at byte {first:,}; expected"
            " positive numbers, byte 240 or later"
        )
    end = preview if HEADER.itemsize <= preview < first else first
    text = read_at(sources, path, min(end - HEADER.itemsize, _MAX_NOTE), HEADER.itemsize, short_ok=True)
    return header, order, text.split(b"\0")[0].decode("latin1").strip()


def _said(header: np.void) -> dict[str, Any]:
    """Return what a header says about the microscope, the time and the steps of the axes."""
    steps = {"scan_y": float(header["sy"]), "scan_x": float(header["sx"])}
    scale = {axis: (step, "nm") for axis, step in steps.items() if step > 0}
    if header["sdp"]:
        scale |= dict.fromkeys(("y", "x"), (100 / int(header["sdp"]), "cm"))
    return {
        "beam_energy_kV": int(header["beam_energy"]) / 1000,
        "camera_length_m": int(header["camera_length"]) / 10_000,
        "scan_rotation_degrees": int(header["scan_rotation"]) / 100,
        "acquired": _iso_time(float(header["acquisition_time"])),
        "calibration": {axis: {"scale": step, "offset": 0.0, "unit": unit} for axis, (step, unit) in scale.items()},
    }


class _Numbers(NamedTuple):
    """The numbers in front of patterns.

    Attributes:
        order: byte order, "<" or ">".
        at: byte of the first number.
        record: bytes from one to the next.
    """

    sources: Sources
    path: str
    order: str
    at: int
    record: int

    def read(self, patterns: np.ndarray) -> np.ndarray:
        """Read those of some patterns, int64[n]."""
        read = (read_at(self.sources, self.path, 4, self.at + k * self.record) for k in patterns.tolist())
        return np.frombuffer(b"".join(read), f"{self.order}u4").astype(np.int64)


def _runs(numbers: _Numbers, stored: int, positions: int) -> np.ndarray:
    """Find patterns that were lost, by the frame numbers: int64[r, 3], see `vfs.model.layout.scan_order`.

    Numbers that do not grow, or go beyond the scan, tell nothing here.
    """
    whole = np.array([[0, 0, stored]])
    start, last = numbers.read(np.array([0, stored - 1])).tolist()
    if not stored <= last - start < positions:
        return whole
    found = numbered_runs(lambda frames: numbers.read(frames) - start, stored, _LOOK)
    return whole if found is None else found


def _order(numbers: _Numbers, stored: int, scan: tuple[int, int]) -> tuple[ScanOrder | None, tuple[Absence, ...]]:
    """Find the position of each pattern by its number, where patterns do not follow one another in the file.

    Numbers that hardly differ tell nothing, nor do those of more patterns than the scan has positions.

    Returns: (None if patterns are shown in the order of the file, what to say).
    """
    look = worth_looking(numbers.sources, _ORDER)
    known = spread(stored, look)
    numbers.sources.expect([numbers.path] * len(known), (numbers.at + known * numbers.record).tolist())
    if stored > math.prod(scan) or np.ptp(numbers.read(known) - known) == 0:
        return None, ()
    found = numbers.read(np.arange(stored))
    places, positions = found - found.min(), math.prod(scan)
    visited = len(np.unique(places))
    if 2 * visited < stored or visited < 2:
        return None, ()
    said = f"{numbers.path}: by the numbers in front of its patterns"
    if int(places.max()) >= positions:
        skipped = int(places.max()) + 1 - visited
        were = "was" if skipped == 1 else "were"
        text = (
            f"{said}, {skipped:,} {were} lost, but they go beyond the scan: patterns are shown in the order of the file"
        )
        return None, (Absence(text),)
    absent = []
    if again := stored - visited:
        text = f"{said}, {again:,} {'has' if again == 1 else 'have'} the number of a later one, which is shown"
        absent.append(Absence(text, counts={"frames_left_out": again}))
        lost = positions - visited - max(0, positions - stored)
        text = f"{said}, {lost:,} {'was' if lost == 1 else 'were'} never recorded: blank"
        absent.append(Absence(text, counts={"frames_missing": lost}))
    return ScanOrder.visiting(places, scan), tuple(absent)


TERMS = (
    Term("notes", "note"),
    Term("time", "acquired"),
    Term("beam_energy", "beam_energy_kV", 1e3, zero=False),
    Term("camera_length", "camera_length_m", zero=False),
    Term("scan_rotation", "scan_rotation_degrees", DEGREES),
)
"""What the header says, in the vocabulary of `vfs.model.metadata`."""

FORMAT = Format(
    "blo",
    (".blo",),
    "https://nanomegas.com",
    "NanoMegas ASTAR block files: scans of square diffraction patterns, 8 or 16 bit",
    None,
    open,
    single=True,
    terms=TERMS,
    first_bytes=(_BEGIN,),
)
