"""All options at once: whatever is combined, Python, the stores, exports and mounts show what a few
lines of numpy say.

Dark images are whole numbers and gains powers of two here, so that every sum is exact and all
comparisons are to the bit.
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
from unittest import mock

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from numcodecs import get_codec

import vfs
import vfs.engine.reader
from tests.engine.support import corrected
from tests.fuse.support import free, python
from tests.waiting import eventually
from vfs.engine.chunk_access import Chunks
from vfs.fuse.points import mounted
from vfs.testing.inside import reader_of
from vfs.testing.writers import write_mib, write_raw
from vfs.zarr.pipeline import NAME

pytestmark = pytest.mark.filterwarnings("ignore::vfs.IncompleteWarning")  # sets with a file missing on purpose

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
    """What an array shows: the frames corrected, shifted into the scan, blank ones as the fill
    value, those of `roi` in a row, converted.

    Args:
        frames: [n, h, w]; stored: bool[n] or bool[n, h, w], False where nothing is stored;
            corrections: dark, gain, dead as [h, w].
    """
    values = frames
    given = {name for name, image in corrections.items() if image is not None}
    if given:
        whole = dtype is not None and np.dtype(dtype).kind == "i"
        values = corrected(frames.astype("f8") if whole or dtype == "f8" else frames, **corrections)
        if whole and given == {"dead"}:  # integers stay integers, means are rounded
            values = np.rint(values)
    values = np.where(
        stored.reshape(stored.shape + (1,) * (frames.ndim - stored.ndim)), values, values.dtype.type(fill)
    )
    scan = np.full((math.prod(nav_shape), *frames.shape[1:]), fill, values.dtype)
    for at in range(len(scan)):
        if 0 <= at + sync_offset < len(frames):
            scan[at] = values[at + sync_offset]
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
            self.arguments = [str(self.paths), "--allow-incomplete"]
            self.options: dict[str, Any] = {"allow_incomplete": True}
        else:
            self.paths = write_raw(data, frames.astype(">u2"), file_header=64, frame_header=13, frame_footer=7, files=4)
            self.options = {
                "format": "raw",
                "stored_dtype": ">u2",
                "sig_shape": "16,24",
                "file_header": 64,
                "frame_header": 13,
                "frame_footer": 7,
            }
            text = [
                part for name, value in self.options.items() if name != "format" for part in ("-o", f"{name}={value}")
            ]
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
        self.arguments += [
            "--nav-shape",
            "5,7",
            "--sync-offset",
            str(OFFSET),
            "--roi",
            str(folder / "mask.npy"),
            "--dtype",
            "float32",
            "--chunks",
            "scan",
        ]
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
    from vfs.cli import app

    assert app.main(["export", *case.arguments, str(tmp_path / "o.zarr"), "--zarr-format", version]) == 0
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
    command = [sys.executable, "-P", "-m", "vfs", "mount", case.arguments[0], str(point), *case.arguments[1:]]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert eventually(lambda: mounted(str(point)) or server.poll() is not None)
            assert server.poll() is None, server.stderr and server.stderr.read()
            seen = json.loads(python(READER, point, case.name, tmp_path / "twin.npy"))
        finally:
            free(point)
            server.terminate()
            server.wait(100)
    assert seen == {face: ["float32", True] for face in ("npy", "copy", "zarr", "v2.zarr")}


# every combination, on frames and on blocks

SMALL = (8, 64)
COUNT = 14
KINDS = ("raw", "mib", "packed", "blocks", "compressed", "plain")


class Stored:
    """Frames on disk, in one of several ways; `stored` is False where nothing is stored, which reads as `fill`."""

    def __init__(self, folder: Path, kind: str) -> None:
        rng = np.random.default_rng(KINDS.index(kind))
        self.frames = rng.integers(0, 4000, (COUNT, *SMALL)).astype("u2")
        self.stored = np.ones(self.frames.shape, bool)
        self.fill = 0
        self.options: dict[str, Any] = {}
        if kind == "raw":
            self.paths: Any = write_raw(
                folder, self.frames.astype(">u2"), file_header=5, frame_header=13, frame_footer=7, files=4
            )
            self.options = {
                "format": "raw",
                "stored_dtype": ">u2",
                "sig_shape": SMALL,
                "file_header": 5,
                "frame_header": 13,
                "frame_footer": 7,
            }
        elif kind == "plain":
            self.paths = write_raw(folder, self.frames, files=3)
            self.options = {"format": "raw", "stored_dtype": "<u2", "sig_shape": SMALL}
        elif kind in ("mib", "packed"):
            self.paths = write_mib(
                folder, self.frames, kind="U16" if kind == "mib" else "R64", frames_per_file=3, missing=[1]
            )
            self.stored[3:6] = False
            self.options = {"allow_incomplete": True}
        else:
            self.fill = 7
            self.paths = self._blocks(folder, {"id": "zlib"} if kind == "compressed" else None)

    def _blocks(self, folder: Path, codec: dict[str, Any] | None) -> Path:
        """Every frame as two blocks of different sizes, of which some are missing."""
        data, blocks = b"", []
        for n, low, high in [(n, *cut) for n in range(COUNT) for cut in ((0, 5), (5, 8))]:
            if n in (4, 9) or (n, low) == (7, 0):
                self.stored[n, low:high] = False
                self.frames[n, low:high] = self.fill
                continue
            part = self.frames[n, low:high].tobytes()
            part = get_codec(codec).encode(part) if codec else part
            blocks.append({"file": 0, "offset": len(data), "origin": [n, low, 0], "shape": [1, high - low, SMALL[1]]})
            if codec:
                blocks[-1] |= {"codec": codec, "nbytes": len(part)}
            data += part
        (folder / "blocks.bin").write_bytes(data)
        document = {
            "vfs": 1,
            "dtype": "<u2",
            "shape": list(self.frames.shape),
            "files": ["blocks.bin"],
            "blocks": blocks,
            "fill_value": self.fill,
        }
        (folder / "set.vfs.json").write_text(json.dumps(document))
        return folder / "set.vfs.json"


@pytest.fixture(scope="module", params=KINDS)
def kept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return Stored(tmp_path_factory.mktemp(request.param), request.param)


@st.composite
def arrangements(draw: st.DrawFn) -> dict[str, Any]:
    nav = draw(st.sampled_from([(COUNT,), (3, 4), (4, 5), (2, 2, 4), (1,), (30,)]))
    total = math.prod(nav)
    roi = draw(
        st.one_of(
            st.none(),
            st.lists(st.booleans(), min_size=total, max_size=total)
            .filter(any)
            .map(lambda bits: np.array(bits).reshape(nav)),
            st.lists(st.integers(0, total - 1), min_size=1, max_size=2 * total).map(np.array),
        )
    )
    seed = draw(st.integers(0, 9))
    rng = np.random.default_rng(seed)
    images = {
        "dark": rng.integers(0, 50, SMALL).astype("f4"),
        "gain": rng.choice([0.5, 1.0, 2.0], SMALL).astype("f4"),
        "dead": rng.random(SMALL) < draw(st.sampled_from([0.01, 0.1, 0.6])),
    }
    options = {
        "nav_shape": nav,
        "sync_offset": draw(st.integers(-COUNT - 2, COUNT + 2)),
        "roi": roi,
        "dtype": draw(st.sampled_from([None, "f4", "f8", "i4"])),
    }
    return options | {name: image for name, image in images.items() if draw(st.booleans())}


def check(array: vfs.VirtualArray, twin: np.ndarray, data: st.DataObject) -> None:
    """The whole array, a box, a chunk and a flat range are the twin's."""
    np.testing.assert_array_equal(array[...], twin)
    box = tuple(
        slice(*sorted(data.draw(st.tuples(st.integers(0, n), st.integers(0, n)))), data.draw(st.integers(1, 3)))
        for n in twin.shape
    )
    np.testing.assert_array_equal(array.read(box), twin[box])
    position = tuple(data.draw(st.integers(0, n - 1)) for n in reader_of(array).grid.counts)
    region = reader_of(array).grid.region(position)
    chunk = Chunks(reader_of(array)).make(position)
    np.testing.assert_array_equal(chunk[tuple(slice(0, n) for n in region.shape)], twin[region.slices])
    first, last = sorted(data.draw(st.tuples(st.integers(0, twin.size), st.integers(0, twin.size))))
    np.testing.assert_array_equal(
        Chunks(reader_of(array)).run(first * array.dtype.itemsize, last * array.dtype.itemsize).view(array.dtype),
        twin.reshape(-1)[first:last],
    )


