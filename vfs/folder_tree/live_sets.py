"""Keeps data sets of a folder tree open that are in use, and opens them again when their files changed."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain

from vfs.errors import SourceError
from vfs.folder_tree.listing import Listing
from vfs.folder_tree.records import MemberSet, Record, SingleFlight
from vfs.hierarchy.faces import Face

OPEN = 256  # most data sets that are kept open
WEIGHT = 64 << 20  # most bytes of memory that open data sets may take, about
LIGHT = 100_000  # bytes of memory that an open data set takes besides its tables


class LiveSet:
    """A data set that is open. It implements `vfs.hierarchy.contents.Lifetime`.

    Attributes:
        record: its record in the folder when it was last checked.
        trust: time until which its files are not checked again.
        named: the files by which it was opened.
        paths: paths of its faces that were asked for.
        weight: bytes of memory that it takes, about.
        moves: `Files.moves` of its files: not 0 where a read found one touched, so that it must be opened again.
        again: time (monotonic seconds) from which it must be opened again, because then a frame counts of a set that is
            still being written.
        dropped, told: see `vfs.hierarchy.contents.Lifetime`.
    """

    def __init__(self, listing: Listing, name: str, opened: MemberSet, record: Record) -> None:
        self.listing = listing
        self.name = name
        self.tree = tree = opened.tree
        self.named = opened.paths
        self.record = record
        self.faces = tree.faces()
        self.moves = [files.moves for files in tree.file_sets]
        self.weight = LIGHT + tree.weight
        self.trust = replace(record.trust)
        self.trust.extend(time.monotonic())
        self.paths: set[str] = set()
        self.again = opened.again
        self.dropped = False
        self.told: list[Callable[[], None]] = []

    @property
    def unsettled(self) -> bool:
        """True if more of its frames count by now than when it was opened."""
        return time.monotonic() >= self.again

    @property
    def stamp(self) -> int:
        return self.record.stamp

    @property
    def until(self) -> float:
        return self.trust.until

    @cached_property
    def files(self) -> Sequence[str]:
        """All files of the set, and those that it was opened by."""
        return tuple(dict.fromkeys(chain([self.listing.folder.join(self.name)], self.named, self.tree.files)))

    def look_again(self) -> None:
        """Have all its files checked before it is used again."""
        self.trust.end()
        self.tell()

    def tell(self) -> None:
        for call in self.told.copy():
            call()


class LiveSets:
    """The data sets that are open. Safe for many threads."""

    def __init__(self) -> None:
        self._live: OrderedDict[str, LiveSet] = OrderedDict()
        self._recently_used: dict[str, tuple[LiveSet, Face]] = {}
        self._lock = threading.RLock()
        self._single_flight = SingleFlight()

    def used_before(self, path: str) -> tuple[LiveSet, Face, str] | None:
        """Return the open set and the face of a path, and the key in the face, without checking any file.

        Return None if they are not known, or were checked too long ago.
        """
        at = len(path)
        while at > 0:
            found = self._recently_used.get(path[:at])
            if found is not None:
                live = found[0]
                if live.dropped or any(live.moves) or not live.trust.holds():
                    return None
                return live, found[1], path[at + 1 :]
            at = path.rfind("/", 0, at)
        return None

    def face(self, path: str, listing: Listing, name: str, ending: str) -> tuple[LiveSet, Face]:
        """Return the open set that a file names, and its face with an ending.

        Args:
            path: of the face, which is remembered.

        Raises:
            SourceError: the set cannot be opened any more, or changes all the time. That is an error,
                because the face exists.
        """
        for _ in range(3):
            live = self._opened(listing, name)
            face = live.faces.get(ending) if live else None
            if live is None or face is None:
                break
            if listing.records.current(name).stamp == live.record.stamp:
                break
            live.look_again()
        else:
            face = None
        if live is None or face is None:
            raise SourceError(f"{listing.folder.join(name)}: changed while it was opened")
        with self._lock:
            if not live.dropped:
                live.paths.add(path)
                self._recently_used[path] = live, face
        return live, face

    def _opened(self, listing: Listing, name: str) -> LiveSet | None:
        """Return the set that a file names; None if the file is no data set any more.

        The set is opened if it is not open, and opened again if it changed.

        Raises:
            SourceError: see `FolderRecords.current`.
        """
        key = listing.folder.join(name)
        live = self._kept(key, listing)
        if live is None or any(live.moves) or not live.trust.holds():
            self._single_flight.once(key, lambda: self._look(key, listing, name))
            live = self._kept(key, listing)
        return live

    def _kept(self, key: str, listing: Listing) -> LiveSet | None:
        with self._lock:
            live = self._live.get(key)
            if live is None or live.listing is not listing:
                return None
            self._live.move_to_end(key)
            return live

    def _look(self, key: str, listing: Listing, name: str) -> None:
        """Open a set if it is not open or if it changed."""
        live = self._kept(key, listing)
        began = time.monotonic()
        if live is not None:
            if live.trust.holds() and not any(live.moves):
                return
            if (
                live.record is listing.records.known.get(name)
                and live.record.first_seen == listing.folder.changes
                and listing.folder.state(name) == live.record.state
                and not live.unsettled
                and listing.folder.unchanged(live.tree)
            ):
                live.trust.renew(began)
                return
        opened = listing.records.open(name)
        record = listing.records.known.get(name)
        if (
            live is not None
            and opened is not None
            and record is not None
            and record.stamp == live.record.stamp
            and not live.unsettled
            and listing.folder.unchanged(live.tree)
        ):
            # Nothing changed: keep the open set and its decoded pieces
            live.record, live.trust = record, replace(record.trust)
            return
        with self._lock:
            self._drop(key)
            if opened is None or record is None or not record.faces:
                return
        made = LiveSet(listing, name, opened, record)
        with self._lock:
            self._live[key] = made
            while len(self._live) > 1 and (
                len(self._live) > OPEN or sum(each.weight for each in self._live.values()) > WEIGHT
            ):
                self._drop(next(iter(self._live)))

    def _drop(self, key: str) -> None:
        live = self._live.pop(key, None)
        if live is not None:
            live.dropped = True
            for path in live.paths:
                self._recently_used.pop(path, None)
            live.tell()
