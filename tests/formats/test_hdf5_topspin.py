"""Scans of TopSpin: a data set for each frame becomes one array, in the shape of the scan."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

import vfs
from tests.formats.frame_checks import incomplete
from vfs.testing.inside import set_of

A, B, C = (f"{n}9a4bbcd-2551-4912-9093-0eaed678dcff" for n in "3ab")
STEP = 2e-9
TWIN = np.random.default_rng(1).random((6, 5, 4)).astype("<f4")

FRAME = """<?xml version="1.0" encoding="utf-16"?>\r
<Metadata Serializer="SeriesItemSerializer" Version="1">\r
  <Calibration Serializer="ImageCalibrationSerializer" Version="1">\r
    <X Serializer="A" Version="1">\r
      <Offset Serializer="Double" Version="1">-0.0027</Offset>\r
      <Scale Serializer="Double" Version="1">2.5E-05</Scale>\r
      <Type Serializer="C" Version="1">\r <Index Serializer="Int32" Version="1">2</Index>\r
        <Text Serializer="String" Version="1">Angle</Text>\r\n </Type>\r\n </X>\r
    <Y Serializer="A" Version="1">\r
      <Offset Serializer="Double" Version="1">0.0017</Offset>\r
      <Scale Serializer="Double" Version="1">-1E-05</Scale>\r
      <Type Serializer="C" Version="1"><Text Serializer="String" Version="1">Angle</Text></Type></Y></Calibration>\r
  <Metadata Serializer="D" Version="1">\r\n <Item>\r
      <Name Serializer="String" Version="1">RequestedBeamPosition</Name>\r
      <Value Serializer="ImagePositionSerializer" Version="1">\r
        <X Serializer="Double" Version="1">{x}</X>\r
        <Y Serializer="Double" Version="1">{y}</Y>\r\n </Value></Item></Metadata></Metadata>"""


def write(folder: Path, places: list[tuple[float, float]] | None, frames: np.ndarray = TWIN, above: str = "") -> Path:
    """Write an experiment: frames, an image that is larger, and texts. `places` are (y, x) in steps."""
    path = folder / "scan.app5"
    with h5py.File(path, "a") as file:
        top = file.require_group(above) if above else file
        top[B] = np.ones((80, 56))
        top["Metadata"] = np.bytes_("<Metadata/>")
        for n, frame in enumerate(frames):
            top[f"{A}/{n}/Data"] = frame
            if places:
                y, x = places[n]
                top[f"{A}/{n}/Metadata"] = np.bytes_(FRAME.format(x=7e-7 - x * STEP, y=1e-7 + y * STEP))
    return path


def raster(lines: int, columns: int) -> list[tuple[float, float]]:
    return [(y, x) for y in range(lines) for x in range(columns)]


@pytest.mark.parametrize("shape", [(2, 3), (3, 2), (6, 1), (1, 6)])
def test_a_raster(tmp_path: Path, shape: tuple[int, int]) -> None:
    """Of a single column the step along the lines is not known: its frames stay a series."""
    group = vfs.open_group(write(tmp_path, raster(*shape)))
    array = group.main
    known = shape[1] > 1
    assert set_of(group).tree.main == f"{A}/Data"
    assert array.dims == (("scan_y", "scan_x") if known else ("frame",)) + ("y", "x")
    assert np.array_equal(array[...], TWIN.reshape(*shape, 5, 4) if known else TWIN)
    found = array.attrs["calibration"]
    assert found["y"] == {"scale": -1e-5, "offset": 0.0017, "unit": "rad"}
    assert found["x"] == {"scale": 2.5e-5, "offset": -0.0027, "unit": "rad"}
    if known:
        assert found["scan_x"] == pytest.approx({"scale": -STEP, "offset": 7e-7, "unit": "m"})
        assert ("scan_y" in found) == (shape[0] > 1)
    assert not any(name.endswith("/Metadata") for name in array.attrs["root"]["left_out"])


@pytest.mark.parametrize("stored", [{"compression": "gzip"}, {"chunks": (2, 4)}])
def test_a_raster_in_chunks(tmp_path: Path, stored: dict[str, object]) -> None:
    path = write(tmp_path, raster(2, 3))
    with h5py.File(path, "a") as file:
        for n, frame in enumerate(TWIN):
            del file[f"{A}/{n}/Data"]
            file[f"{A}/{n}"].create_dataset("Data", data=frame, **stored)
    array = vfs.open(path)
    assert np.array_equal(array[...], TWIN.reshape(2, 3, 5, 4))
    assert np.array_equal(vfs.open(path, nav_shape=(6,))[1:4], TWIN[1:4])


@pytest.mark.parametrize(
    "places",
    [
        pytest.param([(y, 2 - x if y else x) for y, x in raster(2, 3)], id="serpentine"),
        pytest.param([(0, 5), (3, 1), (2, 2), (0, 0), (1, 4), (2, 0)], id="any"),
        pytest.param([(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1)], id="not whole"),
        pytest.param([(0, 0)] * 6, id="one place"),
        pytest.param([(0, 0), (0, float("nan")), (0, 0), (0, 0), (0, 0), (0, 0)], id="no number"),
        pytest.param(None, id="no metadata"),
    ],
)
def test_frames_that_are_no_raster_are_a_series(tmp_path: Path, places: list[tuple[float, float]] | None) -> None:
    array = vfs.open(write(tmp_path, places))
    assert array.dims == ("frame", "y", "x")
    assert np.array_equal(array[...], TWIN)


def test_many_frames_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    """Names in HDF5 are sorted as texts: 0, 1, 10, 11, …, 2. Of 120 frames a few positions are asked for."""
    twin = np.arange(120 * 6, dtype="<u2").reshape(120, 2, 3)
    path = write(tmp_path, raster(10, 12), twin)
    assert np.array_equal(vfs.open(path)[...], twin.reshape(10, 12, 2, 3))


def test_several_experiments(tmp_path: Path) -> None:
    write(tmp_path, raster(2, 3), TWIN, B)
    path = write(tmp_path, raster(3, 2), TWIN[::-1], C)
    group = vfs.open_group(path)
    assert np.array_equal(group[f"{B}/{A}/Data"][...], TWIN.reshape(2, 3, 5, 4))
    assert np.array_equal(group[f"{C}/{A}/Data"][...], TWIN[::-1].reshape(3, 2, 5, 4))
    assert set_of(group).tree.main == f"{B}/{A}/Data"


def test_experiments_have_the_order_of_the_file(tmp_path: Path) -> None:
    """In every process the same, although all are equals."""
    for k in range(6):
        path = write(tmp_path, raster(2, 3), TWIN, f"{k}{A[1:]}")
    scans = [name for name in vfs.open_group(path) if name.endswith("/Data")]
    assert scans == [f"{k}{A[1:]}/{A}/Data" for k in range(6)]


def test_a_frame_that_is_not_there_is_a_loss(tmp_path: Path) -> None:
    path = write(tmp_path, raster(2, 3))
    with h5py.File(path, "a") as file:
        del file[f"{A}/4"]
    array = incomplete(path, f"{A}/4/Data is not there, but {A}/5/Data is", kind=vfs.MissingSourceError)
    twin = TWIN.copy()
    twin[4] = 0
    assert np.array_equal(array[...].reshape(twin.shape), twin)


def test_frames_of_other_shapes_stay_apart(tmp_path: Path) -> None:
    path = write(tmp_path, None)
    with h5py.File(path, "a") as file:
        del file[f"{A}/3/Data"]
        file[f"{A}/3/Data"] = np.ones((7, 7), "<f4")
    with pytest.warns(vfs.IncompleteWarning, match="stay apart"):
        assert len(vfs.open_group(path)) == 7
