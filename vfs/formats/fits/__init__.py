"""Reads FITS: the images of a file, or of a file a frame.

The facts come from the FITS standard 4.0 (https://fits.gsfc.nasa.gov/fits_standard.html). A file is a series of units,
each of blocks of 2,880 bytes: a header in cards of 80 characters, up to `END`, and its data, big-endian::

    SIMPLE  =                    T | … | END | data | XTENSION= 'IMAGE   ' | … | END | data | …

`BITPIX` is the type, `NAXIS1` (fastest) to `NAXISn` the shape. Integers of the other sign are stored with their top
bit turned, which `BZERO` says (32768 for uint16): these are shown as what they mean. Any other `BSCALE` and `BZERO` are
not applied, and the attributes `scale_factor` and `add_offset` say them: those of several files must be equal. `BLANK`,
the integer of pixels that have no value, is the attribute `_FillValue`. Units that hold no image (tables) are left out.
Images that are compressed into tables (`ZIMAGE`) are shown as what they mean (`tiles`). `DATASUM` and `CHECKSUM` are
the sums of a unit's data and of all of it, in 32 bits of one's complement; `vfs check --read` compares those of all.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from vfs.errors import FormatError, NotReferenceableError, TruncatedSourceError
from vfs.formats import Format
from vfs.formats.fits.tiles import FitsTileDecoder, TiledImage, read_tiled, tiled
from vfs.formats.planes import PlaneTable, StoredPlane, plausible
from vfs.model.decode import ElementsOfWords, Encoding, PlainDecoder
from vfs.model.files import Files
from vfs.model.layout import FrameLayout, FrameRecord, Scan, altered
from vfs.model.metadata import Term
from vfs.model.sources import Sources
from vfs.model.stored import Absence, StoredArray, nav_dims
from vfs.model.written import Written

_BLOCK = 2880  # bytes
_CARD = 80  # bytes
_MAX_HEADER = 4096 * _BLOCK
_TYPES = {8: "u1", 16: ">i2", 32: ">i4", 64: ">i8", -32: ">f4", -64: ">f8"}
_TURNED = {8: ("i1", -128), 16: (">u2", 1 << 15), 32: (">u4", 1 << 31), 64: (">u8", 1 << 63)}
_TEXT = re.compile(r"'((?:[^']|'')*)'")
_UNITS = (b"XTENSION", b"SIMPLE  ")  # with which a unit begins
_MAX_AXES = 16
_OF_TABLES = re.compile(
    r"Z(IMAGE|TENSION|SIMPLE|EXTEND|CMPTYPE|BITPIX|N?AXIS\d*|TILE\d+|NAME\d+|VAL\d+|QUANTIZ|DITHER0|PCOUNT|GCOUNT)"
    r"|Z?(DATASUM|HECKSUM)|T(FIELDS|TYPE\d+|FORM\d+|HEAP|SCAL\d+|ZERO\d+|NULL\d+|UNIT\d+|DIM\d+)"
    r"|PCOUNT|GCOUNT|XTENSION|CHECKSUM"
)
"""Cards that are about the table into which an image is compressed."""
_MAX_FILE_BYTES = 1 << 62  # bytes

Value = str | int | float | bool


@dataclass(frozen=True)
class TurnedDecoder(ElementsOfWords):
    """Decodes integers whose top bit is turned.

    Attributes:
        words: dtype that is meant, in the byte order of the file.
    """

    words: np.dtype

    @property
    def dtype(self) -> np.dtype:
        return self.words.newbyteorder("=")

    def make(self, words: np.ndarray, first: int, out: np.ndarray) -> None:
        out[:], size = words, self.words.itemsize
        bits = out.view(f"u{size}")
        np.bitwise_xor(bits, bits.dtype.type(1 << (8 * size - 1)), out=bits)

    def encoding(self, nbytes: int, blocks: np.ndarray) -> Encoding:
        """See `vfs.model.encoding.SaysEncoding`."""
        raise NotReferenceableError("the top bits of its integers are turned in the file (BZERO)")


class _Image(NamedTuple):
    file: int
    offset: int
    shape: tuple[int, ...]
    bits: int
    cards: dict[str, Value]
    tiles: TiledImage | None = None

    @property
    def turned(self) -> bool:
        """True if the top bit of integers is turned."""
        cards = self.cards
        return self.bits in _TURNED and cards.get("BZERO") == _TURNED[self.bits][1] and cards.get("BSCALE", 1) == 1

    @property
    def stored(self) -> np.dtype:
        return np.dtype(_TURNED[self.bits][0] if self.turned else _TYPES[self.bits])

    @property
    def scaling(self) -> tuple[float, float]:
        """(BSCALE, BZERO) that are not applied."""
        scale, zero = self.cards.get("BSCALE", 1), self.cards.get("BZERO", 0)
        numbers = isinstance(scale, int | float) and isinstance(zero, int | float)
        return (float(scale), float(zero)) if numbers and not self.turned else (1.0, 0.0)

    @property
    def blank(self) -> int | None:
        """The number that is shown for pixels without a value; None if there is none."""
        said = self.cards.get("BLANK")
        if type(said) is not int or self.bits < 0:
            return None
        shown = said + _TURNED[self.bits][1] * self.turned
        limits = np.iinfo(self.stored)
        return shown if limits.min <= shown <= limits.max else None


@dataclass(frozen=True)
class UnitSum:
    """The sums that a unit has of itself.

    Attributes:
        file: index of its file.
        start, stop: its bytes.
        behind: byte behind its header.
        data: sum of its data (`DATASUM`); None where it says none.
        whole: True if its header makes the sum of all of it -0 (`CHECKSUM`).
    """

    file: int
    start: int
    stop: int
    behind: int
    data: int | None
    whole: bool

    def wrong(self, parts: Iterable[bytes]) -> str:
        """See `vfs.model.checksums.ByteSum`."""
        sums = [0, 0]  # of the header, of the data
        at, rest = self.start, b""
        for part in parts:
            held = rest + part
            whole = len(held) - len(held) % 4
            words = np.frombuffer(held[:whole], ">u4")
            head = min(len(words), max(0, self.behind - at) // 4)
            for k, some in enumerate((words[:head], words[head:])):
                sums[k] += int(some.sum(dtype=np.uint64))
            at, rest = at + whole, held[whole:]
        named = f"the unit at byte {self.start:,}"
        if self.data is not None and _folded(sums[1]) != _folded(self.data):
            return f"{named}: expected data of the sum {self.data} (DATASUM), found {_folded(sums[1])}"
        if self.whole and _folded(sum(sums)) != _ONES:
            return f"{named}: its header and data do not fit its CHECKSUM" + (
                "; its data fit DATASUM" if self.data is not None else ""
            )
        return ""


_ONES = (1 << 32) - 1


def _folded(total: int) -> int:
    """Fold a sum of words to 32 bits in one's complement; 0 only if all words are."""
    return (total - 1) % _ONES + 1 if total else 0


