"""Makes companions of what the sub-blocks of a CZI file say: when a plane was taken, and where the stage and the focus
were.

The metadata of a sub-block are XML with `AcquisitionTime`, `StageXPosition`, `StageYPosition` and `FocusPosition`, in
µm. Of a plane of several tiles, its first one counts.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

import numpy as np

from vfs.errors import VfsError
from vfs.formats.czi.segments import Places
from vfs.formats.planes import PlaneTable, StoredPlane
from vfs.model.channels import real
from vfs.model.decode import MadeBlocks
from vfs.model.layout import altered
from vfs.model.metadata import to_epoch
from vfs.model.stored import StoredArray

_TIME = "AcquisitionTime"
_NAMES = {
    "timestamp": (_TIME, "s since 1970-01-01"),
    "stage_x": ("StageXPosition", "um"),
    "stage_y": ("StageYPosition", "um"),
    "stage_z": ("FocusPosition", "um"),
}
"""Name of a companion -> what the XML calls it, and its unit."""
_MAX_METADATA_BYTES = 1 << 20  # bytes of the metadata of a sub-block


def _said(data: bytes, name: str) -> float:
    """Return a number of the metadata of a sub-block, of a time the seconds since 1970; NaN if there is none."""
    found = re.search(rf"<{name}>([^<]*)</".encode(), data)
    if found is None:
        return math.nan
    text = found[1].decode("utf-8", "replace")
    number = to_epoch(text) if name == _TIME else real(text)
    return math.nan if number is None else number


@dataclass(frozen=True)
class SubBlockNumber(MadeBlocks):
    """Decodes the metadata of a sub-block to one of its numbers; NaN where there is none."""

    name: str
    dtype: np.dtype = field(default_factory=lambda: np.dtype("f8"))

    def decode_block(self, data: np.ndarray, block: int, shape: tuple[int, ...]) -> np.ndarray:
        return np.full(shape, _said(data.tobytes(), self.name), self.dtype)


def companions(main: StoredArray, places: Places, tile: np.ndarray, position: np.ndarray) -> list[StoredArray]:
    """Make the companions of an array.

    Args:
        places: of its tiles.
        tile, position: int64[planes], number of the tile, and flat position, of each plane in the order of tiles.
    """
    nav, dims = main.shape[: main.nav_ndim], main.dims[: main.nav_ndim]
    if math.prod(nav) < 2:
        return []
    first = np.full(math.prod(nav), -1, np.int64)
    first[position[::-1]] = tile[::-1]
    size = np.where(first < 0, 0, places.metadata[first])
    there = (size > 0) & (size <= _MAX_METADATA_BYTES)
    if not there.any():
        return []
    at = places.offset[first[there]] - size[there]
    path, sources = main.files.paths[0], main.files.sources
    try:
        shown = sources.read(path, int(at[0]), int(size[there][0]))
        names = {name: one for name, one in _NAMES.items() if not math.isnan(_said(shown, one[0]))}
        if not names:
            return []
        table = PlaneTable(np.zeros_like(at), at, np.flatnonzero(there), path, size[there])
        plane = StoredPlane((), np.dtype("f8"), decoder=SubBlockNumber(""))
        made = table.array("", main.files, nav, plane, dims, {})
    except VfsError:
        return []
    made = altered(made, companion=True, coordinate=True, absent=(), fill=math.nan)
    above = main.path.removesuffix("data")
    return [
        altered(made, path=above + name, decoder=SubBlockNumber(key), attrs={"unit": unit})
        for name, (key, unit) in names.items()
    ]
