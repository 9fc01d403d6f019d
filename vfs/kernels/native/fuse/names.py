"""Opens, describes and lists names of a mount without the interpreter.

libfuse calls `open_file`, `get_attributes` and `read_folder`. The table of names holds paths that
numbers follow (`NameWord`): `scan.zarr/data/c` with as many numbers as the array has axes is a
chunk, with fewer a folder; `scan.npy` with none is a file. The interpreter answers for all other
names: documents, names that do not exist, and names of sources whose files have to be checked.
"""

from __future__ import annotations

import os

import numpy as np
from numba import types

from vfs.kernels.clib import memcpy
from vfs.kernels.columns import S_FILE, S_START, S_STOP
from vfs.kernels.compiled import callback, inner
from vfs.kernels.intrinsics import get
from vfs.kernels.locate import HEADER, STRIDE, locate, stream_word
from vfs.kernels.native.frames import frame_tables, moves, placed, unchanged
from vfs.kernels.native.fuse.files import position_at
from vfs.kernels.native.fuse.lookup import handle, place
from vfs.kernels.native.fuse.paths import BASIS, PRIME, hashed, inode
from vfs.kernels.native.fuse.state import call, call_fill, call_word, state
from vfs.kernels.native.fuse.tables import (
    CONTEXT,
    NAME_PLACES,
    PROBES,
    THREADS,
    CounterWord,
    NameWord,
    SourceWord,
    StateWord,
)
from vfs.kernels.native.memory import atomic_add, atomic_get, peek8, peek32, poke, poke8, poke32, put, room
from vfs.kernels.native.sources import enter, leave, source_of
from vfs.kernels.native.words import WORD, FrameWord, offset

_STAT_WORDS = 64  # room for a struct stat: libfuse reads more of it than fusepy takes for its length
_STEPS = 4096  # most frames of a file for which kernels find out which source files hold them
_NUMBERS = 16  # most numbers at the end of a path
_DIGITS = 18  # most digits of a number
_HERE = -100  # AT_FDCWD of fcntl.h: paths start from the working folder
_THREAD = offset(CONTEXT, "pid")
_OPEN_FLAGS = 0  # offset in fuse_file_info of the flags of open(2)
_ACCESS = os.O_ACCMODE
# FUSE_READDIR_PLUS of libfuse's requests, and FUSE_FILL_DIR_PLUS of answers to them
_PLUS, _FILL_PLUS = 1, 2
_ROOT = 1  # inode number
_DOT, _SLASH, _ZERO, _NINE = b"./09"

_room_for_attributes, _room_for_a_number = room(_STAT_WORDS), room(4)
_room_for_numbers, _room_for_cuts, _room_for_hashes = room(_NUMBERS), room(_NUMBERS + 1), room(_NUMBERS + 1)


@inner
def _equal(text, other, length):
    """Return True if `length` bytes at two addresses are the same."""
    for i in range(length):  # noqa: SIM110 (numba does not compile the generator)
        if peek8(text + i) != peek8(other + i):
            return False
    return True


@inner
def _find(h, text, length):
    """Return the address of the name with this hash and text, 0 if there is none."""
    names = get(state(), StateWord.NAMES)
    at = place(h, NAME_PLACES - 1)
    for _ in range(PROBES):
        name = atomic_get(names, at)
        if (
            name
            and get(name, NameWord.HASH) == h
            and get(name, NameWord.LENGTH) == length
            and _equal(text, get(name, NameWord.TEXT), length)
        ):
            return name
        at = (at + 1) & (NAME_PLACES - 1)
    return 0


@inner
def _split(text, length, numbers, cuts):
    """Split the numbers off the end of a path. A number has no leading zeros and follows a slash.

    Args:
        numbers: address of words that receive the numbers, the last one first.
        cuts: address of words that receive the lengths of the path without its last 0, 1, … numbers.

    Returns: the number of numbers.
    """
    put(cuts, 0, length)
    n = 0
    end = length
    while n < _NUMBERS:
        begin = end
        value, factor = 0, 1
        while begin > 0 and _ZERO <= peek8(text + begin - 1) <= _NINE and end - begin < _DIGITS:
            begin -= 1
            value += (peek8(text + begin) - _ZERO) * factor
            factor *= 10
        leading_zero = end - begin > 1 and peek8(text + begin) == _ZERO
        if begin == end or begin == 0 or peek8(text + begin - 1) != _SLASH or leading_zero:
            break
        put(numbers, n, value)
        n += 1
        end = begin - 1
        put(cuts, n, end)
    return n


