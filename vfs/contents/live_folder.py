"""Shows data sets some of which are still being written: a `Contents` that follows them as they grow.

For each state of the sets there is a `FaceFolder`. When a set has grown, another one takes its place, with the same
names. Chunks of whole frames never change, so they keep their version (ETags) and their stamp: what is open stays
open. Documents, chunks at the end of an axis that grows, and .npy files of such arrays have another version with
each state.

A set whose files were restarted is another acquisition. It is opened again, with a stamp of its own: programs that have
a file of the old one open get an error.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from uuid import uuid4

from vfs.contents.face_folder import FaceFolder
from vfs.contents.shown import InFace, Shown, Watch
from vfs.engine.cache import ChunkCache
from vfs.errors import SourceChangedError
from vfs.faces.face import Face
from vfs.live.growing import Progress
from vfs.sets.live_set import LiveSet
from vfs.sets.opening import OpenedSet, Opening


class _State:
    """A state of the sets, and its `Lifetime`.

    Attributes:
        folder: shows it; sets: the sets in it.
        number: of the state; stamp: of the acquisitions that it shows.
        until: time (monotonic seconds) up to which the owners of the sets need not be asked again.
    """

    def __init__(self, folder: FaceFolder, sets: Sequence[OpenedSet], number: int, stamp: int) -> None:
        self.folder, self.sets, self.number, self.stamp = folder, sets, number, stamp
        self.until = 0.0
        self.dropped = False
        self.told: list[Callable[[], None]] = []

    def drop(self) -> None:
        """Note that another state is shown now, and tell those who want to know."""
        self.dropped = True
        self.until = 0.0
        for tell in list(self.told):
            tell()


class _SetState:
    """Watches the files of one set in a state of the sets: a `vfs.contents.shown.Watch`.

    Args:
        state: the state.
        whole: watches them if the set is whole.
        opening: how the set was opened in that state.
        live: the set.
        token: what versions begin with.
    """

    def __init__(self, state: _State, whole: Watch, opening: Opening, live: LiveSet, token: bytes) -> None:
        self.lifetime, self._whole, self._options = state, whole, opening.options
        self._live, self._token = live, token

    @property
    def until(self) -> float:
        return 0.0 if self._live.wrong else self.lifetime.until

    @property
    def time(self) -> int:
        return self._whole.time

    def check(self) -> None:
        if self._live.wrong:
            raise SourceChangedError(self._live.wrong)

    def stamp_of(self, face: Face, key: str) -> int:
        state = self.lifetime
        return state.stamp if _stays(face, key) else state.stamp << 32 | state.number

    def version_of(self, face: Face, key: str) -> bytes:
        self.check()
        if self._options.follow_blank:
            return b""
        if not self._options.follow:  # it is whole by now
            self._whole.version_of(face, key)
        state = self.lifetime
        return self._token + state.stamp.to_bytes(8) + (b"" if _stays(face, key) else state.number.to_bytes(8))


def _stays(face: Face, key: str) -> bool:
    """Return True if the bytes of a key stay as they are when the set grows."""
    part = face.part(key)
    if part is None or not part.file:
        return False
    array = part.array
    if array.dataset.written.declared is not None or array.dataset.written.head is None:
        return True
    return part.header is None and array.grid.region(part.position).shape == array.chunks


class LiveFolder:
    """Shows the faces of data sets in one folder, as far as they are written.

    It looks at no file: it asks each `LiveSet` for the set as it is now, as often as any of them looks at its files.

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
        self._sets, self._make = sets, folder
        self._lock = threading.RLock()
        self._token = uuid4().bytes
        self._number, self._first = 1, first
        self._state = self._made([one.now() for one in sets])

    def _made(self, shown: Sequence[OpenedSet]) -> _State:
        """Return a state in which these sets are shown."""
        stamp = self._first + sum(one.acquisition for one in self._sets)
        state = _State(self._make(shown), shown, self._number, stamp)
        for member, one, live in zip(state.folder.members, shown, self._sets, strict=True):
            member.watch = _SetState(state, member.watch, one.opening, live, self._token)
        return self._asked(state)

    def _asked(self, state: _State) -> _State:
        """Note that the owners of the sets were asked just now."""
        state.until = time.monotonic() + min(one.pause for one in self._sets)
        return state

    def _now(self) -> _State:
        """Return the present state."""
        state = self._state
        if time.monotonic() < state.until:
            return state
        with self._lock:
            state = self._state
            if time.monotonic() >= state.until:
                shown = [_look(live, before) for live, before in zip(self._sets, state.sets, strict=True)]
                if any(one is not before for one, before in zip(shown, state.sets, strict=True)):
                    self._number += 1
                    self._state = self._made(shown)
                    state.drop()
                else:
                    self._asked(state)
            return self._state

    def progress(self) -> Mapping[str, Progress]:
        """Return how far the sets that are still being written are, by the paths of their main faces."""
        state = self._now()
        shown = zip(state.folder.entries, state.sets, strict=True)
        return {entry.path: one.progress for entry, one in shown if one.progress is not None}

    @property
    def open_sets(self) -> tuple[int, int]:
        """How many sets are open, and how many were opened so far: they stay open."""
        return len(self._state.sets), len(self._state.sets)

    @property
    def current(self) -> Sequence[OpenedSet]:
        """The sets as they were when somebody looked last."""
        return self._state.sets

    @property
    def outdated(self) -> bool:
        """True if files of a set are gone, or were begun anew and cannot be opened yet."""
        return any(one.wrong for one in self._sets)

    @property
    def ended(self) -> bool:
        """True if no set is looked at any more: each is whole, or stopped."""
        return all(one.ended for one in self._sets)

    def drop(self) -> None:
        """Note that something else shows the sets from now on, and tell those who want to know."""
        self._state.drop()

    @property
    def faces(self) -> Mapping[str, Face]:
        return self._now().folder.faces

    @property
    def warnings(self) -> Mapping[str, Sequence[str]]:
        return self._now().folder.warnings

    def at(self, path: str) -> Shown:
        return self._now().folder.at(path)

    def at_hand(self, path: str) -> InFace | None:
        state = self._state
        return None if time.monotonic() >= state.until else state.folder.at_hand(path)

    def place(self, path: str) -> tuple[str, str]:
        return "", path


def _look(live: LiveSet, before: OpenedSet) -> OpenedSet:
    """Return a set as it is now; as it was where it cannot be opened, which `_SetState.check` says."""
    try:
        return live.now()
    except SourceChangedError:
        return live.begin_anew() or before
