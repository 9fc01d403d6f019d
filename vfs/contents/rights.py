"""Says what of a tree of folders somebody may see: some folders with all that is below them, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from vfs.contents.contents import Paths
from vfs.contents.shown import Shown, ShownEntry
from vfs.faces.face import Node


@dataclass(frozen=True)
class Rights:
    """Says which paths somebody may see.

    Attributes:
        folders: paths of the folders.
    """

    folders: frozenset[str]

    @cached_property
    def _above(self) -> frozenset[str]:
        """The folders that lead to these."""
        return frozenset(above for folder in self.folders for above in _up(folder))

    def sees(self, path: str) -> bool:
        """Return True for a folder that may be seen, and for all that is below it."""
        return path in self.folders or any(above in self.folders for above in _up(path))

    def shows(self, path: str) -> bool:
        """Return True for what may be seen, and for the folders that lead there, of which only the way is shown."""
        return path in self._above or self.sees(path)

    def ways(self, path: str) -> list[str]:
        """Return the names in a folder that lead to folders that may be seen, or are such."""
        above = f"{path}/" if path else ""
        ways = (folder.removeprefix(above).partition("/")[0] for folder in self.folders if folder.startswith(above))
        return sorted(set(ways))


def seen(contents: Paths, rights: Rights | None) -> Paths:
    """Return what somebody sees of contents.

    Args:
        rights: what it may be; None: all.
    """
    return contents if rights is None else _SeenPaths(contents, rights)


def _up(path: str) -> Iterator[str]:
    """Return the folders above a path, up to the root."""
    while path:
        path = path.rpartition("/")[0]
        yield path


class _SeenPaths:
    """Shows what somebody may see of contents. Of folders that lead there, nobody looks at what else is in them."""

    def __init__(self, contents: Paths, rights: Rights) -> None:
        self.contents, self.rights = contents, rights

    def at(self, path: str) -> Shown:
        if self.rights.sees(path):
            return self.contents.at(path)
        return _Way(self, path) if self.rights.shows(path) else Shown(path)


class _Way(Shown):
    """Shows of a folder only what leads to folders that may be seen."""

    def __init__(self, seen: _SeenPaths, path: str) -> None:
        super().__init__(path)
        self._seen = seen

    def node(self) -> Node | None:
        node = self._seen.contents.at(self.path).node()
        return node if node is not None and node.listed else None

    def children(self, after: int = 0, until: float = math.inf) -> Iterator[str]:
        return (entry.name for entry in islice(self.sets(until), after, None))

    def sets(self, until: float = math.inf) -> Iterator[ShownEntry]:
        for name in self._seen.rights.ways(self.path):
            path = f"{self.path}/{name}" if self.path else name
            node = self._seen.contents.at(path).node()
            if node is not None and node.listed:
                yield ShownEntry(name, path, "folder")
