"""Remembers the state of files of a folder tree at opening, and holds the rules for the whole tree."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import NamedTuple

from vfs.contents.face_folder import LOOKS_ELSEWHERE
from vfs.contents.live_folder import LiveFolder
from vfs.errors import SourceError
from vfs.faces.data_set import Hierarchy
from vfs.faces.face import Node
from vfs.formats import Format
from vfs.live.trust import Pace, Trust
from vfs.model.file_state import UNKNOWN, FileState
from vfs.model.sources import FolderSources, Sources
from vfs.sources.names import absolute, basename, dirname, splitext
from vfs.sources.packed import bare

MAX_NAME_BYTES = 255  # most bytes of a name
LOOKS = Pace(least=0.5, share=10)
"""How often files and folders of this machine are looked at."""

WATCHED = 16  # most files of a set that are checked while the set is not open

DESCRIPTION = "description"  # the format whose files may name files of all other formats

State = tuple[FileState, int]
"""State of a file, and its inode number, which tells another file from one that looks the same."""


class MemberSet(NamedTuple):
    """A data set of a folder, opened.

    Attributes:
        tree: its arrays and its name.
        format: name of its format.
        paths: files by which it was opened; of a description the files that it names.
        again: time (monotonic seconds) from which it must be opened again though no file changed.
        begun: files of it that have only begun, or have yet to come.
        growing: shows the set as it grows, if it is still being written; it takes `first` of `LiveFolder`.
        stack: all `paths` must be named to open it again: see `vfs.sets.stacks`.
    """

    tree: Hierarchy
    format: str
    paths: Sequence[str]
    again: float = math.inf
    begun: Sequence[str] = ()
    growing: Callable[[int], LiveFolder] | None = None
    stack: bool = False


@dataclass(slots=True)
class Record:
    """Remembers what a file was when it was opened. Small: there may be a hundred thousand of them.

    Attributes:
        state: state of the file when it was opened; None if it was gone.
        first_seen: number of changes of the folder before the file was opened.
        trust: time until which it is not checked again.
        again: see `MemberSet`.
        label: name of its data set, without -2 or -3.
        format: name of its format.
        faces: pairs of ending and root node of each face, the main one first; empty if it is no data set, or broken.
        members: names of other files in the folder that belong to the set.
        stack: see `MemberSet`; then `members` are its other files.
        watched: paths and states of other files of the set, if there are not many.
        time: modification time of the newest file, ns; later than the time of an earlier state.
        stamp: digest of the files of the set with their sizes and times (mtime and ctime). Never 0.
        nbytes: bytes of all files of the set; while the set is lost, the bytes when it was shown.
        error: reason why it is not shown; "" if it is shown, or is not a format that vfs knows.
        was_shown: True if it was shown before and cannot be opened now, so that its names are errors.
        may_recover: True if it is broken, perhaps because of other files of the folder. It is opened
            again when these change.
    """

    state: State | None
    first_seen: int
    trust: Trust = field(default_factory=partial(Trust, LOOKS))
    again: float = math.inf
    label: str = ""
    format: str = ""
    faces: tuple[tuple[str, Node], ...] = ()
    members: tuple[str, ...] = ()
    stack: bool = False
    watched: tuple[tuple[str, FileState], ...] = ()
    time: int = 0
    stamp: int = 0
    nbytes: int = 0
    error: str = ""
    was_shown: bool = False
    may_recover: bool = False


@dataclass(frozen=True)
class Rules:
    """Holds the rules for all folders of a tree: how sets are opened, and what is shown.

    Attributes:
        sources: where the files of all sets are: they must lie in the tree, unless links may lead out of it, and links
            to folders are followed.
        open: function that opens a set by one of its files, in sources.
        kinds: formats of the data sets that are shown.
        zarr_format: 3 or 2 leaves out the face of the other format; None keeps both.
        show_files: True if files that are no data set are shown, too.
        endings: endings of the names of all files that may be data sets, of packed ones without that of the packing.
        ranks: endings of descriptions, then endings of all files that only name files of a set.
    """

    sources: FolderSources
    open: Callable[[str, Sources], MemberSet]
    kinds: Sequence[Format]
    zarr_format: int | None = None
    show_files: bool = False
    endings: tuple[str, ...] = field(init=False)
    ranks: tuple[tuple[str, ...], ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(
            self,
            "endings",
            tuple({ending for kind in self.kinds for ending in (*kind.extensions, *kind.index_extensions)}),
        )
        said = tuple(ending for kind in self.kinds if kind.name == DESCRIPTION for ending in kind.index_extensions)
        object.__setattr__(
            self, "ranks", (said, tuple({ending for kind in self.kinds for ending in kind.index_extensions}))
        )

    def rank(self, name: str) -> int:
        """Return the rank in which a file is opened.

        It is 0 for descriptions, which may name any file, 1 for other files that only name the files
        of a set, and 2 for the rest.
        """
        lower = name.lower()
        return next((rank for rank, endings in enumerate(self.ranks) if lower.endswith(endings)), len(self.ranks))

    def is_index(self, name: str) -> bool:
        """Return True for a file that only names the files of a set."""
        return self.rank(name) < len(self.ranks)

    def may_name(self, lead: str, name: str, format: str) -> bool:
        """Return True if a set of a format that has the file `name` may be named by the file `lead` instead."""
        lower = lead.lower()
        return self.rank(lead) < self.rank(name) and any(
            kind.name in (format, DESCRIPTION) and lower.endswith(kind.index_extensions)
            for kind in self.kinds
            if kind.index_extensions
        )

    def labels(self, name: str) -> set[str]:
        """Return the names that the data set of a file may get.

        There may be several, because the format may only be known from the file's content, and
        formats cut off different endings.
        """
        fits = {shortened(kind.label(name)) for kind in self.kinds if bare(name).lower().endswith(kind.extensions)}
        return fits | {shortened(splitext(name)[0] or name)}

    @property
    def looks(self) -> Pace:
        """How often files and folders are looked at."""
        return LOOKS_ELSEWHERE if self.sources.far_away else LOOKS


def shortened(label: str) -> str:
    """Shorten a label if it is so long that the ending of a face would not fit behind it."""
    raw = os.fsencode(label)
    if len(raw) <= MAX_NAME_BYTES - 16:
        return label
    return os.fsdecode(raw[: MAX_NAME_BYTES - 32]) + "~" + blake2b(raw, digest_size=4).hexdigest()


def describe(
    record: Record, path: str, opened: MemberSet, rules: Rules, folders: Collection[str], order: Mapping[str, int]
) -> None:
    """Describe the data set of a file in the file's record.

    Args:
        path: path of the file.
        folders: path of its folder, as given and with links followed.
        order: place of every candidate of the folder.
    """
    tree, paths = opened.tree, {absolute(name) for name in opened.paths}
    sizes: dict[str, int] = {}
    digest = blake2b(repr(record.state and record.state[0]).encode(), digest_size=8)
    watched: list[tuple[str, FileState]] = []
    for files in tree.file_sets:
        paths.update(files.paths)
        sizes.update(zip(files.paths, files.sizes.tolist(), strict=True))
        digest.update("\0".join(files.paths).encode("utf-8", "surrogateescape"))
        digest.update(files.states.tobytes())
        few = range(len(files)) if len(files) <= WATCHED else (0, len(files) - 1)
        watched += [(files.paths[k], files.state(k)) for k in few]
    known = dict(watched)
    for name in opened.begun:
        if name not in known:
            looked = rules.sources.look(name)
            watched.insert(0, (name, looked[0] if looked else UNKNOWN))
    record.again = opened.again
    names = {basename(name) for name in paths if dirname(name) in folders} - {basename(path)}
    record.stack = opened.stack
    record.members = tuple(sorted(names, key=lambda member: (order.get(member, len(order)), member)))
    record.watched = tuple(entry for entry in watched[:WATCHED] if entry[0] != path)
    record.label, record.format = shortened(tree.name), opened.format
    record.faces = tuple(
        (kind.ending, kind.root)
        for kind in tree.face_kinds(rules.zarr_format)
        if len(os.fsencode(record.label + kind.ending)) <= MAX_NAME_BYTES - 5
    )
    record.time = tree.time
    record.stamp = int.from_bytes(digest.digest()) >> 1 | 1
    record.nbytes = sum(size for size in sizes.values() if size > 0)


def refuse_less(path: str, record: Record, before: Record | None, opened: MemberSet) -> None:
    """Refuse a set that was shown before and has fewer bytes now.

    Else frames that it lost would be shown as blank, or other frames in their place.

    Args:
        path: path of the file that names the set.
        record, before: record of the file now, and before.
        opened: the set as it is now.

    Raises:
        SourceError: the set has several files, or blank frames, and its files have fewer bytes than
            before.
    """
    if before is None or not (before.faces or before.was_shown) or record.nbytes >= before.nbytes:
        return
    if opened.growing is not None:  # it was begun anew, and is another acquisition
        return
    several = sum(len(files) for files in opened.tree.file_sets) > 1
    if several or any(array.dataset.blanks for array in opened.tree.arrays.values()):
        less = f"its files have {before.nbytes - record.nbytes:,} bytes less than when it was shown"
        raise SourceError(f"{path}: {less}; put back what is missing, or mount or serve again to see what is left")


class SingleFlight:
    """Lets one thread make something while others that want the same wait for it."""

    def __init__(self) -> None:
        self._flying: dict[str, threading.Lock] = {}  # key -> lock, held until the call is over

    def once(self, key: str, make: Callable[[], None]) -> None:
        """Call `make`; or, if another thread is in a call for this key, wait until that ends, even with an error."""
        mine = threading.Lock()
        mine.acquire()
        flight = self._flying.setdefault(key, mine)  # one step for all threads
        if flight is not mine:
            with flight:
                return
        try:
            make()
        finally:
            del self._flying[key]
            mine.release()