def _sum_of(cards: dict[str, Value], file: int, start: int, behind: int, stop: int) -> UnitSum | None:
    """Return the sums of a unit; None if it has none."""
    data, whole = str(cards.get("DATASUM", "")).strip(), bool(str(cards.get("CHECKSUM", "")).strip())
    known = data.isascii() and data.isdigit() and len(data) <= 10
    if not (known or whole):
        return None
    return UnitSum(file, start, stop, behind, int(data) if known else None, whole)


def sniff(path: str, first_bytes: bytes, sources: Sources) -> bool:
    return first_bytes.startswith(b"SIMPLE  =") and first_bytes[10:30].strip() == b"T"


def _value(text: str) -> Value:
    """Read the value of a card, without its comment."""
    quoted = _TEXT.match(text.lstrip())
    if quoted:
        return quoted[1].replace("''", "'").rstrip()
    plain = text.partition("/")[0].strip()
    if plain in ("T", "F"):
        return plain == "T"
    try:
        number = int(plain) if plain.lstrip("+-").isdigit() else float(plain.replace("D", "E"))
    except ValueError:
        return plain
    return number if math.isfinite(number) else plain


def _header(sources: Sources, path: str, at: int) -> tuple[dict[str, Value], int] | None:
    """Read the header at a byte.

    Returns: (its cards, the byte behind its last block), or None if the file ends before it does.

    Raises:
        FormatError: it does not end.
    """
    cards: dict[str, Value] = {}
    for begin in range(at, at + _MAX_HEADER, _BLOCK):
        block = sources.read(path, begin, _BLOCK)
        if len(block) < _BLOCK:
            return None
        for k in range(0, _BLOCK, _CARD):
            card = block[k : k + _CARD].decode("latin-1")
            name = card[:8].rstrip()
            if name == "END":
                return cards, begin + _BLOCK
            if card[8:10] == "= " and len(cards) < 1 << 16:
                cards.setdefault(name, _value(card[10:]))
    raise FormatError(f"{path}: expected a header with END at byte {at:,}, found none in {_MAX_HEADER:,} bytes")


