"""Makes companions of what an .nd2 says of each frame: its time, and where the stage was.

The time, in ms from the start, stands before the pixels of a frame. Positions in µm are chunks of float64, one for each
frame: `CustomData|X!`, `CustomData|Y!`, and of the drive that moved, or the first one, `CustomData|Z!` or
`CustomData|Z1!`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from vfs.formats.planes import PlaneTable, StoredPlane
from vfs.model.decode import PlainDecoder
from vfs.model.layout import FrameLayout, FrameRecord, Scan, altered
from vfs.model.stored import StoredArray

STAGE = {
    "stage_x": (b"CustomData|X!",),
    "stage_y": (b"CustomData|Y!",),
    "stage_z": (b"CustomData|Z!", b"CustomData|Z1!"),
}
"""Name of a companion -> names of chunks, of which the first that is there counts."""
_REAL = np.dtype("<f8")


def time_stamps(main: StoredArray, offsets: np.ndarray, numbers: np.ndarray) -> StoredArray:
    """Make the companion with the time of each frame.

    Args:
        main: array of the frames.
        offsets: int64[n], byte of the time of each frame that is stored; numbers: int64[n], number of each.
    """
    nav = main.nav_ndim
    table = PlaneTable(np.zeros(len(offsets), np.int64), offsets, numbers, main.files.paths[0])
    shape, dims = main.shape[:nav], main.dims[:nav]
    made = table.array("timestamp", main.files, shape, StoredPlane((), _REAL), dims, {"unit": "ms"})
    return altered(made, companion=True, coordinate=True, absent=())


def positions(main: StoredArray, places: Mapping[str, int]) -> list[StoredArray]:
    """Make the companions with the position of the stage of each frame.

    Args:
        places: name of a companion -> first byte of its numbers, one for each frame.
    """
    nav, dims = main.shape[: main.nav_ndim], main.dims[: main.nav_ndim]
    made = []
    for name, at in places.items():
        layout = FrameLayout.of(FrameRecord((), _REAL.itemsize), [math.prod(nav)], file_header=at).arranged(Scan(nav))
        about = {"attrs": {"unit": "um"}, "companion": True, "coordinate": True}
        made.append(StoredArray(name, main.files, layout, PlainDecoder(_REAL), nav, dims, len(nav), **about))  # type: ignore[arg-type]
    return made
