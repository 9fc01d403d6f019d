"""The direct backend reads with O_DIRECT past the page cache, for disks faster than copying out of it.

Offsets, sizes and memory are aligned to what the device demands; bytes that this reads in excess at
both ends are cut off. If a file system refuses (tmpfs does), the file is read through the page
cache, with a warning.
"""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Callable
from functools import cache

import numpy as np

from vfs import kernels
from vfs.backends.handles import UNSEEN, Descriptor, Handles
from vfs.errors import SourceError, TruncatedSourceError
from vfs.kernels.columns import START, STOP
from vfs.model.files import Files
from vfs.model.one_state import Made
from vfs.model.wording import option
from vfs.sources.boundary import Boundary, open_file

_SAFE = 4096  # bytes: an alignment that every device accepts

NEAR = 1 << 16
"""Bytes: ranges with a smaller gap between them are read at once, with the gap.

A request took 0.12 ms here, 64 KiB more 0.1 ms. 4,000 rows of 128 KiB frames took 0.5 s one by one, 0.7 s
with all between them; eight times as many rows, 4 KiB apart, 16 s and 0.9 s."""


@cache
def alignment(device: int) -> int:
    """Return the bytes that offsets and sizes on a device must be multiples of.

    This is its logical block size, 4096 if that cannot be found.
    """
    at = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"
    for queue in (f"{at}/queue", f"{at}/../queue"):  # a partition's queue is its disk's
        try:
            with open(f"{queue}/logical_block_size", encoding="ascii") as file:
                return int(file.read())
        except (OSError, ValueError):
            continue
    return _SAFE


class _Direct:
    """A file open for direct reading, or for plain reading if that is refused (`step` is then 1)."""

    __slots__ = ("fd", "path", "seen", "step")

    def __init__(self, path: str, boundary: Boundary) -> None:
        self.fd = -1
        self.path = path
        self.seen = UNSEEN
        try:
            self.fd = open_file(path, boundary, os.O_DIRECT)
            self.step = alignment(os.fstat(self.fd).st_dev)
            if os.fstat(self.fd).st_size:
                os.preadv(self.fd, [_probe()], 0)  # some file systems refuse no earlier than here
        except OSError as refused:
            if isinstance(refused, SourceError) and refused.errno != errno.EINVAL:
                raise
            if self.fd >= 0:
                os.close(self.fd)
                self.fd = -1
            self.fd = open_file(path, boundary)
            self.step = 1
            why = os.strerror(refused.errno or 0)
            warnings.warn(
                f"{path}: direct I/O is refused here ({why}); reading through the page cache",
                RuntimeWarning,
                stacklevel=2,
            )

    # Modules may be gone by then: the interpreter is ending
    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        if self.fd >= 0:
            close(self.fd)


@cache
def _probe() -> memoryview:
    import mmap

    return memoryview(mmap.mmap(-1, _SAFE))


class DirectBackend:
    """Reads whole windows with O_DIRECT.

    If only some ranges of a window are wanted, it reads the blocks around each, and ranges that lie
    close together at once.
    """

    copies = True
    in_place = False
    margin = 2 * _SAFE
    window = 1 << 22
    descriptors: Handles[Descriptor] | None = None
    fetch = None
    parallel = 1

    def __init__(self, files: Files) -> None:
        self.files = files
        self.handles: Handles[_Direct] = Handles(files, _Direct)

    def span(
        self, file: int, start: int, stop: int, scratch: np.ndarray, wanted: np.ndarray | None = None, width: int = 0
    ) -> np.ndarray:
        opened = self.handles.get(file, start, stop)
        step = opened.step
        skip = -scratch.ctypes.data % _SAFE
        first = start // step * step
        memory = scratch[skip : skip + -(-(stop - first) // step) * step]
        if wanted is None:
            self._fill(opened, start, stop, memory, first)
        else:
            bad = kernels.fetch.read_ranges(opened.fd, wanted, memory, first, step, NEAR)
            if bad >= 0:  # one by one: the range that cannot be read raises the error that says why
                for a, b in wanted[bad:, START : STOP + 1].tolist():
                    self._fill(opened, a, b, memory, first)
        self.handles.check(opened, file, start, stop)
        return memory[start - first : stop - first]

    def lend(self, file: int, start: int, stop: int, read: Callable[[int], int]) -> None:
        """Lend nothing: these files can only be read in aligned blocks."""

    def at_hand(self, file: int, start: int, stop: int, read: Callable[[int, np.ndarray], bool]) -> bool:
        """Return False: every read goes to the disk."""
        return False

    def settled(self, make: Callable[[], Made]) -> Made:
        return make()  # `span` looks behind each read

    @staticmethod
    def _fill(opened: _Direct, start: int, stop: int, memory: np.ndarray, first: int) -> None:
        """Read bytes of a file to their places in memory, with the whole blocks that they begin and end in.

        Args:
            memory: uint8, whose first element stands for byte `first` of the file.
        """
        step = opened.step
        at, end = start // step * step, -(-stop // step) * step
        while at < stop:
            try:
                reached = at + os.preadv(opened.fd, [memory[at - first : end - first].data], at)
            except OSError as error:
                raise SourceError(
                    f"{opened.path}: bytes {start:,} to {stop:,} cannot be read: {error.strerror}"
                ) from None
            if reached < stop:
                reached = reached // step * step  # a read may end within a block: that block is read again
            if reached <= at:
                size = os.fstat(opened.fd).st_size
                if size < stop:
                    raise TruncatedSourceError(
                        f"{opened.path}: expected bytes {start:,} to {stop:,}, the file has {size:,}; it looks"
                        " truncated"
                    )
                raise SourceError(
                    f"{opened.path}: bytes {start:,} to {stop:,}: a direct read at byte {at:,} returned less than a"
                    f" block; try {option(backend='buffered')}"
                )
            at = reached
