"""GDAL (C++, from Debian) reads the v2 face through a mount: numbers, names of axes, and an error
where a source is gone.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import vfs
from tests.fuse.conftest import _why_not
from vfs.testing.writers import write_mib

TOOL = shutil.which("gdalmdiminfo")
pytestmark = [
    pytest.mark.skipif(
        TOOL is None, reason="NOT TESTED WITH GDAL: gdalmdiminfo is not here (Debian and Ubuntu: apt install gdal-bin)"
    ),
    pytest.mark.skipif(bool(_why_not()), reason="FUSE does not work here"),
]


def read(face: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(TOOL), str(face), "-array", "data", "-detailed"], capture_output=True, text=True, check=False, timeout=250
    )


def test_numbers_axes_and_errors(tmp_path: Path) -> None:
    frames = np.random.default_rng(0).integers(0, 4000, (6, 16, 12)).astype("u2")
    frames[:, 3] = 0  # must not become "no data"
    point = tmp_path / "mnt"
    point.mkdir()
    path = write_mib(tmp_path, frames, frames_per_file=2, scan=(2, 3))
    with vfs.mount(path, point, chunks=(1, 2, 10, 5)):
        done = read(point / "scan.v2.zarr")
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert np.array_equal(np.array(found["values"]), frames.reshape(2, 3, 16, 12))
        assert found["datatype"] == "UInt16"
        assert [axis["name"] for axis in found["dimensions"]] == ["scan_y", "scan_x", "y", "x"]
    with vfs.mount(path, point, chunks=(1, 2, 10, 5)):
        (tmp_path / "scan002.mib").unlink()
        done = read(point / "scan.v2.zarr")
    assert done.returncode != 0 or "ERROR" in done.stderr, done.stdout[-500:]
