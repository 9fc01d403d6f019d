"""HDF5: compounds of equal numbers, which have an axis `s`; and elements that form no array."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.formats.frame_checks import check_boxes, frames_of, same
from vfs.model.colours import coloured

h5py = pytest.importorskip("h5py")

ZIPPED = {"chunks": (2, 3, 5), "compression": "gzip", "shuffle": True}


@pytest.mark.parametrize(
    "how", [{}, {"chunks": (2, 3, 5)}, ZIPPED, {"external": [("beside.bin", 0, h5py.h5f.UNLIMITED)]}]
)
@pytest.mark.parametrize(("fields", "dtype"), [("RGBA", "u1"), ("RGB", ">u2"), ("xy", "<f8"), ("ab", "<i4")])
def test_fields_are_the_last_axis(tmp_path: Path, how: dict[str, Any], fields: str, dtype: str) -> None:
    numbers = frames_of((5, 7, 8, len(fields)), np.dtype(dtype).newbyteorder("="))
    values = np.zeros(numbers.shape[:-1], [(field, dtype) for field in fields])
    for k, field in enumerate(fields):
        values[field] = numbers[..., k]
    path = tmp_path / "set.h5"
    how = how | ({"external": [(str(tmp_path / "beside.bin"), 0, h5py.h5f.UNLIMITED)]} if "external" in how else {})
    with h5py.File(path, "w") as file:
        file.create_dataset("data", data=values, **how)
    check_boxes(path, numbers, count=6)
    array = vfs.open(path)
    assert array.dims == ("dim_0", "y", "x", "s")
    if "chunks" not in how:
        same(vfs.open(path, nav_shape=(2, 2))[1, 1], numbers[3])


def test_axes_are_those_without_the_fields(tmp_path: Path) -> None:
    path = tmp_path / "set.hspy"
    numbers = frames_of((4, 6, 3), "u1")
    with h5py.File(path, "w") as file:
        group = file.create_group("Experiments/one")
        group["data"] = numbers.view([(field, "u1") for field in "RGB"])[..., 0]
        for k, name in enumerate(("height", "width")):
            axis = {"name": name, "scale": 0.5, "offset": 1.0, "units": "nm", "navigate": False}
            group.create_group(f"axis-{k}").attrs.update(axis)
        scale = file.create_dataset("row", data=np.arange(4.0))
        scale.make_scale("row")
        file["named"] = group["data"][...]
        file["named"].dims[0].attach_scale(scale)
        file["named"].dims[0].label, file["named"].dims[1].label = "row", "column"
        file["one"] = group["data"][0, 0]
        file["none"] = file["named"][:0]
    group = vfs.open_group(path)
    assert group["Experiments/one/data"].dims == ("height", "width", "s")
    assert group["Experiments/one/data"].calibration["width"] == {"scale": 0.5, "offset": 1.0, "unit": "nm"}
    assert group["named"].dims == ("row", "column", "s")
    assert group["one"].dims == ("s",)
    assert group["none"].shape == (0, 6, 3)
    for name in ("Experiments/one/data", "named"):
        same(group[name][...], numbers)
    same(group["one"][...], numbers[0, 0])


def test_what_was_never_written_is_the_fill_value(tmp_path: Path) -> None:
    path, dtype = tmp_path / "set.h5", np.dtype([(field, "u1") for field in "RGB"])
    with h5py.File(path, "w") as file:
        for name, fill in (("alike", (7, 7, 7)), ("apart", (7, 8, 7))):
            made = file.create_dataset(name, (6, 4), dtype, chunks=(2, 4), fillvalue=np.array(fill, dtype))
            made[:2] = np.array((1, 2, 3), dtype)
    group = vfs.open_group(path)
    same(group["alike"][...], np.concatenate([np.full((2, 4, 3), (1, 2, 3)), np.full((4, 4, 3), 7)]).astype("u1"))
    assert "several fill values" in group.main.attrs["root"]["left_out"]["apart"]


def test_elements_that_form_no_array(tmp_path: Path) -> None:
    path = tmp_path / "set.h5"
    with h5py.File(path, "w") as file:
        file["data"] = np.arange(6).reshape(2, 3)
        file.create_dataset("ragged", (3,), h5py.vlen_dtype("f4"))
        file["mixed"] = np.zeros(3, [("a", "u1"), ("b", "f8")])
        file["padded"] = np.zeros(3, np.dtype([("a", "u1"), ("b", "u1")], align=True).newbyteorder())
        gaps = np.dtype({"names": ["a", "b"], "formats": ["u1", "u1"], "offsets": [0, 2], "itemsize": 4})
        file["gaps"] = np.zeros(3, gaps)
        layout = h5py.VirtualLayout((3,), gaps)
        layout[:] = h5py.VirtualSource(file["padded"])
        file.create_virtual_dataset("virtual", layout)
    group = vfs.open_group(path)
    left = group.main.attrs["root"]["left_out"]
    assert "its own length" in left["ragged"]
    assert "no array of numbers" in left["mixed"]
    assert "no array of numbers" in left["gaps"]
    assert set(left) == {"ragged", "mixed", "gaps", "virtual"}
    assert group["padded"].shape == (3, 2)


@pytest.mark.parametrize(
    ("names", "dims"),
    [
        (["y", "x"], ("y", "x", "s")),
        (["_None_", "_None_"], ("y", "x", "s")),
        (["x", "x"], ("y", "x", "s")),
        (["", "<undefined>", ""], ("dim_0", "y", "x", "s")),
        (["time", "y", "x"], ("time", "y", "x", "s")),
    ],
)
def test_colours_of_hyperspy_are_colours_whatever_its_axes_are_called(
    tmp_path: Path, names: list[str], dims: tuple[str, ...]
) -> None:
    colours = frames_of((*(3, 4, 5)[-len(names) :], 4), np.dtype("u1"))
    with h5py.File(tmp_path / "a.hspy", "w") as file:
        signal = file.create_group("Experiments/a")
        signal["data"] = colours.view([(field, "u1") for field in "RGBA"])[..., 0]
        for k, name in enumerate(names):
            said = {"name": name, "scale": 0.5, "offset": 0.0, "units": "nm", "navigate": k < len(names) - 2}
            signal.create_group(f"axis-{k}").attrs.update(said)
    array = vfs.open(tmp_path / "a.hspy")
    same(array[...], colours)
    assert array.dims == dims
    assert array.calibration["x"] == {"scale": 0.5, "offset": 0.0, "unit": "nm"}
    assert coloured(array.dims[-1], array.shape[-1], array.attrs)
