"""Polygons as detectors and as selections, sums in the cells of a grid, means over rings and ellipses."""

from __future__ import annotations

import numpy as np
import pytest

import vfs

Y, X = (3.2, 8.0, 30.5, 21.0, 12.0), (4.0, 41.5, 30.0, 22.0, 44.0)  # edges cross


def crossings(y: int, x: int) -> int:
    """How many edges lie to the right of a pixel's centre."""
    ends = zip(Y, X, Y[1:] + Y[:1], X[1:] + X[:1], strict=True)
    return sum((y >= a) != (y >= b) and x < p + (y - a) * (q - p) / (b - a) for a, p, b, q in ends)


def test_a_polygon_is_a_detector_and_a_selection(array: vfs.VirtualArray, frames: np.ndarray) -> None:
    inside = np.array([[crossings(y, x) % 2 == 1 for x in range(50)] for y in range(40)])
    assert 0 < inside.sum() < inside.size
    found = array.reduce(p=vfs.Polygon(Y, X))["p"]
    np.testing.assert_array_equal(found.data, frames[:, inside].sum(axis=1).reshape(found.shape))
    triangle = vfs.Polygon(y=(-0.5, 9.5, 9.5), x=(-0.5, -0.5, 9.5)).inside(found.shape)
    np.testing.assert_array_equal(triangle[:10, :10], np.tril(np.ones((10, 10), bool), -1))
    part = array.reduce(m=vfs.Sum(), roi=triangle)["m"].data
    np.testing.assert_array_equal(part, frames[triangle.ravel()].sum(axis=0))


@pytest.mark.parametrize(
    ("y", "x", "said"),
    [
        ((1, 2), (3, 4), "expected y and x of three vertices or more, found 2 and 2"),
        ((1, 2, 3), (1, 2, 3, 4), "found 3 and 4"),
        (5, (1, 2, 3), "y=5: expected at most 4,096 numbers"),
        ((1, 2, "a"), (1, 2, 3), "y='a': expected a number of pixels"),
        ((60, 61, 62), (1, 9, 1), "has no pixel's centre inside"),
    ],
)
def test_what_is_no_polygon_is_a_line(array: vfs.VirtualArray, y: object, x: object, said: str) -> None:
    with pytest.raises(vfs.OptionError, match=said):
        array.reduce(p=vfs.Polygon(y, x))  # type: ignore[arg-type]


def test_a_grid_has_the_sum_of_each_cell(array: vfs.VirtualArray, frames: np.ndarray) -> None:
    found = array.reduce(grid=vfs.Grid(3, 7))
    edges = [[round(k * n / count) for k in range(count + 1)] for n, count in ((40, 3), (50, 7))]
    expected = np.add.reduceat(np.add.reduceat(frames.astype("u8"), edges[0][:-1], 1), edges[1][:-1], 2)
    np.testing.assert_array_equal(found["grid"].data.reshape(expected.shape), expected)
    assert found["grid"].dims[-2:] == ("row", "column")
    for rows, columns, said in ((41, 1, "a cell would have none"), (0, 2, "expected numbers of rows")):
        with pytest.raises(vfs.OptionError, match=said):
            array.reduce(grid=vfs.Grid(rows, columns))


def test_radial_means_over_ellipses(array: vfs.VirtualArray, frames: np.ndarray) -> None:
    found = array.reduce(r=vfs.RadialMean(19.3, 24.0, ratio=1.5, angle=30), few=vfs.RadialMean(19.3, 24.0, bins=4))
    turn = np.exp(1j * np.deg2rad(30))
    at = np.array([[(complex(x - 24.0, y - 19.3) / turn) for x in range(50)] for y in range(40)])
    ring = np.floor(np.hypot(at.real / 1.5, at.imag)).astype(int)
    means = [frames[:, ring == k].mean(axis=1) for k in range(ring.max() + 1)]
    np.testing.assert_allclose(found["r"].data.reshape(300, -1), np.stack(means, axis=1))
    circles = np.floor(np.hypot(*(np.mgrid[:40, :50] - np.array([19.3, 24.0])[:, None, None])))
    np.testing.assert_allclose(found["few"].data[0, 0], [frames[0][circles == k].mean() for k in range(4)])
    at_most = {"ratio": 1.5, "angle": 30, "r0": 4.3, "r1": 12.1}
    ranges = array.reduce(one=vfs.RadialMean(19.3, 24.0, 1, **at_most), some=vfs.RadialMean(19.3, 24.0, **at_most))
    far = np.hypot(at.real / 1.5, at.imag)
    between = (far >= 4.3) & (far < 12.1)
    np.testing.assert_allclose(ranges["one"].data.reshape(300), frames[:, between].mean(axis=1))
    assert ranges["one"].calibration["ring"] == pytest.approx({"scale": 7.8, "offset": 8.2, "unit": "px"})
    assert ranges["some"].data.shape[-1] == 8  # the last of which is narrower
    np.testing.assert_allclose(ranges["some"].data[0, 0, 7], frames[0][(far >= 11.3) & (far < 12.1)].mean())
    wrong = [({"ratio": 0.5}, "expected 1 or more"), ({"cx": None}, "expected both cy and cx")]
    for given, said in [*wrong, *(({"r0": r0, "r1": 5}, "expected 0 <= r0 < r1") for r0 in (5, -1))]:
        with pytest.raises(vfs.OptionError, match=said):
            array.reduce(r=vfs.RadialMean(**{"cy": 1, "cx": 2, **given}))
