"""The engine `vfs` of xarray: what it shows is what `vfs.open` shows, with names, positions, units and times."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import vfs
from vfs.integrations.xarray import TAKEN, VfsBackend
from vfs.testing.frame_writers import write_seq, write_tvips
from vfs.testing.gatan_writers import write_dm
from vfs.testing.microscope_writers import czi_planes, czi_xml, write_czi
from vfs.testing.plane_writers import write_ndtiff
from vfs.testing.writers import write_mib, write_npy

FRAMES = np.random.default_rng(5).integers(0, 4096, (4 * 6, 8, 10)).astype("u2")
SCAN = FRAMES.reshape(4, 6, 8, 10)
START = np.datetime64("2020-05-18T14:51:49.971626178", "ns")


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    return write_mib(tmp_path, FRAMES, frames_per_file=7, scan=(4, 6))


def described(folder: Path, **more: Any) -> Path:
    """A description of a scan [4, 6, 8, 10] whose axes are calibrated."""
    FRAMES.tofile(folder / "scan.bin")
    calibration = {
        "scan_y": {"scale": 2.5, "offset": 10.0, "unit": "nm"},
        "scan_x": {"scale": 2.5, "offset": 0.0, "unit": "nm"},
        "y": {"scale": -0.5, "offset": 2.0, "unit": "1/nm"},
        "x": {"scale": 0.5, "offset": -2.5, "unit": ""},
    }
    said = {
        "vfs": 1,
        "dtype": "<u2",
        "shape": [4, 6, 8, 10],
        "dims": ["scan_y", "scan_x", "y", "x"],
        "files": ["scan.bin"],
        "frames": {},
        "attributes": {"calibration": calibration, "camera": {"name": "µ", "bits": 12}},
    }
    path = folder / "scan.vfs.json"
    path.write_text(json.dumps(said | more))
    return path


# what is opened


@pytest.mark.parametrize("engine", ["vfs", None])
@pytest.mark.parametrize("chunks", [None, {}])
def test_a_scan_with_its_companions(scan: Path, engine: str | None, chunks: Any) -> None:
    with xr.open_dataset(scan, engine=engine, chunks=chunks) as found:
        assert found.sizes == {"scan_y": 4, "scan_x": 6, "y": 8, "x": 10}
        assert set(found.variables) == {"data", "exposure", "timestamp"}
        assert found["data"].dtype == "u2"
        np.testing.assert_array_equal(found["data"], SCAN)
        np.testing.assert_array_equal(found["exposure"], np.full((4, 6), 555e-6))
        assert found["exposure"].attrs["units"] == "s"
        assert json.loads(found.attrs["vfs"])["format"] == "mib"
        assert (found.chunks != {}) == (chunks is not None)


def test_options_of_vfs_are_keyword_arguments(scan: Path) -> None:
    found = xr.open_dataset(
        scan, engine="vfs", nav_shape=(5, 5), sync_offset=1, dtype="f4", dark=np.ones((8, 10), "u2"), flip_y=True
    )
    expected = vfs.open(scan, nav_shape=(5, 5), sync_offset=1, dtype="f4", dark=np.ones((8, 10), "u2"), flip_y=True)
    assert found["data"].dtype == "f4"
    np.testing.assert_array_equal(found["data"], expected)
    chosen = xr.open_dataset(scan, engine="vfs", roi=[3, 20])
    assert chosen["data"].dims == ("frame", "y", "x")
    np.testing.assert_array_equal(chosen["data"], FRAMES[[3, 20]])
    np.testing.assert_array_equal(chosen["timestamp"], START + np.array([3, 20]) * np.timedelta64(1, "ms"))


def test_derived_arrays_are_variables(scan: Path) -> None:
    found = xr.open_dataset(scan, engine="vfs", chunks={}, derive={"bf": vfs.Disk(cy=4, cx=5, r=3), "mean": vfs.Mean()})
    r = vfs.open(scan).reduce(bf=vfs.Disk(cy=4, cx=5, r=3), mean=vfs.Mean())
    np.testing.assert_array_equal(found["bf"], r["bf"].data)
    np.testing.assert_array_equal(found["mean"], r["mean"].data)
    assert found["bf"].dims == ("scan_y", "scan_x")
    assert found["mean"].dims == ("y", "x")


def test_variables_can_be_left_out(scan: Path) -> None:
    assert set(xr.open_dataset(scan, engine="vfs", drop_variables="exposure").variables) == {"data", "timestamp"}
    assert set(xr.open_dataset(scan, engine="vfs", drop_variables=["exposure", "timestamp"]).variables) == {"data"}


def test_errors_stay_errors(scan: Path, tmp_path: Path) -> None:
    with pytest.raises(vfs.OptionError, match="no option 'navshape'"):
        xr.open_dataset(scan, engine="vfs", navshape=(4, 6))
    with pytest.raises(vfs.MissingSourceError, match=r"none\.mib: no such file"):
        xr.open_dataset(tmp_path / "none.mib", engine="vfs")
    found = xr.open_dataset(scan, engine="vfs", backend="buffered")
    chunked = xr.open_dataset(scan, engine="vfs", backend="buffered", chunks={"scan_y": 1})
    with (tmp_path / "scan003.mib").open("r+b") as file:
        file.truncate(1000)
    np.testing.assert_array_equal(found["data"][0], SCAN[0])
    with pytest.raises(vfs.SourceError, match=r"scan003\.mib"):
        found["data"][3].load()
    with pytest.raises(vfs.SourceError, match=r"scan003\.mib"):
        chunked["data"].max().compute(scheduler="threads")


# which files are opened without engine=


def test_files_are_guessed_by_their_content(scan: Path, tmp_path: Path) -> None:
    guess = VfsBackend().guess_can_open
    assert guess(scan)
    assert guess(str(tmp_path / "scan001.mib"))
    assert guess(described(tmp_path))
    assert not guess(tmp_path / "none.mib")
    assert not guess(tmp_path)
    assert not guess([str(scan)])
    assert not guess(write_npy(tmp_path, FRAMES))
    (tmp_path / "empty.mib").touch()
    assert not guess(tmp_path / "empty.mib")
    (tmp_path / "text.mib").write_text("no detector wrote this")
    assert not guess(tmp_path / "text.mib")


@pytest.mark.parametrize("ending", TAKEN)
def test_what_others_open_is_not_guessed(scan: Path, ending: str) -> None:
    assert not VfsBackend().guess_can_open(scan.rename(scan.with_suffix(ending.upper())))


def test_xarray_lists_the_engine() -> None:
    listed = xr.backends.list_engines()["vfs"]
    assert "detector" in listed.description
    assert Path(listed.url.removeprefix("file://")).read_text().startswith("# ")


# coordinates


def test_coordinates_come_from_the_calibration(tmp_path: Path) -> None:
    found = xr.open_dataset(described(tmp_path), engine="vfs")
    np.testing.assert_allclose(found["scan_y"], [10, 12.5, 15, 17.5])
    np.testing.assert_allclose(found["y"], 2 - 0.5 * np.arange(8))
    assert found["scan_y"].attrs == {"units": "nm", "long_name": "scan y"}
    assert found["y"].attrs["units"] == "1/nm"
    assert "units" not in found["x"].attrs
    np.testing.assert_array_equal(found["data"].sel(scan_y=12.6, scan_x=5, method="nearest"), SCAN[1, 2])
    np.testing.assert_array_equal(found["data"].sel(x=slice(-1, 1))[0, 0], SCAN[0, 0, :, 3:8])


def test_an_uneven_axis_takes_its_values(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "set.h5", "w") as file:
        entry = file.create_group("entry")
        entry.attrs.update({"NX_class": "NXdata", "signal": "counts", "axes": ["energy", "time"]})
        entry["counts"] = np.arange(12, dtype="f4").reshape(3, 4)
        entry["energy"] = [1.0, 2.0, 4.0]
        entry["energy"].attrs["units"] = "eV"
        entry["time"] = [0.0, 1.0, 2.0, 4.0, 8.0]  # edges
    found = xr.open_dataset(tmp_path / "set.h5", engine="vfs")
    assert found["counts"].dims == ("energy", "time")
    np.testing.assert_array_equal(found["energy"], [1, 2, 4])
    np.testing.assert_array_equal(found["time"], [0.5, 1.5, 3, 6])
    assert found["energy"].attrs["units"] == "eV"
    np.testing.assert_array_equal(found["counts"].sel(energy=3.9, method="nearest"), np.arange(8, 12))


# time stamps


def test_time_stamps_are_dates_and_blank_ones_are_not(scan: Path) -> None:
    found = xr.open_dataset(scan, engine="vfs", nav_shape=(5, 6))
    stamps = START + np.arange(30).reshape(5, 6) * np.timedelta64(1, "ms")
    stamps[4] = "NaT"
    assert "timestamp" in found.coords
    assert "timestamp" in found["data"][1].coords
    np.testing.assert_array_equal(found["timestamp"], stamps)
    np.testing.assert_array_equal(found["timestamp"][3:, 2], stamps[3:, 2])
    np.testing.assert_array_equal(found["timestamp"].isel(scan_y=[4, 1], scan_x=[0, 5]), stamps[[4, 1]][:, [0, 5]])
    assert np.isnat(found["timestamp"][4, 5].values)
    assert found["data"].dtype == "u2"  # blank, not NaN
    assert not found["data"][4].any()


def test_time_stamps_stay_numbers_on_request(scan: Path) -> None:
    for options in ({"decode_times": False}, {"decode_cf": False}):
        found = xr.open_dataset(scan, engine="vfs", **options)  # type: ignore[arg-type]
        assert found["timestamp"].attrs["units"] == "nanoseconds since 1970-01-01"
        np.testing.assert_array_equal(found["timestamp"], vfs.open_group(scan)["timestamp"])
    assert xr.open_dataset(scan, engine="vfs", mask_and_scale=False)["data"].dtype == "u2"


@pytest.mark.parametrize("kind", ["seq", "tvips"])
def test_parts_of_a_time_stamp_are_one_date(tmp_path: Path, kind: str) -> None:
    path = (write_seq if kind == "seq" else write_tvips)(tmp_path, FRAMES)
    found = xr.open_dataset(path, engine="vfs")
    group = vfs.open_group(path)
    number = sum(
        np.asarray(group[name]).astype("i8") * factor
        for name, factor in (
            ("timestamp_seconds", 10**9),
            ("timestamp_milliseconds", 10**6),
            ("timestamp_microseconds", 1000),
        )
        if name in group
    )
    np.testing.assert_array_equal(found["timestamp"], np.asarray(number).astype("M8[ns]"))
    assert not [name for name in found.variables if str(name).startswith("timestamp_")]
    assert found["timestamp"].dtype.kind == "M"


def test_dates_as_fractions_of_days(tmp_path: Path) -> None:
    days = np.array([43831.25, np.nan, 43831.5 + 1 / 86400, 1e300])
    days.tofile(tmp_path / "t.bin")
    FRAMES[:4].tofile(tmp_path / "scan.bin")
    said = {
        "vfs": 1,
        "arrays": {
            "data": {
                "dtype": "<u2",
                "shape": [4, 8, 10],
                "dims": ["frame", "y", "x"],
                "files": ["scan.bin"],
                "frames": {},
            },
            "when": {
                "dtype": "<f8",
                "shape": [4],
                "dims": ["frame"],
                "sig_ndim": 0,
                "files": ["t.bin"],
                "frames": {},
                "companion": True,
                "conventions": {"units": "days since 1899-12-30"},
            },
        },
    }
    path = tmp_path / "x.vfs.json"
    path.write_text(json.dumps(said))
    found = xr.open_dataset(path, engine="vfs")["when"].values
    assert np.isnat(found[[1, 3]]).all()
    assert found[0] == np.datetime64("2020-01-01T06:00:00")
    assert abs(found[2] - np.datetime64("2020-01-01T12:00:01")) < np.timedelta64(2, "us")


# indexing


@pytest.mark.parametrize(
    "at",
    [
        {"scan_y": 2, "scan_x": -1},
        {"scan_y": 2, "scan_x": 1, "y": 3, "x": 4},
        {"scan_y": slice(None, None, -2), "x": slice(8, 1, -3)},
        {"scan_y": [3, 0, 1, 1], "scan_x": slice(1, 6, 2)},
        {"scan_y": [-1], "scan_x": [5, 4, 0], "y": [7, 0], "x": 2},
        {"scan_x": [], "y": slice(3, 3)},
        {"scan_y": [True, False, True, False]},
        {"y": [6, 2], "x": slice(None, None, -1)},
        {"scan_y": xr.DataArray([0, 3, 2], dims="p"), "scan_x": xr.DataArray([5, 0, 0], dims="p")},
    ],
    ids=str,
)
def test_any_index_gives_what_numpy_gives(scan: Path, at: dict[str, Any]) -> None:
    lazy = xr.open_dataset(scan, engine="vfs")["data"]
    whole = xr.DataArray(SCAN, dims=lazy.dims)
    np.testing.assert_array_equal(lazy.isel(at).values, whole.isel(at).values)
    np.testing.assert_array_equal(vfs.open(scan).xarray().isel(at).values, whole.isel(at).values)


def test_indices_outside_are_refused(scan: Path) -> None:
    lazy = xr.open_dataset(scan, engine="vfs")["data"]
    with pytest.raises(IndexError):
        lazy[4].load()
    with pytest.raises(IndexError):
        lazy[[0, 4]].load()


def test_only_wanted_positions_are_read(scan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lazy = xr.open_dataset(scan, engine="vfs", drop_variables="timestamp")["data"]
    read: list[int] = []
    plain = vfs.VirtualArray.__getitem__

    def counted(self: vfs.VirtualArray, key: Any) -> Any:
        got = plain(self, key)
        read.append(np.asarray(got).size)
        return got

    monkeypatch.setattr(vfs.VirtualArray, "__getitem__", counted)
    assert lazy.isel(scan_y=[3, 0], scan_x=[5, 0, 1], y=[1, 2]).shape == (2, 3, 2, 10)
    assert not read
    lazy.isel(scan_y=[3, 0], scan_x=[5, 0, 1], y=[1, 2]).load()
    assert sum(read) == 2 * 3 * 2 * 10


def test_what_is_loaded_belongs_to_the_caller(tmp_path: Path) -> None:
    path = described(tmp_path)
    found = xr.open_dataset(path, engine="vfs")["data"][0].load()
    found.values[...] = 7
    np.testing.assert_array_equal(vfs.open(path)[0], SCAN[0])


# chunks


def test_chunks_are_large_and_whole_frames(tmp_path: Path) -> None:
    path = tmp_path / "scan.raw"
    with path.open("wb") as file:
        file.truncate(600 * 256 * 1024)
    options = {"format": "raw", "dtype": "<u2", "sig_shape": (256, 512), "nav_shape": (30, 20)}
    found = xr.open_dataset(path, engine="vfs", chunks={}, **options)["data"]  # type: ignore[arg-type]
    block = found.data.chunksize
    assert block[2:] == (256, 512)
    assert 64 << 20 <= np.prod(block) * 2 <= 128 << 20
    assert dict(zip(found.dims, block, strict=True)).items() >= found.encoding["preferred_chunks"].items()


# other threads and processes


def total(found: xr.Dataset, y: int) -> tuple[int, str]:
    return int(found["data"][y].sum()), str(found["timestamp"][y, 0].values)


def test_datasets_are_read_from_threads_and_other_processes(scan: Path) -> None:
    found = xr.open_dataset(scan, engine="vfs", nav_shape=(5, 6))
    again = pickle.loads(pickle.dumps(found))
    xr.testing.assert_identical(again.load(), found.copy().load())
    expected = [total(found, y) for y in range(5)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(total, [found] * 5, range(5))) == expected
    with ProcessPoolExecutor(1, get_context("spawn")) as processes:
        assert list(processes.map(total, [found] * 5, range(5))) == expected


def test_a_first_frame_needs_no_kernel(scan: Path) -> None:
    """To load them takes longer than all of xarray."""
    code = """
