"""Backends: the shipped suite for each, and what is peculiar to one."""

from __future__ import annotations

import ctypes
import errno
import gc
import mmap
import os
import pickle
import shutil
import subprocess
import sys
import textwrap
from contextlib import nullcontext
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np
import pytest
import zarr

import vfs
from tests.backends.suite import BackendTests
from tests.fuse.support import overwrite
from vfs.backends import Backend, make_backend, mapped
from vfs.backends.buffered import BufferedBackend
from vfs.backends.handles import Descriptor
from vfs.backends.mapped import MmapBackend
from vfs.errors import MissingSourceError, OptionError, SourceChangedError, SourceError, TruncatedSourceError
from vfs.kernels.columns import COLUMNS
from vfs.kernels.fetch import read_ranges
from vfs.model.files import Files
from vfs.sources.boundary import ANYWHERE
from vfs.testing.backends import CountingBackend, FailingBackend, MemoryBackend, SlowBackend, local_files, memory_files


class TestMmap(BackendTests):
    def make(self, files: Files) -> Backend:
        return make_backend("mmap", files)


class TestMmapInWindows(BackendTests):
    """Files that are longer than what is mapped at once, and spans that are."""

    @pytest.fixture(autouse=True)
    def small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(mapped, "WINDOW", 2 * mmap.PAGESIZE)
        monkeypatch.setattr(mapped, "STEP", mmap.PAGESIZE)

    def make(self, files: Files) -> Backend:
        return make_backend("mmap", files)


class TestMmapRefused(BackendTests):
    """A file system that does not map its files."""

    @pytest.fixture(autouse=True)
    def refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(fd: int, start: int, size: int) -> None:
            raise OSError(errno.ENODEV, "No such device")

        monkeypatch.setattr(mapped, "_Mapping", refuse)

    def make(self, files: Files) -> Backend:
        return make_backend("mmap", files)

    def test_where_the_answer_lies(self, backend: Backend) -> None:
        assert not backend.span(0, 1234, 6234, np.empty(0, np.uint8)).flags.writeable


class TestBuffered(BackendTests):
    def make(self, files: Files) -> Backend:
        return make_backend("buffered", files)


@pytest.mark.filterwarnings("ignore:.*direct I/O is refused:RuntimeWarning")
class TestDirect(BackendTests):
    def make(self, files: Files) -> Backend:
        return make_backend("direct", files)


class TestCounting(BackendTests):
    def make(self, files: Files) -> Backend:
        return CountingBackend(make_backend("buffered", files))


class TestSlowly(BackendTests):
    def make(self, files: Files) -> Backend:
        return SlowBackend(FailingBackend(make_backend("buffered", files), lambda file, start, stop: False), 0)


def test_names() -> None:
    files = memory_files([])
    assert isinstance(make_backend("auto", files), MmapBackend)
    assert isinstance(make_backend("buffered", files), BufferedBackend)
    with pytest.raises(OptionError, match=r"backend='fast': expected one of auto, mmap, buffered, direct"):
        make_backend("fast", files)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(MissingSourceError, match=r"nothing.bin: no such file"):
        local_files([tmp_path / "nothing.bin"])
    with pytest.raises(SourceError, match="found a folder: name a file of a set in it"):
        local_files([tmp_path])
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(SourceError, match="cannot be opened"):
        local_files([tmp_path / "file" / "below"])


def test_memory_answers_as_files_do() -> None:
    for copies in (False, True):
        backend = MemoryBackend([b"0123456789", b""], copies=copies)
        assert backend.span(0, 2, 5, np.empty(3, np.uint8)).tobytes() == b"234"
        with pytest.raises(TruncatedSourceError, match="memory:1: expected bytes 0 to 1, the file has 0"):
            backend.span(1, 0, 1, np.empty(3, np.uint8))
    junk = MemoryBackend([b"0123456789"], copies=True).span(
        0, 0, 10, np.empty(10, np.uint8), np.array([[0, 1, 3], [0, 9, 10]])
    )
    assert junk.tobytes() == b"\xa512\xa5\xa5\xa5\xa5\xa5\xa59"


