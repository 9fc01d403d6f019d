"""`a.calibration`: what files say of axes, as values, and what is left of it when a scan is arranged anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from vfs.model.calibration import for_scan, of_axes
from vfs.model.layout import Scan
from vfs.testing.gatan_writers import write_dm
from vfs.testing.writers import write_npy

STEP = {"scale": 0.5, "offset": 1.0, "unit": "nm"}
PIXEL = {"scale": 0.1, "offset": -0.4, "unit": "1/nm"}
SCAN = {"scan_y": STEP, "scan_x": {**STEP, "scale": 0.25}, "y": PIXEL, "x": PIXEL}
SERIES = {"frame": {"scale": 2.0, "offset": 10.0, "unit": "s"}, "x": PIXEL}
UNEVEN = {"frame": {"values": "energy", "unit": "eV"}}


def alone(**entries: Any) -> dict[str, Any]:
    """The calibration of one axis."""
    return {"x": {"scale": None, "offset": None, "unit": "", **entries}}


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (None, {}),
        ({}, {}),
        ("0.5 nm", {}),
        ({"x": "0.5 nm", "y": {}, "gone": STEP}, {}),
        ({"x": STEP}, {"x": STEP}),
        ({"x": {**STEP, "name": "Number"}}, {"x": STEP}),
        ({"x": {**STEP, "unit": "nanometers"}}, {"x": STEP}),
        ({"x": {"scale": np.float32(0.5), "unit": None}}, alone(scale=0.5, offset=0.0)),
        ({"x": {"scale": "0.5", "offset": " -2 ", "unit": "s"}}, alone(scale=0.5, offset=-2.0, unit="s")),
        ({"x": {"scale": -0.5, "unit": "nm"}}, alone(scale=-0.5, offset=0.0, unit="nm")),
        ({"x": {**STEP, "offset": float("inf")}}, {"x": {**STEP, "offset": 0.0}}),
        ({"x": {**STEP, "offset": "left"}}, {"x": {**STEP, "offset": 0.0}}),
        ({"x": {"unit": "eV"}}, alone(unit="eV")),
        ({"x": {"scale": 0, "offset": 3, "unit": "s"}}, alone(unit="s")),
        ({"x": {"scale": float("nan"), "unit": 5}}, {}),
        ({"x": {"scale": "wide"}}, {}),
        ({"x": {"scale": 10**400}}, {}),
        ({"x": {"scale": 1.4e-45, "unit": "nm"}}, alone(unit="nm")),
        ({"x": {"scale": -1e300, "unit": "?"}}, {}),
        ({"x": {"scale": 1, "offset": 0, "unit": "pixels"}}, {}),
        ({"x": {"scale": 1, "offset": -0.0, "unit": "<undefined>"}}, {}),
        ({"x": {"scale": 1, "offset": 0.5, "unit": "px"}}, alone(scale=1.0, offset=0.5, unit="px")),
        ({"x": {"scale": 1, "unit": "nm"}}, alone(scale=1.0, offset=0.0, unit="nm")),
        ({"x": {"scale": 4, "unit": "pixel"}}, alone(scale=4.0, offset=0.0, unit="px")),
        ({"x": {"values": "energy", "unit": "ev"}}, alone(unit="eV", values="energy")),
        ({"x": {"values": "energy"}}, alone(values="energy")),
    ],
)
def test_every_axis_has_the_same_entries(said: Any, found: dict[str, Any]) -> None:
    assert of_axes(said, ("y", "x")) == found
    assert of_axes(found, ("y", "x")) == found


@pytest.mark.parametrize(
    ("said", "before", "after", "sync", "left"),
    [
        (SCAN, (4, 6), (4, 6), 0, SCAN),
        (SCAN, (4, 6), (3, 6), 5, SCAN),
        (SCAN, (4, 6), (9, 6), -5, SCAN),
        (SCAN, (4, 6), (6, 4), 0, {"y": PIXEL, "x": PIXEL}),
        (SCAN, (4, 6), (24,), 0, {"y": PIXEL, "x": PIXEL}),
        (SCAN, (4, 6), (1, 4, 6), 0, {"y": PIXEL, "x": PIXEL}),
        (SCAN, (4, 6), None, 0, {"y": PIXEL, "x": PIXEL}),
        (SERIES, (9,), (7,), 0, SERIES),
        (SERIES, (9,), (9,), 3, {"frame": {"scale": 2.0, "offset": 16.0, "unit": "s"}, "x": PIXEL}),
        (SERIES, (9,), (9,), -1, {"frame": {"scale": 2.0, "offset": 8.0, "unit": "s"}, "x": PIXEL}),
        (SERIES, (9,), (3, 3), 0, {"x": PIXEL}),
        (SERIES, (9,), None, 0, {"x": PIXEL}),
        (UNEVEN, (9,), (9,), 0, UNEVEN),
        (UNEVEN, (9,), (8,), 0, {}),
        (UNEVEN, (9,), (9,), 1, {}),
        ({"x": PIXEL}, (9,), (9,), 1, {"x": PIXEL}),
    ],
)
def test_what_holds_after_frames_are_arranged(
    said: Any, before: tuple[int, ...], after: tuple[int, ...] | None, sync: int, left: Any
) -> None:
    names = ("scan_y", "scan_x") if len(before) == 2 else ("frame",)
    scan = Scan((1,), sync, np.zeros(1, np.int64)) if after is None else Scan(after, sync)
    assert for_scan(said, names, before, scan) == left


def test_arrays_and_their_attributes_say_the_same(tmp_path: Path) -> None:
    path = write_dm(tmp_path, np.zeros((12, 4, 5), "u2"), units=("1/nm", "1/nm", "s"))
    whole = vfs.open(path)
    assert list(whole.calibration) == ["frame", "y", "x"]
    later, scan, chosen = vfs.open(path, sync_offset=2), vfs.open(path, nav_shape=(3, 4)), vfs.open(path, roi=[1, 5])
    frame = whole.calibration["frame"]
    assert later.calibration["frame"] == {**frame, "offset": frame["offset"] + 2 * frame["scale"]}
    for array in (scan, chosen):
        assert array.calibration == {axis: whole.calibration[axis] for axis in ("y", "x")}
    for array in (whole, later, scan, chosen):
        assert array.attrs["calibration"] == array.calibration
        for document in (array.store().get_sync("data/zarr.json"), array.store().get_sync("zarr.json")):
            assert json.loads(document.to_bytes())["attributes"]["vfs"]["calibration"] == array.calibration
    assert vfs.open(write_npy(tmp_path, np.zeros((4, 5)))).calibration == {}
