"""The tables of words that Python and native code share: each is declared here once, with the names
and units of its words.

A word is an int64, and a table is known by its address. Kernels use `get(table, word)` and what
stands beside it in `vfs.kernels.fuse.native`, Python an array: `words[SourceWord.FILE_BYTES] =
4096`. An enumeration costs a kernel nothing: the compiler takes its members as constants. numba's
cache does not notice that they changed: touch the modules that use them.

Structs that the C library and libfuse lay out are numpy dtypes here, and `offset` says at which byte a field lies.
"""

from __future__ import annotations

from enum import IntEnum, auto

import numpy as np

WORD = 8
"""Bytes of a word."""

LINE = 8
"""Words of a cache line: what many threads write to lies in one of its own."""


class Words(IntEnum):
    """Names the words of a table, in their order: `auto()` counts from 0."""

    @staticmethod
    def _generate_next_value_(name: str, start: int, count: int, last_values: list[int]) -> int:
        return count


class StateWord(Words):
    """What the callbacks of a process know, `native.STATE`. Offsets are in bytes and, as masks, of
    this machine's libfuse.

    Readers are counted in while they follow pointers, in `INSIDE` or one line behind it, as the
    lowest bit of `EPOCH` says.
    """

    SOURCES = auto()  # address of the table of sources: int64[SOURCE_PLACES], addresses
    SOURCE_PLACES = auto()  # a power of two; 0: nothing is shown
    PIECES = auto()  # address of the table of pieces: int64[PIECE_MASK + 1], addresses
    PIECE_MASK = auto()  # places for pieces, less one
    NAMES = auto()  # address of the table of names: int64[NAME_PLACES], addresses
    COUNTERS = auto()  # address of int64[len(CounterWord)]
    SLOW_READ = auto()  # addresses of the functions that answer what is not answered here
    SLOW_OPEN = auto()
    SLOW_GETATTR = auto()
    SLOW_READDIR = auto()
    INFO_FH = auto()  # offset of `fh` in fuse_file_info
    INFO_FLAGS = auto()  # offset of the 32 bits there that hold `keep_cache`
    KEEP_CACHE = auto()  # mask of `keep_cache` in these bits
    ALWAYS = auto()  # mask of those that are set whenever a file is opened
    STAT_BYTES = auto()  # length of struct stat
    STAT_INODE = auto()  # offset of st_ino there
    CONTEXT = auto()  # address of fuse_get_context; 0: nobody minds who asks
    MET = auto()  # address of int64[THREADS], see `vfs.fuse.readers`
    EPOCH = 3 * LINE
    INSIDE = 4 * LINE


STATE_WORDS = 8 * LINE


class CounterWord(Words):
    """What a server counts. Each word is increased from 0 on, see `vfs.fuse.counters`."""

    REQUESTS = auto()  # requests answered, of any kind
    READS = auto()  # those of them that were reads
    BYTES = auto()  # bytes that reads were answered with
    HITS = auto()  # decoded pieces that were found
    MISSES = auto()  # decoded pieces that were not
    ERRORS = auto()  # requests answered with EIO


