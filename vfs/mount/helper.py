"""What is left behind when a server is killed: with libfuse's option `auto_unmount` a fusermount waits until a socket that libfuse opened is closed,
looks at the mount point, and clears it where that fails with ENOTCONN.

When a process is killed, Linux closes its files by their numbers, and then lets go of them the other way round (task works run last in, first out).
libfuse's socket has the number above that of /dev/fuse, so the helper was woken before the connection was cut. Where it looked at once, the
folder still answered (nobody is asked who opens a folder), and it went away for good: under load one mount of seven stayed.
`Helper` gives the socket a number below that of /dev/fuse, which is closed for good before the helper wakes.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress


class Helper:
    """The socket of one mount. To be made before libfuse opens anything."""

    def __init__(self) -> None:
        self._low = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._before = set(_numbers())

    def begin(self) -> None:
        """The mount is there: move the socket to a number below. What it had is /dev/null, which libfuse may close. Without one, nothing is done."""
        with suppress(OSError):  # no descriptor left: then it stays where it is
            found = [fd for fd in _numbers() if fd not in self._before and _pair_of_ours(fd)]
            if self._low >= 0 and len(found) == 1 and found[0] > self._low:
                null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
                os.dup2(found[0], self._low, inheritable=False)
                os.dup2(null, found[0], inheritable=False)
                os.close(null)

    def end(self) -> None:
        """The mount is gone: the helper has nothing to wait for. Once is enough, more do no harm."""
        low, self._low = self._low, -1
        if low >= 0:
            os.close(low)


def _numbers() -> Iterator[int]:
    return map(int, os.listdir("/proc/self/fd"))


def _pair_of_ours(fd: int) -> bool:
    """Whether this is an end of a pair of sockets that this process made."""
    with suppress(OSError):
        found = socket.socket(fileno=fd)
        try:
            if found.family == socket.AF_UNIX and found.type == socket.SOCK_STREAM:
                pid, _, _ = struct.unpack("3i", found.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
                return bool(pid == os.getpid())
        finally:
            found.detach()
    return False
