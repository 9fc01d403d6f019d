"""Finds the colours of pages whose pixels are indices into a palette (PhotometricInterpretation 3).

The tag ColorMap holds all red, then all green, then all blue values, 0 to 65535, one for each value that a pixel can
have (TIFF 6.0, section 5). Some programs write 0 to 255, which is told by the largest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from vfs.errors import FormatError, TruncatedSourceError
from vfs.formats.tiff_structure.headers import UNSIGNED, Reader
from vfs.formats.tiff_structure.pages import PageTable

_COLOUR_MAP = 320
_MAX_COLOURS = 256  # colours: those of pixels of 8 bits
_MAX_PAGES = 1000  # pages whose colours are compared


def colours_of(
    table: PageTable, rows: Iterable[Sequence[int] | np.ndarray], facts: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the attribute `colour_map`, colours as "rrggbb"; {} without one, or if pages have different ones.

    Args:
        rows: rows of the pages of an array, file by file; -1 for none. Of many, some at even distances are looked at.
        facts: how its pages are stored, see `Kind`.
    """
    if facts.get("photometric") != "palette":
        return {}
    there = np.concatenate([np.zeros(0, np.int64), *(np.asarray(some, np.int64) for some in rows)])
    there = there[there >= 0]
    if not len(there):
        return {}
    readers: dict[int, Reader] = {}
    first: np.ndarray | None = None
    for row in there[:: -(-len(there) // _MAX_PAGES)].tolist():
        file = table.file[row]
        if file not in readers:
            readers = {file: Reader(table.sources, table.paths[file])}
        found = _numbers(readers[file], table.at[row])
        if found is None or (first is not None and not np.array_equal(found, first)):
            return {}
        first = found
    assert first is not None
    eight = first if first.max() < 256 else first >> 8
    return {"colour_map": [bytes(colour).hex() for colour in eight.reshape(3, -1).T.astype(np.uint8)]}


def _numbers(reader: Reader, at: int) -> np.ndarray | None:
    """Return the values in the tag of the directory at byte `at`: int64[3 n]; None without them."""
    try:
        data, first, _ = reader.directory(at)
        for tag, field, _ in reader.entries(data, first):
            if (
                tag == _COLOUR_MAP
                and field.type in UNSIGNED
                and field.length % 3 == 0
                and 0 < field.length <= 3 * _MAX_COLOURS
            ):
                return reader.numbers(field)
    except (FormatError, TruncatedSourceError):
        return None  # colours are beside the numbers: a garbled tag must not hide these
    return None
