"""Reads and decodes frames of a source from its files, and checks that the files did not change."""

from __future__ import annotations

import numpy as np

from vfs.kernels.clib import free, malloc, pread, preadv
from vfs.kernels.columns import COLUMNS, START, STOP
from vfs.kernels.compiled import inner
from vfs.kernels.fetch import GAP
from vfs.kernels.intrinsics import get
from vfs.kernels.locate import HEADER, STORED, STRIDE, file_byte, locate
from vfs.kernels.native.frames import along, descriptor, frame_tables, placed, read_whole, unchanged
from vfs.kernels.native.fuse.tables import SourceWord
from vfs.kernels.native.memory import address, put, room
from vfs.kernels.native.parts import MAX_PARTS, cut
from vfs.kernels.native.words import WORD, FrameWord, Iovec
from vfs.kernels.planning import WORD_BYTES, WORD_PIXELS
from vfs.kernels.steps import call

_FAIL = -(1 << 40)
NO_ANSWER = _FAIL
"""Result of `serve.answer` if the interpreter must answer."""
NOT_OPEN = _FAIL + 1
"""Results `n` of `serve.answer` from here on (below 0) say: file `n - NOT_OPEN` of the source is not
open, or was changed after it was opened.
"""

RANGES = 32
"""Most ranges that one preadv(2) reads, with as many gaps between them."""

