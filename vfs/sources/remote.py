"""Has files of web servers and stores of objects, whose names are URLs: `https://host/scan.hdr`, `s3://bucket/scan.hdr`.

A set may consist of the files that the user named, and of what is beside and below them on the same server; what a file
of the set names elsewhere, here on this machine too, is refused unless the user allows it. Files of this machine that
the user named beside the URLs (a mask, a dark frame) are read as always.

Each reply says which object it is of (its ETag; without one, its time of writing and size). Every read compares this
with what opening saw.
"""

from __future__ import annotations

import io
import threading
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, BinaryIO

from vfs.errors import MissingSourceError, OutsideError, SourceChangedError, SourceError, TruncatedSourceError
from vfs.model.file_state import FileState
from vfs.model.sources import FolderLook, FolderSources, Inside, looked_at
from vfs.sources.boundary import Boundary, reads_outside
from vfs.sources.disk_cache import DiskCache
from vfs.sources.listings import listed
from vfs.sources.local import LocalSources
from vfs.sources.names import is_absolute, is_url
from vfs.sources.source_stream import SourceStream
from vfs.sources.threads import in_parallel
from vfs.sources.transfers import Got, Limits, Transfers, WantedBytes, Whole
from vfs.sources.urls import Queries, plain
from vfs.sources.urls import queries as given_queries

FIRST_BLOCK, LAST_BLOCK = 1 << 16, 1 << 20
"""Bytes that are read at once of a file while a set is opened: first, and at most. They double with each request."""
HEAD = 4096
"""Bytes that are read of each of many files, as much as formats look at to begin with."""
KEPT = 64 << 20
"""Bytes of these that are kept at most."""
CUT = 8 << 20
"""Bytes of one request at most."""


