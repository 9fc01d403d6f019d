"""Finds the chunks of an HDF5 data set, with h5py."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np

from vfs.h5.facts import LeftOutError
from vfs.helper.budget import Budget

ROWS_SECONDS = 0.05  # of processor time more for every ROWS rows of a table of chunks; they take 0.005
ROWS = 4096

MAX_CHUNK = 1 << 32  # bytes: HDF5's own limit
_UNFILTERED_EDGES = 2  # H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS


def chunked(plan: Any, dtype: np.dtype) -> dict[str, Any]:
    """Return the facts `kind`, `chunk`, `filters` and `early`.

    Args:
        plan: creation properties of the data set.

    Raises:
        LeftOutError: chunks larger than HDF5 allows.
    """
    chunk = tuple(int(n) for n in plan.get_chunk())
    if math.prod(chunk) * dtype.itemsize > MAX_CHUNK or any(n < 1 for n in chunk):
        raise LeftOutError(f"chunks of {chunk}")
    filters = []
    for k in range(plan.get_nfilters()):
        number, _, values, name = plan.get_filter(k)
        filters.append((int(number), [int(v) for v in values], name.decode("latin1")))
    early = plan.get_alloc_time() == h5py.h5d.ALLOC_TIME_EARLY
    return {"kind": "chunked", "chunk": chunk, "filters": filters, "early": early}


def table(item: Any, plan: Any, dtype: np.dtype, size: int, budget: Budget) -> np.ndarray:
    """Return the fact `table`: int64[chunks, ndim + 3].

    Args:
        size: bytes of the file. A damaged index may name a chunk again and again, so no more chunks
            are read than the file has room for.

    Raises:
        ValueError: an entry of the index cannot be a chunk.
        LeftOutError: this h5py cannot tell if chunks at the edges are filtered.
    """
    shape, chunk = np.array(item.shape, np.int64), np.array(plan.get_chunk(), np.int64)
    grid = -(-shape // chunk)
    chunk_bytes = math.prod(chunk.tolist()) * dtype.itemsize
    found = _rows(item, min(math.prod(grid.tolist()), size // min(8, chunk_bytes)), budget)
    nd = len(shape)
    cells = found[:, :nd] // chunk
    off_grid = (cells * chunk != found[:, :nd]).any(axis=1)
    cells = _true_cells(item, cells, chunk)
    wrong = np.flatnonzero(off_grid | (cells < 0).any(axis=1) | (cells >= grid).any(axis=1))
    if len(wrong):
        at = found[wrong[0], :nd].tolist()
        raise ValueError(
            f"data set {item.name}: its index names a chunk at {at}; its shape is {shape.tolist()}, in chunks of"
            f" {chunk.tolist()}"
        )
    found[:, :nd] = cells * chunk
    if plan.get_nfilters():
        edge = np.flatnonzero(((cells + 1) * chunk > shape).any(axis=1))
        _mark_edges(found, edge, plan, chunk_bytes)
    return found


def _rows(item: Any, most: int, budget: Budget) -> np.ndarray:
    """Return the entries of libhdf5's index of chunks."""
    nd = len(item.shape)
    rows: list[tuple[int, ...]] = []
    blocks: list[np.ndarray] = []
    count = 0

    def flush() -> None:
        nonlocal count
        count += len(rows)
        if count > most:
            raise ValueError(f"data set {item.name}: its index of chunks has more entries than it can have")
        blocks.append(np.array(rows, np.int64).reshape(len(rows), nd + 3))
        rows.clear()
        budget.time(ROWS_SECONDS)

    def row(info: Any) -> None:
        rows.append((*info.chunk_offset, info.byte_offset, info.size, info.filter_mask))
        if len(rows) == ROWS:
            flush()

    item.id.chunk_iter(row)
    flush()
    return np.concatenate(blocks)


def _true_cells(item: Any, cells: np.ndarray, chunk: np.ndarray) -> np.ndarray:
    """Correct the places of chunks in the grid of chunks that libhdf5 reports: int64[chunks, ndim].

    If a data set has one unlimited axis, newer files number its chunks with that axis as the
    slowest one ("extensible array"). But `chunk_iter` (like `get_chunk_info`, in every version up
    to 2.0) splits the numbers as if the axes were in their order: then the axes before the
    unlimited one are 0. Older files have no such numbers. This function asks libhdf5 to read chunks
    to tell the two cases apart, since reading finds a chunk at its real place.
    """
    limits = item.maxshape
    unlimited = [axis for axis, limit in enumerate(limits) if limit is None]
    if len(unlimited) != 1 or not len(cells) or cells[:, : unlimited[0]].any():
        return cells
    slow = unlimited[0]
    counts = [0 if limit is None else -(-limit // int(n)) for limit, n in zip(limits, chunk, strict=True)]
    number = cells[:, slow]
    for axis in range(slow + 1, len(limits)):
        number = number * counts[axis] + cells[:, axis]
    made = np.empty_like(cells)
    for axis in reversed([axis for axis in range(len(limits)) if axis != slow]):
        number, made[:, axis] = np.divmod(number, max(1, counts[axis]))
    made[:, slow] = number
    if (made == cells).all():
        return cells
    moved = made[:, :slow].any(axis=1)
    if moved.any():  # to places that are empty if the reported ones are right
        return made if _exists(item, made[moved.argmax()] * chunk) else cells
    # A reported place that is empty if the reported ones are wrong
    return cells if _exists(item, cells[cells[:, slow].argmax()] * chunk) else made


def _exists(item: Any, start: np.ndarray) -> bool:
    try:
        item.id.read_direct_chunk(tuple(start.tolist()))
    except (OSError, RuntimeError, ValueError, OverflowError):
        return False
    return True


def _mark_edges(found: np.ndarray, edge: np.ndarray, plan: Any, chunk_bytes: int) -> None:
    """Mark chunks that reach beyond the shape as unfiltered, if the data set stores them so.

    Args:
        found: table, changed in place.
        edge: rows of such chunks.
    """
    if not len(edge):
        return
    if _chunk_options is None:
        if (found[edge, -2] == chunk_bytes).any():
            raise LeftOutError("its edge chunks may have gone through no filter, which this h5py cannot tell")
        return
    options = ctypes.c_uint()
    if _chunk_options(plan.id, ctypes.byref(options)) >= 0 and options.value & _UNFILTERED_EDGES:
        found[edge, -1] = (1 << plan.get_nfilters()) - 1


def _function() -> Callable[..., int] | None:
    """Return H5Pget_chunk_opts of h5py's libhdf5, which h5py does not wrap; None if it is not found."""
    try:
        function = ctypes.CDLL(h5py.h5d.__file__).H5Pget_chunk_opts
    except (OSError, AttributeError):
        return None
    function.argtypes = [ctypes.c_int64, ctypes.POINTER(ctypes.c_uint)]
    function.restype = ctypes.c_int
    return function


_chunk_options = _function()
