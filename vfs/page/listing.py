"""Says what is there: folders, sets and arrays, and how a set was opened."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from typing import Any

from vfs.contents.contents import Contents
from vfs.contents.rights import Rights, seen
from vfs.contents.shown import PATIENCE, InFace, Shown
from vfs.engine.array import ArrayReader
from vfs.errors import NoChunkError, printable
from vfs.faces.face import Face
from vfs.http.guard import RefusedError
from vfs.model import spoken
from vfs.page.tiles import channels_of, levels_of, windows_of
from vfs.page.views import described, told
from vfs.sets.kinds import is_backscatter
from vfs.sets.original import original, whole
from vfs.sets.recipe import Recipe

WARNINGS = 100  # most warnings that are said of a set


class SetListing:
    """Describes what is served. Its methods may look at files: they are called in threads.

    Args:
        contents: what is served.
    """

    def __init__(self, contents: Contents) -> None:
        self.contents = contents

    def folder(
        self, path: str, first: int, count: int, known: bool = False, rights: Rights | None = None
    ) -> dict[str, Any]:
        """List a folder.

        Args:
            rights: what is listed of it; None: all.
            known: wait for nothing that is not known soon: files that nobody has opened yet are entries by themselves.

        Raises:
            RefusedError: there is none.
        """
        shown = seen(self.contents, rights).at(path)
        try:
            node = shown.node()
        except NoChunkError:  # below an array
            node = None
        if node is None or not node.listed:
            raise RefusedError(404, f"no folder is called {printable(path[:200])}")
        until = time.monotonic() + PATIENCE if known else math.inf
        found = list(islice(_entries(shown, until), first, first + count + 1))
        return {
            "path": path,
            "entries": found[:count],
            "more": len(found) > count,
            "tree": not self.contents.faces,
        }

    def dataset(self, key: str, first: int, count: int, file: bool = False) -> dict[str, Any]:
        """Describe a set and some of its arrays.

        Args:
            key: path of its main face.
            file: the key is the path of a file in a folder, which names the set or belongs to it.

        Raises:
            RefusedError: there is none.
            SourceError: its files are not those that were opened.
        """
        if file:
            above, _, name = key.rpartition("/")
            key = self.contents.at(above).set_of(name) or key
        shown = self._set(key)
        shown.version()
        face, sources = shown.face, shown.source_files(False)
        said = (text for text, paths in self.contents.warnings.items() if not set(paths).isdisjoint(sources))
        return {
            "key": key,
            "name": printable(shown.name),
            "sources": [printable(path) for path in sources[:1]],
            "warnings": [printable(text) for text in islice(said, WARNINGS)],
            "npy": shown.file,
            "said": printable(spoken.line(face.arrays[face.main].dataset.recorded)),
            "original": shown.opening is not None and whole(shown.opening),
            "backscatter": self._backscatter(shown),
            **self._live(key),
            "count": len(face.arrays),
            "arrays": [
                described(path, array, path == face.main)
                for path, array in islice(face.arrays.items(), first, first + count)
            ],
        }

    def backscatter(self, key: str) -> bool:
        """Return True for a set of patterns of electron backscatter diffraction."""
        return self._backscatter(self._set(key))

    def _backscatter(self, shown: InFace) -> bool:
        main = shown.face.arrays[shown.face.main]
        return shown.opening is not None and is_backscatter(shown.opening.format, main.dataset)

    def _live(self, key: str) -> dict[str, Any]:
        """Say how far a set is that is still being written."""
        progress = self.contents.progress().get(key)
        return {} if progress is None else {"live": {**progress.said(), "grows": progress.grows}}

    def array(self, key: str) -> dict[str, Any]:
        """Describe an array, with the format's metadata.

        Raises:
            RefusedError: there is none.
            SourceError: its files are not those that were opened.
        """
        face, path, array = self.found(key)
        self.contents.at(key).version()
        return described(path, array, path == face.main) | {
            **told(array),
            "levels": levels_of(face, path),
            "channels": channels_of(face, path),
            "files": len(array.files),
        }

    def windows(self, key: str) -> list[tuple[float, float]] | None:
        """Return the numbers of each channel of an array that are black and full, see `windows_of`.

        Raises:
            RefusedError: there is none.
            SourceError: its files are not those that were opened, or cannot be read.
        """
        face, path, _ = self.found(key)
        self.contents.at(key).version()
        return windows_of(face, path)

    def original(self, key: str) -> dict[str, Any]:
        """Return all that the files of a set say, as they say it.

        Raises:
            RefusedError: there is no such set, or its arrays have all.
            SourceError: its files are not those that were opened, or cannot be read.
        """
        shown = self._set(key)
        if shown.opening is None or not whole(shown.opening):
            raise RefusedError(404, f"the metadata of its arrays are all that {printable(shown.name)} says")
        shown.version()
        return dict(original(shown.opening, shown.face.arrays))

    def opened(self, key: str) -> dict[str, Any]:
        """Say how the set behind a key was opened, for people who open it themselves.

        Raises:
            RefusedError: there is none.
            SourceError: its files are not those that were opened.
        """
        shown = self.contents.at(key).in_face()
        opening = None if shown is None else shown.opening
        if shown is None or opening is None:
            raise RefusedError(404, f"no data set is called {printable(key[:200])}")
        shown.version()
        return asdict(Recipe.of(opening.paths, opening.options, opening.format_options, opening.sources))

    def face(self, key: str) -> Face:
        """Return the face with arrays that a key is the path of.

        Raises:
            RefusedError: there is none.
        """
        return self._set(key).face

    def _set(self, key: str) -> InFace:
        """Return the face with arrays that a key is the path of, as a path.

        Raises:
            RefusedError: there is none.
        """
        shown = self.contents.at(key).in_face()
        if shown is None or shown.key or not shown.face.arrays:
            raise RefusedError(404, f"no data set is called {printable(key[:200])}")
        return shown

    def found(self, key: str) -> tuple[Face, str, ArrayReader]:
        """Return the array that a key is the path of, with its set and its path there.

        Raises:
            RefusedError: there is none.
        """
        shown = self.contents.at(key).in_face()
        if shown is None or shown.key not in shown.face.arrays:
            raise RefusedError(404, f"no array is called {printable(key[:200])}")
        return shown.face, shown.key, shown.face.arrays[shown.key]


def _entries(shown: Shown, until: float) -> Iterator[dict[str, Any]]:
    """Give the entries of a folder, see `Shown.sets`. Times are milliseconds."""
    for entry in shown.sets(until):
        made = {"name": printable(entry.name), "kind": entry.kind, "key": entry.path}
        about = {"format": entry.format, "size": entry.nbytes, "time": entry.time // 10**6}
        said: dict[str, Any] = {"reason": printable(entry.reason)} if entry.reason else {}
        said |= {"stack": entry.stack} if entry.stack else {}
        yield made if entry.kind in ("folder", "unopened") else {**made, **about, **said}
