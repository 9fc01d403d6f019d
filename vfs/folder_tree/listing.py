"""One folder of a tree of folders: which data sets are in it, and what their faces are called.

A `Listing` reads the names in its folder when it is asked for one, and again after the folder changed. The ending of a
file's name says whether it may be a data set (`candidates`). Which faces it has, whether it is broken, and which other
files belong to its set is known only once it was opened. So looking up one name opens the few files that may be behind
it, and listing the folder opens one file after the other and gives names as it goes (`entries`). What was found is kept
in a `Record`, also that a file is no data set, until the file, its set or the folder changes (`records`).

The rules depend on nothing but the contents of the folder:

- Files are taken in natural order; those that only name sets (a .hdr, a .vfs.json:
  `Format.index_extensions`) come first.
- A file that belongs to the set of an earlier file is not shown. Nor is one that belongs to the set of a later file,
  unless that one belongs to its set, too.
- Equal names of faces get -2, -3, as in `vfs.hierarchy.face_folder.FaceFolder`. Names of subfolders
  go before all. A set keeps its name while it is there.
- Links to files are followed where they lead below the root of the tree. Links to folders are not: they could lead
  round in circles, and what is below the root is shown at its own place.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from itertools import count

from vfs.boundary import within
from vfs.errors import FormatError, MissingSourceError, SourceError, UnknownFormatError, VfsError, printable
from vfs.folder_tree.candidates import Candidates, contents
from vfs.folder_tree.entries import Entries
from vfs.folder_tree.records import CHECK, SHARE, Flights, MemberSet, Record, Rules, describe, refuse_less, state_of

log = logging.getLogger("vfs.folder_tree")

# Ns: a folder changed so shortly before it was read may change again without another time of change
FRESH = 100_000_000
FORGET = 60.0  # seconds after which nobody goes on with a listing
# Seconds between looks at what a thread found that opens files ahead: two that open them side by
# side cost as much again (GIL)
TURN = 0.01
TRIES = 10  # a set that changes while it is looked at is looked at again
PASSING = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR}  # say nothing of the file


def _shape(record: Record) -> tuple[object, ...]:
    """Returns all that the names of a set's faces depend on."""
    return record.members, record.label, [ending for ending, _ in record.faces]


