"""What threads read that answer without the interpreter: lent connections, sources, and the tables that hold both.

`vfs.kernels.native.http.words` says what each word is. `vfs.server.native` decides what is lent and answered for.
"""

from __future__ import annotations

import mmap
import os
import select
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from typing import NamedTuple

import numpy as np

from vfs import kernels
from vfs.backends.handles import Descriptor
from vfs.engine.chunk_plan import ChunkPlan, Pieces
from vfs.http.access_log import AccessLog
from vfs.kernels.native.http.words import (
    ANSWER_WORDS,
    CHUNK_WORDS,
    DESCRIPTORS,
    HEAD,
    INPUT,
    LENT,
    NOTES,
    SOURCES,
    TAIL,
    AnswerWord,
    ChunkSource,
    LentConnection,
)
from vfs.kernels.native.words import LINE, WORD, FrameWord
from vfs.serving.native_frames import OVER, NativeFrames, grid_rows
from vfs.serving.native_sources import SourceTable

THREADS = max(2, min(4, os.cpu_count() or 1))
"""Threads that answer. Copying is most of what they do: with two, 512 KiB over 8 connections take two thirds of the
time of one, on two processors of which the client has one."""
MAPPED = 128 << 10
"""Bytes of a chunk that is sent from a map of its file. A smaller one is read: that takes fewer calls."""
PATIENCE = 5.0  # seconds that the threads have to end
_MANY = 64  # connections that are taken back at once


class Repeated(NamedTuple):
    """What requests of a lent connection have in common.

    Attributes:
        lines: the header lines of all of them, with the empty line at the end.
        usual: status line and first header lines of their answers.
        base: what their paths begin with: the token of who asks, with a slash at its end.
        asks: what lines of the access log say of who asks.
    """

    lines: bytes
    usual: bytes
    base: bytes
    asks: bytes


class Loan:
    """A connection that is lent: the words and the memory that threads use, and who gets it back.

    Args:
        words: its words in the table that threads read.
        fd: its descriptor.
        same: what its requests have in common.
        request: a request that it begins with.
        told: see `vfs.server.native.NativeAnswers.lend`.
    """

    def __init__(
        self,
        words: np.ndarray,
        fd: int,
        same: Repeated,
        request: bytes,
        told: Callable[[bytes, bool], None],
    ) -> None:
        self.fd = fd
        self.told = told
        self._same = same
        self.memory = np.empty(INPUT + HEAD + TAIL, np.uint8)
        self.memory[: len(request)] = np.frombuffer(request, np.uint8)
        self.words = words
        at = self.memory.ctypes.data
        words[:] = 0
        words[: LentConnection.SINCE] = (
            fd,
            *(word for text in same for word in (_address(text), len(text))),
            at,
            len(request),
            at + INPUT,
            at + INPUT + HEAD,
        )

    @property
    def since(self) -> float:
        """When its last request came, monotonic seconds; 0 if none has come."""
        return float(self.words[LentConnection.SINCE]) / 1e9

    @property
    def busy(self) -> bool:
        """True while a body is under way."""
        return bool(self.words[LentConnection.SOURCE])

    @property
    def left(self) -> tuple[bytes, bool]:
        """What came and was not answered, and True if the last answer was cut off."""
        word = LentConnection
        return self.memory[: int(self.words[word.GOT])].tobytes(), bool(self.words[word.BROKEN])


def _write(table: np.ndarray, word: int, value: int) -> None:
    """Store a word that threads read. Numba takes 50 µs to look at a member of an enumeration; a number takes none."""
    kernels.native.memory.write_word(table.ctypes.data, int(word), int(value))


