"""Kernels for 64-bit words of pixels against twins of a few lines: every skip, count, step and place within a word."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfs.kernels.columns import COUNT, DEST, LINES, NEXT, PITCH, PLANE, SKIP, START, STEP, STOP
from vfs.kernels.unpack import place_bits, place_halves, place_lanes

KERNELS = {1: place_bits, 6: place_lanes, 12: place_lanes, 24: place_halves}
LANES = {1: 64, 6: 8, 12: 4, 24: 4}
DTYPES = {1: np.uint8, 6: np.uint8, 12: np.uint16, 24: np.uint32}


def pixels(stored: np.ndarray, depth: int) -> np.ndarray:
    """uint8[8 * n] -> the pixels of n words."""
    words = stored.view(">u8").astype("<u8").view(np.uint8)
    return np.unpackbits(words, bitorder="little") if depth == 1 else words.view(np.uint8 if depth == 6 else "<u2")


def twin(ranges: np.ndarray, data: np.ndarray, base: int, out: np.ndarray, depth: int) -> None:
    for row in ranges:
        words = -(-(row[SKIP] + row[COUNT]) // LANES[depth])
        for line in range(row[LINES]):
            a = row[START] - base + line * row[PITCH]
            found = pixels(data[a : a + 8 * words], depth)[row[SKIP] : row[SKIP] + row[COUNT]]
            places = row[DEST] + line * row[NEXT] + row[STEP] * np.arange(row[COUNT])
            if row[PLANE] == 1:
                out[places] += found
            elif depth == 24:
                out[places] = found.astype(np.uint32) << 12
            else:
                out[places] = found


PLACES = 40_000
"""Elements of the output that each range of a case has for itself."""


@st.composite
def cases(draw: st.DrawFn) -> tuple[int, np.ndarray, int]:
    """(depth, ranges, base); some ranges are short, some hold many whole words, in either
    direction, some several lines, which may lie interleaved.
    """
    depth = draw(st.sampled_from([1, 6, 12, 24]))
    base = draw(st.integers(0, 20))
    rows: list[list[int]] = []
    pitch = 8 * draw(st.integers(1, 60)) + draw(st.sampled_from([0, 0, 3]))
    for n in range(draw(st.integers(1, 5))):
        skip = draw(st.integers(0, LANES[depth] - 1))
        count = draw(st.integers(1, draw(st.sampled_from([3, LANES[depth] * 3, LANES[depth] * 40]))))
        step = draw(st.sampled_from([1, 1, -1, -1, 2, -3]))
        after = (3 * count + draw(st.integers(0, 3))) * draw(st.sampled_from([1, -1]))
        start = base + draw(st.integers(0, 30 if n == 0 else 700))
        words = -(-(skip + count) // LANES[depth])
        lines = draw(st.integers(1, 4)) if 8 * words <= pitch else 1
        low = min(0, (lines - 1) * after) + min(0, step * (count - 1))
        dest = n * PLACES - low + draw(st.integers(0, 40))
        stop = start + 8 * words + (lines - 1) * pitch
        plane = draw(st.integers(0, 1)) if depth == 24 else 0
        rows.append([0, start, stop, dest, step, skip, count, plane, lines, *((pitch, after) if lines > 1 else (0, 0))])
    return depth, np.array(rows, np.int64), base


@given(cases())
def test_any_range_equals_its_twin(case: tuple[int, np.ndarray, int]) -> None:
    depth, ranges, base = case
    size = int(ranges[:, STOP].max()) - base
    data = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
    out = np.full(len(ranges) * PLACES, 7, DTYPES[depth])
    expected = out.copy()
    twin(ranges, data, base, expected, depth)
    KERNELS[depth](ranges, data, base, out)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("depth", [1, 6, 12, 24])
@pytest.mark.parametrize("step", [1, -1])
def test_long_ranges_leave_their_neighbours_alone(depth: int, step: int) -> None:
    count = LANES[depth] * 100 + 3
    data = np.random.default_rng(depth).integers(0, 256, 8 * 101 + 5, dtype=np.uint8)
    data.flags.writeable = False  # as a map of a file is
    for at in range(8):
        out = np.zeros(count + 16, DTYPES[depth])
        dest = at if step == 1 else at + count - 1
        ranges = np.array([[0, 105, 105 + 8 * 101, dest, step, 0, count, 0, 1, 0, 0]])
        KERNELS[depth](ranges, data, 100, out)
        expected = np.zeros_like(out)
        twin(ranges, data, 100, expected, depth)
        np.testing.assert_array_equal(out, expected)
        assert not out[:at].any()
        assert not out[at + count :].any()


def test_words_by_hand() -> None:
    """One word of every depth, written out."""
    data = np.frombuffer(bytes([0x80, 0, 0, 0, 0, 0, 0, 0x05]), np.uint8)
    row = np.array([[0, 0, 8, 0, 1, 0, 64, 0, 1, 0, 0]])
    bits = np.zeros(64, np.uint8)
    place_bits(row, data, 0, bits)
    assert np.flatnonzero(bits).tolist() == [0, 2, 63]

    data = np.arange(1, 9, dtype=np.uint8)
    row[0, COUNT] = 8
    lanes = np.zeros(8, np.uint8)
    place_lanes(row, data, 0, lanes)
    assert lanes.tolist() == [8, 7, 6, 5, 4, 3, 2, 1]

    row[0, COUNT] = 4
    wide = np.zeros(4, np.uint16)
    place_lanes(row, data, 0, wide)
    assert wide.tolist() == [0x0708, 0x0506, 0x0304, 0x0102]

    data = np.array([0, 0, 0, 0, 0, 0, 0x0A, 0xBC, 0, 0, 0, 0, 0, 0, 0x01, 0x23], np.uint8)
    both = np.array([[0, 0, 8, 0, 1, 0, 4, 0, 1, 0, 0], [0, 8, 16, 0, 1, 0, 4, 1, 1, 0, 0]])
    sums = np.full(4, 9, np.uint32)
    place_halves(both, data, 0, sums)
    assert sums.tolist() == [0xABC123, 0, 0, 0]
