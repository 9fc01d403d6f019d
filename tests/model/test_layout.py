"""Any layout equals its numpy twin: frames and blocks scattered over files, read by any region, under any backend."""

from __future__ import annotations

import tempfile
import tracemalloc
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.model.strategies import (
    GARBAGE,
    U2,
    Case,
    block_cases,
    cases,
    frame_cases,
    indices,
    partition,
    regions,
    same,
)
from vfs import kernels
from vfs.backends import Backend, make_backend
from vfs.engine.array import ArrayReader
from vfs.engine.chunk_access import Chunks
from vfs.errors import DecodeError, FormatError, OptionError
from vfs.kernels import blocks, planning, ranges
from vfs.kernels.columns import COUNT, DEST, LINES, NEXT, PITCH, PLANE, SKIP, START, STEP, STOP
from vfs.model.as_scan import as_scan
from vfs.model.codecs import CodecDecoder
from vfs.model.decode import PlainDecoder
from vfs.model.layout import BlockLayout, BlockTable, FrameLayout, FrameRecord, Scan
from vfs.model.region import Region
from vfs.model.stored import StoredArray
from vfs.testing.backends import MemoryBackend, memory_files


@given(cases, st.data())
def test_any_layout_is_its_twin(case: Case, data: st.DataObject) -> None:
    array = case.memory(copies=data.draw(st.booleans()), window=data.draw(st.sampled_from([1, 5, 64, 1 << 19])))
    assert array.shape == case.twin.shape
    same(array.read(), case.twin)
    for _ in range(2):
        region = data.draw(regions(array.shape))
        expected = case.twin[region.slices]
        same(array.read(region), expected)
        out = np.full(expected.shape, 0x77, expected.dtype)
        assert array.read(region, out) is out
        same(out, expected)
        loose = np.full((*expected.shape, 2), 0x77, expected.dtype)  # elements two apart, first axis backwards
        there = loose[::-1, ..., 1] if expected.ndim else loose[..., 1]
        array.read(region, there)
        same(there, expected)
        assert loose[..., 0].tobytes() == np.full(expected.shape, 0x77, expected.dtype).tobytes()
        key = data.draw(indices(array.shape))
        same(np.asarray(array[key]), np.asarray(case.twin[key]))


@given(cases, st.data())
def test_any_layout_planned_in_small_pieces(case: Case, data: st.DataObject) -> None:
    """A plan may have only so many rows; what needs more is read in halves, and these in halves."""
    with pytest.MonkeyPatch.context() as patch:
        rows = data.draw(st.sampled_from([2, 3, 7, 20]))
        patch.setattr("vfs.engine.stored_reader.ROWS", rows)
        patch.setattr("vfs.engine.reader.ROWS", rows)
        array = case.memory(copies=data.draw(st.booleans()))
        same(array.read(), case.twin)
        region = data.draw(regions(array.shape))
        same(array.read(region), case.twin[region.slices])


@given(frame_cases(), st.booleans())
def test_single_frames_of_any_layout_without_kernels(case: Case, copies: bool) -> None:
    """Elements are those of kernels, which a process that shows a few frames does not load."""
    array, nav = case.memory(copies=copies), case.dataset.nav_ndim
    for frame in np.ndindex(array.shape[:nav]):
        with mock.patch.object(kernels, "wanted", return_value=False):
            same(np.asarray(array[frame]), np.asarray(case.twin[frame]))


