"""Finds where the pixels of all pages of all files of a TIFF set are.

The formats `tiff` and `ome_tiff` share the modules of this folder. While a set is opened, a
`PageTable` is filled with a row of plain numbers for each page (10^5 pages take 0.4 s and some
15 MB; as objects of tifffile they take 11 s and 290 MB). `vfs.formats.tiff_structure.planes` turns
rows into a layout and a decoder.

A sequence of 10^5 files of one page each opens in 1.8 s if the files are alike: the header, the
directory and the texts of each file are compared with those of the first (`PageTable.follow`), and
only a file that differs is parsed.

Every number in a file is checked against the size of the file before it is used: directories that
run in a circle, overlap or lie outside, segments beyond the end and absurd sizes are errors, in
bounded time and memory.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from vfs.errors import FormatError, TruncatedSourceError
from vfs.formats.tiff_structure.alike import (
    MISSING,
    START,
    STRIP_SIZES,
    STRIPS,
    SUB,
    TILE_SIZES,
    TILES,
    WHERE,
    FilePattern,
    PagePattern,
)
from vfs.formats.tiff_structure.headers import DESCRIPTION, Field, Reader
from vfs.formats.tiff_structure.kinds import HOW, Kind, Unreadable, make_kind, storage_value
from vfs.formats.tiff_structure.places import Planes, complaints, joined_planes
from vfs.formats.tiff_structure.structure import Structure, lost_text, lost_values, within
from vfs.model.sources import Sources
from vfs.model.stored import Absence

_KINDS = 1000  # most kinds of pages in a set; tifffile takes a fraction of a millisecond for each
_SUBS = 64  # most smaller versions that a page may have
_BATCH = 1 << 20  # segments checked at once

# columns of `PageTable._where`
_O_TYPE, _O_COUNT, _O_AT, _C_TYPE, _C_COUNT, _C_AT = range(6)


class PageTable:
    """Holds the pages of any number of files, one row for each.

    Attributes:
        paths, sizes: paths and sizes of the files, in the order of `add`, `follow` and `skip`.
        file: for every page, number of its file.
        at: for every page, byte of its directory.
        kind: for every page, index into `kinds`.
        kinds: kinds of pages.
    """

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self.paths: list[str] = []
        self.sizes: list[int] = []
        self.file, self.at, self.kind = array("q"), array("q"), array("q")
        self.kinds: list[Kind | Unreadable] = []
        self._numbers: dict[object, int] = {}  # tags about storage -> number of the kind
        # Six numbers per page: type, count and place of the offsets, and of the byte counts; see `_place`
        self._where = array("q")
        self._like: PagePattern | None = None  # pattern of the page before
        self._example: FilePattern | None = None  # pattern of the file with which `follow` compares

    def set_example(self, found: Structure) -> bool:
        """Let `follow` compare other files of one page with this one, which was added last.

        Returns: True if that is possible.
        """
        self._example = None
        if len(found.rows) == 1 and not found.subs and self._like is not None:
            self._example = FilePattern.of(self.sources, found.path, self.at[found.rows[0]], self._like)
        return self._example is not None

    def follow(self, path: str, size: int) -> bool:
        """Add a file of `size` bytes if it equals the example except for places.

        Returns: False if it does not; then the table stays as it is, and the caller uses `add`.

        Raises:
            SourceError: the file cannot be opened or read.
        """
        example = self._example
        assert example is not None
        found = example.same(self.sources, path, size)
        if found is None:
            return False
        at, data = found
        self._append(len(self.paths), at, example.like.kind, example.like.where(data))
        self.skip(path, size)
        return True

    def skip(self, path: str, size: int) -> None:
        """Add a file of `size` bytes without pages, so that the next one has the next number."""
        self.paths.append(path)
        self.sizes.append(size)

    def add(self, path: str) -> Structure:
        """Read the structure of another file, up to its end or up to a directory that cannot be read.

        Raises:
            FormatError, SourceError: the file is not a TIFF, its first page is garbled or truncated,
                or it cannot be read. Then it was added without pages.
        """
        self.skip(path, 0)
        reader = Reader(self.sources, path)
        self.sizes[-1] = reader.size
        walk = _Walk(reader, len(self.paths) - 1)
        begin = len(self.at)
        tags: dict[int, Field] = {}
        subs: dict[int, Field] = {}
        cut = None
        at = reader.first
        if not at:
            raise FormatError(f"{path}: a TIFF file without pages")
        while at:
            try:
                data, first, after = walk.directory(at)
                if not tags:
                    # Of equal tags the first one counts
                    tags = {tag: field for tag, field, _ in reversed([*reader.entries(data, first)])}
                sub = self._page(walk, at, data, first)
            except (FormatError, TruncatedSourceError) as error:
                if len(self.at) == begin:
                    raise
                cut = error
                break
            if sub is not None:
                subs[len(self.at) - 1] = sub
            if after < 0:
                cut = TruncatedSourceError(
                    f"{path}: the directory at byte {at:,} does not say where the next one is, the file ends"
                    " before; it looks truncated"
                )
                break
            at = after
        rows = range(begin, len(self.at))
        found: dict[int, list[int]] = {}
        for row, field in subs.items():
            try:
                places = reader.numbers(field, _SUBS).tolist()
                found[row] = []
                for place in places:
                    found[row].append(self._sub(walk, place))
            except (FormatError, TruncatedSourceError) as error:
                cut = cut or error
        cut = cut or lost_text(reader, tags)
        note = tags.get(DESCRIPTION)
        start = ""
        if note is not None and note.type == 2 and within(reader.size, note):
            start = reader.text(note._replace(length=min(note.length, START)))
        lost = {} if cut else dict.fromkeys(lost_values(reader, self._ends(reader, rows)))
        return Structure(
            self.sources,
            path,
            walk.index,
            reader.size,
            reader.order,
            reader.big,
            rows,
            found,
            tags,
            start,
            cut,
            tuple(lost),
        )

    def _ends(self, reader: Reader, rows: range) -> Iterator[tuple[int, Field, bytes]]:
        """Yield the entries of the first and the last page of a file."""
        for row in dict.fromkeys((rows[0], rows[-1])):
            data, first, _ = reader.directory(self.at[row])
            yield from reader.entries(data, first)

    def _sub(self, walk: _Walk, at: int) -> int:
        """Add a sub-directory. Returns its row; -1 if there is none, or if it is another page already."""
        if at < 8 or at in walk.seen:
            return -1
        data, first, _ = walk.directory(at)
        self._page(walk, at, data, first)
        return len(self.at) - 1

    def _page(self, walk: _Walk, at: int, data: bytes, first: int) -> Field | None:
        """Add a page. Returns its tag of sub-directories."""
        reader = walk.reader
        if self._like is not None and self._like.fits(reader, data):
            walk.use(self._like.used)
            self._append(walk.index, at, self._like.kind, self._like.where(data))
            return None
        how: list[tuple[int, Field, bytes]] = []
        where: dict[int, tuple[Field, bytes]] = {}
        for entry in reader.entries(data, first):
            if entry[0] in HOW:
                how.append(entry)
            elif entry[0] in WHERE:
                where.setdefault(entry[0], entry[1:])
        offsets = where.get(TILES) or where.get(STRIPS)
        sizes = where.get(TILE_SIZES) or where.get(STRIP_SIZES)
        used = offsets[0].length * 2 if offsets is not None and offsets[0].length > 1 else 0
        walk.use(used)
        self._append(walk.index, at, self.kind_of(reader, how), _place(reader, offsets) + _place(reader, sizes))
        self._like = PagePattern.of(reader, data, first, self.kind[-1], used)
        return where[SUB][0] if SUB in where else None

    def _append(self, file: int, at: int, kind: int, where: Iterable[int]) -> None:
        self.file.append(file)
        self.at.append(at)
        self.kind.append(kind)
        self._where.extend(where)

    def kind_of_entries(self, reader: Reader, entries: Iterable[tuple[int, Field, bytes]], **changed: int) -> int:
        """Return `kind_of` for the entries of a whole directory."""
        return self.kind_of(reader, [entry for entry in entries if entry[0] in HOW], **changed)

    def kind_of(self, reader: Reader, how: Sequence[tuple[int, Field, bytes]], **changed: int) -> int:
        """Return the number of the kind of pages with these entries.

        Args:
            changed: right values of tags (as `t317`) that are known to be wrong in a vendor's files.
        """
        told = (
            reader.order,
            *[(tag, field.type, field.length, reader.stored(field, value)) for tag, field, value in how],
            *changed.items(),
        )
        number = self._numbers.get(told)
        if number is None:
            tags: dict[int, tuple[int, ...] | bytes | str] = {}
            for tag, field, value in how:
                tags.setdefault(tag, storage_value(reader.order, tag, field.type, reader.stored(field, value)))
            tags |= {int(name[1:]): (value,) for name, value in changed.items()}
            key = reader.order, *sorted(tags.items())
            number = self._numbers.get(key)
            if number is None:
                if len(self.kinds) == _KINDS:
                    raise FormatError(
                        f"{reader.path}: expected pages that are alike, found more than {_KINDS:,} kinds; the file is"
                        " garbled"
                    )
                number = len(self.kinds)
                self.kinds.append(make_kind(reader.order, tags))
            self._numbers[told] = self._numbers[key] = number
        return number

    def planes(self, rows: Sequence[int] | np.ndarray, one_piece: bool = True) -> FoundPlanes:
        """Find the pixels of the pages of an array.

        Args:
            rows: for each plane of the array, the row of its page; -1 if it has none.
            one_piece: return one segment for each page that is uncompressed and in one piece.

        Raises:
            FormatError, TruncatedSourceError: no page has its pixels.
        """
        chosen = np.asarray(rows, np.int64)
        there = np.flatnonzero(chosen >= 0)
        kinds = np.frombuffer(self.kind, np.int64)[chosen[there]]
        numbers, begins = np.unique(kinds, return_index=True)
        parts: list[Planes] = []
        bad: list[np.ndarray] = []
        error: FormatError | TruncatedSourceError | None = None
        for number in numbers[np.argsort(begins)].tolist():
            which = there[kinds == number]
            part, wrong, said = self._part(chosen, which, number, one_piece)
            error = error or said
            bad.append(which[wrong])
            if len(part.which):
                parts.append(part)
        if not parts and error is not None:
            raise error
        return FoundPlanes(joined_planes(parts), np.sort(np.concatenate([np.zeros(0, np.int64), *bad])), error)

    def _part(
        self, chosen: np.ndarray, which: np.ndarray, number: int, one_piece: bool
    ) -> tuple[Planes, np.ndarray, FormatError | TruncatedSourceError | None]:
        """Find the pixels of the planes `which`, of one kind.

        Returns: (those with pixels, bool[planes] of the others, what is wrong with the first of these).
        """
        kind, rows = self.kinds[number], chosen[which]
        assert isinstance(kind, Kind)
        offsets, sizes, wrong, said = self._segments(rows, kind, one_piece)
        file = np.frombuffer(self.file, np.int64)[rows[~wrong]]
        return Planes(kind, which[~wrong], file, offsets, sizes), wrong, said

    def _segments(self, rows: np.ndarray, kind: Kind, one_piece: bool) -> _Checked:
        """Find offsets and byte counts of pages of a kind; a single one for each page if all are in one piece."""
        n = math.prod(kind.grid)
        batch = max(1, _BATCH // n)
        if not (kind.plain and one_piece):
            return self._checked(rows, kind, n)
        parts: list[np.ndarray] = []
        bad: list[np.ndarray] = []
        said = None
        for i in range(0, len(rows), batch):
            offsets, sizes, wrong, error = self._checked(rows[i : i + batch], kind, n)
            if not kind.in_one_piece(offsets, sizes):
                return self._checked(rows, kind, n)
            parts.append(offsets[:, :1].copy())
            bad.append(wrong)
            said = said or error
        starts = np.concatenate(parts)
        return starts, np.full_like(starts, kind.nbytes), np.concatenate(bad), said

    def _checked(self, rows: np.ndarray, kind: Kind, n: int) -> _Checked:
        offsets, sizes, bad, said = self._read(rows, n, kind.compressed)
        good = np.flatnonzero(~bad)
        if not len(good):  # nothing is known of the sizes in such tags
            return np.zeros((0, 1), np.int64), np.zeros((0, 1), np.int64), bad, said
        file = np.frombuffer(self.file, np.int64)[rows[good]]
        wrong = np.zeros(len(good), bool)
        for complaint in complaints(kind, offsets, sizes, np.array(self.sizes, np.int64)[file]):
            said = said or complaint.error(f"{self._named(rows[good[complaint.pages.argmax()]])} {complaint.said}")
            wrong |= complaint.pages
        bad[good[wrong]] = True
        return offsets[~wrong], sizes[~wrong], bad, said

    def text_of(self, row: int) -> str:
        """Return the description of a page; "" without one."""
        reader = Reader(self.sources, self.paths[self.file[row]])
        data, first, _ = reader.directory(self.at[row])
        for tag, field, _ in reader.entries(data, first):
            if tag == DESCRIPTION and field.type == 2:
                return reader.text(field)
        return ""

    def _named(self, row: int) -> str:
        return f"{self.paths[self.file[row]]}: the page at byte {self.at[row]:,}"

    def _read(self, rows: np.ndarray, n: int, compressed: bool) -> _Checked:
        """Read offsets and byte counts from the files.

        Byte counts are 0 if the file does not have them and they are not needed.
        """
        where = np.frombuffer(self._where, np.int64).reshape(-1, 6)[rows]
        files = np.frombuffer(self.file, np.int64)[rows]
        bad, said = self._unlisted(rows, where, n, compressed)
        good = np.flatnonzero(~bad)
        if n == 1 and (where[good][:, (_O_TYPE, _C_TYPE)] == 0).all():
            return where[good, _O_AT : _O_AT + 1], where[good, _C_AT : _C_AT + 1], bad, said
        offsets, sizes = np.zeros((2, len(good), n), np.int64)
        for file in np.unique(files[good]).tolist():
            reader = Reader(self.sources, self.paths[file])
            for i in np.flatnonzero(files[good] == file).tolist():
                row = where[good[i]].tolist()
                try:
                    for out, (kind, count, at) in ((offsets, row[:3]), (sizes, row[3:])):
                        if count:
                            out[i] = at if kind == 0 else reader.numbers(Field(kind, count, at), n)
                except (FormatError, TruncatedSourceError) as error:
                    bad[good[i]], said = True, said or error
        kept = ~bad[good]
        return offsets[kept], sizes[kept], bad, said

    def _is_last(self, rows: np.ndarray) -> np.ndarray:
        """Return bool[rows], True for the last page of each file: a program may have begun to write its directory."""
        file = np.frombuffer(self.file, np.int64)
        return np.asarray(np.append(file[1:] != file[:-1], True)[rows])

    def _ends_in_zeros(self, row: int) -> bool:
        """Return True if the last entry of a page's directory is all zeros, which no entry is."""
        reader = Reader(self.sources, self.paths[self.file[row]])
        data, _, _ = reader.directory(self.at[row])
        return not any(data[-(20 if reader.big else 12) :])

    def _unlisted(
        self, rows: np.ndarray, where: np.ndarray, n: int, compressed: bool
    ) -> tuple[np.ndarray, FormatError | TruncatedSourceError | None]:
        """Find pages that do not list their strips or tiles. Returns: (bool[rows], what is wrong with the first)."""
        bad = np.zeros(len(rows), bool)
        said: FormatError | TruncatedSourceError | None = None
        for column, what in ((_O_COUNT, "offsets"), (_C_COUNT, "byte counts")):
            short = where[:, column] < n
            if what == "byte counts" and not compressed:
                short &= where[:, column] > 0
            if short.any():
                i = int(short.argmax())
                said = said or FormatError(
                    f"{self._named(rows[i])} has {where[i, column]:,} {what} of strips or tiles, expected {n:,}"
                )
                bad |= short
        counts = where[:, _C_COUNT] > 0
        for i in np.flatnonzero(~bad & ~counts & self._is_last(rows)).tolist():
            if self._ends_in_zeros(rows[i]):
                said = said or TruncatedSourceError(
                    f"{self._named(rows[i])} has a directory that ends in zeros, and no byte counts; it looks truncated"
                )
                bad[i] = True
        nowhere = ~bad & ~counts & (where[:, _O_TYPE] == 0) & (where[:, _O_AT] == 0)
        if nowhere.any():
            said = said or FormatError(
                f"{self._named(rows[nowhere.argmax()])} stores its strip or tile at byte 0; the file is garbled"
            )
            bad |= nowhere
        ends = np.array(self.sizes, np.int64)[np.frombuffer(self.file, np.int64)[rows]]
        for kind, count, at in ((_O_TYPE, _O_COUNT, _O_AT), (_C_TYPE, _C_COUNT, _C_AT)):
            beyond = (where[:, kind] != 0) & ((where[:, count] > ends) | (where[:, at] > ends - where[:, count]))
            if beyond.any():
                said = said or TruncatedSourceError(
                    f"{self._named(rows[beyond.argmax()])} lists its strips or tiles beyond the end of the file; it"
                    " looks truncated"
                )
                bad |= beyond
        return bad, said


