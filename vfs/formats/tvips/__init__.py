"""Reads TVIPS, the stream files of TVIPS cameras (EMplified, EM-Scan).

A set is `<base>_000.tvips`, `<base>_001.tvips`, … There is no public specification; the facts come
from programs that read it. Everything is little endian. File _000 begins with the header of the
series. After it, and in all other files, records follow each other. No record runs on into the next
file::

    series header: 256 bytes, file _000 only
    record:        frame header (12 bytes in version 1, `frame_header_bytes` in version 2) | image,
        Y × X of 8 or 16 bits

The size of a pixel is in nm, or in 1/nm where the first frame was taken in diffraction mode. Frames of a movie that
were taken at even times are calibrated in seconds from the first one on.
The fields of the frame headers are companions. If they hold scan positions (version 2, 76 bytes or
more), the start of the scan and its shape follow from them, across files: it starts at a frame (0,
0) followed by (1, 0), else where the position first changes. Each frame is shown at its position, in
whatever order they were visited. Positions without a frame are blank, and of several frames at a
position the last is shown; both is said.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from vfs.errors import FormatError, MissingSourceError, OptionError, TruncatedSourceError
from vfs.formats import Format, series
from vfs.formats.headers import fields, numbered, read_at
from vfs.formats.tvips.scan import AT, DIFFRACTION, FIELDS, IMAGE, FrameHeaders, by_position, by_rotator
from vfs.formats.tvips.scan import absences as scan_absences
from vfs.formats.written import written_records
from vfs.model.decode import PlainDecoder
from vfs.model.files import Files
from vfs.model.layout import FrameLayout, FrameRecord, Scan
from vfs.model.layout.scan_order import FrameRuns
from vfs.model.metadata import DEGREES, Term, of_epoch
from vfs.model.sources import Sources
from vfs.model.stored import Absence, StoredArray, per_frame, scan_array
from vfs.model.written import Proof, Written
from vfs.sources.names import basename

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

_MAX_BLANK = 1_000_000  # most frames that may be missing between files
_BLANK = "shows these frames as blank"
_NUMBER = re.compile(r"_(\d+)(\.tvips)$", re.IGNORECASE)


def sniff(path: str, first_bytes: bytes, sources: Sources) -> bool:
    """Return True for the header of a series. Later files of the series have no mark but their names."""
    if len(first_bytes) < HEADER.itemsize:
        return False
    hit = _NUMBER.search(path)
    if hit and int(hit[1]) > 0:
        return True
    header = np.frombuffer(first_bytes, HEADER, 1)[0]
    return header["size"] == 256 and header["version"] in (1, 2) and header["bits"] in (8, 16)


def _series(sources: Sources, paths: Sequence[str]) -> tuple[list[str], series.Lost]:
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
    found = numbered(sources, start, hit[2])
    if not found:
        raise MissingSourceError(f"{paths[0]}: no such file")
    if found[0][0] > 0:
        raise MissingSourceError(
            f"{start}{0:0{len(hit[1])}}{hit[2]}: no such file; the series continues to _{found[-1][0]:0{len(hit[1])}}"
        )
    members = [path for _, path in found]
    return members, sum((series.between(a, b) for a, b in pairwise(members)), series.Lost())


def _header(sources: Sources, path: str) -> np.void:
    header: np.void = np.frombuffer(read_at(sources, path, HEADER.itemsize), HEADER)[0]
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


def _gaps(files: Files, counts: np.ndarray, layout: FrameLayout) -> tuple[np.ndarray, tuple[Absence, ...]]:
    """Count the frames that are missing in front of each file's first one, and find files of another run.

    If a file is missing or was cut, the counter in the frame headers tells, if it counts frames. Counters and time
    stamps that go back, or time stamps days apart, are those of another run.

    Returns: (int64[n], what to say of files of another run).
    """
    gaps = np.zeros(len(files), np.int64)
    strange: list[str] = []
    if len(files) == 1:
        return gaps, ()
    headers = FrameHeaders(layout, files)
    ends = counts.cumsum()

    def field(name: str, first: int, n: int) -> np.ndarray:
        return np.frombuffer(headers.read(np.arange(first, first + n), AT[name], 4), "<u4").astype(np.int64)

    for k in np.flatnonzero(counts[1:] > 0).tolist():
        at = int(ends[k])
        if not at:
            continue
        times, numbers = field("timestamp_seconds", at - 1, 2), field("counter", at - 1, 2)
        if times.all() and not series.may_follow(*times.tolist()):
            stamps = [np.datetime64(one, "s") for one in times.tolist()]
            strange.append(f"{files.paths[k + 1]}: begins at {stamps[1]}, the file before it ends at {stamps[0]}")
        if at < 2 or np.diff(field("counter", at - 2, 2)) == 1:
            gap = int(np.diff(numbers)[0]) - 1
            gaps[k + 1] = gap if 0 < gap <= _MAX_BLANK else 0
            back = gap < 0 and numbers[1] != field("counter", 0, 1)[0]  # some count from the start in every file
            if back and not strange:
                strange.append(
                    f"{files.paths[k + 1]}: begins with frame number {numbers[1]:,}, the file before it ends with"
                    f" {numbers[0]:,}"
                )
    return gaps, series.of_another_run(strange)


def _lost_within(files: Files, headers: FrameHeaders, stored: FrameRuns) -> tuple[Absence, ...]:
    """Say that frames were lost within files, where no position tells where the others belong.

    The counter tells, if it counts the first frames and the last ones.

    Args:
        stored: the numbers of the frames that are stored.
    """
    if len(stored) < 4:
        return ()
    ends = stored.at(np.array([0, 1, len(stored) - 2, len(stored) - 1]))
    numbers = np.frombuffer(headers.read(ends, AT["counter"], 4), "<u4").astype(np.int64)
    lost = int(numbers[3] - numbers[0] - (ends[3] - ends[0]))
    if lost < 1 or lost > _MAX_BLANK or (np.diff(numbers)[[0, 2]] != 1).any():
        return ()
    said = (
        f"{files.paths[0]}: by the counter in its frame headers, {lost:,} {'frame was' if lost == 1 else 'frames were'}"
        " lost between others, which follow on each other here"
    )
    return (Absence(said),)


def _absences(
    files: Files, lost: series.Lost, counts: np.ndarray, rests: np.ndarray, gaps: np.ndarray, record: int
) -> tuple[Absence, ...]:
    """Report the frames that the files lack."""
    found, missing = [], int(gaps.sum())
    holes = series.holes((gaps.cumsum() + counts.cumsum() - counts).tolist(), counts.tolist())
    frames = f", with {series.ranges(holes)}" if holes else ""
    if lost.count:
        said = f"{files.paths[0]}: {lost}{frames}; the series continues to {basename(files.paths[-1])}"
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
        unknown = k == 0 and not counts[0]  # nothing tells how many frames are in front of the next file
        cut = k < len(files) - 1 and (unknown or bool(rests[k]))
        allowed = "begins with the first frame that is there" if unknown else _BLANK
        left, last = {"bytes_left_over": int(rests[k])}, bool(k == len(files) - 1)
        found.append(Absence(said, TruncatedSourceError if cut else None, allowed, left, to_come=last))
    if missing and not lost.count:
        k = int(np.flatnonzero(gaps)[0])
        what = "is" if missing == 1 else "are"
        said = (
            f"{files.paths[k - 1]}: ends too early, before {basename(files.paths[k])} begins:"
            f" {series.ranges(holes)} {what} missing"
        )
        found.append(Absence(said, TruncatedSourceError, _BLANK, {"frames_missing": missing}))
    return tuple(found)


def _frames(
    files: Files, lost: series.Lost, sig: tuple[int, int], word_bytes: int, gap: int
) -> tuple[FrameLayout, FrameRuns, tuple[Absence, ...], Proof | None]:
    """Find the frames in the files of a series.

    Args:
        lost: the files that the series lacks.
        gap: bytes of a frame's header.

    Returns: (the frames along one axis, the numbers of those that are stored, what is absent, what tells of each that
            it was written).
    """
    record = gap + math.prod(sig) * word_bytes
    heads = np.zeros(len(files), np.int64)
    heads[0] = HEADER.itemsize
    counts, rests = np.divmod(np.maximum(files.sizes - heads, 0), record)
    counts, unwritten, proof, _ = written_records(files, heads, record, counts, Proof(0, min(12, gap)))
    if not counts.any():
        raise TruncatedSourceError(
            f"{files.paths[0]}: expected records of {record:,} bytes ({sig[0]} × {sig[1]} pixels), found none"
        )
    held = FrameRecord(sig, word_bytes, header=gap)
    layout = FrameLayout.of(held, counts, file_header=heads)
    gaps, strange = _gaps(files, counts, layout)
    if lost.count and not gaps.any():
        raise MissingSourceError(f"{files.paths[0]}: {lost}, and the other files do not tell how many frames they held")
    first = gaps.cumsum() + counts.cumsum() - counts
    if gaps.any():
        layout = FrameLayout.of(held, counts, file_header=heads, first=first)
    absent = unwritten + strange + _absences(files, lost, counts, rests, gaps, record)
    return layout, FrameRuns(first, counts), absent, proof


def open(
    paths: Sequence[str], sources: Sources, *, scan: Literal["position", "rotator", "none"] = "position"
) -> list[StoredArray]:
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
    """
    members, lost = _series(sources, paths)
    files = Files.stat(sources, members)
    header = _header(sources, files.paths[0])
    dtype = np.dtype(f"<u{header['bits'] // 8}")
    height, width = int(header["y"]), int(header["x"])
    gap = 12 if header["version"] == 1 else int(header["frame_header_bytes"])
    record = gap + height * width * dtype.itemsize
    if record > files.sizes.max():
        raise TruncatedSourceError(
            f"{files.paths[0]}: expected records of {record:,} bytes ({height} × {width} pixels), the largest file has"
            f" {files.sizes.max():,} bytes"
        )
    layout, stored, absent, proof = _frames(files, lost, (height, width), dtype.itemsize, gap)
    frames = layout.stored
    there = [field for field in FIELDS if field[2] + 4 <= gap]
    names = {field[0] for field in there}
    headers = FrameHeaders(layout, files)
    found = None
    if frames > 1 and scan == "position" and "scan_position_y" in names:
        found = by_position(headers, stored)
    elif frames > 1 and scan == "rotator" and "rotator_index" in names:
        found = by_rotator(headers, stored)
    if found:
        layout = layout.arranged(Scan(found.nav, found.start))
        layout = layout.ordered(found.order) if found.order else layout
        absent += scan_absences(headers, files.paths[-1], found, frames) if "scan_position_y" in names else ()
    else:
        absent += _lost_within(files, headers, stored)
    attrs = {
        "header": fields(header),
        "stored_frames": frames,
        "scan_from": scan if found else None,
        "scan_start": found.start if found else 0,
    }
    first = headers.first(stored, gap)
    attrs |= {"first_frame": first} if first else {}
    steps = {}
    if len(stored) > 1 and not found and (step := headers.step(stored)):
        steps["frame"] = step, "s"
    if header["pixel_size"] > 0:
        unit = "1/nm" if first.get("mode") == DIFFRACTION else "nm"
        steps |= dict.fromkeys(("y", "x"), (int(header["pixel_size"]), unit))
    if steps:
        attrs["calibration"] = {
            axis: {"scale": scale, "offset": 0, "unit": unit} for axis, (scale, unit) in steps.items()
        }
    main = scan_array(files, layout, PlainDecoder(dtype), attrs=attrs, absent=absent, written=Written(proof=proof))
    return [
        main,
        *(
            per_frame(main, name, stored, at, attrs={"unit": unit} if unit else {}, coordinate=unit == "deg")
            for name, stored, at, unit in there
        ),
    ]


