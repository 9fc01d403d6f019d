"""Keeps data sets of a folder tree open that are in use, and opens them again when their files changed."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain, count

from vfs.contents.live_folder import LiveFolder
from vfs.errors import SourceError
from vfs.faces.data_set import Hierarchy
from vfs.faces.face import Face
from vfs.folder_tree.listing import Listing
from vfs.folder_tree.records import MemberSet, Record, SingleFlight
from vfs.live.growing import Progress

OPEN = 1 << 14  # most data sets that are kept open
WEIGHT = max(64 << 20, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 32)
"""The default of the bytes of memory that open data sets may take, about."""
LIGHT = 100_000  # bytes of memory that an open data set takes besides its tables
ACQUISITIONS = 1 << 10  # numbers for the acquisitions that follow on each other in an open set


class ServedSet:
    """A data set that is open. It is a `vfs.contents.shown.Watch` of its files, and its own `Lifetime`.

    Attributes:
        record: its record in the folder when it was last checked.
        trust: time until which its files are not checked again.
        named: the files by which it was opened.
        paths: paths of its faces that were asked for.
        weight: bytes of memory that it takes, about.
        moves: `Files.moves` of its files: not 0 where a read found one touched, so that it must be opened again.
        growing: shows it as it grows, if it was still being written when it was opened; then the set stays open while
            its files are of the same acquisition.
        stem: path of its faces without their endings; "" if none was asked for.
        dropped, told: see `vfs.contents.shown.Lifetime`.
    """

    def __init__(
        self,
        listing: Listing,
        name: str,
        opened: MemberSet,
        record: Record,
        number: int,
        opened_with: bytes | None,
    ) -> None:
        self._opened_with = opened_with
        self.listing = listing
        self.name = name
        self._tree = tree = opened.tree
        self.growing = opened.growing and opened.growing(number * ACQUISITIONS)
        self.stem = ""
        self.named = opened.paths
        self.record = record
        self.faces = tree.faces()
        self.moves = [files.moves for files in tree.file_sets] if self.growing is None else []
        self.weight = LIGHT + tree.weight
        self.trust = replace(record.trust)
        self.trust.extend(time.monotonic())
        self.paths: set[str] = set()
        self.dropped = False
        self.told: list[Callable[[], None]] = []

    @property
    def tree(self) -> Hierarchy:
        """The data set, as it was when somebody looked last."""
        return self._tree if self.growing is None else self.growing.current[0].tree

    @property
    def same(self) -> bool:
        """Look at its files. True if it need not be opened again."""
        if self.growing is None:
            return self.listing.folder.unchanged(self._tree)
        self.growing.progress()  # a look
        return not self.growing.outdated and (not self.growing.ended or self.listing.folder.unchanged(self.tree))

    def grows(self, path: str) -> tuple[LiveFolder, str] | None:
        """Return what shows a path of it as it grows, and the path there; None if it does not grow."""
        if self.growing is None:
            return None
        return self.growing, next(self.growing.at("").sets()).name + path.removeprefix(self.stem)

    @property
    def lifetime(self) -> ServedSet:
        return self

    @property
    def stamp(self) -> int:
        return self.record.stamp

    @property
    def until(self) -> float:
        return self.trust.until

    @property
    def time(self) -> int:
        return self.record.time

    def check(self) -> None:
        """Check nothing: the files are looked at when the set is asked for."""

    def stamp_of(self, face: Face, key: str) -> int:
        return self.record.stamp

    def version_of(self, face: Face, key: str) -> bytes:
        return digest_of(self._opened_with, self.record.stamp)

    @property
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

    def drop(self) -> None:
        """Note that it is not served any longer."""
        self.dropped = True
        if self.growing is not None:
            self.growing.drop()
        self.tell()


def digest_of(opened_with: bytes | None, stamp: int) -> bytes:
    """Return the version of what has a stamp: see `vfs.contents.shown.Shown.version`.

    Args:
        opened_with: see `vfs.folder_tree.folder_tree.FolderTree`.
    """
    return b"" if opened_with is None else opened_with + stamp.to_bytes(8)


class ServedSets:
    """The data sets that are open. Safe for many threads.

    Args:
        opened_with: see `vfs.folder_tree.folder_tree.FolderTree`.
        memory: bytes that open sets may take, about; None: `WEIGHT`.

    Attributes:
        opened: how often a set was opened so far.
    """

    def __init__(self, opened_with: bytes | None, memory: int | None = None) -> None:
        self._opened_with = opened_with
        self._memory = memory
        self.opened = 0
        self._live: OrderedDict[str, ServedSet] = OrderedDict()
        self._recently_used: dict[str, tuple[ServedSet, Face]] = {}
        self._held = 0  # bytes that they take, about
        self._lock = threading.RLock()
        self._single_flight = SingleFlight()
        self._numbers = count(1)

    def __len__(self) -> int:
        """Number of sets that are open."""
        return len(self._live)

    def progress(self) -> dict[str, Progress]:
        """Return how far the open sets that are still being written are, by the paths of their main faces."""
        with self._lock:
            growing = [live for live in self._live.values() if live.growing is not None and live.stem]
        found = {}
        for live in growing:
            assert live.growing is not None
            for progress in live.growing.progress().values():
                found[live.stem + live.record.faces[0][0]] = progress
        return found

    def used_before(self, path: str) -> tuple[ServedSet, Face, str] | None:
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

    def face(self, path: str, listing: Listing, name: str, ending: str) -> tuple[ServedSet, Face]:
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
            if live.growing is not None or listing.records.current(name).stamp == live.record.stamp:
                break
            live.look_again()
        else:
            face = None
        if live is None or face is None:
            raise SourceError(f"{listing.folder.join(name)}: changed while it was opened")
        with self._lock:
            if not live.dropped:
                live.paths.add(path)
                live.stem = path.removesuffix(ending)
                self._recently_used[path] = live, face
        return live, face

    def _opened(self, listing: Listing, name: str) -> ServedSet | None:
        """Return the set that a file names; None if the file is no data set any more.

        The set is opened if it is not open, and opened again if it changed.

        Raises:
            SourceError: see `FolderRecords.current`.
        """
        key = listing.folder.join(name)
        live = self._open_set(key, listing)
        if live is None or any(live.moves) or not live.trust.holds():
            self._single_flight.once(key, lambda: self._look(key, listing, name))
            live = self._open_set(key, listing)
        return live

    def _open_set(self, key: str, listing: Listing) -> ServedSet | None:
        with self._lock:
            live = self._live.get(key)
            if live is None or live.listing is not listing:
                return None
            self._live.move_to_end(key)
            return live

    def _look(self, key: str, listing: Listing, name: str) -> None:
        """Open a set if it is not open or if it changed."""
        live = self._open_set(key, listing)
        began = time.monotonic()
        if live is not None:
            if live.trust.holds() and not any(live.moves):
                return
            if live.growing is not None and live.same:
                live.trust.renew(began)
                return
            if (
                live.record is listing.records.known.get(name)
                and live.record.first_seen == listing.folder.changes
                and listing.folder.state(name) == live.record.state
                and live.same
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
            and live.same
        ):
            # Nothing changed: keep the open set and its decoded pieces
            live.record, live.trust = record, replace(record.trust)
            return
        with self._lock:
            self._drop(key)
            if opened is None or record is None or not record.faces:
                return
        made = ServedSet(listing, name, opened, record, next(self._numbers), self._opened_with)
        most = WEIGHT if self._memory is None else self._memory
        with self._lock:
            self._live[key] = made
            self._held += made.weight
            self.opened += 1
            while len(self._live) > 1 and (len(self._live) > OPEN or self._held > most):
                self._drop(next(iter(self._live)))

    def _drop(self, key: str) -> None:
        live = self._live.pop(key, None)
        if live is not None:
            self._held -= live.weight
            for path in live.paths:
                self._recently_used.pop(path, None)
            live.drop()