def test_counting_counts_what_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(bytes(100_000))
    backend = CountingBackend(make_backend("buffered", local_files([path])))
    memory = np.empty(100_000, np.uint8)
    wanted = np.array([[0, 0, 100], [0, 200, 300], [0, 50_000, 50_100]])
    backend.span(0, 0, 90_000, memory, wanted)  # the kernel may have been read from disk
    backend.reads.clear()
    backend.span(0, 10, 30, memory)
    assert backend.nbytes == 20
    backend.span(0, 0, 90_000, memory, wanted)
    assert backend.nbytes == 20 + 300 + 100  # the gap of 100 bytes is read, the long one is not
    assert backend.lend(0, 0, 5000, lambda fd: 5 - len(os.pread(fd, 3, 0)) - len(os.pread(fd, 3, 9))) == -1
    assert [(read.file, read.start, read.stop, read.nbytes) for read in backend.reads] == [
        (0, 10, 30, 20),
        (0, 0, 90_000, 400),
        (0, 0, 5000, 6),
    ]
    assert CountingBackend(MemoryBackend([b""])).lend(0, 0, 0, lambda fd: pytest.fail("there is no file")) is None


def test_failing_fails_as_told() -> None:
    backend = FailingBackend(MemoryBackend([bytes(100)], copies=True), lambda file, start, stop: start <= 50 < stop)
    memory = np.empty(100, np.uint8)
    backend.span(0, 0, 50, memory)
    with pytest.raises(SourceError, match="file 0: bytes 50 to 51"):
        backend.span(0, 50, 51, memory)
    backend.span(0, 0, 100, memory, np.array([[0, 0, 50], [0, 51, 100]]))


