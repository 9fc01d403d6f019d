"""Decides on shapes of chunks, says what they cost, and cuts regions into tiles. Pure functions.

These reasons decide on a chunk shape:

- A chunk should hold 1 to 8 MiB. Below, requests cost more than bytes; above, a look at one frame
  reads too much.
- Whole frames are the cheapest to read: one range each.
- A native block that decodes as a whole is best taken whole. Tiles of images make chunks that are
  about square, because viewers look at parts of images.
- Storage delivers whole pages: a run of 8 pixels costs as much as one of 2,000.

*Read amplification* is the cost of a shape: bytes that storage must deliver for each byte that is
asked for, for one chunk and for all chunks one after the other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, product

from vfs.errors import OptionError
from vfs.model.options import whole_number
from vfs.model.region import Region
from vfs.model.wording import option

ChunkSpec = str | int | Sequence[int]

TARGET = 2 << 20  # bytes of an automatic chunk of whole frames
SCAN_TARGET = 4 << 20  # bytes of a chunk that takes little of every frame
LIMIT = 8 << 20  # bytes beyond which an automatic chunk cuts frames
PAGE = 4096  # bytes that storage delivers at least
ALONE = 2.0  # read amplification up to which a chunk is best read by itself
COSTLY = 4.0  # read amplification beyond which there is a warning
_WORDS = ("auto", "frames", "scan", "balanced")
_UNITS = {
    "": 1,
    "b": 1,
    "k": 1 << 10,
    "kib": 1 << 10,
    "kb": 1000,
    "m": 1 << 20,
    "mib": 1 << 20,
    "mb": 10**6,
    "g": 1 << 30,
    "gib": 1 << 30,
    "gb": 10**9,
}


@dataclass(frozen=True)
class ChunkingInput:
    """Describes an array as far as its best chunk shape depends on it.

    Attributes:
        shape: shape of the array.
        nav_ndim: number of navigation axes, which come first.
        itemsize: bytes of an element in a chunk.
        stored: bytes of an element in the file (1/8 for 1-bit pixels).
        block: native block, elements per axis; () where there is none.
        whole: True where a block decodes only as a whole.
        word: number of elements that decode together.
    """

    shape: tuple[int, ...]
    nav_ndim: int
    itemsize: int
    stored: float
    block: tuple[int, ...] = ()
    whole: bool = False
    word: int = 1

    @property
    def unit(self) -> tuple[int, ...]:
        """Shape of the native block; of a frame where there is no block."""
        unit = self.block or (1,) * self.nav_ndim + self.shape[self.nav_ndim :]
        return tuple(max(1, min(b, n)) for b, n in zip(unit, self.shape, strict=True))


@dataclass(frozen=True)
class Chunking:
    """A chunk shape, the reason for it, and its cost.

    Attributes:
        shape: elements per axis.
        reason: says in a few words why the shape is so.
        one: read amplification of one chunk alone.
        full: read amplification of all chunks one after the other, with no cache.
    """

    shape: tuple[int, ...]
    reason: str
    one: float
    full: float

    @property
    def warning(self) -> str | None:
        """A sentence for the user if the shape is costly, else None."""
        if max(self.one, self.full) <= COSTLY:
            return None
        return (
            f"chunks {self.shape} read {max(self.one, self.full):.0f} bytes for each byte asked for;"
            f" {option(chunks='auto')} reads whole frames or blocks"
        )


def negotiate(spec: ChunkSpec, source: ChunkingInput, name: str = "chunks") -> Chunking:
    """Decide on a chunk shape.

    Args:
        spec: "auto" (whole frames or blocks, about 2 MiB), "frames" (one frame a chunk, for
            looking), "scan" (few rows of every frame, much of the scan, for virtual detectors),
            "balanced" (an equal share of scan and detector), a number of bytes (also as "4MiB":
            whole frames or blocks of about that size), or elements per axis (also as "1,16,-1,-1";
            -1 is the whole axis). Elements per axis are taken as they are given.
        name: name of the option that says it, for errors.

    Raises:
        OptionError: `spec` is an unknown word, has elements for another number of axes, or numbers
            below 1 other than -1.
    """
    try:
        return _decided_by_text(spec, source) if isinstance(spec, str) else _decided(spec, source)
    except OptionError as error:
        raise OptionError(f"{option(**{name: spec})}: {error}") from None


@lru_cache(maxsize=256)
def _decided_by_text(word: str, source: ChunkingInput) -> Chunking:
    """Do what `negotiate` does, for a text. Remembered, because the arrays of a folder are often alike."""
    return _decided(parsed(word), source)


def _decided(spec: ChunkSpec, source: ChunkingInput) -> Chunking:
    if isinstance(spec, str):
        shape, reason = _named(spec, source)
    elif (size := whole_number(spec)) is not None:
        if size < 1:
            raise OptionError("a number of bytes must be at least 1")
        shape = _units(source, size, max(size, LIMIT))
        reason = f"whole {_unit_name(source)} up to {size:,} bytes, as asked"
    else:
        shape, reason = _given(spec, source.shape), "as asked"
    touched = _touched(shape, source)
    one = touched / max(1.0, math.prod(shape) * source.stored)
    full = _passed(shape, source, touched) / max(1.0, math.prod(source.shape) * source.stored)
    return Chunking(shape, reason, one, full)


def grouped(chunking: Chunking, source: ChunkingInput, limit: int) -> tuple[int, ...]:
    """Return the shape of a group of neighbouring chunks that are best read together.

    Chunks that take a little of every frame need the same pages as their neighbours, so as many as
    fit into `limit` bytes are read at once. Where chunks are best read one by one, this is the
    chunk shape itself.
    """
    shape = list(chunking.shape)
    if chunking.one <= ALONE or source.whole:
        return chunking.shape
    times = limit // max(1, math.prod(shape) * source.itemsize)
    for axis in range(len(shape) - 1, source.nav_ndim - 1, -1):
        take = max(1, min(times, -(-source.shape[axis] // shape[axis])))
        shape[axis] = min(max(1, source.shape[axis]), shape[axis] * take)
        times //= take
    return tuple(shape)


def _unit_name(source: ChunkingInput) -> str:
    return "blocks" if source.block else "frames"


def _named(word: str, source: ChunkingInput) -> tuple[tuple[int, ...], str]:
    nav, nd = source.nav_ndim, len(source.shape)
    if word == "frames":
        return (1,) * nav + tuple(max(1, n) for n in source.shape[nav:]), "one whole frame a chunk"
    if word == "auto" or nav == 0 or nav == nd:
        return _units(source, TARGET, LIMIT), f"whole {_unit_name(source)}, about {TARGET >> 20} MiB a chunk"
    positions = math.prod(source.shape[:nav])
    frame = math.prod(source.shape[nav:]) * source.itemsize
    if word == "scan":  # the whole scan if that leaves at least one word of pixels, else as much as fits
        reason = "few rows of every frame, much of the scan"
        chunk = _rows(source.shape[nav:], SCAN_TARGET // max(1, positions * source.itemsize), source.word)
    else:
        share = math.sqrt(min(1.0, SCAN_TARGET / max(1, positions * frame)))
        positions = max(1, int(positions * share))
        reason = "an equal share of the scan and of the detector"
        chunk = _shrunk(source.shape[nav:], min(1.0, SCAN_TARGET / max(1, positions * frame)), source.word)
    return _fitted(source.shape[:nav], SCAN_TARGET // (math.prod(chunk) * source.itemsize)) + chunk, reason


def _rows(shape: Sequence[int], elements: int, word: int) -> tuple[int, ...]:
    """Return the shape of a part of a frame with at most `elements` elements, but at least one word.

    It has whole rows if they fit, else part of one row.

    A square box takes a little of many rows, and storage gives whole pages of each: all chunks of a
    scan of 1,024 frames of 256 x 256 pixels took 109 ms as 45 x 45 boxes, 55 ms as 8 x 256
    (buffered; mapped 105 and 31; whole frames 27).
    """
    left, chunk = max(1, elements), list(shape)
    for axis in reversed(range(len(shape))):
        chunk[axis] = max(1, min(shape[axis], left))
        left //= chunk[axis]
    if chunk:
        chunk[-1] = min(max(1, shape[-1]), -(-chunk[-1] // word) * word)
    return tuple(chunk)


def _shrunk(shape: Sequence[int], share: float, word: int) -> tuple[int, ...]:
    """Return the shape of a part of a frame that is about `share` of it.

    Every axis that is long enough gives the same share; the last axis is cut in whole words.
    """
    each = share ** (1 / max(1, len(shape)))
    left, wide = share, len(shape)
    for n in sorted(shape):  # an axis cannot have less than one element, so the longer ones are cut more
        if n * each >= 1:
            break
        left, wide = min(1.0, left * n), wide - 1
        each = left ** (1 / wide) if wide else 0.0
    chunk = [max(1, min(n, int(n * each))) for n in shape]
    if chunk:
        chunk[-1] = min(max(1, shape[-1]), -(-chunk[-1] // word) * word)
    return tuple(chunk)


def _fitted(shape: Sequence[int], most: int) -> tuple[int, ...]:
    """Return the shape of a part of a scan with at most `most` positions; it takes the fast axes whole first."""
    chunk = [1] * len(shape)
    for axis in range(len(shape) - 1, -1, -1):
        chunk[axis] = _even(max(1, shape[axis]), max(1, min(shape[axis], most)))
        most //= chunk[axis]
    return tuple(chunk)


def _units(source: ChunkingInput, target: int, limit: int) -> tuple[int, ...]:
    """Return the shape of as many whole blocks or frames as fit into `target` bytes.

    A frame of more than `limit` bytes is cut along its slow axes.
    """
    shape, itemsize = source.shape, source.itemsize
    chunk = list(source.unit)
    if math.prod(chunk) * itemsize > limit and not source.whole:
        for axis in range(len(shape)):  # navigation axes, too: a block may span several frames
            rest = math.prod(chunk[:axis] + chunk[axis + 1 :]) * itemsize
            chunk[axis] = min(chunk[axis], _even(max(1, shape[axis]), max(1, target // rest)))
            if math.prod(chunk) * itemsize <= limit:
                break
    if source.block:
        _squared(chunk, shape, target // itemsize, source.nav_ndim)
    for axis in range(len(shape) - 1, -1, -1):  # grow along the fast axes first
        if chunk[axis] < shape[axis]:
            more = target // (math.prod(chunk) * itemsize)
            if more >= 2:
                chunk[axis] = _multiple(chunk[axis], shape[axis], more)
            if chunk[axis] < shape[axis]:
                break
    return tuple(chunk)


_COLOURS = 4
"""Most numbers of a pixel behind x."""


def _squared(chunk: list[int], shape: Sequence[int], most: int, nav_ndim: int) -> None:
    """Double the shorter of the two sides of chunks of tiles while they have at most `most` elements.

    The sides are the last two axes, or the two before the colours of a pixel; of frames, and only where tiles are
    narrower than these.
    """
    last = len(shape) - 1
    if last - nav_ndim >= 2 and chunk[last] == shape[last] <= _COLOURS:
        last -= 1
    if last - nav_ndim < 1 or chunk[last] == shape[last]:
        return
    while 2 * math.prod(chunk) <= most:
        sides = [axis for axis in (last, last - 1) if chunk[axis] < shape[axis]]
        if not sides:
            return
        axis = min(sides, key=chunk.__getitem__)
        chunk[axis] = _multiple(chunk[axis], shape[axis], 2)


def _touched(chunk: Sequence[int], source: ChunkingInput) -> float:
    """Estimate the bytes that storage delivers for a chunk in the middle of the array."""
    unit = source.unit
    if source.whole:
        return math.prod(-(-c // b) * b for c, b in zip(chunk, unit, strict=True)) * source.stored
    units = math.prod(-(-c // u) for c, u in zip(chunk, unit, strict=True))
    inside = [min(c, u) for c, u in zip(chunk, unit, strict=True)]
    size = math.prod(unit) * source.stored
    run = source.stored
    lines = 1
    # `run`: bytes that lie together in a frame or block; `lines`: number of such runs
    for axis in range(len(chunk) - 1, -1, -1):
        if lines == 1 and run == math.prod(unit[axis + 1 :]) * source.stored:
            run *= inside[axis]
        else:
            lines *= inside[axis]
    if units == 0 or run == 0:
        return 0.0
    pitch = size / max(1, math.prod(unit[:-1]))
    line = run if run >= size else min(max(run, pitch), run + PAGE) if pitch < PAGE else run + PAGE
    return units * max(min(size, PAGE), min(size, lines * line))


def _passed(chunk: Sequence[int], source: ChunkingInput, touched: float) -> float:
    """Estimate the bytes that storage delivers for all chunks, one after the other.

    Chunks at the far edges count only the part of them that lies in the array.

    Args:
        touched: bytes for a whole chunk.
    """
    edges = [n % c for n, c in zip(source.shape, chunk, strict=True)]
    whole = [n // c for n, c in zip(source.shape, chunk, strict=True)]
    total = touched * math.prod(whole)
    for at_edge in product(*((False, True) if rest else (False,) for rest in edges)):
        if any(at_edge):
            count = math.prod(n for n, here in zip(whole, at_edge, strict=True) if not here)
            if count:
                cut_chunk = [e if here else c for e, c, here in zip(edges, chunk, at_edge, strict=True)]
                total += count * _touched(cut_chunk, source)
    return total


def check_for_many(spec: ChunkSpec) -> None:
    """Check a chunk shape that is to hold for all data sets of a folder.

    Raises:
        OptionError: it is none, or has elements per axis, which fit one data set.
    """
    try:
        found = parsed(spec) if isinstance(spec, str) else spec
    except OptionError as error:
        raise OptionError(f"{option(chunks=spec)}: {error}") from None
    if not isinstance(found, str | int):
        raise OptionError(
            f"{option(chunks=spec)}: elements per axis are for one data set; for a folder take auto, frames, scan,"
            " balanced or a size (4MiB)"
        )


def parsed(word: str) -> str | int | tuple[int, ...]:
    """Parse the text of a chunk shape. The error has no name of an option.

    Returns: a word, a number of bytes, or elements per axis.

    Raises:
        OptionError: it is none of these.
    """
    if word in _WORDS:
        return word
    sized = _size(word)
    if sized is not None:
        return sized
    try:
        return tuple(int(part) for part in word.strip("()").split(",") if part.strip())
    except ValueError:
        known = ", ".join(f'"{w}"' for w in _WORDS)
        raise OptionError(
            f'expected {known}, a size such as "4MiB", or elements per axis such as "1,16,-1,-1"'
        ) from None


def _size(word: str) -> int | None:
    sized = re.fullmatch(r"\s*(\d{1,18})\s*([A-Za-z]*)\s*", word)
    return int(sized[1]) * _UNITS[sized[2].lower()] if sized and sized[2].lower() in _UNITS else None


def as_bytes(spec: int | str, name: str) -> int:
    """Return a number of bytes, given as a number or as text such as "4MiB".

    Args:
        name: name of the option, for the error.

    Raises:
        OptionError: it is no number of bytes.
    """
    size = _size(spec) if isinstance(spec, str) else whole_number(spec)
    if size is None or size < 0:
        raise OptionError(f'{option(**{name: spec})}: expected a number of bytes, also as "512MiB"')
    return size


def _given(spec: object, shape: Sequence[int]) -> tuple[int, ...]:
    if not isinstance(spec, Iterable) or getattr(spec, "ndim", None) == 0:
        raise OptionError("expected a word, a number of bytes, or elements per axis")
    asked = tuple(islice(spec, len(shape) + 1))
    if len(asked) != len(shape):
        raise OptionError(
            f"expected an element count, or -1 for all of it, for each of {len(shape)} axes, shape {tuple(shape)}"
        )
    chunk = []
    for axis, (c, n) in enumerate(zip(asked, shape, strict=True)):
        length = whole_number(c)
        if length is None or length < -1 or length == 0:
            raise OptionError(f"axis {axis} must be at least 1, or -1 for the whole axis")
        chunk.append(max(1, n if length == -1 else min(length, n)))
    return tuple(chunk)


def _even(length: int, most: int) -> int:
    """Return the length of the parts if `length` is cut into equal parts of at most `most`."""
    return -(-length // -(-length // most))


def _multiple(unit: int, length: int, times: int) -> int:
    """Return a multiple of `unit`, at most `times * unit`.

    If a multiple of at least half that size cuts `length` into equal parts, it is this one.
    """
    most = min(times, -(-length // unit))
    for n in range(most, most // 2, -1):
        if length % (n * unit) == 0:
            return n * unit
    return min(length, most * unit)


def cut(region: Region, itemsize: int, limit: int) -> Iterator[Region]:
    """Cut a region into tiles of at most `limit` bytes along its slowest axes, in C order.

    A region that is small enough is one tile.
    """
    shape = region.shape
    if not shape or math.prod(shape) * itemsize <= limit:
        yield region
        return
    tile = list(shape)
    for axis in range(len(shape)):
        rest = math.prod(tile[axis + 1 :]) * itemsize
        tile[axis] = max(1, min(shape[axis], limit // max(1, rest)))
        if tile[axis] > 1 or rest <= limit:
            break
    slow = [range(a, b, s) for a, b, s in zip(region.start[:axis], region.stop[:axis], region.step[:axis], strict=True)]
    start, stop, step = region.start, region.stop, region.step
    far = tile[axis] * step[axis]
    for at in product(*slow):
        ends = tuple(min(o + s, b) for o, s, b in zip(at, step[:axis], stop[:axis], strict=True)) if axis else ()
        for o in range(start[axis], stop[axis], far):
            yield Region((*at, o, *start[axis + 1 :]), (*ends, min(o + far, stop[axis]), *stop[axis + 1 :]), step)
