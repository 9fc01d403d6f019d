"""Reads of a mount, answered without the interpreter: `read` is what libfuse calls.

`fi->fh` says what is open: `OURS`, the number of a *source* (one face of an array) and the number of the file in it (a chunk; 0 for
a .npy face), see `handle`. A source is a table of int64, and what it shows comes from one of two places:

- *pieces*: decoded bytes that somebody put into the table of pieces, found by (source, number of the piece);
- the source's own files, where they hold the bytes as they are, or swapped: `preadv` into libfuse's buffer, then the file is asked whether
  it is still the one that was opened, once for all that was read of it.

A read that cannot be answered wholly, for whatever reason, is left to the function at `SLOW`, which has the interpreter and says what is wrong.

Nothing here is freed while it is used. A reader is counted in while it follows pointers, in one of two counters (`INSIDE`, `INSIDE + LINE`), by
the lowest bit of `EPOCH`. Whoever takes something out of the tables waits, before freeing it, until he has seen each of the counters at 0
once since: who is counted in later cannot find it any more. Turning `EPOCH` lets the counter that is in use run dry.
"""

from __future__ import annotations

import numpy as np
from numba import carray, cfunc, njit, types

from vfs.kernels.fetch import GAP
from vfs.kernels.fuse.native import atomic_add, atomic_load, atomic_swap, call, clock_gettime, memory16, memory32, memory64, peek32, poke, room, state, statx
from vfs.kernels.intrinsics import memcpy, peek, pread, preadv, swap_bytes
from vfs.kernels.locate import file_byte, locate
from vfs.kernels.ranges import inner

# words of `native.STATE`
INFO, SLOW, SOURCES, COUNT, PIECES, MASK, COUNTERS = range(7)
NAMES, SLOW_OPEN, SLOW_STAT, SLOW_LIST, INFO_FLAGS, KEEP, ALWAYS, STAT_BYTES, STAT_INODE, CONTEXT, MET = range(40, 51)
EPOCH, INSIDE, LINE = 16, 24, 8

# words of a source
(
    SIZE,  # bytes of each of its files
    HEAD,  # bytes of the header, and where they are
    HEAD_AT,
    PIECE,  # bytes of a piece: the files' bytes behind the header are cut into so many
    PER,  # pieces of a file
    FRAME,  # bytes of a frame; 0: pieces only
    AXES,  # navigation axes, and where their lengths are: of the grid of chunks, of a chunk, of the array
    GRID,
    STREAM,  # where a `FrameLayout` has its tables, and their lengths, see `vfs.kernels.locate`; so the next four, in their order there
    ROWS,
    STRIDE,
    HEADER,
    STORED,
    OFFSET,
    CHOSEN,
    CHOICES,
    FILES,  # where the files' tables are: descriptor + 1 (0: not open), size, time in nanoseconds
    SIZES,
    TIMES,
    SWAP,  # bytes of the words that have to be swapped; 1: none
    PATHS,  # where the names of the files are: their addresses; 0: which files hold a chunk is not known here
    BESIDE,  # chunks that hold other parts of the same frames
    FRAMES,  # frames that a chunk or .npy file shows
    NUMBER,  # its own
    UNTIL,  # time of the monotonic clock, ns, up to which it is known to be what it was; 0: for ever
    CTIMES,  # of its files, see `vfs.model.stored.Files`
    MOVES,  # where the number of their moves is
) = range(27)
SOURCE_WORDS = 27

# words of a piece
KEY, AT, LENGTH, AHEAD, USED, MADE = range(6)  # the last: what `Files.moves` was before it was made
PROBES = 4

THREADS = 1 << 10
"""Places for the numbers of threads that were met lately, see `vfs.fuse.readers`."""

TOGETHER = 32  # places of one reading call at most, and as many between them

OURS = 1 << 62
_NUMBER = 32
FILES_MOST, SOURCES_MOST = 1 << _NUMBER, 1 << 62 - _NUMBER
"""Above the numbers of files and pieces of a source, and above those of sources. A source lies at the last bits of its number in the table of sources."""
_FAIL = -(1 << 40)
NO_ANSWER = _FAIL
"""From `answer`: not from here. From `NOT_OPEN` on: file `n - NOT_OPEN` of the source is not open, or not what it was when it was opened."""
NOT_OPEN = _FAIL + 1


_ASKED = 0x200 | 0x80 | 0x40 | 0x4  # size, times of change and of writing, links
_EMPTY_PATH = 0x1000
_MONOTONIC = 1

