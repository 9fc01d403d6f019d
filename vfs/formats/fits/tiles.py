"""Reads images of FITS that are compressed into tables (`.fits.fz`, section 10 of the standard), a tile as a block.

A row of the table is a tile, whose bytes lie in the heap behind the table. Tiles are compressed by Rice's method or by
gzip. Floats are quantized to integers first, with a scale and a zero for each tile, and with `SUBTRACTIVE_DITHER` a
series of random numbers was added, which is the same for all programs (appendix I).
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from vfs.errors import DecodeError, DependencyError, FormatError, TruncatedSourceError, extra
from vfs.model.decode import IntoBlocks
from vfs.model.layout import BlockLayout, BlockTable
from vfs.model.sources import Sources

_FORM = re.compile(r"(\d{0,9})([LXBIJKAEDCMPQ])([BIJKED]?)")
_WIDTHS = {"L": 1, "B": 1, "A": 1, "I": 2, "J": 4, "E": 4, "K": 8, "D": 8, "C": 8, "M": 16, "P": 8, "Q": 16}
_NUMBERS = {"B": "u1", "I": ">i2", "J": ">i4", "K": ">i8", "E": ">f4", "D": ">f8"}
_TYPES = {8: ">u1", 16: ">i2", 32: ">i4", 64: ">i8", -32: ">f4", -64: ">f8"}
_RICE = {1: "u1", 2: "i2", 4: "i4"}
_METHODS = ("RICE_1", "RICE_ONE", "GZIP_1", "GZIP_2", "NOCOMPRESS")
_DITHERS = {"SUBTRACTIVE_DITHER_1": 1, "SUBTRACTIVE_DITHER_2": 2}
_ZERO = -2147483646  # that stands for 0 with SUBTRACTIVE_DITHER_2
_RANDOM = 10_000  # numbers of the series
_MAX_TABLE = 1 << 28  # bytes
_MAX_TILE = 1 << 31  # elements
_AS_METHOD, _GZIPPED, _PLAIN = range(3)
_COLUMNS = {"COMPRESSED_DATA": _AS_METHOD, "GZIP_COMPRESSED_DATA": _GZIPPED, "UNCOMPRESSED_DATA": _PLAIN}

Cards = Mapping[str, str | int | float | bool]


@dataclass(frozen=True, eq=False)
class TiledImage:
    """A compressed image.

    Attributes:
        shape, tile: elements along each axis, slowest first; of the image, and of a tile that no edge cuts.
        bits: BITPIX of the image.
        method: how tiles are compressed.
        rice: (bytes of an integer, integers of a block) of Rice's method.
        offsets, sizes: int64[n]: first byte of each tile in the file, and its bytes.
        kinds: uint8[n]: how a tile is stored: by the method, by gzip, or plain.
        scales, zeros: float64[n], of quantized floats; None: tiles hold the numbers of the image.
        blanks: int64[n] the integer that stands for NaN; None: none does.
        dither: (kind, seed); (0, 0) without.
    """

    shape: tuple[int, ...]
    tile: tuple[int, ...]
    bits: int
    method: str
    rice: tuple[int, int]
    offsets: np.ndarray
    sizes: np.ndarray
    kinds: np.ndarray
    scales: np.ndarray | None
    zeros: np.ndarray | None
    blanks: np.ndarray | None
    dither: tuple[int, int]

    def boxes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the first element and the shape of each tile: int64[n, ndim]."""
        counts = [-(-n // size) for n, size in zip(self.shape, self.tile, strict=True)]
        origins = np.indices(counts).reshape(len(counts), -1).T * np.array(self.tile)
        return origins, np.minimum(np.array(self.tile), np.array(self.shape) - origins)

    def decode(self, data: np.ndarray, k: int, size: int) -> np.ndarray:
        """Decode a tile of so many elements, flat; its integers may have another type than the image."""
        made: np.ndarray
        kind = int(self.kinds[k])
        stored = np.dtype(_TYPES[self.bits])
        quantized = self.scales is not None and kind == _AS_METHOD
        if kind == _AS_METHOD and self.method.startswith("RICE"):
            import imagecodecs

            words, block = self.rice
            made = imagecodecs.rcomp_decode(data.tobytes(), shape=(size,), dtype=_RICE[words], nblock=block)
        else:
            word = np.dtype(">i4") if quantized else stored
            raw = (
                bytes(data) if kind == _PLAIN or self.method == "NOCOMPRESS" else _gunzipped(data, size * word.itemsize)
            )
            if len(raw) != size * word.itemsize:
                raise ValueError(f"expected {size * word.itemsize:,} bytes, found {len(raw):,}")
            if kind == _AS_METHOD and self.method == "GZIP_2":
                raw = np.frombuffer(raw, np.uint8).reshape(word.itemsize, size).T.tobytes()
            made = np.frombuffer(raw, word)
        return self._floats(np.asarray(made, np.int32), k) if quantized else made

    def _floats(self, numbers: np.ndarray, k: int) -> np.ndarray:
        assert self.scales is not None
        assert self.zeros is not None
        kind, seed = self.dither
        values: np.ndarray = numbers.astype(np.float64)
        if kind:
            values += 0.5 - _dithers(k + seed - 1, len(numbers))
        values = values * self.scales[k] + self.zeros[k]
        if kind == 2:
            values[numbers == _ZERO] = 0
        if self.blanks is not None:
            values[numbers == self.blanks[k]] = np.nan
        return values


def _gunzipped(data: np.ndarray, size: int) -> bytes:
    decoder = zlib.decompressobj(47)
    return decoder.decompress(data.tobytes(), size + 1)


@cache
def _series() -> np.ndarray:
    """Return the random numbers from 0 to 1 that all programs use: float64[10000], rounded to float32."""
    made, seed = np.empty(_RANDOM), 1
    for k in range(_RANDOM):
        seed = seed * 16807 % 2147483647
        made[k] = seed / 2147483647
    return made.astype(np.float32).astype(np.float64)


def _dithers(first: int, size: int) -> np.ndarray:
    """Return the numbers that were added to those of a tile, which begins with number `first` of the series."""
    series, parts, start = _series(), list[np.ndarray](), first % _RANDOM
    while size > 0:
        part = series[int(series[start] * 500) :][:size]
        parts.append(part)
        size, start = size - len(part), (start + 1) % _RANDOM
    return np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class FitsTileDecoder(IntoBlocks):
    """Decodes tiles.

    Attributes:
        images: whose tiles the blocks are, one image after the other.
        dtype: of the elements.
        turned: True if the top bit of integers is turned in the file.
    """

    images: tuple[TiledImage, ...]
    dtype: np.dtype
    turned: bool

    def decode_into(self, data: np.ndarray, block: int, out: np.ndarray) -> None:
        image, k = next(iter(self.images)), block
        for image in self.images:
            if k < len(image.offsets):
                break
            k -= len(image.offsets)
        try:
            made = image.decode(data, k, len(out))
        except Exception as error:  # a codec may fail in any way
            said = " ".join(str(error).split())[:120] or type(error).__name__
            raise DecodeError(f"tile {k}: does not decode ({image.method}): {said}") from None
        if self.turned:
            bits = out.view(f"u{out.itemsize}")
            bits[:] = made.astype(f"i{out.itemsize}").view(bits.dtype)
            np.bitwise_xor(bits, bits.dtype.type(1 << (8 * out.itemsize - 1)), out=bits)
        else:
            out[:] = made


def tiled(images: Sequence[tuple[int, int, TiledImage]], nav: tuple[int, ...], shape: tuple[int, ...]) -> BlockLayout:
    """Lay out the tiles of images, each at its place along axes before its own.

    Args:
        images: (index of its file, place along `nav`, image).
        nav: lengths of axes before those of an image, one or none; shape: of the array.
    """
    columns: list[tuple[np.ndarray, ...]] = []
    for file, place, image in images:
        origins, shapes = image.boxes()
        lead = np.full((len(origins), len(nav)), place)
        origins, shapes = np.hstack([lead, origins]), np.hstack([np.ones_like(lead), shapes])
        columns.append((origins, shapes, np.full(len(origins), file), image.offsets, image.sizes))
    return BlockLayout.of(shape, BlockTable(*(np.concatenate(column) for column in zip(*columns, strict=True))))


class _TableColumn(NamedTuple):
    at: int
    kind: str
    of: str


def _columns(path: str, cards: Cards) -> tuple[dict[str, _TableColumn], int]:
    """Return (name -> its column, bytes of a row)."""
    found: dict[str, _TableColumn] = {}
    at = 0
    fields = cards.get("TFIELDS")
    for k in range(1, (fields if type(fields) is int and 0 <= fields < 1000 else 0) + 1):
        form = _FORM.match(str(cards.get(f"TFORM{k}", "")))
        if form is None:
            raise FormatError(f"{path}: expected the type of column {k} of a compressed image, found none")
        found[str(cards.get(f"TTYPE{k}", "")).strip().upper()] = _TableColumn(at, form[2], form[3])
        count = int(form[1] or 1)
        at += -(-count // 8) if form[2] == "X" else count * _WIDTHS[form[2]]
    return found, at


def _whole(cards: Cards, name: str, least: int = 0) -> int:
    """Return a whole number of a card; -1 if it says none."""
    value = cards.get(name)
    return value if type(value) is int and least <= value < 1 << 40 else -1


def read_tiled(sources: Sources, path: str, cards: Cards, at: int, size: int) -> TiledImage | str:
    """Read where the tiles of a compressed image are.

    Args:
        at: first byte of the table; size: bytes of the file.

    Returns: it, or why its compression is not read.

    Raises:
        FormatError: the table is garbled.
        TruncatedSourceError: the file ends before its tiles.
        DependencyError: imagecodecs is not installed.
    """
    method, axes, bits = str(cards.get("ZCMPTYPE", "")).strip(), _whole(cards, "ZNAXIS", 1), cards.get("ZBITPIX")
    if method not in _METHODS:
        return f"is compressed by {method or 'a method without a name'}"
    if method.startswith("RICE"):
        try:
            import imagecodecs  # noqa: F401
        except ImportError:
            raise DependencyError(f"{path}: reading its compressed images needs imagecodecs: {extra('tiff')}") from None
    shape = tuple(_whole(cards, f"ZNAXIS{k}", 1) for k in range(axes, 0, -1))
    lengths = tuple(_whole(cards, f"ZTILE{k}", 1) for k in range(axes, 0, -1))
    tile = tuple(
        n if n > 0 else (most if k == axes - 1 else 1) for k, (n, most) in enumerate(zip(lengths, shape, strict=True))
    )
    tile = tuple(map(min, tile, shape))
    columns, width = _columns(path, cards)
    rows = _whole(cards, "NAXIS2")
    tiles = math.prod(-(-n // part) for n, part in zip(shape, tile, strict=True))
    if (
        bits not in _TYPES
        or not 0 < axes <= 16
        or min(shape, default=0) < 1
        or math.prod(tile) > _MAX_TILE
        or rows != tiles
        or width != _whole(cards, "NAXIS1")
        or not columns.keys() & _COLUMNS.keys()
        or rows * width > _MAX_TABLE
    ):
        raise FormatError(
            f"{path}: expected a table of {max(tiles, 0):,} tiles of a compressed image at byte {at:,}, found"
            f" {max(rows, 0):,} rows of {width:,} bytes, BITPIX {bits}"
        )
    raw = sources.read(path, at, rows * width)
    if len(raw) < rows * width:
        raise TruncatedSourceError(f"{path}: ends within the table of a compressed image; it looks truncated")
    table = np.frombuffer(raw, np.uint8).reshape(rows, width)
    heap = _whole(cards, "THEAP")
    places = _places(path, table, columns, at + (heap if heap > 0 else rows * width))
    if (places[0] + places[1] > size).any():
        raise TruncatedSourceError(f"{path}: ends before tiles of a compressed image; it looks truncated")
    quantized = isinstance(bits, int) and bits < 0 and ("ZSCALE" in columns or "ZSCALE" in cards)
    given = {str(cards.get(f"ZNAME{k}", "")).strip(): _whole(cards, f"ZVAL{k}", 1) for k in range(1, 20)}
    words, block = given.get("BYTEPIX", -1), given.get("BLOCKSIZE", -1)
    dither = _DITHERS.get(str(cards.get("ZQUANTIZ", "")).strip(), 0)
    return TiledImage(
        shape,
        tile,
        int(bits),
        method,
        (words if words in _RICE else 4, block if block > 0 else 32),
        *places,
        _each(table, columns, cards, "ZSCALE") if quantized else None,
        _each(table, columns, cards, "ZZERO") if quantized else None,
        _each(table, columns, cards, "ZBLANK"),
        (dither, _whole(cards, "ZDITHER0", 1) if dither else 0),
    )


def _places(
    path: str, table: np.ndarray, columns: Mapping[str, _TableColumn], heap: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (first byte, bytes, how it is stored) of each tile: of the first column that has bytes of it."""
    rows = len(table)
    offsets, sizes, kinds = np.zeros(rows, np.int64), np.zeros(rows, np.int64), np.zeros(rows, np.uint8)
    for name, kind in _COLUMNS.items():
        column = columns.get(name)
        if column is None or column.kind not in "PQ" or not column.of:
            continue
        word = ">i4" if column.kind == "P" else ">i8"
        part = np.ascontiguousarray(table[:, column.at : column.at + _WIDTHS[column.kind]]).view(word).astype(np.int64)
        taken = (sizes == 0) & (part[:, 0] > 0)
        sizes[taken] = part[taken, 0] * _WIDTHS[column.of]
        offsets[taken], kinds[taken] = heap + part[taken, 1], kind
    if (sizes <= 0).any() or (offsets < heap).any():
        raise FormatError(f"{path}: expected bytes of each tile of a compressed image, found tiles without")
    return offsets, sizes, kinds


def _each(table: np.ndarray, columns: Mapping[str, _TableColumn], cards: Cards, name: str) -> Any:
    """Return a number of each tile, of a column or of a card; None if neither is there."""
    column = columns.get(name)
    if column is not None and column.kind in _NUMBERS:
        word = np.dtype(_NUMBERS[column.kind])
        part = np.ascontiguousarray(table[:, column.at : column.at + word.itemsize]).view(word).reshape(-1)
        return part.astype(np.int64 if word.kind in "iu" else np.float64)
    said = cards.get(name)
    return np.full(len(table), said) if type(said) in (int, float) else None
