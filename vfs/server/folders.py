"""Lists folders: of sets, of groups, of arrays and of their chunks, as a mount lists them."""

from __future__ import annotations

from collections.abc import Iterator

from vfs.contents.contents import Contents
from vfs.errors import SourceError
from vfs.faces.face import ZarrFace
from vfs.http.index import FolderPage, IndexRow, NumberedRows


def entries(contents: Contents, key: str) -> Iterator[IndexRow]:
    """Return what is in a folder of sets, as far as it can be opened."""
    for name in contents.at(key).children():
        if name == "/":  # it vanished
            continue
        path = _joined(key, name)
        try:
            shown = contents.at(path)
            node, time = shown.node(), shown.time()
        except SourceError:
            continue
        if node is not None:
            yield IndexRow(name, node.folder, node.size, time)


def folder_page(contents: Contents, key: str, flat: bool) -> FolderPage:
    """Return the page of a folder.

    Args:
        key: its path.
        flat: of a folder in a set, list all files in it and below, and no folders.

    Raises:
        SourceError: it lies in a set whose files are not those that were opened. rclone would leave out each file that
            is refused when it asks for its size, and zarr then fill its place.
    """
    found = contents.at(key).in_face()
    if found is None:
        return FolderPage(key, entries(contents, key))
    found.version()
    assert isinstance(found.face, ZarrFace)  # other faces are files
    in_folder = _InFolder(found.face, found.key, found.time())
    return FolderPage(key, *(in_folder.below() if flat else in_folder.inside()))


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
        return IndexRow(name, node.folder, node.size, self._time)


def _joined(above: str, name: str) -> str:
    return f"{above}/{name}" if above else name
