"""Finds sources in their table, of which none is freed while it is used.

A reader is counted in (`enter`) before it follows an address of the table, and counted out (`leave`) when it is done.
There are two counters, and the lowest bit of `EPOCH` says which one new readers use. Code that takes a source out of
the table, or anything else that readers find, must not free it before it has seen each counter at 0 once since then:
readers that are counted in later cannot find it any more. Changing that bit of `EPOCH` lets the counter that is in use
go down to 0. A reader that comes back to a source, as to one whose body a slow client takes, puts its address down
where `Retired` looks. See `vfs.serving.native_sources`.
"""

from __future__ import annotations

import numpy as np

from vfs.kernels.clib import clock_gettime
from vfs.kernels.compiled import inner
from vfs.kernels.intrinsics import get
from vfs.kernels.native.memory import address, atomic_add, atomic_get, room
from vfs.kernels.native.words import LINE, SECOND, FrameWord, TableWord, Timespec

_MONOTONIC = 1
_room_for_a_time = room(len(Timespec))


@inner
def enter(table):
    """Count a reader of a table in. Return the address of its counter, for `leave`."""
    inside = address(table, TableWord.INSIDE + LINE * (atomic_get(table, TableWord.EPOCH) & 1))
    atomic_add(inside, 0, 1)
    return inside


@inner
def leave(inside):
    """Count a reader out, at the counter that `enter` returned."""
    atomic_add(inside, 0, -1)


@inner
def source_at(table, place):
    """Return the address of the source at a place of a table, 0 if there is none."""
    return atomic_get(get(table, TableWord.PLACES), place)


@inner
def source_of(table, number):
    """Return the address of the source with a number, 0 if it is gone or its files have to be checked again."""
    source = source_at(table, number & (get(table, TableWord.COUNT) - 1))
    if source == 0 or get(source, FrameWord.NUMBER) != number:
        return 0
    until = atomic_get(source, FrameWord.UNTIL)
    return source if until == 0 or now() < until else 0


@inner
def now():
    """Return nanoseconds of the monotonic clock."""
    time = _room_for_a_time()
    clock_gettime(np.int32(_MONOTONIC), time)
    return get(time, Timespec.SECONDS) * SECOND + get(time, Timespec.NANOSECONDS)