@inner
def _resolve(path):
    """Find the entry of the table of names with which a path begins.

    Returns: (address of the name, count of numbers that follow it, index of the file or folder
        among all with that count, hash of the path, its length). The first is 0 if no name fits.
    """
    text = path + 1  # without the slash
    length = 0
    while peek8(text + length):
        length += 1
    numbers, cuts, hashes = _room_for_numbers(), _room_for_cuts(), _room_for_hashes()
    n = _split(text, length, numbers, cuts)
    h = BASIS
    at = 0
    for k in range(n, -1, -1):
        h = hashed(h, text, at, get(cuts, k))
        at = get(cuts, k)
        put(hashes, k, np.int64(h))
    for k in range(n + 1):
        name = _find(get(hashes, k), text, get(cuts, k))
        if name:
            if k < get(name, NameWord.LEAST) or k > get(name, NameWord.AXES):
                return 0, 0, 0, h, length
            counts = get(name, NameWord.COUNTS)
            index = 0
            for j in range(k):
                value, count = get(numbers, k - 1 - j), get(counts, j)
                if value >= count:
                    return 0, 0, 0, h, length
                index = index * count + value
            return name, k, index, h, length
    return 0, 0, 0, h, length


@inner
def _good(path):
    """Do what `_resolve` does, and also return the address of the name's source.

    The name is 0 if the source is gone or its files have to be checked again. Callers are between
    `enter` and `leave`.
    """
    name, k, index, h, length = _resolve(path)
    source = source_of(get(state(), StateWord.SOURCES), get(name, NameWord.SOURCE)) if name else 0
    return (name if source else 0), k, index, h, length, source


