"""Reads FRMS6, the files of PNDetector's pnCCD (S)TEM cameras.

A set is `<base>.hdr`, `<base>_000.frms6`, `<base>_001.frms6`, … There is no public specification;
the facts are those of LiberTEM. File _000 holds dark frames, the others the signal. All are little
endian::

    1,024 bytes file header | record 0 | record 1 | …
    record: 64 bytes frame header | h rows of w pixels, uint16

The CCD is read out on both sides: the right half of a stored row belongs to the lower half of the
image, turned by 180°. With W = w / 2 and image (2 h, W): stored row r, columns 0 … W - 1 are image
row r; columns W … 2 W - 1, mirrored, are row 2 h - 1 - r.

With binning b (from the .hdr) every stored row is the sum of b rows of the sensor. The array has the
stored rows; `repeat_rows=True` shows each b times, so that the image has the sensor's proportions
(values are not divided).

The shape of the scan is `stemImageSize=AxB` of the .hdr, read as (A, B). For scans that are not
square, it is not confirmed that A is the slow axis.

The dark frames are the companion `dark`: open with `dark="dark"` to subtract their mean. A gain map,
in a CSV or MATLAB file, is the companion `gain`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any

import numpy as np

from vfs.errors import FormatError, MissingSourceError
from vfs.formats import Format
from vfs.formats.frms6.absent import FrameCounts, absences, at_the_end, of_another_day, positions, without_dark
from vfs.formats.frms6.gain import gain_array
from vfs.formats.frms6.members import FRAME_HEADER, HEADER, Frms6Set, find_members, information, read_header
from vfs.formats.headers import fields
from vfs.formats.written import written_records
from vfs.model.decode import PlainDecoder
from vfs.model.files import Files
from vfs.model.layout import FrameLayout, FrameRecord, Scan
from vfs.model.metadata import Term
from vfs.model.signatures import Path
from vfs.model.sources import Sources
from vfs.model.stored import Absence, StoredArray, per_frame, scan_array
from vfs.model.written import Proof, Written

_BINNED = re.compile(r"bin:\s*(\d{1,3})")
_WIDEST_SCAN = 1 << 16  # most positions along one axis


def sniff(path: str, first_bytes: bytes, sources: Sources) -> bool:
    """Return True for a data file, or the .hdr of a set."""
    return (
        first_bytes.startswith(b"\x00\x04\x40\x00") and first_bytes[7:8] == b"\x06"
    ) or b"[measurementInfo]" in first_bytes


def _scan_shape(text: str) -> tuple[int, int] | None:
    """Parse a scan's shape written AxB. Returns None if the text is not a shape."""
    hit = re.fullmatch(r"\s*(\d{1,6})\s*x\s*(\d{1,6})\s*", text)
    shape = (int(hit[1]), int(hit[2])) if hit else None
    return shape if shape and all(1 <= n < _WIDEST_SCAN for n in shape) else None


def _pieces(width: int, height: int, repeat: int) -> np.ndarray:
    """Return the two halves of a frame as pieces (see `vfs.kernels.planning.box_rows`).

    If rows are repeated, there is a piece for each row.
    """
    half, rows = width // 2, height * repeat
    if repeat == 1:
        return np.array(
            [[0, 0, height, half, width, 1, 0, 0], [height, 0, height, half, -width, -1, height * width - 1, 0]],
            np.int64,
        )
    row = np.arange(rows)
    upper = np.zeros((rows, 8), np.int64)
    upper[:, 0], upper[:, 2:4], upper[:, 4:6] = row, (1, half), (width, 1)
    upper[:, 6] = row // repeat * width
    lower = upper.copy()
    lower[:, 0], lower[:, 4:6] = 2 * rows - 1 - row, (-width, -1)
    lower[:, 6] += width - 1
    return np.concatenate([upper, lower])


