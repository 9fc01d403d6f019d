"""Chunk and tile shapes: what they should be, and cutting a region into them. Pure functions.

What weighs in: whole frames are the cheapest to read (one range each), a chunk should hold 1 to 4 MiB (below, requests
cost more than bytes; above, looking at one frame reads too much), and a native block (a compressed tile) is read whole anyway.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from vfs.errors import OptionError
from vfs.geometry import ChunkGrid, Region

ChunkSpec = str | int | Sequence[int]

TARGET = 2 << 20  # bytes of an automatic chunk
LIMIT = 8 << 20  # bytes beyond which an automatic chunk cuts frames
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "kib": 1 << 10, "kb": 1000, "m": 1 << 20, "mib": 1 << 20, "mb": 10**6, "g": 1 << 30, "gib": 1 << 30, "gb": 10**9}


def chunk_shape(spec: ChunkSpec, shape: Sequence[int], itemsize: int, nav_ndim: int, block: Sequence[int] = ()) -> tuple[int, ...]:
    """The chunk shape of an array.

    Args:
        spec: "auto" (whole frames, about 2 MiB), "frames" (one whole frame a chunk), a number of bytes (also as "4MiB"),
            or elements per axis (also as "1,16,-1,-1"; -1 is the whole axis).
        shape: of the array; itemsize: bytes an element.
        nav_ndim: number of navigation axes.
        block: the native block, () where there is none.

    Returns: elements per axis, each at least 1.

    Raises:
        OptionError: a word that is not known, a tuple of another length, numbers below 1 other than -1.
    """
    if isinstance(spec, str):
        spec = _parsed(spec)
    if isinstance(spec, str):
        target = 1 if spec == "frames" else TARGET
    elif isinstance(spec, int):
        if spec < 1:
            raise OptionError(f"chunks={spec}: a number of bytes must be at least 1")
        target = spec
    else:
        return _given(spec, shape)

    limit = max(target, LIMIT)
    chunk = [max(1, min(b, n)) for b, n in zip(block, shape, strict=True)] if block else [1] * nav_ndim + [max(1, n) for n in shape[nav_ndim:]]
    if math.prod(chunk) * itemsize > limit and not block:
        for axis in range(nav_ndim, len(shape)):  # a frame beyond the limit is cut along its slow axes
            rest = math.prod(chunk[:axis] + chunk[axis + 1 :]) * itemsize
            chunk[axis] = max(1, min(chunk[axis], _even(max(1, shape[axis]), max(1, TARGET // rest))))
            if math.prod(chunk) * itemsize <= limit:
                break
    order = range(len(shape) - 1, -1, -1) if spec != "frames" else range(0)
    for axis in order:  # grow along the fast axes first
        if chunk[axis] < shape[axis]:
            more = target // (math.prod(chunk) * itemsize)
            if more >= 2:
                chunk[axis] = _grown(chunk[axis], shape[axis], more)
            if chunk[axis] < shape[axis]:
                break
    return tuple(chunk)


def _parsed(word: str) -> str | int | tuple[int, ...]:
    if word in ("auto", "frames"):
        return word
    sized = re.fullmatch(r"\s*(\d+)\s*([A-Za-z]*)\s*", word)
    if sized and sized[2].lower() in _UNITS:
        return int(sized[1]) * _UNITS[sized[2].lower()]
    try:
        return tuple(int(part) for part in word.strip("()").split(",") if part.strip())
    except ValueError:
        raise OptionError(f'chunks={word!r}: expected "auto", "frames", a size such as "4MiB", or elements per axis such as "1,16,-1,-1"') from None


def _given(spec: Sequence[int], shape: Sequence[int]) -> tuple[int, ...]:
    if len(spec) != len(shape):
        raise OptionError(f"chunks={tuple(spec)}: the array has {len(shape)} axes, shape {tuple(shape)}")
    chunk = []
    for axis, (c, n) in enumerate(zip(spec, shape, strict=True)):
        if isinstance(c, bool) or int(c) != c or (c < 1 and c != -1):
            raise OptionError(f"chunks={tuple(spec)}: axis {axis} must be at least 1, or -1 for the whole axis")
        chunk.append(max(1, n if c == -1 else min(int(c), n)))
    return tuple(chunk)


def _even(length: int, most: int) -> int:
    """Cut `length` into equal parts of at most `most`."""
    return -(-length // -(-length // most))


def _grown(unit: int, length: int, times: int) -> int:
    """A multiple of `unit`, at most `times` of it, that cuts `length` evenly where one of at least half that size does."""
    most = min(times, -(-length // unit))
    for n in range(most, most // 2, -1):
        if length % (n * unit) == 0:
            return n * unit
    return min(length, most * unit)


def cut(region: Region, itemsize: int, limit: int) -> Iterator[Region]:
    """Cut a region into tiles of at most `limit` bytes along its slowest axes, in C order; all of it where it is small."""
    shape = region.shape
    if region.size * itemsize <= limit:
        yield region
        return
    tile = list(shape)
    for axis in range(len(shape)):
        rest = math.prod(tile[axis + 1 :]) * itemsize
        tile[axis] = max(1, min(shape[axis], limit // max(1, rest)))
        if tile[axis] > 1 or rest <= limit:
            break
    grid = ChunkGrid(shape, tuple(tile))
    for position in grid.touched(Region.whole(shape)):
        part = grid.region(position)
        start = tuple(o + a * s for o, a, s in zip(region.start, part.start, region.step, strict=True))
        stop = tuple(min(b, o + z * s) for o, z, s, b in zip(region.start, part.stop, region.step, region.stop, strict=True))
        yield Region(start, stop, region.step)