import sys, xarray
print(int(xarray.open_dataset(sys.argv[1], engine="vfs").data[3, 4].sum()), "numba" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-P", "-c", code, str(scan)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(SCAN[3, 4].sum()), "False"]


# writing


@pytest.mark.parametrize("kind", ["netcdf", "zarr"])
def test_everything_survives_a_copy(tmp_path: Path, kind: str) -> None:
    found = xr.open_dataset(described(tmp_path), engine="vfs")
    again = copied(found, tmp_path, kind)
    assert json.loads(again.attrs["vfs"])["camera"] == {"name": "µ", "bits": 12}
    xr.testing.assert_identical(again, found.load())


@pytest.mark.parametrize("kind", ["netcdf", "zarr"])
def test_dates_survive_a_copy(scan: Path, tmp_path: Path, kind: str) -> None:
    found = xr.open_dataset(scan, engine="vfs", nav_shape=(5, 6), chunks={})
    again = copied(found, tmp_path, kind)
    xr.testing.assert_identical(again, found.load())
    assert np.isnat(again["timestamp"][4]).all()


def copied(found: xr.Dataset, folder: Path, kind: str) -> xr.Dataset:
    if kind == "netcdf":
        found.to_netcdf(folder / "copy.nc", engine="h5netcdf")
        return xr.load_dataset(folder / "copy.nc", engine="h5netcdf", decode_timedelta=False)
    found.to_zarr(folder / "copy.zarr", consolidated=False)
    return xr.load_dataset(folder / "copy.zarr", engine="zarr", consolidated=False, decode_timedelta=False)


# trees


def container(folder: Path) -> Path:
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "many.h5", "w") as file:
        file["scan/counts"] = SCAN
        file["scan/mask"] = np.ones((8, 10), "u1")
        file["other/image"] = np.arange(12.0).reshape(3, 4)
        file["other/below/image"] = np.arange(20.0).reshape(4, 5)
    return folder / "many.h5"