@pytest.mark.parametrize("dtype", ["<u2", ">u2", ">f4", "<c8", ">c16", "?"])
def test_frames_that_need_no_kernel(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = np.arange(48).reshape(2, 4, 6).astype(dtype)
    layout = FrameLayout.of(FrameRecord((4, 6), frames.itemsize), [2])
    data = StoredArray(
        "data", memory_files([frames.tobytes()]), layout, PlainDecoder(frames.dtype), (2, 4, 6), tuple("nyx"), 1
    )
    array = ArrayReader(data, MemoryBackend([frames.tobytes()], copies=True))
    monkeypatch.setattr(kernels, "wanted", lambda: False)
    monkeypatch.setattr(kernels, "steps", None)
    same(array[1], frames[1].astype(array.dtype))


@given(cases, st.data())
def test_any_layout_under_real_backends(case: Case, data: st.DataObject) -> None:
    region = data.draw(regions(case.twin.shape))
    with tempfile.TemporaryDirectory() as folder:
        dataset = case.written(folder)
        for name in ("mmap", "buffered"):
            backend: Backend = make_backend(name, dataset.files)
            if name == "buffered":
                backend.window = data.draw(st.sampled_from([1, 5, 64, 1 << 19]))
            array = ArrayReader(dataset, backend)
            same(array.read(), case.twin)
            same(array.read(region), case.twin[region.slices])


@given(cases, st.data())
def test_chunks_of_any_layout(case: Case, data: st.DataObject) -> None:
    chunks = tuple(data.draw(st.integers(1, max(1, n) + 1)) for n in case.twin.shape)
    array = ArrayReader(case.dataset, MemoryBackend(case.contents, copies=data.draw(st.booleans())), chunks=chunks)
    padded = np.full([count * c for count, c in zip(array.grid.counts, array.chunks, strict=True)], array.fill)
    padded[tuple(slice(0, n) for n in array.shape)] = case.twin
    for position in np.ndindex(*array.grid.counts):
        box = tuple(slice(p * c, (p + 1) * c) for p, c in zip(position, array.chunks, strict=True))
        same(Chunks(array).make(position), padded[box])
        same(Chunks(array).cached(position), padded[box])
    seen = np.full(array.shape, 0x66, array.dtype)
    for region, tile in array.tiles():
        seen[region.slices] = tile
    same(seen, case.twin)


@given(cases, st.data())
def test_flat_reads_of_any_layout(case: Case, data: st.DataObject) -> None:
    array = case.memory()
    first = data.draw(st.integers(0, array.size))
    last = data.draw(st.integers(first, array.size))
    same(
        Chunks(array).run(first * array.dtype.itemsize, last * array.dtype.itemsize).view(array.dtype),
        case.twin.reshape(-1)[first:last],
    )


@given(block_cases(whole=True), st.data())
def test_planning_covers_every_element_of_whole_blocks_once(case: Case, data: st.DataObject) -> None:
    rows, covered = case.dataset.layout.read_ranges(data.draw(regions(case.twin.shape)))
    assert rows[:, COUNT].sum() == covered
    assert (rows[:, START] < rows[:, STOP]).all()


@given(frame_cases() | block_cases(whole=False), st.data())
def test_planning_covers_every_element_once(case: Case, data: st.DataObject) -> None:
    """Plans alone, no bytes: each element of a region is written by at most one range, and `covered` says how many."""
    region = data.draw(regions(case.twin.shape))
    decoder = case.dataset.decoder
    rows, covered = case.dataset.layout.read_ranges(region)
    for plane in np.unique(rows[:, PLANE]):
        touched = np.zeros(region.size, int)
        for row in rows[rows[:, PLANE] == plane]:
            np.add.at(touched, places(row), 1)
            assert 0 <= row[START] < row[STOP]
            words = -(-(row[SKIP] + row[COUNT]) // decoder.word_pixels)
            assert row[STOP] - row[START] == words * decoder.word_bytes + (row[LINES] - 1) * row[PITCH]
            assert (
                row[PITCH] >= words * decoder.word_bytes
                if row[LINES] > 1
                else (row[LINES], row[PITCH], row[NEXT]) == (1, 0, 0)
            )
        assert touched.max(initial=0) <= 1
        assert touched.sum() == covered
    assert covered <= region.size


@given(cases, st.data())
def test_a_plan_has_as_many_rows_as_it_may_or_says_so(case: Case, data: st.DataObject) -> None:
    layout, region = case.dataset.layout, data.draw(regions(case.twin.shape))
    rows, covered = layout.read_ranges(region)
    again, same_covered = layout.read_ranges(region, 2 * region.size)  # two planes: as many as there can be
    np.testing.assert_array_equal(rows, again)
    assert covered == same_covered
    if case.dataset.decoder.word_bytes and len(rows):
        few, none = layout.read_ranges(region, data.draw(st.integers(0, len(rows) - 1)))
        assert len(few) == 0
        assert none == -1


# ranges, windows, merging


def table(*rows: tuple[int, ...]) -> np.ndarray:
    """Ranges from their first eight columns, of one line each, or from all of them."""
    return np.array([(*row, 1, 0, 0)[: ranges.COLUMNS] for row in rows], np.int64).reshape(-1, ranges.COLUMNS)


def places(row: np.ndarray) -> np.ndarray:
    """Where the elements of a range go, in stored order."""
    where: np.ndarray = (
        row[DEST] + row[NEXT] * np.arange(max(1, row[LINES]))[:, None] + row[STEP] * np.arange(row[COUNT])
    ).reshape(-1)
    return where


def stored(row: np.ndarray, width: int) -> np.ndarray:
    """The first byte of each element of a range."""
    where: np.ndarray = (
        row[START] + row[PITCH] * np.arange(max(1, row[LINES]))[:, None] + width * np.arange(row[COUNT])
    ).reshape(-1)
    return where


@st.composite
def lined(draw: st.DrawFn) -> tuple[int, np.ndarray]:
    """(bytes an element, ranges of 0 to 9 lines that write 2,000 places each)."""
    width, rows = draw(st.sampled_from([1, 2, 8])), []
    for n in range(draw(st.integers(1, 4))):
        count, lines, by = draw(st.integers(1, 9)), draw(st.integers(0, 9)), draw(st.sampled_from([1, -1, 3]))
        start, pitch = draw(st.integers(0, 50)), count * width + draw(st.integers(0, 30))
        after = draw(st.sampled_from([-1, 1])) * (3 * count + draw(st.integers(0, 9)))
        stop = start + count * width + max(0, lines - 1) * pitch
        rows.append(
            (0, start, stop, 2000 * n + 1000, by, 0, count, 0, lines, *((pitch, after) if lines > 1 else (0, 0)))
        )
    return width, table(*rows)


@given(lined(), st.integers(0, 200))
def test_lines_cut_apart_are_the_same_elements(made: tuple[int, np.ndarray], limit: int) -> None:
    width, rows = made
    cut = ranges.in_lines(rows, limit)
    elements = [
        sorted(
            zip(
                *(
                    np.concatenate([of(row) for row in part]).tolist()
                    for of in (places, lambda row: stored(row, width))
                ),
                strict=True,
            )
        )
        for part in (cut, rows)
    ]
    assert elements[0] == elements[1]
    for row in cut:
        assert row[LINES] <= 1 or row[STOP] - row[START] <= limit
        assert row[STOP] == stored(row, width)[-1] + width
    if limit == 0:
        assert len(cut) == np.maximum(1, rows[:, LINES]).sum()
    elif rows[:, STOP].max() - rows[:, START].min() <= limit:
        assert len(cut) == len(rows)


@given(lined(), st.integers(1, 300))
def test_windows_count_the_bytes_of_lines_only(made: tuple[int, np.ndarray], limit: int) -> None:
    width, rows = made
    assert ranges.windows(rows, limit)[:, 5].sum() == (np.maximum(1, rows[:, LINES]) * rows[:, COUNT]).sum() * width


@pytest.mark.parametrize("dtype", ["u1", "<u2", ">u2", "<f4", ">i8", "<c8", ">c16"])
@given(data=st.data())
def test_lines_are_decoded_as_a_range_each(dtype: str, data: st.DataObject) -> None:
    _, rows = data.draw(lined())
    kind = np.dtype(dtype)
    rows[:, PITCH] = rows[:, PITCH] * kind.itemsize + data.draw(st.integers(0, 3))  # odd bytes too
    rows[:, STOP] = rows[:, START] + rows[:, COUNT] * kind.itemsize + np.maximum(0, rows[:, LINES] - 1) * rows[:, PITCH]
    rows[:, PITCH] *= rows[:, LINES] > 1
    content = np.random.default_rng(1).integers(0, 120, int(rows[:, STOP].max())).astype(np.uint8)
    out, twin = np.zeros((2, 8000), kind.newbyteorder("="))
    PlainDecoder(kind).decode(rows, content, 0, out)
    for row in rows:
        twin[places(row)] = [content[a : a + kind.itemsize].view(kind)[0] for a in stored(row, kind.itemsize)]
    np.testing.assert_array_equal(out.view(np.uint8), twin.view(np.uint8))


def test_a_mirrored_or_cropped_frame_is_one_range() -> None:
    flipped = FrameLayout.of(FrameRecord((3, 4), 2, header=6, pieces=np.array([[0, 0, 3, 4, -4, 1, 8, 0]])), [2])
    rows = flipped.read_ranges(Region.whole(flipped.shape), 2)[0]
    assert rows.tolist() == [[0, 6, 30, 8, 1, 0, 4, 0, 3, 8, -4], [0, 36, 60, 20, 1, 0, 4, 0, 3, 8, -4]]
    plain = FrameLayout.of(FrameRecord((3, 4), 2, header=6), [2])
    rows = plain.read_ranges(Region.of((slice(1, 2), slice(0, 3), slice(1, 3)), plain.shape), 1)[0]
    assert rows.tolist() == [[0, 38, 58, 0, 1, 0, 2, 0, 3, 8, 2]]
    rows = plain.read_ranges(Region((0, 0, 1), (1, 3, 3), (1, 2, 1)), 1)[0]
    assert rows.tolist() == [[0, 8, 28, 0, 1, 0, 2, 0, 2, 16, 2]]
    volume = FrameLayout.of(FrameRecord((2, 3, 4), 1), [1])  # all lines of all planes lie equally far apart
    rows = volume.read_ranges(Region.box((0, 0, 0, 1), (1, 2, 3, 3)), 1)[0]
    assert rows.tolist() == [[0, 1, 23, 0, 1, 0, 2, 0, 6, 4, 2]]
    packed = FrameLayout.of(FrameRecord((3, 4), 3, 2), [1])
    # Every line begins with the second pixel of a word, but needs two words
    rows = packed.read_ranges(Region.box((0, 0, 1), (1, 3, 3)))[0]
    assert rows.tolist() == [[0, 0, 18, 0, 1, 1, 2, 0, 3, 6, 2]]
    # Five pixels a line: every other line begins with the second pixel of a word
    odd = FrameLayout.of(FrameRecord((3, 5), 3, 2), [1])
    assert odd.read_ranges(Region.box((0, 0, 1), (1, 3, 4)))[0][:, LINES].tolist() == [1, 1, 1]
    pieces = np.array([[0, 0, 3, 7, 8, 1, 2, 0]])  # the last word of a line is the first one of the next
    tight = FrameLayout.of(FrameRecord((3, 7), 6, 4, pieces=pieces, payload=48), [1])
    assert tight.read_ranges(Region.whole(tight.shape))[0][:, LINES].tolist() == [1, 1, 1]


def test_sectors_side_by_side_are_a_range_each() -> None:
    """Two sectors whose lines lie interleaved, the second upside down: a range each, and cut apart
    together, in the order of the file.
    """
    pieces = np.array([[0, 0, 4, 4, 8, 1, 0, 0], [4, 0, 4, 4, -8, -1, 31, 0]])
    layout = FrameLayout.of(FrameRecord((8, 4), 8, 4, pieces=pieces), [1])
    rows = layout.read_ranges(Region.whole(layout.shape))[0]
    assert rows.tolist() == [[0, 0, 56, 0, 1, 0, 4, 0, 4, 16, 4], [0, 8, 64, 31, -1, 0, 4, 0, 4, 16, -4]]
    assert ranges.in_lines(rows, 64) is not None
    assert ranges.in_lines(rows, 63)[:, [START, STOP, DEST, LINES]].tolist() == [
        [0, 24, 0, 2],
        [8, 32, 31, 2],
        [32, 56, 8, 2],
        [40, 64, 23, 2],
    ]
    assert ranges.in_lines(rows, 0)[:, START].tolist() == list(range(0, 64, 8))
    # Lines 1 to 3 of the first, 3 and 2 of the second: these begin two lines later
    crop = layout.read_ranges(Region.box((0, 1, 0), (1, 6, 4)))[0]
    assert crop[:, [START, LINES]].tolist() == [[16, 3], [40, 2]]
    assert ranges.in_lines(crop, 0)[:, START].tolist() == [16, 32, 40, 48, 56]


def test_lines_are_no_part_of_the_range_before() -> None:
    """A block of one row, then one of four whose lines begin where the first ends, in the file and in the output."""
    layout = BlockLayout.of((5, 8), BlockTable([(0, 0), (1, 0)], [(1, 8), (4, 4)], [0, 0], [0, 8]), word_bytes=1)
    rows = layout.read_ranges(Region.whole((5, 8)))[0]
    assert rows.tolist() == [[0, 0, 8, 0, 1, 0, 8, 0, 1, 0, 0], [0, 8, 24, 8, 1, 0, 4, 0, 4, 4, 8]]


@dataclass(frozen=True)
class Straight(CodecDecoder):
    """Writes whole blocks to where they belong, and remembers which."""

    written: list[int] = field(default_factory=list)

    def decode_into(self, data: np.ndarray, block: int, out: np.ndarray) -> None:
        assert out.flags.c_contiguous
        self.written.append(block)
        super().decode_into(data, block, out)


@given(block_cases(whole=True), st.data(), st.booleans())
def test_blocks_that_are_wanted_as_a_whole_go_where_they_belong(case: Case, data: st.DataObject, copies: bool) -> None:
    plain = case.dataset.decoder
    assert isinstance(plain, CodecDecoder)
    decoder = Straight(plain.stored, plain.codec)
    array = ArrayReader(replace(case.dataset, decoder=decoder), MemoryBackend(case.contents, copies=copies))
    for region in (data.draw(regions(case.twin.shape)), Region.whole(case.twin.shape)):
        same(array.read(region), case.twin[region.slices])
        rows, covered = array.dataset.layout.read_ranges(region)
        for row in rows[rows[:, NEXT] == 1]:
            assert row[DEST] + row[COUNT] <= region.size
        assert covered == rows[:, COUNT].sum()


def test_which_blocks_go_where_they_belong() -> None:
    """Two rows of blocks of 2 x 4 in an array of 4 x 8: only bands of whole width lie side by side in the output."""
    blocks = np.arange(32, dtype="u2").reshape(4, 8)
    content = b"".join(blocks[y : y + 2, x : x + 4].tobytes() for y in (0, 2) for x in (0, 4))
    layout = BlockLayout.of(
        (4, 8), BlockTable([(0, 0), (0, 4), (2, 0), (2, 4)], [(2, 4)] * 4, [0] * 4, np.arange(4) * 16, [16] * 4)
    )
    decoder = Straight(U2, ())
    array = ArrayReader(
        StoredArray("data", memory_files([content]), layout, decoder, (4, 8), ("y", "x"), 0), MemoryBackend([content])
    )
    for key, straight in (
        ((slice(0, 4), slice(0, 8)), []),
        ((slice(0, 4), slice(0, 4)), [0, 2]),
        ((slice(1, 4), slice(4, 8)), [3]),
        ((slice(0, 2), slice(0, 4)), []),  # it is in the cache
    ):
        decoder.written.clear()
        same(array[key], blocks[key])
        if straight:
            rows = layout.read_ranges(Region.of(key, (4, 8)))[0]
            assert rows[rows[:, NEXT] == 1, PLANE].tolist() == straight
    fresh = ArrayReader(array.dataset, MemoryBackend([content]))
    same(fresh[:, :4], blocks[:, :4])
    assert decoder.written == [0, 2]


@given(frame_cases() | block_cases(), st.data())
def test_a_tile_may_end_within_lines(case: Case, data: st.DataObject) -> None:
    """Converted in tiles of a few bytes, which begin and end anywhere in a frame."""
    array = case.memory(copies=data.draw(st.booleans()))
    wider = ArrayReader(case.dataset, array.backend, dtype="c16")
    region = data.draw(regions(case.twin.shape))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vfs.engine.reader.CACHED", data.draw(st.integers(1, 40)))
        patch.setattr("vfs.engine.reader.TILE", data.draw(st.integers(1, 40)))
        with np.errstate(all="ignore"):
            same(wider.read(region), case.twin[region.slices].astype("c16"))


@given(
    st.integers(1, 40),
    st.integers(0, 3),
    st.integers(1, 200),
    st.sampled_from([(1, 1), (2, 1), (3, 2), (8, 4), (8, 64)]),
    st.sampled_from([1, -1, 7]),
)
def test_split_is_the_same_range(limit: int, skip: int, count: int, word: tuple[int, int], by: int) -> None:
    word_bytes, word_pixels = word
    skip = skip % word_pixels
    words = -(-(skip + count) // word_pixels)
    row = table((5, 1000, 1000 + words * word_bytes, 10_000, by, skip, count, 0))
    parts = ranges.split(row, limit, word_bytes, word_pixels)
    assert (parts[:, STOP] - parts[:, START] <= max(limit, word_bytes)).all()
    assert parts[0, START] == 1000
    assert parts[-1, STOP] == row[0, STOP]
    np.testing.assert_array_equal(parts[1:, START], parts[:-1, STOP])
    assert (parts[:, COUNT] > 0).all()
    written = np.concatenate([part[DEST] + by * np.arange(part[COUNT]) for part in parts])
    np.testing.assert_array_equal(written, 10_000 + by * np.arange(count))
    held = (parts[:, STOP] - parts[:, START]) // word_bytes * word_pixels - parts[:, SKIP] - parts[:, COUNT]
    assert (held >= 0).all()
    assert (held < word_pixels).all()
    assert (held[:-1] == 0).all()
    assert (parts[1:, SKIP] == 0).all()


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 300), st.integers(1, 60)), max_size=12), st.integers(1, 200)
)
def test_windows_hold_all_rows_in_order(found: list[tuple[int, int, int]], limit: int) -> None:
    rows = table(*[(f, a, a + n, 0, 1, 0, n, 0) for f, a, n in found])
    grouped = ranges.windows(rows, limit)
    at = 0
    for file, start, stop, first, last, wanted in grouped.tolist():
        part = rows[first:last]
        assert first == at
        assert (part[:, 0] == file).all()
        assert (start, stop) == (part[:, START].min(), part[:, STOP].max())
        assert wanted == (part[:, STOP] - part[:, START]).sum()
        assert last - first == 1 or stop - start <= limit
        at = last
    assert at == len(rows)


