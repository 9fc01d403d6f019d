"""What is remembered of the files of a tree of folders, and the rules that hold in all of it."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

from vfs.boundary import ANYWHERE, Boundary
from vfs.dataset import Files
from vfs.formats import Format
from vfs.tree import Node, Tree

CHECK = 0.5  # seconds that a file or folder is taken to be as it was when it was looked at
SHARE = 10  # looking at a set again takes at most one part of so many of the time: a large one is looked at less often
LONGEST = 255  # bytes of a name

DESCRIPTION = "description"  # the format whose files may name those of any other

State = tuple[int, int, int, int]
"""Size, modification time in ns, time of change in ns, inode number."""


class Opened(NamedTuple):
    """A set that was opened: its tree, the name of its format, and the files it was opened by (what a description names)."""

    tree: Tree
    format: str
    paths: Sequence[str]


@dataclass(slots=True)
class Record:
    """What is remembered of a file. Small: there may be a hundred thousand of them.

    Attributes:
        state: of the file when it was opened; None where it was gone.
        seen: number of the change of the folder that was the last one when it was opened.
        checked, pause: when it was last found unchanged (monotonic), and how many seconds that is good for.
        label: what its data set is called, before -2, -3.
        format: name of its format.
        faces: ending -> what the face is at its root; empty where it is no data set, or broken.
        members: names in the folder that belong to the set, besides its own.
        watched: paths, sizes and times of other files of the set, if there are not many.
        time: modification time of the newest file, ns; later than that of what the file was before.
        stamp: stands for the files of the set with their sizes and times (of modification, of change). Never 0.
        nbytes: of all files of the set; while it is lost, what they had when it was shown.
        error: why it is not shown; "" where it is, or is simply nothing that vfs knows.
        lost: it was shown before, and now cannot be opened: not absent, but an error.
        passing: other files of the folder may be the reason why it is broken.
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
    """What holds in all folders of a tree.

    Attributes:
        root: real path of the root.
        open: opens a set by one of its files.
        kinds: formats whose extensions are looked for.
        zarr_format: 3 or 2: without the face of the other one.
        show_files: files that are no data set are shown, too.
        follow_outside: links and what files say may lead out of the tree, and links to folders are followed.
    """

    root: str
    open: Callable[[str], Opened]
    kinds: Sequence[Format]
    zarr_format: int | None = None
    show_files: bool = False
    follow_outside: bool = False
    endings: tuple[str, ...] = field(init=False)
    ranks: tuple[tuple[str, ...], ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "endings", tuple({ending for kind in self.kinds for ending in (*kind.extensions, *kind.leads)}))
        said = tuple(ending for kind in self.kinds if kind.name == DESCRIPTION for ending in kind.leads)
        object.__setattr__(self, "ranks", (said, tuple({ending for kind in self.kinds for ending in kind.leads})))

    def rank(self, name: str) -> int:
        """0 for descriptions, which may name any file, 1 for other files that are only there to name sets, 2 for others."""
        lower = name.lower()
        return next((rank for rank, endings in enumerate(self.ranks) if lower.endswith(endings)), len(self.ranks))

    def may_name(self, lead: str, name: str, format: str) -> bool:
        """Whether a set of a format may be named by the file `lead` rather than by the file `name`."""
        lower = lead.lower()
        return self.rank(lead) < self.rank(name) and any(kind.name in (format, DESCRIPTION) and lower.endswith(kind.leads) for kind in self.kinds if kind.leads)

    def labels(self, name: str) -> set[str]:
        """What a file's data set may be called. One that is recognised as of a format with other endings loses its own."""
        fits = {shortened(kind.label(name)) for kind in self.kinds if name.lower().endswith(kind.extensions)}
        return fits | {shortened(os.path.splitext(name)[0] or name)}

    @property
    def boundary(self) -> Boundary:
        """Where the files of all sets may lie."""
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


def files_of(tree: Tree) -> list[Files]:
    """The files of a tree's arrays, each list of them once."""
    return list({id(array.dataset.files): array.dataset.files for array in tree.arrays.values()}.values())


def unchanged(tree: Tree) -> bool:
    """Whether all files of a set are what they were when it was opened, and none was touched."""
    for files in files_of(tree):
        for file, path in enumerate(files.paths):
            found = _found(path)
            if not (files.same(file, found) and files.sizes[file] >= 0 if found else files.sizes[file] < 0):
                return False
        if files.moves.item(0):
            return False
    return True


def below(path: str, folder: str) -> bool:
    """Whether a path is a folder or below it."""
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
