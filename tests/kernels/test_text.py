"""Cells of a table as text, against int()."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfs.kernels.text import BAD_CELL, OK, TOO_FEW, TOO_LARGE, TOO_MANY, parse_table


def parse(text: str, rows: int, columns: int) -> tuple[np.ndarray, int, int, int]:
    found: tuple[np.ndarray, int, int, int] = parse_table(np.frombuffer(text.encode(), np.uint8), rows, columns)
    return found


@given(st.data())
def test_numbers(data: st.DataObject) -> None:
    columns = data.draw(st.integers(1, 4))
    numbers = st.integers(-(2**63) + 1, 2**63 - 1)
    rows = data.draw(st.lists(st.lists(numbers, min_size=columns, max_size=columns), max_size=6))
    space = st.sampled_from(["", "", " ", "   "])
    lines = [",".join(f"{data.draw(space)}{n}{data.draw(space)}" for n in row) for row in rows]
    end = data.draw(st.sampled_from(["\n", "\r\n"]))
    text = end.join(lines) + (end if data.draw(st.booleans()) else "")
    table, wrong, _, _ = parse(text, len(rows), columns)
    assert wrong == OK
    assert table.tolist() == rows


@pytest.mark.parametrize(
    ("text", "wrong", "row", "column"),
    [
        ("1,2\n3\n", TOO_FEW, 1, 0),
        ("1,2\n3,4,5\n", TOO_MANY, 1, 1),
        ("1,2\n3,\n", BAD_CELL, 1, 1),
        ("1,2\n,4\n", BAD_CELL, 1, 0),
        ("1,2\n\n", BAD_CELL, 1, 0),
        ("1,2\n3,x\n", BAD_CELL, 1, 1),
        ("1,2\n3,4x\n", BAD_CELL, 1, 1),
        ("1,2\n3,+4\n", BAD_CELL, 1, 1),
        ("1,2\n3,-\n", BAD_CELL, 1, 1),
        ("1,2\n3,4\r5\n", BAD_CELL, 1, 1),
        ("1,2\n3,9223372036854775808\n", TOO_LARGE, 1, 1),
        ("1,2\n3,99999999999999999999999\n", TOO_LARGE, 1, 1),
        ("1,2\n3,9223372036854775807\n", OK, 0, 0),
    ],
)
def test_what_is_wrong_and_where(text: str, wrong: int, row: int, column: int) -> None:
    assert parse(text, 2, 2)[1:] == (wrong, row, column)
