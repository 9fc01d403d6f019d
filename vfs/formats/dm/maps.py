"""Lays out 4D-STEM data of which a DM file stores a map of the scan for each detector pixel."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vfs.kernels.columns import COLUMNS, NO_LIMIT, NO_ROWS
from vfs.model.layout import FrameLayout, whole_frame
from vfs.model.region import Region


@dataclass(frozen=True, eq=False)
class MapLayout(FrameLayout):
    """Lays out frames of files that store a map of the scan for each pixel.

    A FrameLayout with a stride of one element and these strides as `pieces` would do the same. But
    here read ranges run along the scan, as the elements lie in the file (maps follow each other in C
    order of the pixels). So there is one range for each pixel and line of the scan, instead of one
    for each element.
    """

    @classmethod
    def at(cls, nav_shape: tuple[int, ...], sig_shape: tuple[int, ...], offset: int, itemsize: int) -> MapLayout:
        """Make the layout of maps that follow each other from byte `offset` of file 0 on."""
        count = math.prod(nav_shape)
        steps = [count * math.prod(sig_shape[k + 1 :]) for k in range(len(sig_shape))]
        stream = np.array([[0, count * math.prod(sig_shape) * itemsize, offset, 0]], np.int64)
        return cls(nav_shape, sig_shape, stream, itemsize, 0, count, itemsize, 1, whole_frame(sig_shape, steps))

    def read_ranges(self, region: Region, most: int = NO_LIMIT) -> tuple[np.ndarray, int]:
        k = len(self.shape) - len(self.sig_shape)
        scan, frame = (
            Region(region.start[part], region.stop[part], region.step[part]) for part in (slice(k), slice(k, None))
        )
        pixels = frame.flat(self.sig_shape)
        place = self.locate(scan.flat(self.shape[:k]))[:, 1]
        shown = np.flatnonzero(place >= 0)
        if not len(shown) or not len(pixels):
            return NO_ROWS, 0
        begins = np.concatenate(
            [[0], np.flatnonzero((np.diff(place[shown]) != self.word_bytes) | (np.diff(shown) != 1)) + 1]
        )
        if len(begins) * len(pixels) > most:
            return NO_ROWS, -1
        counts = np.diff(np.append(begins, len(shown)))
        begins = shown[begins]
        order = np.argsort(place[begins], kind="stable")  # in file order, as all plans are
        begins, counts = begins[order], counts[order]
        rows = np.zeros((len(pixels), len(begins), COLUMNS), np.int64)
        rows[..., 0] = self.stream[0, 3]
        rows[..., 1] = place[begins] + pixels[:, None] * self.stored * self.word_bytes
        rows[..., 2] = rows[..., 1] + counts * self.word_bytes
        rows[..., 3] = begins * len(pixels) + np.arange(len(pixels))[:, None]
        rows[..., 4] = np.where(counts == 1, 1, len(pixels))
        rows[..., 6] = counts
        return rows.reshape(-1, COLUMNS), len(shown) * len(pixels)