@inner
def _unchanged(source, number):
    """Check that the source files behind file `number` of a source are as they were last found.

    Returns: 1 if they are, 0 if not, -1 if a kernel cannot tell.
    """
    paths = get(source, SourceWord.PATHS)
    if paths == 0:
        return -1
    where = frame_tables(source)
    stride, header = placed(source, STRIDE), placed(source, HEADER)
    single, rows = get(source, FrameWord.CHOICES) > 0, get(source, FrameWord.STREAM_ROWS)
    frames = get(source, FrameWord.FRAMES)
    number //= get(source, SourceWord.PARTS)
    k = 0
    seen = -1
    for _ in range(_STEPS):
        if k >= frames:
            return 1
        position, run = position_at(source, number, k)
        begin, row = -1, -1
        if position >= 0:
            begin, row = locate(where, position, 0, -1)
        if begin < 0:
            k += 1
            continue
        if row < 0:  # no file holds the beginning of the frame
            return -1
        end = begin - header + stride
        k += 1 if single else max(1, min(run, (stream_word(where, row, S_STOP) - begin) // stride))
        while row < rows and stream_word(where, row, S_START) < end:
            file = stream_word(where, row, S_FILE)
            if file != seen and not unchanged(source, _HERE, get(paths, file), file):
                return 0
            seen = file
            row += 1
    return -1


@inner
def _count():
    atomic_add(get(state(), StateWord.COUNTERS), CounterWord.REQUESTS, 1)


@inner
def _opened(path, info):
    name, k, index, _, _, source = _good(path)
    if name == 0 or k != get(name, NameWord.AXES) or peek32(info + _OPEN_FLAGS) & _ACCESS != os.O_RDONLY:
        return False
    lasting = get(source, FrameWord.UNTIL) == 0
    # If a file was touched, the interpreter must decide which cached pages are old
    if _unchanged(source, index) != 1 or (lasting and moves(source)):
        return False
    poke(info + get(state(), StateWord.INFO_FH), handle(get(name, NameWord.SOURCE), index))
    at = info + get(state(), StateWord.INFO_FLAGS)
    keep = get(state(), StateWord.KEEP_CACHE)
    flags = peek32(at) & ~keep | get(state(), StateWord.ALWAYS)
    poke32(at, flags | keep if lasting else flags)  # if files may change, libfuse goes by time and size
    return True


@inner
def _met():
    """Return True if the thread that asks was seen lately. Else the interpreter finds out whose it is."""
    context = get(state(), StateWord.CONTEXT)
    if context == 0:
        return True
    thread = peek32(call_word(context) + _THREAD)
    return get(get(state(), StateWord.MET), thread & (THREADS - 1)) == thread


@callback(types.int32(types.int64, types.int64), error_model="numpy")
def open_file(path, info):
    """Answer `open` of libfuse's operations."""
    inside = enter(get(state(), StateWord.SOURCES))
    done = _met() and _opened(path, info)
    leave(inside)
    if done:
        _count()
        return np.int32(0)
    return np.int32(call(get(state(), StateWord.SLOW_OPEN), path, info, 0, 0, 0, 0))


@inner
def _described(path, attributes):
    name, k, _, h, _, _ = _good(path)
    if name == 0:
        return False
    file = k == get(name, NameWord.AXES)
    memcpy(
        attributes, get(name, NameWord.FILE_STAT if file else NameWord.FOLDER_STAT), get(state(), StateWord.STAT_BYTES)
    )
    poke(attributes + get(state(), StateWord.STAT_INODE), inode(h))
    return True


@callback(types.int32(types.int64, types.int64, types.int64), error_model="numpy")
def get_attributes(path, attributes, info):
    """Answer `getattr` and `fgetattr` of libfuse's operations."""
    inside = enter(get(state(), StateWord.SOURCES))
    done = _described(path, attributes)
    leave(inside)
    if done:
        _count()
        return np.int32(0)
    return np.int32(call(get(state(), StateWord.SLOW_GETATTR), path, attributes, info, 0, 0, 0))


@inner
def _write_number(entry, n):
    """Write a number as text, with a zero byte behind it, to the address `entry`. Return its digits."""
    digits = 1
    rest = n
    while rest >= 10:
        rest //= 10
        digits += 1
    rest = n
    for i in range(digits - 1, -1, -1):
        poke8(entry + i, _ZERO + rest % 10)
        rest //= 10
    poke8(entry + digits, 0)
    return digits


@inner
def _listed(path, buffer, fill, offset, flags):
    name, k, _, h, length, _ = _good(path)
    long = get(state(), StateWord.STAT_BYTES)
    if name == 0 or k == get(name, NameWord.AXES) or offset < 0 or long > WORD * _STAT_WORDS:
        return False
    attributes = _room_for_attributes()
    entry = _room_for_a_number()
    own = attributes + get(state(), StateWord.STAT_INODE)
    plus = _FILL_PLUS if flags & _PLUS else 0  # libfuse 2 knows no flags, and takes none
    memcpy(attributes, get(name, NameWord.FOLDER_STAT), long)
    for dots in range(offset + 1, 3):
        poke8(entry, _DOT)
        poke8(entry + 1, _DOT if dots == 2 else 0)
        poke8(entry + 2, 0)
        up = length
        while dots == 2 and up > 0 and peek8(path + up) != _SLASH:
            up -= 1
        parent = max(0, up - 1) if dots == 2 else length
        poke(own, inode(hashed(BASIS, path + 1, 0, parent)) if parent else _ROOT)
        if call_fill(fill, buffer, entry, attributes, dots, plus):
            return True
    memcpy(
        attributes, get(name, NameWord.FILE_STAT if k + 1 == get(name, NameWord.AXES) else NameWord.FOLDER_STAT), long
    )
    below = (h ^ np.uint64(_SLASH)) * PRIME
    for n in range(max(0, offset - 2), get(get(name, NameWord.COUNTS), k)):
        digits = _write_number(entry, n)
        poke(own, inode(hashed(below, entry, 0, digits)))
        if call_fill(fill, buffer, entry, attributes, n + 3, plus):
            return True
    return True


@callback(
    types.int32(types.int64, types.int64, types.int64, types.int64, types.int64, types.int64), error_model="numpy"
)
def read_folder(path, buffer, fill, offset, info, flags):
    """Answer `readdir` of libfuse's operations: "." and ".." are at offsets 0 and 1, numbers follow."""
    inside = enter(get(state(), StateWord.SOURCES))
    done = _listed(path, buffer, fill, offset, flags)
    leave(inside)
    if done:
        _count()
        return np.int32(0)
    return np.int32(call(get(state(), StateWord.SLOW_READDIR), path, buffer, fill, offset, info, flags))
