"""The mmap backend: views of mapped files, without a copy."""

from __future__ import annotations

import mmap

import numpy as np

from vfs.backends.handles import Descriptor, Handles
from vfs.dataset import Files
from vfs.errors import SourceError, TruncatedSourceError


class _Map:
    """A mapped file. An empty file has no map, only a size of 0."""

    __slots__ = ("data", "map", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        descriptor = Descriptor(path)
        try:
            self.map = mmap.mmap(descriptor.fd, 0, access=mmap.ACCESS_READ)
        except ValueError:  # an empty file cannot be mapped
            raise TruncatedSourceError(f"{path}: expected data, found an empty file") from None
        except OSError as error:
            raise SourceError(f"{path}: cannot be mapped: {error.strerror}; try backend='buffered'") from None
        self.data = np.frombuffer(self.map, np.uint8)


class MmapBackend:
    """Views of mapped files. For one's own process: see `vfs.backends`."""

    copies = False
    in_place = False
    margin = 0
    window = 1 << 62

    def __init__(self, files: Files) -> None:
        self.handles: Handles[_Map] = Handles(files, _Map)

    def span(self, file: int, start: int, stop: int, scratch: np.ndarray, wanted: np.ndarray | None = None) -> np.ndarray:
        mapped = self.handles.get(file)
        now = mapped.map.size()  # asks the file, not the map: a file that shrank must not be touched beyond its end
        if stop > now or stop > mapped.data.size:
            raise TruncatedSourceError(f"{mapped.path}: expected bytes {start:,} to {stop:,}, the file has {now:,}; it looks truncated")
        return mapped.data[start:stop]
