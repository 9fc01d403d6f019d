"""Reads files that are still being written through another backend, and has checked what nobody may have written."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from vfs.backends import Backend, Window
from vfs.backends.handles import Descriptor, Handles
from vfs.kernels.columns import DEST, START, STOP
from vfs.model.one_state import Made

_MAX_RANGES = 64  # read ranges that are looked at one by one


class GrowingBackend:
    """Reads through another backend. Native code and kernels do not read by themselves.

    Args:
        inner: reads.
        suspect: says if bytes may not be written.
        check: (file, int64[n, 2] ranges) looks at the file, and raises `NotYetError` if they are not written. What it
            lets pass is read again, since it may have been written after it was read.
    """

    def __init__(
        self, inner: Backend, suspect: Callable[[np.ndarray], bool], check: Callable[[int, np.ndarray], None]
    ) -> None:
        self.inner, self._suspect, self._check = inner, suspect, check
        self.files, self.copies, self.in_place = inner.files, inner.copies, inner.in_place
        self.margin, self.window, self.parallel = inner.margin, inner.window, inner.parallel
        self.descriptors: Handles[Descriptor] | None = None
        self.fetch = None if inner.fetch is None else self._fetch

    def span(
        self, file: int, start: int, stop: int, scratch: np.ndarray, wanted: np.ndarray | None = None, width: int = 0
    ) -> np.ndarray:
        found = self.inner.span(file, start, stop, scratch, wanted, width)
        if self._checked(file, start, stop, found, wanted, width):
            found = self.inner.span(file, start, stop, scratch, wanted, width)
        return found

    def _fetch(self, windows: Sequence[Window]) -> None:
        assert self.inner.fetch is not None
        self.inner.fetch(windows)
        again = [one for one in windows if self._checked(*one[:4], one.wanted, one.width)]
        if again:
            self.inner.fetch(again)

    def _checked(
        self, file: int, start: int, stop: int, found: np.ndarray, wanted: np.ndarray | None, width: int
    ) -> bool:
        """Check what was read if it may not be written. Returns True if it had to be."""
        whole = np.array([[start, stop]])
        ranges = whole if wanted is None or not len(wanted) else wanted[:, START : STOP + 1]
        if width and wanted is not None:
            at = ((to * width, to * width + b - a) for a, b, to in wanted[: _MAX_RANGES + 1, START : DEST + 1].tolist())
        else:
            at = ((a - start, b - start) for a, b in ranges[: _MAX_RANGES + 1].tolist())
        held = found.view(np.uint8)
        if len(ranges) <= _MAX_RANGES and not any(self._suspect(held[a:b]) for a, b in at):
            return False
        self._check(file, ranges)
        return True

    def lend(self, file: int, start: int, stop: int, read: Callable[[int], int]) -> None:
        """Lend no file: what a kernel reads is not checked."""

    def at_hand(self, file: int, start: int, stop: int, read: Callable[[int, np.ndarray], bool]) -> bool:
        """Return False, for the same reason."""
        return False

    def settled(self, make: Callable[[], Made]) -> Made:
        return self.inner.settled(make)
