"""Stores that clients of lists copy from a server, or show as a drive, equal what is served: `scripts/test --clients`.

What such a client leaves out, zarr fills with zeros, and nobody sees it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

import vfs
from tests.clients.clients import CHUNKS, Scan
from tests.clients.copied import FACES, RCLONE, check_equal
from tests.clients.install import said
from tests.fuse.conftest import _why_not
from tests.waiting import eventually

if not os.environ.get("VFS_CLIENTS"):
    pytest.skip("foreign tools in full are opt-in: scripts/test --clients", allow_module_level=True)

DRIVES = {"lists": ["--http-url"], "webdav": ["--webdav-vendor", "other", "--webdav-url"]}
"""How rclone asks, and its options before the address."""

REMOTES = {"lists": ":http:", "webdav": ":webdav:"}


@pytest.fixture(scope="module")
def scan(tmp_path_factory: pytest.TempPathFactory) -> Scan:
    return Scan.written(tmp_path_factory.mktemp("scan"))


@pytest.fixture(scope="module", params=["sets", "tree"])
def url(scan: Scan, request: pytest.FixtureRequest) -> Iterator[str]:
    tree = request.param == "tree"
    with vfs.serve(
        scan.path.parent if tree else scan.path, port=0, **{"tree": True} if tree else {"chunks": CHUNKS}
    ) as it:
        yield it.url


def _rclone(url: str, to: Path) -> None:
    subprocess.run([*RCLONE, *DRIVES["lists"], url, "copy", ":http:", str(to)], check=True, timeout=250)


def _rclone_of_webdav(url: str, to: Path) -> None:
    subprocess.run([*RCLONE, *DRIVES["webdav"], url, "copy", ":webdav:", str(to)], check=True, timeout=250)


def _wget(url: str, to: Path) -> None:
    """Copy with the depth that wget has by itself."""
    command = ["wget", "-q", "-r", "-np", "-nH", "--cut-dirs=2", "-P", str(to), url]
    subprocess.run(command, check=True, timeout=250)


def _wget_of_another_name(url: str, to: Path) -> None:
    command = ["wget", "-q", "-m", "-np", "-nH", "--cut-dirs=2", "-U", "other", "-P", str(to), url]
    subprocess.run(command, check=True, timeout=250)


def _fsspec(url: str, to: Path) -> None:
    """Without `maxdepth`, `get` ends with an error for a folder in a folder, of every web server."""
    files = fsspec.filesystem("http")
    for face in FACES:
        files.get(url + face, f"{to}/{face}", recursive=True, maxdepth=20)


COPIERS = {
    "rclone": _rclone,
    "rclone, by WebDAV": _rclone_of_webdav,
    "wget": _wget,
    "wget, as another": _wget_of_another_name,
    "fsspec": _fsspec,
}


def need(tool: str) -> None:
    if missing := said([tool, "--version"]):
        pytest.skip(f"{tool} is not installed: {missing}")


@pytest.mark.parametrize("copier", COPIERS)
def test_a_copy_equals_what_is_served(copier: str, url: str, scan: Scan, tmp_path: Path) -> None:
    if copier != "fsspec":
        need(copier.partition(",")[0])
    COPIERS[copier](url, tmp_path)
    check_equal(tmp_path, scan.expected)


@pytest.mark.skipif(bool(_why_not()), reason="FUSE does not work here")
@pytest.mark.parametrize("asks", DRIVES)
def test_a_drive_equals_what_is_served(asks: str, url: str, scan: Scan, tmp_path: Path) -> None:
    need("rclone")
    with subprocess.Popen([*RCLONE, *DRIVES[asks], url, "mount", REMOTES[asks], str(tmp_path)]) as drive:
        try:
            assert eventually(lambda: os.path.ismount(tmp_path))
            check_equal(tmp_path, scan.expected)
        finally:
            drive.terminate()
            drive.wait(100)


def test_a_source_that_breaks_is_an_error_of_each(tmp_path: Path) -> None:
    scan = Scan.written(tmp_path)
    with vfs.serve(scan.path, port=0, chunks=CHUNKS) as server:
        os.truncate(scan.second, 1000)
        for name, copier in COPIERS.items():
            if name == "fsspec" or not said([name.partition(",")[0], "--version"]):
                with pytest.raises(Exception, match=r"422|status"):  # of subprocess, aiohttp
                    copier(server.url, tmp_path / name)
