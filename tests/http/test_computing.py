"""Computations in steps, without a server: their order, sizes and limits, and numbers that are those of numpy."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.support import in_memory
from tests.http.asking import records
from vfs.engine.cache import ChunkCache
from vfs.errors import OptionError, SourceChangedError
from vfs.page import computing
from vfs.page.computing import Asked, Computation, following
from vfs.page.positions import positions
from vfs.reduce.passes import Needs, Pass

SIG = (3, 4)
BYTES = math.prod(SIG) * 2  # of a frame
Records = list[tuple[dict[str, Any], dict[str, np.ndarray]]]


def scan(nav: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 1000, nav + SIG).astype("u2")


def computation(values: np.ndarray, cache: ChunkCache | None = None, **asked: Any) -> Computation:
    asked = {"results": {"s": "frame_sum()"}, **asked}
    return Computation(in_memory(values, nav_ndim=values.ndim - 2), Asked.of(asked), cache or ChunkCache(1 << 20))


def run(made: Computation) -> Records:
    """Go through the steps as the server does, each with the record of the one before."""
    steps, before, found = made.steps(), None, []
    while (step := following(steps, before)) is not None:
        before = step.make()
        found += records(before.tobytes())
    assert following(steps, None) is None
    return found


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few frames make several steps, and no clock decides which."""
    for name, value in (
        ("MIN_FRAMES", 2),
        ("FIRST", 4 * BYTES),
        ("STEP", 5 * BYTES),
        ("MORE", 6 * BYTES),
        ("QUICK", -1),
    ):
        monkeypatch.setattr(computing, name, value)


NAVS = st.lists(st.integers(1, 7), min_size=1, max_size=3).map(tuple)


