"""Watches one folder: reads the names in it, and reads them again after the folder changed. Opens no file."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from vfs.errors import SourceError
from vfs.folder_tree.candidates import Candidates, contents
from vfs.folder_tree.records import LOOKS, Rules
from vfs.hierarchy.trust import Trust

# Ns: a folder changed so shortly before it was read may change again without another time of change
FRESH = 100_000_000


class NameChanges(NamedTuple):
    """Names that were added to a folder and removed from it between two checks. All may be empty."""

    gone_files: frozenset[str] = frozenset()
    new_files: frozenset[str] = frozenset()
    gone_folders: frozenset[str] = frozenset()
    new_folders: frozenset[str] = frozenset()


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
    """

    def __init__(self, path: str, rules: Rules, above: frozenset[str] = frozenset()) -> None:
        self.path = path
        self.rules = rules
        self.real = os.path.realpath(path)
        self.above = above | {self.real}
        self.lock = threading.RLock()
        self.folders: frozenset[str] = frozenset()
        self.files: frozenset[str] = frozenset()
        self.candidates = Candidates()
        self.changes = 0
        self.appeared: dict[str, int] = {}
        self.trust = Trust(LOOKS)
        self._state: tuple[int, int, int] | None = None

    def join(self, name: str) -> str:
        """Return the path of a file in the folder."""
        return os.path.join(self.path, name)

    def check(self, follow: Callable[[NameChanges], None]) -> None:
        """Read the names again if the folder changed since they were read.

        Args:
            follow: called after each reading, with the lock held: nobody goes on with the new
                names before it returns.

        Raises:
            SourceError: the folder cannot be read, or is a link by now that leads out of the tree.
        """
        if self.trust.holds():
            return
        with self.lock:
            if self.trust.holds():  # somebody else looked meanwhile
                return
            began = time.monotonic()
            try:
                self._look(follow)
            except SourceError:
                raise
            except OSError as error:
                raise SourceError(f"{self.path}: the folder cannot be listed: {error.strerror}") from None
            self.trust.renew(began)

    def _look(self, follow: Callable[[NameChanges], None]) -> None:
        self.real = os.path.realpath(self.path)
        if not self.rules.sources.boundary.holds(self.real):
            raise SourceError(f"{self.path}: leads out of the tree, to {self.real}")
        found = os.stat(self.path)
        state = (found.st_mtime_ns, found.st_ino, found.st_dev)
        if state != self._state:
            follow(self._read())
            self._state = state if time.time_ns() - found.st_mtime_ns > FRESH else None

    def _read(self) -> NameChanges:
        folders, files = map(frozenset, contents(self.path, self.rules, self.above))
        if files == self.files and folders == self.folders:
            return NameChanges()
        changes = NameChanges(self.files - files, files - self.files, self.folders - folders, folders - self.folders)
        self.changes += 1
        self.files, self.folders = files, folders
        self.candidates = Candidates.among(files, self.rules)
        for name in changes.gone_files:
            self.appeared.pop(name, None)
        self.appeared.update(dict.fromkeys(changes.new_files, self.changes))
        return changes
