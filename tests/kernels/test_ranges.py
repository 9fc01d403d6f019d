"""Planning of frames that are made of pieces, and grouping of ranges: what the layouts' tests
cannot see in the numbers.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfs.kernels.columns import COLUMNS, COUNT, DEST, FILE, LINES, NEXT, PITCH, PLANE, SKIP, START, STEP, STOP
from vfs.kernels.ranges import at_edges, by_file, in_lines, windows
from vfs.model.layout import FrameLayout, FrameRecord
from vfs.model.region import Region


def quad(h: int, w: int) -> np.ndarray:
    """A frame of 2h rows of 2w elements: two sectors side by side above, one turned box below,
    stored interleaved row by row.
    """
    row = 4 * w
    return np.array(
        [
            (h, 0, h, 2 * w, -row, -1, (h - 1) * row + 2 * w - 1, 0),
            (0, w, h, w, row, 1, 2 * w, 0),
            (0, 0, h, w, row, 1, 3 * w, 0),
        ],
        np.int64,
    )


def places(rows: np.ndarray, word_bytes: int, word_pixels: int) -> dict[int, tuple[int, int, int]]:
    """Output element -> (file, first byte of its word, pixel within the word, plane 0 only)."""
    found = {}
    for row in rows[rows[:, PLANE] == 0]:
        for line, i in product(range(row[LINES]), range(row[COUNT])):
            q = row[SKIP] + i
            at = int(row[DEST] + line * row[NEXT] + i * row[STEP])
            assert at not in found
            found[at] = (
                int(row[FILE]),
                int(row[START] + line * row[PITCH] + q // word_pixels * word_bytes),
                int(q % word_pixels),
            )
            assert found[at][1] + word_bytes <= row[STOP]
    return found


@given(st.data())
def test_interleaved_pieces_are_read_in_file_order(data: st.DataObject) -> None:
    h, w, n = data.draw(st.integers(1, 4)), data.draw(st.sampled_from([4, 8])), data.draw(st.integers(1, 4))
    counts = data.draw(st.lists(st.integers(1, 2), min_size=n, max_size=n))
    gaps = data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    first = np.cumsum(np.array(counts) + gaps) - counts
    size = 4 * h * w
    pieces = quad(h, w)[data.draw(st.permutations(range(3)))]
    layout = FrameLayout.of(FrameRecord((2 * h, 2 * w), 8, 4, header=5, pieces=pieces), counts, first=first)
    stored = np.full((layout.stored, size), -1)
    for file, (a, count) in enumerate(zip(first, counts, strict=True)):
        for k in range(count):
            stored[a + k] = file * 1_000_000 + k * (5 + 2 * size) + 5 + np.arange(size) // 4 * 8
    pixel = np.where(stored >= 0, np.arange(size) % 4, -1)
    raw = np.stack([stored, pixel], -1).reshape(-1, h, 4, w, 2)  # the twin: sectors cut out and turned
    lower = raw[:, ::-1, :2].reshape(-1, h, 2 * w, 2)[:, :, ::-1]
    upper = np.concatenate([raw[:, :, 3], raw[:, :, 2]], axis=2)
    image = np.concatenate([upper, lower], axis=1)
    np.testing.assert_array_equal(lower[:, -1, -1], raw[:, 0, 0, 0])

    start = [data.draw(st.integers(0, m - 1)) for m in layout.shape]
    stop = [data.draw(st.integers(a + 1, m)) for a, m in zip(start, layout.shape, strict=True)]
    region = Region(tuple(start), tuple(stop), tuple(data.draw(st.integers(1, 3)) for _ in start))
    rows, covered = layout.read_ranges(region)
    wanted = image[region.slices].reshape(-1, 2)
    found = places(rows, 8, 4)
    assert covered == len(found) == int((wanted[:, 0] >= 0).sum())
    for at, (file, byte, within) in found.items():
        assert wanted[at].tolist() == [file * 1_000_000 + byte, within]
    for file in np.unique(rows[:, FILE]):
        assert (np.diff(rows[rows[:, FILE] == file, START]) >= 0).all()


def test_equal_neighbours_join() -> None:
    """Frames without headers between them are one range, and a frame of 2 rows that go on in file and output too."""
    layout = FrameLayout.of(FrameRecord((2, 8), 2), [3, 2])
    rows, covered = layout.read_ranges(Region.whole(layout.shape))
    assert rows[:, [FILE, START, STOP, COUNT]].tolist() == [[0, 0, 96, 48], [1, 0, 64, 32]]
    assert covered == 80


@given(st.data())
def test_pieces_in_any_order_give_rows_in_file_order(data: st.DataObject) -> None:
    """Boxes of lines that lie anywhere in a frame, also one over the other."""
    lines = data.draw(
        st.lists(st.tuples(st.integers(1, 5), st.integers(0, 90), st.integers(-9, 9)), min_size=1, max_size=9)
    )
    pieces, y = [], 0
    for count, first, step in lines:
        pieces.append((y, 0, count, 2, step, 1, first - min(0, step * (count - 1)), 0))
        y += count
    layout = FrameLayout.of(FrameRecord((y, 2), 1, payload=200, pieces=np.array(pieces, np.int64)), [1])
    start = data.draw(st.integers(0, y - 1))
    region = Region((0, start, 0), (1, data.draw(st.integers(start + 1, y)), 1), (1, data.draw(st.integers(1, 3)), 1))
    rows, covered = layout.read_ranges(region)
    pixels = [(piece[6] + k * piece[4], piece[0] + k) for piece in pieces for k in range(piece[2])]
    wanted = {
        (line - start) // region.step[1]: (0, at, 0)
        for at, line in pixels
        if line in range(start, region.stop[1], region.step[1])
    }
    assert covered == len(wanted)
    assert places(rows, 1, 1) == wanted
    assert (np.diff(rows[:, START]) >= 0).all()


@pytest.mark.parametrize(("frames", "lines"), [(1, 300), (40, 300), (1000, 2), (1000, 1), (1, 1), (30, 128)])
def test_tables_of_any_length(frames: int, lines: int) -> None:
    """Room is made as it is needed: for the lines of a frame, for those of all frames, for those of
    frames that are cut by ends of files.
    """
    # Each line is a range
    sectors = np.array([(y, x, 1, 1, 6, 1, 6 * y + 4 - 4 * x, 0) for y in range(lines) for x in range(2)], np.int64)
    size = 3 * lines
    whole = FrameLayout.of(FrameRecord((lines, 2), 1, 2, payload=size, pieces=sectors), [frames])
    rows, covered = whole.read_ranges(Region.whole(whole.shape))
    at = np.arange(frames).reshape(-1, 1, 1) * size + np.arange(lines).reshape(-1, 1) * 3
    expected = np.concatenate([at, at + 2], axis=2).ravel()
    assert covered == frames * lines * 2
    np.testing.assert_array_equal(rows[:, START], expected)
    ends = np.minimum(np.arange(5, size * frames + 5, 5), size * frames)  # a file every five bytes
    parts = np.stack([np.concatenate([[0], ends[:-1]]), ends, np.zeros_like(ends), np.arange(len(ends))], axis=1)
    cut, again = replace(whole, stream=parts).read_ranges(Region.whole(whole.shape))
    assert again == covered
    np.testing.assert_array_equal(cut[:, FILE] * 5 + cut[:, START], expected)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60), st.integers(1, 9)), max_size=20), st.integers(1, 40))
def test_windows_group_what_lies_within_the_limit(rows: list[tuple[int, int, int]], limit: int) -> None:
    ranges = np.zeros((len(rows), COLUMNS), np.int64)
    for row, (file, start, size) in zip(ranges, rows, strict=True):
        row[[FILE, START, STOP]] = file, start, start + size
    expected: list[list[int]] = []
    for r, (file, a, size) in enumerate(rows):
        b = a + size
        if expected and expected[-1][0] == file and max(b, expected[-1][2]) - min(a, expected[-1][1]) <= limit:
            last = expected[-1]
            last[1:] = [min(a, last[1]), max(b, last[2]), last[3], r + 1, last[5] + size]
        else:
            expected.append([file, a, b, r, r + 1, size])
    assert windows(ranges, limit).tolist() == expected


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 100)), max_size=40))
def test_rows_by_file_keep_their_order_within_a_file(rows: list[tuple[int, int]]) -> None:
    table = np.zeros((len(rows), COLUMNS), np.int64)
    for row, (file, start) in zip(table, rows, strict=True):
        row[FILE], row[START], row[STOP] = file, start, start + 1
    assert by_file(table)[:, [FILE, START]].tolist() == [list(row) for row in sorted(rows, key=lambda row: row[0])]


@given(st.data())
def test_ranges_cut_at_edges_hold_the_same_elements(data: st.DataObject) -> None:
    """Words of 4 pixels in 8 bytes, in one or two files; tiles of any lengths."""
    n, width = data.draw(st.integers(1, 6)), data.draw(st.sampled_from([4, 8, 12]))
    layout = FrameLayout.of(FrameRecord((3, width), 8, 4, header=data.draw(st.sampled_from([0, 8]))), [n, n])
    start = [data.draw(st.integers(0, m - 1)) for m in layout.shape]
    stop = [data.draw(st.integers(a + 1, m)) for a, m in zip(start, layout.shape, strict=True)]
    region = Region.box(start, stop)
    rows, covered = layout.read_ranges(region)
    cuts = sorted(data.draw(st.sets(st.integers(1, region.size - 1), max_size=6))) if region.size > 1 else []
    edges = np.array([0, *cuts, region.size])
    parts, begins = at_edges(in_lines(rows, 0), edges, 8, 4)
    assert len(begins) == len(edges)
    assert (begins[0], begins[-1]) == (0, len(parts))
    found = {}
    for k, edge in enumerate(edges[:-1]):
        for at, place in places(parts[begins[k] : begins[k + 1]], 8, 4).items():
            assert 0 <= at < edges[k + 1] - edge
            found[int(edge) + at] = place
    assert found == places(rows, 8, 4)
    assert covered == len(found) == region.size


def test_edges_are_for_ranges_in_order() -> None:
    rows = np.zeros((2, COLUMNS), np.int64)
    rows[:, START], rows[:, STOP], rows[:, COUNT], rows[:, STEP], rows[:, DEST] = [0, 8], [8, 16], 4, 1, [4, 0]
    edges = np.array([0, 4, 8])
    assert len(at_edges(rows, edges, 8, 4)[1]) == 0  # the second tile first
    assert at_edges(rows[::-1].copy(), edges, 8, 4)[1].tolist() == [0, 1, 2]
    turned = rows[:1].copy()
    turned[0, [DEST, STEP]] = 5, -1  # 5, 4, 3, 2: across the edge, backwards
    assert len(at_edges(turned, edges, 8, 4)[1]) == 0
    turned[0, DEST] = 7
    assert at_edges(turned, edges, 8, 4)[1].tolist() == [0, 0, 1]
    lines = rows[:1].copy()
    lines[0, [STOP, COUNT, DEST, LINES, PITCH, NEXT]] = 8, 1, 2, 4, 2, 1  # 2, 3, 4, 5: across the edge
    assert len(at_edges(lines, edges, 2, 1)[1]) == 0
    lines[0, [DEST, NEXT]] = 7, -1  # 7, 6, 5, 4
    assert at_edges(lines, edges, 2, 1)[1].tolist() == [0, 0, 1]
    assert at_edges(lines, edges, 2, 1)[0][0, [DEST, LINES, PITCH, NEXT]].tolist() == [3, 4, 2, -1]
    assert len(at_edges(np.zeros((1, 16), np.int64), edges, 8, 4)[1]) == 0  # columns of its own: a decoder's business
