"""The mmap backend returns views of mapped files, without a copy.

Files are mapped in windows of 64 GiB, the smaller ones whole. A process keeps the windows used
last, as many as it may keep files open (`handles.limit`: 1,024, 64 TiB of 128 TiB of addresses); a
view keeps its own window. If no addresses are left, or a file system does not map its files, the
bytes are read into memory instead.

The kernel gets advice (madvise) about reads that it cannot predict: those far from the last read of
the file. Without advice it would fetch their pages fault by fault, each with as much around it as
its read-ahead is long. Measured cold, interleaved, on a disk with read-ahead of 8 MiB: frames of
128 KiB in random order take half the time and a tenth of the bytes, chunks of 2 MiB 0.73 of the
time; if all is in memory it costs 5 of 44 µs a frame. Reads in order get no advice, because the
kernel reads ahead better by itself: with advice for every span a pass over all frames had 0.7 of
its speed. `pread` after `posix_fadvise` had 0.4 of it, and random frames gained nothing: so the
buffered backend gives no advice. So do short lines that lie far apart in a span, as those of a part of a large image: a
region of 500 × 500 of one with lines of 8 MB took 6 s, since each fault brought 8 MiB, and takes 10 ms (`APART`).

Pages of files count as memory of the process for as long as they are mapped, although the system may take them back:
a pass over 26 GiB had 23 GiB, which batch systems and people take for need. So after `HELD` bytes the process lets go
of all: the page cache keeps them, and who reads them again, or still uses a view, has them mapped again fault by fault.
Sum of 3 GiB in the page cache, processor time of whole processes, means of six in turns: 0.95 s, without letting go
0.96, buffered 0.96.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, local

import numpy as np

from vfs import kernels
from vfs.backends.handles import UNSEEN, Descriptor, Handles, fill, open_handles, release
from vfs.model.files import Files
from vfs.model.one_state import Made
from vfs.sources.boundary import Boundary

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64)
_LIBC.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_advise = _LIBC.madvise
_advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_PAGE = mmap.PAGESIZE
_NEAR = 4 << 20
"""Bytes: a read no further than this from the last one counts as reading in order, perhaps by several threads."""

_FAILED = ctypes.c_void_p(-1).value

WINDOW = 1 << 36
"""Bytes of a file that are mapped at once."""

STEP = WINDOW // 2
"""Bytes from the beginning of a window to that of the next one.

