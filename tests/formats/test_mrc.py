"""MRC: what is peculiar to it. Modes, byte orders, extended headers, packed files, side files of movies."""

from __future__ import annotations

import bz2
import gzip
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.conftest import SHARED, same_values
from tests.formats.frame_checks import arranged, check_boxes, frames_of, opens_incomplete, refuses, same, warned
from vfs.testing.stack_writers import write_mrc

MODES = {0: "i1", 1: "i2", 2: "f4", 4: "c8", 6: "u2", 7: "i4", 12: "f2"}


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("mode", MODES)
def test_modes(tmp_path: Path, mode: int, order: str) -> None:
    twin = frames_of((3, 4, 5), "i2" if mode == 4 else MODES[mode]).astype(MODES[mode])
    path = write_mrc(tmp_path, twin, mode, order=order, extended=40)
    check_boxes(path, twin, count=15)
    array = vfs.open(path)
    assert array.dims == ("frame", "y", "x")
    assert array.attrs["labels"] == ["a label"]
    assert array.attrs["calibration"] == {
        "x": {"scale": 2.0, "offset": 0.0, "unit": "angstrom"},
        "y": {"scale": 3.0, "offset": 0.0, "unit": "angstrom"},
    }


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    ("highest", "how", "kind", "unsure"),
    [
        (255, {"imod": 0}, "u1", False),
        (255, {"imod": 1}, "i1", False),
        (255, {"imod": 2 | 4, "limits": (-9, 9)}, "u1", False),  # the stamp counts
        (255, {"limits": (0, 255)}, "u1", False),
        (255, {"limits": (-128, 127)}, "i1", False),
        (127, {"limits": (0, 200)}, "u1", False),  # other frames may have more
        (127, {"limits": (-3, 127)}, "i1", False),
        (127, {"limits": (0, 127)}, "i1", False),
        (255, {}, "i1", True),
        (255, {"limits": (0, 0)}, "i1", True),
        (255, {"limits": (float("nan"), 255)}, "i1", True),
        (255, {"limits": (-1, 3)}, "i1", True),  # of other pixels
        (127, {"limits": (-1, 200)}, "i1", True),
    ],
)
def test_signs_of_bytes(tmp_path: Path, highest: int, how: dict[str, Any], kind: str, unsure: bool, order: str) -> None:
    twin = np.linspace(0, highest, 2 * 40).astype("u1").reshape(2, 8, 5)
    twin[0, 0, :2] = 0, highest
    for name in ("set.mrc", "set.mrcs", "set.mrc.gz"):
        path = write_mrc(tmp_path, twin, 0, order=order, name=name, **how)
        array = vfs.open(path)
        same(array[...], twin.view(kind))
        assert ("mode0=unsigned" in array.attrs.get("uncertain", "")) == unsure
        same(vfs.open(path, mode0="unsigned")[...], twin)
        same(vfs.open(path, mode0="signed")[...], twin.view("i1"))
        assert "uncertain" not in vfs.open(path, mode0="signed").attrs
    refuses(path, "signed or unsigned", kind=vfs.OptionError, mode0="maybe")


def test_one_frame_of_low_bytes_has_no_doubt(tmp_path: Path) -> None:
    array = vfs.open(write_mrc(tmp_path, frames_of((1, 4, 5), "u1") & 127, 0))
    assert "uncertain" not in array.attrs


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("mode", "imod", "width"), [(101, None, 5), (101, 0, 8), (0, 16, 12), (0, 16 | 4, 10)])
def test_pixels_of_4_bits(tmp_path: Path, mode: int, imod: int | None, width: int, order: str) -> None:
    twin = frames_of((3, 4, width), "u1") & 15
    path = write_mrc(tmp_path, twin, mode, imod=imod, order=order)
    check_boxes(path, twin, count=15)
    arranged(path, twin)
    assert vfs.open(path).calibration["x"]["scale"] == 2
    for name in ("set.mrcs", "set.mrc.gz"):
        same(vfs.open(write_mrc(tmp_path, twin, mode, imod=imod, order=order, name=name))[...], twin)


