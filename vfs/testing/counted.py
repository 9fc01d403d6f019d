"""Counts the bytes that are really read, as the kernel does: `rchar` of /proc/PID/io.

See `man 5 proc_pid_io`. Bytes that read, pread and their relatives return are counted, whether a
disk or the page cache gives them. Mapped memory is not counted. Linux only; a kernel without task
accounting has no such file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def counted(work: Callable[[], T], process: int | str = "self") -> tuple[T, int]:
    """Call a function, and count the bytes that a process reads meanwhile.

    Args:
        work: the function.
        process: id of the process that reads; "self" for this one with all its threads;
            "thread-self" for this thread.

    Returns: (what `work` returns, bytes).

    Raises:
        OSError: this kernel does not count.
    """
    fd = os.open(f"/proc/{process}/io", os.O_RDONLY)
    try:
        before = os.pread(fd, 1024, 0)
        done = work()
        after = os.pread(fd, 1024, 0)
    finally:
        os.close(fd)
    own = len(before) if isinstance(process, str) else 0  # reading the count is counted, too
    return done, _bytes(after) - _bytes(before) - own


def _bytes(text: bytes) -> int:
    found = re.search(rb"^rchar: (\d+)$", text, re.MULTILINE)
    if found is None:
        raise OSError(f"/proc/…/io: expected a line `rchar: BYTES`, found {text[:80]!r}")
    return int(found[1])