def test_a_tree_has_every_array_once(tmp_path: Path) -> None:
    path = container(tmp_path)
    tree = xr.open_datatree(path, engine="vfs")
    group = vfs.open_group(path)
    found = {
        f"{node.path}/{name}": values
        for node in tree.subtree
        for name, values in node.to_dataset(inherit=False).items()
    }
    assert sorted(found) == ["/other/below/image", "/other/image/image", "/scan/counts", "/scan/mask"]
    for name, values in found.items():
        node, _, last = name.rpartition("/")
        source = node.lstrip("/") if node.endswith(f"/{last}") else name.lstrip("/")
        np.testing.assert_array_equal(values, group[source])
    assert json.loads(tree.attrs["vfs"])["format"] == "hdf5"
    assert set(xr.open_dataset(path, engine="vfs").data_vars) == {"counts", "mask"}
    assert set(xr.open_dataset(path, engine="vfs", array="scan/mask").data_vars) == {"mask"}
    assert sorted(xr.open_groups(path, engine="vfs")) == ["/", "/other/below", "/other/image", "/scan"]
    assert group.xarray().name == "many"
    xr.testing.assert_equal(group.xarray().load(), tree.load())
    np.testing.assert_array_equal(group["other/image"].xarray(), group["other/image"])


def test_arrays_that_do_not_agree_are_apart(tmp_path: Path) -> None:
    path = with_dark_frames(tmp_path)
    found = xr.open_dataset(path, engine="vfs")
    assert set(found.variables) == {"data", "exposure", "y"}  # not those of another number of frames
    tree = xr.open_datatree(path, engine="vfs")
    assert {node.path: [*node.data_vars] for node in tree.leaves} == {
        "/data": ["data", "exposure"],
        "/dark": ["dark"],
        "/other": ["other"],
    }
    np.testing.assert_array_equal(tree["dark/dark"], FRAMES[:2])
    np.testing.assert_array_equal(tree["other/y"], np.arange(8) * 3.0)
    np.testing.assert_array_equal(vfs.open_group(path)["dark"].xarray(), FRAMES[:2])