def test_a_label_says_4_bits(tmp_path: Path) -> None:
    twin = frames_of((3, 4, 6), "u1") & 15
    path = write_mrc(tmp_path, twin, 0, imod=16)
    data = bytearray(path.read_bytes())
    data[152:160], data[224:300] = bytes(8), b"SerialEMCCD: Dose frac. image, 4 bits packed  r/f 0".ljust(76)
    path.write_bytes(data)
    same(vfs.open(path)[...], twin)


def test_pairs_of_integers_have_an_axis(tmp_path: Path) -> None:
    twin = frames_of((3, 4, 5, 2), "i2")
    path = write_mrc(tmp_path, twin, 3)
    check_boxes(path, twin)
    assert vfs.open(path).dims == ("frame", "y", "x", "component")


def test_colours_have_an_axis(tmp_path: Path) -> None:
    twin = frames_of((2, 4, 5, 3), "u1")
    path = write_mrc(tmp_path, twin, 16)
    check_boxes(path, twin)
    assert vfs.open(path).dims == ("frame", "y", "x", "s")


def test_stacks_of_volumes(tmp_path: Path) -> None:
    twin = frames_of((6, 4, 5), "u2")
    path = write_mrc(tmp_path, twin, 6, ispg=401)
    data = bytearray(path.read_bytes())
    data[36:40] = struct.pack("<i", 3)  # MZ
    path.write_bytes(data)
    array = vfs.open(path)
    assert array.dims == ("volume", "z", "y", "x")
    same(array[...], twin.reshape(2, 3, 4, 5))
    data[36:40] = struct.pack("<i", 4)
    path.write_bytes(data)
    array = vfs.open(path)
    same(array[...], twin)
    assert "MZ 4 sections each: 6 are none" in array.attrs["uncertain"]


@pytest.mark.parametrize("extended", [0, 40])
def test_without_a_number_of_sections_the_size_counts(tmp_path: Path, extended: int) -> None:
    twin = frames_of((3, 4, 5), "u2")
    path = write_mrc(tmp_path, twin, 6, extended=extended)
    whole = path.read_bytes()
    path.write_bytes(whole[:8] + bytes(4) + whole[12:] + b"half")
    group = opens_incomplete(path, "0 sections (NZ)", "room for 3", counts={"bytes_left_over": 4})
    same(group.main[...], twin)
    path.write_bytes(whole[:8] + bytes(4) + whole[12 : 1024 + extended])
    refuses(path, "no whole one", kind=vfs.TruncatedSourceError)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("wrong", [4096, 40, -1, 1 << 30])
def test_the_size_settles_the_length_of_the_extended_header(tmp_path: Path, wrong: int, order: str) -> None:
    twin = frames_of((3, 4, 5), "u2")
    path = write_mrc(tmp_path, twin, 6, order=order)
    data = bytearray(path.read_bytes())
    data[92:96] = struct.pack(f"{order}i", wrong)
    path.write_bytes(data)
    same(warned(path, "(NSYMBT)", "byte 1,024")[...], twin)
    path.write_bytes(data + b"more")
    refuses(path, "NSYMBT" if wrong in (-1, 1 << 30) else "truncated")
    data[8:12] = bytes(4)  # NZ is unknown, too
    path.write_bytes(data)
    if wrong != 40:  # as long as a section: nobody can tell
        same(warned(path, "0 sections (NZ)", "byte 1,024")[...], twin)


def test_volumes_images_and_stacks(tmp_path: Path) -> None:
    twin = frames_of((3, 4, 5), "u2")
    assert vfs.open(write_mrc(tmp_path, twin, 6, ispg=1)).dims == ("z", "y", "x")
    assert vfs.open(write_mrc(tmp_path, twin, 6, ispg=1), sections="tilt").dims == ("tilt", "y", "x")
    assert vfs.open(write_mrc(tmp_path, twin, 6, ispg=1, name="set.mrcs")).dims == ("frame", "y", "x")
    same(vfs.open(write_mrc(tmp_path, twin[:1], 6, name="one.mrc"))[...], twin[0])
    same(vfs.open(write_mrc(tmp_path, twin[:1], 6, ispg=1, name="thin.mrc"))[...], twin[:1])


