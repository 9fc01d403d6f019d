"""Declares what is shown: `Contents`, which a mount and an HTTP server translate.

`vfs.contents.face_folder.FaceFolder` shows some data sets, `vfs.folder_tree.FolderTree` a folder
with all data sets in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

from vfs.engine.cache import ChunkCache
from vfs.faces.face import Face, Node
from vfs.live.growing import Progress
from vfs.sets.opening import Opening

KEEP = 3600.0
"""Seconds for which kernels may remember names and attributes of a `FaceFolder`: these never change."""


class Lifetime(Protocol):
    """Tracks whether an open data set is still current, if sets may change while they are shown.

    Attributes:
        stamp: see `Contents.stamp`.
        until: `time.monotonic()` up to which its files need not be checked again.
        dropped: True if the set was closed or its files changed; it is not served any longer.
        told: functions that are called when the set is dropped, and when its files must be checked
            before `until`. Code that adds a function must look at `dropped` afterwards.
    """

    @property
    def stamp(self) -> int: ...

    @property
    def until(self) -> float: ...

    @property
    def dropped(self) -> bool: ...

    @property
    def told(self) -> list[Callable[[], None]]: ...


class ResolvedPath(NamedTuple):
    """A path of a mount or server, resolved: its face and the key in that face.

    `lifetime` tracks whether this is still current; None if it is as long as the mount exists.
    """

    face: Face
    key: str
    lifetime: Lifetime | None


class PathAtHand(NamedTuple):
    """A path whose sources were looked at a moment ago: its face, the key in it, and its `Contents.version`.

    Attributes:
        until: `time.monotonic()` up to which they need not be looked at again.
        lifetime: see `ResolvedPath`; it may end before.
    """

    face: Face
    key: str
    version: bytes
    until: float
    lifetime: Lifetime | None


class ShownEntry(NamedTuple):
    """An entry of a folder: a data set, a folder, or a file that may be a set and cannot be opened.

    Attributes:
        name: its name, without the ending of a face.
        path: path of the main face of the set, of the folder, or of the file.
        kind: which of them it is.
        format: name of the format of a set, where it is known.
        nbytes: bytes of the files of a set, or of the file; 0 for a folder.
        time: modification time of the newest of them, nanoseconds since 1970; 0 for a folder.
        reason: why a file cannot be opened.
    """

    name: str
    path: str
    kind: Literal["set", "folder", "file"]
    format: str = ""
    nbytes: int = 0
    time: int = 0
    reason: str = ""


class ShownSet(NamedTuple):
    """The data set that a face shows.

    Attributes:
        name: its name, without the ending of a face.
        file: path of the face that is its main array as one file; None if it has none.
    """

    name: str
    file: str | None


class Contents(Protocol):
    """Provides the contents of a mount or an HTTP server. It is a face whose keys are paths, and more for caches.

    Attributes:
        faces: the faces that are known from the start.
        entry_timeout: seconds for which the kernel may remember which names exist and which do not.
        attr_timeout: seconds for which the kernel may remember sizes and times.
        cache: cache of decoded pieces; clearing it frees their memory.
        warnings: a line for each thing that a data set should hold and does not -> files by which the set was opened.
    """

    @property
    def cache(self) -> ChunkCache: ...

    @property
    def warnings(self) -> Mapping[str, Sequence[str]]: ...

    @property
    def faces(self) -> Mapping[str, Face]: ...

    @property
    def entry_timeout(self) -> float: ...

    @property
    def attr_timeout(self) -> float: ...

    def node(self, path: str) -> Node | None: ...

    def children(self, path: str, after: int = 0) -> Iterator[str]: ...

    def get(self, path: str, start: int = 0, stop: int | None = None) -> memoryview | None: ...

    def sets(self, path: str) -> Iterator[ShownEntry]:
        """Return the data sets of a folder, each once, and its subfolders, as they become known; then files that may be
        data sets, and cannot be opened.
        """
        ...

    def progress(self) -> Mapping[str, Progress]:
        """Return how far the sets are that are still being written, by the paths of their main faces."""
        ...

    def set_of(self, path: str) -> ShownSet | None:
        """Return the data set whose face a path is, or lies in. None if it lies in no face."""
        ...

    def time(self, path: str) -> int:
        """Return the modification time of a path, nanoseconds since 1970: that of its newest source."""
        ...

    def stamp(self, path: str) -> int:
        """Return a number that stands for the state of the sources behind a path.

        A file that was opened in one state may not be read in another.
        """
        ...

    def version(self, path: str) -> bytes:
        """Return a digest of the sources behind a path, their sizes and times, and of how they were opened.

        While it stays the same, a path has the same bytes, also in another process. It is empty if
        they may change at any time (`accept_changes`).

        Raises:
            SourceError: the sources are not those that were opened.
        """
        ...

    def at_hand(self, path: str) -> PathAtHand | None:
        """Resolve a path whose sources were looked at a moment ago, so that its `node` and `version` need no file.

        Returns: None for other paths, and for those that lie in no face.

        Raises:
            SourceError: see `version`.
        """
        ...

    def opening(self, path: str) -> Opening | None:
        """Return how the set or the file behind a path is opened, also if it cannot be; None if there is none."""
        ...

    def resolve(self, path: str, opening: bool = False) -> ResolvedPath | None:
        """Resolve a path without looking at any source file. Return None if it lies in no face.

        Args:
            opening: a data set may be opened for it.
        """
        ...

    def place(self, path: str) -> tuple[str, str]:
        """Split a path into the source folder behind it, and the rest of the path.

        The folder is "" if the mount does not show folders of the sources.
        """
        ...

    def sources(self, path: str, all_files: bool) -> Sequence[str]:
        """Return the source files behind a path.

        Args:
            all_files: return all files; else only those that are known without opening a data set.
        """
        ...
