"""Groups the pages of a TIFF file that make up one array, by counting them.

Pages of one size and dtype are one array, however they are stored. A page of another kind between
them is an array of its own: its place in the stack is blank, so that the number of a frame stays
that of its page, and opening says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from vfs.errors import FormatError
from vfs.formats.tiff_structure.kinds import Kind, Unreadable
from vfs.formats.tiff_structure.pages import PageTable
from vfs.formats.tiff_structure.places import Planes
from vfs.formats.tiff_structure.structure import Structure
from vfs.model.stored import Absence


@dataclass(frozen=True, eq=False)
class PageSeries:
    """Holds the pages that make up one array in one file.

    Attributes:
        axes: axes of the array, in tifffile's letters.
        shape: shape of the array; the first `nav` axes count pages.
        shown: the axes of a page to which the other axes correspond, see
            `vfs.formats.tiff_structure.planes.arrange`.
        rows: row in the table of the page of each plane; -1 for a plane without one.
        planes: places of planes that have no row.
        metadata: kind of the metadata that were used; "" if pages were just counted.
        said: attributes that these metadata give.
        levels: smaller versions.
        files: number of files that have these pages, an equal number in each.
    """

    kind: Kind
    axes: str
    shape: tuple[int, ...]
    nav: int
    shown: tuple[int, ...]
    rows: Sequence[int] = ()
    planes: tuple[Planes, ...] = ()
    metadata: str = ""
    said: Mapping[str, Any] = field(default_factory=dict)
    levels: list[PageSeries] = field(default_factory=list)
    files: int = 1

    @property
    def lead(self) -> tuple[int, ...]:
        """Lengths of the axes that count pages."""
        return self.shape[: self.nav]

    @property
    def count(self) -> int:
        """Number of planes in each file."""
        return math.prod(self.lead)

    def __str__(self) -> str:
        """Return words for a message: "uint16[3, 8, 9]"."""
        return f"{self.kind.dtype}{list(self.shape)}" + (" (a mask)" if self.kind.frame[-1] else "")

    def of_files(self, row: int, count: int) -> PageSeries:
        """Return the same series for `count` other files of one page each, whose pages begin with `row`."""
        return replace(self, rows=range(row, row + count), files=count)

    def alike(self, other: PageSeries) -> bool:
        """Return True if both are of pages of one kind, with the same axes that count them."""
        return self.axes[: self.nav] == other.axes[: other.nav] and self.kind.same(other.kind)

    def filled_up(self, other: PageSeries) -> PageSeries:
        """Return these planes in the shape of another series; the last ones are blank, since this file was cut."""
        rows = [*self.rows, *[-1] * (other.count - self.count)]
        return replace(self, axes=other.axes, shape=other.shape, nav=other.nav, shown=other.shown, rows=rows)


@dataclass(frozen=True, eq=False)
class _Stack:
    """Collects pages of one kind.

    Attributes:
        places: position in the file of each; of a smaller version, that of its page.
        rows: rows of the pages; -1 for a page that cannot be read.
    """

    kind: Kind
    places: list[int]
    rows: list[int]

    def with_holes(self) -> tuple[np.ndarray, list[int]]:
        """Return (rows with -1 at the place of each page of another kind between them, places of these pages).

        Pages that come in equal steps have no such places, nor have pages that are fewer than the
        others between them: these are no stack.
        """
        order = np.argsort(self.places)
        places, rows = np.array(self.places)[order], np.array(self.rows)[order]
        gaps = np.diff(places)
        step = int(gaps.min(initial=len(places) and 1 << 62))
        if (gaps == step).all() or (gaps % step).any() or int(gaps.sum()) // step + 1 >= 2 * len(places):
            return rows, []
        at = (places - places[0]) // step
        full = np.full(at[-1] + 1, -1)
        full[at] = rows
        between = np.setdiff1d(np.arange(len(full)), at) * step + places[0]
        return full, between.tolist()


def counted(
    table: PageTable, found: Structure, rows: Sequence[int]
) -> tuple[list[PageSeries], tuple[Absence, ...], list[str]]:
    """Make the series of pages without metadata about dimensions.

    Returns: (series, what cannot be shown, words for each of the pages that are in no series).
    """
    stacks: dict[tuple[int, object], _Stack] = {}
    unread: list[tuple[int, int, int]] = []
    frames = [kind.frame if isinstance(kind, Kind) else None for kind in table.kinds]
    for place, row in enumerate(rows):
        for level, one in enumerate((row, *found.subs.get(row, ()))):
            if one < 0:
                continue
            number = table.kind[one]
            kind = table.kinds[number]
            if isinstance(kind, Unreadable):
                unread.append((place, level, one))
                continue
            stack = stacks.get((level, frames[number]))
            if stack is None:
                stack = stacks[level, frames[number]] = _Stack(kind, [], [])
            stack.places.append(place)
            stack.rows.append(one)
    left_out = _put_in(table, stacks, unread)
    out: list[PageSeries] = []
    tops: list[PageSeries] = []
    absent: list[Absence] = []
    for (level, _), stack in stacks.items():
        made, between = stack.with_holes()
        one = of_rows(stack.kind, made.tolist())
        out.append(one)
        if level == 0:
            tops.append(one)
            absent += between_others(table, [rows[place] for place in between], one)
    gone = set(left_out)
    blank = [row for _, level, row in unread if row not in gone and level == 0]
    absent += unreadable(table, blank)
    absent += _left_out(table, left_out, max(one.count * one.kind.nbytes for one in tops) if tops else 0)
    words = [f"the page at byte {table.at[row]:,}: {table.kinds[table.kind[row]]}" for row in left_out[:1000]]
    return _pyramids(out, tops), tuple(absent), words


def of_rows(kind: Kind, rows: Sequence[int]) -> PageSeries:
    lead = (len(rows),) if len(rows) > 1 else ()
    return PageSeries(kind, "I" * len(lead) + kind.axes, lead + kind.shape, len(lead), kind.shown, rows)


def _put_in(
    table: PageTable, stacks: dict[tuple[int, object], _Stack], unread: Sequence[tuple[int, int, int]]
) -> list[int]:
    """Give pages that cannot be read a blank place in the stack of their size and dtype. Returns rows of the others."""
    left_out = []
    for place, level, row in unread:
        kind = table.kinds[table.kind[row]]
        like = kind.like if isinstance(kind, Unreadable) else None
        stack = None if like is None else stacks.get((level, like.frame))
        if stack is None:
            left_out.append(row)
        else:
            stack.places.append(place)
            stack.rows.append(-1)
    return left_out


def _page(table: PageTable, row: int) -> str:
    return f"{table.paths[table.file[row]]}: the page at byte {table.at[row]:,}"


def _more(rows: Sequence[int]) -> str:
    return f", and {len(rows) - 1:,} more" * (len(rows) > 1)


def between_others(table: PageTable, rows: Sequence[int], stack: PageSeries) -> list[Absence]:
    """Report pages of another kind between those of a stack. They are arrays of their own."""
    others = [row for row in rows if isinstance(table.kinds[table.kind[row]], Kind)]
    if not others:
        return []
    said = (
        f"{_page(table, others[0])} is {table.kinds[table.kind[others[0]]]}{_more(others)}, expected {stack.kind} like"
        " the pages around: an array of its own, and a blank frame of theirs"
    )
    return [Absence(said, counts={"frames_missing": len(others)})]


def unreadable(table: PageTable, rows: Sequence[int]) -> list[Absence]:
    """Report pages of a stack that cannot be read."""
    if not rows:
        return []
    said = f"{_page(table, rows[0])} cannot be read: {table.kinds[table.kind[rows[0]]]}{_more(rows)}"
    return [Absence(said, FormatError, "shows such pages as blank", {"frames_missing": len(rows)})]


def _left_out(table: PageTable, rows: Sequence[int], largest: int) -> list[Absence]:
    """Report pages that are in no array.

    Args:
        largest: bytes of the largest array. If such pages are larger, they are what the file is about.
    """
    if not rows:
        return []
    likes = [kind.like for row in rows if isinstance(kind := table.kinds[table.kind[row]], Unreadable)]
    main = sum(like.nbytes for like in likes if like is not None) > largest
    said = f"{_page(table, rows[0])} cannot be read: {table.kinds[table.kind[rows[0]]]}{_more(rows)}"
    counts = {"frames_left_out": len(rows)}
    return [Absence(said, FormatError if main else None, "shows the other pages" * main, counts, main=main)]


def _pyramids(series: list[PageSeries], tops: Sequence[PageSeries]) -> list[PageSeries]:
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


def _smaller(a: PageSeries, b: PageSeries, factor: int) -> bool:
    def fits(axis: str, n: int, m: int) -> bool:
        return n >= factor and m in (n // factor, -(-n // factor)) if axis in "XYZ" else n == m

    return a.axes == b.axes and a.kind.dtype == b.kind.dtype and all(map(fits, a.axes, a.shape, b.shape))


def split(shape: tuple[int, ...], kind: Kind, count: int) -> tuple[int, tuple[int, ...]]:
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
