"""Decides in which order an array is exported, and how much of it at once. Pure functions.

Chunks lie in *shards*; without sharding each chunk is one. A *unit* is a box of whole shards, and is done or not
done: an export that was interrupted goes on with the first unit that is not. A *batch* is a box of whole chunks of a
unit that is read at once. Units, and the batches of each, come in C order, so that sources are read from their first
byte to their last. Both take whole frames where they can, and of larger frames whole lines or stored blocks, so that no
byte is read twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from vfs.model.region import ChunkGrid, Region

BATCH = 8 << 20
"""Bytes that are read at once, if a chunk is not larger: they stay in the processor's cache until they are encoded.

Each batch costs Python: with 4 MiB, exports of 512 MiB took 0 to 4 % more processor time.
"""

WIDE = 32 << 20
"""Bytes that are read at once where fewer would cut frames, and where frames are cut all the same.

Each part of a frame is a read of its own: of 8,192 frames in chunks of one row, batches of 32 MiB took 9 s of processor
time where those of 8 MiB took 22 s, read in groups that the cache kept; and 258 MiB of memory instead of 586.
"""

DECODED = 64 << 20
"""The same where blocks decode only as a whole, and are decoded for each batch that has a part of them.

4,096 frames with gzip, in chunks of two rows, took 5.6 s so, and 9 s in batches of 32 MiB.
"""

UNIT = 64 << 20
"""Bytes of a unit, where each chunk is a file of its own."""

LARGE = 64 << 20
"""Bytes of a frame that is not read as a whole: an image of some GiB would be one unit, and one worker would do it."""

OPEN = 64
"""Shards that are written at the same time, at most."""


@dataclass(frozen=True)
class ExportPlan:
    """Says how an array is written.

    Attributes:
        shape: shape of the array.
        chunks, shards, unit, batch: elements per axis of a chunk, a shard, a unit and a batch. Those at the far edges
            may reach beyond the array.
        blocks: elements per axis of a box of whole stored blocks that is decoded at once, where each batch has a part
            of very many (`vfs.zarr.export.slabs`); () elsewhere.
    """

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    shards: tuple[int, ...]
    unit: tuple[int, ...]
    batch: tuple[int, ...]
    blocks: tuple[int, ...] = ()

    @cached_property
    def grid(self) -> ChunkGrid:
        """The chunks of the array."""
        return ChunkGrid(self.shape, self.chunks)

    @cached_property
    def files(self) -> ChunkGrid:
        """The shards of the array, each of which is a file."""
        return ChunkGrid(self.shape, self.shards)

    @cached_property
    def units(self) -> ChunkGrid:
        """The units of the array."""
        return ChunkGrid(self.shape, self.unit)

    def batches(self, unit: Region, within: Region | None = None) -> Iterator[Region]:
        """Return the batches of a unit, in order; of these those that a region within the unit touches."""
        shape = tuple(b - a for a, b in zip(unit.start, unit.stop, strict=True))
        cut = ChunkGrid(shape, self.batch)
        for position in cut.touched(Region.whole(shape) if within is None else _moved(within, unit.start, -1)):
            yield _moved(cut.region(position), unit.start, 1)

    def touched(self, region: Region) -> Iterator[tuple[tuple[int, ...], Region]]:
        """Return the batches that a region touches, in order, each with the position of its unit."""
        for position in self.units.touched(region):
            unit = self.units.region(position)
            for batch in self.batches(unit, cut_to(region, unit)):
                yield position, batch


def cut_to(region: Region, box: Region) -> Region:
    """Return the part of a region that lies in a box, which it touches."""
    return Region.box(tuple(map(max, region.start, box.start)), tuple(map(min, region.stop, box.stop)))


def _moved(region: Region, by: Sequence[int], times: int) -> Region:
    start, stop = ([a + times * o for a, o in zip(ends, by, strict=True)] for ends in (region.start, region.stop))
    return Region.box(start, stop)


def plan(
    shape: Sequence[int],
    chunks: Sequence[int],
    shards: Sequence[int] | None,
    itemsize: int,
    nav_ndim: int = 0,
    block: Sequence[int] = (),
) -> ExportPlan:
    """Decide on units and batches.

    Args:
        shards: elements per axis of a shard, multiples of those of a chunk; None: each chunk is a file.
        itemsize: bytes of an element.
        nav_ndim: number of navigation axes, which come first; the others are those of a frame.
        block: elements per axis of the blocks that are stored, and decode only as a whole; () where there are none.
    """
    ends = [max(1, n) for n in shape]
    whole = _read_whole(ends, itemsize, nav_ndim, block)
    unit = aligned(chunks, ends, UNIT // itemsize, block) if shards is None else _beside(shards, whole, ends)
    batch = _batch(chunks, whole, [min(u, n) for u, n in zip(unit, ends, strict=True)], itemsize, bool(block))
    blocks: tuple[int, ...] = ()
    decoded = math.prod(_rounded(block, batch, ends)) if block else 0  # elements of all blocks of which it has a part
    kept = 2 * max(DECODED // 2, math.prod(block) * itemsize)  # bytes that the cache keeps for the next batch
    if decoded * itemsize > kept and decoded >= 2 * math.prod(batch):
        unit = tuple(shards) if shards else unit  # each can be done by itself
        within = [min(u, n) for u, n in zip(unit, ends, strict=True)]
        batch = grown(grown(chunks, within, BATCH // itemsize), within, WIDE // itemsize)
        blocks = grown(block, ends, DECODED // itemsize)
    return ExportPlan(tuple(shape), tuple(chunks), tuple(shards or chunks), unit, batch, blocks)


def _batch(
    chunks: Sequence[int], whole: Sequence[int], within: Sequence[int], itemsize: int, packed: bool
) -> tuple[int, ...]:
    """Return the elements per axis that are read at once: whole frames or blocks, if these are not too large."""
    most = (DECODED if packed else WIDE) // itemsize
    for batch in (_multiple(chunks, whole, within), _rounded(chunks, whole, within)):
        if math.prod(batch) <= most:
            return grown(batch, within, BATCH // itemsize)
    batch = grown(chunks, within, BATCH // itemsize)
    return grown(batch, within, most)  # it cuts them: as much as may be is read of each at once


def aligned(chunks: Sequence[int], ends: Sequence[int], elements: int, block: Sequence[int]) -> tuple[int, ...]:
    """Return whole multiples of a chunk, and of a stored block where that can be, with at most so many elements.

    Args:
        ends: elements per axis that need not be exceeded.
        block: see `plan`.
    """
    both = _multiple(chunks, block or (0,) * len(chunks), ends)
    return grown(both if math.prod(both) <= elements else chunks, ends, elements)


def grown(base: Sequence[int], ends: Sequence[int], elements: int) -> tuple[int, ...]:
    """Return whole multiples of a box with at most so many elements, as many as fit, along the fast axes first.

    Args:
        base: elements per axis of the box, which is returned if it has more elements.
        ends: elements per axis that need not be exceeded.
    """
    box = list(base)
    for axis in reversed(range(len(box))):
        times = elements // math.prod(box)
        if times < 2:
            break
        box[axis] *= min(times, -(-ends[axis] // box[axis]))
        if box[axis] < ends[axis]:
            break
    return tuple(box)


def _read_whole(ends: Sequence[int], itemsize: int, nav_ndim: int, block: Sequence[int]) -> list[int]:
    """Return the elements per axis that are read at once, if that can be; 0 for as many as one likes.

    These are frames, with those in the same blocks; of large ones a line or a block.
    """
    frames = [*(0,) * nav_ndim, *ends[nav_ndim:]]
    both = list(map(max, frames, block)) if block else frames
    if math.prod(max(1, n) for n in both) * itemsize <= LARGE:
        return both
    return list(block) or [*frames[:nav_ndim], 1, *frames[nav_ndim + 1 :]]


def _beside(shards: Sequence[int], whole: Sequence[int], ends: Sequence[int]) -> tuple[int, ...]:
    """Return the box of all shards that hold parts of the same frames, lines or blocks; one for over `OPEN`."""
    for wide in (_multiple(shards, whole, ends), _rounded(shards, whole, ends)):
        if math.prod(w // s for w, s in zip(wide, shards, strict=True)) <= OPEN:
            return wide
    return tuple(shards)


def _multiple(step: Sequence[int], whole: Sequence[int], ends: Sequence[int]) -> tuple[int, ...]:
    """Return the smallest box of whole steps that is whole multiples of another, too, or reaches the ends."""
    boxes = zip(step, whole, ends, strict=True)
    return tuple(max(s, min(math.lcm(s, w or 1), -(-n // s) * s)) for s, w, n in boxes)


def _rounded(step: Sequence[int], whole: Sequence[int], ends: Sequence[int]) -> tuple[int, ...]:
    """Return the smallest box of whole steps that is at least as long as another, or reaches the ends."""
    boxes = zip(step, whole, ends, strict=True)
    return tuple(max(s, -(-min(w, n) // s) * s) for s, w, n in boxes)
