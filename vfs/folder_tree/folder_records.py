"""Remembers what the candidates of one folder are, and opens them again when they changed."""

from __future__ import annotations

import errno
import logging
import time

from vfs.errors import FormatError, MissingSourceError, SourceError, UnknownFormatError, VfsError, printable
from vfs.folder_tree.records import MemberSet, Record, SingleFlight, describe, refuse_less
from vfs.folder_tree.set_names import SetNames
from vfs.folder_tree.watched_folder import WatchedFolder
from vfs.live.trust import Trust

log = logging.getLogger("vfs.folder_tree")

PASSING = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR}  # say nothing of the file


class FolderRecords:
    """Keeps a `Record` of each candidate that was opened, also of those that are no data set.

    Args:
        folder: the folder of the candidates.
        names: names of the sets in the folder. A set that changed into another one loses its names.

    Attributes:
        known: candidate -> its record.
        told: broken files that the log knows of.
    """

    def __init__(self, folder: WatchedFolder, names: SetNames) -> None:
        self.known: dict[str, Record] = {}
        self.told: set[str] = set()
        self._folder = folder
        self._names = names
        self._single_flight = SingleFlight()

    def current(self, name: str) -> Record:
        """Return the record of a candidate. Open the candidate first if it has no record, or changed.

        Raises:
            SourceError: the candidate cannot be opened now, for a reason that does not lie in the file.
        """
        record = self.known.get(name)
        if record is not None and not self._changed(name, record):
            return record
        self._single_flight.once(name, lambda: self._look(name))
        return self.known.get(name) or self._record(name)  # gone meanwhile

    def shown(self, name: str) -> bool:
        """Return True if a candidate was a data set when it was last opened."""
        record = self.known.get(name)
        return record is not None and bool(record.faces)

    def refused(self, name: str) -> bool:
        """Return True if a candidate was opened, and is broken or no data set."""
        return name in self.known and not self.shown(name)

    def changed(self) -> list[str]:
        """Check all candidates that have a record. Return those that must be opened again."""
        return [name for name, record in list(self.known.items()) if self._changed(name, record)]

    def look_again(self, name: str) -> None:
        """Demand that a candidate is opened again before it is used. The record still says that it was shown."""
        record = self.known.get(name)
        if record is not None:
            record.state = None
            record.trust.end()

    def forget(self, name: str) -> None:
        """Drop the record of a file that is gone."""
        self.told.discard(name)
        self.known.pop(name, None)

    def open(self, name: str) -> MemberSet | None:
        """Open a candidate, and keep a record of it. Return None if it is no data set.

        Raises:
            SourceError: the candidate cannot be opened now, for a reason that does not lie in the file.
        """
        folder, path = self._folder, self._folder.join(name)
        began = time.monotonic()
        record = self._record(name)
        opened = None
        try:
            if record.state is None:
                raise MissingSourceError(f"{path}: no such file")
            opened = folder.rules.open(path, folder.sources)
            describe(record, path, opened, folder.rules, {folder.path, folder.real}, folder.candidates.order)
            refuse_less(path, record, self.known.get(name), opened)
        except MemoryError:
            raise SourceError(f"{path}: not enough memory to open it", errno.ENOMEM) from None
        except UnknownFormatError:
            pass
        except Exception as error:  # whatever a stranger's format raises: no file may end the mount
            if isinstance(error, OSError) and error.errno in PASSING:
                raise SourceError(f"{path}: cannot be opened now: {error}", error.errno) from None
            opened, record.faces = None, ()
            before = self.known.get(name)
            record.nbytes = before.nbytes if before is not None else 0
            record.error = str(error) if isinstance(error, VfsError) else f"{path}: {type(error).__name__}: {error}"
            record.may_recover = not isinstance(error, FormatError)
        record.trust.renew(began)
        with folder.lock:
            self._remember(name, record)
        return opened

    def _record(self, name: str) -> Record:
        return Record(self._folder.state(name), self._folder.changes, Trust(self._folder.pace))

    def _look(self, name: str) -> None:
        record = self.known.get(name)
        if record is None or self._changed(name, record):  # nobody did meanwhile
            self.open(name)

    def _changed(self, name: str, record: Record) -> bool:
        if record.trust.holds():
            return False
        now = time.monotonic()
        # Whatever file is at fault, it may be well again: that is not written down
        if record.error and (record.was_shown or self._folder.rules.is_index(name)):
            return True
        if self._folder.state(name) != record.state:
            return True
        if any(self._folder.replaced(path, then) for path, then in record.watched):
            return True
        if now >= record.again:
            return True
        record.trust.extend(now)
        return False

    def _remember(self, name: str, record: Record) -> None:
        before = self.known.get(name)
        if record.error and record.state is not None and name not in self.told:
            self.told.add(name)
            log.warning("%s", printable(f"not shown: {record.error}"))
        if record.faces:
            self.told.discard(name)
        if before is not None:
            record.was_shown = not record.faces and bool(before.faces or before.was_shown)
            if before.stamp == record.stamp:
                record.time = before.time
            elif before.stamp:
                record.time = max(record.time, before.time + 1)  # by this the kernel knows that its pages are old
            if _shape(before) != _shape(record):
                self._names.take_back(name)
        if name in self._folder.candidates.order:
            self.known[name] = record


def _shape(record: Record) -> tuple[object, ...]:
    """Return everything that the names of a set's faces depend on."""
    return record.members, record.label, [ending for ending, _ in record.faces]
