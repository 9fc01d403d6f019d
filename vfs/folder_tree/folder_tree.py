"""Finds the files and data sets behind the paths of a folder tree. `vfs.folder_tree.served_sets` keeps sets open."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from vfs.backends import make_backend
from vfs.contents.contents import PathAtHand, ResolvedPath, ShownEntry, ShownSet
from vfs.engine.cache import ChunkCache
from vfs.errors import SourceError
from vfs.faces.absence import check_no_chunk
from vfs.faces.data_set import FILE_ENDING
from vfs.faces.face import GROUP, Face, Node
from vfs.folder_tree.listing import Listing
from vfs.folder_tree.look_ahead import LookAhead
from vfs.folder_tree.records import MemberSet, Rules
from vfs.folder_tree.seen import Seen
from vfs.folder_tree.served_sets import ServedSet, ServedSets
from vfs.formats import Format, formats
from vfs.live.growing import Progress
from vfs.model.files import Files
from vfs.model.open_options import OpenOptions
from vfs.model.sources import FolderSources, Sources
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


class FolderTree:
    """Shows a tree of folders to a mount (`vfs.contents.contents.Contents`). Safe for many threads.

    Args:
        root: name of the folder, absolute.
        sources: where it is.
        open: function that opens a set by one of its files, in sources.
        kinds: formats of the data sets that are shown; None for all formats.
        cache: cache for decoded pieces, which `open` gives to the arrays.
        zarr_format: 3 or 2 leaves out the face of the other format; None keeps both.
        show_files: show files that are no data set as they are, read-only.
        opened_with: digest of the options with which `open` opens sets; None: with `accept_changes`.
        options, format_options: the options with which `open` opens sets.

    Attributes:
        faces: empty, because nothing is known from the start.
        entry_timeout, attr_timeout, warnings: see `vfs.contents.contents.Contents`.

    Raises:
        OptionError: the root is not a folder.
        SourceError: it is one on a server, which cannot be listed.
    """

    def __init__(
        self,
        root: str,
        sources: FolderSources,
        open: Callable[[str, Sources], MemberSet],
        *,
        kinds: Sequence[Format] | None = None,
        cache: ChunkCache | None = None,
        zarr_format: int | None = None,
        show_files: bool = False,
        opened_with: bytes | None = b"",
        options: OpenOptions | None = None,
        format_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._options, self._format_options = options or OpenOptions(), format_options or {}
        self._opened_with = opened_with
        self.root = root
        self.faces: Mapping[str, Face] = {}
        self.entry_timeout, self.attr_timeout = KEEP, 0.0  # a program that opens a changed file must get its new size
        self.cache = ChunkCache() if cache is None else cache
        self.rules = Rules(
            sources,
            open,
            list(formats().values()) if kinds is None else kinds,
            zarr_format,
            show_files,
        )
        self._top = Listing(self.root, self.rules)
        self._listings: OrderedDict[str, Listing] = OrderedDict()
        self._live = ServedSets()
        self.warnings: Mapping[str, Sequence[str]] = {}
        self._seen = Seen()
        self._lock = threading.Lock()  # of the listings
        self._look_ahead = LookAhead()

    # Methods of a face

    def node(self, path: str) -> Node | None:
        found = self._live.used_before(path)
        if found is not None and (grows := found[0].grows(path)):
            return grows[0].node(grows[1])
        if found is not None and found[2]:
            return found[1].node(found[2])
        place = self._place(path)
        if place is None:
            if self._seen.knows(path):
                raise SourceError(
                    f"{path}: was shown before and its files are gone; put them back, or mount or serve the folder"
                    " anew to see what is left"
                )
            check_no_chunk(path)
            return None
        if not place.name:
            return GROUP
        if place.ending is None:
            state = place.listing.folder.state(place.name)
            return Node(False, state[0].size, json=place.name.endswith(".json")) if state else None
        if not place.key:
            node = dict(place.listing.records.current(place.name).faces).get(place.ending)
            if node is None:  # it was there a moment ago
                raise SourceError(f"{place.listing.folder.join(place.name)}: changed while it was looked at")
            return node
        live, face = self._face(path, place)
        if grows := live.grows(path):
            return grows[0].node(grows[1])
        return face.node(place.key)

    def children(self, path: str, after: int = 0) -> Iterator[str]:
        """Return the names in a folder, without the first `after`.

        A name that vanished is replaced by "/", which no file can have as its name.
        """
        place = self._place(path)
        if place is None:
            return iter(())
        if not place.name:
            return self._names(place.listing, after)
        live, face = self._face(path, place)
        if grows := live.grows(path):
            return grows[0].children(grows[1], after)
        return face.children(place.key, after)

    def sets(self, path: str) -> Iterator[ShownEntry]:
        place = self._place(path)
        if place is None or place.name:
            return
        listing = place.listing
        for name in self._names(listing, 0):
            below = f"{path}/{name}" if path else name
            if name in listing.folder.folders:
                yield ShownEntry(name, below, "folder")
            elif (base := listing.names.set_of(name)) is not None:
                record = listing.records.known.get(listing.names.taken.get(name, ""))
                about = (record.format, record.nbytes, record.time) if record else ()
                yield ShownEntry(base, below, "set", *about)
        for name, record in listing.refused():
            below = f"{path}/{name}" if path else name
            size, time = record.state[0][:2] if record.state else (0, 0)
            reason = record.error or _UNKNOWN
            yield ShownEntry(name, below, "file", "", size, time, reason.removeprefix(f"{listing.folder.join(name)}: "))

    def progress(self) -> Mapping[str, Progress]:
        return self._live.progress()

    def set_of(self, path: str) -> ShownSet | None:
        place = self._place(path)
        if place is None or place.ending is None:
            return None
        stem = path.removesuffix(f"/{place.key}" if place.key else "").removesuffix(place.ending)
        has_file = FILE_ENDING in dict(place.listing.records.current(place.name).faces)
        return ShownSet(stem.rpartition("/")[2], stem + FILE_ENDING if has_file else None)

    def get(self, path: str, start: int = 0, stop: int | None = None) -> memoryview | None:
        found = self._live.used_before(path)
        if found is None:
            place = self._place(path)
            if place is None or not place.name:
                return None
            if place.ending is None:
                return self._bytes(place.listing.folder.join(place.name), start, stop)
            found = (*self._face(path, place), place.key)
        live, shown, key = found
        try:
            if grows := live.grows(path):
                return grows[0].get(grows[1], start, stop)
            return shown.get(key, start, stop)
        except SourceError:
            live.look_again()
            raise

    def time(self, path: str) -> int:
        found = self._live.used_before(path)
        if found is not None:
            grows = found[0].grows(path)
            return grows[0].time(grows[1]) if grows else found[0].record.time
        place = self._place(path)
        if place is not None and place.ending is not None:
            return place.listing.records.current(place.name).time
        folder = (place.listing if place else self._top).folder
        if place is None or not place.name:
            return folder.time()
        state = folder.state(place.name)
        return state[0].written if state else 0

    def stamp(self, path: str) -> int:
        live, stamp = self._stamped(path)
        grows = live and live.grows(path)
        return grows[0].stamp(grows[1]) if grows else stamp

    def version(self, path: str) -> bytes:
        live, stamp = self._stamped(path)
        grows = live and live.grows(path)
        return grows[0].version(grows[1]) if grows else self._version(stamp)

    def _stamped(self, path: str) -> tuple[ServedSet | None, int]:
        """Return the open set of a path, and its stamp; (None, stamp of the file, or 0) for what is in no set."""
        found = self._live.used_before(path)
        if found is not None:
            return found[0], found[0].record.stamp
        place = self._place(path)
        if place is None or not place.name:
            return None, 0
        if place.ending is None:
            state = place.listing.folder.state(place.name)
            return None, hash(state) & (1 << 62) - 1 | 1 if state else 0
        live, _ = self._face(path, place)
        return live, live.record.stamp

    def _version(self, stamp: int) -> bytes:
        return b"" if self._opened_with is None else self._opened_with + stamp.to_bytes(8)

    def at_hand(self, path: str) -> PathAtHand | None:
        found = self._live.used_before(path)
        if found is None:
            return None
        live, face, key = found
        if grows := live.grows(path):
            return grows[0].at_hand(grows[1])
        return PathAtHand(face, key, self._version(live.record.stamp), live.until, live)

    def resolve(self, path: str, opening: bool = False) -> ResolvedPath | None:
        found = self._live.used_before(path)
        if found is None:
            place = self._place(path) if opening else None
            if place is None or place.ending is None:
                return None
            found = (*self._face(path, place), place.key)
        live, face, key = found
        if grows := live.grows(path):
            return grows[0].resolve(grows[1], opening)
        return ResolvedPath(face, key, live)

    def opening(self, path: str) -> Opening | None:
        place = self._place(path) or self._unshown(path)
        if place is None or not place.name:
            return None
        file = place.listing.folder.join(place.name)
        return Opening((file,), self._options, self._format_options, b"", "", self.rules.sources)

    def _unshown(self, path: str) -> _Place | None:
        """Find the place of a file that is not shown as anything."""
        above, _, name = path.rpartition("/")
        place = self._place(above)
        if place is None or place.name or name not in place.listing.folder.files:
            return None
        return _Place(place.listing, name)

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

    def sources(self, path: str, all_files: bool) -> Sequence[str]:
        place = self._place(path)
        if place is None or not place.name:
            return ()
        own = place.listing.folder.join(place.name)
        if place.ending is None:
            return (own,)
        if all_files:
            return self._face(path, place)[0].files
        record = place.listing.records.current(place.name)
        return (
            own,
            *(place.listing.folder.join(name) for name in record.members),
            *(name for name, _ in record.watched),
        )

    # Finding the place of a path

    def _place(self, path: str) -> _Place | None:
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

    def _face(self, path: str, place: _Place) -> tuple[ServedSet, Face]:
        """Return the open set and the face at a place.

        Raises: what `ServedSets.face` raises.
        """
        assert place.ending is not None
        root = path[: len(path) - len(place.key) - 1] if place.key else path
        found = self._live.face(root, place.listing, place.name, place.ending)
        self._seen.add(root)
        return found

    def _bytes(self, path: str, start: int, stop: int | None) -> memoryview:
        """Return bytes of a file that is shown as it is.

        Raises:
            SourceError: they cannot be read.
        """
        files = Files.stat(self.rules.sources, [path])
        size = int(files.sizes[0])
        stop = size if stop is None else min(stop, size)
        start = min(start, stop)
        return make_backend("buffered", files).span(0, start, stop, np.empty(stop - start, np.uint8)).data

    # Listing folders

    def _names(self, listing: Listing, after: int) -> Iterator[str]:
        names = listing.listed(after)
        first = next(names, None)
        if after == 0:
            self._look_ahead.add(listing)
        return iter(()) if first is None else chain([first], names)
