"""Turns the storage of an HDF5 data set into a layout and a decoder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from vfs.errors import FormatError, TruncatedSourceError
from vfs.formats.hdf5 import swmr
from vfs.formats.hdf5.filters import FILTERS, UNKNOWN, CompactValues
from vfs.formats.hdf5.pieces import Blocks, StoredData, empty, frames, held, merged, of_blocks, one_block, same_fill
from vfs.formats.hdf5.virtual import placed
from vfs.h5.facts import AbsentError, Data, LeftOutError, Survey
from vfs.model.decode import PlainDecoder
from vfs.model.files import Files
from vfs.model.layout import BlockLayout, BlockTable
from vfs.model.sources import Sources
from vfs.model.stored import Absence


def stored(data: Data, survey: Survey) -> StoredData:
    """Find the elements of a data set in its files.

    Raises:
        LeftOutError: the data set cannot be shown.
    """
    if data.absent:
        raise AbsentError(data.left_out, data.absent, data.outside)
    if data.left_out:
        raise LeftOutError(data.left_out)
    swmr.check(data, survey)
    dtype = np.dtype(data.dtype)
    made = {
        "virtual": _virtual,
        "chunked": _chunked,
        "compact": _compact,
        "external": _external,
        "contiguous": _contiguous,
    }[data.kind](data, dtype, survey)
    dims, lost = _names(data, survey), (*data.lost, *made.lost)
    attrs = {**data.attrs, "samples": list(data.fields)} if data.parts_each else data.attrs
    return replace(made, attrs=attrs, dims=dims, conventions=data.conventions, lost=lost)


def _names(data: Data, survey: Survey) -> tuple[str, ...]:
    """Return the names of the axes: labels, else those of dimension scales; "" for an axis without one, () for none."""
    scales = data.scales
    if data.address >= 0 and data.shape and not scales:
        scales = (data.address, *(-1,) * (len(data.shape) - 1))  # a coordinate variable of netCDF: its own name
    axes = range(len(data.shape) - (data.parts_each > 0))
    names = tuple(
        (data.labels[k] if data.labels else "") or (survey.scales.get((data.file, scales[k]), "") if scales else "")
        for k in axes
    )
    known = [name for name in names if name]
    if not known or len(set(known)) < len(known) or not (scales or all(names)):
        return ()
    return (*names, "s") if data.parts_each else names


def _contiguous(data: Data, dtype: np.dtype, survey: Survey) -> StoredData:
    """Lay out one range of a file, or nothing at all."""
    shape = data.shape
    if data.offset < 0:
        return empty(data.shape, dtype, data.fill)
    stream = np.array([[0, math.prod(shape) * dtype.itemsize, data.offset, 0]], np.int64)
    layout = frames(shape, dtype.itemsize, stream, max(0, len(shape) - 2))
    blocks = one_block(shape, dtype, data.offset)
    return StoredData(shape, dtype, (data.file,), data.fill, layout, PlainDecoder(dtype), blocks)


def _external(data: Data, dtype: np.dtype, survey: Survey) -> StoredData:
    """Lay out a run of bytes in raw files, one after the other."""
    whole = math.prod(data.shape) * dtype.itemsize
    files = tuple(dict.fromkeys(path for path, _, _ in data.parts if path))
    rows = []
    done = 0
    for path, at, size in data.parts:
        take = whole - done if size < 0 else min(size, whole - done)
        if take % dtype.itemsize:
            raise LeftOutError("a raw file beside it ends in the middle of an element")
        if path:
            rows.append((done, done + take, at, files.index(path)))
        done += take
    if done < whole:
        raise LeftOutError(f"the raw files beside it have room for {done:,} bytes of {whole:,}")
    stream, absent = _without_cut(
        survey.origin, np.array(rows, np.int64).reshape(-1, 4), files, math.prod(data.shape[-2:]), data, dtype
    )
    layout = frames(data.shape, dtype.itemsize, stream, max(0, len(data.shape) - 2))
    blocks = one_block(data.shape, dtype, rows[0][2]) if len(data.parts) == 1 else None
    return StoredData(data.shape, dtype, files, data.fill, layout, PlainDecoder(dtype), blocks, absent=absent)


def _without_cut(
    sources: Sources, stream: np.ndarray, files: tuple[str, ...], frame: int, data: Data, dtype: np.dtype
) -> tuple[np.ndarray, tuple[Absence, ...]]:
    """Take the frames out of a stream that raw files, because they were cut, do not hold as a whole.

    If nothing is left, the stream stays as it is: reading it is an error.

    Args:
        stream: int64[parts, 4], see `FrameLayout`.
        frame: elements of a frame.

    Returns: (the stream without them, words for them).
    """
    first, last, at, file = stream.T
    sizes = Files.stat(sources, files).sizes[file] if len(files) else file
    held = first + np.clip(sizes - at, 0, last - first)
    cut = np.flatnonzero(held < last)
    nbytes = frame * dtype.itemsize
    gone = np.zeros(math.prod(data.shape) // max(1, frame), bool)
    for k in cut.tolist():
        gone[held[k] // nbytes : -(-last[k] // nbytes)] = True
    if not len(cut) or gone.all():
        return stream, ()
    k = int(cut[0])
    found = f"expected {int(at[k] + last[k] - first[k]):,} bytes, the file has {int(sizes[k]):,}; it looks truncated"
    counts = {"frames_missing": int(gone.sum())}
    allowed = "shows the frames that are cut off as blank"
    absent = Absence(f"{files[file[k]]}: {found}", TruncatedSourceError, allowed, counts)
    return _within(stream, np.flatnonzero(np.diff(gone, prepend=True, append=True)).reshape(-1, 2) * nbytes), (absent,)


def _within(stream: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Return the parts of a stream that lie between bytes of it: int64[n, 2], first and behind the last."""
    first, last, at, file = (column[:, None] for column in stream.T)
    low, high = np.maximum(first, kept[:, 0]), np.minimum(last, kept[:, 1])
    rows: np.ndarray = np.stack([low, high, at + low - first, np.broadcast_to(file, low.shape)], axis=-1)
    return rows[low < high]  # type: ignore[no-any-return]


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
        shape, BlockTable(np.zeros((count, nd)), np.array([shape] * count).reshape(count, nd), zero, zero, zero)
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
    return of_blocks(shape, dtype, filters, data.chunk, blocks, (data.file,), data.fill)


