"""`a.calibration`: what files say of axes, as values, and what is left of it when a scan is arranged anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from vfs.model.calibration import arranged, of_axes
from vfs.testing.gatan_writers import write_dm
from vfs.testing.writers import write_npy

STEP = {"scale": 0.5, "offset": 1.0, "unit": "nm"}
PIXEL = {"scale": 0.1, "offset": -0.4, "unit": "1/nm"}
SCAN = {"scan_y": STEP, "scan_x": {**STEP, "scale": 0.25}, "y": PIXEL, "x": PIXEL}
SERIES = {"frame": {"scale": 2.0, "offset": 10.0, "unit": "s"}, "x": PIXEL}
UNEVEN = {"frame": {"values": "energy", "unit": "eV"}}


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (None, {}),
        ({}, {}),
        ("0.5 nm", {}),
        ({"x": "0.5 nm", "y": {}, "gone": STEP}, {}),
        ({"x": STEP}, {"x": STEP}),
        ({"x": {**STEP, "name": "Number"}}, {"x": STEP}),
        ({"x": {"scale": np.float32(0.5), "unit": None}}, {"x": {"scale": 0.5, "offset": 0.0, "unit": ""}}),
        ({"x": {"unit": "eV"}}, {"x": {"scale": None, "offset": None, "unit": "eV"}}),
        ({"x": {"scale": 0, "offset": 3, "unit": "s"}}, {"x": {"scale": None, "offset": None, "unit": "s"}}),
        ({"x": {"scale": float("nan"), "unit": 5}}, {"x": {"scale": None, "offset": None, "unit": "5"}}),
        ({"x": {"scale": "wide"}}, {"x": {"scale": None, "offset": None, "unit": ""}}),
        ({"x": {"scale": 10**400}}, {"x": {"scale": None, "offset": None, "unit": ""}}),
        (
            {"x": {"values": "energy", "unit": "eV"}},
            {"x": {"scale": None, "offset": None, "unit": "eV", "values": "energy"}},
        ),
    ],
)
def test_every_axis_has_the_same_entries(said: Any, found: dict[str, Any]) -> None:
    assert of_axes(said, ("y", "x")) == found


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
    assert arranged(said, names, before, after, sync) == left


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
        for document in (array.store().get_sync("data/zarr.json"), array.store().get_sync("zarr.json")):
            assert (
                of_axes(json.loads(document.to_bytes())["attributes"]["vfs"]["calibration"], array.dims)
                == array.calibration
            )
    assert vfs.open(write_npy(tmp_path, np.zeros((4, 5)))).calibration == {}
