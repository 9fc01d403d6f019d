"""HDF5 of Velox: streams of X-ray events, counted to spectra for each position of the scan."""

from __future__ import annotations

import json
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.formats.frame_checks import check_boxes, same
from tests.formats.hdf5_sets import write_events
from vfs.formats.hdf5 import spectra
from vfs.formats.hdf5.programs import velox

h5py = pytest.importorskip("h5py")

NAME = "Data/SpectrumStream/a1/Spectra"
COUNTS = np.random.default_rng(0).poisson(0.5, (3, 4, 5, 64))
TWIN = COUNTS.sum(0, dtype="u4")


@pytest.mark.parametrize("block", [1 << 20, 128])
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"chunks": (64, 1)},
        {"chunks": (50, 1), "compression": "gzip", "shuffle": True},
        {"chunks": (1000, 1)},
        {"maxshape": None},
    ],
)
def test_spectra(tmp_path: Path, how: dict[str, Any], block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(velox, "_BLOCK", block)  # 128: two positions of 64 channels
    monkeypatch.setattr(spectra, "_PASS", 100)
    path = write_events(tmp_path / "a.emd", COUNTS, **how)
    check_boxes(path, TWIN, NAME, count=15)
    array = vfs.open_group(path)[NAME]
    assert array.dims == ("scan_y", "scan_x", "energy")
    assert array.dtype == np.uint32
    assert array.attrs["name"] == "EDS SuperX1"
    assert array.calibration == {
        "scan_y": {"scale": 3e-9, "offset": 0.0, "unit": "m"},
        "scan_x": {"scale": 2e-9, "offset": 1e-8, "unit": "m"},
        "energy": {"scale": 10.0, "offset": -250.0, "unit": "eV"},
    }
    same(pickle.loads(pickle.dumps(array))[...], TWIN)


def test_one_frame_without_a_table(tmp_path: Path) -> None:
    path = write_events(tmp_path / "a.emd", COUNTS[:1], table=False)
    same(vfs.open_group(path)[NAME][...], COUNTS[0].astype("u4"))


def test_a_scan_that_was_stopped(tmp_path: Path) -> None:
    path = write_events(tmp_path / "a.emd", COUNTS)
    with h5py.File(path) as file:
        stream = file["Data/SpectrumStream/a1/Data"][:, 0]
    for tail in (1, 7, 40, 400):
        twin, position = np.zeros(TWIN.shape, "u4").reshape(20, 64), 0
        for event in stream[: len(stream) - tail].tolist():
            if event == 65535:
                position += 1
            else:
                twin[position % 20, event] += 1
        write_events(path, COUNTS, tail=tail)
        same(vfs.open_group(path)[NAME][...], twin.reshape(TWIN.shape))


def test_many_threads_find_the_lines_once(tmp_path: Path) -> None:
    path = write_events(tmp_path / "a.emd", COUNTS)
    array = vfs.open_group(path)[NAME]
    with ThreadPoolExecutor(8) as pool:
        for k, line in enumerate(pool.map(lambda k: array[k], range(4))):
            same(line, TWIN[k])


def test_events_of_other_channels_are_an_error(tmp_path: Path) -> None:
    path = write_events(tmp_path / "a.emd", COUNTS)
    with h5py.File(path, "r+") as file:
        stream = file["Data/SpectrumStream/a1/Data"]
        at = int(np.flatnonzero(stream[:, 0] != 65535)[0])
        stream[at, 0] = 64
    array = vfs.open_group(path)[NAME]
    same(array[1:], TWIN[1:])
    with pytest.raises(vfs.DecodeError, match="found channel 64"):
        array[0]


def test_events_that_were_never_written_are_an_error(tmp_path: Path) -> None:
    path = write_events(tmp_path / "a.emd", COUNTS)
    with h5py.File(path, "r+") as file:
        group = file["Data/SpectrumStream/a1"]
        stream = group["Data"][...]
        del group["Data"]
        made = group.create_dataset("Data", stream.shape, "u2", chunks=(64, 1))
        made[:1024] = stream[:1024]
    with pytest.raises(vfs.VfsError, match="never written"):
        vfs.open_group(path)[NAME][...]


def test_streams_that_fit_no_image(tmp_path: Path) -> None:
    path = write_events(tmp_path / "a.emd", COUNTS)
    with h5py.File(path, "r+") as file:
        del file["Data/Image/b1"]
    group = vfs.open_group(path)
    assert NAME not in group
    assert "that of no image" in group.attrs["vfs"]["root"]["left_out"][NAME] if "root" in group.attrs["vfs"] else True
    with h5py.File(path, "r+") as file:
        del file["Data/SpectrumStream/a1/AcquisitionSettings"]
    assert NAME not in vfs.open_group(path)


def test_spectra_of_a_file_that_changed_are_an_error(tmp_path: Path) -> None:
    path = write_events(tmp_path / "a.emd", COUNTS)
    counted = vfs.open_group(path)[NAME]
    os.utime(path, (1, 1))
    with pytest.raises(vfs.SourceChangedError, match=r"a\.emd: .*the file was changed after it was opened"):
        counted[...]


def test_a_map_that_was_stopped_within_its_only_frame(tmp_path: Path) -> None:
    """Of 20 positions 18 were recorded; another image has 25."""
    write_events(tmp_path / "a.emd", COUNTS[:1], table=False)
    with h5py.File(tmp_path / "a.emd") as file:
        stream = file["Data/SpectrumStream/a1/Data"][:, 0]
    ends = np.flatnonzero(stream == 65535)
    write_events(tmp_path / "a.emd", COUNTS[:1], table=False, tail=len(stream) - 1 - int(ends[17]))
    with pytest.warns(vfs.IncompleteWarning, match="lacks 2 of 20 positions"):
        array = vfs.open_group(tmp_path / "a.emd")[NAME]
    twin = COUNTS[0].astype("u4").reshape(20, 64)
    twin[18:] = 0
    same(array[...], twin.reshape(4, 5, 64))
    write_events(tmp_path / "a.emd", COUNTS[:1], table=False, tail=len(stream) - 1 - int(ends[9]))
    assert NAME not in vfs.open_group(tmp_path / "a.emd"), "of half a map nobody knows which image it is of"


def test_a_map_of_several_frames_that_was_stopped_within_the_last(tmp_path: Path) -> None:
    write_events(tmp_path / "a.emd", COUNTS, table=False)
    with h5py.File(tmp_path / "a.emd") as file:
        stream = file["Data/SpectrumStream/a1/Data"][:, 0]
    ends = np.flatnonzero(stream == 65535)
    write_events(tmp_path / "a.emd", COUNTS, table=False, tail=len(stream) - 1 - int(ends[58]))
    with h5py.File(tmp_path / "a.emd", "a") as file:
        del file["Data/Image/b1/Data"]
        file["Data/Image/b1/Data"] = np.zeros((4, 5, 3), "u2")
    with pytest.warns(vfs.IncompleteWarning, match="lacks 1 of 20 positions"):
        array = vfs.open_group(tmp_path / "a.emd")[NAME]
    twin = TWIN.copy()
    twin[3, 4] -= COUNTS[2, 3, 4].astype("u4")
    same(array[...], twin)


def test_the_sum_of_all_detectors_comes_first(tmp_path: Path) -> None:
    write_events(tmp_path / "a.emd", COUNTS)
    with h5py.File(tmp_path / "a.emd", "a") as file:
        file.copy("Data/SpectrumStream/a1", "Data/SpectrumStream/a2")
    group = vfs.open_group(tmp_path / "a.emd")
    counted = [name for name in group if name.endswith("Spectra")]
    assert counted == ["Data/SpectrumStream/Spectra", NAME, NAME.replace("a1", "a2")]
    whole = group["Data/SpectrumStream/Spectra"]
    same(whole[...], 2 * TWIN)
    check_boxes(tmp_path / "a.emd", 2 * TWIN, "Data/SpectrumStream/Spectra", count=5)
    assert (whole.attrs["name"], whole.attrs["sum_of"]) == ("EDS", counted[1:])
    assert whole.calibration == group[NAME].calibration
    with h5py.File(tmp_path / "a.emd", "a") as file:
        said = np.array(file["Data/SpectrumStream/a2/Metadata"])
        text = said[:, 0].tobytes().replace(b'"Dispersion": "10"', b'"Dispersion": "20"')
        said[:, :] = np.frombuffer(text, "u1")[:, None]
        file["Data/SpectrumStream/a2/Metadata"][...] = said
    assert "Data/SpectrumStream/Spectra" not in vfs.open_group(tmp_path / "a.emd"), "energies differ"


def test_names_are_not_ambiguous(tmp_path: Path) -> None:
    write_events(tmp_path / "a.emd", COUNTS)
    with h5py.File(tmp_path / "a.emd", "a") as file:
        about = {
            "BinaryResult": {"Detector": "HAADF", "DetectorIndex": "0"},
            "Detectors": {"Detector-0": {"ExposureTime": "0.8"}},
        }
        for name in ("c1", "c2"):
            file[f"Data/Image/{name}/Data"] = np.zeros((4, 5, 6), "u2")
            text = np.frombuffer(json.dumps(about).encode().ljust(500, b"\0"), "u1")
            file[f"Data/Image/{name}/Metadata"] = np.repeat(text[:, None], 6, 1)
    group = vfs.open_group(tmp_path / "a.emd")
    assert [group[f"Data/Image/{name}/Data"].attrs["name"] for name in ("c1", "c2")] == ["HAADF", "HAADF (2)"]
    first = group["Data/Image/c1/Data"]
    assert first.calibration["frame"] == {"scale": 0.8, "offset": 0.0, "unit": "s"}, "the camera's, without a scan"
    assert first.metadata["exposure_time"].value == 0.8
