"""Mounting where it is most often tried: as a user who is not root, and in containers. In
namespaces of their own, so that nobody else sees them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import vfs
from tests.fuse.support import run

WORLD = ("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc")

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare") or run(*WORLD, "true").returncode != 0,
    reason="takes root, unshare(1) and the right to use it",
)

CAPABILITIES = [
    *("chown", "dac_override", "fowner", "fsetid", "kill", "setgid", "setuid"),
    *("setpcap", "net_bind_service", "net_raw", "sys_chroot", "mknod", "audit_write", "setfcap"),
]
"""What root may do in a container of Docker."""

VFS = """
    as() { "$@"; }
    vfs() { as "$PYTHON" -P -m vfs "$@"; }
"""
DEVICE = """
    device() { rm -f "$1"; mknod "$1" c 10 229; chmod 666 "$1"; }  # open to all, as it is on most machines
"""


def in_a_world_of_its_own(
    script: str, *arguments: object, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a shell script in mount and process namespaces: what it mounts, nobody else sees, and all
    that it starts ends with it.
    """
    env = (
        {key: value for key, value in os.environ.items() if key != "XDG_RUNTIME_DIR"}
        | {"PYTHON": sys.executable, "LC_ALL": "C"}
        | (environment or {})
    )
    return run(*WORLD, "bash", "-euc", textwrap.dedent(script), "bash", *map(str, arguments), env=env, timeout=250)


def closed(path: str | os.PathLike[str]) -> Path | None:
    """The topmost folder on the way to a path that others cannot go through."""
    return next((above for above in reversed(Path(path).resolve().parents) if not above.stat().st_mode & 0o001), None)


def compiled_for(folder: Path) -> None:
    """Put what is compiled already where a user who may not write into the package has it, if that
    is where we think. Else it is compiled again.
    """
    with suppress(ImportError, AttributeError, OSError):
        from numba.core.caching import _CacheLocator as Locator

        for module in Path(vfs.__file__).parent.glob("kernels/**/*.py"):
            to = folder / Locator.get_suitable_cache_subpath(str(module))
            to.mkdir(parents=True, exist_ok=True)
            for made in (module.parent / "__pycache__").glob(f"{module.stem}.*.nb?"):
                shutil.copy(made, to)


@pytest.fixture(scope="module")
def nobody() -> Iterator[Path]:
    """A folder of a user who is not root, below one that everybody can get to."""
    for path in (__file__, vfs.__file__, np.__file__):
        if above := closed(path):
            pytest.skip(f"nobody cannot get to what is in {above}")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        path = Path(name)
        path.chmod(0o755)
        (path / "home/mnt").mkdir(parents=True)
        np.save(path / "home/small.npy", np.arange(24.0))
        compiled_for(path / "home/cache")
        for one in (path / "home", *(path / "home").rglob("*")):
            shutil.chown(one, "nobody")
        yield path


def test_as_a_user_who_is_not_root(nobody: Path) -> None:
    """/etc/fuse.conf says what we want."""
    script = f"""
        folder=$1; python=$2; closed=$3; cd "$folder"
        {VFS}{DEVICE}
        if [ -n "$closed" ]; then  # Python is in a closed folder: here is one that is open, with nothing else in it
            way="way/${{python#"$closed"/}}"
            mkdir -p "$way"; mount --bind "$python" "$way"; mount --rbind way "$closed"
        fi
        device fuse; mount --bind fuse /dev/fuse
        echo >fuse.conf; chmod 644 fuse.conf; touch /etc/fuse.conf; mount --bind fuse.conf /etc/fuse.conf
        as() {{ setpriv --reuid nobody --regid "$(id -g nobody)" --clear-groups "$@"; }}
        export HOME="$folder/home" NUMBA_CACHE_DIR="$folder/home/cache" TMPDIR="$folder/home"
        cd home
        vfs mount small.npy mnt --background
        as stat -c '%U %A' mnt/small.npy
        as cat mnt/small.npy | cmp - small.npy && echo same
        cat mnt/small.npy 2>&1 >/dev/null | grep -o 'Permission denied'
        COLUMNS=200 vfs mounts | tail -n 1 | awk '{{print $1, $NF}}'
        ls -ld vfs-* | cut -c1-10
        vfs unmount mnt
        vfs mount small.npy mnt --allow-other || echo "refused: $?"
        echo user_allow_other >"$folder/fuse.conf"
        vfs mount small.npy mnt --background --allow-other
        cmp mnt/small.npy small.npy && echo same
        stat -c '%U %A' mnt/small.npy
        vfs unmount --all
        ls mnt | wc -l
    """
    done = in_a_world_of_its_own(script, nobody, sys.base_prefix, closed(sys.base_prefix + "/bin") or "")
    home_of = nobody / "home"
    assert done.stdout.splitlines() == [
        "nobody -r--------",
        "same",
        "Permission denied",
        f"{home_of}/mnt {home_of}/small.npy",
        "drwx------",
        "refused: 2",
        "same",
        "nobody -r--r--r--",
        "0",
    ], done.stderr
    refused = [line for line in done.stderr.splitlines() if "not permitted" in line]
    assert refused == [
        "vfs: --allow-other: not permitted: /etc/fuse.conf has no line user_allow_other; root can add it"
    ]


