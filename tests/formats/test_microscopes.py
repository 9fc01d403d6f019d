"""ND2, LIF and CZI: what is peculiar to each. Loops, channels, colours, mosaics, scenes, compression, damage."""

from __future__ import annotations

import json
import re
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.formats.frame_checks import (
    check_boxes,
    frames_of,
    incomplete,
    opens_incomplete,
    refuses,
    same,
    unwarned,
    warned,
)
from vfs.testing.microscope_writers import (
    czi_mask,
    czi_planes,
    czi_xml,
    nd2_tree,
    write_czi,
    write_lif,
    write_lof,
    write_nd2,
    write_xlef,
)
from vfs.testing.tiff_writers import write_tiff

TWIN = frames_of((2, 3, 4, 5, 6), "u2")  # t, z, c, y, x


# ND2


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("dtype", ["u1", "u2", "f4"])
def test_nd2(tmp_path: Path, version: int, packed: bool, dtype: str) -> None:
    twin = frames_of(TWIN.shape, dtype)
    how: dict[str, Any] = {"version": version, "packed": packed, "padding": 8}
    path = write_nd2(tmp_path / "a.nd2", twin, ("t", "z"), channels=4, **how)
    check_boxes(path, twin, count=10)
    array = vfs.open(path)
    assert array.dims == ("t", "z", "c", "y", "x")
    assert [one["name"] for one in array.metadata["channels"].value] == ["dye 0", "dye 1", "dye 2", "dye 3"]
    assert array.calibration["t"] == {"scale": 500.0, "offset": 0.0, "unit": "ms"}
    assert array.calibration["z"] == {"scale": 0.5, "offset": 0.0, "unit": "um"}
    assert array.calibration["x"] == {"scale": 0.25, "offset": 0.0, "unit": "um"}
    colours = frames_of((3, 2, 5, 6, 3), dtype)
    path = write_nd2(tmp_path / "b.nd2", colours, ("position", "z"), colours=3, **how)
    check_boxes(path, colours[..., ::-1], count=10)  # blue is stored first
    assert vfs.open(path).dims == ("position", "z", "y", "x", "s")


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "f2", "i4", "u4", "f4", "f8"])
def test_nd2_of_every_pixel_type(tmp_path: Path, dtype: str) -> None:
    twin = frames_of((3, 5, 6), dtype)
    path = write_nd2(tmp_path / "a.nd2", twin, ("t",), pixel_type="iuf".index(dtype[0]), packed=dtype == "i2")
    check_boxes(path, twin, count=5)


def test_nd2_of_one_frame(tmp_path: Path) -> None:
    path = write_nd2(tmp_path / "a.nd2", TWIN[0, 0, 0], ())
    same(vfs.open(path)[...], TWIN[0, 0, 0])


def test_nd2_shows_what_was_recorded(tmp_path: Path) -> None:
    path = write_nd2(tmp_path / "a.nd2", TWIN, ("t", "z"), channels=4, left_out=(1, 4))
    twin = TWIN.copy()
    twin.reshape(6, 4, 5, 6)[[1, 4]] = 0
    same(opens_incomplete(path, "4 planes for 6 positions", counts={"frames_missing": 2}).main[...], twin)


def test_nd2_that_was_stopped_or_cut(tmp_path: Path) -> None:
    path = write_nd2(tmp_path / "a.nd2", TWIN, ("t", "z"), channels=4, mapped=False)
    same(incomplete(path, "expected a map of chunks", kind=vfs.TruncatedSourceError)[...], TWIN)
    whole = path.read_bytes()
    found = set()
    for size in range(100, len(whole), 700):
        path.write_bytes(whole[:size])
        with pytest.raises(vfs.VfsError, match=r"a\.nd2"):
            vfs.open(path)
        try:
            with unwarned():
                array = vfs.open(path, allow_incomplete=True)
                got = array[...].reshape(6, 4, 5, 6)
        except vfs.TruncatedSourceError:
            continue
        valid = array.valid.ravel()
        found.add(int(valid.sum()))
        same(got[valid], TWIN.reshape(6, 4, 5, 6)[valid])
        assert not got[~valid].any()
    assert found == {1, 2, 3, 4, 5}


