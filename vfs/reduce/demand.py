"""Negotiates how the reductions of a pass take frames, all in the same way."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import and_
from typing import NamedTuple

from vfs.reduce.reduction import FrameType, Kernel, Reduction, Takes

SHARED = 1 << 23
"""Bytes of frames that several reductions take one after the other: they stay in the processor's cache.

Disk, centre of mass and sum in one pass, 128 MiB of MIB U16: 2 MiB 15.0 ms, 4 MiB 13.0, 8 MiB 12.2,
16 MiB 12.8; one after the other 15.4.
"""


class Demand(NamedTuple):
    """Says how frames suit the reductions that take them.

    Attributes:
        rows: first and last (half-open) step along the slowest axis of a frame that are wanted.
        takes: ways that suit all of them.
        tile_bytes, tile_frames: bytes of frames that are best taken at once, and how many frames at least.
    """

    rows: tuple[int, int]
    takes: Takes
    tile_bytes: int
    tile_frames: int

    @classmethod
    def of(cls, reductions: Iterable[Reduction], frames: FrameType) -> Demand:
        """Find what suits several reductions, at least one.

        Args:
            reductions: bound to these frames.
        """
        every = list(reductions)
        seen = [one.rows(frames) if isinstance(one, Kernel) else (0, frames.steps) for one in every]
        sizes = [one.tile_bytes for one in every]
        return cls(
            (min(first for first, _ in seen), max(last for _, last in seen)),
            reduce(and_, (one.takes for one in every)),
            max(1, sizes[0] if len(sizes) == 1 else min(SHARED, *sizes)),
            max(one.tile_frames for one in every),
        )
