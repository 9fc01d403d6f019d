"""Decodes strips and tiles of TIFF files, with imagecodecs if they only need inflating, else with tifffile."""

from __future__ import annotations

import math
import struct
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from vfs.errors import DecodeError, NotReferenceableError
from vfs.formats.tiff_structure.headers import quiet
from vfs.formats.tiff_structure.kinds import lower_name, tiny_page
from vfs.model.decode import Encoding, MadeBlocks

_DEFLATE = {8, 32946}
_CODECS: dict[int, dict[str, Any]] = {
    **{number: {"id": "zlib", "level": 6} for number in _DEFLATE},
    **{number: {"id": "zstd", "level": 3} for number in (50000, 34926)},
}
"""Compression of segments -> the codec of numcodecs that undoes it."""
_JPEG_2000 = {33003, 33004, 33005, 34712}


def _jpeg_2000_size(data: np.ndarray) -> int:
    """Return the number of samples in the header of a JPEG 2000 codestream; 0 if it is garbled.

    The decoder would allocate memory for any number. Specification: ITU-T T.800, A.5.1.
    """
    head = data[:4096].tobytes()
    at = head.find(b"\xff\x4f\xff\x51") + 8
    if at < 8 or len(head) < at + 34:
        return 0
    width, height, left, top = struct.unpack_from(">4I", head, at)
    return int((width - left) * (height - top) * struct.unpack_from(">H", head, at + 32)[0])


@lru_cache(maxsize=1024)
def _inflated(header: bytes) -> np.dtype | None:
    """Return the dtype, in the file's byte order, of segments that only need inflating; else None."""
    return _unpacked(header) if tiny_page(header).compression in _DEFLATE else None


@lru_cache(maxsize=1024)
def _unpacked(header: bytes) -> np.dtype | None:
    """Return the dtype, in the file's byte order, of segments that need nothing behind unpacking; else None."""
    page = tiny_page(header)
    if page.predictor != 1 or page.fillorder != 1 or page.sampleformat == 5 or page.is_subsampled:
        return None
    dtype: np.dtype = np.dtype(page.dtype)
    whole = isinstance(page.bitspersample, int) and page.bitspersample == dtype.itemsize * 8 and dtype.kind in "iuf"
    return dtype.newbyteorder("<" if header.startswith(b"II") else ">") if whole else None


def _inflate(data: np.ndarray, out: np.ndarray) -> bool:
    """Inflate into existing memory. Returns True if the data filled it exactly."""
    import imagecodecs

    flat = out.reshape(-1).view(np.uint8)
    try:
        decode: Any = imagecodecs.deflate_decode if imagecodecs.DEFLATE.available else imagecodecs.zlib_decode
        return bool(len(decode(data, out=flat)) == flat.size)
    except Exception:  # tifffile tries to decode it then, and raises the error
        return False


_DEFLATED = 1032
"""Most bytes that one deflated byte can become: 258 for two bits (RFC 1951)."""