_room_for_statx = room(32 + 1)
_room_for_a_time = room(2)
_room_for_places = room(2 * 2 * TOGETHER)
_room_for_a_gap = room(GAP // 8)


def handle(source: int, number: int) -> int:
    """Get what `fi->fh` is for file `number` of a source, and what piece `number` is found by. It is never 0."""
    return OURS | source << _NUMBER | number


handle_of = inner(handle)  # for kernels


def parts(fh: int) -> tuple[int, int]:
    """(source, number) of a handle."""
    return (fh & ~OURS) >> _NUMBER, fh & ((1 << _NUMBER) - 1)


@inner
def source_of(which):
    """Address of a source that is good now; 0: there is none, any more. To be called inside."""
    places = atomic_load(state() + 8 * COUNT)
    if places == 0:
        return 0
    source = atomic_load(peek(state() + 8 * SOURCES) + 8 * (which & (places - 1)))
    if source == 0 or peek(source + 8 * NUMBER) != which:
        return 0
    until = atomic_load(source + 8 * UNTIL)
    if until:
        now = _room_for_a_time()
        if clock_gettime(np.int32(_MONOTONIC), now) != 0 or peek(now) * 1_000_000_000 + peek(now + 8) >= until:
            return 0
    return source


@inner
def same(fd, name, source, file):
    """Whether a file of a source, an open one or (name: an address that is not 0) one of a folder, has a name and is as it was last found.

    Where it is not it may still be the one that was opened: the interpreter finds out (`vfs.model.stored.Files.same`).
    """
    found = _room_for_statx()
    flags = 0
    if name == 0:
        name = found + 8 * 32
        poke(name, 0)  # the empty path
        flags = _EMPTY_PATH
    if statx(np.int32(fd), name, np.int32(flags), np.uint32(_ASKED), found) != 0 or peek32(found + 16) == 0:
        return False
    size, time = peek(peek(source + 8 * SIZES) + 8 * file), peek(peek(source + 8 * TIMES) + 8 * file)
    written, changed = peek(found + 112) * 1_000_000_000 + peek32(found + 120), peek(found + 96) * 1_000_000_000 + peek32(found + 104)
    return peek(found + 40) == size and written == time and changed == atomic_load(peek(source + 8 * CTIMES) + 8 * file)


@inner
def _fetch(source, file, start, pieces, n):
    """Bytes of a file from `start` on, to the `n` places that `pieces` holds (address, bytes), by one call. Returns 0, or `NOT_OPEN` and the file.

    Where the first place is at address 0 nothing is read: it is only found out whether the file is open.
    """
    fd = np.int32(atomic_load(peek(source + 8 * FILES) + 8 * file) - 1)
    if fd < 0:
        return NOT_OPEN + file
    if peek(pieces) == 0:
        return 0
    done = preadv(fd, pieces, np.int32(n), start) if n > 1 else 0
    for k in range(n):
        to, left = peek(pieces + 16 * k), peek(pieces + 16 * k + 8)
        while left > 0:
            got = min(done, left)
            if got > 0:
                done -= got
            else:  # the only place; or a signal or an end was in the way
                got = pread(fd, to, left, start)
                if got <= 0:
                    return NOT_OPEN + file
            to += got
            left -= got
            start += got
    return 0


@inner
def _checked(source, file):
    """0 where a file that was read is still the one that was opened, else `NOT_OPEN` and the file."""
    fd = atomic_load(peek(source + 8 * FILES) + 8 * file) - 1
    if fd >= 0 and same(fd, 0, source, file):
        return 0
    return NOT_OPEN + file


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
def position_at(source, number, k):
    """Scan position of frame `k` of file `number`: -1 where it is none, and how many follow one another."""
    axes = peek(source + 8 * AXES)
    grid = peek(source + 8 * GRID)
    position = 0
    run = 1
    below = 1
    for j in range(axes - 1, -1, -1):
        count, chunk, length = peek(grid + 24 * j), peek(grid + 24 * j + 8), peek(grid + 24 * j + 16)
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
def places(source):
    """What `vfs.kernels.locate.tables` returns, of a source."""
    chosen, choices = peek(source + 8 * CHOSEN), peek(source + 8 * CHOICES)
    return source + 8 * STRIDE, chosen, choices, peek(source + 8 * STREAM), peek(source + 8 * ROWS)


@inner
def _direct(source, number, first, last, to):
    """The bytes `first` to `last` behind the header, read from the files; `to` 0: only looks whether these are open.

    Returns: 0, or what `answer` returns where that does not work.
    """
    move = 1 if to else 0
    frame = peek(source + 8 * FRAME)
    where = places(source)
    stride, header, stored = peek(source + 8 * STRIDE), peek(source + 8 * HEADER), peek(source + 8 * STORED)
    single = peek(source + 8 * CHOICES) > 0 or stride != frame
    pieces = _room_for_places()
    nowhere = _room_for_a_gap()
    file, start, end, used = -1, 0, 0, 0  # what is to be read next: of that file, from there to there, to so many places
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
        if used and (here != file or at < end or at > end + GAP or used > 2 * TOGETHER - 2):
            wrong = _fetch(source, file, start, pieces, used)
            if wrong == 0 and here != file:
                wrong = _checked(source, file)
            if wrong:
                return wrong
            used = 0
        if used == 0:
            file, start, end = here, at, at
        if used and at == end:
            poke(pieces + 16 * used - 8, peek(pieces + 16 * used - 8) + take)
        else:
            if at > end:
                poke(pieces + 16 * used, nowhere)
                poke(pieces + 16 * used + 8, at - end)
                used += 1
            poke(pieces + 16 * used, to)
            poke(pieces + 16 * used + 8, take)
            used += 1
        to += take * move
        end = at + take
        first += take
    wrong = _fetch(source, file, start, pieces, used)
    return wrong if wrong else _checked(source, file)


@inner
def find(pieces, mask, key, made):
    """Address of the piece of that key and state, 0 where there is none. To be called inside."""
    at = place(key, mask)
    for _ in range(PROBES):
        piece = atomic_load(pieces + 8 * at)
        if piece and peek(piece + 8 * KEY) == key and peek(piece + 8 * MADE) == made:
            return piece
        at = (at + 1) & mask
    return 0


@njit(nogil=True, cache=True)
def place(key, mask):
    """Where the search for a key begins."""
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(mixed >> np.uint64(20)) & mask


@inner
def _from_pieces(source, number, base, first, last, to):
    """The bytes `first` to `last` behind the header, copied from pieces. Returns whether all of them were there."""
    size, per = peek(source + 8 * PIECE), peek(source + 8 * PER)
    pieces, mask = peek(state() + 8 * PIECES), peek(state() + 8 * MASK)
    made = atomic_load(peek(source + 8 * MOVES))
    found = 0
    while first < last:
        k = first // size
        piece = find(pieces, mask, base + number * per + k, made)
        if piece == 0:
            return False
        within = first - k * size
        take = min(peek(piece + 8 * LENGTH) - within, last - first)
        if take <= 0 or (peek(piece + 8 * AHEAD) and atomic_swap(piece + 8 * AHEAD, 0)):
            return False  # the first to come to a piece that was made ahead: he sees to the next one
        memcpy(to, peek(piece + 8 * AT) + within, take)
        if peek(piece + 8 * USED) == 0:
            poke(piece + 8 * USED, 1)
        to += take
        first += take
        found += 1
    atomic_add(peek(state() + 8 * COUNTERS) + 24, found)
    return True


@inner
def _answer(fh, to, size, offset):
    which = (fh & ~OURS) >> _NUMBER
    number = fh & ((1 << _NUMBER) - 1)
    source = source_of(which)
    if source == 0 or offset < 0:
        return NO_ANSWER
    last = min(offset + size, peek(source + 8 * SIZE))
    if offset >= last:
        return 0
    done = 0
    head = peek(source + 8 * HEAD)
    if offset < head:
        done = min(head, last) - offset
        if to:
            memcpy(to, peek(source + 8 * HEAD_AT) + offset, done)
        if offset + done == last:
            return done
    a, b = offset + done - head, last - head
    if peek(source + 8 * FRAME) == 0:
        return last - offset if _from_pieces(source, number, handle_of(which, 0), a, b, to + done) else NO_ANSWER
    width = peek(source + 8 * SWAP)
    if a % width or b % width or done % width:
        return NO_ANSWER
    moves = peek(source + 8 * MOVES)
    before = atomic_load(moves)
    wrong = _direct(source, number, a, b, to + done if to else 0)
    if wrong or to == 0:
        return wrong
    if atomic_load(moves) != before:  # some of it may have been read before that, and some after it
        return NO_ANSWER
    if width == 2:
        _swap16(to + done, (b - a) // 2)
    elif width == 4:
        _swap32(to + done, (b - a) // 4)
    elif width == 8:
        _swap64(to + done, (b - a) // 8)
    return last - offset


@inner
def enter():
    """Be counted in. Returns where."""
    at = state() + 8 * INSIDE + 8 * LINE * (atomic_load(state() + 8 * EPOCH) & 1)
    atomic_add(at, 1)
    return at


@inner
def leave(at):
    """Be counted out."""
    atomic_add(at, -1)


@njit(nogil=True, cache=True, error_model="numpy")
def answer(fh, to, size, offset):
    """Bytes `offset` to `offset + size` of what is open as `fh`, or as many as there are, to the address `to`.

    `to` may be 0 for a source whose bytes come from files: then it is only found out whether these are open.

    Returns: how many bytes; `NO_ANSWER`, or `NOT_OPEN` and a file, and then anything may have been written there.
    """
    at = enter()
    got = _answer(fh, to, size, offset)
    leave(at)
    return got


@cfunc(types.int32(types.int64, types.int64, types.int64, types.int64, types.int64), cache=True, error_model="numpy")
def read(path, buffer, size, offset, info):
    """`read` of libfuse's operations."""
    fh = peek(info + peek(state() + 8 * INFO))
    if fh & OURS:
        at = enter()
        got = _answer(fh, buffer, size, offset)
        leave(at)
        if got >= 0:
            counters = peek(state() + 8 * COUNTERS)
            atomic_add(counters, 1)
            atomic_add(counters + 8, 1)
            atomic_add(counters + 16, got)
            return np.int32(got)
    return np.int32(call(peek(state() + 8 * SLOW), path, buffer, size, offset, info, 0))
