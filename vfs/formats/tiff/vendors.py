"""Makes the series of a file by metadata of its microscope, which tifffile interprets.

These are Zeiss LSM, MetaMorph STK, FluoView and ScanImage.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from vfs.errors import FormatError, TruncatedSourceError, VfsError
from vfs.formats.tiff import lsm
from vfs.formats.tiff.series import PageSeries, split
from vfs.formats.tiff.texts import hint
from vfs.formats.tiff_structure.headers import DESCRIPTION, SOFTWARE, Reader, quiet, tifffile
from vfs.formats.tiff_structure.kinds import Kind
from vfs.formats.tiff_structure.pages import PageTable
from vfs.formats.tiff_structure.places import Planes, complaints
from vfs.formats.tiff_structure.structure import Structure
from vfs.sources.names import basename

# Kinds of metadata that tifffile turns into dimensions, in its order
_METADATA = ("lsm", "fluoview", "stk", "scanimage")
_MARKS = {34412, 34362, 33628}  # tags of LSM, FluoView, STK


def has_vendor(found: Structure) -> bool:
    """Return True if a file has metadata of one of these vendors."""
    text = found.text(DESCRIPTION)
    return (
        bool(_MARKS & set(found.tags))
        or found.text(SOFTWARE, 256).startswith("SI.")
        or text.startswith("state.")
        or "scanimage.SI" in text[-256:]
    )


def series_of_vendor(table: PageTable, found: Structure) -> list[PageSeries]:
    """Make the series of a file by its metadata.

    Returns: no series if tifffile does not know the metadata.

    Raises:
        FormatError: the metadata do not fit the pages.
        TruncatedSourceError: the file ends before its planes.
    """
    try:
        with found.sources.stream(found.path) as stream, quiet(), np.errstate(all="ignore"):
            file = tifffile().TiffFile(
                stream, name=basename(found.path), is_ome=False, is_mmstack=False, is_ndtiff=False
            )
            marks = [kind for kind in _METADATA if getattr(file, f"is_{kind}")]
            series = file.series if marks else []
            if marks and series[0].kind not in marks:
                raise TruncatedSourceError(
                    f"{found.path}: its {marks[0]} metadata say more than its pages hold; it looks truncated; {hint()}"
                )
            said = lsm.attrs_of(file.lsm_metadata) if "lsm" in marks else {}
            return [
                replace(
                    _series(table, found, one),
                    levels=[_series(table, found, level) for level in one.levels[1:]],
                    said=said,
                )
                for one in series
            ]
    except (VfsError, MemoryError):
        raise
    except Exception as error:
        raise FormatError(
            f"{found.path}: its metadata cannot be understood: {' '.join(str(error).split())[:200]}; {hint()}"
        ) from None


def _series(table: PageTable, found: Structure, series: Any) -> PageSeries:
    key = series.keyframe
    reader = Reader(found.sources, found.path)
    data, first, _ = reader.directory(key.offset)
    number = table.kind_of_entries(reader, reader.entries(data, first), t317=int(key.predictor))
    kind = table.kinds[number]
    if not isinstance(kind, Kind) or kind.shaped != tuple(key.shaped) or kind.stored.itemsize != series.dtype.itemsize:
        raise FormatError(
            f"{found.path}: the page at byte {key.offset:,} cannot be read:"
            f" {kind.facts if isinstance(kind, Kind) else kind}; {hint()}"
        )
    shape = tuple(int(n) for n in series.shape)
    count, rest = divmod(math.prod(shape), math.prod(kind.shape))
    nav, shown = split(shape, kind, count)
    if rest or nav < 0 or not count:
        raise FormatError(
            f"{found.path}: its {series.kind} metadata say an array of {shape}, its pages are {kind.shape}; {hint()}"
        )
    pages = list(series.pages)
    rows = _rows(table, found, pages)
    if len(rows) == count and any(table.kind[row] != table.kind[rows[0]] for row in rows):  # each as its tags say
        return PageSeries(kind, series.axes, shape, nav, shown, rows, metadata=series.kind)
    if kind.plain and series.dataoffset is not None:
        if series.dataoffset + count * kind.nbytes > found.size:
            raise TruncatedSourceError(
                f"{found.path}: its {series.kind} metadata say {count:,} planes of {kind.nbytes:,} bytes, the file ends"
                f" before; it looks truncated; {hint()}"
            )
        at = np.array(table.at[found.rows.start : found.rows.stop])
        if ((at > series.dataoffset) & (at < series.dataoffset + count * kind.nbytes)).any():
            raise FormatError(
                f"{found.path}: its {series.kind} metadata say {count:,} planes in one piece, in which there are"
                f" directories; {hint()}"
            )
        offsets = series.dataoffset + np.arange(count, dtype=np.int64)[:, None] * kind.nbytes
        sizes = np.full_like(offsets, kind.nbytes)
    elif len(pages) != count:
        raise FormatError(
            f"{found.path}: its {series.kind} metadata say {count:,} pages, the file has {len(pages):,}; {hint()}"
        )
    else:
        segments = math.prod(kind.grid)
        offsets, sizes = np.zeros((count, segments), np.int64), np.zeros((count, segments), np.int64)
        for i, page in enumerate(pages):
            if page is not None:
                offsets[i], sizes[i] = page.dataoffsets[:segments], page.databytecounts[:segments]
    for complaint in complaints(kind, offsets, sizes, np.full(count, found.size, np.int64)):
        raise complaint.error(f"{found.path}: page {complaint.pages.argmax()} {complaint.said}")
    if kind.plain and offsets.shape[1] > 1 and kind.in_one_piece(offsets, sizes):
        offsets, sizes = offsets[:, :1], np.full((count, 1), kind.nbytes, np.int64)
    planes = Planes(kind, np.arange(count), np.full(count, found.index, np.int64), offsets, sizes)
    return PageSeries(kind, series.axes, shape, nav, shown, planes=(planes,), metadata=series.kind)


def _rows(table: PageTable, found: Structure, pages: list[Any]) -> list[int]:
    """Return the rows of pages that tifffile reports; none if one of them is no readable page of the table."""
    row_at = dict(zip(table.at[found.rows.start : found.rows.stop], found.rows, strict=True))
    rows = [row_at.get(page.offset, -1) if page is not None else -1 for page in pages]
    if not rows or min(rows) < 0:
        return []
    kinds = [table.kinds[number] for number in sorted({table.kind[row] for row in rows})]
    one = kinds[0]
    return rows if all(isinstance(k, Kind) and isinstance(one, Kind) and k.same(one) for k in kinds) else []