@dataclass(frozen=True)
class SegmentDecoder(MadeBlocks):
    """Decodes whole strips or tiles.

    Args:
        header: header of their `Kind`; it is small, and all that another process needs.
        segments: number of segments of a page. Block `n` is segment `n % segments`, which determines
            the height of the last strip.
        dtype: dtype of the result.
    """

    header: bytes
    segments: int
    dtype: np.dtype

    def decode_block(self, data: np.ndarray, block: int, shape: tuple[int, ...]) -> np.ndarray:
        stored = _inflated(self.header)
        if (
            stored is not None
            and stored.itemsize == self.dtype.itemsize
            and math.prod(shape) * stored.itemsize <= _DEFLATED * data.size
        ):
            inflated = np.empty(shape, self.dtype)
            if _inflate(data, inflated):
                return inflated if stored.isnative else inflated.byteswap(inplace=True)
        page = tiny_page(self.header)
        if page.compression in _JPEG_2000 and _jpeg_2000_size(data) > 4 * math.prod(shape):
            raise DecodeError(
                f"segment {block % self.segments}: expected {shape}, its JPEG 2000 header says"
                f" {_jpeg_2000_size(data):,} samples"
            )
        try:
            with quiet(), np.errstate(all="ignore"):
                made, _, full = page.decode(data.tobytes(), block % self.segments, jpegtables=page.jpegtables)
        except Exception as error:
            raise DecodeError(
                f"segment {block % self.segments}: does not decode ({lower_name(page.compression)}):"
                f" {' '.join(str(error).split())[:200]}"
            ) from None
        if made.dtype.itemsize != self.dtype.itemsize or (
            made.dtype.kind != self.dtype.kind and {made.dtype.kind, self.dtype.kind} - set("biu")
        ):
            raise DecodeError(f"segment {block % self.segments}: expected {self.dtype}, found {made.dtype}")
        if made.shape != full:  # a tile at the edge that holds less than a whole one
            whole = np.zeros(full, made.dtype)
            whole[tuple(slice(0, n) for n in made.shape)] = made
            made = whole
        if made.size != math.prod(shape):
            raise DecodeError(f"segment {block % self.segments}: expected {shape}, found {made.shape}")
        native = made.astype(made.dtype.newbyteorder("="), copy=False)
        return np.ascontiguousarray(native).view(self.dtype).reshape(shape)

    def encoding(self, nbytes: int, blocks: np.ndarray) -> Encoding:
        """See `vfs.model.encoding.SaysEncoding`."""
        stored, page = _unpacked(self.header), tiny_page(self.header)
        codec = _CODECS.get(page.compression)
        if codec is None or stored is None or stored.newbyteorder("=") != self.dtype:
            if page.compression == 1:
                raise NotReferenceableError("its pixels are no whole bytes in the file, or in another order")
            how = lower_name(page.compression) + (" with a predictor" if page.predictor != 1 else "")
            raise NotReferenceableError(f"zarr has no codec for its strips or tiles ({how})")
        return Encoding(stored, (codec,))


@dataclass(frozen=True)
class PartDecoder:
    """Decodes whole strips or tiles of pages that stand in one array with pages of other kinds.

    Args:
        segments: decoder of these strips or tiles.
        stored: shape in which each is stored: (depth, length, width, samples in a pixel).
        tiled: True for tiles, which are stored whole at the edges.
        axes: the axes of a page (see `Kind.shaped`) that the last axes of the array are; -1 for one
            of length 1.
    """

    segments: SegmentDecoder
    stored: tuple[int, int, int, int]
    tiled: bool
    axes: tuple[int, ...]

    def decode_block(self, data: np.ndarray, block: int, shape: tuple[int, ...]) -> np.ndarray:
        """Decode one segment to the box of `shape` that the array has of it."""
        box = [1, 1, 1, 1, 1]
        for axis, n in zip(self.axes, shape[-len(self.axes) :], strict=True):
            if axis >= 0:
                box[axis] = n
        stored = (1, *self.stored) if self.tiled else tuple(box)
        made = self.segments.decode_block(data, block, stored)[tuple(slice(0, n) for n in box)]
        shown = [axis for axis in self.axes if axis >= 0]
        order = [*(axis for axis in range(5) if axis not in shown), *shown]
        return np.ascontiguousarray(made.transpose(order)).reshape(shape)


@dataclass(frozen=True)
class MixedSegmentDecoder(MadeBlocks):
    """Decodes whole strips or tiles of pages that are stored in several ways.

    Args:
        parts: a decoder for each way.
        first: number of the first block of each.
        dtype: dtype of the result.
    """

    parts: tuple[PartDecoder, ...]
    first: tuple[int, ...]
    dtype: np.dtype

    def decode_block(self, data: np.ndarray, block: int, shape: tuple[int, ...]) -> np.ndarray:
        k = bisect_right(self.first, block) - 1
        return self.parts[k].decode_block(data, block - self.first[k], shape)