def _when(first: Any) -> str | None:
    """Return the time of a frame, in UTC."""
    seconds, more = (first.get(f"timestamp_{part}") for part in ("seconds", "milliseconds"))
    return of_epoch(seconds + more / 1000) if seconds and more is not None and more < 1000 else of_epoch(seconds)


def _mode(mode: Any) -> str | None:
    return {IMAGE: "image", DIFFRACTION: "diffraction"}.get(mode)


TERMS = (
    Term("time", "first_frame", take=_when),
    Term("mode", "first_frame:mode", take=_mode),
    Term("beam_energy", "header:high_tension", 1e3, zero=False),
    Term("magnification", "header:magnification", zero=False, given=("first_frame:mode", str(IMAGE))),
    Term("stage.alpha", "first_frame:stage_alpha", DEGREES),
    Term("stage.beta", "first_frame:stage_beta", DEGREES),
    Term("binning", "header:x_binning"),
)
"""What the header and that of the first frame say, in the vocabulary of `vfs.model.metadata`.

In what unit the camera length is, and the place of the stage, nobody knows.
"""

FORMAT = Format(
    "tvips",
    (".tvips",),
    "https://www.tvips.com",
    "TVIPS camera streams, version 1 and 2, one or several files",
    sniff,
    open,
    terms=TERMS,
)
