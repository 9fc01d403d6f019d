"""Tells passes and streams of tiles how an array of a set grows that is still being written."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice, takewhile

import numpy as np

from vfs.engine.array import ArrayReader, ahead, threads_asked
from vfs.errors import NotYetError
from vfs.model.region import ChunkGrid, Region
from vfs.reduce.growing import PAUSE, State
from vfs.sets.live_set import LiveSet


def state_of(live: LiveSet, path: str) -> State:
    """Return an array of a set as it is now.

    Raises:
        SourceChangedError: a file of the set was begun anew, or is gone.
    """
    return State(live.now().arrays[path], live.complete or live.ended)


def tiles(
    live: LiveSet, path: str, cut: Callable[[ArrayReader], ChunkGrid], workers: int | None
) -> Iterator[tuple[Region, np.ndarray]]:
    """Read tiles of an array in their order, each as soon as its frames are there.

    Args:
        cut: returns how an array is cut into tiles.
        workers: threads that read, see `VirtualArray.tiles`.

    Raises: what `state_of` raises; SourceError: see `VirtualArray.read`.
    """
    threads, done = threads_asked(workers), 0
    while True:
        array, ended = state_of(live, path)
        grid = cut(array)
        regions = islice(map(grid.region, grid.touched(Region.whole(array.shape))), done, None)
        ready = takewhile(partial(_is_there, array, grid, ended), regions)
        try:
            for region, tile in ahead(ready, array.read, threads):
                done += 1
                yield region, tile
        except NotYetError:  # a frame of zeros, of which nothing tells yet if somebody wrote them
            ended = False
        if ended:
            return
        time.sleep(PAUSE)


def _is_there(array: ArrayReader, grid: ChunkGrid, ended: bool, region: Region) -> bool:
    """Return True if a tile can be read and stays as it is."""
    dataset = array.dataset
    if ended or dataset.written.head is None:
        return True
    return dataset.to_come(region) is None and (dataset.written.declared is not None or region.shape == grid.chunks)
