"""Where a data set of an HDF5 file keeps its elements, as a layout and a decoder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from vfs.decode import BlockDecoder, Decoder, PlainDecoder
from vfs.formats.hdf5.filters import FILTERS, FilterDecoder, Held
from vfs.layout import BlockLayout, FrameLayout

_MOST_ATTRIBUTES = 500
_MOST_VALUES = 4096  # of an attribute that is shown
_MOST_CHUNK = 1 << 32  # bytes: HDF5's own limit


class LeftOutError(Exception):
    """A data set that cannot be shown; the message is the reason."""


class Followed(Protocol):
    """Who knows which files may be opened."""

    h5py: Any

    def target(self, name: str, of: str) -> str: ...

    def check(self, path: str, name: str) -> None: ...


@dataclass(frozen=True)
class Stored:
    """A data set: what `Dataset` needs of it.

    Attributes:
        files: absolute paths that the layout counts; empty where none is needed.
        blocks: (origins, shapes, files, offsets, bytes stored, filter masks) of its blocks, as BlockLayout takes them.
    """

    shape: tuple[int, ...]
    layout: FrameLayout | BlockLayout
    decoder: Decoder | BlockDecoder
    files: tuple[str, ...]
    fill: Any
    chunk: tuple[int, ...] = ()
    dims: tuple[str, ...] = ()
    attrs: dict[str, Any] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)
    blocks: tuple[np.ndarray, ...] = ()


def stored(item: Any, book: Followed) -> Stored:
    """Where the elements of a data set are.

    Raises:
        LeftOutError: they cannot be shown.
    """
    dtype = item.dtype
    if dtype.kind not in "biufc" or dtype.itemsize > (16 if dtype.kind == "c" else 8) or dtype.subdtype is not None:
        kind = "text or objects" if dtype.kind in "OSU" else f"type {dtype}"
        raise LeftOutError(f"{kind}, no array of numbers")
    if item.shape is None:
        raise LeftOutError("it has no shape")
    shape = tuple(int(n) for n in item.shape)
    if len(shape) > 16:
        raise LeftOutError(f"{len(shape)} axes")
    fill = _fill(item)
    plan = item.id.get_create_plist()
    h5d = book.h5py.h5d
    kind = plan.get_layout()
    path = item.file.filename
    if kind == h5d.VIRTUAL:
        made = _virtual(item, shape, dtype, fill, book)
    elif kind == h5d.CHUNKED:
        made = _chunked(item, plan, shape, dtype, fill, path)
    elif kind == h5d.COMPACT:
        made = _held(item[...], shape, path)
    elif plan.get_external_count():
        raise LeftOutError("its elements are in raw files beside it; open those with format raw")
    else:
        at = item.id.get_offset()
        made = _contiguous(shape, dtype, [] if at is None else [(path, at)], fill)
    return replace(made, attrs=attributes(item), dims=_labels(item))


def _contiguous(shape: tuple[int, ...], dtype: np.dtype, parts: list[tuple[str, int]], fill: Any) -> Stored:
    """One range of a file, or nothing at all."""
    nav, sig = shape[: max(0, len(shape) - 2)], shape[max(0, len(shape) - 2) :]
    frames = math.prod(nav)
    if not parts:
        empty = BlockLayout.of(shape, np.empty((0, len(shape))), np.empty((0, len(shape))), np.empty(0), np.empty(0), word_bytes=dtype.itemsize)
        return Stored(shape, empty, PlainDecoder(dtype), (), fill)
    path, at = parts[0]
    layout = FrameLayout.of(sig, [frames], word_bytes=dtype.itemsize, file_header=at).arranged(nav)
    one = np.zeros((1, len(shape)), np.int64)
    blocks = (
        one,
        np.array([shape], np.int64).reshape(1, -1),
        np.zeros(1, np.int64),
        np.array([at]),
        np.array([math.prod(shape) * dtype.itemsize]),
        np.zeros(1, np.int64),
    )
    return Stored(shape, layout, PlainDecoder(dtype), (path,), fill, blocks=blocks)


def _held(values: Any, shape: tuple[int, ...], path: str) -> Stored:
    array = np.asarray(values)
    nd = len(shape)
    count = 1 if array.size else 0
    zero = np.zeros(count, np.int64)
    layout = BlockLayout.of(shape, np.zeros((count, nd)), np.array([shape] * count).reshape(count, nd), zero, zero, zero, whole=True)
    return Stored(shape, layout, Held(array.copy()), (path,), 0, shape if array.size and nd else ())


def _chunked(item: Any, plan: Any, shape: tuple[int, ...], dtype: np.dtype, fill: Any, path: str) -> Stored:
    chunk = tuple(int(n) for n in item.chunks)
    if math.prod(chunk) * dtype.itemsize > _MOST_CHUNK or any(n < 1 for n in chunk):
        raise LeftOutError(f"chunks of {chunk}")
    filters = []
    for k in range(plan.get_nfilters()):
        number, _, values, name = plan.get_filter(k)
        if number not in FILTERS:
            raise LeftOutError(f"filter {number} ({name.decode('latin1', 'replace')}) is not known")
        filters.append((int(number), tuple(int(v) for v in values)))
    rows: list[tuple[int, ...]] = []
    item.id.chunk_iter(lambda info: rows.append((*info.chunk_offset, info.byte_offset, info.size, info.filter_mask)))
    table = np.array(rows, np.int64).reshape(len(rows), len(shape) + 3)
    table = table[(table[:, : len(shape)] < np.array(shape)).all(axis=1)] if shape else table
    origins = table[:, : len(shape)]
    shapes = np.minimum(np.array(chunk), np.array(shape) - origins)
    blocks = (origins, shapes, np.zeros(len(table), np.int64), table[:, -3], table[:, -2], table[:, -1])
    return _of_blocks(shape, dtype, tuple(filters), chunk, blocks, (path,), fill)


def _of_blocks(
    shape: tuple[int, ...], dtype: np.dtype, filters: tuple[Any, ...], chunk: tuple[int, ...], blocks: tuple[np.ndarray, ...], files: tuple[str, ...], fill: Any
) -> Stored:
    origins, shapes, which, offsets, sizes, masks = blocks
    left_out = (masks & ((1 << len(filters)) - 1)) != 0
    plain = not filters
    numbers = np.arange(len(origins))
    layout = BlockLayout.of(
        shape, origins, shapes, which, offsets, sizes, word_bytes=dtype.itemsize if plain else 0, whole=not plain, pitch=chunk, numbers=numbers
    )
    decoder: Decoder | BlockDecoder = PlainDecoder(dtype)
    if not plain:
        decoder = FilterDecoder(dtype, filters, {int(n): int(masks[n]) for n in np.flatnonzero(left_out)})
    notes = {"filters": [FILTERS[number][0] for number, _ in filters]} if filters else {}
    return Stored(shape, layout, decoder, files, fill, chunk, notes=notes, blocks=blocks)


def joined(parts: Sequence[Stored]) -> Stored:
    """Arrays one after the other along their first axis.

    Raises:
        LeftOutError: they are not alike.
    """
    first = parts[0]
    size = 0
    moved = []
    for part in parts:
        if part.shape[1:] != first.shape[1:] or not _alike(part.decoder, first.decoder) or part.chunk != first.chunk or not part.blocks:
            raise LeftOutError("its pieces differ in shape, type, chunks or filters")
        moved.append((size, part))
        size += part.shape[0]
    return _placed((size, *first.shape[1:]), [((at, *(0,) * (len(first.shape) - 1)), part) for at, part in moved], first)


def _alike(a: Any, b: Any) -> bool:
    return type(a) is type(b) and a.stored == b.stored and getattr(a, "filters", ()) == getattr(b, "filters", ())


def _placed(shape: tuple[int, ...], parts: Sequence[tuple[tuple[int, ...], Stored]], first: Stored) -> Stored:
    """Arrays of one kind, each at its place in a larger one."""
    files = tuple(dict.fromkeys(path for _, part in parts for path in part.files))
    columns: list[list[np.ndarray]] = [[] for _ in range(6)]
    for at, part in parts:
        origins, shapes, which, offsets, sizes, masks = part.blocks
        index = np.array([files.index(path) for path in part.files], np.int64)
        for column, values in zip(columns, (origins + np.array(at), shapes, index[which], offsets, sizes, masks), strict=True):
            column.append(values)
    blocks = tuple(np.concatenate(column) for column in columns)
    decoder: Any = first.decoder
    whole = _of_blocks(shape, decoder.stored, getattr(decoder, "filters", ()), first.chunk, blocks, files, first.fill)
    return replace(whole, attrs=first.attrs, dims=first.dims)


def _virtual(item: Any, shape: tuple[int, ...], dtype: np.dtype, fill: Any, book: Followed) -> Stored:
    """A virtual data set whose sources are mapped whole, each to a box of it."""
    parts: list[tuple[tuple[int, ...], Stored]] = []
    for source in item.virtual_sources():
        box = source.vspace.get_regular_hyperslab() if source.vspace.get_select_type() == book.h5py.h5s.SEL_HYPERSLABS else None
        start, count = ((0,) * len(shape), shape) if box is None else (box[0], tuple(int(c * b) for c, b in zip(box[2], box[3], strict=True)))
        if box is not None and any(c > 1 and s != b for c, s, b in zip(box[2], box[1], box[3], strict=True)):
            raise LeftOutError("a virtual data set whose sources are mapped with gaps")
        name = item.file.filename if source.file_name == "." else book.target(source.file_name, item.file.filename)
        try:
            with book.h5py.File(name, "r", locking=False) as file:
                found = file[source.dset_name]
                book.check(found.file.filename, found.file.filename)
                part = stored(found, book)
        except (OSError, KeyError, RuntimeError) as error:
            raise LeftOutError(f"its source {source.dset_name} in {source.file_name} cannot be opened: {str(error).splitlines()[0][:200]}") from None
        if math.prod(part.shape) != math.prod(count) or not part.blocks:
            raise LeftOutError("a virtual data set that maps parts of its sources")
        parts.append((tuple(int(n) for n in start), _shaped(part, tuple(int(n) for n in count))))
    if not parts:
        return _contiguous(shape, dtype, [], fill)
    first = parts[0][1]
    if any(not _alike(part.decoder, first.decoder) or part.chunk != first.chunk for _, part in parts):
        raise LeftOutError("a virtual data set whose sources differ in type, chunks or filters")
    if np.dtype(first.decoder.dtype) != dtype.newbyteorder("="):
        raise LeftOutError("a virtual data set of another type than its sources")
    return replace(_placed(shape, parts, first), fill=fill)


def _shaped(part: Stored, shape: tuple[int, ...]) -> Stored:
    """The same blocks with axes of length 1 added or taken away in front.

    Raises:
        LeftOutError: the shapes differ otherwise.
    """
    if part.shape == shape:
        return part
    more = len(shape) - len(part.shape)
    if more < 0 or shape[:more] != (1,) * more or shape[more:] != part.shape:
        raise LeftOutError("a virtual data set that gives its sources another shape")
    origins, shapes, *rest = part.blocks
    wide = (np.pad(origins, ((0, 0), (more, 0))), np.pad(shapes, ((0, 0), (more, 0)), constant_values=1), *rest)
    return replace(part, shape=shape, chunk=(1,) * more + part.chunk if part.chunk else (), blocks=wide)


def _fill(item: Any) -> Any:
    try:
        value = item.fillvalue
    except (RuntimeError, TypeError, ValueError):
        return 0
    return 0 if value is None else value.item() if isinstance(value, np.generic) else value


def _labels(item: Any) -> tuple[str, ...]:
    """Names of the axes where the file has one for each, all different."""
    try:
        names = tuple(str(dim.label) for dim in item.dims)
    except (RuntimeError, ValueError, TypeError):
        return ()
    return names if all(names) and len(set(names)) == len(names) else ()


def attributes(item: Any) -> dict[str, Any]:
    """Attributes of a group or data set as far as JSON can hold them. Large ones are left out before they are read."""
    found: dict[str, Any] = {}
    for key in list(item.attrs)[:_MOST_ATTRIBUTES]:
        try:
            known = item.attrs.get_id(key)
            if math.prod(known.shape or ()) > _MOST_VALUES or known.get_storage_size() > 8 * _MOST_VALUES:
                continue
            value = item.attrs[key]
        except (OSError, TypeError, ValueError, RuntimeError, KeyError):
            continue
        if isinstance(value, str | bytes):
            found[str(key)] = value[:4096]
        elif isinstance(value, np.generic | np.ndarray) and value.dtype.kind in "biufSU":
            found[str(key)] = value.tolist()
        elif isinstance(value, np.ndarray) and value.dtype.kind == "O":
            found[str(key)] = [str(entry)[:4096] for entry in value.reshape(-1).tolist()]
    return found
