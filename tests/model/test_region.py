"""Boxes, grids and numpy's basic indexing: arithmetic, compared with numpy on small arrays. No files."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.model.strategies import bounds, indices, regions, shapes
from vfs.errors import RegionError
from vfs.model.region import ChunkGrid, Region, flat_boxes, select


def numbers(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(math.prod(shape)).reshape(shape)


@given(st.data())
def test_select_is_numpy(data: st.DataObject) -> None:
    shape = data.draw(shapes)
    key = data.draw(indices(shape))
    whole = numbers(shape)
    chosen = select(key, shape)
    got, expected = whole[chosen.region.slices][chosen.post], whole[key]
    assert type(got) is type(expected)
    np.testing.assert_array_equal(got, expected, strict=True)
    assert Region.of(chosen.region, shape) == chosen.region  # it is a valid one
    if chosen.region.size:  # what is read is what is returned, but for the rows of pixels that are stepped over
        assert chosen.region.shape[:-1] == whole[chosen.region.slices].shape[:-1]


@given(st.data())
def test_a_step_reads_no_more_than_its_rows(data: st.DataObject) -> None:
    shape = data.draw(shapes.filter(lambda s: len(s) > 1))
    key = data.draw(indices(shape))
    whole = numbers(shape)
    read = whole[select(key, shape).region.slices]
    wanted = np.asarray(whole[key])
    # No row that nobody asked for
    assert set(np.unique(read // max(1, shape[-1]))) <= set(np.unique(wanted // max(1, shape[-1])))


@pytest.mark.parametrize(
    ("key", "says"),
    [
        (None, "newaxis"),
        ((0, None), "newaxis"),
        (True, "bool"),
        (np.True_, "bool"),
        ((0, False), "bool"),
        (np.array(True), "array of bool"),
        ([0, 1], "list"),
        ((0, [1]), "list"),
        (np.array([0, 1]), "array"),
        (np.array([True, False, True, False]), "array"),
        (1.0, "float"),
        (np.float64(1), "float"),
        (np.array(1.5), "array"),
        ("x", "str"),
        (slice(1.5), "slice"),
        (slice("a", None), "slice"),
        (slice(None, None, 0), "step"),
        ((Ellipsis, Ellipsis), "Ellipsis"),
        ((0, 0, 0), "too many"),
        ((0, Ellipsis, 0, 0), "too many"),
        (4, "out of bounds"),
        (-5, "out of bounds"),
        ((0, 3), "axis 1"),
        (2**80, "out of bounds"),
        ({"a": 1}, "dict"),
    ],
)
def test_what_is_no_basic_index_says_so(key: Any, says: str) -> None:
    with pytest.raises(RegionError, match=says):
        select(key, (4, 3))


def test_errors_are_index_errors() -> None:
    with pytest.raises(IndexError):
        select(4, (4,))


@given(st.data())
def test_region_of_slices_is_numpy(data: st.DataObject) -> None:
    shape = data.draw(shapes)
    cuts = [
        data.draw(st.builds(slice, bounds, bounds, st.integers(1, 4) | st.none()))
        for _ in range(data.draw(st.integers(0, len(shape))))
    ]
    whole = numbers(shape)
    region = Region.of(cuts, shape)
    np.testing.assert_array_equal(whole[region.slices], whole[tuple(cuts)])
    assert region.shape == whole[tuple(cuts)].shape
    assert region.size == whole[tuple(cuts)].size


@pytest.mark.parametrize(
    "region",
    [
        (slice(None, None, -1),),
        (slice(None, None, 0),),
        (slice(0.5, 2),),
        (0,),
        (None,),
        (...,),
        (slice(None),) * 3,
        Region((0,), (1,), (1,)),
        Region((0, 0), (5, 3), (1, 1)),
        Region((0, -1), (4, 3), (1, 1)),
        Region((2, 0), (1, 3), (1, 1)),
        Region((0, 0), (4, 3), (1, 0)),
        Region((0, 0), (4, 3), (1,)),
        Region((0, 0), (4,), (1, 1)),
        5,
        "ab",
    ],
)
def test_regions_that_do_not_fit(region: Any) -> None:
    with pytest.raises(RegionError):
        Region.of(region, (4, 3))


def test_one_slice_is_a_region() -> None:
    assert Region.of(slice(1, 3), (4, 3)) == Region((1, 0), (3, 3), (1, 1))


def test_region_prints_what_it_is() -> None:
    assert str(Region((0, 2), (4, 9), (1, 3))) == "[0:4, 2:9:3]"
    assert str(Region.whole(())) == "[]"


@given(st.data())
def test_chunks_tile_the_array(data: st.DataObject) -> None:
    shape = data.draw(shapes)
    grid = ChunkGrid(shape, tuple(data.draw(st.integers(1, 9)) for _ in shape))
    seen = np.zeros(shape, int)
    for position in product(*map(range, grid.counts)):
        seen[grid.region(position).slices] += 1
    assert (seen == 1).all()
    for position in ((*grid.counts, 0), *([grid.counts, (-1,) * len(shape)] if shape else [])):
        with pytest.raises(RegionError, match="the array has"):
            grid.region(position)


@given(st.data())
def test_touched_chunks_are_those_that_meet(data: st.DataObject) -> None:
    shape = data.draw(shapes)
    grid = ChunkGrid(shape, tuple(data.draw(st.integers(1, 4)) for _ in shape))
    region = data.draw(regions(shape))
    box = Region.box(region.start, region.stop)
    inside = np.zeros(shape, bool)
    inside[box.slices] = True
    meets = [p for p in product(*map(range, grid.counts)) if inside[grid.region(p).slices].any()] if region.size else []
    assert list(grid.touched(region)) == meets


@given(st.data())
def test_flat_boxes_are_the_flat_elements(data: st.DataObject) -> None:
    shape = data.draw(shapes)
    whole = numbers(shape)
    first = data.draw(st.integers(0, whole.size))
    last = data.draw(st.integers(first, whole.size))
    boxes = list(flat_boxes(shape, first, last))
    assert len(boxes) <= max(1, 2 * len(shape) - 1)
    flat = np.concatenate([whole[box.slices].reshape(-1) for box in boxes]) if boxes else np.empty(0, int)
    np.testing.assert_array_equal(flat, np.arange(first, last))


@given(st.data())
def test_halves_are_the_whole(data: st.DataObject) -> None:
    shape = data.draw(shapes.filter(lambda shape: math.prod(shape) > 1))
    region = data.draw(regions(shape).filter(lambda region: region.size > 1))
    whole = numbers(shape)
    first, second = region.halves()
    axis = next(k for k, n in enumerate(region.shape) if n > 1)
    assert min(first.size, second.size) > 0
    np.testing.assert_array_equal(
        np.concatenate([whole[first.slices], whole[second.slices]], axis), whole[region.slices]
    )


@pytest.mark.parametrize("shape", [(1,), (7,), (4, 3), (2, 3, 4)])
def test_a_number_alone_is_an_index_of_the_first_axis(shape: tuple[int, ...]) -> None:
    whole = numbers(shape)
    for i in range(-shape[0], shape[0]):
        for key in (i, np.int64(i), (i,)):
            chosen = select(key, shape)
            got = whole[chosen.region.slices][chosen.post]
            assert type(got) is type(whole[i])
            np.testing.assert_array_equal(got, whole[i], strict=True)
            assert Region.of(chosen.region, shape) == chosen.region
    for i in (-shape[0] - 1, shape[0]):
        with pytest.raises(RegionError, match="out of bounds"):
            select(i, shape)
