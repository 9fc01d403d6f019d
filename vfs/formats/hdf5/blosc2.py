"""Decodes chunks of HDF5's Blosc2 filter: contiguous frames of one Blosc2 chunk.

The chunk may be divided into blocks along several axes. The frame:
https://github.com/Blosc/c-blosc2/blob/main/README_CFRAME_FORMAT.rst, its metalayer "b2nd":
README_B2ND_METALAYER.rst there. imagecodecs decodes the chunk in it. Numbers are big endian, in
MessagePack with a byte of type before each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np

_MARK = b"\x9e\xa8b2frame\0"
_LAYER = b"\xa4b2nd\xd2"
_MAX_AXES = 8
_SPECIAL = {1: 0, 4: 0}  # kinds of chunks without bytes that read as zeros: zeros, and uninitialised ones


def unpack(data: np.ndarray, out: np.ndarray, decode: Callable[..., Any]) -> None:
    """Undo the filter.

    Args:
        data: uint8, the stored bytes.
        out: uint8, memory for the elements of an HDF5 chunk.
        decode: imagecodecs' `blosc2_decode`.

    Raises:
        ValueError: the bytes are not such a frame, or its size is wrong. `decode` may raise any other
            exception.
    """
    head = data[:96].tobytes()
    if len(head) < 96 or not head.startswith(_MARK):
        raise ValueError("no Blosc2 frame")
    start, size, stored = (int.from_bytes(head[a:b], "big") for a, b in ((11, 15), (30, 38), (39, 47)))
    if start > data.size:
        raise ValueError("the Blosc2 frame ends in its header")
    shape, block = _blocks(data[:start].tobytes())
    if not shape:
        shape, block = (out.size,), (out.size,)
    width, rest = divmod(out.size, math.prod(shape))
    counts = tuple(-(-n // b) for n, b in zip(shape, block, strict=True))
    if rest or width < 1 or size != math.prod(counts) * math.prod(block) * width or size > 16 * out.size:
        raise ValueError(
            f"expected {out.size:,} bytes, the Blosc2 frame says {size:,} in chunks of {shape} and blocks of {block}"
        )
    if stored == 0:
        at = int.from_bytes(decode(data[start:].tobytes())[:8], "little", signed=True)
        if at >= 0 or at >> 56 & 7 not in _SPECIAL:
            raise ValueError("a Blosc2 chunk without bytes, of a kind that is not known")
        out[:] = 0
        return
    chunk = data[start : start + stored]
    if chunk.size < 32 or int.from_bytes(chunk[4:8].tobytes(), "little") != size:
        raise ValueError("the Blosc2 frame and its chunk differ in size")
    one = math.prod(counts) == 1
    whole = decode(chunk, out=out if one else np.empty(size, np.uint8))
    if len(whole) != size:
        raise ValueError(f"expected {size:,} bytes, found {len(whole):,}")
    if not one:
        _placed(np.asarray(whole), out, width, shape, block, counts)


def _blocks(header: bytes) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return (shape of the chunk, shape of its blocks); both are () if it has only one axis."""
    at = header.find(_LAYER)
    if at < 0:
        return (), ()
    at = int.from_bytes(header[at + 6 : at + 10], "big") + 5  # behind the type and the length of the content
    axes = header[at + 2] if at + 2 < len(header) else 0
    end = at + 3 + axes * (9 + 5 + 5) + 3  # lists of axes 64-bit and twice 32-bit numbers
    if not 1 <= axes <= _MAX_AXES or end > len(header):
        raise ValueError("the axes of the Blosc2 frame make no sense")
    lists = at + 3 + 1 + axes * 9
    shapes = []
    for first in (lists + 1, lists + 1 + axes * 5 + 1):
        shapes.append(tuple(int.from_bytes(header[first + 5 * k + 1 : first + 5 * k + 5], "big") for k in range(axes)))
    shape, block = shapes
    if any(not 1 <= b <= n for n, b in zip(shape, block, strict=True)):
        raise ValueError(f"the Blosc2 frame has chunks of {shape} and blocks of {block}")
    return shape, block


def _placed(
    whole: np.ndarray,
    out: np.ndarray,
    width: int,
    shape: tuple[int, ...],
    block: tuple[int, ...],
    counts: tuple[int, ...],
) -> None:
    """Copy blocks, which follow each other and are padded at the edges, into elements in C order."""
    nd = len(shape)
    apart = whole.view(f"V{width}").reshape(counts + block)
    joined = apart.transpose(tuple(chain.from_iterable((k, nd + k) for k in range(nd))))
    full = joined.reshape(tuple(c * b for c, b in zip(counts, block, strict=True)))
    out.view(f"V{width}").reshape(shape)[...] = full[tuple(slice(0, n) for n in shape)]
