"""Writes pages without scripts: of an old address, and lists of folders for people, `wget -r` and clients of links."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from html import escape
from os import fsencode
from typing import NamedTuple
from urllib.parse import quote

import numpy as np

from vfs.errors import printable

ROWS = 20_000
"""Rows of a list that are written at once, about 2 MB: 20 ms of one processor (100,000 chunks in 0.1 s)."""


class IndexRow(NamedTuple):
    """A row of a list.

    Attributes:
        name: what the row leads to, without a slash at its end.
        folder: True for a folder.
        size: bytes of a file.
        time: modification time, nanoseconds since 1970; 0 if it is not known.
        json: True for a document in JSON.
        etag: its ETag; empty: it was not asked for, or the bytes may be others at any time.
    """

    name: str
    folder: bool
    size: int = 0
    time: int = 0
    json: bool = False
    etag: bytes = b""


class NumberedRows(NamedTuple):
    """Rows that differ only in numbers: chunks of an array, or folders of chunks.

    Attributes:
        like: what all of them are; each name begins with `like.name`.
        counts: the numbers that follow, with slashes between them, go from 0 to below these.
    """

    like: IndexRow
    counts: tuple[int, ...]


class FolderPage:
    """The page of a folder. It may have millions of rows: it is written a part at a time, and its length is computed.

    Its length is odd. So no program that asks for a chunk of pixels of two or more bytes, and follows a redirect to
    here, takes the page for one.

    Args:
        key: path of the folder.
        entries: what is in it.
        numbered: more of what is in it.
        unopened: number of files in it that are not opened yet, so that the list may lack their sets.

    Attributes:
        etag: its ETag, which is another one if anything in the page is.
        length: bytes of the page.
        rows: number of the numbered rows.
    """

    def __init__(
        self, key: str, entries: Iterable[IndexRow], numbered: Sequence[NumberedRows] = (), unopened: int = 0
    ) -> None:
        title = escape(printable(key))
        again = '<meta http-equiv="refresh" content="2">' if unopened else ""
        lines = [
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">{again}',
            f"<title>{title}</title></head>\n<body><h1>{title}</h1>\n{_incomplete(unopened)}<pre>",
            *(_row(entry) for entry in [IndexRow("..", True), *entries]),
            "",
        ]
        self._head = "\n".join(lines).encode()
        self._numbered = [_Rows(rows) for rows in numbered]
        self.rows = sum(rows.count for rows in self._numbered)
        length = len(self._head) + sum(rows.length for rows in self._numbered) + len(_TAIL)
        self._tail = _TAIL + b"\n" * (length % 2 == 0)
        self.length = length | 1
        said = repr((self._head, numbered)).encode()
        self.etag = b'"%s"' % blake2b(said, digest_size=16).hexdigest().encode()

    def part(self, first: int) -> bytes:
        """Return a part of the page: `ROWS` numbered rows from the `first` one on, with what is before and behind."""
        parts = [self._head] if first == 0 else []
        start, stop = first, first + ROWS
        for rows in self._numbered:
            if start < rows.count and stop > 0:
                parts.append(rows.written(max(0, start), min(stop, rows.count)))
            start, stop = start - rows.count, stop - rows.count
        if first + ROWS >= self.rows:
            parts.append(self._tail)
        return b"".join(parts)


_TAIL = b"</pre></body></html>\n"


class _Rows:
    """Writes numbered rows.

    Attributes:
        count: how many there are; length: bytes of all of them.
    """

    def __init__(self, rows: NumberedRows) -> None:
        self._above, self._counts = quoted(rows.like.name), rows.counts
        self._form = _form(rows.like)
        self.count = math.prod(rows.counts)
        numbers = sum(_digits(n) * (self.count // max(1, n)) for n in rows.counts)
        names = self.count * (len(self._above) + max(0, len(rows.counts) - 1)) + numbers
        self.length = 2 * names + self.count * len(self._form % ("", ""))

    def written(self, start: int, stop: int) -> bytes:
        """Return rows, from one to below another."""
        numbers = np.unravel_index(np.arange(start, stop), self._counts)
        names = (self._above + "/".join(map(str, each)) for each in zip(*(n.tolist() for n in numbers), strict=True))
        return "".join([self._form % (name, name) for name in names]).encode()


_LONGER = [int("1" + "0" * digits) for digits in range(1, 20)]  # numbers from which on there is one digit more


def _digits(count: int) -> int:
    """Return the digits of all numbers from 0 to below `count`, together."""
    return count + sum(count - limit for limit in _LONGER if count > limit)


def _form(entry: IndexRow) -> str:
    """Return a row of a list: date, size, and a link, with `%s` for what that leads to and for its text."""
    slash = "/" if entry.folder else ""
    size = "" if entry.folder else f"{entry.size:,}"
    return f'{_date(entry.time):16} {size:>19} <a href="%s{slash}">%s{slash}</a>\n'


def _row(entry: IndexRow) -> str:
    return (_form(entry) % (quoted(entry.name), escape(printable(entry.name)))).removesuffix("\n")


def quoted(name: str) -> str:
    """Return a name as links have it. `quote` escapes colons, so none looks like the end of a scheme."""
    return quote(fsencode(name))


@lru_cache(1 << 10)
def _date(time: int) -> str:
    return f"{datetime.fromtimestamp(time // 10**9, UTC):%Y-%m-%d %H:%M}" if time else ""


def _incomplete(unopened: int) -> str:
    """Return what people are told whose list may lack the sets of so many files; nothing if it is whole."""
    return f"<p>Still looking. Not opened yet, and not in this list: {unopened:,} files</p>\n" if unopened else ""


def links(names: Iterable[tuple[str, bool]], unopened: int = 0) -> bytes:
    """Return a list of links in HTML.

    Args:
        names: (name, True for a folder) of what the links lead to.
        unopened: see `FolderPage`.
    """
    lines = [f"{_incomplete(unopened)}<ul>"]
    for name, folder in names:
        slash = "/" if folder else ""
        lines.append(f'<li><a href="{quoted(name)}{slash}">{escape(printable(name))}{slash}</a></li>')
    return "\n".join([*lines, "</ul>", ""]).encode("utf-8")


OLD = b"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark">
<title>This address of vfs is old</title></head>
<body><h1>This address of vfs is old</h1>
<p>The server that runs here now has another token: each start makes a new one, and every address begins with it.
Open the whole address that <code>vfs serve</code> printed last, or start it again; <code>vfs mounts</code> lists the
servers that run, and with <code>vfs serve --token FILE</code> addresses stay the same.</p>
</body></html>
"""
"""What a browser shows that comes without the token of the server. Nothing in it is of the request."""
