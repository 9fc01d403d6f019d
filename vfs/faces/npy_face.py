"""Shows an array as one .npy file."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.lib import format as npy

from vfs.engine.array import ArrayReader
from vfs.engine.chunk_access import Chunks
from vfs.faces.face import ArrayPart, FileFace, Node


@lru_cache(1 << 10)
def _npy_header(descr: str, shape: tuple[int, ...]) -> bytes:
    written = io.BytesIO()
    npy.write_array_header_1_0(written, {"descr": descr, "fortran_order": False, "shape": shape})
    return written.getvalue()


class NpyFace(FileFace):
    """Shows one array as a .npy file, with the same bytes that `np.save` writes (version 1.0, C order)."""

    def __init__(self, array: ArrayReader) -> None:
        self.array = array
        self._chunks = Chunks(array)
        self.header = _npy_header(array.dtype.newbyteorder("<").str, array.shape)
        super().__init__(Node(False, len(self.header) + array.nbytes))
        self._part = ArrayPart(array, (), True, self.header)

    def part(self, key: str) -> ArrayPart | None:
        return None if key else self._part

    def at_once(self, key: str, start: int, stop: int) -> memoryview | None:
        return None if key else self._bytes(start, stop, self._chunks.run_at_once)

    def get(self, key: str, start: int = 0, stop: int | None = None) -> memoryview | None:
        if key:
            return None
        size = len(self.header) + self.array.nbytes
        stop = size if stop is None else min(stop, size)
        return self._bytes(min(start, stop), stop, self._chunks.run)

    def _bytes(self, start: int, stop: int, run: Callable[[int, int], np.ndarray | None]) -> memoryview | None:
        """Return bytes of the file; None if `run`, which reads bytes of the array, does."""
        head = self.header[start:stop]
        a, b = max(0, start - len(self.header)), max(0, stop - len(self.header))
        if a >= b:
            return memoryview(head)
        body = run(a, b)
        if body is None:
            return None
        return memoryview(head + body.data) if head else body.data
