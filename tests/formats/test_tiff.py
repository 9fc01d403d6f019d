"""TIFF: the oracle, every way of storing pixels against numpy, series, sequences, and files that
are not what they say.
"""

from __future__ import annotations

import itertools
import logging
import os
import pickle
import struct
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.conftest import SHARED, same_values
from tests.formats.frame_checks import BACKENDS, arranged, check_boxes, frames_of, one_line, refuses, same, warned
from vfs.backends.buffered import BufferedBackend
from vfs.formats import detect
from vfs.formats.tiff_structure import segments
from vfs.formats.tiff_structure.kinds import tiny_page
from vfs.formats.tiff_structure.pages import PageTable
from vfs.sources.local import LocalSources
from vfs.testing.backends import CountingBackend
from vfs.testing.inside import reader_of, set_of
from vfs.testing.tiff_writers import LONG, LONG8, SHORT, write_tiff

tifffile = pytest.importorskip("tifffile", reason="reading TIFF needs tifffile")
imagecodecs = pytest.importorskip("imagecodecs", reason="compressed TIFF needs imagecodecs")


def _real() -> list[tuple[str, str]]:
    oracle = SHARED / "oracle.json"
    if not oracle.exists():
        return []
    import json

    sets = json.loads(oracle.read_text())["datasets"]
    return [
        (name, array)
        for name, e in sets.items()
        if e["format"] in ("tiff", "tiff_sequence")
        for array in e["arrays"]
        if array.startswith(("series", "stack"))
    ]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("name", "array"), _real() or [pytest.param("", "", marks=pytest.mark.skip("no real files here"))]
)
def test_real_files(oracle: dict[str, Any], name: str, array: str, backend: str) -> None:
    entry = oracle[name]
    group = vfs.open_group([str(SHARED / file) for file in entry["files"]], backend=backend)
    several = sum(key.startswith("series") for key in entry["arrays"]) > 1
    path = array.replace("series", "series_") + "/data" if several else "data"
    assert set_of(group).tree.arrays.keys() >= {path}
    got = group[path]
    assert same_values(got[...], entry["arrays"][array])
    stored = np.dtype(entry["arrays"][array]["dtype"])
    assert got.dtype == (np.dtype("u1") if stored.kind == "b" else stored)
    levels = entry["arrays"][array].get("levels") or [[]]
    assert [list(group[f"level_{k}/data"].shape) for k in range(1, len(levels))] == levels[1:]


STORED: list[dict[str, Any]] = [
    {},
    {"strip": 4},
    {"strip": 4, "gap": 5},
    {"strip": 4, "shuffled": True},
    {"tile": (16, 16)},
    {"tile": (32, 16), "gap": 1},
]


@pytest.mark.parametrize("how", STORED, ids=lambda how: "-".join(map(str, how)) or "whole")
@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("samples", ["", "chunky", "planar"])
def test_uncompressed(tmp_path: Path, samples: str, order: Any, big: bool, how: dict[str, Any]) -> None:
    shape = {"": (3, 18, 23), "chunky": (3, 18, 23, 3), "planar": (3, 3, 18, 23)}[samples]
    for dtype in ("u1", "i2", "f4"):
        twin = frames_of(shape, dtype)
        path = write_tiff(tmp_path / "a.tif", list(twin), order=order, big=big, planar=samples == "planar", **how)
        assert np.array_equal(tifffile.imread(path), twin)  # the writer is right
        check_boxes(path, twin, count=10)
    array = vfs.open(path)
    assert (
        array.dims
        == {"": ("frame", "y", "x"), "chunky": ("frame", "y", "x", "s"), "planar": ("frame", "s", "y", "x")}[samples]
    )
    assert reader_of(array).decodes_whole is False


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("order", ["<", ">"])
def test_numbers(tmp_path: Path, dtype: str, order: Any) -> None:
    whole = frames_of((2, 5, 6, 2), "f8") if dtype[0] == "c" else frames_of((2, 5, 6, 1), dtype)
    twin = (whole[..., 0] + (1j * whole[..., -1] if dtype[0] == "c" else 0)).astype(dtype)
    check_boxes(write_tiff(tmp_path / "a.tif", list(twin), order=order, strip=2, gap=2), twin, count=8)
    check_boxes(write_tiff(tmp_path / "b.tif", list(twin), order=order), twin, count=8)


@pytest.mark.parametrize("bits", [1, 2, 4, 9, 10, 12, 14])
@pytest.mark.parametrize("order", ["<", ">"])
def test_packed_bits(tmp_path: Path, bits: int, order: Any) -> None:
    twin = frames_of((4, 9, 13), "u2") % (1 << bits)
    twin = twin.astype("u1" if bits <= 8 else "u2")
    path = write_tiff(tmp_path / "a.tif", list(twin), bits=bits, strip=4, order=order)
    check_boxes(path, twin, count=10)
    arranged(path, twin)
    assert vfs.open(path).attrs["bits_per_sample"] == bits


