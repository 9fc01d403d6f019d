"""Layouts say where the elements of an array lie in files, and which elements no file holds.

All formats use one of two layouts. A `FrameLayout` has equal frames one after the other, with
headers and footers between them, over any number of files; a frame may be made of mirrored or
interleaved pieces. A `BlockLayout` has blocks of any shape at any place of the array and of the
files, in no grid. Elements that no file holds are blank: they read as the fill value. Blocks that a
function makes are a `GridLayout`. All implement `Layout`.

Layouts are values: another scan shape, an offset or a selection of frames (a `Scan`) is a new layout.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from vfs.model.layout.blocks import BlockLayout, BlockTable
from vfs.model.layout.frame_record import FrameRecord, mirrored, permuted, whole_frame
from vfs.model.layout.frames import FrameLayout, altered
from vfs.model.layout.grid import GridLayout
from vfs.model.layout.scan import Scan
from vfs.model.layout.scan_order import ScanOrder
from vfs.model.region import Region

__all__ = [
    "BlockLayout",
    "BlockTable",
    "FrameLayout",
    "FrameRecord",
    "GridLayout",
    "Layout",
    "Scan",
    "ScanOrder",
    "altered",
    "mirrored",
    "permuted",
    "whole_frame",
]


class Layout(Protocol):
    """Says where the elements of an array lie in files.

    A layout does not know which axes of the array are navigation axes. So callers pass `nav_ndim`:
    the first so many axes are navigation axes.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""

    @property
    def whole(self) -> bool:
        """True if the array is stored in blocks that decode only as a whole."""

    @property
    def frames(self) -> FrameLayout | None:
        """This layout where the array is stored in equal frames; None where it is not."""

    @property
    def blocks(self) -> BlockLayout | None:
        """This layout where the array is stored in blocks; None where it is not."""

    @property
    def stride(self) -> int:
        """Bytes from the beginning of a frame to that of the next one; 0 if the array is not stored in frames."""

    def read_ranges(self, region: Region, most: int = ...) -> tuple[np.ndarray, int]:
        """Find the bytes that hold a region.

        Args:
            most: most ranges that the caller wants.

        Returns:
            (int64[n, 11] read ranges, see `vfs.kernels.columns`; number of elements that they cover).
            If there would be more than `most` ranges: (no ranges, -1).
        """

    @property
    def order(self) -> ScanOrder | None:
        """Says which stored frame each scan position shows; None where they follow one another."""

    def arranged(self, scan: Scan, nav_ndim: int = 1) -> Layout:
        """Show the same frames as another scan.

        Args:
            scan: one that fits; its positions are flat.
            nav_ndim: number of navigation axes so far.

        Raises:
            OptionError: a block spans several scan positions.
        """

    def stored_frames(self, nav_ndim: int) -> int:
        """Count the stored frames, from the one that the first scan position shows."""

    def last_frame(self, region: Region, nav_ndim: int) -> int:
        """Return the highest number, in the order in which frames are recorded, of the frames that a region touches.

        A scan position of which the files do not say which frame it shows counts as one behind all others. -1 for an
        empty region.
        """

    def frame_numbers(self, positions: np.ndarray | None, nav_ndim: int) -> np.ndarray:
        """Return the numbers of the frames that flat scan positions show: see `last_frame`. None: all positions.

        Returns: int64[m].
        """

    def valid(self, nav_ndim: int) -> np.ndarray:
        """Find the scan positions for which any element is stored.

        Returns: bool, in the shape of the navigation axes.
        """

    def blank(self, region: Region, nav_ndim: int) -> np.ndarray:
        """Find the elements of a region that are not stored.

        Returns: bool, in the shape of the region, or in one that broadcasts to it where whole frames are blank.
        """

    def holds(self, region: Region, nav_ndim: int) -> bool:
        """Say whether any element of a region is stored."""

    def blanks(self, nav_ndim: int) -> int:
        """Count the frames that are not stored, without memory for each; 0 if the array is not stored in frames."""
