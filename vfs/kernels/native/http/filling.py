"""Takes the parts of a body from the file of its chunk: from a map of the file, or read and decoded.

Where bytes lie as they are shown, the system copies them from a map of the file to the socket. It does so in a call,
so a file that shrinks is an error of that call and no signal. Otherwise parts of whole frames are read and decoded.

A body that was begun in one state of a file is not ended in another: the file is looked at after bytes were taken from
it and before the last ones of them are sent. If it changed, the connection is broken.

While one part is sent, a thread that has nothing to do may make the next one (`ask_ahead`).
"""

from __future__ import annotations

import mmap

import numpy as np

from vfs.kernels.clib import NO_WAIT, free, malloc, mincore, preadv2, sched_yield, write
from vfs.kernels.compiled import inner
from vfs.kernels.intrinsics import get
from vfs.kernels.locate import STRIDE
from vfs.kernels.native.frames import moves, placed, read_whole, unchanged
from vfs.kernels.native.http.words import (
    MADE,
    NOTHING,
    TAIL,
    UNDER_WAY,
    WANTED,
    AnswerWord,
    ChunkSource,
    LentConnection,
)
from vfs.kernels.native.memory import atomic_get, atomic_put, atomic_replace, peek8, put, room
from vfs.kernels.native.words import WORD, FrameWord, Iovec
from vfs.kernels.steps import call