def test_one_bit_pixels_are_bytes(tmp_path: Path) -> None:
    twin = frames_of((9, 13), "u1") > 127
    array = vfs.open(write_tiff(tmp_path / "a.tif", [twin]))
    assert array.dtype == np.uint8
    same(array[...], twin.astype("u1"))


COMPRESSED: list[dict[str, Any]] = [
    {"compression": "lzw"},
    {"compression": "lzw", "predictor": 2},
    {"compression": "zlib"},
    {"compression": "zlib", "predictor": 2, "byteorder": ">"},
    {"compression": "zlib", "predictor": 3, "dtype": "f4"},
    {"compression": "zstd", "predictor": 3, "dtype": "f8", "byteorder": ">"},
    {"compression": "zstd"},
    {"compression": "packbits", "dtype": "u1"},
    {"compression": "lzma"},
    {"compression": "jpeg2000"},
    {"compression": "jpeg", "dtype": "u1"},
    {"compression": "zlib", "dtype": "f2"},
]


@pytest.mark.parametrize("tile", [None, (16, 16)], ids=["strips", "tiles"])
@pytest.mark.parametrize("how", COMPRESSED, ids=lambda how: "-".join(map(str, how.values())))
def test_compressed(tmp_path: Path, how: dict[str, Any], tile: tuple[int, int] | None) -> None:
    options = dict(how)
    stack = (frames_of((3, 20, 37), "u1") // 8).astype(options.pop("dtype", "u2"))
    tifffile.imwrite(
        tmp_path / "a.tif",
        stack,
        photometric="minisblack",
        metadata=None,
        tile=tile,
        rowsperstrip=None if tile else 8,
        **options,
    )
    twin = tifffile.imread(tmp_path / "a.tif")
    assert np.array_equal(twin, stack) is (how["compression"] != "jpeg")
    check_boxes(tmp_path / "a.tif", twin, count=15)
    array = vfs.open(tmp_path / "a.tif")
    assert reader_of(array).decodes_whole
    assert reader_of(array).dataset.block == ((1, *tile) if tile else (1, 8, 37))
    assert len(pickle.dumps(reader_of(array).dataset.decoder)) < 2000


@pytest.mark.parametrize("planar", ["contig", "separate"])
def test_compressed_colours(tmp_path: Path, planar: str) -> None:
    shape = (3, 20, 37) if planar == "separate" else (20, 37, 3)
    twin = frames_of(shape, "u2")
    for how in ({"compression": "lzw", "predictor": 2}, {"compression": "zlib"}):
        for tile in (None, (16, 16)):
            tifffile.imwrite(
                tmp_path / "a.tif", twin, photometric="rgb", planarconfig=planar, metadata=None, tile=tile, **how
            )
            check_boxes(tmp_path / "a.tif", twin, count=10)


@pytest.mark.parametrize("dtype", ["u1", "i2", "u4", "f4", "f8"])
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("how", [{}, {"strip": 5}, {"tile": (16, 16)}, {"planar": True}], ids=str)
def test_deflate_is_inflated_to_where_it_belongs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: str, order: Any, how: dict[str, Any]
) -> None:
    """Without a copy; the same as what tifffile makes of the segments, which is not asked."""
    shape = (3, 3, 12, 21) if "planar" in how else (3, 12, 21)
    twin = frames_of(shape, dtype)
    path = write_tiff(tmp_path / "a.tif", list(twin), order=order, compression=8, encode=zlib.compress, **how)
    array = vfs.open(path)
    with monkeypatch.context() as patch:
        patch.setattr(segments, "quiet", None)
        same(array, twin)
    with monkeypatch.context() as patch:
        patch.setattr(segments, "_inflated", lambda header: None)
        same(vfs.open(path), twin)


@pytest.mark.parametrize(
    "broken",
    [
        lambda data: zlib.compress(data + b"more"),
        lambda data: zlib.compress(data[:-4]),
        lambda data: zlib.compress(data)[:-30],
        lambda data: zlib.compress(data)[:-1] + b"x",
        lambda data: b"nothing" + data[:20],
    ],
)
def test_deflate_that_does_not_inflate_to_a_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: Any
) -> None:
    """What tifffile says of it, and nothing else."""
    path = write_tiff(tmp_path / "a.tif", [frames_of((12, 21), "u2")], compression=8, encode=broken)

    def outcome() -> str:
        try:
            return str(vfs.open(path)[...].tolist())
        except vfs.DecodeError as error:
            return str(error)

    found = outcome()
    monkeypatch.setattr(segments, "_inflated", lambda header: None)
    assert found == outcome()
    assert "segment 0" in found


