"""Answers requests for whole chunks in threads that never need the interpreter.

A connection that asks for one chunk after the other is *lent* to the threads that run `answer`. They look for the chunk
in the table of *sources* (`finding`), and answer a request if they find it there and its bytes are in the page cache
(`filling`, `sending`). With anything else the connection goes back: a word with its descriptor is written to a pipe.
`words` has the tables, and `vfs.server.native_tables` fills them.

All threads wait for one epoll instance, which gives an event to one of them (EPOLLONESHOT). So one thread at a time
has a connection.
"""

from __future__ import annotations

import platform

import numpy as np

from vfs.kernels.clib import (
    epoll_ctl,
    epoll_wait,
    errno_location,
    free,
    memcmp,
    memcpy,
    read,
    recv,
    write,
)
from vfs.kernels.compiled import inner, kernel
from vfs.kernels.intrinsics import get
from vfs.kernels.native.http.filling import BLOCK, BLOCK_BYTES, end_body, fill, make_ahead
from vfs.kernels.native.http.finding import alike, find_source, locate_chunk
from vfs.kernels.native.http.noting import note
from vfs.kernels.native.http.sending import send
from vfs.kernels.native.http.words import INPUT, AnswerWord, ChunkSource, LentConnection
from vfs.kernels.native.memory import atomic_add, atomic_get, peek, peek8, peek32, poke8, poke32, put, room
from vfs.kernels.native.sources import enter, leave, now
from vfs.kernels.native.words import WORD, FrameWord

_WAIT_IN, _WAIT_OUT, _ONCE = 0x1, 0x4, 1 << 30  # flags of epoll(7)
_MODIFY = 3  # operation of epoll_ctl(2)
# struct epoll_event has no gap behind its first word on x86
_EVENT_DATA = 4 if platform.machine() in ("x86_64", "AMD64") else 8
_DONT_WAIT, _NO_SIGNAL, _MORE = 0x40, 0x4000, 0x8000  # flags of send(2)
_AGAIN = 11  # EAGAIN
_REQUEST, _VERSION = tuple(b"GET "), tuple(b" HTTP/1.1\r\n")
_SLASH, _POINT, _ZERO = ord("/"), ord("."), ord("0")
_END = tuple(b'"\r\n\r\n')
_room_for_event = room(2)
_room_for_word = room(1)
_room_for_block = room(2)


@kernel(error_model="numpy")
def answer(state):
    """Answer requests of connections until `STOP` is readable.

    Args:
        state: address of int64[ANSWER_WORDS]; 0: this only loads the kernel.
    """
    if state == 0:
        return
    event, word, thread_block = _room_for_event(), _room_for_word(), _room_for_block()
    put(thread_block, BLOCK, 0)
    put(thread_block, BLOCK_BYTES, 0)
    poll, stop = np.int32(get(state, AnswerWord.POLL)), get(state, AnswerWord.STOP)
    jobs = get(state, AnswerWord.JOBS)
    while True:
        atomic_add(state, AnswerWord.IDLE, 1)
        found = epoll_wait(poll, event, np.int32(1), np.int32(-1))
        atomic_add(state, AnswerWord.IDLE, -1)
        if found != 1:
            continue
        socket = peek32(event + _EVENT_DATA)
        if socket == stop:
            break
        if socket == jobs:
            if read(np.int32(jobs), word, WORD) == WORD:  # else another thread was faster
                make_ahead(peek(word))
            continue
        inside = enter(get(state, AnswerWord.SOURCES))
        waits = _advance(state, get(get(state, AnswerWord.CONNECTIONS), socket), thread_block)
        leave(inside)
        if waits:
            poke32(event, waits | _ONCE)
            poke32(event + _EVENT_DATA, socket)
            poke32(event + _EVENT_DATA + 4, 0)
            if epoll_ctl(poll, np.int32(_MODIFY), np.int32(socket), event) == 0:
                continue
        put(word, 0, socket)
        write(np.int32(get(state, AnswerWord.BACK)), word, WORD)
    free(get(thread_block, BLOCK))


