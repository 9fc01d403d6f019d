"""Backends for tests: one that is memory, and three that each *are* a backend around another one.

`MemoryBackend` needs no files. `CountingBackend` logs what is read, `FailingBackend` refuses some of it, `SlowBackend` takes
its time. They wrap instead of switching: `CountingBackend(SlowBackend(BufferedBackend(files), 0.01))`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from vfs.backends import Backend
from vfs.dataset import Files
from vfs.errors import SourceError, TruncatedSourceError
from vfs.kernels.fetch import GAP
from vfs.kernels.ranges import DEST, START, STOP

JUNK = 0xA5
"""What `MemoryBackend` puts into bytes that nobody asked for."""


def memory_files(contents: Sequence[bytes]) -> Files:
    """Files that exist only in memory, called `memory:0`, `memory:1`, …"""
    sizes = np.array([len(content) for content in contents], np.int64)
    return Files(tuple(f"memory:{n}" for n in range(len(contents))), sizes, np.zeros(len(contents), np.int64))


class MemoryBackend:
    """Files as bytes in memory.

    Args:
        contents: one a file.
        copies: False: views, as of a mapped file. True: bytes are copied into the scratch memory, as if they were read.
        window: bytes that are fetched at once; by default all.
    """

    def __init__(self, contents: Sequence[bytes], *, copies: bool = False, window: int = 1 << 62) -> None:
        self.contents = [np.frombuffer(content, np.uint8) for content in contents]
        self.copies = self.in_place = copies
        self.margin = 0
        self.window = window

    def span(self, file: int, start: int, stop: int, scratch: np.ndarray, wanted: np.ndarray | None = None, width: int = 0) -> np.ndarray:
        content = self.contents[file]
        if not 0 <= start <= stop <= content.size:
            raise TruncatedSourceError(f"memory:{file}: expected bytes {start:,} to {stop:,}, the file has {content.size:,}; it looks truncated")
        if not self.copies:
            return content[start:stop]
        if width:
            assert wanted is not None
            for a, b, to in wanted[:, START : DEST + 1].tolist():
                scratch[to * width : to * width + b - a] = content[a:b]
            return scratch
        out = scratch[: stop - start]
        if wanted is None:
            out[:] = content[start:stop]
        else:
            out[:] = JUNK
            for a, b in wanted[:, START : STOP + 1].tolist():
                out[a - start : b - start] = content[a:b]
        return out


class _Around:
    """A backend that does what the one inside does."""

    def __init__(self, inner: Backend) -> None:
        self.inner = inner
        self.copies = inner.copies
        self.in_place = inner.in_place
        self.margin = inner.margin
        self.window = inner.window

    def span(self, file: int, start: int, stop: int, scratch: np.ndarray, wanted: np.ndarray | None = None, width: int = 0) -> np.ndarray:
        return self.inner.span(file, start, stop, scratch, wanted, width)


@dataclass(frozen=True)
class Read:
    """One call of `span`: file, bytes `start` to `stop`, and how many of them a backend that reads would fetch."""

    file: int
    start: int
    stop: int
    nbytes: int


class CountingBackend(_Around):
    """Logs every read.

    Bytes are counted as `buffered` fetches them: all of a span, or, where only some ranges of it are wanted, these and the
    gaps between them that are shorter than a page. Put it around a backend that copies: one that maps is asked for
    everything between the first and the last byte, whatever is touched of it.

    Attributes:
        reads: the log.
    """

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self.reads: list[Read] = []

    @property
    def nbytes(self) -> int:
        """Bytes fetched so far."""
        return sum(read.nbytes for read in self.reads)

    def span(self, file: int, start: int, stop: int, scratch: np.ndarray, wanted: np.ndarray | None = None, width: int = 0) -> np.ndarray:
        self.reads.append(Read(file, start, stop, stop - start if wanted is None else _fetched(wanted)))
        return self.inner.span(file, start, stop, scratch, wanted, width)


def _fetched(wanted: np.ndarray) -> int:
    total, end = 0, None
    for a, b in sorted(wanted[:, START : STOP + 1].tolist()):
        if end is not None and a <= end + GAP:
            total += max(0, b - end)
            end = max(end, b)
        else:
            total += b - a
            end = b
    return total


class FailingBackend(_Around):
    """Refuses what a rule says.

    Args:
        fails: (file, first byte, last byte half-open) -> True where reading them fails. It can be exchanged at any time.
    """

    def __init__(self, inner: Backend, fails: Callable[[int, int, int], bool] = lambda file, start, stop: True) -> None:
        super().__init__(inner)
        self.fails = fails

    def span(self, file: int, start: int, stop: int, scratch: np.ndarray, wanted: np.ndarray | None = None, width: int = 0) -> np.ndarray:
        ranges = [[start, stop]] if wanted is None else wanted[:, START : STOP + 1].tolist()
        for a, b in ranges:
            if self.fails(file, a, b):
                raise SourceError(f"file {file}: bytes {a:,} to {b:,} cannot be read: it was asked to fail")
        return self.inner.span(file, start, stop, scratch, wanted, width)


class SlowBackend(_Around):
    """Waits before every read.

    Args:
        seconds: how long.
    """

    def __init__(self, inner: Backend, seconds: float) -> None:
        super().__init__(inner)
        self.seconds = seconds

    def span(self, file: int, start: int, stop: int, scratch: np.ndarray, wanted: np.ndarray | None = None, width: int = 0) -> np.ndarray:
        time.sleep(self.seconds)
        return self.inner.span(file, start, stop, scratch, wanted, width)
