"""Reads TIFF and BigTIFF: https://www.itu.int/itudoc/itu-t/com16/tiff-fx/docs/tiff6.pdf

BigTIFF: https://www.awaresystems.be/imaging/tiff/bigtiff.html. Pages of one size and dtype are one
array, with a leading axis if there are several; each page is read as its own tags say, so they may
be compressed and cut into strips or tiles differently. A file with pages of several sizes has several
arrays (`series_0/data`, `series_1/data`, …; `data` if there is one), of which that of the first page opens
first, unless it is a thumbnail or a preview; smaller versions of an array
are arrays beside it (`level_1/data`, …). ImageJ and tifffile write a text about dimensions
(`vfs.formats.tiff.texts`), Zeiss LSM, MetaMorph STK, FluoView and ScanImage have metadata that
tifffile reads; `plain=True` ignores both. Pixels are shown as they are stored: palettes as indices
(their colours are the attribute `colour_map`), 1-bit pixels as uint8, separate samples (planar RGB) as a first axis
`s`, samples in a pixel as a last one. Strips and tiles that were never written read as 0, or as the tag GDAL_NODATA
says.

Several files that are alike are stacked along a new first axis; with `concatenate=True` the pages
of all files follow each other. A gap in the numbers of the files' names means a missing file (see
`vfs.formats.numbering`), which is an error; with `allow_incomplete` its place is blank. So are
pages that a file lacks because it was cut, and files of which nothing can be read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from vfs.errors import FormatError, TruncatedSourceError, VfsError
from vfs.formats import Format
from vfs.formats.numbering import joined
from vfs.formats.serialem import with_mdoc
from vfs.formats.tiff import imagej, lsm
from vfs.formats.tiff.said import TERMS
from vfs.formats.tiff.series import PageSeries, counted
from vfs.formats.tiff.texts import says_more, series_told
from vfs.formats.tiff.vendors import has_vendor, series_of_vendor
from vfs.formats.tiff_structure.colour_maps import colours_of
from vfs.formats.tiff_structure.headers import (
    DESCRIPTION,
    OLYMPUS_SIS,
    SOFTWARE,
    beside_others,
    described_as_ome,
    has_tag,
    header_of,
    holds_events,
)
from vfs.formats.tiff_structure.instruments import instrument, of_page
from vfs.formats.tiff_structure.nodata import fill_of
from vfs.formats.tiff_structure.original import original
from vfs.formats.tiff_structure.pages import FoundPlanes, PageTable
from vfs.formats.tiff_structure.places import Planes, joined_planes
from vfs.formats.tiff_structure.planes import arrange
from vfs.formats.tiff_structure.scales import DERIVED, calibration, dots
from vfs.formats.tiff_structure.sem_texts import beside
from vfs.formats.tiff_structure.structure import Structure
from vfs.model.files import Files
from vfs.model.layout import altered
from vfs.model.metadata import Told
from vfs.model.sources import Sources
from vfs.model.stored import Absence, StoredArray
from vfs.model.wording import format_option
from vfs.model.written import Written

_TEXTS = {"description": DESCRIPTION, "make": 271, "model": 272, "software": SOFTWARE, "date_time": 306, "artist": 315}
_TRIES = 16  # after so many files in a row that differ from the first one, the rest is not compared with it
_MAX_CHARACTERS = 1 << 16  # most characters of a text that is shown as an attribute
# tifffile's letters for pages and for unknown axes; other letters are used as names unchanged
_AXES = {"I": "frame", "Q": "frame"}


def sniff(path: str, first_bytes: bytes, sources: Sources) -> bool:
    if header_of(first_bytes) is None:
        return False
    try:
        return not (described_as_ome(sources, path) or holds_events(sources, path))
    except VfsError:
        return True  # it is a garbled TIFF: opening raises the error


def _names(axes: str) -> tuple[str, ...]:
    """Name axes by tifffile's letters. Names that occur twice are numbered."""
    names = [_AXES.get(letter, letter.lower()) for letter in axes]
    return tuple(f"{name}_{names[:k].count(name)}" if name in names[:k] else name for k, name in enumerate(names))


