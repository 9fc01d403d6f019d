"""What a user of HyperSpy gets who loads a set: lazy signals with calibrated axes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.conftest import SHARED
from tests.formats.hdf5_sets import write_velox
from vfs.testing.frame_writers import write_blo
from vfs.testing.stack_writers import write_emi, write_ser
from vfs.testing.writers import write_mib


@pytest.fixture
def hs() -> Any:
    return pytest.importorskip("hyperspy.api")


@pytest.fixture
def scan(tmp_path: Path) -> tuple[Path, np.ndarray]:
    frames = np.random.default_rng(1).integers(0, 1000, (48, 16, 16)).astype("u2")
    return write_mib(tmp_path, frames, scan=(6, 8), frames_per_file=10), frames.reshape(6, 8, 16, 16)


def test_a_scan_is_a_lazy_signal(hs: Any, scan: tuple[Path, np.ndarray], shapes_read: list[tuple[int, ...]]) -> None:
    path, frames = scan
    s = hs.load(str(path), file_format=vfs.rsciio, lazy=True)
    assert repr(s) == "<LazySignal2D, title: scan, dimensions: (8, 6|16, 16)>"
    assert shapes_read == []
    frame = s.inav[3, 5]  # HyperSpy counts x first
    frame.compute(show_progressbar=False)
    assert (frame.data == frames[5, 3, ::-1]).all()  # the top row first
    assert shapes_read == [(1, 1, 16, 16)]
    assert [axis.name for axis in s.axes_manager._axes] == ["scan_y", "scan_x", "y", "x"]
    assert s.metadata.General.original_filename == "scan.hdr"
    assert s.original_metadata.as_dictionary() == vfs.open(path, flip_y=True).attrs


def test_sums_and_files_of_a_lazy_signal(hs: Any, scan: tuple[Path, np.ndarray], tmp_path: Path) -> None:
    path, frames = scan
    s = hs.load(str(path), file_format=vfs.rsciio, lazy=True, block="8KiB")
    bright = s.isig[4:8, 2:6].sum(axis=("x", "y"))
    bright.compute(show_progressbar=False)
    assert (bright.data == frames[:, :, ::-1][:, :, 2:6, 4:8].sum(axis=(2, 3))).all()
    s.save(str(tmp_path / "saved.hspy"))
    assert (hs.load(str(tmp_path / "saved.hspy")).data == frames[:, :, ::-1]).all()


def test_the_older_name_of_the_argument(hs: Any, scan: tuple[Path, np.ndarray]) -> None:
    path, frames = scan
    s = hs.load(str(path), reader=vfs.rsciio, flip_y=False)
    assert (s.data == frames).all()
    s.data[0] = 0  # in memory of its own
    assert (vfs.open(path)[...] == frames).all()


def test_an_open_array(hs: Any, scan: tuple[Path, np.ndarray], shapes_read: list[tuple[int, ...]]) -> None:
    path, frames = scan
    s = hs.signals.Signal2D(vfs.open(path).dask()).as_lazy()
    assert s._lazy
    assert shapes_read == []
    assert (s.inav[3, 5].data.compute() == frames[5, 3]).all()


def test_axes_are_calibrated_and_units_understood(hs: Any, tmp_path: Path) -> None:
    path = write_blo(tmp_path, np.ones((3, 4, 8, 8), "u1"))
    s = hs.load(str(path), file_format=vfs.rsciio, lazy=True)
    known = vfs.open(path).calibration
    for axis in s.axes_manager._axes:
        assert (axis.scale, axis.offset, axis.units) == tuple(known[axis.name].values())
    s.axes_manager.convert_units()
    assert s.axes_manager.navigation_extent[1] > 0


def test_velox_is_as_its_own_reader_has_it(hs: Any, tmp_path: Path) -> None:
    signals = hs.load(str(write_velox(tmp_path / "a.emd")), file_format=vfs.rsciio, lazy=True)
    assert [(s.axes_manager.navigation_shape, s.axes_manager.signal_shape) for s in signals] == [
        ((), (8,)),
        ((), (5, 4)),
        ((2,), (5, 4)),
        ((5, 4), (8,)),
    ]
    spectra = signals[-1]
    assert spectra.axes_manager.signal_axes[0].is_binned
    assert spectra.metadata.Signal.signal_type == "EDS_TEM"
    spectra.axes_manager.convert_units()  # pint understands them
    signals[1].axes_manager.convert_units()


def test_uneven_axes(hs: Any, tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.nxs", "w") as file:
        group = file.create_group("entry/data")
        group.attrs.update({"NX_class": "NXdata", "signal": "data", "axes": ["temperature", "y", "x"]})
        group["data"] = np.ones((4, 5, 6), "f4")
        group["temperature"] = np.array([1.0, 2, 4, 8])
        group["temperature"].attrs["units"] = "K"
    s = hs.load(str(tmp_path / "a.nxs"), file_format=vfs.rsciio, lazy=True)
    assert not s.axes_manager["temperature"].is_uniform
    assert s.axes_manager["temperature"].axis.tolist() == [1, 2, 4, 8]
    assert s.axes_manager["temperature"].units == "K"


def test_a_set_of_several_arrays_is_a_list(hs: Any, tmp_path: Path) -> None:
    for k in (1, 2):
        write_ser(tmp_path, np.full((6, 7), k, "u2"), name=f"set_{k}")
    write_ser(tmp_path, np.ones(9, "f4"), sig_ndim=1, name="set_3")
    signals = hs.load(str(write_emi(tmp_path)), file_format=vfs.rsciio, lazy=True)
    assert sorted(type(s).__name__ for s in signals) == ["LazySignal1D", "LazySignal2D", "LazySignal2D"]


def test_a_dectris_arina_is_lazy(hs: Any, shapes_read: list[tuple[int, ...]]) -> None:
    path = SHARED / "hdf5/dectris_arina_test_00/test_00_master.h5"
    if not path.exists():
        pytest.skip("no real files here")
    s = hs.load(str(path), file_format=vfs.rsciio, lazy=True, nav_shape=(4, 4))
    assert repr(s) == "<LazySignal2D, title: test_00_master, dimensions: (4, 4|192, 192)>"
    assert shapes_read == []
    assert (s.inav[1, 3].data.compute() == vfs.open(path)[13]).all()


def test_an_error_is_the_line_that_it_is_elsewhere(hs: Any, tmp_path: Path) -> None:
    (tmp_path / "a.mib").write_bytes(b"something else" * 99)
    with pytest.raises(vfs.UnknownFormatError, match=r"a\.mib: no format recognises it"):
        hs.load(str(tmp_path / "a.mib"), file_format=vfs.rsciio, lazy=True)