def test_windows_are_as_long_as_they_may_be() -> None:
    rows = table(
        (0, 0, 10, 0, 1, 0, 10, 0),
        (0, 40, 50, 0, 1, 0, 10, 0),
        (0, 100, 110, 0, 1, 0, 10, 0),
        (1, 110, 120, 0, 1, 0, 10, 0),
    )
    assert ranges.windows(rows, 50)[:, :5].tolist() == [[0, 0, 50, 0, 2], [0, 100, 110, 2, 3], [1, 110, 120, 3, 4]]
    assert ranges.windows(rows, 49)[:, :5].tolist() == [
        [0, 0, 10, 0, 1],
        [0, 40, 50, 1, 2],
        [0, 100, 110, 2, 3],
        [1, 110, 120, 3, 4],
    ]


def rows_of(layout: FrameLayout | BlockLayout, *cut: slice) -> list[list[int]]:
    """The first eight columns of ranges that have one line each."""
    rows = layout.read_ranges(Region.of(cut, layout.shape))[0]
    assert (rows[:, LINES:] == (1, 0, 0)).all()
    found: list[list[int]] = rows[:, :LINES].tolist()
    return found


def test_frames_without_headers_are_one_range() -> None:
    layout = FrameLayout.of(FrameRecord((4, 5), 2), [3, 2])
    assert rows_of(layout) == [[0, 0, 120, 0, 1, 0, 60, 0], [1, 0, 80, 60, 1, 0, 40, 0]]
    assert rows_of(layout, slice(0, 2), slice(0, 4), slice(0, 5)) == [[0, 0, 80, 0, 1, 0, 40, 0]]
    assert rows_of(layout, slice(0, 1), slice(1, 3)) == [[0, 10, 30, 0, 1, 0, 10, 0]]