def test_nd2_of_more_frames_than_loops(tmp_path: Path) -> None:
    path = write_nd2(tmp_path / "a.nd2", TWIN.reshape(6, 4, 5, 6), ("t",), channels=4)
    data = path.read_bytes()
    six, five = nd2_tree("uiCount", 6), nd2_tree("uiCount", 5)
    assert data.count(six) == 1
    path.write_bytes(data.replace(six, five))
    array = vfs.open(path)
    assert array.dims == ("frame", "c", "y", "x")
    same(array[...], TWIN.reshape(6, 4, 5, 6))


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("uiHeight", 0, "uiHeight 0"),
        ("uiWidth", 1 << 30, "uiWidth 1073741824"),
        ("uiWidthBytes", 7, "uiWidthBytes 7"),
        ("uiBpcInMemory", 12, "uiBpcInMemory 12"),
        ("ePixelType", 3, "ePixelType 3"),
        ("eCompression", 1, "lossy"),
        ("uiHeight", 50, "expected chunks of 2,400 bytes"),
    ],
)
def test_nd2_of_garbled_attributes(tmp_path: Path, name: str, value: int, word: str) -> None:
    path = write_nd2(tmp_path / "a.nd2", TWIN, ("t", "z"), channels=4, pixel_type=1)
    data = bytearray(path.read_bytes())
    entry = nd2_tree(name, 0)[:-4]
    struct.pack_into("<I", data, data.index(entry) + len(entry), value)
    path.write_bytes(data)
    refuses(path, "a.nd2", word, kind=vfs.FormatError)


def test_nd2_of_garbled_places(tmp_path: Path) -> None:
    path = write_nd2(tmp_path / "a.nd2", TWIN, ("t", "z"), channels=4)
    data = bytearray(path.read_bytes())
    for key in (b"ImageAttributesLV!", b"ImageDataSeq|0!", b"ImageDataSeq|5!"):
        made = bytearray(data)
        at = made.rindex(key) + len(key)
        struct.pack_into("<Q", made, at, struct.unpack_from("<Q", made, at)[0] + 8)
        path.write_bytes(made)
        refuses(path, f"the chunk {key.decode()}", kind=vfs.FormatError)
    made = bytearray(data)
    struct.pack_into("<Q", made, len(made) - 8, 77)
    path.write_bytes(made)
    refuses(path, "map of chunks at byte 77", kind=vfs.FormatError)


def test_nd2_of_version_1(tmp_path: Path) -> None:
    path = tmp_path / "a.nd2"
    path.write_bytes(b"\0\0\0\x0cjP  \r\n\x87\n".ljust(500, b"\0"))
    refuses(path, "version 1 (JPEG 2000", "NIS-Elements", kind=vfs.FormatError)


def test_nd2_whose_frames_do_not_decode(tmp_path: Path) -> None:
    path = write_nd2(tmp_path / "a.nd2", TWIN, ("t", "z"), channels=4, packed=True)
    data = bytearray(path.read_bytes())
    at = data.index(b"ImageDataSeq|2!") + 4072 + 8
    data[at : at + 4] = b"\xff" * 4
    path.write_bytes(data)
    array = vfs.open(path)
    same(array[1], TWIN[1])
    with pytest.raises(vfs.DecodeError, match="frame 2"):
        array[0, 2]


# LIF


@pytest.mark.parametrize("version", [1, 2])
def test_lif(tmp_path: Path, version: int) -> None:
    images = {
        "channels": (("t", "c", "z", "y", "x"), TWIN),
        "xz": (("y", "c", "z", "x"), frames_of((2, 3, 5, 6), "f4")),
        "colours": (("t", "y", "x", "s"), frames_of((2, 5, 6, 3), "u1")),
        "spectra": (("lambda", "y", "x"), frames_of((7, 5, 6), "f8")),
    }
    path = write_lif(tmp_path / "a.lif", images, version=version)
    group = vfs.open_group(path)
    for k, (name, (dims, twin)) in enumerate(images.items()):
        array = group[f"image_{k}/data"]
        assert array.attrs["name"] == name
        assert array.dims == dims
        check_boxes(path, twin, f"image_{k}/data", count=10)
        assert array.calibration["x"] == {"scale": 5e-7, "offset": 0.0, "unit": "m"}
    same(group.main[...], TWIN)
    assert group["image_0/data"].calibration["t"]["unit"] == "s"


