"""Decodes the sub-blocks of CZI, and cuts those that lie over each other.

The facts come from libCZI (https://github.com/ZEISS/libczi). Compressions: 0 none, 4 JPEG XR, 5 zstd, 6 zstd with a
header of 1 or 3 bytes, of which the third says whether the low bytes of 16-bit numbers come first, then all high ones.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from vfs.errors import DecodeError
from vfs.model.decode import MadeBlocks

NONE, JPEG_XR, ZSTD, ZSTD_WITH_HEADER = 0, 4, 5, 6
COMPRESSIONS = {NONE: "none", JPEG_XR: "jpeg xr", ZSTD: "zstd", ZSTD_WITH_HEADER: "zstd"}
_JXR_TYPES = {1: "B", 3: "H", 4: "I"}  # types of tags of whole numbers
_JXR_WIDTH, _JXR_HEIGHT = 0xBC80, 0xBC81


@dataclass(frozen=True, eq=False)
class TileDecoder(MadeBlocks):
    """Decodes whole tiles.

    Attributes:
        stored: dtype in the file.
        samples: of a pixel; three or four are stored as blue, green, red (alpha), and shown as red, green, blue.
        shapes: int64[tiles, 2], rows and columns of each as it is stored.
        compressions: uint8[tiles].
    """

    stored: np.dtype
    samples: int
    shapes: np.ndarray
    compressions: np.ndarray

    @cached_property
    def dtype(self) -> np.dtype:
        return self.stored.newbyteorder("=")

    def decode_block(self, data: np.ndarray, block: int, shape: tuple[int, ...]) -> np.ndarray:
        """Decode a tile, and put it at the start of a block of `shape`."""
        rows, columns = self.shapes[block].tolist()
        kind = int(self.compressions[block])
        full = (rows, columns, self.samples)
        try:
            found = self._pixels(data, kind, full)
        except DecodeError:
            raise
        except Exception as error:  # a codec may fail in any way
            said = str(error)[:120] or type(error).__name__
            raise DecodeError(f"block {block}: does not decode ({COMPRESSIONS[kind]}): {said}") from None
        if found.size != math.prod(full) or found.dtype.itemsize != self.stored.itemsize:
            raise DecodeError(
                f"block {block}: expected {self.dtype}{list(full)} after decoding ({COMPRESSIONS[kind]}), found"
                f" {found.dtype}{list(found.shape)}"
            )
        pixels = found.reshape(full)
        if self.samples > 2:
            pixels = pixels[..., [2, 1, 0, 3][: self.samples]]
        height, width = shape[-3:-1] if self.samples > 1 else shape[-2:]
        if (height, width) == (rows, columns):
            return np.ascontiguousarray(pixels).view(self.dtype).reshape(shape)
        made = np.zeros((height, width, self.samples), self.dtype)
        made[:rows, :columns] = pixels.view(self.dtype) if pixels.flags.c_contiguous else pixels
        return made.reshape(shape)

    def _pixels(self, data: np.ndarray, kind: int, full: tuple[int, int, int]) -> np.ndarray:
        size = math.prod(full) * self.stored.itemsize
        if kind == NONE:
            return np.frombuffer(data[:size], self.stored)
        import imagecodecs

        content: Any = data.tobytes()
        if kind == JPEG_XR:
            said = _jxr_size(content)
            if said != full[1::-1]:
                raise DecodeError(f"expected {full[1]:,} × {full[0]:,} pixels in the header of JPEG XR, found {said}")
            found: np.ndarray = imagecodecs.jpegxr_decode(content)
            return found
        shuffled = False
        if kind == ZSTD_WITH_HEADER:
            skip = content[0] if content else 0
            if skip not in (1, 3) or (skip == 3 and content[1] != 1):
                raise DecodeError(f"expected a header of 1 or 3 bytes before zstd, found {content[:3]!r}")
            shuffled = skip == 3 and bool(content[2] & 1)
            content = content[skip:]
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


def visible(boxes: list[Box]) -> list[list[Box]]:
    """Find what later boxes leave of each box: several boxes that do not overlap, or none."""
    all_of = np.array(boxes, np.int64).reshape(-1, 4)
    found: list[list[Box]] = []
    for k, box in enumerate(boxes):
        later = all_of[k + 1 :]
        over = (later[:, 0] < box[2]) & (later[:, 2] > box[0]) & (later[:, 1] < box[3]) & (later[:, 3] > box[1])
        left = [box]
        for other in map(tuple, later[over].tolist()):
            left = [part for one in left for part in _without(one, other)]
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
