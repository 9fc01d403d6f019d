"""Makes companions of what Micro-Manager says of each plane: when it was taken, how long, and where the stage was."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vfs.errors import VfsError
from vfs.formats.planes import PlaneTable, StoredPlane
from vfs.model.channels import real
from vfs.model.decode import MadeBlocks
from vfs.model.layout import altered
from vfs.model.stored import StoredArray

_NAMES = {
    "timestamp": ("ElapsedTime-ms", "ms"),
    "exposure_time": ("Exposure", "ms"),
    "stage_x": ("XPositionUm", "um"),
    "stage_y": ("YPositionUm", "um"),
    "stage_z": ("ZPositionUm", "um"),
}
"""Name of a companion -> what a plane calls it, and its unit."""
_MAX_METADATA_BYTES = 16 << 20  # bytes of the metadata of a plane


@dataclass(frozen=True)
class JsonNumber(MadeBlocks):
    """Decodes the metadata of a plane, JSON, to one of its numbers; NaN where there is none."""

    name: str
    dtype: np.dtype = field(default_factory=lambda: np.dtype("f8"))

    def decode_block(self, data: np.ndarray, block: int, shape: tuple[int, ...]) -> np.ndarray:
        try:
            said = json.loads(data.tobytes())
        except (ValueError, RecursionError):
            said = None
        number = real(said.get(self.name)) if isinstance(said, dict) else None
        return np.full(shape, math.nan if number is None else number, self.dtype)


def companions(main: StoredArray, table: PlaneTable, first: Mapping[str, Any]) -> list[StoredArray]:
    """Make the companions of an array.

    Args:
        table: where the metadata of planes are.
        first: metadata of the first plane: what it says is said of all.
    """
    nav, dims = main.shape[: main.nav_ndim], main.dims[: main.nav_ndim]
    names = {name: one for name, one in _NAMES.items() if real(first.get(one[0])) is not None}
    assert table.nbytes is not None
    there = (table.nbytes > 0) & (table.nbytes <= _MAX_METADATA_BYTES)
    if not names or math.prod(nav) < 2 or not there.any():
        return []
    table = PlaneTable(table.file[there], table.offset[there], table.position[there], table.source, table.nbytes[there])
    try:
        made = table.array("", main.files, nav, StoredPlane((), np.dtype("f8"), decoder=JsonNumber("")), dims, {})
    except VfsError:  # they are not where the index says
        return []
    made = altered(made, companion=True, coordinate=True, main=False, absent=(), fill=math.nan)
    above = main.path.removesuffix("data")
    return [
        altered(made, path=above + name, decoder=JsonNumber(key), attrs={"unit": unit})
        for name, (key, unit) in names.items()
    ]