ALL = """
import os, subprocess, sys
from vfs.cli.app import main
from vfs.fuse.points import detach, mounted, ours
small, *points = sys.argv[1:]
for name in ours():  # those of tests beside this one
    while mounted(name):
        detach(name, lazy=True)

def vfs(*arguments):
    sys.stdout.flush()
    print(*arguments[:2], main(arguments), flush=True)

vfs("unmount", "--all")
for point in points:
    vfs("mount", small, point, "--background")
with open(points[1] + "/small.npy") as file:
    holder = subprocess.Popen(["sleep", "1000"], stdin=file)
vfs("unmount", "--all")
print([name for name in points if mounted(name)] == [points[1]])
holder.kill()
holder.wait()
vfs("unmount", "--all")
vfs("mounts")
"""


def test_unmount_all(small: Path, tmp_path: Path) -> None:
    points = [tmp_path / f"m{k}" for k in range(3)]
    for point in points:
        point.mkdir()
    done = in_a_world_of_its_own(
        'exec "$PYTHON" -c "$@"', ALL, small, *points, environment={"TMPDIR": str(tmp_path), "XDG_RUNTIME_DIR": ""}
    )
    mounts = "".join(f"mount {small} 0\n" for _ in points)
    assert (
        done.stdout
        == f"unmount --all 0\n{mounts}unmount --all 2\nTrue\nunmount --all 0\nnothing is mounted or served\nmounts 0\n"
    ), done.stderr
    assert re.search(rf"^vfs: {points[1]}: in use by sleep \(pid \d+\); close", done.stderr, re.MULTILINE)


# containers: another root folder, in which there is what Python needs, four devices, and nothing of the machine besides

ROOT = f"""
    {VFS}{DEVICE}
    root=$1; shift
    mount -t tmpfs -o mode=755 tmpfs "$root"
    mkdir -p "$root"/proc "$root"/dev "$root"/home/mnt
    mkdir -m 1777 "$root"/tmp
    for name in /bin /sbin /lib /lib32 /lib64 /usr /etc "$@"; do
        if [ -L "$name" ]; then cp -d "$name" "$root$name"
        elif [ -d "$name" ]; then mkdir -p "$root$name"; mount --bind -o ro "$name" "$root$name"; fi
    done
    mount --rbind /proc "$root/proc"
    for name in null zero urandom; do touch "$root/dev/$name"; mount --bind "/dev/$name" "$root/dev/$name"; done
    mkdir "$root/devices"; device "$root/devices/fuse"
    cp "$SMALL" "$root/home/small.npy"; chmod 644 "$root/home/small.npy"
    cp -r "$CACHE" "$root/home/cache"
    export HOME=/home TMPDIR=/tmp NUMBA_CACHE_DIR=/home/cache
    unset XDG_RUNTIME_DIR
"""
MOUNTS = """
    cd home
    vfs mount small.npy mnt --background
    cmp mnt/small.npy small.npy && echo same
    touch mnt/new 2>&1 | grep -o 'Read-only file system'
    "$PYTHON" -c 'import json; print(json.load(open("mnt/small.zarr/zarr.json"))["node_type"])'
    vfs unmount --all
    ls mnt | wc -l
"""
MOUNTED = ["same", "Read-only file system", "group", "0"]