class RemoteSources(FolderSources):
    """Files of servers and stores, and beside them those of this machine that the user named.

    Args:
        folders: URLs of folders, with a slash at the end, below which the set may lie.
        anywhere: it may lie anywhere else, too.
        local: the files of this machine that it may use.
        limits: how long, and how often, something is asked for.
        config: more settings for obstore's stores. They are not pickled: other processes take theirs from their
            environment.
        cache: keeps what is read on this machine.
        queries: what is sent behind the paths of URLs; None: what users gave with those below the folders.

    Attributes:
        transfers: asks the stores; its `counts` say how much was asked for.
    """

    def __init__(
        self,
        folders: Sequence[str],
        *,
        anywhere: bool = False,
        local: LocalSources | None = None,
        limits: Limits | None = None,
        config: Mapping[str, Any] | None = None,
        cache: DiskCache | None = None,
        queries: Queries | None = None,
    ) -> None:
        self.folders = tuple(dict.fromkeys(folders))
        self.anywhere = anywhere
        self.local = LocalSources(Boundary(())) if local is None else local
        queries = given_queries(self.folders) if queries is None else queries
        self.transfers = Transfers(limits or Limits(), config, cache, anywhere, queries)
        self._opened: _Learned | None = None

    @classmethod
    def around(
        cls,
        named: Sequence[str],
        *,
        anywhere: bool = False,
        limits: Limits | None = None,
        config: Mapping[str, Any] | None = None,
        cache: DiskCache | None = None,
    ) -> RemoteSources:
        """Make the sources of a set that some files name, URLs and files of this machine.

        To be used as `with` uses it.
        """
        folders = [f"{name[: name.rfind('/')]}/" for name in map(plain, filter(is_url, named))]
        here = [name for name in named if not is_url(name)]
        local = LocalSources() if anywhere else LocalSources.around(here) if here else None
        made = cls(folders, anywhere=anywhere, local=local, limits=limits, config=config, cache=cache)
        made._opened = _Learned()
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        asks = self.transfers
        return _remade, (self.folders, self.anywhere, self.local, asks.limits, asks.cache, asks.queries)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemoteSources) and self.__reduce__() == other.__reduce__()

    def __hash__(self) -> int:
        return hash((self.folders, self.anywhere, self.local))

    def opening(self) -> RemoteSources:
        made = RemoteSources(
            self.folders, anywhere=self.anywhere, local=self.local.opening(), limits=self.transfers.limits
        )
        made.transfers = self.transfers
        made._opened = self._opened or _Learned()
        return made

    def __enter__(self) -> RemoteSources:
        return self

    def __exit__(self, *error: object) -> None:
        self._opened = None
        self.local.__exit__(*error)

    # the verbs

    far_away = True
    anywhere = False

    def state(self, name: str) -> FileState:
        if not is_url(name):
            return self.local.state(name)
        self._check(name)
        known = self._opened.states.get(name) if self._opened else None
        if known is None:
            if self._opened and name in self._opened.absent:
                raise MissingSourceError(f"{name}: no such file")
            known = self.transfers.state(name)
            if self._opened:
                self._opened.states[name] = known
        return known

    def again(self, name: str) -> FileState:
        return self.state(name) if is_url(name) else self.local.again(name)

    def states(self, names: Sequence[str]) -> list[FileState | SourceError]:
        """Look at many files, up to `Limits.parallel` at a time."""
        self.expect(names)
        look = partial(looked_at, self)
        return in_parallel(look, names, self.transfers.limits.parallel) if len(names) > 1 else [*map(look, names)]

    def known_states(self, names: Sequence[str]) -> list[FileState] | None:
        known = [self._opened.states.get(name) for name in names] if self._opened else [None]
        return None if None in known else [one for one in known if one is not None]

    def read(self, name: str, start: int, size: int) -> bytes:
        if not is_url(name):
            return self.local.read(name, start, size)
        self._check(name)
        if start < 0 or size < 1:
            return b""
        if self._opened is None:
            return self._read(name, start, start + size)[1]
        return self._learned(self._opened, name, start, size)

    def expect(self, names: Sequence[str], starts: Sequence[int] | None = None) -> None:
        """Read a few bytes of many files at once, for an opening that asks for them next.

        See `vfs.model.sources.Sources.expect`.
        """
        kept = self._opened
        if kept is None:
            return
        asked = dict.fromkeys(zip(names, starts or [0] * len(names), strict=True))
        missing = [one for one in asked if is_url(one[0]) and kept.found(*one, HEAD if starts is None else 1) is None]

        def ahead(one: tuple[str, int]) -> None:
            name, start = one
            with suppress(SourceError):  # whoever asks for it gets the error
                self._check(name)
                try:
                    state, data = self._read(name, start, start + HEAD)
                except MissingSourceError:
                    kept.absent.add(name)
                    raise
                with kept.lock:
                    kept.states[name] = state
                    kept.keep(name, start, data)

        if len(missing) > 1:
            in_parallel(ahead, missing, self.transfers.limits.parallel)

    def stream(self, name: str) -> BinaryIO:
        if not is_url(name):
            return self.local.stream(name)

        def read(start: int, size: int) -> bytes:
            return self.at_hand(name, start, size) or self.read(name, start, size)

        return io.BufferedReader(SourceStream(read, self.state(name).size), 1 << 16)

    def names(self, folder: str) -> Sequence[str]:
        return list(self.inside(folder, ())) if is_url(folder) else self.local.names(folder)

    def inside(self, folder: str, above: Collection[str]) -> Inside:
        if not is_url(folder):
            return self.local.inside(folder, above)
        self._check(f"{folder}/x")
        kept = self._opened
        found = kept.folders.get(folder) if kept else None
        if found is None:
            above, _, name = folder.rpartition("/")
            if kept and kept.folders.get(above, {}).get(name) is not None:
                raise SourceError(f"{folder}: expected a folder, found a file")
            found = listed(self.transfers, folder)
            if kept:
                self.know(folder, found)
        return found

    def know(self, folder: str, inside: Inside) -> None:
        """Have an opening take what `inside` returned for a folder as known."""
        if self._opened:
            self._opened.folders[folder] = inside
            self._opened.states |= {
                f"{folder}/{name}": state for name, state in inside.items() if state and state.size >= 0
            }

    def folder(self, name: str) -> FolderLook:
        if not is_url(name):
            return self.local.folder(name)
        self._check(f"{name}/x")
        return FolderLook(name)

    def look(self, name: str) -> tuple[FileState, int] | None:
        if not is_url(name):
            return self.local.look(name)
        try:
            return self.state(name), 0
        except SourceError:
            return None

    def holds_any(self, folder: str, names: Collection[str]) -> bool:
        found: Collection[str] = self.inside(folder, ())
        return any(name in found for name in names)

    def join(self, folder: str, name: str) -> str:
        if not is_url(folder):
            return name if is_url(name) and self.anywhere else self.local.join(folder, name)
        if not is_absolute(name):
            name = plain(f"{folder}/{name}")
        elif not is_url(name) and not self.anywhere:
            raise OutsideError(f"{name}: is a file of this machine, named by one in {folder}; {reads_outside()}")
        if is_url(name):
            self._check(name)
        return name

    # what backends ask

    def fetch(self, wanted: Sequence[WantedBytes]) -> list[Got]:
        """Bring ranges of bytes of files with URLs, many at a time, each to where it belongs.

        Returns: for each what the store says of the file now, and how many of the bytes it has.

        Raises: what `read` raises.
        """
        for one in wanted:
            self._check(one.name)
        return self.transfers.get_all(wanted)

    # in here

    def at_hand(self, name: str, start: int, size: int) -> bytes:
        """Return bytes of a file that are kept, fewer than are asked for if the others are not; none if none are."""
        return b"" if self._opened is None else self._opened.begun(name, start, size)

    def _check(self, name: str) -> None:
        """Refuse a URL that the set may not use.

        Raises:
            OutsideError: it leads out of the folders of the named files.
        """
        if self.anywhere or ("/../" not in name and "/./" not in name and name.startswith(self.folders)):
            return
        raise OutsideError(
            f"{name}: lies outside of {', '.join(self.folders[:3]) or 'this machine'}, the folder of the set;"
            f" {reads_outside()}"
        )

    def _read(self, name: str, start: int, stop: int) -> tuple[FileState, bytes]:
        """Read bytes of a file, fewer at its end, in requests of `CUT` bytes."""
        known = self._opened.states.get(name) if self._opened else None
        # A garbled header asks for any bytes, and what is kept has the state in its name
        if known is None and (stop - start > LAST_BLOCK or start or self.transfers.cache is not None):
            known = self.transfers.state(name)
        if known is not None:
            stop = min(stop, known.size)
            if stop <= start:
                return known, b""
        memory = bytearray(stop - start)
        put = Whole(memoryview(memory), start)
        cuts = [WantedBytes(name, at, min(stop, at + CUT), put, known) for at in range(start, stop, CUT)]
        try:
            got = self.transfers.get_all(cuts)
        except TruncatedSourceError:
            if known is not None:
                raise
            state = self.transfers.state(name)  # an empty file has no bytes that could be asked for
            if state.size > start:
                raise
            return state, b""
        for one in got:
            if not got[0].state.same(one.state) or (known is not None and not known.same(one.state)):
                raise SourceChangedError(f"{name}: was replaced while it was read; open it again")
        return got[0].state, bytes(memory[: sum(one.size for one in got)])

    def _learned(self, learned: _Learned, name: str, start: int, size: int) -> bytes:
        """Read bytes from what is kept of a file, or from a larger piece around them."""
        found = learned.found(name, start, size)
        if found is None:
            known = learned.states.get(name)
            if known is not None and start >= known.size:
                return b""
            first = start // FIRST_BLOCK * FIRST_BLOCK
            ahead = learned.ahead.get(name, FIRST_BLOCK)
            learned.ahead[name] = min(2 * ahead, LAST_BLOCK)
            learned.states[name], data = self._read(name, first, max(start + size, first + ahead))
            learned.keep(name, first, data)
            found = data[start - first : start - first + size]
        return found


