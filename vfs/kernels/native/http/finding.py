"""Finds the source that a request names, and the file and the byte at which its chunk begins."""

from __future__ import annotations

from vfs.kernels.compiled import inner
from vfs.kernels.intrinsics import get
from vfs.kernels.locate import HEADER, OFFSET, STORED, file_byte, locate
from vfs.kernels.native.frames import descriptor, frame_tables, placed
from vfs.kernels.native.http.words import CHUNK_WORDS, AnswerWord, ChunkSource, LentConnection
from vfs.kernels.native.memory import atomic_add, atomic_get, peek8, put
from vfs.kernels.native.words import WORD, FrameWord

_SOURCE_BYTES = CHUNK_WORDS * WORD
_SLASH, _POINT, _ZERO = ord("/"), ord("."), ord("0")
_DIGITS = 18  # of a coordinate, at most


@inner
def _alike(a, b, length):
    """Return True if equal bytes lie at two addresses. It takes the same time for all: the path holds the token."""
    differing = 0
    for k in range(length):
        differing |= peek8(a + k) ^ peek8(b + k)
    return differing == 0


@inner
def find_source(state, path, length):
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
def locate_chunk(connection, source, at, end, now):
    """Find the file and the byte at which a chunk begins.

    Args:
        at, end: addresses of the coordinates, each with a slash before it, and of the byte behind them.

    Returns: False if it is no chunk that can be answered now.
    """
    if now >= atomic_get(source, FrameWord.UNTIL):
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
        if number >= get(get(source, ChunkSource.STRIDES), 2 * axis):
            return False
        frame += number * get(get(source, ChunkSource.STRIDES), 2 * axis + 1)
    if at != end:
        return False
    where = frame_tables(source)
    if frame + placed(source, OFFSET) + get(source, ChunkSource.FRAMES) > placed(source, STORED):
        return False
    begin, row = locate(where, frame, 0, -1)
    file, byte, left = file_byte(where, begin, row)
    if left < get(source, ChunkSource.LENGTH):
        return False
    fd = descriptor(source, file)
    if fd < 0:
        return False
    put(connection, LentConnection.DESCRIPTOR, fd)
    put(connection, LentConnection.FILE, file)
    put(connection, LentConnection.BASE, byte - placed(source, HEADER))
    put(connection, LentConnection.DONE, 0)
    put(connection, LentConnection.BODY_LEFT, 0)
    return True
