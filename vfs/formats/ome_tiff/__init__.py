"""Reads OME-TIFF: https://docs.openmicroscopy.org/ome-model/latest/ome-tiff/specification.html

The description of a file's first page is an XML document. For every plane of every image it names
the page and the file that hold it. It may be in every file of a set, in one of them (`BinaryOnly`
files name it), or in a file of its own (`companion.ome`).

Every image is an array `t, c, z, y, x`, also with axes of length 1, and has a last axis `s` if
pixels have several samples. Smaller versions of it (in sub-directories) are arrays beside it,
`level_1/data`, …. A single image is `data`, several are `image_0/data`, ….

A missing file is an error. So are planes without a page: the document assigns them to no page, or to
a page that its file does not have. If they are the last planes in the document's order, the
acquisition was stopped, and there is only a warning. With `allow_incomplete` all these are blank.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from vfs.errors import FormatError, MissingSourceError, OptionError, TruncatedSourceError, VfsError
from vfs.formats import Format
from vfs.formats.ome_tiff.document import Image, dtype_of
from vfs.formats.ome_tiff.members import document_at, members, told_of
from vfs.formats.ome_tiff.per_plane import companions
from vfs.formats.ome_tiff.said import TERMS
from vfs.formats.tiff_structure.colour_maps import colours_of
from vfs.formats.tiff_structure.headers import described_as_ome, header_of
from vfs.formats.tiff_structure.kinds import Kind
from vfs.formats.tiff_structure.nodata import fill_of
from vfs.formats.tiff_structure.original import original
from vfs.formats.tiff_structure.pages import PageTable
from vfs.formats.tiff_structure.planes import arrange
from vfs.formats.tiff_structure.structure import Structure
from vfs.model.decode import PlainDecoder
from vfs.model.files import Files
from vfs.model.layout import FrameLayout, FrameRecord, Scan, altered
from vfs.model.metadata import Told
from vfs.model.sources import Sources
from vfs.model.stored import Absence, StoredArray
from vfs.model.wording import option
from vfs.model.written import Written
from vfs.sources.names import basename

_DIMS = ("t", "c", "z", "y", "x")
_BESIDE = re.compile(r"(label|macro|overview|thumbnail)( image)?", re.I)  # images of a slide scanner, by name
_BLANKS = 1_000_000  # most blank planes if few are stored; with more, the document is garbled
_LOOK = 1 << 20  # bytes of OME-XML that say where its pixels are


def sniff(path: str, head: bytes, sources: Sources) -> bool:
    if header_of(head) is None:
        if not head.lstrip(b"\xef\xbb\xbf\xff\xfe\0 \t\r\n").startswith(b"<"):
            return False
        text = head.decode("utf-16" if head[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8", "ignore")
        return (
            text.lstrip("\ufeff \t\r\n").startswith("<")
            and re.search(r"<(\w+:)?OME\s", text) is not None
            and "openmicroscopy.org" in text
            and not _holds_pixels(sources, path)
        )
    try:
        return described_as_ome(sources, path)
    except VfsError:
        return False


def _holds_pixels(sources: Sources, path: str) -> bool:
    """Return True for OME-XML that has pixels in its text (BinData), and names no page: it is another format."""
    text = sources.read(path, 0, _LOOK).replace(b"\0", b"")
    return b"BinData" in text and not (b"TiffData" in text or b"BinaryOnly" in text)


class _OmeSet:
    """Holds the files of a set, and the pages of existing files."""

    def __init__(self, sources: Sources, places: dict[tuple[str, str], str]) -> None:
        self.paths = tuple(dict.fromkeys(places.values()))
        number = {path: i for i, path in enumerate(self.paths)}
        self.number = {key: number[path] for key, path in places.items()}
        self.files = Files.stat(sources, self.paths, missing_ok=True)
        self.table = PageTable(sources)
        self.structures: dict[int, Structure] = {}
        self.errors: dict[int, FormatError | TruncatedSourceError] = {}
        for i, path in enumerate(self.paths):
            if self.files.sizes[i] < 0:
                self.table.skip(path, 0)
                continue
            try:
                self.structures[i] = self.table.add(path)
            except (FormatError, TruncatedSourceError) as error:
                self.errors[i] = error

    @property
    def gone(self) -> np.ndarray:
        """Which files do not exist, or have nothing that can be read: bool[n]."""
        gone = self.files.sizes < 0
        gone[list(self.errors)] = True
        return gone

    @property
    def cut(self) -> FormatError | TruncatedSourceError | None:
        """What is wrong with the first file of which only the first pages can be read; None if there is none."""
        return next((one.cut for one in self.structures.values() if one.cut is not None), None)

    def kind(self, row: int) -> Kind:
        kind = self.table.kinds[self.table.kind[row]]
        if not isinstance(kind, Kind):
            raise FormatError(
                f"{self.table.paths[self.table.file[row]]}: the page at byte {self.table.at[row]:,} cannot be read:"
                f" {kind}"
            )
        return kind

    def unlike(self, rows: np.ndarray, kind: Kind) -> np.ndarray:
        """Find the pages that cannot stand in an array of pages of a kind: bool[n]. A row is -1 without a page."""
        kinds = np.frombuffer(self.table.kind, np.int64)[np.maximum(rows, 0)] if len(self.table.kind) else rows
        unlike = [k for k, one in enumerate(self.table.kinds) if not (isinstance(one, Kind) and one.same(kind))]
        return (rows >= 0) & np.isin(kinds, unlike)


def open(paths: Sequence[str], sources: Sources) -> list[StoredArray]:
    """Open an OME-TIFF set by one of its files, or by its companion file.

    Raises:
        FormatError: a file or the document is garbled.
        TruncatedSourceError: a file is shorter than its pages.
        MissingSourceError: the named file, or the file that describes the set, does not exist.
        OptionError: the files do not belong to one set.
    """
    document, holder = document_at(sources, paths[0])
    places, strange = members(sources, document, holder)
    found = _OmeSet(sources, places)
    for path in paths[1:]:
        if path not in found.paths and path != holder:
            raise OptionError(
                f"{path}: does not belong to the set that {holder} describes ({len(found.paths)} files); open sets one"
                " by one"
            )
    out: list[StoredArray] = []
    absent: list[Absence] = []
    lost = damaged = 0
    told = Told(partial(told_of, sources, holder))
    named: list[np.ndarray] = []
    for k, image in enumerate(document.images):
        if image.runs:
            above = f"image_{k}/" if len(document.images) > 1 else ""
            placed, arrays = _arrays(found, image, above, holder)
            arrays[0] = altered(arrays[0], told=told.of(str(k)))
            arrays += companions(sources, holder, k, image, arrays[0])
            beside = _BESIDE.fullmatch(str(image.attrs.get("name", "")).strip()) is not None
            out += [altered(one, main=False) for one in arrays] if beside else arrays
            says = f"{holder}: its OME-XML says" + f" of image {k}" * bool(above)
            absent += [*placed.absent(says, found.cut), *placed.unlike]
            named += [placed.row, placed.odd]
            lost += int(np.count_nonzero(found.files.sizes[placed.file] < 0))
            damaged += int(np.count_nonzero(np.isin(placed.file, list(found.errors))))
    if not out:
        raise FormatError(f"{holder}: its OME-XML has no image with TiffData, which says where planes are")
    absent += _elsewhere(document.images, holder)
    gone = (*_lost(found, holder, lost, strange), *_damaged(found, damaged), *absent)
    gone += tuple(one for made in out for one in made.absent)
    gone += _in_no_image(found, holder, named)
    gone += tuple(one for structure in found.structures.values() for one in structure.without_values())
    shown = next((one for one in out if one.main is not False), None)  # the first image, as its programs show it
    out = [altered(one, main=True if one is shown else one.main if shown else None) for one in out]
    return [altered(d, absent=gone) for d in sorted(out, key=lambda d: -math.prod(d.shape) * d.dtype.itemsize)]


def _elsewhere(images: Sequence[Image], holder: str) -> list[Absence]:
    """Report images whose pixels are in the text of the document."""
    bare = [k for k, image in enumerate(images) if image.inside and not image.runs]
    if not bare:
        return []
    said = (
        f"{holder}: its OME-XML has pixels in its text (BinData) of image {bare[0]}"
        + f", and of {len(bare) - 1:,} more" * (len(bare) > 1)
    )
    return [Absence(f"{said}; they are not shown", counts={"frames_left_out": len(bare)})]


def _in_no_image(found: _OmeSet, holder: str, named: Sequence[np.ndarray]) -> tuple[Absence, ...]:
    """Report pages to which the document gives no plane.

    Args:
        named: rows of the pages of images.
    """
    rows = np.concatenate([np.asarray(one.rows) for one in found.structures.values()] or [np.zeros(0, np.int64)])
    left = np.setdiff1d(rows, np.concatenate([np.zeros(0, np.int64), *named]))
    if not len(left):
        return ()
    said = (
        f"{holder}: its OME-XML has no plane for {len(left):,} of {len(rows):,} pages; open with"
        f" {option(format='tiff')} to see them"
    )
    return (Absence(said, counts={"frames_left_out": len(left)}),)


def _damaged(found: _OmeSet, planes: int) -> tuple[Absence, ...]:
    """Report the files of which nothing can be read, with so many planes."""
    if not found.errors:
        return ()
    error = next(iter(found.errors.values()))
    more = len(found.errors) - 1
    said = str(error) + f", and {more:,} more files" * bool(more)
    return (Absence(said, type(error), "shows the planes of such files as blank", {"frames_missing": planes}),)


def _lost(found: _OmeSet, holder: str, planes: int, strange: Sequence[str]) -> tuple[Absence, ...]:
    """Report the files that do not exist.

    Args:
        planes: number of planes in them.
        strange: words for each file that has the name of one of them, and is another one.
    """
    gone = tuple([path for path, size in zip(found.paths, found.files.sizes.tolist(), strict=True) if size < 0])
    if not gone:
        return ()
    names = ", ".join([basename(path) for path in gone[:3]]) + ", …" * (len(gone) > 3)
    said = (
        f"{holder}: its OME-XML names {names}: missing, {len(gone):,} of {len(found.paths):,} files with {planes:,}"
        " planes"
    )
    said += "".join(f"; {words}" for words in strange[:3]) + "; …" * (len(strange) > 3)
    counts = {"files_missing": len(gone), "frames_missing": planes}
    return (Absence(said, MissingSourceError, "shows their planes as blank", counts, gone),)


def _arrays(found: _OmeSet, image: Image, above: str, holder: str) -> tuple[_PlacedPlanes, list[StoredArray]]:
    """Return (places of the planes of an image, its arrays: the image and its smaller versions)."""
    kind = _kind(found, image)
    samples = image.samples if kind is None else kind.shaped[0] * kind.shaped[4]
    if image.sizes["C"] % samples:
        raise FormatError(
            f"{holder}: its OME-XML says SizeC={image.sizes['C']}, its pages have {samples} samples a pixel"
        )
    nav = image.sizes["T"], image.sizes["C"] // samples, image.sizes["Z"]
    size = image.sizes["Y"], image.sizes["X"]
    if kind is not None and (kind.shaped[1] != 1 or kind.shaped[2:4] != size):
        raise FormatError(
            f"{holder}: its OME-XML says an image of {size}, its pages are {kind.shape}; open with"
            f" {option(format='tiff')} to see the pages"
        )
    dtype = declared = dtype_of(image.type)
    if kind is not None and (kind.signed or dtype is None or dtype.itemsize != kind.dtype.itemsize):
        dtype = kind.dtype  # the document decides only if pages do not tell if their numbers are signed
    if dtype is None:
        raise FormatError(
            f"{holder}: its OME-XML says pixels of type {image.type[:40]!r}, and no page of the image exists"
        )
    if math.prod(nav) * math.prod(size) * samples * dtype.itemsize >= 1 << 62:
        raise FormatError(f"{holder}: its OME-XML says an image of {image.sizes}, which is absurd")
    placed = _place_planes(found, image, nav, samples, holder)
    if kind is not None:
        placed = placed.without(found, kind)
    attrs = {**image.attrs, **placed.attrs(found), **({} if kind is None else kind.facts)}
    if kind is not None:
        attrs |= colours_of(found.table, [placed.row.reshape(-1)], kind.facts)
    if kind is None or not (placed.row >= 0).any():
        sig = size + ((samples,) if samples > 1 else ())
        layout = FrameLayout.of(FrameRecord(sig, dtype.itemsize), []).arranged(Scan(nav))
        return placed, [
            StoredArray(
                above + "data",
                found.files,
                layout,
                PlainDecoder(dtype),
                nav + sig,
                _DIMS + ("s",) * (samples > 1),
                3,
                attrs=attrs,
            )
        ]
    main = _array(found, above + "data", placed, placed.row, nav, dtype, attrs)
    if declared is not None and dtype.newbyteorder("=") != declared.newbyteorder("="):
        said = f"{holder}: its OME-XML says pixels of type {image.type}, its pages hold {dtype.name}: shown as these"
        main = altered(main, absent=(*main.absent, Absence(said)))
    out = [main]
    for level, rows in enumerate(_smaller(found, placed), 1):
        out.append(_array(found, f"{above}level_{level}/data", placed, rows, nav, dtype, {"level": level}))
    return placed, out


def _kind(found: _OmeSet, image: Image) -> Kind | None:
    """Return the kind of the pages of an image; None if no page exists.

    Raises:
        FormatError: the first page of each of its runs cannot be read.
    """
    size = image.sizes["Y"], image.sizes["X"]
    structures = [(found.structures.get(found.number[run.file]), run.ifd) for run in image.runs]
    rows = [one.rows[ifd] for one, ifd in structures if one is not None and ifd < len(one.rows)]
    kinds = {number: found.table.kinds[number] for number in dict.fromkeys(found.table.kind[row] for row in rows)}
    good = [kind for kind in kinds.values() if isinstance(kind, Kind)]
    if rows and not good:
        return found.kind(rows[0])
    return next((kind for kind in good if kind.shaped[2:4] == size), good[0] if good else None)


@dataclass(frozen=True, eq=False)
class _PlacedPlanes:
    """Holds the places of the planes of an image.

    Attributes:
        index: int64[p], position in C order of t, c, z; ascending.
        plane: int64[p], position in the order of the document.
        file: int64[p], number of the file in the set.
        row: int64[p], row in the table of pages; -1 if the file or the page is missing.
        lost: bool[p], True if the file is missing, or nothing of it can be read.
        ignored: number of runs that begin outside of the image.
        total: number of planes that the image should have.
        again: number of pages that are not shown, since a later run names another page for their plane.
        odd: int64[n], rows of pages of another kind.
        unlike: what to say of them.
    """

    index: np.ndarray
    plane: np.ndarray
    file: np.ndarray
    row: np.ndarray
    lost: np.ndarray
    ignored: int
    total: int
    again: int = 0
    odd: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    unlike: tuple[Absence, ...] = ()

    def without(self, found: _OmeSet, kind: Kind) -> _PlacedPlanes:
        """Return the same planes without those whose pages cannot stand in an array of pages of a kind."""
        odd = np.flatnonzero(found.unlike(self.row, kind))
        if not len(odd):
            return self
        keep = np.ones(len(self.row), bool)
        keep[odd] = False
        row, table = int(self.row[odd[0]]), found.table
        other = table.kinds[table.kind[row]]
        said = (
            f"{table.paths[table.file[row]]}: the page at byte {table.at[row]:,} "
            + (
                f"is stored differently, {other}, expected {kind}"
                if isinstance(other, Kind)
                else f"cannot be read: {other}"
            )
            + f", and {len(odd) - 1:,} more" * (len(odd) > 1)
        )
        gone = Absence(said, FormatError, "shows such planes as blank", {"frames_missing": len(odd)})
        columns = {name: getattr(self, name)[keep] for name in ("index", "plane", "file", "row", "lost")}
        return replace(self, **columns, total=self.total - len(odd), odd=self.row[odd], unlike=(gone,))

    def absent(self, says: str, cut: FormatError | TruncatedSourceError | None) -> Iterator[Absence]:
        """Yield the absences besides missing files.

        Args:
            says: beginning of the messages.
            cut: what is wrong with a file of which only the first pages can be read.
        """
        known = self.lost | (self.row >= 0)
        blank = self.total - int(known.sum())
        if blank:
            pages = int((~known).sum())
            at_end = not known.any() or int(self.plane[known].max()) + 1 == int(known.sum())
            said = (
                f"{says} {self.total:,} planes, {self.total - blank:,} have a page: {'the last ' * at_end}{blank:,}"
                f" {'is' if blank == 1 else 'are'} blank"
            )
            said += f", {pages:,} of a page that its file does not have; it looks truncated" if pages else ""
            refused: type[VfsError] | None = None if at_end else TruncatedSourceError if pages else FormatError
            if cut is not None:
                said, refused = f"{said} ({cut})", type(cut)
            yield Absence(said, refused, "shows them so", {"frames_missing": blank})
        if self.again:
            yield Absence(
                f"{says} several pages for one plane, {self.again:,} {'time' if self.again == 1 else 'times'}: the last"
                " of them is shown"
            )
        if self.ignored:
            yield Absence(
                f"{says} {self.ignored:,} runs of planes that begin outside of the image; these are not shown",
                counts={"frames_left_out": self.ignored},
            )

    def attrs(self, found: _OmeSet) -> dict[str, Any]:
        """Return attributes about planes that are not stored."""
        facts = {
            "files_missing": [basename(found.paths[f]) for f in np.unique(self.file[self.lost]).tolist()],
            "pages_missing": int(np.count_nonzero((self.row < 0) & ~self.lost)),
            "planes_blank": self.total - len(self.index),
            "runs_ignored": self.ignored,
        }
        return {name: value for name, value in facts.items() if value}


def _place_planes(found: _OmeSet, image: Image, nav: tuple[int, int, int], samples: int, holder: str) -> _PlacedPlanes:
    size = dict(zip("TCZ", nav, strict=True))
    a, b, c = tuple(image.order[2:])  # the fastest first
    total = math.prod(nav)
    pages = 1 + sum(len(s.rows) for s in found.structures.values())
    runs: list[tuple[int, int, int, int]] = []  # first plane in the dimension order, planes, file, first page
    ignored = claimed = typical = 0
    for run in image.runs:
        at = dict(zip("ZCT", run.first, strict=True))
        if at["C"] >= size["C"]:
            at["C"] //= samples  # some programs count samples in this attribute
        start = at[a] + size[a] * (at[b] + size[b] * at[c])
        file = found.number[run.file]
        structure = found.structures.get(file)
        count = run.count
        if count is None:
            count = max(1, typical) if structure is None else max(0, len(structure.rows) - run.ifd)
            typical = max(typical, count)
        count = min(count, total - start)
        if any(at[axis] >= size[axis] for axis in "ZCT") or count < 1:
            ignored += 1
            continue
        claimed += count
        if claimed > _BLANKS and claimed > 1000 * pages:
            raise FormatError(
                f"{holder}: its OME-XML says where {claimed:,} planes are, the files have {pages - 1:,} pages; it is"
                " garbled"
            )
        runs.append((start, count, file, run.ifd))
    if not runs:
        raise FormatError(f"{holder}: its OME-XML puts every plane outside of its image of {image.sizes}")
    if total > _BLANKS and total > 1000 * claimed:
        raise FormatError(
            f"{holder}: its OME-XML says an image of {total:,} planes and where {claimed:,} of them are; it is garbled"
        )

    starts, counts, files, ifds = np.array(runs, np.int64).T
    within = np.arange(claimed) - np.repeat(np.cumsum(counts) - counts, counts)
    plane, file_of, page = (
        np.repeat(starts, counts) + within,
        np.repeat(files, counts),
        np.repeat(ifds, counts) + within,
    )
    along = {a: plane % size[a], b: plane // size[a] % size[b], c: plane // (size[a] * size[b])}
    index = (along["T"] * size["C"] + along["C"]) * size["Z"] + along["Z"]
    begin, length = np.zeros(len(found.paths), np.int64), np.zeros(len(found.paths), np.int64)
    for k, structure in found.structures.items():
        begin[k], length[k] = structure.rows.start, len(structure.rows)
    row = np.where(page < length[file_of], begin[file_of] + page, -1)
    _, last, of = np.unique(index[::-1], return_index=True, return_inverse=True)  # of several runs the last one counts
    keep = claimed - 1 - last
    again = int(np.count_nonzero((row[::-1] != row[keep][of.reshape(-1)]) & (row[::-1] >= 0)))
    lost = found.gone[file_of[keep]]
    return _PlacedPlanes(index[keep], plane[keep], file_of[keep], row[keep], lost, ignored, total, again)


def _array(
    found: _OmeSet,
    path: str,
    placed: _PlacedPlanes,
    rows: np.ndarray,
    nav: tuple[int, ...],
    dtype: np.dtype,
    attrs: dict[str, Any],
) -> StoredArray:
    """Make the array of pages, one for each of the planes of `placed`."""
    kind = found.kind(int(rows[rows >= 0][0]))
    shown = (2, 3, 0) if kind.shaped[0] > 1 else (2, 3, 4) if kind.shaped[4] > 1 else (2, 3)
    planes = found.table.planes(rows, kind.shaped[0] == 1)
    layout, decoder, block = arrange(planes.parts, placed.index, nav, kind, shown, dtype)
    fill, absent = fill_of(found.table, rows, planes.parts, dtype)
    dims = _DIMS + ("s",) * (len(shown) - 2)
    shape = nav + tuple(kind.shaped[k] for k in shown)
    gone, said = (*planes.absent(), *absent), math.prod(nav)
    made = StoredArray(path, found.files, layout, decoder, shape, dims, 3, fill=fill, block=block, attrs=attrs)
    return altered(made, absent=gone, written=Written(said))


def _smaller(found: _OmeSet, placed: _PlacedPlanes) -> Iterator[np.ndarray]:
    """Yield the pages of smaller versions, as `_PlacedPlanes.row`, if every page that exists has one."""
    there = placed.row >= 0
    pairs = list(zip(placed.file[there].tolist(), placed.row[there].tolist(), strict=True))
    levels = len(found.structures[pairs[0][0]].subs.get(pairs[0][1], ())) if pairs else 0
    if not levels:
        return
    subs = [found.structures[file].subs.get(row, []) for file, row in pairs]
    for level in range(levels):
        rows = np.full(len(placed.row), -1)
        rows[there] = [s[level] if level < len(s) else -1 for s in subs]
        if (rows[there] >= 0).all() and not found.unlike(rows, found.kind(int(rows[there][0]))).any():
            yield rows


FORMAT = Format(
    "ome_tiff",
    (".ome.tif", ".ome.tiff", ".ome.btf", ".ome.tf2", ".ome.tf8", ".companion.ome", ".ome"),
    "https://docs.openmicroscopy.org/ome-model/latest/ome-tiff/specification.html",
    "OME-TIFF: one or many files, planes in any order",
    sniff,
    open,
    index_extensions=(".companion.ome", ".ome"),
    original=original,
    terms=TERMS,
)