class SourceWord(Words):
    """A source: the files that show one array, all chunks of it or one .npy file. Filled by
    `vfs.fuse.sources.NativeSource`.

    The words from `STREAM` to `CHOSEN_COUNT` say where its frames lie, see `vfs.kernels.locate`.
    """

    NUMBER = auto()  # its own
    UNTIL = auto()  # ns of the monotonic clock up to which it may be answered from here; 0: for ever
    FILE_BYTES = auto()  # bytes of each of its files
    HEAD_BYTES = auto()  # bytes of the .npy header, and where they are
    HEAD_ADDRESS = auto()
    PIECE_BYTES = auto()  # the bytes of a file behind its header are cut into pieces of so many
    PIECES_PER_FILE = auto()
    FRAME_BYTES = auto()  # bytes of a frame; 0: its bytes do not come from the source files but from pieces
    SWAP_BYTES = auto()  # bytes of the words whose bytes have to be swapped; 1: none
    NAV_AXES = auto()  # navigation axes
    GRID = auto()  # address of a `GridRow` for each of them
    STREAM = auto()  # address of int64[STREAM_ROWS, 4], see `locate.S_START`
    STREAM_ROWS = auto()
    # Bytes of the stream from a frame to the next one; this word and the next three in the order of
    # `locate.STRIDE`
    STRIDE = auto()
    FRAME_HEADER = auto()  # bytes of it before a frame's pixels
    STORED = auto()  # stored frames
    OFFSET = auto()  # stored frame = scan position + this
    CHOSEN = auto()  # address of int64[CHOSEN_COUNT], the scan positions that are shown
    CHOSEN_COUNT = auto()  # 0: all are shown
    FRAMES = auto()  # frames that one of its files shows
    PARTS = auto()  # chunks that hold other parts of the same frames
    DESCRIPTORS = auto()  # address of a word for each source file: its descriptor + 1; 0: not open
    SIZES = auto()  # the same: bytes
    WRITTEN = auto()  # the same: time of the last writing, ns
    CHANGED = auto()  # the same: time of the last change, ns, see `vfs.model.stored.Files`
    PATHS = auto()  # the same: address of its path; 0: which files hold a chunk is not known here
    MOVES = auto()  # address of the number of their moves, `Files.moves`


class GridRow(Words):
    """One navigation axis of the files of a source."""

    COUNT = auto()  # files along it
    CHUNK = auto()  # frames of a file along it
    LENGTH = auto()  # frames of the array along it


class PieceWord(Words):
    """A decoded piece. Filled by `vfs.fuse.pieces.Piece`."""

    KEY = auto()  # `handle` of the source and the piece's number
    ADDRESS = auto()
    LENGTH = auto()  # bytes
    AHEAD = auto()  # 1: made ahead, and nobody has come for it yet
    USED = auto()  # 1: somebody came for it since the cache asked last
    MADE = auto()  # what `Files.moves` was before it was made


class NameWord(Words):
    """A path of the mount that numbers may follow: `scan.zarr/data/c`. Filled by `vfs.fuse.name_table`."""

    HASH = auto()  # `paths.path_hash` of its text
    LENGTH = auto()  # bytes of the text
    TEXT = auto()  # address of the text
    SOURCE = auto()  # number of the source
    AXES = auto()  # numbers behind it that make a file
    LEAST = auto()  # numbers behind it that make a folder, at least
    COUNTS = auto()  # address of int64[AXES]: each number is below its count
    FILE_STAT = auto()  # addresses of struct stat of a file and of a folder, but for the inode number
    FOLDER_STAT = auto()


class Iovec(Words):
    """struct iovec: bytes of memory that preadv(2) fills."""

    ADDRESS = auto()
    LENGTH = auto()


class Timespec(Words):
    """struct timespec."""

    SECONDS = auto()
    NANOSECONDS = auto()


SECOND = 1_000_000_000
"""Nanoseconds."""

NAME_PLACES = 1 << 12
"""Places of the table of names, a power of two."""

PROBES = 4
"""Places of the tables of pieces and names in which a key may lie, from `place` on."""

THREADS = 1 << 10
"""Places for the numbers of threads that were met lately, a power of two, see `vfs.fuse.readers`."""

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
"""struct statx of statx(2): 256 bytes, alike on all machines."""

CONTEXT = np.dtype([("fuse", "u8"), ("uid", "u4"), ("gid", "u4"), ("pid", "i4")])
"""The beginning of struct fuse_context: who asks. `pid` is the number of the thread."""


def offset(struct: np.dtype, *names: str) -> int:
    """Return the byte at which a field of a struct lies, or a field of a field."""
    at = 0
    for name in names:
        assert struct.fields is not None
        struct, begin = struct.fields[name][:2]
        at += begin
    return at