class Listing:
    """Watches a folder and knows its data sets; see the module. Safe for many threads; no lock is
    held while a file is opened.

    Args:
        path: of the folder.
        rules: of the tree.
        above: real paths of the folders that led here.

    Attributes:
        folders, files: names in the folder that may be shown.
        candidates: the files that may be data sets.
        records: what is known of candidates that were opened.
        owner: member of a set -> the file that names the set.
        base: file that names a set -> what its faces are called before their endings.
        taken: name of a face -> the file that names its set.
        appeared: file -> number of the change of the folder that brought it.
        changes: how often the folder changed.
        told: broken files that the log knows of.
        entries: names as they are listed.
        pending: candidates still to be opened.
        unnamed: how often names of faces were taken back.
        busy: a file of `pending` is being opened.
        ahead: a thread opens the files one after the other; whoever lists the folder waits for it.
    """

    def __init__(self, path: str, rules: Rules, above: frozenset[str] = frozenset()) -> None:
        self.path = path
        self.rules = rules
        self.real = os.path.realpath(path)
        self.above = above | {self.real}
        self.folders: frozenset[str] = frozenset()
        self.files: frozenset[str] = frozenset()
        self.candidates = Candidates()
        self.records: dict[str, Record] = {}
        self.owner: dict[str, str] = {}
        self.base: dict[str, str] = {}
        self.taken: dict[str, str] = {}
        self.appeared: dict[str, int] = {}
        self.changes = 0
        self.told: set[str] = set()
        self.entries = Entries()
        self.pending: deque[str] = deque()
        self.unnamed = 0
        self.busy = False
        self.ahead = False
        self._state: tuple[int, int, int] | None = None
        self._checked = self._verified = self._listed = -1e9
        self._pause = self._verify_pause = CHECK
        self._lock = threading.RLock()
        self._found = threading.Condition(self._lock)
        self._flights = Flights()

    # the folder

    def check(self) -> None:
        """Read the names again if the folder changed since they were read.

        Raises:
            SourceError: it cannot be read, or is a link by now that leads out of the tree.
        """
        if time.monotonic() - self._checked < self._pause:
            return
        with self._lock:
            began = time.monotonic()
            if began - self._checked < self._pause:
                return
            try:
                self.real = os.path.realpath(self.path)
                if not self.rules.boundary.holds(self.real):
                    raise SourceError(f"{self.path}: leads out of the tree, to {self.real}")
                found = os.stat(self.path)
                state = (found.st_mtime_ns, found.st_ino, found.st_dev)
                if state != self._state:
                    self._read()
                    self._state = state if time.time_ns() - found.st_mtime_ns > FRESH else None
            except OSError as error:
                if isinstance(error, SourceError):
                    raise
                raise SourceError(f"{self.path}: the folder cannot be listed: {error.strerror}") from None
            ended = time.monotonic()
            self._checked, self._pause = ended, max(CHECK, SHARE * (ended - began))

    def _read(self) -> None:
        folders, files = contents(self.path, self.rules, self.above)
        again = {name for name, record in self.records.items() if record.passing}
        for name in again:  # what was in their way may be gone, also where all names are as before
            self._look_again(name)
        if files == self.files and folders == self.folders:
            self.pending.extend(sorted(again - set(self.pending)))
            return
        self.changes += 1
        gone, new = self.files - files, files - self.files
        gone_folders, new_folders = self.folders - folders, folders - self.folders
        self.files, self.folders = frozenset(files), frozenset(folders)
        self.candidates = Candidates.among(files, self.rules)
        for name in gone:
            self.appeared.pop(name, None)
            self.told.discard(name)
            owner = self.owner.pop(name, None)
            if owner is not None:  # without a member its set is another one, or none
                self._unname(owner)
                self._look_again(owner)
            self._unname(name)
            self.records.pop(name, None)
            self.entries.hide(name)
        for name in gone_folders:
            self.entries.hide(name)
        for name in new:
            self.appeared[name] = self.changes
        for name in sorted(new_folders):
            if name in self.taken:  # whose face has that name needs another one
                self._unname(self.taken[name])
            self.entries.show(name)
        if self.rules.show_files:
            for name in sorted(new - self.candidates.order.keys()):
                if name not in self.taken:
                    self.entries.show(name)
        if time.monotonic() - self._listed > FORGET:
            self.entries.close_gaps()
        self.pending = deque(
            name for name in self.candidates.order if self._unknown(name) and (name in again or not self._refused(name))
        )

    def _look_again(self, name: str) -> None:
        """Have a candidate opened again before it is used. It stays known that it was shown."""
        record = self.records.get(name)
        if record is not None:
            record.state, record.checked = None, -1e9

    def _unknown(self, name: str) -> bool:
        return name not in self.base and name not in self.owner

    def _refused(self, name: str) -> bool:
        return name in self.records and not self._shown(name)

    def _shown(self, name: str) -> bool:
        record = self.records.get(name)
        return record is not None and bool(record.faces)

    # what is remembered

    def record(self, name: str) -> Record:
        """Returns what is known of a candidate; opens it where nothing is known or it changed.

        Raises:
            SourceError: it cannot be opened now, for reasons that are not the file's.
        """
        record = self.records.get(name)
        if record is not None and not self._changed(name, record):
            return record
        self._flights.once(name, lambda: self._look(name))
        return self.records.get(name) or Record(None, self.changes, 0.0)  # gone meanwhile

    def _look(self, name: str) -> None:
        record = self.records.get(name)
        if record is None or self._changed(name, record):  # nobody did meanwhile
            self.open(name)

    def _changed(self, name: str, record: Record) -> bool:
        now = time.monotonic()
        if now - record.checked < record.pause:
            return False
        # Whatever file is at fault, it may be well again: that is not written down
        if record.error and (record.lost or self.rules.leads(name)):
            return True
        if state_of(os.path.join(self.path, name)) != record.state:
            return True
        for path, size, then in record.watched:
            state = state_of(path)
            if (state[:2] if state else (-1, 0)) != (size, then):
                return True
        record.checked = now
        return False

    def open(self, name: str) -> MemberSet | None:
        """Open a candidate and remember what it is. Returns None where it is no data set.

        Raises:
            SourceError: it cannot be opened now, for reasons that are not the file's.
        """
        path = os.path.join(self.path, name)
        began = time.monotonic()
        record = Record(state_of(path), self.changes, began)
        opened = None
        try:
            if record.state is None:
                raise MissingSourceError(f"{path}: no such file")
            with within(self.rules.boundary):
                opened = self.rules.open(path)
            describe(record, path, opened, self.rules, {self.path, self.real}, self.candidates.order)
            refuse_less(path, record, self.records.get(name), opened)
        except MemoryError:
            raise SourceError(f"{path}: not enough memory to open it", errno.ENOMEM) from None
        except UnknownFormatError:
            pass
        except Exception as error:  # whatever a stranger's format raises: no file may end the mount
            if isinstance(error, OSError) and error.errno in PASSING:
                raise SourceError(f"{path}: cannot be opened now: {error}", error.errno) from None
            opened, record.faces = None, ()
            before = self.records.get(name)
            record.nbytes = before.nbytes if before is not None else 0
            record.error = str(error) if isinstance(error, VfsError) else f"{path}: {type(error).__name__}: {error}"
            record.passing = not isinstance(error, FormatError)
        ended = time.monotonic()
        record.checked, record.pause = ended, max(CHECK, SHARE * (ended - began))
        with self._lock:
            self._remember(name, record)
        return opened

    def _remember(self, name: str, record: Record) -> None:
        before = self.records.get(name)
        if record.error and record.state is not None and name not in self.told:
            self.told.add(name)
            log.warning("%s", printable(f"not shown: {record.error}"))
        if record.faces:
            self.told.discard(name)
        if before is not None:
            record.lost = not record.faces and bool(before.faces or before.lost)
            if before.stamp == record.stamp:
                record.time = before.time
            elif before.stamp:
                record.time = max(record.time, before.time + 1)  # by this the kernel knows that its pages are old
            if _shape(before) != _shape(record):
                self._unname(name)
        if name in self.candidates.order:
            self.records[name] = record

    def _unname(self, name: str) -> None:
        """Take back the names of a set's faces, release its members, and have both opened again."""
        record = self.records.get(name)
        self.unnamed += 1
        base = self.base.pop(name, None)
        again = [name] if base is not None else []
        if record is not None:
            if base is not None:
                for face in [base + ending for ending, _ in record.faces]:
                    if self.taken.get(face) == name:
                        del self.taken[face]
                        self.entries.hide(face)
            for member in record.members:
                if self.owner.get(member) == name:
                    del self.owner[member]
                    again.append(member)
        self.pending.extend(known for known in again if known in self.candidates.order)

    # which set has which names

    def named(self, name: str) -> Record | None:
        """Returns the record of a file that names a data set; None where it names none, or belongs
        to the set of another file.

        Raises:
            SourceError: see `record`.
        """
        for _ in range(TRIES):
            if name not in self.candidates.order or name in self.owner:
                return None
            record = self.record(name)
            if not record.faces:
                return None
            if name in self.base and name not in self.owner:
                return record
            for lead in self.candidates.leads:
                if self.rules.may_name(lead, name, record.format):
                    self.named(lead)
            if name not in self.owner and self._in_the_set_of_an_earlier_one(name, record):
                return None
            with self._lock:
                if name in self.owner:
                    return None
                if self.records.get(name) is record:  # and not another one meanwhile
                    self._claim(name, record)
                    return record
        raise SourceError(f"{os.path.join(self.path, name)}: changes all the time")

    def _in_the_set_of_an_earlier_one(self, name: str, record: Record) -> bool:
        first = next((member for member in record.members if member in self.candidates.order), name)
        if self.candidates.order.get(first, 0) >= self.candidates.order.get(name, 0) or first in self.owner:
            return False
        other = self.record(first)
        if other.seen < self.appeared.get(name, 0) or (other.error and time.monotonic() - other.checked >= other.pause):
            self.open(first)
            other = self.record(first)
        return bool(other.faces) and name in other.members

    def _claim(self, name: str, record: Record) -> None:
        for member in record.members:
            if member in self.files and member not in self.owner:
                self._unname(member)
                self.owner[member] = name
                self.entries.hide(member)

    def _assign(self, name: str) -> None:
        """Give a naming file its name, after those that come before it and may want the same."""
        place = self.candidates.order.get(name, 0)
        for _ in range(TRIES):
            record, order = self.named(name), self.candidates.order
            if record is None or name in self.base:
                return
            for k in count(1):
                base = record.label if k == 1 else f"{record.label}-{k}"
                names = [base + ending for ending, _ in record.faces]
                rivals = {other for face in names for other in self.candidates.behind(face)}
                earlier = [other for other in rivals if order.get(other, place) < place]
                for other in sorted(earlier, key=lambda other: order.get(other, 0)):
                    if other not in self.base:
                        self._assign(other)
                with self._lock:
                    if self.records.get(name) is not record or name in self.owner or name in self.base:
                        break
                    if not any(face in self.folders or face in self.taken for face in names):
                        self.base[name] = base
                        for face in names:
                            self.taken[face] = name
                            self.entries.show(face)
                        return

    def face(self, name: str) -> tuple[str, str] | None:
        """(naming file, ending) of a face; None where there is none.

        Raises:
            SourceError: there was one, and its files cannot be opened any more; or see `record`.
        """
        for _ in range(TRIES):
            before = self.unnamed
            owner = self.taken.get(name)
            if owner is None or self.named(owner) is None or self.taken.get(name) != owner:
                behind = sorted(
                    set(self.candidates.behind(name)), key=lambda candidate: self.candidates.order.get(candidate, 0)
                )
                for candidate in behind:
                    self._assign(candidate)
                owner = self.taken.get(name)
                if owner is None and self.unnamed != before:
                    continue  # something was found to be another set meanwhile
                if owner is None:
                    for record in filter(None, map(self.records.get, behind)):
                        if record.lost:
                            raise SourceError(f"was shown before and cannot be opened any more: {record.error}")
                    return None
            base = self.base.get(owner)
            if base is not None:
                return owner, name[len(base) :]
        raise SourceError(f"{os.path.join(self.path, name)}: changes all the time")

    def plain(self, name: str) -> bool:
        """True where a name is a file that is shown as it is (`Rules.show_files`)."""
        if not self.rules.show_files or name not in self.files or name in self.owner or name in self.taken:
            return False
        return name not in self.candidates.order or (
            self.named(name) is None and name not in self.owner and not self._shown(name)
        )

    # listing

    def step(self) -> bool:
        """Open the next file that is not known yet, or wait a little for the thread that does.
        Returns False where none is left.

        Raises:
            SourceError: see `record`; it is tried again the next time.
        """
        with self._lock:
            if self.busy:
                self._found.wait(TURN)
                return True
            if not self.pending:
                return False
            name = self.pending.popleft()
            self.busy = True
        try:
            self._assign(name)
            if self.plain(name):
                with self._lock:
                    self.entries.show(name)
        except SourceError:
            self.pending.append(name)
            raise
        finally:
            with self._lock:
                self.busy = False
                if not self.ahead or not self.pending:
                    self._found.notify_all()
        return True

    def walked(self, ahead: bool) -> None:
        """Note that from now on a thread opens one file after the other, or that it no longer does."""
        with self._lock:
            self.ahead = ahead
            self._found.notify_all()

    def begin(self) -> None:
        """Prepare for a listing: have what changed opened again.

        Raises:
            SourceError: see `check`.
        """
        self.check()
        began = time.monotonic()
        if began - self._verified < self._verify_pause:
            return
        self._verified = began
        changed = [name for name, record in list(self.records.items()) if self._changed(name, record)]
        with self._lock:
            self.pending.extend(changed)
        self._verify_pause = max(CHECK, SHARE * (time.monotonic() - began))

    def names(self, after: int) -> Iterator[str]:
        """Entries from a place on, as they become known; "/" in the place of those that are gone.

        Raises:
            SourceError: see `check` and `record`.
        """
        if after == 0:
            self.begin()
        self._listed = time.monotonic()
        for place in count(after):
            while place >= len(self.entries):
                with self._lock:
                    if self.ahead and place >= len(self.entries):
                        self._found.wait(TURN)
                        continue
                if not self.step() and place >= len(self.entries):
                    return
            yield self.entries.at(place)