def test_lif_that_was_cut(tmp_path: Path) -> None:
    images = {"a": (("z", "y", "x"), TWIN[0, 0]), "b": (("z", "y", "x"), TWIN[1, 1])}
    path = write_lif(tmp_path / "a.lif", images)
    whole = path.read_bytes()
    for size, said in ((len(whole) - 50, "not whole: 1"), (len(whole) - 250, "not in the file")):
        path.write_bytes(whole[:size])
        same(incomplete(path, "a.lif", said, kind=vfs.TruncatedSourceError).group["image_0/data"][...], TWIN[0, 0])
    path.write_bytes(whole[:400])
    refuses(path, "a.lif", kind=vfs.TruncatedSourceError)


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ('BytesInc="2"', 'BytesInc="3"', "whole elements"),
        ('NumberOfElements="4"', 'NumberOfElements="5"', "they reach to byte"),
        ('NumberOfElements="4"', 'NumberOfElements="0"', "1 or more elements"),
        ('Resolution="16"', 'Resolution="24"', "type 0, 3 bytes"),
        ("<Element ", "<Elemen ", "mismatched tag"),
        ("<LMSDataContainerHeader ", "<!ENTITY a><LMSDataContainerHeader ", "entities"),
        ("<Image>", "<Image/><None>", "mismatched tag"),
    ],
)
def test_lif_of_garbled_xml(tmp_path: Path, old: str, new: str, word: str) -> None:
    path = write_lif(
        tmp_path / "a.lif", {"a": (("z", "y", "x"), TWIN[0, 0])}, xml=lambda text: text.replace(old, new, 1)
    )
    refuses(path, "a.lif", word, kind=vfs.FormatError, format="lif")


def test_lif_of_an_image_that_cannot_be_read(tmp_path: Path) -> None:
    """It hides no other, whose names stay as they are."""
    images = {name: (("z", "y", "x"), TWIN[k % 2, k % 3]) for k, name in enumerate("abc")}
    path = write_lif(tmp_path / "a.lif", images, xml=lambda xml: xml.replace('Resolution="16"', 'Resolution="24"', 1))
    same(warned(path, "a: expected channels of one type", "not shown")[...], TWIN[1, 1])
    with pytest.warns(vfs.IncompleteWarning):
        assert set(vfs.open_group(path)) == {"image_1/data", "image_2/data"}


def test_lif_without_images(tmp_path: Path) -> None:
    refuses(write_lif(tmp_path / "a.lif", {}), "expected images", kind=vfs.FormatError)


def test_lif_of_colours_that_begin_with_blue(tmp_path: Path) -> None:
    twin = frames_of((2, 5, 6, 3), "u1")
    tags = {"1": "3", "3": "1"}
    path = write_lif(
        tmp_path / "a.lif",
        {"a": (("t", "y", "x", "s"), twin)},
        xml=lambda text: re.sub(r'ChannelTag="([13])"', lambda found: f'ChannelTag="{tags[found[1]]}"', text),
    )
    check_boxes(path, twin[..., ::-1], count=10)


XLEF = {
    "a b": (("t", "z", "y", "x"), TWIN[:, :, 0]),
    "colours": (("t", "y", "x", "s"), frames_of((2, 5, 6, 3), "u1")),
}


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        ("lof", {}),
        ("tif", {}),
        ("tif", {"order": ">", "strip": 2, "gap": 3}),
        ("tif", {"compression": 8, "encode": zlib.compress}),
        ("pages", {}),
        ("pages", {"tile": (16, 16)}),
    ],
)
def test_xlef(tmp_path: Path, kind: str, how: dict[str, Any]) -> None:
    path = write_xlef(tmp_path, XLEF, kind=kind, collection=kind == "lof", **how)
    group = vfs.open_group(path)
    for k, (name, (dims, twin)) in enumerate(XLEF.items()):
        check_boxes(path, twin, f"image_{k}/data", count=5)
        array = group[f"image_{k}/data"]
        assert array.dims == dims
        assert array.attrs["name"] == ("all/" * (kind == "lof")) + name
        assert array.calibration["x"]["scale"] == 5e-7
        same(vfs.open(tmp_path / "Metadata" / f"{name}.xlif")[...], twin)
    same(group.main[...], TWIN[:, :, 0])
    if kind == "lof":
        same(vfs.open(tmp_path / "Metadata" / "a b.lof")[...], TWIN[:, :, 0])