_IOVEC_WORDS = len(Iovec)
_room_for_vectors = room(2 * RANGES * _IOVEC_WORDS)
_room_for_a_gap = room(GAP // WORD)


@inner
def _fetch(source, file, start, vectors, n):
    """Read bytes of a file from `start` on to `n` places in memory, with one call.

    Args:
        vectors: address of `n` `Iovec`s. If the first one has address 0 nothing is read: this only
            checks that the file is open.

    Returns: 0, or `NOT_OPEN + file`.
    """
    fd = np.int32(descriptor(source, file))
    if fd < 0:
        return NOT_OPEN + file
    if get(vectors, Iovec.ADDRESS) == 0:
        return 0
    done = preadv(fd, vectors, np.int32(n), start) if n > 1 else 0
    for k in range(n):
        vector = address(vectors, k * _IOVEC_WORDS)
        to, left = get(vector, Iovec.ADDRESS), get(vector, Iovec.LENGTH)
        while left > 0:
            got = min(done, left)
            if got > 0:
                done -= got
            else:  # there is only one place; or preadv was cut short by a signal or the end of the file
                got = pread(fd, to, left, start)
                if got <= 0:
                    return NOT_OPEN + file
            to += got
            left -= got
            start += got
    return 0


@inner
def _checked(source, file):
    """Return 0 if a file that was read is still the one that was opened, else `NOT_OPEN + file`."""
    fd = descriptor(source, file)
    if fd >= 0 and unchanged(source, fd, 0, file):
        return 0
    return NOT_OPEN + file


@inner
def position_at(source, number, k):
    """Find the scan position of frame `k` of file `number` of a source.

    Returns: (position, number of positions from it on that follow one another). The position is -1
        if the frame lies beyond the edge of the array, in a chunk that the edge cuts.
    """
    axes = get(source, FrameWord.NAV_AXES)
    position = 0
    run = 1
    below = 1
    for j in range(axes - 1, -1, -1):
        count, chunk, length = along(source, j)
        at = number % count * chunk + k % chunk
        if at >= length:
            return -1, 0
        if j == axes - 1:
            run = min(chunk - k % chunk, length - at)
        number //= count
        k //= chunk
        position += at * below
        below *= length
    return position, run


@inner
def _append(vectors, n, to, count):
    """Write `Iovec` number `n`: `count` bytes go to address `to`."""
    vector = address(vectors, n * _IOVEC_WORDS)
    put(vector, Iovec.ADDRESS, to)
    put(vector, Iovec.LENGTH, count)


@inner
def read_frames(source, number, first, last, to):
    """Read the bytes `first` to `last` behind the header of file `number` from the source files.

    Args:
        to: address of memory for them. 0: nothing is read, only checked that the source files are open.

    Returns: 0; or `NO_ANSWER`; or `NOT_OPEN` plus the number of a file.
    """
    move = 1 if to else 0
    frame = get(source, FrameWord.FRAME_BYTES)
    where = frame_tables(source)
    stride, header, stored = placed(source, STRIDE), placed(source, HEADER), placed(source, STORED)
    single = get(source, FrameWord.CHOICES) > 0 or stride != frame
    vectors = _room_for_vectors()
    nowhere = _room_for_a_gap()
    # The next preadv: bytes `start` to `end` of `file`, to `used` places in memory
    file, start, end, used = -1, 0, 0, 0
    row = -1
    while first < last:
        k, within = first // frame, first % frame
        position, run = position_at(source, number, k)
        if position < 0:
            return NO_ANSWER
        begin, row = locate(where, position, 0, row)
        here, at, left = file_byte(where, begin, row)
        if row < 0:
            return NO_ANSWER
        whole = 1 if single else min(run, stored - (begin - header) // stride, left // frame)
        if whole < 1 or left < frame:
            return NO_ANSWER
        take = min(whole * frame - within, last - first)
        at += within
        if used and (here != file or at < end or at > end + GAP or used > 2 * RANGES - 2):
            wrong = _fetch(source, file, start, vectors, used)
            if wrong == 0 and here != file:
                wrong = _checked(source, file)
            if wrong:
                return wrong
            used = 0
        if used == 0:
            file, start, end = here, at, at
        if used and at == end:
            vector = address(vectors, (used - 1) * _IOVEC_WORDS)
            put(vector, Iovec.LENGTH, get(vector, Iovec.LENGTH) + take)
        else:
            if at > end:
                _append(vectors, used, nowhere, at - end)
                used += 1
            _append(vectors, used, to, take)
            used += 1
        to += take * move
        end = at + take
        first += take
    wrong = _fetch(source, file, start, vectors, used)
    return wrong if wrong else _checked(source, file)


@inner
def decode_frames(source, number, first, last, to):
    """Read the bytes `first` to `last` behind the header of file `number`, decoded by the source's step.

    Both lie between elements. Of each frame only the stored words are read that hold what is wanted, and what lies
    between them. Arguments and result are those of `read_frames`.
    """
    parts = malloc(MAX_PARTS * get(source, FrameWord.ROWS) * COLUMNS * WORD)
    if parts == 0:
        return NO_ANSWER
    wrong = _decode_frames(source, number, first, last, to, parts)
    free(parts)
    return wrong


@inner
def _decode_frames(source, number, first, last, to, parts):
    frame, record = get(source, FrameWord.FRAME_BYTES), placed(source, HEADER)
    end = get(source, FrameWord.BEGIN) + get(source, FrameWord.SPAN)
    where = frame_tables(source)
    file, row = -1, -1
    while first < last:
        position, _ = position_at(source, number, first // frame)
        if position < 0:
            return NO_ANSWER
        begin, row = locate(where, position, 0, row)
        here, at, left = file_byte(where, begin, row)
        if row < 0 or end - record > left:
            return NO_ANSWER
        if file >= 0 and here != file:
            wrong = _checked(source, file)
            if wrong:
                return wrong
        file = here
        within = first % frame
        take = min(frame - within, last - first)
        fd = descriptor(source, file)
        if fd < 0:
            return NOT_OPEN + file
        if to:
            whole = take == frame
            done = (
                _decode_whole(source, fd, at - record, take, to)
                if whole
                else _decode_part(source, fd, at - record, within, take, to, parts)
            )
            if not done:
                return NOT_OPEN + file
            to += take
        first += take
    return _checked(source, file)


@inner
def _decode_whole(source, fd, at, take, to):
    """Read and decode a frame whose record begins at byte `at` of a file. Returns False if that cannot be."""
    begin, span = get(source, FrameWord.BEGIN), get(source, FrameWord.SPAN)
    data = malloc(span)
    done = data != 0 and read_whole(fd, data, span, at + begin)
    if done:
        step, ranges = get(source, FrameWord.STEP), get(source, FrameWord.RANGES)
        call(step, ranges, get(source, FrameWord.ROWS), data, span, begin, to, take)
    free(data)
    return done


@inner
def _decode_part(source, fd, at, within, take, to, parts):
    """Read and decode a part of a frame.

    Args:
        fd: descriptor of the file that holds the frame.
        at: byte of the file at which the frame's record begins.
        within, take: the first byte of the decoded frame that is wanted, and their number.
        to: address of memory for them.
        parts: address of memory for the ranges of the part, see `vfs.kernels.native.parts.cut`.

    Returns: False if that cannot be.
    """
    element = get(source, SourceWord.ELEMENT_BYTES)
    n = cut(
        get(source, FrameWord.RANGES),
        get(source, FrameWord.ROWS),
        within // element,
        (within + take) // element,
        placed(source, WORD_BYTES),
        placed(source, WORD_PIXELS),
        parts,
    )
    size, _ = _windows(parts, n, 0, -1, 0)
    data = malloc(size)
    done = data != 0
    if done:
        _, done = _windows(parts, n, data, fd, at)
    if done:
        call(get(source, FrameWord.STEP), parts, n, data, size, 0, to, take)
    free(data)
    return done


@inner
def _windows(parts, n, data, fd, at):
    """Read what lies close together at once: ranges in file order become some windows, one behind the other in memory.

    Args:
        parts, n: address and number of the ranges, in bytes of a record, which then are in bytes of the memory.
        data: address of the memory; 0: this only counts bytes.
        fd: descriptor of the file.
        at: byte of the file at which the record begins.

    Returns: (bytes of all windows, False if they could not be read).
    """
    used, row = 0, 0
    while row < n:
        begin, end, after = get(address(parts, row * COLUMNS), START), get(address(parts, row * COLUMNS), STOP), row + 1
        while after < n and get(address(parts, after * COLUMNS), START) <= end + GAP:
            end = max(end, get(address(parts, after * COLUMNS), STOP))
            after += 1
        if data:
            if not read_whole(fd, data + used, end - begin, at + begin):
                return used, False
            for k in range(row, after):
                part = address(parts, k * COLUMNS)
                put(part, START, get(part, START) - begin + used)
                put(part, STOP, get(part, STOP) - begin + used)
        row = after
        used += end - begin
    return used, True
