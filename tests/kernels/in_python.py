"""Runs kernels in Python, then compiled, and compares the answers.

It is a process of its own, since numba must not be loaded before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.model.strategies import Case, cases, regions
from vfs import kernels
from vfs.kernels import deferred
from vfs.kernels.columns import COLUMNS
from vfs.model.layout import BlockLayout

often = settings(max_examples=100, deadline=None, database=None)

Asked = tuple[Callable[[], Any], Any]
"""A question to a kernel, and what Python answered."""

headers = st.builds(
    lambda fields, end, rest: (",".join(fields) + end + rest).encode("ascii").ljust(96, b"\0")[:96],
    st.lists(
        st.sampled_from(
            [
                "MQ1A",
                "2020-05-18T14:51:49.971626178Z",
                "2019-12-31 23:59:60.5",
                "2020-05-18T14:51:49",
                "2020-15-18T14:51:49",
                "555000ns",
                "0.000555",
                "5.55E-4",
                " 12e+1",
                "",
                "x",
                "1e999",
                ".",
            ]
        ),
        max_size=13,
    ),
    st.sampled_from([",", "\0", ",MQ1A,"]),
    st.sampled_from(["", ",MQ1A,2020-05-18T14:51:49.9Z,1ns", ",,,,"]),
)


def of_plans(asked: list[Asked]) -> Callable[[], None]:
    """Return what asks for read ranges of regions of any layout, and for windows of these ranges."""

    @often
    @given(cases, st.data())
    def ask(case: Case, data: st.DataObject) -> None:
        region, limit = data.draw(regions(case.twin.shape)), data.draw(st.sampled_from([0, 1, 7, 64, 1 << 19]))
        layout = case.dataset.layout
        note(asked, lambda: layout.read_ranges(region))
        note(asked, lambda: layout.read_ranges(region, 3))
        rows, _ = layout.read_ranges(region)
        ranges: Any = import_module("vfs.kernels.ranges")
        note(asked, lambda: ranges.by_file(rows.copy()))
        lines = ranges.in_lines(rows.copy(), limit)
        note(asked, lambda: ranges.in_lines(rows.copy(), limit))
        note(asked, lambda: ranges.windows(lines.copy(), limit))
        if isinstance(layout, BlockLayout):
            note(asked, lambda: kernels.blocks.first_overlap(layout.tree, layout.levels))

    return ask


def of_stamps(asked: list[Asked]) -> Callable[[], None]:
    """Return what reads times and exposures of headers, right and garbled ones."""

    @often
    @example([b"MQ1A,2020-05-18T14:51:49,1e999,".ljust(96, b"\0")])
    @example([b",MQ1A,2020-05-18T14:51:49,1e999,".ljust(96, b"\0")])
    @example([b",MQ1A,2020-05-18T14:51:49,1e-999,".ljust(96, b"\0")])
    @given(st.lists(headers, min_size=1, max_size=4))
    def ask(texts: list[bytes]) -> None:
        data = np.frombuffer(b"".join(texts), np.uint8)
        ranges = np.zeros((1, COLUMNS), np.int64)
        ranges[0, :9] = 0, 1000, 1000 + data.size, 0, 1, 0, len(texts), 0, 1

        def read(kernel: str, dtype: type) -> tuple[int, np.ndarray]:
            out = np.zeros(len(texts), dtype)
            return getattr(kernels.stamps, kernel)(ranges, data, 1000, 96, out), out

        note(asked, lambda: read("place_times", np.int64))
        note(asked, lambda: read("place_exposures", np.float64))

    return ask


def of_overflow(asked: list[Asked]) -> None:
    """Ask for windows of ranges that a garbled header made: numbers wrap as in C, without a word."""
    ranges: Any = import_module("vfs.kernels.ranges")
    rows = np.zeros((2, COLUMNS), np.int64)
    rows[:, 1], rows[:, 2], rows[:, 8] = [-(1 << 63), 5], [(1 << 63) - 1, 9], 1
    note(asked, lambda: ranges.windows(rows.copy(), 64))


def note(asked: list[Asked], question: Callable[[], Any]) -> None:
    asked.append((question, question()))


def main() -> None:
    kernels.PATIENCE, deferred.ROWS = float("inf"), sys.maxsize
    asked: list[Asked] = []
    of_plans(asked)()
    of_stamps(asked)()
    of_overflow(asked)
    assert "numba" not in sys.modules, "a kernel was compiled"
    import_module("vfs.kernels.compiled")
    for question, answer in asked:
        again = question()
        assert type(again) is type(answer) or not isinstance(answer, np.ndarray), (again, answer)
        pairs = zip(again, answer, strict=True) if isinstance(answer, tuple) else [(again, answer)]
        for compiled, python in pairs:
            np.testing.assert_array_equal(np.asarray(python), np.asarray(compiled))
    print(f"{len(asked)} answers")


if __name__ == "__main__":
    main()
