"""The mmap backend: views of mapped files, without a copy.

The kernel is told what is read next where it cannot guess that: pages far from what was read of the file before, which it would otherwise
fetch fault by fault, each with as much around it as its read-ahead is long. Measured cold, interleaved, on a disk with read-ahead of 8 MiB: frames
of 128 KiB in random order take half the time and a tenth of the bytes, chunks of 2 MiB 0.73 of the time; where all is in memory it costs 5 of
44 us a frame. What is read in order the kernel does best by itself: with advice for every span a pass over all frames had 0.7 of its speed. So had
`pread` after `posix_fadvise`, 0.4 of it, and random frames gained nothing: the buffered backend gives no advice.
"""

from __future__ import annotations

import ctypes
import mmap
import os

import numpy as np

from vfs.backends.handles import Descriptor, Handles
from vfs.boundary import Boundary
from vfs.dataset import Files
from vfs.errors import SourceError, TruncatedSourceError

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64)
_LIBC.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_advise = _LIBC.madvise
_advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_PAGE = mmap.PAGESIZE
_NEAR = 4 << 20
"""Bytes: what lies no further from what was read last is read in order, perhaps by several threads."""

_FAILED = ctypes.c_void_p(-1).value


class _Mapping:
    """Mapped bytes of a file, unmapped when the last view of them goes.

    Python's own `mmap` keeps a descriptor for as long as a view lives: a list of frames out of 5,000 files would need 5,000.
    """

    __slots__ = ("__array_interface__", "_unmap", "at", "size")

    def __init__(self, fd: int, size: int) -> None:
        at = _LIBC.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
        if at is None or at == _FAILED:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        self.at, self.size = at, size
        self.__array_interface__ = {"version": 3, "typestr": "|u1", "shape": (size,), "data": (at, True)}  # True: read-only
        self._unmap = _LIBC.munmap

    def __del__(self) -> None:
        if hasattr(self, "_unmap"):
            self._unmap(self.at, self.size)


class _Map:
    """A mapped file, and its descriptor to ask how long it is now. `at`: its address; `last`: byte up to which it was read last."""

    __slots__ = ("at", "data", "descriptor", "fd", "last", "path")

    def __init__(self, path: str, boundary: Boundary) -> None:
        self.path = path
        self.last = 0
        self.descriptor = Descriptor(path, boundary)
        self.fd = self.descriptor.fd
        size = os.fstat(self.fd).st_size
        if size == 0:
            raise TruncatedSourceError(f"{path}: expected data, found an empty file")
        try:
            mapping = _Mapping(self.fd, size)
        except OSError as error:
            raise SourceError(f"{path}: cannot be mapped: {error.strerror}; try backend='buffered'") from None
        self.at, self.data = mapping.at, np.asarray(mapping)


class MmapBackend:
    """Views of mapped files. For one's own process: see `vfs.backends`."""

    copies = False
    in_place = False
    margin = 0
    window = 1 << 62

    def __init__(self, files: Files) -> None:
        self.handles: Handles[_Map] = Handles(files, _Map)

    def span(self, file: int, start: int, stop: int, scratch: np.ndarray, wanted: np.ndarray | None = None, width: int = 0) -> np.ndarray:
        mapped = self.handles.get(file, start, stop)  # a file that shrank must not be touched beyond its end
        if stop > mapped.data.size:  # it was shorter when it was mapped
            self.handles.drop(file)
            mapped = self.handles.get(file, start, stop)
        if stop > mapped.data.size:
            raise TruncatedSourceError(f"{mapped.path}: expected bytes {start:,} to {stop:,}, {mapped.data.size:,} were there when it was mapped")
        if not -_NEAR <= start - mapped.last <= _NEAR and 2 * _PAGE <= stop - start <= _NEAR:
            first = start // _PAGE * _PAGE
            _advise(mapped.at + first, stop - first, mmap.MADV_WILLNEED)  # whether the kernel does so is its own business
        mapped.last = stop
        return mapped.data[start:stop]