def test_a_step_or_a_mirror_is_not_merged_with_its_neighbour() -> None:
    layout = FrameLayout.of(FrameRecord((2,), 1), [4])
    assert rows_of(layout, slice(0, 4, 2)) == [[0, 0, 2, 0, 1, 0, 2, 0], [0, 4, 6, 2, 1, 0, 2, 0]]
    mirrored = FrameLayout.of(FrameRecord((2,), 1, pieces=np.array([[0, 2, -1, 1, 0]])), [2])
    assert rows_of(mirrored) == [[0, 0, 2, 1, -1, 0, 2, 0], [0, 2, 4, 3, -1, 0, 2, 0]]
    backwards = FrameLayout.of(FrameRecord((2, 3), 1, pieces=np.array([[0, 0, 2, 3, -3, -1, 5, 0]])), [1])
    assert rows_of(backwards) == [[0, 0, 6, 5, -1, 0, 6, 0]]


def test_packed_words_are_merged_only_at_their_borders() -> None:
    layout = FrameLayout.of(FrameRecord((3, 4), 3, 2), [2])
    assert rows_of(layout) == [[0, 0, 36, 0, 1, 0, 24, 0]]
    assert rows_of(layout, slice(0, 1), slice(0, 1), slice(1, 4)) == [[0, 0, 6, 0, 1, 1, 3, 0]]
    odd = FrameLayout.of(FrameRecord((3,), 3, 2), [2])  # three pixels need two words
    assert rows_of(odd) == [[0, 0, 6, 0, 1, 0, 3, 0], [0, 6, 12, 3, 1, 0, 3, 0]]


