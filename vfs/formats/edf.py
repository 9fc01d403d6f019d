"""Reads `.edf`, the frames of the ESRF and of many X-ray detectors (PILATUS, FReLoN, Maxipix).

The facts come from the reader in fabio (https://www.silx.org/doc/fabio), which knows the variants. A file is one or
more frames, each with a header in text before it, whose length may differ::

    { key = value ; … }  (padded inside of the braces) | pixels | { key = value ; … } | pixels | …

Upper and lower case of keys mean the same. `DataType`, `ByteOrder` and `Dim_1` (fastest axis), `Dim_2`, … describe
pixels; `EDF_BinarySize` or `Size` is the number of bytes up to the next header. A header ends with a brace and the end
of its line, since texts may hold braces; `EDF_HeaderSize` counts only where a header ends there.

A block with an `EDF_DataFormatVersion` is a general one: it holds no frame, but keys that the frames after it do not
say themselves. `EDF_BinaryFileName` names a file beside the header that holds the pixels, from
`EDF_BinaryFilePosition` on. Blocks that are named `Error` are those of errors, not frames. Several files are one
series, in the order in which they are named.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from vfs.errors import FormatError, TruncatedSourceError
from vfs.formats import Format
from vfs.formats.planes import PlaneTable, StoredPlane, plausible
from vfs.model.files import Files
from vfs.model.layout import altered
from vfs.model.metadata import Term, first_number
from vfs.model.sources import Sources
from vfs.model.stored import Absence, StoredArray
from vfs.sources.names import beside

_TYPES = {
    name.lower(): code
    for code, names in {
        "i1": "SignedByte Signed8",
        "u1": "UnsignedByte Unsigned8",
        "i2": "SignedShort Signed16",
        "u2": "UnsignedShort Unsigned16 UnsignedShortInteger",
        "i4": "SignedInteger Signed32 SignedLong",
        "u4": "UnsignedInteger Unsigned32 UnsignedLong",
        "i8": "Signed64",
        "u8": "Unsigned64",
        "f4": "FloatValue Float FloatIEEE32 Float32",
        "f8": "Double DoubleValue FloatIEEE64 DoubleIEEE64",
    }.items()
    for name in names.split()
}
_ORDERS = {"lowbytefirst": "<", "highbytefirst": ">"}
_PLAIN = ("", "none", "no", "uncompressedraw")
_KEY = re.compile(rb"\{\s*(?:[^\"{}=]*;)?\s*\w+\s*=")
_OURS = re.compile(rb"\b(?:HeaderID|EDF_\w+|ByteOrder|DataType|Dim_1)\s*=", re.IGNORECASE)
_END = re.compile(rb"\}\r?\n")
_BLANK = b" \t\r\n\0"
_DIM = re.compile(r"dim_([1-9])")
_NUMBER = re.compile(r"(\d{1,18})(?:\.0*)?", re.ASCII)
_OWN = ("size", "image", "headerid")
"""Keys that a general block says of itself, as it does all that begin with EDF_."""
_READ = 8192  # bytes that are read for a header at first: most have 512 to 4,096
_MAX_HEADER = 1 << 20  # bytes
_MAX_SIDE = 1 << 32  # elements


class _Keys(NamedTuple):
    """The keys of a block.

    Attributes:
        said: as they are written.
        keys: in lower case.
    """

    said: dict[str, str]
    keys: dict[str, str]

    @classmethod
    def of(cls, text: bytes) -> _Keys:
        """Read the keys of a header, in the order in which they are written. Of equal ones the last one counts."""
        pairs = (line.partition("=") for line in text.decode("latin-1").split(";") if "=" in line)
        said = {key.strip(" \t\r\n{\0"): value.strip(" \t\r\n\0") for key, _, value in pairs}
        return cls(said, {key.lower(): value for key, value in said.items()})

    def after(self, general: _Keys | None) -> _Keys:
        """Return this header with what a general block says for all frames."""
        if general is None:
            return self
        left = [key for key in general.said if not key.lower().startswith("edf_") and key.lower() not in _OWN]
        left = [key for key in left if key.lower() not in self.keys]
        said = self.said | {key: general.said[key] for key in left}
        return _Keys(said, {key.lower(): value for key, value in said.items()})

    def number(self, key: str) -> int | None:
        """Return a whole number from 0 on, which may be written with a point (20.0); None if there is none."""
        found = _NUMBER.fullmatch(self.keys.get(key, ""))
        return int(found[1]) if found else None

    @property
    def general(self) -> bool:
        """True for a block without a frame."""
        told = self.number("edf_binarysize")
        if "edf_dataformatversion" in self.keys:
            return not told
        return told == 0 and not {"dim_1", "edf_binaryfilename"} & self.keys.keys()


class _Frame(NamedTuple):
    path: str  # file that holds the pixels
    offset: int  # first byte of the pixels
    shape: tuple[int, ...]
    stored: np.dtype
    header: _Keys


def sniff(path: str, first_bytes: bytes, sources: Sources) -> bool:
    """Return True for a block in braces with keys of this format."""
    start = first_bytes.lstrip()
    return start.startswith(b"{") and _KEY.match(start) is not None and _OURS.search(start) is not None


def _header(sources: Sources, path: str, at: int, size: int) -> tuple[_Keys, int] | None:
    """Read the header at a byte.

    Returns: (its keys, the byte behind it), or None if the file ends before it does.

    Raises:
        FormatError: there is no header.
    """
    for nbytes in (_READ, _MAX_HEADER):
        data = sources.read(path, at, min(nbytes, size - at))
        begin = len(data) - len(data.lstrip(_BLANK))
        if data[begin : begin + 1] not in (b"{", b""):
            raise FormatError(f"{path}: expected a header in braces at byte {at:,}, found {data[begin : begin + 8]!r}")
        end = _END.search(data, begin)
        if end is not None:
            header = _Keys.of(data[begin : end.start()])
            told = header.number("edf_headersize") or 0
            if end.end() < told <= _MAX_HEADER:
                more = sources.read(path, at, told)
                if len(more) == told and (_ends(more) or not more[end.end() :].strip(b" \r\n")):
                    return _Keys.of(more[begin:].rstrip(_BLANK).removesuffix(b"}")), at + told
            return header, at + end.end()
        if at + len(data) >= size:
            return None
    raise FormatError(
        f"{path}: expected a header in braces at byte {at:,}, found no end of it in {_MAX_HEADER:,} bytes"
    )


def _ends(data: bytes) -> bool:
    """Return True if a header ends with these bytes."""
    return data.endswith((b"}\n", b"}\r\n"))


def _pixels(path: str, header: _Keys, at: int) -> tuple[tuple[int, ...], np.dtype]:
    """Return shape and stored dtype of the frame behind a header.

    Args:
        at: byte at which the header ends, for messages.

    Raises:
        FormatError: the header does not say them, or the frame is compressed.
    """
    keys = header.keys
    rank = max((int(found[1]) for found in map(_DIM.fullmatch, keys) if found), default=0)
    # an axis that is left out between others has one element
    shape = tuple((header.number(f"dim_{k}") or 0) if f"dim_{k}" in keys or k == 1 else 1 for k in range(rank, 0, -1))
    stored, order = np.dtype(_TYPES.get(keys.get("datatype", "").lower(), "V0")), keys.get("byteorder", "").lower()
    wanted = order in _ORDERS or (stored.itemsize == 1 and not order)
    if not shape or min(shape) < 1 or math.prod(shape) >= _MAX_SIDE or not stored.itemsize or not wanted:
        names = ("Dim_1", "Dim_2", "DataType", "ByteOrder")
        told = ", ".join(f"{name} = {keys.get(name.lower(), '?')[:20]}" for name in names)
        raise FormatError(f"{path}: expected the size and the type of a frame before byte {at:,}, found {told}")
    if (packed := keys.get("compression", "")).lower() not in _PLAIN:
        raise FormatError(
            f"{path}: expected frames that are not compressed, found {packed[:20]!r} before byte {at:,}; fabio reads"
            " them, and writes them without compression"
        )
    return shape, np.dtype(_ORDERS.get(order, "<") + stored.str[1:])


def _frames(sources: Sources, path: str, size: int, lost: list[Absence], last: bool) -> Iterator[_Frame]:
    """Yield the frames of a file; add what it lacks to `lost`.

    Args:
        last: it is the last one of its series, of which a frame may be written still.

    Raises:
        FormatError: a header is garbled.
    """
    at, general = 0, None
    while at < size:
        found = _header(sources, path, at, size)
        if found is None:
            if at == 0 or sources.read(path, at, min(size - at, _READ)).strip(_BLANK):
                said = f"{path}: the header at byte {at:,} does not end; the file looks truncated"
                left = {"bytes_left_over": size - at}
                lost.append(
                    Absence(said, TruncatedSourceError, "shows the frames before it", left, to_come=last and at > 0)
                )
            return
        header, behind = found
        if header.general:
            general, at = header, behind
            continue
        header = header.after(general)
        shape, stored = _pixels(path, header, behind)
        nbytes = math.prod(shape) * stored.itemsize
        told = header.number("edf_binarysize")
        told = header.number("size") if told is None else told
        holder, offset = path, behind
        if name := re.split(r"[/\\]", header.keys.get("edf_binaryfilename", ""))[-1]:
            holder, offset = beside(path, name), header.number("edf_binaryfileposition") or 0
            room, what = header.number("edf_binaryfilesize"), "EDF_BinaryFileSize"
            if told is None and sources.read(path, behind, _READ).lstrip(_BLANK).startswith(b"{"):
                told = 0
        else:
            room, what = told, "its header"
        if room is not None and room < nbytes:
            there = f"byte {offset:,}{f' of {name}' if name else ''}"
            raise FormatError(f"{path}: expected a frame of {nbytes:,} bytes at {there}, {what} says {room:,} bytes")
        if ".error" not in header.keys.get("edf_datablockid", "").lower():
            yield _Frame(holder, offset, shape, stored, header)
        at = behind + (nbytes if told is None else told)


def _calibration(keys: Mapping[str, str]) -> dict[str, Any]:
    """Return the sizes of a pixel, which are in metres."""
    found = {}
    for dim, key in (("x", "psize_1"), ("y", "psize_2")):
        number = re.match(r"[-+.\deE]+", keys.get(key, ""))
        try:
            found[dim] = {"scale": float(number[0]) if number else 0.0, "offset": 0.0, "unit": "m"}
        except ValueError:
            continue
    return found


def open(paths: Sequence[str], sources: Sources) -> list[StoredArray]:
    """Open .edf files.

    Raises:
        FormatError: a header is garbled, or frames differ in size or type.
        TruncatedSourceError: there is no whole frame.
    """
    files = Files.stat(sources, paths)
    lost: list[Absence] = []
    frames: list[_Frame] = []
    named: list[str] = []  # the file that says so of each frame
    for k, (path, size) in enumerate(zip(files.paths, files.sizes.tolist(), strict=True)):
        some = list(_frames(sources, path, size, lost, k == len(files) - 1))
        if not some and not any(one.said.startswith(path) for one in lost):
            said = f"{path}: expected a frame, found none in {size:,} bytes; the file looks truncated"
            lost.append(Absence(said, TruncatedSourceError, "shows the frames of the others", {"files_missing": 1}))
        frames += some
        named += [path] * len(some)
    if not frames:
        raise TruncatedSourceError(lost[0].said)
    shape, stored = frames[0].shape, frames[0].stored
    for path, frame in zip(named, frames, strict=True):
        if (frame.shape, frame.stored) != (shape, stored):
            raise FormatError(
                f"{path}: expected frames of {list(shape)} {stored.str} as the first one of"
                f" {files.paths[0]}, found {list(frame.shape)} {frame.stored.str} at byte {frame.offset:,}"
            )
    if others := {frame.path: None for frame in frames if frame.path not in files.paths}:
        files = Files.stat(sources, [*files.paths, *others], missing_ok=True)
    number = {path: k for k, path in enumerate(files.paths)}
    nbytes = math.prod(shape[-2:]) * stored.itemsize
    room = max(0, int(files.sizes[number[frames[0].path]]))
    depth = plausible(named[0], math.prod(shape[:-2]), nbytes, room)
    offsets = np.array([frame.offset for frame in frames], np.int64)[:, None]
    offsets = offsets + np.arange(depth) * nbytes
    which = np.repeat(np.array([number[frame.path] for frame in frames], np.int64), depth)
    nav = (len(frames),) * (len(frames) > 1 or len(shape) < 3) + shape[:-2]
    deep = tuple(f"dim_{k}" for k in range(len(shape), 3, -1)) + ("z",) * (len(shape) > 2)
    dims = ("frame",) * (len(nav) - len(deep)) + deep + ("y", "x")[-len(shape) :]
    table = PlaneTable(which, offsets.reshape(-1), np.arange(len(which)), named[0])
    attrs = {"header": frames[0].header.said, "calibration": _calibration(frames[0].header.keys)}
    array = table.array("data", files, nav, StoredPlane(shape[-2:], stored), dims, attrs)
    return [altered(array, absent=tuple(lost) + array.absent)]


def _keys(*names: str) -> tuple[str, ...]:
    """Return paths of keys that programs write in different ways."""
    return tuple(f"header:{name}" for name in names)


def _center(header: Any) -> Any:
    """Return the centre of the beam, which the first axis (x) comes first of."""
    return [first_number(header.get(f"Center_{k}")) for k in (2, 1)] if isinstance(header, Mapping) else None


def _pixel(header: Any) -> Any:
    return [first_number(header.get(f"PSize_{k}")) for k in (2, 1)] if isinstance(header, Mapping) else None


TERMS = (
    Term("title", "header:Title"),
    *(Term("time", path) for path in _keys("Date", "date", "acq_date")),
    *(
        Term("exposure_time", path, take=first_number, zero=False)
        for path in _keys("ExposureTime", "acq_expo_time", "count_time", "Exposure_time")
    ),
    *(Term("wavelength", path, take=first_number, zero=False) for path in _keys("WaveLength", "Wavelength")),
    Term("detector_distance", "header:SampleDistance", take=first_number, zero=False),
    Term("beam_center", "header", take=_center),
    Term("pixel_size", "header", take=_pixel),
)
"""What the first header says, in the vocabulary of `vfs.model.metadata`: lengths are in m."""

FORMAT = Format(
    "edf",
    (".edf",),
    "https://www.silx.org/doc/fabio",
    "EDF of the ESRF: frames of X-ray detectors, a header in text before each",
    sniff,
    open,
    terms=TERMS,
)