def _attrs(table: PageTable, found: Structure, series: PageSeries, without: Sequence[str]) -> dict[str, Any]:
    row = next((row for row in series.rows if row in found.rows), found.rows.start)
    own = found if row == found.rows.start else of_page(found, table.at[row])
    attrs: dict[str, Any] = {
        "axes": series.axes,
        "pages": len(found.rows),
        "byte_order": "little" if found.order == "<" else "big",
        "bigtiff": found.big,
    }
    attrs |= series.kind.facts
    if series.metadata:
        attrs["metadata_of"] = series.metadata
    attrs |= series.said
    for name, tag in _TEXTS.items():
        text = found.text(tag, _MAX_CHARACTERS).strip()
        if text:
            attrs[name] = text
    if said := dots(found):
        attrs["dots"] = said
    makers = instrument(own, row - found.rows.start)
    if not makers and len(found.rows) == 1 and not series.metadata:
        makers = beside(own)
    attrs |= makers
    if known := calibration(own, makers):
        attrs["calibration"] = known
    if "jeol" in makers and {axis["unit"] for axis in known.values()} == {"1/nm"}:
        attrs["calibration_from"] = DERIVED
    if without:
        attrs["left_out"] = list(without)
    return attrs


@dataclass(frozen=True, eq=False)
class _Member:
    """Holds the series of one file, or of several that are alike.

    Attributes:
        series: none if nothing of the file can be read.
        files: number of the files.
        told: True if metadata about dimensions were used or looked for.
        structure: structure of the file; None of files that were only compared with another one, or
            of which nothing can be read.
        absent: what the file should hold and does not.
        left_out: words for each page that is in no series.
        error: why nothing of the file can be read.
    """

    series: Sequence[PageSeries] = ()
    files: int = 1
    told: bool = False
    structure: Structure | None = None
    absent: tuple[Absence, ...] = ()
    left_out: Sequence[str] = ()
    error: FormatError | TruncatedSourceError | None = None

    @property
    def cut(self) -> bool:
        return self.structure is not None and self.structure.cut is not None


def open(
    paths: Sequence[str], sources: Sources, *, plain: bool = False, concatenate: bool = False
) -> list[StoredArray]:
    """Open TIFF files.

    Args:
        plain: show just the pages, and ignore metadata of ImageJ, tifffile and others about
            dimensions
        concatenate: put the pages of all files one after the other along one axis, instead of
            stacking files along a new axis; files may have different numbers of pages

    Raises:
        FormatError: a file is garbled, pages cannot be read, or files differ.
        TruncatedSourceError: a file is shorter than its pages.
        OptionError: the files cannot be joined.
        MissingSourceError, SourceError: a file cannot be opened.
    """
    files = Files.stat(sources, paths)
    table = PageTable(sources)
    members = _members(table, files, plain)
    good = [member for member in members if member.series]
    # Files that are not cut say how many pages each has
    like = next((member for member in good if not member.cut), good[0])
    for member, begin in zip(members, _begins(members), strict=False):
        if member.series and not _fit(member.series, like.series):
            raise FormatError(
                f"{files.paths[begin]}: holds {_described(member.series)}, expected {_described(like.series)} as in"
                f" {files.paths[_begins(members)[members.index(like)]]}; files of a sequence must be alike"
            )
    first = next(member.structure for member in good if member.structure is not None)
    out: list[StoredArray] = []
    absent = [one for member in good for one in member.absent]
    absent += _unread(members, 0 if concatenate and not _each(good) else like.series[0].count)
    aside = _aside(table, like.series)
    shown = aside.index(False)
    for k, main in enumerate(like.series):
        above = f"series_{k}/" if len(like.series) > 1 else ""
        attrs = _attrs(table, first, main, good[0].left_out)
        for level, one in enumerate([main, *main.levels]):
            parts = [
                None if not m.series else (m.series[k], *m.series[k].levels)[level]
                for m in members
                if not m.series or level <= len(m.series[k].levels)
            ]
            if len(parts) != len(members):
                continue  # not every file has this smaller version
            path = above + ("data" if level == 0 else f"level_{level}/data")
            facts = attrs if level == 0 else {"axes": one.axes, "level": level, **one.kind.facts}
            facts |= colours_of(table, (part.rows for part in parts if part is not None), one.kind.facts)
            made, gone = _dataset(table, files, path, members, parts, one, concatenate)
            written = Written(one.count if one.metadata in ("imagej", "shaped") and len(members) == 1 else None)
            leads = (k, level) == (shown, 0) or (False if aside[k] else None)
            told = Told(partial(imagej.attrs_of, first)) if imagej.wrote(first) else None
            out.append(altered(made, attrs=facts, main=leads, written=written, told=told))
            absent += gone
    out.sort(key=lambda d: -math.prod(d.shape) * d.dtype.itemsize)
    if len(paths) == 1 and ("SerialEM" in first.start or "SerialEM" in first.text(SOFTWARE, 256)):
        out = with_mdoc(sources, files.paths[0], out)
    return [altered(d, absent=(*out[0].absent, *absent)) for d in out]  # all arrays lack the same files


