"""Small sets of HDF5, which several tests use."""

from __future__ import annotations

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
