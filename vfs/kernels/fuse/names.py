"""Names of a mount, looked up, opened and listed without the interpreter: `open_file`, `get_attributes` and `read_folder` are what libfuse calls.

A table of *names* holds what numbers are appended to: `scan.zarr/data/c` with as many numbers as the array has axes is a chunk, with fewer a folder;
`scan.npy` with none is a file. Whatever is not of this kind (documents, absent names) is left to the interpreter, as is everything
that `vfs.kernels.fuse.serve` knows nothing of, and all names of a source that is not good now. See there for the words of a source, and for when
names may be freed that were taken out of the table.
"""

from __future__ import annotations

import numpy as np
from numba import cfunc, types

from vfs.kernels.fuse import serve
from vfs.kernels.fuse.native import atomic_add, atomic_load, call, call_fill, call_word, peek8, peek32, poke, poke8, poke32, room, state
from vfs.kernels.fuse.paths import BASIS, PRIME, hashed, inode
from vfs.kernels.fuse.serve import (
    ALWAYS,
    BESIDE,
    CHOICES,
    CONTEXT,
    COUNTERS,
    FRAMES,
    HEADER,
    INFO,
    INFO_FLAGS,
    KEEP,
    MET,
    MOVES,
    NAMES,
    PATHS,
    PROBES,
    ROWS,
    SLOW_LIST,
    SLOW_OPEN,
    SLOW_STAT,
    STAT_BYTES,
    STAT_INODE,
    STRIDE,
    THREADS,
    UNTIL,
)
from vfs.kernels.intrinsics import memcpy, peek
from vfs.kernels.locate import S_FILE, S_START, S_STOP, locate, stream_word
from vfs.kernels.ranges import inner

# words of a name
(
    HASH,
    LENGTH,  # bytes of the text, and where it is
    TEXT,
    SOURCE,  # number of the source
    AXES,  # numbers that make it a file
    LEAST,  # numbers that make it a folder, at least
    COUNTS,  # where their limits are: int64[AXES]
    FILE,  # where the attributes of a file and of a folder are, but for the inode number
    FOLDER,
) = range(9)
NAME_MASK = (1 << 12) - 1
"""Places for names, less one."""

ATTRIBUTES = 64  # words that are there for a struct stat: libfuse reads more of it than fusepy takes for its length
STEPS = 4096  # frames that are looked at, to know which files hold them
_MOST = 16  # numbers at the end of a path
_HERE = -100  # AT_FDCWD
_THREAD = 16  # where struct fuse_context has the number of the thread that asks, behind a pointer and two numbers

_room_for_attributes, _room_for_a_number = room(ATTRIBUTES), room(4)
_room_for_numbers, _room_for_cuts, _room_for_hashes = room(_MOST), room(_MOST + 1), room(_MOST + 1)


@inner
def _find(h, text, length):
    """Address of the name of that text, 0 where there is none."""
    names = peek(state() + 8 * NAMES)
    at = serve.place(h, NAME_MASK)
    for _ in range(PROBES):
        name = atomic_load(names + 8 * at)
        if name and peek(name + 8 * HASH) == h and peek(name + 8 * LENGTH) == length:
            equal = True
            other = peek(name + 8 * TEXT)
            for i in range(length):
                if peek8(text + i) != peek8(other + i):
                    equal = False
                    break
            if equal:
                return name
        at = (at + 1) & NAME_MASK
    return 0


