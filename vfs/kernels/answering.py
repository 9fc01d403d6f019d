"""Answers requests for whole chunks in threads that never need the interpreter.

An event loop in Python takes as long for a request as the system takes to move 512 KiB. So a connection that
asks for one chunk after the other is *lent* to the threads that run `answer`. They look for the chunk in the table of
*sources*, and answer a request if they find it there and its bytes are in the page cache. With anything else the
connection goes back: a word with its descriptor is written to a pipe. `vfs.kernels.answer_words` has the tables.

Where bytes lie as they are shown, the system copies them from a map of the file to the socket. It does so in a call,
so a file that shrinks is an error of that call and no signal. Otherwise pieces of whole frames are read and decoded.

A body that was begun in one state of a file is not ended in another: the file is looked at after bytes were taken from
it and before the last ones of them are sent. If it changed, the connection is broken.

All threads wait for one epoll instance, which gives an event to one of them (EPOLLONESHOT). So one thread at a time
has a connection.
"""

from __future__ import annotations

import mmap
import platform

import numpy as np
from numba import types

from vfs.kernels.answer_words import INPUT, MADE, NOTHING, TAIL, UNDER_WAY, WANTED, AnswerWord, ChunkSource, Lent
from vfs.kernels.at_hand import same
from vfs.kernels.compiled import inner, kernel
from vfs.kernels.fuse.native import (
    atomic_add,
    atomic_get,
    atomic_put,
    atomic_replace,
    clock_gettime,
    peek,
    peek8,
    peek32,
    poke8,
    poke32,
    put,
    room,
)
from vfs.kernels.fuse.tables import SECOND, WORD, Iovec, Timespec
from vfs.kernels.intrinsics import NO_WAIT, get, memcpy, pread, preadv2, read, write
from vfs.kernels.locate import HEADER, OFFSET, STORED, STRIDE, file_byte, locate
from vfs.kernels.steps import call

_WAIT_IN, _WAIT_OUT, _ONCE = 0x1, 0x4, 1 << 30  # flags of epoll(7)
_MODIFY = 3  # operation of epoll_ctl(2)
# struct epoll_event has no gap behind its first word on x86
_EVENT_DATA = 4 if platform.machine() in ("x86_64", "AMD64") else 8
_DONT_WAIT, _NO_SIGNAL, _MORE = 0x40, 0x4000, 0x8000  # flags of send(2)
_MONOTONIC = 1
_AGAIN = 11  # EAGAIN
_SOURCE_BYTES = len(ChunkSource) * WORD
_PAGE = mmap.PAGESIZE
_SAMPLE = 64 << 10  # bytes of a file of which one is read
_PAGES = 1024  # of which the system is asked at once if they are in memory
_VECTOR = len(Iovec)
_MESSAGE = 7  # words of struct msghdr
_REQUEST, _VERSION = tuple(b"GET "), tuple(b" HTTP/1.1\r\n")
_SLASH, _POINT, _ZERO = ord("/"), ord("."), ord("0")
_DIGITS = 18  # of a coordinate, at most
_END = tuple(b'"\r\n\r\n')