@inner
def _advance(state, connection, thread_block):
    """Go on with a connection. Returns the event it waits for then; 0: it goes back."""
    socket = np.int32(get(connection, LentConnection.SOCKET))
    if get(connection, LentConnection.SOURCE) == 0:
        if get(connection, LentConnection.GOT) == 0:
            got = recv(socket, get(connection, LentConnection.INPUT), INPUT, np.int32(_DONT_WAIT))
            if got <= 0:
                return _WAIT_IN if got < 0 and peek32(errno_location()) == _AGAIN else 0
            put(connection, LentConnection.GOT, got)
        if not _begin(state, connection, thread_block):
            return 0
    sent = send(state, connection, thread_block)
    if sent == 0:
        return _WAIT_OUT
    source = get(connection, LentConnection.SOURCE)
    size = get(source, FrameWord.FRAMES) * get(source, FrameWord.FRAME_BYTES)
    if sent > 0:
        atomic_add(state, AnswerWord.REQUESTS, 1)
        atomic_add(state, AnswerWord.BYTES, size)
    note(state, connection, source, size if sent > 0 else 0)
    put(connection, LentConnection.GOT, 0)
    end_body(connection, thread_block)
    put(connection, LentConnection.BROKEN, sent < 0)
    return _WAIT_IN if sent > 0 else 0


@inner
def _begin(state, connection, thread_block):
    """Begin the answer to a request. Returns False if it cannot be answered here; then nothing was sent."""
    began = now()
    put(connection, LentConnection.SINCE, began)
    given, lines = get(connection, LentConnection.INPUT), get(connection, LentConnection.LINES_BYTES)
    path, length = given + len(_REQUEST), get(connection, LentConnection.GOT) - len(_REQUEST) - len(_VERSION) - lines
    if (
        length <= 0
        or not _is_text(given, _REQUEST)
        or not _is_text(path + length, _VERSION)
        or memcmp(path + length + len(_VERSION), get(connection, LentConnection.LINES), lines) != 0
    ):
        return False
    token = get(connection, LentConnection.TOKEN_BYTES)
    if length <= token or not alike(path, get(connection, LentConnection.TOKEN), token):
        return False
    path, length = path + token - 1, length - token + 1  # the slash belongs to the path of a source, too
    source = find_source(get(state, AnswerWord.SOURCES), path, length)
    if source == 0:
        return False
    put(connection, LentConnection.SOURCE, source)  # now it is kept, also while nobody is counted in
    below = path + get(source, ChunkSource.PATH_BYTES)
    put(connection, LentConnection.CHUNK, below)
    put(connection, LentConnection.CHUNK_BYTES, path + length - below)
    if not (
        locate_chunk(connection, source, below, path + length, began)
        and fill(connection, source, thread_block, True) > 0
    ):
        end_body(connection, thread_block)
        return False
    head = _join(
        get(connection, LentConnection.HEAD),
        get(connection, LentConnection.USUAL),
        get(connection, LentConnection.USUAL_BYTES),
    )
    common = atomic_get(state, AnswerWord.COMMON)
    head = _join(head, common + WORD, peek(common))
    head = _join(head, get(source, ChunkSource.ABOUT), get(source, ChunkSource.ABOUT_BYTES))
    for at in range(below, path + length):
        letter = peek8(at)
        poke8(head, _POINT if letter == _SLASH else letter)
        head += 1
    for letter in _END:
        poke8(head, letter)
        head += 1
    put(connection, LentConnection.HEAD_AT, get(connection, LentConnection.HEAD))
    put(connection, LentConnection.HEAD_LEFT, head - get(connection, LentConnection.HEAD))
    return True


@inner
def _is_text(address, text):
    """Return True if a text, a tuple of bytes, lies at an address."""
    same_so_far = True
    for k in range(len(text)):
        same_so_far &= peek8(address + k) == text[k]
    return same_so_far


@inner
def _join(to, start, count):
    memcpy(to, start, count)
    return to + count
