"""Shows arrays with other axes: in another order, turned over, several of them as one.

An `AxisOrder` is what a user asks for (`axes=`), where the layout cannot say it: `turned`. An `Arrangement` is for
viewers of images, which want `[t, c, z, y, x]` where files hold colours behind x, frames behind the image, or a scan
along two axes: `arranged`. Where frames lie whole in files and only a scan becomes one axis, the same frames are shown
by another layout, as fast as before. Else the elements are put into their places when they are read: such an array has
computed blocks (`vfs.engine.computed`), which cover whole blocks of the file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from vfs.engine import chunking
from vfs.engine.array import ArrayReader
from vfs.engine.cache import ChunkCache
from vfs.engine.computed import ComputedBlocks
from vfs.model.axis_order import AxisOrder
from vfs.model.layout import altered
from vfs.model.region import Region
from vfs.model.stored import StoredArray

BLOCK = 1024
"""Pixels along y and x of a block, about."""
MAX_WHOLE_AXIS = 16
"""Most elements along an axis behind x of which a block has all."""


@dataclass(frozen=True)
class Arrangement:
    """Says which axes of an array become which.

    Attributes:
        axes: for each axis that is shown, the axes of the array that it counts in C order. The last two are one axis
            each, y and x.
        dims: a name for each.
        fixed: axes of the array of which one element is shown -> which.
    """

    axes: tuple[tuple[int, ...], ...]
    dims: tuple[str, ...]
    fixed: Mapping[int, int] = field(default_factory=dict)

    def shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape that is shown of an array of this shape."""
        return tuple(math.prod(shape[k] for k in group) for group in self.axes)

    @property
    def in_order(self) -> bool:
        """True if all elements are shown, in their order."""
        flat = list(chain(*self.axes))
        return flat == sorted(flat) and not self.fixed

    @property
    def as_stored(self) -> bool:
        """True if axes only get other names."""
        return self.in_order and all(len(group) == 1 for group in self.axes)


def uncached(array: ArrayReader, chunks: Sequence[int] = ()) -> ArrayReader:
    """Return what reads the same array and keeps nothing, for readers that take whole blocks once.

    An array whose blocks form no grid keeps what it decodes, because such a reader takes parts of them.
    """
    if not array.decodes_whole or len(array.dataset.block) != array.ndim:
        return array
    return _again(array, array.dataset, chunks or array.chunks, ChunkCache(0))


def converted(array: ArrayReader, dtype: str) -> ArrayReader:
    """Return what reads the same array as numbers of another type."""
    return _again(array, array.dataset, array.chunks, array.cache, dtype)


def _again(
    array: ArrayReader, dataset: StoredArray, chunks: Sequence[int], cache: ChunkCache, dtype: str | None = None
) -> ArrayReader:
    how: dict[str, Any] = {"dtype": dtype or array.dtype, "corrections": array.corrections}
    return ArrayReader(dataset, array.backend, chunks=tuple(chunks), cache=cache, grouped=False, **how)


def with_axes(array: ArrayReader, how: Arrangement, **said: Any) -> ArrayReader:
    """Show an array with other axes. Its chunks are for viewers: one image, or a square part of it.

    Args:
        said: what its `StoredArray` says besides: path, attrs, …
    """
    shape = how.shape(array.shape)
    source, frames = array.dataset, array.dataset.layout.frames
    known = {**said, "shape": shape, "dims": how.dims, "nav_ndim": len(shape) - 2, "absent": ()}
    frame = [axis - source.nav_ndim for (axis,) in how.axes[-2:]]
    known["pixel_mask"] = source.pixel_mask and source.pixel_mask.among(frame)
    known["background"] = source.background and source.background.among(frame)
    if how.as_stored:
        dataset = altered(source, **known)
    elif how.in_order and frames is not None and len(shape) == 3 and source.nav_ndim == array.ndim - 2:
        block = (1, *source.block[-2:]) if source.block else ()
        dataset = altered(source, layout=frames.along_one_axis(), block=block, **known)
    else:
        return _computed(array, how, known)
    chunks = _chunks(shape, dataset.block, array.dtype.itemsize)
    return _again(array, dataset, chunks, array.cache)


def _computed(array: ArrayReader, how: Arrangement, known: dict[str, Any]) -> ArrayReader:
    planes = _Planes(array, how)
    shape, block = how.shape(array.shape), planes.block
    blocks = ComputedBlocks(shape, block, array.dtype, planes.make)
    dataset = altered(array.dataset, layout=blocks.layout(), decoder=blocks, block=block, fill=array.fill, **known)
    return blocks.reader(dataset, array.backend.files, array.cache, _chunks(shape, (1, 1), array.dtype.itemsize))