@inner
def _resolve(path):
    """(name, how many numbers follow it, number of the file or folder among those with so many, hash of the path, its length); name 0: not known."""
    text = path + 1  # without the slash
    length = 0
    while peek8(text + length):
        length += 1
    numbers, cuts, hashes = _room_for_numbers(), _room_for_cuts(), _room_for_hashes()  # int64, the last one first
    poke(cuts, length)
    n = 0
    end = length
    while n < _MOST:
        begin = end
        value, factor = 0, 1
        while begin > 0 and 48 <= peek8(text + begin - 1) <= 57 and end - begin < 18:
            begin -= 1
            value += (peek8(text + begin) - 48) * factor
            factor *= 10
        if begin == end or begin == 0 or peek8(text + begin - 1) != 47 or (end - begin > 1 and peek8(text + begin) == 48):
            break
        poke(numbers + 8 * n, value)
        n += 1
        end = begin - 1
        poke(cuts + 8 * n, end)
    h = BASIS
    at = 0
    for k in range(n, -1, -1):
        h = hashed(h, text, at, peek(cuts + 8 * k))
        at = peek(cuts + 8 * k)
        poke(hashes + 8 * k, np.int64(h))
    for k in range(n + 1):
        name = _find(peek(hashes + 8 * k), text, peek(cuts + 8 * k))
        if name:
            if k < peek(name + 8 * LEAST) or k > peek(name + 8 * AXES):
                return 0, 0, 0, h, length
            counts = peek(name + 8 * COUNTS)
            index = 0
            for j in range(k):
                value, count = peek(numbers + 8 * (k - 1 - j)), peek(counts + 8 * j)
                if value >= count:
                    return 0, 0, 0, h, length
                index = index * count + value
            return name, k, index, h, length
    return 0, 0, 0, h, length


@inner
def _good(path):
    """As `_resolve`, and the source of the name last: it is good now. To be called inside."""
    name, k, index, h, length = _resolve(path)
    source = serve.source_of(peek(name + 8 * SOURCE)) if name else 0
    return (name if source else 0), k, index, h, length, source


