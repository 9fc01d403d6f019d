"""Compares an exported store with its source, or with the checksums that the export noted.

The store is read by a library that had no part in writing it (`vfs.zarr.readers`). Every element is compared, bit by
bit, in threads.
"""

from __future__ import annotations

import math
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from vfs.engine.array import ArrayReader, ahead
from vfs.errors import OptionError, RegionError, VerifyError, VfsError, size
from vfs.model.naming import DOCUMENTS
from vfs.model.region import Region
from vfs.outputs.sums import Mark, sums_name
from vfs.zarr.belonging import ChunkKeys, array_above, strangers
from vfs.zarr.export.arrays import checksum, planned_export
from vfs.zarr.export.beside import UnnamedFile
from vfs.zarr.export.plan import ExportPlan
from vfs.zarr.export.slabs import BlocksWork, Round, Slabs
from vfs.zarr.readers import StoredZarr, StoreToRead

SHOWN = 10
"""Findings that are kept; further ones are counted."""


@dataclass
class Verified:
    """What a comparison found.

    Attributes:
        store: name of the store.
        against: name of what it was compared with.
        by: names of the libraries that read it.
        arrays: number of arrays that were compared.
        nbytes: bytes of their elements.
        findings: a line for each of the first boxes and arrays that differ.
        bad: number of all of these.
    """

    store: str
    against: str
    by: tuple[str, ...] = ()
    arrays: int = 0
    nbytes: int = 0
    findings: tuple[str, ...] = ()
    bad: int = 0

    def find(self, line: str) -> None:
        """Note that something differs."""
        self.bad += 1
        if len(self.findings) < SHOWN:
            self.findings += (line,)

    def check(self) -> None:
        """Do nothing if the store is right.

        Raises:
            VerifyError: it is not.
        """
        if self.bad:
            more = f" (and {self.bad - 1} more)" if self.bad > 1 else ""
            raise VerifyError(f"{self.store}: differs from {self.against}: {self.findings[0]}{more}")


class _ComparedBox(NamedTuple):
    """A box of an array to be compared. `wrong` reads and compares it, and says what is wrong, if anything."""

    region: Region
    nbytes: int
    wrong: Callable[[], str | None]


