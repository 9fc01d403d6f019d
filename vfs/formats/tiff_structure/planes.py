"""Turns the pages of an array into a layout and a decoder.

- Uncompressed pages in one piece are frames (`FrameLayout`).
- Other uncompressed strips and tiles are blocks, of which any part can be read (`BlockLayout`; tiles
  at the edges are stored whole).
- All others (compressed, packed bits, 1-bit) are blocks that decode whole. So are those of pages
  that are stored in several ways: each is decoded as the tags of its own page say.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vfs.errors import FormatError
from vfs.formats.tiff_structure.kinds import Kind
from vfs.formats.tiff_structure.places import Planes
from vfs.formats.tiff_structure.segments import MixedSegmentDecoder, PartDecoder, SegmentDecoder
from vfs.model.decode import BlockDecoder, Decoder, PlainDecoder
from vfs.model.layout import BlockLayout, BlockTable, FrameLayout, FrameRecord, Layout, Scan

_SAMPLES = (0, 4)  # axes of `Kind.shaped`: separate samples, samples in a pixel


def arrange(
    parts: Sequence[Planes],
    index: np.ndarray,
    nav: tuple[int, ...],
    like: Kind,
    shown: tuple[int, ...],
    dtype: np.dtype | None = None,
) -> tuple[Layout, Decoder | BlockDecoder, tuple[int, ...]]:
    """Lay out an array of planes.

    Args:
        parts: the planes, those that are stored alike together; one or more.
        index: int64[planes], position of every plane in C order of the navigation axes. Positions
            without a plane are blank.
        nav: lengths of the navigation axes.
        like: kind of pages whose axes `shown` counts.
        shown: the page's axes (see `Kind.shaped`) that follow the navigation axes; -1 for an axis
            of length 1 that pages do not have.
        dtype: dtype to show instead of the kind's, of the same size.

    Returns: (layout, decoder, block that is cheapest to read whole or ()).

    Raises:
        FormatError: tiles are thicker than the page along an axis that is not shown.
    """
    one = parts[0].kind
    show = one.dtype if dtype is None else dtype
    sig = tuple(like.shaped[k] if k >= 0 else 1 for k in shown)
    axes = [_of_kind(shown, like, part.kind) for part in parts]
    used = [k for k in axes[0] if k >= 0]
    if len(parts) == 1 and parts[0].in_one_piece and used == sorted(used):
        return _frames(parts[0], index, nav, sig, show.itemsize), PlainDecoder(show.newbyteorder(one.order)), ()
    numbers = np.cumsum([0, *(len(part.which) * math.prod(part.kind.grid) for part in parts)])
    blocks = _PlaneBlocks.joined(
        [
            _PlaneBlocks.of(part, index, nav, take, first)
            for part, take, first in zip(parts, axes, numbers.tolist(), strict=False)
        ]
    )
    whole = (1, *one.segment, 1)
    block = (1,) * len(nav) + tuple(whole[k] for k in axes[0])
    plain = all(part.kind.plain and part.kind.order == one.order for part in parts)
    tiled = any(part.kind.tiled for part in parts)
    if (len(parts) > 1 and (tiled or not plain)) or any(
        _turned(part.kind, take) for part, take in zip(parts, axes, strict=True)
    ):
        decoders = (_part_decoder(part.kind, take, show) for part, take in zip(parts, axes, strict=True))
        mixed = MixedSegmentDecoder(tuple(decoders), tuple(numbers[:-1].tolist()), show)
        return blocks.layout(nav + sig), mixed, block
    pitch = (1,) * len(nav) + tuple(_pitch(one, shown)) if tiled else ()
    if plain:
        layout = blocks.layout(nav + sig, show.itemsize, pitch)
        return layout, PlainDecoder(show.newbyteorder(one.order)), block if tiled else ()
    return blocks.layout(nav + sig, 0, pitch), SegmentDecoder(one.header, math.prod(one.grid), show), block


def _frames(
    part: Planes, index: np.ndarray, nav: tuple[int, ...], sig: tuple[int, ...], word_bytes: int
) -> FrameLayout:
    """Lay out planes that lie whole in their files as frames."""
    return FrameLayout.of(
        FrameRecord(sig, word_bytes),
        np.ones(len(part.which), np.int64),
        file_header=part.offsets[:, 0],
        first=index[part.which],
        files=part.file,
    ).arranged(Scan(nav))


def _part_decoder(kind: Kind, take: tuple[int, ...], dtype: np.dtype) -> PartDecoder:
    """Return the decoder of planes among others that are stored otherwise."""
    return PartDecoder(SegmentDecoder(kind.header, math.prod(kind.grid), dtype), kind.segment, kind.tiled, take)


def _of_kind(shown: tuple[int, ...], like: Kind, kind: Kind) -> tuple[int, ...]:
    """Return the axes of pages of a kind that `shown` means, which counts those of another kind.

    Samples may be separate in one of them, and in a pixel in the other one.
    """
    if kind.shaped == like.shaped:
        return shown
    return tuple(_SAMPLES[k == _SAMPLES[0]] if k in _SAMPLES else k for k in shown)


def _turned(kind: Kind, axes: tuple[int, ...]) -> bool:
    """Return True if samples in a pixel are shown before other axes: blocks have another order than the array."""
    return kind.segment[3] > 1 and axes[-1] != _SAMPLES[1]


@dataclass(frozen=True, eq=False)
class _PlaneBlocks:
    """Holds the strips and tiles of planes as columns, see `BlockLayout.of`.

    Attributes:
        origin, shape: int64[n, ndim].
        file, offset, nbytes, number: int64[n].
    """

    origin: np.ndarray
    shape: np.ndarray
    file: np.ndarray
    offset: np.ndarray
    nbytes: np.ndarray
    number: np.ndarray

    @classmethod
    def of(
        cls, planes: Planes, index: np.ndarray, nav: tuple[int, ...], axes: tuple[int, ...], first: int
    ) -> _PlaneBlocks:
        """Find the blocks of planes that are stored alike.

        Args:
            axes: axes of `Kind.shaped` that are shown; -1 for an axis of length 1.
            first: number of the first block; segment `s` of plane `p` is number `first + p * segments + s`.
        """
        kind, n = planes.kind, math.prod(planes.kind.grid)
        offsets, sizes = planes.offsets, planes.sizes
        if offsets.shape[1] < n:  # in one piece
            each = kind.segment_bytes()
            offsets, sizes = offsets + np.cumsum(each) - each, np.broadcast_to(each, (len(offsets), n))
        plane, segment = np.nonzero(~((offsets == 0) & (sizes == 0)))
        origin, size = kind.segments()
        take = np.array([k if k >= 0 else 5 for k in axes])
        origin = np.concatenate([origin, np.zeros((n, 1), np.int64)], axis=1)[:, take]
        size = np.concatenate([size, np.ones((n, 1), np.int64)], axis=1)[:, take]
        at = index[planes.which]
        place = np.stack(np.unravel_index(at, nav), axis=1) if nav else np.empty((len(at), 0), np.int64)
        return cls(
            np.concatenate([place[plane], origin[segment]], axis=1),
            np.concatenate([np.ones((len(plane), len(nav)), np.int64), size[segment]], axis=1),
            planes.file[plane],
            offsets[plane, segment],
            sizes[plane, segment],
            first + plane * n + segment,
        )

    @classmethod
    def joined(cls, parts: Sequence[_PlaneBlocks]) -> _PlaneBlocks:
        if len(parts) == 1:
            return parts[0]
        return cls(*[np.concatenate([getattr(part, name) for part in parts]) for name in cls.__dataclass_fields__])

    def layout(self, shape: tuple[int, ...], word_bytes: int = 0, pitch: tuple[int, ...] = ()) -> BlockLayout:
        """Return the layout. With `word_bytes` 0 its blocks decode only as wholes."""
        return BlockLayout.of(
            shape,
            BlockTable(self.origin, self.shape, self.file, self.offset, self.nbytes, numbers=self.number),
            word_bytes=word_bytes,
            pitch=pitch,
        )


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