def test_fax(tmp_path: Path) -> None:
    """CCITT group 4 by hand: 4 white and 12 black pixels, then the same seven times, then the end of the block."""
    pytest.importorskip("imagecodecs", "2026.3", reason="imagecodecs before 2026.3 does not decode fax")
    bits = "001" + "1011" + "0000111" + "11" * 7 + "000000000001" * 2
    data = int(bits.ljust(-(-len(bits) // 8) * 8, "0"), 2).to_bytes(-(-len(bits) // 8), "big")
    twin = np.zeros((8, 16), "u1")
    twin[:, 4:] = 1
    path = write_tiff(tmp_path / "a.tif", [twin > 0], compression=4, encode=lambda _: data, tags={262: (SHORT, [0], 0)})
    same(vfs.open(path)[...], twin)


def test_palettes_are_indices(tmp_path: Path) -> None:
    twin = frames_of((9, 13), "u1")
    colours = {262: (SHORT, [3], 0), 320: (SHORT, list(range(768)), 0)}
    array = vfs.open(write_tiff(tmp_path / "a.tif", [twin], tags=colours))
    same(array[...], twin)
    assert array.attrs["photometric"] == "palette"


def test_fill_order(tmp_path: Path) -> None:
    twin = frames_of((4, 12), "u1") % 2
    mirrored = lambda data: bytes(int(f"{byte:08b}"[::-1], 2) for byte in data)  # noqa: E731
    same(vfs.open(write_tiff(tmp_path / "a.tif", [twin > 0], encode=mirrored, tags={266: (SHORT, [2], 0)}))[...], twin)


def test_blank_tiles(tmp_path: Path) -> None:
    """Tiles that were never written (GDAL: offset and byte count 0) are blank; one of the two alone is garbled."""
    twin = frames_of((32, 32), "u2")
    path = write_tiff(tmp_path / "a.tif", [twin], tile=(16, 16))
    data = path.read_bytes()
    offsets = struct.pack("<4I", *(8 + 512 * k for k in range(4)))
    sizes = struct.pack("<4I", *[512] * 4)
    at, by = data.rindex(offsets) + 4, data.rindex(sizes) + 4
    blank = bytearray(data)
    blank[at : at + 4] = blank[by : by + 4] = bytes(4)
    path.write_bytes(blank)
    twin[:16, 16:] = 0
    check_boxes(path, twin, count=10)
    blank[by : by + 4] = b"\0\2\0\0"
    path.write_bytes(blank)
    refuses(path, "garbled", kind=vfs.FormatError)


def test_no_byte_counts(tmp_path: Path) -> None:
    """Old writers left them out: of uncompressed pages they follow from the shape."""
    twin = frames_of((8, 9), "u2")
    path = write_tiff(tmp_path / "a.tif", [twin])
    data = path.read_bytes()
    path.write_bytes(data.replace(struct.pack("<HHI", 279, LONG, 1), struct.pack("<HHI", 280, LONG, 1)))
    same(vfs.open(path)[...], twin)
    path.write_bytes(data.replace(struct.pack("<HHII", 279, LONG, 1, 144), struct.pack("<HHII", 279, LONG, 1, 143)))
    refuses(path, "143", "144", kind=vfs.FormatError)


def test_only_what_is_asked_for_is_read(tmp_path: Path) -> None:
    twin = frames_of((4, 64, 64), "u2")
    for how in ({}, {"strip": 8, "gap": 2}, {"tile": (16, 16)}):
        dataset = reader_of(vfs.open(write_tiff(tmp_path / "a.tif", list(twin), **how))).dataset
        backend = CountingBackend(BufferedBackend(dataset.files))
        array = vfs.engine.array.ArrayReader(dataset, backend)
        same(array.read((slice(2, 3), slice(30, 31), slice(0, 16))), twin[2:3, 30:31, :16])
        assert backend.nbytes <= 8192, how  # a page of memory around 32 bytes, of 32 KiB


def test_a_large_stack_opens_without_a_page_object_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = write_tiff(tmp_path / "a.tif", [np.zeros((2, 2), "u1")]).read_bytes()[8:]
    size = len(one)
    data = bytearray(b"II*\0" + struct.pack("<I", 8 + 4))
    for k in range(20_000):  # the writer's page again and again, each pointing to its own pixels and to the next
        at = len(data)
        page = bytearray(one)
        page[:4] = struct.pack("<I", k)
        where = page.index(struct.pack("<HHI", 273, LONG, 1)) + 8
        page[where : where + 4] = struct.pack("<I", at)
        page[-4:] = struct.pack("<I", at + size + 4 if k < 19_999 else 0)
        data += page
    (tmp_path / "b.tif").write_bytes(data)
    made = []
    init = tifffile.TiffPage.__init__
    monkeypatch.setattr(tifffile.TiffPage, "__init__", lambda self, *a, **k: (made.append(1), init(self, *a, **k))[1])
    array = vfs.open(tmp_path / "b.tif")
    assert array.shape == (20_000, 2, 2)
    assert len(made) <= 1
    same(array[...].reshape(-1, 4).view("<u4")[:, 0].astype("i8"), np.arange(20_000))


def test_directories_in_any_form(tmp_path: Path) -> None:
    """Pages whose directories differ in length or order of bytes are told apart from those that
    differ only in places.
    """
    twin = frames_of((4, 6, 5), "u2")
    first = write_tiff(tmp_path / "a.tif", list(twin[:2]), description="only the first page has one")
    second = write_tiff(tmp_path / "b.tif", list(twin[2:]), tags={305: (2, b"vfs\0", 0)})
    check_boxes([first, second], twin.reshape(2, 2, 6, 5), count=5)
    cut = write_tiff(tmp_path / "d.tif", list(twin[2:]), strip=4)
    check_boxes([first, cut, second], np.concatenate([twin[:2], twin[2:], twin[2:]]).reshape(3, 2, 6, 5), count=5)
    for how in ({"strip": 4, "gap": 2}, {"order": ">"}, {"tile": (16, 16)}):
        check_boxes([first, write_tiff(cut, list(twin[2:]), **how)], twin.reshape(2, 2, 6, 5), count=5)


# series


@pytest.mark.parametrize("tagged", [(False, True), (True, False), (True, True), (False, False)])
def test_a_preview_before_the_numbers_of_a_camera_is_not_the_main_array(
    tmp_path: Path, tagged: tuple[bool, bool]
) -> None:
    """Olympus: pixels in colour with the scale bar burnt in, then the numbers, which have its tag."""
    preview, numbers = frames_of((8, 9, 3), "u1"), frames_of((8, 9), "u2")
    path = tmp_path / "set.tif"
    with tifffile.TiffWriter(path) as writer:
        for page, tag in zip((preview, numbers), tagged, strict=True):
            tags = [(33560, 7, 8, b"SIS0\0\0\0\0", True)] * tag
            how = "rgb" if page.ndim == 3 else "minisblack"
            writer.write(page, photometric=how, metadata=None, extratags=tags)
    same(vfs.open(path)[...], numbers if tagged == (False, True) else preview)


@pytest.mark.parametrize(("order", "big"), [("<", False), (">", True)])
@pytest.mark.parametrize(("kind", "mask"), [(1, False), (4, True), (9, False)])
def test_a_thumbnail_label_or_mask_is_never_the_main_array(
    tmp_path: Path, order: str, big: bool, kind: int, mask: bool
) -> None:
    """By NewSubfileType, in files that another library writes, whichever page comes first."""
    small, large = frames_of((6, 5), "u2"), frames_of((80, 90), "u1") > 99 if mask else frames_of((8, 9, 3), "u1")
    pages = [(small, 0), (large, kind)]
    for name, some in (("a.tif", pages), ("b.tif", pages[::-1])):
        with tifffile.TiffWriter(tmp_path / name, byteorder=order, bigtiff=big) as writer:
            for page, said in some:
                writer.write(
                    page, subfiletype=said, metadata=None, photometric="rgb" if page.ndim == 3 else "minisblack"
                )
        same(vfs.open(tmp_path / name)[...], small)
    with tifffile.TiffWriter(tmp_path / "c.tif") as writer:  # all there is
        writer.write(large, subfiletype=kind, metadata=None, photometric="minisblack" if mask else "rgb")
        writer.write(small > 9 if mask else small, subfiletype=kind, metadata=None, photometric="minisblack")
    same(vfs.open(tmp_path / "c.tif")[...], large.astype("u1"))


def test_several_series(tmp_path: Path) -> None:
    a, b, c = frames_of((3, 6, 5), "u2"), frames_of((7, 20), "f4"), frames_of((2, 4, 4, 3), "u1")
    path = write_tiff(tmp_path / "a.tif", [a[0], b, a[1], c[0], a[2], c[1]])
    group = vfs.open_group(path)
    assert set(group) == {"series_0/data", "series_1/data", "series_2/data"}
    assert reader_of(group.main).dataset.path == "series_0/data"  # its first page comes first, as in ImageJ
    for k, twin in enumerate((a, b, c)):
        check_boxes(path, twin, f"series_{k}/data", count=5)


def test_smaller_versions(tmp_path: Path) -> None:
    twin = frames_of((3, 33, 20), "u2")
    levels = [[page[::2, ::2], page[::4, ::4]] for page in twin]
    path = write_tiff(tmp_path / "a.tif", list(twin), smaller=levels, tile=(16, 16))
    assert set(vfs.open_group(path)) == {"data", "level_1/data", "level_2/data"}
    check_boxes(path, twin, count=5)
    check_boxes(path, twin[:, ::2, ::2], "level_1/data", count=5)
    check_boxes(path, twin[:, ::4, ::4], "level_2/data", count=5)
    flat = write_tiff(tmp_path / "b.tif", [twin[0], twin[0, ::2, ::2], twin[0, ::4, ::4], twin[0, 1:9, 3:9]])
    assert set(vfs.open_group(flat)) == {
        "series_0/data",
        "series_0/level_1/data",
        "series_0/level_2/data",
        "series_1/data",
    }


def test_a_page_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    twin = frames_of((6, 5), "u2")
    odd = write_tiff(tmp_path / "a.tif", [twin, np.zeros((3, 3), "u2")]).read_bytes()
    at = odd.rindex(struct.pack("<HHII", 259, SHORT, 1, 1))
    path = tmp_path / "b.tif"
    path.write_bytes(odd[:at] + struct.pack("<HHII", 259, SHORT, 1, 55555) + odd[at + 12 :])
    array = warned(path, "55555")
    same(array[...], twin)
    assert "55555" in array.attrs["left_out"][0]
    assert array.group.attrs["vfs"]["incomplete"] == {"frames_left_out": 1}
    refuses(write_tiff(path, [twin], compression=55555), "55555", kind=vfs.FormatError)


@pytest.mark.parametrize("order", ["<", ">"])
def test_imagej(tmp_path: Path, order: str) -> None:
    twin = frames_of((2, 3, 4, 9, 8), "u2")
    path = tmp_path / "a.tif"
    tifffile.imwrite(
        path, twin, imagej=True, metadata={"axes": "TZCYX", "unit": "um"}, resolution=(4, 2), byteorder=order
    )
    array = vfs.open(path)
    assert (array.dims, reader_of(array).dataset.nav_ndim) == (("t", "z", "c", "y", "x"), 3)
    assert array.attrs["metadata_of"] == "imagej"
    assert array.attrs["calibration"] == {
        "x": {"scale": 0.25, "offset": 0.0, "unit": "um"},
        "y": {"scale": 0.5, "offset": 0.0, "unit": "um"},
    }
    assert "unit=um" in array.attrs["description"]
    check_boxes(path, twin, count=10)
    assert vfs.open(path, plain=True).shape == (24, 9, 8)


def test_imagej_without_directories(tmp_path: Path) -> None:
    """ImageJ writes stacks beyond 4 GiB with one directory: the planes follow on each other."""
    twin = frames_of((6, 9, 8), "u2")
    one = write_tiff(
        tmp_path / "a.tif",
        [twin.reshape(54, 8)],
        description="ImageJ=1.53\nimages=6\nslices=6\n",
        tags={257: (LONG, [9], 0), 278: (LONG, [9], 0)},
    )
    check_boxes(one, twin, count=10)
    assert vfs.open(one).dims == ("z", "y", "x")
    short = write_tiff(tmp_path / "b.tif", [twin[0]], description="ImageJ=1.53\nimages=600\nslices=600\n")
    refuses(short, "truncated", "plain", kind=vfs.TruncatedSourceError)
    same(vfs.open(short, plain=True)[...], twin[0])
    count, where = 1_000_001, {273: (LONG, [4096], 0)}  # more than a text that is garbled may say
    many = write_tiff(
        tmp_path / "c.tif", [twin[0]], description=f"ImageJ=1.53\nimages={count}\nframes={count}\n", tags=where
    )
    os.truncate(many, 4096 + count * 144)
    assert vfs.open(many).shape == (count, 9, 8)


def test_written_by_tifffile(tmp_path: Path) -> None:
    twin = frames_of((2, 3, 9, 8), "f4")
    for name, options in (
        ("a", {"metadata": {"axes": "QTYX"}}),
        ("b", {"contiguous": True}),
        ("c", {"compression": "zlib"}),
        ("d", {"truncate": True}),
    ):
        tifffile.imwrite(tmp_path / f"{name}.tif", twin, photometric="minisblack", **options)
        check_boxes(tmp_path / f"{name}.tif", twin, count=5)
    assert vfs.open(tmp_path / "a.tif").dims == ("frame", "t", "y", "x")
    assert vfs.open(tmp_path / "b.tif").dims == ("frame", "frame_1", "y", "x")
    tifffile.imwrite(tmp_path / "e.tif", np.arange(12, dtype="u2"))
    same(vfs.open(tmp_path / "e.tif")[...].ravel(), np.arange(12, dtype="u2"))


_FLAT, _THICK = (16, 16), (16, 16, 16)


@pytest.mark.parametrize("more", [{}, {"compression": "zlib"}])
@pytest.mark.parametrize(
    ("shape", "tile"),
    [
        ((1, 1, 9), _FLAT),
        ((1, 7, 1), _FLAT),
        ((1, 1, 7, 1, 1), _FLAT),
        ((2, 9, 1, 1), _FLAT),
        ((5, 20, 1), _FLAT),
        ((1, 7, 9), _THICK),
        ((3, 1, 1, 9, 1), _THICK),
    ],
)
def test_tiles_longer_than_an_axis_of_one_pixel(
    tmp_path: Path, shape: tuple[int, ...], more: dict[str, Any], tile: tuple[int, ...]
) -> None:
    twin = frames_of(shape, "u2")
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, twin, tile=tile, photometric="minisblack", **more)
    got = vfs.open(path)
    assert got.shape == shape
    same(got[...], twin)
    same(got[..., -1, :], twin[..., -1, :])


@pytest.mark.parametrize("behind", [{"imagej": True}, {"metadata": None}, {"metadata": None, "compression": "zlib"}])
@pytest.mark.parametrize("before", [{}, {"tile": (16, 16)}, {"compression": "zlib"}, {"contiguous": False}])
@pytest.mark.parametrize("shape", [(7, 9), (4, 7, 9)])
def test_pages_appended_by_others_than_tifffile(
    tmp_path: Path, shape: tuple[int, ...], before: dict[str, Any], behind: dict[str, Any]
) -> None:
    """tifffile gives up on its own description then: it says nothing of the pages behind, and is no
    sign of a truncated file.
    """
    twin, other = frames_of(shape, "u2"), frames_of((2, 5, 6), "u1")
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, twin, photometric="minisblack", **before)
    tifffile.imwrite(path, other, photometric="minisblack", append=True, **behind)
    group = vfs.open_group(path)
    assert group.keys() == {"series_0/data", "series_1/data"}
    same(group["series_0/data"][...], twin)
    same(group["series_1/data"][...], other)


def test_planes_behind_a_page_without_a_directory_are_not_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    twin, other = frames_of((4, 7, 9), "u2"), frames_of((5, 7, 9), "u2")
    with tifffile.TiffWriter(path) as writer:
        writer.write(twin, photometric="minisblack", truncate=True)
    tifffile.imwrite(path, other, photometric="minisblack", append=True, metadata=None)
    group = vfs.open_group(path)
    same(group["series_0/data"][...], twin)
    same(group["series_1/data"][...], other)


def test_pyramids_written_by_tifffile(tmp_path: Path) -> None:
    twin = frames_of((3, 32, 40), "u2")
    with tifffile.TiffWriter(tmp_path / "a.tif") as file:
        how = {"photometric": "minisblack", "tile": (16, 16), "compression": "zlib", "metadata": {"axes": "TYX"}}
        file.write(twin, subifds=2, **how)
        for step in (2, 4):
            file.write(twin[:, ::step, ::step], subfiletype=1, **how)
    assert vfs.open(tmp_path / "a.tif").dims == ("t", "y", "x")
    for name, step in (("data", 1), ("level_1/data", 2), ("level_2/data", 4)):
        check_boxes(tmp_path / "a.tif", twin[:, ::step, ::step], name, count=5)


def test_scanimage(tmp_path: Path) -> None:
    twin = frames_of((4, 6, 5), "i2")
    array = vfs.open(write_tiff(tmp_path / "a.tif", list(twin), tags={305: (2, b"SI.5.2.3\0", 0)}))
    assert (array.attrs["metadata_of"], array.attrs["software"]) == ("scanimage", "SI.5.2.3")
    same(array[...], twin)


def test_metadata_that_do_not_fit(tmp_path: Path) -> None:
    """One line that names the file and the way round them, for metadata of every vendor."""
    twin = frames_of((4, 6, 5), "u2")
    for k, options in enumerate(
        (
            {"tags": {34362: (7, b"abc\0" * 300, 0), 34361: (7, b"x" * 500, 0)}},
            {"tags": {34412: (7, b"\x4c\x49\x04\0" + bytes(500), 0)}},
            {"tags": {33628: (LONG, [1, 2], 0), 33629: (5, bytes(range(96)), 4)}},
            {"description": '{"shape": [7, 6, 5]}'},
            {"description": "ImageJ=1.53\nimages=12\nslices=4\nframes=3\nhyperstack=true\n"},
        )
    ):
        path = write_tiff(tmp_path / f"{k}.tif", list(twin), **options)  # type: ignore[arg-type]
        refuses(path, f"{k}.tif", "plain=True")
        same(vfs.open(path, plain=True)[...], twin)


def test_metamorph(tmp_path: Path) -> None:
    """MetaMorph stores planes one after the other, with one directory and the number of planes in a tag of its own."""
    twin = frames_of((3, 4, 5), "u2")
    about = b"".join(struct.pack("<6I", k + 1, 1, 2440000, 1000 * k, 0, 0) for k in range(3))
    tags = {257: (LONG, [4], 0), 33628: (LONG, [0, 0], 0), 33629: (5, about, 3)}
    path = write_tiff(tmp_path / "a.stk", [twin.reshape(12, 5)], strip=4, tags=tags)
    check_boxes(path, twin, count=5)
    assert vfs.open(path).dims == ("z", "y", "x")


# sequences


def test_sequences(tmp_path: Path) -> None:
    twin = frames_of((12, 6, 5), "u2")
    paths = [write_tiff(tmp_path / f"img_{k}.tif", [page], strip=2, gap=k % 2 * 4) for k, page in enumerate(twin)]
    check_boxes(str(tmp_path / "img_*.tif"), twin)  # img_2 before img_10
    assert vfs.open(paths).dims == ("frame", "y", "x")
    same(vfs.open(paths[::-1])[...], twin[::-1])
    stacks = [write_tiff(tmp_path / f"stack_{k}.tif", list(twin[k : k + 4])) for k in (0, 4, 8)]
    check_boxes(stacks, twin.reshape(3, 4, 6, 5), count=10)
    assert vfs.open(stacks).dims == ("file", "frame", "y", "x")
    same(vfs.open(stacks, concatenate=True)[...], twin)


def test_sequences_of_unlike_files(tmp_path: Path) -> None:
    twin = frames_of((5, 6, 5), "u2")
    parts = [write_tiff(tmp_path / "a.tif", list(twin[:3])), write_tiff(tmp_path / "b.tif", list(twin[3:]))]
    refuses(parts, "b.tif", "concatenate", kind=vfs.FormatError)
    array = vfs.open(parts, concatenate=True)
    assert array.dims == ("frame", "y", "x")
    same(array[...], twin)
    refuses(
        [parts[0], write_tiff(tmp_path / "c.tif", [frames_of((6, 6), "u2")] * 3)],
        "c.tif",
        "alike",
        kind=vfs.FormatError,
    )
    refuses(
        [parts[0], write_tiff(tmp_path / "d.tif", [frames_of((6, 5), "i2")] * 3)],
        "d.tif",
        "alike",
        kind=vfs.FormatError,
    )
    two = [write_tiff(tmp_path / f"{k}.tif", [twin[0], frames_of((3, 3), "u1")]) for k in "ef"]
    assert {name: array.shape for name, array in vfs.open_group(two).items()} == {
        "series_0/data": (2, 6, 5),
        "series_1/data": (2, 3, 3),
    }


def test_compressed_sequences(tmp_path: Path) -> None:
    twin = frames_of((4, 20, 18), "u2")
    paths = [
        write_tiff(tmp_path / f"{k}.tif", [page], compression=8, encode=zlib.compress, tile=(16, 16), order="<>"[k % 2])
        for k, page in enumerate(twin)
    ]
    check_boxes(paths, twin)
    paths = [
        write_tiff(tmp_path / f"{k}.tif", [page], compression=8, encode=zlib.compress, tile=(16, 16))
        for k, page in enumerate(twin)
    ]
    check_boxes(paths, twin)


# what is not what it says


def _patched(path: Path, tag: int, kind: int, value: int, count: int = 1, nth: int = 0) -> Path:
    """Change the type, count and value of a page's entry."""
    data = bytearray(path.read_bytes())
    at = -1
    for _ in range(nth + 1):
        at = data.index(struct.pack("<H", tag), at + 1)
    data[at : at + 12] = struct.pack("<HHII", tag, kind, count, value)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("tag", "kind", "value", "count"),
    [
        (256, LONG, 1 << 31, 1),
        (256, LONG, 0, 1),
        (257, LONG, (1 << 32) - 1, 1),
        (257, 9, 4, 1),
        (257, 99, 4, 1),
        (258, SHORT, 0, 1),
        (258, SHORT, 65535, 1),
        (258, SHORT, 8, (1 << 32) - 1),
        (258, SHORT, 64, 1),
        (259, SHORT, 60000, 1),
        (273, LONG, 1 << 31, 1),
        (273, LONG, 8, (1 << 32) - 1),
        (273, LONG, 8, 0),
        (273, SHORT, 0, 1),
        (277, SHORT, 65535, 1),
        (278, LONG, 0, 1),
        (279, LONG, 3, 1),
        (279, LONG, 8, (1 << 32) - 1),
        (339, SHORT, 77, 1),
    ],
)
def test_garbled_tags(tmp_path: Path, tag: int, kind: int, value: int, count: int) -> None:
    for options in ({}, {"compression": 8, "encode": zlib.compress}):
        path = _patched(write_tiff(tmp_path / "a.tif", [frames_of((7, 5), "u2")], **options), tag, kind, value, count)
        with pytest.raises(vfs.VfsError) as caught:
            vfs.open(path)[...]
        assert "a.tif" in one_line(caught.value)