def test_old_files_without_a_mark_are_told_by_their_name(tmp_path: Path) -> None:
    twin = frames_of((3, 4, 5), "i2")
    for order in "<>":
        same(vfs.open(write_mrc(tmp_path, twin, 1, order=order, mark=False))[...], twin)
        nameless = write_mrc(tmp_path, twin, 1, order=order, mark=False, name="set.dat")
        refuses(nameless, "no format recognises", kind=vfs.UnknownFormatError)


@pytest.mark.parametrize("order", ["<", ">"])
def test_records_of_an_extended_header_are_companions(tmp_path: Path, order: str) -> None:
    twin = frames_of((6, 4, 5), "u2")
    group = vfs.open_group(write_mrc(tmp_path, twin, 6, fei=True, order=order), nav_shape=(2, 3))
    same(group.main[...], twin.reshape(2, 3, 4, 5))
    same(group["timestamp"][...], (44000.5 + np.arange(6)).reshape(2, 3))
    same(group["alpha_tilt"][...], (0.1 * np.arange(6)).reshape(2, 3))


@pytest.mark.parametrize("ending", ["gz", "bz2"])
@pytest.mark.parametrize("order", ["<", ">"])
def test_packed(tmp_path: Path, ending: str, order: str) -> None:
    twin = frames_of((4, 5, 6), "i2")
    path = write_mrc(tmp_path, twin, 1, order=order, extended=200, name=f"set.mrc.{ending}")
    check_boxes(path, twin)
    group = vfs.open_group(path)
    assert group.name == "set"
    same(vfs.open(write_mrc(tmp_path, twin[:1], 1, name=f"one.mrc.{ending}"))[...], twin[0])
    whole = path.read_bytes()
    for size in range(0, len(whole), 9):  # also in the sum at the end
        path.write_bytes(whole[:size])
        with pytest.raises(vfs.VfsError, match=r"set\.mrc"):
            vfs.open(path, format="mrc")[...]


@pytest.mark.parametrize("mode", [6, 101])
def test_sections_that_are_not_there(tmp_path: Path, mode: int) -> None:
    twin = frames_of((4, 5, 6), "u2" if mode == 6 else "u1") & 15
    path = write_mrc(tmp_path, twin, mode)
    whole = path.read_bytes()
    path.write_bytes(whole + b"more")
    same(opens_incomplete(path, "the bytes after them are not shown", counts={"bytes_left_over": 4}).main[...], twin)
    path.write_bytes(whole[: -1 - (len(whole) - 1024) // 4])
    group = opens_incomplete(
        path, "4 sections of 6 × 5", "it looks truncated", counts={"frames_missing": 2}, kind=vfs.TruncatedSourceError
    )
    twin[2:] = 0
    same(group.main[...], twin)
    assert group.main.valid.tolist() == [True, True, False, False]
    path.write_bytes(whole[:1030])
    assert "allow_incomplete" not in refuses(path, "it looks truncated", allow_incomplete=True)


@pytest.mark.parametrize(
    ("at", "value", "word"),
    [
        (0, struct.pack("<i", 1 << 30), "not plausible"),
        (8, struct.pack("<i", -1), "not plausible"),
        (8, struct.pack("<i", (1 << 31) - 1), "truncated"),
        (12, struct.pack("<i", 5), "not plausible"),
    ],
)
def test_garbled(tmp_path: Path, at: int, value: bytes, word: str) -> None:
    path = write_mrc(tmp_path, frames_of((3, 4, 5), "u2"), 6)
    data = bytearray(path.read_bytes())
    data[at : at + len(value)] = value
    path.write_bytes(data)
    refuses(path, word, format="mrc")


def test_refused(tmp_path: Path) -> None:
    path = write_mrc(tmp_path, frames_of((3, 4, 5), "u2"), 6, name="set.mrc.gz")
    raw = bytearray(gzip.decompress(path.read_bytes()))
    raw[:8] = struct.pack("<2i", 1 << 20, 1 << 20)
    path.write_bytes(gzip.compress(raw))
    refuses(path, "looks truncated", kind=vfs.TruncatedSourceError, format="mrc")
    refuses([path, path], "one file", kind=vfs.OptionError, format="mrc")


@pytest.mark.parametrize("bad", [(92, b"\xff\xff\xff\x3f"), (92, b"\xff\xff\xff\x3f\0\0\0\0\0\0\0\0FEI1")])
def test_the_length_of_a_header_that_lies_is_not_asked_for_in_memory(tmp_path: Path, bad: tuple[int, bytes]) -> None:
    path = write_mrc(tmp_path, frames_of((3, 4, 5), "u2"), 6, name="set.mrc.bz2")
    raw = bytearray(bz2.decompress(path.read_bytes()))
    raw[bad[0] : bad[0] + len(bad[1])] = bad[1]
    path.write_bytes(bz2.compress(raw))
    tracemalloc.start()
    try:
        same(warned(path, "fill the file without one")[...], frames_of((3, 4, 5), "u2"))
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 3, 5), (1, 64, 32)])
def test_bytes_without_a_machine_stamp(tmp_path: Path, shape: tuple[int, ...], order: str) -> None:
    """Sizes up to 3, 0x01000000 to 0x03000000 in the other byte order, and mode 0 make sense in both."""
    twin = frames_of(shape, "i1")
    array = vfs.open(write_mrc(tmp_path, twin, 0, order=order, mark=False, ispg=1))
    same(array[...], twin)
    assert array.attrs["byte_order"] == {"<": "little", ">": "big"}[order]


