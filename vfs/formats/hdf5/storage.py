"""Turns the storage of an HDF5 data set into a layout and a decoder."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from vfs.errors import FormatError
from vfs.formats.hdf5.filters import FILTERS, UNKNOWN, CompactValues, FilterDecoder
from vfs.h5.facts import AbsentError, Data, LeftOutError, Mapped, Survey
from vfs.model.decode import BlockDecoder, Decoder, PlainDecoder
from vfs.model.layout import BlockLayout, FrameLayout, Layout
from vfs.model.stored import Absence

_MOST_BLOCKS = 20_000_000


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
    conventions: Mapping[str, Any] = field(default_factory=dict)


def stored(data: Data, survey: Survey) -> StoredData:
    """Find the elements of a data set in its files.

    Raises:
        LeftOutError: the data set cannot be shown.
    """
    if data.absent:
        raise AbsentError(data.left_out, data.absent, data.outside)
    if data.left_out:
        raise LeftOutError(data.left_out)
    dtype = np.dtype(data.dtype)
    made = {
        "virtual": _virtual,
        "chunked": _chunked,
        "compact": _compact,
        "external": _external,
        "contiguous": _contiguous,
    }[data.kind](data, dtype, survey)
    return replace(made, attrs=data.attrs, dims=_names(data, survey), conventions=data.conventions)


def _names(data: Data, survey: Survey) -> tuple[str, ...]:
    """Return the names of the axes: labels, else those of dimension scales; "" for an axis without one, () for none."""
    scales = data.scales
    if data.address >= 0 and data.shape and not scales:
        scales = (data.address, *(-1,) * (len(data.shape) - 1))  # a coordinate variable of netCDF: its own name
    axes = range(len(data.shape))
    names = tuple(
        (data.labels[k] if data.labels else "") or (survey.scales.get((data.file, scales[k]), "") if scales else "")
        for k in axes
    )
    known = [name for name in names if name]
    return names if known and len(set(known)) == len(known) and (scales or all(names)) else ()


def _contiguous(data: Data, dtype: np.dtype, survey: Survey) -> StoredData:
    """Lay out one range of a file, or nothing at all."""
    shape = data.shape
    if data.offset < 0:
        return _empty(data.shape, dtype, data.fill)
    stream = np.array([[0, math.prod(shape) * dtype.itemsize, data.offset, 0]], np.int64)
    layout = frames(shape, dtype.itemsize, stream, max(0, len(shape) - 2))
    blocks = _one_block(shape, dtype, data.offset)
    return StoredData(shape, dtype, (data.file,), data.fill, layout, PlainDecoder(dtype), blocks)


def _one_block(shape: tuple[int, ...], dtype: np.dtype, offset: int) -> Blocks | None:
    """Return the one piece of an array that is stored in C order in one file."""
    if not math.prod(shape):
        return None
    origin, zero = np.zeros((1, len(shape)), np.int64), np.zeros(1, np.int64)
    whole, size = np.array([shape], np.int64).reshape(1, -1), np.array([math.prod(shape) * dtype.itemsize])
    return Blocks(origin, whole, origin, zero, np.array([offset]), size, zero, shape)


def _empty(shape: tuple[int, ...], dtype: np.dtype, fill: Any) -> StoredData:
    """Lay out an array of which nothing is stored."""
    none, few = np.empty((0, len(shape))), np.empty(0)
    return StoredData(
        shape,
        dtype,
        (),
        fill,
        BlockLayout.of(shape, none, none, few, few, word_bytes=dtype.itemsize),
        PlainDecoder(dtype),
    )


def frames(shape: tuple[int, ...], word_bytes: int, stream: np.ndarray, nav_ndim: int) -> FrameLayout:
    """Lay out an array in C order in a stream of bytes (see FrameLayout), with so many navigation axes."""
    nav, sig = shape[:nav_ndim], shape[nav_ndim:]
    layout = FrameLayout.of(sig, [math.prod(nav)], word_bytes=word_bytes)
    kept = stream[stream[:, 1] > stream[:, 0]] if math.prod(shape) else stream[:0]
    return replace(layout, stream=np.ascontiguousarray(kept)).arranged(nav)


def _external(data: Data, dtype: np.dtype, survey: Survey) -> StoredData:
    """Lay out a run of bytes in raw files, one after the other."""
    whole = math.prod(data.shape) * dtype.itemsize
    files = tuple(dict.fromkeys(path for path, _, _ in data.parts))
    rows = []
    done = 0
    for path, at, size in data.parts:
        take = whole - done if size < 0 else min(size, whole - done)
        if take % dtype.itemsize:
            raise LeftOutError("a raw file beside it ends in the middle of an element")
        rows.append((done, done + take, at, files.index(path)))
        done += take
    if done < whole:
        raise LeftOutError(f"the raw files beside it have room for {done:,} bytes of {whole:,}")
    stream = np.array(rows, np.int64).reshape(-1, 4)
    layout = frames(data.shape, dtype.itemsize, stream, max(0, len(data.shape) - 2))
    blocks = _one_block(data.shape, dtype, rows[0][2]) if len(rows) == 1 else None
    return StoredData(data.shape, dtype, files, data.fill, layout, PlainDecoder(dtype), blocks)


def _compact(data: Data, dtype: np.dtype, survey: Survey) -> StoredData:
    shape, nd = data.shape, len(data.shape)
    if len(data.held) != math.prod(shape) * dtype.itemsize:
        raise FormatError(
            f"{data.file}: {data.name}: expected {math.prod(shape) * dtype.itemsize:,} bytes in its header, found"
            f" {len(data.held):,}"
        )
    values = np.frombuffer(data.held, dtype).reshape(shape)
    count = 1 if values.size else 0
    zero = np.zeros(count, np.int64)
    layout = BlockLayout.of(
        shape, np.zeros((count, nd)), np.array([shape] * count).reshape(count, nd), zero, zero, zero, whole=True
    )
    return StoredData(
        shape, dtype, (data.file,), 0, layout, CompactValues(values), chunk=shape if values.size and nd else ()
    )


def _chunked(data: Data, dtype: np.dtype, survey: Survey) -> StoredData:
    for number, _, name in data.filters:
        if number not in FILTERS:
            known = UNKNOWN.get(number) or name or "not registered"
            raise LeftOutError(
                f"its compression, HDF5 filter {number} ({known}), is not supported; `h5repack -f GZIP=4` makes a copy"
                " that is"
            )
    shape, nd = _whole_shape(data, survey), len(data.shape)
    table = data.table
    origins = table[:, :nd]
    shapes = np.minimum(np.array(data.chunk), np.array(data.shape) - origins)
    zero = np.zeros(len(table), np.int64)
    blocks = Blocks(origins, shapes, np.zeros_like(origins), zero, table[:, -3], table[:, -2], table[:, -1], data.chunk)
    filters = tuple((number, values) for number, values, _ in data.filters)
    return _of_blocks(shape, dtype, filters, data.chunk, blocks, (data.file,), data.fill)


def _whole_shape(data: Data, survey: Survey) -> tuple[int, ...]:
    """Return the elements per axis, with those that were not written yet.

    An unlimited dimension of netCDF is as long as in the longest variable that has it. In shorter ones
    the rest reads as the fill value.
    """
    scales = data.scales or (-1,) * len(data.shape)
    return tuple(max(n, survey.lengths.get((data.file, scale), n)) for scale, n in zip(scales, data.shape, strict=True))


def _of_blocks(
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
        blocks.origins,
        blocks.shapes,
        blocks.files,
        blocks.offsets,
        blocks.sizes,
        word_bytes=0 if filters else dtype.itemsize,
        whole=bool(filters),
        pitch=blocks.pitch,
        numbers=numbers.reshape(-1),
        box_starts=blocks.box_starts if blocks.box_starts.any() else None,
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
        if not _same_fill(part, first.fill) and _held(part) < math.prod(part.shape):
            raise LeftOutError("its pieces differ in fill value, and parts of them were never written")
        size = end = size + part.shape[0]
    shape = (end, *first.shape[1:])
    if not places:
        return replace(_empty(shape, first.dtype, first.fill), attrs=_shared(there), dims=first.dims)
    chunk = first.chunk if all(part.chunk == first.chunk for part, _ in places) else ()
    return replace(_merged(shape, places, first.fill), chunk=chunk, attrs=_shared(there), dims=first.dims)


def _held(part: StoredData) -> int:
    """Return the number of elements that are stored."""
    return 0 if part.blocks is None else int(part.blocks.shapes.prod(axis=1).sum())


def _same_fill(part: StoredData, fill: Any) -> bool:
    return bool(part.fill == fill or (part.fill != part.fill and fill != fill))  # NaN differs from itself


def _shared(parts: Sequence[StoredData]) -> Mapping[str, Any]:
    """Return the attributes that all arrays have: others (image_nr_low) hold for a part only."""
    first, *others = parts
    return {
        name: value
        for name, value in first.attrs.items()
        if all(name in other.attrs and other.attrs[name] == value for other in others)
    }


def _merged(shape: tuple[int, ...], places: Sequence[tuple[StoredData, Blocks]], fill: Any) -> StoredData:
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
    if sum(len(blocks.files) for _, blocks in places) > _MOST_BLOCKS:
        raise LeftOutError(f"more than {_MOST_BLOCKS:,} pieces")
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
    return _of_blocks(shape, first.dtype, first.filters, first.chunk, merged, tuple(index), fill)


def _virtual(data: Data, dtype: np.dtype, survey: Survey) -> StoredData:
    """Lay out boxes of other data sets. Places that no box fills read as the fill value."""
    known: dict[int, StoredData] = {}
    places = []
    for mapped in data.mapped:
        if mapped.source not in known:
            known[mapped.source] = _source(survey.sources[mapped.source], survey, data, dtype)
        part = known[mapped.source]
        if part.blocks is not None:
            places.append(
                (part, _mapped(part.blocks, mapped, part.dtype.itemsize, bool(part.filters), len(data.shape)))
            )
    places = [(part, blocks) for part, blocks in places if len(blocks.files)]
    if not places:
        return _empty(data.shape, dtype, data.fill)
    made = _merged(data.shape, places, data.fill)
    assert made.blocks is not None
    if len(places) > 1:
        zero = np.zeros(len(made.blocks.files), np.int64)
        try:
            BlockLayout.of(data.shape, made.blocks.origins, made.blocks.shapes, zero, zero, check_overlap=True)
        except FormatError:
            raise LeftOutError("a virtual data set whose sources overlap") from None
    return replace(
        made, chunk=tuple(min(c, n) for c, n in zip(made.blocks.pitch, data.shape, strict=True)) if made.chunk else ()
    )


def _source(data: Data, survey: Survey, of: Data, dtype: np.dtype) -> StoredData:
    """Return a source of a virtual data set.

    Raises:
        LeftOutError: the source cannot be shown, or not as part of that data set.
    """
    part = stored(data, survey)
    if part.dtype.newbyteorder("=") != dtype.newbyteorder("="):
        raise LeftOutError(f"a virtual data set of another type ({dtype}) than its source ({part.dtype})")
    if part.blocks is None and part.files and 0 not in part.shape:
        raise LeftOutError("a virtual data set whose source is compact or in several raw files")
    if _held(part) < math.prod(data.shape) and not _same_fill(part, of.fill):
        raise LeftOutError(
            f"a virtual data set with another fill value ({of.fill}) than its source ({part.fill}), of which parts were"
            " never written"
        )
    return part


def _mapped(blocks: Blocks, mapped: Mapped, itemsize: int, whole: bool, ndim: int) -> Blocks:
    """Return the parts of blocks that a source gives to a virtual data set, at their places there.

    Args:
        ndim: number of axes of the virtual data set.

    Raises:
        LeftOutError: the blocks cannot be treated as blocks of so many axes.
    """
    low, high = blocks.origins.copy(), blocks.origins + blocks.shapes
    row = np.arange(len(low))
    shift = np.zeros(
        (len(low), 0), np.int64
    )  # for every mapped axis: place in the virtual data set minus in the source
    taken = {axis: runs for axis, _, runs in mapped.runs}
    for axis, start in enumerate(mapped.start):
        runs = np.array(taken.get(axis, ((start, 0, 1),)), np.int64)
        ends = runs[:, 0] + runs[:, 2]
        first = np.searchsorted(ends, low[:, axis], "right")
        count = np.maximum(0, np.searchsorted(runs[:, 0], high[:, axis], "left") - first)
        if int(count.sum()) > _MOST_BLOCKS:
            raise LeftOutError(f"a virtual data set of more than {_MOST_BLOCKS:,} pieces")
        keep = np.repeat(np.arange(len(low)), count)
        run = np.repeat(first, count) + np.arange(len(keep)) - np.repeat(np.cumsum(count) - count, count)
        low, high, row, shift = low[keep], high[keep], row[keep], shift[keep]
        low[:, axis] = np.maximum(low[:, axis], runs[run, 0])
        high[:, axis] = np.minimum(high[:, axis], ends[run])
        if axis in taken:
            shift = np.concatenate([shift, (runs[run, 1] - runs[run, 0])[:, None]], axis=1)
    box_starts = blocks.box_starts[row] + low - blocks.origins[row]
    pitch, box_starts = _other_axes(blocks.pitch, box_starts, [(a, b) for a, b, _ in mapped.runs], ndim)
    origins = np.tile(np.array(mapped.place, np.int64), (len(row), 1)).reshape(len(row), ndim)
    shapes = np.ones_like(origins)
    for k, (a, b, _) in enumerate(mapped.runs):
        origins[:, b] = low[:, a] + shift[:, k]
        shapes[:, b] = (high - low)[:, a]
    offsets = blocks.offsets[row]
    if not whole:
        steps = np.array([math.prod(pitch[k + 1 :]) for k in range(ndim)], np.int64)
        offsets = offsets + (box_starts * steps).sum(axis=1) * itemsize
        box_starts = np.zeros_like(box_starts)
    return Blocks(origins, shapes, box_starts, blocks.files[row], offsets, blocks.sizes[row], blocks.masks[row], pitch)


def _other_axes(
    pitch: tuple[int, ...], box_starts: np.ndarray, pairs: Sequence[tuple[int, int]], ndim: int
) -> tuple[tuple[int, ...], np.ndarray]:
    """Describe stored blocks with other axes.

    An axis along which only one element is taken stays if there is room for it. Otherwise it becomes
    part of the next faster one.

    Args:
        pairs: (axis, new axis), slowest first; along all other axes only one element is taken.

    Returns: (shape of the blocks, first elements of the pieces in them).
    """
    made = [1] * ndim
    into = np.zeros((len(box_starts), ndim), np.int64)
    room = 0  # the slowest new axis that is still free
    fold, along = 1, np.zeros(len(box_starts), np.int64)
    to = dict(pairs)
    for axis, length in enumerate(pitch):
        fold, along = fold * length, along * length + box_starts[:, axis]
        place = to.get(axis)
        if place is None:
            following = next((b for a, b in pairs if a > axis), ndim)
            if fold == 1 or room >= following:
                continue
            place = following - 1 if following < ndim else room
        made[place], into[:, place] = fold, along
        room, fold, along = place + 1, 1, np.zeros(len(box_starts), np.int64)
    if fold > 1:
        raise LeftOutError("a virtual data set without the fastest axis of its sources")
    return tuple(made), into
