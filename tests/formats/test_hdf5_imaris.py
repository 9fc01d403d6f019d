"""Imaris: data sets of times and channels are one array, cropped; smaller versions are levels, along z, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import vfs
from tests.formats.frame_checks import check_boxes, frames_of, opens_incomplete, same, warned
from tests.formats.hdf5_sets import h5py, write_ims
from vfs.page.tiles import levels_of, tile


@pytest.mark.parametrize(
    ("shape", "padded", "options"),
    [
        ((2, 3, 5, 6, 7), (8, 8, 8), {"chunks": (4, 8, 4), "compression": "gzip"}),
        ((2, 1, 5, 6, 7), (8, 8, 8), {"chunks": (4, 4, 8)}),
        ((1, 2, 1, 6, 7), (8, 8, 8), {"chunks": (4, 4, 4), "compression": "gzip", "shuffle": True}),
        ((1, 1, 1, 6, 7), (4, 8, 8), {}),
        ((1, 2, 3, 6, 7), (), {}),
    ],
)
def test_boxes(tmp_path: Path, shape: tuple[int, ...], padded: tuple[int, ...], options: Any) -> None:
    twin = frames_of(shape, "u2")
    path = write_ims(tmp_path / "a.ims", twin, padded=padded, **options)
    group = vfs.open_group(path)
    kept = [k for k, n in enumerate(shape) if n > 1]
    assert group.main.dims == tuple("tczyx"[k] for k in kept)
    check_boxes(path, twin.reshape([shape[k] for k in kept]), count=15)
    assert set(group) == {"data", "histogram"}
    counts = [[np.bincount(one.reshape(-1) & 255, minlength=256) for one in each] for each in twin]
    same(group["histogram"][...], np.array(counts, "u8").reshape(*(n for n in shape[:2] if n > 1), 256))


def test_what_is_said(tmp_path: Path) -> None:
    array = vfs.open(write_ims(tmp_path / "a.ims", frames_of((3, 2, 4, 6, 8), "u1")))
    said = {name: one.value for name, one in array.metadata.items()}
    assert (said["title"], said["time"]) == ("cells", "2018-05-10T10:30:00.000")
    assert said["objective.magnification"] == 63
    assert "notes" not in said
    first, second = said["channels"]
    assert first == {"name": "dye 0", "colour": "#ff8000", "window": (0, 255), "emission": pytest.approx(525e-9)}
    assert second["colour"] == "#0000ff"
    assert array.calibration == {
        "t": {"scale": 5.0, "offset": 0.0, "unit": "s"},
        "z": {"scale": 3.0, "offset": -0.5, "unit": "um"},
        "y": {"scale": 0.5, "offset": 0.25, "unit": "um"},
        "x": {"scale": 0.25, "offset": 10.125, "unit": "um"},
    }


def test_smaller_versions_are_levels_of_ome_zarr(tmp_path: Path) -> None:
    twin = frames_of((1, 2, 5, 12, 16), "u2")
    path = write_ims(tmp_path / "a.ims", twin, halved="yx zyx", padded=(8, 16, 16), chunks=(4, 8, 8))
    group = vfs.open_group(path)
    levels = [twin[0], twin[0, :, :, ::2, ::2], twin[0, :, ::2, ::4, ::4]]
    for path_of, level in zip(("data", "level_1/data", "level_2/data"), levels, strict=True):
        same(group[path_of][...], level)
    image = group._opened.tree.images["data"]
    assert image.computed == "", "nothing is computed"
    for shown, level in zip(image.levels, levels, strict=True):
        same(shown.read(), level)
    assert image.times == [(1, 1, 1), (1, 2, 2), (2, 4, 4)]
    (said,) = dict(zarr.open_group(group.store(face="ome"), mode="r").attrs)["ome"]["multiscales"]
    assert [one["coordinateTransformations"][0]["scale"][1:] for one in said["datasets"]] == [
        [3.0, 0.5, 0.25],
        [3.0, 1.0, 0.5],
        [6.0, 2.0, 1.0],
    ]


def test_the_page_shows_the_plane_of_a_level_with_fewer(tmp_path: Path) -> None:
    twin = frames_of((1, 1, 5, 12, 16), "u2")
    group = vfs.open_group(write_ims(tmp_path / "a.ims", twin, halved="zyx"))
    face = group._opened.tree.zarr(3)
    assert [one["times"] for one in levels_of(face, "data")] == [[1, 1], [2, 2]]
    for plane, at in ((0, 0), (2, 1), (4, 2)):
        found, _ = tile(face, "data", (plane,), 1, (1, 2, 6, 8))
        same(found, twin[0, 0, ::2, ::2, ::2][at, 1:6, 2:8])


def test_a_lost_data_set_is_blank(tmp_path: Path) -> None:
    twin = frames_of((2, 2, 3, 4, 5), "u2") | 1
    path = write_ims(tmp_path / "a.ims", twin)
    with h5py.File(path, "a") as file:
        del file["DataSet/ResolutionLevel 0/TimePoint 0/Channel 1"]
    twin[0, 1] = 0
    group = opens_incomplete(path, "2 times × 2 channels, found 3", counts={"frames_missing": 3}, kind=vfs.FormatError)
    same(group["data"][...], twin)


def test_data_sets_that_differ_stay_apart(tmp_path: Path) -> None:
    path = write_ims(tmp_path / "a.ims", frames_of((1, 2, 3, 4, 5), "u2"))
    with h5py.File(path, "a") as file:
        del (group := file["DataSet/ResolutionLevel 0/TimePoint 0/Channel 1"])["Data"]
        group["Data"] = np.zeros((3, 4, 6), "u2")
    assert "DataSet" in warned(path, "pieces of data stay apart: they differ in shape")._reader.dataset.path


@pytest.mark.parametrize("said", ["x", "-1", "0", "9" * 40, ""])
def test_sizes_that_are_none_are_those_of_the_data_sets(tmp_path: Path, said: str) -> None:
    twin = frames_of((1, 1, 3, 4, 5), "u2")
    path = write_ims(tmp_path / "a.ims", twin)
    with h5py.File(path, "a") as file:
        attrs = file["DataSet/ResolutionLevel 0/TimePoint 0/Channel 0"].attrs
        attrs["ImageSizeX"] = np.array([one.encode() for one in said] or [b""], "S1")
        file["DataSetInfo/Image"].attrs["ExtMax0"] = np.array([b"n", b"a", b"n"], "S1")
    array = vfs.open(path)
    same(array[...], twin[0, 0])
    assert "x" not in array.calibration
