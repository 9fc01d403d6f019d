"""Scratch memory: aligned, reused, never shared, never kept out of proportion."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import numpy as np

from vfs import buffers
from vfs.buffers import Pool


def test_buffers_are_long_enough_aligned_and_reused() -> None:
    pool = Pool()
    for size in (1, 4096, 65536, 65537, 3_000_000):
        with pool.borrow(size) as buffer:
            assert buffer.dtype == np.uint8
            assert buffer.size >= size
            assert buffer.ctypes.data % 4096 == 0
            buffer[:] = 1
            at = buffer.ctypes.data
        with pool.borrow(size) as buffer:
            assert buffer.ctypes.data == at


def test_two_at_once_are_two() -> None:
    pool = Pool()
    with pool.borrow(100) as a, pool.borrow(100) as b, pool.borrow(100) as c:
        assert len({x.ctypes.data for x in (a, b, c)}) == 3
    assert len(pool._free) == 3


def test_a_buffer_comes_back_after_an_error() -> None:
    pool = Pool()
    try:
        with pool.borrow(100):
            raise KeyError
    except KeyError:
        pass
    assert len(pool._free) == 1


def test_few_are_kept_and_no_huge_ones() -> None:
    pool = Pool(keep=2)
    with pool.borrow(100), pool.borrow(100), pool.borrow(100):
        pass
    assert len(pool._free) == 2
    huge = Pool()
    with huge.borrow(buffers.KEPT + 1) as buffer:
        assert buffer.size < buffers.KEPT + 8192  # not twice as much either
    assert len(huge._free) == 0


def test_the_pool_is_trimmed_to_its_limit() -> None:
    pool = Pool(keep=8, total=5 << 20)
    with pool.borrow(1 << 20) as first, pool.borrow(1 << 20) as second:
        pass
    with pool.borrow(1 << 22):
        pass
    assert sum(buffer.size for buffer in pool._free) <= 5 << 20
    assert any(buffer is not first and buffer is not second for buffer in pool._free), "what was used last is kept"
    with ExitStack() as many:
        for _ in range(8):
            many.enter_context(pool.borrow(1 << 21))
    assert sum(buffer.size for buffer in pool._free) <= 5 << 20


def test_what_is_kept_is_far_less_than_what_was_in_use() -> None:
    pool = Pool()
    with ExitStack() as many:
        for _ in range(8):
            many.enter_context(pool.borrow(buffers.KEPT))
    assert sum(buffer.size for buffer in pool._free) == buffers.TOTAL


def test_threads_never_share_a_buffer() -> None:
    pool = Pool()

    def work(mark: int) -> bool:
        good = True
        for _ in range(200):
            with pool.borrow(5000) as buffer:
                buffer[:5000] = mark
                good &= bool((buffer[:5000] == mark).all())
        return good

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(work, range(8)))


def test_a_forked_process_has_buffers_of_its_own() -> None:
    """Anonymous maps are shared with children unless one says otherwise: two processes would decode into one buffer."""
    pool = Pool()
    with pool.borrow(100) as buffer:
        buffer[:] = 7
    child = os.fork()
    if child == 0:
        with pool.borrow(100) as buffer:
            buffer[:] = 9
        os._exit(0)
    os.waitpid(child, 0)
    with pool.borrow(100) as buffer:
        assert (buffer == 7).all()
