"""Foreign tools read the right numbers from every face, each tool in a process of its own."""

from __future__ import annotations

import functools
import http.server
import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from vfs.faces.face import Face, ZarrFace
from vfs.faces.npy_face import NpyFace
from vfs.testing.inside import reader_of, set_of
from vfs.testing.writers import write_mib, write_raw

from .compare import UNREADABLE, WRONG

DIMS = ["scan_y", "scan_x", "y", "x"]


def dump(face: Face, folder: Path) -> Path:
    """Write every key of a zarr face as a file."""
    assert isinstance(face, ZarrFace)
    for key in face.keys(""):
        file = folder / key
        file.parent.mkdir(parents=True, exist_ok=True)
        held = face.get(key)
        assert held is not None
        file.write_bytes(held)
    return folder


def answers(client: str, jobs: Mapping[str, tuple[Path | str, Path]]) -> dict[str, dict[str, Any]]:
    """What a tool made of several faces, in one process, warnings being errors.

    Args:
        jobs: name -> a face, and the file of what must come back.

    Returns: name -> what the script said, with "status" (see `compare`).
    """
    script = Path(__file__).with_name(f"read_{client}.py")
    lines = "".join(json.dumps([str(face), str(expected), "data"]) + "\n" for face, expected in jobs.values())
    command = [sys.executable, "-W", "error", str(script)]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=False, timeout=250)
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(said) == len(jobs), done.stderr
    return dict(zip(jobs, said, strict=True))


@pytest.fixture(scope="module")
def frames() -> np.ndarray:
    """A scan of 4 x 5 with zeros in it: what a fill value would turn into NaN."""
    noise = np.random.default_rng(5).integers(0, 60000, (20, 21, 30)).astype("u2")
    noise[noise % 7 == 0] = 0
    return noise


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory, frames: np.ndarray) -> Callable[..., vfs.VirtualArray]:
    """Opens a scan in three files of big-endian frames with headers, in chunks that fit no axis."""
    usual = tmp_path_factory.mktemp("scan")

    def again(folder: Path = usual) -> vfs.VirtualArray:
        paths = sorted(folder.iterdir()) or write_raw(
            folder, frames.astype(">u2"), frame_header=16, file_header=8, files=3
        )
        how: dict[str, Any] = {"stored_dtype": ">u2", "sig_shape": (21, 30), "frame_header": 16, "file_header": 8}
        return vfs.open(paths, format="raw", nav_shape=(4, 5), chunks=(1, 2, 8, 30), **how)

    return again


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory, frames: np.ndarray) -> Path:
    file = tmp_path_factory.mktemp("expected") / "expected.npy"
    np.save(file, frames.reshape(4, 5, 21, 30))
    return file


FACES = {3: "scan.zarr", 2: "scan.v2.zarr"}


@pytest.fixture(scope="module")
def folders(opened: Callable[..., vfs.VirtualArray], tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """The faces as files, by version of zarr."""
    tree, folder = set_of(opened().group).tree, tmp_path_factory.mktemp("face")
    return {version: dump(tree.zarr(version), folder / name) for version, name in FACES.items()}


def pickled(store: Any, file: Path) -> Path:
    file.write_bytes(pickle.dumps(store))
    return file


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder over HTTP with what Python has."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("client", ["zarr", "dask", "xarray", "tensorstore"])
def test_every_face(
    client: str,
    opened: Callable[..., vfs.VirtualArray],
    folders: dict[int, Path],
    expected: Path,
    frames: np.ndarray,
    tmp_path: Path,
) -> None:
    """The same numbers from files, from stores and over HTTP; an error where the source is broken; and the scripts
    notice one element that differs.
    """
    pytest.importorskip(client)
    jobs: dict[str, tuple[Path | str, Path]] = {f"files v{version}": (folders[version], expected) for version in FACES}
    np.save(
        tmp_path / "other.npy", np.load(expected) + (np.arange(frames.size).reshape(4, 5, 21, 30) == frames.size - 1)
    )
    jobs["other"] = folders[3], tmp_path / "other.npy"
    if client != "tensorstore":  # which reads no stores of Python
        companions = vfs.open(write_mib(tmp_path, frames % 4096), nav_shape=(4, 5))
        np.save(tmp_path / "mib.npy", (frames % 4096).reshape(4, 5, 21, 30))
        for version in FACES:
            jobs[f"store v{version}"] = pickled(opened().store(version), tmp_path / f"v{version}.pickle"), expected
            there = pickled(companions.store(version), tmp_path / f"companions{version}.pickle")
            jobs[f"companions v{version}"] = there, tmp_path / "mib.npy"
            (tmp_path / f"{version}").mkdir()
            array = opened(folder=tmp_path / f"{version}")  # its second file is cut once there is a store
            jobs[f"broken v{version}"] = pickled(array.store(version), tmp_path / f"broken{version}.pickle"), expected
            os.truncate(array.files[1], 1000)
    with served(folders[3].parent) as url:
        if client == "tensorstore":
            jobs |= {f"url v{version}": (f"{url}/{name}", expected) for version, name in FACES.items()}
        found = answers(client, jobs)
    for name, answer in found.items():
        status = UNREADABLE if name.startswith("broken") else WRONG if name == "other" else 0
        assert answer["status"] == status, f"{name}: {answer}"
        if status != UNREADABLE:
            check(client, name, answer, 2 if name.endswith("2") else 3)


def check(client: str, name: str, answer: dict[str, Any], zarr_format: int) -> None:
    """What a client saw beside the elements."""
    companions = ["exposure", "timestamp"] if name.startswith("companions") else []
    if client == "zarr":
        assert answer["zarr_format"] == zarr_format
        assert answer["members"] == ["data", *companions]
        assert answer["attributes"][:2] == (["vfs"] if zarr_format == 3 else ["vfs", "_ARRAY_DIMENSIONS"])
    if client == "xarray":
        assert answer["dims"] == DIMS
        assert answer["variables"] == ["data", *companions]
    if client in ("dask", "tensorstore") and not companions:
        assert answer["chunks"] == [1, 2, 8, 30]
    if client == "tensorstore" and zarr_format == 3:
        assert answer["dims"] == DIMS


def test_numpy_maps_the_npy_face(opened: Callable[..., vfs.VirtualArray], expected: Path, tmp_path: Path) -> None:
    held = NpyFace(reader_of(opened())).get("")
    assert held is not None
    (tmp_path / "scan.npy").write_bytes(held)
    answer = answers("npy", {"npy": (tmp_path / "scan.npy", expected)})["npy"]
    assert answer["status"] == 0
    assert answer["offset"] % 64 == 0
    assert not answer["writeable"]
