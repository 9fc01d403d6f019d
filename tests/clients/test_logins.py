"""Drives by name and password, and a mount that Samba shares: `scripts/test --clients`."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

import vfs
from tests.clients.clients import Scan
from tests.clients.copied import RCLONE, check_equal
from tests.fuse.conftest import _why_not
from tests.waiting import eventually

if not os.environ.get("VFS_CLIENTS"):
    pytest.skip("foreign tools in full are opt-in: scripts/test --clients", allow_module_level=True)

SMB = """
[global]
  server role = standalone server
  map to guest = bad user
  guest account = root
  interfaces = 127.0.0.1/8
  bind interfaces only = yes
  smb ports = {port}
  disable netbios = yes
  load printers = no
  lock directory = {folder}
  state directory = {folder}
  cache directory = {folder}
  private dir = {folder}
  pid directory = {folder}
  ncalrpc dir = {folder}/rpc
  log file = {folder}/log
[vfs]
  path = {mount}
  read only = yes
  guest ok = yes
"""


@pytest.fixture(scope="module")
def scan(tmp_path_factory: pytest.TempPathFactory) -> Scan:
    return Scan.written(tmp_path_factory.mktemp("scan"))


@pytest.fixture(scope="module")
def login(scan: Scan) -> Iterator[tuple[str, str]]:
    """The address of a server without its token, and the token."""
    with vfs.serve(scan.path, port=0) as server:
        yield server.address, server.token


def need(*tools: str) -> None:
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")


def test_rclone_copies_by_a_login(login: tuple[str, str], scan: Scan, tmp_path: Path) -> None:
    need("rclone")
    address, token = login
    secret = subprocess.run(
        ["rclone", "obscure", "-"], input=token, check=True, capture_output=True, text=True
    ).stdout.strip()
    how = ["--webdav-url", address, "--webdav-user", "me", "--webdav-pass", secret, "--webdav-vendor", "other"]
    subprocess.run([*RCLONE, *how, "copy", ":webdav:", str(tmp_path)], check=True, timeout=250)
    check_equal(tmp_path, scan.expected)


def test_cadaver_reads_by_a_login(login: tuple[str, str], scan: Scan, tmp_path: Path) -> None:
    need("cadaver")
    address, token = login
    (tmp_path / ".netrc").touch(0o600)
    (tmp_path / ".netrc").write_text(f"machine {urlsplit(address).hostname} login me password {token}\n")
    said = subprocess.run(
        ["cadaver", address],
        input="ls\nget scan.npy\nquit\n",
        env=os.environ | {"HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    ).stdout
    assert "scan.zarr" in said
    np.testing.assert_array_equal(np.load(tmp_path / "scan.npy"), vfs.open(scan.path)[...])


@pytest.mark.skipif(bool(_why_not()), reason="FUSE does not work here")
@pytest.mark.skipif(os.geteuid() != 0, reason="Samba begins as root")
def test_a_mount_that_samba_shares(scan: Scan, tmp_path: Path) -> None:
    need("smbd", "smbclient")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for name in ("mnt", "run", "copy"):
        (tmp_path / name).mkdir()
    conf = tmp_path / "smb.conf"
    conf.write_text(SMB.format(port=port, folder=tmp_path / "run", mount=tmp_path / "mnt"))
    ask = ["smbclient", "//127.0.0.1/vfs", "-p", str(port), "-N", "-c"]
    with vfs.mount(scan.path, tmp_path / "mnt", allow_other=True):
        smbd = ["smbd", f"--configfile={conf}", "--foreground", "--no-process-group"]
        with subprocess.Popen(smbd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0) as shares:
            try:
                assert eventually(
                    lambda: subprocess.run([*ask, "ls"], capture_output=True, check=False).returncode == 0
                )
                copy = f"lcd {tmp_path / 'copy'}; recurse on; prompt off; mget *"
                subprocess.run([*ask, copy], check=True, capture_output=True, timeout=250)
            finally:
                shares.terminate()
                shares.wait(100)
        files = [path for path in (tmp_path / "mnt").rglob("*") if path.is_file()]
        assert files
        for path in files:
            assert (tmp_path / "copy" / path.relative_to(tmp_path / "mnt")).read_bytes() == path.read_bytes()