def test_absurd_sizes_of_compressed_pages(tmp_path: Path) -> None:
    """A kilobyte may not claim to be a picture of gigabytes: nothing of that size is allocated."""
    path = write_tiff(tmp_path / "a.tif", [frames_of((20, 20), "u1")], compression=8, encode=zlib.compress)
    _patched(_patched(path, 256, LONG, 1 << 17), 257, LONG, 1 << 17)
    refuses(_patched(path, 278, LONG, 1 << 17), "absurd", kind=vfs.FormatError)


def test_directories_in_a_circle(tmp_path: Path) -> None:
    path = write_tiff(tmp_path / "a.tif", list(frames_of((300, 2, 2), "u1")))
    data = bytearray(path.read_bytes())
    first = struct.unpack_from("<I", data, 4)[0]
    data[-4:] = struct.pack("<I", first)
    path.write_bytes(data)
    refuses(path, "circle", kind=vfs.FormatError)
    second = struct.unpack_from("<I", data, first + 2 + 12 * struct.unpack_from("<H", data, first)[0])[0]
    data[-4:] = struct.pack("<I", second)
    path.write_bytes(data)
    refuses(path, "circle", kind=vfs.FormatError)


def test_directories_that_overlap(tmp_path: Path) -> None:
    """Directories that share their bytes, each of a thousand entries and 12 bytes further on, are
    refused as soon as they claim more than the file has.
    """
    data = bytearray(b"II*\0" + struct.pack("<I", 8) + bytes(20_000))
    for k in range(500):
        struct.pack_into("<H", data, 8 + 12 * k, 1000)
        struct.pack_into("<I", data, 8 + 12 * k + 2 + 12_000, 8 + 12 * (k + 1))
    (tmp_path / "a.tif").write_bytes(data)
    table = PageTable(LocalSources())
    assert "overlap" in str(table.add(str(tmp_path / "a.tif")).cut)
    assert len(table.at) < 10


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"", "empty"),
        (b"II", "begins with"),
        (b"II*\0", "truncated"),
        (b"II*\0\0\0\0\0", "without pages"),
        (b"II*\0\xff\xff\xff\xff", "truncated"),
        (b"II+\0\x08\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff", "truncated"),
        (b"MM\0*\0\0\0\x08\0\0", "0 entries"),
        (b"MM\0*\0\0\0\x08\xff\xff" + bytes(100), "65,535 entries"),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "PNG"),
        (b"just text, named like a picture", "just"),
    ],
)
def test_foreign_and_garbled(tmp_path: Path, data: bytes, word: str) -> None:
    path = tmp_path / "a.tif"
    path.write_bytes(data)
    assert word in refuses(path, "a.tif", format="tiff", kind=(vfs.FormatError, vfs.TruncatedSourceError))  # type: ignore[arg-type]
    refuses(path, "a.tif")


