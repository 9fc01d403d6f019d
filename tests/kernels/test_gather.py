"""Placing elements: any step, either byte order, against a loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfs.decode import PlainDecoder
from vfs.kernels.ranges import COLUMNS, COUNT, DEST, START, STEP, STOP


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
