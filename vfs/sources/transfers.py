"""Brings bytes from web servers (`vfs.sources.web`) and stores of objects (obstore): many requests at a time, none of
them for ever.

A request that fails because a server is busy, or because a connection breaks, is made again within `Limits`. What it
brought before goes on from there, as long as the object is still the same one. What fails in the end is one clear error
with the URL. No URL, error or log that is made here holds credentials.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakSet

from vfs.errors import (
    DependencyError,
    MissingSourceError,
    OptionError,
    SourceChangedError,
    SourceError,
    TruncatedSourceError,
)
from vfs.model.file_state import FileState
from vfs.sources.counts import Counts, in_all
from vfs.sources.disk_cache import DiskCache, Put, into
from vfs.sources.library import leave, obstore
from vfs.sources.reasons import is_panic, reason
from vfs.sources.stores import endpoints, state_of, store_of
from vfs.sources.threads import in_parallel
from vfs.sources.urls import WEB, InStore, Queries, place
from vfs.sources.web import Web
from vfs.sources.web_connection import AskError

PROGRESS = 1 << 18
"""Bytes: a request that broke, but brought so many, is none that failed, so that slow lines come to an end, too."""
UNLISTED = "the server does not list what is in it, or there is nothing; name every file of the set"
ANSWERS = 32
"""Replies of a web server to one request at most: each may have fewer bytes than are left, and some send a half."""
PART = 1 << 17
"""Bytes of a reply that are handed on at once."""


@dataclass(frozen=True)
class Limits:
    """Says how long, and how often, something is asked for.

    Attributes:
        parallel: requests under way at most, of all that are waited for together.
        wait: seconds for one request, with its body, at most.
        connect: seconds until a connection stands, at most.
        tries: requests for the same bytes that may fail.
        seconds: since the first of them, after which there is no other one.
        pause: seconds before the second request; before each further one twice as long.
    """

    parallel: int = 32
    wait: float = 30.0
    connect: float = 10.0
    tries: int = 5
    seconds: float = 60.0
    pause: float = 0.1


class Room:
    """Takes bytes of a file into memory, which may also be filled by who has them."""

    def __call__(self, at: int, part: bytes | memoryview) -> None:
        raise NotImplementedError

    def room(self, at: int, stop: int) -> memoryview | None:
        """Return the memory where the bytes from `at` on belong, as many of those up to `stop` as lie together; None
        if these are too few, or belong to several places: then they are to be handed over.
        """
        raise NotImplementedError


class Whole(Room):
    """Takes all bytes of a file from `start` on.

    Args:
        memory: uint8, as long as the bytes that are asked for.
    """

    def __init__(self, memory: memoryview, start: int) -> None:
        self._memory, self._start = memory, start

    def __call__(self, at: int, part: bytes | memoryview) -> None:
        self.room(at, at + len(part))[:] = part

    def room(self, at: int, stop: int) -> memoryview:
        return self._memory[at - self._start : stop - self._start]


class WantedBytes(NamedTuple):
    """Bytes that are asked for.

    Attributes:
        name: URL of the file; start, stop: which of its bytes; it may end before.
        put: takes (a byte of the file, what it and the next ones are). It may be called from another thread, and again
            for the same bytes. A `Room` is filled without a copy.
        state: what the file is known to be; None: nothing is known.
    """

    name: str
    start: int
    stop: int
    put: Put
    state: FileState | None = None


class Got(NamedTuple):
    """What a store said of a file, and how many bytes of those that were asked for it has."""

    state: FileState
    size: int


class Transfers:
    """Asks servers and stores.

    Args:
        limits: how long and how often.
        config: more settings for obstore's stores, such as `client_options` or `skip_signature`. They may hold
            credentials, and are not pickled. Web servers get the `default_headers` of its `client_options`.
        anywhere: a web server may lead to others.
        cache: has blocks of files, and keeps those that come; None: none are kept.
        queries: what web servers are sent behind the paths of URLs.
    """

    def __init__(
        self,
        limits: Limits,
        config: Mapping[str, Any] | None = None,
        cache: DiskCache | None = None,
        anywhere: bool = False,
        queries: Queries | None = None,
    ) -> None:
        self.queries = queries or Queries({})
        self.limits = limits
        self.anywhere = anywhere
        self.cache = cache
        self.config = dict(config or {})
        self.counts = Counts(of_all=in_all)
        self._place = repr(sorted(endpoints(self.config))) if cache else ""
        self._stores: dict[str, Any] = {}
        self._web = self._new_web()
        _living.add(self)

    def _new_web(self) -> Web:
        headers = self.config.get("client_options", {}).get("default_headers", {})
        return Web(self.limits.wait, self.limits.connect, headers, self.anywhere, self.queries)

    def forget(self) -> None:
        """Leave the clients of the process that was forked alone, and make new ones when they are needed."""
        leave(self._stores)
        self._stores = {}
        self._web = self._new_web()
        self.counts.afresh()

    def store(self, where: InStore) -> Any:
        """Return obstore's client for a server or bucket.

        Raises:
            DependencyError: obstore is not installed.
            SourceError: there is no such store, as far as obstore can tell.
        """
        made = self._stores.get(where.root)
        if made is None:
            made = self._stores[where.root] = store_of(where, self.limits.wait, self.limits.connect, self.config)
        return made

    def state(self, name: str) -> FileState:
        """Look at a file.

        Raises:
            MissingSourceError: it does not exist.
            SourceError: it cannot be looked at.
        """

        def ask() -> FileState:
            self.counts.add(requests=1)
            if place(name).scheme in WEB:
                return self._web.state(name)
            store = self.store(place(name))
            return state_of(obstore().head(store, place(name).path))

        found: FileState = self.again(_of_file(name), f"{name}: cannot be looked at", ask)
        return found

    def page(self, folder: str, most: int) -> tuple[bytes, str]:
        """Bring the page by which a web server lists a folder, as many bytes of it as are wanted.

        Returns: the page, and the URL that it came from.

        Raises:
            SourceError: there is none.
        """

        def ask() -> tuple[bytes, str]:
            self.counts.add(requests=1)
            try:
                page, url = self._web.page(f"{folder}/", most)
            except FileNotFoundError:
                raise SourceError(f"{folder}: {UNLISTED} (status 404)") from None
            self.counts.add(nbytes=len(page))
            return page, url

        found: tuple[bytes, str] = self.again(folder, f"{folder}: cannot be listed", ask)
        return found

    def get(self, wanted: WantedBytes, until: Until | None = None) -> Got:
        """Bring bytes of a file, in this thread, those that the cache has from there.

        Args, Raises: see `ask_for`.
        """
        name, start, stop, put, state = wanted
        until = until or Until()
        blocks = self.cache.blocks(name, state, self._place) if self.cache is not None and state is not None else None
        if blocks is None or state is None:
            return self.ask_for(wanted, until)

        def give(at: int, part: bytes | memoryview) -> None:
            until.put(name, put, at, part)

        now, missing = state, blocks.give(start, stop, give)
        end = min(stop, state.size)
        self.counts.add(kept=max(0, end - start) - sum(min(last, end) - max(first, start) for first, last in missing))
        for first, last in missing:
            memory, some = bytearray(last - first), into(put, start, stop)
            whole = Whole(memoryview(memory), first)

            def take(at: int, part: bytes | memoryview, whole: Put = whole, some: Put = some) -> None:
                whole(at, part)
                some(at, part)

            now, size = self.ask_for(WantedBytes(name, first, last, take), until)
            if not state.same(now) or size < last - first:
                break
            blocks.keep(first, memory)
        return Got(now, max(0, min(stop, now.size) - start))

    def ask_for(self, wanted: WantedBytes, until: Until) -> Got:
        """Ask the store for bytes of a file, in this thread.

        Args:
            until: says when nobody waits for them any more.

        Raises:
            MissingSourceError: it does not exist.
            SourceChangedError: it was replaced while it was read.
            SourceError: it cannot be read.
        """
        name, start, stop = wanted[:3]
        reading = _Reading(wanted, until, start)
        bring = self._from_web if place(name).scheme in WEB else self._from_store

        def ask() -> Got:
            self.counts.add(requests=1)
            began = reading.at
            try:
                return bring(reading)
            finally:
                came = reading.at - began
                self.counts.add(nbytes=max(0, came))
                if came >= PROGRESS:
                    failed.clear()
                elif came > 0:
                    reading.at = began

        failed: list[float] = []
        what = f"{name}: bytes {start:,} to {stop:,} cannot be read"
        got: Got = self.again(_of_file(name), what, ask, failed, until)
        return got

    def _from_web(self, reading: _Reading) -> Got:
        """Ask a web server for what is left of some bytes, and read it to where it belongs."""
        name, _, stop, put, _ = reading.wanted
        holding, aside = _Holding(name, reading.until), memoryview(b"")
        for _ in range(ANSWERS):
            with self._web.get(name, reading.at, stop) as reply:
                end = reading.compared(reply.now)
                if reply.more:
                    raise reading.wrong("the server sends more bytes than it was asked for")
                while reading.at < reply.stop:
                    room = put.room(reading.at, reply.stop) if isinstance(put, Room) else None
                    if room is None:
                        aside = aside or memoryview(bytearray(min(PART, end - reading.at)))
                        n = reply.read_into(aside[: reply.stop - reading.at], holding)
                        reading.until.put(name, put, reading.at, aside[:n])
                    else:
                        n = reply.read_into(room, holding)
                    if not n:
                        break
                    reading.at += n
                reading.check_end(reply.stop)
            if reading.at == end:
                return Got(reply.now, end - reading.wanted.start)
            self.counts.add(requests=1)
        raise reading.wrong("the server answers with few of the bytes that it was asked for, again and again")

    def _from_store(self, reading: _Reading) -> Got:
        """Ask a store, through obstore."""
        name, _, stop, put, _ = reading.wanted
        where = place(name)
        store = self.store(where)
        reply = obstore().get(store, where.path, options={"range": (reading.at, stop)})
        end = reading.compared(state_of(reply.meta))
        for part in reply.stream(min_chunk_size=PART):
            if reading.at + len(part) > end:
                raise reading.wrong("the server sends more bytes than it was asked for")
            reading.until.put(name, put, reading.at, part)
            reading.at += len(part)
        reading.check_end(end)
        return Got(state_of(reply.meta), end - reading.wanted.start)

    def get_all(self, all_wanted: Sequence[WantedBytes]) -> list[Got]:
        """Bring many ranges of bytes, up to `Limits.parallel` at a time.

        Raises: what `get` raises; of several errors that of the first range.
        """
        if len(all_wanted) < 2 and threading.current_thread() is not threading.main_thread():
            return [self.get(wanted) for wanted in all_wanted]
        until = [Until() for _ in all_wanted]  # in other threads: Ctrl-C does not wait for a server
        try:
            return in_parallel(
                lambda k: self.get(all_wanted[k], until[k]), range(len(all_wanted)), self.limits.parallel
            )
        except BaseException:
            for one in until:
                one.end()
            raise

    def again(
        self,
        name: str,
        what: str,
        ask: Callable[[], Any],
        failed: list[float] | None = None,
        until: Until | None = None,
    ) -> Any:
        """Ask until there is an answer, within the limits.

        Args:
            what: begins the message of the error.
            failed: receives the time of each failure; who clears it says that these do not count.
            until: says when nobody waits any more.
        """
        failed = [] if failed is None else failed
        while True:
            try:
                return ask()
            except (SourceError, OptionError, DependencyError):
                raise
            except FileNotFoundError as error:
                what = "there is no such bucket" if "NoSuchBucket" in str(error) else "no such file"
                raise MissingSourceError(f"{name}: {what}") from None
            except BaseException as error:
                if not isinstance(error, Exception) and not is_panic(error):
                    raise
                why, again = reason(error)
                failed.append(time.monotonic())
                tries, since = len(failed), failed[-1] - failed[0]
                over = until is not None and until.over
                pause = self.limits.pause * 2 ** (tries - 1) * random.uniform(0.5, 1.5)
                if isinstance(error, AskError):
                    pause = max(pause, error.pause)
                if over or not again or tries >= self.limits.tries or since + pause > self.limits.seconds:
                    asked = f", asked {tries} times" if tries > 1 else ""
                    cut = "status code: 416" in str(error) or (isinstance(error, AskError) and error.status == 416)
                    kind = TruncatedSourceError if cut else SourceError
                    raise kind(f"{what}: {why}{asked}") from None
            time.sleep(pause)


def _of_file(name: str) -> str:
    """Return the URL of a file.

    Raises:
        SourceError: it is that of a folder.
    """
    if not place(name).path or name.endswith("/"):
        raise SourceError(f"{name}: expected the URL of a file, found that of a folder")
    return name


class Until:
    """Says for how long somebody waits for bytes. Only so long may they be written to memory.

    Attributes:
        lock: is held while some are written; over: nobody waits any more.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.over = False

    def end(self) -> None:
        with self.lock:
            self.over = True

    def put(self, name: str, put: Put, at: int, part: bytes | memoryview) -> None:
        """Hand on bytes of a file if somebody waits: whoever stops waiting takes the memory back."""
        with self.lock:
            if self.over:
                raise SourceError(f"{name}: nobody waits for it any more")
            put(at, part)