def test_xlef_whose_files_are_gone_or_cut(tmp_path: Path) -> None:
    path = write_xlef(tmp_path, XLEF, kind="tif")
    meta = tmp_path / "Metadata"
    (meta / "a b 1.tif").unlink()
    twin = TWIN[:, :, 0].copy()
    twin[0, 1] = 0
    same(incomplete(path, "a b 1.tif: no such file", kind=vfs.MissingSourceError)[...], twin)
    page = meta / "a b 2.tif"
    page.write_bytes(page.read_bytes()[:60])
    twin.reshape(-1, 5, 6)[2] = 0
    same(incomplete(meta / "a b.xlif", "a b 2.tif", kind=vfs.TruncatedSourceError)[...], twin)
    (meta / "a b.xlif").unlink()
    same(incomplete(path, "a b.xlif: no such file", kind=vfs.MissingSourceError)[...], XLEF["colours"][1])
    lof = write_lof(tmp_path / "a.lof", "a", *XLEF["a b"])
    whole = lof.read_bytes()
    for size in (len(whole) - 9, 300, 40, 20):
        lof.write_bytes(whole[:size])
        refuses(lof, "a.lof", format="lif")


@pytest.mark.parametrize(
    ("file", "old", "new", "word"),
    [
        ("project.xlef", "Metadata", "..", "outside"),
        ("project.xlef", "all.xlcf", "a%20b.lof", "XML"),
        ("project.xlef", "<Element ", "<Elemen ", "mismatched tag"),
        ("Metadata/all.xlcf", "a%20b.xlif", "all.xlcf", "circle"),
        ("Metadata/a b.xlif", "lof", "bmp", "one .lof or in TIFF files"),
        ("Metadata/a b.xlif", "a%20b.lof", "colours.xlif", "one .lof or in TIFF files"),
    ],
)
def test_xlef_of_garbled_xml(tmp_path: Path, file: str, old: str, new: str, word: str) -> None:
    path = write_xlef(tmp_path, XLEF, collection=True)
    encoding = "utf-16" if file == "project.xlef" else "utf-8"
    member = path.parent / file
    text = member.read_text(encoding)
    assert old in text
    member.write_text(text.replace(old, new, 1), encoding)
    if "xlif" in old + new or word in ("circle", "one .lof or in TIFF files"):  # the other image is shown
        same(warned(path, word, "not shown")[...], XLEF["colours"][1])
    else:
        refuses(path, word)


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [('Offset="60"', 'Offset="7"', "at byte 7"), ('Size="360"', 'Size="9"', "within its memory")],
)
def test_xlef_of_pages_that_do_not_fit(tmp_path: Path, old: str, new: str, word: str) -> None:
    path = write_xlef(tmp_path, XLEF, kind="tif")
    member = tmp_path / "Metadata" / "a b.xlif"
    text = member.read_text()
    assert old in text
    member.write_text(text.replace(old, new, 1))
    refuses(member, "a b.xlif", word, kind=vfs.FormatError)
    member.write_text(text)
    write_tiff(tmp_path / "Metadata" / "a b 1.tif", [TWIN[0, 0, 0, :4]])
    refuses(member, "a b.xlif", "expected pages [5, 6, 1]", kind=vfs.FormatError)
    same(warned(path, "a b.xlif", "expected pages [5, 6, 1]", "not shown")[...], XLEF["colours"][1])
    write_tiff(tmp_path / "Metadata" / "a b 1.tif", [TWIN[0, 0, 0].astype("i2")])
    refuses(member, "expected pages [5, 6, 1] of uint16, found [5, 6, 1] of int16", kind=vfs.FormatError)


# CZI


@pytest.mark.parametrize("dtype", ["u1", "u2", "f4", "i4", "f8"])
def test_czi(tmp_path: Path, dtype: str) -> None:
    twin = frames_of(TWIN.shape, dtype)
    path = write_czi(tmp_path / "a.czi", czi_planes(twin, "TZC", {"S": 0, "X": -9, "Y": 40}), xml=czi_xml("abcd"))
    twin = twin.transpose(0, 2, 1, 3, 4)
    check_boxes(path, twin, count=10)
    array = vfs.open(path)
    assert array.dims == ("t", "c", "z", "y", "x")
    assert [one["name"] for one in array.metadata["channels"].value] == ["a", "b", "c", "d"]
    assert array.attrs["origin"] == [40, -9]
    assert array.calibration == {dim: {"scale": 2.5e-7, "offset": 0.0, "unit": "m"} for dim in "yx"}


