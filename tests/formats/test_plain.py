"""raw and npy: the real files, and what is peculiar to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.conftest import SHARED, same_values
from tests.formats.frame_checks import check_boxes, frames_of, refuses
from vfs.testing.writers import write_npy, write_raw

RAW = {
    "nordif_pattern": {"dtype": "u1", "shape": "3,3,60,60"},  # what its Setting.txt says
    "ripple_sdim2_ndim1_float32": {"dtype": "<f4", "shape": (2, 3, 4)},  # what its .rpl says
    "ripple_sdim2_ndim1_int64": {"dtype": "<i8", "shape": (2, 3, 4)},
    "ripple_sdim2_ndim1_uint8": {"dtype": "u1", "sig_shape": (3, 4)},
}


@pytest.mark.parametrize("backend", ["mmap", "buffered", "direct"])
def test_real_files(oracle: dict[str, Any], backend: str) -> None:
    seen = 0
    for name, entry in oracle.items():
        folder, _, short = name.partition("/")
        if folder not in ("raw", "npy"):
            continue
        (array,) = entry["arrays"].values()
        path = next(SHARED / file for file in entry["files"] if file.endswith((".npy", ".raw", ".dat")))
        options = {"format": "raw", **RAW[short]} if folder == "raw" else {}
        assert same_values(vfs.open(path, backend=backend, **options)[...], array), name
        seen += 1
    assert seen == 12


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<u2", ">u2", "<f8", ">f4", ">c8", "<i1", "?", "<f2", ">i8"])
def test_npy_of_every_order_and_byte_order(tmp_path: Path, order: str, dtype: str) -> None:
    twin = np.asarray(frames_of((3, 4, 5, 6), "u1").astype(dtype), order=order)  # type: ignore[call-overload]
    check_boxes(write_npy(tmp_path, twin), twin, count=15)
    stack = [write_npy(tmp_path, np.asarray(twin[::-1] if k else twin, order=order), name=f"s{k}.npy") for k in range(2)]  # type: ignore[call-overload]
    check_boxes(stack, np.stack([twin, twin[::-1]]), count=15)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_npy_of_every_version(tmp_path: Path, version: tuple[int, int]) -> None:
    twin = frames_of((4, 5), "i4")
    check_boxes(write_npy(tmp_path, twin, version=version), twin, count=5)


def test_npy_refuses_what_is_no_array_of_numbers(tmp_path: Path) -> None:
    refuses(write_npy(tmp_path, np.zeros(3, [("a", "i4"), ("b", "f8")])), "expected numbers")
    refuses(write_npy(tmp_path, np.array(["a", "b"])), "expected numbers")
    first, second = write_npy(tmp_path, np.zeros((2, 3)), name="a.npy"), write_npy(tmp_path, np.zeros((2, 4)), name="b.npy")
    refuses([first, second], "b.npy", "must be alike")
    huge = bytearray(write_npy(tmp_path, np.zeros((2, 3)), name="h.npy").read_bytes())
    (tmp_path / "h.npy").write_bytes(huge.replace(b"(2, 3)", b"(1<<60,)"[:6]))
    refuses(tmp_path / "h.npy", "h.npy")
    (tmp_path / "h.npy").write_bytes(huge.replace(b"'shape': (2, 3), }" + b" " * 20, b"'shape': (1152921504606846976, 3), }  "))
    refuses(tmp_path / "h.npy", "truncated")


def test_raw_with_headers_of_every_kind_over_files(tmp_path: Path) -> None:
    twin = frames_of((11, 6, 7), "i2")
    paths = write_raw(tmp_path, twin.astype(">i2"), file_header=9, frame_header=5, frame_footer=3, files=4)
    options = {"format": "raw", "sig_shape": (6, 7), "file_header": 9, "frame_header": 5, "frame_footer": 3}
    check_boxes(paths, twin, dtype=">i2", **options)
    check_boxes(str(tmp_path / "part*.bin"), twin, dtype="i2", byte_order="big", **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "needs the dtype"),
        ({"dtype": "u2"}, "sig_shape"),
        ({"dtype": "u2", "sig_shape": "4,4", "shape": "1,4,4"}, "either"),
        ({"dtype": "nonsense", "sig_shape": "4,4"}, "not a numpy dtype"),
        ({"dtype": "O", "sig_shape": "4,4"}, "expected bool"),
        ({"dtype": "u2", "sig_shape": "0,4"}, "positive"),
        ({"dtype": "u2", "sig_shape": "4,4", "frame_header": -1}, "0 or more"),
        ({"dtype": "u2", "sig_shape": "4,4", "byte_order": "middle"}, "little or big"),
        ({"dtype": "u2", "sig_shape": "400,400"}, "at least one record"),
        ({"dtype": "u2", "sig_shape": "4,4", "frame_heder": 4}, "did you mean frame_header"),
        ({"dtype": "u2", "sig_shape": "4,4", "nav_shape": (0, 3)}, "nav_shape"),
        ({"dtype": "u2", "sig_shape": "4611686018427387904,4"}, "more than any file"),
    ],
)
def test_raw_options_that_do_not_fit(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    refuses(write_raw(tmp_path, np.zeros((3, 4, 4), "u2"))[0], words, format="raw", **options)
