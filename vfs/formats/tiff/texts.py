"""Makes the series of a file by the text of ImageJ or of tifffile in its first page.

ImageJ: lines `images=`, `channels=`, `slices=`, `frames=`, `order=`. tifffile: JSON with `shape` and
`axes` (older: `shape=(…)`), one text for each series. Both programs also write planes one after the
other behind a single directory (ImageJ above 4 GB).

A text is only a claim: another program may have changed the pages and kept it. It gives the axes;
where and how each page is stored say the tags of that page.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from vfs.errors import FormatError, TruncatedSourceError
from vfs.formats.tiff.series import PageSeries, between_others, counted, split, unreadable
from vfs.formats.tiff_structure.headers import DESCRIPTION, tifffile
from vfs.formats.tiff_structure.kinds import Kind
from vfs.formats.tiff_structure.pages import PageTable
from vfs.formats.tiff_structure.places import Planes
from vfs.formats.tiff_structure.structure import Structure
from vfs.model.stored import Absence
from vfs.model.wording import format_option


def hint() -> str:
    """Return the end of a message on texts that do not fit the pages: the option that does without them."""
    return f"{format_option(plain=True)} shows the bare pages"


_MAX_BLANK_PLANES = 1_000_000  # most planes of which few are stored; a text that says more is garbled
_ORDERS = {
    "czt": ("T", "Z", "C"),
    "ctz": ("Z", "T", "C"),
    "zct": ("T", "C", "Z"),
    "ztc": ("C", "T", "Z"),
    "tcz": ("Z", "C", "T"),
    "tzc": ("C", "Z", "T"),
}


class Claim(NamedTuple):
    """Says what a text tells of an array.

    Attributes:
        program: "imagej" or "shaped" (tifffile).
        axes: axes of the array, in tifffile's letters; "" if the text does not name them.
        shape: shape of the array.
        single: True if planes follow the first one without directories.
    """

    program: str
    axes: str
    shape: tuple[int, ...]
    single: bool = False

    @property
    def name(self) -> str:
        return {"imagej": "ImageJ", "shaped": "tifffile"}[self.program]


def says_more(table: PageTable, found: Structure) -> bool:
    """Return True if the first page's text tells more about dimensions than counting its pages does."""
    text = found.text(DESCRIPTION)
    if text.startswith("ImageJ="):
        return len(found.rows) > 1 or re.search(r"^images=0*[2-9]|^images=0*1\d", text, re.M) is not None
    claim = _shaped(text)
    kind = table.kinds[table.kind[found.rows[0]]]
    return claim is not None and (
        not isinstance(kind, Kind) or len(found.rows) > 1 or claim.shape != kind.shape or bool(claim.axes)
    )


def _shaped(text: str) -> Claim | None:
    """Return what a text of tifffile tells; None for another text."""
    if text.startswith("shape=("):
        shape: object = [int(n) for n in re.findall(r"\d{1,15}", text.partition(")")[0])]
        told: dict[str, object] = {}
    elif text.startswith("{") and '"shape"' in text:
        try:
            told = json.loads(text)
        except (ValueError, RecursionError):
            return None
        shape = told.get("shape")
    else:
        return None
    if not (isinstance(shape, list) and shape and all(type(n) is int and 0 < n < 1 << 48 for n in shape)):
        return None
    axes = told.get("axes")
    good = isinstance(axes, str) and len(axes) == len(shape) and axes.isascii() and axes.isalpha()
    return Claim("shaped", str(axes) if good else "", tuple(shape), told.get("truncated") is True)


