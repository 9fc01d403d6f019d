"""An HDF5 file to facts, with h5py. Runs in a process that may die of it: see `vfs.h5`.

Every object that is found may cost some time of the processor and every byte of the files some memory (`Budget`); what a damaged
file asks for beyond that ends this process.
"""

from __future__ import annotations

import math
import os
import re
import resource
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import h5py
import h5py._hl.dims  # h5py would import it in each fork anew
import numpy as np

from vfs.boundary import ALLOW, Boundary
from vfs.h5.facts import packed

SECONDS = 5.0  # of the processor, for a file without anything in it
OBJECT_SECONDS = 0.02  # more for every object; a usual one takes 0.0003
ROWS_SECONDS = 0.05  # more for every ROWS rows of a table of chunks; they take 0.005
ROWS = 4096
MEMORY = 256 << 20  # bytes beyond those that the process has before it looks at the file
MEMORY_FACTOR = 8  # bytes more for each byte of the files
MOST_ARRAYS = 20_000
MOST_OBJECTS = 100_000
MOST_ATTRIBUTES = 500
MOST_VALUES = 4096  # of an attribute that is shown
MOST_TEXT = 4096  # characters
MOST_CHUNK = 1 << 32  # bytes: HDF5's own limit
MOST_RUNS = 100_000  # along an axis of what a virtual data set takes of a source
MOST_SOURCES = 100_000
DEEP = 64  # groups in groups
NUMBERED = 8  # virtual data sets of virtual data sets
UNLIMITED = (1 << 64) - 1
KEPT = 8  # files open at once that others link to


class LeftOutError(Exception):
    """A data set that cannot be shown; the message is the reason."""


