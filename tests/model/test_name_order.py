"""The order of files by the numbers in their names, and by the signs that belong to these."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfs.model.name_order import in_doubt, in_order, natural


def names(pattern: str, *numbers: object) -> list[str]:
    return [pattern.format(number) for number in numbers]


@pytest.mark.parametrize(
    "ordered",
    [
        names("tilt_{}.tif", -20, -10, 0, 10, 20),
        names("tilt_{:+}.tif", -20, -10, 0, 10, 20),
        names("tilt_{:+04}.tif", -100, -20, 0, 10, 20),
        names("tilt{}.tif", -20, -10, 0, 10, 20),
        names("tilt_{}.tif", -20, -10, -3),  # the second separator is a minus
        names("{}.tif", -20, -10, -3),
        names("/a-1/b_{}.tif", -2, -1, 1),
        names("tilt_{}.tif", "n20", "n10", "0", "p10", "p20"),
        names("tilt_{}.tif", "m20", "m10", "0", "10"),
        names("tilt{}deg.tif", "N20", "N10", "P0", "P10"),
        names("tilt_{}.tif", "minus20", "minus3", "plus3", "plus20"),
        names("tilt_{}.tif", "neg20", "neg3", "3", "20"),
        names("tilt_{}.tif", "\u221220", "\u22123", "3", "20"),
        names("tilt_{}.tif", "\u201320", "\u20133", "3", "20"),
        # Decimals behind a letter or a comma, and powers of ten
        names("tilt_{}.tif", "n1p5", "n0p5", "n0p25", "p0p25", "p0p5", "p10p5"),
        names("tilt_{}deg.tif", "m10P50", "m9P25", "0P00", "10P50"),
        names("defocus_{}um.tif", "-1,5", "-1,25", "-0,5", "0,25", "0,5"),
        names("dose_{}.npy", "1e-3", "5e-3", "1e-2", "2e+1"),
        names("f_{:.1e}.mrc", -1e-6, -5e-7, 0, 2.5e-7, 5e-7, 1),
        names("tilt_{}.tif", "-1.5", "-1.25", "-1", "-0.5", "0", "0.5", "1.25", "1.5"),
        names("tilt_{}_a.tif", "-1.5", "-1.10", "-1.05"),
        names("dose_{}.npy", "0.25", "0.5", "0.75"),
        names("dose_{}.npy", "1", "1.25", "1.5", "2", "10"),
        names("a_{}.tif", "-1_b-2", "-1_b1", "0_b-2", "0_b1"),
        ["IMG_01.tif", "img_02.tif", "Img_3.TIF", "IMG_10.tif"],
        ["Tilt_-10.tif", "tilt_-2.tif", "TILT_0.tif", "tilt_+3.tif"],
        ["a_1.tif", "B_1.tif", "b_2.tif", "C_1.tif"],
        # None of these is a sign, or decimals
        names("run-{}.tif", 1, 2, 10),
        names("2020-01-{:02}.tif", 1, 2, 10),
        names("n{}.tif", 1, 2, 10),
        names("t{}-9.tif", 1, 2, 10),
        names("img_1-{}.tif", 1, 2, 10),
        names("set1.{}.tif", *range(1, 13)),
        names("1.2.{}.tif", 1, 3, 20),
        names("plate_{}.tif", "M1", "M2", "N1", "N2", "O1", "P1"),
        names("plate_{}.tif", "A1", "N1", "P1"),
        names("a.dm3-{}", 1, 2, 10),
        names("run{}.tif", "1p1", "1p2", "2p1", "2p10"),
        names("set{}.tif", "1e1", "1e2", "1e10"),
        names("x{}.tif", "1,1", "1,2", "1,10"),
    ],
)
def test_order(ordered: list[str]) -> None:
    mixed = random.Random(1).sample(ordered, len(ordered))
    assert in_order(mixed) == ordered


@pytest.mark.parametrize(
    ("given", "doubt"),
    [
        (names("tilt_{}.tif", -10, 0, 10), True),
        (names("tilt_{}.tif", -20, -10), True),
        (names("tilt-{}.tif", 10, 20), True),  # may be negative angles
        (names("run-{:03}.tif", 1, 2), False),
        (names("2020-01-{}.tif", 1, 2), False),
        (names("a_{}.tif", 1, 10, 2), True),  # as a shell sorts them
        (names("a_{}.tif", 1, 2, 10), False),
        (names("v1.{}.tif", 9, 10), True),
        (names("v1.{}.tif", 1, 2), False),
        (["a.tif"], False),
        ([], False),
    ],
)
def test_doubt(given: Sequence[str], doubt: bool) -> None:
    assert in_doubt(given) == doubt


@given(st.lists(st.text("-+.01npx_", max_size=8), max_size=6))
def test_any_names_have_one_order(found: list[str]) -> None:
    ordered = in_order(found)
    assert sorted(ordered) == sorted(found)
    assert in_order(found[::-1]) == ordered


@given(st.lists(st.tuples(st.integers(-30, 30), st.integers(0, 99)), min_size=1, max_size=8, unique=True))
def test_numbers_with_signs_and_decimals_are_numbers(numbers: list[tuple[int, int]]) -> None:
    texts = {
        f"{whole}.{part:02}": Fraction(whole) + Fraction(part if whole >= 0 else -part, 100) for whole, part in numbers
    }
    ordered = in_order([f"tilt_{text}.tif" for text in texts])
    assert [texts[name[5:-4]] for name in ordered] == sorted(texts.values())


def test_without_signs_the_order_is_the_natural_one() -> None:
    found = ["b2_10", "b2_9", "b10_1", "B1", "a", "x1y2z3", "x1y10z1"]
    assert in_order(found) == sorted(found, key=natural)