def test_push_merges_what_goes_on_in_file_and_output() -> None:
    rows = np.full((4, ranges.COLUMNS), -1)
    n = planning.push(rows, 1, 1, 0, 0, 10, 0, 1, 0, 10, 0, 1, 1)
    n = planning.push(rows, 1, n, 0, 10, 20, 10, 1, 0, 10, 0, 1, 1)
    assert n == 2
    assert rows[1].tolist() == [0, 0, 20, 0, 1, 0, 20, 0, 1, 0, 0]
    for change in ({"file": 1}, {"start": 21}, {"dest": 21}, {"by": 2}, {"plane": 1}, {"skip": 1}):
        told = {"file": 0, "start": 20, "stop": 30, "dest": 20, "by": 1, "skip": 0, "count": 10, "plane": 0} | change
        assert planning.push(rows.copy(), 1, n, *told.values(), 1, 1) == 3, change
        assert planning.push(rows[:2].copy(), 1, n, *told.values(), 1, 1) == 3, "no room"
    assert planning.push(rows, 2, n, 0, 20, 30, 20, 1, 0, 10, 0, 1, 1) == 3, "the row before is not of the table"
    assert planning.push(rows, 1, n, 0, 20, 30, 20, 1, 0, 10, 0, 1, 1) == 2
    assert (rows[0] == -1).all()


