"""Derived arrays in a mount: files like others."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import vfs
from tests.fuse.support import SHAPE, Scan, python, server_of
from tests.waiting import eventually

DERIVE = {"bf": vfs.Disk(30, 20, 5), "mean": vfs.Mean()}


def test_they_are_read_as_files(scan: Scan, point: Path) -> None:
    with scan.mount(point, derive=DERIVE):
        sums = scan.twin.astype(np.uint64)
        y, x = np.ogrid[:64, :48]
        inside = (y - 30) ** 2 + (x - 20) ** 2 < 25
        code = "import numpy, sys; numpy.save(sys.argv[2], numpy.load(sys.argv[1]))"
        for name, expected in (("bf", sums[..., inside].sum(axis=-1)), ("mean", sums.mean(axis=(0, 1)))):
            python(code, point / f"part0.derived.{name}.npy", point.parent / "made.npy")
            np.testing.assert_array_equal(np.load(point.parent / "made.npy"), expected)
        code = "import numpy, sys, zarr; numpy.save(sys.argv[2], zarr.open_group(sys.argv[1])['derived/bf'][...])"
        for face in ("part0.zarr", "part0.v2.zarr"):
            python(code, point / face, point.parent / "made.npy")
            np.testing.assert_array_equal(np.load(point.parent / "made.npy"), sums[..., inside].sum(axis=-1))


def test_a_broken_source_is_eio_and_sizes_cost_nothing(scan: Scan, point: Path) -> None:
    with scan.mount(point, derive=DERIVE):
        os.truncate(scan.files[-1], scan.files[-1].stat().st_size - 1000)
        for name, size in (("part0.derived.bf.npy", 60 * 8), ("part0.derived.mean.npy", 64 * 48 * 8)):
            assert (point / name).stat().st_size == 128 + size
            with pytest.raises(OSError, match="Input/output error") as error:
                (point / name).read_bytes()
            assert error.value.errno == errno.EIO
        assert (point / "part0.zarr/derived/bf/c/0/0").stat().st_size == SHAPE[0] * SHAPE[1] * 8


def seconds_of(pid: int) -> float:
    """Processor time that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def threads_that_reduce(pid: int) -> int:
    """Threads of a process that are not asleep."""
    states = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended since
            states.append(Path(task, "stat").read_text().rpartition(")")[2].split()[0])
    return sum(state == "R" for state in states)


def test_a_reader_that_is_killed_stops_the_computation(tmp_path: Path, point: Path) -> None:
    source = tmp_path / "large.npy"
    with source.open("wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "|u1", "fortran_order": False, "shape": (1 << 18, 1 << 10, 1 << 10)}
        )
        file.truncate(file.tell() + (1 << 38))  # 256 GiB of hole
    with vfs.mount(source, point, derive={"mean": vfs.Mean()}) as mount:
        server = server_of(mount).pid
        before = seconds_of(server)
        command = [sys.executable, "-c", "import sys; open(sys.argv[1], 'rb').read()", point / "large.derived.mean.npy"]
        with subprocess.Popen(command) as reader:
            assert eventually(lambda: seconds_of(server) > before + 1)
            reader.kill()
        assert eventually(lambda: not any(threads_that_reduce(server) for _ in range(100)))
