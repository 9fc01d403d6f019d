"""Reads which pixels of a sub-block of CZI are valid: of the others, what lies below is seen.

ZEN 3 attaches a mask to sub-blocks, behind their pixels. The facts come from libCZI (https://github.com/ZEISS/libczi)
and from the reader in czifile (https://github.com/cgohlke/czifile). Numbers are little endian::

    attachments: GUID (16 bytes) | bytes (uint32) | data | GUID | …; or 16 bytes | GUID of the mask | its data
    mask: columns (uint32) | rows (uint32) | 0 (uint32), that of a bit for each pixel | bytes of a row (uint32) | rows
"""

from __future__ import annotations

import struct

import numpy as np

from vfs.errors import FormatError
from vfs.formats.czi.tiles import Box
from vfs.formats.headers import read_at
from vfs.model.sources import Sources

_GUID = bytes.fromhex("67eae3cbfc5b2b49a16aece378031448")
_HEAD = struct.Struct("<IIII")
_CHUNK = 20  # bytes of a GUID and of a length
_MAX_MASK_BYTES = 1 << 30  # bytes of a mask: far more than any tile has pixels
_MAX_BOXES = 1 << 16


def valid_pixels(sources: Sources, path: str, at: int, size: int, sides: tuple[int, int]) -> list[Box] | None:
    """Find the valid pixels of a tile: boxes that do not overlap; None if all pixels are valid.

    Args:
        at, size: first byte of the attachments of its sub-block, and bytes of them.
        sides: rows and columns of the tile as it is stored.

    Raises:
        FormatError: the mask is garbled, or of a kind that nobody knows.
    """
    data = _mask(sources, path, at, size)
    if data is None:
        return None
    columns, rows, kind, pitch = _HEAD.unpack_from(data) if len(data) >= _HEAD.size else (0, 0, -1, 0)
    if kind or 8 * pitch < columns or len(data) < _HEAD.size + rows * pitch or rows < sides[0] or columns < sides[1]:
        raise FormatError(
            f"{path}: expected a mask of valid pixels with a bit for each of {sides[1]:,} × {sides[0]:,} pixels at byte"
            f" {at:,}, found one of kind {kind}, {columns:,} × {rows:,} pixels, {len(data):,} bytes"
        )
    bits = np.frombuffer(data, np.uint8, rows * pitch, _HEAD.size).reshape(rows, pitch)[: sides[0]]
    valid = np.unpackbits(bits, axis=1)[:, : sides[1]].astype(bool)
    return None if valid.all() else boxes_of(valid, path)


def _mask(sources: Sources, path: str, at: int, size: int) -> bytes | None:
    """Read the data of a mask among the attachments of a sub-block; None if there is none."""
    begin = 0
    while begin + _CHUNK + _HEAD.size <= size:
        head = read_at(sources, path, _CHUNK + 12, at + begin)
        length = int.from_bytes(head[16:_CHUNK], "little")
        if head[:16] == _GUID and begin + _CHUNK + length <= size and length <= _MAX_MASK_BYTES:
            return read_at(sources, path, length, at + begin + _CHUNK)
        if not begin and head[16:32] == _GUID and size <= _MAX_MASK_BYTES:
            return read_at(sources, path, size - 32, at + 32)
        begin += _CHUNK + length
    return None


def boxes_of(valid: np.ndarray, path: str) -> list[Box]:
    """Cut the True elements of bool[rows, columns] into boxes: runs of rows, of rows that are alike one for all.

    Raises:
        FormatError: there are absurdly many.
    """
    starts = np.flatnonzero(np.r_[True, (valid[1:] != valid[:-1]).any(axis=1)])
    stops = np.r_[starts[1:], len(valid)]
    found: list[Box] = []
    for top, bottom in zip(starts.tolist(), stops.tolist(), strict=True):
        edges = np.flatnonzero(np.diff(np.r_[False, valid[top], False].astype(np.int8)))
        found += [(top, left, bottom, right) for left, right in edges.reshape(-1, 2).tolist()]
        if len(found) > _MAX_BOXES:
            raise FormatError(f"{path}: expected a mask of valid pixels in one piece, found more than {_MAX_BOXES:,}")
    return found
