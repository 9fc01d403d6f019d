"""Scratch memory and memory that is lent: aligned, reused, never shared, never kept out of proportion."""

from __future__ import annotations

import gc
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import numpy as np

from vfs import buffers
from vfs.buffers import MemoryLender, MemoryPool

LEAST = 1 << 16  # bytes of the shortest buffer


def test_buffers_are_long_enough_aligned_and_reused() -> None:
    pool = MemoryPool()
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
    pool = MemoryPool()
    with pool.borrow(100) as a, pool.borrow(100) as b, pool.borrow(100) as c:
        assert len({x.ctypes.data for x in (a, b, c)}) == 3
    assert pool.held == 3 * LEAST


def test_a_buffer_comes_back_after_an_error() -> None:
    pool = MemoryPool()
    try:
        with pool.borrow(100):
            raise KeyError
    except KeyError:
        pass
    assert pool.held == LEAST


def test_few_are_kept_and_no_huge_ones() -> None:
    pool = MemoryPool(keep=2)
    with pool.borrow(100), pool.borrow(100), pool.borrow(100):
        pass
    assert pool.held == 2 * LEAST
    huge = MemoryPool()
    with huge.borrow(buffers.KEPT + 1) as buffer:
        assert buffer.size < buffers.KEPT + 8192  # not twice as much either
    assert huge.held == 0


def test_the_pool_is_trimmed_to_its_limit() -> None:
    pool = MemoryPool(keep=8, total=9 << 19)
    with pool.borrow(1 << 20), pool.borrow(1 << 20):
        pass
    with pool.borrow(1 << 22) as last:
        at = last.ctypes.data
    assert pool.held == 1 << 22, "what was used last is kept"
    with pool.borrow(1 << 22) as again:
        assert again.ctypes.data == at
    with ExitStack() as many:
        for _ in range(8):
            many.enter_context(pool.borrow(1 << 21))
    assert 1 << 21 <= pool.held <= 9 << 19


def test_what_is_kept_is_far_less_than_what_was_in_use() -> None:
    pool = MemoryPool()
    with ExitStack() as many:
        for _ in range(8):
            many.enter_context(pool.borrow(buffers.KEPT))
    assert pool.held == buffers.TOTAL


def test_threads_never_share_a_buffer() -> None:
    pool = MemoryPool()

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
    pool = MemoryPool()
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


# memory that is lent

BIG = 300_000
PAGES = 74 * 4096  # bytes that are lent for so many


def test_lent_memory_is_the_callers_until_nothing_shows_it() -> None:
    lender = MemoryLender()
    first = lender.lend(BIG)
    assert (type(first), first.dtype, first.shape, first.ctypes.data % 4096) == (np.ndarray, np.uint8, (BIG,), 0)
    first[:] = 1
    views: list[Any] = [
        first,
        first.view("<u2").reshape(500, -1)[3:, ::2],
        np.frombuffer(first.data, "u1")[5:],
        memoryview(first)[7:],
        first[1:][1:].T,
    ]
    del first
    while views:  # one view of any kind is enough to keep it
        gc.collect()
        assert lender.held == 0
        assert set(np.asarray(views[-1]).tobytes()) == {1}
        views.pop()
    assert lender.held == PAGES


def test_memory_is_lent_again_for_the_same_length_only() -> None:
    lender = MemoryLender()
    at = lender.lend(BIG).ctypes.data
    assert lender.lend(BIG).ctypes.data == at
    assert lender.lend(BIG + 4096).ctypes.data != at
    assert lender.lend(BIG - 1).ctypes.data == at, "as many pages"
    assert lender.held == 2 * PAGES + 4096
    small = lender.lend(buffers.SHORT - 1)
    assert small.base is None
    assert small.size == buffers.SHORT - 1


def test_what_waits_to_be_lent_is_limited() -> None:
    lender = MemoryLender(keep=3, total=4 << 20)
    held = [lender.lend(1 << 20) for _ in range(6)]
    del held
    assert lender.held == 3 << 20
    held = [lender.lend(3 << 20) for _ in range(2)]
    del held
    assert lender.held <= 4 << 20
    huge = lender.lend(5 << 20)
    del huge
    assert lender.held <= 4 << 20
    lender.clear()
    assert lender.held == 0


def test_lent_memory_in_a_cycle_comes_back_when_that_is_collected() -> None:
    lender = MemoryLender()
    ring: list[Any] = [lender.lend(BIG)]
    ring.append(ring)
    del ring
    gc.collect()
    assert lender.held == PAGES


def test_nobody_sees_what_another_thread_was_lent() -> None:
    lender = MemoryLender(keep=4)

    def work(mark: int) -> bool:
        rng = np.random.default_rng(mark)
        held: list[tuple[Any, int]] = []
        good = True
        for n in range(300):
            value = (mark * 31 + n) % 251
            memory = lender.lend(int(rng.choice([BIG, BIG + 5000, 70_000])))
            memory[:] = value
            held.append((memory[n:] if n % 2 else np.frombuffer(memory.data, "u1"), value))
            del memory
            if len(held) > rng.integers(1, 6):
                view, value = held.pop(int(rng.integers(len(held))))
                good &= bool((view == value).all())
        return good and all((view == value).all() for view, value in held)

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(work, range(8)))


def test_a_forked_process_is_lent_memory_of_its_own() -> None:
    lender = MemoryLender()
    memory = lender.lend(BIG)
    memory[:] = 7
    child = os.fork()
    if child == 0:
        memory[:] = 9
        del memory
        lender.lend(BIG)[:] = 9
        os._exit(0)
    os.waitpid(child, 0)
    assert (memory == 7).all()
