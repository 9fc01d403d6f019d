"""Reads what the page cache has of a file, and decodes it, in one call.

Reads that take only some microseconds spend most of them in the interpreter: to look at the file, to read it, to
decode it, to look at the file again. So all that is one call here. It never waits for a disk.
"""

from __future__ import annotations

import numpy as np

from vfs.kernels.clib import NO_WAIT, preadv2, statx
from vfs.kernels.columns import CHANGED, SIZE, WRITTEN
from vfs.kernels.compiled import inner, kernel
from vfs.kernels.intrinsics import get
from vfs.kernels.native.memory import atomic_get, peek, peek32, poke, put, room
from vfs.kernels.native.words import SECOND, STATX, WORD, Iovec, offset
from vfs.kernels.steps import call

# Flags of statx(2)
_STATX_LINKS, _STATX_WRITTEN, _STATX_CHANGED, _STATX_SIZE = 0x4, 0x40, 0x80, 0x200
_ASKED = _STATX_LINKS | _STATX_WRITTEN | _STATX_CHANGED | _STATX_SIZE
_EMPTY_PATH = 0x1000
_LINKS, _SIZE = offset(STATX, "links"), offset(STATX, "size")
_WRITTEN, _WRITTEN_NS = offset(STATX, "written", "seconds"), offset(STATX, "written", "nanoseconds")
_CHANGED, _CHANGED_NS = offset(STATX, "changed", "seconds"), offset(STATX, "changed", "nanoseconds")
_STATX_WORDS = STATX.itemsize // WORD

_room_for_statx = room(_STATX_WORDS)
_room_for_a_path = room(1)
_room_for_a_vector = room(len(Iovec))
_room_for_a_state = room(3)
_STATE_BYTES = 3 * WORD


@inner
def same(fd, path, states, file):
    """Return True if a file still has a name, and exactly the state that a table has for it.

    If not, it may still be the file that was opened: the interpreter finds out (`vfs.model.files.Files.same`).

    Args:
        fd: descriptor of the file if `path` is 0, else of the folder from which `path` starts.
        path: address of the path of the file; 0 if the file is open.
        states: address of `Files.states`.
        file: number of the row.
    """
    state = states + file * _STATE_BYTES
    found = _room_for_statx()
    flags = 0
    if path == 0:
        path = _room_for_a_path()
        poke(path, 0)  # the empty path
        flags = _EMPTY_PATH
    if statx(np.int32(fd), path, np.int32(flags), np.uint32(_ASKED), found) != 0 or peek32(found + _LINKS) == 0:
        return False
    return (
        peek(found + _SIZE) == get(state, SIZE)
        and peek(found + _WRITTEN) * SECOND + peek32(found + _WRITTEN_NS) == get(state, WRITTEN)
        and peek(found + _CHANGED) * SECOND + peek32(found + _CHANGED_NS) == atomic_get(state, CHANGED)
    )


@kernel(error_model="numpy")
def read(ranges, step, memory, out, base, start, fd, state):
    """Read bytes of a file and decode them, if that waits for no disk and the file is in one state before and after.

    Args:
        ranges: int64[n, 11], C-contiguous, in bytes of the file from `base` on.
        step: address of the step that decodes them, see `vfs.kernels.steps`; 0: they are read, no more.
        memory: uint8[m], filled with the bytes of the file from `base + start` on.
        out: uint8, the output of the step.
        fd: descriptor of the file; it and `state` are what `vfs.backends.Backend.at_hand` adds.
        state: int64[3], the row of `Files.states` that the file must have, whatever it becomes meanwhile.

    Returns: True if all was read. Else anything may have been written to `memory` and `out`.
    """
    n = memory.shape[0]
    vector = _room_for_a_vector()
    put(vector, Iovec.ADDRESS, memory.ctypes.data)
    put(vector, Iovec.LENGTH, n)
    before = _room_for_a_state()
    put(before, SIZE, state[SIZE])
    put(before, WRITTEN, state[WRITTEN])
    put(before, CHANGED, state[CHANGED])
    if not same(fd, 0, before, 0):
        return False
    if preadv2(np.int32(fd), vector, np.int32(1), base + start, np.int32(NO_WAIT)) != n:
        return False
    if not same(fd, 0, before, 0):
        return False
    if step != 0:
        call(step, ranges.ctypes.data, ranges.shape[0], memory.ctypes.data, n, start, out.ctypes.data, out.shape[0])
    return True