def test_real_files(oracle: dict[str, Any]) -> None:
    seen = 0
    for name, entry in oracle.items():
        if entry["format"] != "mrc":
            continue
        for file, array in entry["arrays"].items():
            path = next(SHARED / f for f in entry["files"] if f.endswith(file))
            for backend in ("mmap", "buffered"):
                recorded = {"nav_shape": array["shape"][0]} if name == "mrc/de_Custom" else {}  # not at their positions
                got = vfs.open(path, backend=backend, **recorded)[...]
                assert same_values(got.reshape(array["shape"]), array), (name, file)
            seen += 1
    assert seen


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", [b"FEI1", b"SERI", b"AGAR", b"MRCO"])
def test_an_extended_header_with_a_type_and_no_length(tmp_path: Path, kind: bytes, order: str, ending: str) -> None:
    """The size of the file says how long it is; without a type the bytes may be behind the pixels."""
    twin = frames_of((3, 4, 5), "i2")
    raw = bytearray(write_mrc(tmp_path, twin, 1, order=order, extended=96).read_bytes())
    raw[1024:1120] = bytes(range(96))
    raw[92:96], raw[104:108] = bytes(4), kind
    path = tmp_path / f"typed.mrc{ending}"
    path.write_bytes(gzip.compress(bytes(raw)) if ending else raw)
    same(warned(path, f"of type {kind.decode()} and 0 bytes (NSYMBT)", "from byte 1,120 on")[...], twin)
    raw[104:108] = bytes(4)
    path.write_bytes(gzip.compress(bytes(raw)) if ending else raw)
    warned(path, "the file has 1,240; the bytes after them are not shown")


@pytest.mark.parametrize("mode", [1, 101])
def test_the_size_of_what_gzip_packed_settles_its_header(tmp_path: Path, mode: int) -> None:
    twin = frames_of((3, 4, 6), "i2") % 16 if mode == 1 else frames_of((3, 4, 6), "u1") % 16
    raw = write_mrc(tmp_path, twin, mode).read_bytes()
    for at, value, said in ((92, 384, "fill the file without one"), (8, 0, "says 0 sections (NZ)")):
        path = tmp_path / "wrong.mrc.gz"
        path.write_bytes(gzip.compress(raw[:at] + value.to_bytes(4, "little") + raw[at + 4 :]))
        same(warned(path, said)[...], twin)
    path.write_bytes(gzip.compress(raw[:500]) + gzip.compress(raw[500:]))  # in two parts: the last one's size is said
    same(vfs.open(path)[...], twin)
