"""What the page shows of an array: what is known of it, and its pictures as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from vfs.engine.array import ArrayReader
from vfs.engine.pixel_masks import masked_pixels
from vfs.errors import VfsError, printable
from vfs.faces.documents import plain_json
from vfs.model import spoken
from vfs.model.units import DIFFRACTION
from vfs.page.records import sendable
from vfs.page.scattering import geometry
from vfs.pictures.frames import FrameView, is_masked
from vfs.pictures.small_frames import size_of, small_frame

_FAR = {"beam_center", "detector_distance", "two_theta"}
"""What files say only of detectors that diffracted light falls on."""

LARGEST = 8192
"""Most rows and columns of a picture that are sent."""


def described(path: str, array: ArrayReader, main: bool) -> dict[str, Any]:
    """Describe an array, as JSON can hold it: `path` is its path over HTTP, `own` the one that Python knows."""
    view = FrameView.of(array)
    known = {dim: {key: one.get(key) for key in ("scale", "offset", "unit")} for dim, one in array.calibration.items()}
    return {
        "path": path,
        "label": printable(array.dataset.label),
        "own": array.dataset.path,
        "shape": list(array.shape),
        "dtype": array.dtype.name,
        "dims": list(array.dims),
        "nav": array.dataset.nav_ndim,
        "shown": len(view.shown) + (view.colour is not None or view.palette is not None),
        "where": list(view.where),
        "picture": list(view.shown),
        "colour": view.colour,
        "upward": view.upward,
        "inverted": whites_are_low(array),
        "middle": list(view.middle),
        "nbytes": array.nbytes,
        "units": _units(array),
        "coordinate": array.dataset.coordinate,
        "main": main,
        "beside": array.dataset.main is False,
        "calibration": plain_json(known),
        "masked": _masked(view),
        "geometry": geometry(array),
        "pattern": is_pattern(view),
        "events": getattr(array.dataset.decoder, "events", False),
    }


def is_pattern(view: FrameView) -> bool:
    """Return True for frames of which the file says that they are diffraction patterns: few pixels have most counts."""
    array, said = view.array, view.array.dataset.recorded
    units = {array.calibration.get(array.dims[k], {}).get("unit") for k in view.shown}
    if len(view.shown) != 2 or view.colour is not None:
        return False
    far = "mode" in said and said["mode"].value == "diffraction"
    return far or not _FAR.isdisjoint(said) or (len(units) == 1 and units <= DIFFRACTION)


def _units(array: ArrayReader) -> str:
    """Return the unit of numbers; "" where nobody knows it."""
    said = array.dataset.conventions.get("units") or (array.attrs.get("unit") if array.dataset.companion else "")
    return said if isinstance(said, str) else ""


def told(array: ArrayReader) -> dict[str, Any]:
    """Return what the files say of an array: `recorded`, by the names of the vocabulary as people say it; `attrs`."""
    recorded = {name: printable(spoken.value(one)) for name, one in array.dataset.recorded.items()}
    return {"recorded": recorded, "attrs": plain_json(dict(array.attrs))}


def whites_are_low(array: ArrayReader) -> bool:
    """Return True if a file says that its smallest number is white (TIFF), so that programs invert the grey scale."""
    return array.attrs.get("photometric") == "miniswhite"


def _masked(view: FrameView) -> int:
    """Count the pixels of a picture that the set's own mask marks. 0 where it cannot be read, too: pictures say why."""
    found = None
    with suppress(VfsError):
        found = masked_pixels(view.array) if is_masked(view) else None
    return 0 if found is None else int(np.count_nonzero(found))


def picture(
    array: ArrayReader, at: Sequence[int], most: int, part: str = "abs", plane: tuple[int, ...] = ()
) -> tuple[np.ndarray, int]:
    """Read a picture as `vfs.pictures.small_frames.small_frame` does, as numbers that `sendable` has made.

    Raises:
        OptionError: there is no such picture.
        SourceError: it cannot be read.
    """
    numbers, side = small_frame(array, at, most, part, plane)
    return sendable(numbers), side


def bytes_of(array: ArrayReader, at: Sequence[int], most: int, part: str = "abs", plane: tuple[int, ...] = ()) -> int:
    """Return the bytes of a picture, or a little more, before it is read. Arguments and errors are those of `picture`.

    Raises:
        OptionError: there is no such picture.
    """
    count, dtype = size_of(array, at, most, part, plane)
    return count * sendable(np.zeros(1, dtype)).itemsize
