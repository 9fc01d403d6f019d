"""One folder of a tree of folders: which data sets are in it, and what their faces are called.

A `Listing` reads the names of its folder when it is asked for one and after the folder changed. What a name may be is known from its
ending alone; which faces it has, whether it is broken, and which other files belong to its set is only known once it was opened. So
a name that is looked up costs opening the few files that may be behind it, and a listing opens one file after the other and gives
names as it goes. What was found is remembered in a `Record`, also that a file is no data set, until the file, its set or the folder changes.

Rules, all of the folder's contents alone:

- Files are taken in natural order, those that only name sets (a .hdr, a .vfs.json: `Format.leads`) first.
- A file that belongs to the set of one before it is not shown; nor is one that belongs to the set of a later one, without that one being in its own set.
- Equal names of faces get -2, -3, as in `vfs.tree.Folder`; names of subfolders are taken before all. Who has a name keeps it while it is there.
- Links to files are followed where their target is below the root of the tree; links to folders are not: they could lead round
  in circles, and what is below the root is shown at its own place.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from hashlib import blake2b
from itertools import count

from vfs import scan
from vfs.boundary import within
from vfs.errors import FormatError, MissingSourceError, SourceError, UnknownFormatError, VfsError, printable
from vfs.forest.records import CHECK, LONGEST, SHARE, Flights, Opened, Record, Rules, below, files_of, shortened, state_of
from vfs.headers import natural

log = logging.getLogger("vfs.forest")

FRESH = 100_000_000  # ns: a folder changed so shortly before it was read may change again without another time of change
WATCHED = 16  # files of a set that are looked at while it is closed
FORGET = 60.0  # seconds after which nobody goes on with a listing
TURN = 0.01  # seconds between looks at what a thread found that opens files ahead: two that open them side by side cost as much again (GIL)
TRIES = 10  # a set that changes while it is looked at is looked at again
PASSING = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR}  # say nothing of the file


def _shape(record: Record) -> tuple[object, ...]:
    """What the names of faces depend on."""
    return record.members, record.label, [ending for ending, _ in record.faces]


class Listing:
    """A folder; see the module. Safe from many threads; no lock is held while a file is opened.

    Args:
        path: of the folder.
        rules: of the tree.
        above: real paths of the folders that led here.
    """

    def __init__(self, path: str, rules: Rules, above: frozenset[str] = frozenset()) -> None:
        self.path = path
        self.rules = rules
        self.real = os.path.realpath(path)
        self.above = above | {self.real}
        self.folders: frozenset[str] = frozenset()
        self.files: frozenset[str] = frozenset()  # all that may be read
        self.order: dict[str, int] = {}  # candidates -> place in the order they are taken in
        self.leads: list[str] = []
        self.by_label: dict[str, list[str]] = {}
        self.records: dict[str, Record] = {}
        self.owner: dict[str, str] = {}  # member -> the file that names its set
        self.base: dict[str, str] = {}  # naming file -> what its faces are called before their endings
        self.taken: dict[str, str] = {}  # name of a face -> naming file
        self.appeared: dict[str, int] = {}  # candidate -> number of the change that brought it
        self.changes = 0
        self.told: set[str] = set()  # broken files that the log knows of
        self.entries: list[str | None] = []  # as listed; the place of an entry never changes
        self.places: dict[str, int] = {}
        self.pending: deque[str] = deque()
        self.unnamed = 0  # how often names were taken back
        self.busy = False  # a file of `pending` is being opened
        self.ahead = False  # a thread opens them one after the other: who lists the folder waits for it
        self._state: tuple[int, int, int] | None = None
        self._checked = self._verified = self._listed = -1e9
        self._pause = self._verify_pause = CHECK
        self._lock = threading.RLock()
        self._found = threading.Condition(self._lock)
        self._flights = Flights()

    # the folder

    def check(self) -> None:
        """Read the names again, if the folder changed since.

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
        folders, files, boundary = set(), set(), self.rules.boundary
        with os.scandir(self.path) as entries:
            for entry in entries:
                if entry.is_symlink():
                    target = os.path.realpath(entry.path)
                    if not boundary.holds(target):
                        continue
                    if os.path.isfile(target):
                        files.add(entry.name)
                    elif self.rules.follow_outside and os.path.isdir(target) and not any(below(folder, target) for folder in self.above):
                        folders.add(entry.name)
                elif entry.is_dir(follow_symlinks=False):
                    folders.add(entry.name)
                elif entry.is_file(follow_symlinks=False):
                    files.add(entry.name)
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
        candidates = [name for name in files if name.lower().endswith(self.rules.endings)]
        candidates.sort(key=lambda name: (self.rules.rank(name), natural(name)))
        self.order = {name: place for place, name in enumerate(candidates)}
        self.leads = [name for name in candidates if self._leads(name)]
        self.by_label = {}
        for name in candidates:
            for label in self.rules.labels(name):
                self.by_label.setdefault(label, []).append(name)
        for name in gone:
            self.appeared.pop(name, None)
            self.told.discard(name)
            owner = self.owner.pop(name, None)
            if owner is not None:  # without a member its set is another one, or none
                self._unname(owner)
                self._look_again(owner)
            self._unname(name)
            self.records.pop(name, None)
            self._hide(name)
        for name in gone_folders:
            self._hide(name)
        for name in new:
            self.appeared[name] = self.changes
        for name in sorted(new_folders):
            if name in self.taken:  # whose face has that name needs another one
                self._unname(self.taken[name])
            self._show(name)
        if self.rules.show_files:
            for name in sorted(new - self.order.keys()):
                if name not in self.taken:
                    self._show(name)
        if 1000 < len(self.entries) < 2 * self.entries.count(None) and time.monotonic() - self._listed > FORGET:
            kept = [name for name in self.entries if name is not None]
            self.places = {name: place for place, name in enumerate(kept)}
            self.entries = [*kept]
        self.pending = deque(name for name in candidates if name not in self.base and name not in self.owner and (name in again or not self._refused(name)))

    def _look_again(self, name: str) -> None:
        """Have a candidate opened again before it is used; that it was shown stays known."""
        record = self.records.get(name)
        if record is not None:
            record.state, record.checked = None, -1e9

    def _leads(self, name: str) -> bool:
        return self.rules.rank(name) < len(self.rules.ranks)

    def _refused(self, name: str) -> bool:
        return name in self.records and not self._shown(name)

    def _shown(self, name: str) -> bool:
        record = self.records.get(name)
        return record is not None and bool(record.faces)

    # what is remembered

    def record(self, name: str) -> Record:
        """What is known of a candidate, found out if need be.

        Raises:
            SourceError: that cannot be found out now, for reasons that are not the file's.
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
        if record.error and (record.lost or self._leads(name)):  # whatever file is at fault, it may be well again: that is not written down
            return True
        if state_of(os.path.join(self.path, name)) != record.state:
            return True
        for path, size, then in record.watched:
            state = state_of(path)
            if (state[:2] if state else (-1, 0)) != (size, then):
                return True
        record.checked = now
        return False

    def open(self, name: str) -> Opened | None:
        """Open a candidate and remember what it is; None where it is no data set.

        Raises:
            SourceError: that cannot be found out now, for reasons that are not the file's.
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
            self._describe(record, name, opened)
            self._hold(record, name, opened)
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

    def _describe(self, record: Record, name: str, opened: Opened) -> None:
        tree, paths = opened.tree, {os.path.abspath(path) for path in opened.paths}
        sizes: dict[str, int] = {}
        digest = blake2b(repr(record.state and record.state[:3]).encode(), digest_size=8)
        watched: list[tuple[str, int, int]] = []
        for files in files_of(tree):
            paths.update(files.paths)
            sizes.update(zip(files.paths, files.sizes.tolist(), strict=True))
            digest.update("\0".join(files.paths).encode("utf-8", "surrogateescape"))
            digest.update(files.sizes.tobytes() + files.times.tobytes() + files.ctimes.tobytes())
            few = range(len(files)) if len(files) <= WATCHED else (0, len(files) - 1)
            watched += [(files.paths[k], int(files.sizes[k]), int(files.times[k])) for k in few]
        own = os.path.join(self.path, name)
        names = {os.path.basename(path) for path in paths if os.path.dirname(path) in (self.path, self.real)}
        record.members = tuple(sorted(names - {name}, key=lambda member: (self.order.get(member, len(self.order)), member)))
        record.watched = tuple(entry for entry in watched[:WATCHED] if entry[0] != own)
        record.label, record.format = shortened(tree.name), opened.format
        roots = tree.roots(self.rules.zarr_format).items()
        record.faces = tuple((ending, node) for ending, node in roots if len(os.fsencode(record.label + ending)) <= LONGEST - 5)
        record.time = tree.time
        record.stamp = int.from_bytes(digest.digest()) >> 1 | 1
        record.nbytes = sum(size for size in sizes.values() if size > 0)

    def _hold(self, record: Record, name: str, opened: Opened) -> None:
        """A set that was shown is not shown with frames that it lost since, as blank ones or as others with their numbers.

        Raises:
            SourceError: it is of several files, or has blank frames, and its files have fewer bytes than they had.
        """
        before = self.records.get(name)
        if before is None or not (before.faces or before.lost) or record.nbytes >= before.nbytes:
            return
        several = sum(len(files) for files in files_of(opened.tree)) > 1
        if several or any(scan.blanks(array.dataset) for array in opened.tree.arrays.values()):
            less = f"its files have {before.nbytes - record.nbytes:,} bytes less than when it was shown"
            raise SourceError(f"{os.path.join(self.path, name)}: {less}; put back what is missing, or mount again to see what is left")

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
        if name in self.order:
            self.records[name] = record

    def _unname(self, name: str) -> None:
        """Take the names of a set's faces back, let go of its members, and have both looked at again."""
        record = self.records.get(name)
        self.unnamed += 1
        base = self.base.pop(name, None)
        again = [name] if base is not None else []
        if record is not None:
            if base is not None:
                for face in [base + ending for ending, _ in record.faces]:
                    if self.taken.get(face) == name:
                        del self.taken[face]
                        self._hide(face)
            for member in record.members:
                if self.owner.get(member) == name:
                    del self.owner[member]
                    again.append(member)
        self.pending.extend(known for known in again if known in self.order)

    # whose names are whose

    def named(self, name: str) -> Record | None:
        """The record of a file that names a data set; None where it is none, or belongs to another one's set.

        Raises:
            SourceError: see `record`.
        """
        for _ in range(TRIES):
            if name not in self.order or name in self.owner:
                return None
            record = self.record(name)
            if not record.faces:
                return None
            if name in self.base and name not in self.owner:
                return record
            for lead in self.leads:
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
        first = next((member for member in record.members if member in self.order), name)
        if self.order.get(first, 0) >= self.order.get(name, 0) or first in self.owner:
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
                self._hide(member)

    def _assign(self, name: str) -> None:
        """Give a naming file its name, after those that come before it and may want the same."""
        place = self.order.get(name, 0)
        for _ in range(TRIES):
            record = self.named(name)
            if record is None or name in self.base:
                return
            for k in count(1):
                base = record.label if k == 1 else f"{record.label}-{k}"
                names = [base + ending for ending, _ in record.faces]
                rivals = {other for face in names for other in self._behind(face)}
                for other in sorted((other for other in rivals if self.order.get(other, place) < place), key=lambda other: self.order.get(other, 0)):
                    if other not in self.base:
                        self._assign(other)
                with self._lock:
                    if self.records.get(name) is not record or name in self.owner or name in self.base:
                        break
                    if not any(face in self.folders or face in self.taken for face in names):
                        self.base[name] = base
                        for face in names:
                            self.taken[face] = name
                            self._show(face)
                        return

    def _behind(self, face: str) -> Iterator[str]:
        """The candidates that may have a face of that name."""
        at = face.find(".", 1)
        while at > 0:
            base = face[:at]
            label, dash, number = base.rpartition("-")
            yield from self.by_label.get(base, ())
            if dash and number.isascii() and number.isdecimal() and number[0] != "0" and number != "1":
                yield from self.by_label.get(label, ())
            at = face.find(".", at + 1)

    def face(self, name: str) -> tuple[str, str] | None:
        """(naming file, ending) of a face; None where there is none.

        Raises:
            SourceError: there was one, and its files cannot be opened any more; or see `record`.
        """
        for _ in range(TRIES):
            before = self.unnamed
            owner = self.taken.get(name)
            if owner is None or self.named(owner) is None or self.taken.get(name) != owner:
                behind = sorted(set(self._behind(name)), key=lambda candidate: self.order.get(candidate, 0))
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
        """Whether a name is a file that is shown as it is."""
        if not self.rules.show_files or name not in self.files or name in self.owner or name in self.taken:
            return False
        return name not in self.order or (self.named(name) is None and name not in self.owner and not self._shown(name))

    # listing

    def _show(self, name: str) -> None:
        """Put a name at the end of the listing, where it is not in it: who is in the middle of it comes to it."""
        if self.places.setdefault(name, len(self.entries)) == len(self.entries):
            self.entries.append(name)

    def _hide(self, name: str) -> None:
        place = self.places.pop(name, None)
        if place is not None:
            self.entries[place] = None

    def step(self) -> bool:
        """Open the next file that is not known yet, or wait a little for whoever is at it. Returns False where there is none left.

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
                    self._show(name)
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
        """Say whether a thread opens one file after the other from now on."""
        with self._lock:
            self.ahead = ahead
            self._found.notify_all()

    def begin(self) -> None:
        """Before a listing: have what changed looked at again.

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
            yield self.entries[place] or "/"
