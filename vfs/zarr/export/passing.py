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

import os
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import IO, TYPE_CHECKING

import numpy as np

from vfs.model.region import Region
from vfs.zarr.export.arrays import ArrayExport, Encoded
from vfs.zarr.export.journal import Journal
from vfs.zarr.export.plan import ExportPlan, cut_to
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
        folder: where the file is made, if there are more than memory is to hold.
    """

    def __init__(self, folder: str) -> None:
        self.held = 0
        self._folder = folder
        self._lock = threading.Lock()
        self._kept: dict[_Key, list[tuple[Region, np.dtype, _Kept]]] = defaultdict(list)
        self._file: IO[bytes] | None = None
        self._end = 0
        self._free: dict[int, list[int]] = defaultdict(list)  # bytes -> places in the file

    def __enter__(self) -> LevelPieces:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._file is not None:
            self._file.close()

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
            self._kept[key].append((region, piece.dtype, kept))

    def take(self, key: _Key, region: Region) -> np.ndarray | None:
        """Put the pieces of a batch together, and forget them; None if they are not all there.

        Raises:
            OSError: the disk fails.
        """
        with self._lock:
            parts = self._kept.pop(key, [])
            whole = sum(part.size for part, _, _ in parts) == region.size and bool(parts)
            out = np.empty(region.shape, parts[0][1]) if whole else None
            for part, dtype, kept in parts:
                piece = self._loaded(kept, part, dtype) if isinstance(kept, int) else kept
                if out is not None:
                    out[_within(part, region)] = piece
                self.held -= 0 if isinstance(kept, int) else piece.nbytes
        return out

    def _stored(self, piece: np.ndarray) -> int:
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115  (open as long as this)
        places = self._free[piece.nbytes]
        at = places.pop() if places else self._end
        self._end = max(self._end, at + piece.nbytes)
        data = piece.reshape(-1).view(np.uint8).data
        done = 0
        while done < len(data):
            done += os.pwrite(self._file.fileno(), data[done:], at + done)
        return at

    def _loaded(self, at: int, part: Region, dtype: np.dtype) -> np.ndarray:
        assert self._file is not None
        piece = np.empty(part.shape, dtype)
        data = piece.reshape(-1).view(np.uint8).data
        done = 0
        while done < len(data):
            got = os.preadv(self._file.fileno(), [data[done:]], at + done)
            if not got:
                raise OSError(0, "a file beside the store, which holds parts of its levels, was cut")
            done += got
        self._free[piece.nbytes].append(at)
        return piece


@dataclass(frozen=True)
class LevelWork:
    """A batch that is to be written.

    Attributes:
        unit, region: of which it is.
    """

    unit: Unit
    region: Region
    _level: _Level

    @property
    def below(self) -> str:
        """Path of the level below, of which it is made; "" for none."""
        return self._level.below

    def encoded(self, below: Sequence[Future[list[Encoded]]]) -> list[Encoded]:
        """Read or make the batch, encode it, and keep what the level above needs of it.

        Args:
            below: batches of the level below that were begun before this one, in the same threads, and are waited for.

        Raises: see `ArrayExport.encoded`, and `LevelPieces`.
        """
        for one in below:
            one.result()
        export = self.unit.export
        made = self._level.made(self.region) if self.below else None
        above = self._level.above
        return export.encoded(self.region, made, None if above is None else partial(above.take, self.region))


@dataclass
class _Level:
    """An array whose batches are given out in order: an image, or a level above one.

    Attributes:
        below: path of the level below; "" for none.
        above: the level above.
        halves: how it is halved.
        cut: True where batches of the level below cut its 2 × 2 pixels.
        done: units that were done before.
    """

    export: ArrayExport
    pieces: LevelPieces
    units: Iterator[Unit]
    done: set[tuple[int, ...]]
    below: str = ""
    halves: LevelBlocks | None = None
    cut: bool = False
    above: _Level | None = None
    _coming: Iterator[tuple[Unit, int, Region]] = field(init=False)
    _next: tuple[Unit, int, Region] | None = field(init=False)

    def __post_init__(self) -> None:
        self._coming = (
            (unit, number, region)
            for unit in self.units
            for number, region in enumerate(unit.export.plan.batches(unit.region))
        )
        self._next = next(self._coming, None)

    def works(self, given: tuple[tuple[int, ...], int] | None, below: ArrayExport | None = None) -> Iterator[LevelWork]:
        """Give out batches, each followed by those of levels above that it completes.

        Args:
            given: unit, and number of its batches, that were given out of the level below; None: all.
            below: the level below.
        """
        while self._next is not None:
            unit, number, region = self._next
            if given is not None and below is not None and _last(region, below) >= given:
                return
            yield LevelWork(unit, region, self)
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
                self.pieces.add((self.export.path, batch.start), cut, kept if own else kept[_within(cut, box)].copy())

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


def _within(part: Region, region: Region) -> tuple[slice, ...]:
    return tuple(slice(a - o, b - o) for a, b, o in zip(part.start, part.stop, region.start, strict=True))


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
    exports: Sequence[ArrayExport], folder: str, zarr_format: int, journal: Journal, pieces: LevelPieces
) -> Iterator[LevelWork]:
    """Return the batches that are to be written, in order.

    Args:
        folder: of the store.
    """
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
        else:
            level.halves, level.below, under.above = halves, under.export.path, level
            level.cut = _cut(under.export.plan)
    for first in firsts:
        yield from first.works(None)
