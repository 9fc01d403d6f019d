"""Raw files of SLS detectors, and CBF: what is peculiar to each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.formats.frame_checks import check_boxes, frames_of, incomplete, opens_incomplete, refuses, same, warned
from vfs.testing.detector_writers import write_cbf, write_sls

FRAMES = frames_of((12, 16, 32), "u2")


@pytest.mark.parametrize("version", [6.1, 7.2])
@pytest.mark.parametrize(
    ("modules", "how"),
    [((1, 1), {}), ((2, 1), {}), ((2, 4), {}), ((4, 2), {"interfaces": 2}), ((2, 2), {"detector": "Eiger"})],
)
def test_sls(tmp_path: Path, modules: tuple[int, int], how: dict[str, Any], version: float) -> None:
    for dtype in ("u1", "u2", "u4"):
        twin = FRAMES.astype(dtype)
        path = write_sls(tmp_path, twin, modules, version=version, **how)
        check_boxes(path, twin, count=10)
        array = vfs.open(path)
        assert array.dims == ("frame", "y", "x")
        assert array.attrs["first_frame"] == 1
        assert array.attrs["master"]["Frame Padding"] == 1


def test_sls_frames_stand_where_their_numbers_say(tmp_path: Path) -> None:
    dropped = {0: [0, 4, 5, 6], 1: [0, 6, 7, 8, 11]}
    path = write_sls(tmp_path, FRAMES, (2, 1), dropped=dropped, first=100)
    twin = FRAMES.copy()
    for module, frames in dropped.items():
        twin[frames, 8 * module : 8 * module + 8] = 0
    array = opens_incomplete(path, "7 of 12 frames lack modules (2 all of 2)", counts={"frames_missing": 7}).main
    assert array.attrs["first_frame"] == 101
    same(array[...], np.concatenate([twin[1:], twin[:1] * 0]))  # the master file says that there are twelve


def test_sls_of_a_file_that_is_gone_or_cut(tmp_path: Path) -> None:
    path = write_sls(tmp_path, FRAMES, (2, 1))
    last = tmp_path / "run_d1_f2_3.raw"
    last.write_bytes(last.read_bytes()[:-9])
    twin = FRAMES.copy()
    twin[11, 8:] = 0
    same(incomplete(path, "run_d1_f2_3.raw", "615 bytes of one", kind=vfs.TruncatedSourceError)[...], twin)
    last.unlink()
    twin[10:, 8:] = 0
    same(warned(path, "2 of 12 frames lack modules (0 all")[...], twin)
    for file in tmp_path.glob("*_d*"):
        file.unlink()
    refuses(path, "found none", kind=vfs.TruncatedSourceError)


@pytest.mark.parametrize(
    ("keys", "word"),
    [
        ({"Dynamic Range": 4}, "4 bits"),
        ({"Geometry": {"x": 0, "y": 1}}, "0 × 1 modules"),
        ({"Pixels": {"x": 1 << 40, "y": 1}}, "1099511627776 × 1 pixels"),
        ({"Image Size in bytes": 77}, "says 77"),
        ({"Quad": 1}, "a quad"),
        ({"Receiver Roi": {"xmin": 0, "xmax": 32, "ymin": 0, "ymax": 9}}, "regions of interest within 16 × 32 pixels"),
        ({"Receiver Rois": [{"xmin": 0}]}, "regions of interest within"),
        ({"Receiver Rois": 2 * [{"xmin": 0, "xmax": 9, "ymin": 0, "ymax": 9}]}, "several in module 0"),
        ({"Detector Type": "ChipTestBoard"}, "test board"),
        ({"Number of UDP Interfaces": 3}, "boards of 3 × 1"),
    ],
)
def test_sls_of_other_masters(tmp_path: Path, keys: dict[str, Any], word: str) -> None:
    path = write_sls(tmp_path, FRAMES, (2, 1), **keys)
    refuses(path, "run_master_3.json", word, kind=vfs.FormatError)


def test_sls_of_a_whole_region(tmp_path: Path) -> None:
    region = {"xmin": 0, "xmax": 31, "ymin": 0, "ymax": 15}
    path = write_sls(tmp_path, FRAMES, (2, 1), **{"Receiver Roi": region})
    same(vfs.open(path)[...], FRAMES)


@pytest.mark.parametrize("how", [{}, {"detector": "Eiger"}, {"interfaces": 2}])
def test_sls_of_regions(tmp_path: Path, how: dict[str, Any]) -> None:
    """Raw files hold the pixels of a module that are in a region; several regions are arrays."""
    one, many = tmp_path / "one", tmp_path / "many"
    one.mkdir()
    many.mkdir()
    roi, other = (slice(3, 13), slice(10, 30)), (slice(1, 6), slice(2, 9))
    check_boxes(write_sls(one, FRAMES, (2, 2), rois=[roi], **how), FRAMES[:, *roi], count=10)
    single = (slice(9, 13), slice(17, 30))
    group = vfs.open_group(write_sls(many, FRAMES, (2, 2), rois=[single, other], **how))
    same(group["roi_0/data"][...], FRAMES[:, *single])
    same(group["roi_1/data"][...], FRAMES[:, *other])


@pytest.mark.parametrize("modules", [(1, 1), (2, 2)])
def test_sls_of_numbers_that_begin_again(tmp_path: Path, modules: tuple[int, int]) -> None:
    """Frames of a later file are shown behind those before, and never in their place."""
    lost = {} if modules == (1, 1) else {0: [11], 2: [8]}
    path = write_sls(tmp_path, FRAMES, modules, per_file=4, begin_again=8, first=7, dropped=lost)
    twin = FRAMES.copy()
    height, width = 16 // modules[0], 32 // modules[1]
    for module, frames in lost.items():  # modules fill the detector down its columns
        y, x = height * (module % modules[0]), width * (module // modules[0])
        twin[frames, y : y + height, x : x + width] = 0
    with pytest.warns(vfs.IncompleteWarning, match="numbers of frames begin again at 7, after 14 in the file before"):
        same(vfs.open(path)[...], twin)


def test_sls_of_garbled_numbers(tmp_path: Path) -> None:
    path = write_sls(tmp_path, FRAMES, (1, 1), per_file=12)
    file = tmp_path / "run_d0_f0_3.raw"
    size = 112 + 16 * 32 * 2
    for numbers, word in (({0: 100}, "ascending"), ({11: 3}, "ascending"), ({11: 1 << 60}, "later")):
        data = bytearray(file.read_bytes())
        for record, number in numbers.items():
            data[record * size : record * size + 8] = number.to_bytes(8, "little")
        file.write_bytes(data)
        refuses(path, "run_", word, kind=vfs.FormatError)
        write_sls(tmp_path, FRAMES, (1, 1), per_file=12)


def test_sls_is_opened_by_its_master(tmp_path: Path) -> None:
    path = write_sls(tmp_path, FRAMES)
    refuses(tmp_path / "run_d0_f0_3.raw", "master file", kind=vfs.OptionError, format="sls")
    path.write_text("{}")
    refuses(path, "Detector Type", kind=vfs.FormatError, format="sls")


def test_cbf(tmp_path: Path) -> None:
    twin = frames_of((4, 7, 9), "i4")
    twin[1] = np.arange(63).reshape(7, 9) * 300
    twin[2] = twin[2] % 100
    paths = [write_cbf(tmp_path / f"a_{k}.cbf", frame) for k, frame in enumerate(twin)]
    check_boxes(paths, twin, count=10)
    array = vfs.open(paths)
    assert array.dims == ("frame", "y", "x")
    assert array.calibration["x"] == {"scale": 172e-6, "offset": 0.0, "unit": "m"}
    assert array.attrs["header"] == ["Pixel_size 172e-6 m x 172e-6 m"]
    same(vfs.open(paths[1])[...], twin[1:2])
    paths[2].unlink()
    twin[2] = 0
    same(incomplete([paths[0], paths[1], paths[3]], "one file between", kind=vfs.MissingSourceError)[...], twin)


def test_cbf_of_several_images(tmp_path: Path) -> None:
    """Further sections of a file are frames, its keys have no case, and the padding is that of each."""
    twin = frames_of((5, 7, 9), "i4") % 100_000
    paths = [tmp_path / "a_1.cbf", tmp_path / "a_2.cbf"]
    for path, some, padding in zip(paths, (twin[:3], twin[3:]), (0, 300), strict=True):
        data = write_cbf(path, some, X_Binary_Size_Padding=padding).read_bytes()
        for name in ("Binary-Size", "Binary-Element-Type", "Content-MD5", "Binary-Number"):
            data = data.replace(name.encode(), name.lower().encode())
        path.write_bytes(data)
    check_boxes(paths, twin, count=10)
    whole = paths[1].read_bytes()
    paths[1].write_bytes(whole[: whole.index(b"_array_data.data", 800) + 200])
    same(incomplete(paths, "a_2.cbf: expected pixels after the header", kind=vfs.TruncatedSourceError)[...], twin[:4])
    paths[1].write_bytes(whole.replace(b"of-Elements: 63", b"of-Elements: 62"))
    refuses(paths[1], "expected 63 elements of a frame [7, 9], found 62", kind=vfs.FormatError)


def test_cbf_that_is_not_compressed(tmp_path: Path) -> None:
    twin = frames_of((3, 7, 9), "f4")
    kind = {"X_Binary_Element_Type": '"signed 32-bit real IEEE"', "X_Binary_Size": 4 * 63}
    for md5 in ("", "AAAA"):
        paths = []
        for k, frame in enumerate(twin):
            path = write_cbf(tmp_path / f"a_{k}.cbf", frame.astype("i4") * 0, Content_MD5=md5, **kind)
            head, mark, _ = path.read_bytes().partition(b"\x0c\x1a\x04\xd5")
            path.write_bytes(head.replace(b"x-CBF_BYTE_OFFSET", b"x-CBF_NONE") + mark + frame.tobytes() + b"\0end")
            paths.append(path)
        if not md5:
            check_boxes(paths, twin, count=10)
        else:
            with pytest.raises(vfs.DecodeError, match="MD5"):
                vfs.open(paths)[1]


def test_cbf_that_is_cut_or_garbled(tmp_path: Path) -> None:
    twin = frames_of((2, 7, 9), "i4")
    paths = [write_cbf(tmp_path / f"a_{k}.cbf", frame) for k, frame in enumerate(twin)]
    whole = paths[1].read_bytes()
    want = twin.copy()
    want[1] = 0
    for size, word in ((len(whole) - 200, "not whole: 1"), (300, "not whole: 1")):
        paths[1].write_bytes(whole[:size])
        same(incomplete(paths, "a_1.cbf", word, kind=vfs.TruncatedSourceError)[...], want)
    data = bytearray(whole)
    data[whole.index(b"\x0c\x1a\x04\xd5") + 9] ^= 1
    paths[1].write_bytes(data)
    array = vfs.open(paths)
    same(array[0], twin[0])
    with pytest.raises(vfs.DecodeError, match="MD5"):
        array[1]
    write_cbf(paths[1], twin[1], Content_MD5="", X_Binary_Size=100)
    with pytest.raises(vfs.DecodeError, match="end before 63"):
        vfs.open(paths)[1]
    write_cbf(paths[1], twin[1, :5])
    refuses(paths, "as in", "[5, 9]", kind=vfs.FormatError)


@pytest.mark.parametrize(
    ("keys", "word"),
    [
        ({"X_Binary_Size_Fastest_Dimension": "?"}, "size and the type"),
        ({"X_Binary_Size_Fastest_Dimension": 9_999_999}, "69,999,993 elements"),
        ({"X_Binary_Size": 0}, "size and the type"),
        ({"X_Binary_Element_Type": '"signed 12-bit integer"'}, "12-bit"),
        ({"X_Binary_Element_Type": '"signed 32-bit real IEEE"'}, "expected integers"),
    ],
)
def test_cbf_of_garbled_headers(tmp_path: Path, keys: dict[str, Any], word: str) -> None:
    refuses(write_cbf(tmp_path / "a.cbf", frames_of((7, 9), "i4"), **keys), "a.cbf", word, kind=vfs.FormatError)


def test_cbf_of_other_compressions(tmp_path: Path) -> None:
    path = write_cbf(tmp_path / "a.cbf", frames_of((7, 9), "i4"))
    path.write_bytes(path.read_bytes().replace(b"x-CBF_BYTE_OFFSET", b"x-CBF_PACKED"))
    refuses(path, "x-CBF_PACKED", "cif2cbf", kind=vfs.FormatError)
