"""Finds the page that holds each plane of an image, in the files of a set."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from vfs.errors import FormatError, TruncatedSourceError, VfsError
from vfs.formats.ome_tiff.document import Image
from vfs.formats.tiff_structure.kinds import Kind
from vfs.formats.tiff_structure.pages import PageTable
from vfs.formats.tiff_structure.structure import Structure
from vfs.model.files import Files
from vfs.model.sources import Sources
from vfs.model.stored import Absence
from vfs.sources.names import basename

_BLANKS = 1_000_000  # most blank planes if few are stored; with more, the document is garbled


class OmeSet:
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


@dataclass(frozen=True, eq=False)
class PlacedPlanes:
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

    def without(self, found: OmeSet, kind: Kind) -> PlacedPlanes:
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

    def attrs(self, found: OmeSet) -> dict[str, Any]:
        """Return attributes about planes that are not stored."""
        facts = {
            "files_missing": [basename(found.paths[f]) for f in np.unique(self.file[self.lost]).tolist()],
            "pages_missing": int(np.count_nonzero((self.row < 0) & ~self.lost)),
            "planes_blank": self.total - len(self.index),
            "runs_ignored": self.ignored,
        }
        return {name: value for name, value in facts.items() if value}


def place_planes(found: OmeSet, image: Image, nav: tuple[int, int, int], samples: int, holder: str) -> PlacedPlanes:
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
    return PlacedPlanes(index[keep], plane[keep], file_of[keep], row[keep], lost, ignored, total, again)
