"""Reads FRMS6, the files of PNDetector's pnCCD (S)TEM cameras.

A set is `<base>.hdr`, `<base>_000.frms6`, `<base>_001.frms6`, … There is no public specification;
the facts are those of LiberTEM. File _000 holds dark frames, the others the signal. All are little
endian::

    1,024 bytes file header | record 0 | record 1 | …
    record: 64 bytes frame header | h rows of w pixels, uint16

The CCD is read out on both sides: the right half of a stored row belongs to the lower half of the
image, turned by 180°. With W = w / 2 and image (2 h, W): stored row r, columns 0 … W - 1 are image
row r; columns W … 2 W - 1, mirrored, are row 2 h - 1 - r.

With binning b (from the .hdr) every stored row stands for b rows of the sensor. The array has the
rows as they are stored; `repeat_rows=True` shows each b times, so that the image has the sensor's
proportions (values are not divided).

The scan is `stemImageSize=AxB` of the .hdr, taken as (A, B). It is not confirmed that A is the slow
axis of scans that are not square.

The dark frames are the companion `dark`: open with `dark="dark"` to subtract their mean. A gain
map, in CSV or of MATLAB, is the companion `gain`.
"""

from __future__ import annotations

import configparser
import io
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from vfs.errors import (
    DecodeError,
    DependencyError,
    FormatError,
    MissingSourceError,
    OptionError,
    SourceError,
    TruncatedSourceError,
)
from vfs.formats import Format, series
from vfs.formats.headers import fields, numbered, read_at, read_side_file
from vfs.model.decode import PlainDecoder
from vfs.model.layout import BlockLayout, FrameLayout
from vfs.model.stored import Absence, Files, StoredArray, nav_dims, per_frame

HEADER = np.dtype(
    [
        ("header_bytes", "<u2"),  # 1024
        ("frame_header_bytes", "<u2"),  # 64
        ("_padding", "V3"),
        ("version", "u1"),  # 6
        ("comment", "S80"),
        ("width", "<u2"),  # stored columns: twice those of the image
        ("height", "<u2"),  # stored rows: half of those of the image
        ("comment_2", "S928"),
        ("frames", "<u4"),  # 0 in older files: as many as there are
    ]
)
FRAME_HEADER = np.dtype(
    [
        ("_padding", "V4"),
        ("timestamp_seconds", "<u4"),
        ("timestamp_microseconds", "<u4"),
        ("frame_number", "<u4"),
        ("_padding_2", "V12"),
        ("comment", "S36"),
    ]
)
_NUMBER = re.compile(r"_(\d+)\.frms6$", re.IGNORECASE)
_WIDEST_SCAN = 1 << 16  # most positions along one axis
_MOST_BLANK = 1_000_000  # most frames that may be missing between files
_BLANK = "shows these frames as blank"


def sniff(path: str, head: bytes) -> bool:
    """Return True for a data file, or the .hdr of a set."""
    return (head.startswith(b"\x00\x04\x40\x00") and head[7:8] == b"\x06") or b"[measurementInfo]" in head


@dataclass(frozen=True)
class _Frms6Set:
    """The files of a set.

    Attributes:
        signal: files with signal, in order.
        dark: the file with dark frames, None if it is missing.
        hdr: the .hdr, None if it is missing.
        numbers: of the signal files, if they were found by the name of one of them; the first one
            of a series is 1.
        lost: signal files that are missing between these.
    """

    signal: list[str]
    dark: str | None
    hdr: str | None
    numbers: Sequence[int] = ()
    lost: series.Lost = field(default_factory=series.Lost)


def _find(paths: Sequence[str]) -> _Frms6Set:
    hdrs = [path for path in paths if path.lower().endswith(".hdr")]
    data = [path for path in paths if path not in hdrs]
    if len(hdrs) > 1:
        raise OptionError(f"{hdrs[1]}: several .hdr files; an FRMS6 set has one")
    first = (data or hdrs)[0]
    base = _NUMBER.sub("", first) if data else os.path.splitext(first)[0]
    hdr = hdrs[0] if hdrs else next((path for path in (base + ".hdr", base + ".HDR") if os.path.isfile(path)), None)
    if len(data) > 1:
        numbers = [_NUMBER.search(path) for path in data]
        if all(numbers):
            data.sort(key=lambda path: int(_NUMBER.search(path)[1]))  # type: ignore[index]
        dark = [path for path in data if (hit := _NUMBER.search(path)) and int(hit[1]) == 0]
        return _Frms6Set([path for path in data if path not in dark], dark[0] if dark else None, hdr)
    if data and base == data[0]:
        return _Frms6Set(data, None, hdr)  # no number: a file of its own
    found = dict(numbered(base + "_", ".frms6"))
    darks = found.pop(0, None)
    if not found:
        raise MissingSourceError(f"{base}_001.frms6: no such file; it would be the first file with signal")
    signal = list(found.values())
    lost = sum((series.between(a, b) for a, b in pairwise(signal)), series.in_front(signal[0]))
    return _Frms6Set(signal, darks, hdr, list(found), lost)


