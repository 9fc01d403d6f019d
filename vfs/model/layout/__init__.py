"""Layouts say where the elements of an array lie in files, and which of them lie nowhere.

Two layouts carry every format. A `FrameLayout` has equal frames one after the other, with headers and footers between
them, over any number of files; a frame may be made of mirrored or interleaved pieces. A `BlockLayout` has blocks of any
shape at any place of the array and of the files, in no grid. Both do what `Layout` asks for. What no file holds is
blank and reads as the fill value.

Layouts are values: whoever wants another scan shape, an offset or a selection of frames gets a new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from vfs.model.layout.blocks import BlockLayout
from vfs.model.layout.frames import FrameLayout, altered, mirrored, whole_frame
from vfs.model.region import Region

__all__ = ["BlockLayout", "FrameLayout", "Layout", "altered", "mirrored", "whole_frame"]


class Layout(Protocol):
    """Where the elements of an array lie in files.

    A layout does not know which axes of the array are navigation axes: `nav_ndim` says how many of them, the first
    ones, are.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""

    @property
    def whole(self) -> bool:
        """True where the array is stored in blocks that decode only as a whole."""

    @property
    def stride(self) -> int:
        """Bytes from the beginning of a frame to that of the next one, 0 where the array is not stored in frames."""

    def read_ranges(self, region: Region, most: int = ...) -> tuple[np.ndarray, int]:
        """Find the bytes that hold a region.

        Args:
            most: ranges at most.

        Returns:
            (int64[n, 11] read ranges, see `vfs.kernels.ranges`; number of elements they cover, or
            -1 and no ranges where there would be more than `most`).
        """

    def arranged(
        self, nav_shape: Sequence[int], sync_offset: int = 0, chosen: np.ndarray | None = None, nav_ndim: int = 1
    ) -> Layout:
        """Show the same frames as another scan.

        Args:
            nav_shape: shape of the scan.
            sync_offset: frames to skip at the start; negative: so many blank frames first.
            chosen: int64[m] flat scan positions that are shown, along one axis; None: all, in the scan's shape.
            nav_ndim: number of navigation axes so far.

        Raises:
            OptionError: a block spans several scan positions.
        """

    def stored_frames(self, nav_ndim: int) -> int:
        """Count the frames that are there to be shown, from the first scan position on."""

    def valid(self, nav_ndim: int) -> np.ndarray:
        """Find the scan positions for which anything is stored.

        Returns: bool, in the shape of the navigation axes.
        """

    def blank(self, region: Region, nav_ndim: int) -> np.ndarray:
        """Find the elements of a region for which nothing is stored.

        Returns: bool, in the shape of the region, or one that broadcasts to it where whole frames are blank.
        """

    def blanks(self, nav_ndim: int) -> int:
        """Count the frames that are not stored, without memory for each; 0 where the array is not stored in frames."""
