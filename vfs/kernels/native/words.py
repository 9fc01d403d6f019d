"""Declares words: how Python and native code share tables. Loads no numba.

A word is an int64, and a table is known by its address. Kernels use `get(table, word)` and the functions of
`vfs.kernels.native.memory`. Python uses an array: `words[SourceWord.FILE_BYTES] = 4096`. An enumeration costs a kernel
nothing: the compiler takes its members as constants.

Structs of the C library are numpy dtypes here; `offset` returns the byte at which a field lies.
"""

from __future__ import annotations

from enum import IntEnum, auto

import numpy as np

WORD = 8
"""Bytes of a word."""

LINE = 8
"""Words of a cache line: a word that many threads write to has a line of its own."""


class Words(IntEnum):
    """Names the words of a table, in their order: `auto()` counts on from the word before, at first from 0."""

    @staticmethod
    def _generate_next_value_(name: str, start: int, count: int, last_values: list[int]) -> int:
        return last_values[-1] + 1 if last_values else 0


class FrameWord(Words):
    """Words that each native source begins with: which frames it shows, where they lie, what is known of its files.

    `vfs.serving.native_frames.NativeFrames` fills them.
    """

    UNTIL = auto()  # ns of the monotonic clock up to which native code may answer for it; 0: for ever
    HOW = auto()  # address of four numbers, see `vfs.kernels.locate.STRIDE`
    CHOSEN = auto()  # address of int64[CHOICES], the scan positions that are shown
    CHOICES = auto()  # 0: all are shown
    STREAM = auto()  # address of int64[STREAM_ROWS, 4], see `columns.S_START`
    STREAM_ROWS = auto()
    DESCRIPTORS = auto()  # address of a word for each file: its descriptor + 1; 0: not open
    STATES = auto()  # address of `vfs.model.files.Files.states`
    MOVES = auto()  # address of `vfs.model.files.Files.moves`
    STEP = auto()  # address of the step that decodes frames, see `vfs.kernels.steps`; 0: their bytes need none
    RANGES = auto()  # address of the read ranges of a frame, or of some, in bytes from the record of the first one on
    ROWS = auto()  # ranges of a frame
    BEGIN = auto()  # byte of a frame's record at which the first of them begins
    SPAN = auto()  # bytes from there to the end of the last one
    NUMBER = auto()  # of the source: no other one ever had it
    FRAMES = auto()  # frames that are shown together: by a chunk, or a .npy file
    FRAME_BYTES = auto()  # bytes of a frame, as it is shown; 0: native code does not make them from the source files
    NAV_AXES = auto()  # number of navigation axes
    GRID = auto()  # address of a `GridRow` for each navigation axis


class GridRow(Words):
    """Words of one navigation axis of the chunks of a source; a .npy file is one chunk."""

    COUNT = auto()  # chunks along it
    CHUNK = auto()  # frames of a chunk along it
    LENGTH = auto()  # frames of the array along it


class TableWord(Words):
    """Words of a table of sources.

    `vfs.serving.native_sources.SourceTable` fills them. Readers are counted while they follow addresses: in `INSIDE`,
    or in the word one line behind it if the lowest bit of `EPOCH` is 1.
    """

    PLACES = auto()  # address of int64[COUNT], addresses of sources; 0: free
    COUNT = auto()  # places for sources, a power of two; the last bits of a source's number are its place
    EPOCH = LINE
    INSIDE = 2 * LINE


TABLE_WORDS = 4 * LINE


class Iovec(Words):
    """Words of struct iovec: memory that preadv(2) fills."""

    ADDRESS = auto()
    LENGTH = auto()


class Timespec(Words):
    """Words of struct timespec."""

    SECONDS = auto()
    NANOSECONDS = auto()


SECOND = 1_000_000_000
"""Nanoseconds of a second."""

_TIMESTAMP = np.dtype([("seconds", "i8"), ("nanoseconds", "u4"), ("reserved", "i4")])
STATX = np.dtype(
    [
        ("mask", "u4"),
        ("block_size", "u4"),
        ("attributes", "u8"),
        ("links", "u4"),
        ("uid", "u4"),
        ("gid", "u4"),
        ("mode", "u2"),
        ("spare", "u2"),
        ("inode", "u8"),
        ("size", "u8"),  # bytes
        ("blocks", "u8"),
        ("attributes_mask", "u8"),
        ("read", _TIMESTAMP),
        ("born", _TIMESTAMP),
        ("changed", _TIMESTAMP),
        ("written", _TIMESTAMP),
        ("rest", "u8", 16),
    ]
)
"""struct statx of statx(2): 256 bytes, the same on all machines."""


def offset(struct: np.dtype, *names: str) -> int:
    """Return the byte at which a field of a struct lies, or a field of a field."""
    at = 0
    for name in names:
        assert struct.fields is not None
        struct, begin = struct.fields[name][:2]
        at += begin
    return at
