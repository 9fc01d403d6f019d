"""The chunk cache: limited in bytes, one maker for many askers, errors are not kept."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Hashable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from types import FrameType

import numpy as np
import pytest

from vfs.engine import cache as cache_module
from vfs.engine.cache import PASSING, SHOWN, ChunkCache
from vfs.errors import SourceError


def piece(n: int, fill: int = 0) -> np.ndarray:
    return np.full(n, fill, np.uint8)


def there(cache: ChunkCache, keys: Iterable[Hashable]) -> dict[Hashable, np.ndarray]:
    """The pieces that are held, of those with these keys."""
    return {key: held for key in keys if (held := cache.peek(key)) is not None}


def test_what_was_made_is_kept_and_read_only() -> None:
    cache = ChunkCache(100)
    first = cache.get("a", lambda: piece(10, 1))
    assert cache.get("a", lambda: pytest.fail("made again")) is first
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 2
    assert (cache.held, cache.hits, cache.misses) == (10, 1, 1)


def test_the_ones_not_used_for_longest_go_first() -> None:
    cache = ChunkCache(100)
    for name in "abc":
        cache.get(name, lambda: piece(30))
    cache.get("a", lambda: pytest.fail("a was dropped"))
    cache.get("d", lambda: piece(30))
    assert cache.held == 90
    cache.get("a", lambda: pytest.fail("a was dropped"))
    made = []
    cache.get("b", lambda: made.append("b") or piece(30))  # type: ignore[func-returns-value]
    assert made == ["b"]


def test_never_more_bytes_than_the_limit() -> None:
    cache = ChunkCache(1000)
    rng = np.random.default_rng(0)
    for k in range(500):
        size = int(rng.integers(0, 400))
        assert cache.get(k % 37, lambda size=size: piece(size)).dtype == np.uint8
        assert cache.held == sum(a.nbytes for a in there(cache, range(37)).values()) <= 1000


def test_a_bound_holds_as_long_as_one_wants_it() -> None:
    cache = ChunkCache(1000)
    for k in range(10):
        cache.get(k, lambda: np.zeros(100, np.uint8))
    with cache.bounded(300):
        assert cache.held == 300
        with cache.bounded(2000), cache.bounded(100):
            assert (cache.limit, cache.held) == (100, 100)
        assert cache.limit == 300
    assert (cache.limit, 9 in cache, 8 in cache) == (1000, True, False)


def test_what_is_larger_than_the_limit_is_not_kept() -> None:
    cache = ChunkCache(100)
    cache.get("small", lambda: piece(60))
    assert cache.get("large", lambda: piece(101)).size == 101
    assert cache.held == 60
    cache.get("small", lambda: pytest.fail("small made room for nothing"))
    nothing = ChunkCache(0)
    assert nothing.get("a", lambda: piece(1)).size == 1
    assert nothing.held == 0


def test_of_pieces_that_pass_only_the_last_few_are_held() -> None:
    cache = ChunkCache(10_000)
    cache.get("stays", lambda: piece(10))
    for k in range(20):
        first = piece(100, k)
        cache.passing(k, first)
        cache.passing(k, piece(100, k))  # made twice at the same time: the first one stays
        assert cache.peek(k) is first
        assert not first.flags.writeable
        assert cache.held == 10 + 100 * min(k + 1, PASSING)
        assert set(there(cache, range(20))) == set(range(max(0, k + 1 - PASSING), k + 1))
    assert "stays" in cache
    assert (cache.hits, cache.misses) == (0, 41)


def test_a_piece_that_passes_stays_for_who_comes_back_for_parts_of_it() -> None:
    cache = ChunkCache(10_000)
    first = piece(100)
    cache.passing("a", first)
    assert cache.get("a", lambda: pytest.fail("made again")) is first
    for k in range(20):
        cache.passing(k, piece(100))
    assert cache.get("a", lambda: pytest.fail("it did not stay")) is first


def test_pieces_that_pass_count() -> None:
    cache = ChunkCache(250)
    for k in range(5):
        cache.passing(k, piece(100))
        cache.get(-k - 1, lambda: piece(90))
        assert cache.held == sum(a.nbytes for a in there(cache, range(-5, 5)).values()) <= 250
    cache.passing("large", piece(251))
    assert "large" not in cache
    cache.clear()
    assert cache.held == 0
    for k in range(PASSING):  # those that passed before are forgotten: these do not push each other out
        cache.passing(k, piece(100))
    assert list(there(cache, range(PASSING))) == list(range(PASSING))


TOGETHER = 8  # threads


def together(cache: ChunkCache, make: Maker) -> list[Future[np.ndarray]]:
    """Threads that ask for the same piece while the first of them is making it."""
    with ThreadPoolExecutor(TOGETHER) as pool:
        return [pool.submit(cache.get, "a", make) for _ in range(TOGETHER)]


class Maker:
    """Makes a piece once all other threads wait for it."""

    def __init__(self, cache: ChunkCache, error: BaseException | None = None) -> None:
        self.cache = cache
        self.calls = 0
        self.error = error
        self.lock = threading.Lock()

    def __call__(self) -> np.ndarray:
        with self.lock:
            self.calls += 1
        while self.cache.hits < TOGETHER - 1:  # else one that comes later would make it again
            time.sleep(0.001)
        if self.error:
            raise self.error
        return piece(10, 5)


def test_one_makes_eight_get() -> None:
    cache = ChunkCache()
    make = Maker(cache)
    got = [future.result() for future in together(cache, make)]
    assert make.calls == 1
    assert all(one is got[0] for one in got)
    cache.clear()
    assert "a" not in cache  # it is no longer being made either


def test_who_waits_gets_the_error_and_it_is_not_kept() -> None:
    cache = ChunkCache()
    make = Maker(cache, SourceError("a.bin: gone"))
    for future in together(cache, make):
        with pytest.raises(SourceError, match=r"a.bin: gone"):
            future.result()
    assert make.calls == 1
    assert cache.held == 0
    assert "a" not in cache
    assert cache.get("a", lambda: piece(3)).size == 3


def test_different_pieces_do_not_wait_for_each_other() -> None:
    cache = ChunkCache()
    meeting = threading.Barrier(2, timeout=250)

    def make() -> np.ndarray:
        meeting.wait()
        return piece(1)

    with ThreadPoolExecutor(2) as pool:
        assert [f.result().size for f in [pool.submit(cache.get, name, make) for name in "ab"]] == [1, 1]


def test_a_fork_while_something_is_made() -> None:
    """The child has no thread that would finish it: it makes it itself."""
    cache = ChunkCache()
    begun, go_on = threading.Event(), threading.Event()

    def slow() -> np.ndarray:
        begun.set()
        go_on.wait(100)
        return piece(1, 1)

    thread = threading.Thread(target=cache.get, args=("a", slow))
    thread.start()
    begun.wait(100)
    try:
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is what is tested
            child = os.fork()
        if child == 0:
            os._exit(0 if cache.get("a", lambda: piece(1, 2))[0] == 2 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        go_on.set()
        thread.join()
    assert cache.get("a", lambda: piece(1, 3))[0] == 1


def test_a_piece_that_is_shown_counts_what_it_takes_to_find_it() -> None:
    class Watcher:
        def put(self, piece: np.ndarray) -> None: ...

        def used(self) -> bool:
            return False

        def drop(self) -> None: ...

    cache = ChunkCache(20_000)
    for k in range(100):
        cache.get(k, lambda: np.zeros(1000, "u1"), Watcher())
        assert cache.held == len(there(cache, range(100))) * (1000 + SHOWN) <= cache.limit
    assert len(there(cache, range(100))) == 9
    cache.clear()
    assert cache.held == 0


class Counted:
    """Who hands out a piece past the cache."""

    def __init__(self) -> None:
        self.pieces: list[np.ndarray] = []
        self.in_use = False
        self.dropped = 0

    def put(self, piece: np.ndarray) -> None:
        self.pieces.append(piece)

    def used(self) -> bool:
        was, self.in_use = self.in_use, False
        return was

    def drop(self) -> None:
        self.dropped += 1


def test_who_hands_out_a_piece_is_told_when_it_comes_and_goes() -> None:
    cache = ChunkCache(100_000)
    one, other = Counted(), Counted()
    first = cache.get("a", lambda: piece(40_000), one)
    assert cache.get("a", lambda: pytest.fail("made again"), other) is first
    assert (len(one.pieces), len(other.pieces)) == (1, 0)  # one of them is enough
    cache.get("b", lambda: piece(40_000), other)
    one.in_use = True
    cache.get("c", lambda: piece(40_000))
    assert (one.dropped, other.dropped) == (0, 1)  # b went, though a was asked for before it
    cache.get("d", lambda: piece(40_000))  # now c
    assert one.dropped == 0
    cache.get("e", lambda: piece(40_000))
    assert one.dropped == 1
    later = Counted()
    cache.get("d", lambda: pytest.fail("made again"), later)  # it was there, and nobody handed it out
    assert len(later.pieces) == 1
    cache.clear()
    assert (later.dropped, cache.held) == (1, 0)
    for counted in (one, other):
        counted.in_use = True
    cache.get("a", lambda: piece(60_000), one)
    cache.get("b", lambda: piece(60_000), other)
    assert cache.held == 60_000 + SHOWN  # also where all are in use
    huge = Counted()
    cache.get("huge", lambda: piece(200_000), huge)
    assert huge.pieces == []


class Interrupt(BaseException):
    """As KeyboardInterrupt: no error of anybody's."""