def _aside(table: PageTable, series: Sequence[PageSeries]) -> list[bool]:
    """Find the series that come beside others, as their first pages say: none if all do. The first other one is main.

    They are smaller versions or masks of others, or previews in colour that cameras of Olympus write before the
    numbers; these pages alone have its tag.
    """
    if len(series) < 2:
        return [False] * len(series)
    first = [next((row for row in one.rows if row >= 0), None) for one in series]
    places = [None if row is None else (table.paths[table.file[row]], table.at[row]) for row in first]
    aside = [place is not None and beside_others(table.sources, *place) for place in places]
    numbers = [place is not None and has_tag(table.sources, *place, OLYMPUS_SIS) for place in places]
    if any(numbers):
        aside = [smaller or not has for smaller, has in zip(aside, numbers, strict=True)]
    return [False] * len(series) if all(aside) else aside


def _members(table: PageTable, files: Files, plain: bool) -> list[_Member]:
    """Find the series of every file.

    Raises:
        FormatError, SourceError: no file can be read.
    """
    members: list[_Member] = []
    lead: PageSeries | None = None
    behind, tries = 0, _TRIES
    for path, size in zip(files.paths, files.sizes.tolist(), strict=True):
        if lead is not None and tries:
            if table.follow(path, size):
                behind, tries = behind + 1, _TRIES
                continue
            tries -= 1
        if lead is not None and behind:
            members.append(_Member([lead.of_files(len(table.at) - behind, behind)], behind))
            behind = 0
        try:
            member = _member(table, path, plain)
        except (FormatError, TruncatedSourceError) as error:
            member = _Member(error=error)
        if lead is None and len(files) > 1 and len(member.series) == 1 and not (member.told or member.cut):
            assert member.structure is not None
            lead = member.series[0] if table.set_example(member.structure) else None
        members.append(member)
    if lead is not None and behind:
        members.append(_Member([lead.of_files(len(table.at) - behind, behind)], behind))
    errors = [member.error for member in members if member.error is not None]
    if len(errors) == len(members):
        raise errors[0]
    return members


def _member(table: PageTable, path: str, plain: bool) -> _Member:
    """Find the series of a file.

    Raises:
        FormatError, SourceError: nothing of it can be read.
    """
    found = table.add(path)
    absent: tuple[Absence, ...] = ()
    left_out: Sequence[str] = ()
    told = not plain and says_more(table, found)
    vendor = not plain and not told and has_vendor(found)
    series: list[PageSeries] = []
    if told:
        series, absent, left_out = series_told(table, found)
    elif vendor:
        try:
            series = series_of_vendor(table, found)
        except (FormatError, TruncatedSourceError):
            if found.cut is None:
                raise
    if not series and not told:
        series, absent, left_out = counted(table, found, found.rows)
    if not series:
        raise FormatError(absent[0].said)
    if found.cut is not None and not any("frames_missing" in one.counts for one in absent):
        lost = {"frames_missing": 1}
        absent += (Absence(str(found.cut), type(found.cut), "shows the pages before", lost, to_come=True),)
    absent += found.without_values()
    return _Member(series, 1, told or vendor, found, absent, left_out)


def _begins(members: Sequence[_Member]) -> list[int]:
    """Return the number of the first file of each member, and of all files."""
    return np.cumsum([0, *(member.files for member in members)]).tolist()  # type: ignore[no-any-return]


def _fit(series: Sequence[PageSeries], like: Sequence[PageSeries]) -> bool:
    return len(series) == len(like) and all(one.kind.same(other.kind) for one, other in zip(series, like, strict=True))


