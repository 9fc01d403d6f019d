"""Finds the files and data sets behind the paths of a folder tree. `vfs.folder_tree.served_sets` keeps sets open."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from vfs.backends import make_backend
from vfs.contents.shown import InFace, Shown, ShownEntry, Watch
from vfs.engine.cache import ChunkCache
from vfs.errors import SourceError
from vfs.faces.data_set import FILE_ENDING
from vfs.faces.face import GROUP, Face, Node
from vfs.folder_tree.listing import Listing
from vfs.folder_tree.look_ahead import LookAhead
from vfs.folder_tree.records import Rules
from vfs.folder_tree.seen import Seen
from vfs.folder_tree.served_sets import ServedSet, ServedSets, digest_of
from vfs.live.growing import Progress
from vfs.model.files import Files
from vfs.model.name_order import in_order
from vfs.model.open_options import OpenOptions
from vfs.model.pickles import digest
from vfs.sets.opening import Opening

KEEP = 1.0  # seconds for which a kernel may remember names
_UNKNOWN = "no format recognises it; say what its pixels are"
NAMES = 1_000_000  # most names in the folders that are remembered


class _Place(NamedTuple):
    """The place of a path: a folder, a file that is shown as it is, or a key in a face of a data set.

    Attributes:
        listing: the folder.
        name: name of the file, or of the file that names the data set; "" for the folder itself.
        ending: ending of the face; None for a file that is shown as it is.
        key: key in the face.
    """

    listing: Listing
    name: str = ""
    ending: str | None = None
    key: str = ""


class _Nothing(Shown):
    """Shows that nothing is at a path of a tree. A file may be there that is not shown as anything."""

    def __init__(self, tree: FolderTree, path: str) -> None:
        super().__init__(path)
        self._tree = tree

    def node(self) -> Node | None:
        self._tree.check_gone(self.path)
        return super().node()

    @property
    def opening(self) -> Opening | None:
        file = self._tree.unshown(self.path)
        return None if file is None else self._tree.opening_of(file)


class _ListedFolder(Shown):
    """Shows a folder."""

    def __init__(self, tree: FolderTree, path: str, listing: Listing) -> None:
        super().__init__(path)
        self._tree, self._listing = tree, listing

    def node(self) -> Node:
        return GROUP

    def children(self, after: int = 0, until: float = math.inf) -> Iterator[str]:
        return self._tree.names(self._listing, after, until)

    def unopened(self) -> Sequence[str]:
        return self._listing.unopened()

    def sets(self, until: float = math.inf) -> Iterator[ShownEntry]:
        listing, above = self._listing, self._tree.above + (f"{self.path}/" if self.path else "")
        known, mains = listing.records.known, listing.names.mains
        for name in self.children(0, until):
            if (owner := mains.get(name)) is not None:
                record, base = known.get(owner), listing.names.base.get(owner, name)
                stack = 1 + len(record.members) if record and record.stack else 0
                about = (record.format, record.nbytes, record.time, "", stack) if record else ()
                yield ShownEntry(base, above + name, "set", *about)
            elif name in listing.folder.folders:
                yield ShownEntry(name, above + name, "folder")
        for name, record in listing.refused():
            size, time = record.state[0][:2] if record.state else (0, 0)
            reason = (record.error or _UNKNOWN).removeprefix(f"{listing.folder.join(name)}: ")
            yield ShownEntry(name, above + name, "file", "", size, time, reason)
        for name in self.unopened():
            yield ShownEntry(name, above + name, "unopened")

    def set_of(self, name: str) -> str | None:
        self._listing.check()
        face = self._listing.naming.main_face(name)
        return f"{self.path}/{face}" if self.path and face else face

    def time(self) -> int:
        return self._listing.folder.time()


class _File(Shown):
    """Shows a file as it is."""

    def __init__(self, tree: FolderTree, path: str, listing: Listing, name: str) -> None:
        super().__init__(path)
        self._tree = tree
        self._file = listing.folder.join(name)
        self._state = listing.folder.state(name)

    def node(self) -> Node | None:
        return Node(False, self._state[0].size, json=self._file.endswith(".json")) if self._state else None

    def get(self, start: int = 0, stop: int | None = None) -> memoryview:
        """Return bytes of the file.

        Raises:
            SourceError: they cannot be read.
        """
        files = Files.stat(self._tree.rules.sources, [self._file])
        size = int(files.sizes[0])
        stop = size if stop is None else min(stop, size)
        start = min(start, stop)
        return make_backend("buffered", files).span(0, start, stop, np.empty(stop - start, np.uint8)).data

    def time(self) -> int:
        return self._state[0].written if self._state else 0

    def stamp(self) -> int:
        return hash(self._state) & (1 << 62) - 1 | 1 if self._state else 0

    def version(self) -> bytes:
        return digest_of(self._tree.opened_with, self.stamp())

    @property
    def opening(self) -> Opening:
        return self._tree.opening_of(self._file)

    def source_files(self, all_files: bool) -> Sequence[str]:
        return (self._file,)


class _InTree(InFace):
    """Shows a path in a face of a data set of a tree. The set is opened when something needs it.

    Args:
        place: the place of the path, if it was looked up.
        live: the set, if it is open. Who knows that sets `face` and `watch`, too.
    """

    def __init__(
        self, tree: FolderTree, path: str, key: str, place: _Place | None = None, live: ServedSet | None = None
    ) -> None:
        super().__init__(path, key)
        self._tree, self._looked_up, self._live = tree, place, live

    def _open(self) -> tuple[Face, Watch]:
        """Open the set, if it is not.

        Raises: what `ServedSets.face` raises.
        """
        self._live, face = self._tree.face(self.path, self._place)
        grows = self._live.grows(self.path)
        if grows is None:
            return face, self._live
        shown = grows[0].at(grows[1])
        if not isinstance(shown, InFace):
            raise self._changed()
        return shown.face, shown.watch

    @property
    def _place(self) -> _Place:
        place = self._looked_up = self._looked_up or self._tree.find(self.path)
        if place is None or place.ending is None:
            raise self._changed()
        return place

    def _changed(self) -> SourceError:
        return SourceError(f"{self._tree.root.rstrip('/')}/{self.path}: changed while it was looked at")

    @property
    def _where(self) -> tuple[Listing, str]:
        """The folder of the set, and the file that names it."""
        one = self._place if self._live is None else self._live
        return one.listing, one.name

    def node(self) -> Node | None:
        if self.key or (self._live is not None and self._live.growing is not None):
            return super().node()
        place = self._place
        assert place.ending is not None
        node = dict(place.listing.records.current(place.name).faces).get(place.ending)
        if node is None:  # it was there a moment ago
            raise SourceError(f"{place.listing.folder.join(place.name)}: changed while it was looked at")
        return node

    def get(self, start: int = 0, stop: int | None = None) -> memoryview | None:
        face, watch = self.face, self.watch
        try:
            watch.check()
            return face.get(self.key, start, stop)
        except SourceError:
            if self._live is not None:
                self._live.look_again()
            raise

    def listed_version(self) -> bytes:
        if self._live is None and not self.key:
            listing, name = self._where
            record = listing.records.current(name)
            if record.faces and record.again == math.inf:  # else it grows, and its files do not tell
                return digest_of(self._tree.opened_with, record.stamp)
        return self.version()

    def time(self) -> int:
        if self._live is not None:
            return self.watch.time
        listing, name = self._where
        return listing.records.current(name).time

    @property
    def _stem(self) -> str:
        """The path of the face without its ending."""
        assert self._place.ending is not None
        return self.path.removesuffix(f"/{self.key}" if self.key else "").removesuffix(self._place.ending)

    @property
    def name(self) -> str:
        return self._stem.rpartition("/")[2]

    @property
    def file(self) -> str | None:
        listing, name = self._where
        has_file = FILE_ENDING in dict(listing.records.current(name).faces)
        return self._tree.above + self._stem + FILE_ENDING if has_file else None

    @property
    def opening(self) -> Opening:
        listing, name = self._where
        record = listing.records.current(name)
        names = in_order([name, *record.members]) if record.stack else [name]
        return self._tree.opening_of(*map(listing.folder.join, names))

    def source_files(self, all_files: bool) -> Sequence[str]:
        if all_files:
            return self._tree.face(self.path, self._place)[0].files
        listing, name = self._where
        record = listing.records.current(name)
        return (
            listing.folder.join(name),
            *(listing.folder.join(member) for member in record.members),
            *(watched for watched, _ in record.watched),
        )


class FolderTree:
    """Shows a tree of folders to a mount (`vfs.contents.contents.Contents`). Safe for many threads.

    Args:
        root: name of the folder, absolute.
        rules: where it is, how its sets are opened, and what is shown.
        cache: cache for decoded pieces, which `rules.open` gives to the arrays.
        options, format_options: the options with which `rules.open` opens sets.
        above: what stands before all its paths where it is a part of other contents, as "single~/".

    Attributes:
        root, rules, cache, options, format_options, above: as given.
        opened_with: digest of the options with which sets are opened; None: with `accept_changes`.
        faces: empty, because nothing is known from the start.
        entry_timeout, attr_timeout, warnings: see `vfs.contents.contents.Contents`.

    Raises:
        OptionError: the root is not a folder.
        SourceError: it is one on a server, which cannot be listed.
    """

    def __init__(
        self,
        root: str,
        rules: Rules,
        *,
        cache: ChunkCache,
        options: OpenOptions,
        format_options: Mapping[str, Any],
        above: str = "",
    ) -> None:
        self.options, self.format_options, self.above = options, format_options, above
        self.opened_with = None if options.accept_changes else digest((options, format_options))
        self.root = root
        self.faces: Mapping[str, Face] = {}
        self.entry_timeout, self.attr_timeout = KEEP, 0.0  # a program that opens a changed file must get its new size
        self.cache = cache
        self.rules = rules
        self._top = Listing(self.root, self.rules)
        self._listings: OrderedDict[str, Listing] = OrderedDict()
        self._live = ServedSets(self.opened_with)
        self.warnings: Mapping[str, Sequence[str]] = {}
        self._seen = Seen()
        self._lock = threading.Lock()  # of the listings
        self._look_ahead = LookAhead()

    def at(self, path: str) -> Shown:
        found = self._live.used_before(path)
        if found is not None:
            live, face, key = found
            if not (grows := live.grows(path)):
                return self._in_open(path, key, live, face, live)
            shown = grows[0].at(grows[1])
            return self._in_open(path, key, live, shown.face, shown.watch) if isinstance(shown, InFace) else shown
        place = self.find(path)
        if place is None:
            return _Nothing(self, path)
        if not place.name:
            return _ListedFolder(self, path, place.listing)
        if place.ending is None:
            return _File(self, path, place.listing, place.name)
        return _InTree(self, path, place.key, place=place)

    def at_hand(self, path: str) -> InFace | None:
        found = self._live.used_before(path)
        if found is None:
            return None
        live, face, key = found
        if not (grows := live.grows(path)):
            return self._in_open(path, key, live, face, live)
        shown = grows[0].at_hand(grows[1])
        return None if shown is None else self._in_open(path, key, live, shown.face, shown.watch)

    def _in_open(self, path: str, key: str, live: ServedSet, face: Face, watch: Watch) -> InFace:
        """Return a path in a face of an open set."""
        shown = _InTree(self, path, key, live=live)
        shown.face, shown.watch = face, watch
        return shown

    def progress(self) -> Mapping[str, Progress]:
        return self._live.progress()

    @property
    def open_sets(self) -> tuple[int, int]:
        return len(self._live), self._live.opened

    def place(self, path: str) -> tuple[str, str]:
        listing, gone, rest = self._top, "", path
        while rest:
            name, _, after = rest.partition("/")
            listing.check()
            if name not in listing.folder.folders:
                break
            gone, rest = f"{gone}/{name}" if gone else name, after
            listing = self._listing(gone, listing)
        return listing.folder.path, rest

    def check_gone(self, path: str) -> None:
        """Refuse a path at which nothing is, but once was.

        Raises:
            SourceError: it was read from.
        """
        if self._seen.knows(path):
            raise SourceError(
                f"{path}: was shown before and its files are gone; put them back, or mount or serve the folder"
                " again to see what is left"
            )

    def opening_of(self, *files: str) -> Opening:
        """Return how a file of the tree is opened, or several as one set."""
        return Opening(files, self.options, self.format_options, b"", "", self.rules.sources)

    def unshown(self, path: str) -> str | None:
        """Return the file at a path that is not shown as anything; None if there is none."""
        above, _, name = path.rpartition("/")
        place = self.find(above)
        if place is None or place.name or name not in place.listing.folder.files:
            return None
        return place.listing.folder.join(name)

    # Finding the place of a path

    def find(self, path: str) -> _Place | None:
        """Find the place of a path; None if there is nothing.

        Raises:
            SourceError: it cannot be found out, because a folder cannot be read; see also `Naming.face`.
        """
        listing, gone, rest = self._top, "", path
        while rest:
            name, _, rest = rest.partition("/")
            listing.check()
            if name in listing.folder.folders:
                gone = f"{gone}/{name}" if gone else name
                listing = self._listing(gone, listing)
                continue
            found = listing.naming.face(name)
            if found is not None:
                return _Place(listing, *found, rest)
            return _Place(listing, name) if not rest and listing.naming.plain(name) else None
        return None if path.endswith("/") else _Place(listing)

    def _listing(self, path: str, above: Listing) -> Listing:
        with self._lock:
            found = self._listings.get(path)
            if found is None or found.folder.above - {found.folder.real} != above.folder.above:
                found = self._listings[path] = Listing(
                    f"{self.root.rstrip('/')}/{path}", self.rules, above.folder.above
                )
                while (
                    len(self._listings) > 1
                    and sum(len(listing.folder.files) for listing in self._listings.values())
                    + 100 * len(self._listings)
                    > NAMES
                ):
                    self._listings.popitem(last=False)
            self._listings.move_to_end(path)
            return found

    def face(self, path: str, place: _Place) -> tuple[ServedSet, Face]:
        """Return the open set and the face at a place.

        Raises: what `ServedSets.face` raises.
        """
        assert place.ending is not None
        root = path[: len(path) - len(place.key) - 1] if place.key else path
        found = self._live.face(root, place.listing, place.name, place.ending)
        self._seen.add(root)
        return found

    # Listing folders

    def names(self, listing: Listing, after: int, until: float) -> Iterator[str]:
        """Return the names in a folder; see `Shown.children`."""
        if until < math.inf:  # a thread opens what is left, also after this listing
            listing.begin()
            self._look_ahead.add(listing)
        names = listing.listed(after, until)
        first = next(names, None)
        if after == 0 and until == math.inf:
            self._look_ahead.add(listing)
        return iter(()) if first is None else chain([first], names)