def verify(
    store: str | os.PathLike[str],
    arrays: Mapping[str, ArrayReader] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Verified:
    """Compare a store with arrays, or with its checksums.

    Args:
        arrays: path in the store -> what it is compared with; None: the checksums in `OUT.zarr.sums`.
        progress: is called with the bytes that were compared, and those that there are.

    Raises:
        OptionError: there is no store, or no checksums.
        SourceError: the arrays cannot be read.
    """
    read = StoreToRead(os.fspath(store).rstrip("/"))
    if arrays is None:
        found, works, total = _from_sums(read)
    else:
        found, works, total = _from_arrays(read, arrays)
    if not read.is_sound():
        found.find("the list of files of the zip file, or what stands before each of them, is damaged")
    done = 0
    for work, wrong in ahead(works, lambda work: work.wrong(), len(os.sched_getaffinity(0))):
        if wrong:
            found.find(wrong)
        done += work.nbytes
        found.nbytes = done
        if progress:
            progress(done, total)
    if done < total:
        found.find(f"{found.against} has none for {size(total - done)} of it")
    return found


def _from_arrays(store: StoreToRead, arrays: Mapping[str, ArrayReader]) -> tuple[Verified, Iterator[_ComparedBox], int]:
    found = Verified(store.name, "its source")
    pairs = []
    for path, array in sorted(arrays.items()):
        stored = _opened(found, store, path, array.shape, array.dtype)
        if stored:
            pairs.append((path, array, stored))
    further = sorted({*store.arrays()} - {*arrays})
    for path in further:
        found.find(f"{path}: the source has no such array")
    _find_strangers(found, store, [*arrays, *further], None)
    works = (work for pair in pairs for work in _array_works(*pair))
    return found, works, sum(array.nbytes for _, array, _ in pairs)


def _array_works(path: str, array: ArrayReader, stored: StoredZarr) -> Iterator[_ComparedBox]:
    cut = planned_export(array, None)
    units = map(cut.units.region, cut.units.touched(Region.whole(cut.shape)))
    regions = (region for unit in units for region in cut.batches(unit))
    if cut.blocks:
        yield from _works_of_slabs(path, array, cut, list(regions), stored)
        return
    for region in regions:
        yield _ComparedBox(region, region.size * array.dtype.itemsize, _against_array(path, array.read, stored, region))


def _works_of_slabs(
    path: str, array: ArrayReader, cut: ExportPlan, left: Sequence[Region], stored: StoredZarr
) -> Iterator[_ComparedBox]:
    """Compare batches that have a little of very many stored blocks, which are decoded once a round.

    Works are begun in order: those that compare wait for those that decode.
    """
    while left:
        with _temporary():
            slabs = Slabs(array, cut, left, UnnamedFile(tempfile.gettempdir()))
        waited = _Decoded([*slabs.works(left[0], None)], slabs.round)
        for work in waited.works:
            yield _ComparedBox(work.region, 0, partial(waited.decode, work))
        count = max(1, len(slabs.round.places))
        for region in left[:count]:
            yield _ComparedBox(
                region, region.size * array.dtype.itemsize, _against_array(path, waited.read, stored, region)
            )
        left = left[count:]


@contextmanager
def _temporary() -> Iterator[None]:
    """Turn errors of the disk of temporary files into those of vfs.

    Raises:
        OptionError: it cannot be written.
    """
    try:
        yield
    except VfsError:
        raise
    except OSError as error:
        said = error.strerror or error
        raise OptionError(
            f"{tempfile.gettempdir()}: cannot be written: {said}; TMPDIR names another folder for temporary files"
        ) from None


class _Decoded:
    """Boxes of blocks that are being decoded into slabs, and what is read of these when all are."""

    def __init__(self, works: Sequence[BlocksWork], round_: Round) -> None:
        self.works = works
        self._round = round_
        self._left = len(works)
        self._lock = threading.Lock()
        self._done = threading.Event()
        if not works:
            self._done.set()

    def decode(self, work: BlocksWork) -> None:
        try:
            with _temporary():
                work.encoded([])
        finally:  # what fails ends the comparison, so that nobody is to wait
            with self._lock:
                self._left -= 1
                if not self._left:
                    self._done.set()

    def read(self, region: Region) -> np.ndarray:
        self._done.wait()
        out = np.empty(region.shape, self._round.array.dtype)
        self._round.read(region, out)
        return out


def _against_array(
    path: str, read: Callable[[Region], np.ndarray], stored: StoredZarr, region: Region
) -> Callable[[], str | None]:
    def wrong() -> str | None:
        expected = read(region)
        try:
            got = stored.read(region)
        except VerifyError as error:
            return f"{path}{_place(region)}: {error}"
        return difference(path, region, expected, got)

    return wrong


def difference(path: str, region: Region, expected: np.ndarray, got: np.ndarray) -> str | None:
    """Say how many elements differ in their bits, and where the first one is."""
    one, other = (
        np.ascontiguousarray(a).reshape(-1).view(np.uint8).reshape(-1, expected.itemsize) for a in (expected, got)
    )
    if np.array_equal(one, other):
        return None
    differ = np.flatnonzero((one != other).any(axis=1))
    at = np.unravel_index(differ[0], expected.shape)
    place = tuple(int(p + a) for p, a in zip(at, region.start, strict=True))
    return (
        f"{path}{_place(region)}: {len(differ):,} of {expected.size:,} elements differ; the first is {place}: expected"
        f" {expected[at]}, found {got[at]}"
    )


def _from_sums(store: StoreToRead) -> tuple[Verified, Iterator[_ComparedBox], int]:
    name = sums_name(store.name)
    try:
        subject, marks = store.sums()
        plans = {path: _plan(about) for path, about in subject.arrays.items()}
        dtypes = {path: np.dtype(about["dtype"]) for path, about in subject.arrays.items()}
    except FileNotFoundError:
        raise OptionError(
            f"{name}: there are no checksums of this store; give the data set that it was made of"
        ) from None
    except (ValueError, KeyError, TypeError):
        raise OptionError(
            f"{name}: holds no checksums of an export; give the data set that the store was made of"
        ) from None
    found = Verified(store.name, name)
    for key, crc in subject.documents.items():
        text = store.document(key)
        if text is None or checksum(np.frombuffer(text, np.uint8)) != crc:
            found.find(f"{key}: is {'gone' if text is None else 'not as it was written'}")
    stored = {path: _opened(found, store, path, one.shape, dtypes[path]) for path, one in plans.items()}
    total = sum(math.prod(one.shape) * one.dtype.itemsize for one in stored.values() if one is not None)
    _find_strangers(found, store, [*plans], subject.documents)
    return found, _sum_works(found, store, marks, plans, stored), total


def _find_strangers(
    found: Verified, store: StoreToRead, arrays: Sequence[str], documents: Mapping[str, int] | None
) -> None:
    keys = {path: ChunkKeys.of(store.document, path) for path in arrays}
    for name, why in strangers(store.sizes, keys, documents):
        found.find(f"{name}: {why}")


def _sum_works(
    found: Verified,
    store: StoreToRead,
    marks: Iterator[Mark],
    plans: Mapping[str, ExportPlan],
    stored: Mapping[str, StoredZarr | None],
) -> Iterator[_ComparedBox]:
    """Compare with sums: each unit has one line, and the files of an array have the bytes that its lines tell of."""
    done: set[tuple[str, tuple[int, ...]]] = set()
    written = dict.fromkeys(plans, 0)
    for mark in _noted(found.against, marks):
        if mark.array not in plans or not _has_unit(plans[mark.array], mark):
            found.find(f"{found.against}: a line of it tells of a part of {mark.array} that there is not")
        elif (mark.array, mark.unit) in done:
            found.find(f"{found.against}: two lines of it tell of {_unit(mark, plans[mark.array])}")
        else:
            done.add((mark.array, mark.unit))
            written[mark.array] += mark.size
            if (array := stored[mark.array]) is not None:
                yield from _mark_works(mark, plans[mark.array], array)
    there = dict.fromkeys(plans, 0)
    for name, nbytes in store.sizes.items():
        folder, _, last = name.rpartition("/")
        if last not in DOCUMENTS and (path := array_above(folder, plans)) is not None:
            there[path] += nbytes
    for path, expected in written.items():
        if there[path] != expected:
            found.find(f"{path}: its files have {there[path]:,} bytes, and {expected:,} were written")


def _has_unit(plan: ExportPlan, mark: Mark) -> bool:
    """Return True if the unit of a mark is one of an array, and there is a sum for each of its chunks."""
    try:
        unit = plan.units.region(mark.unit)
    except RegionError:
        return False
    return len(mark.sums) == sum(1 for _ in plan.grid.touched(unit))


def _unit(mark: Mark, plan: ExportPlan) -> str:
    return f"{mark.array}{_place(plan.units.region(mark.unit))}"


def _noted(name: str, marks: Iterator[Mark]) -> Iterator[Mark]:
    """Yield the marks of sums.

    Raises:
        OptionError: a line is none.
    """
    try:
        yield from marks
    except (ValueError, KeyError, TypeError):
        raise OptionError(
            f"{name}: a line of it holds no checksums; give the data set that the store was made of"
        ) from None


def _plan(about: Mapping[str, list[int]]) -> ExportPlan:
    return ExportPlan(*(tuple(about[name]) for name in ("shape", "chunks", "shards", "unit", "batch")))


def _mark_works(mark: Mark, cut: ExportPlan, stored: StoredZarr) -> Iterator[_ComparedBox]:
    unit = cut.units.region(mark.unit)
    first = tuple(a // c for a, c in zip(unit.start, cut.chunks, strict=True))
    counts = tuple(-(-b // c) - f for b, c, f in zip(unit.stop, cut.chunks, first, strict=True))
    sums = mark.sums.reshape(counts)
    for region in cut.batches(unit):
        yield _ComparedBox(
            region, region.size * stored.dtype.itemsize, _against_sums(mark.array, cut, stored, region, sums, first)
        )


def _against_sums(
    path: str, cut: ExportPlan, stored: StoredZarr, region: Region, sums: np.ndarray, first: tuple[int, ...]
) -> Callable[[], str | None]:
    def wrong() -> str | None:
        try:
            got = stored.read(region)
        except VerifyError as error:
            return f"{path}{_place(region)}: {error}"
        bad = []
        for position in cut.grid.touched(region):
            box = cut.grid.region(position)
            part = got[tuple(slice(a - o, b - o) for a, b, o in zip(box.start, box.stop, region.start, strict=True))]
            if checksum(part) != sums[tuple(p - f for p, f in zip(position, first, strict=True))]:
                bad.append(box)
        return f"{path}{_place(bad[0])}: its elements have another checksum{_more(len(bad))}" if bad else None

    return wrong


def _more(count: int) -> str:
    return f", as have those of {count - 1} more chunks beside it" if count > 1 else ""


def _opened(
    found: Verified, store: StoreToRead, path: str, shape: tuple[int, ...], dtype: np.dtype
) -> StoredZarr | None:
    """Open an array of the store, and note if that cannot be done or it is another one."""
    try:
        stored = store.open(path)
    except VerifyError as error:
        found.find(str(error))
        return None
    if (stored.shape, stored.dtype) != (tuple(shape), dtype):
        found.find(f"{path}: expected {dtype} {tuple(shape)}, found {stored.dtype} {stored.shape}")
        return None
    found.by = tuple(sorted({*found.by, stored.by}))
    found.arrays += 1
    return stored


def _place(region: Region) -> str:
    return "[" + ", ".join(f"{a}:{b}" for a, b in zip(region.start, region.stop, strict=True)) + "]"