Windows overlap, so that a span no longer than this lies in one window, wherever it begins."""

HELD = 512 << 20
"""Bytes of files that a process has mapped in at once, about: then it lets go of them."""

PASSED = 64 << 20
"""The same while something reads files from beginning to end, and each byte once: see `one_pass`."""

_PIECE = 22  # bits of a byte's place in a window: pieces of 4 MiB were touched, or not


class _Mapping:
    """Mapped bytes of a file, unmapped when the last view of them goes.

    Python's own `mmap` keeps a descriptor for as long as a view lives: a list of frames out of
    5,000 files would need 5,000.
    """

    __slots__ = ("__array_interface__", "_unmap", "at", "size")

    def __init__(self, fd: int, start: int, size: int) -> None:
        at = _LIBC.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, fd, start)
        if at is None or at == _FAILED:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        self.at, self.size = at, size
        # True: read-only
        self.__array_interface__ = {"version": 3, "typestr": "|u1", "shape": (size,), "data": (at, True)}
        self._unmap = _LIBC.munmap

    def __del__(self) -> None:
        if hasattr(self, "_unmap"):
            self._unmap(self.at, self.size)


_REFUSED = np.empty(0, np.uint8)


def _mapped(fd: int, start: int, size: int, insist: bool) -> np.ndarray:
    """Map bytes of a file. Returns `_REFUSED` if that is not possible.

    Args:
        start: first byte, a multiple of the page size.
        insist: if no addresses are left, first close the windows that nobody is using just now.
    """
    if size <= 0:
        return _REFUSED
    try:
        return np.asarray(_Mapping(fd, start, size))
    except OSError as error:
        if error.errno != errno.ENOMEM or not insist:
            return _REFUSED
    release()
    return _mapped(fd, start, size, insist=False)


class _Window:
    """A window of a file, and the file's descriptor, which tells how long it is now.

    Attributes:
        data: uint8, the bytes of the window that the file had when it was mapped; None if it is not
            mapped yet.
        at: address of `data`.
        last: byte of the file at which the last read ended.
        touched: for each piece of the window whether it was read since the process let go of it.
    """

    __slots__ = ("at", "data", "descriptor", "fd", "last", "path", "seen", "touched")

    def __init__(self, path: str, boundary: Boundary) -> None:
        self.path = path
        self.seen = UNSEEN
        self.last = 0
        self.descriptor = Descriptor(path, boundary)
        self.fd = self.descriptor.fd
        self.data: np.ndarray | None = None
        self.at = 0
        self.touched = bytearray()

    def map(self, base: int) -> np.ndarray:
        """Map the window that begins at byte `base`. Returns `data`."""
        data = _mapped(self.fd, base, min(WINDOW, os.fstat(self.fd).st_size - base), insist=True)
        self.at, self.data = data.ctypes.data, data
        self.touched = bytearray((len(data) >> _PIECE) + 1)
        return data

    def touch(self, first: int, last: int) -> None:
        """Note that pieces `first` to `last` are read. Lets go of all windows once there are many."""
        global _held
        count = last + 1 - first
        _held += (count - self.touched[first : last + 1].count(1)) << _PIECE
        self.touched[first : last + 1] = b"\1" * count
        if _held > (PASSED if _passes else HELD):
            _held = 0
            for window in open_handles():
                if isinstance(window, _Window):
                    window.let_go()

    def let_go(self) -> None:
        """Have the system take the pages of this window out of the process. They stay in the page cache."""
        data = self.data  # keeps the mapping: once it is gone, its addresses may be somebody else's
        if data is not None and 1 in self.touched:
            self.touched = bytearray(len(self.touched))
            _advise(data.ctypes.data, len(data), mmap.MADV_DONTNEED)


_held = 0  # bytes of the pieces that were touched since the process last let go; threads count without a lock
_passes = 0
_lock = Lock()


@contextmanager
def one_pass() -> Iterator[None]:
    """Have this process map in at most about `PASSED` bytes of files meanwhile: nothing is read a second time."""
    global _passes
    with _lock:
        _passes += 1
    try:
        yield
    finally:
        with _lock:
            _passes -= 1


class _Used(local):
    """Holds the windows of which a thread has views, within `settled`: (file, part). None outside."""

    windows: set[tuple[int, int]] | None = None


class MmapBackend:
    """Returns views of mapped files. For one's own process: see `vfs.backends`."""

    copies = False
    in_place = False
    margin = 0
    window = 1 << 26  # a file that cannot be mapped is read in pieces of this size
    descriptors: Handles[Descriptor] | None = None
    fetch = None
    parallel = 1

    def __init__(self, files: Files) -> None:
        self.files = files
        self.handles: Handles[_Window] = Handles(files, _Window)
        self._used = _Used()

    def span(
        self, file: int, start: int, stop: int, scratch: np.ndarray, wanted: np.ndarray | None = None, width: int = 0
    ) -> np.ndarray:
        global _held
        part = start // STEP
        window = self.handles.get(file, start, stop, part)  # a file that shrank must not be touched beyond its end
        if (used := self._used.windows) is not None:
            used.add((file, part))
        base = part * STEP
        data = window.data
        if data is None:
            data = window.map(base)
        if stop - base > len(data):
            return self._beyond(window, file, start, stop)
        if wanted is not None:
            kernels.fetch.read_ahead(window.at - base, wanted, _PAGE)
        elif not -_NEAR <= start - window.last <= _NEAR and 2 * _PAGE <= stop - start <= _NEAR:
            first = start // _PAGE * _PAGE
            _advise(window.at + first - base, stop - first, mmap.MADV_WILLNEED)  # the kernel may ignore it
        window.last = stop
        first, last = (start - base) >> _PIECE, (stop - 1 - base) >> _PIECE
        touched = window.touched
        if start < stop and not (touched[first] and touched[last]):
            most = PASSED if _passes else HELD
            if first == last and _held < most:  # without a call: what reads one chunk counts them
                touched[first] = 1
                _held += 1 << _PIECE
            else:
                window.touch(first, last)
        return data[start - base : stop - base]

    def lend(self, file: int, start: int, stop: int, read: Callable[[int], int]) -> None:
        """Lend nothing: callers use views, and need no file."""

    def at_hand(self, file: int, start: int, stop: int, read: Callable[[int, np.ndarray], bool]) -> bool:
        """Return False: callers use views."""
        return False

    def settled(self, make: Callable[[], Made]) -> Made:
        holds = self._used
        used: set[tuple[int, int]] = set()  # `set[…]()` would take 1 µs of the 20 for a small frame
        outer, holds.windows = holds.windows, used
        try:
            made = make()
        finally:
            holds.windows = outer
        for window in used:
            self.handles.again(*window)
        return made

    def _beyond(self, window: _Window, file: int, start: int, stop: int) -> np.ndarray:
        """Return the bytes `start` to `stop`, which the window does not have.

        It was refused, it ends before, or the file was shorter when it was mapped.
        """
        had = 0 if window.data is None else window.data.size
        if 0 < had < WINDOW:
            self.handles.drop(file)
            return self.span(file, start, stop, _REFUSED)
        first = start // _PAGE * _PAGE
        data = _mapped(window.fd, first, stop - first, insist=had > 0)[start - first :]
        if data.size < stop - start:
            data = np.empty(stop - start, np.uint8)
            fill(window, start, data)
            data.flags.writeable = False
        return data
