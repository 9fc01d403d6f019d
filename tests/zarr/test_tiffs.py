"""Whole sets as TIFF: tifffile reads the same numbers, and what ImageJ and OME say of axes, steps and channels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile

import vfs
from tests.cli.support import refused, run
from vfs.testing.writers import write_mib

CELLS = np.random.default_rng(0).poisson(90, (2, 3, 4, 10, 12)).astype(np.uint16)
COLOURS = {"DAPI": 0x0000FFFF, "GFP": 0x00FF00FF, "mCherry": 0xFF0000FF - (1 << 32)}


@pytest.fixture
def cells(tmp_path: Path) -> Path:
    said: dict[str, Any] = {"axes": "TCZYX", "Channel": {"Name": list(COLOURS), "Color": list(COLOURS.values())}}
    for letter, step in (("X", 0.1), ("Y", 0.2), ("Z", 0.5)):
        said |= {f"PhysicalSize{letter}": step, f"PhysicalSize{letter}Unit": "µm"}
    tifffile.imwrite(tmp_path / "cells.ome.tif", CELLS, photometric="minisblack", metadata=said)
    return tmp_path / "cells.ome.tif"


def test_a_hyperstack_of_imagej(cells: Path, tmp_path: Path) -> None:
    assert run("export", cells, tmp_path / "out.tif") == 0
    with tifffile.TiffFile(tmp_path / "out.tif") as file:
        about = file.imagej_metadata
        assert about is not None
        assert file.series[0].axes == "TZCYX"
        np.testing.assert_array_equal(file.series[0].asarray(), np.moveaxis(CELLS, 1, 2))
    assert (about["mode"], about["unit"], about["spacing"]) == ("composite", "um", 0.5)
    assert [table[:, -1].tolist() for table in about["LUTs"]] == [[0, 0, 255], [0, 255, 0], [255, 0, 0]]
    assert len(about["Ranges"]) == 6
    again = vfs.open(tmp_path / "out.tif")
    assert [again.calibration[dim]["scale"] for dim in "zyx"] == pytest.approx([0.5, 0.2, 0.1])


def test_an_ome_tiff_opens_as_what_it_was_made_of(cells: Path, tmp_path: Path) -> None:
    assert vfs.export(cells, tmp_path / "out.ome.tif") == (tmp_path / "out.ome.tif").stat().st_size
    before, after = vfs.open(cells), vfs.open(tmp_path / "out.ome.tif")
    assert after.dims == before.dims
    np.testing.assert_array_equal(after[...], CELLS)
    assert after.calibration == before.calibration
    assert after.metadata["channels"].value == before.metadata["channels"].value


def test_scans_and_colours(tmp_path: Path) -> None:
    frames = np.random.default_rng(1).integers(0, 9, (3, 4, 8, 16)).astype(np.uint16)
    write_mib(tmp_path, frames.reshape(-1, 8, 16), scan=(3, 4))
    vfs.export(tmp_path / "scan.hdr", tmp_path / "scan.tif")
    with tifffile.TiffFile(tmp_path / "scan.tif") as file:
        assert file.series[0].axes == "TZYX"
        np.testing.assert_array_equal(file.series[0].asarray(), frames[..., ::-1, :])  # the top row first
    photo = np.random.default_rng(2).integers(0, 255, (40, 50, 3)).astype(np.uint8)
    tifffile.imwrite(tmp_path / "photo.tif", photo, photometric="rgb")
    for name in ("out.tif", "out.ome.tif"):
        vfs.export(tmp_path / "photo.tif", tmp_path / name)
        np.testing.assert_array_equal(tifffile.imread(tmp_path / name), photo)


@pytest.mark.parametrize("colour", [False, True])
def test_large_images_have_their_pyramid(tmp_path: Path, colour: bool) -> None:
    values = np.random.default_rng(3).integers(0, 250, (2, 3, 1100, 540)).astype(np.uint8)
    values = np.ascontiguousarray(np.moveaxis(values[0], 0, -1)) if colour else values
    how: dict[str, Any] = {"photometric": "rgb"} if colour else {"metadata": {"axes": "ZCYX"}}
    tifffile.imwrite(tmp_path / "a.ome.tif", values, **how)
    vfs.export(tmp_path / "a.ome.tif", tmp_path / "out.ome.tif")
    with tifffile.TiffFile(tmp_path / "out.ome.tif") as file:
        levels = file.series[0].levels
        assert [level.shape for level in levels][:2] == (
            [(1100, 540, 3), (550, 270, 3)] if colour else [(2, 3, 1100, 540), (2, 3, 550, 270)]
        )
        full, half = (level.asarray() for level in levels[:2])
    np.testing.assert_array_equal(full, values)
    squares = values.astype(float).reshape(*((550, 2, 270, 2, 3) if colour else (2, 3, 550, 2, 270, 2)))
    np.testing.assert_allclose(half, squares.mean(axis=(1, 3) if colour else (3, 5)), atol=0.51)
    assert vfs.open(tmp_path / "out.ome.tif").shape == vfs.open(tmp_path / "a.ome.tif").shape


def test_what_no_tiff_holds_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(values: np.ndarray, *options: object, out: str = "out.tif") -> str:
        np.save(tmp_path / "a.npy", values)
        return refused(capsys, "export", tmp_path / "a.npy", tmp_path / out, *options)

    assert "expected uint8, uint16, float32 for ImageJ" in said(np.ones((3, 40, 50)))
    assert "expected real numbers, found complex64" in said(np.ones((3, 40, 50), "c8"), out="out.ome.tif")
    assert "expected pictures along at most three axes" in said(np.ones((2, 2, 2, 2, 40, 50), "u2"))
    assert "--shards has no effect" in said(np.ones((3, 40, 50), "u2"), "--shards", "none")
    assert not (tmp_path / "out.tif").exists()
    np.save(tmp_path / "a.npy", np.ones((3, 40, 50)))
    assert run("export", tmp_path / "a.npy", tmp_path / "out.tif", "--dtype", "f4") == 0
    capsys.readouterr()
    assert "exists" in said(np.ones((3, 40, 50), "u2"))