_Checked = tuple[np.ndarray, np.ndarray, np.ndarray, FormatError | TruncatedSourceError | None]
"""What is found of pages: offsets and byte counts of the good ones (int64[good, m] each), bool[p] of
the bad ones, what is wrong with the first of these.
"""


@dataclass(frozen=True, eq=False)
class FoundPlanes:
    """Holds the planes of an array.

    Attributes:
        parts: the planes, those that are stored alike together.
        bad: int64[m], numbers of the planes whose pages do not have their pixels.
        error: what is wrong with the first of them.
    """

    parts: tuple[Planes, ...]
    bad: np.ndarray
    error: FormatError | TruncatedSourceError | None

    def absent(self) -> tuple[Absence, ...]:
        """Report the planes whose pages do not have their pixels."""
        if self.error is None:
            return ()
        n = len(self.bad)
        said = str(self.error) + f", and {n - 1:,} more pages" * (n > 1)
        cut = isinstance(self.error, TruncatedSourceError)
        return (Absence(said, type(self.error), "shows such pages as blank", {"frames_missing": n}, to_come=cut),)


class _Walk:
    """Goes through the directories of a file, in bounded time.

    It reads no directory twice, and no more bytes of directories than the file has.
    """

    def __init__(self, reader: Reader, index: int) -> None:
        self.reader, self.index = reader, index
        self.seen: set[int] = set()
        self.used = 0

    def directory(self, at: int) -> tuple[bytes, int, int]:
        if at in self.seen:
            raise FormatError(
                f"{self.reader.path}: its directories run in a circle: number {len(self.seen)} is the one at byte"
                f" {at:,} again"
            )
        self.seen.add(at)
        found = self.reader.directory(at)
        self.use(len(found[0]))
        return found

    def use(self, size: int) -> None:
        self.used += size
        if self.used > self.reader.size:
            raise FormatError(
                f"{self.reader.path}: {len(self.seen):,} directories claim {self.used:,} bytes, the file has"
                f" {self.reader.size:,}; they overlap or are garbled"
            )


def _place(reader: Reader, found: tuple[Field, bytes] | None) -> tuple[int, int, int]:
    """Return (type, count, place) of a table of offsets or byte counts.

    For a single number, this is (0, 1, the number itself); without a table, (0, 0, 0).
    """
    if found is None:
        return 0, 0, 0
    field, value = found
    if field.length == 1:
        return 0, 1, min(reader.number(field, value), MISSING)
    return field.type, min(field.length, MISSING), min(field.at, MISSING)
