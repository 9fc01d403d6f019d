"""The buffered backend reads with pread. A source that shrinks or fails is an error, never a crash."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vfs import kernels
from vfs.backends.handles import Descriptor, Handles, fill
from vfs.kernels.columns import DEST, START, STOP
from vfs.model.files import Files
from vfs.model.one_state import Made


class BufferedBackend:
    """Reads with pread into the caller's memory.

    If only some ranges of a span are wanted and they are less than half of it, each is read by
    itself. Bytes that need no decoding are read straight to their places in the output.
    """

    copies = True
    in_place = True
    margin = 0
    window = 1 << 20
    """Bytes: no more than the level-2 cache of any processor of these years has (1 or 2 MiB).

    Measured from 256 KiB to 4 MiB (`scripts/bench`).
    """
    fetch = None
    parallel = 1

    def __init__(self, files: Files) -> None:
        self.files = files
        self.handles: Handles[Descriptor] = Handles(files, Descriptor)
        self.descriptors: Handles[Descriptor] | None = self.handles

    def span(
        self, file: int, start: int, stop: int, scratch: np.ndarray, wanted: np.ndarray | None = None, width: int = 0
    ) -> np.ndarray:
        opened = self.handles.get(file, start, stop)
        out = scratch if width else scratch[: stop - start]
        if width:
            assert wanted is not None
            bad = kernels.fetch.read_places(opened.fd, wanted, scratch, width) if len(wanted) > 1 else 0
            if bad >= 0:  # one by one: the range that cannot be read raises the error that says why
                for a, b, to in wanted[bad:, START : DEST + 1].tolist():
                    fill(opened, a, scratch[to * width : to * width + b - a])
        elif wanted is None:
            fill(opened, start, out)
        else:
            bad = kernels.fetch.read_ranges(opened.fd, wanted, out, start, 1, kernels.fetch.GAP)
            if bad >= 0:
                for a, b in wanted[bad:, START : STOP + 1].tolist():
                    fill(opened, a, out[a - start : b - start])
        self.handles.check(opened, file, start, stop)
        return out

    def lend(self, file: int, start: int, stop: int, read: Callable[[int], int]) -> int:
        opened = self.handles.get(file, start, stop)
        bad = int(read(opened.fd))
        if bad < 0:
            self.handles.check(opened, file, start, stop)
        return bad

    def at_hand(self, file: int, start: int, stop: int, read: Callable[[int, np.ndarray], bool]) -> bool:
        opened = self.handles.at_hand(file)
        if opened is None or opened.seen[-1] != self.files.moves.item(0):
            return False
        return read(opened.fd, self.files.states[file])

    def settled(self, make: Callable[[], Made]) -> Made:
        return make()  # `span` and `lend` look behind each read
