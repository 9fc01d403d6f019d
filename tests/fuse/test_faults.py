"""Sources that fail while they are mounted: EIO at read, and only there."""

from __future__ import annotations

import ctypes
import errno
import os
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import vfs
from tests.fuse.support import Failing, Scan, run
from vfs.api.opening import open_group
from vfs.contents.face_folder import FaceFolder
from vfs.errors import printable
from vfs.fuse import Mount, MountHow
from vfs.fuse.view import FuseView, library
from vfs.testing.inside import set_of


def read_error(path: Path, offset: int = 0, size: int = 4096) -> int:
    """The error number of opening and reading; 0 where it works. `stat` and `open` must work."""
    assert path.stat().st_size > 0
    with open(path, "rb", buffering=0) as file:
        try:
            os.pread(file.fileno(), size, offset)
        except OSError as error:
            return error.errno or -1
    return 0


@pytest.mark.parametrize(
    ("lib", "fault"),  # a library does not see what happened to a source
    [
        *(("libfuse3", fault) for fault in ("truncated", "emptied", "removed", "a folder", "replaced")),
        ("libfuse2", "truncated"),
        ("fusepy", "removed"),
    ],
    indirect=["lib"],
)
def test_a_source_that_fails_is_eio_at_read_and_only_there(
    scan: Scan, point: Path, capfd: pytest.CaptureFixture[str], fault: str, lib: str
) -> None:
    bad = scan.files[2]  # frames 30 to 44: rows 3 and 4 of the scan, half of the latter
    kept, times = bad.read_bytes(), (bad.stat().st_atime_ns, bad.stat().st_mtime_ns)
    twin = scan.twin
    with scan.mount(point, chunks=(1, 5, 64, 48)):
        if fault in ("truncated", "emptied"):
            os.truncate(bad, len(kept) // 2 if fault == "truncated" else 0)
        else:
            bad.rename(bad.with_suffix(".away"))
            if fault == "a folder":
                bad.mkdir()
            if fault == "replaced":
                bad.write_bytes(bytes(len(kept)))
        frame = 64 * 48 * 2
        for name in ("part0.zarr/data/c/4/0/0/0", "part0.v2.zarr/data/4/0/0/0"):
            assert read_error(point / name) == errno.EIO
        assert read_error(point / "part0.npy", 128 + 43 * frame) == errno.EIO
        for row in (0, 1, 2, 5):  # all else is as it was
            assert (point / f"part0.zarr/data/c/{row}/1/0/0").read_bytes() == twin[row, 5:].tobytes()
        assert (point / "part0.zarr/data/c/4/1/0/0").read_bytes() == twin[4, 5:].tobytes()
        with open(point / "part0.npy", "rb", buffering=0) as file:
            # The kernel reads whole pages: the last one before the bad frames has some of theirs
            pages = (128 + 30 * frame) // 4096 * 4096
            assert os.pread(file.fileno(), pages - 128, 128) == twin.tobytes()[: pages - 128]
            assert os.pread(file.fileno(), 10 * frame, 128 + 50 * frame) == twin.tobytes()[50 * frame :]
        assert "data" in os.listdir(point / "part0.zarr")
        assert run("cat", point / "part0.zarr/data/c/4/0/0/0").returncode != 0

        if fault == "a folder":
            bad.rmdir()
        if fault == "replaced":
            bad.unlink()
        if fault in ("truncated", "emptied"):
            bad.write_bytes(kept)
        else:
            bad.with_suffix(".away").rename(bad)
        os.utime(bad, ns=times)  # the file is back as it was
        assert (point / "part0.zarr/data/c/4/0/0/0").read_bytes() == twin[4, :5].tobytes()
        np.testing.assert_array_equal(np.load(point / "part0.npy", mmap_mode="r"), twin)
    logged = [line for line in capfd.readouterr().err.splitlines() if "data/c/4/0/0/0: read" in line]
    assert logged
    assert str(bad) in logged[0]
    assert re.search(r"data\[4:5, 0:5, 0:64, 0:48\]", logged[0])
    assert "bytes" in logged[0]


@pytest.mark.parametrize("fault", ["truncated", "overwritten", "removed", "replaced"])
def test_a_source_that_fails_while_it_is_being_read_is_never_other_data(scan: Scan, point: Path, fault: str) -> None:
    bad, frame = scan.files[2], 64 * 48 * 2
    size = bad.stat().st_size
    with scan.mount(point, chunks=(1, 5, 64, 48)):
        # The server has it open now
        assert (point / "part0.zarr/data/c/3/0/0/0").read_bytes() == scan.twin[3, :5].tobytes()
        if fault == "truncated":
            os.truncate(bad, size // 2)
        elif fault == "overwritten":
            with bad.open("r+b") as file:
                file.write(bytes(size))
        else:
            bad.rename(bad.with_suffix(".away"))
            if fault == "replaced":
                bad.write_bytes(bytes(size))
        failing = fault in ("truncated", "overwritten")  # else the server still has the file itself
        for row, part in ((3, 1), (4, 0)):
            chunk = point / f"part0.zarr/data/c/{row}/{part}/0/0"
            if failing:
                assert read_error(chunk) == errno.EIO
            else:
                assert chunk.read_bytes() == scan.twin[row, 5 * part : 5 * part + 5].tobytes()
        assert read_error(point / "part0.npy", 128 + 43 * frame) == (errno.EIO if failing else 0)
        if failing:  # also what was read before: the kernel forgets it when it is opened again
            assert read_error(point / "part0.zarr/data/c/3/0/0/0") == errno.EIO
        else:
            assert (point / "part0.zarr/data/c/3/0/0/0").read_bytes() == scan.twin[3, :5].tobytes()
        assert (point / "part0.zarr/data/c/5/0/0/0").read_bytes() == scan.twin[5, :5].tobytes()


def test_a_source_that_is_gone_before_mounting_does_not_stop_the_mount(
    tmp_path: Path, point: Path, small: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    scan = Scan(tmp_path / "data")
    flag = tmp_path / "gone"

    class Vanishing:  # opens, then loses a file, in the server
        def __reduce__(self) -> tuple[Any, ...]:
            return _vanishing, (scan.files, scan.options, flag)

    with Mount.start(Vanishing(), point, MountHow()):  # type: ignore[arg-type]
        assert flag.exists()
        assert read_error(point / "part0.npy", 128) == errno.EIO
        assert (point / "part0.zarr/data/c/2/3/0/0").stat().st_size
    assert "data: cannot be read now: " in capfd.readouterr().err


def _vanishing(files: list[Path], options: dict[str, Any], flag: Path) -> Callable[[], FaceFolder]:
    folder = FaceFolder([set_of(open_group(files, **options, backend="buffered")).tree])
    files[0].rename(flag)
    return lambda: folder


def test_log_lines_are_one_line_whatever_a_file_is_called(
    tmp_path: Path, point: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a\n\x1b[31mb.npy"
    np.save(path, np.arange(100_000.0))
    with vfs.mount(path, point, chunks=(50_000,)):
        os.truncate(path, 500_000)
        assert read_error(point / f"{path.stem}.zarr/data/c/1", 300_000) == errno.EIO
    lines = [line for line in capfd.readouterr().err.splitlines() if "failed" in line]
    assert lines
    for line in lines:
        assert line.isprintable()
        assert "a\\n\\x1b[31mb" in line
        assert "500,000" in line


def test_printable_keeps_what_can_be_shown() -> None:
    assert printable("größe_µm 1.5 😀") == "größe_µm 1.5 😀"
    assert printable("a\nb\x00\x7f\u202e\udcff") == "a\\nb\\x00\\x7f\\u202e\\udcff"
    assert printable(OSError(5, "x")) == "[Errno 5] x"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (ZeroDivisionError("x"), "ZeroDivisionError: x"),
        (FileNotFoundError(2, "gone"), "gone"),
        (vfs.MissingSourceError("f.bin: no such file"), "f.bin: no such file"),
        (MemoryError(), "MemoryError"),
        (None, "expected 100 bytes, got 0"),
        (memoryview(bytes(99)), "expected 100 bytes, got 99"),
        (memoryview(bytes(101)), "expected 100 bytes, got 101"),
    ],
)
def test_whatever_goes_wrong_in_a_read_is_eio_and_a_log_line(
    answer: Any, said: str, caplog: pytest.LogCaptureFixture
) -> None:

    view = FuseView(Failing(answer), library(), False)
    opened = SimpleNamespace(contents=SimpleNamespace(fh=0))
    buffer = ctypes.create_string_buffer(200)
    assert view.read(b"/f", buffer, 150, 0, opened) == -errno.EIO
    assert buffer.raw == bytes(200)
    assert f"f: read of 150 bytes at 0 failed: {said}" in caplog.text or said in caplog.text
    assert len(caplog.records) == 1
    assert view.read(b"/f", buffer, 150, 100, opened) == 0
