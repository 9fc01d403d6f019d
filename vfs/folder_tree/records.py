"""Remembers what files of a tree of folders were when they were opened, and holds the rules for the whole tree."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

from vfs.boundary import ANYWHERE, Boundary
from vfs.errors import SourceError
from vfs.formats import Format
from vfs.hierarchy.faces import Hierarchy, Node
from vfs.model.stored import Files

CHECK = 0.5  # seconds that a file or folder is taken to be as it was when it was looked at
SHARE = 10  # looking at a set again takes at most one part of so many of the time: a large one is looked at less often
LONGEST = 255  # bytes of a name
WATCHED = 16  # files of a set that are looked at while it is closed

DESCRIPTION = "description"  # the format whose files may name those of any other

State = tuple[int, int, int, int]
"""Size, modification time in ns, time of change in ns, inode number."""


class MemberSet(NamedTuple):
    """A set that was opened: its tree, the name of its format, and the files it was opened by (what
    a description names).
    """

    tree: Hierarchy
    format: str
    paths: Sequence[str]


@dataclass(slots=True)
class Record:
    """Remembers what a file was when it was opened. Small: there may be a hundred thousand of them.

    Attributes:
        state: of the file when it was opened; None where it was gone.
        seen: how often the folder had changed when the file was opened.
        checked: when it was last found unchanged (monotonic seconds).
        pause: seconds that this is good for.
        label: the name of its data set, before -2, -3.
        format: name of its format.
        faces: pairs of ending and what the face is at its root; empty where it is no data set, or broken.
        members: names in the folder that belong to the set, besides its own.
        watched: paths, sizes and times of other files of the set, if there are not many.
        time: modification time of the newest file, ns; later than that of what the file was before.
        stamp: stands for the files of the set with their sizes and times (of modification, of change). Never 0.
        nbytes: of all files of the set; while it is lost, what they had when it was shown.
        error: why it is not shown; "" where it is shown, or is nothing that vfs knows.
        lost: it was shown before and cannot be opened now, so its names are errors, not absent.
        passing: it is broken, perhaps because of other files of the folder; it is tried again when these change.
    """

    state: State | None
    seen: int
    checked: float
    pause: float = CHECK
    label: str = ""
    format: str = ""
    faces: tuple[tuple[str, Node], ...] = ()
    members: tuple[str, ...] = ()
    watched: tuple[tuple[str, int, int], ...] = ()
    time: int = 0
    stamp: int = 0
    nbytes: int = 0
    error: str = ""
    lost: bool = False
    passing: bool = False


@dataclass(frozen=True)
class Rules:
    """Says what holds in all folders of a tree: how sets are opened, and what is shown.

    Attributes:
        root: real path of the root.
        open: opens a set by one of its files.
        kinds: formats whose extensions are looked for.
        zarr_format: 3 or 2: without the face of the other one.
        show_files: files that are no data set are shown, too.
        follow_outside: links and what files say may lead out of the tree, and links to folders are followed.
    """

    root: str
    open: Callable[[str], MemberSet]
    kinds: Sequence[Format]
    zarr_format: int | None = None
    show_files: bool = False
    follow_outside: bool = False
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
        """0 for descriptions, which may name any file, 1 for other files that are only there to
        name sets, 2 for others.
        """
        lower = name.lower()
        return next((rank for rank, endings in enumerate(self.ranks) if lower.endswith(endings)), len(self.ranks))

    def leads(self, name: str) -> bool:
        """True for a file that is only there to name a set."""
        return self.rank(name) < len(self.ranks)

    def may_name(self, lead: str, name: str, format: str) -> bool:
        """True where a set of a format may be named by the file `lead` rather than by the file `name`."""
        lower = lead.lower()
        return self.rank(lead) < self.rank(name) and any(
            kind.name in (format, DESCRIPTION) and lower.endswith(kind.index_extensions)
            for kind in self.kinds
            if kind.index_extensions
        )

    def labels(self, name: str) -> set[str]:
        """The names that a file's data set may get. A format that the file's content tells may cut
        off another ending than its own.
        """
        fits = {shortened(kind.label(name)) for kind in self.kinds if name.lower().endswith(kind.extensions)}
        return fits | {shortened(os.path.splitext(name)[0] or name)}

    @property
    def boundary(self) -> Boundary:
        """The boundary within which the files of all sets must lie."""
        return ANYWHERE if self.follow_outside else Boundary((self.root,))


def shortened(label: str) -> str:
    """A label that leaves room for what faces are called beyond it."""
    raw = os.fsencode(label)
    if len(raw) <= LONGEST - 16:
        return label
    return os.fsdecode(raw[: LONGEST - 32]) + "~" + blake2b(raw, digest_size=4).hexdigest()


def _found(path: str) -> os.stat_result | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found if stat.S_ISREG(found.st_mode) else None


def state_of(path: str) -> State | None:
    """The state of a file, links followed; None where there is none."""
    found = _found(path)
    return (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino) if found else None


def files_of(tree: Hierarchy) -> list[Files]:
    """The files of a tree's arrays, each list of them once."""
    return list({id(array.dataset.files): array.dataset.files for array in tree.arrays.values()}.values())


