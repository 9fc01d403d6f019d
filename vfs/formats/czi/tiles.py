"""Decodes the sub-blocks of CZI, and cuts those that lie over each other.

The facts come from libCZI (https://github.com/ZEISS/libczi). Compressions: 0 none, 1 JPEG, 2 LZW, 4 JPEG XR, 5 zstd, 6
zstd with a header of 1 or 3 bytes, of which the third says whether the low bytes of 16-bit numbers come first, then all
high ones. Some programs say that they compress and store the pixels as they are.

Colours are stored as blue, green, red; the decoders of JPEG and JPEG XR have put them in the order red, green, blue.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vfs.errors import DecodeError
from vfs.formats.czi.segments import ORDERS
from vfs.model.colours import red_first
from vfs.model.decode import MadeBlocks

NONE, JPEG, LZW, JPEG_XR, ZSTD, ZSTD_WITH_HEADER = 0, 1, 2, 4, 5, 6
COMPRESSIONS = {
    NONE: "none",
    JPEG: "jpeg",
    LZW: "lzw",
    JPEG_XR: "jpeg xr",
    ZSTD: "zstd",
    ZSTD_WITH_HEADER: "zstd",
}
_RED_FIRST = (JPEG, JPEG_XR)
_ZSTD = b"\x28\xb5\x2f\xfd"
_MARKS = {
    JPEG: (b"\xff\xd8",),
    JPEG_XR: (b"II\xbc",),
    ZSTD: (_ZSTD,),
    ZSTD_WITH_HEADER: (b"\1" + _ZSTD, b"\3\1\0" + _ZSTD, b"\3\1\1" + _ZSTD),
}
"""The first bytes of what is compressed."""
_JXR_TYPES = {1: "B", 3: "H", 4: "I"}  # types of tags of whole numbers
_JXR_WIDTH, _JXR_HEIGHT = 0xBC80, 0xBC81


@dataclass(frozen=True, eq=False)
class TileDecoder(MadeBlocks):
    """Decodes whole tiles.

    Attributes:
        stored: dtype in the file.
        samples: of a pixel.
        shapes: int64[tiles, 2], rows and columns of each as it is stored.
        compressions: uint8[tiles].
        spans: int64[tiles, navigation axes], positions that each has along them.
        order: the navigation axes in the order in which the planes of a tile follow each other, the slowest first.
        pitch: shape of a block, which has room for each tile.
    """

    stored: np.dtype
    samples: int
    shapes: np.ndarray
    compressions: np.ndarray
    spans: np.ndarray
    order: tuple[int, ...]
    pitch: tuple[int, ...]

    @cached_property
    def dtype(self) -> np.dtype:
        return self.stored.newbyteorder("=")

    def decode_block(self, data: np.ndarray, block: int, shape: tuple[int, ...]) -> np.ndarray:
        """Decode a tile, and put it at the start of a block, of which some axes may be one in `shape`."""
        spans, kind = self.spans[block].tolist(), int(self.compressions[block])
        full = (*(spans[k] for k in self.order), *self.shapes[block].tolist(), self.samples)
        try:
            pixels = self._pixels(data, kind, full)
        except DecodeError:
            raise
        except Exception as error:  # a codec may fail in any way
            said = str(error)[:120] or type(error).__name__
            raise DecodeError(f"block {block}: does not decode ({COMPRESSIONS[kind]}): {said}") from None
        nav = len(self.order)
        pixels = pixels.transpose([*np.argsort(self.order), *range(nav, nav + 3)] if nav else (0, 1, 2))
        made = np.ascontiguousarray(pixels, self.dtype)
        if self.samples == 1:
            made = made[..., 0]
        if made.shape == self.pitch:
            return made.reshape(shape)
        whole = np.zeros(self.pitch, self.dtype)
        whole[tuple(map(slice, made.shape))] = made
        return whole.reshape(shape)

    def _pixels(self, data: np.ndarray, kind: int, full: tuple[int, ...]) -> np.ndarray:
        """Return the pixels of a tile, `stored`[full], colours as red, green, blue (and alpha).

        Raises:
            DecodeError: they are not those that the directory says. Codecs raise errors of any type.
        """
        size = math.prod(full) * self.stored.itemsize
        plain = kind == NONE or (data.size == size and not data[:8].tobytes().startswith(_MARKS.get(kind, ())))
        found = data[:size].view(self.stored) if plain else self._unpacked(data.tobytes(), kind, full)
        if found.size != math.prod(full) or found.dtype.itemsize != self.stored.itemsize:
            raise DecodeError(
                f"expected {self.dtype}{list(full)} after decoding ({COMPRESSIONS[kind]}), found"
                f" {found.dtype}{list(found.shape)}"
            )
        pixels = found.view(self.stored).reshape(full)
        if self.samples in ORDERS and (plain or kind not in _RED_FIRST):
            pixels = pixels[..., red_first(ORDERS[self.samples])]
        return pixels

    def _unpacked(self, content: bytes, kind: int, full: tuple[int, ...]) -> np.ndarray:
        import imagecodecs

        size = math.prod(full) * self.stored.itemsize
        if kind in _RED_FIRST:
            rows, columns = math.prod(full[:-2]), full[-2]
            if kind == JPEG:  # checks the size in its header before it makes anything
                out = np.empty((rows, columns, *full[-1:]) if self.samples > 1 else (rows, columns), self.stored)
                return np.asarray(imagecodecs.jpeg8_decode(content, out=out))
            said = _jxr_size(content)
            if said != (columns, rows):
                raise DecodeError(f"expected {columns:,} × {rows:,} pixels in the header of JPEG XR, found {said}")
            return np.asarray(imagecodecs.jpegxr_decode(content))
        if kind == LZW:
            return np.frombuffer(imagecodecs.lzw_decode(content, out=bytearray(size)), self.stored)
        shuffled = False
        if kind == ZSTD_WITH_HEADER:
            skip = content[0] if content else 0
            if skip not in (1, 3) or (skip == 3 and content[1] != 1):
                raise DecodeError(f"expected a header of 1 or 3 bytes before zstd, found {content[:3]!r}")
            shuffled = skip == 3 and bool(content[2] & 1) and self.stored.itemsize > 1
            content = content[skip:]
            if shuffled and self.stored.itemsize > 2:
                raise DecodeError(f"expected high and low bytes of 16-bit numbers apart, found them of {self.dtype}")
        made = np.frombuffer(imagecodecs.zstd_decode(content, out=bytearray(size)), np.uint8)
        if shuffled:
            made = np.ascontiguousarray(made.reshape(2, -1).T).reshape(-1)
        return made.view(self.stored)


def _jxr_size(content: bytes) -> tuple[int, int]:
    """Return (width, height) in the header of JPEG XR; (0, 0) if it has none. The decoder would allocate any.

    Its container is like TIFF: specification ITU-T T.832, annex A.
    """
    if content[:3] != b"II\xbc" or len(content) < 8:
        return 0, 0
    at = int.from_bytes(content[4:8], "little")
    found = {}
    for k in range(int.from_bytes(content[at : at + 2], "little")):
        entry = content[at + 2 + 12 * k : at + 14 + 12 * k]
        if len(entry) < 12:
            break
        tag, kind, count = struct.unpack_from("<HHI", entry)
        if kind in _JXR_TYPES and count == 1:
            found[tag] = struct.unpack_from("<" + _JXR_TYPES[kind], entry, 8)[0]
    return found.get(_JXR_WIDTH, 0), found.get(_JXR_HEIGHT, 0)


Box = tuple[int, int, int, int]  # first row and column, the row and the column behind the last ones


def visible(tiles: Sequence[Sequence[Box]]) -> list[list[Box]]:
    """Find what later tiles leave of each tile.

    Args:
        tiles: boxes of the valid pixels of each, which do not overlap; one, or several, or none.

    Returns: for each tile boxes that do not overlap, or none.
    """
    all_of = np.array([box for boxes in tiles for box in boxes], np.int64).reshape(-1, 4)
    ends = np.cumsum([len(boxes) for boxes in tiles])
    found: list[list[Box]] = []
    for boxes, end in zip(tiles, ends.tolist(), strict=True):
        later, left = all_of[end:], []
        for box in boxes:
            over = (later[:, 0] < box[2]) & (later[:, 2] > box[0]) & (later[:, 1] < box[3]) & (later[:, 3] > box[1])
            parts = [box]
            for other in map(tuple, later[over].tolist()):
                parts = [part for one in parts for part in _without(one, other)]
            left += parts
        found.append(left)
    return found


def _without(box: Box, other: Box) -> list[Box]:
    """Return what another box leaves of a box."""
    top, left, bottom, right = box
    above, before = max(top, other[0]), max(left, other[1])
    below, behind = min(bottom, other[2]), min(right, other[3])
    if above >= below or before >= behind:
        return [box]
    parts = [
        (top, left, above, right),
        (above, left, below, before),
        (above, behind, below, right),
        (below, left, bottom, right),
    ]
    return [part for part in parts if part[0] < part[2] and part[1] < part[3]]
