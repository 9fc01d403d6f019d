"""Reads SEQ, the sequences of NorPix StreamPix, versions 3 to 5: https://www.norpix.com

Direct Electron cameras write them, too. The specification comes with StreamPix (Help, Sequence File
Format). Everything is little endian::

    header, 1,024 bytes (8,192 from version 5 on) | record 0 | record 1 | …
    record: image | time stamp: seconds u4, milliseconds u2, microseconds u2 (version 5) | filler up
        to `true_image_size`

The number of frames follows from the file's size, since the number in the header is often wrong (if
it is larger, there is a warning). Time stamps are companions. Only uncompressed monochrome images
are supported; errors name the kind of others. Files that are named together follow each other; a
gap in their numbers means a missing file, which is an error (see `vfs.formats.numbering`).

Direct Electron puts files beside a sequence: see `vfs.formats.seq.direct_electron`, and for the
scan of a movie `NAME_movie.seq` `vfs.formats.direct_electron`.

Celeritas cameras write the upper and the lower half of the image into separate files,
`<base>_Top_<time>.seq` and `<base>_Bottom_<time>.seq`; each record holds many half frames. Both
files together open as whole frames: the upper half, mirrored in y, above the lower half. So does one
that is named, if the other is beside it (`vfs.formats.seq.halves`); without the other, or with
`plain=True`, a file opens as it is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from vfs.errors import FormatError, OptionError
from vfs.formats import Format
from vfs.formats.direct_electron import MovieScan, info_of, info_of_another_run, scan_of
from vfs.formats.headers import exists, fields, read_at
from vfs.formats.numbering import Joined, joined
from vfs.formats.recorded import left_over, without_records
from vfs.formats.seq.direct_electron import Beside
from vfs.formats.seq.halves import half_of, other_half
from vfs.formats.written import written_records
from vfs.model.decode import PlainDecoder
from vfs.model.files import Files
from vfs.model.layout import FrameLayout, FrameRecord, Scan, altered
from vfs.model.metadata import Term
from vfs.model.sources import Sources
from vfs.model.stored import Absence, StoredArray, per_frame
from vfs.model.wording import Word, format_option, option
from vfs.model.written import Proof, Written

HEADER = np.dtype(
    [
        ("_magic", "<u4"),  # 0xFEED
        ("_name", "S24"),  # "Norpix seq", UTF-16
        ("version", "<i4"),  # 3 to 5
        ("header_size", "<i4"),  # 1024, not where the images start
        ("_description", "V512"),  # UTF-16
        ("width", "<u4"),  # pixels
        ("height", "<u4"),
        ("bit_depth", "<u4"),  # bits a pixel has in the file: 8, 16, 32
        ("bit_depth_real", "<u4"),  # bits that mean something
        ("image_size", "<u4"),  # bytes
        ("image_format", "<u4"),
        ("allocated_frames", "<u4"),
        ("origin", "<u4"),
        ("true_image_size", "<u4"),  # bytes from record to record
        ("frame_rate", "<f8"),  # 1/s, suggested
        ("description_format", "<i4"),
        ("reference_frame", "<u4"),
        ("fixed_size", "<u4"),
        ("flags", "<u4"),
        ("bayer_pattern", "<i4"),
        ("time_offset_us", "<i4"),
        ("extended_header_size", "<i4"),
        ("compression", "<u4"),
        ("reference_time_s", "<i4"),
        ("reference_time_ms", "<u2"),
        ("reference_time_us", "<u2"),
    ]
)
_MONO = 100
_FORMATS = {
    0: "unknown",
    101: "raw Bayer",
    112: "monochrome, high bits first",
    113: "raw Bayer, high bits first",
    114: "monochrome, high bits first, swapped",
    115: "raw Bayer, high bits first, swapped",
    123: "packed 10-bit BGR",
    124: "packed 10-bit BGR",
    125: "packed 10-bit RGB",
    131: "packed monochrome",
    132: "packed raw Bayer",
    133: "packed monochrome",
    134: "packed raw Bayer",
    135: "packed 10-bit BGR",
    136: "packed 10-bit BGR",
    200: "BGR colour",
    300: "planar colour",
    400: "RGB colour",
    500: "BGRx colour",
    600: "YUV 4:2:2 colour",
    610: "YUV 4:2:2 colour",
    620: "packed YUV 4:2:2 colour",
    700: "UVY 4:2:2 colour",
    800: "UVY 4:1:1 colour",
    900: "UVY 4:4:4 colour",
    905: "packed BGR 5:5:5 colour",
    906: "packed BGR 5:6:5 colour",
    1000: "Basler's own",
    1001: "Euresys JPEG",
    1002: "ISG JPEG",
}
_COMPRESSIONS = {
    1: "JPEG",
    2: "RLE",
    3: "Huffman",
    4: "LZ",
    5: "fast RLE",
    6: "fast Huffman",
    7: "fast LZ",
    8: "H.264",
    9: "wavelet",
}
_METADATA = ".seq.metadata"
_NOT_SAID = (0, (1 << 32) - 1)  # numbers of frames in a header that mean "unknown"


_MARK = b"\xed\xfe\x00\x00" + "Norpix seq".encode("utf-16-le")


def sniff(path: str, first_bytes: bytes, sources: Sources) -> bool:
    """Return True for the `.metadata` of a sequence that lies beside it."""
    return path.lower().endswith(_METADATA) and exists(sources, path[: -len(_METADATA) + 4])


_SIDES = (".seq.metadata", ".seq.config.metadata.xml", ".seq.dark.mrc", ".seq.gain.mrc")


def _sequences(paths: Sequence[str]) -> list[str]:
    """Return the sequences of files that are named: files beside one of them are left out, alone they stand for it."""
    named = [path for path in paths if not path.lower().endswith(_SIDES)]
    bases = {*named, *(f"{half[0]}.seq" for half in map(half_of, named) if half)}
    others = [path for path in paths if path not in named and path[: path.lower().rindex(".seq") + 4] not in bases]
    return [*named, *dict.fromkeys(map(_sequence_of, others))]


def _sequence_of(path: str) -> str:
    """Return the sequence that a `.metadata` beside it names; any other path as it is."""
    return path[: -len(_METADATA) + 4] if path.lower().endswith(_METADATA) else path


@dataclass(frozen=True)
class _Sequence:
    """Holds the parsed header of a file.

    Attributes:
        first: bytes before the first record.
        stride: bytes from record to record.
        frames: number of whole records.
        rest: bytes behind them.
    """

    header: np.void
    description: str
    sig_shape: tuple[int, int]
    dtype: np.dtype
    first: int
    stride: int
    frames: int
    rest: int

    @property
    def stamp(self) -> int:
        """The byte of the record at which the time stamp starts."""
        return self.sig_shape[0] * self.sig_shape[1] * self.dtype.itemsize


def _sequence(sources: Sources, path: str, size: int) -> _Sequence:
    header: np.void = np.frombuffer(read_at(sources, path, HEADER.itemsize), HEADER)[0]
    version, width, height, depth = (int(header[name]) for name in ("version", "width", "height", "bit_depth"))
    if header["_magic"] != 0xFEED:
        raise FormatError(f"{path}: expected a Norpix sequence, it begins with {int(header['_magic']):#x}")
    if not 3 <= version <= 5:
        raise FormatError(f"{path}: expected a sequence of version 3 to 5, found {version}")
    if header["compression"]:
        name = _COMPRESSIONS.get(int(header["compression"]), f"method {header['compression']}")
        raise FormatError(
            f"{path}: its images are compressed ({name}); only uncompressed sequences are read, export it uncompressed"
            " from StreamPix"
        )
    if header["image_format"] != _MONO:
        name = _FORMATS.get(int(header["image_format"]), f"format {header['image_format']}")
        raise FormatError(
            f"{path}: its images are {name}; only monochrome sequences (format 100) are read, others with"
            f" {option(format='raw')}"
        )
    stride = int(header["true_image_size"])
    nbytes = width * height * depth // 8
    if depth not in (8, 16, 32) or width < 1 or height < 1 or header["image_size"] != nbytes or stride < nbytes:
        raise FormatError(
            f"{path}: the header says {height:,} × {width:,} pixels of {depth} bits in {header['image_size']:,} bytes,"
            f" {stride:,} from image to image; expected 8, 16 or 32 bits, {nbytes:,} bytes, and no less from image to"
            " image"
        )
    first = 8192 if version >= 5 else 1024
    frames = max(size - first, 0) // stride
    if frames < 1:
        raise without_records(path, "images", stride, first, size)
    text = header["_description"].tobytes().decode("utf-16-le", "replace").split("\0")[0].strip()
    return _Sequence(
        header, text, (height, width), np.dtype(f"<u{depth // 8}"), first, stride, frames, (size - first) % stride
    )


def open(
    paths: Sequence[str], sources: Sources, *, segment: int | None = None, plain: bool = False
) -> list[StoredArray]:
    """Open SEQ files: one, several that follow each other, or both halves of a Celeritas camera.

    Args:
        segment: number of half frames in a record of a Celeritas camera; by default
            SegmentPreBuffer in its .Config.Metadata.xml
        plain: show the records of one half of a Celeritas camera as they are stored, and do not
            look for the other half

    Raises:
        FormatError: a header is garbled, images are compressed or in colour, or files differ.
        TruncatedSourceError: a file has no whole image.
        OptionError: the halves cannot be put together.
    """
    files = Files.stat(sources, _sequences(paths))
    half = half_of(files.paths[0])
    beside = Beside.of(sources, half[0] + ".seq" if half else files.paths[0], files.paths[0] + ".metadata")
    alone = len(files) == 1 and not plain and half is not None
    if alone and (segment or beside.segment) and (other := other_half(sources, files.paths[0])):
        files = Files.stat(sources, [files.paths[0], other])
    parts = [_sequence(sources, path, size) for path, size in zip(files.paths, files.sizes.tolist(), strict=True)]
    room = sum(part.frames for part in parts)
    parts, unwritten, proof = _written(files, parts)
    alike = [(part.sig_shape, part.dtype, part.stride, part.first) for part in parts]
    for path, mine in zip(files.paths, alike, strict=True):
        if mine != alike[0]:
            raise FormatError(
                f"{path}: differs from {files.paths[0]} in image shape, bits, record size or version; files that follow"
                " each other are alike"
            )
    which = [half[1] if (half := half_of(path)) else "" for path in files.paths]
    split = {"top", "bottom"} <= set(which)
    row = joined(sources, files.paths, [0] if split else [part.frames for part in parts])
    info = {} if split else info_of(sources, files.paths[0])
    scan = scan_of(sources, files.paths[0], info, sum(part.frames for part in parts))
    main, *stamps = (
        _halves(files, parts, which, segment or beside.segment, beside) if split else _frames(files, parts, row, scan)
    )
    if unwritten and not split and len(scan.nav) == 1:  # the end is blank
        main, *stamps = (_as_long(one, room) for one in (main, *stamps))
    attrs = {
        "header": {**fields(parts[0].header), "description": parts[0].description},
        "stored_frames": main.layout.stored_frames(main.nav_ndim),
        **beside.attrs,
        **({"info": info} if info else {}),
        **({"scan_order": scan.said} if scan.said else {}),
    }
    rate = beside.rate(split) or float(parts[0].header["frame_rate"]) * (
        main.shape[0] / min(part.frames for part in parts) if split else 1
    )
    if 0 < rate < 1e12 and not scan.said:
        attrs["calibration"] = {"frame": {"scale": 1 / rate, "offset": 0.0, "unit": "s"}}
    companions, left_out = beside.companions(main.shape[main.nav_ndim :])
    if left_out:
        attrs["left_out"] = left_out
    absent = row.absent + unwritten + _absent(files, parts, split) + scan.absent
    absent += info_of_another_run(files.paths[0], info, parts[0].sig_shape)
    if alone and not split:
        absent += (_without_other(files.paths[0], which[0]),)
    shown = (altered(main, attrs=attrs, written=Written(proof=proof)), *stamps, *companions)
    return [altered(one, absent=absent) for one in shown]


def _as_long(array: StoredArray, count: int) -> StoredArray:
    """Return an array of frames with so many, of which the last ones are blank."""
    return altered(array, layout=array.layout.arranged(Scan((count,))), shape=(count, *array.shape[1:]))


def _written(files: Files, parts: list[_Sequence]) -> tuple[list[_Sequence], tuple[Absence, ...], Proof | None]:
    """Leave out the records that nobody wrote: the time stamp behind an image is never 0."""
    one = parts[0]
    room = min(8, one.stride - one.stamp)
    if room < 6 or any(part.stride != one.stride for part in parts):
        return parts, (), None
    counts = np.array([part.frames for part in parts])
    made, absent, proof, _ = written_records(
        files, [part.first for part in parts], one.stride, counts, Proof(one.stamp, room, behind=True), "blank"
    )
    return [replace(part, frames=n) for part, n in zip(parts, made.tolist(), strict=True)], absent, proof


def _absent(files: Files, parts: Sequence[_Sequence], split: bool) -> tuple[Absence, ...]:
    """Report missing data: images that only headers count, cut records, halves without the other half."""
    found = []
    for n, (path, part) in enumerate(zip(files.paths, parts, strict=True)):
        said = int(part.header["allocated_frames"])
        if said > part.frames and said not in _NOT_SAID:
            line = f"{path}: the header says {said:,} images, {part.frames:,} are stored"
            found.append(Absence(line, counts={"frames_missing": said - part.frames}, to_come=n == len(parts) - 1))
        elif said < part.frames and said not in _NOT_SAID:
            line = f"{path}: the header says {said:,} images, {part.frames:,} are stored: all are shown"
            found.append(Absence(line, to_come=n == len(parts) - 1))
        if first := int(part.header["origin"]):
            line = f"{path}: the header says that recording went round in a loop and began with image {first:,}"
            found.append(Absence(f"{line}; images are shown in the order of the file", arrangement=True))
        if part.rest:
            inside = n < len(parts) - 1 and not split
            found.append(left_over(path, "images", part.rest, refused=inside, to_come=not inside))
    if split and parts[0].frames != parts[1].frames:
        more = abs(parts[0].frames - parts[1].frames) * parts[0].stride
        line = (
            f"{files.paths[0]}: has {parts[0].frames:,} records of half images, {files.paths[1]} {parts[1].frames:,};"
            " single halves are not shown"
        )
        found.append(Absence(line, counts={"bytes_left_over": more}, to_come=True))
    return tuple(found)


def _without_other(path: str, which: str) -> Absence:
    """Report a file of half frames that is shown as it is stored."""
    other = "Bottom" if which == "top" else "Top"
    line = (
        f"{path}: holds half frames ({which}), and is shown as it is stored; whole frames need one file with the others"
        f" (_{other}_, of about its time) beside it, and SegmentPreBuffer in its .Config.Metadata.xml or"
        f" {format_option(segment=Word('…'))}"
    )
    return Absence(line)


def _stamps(version: int, room: int) -> list[tuple[str, str, int, str]]:
    """Return the parts of a time stamp for which a record has room.

    Returns: (name, dtype, byte after the image, unit) of each.
    """
    parts = [
        ("timestamp_seconds", "<u4", 0, "s since 1970-01-01"),
        ("timestamp_milliseconds", "<u2", 4, "ms"),
        ("timestamp_microseconds", "<u2", 6, "µs"),
    ]
    return [part for part in parts[: 3 if version >= 5 else 2] if part[2] + int(part[1][2]) <= room]


def _frames(files: Files, parts: Sequence[_Sequence], row: Joined, scan: MovieScan) -> list[StoredArray]:
    """Make the arrays of files that follow each other."""
    one = parts[0]
    room = one.stride - one.stamp
    counts = [part.frames for part in parts]
    layout = FrameLayout.of(
        FrameRecord(one.sig_shape, one.dtype.itemsize, footer=room), counts, file_header=one.first, first=row.first
    )
    if scan.said:
        layout = scan.shown(layout)
    dims = (*scan.dims, "y", "x")
    main = StoredArray("data", files, layout, PlainDecoder(one.dtype), layout.shape, dims, len(scan.nav))
    stamps = _stamps(int(one.header["version"]), room)
    return [
        main,
        *(per_frame(main, name, stored, one.stamp + at, attrs={"unit": unit}) for name, stored, at, unit in stamps),
    ]


def _halves(
    files: Files, parts: Sequence[_Sequence], which: Sequence[str], segment: int | None, beside: Beside
) -> list[StoredArray]:
    """Make the arrays of a Celeritas camera, whose frames consist of two halves."""
    if sorted(which) != ["bottom", "top"]:
        raise OptionError(
            f"{files.paths[0]}: expected one file with upper halves (_Top_) and one with lower halves (_Bottom_), found"
            f" {', '.join(which)}"
        )
    one = parts[0]
    height, width = one.sig_shape
    if segment is None:
        raise OptionError(
            f"{files.paths[0]}: needs the number of half frames in a record: {format_option(segment=Word('…'))}, or"
            f" {beside.config} beside it"
        )
    if segment < 1 or height % segment:
        raise OptionError(
            f"{format_option(segment=segment)}: records of {height} rows do not hold that many half frames"
        )
    rows = height // segment
    half = rows * width * one.dtype.itemsize
    records = min(part.frames for part in parts)  # one of the files may have an extra record
    n = np.arange(records * segment)
    at = one.first + n // segment * one.stride + n % segment * half
    top, bottom = which.index("top"), which.index("bottom")
    begin = n * 2 * half  # the stream: upper half, lower half, upper half, …
    stream = np.empty((len(n), 2, 4), np.int64)
    for place, file in enumerate((top, bottom)):
        stream[:, place] = np.stack(
            [begin + place * half, begin + (place + 1) * half, at, np.full_like(n, file)], axis=1
        )
    size = rows * width
    pieces = np.array(
        [[0, 0, rows, width, -width, 1, size - width, 0], [rows, 0, rows, width, width, 1, size, 0]], np.int64
    )
    sig = (2 * rows, width)
    layout = FrameLayout((len(n),), sig, stream.reshape(-1, 4), 2 * half, 0, len(n), one.dtype.itemsize, 1, pieces)
    found = [StoredArray("data", files, layout, PlainDecoder(one.dtype), layout.shape, ("frame", "y", "x"), 1)]
    for name, stored, byte, unit in _stamps(int(one.header["version"]), one.stride - one.stamp):
        dtype = np.dtype(stored)
        times = FrameLayout.planes(
            FrameRecord((), dtype.itemsize),
            np.full(len(n), top),
            one.first + n // segment * one.stride + one.stamp + byte,
        )
        attrs = {"unit": unit, "of": "the record of the upper half, shared by all its half frames"}
        found.append(
            StoredArray(
                name, files, times, PlainDecoder(dtype), times.shape, ("frame",), 1, attrs=attrs, companion=True
            )
        )
    return found


TERMS = (
    Term("software", "config:StreamPixVersion"),
    Term("beam_energy", "config:HT", 1e3, zero=False),
    Term("magnification", "config:Mag", zero=False),
    Term("detector", "config:CameraType"),
    Term("gain", "config:SensorGain"),
    Term("binning", "config:ImageBinning"),
)
"""What Direct Electron's .cfg says, in the vocabulary of `vfs.model.metadata`."""

FORMAT = Format(
    "seq",
    (".seq",),
    "https://www.norpix.com",
    "NorPix StreamPix sequences and Direct Electron's files beside them",
    sniff,
    open,
    terms=TERMS,
    first_bytes=(_MARK,),
)
