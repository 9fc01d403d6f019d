"""Finds the files of a folder that name data sets, and gives the faces of these sets their names.

The ending of a file's name says whether it may be a data set (`candidates`). Which faces it has, whether it is broken,
and which other files belong to its set is known only once it was opened. So looking up one name opens the few files
that may be behind it. The rules depend on nothing but the contents of the folder:

- Files are taken in natural order; those that only name sets (a .hdr, a .vfs.json:
  `Format.index_extensions`) come first.
- A file that belongs to the set of an earlier file is not shown. Nor is one that belongs to the set of a later file,
  unless that one belongs to its set, too. That holds for files that come later, too: a description that is saved
  beside a set which is in use takes its place when somebody asks for the set.
- Equal names of faces get -2, -3, as in `vfs.contents.face_folder.FaceFolder`. Names of subfolders
  go before all. A set keeps its name while it is there.
- Links to files are followed where they lead below the root of the tree. Links to folders are not: they could lead
  round in circles, and what is below the root is shown at its own place.
"""

from __future__ import annotations

from itertools import count

from vfs.errors import SourceError
from vfs.folder_tree.folder_records import FolderRecords
from vfs.folder_tree.records import Record
from vfs.folder_tree.set_names import SetNames
from vfs.folder_tree.watched_folder import WatchedFolder

TRIES = 10  # a set that changes while it is looked at is looked at again


class Naming:
    """Applies the rules for names and sets in a folder; see the module.

    Other threads may change records and names while a file is opened. So each rule checks again, with
    the lock held, before it acts.

    Args:
        folder: whose files these are.
        records: opens files and knows what they are.
        names: where the outcome is kept.
    """

    def __init__(self, folder: WatchedFolder, records: FolderRecords, names: SetNames) -> None:
        self._folder = folder
        self._records = records
        self._names = names

    def named(self, name: str) -> Record | None:
        """Return the record of a file that names a data set; None if it names none.

        A file that belongs to the set of another file names none.

        Raises:
            SourceError: see `FolderRecords.current`.
        """
        folder, names = self._folder, self._names
        for _ in range(TRIES):
            if name not in folder.candidates.order or name in names.owner:
                return None
            record = self._records.current(name)
            if not record.faces:
                return None
            for lead in self._newcomers() if name in names.base else folder.candidates.index_files:
                if folder.rules.may_name(lead, name, record.format):
                    self.named(lead)
            if name in names.base and name not in names.owner:
                return record
            if name not in names.owner and self._in_the_set_of_an_earlier_one(name, record):
                return None
            with folder.lock:
                if name in names.owner:
                    return None
                if self._records.known.get(name) is record:  # and not another one meanwhile
                    names.claim(name, record)
                    return record
        raise self._restless(name)

    def _newcomers(self) -> list[str]:
        """Return the files that may name a set which has its name already. Broken ones stay: they may be mended."""
        names, records, order = self._names, self._records, self._folder.candidates.order
        for name in list(names.newcomers):
            record = records.known.get(name)
            if record is not None and not record.faces and not record.error:
                names.newcomers.discard(name)
        return sorted(names.newcomers, key=lambda name: order.get(name, 0))

    def _in_the_set_of_an_earlier_one(self, name: str, record: Record) -> bool:
        order = self._folder.candidates.order
        first = next((member for member in record.members if member in order), name)
        if order.get(first, 0) >= order.get(name, 0) or first in self._names.owner:
            return False
        other = self._records.current(first)
        if other.first_seen < self._folder.appeared.get(name, 0) or (other.error and not other.trust.holds()):
            self._records.open(first)
            other = self._records.current(first)
        return bool(other.faces) and name in other.members

    def assign(self, name: str) -> None:
        """Give the set of a naming file its name. Sets that come first and may want the same name get theirs first.

        Raises:
            SourceError: see `FolderRecords.current`.
        """
        names, place = self._names, self._folder.candidates.order.get(name, 0)
        for _ in range(TRIES):
            record = self.named(name)
            if record is None or name in names.base:
                return
            for k in count(1):
                base = record.label if k == 1 else f"{record.label}-{k}"
                self._assign_rivals(base, record, place)
                with self._folder.lock:
                    if self._records.known.get(name) is not record or names.settled(name):
                        break
                    if names.give(name, base, record):
                        return

    def _assign_rivals(self, base: str, record: Record, place: int) -> None:
        """Name the sets that may want the same names and whose files come before a place."""
        candidates = self._folder.candidates
        rivals = {other for ending, _ in record.faces for other in candidates.behind(base + ending)}
        earlier = [other for other in rivals if candidates.order.get(other, place) < place]
        for other in sorted(earlier, key=lambda other: candidates.order.get(other, 0)):
            if other not in self._names.base:
                self.assign(other)

    def face(self, name: str) -> tuple[str, str] | None:
        """Return (naming file, ending) of a face; None if there is no such face.

        Raises:
            SourceError: the face was there, and its files cannot be opened any more; or see `FolderRecords.current`.
        """
        names = self._names
        for _ in range(TRIES):
            before = names.taken_back
            owner = names.taken.get(name)
            if owner is None or self.named(owner) is None or names.taken.get(name) != owner:
                candidates = self._folder.candidates
                behind = sorted(set(candidates.behind(name)), key=lambda other: candidates.order.get(other, 0))
                for candidate in behind:
                    self.assign(candidate)
                owner = names.taken.get(name)
                if owner is None and names.taken_back != before:
                    continue  # something was found to be another set meanwhile
                if owner is None:
                    for record in filter(None, map(self._records.known.get, behind)):
                        if record.was_shown:
                            raise SourceError(f"was shown before and cannot be opened any more: {record.error}")
                    return None
            base = names.base.get(owner)
            if base is not None:
                return owner, name[len(base) :]
        raise self._restless(name)

    def main_face(self, name: str) -> str | None:
        """Return the main face of the set that a file names or belongs to; None if it does not.

        Raises:
            SourceError: see `FolderRecords.current`.
        """
        names = self._names
        if name not in self._folder.candidates.order:
            return None
        self.assign(name)
        owner = names.owner.get(name, name)
        self.assign(owner)
        base, record = names.base.get(owner), self._records.known.get(owner)
        return base + record.faces[0][0] if base is not None and record is not None and record.faces else None

    def plain(self, name: str) -> bool:
        """Return True if a name is a file that is shown as it is (`Rules.show_files`).

        Raises:
            SourceError: see `FolderRecords.current`.
        """
        folder, names = self._folder, self._names
        if not folder.rules.show_files or name not in folder.files or name in names.owner or name in names.taken:
            return False
        return name not in folder.candidates.order or (
            self.named(name) is None and name not in names.owner and not self._records.shown(name)
        )

    def _restless(self, name: str) -> SourceError:
        return SourceError(f"{self._folder.join(name)}: changes all the time")
