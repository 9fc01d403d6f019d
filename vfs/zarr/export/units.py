"""The units of an export: which are done, and how the files of one are written."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from vfs.model.one_state import in_one_state
from vfs.model.region import Region
from vfs.outputs.place import OutputPlace
from vfs.outputs.sums import Mark
from vfs.zarr.export.arrays import ArrayExport, Encoded
from vfs.zarr.export.files import UnitFiles, chunk_name
from vfs.zarr.export.journal import ExportJournal
from vfs.zarr.unchanged import state_of

Key = tuple[str, tuple[int, ...]]
"""An array, and the position of a unit of it."""


@dataclass(eq=False)
class Unit:
    """A unit that is under way.

    Attributes:
        left: batches that are still to come.
        state: of the sources when it was begun, as far as it was known.
        sums: uint32[chunks along each axis], for its mark.
        done: bytes of the array that it holds.
    """

    export: ArrayExport
    position: tuple[int, ...]
    region: Region
    files: UnitFiles
    left: int
    state: str
    sums: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        chunks = self.export.plan.chunks
        self._first = tuple(a // c for a, c in zip(self.region.start, chunks, strict=True))
        last = [-(-b // c) for b, c in zip(self.region.stop, chunks, strict=True)]
        self.sums = np.zeros([b - a for a, b in zip(self._first, last, strict=True)], np.uint32)

    def take(self, batch: Sequence[Encoded]) -> int:
        """Write the chunks of a batch. Return their bytes."""
        size = 0
        self.note((position, crc) for position, _, crc in batch)
        for position, data, _ in batch:
            if data is not None:
                self.files.add(position, data)
                size += len(data)
        self.left -= 1
        return size

    def note(self, sums: Iterable[tuple[tuple[int, ...], int]]) -> None:
        """Note the checksums of some of its chunks."""
        for position, crc in sums:
            self.sums[tuple(p - a for p, a in zip(position, self._first, strict=True))] = crc


def done_before(
    exports: Sequence[ArrayExport], place: OutputPlace, zarr_format: int, journal: ExportJournal
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


def units(exports: Sequence[ArrayExport], folder: str, zarr_format: int, journal: ExportJournal) -> Iterator[Unit]:
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
    return Unit(one, position, region, files, sum(1 for _ in one.plan.batches(region)), state_of([one.array]))


def has_unit(one: ArrayExport, place: OutputPlace, zarr_format: int, mark: Mark) -> bool:
    """Return True if a place has the files of a unit that a mark tells of."""
    return place.has(_files(one, place, zarr_format, mark), mark.size)


def check_state(exports: Sequence[ArrayExport], journal: ExportJournal) -> list[Key]:
    """Compare the units that are done with the sources, if these were touched since some of them were written.

    Returns: those that the sources do not hold any more, whose marks are taken back.

    Raises:
        SourceError: the sources cannot be read, or are touched again and again.
    """
    arrays = [one.array for one in exports]
    now = state_of(arrays)
    if not journal.marks or set(journal.states) <= {now}:
        return []
    plans = {one.path: one for one in exports}

    def differs(mark: Mark) -> bool:
        one = plans[mark.array]
        unit = unit_of(one, mark.unit, "", 3)
        for batch in one.plan.batches(unit.region):
            unit.note(zip(one.plan.grid.touched(batch), one.sums(batch), strict=True))
        return not np.array_equal(unit.sums.reshape(-1), mark.sums)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0)), "vfs-check") as pool:
        marks = list(journal.marks.items())

        def every() -> list[Key]:
            found = pool.map(differs, [mark for _, mark in marks])
            return [key for (key, _), other in zip(marks, found, strict=True) if other]

        spoilt = in_one_state(arrays[0].backend, every)
    if spoilt:
        journal.drop(spoilt)
    return spoilt


def check_all(exports: Sequence[ArrayExport], place: OutputPlace, zarr_format: int, journal: ExportJournal) -> None:
    """Check that all units are there that marks tell of: see `vfs.outputs.place.OutputPlace.check_units`."""
    plans = {one.path: one for one in exports}
    place.check_units(
        (_files(plans[mark.array], place, zarr_format, mark), mark.size) for mark in journal.marks.values()
    )


def _files(one: ArrayExport, place: OutputPlace, zarr_format: int, mark: Mark) -> list[str]:
    folder = f"{place.folder}/{one.path}"
    files = one.plan.files.touched(one.plan.units.region(mark.unit))
    return [chunk_name(folder, position, zarr_format) for position in files]
