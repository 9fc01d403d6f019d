"""The other process: reads HDF5 files for the one that started it, each in a fork of its own.

Requests come through the socket that is its standard input, a JSON text each with the writing end of a pipe: {"path", "folders", "files"}.
The facts go into the pipe (`vfs.h5.reading`), and behind them, once the fork that wrote them has ended, 4 bytes with its wait status. So
whoever reads the pipe to its end knows what became of it. The process ends with the other end of the socket, or when it had nothing to do for as many
seconds as its argument says.

It has one thread and imports no more than it needs, so forking it is safe and takes about a millisecond.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any

from vfs.boundary import Boundary

STATUS = struct.Struct("=i")
LONGEST = 1 << 16  # bytes of a request


def main() -> None:
    """Answer requests until there are no more."""
    idle = float(sys.argv[1])
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # forks that have ended leave nothing
    for what in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE):
        resource.setrlimit(what, (0, 0))  # libhdf5 writes nothing, not even when it crashes
    with socket.socket(fileno=0) as asked:
        read = _reader()
        waiting = select.poll()
        waiting.register(asked, select.POLLIN)
        while True:
            while not waiting.poll(1000 * idle):
                if not _busy():
                    return
            request, descriptors, _, _ = socket.recv_fds(asked, LONGEST, 1)
            if not request:
                return
            pipe = descriptors[0]
            if os.fork() == 0:
                asked.close()
                _watch(json.loads(request), pipe, read)
            os.close(pipe)


def _busy() -> bool:
    """Whether a fork is still reading a file."""
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


def _reader() -> Callable[[dict[str, Any], int], None]:
    """What reads a file, or says why nothing can."""
    from vfs.h5.facts import packed

    try:
        from vfs.h5.reading import read
    except ImportError as error:
        missing = packed({"missing": str(error)})
        return lambda request, pipe: _write(pipe, missing)

    def answer(request: dict[str, Any], pipe: int) -> None:
        boundary = Boundary(tuple(request["folders"]), tuple(request["files"]))
        read(request["path"], boundary, lambda data: _write(pipe, data))

    return answer


def _watch(request: dict[str, Any], pipe: int, read: Callable[[dict[str, Any], int], None]) -> None:
    """Read a file in a fork, wait for its end and say what became of it. Does not return."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        try:
            read(request, pipe)
        finally:
            os._exit(0)  # without taking leave of libhdf5, which may be in any state
    try:
        _write(pipe, STATUS.pack(os.waitpid(child, 0)[1]))
    finally:
        os._exit(0)


def _write(pipe: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(pipe, view) :]