def _information(path: str | None) -> dict[str, str]:
    """Read what the .hdr says: names in lower case -> text."""
    if path is None:
        return {}
    parser = configparser.ConfigParser(interpolation=None, strict=False, delimiters=("=",))
    try:
        parser.read_string(read_side_file(path).decode("latin1"))
        section = dict(parser["measurementInfo"])
    except (configparser.Error, KeyError) as error:
        raise FormatError(
            f"{path}: expected an INI file with the section measurementInfo: {str(error).splitlines()[0]}"
        ) from None
    return {name: (value or "").strip().strip('"') for name, value in section.items()}


def _scan_shape(text: str) -> tuple[int, int] | None:
    """Parse a scan's shape written AxB; None if it is none."""
    hit = re.fullmatch(r"\s*(\d{1,6})\s*x\s*(\d{1,6})\s*", text)
    shape = (int(hit[1]), int(hit[2])) if hit else None
    return shape if shape and all(1 <= n < _WIDEST_SCAN for n in shape) else None


def _header(path: str) -> np.void:
    header: np.void = np.frombuffer(read_at(path, HEADER.itemsize), HEADER)[0]
    if (header["header_bytes"], header["frame_header_bytes"], header["version"]) != (1024, 64, 6):
        raise FormatError(
            f"{path}: expected an FRMS6 header (1024 bytes, frame headers of 64, version 6), "
            f"found {header['header_bytes']}, {header['frame_header_bytes']} and {header['version']}"
        )
    if header["width"] < 2 or header["width"] % 2 or header["height"] < 1:
        raise FormatError(
            f"{path}: the header says {header['height']} stored rows of {header['width']} pixels; expected an even"
            " width, both above 0"
        )
    return header


@dataclass(frozen=True)
class _Counts:
    """Counts the frames in a file.

    Attributes:
        said: what its header says, 0 in older files.
        stored: whole frames, no more than the header says.
        rest: bytes behind them.
        record: bytes of a frame and its header.
    """

    said: int
    stored: int
    rest: int
    record: int

    @classmethod
    def of(cls, header: np.void, size: int) -> _Counts:
        """Count the frames in a file with this header.

        Args:
            size: of the file in bytes.
        """
        record = FRAME_HEADER.itemsize + 2 * int(header["width"]) * int(header["height"])
        said, whole = int(header["frames"]), (size - HEADER.itemsize) // record
        stored = min(said, whole) if said else whole
        return cls(said, stored, size - HEADER.itemsize - stored * record, record)

    @property
    def cut(self) -> bool:
        return self.said > self.stored or (not self.said and self.rest > 0)


def _positions(chosen: _Frms6Set, counts: Sequence[_Counts]) -> list[int] | None:
    """Return the index of the first frame of each file, None if that cannot be told.

    It lies behind all frames that the files in front of it should hold. Files of a series hold
    equally many frames, except for the last one: missing files held as many as those that exist.
    """
    held = [one.said or one.stored for one in counts]
    usual = max(held[:-1], default=0)
    numbers = chosen.numbers or range(1, len(held) + 1)
    if chosen.lost.count and (held[-1] > usual or any(one != usual for one in held[:-1])):
        return None
    first, at, before = [], 0, 0
    for number, one, count in zip(numbers, counts, held, strict=True):
        at += (number - before - 1) * usual
        first.append(at)
        at, before = at + (max(count, usual) if one.cut else count), number
    return (
        first
        if first[-1] - sum(held[:-1]) <= _MOST_BLANK and first[-1] <= sum(one.stored for one in counts) + _MOST_BLANK
        else None
    )


