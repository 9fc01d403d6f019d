"""Describes where the pixels of TIFF pages are, and checks what the pages say of it.

Offsets and byte counts come from files that may be cut or garbled. A page whose pixels cannot be
where it says is bad: the other pages of its array can still be shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from vfs.errors import FormatError, TruncatedSourceError
from vfs.formats.tiff_structure.kinds import Kind

_LARGEST = 1 << 31  # most bytes of a block that decodes whole
# Most bytes into which one compressed byte may decode (deflate: 1,032; zstd: 32,768; blank lines of
# CCITT: more)
_EXPANDS = 1 << 18


@dataclass(frozen=True, eq=False)
class Planes:
    """Holds the places of pages that are stored alike.

    Attributes:
        kind: kind of all of them.
        which: int64[p], number of the plane of the array that each page is.
        file: int64[p], number of the file.
        offsets, sizes: int64[p, m] bytes, one column for each segment, or a single one if pages are
            in one piece. Offset and size 0 mean a segment that was never written; it is blank.
    """

    kind: Kind
    which: np.ndarray
    file: np.ndarray
    offsets: np.ndarray
    sizes: np.ndarray

    @property
    def in_one_piece(self) -> bool:
        """True if each page is plain bytes, one row after the other."""
        return (
            self.kind.plain and self.offsets.shape[1] == 1 and (math.prod(self.kind.grid) > 1 or self.kind.whole_page)
        )

    def behind(self, planes: int) -> Planes:
        """Return the same pages as planes of an array in which so many others come before them."""
        return replace(self, which=self.which + planes)


def joined_planes(parts: Sequence[Planes]) -> tuple[Planes, ...]:
    """Join parts that can be read as one: plain pages in one piece, of one byte order."""
    if len(parts) < 2:
        return tuple(parts)
    one = parts[0]
    alike = all(
        part.in_one_piece and part.kind.stored == one.kind.stored and part.kind.shaped == one.kind.shaped
        for part in parts
    )
    if not alike:
        return tuple(parts)
    order = np.argsort(np.concatenate([part.which for part in parts]))
    columns = [
        np.concatenate([getattr(part, name) for part in parts])[order] for name in ("which", "file", "offsets", "sizes")
    ]
    return (Planes(one.kind, *columns),)


class Complaint(NamedTuple):
    """Says what is wrong with the places of some pages.

    Attributes:
        pages: bool[p], the pages.
        error: class of the error.
        said: what the first of them does, as the end of a message.
    """

    pages: np.ndarray
    error: type[FormatError | TruncatedSourceError]
    said: str


def complaints(kind: Kind, offsets: np.ndarray, sizes: np.ndarray, ends: np.ndarray) -> Iterator[Complaint]:
    """Check offsets and byte counts (int64[p, m]) of pages. Fills in the byte counts of plain pages.

    Args:
        ends: int64[p], size of each page's file.
    """
    absent = (offsets == 0) & (sizes == 0)
    if kind.plain:
        yield from _short(kind, sizes, absent)
    wrong = ~absent & ((offsets == 0) | (sizes <= 0))
    if wrong.any():
        page, segment = _first(wrong)
        yield Complaint(
            _pages(wrong),
            FormatError,
            f"stores strip or tile {segment} at byte {offsets[page, segment]:,} with {sizes[page, segment]:,}"
            " bytes; the file is garbled",
        )
    beyond = (offsets < 0) | (offsets > ends[:, None]) | (sizes > ends[:, None] - offsets)
    if beyond.any():
        page, segment = _first(beyond)
        first, size = int(offsets[page, segment]), int(sizes[page, segment])
        yield Complaint(
            _pages(beyond),
            TruncatedSourceError,
            f"has pixels at bytes {first:,} to {first + size:,}, the file has {ends[page]:,}; it looks truncated",
        )
    if not kind.plain or absent.any():
        yield from _absurd(kind, sizes, absent)


def _pages(bad: np.ndarray) -> np.ndarray:
    return np.asarray(bad.any(axis=1))


def _first(bad: np.ndarray) -> tuple[int, int]:
    page, segment = np.argwhere(bad)[0].tolist()
    return page, segment


def _short(kind: Kind, sizes: np.ndarray, absent: np.ndarray) -> Iterator[Complaint]:
    if sizes.shape[1] > 1:
        need = kind.segment_bytes()
    else:
        need = np.array([kind.nbytes if math.prod(kind.grid) > 1 else kind.segment_bytes()[0]])
    short = ~absent & (sizes > 0) & (sizes < need)
    if short.any():
        page, segment = _first(short)
        yield Complaint(
            _pages(short),
            FormatError,
            f"stores {sizes[page, segment]:,} bytes for strip or tile {segment}, expected {need[segment]:,};"
            " the file is garbled",
        )
    np.copyto(sizes, np.broadcast_to(need, sizes.shape), where=~absent)


def _absurd(kind: Kind, sizes: np.ndarray, absent: np.ndarray) -> Iterator[Complaint]:
    block = math.prod(kind.segment) * kind.dtype.itemsize
    least = np.where(absent.all(axis=1), 0, np.where(absent, _LARGEST, sizes).min(axis=1))
    absurd = np.greater(block, np.minimum(_LARGEST, np.maximum(1 << 26, least * _EXPANDS)))
    if absurd.any():
        yield Complaint(
            absurd,
            FormatError,
            f"has strips or tiles of {block:,} bytes in {least[absurd.argmax()]:,} stored ones; such sizes are absurd",
        )
