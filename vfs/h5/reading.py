"""Turns an HDF5 file into facts, with h5py, in a process that a damaged file may end: see `vfs.h5`.

Every object is read once, however many names it has. Each object is granted some processor time,
and each byte of the files some memory (`budget`); a damaged file that asks for more ends this
process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import h5py
import h5py._hl.dims  # h5py would import it in each fork anew
import numpy as np

from vfs.h5 import chunks, values, virtual
from vfs.h5.asking import AskedFiles
from vfs.h5.facts import AbsentError, LeftOutError, NoNumbersError
from vfs.h5.links import AskedLinks, Links, Opened, first_line
from vfs.h5.writers import BusyError
from vfs.helper.budget import Budget
from vfs.helper.messages import packed
from vfs.model.naming import unusable
from vfs.sources.boundary import Boundary

OBJECT_SECONDS = 0.02  # of processor time more for every object; a usual one takes 0.0003
MAX_ARRAYS = 20_000
MAX_OBJECTS = 100_000
MAX_AGAIN = 5000  # further names of shown objects: a link to a group gives everything in it another name
MAX_NAMES = 20_000  # further names, including those that are not shown
MAX_SOURCES = 100_000
DEEP = 64  # levels of groups in groups
HOLE = 8  # numbers behind the last source of a series that are looked for: a lost file is not its end
NUMBERED = 8  # levels of virtual data sets of virtual data sets

Mark = tuple[tuple[int, int], int]
"""Identifies an object: (device and inode of its file, its address there)."""


def read(
    path: str,
    fd: int,
    boundary: Boundary | None,
    write: Callable[[bytes], None],
    make: Callable[[int, Boundary | None, Callable[[bytes], None]], FactsReader] | None = None,
) -> None:
    """Write the facts of a file as messages.

    {"at": name} names the object that is read next. {"file": path, …} says that a file was opened.
    {"group": path, "attrs": …} and {"name": …} are facts. {"name": …, "same": name} is another name
    of an object whose facts are known. {"error": text} says that the file cannot be understood, and
    {"busy": text} that a program is writing it.
    {"end": true} is the last message.

    Args:
        path: the file's path.
        fd: a descriptor of it, open for reading; it is closed.
        boundary: the folders to which links may lead. None: the file is not on this machine, and `fd` is a
            socket through which its bytes are asked for (`vfs.h5.asking`).
        make: makes what reads it; None: `FactsReader`.
    """
    try:
        reader = (make or FactsReader)(fd, boundary, write)
        reader.walk(path, fd)
        write(packed({"end": True}))
    except MemoryError:
        write(packed({"error": "it asks for more memory than a file of its size needs"}))
    except BusyError as error:
        write(packed({"busy": str(error)}))
    except Exception as error:  # h5py raises all kinds of errors for libhdf5's
        write(packed({"error": first_line(error)}))


class FactsReader:
    """Walks through a file and writes its facts.

    Args: see `read`.
    """

    def __init__(self, fd: int, boundary: Boundary | None, write: Callable[[bytes], None]) -> None:
        self.write = write
        self.budget = Budget()
        self.links = (
            AskedLinks(AskedFiles(fd), self.budget, write) if boundary is None else Links(boundary, self.budget, write)
        )
        self.objects = 0
        self.again = 0
        self.arrays = 0
        self.netcdf = False
        self.known: dict[Mark, str] = {}  # object -> its first name
        # (file, data set) -> number of a source's facts, its shape
        self.sources: dict[tuple[str, str], tuple[int, tuple[int, ...]]] = {}

    def walk(self, path: str, fd: int) -> None:
        self.write(packed({"at": ""}))
        main = self.links.opened(path, fd)
        attrs = self.attributes(main.root, "")
        self.netcdf = "_NCProperties" in attrs
        self.write(packed({"group": "", "attrs": attrs}))
        for name, at, item in self._items(main, main.root, "", (_mark(main, main.root),)):
            self.arrays += 1
            if self.arrays > MAX_ARRAYS or self.objects > MAX_OBJECTS:
                self.left_out("…", f"more than {MAX_ARRAYS:,} data sets or {MAX_OBJECTS:,} objects")
                return
            self.say(name, at, item)
        if self.again > MAX_AGAIN:
            self.left_out("…", f"more than {MAX_AGAIN:,} further names of objects that are shown already")

    def left_out(self, name: str, why: str) -> None:
        """Write that something is not shown."""
        self.write(packed({"name": name, "left_out": why}))

    def _items(self, at: Opened, group: Any, prefix: str, above: tuple[Mark, ...]) -> Iterator[tuple[str, Opened, Any]]:
        """Yield (path, file, data set), depth first. Links are followed, circles are not.

        Args:
            above: the groups that led here.
        """
        if len(above) > DEEP:
            self.left_out(prefix, "nested too deeply")
            return
        for key in group:
            name = f"{prefix}{key}"
            self.objects += 1
            if self.objects > MAX_OBJECTS or self.again > MAX_NAMES:
                return
            self.budget.time(OBJECT_SECONDS)
            self.write(packed({"at": name}))
            why = unusable(key)
            if why:
                self.left_out(prefix + (key if key.isprintable() else ascii(key)), why)
                continue
            try:
                where, item = self.links.follow(at, group, key)
            except LeftOutError as reason:
                self.write(packed({"name": name, **_reason(reason)}))
                continue
            mark = _mark(where, item)
            if mark in above:
                self.left_out(name, "a link back to a group above")
            elif isinstance(item, h5py.Dataset | h5py.Group) and self._may_be_listed(mark, name):
                if isinstance(item, h5py.Dataset):
                    yield name, where, item
                else:
                    self.write(packed({"group": name, "attrs": self.attributes(item, name)}))
                    yield from self._items(where, item, f"{name}/", (*above, mark))

    def _may_be_listed(self, mark: Mark, name: str) -> bool:
        """Return False for a further name of an object, if there were too many of them."""
        self.again += self.known.setdefault(mark, name) != name
        return self.known[mark] == name or self.again <= MAX_AGAIN

    def attributes(self, item: Any, name: str) -> dict[str, Any]:
        """Return the attributes of a group."""
        return values.attributes(item)

    def again_as(self, name: str, at: Opened, item: Any) -> bool:
        """Return True for a further name of a data set, and write it."""
        first = self.known[_mark(at, item)]
        if first != name:
            self.write(packed({"name": name, "same": first}))
        return first != name

    def say(self, name: str, at: Opened, item: Any) -> None:
        """Write the facts of a data set."""
        if self.again_as(name, at, item):
            return
        try:
            facts, tables = self._facts(at, item, 0)
            facts |= {"text": values.properties(name, item)}
        except LeftOutError as reason:
            facts, tables = {**_reason(reason), **_size(item, reason), "attrs": values.attributes(item)}, ()
            if isinstance(reason, NoNumbersError):
                facts |= {"file": at.path, "text": values.text(name, item), "text_at": values.text_at(name, item)}
        self.write(packed({"name": name, **facts}, *tables))

    def _facts(self, at: Opened, item: Any, depth: int) -> tuple[dict[str, Any], tuple[np.ndarray, ...]]:
        """Return the facts of a data set, and their tables.

        Args:
            depth: number of virtual data sets that led here.

        Raises:
            LeftOutError: it cannot be shown.
        """
        number, count = values.number(item)
        facts, tables = self._facts_of_elements(at, item, number, depth)
        if count == 1:
            return facts, tables
        if facts["kind"] == "virtual" or depth:
            raise NoNumbersError("a virtual data set of compounds")
        return _in_parts(facts, count), tuple([np.insert(table, len(facts["shape"]), 0, axis=1) for table in tables])

    def _facts_of_elements(
        self, at: Opened, item: Any, number: np.dtype, depth: int
    ) -> tuple[dict[str, Any], tuple[np.ndarray, ...]]:
        """Return the facts of a data set, and their tables, without an axis for the fields of compounds."""
        plan = item.id.get_create_plist()
        shape = self._shape(at, item, plan, depth)
        if len(shape) > 16:
            raise LeftOutError(f"{len(shape)} axes")
        attrs = values.attributes(item)
        facts = {
            "file": at.path,
            "dtype": number.str,
            "shape": shape,
            "fill": values.fill(item, number),
            "attrs": attrs,
            "ragged": values.ragged(item),
        }
        scales = values.scales(item, len(shape))
        facts |= {
            "labels": values.labels(attrs, len(shape)),
            "fields": item.dtype.names or (),
            "scales": scales,
            "conventions": values.conventions(item, attrs, self.netcdf or bool(scales)),
        }
        if attrs.get("CLASS") == "DIMENSION_SCALE":
            facts["address"] = _mark(at, item)[1]
        kind = plan.get_layout()
        if kind == h5py.h5d.VIRTUAL:
            lost: dict[str, _LostFile] = {}
            mapped = list(self._mapped(at, item, shape, depth, lost))
            return facts | {"kind": "virtual", "mapped": mapped, "lost": _some_lost(mapped, lost)}, ()
        if kind == h5py.h5d.CHUNKED:
            whole = number if number.kind == "c" else values.stored(item)
            facts |= chunks.chunked(plan, whole) | {"grows": item.maxshape != item.shape}
            return facts, (chunks.table(item, plan, whole, at.size, self.budget),)
        if kind == h5py.h5d.COMPACT:
            return facts | {"kind": "compact", "held": values.held(item).hex()}, ()
        if plan.get_external_count():
            lost = {}
            parts = self._parts(at, plan, lost)
            return facts | {
                "kind": "external",
                "parts": parts,
                "lost": _some_lost([p for p in parts if p[0]], lost),
            }, ()
        start = item.id.get_offset()
        return facts | {"kind": "contiguous", "offset": -1 if start is None else int(start)}, ()

    def _parts(self, at: Opened, plan: Any, lost: dict[str, _LostFile]) -> list[tuple[str, int, int]]:
        """Return the pieces of external storage: (path, first byte, bytes; -1 for all up to the end).

        Args:
            lost: gets the files that cannot be read. The paths of their pieces are "".
        """
        parts = []
        for k in range(plan.get_external_count()):
            name, start, size = plan.get_external(k)
            try:
                path = self.links.place(os.fsdecode(name), at)
            except AbsentError as error:
                path = ""
                lost.setdefault(error.file, _LostFile(error, 0))
            parts.append((path, int(start), -1 if size == virtual.UNLIMITED else int(size)))
        return parts

    def _shape(self, at: Opened, item: Any, plan: Any, depth: int) -> tuple[int, ...]:
        """Return the elements per axis.

        A virtual data set that grows with its sources gets their present length.
        """
        if plan.get_layout() == h5py.h5d.VIRTUAL:
            entries = item.virtual_sources()
            axes = [virtual.growing(entry.vspace) for entry in entries]
            if any(axis is not None for axis in axes):
                shape = [int(n) for n in entries[0].vspace.shape]
                ends = dict.fromkeys((axis for axis in axes if axis is not None), 0)
                gone: list[AbsentError] = []
                for entry, axis in zip(entries, axes, strict=True):
                    if axis is not None:
                        try:
                            ends[axis] = max(ends[axis], self._end(at, entry, axis, depth))
                        except AbsentError as error:
                            gone.append(error)
                    else:
                        boxes = virtual.box(entry.vspace, shape)
                        ends = {
                            axis: max([end, *(first + n for first, n in boxes[axis])]) for axis, end in ends.items()
                        }
                if gone and 0 in ends.values():
                    raise gone[0]
                return tuple(ends.get(axis, n) for axis, n in enumerate(shape))
        if item.shape is None:
            raise LeftOutError("it has no shape")
        return tuple(int(n) for n in item.shape)

    def _end(self, at: Opened, entry: Any, axis: int, depth: int) -> int:
        """Return the end of a source, or of a series of sources, along an axis."""
        if not virtual.is_series(entry):
            return virtual.end(entry, axis, self._source(at, entry.file_name, entry.dset_name, depth)[1])
        last, gone = -1, None
        for k in range(MAX_SOURCES):
            try:
                self._source(at, *virtual.member(entry, k), depth)
                last = k
            except AbsentError as error:
                gone = gone or error
                if last < 0 or k - last > HOLE:
                    if last < 0:
                        raise gone from None
                    return virtual.end_of_series(entry, axis, last + 1)
        raise LeftOutError(f"a virtual data set of more than {MAX_SOURCES:,} sources")

    def _mapped(
        self, at: Opened, item: Any, shape: tuple[int, ...], depth: int, lost: dict[str, _LostFile]
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the boxes of a virtual data set as facts.

        Args:
            lost: gets the files of sources that cannot be read.
        """
        count = 0
        for entry in item.virtual_sources():
            for file, path, box in virtual.numbered(entry, shape):
                count += 1
                if count > MAX_SOURCES:
                    raise LeftOutError(f"a virtual data set of more than {MAX_SOURCES:,} sources")
                try:
                    number, of = self._source(at, file, path, depth)
                except AbsentError as error:
                    lost.setdefault(error.file, _LostFile(error, 0)).frames += virtual.frames(box, shape)
                    continue
                axes = virtual.paired(
                    virtual.box(entry.src_space, of), box, of, shape, virtual.growing(entry.vspace) is not None
                )
                if axes is not None:
                    yield number, *axes

    def _source(self, at: Opened, file: str, path: str, depth: int) -> tuple[int, tuple[int, ...]]:
        """Return (number, shape) of a source of a virtual data set. Its facts are written once."""
        if depth >= NUMBERED:
            raise LeftOutError("a virtual data set of virtual data sets, too deep or in a circle")
        key = (at.path if file == "." else os.path.join(os.path.dirname(at.path), file), path)
        if key not in self.sources:
            self.budget.time(OBJECT_SECONDS)
            other = self.links.open(file, at)
            try:
                where, item = self.links.follow(other, other.root, path)
            except AbsentError:
                raise
            except LeftOutError as reason:
                raise AbsentError(f"takes {path} of {file}, which does not hold it ({reason})", key[0]) from None
            if not isinstance(item, h5py.Dataset):
                raise LeftOutError(f"its source {path} in {file} is not a data set")
            facts, tables = self._facts(where, item, depth + 1)
            self.sources[key] = len(self.sources), facts["shape"]
            self.write(packed({"name": "", **facts, "number": self.sources[key][0]}, *tables))
        return self.sources[key]


