"""Sources that fail while eight processes read them: what they get is exact or an error, the server
lives, and what comes back can be read.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.fuse.support import HEADERS, STAGES, Foreground, Scan, free, reach, restless_tree, run, server_of
from tests.waiting import eventually
from vfs.errors import VfsError
from vfs.fuse import Mount, MountHow
from vfs.fuse.points import mounted
from vfs.testing.inside import reader_of, set_of
from vfs.testing.writers import write_raw

READER = """
    import json, os, random, signal, sys, time
    point, rng, pause = sys.argv[1], random.Random(int(sys.argv[2])), float(sys.argv[3])
    flats = [open(name, "rb").read() for name in sys.argv[4:]]
    long = len(flats[0])
    count, errors, done = {"exact": 0, "other": 0}, {}, []
    signal.signal(signal.SIGTERM, lambda *args: done.append(1))
    said = False
    while not done:
        time.sleep(pause)
        try:
            if rng.random() < 0.5:
                chunk, size = rng.randrange(12), long // 12
                face = rng.choice(["part0.zarr/data/c", "part0.v2.zarr/data"])
                name, first, at = f"{face}/{chunk // 2}/{chunk % 2}/0/0", chunk * size, 0
            else:
                first, size = rng.randrange(long - 100_000), 100_000
                name, at = "part0.npy", first + 128
            fd = os.open(f"{point}/{name}", os.O_RDONLY)
            try:
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)  # what the kernel has of it
                got = os.pread(fd, size, at)
                exact = got and any(flat.startswith(got, first) for flat in flats)
                count["exact" if exact else "other"] += 1  # a read may end before what fails
                if not said and count["exact"] == 20:  # the server has compiled what it needs, long ago
                    said = not print("reading", flush=True)
            finally:
                os.close(fd)
        except OSError as error:
            if not errors:
                print("failing", flush=True)
            errors[error.errno] = errors.get(error.errno, 0) + 1
    print(json.dumps({**count, "errors": errors}), flush=True)
