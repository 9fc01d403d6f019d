"""What is said for each section of a stack: extended headers of MRC, and SerialEM's .mdoc."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.formats.frame_checks import frames_of, same
from vfs.testing.stack_writers import write_mrc
from vfs.testing.tiff_writers import write_tiff

xarray = pytest.importorskip("xarray")

STACK = frames_of((5, 3, 4), "u2")
TILTS = [-6.01, -3.0, 0.02, 3.0, 6.0]


def write_mdoc(path: Path, tilts: Sequence[float | str], more: str = "") -> Path:
    """Write the .mdoc of a stack, a section for each tilt."""
    lines = ["PixelSpacing = 2.5", "Voltage = 300", "ImageFile = a.mrc", ""]
    lines += ["[T = SerialEM: Titan Krios 25-Mar-21 16:59:53    ]", "[T = Tilt axis angle = -86.7, binning = 1]", ""]
    for k, tilt in enumerate(tilts):
        lines += [f"[ZValue = {k}]", f"TiltAngle = {tilt}", f"StagePosition = {k} -2.5", "Magnification = 42000"]
        lines += [f"DateTime = 25-Mar-21  17:00:{k:02}", f"Defocus = -{k}.5", "ExposureDose = 3", "ExposureTime = 1.5"]
        lines += [f"SubFramePath = D:\\frames_{k}.tif", "Binning = 2", more, ""]
    path.write_text("\r\n".join(lines))
    return path


def values(array: vfs.VirtualArray) -> dict[str, Any]:
    return {name: one.value for name, one in array.metadata.items()}


@pytest.fixture
def stack(tmp_path: Path) -> Path:
    path = write_mrc(tmp_path, STACK, 6, name="a.mrc")
    write_mdoc(tmp_path / "a.mrc.mdoc", TILTS)
    return path


def test_a_frame_is_found_by_its_tilt(stack: Path) -> None:
    array = vfs.open(stack)
    assert array.dims == ("tilt", "y", "x")
    shown = array.xarray()
    same(shown.sel(tilt=3.0).values, STACK[3])
    same(shown.sel(tilt=0, method="nearest").values, STACK[2])
    assert shown.tilt.attrs["units"] == "deg"
    same(shown.dose.values, np.full(5, 3.0))
    assert str(shown.timestamp.values[4]) == "2021-03-25T17:00:04.000000000"
    assert shown.defocus.sel(tilt=6).item() == -4.5
    group = vfs.open_group(stack)
    same(group["tilt"][1:3], np.array(TILTS[1:3]))
    same(group["stage_x"][...], np.arange(5.0))
    assert group["stage_y"].dims == ("tilt",)


def test_the_nearest_tilt_is_found_in_any_order(tmp_path: Path) -> None:
    """Dose-symmetric schemes record 0°, 3°, -3°, -6°, 6°."""
    path = write_mrc(tmp_path, STACK, 6, name="a.mrc")
    write_mdoc(tmp_path / "a.mrc.mdoc", [0.01, 3, -3, -6, 6])
    shown = vfs.open(path).xarray()
    for tilt, k in ((0, 0), (-5, 3), (100, 4), (-1.6, 2)):
        same(shown.sel(tilt=tilt, method="nearest").values, STACK[k])
    same(shown.sel(tilt=[5.9, -2.9], method="nearest").values, STACK[[4, 2]])
    same(shown.sel(tilt=xarray.DataArray([2.9, -5.9], dims="k"), method="nearest").values, STACK[[1, 3]])
    same(shown.sel(tilt=-3).values, STACK[2])
    with pytest.raises(KeyError):
        shown.sel(tilt=10, method="nearest", tolerance=1)
    assert shown.sel(tilt=5, method="pad").tilt.item() == 3
    in_order = shown.sortby("tilt")
    same(in_order.values, STACK[[3, 2, 0, 1, 4]])
    same(in_order.sel(tilt=slice(-4, 4)).values, STACK[[2, 0, 1]])
    same(in_order.sel(tilt=5, method="nearest").values, STACK[4])
    same((shown + shown).sel(tilt=2, method="nearest").values, 2 * STACK[1])
    assert shown.isel(tilt=[0, 2]).sel(tilt=-4, method="nearest").tilt.item() == -3
    shown.to_dataset(name="a").to_netcdf(tmp_path / "a.nc")


def test_what_all_sections_share_is_metadata(stack: Path) -> None:
    array = vfs.open(stack)
    found = values(array)
    assert (found["beam_energy"], found["magnification"], found["exposure_time"]) == (300e3, 42000, 1.5)
    assert (found["microscope"], found["software"], found["time"]) == ("Titan Krios", "SerialEM", "2021-03-25T17:00:00")
    assert (found["dose"], found["binning"]) == (pytest.approx(3e20), 2)
    assert found["tilt_axis_angle"] == pytest.approx(math.radians(-86.7))
    assert not found.keys() & {"stage.alpha", "defocus", "stage.x"}, "sections differ"
    assert array.attrs["mdoc"]["each_section"]["SubFramePath"][4] == "D:\\frames_4.tif"


@pytest.mark.parametrize("tilts", [[0] * 5, [1, 2, 3, 4, 4], [1, 2, "x", 4, 5], [1, 2, 3]])
def test_sections_without_a_tilt_of_their_own_stay_frames(tilts: list[Any], tmp_path: Path) -> None:
    path = write_mrc(tmp_path, STACK, 6, name="a.mrc")
    write_mdoc(tmp_path / "a.mrc.mdoc", tilts)
    array = vfs.open(path)
    assert array.dims == ("frame", "y", "x")
    expected = [one if isinstance(one, int) else math.nan for one in [*tilts, *["x"] * (5 - len(tilts))]]
    np.testing.assert_array_equal(array.xarray().tilt.values, expected)


def test_sections_keep_the_name_that_is_asked_for(stack: Path) -> None:
    assert vfs.open(stack, sections="z").dims == ("z", "y", "x")
    array = vfs.open(stack, nav_shape=(1, 5))
    assert array.shape == (1, 5, 3, 4)
    same(array[0, 3], STACK[3])
    np.testing.assert_array_equal(vfs.open_group(stack, sync_offset=1)["defocus"][...], [-1.5, -2.5, -3.5, -4.5, 0])


def test_a_single_image_has_the_tilt_of_its_section(tmp_path: Path) -> None:
    path = write_mrc(tmp_path, STACK[:1], 6, name="a.mrc")
    write_mdoc(tmp_path / "a.mrc.mdoc", [30], "FilterSlitAndLoss = 20 0")
    found = values(vfs.open(path))
    assert found["stage.alpha"] == pytest.approx(math.radians(30))
    assert (found["defocus"], found["stage.y"]) == (pytest.approx(-0.5e-6), pytest.approx(-2.5e-6))
    assert found["slit_width"] == 20


@pytest.mark.parametrize("head", ["[FrameSet = 0]", "[ZValue = 0]"])
def test_frames_of_one_exposure_share_what_is_said_of_it(head: str, tmp_path: Path) -> None:
    path = write_mrc(tmp_path, STACK, 6, name="a.mrc")
    write_mdoc(tmp_path / "a.mrc.mdoc", [30])
    text = (tmp_path / "a.mrc.mdoc").read_text().replace("[ZValue = 0]", head)
    (tmp_path / "a.mrc.mdoc").write_text(text)
    assert list(vfs.open_group(path)) == ["data"]
    array = vfs.open(path)
    assert array.dims == ("frame", "y", "x")
    assert values(array)["stage.alpha"] == pytest.approx(math.radians(30))


@pytest.mark.parametrize(
    "text", ["", "\0\xff", "[ZValue = 99999999999]\nTiltAngle = 1", "[ZValue = -1]\nTiltAngle=2", "=", "[T"]
)
def test_a_garbled_mdoc_says_nothing(text: str, tmp_path: Path) -> None:
    path = write_mrc(tmp_path, STACK, 6, name="a.mrc")
    (tmp_path / "a.mrc.mdoc").write_text(text)
    array = vfs.open(path)
    same(array[...], STACK)
    assert array.dims == ("frame", "y", "x")
    assert not array.metadata


def with_records(path: Path, kind: bytes, integers: int, flags: int, rows: bytes) -> Path:
    """Replace the extended header of an MRC file, its type, and what SerialEM says of its records."""
    data = bytearray(path.read_bytes())
    pixels = data[1024 + int.from_bytes(data[92:96], "little") :]
    data[92:96], data[104:108], data[128:132] = struct.pack("<i", len(rows)), kind, struct.pack("<2h", integers, flags)
    path.write_bytes(bytes(data[:1024]) + rows + bytes(pixels))
    return path


def test_records_of_serialem(tmp_path: Path) -> None:
    """Tilt, stage, magnification, intensity, dose: flags 1, 4, 8, 16 and 32."""
    each = [struct.pack("<hhhhhf", round(100 * tilt), 25 * k, -50, 420, 25000, 3.0) for k, tilt in enumerate(TILTS)]
    path = with_records(write_mrc(tmp_path, STACK, 6), b"SERI", 14, 61, b"".join(each))
    array = vfs.open(path)
    same(array[...], STACK)
    shown = array.xarray()
    same(shown.sel(tilt=0, method="nearest").values, STACK[2])
    np.testing.assert_allclose(shown.tilt.values, TILTS)
    np.testing.assert_allclose(shown.stage_x.values, np.arange(5.0))
    np.testing.assert_allclose(shown.magnification.values, [42000] * 5)
    path = with_records(path, b"SERI", 12, 61, b"".join(each))
    assert vfs.open(path).dims == ("frame", "y", "x"), "bytes that do not fit the flags say nothing"


def test_records_of_32_reals(tmp_path: Path) -> None:
    each = [
        struct.pack("<9f", tilt, 0, 1e-6 * k, 0, 0, 0, 0, -2e-6, 1.5).ljust(128, b"\0") for k, tilt in enumerate(TILTS)
    ]
    array = vfs.open(with_records(write_mrc(tmp_path, STACK, 6), b"AGAR", 0, 32, b"".join(each)))
    same(array[...], STACK)
    assert array.dims == ("tilt", "y", "x")
    shown = array.xarray()
    np.testing.assert_allclose(shown.tilt.values, TILTS, rtol=1e-6)
    np.testing.assert_allclose(shown.stage_x.values, 1e-6 * np.arange(5))


def test_records_of_fei(tmp_path: Path) -> None:
    """The tilts that `write_mrc` writes are 0, 0.1, 0.2 …"""
    array = vfs.open(write_mrc(tmp_path, STACK, 6, fei=True))
    assert array.dims == ("tilt", "y", "x")
    same(array.xarray().sel(tilt=0.21, method="nearest").values, STACK[2])
    assert values(array)["time"] == "2020-06-18T12:00:00"


def test_records_of_fei_have_what_the_microscope_says(tmp_path: Path) -> None:
    path = write_mrc(tmp_path, STACK[:1], 6, fei=True)
    data = bytearray(path.read_bytes())
    for at, form, said in [
        (20, "16s", b"Spectra"),
        (84, "d", 300000.0),
        (100, "d", 30.0),
        (116, "d", 2.4e-5),
        (220, "d", 1e-6),
        (244, "i", 2),
        (301, "d", 0.0911),
        (309, "i", 6),
        (329, "d", 0.0143),
        (427, "i", 2),
        (519, "16s", b"HAADF"),
        (571, "d", 0.01),
        (579, "d", 2.72),
    ]:
        struct.pack_into(f"<{form}", data, 1024 + at, said)
    path.write_bytes(data)
    found = values(vfs.open(path))
    assert (found["microscope"], found["instrument"], found["detector"]) == ("Spectra", "STEM", "HAADF")
    assert (found["beam_energy"], found["camera_length"], found["spot_size"]) == (300e3, 0.0911, 6)
    assert (found["dwell_time"], found["frame_time"], found["convergence_angle"]) == (0.01, 2.72, 0.0143)
    assert (found["stage.alpha"], found["stage.x"]) == (pytest.approx(math.pi / 6), 2.4e-5)
    assert "binning" not in found, "of a camera that did not take the image"


def test_a_tiff_stack_has_its_mdoc(tmp_path: Path) -> None:
    path = write_tiff(tmp_path / "a.tif", list(STACK), description="SerialEM: Titan Krios 25-Mar-21 16:59:53")
    write_mdoc(tmp_path / "a.tif.mdoc", TILTS)
    array = vfs.open(path)
    assert array.dims == ("tilt", "y", "x")
    same(array.xarray().sel(tilt=3.0).values, STACK[3])
    assert values(array)["beam_energy"] == 300e3
    assert array.calibration["x"] == {"scale": 2.5, "offset": 0.0, "unit": "angstrom"}
