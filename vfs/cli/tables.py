"""Lays text out in columns and paragraphs that fit the width of a terminal."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator, Sequence

from vfs.errors import printable

GLUE = "\xa0"  # a space at which lines are not broken; it is printed as a plain space
_NARROWEST = 40  # characters: lines are never made shorter than this
_ROOM = 24  # characters: if the last column has fewer, its second and later lines begin further left
SHOWN = 12  # lines of a list of files or of metadata that `bounded` returns at most


def width() -> int:
    """Return the characters of a line: COLUMNS or the terminal's width, else 80; at least 40."""
    return max(_NARROWEST, shutil.get_terminal_size((80, 24)).columns)


def wrapped(text: str, columns: int, first: str = "", rest: str = "") -> list[str]:
    """Break a paragraph at its spaces.

    Words stay whole even if they are longer than a line, so that people can copy names of files.

    Args:
        columns: characters of a line.
        first, rest: texts with which the first line and the others begin.
    """
    lines = textwrap.wrap(
        text, columns, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )
    return [line.replace(GLUE, " ") for line in lines] or [first.rstrip()]


def cut(text: str, columns: int) -> str:
    """Cut a text that is longer than a line, and end it with "…"."""
    return text if len(text) <= columns else text[: columns - 1] + "…"


def table(rows: Sequence[Sequence[str]], columns: int, indent: str = "  ") -> list[list[str]]:
    """Put cells side by side.

    The last cell of a row is wrapped. A first cell that takes half a line gets a line of its own.

    Args:
        rows: the cells of each row; every row has the same number of cells.
        columns: characters of a line.

    Returns: the lines of each row.
    """
    most, cells = columns // 2 - 6, range(len(rows[0]) - 1 if rows else 0)
    widths = [max((len(row[k]) for row in rows if k or len(row[0]) <= most), default=0) for k in cells]
    return [_row(row, widths, columns, indent) for row in rows]


def _row(row: Sequence[str], widths: Sequence[int], columns: int, indent: str) -> list[str]:
    *cells, last = row
    above = []
    if cells and len(cells[0]) > widths[0]:
        above, cells[0] = [indent + cells[0]], ""
    before = indent + "".join(f"{cell.ljust(width)}  " for cell, width in zip(cells, widths, strict=True))
    further, room = " " * (len(indent) + 4), columns - len(before)
    if max(map(len, last.split(" "))) > room:  # a word that has no room beside the others
        return [*above, before.rstrip(), *wrapped(last, columns, further, further)]
    return [*above, *wrapped(last, columns, before, " " * len(before) if room >= _ROOM else further)]


def fitting(rows: Sequence[list[str]], room: int) -> Iterator[list[str]]:
    """Yield rows as long as all their lines fit.

    Args:
        room: number of lines that are free.
    """
    for row in rows:
        room -= len(row)
        if room < 0:
            return
        yield row


def paragraph(text: str, columns: int, indent: int = 4) -> list[str]:
    """Break a paragraph of any characters; lines after the first are indented by two more."""
    return wrapped(printable(text), columns, " " * indent, " " * (indent + 2))


def count(n: int, what: str) -> str:
    """Return a number of things as text: "1 file", "2 files"."""
    return f"{n:,} {what}{'s' * (n != 1)}"


def bounded(lines: Sequence[str], more: str) -> list[str]:
    """Return the first lines, and one that says how many there are besides."""
    left = len(lines) - SHOWN
    return [*lines[:SHOWN], *([f"… and {left:,} {more}"] if left > 0 else [])]
