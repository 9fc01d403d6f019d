"""Results in files of other programs."""

from __future__ import annotations

import csv
import os
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tifffile

import vfs
from vfs.outputs import outputs
from vfs.testing.writers import write_mib

STEPS = ["scan_y=0.0053um", "scan_x=5.3e-9m", "y=0.02 1/nm from -0.06", "x=0.02 1/nm from -0.16"]


@pytest.fixture
def scan(tmp_path: Path) -> vfs.VirtualArray:
    """A scan of a Merlin, whose frames have their bottom row first."""
    frames = np.random.default_rng(1).integers(1, 4000, (24, 8, 16)).astype(np.uint16)
    (tmp_path / "in").mkdir()
    file = write_mib(tmp_path / "in", frames, frames_per_file=5, scan=(4, 6))
    return vfs.open(file, calibration=STEPS)


def test_images_have_their_calibration(scan: vfs.VirtualArray, tmp_path: Path) -> None:
    results = scan.reduce(bf=vfs.Disk(4, 8, 3), mean=vfs.Mean(), rings=vfs.RadialSum(4, 8))
    for name, result in results.items():
        result.save(tmp_path / f"{name}.tif")
    with tifffile.TiffFile(tmp_path / "bf.tif") as file:
        page: Any = file.pages[0]
        assert file.imagej_metadata is not None
        assert file.imagej_metadata["unit"] == file.imagej_metadata["yunit"] == "nm"
        assert page.tags["XResolution"].value == (10, 53)  # pixels a nm
        assert page.tags["ResolutionUnit"].value == 1
        assert [page.tags[n].value for n in (65003, 65004)] == ["nm", "nm"]
        assert [page.tags[n].value for n in (65009, 65010)] == pytest.approx([5.3, 5.3])
        np.testing.assert_array_equal(file.asarray(), results["bf"])
    mean = vfs.open(tmp_path / "mean.tif")  # turned over; what was at 0 still is
    np.testing.assert_array_equal(mean[:], results["mean"].data[::-1].astype("f4"))
    for axis, offset in (("y", -0.08), ("x", -0.16)):
        known = mean.calibration[axis]
        assert (known["scale"], known["offset"], known["unit"]) == (0.02, pytest.approx(offset), "1/nm")
    with tifffile.TiffFile(tmp_path / "rings.tif") as file:
        assert file.imagej_metadata is not None
        assert file.imagej_metadata["images"] == file.imagej_metadata["slices"] == len(file.pages)
        np.testing.assert_array_equal(file.asarray(), np.moveaxis(results["rings"].data, 2, 0))
        assert np.ptp(np.diff([page.dataoffsets[0] for page in file.pages])) == 0, "ImageJ reads them as one block"


def test_signals_of_hyperspy(scan: vfs.VirtualArray, tmp_path: Path) -> None:
    results = scan.reduce(mean=vfs.Mean(), rings=vfs.RadialSum(4, 8), sum=vfs.Histogram(3, (0, 9)))
    for name, result in results.items():
        result.save(tmp_path / f"{name}.hspy")
    rings = vfs.open(tmp_path / "rings.hspy")
    np.testing.assert_array_equal(rings[:], results["rings"])
    assert rings.dims == results["rings"].dims
    assert rings.calibration == results["rings"].calibration
    np.testing.assert_array_equal(vfs.open(tmp_path / "mean.hspy")[:], results["mean"].data[::-1])
    with h5py.File(tmp_path / "rings.hspy") as file:
        made: Any = file["Experiments/rings"]
        assert [bool(made[f"axis-{k}"].attrs["navigate"]) for k in range(3)] == [True, True, False]
        assert made["original_metadata/vfs"].attrs["reduction"] == results["rings"].reduction


def test_numbers_along_an_axis(tmp_path: Path) -> None:
    np.save(tmp_path / "line.npy", np.arange(5 * 12, dtype="u2").reshape(5, 3, 4))
    line = vfs.open(tmp_path / "line.npy", calibration=["frame=0.5nm from 2"])
    mask = np.array([True, True, False, True, True])
    results = line.reduce(sum=vfs.FrameSum(), com=vfs.CenterOfMass(), roi=mask)
    for name in results:
        results[name].save(tmp_path / f"{name}.csv")
    rows = list(csv.reader((tmp_path / "sum.csv").read_text().splitlines()))
    assert rows[0] == ["frame (nm)", "sum"]
    assert rows[1:] == [["2", "66"], ["2.5", "210"], ["3", ""], ["3.5", "498"], ["4", "642"]]
    rows = list(csv.reader((tmp_path / "com.csv").read_text().splitlines()))
    assert rows[0] == ["frame (nm)", "y (px)", "x (px)"]
    np.testing.assert_array_equal([float(one) for one in rows[1][1:]], results["com"].data[0])
    line.reduce(h=vfs.Histogram(2, (0, 60)))["h"].save(tmp_path / "h.csv")
    assert (tmp_path / "h.csv").read_text() == "value,h\n15,30\n45,30\n"  # the middle of bins


