"""Which files of a numbered series are not there."""

from __future__ import annotations

import pytest

from vfs.formats.series import Lost, between, in_front


@pytest.mark.parametrize(
    ("before", "after", "names"),
    [
        ("d/s001.x", "d/s004.x", ["d/s002.x", "d/s003.x"]),
        ("s8.x", "s11.X", ["s9.x", "s10.x"]),
        ("s099.x", "s101.x", ["s100.x"]),
        ("s98.x", "s100.x", ["s99.x"]),
        ("s1.x", "s2.x", []),
        ("s2.x", "s1.x", []),
        ("s1.x", "t3.x", []),
        ("s1.x", "s3.y", []),
        ("s.x", "s3.x", []),
    ],
)
def test_between(before: str, after: str, names: list[str]) -> None:
    assert between(before, after) == Lost(len(names), tuple(names))


def test_in_front_and_what_is_said() -> None:
    assert str(in_front("d/s004.x")) == "s001.x, s002.x and s003.x are missing"
    assert str(in_front("s2.x")) == "s1.x is missing"
    assert in_front("s.x") == in_front("s1.x") == Lost()
    many = between("s1.x", "s999999999999999999.x")
    assert (many.count, len(many.paths)) == (999999999999999997, 1000)
    assert str(many) == "s2.x, s3.x, s4.x, s5.x, … (999,999,999,999,999,997 files) are missing"
