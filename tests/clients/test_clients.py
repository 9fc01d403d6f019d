"""Foreign tools read the right numbers from every face, each in a process of its own."""

from __future__ import annotations

import functools
import http.server
import importlib.util
import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from vfs.hierarchy.faces import Face, ZarrFace
from vfs.hierarchy.npy_face import NpyFace
from vfs.testing.inside import reader_of, set_of
from vfs.testing.writers import write_mib, write_raw

from .compare import UNREADABLE, WRONG

DIMS = ["scan_y", "scan_x", "y", "x"]
CLIENTS = ["zarr", "dask", "xarray", "tensorstore"]
READS_STORES = ["zarr", "dask", "xarray"]


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


def run(client: str, face: Path | str, expected: Path, array: str = "data") -> subprocess.CompletedProcess[str]:
    """Run a client script as a user would, warnings being errors."""
    if importlib.util.find_spec(client) is None and client != "npy":
        pytest.skip(f"{client} is not installed")
    script = Path(__file__).with_name(f"read_{client}.py")
    command = [sys.executable, "-W", "error", str(script), str(face), str(expected), array]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)


def seen(client: str, face: Path | str, expected: Path, array: str = "data") -> dict[str, Any]:
    found = run(client, face, expected, array)
    assert found.returncode == 0, found.stderr
    answer: dict[str, Any] = json.loads(found.stdout)
    return answer


@pytest.fixture(scope="module")
def frames() -> np.ndarray:
    """A scan of 4 x 5 with zeros in it: what a fill value would turn into NaN."""
    noise = np.random.default_rng(5).integers(0, 60000, (20, 21, 30)).astype("u2")
    noise[noise % 7 == 0] = 0
    return noise


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory, frames: np.ndarray) -> Callable[..., vfs.VirtualArray]:
    """Opens a scan in three files of big-endian frames with headers, in chunks that fit no axis."""
    folder = tmp_path_factory.mktemp("scan")
    paths = write_raw(folder, frames.astype(">u2"), frame_header=16, file_header=8, files=3)

    def again(**options: Any) -> vfs.VirtualArray:
        settings: dict[str, Any] = {"nav_shape": (4, 5), "chunks": (1, 2, 8, 30), **options}
        return vfs.open(
            paths, format="raw", stored_dtype=">u2", sig_shape=(21, 30), frame_header=16, file_header=8, **settings
        )

    return again


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory, frames: np.ndarray) -> Path:
    file = tmp_path_factory.mktemp("expected") / "expected.npy"
    np.save(file, frames.reshape(4, 5, 21, 30))
    return file


@pytest.fixture(scope="module", params=[3, 2], ids=["v3", "v2"])
def zarr_format(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def folder(zarr_format: int, opened: Callable[..., vfs.VirtualArray], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The face as files."""
    return dump(
        set_of(opened().group).tree.zarr(zarr_format),
        tmp_path_factory.mktemp("face") / ("scan.zarr" if zarr_format == 3 else "scan.v2.zarr"),
    )


@pytest.fixture(scope="module")
def stored(zarr_format: int, opened: Callable[..., vfs.VirtualArray], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The face as a pickled store."""
    file = tmp_path_factory.mktemp("store") / "store.pickle"
    file.write_bytes(pickle.dumps(opened().store(zarr_format)))
    return file


def check(client: str, answer: dict[str, Any], zarr_format: int) -> None:
    """What a client saw beside the elements."""
    if client == "zarr":
        assert answer["zarr_format"] == zarr_format
        assert answer["members"] == ["data"]
        assert answer["attributes"] == (["vfs"] if zarr_format == 3 else ["vfs", "_ARRAY_DIMENSIONS"])
    if client == "xarray":
        assert answer["dims"] == DIMS
        assert answer["variables"] == ["data"]
    if client in ("dask", "tensorstore"):
        assert answer["chunks"] == [1, 2, 8, 30]
    if client == "tensorstore" and zarr_format == 3:
        assert answer["dims"] == DIMS


@pytest.mark.parametrize("client", CLIENTS)
def test_a_folder(client: str, folder: Path, expected: Path, zarr_format: int) -> None:
    check(client, seen(client, folder, expected), zarr_format)


@pytest.mark.parametrize("client", READS_STORES)
def test_a_store(client: str, stored: Path, expected: Path, zarr_format: int) -> None:
    check(client, seen(client, stored, expected), zarr_format)


def test_tensorstore_over_http(folder: Path, expected: Path, zarr_format: int) -> None:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder.parent))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/{folder.name}"
        check("tensorstore", seen("tensorstore", url, expected), zarr_format)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_numpy_maps_the_npy_face(opened: Callable[..., vfs.VirtualArray], expected: Path, tmp_path: Path) -> None:
    held = NpyFace(reader_of(opened())).get("")
    assert held is not None
    (tmp_path / "scan.npy").write_bytes(held)
    answer = seen("npy", tmp_path / "scan.npy", expected)
    assert answer["offset"] % 64 == 0
    assert not answer["writeable"]


def test_xarray_sees_companions_on_the_axes_of_the_scan(zarr_format: int, frames: np.ndarray, tmp_path: Path) -> None:
    array = vfs.open(write_mib(tmp_path, frames % 4096), nav_shape=(4, 5))
    np.save(tmp_path / "expected.npy", (frames % 4096).reshape(4, 5, 21, 30))
    (tmp_path / "store.pickle").write_bytes(pickle.dumps(array.store(zarr_format)))
    answer = seen("xarray", tmp_path / "store.pickle", tmp_path / "expected.npy")
    assert answer["dims"] == DIMS
    assert answer["variables"] == ["data", "exposure", "timestamp"]


@pytest.fixture
def broken(zarr_format: int, opened: Callable[..., vfs.VirtualArray], tmp_path: Path) -> Iterator[Path]:
    """A pickled store whose second file is gone when the store is used: it was there when the store was made."""
    array = opened()
    gone = Path(array.files[1])
    file = tmp_path / "store.pickle"
    file.write_bytes(pickle.dumps(array.store(zarr_format)))
    kept = gone.read_bytes()
    os.truncate(gone, 1000)
    try:
        yield file
    finally:
        gone.write_bytes(kept)


@pytest.mark.parametrize("client", READS_STORES)
def test_a_broken_source_is_an_error(client: str, broken: Path, expected: Path) -> None:
    found = run(client, broken, expected)
    assert found.returncode == UNREADABLE, found.stderr


@pytest.mark.parametrize("zarr_format", [3], ids=["v3"], indirect=True)
@pytest.mark.parametrize("client", CLIENTS)
def test_clients_notice_a_difference(client: str, folder: Path, expected: Path, tmp_path: Path) -> None:
    """The scripts can fail: another element, another dtype."""
    other = np.load(expected)
    other[-1, -1, -1, -1] += 1
    np.save(tmp_path / "other.npy", other)
    assert run(client, folder, tmp_path / "other.npy").returncode == WRONG