def _absences(chosen: _Frms6Set, counts: Sequence[_Counts], first: Sequence[int]) -> tuple[Absence, ...]:
    """Return what the files lack, except at the end of the set."""
    found = []
    if chosen.lost.count:
        blank = first[-1] - sum(one.said or one.stored for one in counts[:-1])
        lost = {"files_missing": chosen.lost.count, "frames_missing": blank}
        frames = series.ranges(series.holes(first, [one.said or one.stored for one in counts]))
        said = (
            f"{chosen.hdr or chosen.signal[0]}: {chosen.lost}, with {frames}; the set goes on to"
            f" {os.path.basename(chosen.signal[-1])}"
        )
        found.append(Absence(said, MissingSourceError, _BLANK, lost, chosen.lost.paths))
    for k, (path, one) in enumerate(zip(chosen.signal, counts, strict=True)):
        last = k == len(counts) - 1
        if one.cut or one.rest:
            wanted = f"{one.said:,} records" if one.said else "whole records"
            said = (
                f"{path}: expected {wanted} of {one.record:,} bytes after the header, found {one.stored:,} and"
                f" {one.rest:,} bytes more"
            )
            less = 0 if last else first[k + 1] - first[k] - one.stored
            lost = {"bytes_left_over": one.rest} | ({"frames_missing": less} if less > 0 and one.cut else {})
            found.append(Absence(said, TruncatedSourceError if one.cut and not last else None, _BLANK, lost))
    return tuple(found)


def _at_the_end(
    chosen: _Frms6Set,
    hdr: Mapping[str, str],
    scan: tuple[int, int] | None,
    nav: tuple[int, ...],
    said: int,
    stored: int,
) -> tuple[Absence, ...]:
    """Compare the .hdr with what is stored.

    Frames may be missing at the end, or be more than its scan has places for.
    """
    if chosen.hdr is None:
        return ()
    found = []
    less, more = max(said, math.prod(nav)) - stored, stored - math.prod(nav)
    if less > 0:
        text = (
            f"{chosen.hdr}: says {stored + less:,} signal frames, {stored:,} are stored:"
            f" {'the last one is' if less == 1 else f'the last {less:,} are'} missing"
        )
        found.append(Absence(text, counts={"frames_missing": less}))
    if nav != scan and chosen.numbers:
        text = (
            f"{chosen.hdr}: stemImageSize says {hdr.get('stemimagesize', '')[:24]!r}, expected a scan AxB of {stored:,}"
            " frames: they are one axis"
        )
        found.append(Absence(text))
    if more > 0:
        text = (
            f"{chosen.hdr}: says a scan of {nav[0]} × {nav[1]}, {stored:,} frames are stored: {more:,}"
            f" {'is' if more == 1 else 'are'} left out"
        )
        found.append(Absence(text, counts={"frames_left_out": more}))
    return tuple(found)


