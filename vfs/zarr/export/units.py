"""The units of an export: which are done, and how the files of one are written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from vfs.model.region import Region
from vfs.zarr.export.arrays import ArrayExport, Encoded
from vfs.zarr.export.files import UnitFiles, chunk_name
from vfs.zarr.export.journal import Journal, Mark
from vfs.zarr.export.places import StorePlace


@dataclass(eq=False)
class Unit:
    """A unit that is under way.

    Attributes:
        left: batches that are still to come.
        sums: uint32[chunks along each axis], for its mark.
        done: bytes of the array that it holds.
    """

    export: ArrayExport
    position: tuple[int, ...]
    region: Region
    files: UnitFiles
    left: int
    sums: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        chunks = self.export.plan.chunks
        self._first = tuple(a // c for a, c in zip(self.region.start, chunks, strict=True))
        last = [-(-b // c) for b, c in zip(self.region.stop, chunks, strict=True)]
        self.sums = np.zeros([b - a for a, b in zip(self._first, last, strict=True)], np.uint32)

    def take(self, batch: Sequence[Encoded]) -> int:
        """Write the chunks of a batch. Return their bytes."""
        size = 0
        for position, data, crc in batch:
            self.sums[tuple(p - a for p, a in zip(position, self._first, strict=True))] = crc
            if data is not None:
                self.files.add(position, data)
                size += len(data)
        self.left -= 1
        return size


def done_before(
    exports: Sequence[ArrayExport], place: StorePlace, zarr_format: int, journal: Journal
) -> tuple[int, int]:
    """Check that the files of the units that were done before are there; others are to be done again.

    Returns: bytes of the arrays, and of the files, of the units that are done.
    """
    plans = {one.path: one for one in exports}
    spoilt, done = [], 0
    for key, mark in journal.marks.items():
        one = plans[mark.array]
        if has_unit(one, place, zarr_format, mark):
            done += one.plan.units.region(mark.unit).size * one.array.dtype.itemsize
        else:
            spoilt.append(key)
    if spoilt:
        journal.drop(spoilt)
    return done, journal.stored


def units(exports: Sequence[ArrayExport], folder: str, zarr_format: int, journal: Journal) -> Iterator[Unit]:
    """Return the units that are to be written."""
    for one in exports:
        for position in one.plan.units.touched(Region.whole(one.plan.shape)):
            if (one.path, position) not in journal.marks:
                yield unit_of(one, position, folder, zarr_format)


def unit_of(one: ArrayExport, position: tuple[int, ...], folder: str, zarr_format: int) -> Unit:
    """Begin a unit.

    Args:
        position: in the grid of units.
        folder: of the store.
    """
    region = one.plan.units.region(position)
    files = UnitFiles(folder, one.path, zarr_format, one.plan, one.sharded)
    return Unit(one, position, region, files, sum(1 for _ in one.plan.batches(region)))


def has_unit(one: ArrayExport, place: StorePlace, zarr_format: int, mark: Mark) -> bool:
    """Return True if a place has the files of a unit that a mark tells of."""
    return place.has(_files(one, place, zarr_format, mark), mark.size)


def check_all(exports: Sequence[ArrayExport], place: StorePlace, zarr_format: int, journal: Journal) -> None:
    """Check that all units are there that marks tell of: see `StorePlace.check_kept`."""
    plans = {one.path: one for one in exports}
    place.check_kept(
        (_files(plans[mark.array], place, zarr_format, mark), mark.size) for mark in journal.marks.values()
    )


def _files(one: ArrayExport, place: StorePlace, zarr_format: int, mark: Mark) -> list[str]:
    folder = f"{place.folder}/{one.path}"
    files = one.plan.files.touched(one.plan.units.region(mark.unit))
    return [chunk_name(folder, position, zarr_format) for position in files]
