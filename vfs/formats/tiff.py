"""Reads TIFF and BigTIFF: https://www.itu.int/itudoc/itu-t/com16/tiff-fx/docs/tiff6.pdf

BigTIFF: https://www.awaresystems.be/imaging/tiff/bigtiff.html. Pages that are stored alike are one
array, with a leading axis if there are several. A file with several kinds of pages has several
arrays (`series_0/data`, `series_1/data`, …; `data` if there is one); smaller versions of an array
are arrays beside it (`level_1/data`, …). ImageJ, tifffile, Zeiss LSM, MetaMorph STK, FluoView and
ScanImage store metadata about dimensions: tifffile reads them, and `plain=True` ignores them. Pixels
are shown as they are stored: palettes as indices, 1-bit pixels as uint8, separate samples (planar
RGB) as a first axis `s`, samples in a pixel as a last one.

Several files that are alike are stacked along a new first axis; with `concatenate=True` the pages
of all files follow each other. A gap in the numbers of the files' names means a missing file (see
`vfs.formats.numbering`), which is an error; with `allow_incomplete` its place is blank.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from vfs.boundary import open_stream
from vfs.errors import FormatError, OptionError, TruncatedSourceError, VfsError
from vfs.formats import Format
from vfs.formats.numbering import joined
from vfs.formats.tiff_structure.headers import (
    DESCRIPTION,
    SOFTWARE,
    Kind,
    Reader,
    beside_others,
    described_as_ome,
    header_of,
    quiet,
    tifffile,
)
from vfs.formats.tiff_structure.pages import PageTable, Structure
from vfs.formats.tiff_structure.planes import Planes, arrange, complaint_of
from vfs.formats.tiff_structure.scales import calibration, dots
from vfs.model.layout import altered
from vfs.model.stored import Files, StoredArray

# Kinds of metadata that tifffile turns into dimensions, in its order
_METADATA = ("shaped", "lsm", "imagej", "fluoview", "stk", "scanimage")
_MARKS = {34412, 34362, 33628}  # tags of LSM, FluoView, STK
_TEXTS = {"description": DESCRIPTION, "make": 271, "model": 272, "software": SOFTWARE, "date_time": 306, "artist": 315}
_TRIES = 16  # after so many files in a row that differ from the first one, the rest is not compared with it
_LONGEST = 1 << 16  # most characters of a text that is shown as an attribute
_HINT = "plain=True (-o plain=true) shows the bare pages"
# tifffile's letters for pages and for unknown axes; other letters are used as names unchanged
_AXES = {"I": "frame", "Q": "frame"}


def sniff(path: str, head: bytes) -> bool:
    if header_of(head) is None:
        return False
    try:
        return not described_as_ome(path)
    except VfsError:
        return True  # it is a garbled TIFF: opening raises the error


@dataclass(frozen=True, eq=False)
class _PageSeries:
    """Holds the pages that make up one array in one file.

    Attributes:
        axes: axes of the array, in tifffile's letters.
        shape: shape of the array; the first `nav` axes count pages.
        shown: the axes of a page to which the other axes correspond, see
            `vfs.formats.tiff_structure.planes.arrange`.
        rows: rows of the pages in the table; empty if `planes` has their places.
        planes: places of the pages that tifffile reports.
        metadata: kind of the metadata that were used; "" if pages were just counted.
        levels: smaller versions.
        files: number of files that have these pages, an equal number in each.
    """

    kind: Kind
    axes: str
    shape: tuple[int, ...]
    nav: int
    shown: tuple[int, ...]
    rows: Sequence[int] = ()
    planes: Planes | None = None
    metadata: str = ""
    levels: list[_PageSeries] = field(default_factory=list)
    files: int = 1

    def of_files(self, row: int, count: int) -> _PageSeries:
        """Return the same series for `count` other files of one page each, whose pages begin with `row`."""
        return replace(self, rows=range(row, row + count), files=count)


def _counted(table: PageTable, found: Structure) -> tuple[list[_PageSeries], list[str]]:
    """Make the series of a file without metadata about dimensions, by counting its pages.

    Returns: (series, reasons for which pages are left out).
    """
    groups: dict[int, list[int]] = {}
    for row in found.rows:
        groups.setdefault(table.kind[row], []).append(row)
        for sub in found.subs.get(row, ()):
            if sub >= 0:
                groups.setdefault(table.kind[sub], []).append(sub)
    out: list[_PageSeries] = []
    without: list[str] = []
    for number, rows in groups.items():
        kind = table.kinds[number]
        if isinstance(kind, str):
            if rows[0] == found.rows[0]:
                raise FormatError(f"{found.path}: the page at byte {table.at[rows[0]]:,} cannot be read: {kind}")
            without.append(f"the page at byte {table.at[rows[0]]:,}: {kind}")
            continue
        lead = (len(rows),) if len(rows) > 1 else ()
        out.append(
            _PageSeries(kind, "I" * len(lead) + kind.axes, lead + kind.shape, len(lead), kind.shown, tuple(rows))
        )
    main = set(found.rows)
    return _pyramids(out, [s for s in out if s.rows[0] in main]), without


def _pyramids(series: list[_PageSeries], tops: Sequence[_PageSeries]) -> list[_PageSeries]:
    """Move series that are smaller versions of another one to the levels of that one.

    They are half, a third or a quarter as long along x, y and z.
    """
    left = list(series)
    for top in tops:
        if top not in left:
            continue
        last, factor = top, 0
        for other in left[left.index(top) + 1 :]:
            fits = [f for f in ((factor,) if factor else (2, 3, 4)) if _smaller(last, other, f)]
            if fits:
                factor, last = fits[0], other
                top.levels.append(other)
                left.remove(other)
    return left


def _smaller(a: _PageSeries, b: _PageSeries, factor: int) -> bool:
    def fits(axis: str, n: int, m: int) -> bool:
        return n >= factor and m in (n // factor, -(-n // factor)) if axis in "XYZ" else n == m

    return a.axes == b.axes and a.kind.dtype == b.kind.dtype and all(map(fits, a.axes, a.shape, b.shape))


def _has_metadata(table: PageTable, found: Structure) -> bool:
    """Return True if the file's metadata tell more about dimensions than counting its pages does."""
    if _MARKS & set(found.tags):
        return True
    text = found.text(DESCRIPTION)
    kind = table.kinds[table.kind[found.rows[0]]]
    if text.startswith("ImageJ="):
        return len(found.rows) > 1 or re.search(r"^images=0*[2-9]|^images=0*1\d", text, re.M) is not None
    shape = _shaped(text)
    if shape is not None:
        return isinstance(kind, str) or len(found.rows) > 1 or shape != kind.shape or '"axes"' in text
    return found.text(SOFTWARE, 256).startswith("SI.") or text.startswith("state.") or "scanimage.SI" in text[-256:]


