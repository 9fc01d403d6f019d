"""Describes blocks of one shape in a grid that have no bytes: `GridLayout`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vfs.kernels.columns import NO_LIMIT
from vfs.model.layout.blocks import BlockLayout, BlockTable
from vfs.model.layout.scan import Scan
from vfs.model.region import ChunkGrid, Region


@dataclass(frozen=True)
class GridLayout:
    """Says which blocks cover a region, where all have one shape and no bytes: a function makes them.

    Blocks are numbered in C order; those at the far edges are cut off. It needs no memory for each block,
    so that a pyramid of a million frames is as light as that of one.

    Attributes:
        shape: shape of the array.
        block: elements of a block along each axis, at least 1.
    """

    shape: tuple[int, ...]
    block: tuple[int, ...]
    whole = True
    order = frames = blocks = box_starts = None
    stride = 0

    @cached_property
    def grid(self) -> ChunkGrid:
        """The blocks as chunks."""
        return ChunkGrid(self.shape, self.block)

    def box(self, number: int) -> Region:
        """Return the box of a block."""
        return self.grid.region([int(k) for k in np.unravel_index(number, self.grid.counts)])

    def touched(
        self, region: Region
    ) -> list[tuple[Region, tuple[int, ...], tuple[int, ...], tuple[int, int, int, int]]]:
        """Find the blocks that overlap a region: see `BlockLayout.touched`."""
        grid, corner = self.grid, (0,) * len(self.shape)
        found = []
        for position in grid.touched(region):
            box, number = grid.region(position), 0
            for at, count in zip(position, grid.counts, strict=True):
                number = number * count + at
            found.append((box, box.shape, corner, (0, 0, 0, number)))
        return found

    def read_ranges(self, region: Region, most: int = NO_LIMIT) -> tuple[np.ndarray, int]:
        return self._listed(region).read_ranges(region, most)

    def arranged(self, scan: Scan, nav_ndim: int = 1) -> BlockLayout:
        return self._listed(Region.whole(self.shape)).arranged(scan, nav_ndim)

    def stored_frames(self, nav_ndim: int) -> int:
        return math.prod(self.shape[:nav_ndim])

    def last_frame(self, region: Region, nav_ndim: int) -> int:
        return region.last_position(self.shape[:nav_ndim])

    def frame_numbers(self, positions: np.ndarray | None, nav_ndim: int) -> np.ndarray:
        return np.arange(math.prod(self.shape[:nav_ndim])) if positions is None else positions

    def valid(self, nav_ndim: int) -> np.ndarray:
        return np.full(self.shape[:nav_ndim], 0 not in self.shape)

    def blank(self, region: Region, nav_ndim: int) -> np.ndarray:
        return np.zeros(region.shape, bool)

    def holds(self, region: Region, nav_ndim: int) -> bool:
        return 0 not in region.shape

    def blanks(self, nav_ndim: int) -> int:
        return 0

    def _listed(self, region: Region) -> BlockLayout:
        """List the blocks that overlap a region, one by one."""
        touched, nd = self.touched(region), len(self.shape)
        origins = np.array([box.start for box, *_ in touched], np.int64).reshape(len(touched), nd)
        shapes = np.array([shape for _, shape, *_ in touched], np.int64).reshape(len(touched), nd)
        numbers = np.array([where[3] for *_, where in touched], np.int64)
        none = np.zeros_like(numbers)
        return BlockLayout.of(self.shape, BlockTable(origins, shapes, none, none, none, numbers))
