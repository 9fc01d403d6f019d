"""Sets that the page had opened anew with other options, beside those that are served.

Each is a folder of its own, `anew~ID/NAME.zarr`, that no list shows. There are few: the one that was used longest ago
goes for a new one, and the page asks for it again. Of a folder tree, `single~` is the same tree that shows numbered
images each by itself.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from vfs.contents.contents import Contents
from vfs.contents.shown import InFace, Shown
from vfs.engine.cache import ChunkCache
from vfs.errors import printable
from vfs.faces.face import Face
from vfs.folder_tree import FolderTree
from vfs.folder_tree.plans import each_by_itself, folder
from vfs.http.guard import RefusedError
from vfs.live.growing import Progress
from vfs.model.pickles import digest
from vfs.sets.opening import OpenedSet
from vfs.sets.reopening import reopened

MAX_SETS = 16
"""Most sets that are kept open."""
WEIGHT = 64 << 20
"""Most bytes of memory that they may take, about, but for the newest."""
LIGHT = 100_000  # bytes of memory that a set takes besides its tables
START = "anew~"
SINGLE = "single~"


class _KeptSet(NamedTuple):
    """A set that is open: what it shows, how it was opened, bytes of memory that it takes, about; by what it was asked
    for.
    """

    contents: Contents
    found: OpenedSet
    weight: int
    origins: set[str]


class Reopened:
    """Shows what is served, and sets that were opened anew: a `Contents`.

    Args:
        served: what is served.
    """

    def __init__(self, served: Contents) -> None:
        self._served = served
        self._kept: OrderedDict[str, _KeptSet] = OrderedDict()
        self._lock = threading.Lock()

    @cached_property
    def _single(self) -> Contents | None:
        """The folder that is served, numbered images each by itself; None if there is none, or it shows them so."""
        served = self._served
        return each_by_itself(served, f"{SINGLE}/") if isinstance(served, FolderTree) else None

    def reopen(self, key: str, changes: Mapping[str, Any]) -> tuple[str, OpenedSet]:
        """Open a set anew.

        Args:
            key: path of its main face, or of a file in a folder that is served.
            changes: see `vfs.sets.reopening.reopened`.

        Returns: path of the main face of the new set, and the set.

        Raises:
            RefusedError: there is none.
            VfsError: it cannot be opened so.
        """
        opening = self.at(key).opening
        if opening is None:
            raise RefusedError(404, f"no data set is called {printable(key[:200])}")
        found = reopened(opening, changes, self.cache)
        name = START + digest(found.opening).hex()[:16]
        with self._lock:
            kept = self._kept.get(name)
            if kept is None:
                shown = folder([found], self.cache, for_urls=True, above=f"{name}/")
                kept = self._kept[name] = _KeptSet(shown, found, LIGHT + found.tree.weight, set())
            kept.origins.update(self._origins(key))
            self._kept.move_to_end(name)
            while len(self._kept) > 1 and (
                len(self._kept) > MAX_SETS or sum(one.weight for one in self._kept.values()) > WEIGHT
            ):
                self._kept.popitem(last=False)
        return f"{name}/{next(iter(kept.contents.faces))}", kept.found

    def origins(self, path: str) -> Collection[str]:
        """Return the path itself, if it is served; of a set that was opened anew, the paths that this was asked of."""
        with self._lock:
            return frozenset(self._origins(path))

    def _origins(self, path: str) -> Collection[str]:
        if not path.startswith(START):
            return (path,)
        kept = self._kept.get(path.partition("/")[0])
        return () if kept is None else kept.origins

    def at(self, path: str) -> Shown:
        if path.startswith(START):
            name, _, rest = path.partition("/")
            with self._lock:
                kept = self._kept.get(name)
                if kept is not None:
                    self._kept.move_to_end(name)
                    return kept.contents.at(rest)
        first, _, rest = path.partition("/")
        if first == SINGLE and self._single is not None:
            return self._single.at(rest)
        return self._served.at(path)

    def at_hand(self, path: str) -> InFace | None:
        return None if path.startswith((START, SINGLE)) else self._served.at_hand(path)

    # What the served contents say of all

    @property
    def cache(self) -> ChunkCache:
        return self._served.cache

    @property
    def warnings(self) -> Mapping[str, Sequence[str]]:
        return self._served.warnings

    @property
    def faces(self) -> Mapping[str, Face]:
        return self._served.faces

    def progress(self) -> Mapping[str, Progress]:
        return self._served.progress()

    @property
    def open_sets(self) -> tuple[int, int]:
        return self._served.open_sets

    @property
    def entry_timeout(self) -> float:
        return self._served.entry_timeout

    @property
    def attr_timeout(self) -> float:
        return self._served.attr_timeout

    def place(self, path: str) -> tuple[str, str]:
        return self._served.place(path)
