"""A file of sources as a stream that can seek."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any


class SourceStream(io.RawIOBase):
    """A file as a stream that can seek.

    Args:
        read: reads so many bytes from a byte on, fewer only at the end, or at least some of them.
        size: bytes of the file.
    """

    def __init__(self, read: Callable[[int, int], bytes], size: int) -> None:
        self._read, self._size, self._at = read, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = max(0, offset + (0, self._at, self._size)[whence])
        return self._at

    def tell(self) -> int:
        return self._at

    def readall(self) -> bytes:
        parts = []
        while self._at < self._size and (data := self._read(self._at, self._size - self._at)):
            self._at += len(data)
            parts.append(data)
        return b"".join(parts)

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        data = self._read(self._at, len(view))
        view[: len(data)] = data
        self._at += len(data)
        return len(data)
