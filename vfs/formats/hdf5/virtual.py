"""Finds the parts of stored blocks that a virtual HDF5 data set takes of its sources."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from vfs.formats.hdf5.pieces import MAX_BLOCKS, Blocks
from vfs.h5.facts import LeftOutError, Mapped


def placed(blocks: Blocks, mapped: Mapped, itemsize: int, whole: bool, ndim: int) -> Blocks:
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
        if int(count.sum()) > MAX_BLOCKS:
            raise LeftOutError(f"a virtual data set of more than {MAX_BLOCKS:,} pieces")
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
