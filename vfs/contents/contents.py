"""Declares what a mount and an HTTP server translate: `Contents`.

`vfs.contents.face_folder.FaceFolder` shows some data sets, `vfs.folder_tree.FolderTree` a folder
with all data sets in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from vfs.contents.shown import InFace, Shown
from vfs.engine.cache import ChunkCache
from vfs.faces.face import Face
from vfs.live.growing import Progress

KEEP = 3600.0
"""Seconds for which kernels may remember names and attributes of a `FaceFolder`: these never change."""


class Paths(Protocol):
    """Says what is shown at each path."""

    def at(self, path: str) -> Shown:
        """Return what is shown at a path. It may look at files to find out.

        Raises:
            SourceError: that cannot be found out.
        """
        ...


class Contents(Paths, Protocol):
    """Says what a mount or an HTTP server shows at each path.

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

    def at_hand(self, path: str) -> InFace | None:
        """Return what `at` returns for a path whose sources were looked at a moment ago, so that its `node` and
        `version` need no file.

        Returns: None for other paths, and for those that lie in no face.

        Raises:
            SourceError: see `Shown.version`.
        """
        ...

    def progress(self) -> Mapping[str, Progress]:
        """Return how far the sets are that are still being written, by the paths of their main faces."""
        ...

    @property
    def open_sets(self) -> tuple[int, int]:
        """How many sets are open, and how many were opened so far."""
        ...

    def place(self, path: str) -> tuple[str, str]:
        """Split a path into the source folder behind it, and the rest of the path, without looking into the folder.

        The folder is "" if no folders of the sources are shown.
        """
        ...