@dataclass
class _LostFile:
    """A file that should hold a part of a data set, and how many whole frames that part has."""

    error: AbsentError
    frames: int


def _some_lost(there: Sequence[Any], lost: Mapping[str, _LostFile]) -> list[tuple[str, str, bool, int]]:
    """Return the files that are lost, as facts.

    Raises:
        AbsentError: nothing is there.
    """
    if lost and not there:
        raise next(iter(lost.values())).error
    return [(str(one.error), file, one.error.outside, one.frames) for file, one in lost.items()]


def _in_parts(facts: dict[str, Any], count: int) -> dict[str, Any]:
    """Return the facts of a data set of compounds with an axis more: the `count` fields of each element."""
    longer: dict[str, Any] = {name: (*facts[name], count) for name in ("shape", "chunk") if name in facts}
    if facts["scales"]:
        longer["scales"] = (*facts["scales"], -1)
    return facts | longer | {"parts_each": count}


def _mark(at: Opened, item: Any) -> Mark:
    return at.mark, int(h5py.h5o.get_info(item.id).addr)


def _size(item: Any, error: LeftOutError) -> dict[str, Any]:
    """Return the shape of a data set that is left out, as facts.

    Virtual data sets are skipped: libhdf5 would open their sources.
    """
    if isinstance(error, NoNumbersError | AbsentError) or item.id.get_create_plist().get_layout() == h5py.h5d.VIRTUAL:
        return {}
    return {"shape": tuple(int(n) for n in item.shape or ())}


def _reason(error: LeftOutError) -> dict[str, Any]:
    """Return the reason for which a data set is left out, as facts."""
    absent = {"absent": error.file, "outside": error.outside} if isinstance(error, AbsentError) else {}
    return {"left_out": str(error), **absent}