def test_czi_of_colours(tmp_path: Path) -> None:
    for samples in (3, 4):
        twin = frames_of((2, 5, 6, samples), "u1")
        path = write_czi(tmp_path / "a.czi", czi_planes(twin, "T"))
        check_boxes(path, twin, count=10)
        assert vfs.open(path).dims == ("t", "y", "x", "s")


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("spans", ["T", "TZ", "ZT"])
def test_czi_of_several_planes_a_block(tmp_path: Path, spans: str, packed: bool) -> None:
    """Scans along a line: a sub-block holds as many planes as were ready, which its entry says."""
    twin = frames_of((7, 4, 3, 5, 6), "u2")  # t, c, z
    tiles = []
    for c in range(4):
        for a, b in ((0, 1), (1, 4), (4, 7)):
            if len(spans) > 1:
                part = twin[a:b, c] if spans == "TZ" else twin[a:b, c].swapaxes(0, 1)
                tiles.append(({"C": c, "T": a, "Z": 0}, part))
            else:
                tiles += [({"C": c, "T": a, "Z": z}, twin[a:b, c, z]) for z in range(3)]
    how: dict[str, Any] = {"compression": 5, "encode": zstd} if packed else {}
    path = write_czi(tmp_path / "a.czi", tiles[::-1], spans=spans, **how)
    check_boxes(path, twin, count=20)
    assert vfs.open(path).dims == ("t", "c", "z", "y", "x")
    same(vfs.open(path, nav_shape=(84,))[...], twin.reshape(84, 5, 6))


def test_czi_of_lines_and_of_colours_in_one_block(tmp_path: Path) -> None:
    lines = frames_of((50, 1, 6), "u2")
    same(vfs.open(write_czi(tmp_path / "a.czi", [({"T": 3}, lines)], spans="T"))[...], lines)
    colours = frames_of((4, 5, 6, 3), "u1")
    same(vfs.open(write_czi(tmp_path / "a.czi", [({"Z": 0}, colours)], spans="Z"))[...], colours)


@pytest.mark.parametrize("compression", [0, 5])
@pytest.mark.parametrize("alone", [False, True])
def test_czi_of_masks(tmp_path: Path, alone: bool, compression: int) -> None:
    """Where a mask says that pixels of a tile are not valid, the tile below is seen, or nothing."""
    below, above = frames_of((2, 20, 30), "u2"), frames_of((2, 12, 14), "u2", seed=1)
    disc = np.hypot(*(np.indices((12, 14)) - np.array([[[5]], [[6]]]))) < 6
    hole = ~np.pad(np.ones((4, 5), bool), ((3, 13), (20, 5)))
    twin = below.copy()
    twin[:, ~hole] = 0
    twin[:, 5:17, 8:22][:, disc] = above[:, disc]
    tiles = [*czi_planes(below, "T", {"M": 0}), *czi_planes(above, "T", {"M": 1, "Y": 5, "X": 8})]
    masks = [hole, hole, disc, disc]
    path = write_czi(
        tmp_path / "a.czi",
        tiles,
        compression=compression,
        encode=zstd if compression else None,
        attached=lambda n: czi_mask(masks[n], alone=alone),
    )
    check_boxes(path, twin, count=20)
    whole = write_czi(tmp_path / "b.czi", tiles[:2], attached=lambda n: czi_mask(np.ones((20, 30), bool)))
    check_boxes(whole, below, count=5)
    path = write_czi(tmp_path / "c.czi", tiles[:2], attached=lambda n: czi_mask(np.ones((20, 12), bool)))
    refuses(path, "a mask of valid pixels", "30 × 20 pixels", kind=vfs.FormatError)


