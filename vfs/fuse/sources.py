"""Describes arrays for native reads: pieces of mounted files, and places of frames in source files."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Hashable
from functools import partial

import numpy as np

from vfs.engine.array import ArrayReader
from vfs.engine.chunk_access import Chunks
from vfs.engine.chunk_plan import FrameStep
from vfs.kernels.native.fuse.tables import SOURCE_WORDS, SourceWord
from vfs.kernels.native.words import FrameWord
from vfs.live.trust import Pace, Trust
from vfs.model.files import Files
from vfs.serving.native_frames import NativeFrames, grid_rows

PIECE = 1 << 21  # bytes, about, of a piece of a .npy face
DIRECT = 1 << 11  # bytes: shorter frames that do not touch are decoded, not read one by one
LOOKS = Pace(least=1.0, share=0)
"""How often the files of an array that lies in many are looked at."""


class NativeSource:
    """Describes the mounted files of one array: those of its chunks, or its .npy file.

    Attributes:
        words: int64[SOURCE_WORDS]; frames: fills the first ones, and knows which files are open.
        direct: True if native reads take bytes from the source files, and decode them by one step where
            they must be decoded; False if they take them from decoded pieces.
        size: bytes of a piece.
        whole: True if a piece is a chunk.
        per: number of pieces of a file.
        count: number of pieces of all files.
        texts: parts of paths by which native code knows the source.
    """

    def __init__(self, array: ArrayReader, header: bytes | None) -> None:
        self.array = array
        self.chunks = Chunks(array)
        self.npy = header is not None
        self.source_files: Files = array.backend.files
        self.recent: deque[int] = deque(maxlen=16)  # pieces that were read lately
        self.ends: deque[int] = deque(maxlen=16)  # ends of the latest reads
        self.texts: list[str] = []
        self.trust, self.unchanged = Trust(LOOKS), False  # all files together: when looked at, and as they were opened
        body = array.nbytes if self.npy else array.chunk_bytes
        head = np.frombuffer(header or b"\0", np.uint8)
        self.kept: list[np.ndarray] = [head]  # memory whose address is in `words`
        self.words = np.zeros(SOURCE_WORDS, np.int64)
        self.words[SourceWord.HEAD_BYTES] = len(header or b"")
        self.words[SourceWord.FILE_BYTES] = len(header or b"") + body
        self.words[SourceWord.HEAD_ADDRESS] = head.ctypes.data
        self.words[SourceWord.SWAP_BYTES] = 1
        self.size = self._piece(body)
        self.per = max(1, -(-body // self.size))
        self.words[SourceWord.PIECE_BYTES], self.words[SourceWord.PIECES_PER_FILE] = self.size, self.per
        self.files = 1 if self.npy else math.prod(array.grid.counts)
        self.count = self.per * self.files
        self.whole = not self.npy and self.per == 1
        self.direct = self._in_files()

    def _piece(self, body: int) -> int:
        """Choose the number of bytes of a piece of a file of `body` bytes.

        A piece has whole frames, or is the whole chunk if a part of it costs about as much.
        """
        array = self.array
        most = array.cache.limit // 8
        if not self.npy and (body <= max(PIECE, most) or array.decodes_whole or array.groups.chunks != array.chunks):
            return max(1, body)
        size = array.dtype.itemsize
        # Whole rows, or frames, or rows of frames, as long as they are short
        for n in reversed(array.shape if self.npy else array.chunks):
            if size * n > min(PIECE, most):
                return size * max(1, min(PIECE, most) // size)
            size *= n
        return max(1, size)

    def _in_files(self) -> bool:
        """Note the places of frames in the source files. Returns True if they are shown from there."""
        array = self.array
        run, files = array.frame_run, self.source_files
        if array.size == 0 or (run is not None and run.layout.stride < 1):
            run = None
        if run is None:
            self.frames = NativeFrames(self.words, files, None)
            return False
        layout = run.layout
        reversed_bytes = run.reversed_bytes if array.way.as_stored else None
        decoding = None if reversed_bytes is not None else FrameStep.in_parts(array)
        nav = array.ndim - len(layout.sig_shape)
        shape = array.shape[:nav]
        chunks = shape if self.npy else array.chunks[:nav]
        counts = (1,) * nav if self.npy else array.grid.counts[:nav]
        self.frames = NativeFrames(self.words, files, layout, decoding, grid_rows(counts, chunks, shape))
        paths = [os.fsencode(path) + b"\0" for path in files.paths]
        text = np.frombuffer(b"".join(paths), np.uint8)
        ends = np.cumsum([len(path) for path in paths], dtype=np.int64)
        starts = text.ctypes.data + np.concatenate(([0], ends[:-1]))
        self.kept += [text, starts]
        self.words[SourceWord.PATHS] = starts.ctypes.data
        self.words[SourceWord.PARTS] = 1 if self.npy else math.prod(array.grid.counts[nav:])
        if array.backend.descriptors is None or (reversed_bytes is None and decoding is None):
            return False
        frame = run.size * array.dtype.itemsize
        whole = self.npy or array.chunks[nav:] == layout.sig_shape
        if not whole or (frame < DIRECT and layout.stride != frame):
            return False
        self.words[SourceWord.SWAP_BYTES] = reversed_bytes or 1
        self.words[FrameWord.FRAME_BYTES] = frame
        self.words[SourceWord.ELEMENT_BYTES] = array.dtype.itemsize
        return True

    def piece(self, number: int) -> tuple[Hashable, Callable[[], np.ndarray]]:
        """Return (key of a piece in the chunk cache, function that makes it).

        A piece that is a chunk has the key under which `Chunks.cached` keeps the chunk.
        """
        array = self.array
        file, part = divmod(number, self.per)
        position = None if self.npy else tuple(map(int, np.unravel_index(file, array.grid.counts)))
        if self.whole and position is not None:
            return (array.token, array.moved(0), position), partial(self.chunks.make, position)
        start = part * self.size
        stop = min(array.nbytes if self.npy else array.chunk_bytes, start + self.size)
        return (array.token, array.moved(0), "run", position, start), partial(self.chunks.run, start, stop, position)

    def holders(self, number: int) -> list[int]:
        """Return the indices of the source files whose bytes one mounted file shows."""
        array = self.array
        every = list(range(len(array.files)))
        if self.npy or len(every) <= 1:
            return every
        rows, covered = array.dataset.layout.read_ranges(
            array.grid.region(tuple(map(int, np.unravel_index(number, array.grid.counts)))), 1 << 12
        )
        return np.unique(rows[:, 0]).tolist() if covered >= 0 else every
