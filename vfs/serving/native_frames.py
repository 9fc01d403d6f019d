"""Shows native code where the frames of an array lie, and which of its files are open.

The native sources of a mount and of an HTTP server begin with the same words (`FrameWord`), and `NativeFrames` fills
them. `vfs.serving.native_sources` has the table that holds them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from vfs.backends.handles import Descriptor
from vfs.contents.shown import Lifetime
from vfs.engine.chunk_plan import FrameStep
from vfs.kernels.native import memory
from vfs.kernels.native.words import FrameWord, GridRow
from vfs.model.files import Files
from vfs.model.layout import FrameLayout

OVER = 0.0  # a time that has passed


def grid_rows(counts: Sequence[int], chunks: Sequence[int], lengths: Sequence[int]) -> np.ndarray:
    """Return int64[nav, 3], see `GridRow`: chunks along each navigation axis, frames of one along it, frames in all."""
    return np.array(list(zip(counts, chunks, lengths, strict=True)), np.int64).reshape(-1, len(GridRow))


class NativeFrames:
    """The words that each native source begins with, and what their addresses point to.

    Args:
        words: int64, the words of the source.
        files: its files.
        layout: says where its frames lie; None: native code does not read them.
        decoding: how its frames are decoded; None: native code reads their bytes, no more.
        grid: what `grid_rows` returns; None: there are no navigation axes.

    Attributes:
        open: the files that native code may read.
        until: monotonic seconds up to which native code may answer, as it was told last.
        lifetime: tells if the set of the array is still current; None: it cannot change.
    """

    def __init__(
        self,
        words: np.ndarray,
        files: Files,
        layout: FrameLayout | None,
        decoding: FrameStep | None = None,
        grid: np.ndarray | None = None,
    ) -> None:
        self.words = words
        self.open: dict[int, Descriptor] = {}
        self.until = OVER
        self.lifetime: Lifetime | None = None
        self._told: Callable[[], None] | None = None
        self._descriptors = np.zeros(len(files), np.int64)
        grid = grid_rows((), (), ()) if grid is None else grid
        self._kept: list[Any] = [files, grid]
        words[: len(FrameWord)] = 0
        words[FrameWord.DESCRIPTORS] = self._descriptors.ctypes.data
        words[FrameWord.STATES] = files.states.ctypes.data  # not a copy, since a look at a file changes it
        words[FrameWord.MOVES] = files.moves.ctypes.data
        words[FrameWord.NAV_AXES], words[FrameWord.GRID] = len(grid), grid.ctypes.data
        words[FrameWord.FRAMES] = grid[:, GridRow.CHUNK].prod()
        if layout is not None:
            how, chosen = (np.ascontiguousarray(table, np.int64) for table in layout.how)
            stream = np.ascontiguousarray(layout.stream, np.int64)
            self._kept += [how, chosen, stream]
            words[FrameWord.HOW] = how.ctypes.data
            words[FrameWord.CHOSEN], words[FrameWord.CHOICES] = chosen.ctypes.data, len(chosen)
            words[FrameWord.STREAM], words[FrameWord.STREAM_ROWS] = stream.ctypes.data, len(stream)
        if decoding is not None:
            ranges = np.ascontiguousarray(decoding.ranges)
            self._kept.append(ranges)
            words[FrameWord.STEP], words[FrameWord.RANGES] = decoding.step, ranges.ctypes.data
            words[FrameWord.ROWS] = decoding.rows
            words[FrameWord.BEGIN], words[FrameWord.SPAN] = decoding.first, decoding.span

    def answer_until(self, until: float) -> None:
        """Allow native code to answer up to a time, monotonic seconds."""
        self.until = until
        memory.write_word(self.words.ctypes.data, int(FrameWord.UNTIL), max(1, int(until * 1e9)))

    def follow(self, lifetime: Lifetime, told: Callable[[], object]) -> None:
        """Let native code answer only where `trust` allows it, and no longer than the set says.

        Args:
            lifetime: of the set.
            told: called whenever the set says something, in any thread.
        """

        def stop() -> None:
            self.answer_until(OVER)
            told()

        self.answer_until(OVER)
        self.lifetime, self._told = lifetime, stop
        lifetime.told.append(stop)

    def trust(self, until: float) -> None:
        """Allow native code to answer up to a time, unless the set has said something meanwhile."""
        self.answer_until(until)
        if self.lifetime is not None and (self.lifetime.dropped or self.lifetime.until < until):
            self.answer_until(OVER)

    def end(self) -> None:
        """Follow the set no longer, which would keep this, and so its open files."""
        if self.lifetime is not None and self._told is not None:
            with suppress(ValueError):
                self.lifetime.told.remove(self._told)
            self._told = None

    def show(self, file: int, opened: Descriptor) -> None:
        """Let native code read a file."""
        self.open[file] = opened
        memory.write_word(self._descriptors.ctypes.data, file, opened.fd + 1)

    def hide(self, file: int) -> Descriptor | None:
        """Let native code read a file no longer. Returns what was open, which code that runs now may still use."""
        memory.write_word(self._descriptors.ctypes.data, file, 0)
        return self.open.pop(file, None)