def _shaped(text: str) -> tuple[int, ...] | None:
    """Return the shape in a description that tifffile wrote; None if there is none."""
    if not (text.startswith("shape=(") or (text.startswith("{") and '"shape"' in text)):
        return None
    return tuple(
        int(n) for n in re.findall(r"\d+", text.partition("]" if text[0] == "{" else ")")[0].partition("shape")[2])
    )


def _all_paged(table: PageTable, found: Structure) -> bool:
    """Return True if every page that tifffile's description counts has a directory of its own.

    This is true if another program appended pages. Otherwise planes without a directory follow the
    first one, and counting pages would leave them out.
    """
    shape = _shaped(found.text(DESCRIPTION))
    kind = table.kinds[table.kind[found.rows[0]]]
    if shape is None or isinstance(kind, str):
        return False
    count, rest = divmod(math.prod(shape), math.prod(kind.shape))
    alike = sum(1 for row in found.rows[:count] if table.kind[row] == table.kind[found.rows[0]])
    if rest or alike < count:
        return False
    if count == 1 or not kind.plain or int(kind.segment_bytes().sum()) != kind.nbytes:
        return True
    first, last = table.planes([found.rows[0], found.rows[count - 1]]).offsets[:, 0].tolist()
    end = first + count * kind.nbytes
    return last < end or any(first < table.at[row] < end for row in found.rows[1:])