def interrupted_at(n: int, call: object) -> bool:
    """Call something and raise `Interrupt` at the n-th place where a signal's handler may run.
    Returns False where there are fewer.

    CPython runs handlers when a function of Python begins and when one of C has returned, which is
    when a profiler is called.
    """
    left = n

    def profiler(frame: FrameType, event: str, arg: object) -> None:
        nonlocal left
        if event in ("call", "c_return") and frame.f_code.co_filename == cache_module.__file__:
            left -= 1
            if left < 0:
                sys.setprofile(None)
                raise Interrupt

    sys.setprofile(profiler)
    try:
        call()  # type: ignore[operator]
    except Interrupt:
        return True
    finally:
        sys.setprofile(None)
    return False


def ask_in_vain(cache: ChunkCache) -> None:
    def make() -> np.ndarray:
        raise SourceError("gone")

    with pytest.raises(SourceError):
        cache.get("new", make)


ASKED = {
    "a new piece, for which others go": lambda cache: cache.get("new", lambda: piece(60_000), Counted()),
    "a piece that is there": lambda cache: cache.get("b", lambda: piece(20_000), Counted()),
    "a piece that passes": lambda cache: cache.passing("new", piece(60_000)),
    "a piece that cannot be made": ask_in_vain,
    "everything dropped": lambda cache: cache.clear(),
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_an_interrupt_anywhere_leaves_a_cache_that_works(ask: object) -> None:
    for n in range(1000):
        cache = ChunkCache(100_000)
        cache.get("a", lambda: piece(30_000), Counted())
        cache.get("b", lambda: piece(30_000))
        cache.passing("c", piece(10_000))
        cache.passing("d", piece(10_000))
        interrupted = interrupted_at(n, lambda cache=cache: ask(cache))  # type: ignore[operator]
        got: list[np.ndarray] = []
        reader = threading.Thread(
            target=lambda cache=cache, got=got: got.append(cache.get("new", lambda: piece(60_000))), daemon=True
        )
        reader.start()
        reader.join(100)
        assert [one.nbytes for one in got] == [60_000], f"interrupted at {n}: nobody can read the piece any more"
        cache.get("next", lambda: piece(1))
        assert cache.held <= cache.limit
        cache.clear()
        assert cache.held == 0  # it had counted what it held, and whom it had told
        assert not any(key in cache for key in ("a", "b", "c", "d", "new", "next"))  # nor is one being made
        for k in range(PASSING):
            cache.passing(k, piece(1))
        assert list(there(cache, range(PASSING))) == list(range(PASSING))
        if not interrupted:
            break
    assert not interrupted
    assert n > 5


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), MemoryError(), RuntimeError("a bug")], ids=lambda error: type(error).__name__
)
def test_what_stops_one_thread_stops_no_other(error: BaseException) -> None:
    """Ctrl-C goes to who made the piece; who waited for it makes it."""
    cache = ChunkCache()
    calls = iter(range(100))

    def make() -> np.ndarray:
        if next(calls):
            return piece(10, 5)
        while cache.hits < 7:  # until all others wait: who comes later makes a piece of its own
            time.sleep(0.001)
        raise error

    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(cache.get, "a", make) for _ in range(8)]
    assert [future.exception() for future in asked].count(None) == 7
    assert next(calls) == 2  # one of the others made it for all of them
    assert cache.held == 10
    cache.clear()
    assert "a" not in cache
