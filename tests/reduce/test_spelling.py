"""Reductions as text."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import vfs
from vfs.reduce.reduction import Reduction
from vfs.reduce.spelling import KINDS, read, read_all, read_call, spelled


@pytest.mark.parametrize(
    ("text", "reduction"),
    [
        ("disk(cy=128, cx=128, r=20)", vfs.Disk(128, 128, 20)),
        ("DISK(128,cx = 12.5,r=-2e1)", vfs.Disk(128, 12.5, -20.0)),
        ("Frame_Sum()", vfs.FrameSum()),
        ("mean", vfs.Mean()),
        (" sum( dtype=f8 ) ", vfs.Sum("f8")),
        ("std(dtype='f4')", vfs.Std("f4")),
        ("com", vfs.CenterOfMass()),
        ("center_of_mass(3, 4, r=None)", vfs.CenterOfMass(3, 4)),
        ("histogram(10, (0, 5))", vfs.Histogram(10, (0, 5))),
        ("histogram(bins=10, range=[0, 5])", vfs.Histogram(10, [0, 5])),
        ("radialsum(1, 2)", vfs.RadialSum(1, 2)),
        ("HAADF", vfs.HighAngleDarkField()),
    ],
)
def test_texts_are_reductions(text: str, reduction: Reduction) -> None:
    assert read_call(text) == reduction


def test_masks_name_their_file() -> None:
    for text in ("masks(a/b-1.npy)", "masks('a/b-1.npy')", 'masks(array="a/b-1.npy")'):
        made = read_call(text)
        assert isinstance(made, vfs.Masks)
        assert made.array == "a/b-1.npy"
    made = read_call("masks('a, (b.npy', dtype=f4)")
    assert isinstance(made, vfs.Masks)
    assert (made.array, made.dtype) == ("a, (b.npy", "f4")


def test_every_kind_is_read_as_it_is_spelled() -> None:
    given = [
        *(kind() for kind in (vfs.Sum, vfs.Mean, vfs.Std, vfs.Variance, vfs.Max, vfs.Min, vfs.FrameSum)),
        *(vfs.Disk(1, 2.5, 3), vfs.Ring(1, 2, np.float32(3), np.int64(4), "f4"), vfs.Rectangle(1, 2, 3, 4)),
        *(vfs.Point(1, 2), vfs.CenterOfMass(), vfs.CenterOfMass(1, 2, 3), vfs.RadialSum(1, 2, 3)),
        vfs.Histogram(3, (0, 1.5)),
        *(
            vfs.RadialMean(1, 2, ratio=1.5),
            vfs.Grid(3),
            vfs.Polygon((1, 2.5, 9), (4, 0, 7)),
            vfs.WithoutBackground("subtract", dynamic="divide", std=4.5),
        ),
        *(vfs.BrightField(), vfs.AnnularBrightField("f8"), vfs.AnnularDarkField(), vfs.HighAngleDarkField()),
    ]
    assert {type(one) for one in given} | {vfs.Masks} == set(KINDS.values())
    for one in given:
        assert spelled(read_call(spelled(one))) == spelled(one)
    assert spelled(vfs.Ring(1, 2, np.float32(3), np.int64(4), "f4")) == "ring(cy=1, cx=2, r0=3.0, r1=4, dtype=float32)"
    assert spelled(read_call("masks('m.npy')")) == "masks(array='m.npy')"
    assert spelled(vfs.Masks(np.ones((2, 3), bool))) == "masks(array=bool[2, 3])"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("disk", "'cy'; expected disk(cy, cx, r, dtype=None, masked=False)"),
        ("bright", "expected NAME=KIND("),
        ("disk(r=1)", "r=20)"),
        ("disc", "expected NAME=KIND(…), as in bf=disk(cy=128, cx=128, r=20) (did you mean disk?)"),
        ("bf=", "no kind ''; there are sum, mean"),
        ("bf=disc(1, 2, 3)", "no kind 'disc' (did you mean disk?); there are sum, mean"),
        ("m=Frame_Sums", "no kind 'Frame_Sums' (did you mean framesum?); there are"),
        ("bf=disk(1, 2)", "'r'; expected disk(cy, cx, r, dtype=None, masked=False)"),
        ("bf=disk(1, 2, 3, 4, 5)", "masked=5: expected true or false"),
        ("bf=disk(1, 2, 3, r=4)", "expected disk(cy, cx, r, dtype=None, masked=False)"),
        ("bf=disk(r=1, r=2)", "r is given twice"),
        ("bf=disk(1, 2, x=3)", "expected disk(cy, cx, r, dtype=None, masked=False)"),
        ("bf=disk(1, 2, 3", "does not end"),
        ("bf=disk(1, 2, 3))", "do not end"),
        ("bf=disk(1,, 3)", "empty argument"),
        ("bf=disk(1, 2, three)", "r=three: expected a number"),
        ("bf=disk(1, 2, '3')", "r='3': expected a number"),
        ("bf=disk(1, 2, True)", "r=True: expected a number"),
        ("bf=disk(1, 2, r=__import__('os'))", "expected a number"),
        ("bf=sum(dtype=zz)", "expected a dtype of numbers"),
        ("bf=sum(dtype='f4,,')", "expected a dtype of numbers"),
        ("bf=sum(dtype=1000000000000f8)", "expected a dtype of numbers"),
        ("bf=masks()", "expected masks(FILE.npy, dtype=None)"),
        ("a/b=sum", "'a/b': expected a name"),
        (".a=sum", "'.a': expected a name"),
        ("zarr.json=sum", "zarr uses this name for its own documents"),
        ("=sum", "expected NAME=KIND("),
    ],
)
def test_what_cannot_be_read_is_one_line_that_says_what_can(text: str, said: str) -> None:
    with pytest.raises(vfs.OptionError, match=re.escape(said)) as error:
        read(text)
    assert str(error.value).startswith(text)
    assert "\n" not in str(error.value)


def test_a_name_is_given_once() -> None:
    assert list(read_all(["b=sum", "a=mean"])) == ["b", "a"]
    with pytest.raises(vfs.OptionError, match=r"the name b is taken, by sum\(\)"):
        read_all(["b=sum", "a=mean", "b=mean"])


def test_masks_of_a_file_are_those_in_it(tmp_path: Path) -> None:
    file, frames = tmp_path / "m.npy", np.arange(24.0).reshape(2, 3, 4)
    mask = np.random.default_rng(1).random((3, 4))
    np.save(file, mask)
    np.save(tmp_path / "data.npy", frames)
    a = vfs.open(tmp_path / "data.npy")
    made = a.reduce(m=vfs.Masks(str(file)))["m"].data
    np.testing.assert_array_equal(made, a.reduce(m=vfs.Masks(mask))["m"].data)
    file.write_bytes(b"no array")
    with pytest.raises(vfs.OptionError, match=r"m\.npy: expected a \.npy file with a mask"):
        a.reduce(m=vfs.Masks(file))
