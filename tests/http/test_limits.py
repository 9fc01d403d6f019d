"""What requests may cost: bytes that are under way, bytes that computations need, and nothing that stays behind."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import tracemalloc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vfs
from tests.http.support import Asgi, application_of
from tests.waiting import eventually, until
from vfs.engine.cache import ChunkCache
from vfs.folder_tree.plans import folder
from vfs.http import limits
from vfs.http.guard import RefusedError
from vfs.http.limits import FairQueue, Held
from vfs.page import pictures, views
from vfs.server import leaving
from vfs.server.application import Application
from vfs.testing.inside import set_of

VALUES = np.random.default_rng(3).integers(0, 99, (4, 5, 30, 40)).astype("u2")
FRAME = 30 * 40 * 2  # bytes
PATH = "/api/frame/a.zarr/data"


@pytest.fixture
def shown(tmp_path: Path) -> Application:
    np.save(tmp_path / "a.npy", VALUES)
    return served(tmp_path / "a.npy")


def served(path: Path) -> Application:
    return application_of(folder([set_of(vfs.open_group(path, backend="buffered"))], ChunkCache()))


# bytes that are counted


def test_bytes_are_bounded_for_a_client_and_for_all() -> None:
    held = Held(10, 15)
    free = [held.take("a", 6), held.take("b", 6)]
    for client, nbytes in (("a", 5), ("c", 4)):
        with pytest.raises(RefusedError, match="at most") as refused:
            held.take(client, nbytes)
        assert refused.value.status == 429
    free[0]()
    held.take("a", 9)()
    free[1]()
    held.take("a", 1000)()  # alone


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 20), st.booleans()), max_size=30))
def test_what_is_free_again_can_be_taken_again(steps: list[tuple[str, int, bool]]) -> None:
    held, under_way = Held(20, 40), []
    for client, nbytes, ends in steps:
        if ends and under_way:
            under_way.pop()[2]()
        mine = sum(n for one, n, _ in under_way if one == client)
        total = sum(n for _, n, _ in under_way)
        fits = (not mine or mine + nbytes <= 20) and (not total or total + nbytes <= 40)
        try:
            under_way.append((client, nbytes, held.take(client, nbytes)))
            assert fits
        except RefusedError:
            assert not fits


@pytest.mark.parametrize("dtype", ["u1", "i2", "?", "f2", "f4", "i8", "c8", "c16"])
@pytest.mark.parametrize("shape", [(), (7,), (3, 50), (2, 9, 40), (2, 3, 20, 40), (40, 40, 3), (5, 0, 4)])
@pytest.mark.parametrize("most", [1, 7, 8192])
def test_the_bytes_of_a_picture_are_known_before(tmp_path: Path, dtype: str, shape: tuple[int, ...], most: int) -> None:
    np.save(tmp_path / "a.npy", np.zeros(shape, dtype))
    (array,) = vfs.open_group(tmp_path / "a.npy").values()
    where = views.FrameView.of(array._reader).where
    made, _ = views.picture(array._reader, [0] * len(where), most)
    assert made.nbytes <= views.bytes_of(array._reader, [0] * len(where), most) <= 4 * made.nbytes + 32


# waiting for room


class Room:
    """Room for so many requests; the names of those who took some, in their order."""

    def __init__(self, places: int) -> None:
        self.places = places
        self.taken: list[str] = []

    def take(self, name: str) -> None:
        if not self.places:
            raise RefusedError(429, "no room", retry_after=limits.RETRY)
        self.places -= 1
        self.taken.append(name)


def test_who_waits_for_room_gets_it_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """One client asks for much before others come: of each client, one request looks for room."""
    monkeypatch.setattr(limits, "MOMENT", 0.001)
    room, queue = Room(1), FairQueue()

    async def run() -> None:
        names = ["a1", "a2", "a3", "a4", "b1", "c1"]
        waiting = []
        for name in names:
            waiting.append(asyncio.ensure_future(queue.until(name[0], lambda name=name: room.take(name))))
            await asyncio.sleep(0)
        assert room.taken == ["a1"]  # at once
        for count in range(2, 7):
            room.places = 1
            await until(lambda count=count: len(room.taken) == count)
        await asyncio.gather(*waiting)

    asyncio.run(run())
    assert room.taken == ["a1", "a2", "b1", "c1", "a3", "a4"]
    assert queue._waiting == {}


def test_all_who_wait_get_room_at_once_where_there_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many people behind one proxy are one client: their requests must not begin one in each moment."""
    monkeypatch.setattr(limits, "MOMENT", 0.5)
    room, queue = Room(0), FairQueue()

    async def run() -> None:
        names = ["a1", "a2", "a3", "b1", "a4"]
        waiting = [asyncio.ensure_future(queue.until(one[0], lambda one=one: room.take(one))) for one in names]
        await asyncio.sleep(0)
        room.places = 4
        await waiting[0]
        assert room.taken == ["a1", "b1", "a2", "a3"]
        room.places = 1
        await waiting[-1]

    asyncio.run(run())
    assert queue._waiting == {}