def _whole_shape(data: Data, survey: Survey) -> tuple[int, ...]:
    """Return the elements per axis, with those that were not written yet.

    An unlimited dimension of netCDF is as long as in the longest variable that has it. In shorter ones
    the rest reads as the fill value.
    """
    scales = data.scales or (-1,) * len(data.shape)
    return tuple(max(n, survey.lengths.get((data.file, scale), n)) for scale, n in zip(scales, data.shape, strict=True))


def _virtual(data: Data, dtype: np.dtype, survey: Survey) -> StoredData:
    """Lay out boxes of other data sets. Places that no box fills read as the fill value."""
    known: dict[int, StoredData] = {}
    places = []
    for mapped in data.mapped:
        if mapped.source not in known:
            known[mapped.source] = _source(survey.sources[mapped.source], survey, data, dtype)
        part = known[mapped.source]
        if part.blocks is not None:
            places.append((part, placed(part.blocks, mapped, part.dtype.itemsize, bool(part.filters), len(data.shape))))
    places = [(part, blocks) for part, blocks in places if len(blocks.files)]
    if not places:
        return empty(data.shape, dtype, data.fill)
    lost = tuple(chain.from_iterable(part.lost for part in known.values()))
    made = replace(merged(data.shape, places, data.fill), lost=lost)
    assert made.blocks is not None
    if len(places) > 1:
        zero = np.zeros(len(made.blocks.files), np.int64)
        try:
            BlockLayout.of(data.shape, BlockTable(made.blocks.origins, made.blocks.shapes, zero, zero)).check_apart()
        except FormatError:
            raise LeftOutError("a virtual data set whose sources overlap") from None
    stream = _stream(made, places)
    if stream is not None:
        return replace(made, layout=frames(data.shape, dtype.itemsize, stream, max(0, len(data.shape) - 2)))
    return replace(
        made, chunk=tuple(min(c, n) for c, n in zip(made.blocks.pitch, data.shape, strict=True)) if made.chunk else ()
    )


def _stream(made: StoredData, places: Sequence[tuple[StoredData, Blocks]]) -> np.ndarray | None:
    """Return the stream of a virtual data set whose boxes are whole runs of sources in C order; None of any other.

    Frames in a stream fit any scan shape.

    Returns: int64[boxes, 4], see `FrameLayout`.
    """
    if any(part.layout.frames is None for part, _ in places) or not made.shape:
        return None
    rows = []
    files = {path: n for n, path in enumerate(made.files)}
    for part, blocks in places:
        below = np.array([math.prod(made.shape[k + 1 :]) for k in range(len(made.shape))])
        inside = np.array([math.prod(blocks.pitch[k + 1 :]) for k in range(len(made.shape))])
        length = blocks.shapes.prod(axis=1)
        # A run: behind the first axis along which there are several elements, all are taken
        spans = (np.where(blocks.shapes > 1, blocks.shapes * steps, 1).max(axis=1) for steps in (below, inside))
        if any((span != length).any() for span in spans):
            return None
        first = (blocks.origins * below).sum(axis=1) * part.dtype.itemsize
        start = blocks.offsets + (blocks.box_starts * inside).sum(axis=1) * part.dtype.itemsize
        number = np.array([files[path] for path in part.files], np.int64)[blocks.files]
        rows.append(np.stack([first, first + length * part.dtype.itemsize, start, number], axis=1))
    stream = np.concatenate(rows)
    return stream[np.argsort(stream[:, 0])]


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
    if held(part) < math.prod(data.shape) and not same_fill(part, of.fill):
        raise LeftOutError(
            f"a virtual data set with another fill value ({of.fill}) than its source ({part.fill}), of which parts were"
            " never written"
        )
    return part
