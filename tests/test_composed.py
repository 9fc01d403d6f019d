"""All options at once: whatever is combined, Python, the stores, exports and mounts show what a few lines of numpy say.

Dark images are whole numbers and gains powers of two here, so that every sum is exact and all comparisons are to the bit.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import vfs
from tests.mount.support import eventually, free, python
from tests.test_corrections import twin as corrected
from vfs.mount.points import mounted
from vfs.pipeline import NAME
from vfs.testing.writers import write_mib, write_raw

FUSE = os.path.exists("/dev/fuse")
SIG = (16, 24)
NAV = (5, 7)
OFFSET = -3


def shown(
    frames: np.ndarray,
    stored: np.ndarray,
    *,
    nav_shape: Sequence[int],
    sync_offset: int = 0,
    roi: np.ndarray | None = None,
    dtype: Any = None,
    fill: float = 0,
    **corrections: Any,
) -> np.ndarray:
    """What an array shows: the frames corrected, shifted into the scan, blank ones as the fill value, those of `roi` in a row, converted.

    Args:
        frames: [n, h, w]; stored: bool[n], False where a frame is not there; corrections: dark, gain, dead as [h, w].
    """
    values = corrected(frames, **corrections) if any(image is not None for image in corrections.values()) else frames
    scan = np.full((math.prod(nav_shape), *frames.shape[1:]), fill, values.dtype)
    for at in range(len(scan)):
        frame = at + sync_offset
        if 0 <= frame < len(frames) and stored[frame]:
            scan[at] = values[frame]
    picked = scan.reshape(*nav_shape, *frames.shape[1:])
    if roi is not None:
        picked = picked[roi] if roi.dtype == bool else scan[roi]
    return picked if dtype is None else picked.astype(dtype)


class Case:
    """A set on disk, how it is opened from Python and from a command line, and what it shows."""

    def __init__(self, folder: Path, kind: str) -> None:
        rng = np.random.default_rng(3)
        frames = rng.integers(0, 4000, (30, *SIG)).astype("u2")
        stored = np.ones(30, bool)
        data = folder / "data"
        data.mkdir()
        if kind == "mib":
            self.paths: Any = write_mib(data, frames, frames_per_file=4, missing=[2])
            stored[8:12] = False
            self.arguments = [str(self.paths)]
            self.options: dict[str, Any] = {}
        else:
            self.paths = write_raw(data, frames.astype(">u2"), file_header=64, frame_header=13, frame_footer=7, files=4)
            self.options = {"format": "raw", "stored_dtype": ">u2", "sig_shape": "16,24", "file_header": 64, "frame_header": 13, "frame_footer": 7}
            text = [part for name, value in self.options.items() if name != "format" for part in ("-o", f"{name}={value}")]
            self.arguments = [str(data / "part*.bin"), "--format", "raw", *text]
        mask = rng.random(NAV) < 0.7
        mask[0, :4] = mask[1, 5] = True  # blank ones at the start, and one of the missing file
        images = {"dark": rng.integers(0, 50, SIG).astype("f4"), "gain": rng.choice([0.5, 1.0, 2.0], SIG).astype("f4")}
        images["dead"] = np.zeros(SIG, bool)
        images["dead"][[3, 3, 4, 0, 15], [7, 8, 7, 0, 23]] = True
        for name, image in {"mask": mask, **images}.items():
            np.save(folder / f"{name}.npy", image)
        self.options |= {"nav_shape": NAV, "sync_offset": OFFSET, "roi": mask, "dtype": "float32", "chunks": "scan"}
        self.options |= {name: folder / f"{name}.npy" for name in images}
        self.arguments += ["--nav-shape", "5,7", "--sync-offset", str(OFFSET), "--roi", str(folder / "mask.npy"), "--dtype", "float32", "--chunks", "scan"]
        self.arguments += [part for name in images for part in (f"--{name}", str(folder / f"{name}.npy"))]
        self.twin = shown(frames, stored, nav_shape=NAV, sync_offset=OFFSET, roi=mask, dtype="f4", **images)
        self.name = "scan" if kind == "mib" else "part0"


@pytest.fixture(params=["mib", "raw"])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    return Case(tmp_path, request.param)


@pytest.mark.parametrize("backend", ["mmap", "buffered", "direct"])
def test_python_shows_the_twin(case: Case, backend: str) -> None:
    array = vfs.open(case.paths, backend=backend, **case.options)
    assert array.dtype == np.float32
    np.testing.assert_array_equal(array[...], case.twin)
    for access in ("frames", "scan", "balanced"):
        whole = np.full(array.shape, np.nan, "f4")
        for region, tile in array.tiles(access=access):
            whole[region.slices] = tile
        np.testing.assert_array_equal(whole, case.twin)


@pytest.mark.parametrize("pipeline", ["default", NAME])
@pytest.mark.parametrize("version", [3, 2])
def test_stores_show_the_twin(case: Case, version: int, pipeline: str) -> None:
    array = vfs.open(case.paths, **case.options)
    with zarr.config.set({} if pipeline == "default" else {"codec_pipeline.path": pipeline}):
        z = zarr.open_array(array.store(version), path="data", mode="r")
        assert (z.metadata.zarr_format, z.chunks) == (version, array.chunks)
        np.testing.assert_array_equal(z[...], case.twin)
        np.testing.assert_array_equal(z[3:-1:2, 2:9, 7], case.twin[3:-1:2, 2:9, 7])
    np.testing.assert_array_equal(array.zarr()[...], case.twin)


@pytest.mark.parametrize("version", ["3", "2"])
def test_an_export_from_the_command_line_shows_the_twin(case: Case, version: str, tmp_path: Path) -> None:
    from vfs import cli

    assert cli.main(["export", *case.arguments, str(tmp_path / "o.zarr"), "--zarr-format", version]) == 0
    np.testing.assert_array_equal(zarr.open_group(tmp_path / "o.zarr", mode="r")["data"][...], case.twin)


READER = """
    import json, sys, numpy as np, zarr
    point, name, twin = sys.argv[1:]
    twin = np.load(twin)
    seen = {"npy": np.load(f"{point}/{name}.npy", mmap_mode="r"), "copy": np.load(f"{point}/{name}.npy")}
    for face in ("zarr", "v2.zarr"):
        seen[face] = zarr.open_group(f"{point}/{name}.{face}", mode="r")["data"][...]
    print(json.dumps({face: [str(a.dtype), bool(np.array_equal(a, twin))] for face, a in seen.items()}))
"""


@pytest.mark.skipif(not FUSE, reason="no /dev/fuse: the mount cannot be tested here")
def test_a_mount_from_the_command_line_shows_the_twin(case: Case, tmp_path: Path) -> None:
    point = tmp_path / "mnt"
    point.mkdir()
    np.save(tmp_path / "twin.npy", case.twin)
    command = [sys.executable, "-P", "-m", "vfs.cli", "mount", case.arguments[0], str(point), *case.arguments[1:]]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert eventually(lambda: mounted(str(point)) or server.poll() is not None)
            assert server.poll() is None, server.stderr and server.stderr.read()
            seen = json.loads(python(READER, point, case.name, tmp_path / "twin.npy"))
        finally:
            free(point)
            server.terminate()
            server.wait(30)
    assert seen == {face: ["float32", True] for face in ("npy", "copy", "zarr", "v2.zarr")}
