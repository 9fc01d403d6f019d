"""Reads `.cbf`, frames of X-ray detectors such as PILATUS and EIGER, of which several are a series.

The description is that of imgCIF (https://www.iucr.org/resources/cif/imgcif); what detectors write of it follows fabio
(https://www.silx.org/doc/fabio). A file is a frame::

    ###CBF: VERSION … | texts | --CIF-BINARY-FORMAT-SECTION-- | X-Binary-…: … | 0C 1A 04 D5 | pixels

The section says the size of the frame, the type of its numbers, how many bytes they have, their compression and perhaps
their sum (MD5). Upper and lower case of its keys mean the same. A file may hold further sections, a frame each.
Pixels are compressed by their differences (x-CBF_BYTE_OFFSET, see `vfs.kernels.byte_offset`) or not at all; a frame
decodes as a whole. Lines that begin with `#` are those of the detector: the attributes `header` and `detector`.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from vfs.errors import DecodeError, FormatError, TruncatedSourceError
from vfs.formats import Format, pilatus
from vfs.formats.numbering import joined
from vfs.formats.planes import PlaneTable, StoredPlane
from vfs.model.decode import IntoBlocks
from vfs.model.files import Files
from vfs.model.layout import altered
from vfs.model.sources import Sources
from vfs.model.stored import Absence, StoredArray

_MARK = b"###CBF"
_PIXELS = b"\x0c\x1a\x04\xd5"
_READ, _MAX_HEADER = 8192, 1 << 20  # bytes of a header: at first, at most
_TYPES = {
    f"{sign} {8 * size}-bit integer": f"{kind}{size}"
    for sign, kind in (("signed", "i"), ("unsigned", "u"))
    for size in (1, 2, 4, 8)
} | {"signed 32-bit real ieee": "f4", "signed 64-bit real ieee": "f8"}
_SECTION = b"--CIF-BINARY-FORMAT-SECTION--"
_LEAST_SECTION = 64  # bytes that no section is shorter than; what ends a file has some 45
_KEY = re.compile(r"^(X-Binary-[\w-]+|Content-[\w-]+): *(.*?)\s*$", re.MULTILINE | re.IGNORECASE)
_CONVERSION = re.compile(r'conversions="?([\w-]+)"?', re.IGNORECASE)
_MAX_SIDE = 1 << 24


class _CbfHeader(NamedTuple):
    """What a file says of its frame.

    Attributes:
        shape: of the frame.
        stored: dtype in the file.
        packed: True if pixels are compressed by their differences.
        offset, nbytes: first byte and bytes of the pixels.
        padding: bytes behind them.
        md5: their sum, in base 64; "" if there is none.
        lines: those of the detector.
    """

    shape: tuple[int, ...]
    stored: np.dtype
    packed: bool
    offset: int
    nbytes: int
    padding: int
    md5: str
    lines: list[str]


@dataclass(frozen=True)
class CbfDecoder(IntoBlocks):
    """Decodes frames that are compressed by their differences, or have a sum.

    Attributes:
        stored: dtype in the file.
        packed: True if they are compressed.
        md5: for each block its sum, or "".
    """

    stored: np.dtype
    packed: bool
    md5: tuple[str, ...]

    @property
    def dtype(self) -> np.dtype:
        return self.stored.newbyteorder("=")

    def decode_into(self, data: np.ndarray, block: int, out: np.ndarray) -> None:
        if said := self.md5[block]:
            found = base64.b64encode(hashlib.md5(data.data, usedforsecurity=False).digest()).decode()
            if found != said:
                raise DecodeError(f"frame {block}: expected pixels of the sum {said} (MD5), found {found}")
        if not self.packed:
            if data.size != out.nbytes:
                raise DecodeError(f"frame {block}: expected {out.nbytes:,} bytes of pixels, found {data.size:,}")
            out[:] = np.frombuffer(data, self.stored)
            return
        from vfs.kernels import byte_offset

        if byte_offset.sums(data, out) < 0:
            raise DecodeError(f"frame {block}: the compressed pixels end before {out.size:,} of them are decoded")


def _headers(sources: Sources, path: str, size: int, lost: list[TruncatedSourceError]) -> list[_CbfHeader]:
    """Read the headers of a file: one for each frame. Add an error to `lost` if it ends within one.

    Raises:
        FormatError: one is garbled.
    """
    found: list[_CbfHeader] = []
    at = 0
    while not found or at + _LEAST_SECTION < size:
        try:
            one = _header(sources, path, at, size)
        except TruncatedSourceError as error:
            lost.append(error)
            break
        if one is None:
            break
        found.append(one)
        at = one.offset + one.nbytes + one.padding
    return found


def _header(sources: Sources, path: str, at: int, size: int) -> _CbfHeader | None:
    """Read the header at a byte; None if there is no further one.

    Raises:
        FormatError: it is garbled, or pixels are compressed in another way.
        TruncatedSourceError: the file ends within it, or is empty.
    """
    if not size:
        raise TruncatedSourceError(f"{path}: expected a CBF, found an empty file")
    head = sources.read(path, at, min(size - at, _READ))
    if _PIXELS not in head and size - at > _READ and (at or head.startswith(_MARK)):
        head = sources.read(path, at, min(size - at, _MAX_HEADER))
    if not at and not head.startswith(_MARK):
        raise FormatError(f"{path}: expected a CBF, it begins with {head[:8]!r}")
    end = head.find(_PIXELS)
    begin = head.rfind(_SECTION, 0, end) if end >= 0 else -1
    if at and (end < 0 or begin < 0):
        if _KEY.search(head.decode("latin-1")) is None:
            return None
        raise TruncatedSourceError(f"{path}: expected pixels after the header at byte {at:,}, found the end")
    if end < 0:
        kind = TruncatedSourceError if size <= _MAX_HEADER else FormatError
        raise kind(f"{path}: expected pixels after the header of the CBF, found none in {len(head):,} bytes")
    text = head[max(begin, 0) : end].decode("latin-1")
    keys = {key.lower(): value for key, value in _KEY.findall(text)}
    stored = _TYPES.get(keys.get("x-binary-element-type", "").lower().strip('"'))
    numbers = [keys.get(f"x-binary-size-{name}-dimension", "1") for name in ("third", "second", "fastest")]
    numbers += [keys.get("x-binary-size-padding", "0"), keys.get("x-binary-size", "")]
    sides = [int(one) if one.isascii() and one.isdigit() and len(one) < 13 else 0 for one in numbers]
    nbytes, padding, shape = sides.pop(), sides.pop(), tuple(sides[1:] if sides[0] == 1 else sides)
    if stored is None or not nbytes or not all(0 < n < _MAX_SIDE for n in shape) or math.prod(shape) >= 1 << 40:
        told = ", ".join(f"{key[9:]} {value[:24]}" for key, value in keys.items() if "size" in key or "type" in key)
        raise FormatError(f"{path}: expected the size and the type of a frame in the header of the CBF, found {told}")
    count = keys.get("x-binary-number-of-elements", str(math.prod(shape)))
    if count != str(math.prod(shape)):
        raise FormatError(
            f"{path}: expected {math.prod(shape):,} elements of a frame {list(shape)}, found {count[:24]}"
        )
    encoding = keys.get("content-transfer-encoding", "BINARY").strip('" ')
    if encoding.upper() != "BINARY":
        raise FormatError(f"{path}: expected pixels in binary (Content-Transfer-Encoding), found {encoding[:24]!r}")
    way = _CONVERSION.search(text)
    packed = way is not None and way[1].lower() not in ("x-cbf_none", "none")
    if packed and way is not None and way[1].lower() != "x-cbf_byte_offset":
        raise FormatError(
            f"{path}: expected pixels compressed by x-CBF_BYTE_OFFSET, found {way[1]}; cif2cbf -c n rewrites it"
        )
    if packed and np.dtype(stored).kind == "f":
        raise FormatError(f"{path}: expected integers where pixels are compressed by their differences, found {stored}")
    # a compressed pixel has at least a byte
    if nbytes != math.prod(shape) * np.dtype(stored).itemsize if not packed else nbytes < math.prod(shape):
        raise FormatError(f"{path}: expected enough bytes for a frame {list(shape)}, the header says {nbytes:,}")
    order = ">" if keys.get("x-binary-element-byte-order", "").upper().startswith("BIG") else "<"
    md5 = keys.get("content-md5", "").strip('" ')
    lines = [line[1:].strip() for line in head[:end].decode("latin-1").splitlines()[1:] if line.startswith("#")]
    dtype = np.dtype(("<" if packed else order) + stored)
    return _CbfHeader(shape, dtype, packed, at + end + len(_PIXELS), nbytes, padding, md5, lines)


def open(paths: Sequence[str], sources: Sources) -> list[StoredArray]:
    """Open .cbf files.

    Raises:
        FormatError: a header is garbled, or frames differ in size or type.
        TruncatedSourceError: no frame is whole.
    """
    files = Files.stat(sources, paths)
    headers: list[_CbfHeader] = []
    counts: list[int] = []
    short: list[TruncatedSourceError] = []  # files without a frame
    cut: list[Absence] = []
    for path, size in zip(files.paths, files.sizes.tolist(), strict=True):
        lost: list[TruncatedSourceError] = []
        found = _headers(sources, path, size, lost)
        if found:
            cut += [Absence(str(one), TruncatedSourceError, "shows the frames before it") for one in lost]
        else:
            short += lost
        headers += found
        counts.append(len(found))
    if not headers:
        raise short[0]
    one, which = headers[0], np.repeat(np.arange(len(files)), counts)
    for k, header in zip(which.tolist(), headers, strict=True):
        if header[:3] != one[:3]:
            raise FormatError(
                f"{files.paths[k]}: expected a frame {list(one.shape)} {one.stored.str} as in {files.paths[which[0]]},"
                f" found {list(header.shape)} {header.stored.str}, or one that is compressed in another way"
            )
    room = np.maximum(counts, 1)  # a file that is cut before its first frame holds one that is blank
    row = joined(sources, files.paths, room)
    number = np.concatenate([np.arange(count) for count in counts])
    offset, nbytes = (np.array([header[k] for header in headers], np.int64) for k in (3, 4))
    table = PlaneTable(which, offset, row.first[which] + number, files.paths[0], nbytes)
    decoder = None
    if one.packed or any(header.md5 for header in headers):
        decoder = CbfDecoder(one.stored, one.packed, tuple(header.md5 for header in headers))
    said = pilatus.lines_of(one.lines)
    attrs = {"header": one.lines, "detector": said, "calibration": pilatus.calibration(said)}
    dims = ("frame", *("zyx"[3 - len(one.shape) :]))
    plane = StoredPlane(one.shape, one.stored, decoder=decoder)
    array = table.array("data", files, (row.frames,), plane, dims, attrs)
    told = tuple(absence for absence in array.absent if absence.refused is not None)  # blank files are told by `row`
    if short:
        lost_files = f"{short[0]}; files that are not whole: {len(short):,}"
        told += (Absence(lost_files, TruncatedSourceError, "shows them as blank", {"frames_missing": len(short)}),)
    return [altered(array, absent=(*row.absent, *told, *cut))]


FORMAT = Format(
    "cbf",
    (".cbf",),
    "https://www.iucr.org/resources/cif/imgcif",
    "CBF of X-ray detectors (PILATUS, EIGER): a file a frame, compressed by differences or not",
    None,
    open,
    terms=pilatus.terms("detector"),
    first_bytes=(_MARK,),
)