_PAGE = mmap.PAGESIZE
_SAMPLE = 64 << 10  # bytes of a file of which one is read
_PAGES = 1024  # of which the system is asked at once if they are in memory
_VECTOR = len(Iovec)
_room_for_word = room(1)
_room_for_vectors = room(2 * _VECTOR)
_room_for_pages = room(_PAGES // WORD)

BLOCK, BLOCK_BYTES = 0, 1
"""Words of the memory for parts that a thread has and no body uses."""


@inner
def _unchanged(connection, source):
    """Return True if the file of a body is in the state for which the source was made.

    Another read that finds it touched changes the table of states, and `MOVES` before: so that is looked at last.
    """
    fd, file = get(connection, LentConnection.DESCRIPTOR), get(connection, LentConnection.FILE)
    return unchanged(source, fd, 0, file) and moves(source) == get(source, ChunkSource.MOVED)


@inner
def fill(connection, source, thread_block, first):
    """Take the next piece of a body from its file.

    Args:
        first: nothing was sent yet: nothing may wait for a disk.

    Returns: 1; 0: there is none left; -1: it cannot be had.
    """
    if get(source, ChunkSource.MAPPED):
        return _fill_mapped(connection, source, first)
    if get(connection, LentConnection.DONE) == get(source, FrameWord.FRAMES):
        return 0
    if first:
        size = get(source, FrameWord.SPAN) + (get(source, FrameWord.FRAMES) - 1) * placed(source, STRIDE)
        begin = get(connection, LentConnection.BASE) + get(source, FrameWord.BEGIN)
        if not (_unchanged(connection, source) and _in_memory(connection, source, begin, size)):
            return -1
        _take_block(connection, source, thread_block)
        if get(connection, LentConnection.BLOCK) == 0:
            return -1
    if _await_ahead(connection) == NOTHING:
        count = _make_part(connection, source, get(connection, LentConnection.BLOCK))
    else:
        count = get(connection, LentConnection.NEXT_FRAMES)
        block = get(connection, LentConnection.BLOCK)
        put(connection, LentConnection.BLOCK, get(connection, LentConnection.NEXT))
        put(connection, LentConnection.NEXT, block)
    if count == 0:
        return -1
    put(connection, LentConnection.DONE, get(connection, LentConnection.DONE) + count)
    put(connection, LentConnection.BODY_AT, get(connection, LentConnection.BLOCK))
    put(connection, LentConnection.BODY_LEFT, count * get(source, FrameWord.FRAME_BYTES))
    return 1


@inner
def _make_part(connection, source, out):
    """Read and decode the next piece of a body.

    Args:
        out: address of its memory, which also takes what it is decoded from.

    Returns: its number of frames; 0 if it cannot be had.
    """
    done, start, step = (
        get(connection, LentConnection.DONE),
        get(source, FrameWord.BEGIN),
        get(source, FrameWord.STEP),
    )
    count = min(get(source, ChunkSource.PIECE), get(source, FrameWord.FRAMES) - done)
    stride = placed(source, STRIDE)
    size, made = get(source, FrameWord.SPAN) + (count - 1) * stride, count * get(source, FrameWord.FRAME_BYTES)
    memory = out + made if step else out
    begin = get(connection, LentConnection.BASE) + start + done * stride
    fd = get(connection, LentConnection.DESCRIPTOR)
    if not (read_whole(fd, memory, size, begin) and _unchanged(connection, source)):
        return 0
    if step:
        ranges, rows = get(source, FrameWord.RANGES), count * get(source, FrameWord.ROWS)
        call(step, ranges, rows, memory, size, start, out, made)
    return count


@inner
def ask_ahead(state, connection, source):
    """Have the next piece of a body made by a thread that has nothing to do, if there are both."""
    if (
        get(source, ChunkSource.MAPPED)
        or get(connection, LentConnection.DONE) == get(source, FrameWord.FRAMES)
        or atomic_get(connection, LentConnection.AHEAD) != NOTHING
        or atomic_get(state, AnswerWord.IDLE) <= 0
    ):
        return
    if get(connection, LentConnection.NEXT) == 0:
        put(connection, LentConnection.NEXT, malloc(get(connection, LentConnection.BLOCK_BYTES)))
    if get(connection, LentConnection.NEXT):
        job = _room_for_word()
        put(job, 0, connection)
        atomic_put(connection, LentConnection.AHEAD, WANTED)
        write(np.int32(get(state, AnswerWord.JOBS_IN)), job, WORD)  # if there is no room, nobody takes it


@inner
def make_ahead(connection):
    """Make the next piece of a body that another thread is sending, unless that made it meanwhile."""
    if atomic_replace(connection, LentConnection.AHEAD, WANTED, UNDER_WAY):
        count = _make_part(connection, get(connection, LentConnection.SOURCE), get(connection, LentConnection.NEXT))
        put(connection, LentConnection.NEXT_FRAMES, count)
        atomic_put(connection, LentConnection.AHEAD, MADE)


@inner
def _await_ahead(connection):
    """Return `MADE` if the next piece was made ahead, else `NOTHING`. It is waited for if it is under way."""
    if atomic_replace(connection, LentConnection.AHEAD, WANTED, NOTHING):
        return NOTHING
    while atomic_get(connection, LentConnection.AHEAD) == UNDER_WAY:
        sched_yield()
    found = atomic_get(connection, LentConnection.AHEAD)
    put(connection, LentConnection.AHEAD, NOTHING)
    return found


@inner
def _fill_mapped(connection, source, first):
    """Do what `_fill` does for a chunk in a map: all but its tail, then the tail, for which the file is looked at."""
    done, size = (
        get(connection, LentConnection.DONE),
        get(source, FrameWord.FRAMES) * get(source, FrameWord.FRAME_BYTES),
    )
    begin = get(connection, LentConnection.BASE) + get(source, FrameWord.BEGIN)
    if first and not (_unchanged(connection, source) and _in_memory(connection, source, begin, size)):
        return -1
    put(connection, LentConnection.DONE, done + 1)
    if done == 0:
        put(
            connection,
            LentConnection.BODY_AT,
            get(get(source, ChunkSource.MAPS), get(connection, LentConnection.FILE)) + begin,
        )
        put(connection, LentConnection.BODY_LEFT, size - TAIL)
        return 1
    if done == 1:
        tail = get(connection, LentConnection.TAIL)
        fd = get(connection, LentConnection.DESCRIPTOR)
        if not (read_whole(fd, tail, TAIL, begin + size - TAIL) and _unchanged(connection, source)):
            return -1
        put(connection, LentConnection.BODY_AT, tail)
        put(connection, LentConnection.BODY_LEFT, TAIL)
        return 1
    return 0


@inner
def _in_memory(connection, source, begin, size):
    """Return True if the page cache has bytes of the file of a body.

    mincore(2) may say so of all pages if the file is another user's. Then some bytes are read.
    """
    file = get(connection, LentConnection.FILE)
    if not get(get(source, ChunkSource.TELLS), file):
        return _samples_at_hand(get(connection, LentConnection.DESCRIPTOR), begin, size)
    found = _room_for_pages()
    address = get(get(source, ChunkSource.MAPS), file) + begin
    stop = address + size
    address -= address % _PAGE
    while address < stop:
        pages = min(_PAGES, -(-(stop - address) // _PAGE))
        if mincore(address, pages * _PAGE, found) != 0:
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
def _take_block(connection, source, thread_block):
    """Give memory for pieces to a body: what the thread has at hand, if that is enough."""
    wanted = get(source, ChunkSource.ROOM)
    if get(thread_block, BLOCK_BYTES) < wanted:
        free(get(thread_block, BLOCK))
        put(thread_block, BLOCK, malloc(wanted))
        put(thread_block, BLOCK_BYTES, wanted if get(thread_block, BLOCK) else 0)
    put(connection, LentConnection.BLOCK, get(thread_block, BLOCK))
    put(connection, LentConnection.BLOCK_BYTES, get(thread_block, BLOCK_BYTES))
    put(thread_block, BLOCK, 0)
    put(thread_block, BLOCK_BYTES, 0)


@inner
def end_body(connection, thread_block):
    """End a body. Its memory goes to the thread, which will use it next: the processor's cache has it."""
    _await_ahead(connection)
    free(get(connection, LentConnection.NEXT))
    put(connection, LentConnection.NEXT, 0)
    if get(connection, LentConnection.BLOCK):
        free(get(thread_block, BLOCK))
        put(thread_block, BLOCK, get(connection, LentConnection.BLOCK))
        put(thread_block, BLOCK_BYTES, get(connection, LentConnection.BLOCK_BYTES))
        put(connection, LentConnection.BLOCK, 0)
    atomic_put(connection, LentConnection.SOURCE, 0)  # at last: then the source may be freed
