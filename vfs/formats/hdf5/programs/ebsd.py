"""Electron backscatter diffraction (Oxford, EDAX, Bruker, kikuchipy): patterns come first, as the scan of their header.

`…/EBSD/Data/PATTERNS` holds one axis of patterns, and `…/EBSD/Header` has columns and rows of the map and its steps, in
µm: of Oxford (.h5oina), EDAX, Bruker and kikuchipy. Bruker's `…/SEM/IX` and `IY` say column and row of each pattern, of
which the map is the smallest that holds them. Where patterns in chunks are in another order, or the grid is not square
(EDAX's HexGrid has rows of two lengths), they stay one axis, and the array says why. What has a number for each pattern
beside them (confidence, Euler angles) is a picture of the map.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from vfs.formats.hdf5.pieces import frames
from vfs.formats.hdf5.program import Found, Program, entries, number
from vfs.formats.hdf5.small import read_small
from vfs.h5.facts import Survey
from vfs.model.as_scan import as_scan
from vfs.model.layout import FrameLayout, Scan, ScanOrder, altered
from vfs.model.stored import Absence, StoredArray, nav_dims

_PATTERNS = re.compile(r"((?:.*/)?)EBSD/Data/[^/]*patterns?", re.I)
_OF_EACH = re.compile(r"((?:.*/)?)EBSD/Data/[^/]+", re.I)
_MAX_BLANK = 1000  # positions of a map for each pattern: with more, the places are garbled
_WRITERS = (
    ("Y Cells", "X Cells", "Y Step", "X Step"),  # Oxford
    ("nRows", "nColumns", "Step Y", "Step X"),  # EDAX
    ("NROWS", "NCOLS", "YSTEP", "XSTEP"),  # Bruker
    ("n_rows", "n_columns", "step_y", "step_x"),  # kikuchipy
)
"""What each program calls rows, columns and their distances in the header."""
_SQUARE = ("", "sqrgrid", "isometric", "square")
"""What the programs call a square grid; Oxford's has no name. Bruker calls it isometric."""


def _first(found: Found, survey: Survey) -> list[str]:
    return [name for name in found if _PATTERNS.fullmatch(name) and len(found[name].shape) > 2]


_RECORDED = (
    *("Acquisition Date", "Beam Voltage", "Magnification", "Working Distance", "Tilt Angle", "Camera Exposure Time"),
    *("Camera Binning Mode", "Camera Gain", "Project Label", "Project Notes", "Number Frames Averaged"),  # Oxford
    *("Camera Azimuthal Angle", "Camera Elevation Angle", "Sample Tilt", "Operator", "Notes", "Sample ID"),  # EDAX
    *("Date", "Time", "KV", "WD", "CameraTilt", "SampleTilt", "DetectorFullHeightMicrons"),  # Bruker
    *("azimuth_angle", "elevation_angle", "sample_tilt", "binning", "detector", "exposure_time", "gain"),  # kikuchipy
    *("beam_energy", "magnification", "microscope", "working_distance", "scan_time", "frame_rate"),
)
"""What the headers may record that `vfs.formats.hdf5.said` has names for."""


def _about(found: Found, survey: Survey) -> dict[str, dict[str, Any]]:
    made = {}
    for name in _first(found, survey):
        top = _PATTERNS.fullmatch(name)[1]  # type: ignore[index]
        said = {
            "header": entries(f"{top}EBSD/Header", _RECORDED, found, survey),
            "sem": entries(f"{top}SEM/Header", _RECORDED, found, survey),
            "program": entries(
                "", ("manufacturer", " Manufacturer", "Manufacturer", "version", " Version"), found, survey
            ),
        }
        made[name] = {"ebsd": {part: inside for part, inside in said.items() if inside}}
    return made


def _in_scan(array: StoredArray, found: Found, survey: Survey) -> StoredArray:
    hit = _PATTERNS.fullmatch(array.path)
    if hit is None:
        return _map(array, found, survey)
    if len(array.shape) != 3 or array.nav_ndim != 1:
        return array
    shape, steps = _header(hit[1], found, survey)
    if not all(shape):
        return array
    if (grid := _grid(hit[1], survey)).lower() not in _SQUARE:
        return _as_stored(array, shape, f"its grid is {grid!r}, not square")
    return _scan(array, shape, steps, _places(hit[1], found, survey))


