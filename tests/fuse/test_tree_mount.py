"""Mounts of whole folders."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import vfs
from tests.fuse.support import overwrite, python, restless_tree, run
from tests.waiting import eventually
from vfs.cli.app import main
from vfs.errors import MountError
from vfs.fuse import Mount, MountHow
from vfs.testing.writers import write_mib

VALUES = np.arange(24, dtype="<u2").reshape(2, 3, 4)
COUNTING = """
    import os, sys, pickle
    from vfs.folder_tree import plans
    from vfs.fuse import MountHow, serve
    real, log = plans.open_set, sys.argv[3]
    def counting(path, *how):
        with open(log, "a") as file:
            file.write(os.path.basename(path) + "\\n")
        return real(path, *how)
    plans.open_set = counting
    serve(plans.folder_tree(sys.argv[1]), sys.argv[2], MountHow(), ready=lambda: print("ready", flush=True))
"""


def faces(*labels: str) -> list[str]:
    return sorted(
        label + ending for label in labels for ending in (".zarr", ".v2.zarr", ".ome.zarr", ".ome.v2.zarr", ".npy")
    )


def save(path: Path, values: np.ndarray = VALUES) -> Path:
    """A file that is there at once, as a whole."""
    with (path.parent / "unfinished").open("wb") as file:
        np.save(file, values)
    os.rename(path.parent / "unfinished", path)
    return path


def listed(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.mkdir()
    return path


@contextmanager
def counted(source: Path, point: Path, log: Path) -> Iterator[subprocess.Popen[str]]:
    """A mount whose server writes down what it opens."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(COUNTING), source, point, log], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=250)


def rss(pid: int) -> int:
    """Resident memory of a process, in bytes."""
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_folder_is_mirrored(source: Path, point: Path, lib: str) -> None:
    (source / "may/deep").mkdir(parents=True)
    (source / "empty").mkdir()
    save(source / "a.npy")
    save(source / "may/deep/b.npy", VALUES + 1)
    frames = np.arange(6 * 64 * 64, dtype=np.uint16).reshape(6, 64, 64) % 4000
    write_mib(source / "may", frames, frames_per_file=2)
    (source / "notes.txt").write_text("nothing")
    with vfs.mount(source, point, tree=True):
        assert listed(point) == sorted([*faces("a"), "may", "empty"])
        assert listed(point / "empty") == []
        assert listed(point / "may") == sorted([*faces("scan"), "deep"])
        assert listed(point / "may/deep") == faces("b")
        for path, values in (("a.npy", VALUES), ("may/deep/b.npy", VALUES + 1), ("may/scan.npy", frames)):
            got = np.load(point / path)
            np.testing.assert_array_equal(got.reshape(values.shape), values)
            np.testing.assert_array_equal(np.load(point / path, mmap_mode="r").reshape(values.shape), values)
        code = """
            import sys, zarr
            for path in sys.argv[1:]:
                for face in (".zarr", ".v2.zarr"):
                    print(int(zarr.open_group(path + face, mode="r")["data"][...].sum()))
        """
        sums = [int(values.sum()) for values in (VALUES, VALUES + 1, frames) for _ in range(2)]
        assert python(code, point / "a", point / "may/deep/b", point / "may/scan").split() == list(map(str, sums))
        found = run("find", point).stdout.splitlines()
        assert len(found) == len(set(found))
        assert {os.path.relpath(path, point) for path in found} >= {
            "may/deep/b.zarr/data/c/0/0/0",
            "may/scan.v2.zarr/data/.zarray",
        }
        for entry in os.scandir(point):
            status = os.stat(entry.path)
            assert (entry.inode(), entry.is_dir()) == (status.st_ino, entry.name != "a.npy")
        assert os.stat(point / "a.npy").st_mtime_ns == os.stat(source / "a.npy").st_mtime_ns
        for change in (
            lambda: (point / "x").mkdir(),
            lambda: (point / "may/x").touch(),
            lambda: (point / "may/new.zarr").mkdir(),
            lambda: (point / "may/scan.zarr/x").mkdir(),
            lambda: (point / "may/scan.zarr/data/x").touch(),
            lambda: os.remove(point / "a.npy"),
        ):
            with pytest.raises(OSError, match=os.strerror(errno.EROFS)):
                change()


