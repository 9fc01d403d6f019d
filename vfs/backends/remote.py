"""The remote backend reads files of servers and stores of objects: all windows of a plan at once, each to where it
belongs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from itertools import chain

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
from vfs.sources.transfers import Room, WantedBytes, Whole

MIN_RUN_BYTES = 1 << 14
"""Bytes of a run that is read to where it belongs; shorter ones are read with those behind them, and copied there."""


_LOOKS = 1024
"""Files that are looked at at once."""


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
            SourceError: bytes cannot be read. The message names file and byte range. Or a file holds something else
                than its set expected of it when nobody had looked at it.
        """
        self._look(windows, {one.file for one in windows} if self.files.unseen is not None else ())

    def look_at_all(self) -> None:
        """Look at all files at which nobody has looked yet.

        Raises: what `fetch` raises.
        """
        if (unseen := self.files.unseen) is not None:
            files = np.flatnonzero(unseen.pending).tolist()
            for k in range(0, len(files), _LOOKS):
                self._look((), files[k : k + _LOOKS])

    def _look(self, windows: Sequence[Window], files: Collection[int]) -> None:
        """Read windows, and with the same requests look at those of some files at which nobody has looked yet."""
        unseen, shown = self.files.unseen, dict[int, list[Window]]()
        if unseen is not None:
            shown = {
                file: [Window(file, a, b, np.empty(b - a, np.uint8)) for a, b in unseen.places(file)]
                for file in files
                if unseen.pending[file]
            }
        self._bring([*windows, *chain.from_iterable(shown.values())])
        for file, parts in shown.items():
            assert unseen is not None
            unseen.check(self.files.paths[file], file, [part.memory.tobytes() for part in parts])
            unseen.pending[file] = False

    def _bring(self, windows: Sequence[Window]) -> None:
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
        put = _Scattered(memory, wanted, width) if width else Whole(memory.data, start)
    return [(at, min(last, at + CUT), put) for first, last in groups for at in range(first, last, CUT)]


class _Scattered(Room):
    """Puts the bytes of read ranges to their places in the output, and leaves out those between.

    Args:
        wanted: int64[n, ≥ 4], with STEP 1; width: bytes of an element.
    """

    def __init__(self, memory: np.ndarray, wanted: np.ndarray, width: int) -> None:
        self._memory = memory
        rows = wanted[np.argsort(wanted[:, START], kind="stable")]
        starts, stops, to = rows[:, START], rows[:, STOP], rows[:, DEST] * width
        # Ranges that go on in the file and in the output are one
        news = np.flatnonzero((starts[1:] != stops[:-1]) | (to[1:] - to[:-1] != stops[:-1] - starts[:-1])) + 1
        first, last = np.concatenate([[0], news]), np.concatenate([news - 1, [len(rows) - 1]])
        self._runs = np.column_stack([starts[first], stops[last], to[first]]).tolist()
        self._starts, self._ends = starts[first].tolist(), np.maximum.accumulate(stops[last]).tolist()
        self._apart = bool((starts[first][1:] >= np.array(self._ends)[:-1]).all())

    def __call__(self, at: int, part: bytes | memoryview) -> None:
        data = np.frombuffer(part, np.uint8)
        first, last = bisect_right(self._ends, at), bisect_left(self._starts, at + len(data))
        for a, b, to in self._runs[first:last]:
            lo, hi = max(a, at), min(b, at + len(data))
            if lo < hi:
                to = to + lo - a
                self._memory[to : to + hi - lo] = data[lo - at : hi - at]

    def room(self, at: int, stop: int) -> memoryview | None:
        k = bisect_right(self._starts, at) - 1
        if k < 0 or not self._apart:
            return None
        a, b, to = self._runs[k]
        return self._memory.data[to + at - a : to + min(b, stop) - a] if at < b and b - a >= MIN_RUN_BYTES else None
