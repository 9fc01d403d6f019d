"""Makes the contents of a mount of data sets: their faces, each under a name of its own."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice

from vfs.engine.cache import ChunkCache
from vfs.errors import OptionError
from vfs.hierarchy.faces import FOLDER, KEEP, LONGEST, Face, Hierarchy, Node, ResolvedPath, first_free


class FaceFolder:
    """Shows the faces of data sets in one folder, as a `MountSource`. Equal names get -2, -3.

    Args:
        trees: the data sets.
        cache: cache in which the arrays keep decoded pieces; the server reports its hits and misses.
        named: for each data set, the files by which it was opened.

    Raises:
        OptionError: there is no data set.
    """

    def __init__(
        self, trees: Sequence[Hierarchy], cache: ChunkCache | None = None, named: Sequence[Sequence[str]] = ()
    ) -> None:
        if not trees:
            raise OptionError("nothing to mount: expected at least one data set")
        self.cache = ChunkCache() if cache is None else cache
        self.faces: dict[str, Face] = {}
        self.times: dict[str, int] = {}
        self._sources: dict[str, Sequence[str]] = {}
        self._sets: dict[str, tuple[Hierarchy, Sequence[str]]] = {}
        self.warnings: Collection[str] = ()
        self.entry_timeout = self.attr_timeout = KEEP
        for n, tree in enumerate(trees):
            faces = tree.faces()
            # Different names may clash, too: the v2 face of `a` has the same name as the v3 face of `a.v2`
            name = first_free(
                _cut(tree.name, LONGEST - max(len(os.fsencode(ending)) for ending in faces)),
                partial(self._taken, faces),
            )
            for ending, face in faces.items():
                self.faces[name + ending] = face
                self.times[name + ending] = tree.time
                self._sets[name + ending] = tree, named[n] if named else ()

    def _taken(self, endings: Iterable[str], name: str) -> bool:
        return any(name + ending in self.faces for ending in endings)

    def split(self, path: str) -> tuple[Face | None, str]:
        """Return the face in which a path lies, None if there is none, and the key in it."""
        name, _, key = path.partition("/")
        return self.faces.get(name), key

    def resolve(self, path: str, opening: bool = False) -> ResolvedPath | None:
        face, key = self.split(path)
        return None if face is None else ResolvedPath(face, key, None)

    def node(self, path: str) -> Node | None:
        if not path:
            return FOLDER
        face, key = self.split(path)
        return face.node(key) if face else None

    def children(self, path: str, after: int = 0) -> Iterator[str]:
        if not path:
            return islice(iter(self.faces), after, None)
        face, key = self.split(path)
        return face.children(key, after) if face else iter(())

    def get(self, path: str, start: int = 0, stop: int | None = None) -> memoryview | None:
        face, key = self.split(path)
        return face.get(key, start, stop) if face else None

    def time(self, path: str) -> int:
        """Return the modification time of a path, nanoseconds since 1970: that of its newest source."""
        name, _, _ = path.partition("/")
        return self.times.get(name) or max(self.times.values())

    def place(self, path: str) -> tuple[str, str]:
        return "", path

    def sources(self, path: str, all_files: bool) -> Sequence[str]:
        name, _, _ = path.partition("/")
        if name not in self._sources and name in self._sets:
            tree, named = self._sets[name]
            self._sources[name] = tuple(dict.fromkeys(chain(named, tree.files)))
        return self._sources.get(name, ())

    def stamp(self, path: str) -> int:
        """Return 0: data sets that are open are shown until the mount ends."""
        return 0


def _cut(name: str, most: int) -> str:
    """Cut a name to at most `most` bytes."""
    while len(os.fsencode(name)) > most:
        name = name[:-1]
    return name