_room_for_event = room(2)
_room_for_word = room(1)
_room_for_block = room(2)
_room_for_time = room(len(Timespec))
_room_for_vectors = room(2 * _VECTOR)
_room_for_message = room(_MESSAGE)
_room_for_pages = room(_PAGES // WORD)

_epoll_wait = types.ExternalFunction("epoll_wait", types.int32(types.int32, types.intp, types.int32, types.int32))
_epoll_ctl = types.ExternalFunction("epoll_ctl", types.int32(types.int32, types.int32, types.int32, types.intp))
_recv = types.ExternalFunction("recv", types.intp(types.int32, types.intp, types.intp, types.int32))
_sendmsg = types.ExternalFunction("sendmsg", types.intp(types.int32, types.intp, types.int32))
_yield = types.ExternalFunction("sched_yield", types.int32())
_mincore = types.ExternalFunction("mincore", types.int32(types.intp, types.intp, types.intp))
_memcmp = types.ExternalFunction("memcmp", types.int32(types.intp, types.intp, types.intp))
_malloc = types.ExternalFunction("malloc", types.intp(types.intp))
_free = types.ExternalFunction("free", types.void(types.intp))
_errno = types.ExternalFunction("__errno_location", types.intp())

_BLOCK, _BLOCK_BYTES = 0, 1  # words of the memory for pieces that a thread has and no body uses


@kernel(error_model="numpy")
def answer(state):
    """Answer requests of lent connections until `STOP` is readable.

    Args:
        state: address of int64[ANSWER_WORDS]; 0: this only loads the kernel.
    """
    if state == 0:
        return
    event, word, spare = _room_for_event(), _room_for_word(), _room_for_block()
    put(spare, _BLOCK, 0)
    put(spare, _BLOCK_BYTES, 0)
    poll, stop = np.int32(get(state, AnswerWord.POLL)), get(state, AnswerWord.STOP)
    jobs = get(state, AnswerWord.JOBS)
    while True:
        atomic_add(state, AnswerWord.IDLE, 1)
        found = _epoll_wait(poll, event, np.int32(1), np.int32(-1))
        atomic_add(state, AnswerWord.IDLE, -1)
        if found != 1:
            continue
        socket = peek32(event + _EVENT_DATA)
        if socket == stop:
            break
        if socket == jobs:
            if read(np.int32(jobs), word, WORD) == WORD:  # else another thread was faster
                _make_ahead(peek(word))
            continue
        waits = _go_on(state, get(get(state, AnswerWord.LENT), socket), spare)
        if waits:
            poke32(event, waits | _ONCE)
            poke32(event + _EVENT_DATA, socket)
            poke32(event + _EVENT_DATA + 4, 0)
            if _epoll_ctl(poll, np.int32(_MODIFY), np.int32(socket), event) == 0:
                continue
        put(word, 0, socket)
        write(np.int32(get(state, AnswerWord.BACK)), word, WORD)
    _free(get(spare, _BLOCK))


@inner
def _go_on(state, lent, spare):
    """Go on with a connection. Returns the event it waits for then; 0: it goes back."""
    socket = np.int32(get(lent, Lent.SOCKET))
    if get(lent, Lent.SOURCE) == 0:
        if get(lent, Lent.GOT) == 0:
            got = _recv(socket, get(lent, Lent.INPUT), INPUT, np.int32(_DONT_WAIT))
            if got <= 0:
                return _WAIT_IN if got < 0 and peek32(_errno()) == _AGAIN else 0
            put(lent, Lent.GOT, got)
        if not _begin(state, lent, spare):
            return 0
    sent = _send(state, lent, spare)
    if sent == 0:
        return _WAIT_OUT
    source = get(lent, Lent.SOURCE)
    if sent > 0:
        atomic_add(state, AnswerWord.REQUESTS, 1)
        atomic_add(state, AnswerWord.BYTES, get(source, ChunkSource.FRAMES) * get(source, ChunkSource.FRAME_BYTES))
    put(lent, Lent.GOT, 0)
    _end(lent, spare)
    put(lent, Lent.BROKEN, sent < 0)
    return _WAIT_IN if sent > 0 else 0


@inner
def _begin(state, lent, spare):
    """Begin the answer to a request. Returns False if it cannot be answered here; then nothing was sent."""
    time = _room_for_time()
    clock_gettime(np.int32(_MONOTONIC), time)
    now = get(time, Timespec.SECONDS) * SECOND + get(time, Timespec.NANOSECONDS)
    put(lent, Lent.SINCE, now)
    given, lines = get(lent, Lent.INPUT), get(lent, Lent.LINES_BYTES)
    path, length = given + len(_REQUEST), get(lent, Lent.GOT) - len(_REQUEST) - len(_VERSION) - lines
    if (
        length <= 0
        or not _is(given, _REQUEST)
        or not _is(path + length, _VERSION)
        or _memcmp(path + length + len(_VERSION), get(lent, Lent.LINES), lines) != 0
    ):
        return False
    source = _source(state, path, length)
    if source == 0:
        return False
    put(lent, Lent.SOURCE, source)
    below = path + get(source, ChunkSource.PATH_BYTES)
    if not (_place(lent, source, below, path + length, now) and _fill(lent, source, spare, True) > 0):
        _end(lent, spare)
        return False
    head = _joined(get(lent, Lent.HEAD), get(lent, Lent.USUAL), get(lent, Lent.USUAL_BYTES))
    common = atomic_get(state, AnswerWord.COMMON)
    head = _joined(head, common + WORD, peek(common))
    head = _joined(head, get(source, ChunkSource.ABOUT), get(source, ChunkSource.ABOUT_BYTES))
    for at in range(below, path + length):
        letter = peek8(at)
        poke8(head, _POINT if letter == _SLASH else letter)
        head += 1
    for letter in _END:
        poke8(head, letter)
        head += 1
    put(lent, Lent.HEAD_AT, get(lent, Lent.HEAD))
    put(lent, Lent.HEAD_LEFT, head - get(lent, Lent.HEAD))
    return True


@inner
def _is(address, text):
    """Return True if a text, a tuple of bytes, lies at an address."""
    same_so_far = True
    for k in range(len(text)):
        same_so_far &= peek8(address + k) == text[k]
    return same_so_far


@inner
def _alike(a, b, length):
    """Return True if equal bytes lie at two addresses. It takes the same time for all: the path holds the token."""
    differing = 0
    for k in range(length):
        differing |= peek8(a + k) ^ peek8(b + k)
    return differing == 0


@inner
def _joined(to, start, count):
    memcpy(to, start, count)
    return to + count


@inner
def _source(state, path, length):
    """Return the address of the source of a path, which is in use from now on; 0 if there is none."""
    sources = get(state, AnswerWord.SOURCES)
    for n in range(atomic_get(state, AnswerWord.USED)):
        source = sources + n * _SOURCE_BYTES
        atomic_add(source, ChunkSource.USERS, 1)  # before anything else is looked at: who ends a source waits for this
        if atomic_get(source, ChunkSource.ACTIVE):
            own = get(source, ChunkSource.PATH_BYTES)
            if own < length and peek8(path + own) == _SLASH and _alike(path, get(source, ChunkSource.PATH), own):
                return source
        atomic_add(source, ChunkSource.USERS, -1)
    return 0


@inner
def _place(lent, source, at, end, now):
    """Find the file and the byte at which a chunk begins.

    Args:
        at, end: addresses of the coordinates, each with a slash before it, and of the byte behind them.

    Returns: False if it is no chunk that can be answered now.
    """
    if now >= atomic_get(source, ChunkSource.UNTIL):
        return False
    frame = 0
    for axis in range(get(source, ChunkSource.AXES)):
        if at >= end or peek8(at) != _SLASH:
            return False
        at += 1
        begin, number = at, 0
        while at < end and at - begin < _DIGITS and 0 <= peek8(at) - _ZERO <= 9:
            number = 10 * number + peek8(at) - _ZERO
            at += 1
        if at == begin or (at > begin + 1 and peek8(begin) == _ZERO):
            return False
        if number >= get(get(source, ChunkSource.STEPS), 2 * axis):
            return False
        frame += number * get(get(source, ChunkSource.STEPS), 2 * axis + 1)
    if at != end:
        return False
    how = get(source, ChunkSource.HOW)
    where = (how, 0, 0, get(source, ChunkSource.STREAM), get(source, ChunkSource.STREAM_ROWS))
    if frame + get(how, OFFSET) + get(source, ChunkSource.FRAMES) > get(how, STORED):
        return False
    begin, row = locate(where, frame, 0, -1)
    file, byte, left = file_byte(where, begin, row)
    if left < get(source, ChunkSource.LENGTH):
        return False
    descriptor = atomic_get(get(source, ChunkSource.FILES), file) - 1
    if descriptor < 0:
        return False
    put(lent, Lent.DESCRIPTOR, descriptor)
    put(lent, Lent.FILE, file)
    put(lent, Lent.BASE, byte - get(how, HEADER))
    put(lent, Lent.DONE, 0)
    put(lent, Lent.BODY_LEFT, 0)
    return True


@inner
def _unchanged(lent, source):
    """Return True if the file of a body is in the state for which the source was made.

    Another read that finds it touched changes the table of ctimes, and `MOVES` before: so that is looked at last.
    """
    file = get(lent, Lent.FILE)
    return same(
        get(lent, Lent.DESCRIPTOR),
        0,
        get(get(source, ChunkSource.SIZES), file),
        get(get(source, ChunkSource.WRITTEN), file),
        get(get(source, ChunkSource.CHANGED), file),
    ) and atomic_get(get(source, ChunkSource.MOVES), 0) == get(source, ChunkSource.MOVED)


@inner
def _fill(lent, source, spare, first):
    """Take the next piece of a body from its file.

    Args:
        first: nothing was sent yet: nothing may wait for a disk.

    Returns: 1; 0: there is none left; -1: it cannot be had.
    """
    if get(source, ChunkSource.MAPPED):
        return _fill_mapped(lent, source, first)
    if get(lent, Lent.DONE) == get(source, ChunkSource.FRAMES):
        return 0
    if first:
        size = get(source, ChunkSource.SPAN) + (get(source, ChunkSource.FRAMES) - 1) * get(
            get(source, ChunkSource.HOW), STRIDE
        )
        begin = get(lent, Lent.BASE) + get(source, ChunkSource.FIRST)
        if not (_unchanged(lent, source) and _in_memory(lent, source, begin, size)):
            return -1
        _take_block(lent, source, spare)
        if get(lent, Lent.BLOCK) == 0:
            return -1
    if _settled(lent) == NOTHING:
        count = _made(lent, source, get(lent, Lent.BLOCK))
    else:
        count = get(lent, Lent.NEXT_FRAMES)
        block = get(lent, Lent.BLOCK)
        put(lent, Lent.BLOCK, get(lent, Lent.NEXT))
        put(lent, Lent.NEXT, block)
    if count == 0:
        return -1
    put(lent, Lent.DONE, get(lent, Lent.DONE) + count)
    put(lent, Lent.BODY_AT, get(lent, Lent.BLOCK))
    put(lent, Lent.BODY_LEFT, count * get(source, ChunkSource.FRAME_BYTES))
    return 1


@inner
def _made(lent, source, out):
    """Read and decode the next piece of a body.

    Args:
        out: address of its memory, which also takes what it is decoded from.

    Returns: its number of frames; 0 if it cannot be had.
    """
    done, start, step = get(lent, Lent.DONE), get(source, ChunkSource.FIRST), get(source, ChunkSource.STEP)
    count = min(get(source, ChunkSource.PIECE), get(source, ChunkSource.FRAMES) - done)
    stride = get(get(source, ChunkSource.HOW), STRIDE)
    size, made = get(source, ChunkSource.SPAN) + (count - 1) * stride, count * get(source, ChunkSource.FRAME_BYTES)
    memory = out + made if step else out
    begin = get(lent, Lent.BASE) + start + done * stride
    if not (_read(get(lent, Lent.DESCRIPTOR), memory, size, begin) and _unchanged(lent, source)):
        return 0
    if step:
        call(
            step, get(source, ChunkSource.RANGES), count * get(source, ChunkSource.ROWS), memory, size, start, out, made
        )
    return count


@inner
def _ask_ahead(state, lent, source):
    """Have the next piece of a body made by a thread that has nothing to do, if there are both."""
    if (
        get(source, ChunkSource.MAPPED)
        or get(lent, Lent.DONE) == get(source, ChunkSource.FRAMES)
        or atomic_get(lent, Lent.AHEAD) != NOTHING
        or atomic_get(state, AnswerWord.IDLE) <= 0
    ):
        return
    if get(lent, Lent.NEXT) == 0:
        put(lent, Lent.NEXT, _malloc(get(lent, Lent.BLOCK_BYTES)))
    if get(lent, Lent.NEXT):
        job = _room_for_word()
        put(job, 0, lent)
        atomic_put(lent, Lent.AHEAD, WANTED)
        write(np.int32(get(state, AnswerWord.JOBS_IN)), job, WORD)  # if there is no room, nobody takes it


@inner
def _make_ahead(lent):
    """Make the next piece of a body that another thread is sending, unless that made it meanwhile."""
    if atomic_replace(lent, Lent.AHEAD, WANTED, UNDER_WAY):
        count = _made(lent, get(lent, Lent.SOURCE), get(lent, Lent.NEXT))
        put(lent, Lent.NEXT_FRAMES, count)
        atomic_put(lent, Lent.AHEAD, MADE)


@inner
def _settled(lent):
    """Return `MADE` if the next piece was made ahead, else `NOTHING`. It is waited for if it is under way."""
    if atomic_replace(lent, Lent.AHEAD, WANTED, NOTHING):
        return NOTHING
    while atomic_get(lent, Lent.AHEAD) == UNDER_WAY:
        _yield()
    found = atomic_get(lent, Lent.AHEAD)
    put(lent, Lent.AHEAD, NOTHING)
    return found


@inner
def _fill_mapped(lent, source, first):
    """Do what `_fill` does for a chunk in a map: all but its tail, then the tail, for which the file is looked at."""
    done, size = get(lent, Lent.DONE), get(source, ChunkSource.FRAMES) * get(source, ChunkSource.FRAME_BYTES)
    begin = get(lent, Lent.BASE) + get(source, ChunkSource.FIRST)
    if first and not (_unchanged(lent, source) and _in_memory(lent, source, begin, size)):
        return -1
    put(lent, Lent.DONE, done + 1)
    if done == 0:
        put(lent, Lent.BODY_AT, get(get(source, ChunkSource.MAPS), get(lent, Lent.FILE)) + begin)
        put(lent, Lent.BODY_LEFT, size - TAIL)
        return 1
    if done == 1:
        tail = get(lent, Lent.TAIL)
        if not _read(get(lent, Lent.DESCRIPTOR), tail, TAIL, begin + size - TAIL) or not _unchanged(lent, source):
            return -1
        put(lent, Lent.BODY_AT, tail)
        put(lent, Lent.BODY_LEFT, TAIL)
        return 1
    return 0


@inner
def _in_memory(lent, source, begin, size):
    """Return True if the page cache has bytes of the file of a body.

    mincore(2) may say so of all pages if the file is another user's. Then some bytes are read.
    """
    file = get(lent, Lent.FILE)
    if not get(get(source, ChunkSource.TELLS), file):
        return _samples_at_hand(get(lent, Lent.DESCRIPTOR), begin, size)
    found = _room_for_pages()
    address = get(get(source, ChunkSource.MAPS), file) + begin
    stop = address + size
    address -= address % _PAGE
    while address < stop:
        pages = min(_PAGES, -(-(stop - address) // _PAGE))
        if _mincore(address, pages * _PAGE, found) != 0:
            return False
        for page in range(pages):
            if not peek8(found + page) & 1:
                return False
        address += pages * _PAGE
    return True


@inner
def _samples_at_hand(descriptor, begin, size):
    """Return True if some bytes of a file, not far from each other, can be read without waiting for a disk."""
    vector, sample = _room_for_vectors(), _room_for_word()
    put(vector, Iovec.ADDRESS, sample)
    put(vector, Iovec.LENGTH, 1)
    at, last = begin, begin + size - 1
    while True:
        if preadv2(np.int32(descriptor), vector, np.int32(1), at, np.int32(NO_WAIT)) != 1:
            return False
        if at == last:
            return True
        at = min(at + _SAMPLE, last)


@inner
def _read(descriptor, memory, size, begin):
    """Read bytes of a file. Returns False if that cannot be."""
    done = 0
    while done < size:
        got = pread(np.int32(descriptor), memory + done, size - done, begin + done)
        if got <= 0:
            return False
        done += got
    return True


@inner
def _take_block(lent, source, spare):
    """Give memory for pieces to a body: what the thread has at hand, if that is enough."""
    wanted = get(source, ChunkSource.ROOM)
    if get(spare, _BLOCK_BYTES) < wanted:
        _free(get(spare, _BLOCK))
        put(spare, _BLOCK, _malloc(wanted))
        put(spare, _BLOCK_BYTES, wanted if get(spare, _BLOCK) else 0)
    put(lent, Lent.BLOCK, get(spare, _BLOCK))
    put(lent, Lent.BLOCK_BYTES, get(spare, _BLOCK_BYTES))
    put(spare, _BLOCK, 0)
    put(spare, _BLOCK_BYTES, 0)


@inner
def _end(lent, spare):
    """End a body. Its memory goes to the thread, which will use it next: the processor's cache has it."""
    _settled(lent)
    _free(get(lent, Lent.NEXT))
    put(lent, Lent.NEXT, 0)
    if get(lent, Lent.BLOCK):
        _free(get(spare, _BLOCK))
        put(spare, _BLOCK, get(lent, Lent.BLOCK))
        put(spare, _BLOCK_BYTES, get(lent, Lent.BLOCK_BYTES))
        put(lent, Lent.BLOCK, 0)
    source = get(lent, Lent.SOURCE)
    put(lent, Lent.SOURCE, 0)
    atomic_add(source, ChunkSource.USERS, -1)


@inner
def _send(state, lent, spare):
    """Send what is left of an answer. Returns 1: all is sent; 0: the socket has no room; -1: it cannot be ended."""
    source, socket = get(lent, Lent.SOURCE), np.int32(get(lent, Lent.SOCKET))
    vectors, message = _room_for_vectors(), _room_for_message()
    while True:
        head, body = get(lent, Lent.HEAD_LEFT), get(lent, Lent.BODY_LEFT)
        if head + body == 0:
            filled = _fill(lent, source, spare, False)
            if filled <= 0:
                return 1 if filled == 0 else -1
            continue
        _ask_ahead(state, lent, source)
        put(vectors, Iovec.ADDRESS, get(lent, Lent.HEAD_AT))
        put(vectors, Iovec.LENGTH, head)
        put(vectors, _VECTOR + Iovec.ADDRESS, get(lent, Lent.BODY_AT))
        put(vectors, _VECTOR + Iovec.LENGTH, body)
        for word in range(_MESSAGE):
            put(message, word, 0)
        put(message, 2, vectors)
        put(message, 3, 2)
        more = _MORE if _goes_on(lent, source) else 0
        sent = _sendmsg(socket, message, np.int32(_DONT_WAIT | _NO_SIGNAL | more))
        if sent < 0:
            return 0 if peek32(_errno()) == _AGAIN else -1
        of_head = min(head, sent)
        put(lent, Lent.HEAD_AT, get(lent, Lent.HEAD_AT) + of_head)
        put(lent, Lent.HEAD_LEFT, head - of_head)
        put(lent, Lent.BODY_AT, get(lent, Lent.BODY_AT) + sent - of_head)
        put(lent, Lent.BODY_LEFT, body - (sent - of_head))


@inner
def _goes_on(lent, source):
    """Return True if another piece follows."""
    done = get(lent, Lent.DONE)
    return done < 2 if get(source, ChunkSource.MAPPED) else done < get(source, ChunkSource.FRAMES)
