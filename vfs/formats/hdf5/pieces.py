"""Holds arrays that consist of stored blocks, and makes one array of several.

Blocks may be chunks of any files, or whole data sets that are stored in one piece.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from vfs.formats.hdf5.filters import FilterDecoder
from vfs.h5.facts import LeftOutError, Lost
from vfs.model.decode import BlockDecoder, Decoder, PlainDecoder
from vfs.model.layout import BlockLayout, BlockTable, FrameLayout, FrameRecord, Layout, Scan
from vfs.model.stored import Absence

MAX_BLOCKS = 20_000_000
_MEANING = frozenset(("scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned", "units", "dtype"))
"""Attributes by which the same numbers mean something else."""


@dataclass(frozen=True)
class Blocks:
    """Holds n pieces of an array, each a stored block or a part of one.

    Attributes:
        origins, shapes: int64[n, ndim], elements.
        box_starts: int64[n, ndim], first element of the piece within its stored block.
        files, offsets, sizes, masks: int64[n]: file, first byte, bytes stored, mask of the filters
            that were left out.
        pitch: shape in which every block is stored.
    """

    origins: np.ndarray
    shapes: np.ndarray
    box_starts: np.ndarray
    files: np.ndarray
    offsets: np.ndarray
    sizes: np.ndarray
    masks: np.ndarray
    pitch: tuple[int, ...]


@dataclass(frozen=True)
class StoredData:
    """Holds the properties of a data set that `StoredArray` needs.

    Attributes:
        files: absolute paths of the files; the layout holds indices into them.
        blocks: its pieces; None if it does not consist of pieces.
        chunk: elements per axis of a chunk; () if there are no chunks.
        filters: (number, parameters) in the order of writing.
        dtype: dtype in the file.
        dims: names of the axes, "" for one without; () for none.
        lost: files of it that cannot be read, while others can.
        absent: parts that the files should hold and do not.
        conventions: attributes for readers of netCDF.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    files: tuple[str, ...]
    fill: Any
    layout: Layout
    decoder: Decoder | BlockDecoder
    blocks: Blocks | None = None
    chunk: tuple[int, ...] = ()
    filters: tuple[tuple[int, tuple[int, ...]], ...] = ()
    attrs: Mapping[str, Any] = field(default_factory=dict)
    dims: tuple[str, ...] = ()
    absent: tuple[Absence, ...] = ()
    lost: tuple[Lost, ...] = ()
    conventions: Mapping[str, Any] = field(default_factory=dict)


def frames(shape: tuple[int, ...], word_bytes: int, stream: np.ndarray, nav_ndim: int) -> FrameLayout:
    """Lay out an array in C order in a stream of bytes (see FrameLayout), with so many navigation axes."""
    nav, sig = shape[:nav_ndim], shape[nav_ndim:]
    layout = FrameLayout.of(FrameRecord(sig, word_bytes), [math.prod(nav)])
    kept = stream[stream[:, 1] > stream[:, 0]] if math.prod(shape) else stream[:0]
    return replace(layout, stream=np.ascontiguousarray(kept)).arranged(Scan(nav))


def empty(shape: tuple[int, ...], dtype: np.dtype, fill: Any) -> StoredData:
    """Lay out an array of which nothing is stored."""
    none, few = np.empty((0, len(shape))), np.empty(0)
    return StoredData(
        shape,
        dtype,
        (),
        fill,
        BlockLayout.of(shape, BlockTable(none, none, few, few), word_bytes=dtype.itemsize),
        PlainDecoder(dtype),
    )


def one_block(shape: tuple[int, ...], dtype: np.dtype, offset: int) -> Blocks | None:
    """Return the one piece of an array that is stored in C order in one file."""
    if not math.prod(shape):
        return None
    origin, zero = np.zeros((1, len(shape)), np.int64), np.zeros(1, np.int64)
    whole, size = np.array([shape], np.int64).reshape(1, -1), np.array([math.prod(shape) * dtype.itemsize])
    return Blocks(origin, whole, origin, zero, np.array([offset]), size, zero, shape)


