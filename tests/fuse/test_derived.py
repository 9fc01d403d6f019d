"""Derived arrays in a mount: files like others."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

import vfs
from tests.fuse.support import SHAPE, Scan, python

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