@given(data=st.data())
def test_every_combination(kept: Stored, data: st.DataObject) -> None:
    options = data.draw(arrangements())
    twin = shown(kept.frames, kept.stored, fill=kept.fill, **options)
    nd = twin.ndim
    chunks = data.draw(
        st.one_of(
            st.sampled_from(["auto", "frames", "scan", "balanced", 3000]),
            st.lists(st.integers(1, 9), min_size=nd, max_size=nd),
        )
    )
    backend = data.draw(st.sampled_from(["mmap", "buffered", "direct"]))
    array = vfs.open(kept.paths, backend=backend, chunks=chunks, **kept.options, **options)
    assert (array.shape, array.dtype) == (twin.shape, twin.dtype)
    # Conversions and corrections in pieces of so many bytes
    tile = data.draw(st.sampled_from([100, 1000, 10_000, vfs.engine.reader.TILE]))
    cached = data.draw(st.sampled_from([50, 500, 5000, vfs.engine.reader.CACHED]))
    with mock.patch.object(vfs.engine.reader, "TILE", tile), mock.patch.object(vfs.engine.reader, "CACHED", cached):
        check(array, twin, data)
    there = shown(kept.stored, kept.stored, **{name: options[name] for name in ("nav_shape", "sync_offset", "roi")})
    np.testing.assert_array_equal(array.valid, there.any(axis=(-2, -1)))
    if options["roi"] is not None:
        picked = data.draw(st.lists(st.integers(0, len(twin) - 1), min_size=1, max_size=5).map(np.array))
        again = np.concatenate(
            [tile for _, tile in array.tiles((2, -1, -1), roi=picked, workers=data.draw(st.sampled_from([0, 2])))]
        )
        np.testing.assert_array_equal(again, twin[picked])
        back = array.unroi(np.arange(1, len(twin) + 1))
        assert back.shape == options["nav_shape"]
        assert set(np.flatnonzero(back)) == set(
            np.flatnonzero(options["roi"]) if options["roi"].dtype == bool else options["roi"]
        )