def with_dark_frames(folder: Path) -> Path:
    FRAMES.tofile(folder / "scan.bin")
    FRAMES[:2].tofile(folder / "dark.bin")
    frames = {"dtype": "<u2", "dims": ["frame", "y", "x"], "files": ["scan.bin"]}
    scale = {"attributes": {"calibration": {"y": {"scale": 2.0}}}}
    arrays = {
        "data": {**frames, **scale, "shape": [24, 8, 10], "frames": {}},
        "exposure": {
            **frames,
            "shape": [24],
            "dims": ["frame"],
            "sig_ndim": 0,
            "frames": {"footer": 158},
            "companion": True,
        },
        "dark": {**frames, "files": ["dark.bin"], "shape": [2, 8, 10], "frames": {}, "companion": True},
        "other": {**frames, "attributes": {"calibration": {"y": {"scale": 3.0}}}, "shape": [24, 8, 10], "frames": {}},
    }
    path = folder / "dark.vfs.json"
    path.write_text(json.dumps({"vfs": 1, "arrays": arrays}))
    return path


def test_a_tree_of_one_array_is_its_dataset(scan: Path) -> None:
    tree = vfs.open_group(scan).xarray()
    assert tree.groups == ("/",)
    xr.testing.assert_identical(tree.to_dataset().load(), xr.load_dataset(scan, engine="vfs"))
    chunked = xr.open_datatree(scan, engine="vfs", chunks={})
    assert chunked["data"].chunks is not None