"""


class Readers:
    """Processes that read a mounted `Scan` and compare with its bytes, as a whole, or with those of
    other states of it.

    Args:
        pause: seconds after each read. Without, they take all that the machine has.
    """

    def __init__(self, point: Path, *twins: Path, number: int = 8, pause: float = 0.0) -> None:
        self.started: list[subprocess.Popen[str]] = []
        for seed in range(number):
            command = [sys.executable, "-c", textwrap.dedent(READER), *map(str, (point, seed, pause, *twins))]
            self.started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        for process in self.started:
            assert process.stdout
            assert process.stdout.readline() == "reading\n"

    def failing(self, seconds: float) -> bool:
        """Return True as soon as one of them has met an error, False if none has within some seconds."""
        return bool(select.select([process.stdout for process in self.started], [], [], seconds)[0])

    def fail_all(self) -> None:
        """Wait until each of them has met an error."""
        for process in self.started:
            assert process.stdout
            assert process.stdout.readline() == "failing\n"

    def end(self) -> dict[str, Any]:
        """What they got, all together."""
        for process in self.started:
            process.send_signal(signal.SIGTERM)
        total: dict[str, Any] = {"exact": 0, "other": 0, "errors": {}}
        for process in self.started:
            said = json.loads(process.communicate(timeout=250)[0].splitlines()[-1])
            total["exact"] += said["exact"]
            total["other"] += said["other"]
            for name, times in said["errors"].items():
                total["errors"][int(name)] = total["errors"].get(int(name), 0) + times
        return total

    def __enter__(self) -> Readers:
        return self

    def __exit__(self, *args: object) -> None:
        for process in self.started:
            process.kill()
            process.communicate(timeout=250)


@pytest.fixture
def twin(scan: Scan, tmp_path: Path) -> Path:
    (tmp_path / "twin").write_bytes(scan.twin.tobytes())
    return tmp_path / "twin"


def content(path: Path) -> bytes | int | None:
    """Of a file, or the number of the error."""
    try:
        return path.read_bytes()
    except OSError as error:
        return error.errno


def truncate(bad: Path) -> None:
    os.truncate(bad, bad.stat().st_size // 2)


def empty(bad: Path) -> None:
    os.truncate(bad, 0)


def overwrite(bad: Path) -> None:
    """One page: who reads while more are written may get some of before and some of after, from any file system."""
    with bad.open("r+b", buffering=0) as file:
        file.seek(40960)
        file.write(bytes(4096))


def delete(bad: Path) -> None:
    bad.unlink()


def replace(bad: Path) -> None:
    other = bad.with_suffix(".other")
    other.write_bytes(bytes(bad.stat().st_size))
    other.replace(bad)


def folder(bad: Path) -> None:
    bad.unlink()
    bad.mkdir()


def pipe(bad: Path) -> None:
    bad.unlink()
    os.mkfifo(bad)


def link(bad: Path) -> None:
    """To a file elsewhere of the same size and time."""
    elsewhere = bad.parent.parent / "elsewhere"
    elsewhere.write_bytes(bytes(bad.stat().st_size))
    os.utime(elsewhere, ns=(0, bad.stat().st_mtime_ns))
    bad.unlink()
    bad.symlink_to(elsewhere)


def put_back(bad: Path, content: bytes, time_ns: int) -> None:
    if bad.is_dir():
        bad.rmdir()
    else:
        bad.unlink(missing_ok=True)
    made = bad.with_suffix(".back")
    made.write_bytes(content)
    os.utime(made, ns=(0, time_ns))
    made.replace(bad)


@pytest.mark.parametrize("fault", [truncate, overwrite, delete, replace, folder, pipe, link])
def test_what_readers_get_is_exact_or_an_error(
    scan: Scan, point: Path, twin: Path, fault: Callable[[Path], None], capfd: pytest.CaptureFixture[str]
) -> None:
    bad = scan.files[2]
    content, changed = bad.read_bytes(), bad.stat().st_mtime_ns
    with scan.mount(point, chunks=(1, 5, 64, 48), cache_size=1 << 18) as mount, Readers(point, twin) as readers:
        fault(bad)
        readers.fail_all()
        put_back(bad, content, changed)
        got = readers.end()
        assert server_of(mount).poll() is None
        assert got["other"] == 0
        assert set(got["errors"]) == {errno.EIO}
        assert got["exact"] > 100
        flat = scan.twin.tobytes()
        for name in ("part0.zarr/data/c", "part0.v2.zarr/data"):  # all is back
            for row in range(6):
                assert (point / f"{name}/{row}/0/0/0").read_bytes() == scan.twin[row, :5].tobytes()
        assert (point / "part0.npy").read_bytes()[128:] == flat
    logged = [line for line in capfd.readouterr().err.splitlines() if " failed: " in line]
    assert logged
    assert all(f"{bad}: " in line and " bytes " in line for line in logged)


@pytest.mark.parametrize(
    ("lib", "fault"),
    [
        *(("libfuse3", fault) for fault in (empty, overwrite, delete, link)),
        ("libfuse2", delete),
        ("fusepy", replace),
    ],
    indirect=["lib"],
)
def test_what_readers_of_a_tree_get_is_exact_or_an_error(
    scan: Scan,
    point: Path,
    twin: Path,
    fault: Callable[[Path], None],
    lib: str,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """There a set that changed is shown as it is then. It is not absent where its files are broken:
    tools take what is absent for blank.
    """
    description = scan.describe((1, 5, 64, 48))
    other = tmp_path / "other" / scan.files[0].parent.name
    shutil.copytree(scan.files[0].parent, other)
    fault(other / scan.files[2].name)
    states = [twin]
    with suppress(VfsError):
        (tmp_path / "then").write_bytes(vfs.open(other / description.name)[:].tobytes())
        states.append(tmp_path / "then")
    bad = scan.files[2]
    kept, changed = bad.read_bytes(), bad.stat().st_mtime_ns
    boxes = {
        f"{row}/{part}/0/0": scan.twin[row, 5 * part : 5 * part + 5].tobytes() for row in range(6) for part in range(2)
    }
    want = {
        f"{face}/{name}": box for face in ("part0.zarr/data/c", "part0.v2.zarr/data") for name, box in boxes.items()
    }
    tree = partial(restless_tree, bad.parent, cache_size=1 << 18)
    with Mount.start(tree, point, MountHow()) as mount:
        assert {name: content(point / name) for name in want} == want
        with Readers(point, *states, pause=0.002) as readers:

            def failed() -> bool:  # where both states are right, one may follow the other between all reads
                fault(bad)
                if readers.failing(2):
                    return True
                put_back(bad, kept, changed)
                return False

            assert eventually(failed)
            time.sleep(0.2)  # meanwhile it is looked at again
            put_back(bad, kept, changed)
            assert eventually(lambda: {name: content(point / name) for name in want} == want)
            got = readers.end()
        assert server_of(mount).poll() is None
        assert got["other"] == 0
        assert set(got["errors"]) == {errno.EIO}
        assert got["exact"] > 100
        assert (point / "part0.npy").read_bytes()[128:] == scan.twin.tobytes()
    said = capfd.readouterr().err
    changed_since = "its files came, went or changed after it was opened" in said  # where there is another state
    # Of a link the description may be named, and by it the file
    assert bad.name in said or (len(states) == 2 and changed_since)


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="takes rights away, which only root with setpriv can"
)
def test_a_source_that_becomes_unreadable(scan: Scan, point: Path) -> None:
    """Permissions bind root, too, where it may not override them."""
    options = [
        "--format",
        "raw",
        "-o",
        "dtype=>u2",
        "-o",
        "sig_shape=64,48",
        "--nav-shape",
        "6,10",
        "--chunks",
        "1,5,64,48",
    ]
    for name, value in HEADERS.items():
        options += ["-o", f"{name}={value}"]
    rights = "-dac_override,-dac_read_search"
    name = f"{scan.files[0].parent}/part*{scan.files[0].suffix}"
    with cli_mount(point, *options, name, prefix=("setpriv", "--bounding-set", rights, "--inh-caps", rights)) as server:
        chunk = next(point.glob("*.zarr/data/c"))
        read = {row: partial(content, chunk / f"{row}/0/0/0") for row in (0, 3, 5)}
        assert read[0]() == scan.twin[0, :5].tobytes()
        scan.files[2].chmod(0)
        assert read[3]() == errno.EIO
        assert read[5]() == scan.twin[5, :5].tobytes()
        scan.files[2].chmod(0o644)
        assert read[3]() == scan.twin[3, :5].tobytes()
        server.terminate()
        assert f"{scan.files[2]}: cannot be opened: Permission denied (bytes " in server.communicate(timeout=250)[1]


def failing_disk(files: list[Path], options: dict[str, Any], bad: int) -> Callable[[], Any]:
    """A folder whose backend fails for a file from its middle on, as a disk does that has bad sectors there."""
    from vfs.api.opening import open_group
    from vfs.contents.face_folder import FaceFolder
    from vfs.testing.backends import FailingBackend

    group = open_group(files, **options, backend="buffered")
    start = files[bad].stat().st_size // 2
    reader = set_of(group).tree.arrays[reader_of(group.main).dataset.path]
    reader.backend = FailingBackend(reader.backend, lambda file, first, last: file == bad and last > start)
    return lambda: FaceFolder([set_of(group).tree])


class SlowDisk:
    def __init__(self, *given: Any) -> None:
        self.given = given

    def __reduce__(self) -> tuple[Any, ...]:
        return failing_disk, self.given


def test_a_disk_error_in_the_middle_of_a_file(scan: Scan, point: Path, capfd: pytest.CaptureFixture[str]) -> None:
    options = {**scan.options, "chunks": (1, 1, 64, 48)}
    with Mount.start(SlowDisk(scan.files, options, 1), point, MountHow()) as mount:  # type: ignore[arg-type]
        got = {
            divmod(frame, 10): content(point / "part0.zarr/data/c" / "{}/{}/0/0".format(*divmod(frame, 10)))
            for frame in range(60)
        }
        wrong = [10 * row + column for (row, column), read in got.items() if read != scan.twin[row, column].tobytes()]
        assert {got[divmod(frame, 10)] for frame in wrong} == {errno.EIO}
        assert wrong == list(range(wrong[0], 30))  # the second half of the second file
        assert 20 < wrong[0] < 25
        assert server_of(mount).poll() is None
    assert "file 1: bytes " in capfd.readouterr().err


def test_killed_while_eight_read(scan: Scan, point: Path, twin: Path) -> None:
    with scan.mount(point, chunks=(1, 5, 64, 48), cache_size=1 << 18) as mount, Readers(point, twin) as readers:
        server_of(mount).kill()
        readers.fail_all()
        got = readers.end()
    assert got["other"] == 0
    assert set(got["errors"]) <= {errno.ENOTCONN, errno.ECONNABORTED, errno.ENOENT, errno.EIO}
    assert got["errors"]
    with scan.mount(point):
        np.testing.assert_array_equal(np.load(point / "part0.npy"), scan.twin)


def test_one_set_in_two_mounts_is_ended_apart(scan: Scan, point: Path, twin: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    try:
        with scan.mount(other, chunks=(1, 5, 64, 48)), Readers(other, twin, number=2) as readers:
            for _ in range(2):
                with scan.mount(point, chunks=(1, 5, 64, 48)):
                    assert (point / "part0.npy").read_bytes()[128:] == scan.twin.tobytes()
            got = readers.end()
        assert (got["other"], got["errors"]) == (0, {})
    finally:
        free(other)


def test_a_mount_of_what_another_mount_shows(tmp_path: Path, point: Path) -> None:
    """It fails with the other one, and does not hang with it."""
    outer = tmp_path / "outer"
    outer.mkdir()
    path = write_raw(tmp_path, np.ones((16, 1024, 2048), "<u2"))[0]
    try:
        with (
            vfs.mount(path, point, format="raw", dtype="<u2", sig_shape="1024,2048") as inner,
            vfs.mount(point / "part0.npy", outer, chunks="frames") as mount,
        ):
            chunks = outer / "part0.zarr/data/c"
            assert content(chunks / "0/0/0") == np.ones((1024, 2048), "<u2").tobytes()
            server_of(inner).kill()
            server_of(inner).wait(100)
            assert content(chunks / "15/0/0") == errno.EIO
            assert server_of(mount).poll() is None
    finally:
        free(outer)


def test_a_mount_point_whose_folder_is_renamed(small: Path, tmp_path: Path) -> None:
    (tmp_path / "a" / "mnt").mkdir(parents=True)
    try:
        with Foreground(tmp_path / "a" / "mnt", small) as server:
            (tmp_path / "a").rename(tmp_path / "b")
            assert run("md5sum", tmp_path / "b" / "mnt" / "small.npy").returncode == 0
            server.process.send_signal(signal.SIGTERM)
            assert server.rest()[0] == 0
        assert mounted(str(tmp_path / "b" / "mnt")) is None
        assert os.listdir(tmp_path / "b" / "mnt") == []
    finally:
        free(tmp_path / "b" / "mnt")


def test_a_mount_point_that_is_deleted(small: Path, point: Path) -> None:
    """The kernel forbids it to those who see the mount; to others it is a folder, and the mount goes with it."""
    with Foreground(point, small) as server:
        with pytest.raises(OSError, match="busy"):
            point.rmdir()
        alone = ["unshare", "--mount", "--propagation", "private", "sh", "-c", f"umount '{point}' && rmdir '{point}'"]
        if run(*alone).returncode != 0:
            pytest.skip("no right to make a mount namespace")
        assert server.rest()[:2] == (0, "ended")
    assert not point.exists()
    assert mounted(str(point)) is None


def test_a_mount_point_that_is_somebodys_folder(small: Path, point: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "print(1, flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=point,
    ) as holder:
        assert holder.stdout
        holder.stdout.readline()
        with vfs.mount(small, point):
            assert np.load(point / "small.npy").size == 24
        assert mounted(str(point)) is None


@contextmanager
def cli_mount(point: Path, *arguments: object, prefix: tuple[str, ...] = ()) -> Iterator[subprocess.Popen[str]]:
    """`vfs mount` in the foreground, once it is ready."""
    command = [*prefix, sys.executable, "-P", "-m", "vfs", "mount", *map(str, arguments), str(point)]
    server = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
    try:
        assert server.stderr
        said = ""
        while " at " not in said:
            said = server.stderr.readline()
            assert said, server.wait(100)
        yield server
    finally:
        server.terminate()
        try:
            server.communicate(timeout=250)
        finally:
            server.kill()
            free(point)


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def test_five_thousand_files_under_a_limit_of_1024_descriptors(tmp_path: Path, point: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    frames = np.arange(5000 * 16, dtype="<u2").reshape(5000, 4, 4)
    for k, frame in enumerate(frames):
        (folder / f"f{k:04}.raw").write_bytes(frame.tobytes())
    options = ["--format", "raw", "-o", "dtype=<u2", "-o", "sig_shape=4,4", "--chunks", "1,4,4"]
    with cli_mount(point, *options, f"{folder}/f*.raw", prefix=("prlimit", "--nofile=1024:1024", "--")) as server:
        name = next(name for name in os.listdir(point) if name.endswith(".npy"))
        readers = [
            subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    "import sys; sys.stdout.buffer.write(open(sys.argv[1], 'rb').read()[128:])",
                    point / name,
                ],
                stdout=subprocess.PIPE,
            )
            for _ in range(3)
        ]
        for reader in readers:
            assert reader.communicate(timeout=250)[0] == frames.tobytes()
        chunks = point / name.replace(".npy", ".zarr") / "data" / "c"
        for k in range(0, 5000, 50):
            assert (chunks / f"{k}/0/0").read_bytes() == frames[k].tobytes()
        # Half and a quarter of what there may be, and what the process needs otherwise
        assert 400 < descriptors(server.pid) <= 900
        # No new descriptor, wherever it was counted on
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (64, 1024))
        for k in range(25, 5000, 50):
            assert (chunks / f"{k}/0/0").read_bytes() == frames[k].tobytes()
        assert descriptors(server.pid) < 64


def test_where_memory_ends_requests_are_served_one_by_one(tmp_path: Path, point: Path) -> None:
    """Four chunks of 32 MiB, read in pieces by eight processes, by a server that has memory for
    less than two of them.
    """
    frames = np.random.default_rng(0).integers(0, 1 << 16, (4, 4096, 4096)).astype(">u2")
    path = write_raw(tmp_path, frames)[0]
    options = [
        "--format",
        "raw",
        "-o",
        "dtype=>u2",
        "-o",
        "sig_shape=4096,4096",
        "--chunks",
        "1,4096,4096",
        "--cache-size",
        "128MiB",
    ]
    # threads reserve memory that they do not use, which counts for the limit: stacks, and pools of the allocator
    prefix = ("env", "MALLOC_ARENA_MAX=1", "prlimit", "--stack=1048576:", "--")
    with cli_mount(point, *options, path, prefix=prefix) as server:
        chunk = point / f"{path.stem}.zarr/data/c/0/0/0"
        assert chunk.read_bytes() == frames[0].astype("<u2").tobytes()
        status = Path(f"/proc/{server.pid}/status").read_text()
        used = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmSize")) * 1024
        resource.prlimit(server.pid, resource.RLIMIT_AS, (used + (80 << 20), resource.RLIM_INFINITY))
        code = """
            import sys, random, numpy as np
            twin = np.load(sys.argv[2], mmap_mode="r")
            rng = random.Random(int(sys.argv[3]))
            for _ in range(6):
                k = rng.randrange(4)
                flat = twin[k].reshape(-1).view("u1")
                at = rng.randrange(flat.size - 300_000)
                with open(f"{sys.argv[1]}/{k}/0/0", "rb", buffering=0) as file:
                    file.seek(at)
                    got = file.read(300_000)
                assert got == flat[at : at + len(got)].tobytes()
            print("same")
        """
        np.save(tmp_path / "twin.npy", frames.astype("<u2"))
        folder = chunk.parents[2]
        readers = [
            subprocess.Popen(
                [sys.executable, "-c", textwrap.dedent(code), folder, tmp_path / "twin.npy", str(k)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for k in range(8)
        ]
        assert [reader.communicate(timeout=250) for reader in readers] == [("same\n", "")] * 8
        assert server.poll() is None


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("number", "stage"),  # Python treats SIGINT otherwise than the others, which are alike
    [
        *((signal.SIGINT, stage) for stage in STAGES),
        (signal.SIGTERM, "it is mounted"),
        (signal.SIGHUP, "it serves, or another process does"),
    ],
)
def test_a_signal_at_any_moment_of_starting_up(small: Path, point: Path, number: signal.Signals, stage: str) -> None:
    """`VFS_LONG=1` tries 50 moments after each stage."""
    command = [sys.executable, "-P", "-m", "vfs", "mount", str(small), str(point)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for delay in np.random.default_rng().uniform(0, 0.4, 50) if os.environ.get("VFS_LONG") else [0.0]:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        reach(stage, process, point)
        time.sleep(delay)
        process.send_signal(number)
        try:
            _, said = process.communicate(timeout=250)
        finally:
            process.kill()
        found = (delay, process.returncode, said)
        # Python itself, before any code of ours: the interpreter ends with 1 where Ctrl-C meets it in its own imports
        unborn = number == signal.SIGINT and process.returncode == 1 and "Fatal Python error: init_" in said
        assert unborn or process.returncode in (0, 128 + number, -number), found
        assert eventually(lambda: mounted(str(point)) is None), found
        # Of Python itself, which is starting
        assert "Traceback" not in said or (number == signal.SIGINT and "vfs/cli/" not in said), found
        if process.returncode == 0:
            assert "no errors, in " in said, found