def _chunks(shape: Sequence[int], block: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Choose the chunks of images for viewers: whole tiles, about `SIDE` pixels square; else whole small images."""
    *lead, high, wide = shape
    small = high * wide * itemsize <= SMALL
    tile = block[-2:] if block else (high, wide) if small else (1, 1)
    sides = [_times(side, n) if side < n else n for side, n in zip(tile, (high, wide), strict=True)]
    if sides[0] * sides[1] * itemsize > 4 * SMALL:  # strips, or one block
        sides = [min(SIDE, high), min(SIDE, wide)]
    return (*(1 for _ in lead), *(max(1, side) for side in sides))


SIDE = 512
"""Pixels along y and x of a chunk, about."""
SMALL = 2 << 20
"""Bytes of images that are one chunk."""


def _times(side: int, length: int) -> int:
    """Return as many times a side as come close to `SIDE`, at most the length of the axis."""
    return min(length, side * max(1, round(SIDE / side)))


class _Planes:
    """Makes blocks of an array with other axes.

    Attributes:
        block: elements of a block per axis that is shown.
    """

    def __init__(self, array: ArrayReader, how: Arrangement) -> None:
        self.how, self._shape = how, array.shape
        block = array.dataset.block
        own = block if len(block) == array.ndim else (1,) * array.ndim
        x = how.axes[-1][0]
        lead = [self._together(group, own, x) for group in how.axes[:-2]]
        image = [
            min(array.shape[k], own[k] * max(1, round(BLOCK / own[k]))) for k in (group[0] for group in how.axes[-2:])
        ]
        self.block = tuple(max(1, n) for n in (*lead, *image))
        several = any(own[k] > 1 for group in how.axes[:-2] for k in group if k < x)
        self.array = array if several else uncached(array)  # a block of the file may be wanted for several of ours

    def _together(self, group: tuple[int, ...], block: Sequence[int], x: int) -> int:
        """Return how many elements along an axis that is shown belong to a block: those behind x that lie together."""
        last = group[-1]
        n = self._shape[last]
        if last < x:
            return 1
        return n if n <= MAX_WHOLE_AXIS or block[last] >= n else block[last] if len(group) == 1 else 1

    def make(self, region: Region) -> np.ndarray:
        """Make the elements of a region that is a block.

        Raises:
            SourceError: they cannot be read.
        """
        start, shape = [self.how.fixed.get(k, 0) for k in range(len(self._shape))], [1] * len(self._shape)
        for group, first, n in zip(self.how.axes, region.start, region.shape, strict=True):
            for k, at in zip(group, np.unravel_index(first, [self._shape[k] for k in group]), strict=True):
                start[k] = int(at)
            shape[group[-1]] = n
        box = Region.box(start, [a + n for a, n in zip(start, shape, strict=True)])
        return _permuted(self.array, box, [*self.how.fixed, *chain(*self.how.axes)]).reshape(region.shape)


def turned(array: ArrayReader, order: AxisOrder, chunks: chunking.ChunkSpec, cache: ChunkCache) -> ArrayReader:
    """Show an array in another order of axes.

    Args:
        array: the array; its attributes are already those of the order.
        chunks: shape of the chunks, see `vfs.engine.chunking.negotiate`.
        cache: keeps blocks.

    Raises:
        OptionError: the shape of chunks does not fit.
    """
    shape = tuple(array.shape[axis] for axis in order.axes)
    block = tuple(array.chunks[axis] for axis in order.axes)
    blocks = ComputedBlocks(shape, block, array.dtype, partial(_turned, array, order))
    known: dict[str, Any] = {"shape": shape, "dims": order.dims, "nav_ndim": order.nav_ndim, "block": block}
    dataset = altered(array.dataset, layout=blocks.layout(), decoder=blocks, **known)
    return blocks.reader(dataset, array.backend.files, cache, chunks)


def _turned(array: ArrayReader, order: AxisOrder, region: Region) -> np.ndarray:
    """Read a region of the array in its order."""
    cuts = [slice(0, 0)] * array.ndim
    for axis, flipped, first, stop in zip(order.axes, order.flipped, region.start, region.stop, strict=True):
        n = array.shape[axis]
        cuts[axis] = slice(n - stop, n - first) if flipped else slice(first, stop)
    return _permuted(array, Region.of(cuts, array.shape), order.axes, order.flipped)


def _permuted(
    array: ArrayReader, box: Region, axes: Sequence[int], flipped: Sequence[bool] | None = None
) -> np.ndarray:
    """Read a box of an array with its axes in another order, of which some are turned over. C-contiguous, own memory.

    Raises:
        SourceError: it cannot be read.
    """
    over = tuple(slice(None, None, -1) if one else slice(None) for one in flipped or [False] * len(axes))
    return array.backend.settled(lambda: np.array(array.read(box).transpose(axes)[over], order="C"))