def _imagej(text: str, kind: Kind, pages: int) -> Claim | None:
    """Return what a text of ImageJ tells of `pages` pages of a kind; None if its numbers are impossible."""
    said = dict(re.findall(r"^(\w+)=(.*?)\s*$", text, re.M))
    numbers = [said.get(name, "1") for name in ("frames", "slices", "channels", "images")]
    if not all(re.fullmatch(r"[0-9]{1,12}", number) for number in numbers):
        return None
    frames, slices, channels, images = map(int, numbers)
    separate, chunky = kind.shaped[0], kind.shaped[4]
    # Bio-Formats counts samples as channels
    if separate == channels > 1 or (chunky == channels > 1 and images == frames * slices):
        channels = 1
    length = {"T": frames, "Z": slices, "C": channels}
    planes = frames * slices * channels
    if planes < 1:
        return None
    if planes == 1:
        length["I"] = pages if images < 2 else images
    lead = [
        axis for axis in ("I", *_ORDERS.get(said.get("order", "").lower(), _ORDERS["czt"])) if length.get(axis, 1) > 1
    ]
    axes = kind.axes.replace("S", "C", 1) if separate > 1 else kind.axes
    return Claim("imagej", "".join(lead) + axes, tuple(length[axis] for axis in lead) + kind.shape)


def series_told(table: PageTable, found: Structure) -> tuple[list[PageSeries], tuple[Absence, ...], list[str]]:
    """Make the series of a file by its text, and those of the pages of which the text says nothing.

    Returns: what `counted` returns. If the text does not fit the pages, it is not used, and an absence
        says so.
    """
    rows = list(found.rows)
    out: list[PageSeries] = []
    absent: list[Absence] = []
    odd: list[int] = []
    first: Claim | None = None
    k = 0
    while k < len(rows):
        kind = next((one for row in rows[k:] if isinstance(one := table.kinds[table.kind[row]], Kind)), None)
        if kind is None:
            break
        claim = _claim(found.text(DESCRIPTION), kind, len(rows)) if k == 0 else _shaped(table.text_of(rows[k]))
        if claim is None and k:
            break
        first = first or claim
        made = None if claim is None else _placed(table, found, rows[k:], kind, claim)
        if made is None:
            return _unused(table, found, claim)
        out.append(made.series)
        absent += made.absent
        odd += made.others
        k += made.used
    behind = [table.kinds[table.kind[row]] for row in rows[k:]]
    if out and not out[0].planes and any(isinstance(one, Kind) and one.same(out[0].kind) for one in behind):
        return _unused(table, found, first if out[0].count > 1 else None)
    if len(out) > 1 and all(one.count == 1 and one.alike(out[0]) for one in out):
        return counted(table, found, found.rows)  # each page has a text that tells of this page only
    more, gone, words = counted(table, found, sorted([*odd, *rows[k:]]))
    return out + more, (*absent, *gone), words


def _claim(text: str, kind: Kind, pages: int) -> Claim | None:
    return _imagej(text, kind, pages) if text.startswith("ImageJ=") else _shaped(text)


def _unused(
    table: PageTable, found: Structure, claim: Claim | None
) -> tuple[list[PageSeries], tuple[Absence, ...], list[str]]:
    """Make the series by counting pages, and report that the text says something else."""
    series, absent, words = counted(table, found, found.rows)
    if claim is None or not series:
        return series, absent, words
    said = (
        f"{found.path}: its {claim.name} text says an array of {list(claim.shape)}, its pages are"
        f" {' and '.join(str(one) for one in series[:3])}: the text is not used, pages are shown as they are"
    )
    return series, (Absence(said), *absent), words


class _Made(NamedTuple):
    """Holds a series made by a text.

    Attributes:
        used: number of pages of the file that it accounts for.
        others: rows of those that are of another kind.
        absent: planes without a page.
    """

    series: PageSeries
    used: int
    others: list[int]
    absent: list[Absence]


