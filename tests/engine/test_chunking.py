"""Chunk and tile shapes: arithmetic. They fit the array, cover it, cost what they say, and nonsense is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.model.strategies import regions
from vfs.engine.chunking import COSTLY, LIMIT, TARGET, ChunkingInput, cut, grouped, negotiate
from vfs.errors import OptionError
from vfs.model.region import ChunkGrid, Region

FOUR_D = ChunkingInput((128, 256, 512, 512), 2, 2, 2.0)


@st.composite
def sources(draw: st.DrawFn) -> ChunkingInput:
    """Arrays of any size that has bytes enough to count."""
    shape = tuple(draw(st.lists(st.integers(0, 5000), min_size=0, max_size=5)))
    nav = draw(st.integers(0, len(shape)))
    item = draw(st.sampled_from([1, 2, 4, 8, 16]))
    block: tuple[int, ...] = ()
    if draw(st.booleans()):
        block = tuple(draw(st.integers(1, 6000)) for _ in shape)
    word = draw(st.sampled_from([1, 2, 8, 64]))
    return ChunkingInput(
        shape, nav, item, item / draw(st.sampled_from([1, 8])), block, draw(st.booleans()) if block else False, word
    )


specs: st.SearchStrategy[Any] = st.sampled_from(
    ["auto", "frames", "scan", "balanced", "64KiB", "4MiB", "1", 1, 1 << 40]
) | st.integers(1, 1 << 24)


@given(sources(), specs)
def test_a_chunk_fits_its_array(source: ChunkingInput, spec: Any) -> None:
    chunking = negotiate(spec, source)
    assert len(chunking.shape) == len(source.shape)
    assert all(type(c) is int and 1 <= c <= max(1, n) for c, n in zip(chunking.shape, source.shape, strict=True))
    assert chunking.reason
    assert chunking.one >= 0
    assert chunking.full >= 0
    assert (chunking.warning is None) == (max(chunking.one, chunking.full) <= COSTLY)
    group = grouped(chunking, source, 64 << 20)
    assert all(
        1 <= g <= max(1, n) and (g % c == 0 or g == n)
        for g, c, n in zip(group, chunking.shape, source.shape, strict=True)
    )


@given(sources().filter(lambda s: 0 not in s.shape), st.sampled_from(["auto", "scan", "balanced"]))
def test_words_of_ours_make_chunks_of_bounded_size(source: ChunkingInput, word: str) -> None:
    chunk = negotiate(word, source).shape
    unit = math.prod(source.unit)
    assert math.prod(chunk) * source.itemsize <= max(LIMIT * source.word, unit * source.itemsize if source.whole else 0)


@given(st.data())
def test_elements_per_axis_are_taken_as_they_are(data: st.DataObject) -> None:
    source = data.draw(sources())
    asked = [data.draw(st.integers(1, 6000) | st.just(-1)) for _ in source.shape]
    expected = tuple(max(1, n) if c == -1 else max(1, min(c, n)) for c, n in zip(asked, source.shape, strict=True))
    for form in (asked, tuple(asked), np.array(asked, np.int64), [np.int32(c) for c in asked]):
        assert negotiate(form, source).shape == expected  # type: ignore[arg-type]
    if len(asked) > 1:
        assert negotiate(",".join(map(str, asked)), source).shape == expected
        assert negotiate(str(tuple(asked)), source).shape == expected


def test_what_the_words_mean() -> None:
    assert negotiate("auto", FOUR_D).shape == (1, 4, 512, 512)  # 2 MiB of whole frames
    assert negotiate("frames", FOUR_D).shape == (1, 1, 512, 512)
    assert negotiate(TARGET * 2, FOUR_D).shape == negotiate("4MiB", FOUR_D).shape == (1, 8, 512, 512)
    assert negotiate("512KiB", FOUR_D).shape == negotiate(1, FOUR_D).shape == (1, 1, 512, 512)
    scan = negotiate("scan", FOUR_D).shape
    assert scan[:2] == (128, 256)
    assert math.prod(scan[2:]) < 100
    assert negotiate("1,2,-1,-1", FOUR_D).shape == (1, 2, 512, 512)


def test_frames_are_never_cut_where_frames_were_asked_for() -> None:
    huge = ChunkingInput((10, 20_000, 20_000), 1, 2, 2.0)
    assert negotiate("frames", huge).shape == (1, 20_000, 20_000)
    auto = negotiate("auto", huge).shape
    assert auto[0] == 1
    assert auto[2] == 20_000
    assert math.prod(auto) * 2 <= LIMIT


def test_what_lies_in_blocks_is_touched_by_the_block() -> None:
    """A map of a scan for each pixel (signal-major DM files): few pixels of much of the scan are
    cheap, whole frames are not.
    """
    maps = ChunkingInput((64, 64, 128, 128), 2, 2, 2.0, (64, 64, 1, 1))
    assert negotiate((64, 64, 4, 4), maps).one == 1.0
    assert negotiate((64, 64, 4, 4), maps).full == 1.0
    assert negotiate("auto", maps).full == 1.0
    assert negotiate((1, 1, 128, 128), maps).one > 100
    rows = ChunkingInput((64, 64, 128, 128), 2, 2, 2.0, (1, 1, 128, 128))  # frames as blocks are frames
    plain = ChunkingInput((64, 64, 128, 128), 2, 2, 2.0)
    for chunks in ((1, 1, 128, 128), (64, 64, 4, 4), (8, 8, 1, 128), (2, 3, 5, 7)):
        assert negotiate(chunks, rows).one == negotiate(chunks, plain).one


def test_chunks_of_tiles_are_about_square() -> None:
    for side, height, width in ((512, 1024, 1024), (256, 1024, 1024), (1024, 1024, 1024), (640, 640, 1280)):
        image = ChunkingInput((30_000, 30_000), 0, 2, 1.0, (side, side), whole=True)
        assert negotiate("auto", image).shape == (height, width)
        lead = (3, 30_000, 30_000) if side == 256 else (30_000, 30_000)
        colours = ChunkingInput((*lead, 3), len(lead) - 2, 1, 1.0, (*(1,) * (len(lead) - 2), side, side, 3), whole=True)
        *_, high, wide, samples = negotiate("auto", colours).shape
        assert (high % side, wide % side, samples) == (0, 0, 3)
        assert high <= wide <= 2 * high
    strips = ChunkingInput((30_000, 4096), 0, 2, 1.0, (16, 4096), whole=True)
    assert negotiate("auto", strips).shape[1] == 4096


def test_blocks_that_decode_whole_stay_whole() -> None:
    source = ChunkingInput((4, 5000, 5000), 1, 2, 2.0, (1, 5000, 5000), whole=True)
    assert negotiate("auto", source).shape == (1, 5000, 5000)


@pytest.mark.parametrize(
    "spec",
    [
        *(
            "all",
            "",
            "x",
            "4 MB extra",
            "-1",
            "1,2",
            "1,2,3,4,5",
            "0,1,1,1",
            "1,-2,1,1",
            "1.5,1,1,1",
            "9" * 5000,
            "4XiB",
            "0",
            "0KiB",
        ),
        *(
            0,
            -1,
            2.5,
            None,
            True,
            (1, 2),
            (1, 1, 1, 0),
            (1, 1, 1, -2),
            (1.0, 1, 1, 1),
            (True, 1, 1, 1),
            ("a", 1, 1, 1),
            (None,) * 4,
            [[1], 1, 1, 1],
            math.nan,
        ),
        *(np.ones((4, 2), int), np.ones(4), {1, 2, 3}, object()),
    ],
    ids=lambda spec: repr(spec)[:20],
)
def test_specs_that_are_none(spec: Any) -> None:
    with pytest.raises(OptionError, match="chunks="):
        negotiate(spec, FOUR_D)


@given(st.data())
def test_tiles_cover_a_region_in_order(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 12), max_size=4)))
    region = data.draw(regions(shape).filter(lambda r: r.size > 0))
    itemsize, limit = data.draw(st.sampled_from([1, 2, 8])), data.draw(st.integers(1, 500))
    whole = np.arange(math.prod(shape)).reshape(shape)
    tiles = list(cut(region, itemsize, limit))
    assert all(tile.size * itemsize <= max(limit, itemsize) for tile in tiles)
    flat = np.concatenate([whole[tile.slices].reshape(-1) for tile in tiles])
    np.testing.assert_array_equal(flat, whole[region.slices].reshape(-1))


def test_what_is_small_is_not_cut() -> None:
    region = Region.box((1, 2), (9, 8))
    assert list(cut(region, 2, 8 * 6 * 2)) == [region]
    assert len(list(cut(region, 2, 8 * 6 * 2 - 1))) == 2


@pytest.mark.parametrize(
    ("shape", "chunks", "full"),
    [
        ((6, 6, 256, 256), (4, 4, -1, -1), 1.0),  # was 1.78: chunks at the edge counted as if they were whole
        ((6, 6, 256, 256), (-1, -1, 240, -1), 1.0),
        ((6, 6, 256, 256), (5, 5, 256, 128), 2.0),
        ((10**6, 256, 256), (999_999, 256, 256), 1.0),
    ],
)
def test_a_pass_over_chunks_that_do_not_divide_the_array(
    shape: tuple[int, ...], chunks: tuple[int, ...], full: float
) -> None:
    found = negotiate(chunks, ChunkingInput(shape, len(shape) - 2, 2, 2))
    assert found.full == pytest.approx(full, rel=0.02)


def test_a_pass_costs_what_its_chunks_cost() -> None:
    """A recount, one chunk after the other."""
    source = ChunkingInput((7, 5, 100, 90), 2, 2, 2)
    for chunks in ((3, 2, 100, 90), (7, 5, 33, 33), (2, 3, 30, 90), (7, 5, 1, 1), (1, 1, 100, 40)):
        total = 0.0
        for position in (grid := ChunkGrid(source.shape, chunks)).touched(Region.whole(source.shape)):
            part = grid.region(position).shape
            total += negotiate(part, source).one * math.prod(part) * 2
        assert negotiate(chunks, source).full == pytest.approx(total / (7 * 5 * 100 * 90 * 2))