# without opening a file for xarray


def test_arrays_give_data_arrays(tmp_path: Path) -> None:
    path = described(tmp_path)
    found = vfs.open(path).xarray()
    assert (found.name, found.dims) == ("data", ("scan_y", "scan_x", "y", "x"))
    xr.testing.assert_identical(found.load(), xr.load_dataset(path, engine="vfs")["data"])
    again = pickle.loads(pickle.dumps(vfs.open(path))).xarray()
    xr.testing.assert_identical(again.load(), found)


def test_channels_are_found_by_their_names(tmp_path: Path) -> None:
    planes = np.arange(120, dtype="u2").reshape(2, 2, 5, 6)
    found = vfs.open(write_ndtiff(tmp_path, planes, {"time": (0, 1), "channel": ("DAPI", "GFP")})).xarray()
    assert found.coords["c"].values.tolist() == ["DAPI", "GFP"]
    np.testing.assert_array_equal(found.sel(c="GFP"), planes[:, 1])
    for k, names in enumerate((["dye", "dye"], ["dye", ""])):  # nobody could tell them from each other
        xml = czi_xml(names)
        path = write_czi(tmp_path / f"{k}.czi", czi_planes(planes[0], "C"), xml=xml)
        assert "c" not in vfs.open(path).xarray().coords


