"""Which array of a set opens first."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from tests.faces.support import array_of
from vfs.model.stored import StoredArray, main_of


def stored(path: str, size: int, main: bool | None = None, companion: bool = False) -> StoredArray:
    values = np.zeros((2, size), "u1")
    return array_of(values, path, companion=companion, said={"main": main}).dataset


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        ([stored("a", 2), stored("b", 3)], "b"),
        ([stored("a", 2), stored("b", 9, companion=True)], "a"),
        ([stored("a", 2, True), stored("b", 9), stored("c", 99, False)], "a"),
        ([stored("a", 2, True), stored("b", 3, True), stored("c", 9)], "b"),
        ([stored("a", 2), stored("b", 9, False)], "a"),
        ([stored("a", 9, False), stored("b", 2, True, companion=True)], None),
        ([], None),
    ],
)
def test_marks_go_before_sizes(arrays: list[StoredArray], expected: str | None) -> None:
    for order in permutations(arrays):
        found = main_of(order)
        assert (found.path if found else None) == expected


def test_of_equal_arrays_the_first_is_the_main_one() -> None:
    x, y = stored("x", 3), stored("y", 3)
    assert (main_of([x, y]), main_of([y, x])) == (x, y)
