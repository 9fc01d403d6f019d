"""The table of foreign tools: how each is run, on which faces, and what it makes of failures.

`test_mounted.py` runs those of MOUNTED, `test_served.py` those of SERVED.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from vfs.testing.writers import write_mib

from .compare import RIGHT, UNREADABLE
from .install import SYSTEM_PYTHON

HOME = Path(os.environ.get("VFS_CLIENTS", "/"))
V3, V2, NPY = "v3", "v2", "npy"
FACES = {V3: "scan.zarr", V2: "scan.v2.zarr", NPY: "scan.npy"}
CHUNKS = (1, 2, 8, 30)
"""Chunks that fit no axis but the last."""


class Client(NamedTuple):
    """A tool: its name, script, faces, what has to be installed, Python, working directory, which
    way it reads, and what it gets wrong: `lies` of a mount, `makes` of each failure of a server
    that it does not report.
    """

    name: str
    script: str
    faces: tuple[str, ...]
    needs: str = ""
    python: str = sys.executable
    cwd: str = "."
    how: str = ""
    lies: str = ""
    killed: bool = False  # an error while mapped memory is touched is a signal
    makes: Mapping[str, str] = {}


NPM = str(HOME / "npm")
ZARR2 = str(HOME / "zarr2" / "bin" / "python")
MOUNTED = [
    Client("numpy, mapped", "npy", (NPY,), killed=True),
    Client("numpy, loaded", "npy", (NPY,), how="load"),
    Client("zarr-python 3", "zarr", (V3, V2)),
    Client("zarr-python 3, zarrs", "zarr", (V3, V2), needs="zarrs", how="zarrs"),
    Client("zarr-python 2", "zarr2", (V2,), needs="zarr2", python=ZARR2),
    Client("zarr-python 2, file:// strict", "zarr2", (V2,), needs="zarr2", python=ZARR2, how="url strict"),
    Client(
        "zarr-python 2, file://",
        "zarr2",
        (V2,),
        needs="zarr2",
        python=ZARR2,
        how="url",
        lies="any OSError of fsspec is an absent chunk",
    ),
    Client("xarray", "xarray", (V3, V2)),
    Client("dask", "dask", (V3, V2)),
    Client("tensorstore", "tensorstore", (V3, V2)),
    Client("GDAL", "gdal", (V2,), needs="GDAL", python=SYSTEM_PYTHON),
    Client(
        "GDAL, no UseExceptions()",
        "gdal",
        (V2,),
        needs="GDAL",
        python=SYSTEM_PYTHON,
        how="no exceptions",
        lies="prints the error, returns the buffer",
    ),
    Client("rasterio", "rasterio", (V3, V2), needs="rasterio"),
    Client("netCDF, ncdump", "ncdump", (V2,), needs="ncdump"),
    Client("netCDF, Debian's netCDF4", "netcdf4", (V2,), needs="netCDF4 of Debian", python=SYSTEM_PYTHON),
    Client("netCDF, PyPI's netCDF4", "netcdf4", (V2,), needs="netCDF4"),
    Client("zarrita", "zarrita", (V3, V2), needs="zarrita", cwd=NPM),
]
GDAL_LIES = dict.fromkeys(("422 later", "401 later", "gone"), "fill values")
SERVED = [
    Client("numpy, np.load", "npy", (NPY,), how="load"),
    Client("curl --fail", "curl", (NPY,), needs="curl"),
    Client(
        "curl",
        "curl",
        (NPY,),
        needs="curl",
        how="no --fail",
        makes={"422 later": "wrong numbers", "401 later": "wrong numbers"},
    ),
    Client("zarr-python 3", "zarr", (V3, V2)),
    Client("zarr-python 3, obstore", "zarr", (V3, V2), needs="obstore", how="obstore"),
    Client("zarr-python 3, zarrs", "zarr", (V3, V2), needs="zarrs", how="zarrs"),
    Client("zarr-python 2, strict", "zarr2", (V2,), needs="zarr2", python=ZARR2, how="url strict"),
    Client("zarr-python 2", "zarr2", (V2,), needs="zarr2", python=ZARR2, how="url"),
    Client("xarray", "xarray", (V3, V2)),
    Client("dask", "dask", (V3, V2)),
    Client("tensorstore", "tensorstore", (V3, V2)),
    Client("GDAL", "gdal", (V2,), needs="GDAL", python=SYSTEM_PYTHON, makes=GDAL_LIES),
    Client(
        "GDAL, no UseExceptions()",
        "gdal",
        (V2,),
        needs="GDAL",
        python=SYSTEM_PYTHON,
        how="no exceptions",
        makes=GDAL_LIES | {"cut": "wrong numbers"},
    ),
    Client("rasterio", "rasterio", (V3, V2), needs="rasterio", makes=GDAL_LIES | {"cut": "wrong numbers"}),
    Client("Zarr.jl", "zarrjl", (V2,)),
    Client("zarrita, Node", "zarrita", (V3, V2), needs="zarrita", cwd=NPM),
    Client("zarrita, Chromium", "zarrita", (V3, V2), needs="Chromium", cwd=NPM, how="chromium"),
    Client(
        "neuroglancer, Chromium",
        "neuroglancer",
        (V3, V2),
        needs="neuroglancer",
        cwd=NPM,
        makes=dict.fromkeys(("422 later", "401 later", "cut"), "not drawn") | {"gone": "fill values"},
    ),
]


def cases(clients: list[Client]) -> list[Any]:
    return [pytest.param(client, face, id=f"{client.name}-{face}") for client in clients for face in client.faces]


class Scan(NamedTuple):
    """A scan of three files with zeros in it (what a fill value would hide), and what it holds."""

    path: Path
    expected: Path

    @classmethod
    def written(cls, folder: Path) -> Scan:
        noise = np.random.default_rng(5).integers(0, 4096, (20, 21, 30)).astype("u2")
        noise[noise % 7 == 0] = 0
        (folder / "source").mkdir()
        np.save(folder / "expected.npy", noise.reshape(4, 5, 21, 30))
        return cls(write_mib(folder / "source", noise, frames_per_file=7, scan=(4, 5)), folder / "expected.npy")

    @property
    def second(self) -> Path:
        """The file to break: neither the first nor the last."""
        return self.path.with_name("scan002.mib")


Record = Callable[[str, object], None]


class Answer(NamedTuple):
    """What a client saw of each region and beside these, and its exit status."""

    regions: Mapping[str, str]
    seen: Mapping[str, Any]
    ended: int


def need(client: Client, line: Mapping[str, str], record: Record, table: str) -> None:
    """Skip what is not installed, and say so in a table."""
    missing = json.loads((HOME / "clients.json").read_text())
    if reason := missing.get(client.needs):
        record(table, {**line, "version": f"NOT INSTALLED: {reason}"})
        pytest.skip(f"{client.name} is not installed: {reason}")


def run(
    client: Client, face: str, expected: Path, array: str = "data", meanwhile: Callable[[], None] | None = None
) -> Answer:
    """Run a client.

    Args:
        face: path or URL.
        meanwhile: called once the client knows the array and has read nothing of it.
    """
    script = Path(__file__).with_name(f"read_{client.script}.py")
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    process = subprocess.Popen(
        [client.python, script, face, expected, array, client.how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=client.cwd,
        env=clean | ({"CLIENT_WAITS": "1"} if meanwhile else {}),
    )
    assert process.stdout is not None
    with process:
        try:
            first = process.stdout.readline() if meanwhile else ""
            if meanwhile and first == "opened\n":
                meanwhile()
                first = ""
            assert not first or "not offered" in first, "it could not open what is whole as yet"
            said = first + process.communicate("\n", timeout=250)[0]
        finally:
            process.kill()
    seen = json.loads(said) if said else {}
    return Answer(seen.get("regions", {}), seen, process.returncode)


def status(code: int) -> str:
    """How a process ended, in a word."""
    return signal.Signals(-code).name if code < 0 else f"status {code}"


def outcome(answer: Answer) -> str:
    """What a client made of a failure: "error" is right."""
    differing = [text for text in answer.regions.values() if text not in RIGHT]
    if differing:
        return "fill values" if all(text.endswith(": they are 0") for text in differing) else "wrong numbers"
    if "not drawn" in answer.regions.values():
        return "not drawn"
    return {0: "nothing", UNREADABLE: "error"}.get(answer.ended, status(answer.ended))
