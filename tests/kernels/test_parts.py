"""Ranges of a part of a frame."""

from __future__ import annotations

import numpy as np
import pytest

from vfs.kernels.columns import COLUMNS, COUNT, DEST, LINES, NEXT, PITCH, PLANE, SKIP, START, STEP, STOP
from vfs.kernels.compiled import kernel
from vfs.kernels.native.parts import MAX_PARTS, cut
from vfs.model.layout import FrameLayout, FrameRecord, mirrored, whole_frame
from vfs.model.region import Region

H, W = 6, 16
CHIPS = np.array(  # as `vfs.formats.mib` has them: two are turned
    [
        [H // 2, W // 2, H // 2, W // 2, -2 * W, -1, (H // 2 - 1) * 2 * W + W // 2 - 1, 0],
        [H // 2, 0, H // 2, W // 2, -2 * W, -1, (H // 2 - 1) * 2 * W + W - 1, 0],
        [0, W // 2, H // 2, W // 2, 2 * W, 1, W, 0],
        [0, 0, H // 2, W // 2, 2 * W, 1, W + W // 2, 0],
    ]
)
PIECES = {
    "in order": whole_frame((H, W)),
    "two planes": np.concatenate([whole_frame((H, W)), [[0, 0, H, W, W, 1, H * W, 1]]]),
    "mirrored": mirrored(whole_frame((H, W)), 0),
    "turned": mirrored(mirrored(whole_frame((H, W)), 0), 1),
    "padded": whole_frame((H, W), (W + 8, 1)),
    "columns": np.array([[0, x, H, 1, 1, 1, x * H, 0] for x in range(W)]),
    "channels": whole_frame((H, W), (1, H)),
    "four chips": CHIPS,
}


@kernel
def parts_of(ranges, first, last, word_bytes, word_pixels):
    parts = np.empty((MAX_PARTS * ranges.shape[0], COLUMNS), np.int64)
    n = cut(ranges.ctypes.data, ranges.shape[0], first, last, word_bytes, word_pixels, parts.ctypes.data)
    return parts[:n]


def elements(rows: np.ndarray, size: int, pixels: int) -> list[tuple[int, int, int]]:
    """(plane, place in the output, number of the stored pixel) of all elements of ranges, in order of the first two."""
    found = []
    for row in rows.tolist():
        for line in range(max(1, row[LINES])):
            word = (row[START] + line * row[PITCH]) // size * pixels + row[SKIP]
            to = row[DEST] + line * row[NEXT]
            found += [(row[PLANE], to + k * row[STEP], word + k) for k in range(row[COUNT])]
        ends = (row[SKIP] + row[COUNT] + pixels - 1) // pixels * size + (max(1, row[LINES]) - 1) * row[PITCH]
        assert row[STOP] - row[START] == ends
    return sorted(found)


@pytest.mark.parametrize(
    ("pieces", "size", "pixels"),
    [(pieces, 2, 1) for pieces in PIECES]
    + [(pieces, 8, 4) for pieces in PIECES if pieces not in ("columns", "channels")],
)
def test_a_part_has_the_elements_that_the_frame_has_there(pieces: str, size: int, pixels: int) -> None:
    layout = FrameLayout.of(FrameRecord((H, W), size, pixels, payload=4096, pieces=PIECES[pieces]), [1])
    rows, _ = layout.read_ranges(Region.whole((1, H, W)))
    every = elements(rows, size, pixels)
    for first in range(H * W):
        for last in range(first + 1, H * W + 1):
            parts = parts_of(rows, first, last, size, pixels)
            assert (np.diff(parts[:, START]) >= 0).all()
            wanted = [(plane, to - first, pixel) for plane, to, pixel in every if first <= to < last]
            assert elements(parts, size, pixels) == wanted
