"""Sends memory to sockets in a thread that never needs the interpreter.

An event loop that sends large bodies itself copies them to the system's memory while it could answer the next request.
So it writes a job to a pipe, and reads from another one how many bytes went out. The thread runs `send`.
"""

from __future__ import annotations

from enum import auto

import numpy as np
from numba import types

from vfs.kernels.compiled import kernel
from vfs.kernels.fuse.native import peek, poke, put, room
from vfs.kernels.fuse.tables import WORD, Iovec, Words
from vfs.kernels.intrinsics import read, write

WAIT = 2
"""Milliseconds that a socket which is full may take to have room again. Then the event loop waits for it."""


class Job(Words):
    """Words of a job."""

    NUMBER = auto()  # which comes back with the bytes that were sent
    SOCKET = auto()  # descriptor of a socket that does not block
    HEAD = auto()  # address of what is sent first
    HEAD_BYTES = auto()
    BODY = auto()  # address of what is sent next
    BODY_BYTES = auto()


class Done(Words):
    """Words of what is said of a job that is over."""

    NUMBER = auto()
    SENT = auto()  # bytes of head and body; fewer than all of them: the socket has no room, or is broken


_JOB_BYTES, _DONE_BYTES, _VECTOR = len(Job) * WORD, len(Done) * WORD, len(Iovec)
_POLL_IN, _POLL_OUT = 1, 4  # flags of poll(2)
# A struct pollfd is a word: int32 descriptor, int16 events, int16 what happened
_EVENTS, _HAPPENED = 32, 48

_room_for_job = room(len(Job))
_room_for_done = room(len(Done))
_room_for_vectors = room(2 * _VECTOR)
_room_for_polls = room(2)

_writev = types.ExternalFunction("writev", types.intp(types.int32, types.intp, types.int32))
_poll = types.ExternalFunction("poll", types.int32(types.intp, types.uint64, types.int32))


@kernel(error_model="numpy")
def send(jobs, done):
    """Send what the jobs of a pipe ask for, until its other end is closed.

    A socket that has no room is waited for only while no other job waits, and not for long.

    Args:
        jobs: descriptor of a pipe that holds jobs, see `Job`.
        done: descriptor of a pipe that takes what is said of them, see `Done`.
    """
    job, said, vectors, polls = _room_for_job(), _room_for_done(), _room_for_vectors(), _room_for_polls()
    while read(np.int32(jobs), job, _JOB_BYTES) == _JOB_BYTES:
        socket = peek(job + Job.SOCKET * WORD)
        head, body = peek(job + Job.HEAD_BYTES * WORD), peek(job + Job.BODY_BYTES * WORD)
        sent, failed = 0, False
        while sent < head + body:
            first, second = min(sent, head), max(0, sent - head)
            put(vectors, Iovec.ADDRESS, peek(job + Job.HEAD * WORD) + first)
            put(vectors, Iovec.LENGTH, head - first)
            put(vectors, _VECTOR + Iovec.ADDRESS, peek(job + Job.BODY * WORD) + second)
            put(vectors, _VECTOR + Iovec.LENGTH, body - second)
            took = _writev(np.int32(socket), vectors, np.int32(2))
            if took > 0:
                sent, failed = sent + took, False
                continue
            poke(polls, socket | _POLL_OUT << _EVENTS)
            poke(polls + WORD, jobs | _POLL_IN << _EVENTS)
            room = _poll(polls, np.uint64(2), np.int32(WAIT)) > 0 and peek(polls) >> _HAPPENED == _POLL_OUT
            if failed or not room:  # with room, it fails twice only if it is broken
                break
            failed = True
        put(said, Done.NUMBER, peek(job + Job.NUMBER * WORD))
        put(said, Done.SENT, sent)
        write(np.int32(done), said, _DONE_BYTES)
