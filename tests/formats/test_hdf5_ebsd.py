"""Patterns of electron backscatter diffraction in HDF5: the scan and the steps that each program writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.formats.frame_checks import frames_of, same, warned
from vfs.testing.hdf5_writers import write_patterns

h5py = pytest.importorskip("h5py")

WRITERS = {
    "Oxford": ("Processed Patterns", {"Y Cells": 3, "X Cells": 4, "Y Step": 2.0, "X Step": 1.0}),
    "EDAX": ("Pattern", {"nRows": 3, "nColumns": 4, "Step Y": 2.0, "Step X": 1.0}),
    "Bruker": ("RawPatterns", {"NROWS": 3, "NCOLS": 4, "YSTEP": 2.0, "XSTEP": 1.0}),
    "kikuchipy": ("patterns", {"n_rows": 3, "n_columns": 4, "step_y": 2.0, "step_x": 1.0}),
}


def write(folder: Path, twin: np.ndarray, who: str, places: Any = None, **how: Any) -> Path:
    name, header = WRITERS[who]
    said = {key: [value] if who == "Oxford" else value for key, value in header.items()}
    write_patterns(folder / "a.h5", twin, said, name, **how)
    with h5py.File(folder / "a.h5", "a") as file:
        if places is not None:
            file["1/EBSD/SEM/IY"], file["1/EBSD/SEM/IX"] = places
    return folder / "a.h5"


@pytest.mark.parametrize("how", [{}, {"chunks": (1, 5, 6)}, {"chunks": (5, 5, 6), "compression": "gzip"}])
@pytest.mark.parametrize("who", WRITERS)
def test_the_scan_that_the_header_says(tmp_path: Path, who: str, how: dict[str, Any]) -> None:
    twin = frames_of((12, 5, 6), "u1")
    array = vfs.open(write(tmp_path, twin, who, **how))
    same(array[...], twin.reshape(3, 4, 5, 6))
    assert array.dims == ("scan_y", "scan_x", "y", "x")
    steps = {name: array.calibration[name] for name in ("scan_y", "scan_x")}
    assert steps == {
        name: {"scale": step, "offset": 0.0, "unit": "um"} for name, step in (("scan_y", 2.0), ("scan_x", 1.0))
    }


@pytest.mark.parametrize("who", WRITERS)
def test_numbers_of_each_pattern_are_pictures_of_the_map(tmp_path: Path, who: str) -> None:
    path = write(tmp_path, frames_of((12, 5, 6), "u1"), who)
    ci = np.arange(12, dtype="f4")
    with h5py.File(path, "a") as file:
        file["1/EBSD/Data/CI"], file["1/EBSD/Data/Phases"], file["1/EBSD/Other"] = ci, np.arange(5), np.arange(12)
        file.create_dataset("1/EBSD/Data/packed", data=ci, chunks=(5,), compression="gzip")
    group = vfs.open_group(path)
    found = group["1/EBSD/Data/CI"]
    same(found[...], ci.reshape(3, 4))
    same(found[1:, ::2], ci.reshape(3, 4)[1:, ::2])
    assert found.dims == ("scan_y", "scan_x")
    assert found.calibration["scan_y"] == {"scale": 2.0, "offset": 0.0, "unit": "um"}
    assert [group[f"1/EBSD/{name}"].shape for name in ("Data/Phases", "Data/packed", "Other")] == [(5,), (12,), (12,)]
    same(group.main[...], frames_of((12, 5, 6), "u1").reshape(3, 4, 5, 6))


def test_bruker_says_where_each_pattern_is(tmp_path: Path) -> None:
    twin = frames_of((12, 5, 6), "u1")
    at = np.random.default_rng(1).permutation(12)
    shown = np.empty_like(twin)
    shown[at] = twin
    places = np.divmod(at.astype("i4"), 4)
    same(vfs.open(write(tmp_path, twin, "Bruker", places))[...], shown.reshape(3, 4, 5, 6))
    part = (2 + np.arange(6, dtype="i4") // 3, 1 + np.arange(6, dtype="i4") % 3)  # a region of the map
    same(vfs.open(write(tmp_path, twin[:6], "Bruker", part))[...], twin[:6].reshape(2, 3, 5, 6))
    path = write(tmp_path, twin, "Bruker", places, chunks=(5, 5, 6))
    same(warned(path, "says a map of 3 × 4, patterns are stored in another order")[...], twin)
    same(warned(write(tmp_path, twin[:9], "EDAX"), "says a map of 3 × 4, 9 patterns are stored")[...], twin[:9])


@pytest.mark.parametrize("who", ["EDAX", "Bruker"])
@pytest.mark.parametrize("kind", ["fixed", "variable"])
def test_a_grid_that_is_not_square_stays_one_axis(tmp_path: Path, who: str, kind: str) -> None:
    """Its rows have two lengths: a map of rows and columns would put most patterns in a wrong place."""
    twin = frames_of((12, 5, 6), "u1")
    path = write(tmp_path, twin, who)
    for grid in ("SqrGrid", "isometric", "HexGrid"):
        with h5py.File(path, "a") as file:
            header = file["1/EBSD/Header"]
            header.pop("Grid Type", None)
            header.create_dataset("Grid Type", data=np.array([grid.encode()]) if kind == "fixed" else [grid])
        if grid != "HexGrid":
            same(vfs.open(path)[...], twin.reshape(3, 4, 5, 6))
    same(warned(path, "says a map of 3 × 4, its grid is 'HexGrid', not square")[...], twin)
