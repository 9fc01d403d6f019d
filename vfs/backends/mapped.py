"""The mmap backend: views of mapped files, without a copy."""

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
    """A mapped file, and its descriptor to ask how long it is now."""

    __slots__ = ("data", "descriptor", "fd", "path")

    def __init__(self, path: str, boundary: Boundary) -> None:
        self.path = path
        self.descriptor = Descriptor(path, boundary)
        self.fd = self.descriptor.fd
        size = os.fstat(self.fd).st_size
        if size == 0:
            raise TruncatedSourceError(f"{path}: expected data, found an empty file")
        try:
            self.data = np.asarray(_Mapping(self.fd, size))
        except OSError as error:
            raise SourceError(f"{path}: cannot be mapped: {error.strerror}; try backend='buffered'") from None


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
        return mapped.data[start:stop]