def test_drawings_and_stores(scan: vfs.VirtualArray, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    results = scan.reduce(bf=vfs.Disk(4, 8, 3), com=vfs.CenterOfMass())
    results.save(tmp_path / "both.svg")
    results["bf"].save(tmp_path / "bf.png")
    results.save(tmp_path / "both.zarr")
    drawn = (tmp_path / "both.svg").read_text()
    assert all(text in drawn for text in ("bf: disk(cy=4, cx=8, r=3)", "scan_x (nm)", "scan_y (nm)", "px"))
    assert (tmp_path / "bf.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in (tmp_path / "both.zarr").iterdir()) == ["bf", "com", "zarr.json"]


def test_what_does_not_fit_is_said(scan: vfs.VirtualArray, tmp_path: Path) -> None:
    results = scan.reduce(bf=vfs.Disk(4, 8, 3), mean=vfs.Mean())
    with pytest.raises(vfs.OptionError, match=r"bf: OUT\.csv holds numbers along one axis, found 4 x 6"):
        results["bf"].save(tmp_path / "bf.csv")
    with pytest.raises(vfs.OptionError, match=r"holds one result, found 2 \(bf, mean\)"):
        results.save(tmp_path / "bf.tif")
    with pytest.raises(vfs.OptionError, match=r"bf\.jpg: expected a name such as OUT\.png"):
        results["bf"].save(tmp_path / "bf.jpg")
    results["bf"].save(tmp_path / "bf.npy")
    with pytest.raises(vfs.OptionError, match="exists already"):
        results["bf"].save(tmp_path / "bf.npy")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bf.npy", "in"]


def test_nothing_is_left_of_a_folder_into_which_threads_still_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Icechunk's went on where the disk was full, and the folder stayed."""
    real, late = shutil.rmtree, ["late"]

    def remove(path: str, **how: bool) -> None:
        real(path, **how)
        if late:
            os.makedirs(os.path.join(path, late.pop()))

    monkeypatch.setattr(outputs.shutil, "rmtree", remove)
    monkeypatch.setattr(outputs.time, "sleep", lambda seconds: None)

    def write() -> None:
        with outputs.whole(tmp_path / "x") as partial:
            os.mkdir(partial)
            raise OSError(28, "full")

    with pytest.raises(vfs.OptionError, match="full"):
        write()
    assert not late
    assert os.listdir(tmp_path) == []


@pytest.fixture
def spectrum(tmp_path: Path) -> vfs.Result:
    np.save(tmp_path / "map.npy", np.arange(24, dtype="u2").reshape(2, 3, 4) * 0.5)
    array = vfs.open(tmp_path / "map.npy", nav_shape=(2, 3), sig_ndim=1, calibration=["x=0.25eV from -1"])
    return array.reduce(total=vfs.Sum())["total"]


def test_a_spectrum_is_written_for_emsa_mas(tmp_path: Path, spectrum: vfs.Result) -> None:
    spectrum.save(tmp_path / "o.msa")
    head: dict[str, str] = {}
    rows: list[tuple[float, float]] = []
    for line in (tmp_path / "o.msa").read_text().splitlines():
        if line.startswith("#"):
            head[line[1:13].strip()] = line[15:]
            assert line[13:15] == ": "
        else:
            place, value = map(float, line.split(","))
            rows.append((place, value))
    assert next(iter(head)) == "FORMAT"
    assert [*head][-2:] == ["SPECTRUM", "ENDOFDATA"]
    assert (head["NPOINTS"], head["XUNITS"], head["DATATYPE"]) == ("4", "eV", "XY")
    assert (float(head["XPERCHAN"]), float(head["OFFSET"])) == (0.25, -1)
    assert rows == [(-1 + 0.25 * k, value) for k, value in enumerate(spectrum.data)]


def test_only_a_spectrum_is_written_for_emsa_mas(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones((4, 5, 6), "u2"))
    results = vfs.open(tmp_path / "a.npy", nav_shape=(2, 2)).reduce(image=vfs.Sum())
    with pytest.raises(
        vfs.OptionError, match=r"image: OUT\.msa holds real numbers along one axis, found 5 x 6 of uint64"
    ):
        results["image"].save(tmp_path / "o.msa")
    assert not (tmp_path / "o.msa").exists()


def test_a_result_for_xarray(spectrum: vfs.Result) -> None:
    pytest.importorskip("xarray")
    found = spectrum.xarray()
    assert (found.name, found.dims) == ("total", spectrum.dims)
    np.testing.assert_array_equal(found.values, spectrum.data)
    np.testing.assert_array_equal(found[spectrum.dims[0]], [-1, -0.75, -0.5, -0.25])
    assert found[spectrum.dims[0]].attrs["units"] == "eV"
    assert found.attrs["reduction"] == "sum()"