def _from_metadata(table: PageTable, found: Structure) -> list[_PageSeries]:
    """Make the series of a file by its metadata, which tifffile interprets.

    Raises:
        FormatError: the metadata do not fit the pages.
    """
    try:
        with open_stream(found.path) as stream, quiet(), np.errstate(all="ignore"):
            file = tifffile().TiffFile(
                stream, name=os.path.basename(found.path), is_ome=False, is_mmstack=False, is_ndtiff=False
            )
            marks = [kind for kind in _METADATA if getattr(file, f"is_{kind}")]
            series = file.series
            if not marks:
                return []
            if series[0].kind not in marks:
                if _all_paged(table, found):
                    return []
                raise TruncatedSourceError(
                    f"{found.path}: its {marks[0]} metadata say more than its pages hold; it looks truncated; {_HINT}"
                )
            return [
                replace(
                    _from_tifffile(table, found, s),
                    levels=[_from_tifffile(table, found, level) for level in s.levels[1:]],
                )
                for s in series
            ]
    except (VfsError, MemoryError):
        raise
    except Exception as error:
        raise FormatError(
            f"{found.path}: its metadata cannot be understood: {' '.join(str(error).split())[:200]}; {_HINT}"
        ) from None


def _from_tifffile(table: PageTable, found: Structure, series: Any) -> _PageSeries:
    key = series.keyframe
    with Reader(found.path) as reader:
        data, first, _ = reader.directory(key.offset)
        number = table.kind_of_entries(reader, reader.entries(data, first), t317=int(key.predictor))
    kind = table.kinds[number]
    if isinstance(kind, str) or kind.shaped != tuple(key.shaped) or kind.stored.itemsize != series.dtype.itemsize:
        raise FormatError(
            f"{found.path}: the page at byte {key.offset:,} cannot be read:"
            f" {kind if isinstance(kind, str) else kind.facts}; {_HINT}"
        )
    shape = tuple(int(n) for n in series.shape)
    count, rest = divmod(math.prod(shape), math.prod(kind.shape))
    nav, shown = _split(shape, kind, count)
    if rest or nav < 0 or not count:
        raise FormatError(
            f"{found.path}: its {series.kind} metadata say an array of {shape}, its pages are {kind.shape}; {_HINT}"
        )
    pages = list(series.pages)
    if kind.plain and series.dataoffset is not None:
        if series.dataoffset + count * kind.nbytes > found.size:
            raise TruncatedSourceError(
                f"{found.path}: its {series.kind} metadata say {count:,} planes of {kind.nbytes:,} bytes, the file ends"
                f" before; it looks truncated; {_HINT}"
            )
        at = np.array(table.at[found.rows.start : found.rows.stop])
        if ((at > series.dataoffset) & (at < series.dataoffset + count * kind.nbytes)).any():
            raise FormatError(
                f"{found.path}: its {series.kind} metadata say {count:,} planes in one piece, in which there are"
                f" directories; {_HINT}"
            )
        offsets = series.dataoffset + np.arange(count, dtype=np.int64)[:, None] * kind.nbytes
        sizes = np.full_like(offsets, kind.nbytes)
    elif len(pages) != count:
        raise FormatError(
            f"{found.path}: its {series.kind} metadata say {count:,} pages, the file has {len(pages):,}; {_HINT}"
        )
    else:
        segments = math.prod(kind.grid)
        offsets, sizes = np.zeros((count, segments), np.int64), np.zeros((count, segments), np.int64)
        for i, page in enumerate(pages):
            if page is not None:
                offsets[i], sizes[i] = page.dataoffsets[:segments], page.databytecounts[:segments]
    wrong = complaint_of(kind, offsets, sizes, np.full(count, found.size, np.int64))
    if wrong is not None:
        raise wrong[1](f"{found.path}: page {wrong[0]} {wrong[2]}")
    if kind.plain and offsets.shape[1] > 1 and kind.in_one_piece(offsets, sizes):
        offsets, sizes = offsets[:, :1], np.full((count, 1), kind.nbytes, np.int64)
    planes = Planes(kind, np.full(count, found.index, np.int64), offsets, sizes)
    return _PageSeries(kind, series.axes, shape, nav, shown, planes=planes, metadata=series.kind)