class Budget:
    """What this process may use. Grows with what was really found."""

    def __init__(self) -> None:
        self.seconds = SECONDS
        self.memory = _address_space() + MEMORY
        self._set(resource.RLIMIT_CPU, math.ceil(self.seconds))

    def time(self, seconds: float) -> None:
        before = math.ceil(self.seconds)
        self.seconds += seconds
        if math.ceil(self.seconds) != before:
            self._set(resource.RLIMIT_CPU, math.ceil(self.seconds))

    def file(self, path: str) -> None:
        self.memory += MEMORY_FACTOR * os.path.getsize(path)
        self._set(resource.RLIMIT_AS, self.memory)

    @staticmethod
    def _set(what: int, soft: int) -> None:
        _, hard = resource.getrlimit(what)
        resource.setrlimit(what, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def _address_space() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGESIZE")


def read(path: str, boundary: Boundary, write: Callable[[bytes], None]) -> None:
    """Write the facts of a file as messages.

    {"at": name} says what is looked at next, {"group": path, "attrs": …}, {"name": …} are facts, {"error": text} says that the file cannot
    be understood, {"end": true} is the last message.

    Args:
        boundary: where links may lead.
    """
    try:
        reader = _Reader(path, boundary, write)
        reader.walk()
        write(packed({"end": True}))
    except MemoryError:
        write(packed({"error": "it asks for more memory than a file of its size needs"}))
    except Exception as error:  # libhdf5's errors come as any of Python's
        write(packed({"error": _said(error)}))


def _said(error: BaseException) -> str:
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return text.splitlines()[0][:400] if text else type(error).__name__


class _Reader:
    def __init__(self, path: str, boundary: Boundary, write: Callable[[bytes], None]) -> None:
        self.path = path
        self.boundary = boundary
        self.write = write
        self.budget = Budget()
        self.objects = 0
        self.arrays = 0
        self.numbers: dict[tuple[str, str], int] = {}  # (file, data set) -> number of a source's facts
        self.files: dict[str, Any] = {}

    def walk(self) -> None:
        self.write(packed({"at": ""}))
        with self._opened(self.path) as file:
            self.write(packed({"group": "", "attrs": self._attributes(file)}))
            for name, item in self._items(file, "", frozenset()):
                self.arrays += 1
                if self.arrays > MOST_ARRAYS or self.objects > MOST_OBJECTS:
                    self._left("…", f"more than {MOST_ARRAYS:,} data sets or {MOST_OBJECTS:,} objects")
                    break
                self._say(name, item, 0)

    def _opened(self, path: str) -> Any:
        self.budget.file(path)
        return h5py.File(path, "r", locking=False)

    def _linked(self, path: str) -> Any:
        if path not in self.files:
            while len(self.files) >= KEPT:
                self.files.pop(next(iter(self.files)))
            self.files[path] = self._opened(path)
        return self.files[path]

    def target(self, name: str, of: str) -> str:
        """The path of a file that another one names.

        Raises:
            LeftOutError: it lies outside the folder; it is not there.
        """
        path = os.path.realpath(os.path.join(os.path.dirname(of), name))
        self.check(path, name)
        if not os.path.isfile(path):
            raise LeftOutError(f"links to {name}, which is missing")
        return path

    def check(self, path: str, name: str) -> None:
        """Raises:
        LeftOutError: a file lies outside the folder. libhdf5 follows links behind links by itself.
        """
        if not self.boundary.covers(path):
            raise LeftOutError(f"links to {name}, outside the folder; {ALLOW} reads it nevertheless")

    def _left(self, name: str, why: str) -> None:
        self.write(packed({"name": name, "left_out": why}))

    def _items(self, group: Any, prefix: str, above: frozenset[Any]) -> Iterator[tuple[str, Any]]:
        """(path, data set), depth first; links are followed, circles are not."""
        if len(above) > DEEP:
            self._left(prefix, "nested too deeply")
            return
        for key in group:
            name = f"{prefix}{key}"
            self.objects += 1
            if self.objects > MOST_OBJECTS:
                return
            self.budget.time(OBJECT_SECONDS)
            self.write(packed({"at": name}))
            if any(part in ("", ".", "..") for part in key.split("/")) or not key.isprintable() or len(key.encode()) > 255:
                self._left(prefix + ascii(key), "its name cannot be a path")
                continue
            try:
                link = group.get(key, getlink=True)
                outside = isinstance(link, h5py.ExternalLink)
                item = self._linked(self.target(link.filename, group.file.filename))[link.path] if outside else group[key]
                self.check(item.file.filename, item.file.filename)
            except LeftOutError as reason:
                self._left(name, str(reason))
                continue
            except (KeyError, OSError, RuntimeError, ValueError, TypeError) as error:
                self._left(name, f"its link leads nowhere ({_said(error)})")
                continue
            if isinstance(item, h5py.Dataset):
                yield name, item
            elif isinstance(item, h5py.Group):
                mark = (item.file.filename, h5py.h5o.get_info(item.id).addr)
                if mark in above:
                    self._left(name, "a link back to a group above")
                    continue
                self.write(packed({"group": name, "attrs": self._attributes(item)}))
                yield from self._items(item, f"{name}/", above | {mark})

    def _say(self, name: str, item: Any, depth: int) -> None:
        """Write the facts of a data set."""
        try:
            facts, tables = self._facts(item, depth)
        except LeftOutError as reason:
            facts, tables = {"left_out": str(reason), "attrs": self._attributes(item), "text": _text(item)}, ()
        self.write(packed({"name": name, **facts}, *tables))

    def _facts(self, item: Any, depth: int) -> tuple[dict[str, Any], tuple[np.ndarray, ...]]:
        try:
            dtype = item.dtype
        except TypeError as error:  # bit fields, opaque types
            raise LeftOutError(f"{_said(error)}: no array of numbers") from None
        number = _number(dtype)
        if item.shape is None:
            raise LeftOutError("it has no shape")
        shape = tuple(int(n) for n in item.shape)
        if len(shape) > 16:
            raise LeftOutError(f"{len(shape)} axes")
        plan = item.id.get_create_plist()
        facts = {
            "file": item.file.filename,
            "dtype": number.str,
            "shape": shape,
            "fill": _fill(item, number),
            "attrs": self._attributes(item),
            "labels": _labels(item),
        }
        kind = plan.get_layout()
        if kind == h5py.h5d.VIRTUAL:
            return facts | {"kind": "virtual", "mapped": list(self._mapped(item, shape, depth))}, ()
        if kind == h5py.h5d.CHUNKED:
            return facts | self._chunks(item, plan, number), (self._table(item, shape, number),)
        if kind == h5py.h5d.COMPACT:
            return facts | {"kind": "compact", "held": _held(item).hex()}, ()
        if plan.get_external_count():
            return facts | {"kind": "external", "parts": self._parts(item, plan)}, ()
        at = item.id.get_offset()
        return facts | {"kind": "contiguous", "offset": -1 if at is None else int(at)}, ()

    def _chunks(self, item: Any, plan: Any, dtype: np.dtype) -> dict[str, Any]:
        chunk = tuple(int(n) for n in item.chunks)
        if math.prod(chunk) * dtype.itemsize > MOST_CHUNK or any(n < 1 for n in chunk):
            raise LeftOutError(f"chunks of {chunk}")
        filters = []
        for k in range(plan.get_nfilters()):
            number, _, values, name = plan.get_filter(k)
            filters.append((int(number), [int(v) for v in values], name.decode("latin1")))
        return {"kind": "chunked", "chunk": chunk, "filters": filters}

    def _table(self, item: Any, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """int64[chunks, ndim + 3]. A damaged index may name a chunk again and again: no more than there can be."""
        chunk = item.chunks
        grid = math.prod(-(-n // c) for n, c in zip(shape, chunk, strict=True))
        most = min(grid, os.path.getsize(item.file.filename) // min(8, math.prod(chunk) * dtype.itemsize))
        rows: list[tuple[int, ...]] = []
        blocks: list[np.ndarray] = []
        count = 0

        def flush() -> None:
            nonlocal count
            count += len(rows)
            if count > most + ROWS:  # of those outside of the shape there may be some
                raise ValueError(f"data set {item.name}: its index of chunks has more entries than it can have")
            blocks.append(np.array(rows, np.int64).reshape(len(rows), len(shape) + 3))
            rows.clear()
            self.budget.time(ROWS_SECONDS)

        def row(info: Any) -> None:
            rows.append((*info.chunk_offset, info.byte_offset, info.size, info.filter_mask))
            if len(rows) == ROWS:
                flush()

        item.id.chunk_iter(row)
        flush()
        return np.concatenate(blocks)

    def _parts(self, item: Any, plan: Any) -> list[tuple[str, int, int]]:
        """Pieces of external storage: (path, first byte, bytes; -1 where it is open to the end)."""
        parts = []
        for k in range(plan.get_external_count()):
            name, at, size = plan.get_external(k)
            path = self.target(os.fsdecode(name), item.file.filename)
            parts.append((path, int(at), -1 if size == UNLIMITED else int(size)))
        return parts

    def _mapped(self, item: Any, shape: tuple[int, ...], depth: int) -> Iterator[tuple[Any, ...]]:
        if depth >= NUMBERED:
            raise LeftOutError("a virtual data set of virtual data sets, too deep or in a circle")
        for count, entry in enumerate(item.virtual_sources()):
            for file_name, path, box in _numbered(entry, shape):
                if count > MOST_SOURCES:
                    raise LeftOutError(f"a virtual data set of more than {MOST_SOURCES:,} sources")
                self.budget.time(OBJECT_SECONDS)
                name = item.file.filename if file_name == "." else self.target(file_name, item.file.filename)
                source = self._source(name, path, depth)
                axes = _paired(_box(entry.src_space, source.shape), box, source.shape, shape, _open(entry.vspace))
                if axes is not None:
                    yield self.numbers[name, path], *axes

    def _source(self, name: str, path: str, depth: int) -> Any:
        """A source of a virtual data set, whose facts are said once."""
        try:
            item = self._linked(name)[path]
            if not isinstance(item, h5py.Dataset):
                raise LeftOutError(f"its source {path} in {name} is no data set")
            self.check(item.file.filename, item.file.filename)
        except (OSError, KeyError, RuntimeError, ValueError) as error:
            raise LeftOutError(f"its source {path} in {name} cannot be opened: {_said(error)}") from None
        if (name, path) not in self.numbers:
            facts, tables = self._facts(item, depth + 1)
            self.numbers[name, path] = len(self.numbers)
            self.write(packed({"name": "", **facts, "number": self.numbers[name, path]}, *tables))
        return item

    def _attributes(self, item: Any) -> dict[str, Any]:
        """Attributes as far as JSON can hold them. Large ones are left out before they are read."""
        found: dict[str, Any] = {}
        for key in list(item.attrs)[:MOST_ATTRIBUTES]:
            try:
                known = item.attrs.get_id(key)
                if math.prod(known.shape or ()) > MOST_VALUES or known.get_storage_size() > 8 * MOST_VALUES:
                    continue
                value = _plain(item.attrs[key])
            except (OSError, TypeError, ValueError, RuntimeError, KeyError):
                continue
            if value is not None:
                found[_utf8(str(key))] = value
        return found


def _plain(value: Any) -> Any:
    """An attribute as JSON has it, None where it does not."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "O":
        return [_plain(entry) if isinstance(entry, str | bytes) else str(entry)[:MOST_TEXT] for entry in value.reshape(-1).tolist()]
    if isinstance(value, np.generic | np.ndarray) and value.dtype.kind in "biufSU":
        value = np.asarray(value, "f8").tolist() if value.dtype.kind == "f" else value.tolist()
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    if isinstance(value, bytes):
        return value.split(b"\0")[0].decode("utf-8", "replace")[:MOST_TEXT]
    if isinstance(value, str):
        return _utf8(value)[:MOST_TEXT]
    return value if isinstance(value, bool | int | float) else None


def _utf8(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def _text(item: Any) -> str:
    """What a scalar string says."""
    with suppress(OSError, TypeError, ValueError, RuntimeError):
        if item.shape in ((), (1,)) and item.dtype.kind in "OSU":
            value = item[()] if item.shape == () else item[0]
            if isinstance(value, bytes | str):
                return str(_plain(value))
    return ""


_COMPLEX = (r"(r|re)$|real", r"(i|im)$|imag")


def _number(dtype: np.dtype) -> np.dtype:
    """The numbers a data set holds: a pair of equal floats, (r, i), (real, imag) or (realFloatHalfEven, imagFloatHalfEven), is a complex one.

    Raises:
        LeftOutError: it holds no numbers.
    """
    if dtype.names is not None and len(dtype.names) == 2 and all(re.match(p, name, re.I) for p, name in zip(_COMPLEX, dtype.names, strict=True)):
        (one, at), (two, then) = (dtype.fields[name][:2] for name in dtype.names)  # type: ignore[index]
        if one == two and one.kind == "f" and one.itemsize in (4, 8) and at == 0 and then == one.itemsize and dtype.itemsize == 2 * one.itemsize:
            return np.dtype(f"{one.byteorder}c{dtype.itemsize}")
    if dtype.kind not in "biufc" or dtype.itemsize > (16 if dtype.kind == "c" else 8) or dtype.subdtype is not None:
        kind = "text or objects" if dtype.kind in "OSU" else f"type {str(dtype)[:200]}"
        raise LeftOutError(f"{kind}, no array of numbers")
    return dtype


def _fill(item: Any, dtype: np.dtype) -> Any:
    try:
        value = np.asarray(item.fillvalue)
    except (RuntimeError, TypeError, ValueError):
        return 0
    if value.size != 1 or value.dtype.kind not in "biufcV":
        return 0
    if dtype.kind == "c":
        number = value.reshape(1).view(dtype)[0] if value.dtype.kind == "V" else value.reshape(1)[0]
        return [float(number.real), float(number.imag)]
    return value.reshape(1)[0].item()


def _labels(item: Any) -> list[str]:
    try:
        return [_utf8(str(dim.label)) for dim in item.dims]
    except (RuntimeError, ValueError, TypeError):
        return []


def _held(item: Any) -> bytes:
    """The bytes of a compact data set as they are in the file: at most 64 KiB."""
    if item.size * item.dtype.itemsize > 1 << 16:
        raise LeftOutError(f"{item.size:,} elements in the file's header, which can hold 64 KiB")
    out = np.empty(item.shape, item.dtype)
    if out.size:
        item.read_direct(out)
    return out.tobytes()


Segments = list[tuple[int, int]]
"""(first element, elements) along an axis."""


def _box(space: Any, shape: Sequence[int]) -> list[Segments]:
    """What is selected along each axis.

    Raises:
        LeftOutError: a selection that is no product of axes, or too fine.
    """
    if space.get_select_type() == h5py.h5s.SEL_ALL:
        return [[(0, n)] for n in shape]
    if space.get_select_type() != h5py.h5s.SEL_HYPERSLABS or not space.is_regular_hyperslab():
        raise LeftOutError("a virtual data set with a selection that is not made of equal blocks")
    return [_segments((a, s, c, b), n) for a, s, c, b, n in zip(*space.get_regular_hyperslab(), shape, strict=True)]


def _segments(slab: Sequence[int], length: int) -> Segments:
    """The blocks of (start, stride, count, block) as far as they lie in an axis of that length; neighbouring ones are one."""
    start, stride, count, block = slab
    if count == 1 or stride == block:
        many = UNLIMITED if UNLIMITED in (count, block) else count * block
        return [(start, max(0, min(many, length - start)))]
    count = min(count, max(0, -(-(length - start) // stride)))
    if count > MOST_RUNS:
        raise LeftOutError(f"a virtual data set with {count:,} pieces along an axis")
    return [(start + k * stride, min(block, length - start - k * stride)) for k in range(count)]


def _numbered(entry: Any, shape: tuple[int, ...]) -> Iterator[tuple[str, str, list[Segments]]]:
    """(file, data set, what it fills) of a source; of a series of them (%b stands for 0, 1, 2, …) each."""
    if not any("%b" in name.replace("%%", "") for name in (entry.file_name, entry.dset_name)):
        yield entry.file_name, entry.dset_name, _box(entry.vspace, shape)
        return
    slabs = [list(axis) for axis in zip(*entry.vspace.get_regular_hyperslab(), strict=True)]
    axis = next((k for k, slab in enumerate(slabs) if slab[2] == UNLIMITED), None)
    if axis is None:
        raise LeftOutError("a virtual data set with a numbered source that fills no open axis")
    start, stride, _, block = slabs[axis]
    for k in range(max(0, -(-(shape[axis] - start) // stride))):
        slabs[axis] = [start + k * stride, stride, 1, block]
        names = [name.replace("%%", "\0").replace("%b", str(k)).replace("\0", "%") for name in (entry.file_name, entry.dset_name)]
        yield names[0], names[1], [_segments(slab, n) for slab, n in zip(slabs, shape, strict=True)]


def _open(space: Any) -> bool:
    """True where a selection goes on for as long as there is something."""
    return space.get_select_type() == h5py.h5s.SEL_HYPERSLABS and space.is_regular_hyperslab() and UNLIMITED in space.get_regular_hyperslab()[2]


def _paired(source: list[Segments], place: list[Segments], of: Sequence[int], to: Sequence[int], shorter: bool) -> tuple[Any, ...] | None:
    """(axes, start, place) as `facts.Mapped` has them; None where nothing is mapped.

    Args:
        of, to: shapes of the source and of the virtual data set.
        shorter: True where an axis of one may be shorter than that of the other: what both have is mapped.

    Raises:
        LeftOutError: the two do not have the same shape.
    """
    sizes = [[sum(n for _, n in axis) for axis in box] for box in (source, place)]
    if 0 in sizes[0] or 0 in sizes[1]:
        return None
    for box, shape in ((source, of), (place, to)):
        if any(a < 0 or a + n > length for axis, length in zip(box, shape, strict=True) for a, n in axis):
            raise LeftOutError("a virtual data set that maps what is outside of a source or of itself")
    long = [[k for k, n in enumerate(size) if n > 1] for size in sizes]
    if len(long[0]) != len(long[1]) or any(sizes[0][a] != sizes[1][b] and not shorter for a, b in zip(*long, strict=True)):
        raise LeftOutError(f"a virtual data set that gives its sources another shape ({sizes[0]} → {sizes[1]})")
    axes = [(a, b, _runs(source[a], place[b])) for a, b in zip(long[0], long[1], strict=True)]
    return axes, [axis[0][0] for axis in source], [axis[0][0] for axis in place]


def _runs(source: Segments, place: Segments) -> list[tuple[int, int, int]]:
    """Two lists of segments of the same length together, cut where one of them is."""
    runs = []
    one, two = iter(source), iter(place)
    (a, m), (b, n) = next(one), next(two)
    while True:
        take = min(m, n)
        if take:
            runs.append((a, b, take))
        a, m, b, n = a + take, m - take, b + take, n - take
        try:
            if m == 0:
                a, m = next(one)
            if n == 0:
                b, n = next(two)
        except StopIteration:
            return runs
