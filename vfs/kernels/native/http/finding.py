"""Finds the source that a request names, and the file and the byte at which its chunk begins."""

from __future__ import annotations

from vfs.kernels.compiled import inner
from vfs.kernels.intrinsics import get
from vfs.kernels.locate import HEADER, OFFSET, STORED, STRIDE, file_byte, locate
from vfs.kernels.native.frames import along, descriptor, frame_tables, placed
from vfs.kernels.native.http.words import ChunkSource, LentConnection
from vfs.kernels.native.memory import atomic_get, peek8, put
from vfs.kernels.native.sources import source_at
from vfs.kernels.native.words import FrameWord, TableWord

_SLASH, _POINT, _ZERO = ord("/"), ord("."), ord("0")
_DIGITS = 18  # of a coordinate, at most


@inner
def alike(a, b, length):
    """Return True if equal bytes lie at two addresses. It takes the same time for all: the path holds the token."""
    differing = 0
    for k in range(length):
        differing |= peek8(a + k) ^ peek8(b + k)
    return differing == 0


@inner
def find_source(table, path, length):
    """Return the address of the source of a path, 0 if there is none."""
    for place in range(get(table, TableWord.COUNT)):
        source = source_at(table, place)
        if source:
            own = get(source, ChunkSource.PATH_BYTES)
            if own < length and peek8(path + own) == _SLASH and alike(path, get(source, ChunkSource.PATH), own):
                return source
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
    position = 0
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
        if axis >= get(source, FrameWord.NAV_AXES):
            if number:  # chunks have whole frames
                return False
            continue
        count, chunk, length = along(source, axis)
        if number >= count or (number + 1) * chunk > length:
            return False
        position = position * length + number * chunk
    if at != end:
        return False
    where, frames, header = frame_tables(source), get(source, FrameWord.FRAMES), placed(source, HEADER)
    if position + placed(source, OFFSET) + frames > placed(source, STORED):
        return False
    begin, row = locate(where, position, 0, -1)
    file, byte, left = file_byte(where, begin, row)
    if left < frames * placed(source, STRIDE) - header:
        return False
    fd = descriptor(source, file)
    if fd < 0:
        return False
    put(connection, LentConnection.DESCRIPTOR, fd)
    put(connection, LentConnection.FILE, file)
    put(connection, LentConnection.BASE, byte - header)
    put(connection, LentConnection.DONE, 0)
    put(connection, LentConnection.BODY_LEFT, 0)
    return True
