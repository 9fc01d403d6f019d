"""Decodes stored blocks once where each batch has a little of very many: `--chunks scan` of packed frames.

The blocks are decoded in their order, in boxes of whole ones. What each batch has of a box is written to its *slab*, in
a file without a name beside the store, and batches are read from their slabs. As many batches make a *round* as the
disk has room for: blocks are decoded once a round. Where it has room for one batch only, there are no slabs.

After an interruption the file is gone, and the batches that are left make rounds of their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np

from vfs.buffers import scratch
from vfs.engine.array import ArrayReader
from vfs.engine.stored_reader import within
from vfs.model.region import ChunkGrid, Region
from vfs.zarr.export.arrays import Encoded
from vfs.zarr.export.beside import UnnamedFile
from vfs.zarr.export.plan import ExportPlan, cut_to


@dataclass(frozen=True)
class Round:
    """Batches whose slabs are in the file at the same time.

    Attributes:
        places: where a batch begins -> the byte of the file where its slab begins. Elements are in C order.
    """

    array: ArrayReader
    plan: ExportPlan
    file: UnnamedFile
    places: Mapping[tuple[int, ...], int]

    def fill(self, box: Region) -> None:
        """Decode a box of whole blocks into slabs.

        Raises:
            SourceError: it cannot be read.
            OSError: the disk is full.
        """
        array = self.array
        nbytes = box.size * array.dtype.itemsize
        with scratch.borrow(nbytes) as memory:
            part = array.read(box, memory[:nbytes].view(array.dtype).reshape(box.shape))
            for batch, cut in self.parts(box):
                self._write(batch, cut, part[within(cut, box)])

    def parts(self, box: Region) -> Iterator[tuple[Region, Region]]:
        """Return what its batches have of a box: (batch, its part of the box)."""
        for _, batch in self.plan.touched(box):
            if batch.start in self.places:
                yield batch, cut_to(box, batch)

    def _write(self, batch: Region, cut: Region, piece: np.ndarray) -> None:
        """Write a part of a batch: a run for each step of the axes before the last one along which it is cut."""
        inner = [math.prod(batch.shape[k + 1 :]) for k in range(len(batch.shape))]
        axis = max((k for k, n in enumerate(batch.shape) if cut.shape[k] < n), default=0)
        first = sum((a - o) * step for a, o, step in zip(cut.start, batch.start, inner, strict=True))
        for index in np.ndindex(*cut.shape[:axis]):
            place = first + sum(i * step for i, step in zip(index, inner[:axis], strict=True))
            at = self.places[batch.start] + place * piece.itemsize
            self.file.write(at, np.ascontiguousarray(piece[index]))

    def read(self, batch: Region, out: np.ndarray) -> None:
        """Read a batch into contiguous memory of its shape: from its slab, or else from the array.

        Raises:
            OSError: the disk fails.
        """
        if batch.start not in self.places:
            self.array.read(batch, out)
            return
        self.file.read(self.places[batch.start], out)


@dataclass(frozen=True)
class BlocksWork:
    """A box of whole blocks that is to be decoded for the batches of a round.

    Attributes:
        maker: the slabs, which these batches wait for.
        after: what makes the batches: those of the round before are waited for, since their slabs are written over.
        region: the box; nbytes: its size.
        moved: bytes that come into slabs.
    """

    maker: Slabs
    after: object
    round: Round
    region: Region
    nbytes: int
    moved: int
    unit: None = None

    def encoded(self, before: Sequence[Future[list[Encoded]]]) -> list[Encoded]:
        """Decode the box into slabs: see `Round.fill`. Nothing of it is to be written."""
        for one in before:
            one.result()
        self.round.fill(self.region)
        return []


class Slabs:
    """Elements of batches of an array, which are given out in order.

    Args:
        plan: of the array, with `blocks`.
        batches: those that are to be written, in order.
        file: where they are kept.

    Attributes:
        round: the present one.
    """

    def __init__(self, array: ArrayReader, plan: ExportPlan, batches: Sequence[Region], file: UnnamedFile) -> None:
        self._array = array
        self._plan = plan
        self._batches = batches
        self._file = file
        self._begun = 0  # batches of this round, and of those before
        self.round = Round(array, plan, file, {})

    def works(self, batch: Region, maker: object) -> Iterator[BlocksWork]:
        """Return what is to be done before a batch is read: nothing, unless it is the first of a round.

        Args:
            maker: what makes the batches.
        """
        if batch.start in self.round.places:
            return
        array = self._array
        wanted = self._begin()
        if wanted is None:
            return
        boxes = ChunkGrid(array.shape, self._plan.blocks)
        for position in boxes.touched(wanted):
            box = boxes.region(position)
            held = sum(cut.size for _, cut in self.round.parts(box))
            if held:
                nbytes, moved = (size * array.dtype.itemsize for size in (box.size, held))
                yield BlocksWork(self, maker, self.round, box, nbytes, moved)

    def _begin(self) -> Region | None:
        """Begin a round with as many batches as there is room for. Return a box that holds all of them.

        One batch alone has no slab, and this returns None.
        """
        itemsize = self._array.dtype.itemsize
        left = self._batches[self._begun :]
        free = self._file.room
        room = max(free - sum(one.size for one in left) * itemsize, free // 4)  # chunks need room, too
        places: dict[tuple[int, ...], int] = {}
        end = 0
        for one in left:
            if places and end + one.size * itemsize > room:
                break
            places[one.start] = end
            end += one.size * itemsize
        self._begun += len(places)
        if len(places) == 1:
            places = {}
        self.round = Round(self._array, self._plan, self._file, places)
        if not places:
            return None
        starts, stops = (
            zip(*ends, strict=True)
            for ends in zip(*((one.start, one.stop) for one in left[: len(places)]), strict=True)
        )
        return Region.box(tuple(map(min, starts)), tuple(map(max, stops)))
