"""Another order of axes and another calibration: what is refused, what goes with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from vfs.engine.computed import ComputedBlocks
from vfs.model import calibration
from vfs.pictures.frames import FrameView
from vfs.sets.describing import describe
from vfs.testing.inside import reader_of, set_of
from vfs.testing.writers import write_mib, write_npy

NUMBERS = np.arange(3 * 4 * 5 * 6, dtype="<u2").reshape(3, 4, 5, 6)


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    """A scan of 3 x 4 positions, of which files say times, and that the bottom row of frames comes first."""
    return write_mib(tmp_path, NUMBERS.reshape(12, 5, 6), scan=(3, 4))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("y, x", "each axis once"),
        ("scan_y, scan_x | y | x", "each axis once"),
        ("scan_y, scan_x, y, y", "each axis once"),
        ("scan_y, scan_x, y, z", "names of axes"),
        ("scan_y, scan_x, =y, x", "a name before ="),
        ("scan_y, scan_x, x=y, x", "another name for each axis"),
        ("scan_y, scan_x, a/b=y, x", "a name before ="),
        ("--scan_y, scan_x, y, x", "names of axes"),
        ("", "each axis once"),
    ],
)
def test_an_order_that_is_none_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(vfs.errors.OptionError, match=rf"axes='{text[:4]}.*: expected .*{said}.*; the axes are .*y, x"):
        vfs.open(write_npy(tmp_path, NUMBERS), axes=text)


def test_frames_that_are_turned_are_read_where_they_are(scan: Path) -> None:
    shown = vfs.open(scan, axes="scan_y,scan_x,x,-y")
    assert not isinstance(reader_of(shown).dataset.decoder, ComputedBlocks)
    np.testing.assert_array_equal(shown[1, 2], NUMBERS[1, 2, ::-1].T)


def test_corrections_are_as_frames_are_stored(scan: Path) -> None:
    dark = np.arange(30, dtype="f4").reshape(5, 6)
    shown = vfs.open(scan, axes="scan_y,scan_x,x,-y", dark=dark)
    np.testing.assert_array_equal(shown[1, 2], (NUMBERS[1, 2] - dark)[::-1].T)


def test_arrays_beside_a_scan_are_turned_with_it(scan: Path) -> None:
    plain, shown = vfs.open(scan), vfs.open(scan, axes="-scan_x, lines=scan_y | y, x")
    times = shown.group["timestamp"]
    assert times.dims == ("scan_x", "lines")
    np.testing.assert_array_equal(times[...], plain.group["timestamp"][...][:, ::-1].T)
    np.testing.assert_array_equal(shown[...], NUMBERS[:, ::-1].transpose(1, 0, 2, 3))


def test_arrays_beside_a_scan_stay_where_it_is_no_scan_any_more(scan: Path) -> None:
    shown = vfs.open(scan, axes="y, x | scan_y, scan_x")
    assert shown.group["timestamp"].dims == ("scan_y", "scan_x")
    assert reader_of(shown).dataset.nav_ndim == 2
    total = shown.reduce(total=vfs.Sum())["total"].data
    np.testing.assert_array_equal(total, NUMBERS.sum((2, 3)))


def test_the_first_row_of_rows_that_are_turned_over(scan: Path) -> None:
    assert vfs.open(scan).attrs["rows"] == "bottom first"
    assert vfs.open(scan, axes="scan_y,scan_x,-y,x").attrs["rows"] == "top first"


@pytest.mark.parametrize(
    ("axes", "upward"),
    [
        ("scan_y, scan_x | y, x", True),
        ("scan_y, scan_x | -y, x", False),
        ("scan_y, scan_x | rows=y, columns=x", True),
        ("scan_y, scan_x | rows=-y, x", False),
        ("scan_y, scan_x | x, y", False),
        ("scan_y, scan_x | x, rows=y", False),
        ("y, x | scan_y, scan_x", False),
    ],
)
def test_pictures_are_upright_whatever_axes_are_called(scan: Path, axes: str, upward: bool) -> None:
    array = vfs.open(scan, axes=axes, derive={"mean": vfs.Mean(), "sums": vfs.FrameSum()})
    views = {path: FrameView.of(reader_of(one)) for path, one in array.group.items()}
    assert views["data"].upward == upward
    assert views["derived/mean"].upward == upward  # an image of the detector, as its frames
    assert not views["derived/sums"].upward
    assert array.reduce(mean=vfs.Mean())["mean"].upward == upward


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("y=5.3nm", {"scale": 5.3, "offset": 0.0, "unit": "nm"}),
        (["y = -0.5 eV from -20"], {"scale": -0.5, "offset": -20.0, "unit": "eV"}),
        ({"y": "2e-3 1/Å"}, {"scale": 0.002, "offset": 0.0, "unit": "1/angstrom"}),
        ({"y": {"scale": 2, "unit": "mrad", "offset": 1}}, {"scale": 2.0, "offset": 1.0, "unit": "mrad"}),
        ("y=2", {"scale": 2.0, "offset": 0.0, "unit": ""}),
    ],
)
def test_a_calibration_that_is_given(tmp_path: Path, given: Any, found: dict[str, Any]) -> None:
    assert vfs.open(write_npy(tmp_path, NUMBERS), calibration=given).calibration == {"y": found}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("y", "expected an axis"),
        ("q=1nm", "no axis is called 'q'; there are .*y, x"),
        ("y=0nm", "a number other than 0"),
        ("y=1e300nm", "a number other than 0"),
        ("y=nm", "expected a step"),
        ("y=0.1eV@-1eV", "expected a unit, found '@' in it; the position of element 0 follows `from`"),
        ("y=1.2.3 nm", "a number other than 0"),
        ({"y": {"unit": "nm"}}, "expected a step"),
        ({"y": {"scale": 1, "width": 2}}, "expected a step"),
        ({"y": {"scale": float("nan")}}, "a number other than 0"),
        ({"y": {"scale": 1, "unit": "n" * 41}}, "at most 40"),
        ({"y": {"scale": 1, "unit": 7}}, "at most 40"),
        ({3: "1 nm"}, "expected an axis"),
        ("y=1" + " " * 500 + "nm", "expected a step"),
        (7, "expected an axis"),
    ],
)
def test_a_calibration_that_is_none_is_refused(tmp_path: Path, given: Any, said: str) -> None:
    with pytest.raises(vfs.errors.OptionError, match=said) as error:
        vfs.open(write_npy(tmp_path, NUMBERS), calibration=given)
    assert len(str(error.value)) < 300


def test_positions_follow_an_axis_that_is_turned_over(tmp_path: Path) -> None:
    path = write_npy(tmp_path, NUMBERS)
    inner = tmp_path / "inner.vfs.json"
    inner.write_text(
        json.dumps(
            {
                "vfs": 1,
                "dtype": "<u2",
                "shape": [3, 4, 5, 6],
                "dims": ["scan_y", "scan_x", "y", "x"],
                "files": [path.name],
                "frames": {"first": 128},
                "attributes": {"calibration": {"x": {"scale": 0.5, "offset": 1, "unit": "nm"}, "y": {"values": "v"}}},
            }
        )
    )
    shown = vfs.open(inner, axes="scan_y, scan_x, -y, k=-x")
    assert shown.calibration == {"k": {"scale": -0.5, "offset": 3.5, "unit": "nm"}}


def test_a_description_records_both(scan: Path, tmp_path: Path) -> None:
    options = {"axes": "scan_x, scan_y | x, y", "calibration": "scan_x=5.3nm"}
    made = describe(set_of(vfs.open(scan, **options).group), tmp_path)
    assert made["options"] == {
        "axes": "scan_x, scan_y | x, y",
        "calibration": {"scan_x": {"scale": 5.3, "offset": 0.0, "unit": "nm"}},
    }
    (tmp_path / "kept.vfs.json").write_text(json.dumps(made))
    again = vfs.open(tmp_path / "kept.vfs.json")
    assert again.dims == ("scan_x", "scan_y", "x", "y")
    assert calibration.asked(options["calibration"]).items() <= again.calibration.items()
    np.testing.assert_array_equal(again[...], NUMBERS.transpose(1, 0, 3, 2))