def test_waiting_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOMENT", 0.001)
    monkeypatch.setattr(limits, "MAX_WAITING", 2)
    room, queue = Room(0), FairQueue()

    async def run() -> list[Any]:
        monkeypatch.setattr(limits, "SECONDS", 0.05)
        short = [asyncio.ensure_future(queue.until("a", lambda: room.take("a"))) for _ in range(3)]
        late = await asyncio.gather(*short, return_exceptions=True)
        monkeypatch.setattr(limits, "SECONDS", 100.0)
        gone = asyncio.ensure_future(queue.until("a", lambda: room.take("gone")))
        last = asyncio.ensure_future(queue.until("a", lambda: room.take("last")))
        await asyncio.sleep(0.01)
        gone.cancel()
        room.places = 1
        await last
        return late

    late = asyncio.run(run())
    assert [(one.status, one.retry_after) for one in late] == [(429, limits.RETRY)] * 3
    assert [one.reason for one in late] == ["no room", "no room", "2 requests like this one wait already"]
    assert room.taken == ["last"]
    assert queue._waiting == {}


def test_a_computation_waits_for_those_before_it(shown: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOMENT", 0.001)
    free = shown.api.streams._held.take("127.0.0.1", 1 << 30)
    body = json.dumps({"results": {"a": "sum()"}}).encode()

    async def run() -> int:
        asked = Asgi(shown, "/api/compute/a.zarr/data", "POST", body)
        running = asyncio.ensure_future(asked.run())
        await until(lambda: bool(shown.api.streams._held._queue._waiting))
        assert not asked.sent
        free()
        await running
        return asked.status

    assert asyncio.run(run()) == 200


# pictures that nobody takes


def test_pictures_that_are_not_taken_count(shown: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SECONDS", 0.0)
    monkeypatch.setattr(shown.api.pictures, "_held", Held(3 * FRAME, 5 * FRAME))

    async def run() -> list[int]:
        some = [Asgi(shown, f"{PATH}?at=0,{k}") for k in range(5)]
        for one in some:
            await one.run()
        first = [one.status for one in some]
        some[0].sent.clear()  # it is taken
        again = await Asgi(shown, f"{PATH}?at=1,1").run()
        return [*first, again.status]

    assert asyncio.run(run()) == [200, 200, 200, 429, 429, 200]


@pytest.fixture
def no_cycles() -> Iterator[None]:
    """Only what nothing refers to any more is freed."""
    gc.disable()
    yield
    gc.enable()


class Slow:
    """Reads pictures, each once the test says so. It remembers them, and does not keep them."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.began = threading.Event()
        self.made: list[weakref.ref[np.ndarray]] = []
        self.wrong: Exception | None = None

    def __call__(self, *args: Any) -> tuple[np.ndarray, int]:
        numbers, factor = views.picture(*args)
        self.made.append(weakref.ref(numbers))
        self.began.set()
        assert self.go.wait(100)
        if self.wrong is not None:
            raise self.wrong
        return numbers, factor

    @property
    def alive(self) -> int:
        return sum(one() is not None for one in self.made)


@pytest.mark.usefixtures("no_cycles")
@pytest.mark.parametrize("how", ["taken", "gone", "wrong", "head", "refused"])
def test_no_cycle_keeps_a_picture(shown: Application, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    slow = Slow()
    monkeypatch.setattr(pictures, "picture", slow)
    monkeypatch.setattr(leaving, "MOMENT", 0.0)

    async def run() -> None:
        asked = [Asgi(shown, f"{PATH}?at=2,{k}", "HEAD" if how == "head" else "GET") for k in (1, 1, 2)]
        running = [asyncio.ensure_future(one.run()) for one in asked]
        await until(slow.began.is_set)
        await asyncio.sleep(0.02)  # they look whether their clients still wait
        if how == "wrong":
            slow.wrong = vfs.errors.SourceError("a.npy: cannot be read")
        if how == "refused":
            slow.wrong = vfs.errors.OptionError("at=2,1: expected something else")
        if how == "gone":
            for one in asked:
                one.gone.set()
            await asyncio.gather(*running)
        slow.go.set()
        slow.wrong = None if how == "gone" else slow.wrong
        await asyncio.gather(*running)
        expected = {"taken": 200, "head": 200, "gone": 0, "wrong": 422, "refused": 400}[how]
        assert [one.status for one in asked] == [expected] * 3
        slow.wrong = None
        for one in asked:
            one.sent.clear()
        del asked, running, one
        await until(lambda: not slow.alive)

    asyncio.run(run())
    assert slow.made


# computations


def posted(application: Application, key: str, results: dict[str, str]) -> tuple[int, str]:
    body = json.dumps({"results": results}).encode()
    done = asyncio.run(Asgi(application, f"/api/compute/{key}", "POST", body).run())
    return done.status, done.body.decode("latin-1")


@pytest.mark.parametrize(
    "results",
    [
        {f"a{k}": "histogram(16777216, (0, 1))" for k in range(16)},
        {"a": "histogram(16777216, (0, 1))"},
        {"a": "sum()", "b": "histogram(16777216, (0, 1))"},
        {f"a{k}": "radial_sum(1, 1, 1048576)" for k in range(16)},
        {f"a{k}": f"binned({256 - k})" for k in range(16)} | {"a": "radial_sum(1, 1, 1048576)"},
    ],
)
def test_what_costs_too_much_is_refused_before_it_is_made(shown: Application, results: dict[str, str]) -> None:
    posted(shown, "a.zarr/data", {"a": "binned(4)", "b": "radial_sum(1, 1, 4)"})  # what is imported is imported
    tracemalloc.start()
    try:
        status, said = posted(shown, "a.zarr/data", results)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert status == 400, said
    assert peak < 16 << 20


@pytest.mark.parametrize("kind", ["sum()", "std()", "frame_sum()", "disk(5, 5, 3)"])
def test_results_of_large_frames_are_refused_or_fit(tmp_path: Path, kind: str) -> None:
    with (tmp_path / "a.npy").open("wb") as file:  # 4 frames of 64 million pixels, of which nothing is stored
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": (4, 8000, 8000)})
        file.truncate(file.tell() + 4 * 8000 * 8000)
    application = served(tmp_path / "a.npy")
    tracemalloc.start()
    try:
        status, said = posted(application, "a.zarr/data", {f"a{k}": kind for k in range(16)})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (status, "of memory, expected at most 1.0 GiB" in said) == (400, True), said
    assert peak < 16 << 20


def test_computations_under_way_count(shown: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SECONDS", 0.0)
    free = shown.api.streams._held.take("127.0.0.1", 1 << 30)
    assert posted(shown, "a.zarr/data", {"a": "sum()"})[0] == 429
    free()
    assert posted(shown, "a.zarr/data", {"a": "sum()"})[0] == 200
    assert eventually(lambda: posted(shown, "a.zarr/data", {"a": "mean()"})[0] == 200)


@pytest.mark.parametrize(
    ("path", "named"),
    [
        (f"{PATH}?at=1,1&x=3", "x"),
        (f"{PATH}?at=1,1&x=", "x"),
        (f"{PATH}?at=1,1&Max=3", "Max"),
        (f"{PATH}?at=1,1&%0A=3", "\\n"),
        (f"{PATH}?at=1,1&at=1,2", "twice"),
        ("/api/list/?x=1", "x"),
        ("/api/set/a.zarr?at=1", "at"),
        ("/api/array/a.zarr/data?x=1", "x"),
        ("/api/python/a.zarr?x=1", "x"),
        ("/api/centre/a.zarr/data?at=1", "at"),
        ("/api/thumbnails/a.zarr?x=1", "x"),
    ],
)
def test_unknown_fields_are_refused(shown: Application, path: str, named: str) -> None:
    done = asyncio.run(Asgi(shown, path).run())
    assert (done.status, named in done.body.decode(), done.body.count(b"\n")) == (400, True, 1), done.body
