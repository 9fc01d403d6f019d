"""Tells which frames of a selection are stored, without a byte for each of a scan that may be huge."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from vfs.model.stored import StoredArray


class HeldFrames:
    """Says of the frames that a pass selects which of them files hold. Frames are counted along the selection.

    Args:
        dataset: the array.
        chosen: int64[m] flat positions in its scan; None: all.
    """

    def __init__(self, dataset: StoredArray, chosen: np.ndarray | None) -> None:
        self._dataset, self._chosen = dataset, chosen
        self._in_scan = dataset.layout.frames if dataset.nav_ndim and chosen is None else None  # says it of any of them
        self._count = math.prod(dataset.shape[: dataset.nav_ndim]) if chosen is None else len(chosen)

    def __len__(self) -> int:
        return self._count

    @cached_property
    def total(self) -> int:
        """How many are stored."""
        return int(np.count_nonzero(self._there)) if self._in_scan is None else self._count - self._dataset.blanks

    def runs(self, first: int, last: int) -> list[tuple[int, int]]:
        """Find the frames from `first` to `last` (half-open) that are stored.

        Returns: the first, and the one behind the last, of those that follow one another, counted from `first`.
        """
        if self._all:
            return [(0, last - first)]
        edges = np.flatnonzero(np.diff(self._part(first, last).view(np.int8), prepend=0, append=0))
        return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))

    @property
    def flags(self) -> np.ndarray:
        """bool[m], which of them are stored: a byte for each, unless all are. It may not be written to."""
        return np.broadcast_to(np.True_, self._count) if self._all else self._part(0, self._count)

    @cached_property
    def _all(self) -> bool:
        return self._in_scan is not None and not self._dataset.blanks

    def _part(self, first: int, last: int) -> np.ndarray:
        if self._in_scan is None:
            return self._there[first:last]
        return np.asarray(self._in_scan.locate(np.arange(first, last))[:, 0] >= 0)

    @cached_property
    def _there(self) -> np.ndarray:
        """bool[m], where positions are chosen, or frames stored in blocks."""
        dataset, chosen = self._dataset, self._chosen
        if chosen is not None and (frames := dataset.layout.frames) is not None:
            return np.asarray(frames.locate(chosen)[:, 0] >= 0)
        valid = dataset.valid.reshape(-1) if dataset.nav_ndim else np.ones(1, bool)
        return valid if chosen is None else valid[chosen]