def _remade(
    folders: Sequence[str],
    anywhere: bool,
    local: LocalSources,
    limits: Limits,
    cache: DiskCache | None,
    queries: Queries,
) -> RemoteSources:
    return RemoteSources(folders, anywhere=anywhere, local=local, limits=limits, cache=cache, queries=queries)


class _Learned:
    """Keeps what was learned while a set is opened.

    Attributes:
        states: URL -> the state of a file; absent: URLs of files that are not there.
        folders: URL -> names in a folder, with states where the store says them.
        ahead: URL -> bytes of the next read of a file.
        lock: is held while one of many threads keeps something.
    """

    def __init__(self) -> None:
        self.states: dict[str, FileState] = {}
        self.absent: set[str] = set()
        self.folders: dict[str, Inside] = {}
        self.ahead: dict[str, int] = {}
        self._blocks: dict[tuple[str, int], bytes] = {}
        self._starts: dict[str, list[int]] = {}
        self._held = 0
        self.lock = threading.Lock()

    def found(self, name: str, start: int, size: int) -> bytes | None:
        """Return bytes of a file, fewer at its end; None if they are not kept."""
        starts = self._starts.get(name, ())
        for first in starts[max(0, bisect_right(starts, start) - 3) : bisect_right(starts, start)]:
            block, known = self._blocks[name, first], self.states.get(name)
            end = first + len(block)
            if start + size <= end or (known is not None and known.size == end):
                return block[start - first : start - first + size]
        return None

    def begun(self, name: str, start: int, size: int) -> bytes:
        """Return bytes of a file as far as one block has them."""
        starts = self._starts.get(name, ())
        for first in starts[max(0, bisect_right(starts, start) - 3) : bisect_right(starts, start)]:
            block = self._blocks[name, first]
            if start < first + len(block):
                return block[start - first : start - first + size]
        return b""

    def keep(self, name: str, first: int, block: bytes) -> None:
        """Keep bytes of a file, and forget the oldest ones where they are too many."""
        old = self._blocks.pop((name, first), None)
        starts = self._starts.setdefault(name, [])
        if old is None:
            starts.insert(bisect_right(starts, first), first)
        self._blocks[name, first] = block
        self._held += len(block) - len(old or b"")
        while self._held > KEPT and len(self._blocks) > 1:
            (other, at), gone = next(iter(self._blocks.items()))
            del self._blocks[other, at]
            self._starts[other].remove(at)
            self._held -= len(gone)
