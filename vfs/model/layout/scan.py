"""Defines `Scan`: the scan as which the frames of an array are shown."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Scan:
    """The scan as which the frames of an array are shown.

    `Scan()` shows the frames as they are. `Layout.arranged` puts the frames where a `Scan` says, and
    `vfs.model.as_scan.as_scan` checks before that the `Scan` fits the array.

    Attributes:
        shape: shape of the scan, slowest axis first. With fewer positions than frames, later frames
            are not shown; with more, the end is blank. None: the shape that the scan has so far.
        sync_offset: frames to skip at the start (blank frames follow at the end); if negative, the number of
            blank frames before the first.
        chosen: int64[m] flat positions of the scan to show, along one axis; an array that shows a
            selection already shows these positions of the selection. None: all, in the scan's shape.
        line_skip: frames to skip after each line of the scan (its last axis).
    """

    shape: tuple[int, ...] | None = None
    sync_offset: int = 0
    chosen: np.ndarray | None = None
    line_skip: int = 0

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the options of `vfs.open` that it takes to say this; () for `Scan()`."""
        return (
            ("nav_shape",) * (self.shape is not None)
            + ("sync_offset",) * (self.sync_offset != 0)
            + ("roi",) * (self.chosen is not None)
            + ("line_skip",) * (self.line_skip != 0)
        )

    def over(self, nav_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the scan.

        Args:
            nav_shape: shape of the array's navigation axes so far.
        """
        return nav_shape if self.shape is None else self.shape

    def shown(self, nav_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the navigation axes from now on: that of the scan, or a single axis of chosen frames.

        Args:
            nav_shape: their shape so far.
        """
        return self.over(nav_shape) if self.chosen is None else (len(self.chosen),)
