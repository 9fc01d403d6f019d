"""What `vfs.rsciio.file_reader` gives, which HyperSpy and others make signals of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.formats.hdf5_sets import dectris, write_velox
from vfs.testing.backscatter_writers import write_nordif, write_spd
from vfs.testing.frame_writers import write_blo
from vfs.testing.gatan_writers import write_dm
from vfs.testing.stack_writers import write_emi, write_ser
from vfs.testing.tiff_writers import write_ome_tiff
from vfs.testing.writers import write_mib

pytest.importorskip("dask.array")


@pytest.fixture
def scan(tmp_path: Path) -> tuple[Path, np.ndarray]:
    frames = np.random.default_rng(1).integers(0, 1000, (48, 16, 16)).astype("u2")
    return write_mib(tmp_path, frames, scan=(6, 8), frames_per_file=10), frames.reshape(6, 8, 16, 16)


def axes_of(signal: dict[str, Any], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(axis[name] for name in names) for axis in signal["axes"]]


def test_the_name_is_imported_when_it_is_used() -> None:
    from vfs import rsciio

    assert rsciio is vfs.rsciio
    assert rsciio.__name__ == "vfs.integrations.rsciio"


def test_a_lazy_scan_reads_nothing_but_what_is_computed(
    scan: tuple[Path, np.ndarray], shapes_read: list[tuple[int, ...]]
) -> None:
    path, frames = scan
    (signal,) = vfs.rsciio.file_reader(path, lazy=True, block="8KiB")
    assert shapes_read == []
    assert signal["data"].shape == (6, 8, 16, 16)
    assert signal["data"].numblocks == (3, 1, 1, 1)
    assert (signal["data"][3, 4].compute() == frames[3, 4, ::-1]).all()  # the top row first
    assert shapes_read == [(1, 1, 16, 16)]
    assert axes_of(signal, "name", "size", "navigate", "index_in_array") == [
        ("scan_y", 6, True, 0),
        ("scan_x", 8, True, 1),
        ("y", 16, False, 2),
        ("x", 16, False, 3),
    ]
    recorded = {"date": "2020-05-18", "time": "14:51:49.971626178", "time_zone": "UTC"}
    assert signal["metadata"]["General"] == {"title": "scan", "original_filename": "scan.hdr"} | recorded
    assert signal["original_metadata"] == vfs.open(path, flip_y=True).attrs
    json.dumps(signal["original_metadata"])


def test_what_is_not_lazy_belongs_to_the_caller(tmp_path: Path) -> None:
    frames = np.arange(120.0).reshape(5, 4, 6)
    np.save(tmp_path / "a.npy", frames)
    assert not vfs.open(tmp_path / "a.npy")[...].flags.writeable  # a view of the file
    (signal,) = vfs.rsciio.file_reader(tmp_path / "a.npy")
    assert type(signal["data"]) is np.ndarray
    signal["data"][:] += 1
    assert (signal["data"] == frames + 1).all()
    assert (np.load(tmp_path / "a.npy") == frames).all()


def test_options_of_opening_go_through(scan: tuple[Path, np.ndarray]) -> None:
    path, frames = scan
    (signal,) = vfs.rsciio.file_reader(path, nav_shape=(12, 4), flip_y=False, dtype="f4")
    assert (signal["data"] == frames.reshape(12, 4, 16, 16)).all()
    assert signal["data"].dtype == "f4"
    with pytest.raises(vfs.OptionError, match="no option 'scan_size'"):
        vfs.rsciio.file_reader(path, scan_size=5)


def test_axes_are_calibrated(tmp_path: Path) -> None:
    path = write_blo(tmp_path, np.ones((3, 4, 8, 8), "u1"))
    (signal,) = vfs.rsciio.file_reader(path)  # and no signal of frame numbers or the virtual bright-field image
    known = vfs.open(path).calibration
    assert {
        name: {"scale": s, "offset": o, "unit": u}
        for name, s, o, u in axes_of(signal, "name", "scale", "offset", "units")
    } == known
    assert {axis["_type"] for axis in signal["axes"]} == {"UniformDataAxis"}
    (image,) = vfs.rsciio.file_reader(path, array="virtual_bright_field", lazy=True)
    assert axes_of(image, "name", "navigate") == [
        ("scan_y", False),
        ("scan_x", False),
    ]  # an image, not a scan of numbers
    assert image["metadata"]["General"]["title"] == "scan virtual_bright_field"


def test_an_uneven_axis_has_its_positions(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.nxs", "w") as file:
        group = file.create_group("entry/data")
        group.attrs.update({"NX_class": "NXdata", "signal": "data", "axes": ["temperature", "y", "x"]})
        group["data"] = np.ones((4, 5, 6), "f4")
        group["temperature"] = np.array([1.0, 2, 4, 8])
        group["temperature"].attrs["units"] = "K"
    (signal,) = vfs.rsciio.file_reader(tmp_path / "a.nxs", lazy=True)
    first = signal["axes"][0]
    assert (first["_type"], first["name"], first["units"], first["navigate"]) == ("DataAxis", "temperature", "K", True)
    assert first["axis"].tolist() == [1, 2, 4, 8]


def test_single_positions_are_no_axes(tmp_path: Path) -> None:
    image = np.random.default_rng(2).integers(0, 99, (1, 1, 3, 4, 1)).astype("u2")
    path = write_ome_tiff(tmp_path, image)
    for lazy in (False, True):
        (signal,) = vfs.rsciio.file_reader(path, lazy=lazy)
        assert (np.asarray(signal["data"]) == image[0, 0]).all()
        assert axes_of(signal, "name", "size", "index_in_array") == [("z", 3, 0), ("y", 4, 1), ("x", 1, 2)]


@pytest.mark.parametrize(("samples", "kind"), [(3, "u1"), (4, "u1"), (3, "u2")])
def test_colours(tmp_path: Path, samples: int, kind: str) -> None:
    image = np.random.default_rng(3).integers(0, 255, (2, 1, 1, 5, 7, samples)).astype(kind)
    path = write_ome_tiff(tmp_path, image)
    for lazy in (False, True):
        (signal,) = vfs.rsciio.file_reader(path, lazy=lazy)
        data = np.asarray(signal["data"])
        assert signal["data"].shape == (2, 5, 7)
        assert data.dtype.names == tuple("RGBA"[:samples])
        for k, name in enumerate(data.dtype.names):
            assert (data[name] == image[:, 0, 0, ..., k]).all()
        assert axes_of(signal, "name") == [("t",), ("y",), ("x",)]


def test_each_array_of_a_set_is_a_signal(tmp_path: Path) -> None:
    images = np.random.default_rng(4).integers(0, 99, (2, 6, 7)).astype("u2")
    for k, image in enumerate(images, 1):
        write_ser(tmp_path, image, name=f"set_{k}")
    write_ser(tmp_path, np.ones(9, "f4"), sig_ndim=1, name="set_3")
    signals = vfs.rsciio.file_reader(write_emi(tmp_path), lazy=True)
    assert sorted(signal["data"].shape for signal in signals) == [(6, 7), (6, 7), (9,)]
    assert {signal["metadata"]["General"]["title"] for signal in signals} == {"set", "set 2", "set 3"}
    (one,) = vfs.rsciio.file_reader(tmp_path / "set.emi", array="2/data")
    assert (one["data"] == images[1]).all()


def test_a_pyramid_is_one_signal(tmp_path: Path) -> None:
    image = np.zeros((1, 1, 1, 64, 64), "u2")
    path = write_ome_tiff(tmp_path, image, smaller=[[image[0, 0, 0, ::2, ::2]]])
    assert "level_1/data" in vfs.open_group(path)
    assert len(vfs.rsciio.file_reader(path, lazy=True)) == 1


def test_a_dectris_master_is_lazy(tmp_path: Path, shapes_read: list[tuple[int, ...]]) -> None:
    """Its mask and settings are no signals."""
    h5py = pytest.importorskip("h5py")
    frames = np.random.default_rng(5).integers(0, 9, (12, 16, 16)).astype("u4")
    path = dectris(tmp_path, frames, 5, chunks=(1, 16, 16))
    with h5py.File(path, "a") as master:
        master["entry/instrument/detector/pixel_mask"] = np.zeros((16, 16), "u4")
        master["entry/instrument/detector/frequencies"] = np.arange(7.0)
    (signal,) = vfs.rsciio.file_reader(path, lazy=True, nav_shape=(3, 4))
    assert shapes_read == []
    assert (signal["data"][2, 1].compute() == frames[9]).all()
    assert shapes_read == [(1, 1, 16, 16)]
    (mask,) = vfs.rsciio.file_reader(path, array="entry/instrument/detector/pixel_mask")
    assert (mask["data"] == 0).all()
    assert mask["metadata"]["General"]["title"] == "scan_master entry/instrument/detector/pixel_mask"


def test_a_file_that_cannot_be_opened_is_told_as_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "a.mib").write_bytes(b"something else" * 99)
    with pytest.raises(vfs.UnknownFormatError, match=r"a\.mib: no format recognises it"):
        vfs.rsciio.file_reader(tmp_path / "a.mib", lazy=True)


@pytest.mark.parametrize("lazy", [True, False])
def test_velox_has_all_signals_in_the_order_of_its_own_reader(tmp_path: Path, lazy: bool) -> None:
    signals = vfs.rsciio.file_reader(write_velox(tmp_path / "a.emd"), lazy=lazy)
    assert [signal["data"].shape for signal in signals] == [(8,), (4, 5), (2, 4, 5), (4, 5, 8)]
    spectrum, _, series, spectra = signals
    assert [one["metadata"]["Signal"]["signal_type"] for one in signals] == ["EDS_TEM", "", "", "EDS_TEM"]
    assert axes_of(series, "name", "units", "scale", "navigate") == [
        ("frame", "s", 0.5, True),
        ("y", "nm", pytest.approx(2), False),
        ("x", "nm", pytest.approx(2), False),
    ]
    assert (np.asarray(series["data"]) == np.arange(40).reshape(4, 5, 2).transpose(2, 0, 1)).all()
    assert axes_of(spectrum, "units", "scale", "offset", "is_binned") == [("keV", 0.01, -0.25, True)]
    assert axes_of(spectra, "name", "navigate") == [("scan_y", True), ("scan_x", True), ("energy", False)]
    assert "is_binned" not in series["axes"][0]
    assert series["metadata"]["Acquisition_instrument"]["TEM"]["beam_energy"] == 300
    (first, *_) = vfs.rsciio.file_reader(tmp_path / "a.emd", lazy=True, main="Data/Image/i2/Data")
    assert first["data"].shape == (2, 4, 5)


@pytest.mark.parametrize(
    ("signal", "unit", "kind", "shown"),
    [
        ("EELS", "eV", "EELS", "eV"),
        ("EELS", "keV", "EELS", "eV"),
        ("X-ray", "eV", "EDS_TEM", "keV"),
        ("CL", "eV", "CL", "eV"),
        ("", "eV", "", "eV"),
    ],
)
def test_the_type_of_spectra(signal: str, unit: str, kind: str, shown: str, tmp_path: Path) -> None:
    tags = {"Meta Data": {"Signal": signal, "Format": "Spectrum"}}
    (made,) = vfs.rsciio.file_reader(write_dm(tmp_path, np.ones(9, "f4"), tags=tags, units=(unit,)))
    assert made["metadata"]["Signal"]["signal_type"] == kind
    assert axes_of(made, "name", "units") == [("energy", shown)]
    assert made["axes"][0].get("is_binned", False) is (kind in ("EELS", "EDS_TEM"))


def test_an_image_of_a_spectrometer_is_no_spectrum(tmp_path: Path) -> None:
    tags = {"Meta Data": {"Signal": "EELS", "Format": "Image"}}
    (made,) = vfs.rsciio.file_reader(write_dm(tmp_path, np.ones((4, 6), "f4"), tags=tags))
    assert made["metadata"]["Signal"]["signal_type"] == ""


def test_the_type_of_patterns(tmp_path: Path) -> None:
    frames = np.ones((2, 3, 8, 8), "u1")
    (made,) = vfs.rsciio.file_reader(write_blo(tmp_path, frames), lazy=True)
    assert made["metadata"]["Signal"]["signal_type"] == "electron_diffraction"
    (made,) = vfs.rsciio.file_reader(write_nordif(tmp_path, frames), lazy=True)
    assert made["metadata"]["Signal"]["signal_type"] == "EBSD"
    for mode, pattern, kind in (
        ("DIFFRACTION", np.ones((8, 8), "f4"), "electron_diffraction"),
        ("DIFFRACTION", np.ones((8, 8), "c8"), ""),  # a Fourier transform
        ("IMAGING", np.ones((8, 8), "f4"), ""),  # perhaps one, too
        ("IMAGING", np.ones((5, 8, 8), "f4"), "electron_diffraction"),
    ):
        tags = {"Microscope Info": {"Operation Mode": mode}}
        path = write_dm(tmp_path, pattern, tags=tags, units=("1/nm", "1/nm"))
        (made,) = vfs.rsciio.file_reader(path, lazy=True)
        assert made["metadata"]["Signal"]["signal_type"] == kind, (mode, pattern.dtype)
    (made,) = vfs.rsciio.file_reader(write_spd(tmp_path, np.ones((2, 3, 4), "u2")), lazy=True)
    assert made["metadata"]["Signal"]["signal_type"] == "EDS_SEM"


@pytest.mark.parametrize(
    ("unit", "shown", "scale"), [("m", "m", 0.5), ("cm", "cm", 0.5), ("um", "µm", 0.5), ("A", "Å", 0.5)]
)
def test_units_that_people_say_stay(unit: str, shown: str, scale: float, tmp_path: Path) -> None:
    (made,) = vfs.rsciio.file_reader(write_dm(tmp_path, np.ones((4, 6), "f4"), units=(unit, unit)), lazy=True)
    assert axes_of(made, "units")[1] == (shown,)
    assert made["axes"][1]["scale"] == scale


def test_hdf5_has_calibrated_arrays_and_none_twice(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.nxs", "w") as file:
        for name, shape in (("one", (4, 5, 6)), ("two", (7, 8))):
            group = file.create_group(f"{name}/data")
            group.attrs.update({"signal": "data", "axes": [f"axis{k}" for k in range(len(shape))]})
            group["data"] = np.ones(shape, "f4")
            for k, n in enumerate(shape):
                group[f"axis{k}"] = np.arange(n) * 0.5
        file["linked"] = file["one/data/data"]
        file["matrix"] = np.ones((3, 3))
    signals = vfs.rsciio.file_reader(tmp_path / "a.nxs", lazy=True)
    assert [signal["data"].shape for signal in signals] == [(4, 5, 6), (7, 8)]


def test_what_hyperspy_wrote_comes_back(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.hspy", "w") as file:
        file.attrs["file_format"] = "HyperSpy"
        signal = file.create_group("Experiments/signal")
        signal["data"] = np.ones((4, 5), "f4")
        for place, said in {
            "General": {"title": "of another file", "doi": "10.5281/zenodo.1", "date": "2020-01-02"},
            "Signal": {"quantity": "Counts", "signal_type": "electron_diffraction"},
            "Signal/Noise_properties": {"variance": 2.5},
            "Acquisition_instrument/TEM": {"beam_energy": 200.0, "tilt_stage": 9.0, "probe": "small"},
            "Acquisition_instrument/SEM": {"magnification": 50.0},
            "_HyperSpy/Folding": {"unfolded": False},
        }.items():
            signal.create_group(f"metadata/{place}").attrs.update(said)
    (made,) = vfs.rsciio.file_reader(tmp_path / "a.hspy")
    assert made["metadata"] == {
        "General": {"title": "a", "original_filename": "a.hspy", "doi": "10.5281/zenodo.1", "date": "2020-01-02"},
        "Signal": {
            "quantity": "Counts",
            "signal_type": "electron_diffraction",
            "Noise_properties": {"variance": 2.5},
        },
        "Acquisition_instrument": {
            "TEM": {"probe": "small", "beam_energy": pytest.approx(200), "Stage": {"tilt_alpha": pytest.approx(9)}},
            "SEM": {"magnification": 50.0},
        },
    }


@pytest.mark.parametrize(("lazy", "thickness", "depth"), [(True, 7.5, (2.5, 2.5, "Å")), (False, 8.0, (0, 1, ""))])
def test_slices_of_prismatic_are_one_signal(
    tmp_path: Path, lazy: bool, thickness: float, depth: tuple[float, float, str]
) -> None:
    """Their depths are known unless the last output lies less than a step below the one before it."""
    h5py = pytest.importorskip("h5py")
    slices = np.random.default_rng(6).random((3, 4, 5, 6)).astype("f4")
    with h5py.File(tmp_path / "a.emd", "w") as file:
        for name, data in [(f"virtual_detector_depth{k:04}", one) for k, one in enumerate(slices)] + [
            ("annular_detector_depth0000", slices[0, :, :, 0])
        ]:
            group = file.create_group(f"4DSTEM_simulation/data/realslices/{name}")
            group.attrs["emd_group_type"] = 1
            group["realslice"] = data
            for k, (axis, n) in enumerate(zip(("R_x", "R_y", "bin_outer_angle"), data.shape, strict=False), 1):
                group[f"dim{k}"] = np.arange(n) * 0.5
                group[f"dim{k}"].attrs.update({"name": axis, "units": "[mrad]" if k == 3 else "[n_m]"})
        simulation = file.create_group("4DSTEM_simulation/metadata/metadata_0/original/simulation_parameters")
        simulation.attrs.update({"ns": 2, "s": 1.25, "zs": 0.0, "t": [1.0, 1.0, 1.0], "c": [thickness, 3.0, 3.0]})
    stack, alone = vfs.rsciio.file_reader(tmp_path / "a.emd", lazy=lazy)
    assert (np.asarray(stack["data"]) == slices).all()
    assert axes_of(stack, "offset", "scale", "units")[0] == depth
    assert axes_of(stack, "name", "size", "navigate", "index_in_array", "units") == [
        ("depth", 3, True, 0, depth[2]),
        ("R_x", 4, True, 1, "nm"),
        ("R_y", 5, True, 2, "nm"),
        ("bin_outer_angle", 6, False, 3, "mrad"),
    ]
    assert stack["metadata"]["General"]["title"] == "virtual_detector"
    assert alone["data"].shape == (4, 5)


def test_light_microscopes_are_no_electron_microscopes(tmp_path: Path) -> None:
    """HyperSpy has no places for them; an exposure is not that of a spectrometer."""
    xml = (
        '<Channel ID="Channel:0:0" Name="DAPI" Color="65535" SamplesPerPixel="1"/>'
        '<Plane TheZ="0" TheT="0" TheC="0" ExposureTime="0.5"/>'
    )
    path = write_ome_tiff(tmp_path, np.ones((1, 1, 1, 4, 5), "u2"), said=xml)
    assert "channels" in vfs.open(path).metadata
    (signal,) = vfs.rsciio.file_reader(path)
    assert "Acquisition_instrument" not in signal["metadata"]
