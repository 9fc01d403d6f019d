"""Where mounting or unmounting cannot work."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import sys
import threading
from ctypes.util import find_library
from pathlib import Path

import numpy as np
import pytest

import vfs
from tests.fuse.support import Foreground, free, run
from vfs.api.opening import open_group
from vfs.contents.face_folder import FaceFolder
from vfs.errors import MountError, OptionError, VfsError
from vfs.fuse import points, unmount
from vfs.fuse.how import MountHow
from vfs.fuse.points import KIND, Mounted, detach, prepare, users
from vfs.fuse.server import serve
from vfs.fuse.view import library, version
from vfs.testing.inside import set_of


def refused(point: str | os.PathLike[str], small: Path) -> str:
    with pytest.raises(MountError) as caught:
        vfs.mount(small, point)
    said = str(caught.value)
    assert "\n" not in said
    assert isinstance(caught.value, VfsError)
    assert caught.value.errno
    return said


def test_bad_mount_points(small: Path, point: Path, tmp_path: Path) -> None:
    assert (
        refused(tmp_path / "none", small) == f"{tmp_path}/none: no such folder; make it first: mkdir -p {tmp_path}/none"
    )
    assert refused(small, small) == f"{small}: expected an empty folder to mount on, found a file"
    assert refused(small / "x", small) == f"{small}/x: expected an empty folder to mount on, found a file"
    with pytest.raises(OptionError, match=r"^'a..00b': expected the name"):
        vfs.mount(small, "a\0b")
    (point / "thing").touch()
    assert refused(point, small) == f"{point}: expected an empty folder to mount on, it holds thing"
    (point / "more").touch()
    assert re.fullmatch(
        rf"{point}: expected an empty folder to mount on, it holds \S+ and 1 more", refused(point, small)
    )
    for path in point.iterdir():
        path.unlink()
    with vfs.mount(small, point):
        assert (
            refused(point, small)
            == f"{point}: something is mounted there already (fuse.vfs); to end that: vfs unmount {point}"
        )
        assert "expected an empty folder to mount on, it holds" in refused(point / "small.zarr", small)
        assert np.load(point / "small.npy").size == 24


def test_serve_says_the_same(small: Path, point: Path) -> None:
    with Foreground(point / "none", small) as server:
        assert server.first == f"{point}/none: no such folder; make it first: mkdir -p {point}/none"
        assert server.rest() == (2, "", "")


def test_serve_needs_the_main_thread(small: Path, point: Path) -> None:
    caught: list[BaseException] = []

    def attempt() -> None:
        try:
            serve(FaceFolder([set_of(open_group(small)).tree]), point, MountHow())
        except MountError as error:
            caught.append(error)

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join(100)
    assert "main thread" in str(caught[0])


def test_no_libfuse(small: Path, point: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUSE_LIBRARY_PATH", "/nonexistent/libfuse.so")
    said = refused(point, small)
    assert said.startswith("mounting needs libfuse: install it (apt install fuse3")
    assert "mfusepy: " in said
    assert "fuse: " in said


def test_another_package_called_fuse(small: Path, point: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "mfusepy.py").write_text("raise ImportError('hidden by a test')")
    (hidden / "fuse.py").write_text("class Fuse: pass")
    monkeypatch.syspath_prepend(hidden)
    assert "fuse: not fusepy but another package of that name" in refused(point, small)


def test_no_device(point: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(points, "DEVICE", str(tmp_path / "fuse"))
    with pytest.raises(
        MountError,
        match=(
            r"no .*/fuse \(No such file or directory\): load the kernel module: modprobe fuse .*; a container needs"
            r" --device"
        ),
    ):
        prepare(point, 3)
    real = os.open
    monkeypatch.setattr(
        os,
        "open",
        lambda name, *args, **more: (
            (_ for _ in ()).throw(PermissionError(1, "Operation not permitted"))
            if name == points.DEVICE
            else real(name, *args, **more)
        ),
    )
    with pytest.raises(
        MountError, match=r"not permitted to open .*/fuse: Operation not permitted; .*a container needs --device"
    ) as caught:
        prepare(point, 3)
    assert caught.value.errno == errno.EACCES


def test_users_without_fusermount_or_without_the_right_to_write(point: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert prepare(point, 3) == str(point)
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
        with pytest.raises(MountError, match="you cannot write to that folder"):
            prepare(point, 3)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(MountError, match=r"there is no fusermount; install it \(apt install fuse,"):
        prepare(point, 2)


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="takes a right away, which only root with setpriv can"
)
def test_root_without_the_right_to_mount(small: Path, point: Path) -> None:
    with Foreground(
        point, small, prefix=("setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin")
    ) as server:
        said = server.first
        assert server.rest()[0] == 2
    assert said.startswith(f"{point}: cannot mount: ")
    assert "Operation not permitted" in said
    assert said.endswith("a container needs --device /dev/fuse --cap-add SYS_ADMIN")


def test_unmounting_what_is_not_ours(point: Path) -> None:
    with pytest.raises(MountError, match=rf"{point}: nothing is mounted there"):
        unmount(point)
    with pytest.raises(MountError, match=r"/proc: a mount of type proc, expected one of vfs"):
        unmount("/proc")
    with pytest.raises(MountError, match="nothing is mounted there"):
        unmount(point / "none")


def test_an_ordinary_mount_at_the_mount_point_is_no_obstacle(point: Path, small: Path) -> None:
    if run("mount", "-t", "tmpfs", "tmpfs", point).returncode != 0:
        pytest.skip("no right to mount a tmpfs")
    try:
        with vfs.mount(small, point):
            assert np.load(point / "small.npy").size == 24
        assert os.listdir(point) == []
    finally:
        free(point)


def test_users_of_something_that_is_not_there() -> None:
    assert users(Mounted(-5, "999:999", KIND), detached=False) == []


def test_who_uses_the_next_mount_does_not_use_the_one_that_had_its_numbers(
    small: Path, point: Path, tmp_path: Path
) -> None:
    """A mount that ends while another begins, which gets its numbers."""
    for holds in (
        "open(sys.argv[1] + '/small.npy')",
        "os.chdir(sys.argv[1])",
        "mmap.mmap(os.open(sys.argv[1] + '/small.npy', 0), 0, access=mmap.ACCESS_READ)",
    ):
        code = f"import sys, os, mmap; held = {holds}; print(1, flush=True); input()"
        with (
            vfs.mount(small, point),
            subprocess.Popen(
                [sys.executable, "-c", code, point], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path
            ) as holder,
        ):
            assert holder.stdout
            holder.stdout.readline()
            other = points.mounted(str(point))
            assert other
            gone = Mounted(other.id, other.device, KIND)
            assert users(gone, detached=True) == []
            (said,) = users(other, detached=False)
            assert said.endswith(f"(pid {holder.pid})")
            assert detach(str(point), lazy=True) == (0, "")
            assert users(other, detached=True) == [said]
            holder.communicate(b"\n", timeout=250)


def test_the_library_is_found_in_this_process() -> None:
    assert version(library()) in (2, 3)
    if find_library("fuse3") and not {"FUSE_LIBRARY_NAME", "FUSE_LIBRARY_PATH"} & set(os.environ):
        assert version(library()) == 3
    assert "FUSE_LIBRARY_NAME" not in os.environ


def test_users_who_could_not_end_a_mount_get_none(point: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a bare system without /etc/mtab: fusermount mounts for users there, but does not unmount."""
    monkeypatch.setattr(points, "MTAB", str(point / "mtab"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(MountError, match=r"no mount could be ended: .*; as root: ln -s /proc/self/mounts .*/mtab"):
        prepare(point)
