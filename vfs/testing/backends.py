"""Offers backends for tests: one in memory, and three that wrap another backend.

`MemoryBackend` needs no files. `CountingBackend` logs reads, `FailingBackend` refuses some of them,
`SlowBackend` waits before each one. They can be combined:
`CountingBackend(SlowBackend(BufferedBackend(files), 0.01))`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from vfs.backends import Backend
from vfs.backends.handles import Descriptor, Handles
from vfs.errors import SourceError, TruncatedSourceError
from vfs.kernels.columns import DEST, START, STOP
from vfs.model.file_state import FileState
from vfs.model.files import Files
from vfs.model.one_state import Made
from vfs.sources.local import LocalSources
from vfs.sources.names import absolute
from vfs.testing.counted import counted

JUNK = 0xA5
"""The value that `MemoryBackend` gives to bytes that were not requested."""


def local_files(paths: Sequence[str | os.PathLike[str]], missing_ok: bool = False) -> Files:
    """Return files of this machine, wherever they lie."""
    return Files.stat(LocalSources(), [absolute(path) for path in paths], missing_ok)


def memory_files(contents: Sequence[bytes]) -> Files:
    """Return files that exist only in memory, called `memory:0`, `memory:1`, …"""
    names = [f"memory:{n}" for n in range(len(contents))]
    return Files.of(names, [FileState(len(content)) for content in contents], LocalSources())


class MemoryBackend:
    """Reads files that are bytes in memory.

    Args:
        contents: the bytes of each file.
        copies: False returns views, as of a mapped file. True copies bytes into the scratch memory,
            as if they were read.
        window: number of bytes that are fetched at once; by default all.
    """

    def __init__(self, contents: Sequence[bytes], *, copies: bool = False, window: int = 1 << 60) -> None:
        self.files = memory_files(contents)
        self.contents = [np.frombuffer(content, np.uint8) for content in contents]
        self.copies = self.in_place = copies
        self.margin = 0
        self.window = window
        self.descriptors: Handles[Descriptor] | None = None
        self.fetch, self.parallel = None, 1

    def span(
        self, file: int, start: int, stop: int, scratch: np.ndarray, wanted: np.ndarray | None = None, width: int = 0
    ) -> np.ndarray:
        content = self.contents[file]
        if not 0 <= start <= stop <= content.size:
            raise TruncatedSourceError(
                f"memory:{file}: expected bytes {start:,} to {stop:,}, the file has {content.size:,}; it looks"
                " truncated"
            )
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

    def lend(self, file: int, start: int, stop: int, read: Callable[[int], int]) -> None:
        """Lend no descriptor, since there is no file."""

    def at_hand(self, file: int, start: int, stop: int, read: Callable[[int, np.ndarray], bool]) -> bool:
        """Return False: there is no file."""
        return False

    def settled(self, make: Callable[[], Made]) -> Made:
        return make()  # these bytes never change


class _WrappingBackend:
    """Wraps a backend, and forwards every call to it."""

    def __init__(self, inner: Backend) -> None:
        self.inner = inner
        self.files = inner.files
        self.copies = inner.copies
        self.in_place = inner.in_place
        self.margin = inner.margin
        self.window = inner.window
        self.descriptors: Handles[Descriptor] | None = None
        self.fetch, self.parallel = None, 1

    def span(
        self, file: int, start: int, stop: int, scratch: np.ndarray, wanted: np.ndarray | None = None, width: int = 0
    ) -> np.ndarray:
        return self.inner.span(file, start, stop, scratch, wanted, width)

    def lend(self, file: int, start: int, stop: int, read: Callable[[int], int]) -> int | None:
        return self.inner.lend(file, start, stop, read)

    def at_hand(self, file: int, start: int, stop: int, read: Callable[[int, np.ndarray], bool]) -> bool:
        return self.inner.at_hand(file, start, stop, read)

    def settled(self, make: Callable[[], Made]) -> Made:
        return self.inner.settled(make)


@dataclass(frozen=True)
class Read:
    """Records one call of `span` or `lend`.

    Attributes:
        file: number of the file.
        start, stop: the requested bytes.
        nbytes: number of bytes that the kernel gave to the thread during the call.
    """

    file: int
    start: int
    stop: int
    nbytes: int


class CountingBackend(_WrappingBackend):
    """Logs every call that reads, with the number of bytes that were really read.

    The kernel counts them (see `vfs.testing.counted`). Bytes of a map or of memory do not count, but
    bytes read to load a compiled function do. So read once before counting, and clear the log.

    Attributes:
        reads: the log.
    """

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self.reads: list[Read] = []

    @property
    def nbytes(self) -> int:
        """Bytes read so far."""
        return sum(read.nbytes for read in self.reads)

    def span(
        self, file: int, start: int, stop: int, scratch: np.ndarray, wanted: np.ndarray | None = None, width: int = 0
    ) -> np.ndarray:
        found, nbytes = counted(lambda: self.inner.span(file, start, stop, scratch, wanted, width), "thread-self")
        self.reads.append(Read(file, start, stop, nbytes))
        return found

    def lend(self, file: int, start: int, stop: int, read: Callable[[int], int]) -> int | None:
        bad, nbytes = counted(lambda: self.inner.lend(file, start, stop, read), "thread-self")
        if bad is not None:
            self.reads.append(Read(file, start, stop, nbytes))
        return bad

    def at_hand(self, file: int, start: int, stop: int, read: Callable[[int, np.ndarray], bool]) -> bool:
        done, nbytes = counted(lambda: self.inner.at_hand(file, start, stop, read), "thread-self")
        if done:
            self.reads.append(Read(file, start, stop, nbytes))
        return done


class FailingBackend(_WrappingBackend):
    """Refuses to read the bytes for which a rule returns True.

    Args:
        fails: (file, first byte, end of the bytes) -> True if reading them fails. Then reading a
            larger range around them fails, too. The rule can be replaced at any time.
    """

    def __init__(self, inner: Backend, fails: Callable[[int, int, int], bool] = lambda file, start, stop: True) -> None:
        super().__init__(inner)
        self.fails = fails

    def span(
        self, file: int, start: int, stop: int, scratch: np.ndarray, wanted: np.ndarray | None = None, width: int = 0
    ) -> np.ndarray:
        ranges = [[start, stop]] if wanted is None else wanted[:, START : STOP + 1].tolist()
        for a, b in ranges:
            if self.fails(file, a, b):
                raise SourceError(f"file {file}: bytes {a:,} to {b:,} cannot be read: it was asked to fail")
        return self.inner.span(file, start, stop, scratch, wanted, width)

    def lend(self, file: int, start: int, stop: int, read: Callable[[int], int]) -> int | None:
        """Lend a file if no read between these bytes fails.

        Otherwise the caller reads through `span`, which raises the error.
        """
        return None if self.fails(file, start, stop) else self.inner.lend(file, start, stop, read)

    def at_hand(self, file: int, start: int, stop: int, read: Callable[[int, np.ndarray], bool]) -> bool:
        return not self.fails(file, start, stop) and self.inner.at_hand(file, start, stop, read)


class SlowBackend(_WrappingBackend):
    """Waits before every call that reads.

    Args:
        seconds: time to wait.
    """

    def __init__(self, inner: Backend, seconds: float) -> None:
        super().__init__(inner)
        self.seconds = seconds

    def span(
        self, file: int, start: int, stop: int, scratch: np.ndarray, wanted: np.ndarray | None = None, width: int = 0
    ) -> np.ndarray:
        time.sleep(self.seconds)
        return self.inner.span(file, start, stop, scratch, wanted, width)

    def lend(self, file: int, start: int, stop: int, read: Callable[[int], int]) -> int | None:
        time.sleep(self.seconds)
        return self.inner.lend(file, start, stop, read)

    def at_hand(self, file: int, start: int, stop: int, read: Callable[[int, np.ndarray], bool]) -> bool:
        """Return False: every read waits."""
        return False
