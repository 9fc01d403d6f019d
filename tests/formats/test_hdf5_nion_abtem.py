"""HDF5 of Nion Swift and abTEM: the scan, the steps and the names that their files say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.formats.frame_checks import same
from vfs.testing.hdf5_writers import Step, write_abtem, write_nion
from vfs.testing.inside import reader_of

h5py = pytest.importorskip("h5py")

NM, UNKNOWN, RAD, EV, S = (-2.0, 0.5, "nm"), (0.0, 1.0, ""), (-8.0, 2.0, "mrad"), (-20.0, 0.25, "eV"), (0.0, 0.1, "s")
ANGSTROM = (1.0, 0.2, "Å")


def seen(path: Path, name: str) -> tuple[tuple[str, ...], int, dict[str, Any]]:
    array = vfs.open_group(path)[name]
    return array.dims, reader_of(array).dataset.nav_ndim, array.calibration


def said(dims: tuple[str, ...], axes: list[Step | None]) -> dict[str, Any]:
    return {
        dim: {"offset": axis[0], "scale": axis[1], "unit": axis[2].replace("Å", "angstrom")}
        for dim, axis in zip(dims, axes, strict=False)
        if axis not in (None, UNKNOWN)
    }


@pytest.mark.parametrize(
    ("counts", "axes", "dims", "nav"),
    [
        ((False, 2, 2), [NM, NM, RAD, RAD], ("scan_y", "scan_x", "y", "x"), 2),
        ((True, 2, 2), [UNKNOWN, NM, NM, RAD, RAD], ("t", "scan_y", "scan_x", "y", "x"), 3),
        ((False, 2, 1), [NM, NM, EV], ("scan_y", "scan_x", "energy"), 2),
        ((False, 1, 1), [NM, EV], ("scan_x", "energy"), 1),
        ((True, 0, 1), [S, EV], ("frame", "energy"), 1),
        ((True, 0, 2), [S, NM, NM], ("frame", "y", "x"), 1),
        ((True, 1, 2), [S, NM, RAD, RAD], ("t", "scan_x", "y", "x"), 2),
        ((False, 0, 2), [UNKNOWN, EV], ("y", "energy"), 0),
        ((False, 0, 2), [NM, NM], ("y", "x"), 0),
        ((False, 2, 0), [NM, NM], ("y", "x"), 0),
        ((False, 0, 1), [NM], ("x",), 0),
    ],
)
def test_nion_swift(
    tmp_path: Path, counts: tuple[bool, int, int], axes: list[Step], dims: tuple[str, ...], nav: int
) -> None:
    twin = np.arange(np.prod(range(2, 2 + len(dims))), dtype="f4").reshape(range(2, 2 + len(dims)))
    more = {"title": "a scan", "metadata": {"hardware": "x" * 5000}}  # longer than other attributes that are shown
    for path in (tmp_path / "a.h5", tmp_path / "a.nhdf"):
        name = "data/0" if path.suffix == ".nhdf" else "data"
        assert seen(write_nion(path, twin, counts, axes, more=more), name) == (dims, nav, said(dims, axes))
    array = vfs.open(path)
    same(array[...], twin)
    assert array.attrs["name"] == "a scan"
    assert array.attrs["properties"]["metadata"] == more["metadata"]


def test_nion_swift_of_earlier_versions_and_in_colours(tmp_path: Path) -> None:
    twin = np.arange(2 * 3 * 4, dtype="u1").reshape(2, 3, 4)
    for inside in ("data_source", "data_sources"):
        path = write_nion(tmp_path / "a.h5", twin, (False, 2, 1), [NM, NM, EV], inside=inside)
        assert seen(path, "data")[:2] == (("scan_y", "scan_x", "energy"), 2)
    array = vfs.open(write_nion(path, twin, (False, 0, 2), [NM, NM]))  # two axes of three: colours, blue first
    assert array.dims == ("y", "x", "s")
    assert array.attrs["samples"] == ["Blue", "Green", "Red", "Opacity"]
    for counts in ((False, 2, 2), None):  # another number of axes, or none: as it is stored
        assert seen(write_nion(path, twin, counts, [NM, NM]), "data") == (("dim_0", "y", "x"), 1, {})


@pytest.mark.parametrize(
    ("axes", "dims", "nav"),
    [
        (
            [("x", ANGSTROM), ("y", ANGSTROM), ("alpha_x", RAD), ("alpha_y", RAD)],
            ("scan_x", "scan_y", "x", "y"),
            2,
        ),
        ([("x", ANGSTROM), ("y", ANGSTROM), ("", RAD)], ("scan_x", "scan_y", "dim_2"), 2),
        ([("x", ANGSTROM), ("", RAD)], ("scan_x", "dim_1"), 1),
        ([("x", ANGSTROM), ("y", ANGSTROM), ("x", ANGSTROM), ("y", ANGSTROM)], ("scan_x", "scan_y", "x", "y"), 2),
        ([("", None), ("alpha_x", RAD), ("alpha_y", RAD)], ("dim_0", "x", "y"), 1),
        ([("x", ANGSTROM), ("y", ANGSTROM)], ("x", "y"), 0),
    ],
)
def test_measurements_of_abtem(
    tmp_path: Path, axes: list[tuple[str, Step | None]], dims: tuple[str, ...], nav: int
) -> None:
    twin = np.arange(np.prod(range(2, 2 + len(dims))), dtype="f4").reshape(range(2, 2 + len(dims)))
    path = write_abtem(tmp_path / "a.hdf5", twin, axes)
    assert seen(path, "array") == (dims, nav, said(dims, [axis for _, axis in axes]))
    same(vfs.open(path)[...], twin)


@pytest.mark.parametrize(("more", "first"), [("energy", "dim_0"), ("slice_thicknesses", "slice")])
def test_waves_and_potentials_of_write_abtem(tmp_path: Path, more: str, first: str) -> None:
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file["array"], file["extent"], file[more] = np.zeros((3, 4, 5), "c8"), [2.0, 5.0], np.ones(3)
    steps = {
        "x": {"scale": 0.5, "offset": 0.0, "unit": "angstrom"},
        "y": {"scale": 1.0, "offset": 0.0, "unit": "angstrom"},
    }
    assert seen(tmp_path / "a.hdf5", "array") == ((first, "x", "y"), 1, steps)
