"""NDTiff and EDF: what is peculiar to formats that say where each plane lies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import vfs
from tests.formats.frame_checks import check_boxes, frames_of, incomplete, opens_incomplete, refuses, same, warned
from vfs.testing.plane_writers import write_edf, write_ndtiff

TWIN = frames_of((2, 2, 3, 5, 6), "u2")
AXES: dict[str, Any] = {"time": (0, 1), "channel": ("GFP", "DAPI"), "z": (3, 5, 9)}


@pytest.mark.parametrize("dtype", ["u1", "u2"])
@pytest.mark.parametrize("version", [2, 3])
def test_ndtiff(tmp_path: Path, dtype: str, version: int) -> None:
    twin = frames_of(TWIN.shape, dtype)
    path = write_ndtiff(tmp_path, twin, AXES, files=3, version=version)
    check_boxes(path, twin, count=10)
    array = vfs.open(path)
    assert array.dims == ("t", "c", "z", "y", "x")
    assert array.attrs["axes"] == {"channel": ["GFP", "DAPI"], "z": [3, 5, 9]}
    assert array.calibration["z"] == {"scale": 2.0, "offset": 0.0, "unit": "um"}
    assert array.calibration["x"] == {"scale": 0.25, "offset": 0.0, "unit": "um"}


def test_ndtiff_of_colours_and_one_without_axes(tmp_path: Path) -> None:
    twin = frames_of((4, 5, 6, 3), "u1")
    path = write_ndtiff(tmp_path, twin, {"flash": (1, 2, 3, 4)})
    check_boxes(path, twin, count=10)
    assert vfs.open(path).dims == ("flash", "y", "x", "s")
    path = write_ndtiff(tmp_path, twin[0], {})
    same(vfs.open(path)[...], twin[0])


def test_ndtiff_says_names_and_colours_of_channels(tmp_path: Path) -> None:
    path = write_ndtiff(tmp_path, TWIN[:2, 0, 0], {"channel": ("DAPI", "FITC")})
    assert vfs.open(path).metadata["channels"].value == ({"name": "DAPI"}, {"name": "FITC"})
    said = {"All channel settings": {}, "DAPI": {"Color": -13421569}, "FITC": {"Color": -16711936}}
    (tmp_path / "display_settings.txt").write_text(json.dumps(said))
    shown: Any = zarr.open_group(vfs.open(path).store(face="ome"), mode="r").attrs["ome"]
    looks = [(one["label"], one["color"]) for one in shown["omero"]["channels"]]
    assert looks == [("DAPI", "3333FF"), ("FITC", "00FF00")]
    (tmp_path / "display_settings.txt").write_text("{")
    assert vfs.open(path).metadata["channels"].value == ({"name": "DAPI"}, {"name": "FITC"})


def test_ndtiff_of_two_sizes(tmp_path: Path) -> None:
    small = frames_of((2, 3, 4), "u1")
    index = write_ndtiff(tmp_path, small, {"z": (0, 1)}).read_bytes()
    index = index.replace(b"run_NDTiffStack.tif", b"run_NDTiffStacl.tif")
    (tmp_path / "run_NDTiffStack.tif").rename(tmp_path / "run_NDTiffStacl.tif")
    path = write_ndtiff(tmp_path, TWIN, AXES)
    path.write_bytes(path.read_bytes() + index + bytes(100))
    group = vfs.open_group(path)
    same(group["image_0/data"][...], TWIN)
    same(group["image_1/data"][...], small)


def test_ndtiff_shows_what_was_recorded(tmp_path: Path) -> None:
    path = write_ndtiff(tmp_path, TWIN, AXES, left_out=(1, 7))
    twin = TWIN.copy()
    twin.reshape(12, 5, 6)[[1, 7]] = 0
    found = opens_incomplete(path, "10 planes for 12 positions", counts={"frames_missing": 2}).main
    same(found[...], twin)


def test_ndtiff_of_a_plane_that_was_recorded_again(tmp_path: Path) -> None:
    """The later one is shown; an entry that only stands twice is nothing."""
    planes = TWIN[0, 0]
    path = write_ndtiff(tmp_path, planes, {"z": (0, 1, 2)})
    raw = path.read_bytes()
    size = len(raw) // 3
    path.write_bytes(raw + raw[:size])
    same(vfs.open(path)[...], planes)
    path.write_bytes(raw + raw[: size - 32] + raw[2 * size - 32 : 2 * size])
    array = warned(path, "1 plane has the position of a later one in data, which is shown")
    same(array[...], planes[[1, 1, 2]])


def test_ndtiff_of_an_index_that_was_cut(tmp_path: Path) -> None:
    path = write_ndtiff(tmp_path, TWIN[0, 0], {"z": (0, 1, 2)})
    whole = path.read_bytes()
    for n in range(len(whole) * 2 // 3 + 1, len(whole), 7):
        path.write_bytes(whole[:n])
        same(incomplete(path, "truncated", kind=vfs.TruncatedSourceError)[...], TWIN[0, 0, :2])


def test_ndtiff_of_files_that_are_gone_or_cut(tmp_path: Path) -> None:
    path = write_ndtiff(tmp_path, TWIN, AXES, files=3)
    twin = TWIN.copy().reshape(12, 5, 6)
    twin[4:8] = 0
    (tmp_path / "run_NDTiffStack_1.tif").unlink()
    same(incomplete(path, "4 planes", kind=vfs.MissingSourceError)[...], twin.reshape(TWIN.shape))
    write_ndtiff(tmp_path, TWIN, AXES, files=3)
    last = tmp_path / "run_NDTiffStack_1.tif"
    last.write_bytes(last.read_bytes()[:-130])
    found = incomplete(path, "not whole: 2", kind=vfs.TruncatedSourceError)[...]
    twin = TWIN.copy().reshape(12, 5, 6)
    twin[6:8] = 0
    same(found, twin.reshape(TWIN.shape))


@pytest.mark.parametrize(
    ("was", "now", "word"),
    [
        (b'{"z": 0}', b"{'z': 0}", "entry 0 at byte 0"),
        (b'{"z": 0}', b"[[[[[[[[", "entry 0 at byte 0"),
        (b'{"z": 0}', b'{"z":{}}', "entry 0 at byte 0"),
        (b"run_ND", b"/../ND", "outside"),
        (b"\x06\0\0\0\x05\0\0\0\1", b"\x06\0\0\0\x05\0\0\0\7", "type 7"),
        (b"\x06\0\0\0\x05\0\0\0\1", b"\x06\0\0\0\0\0\0\0\1", "0 × 6"),
    ],
)
def test_ndtiff_garbled(tmp_path: Path, was: bytes, now: bytes, word: str) -> None:
    path = write_ndtiff(tmp_path, TWIN[0, 0], {"z": (0, 1, 2)})
    path.write_bytes(path.read_bytes().replace(was, now, 1))
    refuses(path, word, format="ndtiff")


def test_ndtiff_of_far_too_many_positions(tmp_path: Path) -> None:
    path = write_ndtiff(tmp_path, TWIN[0, 0], {"z": (0, 1, 2)})
    entry = path.read_bytes()[: len(path.read_bytes()) // 3]
    said = [b"".join(b'"%c":%3d,' % (97 + k, n) for k in range(6))[:-1] for n in range(30)]
    axes = [len(text + b"{}").to_bytes(4, "little") + b"{" + text + b"}" for text in said]
    path.write_bytes(b"".join(text + entry[12:] for text in axes))
    refuses(path, "30 planes for axes", format="ndtiff")


@pytest.mark.parametrize("dtype", ["i1", "u1", "<i2", ">u2", "<i4", ">u4", "<i8", "<f4", ">f4", ">f8"])
def test_edf(tmp_path: Path, dtype: str) -> None:
    native = np.dtype(dtype).newbyteorder("=")
    twin = frames_of((3, 5, 6), native)
    path = write_edf(tmp_path / "a.edf", twin.astype(dtype))
    array = vfs.open(path)
    same(array[...], twin)
    assert array.dims == ("frame", "y", "x")
    assert array.calibration["x"] == {"scale": 7.5e-05, "offset": 0.0, "unit": "m"}


def test_edf_headers_of_other_kinds(tmp_path: Path) -> None:
    """A block of keys before the frames, keys in any order, blocks of errors, lines of Windows, volumes."""
    twin = frames_of((2, 5, 6), "u2")
    first = b"{\r\nEDF_DataFormatVersion = 2.40 ;\r\nEDF_BinarySize = 0 ;\r\nEDF_HeaderSize = 512 ;\r\n".ljust(509)
    path = write_edf(tmp_path / "a.edf", twin, EDF_DataBlockID="1.Image.Psd")
    errors = write_edf(tmp_path / "b.edf", twin[:1], EDF_DataBlockID="1.Image.Error").read_bytes()
    path.write_bytes(first + b"}\r\n" + path.read_bytes() + errors + bytes(40))
    same(vfs.open(path)[...], twin)
    volume = frames_of((1, 4, 5, 6), "u2")
    path = write_edf(tmp_path / "c.edf", volume)
    assert vfs.open(path).dims == ("z", "y", "x")
    check_boxes(path, volume[0], count=10)
    line = frames_of((3, 9), "f4")
    assert vfs.open(write_edf(tmp_path / "d.edf", line)).dims == ("frame", "x")


EDF_TYPE = {"DataType": "UnsignedShort", "Dim_1": 6, "Dim_2": 5}
EDF_ONE = {"HeaderID": "EH:1", "ByteOrder": "HighByteFirst", **EDF_TYPE, "Size": 60}


def edf_head(size: int = 512, **keys: object) -> bytes:
    """Write a header of an .edf file of `size` bytes, with these keys."""
    return ("{\n" + "".join(f"{key} = {value} ;\n" for key, value in keys.items())).encode().ljust(size - 2) + b"}\n"


@pytest.mark.parametrize(
    ("general", "each"),
    [
        (b"", edf_head(**{key.upper(): value for key, value in EDF_ONE.items()})),
        (b"", edf_head(**{key.lower(): value for key, value in EDF_ONE.items()})),
        (b"", edf_head(**EDF_ONE | {"Dim_1": "6.0", "Size": "60."})),
        (b"", edf_head(**EDF_ONE, Title="a {b} of 2", metadata='{"a": 1}')),
        (b"", edf_head(Title="mask {1,2}", **EDF_ONE)),
        (b"", edf_head(EDF_HeaderSize=512, **EDF_ONE, metadata='{\n"a": [{\n}\n]\n}\n')),
        (b"", edf_head(EDF_HeaderSize=4096, **EDF_ONE)),
        (b"", edf_head(EDF_HeaderSize="header_size", **EDF_ONE)),
        (b"", edf_head(300, EDF_HeaderSize=512, **EDF_ONE) + b" " * 212),
        (b"", edf_head(8193, **EDF_ONE)),
        (b"", edf_head(8194, **EDF_ONE)[:-2] + b"}\n"),
        (edf_head(EDF_DataFormatVersion=2.4, Title="x"), edf_head(EDF_BinarySize=60, **EDF_ONE)),
        (
            edf_head(
                EDF_DataFormatVersion=2.4, EDF_BinarySize=0, Size=7, **EDF_TYPE | {"DIM_1": 6}, Byteorder="LowByteFirst"
            ),
            edf_head(EDF_BinarySize=60, BYTEORDER="HighByteFirst"),
        ),
        (
            edf_head(EDF_DataFormatVersion=2.4, EDF_BinarySize=0, BYTEORDER="HighByteFirst", **EDF_TYPE),
            edf_head(EDF_DataBlockID="1.Image.Psd"),
        ),
    ],
)
def test_edf_headers_as_other_programs_write_them(tmp_path: Path, general: bytes, each: bytes) -> None:
    twin = frames_of((2, 5, 6), "u2")
    twin[:, 0, :3] = 0x0A7D, 0x0A20, 0x2020  # what a header ends with
    path = tmp_path / "a.edf"
    path.write_bytes(general + b"".join(each + frame.astype(">u2").tobytes() for frame in twin))
    same(vfs.open(path)[...], twin)


@pytest.mark.parametrize("sized", [{"EDF_BinarySize": 0}, {"EDF_BinarySize": 60}, {}])
def test_edf_of_pixels_in_another_file(tmp_path: Path, sized: dict[str, int]) -> None:
    twin = frames_of((2, 5, 6), "u2")
    (tmp_path / "pixels.bin").write_bytes(bytes(7) + twin.astype(">u2").tobytes())
    place = {"EDF_BinaryFileName": r"C:\data\pixels.bin", "EDF_BinaryFileSize": 60}
    keys = {key: value for key, value in EDF_ONE.items() if key != "Size"}
    path = tmp_path / "a.edf"
    heads = [edf_head(**keys, **sized, **place, EDF_BinaryFilePosition=7 + 60 * k) for k in range(2)]
    path.write_bytes(b"".join(head + b"\xff" * sized.get("EDF_BinarySize", 0) for head in heads))
    check_boxes(path, twin, count=10)
    (tmp_path / "pixels.bin").unlink()
    refuses(path, "pixels.bin: no such file", kind=vfs.MissingSourceError)
    path.write_bytes(path.read_bytes().replace(b"FileSize = 60", b"FileSize = 59"))
    refuses(path, "of pixels.bin, EDF_BinaryFileSize says 59", kind=vfs.FormatError)


def test_edf_of_more_axes(tmp_path: Path) -> None:
    twin = frames_of((2, 1, 4, 5), "u2")
    keys = {key: value for key, value in EDF_ONE.items() if key not in ("Dim_1", "Dim_2", "Size")}
    path = tmp_path / "a.edf"
    path.write_bytes(edf_head(Dim_1=5, Dim_2=4, Dim_4=2, **keys) + twin.astype(">u2").tobytes())
    array = vfs.open(path)
    same(array[...], twin)
    assert array.dims == ("dim_4", "z", "y", "x")


def test_edf_that_was_cut(tmp_path: Path) -> None:
    twin = frames_of((3, 5, 6), "u2")
    path = write_edf(tmp_path / "a.edf", twin)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    same(incomplete(path, "not whole: 1", kind=vfs.TruncatedSourceError)[:2], twin[:2])
    path.write_bytes(whole[: -len(twin[2].tobytes()) - 100])
    same(incomplete(path, "does not end", kind=vfs.TruncatedSourceError)[...], twin[:2])


@pytest.mark.parametrize(
    ("keys", "word"),
    [
        ({"DataType": "Complex"}, "DataType = Complex"),
        ({"Dim_2": 0}, "Dim_2 = 0"),
        ({"Dim_1": 1 << 40}, "Dim_1 = 1099511627776"),
        ({"ByteOrder": "Middle"}, "ByteOrder = Middle"),
        ({"ByteOrder": ""}, "UnsignedShort, ByteOrder ="),
        ({"COMPRESSION": "GZIP"}, "not compressed"),
        ({"Size": 12}, "its header says 12 bytes"),
        ({"Dim_3": 1 << 27, "Size": 1 << 33}, "its header says 134,217,728 planes"),
    ],
)
def test_edf_garbled(tmp_path: Path, keys: dict[str, object], word: str) -> None:
    refuses(write_edf(tmp_path / "a.edf", frames_of((2, 5, 6), "u2"), **keys), "a.edf", word, kind=vfs.FormatError)


def test_edf_of_frames_that_differ(tmp_path: Path) -> None:
    path = write_edf(tmp_path / "a.edf", frames_of((2, 5, 6), "u2"))
    other = write_edf(tmp_path / "b.edf", frames_of((2, 6, 5), "u2"))
    empty = tmp_path / "c.edf"
    empty.write_bytes(b"")
    same(incomplete([path, empty], "c.edf", "found none in 0 bytes", format="edf")[...], vfs.open(path)[...])
    refuses([path, other], "b.edf", "expected frames of [5, 6]", kind=vfs.FormatError)
    path.write_bytes(path.read_bytes() + b"rubbish")
    refuses(path, "expected a header in braces", kind=vfs.FormatError)
