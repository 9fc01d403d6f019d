"""The inner parts of what `vfs.open` and `vfs.open_group` return, for tests that look below the contract."""

from __future__ import annotations

from vfs.api.arrays import VirtualArray, VirtualGroup
from vfs.engine.array import ArrayReader
from vfs.sets.opening import OpenedSet


def reader_of(array: VirtualArray) -> ArrayReader:
    """Return what reads an array: it knows layout, decoder, backend, chunks and cache."""
    return array._reader


def set_of(group: VirtualGroup) -> OpenedSet:
    """Return the open data set of a group: its hierarchy, how it was opened, what it lacks."""
    return group._opened