def test_czi_stored_finer_or_coarser_than_the_image(tmp_path: Path) -> None:
    """PALM stores more pixels than an image has, a fast Airyscan fewer rows: shown as stored, with their steps."""
    fine, plain = frames_of((2, 24, 18), "u2"), frames_of((2, 8, 6), "u2")
    left, right = czi_planes(fine[..., :9], "T", {"C": 0}), czi_planes(fine[..., 9:], "T", {"C": 0, "X": 3})
    tiles = [*left, *right, *czi_planes(plain, "T", {"C": 1})]
    names = czi_xml(["one", "two"], ["#FF00FF80", "#FFFF8000"])
    path = write_czi(tmp_path / "a.czi", tiles, scale=lambda n: 1 / 3 if n < 4 else 1, xml=names)
    group = vfs.open_group(path)
    assert set(group) == {"resolution_0/data", "resolution_1/data"}
    check_boxes(path, fine, "resolution_0/data", count=5)
    check_boxes(path, plain, "resolution_1/data", count=5)
    steps = [group[f"resolution_{k}/data"].calibration["x"]["scale"] for k in range(2)]
    np.testing.assert_allclose(steps, [2.5e-7 / 3, 2.5e-7], rtol=1e-3)
    assert group["resolution_1/data"].metadata["channels"].value == ({"name": "two", "colour": "#ff8000"},)
    fewer = frames_of((3, 4, 6), "u1")
    path = write_czi(tmp_path / "b.czi", czi_planes(fewer, "H"), scale=lambda n: (4, 1), pyramid=lambda n: False)
    check_boxes(path, fewer, count=5)
    known = vfs.open(path).calibration
    assert (known["y"]["scale"], known["x"]["scale"]) == (1e-6, 2.5e-7)


def test_czi_of_smaller_versions_that_are_not_marked(tmp_path: Path) -> None:
    one, half = frames_of((3, 8, 10), "u2"), frames_of((3, 4, 5), "u2")
    tiles = [*czi_planes(one, "T"), *czi_planes(half, "T")]
    path = write_czi(tmp_path / "a.czi", tiles, scale=lambda n: 1 + (n > 2), pyramid=lambda n: False)
    group = vfs.open_group(path)
    same(group["data"][...], one)
    same(group["level_1/data"][...], half)


def test_czi_of_which_one_array_cannot_be_read(tmp_path: Path) -> None:
    one, two = frames_of((2, 5, 6), "u2"), frames_of((2, 5, 6), "f4")
    path = write_czi(tmp_path / "a.czi", [*czi_planes(two, "T", {"C": 0}), *czi_planes(one, "T", {"C": 1})])
    data = bytearray(path.read_bytes())
    entries = [found.start() for found in re.finditer(b"DV" + struct.pack("<i", 2), data)]
    for at in entries:
        struct.pack_into("<i", data, at + 18, 1000)
    path.write_bytes(data)
    same(warned(path, "type_2/data", "compression 1000", "not shown")[...], one)


def test_czi_of_blocks_and_of_unknown_planes(tmp_path: Path) -> None:
    twin = frames_of((2, 5, 6), "u2")
    assert vfs.open(write_czi(tmp_path / "a.czi", czi_planes(twin, "B"))).dims == ("b", "y", "x")
    refuses(write_czi(tmp_path / "b.czi", [({"Q": 0}, twin)], spans="Q"), "planes of known dimensions")


def zstd(pixels: np.ndarray) -> bytes:
    imagecodecs = pytest.importorskip("imagecodecs")
    return bytes(imagecodecs.zstd_encode(pixels.tobytes()))


def zstd_shuffled(pixels: np.ndarray) -> bytes:
    return b"\x03\x01\x01" + zstd(pixels.view("u1").reshape(-1, 2).T.copy())


def jpeg_xr(pixels: np.ndarray) -> bytes:
    imagecodecs = pytest.importorskip("imagecodecs")
    return bytes(imagecodecs.jpegxr_encode(pixels, level=1.0))


@pytest.mark.parametrize(
    ("compression", "encode"),
    [(5, zstd), (6, zstd_shuffled), (6, lambda pixels: b"\x01" + zstd(pixels)), (4, jpeg_xr)],
)
def test_czi_that_is_compressed(tmp_path: Path, compression: int, encode: Any) -> None:
    twin = np.arange(2 * 3 * 40 * 50, dtype="u2").reshape(2, 3, 40, 50)
    path = write_czi(tmp_path / "a.czi", czi_planes(twin, "TZ"), compression=compression, encode=encode)
    check_boxes(path, twin, count=10)