# frames: what is refused


def test_files_that_hold_the_same_frames() -> None:
    with pytest.raises(FormatError, match="entries 0 and 1"):
        FrameLayout.of(FrameRecord((4,), 1), [3, 3], first=[0, 2])


def test_an_empty_file_holds_nothing_that_others_hold() -> None:
    layout = FrameLayout.of(FrameRecord((4,), 1), [3, 0, 2], first=[0, 1, 3])
    assert rows_of(layout) == [[0, 0, 12, 0, 1, 0, 12, 0], [2, 0, 8, 12, 1, 0, 8, 0]]
    after = FrameLayout.of(FrameRecord((4,), 1), [3, 0], first=[2, 2])
    assert rows_of(after) == [[0, 0, 12, 8, 1, 0, 12, 0]]


def test_a_file_that_ends_within_a_pixel() -> None:
    with pytest.raises(FormatError, match="file 0 of the set: ends in the middle of a pixel"):
        FrameLayout.running_on(FrameRecord((4,), 2), [7, 9])
    with pytest.raises(FormatError, match=r"b.bin: ends in the middle of a pixel"):
        FrameLayout.running_on(FrameRecord((4,), 2), [8, 3, 5], names=["a.bin", "b.bin", "c.bin"])
    # Between pixels it may
    assert FrameLayout.running_on(FrameRecord((4,), 2, header=3, footer=5), [11, 5]).stored == 1


def test_a_last_footer_may_be_missing() -> None:
    for sizes, frames in (([6, 8], 2), ([6, 7], 2), ([6, 6], 2), ([6, 5], 1), ([7, 0], 1), ([5, 0], 1), ([4, 0], 0)):
        assert FrameLayout.running_on(FrameRecord((4,), 1, header=1, footer=2), sizes).stored == frames


# blocks: what is refused, and what searching costs


def boxes_of(*boxes: tuple[list[int], list[int]], shape: tuple[int, ...] = (10, 10)) -> BlockLayout:
    n = len(boxes)
    origins = np.array([a for a, _ in boxes], np.int64)
    sizes = np.array([s for _, s in boxes], np.int64)
    table = BlockTable(origins, sizes, np.zeros(n, np.int64), np.arange(n) * 1000)
    return BlockLayout.of(shape, table, word_bytes=1)


def test_blocks_that_overlap() -> None:
    with pytest.raises(
        FormatError, match=r"blocks 0 and 2 overlap: at \[0, 0\] of shape \[5, 5\] and at \[4, 4\] of shape \[1, 1\]"
    ):
        boxes_of(([0, 0], [5, 5]), ([5, 0], [5, 10]), ([4, 4], [1, 1])).check_apart()
    boxes_of(([0, 0], [5, 5]), ([5, 0], [5, 10]), ([4, 5], [1, 5])).check_apart()  # neighbours do not


