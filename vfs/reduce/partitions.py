"""A pass over the frames of an array that workers of an executor share.

The scan is cut into partitions. Each is sent as how the set was opened, which frames, and which
reductions: never as data. To dask large masks are sent once, and its workers get them from each other.
A worker opens the set again, once for all partitions that it gets, makes
a pass of its own over these frames, and returns its buffers. These are merged in the order of the
scan. How the scan is cut depends on the data and the reductions alone. So results are the same, to
the last digit of floats, whatever executor runs them and however many workers it has; floats differ
in their last digits from those of threads in one process, which merge fewer, longer parts.
"""

from __future__ import annotations

import errno
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from vfs.engine.array import ArrayReader
from vfs.engine.open_sets import OPEN
from vfs.errors import SourceError
from vfs.model.files import Files
from vfs.model.one_state import MovedError, in_one_state
from vfs.outputs.executors import check_code, checked, here, in_order, sent_once
from vfs.outputs.stop_file import StopFile, Stopped
from vfs.own_code import code_key
from vfs.reduce.in_frames import lasting
from vfs.reduce.passes import OnProgress, Pass
from vfs.reduce.reduction import Buffers, Reduction
from vfs.reduce.result import Results

PARTITION = 64 << 20
"""Bytes of frames of a partition, at least. One more costs 5 ms of processor time with a pool of
processes and 10 ms with dask, half of it in the worker (a disk, centres of mass and a sum of 256 ×
256 pixels); a core reduces so many frames by these three in some 10 ms.
"""
FEW_PARTITIONS = 32
"""Partitions of a pass, about, of sets in which each has less than `LONG`: shared out among that many workers."""
LONG = 1 << 30
"""Bytes of frames of a partition of larger sets. 4 GiB of raw frames in the page cache, processor time of all
processes with dask and one worker, least of four in turns: 1.31 s in partitions of 64 MiB, 0.86 of 256, 0.88 of 512,
0.78 of 1,024; 0.67 in one process.
"""
MAX_PARTITIONS = 1024
"""Partitions of a pass, at most: those of more than 1 TiB are longer."""
LARGE = 1 << 20
"""Bytes of masks and positions that are sent with each partition, at most, where an executor can do otherwise."""
RETURNED = 16
"""Times the bytes that come back with each partition: what it has at least."""


@dataclass(frozen=True)
class PartitionWork:
    """Describes what all partitions of a pass have in common.

    Attributes:
        opening: see `OpenSets.array` of `vfs.engine.open_sets`.
        reductions: by name, as the user gave them.
        roi: packed positions of the array's scan, see `_packed`; None: all.
        vfs: the code that merges what workers make: see `vfs.own_code.code_key`.
    """

    opening: bytes
    reductions: Mapping[str, Reduction]
    roi: bytes | None
    vfs: str

    @property
    def large(self) -> bool:
        """Whether this has masks, or positions, of more than `LARGE` bytes."""
        values = [value for one in self.reductions.values() for value in vars(one).values()]
        arrays = [getattr(value, "data", None) if hasattr(value, "tocsr") else value for value in values]
        return sum(getattr(array, "nbytes", 0) for array in arrays) + len(self.roi or b"") > LARGE


@dataclass(frozen=True)
class Partition:
    """Describes the part of a pass that one worker makes.

    Attributes:
        work: what to make; None: the executor knows it.
        path: of the array, see `OpenSets.array`.
        first, last: the units (half-open) of the pass.
        identity: `Files.identity` of the files that it is to be made of; "" where that may be any.
        stop: path of its `StopFile`.
    """

    work: PartitionWork | None
    path: str
    first: int
    last: int
    identity: str
    stop: str

    def __str__(self) -> str:
        return f"part {self.first}:{self.last} of {self.path}"

    def __dask_tokenize__(self) -> tuple[str, int]:
        """Name this task: dask would hash all that is sent with it, and take two passes for one where that is equal."""
        return self.stop, self.first


@dataclass(frozen=True)
class PartitionResult:
    """Holds what a worker made.

    Attributes:
        at: which of the selected frames it took, a slice or int64[count]; count: how many.
        nav: their entries of the "nav" buffers, by the names of reduction and buffer; own: the other buffers.
        identity: `Files.identity` of the files that it is made of; "" where nobody asked.
        where: the process that made it.
    """

    at: slice | np.ndarray
    count: int
    nav: Mapping[str, Buffers]
    own: Mapping[str, Buffers]
    identity: str
    where: str


def reduce_partition(task: Partition, held: PartitionWork | None = None) -> PartitionResult:
    """Make the pass over a partition, in one thread of a worker.

    Args:
        held: what to make, where the executor knows it.

    Raises:
        ExecutorError: this worker has other code of vfs.
        SourceError: the set cannot be opened or read here, or is not what it was. It says where "here" is:
            elsewhere the same files may be all right.
    """
    work = held or task.work
    assert work is not None
    check_code(work.vfs, "merges the results")
    try:
        return _reduced(task, work)
    except SourceError as error:
        raise type(error)(f"{error} [{here()}]", error.errno or errno.EIO) from error


def _reduced(task: Partition, work: PartitionWork) -> PartitionResult:
    array = OPEN.array(work.opening, task.path)
    files = array.backend.files
    if task.identity and files.identity() != task.identity:
        files.look()
    roi = None if work.roi is None else _unpacked(work.roi)
    with Stopped(task.stop) as stopped:

        def once() -> PartOfPass:
            made = PartOfPass(array, work.reductions, roi, task.first, task.last)
            made.stopped = stopped
            made.take(task.first, task.last)
            return made

        made = in_one_state(array.backend, once)
        return _part(made, files.identity() if task.identity else "")


