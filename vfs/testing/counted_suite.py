"""Checks the number of bytes that are read, as the kernel counts them. Part of `FormatTests`.

Right numbers alone prove little: they can come from reading everything. The `factor` of a row must
hold for a frame and for the whole array, however users read them. `tests/fuse/test_counted.py`
counts the bytes that are read through a mount.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pytest

from vfs.api.arrays import VirtualArray
from vfs.engine.cache import ChunkCache
from vfs.testing.counted import counted
from vfs.testing.inside import reader_of

if TYPE_CHECKING:
    from vfs.testing.rows import WrittenSet

TINY = 512
"""Bytes of a window, so few that the tiny files of a row are read in several windows."""

Way = Callable[[VirtualArray, tuple[Any, ...]], int]


def _indexed(array: VirtualArray, cut: tuple[Any, ...]) -> int:
    return int(array[cut].nbytes)


def _region(array: VirtualArray, cut: tuple[Any, ...]) -> int:
    return int(array.read(tuple(slice(n, n + 1) for n in cut)).nbytes)


def _zarr(array: VirtualArray, cut: tuple[Any, ...]) -> int:
    return int(np.asarray(array.zarr()[cut or ...]).nbytes)


def _store(array: VirtualArray, cut: tuple[Any, ...]) -> int:
    """Get chunks as zarr does: all of them, or the one that begins with the first frame."""
    store = array.group.store()

    async def get() -> int:
        total = 0
        for position in [(0,) * array.ndim] if cut else np.ndindex(*reader_of(array).grid.counts):
            key = "/".join((reader_of(array).dataset.path, "c", *map(str, position)))
            found = await store.get(key)
            assert found is not None, key
            total += len(found)
        return total

    return asyncio.run(get())


WAYS: dict[str, Way] = {"indexed": _indexed, "region": _region, "zarr": _zarr, "store": _store}


def least(work: Callable[[], int]) -> tuple[int, int]:
    """Call a function several times, and count the bytes that are read.

    The first call loads kernels, and another thread may read something, too, so the smallest count
    is the right one.

    Returns: (the result of `work`, the smallest count).
    """
    if not os.path.exists("/proc/self/io"):
        pytest.skip("NOTHING THAT IS READ IS COUNTED: this kernel has no /proc/self/io")
    work()
    tries = [counted(work) for _ in range(2)]
    return tries[0][0], min(nbytes for _, nbytes in tries)


class CountedTests:
    """Checks the number of bytes that a format reads."""

    @pytest.mark.parametrize("way", WAYS)
    def test_no_more_is_read_than_stated(self, found: WrittenSet, way: str) -> None:
        array = found.open(backend="buffered", cache=ChunkCache(0))
        for cut in ((0,) * reader_of(array).dataset.nav_ndim, ()):
            asked, nbytes = least(partial(WAYS[way], array, cut))
            assert nbytes <= found.row.factor * asked, (
                f"{nbytes:,} bytes were read for {asked:,}: of {cut or 'everything'}"
            )

    def test_a_kernel_reads_no_more_than_window_by_window(self, found: WrittenSet) -> None:
        array = found.open(backend="buffered", cache=ChunkCache(0))
        with mock.patch.object(reader_of(array).backend, "window", TINY):
            _, fast = least(lambda: array.read().nbytes)
            with mock.patch.object(reader_of(array).backend, "lend", return_value=None):
                _, slow = least(lambda: array.read().nbytes)
        assert fast <= slow