def container(tmp_path: Path, small: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script that finds the folder of a container in $root."""
    root, cache = tmp_path / "root", tmp_path / "cache"
    root.mkdir()
    cache.mkdir()
    compiled_for(cache)
    needed = sorted(
        {
            os.path.realpath(name)
            for name in (sys.base_prefix, sys.prefix, *filter(None, sys.path))
            if os.path.isdir(name)
        }
        | {sys.prefix}
    )
    folders = [
        name
        for name in needed
        if not name.startswith(("/usr/", "/lib/")) and not any(name.startswith(other + "/") for other in needed)
    ]
    modules = os.pathsep.join(filter(None, sys.path))
    return in_a_world_of_its_own(
        ROOT + script,
        root,
        *folders,
        environment={"SMALL": str(small), "PYTHONPATH": modules, "CACHE": str(cache), "INSIDE": VFS + MOUNTS},
    )


@pytest.mark.parametrize("fusermount", [True, False])
def test_in_a_container_of_root_with_the_device_and_the_right_to_mount(
    tmp_path: Path, small: Path, fusermount: bool
) -> None:
    """As with --device /dev/fuse --cap-add SYS_ADMIN."""
    capabilities = ",".join(f"+{name}" for name in [*CAPABILITIES, "sys_admin"])
    hide = (
        'for name in fusermount fusermount3; do [ ! -e "/usr/bin/$name" ] || mount --bind /dev/null'
        ' "$root/usr/bin/$name"; done'
    )
    script = f"""
        {"" if fusermount else hide}
        touch "$root/dev/fuse"; mount --bind "$root/devices/fuse" "$root/dev/fuse"
        exec chroot "$root" setpriv --bounding-set "-all,{capabilities}" --inh-caps -all bash -euc "$INSIDE"
    """
    done = container(tmp_path, small, script)
    assert done.stdout.splitlines() == MOUNTED, done.stderr


def test_in_a_container_of_a_user_who_is_not_root(tmp_path: Path, small: Path) -> None:
    """As in rootless Podman with --device /dev/fuse: the user is root in there, and may mount in there."""
    as_nobody = (
        "setpriv",
        "--reuid",
        "nobody",
        "--regid",
        "nogroup",
        "--clear-groups",
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
    )
    if run(*as_nobody, "true").returncode != 0:
        pytest.skip("users may not make namespaces here")
    script = f"""
        chown -R nobody "$root/home"
        touch "$root/dev/fuse"; mount --bind "$root/devices/fuse" "$root/dev/fuse"
        cd "$root"  # the way to it is closed
        exec {" ".join(as_nobody)} chroot . bash -euc "$INSIDE"
    """
    done = container(tmp_path, small, script)
    assert done.stdout.splitlines() == MOUNTED, done.stderr


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            "",
            (
                "vfs: no /dev/fuse (No such file or directory): load the kernel module: modprobe fuse (as root); a"
                " container needs "
            ),
        ),
        (
            (
                'touch "$root/dev/fuse"; mount --bind "$root/devices/fuse" "$root/dev/fuse"; mount -o'
                ' bind,remount,nodev "$root/dev/fuse"'
            ),
            (
                "vfs: not permitted to open /dev/fuse: Permission denied; it should have mode 0666 for all users; a"
                " container needs "
            ),
        ),
        (
            'touch "$root/dev/fuse"; mount --bind "$root/devices/fuse" "$root/dev/fuse"',
            "vfs: /home/mnt: cannot mount: ",
        ),
    ],
)
def test_what_a_container_lacks_is_said(tmp_path: Path, small: Path, given: str, says: str) -> None:
    capabilities = ",".join(f"+{name}" for name in CAPABILITIES)
    script = f"""
        {given}
        exec chroot "$root" setpriv --bounding-set "-all,{capabilities}" --inh-caps -all \\
            "$PYTHON" -P -m vfs mount /home/small.npy /home/mnt
    """
    done = container(tmp_path, small, script)
    assert done.returncode == 2
    assert done.stderr.startswith(says)
    assert done.stderr.endswith("a container needs --device /dev/fuse --cap-add SYS_ADMIN\n")
    assert done.stderr.count("\n") == 1