def unchanged(tree: Hierarchy) -> bool:
    """True where all files of a set are what they were when it was opened, and none was touched."""
    for files in files_of(tree):
        for file, path in enumerate(files.paths):
            found = _found(path)
            if not (files.same(file, found) and files.sizes[file] >= 0 if found else files.sizes[file] < 0):
                return False
        if files.moves.item(0):
            return False
    return True


def describe(
    record: Record, path: str, opened: MemberSet, rules: Rules, folders: Collection[str], order: Mapping[str, int]
) -> None:
    """Write down in the record of a file what its set is.

    Args:
        path: of the file.
        folders: the names of its folder, as given and as it really is.
        order: place of every candidate of the folder.
    """
    tree, paths = opened.tree, {os.path.abspath(name) for name in opened.paths}
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
    names = {os.path.basename(name) for name in paths if os.path.dirname(name) in folders} - {os.path.basename(path)}
    record.members = tuple(sorted(names, key=lambda member: (order.get(member, len(order)), member)))
    record.watched = tuple(entry for entry in watched[:WATCHED] if entry[0] != path)
    record.label, record.format = shortened(tree.name), opened.format
    roots = tree.roots(rules.zarr_format).items()
    record.faces = tuple((end, node) for end, node in roots if len(os.fsencode(record.label + end)) <= LONGEST - 5)
    record.time = tree.time
    record.stamp = int.from_bytes(digest.digest()) >> 1 | 1
    record.nbytes = sum(size for size in sizes.values() if size > 0)


def refuse_less(path: str, record: Record, before: Record | None, opened: MemberSet) -> None:
    """Refuse a set that was shown and has fewer bytes now: frames that it lost would be shown as
    blank, or others in their place.

    Args:
        path: of the file that names the set.
        before: what was remembered of it.

    Raises:
        SourceError: it is of several files, or has blank frames, and its files have fewer bytes than they had.
    """
    if before is None or not (before.faces or before.lost) or record.nbytes >= before.nbytes:
        return
    several = sum(len(files) for files in files_of(opened.tree)) > 1
    if several or any(array.dataset.blanks for array in opened.tree.arrays.values()):
        less = f"its files have {before.nbytes - record.nbytes:,} bytes less than when it was shown"
        raise SourceError(f"{path}: {less}; put back what is missing, or mount again to see what is left")


def below(path: str, folder: str) -> bool:
    """True where a path is a folder or lies below it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


class Flights:
    """Single-flight: while one thread makes something, others that want it wait for that one."""

    def __init__(self) -> None:
        self._flying: dict[str, threading.Lock] = {}  # held until it is over

    def once(self, key: str, make: Callable[[], None]) -> None:
        """Call `make`, or wait until somebody's call of it is over, however that ends."""
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