def _split(shape: tuple[int, ...], kind: Kind, count: int) -> tuple[int, tuple[int, ...]]:
    """Split the axes of an array into those that count pages and those of a page.

    Returns: (number of axes that count pages, axes of a page to which the others correspond);
        (-1, ()) if the split is not possible.
    """
    long = [k for k in kind.shown if kind.shaped[k] > 1]
    for nav in sorted(range(len(shape) + 1), key=lambda n: (abs(len(shape) - n - len(kind.shape)), n)):
        rest = shape[nav:]
        if math.prod(shape[:nav]) == count and [n for n in rest if n > 1] == [kind.shaped[k] for k in long]:
            if rest == kind.shape:
                return nav, kind.shown
            left = iter(long)
            return nav, tuple(next(left) if n > 1 else -1 for n in rest)
    return -1, ()


def _names(axes: str) -> tuple[str, ...]:
    """Name axes by tifffile's letters. Names that occur twice are numbered."""
    names = [_AXES.get(letter, letter.lower()) for letter in axes]
    return tuple(f"{name}_{names[:k].count(name)}" if name in names[:k] else name for k, name in enumerate(names))


def _attrs(found: Structure, series: _PageSeries, without: Sequence[str]) -> dict[str, Any]:
    attrs: dict[str, Any] = {
        "axes": series.axes,
        "pages": len(found.rows),
        "byte_order": "little" if found.order == "<" else "big",
        "bigtiff": found.big,
    }
    attrs |= series.kind.facts
    if series.metadata:
        attrs["metadata_of"] = series.metadata
    for name, tag in _TEXTS.items():
        text = found.text(tag, _LONGEST).strip()
        if text:
            attrs[name] = text
    if said := dots(found):
        attrs["dots"] = said
    if known := calibration(found):
        attrs["calibration"] = known
    if without:
        attrs["left_out"] = list(without)
    return attrs


def open(paths: Sequence[str], *, plain: bool = False, concatenate: bool = False) -> list[StoredArray]:
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
    files = Files.stat(paths)
    table = PageTable()
    members: list[list[_PageSeries]] = []
    first: Structure | None = None
    without: list[str] = []
    lead: _PageSeries | None = None
    behind, tries = 0, _TRIES
    for path, size in zip(files.paths, files.sizes.tolist(), strict=True):
        if lead is not None and tries:
            if table.follow(path, size):
                behind, tries = behind + 1, _TRIES
                continue
            tries -= 1
        if lead is not None and behind:
            members.append([lead.of_files(len(table.at) - behind, behind)])
            behind = 0
        found = table.add(path)
        left_out: list[str] = []
        told = not plain and _has_metadata(table, found)
        series = _from_metadata(table, found) if told else []
        if not series:
            series, left_out = _counted(table, found)
        if first is None:
            first, without = found, left_out
            if len(series) == 1 and not told and len(files) > 1 and table.set_example(found):
                lead = series[0]
        elif [s.axes for s in series] != [s.axes for s in members[0]]:
            raise FormatError(
                f"{path}: holds {_described(series)}, expected {_described(members[0])} as in {files.paths[0]}; files"
                " of a sequence must be alike"
            )
        members.append(series)
    if lead is not None and behind:
        members.append([lead.of_files(len(table.at) - behind, behind)])
    assert first is not None
    out = []
    aside = _aside(table, members[0])
    for k, main in enumerate(members[0]):
        above = f"series_{k}/" if len(members[0]) > 1 else ""
        attrs = _attrs(first, main, without)
        for level, one in enumerate([main, *main.levels]):
            parts = [m[k] if level == 0 else m[k].levels[level - 1] for m in members if level <= len(m[k].levels)]
            if len(parts) != len(members):
                continue  # not every file has this smaller version
            path = above + ("data" if level == 0 else f"level_{level}/data")
            out.append(
                _dataset(
                    table,
                    files,
                    path,
                    parts,
                    concatenate,
                    attrs if level == 0 else {"axes": one.axes, "level": level, **one.kind.facts},
                    False if aside[k] else None,
                )
            )
    if not out:
        raise FormatError(f"{files.paths[0]}: no page can be read")
    out.sort(key=lambda d: -math.prod(d.shape) * d.dtype.itemsize)
    return [altered(d, absent=out[0].absent) for d in out]  # all arrays lack the same files