def _text_of(text: bytes) -> np.ndarray:
    """Return a text as threads read it: its length, a word, and its bytes."""
    made = np.zeros(1 + -(-len(text) // WORD), np.int64)
    made[0] = len(text)
    made[1:].view(np.uint8)[: len(text)] = np.frombuffer(text, np.uint8)
    return made


def _address(data: bytes) -> int:
    return int(np.frombuffer(data, np.uint8).ctypes.data)


class ArraySource:
    """A source, as threads see it.

    Args:
        path: what the paths of its chunks begin with.
        plan, pieces: how chunks are read.
        version: see `vfs.contents.shown.Shown.version`.
        about: header lines of its answers, up to the coordinates in the ETag.
        noted: the path as the access log has it.

    Attributes:
        words: int64[CHUNK_WORDS].
        frames: where its frames lie, and the files that threads may read.
    """

    def __init__(
        self, path: bytes, plan: ChunkPlan, pieces: Pieces, version: bytes, about: bytes, noted: bytes
    ) -> None:
        word = ChunkSource
        array, layout, nav = plan.array, plan.layout, plan.nav
        files = array.dataset.files
        self.path = path
        self.plan = plan
        self.version = version
        self.maps, self.tells = np.zeros((2, len(files)), np.int64)
        size = array.chunk_bytes // plan.count
        made = pieces.frames * size
        read = pieces.span + (pieces.frames - 1) * layout.stride
        mapped = pieces.decoding is None and array.chunk_bytes >= MAPPED
        self._texts = about, noted
        self._memory: dict[int, np.ndarray] = {}  # maps of files
        self._replaced: list[object] = []  # files that were opened anew, which a thread may be reading
        self.words = np.zeros(CHUNK_WORDS, np.int64)
        grid = grid_rows(array.grid.counts[:nav], array.chunks[:nav], array.shape[:nav])
        self.frames = NativeFrames(self.words, files, layout, pieces.decoding, grid)
        self.frames.answer_until(OVER)
        for name, value in (
            (FrameWord.FRAME_BYTES, size),
            (FrameWord.BEGIN, pieces.first),
            (FrameWord.SPAN, pieces.span),
            (word.MOVED, files.moves.item(0)),
            (word.PATH, _address(path)),
            (word.PATH_BYTES, len(path)),
            (word.ABOUT, _address(about)),
            (word.ABOUT_BYTES, len(about)),
            (word.NOTED, _address(noted)),
            (word.NOTED_BYTES, len(noted)),
            (word.AXES, array.ndim),
            (word.MAPPED, mapped),
            (word.PIECE, pieces.frames),
            (word.ROOM, made + (read if pieces.decoding else 0)),
            (word.MAPS, self.maps.ctypes.data),
            (word.TELLS, self.tells.ctypes.data),
        ):
            self.words[name] = value

    @property
    def held(self) -> int:
        """Number of files that it keeps open."""
        return len(self.frames.open) + len(self._replaced)

    def show(self, file: int, opened: Descriptor) -> bool:
        """Let threads read a file. Returns False if they cannot."""
        size = int(self.plan.array.dataset.files.sizes[file])
        try:
            shown = mmap.mmap(opened.fd, size, prot=mmap.PROT_READ)
        except (OSError, ValueError):
            return False
        memory = np.frombuffer(shown, np.uint8)
        if file in self.frames.open:
            self._replaced.append((self.frames.open[file], self._memory[file]))
        self._memory[file] = memory
        _write(self.tells, file, os.fstat(opened.fd).st_uid == os.geteuid())
        _write(self.maps, file, memory.ctypes.data)  # first this: who sees the new descriptor sees it
        self.frames.show(file, opened)
        return True


class AnswerTables:
    """The threads, and what they share.

    Args:
        access: the log of what is answered; None: there is none.

    Attributes:
        back: descriptor that is readable when connections are back.
        sources: the sources. One is kept while a body of it is under way, however slow its client is.
        free_loans: words for connections that none has.
    """

    def __init__(self, access: AccessLog | None) -> None:
        self._access = access
        self._state = np.zeros(ANSWER_WORDS, np.int64)
        self._notes = np.zeros(NOTES, np.uint8)
        self._lent = np.zeros(DESCRIPTORS, np.int64)
        self.sources = SourceTable(SOURCES, self._under_way)
        self._lines: deque[np.ndarray] = deque(maxlen=64)  # a thread may be reading an old one
        self._said = b""
        self._loans = np.zeros((LENT, -(-len(LentConnection) // LINE) * LINE), np.int64)
        self.free_loans = list(self._loans)
        self._poll = select.epoll()
        self.back, self._back_in = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.back, False)
        self._stop, self._stop_in = os.pipe2(os.O_CLOEXEC)
        self._jobs, self._jobs_in = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._poll.register(self._stop, select.EPOLLIN)
        self._poll.register(self._jobs, select.EPOLLIN)
        for word, value in (
            (AnswerWord.POLL, self._poll.fileno()),
            (AnswerWord.STOP, self._stop),
            (AnswerWord.BACK, self._back_in),
            (AnswerWord.JOBS, self._jobs),
            (AnswerWord.JOBS_IN, self._jobs_in),
            (AnswerWord.CONNECTIONS, self._lent.ctypes.data),
            (AnswerWord.SOURCES, self.sources.words.ctypes.data),
            (AnswerWord.NOTES, self._notes.ctypes.data),
            (AnswerWord.NOTES_FD, -1 if access is None else access.fd),
        ):
            self._state[word] = value
        self.say(b"")
        if access is not None:
            _, status, *others = access.parts
            self._kept = [_text_of(part) for part in (status % HTTPStatus.OK, *others)]
            for place, text in zip(
                (AnswerWord.NOTES_STATUS, AnswerWord.NOTES_TOOK, AnswerWord.NOTES_LAST), self._kept, strict=True
            ):
                self._state[place] = text.ctypes.data
            self.write_notes()
        self._threads = [
            threading.Thread(target=self._run, name=f"vfs-answer-{n}", daemon=True) for n in range(THREADS)
        ]
        for thread in self._threads:
            thread.start()

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they would interrupt what waits here
        kernels.native.http.answering.answer(self._state.ctypes.data)

    def _under_way(self) -> set[int]:
        """Return the addresses of the sources of bodies that are under way."""
        return set(self._loans[:, LentConnection.SOURCE].tolist()) - {0}

    def say(self, lines: bytes) -> None:
        """Set the header lines that all answers have."""
        if lines != self._said or not self._lines:
            self._said = lines
            self._renew(AnswerWord.COMMON, lines)

    def write_notes(self) -> None:
        """Write the lines of the access log that wait, and say what the next ones begin with."""
        if self._access is not None:
            kernels.native.http.noting.write_notes(self._state.ctypes.data)
            self._renew(AnswerWord.NOTES_TIME, self._access.time())

    def _renew(self, word: AnswerWord, text: bytes) -> None:
        """Have threads find another text."""
        self._lines.append(_text_of(text))
        _write(self._state, word, self._lines[-1].ctypes.data)

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
            found: list[int] = np.frombuffer(os.read(self.back, _MANY * WORD), np.int64).tolist()
        except BlockingIOError:
            return []
        for fd in found:
            self._poll.unregister(fd)
        return found

    @property
    def done(self) -> tuple[int, int]:
        word = AnswerWord
        return int(self._state[word.REQUESTS]), int(self._state[word.BYTES])

    def close(self) -> bool:
        """End the threads. Returns False if they do not end in time: they wait for a disk, say."""
        os.close(self._stop_in)
        until = time.monotonic() + PATIENCE
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        if any(thread.is_alive() for thread in self._threads):
            return False
        self.write_notes()
        self._poll.close()
        for pipe in (self.back, self._back_in, self._stop, self._jobs, self._jobs_in):
            os.close(pipe)
        return True
