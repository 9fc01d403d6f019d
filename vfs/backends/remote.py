"""The remote backend reads files of servers and stores of objects: all windows of a plan at once, each to where it
belongs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vfs.backends import Window
from vfs.backends.sourced import SourcedBackend, near
from vfs.errors import SourceChangedError, TruncatedSourceError
from vfs.kernels.columns import DEST, START, STOP
from vfs.model.file_state import FileState
from vfs.model.files import Files
from vfs.sources.disk_cache import Put
from vfs.sources.names import is_url
from vfs.sources.remote import CUT, RemoteSources
from vfs.sources.transfers import WantedBytes, Whole


class RemoteBackend(SourcedBackend):
    """Fetches many windows at once. What lies close together comes with one request, and long windows with several.

    Attributes:
        parallel: requests that are under way at most.
    """

    in_place = True
    window = CUT

    def __init__(self, files: Files) -> None:
        super().__init__(files)
        assert isinstance(files.sources, RemoteSources)
        self.sources = files.sources
        self.parallel = self.sources.transfers.limits.parallel

    def span(
        self, file: int, start: int, stop: int, scratch: np.ndarray, wanted: np.ndarray | None = None, width: int = 0
    ) -> np.ndarray:
        if not is_url(self.files.paths[file]) and not width:
            return super().span(file, start, stop, scratch, wanted)
        memory = scratch if width or scratch.size >= stop - start else np.empty(stop - start, np.uint8)
        self.fetch([Window(file, start, stop, memory, wanted, width)])
        return memory if width else memory[: stop - start]

    def fetch(self, windows: Sequence[Window]) -> None:
        """Read windows of files, as `span` reads one.

        Raises:
            SourceError: bytes cannot be read. The message names file and byte range.
        """
        wanted: list[WantedBytes] = []
        files: list[int] = []
        for one in windows:
            name = self.files.paths[one.file]
            for first, last, put in _cut(one):
                if is_url(name):
                    wanted.append(WantedBytes(name, first, last, put, self.files.state(one.file)))
                    files.append(one.file)
                else:
                    put(first, self._local(one.file, first, last))
        states: dict[int, FileState] = {}
        for got, file, (name, first, last, *_) in zip(self.sources.fetch(wanted), files, wanted, strict=True):
            if states.get(file) != got.state:
                self._compare(file, got.state)
                states[file] = got.state
            if got.size < last - first:
                raise TruncatedSourceError(
                    f"{name}: expected bytes {first:,} to {last:,}, found {got.size:,} bytes; it looks truncated"
                )

    def _local(self, file: int, first: int, last: int) -> bytes:
        return super().span(file, first, last, np.empty(last - first, np.uint8)).tobytes()

    def _compare(self, file: int, now: FileState) -> None:
        """Raise the error for a reply that is not of the object that was opened."""
        if not self.files.same(file, now):
            raise SourceChangedError(
                f"{self.files.paths[file]}: was changed after it was opened"
                f" ({self.files.state(file).difference(now)}); open it again, or with accept_changes"
            )


def _cut(window: Window) -> list[tuple[int, int, Put]]:
    """Cut a window into requests: (first byte, end, what takes the bytes)."""
    _, start, stop, memory, wanted, width = window
    if wanted is None:
        groups: list[tuple[int, int]] = [(start, stop)]
        put: Put = Whole(memory.data, start)
    else:
        groups = near(wanted)
        put = _scattered(memory, wanted, width) if width else Whole(memory.data, start)
    return [(at, min(last, at + CUT), put) for first, last in groups for at in range(first, last, CUT)]


def _scattered(memory: np.ndarray, wanted: np.ndarray, width: int) -> Put:
    """Return what puts the bytes of read ranges to their places in the output, and leaves out those between.

    Args:
        wanted: int64[n, ≥ 4], with STEP 1; width: bytes of an element.
    """
    order = np.argsort(wanted[:, START], kind="stable")
    starts, ends = wanted[order, START], np.maximum.accumulate(wanted[order, STOP])
    rows = wanted[order][:, [START, STOP, DEST]].tolist()

    def put(at: int, part: bytes | memoryview) -> None:
        data = np.frombuffer(part, np.uint8)
        first, last = np.searchsorted(ends, at, "right"), np.searchsorted(starts, at + len(data), "left")
        for a, b, to in rows[first:last]:
            lo, hi = max(a, at), min(b, at + len(data))
            if lo < hi:
                to = to * width + lo - a
                memory[to : to + hi - lo] = data[lo - at : hi - at]

    return put
