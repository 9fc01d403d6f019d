"""Lists folders: of sets, of groups, of arrays and of their chunks, as a mount lists them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from typing import NamedTuple

from vfs.contents.contents import Paths
from vfs.errors import SourceError, printable
from vfs.faces.face import ZarrFace
from vfs.http.conditions import etag_of
from vfs.http.guard import RefusedError
from vfs.http.index import FolderPage, IndexRow, NumberedRows


def entries(contents: Paths, key: str, etags: bool = False, until: float = math.inf) -> Iterator[IndexRow]:
    """Return what is in a folder of sets, as far as it can be opened.

    Args:
        etags: with the ETags of files, for which the files of each set are looked at.
        until: see `Shown.children`. Programs take a list for all there is: theirs have no such time.
    """
    for name in contents.at(key).children(0, until):
        if name == "/":  # it vanished
            continue
        try:
            row = _entry_at(contents, _joined(key, name), name, etags)
        except SourceError:
            continue
        if row is not None:
            yield row


def _entry_at(contents: Paths, path: str, name: str, etags: bool) -> IndexRow | None:
    """Return what is at a path; None if nothing is."""
    shown = contents.at(path)
    node = shown.node()
    if node is None:
        return None
    etag = b""
    if etags and not node.folder:
        with suppress(SourceError):  # it is listed, as on the page: whoever reads it gets the error
            etag = etag_of(version, path) if (version := shown.listed_version()) else b""
    return IndexRow(name, node.folder, node.size, shown.time(), node.json, etag)


class Described(NamedTuple):
    """A file, or a folder and what is in it.

    Attributes:
        folder: True for a folder; rows: its own row, whose name is "", then those in it, with ETags.
    """

    folder: bool
    rows: Iterator[IndexRow]


def described(contents: Paths, key: str, depth: int | None, deep: bool) -> Described | None:
    """Return what is at a path, and what is in it if it is a folder.

    Args:
        depth: 0: only the path; 1: also what is in it; None: also all files below it, but no further folders.
        deep: folders in data sets may be asked for all below them.

    Returns: None if all below a folder is asked for, and is not listed at once.

    Raises:
        RefusedError: nothing is there.
        SourceError: see `folder_page`.
    """
    own = _entry_at(contents, key, "", etags=True)
    if own is None:
        raise RefusedError(404, f"nothing is called {printable(key[:200])}")
    if not own.folder or depth == 0:
        return Described(own.folder, iter([own]))
    found = contents.at(key).in_face()
    if depth is None and (found is None or not deep):
        return None
    if found is None:
        return Described(True, chain([own], entries(contents, key, etags=True)))
    version = found.version()
    assert isinstance(found.face, ZarrFace)
    in_folder = _InFolder(found.face, found.key, found.time())
    named, numbered = in_folder.inside() if depth == 1 else in_folder.below()

    def tagged(row: IndexRow) -> IndexRow:
        return row if row.folder or not version else row._replace(etag=etag_of(version, _joined(key, row.name)))

    names = (rows.like._replace(name=rows.like.name + name) for rows in numbered for name in _numbers(rows.counts))
    return Described(True, chain([own], map(tagged, chain(named, names))))


def folder_page(contents: Paths, key: str, flat: bool, until: float) -> FolderPage:
    """Return the page of a folder.

    Args:
        key: its path.
        flat: of a folder in a set, list all files in it and below, and no folders.
        until: see `entries`.

    Raises:
        SourceError: it lies in a set whose files are not those that were opened. rclone would leave out each file that
            is refused when it asks for its size, and zarr then fill its place.
    """
    found = contents.at(key).in_face()
    if found is None:
        rows = list(entries(contents, key, until=until))
        return FolderPage(key, rows, unopened=len(contents.at(key).unopened()))
    found.version()
    assert isinstance(found.face, ZarrFace)  # other faces are files
    in_folder = _InFolder(found.face, found.key, found.time())
    return FolderPage(key, *(in_folder.below() if flat else in_folder.inside()))


def _numbers(counts: tuple[int, ...]) -> Iterator[str]:
    """Return the names of numbered rows: numbers from 0 to below these, with slashes between them."""
    first, *rest = counts
    if not rest:
        return map(str, range(first))
    return (f"{number}/{more}" for number in range(first) for more in _numbers(tuple(rest)))


_Rows = tuple[list[IndexRow], list[NumberedRows]]


class _InFolder:
    """Lists a folder of a set."""

    def __init__(self, face: ZarrFace, key: str, time: int) -> None:
        self._face = face
        self._key = key
        self._time = time

    def inside(self) -> _Rows:
        """Return what is in it."""
        count = self._face.numbered(self._key)
        names = self._face.named(self._key)
        return [self._entry(name) for name in names], [self._numbered("", (count,))] if count else []

    def below(self) -> _Rows:
        """Return all files in it and below it."""
        part = self._face.part(self._key)
        if part is not None:
            return [], [self._numbered("", part.array.grid.counts[len(part.position) :])]
        above = _joined(self._key, "")
        names = [name.removeprefix(above) for name in self._face.documents if name.startswith(above)]
        rows = []
        for path, array in self._face.arrays.items():
            if array.size == 0 or not f"{path}/".startswith(above):
                continue
            start = _joined(path, "c/" if self._face.zarr_format == 3 else "").removeprefix(above)
            if array.ndim or self._face.zarr_format == 2:
                rows.append(self._numbered(start, array.grid.counts or (1,)))
            else:
                names.append(start.removesuffix("/"))
        return [self._entry(name) for name in names], rows

    def _numbered(self, start: str, counts: tuple[int, ...]) -> NumberedRows:
        """Return rows of names that begin with `start` and go on with numbers."""
        like = self._entry(start + "/".join("0" * len(counts)))
        return NumberedRows(like._replace(name=start), counts)

    def _entry(self, name: str) -> IndexRow:
        node = self._face.node(_joined(self._key, name))
        assert node is not None
        return IndexRow(name, node.folder, node.size, self._time, node.json)


def _joined(above: str, name: str) -> str:
    return f"{above}/{name}" if above else name
