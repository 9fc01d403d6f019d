"""Declares what is shown at a path of a mount or server: `Shown`, and `InFace` where the path lies in a data set."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from vfs.faces.absence import check_no_chunk
from vfs.faces.face import Face, Node
from vfs.sets.opening import Opening


class Lifetime(Protocol):
    """Tracks whether an open data set is still current, if sets may change while they are shown.

    Attributes:
        stamp: see `Shown.stamp`.
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


class Watch(Protocol):
    """Watches the files of an open data set.

    Attributes:
        lifetime: tracks whether the set is still current; None if it is as long as the mount or server exists.
        until: `time.monotonic()` up to which the files need not be looked at again.
        time: modification time of the newest of them, nanoseconds since 1970.
    """

    @property
    def lifetime(self) -> Lifetime | None: ...

    @property
    def until(self) -> float: ...

    @property
    def time(self) -> int: ...

    def check(self) -> None:
        """Check that the files are there, as far as that is known.

        Raises:
            SourceChangedError: they are gone, or are others that cannot be opened yet.
        """
        ...

    def stamp_of(self, face: Face, key: str) -> int:
        """Return `Shown.stamp` of a key of a face of the set."""
        ...

    def version_of(self, face: Face, key: str) -> bytes:
        """Return `Shown.version` of a key of a face of the set.

        Raises:
            SourceError: the files are not those that were opened.
        """
        ...


PATIENCE = 0.2
"""Seconds for which a list that people look at waits for names, before it says that some are not known yet."""


class ShownEntry(NamedTuple):
    """An entry of a folder: a data set, a folder, a file that may be a set and cannot be opened, or one that nobody
    has opened yet.

    Attributes:
        name: its name, without the ending of a face.
        path: path of the main face of the set, of the folder, or of the file.
        kind: which of them it is.
        format: name of the format of a set, where it is known.
        nbytes: bytes of the files of a set, or of the file; 0 for a folder.
        time: modification time of the newest of them, nanoseconds since 1970; 0 for a folder.
        reason: why a file cannot be opened.
        stack: of a set that is a stack of numbered images, how many files; else 0.
    """

    name: str
    path: str
    kind: Literal["set", "folder", "file", "unopened"]
    format: str = ""
    nbytes: int = 0
    time: int = 0
    reason: str = ""
    stack: int = 0


class Shown:
    """What is shown at a path: nothing, where no subclass says more. It is good for one request.

    Attributes:
        path: the path.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    def node(self) -> Node | None:
        """Return what the path is; None if nothing is there.

        Raises:
            NoChunkError: the path looks like a chunk that no array has.
            SourceError: its sources cannot be looked at, or are gone.
        """
        check_no_chunk(self.path)
        return None

    def children(self, after: int = 0, until: float = math.inf) -> Iterator[str]:
        """Return the names in a folder, without the first `after`.

        A name that vanished is replaced by "/", which no file can have as its name.

        Args:
            until: `time.monotonic()` from which on no name is waited for that is not known yet: see `unopened`.
        """
        return iter(())

    def unopened(self) -> Sequence[str]:
        """Return the names of files in a folder that may be data sets, and that nobody has opened yet."""
        return ()

    def get(self, start: int = 0, stop: int | None = None) -> memoryview | None:
        """Return bytes of a file; None if there is none."""
        return None

    def sets(self, until: float = math.inf) -> Iterator[ShownEntry]:
        """Return the data sets of a folder, each once, and its subfolders, as they become known; then files that may be
        data sets, and cannot be opened, and those that nobody has opened yet.

        Args:
            until: see `children`.
        """
        return iter(())

    def time(self) -> int:
        """Return the modification time of the newest source, nanoseconds since 1970."""
        return 0

    def stamp(self) -> int:
        """Return a number that stands for the state of the sources.

        A file that was opened in one state may not be read in another.
        """
        return 0

    def version(self) -> bytes:
        """Return a digest of the sources, their sizes and times, and of how they were opened.

        While it stays the same, a path has the same bytes, also in another process. It is empty if
        they may change at any time (`accept_changes`).

        Raises:
            SourceError: the sources are not those that were opened.
        """
        return b""

    def listed_version(self) -> bytes:
        """Return `version` for a list, for which no data set needs to be open: a moment ago its files were so.

        Raises:
            SourceError: see `version`.
        """
        return self.version()

    def set_of(self, name: str) -> str | None:
        """Return the path of the main face of the set that a file in a folder names or belongs to, or None.

        Raises:
            SourceError: the set cannot be opened.
        """
        return None

    @property
    def opening(self) -> Opening | None:
        """How the set or the file is opened, also if it cannot be; None if there is none."""
        return None

    def source_files(self, all_files: bool) -> Sequence[str]:
        """Return the source files.

        Args:
            all_files: return all files; else only those that are known without opening a data set.
        """
        return ()

    def in_face(self, opens: bool = True) -> InFace | None:
        """Return the path as one whose face is at hand; None if it lies in no face.

        Args:
            opens: a data set may be opened for it; else None is returned for a set that is not open.

        Raises:
            SourceError: the set cannot be opened, or its files are gone.
        """
        return None


class InFace(Shown):
    """What is shown at a path in a face of a data set.

    Args:
        path: the path.
        key: its key in the face.

    Attributes:
        key: as given.
        face: the face.
        watch: watches the files of the set.
    """

    face: Face
    watch: Watch

    def __init__(self, path: str, key: str) -> None:
        self.path = path
        self.key = key
        self._version: bytes | None = None

    def _open(self) -> tuple[Face, Watch]:
        """Return `face` and `watch`, if something needs them and they were not set."""
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        """Open the set for `face` or `watch`.

        In Python 3.11, a `cached_property` has one lock for all instances: a set that is slow to open would hold up all
        others.
        """
        if name not in ("face", "watch"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self.face, self.watch = self._open()
        return self.__dict__[name]

    @property
    def name(self) -> str:
        """The name of the data set, without the ending of a face."""
        raise NotImplementedError

    @property
    def file(self) -> str | None:
        """The path of the face that is the main array as one file; None if there is none."""
        raise NotImplementedError

    def node(self) -> Node | None:
        return self.face.node(self.key)

    def children(self, after: int = 0, until: float = math.inf) -> Iterator[str]:
        return self.face.children(self.key, after)

    def get(self, start: int = 0, stop: int | None = None) -> memoryview | None:
        self.watch.check()
        return self.face.get(self.key, start, stop)

    def time(self) -> int:
        return self.watch.time

    def stamp(self) -> int:
        return self.watch.stamp_of(self.face, self.key)

    def version(self) -> bytes:
        """Return what `Shown.version` says; the same each time, although files change meanwhile."""
        if self._version is None:
            self._version = self.watch.version_of(self.face, self.key)
        return self._version

    def in_face(self, opens: bool = True) -> InFace | None:
        if not opens and "face" not in self.__dict__:
            return None
        self.watch.check()
        return self