def test_missing_files(tmp_path: Path) -> None:
    path = write_tiff(tmp_path / "a.tif", [frames_of((4, 4), "u1")])
    refuses([path, tmp_path / "b.tif"], "b.tif", kind=vfs.MissingSourceError)
    refuses(tmp_path, kind=vfs.SourceError, format="tiff")


def test_a_segment_that_does_not_decode(tmp_path: Path) -> None:
    twin = frames_of((4, 16, 16), "u2")
    for encode in (lambda data: b"\x99" * 40, lambda data: zlib.compress(data[:100])):
        path = write_tiff(tmp_path / "a.tif", list(twin), compression=8, encode=encode)
        with pytest.raises(vfs.DecodeError) as caught:
            vfs.open(path)[1]
        assert "a.tif" in one_line(caught.value)


def test_many_threads(tmp_path: Path) -> None:
    twin = frames_of((40, 20, 18), "u2")
    path = write_tiff(tmp_path / "a.tif", list(twin), compression=8, encode=zlib.compress, strip=7)
    array = vfs.open(path)
    tiny_page.cache_clear()
    with ThreadPoolExecutor(8) as pool:
        for k, got in enumerate(pool.map(lambda k: array[k], range(40))):
            same(got, twin[k])


def test_detected_by_content(tmp_path: Path) -> None:
    for k, (order, big) in enumerate(itertools.product("<>", (False, True))):
        path = write_tiff(tmp_path / f"{k}.dat", [frames_of((4, 4), "u1")], order=order, big=big)
        assert detect(LocalSources(), str(path)).name == "tiff"
    path.write_bytes(path.read_bytes()[:-1])
    assert (
        detect(LocalSources(), str(path)).name == "tiff"
    )  # a truncated one is still a TIFF, and opening says what is wrong


