"""Reads MIB, the files of Quantum Detectors' Merlin detectors (Medipix3).

A set is `<prefix><digits>.mib` files and a text file `<prefix>.hdr`. Files hold records, one a
frame::

    file:   | record | record | …                 a partial last record is left out, with a warning
    record: | header, ASCII, NUL padded | pixels |

A frame's header is comma separated: 0 `MQ1`, 1 sequence number, 2 header size in bytes, 3 number of
chips, 4 x and 5 y size, 6 pixel type, 7 sensor layout (`1x1`, `2x2`, `Nx1`; a `G` says that gap
pixels are inserted), 8 chip select mask, 9 time, 10 exposure in s, 11 counter, 12 colour mode, 13
gain mode, 14 to 21 thresholds in keV, settings of every chip; newer software appends `MQ1A`, time
in UTC to the nanosecond, exposure in ns, counter depth in bits. Files are ordered by their first
sequence number, not by their names; for missing ones see `vfs.formats.mib.absent`, for frames that the
detector lost `vfs.formats.mib.lost`. Frames that were
recorded behind each line of a scan while the beam returned are left out where the .hdr has `LineSkip`, or a
trigger a line with more frames than `ScanX`; where it has not, `line_skip` leaves them out, and surplus
frames that may be these are said.

Pixel types U08, U16 and U32 are big-endian images. R64 is the raw output of the chip, big-endian
64-bit words (see `vfs.kernels.unpack`), whose contents depend on the counter depth::

    depth   pixels a word   bytes a frame   dtype
      1          64            y*x/8        uint8
      6           8            y*x          uint8
     12           4            y*x*2        uint16
     24           4            y*x*4        uint32   two images, high 12 bits first; x counts both

R64 of four chips (2x2) stores every row of the sectors side by side, `[bottom right | bottom left |
top right | top left]`, where the lower sectors are turned by 180 degrees: x = 4w and y = h in the
header are an image of 2h rows of 2w pixels.

Rows are shown as they are stored, which is bottom first: the vendor's viewer, RosettaSciIO and
HyperSpy turn images over. `flip_y=True` does the same; the attribute `rows` says which row comes first.

The facts come from real files, and from the code of LiberTEM 0.16 and RosettaSciIO 0.15. R64 of 24
bits with four chips is assumed to follow the same rule: no such file was at hand. R64 of other
layouts is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from vfs.errors import FormatError, MissingSourceError, OptionError, TruncatedSourceError
from vfs.formats import Format
from vfs.formats.headers import left_out
from vfs.formats.mib.absent import StoredFrames, absences, behind_the_scan, in_front, without_frames
from vfs.formats.mib.decoders import StampDecoder
from vfs.formats.mib.heads import Geometry, MibFiles, first_frames, pixels
from vfs.formats.mib.lost import BEGIN, in_runs, out_of_order
from vfs.formats.mib.runs import hdr_of_another_run, strangers
from vfs.formats.mib.scan import count_in, scan_said
from vfs.formats.mib.unseen import look_at_some
from vfs.formats.written import written_records
from vfs.model.layout import FrameLayout, FrameRecord, Scan, altered, mirrored, whole_frame
from vfs.model.metadata import Term
from vfs.model.sources import Sources
from vfs.model.stored import BOTTOM_FIRST, TOP_FIRST, Absence, StoredArray, scan_array
from vfs.model.written import Proof, Written
from vfs.sources.names import split, splitext

_PROOF = Proof(0, BEGIN, known=True)  # a header begins with MQ1
_MAX_HDR = 1 << 16  # most bytes of a .hdr file
_NUMBER = re.compile(r"[0-9]+(\.[0-9]*)?(E[+-]?[0-9]{1,3})?")


def sniff(path: str, first_bytes: bytes, sources: Sources) -> bool:
    return first_bytes.startswith(b"HDR,") and path.lower().endswith(".hdr")


def open(paths: Sequence[str], sources: Sources, *, series: bool = True, flip_y: bool = False) -> list[StoredArray]:
    """Open MIB files.

    Args:
        series: if a single .mib file is named, open all files of its series and their .hdr; if
            false, only that file
        flip_y: show the top row first, which is the last one of the file, as the vendor's viewer, RosettaSciIO
            and HyperSpy do

    Raises:
        FormatError: a file is not a MIB file, a header is garbled, files do not belong together, or
            there is no whole frame.
        OptionError: several .hdr files are named, or one without its .mib files.
        MissingSourceError, SourceError: a file cannot be opened.
    """
    hdr_path, mib_paths, whole_series = _members(sources, paths, series)
    hdr, whole_hdr, garbled = _read_hdr(sources, hdr_path, hdr_path in paths) if hdr_path else ({}, True, ())
    geometry, found, empty = look_at_some(sources, mib_paths, hdr)
    decoder, sig, payload, pieces = pixels(found.files.paths[0], geometry)
    if flip_y:
        pieces = mirrored(pieces, 0)

    stored, unwritten = _stored(found, geometry, geometry.header + payload)
    said = scan_said(hdr_path, hdr, stored.span)
    front = in_front(stored, said.expected)
    layout = FrameLayout.of(
        FrameRecord(
            sig, decoder.word_bytes, decoder.word_pixels, payload=payload, header=geometry.header, pieces=pieces
        ),
        stored.counts,
        file_header=stored.ahead * stored.record,
        first=stored.begin + front,
        files=stored.full,
    )

    nav, skip = said.shown(layout.stored), said.line_skip
    absent = (
        garbled
        + (hdr_of_another_run(hdr_path, hdr, geometry, found) if hdr_path else ())
        + strangers(found)
        + without_frames(empty, found.files.paths)
        + out_of_order(stored)
        + unwritten
        + absences(hdr_path or found.files.paths[0], stored, front, said, nav, whole_series)
    )
    if said.sure and hdr_path:
        frames = count_in(hdr, "Frames in Acquisition (Number)")
        absent += behind_the_scan(hdr_path, frames, said.expected, stored.span)
    if not whole_hdr:
        absent += (
            Absence(f"{hdr_path}: ends without a line 'End', it looks cut: some lines on the scan may be missing"),
        )
    files = found.files
    attrs = _attrs(found, geometry, hdr) | {
        "frames": layout.stored,
        "rows": TOP_FIRST if flip_y else BOTTOM_FIRST,
    }
    declared = said.expected - skip if said.expected else None  # those behind the last line may be left out
    shown = layout.arranged(Scan(nav, line_skip=skip))
    main = scan_array(files, shown, decoder, attrs=attrs, absent=absent, written=Written(declared, _PROOF))
    return [main, *_stamps(main, layout, geometry.header, skip)]


def _stored(found: MibFiles, geometry: Geometry, record: int) -> tuple[StoredFrames, tuple[Absence, ...]]:
    """Return the whole frames that the files hold, of `record` bytes each, and what to say of frames without a header.

    Raises:
        TruncatedSourceError: there is none.
    """
    counts, unwritten, _, lasts = written_records(found.files, 0, record, found.files.sizes // record, _PROOF)
    full = np.flatnonzero(counts)
    if not len(full):
        raise TruncatedSourceError(
            f"{found.files.paths[0]}: expected at least one frame of {record:,} bytes ({geometry}), the file has"
            f" {found.files.sizes[0]:,}; it looks truncated"
        )
    counts = counts[full]
    stored = StoredFrames(found, full, counts, first_frames(found, full, counts, record), record)
    return in_runs(stored, lasts), unwritten


def _stamps(main: StoredArray, layout: FrameLayout, header: int, line_skip: int) -> Iterator[StoredArray]:
    """Yield the companions that the frames' headers hold: the time and the exposure of each frame.

    Args:
        layout: the frames of `main` along one axis.
        header: bytes of a frame's header.
    """
    nav = main.nav_ndim
    shape, names = main.shape[:nav], main.dims[:nav]
    heads = altered(layout, sig_shape=(), header=0, word_bytes=header, word_pixels=1, pieces=whole_frame(()))
    beside = altered(
        main,
        layout=heads.arranged(Scan(shape, line_skip=line_skip)),
        shape=shape,
        dims=names,
        companion=True,
    )
    for name, units, about in (
        (
            "timestamp",
            "nanoseconds since 1970-01-01",
            "start of the frame: UTC, of older software (no MQ1A) local time; 0 where no frame is stored",
        ),
        ("exposure", "s", "shutter open time; 0 where no frame is stored"),
    ):
        decoder = StampDecoder(main.files.paths, header, name == "exposure")
        yield altered(beside, path=name, decoder=decoder, attrs={"about": about}, conventions={"units": units})


def _members(sources: Sources, paths: Sequence[str], series: bool) -> tuple[str | None, list[str], bool]:
    """Find the files of a set.

    A .hdr stands for all files with its name, with or without a number after it. A .mib stands for
    the files of its own .hdr, or if it has none, for the files with the same name up to the digits
    at the end. A file that has a .hdr of its own belongs to that one only.

    Returns: (the .hdr file or None, the .mib files, True if one named file stands for them).
    """
    hdr_paths = [p for p in paths if p.lower().endswith(".hdr")]
    if len(hdr_paths) > 1:
        raise OptionError(
            f"{hdr_paths[1]}: expected files of one set, found a second .hdr; open {hdr_paths[0]} and this one"
            " separately"
        )
    folder, name = split(paths[0])
    stem, ending = splitext(name)
    if len(paths) > 1 or ending.lower() not in (".mib", ".hdr") or not (series or hdr_paths):
        return (hdr_paths[0] if hdr_paths else None), [p for p in paths if p not in hdr_paths], False
    names: Sequence[str] = ()
    with suppress(MissingSourceError):
        names = sources.names(folder)
    if name not in names:
        raise MissingSourceError(f"{paths[0]}: no such file")
    hdrs = {n[:-4]: n for n in names if n[-4:].lower() == ".hdr"}
    prefix, between = (stem, " _-") if stem in hdrs else (stem.rstrip("0123456789"), "")
    mine = [n for n in names if _belongs(n, prefix, between) and (n[:-4] not in hdrs or n[:-4] == prefix)]
    if not mine:
        raise MissingSourceError(
            f"{paths[0]}: expected its data in {prefix}.mib or {prefix}<number>.mib beside it, found no such file"
        )
    hdr = hdrs.get(prefix) or hdrs.get(prefix.rstrip(" _-"))
    return (f"{folder}/{hdr}" if hdr else None), [f"{folder}/{n}" for n in mine], True


def _belongs(name: str, prefix: str, between: str) -> bool:
    """Return True for names of prefix, at most one of the characters `between`, any digits, and .mib.

    A regular expression would be shorter, but compiling it would take longer than opening the set.
    """
    if not name.startswith(prefix) or name[-4:].lower() != ".mib":
        return False
    digits = name[len(prefix) : -4]
    if digits and digits[0] in between:
        digits = digits[1:]
    return not digits or (digits.isascii() and digits.isdigit())


def _read_hdr(sources: Sources, path: str, named: bool) -> tuple[dict[str, str], bool, tuple[Absence, ...]]:
    """Read a .hdr file: lines `key:<TAB>value` between `HDR,` and `End`.

    Args:
        named: True if the user named it, and not one of the .mib files.

    Returns: ({key: value}, True if the line `End` exists, what cannot be understood).
    """
    text = sources.read(path, 0, _MAX_HDR).decode("latin-1")
    if not text.startswith("HDR,"):
        error = FormatError(f"{path}: expected a Merlin header file that begins with 'HDR,', found {text[:16]!r}")
        if named:
            raise error
        return {}, True, (left_out(error),)
    lines = text.splitlines()[1:]
    pairs = (line.split(":\t", 1) for line in lines)
    found = {pair[0].strip(): pair[1].strip() for pair in pairs if len(pair) == 2}
    return found, any(line.rstrip() == "End" for line in lines), ()


def _attrs(found: MibFiles, geometry: Geometry, hdr: dict[str, str]) -> dict[str, Any]:
    """Return attributes from the header of the first frame and from the .hdr file."""
    head = found.head
    if len(head) < min(geometry.header, found.files.sizes.item(0)):
        head = found.files.sources.read(found.files.paths[0], 0, geometry.header)
    text = head[: geometry.header].partition(b"\0")[0].decode("latin-1")
    fields = list(map(str.strip, text.split(",")))
    fields += [""] * (22 - len(fields))
    time, exposure, depth = (
        (*fields[fields.index("MQ1A") + 1 :], "", "", "")[:3] if "MQ1A" in fields else (fields[9], fields[10], "")
    )
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


TERMS = (
    Term("time", "time"),
    Term("software", "hdr:Software Version"),
    Term("detector", "hdr:Readout System"),
    Term("gain", "hdr:Gain"),
    Term("exposure_time", "exposure_s"),
    Term("threshold_energy", "thresholds_keV", 1e3),
)
"""What headers and the .hdr say, in the vocabulary of `vfs.model.metadata`."""

FORMAT = Format(
    "mib",
    (".mib", ".hdr"),
    "https://quantumdetectors.com/products/merlinem/",
    "Quantum Detectors Merlin (Medipix3): .mib series with .hdr",
    sniff,
    open,
    index_extensions=(".hdr",),
    terms=TERMS,
    first_bytes=(b"MQ1,",),
)