@given(st.data())
def test_overlap_is_found_wherever_it_is(data: st.DataObject) -> None:
    nd = data.draw(st.integers(1, 3))
    shape = (8,) * nd
    boxes = partition(data.draw, (0,) * nd, shape, data.draw(st.integers(1, 20)))
    a = tuple(data.draw(st.integers(0, 7)) for _ in shape)
    extra = (a, tuple(data.draw(st.integers(x + 1, 8)) for x in a))
    gone = data.draw(st.booleans())
    if gone:  # everything the extra block meets is taken away
        boxes = [
            (lo, hi) for lo, hi in boxes if any(h <= x or low >= y for low, h, x, y in zip(lo, hi, *extra, strict=True))
        ]
    boxes.insert(data.draw(st.integers(0, len(boxes))), extra)
    told = [([*lo], [*np.subtract(hi, lo).tolist()]) for lo, hi in boxes]
    if gone:
        boxes_of(*told, shape=shape).check_apart()
    else:
        with pytest.raises(FormatError, match="overlap"):
            boxes_of(*told, shape=shape).check_apart()


@pytest.mark.parametrize(
    ("origin", "size"),
    [
        ([0, 8], [1, 3]),
        ([-1, 0], [2, 2]),
        ([0, 0], [0, 2]),
        ([0, 0], [1, -1]),
        ([2**62, 0], [2**62, 1]),
        ([10, 0], [1, 1]),
    ],
)
def test_blocks_that_do_not_fit(origin: list[int], size: list[int]) -> None:
    with pytest.raises(FormatError, match=r"block 1 .* does not fit"):
        boxes_of(([0, 0], [1, 1]), (origin, size))


def test_blocks_before_the_file_or_in_no_file() -> None:
    one = np.ones((1, 1), np.int64)
    zero = np.zeros(1, np.int64)
    with pytest.raises(FormatError, match=r"block 0 .* byte -5"):
        BlockLayout.of((4,), BlockTable(one, one, zero, zero - 5), word_bytes=1)
    with pytest.raises(FormatError, match=r"block 0 .* file -1"):
        BlockLayout.of((4,), BlockTable(one, one, zero - 1, zero), word_bytes=1)


def test_no_blocks_at_all_are_blank() -> None:
    layout = BlockLayout.of(
        (4, 3), BlockTable(np.empty((0, 2)), np.empty((0, 2)), np.empty(0), np.empty(0)), word_bytes=1
    )
    assert layout.read_ranges(Region.whole((4, 3)))[1] == 0
    assert layout.arranged(Scan((2, 2))).shape == (2, 2, 3)


def test_one_block_without_axes() -> None:
    layout = BlockLayout.of(
        (), BlockTable(np.zeros((1, 0)), np.zeros((1, 0)), np.zeros(1), np.array([16])), word_bytes=2
    )
    assert rows_of(layout) == [[0, 16, 18, 0, 1, 0, 1, 0]]


def test_blocks_of_several_positions_need_the_shape_they_are_stored_in() -> None:
    one = np.ones((1, 2), np.int64)
    layout = BlockLayout.of((9, 4), BlockTable(one * 0, one * 4, one[:, 0], one[:, 0], one[:, 0]))
    with pytest.raises(OptionError, match="span several navigation positions"):
        layout.arranged(Scan((3, 3)))


def test_a_block_stored_longer_than_it_is_can_be_arranged() -> None:
    """One frame in a compressed block for two, as the last one of an odd number is."""
    import zlib

    frames = np.arange(12, dtype="u1").reshape(2, 2, 3)
    content = zlib.compress(frames.tobytes())
    layout = BlockLayout.of(
        (1, 2, 3),
        BlockTable(np.zeros((1, 3)), np.array([[1, 2, 3]]), np.zeros(1), np.zeros(1), np.array([len(content)])),
        pitch=(2, 2, 3),
    )
    dataset = StoredArray(
        "data",
        memory_files([content]),
        layout,
        CodecDecoder(np.dtype("u1"), {"id": "zlib"}),
        (1, 2, 3),
        tuple("tyx"),
        1,
    )
    for shown in (dataset, as_scan(dataset, Scan((1, 1))), as_scan(dataset, Scan(chosen=np.array([0, 0])))):
        for frame in ArrayReader(shown, MemoryBackend([content])).read().reshape(-1, 2, 3):
            np.testing.assert_array_equal(frame, frames[0])


class Counted:
    """An array that counts how often an element is looked at: what a plan costs, in looks and not in time."""

    def __init__(self, inside: np.ndarray) -> None:
        self.inside = inside
        self.looks = 0

    def __getitem__(self, key: Any) -> Any:
        self.looks += 1
        return self.inside[key]


def looks(layout: BlockLayout, region: Region) -> tuple[int, int]:
    """(boxes of the tree looked at, blocks found) for a region."""
    tree = Counted(layout.tree)
    found = blocks.find.py_func(tree, layout.levels, np.array(region.start), np.array(region.stop))
    return tree.looks, len(found)


