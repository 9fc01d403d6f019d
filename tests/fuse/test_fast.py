"""Reads that native code answers: the same bytes as through the tree, from many threads, while
pieces come and go and sources fail.

Most of it is one process: `tests.fuse.direct` calls the function that libfuse gets, as libfuse does.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import math
import mmap
import os
import shutil
import stat
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.fuse.direct import Direct, every_path, files_of, same_as_the_tree
from tests.fuse.support import FAULTS, HEADERS, Scan, damage, overwrite
from tests.waiting import eventually
from vfs.api.opening import open_group
from vfs.contents.face_folder import FaceFolder
from vfs.engine.abandon import asked
from vfs.engine.chunk_access import Chunks
from vfs.faces.face import ZarrFace
from vfs.faces.npy_face import NpyFace
from vfs.fuse import registry
from vfs.fuse.view import inode
from vfs.kernels.native.words import LINE, TableWord
from vfs.testing.inside import set_of
from vfs.testing.writers import write_mib, write_raw


@pytest.fixture
def opened(direct: Callable[[FaceFolder], Direct]) -> Callable[..., Direct]:
    return lambda files, **options: direct(
        FaceFolder([set_of(open_group(files, **{"backend": "buffered", **options})).tree])
    )


FRAMES = np.random.default_rng(5).integers(0, 1 << 12, (60, 64, 48))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"chunks": (7, 64, 48)},
        {"nav_shape": (6, 10), "chunks": (4, 3, 64, 48)},
        {"nav_shape": (6, 10), "sync_offset": 7, "chunks": (2, 10, 64, 48)},
        {"nav_shape": (6, 10), "sync_offset": -7, "chunks": (1, 5, 64, 48)},
        {"nav_shape": (5, 9), "chunks": (1, 9, 64, 48)},
        {"nav_shape": (8, 9), "chunks": (3, 4, 64, 48)},
        {"roi": np.array([3, 3, 59, 0, 17]), "chunks": (2, 64, 48)},
        {"chunks": (5, 20, 48)},
        {"chunks": (60, 8, 8)},
        {"backend": "direct"},
        {"backend": "mmap"},
        {"dark": np.ones((64, 48)), "chunks": (4, 64, 48)},
        {"dead": np.array([[3, 4]]), "chunks": (4, 64, 48)},
    ],
    ids=lambda options: "-".join(options) or "plain",
)
@pytest.mark.parametrize("dtype", ["<u2", ">u2", ">c8"])
@pytest.mark.filterwarnings("ignore:.*direct I/O is refused")
def test_the_same_bytes_as_through_the_tree(tmp_path: Path, opened: Any, options: dict[str, Any], dtype: str) -> None:
    if options.keys() & {"dark", "dead"} and dtype == ">c8":
        pytest.skip("corrections are for real numbers")
    files = write_raw(tmp_path, FRAMES.astype(dtype), files=4, **HEADERS)
    same_as_the_tree(opened(files, format="raw", stored_dtype=dtype, sig_shape=(64, 48), **HEADERS, **options))


@pytest.mark.parametrize("dtype", ["<u1", ">f4", ">i8", "<f8", ">c16", "?"])
def test_every_width(tmp_path: Path, opened: Any, dtype: str) -> None:
    files = write_raw(tmp_path, FRAMES.astype(dtype), files=2)
    same_as_the_tree(opened(files, format="raw", stored_dtype=dtype, sig_shape=(64, 48), chunks=(7, 64, 48)))


@pytest.mark.parametrize("dtype", ["<u2", ">u4"])
@pytest.mark.parametrize("sig", [(1,), (3,), (2, 5)])
def test_short_frames_with_and_without_headers(tmp_path: Path, opened: Any, dtype: str, sig: tuple[int, ...]) -> None:
    frames = np.random.default_rng(1).integers(0, 1 << 16, (3000, *sig)).astype(dtype)
    for header in (0, 3):
        folder = tmp_path / str(header)
        folder.mkdir()
        files = write_raw(folder, frames, files=3, frame_header=header)
        same_as_the_tree(
            opened(files, format="raw", stored_dtype=dtype, sig_shape=sig, frame_header=header, chunks=(700, *sig))
        )


def test_frames_that_run_across_files(tmp_path: Path, opened: Any) -> None:
    data = FRAMES.astype("<u2").tobytes()
    cuts = [0, 10_000, 10_002, 123_458, 200_000, len(data)]
    files = []
    for k, (a, b) in enumerate(itertools.pairwise(cuts)):
        files.append(tmp_path / f"p{k}.raw")
        files[-1].write_bytes(data[a:b])
    same_as_the_tree(opened(files, format="raw", dtype="<u2", sig_shape=(64, 48), running_on=True, chunks=(7, 64, 48)))


@pytest.mark.parametrize(("kind", "depth"), [("U16", None), ("R64", 12), ("R64", 6), ("R64", 24)])
@pytest.mark.parametrize("more", [{}, {"dtype": "f4"}, {"chunks": "scan"}], ids=str)
def test_decoded(tmp_path: Path, opened: Any, kind: str, depth: int | None, more: dict[str, Any]) -> None:
    path = write_mib(
        tmp_path, (FRAMES & 63).astype("u1") if depth == 6 else FRAMES.astype("u2"), kind=kind, depth=depth
    )
    same_as_the_tree(opened(path, **{"nav_shape": (6, 10), "chunks": (2, 5, 64, 48), **more}))


def test_an_array_without_axes_and_one_without_elements(tmp_path: Path, opened: Any) -> None:
    for name, array in (("scalar", np.array(5, "<i4")), ("nothing", np.zeros((3, 0), "<u2"))):
        np.save(tmp_path / f"{name}.npy", array)
        same_as_the_tree(opened(tmp_path / f"{name}.npy"))


def test_what_lies_in_the_files_comes_to_the_interpreter_once_a_file(tmp_path: Path, opened: Any) -> None:
    files = write_raw(tmp_path, FRAMES.astype(">u2"), files=4, **HEADERS)
    direct = opened(files, format="raw", dtype=">u2", sig_shape=(64, 48), **HEADERS)
    twin = FRAMES.astype("<u2").tobytes()
    for expected in (4, 0):
        direct.slow = 0
        info = direct.open("part0.npy")
        got = b"".join(direct.read("part0.npy", info, 8192, at) for at in range(0, 128 + len(twin), 8192))
        assert got[128:] == twin
        assert direct.slow == expected
    counted = direct.view.counters.table[1]
    assert counted[1] == 2 * -(-(128 + len(twin)) // 8192) - 4
    assert counted[2] > 2 * len(twin) - 4 * 8192


@pytest.mark.parametrize("more", [{}, {"quad": True}, {"flip_y": True}], ids=str)
@pytest.mark.parametrize(("depth", "dtype"), [(1, "u1"), (6, "u1"), (12, "u2"), (24, "u4"), (16, "u2")])
def test_what_one_step_decodes_needs_no_interpreter(
    tmp_path: Path, opened: Any, depth: int, dtype: str, more: dict[str, Any]
) -> None:
    """Any part of a frame does: of four chips, or turned over."""
    frames = (FRAMES * 4097 & ((1 << depth) - 1)).astype(dtype).reshape(15, 96, 128)
    packed = {"kind": "U16"} if depth == 16 else {"kind": "R64", "depth": depth}
    path = write_mib(tmp_path, frames, quad="quad" in more, **packed)
    flip = {"flip_y": "flip_y" in more}
    shown = frames[:, ::-1] if flip["flip_y"] else frames
    for options in ({"nav_shape": (3, 5), "chunks": (2, 5, 96, 128)}, {"roi": np.arange(15) % 7 == 3}):
        direct = opened(path, **options, **flip)
        wanted = shown[options["roi"]] if "roi" in options else shown
        info = direct.open("scan.npy")
        for expected in (1, 0):  # the file is opened once
            direct.slow = 0
            got = b"".join(direct.read("scan.npy", info, 8192, at) for at in range(0, 128 + wanted.nbytes, 8192))
            assert got[128:] == wanted.tobytes()
            assert direct.slow == expected
        same_as_the_tree(direct)
    damage(path.with_suffix(".mib"), "truncated")
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        direct.read("scan.npy", info, 8192, 4096)


def test_channels_side_by_side_need_no_interpreter(tmp_path: Path, opened: Any) -> None:
    channels = FRAMES[:3].astype("u2")
    np.save(tmp_path / "scan.npy", np.asfortranarray(channels))
    direct = opened(tmp_path / "scan.npy")
    info = direct.open("scan.npy")
    direct.read("scan.npy", info, 1024, 0)
    direct.slow = 0
    got = b"".join(direct.read("scan.npy", info, 1024, at) for at in range(0, 128 + channels.nbytes, 1024))
    assert got[128:] == channels.tobytes()
    assert direct.slow == 0
    same_as_the_tree(direct)


def test_decoded_pieces_are_made_once_and_the_next_one_ahead(
    tmp_path: Path, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = np.random.default_rng(1).integers(0, 1 << 12, (64, 256, 256)).astype("u2")
    path = write_mib(tmp_path, frames, kind="R64", depth=12)
    frames = frames.astype("i2")  # converted, so that each piece is made
    direct = opened(path, nav_shape=(64,), chunks=(8, 256, 256), dtype="i2")
    made: list[tuple[str, bool]] = []
    run = Chunks.run

    def counted(self: Chunks, start: int, stop: int, position: Any = None) -> np.ndarray:
        made.append((threading.current_thread().name, stop - start == 1 << 21))
        return run(self, start, stop, position)

    monkeypatch.setattr(Chunks, "run", counted)
    info = direct.open("scan.npy")
    size = 128 + frames.nbytes
    got = b""
    for at in range(0, size, 1 << 17):
        got += direct.read("scan.npy", info, 1 << 17, at)
        # On a busy machine the reader would be faster than who works ahead of it
        assert eventually(lambda: not direct.native_tables.ahead.making)
    assert got[128:] == frames.tobytes()
    assert [whole for _, whole in made] == [True] * 4
    # The first piece, perhaps the second, were asked for before
    assert sum(name.startswith("vfs-ahead") for name, _ in made) >= 2
    assert direct.slow <= 8
    direct.slow = 0
    assert b"".join(direct.read("scan.npy", info, 1 << 17, at) for at in range(0, size, 1 << 17)) == got
    assert direct.slow == 0


def test_random_short_reads_are_decoded_by_themselves(tmp_path: Path, opened: Any) -> None:
    frames = np.random.default_rng(1).integers(0, 1 << 12, (64, 256, 256)).astype("u2")
    direct = opened(write_mib(tmp_path, frames, kind="R64", depth=12), nav_shape=(64,), dtype="i2")
    info = direct.open("scan.npy")
    for page in (7, 1000, 500, 1900):
        assert (
            direct.read("scan.npy", info, 4096, 128 + 4096 * page) == frames.tobytes()[4096 * page : 4096 * (page + 1)]
        )
    assert direct.folder.at("scan.npy").in_face().face.array.cache.held == 0  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", ["R64", "raw"])
def test_many_threads_while_pieces_and_files_come_and_go(
    tmp_path: Path, opened: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = np.random.default_rng(2).integers(0, 1 << 12, (240, 64, 64)).astype("u2")
    if kind == "R64":
        direct = opened(
            write_mib(tmp_path, frames, kind=kind, depth=12, frames_per_file=20), nav_shape=(240,), chunks=(4, 64, 64)
        )
    else:
        monkeypatch.setattr(registry, "limit", lambda: 8)  # four files at a time
        files = write_raw(tmp_path, frames, files=12, frame_header=64)
        direct = opened(files, format="raw", dtype="<u2", sig_shape=(64, 64), frame_header=64, chunks=(4, 64, 64))
    face = next(face for face in direct.folder.faces.values() if isinstance(face, NpyFace))
    name = next(name for name in direct.folder.faces if name.endswith(".npy"))
    zarr = name.replace(".npy", ".zarr")
    cache = face.array.cache
    cache.limit = 1 << 20  # of 1.9 MiB as chunks and as much as a file
    twin = bytes(direct.folder.at(name).get() or b"")
    chunks = [frames[4 * k : 4 * k + 4].tobytes() for k in range(60)]
    wrong: list[object] = []
    native_tables = direct.native_tables
    for source in (
        native_tables.open(direct.folder.at(name)),
        native_tables.open(direct.folder.at(f"{zarr}/data/c/0/0/0")),
    ):
        assert source

    def reader(seed: int) -> int:
        rng = np.random.default_rng(seed)
        done = 0
        for _ in range(600):
            if rng.random() < 0.5:
                a, n = int(rng.integers(0, len(twin))), int(rng.integers(1, 200_000))
                got, expected = direct.read(name, direct.open(name), n, a), twin[a : a + n]
            else:
                k = int(rng.integers(0, 60))
                path = f"{zarr}/data/c/{k}/0/0"
                got, expected = direct.read(path, direct.open(path), 1 << 17, 0), chunks[k]
            if got != expected:
                wrong.append((seed, len(got), len(expected)))
            done += len(got)
        return done

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(reader, range(8)))
    assert not wrong
    assert cache.held <= cache.limit
    assert np.all(native_tables.registry.table.words[[TableWord.INSIDE, TableWord.INSIDE + LINE]] == 0)
    assert eventually(lambda: not native_tables.ahead.making)
    native_tables.retired.collect()
    native_tables.retired.collect()
    assert len(native_tables.retired) == 0  # all that was dropped is freed
    if kind == "R64":
        assert np.count_nonzero(native_tables.pieces.places) <= 60
    else:
        assert len(native_tables.registry.open) <= 4


def test_what_is_dropped_is_not_freed_while_somebody_is_inside(tmp_path: Path, opened: Any) -> None:
    path = write_mib(tmp_path, FRAMES.astype("u2"), kind="R64", depth=12)
    direct = opened(path, nav_shape=(60,), chunks=(4, 64, 48), dtype="i2")  # converted, so that pieces are made
    native_tables = direct.native_tables
    path = "scan.zarr/data/c/0/0/0"
    expected = FRAMES[:4].astype("<u2").tobytes()
    info = direct.open(path)
    assert direct.read(path, info, 1 << 17, 0) == expected
    cache = direct.folder.at("scan.npy").in_face().face.array.cache  # type: ignore[union-attr]
    for at in (TableWord.INSIDE, TableWord.INSIDE + LINE):
        native_tables.registry.table.words[at] = 1  # a reader who takes his time
        assert len(native_tables.retired) == 0
        cache.clear()
        for _ in range(4):
            native_tables.retired.collect()
        assert len(native_tables.retired) == 1
        native_tables.registry.table.words[at] = 0
        native_tables.retired.collect()
        native_tables.retired.collect()
        assert len(native_tables.retired) == 0
        assert direct.read(path, info, 1 << 17, 0) == expected  # and is made anew


@pytest.mark.parametrize("fault", FAULTS)
def test_a_source_that_changes_is_eio_until_the_file_is_back(
    scan: Scan, opened: Any, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    direct = opened(scan.files, **scan.options)
    bad = scan.files[1]
    twin = scan.twin.tobytes()
    frame = 64 * 48 * 2
    info = direct.open("part0.npy")
    assert direct.read("part0.npy", info, len(twin), 128) == twin
    direct.slow = 0
    assert direct.read("part0.npy", info, len(twin), 128) == twin
    assert direct.slow == 0
    mend = damage(bad, fault)
    for _ in range(2):
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            direct.read("part0.npy", info, 2 * frame, 128 + 20 * frame)
    assert str(bad) in caplog.text
    assert "part0.npy: read of 12,288 bytes at 123,008 failed: " in caplog.text
    assert "bytes " in caplog.text.split("failed: ")[1]
    assert direct.read("part0.npy", info, 15 * frame, 128) == twin[: 15 * frame]
    assert direct.read("part0.npy", info, 30 * frame, 128 + 30 * frame) == twin[30 * frame :]
    assert not direct.open("part0.npy").keep_cache
    assert not direct.open("part0.zarr/data/c/0/2/0/0").keep_cache
    assert direct.open("part0.zarr/data/c/0/0/0/0").keep_cache  # its frames lie in another file
    mend()
    assert direct.read("part0.npy", info, len(twin), 128) == twin
    # Once for what the kernel may have of the time between
    assert [direct.open("part0.npy").keep_cache for _ in range(2)] == [0, 1]


def moved_and_back(path: Path) -> None:
    path.rename(path.with_suffix(".away"))
    path.with_suffix(".away").rename(path)


TOUCHES: dict[str, Callable[[Path], Any]] = {
    "mode": lambda path: path.chmod(0o600),
    "link": lambda path: os.link(path, path.with_name("link")),
    "name": moved_and_back,
    "copy": lambda path: (path.rename(path.with_suffix(".away")), shutil.copy2(path.with_suffix(".away"), path)),
}


@pytest.mark.parametrize("touch", TOUCHES.values(), ids=TOUCHES)
def test_a_touched_source_is_read_on(scan: Scan, opened: Any, touch: Callable[[Path], Any]) -> None:
    direct = opened(scan.files, **scan.options)
    info = direct.open("part0.npy")
    twin = scan.twin.tobytes()
    assert direct.read("part0.npy", info, len(twin), 128) == twin
    before = scan.files[1].stat().st_ctime_ns
    touch(scan.files[1])
    while scan.files[1].stat().st_ctime_ns == before:
        os.utime(scan.files[1], ns=(0, scan.files[1].stat().st_mtime_ns))
    assert direct.read("part0.npy", info, len(twin), 128) == twin
    assert [direct.open("part0.npy").keep_cache for _ in range(2)] == [0, 1]
    assert [direct.open("part0.zarr/data/c/0/2/0/0").keep_cache for _ in range(2)] == [0, 1]
    direct.slow = 0
    assert direct.read("part0.npy", info, len(twin), 128) == twin
    assert direct.slow == 0


@pytest.mark.parametrize(
    ("lib", "options", "cache"),  # each pair of them
    [
        ("libfuse3", {}, {}),
        ("libfuse3", {"dark": np.zeros((64, 48))}, {"cache_size": 1000}),
        ("libfuse2", {}, {"cache_size": 1000}),
        ("libfuse2", {"dark": np.zeros((64, 48))}, {}),
        ("fusepy", {}, {}),
        ("fusepy", {"dark": np.zeros((64, 48))}, {"cache_size": 1000}),
    ],
    ids=lambda given: given if isinstance(given, str) else "-".join(given) or "plain",
    indirect=["lib"],
)
def test_overwritten_with_the_time_that_it_had(
    scan: Scan, point: Path, lib: str, options: dict[str, Any], cache: dict[str, int]
) -> None:
    """The .npy face showed old pages, the chunks old pages and pieces, and Python new pixels."""
    array = vfs.open(scan.files, **scan.options, **options)
    kept = [path.read_bytes() for path in scan.files]
    with scan.mount(point, **options, **cache):

        def seen() -> list[bytes]:
            chunks = [(point / f"part0.{face}/2/0/0/0").read_bytes() for face in ("zarr/data/c", "v2.zarr/data")]
            return [array.read().tobytes(), (point / "part0.npy").read_bytes()[128:], *chunks]

        twin = scan.twin.astype(array.dtype)
        before = [twin.tobytes()] * 2 + [twin[4:6, :3].tobytes()] * 2
        assert seen() == before
        for path in scan.files:
            overwrite(path, bytes(path.stat().st_size))
        assert seen() == [bytes(len(each)) for each in before]
        assert seen() == [bytes(len(each)) for each in before]
        for path, content in zip(scan.files, kept, strict=True):
            overwrite(path, content)
        assert seen() == before


def test_files_of_which_nothing_is_remembered_are_read_through_the_tree(scan: Scan, opened: Any) -> None:
    direct = opened(scan.files, **scan.options, accept_changes=True)
    info = direct.open("part0.npy")
    assert not info.keep_cache
    assert direct.read("part0.npy", info, 1 << 20, 128) == scan.twin.tobytes()
    assert direct.slow == 1
    path = scan.files[0]
    path.write_bytes(bytes(path.stat().st_size))
    changed = direct.read("part0.npy", info, 1 << 20, 128)
    assert changed[: 15 * 6144] == bytes(15 * 6144)
    assert changed[15 * 6144 :] == scan.twin.tobytes()[15 * 6144 :]


def test_a_changed_source_is_noticed_when_a_file_is_opened_again(scan: Scan, point: Path, lib: str) -> None:
    bad, chunk = scan.files[0], point / "part0.zarr/data/c/0/0/0/0"
    expected = scan.twin[:2, :3].tobytes()
    with scan.mount(point):
        for _ in range(3):
            assert chunk.read_bytes() == expected
        times = bad.stat().st_mtime_ns
        os.utime(bad, ns=(0, times + 1))
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            chunk.read_bytes()
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            (point / "part0.npy").read_bytes()
        os.utime(bad, ns=(0, times))
        assert chunk.read_bytes() == expected
        assert (point / "part0.npy").read_bytes()[128:] == scan.twin.tobytes()


def test_after_a_read_libfuse_is_not_asked_for_it_any_more(scan: Scan, opened: Any) -> None:
    """It would look at a request that is over: that killed a process that computed in the same thread later."""
    mounted = opened(scan.files, **scan.options, derive={"total": vfs.FrameSum()})
    (path,) = (path for path in files_of(mounted.folder) if path.endswith(".derived.total.npy"))
    info = mounted.open(path)
    assert mounted.read(path, info, 1 << 16, 0) == bytes(mounted.folder.at(path).get() or b"")
    assert asked.gone is None


@pytest.mark.parametrize(
    ("lib", "kind"),  # a library does not see whether bytes were decoded
    [("libfuse3", "U16"), ("libfuse3", "R64"), ("libfuse2", "R64"), ("fusepy", "U16")],
    indirect=["lib"],
)
def test_through_a_mount_by_many(tmp_path: Path, point: Path, lib: str, kind: str) -> None:
    folder = tmp_path / "mib"
    folder.mkdir()
    path = write_mib(folder, FRAMES.astype("u2"), kind=kind, depth=12, frames_per_file=7)
    twin = FRAMES.astype("<u2")
    with vfs.mount(path, point, nav_shape=(6, 10), chunks=(1, 5, 64, 48)), ThreadPoolExecutor(8) as pool:

        def check(k: int) -> bool:
            rng = np.random.default_rng(k)
            fine = np.array_equal(np.load(point / "scan.npy").reshape(twin.shape), twin)
            for n in rng.permutation(12).tolist():
                expected = twin[5 * n : 5 * n + 5].tobytes()
                fine &= (point / f"scan.zarr/data/c/{n // 2}/{n % 2}/0/0").read_bytes() == expected
                fine &= (point / f"scan.v2.zarr/data/{n // 2}/{n % 2}/0/0").read_bytes() == expected
            return fine

        assert all(pool.map(check, range(16)))


def test_zarr_faces_share_their_pieces(tmp_path: Path, opened: Any) -> None:
    direct = opened(write_mib(tmp_path, FRAMES.astype("u2"), kind="R64", depth=12), nav_shape=(60,), chunks=(4, 64, 48))
    assert (
        direct.native_tables.open(direct.folder.at("scan.zarr/data/c/3/0/0"))
        == direct.native_tables.open(direct.folder.at("scan.v2.zarr/data/3/0/0"))
        != 0
    )
    assert direct.native_tables.open(direct.folder.at("scan.zarr/zarr.json")) == 0
    assert isinstance(direct.folder.faces["scan.zarr"], ZarrFace)


@pytest.mark.parametrize(
    "options", [{}, {"chunks": (3, 3, 20, 48)}, {"nav_shape": None, "chunks": (1, 64, 48)}], ids=str
)
def test_names_are_looked_up_listed_and_opened_as_by_the_interpreter(
    scan: Scan, opened: Any, options: dict[str, Any]
) -> None:
    direct = opened(scan.files, **{**scan.options, **options})
    if not direct.view.is_fuse3:
        pytest.skip("the pointers of this test are those of libfuse 3")
    paths = list(every_path(direct.folder))
    refused = f"{os.strerror(errno.EIO)}|{os.strerror(errno.EROFS)}"
    wrong = [
        "x",
        "part0.zarr/data/c/",
        "part0.zarr/data/c//0",
        "part0.zarr/data/c/00",
        "part0.zarr/data/c/-1",
        "part0.zarr/data/c/99999999999999999999",
    ]
    wrong += [
        "part0.zarr/data/c/0/0/0/0/0",
        "part0.npy/0",
        "part0.zarr/data/c/0x",
        "part0.v2.zarr/data/0/0/0/0/0",
        "0",
        "0/0",
        "/0",
    ]
    for _ in range(2):  # the second time nearly all of it without the interpreter
        direct.behind = dict.fromkeys(direct.behind, 0)
        for path in paths:
            expected = direct.module.c_stat()
            assert direct.view.stat(b"/" + path.encode(), ctypes.pointer(expected), None) == 0
            assert direct.stat(path) == bytes(expected), path
            node = direct.folder.at(path).node()
            assert node
            if node.folder:
                listed = direct.list(path)
                names = [".", "..", *direct.folder.at(path).children()]
                assert [entry[0].decode() for entry in listed] == names
                assert [entry[4] for entry in listed] == list(range(1, len(names) + 1))
                above = path.rpartition("/")[0]
                numbers = [
                    inode(path),
                    inode(above),
                    *(inode(f"{path}/{name}" if path else name) for name in names[2:]),
                ]
                assert [entry[1] for entry in listed] == numbers
                nodes = [direct.folder.at(f"{path}/{name}" if path else name).node() for name in names[2:]]
                assert [entry[3] for entry in listed[2:]] == [found.size for found in nodes if found]
                assert [stat.S_ISDIR(entry[2]) for entry in listed[2:]] == [found.folder for found in nodes if found]
                pieces = []
                while more := direct.list(path, pieces[-1][4] if pieces else 0, most=2):
                    pieces += more
                assert pieces == listed
                with pytest.raises(OSError, match=os.strerror(errno.EISDIR)):
                    direct.open(path)
            else:
                info = direct.open(path)
                assert (info.fh, info.keep_cache, info.direct_io) == (
                    direct.native_tables.open(direct.folder.at(path)),
                    1,
                    0,
                )
                with pytest.raises(OSError, match=os.strerror(errno.EROFS)):
                    direct.open(path, os.O_RDWR)
        for path in wrong:
            for call in (direct.stat, direct.open):  # what may be a chunk is not absent
                with pytest.raises(OSError, match=refused if "/data/" in path else os.strerror(errno.ENOENT)):
                    call(path)
    chunks = math.prod(direct.folder.at("part0.npy").in_face().face.array.grid.counts)  # type: ignore[union-attr]
    assert len(paths) > 2 * chunks > 20
    assert direct.behind["getattr"] < 30 + len(wrong)
    # The faults, documents and folders
    assert direct.behind["open"] < 3 * chunks + 30 + len(wrong) + len(paths) - 2 * chunks


def test_a_folder_of_very_many_is_listed_from_any_place_on(tmp_path: Path, opened: Any) -> None:
    np.save(tmp_path / "a.npy", np.zeros(1_000_000, "u1"))
    direct = opened(tmp_path / "a.npy", chunks=(1,))
    if not direct.view.is_fuse3:
        pytest.skip("the pointers of this test are those of libfuse 3")
    direct.stat("a.zarr/data/c/0")
    for at in (0, 2, 7, 10, 99_999, 999_997):
        numbers = [int(entry[0]) for entry in direct.list("a.zarr/data/c", at + 2, most=5)]
        assert numbers == list(range(at, min(at + 5, 1_000_000)))
    assert direct.list("a.zarr/data/c", 1_000_002) == []
    assert direct.behind["readdir"] == 0


def test_who_takes_the_entries_of_a_folder_may_use_any_memory(tmp_path: Path, opened: Any) -> None:
    np.save(tmp_path / "a.npy", np.zeros(200, "u1"))
    direct = opened(tmp_path / "a.npy", chunks=(1,))
    if not direct.view.is_fuse3:
        pytest.skip("the pointers of this test are those of libfuse 3")
    path = "a.zarr/data/c"
    direct.stat(f"{path}/0")
    expected = direct.list(path)
    library = ctypes.CDLL(None)
    library.malloc.restype, library.malloc.argtypes, library.free.argtypes = (
        ctypes.c_void_p,
        [ctypes.c_size_t],
        [ctypes.c_void_p],
    )
    found, taken = [], []

    def fill(buffer: int, name: bytes, attributes: Any, at: int, flags: int) -> int:
        to = attributes.contents
        found.append((name, to.st_ino, to.st_mode, to.st_size, at))
        for size in range(16, 1500, 16):  # what libfuse does here: it remembers names
            taken.append(library.malloc(size))
            ctypes.memset(taken[-1], 0xA5, size)
        return 0

    direct._check(direct.call["readdir"](b"/" + path.encode(), None, direct.fill(fill), 0, None, 1))
    for address in taken:
        library.free(address)
    assert found == expected
    assert direct.behind["readdir"] == 0


def test_direct_io_serves_files_that_cannot_be_mapped_to_be_shared(
    tmp_path: Path, point: Path, small: Path, lib: str
) -> None:
    code = """
        import sys, vfs
        from vfs.fuse import MountHow, serve
        from vfs.contents.face_folder import FaceFolder
        from vfs.testing.inside import set_of
        shown = FaceFolder([set_of(vfs.open_group(sys.argv[2], backend="buffered")).tree])
        serve(shown, sys.argv[1], MountHow(direct_io=True), ready=lambda: print("ready", flush=True))
    """
    server = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), point, small], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout
        assert server.stdout.readline() == "ready\n"
        for name in ("small.npy", "small.zarr/zarr.json"):
            with open(point / name, "rb") as file, pytest.raises(OSError, match=os.strerror(errno.ENODEV)):
                mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ)
        assert (point / "small.npy").read_bytes() == small.read_bytes()
    finally:
        server.terminate()
        server.communicate(timeout=250)