def _shape(path: str, cards: dict[str, Value], at: int) -> tuple[tuple[int, ...], int]:
    """Return (shape, BITPIX) of the data behind a header.

    Args:
        at: byte at which the header begins, for messages.

    Raises:
        FormatError: the header does not say them.
    """
    bits, axes = cards.get("BITPIX"), cards.get("NAXIS")
    if type(axes) is int and 0 <= axes <= _MAX_AXES and type(bits) is int and bits in _TYPES:
        sizes = [cards.get(f"NAXIS{k}") for k in range(axes, 0, -1)]
        shape = tuple(size for size in sizes if type(size) is int and size >= 0)
        if len(shape) == axes and math.prod(shape) * abs(bits) // 8 < _MAX_FILE_BYTES:
            return shape, bits
    told = ", ".join(f"{name} = {str(cards.get(name, '?'))[:20]}" for name in ("BITPIX", "NAXIS", "NAXIS1", "NAXIS2"))
    raise FormatError(f"{path}: expected the type and the shape of data in the header at byte {at:,}, found {told}")


def _images(
    sources: Sources, path: str, file: int, size: int, lost: list[Absence], sums: list[UnitSum]
) -> Iterator[_Image]:
    """Yield the images of a file; add what is not shown to `lost`, and the sums of all its units to `sums`.

    Raises:
        FormatError: a header is garbled.
    """
    at, end, held = 0, 0, False  # end: behind the data of the last unit; True: the units so far have data
    while at < size:
        if held and _special(sources, path, end, at, size):
            return
        found = _header(sources, path, at)
        if found is None or (at and "XTENSION" not in found[0]):
            if at == 0 or sources.read(path, at, min(size - at, _BLOCK)).strip(b"\0 "):
                filled = sources.read(path, end, at - end).strip(b"\0 ")
                why = "more data are stored than the header before it says" if filled else "the file looks truncated"
                said = f"{path}: expected a whole header at byte {at:,}, found none; {why}"
                counts = {"bytes_left_over": size - at}
                lost.append(Absence(said, TruncatedSourceError, "shows the images before it", counts))
            return
        cards, behind = found
        shape, bits = _shape(path, cards, at)
        more, groups = cards.get("PCOUNT", 0), cards.get("GCOUNT", 1)
        kind = cards.get("XTENSION", "IMAGE") if at else "IMAGE"
        if cards.get("ZIMAGE") is True:
            yield from _compressed(sources, path, file, (at, behind, size), cards, lost)
        elif kind == "IMAGE" and shape and 0 not in shape and cards.get("GROUPS") is not True:
            yield _Image(file, behind, shape, bits, cards)
        if (
            type(more) is not int
            or type(groups) is not int
            or not 0 <= more < _MAX_FILE_BYTES
            or not 0 <= groups < _MAX_FILE_BYTES
        ):
            raise FormatError(f"{path}: expected numbers PCOUNT and GCOUNT in the header at byte {at:,}")
        counted: tuple[int, ...] = shape[:-1] if cards.get("GROUPS") is True else shape
        nbytes = abs(bits) // 8 * groups * (more + math.prod(counted)) if shape else 0
        end, held = behind + nbytes, held or nbytes > 0
        begin, at = at, behind + -(-nbytes // _BLOCK) * _BLOCK
        summed = _sum_of(cards, file, begin, behind, at)
        if summed is not None and at <= size:
            sums.append(summed)


def _compressed(
    sources: Sources,
    path: str,
    file: int,
    places: tuple[int, int, int],
    cards: dict[str, Value],
    lost: list[Absence],
) -> Iterator[_Image]:
    """Yield an image that is compressed into a table, or add to `lost` why it is not shown.

    Args:
        places: bytes at which its header begins, at which its table does, and at which the file ends.
    """
    at, behind, size = places
    named = f"{path}: the image at byte {at:,}"
    try:
        found = read_tiled(sources, path, cards, behind, size)
    except TruncatedSourceError as error:
        lost.append(Absence(str(error), TruncatedSourceError, "shows the images before it", {"frames_left_out": 1}))
        return
    if isinstance(found, str):
        lost.append(Absence(f"{named} {found}, and not shown; astropy unpacks it", counts={"frames_left_out": 1}))
        return
    said = {name: value for name, value in cards.items() if not _OF_TABLES.fullmatch(name)}
    shape = {f"NAXIS{k}": length for k, length in enumerate(reversed(found.shape), 1)}
    said |= {"BITPIX": found.bits, "NAXIS": len(found.shape), **shape}
    yield _Image(file, behind, found.shape, found.bits, said, found)


def _special(sources: Sources, path: str, end: int, at: int, size: int) -> bool:
    """Return True if special records follow the last unit: blocks of another kind than units, which begin with
    XTENSION. The standard allows them (section 3.5) and does not say what is in them. Where what fills the last
    block of the data is not blank, these go on, and the header says too few.

    Args:
        end: byte behind the data of the last unit.
    """
    if (size - at) % _BLOCK or size - at > _MAX_HEADER:
        return False
    fill, data = sources.read(path, end, at - end), sources.read(path, at, size - at)
    return (
        not fill.strip(b"\0 ")
        and bool(data.strip(b"\0 "))
        and not any(data.startswith(_UNITS, k) for k in range(0, len(data), _BLOCK))
    )


def _calibration(cards: dict[str, Value], dims: tuple[str, ...]) -> dict[str, Any]:
    """Return the calibration of linear axes that have a unit; those of maps of the sky are curved."""
    found = {}
    for k, dim in enumerate(reversed(dims), 1):
        unit, step = cards.get(f"CUNIT{k}"), cards.get(f"CDELT{k}")
        value, pixel = cards.get(f"CRVAL{k}", 0), cards.get(f"CRPIX{k}", 1)
        linear = "-" not in str(cards.get(f"CTYPE{k}", ""))
        numbers = all(isinstance(one, int | float) for one in (step, value, pixel))
        if isinstance(unit, str) and unit and linear and numbers:
            scale = float(step)  # type: ignore[arg-type]
            found[dim] = {"scale": scale, "offset": float(value) + (1 - float(pixel)) * scale, "unit": unit}
    return found


def open(paths: Sequence[str], sources: Sources) -> list[StoredArray]:
    """Open FITS files: all images of one, or the first image of each of several.

    Raises:
        FormatError: a header is garbled, there is no image, or those of several files differ.
        TruncatedSourceError: there is no whole image.
    """
    files = Files.stat(sources, paths)
    lost: list[Absence] = []
    sums: list[UnitSum] = []
    found = [
        [*_images(sources, path, k, size, lost, sums)]
        for k, (path, size) in enumerate(zip(files.paths, files.sizes.tolist(), strict=True))
    ]
    for path, size, images in zip(files.paths, files.sizes.tolist(), found, strict=True):
        if images:
            continue
        if not size:
            said = f"{path}: expected an image, found an empty file"
            lost.append(Absence(said, TruncatedSourceError, "shows its frame as blank", {"frames_missing": 1}))
        why = next((one for one in lost if one.said.startswith(f"{path}:")), None)
        if why is None or why.refused is not TruncatedSourceError or not any(found):
            raise ((why and why.refused) or FormatError)(why.said if why else f"{path}: expected an image, found none")
    if len(paths) > 1:
        for path, images in zip(files.paths, found, strict=True):
            if len(images) > 1:
                said = (
                    f"{path}: its first image is a frame; {len(images) - 1} more are not shown, open it alone for them"
                )
                lost.append(Absence(said, counts={"frames_left_out": len(images) - 1}))
        made = [_array("data", files, [images[0] for images in found if images], len(paths))]
    else:
        several = len(found[0]) > 1
        made = [_array(f"image_{k}/data" if several else "data", files, [one]) for k, one in enumerate(found[0])]
    made[0] = altered(made[0], sums=tuple(sums))
    return [altered(one, absent=tuple(lost) + one.absent) for one in made]


def _array(path: str, files: Files, images: Sequence[_Image], frames: int = 1) -> StoredArray:
    """Make the array of an image, or of the images of several files.

    Args:
        frames: number of files, of which some may have no image, if each is to be a frame.

    Raises:
        FormatError: they differ.
    """
    one = images[0]
    for image in images:
        if (image.shape, image.stored, image.tiles is None) != (one.shape, one.stored, one.tiles is None):
            raise FormatError(
                f"{files.paths[image.file]}: expected an image {list(one.shape)} {one.stored.str} as in"
                f" {files.paths[one.file]}, found {list(image.shape)} {image.stored.str}"
            )
        if image.scaling != one.scaling:
            told, found = (f"BSCALE {scale:g}, BZERO {zero:g}" for scale, zero in (one.scaling, image.scaling))
            raise FormatError(
                f"{files.paths[image.file]}: expected {told} as in {files.paths[one.file]}, found {found}; open each"
                " file alone"
            )
    sig, before = one.shape[-2:], one.shape[:-2]
    nav = (frames,) * (frames > 1) + before
    nbytes = math.prod(sig) * one.stored.itemsize
    planes = math.prod(before)
    if one.tiles is None:
        planes = plausible(files.paths[one.file], planes, nbytes, int(files.sizes[one.file]))
    dims = nav_dims(len(nav)) + ("y", "x")[-len(sig) :]
    attrs: dict[str, Any] = {"header": one.cards, "calibration": _calibration(one.cards, dims)}
    if isinstance(one.cards.get("EXTNAME"), str):
        attrs["name"] = one.cards["EXTNAME"]
    of_tiles = one.tiles is not None
    made = (
        _of_tiles(path, files, images, nav + sig, dims)
        if of_tiles
        else _placed(path, files, images, nav, sig, dims, planes)
    )
    made = altered(made, attrs=attrs)
    if one.turned and not of_tiles:
        made = altered(made, decoder=TurnedDecoder(one.stored))
    conventions: dict[str, Any] = {}
    if one.scaling != (1.0, 0.0):
        conventions |= dict(zip(("scale_factor", "add_offset"), one.scaling, strict=True))
    if one.blank is not None and all(image.blank == one.blank for image in images):
        conventions["_FillValue"] = one.blank
    written = Written(planes if before and frames == 1 else None)
    absent = made.absent
    if len(images) < frames:  # files without an image are told of already
        absent = tuple(one for one in absent if one.refused is not None)
    return altered(made, conventions=conventions, written=written, absent=absent)


def _of_tiles(
    path: str, files: Files, images: Sequence[_Image], shape: tuple[int, ...], dims: tuple[str, ...]
) -> StoredArray:
    """Make an array of compressed images without attributes; several are frames, each in the place of its file."""
    one = images[0]
    lead = shape[: len(shape) - len(one.shape)]
    layout = tiled(
        [(image.file, image.file if lead else 0, image.tiles) for image in images if image.tiles], lead, shape
    )
    decoder = FitsTileDecoder(
        tuple(image.tiles for image in images if image.tiles), one.stored.newbyteorder("="), one.turned
    )
    block = (*(1,) * len(lead), *one.tiles.tile) if one.tiles else ()
    nav_ndim = max(0, len(shape) - 2)
    return StoredArray(path, files, layout, decoder, shape, dims, nav_ndim, block=block)


def _placed(
    path: str,
    files: Files,
    images: Sequence[_Image],
    nav: tuple[int, ...],
    sig: tuple[int, ...],
    dims: tuple[str, ...],
    planes: int,
) -> StoredArray:
    """Make an array without attributes, whose integers are as they are stored.

    Args:
        planes: of each image; nav, sig: lengths of the axes along which they lie, and of a plane.
    """
    one = images[0]
    nbytes = math.prod(sig) * one.stored.itemsize
    if len(images) == 1 and planes == math.prod(nav) and one.offset + planes * nbytes <= files.sizes[one.file]:
        layout = FrameLayout.of(
            FrameRecord(sig, one.stored.itemsize), [planes], file_header=one.offset, files=[one.file]
        ).arranged(Scan(nav))  # no table: there may be 10 ** 8
        return StoredArray(path, files, layout, PlainDecoder(one.stored), nav + sig, dims, len(nav))
    offsets = np.array([image.offset for image in images], np.int64)[:, None] + np.arange(planes) * nbytes
    which = np.repeat(np.array([image.file for image in images], np.int64), planes)
    begin = which * planes if math.prod(nav) > planes else np.zeros_like(which)
    position = begin + np.tile(np.arange(planes), len(images))
    table = PlaneTable(which, offsets.reshape(-1), position, files.paths[one.file])
    return table.array(path, files, nav, StoredPlane(sig, one.stored), dims, {})


TERMS = (
    Term("title", "header:OBJECT"),
    Term("authors", "header:OBSERVER"),
    Term("time", "header:DATE-OBS"),
    Term("manufacturer", "header:ORIGIN"),
    *(Term("exposure_time", f"header:{card}", zero=False) for card in ("EXPTIME", "EXPOSURE")),
    Term("detector", "header:INSTRUME"),
)
"""What the cards say, in the vocabulary of `vfs.model.metadata`."""

FORMAT = Format(
    "fits",
    (".fits", ".fit", ".fts", ".fits.fz", ".fz"),
    "https://fits.gsfc.nasa.gov/fits_standard.html",
    "FITS images, also compressed: all of one file, or a file a frame",
    sniff,
    open,
    terms=TERMS,
)