@pytest.mark.parametrize("packed", [False, True])
def test_czi_of_tiles_that_overlap(tmp_path: Path, packed: bool) -> None:
    """The tile with the higher number is seen, wherever it stands in the file; tiles may have different sizes."""
    twin = np.zeros((2, 40, 60), "u2")
    tiles = []
    rng = np.random.default_rng(5)
    for m in range(12):
        height, width = rng.integers(4, 21, 2).tolist()
        y, x = int(rng.integers(0, 41 - height)), int(rng.integers(0, 61 - width))
        pixels = frames_of((2, height, width), "u2", seed=m)
        twin[:, y : y + height, x : x + width] = pixels
        tiles += czi_planes(pixels, "C", {"M": m, "Y": y, "X": x})
    corners = [{"M": 20, "Y": 0, "X": 0}, {"M": 21, "Y": 39, "X": 59}]
    for start in corners:
        pixels = frames_of((2, 1, 1), "u2", seed=start["M"])
        twin[:, start["Y"], start["X"]] = pixels[:, 0, 0]
        tiles += czi_planes(pixels, "C", start)
    how: dict[str, Any] = {"compression": 5, "encode": zstd} if packed else {}
    path = write_czi(tmp_path / "a.czi", tiles[::-1], **how)
    check_boxes(path, twin, count=30)


def test_czi_of_scenes_and_levels(tmp_path: Path) -> None:
    one, two = frames_of((3, 8, 10), "u2"), frames_of((3, 6, 4), "u2")
    half, both = frames_of((3, 4, 5), "u2"), frames_of((3, 2, 2), "u2")
    tiles = [*czi_planes(one, "T", {"S": 0, "M": 0}), *czi_planes(two, "T", {"S": 1, "X": 100, "Y": 7, "M": 0})]
    tiles += [*czi_planes(half, "T", {"S": 0}), *czi_planes(both, "T")]
    path = write_czi(tmp_path / "a.czi", tiles, scale=lambda n: 1 if n < 6 else 2)
    group = vfs.open_group(path)
    assert set(group) == {"scene_0/data", "scene_1/data", "scene_0/level_1/data"}
    same(group["scene_0/data"][...], one)
    same(group["scene_1/data"][...], two)
    same(group["scene_0/level_1/data"][...], half)
    same(group.main[...], one)
    assert group["scene_0/level_1/data"].calibration["x"]["scale"] == 5e-7


def test_scenes_of_a_czi_have_their_names(tmp_path: Path) -> None:
    tiles = [tile for k in range(3) for tile in czi_planes(frames_of((2, 6, 4), "u2"), "C", {"S": k, "M": 0})]
    xml = (
        "<ImageDocument><Metadata><Information><Image><Dimensions><S><Scenes>"
        '<Scene Index="0" Name="P1"><ArrayName>A1</ArrayName></Scene><Scene Index="2" Name="edge"/><Scene Name="no"/>'
        "</Scenes></S></Dimensions></Image></Information></Metadata></ImageDocument>"
    )
    group = vfs.open_group(write_czi(tmp_path / "a.czi", tiles, xml=xml))
    assert [group[f"scene_{k}/data"].attrs.get("name") for k in range(3)] == ["A1 P1", None, "edge"]
    first = group.store(face="ome").face.documents["0/zarr.json"]
    assert json.loads(first)["attributes"]["ome"]["multiscales"][0]["name"] == "A1 P1"


def test_czi_of_channels_of_several_types(tmp_path: Path) -> None:
    one, two = frames_of((2, 5, 6), "u2"), frames_of((2, 5, 6), "f4")
    path = write_czi(tmp_path / "a.czi", [*czi_planes(one, "T", {"C": 0}), *czi_planes(two, "T", {"C": 1})])
    group = vfs.open_group(path)
    same(group["type_1/data"][...], one)
    same(group["type_2/data"][...], two)
    assert group["type_2/data"].attrs["axes"] == {}


def test_czi_shows_what_was_recorded(tmp_path: Path) -> None:
    tiles = czi_planes(TWIN[0, :, :], "ZC")
    path = write_czi(tmp_path / "a.czi", tiles[:-1])
    twin = TWIN[0].transpose(1, 0, 2, 3).copy()
    twin[3, 2] = 0
    found = opens_incomplete(path, "1 of 12 planes have no sub-block", counts={"frames_missing": 1}).main
    same(found[...], twin)


