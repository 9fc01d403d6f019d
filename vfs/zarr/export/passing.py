"""Says in which order the batches of all arrays are written, and makes levels of the blocks that pass by.

A level of an image is halved from the level below (`vfs.reduce.pyramid`). So that the source is read once, each batch
of the level below is halved while it is in memory, and its *pieces* are kept until a batch of the level is complete;
that one comes next. Where batches of an odd length cut the 2 × 2 pixels of a level, pieces are kept as they are, and
halved when they are together. Pieces beyond `HELD` bytes wait in a file without a name beside the store. Within an
array, units and batches come in the order of its plan, so that the files do not depend on any of this.

A batch whose pieces are not all there is read like any other, from the source: after an interruption, where a unit
below was done before.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from vfs.engine.stored_reader import within
from vfs.model.region import Region
from vfs.zarr.export.arrays import ArrayExport, Encoded
from vfs.zarr.export.beside import UnnamedFile
from vfs.zarr.export.journal import ExportJournal
from vfs.zarr.export.plan import ExportPlan, cut_to
from vfs.zarr.export.slabs import BlocksWork, Round, Slabs
from vfs.zarr.export.units import Unit, units

if TYPE_CHECKING:
    from vfs.reduce.pyramid import LevelBlocks  # loads kernels

HELD = 32 << 20
"""Bytes of pieces that are kept in memory."""

_Key = tuple[str, tuple[int, ...]]  # an array, and where a batch of it begins
_Kept = np.ndarray | int  # a piece, or its place in the file


class LevelPieces:
    """Parts of batches of levels that wait for the rest.

    Args:
        file: where those are kept that memory is not to hold.
    """

    def __init__(self, file: UnnamedFile) -> None:
        self.held = 0
        self._file = file
        self._lock = threading.Lock()
        self._waiting: dict[_Key, list[tuple[Region, np.dtype, _Kept]]] = defaultdict(list)
        self._end = 0
        self._free: dict[int, list[int]] = defaultdict(list)  # bytes -> places in the file

    def add(self, key: _Key, region: Region, piece: np.ndarray) -> None:
        """Keep a piece, which nobody changes.

        Raises:
            OSError: the disk is full.
        """
        with self._lock:
            kept: _Kept = piece
            if self.held + piece.nbytes > HELD:
                kept = self._stored(np.ascontiguousarray(piece))
            else:
                self.held += piece.nbytes
            self._waiting[key].append((region, piece.dtype, kept))

    def take(self, key: _Key, region: Region) -> np.ndarray | None:
        """Put the pieces of a batch together, and forget them; None if they are not all there.

        Raises:
            OSError: the disk fails.
        """
        with self._lock:
            parts = self._waiting.pop(key, [])
            whole = sum(part.size for part, _, _ in parts) == region.size and bool(parts)
            out = np.empty(region.shape, parts[0][1]) if whole else None
            for part, dtype, kept in parts:
                piece = self._loaded(kept, part, dtype) if isinstance(kept, int) else kept
                if out is not None:
                    out[within(part, region)] = piece
                self.held -= 0 if isinstance(kept, int) else piece.nbytes
        return out

    def _stored(self, piece: np.ndarray) -> int:
        places = self._free[piece.nbytes]
        at = places.pop() if places else self._end
        self._end = max(self._end, at + piece.nbytes)
        self._file.write(at, piece)
        return at

    def _loaded(self, at: int, part: Region, dtype: np.dtype) -> np.ndarray:
        piece = np.empty(part.shape, dtype)
        self._file.read(at, piece)
        self._free[piece.nbytes].append(at)
        return piece


@dataclass(frozen=True)
class LevelWork:
    """A batch that is to be written.

    Attributes:
        unit, region: of which it is.
        maker: the level that gives it out.
        round: where it is read from, if its level has slabs.
    """

    unit: Unit
    region: Region
    maker: _Level
    round: Round | None

    @property
    def after(self) -> object:
        """What makes that of which it is made: the level below, or slabs; None for nothing."""
        return self.maker.slabs or self.maker.below

    @property
    def nbytes(self) -> int:
        """Bytes of a batch."""
        return self.maker.export.batch_bytes

    @property
    def moved(self) -> int:
        """Bytes that come into slabs: less than none, those that come out of one."""
        slab = self.round is not None and self.region.start in self.round.places
        return -self.region.size * self.maker.export.array.dtype.itemsize if slab else 0

    def encoded(self, before: Sequence[Future[list[Encoded]]]) -> list[Encoded]:
        """Read or make the batch, encode it, and keep what the level above needs of it.

        Args:
            before: works of what this one comes after that were begun before it, in the same threads, and are waited
                for.

        Raises: see `ArrayExport.encoded`, and `LevelPieces`.
        """
        for one in before:
            one.result()
        level = self.maker
        made = level.made(self.region) if level.below else None
        show = None if level.above is None else partial(level.above.take, self.region)
        return level.export.encoded(self.region, made, show, self.round.read if self.round else None)


Work = LevelWork | BlocksWork
"""Something to be done in a thread. What it returns is written to the files of its unit, if it has one."""


@dataclass(eq=False)
class _Level:
    """An array whose batches are given out in order: an image, or a level above one.

    Attributes:
        pieces: where parts of its batches wait, if it is above another level.
        done: units that were done before.
        slabs: where its batches are, if they cut through many stored blocks.
        below, above: the levels below and above.
        halves: how it is halved.
        cut: True where batches of the level below cut its 2 × 2 pixels.
    """

    export: ArrayExport
    pieces: LevelPieces
    units: Iterator[Unit]
    done: set[tuple[int, ...]]
    slabs: Slabs | None = None
    below: _Level | None = None
    above: _Level | None = None
    halves: LevelBlocks | None = None
    cut: bool = False
    _coming: Iterator[tuple[Unit, int, Region]] = field(init=False)
    _next: tuple[Unit, int, Region] | None = field(init=False)

    def __post_init__(self) -> None:
        self._coming = (
            (unit, number, region)
            for unit in self.units
            for number, region in enumerate(unit.export.plan.batches(unit.region))
        )
        self._next = next(self._coming, None)

    def works(self, given: tuple[tuple[int, ...], int] | None, below: ArrayExport | None = None) -> Iterator[Work]:
        """Give out batches, each followed by those of levels above that it completes.

        Args:
            given: unit, and number of its batches, that were given out of the level below; None: all.
            below: the level below.
        """
        while self._next is not None:
            unit, number, region = self._next
            if self.above is not None:  # after an interruption: what it is made of was done before
                yield from self.above.works((unit.position, number), self.export)
            if given is not None and below is not None and _last(region, below) >= given:
                return
            if self.slabs is not None:
                yield from self.slabs.works(region, self)
            yield LevelWork(unit, region, self, self.slabs.round if self.slabs else None)
            if self.above is not None:
                yield from self.above.works((unit.position, number + 1), self.export)
            self._next = next(self._coming, None)
        if given is None and self.above is not None:
            yield from self.above.works(None, self.export)

    def take(self, under: Region, part: np.ndarray) -> None:
        """Keep the pieces of a batch of the level below for batches that are to come, halved where that can be."""
        from vfs.reduce.pyramid import halved

        assert self.halves is not None
        region = self.halves.above(under)
        box, kept = (under, part) if self.cut else (region, halved(part, self.halves.nearest))
        for unit, batch in self.export.plan.touched(region):
            if unit not in self.done:
                cut = cut_to(box, self.halves.below(batch) if self.cut else batch)
                own = cut == box and not np.may_share_memory(kept, part)
                self.pieces.add((self.export.path, batch.start), cut, kept if own else kept[within(cut, box)].copy())

    def made(self, region: Region) -> np.ndarray | None:
        """Make a batch of its pieces; None if they are not all there."""
        from vfs.reduce.pyramid import halved

        assert self.halves is not None
        kept = self.pieces.take((self.export.path, region.start), self.halves.below(region) if self.cut else region)
        return halved(kept, self.halves.nearest) if self.cut and kept is not None else kept


def _blocks(level: ArrayExport) -> LevelBlocks | None:
    """Return what an array is halved from, and how; None for one that is no level."""
    if not level.array.dataset.computed:
        return None
    from vfs.reduce.pyramid import LevelBlocks  # loads kernels

    blocks = level.array.dataset.decoder
    return blocks if isinstance(blocks, LevelBlocks) else None


def _cut(below: ExportPlan) -> bool:
    """Return True if batches of an array have an odd length where others follow along y or x."""
    boxes = zip(below.unit[-2:], below.batch[-2:], below.shape[-2:], strict=True)
    return any(end % 2 and end < n for unit, batch, n in boxes for end in (unit, batch))


def _last(region: Region, below: ArrayExport) -> tuple[tuple[int, ...], int]:
    """Return the last batch under a region of a level: the position of its unit, and its number there."""
    ends = zip(region.stop[-2:], below.plan.shape[-2:], strict=True)
    corner = (*(b - 1 for b in region.stop[:-2]), *(min(2 * b, n) - 1 for b, n in ends))
    ((position, batch),) = below.plan.touched(Region.box(corner, [a + 1 for a in corner]))
    unit = below.plan.units.region(position)
    number = 0
    for a, o, b, stop in zip(batch.start, unit.start, below.plan.batch, unit.stop, strict=True):
        number = number * -(-(stop - o) // b) + (a - o) // b
    return position, number


def works(
    exports: Sequence[ArrayExport], folder: str, zarr_format: int, journal: ExportJournal, files: ExitStack
) -> Iterator[Work]:
    """Return the batches that are to be written, in order.

    Args:
        folder: of the store.
        files: holds what is kept beside the store.
    """
    pieces = LevelPieces(files.enter_context(UnnamedFile(folder)))
    found: dict[int, _Level] = {}
    for one in exports:
        done = {unit for path, unit in journal.marks if path == one.path}
        found[id(one.array)] = _Level(one, pieces, units([one], folder, zarr_format, journal), done)
    firsts = []
    for level in found.values():
        halves = _blocks(level.export)
        under = found.get(id(halves.under)) if halves else None
        if under is None:
            firsts.append(level)
            level.slabs = _slabs(level.export, level.done, folder, files)
        else:
            level.halves, level.below, under.above = halves, under, level
            level.cut = _cut(under.export.plan)
    for first in firsts:
        yield from first.works(None)


def _slabs(export: ArrayExport, done: set[tuple[int, ...]], folder: str, files: ExitStack) -> Slabs | None:
    """Return where the batches of an array are that are not done; None if they hold whole stored blocks."""
    plan = export.plan
    if not plan.blocks:
        return None
    places = (position for position in plan.units.touched(Region.whole(plan.shape)) if position not in done)
    batches = [batch for position in places for batch in plan.batches(plan.units.region(position))]
    return Slabs(export.array, plan, batches, files.enter_context(UnnamedFile(folder)))
