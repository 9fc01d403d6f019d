"""Watches one folder: reads the names in it, and reads them again after the folder changed. Opens no file."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from vfs.errors import SourceError
from vfs.faces.data_set import Hierarchy
from vfs.folder_tree.candidates import Candidates, shown
from vfs.folder_tree.records import LOOKS, Rules, State
from vfs.live.trust import Pace, Trust
from vfs.model.file_state import FileState
from vfs.model.sources import FolderSources, Inside

# Ns: a folder changed so shortly before it was read may change again without another time of change
FRESH = 100_000_000
ASKED = 1.0
"""Seconds after which the names in a folder on a server are read again for somebody who lists it."""


class NameChanges(NamedTuple):
    """Names that were added to a folder and removed from it between two checks. All may be empty."""

    gone_files: frozenset[str] = frozenset()
    new_files: frozenset[str] = frozenset()
    gone_folders: frozenset[str] = frozenset()
    new_folders: frozenset[str] = frozenset()
    other_files: frozenset[str] = frozenset()
    """Files of which the list of names says that they are others by now."""


class WatchedFolder:
    """Knows the names in a folder.

    Args:
        path: path of the folder.
        rules: rules of the folder tree.
        above: real paths of the folders that led here.

    Attributes:
        path, rules: as given.
        real: real path of the folder.
        above: real paths of the folders that led here, and of this one.
        lock: held while anything changes that is known of this folder or of its sets, but never
            while a file is opened.
        folders, files: names in the folder that may be shown.
        candidates: the files that may be data sets.
        changes: how often the names changed.
        appeared: file -> the value of `changes` from which on it was there.
        trust: for how long the names need not be looked at again.
        walker: number of the one thread that opens one candidate after the other; 0: none does.
    """

    def __init__(self, path: str, rules: Rules, above: frozenset[str] = frozenset()) -> None:
        self.path = path
        self.rules = rules
        self.real = rules.sources.folder(path).real
        self.above = above | {self.real}
        self.lock = threading.RLock()
        self.folders: frozenset[str] = frozenset()
        self.files: frozenset[str] = frozenset()
        self.candidates = Candidates()
        self.changes = 0
        self.appeared: dict[str, int] = {}
        self.trust = Trust(rules.looks)
        self._state: object = None
        self._inside: Inside = {}
        self._newest, self._told = 0, False
        self._read_at = -1e9
        self._ahead: FolderSources | None = None
        self.walker = 0

    def join(self, name: str) -> str:
        """Return the path of a file in the folder."""
        return f"{self.path.rstrip('/')}/{name}"

    def state(self, name: str) -> State | None:
        """Return the state of a file in the folder; None if there is none. On a server, the list of names says it."""
        if self.rules.sources.far_away:
            said = self._inside.get(name)
            if said is None or said.size >= 0:
                return None if said is None else (said, 0)
        return self.sources.look(self.join(name))

    @property
    def pace(self) -> Pace:
        """How often the files are looked at, which takes no request where the list of names says what they are."""
        return LOOKS if self._told else self.rules.looks

    def replaced(self, path: str, then: FileState) -> bool:
        """Return True if a file came, went or is another one than when it had a state.

        Args:
            then: that state; of size -1 when it was missing.
        """
        above, _, name = path.rpartition("/")
        found = self.state(name) if above == self.path else self.rules.sources.look(path)
        if found is None or then.size < 0:
            return (found is None) != (then.size < 0)
        return not then.same(found[0])

    def unchanged(self, tree: Hierarchy) -> bool:
        """Look at all files of a set that lies here. Return True if they are as they were when it was opened, and none
        was touched.

        What the list of names says of files on a server is not asked for again.
        """
        far = self.rules.sources.far_away
        for files in tree.file_sets:
            if far and any(self.replaced(path, files.state(k)) for k, path in enumerate(files.paths)):
                return False
            if not far and not all(map(files.still, range(len(files)))):
                return False
        return not any(files.moves.item() for files in tree.file_sets)

    def time(self) -> int:
        """Return when names in the folder came or went last, ns; of a folder on a server, when its newest file was
        written.
        """
        if self.rules.sources.far_away:
            return self._newest
        try:
            return self.rules.sources.folder(self.path).time
        except SourceError:
            return 0

    @property
    def sources(self) -> FolderSources:
        """What this thread opens files with: for the walker, sources that have the first bytes of some (`expect`)."""
        ahead = self._ahead
        return self.rules.sources if ahead is None or self.walker != threading.get_ident() else ahead

    def expect(self, names: Sequence[str]) -> None:
        """Say which files the walker opens next: a server is asked for all of them at once.

        Args:
            names: none when it has opened all.
        """
        self._ahead = None
        if not names:
            return
        sources: Any = self.rules.sources.opening()
        sources.know(self.path, self._inside)
        sources.expect([self.join(name) for name in names])
        self._ahead = sources

    def check(self, follow: Callable[[NameChanges], None], listed: bool = False) -> None:
        """Read the names again if the folder changed since they were read.

        Args:
            follow: called after each reading, with the lock held: nobody goes on with the new
                names before it returns.
            listed: somebody asks for the list of names.

        Raises:
            SourceError: the folder cannot be read, or is a link by now that leads out of the tree.
        """
        if self._known(listed):
            return
        with self.lock:
            if self._known(listed):  # somebody else looked meanwhile
                return
            began = time.monotonic()
            self._look(follow)
            self.trust.renew(began)
            self._read_at = began

    def _known(self, listed: bool) -> bool:
        late = listed and self.rules.sources.far_away and time.monotonic() - self._read_at > ASKED
        return self.trust.holds() and not late

    def _look(self, follow: Callable[[NameChanges], None]) -> None:
        found = self.rules.sources.folder(self.path)
        self.real = found.real
        if found.state is None or found.state != self._state:
            follow(self._read())
            self._state = found.state if time.time_ns() - found.time > FRESH else None

    def _read(self) -> NameChanges:
        before, self._inside = self._inside, self.rules.sources.inside(self.path, self.above)
        states = [state for state in self._inside.values() if state is not None]
        self._newest = max((state.written for state in states), default=0)
        self._told = self.rules.sources.far_away and all(state.size >= 0 for state in states)
        folders, files = shown(self.path, self._inside, self.rules)
        other = frozenset(name for name in files & self.files if before[name] != self._inside[name])
        if files == self.files and folders == self.folders:
            return NameChanges(other_files=other)
        changes = NameChanges(
            self.files - files, files - self.files, self.folders - folders, folders - self.folders, other
        )
        self.changes += 1
        self.files, self.folders = files, folders
        self.candidates = Candidates.among(files, self.rules)
        for name in changes.gone_files:
            self.appeared.pop(name, None)
        self.appeared.update(dict.fromkeys(changes.new_files, self.changes))
        return changes
