"""stempy (https://github.com/OpenChemistry/stempy), of the 4D Camera: frames of counted electrons.

`electron_events/frames` has a list of pixels for each frame, counted row by row; its attributes `Nx` and `Ny` are the
number of rows and of columns, as stempy itself reads them. `electron_events/scan_positions` has the position of each
list in the scan, of `Nx` columns and `Ny` rows; from `version` 3 on each position has as many lists, one behind the
other. Lists of one position are added up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from vfs.errors import VfsError
from vfs.formats.hdf5.counted import CountedFrames, RowsOfScan
from vfs.formats.hdf5.program import Found, Program
from vfs.formats.hdf5.small import read_region
from vfs.h5.facts import Survey
from vfs.model.files import Files
from vfs.model.region import Region
from vfs.model.stored import Absence, StoredArray

_FRAMES, _POSITIONS = "electron_events/frames", "electron_events/scan_positions"
_IN_ORDER = 3  # version from which on lists are in the order of positions
_BLOCK = 4 << 20  # bytes of a block of frames, at most
_MAX_SIDE = 1 << 16
_MAX_LISTS = 1 << 26


def _computed(
    found: Found, survey: Survey, files_of: Callable[[str], Files]
) -> tuple[list[StoredArray], dict[str, str]]:
    lists = found.get(_FRAMES)
    if lists is None or not survey.data[_FRAMES].ragged[0]:
        return [], {}
    scan, frame = _size(survey, _POSITIONS, "Ny", "Nx"), _size(survey, _FRAMES, "Nx", "Ny")
    count, positions = lists.shape[0], math.prod(scan)
    if not (frame[0] and positions and count <= _MAX_LISTS):
        return [], {_FRAMES: "expected Nx and Ny of the frames and of the scan as attributes"}
    version = survey.groups.get("", {}).get("version", 1)
    try:
        place = _places(found, survey, count, positions, version)
    except VfsError as error:
        return [], {_FRAMES: str(error)}
    if len(place) != count or (count and not 0 <= int(place.min()) <= int(place.max()) < positions):
        return [], {_FRAMES: f"expected positions in a scan of {scan[0]:,} × {scan[1]:,} for {count:,} lists of events"}
    files = files_of(_FRAMES)
    block = max(1, min(scan[1], _BLOCK // (2 * math.prod(frame))))
    dtype, base = survey.data[_FRAMES].ragged
    rows = RowsOfScan.of(place, positions)
    decoder = CountedFrames(survey.origin, lists, files, np.dtype(dtype), base, scan, frame, block, rows)
    absent = (*lists.absent, *_without(files.paths[0], place, positions))
    layout, shape = decoder.layout, (*scan, *frame)
    dims, about = ("scan_y", "scan_x", "y", "x"), {"lists": count}
    return [
        StoredArray(
            _FRAMES, files, layout, decoder, shape, dims, 2, block=layout.block, attrs=about, absent=absent, main=True
        )
    ], {}


def _size(survey: Survey, name: str, *keys: str) -> tuple[int, int]:
    """Return rows and columns that attributes say; 0, 0 if they do not."""
    attrs = survey.data[name].attrs if name in survey.data else {}
    rows, columns = (attrs.get(key) for key in keys)
    plain = all(isinstance(n, int) and 0 < n <= _MAX_SIDE for n in (rows, columns))
    return (int(rows), int(columns)) if plain else (0, 0)  # type: ignore[arg-type]


def _places(found: Found, survey: Survey, count: int, positions: int, version: Any) -> np.ndarray:
    """Return the position of each list: int64[count].

    Raises:
        SourceError, DecodeError: they cannot be read.
    """
    if isinstance(version, int) and version >= _IN_ORDER and count % positions == 0:
        return np.arange(count) // max(1, count // positions)
    entry = found.get(_POSITIONS)
    if entry is None or entry.shape != (count,) or entry.dtype.kind not in "iu":
        return np.empty(0, np.int64)
    return read_region(survey.origin, entry, Region.whole(entry.shape)).astype(np.int64)


def _without(path: str, place: np.ndarray, positions: int) -> tuple[Absence, ...]:
    """Report positions of the scan without a list."""
    lost = positions - len(np.unique(place))
    if not lost:
        return ()
    said = f"{path}: {_FRAMES}: {lost:,} of {positions:,} positions of the scan have no list of events; they are blank"
    return (Absence(said, counts={"frames_missing": lost}),)


PROGRAM = Program(
    first=lambda found, survey: [_FRAMES] if _FRAMES in found and survey.data[_FRAMES].ragged[0] else [],
    computed=_computed,
)
