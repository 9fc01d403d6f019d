"""Writes a line of the access log for an answer, without the interpreter (`vfs.http.access_log`).

Lines go into memory that all threads share, and from there to the file when it is full, or when Python asks for it.
"""

from __future__ import annotations

import numpy as np

from vfs.kernels.clib import memcpy, sched_yield, write
from vfs.kernels.compiled import inner, kernel
from vfs.kernels.intrinsics import get
from vfs.kernels.native.http.words import NOTES, AnswerWord, ChunkSource, LentConnection
from vfs.kernels.native.memory import atomic_get, atomic_put, atomic_replace, peek, poke8, put
from vfs.kernels.native.sources import now
from vfs.kernels.native.words import WORD

_ZERO, _POINT, _TENTH = ord("0"), ord("."), 100_000  # ns
_NUMBER = 20  # digits, at most


@inner
def _lock(state):
    while not atomic_replace(state, AnswerWord.NOTES_LOCK, 0, 1):
        sched_yield()


@inner
def _write(state):
    """Write what is there to the file. The lock is held. Of a disk that is full, Python learns by its own lines."""
    used = get(state, AnswerWord.NOTES_USED)
    if used:
        write(np.int32(get(state, AnswerWord.NOTES_FD)), get(state, AnswerWord.NOTES), used)
    put(state, AnswerWord.NOTES_USED, 0)


@kernel
def write_notes(state):
    """Write what is there to the file.

    Args:
        state: address of int64[ANSWER_WORDS]; 0: this only loads the kernel.
    """
    if state == 0:
        return
    _lock(state)
    _write(state)
    atomic_put(state, AnswerWord.NOTES_LOCK, 0)


@inner
def _join(to, start, count):
    memcpy(to, start, count)
    return to + count


@inner
def _text(to, where):
    """Append a text: at an address are its length, a word, and the text itself."""
    return _join(to, where + WORD, peek(where))


@inner
def _digits(to, number):
    count, rest = 1, number // 10
    while rest:
        count, rest = count + 1, rest // 10
    for k in range(count):
        poke8(to + count - 1 - k, _ZERO + number % 10)
        number //= 10
    return to + count


@inner
def note(state, connection, source, sent):
    """Append the line of an answer.

    Args:
        sent: bytes of its body.
    """
    if get(state, AnswerWord.NOTES_FD) < 0:
        return
    tenths = max(0, now() - get(connection, LentConnection.SINCE)) // _TENTH
    begin, last = atomic_get(state, AnswerWord.NOTES_TIME), get(state, AnswerWord.NOTES_LAST)
    status, took = get(state, AnswerWord.NOTES_STATUS), get(state, AnswerWord.NOTES_TOOK)
    length = (
        peek(begin)
        + get(connection, LentConnection.ASKS_BYTES)
        + get(source, ChunkSource.NOTED_BYTES)
        + get(connection, LentConnection.CHUNK_BYTES)
        + peek(status)
        + peek(took)
        + peek(last)
        + 2 * _NUMBER
    )
    _lock(state)
    if get(state, AnswerWord.NOTES_USED) + length > NOTES:
        _write(state)
    if length <= NOTES:
        start = get(state, AnswerWord.NOTES) + get(state, AnswerWord.NOTES_USED)
        at = _text(start, begin)
        at = _join(at, get(connection, LentConnection.ASKS), get(connection, LentConnection.ASKS_BYTES))
        at = _join(at, get(source, ChunkSource.NOTED), get(source, ChunkSource.NOTED_BYTES))
        at = _join(at, get(connection, LentConnection.CHUNK), get(connection, LentConnection.CHUNK_BYTES))
        at = _text(at, status)
        at = _digits(at, sent)
        at = _text(at, took)
        at = _digits(at, tenths // 10)
        poke8(at, _POINT)
        at = _digits(at + 1, tenths % 10)
        at = _text(at, last)
        put(state, AnswerWord.NOTES_USED, get(state, AnswerWord.NOTES_USED) + at - start)
    atomic_put(state, AnswerWord.NOTES_LOCK, 0)
