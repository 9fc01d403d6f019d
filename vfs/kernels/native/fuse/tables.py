"""Declares the tables of words that libfuse's callbacks read, with names and units of the words. `vfs.fuse` fills them.

`vfs.kernels.native.words` says what words are. Structs of libfuse are numpy dtypes here. Loads no numba.
"""

from __future__ import annotations

from enum import auto

import numpy as np

from vfs.kernels.native.words import FrameWord, Words


class StateWord(Words):
    """Words of `native.STATE`, the table that all callbacks of a process use.

    Offsets (in bytes) and masks are those of this machine's libfuse.
    """

    SOURCES = auto()  # address of the table of sources, see `TableWord`
    PIECES = auto()  # address of the table of pieces: int64[PIECE_MASK + 1], addresses
    PIECE_MASK = auto()  # places for pieces, less one
    NAMES = auto()  # address of the table of names: int64[NAME_PLACES], addresses
    COUNTERS = auto()  # address of int64[len(CounterWord)]
    SLOW_READ = auto()  # addresses of the functions that answer requests which kernels cannot answer
    SLOW_OPEN = auto()
    SLOW_GETATTR = auto()
    SLOW_READDIR = auto()
    INFO_FH = auto()  # offset of `fh` in fuse_file_info
    INFO_FLAGS = auto()  # offset of the 32 bits there that hold `keep_cache`
    KEEP_CACHE = auto()  # mask of `keep_cache` in these bits
    ALWAYS = auto()  # mask of the bits that are set whenever a file is opened
    STAT_BYTES = auto()  # length of struct stat
    STAT_INODE = auto()  # offset of st_ino there
    CONTEXT = auto()  # address of fuse_get_context; 0: requests are not attributed to processes
    MET = auto()  # address of int64[THREADS], see `vfs.fuse.readers`


class CounterWord(Words):
    """Words that count what a server does, from 0 on, see `vfs.fuse.counters`."""

    REQUESTS = auto()  # requests answered, of any kind
    READS = auto()  # reads answered
    BYTES = auto()  # bytes in the answers of reads
    HITS = auto()  # decoded pieces that were found in memory
    MISSES = auto()  # decoded pieces that had to be made
    ERRORS = auto()  # requests answered with EIO


class SourceWord(Words):
    """Words of a source: the files that show one array, all chunks of it or one .npy file.

    `vfs.fuse.sources.NativeSource` fills them. It begins with the words of `FrameWord`.
    """

    FILE_BYTES = len(FrameWord)  # bytes of each of its files
    HEAD_BYTES = auto()  # bytes of the .npy header; 0 for chunks
    HEAD_ADDRESS = auto()  # address of the .npy header
    PIECE_BYTES = auto()  # bytes of a piece: the bytes of a file behind its header are cut into pieces
    PIECES_PER_FILE = auto()
    SWAP_BYTES = auto()  # so many bytes come in reversed order at a time: 1 (none do), 2, 4 or 8
    ELEMENT_BYTES = auto()  # bytes of an element, if a step decodes frames
    PARTS = auto()  # number of chunks that hold different parts of the same frames
    PATHS = auto()  # address of a word for each source file: address of its path; 0: kernels cannot
    # tell which files hold a chunk


SOURCE_WORDS = len(FrameWord) + len(SourceWord)


class PieceWord(Words):
    """Words of a decoded piece. `vfs.fuse.pieces.Piece` fills them."""

    KEY = auto()  # `handle` of the source and the piece's number
    ADDRESS = auto()  # address of its bytes
    LENGTH = auto()  # number of its bytes
    AHEAD = auto()  # 1: it was made ahead, and nobody has read from it yet
    USED = auto()  # 1: somebody read from it since the cache asked last
    MADE = auto()  # value of `Files.moves` before the piece was made


class NameWord(Words):
    """Words of a path of the mount that numbers may follow, as `scan.zarr/data/c`.

    `vfs.fuse.name_table` fills them.
    """

    HASH = auto()  # `paths.path_hash` of its text
    LENGTH = auto()  # bytes of the text
    TEXT = auto()  # address of the text
    SOURCE = auto()  # number of the source
    AXES = auto()  # with so many numbers behind it the path is a file
    LEAST = auto()  # with so many numbers behind it, or more, the path is a folder
    COUNTS = auto()  # address of int64[AXES]: each number is below its count
    FILE_STAT = auto()  # address of struct stat of a file, in which the inode number is missing
    FOLDER_STAT = auto()  # the same of a folder


NAME_PLACES = 1 << 12
"""Places of the table of names, a power of two."""

PROBES = 4
"""Places of the tables of pieces and names in which a key may lie, from `place` on."""

THREADS = 1 << 10
"""Places for the numbers of threads that asked lately, a power of two, see `vfs.fuse.readers`."""

CONTEXT = np.dtype([("fuse", "u8"), ("uid", "u4"), ("gid", "u4"), ("pid", "i4")])
"""The beginning of struct fuse_context, which says who sent a request. `pid` is the number of the thread."""
