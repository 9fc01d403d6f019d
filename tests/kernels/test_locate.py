"""Where frames lie: `FrameLayout.locate` beside a plain search, and mirrored frames beside numpy."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from vfs.kernels.columns import COUNT, DEST, START, STEP
from vfs.kernels.ranges import in_lines
from vfs.model.layout import FrameLayout, FrameRecord, Scan, mirrored, whole_frame
from vfs.model.region import Region


@st.composite
def layouts(draw: st.DrawFn) -> FrameLayout:
    """Frames of 6 bytes with headers and footers, in a stream with holes that are cut anywhere."""
    header, footer = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    stride, rows, at = header + 6 + footer, [], 0
    for file in range(draw(st.integers(0, 4))):
        start = at + draw(st.integers(0, 2 * stride))
        at = start + draw(st.integers(1, 4 * stride))
        rows.append((start, at, draw(st.integers(0, 50)), file))
    stream = np.array(rows, np.int64).reshape(-1, 4)
    layout = FrameLayout(
        (draw(st.integers(1, 30)),), (6,), stream, stride, header, draw(st.integers(0, 30)), 1, 1, whole_frame((6,))
    )
    layout = layout.arranged(Scan(sync_offset=draw(st.integers(-5, 5))))
    chosen = st.lists(st.integers(0, layout.nav_shape[0] - 1), min_size=1, max_size=9)
    for positions in draw(st.lists(chosen, max_size=1)):
        layout = layout.arranged(Scan(chosen=np.array(positions, np.int64)))
    return layout


def searched(layout: FrameLayout, position: int) -> list[int]:
    """What `locate` says of a position, found by looking at one row after the other."""
    frame = (position if layout.chosen is None else int(layout.chosen[position])) + layout.offset
    begin = frame * layout.stride + layout.header
    for start, stop, byte, file in layout.stream.tolist():
        if 0 <= frame < layout.stored and start <= begin < stop:
            return [file, begin - start + byte, stop - begin]
    return [-1, -1, 0]


@given(layouts(), st.data())
def test_every_position_lies_where_a_plain_search_finds_it(layout: FrameLayout, data: st.DataObject) -> None:
    n = layout.shape[0]
    positions = data.draw(st.lists(st.integers(0, n - 1), max_size=20))  # in any order, so that guesses are wrong too
    expected = [searched(layout, position) for position in positions]
    assert layout.locate(np.array(positions, np.int64)).tolist() == expected
    every = np.array([searched(layout, position)[0] >= 0 for position in range(n)])
    assert layout.valid(1).tolist() == every.tolist()
    assert layout.blanks(1) == n - every.sum()
    step = data.draw(st.integers(1, 3))
    assert layout.blank(Region((0, 0), (n, 6), (step, 1)), 1).tolist() == [[not there] for there in every[::step]]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.data())
def test_a_mirrored_frame_is_numpys(sig: list[int], data: st.DataObject) -> None:
    axis = data.draw(st.integers(0, len(sig) - 1))
    cut = data.draw(st.integers(0, sig[0]))  # two pieces, one above the other
    pieces = whole_frame(sig)
    if 0 < cut < sig[0]:
        pieces = np.repeat(pieces, 2, axis=0)
        pieces[:, len(sig)] = cut, sig[0] - cut
        pieces[1, 0], pieces[1, -2] = cut, cut * pieces[1, 2 * len(sig)]
    layout = FrameLayout.of(FrameRecord(sig, 1, pieces=mirrored(pieces, axis)), [1]).arranged(Scan(()))
    rows, covered = layout.read_ranges(Region.whole(sig))
    got = np.full(np.prod(sig), -1)
    for row in in_lines(rows, 0):
        got[row[DEST] + row[STEP] * np.arange(row[COUNT])] = row[START] + np.arange(row[COUNT])
    assert covered == got.size
    assert np.array_equal(got.reshape(sig), np.flip(np.arange(got.size).reshape(sig), axis))