def _header(top: str, found: Found, survey: Survey) -> tuple[tuple[int, int], list[float]]:
    """Return rows and columns of a map, and their distances; (0, 0) where the header does not say them."""
    for names in _WRITERS:
        rows, columns, *steps = (number(f"{top}EBSD/Header/{name}", found, survey) for name in names)
        if rows > 0 and columns > 0 and rows == int(rows) and columns == int(columns):
            return (int(rows), int(columns)), steps
    return (0, 0), []


def _map(array: StoredArray, found: Found, survey: Survey) -> StoredArray:
    """Return what has a number for each pattern as a picture of the map; any other array as it is.

    Numbers in chunks, and those of patterns that came in another order, stay one axis.
    """
    hit, layout = _OF_EACH.fullmatch(array.path), array.layout
    if hit is None or len(array.shape) != 1 or not isinstance(layout, FrameLayout):
        return array
    counts = {entry.shape[0] for name, entry in found.items() if _PATTERNS.fullmatch(name) and name.startswith(hit[1])}
    shape, steps = _header(hit[1], found, survey) if counts == {array.shape[0]} else ((0, 0), [])
    if math.prod(shape) != array.shape[0] or _grid(hit[1], survey).lower() not in _SQUARE:
        return array
    if _places(hit[1], found, survey) is not None:
        return array
    picture = frames(shape, layout.word_bytes, layout.stream, 0)
    attrs = {**array.attrs, **_steps(nav_dims(2), steps)}
    return altered(array, layout=picture, shape=shape, dims=nav_dims(2), attrs=attrs)


def _grid(top: str, survey: Survey) -> str:
    """Return what the header calls the grid of the map; "" if nothing."""
    names = [f"{top}EBSD/Header/{name}" for name in ("Grid Type", "grid_type")]
    return next((survey.data[name].text.strip() for name in names if name in survey.data), "")


def _places(top: str, found: Found, survey: Survey) -> np.ndarray | None:
    """Return row and column of each pattern, int64[2, n]; None where the file does not say them."""
    for group in (f"{top}EBSD/SEM", f"{top}SEM"):
        if {f"{group}/IX", f"{group}/IY"} <= found.keys():
            both = [read_small(survey.origin, found[f"{group}/{name}"]) for name in ("IY", "IX")]
            if all(one is not None and one.dtype.kind in "iu" for one in both) and len({len(one) for one in both}) == 1:  # type: ignore[arg-type]
                return np.stack([one.astype(np.int64) for one in both if one is not None])
    return None


def _scan(array: StoredArray, shape: tuple[int, int], steps: list[float], places: np.ndarray | None) -> StoredArray:
    """Arrange patterns as a map of rows and columns."""
    count = array.shape[0]
    order = None
    if places is not None and places.shape[1] == count:
        places = places - places.min(axis=1, keepdims=True)
        rows, columns = (places.max(axis=1) + 1).tolist()
        if rows * columns > _MAX_BLANK * count:
            return _as_stored(array, shape, f"its IX and IY reach {rows:,} × {columns:,}")
        shape, flat = (rows, columns), places[0] * columns + places[1]
        if len(np.unique(flat)) != count:
            return _as_stored(array, shape, "its IX and IY say some positions twice")
        if not np.array_equal(flat, np.arange(rows * columns)):
            order = ScanOrder.visiting(flat, shape)
    elif count != math.prod(shape):
        return _as_stored(array, shape, f"{count:,} patterns are stored")
    if order is not None and not isinstance(array.layout, FrameLayout):
        return _as_stored(array, shape, "patterns are stored in another order, in chunks")
    made = as_scan(array, Scan(shape))
    if order is not None and isinstance(array.layout, FrameLayout):
        made = altered(made, layout=array.layout.ordered(order))
    dims = (*nav_dims(2), *array.dims[1:])
    attrs = {**array.attrs, **_steps(dims, steps)}
    return altered(made, dims=dims, attrs=attrs, absent=array.absent).with_written(declared=None)


def _steps(dims: Sequence[str], steps: list[float]) -> dict[str, Any]:
    """Return the attribute `calibration` of a map; {} where no steps are known."""
    known = {
        dim: {"scale": step, "offset": 0.0, "unit": "um"} for dim, step in zip(dims, steps, strict=False) if step > 0
    }
    return {"calibration": known} if known else {}


def _as_stored(array: StoredArray, shape: tuple[int, int], why: str) -> StoredArray:
    said = f"{array.path}: its header says a map of {shape[0]:,} × {shape[1]:,}, {why}: the patterns are one axis"
    return altered(array, absent=(*array.absent, Absence(said, arrangement=True)))


PROGRAM = Program(first=_first, about=_about, never=r"(.*/)?(EBSD|SEM)/Header/.*", in_scan=_in_scan)