def of_blocks(
    shape: tuple[int, ...],
    dtype: np.dtype,
    filters: tuple[Any, ...],
    chunk: tuple[int, ...],
    blocks: Blocks,
    files: tuple[str, ...],
    fill: Any,
) -> StoredData:
    _, numbers = (
        np.unique(np.stack([blocks.files, blocks.offsets]), axis=1, return_inverse=True)
        if blocks.box_starts.any()
        else (None, np.arange(len(blocks.files)))
    )
    layout = BlockLayout.of(
        shape,
        BlockTable(
            blocks.origins,
            blocks.shapes,
            blocks.files,
            blocks.offsets,
            blocks.sizes,
            numbers=numbers.reshape(-1),
            box_starts=blocks.box_starts if blocks.box_starts.any() else None,
        ),
        word_bytes=0 if filters else dtype.itemsize,
        pitch=blocks.pitch,
    )
    decoder: Decoder | BlockDecoder = PlainDecoder(dtype)
    if filters:
        left_out = (blocks.masks & ((1 << len(filters)) - 1)) != 0
        decoder = FilterDecoder(
            dtype, filters, {int(numbers[n]): int(blocks.masks[n]) for n in np.flatnonzero(left_out)}
        )
    return StoredData(shape, dtype, files, fill, layout, decoder, blocks, chunk, filters)


def as_stack(parts: Sequence[StoredData]) -> list[StoredData]:
    """Return arrays with an axis of frames first, each of which is a part of a stack.

    An array with two axes is one frame, if all of these have one shape. Otherwise they have different
    numbers of rows, as parts of a table do, and stay as they are.
    """
    flat = [part for part in parts if len(part.shape) == 2]
    if len({part.shape for part in flat}) != 1:
        return list(parts)
    return [_one_frame(part) if len(part.shape) == 2 else part for part in parts]


def _one_frame(part: StoredData) -> StoredData:
    """Return an array with an axis of length 1 before the others. Its layout stays that of a frame."""

    def ahead(values: np.ndarray, first: int) -> np.ndarray:
        return np.insert(values, 0, first, axis=1)

    blocks = part.blocks
    if blocks is not None:
        blocks = replace(
            blocks,
            origins=ahead(blocks.origins, 0),
            shapes=ahead(blocks.shapes, 1),
            box_starts=ahead(blocks.box_starts, 0),
            pitch=(1, *blocks.pitch),
        )
    names = ("frame", *part.dims) if part.dims and "frame" not in part.dims else ()
    return replace(
        part, shape=(1, *part.shape), blocks=blocks, chunk=(1, *part.chunk) if part.chunk else (), dims=names
    )


def joined(parts: Sequence[StoredData | None], length: int = 0) -> StoredData:
    """Join arrays one after the other along their first axis.

    Args:
        parts: the arrays; None in the place of a missing one. Missing ones at the end are left out.
        length: elements of a missing array along that axis. They read as the fill value.

    Raises:
        LeftOutError: the arrays are not alike.
    """
    there = [part for part in parts if part is not None]
    first = next((part for part in there if part.blocks is not None), there[0])
    places = []
    size = end = 0
    for part in parts:
        if part is None:
            size += length
            continue
        if not part.shape or part.shape[1:] != first.shape[1:]:
            raise LeftOutError(f"its pieces differ in shape ({list(first.shape)}, {list(part.shape)})")
        if part.blocks is not None:
            moved = part.blocks.origins.copy()
            moved[:, 0] += size
            places.append((part, replace(part.blocks, origins=moved)))
        elif part.files and 0 not in part.shape:
            raise LeftOutError("its pieces are compact, or in several raw files")
        if not same_fill(part, first.fill) and held(part) < math.prod(part.shape):
            raise LeftOutError("its pieces differ in fill value, and parts of them were never written")
        size = end = size + part.shape[0]
    shape = (end, *first.shape[1:])
    if not places:
        return replace(empty(shape, first.dtype, first.fill), attrs=_shared(there), dims=first.dims)
    chunk = first.chunk if all(part.chunk == first.chunk for part, _ in places) else ()
    known = _conventions(there)
    made = replace(merged(shape, places, first.fill), chunk=chunk, attrs=_shared(there), dims=first.dims)
    made = replace(made, conventions=known)
    return _in_a_stream(made, places) if all(part.layout.frames is not None for part, _ in places) else made


