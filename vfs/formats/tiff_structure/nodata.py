"""Finds the value of strips and tiles that were never written (offset and byte count 0).

They read as 0, or as the number in the tag GDAL_NODATA:
https://gdal.org/en/stable/drivers/raster/gtiff.html#nodata-value
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from vfs.errors import FormatError
from vfs.formats.tiff_structure.headers import Reader
from vfs.formats.tiff_structure.pages import PageTable
from vfs.formats.tiff_structure.places import Planes
from vfs.model.stored import Absence

_NODATA = 42113
_MAX_NUMBER_BYTES = 256  # most bytes of a number


def fill_of(
    table: PageTable, rows: Sequence[int] | np.ndarray, parts: Sequence[Planes], dtype: np.dtype
) -> tuple[int | float, tuple[Absence, ...]]:
    """Return (value of the strips and tiles that were never written, an absence if the tag's number is no `dtype`).

    Args:
        rows: row of the page of each plane.

    Raises:
        FormatError: the pages of such strips and tiles say different values.
    """
    sparse = [part.which[((part.offsets == 0) & (part.sizes == 0)).any(axis=1)] for part in parts]
    pages = np.asarray(rows, np.int64)[np.sort(np.concatenate(sparse))]
    said: dict[str, int] = {}
    files = np.frombuffer(table.file, np.int64)[pages]
    for file in np.unique(files).tolist():
        reader = Reader(table.sources, table.paths[file])
        for row in pages[files == file].tolist():
            said.setdefault(_text(reader, table.at[row]), row)
    values = {text: _number(text, dtype) for text in said}
    if len({repr(value) for value in values.values()}) > 1:
        (one, row), (other, _) = list(said.items())[:2]
        raise FormatError(
            f"{table.paths[table.file[row]]}: strips or tiles of the array were never written, and its pages say"
            f" different values for them (GDAL_NODATA {one!r} and {other!r}); open files or pages with one value each"
        )
    for text, value in values.items():
        if value is None:
            path = table.paths[table.file[said[text]]]
            return 0, (
                Absence(
                    f"{path}: its tag GDAL_NODATA says {text!r}, which is no number of {dtype}: strips or tiles that"
                    " were never written read as 0"
                ),
            )
        return value, ()
    return 0, ()


def _text(reader: Reader, at: int) -> str:
    """Return the text of the tag in the directory at byte `at`; "" without it."""
    data, first, _ = reader.directory(at)
    for tag, field, _ in reader.entries(data, first):
        if tag == _NODATA:
            return reader.text(field._replace(length=min(field.length, _MAX_NUMBER_BYTES))).strip()
    return ""


def _number(text: str, dtype: np.dtype) -> int | float | None:
    """Return the number in a text, as a dtype can hold it; None if it cannot."""
    try:
        whole: int | float = int(text or 0)
    except ValueError:
        try:
            whole = float(text)
        except ValueError:
            return None
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        fits = math.isfinite(whole) and whole == int(whole) and limits.min <= whole <= limits.max
        return int(whole) if fits else None
    with np.errstate(all="ignore"):
        held = np.dtype(dtype).type(whole)
    return float(whole) if np.isfinite(held) or not math.isfinite(whole) else None
