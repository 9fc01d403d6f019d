"""Foreign tools in full, through a mount: `scripts/test --clients`, which installs them first (`install.py`).

Each reads a whole array, a region across the borders of chunks and the far edge, on the faces it
knows, and is compared with numpy. Then a source is deleted or truncated under the mount before
anything was read: the tool must report an error, and whatever else it returns must be right. A tool
that is known to return something else is marked with the reason, and the day it stops doing so is
noticed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import vfs
from vfs.testing.writers import write_mib

from .compare import UNREADABLE
from .install import SYSTEM_PYTHON

HOME = Path(os.environ.get("VFS_CLIENTS", ""))
if not os.environ.get("VFS_CLIENTS"):
    pytest.skip("foreign tools in full are opt-in: scripts/test --clients", allow_module_level=True)
MISSING = json.loads((HOME / "clients.json").read_text())
V3, V2, NPY = "v3", "v2", "npy"
FACES = {V3: "scan.zarr", V2: "scan.v2.zarr", NPY: "scan.npy"}


class Client(NamedTuple):
    """A tool: its name, script, faces, Python, working directory, what has to be installed, which
    way it reads, and what it gets wrong.
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


ZARR2 = str(HOME / "zarr2" / "bin" / "python")
CLIENTS = [
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
    Client("rasterio (GDAL)", "rasterio", (V3, V2), needs="rasterio"),
    Client("netCDF, ncdump", "ncdump", (V2,), needs="ncdump"),
    Client("netCDF, Debian's netCDF4", "netcdf4", (V2,), needs="netCDF4 of Debian", python=SYSTEM_PYTHON),
    Client("netCDF, PyPI's netCDF4", "netcdf4", (V2,), needs="netCDF4"),
    Client("zarrita", "zarrita", (V3, V2), needs="zarrita", cwd=str(HOME / "npm")),
]
CASES = [pytest.param(client, face, id=f"{client.name}-{face}") for client in CLIENTS for face in client.faces]


class Scan(NamedTuple):
    """A scan of three files with zeros in it (what a fill value would hide), and what it holds."""

    path: Path
    expected: Path


@pytest.fixture
def scan(tmp_path: Path) -> Scan:
    noise = np.random.default_rng(5).integers(0, 4096, (20, 21, 30)).astype("u2")
    noise[noise % 7 == 0] = 0
    (tmp_path / "source").mkdir()
    np.save(tmp_path / "expected.npy", noise.reshape(4, 5, 21, 30))
    return Scan(write_mib(tmp_path / "source", noise, frames_per_file=7, scan=(4, 5)), tmp_path / "expected.npy")


@pytest.fixture
def point(scan: Scan, tmp_path: Path) -> Iterator[Path]:
    """The scan mounted, in chunks that fit no axis but the last."""
    (tmp_path / "mnt").mkdir()
    with vfs.mount(scan.path, tmp_path / "mnt", chunks=(1, 2, 8, 30)):
        yield tmp_path / "mnt"


RIGHT = ("equal", "unreadable", "not offered")
Record = Callable[[str, object], None]


def status(code: int) -> str:
    """How a process ended, in a word."""
    return signal.Signals(-code).name if code < 0 else f"status {code}"


def run(client: Client, face: str, point: Path, scan: Scan, record: Record, column: str) -> tuple[dict[str, Any], int]:
    """What a client saw, and its exit status; a line of the table."""
    line = {"client": client.name, "face": face}
    if reason := MISSING.get(client.needs):
        record("client", line | {"version": f"not installed: {reason}"})
        pytest.skip(f"{client.name} is not installed: {reason}")
    script = Path(__file__).with_name(f"read_{client.script}.py")
    command = [client.python, str(script), str(point / FACES[face]), str(scan.expected), "data", client.how]
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100, cwd=client.cwd, env=clean)
    seen = json.loads(done.stdout) if done.stdout else {"regions": {}}
    regions = seen["regions"]
    if column:
        differing = [text for text in regions.values() if text not in RIGHT]
        said = (
            differing[0]
            if differing
            else (
                "error"
                if done.returncode == UNREADABLE
                else "nothing"
                if done.returncode == 0
                else status(done.returncode)
            )
        )
        line[column] = (
            "" if set(regions.values()) == {"not offered"} else said + (f" ({client.lies})" if client.lies else "")
        )
    else:
        line |= {
            name: regions.get(name, status(done.returncode)).replace("not offered", "")
            for name in ("whole", "crossing", "edge")
        }
    record("client", line | {"version": seen.get("version", "")})
    print(done.stderr)
    if set(regions.values()) == {"not offered"}:
        pytest.skip(f"{client.name} {seen['version']} does not know the {face} face")
    return regions, done.returncode


@pytest.mark.parametrize(("client", "face"), CASES)
def test_reads(client: Client, face: str, point: Path, scan: Scan, record_property: Record) -> None:
    regions, ended = run(client, face, point, scan, record_property, "")
    assert ended == 0
    assert set(regions.values()) <= {"equal", "not offered"}
    assert regions["whole"] == "equal"


@pytest.mark.parametrize("broken", ["deleted", "truncated"])
@pytest.mark.parametrize(("client", "face"), CASES)
def test_an_unreadable_source_is_an_error(
    client: Client, face: str, broken: str, point: Path, scan: Scan, record_property: Record
) -> None:
    source = scan.path.with_name("scan002.mib")
    if broken == "deleted":
        source.unlink()
    else:
        os.truncate(source, 1000)
    regions, ended = run(client, face, point, scan, record_property, "unreadable source")
    right = ended == -signal.SIGBUS if client.killed else ended == UNREADABLE and regions["whole"] == "unreadable"
    if client.lies:
        assert not right, f"{client.name} is said to lie ({client.lies}), but it reported the error"
        pytest.xfail(client.lies)
    assert right, regions
    assert set(regions.values()) <= set(RIGHT)
