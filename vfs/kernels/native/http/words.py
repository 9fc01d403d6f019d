"""Declares the tables of words that Python and the kernel of `vfs.kernels.native.http.answering` share. Loads no numba.

`vfs.server.native_tables` fills them. `vfs.kernels.native.fuse.tables` says what words are.
"""

from __future__ import annotations

from enum import auto

from vfs.kernels.native.words import LINE, FrameWord, Words

SOURCES = 64
"""Places for sources, a power of two."""
DESCRIPTORS = 1 << 16
"""A connection whose descriptor is this or more is not lent."""
INPUT = 4096
"""Bytes of a request, at most."""
HEAD = 4096
"""Bytes for the head of an answer."""
NOTES = 64 << 10
"""Bytes of lines of the access log that wait to be written."""
LENT = 1024
"""Most connections that are lent at a time. Their words are never freed: a job may come too late."""
NOTHING, WANTED, UNDER_WAY, MADE = range(4)
"""Values of `LentConnection.AHEAD`: nobody is to make the next part; a thread that is idle may; one does; it has, or it
could not.
"""
TAIL = 64
"""Bytes of a body from a map that are sent after the file was looked at again."""


class AnswerWord(Words):
    """Words of the table that the threads share."""

    POLL = auto()  # descriptor of the epoll instance
    STOP = auto()  # descriptor that is readable when the threads are to end
    BACK = auto()  # descriptor of the pipe to which descriptors of connections go that are not lent any more
    CONNECTIONS = (
        auto()
    )  # address of int64[DESCRIPTORS]: the address of `LentConnection` of the connection with a descriptor
    SOURCES = auto()  # address of the table of sources, see `TableWord`
    JOBS = auto()  # descriptor that is readable when pieces are to be made ahead
    JOBS_IN = auto()  # the other end of that pipe; a job is the address of a `LentConnection`
    COMMON = auto()  # address of the length of header lines that every answer has, a word, and of these lines: the date
    NOTES_FD = auto()  # descriptor of the access log; -1: there is none
    NOTES = auto()  # address of uint8[NOTES]: lines that are not yet in the file
    NOTES_TIME = auto()  # address of the length of what lines begin with, a word, and of that text
    NOTES_STATUS = auto()  # the same of what stands between path and bytes
    NOTES_TOOK = auto()  # between bytes and milliseconds
    NOTES_LAST = auto()  # behind these
    REQUESTS = 2 * LINE  # requests answered
    BYTES = 2 * LINE + 1  # bytes of their bodies
    IDLE = 3 * LINE  # threads that have nothing to do
    NOTES_LOCK = 4 * LINE  # 1 while a thread has the next words
    NOTES_USED = 4 * LINE + 1  # bytes of `NOTES`


ANSWER_WORDS = 5 * LINE


class LentConnection(Words):
    """Words of a lent connection. The first ones are filled before it is lent."""

    SOCKET = auto()  # its descriptor, which does not block
    LINES = auto()  # address of the header lines of each request, from the end of the request line on
    LINES_BYTES = auto()
    USUAL = auto()  # address of the status line and the first header lines of each answer
    USUAL_BYTES = auto()
    TOKEN = (
        auto()
    )  # address of what the path of each request begins with: the token of who asks, with a slash at its end
    TOKEN_BYTES = auto()
    ASKS = auto()  # address of what lines of the access log say of who asks
    ASKS_BYTES = auto()
    INPUT = auto()  # address of uint8[INPUT]: a request
    GOT = auto()  # bytes of a request there that is not answered
    HEAD = auto()  # address of uint8[HEAD]
    TAIL = auto()  # address of uint8[TAIL]
    SINCE = auto()  # when its last request came, ns of the monotonic clock
    BROKEN = auto()  # 1: a body was begun and cannot be ended
    SOURCE = auto()  # address of the source of the body under way, which is kept; 0: none is
    CHUNK = auto()  # address of the coordinates in the request, each with a slash before it
    CHUNK_BYTES = auto()
    DESCRIPTOR = auto()  # of the file
    FILE = auto()  # its number
    BASE = auto()  # byte of the file at which the record of the chunk's first frame begins
    DONE = auto()  # frames of the chunk that were taken; of a chunk from a map, parts of it
    HEAD_AT = auto()  # address of what is left of the head
    HEAD_LEFT = auto()
    BODY_AT = auto()  # address of what is left of the piece
    BODY_LEFT = auto()
    BLOCK = auto()  # address of memory for the piece; 0: none
    BLOCK_BYTES = auto()
    AHEAD = auto()  # what is with the piece after it, see `NOTHING`
    NEXT = auto()  # address of memory for that; 0: none
    NEXT_FRAMES = auto()  # its frames, once it is made


class ChunkSource(Words):
    """Words of a source: the chunks of an array of one face, of which each holds whole frames of one file.

    It begins with the words of `FrameWord`.
    """

    MOVED = len(FrameWord)  # value of `Files.moves` when the source was made
    PATH = auto()  # address of the path of its chunks behind the token, up to the slash before the first coordinate
    PATH_BYTES = auto()
    ABOUT = auto()  # address of the header lines of its answers, up to the part of the ETag that is the coordinates
    ABOUT_BYTES = auto()
    NOTED = auto()  # address of that path as the access log has it
    NOTED_BYTES = auto()
    AXES = auto()  # coordinates of a chunk
    MAPPED = auto()  # 1: chunks lie in the file as they are shown, and are sent from a map
    PIECE = auto()  # frames of a piece, for which there are read ranges
    ROOM = auto()  # bytes of memory that a piece needs, before and after decoding
    MAPS = auto()  # address of a word for each file: the address of its map
    TELLS = (
        auto()
    )  # address of a word for each file: 1 if mincore(2) tells which of its pages are in memory: it is ours


CHUNK_WORDS = len(FrameWord) + len(ChunkSource)