def _in_a_stream(made: StoredData, places: Sequence[tuple[StoredData, Blocks]]) -> StoredData:
    """Return a joined array whose pieces are stored in C order, as frames in a stream: they fit any scan shape."""
    row = math.prod(made.shape[1:]) * made.dtype.itemsize
    files = {path: n for n, path in enumerate(made.files)}
    stream = [
        (
            first := int(blocks.origins[0, 0]) * row,
            first + part.shape[0] * row,
            int(blocks.offsets[0]),
            files[part.files[0]],
        )
        for part, blocks in places
    ]
    rows = np.array(stream, np.int64)
    return replace(made, layout=frames(made.shape, made.dtype.itemsize, rows, max(0, len(made.shape) - 2)))


def held(part: StoredData) -> int:
    """Return the number of elements that are stored."""
    return 0 if part.blocks is None else int(part.blocks.shapes.prod(axis=1).sum())


def same_fill(part: StoredData, fill: Any) -> bool:
    return bool(part.fill == fill or (part.fill != part.fill and fill != fill))  # NaN differs from itself


def _shared(parts: Sequence[StoredData]) -> Mapping[str, Any]:
    """Return the attributes that all arrays have: others (image_nr_low) hold for a part only."""
    first, *others = parts
    return {
        name: value
        for name, value in first.attrs.items()
        if all(name in other.attrs and other.attrs[name] == value for other in others)
    }


def _conventions(parts: Sequence[StoredData]) -> Mapping[str, Any]:
    """Return the attributes for readers of netCDF that all arrays have.

    Raises:
        LeftOutError: they differ in what numbers mean.
    """
    found = {}
    for name in sorted({name for part in parts for name in part.conventions}):
        values = [part.conventions.get(name) for part in parts]
        if len({repr(value) for value in values}) == 1:
            found[name] = values[0]
        elif name in _MEANING:
            raise LeftOutError(f"its pieces differ in {name} ({', '.join(str(value) for value in values[:3])})")
    return found


def merged(shape: tuple[int, ...], places: Sequence[tuple[StoredData, Blocks]], fill: Any) -> StoredData:
    """Merge the pieces of arrays of one kind, each at its place in a larger array.

    Raises:
        LeftOutError: the arrays are not of one kind, or have too many pieces.
    """
    first, pitch = places[0][0], places[0][1].pitch
    if any(part.dtype != first.dtype or part.filters != first.filters for part, _ in places):
        raise LeftOutError("its pieces differ in type or filters")
    if first.filters:
        if any(blocks.pitch != pitch for _, blocks in places):
            raise LeftOutError("its pieces differ in their chunks")
    else:  # the length along the slowest axis does not matter
        if any(blocks.pitch[1:] != pitch[1:] for _, blocks in places):
            raise LeftOutError("its pieces differ in the shape they are stored in")
        pitch = (max(blocks.pitch[0] for _, blocks in places), *pitch[1:]) if pitch else pitch
    if sum(len(blocks.files) for _, blocks in places) > MAX_BLOCKS:
        raise LeftOutError(f"more than {MAX_BLOCKS:,} pieces")
    index = {path: n for n, path in enumerate(dict.fromkeys(path for part, _ in places for path in part.files))}
    columns: list[list[np.ndarray]] = [[] for _ in range(7)]
    for part, blocks in places:
        files = np.array([index[path] for path in part.files], np.int64)[blocks.files]
        for column, values in zip(
            columns,
            (blocks.origins, blocks.shapes, blocks.box_starts, files, blocks.offsets, blocks.sizes, blocks.masks),
            strict=True,
        ):
            column.append(values)
    origins, shapes, box_starts, which, offsets, sizes, masks = (np.concatenate(column) for column in columns)
    merged = Blocks(origins, shapes, box_starts, which, offsets, sizes, masks, pitch)
    return of_blocks(shape, first.dtype, first.filters, first.chunk, merged, tuple(index), fill)
