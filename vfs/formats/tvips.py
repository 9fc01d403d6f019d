"""Reads TVIPS, the stream files of TVIPS cameras (EMplified, EM-Scan).

A set is `<base>_000.tvips`, `<base>_001.tvips`, … There is no public specification; the facts come
from programs that read it. Everything is little endian. File _000 begins with the header of the
series. After it, and in all other files, records follow each other. No record runs on into the next
file::

    series header: 256 bytes, file _000 only
    record:        frame header (12 bytes in version 1, `frame_header_bytes` in version 2) | image,
        Y × X of 8 or 16 bits

The fields of the frame headers are companions. If they hold scan positions (version 2, 76 bytes or
more), the start of the scan and its shape follow from them, across files: it starts at a frame (0,
0) followed by (1, 0); a row ends where y changes.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from vfs.boundary import open_file, read_open
from vfs.errors import FormatError, MissingSourceError, OptionError, SourceError, TruncatedSourceError
from vfs.formats import Format, series
from vfs.formats.headers import fields, numbered, read_at
from vfs.model.decode import PlainDecoder
from vfs.model.layout import FrameLayout
from vfs.model.stored import Absence, Files, StoredArray, nav_dims, per_frame

HEADER = np.dtype(
    [
        ("size", "<i4"),  # bytes of this header: 256
        ("version", "<i4"),  # 1 or 2
        ("x", "<i4"),  # pixels
        ("y", "<i4"),
        ("bits", "<i4"),  # a pixel: 8 or 16
        ("x_offset", "<i4"),  # pixels
        ("y_offset", "<i4"),
        ("x_binning", "<i4"),
        ("y_binning", "<i4"),
        ("pixel_size", "<i4"),  # nm
        ("high_tension", "<i4"),  # kV
        ("magnification", "<i4"),
        ("frame_header_bytes", "<i4"),  # version 2
        ("_filler", "S204"),
    ]
)

# name, dtype, byte of the frame header, unit
FIELDS = (
    ("counter", "<u4", 0, ""),
    ("timestamp_seconds", "<u4", 4, "s since 1970-01-01"),
    ("timestamp_milliseconds", "<u4", 8, "ms"),
    ("lut_index", "<u4", 12, ""),
    ("faraday_cup", "<f4", 16, ""),
    ("magnification", "<u4", 20, ""),
    ("mode", "<u4", 24, "1 image, 2 diffraction"),
    ("stage_x", "<f4", 28, ""),
    ("stage_y", "<f4", 32, ""),
    ("stage_z", "<f4", 36, ""),
    ("stage_alpha", "<f4", 40, ""),
    ("stage_beta", "<f4", 44, ""),
    ("rotator_index", "<u4", 48, ""),
    ("scan_position_x", "<f4", 68, "scan steps"),
    ("scan_position_y", "<f4", 72, "scan steps"),
)
_AT = {name: at for name, _, at, _ in FIELDS}
_LOOK = 4096  # frames read at once; a scan must start among the first frames of this number
_LONGEST_ROW = 1 << 16  # frames
_MOST_BLANK = 1_000_000  # most frames that may be missing between files
_BLANK = "shows these frames as blank"
_NUMBER = re.compile(r"_(\d+)(\.tvips)$", re.IGNORECASE)


def sniff(path: str, head: bytes) -> bool:
    """Return True for the header of a series. Later files of the series have no mark but their names."""
    if len(head) < HEADER.itemsize:
        return False
    hit = _NUMBER.search(path)
    if hit and int(hit[1]) > 0:
        return True
    header = np.frombuffer(head, HEADER, 1)[0]
    return header["size"] == 256 and header["version"] in (1, 2) and header["bits"] in (8, 16)


def _series(paths: Sequence[str]) -> tuple[list[str], series.Lost]:
    """Find the files of a set, in order.

    The first one has the header of the series. Missing files are known only if one file names the
    set.

    Returns: (files, missing files between them).

    Raises:
        MissingSourceError: the first file, or the named one, is missing.
        OptionError: several files are named, and one has no number.
    """
    numbers = [_NUMBER.search(path) for path in paths]
    if len(paths) > 1:
        if not all(numbers):
            raise OptionError(
                f"{paths[0]}: several TVIPS files are ordered by their numbers, NAME_000.tvips, NAME_001.tvips, …; one"
                " has no number"
            )
        return sorted(paths, key=lambda path: int(_NUMBER.search(path)[1])), series.Lost()  # type: ignore[index]
    hit = numbers[0]
    if hit is None:
        return list(paths), series.Lost()
    start = paths[0][: hit.start() + 1]
    found = numbered(start, hit[2])
    if not found:
        raise MissingSourceError(f"{paths[0]}: no such file")
    if found[0][0] > 0:
        raise MissingSourceError(
            f"{start}{0:0{len(hit[1])}}{hit[2]}: no such file; the series goes on to _{found[-1][0]:0{len(hit[1])}}"
        )
    members = [path for _, path in found]
    return members, sum((series.between(a, b) for a, b in pairwise(members)), series.Lost())


def _header(path: str) -> np.void:
    header: np.void = np.frombuffer(read_at(path, HEADER.itemsize), HEADER)[0]
    if header["size"] != 256 or header["version"] not in (1, 2):
        raise FormatError(
            f"{path}: expected the header of a TVIPS series, 256 bytes of version 1 or 2, found {header['size']:,} and"
            f" {header['version']:,}"
        )
    if header["bits"] not in (8, 16) or header["x"] < 1 or header["y"] < 1:
        raise FormatError(
            f"{path}: the header says {header['y']:,} × {header['x']:,} pixels of {header['bits']} bits; expected"
            " positive numbers, 8 or 16 bits"
        )
    if header["version"] == 2 and header["frame_header_bytes"] < 12:
        raise FormatError(
            f"{path}: expected frame headers of 12 bytes or more, the header says {header['frame_header_bytes']:,}"
        )
    return header


class _FrameHeaders:
    """Reads one field of the frame headers for a range of frames.

    Args:
        layout: layout of all frames.
        paths: paths of the files.
    """

    def __init__(self, layout: FrameLayout, paths: Sequence[str]) -> None:
        self.layout = layout
        self.paths = paths

    def read(self, first: int, last: int, at: int, size: int) -> bytes:
        """Read `size` bytes from byte `at` of the header of each frame, one after the other.

        Bytes of missing frames are 0.

        Args:
            first, last: the frames, half-open.
        """
        found: list[bytes] = []
        places = self.layout.locate(np.arange(first, last))
        ends = [*(np.flatnonzero(np.diff(places[:, 0])) + 1).tolist(), len(places)]
        for part, file in zip(
            np.split(places[:, 1] - self.layout.header + at, ends[:-1]),
            places[np.array(ends) - 1, 0].tolist(),
            strict=True,
        ):
            if file < 0:
                found.append(bytes(size * len(part)))
                continue
            try:
                descriptor = open_file(self.paths[file])
                try:
                    got = [read_open(descriptor, size, byte) for byte in part.tolist()]
                finally:
                    os.close(descriptor)
            except OSError as error:
                if isinstance(error, SourceError):
                    raise
                raise SourceError(f"{self.paths[file]}: cannot be read: {error.strerror}", error.errno or 5) from None
            if any(len(one) < size for one in got):
                raise TruncatedSourceError(
                    f"{self.paths[file]}: ends before a frame header that existed when the file was opened"
                )
            found += got
        return b"".join(found)

    def positions(self, first: int, last: int) -> np.ndarray:
        """Return scan x and y of the frames, float32[n, 2]."""
        return np.frombuffer(self.read(first, last, _AT["scan_position_x"], 8), "<f4").reshape(-1, 2)

    def rotator(self, first: int, last: int) -> np.ndarray:
        """Return the rotator index of the frames, int64[n]."""
        return np.frombuffer(self.read(first, last, _AT["rotator_index"], 4), "<u4").astype(np.int64)


def _by_position(headers: _FrameHeaders, frames: int) -> tuple[int, tuple[int, int]] | None:
    """Find (first frame, scan shape) by the scan positions. Returns None if they do not go row by row."""
    seen = headers.positions(0, min(frames, _LOOK))
    starts = np.flatnonzero((seen[:-1] == 0).all(axis=1) & (seen[1:] == (1, 0)).all(axis=1))
    if not len(starts):
        return None
    start = int(starts[0])
    for near in range(start, min(frames, start + _LONGEST_ROW), _LOOK):
        seen = headers.positions(near, min(frames, near + _LOOK))
        expected = np.stack([np.arange(near, near + len(seen)) - start, np.zeros(len(seen))], axis=1)
        ends = np.flatnonzero((seen != expected).any(axis=1))
        if len(ends):
            length = near + int(ends[0]) - start
            return (start, ((frames - start) // length, length)) if (seen[ends[0]] == (0, 1)).all() else None
    return (start, (1, frames - start)) if frames - start <= _LONGEST_ROW else None


def _by_rotator(headers: _FrameHeaders, frames: int) -> tuple[int, tuple[int, int]] | None:
    """Find (first frame, scan shape) by the rotator index.

    The index counts the positions of a square scan from 1. Returns None if it does not.
    """
    seen = headers.rotator(0, min(frames, _LOOK))
    starts = np.flatnonzero((seen[:-1] == 1) & (seen[1:] == 2))
    if not len(starts):
        return None
    start = int(starts[0])
    low, high = 2, frames - start  # numbers of frames that are counted for certain, and perhaps
    while low < high:
        middle = (low + high + 1) // 2
        if int(headers.rotator(start + middle - 1, start + middle)[0]) == middle:
            low = middle
        else:
            high = middle - 1
    side = math.isqrt(low)
    return (start, (side, side)) if side * side == low else None


def _gaps(files: Files, counts: np.ndarray, layout: FrameLayout) -> np.ndarray:
    """Count the frames that are missing in front of each file's first one: int64[n].

    If a file is missing or was cut, the counter in the frame headers tells, if it counts frames.
    """
    gaps = np.zeros(len(files), np.int64)
    if len(files) == 1:
        return gaps
    headers = _FrameHeaders(layout, files.paths)
    ends = counts.cumsum()

    def counter(first: int, n: int) -> np.ndarray:
        return np.frombuffer(headers.read(first, first + n, _AT["counter"], 4), "<u4").astype(np.int64)

    for k in np.flatnonzero(counts[1:] > 0).tolist():
        at = int(ends[k])
        if at and (at < 2 or np.diff(counter(at - 2, 2)) == 1):
            gap = int(np.diff(counter(at - 1, 2))[0]) - 1
            gaps[k + 1] = gap if 0 < gap <= _MOST_BLANK else 0
    return gaps


def _absences(
    files: Files, lost: series.Lost, counts: np.ndarray, rests: np.ndarray, gaps: np.ndarray, record: int
) -> tuple[Absence, ...]:
    """Report the frames that the files lack."""
    found, missing = [], int(gaps.sum())
    holes = series.holes((gaps.cumsum() + counts.cumsum() - counts).tolist(), counts.tolist())
    frames = f", with {series.ranges(holes)}" if holes else ""
    if lost.count:
        said = f"{files.paths[0]}: {lost}{frames}; the series goes on to {os.path.basename(files.paths[-1])}"
        found.append(
            Absence(
                said, MissingSourceError, _BLANK, {"files_missing": lost.count, "frames_missing": missing}, lost.paths
            )
        )
    for k in np.flatnonzero((rests > 0) | (counts == 0)).tolist():
        said = (
            f"{files.paths[k]}: expected whole records of {record:,} bytes, found {counts[k]:,} and {rests[k]:,} bytes"
            " more"
        )
        cut = k < len(files) - 1 and bool(rests[k])
        found.append(Absence(said, TruncatedSourceError if cut else None, _BLANK, {"bytes_left_over": int(rests[k])}))
    if missing and not lost.count:
        k = int(np.flatnonzero(gaps)[0])
        what = "is" if missing == 1 else "are"
        said = (
            f"{files.paths[k - 1]}: ends too early, before {os.path.basename(files.paths[k])} begins:"
            f" {series.ranges(holes)} {what} missing"
        )
        found.append(Absence(said, TruncatedSourceError, _BLANK, {"frames_missing": missing}))
    return tuple(found)


def _unfinished(
    headers: _FrameHeaders, path: str, start: int, nav: tuple[int, int], frames: int
) -> tuple[Absence, ...]:
    """Report frames of an unfinished last row of the scan. Frames recorded after the scan are no loss."""
    end = start + nav[0] * nav[1]
    if end >= frames or not (headers.positions(end, end + 1) == (0, nav[0])).all():
        return ()
    less = frames - end
    said = (
        f"{path}: the scan ends within a row of {nav[1]:,}: its {'frame is' if less == 1 else f'{less:,} frames are'}"
        " left out"
    )
    return (Absence(said, counts={"frames_left_out": less}),)


def open(paths: Sequence[str], *, scan: str = "position") -> list[StoredArray]:
    """Open TVIPS files.

    Args:
        scan: source of the scan's start and shape: "position" (scan positions in the frame
            headers), "rotator" (their rotator index, square scans only) or "none". If nothing is
            found, frames are one axis. sync_offset counts from the start that was found

    Raises:
        FormatError: a header is garbled.
        TruncatedSourceError: there is no whole frame.
        MissingSourceError: files of the series are missing: the first one, or others with an
            unknown number of frames.
        OptionError: `scan` has another value.
    """
    if scan not in ("position", "rotator", "none"):
        raise OptionError(f"scan={scan!r}: expected position, rotator or none")
    members, lost = _series(paths)
    files = Files.stat(members)
    header = _header(files.paths[0])
    dtype = np.dtype(f"<u{header['bits'] // 8}")
    height, width = int(header["y"]), int(header["x"])
    gap = 12 if header["version"] == 1 else int(header["frame_header_bytes"])
    record = gap + height * width * dtype.itemsize
    if record > files.sizes.max():
        raise TruncatedSourceError(
            f"{files.paths[0]}: expected records of {record:,} bytes ({height} × {width} pixels), the largest file has"
            f" {files.sizes.max():,} bytes"
        )
    heads = np.zeros(len(files), np.int64)
    heads[0] = HEADER.itemsize
    counts, rests = np.divmod(np.maximum(files.sizes - heads, 0), record)
    if not counts.any():
        raise TruncatedSourceError(
            f"{files.paths[0]}: expected records of {record:,} bytes ({height} × {width} pixels), found none"
        )
    layout = FrameLayout.of((height, width), counts, word_bytes=dtype.itemsize, file_header=heads, frame_header=gap)
    gaps = _gaps(files, counts, layout)
    if lost.count and not gaps.any():
        raise MissingSourceError(f"{files.paths[0]}: {lost}, and the other files do not tell how many frames they held")
    if gaps.any():
        first = gaps.cumsum() + counts.cumsum() - counts
        layout = FrameLayout.of(
            (height, width), counts, word_bytes=dtype.itemsize, file_header=heads, frame_header=gap, first=first
        )
    absent = _absences(files, lost, counts, rests, gaps, record)
    frames = layout.stored
    there = [field for field in FIELDS if field[2] + 4 <= gap]
    names = {field[0] for field in there}
    headers = _FrameHeaders(layout, files.paths)
    found = None
    if frames > 1 and scan == "position" and "scan_position_y" in names:
        found = _by_position(headers, frames)
    elif frames > 1 and scan == "rotator" and "rotator_index" in names:
        found = _by_rotator(headers, frames)
    nav: tuple[int, ...] = (frames,)
    if found:
        layout = layout.arranged(found[1], found[0])
        nav = found[1]
        absent += _unfinished(headers, files.paths[-1], found[0], found[1], frames) if scan == "position" else ()
    attrs = {
        "header": fields(header),
        "stored_frames": frames,
        "scan_from": scan if found else None,
        "scan_start": found[0] if found else 0,
    }
    if header["pixel_size"] > 0:
        attrs["calibration"] = {
            axis: {"scale": int(header["pixel_size"]), "offset": 0, "unit": "nm"} for axis in ("y", "x")
        }
    main = StoredArray(
        "data",
        files,
        layout,
        PlainDecoder(dtype),
        layout.shape,
        (*nav_dims(len(nav)), "y", "x"),
        len(nav),
        attrs=attrs,
        absent=absent,
    )
    return [
        main,
        *(per_frame(main, name, stored, at, attrs={"unit": unit} if unit else {}) for name, stored, at, unit in there),
    ]


FORMAT = Format(
    "tvips",
    (".tvips",),
    "https://www.tvips.com",
    "TVIPS camera streams, version 1 and 2, one or several files",
    sniff,
    open,
)
