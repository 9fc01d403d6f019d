"""Has the workers of an executor write the units of an export.

A task says how the set was opened, how it is exported, and which unit is wanted: never data. A worker opens the set
again, once for all units that it gets, and writes the files of a unit to the place of the unfinished store, which it
must find by the same name (`vfs.outputs.places`). It returns the mark, and of which state of the sources it is.
So the store is the same, byte for byte, as one that the threads of a process wrote, and is resumed in the same way.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from vfs.engine.open_sets import OPEN
from vfs.errors import ExecutorError, SourceError
from vfs.model.region import Region
from vfs.outputs.executors import check_code, here, in_order
from vfs.outputs.place import OutputPlace
from vfs.outputs.places import place_of
from vfs.outputs.stop_file import StopFile, Stopped
from vfs.outputs.sums import Mark
from vfs.zarr.export.arrays import ArrayExport, ShardSpec, array_exports, little_memory
from vfs.zarr.export.beside import UnnamedFile
from vfs.zarr.export.journal import ExportJournal
from vfs.zarr.export.slabs import Slabs
from vfs.zarr.export.units import Unit, done_before, has_unit, unit_of


@dataclass(frozen=True)
class ExportWork:
    """Describes what all units of an export have in common.

    Attributes:
        opening: see `OpenSets.opened` of `vfs.engine.open_sets`.
        face, zarr_format: which face is written.
        codec, shards: see `vfs.zarr.export.export`.
        target: name of the store.
        vfs: the code that plans the export: see `vfs.own_code.code_key`.
    """

    opening: bytes
    face: str
    zarr_format: int
    codec: str
    shards: ShardSpec
    target: str
    vfs: str


@dataclass(frozen=True)
class UnitTask:
    """Names a unit for a worker.

    Attributes:
        path: of the array in the store.
        position: in the grid of its units.
        stop: path of the `StopFile` of the export.
    """

    work: ExportWork
    path: str
    position: tuple[int, ...]
    stop: str

    def __str__(self) -> str:
        return f"unit {self.position} of {self.path}"

    def __dask_tokenize__(self) -> tuple[str, str, tuple[int, ...]]:
        """Name this task by itself: dask would take the unit of an earlier export for it where all is equal."""
        return self.stop, self.path, self.position


def write_unit(task: UnitTask) -> tuple[Mark, str]:
    """Write the files of a unit, in one thread of a worker.

    Returns: its mark, and the state of the sources when it was begun.

    Raises:
        ExecutorError: this worker has other code of vfs, does not find the folder, or cannot write there.
        SourceError: the set cannot be opened or read here, or is not what it was.
    """
    work = task.work
    check_code(work.vfs, "plans the export")
    try:
        return _written(task)
    except SourceError as error:
        raise type(error)(f"{error} [{here()}]", error.errno or errno.EIO) from error
    except OSError as error:
        raise ExecutorError(
            f"{work.target}: cannot be written by a worker: {error.strerror or error} [{here()}]"
        ) from error


def _written(task: UnitTask) -> tuple[Mark, str]:
    work = task.work
    with place_of(work.target) as place:  # nobody but the export makes it
        face = OPEN.opened(work.opening).tree.zarr(work.zarr_format, work.face)
        one = next(one for one in array_exports(face, work.codec, work.shards) if one.path == task.path)
        unit = unit_of(one, task.position, place.folder, work.zarr_format)
        with little_memory([one.array]), Stopped(task.stop) as stopped:
            try:
                for region, read in _reads(one, unit, place.folder):
                    if stopped.is_set():
                        raise ExecutorError(f"{task}: is not wanted any more")
                    unit.take(one.encoded(region, read=read))
                unit.files.close()
            finally:
                unit.files.abandon()
        mark = Mark(task.path, task.position, place.keep(unit.files.written), unit.sums.reshape(-1))
        return mark, unit.state


def _reads(one: ArrayExport, unit: Unit, folder: str) -> Iterator[tuple[Region, Callable[..., object] | None]]:
    """Return the batches of a unit, and what reads each where they are in slabs."""
    batches = list(one.plan.batches(unit.region))
    if not one.plan.blocks:
        yield from ((batch, None) for batch in batches)
        return
    with UnnamedFile(folder) as file:
        slabs = Slabs(one.array, one.plan, batches, file)
        for batch in batches:
            for work in slabs.works(batch, None):
                work.encoded([])
            yield batch, slabs.round.read


def written_by(
    executor: Any,
    work: ExportWork,
    exports: Sequence[ArrayExport],
    place: OutputPlace,
    journal: ExportJournal,
    tell: Callable[[int, int, int], object],
) -> int:
    """Have an executor write all units that are not done. Return the bytes of the files of all.

    Args:
        tell: see `progress` of `vfs.zarr.export.export`.

    Raises:
        ExecutorError: see `write_unit`, and `vfs.outputs.executors.in_order`; or a worker wrote to another disk.
    """
    done, stored = done_before(exports, place, work.zarr_format, journal)
    total = sum(one.array.nbytes for one in exports)
    with StopFile() as stop:
        wanted = [
            (one, position)
            for one in exports
            for position in one.plan.units.touched(Region.whole(one.plan.shape))
            if (one.path, position) not in journal.marks
        ]
        tasks = [UnitTask(work, one.path, position, stop.path) for one, position in wanted]
        with closing(in_order(executor, write_unit, tasks, None, stop.stop)) as marks:
            for (one, position), (mark, state) in zip(wanted, marks, strict=True):
                region = one.plan.units.region(position)
                if not place.everywhere and not has_unit(one, place, work.zarr_format, mark):
                    raise ExecutorError(
                        f"{place.folder}: does not hold what a worker wrote there; workers must find it on the same"
                        " disk, by the same name"
                    )
                journal.add(mark, state)
                done += region.size * one.array.dtype.itemsize
                stored += mark.size
                tell(done, total, stored)
    return journal.stored
