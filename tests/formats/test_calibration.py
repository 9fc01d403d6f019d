"""What formats say of their axes: the table in the docs, and fields that only some files have."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tifffile

import vfs
from tests.conformance.rows import ROWS
from tests.formats.frame_checks import frames_of
from vfs.testing.frame_writers import write_blo
from vfs.testing.stack_writers import write_mrc, write_ser

PAGE = Path(vfs.__file__).parent / "docs" / "formats.md"
ASCII, DOUBLE = 2, 12  # types of TIFF tags


def table() -> list[list[str]]:
    """The rows of the table: format, axes."""
    found = re.search(r"<!-- calibration -->\n(.*?)<!-- /calibration -->", PAGE.read_text(), re.DOTALL)
    assert found
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in found[1].splitlines()[2:]]


def test_the_table_is_in_the_order_of_names() -> None:
    names = [row[0] for row in table()]
    assert names == sorted({*names})


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_table_names_the_axes_that_sets_have(row: Any) -> None:
    (said,) = [one[1] for one in table() if one[0] == row.format]
    lacks = {*row.calibrated} - {*re.findall(r"`(\w+)`", said)}
    assert said.startswith("any axis") or not lacks, (
        f"vfs/docs/formats.md, <!-- calibration -->: {row.format} says {sorted(lacks)}, too"
    )


def near(array: vfs.VirtualArray, expected: dict[str, tuple[float, float, str]]) -> None:
    """Compare what an array says of its axes: (scale, offset, unit) of each."""
    found = steps(array)
    assert {dim: unit for dim, (_, _, unit) in found.items()} == {dim: unit for dim, (_, _, unit) in expected.items()}
    for dim, numbers in expected.items():
        assert found[dim][:2] == pytest.approx(numbers[:2], rel=1e-6), dim


def steps(array: vfs.VirtualArray) -> dict[str, tuple[float, float, str]]:
    assert array.attrs.get("calibration", {}) == array.calibration
    return {dim: (axis["scale"], axis["offset"], axis["unit"]) for dim, axis in array.calibration.items()}


IMAGEJ = "ImageJ=1.53t\nimages=6\nslices=3\nframes=2\nhyperstack=true\n"
FEI = "[User]\r\nDate=1\r\n[Scan]\r\nPixelWidth=3.5e-9\r\nPixelHeight=4e-9\r\n[EScan]\r\nPixelWidth=9\r\n"
ZEISS = "0\r\nAP_MAG\r\nMag = 10 X\r\nAP_IMAGE_PIXEL_SIZE\r\nImage Pixel Size = 12.5 nm\r\nAP_WD\r\nWD = 5.0 mm\r\n"
TIFF: dict[str, tuple[dict[str, Any], dict[str, tuple[float, float, str]]]] = {
    "72 dots per inch": ({"resolution": (72, 72, 2)}, {}),
    "300 dots per inch": ({"resolution": (300, 300, 2)}, {}),
    "28.35 dots per cm": ({"resolution": (28.35, 28.35, 3)}, {}),
    "one per cm": ({"resolution": (1, 1, 3)}, {}),
    "300 dots per inch in cm": ({"resolution": (118.11, 118.11, 3)}, {}),
    "pixels of 0.1 mm": ({"resolution": (100, 100, 3)}, {"y": (0.01, 0, "cm"), "x": (0.01, 0, "cm")}),
    "no unit": ({"resolution": (149, 149, 1)}, {}),
    "of a microscope": ({"resolution": (2e7, 4e7, 3)}, {"y": (2.5e-8, 0, "cm"), "x": (5e-8, 0, "cm")}),
    "of a detector": ({"resolution": (58.13953, 58.13953, 3)}, {"y": (0.0172, 0, "cm"), "x": (0.0172, 0, "cm")}),
    "ImageJ": (
        {"resolution": (4, 2, 1), "description": IMAGEJ + "unit=\\u00B5m\nspacing=1.5\nfinterval=0.25\n"},
        {"t": (0.25, 0, "s"), "z": (1.5, 0, "um"), "y": (0.5, 0, "um"), "x": (0.25, 0, "um")},
    ),
    "ImageJ with a unit of time": (
        {"description": IMAGEJ + "spacing=1.0\nfinterval=20.0\ntunit=msec\n"},
        {"t": (20, 0, "ms")},
    ),
    "ImageJ in pixels": ({"resolution": (1, 1, 1), "description": IMAGEJ + "unit=pixel\nspacing=1.0\n"}, {}),
    "ImageJ of a scanned page": ({"resolution": (96, 96, 2), "description": IMAGEJ + "unit=inch\n"}, {}),
    "FEI": (
        {"resolution": (72, 72, 2), "extratags": [(34682, ASCII, 0, FEI, True)]},
        {"y": (4e-9, 0, "m"), "x": (3.5e-9, 0, "m")},
    ),
    "FEI without a scan": ({"extratags": [(34682, ASCII, 0, "[User]\r\nPixelWidth=3\r\n", True)]}, {}),
    "Zeiss": ({"extratags": [(34118, ASCII, 0, ZEISS, True)]}, {"y": (12.5, 0, "nm"), "x": (12.5, 0, "nm")}),
    "DigitalMicrograph": (
        {
            "resolution": (72, 72, 2),
            "extratags": [
                *((65003 + k, ASCII, 0, unit, True) for k, unit in enumerate(("nm", "1/nm", "s"))),
                *((65006 + k, DOUBLE, 1, float(k), True) for k in range(3)),
                *((65009 + k, DOUBLE, 1, 0.5 + k, True) for k in range(3)),
            ],
        },
        {"frame": (2.5, 2, "s"), "y": (1.5, 1, "1/nm"), "x": (0.5, 0, "nm")},
    ),
}


@pytest.mark.parametrize("name", TIFF)
def test_tiff(tmp_path: Path, name: str) -> None:
    how, expected = TIFF[name]
    *dots, unit = how.get("resolution", (1, 1, 1))
    path = tmp_path / "a.tif"
    more = {**how, "metadata": None, "resolution": tuple(dots), "resolutionunit": unit, "photometric": "minisblack"}
    tifffile.imwrite(path, frames_of((6, 5, 7), "u2"), **more)
    array = vfs.open(path)
    near(array, expected)
    assert array.attrs["dots"] == {
        "x": pytest.approx(dots[0], rel=1e-6),
        "y": pytest.approx(dots[1], rel=1e-6),
        "per": ("", "inch", "cm")[unit - 1],
    }


@pytest.mark.parametrize(
    ("delta", "unit"),
    [(2e-11, "m"), (9e-4, "m"), (0.5, ""), (4e7, "1/m"), (1001, "1/m"), (float("nan"), None), (0, None)],
)
def test_ser_pixels_have_the_unit_of_their_size(tmp_path: Path, delta: float, unit: str | None) -> None:
    path = write_ser(tmp_path, frames_of((3, 4, 5), "u2"))
    data = path.read_bytes().replace(struct.pack("<dd", 1.0, 0.25), struct.pack("<dd", 2 * delta, delta))
    path.write_bytes(data)
    array = vfs.open(path)
    assert ("y" in array.calibration) == (unit is not None)
    assert unit is None or steps(array)["y"] == (delta, 2 * delta, unit)


def test_ser_energies_and_scans_that_nobody_calibrated(tmp_path: Path) -> None:
    path = write_ser(tmp_path, frames_of((2, 3, 4), "u2"), sig_ndim=1)
    assert {dim: unit for dim, (_, _, unit) in steps(vfs.open(path)).items()} == {
        "scan_y": "m",
        "scan_x": "m",
        "energy": "eV",
    }
    path.write_bytes(path.read_bytes().replace(struct.pack("<d", 0.5), struct.pack("<d", 1.0)))
    array = vfs.open(path)
    assert list(array.calibration) == ["energy"]
    assert [axis["unit"] for axis in array.attrs["scan_axes"]] == ["meters", "meters"]


def test_mrc_pixels_of_an_extended_header(tmp_path: Path) -> None:
    path = write_mrc(tmp_path, frames_of((2, 4, 5), "u2"), 6, fei=True)
    assert steps(vfs.open(path))["x"][2] == "angstrom"
    data = bytearray(path.read_bytes())
    data[40:52] = bytes(12)  # no unit cell
    data[1024 + 156 : 1024 + 172] = struct.pack("<2d", 2e-9, 3e-9)
    path.write_bytes(data)
    near(vfs.open(path, sections="z"), {"y": (3e-9, 0, "m"), "x": (2e-9, 0, "m")})


RASTER = {"Scan - Size X": 3, "Scan - Size Y": 2}
SIZES = {
    "Specimen Pixel Size X (nanometers)": 0.1,
    "Specimen Pixel Size Y (nanometers)": 0.2,
    "Diffraction Pixel Size X": 0.3,
    "Diffraction Pixel Size Y": 0.4,
}


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        (
            RASTER | SIZES,
            {"scan_y": (0.2, 0, "nm"), "scan_x": (0.1, 0, "nm"), "y": (0.4, 0, "1/nm"), "x": (0.3, 0, "1/nm")},
        ),
        (RASTER | dict.fromkeys(SIZES, -1), {}),
        (SIZES, {"y": (0.2, 0, "nm"), "x": (0.1, 0, "nm")}),
        (
            SIZES | {"Instrument Project Camera Length (centimeters)": 30},
            {"y": (0.4, 0, "1/nm"), "x": (0.3, 0, "1/nm")},
        ),
        (
            {"Frames Per Second": 200, "Autosave Movie Sum Count": 4, "Diffraction Pixel Size X": "wide"},
            {"frame": (0.02, 0, "s")},
        ),
    ],
)
def test_mrc_of_direct_electron(tmp_path: Path, info: dict[str, Any], expected: dict[str, Any]) -> None:
    path = write_mrc(tmp_path, frames_of((6, 4, 5), "u2"), 6, name="a_movie.mrc")
    data = bytearray(path.read_bytes())
    data[40:52] = bytes(12)
    path.write_bytes(data)
    (tmp_path / "a_info.txt").write_text("".join(f"{key} = {said}\n" for key, said in info.items()))
    near(vfs.open(path), expected)


def velox(folder: Path, kind: str, data: np.ndarray, said: object) -> vfs.VirtualArray:
    """An array that Velox wrote, with its metadata."""
    path = folder / "a.emd"
    text = np.frombuffer(json.dumps(said).encode().ljust(4000, b"\0"), np.uint8)[:, None]
    with h5py.File(path, "w") as file:
        file[f"Data/{kind}/abc/Data"] = data
        file[f"Data/{kind}/abc/Metadata"] = text
    return vfs.open(path, array=f"Data/{kind}/abc/Data")


def test_velox(tmp_path: Path) -> None:
    detectors = {"Detector-6": {"Dispersion": "10", "OffsetEnergy": "-250"}}
    said: dict[str, Any] = {"BinaryResult": {"DetectorIndex": "6"}, "Detectors": detectors}
    array = velox(tmp_path, "Spectrum", np.zeros((64, 1), "u4"), said)
    assert array.dims == ("energy", "spectrum")
    near(array, {"energy": (10, -250, "eV")})
    near(velox(tmp_path, "Spectrum", np.zeros((64, 1), "u4"), {"BinaryResult": {}}), {})
    near(velox(tmp_path, "Spectrum", np.zeros((64, 1), "u4"), []), {})
    pixel = {"PixelSize": {"width": "2e-9", "height": "3e-9"}, "Offset": {"x": "-1e-8", "y": "0"}}
    said = {"BinaryResult": {**pixel, "PixelUnitX": "m", "PixelUnitY": "m"}, "Scan": {"FrameTime": "0.5"}}
    expected = {"y": (3e-9, 0, "m"), "x": (2e-9, -1e-8, "m"), "frame": (0.5, 0, "s")}
    near(velox(tmp_path, "Image", np.zeros((4, 5, 2), "u2"), said), expected)


def test_nxmx(tmp_path: Path) -> None:
    path = tmp_path / "a_master.h5"
    with h5py.File(path, "w") as file:
        for k in (1, 2):
            file[f"entry/data/data_00000{k}"] = np.zeros((3, 4, 5), "u2")
        for name, value, unit in (
            ("frame_time", 1e-3, b"s"),
            ("x_pixel_size", 1e-4, "m"),
            ("y_pixel_size", [2e-4], "m"),
        ):
            file[f"entry/instrument/detector/{name}"] = value
            file[f"entry/instrument/detector/{name}"].attrs["units"] = unit
    array = vfs.open(path)
    assert array.dims == ("dim_0", "y", "x")
    near(array, {"dim_0": (1e-3, 0, "s"), "y": (2e-4, 0, "m"), "x": (1e-4, 0, "m")})
    with h5py.File(path, "a") as file:
        for name in ("x_pixel_size", "frame_time"):
            del file[f"entry/instrument/detector/{name}"]
        file["entry/instrument/detector/x_pixel_size"] = -1.0
    near(vfs.open(path), {"y": (2e-4, 0, "m")})


def test_blo_without_steps(tmp_path: Path) -> None:
    path = write_blo(tmp_path, frames_of((2, 3, 4, 4), "u1"))
    data = bytearray(path.read_bytes())
    data[30:46] = struct.pack("<2d", -1.0, 0.0)
    path.write_bytes(data)
    assert list(vfs.open(path).calibration) == ["y", "x"]