@pytest.fixture(scope="module")
def million() -> BlockLayout:
    """A million and some blocks of several shapes in no order: columns of 64 frames, each cut in its own way."""
    side, depth = 256, 1024
    y, x, t = np.meshgrid(np.arange(side), np.arange(side), np.arange(depth // 64), indexing="ij")
    origins = np.stack([t.reshape(-1) * 64, y.reshape(-1) * 4, x.reshape(-1) * 4], axis=1)
    odd = (origins.sum(axis=1) // 4) % 3 == 0
    low = np.concatenate([origins[~odd], origins[odd], origins[odd] + [0, 2, 0]])
    size = np.concatenate([np.tile([64, 4, 4], ((~odd).sum(), 1)), np.tile([64, 2, 4], (2 * odd.sum(), 1))])
    order = np.random.default_rng(0).permutation(len(low))
    n = len(low)
    assert n > 1_000_000
    table = BlockTable(low[order], size[order], np.arange(n) % 7, np.arange(n) * 2048)
    layout = BlockLayout.of((depth, side * 4, side * 4), table, word_bytes=2)
    layout.check_apart()
    return layout


def test_a_million_blocks_are_searched_not_scanned(million: BlockLayout) -> None:
    for region in (
        Region.box((100, 500, 500), (101, 508, 508)),
        Region.box((0, 0, 0), (1, 1, 1)),
        Region.box((1023, 1023, 1023), (1024, 1024, 1024)),
        Region.box((0, 600, 600), (1024, 604, 604)),
    ):
        seen, found = looks(million, region)
        assert 1 <= found <= 48
        # Five levels of sixteen, a few branches each; a scan would be a million
        assert seen <= 700 + 128 * found, region


def test_a_million_blocks_plan_no_more_rows_than_needed(million: BlockLayout) -> None:
    rows, covered = million.read_ranges(Region.box((100, 500, 500), (101, 508, 508)))
    assert covered == 64
    assert len(rows) <= 16


def test_one_pixel_of_each_of_a_million_frames_is_planned_in_parts() -> None:
    layout = FrameLayout.of(FrameRecord((3, 4), 1, header=1), [1 << 20])
    assert layout.read_ranges(Region.box((0, 1, 1), (1 << 20, 2, 2)), 1 << 17)[1] == -1
    content = np.zeros((1 << 20, 13), np.uint8)
    content[:, 6] = np.arange(1 << 20) % 251
    array = ArrayReader(
        StoredArray(
            "data", memory_files([b""]), layout, PlainDecoder(np.dtype("u1")), layout.shape, ("f", "y", "x"), 1
        ),
        MemoryBackend([content]),
    )
    array[:10, 1, 1]
    tracemalloc.start()
    got = array[:, 1, 1]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(got, content[:, 6])
    assert peak < 32 << 20  # a plan of it all has 88 bytes a row


def test_looking_does_not_grow_with_what_there_is() -> None:
    """A hundred times the blocks, at most one level of the tree more."""
    costs = []
    for side in (32, 320):
        y, x = np.divmod(np.arange(side * side), side)
        low = np.stack([y, x], axis=1) * 4
        n = len(low)
        layout = BlockLayout.of(
            (side * 4, side * 4),
            BlockTable(low, np.full((n, 2), 4), np.zeros(n, np.int64), np.arange(n) * 16),
            word_bytes=1,
        )
        corners = [Region.box((4 * k, 4 * k), (4 * k + 4, 4 * k + 4)) for k in range(0, 32, 3)]
        costs.append(max(looks(layout, corner)[0] for corner in corners))
    assert costs[1] <= costs[0] + 3 * blocks.FAN


# decoding blocks


def test_a_block_that_does_not_decode_names_file_bytes_and_region() -> None:
    layout = BlockLayout.of(
        (4,), BlockTable(np.zeros((1, 1)), np.full((1, 1), 4), np.zeros(1), np.array([3]), np.array([9]))
    )
    dataset = StoredArray(
        "data", memory_files([GARBAGE * 12]), layout, CodecDecoder(np.dtype("u1"), {"id": "zlib"}), (4,), ("x",), 0
    )
    array = ArrayReader(dataset, MemoryBackend([GARBAGE * 12]))
    with pytest.raises(
        DecodeError, match=r"memory:0: bytes 3 to 12: block 0: does not decode with .*zlib.*\[reading data\[1:3\]\]"
    ):
        array[1:3]


def test_a_block_of_another_size_is_an_error() -> None:
    import zlib

    content = zlib.compress(b"12345")
    layout = BlockLayout.of(
        (4,), BlockTable(np.zeros((1, 1)), np.full((1, 1), 4), np.zeros(1), np.zeros(1), np.array([len(content)]))
    )
    dataset = StoredArray(
        "data", memory_files([content]), layout, CodecDecoder(np.dtype("u1"), {"id": "zlib"}), (4,), ("x",), 0
    )
    with pytest.raises(DecodeError, match="expected 4 bytes after decoding, found 5"):
        ArrayReader(dataset, MemoryBackend([content])).read()
