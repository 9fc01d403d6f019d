"""Answers reads of a mount without the interpreter: libfuse calls `read`.

`fi->fh` holds the handle of an open file (`lookup.handle`): a *source* (one face of an array, see
`SourceWord`) and the number of a file in it (a chunk; 0 for a .npy face). The bytes come from one
of two places:

- *pieces*: decoded bytes that Python put into the table of pieces. They are found by the source and
  the number of the piece.
- the source's own files, if these hold the bytes as they are shown, or swapped, or if one step
  decodes them. `preadv`, or the step, puts the bytes into libfuse's buffer. Afterwards each file is
  checked: it must still be the file that was opened.

A read that cannot be answered as a whole, for any reason, is left to the function at `SLOW_READ`,
which runs in the interpreter and says what is wrong.
"""

from __future__ import annotations

import numpy as np
from numba import carray, types

from vfs.kernels.clib import memcpy
from vfs.kernels.compiled import callback, inner, kernel
from vfs.kernels.intrinsics import get, swap_bytes
from vfs.kernels.native.frames import moves
from vfs.kernels.native.fuse.files import NO_ANSWER, decode_frames, read_frames
from vfs.kernels.native.fuse.lookup import OURS, handle, parts, piece_of
from vfs.kernels.native.fuse.state import call, state
from vfs.kernels.native.fuse.tables import CounterWord, PieceWord, SourceWord, StateWord
from vfs.kernels.native.memory import atomic_add, atomic_swap, memory16, memory32, memory64, peek, put
from vfs.kernels.native.sources import enter, leave, source_of
from vfs.kernels.native.words import FrameWord


@inner
def _swap16(to, n):
    words = carray(memory16(to), n)
    for i in range(np.uint64(n)):
        words[i] = swap_bytes(words[i])


@inner
def _swap32(to, n):
    words = carray(memory32(to), n)
    for i in range(np.uint64(n)):
        words[i] = swap_bytes(words[i])


@inner
def _swap64(to, n):
    words = carray(memory64(to), n)
    for i in range(np.uint64(n)):
        words[i] = swap_bytes(words[i])


@inner
def _from_pieces(source, which, number, first, last, to):
    """Copy the bytes `first` to `last` behind the header from pieces.

    Args:
        which: number of the source.
        number: number of the file in it.

    Returns: True if all pieces were there.
    """
    size, per_file = get(source, SourceWord.PIECE_BYTES), get(source, SourceWord.PIECES_PER_FILE)
    pieces, mask = get(state(), StateWord.PIECES), get(state(), StateWord.PIECE_MASK)
    made = moves(source)
    found = 0
    while first < last:
        k = first // size
        piece = piece_of(pieces, mask, handle(which, number * per_file + k), made)
        if piece == 0:
            return False
        within = first - k * size
        take = min(get(piece, PieceWord.LENGTH) - within, last - first)
        if take <= 0 or (get(piece, PieceWord.AHEAD) and atomic_swap(piece, PieceWord.AHEAD, 0)):
            return False  # the first read of a piece made ahead goes to the interpreter, which makes the next one
        memcpy(to, get(piece, PieceWord.ADDRESS) + within, take)
        if get(piece, PieceWord.USED) == 0:
            put(piece, PieceWord.USED, 1)
        to += take
        first += take
        found += 1
    atomic_add(get(state(), StateWord.COUNTERS), CounterWord.HITS, found)
    return True


@inner
def _answer(fh, to, size, offset):
    which, number = parts(fh)
    source = source_of(get(state(), StateWord.SOURCES), which)
    if source == 0 or offset < 0:
        return NO_ANSWER
    last = min(offset + size, get(source, SourceWord.FILE_BYTES))
    if offset >= last:
        return 0
    done = 0
    head = get(source, SourceWord.HEAD_BYTES)
    if offset < head:
        done = min(head, last) - offset
        if to:
            memcpy(to, get(source, SourceWord.HEAD_ADDRESS) + offset, done)
        if offset + done == last:
            return done
    first, end = offset + done - head, last - head
    if get(source, FrameWord.FRAME_BYTES) == 0:
        return last - offset if _from_pieces(source, which, number, first, end, to + done) else NO_ANSWER
    decoded = get(source, FrameWord.STEP) != 0
    width = get(source, SourceWord.ELEMENT_BYTES if decoded else SourceWord.SWAP_BYTES)
    if first % width or end % width or done % width:
        return NO_ANSWER
    before = moves(source)
    place = to + done if to else 0
    if decoded:
        wrong = decode_frames(source, number, first, end, place)
    else:
        wrong = read_frames(source, number, first, end, place)
    if wrong or to == 0:
        return wrong
    if moves(source) != before:  # a file was touched meanwhile: old and new bytes may be mixed
        return NO_ANSWER
    if decoded:
        return last - offset
    if width == 2:
        _swap16(to + done, (end - first) // 2)
    elif width == 4:
        _swap32(to + done, (end - first) // 4)
    elif width == 8:
        _swap64(to + done, (end - first) // 8)
    return last - offset


@kernel(error_model="numpy")
def answer(fh, to, size, offset):
    """Read bytes of the file that is open as `fh`.

    Args:
        to: address to which the bytes are written. It may be 0 for a source whose bytes come from
            files: then nothing is read, only checked that these files are open.
        size, offset: the bytes from `offset` on, `size` of them or as many as there are.

    Returns: the number of bytes; `NO_ANSWER`; or `NOT_OPEN` plus the number of a file. In the last
        two cases anything may have been written to `to`.
    """
    inside = enter(get(state(), StateWord.SOURCES))
    got = _answer(fh, to, size, offset)
    leave(inside)
    return got


@callback(types.int32(types.int64, types.int64, types.int64, types.int64, types.int64), error_model="numpy")
def read(path, buffer, size, offset, info):
    """Answer `read` of libfuse's operations."""
    fh = peek(info + get(state(), StateWord.INFO_FH))
    if fh & OURS:
        inside = enter(get(state(), StateWord.SOURCES))
        got = _answer(fh, buffer, size, offset)
        leave(inside)
        if got >= 0:
            counters = get(state(), StateWord.COUNTERS)
            atomic_add(counters, CounterWord.REQUESTS, 1)
            atomic_add(counters, CounterWord.READS, 1)
            atomic_add(counters, CounterWord.BYTES, got)
            return np.int32(got)
    return np.int32(call(get(state(), StateWord.SLOW_READ), path, buffer, size, offset, info, 0))
