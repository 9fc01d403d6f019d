"""Sends the head and the parts of a body to a socket, as far as it has room."""

from __future__ import annotations

import numpy as np

from vfs.kernels.clib import errno_location, sendmsg
from vfs.kernels.compiled import inner
from vfs.kernels.intrinsics import get
from vfs.kernels.native.http.filling import ask_ahead, fill
from vfs.kernels.native.http.words import ChunkSource, LentConnection
from vfs.kernels.native.memory import peek32, put, room
from vfs.kernels.native.words import FrameWord, Iovec

_DONT_WAIT, _NO_SIGNAL, _MORE = 0x40, 0x4000, 0x8000  # flags of send(2)
_AGAIN = 11  # EAGAIN
_VECTOR = len(Iovec)
_MESSAGE = 7  # words of struct msghdr
_room_for_vectors = room(2 * _VECTOR)
_room_for_message = room(_MESSAGE)


@inner
def send(state, connection, thread_block):
    """Send what is left of an answer. Returns 1: all is sent; 0: the socket has no room; -1: it cannot be ended."""
    source, socket = get(connection, LentConnection.SOURCE), np.int32(get(connection, LentConnection.SOCKET))
    vectors, message = _room_for_vectors(), _room_for_message()
    while True:
        head, body = get(connection, LentConnection.HEAD_LEFT), get(connection, LentConnection.BODY_LEFT)
        if head + body == 0:
            filled = fill(connection, source, thread_block, False)
            if filled <= 0:
                return 1 if filled == 0 else -1
            continue
        ask_ahead(state, connection, source)
        put(vectors, Iovec.ADDRESS, get(connection, LentConnection.HEAD_AT))
        put(vectors, Iovec.LENGTH, head)
        put(vectors, _VECTOR + Iovec.ADDRESS, get(connection, LentConnection.BODY_AT))
        put(vectors, _VECTOR + Iovec.LENGTH, body)
        for word in range(_MESSAGE):
            put(message, word, 0)
        put(message, 2, vectors)
        put(message, 3, 2)
        more = _MORE if more_follows(connection, source) else 0
        sent = sendmsg(socket, message, np.int32(_DONT_WAIT | _NO_SIGNAL | more))
        if sent < 0:
            return 0 if peek32(errno_location()) == _AGAIN else -1
        of_head = min(head, sent)
        put(connection, LentConnection.HEAD_AT, get(connection, LentConnection.HEAD_AT) + of_head)
        put(connection, LentConnection.HEAD_LEFT, head - of_head)
        put(connection, LentConnection.BODY_AT, get(connection, LentConnection.BODY_AT) + sent - of_head)
        put(connection, LentConnection.BODY_LEFT, body - (sent - of_head))


@inner
def more_follows(connection, source):
    """Return True if another piece follows."""
    done = get(connection, LentConnection.DONE)
    return done < 2 if get(source, ChunkSource.MAPPED) else done < get(source, FrameWord.FRAMES)
