"""Small sets of HDF5, which several tests use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.formats.frame_checks import frames_of
from tests.formats.sets import Opened
from vfs.testing.suites import Written

h5py = pytest.importorskip("h5py")
hdf5plugin = pytest.importorskip("hdf5plugin")

FILTERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "gzip": {"compression": "gzip"},
    "gzip shuffle": {"compression": "gzip", "shuffle": True},
    "gzip shuffle fletcher32": {"compression": "gzip", "shuffle": True, "fletcher32": True},
    "fletcher32": {"fletcher32": True},
    "lzf": {"compression": "lzf", "shuffle": True},
    "szip": {"compression": "szip"},
    "bitshuffle": {**hdf5plugin.Bitshuffle(cname="none")},
    "bitshuffle lz4": {**hdf5plugin.Bitshuffle(cname="lz4")},
    "bitshuffle zstd": {**hdf5plugin.Bitshuffle(cname="zstd")},
    "bitshuffle lz4, small blocks": {**hdf5plugin.Bitshuffle(nelems=16, cname="lz4")},
    "blosc": {**hdf5plugin.Blosc(cname="lz4", shuffle=1)},
    "blosc bitshuffle zstd": {**hdf5plugin.Blosc(cname="zstd", shuffle=2)},
    "lz4": {**hdf5plugin.LZ4()},
    "zstd": {**hdf5plugin.Zstd()},
    "bzip2": {**hdf5plugin.BZip2()},
    "blosc2": {**hdf5plugin.Blosc2(cname="lz4", filters=2)},
    "blosc2 zstd": {**hdf5plugin.Blosc2(cname="zstd", filters=1)},
}


def written(folder: Path, name: str = "set.h5", **datasets: Any) -> Path:
    with h5py.File(folder / name, "w") as file:
        for path, (values, options) in datasets.items():
            file.create_dataset(path.replace("__", "/"), data=values, **options)
    return folder / name


def hdf5_set(folder: Path) -> Written:
    twin = frames_of((3, 4, 5, 7), "u2")
    return written(folder, entry__data=(twin, {"chunks": (1, 2, 5, 4)})), twin, {}


def dectris(folder: Path, frames: np.ndarray, per_file: int, **options: Any) -> Path:
    with h5py.File(folder / "scan_master.h5", "w") as master:
        group = master.create_group("entry/data")
        for k in range(0, len(frames), per_file):
            name = f"data_{k // per_file + 1:06d}"
            with h5py.File(folder / f"scan_{name}.h5", "w") as file:
                file.create_dataset("entry/data/data", data=frames[k : k + per_file], **options)
            group[name] = h5py.ExternalLink(f"scan_{name}.h5", "/entry/data/data")
    return folder / "scan_master.h5"


def zipped(folder: Path) -> Opened:
    with h5py.File(folder / "set.h5", "w") as file:
        file.create_dataset(
            "entry/data", data=frames_of((3, 16, 16), "u2"), chunks=(1, 8, 8), compression="gzip", shuffle=True
        )
        file["entry/line"] = np.arange(20.0)
        file["entry/line"].attrs["units"] = "m"
        file.attrs["creator"] = "test"
    return folder / "set.h5", {"format": "hdf5"}


def filtered(folder: Path) -> Opened:
    few = (frames_of((2, 8, 8), "u1") % 9).astype("u2")
    return written(
        folder, **{name.replace(" ", "_"): (few, {"chunks": (1, 8, 8), **options}) for name, options in FILTERS.items()}
    ), {"format": "hdf5"}


def text(folder: Path) -> Opened:
    """Attributes of variable length, on which libhdf5 2.0 may not come to an end."""
    with h5py.File(folder / "set.h5", "w") as file:
        data = file.create_dataset("entry/data", data=frames_of((4, 5), "u2"))
        for name in ("data", "entry", "long_name"):
            data.attrs[name] = name * 5
            file["entry"].attrs[name] = [name, "of", "variable length"]
        file["entry/title"] = "words"
        data.attrs["link"] = file["entry"].ref
    return folder / "set.h5", {"format": "hdf5"}


def newer(folder: Path) -> Opened:
    """Newer structures: other indices of chunks, dense links and attributes, checksums over all of them."""
    with h5py.File(folder / "set.h5", "w", libver="latest") as file:
        file.create_dataset("fixed", data=frames_of((6, 4), "u2"), chunks=(1, 4))
        file.create_dataset(
            "growing", data=frames_of((6, 4), "u2"), chunks=(1, 4), maxshape=(None, 4), compression="gzip"
        )
        file.create_dataset("tree", data=frames_of((6, 4), "u2"), chunks=(1, 4), maxshape=(None, None))
        for n in range(12):
            file["fixed"].attrs[f"number {n}"] = n
            file[f"many/{n}"] = n
    return folder / "set.h5", {"format": "hdf5"}


def linked(folder: Path) -> Opened:
    path = dectris(folder, frames_of((4, 3, 5), "u2"), 2, chunks=(1, 3, 5))
    layout = h5py.VirtualLayout((4, 3, 5), "u2")
    layout[1:3] = h5py.VirtualSource("scan_data_000001.h5", "entry/data/data", (2, 3, 5))
    with h5py.File(path, "a") as file:
        file.create_virtual_dataset("virtual", layout)
        file["link"] = h5py.SoftLink("/entry")
        file["same"] = file["entry/data"]
    return path, {"format": "hdf5"}


def write_events(
    path: Path, counts: np.ndarray, *, table: bool = True, about: bool = True, tail: int = 0, **how: Any
) -> Path:
    """Write counts uint[frames, y, x, channels] as the stream of X-ray events of a Velox file.

    Args:
        table: write where frames begin.
        about: write metadata; without them nothing says which array Velox shows first.
        tail: events at the end that are cut off.
        how: how the stream is stored; by default in chunks of 64 events.
    """
    frames, height, width, channels = counts.shape
    pieces, begins = [], []
    for frame in counts:
        begins.append(sum(map(len, pieces)))
        for spectrum in frame.reshape(-1, channels):
            events = np.repeat(np.arange(channels, dtype="u2"), spectrum)
            pieces.append(np.append(np.random.default_rng(len(pieces)).permutation(events), np.uint16(65535)))
    stream = np.concatenate(pieces).astype("u2")[:, None]
    detector = {"DetectorName": "SuperX1", "Dispersion": "10", "OffsetEnergy": "-250"}
    result = {
        "Detector": "SuperX1",
        "PixelSize": {"width": "2e-9", "height": "3e-9"},
        "Offset": {"x": "1e-8", "y": "0"},
    }
    said = {"BinaryResult": {**result, "PixelUnitX": "m", "PixelUnitY": "m"}, "Detectors": {"Detector-0": detector}}
    settings = {"bincount": str(channels), "StreamEncoding": "uint16", "RasterScanDefinition": {"Width": "9"}}
    with h5py.File(path, "w") as file:
        group = file.create_group("Data/SpectrumStream/a1")
        group.create_dataset("Data", data=stream[: len(stream) - tail], **(how or {"chunks": (64, 1)}))
        if table:
            group["FrameLocationTable"] = np.array(begins, "u8")[:, None]
        text = np.frombuffer(json.dumps(said).encode().ljust(1000, b"\0"), "u1")
        if about:
            group["Metadata"] = np.repeat(text[:, None], frames, 1)
        group.create_dataset("AcquisitionSettings", data=[json.dumps(settings)], dtype=h5py.string_dtype())
        file["Data/Image/b1/Data"] = np.zeros((height, width, 1), "u2")
        file["Data/Image/b2/Data"] = np.zeros((height + 1, width, 1), "u2")
    return path


def write_velox(path: Path) -> Path:
    """Write a file of Velox: two images of which one is a series, a spectrum, and a map of spectra as events."""
    write_events(path, np.ones((1, 4, 5, 8), int))
    place = {"PixelSize": {"width": "2e-9", "height": "2e-9"}, "Offset": {"x": "0", "y": "0"}}
    image = {"BinaryResult": {**place, "PixelUnitX": "m", "PixelUnitY": "m", "DetectorIndex": "0", "Detector": "HAADF"}}
    detector = {"Detector-0": {"DetectorName": "SuperX1", "Dispersion": "10", "OffsetEnergy": "-250"}}
    spectrum = {"BinaryResult": {"DetectorIndex": "0", "Detector": "SuperX1"}, "Detectors": detector}
    optics = {"Optics": {"AccelerationVoltage": "300000"}, "Scan": {"FrameTime": "0.5"}}
    with h5py.File(path, "a") as file:
        del file["Data/Image"]
        for name, data, said in (
            ("Image/i2", np.arange(40).reshape(4, 5, 2).astype("u2"), image),
            ("Image/i1", np.ones((4, 5, 1), "u2"), image),
            ("Spectrum/s1", np.arange(8, dtype="u4")[:, None], spectrum),
        ):
            text = np.frombuffer(json.dumps(said | optics).encode().ljust(900, b"\0"), "u1")
            file[f"Data/{name}/Data"] = data
            file[f"Data/{name}/Metadata"] = np.repeat(text[:, None], data.shape[-1], 1)
    return path


def events_of_velox(folder: Path) -> Opened:
    counts = np.random.default_rng(1).poisson(0.05, (2, 4, 5, 32))
    return write_events(folder / "a.emd", counts), {"format": "hdf5"}


def write_ims(path: Path, data: np.ndarray, *, halved: str = "", padded: tuple[int, ...] = (), **options: Any) -> Path:
    """Write numbers [t, c, z, y, x] as Imaris does: attributes are arrays of single characters.

    Args:
        halved: for each smaller version the axes along which it takes every second pixel: "yx zyx".
        padded: pixels along z, y, x of each data set, more than are meant.
        options: of the data sets, such as chunks.
    """

    def say(group: Any, **said: Any) -> None:
        for name, value in said.items():
            group.attrs[name] = np.array([one.encode() for one in str(value)], "S1")

    with h5py.File(path, "w") as file:
        for level, axes in enumerate(["", *halved.split()]):
            data = data[tuple(slice(None, None, 2 if axis in axes else 1) for axis in "tczyx")]
            for t, c in np.ndindex(data.shape[:2]):
                group = file.create_group(f"DataSet/ResolutionLevel {level}/TimePoint {t}/Channel {c}")
                size = data.shape[2:]
                say(
                    group,
                    ImageSizeZ=size[0],
                    ImageSizeY=size[1],
                    ImageSizeX=size[2],
                    HistogramMin="0.000",
                    HistogramMax="65535.000",
                )
                room = [max(0, most - n) for most, n in zip(padded or size, size, strict=True)]
                values = np.pad(data[t, c], [(0, more) for more in room], constant_values=7)
                group.create_dataset("Data", data=values, **options)
                group["Histogram"] = np.bincount(data[t, c].reshape(-1) & 255, minlength=256).astype("u8")
            if not level:
                t, c, z, y, x = data.shape
                image = file.create_group("DataSetInfo/Image")
                say(image, X=x, Y=y, Z=z, ExtMin0="10.000", ExtMin1="0.000", ExtMin2="-2.000", Unit="um", Name="cells")
                say(
                    image,
                    ExtMax0=10 + x / 4,
                    ExtMax1=y / 2,
                    ExtMax2=-2 + 3 * z,
                    RecordingDate="2018-05-10 10:30:00.000",
                )
                say(image, Description="(description not specified)", LensPower="63x")
                for k, colour in enumerate(["1.000 0.500 0.000", "0.000 0.000 1.000", ""][:c]):
                    channel = file.create_group(f"DataSetInfo/Channel {k}")
                    say(channel, Name=f"dye {k}", Color=colour, ColorRange="0.000 255.000", LSMEmissionWavelength="525")
                times = {f"TimePoint{k + 1}": f"2018-05-10 10:30:{k * 5:02}.000" for k in range(t)}
                say(file.create_group("DataSetInfo/TimeInfo"), DatasetTimePoints=t, **times)
        file["Thumbnail/Data"] = np.zeros((256, 1024), "u1")
    return path