@inner
def _unchanged(source, number):
    """Whether the files that hold a file of a source are as they were last found. -1: not known here."""
    paths = peek(source + 8 * PATHS)
    if paths == 0:
        return -1
    where = serve.places(source)
    stride, header = peek(source + 8 * STRIDE), peek(source + 8 * HEADER)
    single, rows = peek(source + 8 * CHOICES) > 0, peek(source + 8 * ROWS)
    frames = peek(source + 8 * FRAMES)
    number //= peek(source + 8 * BESIDE)
    k = 0
    seen = -1
    for _ in range(STEPS):
        if k >= frames:
            return 1
        position, run = serve.position_at(source, number, k)
        begin, row = -1, -1
        if position >= 0:
            begin, row = locate(where, position, 0, -1)
        if begin < 0:
            k += 1
            continue
        if row < 0:  # not here, or from its middle on
            return -1
        end = begin - header + stride
        k += 1 if single else max(1, min(run, (stream_word(where, row, S_STOP) - begin) // stride))
        while row < rows and stream_word(where, row, S_START) < end:
            file = stream_word(where, row, S_FILE)
            if file != seen and not serve.same(_HERE, peek(paths + 8 * file), source, file):
                return 0
            seen = file
            row += 1
    return -1


@inner
def _count():
    atomic_add(peek(state() + 8 * COUNTERS), 1)


@inner
def _opened(path, info):
    name, k, index, _, _, source = _good(path)
    if name == 0 or k != peek(name + 8 * AXES) or peek32(info) & 3:
        return False
    lasting = peek(source + 8 * UNTIL) == 0
    if _unchanged(source, index) != 1 or (lasting and atomic_load(peek(source + 8 * MOVES))):  # the interpreter knows which pages are old
        return False
    poke(info + peek(state() + 8 * INFO), serve.handle_of(peek(name + 8 * SOURCE), index))
    at = info + peek(state() + 8 * INFO_FLAGS)
    keep = peek(state() + 8 * KEEP)
    flags = peek32(at) & ~keep | peek(state() + 8 * ALWAYS)
    poke32(at, flags | keep if lasting else flags)  # what may change libfuse decides by time and size
    return True


@inner
def _met():
    """Whether the thread that asks is known to be one that reads: else the interpreter finds out whose it is."""
    context = peek(state() + 8 * CONTEXT)
    if context == 0:
        return True
    thread = peek32(call_word(context) + _THREAD)
    return peek(peek(state() + 8 * MET) + 8 * (thread & (THREADS - 1))) == thread


@cfunc(types.int32(types.int64, types.int64), cache=True, error_model="numpy")
def open_file(path, info):
    """`open` of libfuse's operations."""
    at = serve.enter()
    done = _met() and _opened(path, info)
    serve.leave(at)
    if done:
        _count()
        return np.int32(0)
    return np.int32(call(peek(state() + 8 * SLOW_OPEN), path, info, 0, 0, 0, 0))


@inner
def _described(path, attributes):
    name, k, _, h, _, _ = _good(path)
    if name == 0:
        return False
    file = k == peek(name + 8 * AXES)
    memcpy(attributes, peek(name + 8 * (FILE if file else FOLDER)), peek(state() + 8 * STAT_BYTES))
    poke(attributes + peek(state() + 8 * STAT_INODE), inode(h))
    return True


@cfunc(types.int32(types.int64, types.int64, types.int64), cache=True, error_model="numpy")
def get_attributes(path, attributes, info):
    """`getattr` of libfuse's operations, and `fgetattr`."""
    at = serve.enter()
    done = _described(path, attributes)
    serve.leave(at)
    if done:
        _count()
        return np.int32(0)
    return np.int32(call(peek(state() + 8 * SLOW_STAT), path, attributes, info, 0, 0, 0))


@inner
def _listed(path, buffer, fill, offset, flags):
    name, k, _, h, length, _ = _good(path)
    long = peek(state() + 8 * STAT_BYTES)
    if name == 0 or k == peek(name + 8 * AXES) or offset < 0 or long > 8 * ATTRIBUTES:
        return False
    attributes = _room_for_attributes()
    entry = _room_for_a_number()
    own = attributes + peek(state() + 8 * STAT_INODE)
    plus = (flags & 1) * 2  # libfuse 2 knows no flags, and takes none
    memcpy(attributes, peek(name + 8 * FOLDER), long)
    for dots in range(offset + 1, 3):
        poke8(entry, 46)
        poke8(entry + 1, 46 if dots == 2 else 0)
        poke8(entry + 2, 0)
        up = length
        while dots == 2 and up > 0 and peek8(path + up) != 47:
            up -= 1
        parent = max(0, up - 1) if dots == 2 else length
        poke(own, inode(hashed(BASIS, path + 1, 0, parent)) if parent else 1)
        if call_fill(fill, buffer, entry, attributes, dots, plus):
            return True
    memcpy(attributes, peek(name + 8 * (FILE if k + 1 == peek(name + 8 * AXES) else FOLDER)), long)
    below = (h ^ np.uint64(47)) * PRIME
    for n in range(max(0, offset - 2), peek(peek(name + 8 * COUNTS) + 8 * k)):
        digits = 1
        rest = n
        while rest >= 10:
            rest //= 10
            digits += 1
        rest = n
        for i in range(digits - 1, -1, -1):
            poke8(entry + i, 48 + rest % 10)
            rest //= 10
        poke8(entry + digits, 0)
        poke(own, inode(hashed(below, entry, 0, digits)))
        if call_fill(fill, buffer, entry, attributes, n + 3, plus):
            return True
    return True


@cfunc(types.int32(types.int64, types.int64, types.int64, types.int64, types.int64, types.int64), cache=True, error_model="numpy")
def read_folder(path, buffer, fill, offset, info, flags):
    """`readdir` of libfuse's operations: "." and ".." are at offsets 0 and 1, the numbers follow."""
    at = serve.enter()
    done = _listed(path, buffer, fill, offset, flags)
    serve.leave(at)
    if done:
        _count()
        return np.int32(0)
    return np.int32(call(peek(state() + 8 * SLOW_LIST), path, buffer, fill, offset, info, flags))