def test_czi_that_was_stopped_or_cut(tmp_path: Path) -> None:
    path = write_czi(tmp_path / "a.czi", czi_planes(TWIN[0, :, 0], "Z"), directory=False)
    same(incomplete(path, "expected a directory", kind=vfs.TruncatedSourceError)[...], TWIN[0, :, 0])
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) - 700])
    same(incomplete(path, "expected a directory", kind=vfs.TruncatedSourceError)[...], TWIN[0, :2, 0])
    path.write_bytes(whole[:600])
    refuses(path, "expected sub-blocks", kind=vfs.TruncatedSourceError)
    path = write_czi(tmp_path / "b.czi", czi_planes(TWIN[0, :, 0], "Z"))
    data = bytearray(path.read_bytes())
    struct.pack_into("<q", data, data.rindex(b"DV") + 6, 1 << 40)
    path.write_bytes(data)
    twin = TWIN[0, :, 0].copy()
    twin[2] = 0
    same(incomplete(path, "not whole: 1", kind=vfs.TruncatedSourceError)[...], twin)


@pytest.mark.parametrize(
    ("at", "value", "word"),
    [
        (2, struct.pack("<i", 77), "entry 2 is garbled"),
        (14, struct.pack("<i", 1), "part 1"),
        (18, struct.pack("<i", 3), "compression 3"),
        (18, struct.pack("<i", 104), "raw pixels of a camera"),
        (28, struct.pack("<i", 9), "garbled"),
        (6, struct.pack("<q", 40), "sub-block at byte 40"),
    ],
)
def test_czi_of_garbled_entries(tmp_path: Path, at: int, value: bytes, word: str) -> None:
    path = write_czi(tmp_path / "a.czi", czi_planes(TWIN[0, :, 0], "Z"))
    data = bytearray(path.read_bytes())
    begin = data.rindex(b"DV") + at
    data[begin : begin + len(value)] = value
    path.write_bytes(data)
    refuses(path, "a.czi", word, kind=vfs.FormatError)


def test_czi_whose_blocks_do_not_decode(tmp_path: Path) -> None:
    twin = TWIN[0, :, 0]
    for compression, encode in ((5, lambda pixels: zstd(pixels)[:-3]), (6, lambda pixels: b"\x07" + zstd(pixels))):
        path = write_czi(tmp_path / "a.czi", czi_planes(twin, "Z"), compression=compression, encode=encode)
        with pytest.raises(vfs.DecodeError, match=r"block|header"):
            vfs.open(path)[...]
    path = write_czi(tmp_path / "a.czi", czi_planes(twin, "Z"), compression=5, encode=lambda pixels: zstd(pixels[:2]))
    with pytest.raises(vfs.DecodeError):
        vfs.open(path)[...]
    path = write_czi(
        tmp_path / "a.czi", czi_planes(twin, "Z"), compression=4, encode=lambda pixels: b"II\xbc\x01" + bytes(99)
    )
    with pytest.raises(vfs.DecodeError, match="header of JPEG XR"):
        vfs.open(path)[...]
    path = write_czi(tmp_path / "a.czi", czi_planes(twin, "Z"), encode=lambda pixels: pixels.tobytes()[:-2])
    refuses(path, "expected 60 bytes of pixels", kind=vfs.FormatError)


def test_czi_of_metadata_that_cannot_be_understood(tmp_path: Path) -> None:
    path = write_czi(tmp_path / "a.czi", czi_planes(TWIN[0, :, 0], "Z"), xml="<ImageDocument><Metadata>")
    same(warned(path, "shown without these metadata")[...], TWIN[0, :, 0])


def test_a_czi_of_which_only_hidden_tiles_are_whole_is_one_line(tmp_path: Path) -> None:
    tiles = [({"M": m, "T": t}, np.zeros((8, 9), "<u2")) for m in range(2) for t in range(2)]
    path = write_czi(tmp_path / "a.czi", tiles)
    size = struct.Struct("<q")
    parts = path.read_bytes().split(size.pack(144))  # bytes of the pixels of a tile
    half = len(parts) // 2  # of the tiles that lie above, at the end
    path.write_bytes(
        size.pack(144).join(parts[: half + 1]) + b"".join(size.pack(1 << 40) + p for p in parts[half + 1 :])
    )
    with pytest.raises(vfs.TruncatedSourceError, match=r"a\.czi: expected a sub-block .* not whole: 2"):
        vfs.open(path)