def test_without_xarray_the_error_names_the_extra(scan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = vfs.open(scan)
    monkeypatch.setitem(sys.modules, "xarray", None)
    monkeypatch.delitem(sys.modules, "vfs.api.as_xarray")
    for made in (array.xarray, array.group.xarray):
        with pytest.raises(vfs.DependencyError, match=r"pip install 'vfs\[xarray\]'"):
            made()


def test_sets_that_lack_something_warn(tmp_path: Path) -> None:
    path = write_mib(tmp_path, FRAMES, frames_per_file=8, scan=(4, 6), missing=[2])
    with pytest.warns(vfs.IncompleteWarning, match="the last 8 are missing"):
        found = xr.open_dataset(path, engine="vfs", allow_incomplete=True)
    np.testing.assert_array_equal(found["data"].values.reshape(24, 8, 10)[:16], FRAMES[:16])


def test_attributes_of_the_acquisition_are_plain(tmp_path: Path) -> None:
    """Numbers with their units beside them, as netCDF holds them; the arrays beside have none of it."""
    tags = {
        "Microscope Info": {"Voltage": 300000.0, "Stage Position": {"Stage Alpha": 45.0}, "Name": "Titan"},
        "Acquisition": {"Parameters": {"Detector": {"binning": [2, 4]}}},
    }
    path = write_dm(tmp_path, np.ones((4, 6), "f4"), tags=tags)
    found = vfs.open(path).xarray()
    assert found.attrs["beam_energy"] == 300000
    assert found.attrs["beam_energy_units"] == "eV"
    assert found.attrs["stage_alpha"] == pytest.approx(np.pi / 4)
    assert found.attrs["microscope"] == "Titan"
    assert "microscope_units" not in found.attrs
    assert all(type(value) in (str, int, float, list) for value in found.attrs.values())
    whole = xr.open_dataset(path, engine="vfs")
    assert whole.attrs["beam_energy"] == 300000
    assert vfs.open_group(path).xarray().attrs["beam_energy"] == 300000
    pytest.importorskip("h5netcdf")
    whole.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "a.nc", engine="h5netcdf") as again:
        assert again.attrs["stage_alpha"] == found.attrs["stage_alpha"]
        assert again.data.attrs["beam_energy_units"] == "eV"
