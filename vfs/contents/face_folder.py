"""Makes the contents of a mount of data sets: their faces, each under a name of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice

import numpy as np

from vfs.contents.contents import KEEP, PathAtHand, ResolvedPath, ShownEntry, ShownSet
from vfs.engine.cache import ChunkCache
from vfs.errors import OptionError, SourceChangedError
from vfs.faces.absence import check_no_chunk
from vfs.faces.data_set import FILE_ENDING, FaceKind, Faces, Hierarchy
from vfs.faces.face import GROUP, LONGEST, Face, Node
from vfs.live.growing import Progress
from vfs.live.trust import Pace, Trust
from vfs.model.file_state import FileState
from vfs.model.files import Files
from vfs.model.naming import first_free
from vfs.model.pickles import digest
from vfs.sets.opening import Opening
from vfs.sources.names import is_url

LOOKS = Pace(least=1.0, share=20)
"""How often the files of a set are looked at."""


LOOKS_ELSEWHERE = Pace(least=30.0, share=50)
"""How often files on servers are looked at, which costs a request for each. Whatever is read says what it is of."""


class _Watched:
    """Tells if the files of an open data set are those that were opened.

    Args:
        tree: the data set.
        opened: digest of how it was opened; empty if its files may change.
    """

    def __init__(self, tree: Hierarchy, opened: bytes) -> None:
        self.opened = opened
        self._files = tree.file_sets
        self.trust = Trust(LOOKS_ELSEWHERE if any(map(is_url, chain(*(one.paths for one in self._files)))) else LOOKS)
        self._moves = [files.moves for files in self._files]
        self._wrong, self._version = "", b""

    def version(self) -> bytes:
        """See `vfs.contents.contents.Contents.version`.

        A read that finds a file touched changes it at once, not only when the files are looked at.
        """
        if not self.opened:
            return b""
        if time.monotonic() >= self.trust.until:
            self._look()
        if self._wrong:
            raise SourceChangedError(self._wrong)
        return self._version + int(max(self._moves).item()).to_bytes(8)

    def _look(self) -> None:
        began = time.monotonic()
        wrong = ""
        for files in self._files:
            known = np.flatnonzero(files.sizes >= 0).tolist()  # all of them, since each one may be touched
            for file, same in zip(known, files.all_still(known), strict=True):
                if not same:
                    wrong = _changed(files, file)
        if not self._version:  # states tell if a file was touched before this process began, `moves` if it was since
            self._version = digest((self.opened, [files.identity() for files in self._files]))
        self._wrong = wrong
        self.trust.renew(began)


def _changed(files: Files, file: int) -> str:
    """Say what is wrong with a file that is not the one that was opened."""
    path = files.paths[file]
    try:
        now = files.sources.state(path) if is_url(path) else FileState.of(os.stat(path))
    except OSError as error:
        return f"{path}: cannot be found any more: {error.strerror}; put it back, or serve the set anew"
    return f"{path}: changed after it was opened ({files.state(file).difference(now)}); serve it anew"


class FaceFolder:
    """Shows the faces of data sets in one folder, as a `Contents`. Equal names get -2, -3.

    Args:
        trees: the data sets.
        cache: cache in which the arrays keep decoded pieces; the server reports its hits and misses.
        named: for each data set, the files by which it was opened.
        versions: for each data set, the digest that `version` returns.
        openings: for each data set, how it was opened.
        zarr_format: 3 or 2 leaves out the face of the other format; None keeps both.

    Raises:
        OptionError: there is no data set.
    """

    def __init__(
        self,
        trees: Sequence[Hierarchy],
        cache: ChunkCache | None = None,
        named: Sequence[Sequence[str]] = (),
        versions: Sequence[bytes] = (),
        openings: Sequence[Opening] = (),
        zarr_format: int | None = None,
    ) -> None:
        if not trees:
            raise OptionError("nothing to mount: expected at least one data set")
        self.cache = ChunkCache() if cache is None else cache
        kinds: dict[str, FaceKind] = {}
        self.faces = Faces(kinds)
        self.times: dict[str, int] = {}
        self._sources: dict[str, Sequence[str]] = {}
        self._sets: dict[str, tuple[Hierarchy, Sequence[str]]] = {}
        self._watched: dict[str, _Watched] = {}
        self._openings: dict[str, Opening] = {}
        self._shown: list[ShownEntry] = []
        self._set_of: dict[str, ShownSet] = {}
        self.warnings: Mapping[str, Sequence[str]] = {}
        self.entry_timeout = self.attr_timeout = KEEP
        for n, tree in enumerate(trees):
            endings = {kind.ending: kind for kind in tree.face_kinds(zarr_format)}
            # Different names may clash, too: the v2 face of `a` has the same name as the v3 face of `a.v2`
            name = first_free(
                _cut(tree.name, LONGEST - max(len(os.fsencode(ending)) for ending in endings)),
                partial(self._taken, endings),
            )
            watched = _Watched(tree, versions[n] if versions else b"")
            format = openings[n].format if openings else ""
            self._shown.append(ShownEntry(name, name + next(iter(endings)), "set", format, tree.nbytes, tree.time))
            shown = ShownSet(name, name + FILE_ENDING if FILE_ENDING in endings else None)
            for ending, kind in endings.items():
                self._set_of[name + ending] = shown
                kinds[name + ending] = kind
                self.times[name + ending] = tree.time
                self._sets[name + ending] = tree, named[n] if named else ()
                self._watched[name + ending] = watched
                if openings:
                    self._openings[name + ending] = openings[n]

    def _taken(self, endings: Iterable[str], name: str) -> bool:
        return any(name + ending in self.faces for ending in endings)

    def split(self, path: str) -> tuple[Face | None, str]:
        """Return the face in which a path lies, None if there is none, and the key in it."""
        name, _, key = path.partition("/")
        face = self.faces.made.get(name)
        return (face or self.faces.get(name)), key

    def resolve(self, path: str, opening: bool = False) -> ResolvedPath | None:
        face, key = self.split(path)
        return None if face is None else ResolvedPath(face, key, None)

    def node(self, path: str) -> Node | None:
        if not path:
            return GROUP
        if path in self.faces.kinds:
            return self.faces.kinds[path].root
        face, key = self.split(path)
        if face is None:
            check_no_chunk(path)
        return face.node(key) if face else None

    def children(self, path: str, after: int = 0) -> Iterator[str]:
        if not path:
            return islice(iter(self.faces), after, None)
        face, key = self.split(path)
        return face.children(key, after) if face else iter(())

    def sets(self, path: str) -> Iterator[ShownEntry]:
        return iter(() if path else self._shown)

    def progress(self) -> Mapping[str, Progress]:
        return {}

    def set_of(self, path: str) -> ShownSet | None:
        return self._set_of.get(path.partition("/")[0])

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

    def opening(self, path: str) -> Opening | None:
        return self._openings.get(path.partition("/")[0])

    def stamp(self, path: str) -> int:
        """Return 0: data sets that are open are shown until the mount ends."""
        return 0

    def version(self, path: str) -> bytes:
        watched = self._watched.get(path.partition("/")[0])
        return watched.version() if watched else b""

    def at_hand(self, path: str) -> PathAtHand | None:
        name, _, key = path.partition("/")
        watched, face = self._watched.get(name), self.faces.made.get(name)
        if watched is None or face is None or (watched.opened and time.monotonic() >= watched.trust.until):
            return None
        return PathAtHand(face, key, watched.version(), watched.trust.until, None)


def _cut(name: str, most: int) -> str:
    """Cut a name to at most `most` bytes."""
    while len(os.fsencode(name)) > most:
        name = name[:-1]
    return name
