"""Reads the names in a folder, and finds the files that may be data sets.

It opens no file, and goes only by names and links.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vfs.folder_tree.records import Rules, below
from vfs.hierarchy.absence import FOLDER_ENDING
from vfs.model.name_order import in_order
from vfs.model.naming import DOCUMENTS, ROOTS


def contents(path: str, rules: Rules, above: Collection[str]) -> tuple[set[str], set[str]]:
    """Read the names in a folder.

    Args:
        above: real paths of this folder and the folders above it. A link to one of them, or to a
            folder above one, would lead round in circles and is left out.

    Returns: (folders, files) that may be shown. A link counts as its target, if the rules allow that.

    Raises:
        OSError: the folder cannot be read.
    """
    folders, files, boundary = set(), set(), rules.sources.boundary
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.is_symlink():
                target = os.path.realpath(entry.path)
                if not boundary.holds(target):
                    continue
                if os.path.isfile(target):
                    files.add(entry.name)
                elif rules.follow_outside and os.path.isdir(target) and not any(below(one, target) for one in above):
                    folders.add(entry.name)
            elif entry.is_dir(follow_symlinks=False):
                folders.add(entry.name)
            elif entry.is_file(follow_symlinks=False):
                files.add(entry.name)
    if not rules.show_files:
        folders = {name for name in folders if not _is_store(os.path.join(path, name))}
    return folders, files


def _is_store(path: str) -> bool:
    """Return True for a folder that is a zarr store, such as an exported one.

    It holds no data sets, and its name may be that of a face of the set that it was exported from. A name with
    another ending tells nothing, so it must hold a group or an array.
    """
    documents = DOCUMENTS if path.endswith(FOLDER_ENDING) else ROOTS
    return any(os.path.lexists(os.path.join(path, name)) for name in documents)


@dataclass(frozen=True)
class Candidates:
    """The files of a folder that may be data sets, going by the endings of their names.

    Attributes:
        order: name -> its place in the order in which candidates are opened: descriptions first, then
            other files that only name the files of a set, then the rest; each in the order of their numbers.
        leads: candidates that only name the files of a set, in that order.
        by_label: name of a data set -> the candidates that may be this data set.
    """

    order: Mapping[str, int] = field(default_factory=dict)
    index_files: Sequence[str] = ()
    by_label: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def among(cls, files: Collection[str], rules: Rules) -> Candidates:
        """Find the candidates among some files."""
        names = in_order([name for name in files if name.lower().endswith(rules.endings)])
        names.sort(key=rules.rank)
        by_label: dict[str, list[str]] = {}
        for name in names:
            for label in rules.labels(name):
                by_label.setdefault(label, []).append(name)
        order = {name: place for place, name in enumerate(names)}
        return cls(order, [name for name in names if rules.is_index(name)], by_label)

    def behind(self, face: str) -> Iterator[str]:
        """Return the candidates that may have a face with this name.

        The name is the name of a data set, perhaps -2 or another number, and an ending.
        """
        at = face.find(".", 1)
        while at > 0:
            base = face[:at]
            label, dash, number = base.rpartition("-")
            yield from self.by_label.get(base, ())
            if dash and number.isascii() and number.isdecimal() and number[0] != "0" and number != "1":
                yield from self.by_label.get(label, ())
            at = face.find(".", at + 1)
