"""Shows data sets of which some are still being written: a `Contents` that goes on as they grow.

For each state of the sets there is a `FaceFolder`. When a set has grown, another one takes its place, with the same
names. Chunks of whole frames never change, so they keep their version (ETags) and their stamp: what is open stays
open. Documents, chunks at the end of an axis that grows, and .npy files of such arrays have another version with
each state.

A set whose files were begun anew is another acquisition. It is opened again, with a stamp of its own: whoever has a
file of the old one open gets an error.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from uuid import uuid4

from vfs.contents.contents import PathAtHand, ResolvedPath, ShownEntry, ShownSet
from vfs.contents.face_folder import FaceFolder
from vfs.engine.cache import ChunkCache
from vfs.errors import SourceChangedError, VfsError
from vfs.faces.face import Face, Node
from vfs.live.growing import Progress
from vfs.sets.live_set import LiveSet, open_live
from vfs.sets.opening import OpenedSet, Opening

LOOKS = 0.2
"""Seconds for which the state of the sets is good."""


class _State:
    """A state of the sets, and its `Lifetime`.

    Attributes:
        folder: shows it; sets: the sets in it.
        number: of the state; acquisition: of the acquisitions that it shows, which is their stamp.
    """

    def __init__(self, folder: FaceFolder, sets: Sequence[OpenedSet], number: int, acquisition: int) -> None:
        self.folder, self.sets, self.number, self.stamp = folder, sets, number, acquisition
        self.until = time.monotonic() + LOOKS
        self.dropped = False
        self.told: list[Callable[[], None]] = []

    def drop(self) -> None:
        """Note that another state is shown now, and tell those who want to know."""
        self.dropped = True
        self.until = 0.0
        for tell in list(self.told):
            tell()


class LiveFolder:
    """Shows the faces of data sets in one folder, as far as they are written.

    Args:
        sets: the sets.
        folder: makes the contents of a state of them.
        cache: cache of decoded pieces.
        first: stamp of the acquisitions that are shown at first; later ones have the next numbers.
    """

    entry_timeout = 1.0
    attr_timeout = 0.0  # documents become longer, and .npy files

    def __init__(
        self,
        sets: Sequence[LiveSet],
        folder: Callable[[Sequence[OpenedSet]], FaceFolder],
        cache: ChunkCache,
        first: int = 1,
    ) -> None:
        self.cache = cache
        self._sets, self._make = list(sets), folder
        self._lock = threading.RLock()
        self._token = uuid4().bytes
        self._wrong: dict[int, str] = {}
        self._number, self._acquisition = 1, first
        shown = [one.now() for one in self._sets]
        self._state = _State(folder(shown), shown, self._number, self._acquisition)

    def _now(self) -> _State:
        """Return the present state."""
        state = self._state
        if time.monotonic() < state.until:
            return state
        with self._lock:
            state = self._state
            if time.monotonic() >= state.until:
                shown = [self._look(n, before) for n, before in enumerate(state.sets)]
                if any(one is not before for one, before in zip(shown, state.sets, strict=True)):
                    self._number += 1
                    self._state = _State(self._make(shown), shown, self._number, self._acquisition)
                    state.drop()
                else:
                    state.until = time.monotonic() + LOOKS
            return self._state

    def _look(self, number: int, before: OpenedSet) -> OpenedSet:
        """Return a set as it is now; as it was where it cannot be opened, which `_check` says."""
        one = self._sets[number]
        try:
            found = one.now()
        except SourceChangedError as error:
            with suppress(VfsError):
                one = self._sets[number] = open_live(one.opening, self.cache)
                self._acquisition += 1
                self._wrong.pop(number, None)
                return one.now()
            self._wrong[number] = str(error)
            return before
        self._wrong.pop(number, None)
        return found

    def _check(self, state: _State, path: str) -> None:
        """Check that the files of the set behind a path are there.

        Raises:
            SourceChangedError: they are gone, or are others that cannot be opened yet.
        """
        for number, said in self._wrong.items() if self._wrong else ():
            if state.folder.opening(path) is state.sets[number].opening:
                raise SourceChangedError(said)

    def progress(self) -> Mapping[str, Progress]:
        """Return how far the sets that are still being written are, by the paths of their main faces."""
        state = self._now()
        entries = state.folder.sets("")
        return {
            entry.path: one.progress for entry, one in zip(entries, state.sets, strict=True) if one.progress is not None
        }

    @property
    def state(self) -> int:
        """A number for the present state, which grows."""
        return self._now().number

    @property
    def current(self) -> Sequence[OpenedSet]:
        """The sets as they were when somebody looked last."""
        return self._state.sets

    @property
    def outdated(self) -> bool:
        """True if files of a set are gone, or were begun anew and cannot be opened yet."""
        return bool(self._wrong)

    @property
    def ended(self) -> bool:
        """True if no set is looked at any more: each is whole, or stopped."""
        return all(one.ended for one in self._sets)

    def drop(self) -> None:
        """Note that something else shows the sets from now on, and tell those who want to know."""
        self._state.drop()

    # What all of it is

    @property
    def faces(self) -> Mapping[str, Face]:
        return self._now().folder.faces

    @property
    def warnings(self) -> Mapping[str, Sequence[str]]:
        return self._now().folder.warnings

    def sets(self, path: str) -> Iterator[ShownEntry]:
        return self._now().folder.sets(path)

    # What is said of a path

    def node(self, path: str) -> Node | None:
        return self._now().folder.node(path)

    def children(self, path: str, after: int = 0) -> Iterator[str]:
        return self._now().folder.children(path, after)

    def set_of(self, path: str) -> ShownSet | None:
        return self._now().folder.set_of(path)

    def get(self, path: str, start: int = 0, stop: int | None = None) -> memoryview | None:
        state = self._now()
        self._check(state, path)
        return state.folder.get(path, start, stop)

    def time(self, path: str) -> int:
        return self._now().folder.time(path)

    def place(self, path: str) -> tuple[str, str]:
        return "", path

    def sources(self, path: str, all_files: bool) -> Sequence[str]:
        return self._now().folder.sources(path, all_files)

    def opening(self, path: str) -> Opening | None:
        return self._now().folder.opening(path)

    def stamp(self, path: str) -> int:
        state = self._now()
        return state.stamp if self._stays(state, path) else state.stamp << 32 | state.number

    def version(self, path: str) -> bytes:
        state = self._now()
        self._check(state, path)
        return self._version(state, path)

    def _version(self, state: _State, path: str) -> bytes:
        found = state.folder.opening(path)
        if found is None or found.options.follow_blank:
            return b""
        if not found.options.follow:  # it is whole by now
            state.folder.version(path)
        stays = self._stays(state, path)
        return self._token + state.stamp.to_bytes(8) + (b"" if stays else state.number.to_bytes(8))

    def _stays(self, state: _State, path: str) -> bool:
        """Return True if the bytes of a path stay as they are when the set grows."""
        face, key = state.folder.split(path)
        part = None if face is None else face.part(key)
        if part is None or not part.file:
            return False
        array = part.array
        if array.dataset.written.declared is not None or array.dataset.written.head is None:
            return True
        return part.header is None and array.grid.region(part.position).shape == array.chunks

    def at_hand(self, path: str) -> PathAtHand | None:
        state = self._state
        if time.monotonic() >= state.until or self._wrong:
            return None
        face, key = state.folder.split(path)
        if face is None or path.partition("/")[0] not in state.folder.faces.made:
            return None
        return PathAtHand(face, key, self._version(state, path), state.until, state)

    def resolve(self, path: str, opening: bool = False) -> ResolvedPath | None:
        state = self._now()
        self._check(state, path)
        found = state.folder.resolve(path, opening)
        return None if found is None else found._replace(lifetime=state)
