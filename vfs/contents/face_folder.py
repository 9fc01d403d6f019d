"""Makes the contents of a mount of data sets: their faces, each under a name of its own."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain, islice

import numpy as np

from vfs.contents.contents import KEEP
from vfs.contents.shown import InFace, Shown, ShownEntry, Watch
from vfs.engine.cache import ChunkCache
from vfs.errors import OptionError, SourceChangedError
from vfs.faces.data_set import FILE_ENDING, FaceKind, Faces, Hierarchy
from vfs.faces.face import GROUP, MAX_FACE_NAME_BYTES, Face, Node
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
    """Tells if the files of an open data set are those that were opened: a `vfs.contents.shown.Watch`.

    Args:
        tree: the data set.
        opened: digest of how it was opened; empty if its files may change.
    """

    lifetime = None

    def __init__(self, tree: Hierarchy, opened: bytes) -> None:
        self.time = tree.time
        self._opened = opened
        self._files = tree.file_sets
        self._trust = Trust(LOOKS_ELSEWHERE if any(map(is_url, chain(*(one.paths for one in self._files)))) else LOOKS)
        self._moves = [files.moves for files in self._files]
        self._wrong, self._version = "", b""

    @property
    def until(self) -> float:
        return self._trust.until if self._opened else math.inf

    def check(self) -> None:
        """Check nothing: reads and `version_of` tell."""

    def stamp_of(self, face: Face, key: str) -> int:
        """Return 0: data sets that are open are shown until the mount ends."""
        return 0

    def version_of(self, face: Face, key: str) -> bytes:
        """See `vfs.contents.shown.Shown.version`.

        A read that finds a file touched changes it at once, not only when the files are looked at.
        """
        if not self._opened:
            return b""
        if time.monotonic() >= self._trust.until:
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
            self._version = digest((self._opened, [files.identity() for files in self._files]))
        self._wrong = wrong
        self._trust.renew(began)


def _changed(files: Files, file: int) -> str:
    """Say what is wrong with a file that is not the one that was opened."""
    path = files.paths[file]
    try:
        now = files.sources.state(path) if is_url(path) else FileState.of(os.stat(path))
    except OSError as error:
        return f"{path}: cannot be found any more: {error.strerror}; put it back, or serve the set again"
    return f"{path}: changed after it was opened ({files.state(file).difference(now)}); serve it again"


class SetInFolder:
    """A data set of the folder.

    Args:
        tree: the data set.
        named: the files by which it was opened.
        opening: how it was opened, where that is known.
        name: its name in the folder, without the ending of a face.
        file: path of the face that is its main array as one file; None if it has none.

    Attributes:
        watch: watches its files.
    """

    def __init__(
        self,
        tree: Hierarchy,
        named: Sequence[str],
        opening: Opening | None,
        name: str,
        file: str | None,
        watch: Watch,
    ) -> None:
        self.tree, self.named, self.opening, self.name, self.file, self.watch = tree, named, opening, name, file, watch

    @cached_property
    def source_files(self) -> Sequence[str]:
        """All files of the set, and those that it was opened by."""
        return tuple(dict.fromkeys(chain(self.named, self.tree.files)))


class _Root(Shown):
    """Shows the folder itself."""

    def __init__(self, folder: FaceFolder) -> None:
        super().__init__("")
        self._folder = folder

    def node(self) -> Node:
        return GROUP

    def children(self, after: int = 0, until: float = math.inf) -> Iterator[str]:
        return islice(iter(self._folder.faces), after, None)

    def sets(self, until: float = math.inf) -> Iterator[ShownEntry]:
        return iter(self._folder.entries)

    def time(self) -> int:
        return max(one.tree.time for one in self._folder.members)


class _InMember(InFace):
    """Shows a path in a face of a set. The face is made when it is needed."""

    def __init__(self, faces: Faces, member: SetInFolder, path: str, key: str, face: Face | None) -> None:
        super().__init__(path, key)
        self._faces, self._member, self.watch = faces, member, member.watch
        if face is not None:
            self.face = face

    def _open(self) -> tuple[Face, Watch]:
        return self._faces[self.path.partition("/")[0]], self._member.watch

    def node(self) -> Node | None:
        return self.face.node(self.key) if self.key else self._faces.kinds[self.path].root

    @property
    def name(self) -> str:
        return self._member.name

    @property
    def file(self) -> str | None:
        return self._member.file

    @property
    def opening(self) -> Opening | None:
        return self._member.opening

    def source_files(self, all_files: bool) -> Sequence[str]:
        return self._member.source_files

    def in_face(self, opens: bool = True) -> InFace | None:
        return super().in_face()  # the set is open


class FaceFolder:
    """Shows the faces of data sets in one folder, as a `Contents`. Equal names get -2, -3.

    Args:
        trees: the data sets.
        cache: cache in which the arrays keep decoded pieces; the server reports its hits and misses.
        named: for each data set, the files by which it was opened.
        versions: for each data set, the digest that versions of its paths begin with.
        openings: for each data set, how it was opened.
        zarr_format: 3 or 2 leaves out the face of the other format; None keeps both.
        above: what paths of the folder begin with where they are said: it is a folder of something larger.

    Attributes:
        members: the data sets.
        entries: what a list of the folder says of each.

    Raises:
        OptionError: there is no data set.
    """

    entry_timeout = attr_timeout = KEEP

    def __init__(
        self,
        trees: Sequence[Hierarchy],
        cache: ChunkCache | None = None,
        named: Sequence[Sequence[str]] = (),
        versions: Sequence[bytes] = (),
        openings: Sequence[Opening] = (),
        zarr_format: int | None = None,
        above: str = "",
    ) -> None:
        if not trees:
            raise OptionError("nothing to mount: expected at least one data set")
        self.cache = ChunkCache() if cache is None else cache
        kinds: dict[str, FaceKind] = {}
        self.faces = Faces(kinds)
        self.members: list[SetInFolder] = []
        self.entries: list[ShownEntry] = []
        self.warnings: Mapping[str, Sequence[str]] = {}
        self._member: dict[str, SetInFolder] = {}
        for n, tree in enumerate(trees):
            endings = {kind.ending: kind for kind in tree.face_kinds(zarr_format)}
            # Different names may clash, too: the v2 face of `a` has the same name as the v3 face of `a.v2`
            name = first_free(
                _cut(tree.name, MAX_FACE_NAME_BYTES - max(len(os.fsencode(ending)) for ending in endings)),
                partial(self._taken, endings),
            )
            opening = openings[n] if openings else None
            path, format = above + name + next(iter(endings)), opening.format if opening else ""
            self.entries.append(ShownEntry(name, path, "set", format, tree.nbytes, tree.time))
            file = above + name + FILE_ENDING if FILE_ENDING in endings else None
            watch = _Watched(tree, versions[n] if versions else b"")
            member = SetInFolder(tree, named[n] if named else (), opening, name, file, watch)
            self.members.append(member)
            for ending, kind in endings.items():
                kinds[name + ending] = kind
                self._member[name + ending] = member

    def _taken(self, endings: Iterable[str], name: str) -> bool:
        return any(name + ending in self.faces for ending in endings)

    def at(self, path: str) -> Shown:
        name, _, key = path.partition("/")
        member = self._member.get(name)
        if member is None:
            return Shown(path) if path else _Root(self)
        return _InMember(self.faces, member, path, key, self.faces.made.get(name))

    def at_hand(self, path: str) -> InFace | None:
        name, _, key = path.partition("/")
        face = self.faces.made.get(name)
        if face is None:
            return None
        member = self._member[name]
        if time.monotonic() >= member.watch.until:
            return None
        shown = _InMember(self.faces, member, path, key, face)
        shown.version()
        return shown

    def progress(self) -> Mapping[str, Progress]:
        return {}

    @property
    def open_sets(self) -> tuple[int, int]:
        return len(self._member), len(self._member)

    def place(self, path: str) -> tuple[str, str]:
        return "", path


def _cut(name: str, most: int) -> str:
    """Cut a name to at most `most` bytes."""
    while len(os.fsencode(name)) > most:
        name = name[:-1]
    return name