def _each(members: Sequence[_Member]) -> int:
    """Return the number of pages of each file that is not cut; 0 if files differ."""
    counts = {member.series[0].count for member in members if not member.cut}
    return counts.pop() if len(counts) == 1 else 0


def _unread(members: Sequence[_Member], each: int) -> list[Absence]:
    """Report files of which nothing can be read.

    Args:
        each: number of frames of such a file; 0 if that is not known.
    """
    errors = [member.error for member in members if member.error is not None]
    if not errors:
        return []
    said = str(errors[0]) + f", and {len(errors) - 1:,} more files" * (len(errors) > 1)
    allowed = "shows the frames of such files as blank" if each else "lets the other files follow on each other"
    return [Absence(said, type(errors[0]), allowed, {"frames_missing": each * len(errors)} if each else {})]


def _described(series: Sequence[PageSeries]) -> str:
    return " and ".join(str(one) for one in series[:8]) + ", …" * (len(series) > 8)


def _dataset(
    table: PageTable,
    files: Files,
    path: str,
    members: Sequence[_Member],
    parts: Sequence[PageSeries | None],
    one: PageSeries,
    concatenate: bool,
) -> tuple[StoredArray, list[Absence]]:
    """Make one array from its parts in all files.

    Args:
        parts: series of each member; None for a file of which nothing can be read.
        one: series like which the others should be.

    Returns: (array, planes of it whose pages do not have their pixels).
    """
    begins = _begins(members)
    each = one.count if not concatenate else _each([member for member in members if member.series])
    full: list[PageSeries | None] = []
    for part, member, begin in zip(parts, members, begins, strict=False):
        if part is not None and member.cut and part.count < each and not part.planes:
            part = part.filled_up(one)
        if part is not None and part.lead != one.lead and not concatenate:
            raise FormatError(
                f"{files.paths[begin]}: holds {part}, expected {one} as in the others; files of a sequence must be"
                f" alike; {format_option(concatenate=True)} puts the pages of all files one after the other"
            )
        full.append(part)
    counts = [n for p, m in zip(full, members, strict=True) for n in [each if p is None else p.count] * m.files]
    row = joined(files.sources, files.paths, counts)
    lead, names = one.lead, _names(one.axes)
    if concatenate:
        lead, names = (row.frames,), ("frame", *_names(one.axes[one.nav :]))
    elif begins[-1] > 1:
        lead, names = (row.frames // one.count, *lead), ("file" if one.nav else "frame", *names)
    index = np.arange(sum(counts))
    if row.frames > len(index):
        index += np.repeat(row.first - (np.cumsum(counts) - counts), counts)
    rows, found = _planes_of(table, full, each)
    layout, decoder, block = arrange(found.parts, index, lead, one.kind, one.shown)
    fill, absent = fill_of(table, rows, found.parts, decoder.dtype)
    shape = lead + one.shape[one.nav :]
    made = StoredArray(path, files, layout, decoder, shape, names, len(lead), fill=fill, block=block, absent=row.absent)
    return made, [*found.absent(), *absent]


def _planes_of(table: PageTable, parts: Sequence[PageSeries | None], each: int) -> tuple[list[int], FoundPlanes]:
    """Find the planes of all parts.

    Args:
        each: number of planes of a file of which nothing can be read.

    Returns: (for each plane of the array, the row of its page or -1; the planes).
    """
    rows: list[int] = []
    others: list[Planes] = []
    for part in parts:
        if part is None:
            rows += [-1] * each
        elif part.planes:
            others += [planes.behind(len(rows)) for planes in part.planes]
            rows += [-1] * part.count
        else:
            rows += part.rows
    found = table.planes(rows)
    return rows, replace(found, parts=joined_planes([*found.parts, *others]))


FORMAT = Format(
    "tiff",
    (".tif", ".tiff", ".btf", ".tf8", ".tf2", ".lsm", ".stk", ".svs", ".scn", ".ndpi", ".qptiff", ".ptif", ".ptiff"),
    "https://www.itu.int/itudoc/itu-t/com16/tiff-fx/docs/tiff6.pdf",
    "TIFF and BigTIFF, stacks and sequences",
    sniff,
    open,
    terms=(*TERMS, *lsm.TERMS, *imagej.TERMS),
    original=original,
)