def test_a_file_is_lent_where_nothing_fails_in_it(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(bytes(100))
    backend = FailingBackend(
        make_backend("buffered", local_files([path])), lambda file, start, stop: start <= 50 < stop
    )
    assert backend.lend(0, 0, 50, lambda fd: -1) == -1
    assert backend.lend(0, 0, 51, lambda fd: pytest.fail("was lent")) is None


@pytest.mark.filterwarnings("ignore:.*direct I/O is refused:RuntimeWarning")
@pytest.mark.parametrize("name", ["mmap", "direct"])
def test_some_lend_nothing(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(bytes(100))
    assert make_backend(name, local_files([path])).lend(0, 0, 100, lambda fd: pytest.fail("was lent")) is None


@pytest.mark.parametrize("sparse", [False, True])
def test_a_file_that_is_cut_between_the_look_at_it_and_the_read(
    tmp_path: Path, sparse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel that reads many ranges only says that something failed; what exactly is found out in Python."""
    path = tmp_path / "a.bin"
    path.write_bytes(bytes(50_000))
    backend = BufferedBackend(local_files([path]))
    # All was well a moment ago
    monkeypatch.setattr(backend.handles, "get", lambda file, start, stop: Descriptor(str(path), ANYWHERE))
    wanted = np.array([[0, 0, 10], [0, 20_000, 20_010], [0, 49_990, 50_010]]) if sparse else None
    with pytest.raises(
        TruncatedSourceError,
        match=rf"a.bin: expected bytes {'49,990' if sparse else '0'} to 50,010, the file has 50,000",
    ):
        backend.span(0, 0, 50_010, np.empty(50_010, np.uint8), wanted)


def test_an_interrupted_sparse_read_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernel gives up and Python can read the rest after all."""
    path = tmp_path / "a.bin"
    path.write_bytes(np.arange(50_000, dtype="u1").tobytes())
    monkeypatch.setattr("vfs.kernels.fetch.read_ranges", lambda *_: 1)
    wanted = np.array([[0, 0, 10], [0, 20_000, 20_010], [0, 49_990, 50_000]])
    got = BufferedBackend(local_files([path])).span(0, 0, 50_000, np.zeros(50_000, np.uint8), wanted)
    for a, b in ((20_000, 20_010), (49_990, 50_000)):
        assert got[a:b].tobytes() == path.read_bytes()[a:b]


def many_places(path: Path, gone: int) -> tuple[np.ndarray, np.ndarray, BufferedBackend]:
    """(ranges, what is in them, backend): more ranges than one call of the system takes, and gaps
    too long for one; `gone` bytes cut off the file.
    """
    content = np.random.default_rng(0).integers(0, 256, 400_000, "u1")
    starts = np.concatenate([np.arange(1200) * 20, 100_000 + np.arange(300) * 1000])
    rows = np.zeros((1500, COLUMNS), np.int64)
    rows[:, 1], rows[:, 2], rows[:, 3], rows[:, 4], rows[:, 6] = starts, starts + 10, np.arange(1500)[::-1] * 5, 1, 5
    expected = np.concatenate([content[a : a + 10] for a in starts[::-1]])
    content[: len(content) - gone].tofile(path)
    return rows, expected, BufferedBackend(local_files([path]))


def test_places_in_a_file_that_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.bin"
    rows, _, backend = many_places(path, gone=700)
    monkeypatch.setattr(backend.handles, "get", lambda file, start, stop: Descriptor(str(path), ANYWHERE))
    rows[-1, 2] += 1000
    with pytest.raises(TruncatedSourceError, match=r"a.bin: expected bytes 399,000 to 400,010, the file has 399,300"):
        backend.span(0, 0, 400_010, np.zeros(16_000, np.uint8), rows, 2)


def test_places_in_a_file_and_a_read_that_stops_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, expected, backend = many_places(tmp_path / "a.bin", gone=0)
    out = np.zeros(15_000, np.uint8)
    backend.span(0, 0, 399_010, out, rows, 2)
    np.testing.assert_array_equal(out, expected)
    # And where Python can read the rest after all
    monkeypatch.setattr("vfs.kernels.fetch.read_places", lambda fd, ranges, out, width: 2)
    out[:] = 0
    backend.span(0, 0, 399_010, out, rows, 2)
    np.testing.assert_array_equal(out[:-20], expected[:-20])
    assert not out[-20:].any()


def test_views_outlive_backend_and_file(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"abcdefgh" * 1000)
    backend = MmapBackend(local_files([path]))
    view = backend.span(0, 8, 16, np.empty(0, np.uint8))
    assert np.shares_memory(view, backend.span(0, 0, 100, np.empty(0, np.uint8)))
    del backend
    path.unlink()
    gc.collect()
    assert view.tobytes() == b"abcdefgh"
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 0


MANY = """
    import os, resource, sys
    import numpy as np
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    sys.path.insert(0, {here!r})
    from vfs.engine.array import ArrayReader
    from vfs.backends import make_backend
    from vfs.model.files import Files
    from vfs.model.stored import StoredArray
    from vfs.model.decode import PlainDecoder
    from vfs.model.layout import FrameLayout, FrameRecord
    from vfs.sources.local import LocalSources

    folder, n, most = {folder!r}, {n}, 0
    files = Files.stat(LocalSources(), [f"{{folder}}/{{k:05d}}.bin" for k in range(n)])
    layout = FrameLayout.of(FrameRecord((4, 2), 2), [1] * n, file_header=3)
    sets = []
    for name in ("mmap", "buffered"):
        for _ in range(3):  # several arrays of one set, each with its own backend
            decoder = PlainDecoder(np.dtype("<u2"))
            dataset = StoredArray("data", files, layout, decoder, layout.shape, ("frame", "y", "x"), 1)
            sets.append(ArrayReader(dataset, make_backend(name, files)))
    twin = np.arange(n, dtype=np.uint16)[:, None, None] + np.zeros((4, 2), np.uint16)
    for array in sets:
        assert np.array_equal(array[:600], twin[:600])
        most = max(most, len(os.listdir("/proc/self/fd")))
    frames = [sets[0][k] for k in range(n)]  # every one a view of another file
    most = max(most, len(os.listdir("/proc/self/fd")))
    assert np.array_equal(np.stack(frames), twin)
    assert np.array_equal(sets[0].read(), twin) and np.array_equal(sets[3].read(), twin)
    assert np.shares_memory(frames[7], frames[7].base)
    most = max(most, len(os.listdir("/proc/self/fd")))
    assert most <= 140, most
    print("read", n, "files")
"""


def test_five_thousand_files_under_a_limit_of_256_descriptors(tmp_path: Path) -> None:
    n = 5000
    for k in range(n):
        (tmp_path / f"{k:05d}.bin").write_bytes(b"hdr" + np.full(8, k, "<u2").tobytes())
    script = textwrap.dedent(MANY).format(here=str(Path(__file__).parents[2]), folder=str(tmp_path), n=n)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"read {n} files\n"


def test_a_fork_reads_on(tmp_path: Path) -> None:
    """Handles, maps and scratch memory are there in the child, and what it does with them is not seen by the parent."""
    path = tmp_path / "a.bin"
    path.write_bytes(bytes(range(256)) * 100)
    for name in ("mmap", "buffered"):
        backend = make_backend(name, local_files([path]))
        assert backend.span(0, 0, 5, np.empty(5, np.uint8)).tobytes() == bytes(range(5))
        child = os.fork()
        if child == 0:
            good = backend.span(0, 256, 261, np.empty(5, np.uint8)).tobytes() == bytes(range(5))
            os._exit(0 if good else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert backend.span(0, 1, 5, np.empty(5, np.uint8)).tobytes() == bytes(range(1, 5))


@pytest.mark.filterwarnings("ignore:.*direct I/O is refused:RuntimeWarning")
@pytest.mark.parametrize("name", ["mmap", "buffered", "direct"])
def test_bytes_far_into_a_file(tmp_path: Path, name: str) -> None:
    """Beyond what 32 bits can count; the file is sparse."""
    path, at = tmp_path / "large.bin", (5 << 30) + 3
    with path.open("wb") as file:
        file.seek(at)
        file.write(b"0123456789")
    backend = make_backend(name, local_files([path]))
    memory = np.empty(100_000 + backend.margin, np.uint8)
    assert backend.span(0, at + 2, at + 10, memory).tobytes() == b"23456789"
    got = backend.span(0, at - 90_000, at + 10, memory, np.array([[0, at - 90_000, at - 89_999], [0, at, at + 10]]))
    assert got[90_000:].tobytes() == b"0123456789"
    with pytest.raises(TruncatedSourceError, match="looks truncated"):
        backend.span(0, at, at + 11, memory)


@pytest.mark.filterwarnings("ignore:.*direct I/O is refused:RuntimeWarning")
@pytest.mark.parametrize("name", ["buffered", "direct"])
def test_a_file_that_is_written_between_the_look_at_it_and_the_read(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(bytes(50_000))
    backend = make_backend(name, local_files([path]))
    real = os.preadv

    def late(fd: int, *rest: Any) -> int:
        path.write_bytes(b"x" * 50_000)
        os.utime(path, ns=(0, 1))
        return real(fd, *rest)

    backend.span(0, 0, 100, np.empty(20_000, np.uint8))
    monkeypatch.setattr(os, "preadv", late)
    with pytest.raises(
        SourceChangedError, match=r"a.bin: expected bytes 0 to 100, but the file was changed after it was opened"
    ):
        backend.span(0, 0, 100, np.empty(20_000, np.uint8))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("backend", ["mmap", "buffered", "direct"])
def test_files_are_closed_without_a_word_while_the_interpreter_ends(
    tmp_path: Path, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Handles that live to the end saw modules that were gone, and a message about it was the last
    that a program said.
    """
    path = tmp_path / "a.bin"
    path.write_bytes(bytes(8192))
    made = make_backend(backend, local_files([path]))
    held: Any = made.handles.get(0, 0, 8192)  # type: ignore[attr-defined]
    fd = held.fd
    made.handles.drop(0)  # type: ignore[attr-defined]
    for module in ("direct", "handles", "mapped"):
        monkeypatch.setattr(f"vfs.backends.{module}.os", None)
    del held
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_the_kernel_is_told_of_what_it_cannot_guess(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of pages far from the last one: neither what is read in order, nor single pages, nor
    most of a large file for a view of it.
    """
    path = tmp_path / "a.bin"
    path.write_bytes(os.urandom(64 << 10) * 512)
    content = path.read_bytes()
    told: list[tuple[int, int]] = []
    backend = make_backend("mmap", local_files([path]))
    none = np.empty(0, np.uint8)
    really, at = mapped._advise, backend.span(0, 0, 1, none).ctypes.data

    def noted(first: int, length: int, what: int) -> int:
        assert really(first, length, what) == 0
        told.append((first - at, first - at + length))
        return 0

    monkeypatch.setattr(mapped, "_advise", noted)

    def read(start: int, stop: int) -> None:
        assert backend.span(0, start, stop, none).tobytes() == content[start:stop]

    for n in range(20):  # in order, with headers between
        read(384 + n * 131_456, (n + 1) * 131_456)
    assert told == []
    read(20_000_001, 20_131_073)
    read(7, 131_079)
    assert told == [(20_000_001 // 4096 * 4096, 20_131_073), (0, 131_079)]
    told.clear()
    read(30_000_000, 30_000_900)
    read(8_000_000, 8_131_072)
    read(len(content) - 131_072, len(content))
    read(0, len(content))
    read(12_000_000, 12_131_072)
    assert [stop for _, stop in told] == [8_131_072, len(content), 12_131_072]


def addresses() -> int:
    """Bytes of addresses that this process has taken."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE


@pytest.mark.parametrize("backend", ["auto", "buffered"])
def test_sixty_seven_files_of_15_tib(tmp_path: Path, backend: str) -> None:
    """A petabyte of holes: eight of these files take all the addresses that a process has."""
    size, frame = 15 << 40, 1 << 15
    paths = [tmp_path / f"{k:02d}.raw" for k in range(67)]
    for k, path in enumerate(paths):
        with path.open("wb") as file:
            try:
                file.truncate(size)
            except OSError as error:
                pytest.skip(f"no sparse files of 15 TiB here: {error.strerror}")
        with path.open("r+b") as file:
            for at in (0, size // 2, size - 8):
                file.seek(at)
                file.write((100 * at // size + k).to_bytes(8, "little"))
    a = vfs.open(paths, format="raw", dtype="<u8", sig_shape=(frame // 8,), backend=backend)
    each = size // frame
    assert a.shape == (67 * each, frame // 8)
    before = addresses()
    kept = [(k, a[k * each], a[k * each + each // 2], a[(k + 1) * each - 1]) for k in range(67)]
    for k, first, middle, last in kept:
        assert (first[0], middle[0], last[-1]) == (k, 50 + k, 99 + k)
    for k in np.random.default_rng(0).integers(0, 67 * each, 2000).tolist():  # more windows than are kept
        assert a[k].nbytes == frame
    assert a[each - 1 : each + 1, 0].tolist() == [0, 1]  # the end of one file and the beginning of the next
    assert addresses() - before < 80 << 40


@pytest.mark.parametrize("once", [False, True])
def test_a_pass_lets_go_of_the_pages_behind_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, once: bool) -> None:
    monkeypatch.setattr(mapped, "PASSED" if once else "HELD", 16 << 20)
    monkeypatch.setattr(mapped, "_held", 0)
    paths = [tmp_path / "one.raw", tmp_path / "two.raw"]
    for path in paths:
        np.arange(48 << 18, dtype=np.uint32).tofile(path)
    arrays = [vfs.open(path, format="raw", dtype="<u4", sig_shape=(512, 512)) for path in paths]
    view = arrays[0][3]

    def resident() -> int:
        maps = Path("/proc/self/smaps").read_text().split(f"{tmp_path}/")[1:]
        return sum(int(one.partition("Rss:")[2].split()[0]) for one in maps) << 10

    most = 0
    with mapped.one_pass() if once else nullcontext():
        for array in arrays:
            for _, tile in array.tiles("1MiB", workers=0):
                tile.sum()
                most = max(most, resident())
    assert 8 << 20 < most < 24 << 20
    assert int(view[0, 0]) == 3 << 18, "a view has its pages again when it is looked at"


@pytest.mark.parametrize("stored", ["u1", "i1"])
def test_short_lines_far_apart_bring_nothing_that_lies_between(tmp_path: Path, stored: str) -> None:
    """A fault would bring as much around each as the disk reads ahead: 128 KiB, here and there 8 MiB."""
    path = tmp_path / "image.raw"
    with path.open("wb") as file:
        file.truncate(64 << 21)
    array = vfs.open(path, format="raw", dtype="i1", stored_dtype=stored, sig_shape=(64, 1 << 21), backend="mmap")
    assert not array.read((slice(0, 1), slice(0, 64), slice(1 << 20, (1 << 20) + 1000))).any()
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as memory:
        data, pages = np.frombuffer(memory, np.uint8), np.zeros(64 << 21 >> 12, np.uint8)
        ctypes.CDLL(None).mincore(
            ctypes.c_void_p(data.ctypes.data), ctypes.c_size_t(data.size), ctypes.c_void_p(pages.ctypes.data)
        )
        del data
    assert 64 <= (pages & 1).sum() < 512


def test_few_addresses(tmp_path: Path) -> None:
    """Batch systems bound the addresses of a process: what cannot be mapped whole is mapped as far as it is read."""
    path = tmp_path / "a.raw"
    with path.open("wb") as file:
        file.truncate(40 << 30)
    code = f"""
        import resource, vfs
        from vfs.testing.inside import reader_of
        a = vfs.open({str(path)!r}, format="raw", dtype="<u2", sig_shape=(1024, 1024))
        b = vfs.open({str(path)!r}, format="raw", dtype=">u2", sig_shape=(1024, 1024))
        assert not b[7].any() and not a[7].any()
        reader_of(a).backend.handles.drop(0), reader_of(b).backend.handles.drop(0)
        now = int(open("/proc/self/statm").read().split()[0]) * 4096
        resource.setrlimit(resource.RLIMIT_AS, (now + (1 << 30),) * 2)
        assert not a[20_000].any() and not b[20_000:20_010].any() and not b[::1000, 5, 5].any()
        print("read")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=250)
    assert (done.stdout, done.stderr) == ("read\n", "")


def bytes_read() -> int:
    """Bytes that reads have given to this process."""
    return int(Path("/proc/self/io").read_text().split()[1])


@pytest.mark.filterwarnings("ignore:.*direct I/O is refused:RuntimeWarning")
def test_direct_reads_the_blocks_around_what_is_wanted(tmp_path: Path) -> None:
    """For a pixel of every frame it read all frames."""
    frames = np.random.default_rng(0).integers(0, 1000, (60, 256, 256)).astype("u2")
    frames.tofile(tmp_path / "a.raw")
    array = vfs.open(tmp_path / "a.raw", format="raw", stored_dtype="<u2", sig_shape=(256, 256), backend="direct")
    assert np.array_equal(array[:, 3, 4], frames[:, 3, 4])
    for key, most in (
        ((slice(None), 100, 100), 60 * 8192),
        ((slice(None), slice(100, 102)), 60 * 8192),
        ((slice(None, None, 2), 255, 255), 30 * 8192),
    ):
        before = bytes_read()
        assert np.array_equal(array[key], frames[key])
        assert bytes_read() - before < most + 4096  # and what looking costs
    assert np.array_equal(array[:, ::-50, ::100], frames[:, ::-50, ::100])


@pytest.mark.filterwarnings("ignore:.*direct I/O is refused:RuntimeWarning")
@pytest.mark.parametrize("sparse", [False, True])
def test_direct_goes_on_where_a_read_ends_within_a_block(
    tmp_path: Path, sparse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said "expected bytes 0 to 819,200, the file has 819,200"."""
    path = tmp_path / "a.bin"
    path.write_bytes(os.urandom(819_200))
    content = path.read_bytes()
    backend = make_backend("direct", local_files([path]))
    wanted = np.array([[0, 0, 100], [0, 200_000, 300_000], [0, 819_100, 819_200]]) if sparse else None
    memory = np.zeros(819_200 + backend.margin, np.uint8)
    assert backend.span(0, 0, 1, memory)[0] == content[0]
    real, most = os.preadv, 100_001
    monkeypatch.setattr(os, "preadv", lambda fd, buffers, at: min(most, real(fd, buffers, at)))
    monkeypatch.setattr("vfs.kernels.fetch.read_ranges", lambda fd, ranges, *rest: 0)
    got = backend.span(0, 0, 819_200, memory, wanted)
    for a, b in [(0, 819_200)] if wanted is None else wanted[:, 1:].tolist():
        assert got[a:b].tobytes() == content[a:b]
    most = 100
    opened: Any = backend.handles.get(0, 0, 1)  # type: ignore[attr-defined]
    opened.step = 4096  # also where direct I/O is refused
    with pytest.raises(
        SourceError,
        match=r"a.bin: bytes 0 to 819,200: a direct read at byte 0 returned less than a block; try backend='buffered'",
    ):
        backend.span(0, 0, 819_200, memory, np.array([[0, 0, 819_200]]) if sparse else None)


def test_a_kernel_reads_what_ends_within_a_step_again(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(os.urandom(10_000))
    content = path.read_bytes()
    opened = Descriptor(str(path), ANYWHERE)
    out = np.zeros(12_288, np.uint8)
    wanted = np.array([[0, 10, 20], [0, 5000, 5010], [0, 9000, 9999]])
    assert read_ranges(opened.fd, wanted, out, 0, 4096, 1) == -1
    assert out[:10_000].tobytes() == content  # the blocks around each
    assert read_ranges(opened.fd, np.array([[0, 10, 20], [0, 9000, 10_001]]), out, 0, 4096, 1) == 1


@pytest.mark.parametrize("backend", ["mmap", "buffered", "direct"])
@pytest.mark.parametrize("options", [{}, {"dark": np.zeros((10, 1000))}], ids=["stored", "decoded"])
@pytest.mark.filterwarnings("ignore:.*direct I/O is refused")
def test_overwritten_with_the_time_that_it_had(tmp_path: Path, backend: str, options: dict[str, Any]) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.ones((4, 10, 1000)))
    ones = path.read_bytes()
    np.save(path, np.zeros((4, 10, 1000)))
    array = vfs.open(path, backend=backend, chunks=(1, 10, 1000), **options)
    stored = zarr.open_group(array.store(), mode="r")["data"]
    assert not array[0].any()
    assert not stored[0].any()
    sent = pickle.dumps(array)
    overwrite(path, ones)
    assert array[0].all()
    assert stored[0].all(), "kept from before"
    path.chmod(0o600)
    path.rename(tmp_path / "away")
    (tmp_path / "away").rename(path)
    assert array[1].all()
    copied = pickle.loads(sent)
    assert copied[2].all()
    path.rename(tmp_path / "away")
    shutil.copy2(tmp_path / "away", path)
    overwrite(path, ones[:128] + bytes(len(ones) - 128))
    for each in (array, copied):
        assert not each[3].any(), "another file of that name, size and time"
    with path.open("r+b") as file:
        file.write(ones)
    os.utime(path, ns=(0, 0))
    with pytest.raises(vfs.SourceChangedError):
        array[0]


@pytest.mark.parametrize(
    ("backend", "reads"),
    [("buffered", "vfs.backends.buffered.fill"), ("direct", "vfs.backends.direct.DirectBackend._fill")],
)
@pytest.mark.filterwarnings("ignore:.*direct I/O is refused")
def test_a_read_is_of_one_state_of_a_file(
    tmp_path: Path, backend: str, reads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.zeros(100_000))
    array = vfs.open(path, backend=backend)
    content = path.read_bytes()[:128] + bytes(range(1, 101)) * 8000
    times, read = 1, resolve_name(reads)

    def fails(*args: Any) -> None:
        nonlocal times
        read(*args)
        if times:
            times -= 1
            overwrite(path, content)

    monkeypatch.setattr(reads, staticmethod(fails) if backend == "direct" else fails)
    assert array[:].tobytes() == content[128:]
    assert times == 0
    times = -1
    with pytest.raises(vfs.SourceChangedError, match=r"a.npy: .*changes again and again while it is read.*\[reading"):
        array[:]
