"""Lists one folder of a tree of folders: its subfolders and the faces of its data sets, as they become known.

A listing opens one candidate after the other and yields names on the way. A `Listing` puts together
the names in the folder (`watched_folder`), records of its candidates (`folder_records`), names of its
sets (`set_names`) and the rules for names (`naming`).
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from itertools import islice

from vfs.errors import SourceError
from vfs.folder_tree.folder_records import FolderRecords
from vfs.folder_tree.naming import Naming
from vfs.folder_tree.records import Record, Rules
from vfs.folder_tree.set_names import SetNames
from vfs.folder_tree.watched_folder import NameChanges, WatchedFolder
from vfs.live.trust import Trust

FORGET = 60.0  # seconds after which nobody goes on with a listing
# Seconds between looks at what a thread found that opens files ahead: two that open them side by
# side cost as much again (GIL)
TURN = 0.01
TOGETHER = 32  # files on a server that are asked for at once, before they are opened


class Listing:
    """Lists a folder; see the module. Safe for many threads; no lock is held while a file is opened.

    Args:
        path: path of the folder.
        rules: rules of the folder tree.
        above: real paths of the folders that led here.

    Attributes:
        folder: the names in the folder.
        names: of its sets.
        records: what is known of its candidates.
        naming: the rules for names and sets.
    """

    def __init__(self, path: str, rules: Rules, above: frozenset[str] = frozenset()) -> None:
        self.folder = WatchedFolder(path, rules, above)
        self.names = SetNames(self.folder)
        self.records = FolderRecords(self.folder, self.names)
        self.naming = Naming(self.folder, self.records, self.names)
        self._verified = Trust(rules.looks)
        self._listed = -1e9
        self._expected: set[str] = set()
        self._opening = ""  # the candidate that is being opened by `step`
        self._ahead = False  # a thread opens them one after the other; whoever lists the folder waits for it
        self._found = threading.Condition(self.folder.lock)

    def refused(self) -> Iterator[tuple[str, Record]]:
        """Yield files that were opened, and are no data set nor part of one: name and record, in their order."""
        for name in self.folder.candidates.order:
            record = self.records.known.get(name)
            if record is not None and not record.faces and not self.names.settled(name):
                yield name, record

    def check(self, listed: bool = False) -> None:
        """Read the names in the folder again if it changed since they were read.

        Args:
            listed: see `WatchedFolder.check`.

        Raises:
            SourceError: the folder cannot be read, or is now a link that leads out of the tree.
        """
        self.folder.check(self._follow, listed)

    def _follow(self, changes: NameChanges) -> None:
        """Update records and names after the names in the folder were read."""
        names, records, pending = self.names, self.records, self.names.pending
        again = {name for name, record in records.known.items() if record.may_recover}
        for name in again:  # what was in their way may be gone, also where all names are as before
            records.look_again(name)
        for name in changes.other_files:
            records.look_again(name)
        again |= changes.other_files & records.known.keys()
        if not any(changes[:-1]):
            pending.extend(sorted(again - set(pending)))
            return
        for name in changes.gone_files:
            self._remove(name)
        for name in changes.gone_folders:
            names.entries.hide(name)
        for name in sorted(changes.new_folders):
            if name in names.taken:  # whose face has that name needs another one
                names.take_back(names.taken[name])
            names.entries.show(name)
        candidates = self.folder.candidates.order
        names.newcomers.intersection_update(candidates)
        if names.base:
            names.newcomers.update(changes.new_files.intersection(self.folder.candidates.index_files))
        if self.folder.rules.show_files:
            for name in sorted(changes.new_files - candidates.keys()):
                if name not in names.taken:
                    names.entries.show(name)
        if time.monotonic() - self._listed > FORGET:
            names.entries.close_gaps()
        pending.clear()
        pending.extend(
            name for name in candidates if not names.settled(name) and (name in again or not records.refused(name))
        )

    def _remove(self, name: str) -> None:
        """Forget a file that is gone. The set that it was a member of will be opened again."""
        owner = self.names.owner.pop(name, None)
        if owner is not None:  # without a member its set is another one, or none
            self.names.take_back(owner)
            self.records.look_again(owner)
        self.names.take_back(name)
        self.records.forget(name)
        self.names.entries.hide(name)

    def walked(self, ahead: bool) -> None:
        """Note that a thread opens the files from now on (True), or that it stopped (False)."""
        with self._found:
            self._ahead = ahead
            self._found.notify_all()

    def step(self) -> bool:
        """Open the next file that has no record yet, or wait a little for the thread that opens it.

        Returns: False if none is left.

        Raises:
            SourceError: see `FolderRecords.current`; it is tried again the next time.
        """
        pending = self.names.pending
        with self._found:
            if self._opening:
                self._found.wait(TURN)
                return True
            if not pending:
                self._expected = set()
                self.folder.expect(())
                return False
            name = self._opening = pending.popleft()
            self.folder.walker = threading.get_ident()
        try:
            self._expect(name)
            self.naming.assign(name)
            if self.naming.plain(name):
                with self.folder.lock:
                    self.names.entries.show(name)
        except SourceError:
            pending.append(name)
            raise
        finally:
            with self._found:
                self._opening, self.folder.walker = "", 0
                if not self._ahead or not pending:
                    self._found.notify_all()
        return True

    def _expect(self, name: str) -> None:
        """Have the files that are opened next asked for at once, where each question takes long.

        Args:
            name: the first of them. The others come behind it, and have its rank, since those of another may belong to
                their sets.
        """
        rules = self.folder.rules
        if name in self._expected or not rules.sources.far_away or self.names.settled(name):
            return
        behind = (each for each in list(self.names.pending) if rules.rank(each) == rules.rank(name))
        self._expected = {name, *islice((each for each in behind if not self.names.settled(each)), TOGETHER - 1)}
        self.folder.expect(sorted(self._expected))

    def begin(self) -> None:
        """Prepare for a listing: note the files that changed, to open them again.

        Raises:
            SourceError: see `check`.
        """
        self.check(listed=True)
        if self._verified.holds():
            return
        began = time.monotonic()
        self._verified.extend(began)  # so that no other thread does it, too
        changed = self.records.changed()
        with self.folder.lock:
            self.names.pending.extend(changed)
        self._verified.renew(began)

    def unopened(self) -> list[str]:
        """Return the candidates that nobody has opened yet, and that belong to no set that is known, in their order."""
        with self.folder.lock:
            pending = dict.fromkeys([self._opening, *self.names.pending] if self._opening else self.names.pending)
            return [name for name in pending if name not in self.records.known and not self.names.settled(name)]

    def listed(self, after: int, until: float = math.inf) -> Iterator[str]:
        """Yield the names from a place on, as they become known; "/" for names that are gone.

        Args:
            until: `time.monotonic()` from which on no name is waited for.

        Raises:
            SourceError: see `check` and `FolderRecords.current`.
        """
        if after == 0:
            self.begin()
        self._listed = time.monotonic()
        entries = self.names.entries
        if until < math.inf:
            with self._found:
                self._found.wait_for(lambda: self._ahead or not self.names.pending, TURN)
        place = after
        while True:
            while some := entries.some(place):
                yield from some
                place += len(some)
            if time.monotonic() >= until:
                return
            with self._found:
                if self._ahead and place >= len(entries):
                    self._found.wait(TURN)
                    continue
            if not self.step() and place >= len(entries):
                return
