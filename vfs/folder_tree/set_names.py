"""Holds the names of the data sets of one folder: the set of each name, and their order in listings."""

from __future__ import annotations

from collections import deque

from vfs.folder_tree.entries import Entries
from vfs.folder_tree.records import Record
from vfs.folder_tree.watched_folder import WatchedFolder

REMEMBERED = 65_536  # most names of sets that are gone of which it is known when they were written


class SetNames:
    """Gives names to the sets of a folder, and takes them back.

    It opens no file, and does not decide which set comes first: `naming` does. Callers hold the
    folder's lock while its methods change anything.

    Args:
        folder: the folder of the sets.

    Attributes:
        owner: member of a set -> the file that names the set.
        base: file that names a set -> what its faces are called before their endings.
        taken: name of a face -> the file that names its set; mains: the same of main faces only.
        entries: all names in the folder, as they are listed.
        pending: candidates still to be opened.
        newcomers: files that only name the files of sets, such as descriptions, and came after the folder was first
            read: whoever asks for a set that has its name already must look whether they name it.
        taken_back: how often names of faces were taken back.
    """

    def __init__(self, folder: WatchedFolder) -> None:
        self.owner: dict[str, str] = {}
        self.base: dict[str, str] = {}
        self.taken: dict[str, str] = {}
        self.mains: dict[str, str] = {}
        self.entries = Entries()
        self.pending: deque[str] = deque()
        self.newcomers: set[str] = set()
        self.taken_back = 0
        self._folder = folder
        self._sets: dict[str, Record] = {}  # file that names a set -> what its names and members were taken from
        self._before: dict[str, tuple[int, int]] = {}  # what faces were called -> stamp and time of their set

    def settled(self, name: str) -> bool:
        """Return True if a file names a set, or belongs to one."""
        return name in self.base or name in self.owner

    def give(self, name: str, base: str, record: Record) -> bool:
        """Give the faces of a set the names `base` + ending.

        Returns: False if one of these names is taken; then nothing is changed.
        """
        faces = [base + ending for ending, _ in record.faces]
        if any(face in self._folder.folders or face in self.taken for face in faces):
            return False
        stamp, time = self._before.pop(base, (record.stamp, 0))
        if stamp != record.stamp:
            record.time = max(record.time, time + 1)  # by this the kernel knows that its pages are of another set
        self.base[name] = base
        self._sets[name] = record
        self.mains[faces[0]] = name
        for face in faces:
            self.taken[face] = name
            self.entries.show(face)
        return True

    def claim(self, name: str, record: Record) -> None:
        """Note that files belong to a set, except those that belong to another set already."""
        self._sets[name] = record
        self.newcomers.discard(name)
        for member in record.members:
            if member in self._folder.files and member not in self.owner:
                self.take_back(member)
                self.owner[member] = name
                self.entries.hide(member)

    def take_back(self, name: str) -> None:
        """Take back the names of a set's faces and release its members. Both will be opened again."""
        record = self._sets.pop(name, None)
        self.taken_back += 1
        base = self.base.pop(name, None)
        again = [name] if base is not None else []
        if record is not None:
            if base is not None:
                self._before[base] = record.stamp, record.time
                if len(self._before) > REMEMBERED:
                    del self._before[next(iter(self._before))]
                for face in [base + ending for ending, _ in record.faces]:
                    if self.taken.get(face) == name:
                        del self.taken[face]
                        self.mains.pop(face, None)
                        self.entries.hide(face)
            for member in record.members:
                if self.owner.get(member) == name:
                    del self.owner[member]
                    again.append(member)
        self.pending.extend(known for known in again if known in self._folder.candidates.order)