def _placed(table: PageTable, found: Structure, rows: Sequence[int], kind: Kind, claim: Claim) -> _Made | None:
    """Find the pages of the array that a text claims.

    Args:
        rows: rows of the pages from the one with the text on.
        kind: kind of the first of them that can be read.

    Returns: None if the text does not fit the pages.
    """
    count, rest = divmod(math.prod(claim.shape), math.prod(kind.shape))
    nav, shown = split(claim.shape, kind, count)
    stored = max(len(rows), found.size // max(1, kind.nbytes))  # ImageJ writes one directory for all of a large stack
    if rest or nav < 0 or not count or (count > _MAX_BLANK_PLANES and count > 1000 * stored):
        return None
    axes = claim.axes
    if not axes:
        page = (count, *kind.shape) if count > 1 else kind.shape
        axes = tifffile().reshape_axes("Q" * (count > 1) + kind.axes, page, claim.shape)
    series = PageSeries(kind, axes, claim.shape, nav, shown, metadata=claim.program)
    single = _without_directories(table, found, rows, count, claim.single)
    if single is not None:
        planes, covered = single
        lost = count - len(planes.which)
        return _Made(replace(series, planes=(planes,)), covered, [], _lost(found, claim, count, lost))
    mine = list(rows[:count])
    kinds = [table.kinds[table.kind[row]] for row in mine]
    bad = [row for row, one in zip(mine, kinds, strict=True) if not isinstance(one, Kind)]
    odd = [row for row, one in zip(mine, kinds, strict=True) if isinstance(one, Kind) and not one.same(kind)]
    if 2 * len(odd) > len(mine):
        return None
    without = {*bad, *odd}
    placed = [-1 if row in without else row for row in mine]
    full = placed + [-1] * (count - len(mine))
    absent = [
        *_lost(found, claim, count, count - len(mine)),
        *unreadable(table, bad),
        *between_others(table, odd, series),
    ]
    levels = _levels(table, found, series, full)
    return _Made(replace(series, rows=full, levels=levels), len(mine), odd, absent)


def _lost(found: Structure, claim: Claim, count: int, lost: int) -> list[Absence]:
    if not lost:
        return []
    said = (
        f"{found.path}: its {claim.name} text says {count:,} planes, the file has {count - lost:,}; it looks"
        f" truncated; {hint()}"
    )
    counts = {"frames_missing": lost}
    return [Absence(said, TruncatedSourceError, "shows the others as blank", counts, to_come=True)]


def _without_directories(
    table: PageTable, found: Structure, rows: Sequence[int], count: int, single: bool
) -> tuple[Planes, int] | None:
    """Find planes that follow the first one without directories of their own.

    That is so if there are fewer directories than planes, or the text says so (`single`), and nothing
    else lies between: no directory, and no pixels of other pages but those of a plane at its place.

    Returns: (the planes that the file has, number of directories of these planes); None if planes have
        directories.
    """
    kind = table.kinds[table.kind[rows[0]]]
    if count == 1 or not isinstance(kind, Kind) or not kind.plain or (len(rows) >= count and not single):
        return None
    alike = [row for row in rows if table.kind[row] == table.kind[rows[0]]]
    try:
        parts = table.planes(alike).parts
    except (FormatError, TruncatedSourceError):
        return None
    if len(parts) != 1 or not parts[0].in_one_piece or parts[0].which[0] != 0:
        return None
    starts, size = parts[0].offsets[:, 0], kind.nbytes
    first = int(starts[0])
    end = min(first + count * size, found.size)
    inside = (starts >= first) & (starts < end)
    directories = np.array(table.at[found.rows.start : found.rows.stop])
    if ((directories > first) & (directories < end)).any():
        return None
    if not np.array_equal(starts[inside], first + np.arange(int(inside.sum())) * size):
        return None
    there = min(count, (end - first) // size)
    at = first + np.arange(there)[:, None] * size
    planes = Planes(kind, np.arange(there), np.full(there, found.index), at, np.full_like(at, size))
    return planes, 1 if single else int(inside.sum())


def _levels(table: PageTable, found: Structure, series: PageSeries, rows: Sequence[int]) -> list[PageSeries]:
    """Make the series of the smaller versions of a series, which all of its pages have."""
    out: list[PageSeries] = []
    subs = [found.subs.get(row, []) for row in rows if row >= 0]
    for level in range(min(map(len, subs), default=0)):
        each = [-1 if row < 0 else found.subs[row][level] for row in rows]
        kinds = [table.kinds[table.kind[row]] if row >= 0 else None for row in each]
        kind = next((kind for kind in kinds if isinstance(kind, Kind)), None)
        if kind is None or not all(
            row < 0 if parent < 0 else isinstance(one, Kind) and one.same(kind)
            for row, parent, one in zip(each, rows, kinds, strict=True)
        ):
            continue
        sig = tuple(kind.shaped[k] if k >= 0 else 1 for k in series.shown)
        out.append(replace(series, kind=kind, shape=series.lead + sig, rows=each))
    return out
