"""Reads `.edf`, the frames of the ESRF and of many X-ray detectors (PILATUS, FReLoN, Maxipix).

The facts come from the reader in fabio (https://www.silx.org/doc/fabio), which knows the variants. A file is one or
more frames, each with a header in text before it, whose length may differ::

    { key = value ; … }  (padded inside of the braces) | pixels | { key = value ; … } | pixels | …

`DataType`, `ByteOrder` and `Dim_1` (fastest axis) to `Dim_3` describe pixels. `EDF_HeaderSize` is the length of the
header where there is one, else it ends with the line of the closing brace; `EDF_BinarySize` or `Size` is the number of
bytes up to the next header. A first block of `EDF_BinarySize = 0` holds only keys; blocks that are named `Error` are
those of errors, not frames. Several files are one series, in the order in which they are named.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from vfs.errors import FormatError, TruncatedSourceError
from vfs.formats import Format
from vfs.formats.planes import PlaneTable, plausible
from vfs.model.files import Files
from vfs.model.layout import altered
from vfs.model.sources import Sources
from vfs.model.stored import Absence, StoredArray

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
_OURS = re.compile(rb"\b(?:HeaderID|EDF_\w+|ByteOrder|DataType|Dim_1)\s*=")
_END = re.compile(rb"\}[ \t]*\r?\n?")
_READ = 8192  # bytes that are read for a header at first: most have 512 to 4,096
_MOST_HEADER = 1 << 20  # bytes
_MOST_SIDE = 1 << 32  # elements


class _Frame(NamedTuple):
    file: int
    offset: int  # first byte of the pixels
    shape: tuple[int, ...]
    stored: np.dtype
    keys: dict[str, str]


def sniff(path: str, head: bytes, sources: Sources) -> bool:
    """Return True for a block in braces with keys of this format."""
    start = head.lstrip()
    return start.startswith(b"{") and _KEY.match(start) is not None and _OURS.search(start) is not None


def _keys(text: bytes) -> dict[str, str]:
    """Read the keys of a header, in the order in which they are written."""
    pairs = (line.partition("=") for line in text.decode("latin-1").split(";") if "=" in line)
    return {key.strip(" \t\r\n{\0"): value.strip(" \t\r\n\0") for key, _, value in pairs}


def _header(sources: Sources, path: str, at: int, size: int) -> tuple[dict[str, str], int] | None:
    """Read the header at a byte.

    Returns: (its keys, the byte behind it), or None if the file ends before it does.

    Raises:
        FormatError: there is no header.
    """
    for nbytes in (_READ, _MOST_HEADER):
        data = sources.read(path, at, min(nbytes, size - at))
        begin = len(data) - len(data.lstrip(b" \t\r\n\0"))
        if data[begin : begin + 1] not in (b"{", b""):
            raise FormatError(f"{path}: expected a header in braces at byte {at:,}, found {data[begin : begin + 8]!r}")
        end = _END.search(data, begin)
        if end is not None:
            keys = _keys(data[begin : end.start()])
            told = keys.get("EDF_HeaderSize", "")
            behind = int(told) if told.isascii() and told.isdigit() and len(told) < 10 else end.end()
            return keys, at + max(behind, end.start() + 1)
        if at + len(data) >= size:
            return None
    raise FormatError(
        f"{path}: expected a header in braces at byte {at:,}, found no end of it in {_MOST_HEADER:,} bytes"
    )


def _number(keys: dict[str, str], name: str) -> int | None:
    text = keys.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def _pixels(path: str, keys: dict[str, str], at: int) -> tuple[tuple[int, ...], np.dtype]:
    """Return shape and stored dtype of the frame behind a header.

    Args:
        at: byte at which the header ends, for messages.

    Raises:
        FormatError: the header does not say them, or the frame is compressed.
    """
    dims = [_number(keys, f"Dim_{k}") for k in (1, 2, 3) if f"Dim_{k}" in keys]
    code, order = keys.get("DataType", "").lower(), keys.get("ByteOrder", "LowByteFirst").lower()
    packed = keys.get("COMPRESSION", keys.get("Compression", ""))
    shape = tuple(n or 0 for n in reversed(dims))
    if not shape or min(shape) < 1 or math.prod(shape) >= _MOST_SIDE or code not in _TYPES or order not in _ORDERS:
        told = ", ".join(f"{key} = {keys.get(key, '?')[:20]}" for key in ("Dim_1", "Dim_2", "DataType", "ByteOrder"))
        raise FormatError(f"{path}: expected the size and the type of a frame before byte {at:,}, found {told}")
    if packed.lower() not in _PLAIN:
        raise FormatError(
            f"{path}: expected frames that are not compressed, found {packed[:20]!r} before byte {at:,}; fabio reads"
            " them, and writes them without compression"
        )
    return shape, np.dtype(_ORDERS[order] + _TYPES[code])


def _frames(sources: Sources, path: str, file: int, size: int, lost: list[Absence], last: bool) -> Iterator[_Frame]:
    """Yield the frames of a file; add what it lacks to `lost`.

    Args:
        last: it is the last one of its series, of which a frame may be written still.

    Raises:
        FormatError: a header is garbled.
    """
    at = 0
    while at < size:
        found = _header(sources, path, at, size)
        if found is None:
            if at == 0 or sources.read(path, at, min(size - at, _READ)).strip(b" \t\r\n\0"):
                said = f"{path}: the header at byte {at:,} does not end; the file looks truncated"
                left = {"bytes_left_over": size - at}
                lost.append(
                    Absence(said, TruncatedSourceError, "shows the frames before it", left, to_come=last and at > 0)
                )
            return
        keys, behind = found
        told = _number(keys, "EDF_BinarySize")
        if told == 0 and "Dim_1" not in keys:
            at = behind
            continue
        shape, stored = _pixels(path, keys, behind)
        nbytes = math.prod(shape) * stored.itemsize
        told = _number(keys, "Size") if told is None else told
        if told is not None and told < nbytes:
            raise FormatError(
                f"{path}: expected a frame of {nbytes:,} bytes at byte {behind:,}, its header says {told:,} bytes"
            )
        if ".error" not in keys.get("EDF_DataBlockID", "").lower():
            yield _Frame(file, behind, shape, stored, keys)
        at = behind + (nbytes if told is None else told)


def _calibration(keys: dict[str, str]) -> dict[str, Any]:
    """Return the sizes of a pixel, which are in metres."""
    found = {}
    for dim, key in (("x", "PSize_1"), ("y", "PSize_2")):
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
    for k, (path, size) in enumerate(zip(files.paths, files.sizes.tolist(), strict=True)):
        some = list(_frames(sources, path, k, size, lost, k == len(files) - 1))
        if not some and not any(one.said.startswith(path) for one in lost):
            said = f"{path}: expected a frame, found none in {size:,} bytes; the file looks truncated"
            lost.append(Absence(said, TruncatedSourceError, "shows the frames of the others", {"files_missing": 1}))
        frames += some
    if not frames:
        raise TruncatedSourceError(lost[0].said)
    shape, stored = frames[0].shape, frames[0].stored
    for frame in frames:
        if (frame.shape, frame.stored) != (shape, stored):
            raise FormatError(
                f"{files.paths[frame.file]}: expected frames of {list(shape)} {stored.str} as the first one of"
                f" {files.paths[0]}, found {list(frame.shape)} {frame.stored.str} at byte {frame.offset:,}"
            )
    sig = shape[-2:]
    nbytes = math.prod(sig) * stored.itemsize
    depth = plausible(files.paths[frames[0].file], math.prod(shape[:-2]), nbytes, int(files.sizes[frames[0].file]))
    offsets = np.array([frame.offset for frame in frames], np.int64)[:, None]
    offsets = offsets + np.arange(depth) * nbytes
    which = np.repeat(np.array([frame.file for frame in frames], np.int64), depth)
    nav = (len(frames),) * (len(frames) > 1 or len(shape) < 3) + shape[:-2]
    dims = ("frame",) * (len(nav) - len(shape[:-2])) + ("z",) * len(shape[:-2]) + ("y", "x")[-len(sig) :]
    table = PlaneTable(which, offsets.reshape(-1), np.arange(len(which)), files.paths[0])
    attrs = {"header": frames[0].keys, "calibration": _calibration(frames[0].keys)}
    array = table.array("data", files, nav, sig, dims, stored, attrs)
    return [altered(array, absent=tuple(lost) + array.absent)]


FORMAT = Format(
    "edf",
    (".edf",),
    "https://www.silx.org/doc/fabio",
    "EDF of the ESRF: frames of X-ray detectors, a header in text before each",
    sniff,
    open,
)