@given(
    nav=NAVS,
    quick=st.booleans(),
    coarse=st.booleans(),
    worth=st.sampled_from([2, 16]),
    sent=st.integers(2, 99),
    data=st.data(),
)
def test_positions_come_coarse_at_first_then_all(
    nav: tuple[int, ...], quick: bool, coarse: bool, worth: int, sent: int, data: st.DataObject
) -> None:
    values = scan(nav)
    within = [data.draw(st.integers(0, n - 1)) for n in nav[:-2]]
    expected = values[tuple(within)].sum((-2, -1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(computing, "QUICK", math.inf if quick else -1)
        patch.setattr(computing, "WORTH", worth)
        patch.setattr(computing, "SENT", sent)
        made = computation(values, within=within, coarse=coarse)
        assert (made.kind, made.shape, made.count, made.reach) == ("nav", nav[-2:], expected.size, expected.size)
        found = run(made)
    rough = [(head, numbers["s"]) for head, numbers in found if not head["exact"]]
    exact = [(head, numbers["s"]) for head, numbers in found if head["exact"]]
    assert found[: len(rough)] == found[: len(found) - len(exact)]
    steps = [head["step"] for head, _ in rough]
    assert steps == sorted({*steps}, reverse=True)
    assert coarse or not rough
    assert all(len(numbers.reshape(-1)) <= max(1, min(4, sent // 8)) for _, numbers in rough[:1])
    for head, numbers in rough:
        assert head["step"] ** expected.ndim >= worth
        assert (head["done"], head["of"]) == (0, expected.size)
        np.testing.assert_array_equal(numbers, expected[(slice(None, None, head["step"]),) * expected.ndim])
    assert [head["first"] for head, _ in exact] == [0, *(head["done"] for head, _ in exact)][:-1]
    assert exact[-1][0]["done"] == expected.size
    np.testing.assert_array_equal(np.concatenate([numbers for _, numbers in exact]), expected.reshape(-1))
    counts = [head["count"] for head, _ in exact]
    assert counts[:-1] == sorted(counts[:-1])
    row = nav[-1] if len(nav) > 1 else 1
    assert max(counts) * 8 <= max(4 * sent, 8)
    assert row * 8 > 4 * sent or all(count % row == 0 for count in counts)


@given(nav=NAVS, chosen=st.booleans(), coarse=st.booleans(), more=st.sampled_from([1, 6 * BYTES]), data=st.data())
def test_pixels_come_again_and_again_until_all_frames_are_in(
    nav: tuple[int, ...], chosen: bool, coarse: bool, more: int, data: st.DataObject
) -> None:
    values = scan(nav)
    within = [data.draw(st.integers(0, n - 1)) for n in nav[:-2]]
    frames = values[tuple(within)].reshape(-1, *SIG).astype(float)
    region = None
    if chosen:
        ends = [(b := data.draw(st.integers(1, n)), data.draw(st.integers(0, b - 1))) for n in nav[-2:]]
        last, first = zip(*ends, strict=True)
        region = {"rectangle": [*first, *last]} if len(first) == 2 else {"range": [*first, *last]}
        box = tuple(slice(a, b) for a, b in zip(first, last, strict=True))
        frames = values[tuple(within) + box].reshape(-1, *SIG).astype(float)
    cache = ChunkCache(1 << 20)
    asked = {"results": {"s": "sum()", "m": "mean()"}, "within": within, "region": region, "coarse": coarse}
    made = computation(values, cache, **asked)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(computing, "MORE", more)
        found = run(made)
    heads = [head for head, _ in found]
    assert [head["exact"] for head in heads] == [False] * (len(heads) - 1) + [True]
    assert {head["of"] for head in heads} == {len(frames)}
    assert heads[-1]["done"] == len(frames)
    assert coarse or [head["done"] for head in heads] == sorted(head["done"] for head in heads)
    sampled = coarse and len(frames) > 16
    assert len(found) == sampled + heads[-1]["parts"]
    every = -(-len(frames) // 4)
    for _, numbers in found[:sampled]:
        np.testing.assert_allclose(numbers["m"], frames[::every].mean(0), rtol=1e-6)
    np.testing.assert_array_equal(found[-1][1]["s"], frames.sum(0))
    np.testing.assert_allclose(found[-1][1]["m"], frames.mean(0))
    ((kept, _),) = run(Computation(made.array, Asked.of(asked), cache))
    assert kept == heads[-1]


def test_a_sample_is_of_frames_from_all_over_the_region() -> None:
    values = scan((50,))
    head, numbers = run(computation(values, results={"m": "mean()"}, region={"range": [7, 50]}))[0]
    assert (head["done"], head["of"], head["exact"]) == (4, 43, False)
    np.testing.assert_allclose(numbers["m"], values[7::11].astype(float).mean(0), rtol=1e-6)


@pytest.mark.parametrize(("quick", "counts"), [(-1, [5] * 8), (math.inf, [5, 10, 20, 5])])
def test_steps_of_one_array_are_made_once(monkeypatch: pytest.MonkeyPatch, quick: float, counts: list[int]) -> None:
    monkeypatch.setattr(computing, "QUICK", quick)
    cache, asked = ChunkCache(1 << 20), Asked({"s": "frame_sum()"}, coarse=False)
    first = computation(scan((40,)), cache, coarse=False)
    found = run(first)
    assert [head["count"] for head, _ in found] == counts
    monkeypatch.setattr(computing, "reduce", None)
    assert [head for head, _ in run(Computation(first.array, asked, cache))] == [head for head, _ in found]
    with pytest.raises(TypeError, match="not callable"):
        run(computation(scan((40,)), cache, coarse=False))  # another array


def test_who_goes_on_takes_steps_as_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computing, "QUICK", math.inf)
    cache = ChunkCache(1 << 20)
    first = computation(scan((40,)), cache, coarse=False)
    steps, before = first.steps(), None
    for _ in range(2):
        step = following(steps, before)
        assert step is not None
        before = step.make()
    monkeypatch.setattr(computing, "QUICK", -1)
    again = run(Computation(first.array, Asked({"s": "frame_sum()"}, coarse=False), cache))
    assert [head["count"] for head, _ in again] == [5, 10, 10, 10, 5]


def test_nothing_goes_on_with_files_that_were_touched() -> None:
    for kind in ("frame_sum()", "sum()"):
        made = computation(scan((40,)), results={"a": kind})
        steps, before = made.steps(), computing.passed.nbytes
        step = following(steps, None)
        assert step is not None
        record = step.make()
        assert 0 < computing.passed.nbytes - before <= 40 * BYTES
        step = following(steps, record)
        assert step is not None
        made.array.backend.files.moves[:] += 1
        with pytest.raises(SourceChangedError):
            step.make()
        steps.close()
        assert following(steps, record) is None


@pytest.mark.parametrize("kind", ["frame_sum()", "sum()"])
def test_a_step_in_which_files_were_touched_is_none(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the last one, which nothing follows."""
    made = computation(scan((40,)), results={"a": kind}, coarse=False)
    step = following(made.steps(), None)
    assert step is not None
    real, moves = Pass.take, made.array.backend.files.moves

    def take(*given: Any) -> None:
        real(*given)
        if not moves[0]:
            moves[:] += 1

    monkeypatch.setattr(Pass, "take", take)
    with pytest.raises(SourceChangedError):
        step.make()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"results": {"a": "sum()", "b": "frame_sum()"}}, "all of kind nav, or all of kind sig"),
        ({"region": {"point": [0, 0]}}, "region: goes with results of kind sig"),
        ({"results": {"a": "masks('/etc/passwd')"}}, "masks are in files"),
        ({"results": {"a": "magnitude_sum()"}}, "expected complex numbers"),
        ({"results": {"a": "binned(0)"}}, "1 to 256"),
        ({"results": {"a": "no(1)"}}, "no kind"),
        ({"results": {"../a": "sum()"}}, "expected a name"),
        ({"results": {"a": "sum()"}, "region": {"range": [0, 1]}}, "region: expected rectangle of 4"),
        ({"results": {"a": "sum()"}, "region": {"point": [0]}}, "region: expected"),
        ({"results": {"a": "sum()"}, "region": {"point": [0, float("nan")]}}, "region: expected"),
        ({"results": {"a": "sum()"}, "region": {"point": [0, True]}}, "region: expected"),
        ({"results": {"a": "sum()"}, "region": {"point": [9, 9]}}, "region: no position"),
        ({"within": [0]}, "within: expected an index"),
        ({"results": {"a": "histogram(9, (0, 1))"}}, "all of kind nav, or all of kind sig"),
    ],
)
def test_what_cannot_be_computed(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said) as refused:
        computation(scan((4, 5)), **asked)
    assert len(str(refused.value).splitlines()) == 1


def test_arrays_that_have_no_frames() -> None:
    for values in (scan((0, 3)), scan(())):
        with pytest.raises(OptionError, match="there are no frames to reduce"):
            computation(values)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A result by itself may have four times as much."""
    one, two = (dict.fromkeys(names, "sum()") for names in ("a", "ab"))
    for results, share in ((one, 4), (two, 1)):
        cost = computation(scan((4,)), results=results).cost
        monkeypatch.setattr(computing, "COST", -(-cost // share))
        assert computation(scan((4,)), results=results).workers >= 1
        monkeypatch.setattr(computing, "COST", 12 * 8 // share)
        with pytest.raises(OptionError, match=r"results: they need .* of memory, expected at most .*; ask for fewer"):
            computation(scan((4,)), results=results)
        monkeypatch.undo()


NUMBERS = st.floats(-20, 20) | st.integers(-20, 20)


@given(shape=st.tuples(st.integers(1, 9), st.integers(1, 9)), given=st.lists(NUMBERS, min_size=4, max_size=4))
def test_positions_of_regions(shape: tuple[int, int], given: list[float]) -> None:
    y, x = np.mgrid[: shape[0], : shape[1]]
    y0, x0, y1, x1 = given
    masks = {
        "rectangle": (y >= y0) & (y < y1) & (x >= x0) & (x < x1),
        "point": (y >= y0) & (y < y0 + 1) & (x >= x0) & (x < x0 + 1),
        "disk": (y - y0) ** 2 + (x - x0) ** 2 < max(0, y1) ** 2,
    }
    for kind, inside in masks.items():
        region = {kind: given[: {"rectangle": 4, "disk": 3, "point": 2}[kind]]}
        if inside.any():
            np.testing.assert_array_equal(positions(region, shape), np.flatnonzero(inside))
        else:
            with pytest.raises(OptionError, match="no position"):
                positions(region, shape)


@pytest.mark.parametrize(
    "asked",
    [None, [], {}, {"results": []}, {"results": {"a": 1}}, {"results": {}, "x": 1}]
    + [{"results": {"a": "sum()"}, name: value} for name, value in (("within", [True]), ("within", 3), ("coarse", 1))]
    + [{"results": {f"a{k}": "sum()" for k in range(17)}}, {"results": {"a": "x" * 1001}}],
)
def test_what_is_no_computation(asked: Any) -> None:
    with pytest.raises(OptionError, match="expected"):
        Asked.of(asked)


def test_pictures_of_a_scan_are_numbered() -> None:
    assert [computing.picture_of((2, 3, 4, 5), (i, j)) for i in range(2) for j in range(3)] == list(range(6))
    for within in ((), (2, 0), (-1, 0), (0, 0, 0), (0, 10**30)):
        with pytest.raises(OptionError, match="expected an index"):
            computing.picture_of((2, 3, 4, 5), within)


def test_threads_are_as_many_as_memory_allows() -> None:
    made: Any = SimpleNamespace(kind="sig", workers=4, count=1)
    assert Computation._needed(made, {"a": Needs(0, 100 << 20)}, 1) < computing.COST
    assert made.workers == 4
    Computation._needed(made, {"a": Needs(0, 300 << 20)}, 1)
    assert made.workers == 2
    Computation._needed(made, {"a": Needs(0, 900 << 20)}, 1)
    assert made.workers == 1
