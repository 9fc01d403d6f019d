"""What is refused: each in one line that says what is possible."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.reduce.twins import FrameMean
from vfs.testing.writers import write_npy


@pytest.mark.parametrize(
    ("reduction", "message"),
    [
        (
            vfs.Disk(200, 200, 5),
            r"^x: Disk\(cy=200, cx=200, r=5, dtype=None, masked=False\) has no pixel's centre inside; frames have"
            r" pixels from 0, 0 to 39, 49",
        ),
        (vfs.Disk(5, 5, -5), "has no pixel's centre inside"),
        (vfs.Disk("5", 5, None), "r=None: expected a number of pixels"),  # type: ignore[arg-type]
        (vfs.Disk(5, float("nan"), 5), "cx=nan: expected a number of pixels"),
        (vfs.Ring(5, 5, 5, 5), "has no pixel's centre inside"),
        (vfs.Rectangle(5, 5, 5, 9), "has no pixel's centre inside"),
        (vfs.Point(40, 0), "has no pixel's centre inside"),
        (
            vfs.Masks(np.ones((3, 50, 40))),
            r"array is float64\[3, 50, 40\], expected numbers or bool of shape \[40, 50\], or a stack of such masks",
        ),
        (vfs.Masks(np.ones((0, 40, 50))), r"array is float64\[0, 40, 50\]"),
        (vfs.Masks("gone.npy"), r"gone\.npy: no such file"),
        (vfs.Masks([[1, 2], [3]]), r"array is object\[\]"),
        (vfs.Masks(np.ones((40, 50)) * 0.5, dtype="i4"), "dtype='i4': expected float64, float32 or float16"),
        (vfs.CenterOfMass(5), "expected both cy and cx, or neither"),
        (vfs.CenterOfMass(r=5), "expected both cy and cx, or neither; r needs them"),
        (vfs.CenterOfMass(5, 500, 5), "has no pixel's centre inside"),
        (vfs.Disk(10**400, 5, 5), r"cy=10+: expected a number of pixels"),
        (vfs.Ring(5, 5, 1, float("inf")), "r1=inf: expected a number of pixels"),
        (vfs.Masks(np.ones((40, 50)) * 1j, dtype="f8"), "dtype='f8': expected complex128 or complex64"),
        (vfs.RadialSum(5, 5, True), "bins=True: expected 1 to 1,048,576 rings"),
        (vfs.Histogram(9, (1e16, 1e16 + 4)), "expected bins that float64 can tell apart"),
        (vfs.Histogram(9, (-1e308, 1e308)), "expected bins that float64 can tell apart"),
        (vfs.Max(dtype="u2"), "dtype='u2': expected float64, float32 or float16"),
        (vfs.Reduction(), "Reduction names no buffers: a Reduction needs the methods `buffers` and `process`"),
        (vfs.RadialSum(5, 5, 1 << 21), "bins=2097152: expected 1 to 1,048,576 rings"),
        (vfs.RadialSum(5, 5, 2.5), "bins=2.5: expected 1 to 1,048,576 rings"),  # type: ignore[arg-type]
        (vfs.RadialSum(-50, 5, 3), "has no pixel's centre inside"),
        (vfs.Histogram(0, (0, 1)), "bins=0: expected 1 to 16,777,216 bins"),
        (vfs.Histogram(4, (1, 1)), r"range=\(1, 1\): expected the lowest and the highest value"),
        (vfs.Histogram(4, 7), "range=7: expected the lowest"),  # type: ignore[arg-type]
        (
            vfs.Sum(dtype="i2"),
            "dtype='i2': expected float64, float32, float16 or uint64, in which uint16 pixels are added up exactly",
        ),
        (vfs.Mean(dtype="u8"), "dtype='u8': expected float64"),
        (vfs.Sum(dtype="nonsense"), "dtype='nonsense': expected float64"),
        (vfs.Sum(dtype="f4,,"), "dtype='f4,,': expected float64"),
        (vfs.Max(dtype="1000000000000f8"), "dtype='1000000000000f8': expected float64"),
        (vfs.Sum, r"^x=Sum: is a class; Sum\(…\) is a reduction"),
        ("sum", "^x='sum': expected a reduction: vfs.Sum, "),
    ],
)
def test_what_does_not_fit_is_said_in_a_line(array: vfs.VirtualArray, reduction: Any, message: str) -> None:
    with pytest.raises(vfs.OptionError, match=message) as caught:
        array.reduce(x=reduction)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"expected at least one reduction: a\.reduce\(total=vfs\.Sum\(\)\)"),
        ({"x": vfs.Sum(), "roi": np.ones((3, 3), bool)}, r"roi has shape \(3, 3\), the scan has \(15, 20\)"),
        ({"x": vfs.Sum(), "roi": [300]}, "roi selects 1 positions from 300 to 300"),
        ({"x": vfs.Sum(), "roi": []}, "roi"),
        ({"x": vfs.Sum(), "workers": "2"}, "workers='2'"),
        ({"x": vfs.Sum(), "workers": np.bool_(True)}, "workers=(np.)?True"),
        ({"x": vfs.Sum(), "workers": -1}, "workers=-1: expected a number of threads, 0 for none"),
        (
            {"x": vfs.Sum(), "progress": vfs.Sum()},
            r"progress=Sum\(dtype=None, over=\(\), skipna=False\): expected a function",
        ),
        ({"roi": vfs.Sum()}, r"roi is object\[\]"),
    ],
)
def test_options_that_do_not_fit(array: vfs.VirtualArray, options: dict[str, Any], message: str) -> None:
    with pytest.raises(vfs.OptionError, match=message):
        array.reduce(**options)
    with pytest.raises(vfs.OptionError, match=message):
        array.reduce_partial(**options)  # before anything is taken from it


@pytest.mark.parametrize("parts", [0, -1, 1.5, True])
def test_parts_that_do_not_fit(array: vfs.VirtualArray, parts: Any) -> None:
    with pytest.raises(vfs.OptionError, match="expected how many times results are given"):
        array.reduce_partial(x=vfs.Sum(), parts=parts)


def test_results_larger_than_memory(array: vfs.VirtualArray) -> None:
    class Huge(FrameMean):
        def __init__(self, *extra: int) -> None:
            self.extra = extra

        def buffers(self, frames: Any) -> Mapping[str, Any]:
            return {"x": ("nav", np.float64, self.extra)}

    for extra in ((1 << 50,), (1 << 40, 1 << 40)):
        with pytest.raises(vfs.OptionError, match=r"^x: no memory for x, .*float64.*\[300, ") as caught:
            array.reduce(x=Huge(*extra))
        assert "\n" not in str(caught.value)


def test_complex_pixels(tmp_path: Path) -> None:
    array = vfs.open(write_npy(tmp_path, np.ones((3, 4, 5), "c8")))
    for reduction in (vfs.Max(), vfs.CenterOfMass(), vfs.Histogram(2, (0, 1))):
        with pytest.raises(
            vfs.OptionError, match="frames are complex64, expected real pixels; complex ones are for Sum"
        ):
            array.reduce(x=reduction)
    for reduction in (vfs.Sum("f8"), vfs.Mean("f8"), vfs.Disk(1, 1, 2, "u8"), vfs.Masks(np.ones((4, 5)), "f8")):
        with pytest.raises(vfs.OptionError, match="expected complex128 or complex64"):
            array.reduce(x=reduction)

    class Total(vfs.Reduction):
        kind = "sig"

        def buffers(self, frames: Any) -> Mapping[str, Any]:
            return {"x": ("sig", frames.dtype, ())}

        def process(self, tile: np.ndarray, region: vfs.Region, buffers: Mapping[str, np.ndarray]) -> None:
            buffers["x"][...] += tile.sum(axis=0)

    assert (array.reduce(x=Total(), workers=2)["x"].data == 3).all()


def test_frames_of_no_pixels(tmp_path: Path) -> None:
    with pytest.raises(vfs.OptionError, match=r"frames of shape \[0, 5\]: there is nothing in them"):
        vfs.open(write_npy(tmp_path, np.zeros((3, 0, 5), "u2"))).reduce(x=vfs.Sum())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "frames"}, "x: Odd.kind is 'frames', expected one of nav, sig, single"),
        (
            {"buffers": lambda self, frames: {"a": ("nav", "f8")}},
            r"x: buffer a is \('nav', 'f8'\), expected \(kind, dtype, extra shape\)",
        ),
        ({"buffers": lambda self, frames: {"a": ("nav", "f8", 2)}}, r"x: buffer a is \('nav', 'f8', 2\), expected"),
        ({"buffers": lambda self, frames: {"a": ("nav", "f9", ())}}, r"x: buffer a is \('nav', 'f9', \(\)\), expected"),
        ({"buffers": lambda self, frames: None}, "x: Odd.buffers returned None, expected name -> buffer"),
        (
            {"buffers": lambda self, frames: {"a": ("nav", "f8", ()), "b": ("nav", "f8", ())}},
            "Odd has the buffers a, b: its `finish` must say what the result is",
        ),
        ({"finish": lambda self, buffers: np.zeros(4)}, r"x: the result has shape \(4,\), expected \[300, …\]"),
        (
            {"kind": "sig", "finish": lambda self, buffers: None},
            r"x: the result has shape \(\), expected \[40, 50, …\]: one for each pixel of a frame",
        ),
    ],
)
def test_reductions_that_contradict_themselves(array: vfs.VirtualArray, change: dict[str, Any], message: str) -> None:
    with pytest.raises(vfs.OptionError, match=message):
        array.reduce(x=type("Odd", (FrameMean,), {"process": lambda *_: None, **change})())