def _frames(
    paths: Sequence[str],
    headers: Sequence[np.void],
    repeat: int,
    counts: Sequence[FrameCounts],
    first: Sequence[int] | None = None,
) -> FrameLayout:
    width, height = int(headers[0]["width"]), int(headers[0]["height"])
    for path, header in zip(paths, headers, strict=True):
        if (header["width"], header["height"]) != (width, height):
            raise FormatError(
                f"{path}: stores {header['height']} rows of {header['width']} pixels, {paths[0]} {height} of"
                f" {width}; the files of a set must be alike"
            )
    return FrameLayout.of(
        FrameRecord(
            (2 * height * repeat, width // 2),
            2,
            payload=2 * width * height,
            header=FRAME_HEADER.itemsize,
            pieces=_pieces(width, height, repeat),
        ),
        [one.stored for one in counts],
        file_header=HEADER.itemsize,
        first=first,
    )


def open(
    paths: Sequence[str],
    sources: Sources,
    *,
    repeat_rows: bool = False,
    gain_map: Path | None = None,
) -> list[StoredArray]:
    """Open an FRMS6 set by its .hdr, by one of its files (the others are found), or by several files.

    If several files are named, they are the whole set.

    Args:
        repeat_rows: show every stored row as many times as rows of the sensor were binned into it
        gain_map: a file with a gain map, which becomes the array "gain": a .csv file (columns of
            the sensor as rows, semicolons between numbers), or a .mat file of MATLAB with the
            variable GainMap (rows of the sensor as rows)

    Raises:
        FormatError: a header is garbled, or files differ.
        MissingSourceError: there is no file with signal, or files are missing and the number of
            frames in them is not known.
        OptionError: an option does not fit.
    """
    chosen = find_members(sources, paths)
    hdr, garbled = information(sources, chosen.hdr)
    mode = _BINNED.match(hdr.get("readoutmode", ""))
    binning = max(1, int(mode[1])) if mode else 1
    repeat = binning if repeat_rows else 1
    files = Files.stat(sources, chosen.signal)
    sizes = files.sizes.tolist()
    begun = [size >= HEADER.itemsize for size in sizes] if max(sizes) >= HEADER.itemsize else [True] * len(sizes)
    headers = [read_header(sources, path) for path, there in zip(files.paths, begun, strict=True) if there]
    of_whole = [size for size, there in zip(sizes, begun, strict=True) if there]
    counts = [FrameCounts.of(header, size) for header, size in zip(headers, of_whole, strict=True)]
    for k in np.flatnonzero(np.logical_not(begun)).tolist():  # files that end within their own header
        counts.insert(k, counts[0].of_none(sizes[k], counts))
    counts, unwritten, proof = _written(files, counts)
    first = _positions_of(chosen, files, counts)
    layout = _frames([*compress(files.paths, begun)], headers, repeat, counts, first)
    stored = layout.stored
    if stored < 1 or not any(one.stored for one in counts):
        raise FormatError(f"{files.paths[0]}: expected frames, the files of the set have none")
    absent = garbled + unwritten + of_another_day(files, counts) + absences(chosen, counts, first)
    said = int(hdr["signalframes"]) if chosen.numbers and re.fullmatch(r"\d{1,18}", hdr.get("signalframes", "")) else 0
    scan = _scan_shape(hdr.get("stemimagesize", ""))
    nav: tuple[int, ...] = scan if scan and scan[0] * scan[1] <= max(stored, said) else (stored,)
    absent += at_the_end(chosen, hdr, scan, nav, said, stored) + without_dark(chosen, hdr)
    beside: list[StoredArray] = []
    if chosen.dark:
        beside, incomplete = _dark(sources, chosen.dark, repeat, layout.sig_shape)
        absent += incomplete
    layout = layout.arranged(Scan(nav))
    attrs: dict[str, Any] = {"header": fields(headers[0]), "hdr": hdr, "binning": binning, "stored_frames": stored}
    if binning > 1:
        attrs["calibration"] = {
            "y": {"scale": binning // repeat, "offset": 0, "unit": "px"},
            "x": {"scale": 1, "offset": 0, "unit": "px"},
        }
    decoder, written = PlainDecoder(np.dtype("<u2")), Written(said or None, proof)
    main = scan_array(files, layout, decoder, attrs=attrs, absent=absent, written=written)
    if gain_map:
        height, width = layout.sig_shape
        sizes = [(height, width), (height // repeat * binning, width)]
        beside.append(gain_array(sources, str(gain_map), sizes))
    return [main, *_headers(main), *beside]


def _written(files: Files, counts: list[FrameCounts]) -> tuple[list[FrameCounts], tuple[Absence, ...], Proof | None]:
    """Leave out the records that nobody wrote: the header of a frame is never all zeros."""
    if len({one.record for one in counts}) > 1:
        return counts, (), None
    stored = np.array([one.stored for one in counts])
    made, absent, proof, _ = written_records(
        files, HEADER.itemsize, counts[0].record, stored, Proof(0, FRAME_HEADER.itemsize)
    )
    return [replace(one, stored=n) for one, n in zip(counts, made.tolist(), strict=True)], absent, proof


def _headers(main: StoredArray) -> list[StoredArray]:
    """Make the companions that every frame's header holds."""
    units: Mapping[str, Mapping[str, str]] = {
        "timestamp_seconds": {"unit": "s since 1970-01-01"},
        "timestamp_microseconds": {"unit": "µs"},
    }
    names = ("timestamp_seconds", "timestamp_microseconds", "frame_number")
    return [per_frame(main, name, "<u4", int(FRAME_HEADER.fields[name][1]), attrs=units.get(name)) for name in names]  # type: ignore[index]


def _dark(
    sources: Sources, path: str, repeat: int, sig_shape: tuple[int, ...]
) -> tuple[list[StoredArray], tuple[Absence, ...]]:
    """Make the array of the dark frames, and report what their file lacks.

    Raises:
        FormatError: the dark frames have another shape than those of the signal, `sig_shape`.
    """
    files = Files.stat(sources, [path])
    header = read_header(sources, files.paths[0])
    counts = FrameCounts.of(header, int(files.sizes[0]))
    layout = _frames(files.paths, [header], repeat, [counts])
    absent: tuple[Absence, ...] = ()
    if counts.rest or counts.cut:
        text = (
            f"{path}: expected {counts.said or 'whole'} dark frames, found {counts.stored:,} and {counts.rest:,} bytes"
            " more"
        )
        absent = (Absence(text, counts={"bytes_left_over": counts.rest}),)
    if layout.sig_shape != sig_shape:
        raise FormatError(
            f"{path}: its frames are {layout.sig_shape}, those of the signal {sig_shape}; name only the signal's files"
            " to leave these out"
        )
    if not layout.stored:
        return [], absent
    dims, decoder = ("dark_frame", "y", "x"), PlainDecoder(np.dtype("<u2"))
    return [StoredArray("dark", files, layout, decoder, layout.shape, dims, 0, companion=True)], absent


def _positions_of(chosen: Frms6Set, files: Files, counts: Sequence[FrameCounts]) -> Sequence[int]:
    """Return the number of the first frame of each file.

    Raises:
        MissingSourceError: files are missing, and the others do not tell how many frames they held.
        FormatError: a header says more frames than its file holds.
    """
    first = positions(chosen, counts)
    if first is not None:
        return first
    if chosen.lost.count:
        raise MissingSourceError(
            f"{chosen.hdr or chosen.signal[0]}: {chosen.lost}, and the other files do not tell how many frames they"
            " held"
        )
    worst = max(range(len(counts)), key=lambda k: counts[k].said - counts[k].stored)
    raise FormatError(
        f"{files.paths[worst]}: the header says {counts[worst].said:,} frames, the file holds"
        f" {counts[worst].stored:,}; it looks garbled"
    )


def _rows(mode: Any) -> list[int] | None:
    """Return how many rows and columns of the sensor a mode of readout adds up."""
    said = _BINNED.match(str(mode))
    return [int(said[1]), 1] if said else None


TERMS = (
    Term("dwell_time", "hdr:dwelltimemicroseconds", 1e-6, zero=False),
    Term("binning", "hdr:readoutmode", take=_rows),
    Term("gain", "hdr:gain"),
)
"""What the .hdr says, in the vocabulary of `vfs.model.metadata`."""

FORMAT = Format(
    "frms6",
    (".hdr", ".frms6"),
    "https://pndetector.com",
    "PNDetector pnCCD, folded halves, with dark frames",
    sniff,
    open,
    index_extensions=(".hdr",),
    terms=TERMS,
)