def _pieces(width: int, height: int, repeat: int) -> np.ndarray:
    """Return the two halves of a frame as pieces (see `vfs.kernels.planning.box_rows`).

    If rows are repeated there is a piece for each row.
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


@dataclass(frozen=True)
class _Frms6Table:
    """Decodes numbers in text to the transposed array, for gain maps.

    Rows are lines, columns are separated by semicolons.
    """

    dtype: np.dtype = field(default_factory=lambda: np.dtype(np.float64))
    word_bytes: int = 0
    decode_into = None

    def decode_block(self, data: np.ndarray, block: int, shape: tuple[int, ...]) -> np.ndarray:
        try:
            lines = [
                [float(cell) for cell in line.split(b";") if cell.strip()]
                for line in data.tobytes().splitlines()
                if line.strip(b"; \t")
            ]
            table = np.array(lines, self.dtype).T
        except ValueError as error:
            raise DecodeError(f"expected rows of numbers with semicolons between them: {error}") from None
        if shape and table.shape != shape:
            raise DecodeError(
                f"expected {shape[1]} rows of {shape[0]} numbers, found an array of shape {table.T.shape}"
            )
        return np.ascontiguousarray(table)


@dataclass(frozen=True)
class _Matlab:
    """Decodes the variable GainMap of a MATLAB file (not of version 7.3, which is HDF5)."""

    dtype: np.dtype = field(default_factory=lambda: np.dtype(np.float64))
    word_bytes: int = 0
    decode_into = None

    def decode_block(self, data: np.ndarray, block: int, shape: tuple[int, ...]) -> np.ndarray:
        try:
            found = np.ascontiguousarray(
                _scipy_io().loadmat(io.BytesIO(data.tobytes()), variable_names=["GainMap"])["GainMap"], self.dtype
            )
        except DependencyError:
            raise
        except Exception as error:  # a garbled file fails in any way
            raise DecodeError(f"the variable GainMap cannot be read: {error}".splitlines()[0][:300]) from None
        if found.shape != shape:
            raise DecodeError(f"expected a GainMap of shape {shape}, found {found.shape}")
        return found

    @staticmethod
    def shape(path: str) -> tuple[int, ...]:
        """Return the shape of the variable without reading it.

        Raises:
            DecodeError: there is no such variable.
        """
        try:
            known = {
                name: tuple(shape)
                for name, shape, kind in _scipy_io().whosmat(io.BytesIO(read_side_file(path)))
                if kind in ("double", "single")
            }
        except (DependencyError, SourceError):
            raise
        except Exception as error:  # a garbled file fails in any way
            raise DecodeError(
                f"expected a MATLAB file up to version 7 (save -v7): {error}".splitlines()[0][:300]
            ) from None
        if "GainMap" not in known:
            raise DecodeError(f"expected a variable GainMap of numbers, found {', '.join(known) or 'none'}"[:300])
        return known["GainMap"]


def _scipy_io() -> Any:
    try:
        import scipy.io
    except ImportError:
        raise DependencyError("gain maps of MATLAB need scipy: pip install 'vfs[frms6]'") from None
    return scipy.io


def _gain(path: str, images: Sequence[tuple[int, ...]]) -> StoredArray:
    """Make the array of a gain map.

    Args:
        images: shapes that a map of MATLAB may have.
    """
    ending = os.path.splitext(path)[1].lower()
    if ending not in (".csv", ".mat"):
        raise OptionError(f"gain_map={path}: expected a .csv or a .mat file")
    files = Files.stat([path])
    decoder: _Frms6Table | _Matlab = _Frms6Table() if ending == ".csv" else _Matlab()
    try:
        shape = (
            decoder.shape(path)
            if isinstance(decoder, _Matlab)
            else decoder.decode_block(np.frombuffer(read_side_file(path), np.uint8), 0, ()).shape
        )
    except DecodeError as error:
        raise FormatError(f"{path}: {error}") from None
    if ending == ".mat" and shape not in images:
        raise FormatError(
            f"{path}: expected a GainMap of shape {' or '.join(map(str, dict.fromkeys(images)))}, found"
            f" {str(shape)[:60]}"
        )
    if len(shape) != 2 or 0 in shape:
        raise FormatError(
            f"{path}: expected rows of numbers with semicolons between them, found an array of shape {shape}"
        )
    layout = BlockLayout.of(
        shape, np.zeros((1, 2)), np.array([shape]), np.zeros(1), np.zeros(1), files.sizes, whole=True
    )
    return StoredArray("gain", files, layout, decoder, shape, ("gain_y", "gain_x"), 0, block=shape, companion=True)


def _without_dark(chosen: _Frms6Set, hdr: Mapping[str, str]) -> tuple[Absence, ...]:
    """Return the absence of the dark frames, if the .hdr mentions some and their file is missing."""
    if chosen.dark or not chosen.numbers or not hdr.get("darkframes", "").strip("0"):
        return ()
    lost = series.in_front(chosen.signal[0], 0)
    name = os.path.basename(lost.paths[0])
    return (
        Absence(
            f"{chosen.hdr}: says {hdr['darkframes'][:24]} dark frames, {name} is missing",
            counts={"files_missing": 1},
            files=lost.paths[:1],
        ),
    )


def _frames(
    files: Files, headers: Sequence[np.void], repeat: int, counts: Sequence[_Counts], first: Sequence[int] | None = None
) -> FrameLayout:
    width, height = int(headers[0]["width"]), int(headers[0]["height"])
    for path, header in zip(files.paths, headers, strict=True):
        if (header["width"], header["height"]) != (width, height):
            raise FormatError(
                f"{path}: stores {header['height']} rows of {header['width']} pixels, {files.paths[0]} {height} of"
                f" {width}; the files of a set are alike"
            )
    return FrameLayout.of(
        (2 * height * repeat, width // 2),
        [one.stored for one in counts],
        word_bytes=2,
        payload=2 * width * height,
        file_header=HEADER.itemsize,
        frame_header=FRAME_HEADER.itemsize,
        first=first,
        pieces=_pieces(width, height, repeat),
    )


def open(
    paths: Sequence[str], *, repeat_rows: bool = False, gain_map: str | os.PathLike[str] | None = None
) -> list[StoredArray]:
    """Open an FRMS6 set by its .hdr, by one of its files (the others are found), or by several files.

    Several files are the whole set.

    Args:
        repeat_rows: show every stored row as many times as rows of the sensor were binned into it
        gain_map: a file with a gain map, which becomes the array "gain". Either a .csv file
            (columns of the sensor as rows, semicolons between numbers), or a .mat file of MATLAB
            with the variable GainMap (rows as rows)

    Raises:
        FormatError: a header is garbled, or files differ.
        MissingSourceError: there is no file with signal, or files are missing and nothing tells how
            many frames they held.
        OptionError: an option does not fit.
    """
    chosen = _find(paths)
    hdr = _information(chosen.hdr)
    mode = re.match(r"bin:\s*(\d{1,3})", hdr.get("readoutmode", ""))
    binning = max(1, int(mode[1])) if mode else 1
    repeat = binning if repeat_rows else 1
    files = Files.stat(chosen.signal)
    headers = [_header(path) for path in files.paths]
    counts = [_Counts.of(header, size) for header, size in zip(headers, files.sizes.tolist(), strict=True)]
    first = _positions(chosen, counts)
    if first is None:
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
    layout = _frames(files, headers, repeat, counts, first)
    stored = layout.stored
    if stored < 1 or not any(one.stored for one in counts):
        raise FormatError(f"{files.paths[0]}: expected frames, the files of the set have none")
    absent = _absences(chosen, counts, first)
    said = int(hdr["signalframes"]) if chosen.numbers and re.fullmatch(r"\d{1,18}", hdr.get("signalframes", "")) else 0
    scan = _scan_shape(hdr.get("stemimagesize", ""))
    nav: tuple[int, ...] = scan if scan and scan[0] * scan[1] <= max(stored, said) else (stored,)
    absent += _at_the_end(chosen, hdr, scan, nav, said, stored) + _without_dark(chosen, hdr)
    beside = []
    if chosen.dark:
        dark_files = Files.stat([chosen.dark])
        dark_header = _header(dark_files.paths[0])
        dark_counts = _Counts.of(dark_header, int(dark_files.sizes[0]))
        dark = _frames(dark_files, [dark_header], repeat, [dark_counts])
        if dark_counts.rest or dark_counts.cut:
            text = (
                f"{chosen.dark}: expected {dark_counts.said or 'whole'} dark frames, found {dark_counts.stored:,} and"
                f" {dark_counts.rest:,} bytes more"
            )
            absent += (Absence(text, counts={"bytes_left_over": dark_counts.rest}),)
        if dark.sig_shape != layout.sig_shape:
            raise FormatError(
                f"{chosen.dark}: its frames are {dark.sig_shape}, those of the signal {layout.sig_shape}; name only the"
                " signal's files to leave these out"
            )
        if dark.stored:
            shape = dark.shape
            beside.append(
                StoredArray(
                    "dark",
                    dark_files,
                    dark,
                    PlainDecoder(np.dtype("<u2")),
                    shape,
                    ("dark_frame", "y", "x"),
                    0,
                    companion=True,
                )
            )
    layout = layout.arranged(nav)
    attrs: dict[str, Any] = {"header": fields(headers[0]), "hdr": hdr, "binning": binning, "stored_frames": stored}
    if binning > 1:
        attrs["calibration"] = {
            "y": {"scale": binning // repeat, "offset": 0, "unit": "pixel"},
            "x": {"scale": 1, "offset": 0, "unit": "pixel"},
        }
    main = StoredArray(
        "data",
        files,
        layout,
        PlainDecoder(np.dtype("<u2")),
        layout.shape,
        (*nav_dims(len(nav)), "y", "x"),
        len(nav),
        attrs=attrs,
        absent=absent,
    )
    units: Mapping[str, Mapping[str, str]] = {
        "timestamp_seconds": {"unit": "s since 1970-01-01"},
        "timestamp_microseconds": {"unit": "µs"},
    }
    found = [main]
    for name in ("timestamp_seconds", "timestamp_microseconds", "frame_number"):
        found.append(per_frame(main, name, "<u4", int(FRAME_HEADER.fields[name][1]), attrs=units.get(name)))  # type: ignore[index]
    height, width = layout.sig_shape
    return (
        [*found, *beside, _gain(os.fspath(gain_map), [(height, width), (height // repeat * binning, width)])]
        if gain_map
        else [*found, *beside]
    )


FORMAT = Format(
    "frms6",
    (".hdr", ".frms6"),
    "https://pndetector.com",
    "PNDetector pnCCD, folded halves, with dark frames",
    sniff,
    open,
    index_extensions=(".hdr",),
)