def test_changes_of_the_folder_are_noticed(source: Path, point: Path, lib: str) -> None:
    (source / "sub").mkdir()
    save(source / "sub/kept.npy")
    with vfs.mount(source, point, tree=True):
        assert listed(point / "sub") == faces("kept")
        assert not (point / "sub/new.npy").exists()  # which the kernel remembers, but not for long
        save(source / "sub/new.npy", VALUES + 1)
        assert eventually((point / "sub/new.npy").exists)
        assert eventually(lambda: listed(point / "sub") == faces("kept", "new"))
        np.testing.assert_array_equal(np.load(point / "sub/new.npy"), VALUES + 1)
        os.remove(source / "sub/new.npy")
        assert eventually(lambda: not os.path.exists(point / "sub/new.zarr"))
        assert eventually(lambda: listed(point / "sub") == faces("kept"))
        os.rename(source / "sub", source / "other")
        assert eventually(lambda: listed(point) == ["other"])
        np.testing.assert_array_equal(np.load(point / "other/kept.npy"), VALUES)


@pytest.mark.parametrize("shape", [(2, 3, 4), (5, 6)])
def test_a_changed_set_is_read_anew_and_whoever_has_it_open_gets_an_error(
    source: Path, point: Path, lib: str, shape: tuple[int, ...]
) -> None:
    path = save(source / "a.npy", np.zeros(1 << 20, "<u2"))
    os.utime(path, ns=(2 * 10**18, 2 * 10**18))
    with vfs.mount(source, point, tree=True):
        fd = os.open(point / "a.npy", os.O_RDONLY)
        try:
            assert os.pread(fd, 8, 200) == bytes(8)
            new = np.arange(np.prod(shape), dtype="<u2").reshape(shape) + 7
            save(path, new)
            os.utime(path, ns=(10**18, 10**18))  # older than it was

            def right() -> bool:
                try:
                    return bool(np.array_equal(np.load(point / "a.npy"), new))
                except (OSError, ValueError):
                    return False

            assert eventually(right)
            code = "import sys, zarr; print(int(zarr.open_group(sys.argv[1], mode='r')['data'][...].sum()))"
            assert python(code, point / "a.zarr") == f"{int(new.sum())}\n"
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)  # the kernel has pages for all who have the file open
            with pytest.raises(OSError, match=os.strerror(errno.EIO)):
                os.pread(fd, 8, 100)
        finally:
            os.close(fd)


def test_a_set_that_grows_is_read_with_what_was_added(source: Path, point: Path) -> None:
    frames = np.arange(6 * 64 * 64, dtype=np.uint16).reshape(6, 64, 64) % 4000
    write_mib(source, frames, frames_per_file=2, hdr=False)
    *_, last = sorted(source.glob("*.mib"))
    aside = last.rename(source.parent / "aside")
    with vfs.mount(source, point, tree=True):
        assert np.load(point / "scan001.npy").shape == (4, 64, 64)
        aside.rename(last)
        assert eventually(lambda: np.load(point / "scan001.npy").shape == (6, 64, 64))
        np.testing.assert_array_equal(np.load(point / "scan001.npy"), frames)
        assert [name for name in listed(point) if name.endswith("1.v2.zarr")] == ["scan001.v2.zarr"]


