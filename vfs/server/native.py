"""Lends connections to threads that answer requests for chunks without the interpreter (`vfs.kernels.native.http`).

`NativeAnswers` fills the tables that these threads read (`vfs.server.native_tables`). A source is the chunks of one
array under one path. It is answered for only until its files must be looked at again, and ended when its ETags are not
right any more. Its memory is freed when nobody uses it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from vfs import kernels
from vfs.backends.handles import Descriptor
from vfs.contents.shown import InFace
from vfs.engine.chunk_plan import ChunkPlan
from vfs.faces.face import PlannedChunk
from vfs.http.access_log import AccessLog, path_of
from vfs.http.answers import CACHING, NO_CACHE
from vfs.http.conditions import modified, split, stem_of
from vfs.kernels.native.http.words import DESCRIPTORS, INPUT
from vfs.server.native_tables import AnswerTables, ArraySource, Loan, Repeated

MAX_FILES = 64
"""Most files that are kept open and mapped for this. Each takes two descriptors. Slow clients of sources that ended
may keep as many more."""
MAX_OF_A_SET = 1 << 16  # most files of a set
MAX_AXES = 16
MAX_HEAD = 2048
"""Most bytes of the header lines of an answer of one kind: of a connection, of a source."""
TICK = 0.25  # seconds after which the date is looked at
_stuck: list[NativeAnswers] = []  # their threads did not end, and use their memory


class ChunkNames(NamedTuple):
    """How all chunks of an array are named, up to their coordinates.

    Attributes:
        stem: in ETags; noted: in the access log.
    """

    stem: bytes
    noted: bytes


class NativeAnswers:
    """Runs the threads. All methods are called in the thread of the event loop.

    Args:
        common: returns header lines that every answer has, and that change now and then.
        caching: how chunks are cached, as `Cache-Control` says it.
        access: the log of what is answered; None: there is none.
    """

    def __init__(self, common: Callable[[], bytes], caching: bytes = NO_CACHE, access: AccessLog | None = None) -> None:
        self._common = common
        self._caching = caching
        self._access = access
        self._loop = asyncio.get_running_loop()
        self._tables: AnswerTables | None = None  # once the kernel is loaded
        self._loading = False
        self._loans: dict[int, Loan] = {}
        self._sources: dict[bytes, ArraySource] = {}
        self._tick: asyncio.TimerHandle | None = None

    def _begin(self) -> None:
        """Load the kernel in a thread. No connection is lent until then."""
        if not self._loading:
            self._loading = True
            threading.Thread(target=self._load, name="vfs-load", daemon=True).start()

    def _load(self) -> None:
        kernels.native.http.answering.answer(0)
        if self._access is not None:
            kernels.native.http.noting.write_notes(0)
        with suppress(RuntimeError):  # the event loop has ended
            self._loop.call_soon_threadsafe(self._open)

    def _open(self) -> None:
        if self._loading:
            self._tables = AnswerTables(self._access)
            self._loop.add_reader(self._tables.back, self._take_back)

    @property
    def done(self) -> tuple[int, int]:
        """Requests that the threads have answered, and the bytes of their bodies."""
        return (0, 0) if self._tables is None else self._tables.done

    def ready(self, path: bytes, key: str, found: InFace, time: int) -> bool:
        """Return True if threads can answer a request for a chunk, if the page cache has it. If not, they learn to.

        A new source is not answered for yet: another read may have found its files touched after `found` was made.
        The version that comes with the next request tells.

        Args:
            path: path of the request behind the token.
            key: the same as a path of the contents.
            found: the same, resolved.
            time: when its sources were modified, nanoseconds since 1970.
        """
        chunk = found.face.planned(found.key) if found.version() else None
        place = None if chunk is None else chunk.plan.place(chunk.position)
        if chunk is None or place is None or not path.endswith(chunk.coordinates.encode()):
            return False
        if self._tables is None:
            self._begin()
            return False
        file, backend = place[0], chunk.plan.array.backend
        opened = None if backend.descriptors is None else backend.descriptors.at_hand(file)
        make = time if opened is not None else None
        source = self._source_of(self._tables, path, key, chunk, found, make)
        if source is None or opened is None or not self._shown(self._tables, source, file, opened):
            return False
        source.frames.trust(found.watch.until)
        return True

    def _source_of(
        self, tables: AnswerTables, path: bytes, key: str, chunk: PlannedChunk, found: InFace, make: int | None
    ) -> ArraySource | None:
        """Return the source of a chunk, if there was one before. One that is out of date ends.

        Args:
            make: make one, if there is none, of sources that were modified then, see `ready`; None: do not.
        """
        prefix = path[: -len(chunk.coordinates)]
        source = self._sources.get(prefix)
        if source is not None and (source.version != found.version() or source.plan is not chunk.plan):
            self._drop(tables, source)
            source = None
        if source is None and make is not None:
            above, numbers = split(key)
            stem = stem_of(found.version(), above) + numbers.removesuffix(chunk.coordinates).replace("/", ".").encode()
            noted = path_of(key).removesuffix(chunk.coordinates.encode())
            self._make(tables, prefix, chunk.plan, found, ChunkNames(stem, noted), make)
        return source

    def _make(
        self, tables: AnswerTables, prefix: bytes, plan: ChunkPlan, found: InFace, named: ChunkNames, time: int
    ) -> None:
        """Make a source, unless its chunks need more than a step, or there is no place."""
        pieces, array = plan.pieces, plan.array
        said = (
            (b"content-type", b"application/octet-stream"),
            (CACHING, self._caching),
            *modified(time),
            (b"content-length", b"%d" % array.chunk_bytes),
        )
        about = b"".join(b"%s: %s\r\n" % header for header in said) + b'etag: "%s' % named.stem
        if pieces is None or array.ndim > MAX_AXES or len(about) > MAX_HEAD or len(array.dataset.files) > MAX_OF_A_SET:
            return
        self._collect(tables)
        number = tables.sources.number()
        if number < 0:
            self._drop(tables, min(self._sources.values(), key=lambda source: source.frames.until))
            number = tables.sources.number()
        source = ArraySource(prefix, plan, pieces, found.version(), about, named.noted)
        tables.sources.add(number, source.words)
        self._sources[prefix] = source
        if found.watch.lifetime is not None:
            source.frames.follow(found.watch.lifetime, partial(self._collect_soon, tables))
        source.frames.until = found.watch.until  # threads do not know yet; but others were not asked for as lately

    def _shown(self, tables: AnswerTables, source: ArraySource, file: int, opened: Descriptor) -> bool:
        """Let threads read a file of a source. False if they cannot."""
        if source.frames.open.get(file) is opened:
            return True
        if sum(each.held for each in self._sources.values()) >= MAX_FILES:
            self._drop(tables, max(self._sources.values(), key=lambda each: each.held))
            self._collect(tables)
        held = sum(each.held for each in (*self._sources.values(), *tables.sources.retired))
        return source.path in self._sources and held < 2 * MAX_FILES and source.show(file, opened)

    def write_notes(self) -> None:
        """Write the lines of the access log that wait."""
        if self._tables is not None:
            self._tables.write_notes()

    def _drop(self, tables: AnswerTables, source: ArraySource) -> None:
        """End a source. Its memory is freed when nobody uses it."""
        del self._sources[source.path]
        source.frames.end()
        tables.sources.remove(source, source.words)

    def _collect_soon(self, tables: AnswerTables) -> None:
        """Do what `_collect` does. May be called in any thread."""
        with suppress(RuntimeError):  # the event loop has ended
            self._loop.call_soon_threadsafe(self._collect, tables)

    def _collect(self, tables: AnswerTables) -> None:
        """Free what ended sources had, and end those whose sets are not served any longer."""
        for source in list(self._sources.values()):
            if source.frames.lifetime is not None and source.frames.lifetime.dropped:
                self._drop(tables, source)
        tables.sources.retired.collect()

    def lend(self, fd: int, same: Repeated, request: bytes, told: Callable[[bytes, bool], None]) -> Loan | None:
        """Lend a connection to the threads, with a request that they begin with.

        Args:
            fd: its descriptor, which must not be closed before the connection is back.
            same: what its requests have in common.
            request: a request.
            told: called when it is back, with what came and was not answered, and True if its last answer was cut off.

        Returns: the loan; None if it cannot be lent.
        """
        tables = self._tables
        if (
            tables is None
            or fd >= DESCRIPTORS
            or not tables.free_loans
            or len(request) >= INPUT
            or len(same.usual) > MAX_HEAD // 2
        ):
            return None
        self._date(tables)
        loan = Loan(tables.free_loans.pop(), fd, same, request, told)
        self._loans[fd] = loan
        try:
            tables.lend(fd, loan.words)
        except (OSError, ValueError):  # the server has ended
            tables.free_loans.append(self._loans.pop(fd).words)
            return None
        return loan

    def _date(self, tables: AnswerTables) -> None:
        """Renew the lines that all answers have, again and again while connections are lent."""
        tables.say(self._common())
        if self._loans and self._tick is None:
            self._tick = self._loop.call_later(TICK, self._ticked, tables)

    def _ticked(self, tables: AnswerTables) -> None:
        self._tick = None
        self._collect(tables)
        self._date(tables)

    def _take_back(self) -> None:
        assert self._tables is not None
        for fd in self._tables.returned():
            loan = self._loans.pop(fd)
            self._loop.call_soon(loan.told, *loan.left)  # an error of one connection is none of the others
            self._tables.free_loans.append(loan.words)

    def close(self) -> None:
        """End the threads. What they are doing has some seconds to end."""
        self._loading = False
        if self._tick is not None:
            self._tick.cancel()
        if self._tables is not None:
            self._loop.remove_reader(self._tables.back)
            if not self._tables.close():
                _stuck.append(self)
