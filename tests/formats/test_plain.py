"""raw and npy: the real files, and what is peculiar to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.conftest import SHARED, same_values
from tests.formats.frame_checks import check_boxes, frames_of, incomplete, opens_incomplete, refuses, same, warned
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
    stack = [
        write_npy(tmp_path, np.asarray(twin[::-1] if k else twin, order=order), name=f"s{k}.npy") for k in range(2)
    ]  # type: ignore[call-overload]
    check_boxes(stack, np.stack([twin, twin[::-1]]), count=15)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_npy_of_every_version(tmp_path: Path, version: tuple[int, int]) -> None:
    twin = frames_of((4, 5), "i4")
    check_boxes(write_npy(tmp_path, twin, version=version), twin, count=5)


def test_npy_refuses_what_is_no_array_of_numbers(tmp_path: Path) -> None:
    refuses(write_npy(tmp_path, np.zeros(3, [("a", "i4"), ("b", "f8")])), "expected numbers")
    refuses(write_npy(tmp_path, np.array(["a", "b"])), "expected numbers")
    first, second = (
        write_npy(tmp_path, np.zeros((2, 3)), name="a.npy"),
        write_npy(tmp_path, np.zeros((2, 4)), name="b.npy"),
    )
    refuses([first, second], "b.npy", "must be alike")
    turned = write_npy(tmp_path, np.zeros((2, 3), order="F"), name="c.npy")
    refuses([first, turned], "c.npy: is float64[2, 3] in Fortran order, expected float64[2, 3] as in")
    huge = bytearray(write_npy(tmp_path, np.zeros((2, 3)), name="h.npy").read_bytes())
    (tmp_path / "h.npy").write_bytes(huge.replace(b"(2, 3)", b"(1<<60,)"[:6]))
    refuses(tmp_path / "h.npy", "h.npy")
    (tmp_path / "h.npy").write_bytes(
        huge.replace(b"'shape': (2, 3), }" + b" " * 20, b"'shape': (1152921504606846976, 3), }  ")
    )
    refuses(tmp_path / "h.npy", "more than can be counted")  # also where a frame of these is there
    (tmp_path / "h.npy").write_bytes(
        huge.replace(b"'shape': (2, 3), }" + b" " * 20, b"'shape': (115292150460684697, 3), }   ")
    )
    refuses(tmp_path / "h.npy", "truncated")


@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_files_that_are_missing_or_cut(tmp_path: Path, order: Any) -> None:
    twin = np.arange(1, 4 * 3 * 20 + 1, dtype=">u2").reshape(4, 3, 4, 5)
    paths = [write_npy(tmp_path, np.asarray(twin[k], order=order), name=f"a{k}.npy") for k in (0, 1, 3)]
    blank = twin.copy()
    blank[2] = 0
    lost = {"files_missing": 1, "frames_missing": 3 if order == "C" else 1}
    group = opens_incomplete(paths, "a2.npy: missing", counts=lost, kind=vfs.MissingSourceError)
    same(group.main[...], blank)
    write_npy(tmp_path, np.asarray(twin[2], order=order), name="a2.npy")
    cut = [*paths[:2], tmp_path / "a2.npy", paths[2]]
    cut[1].write_bytes(cut[1].read_bytes()[:-50])  # a frame has 40 bytes
    blank = twin.copy()
    blank[1, 1 if order == "C" else 0 :] = 0
    group = opens_incomplete(
        cut,
        "a1.npy: the header says",
        counts={"frames_missing": 2 if order == "C" else 1},
        kind=vfs.TruncatedSourceError,
    )
    same(group.main[...], blank)
    assert group.main.valid.sum() == (10 if order == "C" else 3)
    cut[1].write_bytes(cut[1].read_bytes()[:130])
    assert "allow_incomplete" not in refuses(cut[1], "it looks truncated", allow_incomplete=True)


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
        ({"dtype": "f4,,", "sig_shape": "4,4"}, "not a numpy dtype"),
        ({"dtype": "O", "sig_shape": "4,4"}, "expected bool"),
        ({"dtype": "u2", "sig_shape": "0,4"}, "positive"),
        ({"dtype": "u2", "sig_shape": "4,4", "frame_header": -1}, "0 or more"),
        ({"dtype": "u2", "sig_shape": "4,4", "byte_order": "middle"}, "little or big"),
        ({"dtype": "u2", "sig_shape": "400,400"}, "at least one record"),
        ({"dtype": "u2", "sig_shape": "4,4", "frame_heder": 4}, "did you mean frame_header"),
        ({"dtype": "u2", "sig_shape": "4,4", "nav_shape": (0, 3)}, "nav_shape"),
        ({"dtype": "u2", "sig_shape": "4611686018427387904,4"}, "more bytes than any file"),
    ],
)
def test_raw_options_that_do_not_fit(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    refuses(write_raw(tmp_path, np.zeros((3, 4, 4), "u2"))[0], words, format="raw", **options)


STORED = frames_of((30, 16, 16), "u2")
WHOLE = STORED.tobytes()


@pytest.mark.parametrize(
    ("contents", "options", "words", "left"),
    [
        (
            (WHOLE[:5000], WHOLE[5000:11000], WHOLE[11000:]),
            {},
            ("part0.bin", "leaves 392 bytes over, as do 2 other files; running_on=True would fit"),
            28,
        ),
        ((b"h" * 100 + WHOLE,), {}, ("part0.bin", "leaves 100 bytes over; file_header=100 or"), 30),
        (
            (b"".join(b"head" + frame.tobytes() for frame in STORED),),
            {"frame_header": 3},
            ("leaves 30 bytes over", "frame_header=4 would fit"),
            30,
        ),
        ((WHOLE[:5120], WHOLE[5120:-100]), {}, ("part1.bin", "leaves 412 bytes over; perhaps it was cut"), 29),
        ((WHOLE[:5119], WHOLE[5120:]), {}, ("part0.bin", "leaves 511 bytes over"), 29),
        (
            (WHOLE[:5000], WHOLE[5000:-10]),
            {"running_on": True},
            ("part1.bin", "leaves 502 bytes over; perhaps it was cut"),
            29,
        ),
        ((WHOLE[:5120], b"", WHOLE[5120:]), {}, ("part1.bin", "holds 0 bytes, no frame"), 30),
        ((WHOLE,), {"file_header": len(WHOLE) - 1000}, ("part0.bin", "leaves 488 bytes over"), 1),
    ],
)
def test_raw_bytes_that_belong_to_no_frame(
    tmp_path: Path, contents: tuple[bytes, ...], options: dict[str, Any], words: tuple[str, ...], left: int
) -> None:
    """Thirty frames over three files showed 29, of which 19 were garbage."""
    paths = [tmp_path / f"part{k}.bin" for k in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    options = {"format": "raw", "dtype": "u2", "sig_shape": "16,16", **options}
    array = incomplete(paths, *words, **options)
    assert array.shape == (left, 16, 16)
    if "running_on=True" in "".join(words):
        same(vfs.open(paths, **options, running_on=True)[...], STORED)


def test_raw_shapes_that_are_not_stored(tmp_path: Path) -> None:
    paths = write_raw(tmp_path, STORED)
    options: dict[str, Any] = {"format": "raw", "dtype": "u2"}
    array = incomplete(
        paths,
        "part0.bin",
        "shape 5,7,16,16 holds 35 frames, 30 are stored",
        kind=vfs.OptionError,
        shape="5,7,16,16",
        **options,
    )
    assert array.valid.sum() == 30
    incomplete(
        paths, "shape 5,5,16,16 holds 25 frames, 30 are stored", kind=vfs.OptionError, shape="5,5,16,16", **options
    )
    same(vfs.open(paths, shape="5,6,16,16", **options)[...], STORED.reshape(5, 6, 16, 16))


@pytest.mark.parametrize("cut", [0, 1, 2])
def test_raw_needs_no_footer_behind_the_last_frame(tmp_path: Path, cut: int) -> None:
    paths = write_raw(tmp_path, STORED, frame_footer=2, files=2)
    for path in paths:
        path.write_bytes(path.read_bytes()[: path.stat().st_size - cut])
    same(vfs.open(paths, format="raw", dtype="u2", sig_shape="16,16", frame_footer=2)[...], STORED)


def test_raw_files_that_are_missing_by_their_numbers(tmp_path: Path) -> None:
    paths = write_raw(tmp_path, STORED, files=5)
    paths[3].unlink()
    array = incomplete(
        str(tmp_path / "part*.bin"),
        "part3.bin: missing",
        kind=vfs.MissingSourceError,
        format="raw",
        dtype="u2",
        sig_shape="16,16",
    )
    same(array[...], np.concatenate([STORED[:18], np.zeros_like(STORED[:6]), STORED[24:]]))
    assert array.group.attrs["vfs"]["incomplete"] == {"files_missing": 1, "frames_missing": 6}
    assert not array.valid[18:24].any()
    joined = incomplete(
        str(tmp_path / "part*.bin"),
        "part3.bin: missing",
        kind=vfs.MissingSourceError,
        format="raw",
        dtype="u2",
        sig_shape="16,16",
        running_on=True,
    )
    same(joined[...], np.concatenate([STORED[:18], STORED[24:]]))


def test_raw_files_of_terabytes_are_looked_at_in_no_time(tmp_path: Path) -> None:
    path = tmp_path / "large.bin"
    with path.open("wb") as file:
        file.truncate(10**12 + 1)  # a hole
    refuses(path, "leaves 1 bytes over", format="raw", dtype="u2", sig_shape="2,2")


def test_an_empty_file_between_frames_that_run_on(tmp_path: Path) -> None:
    """Whole frames would be made of the end of one file and the middle of another."""
    frames = np.arange(1, 97, dtype="u1").reshape(6, 4, 4)
    paths = [tmp_path / f"{k}.raw" for k in range(3)]
    for path, part in zip(paths, (slice(8), slice(8, 80), slice(80, None)), strict=True):
        path.write_bytes(frames.tobytes()[part])
    how: dict[str, Any] = {"stored_dtype": "u1", "sig_shape": (4, 4), "running_on": True, "format": "raw"}
    for follow in (False, True):
        np.testing.assert_array_equal(vfs.open(paths, follow=follow, settle=0.0, **how)[...], frames)
    paths[1].write_bytes(b"")
    for follow in (False, True):
        with pytest.raises(vfs.TruncatedSourceError, match=r"\d\.raw: "):
            vfs.open(paths, follow=follow, **how)


def test_what_is_behind_a_numpy_array_is_told(tmp_path: Path) -> None:
    """`np.save` into an open file puts several arrays into one."""
    twin = frames_of((3, 4, 5), "u2")
    path = tmp_path / "two.npy"
    with open(path, "wb") as file:
        np.save(file, twin)
        np.save(file, twin + 1)
    same(warned(path, "has 248 bytes after its array: another array begins there; it is not shown")[...], twin)
    np.save(path, np.asfortranarray(twin))
    path.write_bytes(path.read_bytes() + bytes(3))
    same(warned(path, "has 3 bytes after its array: these are not shown")[...], twin)
