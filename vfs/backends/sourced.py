"""The sourced backend reads files that are not on this machine, through their sources."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from vfs.backends import Window
from vfs.backends.handles import Descriptor, Handles
from vfs.errors import SourceChangedError, TruncatedSourceError
from vfs.kernels.columns import START, STOP
from vfs.model.files import Files
from vfs.model.one_state import Made

GAP = 1 << 16
"""Bytes: ranges with a smaller gap between them are read at once, with the gap, since each read is a request."""


class SourcedBackend:
    """Reads windows through `Sources.read`.

    If only some ranges of a window are wanted, ranges that lie close together are read at once, and the rest is not.
    """

    copies = True
    in_place = False
    margin = 0
    window = 1 << 23
    descriptors: Handles[Descriptor] | None = None
    fetch: Callable[[Sequence[Window]], None] | None = None
    parallel = 1

    def __init__(self, files: Files) -> None:
        self.files = files

    def span(
        self, file: int, start: int, stop: int, scratch: np.ndarray, wanted: np.ndarray | None = None, width: int = 0
    ) -> np.ndarray:
        name, sources = self.files.paths[file], self.files.sources
        out = scratch[: stop - start] if scratch.size >= stop - start else np.empty(stop - start, np.uint8)
        for first, last in [(start, stop)] if wanted is None else near(wanted):
            got = sources.read(name, first, last - first)
            if len(got) < last - first:
                raise TruncatedSourceError(
                    f"{name}: expected bytes {first:,} to {last:,}, found {len(got):,} bytes; it looks truncated"
                )
            out[first - start : last - start] = np.frombuffer(got, np.uint8)
        self._check(file)
        return out

    def lend(self, file: int, start: int, stop: int, read: Callable[[int], int]) -> None:
        """Lend nothing: these files have no descriptors."""

    def at_hand(self, file: int, start: int, stop: int, read: Callable[[int, np.ndarray], bool]) -> bool:
        """Return False: nobody knows how long a read takes."""
        return False

    def settled(self, make: Callable[[], Made]) -> Made:
        return make()  # each read says of which state it is

    def _check(self, file: int) -> None:
        """Raise the error for a file that is not the one that was opened. A file of unknown size always passes."""
        if self.files.sizes.item(file) < 0:
            return
        now = self.files.sources.state(self.files.paths[file])
        if not self.files.same(file, now):
            raise SourceChangedError(
                f"{self.files.paths[file]}: was changed after it was opened"
                f" ({self.files.state(file).difference(now)}); open it again, or with accept_changes"
            )


def near(wanted: np.ndarray) -> list[tuple[int, int]]:
    """Return the first byte and the end of each group of read ranges that lie close together.

    Args:
        wanted: int64[n, ≥ 3] read ranges of one file, n > 0.
    """
    order = np.argsort(wanted[:, START], kind="stable")
    starts, stops = wanted[order, START], np.maximum.accumulate(wanted[order, STOP])
    cuts = np.flatnonzero(starts[1:] - stops[:-1] > GAP) + 1
    firsts, lasts = starts[np.concatenate([[0], cuts])], stops[np.concatenate([cuts - 1, [len(stops) - 1]])]
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))
