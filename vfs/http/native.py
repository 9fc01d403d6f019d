"""Lends connections to threads that answer requests for chunks without the interpreter (`vfs.kernels.answering`).

`NativeAnswers` fills the tables that these threads read. A source is the chunks of one array under one path. It is
answered for only until its files must be looked at again, and ended when its ETags are not right any more. Its memory
is freed when nobody uses it.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import select
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import numpy as np

from vfs import kernels
from vfs.backends.buffered import BufferedBackend
from vfs.backends.handles import Descriptor
from vfs.hierarchy.chunk_plan import ChunkPlan, Pieces
from vfs.hierarchy.contents import Lifetime, PathAtHand
from vfs.http.conditions import split, stem_of
from vfs.kernels.fuse.tables import LINE

THREADS = max(2, min(4, os.cpu_count() or 1))
"""Threads that answer. Copying is most of what they do: with two, 512 KiB over 8 connections take two thirds of the
time of one, on two processors of which the client has one."""
MAPPED = 128 << 10
"""Bytes of a chunk that is sent from a map of its file. A smaller one is read: that takes fewer calls."""
MOST_FILES = 64
"""Most files that are kept open and mapped for this. Each takes two descriptors. Slow clients of sources that ended
may keep as many more."""
MOST_OF_A_SET = 1 << 16  # most files of a set
MOST_AXES = 16
MOST_HEAD = 2048
"""Most bytes of the header lines of an answer of one kind: of a connection, of a source."""
PATIENCE = 5.0  # seconds that the threads have to end
TICK = 0.25  # seconds after which the date is looked at
OVER = 0.0  # a time that has passed
_MANY = 64  # connections that are taken back at once
_WORD = np.dtype(np.int64).itemsize
_stuck: list[NativeAnswers] = []  # their threads did not end, and use their memory


class Loan:
    """A connection that is lent: the words and the memory that threads use, and who gets it back.

    Args:
        words: its words in the table that threads read.
        fd: its descriptor.
        lines, usual: see `NativeAnswers.lend`.
        request: a request that it begins with.
        told: see `NativeAnswers.lend`.
    """

    def __init__(
        self,
        words: np.ndarray,
        fd: int,
        lines: bytes,
        usual: bytes,
        request: bytes,
        told: Callable[[bytes, bool], None],
    ) -> None:
        k = kernels.answering
        self.fd = fd
        self.told = told
        self._kept = lines, usual
        self.memory = np.empty(k.INPUT + k.HEAD + k.TAIL, np.uint8)
        self.memory[: len(request)] = np.frombuffer(request, np.uint8)
        self.words = words
        at = self.memory.ctypes.data
        words[:] = 0
        words[: k.Lent.SINCE] = (
            fd,
            _address(lines),
            len(lines),
            _address(usual),
            len(usual),
            at,
            len(request),
            at + k.INPUT,
            at + k.INPUT + k.HEAD,
        )

    @property
    def since(self) -> float:
        """When its last request came, monotonic seconds; 0 if none has come."""
        return float(self.words[kernels.answering.Lent.SINCE]) / 1e9

    @property
    def busy(self) -> bool:
        """True while a body is under way."""
        return bool(self.words[kernels.answering.Lent.SOURCE])

    @property
    def left(self) -> tuple[bytes, bool]:
        """What came and was not answered, and True if the last answer was cut off."""
        word = kernels.answering.Lent
        return self.memory[: int(self.words[word.GOT])].tobytes(), bool(self.words[word.BROKEN])


def _write(table: np.ndarray, word: int, value: int) -> None:
    """Store a word that threads read. Numba takes 50 µs to look at a member of an enumeration; a number takes none."""
    kernels.fuse.native.write_word(table.ctypes.data, int(word), int(value))


def _address(data: bytes) -> int:
    return int(np.frombuffer(data, np.uint8).ctypes.data)


class _ArraySource:
    """A source, as threads see it.

    Args:
        place: its number in the table, and its words there.
        path: what the paths of its chunks begin with.
        plan, pieces: how chunks are read.
        version: see `vfs.hierarchy.contents.Contents.version`.
        about: header lines of its answers, up to the coordinates in the ETag.

    Attributes:
        until: monotonic seconds up to which it is answered for.
        lifetime: see `vfs.hierarchy.contents.ResolvedPath`.
        open: the files that threads may read.
    """

    def __init__(
        self, place: tuple[int, np.ndarray], path: bytes, plan: ChunkPlan, pieces: Pieces, version: bytes, about: bytes
    ) -> None:
        word = kernels.answering.ChunkSource
        array, layout = plan.array, plan.layout
        files = array.dataset.files
        self.place = place
        self.number, self.words = place
        self.path = path
        self.plan = plan
        self.version = version
        self.lifetime: Lifetime | None = None
        self.open: dict[int, Descriptor] = {}
        self.fds, self.maps, self.tells = np.zeros((3, len(files)), np.int64)
        how, _ = layout.how
        steps = np.array(plan.axes[: plan.nav] + [(whole, 0) for whole, _ in plan.axes[plan.nav :]], np.int64)
        ranges = np.ascontiguousarray(pieces.ranges)
        size = array.chunk_bytes // plan.count
        made = pieces.frames * size
        read = pieces.span + (pieces.frames - 1) * layout.stride
        mapped = pieces.step == 0 and array.chunk_bytes >= MAPPED
        self._kept = [how, steps, ranges, about, layout, files]
        self._memory: dict[int, np.ndarray] = {}  # maps of files
        self._replaced: list[object] = []  # files that were opened anew, which a thread may be reading
        self._told: Callable[[], None] | None = None
        self.until = 0.0
        self.words[word.UNTIL :] = 0
        for name, value in (
            (word.MOVES, files.moves.ctypes.data),
            (word.MOVED, files.moves.item(0)),
            (word.PATH, _address(path)),
            (word.PATH_BYTES, len(path)),
            (word.ABOUT, _address(about)),
            (word.ABOUT_BYTES, len(about)),
            (word.AXES, len(steps)),
            (word.STEPS, steps.ctypes.data),
            (word.HOW, how.ctypes.data),
            (word.STREAM, layout.stream.ctypes.data),
            (word.STREAM_ROWS, len(layout.stream)),
            (word.LENGTH, plan.length),
            (word.FRAMES, plan.count),
            (word.FRAME_BYTES, size),
            (word.FIRST, pieces.first),
            (word.SPAN, pieces.span),
            (word.MAPPED, mapped),
            (word.STEP, pieces.step),
            (word.RANGES, ranges.ctypes.data),
            (word.ROWS, pieces.rows),
            (word.PIECE, pieces.frames),
            (word.ROOM, made + (read if pieces.step else 0)),
            (word.FILES, self.fds.ctypes.data),
            (word.MAPS, self.maps.ctypes.data),
            (word.TELLS, self.tells.ctypes.data),
            (word.SIZES, files.sizes.ctypes.data),
            (word.WRITTEN, files.times.ctypes.data),
            (word.CHANGED, files.ctimes.ctypes.data),
        ):
            self.words[name] = value
        self._set(word.ACTIVE, 1)

    def _set(self, word: int, value: int) -> None:
        _write(self.words, word, value)

    def answer_until(self, until: float) -> None:
        """Answer for it up to a time, monotonic seconds."""
        self.until = until
        self._set(kernels.answering.ChunkSource.UNTIL, max(1, int(until * 1e9)))

    def live(self, lifetime: Lifetime, collect: Callable[[], object]) -> None:
        """Have it end with its set. The set may say so in any thread."""

        def told() -> None:
            self.answer_until(OVER)
            with suppress(RuntimeError):  # the event loop has ended
                collect()

        self.lifetime, self._told = lifetime, told
        lifetime.told.append(told)

    def end(self) -> None:
        """Answer for it no longer."""
        self._set(kernels.answering.ChunkSource.ACTIVE, 0)
        if self.lifetime is not None and self._told is not None:
            with suppress(ValueError):
                self.lifetime.told.remove(self._told)
            self._told = None  # it refers to this: its files would stay open until the collector comes

    @property
    def held(self) -> int:
        """Number of files that it keeps open."""
        return len(self.open) + len(self._replaced)

    @property
    def used(self) -> bool:
        """True while a thread looks at it, or a body of it is under way."""
        word = kernels.answering.ChunkSource.USERS
        return bool(kernels.fuse.native.read_word(self.words.ctypes.data, int(word)))

    def show(self, file: int, opened: Descriptor) -> bool:
        """Let threads read a file. Returns False if they cannot."""
        size = int(self.plan.array.dataset.files.sizes[file])
        try:
            shown = mmap.mmap(opened.fd, size, prot=mmap.PROT_READ)
        except (OSError, ValueError):
            return False
        memory = np.frombuffer(shown, np.uint8)
        if file in self.open:
            self._replaced.append((self.open[file], self._memory[file]))
        self._memory[file] = memory
        self.open[file] = opened
        _write(self.tells, file, os.fstat(opened.fd).st_uid == os.geteuid())
        _write(self.maps, file, memory.ctypes.data)  # first this: who sees the new descriptor sees it
        _write(self.fds, file, opened.fd + 1)
        return True


class NativeAnswers:
    """Runs the threads. All methods are called in the thread of the event loop.

    Args:
        common: returns header lines that every answer has, and that change now and then.
    """

    def __init__(self, common: Callable[[], bytes]) -> None:
        self._common = common
        self._loop = asyncio.get_running_loop()
        self._tables: _AnswerTables | None = None  # once the kernel is loaded
        self._loading = False
        self._loans: dict[int, Loan] = {}
        self._sources: dict[bytes, _ArraySource] = {}
        self._ended: list[_ArraySource] = []
        self._tick: asyncio.TimerHandle | None = None

    def _begin(self) -> None:
        """Load the kernel in a thread. No connection is lent until then."""
        if not self._loading:
            self._loading = True
            threading.Thread(target=self._load, name="vfs-load", daemon=True).start()

    def _load(self) -> None:
        kernels.answering.answer(0)
        with suppress(RuntimeError):  # the event loop has ended
            self._loop.call_soon_threadsafe(self._open)

    def _open(self) -> None:
        if self._loading:
            self._tables = _AnswerTables()
            self._loop.add_reader(self._tables.back, self._take_back)

    @property
    def done(self) -> tuple[int, int]:
        """Requests that the threads have answered, and the bytes of their bodies."""
        return (0, 0) if self._tables is None else self._tables.done

    def learn(self, path: bytes, key: str, found: PathAtHand) -> bool:
        """Let threads answer requests for the chunks of an array, as far as they can.

        A new source is not answered for yet: another read may have found its files touched after `found` was made.
        The version that comes with the next request tells.

        Args:
            path: path of a request for one of them.
            key: the same as a path of the contents.
            found: the same, resolved.

        Returns: True if they can answer this one if the page cache has it.
        """
        tables = self._tables
        chunk = found.face.planned(found.key) if found.version else None
        place = None if chunk is None else chunk.plan.place(chunk.position)
        if chunk is None or place is None or not path.endswith(own := chunk.coordinates.encode()):
            return False
        if tables is None:
            self._begin()
            return False
        above, numbers = split(key)
        plan, backend = chunk.plan, chunk.plan.array.backend
        opened = backend.handles.kept(place[0]) if isinstance(backend, BufferedBackend) else None
        prefix = path[: -len(own)]
        source = self._sources.get(prefix)
        if source is not None and (source.version != found.version or source.plan is not plan):
            self._drop(source)
            source = None
        if opened is None:
            return False
        if source is None:
            stem = stem_of(found.version, above) + numbers.removesuffix(chunk.coordinates).replace("/", ".").encode()
            self._make(tables, prefix, plan, found, stem)
            return False
        if not self._shown(source, place[0], opened):
            return False
        source.answer_until(found.until)
        if found.lifetime is not None and (found.lifetime.dropped or found.lifetime.until < found.until):
            source.answer_until(OVER)  # it was told just now
        return True

    def _make(self, tables: _AnswerTables, prefix: bytes, plan: ChunkPlan, found: PathAtHand, stem: bytes) -> None:
        """Make a source, unless its chunks need more than a step, or there is no place."""
        pieces, array = plan.pieces, plan.array
        about = b'content-type: application/octet-stream\r\ncontent-length: %d\r\netag: "%s' % (array.chunk_bytes, stem)
        if (
            pieces is None
            or array.ndim > MOST_AXES
            or len(about) > MOST_HEAD
            or len(array.dataset.files) > MOST_OF_A_SET
        ):
            return
        self._collect()
        if not tables.free and self._sources:
            self._drop(min(self._sources.values(), key=lambda source: source.until))
        if not tables.free:
            return
        source = _ArraySource(tables.free.pop(), prefix, plan, pieces, found.version, about)
        source.until = found.until  # threads do not know yet; but others were not asked for as lately
        tables.show(source.number)
        self._sources[prefix] = source
        if found.lifetime is not None:
            source.live(found.lifetime, partial(self._loop.call_soon_threadsafe, self._collect))

    def _shown(self, source: _ArraySource, file: int, opened: Descriptor) -> bool:
        """Let threads read a file of a source. False if they cannot."""
        if source.open.get(file) is opened:
            return True
        if sum(each.held for each in self._sources.values()) >= MOST_FILES:
            self._drop(max(self._sources.values(), key=lambda each: each.held))
            self._collect()
        held = sum(each.held for each in (*self._sources.values(), *self._ended))
        return source.path in self._sources and held < 2 * MOST_FILES and source.show(file, opened)

    def _drop(self, source: _ArraySource) -> None:
        """End a source. Its memory is freed when nobody uses it."""
        del self._sources[source.path]
        source.end()
        self._ended.append(source)

    def _collect(self) -> None:
        """Free what ended sources had, and end those whose sets are not served any longer."""
        for source in list(self._sources.values()):
            if source.lifetime is not None and source.lifetime.dropped:
                self._drop(source)
        for source in self._ended.copy():
            if not source.used:
                self._ended.remove(source)
                if self._tables is not None:
                    self._tables.free.append(source.place)

    def lend(
        self, fd: int, lines: bytes, usual: bytes, request: bytes, told: Callable[[bytes, bool], None]
    ) -> Loan | None:
        """Lend a connection to the threads, with a request that they begin with.

        Args:
            fd: its descriptor, which must not be closed before the connection is back.
            lines: the header lines of all its requests, with the empty line at the end.
            usual: status line and first header lines of its answers.
            request: a request.
            told: called when it is back, with what came and was not answered, and True if its last answer was cut off.

        Returns: the loan; None if it cannot be lent.
        """
        tables = self._tables
        if (
            tables is None
            or fd >= kernels.answering.DESCRIPTORS
            or not tables.free_loans
            or len(request) >= kernels.answering.INPUT
            or len(usual) > MOST_HEAD // 2
        ):
            return None
        self._date(tables)
        loan = Loan(tables.free_loans.pop(), fd, lines, usual, request, told)
        self._loans[fd] = loan
        try:
            tables.lend(fd, loan.words)
        except (OSError, ValueError):  # the server has ended
            tables.free_loans.append(self._loans.pop(fd).words)
            return None
        return loan

    def _date(self, tables: _AnswerTables) -> None:
        """Renew the lines that all answers have, again and again while connections are lent."""
        tables.say(self._common())
        if self._loans and self._tick is None:
            self._tick = self._loop.call_later(TICK, self._ticked, tables)

    def _ticked(self, tables: _AnswerTables) -> None:
        self._tick = None
        self._collect()
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


class _AnswerTables:
    """The threads, and what they share.

    Attributes:
        back: descriptor that is readable when connections are back.
        free: places in the table of sources that none has.
        free_loans: words for connections that none has.
    """

    def __init__(self) -> None:
        k = kernels.answering
        self._state = np.zeros(k.ANSWER_WORDS, np.int64)
        self._lent = np.zeros(k.DESCRIPTORS, np.int64)
        self._places = np.zeros((k.SOURCES, len(k.ChunkSource)), np.int64)
        self._lines: deque[np.ndarray] = deque(maxlen=64)  # a thread may be reading an old one
        self._said = b""
        self.free = [(number, self._places[number]) for number in reversed(range(k.SOURCES))]
        self._loans = np.zeros((k.LENT, -(-len(k.Lent) // LINE) * LINE), np.int64)
        self.free_loans = list(self._loans)
        self._poll = select.epoll()
        self.back, self._back_in = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.back, False)
        self._stop, self._stop_in = os.pipe2(os.O_CLOEXEC)
        self._jobs, self._jobs_in = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._poll.register(self._stop, select.EPOLLIN)
        self._poll.register(self._jobs, select.EPOLLIN)
        for word, value in (
            (k.AnswerWord.POLL, self._poll.fileno()),
            (k.AnswerWord.STOP, self._stop),
            (k.AnswerWord.BACK, self._back_in),
            (k.AnswerWord.JOBS, self._jobs),
            (k.AnswerWord.JOBS_IN, self._jobs_in),
            (k.AnswerWord.LENT, self._lent.ctypes.data),
            (k.AnswerWord.SOURCES, self._places.ctypes.data),
        ):
            self._state[word] = value
        self.say(b"")
        self._threads = [
            threading.Thread(target=self._run, name=f"vfs-answer-{n}", daemon=True) for n in range(THREADS)
        ]
        for thread in self._threads:
            thread.start()

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they would interrupt what waits here
        kernels.answering.answer(self._state.ctypes.data)

    def show(self, number: int) -> None:
        """Let threads look at a place of the table of sources."""
        word = kernels.answering.AnswerWord.USED
        _write(self._state, word, max(number + 1, int(self._state[word])))

    def say(self, lines: bytes) -> None:
        """Set the header lines that all answers have."""
        if lines != self._said or not self._lines:
            made = np.zeros(1 + -(-len(lines) // _WORD), np.int64)
            made[0] = len(lines)
            made[1:].view(np.uint8)[: len(lines)] = np.frombuffer(lines, np.uint8)
            self._lines.append(made)
            self._said = lines
            _write(self._state, kernels.answering.AnswerWord.COMMON, made.ctypes.data)

    def lend(self, fd: int, words: np.ndarray) -> None:
        """Give a connection to the threads, which look at it at once.

        Raises:
            OSError: that cannot be.
        """
        self._lent[fd] = words.ctypes.data
        self._poll.register(fd, select.EPOLLIN | select.EPOLLOUT | select.EPOLLONESHOT)

    def returned(self) -> list[int]:
        """Return the descriptors of the connections that are back."""
        try:
            found: list[int] = np.frombuffer(os.read(self.back, _MANY * _WORD), np.int64).tolist()
        except BlockingIOError:
            return []
        for fd in found:
            self._poll.unregister(fd)
        return found

    @property
    def done(self) -> tuple[int, int]:
        word = kernels.answering.AnswerWord
        return int(self._state[word.REQUESTS]), int(self._state[word.BYTES])

    def close(self) -> bool:
        """End the threads. Returns False if they do not end in time: they wait for a disk, say."""
        os.close(self._stop_in)
        until = time.monotonic() + PATIENCE
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        if any(thread.is_alive() for thread in self._threads):
            return False
        self._poll.close()
        for pipe in (self.back, self._back_in, self._stop, self._jobs, self._jobs_in):
            os.close(pipe)
        return True
