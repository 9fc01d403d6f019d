"""DM5, which DigitalMicrograph writes as HDF5: the image that opens first, and its axes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.formats.frame_checks import check_boxes, frames_of, same
from vfs.testing.inside import reader_of, set_of

h5py = pytest.importorskip("h5py")


def write_dm5(path: Path, *images: np.ndarray, units: Sequence[str] = (), shown: int | None = 1, **tags: Any) -> Path:
    """Write images behind a thumbnail; units are those of every image, slowest axis first."""
    with h5py.File(path, "w") as file:
        file["ImageList/[0]/ImageData/Data"] = np.zeros((64, 64, 4), "u1")
        file.create_group("Thumbnails/[0]").attrs["ImageIndex"] = np.uint32(0)
        if shown is not None:
            file.create_group("DocumentObjectList/[0]").attrs["ImageSource"] = np.uint64(3)
            file.create_group("ImageSourceList/[3]").attrs["ImageRef"] = np.uint32(shown)
        for k, image in enumerate(images, 1):
            file[f"ImageList/[{k}]/ImageData/Data"] = image
            file.create_group(f"ImageList/[{k}]/ImageTags/Meta Data").attrs.update(tags)
            for n, unit in enumerate(reversed(units)):
                group = file.create_group(f"ImageList/[{k}]/ImageData/Calibrations/Dimension/[{n}]")
                group.attrs.update({"Origin": np.float32(2), "Scale": np.float32(0.5), "Units": unit})
    return path


@pytest.mark.parametrize(
    ("shape", "units", "tags", "dims", "nav"),
    [
        ((4, 5), ("nm", "nm"), {}, ("y", "x"), 0),
        ((3, 4, 5), ("", "nm", "nm"), {}, ("frame", "y", "x"), 1),
        ((7, 4, 5), ("eV", "nm", "nm"), {"Format": "Spectrum image"}, ("energy", "y", "x"), 1),
        ((7,), ("eV",), {"Format": "Spectrum"}, ("energy",), 0),
        ((2, 7), ("nm", "eV"), {}, ("scan_x", "energy"), 1),
        ((2, 3, 4, 5), ("nm", "nm", "1/nm", "1/nm"), {}, ("scan_y", "scan_x", "y", "x"), 2),
        ((2, 3, 4, 5), ("", "", "", ""), {"Data Order Swapped": True}, ("scan_y", "scan_x", "y", "x"), 2),
        ((2, 3, 4, 5), ("mrad", "mrad", "nm", "nm"), {}, ("y", "x", "scan_y", "scan_x"), 2),
    ],
)
def test_axes(
    tmp_path: Path,
    shape: tuple[int, ...],
    units: tuple[str, ...],
    tags: dict[str, Any],
    dims: tuple[str, ...],
    nav: int,
) -> None:
    twin = frames_of(shape, "u2")
    path = write_dm5(tmp_path / "a.dm5", twin, units=units, **tags)
    group = vfs.open_group(path)
    assert set_of(group).tree.main == "ImageList/[1]/ImageData/Data"
    check_boxes(path, twin, "ImageList/[1]/ImageData/Data", count=5)
    array = vfs.open(path)
    assert (array.dims, reader_of(array).dataset.nav_ndim) == (dims, nav)
    for dim, unit in zip(dims, units, strict=True):
        assert array.calibration[dim] == {"scale": 0.5, "offset": -1.0, "unit": unit}


def test_the_image_of_the_document_is_shown_first(tmp_path: Path) -> None:
    small, large = frames_of((4, 5), "u2"), frames_of((3, 40, 50), "u2")
    same(vfs.open(write_dm5(tmp_path / "a.dm5", small, large))[...], small)
    same(vfs.open(write_dm5(tmp_path / "b.dm5", small, large, shown=2))[...], large)
    same(vfs.open(write_dm5(tmp_path / "c.dm5", small, large, shown=None))[...], large)
    same(vfs.open(write_dm5(tmp_path / "d.dm5", small, shown=None))[...], small)
    same(vfs.open(write_dm5(tmp_path / "e.dm5", small, shown=9))[...], small)
