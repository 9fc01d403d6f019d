"""Smaller versions of images, which are computed when they are read.

A *level* has half as many pixels along y and x as the one below it: each is the mean of 2 × 2 pixels
(`vfs.kernels.halve`), or one of them where numbers are names or colours of a table. The levels of an array are
arrays of `vfs.engine.computed.ComputedBlocks`: to make a block of a level is to read the blocks of the level below
that lie under it. These are in the cache, or made in the same way, down to the image itself. So the
coarsest level costs one pass over the image, in the order in which its blocks lie, and leaves all levels in the
cache, as far as there is room, the coarser ones first; and a pass needs memory for a few blocks of each level.

Tiles that decode only as a whole are read once, because a block of the first level covers whole tiles: of strips, whole
lines of the image. Reading a block of a higher level makes those two levels further down in several threads.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from vfs import kernels
from vfs.backends.mapped import one_pass
from vfs.buffers import large, scratch
from vfs.engine.abandon import check
from vfs.engine.array import ArrayReader, ahead, threads_asked
from vfs.engine.computed import ComputedBlocks
from vfs.engine.other_axes import uncached
from vfs.model.region import ChunkGrid, Region
from vfs.model.stored import StoredArray
from vfs.reduce.level_store import LevelStore, StoredLevels

COARSEST = 512
"""Pixels along y and x of the coarsest level, at most."""
UNIT = 1024
"""Pixels along y and x that a block of the first level is made of, about."""
LINE = 8 << 10
"""Bytes along x that such a block of a plain image is made of: short lines lie on pages far apart, which are slow to go
through, and where files are read with pread each line is a call. So a block of a level has 2 MiB, as a huge page has.
"""
BAND = 4 << 20
"""Bytes of lines that a block of the first level is made of, where these are decoded as wholes."""
DEPTH = 2
"""Levels below a block whose blocks are made in several threads."""


def halved(images: np.ndarray, nearest: bool = False) -> np.ndarray:
    """Halve images along their last two axes.

    Args:
        images: […, y, x], C-contiguous, numbers that are not complex, of either byte order.
        nearest: take the first of each 2 × 2 pixels; else their mean. Of integers it is rounded, halves upwards.

    Returns: a new array of the same numbers, […, (y + 1) // 2, (x + 1) // 2], in the byte order of the machine.
    """
    return _halved(images, slice(0, images.shape[-1]), nearest)


def _halved(images: np.ndarray, columns: slice, nearest: bool) -> np.ndarray:
    """Halve columns of images: see `halved`.

    Args:
        columns: they end where those of the images do, or after an even number.
    """
    dtype, (*lead, high, wide) = images.dtype.newbyteorder("="), images.shape
    if dtype.kind == "f" and dtype.itemsize not in (4, 8) and not nearest:  # of 16 bits, which kernels do not know
        return halved(images[..., columns].astype(np.float32)).astype(dtype)
    shape = (*lead, -(-high // 2), -(-(columns.stop - columns.start) // 2))
    out = large.lend(math.prod(shape) * dtype.itemsize).view(dtype).reshape(shape)
    taken = np.dtype(f"u{dtype.itemsize}") if nearest or dtype.kind == "b" else dtype
    words = f"{'i' if taken.kind == 'u' else 'u'}{dtype.itemsize}"  # of the other byte order: see `vfs.kernels.halve`
    lying = images.view(taken if images.dtype.isnative else words).reshape(-1, high, wide)
    how = lying, columns.start, out.view(taken).reshape(-1, *out.shape[-2:])
    if nearest or dtype.kind == "b":
        kernels.halve.nearest(*how)
    elif dtype.kind == "f":
        (kernels.halve.single if dtype.itemsize == 4 else kernels.halve.double)(*how)
    elif dtype.itemsize == 8:
        kernels.halve.wide(*how, dtype.type(1))
    else:
        (kernels.halve.middle if dtype.itemsize == 4 else kernels.halve.narrow)(*how)
    return out


def levels(image: ArrayReader, nearest: bool = False, store: LevelStore | None = None) -> list[ArrayReader]:
    """Make the levels above an array of images, the finest first, until none is larger than `COARSEST`.

    Args:
        image: its last two axes are y and x, which are halved.
        nearest: see `halved`.
        store: keeps them for the next run; None: only the cache of the image keeps them.

    Returns: arrays with the same axes and dtype; none where the image is small.
    """
    return _Pyramid(image, nearest, None if store is None else store.of(image, nearest)).levels


@dataclass(frozen=True, eq=False)
class LevelBlocks(ComputedBlocks):
    """The blocks of a level, for those who have the level below at hand.

    Attributes:
        under: the level below, or the image.
        nearest: see `halved`.
        stored: says whether an earlier run kept a block.
    """

    under: ArrayReader
    nearest: bool
    stored: Callable[[Region], bool]

    def below(self, region: Region) -> Region:
        """Return the region of the level below that lies under a region."""
        return _under(region, self.under.shape, 1)

    def above(self, region: Region) -> Region:
        """Return the region of the level that is made, as a whole or in part, of a region of the level below."""
        start = [a // 2 for a in region.start[-2:]]
        stop = [-(-b // 2) for b in region.stop[-2:]]
        return Region.box((*region.start[:-2], *start), (*region.stop[:-2], *stop))


def ready(level: ArrayReader) -> bool:
    """Return True if nothing has to be computed to read all of a level.

    A file holds it; or its blocks are in the cache, or were kept by an earlier run. Of one of more than `LOOKED` blocks
    it is False: nobody looks at them all.
    """
    blocks = level.dataset.decoder
    if not isinstance(blocks, LevelBlocks):
        return True
    few = math.prod(ChunkGrid(level.shape, level.dataset.block).counts) <= LOOKED
    return few and all(level.held(one) or blocks.stored(one) for one in _blocks(level, Region.whole(level.shape)))


LOOKED = 256
"""Blocks of a level that are looked for, at most."""


class _Pyramid:
    """Makes blocks of the levels of an image.

    A block that somebody still holds is not made again, unless a file was found changed since: the cache drops
    blocks that are waited for, too, where a level has more than it can hold.

    Args:
        stored: keeps blocks for the next run.

    Attributes:
        levels: the levels, the finest first.
    """

    def __init__(self, image: ArrayReader, nearest: bool, stored: StoredLevels | None) -> None:
        self.image, self.nearest, self.stored = uncached(image), nearest, stored
        self.cache = image.cache
        self.levels: list[ArrayReader] = []
        self._alive: WeakValueDictionary[tuple[Any, int, Region], np.ndarray] = WeakValueDictionary()
        block = tuple(-(-n // h) for n, h in zip(_unit(image), (1,) * (image.ndim - 2) + (2, 2), strict=True))
        below = image.shape
        under = image
        while max(below[-2:]) > COARSEST and 0 not in below:
            below = (*below[:-2], -(-below[-2] // 2), -(-below[-1] // 2))
            under = self._level(len(self.levels), below, block, under)
            self.levels.append(under)

    def _level(self, number: int, shape: tuple[int, ...], block: tuple[int, ...], under: ArrayReader) -> ArrayReader:
        image, source = self.image, self.image.dataset
        cut = tuple(min(b, n) for b, n in zip(block, shape, strict=True))
        blocks = LevelBlocks(
            shape, cut, image.dtype, partial(self._block, number), under, self.nearest, partial(self._has, number)
        )
        dataset = StoredArray(
            f"{source.path}/{number + 1}",
            source.files,
            blocks.layout(),
            blocks,
            shape,
            image.dims,
            len(shape) - 2,
            fill=source.fill,
            block=cut,
            companion=True,
            computed=True,
        )
        chunk = (*(1 for _ in shape[:-2]), *(_side(b, n) for b, n in zip(cut[-2:], shape[-2:], strict=True)))
        return blocks.reader(dataset, image.backend.files, self.cache, chunk)

    def _has(self, number: int, region: Region) -> bool:
        return self.stored is not None and self.stored.has(number, region)

    def _block(self, number: int, region: Region) -> np.ndarray:
        """Make a block of a level.

        Raises:
            SourceError: what lies under it cannot be read.
            AbandonedError: the one for whom it is made has gone away.
        """
        check()
        moved = self.image.moved(0)
        block = self._alive.get((moved, number, region))
        if block is None and self.stored is not None:
            block = self.stored.get(number, region)
        if block is None:
            before = _ahead.made
            once = bool(number) and not before and self.image.decodes_whole
            with one_pass() if once else nullcontext():  # what was decoded of a mapped file is not read again
                below = [] if before or not number else self._made_ahead(number, region)
                try:
                    _ahead.made = before or bool(below)
                    block = self.image.backend.settled(partial(self._made, number, region))
                finally:
                    _ahead.made = before
            del below  # held until now
            if self.stored is not None:
                self.stored.put(number, region, block, moved)
        self._alive[moved, number, region] = block
        return block

    def _made(self, number: int, region: Region) -> np.ndarray:
        under = self.levels[number - 1] if number else self.image
        box = _under(region, under.shape, 1)
        if not number:  # where lines follow one another in a file that is mapped, nothing is copied
            lines = under.lying(Region.box([*box.start[:-1], 0], [*box.stop[:-1], under.shape[-1]]))
            if lines is not None:
                return _halved(lines, box.slices[-1], self.nearest)
        with scratch.borrow(box.size * under.dtype.itemsize) as memory:
            part = memory[: box.size * under.dtype.itemsize].view(under.dtype).reshape(box.shape)
            block = halved(under.read(box, part), self.nearest)
        if number and sum(level.nbytes for level in self.levels[number - 1 :]) > self.cache.spent_limit:
            under.spent(box)  # else they would drive out the levels above, which are fewer bytes
        return block

    def _made_ahead(self, number: int, region: Region) -> list[np.ndarray | None]:
        """Have blocks some levels below a block made in several threads, if the cache can hold them. Return them."""
        depth = max(0, number - DEPTH)
        level = self.levels[depth]
        wanted = list(_blocks(level, _under(region, level.shape, number - depth)))
        held = 2 * len(wanted) * math.prod(level.dataset.block) * level.dtype.itemsize
        if len(wanted) < 2 or held > level.cache.limit:
            return []
        blocks = []
        for _, block in ahead(iter(wanted), partial(self._made_for_another, depth), threads_asked(None)):
            blocks.append(block)
            check()
        return blocks

    def _made_for_another(self, number: int, region: Region) -> np.ndarray | None:
        """Have a block made and kept, in a thread that makes blocks for another one."""
        _ahead.made = True
        corner = Region.box(region.start, [a + 1 for a in region.start])
        self.levels[number].read(corner)
        return self._alive.get((self.image.moved(0), number, region))


class _Ahead(threading.local):
    """Tells whether what a thread needs of levels further down is made already, or made by this thread for another."""

    made = False


_ahead = _Ahead()


def _blocks(level: ArrayReader, region: Region) -> Iterator[Region]:
    """Return the blocks of a level that a region touches."""
    grid = ChunkGrid(level.shape, level.dataset.block)
    return map(grid.region, grid.touched(region))


def _under(region: Region, shape: Sequence[int], steps: int) -> Region:
    """Return the region of a level of this shape, so many levels below, that lies under a region."""
    last = [min(b << steps, n) for b, n in zip(region.stop[-2:], shape[-2:], strict=True)]
    start = [a << steps for a in region.start[-2:]]
    return Region.box((*region.start[:-2], *start), (*region.stop[:-2], *last))


def _side(block: int, length: int) -> int:
    """Return how many pixels a chunk of a level has along an axis: those of a block, or `COARSEST` if that is long."""
    whole = COARSEST // 2 <= block <= COARSEST * 2 and block % COARSEST
    return max(1, min(block if whole else COARSEST, length))


def _unit(image: ArrayReader) -> tuple[int, ...]:
    """Return the elements per axis that a block of the first level is made of; even along y and x.

    Blocks that decode only as a whole are whole in it, so that each is decoded once.
    """
    block = image.dataset.block
    if not image.decodes_whole or len(block) != image.ndim:
        return (*(1 for _ in image.shape[:-2]), UNIT, max(UNIT, LINE // image.dtype.itemsize))
    *lead, high, wide = block
    wide *= max(1, round(UNIT / wide))
    line = math.prod(lead) * wide * image.dtype.itemsize
    high *= max(1, min(round(UNIT / high), BAND // (line * high)))
    return (*lead, _even(high), _even(wide))


def _even(length: int) -> int:
    return length if length % 2 == 0 else 2 * length
