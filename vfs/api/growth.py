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
from vfs.sets.following import Following


class GrowthOf:
    """Tells how an array of a set grows: a `vfs.reduce.growing.Growth`, and what `tiles` waits for.

    Args:
        following: follows the set.
        path: path of the array.
    """

    def __init__(self, following: Following, path: str) -> None:
        self._following, self._path = following, path

    def state(self) -> State:
        """Return the array as it is now.

        Raises:
            SourceChangedError: a file of the set was begun anew, or is gone.
        """
        following = self._following
        array = following.now().arrays[self._path]
        return State(array, following.complete or following.ended)

    def pause(self) -> None:
        """Wait until there may be more."""
        time.sleep(PAUSE)

    def tiles(
        self, cut: Callable[[ArrayReader], ChunkGrid], workers: int | None
    ) -> Iterator[tuple[Region, np.ndarray]]:
        """Read tiles in their order, each as soon as its frames are there.

        Args:
            cut: returns how an array is cut into tiles.
            workers: threads that read, see `VirtualArray.tiles`.

        Raises: what `state` raises; SourceError: see `VirtualArray.read`.
        """
        threads, done = threads_asked(workers), 0
        while True:
            array, ended = self.state()
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
            self.pause()


def _is_there(array: ArrayReader, grid: ChunkGrid, ended: bool, region: Region) -> bool:
    """Return True if a tile can be read and stays as it is."""
    dataset = array.dataset
    if ended or dataset.written.head is None:
        return True
    return dataset.to_come(region) is None and (dataset.written.declared is not None or region.shape == grid.chunks)
