"""Shows the axes of an array in another order, and turned over, where its layout cannot say so.

Then blocks of the other array are read, and their elements put in place: each costs a copy.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from vfs.engine import chunking
from vfs.engine.array import ArrayReader
from vfs.engine.cache import ChunkCache
from vfs.engine.computed import ComputedBlocks
from vfs.model.axis_order import AxisOrder
from vfs.model.layout import altered
from vfs.model.region import Region


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
    blocks = ComputedBlocks(shape, block, array.dtype, partial(_read, array, order))
    dataset = altered(
        array.dataset,
        layout=blocks.layout(),
        decoder=blocks,
        shape=shape,
        dims=order.dims,
        nav_ndim=order.nav_ndim,
        block=block,
    )
    return blocks.reader(dataset, cache, chunks)


def _read(array: ArrayReader, order: AxisOrder, region: Region) -> np.ndarray:
    """Read a region of the array in its order."""
    cuts = [slice(0, 0)] * array.ndim
    for axis, flipped, first, stop in zip(order.axes, order.flipped, region.start, region.stop, strict=True):
        n = array.shape[axis]
        cuts[axis] = slice(n - stop, n - first) if flipped else slice(first, stop)
    read = array.read(Region.of(cuts, array.shape)).transpose(order.axes)
    over = tuple(slice(None, None, -1) if flipped else slice(None) for flipped in order.flipped)
    return np.ascontiguousarray(read[over])
