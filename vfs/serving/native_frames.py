"""Shows native code where the frames of an array lie, and which of its files are open.

The native sources of a mount and of an HTTP server begin with the same words (`FrameWord`), and `NativeFrames` fills
them. How long a source lives differs: a mount shows up to 65,536 of them, whose requests take some microseconds, and
frees one when all callbacks that were inside have left; a server answers for 64, counts who uses each, since a body
may be under way for as long as a client is slow, and frees one with its last body.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vfs.backends.handles import Descriptor
from vfs.kernels.native import memory
from vfs.kernels.native.words import FrameWord
from vfs.model.files import Files
from vfs.model.layout import FrameLayout

OVER = 0.0  # a time that has passed


class NativeFrames:
    """The words that each native source begins with, and what their addresses point to.

    Args:
        words: int64, the words of the source.
        files: its files.
        layout: says where its frames lie; None: native code does not read them.

    Attributes:
        open: the files that native code may read.
    """

    def __init__(self, words: np.ndarray, files: Files, layout: FrameLayout | None) -> None:
        self.words = words
        self.open: dict[int, Descriptor] = {}
        self._descriptors = np.zeros(len(files), np.int64)
        self._kept: list[Any] = [files]
        words[: len(FrameWord)] = 0
        words[FrameWord.DESCRIPTORS] = self._descriptors.ctypes.data
        words[FrameWord.STATES] = files.states.ctypes.data  # not a copy, since a look at a file changes it
        words[FrameWord.MOVES] = files.moves.ctypes.data
        if layout is not None:
            how, chosen = (np.ascontiguousarray(table, np.int64) for table in layout.how)
            stream = np.ascontiguousarray(layout.stream, np.int64)
            self._kept += [how, chosen, stream]
            words[FrameWord.HOW] = how.ctypes.data
            words[FrameWord.CHOSEN], words[FrameWord.CHOICES] = chosen.ctypes.data, len(chosen)
            words[FrameWord.STREAM], words[FrameWord.STREAM_ROWS] = stream.ctypes.data, len(stream)

    def answer_until(self, until: float) -> None:
        """Allow native code to answer up to a time, monotonic seconds."""
        memory.write_word(self.words.ctypes.data, int(FrameWord.UNTIL), max(1, int(until * 1e9)))

    def show(self, file: int, opened: Descriptor) -> None:
        """Let native code read a file."""
        self.open[file] = opened
        memory.write_word(self._descriptors.ctypes.data, file, opened.fd + 1)

    def hide(self, file: int) -> Descriptor | None:
        """Let native code read a file no longer. Returns what was open, which code that runs now may still use."""
        memory.write_word(self._descriptors.ctypes.data, file, 0)
        return self.open.pop(file, None)