def _part(made: Pass, identity: str) -> PartitionResult:
    done, origin = made.done, made.origin
    first, last = int(done.argmax()), len(done) - int(done[::-1].argmax())
    # As a slice, which takes nothing for each, where it can be
    where = slice(first, last) if done[first:last].all() else np.flatnonzero(done)
    nav = {name: {key: buffer[where] for key, buffer in buffers.items()} for name, buffers in made.shared.items()}
    at = slice(origin + first, origin + last) if isinstance(where, slice) else where + origin
    return PartitionResult(at, int(np.count_nonzero(done)), nav, made.own[0], identity, here())


class PartOfPass(Pass):
    """Makes what a worker does of a pass, in one thread, in buffers of these frames alone.

    Args:
        array, reductions, roi: see `Pass`; first, last: see `Partition`.
    """

    def __init__(self, array: ArrayReader, reductions: Mapping[str, Any], roi: Any, first: int, last: int) -> None:
        self.first, self.last = first, last
        super().__init__(array, reductions, roi, 0)

    def _places(self) -> tuple[int, int]:
        return self.supply.places(self.first, self.last)


class SharedPass(Pass):
    """Makes results of the frames of an array, once, by the workers of an executor.

    Args:
        array, reductions, roi, progress: see `Pass`.
        workers: how many tasks the executor runs at once; None: as it says.
        executor: runs tasks; opening: returns how the set of the array is opened, see `PartitionWork`.
    """

    def __init__(
        self,
        array: ArrayReader,
        reductions: Mapping[str, Any],
        roi: Any = None,
        workers: int | None = None,
        progress: OnProgress | None = None,
        *,
        executor: Any,
        opening: Callable[[], bytes],
    ) -> None:
        super().__init__(array, reductions, roi, workers, progress)
        self.executor, self.asked = checked(executor), workers
        chosen = None if self.chosen is None else _packed(self.chosen)
        self.work = PartitionWork(opening(), lasting(self.given), chosen, code_key())

    def run(self, parts: int) -> Iterator[Results]:
        """Go through all frames. Gives results after each of at most so many parts; the last ones are complete.

        Workers go on while the caller looks at results.
        """
        edges, files = self._edges(), self.array.backend.files
        identity = "" if files.grows or files.accepts else files.identity()
        n = len(edges) - 1
        parts = max(1, min(parts, n))
        self._tell()
        with StopFile() as stop:
            held = sent_once(self.executor, self.work) if self.work.large else ()
            task = partial(Partition, None if held else self.work, self.array.dataset.path)
            tasks = [task(first, last, identity, stop.path) for first, last in pairwise(edges)]
            with closing(in_order(self.executor, reduce_partition, tasks, self.asked, stop.stop, held)) as given:
                for k, part in enumerate(given):
                    if part.identity != identity:
                        _note_moved(files, part)
                    self._merge(part, first=k == 0)
                    self._tell()
                    if (k + 1) * parts // n > k * parts // n:
                        yield self.results(last=k == n - 1)

    def _edges(self) -> list[int]:
        """Cut the units of the pass into partitions: the first of each, and behind the last."""
        frame = self.frames.size * self.frames.dtype.itemsize
        returned = sum(buffer.nbytes for buffers in self.own[0].values() for buffer in buffers.values())
        nbytes = frame * self.frames.count
        units = self.supply.units
        usual = min(LONG, max(PARTITION, nbytes // FEW_PARTITIONS))
        n = max(1, min(units, nbytes // max(usual, nbytes // MAX_PARTITIONS, RETURNED * returned)))
        return [units * k // n for k in range(n + 1)]

    def _places(self) -> tuple[int, int]:
        return (0, len(self.stored)) if self.each else (0, 1)  # else only whether there is something is asked for

    def _merge(self, part: PartitionResult, first: bool) -> None:
        """Take what a worker made."""
        for name, reduction in self.bound.items():
            for key, buffer in part.nav[name].items():
                self.shared[name][key][part.at] = buffer
            if first:
                self.own[0][name] = {key: buffer.copy() for key, buffer in part.own[name].items()}
            elif part.own[name]:
                reduction.merge(self.own[0][name], part.own[name])
        self.done[part.at if self.each else slice(min(1, part.count))] = True
        self.counted[0] += part.count


def _note_moved(files: Files, part: PartitionResult) -> None:
    """Find out which file is in another state than one of which a worker made a part.

    Raises:
        MovedError: so the pass has to begin again.
    """
    before = files.moves.item(0)
    files.look()
    if files.moves.item(0) == before:  # here nothing did
        files.differs(part.where)
    raise MovedError


def _packed(chosen: np.ndarray) -> bytes:
    """Pack positions. Those of a mask take a hundredth of their size: they go on by one most of the time."""
    return zlib.compress(np.diff(chosen, prepend=0).astype(np.int64).tobytes(), 1)


def _unpacked(packed: bytes) -> np.ndarray:
    return np.cumsum(np.frombuffer(zlib.decompress(packed), np.int64))


def pass_by(executor: Any, opening: Callable[[], bytes]) -> type[Pass] | partial[SharedPass]:
    """Return what makes a pass: by threads of this process where there is no executor."""
    return Pass if executor is None else partial(SharedPass, executor=executor, opening=opening)