def _aside(table: PageTable, series: Sequence[_PageSeries]) -> list[bool]:
    """Find the series that are smaller versions or masks of others, as their first pages say: none if all are."""
    if len(series) < 2:
        return [False] * len(series)
    rows = [one.rows[0] if one.rows else None for one in series]
    aside = [row is not None and beside_others(table.paths[table.file[row]], table.at[row]) for row in rows]
    return [False] * len(series) if all(aside) else aside


def _described(series: Sequence[_PageSeries]) -> str:
    return " and ".join(f"{s.kind.dtype}{list(s.shape)}" for s in series) or "nothing"


def _dataset(
    table: PageTable,
    files: Files,
    path: str,
    parts: Sequence[_PageSeries],
    concatenate: bool,
    attrs: dict[str, Any],
    main: bool | None,
) -> StoredArray:
    """Make one array from its parts in all files."""
    one = parts[0]
    begins = np.cumsum([0, *(p.files for p in parts)]).tolist()
    for part, begin in zip(parts, begins, strict=False):
        name = files.paths[begin]
        alike = part.shape == one.shape or (concatenate and part.kind.shape == one.kind.shape)
        if not (alike and part.kind.same(one.kind)):
            hint = (
                "; concatenate=True puts the pages of all files one after the other" if part.kind.same(one.kind) else ""
            )
            raise FormatError(
                f"{name}: holds {_described([part])}, expected {_described([one])} as in {files.paths[0]}; files of a"
                f" sequence must be alike{hint}"
            )
    lead, nav_axes = one.shape[: one.nav], one.axes[: one.nav]
    counts = [n for p in parts for n in [math.prod(p.shape[: p.nav])] * p.files]
    row = joined(files.paths, counts)
    names = _names(one.axes)
    if concatenate:
        lead, names = (row.frames,), ("frame", *_names(one.axes[one.nav :]))
    elif begins[-1] > 1:
        lead, names = (row.frames // math.prod(lead), *lead), ("file" if nav_axes else "frame", *names)
    index = np.arange(sum(counts))
    if row.frames > len(index):
        index += np.repeat(row.first - (np.cumsum(counts) - counts), counts)
    layout, decoder, block = arrange(_planes_of(table, parts), index, lead, one.shown)
    shape = lead + one.shape[one.nav :]
    return StoredArray(
        path, files, layout, decoder, shape, names, len(lead), block=block, attrs=attrs, absent=row.absent, main=main
    )


def _planes_of(table: PageTable, parts: Sequence[_PageSeries]) -> Planes:
    """Find the planes of all parts."""
    if all(p.planes is None for p in parts):
        return table.planes([row for p in parts for row in p.rows])
    every = [p.planes or table.planes(p.rows) for p in parts]
    if len({p.offsets.shape[1] for p in every}) > 1:
        raise OptionError("the files of the sequence are cut into strips differently")
    columns = [np.concatenate([getattr(p, name) for p in every]) for name in ("file", "offsets", "sizes")]
    return Planes(every[0].kind, *columns)


FORMAT = Format(
    "tiff",
    (".tif", ".tiff", ".btf", ".tf8", ".lsm", ".stk"),
    "https://www.itu.int/itudoc/itu-t/com16/tiff-fx/docs/tiff6.pdf",
    "TIFF and BigTIFF, stacks and sequences",
    sniff,
    open,
)