def test_nothing_on_the_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        path = write_tiff(
            tmp_path / "a.tif",
            [frames_of((4, 6), "u1")],
            strip=2,
            description="ImageJ=1.53\nimages=9\nslices=9\n",
            compression=8,
            encode=zlib.compress,
        )
        refuses(path)
        vfs.open(path, plain=True)[...]
    assert (capfd.readouterr(), caplog.records) == (("", ""), [])
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("tifffile").warning("of someone else")
    assert len(caplog.records) == 1


def test_without_tifffile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_tiff(tmp_path / "a.tif", [frames_of((11, 3), "u1")], compression=8, encode=zlib.compress)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "tifffile", None)
        refuses(path, "pip install 'vfs[tiff]'", kind=vfs.DependencyError)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "imagecodecs", None)
        refuses(path, "imagecodecs", "pip install 'vfs[tiff]'", kind=vfs.DependencyError)
    assert vfs.open(path).shape == (11, 3)


def test_a_picture_larger_than_its_page_is_not_decoded(tmp_path: Path) -> None:
    """The decoder of JPEG 2000 allocates what the codestream says: that is compared with the page first."""
    data = bytearray(imagecodecs.jpeg2k_encode(frames_of((16, 16), "u1")))
    at = data.index(b"\xff\x4f\xff\x51") + 8
    path = write_tiff(tmp_path / "a.tif", [frames_of((16, 16), "u1")], compression=34712, encode=lambda _: bytes(data))
    assert vfs.open(path)[...].shape == (16, 16)
    data[at : at + 8] = struct.pack(">2I", 60_000, 60_000)
    write_tiff(path, [frames_of((16, 16), "u1")], compression=34712, encode=lambda _: bytes(data))
    with pytest.raises(vfs.DecodeError, match="3,600,000,000 samples"):
        vfs.open(path)[...]


def test_long_offsets(tmp_path: Path) -> None:
    """BigTIFF may say small numbers in any type, and numbers of pages and places beyond what any file has."""
    twin = frames_of((6, 5), "u2")
    path = write_tiff(tmp_path / "a.tif", [twin], big=True, tags={256: (LONG8, [5], 0), 257: (SHORT, [6], 0)})
    same(vfs.open(path)[...], twin)
    for tags in ({256: (LONG8, [1 << 60], 0)}, {273: (LONG8, [(1 << 64) - 2], 0)}):
        refuses(write_tiff(path, [twin], big=True, tags=tags), "a.tif")
