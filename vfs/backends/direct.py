"""The direct backend: O_DIRECT, past the page cache, for disks faster than copying out of it.

Offsets, sizes and memory are aligned to what the device asks for; the head and the tail that this reads too much are cut off.
Where a file system refuses (tmpfs does), the file is read through the page cache, with a warning.
"""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Callable
from functools import cache

import numpy as np

from vfs.backends.handles import Handles
from vfs.boundary import Boundary, open_file
from vfs.dataset import Files
from vfs.errors import SourceError, TruncatedSourceError

_SAFE = 4096  # bytes: an alignment that every device accepts


@cache
def alignment(device: int) -> int:
    """Bytes that offsets and sizes on a device must be multiples of: its logical block size, 4096 where it cannot be found."""
    at = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"
    for queue in (f"{at}/queue", f"{at}/../queue"):  # a partition's queue is its disk's
        try:
            with open(f"{queue}/logical_block_size", encoding="ascii") as file:
                return int(file.read())
        except (OSError, ValueError):
            continue
    return _SAFE


class _Direct:
    """A file open for direct reading, or, where that is refused, for plain reading (`step` is then 1)."""

    __slots__ = ("fd", "path", "step")

    def __init__(self, path: str, boundary: Boundary) -> None:
        self.fd = -1
        self.path = path
        try:
            self.fd = open_file(path, boundary, os.O_DIRECT)
            self.step = alignment(os.fstat(self.fd).st_dev)
            if os.fstat(self.fd).st_size:
                os.preadv(self.fd, [_probe()], 0)  # some file systems refuse only here
        except OSError as refused:
            if isinstance(refused, SourceError) and refused.errno != errno.EINVAL:
                raise
            if self.fd >= 0:
                os.close(self.fd)
                self.fd = -1
            self.fd = open_file(path, boundary)
            self.step = 1
            why = os.strerror(refused.errno or 0)
            warnings.warn(f"{path}: direct I/O is refused here ({why}); reading through the page cache", RuntimeWarning, stacklevel=2)

    def __del__(self, close: Callable[[int], None] = os.close) -> None:  # modules may be gone by then: the interpreter is ending
        if self.fd >= 0:
            close(self.fd)


@cache
def _probe() -> memoryview:
    import mmap

    return memoryview(mmap.mmap(-1, _SAFE))


class DirectBackend:
    """O_DIRECT reads of whole windows; see the module."""

    copies = True
    in_place = False
    margin = 2 * _SAFE
    window = 1 << 22

    def __init__(self, files: Files) -> None:
        self.handles: Handles[_Direct] = Handles(files, _Direct)

    def span(self, file: int, start: int, stop: int, scratch: np.ndarray, wanted: np.ndarray | None = None, width: int = 0) -> np.ndarray:
        opened = self.handles.get(file, start, stop)
        step = opened.step
        skip = -scratch.ctypes.data % _SAFE
        first = start // step * step
        memory = scratch[skip : skip + -(-(stop - first) // step) * step]
        done = 0
        while first + done < stop:
            try:
                got = os.preadv(opened.fd, [memory[done:].data], first + done)
            except OSError as error:
                raise SourceError(f"{opened.path}: bytes {start:,} to {stop:,} cannot be read: {error.strerror}") from None
            done += got
            if first + done < stop and (got == 0 or got % step):  # only the end of a file gives less than whole blocks
                size = os.fstat(opened.fd).st_size
                raise TruncatedSourceError(f"{opened.path}: expected bytes {start:,} to {stop:,}, the file has {size:,}; it looks truncated")
        now, files = os.fstat(opened.fd), self.handles.files
        if now.st_mtime_ns != files.times[file] and files.sizes[file] >= 0:  # it was written meanwhile
            raise self.handles.wrong(opened, file, start, stop, now)
        return memory[start - first : stop - first]