def test_a_set_that_breaks_is_an_error_and_not_blank(source: Path, point: Path) -> None:
    path = save(source / "a.npy", np.ones((4, 8, 8), "<u2"))
    with vfs.mount(source, point, tree=True, chunks="frames"):
        assert np.load(point / "a.npy").sum() == 256
        path.write_bytes(b"\x93NUMPY garbage")
        code = """
            import sys, zarr
            try:
                print("read", zarr.open_group(sys.argv[1], mode="r")["data"][...].sum())
            except OSError as error:
                print(error.errno)
        """
        assert eventually(lambda: python(code, point / "a.zarr") == f"{errno.EIO}\n")
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            os.stat(point / "a.npy")
        assert listed(point) == []
        save(path, np.ones((4, 8, 8), "<u2"))
        assert eventually(lambda: listed(point) == faces("a"))
        assert np.load(point / "a.npy").sum() == 256


def test_hostile_folders_do_no_harm(source: Path, point: Path, lib: str) -> None:
    save(source / "good.npy")
    (source / "bad.npy").write_bytes(b"\x93NUMPY garbage")
    (source / "bad.tif").write_bytes(b"II*\0\xff\xff\xff\xff")
    (source / "bad.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    os.mkfifo(source / "pipe.npy")
    (source / "loop").symlink_to(source)
    (source / "self.npy").symlink_to(source / "self.npy")
    (source / "etc").symlink_to("/etc")
    (source / "passwd").symlink_to("/etc/passwd")
    save(source / ("x" * 251 + ".npy"))
    save(source / "line\nbreak \x1b[31m.npy")
    save(Path(os.fsdecode(os.fsencode(source) + b"/\xff\xfe.npy")))
    (source / "good.zarr").mkdir()
    deep = source
    for _ in range(40):
        deep = deep / "d"
        deep.mkdir()
    save(deep / "end.npy")
    with vfs.mount(source, point, tree=True, show_files=True):
        names = os.listdir(point)
        assert {
            "bad.npy",
            "bad.tif",
            "bad.h5",
            "good.zarr",
            "good-2.npy",
            "good-2.zarr",
            "line\nbreak \x1b[31m.npy",
            "\udcff\udcfe.npy",
            "d",
        } <= set(names)
        assert not {"pipe.npy", "loop", "self.npy", "etc", "passwd", "good.npy"} & set(names)
        assert (point / "bad.tif").read_bytes() == b"II*\0\xff\xff\xff\xff"
        assert listed(point / "good.zarr") == []
        for name in names:
            if name.endswith(".npy") and name != "bad.npy":
                np.testing.assert_array_equal(np.load(point / name), VALUES)
        walked = run("find", point, "-name", "end.npy").stdout
        assert walked.strip() == str(point / deep.relative_to(source) / "end.npy")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_folder_is_an_error_by_itself(source: Path, point: Path) -> None:
    (source / "closed").mkdir(mode=0)
    save(source / "a.npy")
    with vfs.mount(source, point, tree=True):
        assert listed(point) == sorted([*faces("a"), "closed"])
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            os.listdir(point / "closed")


def test_thousands_of_sets_are_mounted_without_opening_one(source: Path, point: Path, tmp_path: Path) -> None:
    content = save(source / "d00000.npy").read_bytes()
    for k in range(1, 4_000):
        (source / f"d{k:05}.npy").write_bytes(content)
    log = tmp_path / "log"
    with counted(source, point, log) as server:
        os.stat(point)
        assert not log.exists()
        np.testing.assert_array_equal(np.load(point / "d03777.npy"), VALUES)
        assert not (point / "d99999.npy").exists()
        assert not os.path.exists(point / "nothing.zarr")
        assert set(log.read_text().split()) == {"d03777.npy"}
        before = rss(server.pid)
        with os.scandir(point) as entries:
            next(entries)
            assert len(log.read_text().split()) < 2_000  # a screenful was enough
        assert len(set(os.listdir(point))) == 20_000
        opened = log.read_text().split()
        assert len(opened) < 4_010
        assert len(set(os.listdir(point))) == 20_000
        assert len(log.read_text().split()) == len(opened)
        assert rss(server.pid) - before < 40 << 20


def test_readers_and_a_writer_at_once(source: Path, point: Path) -> None:
    """Whatever is read is one of the sets that were there, as a whole, or an error."""
    for k in range(20):
        save(source / f"s{k:02}.npy", np.full((4, 50), k, "<u2"))
    over, said = threading.Event(), []

    def write() -> None:
        k = 100
        while not over.wait(0.01):
            k += 1
            save(source / f"s{k % 20:02}.npy", np.full((4, 50), k % 1000, "<u2"))

    writer = threading.Thread(target=write)
    code = """
        import errno, os, sys
        import numpy as np
        done = 0
        while done < 400:
            names = os.listdir(sys.argv[1])
            assert len(names) == len(set(names)), sorted(names)
            for k in range(20):
                try:
                    with open(f"{sys.argv[1]}/s{k:02}.npy", "rb") as file:
                        data = file.read()
                except OSError as error:
                    assert error.errno == errno.EIO, error
                    continue
                values = np.frombuffer(data[128:], "<u2")
                assert values.size == 200 and len(set(values.tolist())) == 1, values
                done += 1
        print(True)
    """
    with Mount.start(partial(restless_tree, source), point, MountHow()):
        writer.start()
        readers = [threading.Thread(target=lambda: said.append(python(code, point, timeout=250))) for _ in range(2)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        over.set()
        writer.join()
    assert said == ["True\n"] * 2


def test_the_command_shows_a_folder_until_it_is_interrupted(source: Path, point: Path, tmp_path: Path) -> None:
    save(source / "a.npy")
    (source / "bad.npy").write_bytes(b"\x93NUMPY garbage")
    command = [
        sys.executable,
        "-m",
        "vfs",
        "mount",
        "--tree",
        str(source),
        str(point),
        "--chunks",
        "frames",
        "--zarr-format",
        "3",
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr
        assert str(source) in process.stderr.readline()
        assert listed(point) == ["a.npy", "a.ome.zarr", "a.zarr"]
        assert (point / "a.zarr/data/c/1/0/0").stat().st_size == 24
    finally:
        process.terminate()
        _, said = process.communicate(timeout=250)
    assert process.returncode in (0, 143)
    assert said.count("bad.npy") == 1
    refused = run(*command[:-2], "--nav-shape", "2,2")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "--nav-shape is for one data set" in refused.stderr


@pytest.mark.parametrize("where", ["", "inside", "inside/deeper", "linked"])
def test_a_mount_point_in_the_folder_that_is_shown_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    """The server would read its own mount: whoever looked there would wait for ever."""
    tree = tmp_path / "tree"
    (tree / "inside/deeper").mkdir(parents=True)
    (tree / "linked").symlink_to("inside")
    with pytest.raises(MountError, match=r"lies in .*, which is to be shown there"):
        vfs.mount(tree, tree / where, tree=True)
    for more in ([], ["--background"]):
        assert main(["mount", "--tree", str(tree), str(tree / where), *more]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert "which is to be shown there" in said


def all_ones(path: Path) -> bool:
    """Whether a file that changes holds ones by now. Opened before the change and read after it, it
    is an error, which numpy takes for a short file.
    """
    try:
        return bool(np.load(path).all())
    except (OSError, ValueError):
        return False


def test_overwritten_with_the_time_that_it_had(tmp_path: Path, point: Path) -> None:
    path = tmp_path / "tree/a.npy"
    path.parent.mkdir()
    np.save(path, np.ones(1000))
    ones = path.read_bytes()
    np.save(path, np.zeros(1000))
    with vfs.mount(path.parent, point, tree=True):
        assert not np.load(point / "a.npy").any()
        assert not any((point / "a.zarr/data/c/0").read_bytes())
        overwrite(path, ones)
        assert eventually(lambda: all_ones(point / "a.npy"))
        assert (np.frombuffer((point / "a.zarr/data/c/0").read_bytes()) == 1).all()
        path.chmod(0o600)
        assert eventually(lambda: all_ones(point / "a.npy"))