class _Holding:
    """Holds off the end of waiting for bytes, with `with`: until then somebody waits, and has the memory for them."""

    def __init__(self, name: str, until: Until) -> None:
        self._name, self._until = name, until

    def __enter__(self) -> None:
        self._until.lock.acquire()
        if self._until.over:
            self._until.lock.release()
            raise SourceError(f"{self._name}: nobody waits for it any more")

    def __exit__(self, *error: object) -> None:
        self._until.lock.release()


class _Reading:
    """Bytes that are asked for again and again until all of them came.

    Attributes:
        at: the first byte that has yet to come.
        first: what the first reply said of the file.
    """

    def __init__(self, wanted: WantedBytes, until: Until, at: int) -> None:
        self.wanted, self.until, self.at = wanted, until, at
        self.first: FileState | None = None

    def compared(self, now: FileState) -> int:
        """Compare what a reply says of the file with what the first one said. Returns the end of the bytes it has.

        Raises:
            SourceChangedError: it is another one.
        """
        if self.first is not None and not self.first.same(now):
            name = self.wanted.name
            raise SourceChangedError(f"{name}: was replaced while it was read ({self.first.difference(now)})")
        self.first = now
        return min(self.wanted.stop, now.size)

    def wrong(self, words: str) -> AskError:
        """Return the error for a reply that is not what it says it is: what it sent before may be as wrong."""
        self.at = self.wanted.start
        return AskError(words, True)

    def check_end(self, end: int) -> None:
        """Check that a reply had all bytes up to its end.

        Raises:
            AskError: something is missing.
        """
        if self.at != end:
            raise self.wrong(f"the server ends its answer {end - self.at:,} bytes too early")


_living: WeakSet[Transfers] = WeakSet()


def _forked() -> None:
    """Have all that asks stores make new clients: those of the process that was forked work there only."""
    for one in list(_living):
        one.forget()


os.register_at_fork(after_in_child=_forked)
