"""HDF5: what the axes are, by the conventions of those who write such files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.conftest import SHARED
from vfs.pictures.frames import FrameView
from vfs.testing.inside import reader_of

h5py = pytest.importorskip("h5py")


def shown(path: Path, name: str) -> tuple[tuple[str, ...], int, Any]:
    array = vfs.open_group(path)[name]
    assert array.attrs.get("calibration", {}) == array.calibration
    known = {
        dim: {key: said for key, said in axis.items() if said is not None} for dim, axis in array.calibration.items()
    }
    return array.dims, reader_of(array).dataset.nav_ndim, known


def near(got: Any, scale: float, offset: float, unit: str) -> None:
    assert got["unit"] == unit
    assert (got["scale"], got["offset"]) == pytest.approx((scale, offset))


def test_hyperspy(tmp_path: Path) -> None:
    path = tmp_path / "set.hspy"
    axes = [("scan", 2.0, 1.0, "nm", True), ("Energy", 0.01, -0.2, "keV", False)]
    with h5py.File(path, "w") as file:
        group = file.create_group("Experiments/one")
        group["data"] = np.zeros((5, 7))
        group["other"] = np.zeros((5, 7))
        for k, (name, scale, offset, units, navigate) in enumerate(axes):
            group.create_group(f"axis-{k}").attrs.update(
                {"name": name, "scale": scale, "offset": offset, "units": units, "navigate": navigate}
            )
    calibration = {
        "scan": {"scale": 2.0, "offset": 1.0, "unit": "nm"},
        "Energy": {"scale": 0.01, "offset": -0.2, "unit": "keV"},
    }
    assert shown(path, "Experiments/one/data") == (("scan", "Energy"), 1, calibration)
    assert shown(path, "Experiments/one/other") == (("y", "x"), 0, {})
    with h5py.File(path, "a") as file:  # an uneven axis, and names that say nothing
        attrs = file["Experiments/one/axis-1"].attrs
        del attrs["scale"], attrs["offset"]
        attrs["name"] = "<undefined>"
        attrs["units"] = "t.Undefined"
    assert shown(path, "Experiments/one/data") == (
        ("y", "x"),
        1,
        {"y": {"scale": 2.0, "offset": 1.0, "unit": "nm"}},
    )


@pytest.mark.parametrize("first", [0, 1])
def test_emd(tmp_path: Path, first: int) -> None:
    path = tmp_path / "set.emd"
    with h5py.File(path, "w") as file:
        group = file.create_group("data/cube")
        group.attrs["emd_group_type"] = 1
        group.create_dataset("data", data=np.zeros((3, 4, 2)), chunks=(1, 4, 2))
        group.create_dataset(f"dim{first}", data=np.array([0.5, 0.75]))
        group.create_dataset(
            f"dim{first + 1}", data=np.array([1.0, 2, 3, 4]), chunks=(3,), compression="gzip", shuffle=True
        )
        group.create_dataset(f"dim{first + 2}", data=np.array([b"HAADF", b"BF"]))
        for k, (name, units) in enumerate([(b"R_x", b"[n_m]"), ("R_y", "[1/n_m]"), ("detector", "[]")]):
            group[f"dim{first + k}"].attrs.update({"name": name, "units": units})
    dims, _, known = shown(path, "data/cube/data")
    assert dims == ("R_x", "R_y", "detector")
    assert known == {
        "R_x": {"scale": 0.25, "offset": 0.5, "unit": "nm"},
        "R_y": {"scale": 1.0, "offset": 1.0, "unit": "1/nm"},
    }


@pytest.mark.parametrize(
    ("units", "nav"),
    [
        (("[n_m]", "[n_m]", "[mrad]"), 2),
        (("nm", "um", "eV"), 2),
        (("nm", "nm", "nm", "1/nm"), 3),
        (("eV", "nm", "nm"), 1),
        (("nm", "nm", "1/nm", "1/nm"), 2),
        (("nm", "nm", "[]"), 1),
        (("nm", "nm"), 0),
    ],
)
def test_a_scan_of_curves_is_told_by_units(tmp_path: Path, units: tuple[str, ...], nav: int) -> None:
    path = tmp_path / "set.emd"
    with h5py.File(path, "w") as file:
        group = file.create_group("data/cube")
        group.attrs["emd_group_type"] = 1
        group["data"] = np.zeros([2 + k for k in range(len(units))])
        for k, unit in enumerate(units):
            group[f"dim{k}"] = np.arange(2.0 + k)
            group[f"dim{k}"].attrs.update({"name": f"axis_{k}", "units": unit})
    assert shown(path, "data/cube/data")[1] == nav


def test_velox(tmp_path: Path) -> None:
    path = tmp_path / "set.emd"
    said = {
        "BinaryResult": {
            "PixelSize": {"width": "2e-9", "height": "3e-9"},
            "Offset": {"x": "-1e-8", "y": "1"},
            "PixelUnitX": "m",
            "PixelUnitY": "m",
        }
    }
    text = json.dumps(said).encode().ljust(600, b"\0")
    with h5py.File(path, "w") as file:
        for name, words in (("good", text), ("bad", b"{" * 600)):
            group = file.create_group(f"Data/Image/{name}")
            group.create_dataset("Data", data=np.zeros((6, 8, 2), "u2"), chunks=(6, 8, 1))
            group.create_dataset(
                "Metadata", data=np.stack([np.frombuffer(words, "u1")] * 2, axis=1), chunks=(600, 1), compression="gzip"
            )
    assert shown(path, "Data/Image/good/Data") == (
        ("y", "x", "frame"),
        0,
        {"y": {"scale": 3e-9, "offset": 1.0, "unit": "m"}, "x": {"scale": 2e-9, "offset": -1e-8, "unit": "m"}},
    )
    assert shown(path, "Data/Image/bad/Data") == (("y", "x", "frame"), 0, {})
    view = FrameView.of(reader_of(vfs.open_group(path)["Data/Image/good/Data"]))
    assert (view.shown, view.where) == ((0, 1), (2,))


def test_spectra_in_contiguous_bytes_are_reduced(tmp_path: Path) -> None:
    values = np.arange(2 * 3 * 4 * 5, dtype="u2").reshape(2, 3, 4, 5)
    with h5py.File(tmp_path / "set.nxs", "w") as file:
        file.create_group("entry").attrs.update(
            {"signal": "data", "axes": ["theta", "y", "x", "energy"], "interpretation": "spectrum"}
        )
        file["entry/data"] = values
    spectra = vfs.open(tmp_path / "set.nxs")
    assert (spectra.reduce(sum=vfs.FrameSum())["sum"].data == values.sum(-1)).all()  # it was 0 everywhere
    assert (spectra[...] == values).all()


def test_pictures_in_colours(tmp_path: Path) -> None:
    path = tmp_path / "set.h5"
    with h5py.File(path, "w") as file:
        for name, shape in (("PIXEL", (6, 8, 3)), ("PLANE", (3, 6, 9)), ("LINE", (6, 8, 3))):
            data = file.create_dataset(name, data=np.zeros(shape, "u1"))
            data.attrs.update({"IMAGE_SUBCLASS": "IMAGE_TRUECOLOR", "INTERLACE_MODE": f"INTERLACE_{name}"})
    assert shown(path, "PIXEL") == (("y", "x_8", "s"), 0, {})
    assert shown(path, "PLANE") == (("s", "y", "x"), 0, {})
    assert shown(path, "LINE") == (("dim_0", "y_8", "x_3"), 1, {})  # its second axis is not three colours


def test_nexus(tmp_path: Path) -> None:
    path = tmp_path / "set.nxs"
    with h5py.File(path, "w") as file:
        group = file.create_group("entry/new")
        group.attrs.update(
            {
                "NX_class": "NXdata",
                "signal": "counts",
                "axes": ["angle", "time", "."],
                "angle_indices": 0,
                "time_indices": [1],
            }
        )
        group.attrs["interpretation"] = "spectrum"
        group["counts"] = np.zeros((4, 3, 5), "i4")
        group["angle"] = np.array([1, 3, 5, 7], ">i2")
        group["time"] = np.array([10.0, 12.0, 14.0, 16.0])  # edges of bins
        group["angle"].attrs["units"] = "deg"
        group["time"].attrs["units"] = "us"
        file["entry/old/counts"] = np.zeros((2, 4))
        file["entry/old/counts"].attrs["axes"] = "row:column"
        file["entry/old/row"] = np.array([1.0, 7.0])
        file["entry/old/column"] = np.array([1.0, 2.0, 4.0, 8.0])
        file["entry/old/column"].attrs["units"] = "mm"
    dims, nav, known = shown(path, "entry/new/counts")
    assert (dims, nav) == (("dim_0", "y", "x"), 2)  # one axis has no name
    near(known["dim_0"], 2, 1, "deg")
    near(known["y"], 2, 11, "us")
    dims, nav, known = shown(path, "entry/old/counts")
    assert (dims, nav) == (("row", "column"), 0)
    near(known["row"], 6, 1, "")
    assert known["column"] == {"values": "entry/old/column", "unit": "mm"}


@pytest.mark.parametrize("zarr_format", [3, 2])
def test_axes_of_a_group_share_a_name_only_with_their_length(tmp_path: Path, zarr_format: int) -> None:
    """xarray refuses a group in which y is 4 long here and 5 there, or in which x is an array of two axes."""
    xarray = pytest.importorskip("xarray")
    path = tmp_path / "set.h5"
    with h5py.File(path, "w") as file:
        for name, shape in {
            "a": (7, 4, 5),
            "b": (4, 5),
            "c": (5, 4),
            "d": (9,),
            "e": (5,),
            "f": (7, 2, 4, 5),
            "g": (4, 4),
            "h": (),
        }.items():
            file[f"one/{name}"] = np.zeros(shape)
            file[f"two/{name}"] = np.zeros(shape)
        file["two/x"] = np.zeros((6, 3))
        file["two/y"] = np.zeros(4)
        named = file.create_dataset("two/named", data=np.zeros((3, 5)))
        named.dims[0].label, named.dims[1].label = "row", "x_9"
    group = vfs.open_group(path)
    assert group["one/f"].dims == ("dim_0", "dim_1", "y", "x")
    assert group["one/a"].dims == ("dim_0", "y", "x")
    assert group["one/c"].dims == ("y_5", "x_4")
    assert group["one/d"].dims == ("x_9",)
    assert group["one/e"].dims == ("x",)
    assert group["two/f"].dims == ("dim_0", "dim_1", "y", "x_5")
    assert group["two/x"].dims == ("y_6", "x_3")
    assert group["two/d"].dims == ("x_9_",)
    for name in ("one", "two"):
        opened = xarray.open_zarr(group.store(zarr_format), group=name, chunks=None, zarr_format=zarr_format)
        assert {key: opened[key].shape for key in opened.variables} == {
            path[4:]: group[path].shape for path in group if path.startswith(name)
        }


def test_a_vector_that_cannot_be_read_leaves_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "set.nxs"
    with h5py.File(path, "w") as file:
        file["entry/counts"] = np.zeros((2, 4))
        file["entry/counts"].attrs["axes"] = ["row", "missing"]
        file.create_dataset("entry/row", data=np.arange(2.0), chunks=(2,), compression="gzip")
        at = file["entry/row"].id.get_chunk_info(0).byte_offset
    data = bytearray(path.read_bytes())
    data[at : at + 4] = b"zzzz"
    path.write_bytes(data)
    assert shown(path, "entry/counts") == (("row", "missing"), 0, {"row": {"values": "entry/row", "unit": ""}})


REAL = {
    "py4dstem_size2x3x4x5/*:datacube_root/datacube/data": {
        "Rx": (0.126796875, 0, "nm"),
        "Qy": (0.044251566616, 0, "1/angstrom"),
    },
    "py4dstem_mac_origin/*:datacube_root/datacube/data": {
        "Rx": (2.5, 0, "angstrom"),
        "Qx": (0.0125, -0.2, "1/angstrom"),
    },
    "hspy_example2_v3.1.hspy/*:Experiments/test_diffraction_pattern/data": {
        "y": (0.17443285882, 131.871241271, "1/nm")
    },
    "hspy_example1_v1.0.hdf5/*:Experiments/NIO EELS OK SHELL/data": {"Energy": (3.1, 520.13, "eV")},
    "ncem_Acquisition_18.emd/*:data/single/data": {"Y": (0.0122465253, 0, "nm")},
    "emd_Si100_3D.emd/*:4DSTEM_simulation/data/realslices/virtual_detector_depth0000/realslice": {
        "R_x": (0.25, 0, "nm"),
        "bin_outer_angle": (1e-3, 5e-4, "mrad"),
    },
    "velox_Test SI 16x16 215 kx.emd/*:Data/Image/3997ddbe7d8c448e97ed660387f5ac44/Data": {
        "x": (3.599249255961469e-09, -3.9591741815576157e-08, "m")
    },
    "nexusformat_chopper/*:entry/data/data": {"time_of_flight": (2, 1901, "us")},
    "nexus_saved_multi_signal.nxs/*:entry2/unnamed__1/data": {"energy": (0.01, 0.1, ""), "yaxis": (2, 20, "")},
}


@pytest.mark.parametrize("place", REAL)
def test_real_files(place: str) -> None:
    pattern, _, name = place.partition(":")
    found = sorted((SHARED / "hdf5").glob(pattern))
    if not found:
        pytest.skip("no real files here")
    _, _, known = shown(found[0], name)
    for axis, (scale, offset, unit) in REAL[place].items():
        near(known[axis], scale, offset, unit)


@pytest.mark.parametrize("shape", [(5, 7, 4), (5, 7)])
@pytest.mark.parametrize("said", [True, False])
def test_energy_losses_of_velox(tmp_path: Path, shape: tuple[int, ...], said: bool) -> None:
    """Spectra of a map are stored as x, energy, y; of a line as x, energy: as RosettaSciIO reads them."""

    def text(of: object) -> np.ndarray:
        return np.frombuffer(json.dumps(of).encode().ljust(300, b"\0"), "u1").reshape(-1, 1)

    place = {"PixelSize": {"width": "2e-9", "height": "3e-9"}, "Offset": {"x": "-1e-8", "y": "0"}}
    with h5py.File(tmp_path / "a.emd", "w") as file:
        file["Data/EelsSpectrumImage/e/Data"] = np.ones(shape, "f4")
        file["Data/EelsSpectrumImage/e/Metadata"] = text({})
        file["Data/SpectrumImage/s/Metadata"] = text({"BinaryResult": {**place, "PixelUnitX": "m", "PixelUnitY": "m"}})
        if said:
            file["Data/EelsSpectrumImage/e/AcquisitionMetadata"] = text({"Data": {"offset": 120, "dispersion": 0.5}})
    array = vfs.open(tmp_path / "a.emd")
    assert array.shape == shape
    assert (array.dims == ("x", "energy", "y")[: len(shape)]) == said
    if said:
        found = array.attrs["calibration"]
        assert found["energy"] == {"scale": 0.5, "offset": 120.0, "unit": "eV"}
        assert found["x"] == {"scale": 2e-9, "offset": -1e-8, "unit": "m"}
        assert ("y" in found) == (len(shape) == 3)


@pytest.mark.parametrize("way", ["emd", "hyperspy"])
@pytest.mark.parametrize(
    ("units", "dims", "nav"),
    [
        (("nm", "nm", "eV"), ("scan_y", "scan_x", "energy"), 2),
        (("µm", "keV"), ("scan_x", "energy"), 0),
        (("eV", "nm", "nm"), ("energy", "y", "x"), 1),
        (("nm", "nm", "1/nm", "1/nm"), ("scan_y", "scan_x", "y", "x"), 2),
        (("[n_m]", "mrad", "mrad"), ("scan_x", "y", "x"), 1),
        (("nm", "nm", "nm"), ("dim_0", "y", "x"), 1),
        (("", "nm", "nm"), ("dim_0", "y", "x"), 1),
    ],
)
def test_axes_without_names_are_named_by_their_units(
    tmp_path: Path, units: tuple[str, ...], dims: tuple[str, ...], nav: int, way: str
) -> None:
    shape = (2, 3, 4, 5)[: len(units)]
    path = tmp_path / "set.h5"
    with h5py.File(path, "w") as file:
        group = file.create_group("Experiments/one")
        group["data"] = np.zeros(shape, "u2")
        if way == "emd":
            group.attrs["emd_group_type"] = 1
        for k, unit in enumerate(units):
            if way == "emd":
                group[f"dim{k + 1}"] = np.arange(shape[k]) * 0.5
                group[f"dim{k + 1}"].attrs["units"] = unit
            else:
                attrs = {"name": "<undefined>", "scale": 0.5, "offset": 0.0, "units": unit}
                group.create_group(f"axis-{k}").attrs.update(attrs)
    found, nav_ndim, known = shown(path, "Experiments/one/data")
    assert found == dims
    assert (nav_ndim, [*known]) == (nav, [*dims])
