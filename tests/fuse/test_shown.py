"""What a mounted folder shows and what is read from it."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import vfs
from tests.fuse.support import LIBRARIES, SHAPE, Scan, free, python, run, server_of, use
from vfs.api.opening import open_group
from vfs.contents.face_folder import FaceFolder
from vfs.errors import MountError
from vfs.fuse import Mount
from vfs.fuse.points import mounted
from vfs.fuse.view import FuseView, inode, library
from vfs.testing.inside import set_of


class Shown(NamedTuple):
    """A mounted scan that tests look at, and leave as it is."""

    scan: Scan
    point: Path
    mount: Mount
    lib: str


@pytest.fixture(scope="module", params=LIBRARIES)
def shown(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """A mount by each library, which several tests share."""
    folder = tmp_path_factory.mktemp("shown")
    scan, point = Scan(folder / "data"), folder / "mnt"
    point.mkdir()
    try:
        with pytest.MonkeyPatch.context() as patch:
            use(request.param, folder, patch)
            mount = scan.mount(point)
        with mount:
            yield Shown(scan, point, mount, request.param)
    finally:
        free(point)


def test_the_three_faces_are_listed_with_sizes_modes_and_owner(shown: Shown) -> None:
    scan, point, mount, lib = shown
    listed = {str(p.relative_to(point)): p.stat() for p in point.rglob("*")}
    folders = {name for name, found in listed.items() if stat.S_ISDIR(found.st_mode)}
    chunks = [f"{a}/{b}/0/0" for a in range(3) for b in range(4)]
    v2 = {
        f"part0.v2.zarr/{name}"
        for name in [
            ".zgroup",
            ".zattrs",
            ".zmetadata",
            "data/.zarray",
            "data/.zattrs",
            *(f"data/{c}" for c in chunks),
        ]
    }
    v3 = {f"part0.zarr/{name}" for name in ["zarr.json", "data/zarr.json", *(f"data/c/{c}" for c in chunks)]}
    images = {name for name in listed if name.startswith("part0.ome.")}  # each position of the scan is a chunk
    assert len(images - folders) == 60 + 2 + 60 + 5 + 4  # the group OME with its XML in each
    assert set(listed) - folders - images == v2 | v3 | {"part0.npy"}
    assert {
        "part0.zarr",
        "part0.zarr/data",
        "part0.zarr/data/c",
        "part0.zarr/data/c/2",
        "part0.zarr/data/c/2/3",
        "part0.v2.zarr/data/0/0/0",
    } <= folders
    for name, found in listed.items():
        assert stat.S_IMODE(found.st_mode) == (0o500 if name in folders else 0o400)
        assert (found.st_uid, found.st_gid) == (os.getuid(), os.getgid())
    assert listed["part0.zarr/data/c/2/3/0/0"].st_size == 2 * 3 * 64 * 48 * 2
    assert listed["part0.npy"].st_size == 128 + scan.twin.nbytes
    assert listed["part0.zarr/zarr.json"].st_size == len((point / "part0.zarr/zarr.json").read_bytes())
    used = {
        line.rsplit("/", 1)[1].strip()
        for line in Path(f"/proc/{server_of(mount).pid}/maps").read_text().splitlines()
        if "libfuse" in line
    }
    assert all(name.startswith("libfuse3" if lib == "libfuse3" else "libfuse.so.2") for name in used)
    assert used


def test_inode_numbers_differ_and_are_the_same_in_every_mount_and_listing(shown: Shown, point: Path) -> None:
    seen = []
    with shown.scan.mount(point):
        for top in (shown.point, point):
            numbers = {str(p.relative_to(top)): p.stat().st_ino for p in [top, *top.rglob("*")]}
            listed = {
                os.path.relpath(entry.path, top): entry.inode()
                for folder in [top, *top.rglob("*/")]
                for entry in os.scandir(folder)
            }
            assert listed == {name: number for name, number in numbers.items() if name != "."}
            seen.append(numbers)
    assert seen[0] == seen[1]
    assert len(set(seen[0].values())) == len(seen[0])
    assert seen[0]["."] == 1


def test_inode_numbers_fit_signed_64_bits_and_are_never_0_or_1() -> None:
    numbers = {inode(f"x/{n}") for n in range(100_000)}
    assert len(numbers) == 100_000
    assert min(numbers) > 1
    assert max(numbers) < 2**63


def test_times_are_those_of_the_newest_source(tmp_path: Path, point: Path, lib: str) -> None:
    old, new = Scan(tmp_path / "old"), Scan(tmp_path / "new")
    newest = {"part0": 1_500_000_000_123_456_789, "part0-2": 1_600_000_000_987_654_321}
    for scan, time_ns in zip((old, new), newest.values(), strict=True):
        for k, file in enumerate(scan.files):
            os.utime(file, ns=(0, time_ns - (k != 2) * 10**12))
    with vfs.mount([old.files, new.files], point, **old.options):
        for path in point.rglob("*"):
            assert path.stat().st_mtime_ns == newest[path.relative_to(point).parts[0].split(".")[0]]
        assert point.stat().st_mtime_ns == newest["part0-2"]


def test_statfs_says_how_much_there_is_and_that_nothing_isfree(shown: Shown) -> None:
    scan, point, *_ = shown
    found = os.statvfs(point)
    assert found.f_blocks * found.f_frsize >= scan.twin.nbytes
    assert (found.f_bfree, found.f_bavail, found.f_ffree, found.f_namemax) == (0, 0, 0, 255)
    assert found.f_flag & os.ST_RDONLY
    assert "100%" in run("df", point).stdout


def test_absent_names_are_absent_and_files_are_no_folders(shown: Shown) -> None:
    point = shown.point
    for name in [
        "nothing",
        "part0.zarr/.zarray",
        "part0.v2.zarr/zarr.json",
        "part0.ome.zarr/labels",  # readers of OME-Zarr look for it
        "part0.ome.v2.zarr/OME/.zattrs",
        "x" * 300,
    ]:
        for _ in range(2):  # the second time from the kernel's memory
            with pytest.raises(FileNotFoundError):
                os.stat(point / name)
            with pytest.raises(FileNotFoundError):
                (point / name).read_bytes()
    # What may be a chunk of an array that was shown here before is an error, which no client takes for an absent
    # chunk. For some of them, `stat` is told of a file, because some clients take its errors for absence, too.
    for name, code in {
        "part0.zarr/data/c/3/0/0/0": errno.EIO,
        "part0.v2.zarr/data/3/0/0/0": errno.EIO,
        "part0.zarr/data/c/0/0": errno.EIO,  # a chunk of an array with two axes
        "part0.zarr/data/c/3": errno.EIO,
        "part0.zarr/data/c/00/0/0/0": errno.EROFS,
        "part0.zarr/data/c/-1": errno.EROFS,
        "part0.zarr/data/0/0/0/0": errno.EROFS,
        "part0.zarr/data/0.0": errno.EROFS,
        "part0.zarr/old/c/0/0": errno.EROFS,
        "part0.zarr/labels/c/0/0": errno.EROFS,  # a file may have an array of such a name
        "part0.v2.zarr/volumes/labels/ids/0": errno.EROFS,
        "part0.v2.zarr/OME/0": errno.EROFS,
        "gone.zarr/data/c/0/0": errno.EROFS,
    }.items():
        for _ in range(2):
            with pytest.raises(OSError, match=os.strerror(code)):
                (point / name).read_bytes()
    assert (point / "part0.zarr/data/c/3/0/0/0").stat().st_size > 0
    assert not os.path.exists(point / "gone.zarr")
    with pytest.raises(NotADirectoryError):
        os.listdir(point / "part0.npy")
    with pytest.raises(IsADirectoryError):
        (point / "part0.zarr").read_bytes()


def test_several_sets_with_equal_names(tmp_path: Path, point: Path) -> None:
    arrays = []
    for k in range(3):
        (tmp_path / str(k)).mkdir()
        arrays.append(np.full((3, 4), k, "<i4"))
        np.save(tmp_path / str(k) / "a.npy", arrays[-1])
    with vfs.mount([tmp_path / str(k) / "a.npy" for k in range(3)], point):
        assert sorted(os.listdir(point)) == sorted(
            f"a{n}{face}"
            for n in ("", "-2", "-3")
            for face in (".zarr", ".v2.zarr", ".ome.zarr", ".ome.v2.zarr", ".npy")
        )
        for array, name in zip(arrays, ("a", "a-2", "a-3"), strict=True):
            np.testing.assert_array_equal(np.load(point / f"{name}.npy"), array)


def test_hostile_names_are_shown_as_they_are(tmp_path: Path, point: Path, lib: str) -> None:
    names = [b"new\nline", b"not utf-8 \xff", b"back\\slash, comma", b"-o"]
    for name in names:
        np.save(os.fsdecode(bytes(tmp_path) + b"/" + name + b".npy"), np.arange(6).reshape(2, 3))
    with vfs.mount([os.fsdecode(bytes(tmp_path) + b"/" + name + b".npy") for name in names], point):
        assert set(os.listdir(bytes(point))) == {
            name + face for name in names for face in (b".zarr", b".v2.zarr", b".ome.zarr", b".ome.v2.zarr", b".npy")
        }
        for name in names:
            with open(bytes(point) + b"/" + name + b".npy", "rb") as file:
                assert np.load(file).tolist() == [[0, 1, 2], [3, 4, 5]]
            assert (
                json.loads(Path(os.fsdecode(bytes(point) + b"/" + name + b".zarr/zarr.json")).read_bytes())["node_type"]
                == "group"
            )


def test_a_mount_point_with_an_awkward_name(tmp_path: Path, small: Path, lib: str) -> None:
    """All in one: what /proc/mounts escapes, what ends an option, and what begins one."""
    folder = tmp_path / "-o" / "with space, new\nline, comma,ro, back\\slash and ü"
    folder.mkdir(parents=True)
    try:
        with vfs.mount(small, folder):
            assert mounted(str(folder))
            assert (folder / "small.npy").stat().st_size
    finally:
        free(folder)


def test_a_mount_point_that_is_not_utf8(tmp_path: Path, small: Path, lib: str) -> None:
    folder = Path(os.fsdecode(bytes(tmp_path) + b"/\xff"))
    folder.mkdir()
    try:
        if lib == "fusepy":
            with pytest.raises(MountError, match=r"\\udcff: fusepy takes only names in UTF-8"):
                vfs.mount(small, folder)
        else:
            with vfs.mount(small, folder):
                assert (folder / "small.npy").stat().st_size
    finally:
        free(folder)


def test_npy_mapped_by_another_process_is_the_whole_scattered_array(tmp_path: Path, point: Path) -> None:
    dtypes = [">u2", "<u2", ">f8", "u1"]
    scans = [Scan(tmp_path / f"data{n}", dtype) for n, dtype in enumerate(dtypes)]
    for n, scan in enumerate(scans):
        np.save(tmp_path / f"twin{n}.npy", scan.twin)
    code = """
        import sys, numpy as np
        for mapped, twin in zip(sys.argv[1::2], sys.argv[2::2]):
            a, b = np.load(mapped, mmap_mode="r"), np.load(twin)
            part = np.s_[3, ::2, 5:9, ::-1]
            print(type(a).__name__, a.dtype.str, a.shape, bool((a == b).all()), bool((a[part] == b[part]).all()))
    """
    with vfs.mount([scan.describe((2, 3, 64, 48)) for scan in scans], point):
        names = [point / f"part0{n}.npy" for n in ("", "-2", "-3", "-4")]
        said = python(code, *(path for n, name in enumerate(names) for path in (name, tmp_path / f"twin{n}.npy")))
    assert said.splitlines() == [
        f"memmap {np.dtype(dtype).newbyteorder('<').str} {SHAPE} True True" for dtype in dtypes
    ]


def test_npy_through_every_library(shown: Shown) -> None:
    scan, point, *_ = shown
    np.testing.assert_array_equal(np.load(point / "part0.npy", mmap_mode="r"), scan.twin)


def test_zarr_in_another_process_reads_both_hierarchies(shown: Shown, tmp_path: Path) -> None:
    np.save(tmp_path / "twin.npy", shown.scan.twin)
    code = """
        import sys, numpy as np, zarr
        b = np.load(sys.argv[1])
        for name in sys.argv[2:]:
            a = zarr.open_group(name, mode="r")["data"]
            part = np.s_[1:5, 2:9, 3, ::7]
            same = bool((a[:] == b).all()), bool((a[part] == b[part]).all())
            print(a.metadata.zarr_format, a.dtype, a.shape, a.chunks, *same)
    """
    said = python(code, tmp_path / "twin.npy", shown.point / "part0.zarr", shown.point / "part0.v2.zarr")
    assert said.splitlines() == [f"{number} uint16 {SHAPE} (2, 3, 64, 48) True True" for number in (3, 2)]


def test_cat_dd_cmp_find_ls(shown: Shown, tmp_path: Path) -> None:
    scan, point, *_ = shown
    (tmp_path / "twin").write_bytes(scan.twin.tobytes())
    npy = point / "part0.npy"
    chunk = run("cat", point / "part0.zarr/data/c/1/2/0/0", text=False).stdout
    assert chunk == scan.twin[2:4, 6:9].tobytes()
    assert run("cmp", "-i", "128:0", npy, tmp_path / "twin").returncode == 0
    piece = run("dd", f"if={npy}", "bs=1001", "skip=77", "count=33", "status=none", text=False).stdout
    assert piece == npy.read_bytes()[77 * 1001 : 110 * 1001]
    assert run("find", point, "-type", "f", "-path", "*/data/*", "-name", "[0-9]*").stdout.count("\n") == 24
    listed = run("ls", "-lR", point)
    assert (listed.returncode, listed.stderr) == (0, "")
    assert f"{npy.stat().st_size} " in listed.stdout
    copied = run("cp", "-r", point / "part0.v2.zarr", tmp_path / "copy")
    assert copied.returncode == 0
    assert run("diff", "-r", point / "part0.v2.zarr", tmp_path / "copy").returncode == 0


def test_reads_at_and_beyond_the_end(shown: Shown) -> None:
    scan, point, *_ = shown
    with open(point / "part0.npy", "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        assert os.pread(file.fileno(), 100, size) == b""
        assert os.pread(file.fileno(), 100, size + 10**6) == b""
        assert os.pread(file.fileno(), 100, size - 7) == scan.twin.tobytes()[-7:]
        assert os.pread(file.fileno(), 10, 125)[3:] == scan.twin.tobytes()[:7]


def test_sixteen_processes_read_at_random(shown: Shown, tmp_path: Path) -> None:
    np.save(tmp_path / "twin.npy", shown.scan.twin)
    code = """
        import sys, os, random, traceback, numpy as np
        point, twin = sys.argv[1], np.load(sys.argv[2])
        flat = twin.tobytes()

        def read():
            with open(f"{point}/part0.npy", "rb", buffering=0) as file:
                for _ in range(60):
                    at, n = random.randrange(len(flat)), random.randrange(1, 200_000)
                    assert os.pread(file.fileno(), n, 128 + at) == flat[at : at + n], (at, n)
                    a, b = random.randrange(3), random.randrange(4)
                    face = random.choice(["part0.zarr/data/c", "part0.v2.zarr/data"])
                    got = open(f"{point}/{face}/{a}/{b}/0/0", "rb").read()
                    whole = np.zeros((2, 3, 64, 48), "<u2")
                    part = twin[2 * a : 2 * a + 2, 3 * b : 3 * b + 3]
                    whole[: part.shape[0], : part.shape[1]] = part
                    assert got == whole.tobytes(), (a, b)

        for seed in range(16):
            if os.fork() == 0:
                random.seed(seed)
                try:
                    read()
                except BaseException:
                    traceback.print_exc()
                    os._exit(1)
                os._exit(0)
        print(*(os.wait()[1] for _ in range(16)))
    """
    done = run(sys.executable, "-c", textwrap.dedent(code), shown.point, tmp_path / "twin.npy", timeout=250)
    assert (done.stdout, done.stderr) == ("0" + 15 * " 0" + "\n", "")


def test_two_mounts_at_once(scan: Scan, point: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    try:
        with scan.mount(point), scan.mount(other, chunks=(6, 10, 64, 48)):
            assert (point / "part0.npy").read_bytes() == (other / "part0.npy").read_bytes()
            assert (other / "part0.zarr/data/c/0/0/0/0").read_bytes() == scan.twin.tobytes()
        assert not mounted(str(point))
        assert not mounted(str(other))
    finally:
        free(other)


@pytest.fixture(scope="module")
def million(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("million") / "m.npy"
    np.save(path, np.arange(1_000_000, dtype="u4"))
    return path


def memory(pid: int) -> int:
    """Bytes of memory a process has had at most."""
    return int(re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())[0]) * 1024


def test_a_folder_of_a_million_chunks_is_listed_as_it_goes(million: Path, point: Path, lib: str) -> None:
    with vfs.mount(million, point, chunks=(1,)) as mount:
        pid = server_of(mount).pid
        folder = point / "m.zarr/data/c"
        with os.scandir(folder) as entries:  # the first ones are there at once
            first = [next(entries) for _ in range(3)]
        assert [entry.name for entry in first] == ["0", "1", "2"]
        assert all(entry.is_file(follow_symlinks=False) for entry in first)
        before = memory(pid)
        count = 0
        with os.scandir(folder) as entries:
            for entry in entries:
                assert entry.name == str(count)
                assert entry.is_file(follow_symlinks=False)
                count += 1
        assert count == 1_000_000
        assert memory(pid) - before < 16 << 20  # a million objects would be more than 100 MB
        assert (folder / "999999").read_bytes() == (999_999).to_bytes(4, "little")
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):  # no chunk of this array
            (folder / "1000000").read_bytes()


def test_listing_resumes_at_any_offset(scan: Scan, point: Path) -> None:
    folder = FaceFolder([set_of(open_group(scan.files, **{**scan.options, "chunks": (1, 1, 64, 48)})).tree])
    view = FuseView(folder, library(), False)

    def listed(key: bytes, offset: int, room: int = 1000) -> list[tuple[str, int, int, int]]:
        found = []

        def fill(buf: object, name: bytes, to: Any, position: int, *last: int) -> int:
            if len(found) == room:
                return 1
            found.append((name.decode(), to.st_ino, to.st_mode, position))
            return 0

        assert view.readdir(key, None, fill, offset, None, 0) == 0
        return found

    for key in (b"/", b"/part0.zarr", b"/part0.zarr/data", b"/part0.zarr/data/c", b"/part0.v2.zarr/data/5"):
        whole = listed(key, 0)
        assert [entry[0] for entry in whole[:2]] == [".", ".."]
        assert [entry[3] for entry in whole] == list(range(1, len(whole) + 1))
        for offset in range(len(whole) + 1):
            assert listed(key, offset) == whole[offset:]
            assert listed(key, offset, 2) == whole[offset : offset + 2]
    assert listed(b"/part0.zarr/data/c", 0)[:2] == [
        (".", inode("part0.zarr/data/c"), stat.S_IFDIR | 0o500, 1),
        ("..", inode("part0.zarr/data"), stat.S_IFDIR | 0o500, 2),
    ]


def test_every_write_is_refused_as_read_only(shown: Shown) -> None:
    scan, point, *_ = shown

    def content() -> list[str]:
        return [hashlib.sha256(file.read_bytes()).hexdigest() for file in scan.files]

    before = content()
    file, folder, new, chunk = (
        point / "part0.npy",
        point / "part0.zarr",
        point / "new",
        point / "part0.zarr/data/c/0/0/0/0",
    )
    writes: dict[str, Callable[[], object]] = {
        "open O_WRONLY": lambda: os.open(file, os.O_WRONLY),
        "open O_RDWR": lambda: os.open(chunk, os.O_RDWR),
        "open O_TRUNC": lambda: os.open(file, os.O_WRONLY | os.O_TRUNC),
        "open O_APPEND": lambda: os.open(file, os.O_WRONLY | os.O_APPEND),
        "create": lambda: os.open(new, os.O_CREAT | os.O_WRONLY, 0o644),
        "create chunk": lambda: (point / "part0.zarr/data/c/9/0/0/0").write_bytes(b"x"),
        "create in an array": lambda: (point / "part0.zarr/data/c/1/0/0/0.x.partial").write_bytes(b"x"),
        "mkdir": lambda: os.mkdir(new),
        "mkfifo": lambda: os.mkfifo(new),
        "rmdir": lambda: os.rmdir(folder),
        "unlink": lambda: os.unlink(chunk),
        "rename": lambda: os.rename(file, new),
        "rename over": lambda: os.rename(file, chunk),
        "link": lambda: os.link(file, new),
        "symlink": lambda: os.symlink(file, new),
        "chmod": lambda: os.chmod(file, 0o777),
        "chown": lambda: os.chown(file, 1, 1),
        "truncate": lambda: os.truncate(file, 0),
        "utime": lambda: os.utime(file),
        "setxattr": lambda: os.setxattr(file, "user.x", b"y"),
        "removexattr": lambda: os.removexattr(file, "user.x"),
    }
    creating: dict[str, Callable[[Path], object]] = {
        "create": lambda path: os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600),
        "open or create": lambda path: os.open(path, os.O_CREAT | os.O_RDONLY, 0o600),
        "mkdir": os.mkdir,
        "mknod": os.mkfifo,
        "symlink": lambda path: os.symlink(file, path),
        "link": lambda path: os.link(file, path),
        "rename": lambda path: os.rename(file, path),
    }
    for name in (
        "new.zarr",
        "new.zarr/data",
        "part0.zarr/new",
        "part0.zarr/zarr.json.x.partial",
        "part0.zarr/data/new",
        "part0.zarr/data/0",
        "part0.zarr/data/c/0.0",
        "part0.zarr/data/c/0/0/0/01",
        "part0.v2.zarr/new/0.0",
        "part0.v2.zarr/data/0.0",
    ):
        writes |= {f"{what} {name}": partial(create, point / name) for what, create in creating.items()}
    got = {}
    for name, write in writes.items():
        try:
            write()
            got[name] = "worked"
        except OSError as error:
            got[name] = errno.errorcode[error.errno or 0]
    assert got == dict.fromkeys(writes, "EROFS")
    for command in (
        "touch new",
        "touch part0.npy",
        "mkdir new",
        "rm -f part0.npy",
        "rm -rf part0.zarr",
        "mv part0.npy x",
        "ln part0.npy x",
        "ln -s a x",
        "chmod 777 part0.npy",
        "truncate -s 0 part0.npy",
        "cp /etc/passwd new",
        "echo x >> part0.npy",
        "dd if=/dev/zero of=part0.npy count=1",
    ):
        done = run("sh", "-c", command, cwd=point, env={**os.environ, "LC_ALL": "C"})
        assert (command, done.returncode != 0, "read-only file system" in done.stderr.lower()) == (command, True, True)
    np.testing.assert_array_equal(np.load(file), scan.twin)
    assert content() == before
