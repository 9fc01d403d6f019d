"""Reads the names in a folder, and finds the files that may be data sets.

It opens no file, and goes only by names and links.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vfs.faces.absence import FOLDER_ENDING
from vfs.folder_tree.records import Rules
from vfs.model.name_order import in_order
from vfs.model.naming import DOCUMENTS, ROOTS
from vfs.model.sources import Inside
from vfs.sources.packed import bare


def shown(folder: str, inside: Inside, rules: Rules) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of the folders in a folder, and those of the files, that may be shown.

    Args:
        inside: what its sources say is in it.
    """
    folders = frozenset(name for name, state in inside.items() if state is None)
    if not rules.show_files:
        folders = frozenset(name for name in folders if not _is_store(f"{folder}/{name}", rules))
    return folders, frozenset(inside.keys() - {name for name, state in inside.items() if state is None})


def _is_store(path: str, rules: Rules) -> bool:
    """Return True for a folder that is a zarr store, such as an exported one.

    It holds no data sets, and its name may be that of a face of the set that it was exported from. A name with
    another ending tells nothing, so it must hold a group or an array. On a server, where that is a request for each
    folder, the name decides.
    """
    named = path.endswith(FOLDER_ENDING)
    if rules.sources.far_away:
        return named
    return rules.sources.holds_any(path, DOCUMENTS if named else ROOTS)


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
        names = in_order([name for name in files if bare(name).lower().endswith(rules.endings)])
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
