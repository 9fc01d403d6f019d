"""Placing elements: any step, either byte order, against a loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfs.kernels.columns import COLUMNS, COUNT, DEST, START, STEP, STOP
from vfs.model.decode import PlainDecoder


@pytest.mark.parametrize("dtype", ["u1", "<u2", ">u2", "<f4", ">i8", "<c8", ">c16"])
@given(data=st.data())
def test_any_step_equals_a_loop(dtype: str, data: st.DataObject) -> None:
    stored = np.dtype(dtype)
    step = data.draw(st.sampled_from([1, -1, 2, -2, 5]))
    counts = data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=4))
    base, lead = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 3))
    values = np.arange(sum(counts) * 2).astype(stored)
    source = np.frombuffer(bytes(lead) + values.tobytes(), np.uint8)
    ranges = np.zeros((len(counts), COLUMNS), np.int64)
    out = np.full(sum(counts) * abs(step) + 1, 77, stored.newbyteorder("="))
    twin = out.copy()
    at, to = 0, 0
    for row, count in zip(ranges, counts, strict=True):
        first = to if step > 0 else to + (count - 1) * -step
        row[START], row[DEST], row[STEP], row[COUNT] = base + lead + at * stored.itemsize, first, step, count
        row[STOP] = row[START] + count * stored.itemsize
        for i in range(count):
            twin[first + i * step] = values[at + i]
        at += 2 * count
        to += count * abs(step)
    PlainDecoder(stored).decode(ranges, source, base, out)
    np.testing.assert_array_equal(out, twin)


# Each is compiled
@pytest.mark.parametrize(("dtype", "to"), [("u1", "f4"), (">u2", "f4"), ("<i2", "f4"), (">i4", "f4"), ("<u4", "f8")])
def test_floats_in_one_pass_are_what_numpy_makes_of_them(dtype: str, to: str) -> None:
    """Every place in a word, both directions; of 4 bytes also numbers that float32 has to round."""
    stored = np.dtype(dtype)
    decoder = PlainDecoder(stored)
    assert decoder.converts(np.dtype(to))
    rng = np.random.default_rng(3)
    low, high = np.iinfo(stored).min, np.iinfo(stored).max
    values = np.concatenate(
        [[low, high, 0, high // 2], rng.integers(low, high, 300, endpoint=True, dtype=stored.newbyteorder("="))]
    ).astype(stored)
    for lead in range(4):
        source = np.frombuffer(bytes(lead) + values.tobytes(), np.uint8)
        for step in (1, -1, 3):
            ranges = np.zeros((2, COLUMNS), np.int64)
            out = np.full(len(values) * 3, 77, to)
            twin = out.copy()
            for row, (a, b, first) in zip(ranges, ((0, 100, 200), (103, len(values), 500)), strict=True):
                first = first if abs(step) == 1 else a * 3
                at = first + np.arange(b - a) * step
                row[START], row[STOP] = 1000 + lead + a * stored.itemsize, 1000 + lead + b * stored.itemsize
                row[DEST], row[STEP], row[COUNT] = first, step, b - a
                twin[at] = values[a:b]
            decoder.decode(ranges, source, 1000, out)
            np.testing.assert_array_equal(out, twin)


@pytest.mark.parametrize(
    ("stored", "to"), [("<u8", "f8"), ("<f4", "f8"), ("u2", "u4"), ("u2", "f2"), ("u2", "c8"), ("?", "f4")]
)
def test_what_is_not_converted_in_one_pass(stored: str, to: str) -> None:
    assert not PlainDecoder(np.dtype(stored)).converts(np.dtype(to))
