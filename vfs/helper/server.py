"""Runs in the helper process, which asks a library for the process that started it.

Requests come through the socket that is its standard input. Each is a JSON text, with two
descriptors: the writing end of a pipe, and the file, open for reading. For each request a new fork
writes messages into the pipe. When the fork has ended, this process writes `STATUS` behind them: a
mark, and the fork's wait status. So the reader of the pipe learns how the fork ended. This process
ends when the other end of the socket is closed, or after some seconds without work, which its
argument sets.

It has one thread and imports no more than it needs, so forking it is safe. The cost of forking is
the pages that the fork then writes to: Python's garbage collector, which would write to all of
them, is kept from doing so.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

STATUS = struct.Struct("=Ii")
MARK = 0x656E6421
"""Marks the last bytes of a pipe as a status."""
MAX_REQUEST_BYTES = 1 << 16  # bytes of a request


Write = Callable[[bytes], None]

Reader = Callable[[dict[str, Any], int, Write], None]
"""Answers a request, in a fork: (request, descriptor of the file, which it closes, where messages go)."""


def serve(load: Callable[[], Reader], file_size: int = 0) -> None:
    """Answer requests until there are no more.

    Args:
        load: imports what every fork needs, and returns what answers.
        file_size: bytes that a file may have which the library writes, such as code that numba compiles; by default it
            writes nothing.
    """
    idle = float(sys.argv[1])
    for what, most in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, file_size)):
        resource.setrlimit(what, (most, most))  # not even when they crash
    # The parent may have blocked signals (threads of libfuse do): then the end of forks would go
    # unnoticed
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    ended, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    reading: dict[int, int] = {}  # fork -> pipe
    with socket.socket(fileno=0) as asked:
        read = load()
        gc.collect()
        gc.freeze()
        waiting = select.poll()
        waiting.register(asked, select.POLLIN)
        waiting.register(ended, select.POLLIN)
        while True:
            ready = [fd for fd, _ in waiting.poll(1000 * idle)]
            if not ready and not reading:
                return
            if ended in ready:
                os.read(ended, 1 << 16)
                _reap(reading)
            if asked.fileno() in ready:
                request, descriptors, _, _ = socket.recv_fds(asked, MAX_REQUEST_BYTES, 2)
                if not request:
                    return
                pipe, file = descriptors
                fork = os.fork()
                if fork == 0:
                    _answer(json.loads(request), pipe, file, read, [asked.detach(), ended, wake, *reading.values()])
                os.close(file)
                reading[fork] = pipe


def _reap(reading: dict[int, int]) -> None:
    """Write the status of the forks that have ended."""
    while reading:
        fork, status = os.waitpid(-1, os.WNOHANG)
        if fork == 0:
            return
        pipe = reading.pop(fork)
        with suppress(BrokenPipeError):  # no thread waits for it any more
            _write(pipe, STATUS.pack(MARK, status))
        os.close(pipe)


def _answer(request: dict[str, Any], pipe: int, file: int, read: Reader, others: Sequence[int]) -> None:
    """Read a file, in a fork. Does not return.

    Args:
        others: descriptors to close. If the fork kept the pipe of another fork, that pipe would not
            end before this fork.
    """
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for descriptor in others:
            os.close(descriptor)
        read(request, file, lambda data: _write(pipe, data))
    finally:
        os._exit(0)  # without the library's clean-up: it may be in any state


def _write(pipe: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(pipe, view) :]
