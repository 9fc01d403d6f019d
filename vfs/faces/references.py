"""Finds the bytes of files that are chunks of zarr as they are: references for readers that have no vfs.

A chunk can be referred to if its elements are one run of bytes in one file, in C order, and codecs of zarr decode
them. `references` chooses chunks for which that holds, or says why it holds for none. Places are computed by numpy, for
many chunks at once (`References.tables`); no source is touched.

Zarr stores chunks at the edges of an array whole. Files mostly do not, so the chunks that are chosen here divide the
array; only blocks that a file stores whole, such as tiles and chunks of HDF5, may reach beyond it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from vfs.engine.array import ArrayReader
from vfs.engine.chunking import LIMIT, TARGET
from vfs.engine.computed import ComputedBlocks
from vfs.errors import NotReferenceableError, TruncatedSourceError
from vfs.model.decode import Encoding
from vfs.model.encoding import encoding_of
from vfs.model.layout import BlockLayout, FrameLayout, whole_frame
from vfs.model.wording import option, option_names

AT_ONCE = 1 << 16
"""Chunks that are located at once: 5 MiB of tables."""

LOOKED_AT = 1_000_000
"""Chunks that `referenceable` locates, at most: half a second."""


class ChunkTable(NamedTuple):
    """The places of chunks that follow one another in C order.

    Attributes:
        file: int64[n], index of each chunk's file; -1 where no file holds anything of it.
        offset, nbytes: int64[n], first byte there, and number of bytes.
    """

    file: np.ndarray
    offset: np.ndarray
    nbytes: np.ndarray


@dataclass(frozen=True)
class References:
    """The places of all chunks of an array.

    Attributes:
        array: the array.
        chunks: elements per axis of a chunk.
        encoding: how the bytes of a chunk became so.
        blank: number of chunks of which no file holds anything.
    """

    array: ArrayReader
    chunks: tuple[int, ...]
    encoding: Encoding
    blank: int
    _located: Callable[[int, int], ChunkTable]

    @property
    def counts(self) -> tuple[int, ...]:
        """Chunks along each axis."""
        return tuple(-(-n // c) for n, c in zip(self.array.shape, self.chunks, strict=True))

    @property
    def count(self) -> int:
        """Number of chunks."""
        return math.prod(self.counts)

    def tables(self, most: int = AT_ONCE) -> Iterator[ChunkTable]:
        """Return the places of all chunks in C order, of at most `most` chunks at a time."""
        return _tables(self._located, self.count, most)


def references(array: ArrayReader, *, chosen: bool = False, blank: bool = False, most: int | None = None) -> References:
    """Find the bytes of the chunks of an array.

    Args:
        chosen: True to take the chunks of the array, which somebody asked for. Otherwise they are the blocks of the
            file, or frames: parts of frames of more than 8 MiB, several where these follow one another in the file, up
            to 2 MiB.
        blank: True if chunks of which no file holds anything may go without reference, so that readers show the fill
            value there.

    Raises:
        NotReferenceableError: some chunk is not one run of bytes that zarr decodes. The message says why.
        TruncatedSourceError: a file ends before a chunk does.
    """
    _check_unchanged(array)
    layout = array.dataset.layout
    if layout.frames is not None:
        return _of_frames(array, layout.frames, chosen, blank, most)
    if layout.blocks is not None:
        return _checked(_of_blocks(array, layout.blocks, chosen), blank, most)
    raise NotReferenceableError("it is in no file")


def referenceable(array: ArrayReader, chosen: bool = False) -> tuple[bool, str]:
    """Say whether an array can be referred to.

    Args:
        chosen: see `references`.

    Returns: (True, which chunks that takes) or (False, why it cannot be done).
    """
    try:
        found = references(array, chosen=chosen, blank=True, most=LOOKED_AT)
    except (NotReferenceableError, TruncatedSourceError) as error:
        return False, str(error)
    blank = f", {found.blank:,} of them blank" if found.blank else ""
    looked = f"; the first {LOOKED_AT:,} were looked at" if found.count > LOOKED_AT else ""
    return True, f"{found.count:,} chunk{'s' * (found.count != 1)} of {_by(found.chunks)}{blank}{looked}"


def _check_unchanged(array: ArrayReader) -> None:
    """Check that elements are shown as they are stored.

    Raises:
        NotReferenceableError: they are computed, converted or corrected.
    """
    dataset = array.dataset
    if isinstance(dataset.decoder, ComputedBlocks) or dataset.computed:
        raise NotReferenceableError("it is computed when it is read")
    if not dataset.files.sources.as_stored:
        raise NotReferenceableError("its file is packed as a whole")
    if array.corrections is not None:
        raise NotReferenceableError(f"its frames are corrected when they are read ({option_names('dark', 'gain')} …)")
    if array.dtype != dataset.dtype:
        raise NotReferenceableError(f"its elements are converted when they are read ({option(dtype=array.dtype.name)})")


def _tables(located: Callable[[int, int], ChunkTable], count: int, most: int) -> Iterator[ChunkTable]:
    for first in range(0, count, most):
        yield located(first, min(first + most, count))


def _checked(found: References, blank: bool, most: int | None) -> References:
    """Check that every chunk lies within its file, or the first `most`, and count those that lie nowhere.

    Raises:
        NotReferenceableError: there are some, and `blank` is False.
        TruncatedSourceError: a file ends too early.
    """
    files, nowhere = found.array.dataset.files, 0
    for table in _tables(found._located, found.count if most is None else min(most, found.count), AT_ONCE):
        held = table.file >= 0
        nowhere += len(held) - int(np.count_nonzero(held))
        sizes = files.sizes[table.file]
        cut = np.flatnonzero(held & (sizes >= 0) & (table.offset + table.nbytes > sizes))
        if len(cut):
            k = int(cut[0])
            raise TruncatedSourceError(
                f"{files.paths[int(table.file[k])]}: a chunk ends at byte {int(table.offset[k] + table.nbytes[k]):,},"
                f" the file has {int(sizes[k]):,}; it looks truncated"
            )
    if nowhere and not blank:
        raise NotReferenceableError(
            f"no file holds {nowhere:,} of its {found.count:,} chunks, which readers would fill in;"
            f" {option(blank=True)} allows that"
        )
    return References(found.array, found.chunks, found.encoding, nowhere, found._located)


def _of_frames(array: ArrayReader, layout: FrameLayout, chosen: bool, blank: bool, most: int | None) -> References:
    """Find the chunks of an array that is stored in frames."""
    encoding = encoding_of(array.dataset.decoder, 0, np.empty(0, np.int64))
    _check_frame(layout)
    itemsize, nav = encoding.dtype.itemsize, len(array.shape) - len(layout.sig_shape)
    if chosen:
        return _checked(_whole(array, layout, tuple(array.chunks), nav, encoding), blank, most)
    frame = (1,) * nav + _part(layout.sig_shape, itemsize)
    run = _run(array.shape, frame, nav, itemsize) if _in_a_row(layout, array.dataset.nav_ndim, itemsize) else frame
    if run != frame:
        try:
            return _checked(_whole(array, layout, run, nav, encoding), blank, most)
        except NotReferenceableError:  # a run of frames goes on elsewhere
            pass
    return _checked(_whole(array, layout, frame, nav, encoding), blank, most)


def _check_frame(layout: FrameLayout) -> None:
    """Check that the elements of a frame lie in C order.

    Raises:
        NotReferenceableError: they do not.
    """
    pieces, sig = layout.pieces, len(layout.sig_shape)
    if len(pieces) > 1:
        raise NotReferenceableError(f"each frame is put together from {len(pieces)} pieces")
    if (pieces[:, 2 * sig : 3 * sig] < 0).any():
        raise NotReferenceableError("its frames are mirrored")
    if not np.array_equal(pieces, whole_frame(layout.sig_shape)):
        raise NotReferenceableError("the elements of a frame do not lie one after the other in the file")


def _part(sig_shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Return the shape of a frame, or of equal parts of at most 8 MiB that it is cut into along its slow axes."""
    part = list(sig_shape)
    for axis, length in enumerate(part):
        rest = math.prod(part[axis + 1 :]) * itemsize
        if not rest or length * rest <= LIMIT:
            break
        part[axis] = _divisor(length, max(1, LIMIT // rest))
    return tuple(max(1, n) for n in part)


def _divisor(length: int, most: int) -> int:
    """Return the largest number that divides `length` and is at most `most`."""
    return next(n for n in range(min(length, most), 0, -1) if length % n == 0)


def _in_a_row(layout: FrameLayout, nav_ndim: int, itemsize: int) -> bool:
    """Return True if all frames are stored and follow one another, apart from the borders of files."""
    if not layout.in_order or layout.stride != math.prod(layout.sig_shape) * itemsize:
        return False
    return not layout.blanks(nav_ndim)


def _run(shape: Sequence[int], frame: tuple[int, ...], nav: int, itemsize: int) -> tuple[int, ...]:
    """Return the shape of as many whole frames as divide the scan and have at most 2 MiB; one frame if it is cut."""
    if frame[nav:] != tuple(max(1, n) for n in shape[nav:]):
        return frame
    run = list(frame)
    for axis in range(nav - 1, -1, -1):
        run[axis] = _divisor(max(1, shape[axis]), max(1, TARGET // (math.prod(run) * itemsize)))
        if run[axis] < shape[axis]:
            break
    return tuple(run)


def _whole(
    array: ArrayReader, layout: FrameLayout, chunks: tuple[int, ...], nav: int, encoding: Encoding
) -> References:
    """Return references to chunks that are parts of a frame, or runs of frames.

    Raises:
        NotReferenceableError: a chunk is no single run of bytes.
    """
    shape, itemsize = array.shape, encoding.dtype.itemsize
    _check_run(array, layout, chunks, nav, itemsize)
    counts = tuple(-(-n // c) for n, c in zip(shape, chunks, strict=True))
    nbytes = math.prod(chunks) * itemsize
    steps = np.array([math.prod(shape[k + 1 :]) for k in range(nav, len(shape))], np.int64) * itemsize
    scan = [math.prod(shape[k + 1 : nav]) for k in range(nav)]

    def located(first: int, stop: int) -> ChunkTable:
        at = np.unravel_index(np.arange(first, stop), counts) if counts else ()
        frames, inside = np.zeros(stop - first, np.int64), np.zeros(stop - first, np.int64)
        for k in range(nav):
            frames += at[k] * (chunks[k] * scan[k])
        for k in range(nav, len(shape)):
            inside += at[k] * (chunks[k] * int(steps[k - nav]))
        file, offset, left = layout.locate(frames).T
        cut = (file >= 0) & (left - inside < nbytes)
        if cut.any():
            raise NotReferenceableError(
                f"{int(np.count_nonzero(cut)):,} of its chunks begin in one file and end in another, or are not whole"
            )
        return ChunkTable(file, np.where(file >= 0, offset + inside, 0), np.where(file >= 0, nbytes, 0))

    return References(array, chunks, encoding, 0, located)


def _check_run(array: ArrayReader, layout: FrameLayout, chunks: tuple[int, ...], nav: int, itemsize: int) -> None:
    """Check that each chunk is a run of elements of the array in C order, and a whole one.

    Raises:
        NotReferenceableError: it is not.
    """
    shape = array.shape
    long = [k for k, c in enumerate(chunks) if c > 1]
    if long and any(chunks[k] < shape[k] for k in range(long[0] + 1, len(shape))):
        raise NotReferenceableError(
            f"chunks of {_by(chunks)} are no runs of bytes; {option(chunks='frames')} takes whole frames"
        )
    if any(n % c for n, c in zip(shape, chunks, strict=True)):
        raise NotReferenceableError(
            f"chunks of {_by(chunks)} do not divide the array of {_by(shape)}, and zarr stores those at its edges whole"
        )
    if math.prod(chunks[:nav]) > 1 and not _in_a_row(layout, array.dataset.nav_ndim, itemsize):
        raise NotReferenceableError(
            f"frames do not follow one another in the file without gaps; {option(chunks='frames')} refers to each alone"
        )


def _of_blocks(array: ArrayReader, layout: BlockLayout, chosen: bool) -> References:
    """Find the chunks of an array that is stored in blocks."""
    nd, n = len(layout.shape), int(layout.levels[1])
    low, high = layout.tree[:n, :nd], layout.tree[:n, nd:]
    chunks = tuple(layout.pitch) or tuple((high - low).max(axis=0, initial=1).tolist())
    if chosen and chunks != array.chunks:
        raise NotReferenceableError(f"its blocks have {_by(chunks)} elements, and no other chunks are in the file")
    _check_grid(layout, low, high, chunks)
    decoded = math.prod(chunks) * array.dataset.dtype.itemsize
    encoding = encoding_of(array.dataset.decoder, decoded, layout.place[:, 3])
    counts = tuple(-(-n // c) for n, c in zip(layout.shape, chunks, strict=True))
    at = np.zeros(n, np.int64)
    for k in range(nd):
        at = at * counts[k] + low[:, k] // chunks[k]
    rows = np.full(math.prod(counts), -1, np.int64)
    rows[at] = np.arange(n)
    if n != np.count_nonzero(rows >= 0):
        raise NotReferenceableError("some of its blocks overlap")

    def located(first: int, stop: int) -> ChunkTable:
        which = rows[first:stop]
        if not n:
            return ChunkTable(which, np.zeros_like(which), np.zeros_like(which))
        file, offset, stored, _ = layout.place[which].T
        nbytes = stored if layout.whole else np.full_like(stored, decoded)
        there = which >= 0
        return ChunkTable(np.where(there, file, -1), np.where(there, offset, 0), np.where(there, nbytes, 0))

    return References(array, chunks, encoding, 0, located)


def _check_grid(layout: BlockLayout, low: np.ndarray, high: np.ndarray, chunks: tuple[int, ...]) -> None:
    """Check that blocks are the cells of a grid, each stored whole.

    Args:
        low, high: int64[n, ndim], the boxes of the blocks.

    Raises:
        NotReferenceableError: they are not.
    """
    cell = np.array(chunks, np.int64)
    if (layout.box_starts is not None and layout.box_starts.any()) or (low % cell).any():
        raise NotReferenceableError("its blocks form no regular grid")
    ends = np.minimum(low + cell, np.array(layout.shape, np.int64))
    if (high != ends).any():
        raise NotReferenceableError("its blocks differ in shape")
    if not layout.pitch and (high - low != cell).any():
        raise NotReferenceableError("its last blocks are shorter than the others, and zarr stores all chunks whole")


def _by(numbers: Sequence[int]) -> str:
    return " x ".join(map(str, numbers)) or "1"
