"""Checks the places of the pixels of TIFF pages, and turns pages into a layout and a decoder.

- Uncompressed pages in one piece are frames (`FrameLayout`).
- Other uncompressed strips and tiles are blocks, of which any part can be read (`BlockLayout`; tiles
  at the edges are stored whole).
- All others (compressed, packed bits, 1-bit) are blocks that decode whole.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vfs.errors import FormatError, TruncatedSourceError
from vfs.formats.tiff_structure.headers import Kind
from vfs.formats.tiff_structure.segments import SegmentDecoder
from vfs.model.decode import BlockDecoder, Decoder, PlainDecoder
from vfs.model.layout import BlockLayout, FrameLayout, Layout

_LARGEST = 1 << 31  # most bytes of a block that decodes whole
# Most bytes into which one compressed byte may decode (deflate: 1,032; zstd: 32,768; blank lines of
# CCITT: more)
_EXPANDS = 1 << 18


@dataclass(frozen=True, eq=False)
class Planes:
    """Holds the places of pages that are stored alike.

    Attributes:
        kind: kind of all of them.
        file: int64[p], number of the file.
        offsets, sizes: int64[p, m] bytes, one column for each segment, or a single one if pages are
            in one piece. Offset and size 0 mean a segment that was never written; it is blank.
    """

    kind: Kind
    file: np.ndarray
    offsets: np.ndarray
    sizes: np.ndarray


def complaint_of(
    kind: Kind, offsets: np.ndarray, sizes: np.ndarray, ends: np.ndarray
) -> tuple[int, type[FormatError | TruncatedSourceError], str] | None:
    """Check offsets and byte counts (int64[p, m]) of pages. Fills in the byte counts of plain pages.

    Args:
        ends: int64[p], size of each page's file.

    Returns: (page, class of the error, message); None if there is no error.
    """
    absent = (offsets == 0) & (sizes == 0)
    block = math.prod(kind.segment) * kind.dtype.itemsize
    if kind.plain:
        need = (
            kind.segment_bytes()
            if offsets.shape[1] > 1
            else np.array([kind.nbytes if math.prod(kind.grid) > 1 else kind.segment_bytes()[0]])
        )
        short = ~absent & (sizes > 0) & (sizes < need)
        if short.any():
            page, segment = (int(k) for k in np.argwhere(short)[0])
            return (
                page,
                FormatError,
                (
                    f"stores {sizes[page, segment]:,} bytes for strip or tile {segment}, expected {need[segment]:,};"
                    " the file is garbled"
                ),
            )
        np.copyto(sizes, np.broadcast_to(need, sizes.shape), where=~absent)
    wrong = ~absent & ((offsets == 0) | (sizes <= 0))
    if wrong.any():
        page, segment = (int(k) for k in np.argwhere(wrong)[0])
        return (
            page,
            FormatError,
            (
                f"stores strip or tile {segment} at byte {offsets[page, segment]:,} with {sizes[page, segment]:,}"
                " bytes; the file is garbled"
            ),
        )
    beyond = (offsets < 0) | (offsets > ends[:, None]) | (sizes > ends[:, None] - offsets)
    if beyond.any():
        page, segment = (int(k) for k in np.argwhere(beyond)[0])
        first, size = int(offsets[page, segment]), int(sizes[page, segment])
        return (
            page,
            TruncatedSourceError,
            f"has pixels at bytes {first:,} to {first + size:,}, the file has {ends[page]:,}; it looks truncated",
        )
    if not kind.plain or absent.any():
        least = np.where(absent, 0, sizes).min(initial=1 << 40) if not absent.all() else 0
        if block > min(_LARGEST, max(1 << 26, int(least) * _EXPANDS)):
            return (
                0,
                FormatError,
                f"has strips or tiles of {block:,} bytes in {least:,} stored ones; such sizes are absurd",
            )
    return None


def arrange(
    planes: Planes, index: np.ndarray, nav: tuple[int, ...], shown: tuple[int, ...], dtype: np.dtype | None = None
) -> tuple[Layout, Decoder | BlockDecoder, tuple[int, ...]]:
    """Lay out an array of planes.

    Args:
        index: int64[p], position of every plane in C order of the navigation axes. Positions
            without a plane are blank.
        nav: lengths of the navigation axes.
        shown: the page's axes (see `Kind.shaped`) that follow the navigation axes; -1 for an axis
            of length 1 that pages do not have.
        dtype: dtype to show instead of the kind's, of the same size.

    Returns: (layout, decoder, block that is cheapest to read whole or ()).

    Raises:
        FormatError: tiles are thicker than the page along an axis that is not shown.
    """
    kind = planes.kind
    show = kind.dtype if dtype is None else dtype
    sig = tuple(kind.shaped[k] if k >= 0 else 1 for k in shown)
    used = [k for k in shown if k >= 0]
    n = math.prod(kind.grid)
    if kind.plain and used == sorted(used) and planes.offsets.shape[1] == 1 and (n > 1 or kind.whole_page):
        frames = FrameLayout.of(
            sig,
            np.ones(len(index), np.int64),
            word_bytes=show.itemsize,
            file_header=planes.offsets[:, 0],
            first=index,
            files=planes.file,
        ).arranged(nav)
        return frames, PlainDecoder(show.newbyteorder(kind.order)), ()
    pitch = tuple(_pitch(kind, shown)) if kind.tiled else ()
    origin, size = kind.segments()
    keep = ~((planes.offsets == 0) & (planes.sizes == 0))
    plane, segment = np.nonzero(keep)
    take = np.array([k if k >= 0 else 5 for k in shown])
    origin = np.concatenate([origin, np.zeros((n, 1), np.int64)], axis=1)[:, take]
    size = np.concatenate([size, np.ones((n, 1), np.int64)], axis=1)[:, take]
    place = np.stack(np.unravel_index(index, nav), axis=1) if nav else np.empty((len(index), 0), np.int64)
    whole = (1, *kind.segment, 1)
    block = (1,) * len(nav) + tuple(whole[k] for k in take.tolist())
    layout = BlockLayout.of(
        nav + sig,
        np.concatenate([place[plane], origin[segment]], axis=1),
        np.concatenate([np.ones((len(plane), len(nav)), np.int64), size[segment]], axis=1),
        planes.file[plane],
        planes.offsets[plane, segment],
        planes.sizes[plane, segment],
        word_bytes=show.itemsize if kind.plain else 0,
        whole=not kind.plain,
        pitch=(1,) * len(nav) + pitch if kind.tiled else (),
        numbers=plane * n + segment,
    )
    if kind.plain:
        return layout, PlainDecoder(show.newbyteorder(kind.order)), block if kind.tiled else ()
    return layout, SegmentDecoder(kind.header, n, show), block


def _pitch(kind: Kind, shown: tuple[int, ...]) -> tuple[int, ...]:
    """Return the lengths of stored tiles along every axis that is shown.

    The page has one pixel along an axis that is not shown, but its tiles may have more. Such a
    length is multiplied with that of the next axis that is shown, because it determines the distance
    of two elements along the axis before.

    Raises:
        FormatError: there is no axis for it.
    """
    long = (1, *kind.segment)
    pitch = [1] * len(shown)
    done = free = 0
    for k, axis in enumerate(shown):
        if axis > 0:
            pitch[k] = math.prod(long[done : axis + 1])
            done, free = axis + 1, k + 1
    rest = math.prod(long[done:])
    if free < len(shown):
        pitch[free] = rest
    elif rest > 1:
        raise FormatError(f"tiles of shape {kind.segment} in a page of {kind.shaped} cannot be arranged")
    return tuple(pitch)
