"""Nothing is written, and nobody gets in who should not: by the kernel's answers, with another
user, with hostile names.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import vfs
from tests.fuse.support import Scan, free, run
from vfs.cli.app import main

LIBC = ctypes.CDLL(None, use_errno=True)
NOBODY = 65534
AT_FDCWD, RENAME_EXCHANGE = -100, 2


def call(name: str, *args: int | bytes) -> int:
    """A function of libc: its error number, 0 where it works."""
    ctypes.set_errno(0)
    return ctypes.get_errno() if getattr(LIBC, name)(*args) == -1 else 0


def test_every_system_call_that_writes_is_refused(scan: Scan, point: Path, lib: str) -> None:
    def content() -> list[tuple[str, int]]:
        return [(hashlib.sha256(file.read_bytes()).hexdigest(), file.stat().st_mtime_ns) for file in scan.files]

    before = content()
    with scan.mount(point):
        file, folder, new = (os.fsencode(point / name) for name in ("part0.npy", "part0.zarr", "new"))
        chunk = os.fsencode(point / "part0.zarr/data/c/0/0/0/0")
        fd, at = os.open(file, os.O_RDONLY), os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        mode, times = 0o666, ctypes.create_string_buffer(32)
        calls: dict[str, Callable[[], int]] = {
            **{
                f"open {flags:o}": lambda flags=flags: call("open", file, flags, mode)
                for flags in (
                    os.O_WRONLY,
                    os.O_RDWR,
                    os.O_WRONLY | os.O_APPEND,
                    os.O_RDWR | os.O_TRUNC,
                    os.O_RDONLY | os.O_TRUNC,
                )
            },
            **{
                f"create {flags:o}": lambda flags=flags: call("open", new, flags | os.O_CREAT, mode)
                for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR)
            },
            "create in a folder": lambda: call("openat", at, b"new", os.O_CREAT | os.O_WRONLY, mode),
            "creat": lambda: call("creat", new, mode),
            "creat over": lambda: call("creat", chunk, mode),
            "mkdir": lambda: call("mkdir", new, mode),
            "mkdirat": lambda: call("mkdirat", at, b"new", mode),
            "mknod file": lambda: call("mknod", new, 0o100666, 0),
            "mkfifo": lambda: call("mkfifo", new, mode),
            "rmdir": lambda: call("rmdir", folder),
            "unlink": lambda: call("unlink", chunk),
            "unlinkat": lambda: call("unlinkat", at, b"zarr.json", 0),
            "rename": lambda: call("rename", file, new),
            "rename over": lambda: call("rename", file, chunk),
            "renameat2 exchange": lambda: call("renameat2", AT_FDCWD, file, AT_FDCWD, chunk, RENAME_EXCHANGE),
            "link": lambda: call("link", file, new),
            "symlink": lambda: call("symlink", b"x", new),
            "chmod": lambda: call("chmod", file, 0o777),
            "fchmod": lambda: call("fchmod", fd, 0o777),
            "fchmodat": lambda: call("fchmodat", at, b"zarr.json", 0o777, 0),
            "chown": lambda: call("chown", file, 1, 1),
            "lchown": lambda: call("lchown", file, 1, 1),
            "fchown": lambda: call("fchown", fd, 1, 1),
            "truncate": lambda: call("truncate", file, 0),
            "utimensat": lambda: call("utimensat", AT_FDCWD, file, None, 0),
            "utimensat, these times": lambda: call("utimensat", AT_FDCWD, file, times, 0x100),
            "futimens": lambda: call("futimens", fd, None),
            "utimes": lambda: call("utimes", file, None),
            "setxattr": lambda: call("setxattr", file, b"user.x", b"y", 1, 0),
            "lsetxattr": lambda: call("lsetxattr", file, b"user.x", b"y", 1, 0),
            "fsetxattr": lambda: call("fsetxattr", fd, b"user.x", b"y", 1, 0),
            "removexattr": lambda: call("removexattr", file, b"user.x"),
            "fremovexattr": lambda: call("fremovexattr", fd, b"user.x"),
        }
        assert {name: errno.errorcode.get(act(), "worked") for name, act in calls.items()} == dict.fromkeys(
            calls, "EROFS"
        )
        # what needs a descriptor to write through finds none: there is only one to read
        others = {
            "write": lambda: call("write", fd, b"x", 1),
            "pwrite": lambda: call("pwrite", fd, b"x", 1, 0),
            "ftruncate": lambda: call("ftruncate", fd, 0),
            "fallocate": lambda: call("fallocate", fd, 0, ctypes.c_int64(0), ctypes.c_int64(10)),  # type: ignore[arg-type]
            "O_TMPFILE": lambda: call("open", folder, os.O_TMPFILE | os.O_RDWR, mode),
        }
        for name, act in others.items():
            assert act() in (errno.EROFS, errno.EBADF, errno.EINVAL, errno.EOPNOTSUPP), name
        os.close(fd)
        os.close(at)
        np.testing.assert_array_equal(np.load(point / "part0.npy"), scan.twin)
    assert content() == before


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that every user may enter."""
    with tempfile.TemporaryDirectory(prefix="vfs-test-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "mnt").mkdir()
        try:
            yield folder
        finally:
            free(folder / "mnt")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user, too")
def test_only_who_mounted_gets_in(public: Path) -> None:
    np.save(public / "a.npy", np.arange(6))
    (public / "beside").mkdir(mode=0o755)
    (public / "a.npy").chmod(0o600)
    with vfs.mount(public / "a.npy", public / "mnt"):
        assert os.listdir(public / "mnt")
        for path, allowed in ((public / "beside", True), (public / "mnt", False), (public / "mnt" / "a.zarr", False)):
            done = run(
                "ls", path, user=NOBODY, group=NOBODY, extra_groups=[], cwd="/", env={**os.environ, "LC_ALL": "C"}
            )
            assert (done.returncode == 0) is allowed, done.stderr
            assert allowed or "Permission denied" in done.stderr
        done = run(
            "cat",
            public / "mnt" / "a.npy",
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            cwd="/",
            env={**os.environ, "LC_ALL": "C"},
        )
        assert done.returncode
        assert "Permission denied" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user, too")
@pytest.mark.parametrize("tree", [False, True])
def test_others_who_are_let_in_may_read_what_is_for_all_to_read(
    public: Path, tree: bool, lib: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """A set with one file that is not for everybody stays with who mounted, all of it."""
    data = public / "data"
    (data / "set").mkdir(parents=True)
    data.chmod(0o755)
    modes = {"open": 0o644, "mine": 0o600, "group": 0o640}
    for name, mode in modes.items():
        np.save(data / f"{name}.npy", np.arange(6).reshape(2, 3))
        (data / f"{name}.npy").chmod(mode)
    for k in range(3):
        np.save(data / f"set/a{k}.npy", np.arange(6).reshape(2, 3))
        (data / f"set/a{k}.npy").chmod(0o600 if k == 2 else 0o644)
    what = (
        data
        if tree
        else [data / "open.npy", data / "mine.npy", data / "group.npy", [data / f"set/a{k}.npy" for k in range(3)]]
    )
    point = public / "mnt"

    def as_nobody(*command: str | Path) -> tuple[int, str]:
        done = run(
            *command, user=NOBODY, group=NOBODY, extra_groups=[], cwd="/", env={**os.environ, "LC_ALL": "C"}, text=False
        )
        return done.returncode, (
            hashlib.sha256(done.stdout).hexdigest()
            if done.returncode == 0
            else done.stderr.decode().rpartition(": ")[2].strip()
        )

    with vfs.mount(what, point, tree=tree, allow_other=True):
        seen = set()
        for path in [found for found in point.rglob("*") if found.is_file()]:
            name = next(part.split(".")[0] for part in path.relative_to(point).parts if "." in part)
            seen.add(name)
            private = name in {"mine", "group", "a2" if tree else "a0"}
            assert path.stat().st_mode & 0o777 == (0o400 if private else 0o444), path
            said = as_nobody("cat", path)
            assert said == (
                (1, "Permission denied") if private else (0, hashlib.sha256(path.read_bytes()).hexdigest())
            ), path
        assert seen == {"open", "mine", "group", "a0", *(["a1", "a2"] if tree else [])}
        assert as_nobody("ls", point)[0] == 0
        assert as_nobody("ls", point / "open.zarr/data")[0] == 0
        assert as_nobody("ls", point / "mine.zarr") == (2, "Permission denied")
    lines = [
        line
        for line in capfd.readouterr().err.splitlines()
        if "its data are shown only to those who may read that file" in line
    ]
    assert [next(name for name in ("mine.npy", "group.npy", "a2.npy") if name in line) for line in lines] == (
        [] if tree else ["mine.npy", "group.npy", "a2.npy"]
    )


def as_user(user: int, groups: list[int], *command: str | Path) -> str:
    """What another user is told: the output, or the reason."""
    done = run(*command, user=user, group=user, extra_groups=groups, cwd="/", env={**os.environ, "LC_ALL": "C"})
    return done.stdout if done.returncode == 0 else done.stderr.strip().rpartition(": ")[2]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user, too")
@pytest.mark.parametrize("tree", [False, True])
def test_everybody_reads_what_he_could_read_from_the_files(public: Path, tree: bool) -> None:
    """Folders above count, groups, lists of users; and what holds is what holds when the file is opened."""
    data, point, member = public / "data", public / "mnt", 12_345
    (data / "private").mkdir(parents=True)
    data.chmod(0o755)
    paths = {name: data / f"{name}.npy" for name in ("open", "group", "list", "late")} | {
        "secret": data / "private/secret.npy"
    }
    for path in paths.values():
        np.save(path, np.arange(100).reshape(2, 50))
        path.chmod(0o644)
    (data / "private").chmod(0o700)
    os.chown(paths["group"], 0, member)
    paths["group"].chmod(0o640)
    paths["list"].chmod(0o640)
    # acl(5): the owner, the user NOBODY, the group, mask, others
    entries = [(1, 6, -1), (2, 4, NOBODY), (4, 0, -1), (16, 4, -1), (32, 0, -1)]
    acl = struct.pack("<I", 2) + b"".join(
        struct.pack("<HHI", tag, bits, who & 0xFFFFFFFF) for tag, bits, who in entries
    )
    try:
        os.setxattr(paths["list"], "system.posix_acl_access", acl)
    except OSError:
        del paths["list"]  # the file system has no such lists
    at = {name: point / (f"private/{name}" if tree and name == "secret" else name) for name in paths}
    users: dict[str, tuple[int, list[int]]] = {"nobody": (NOBODY, []), "member": (54_321, [member])}

    def read(ending: str) -> dict[str, tuple[bool, bool]]:
        """(whether a user could read a file, whether he reads it through the mount)."""
        said = {}
        for who, (user, groups) in users.items():
            for name, path in paths.items():
                direct, shown = (as_user(user, groups, "wc", "-c", file) for file in (path, f"{at[name]}{ending}"))
                said[f"{who} {name}"] = direct != "Permission denied", shown != "Permission denied"
        return said

    with vfs.mount(data if tree else list(paths.values()), point, tree=tree, allow_other=True):
        for ending in (".npy", ".zarr/zarr.json", ".zarr/data/c/0/0"):
            said = read(ending)
            assert all(could == does for could, does in said.values()), (ending, said)
        assert {who for who, (could, _) in said.items() if could} == {
            *("nobody open", "nobody late", "member open", "member late", "member group"),
            *(["nobody list"] if "list" in paths else []),
        }
        if tree:
            for command in (["ls", point / "private"], ["stat", point / "private/secret.npy"]):
                assert as_user(NOBODY, [], *command) == "Permission denied"
        paths["late"].chmod(0o600)
        (data / "private").chmod(0o755)
        said = read(".npy")
        assert all(could == does for could, does in said.values()), said
        assert said["nobody secret"] == (True, True)
        assert said["nobody late"] == (False, False)
        assert np.load(f"{at['late']}.npy").shape == (2, 50)


HOSTILE = [
    b"new\nline",
    b"\x1b[31mred",
    b"not utf-8 \xff\xfe",
    b"..x",
    b"-rf",
    b" ",
    b"a\\b",
    b"\xe2\x80\xaetxt",
    b"\xc2\x9b31m",
    b"x" * 240,
    b"tab\there",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_said_of_hostile_names_is_safe_on_a_terminal(
    tmp_path: Path, name: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    path = os.fsdecode(bytes(tmp_path) + b"/" + name + b".npy")
    np.save(path, np.arange(6).reshape(2, 3))
    for command in (
        ["info", path],
        ["info", "-v", path],
        ["info", path + ".none"],
        ["export", path, path],
        ["mount", path, path],
    ):
        main(command)
        out, err = capfd.readouterr()
        for line in (out + err).split("\n"):
            assert line.isprintable(), (command, line)


def test_names_as_long_as_names_can_be(tmp_path: Path, point: Path) -> None:
    for name in ("y" * 251, "ü" * 125):
        np.save(tmp_path / f"{name}.npy", np.arange(6).reshape(2, 3))
        with vfs.mount(tmp_path / f"{name}.npy", point):
            shown = os.listdir(point)
            assert len(shown) == 5
            assert all(len(os.fsencode(entry)) <= 255 for entry in shown)
            assert np.load(next(point.glob("*.npy"))).tolist() == [[0, 1, 2], [3, 4, 5]]
            assert all((point / entry).stat() for entry in shown)


def test_no_file_that_others_could_read_is_left_in_the_temporary_folder(tmp_path: Path, point: Path) -> None:
    """With a umask that hides nothing."""
    np.save(tmp_path / "a.npy", np.arange(6.0))
    temporary, home = tmp_path / "temporary", tmp_path / "home"
    temporary.mkdir()
    home.mkdir()
    code = """
        import os, sys, vfs
        from vfs.cli.app import main
        os.umask(0)
        with vfs.mount(sys.argv[1], sys.argv[2]):
            walked = [each for top in sys.argv[3:] for each in os.walk(top)]
            found = [os.path.join(at, name) for at, folders, files in walked for name in folders + files]
            compiled = ("numba", "__pycache__")
            print([path for path in found if os.stat(path).st_mode & 0o077 and not any(x in path for x in compiled)])
    """
    import textwrap

    environment = {
        **os.environ,
        "TMPDIR": str(temporary),
        "HOME": str(home),
        "XDG_RUNTIME_DIR": str(home),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [
        sys.executable,
        "-c",
        textwrap.dedent(code),
        str(tmp_path / "a.npy"),
        str(point),
        str(temporary),
        str(home),
    ]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=250, check=False)
    assert done.stdout == "[]\n", done.stderr
