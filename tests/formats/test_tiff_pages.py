"""TIFF pages that are stored otherwise than the first one, that cannot stand in its stack, that were
never written, and that a cut file does not have.
"""

from __future__ import annotations

import os
import struct
import warnings
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vfs
from tests.formats.frame_checks import check_boxes, frames_of, opens_incomplete, refuses, same, unwarned, warned
from vfs.testing.tiff_writers import SHORT, write_tiff

tifffile = pytest.importorskip("tifffile", reason="reading TIFF needs tifffile")
pytest.importorskip("imagecodecs", reason="compressed TIFF needs imagecodecs")

TEXTS = {
    "no text": "",
    "ImageJ": "ImageJ=1.53t\nimages=6\nslices=2\nframes=3\n",
    "tifffile": '{"shape": [3, 2, 20, 37], "axes": "TZYX"}',
    "tifffile, old": "shape=(6, 20, 37)",
}
HOW: list[dict[str, Any]] = [
    {},
    {"rowsperstrip": 3},
    {"tile": (16, 16)},
    {"compression": "zlib"},
    {"compression": "lzw", "predictor": 2},
    {"compression": "packbits"},
    {"compression": "zstd", "tile": (32, 16)},
    {"photometric": "miniswhite"},
    {"compression": "lzma", "rowsperstrip": 7},
]


def _shown(text: str, pages: np.ndarray) -> np.ndarray:
    return pages.reshape(3, 2, *pages.shape[1:]) if TEXTS[text] and "old" not in text else pages


@settings(max_examples=25, deadline=None)
@given(
    how=st.lists(st.sampled_from(HOW), min_size=6, max_size=6),
    dtype=st.sampled_from(["u1", "i2", "u4", "f4"]),
    order=st.sampled_from("<>"),
    text=st.sampled_from(list(TEXTS)),
)
def test_every_page_is_read_as_its_own_tags_say(
    tmp_path_factory: pytest.TempPathFactory, how: Sequence[dict[str, Any]], dtype: str, order: Any, text: str
) -> None:
    path = tmp_path_factory.mktemp("pages") / "a.tif"
    twin = frames_of((6, 20, 37), dtype)
    with tifffile.TiffWriter(path, byteorder=order) as file:
        for k, (page, one) in enumerate(zip(twin, how, strict=True)):
            said = TEXTS[text] if k == 0 else None
            predictor = {"predictor": False} if dtype == "f4" else {}
            options = {"photometric": "minisblack", **one, **predictor}
            file.write(page, metadata=None, description=said or None, **options)
    with tifffile.TiffFile(path) as file:
        assert np.array_equal(np.stack([page.asarray() for page in file.pages]), twin)
    check_boxes(path, _shown(text, twin), count=5)
    same(vfs.open(path, nav_shape=(2, 2), sync_offset=1)[...], twin[1:5].reshape(2, 2, 20, 37))
    same(vfs.open(path, roi=[5, 0, 5])[...], twin[[5, 0, 5]])


def test_nothing_is_remembered_of_a_file_that_was_written_anew(tmp_path: Path) -> None:
    """Also where name and time are the same: other sizes, dtypes, byte orders and compressions, plain and not."""
    path = tmp_path / "a.tif"
    for n in range(24):
        twin = frames_of((6, 16 + 4 * (n % 3), 20), ["u2", "u1", "f4"][n % 3 - n % 2])
        with tifffile.TiffWriter(path, byteorder="<>"[n % 2]) as file:
            for k, page in enumerate(twin):
                one = None if k == n % 6 else ["zlib", "lzw", "packbits", "zstd"][(k + n) % 4]
                file.write(page, metadata=None, compression=one)
        os.utime(path, (1e9, 1e9))
        for plain in (n % 2 == 0, n % 2 == 1):
            (array,) = vfs.open_group(path, plain=plain).values()
            same(array[...], twin)


@pytest.mark.parametrize("first", ["contig", "separate"])
def test_samples_in_either_order(tmp_path: Path, first: str) -> None:
    """The first page says where the axis of samples is, for pages and files in either order, plain or not."""
    twin = frames_of((4, 20, 37, 3), "u2")
    how: list[dict[str, Any]] = [
        {},
        {"tile": (16, 16)},
        {"compression": "zlib", "rowsperstrip": 6},
        {"rowsperstrip": 4},
    ]
    orders = ["contig", "separate", "separate", "contig"]
    with tifffile.TiffWriter(tmp_path / "a.tif") as file:
        for k, (page, one) in enumerate(zip(twin, how, strict=True)):
            planar = orders[k] if first == "contig" else orders[k - 1]
            shown = np.moveaxis(page, -1, 0) if planar == "separate" else page
            file.write(shown, photometric="rgb", planarconfig=planar, metadata=None, **one)
    want = twin if first == "contig" or orders[-1] == "contig" else np.moveaxis(twin, -1, 1)
    check_boxes(tmp_path / "a.tif", want, count=10)
    planar = write_tiff(tmp_path / "b.tif", [np.moveaxis(twin[0], -1, 0)], planar=True, order=">")
    chunky = write_tiff(tmp_path / "c.tif", [twin[1]], strip=3)
    check_boxes([planar, chunky], np.moveaxis(twin[:2], -1, 1), count=5)
    check_boxes([chunky, planar], twin[1::-1], count=5)


def test_files_of_a_sequence_that_are_stored_differently(tmp_path: Path) -> None:
    twin = frames_of((5, 8, 9), "u2")
    how: list[dict[str, Any]] = [
        {},
        {"compression": 8, "encode": zlib.compress},
        {"order": ">"},
        {"strip": 3},
        {"big": True},
    ]
    paths = [
        write_tiff(tmp_path / f"{k}.tif", [page], **one) for k, (page, one) in enumerate(zip(twin, how, strict=True))
    ]
    check_boxes(paths, twin, count=10)
    masks = write_tiff(tmp_path / "5.tif", [twin[0]], tags={262: (SHORT, [4], 0)})
    refuses([paths[0], masks], "uint16[8, 9] (a mask), expected uint16[8, 9] as in", "0.tif", kind=vfs.FormatError)


@pytest.mark.parametrize("text", ["no text", "ImageJ", "tifffile"])
def test_a_page_that_cannot_stand_in_the_stack(tmp_path: Path, text: str) -> None:
    """Its place is blank, and it is an array of its own. One that cannot be read is an error."""
    twin = frames_of((6, 20, 37), "u2")
    other = frames_of((3, 3), "f4")
    blank = twin.copy()
    blank[4] = 0
    path = write_tiff(tmp_path / "a.tif", [*twin[:4], other, twin[5]], description=TEXTS[text])
    group = opens_incomplete(path, "float32[3, 3], expected uint16[20, 37]", counts={"frames_missing": 1})
    same(group["series_0/data"][...], _shown(text, blank))
    same(group["series_1/data"][...], other)
    assert group["series_0/data"].valid.reshape(-1).tolist() == [True] * 4 + [False, True]
    path = write_tiff(tmp_path / "b.tif", list(twin), description=TEXTS[text])
    data = bytearray(path.read_bytes())
    at = -1
    for _ in range(5):
        at = data.index(struct.pack("<HHI", 259, SHORT, 1), at + 1)
    data[at + 8 : at + 10] = struct.pack("<H", 55555)
    path.write_bytes(data)
    group = opens_incomplete(path, "55555", counts={"frames_missing": 1}, kind=vfs.FormatError)
    same(group.main[...], _shown(text, blank))


def test_pages_of_several_kinds_are_no_stack_with_holes(tmp_path: Path) -> None:
    """Where pages alternate, or those between are more than the others, nothing is blank."""
    a, b, c = frames_of((3, 6, 5), "u2"), frames_of((3, 7, 8), "u1"), frames_of((2, 9, 9), "u1")
    group = vfs.open_group(write_tiff(tmp_path / "a.tif", [a[0], b[0], a[1], b[1], a[2], b[2]]))
    same(group["series_0/data"][...], a)
    same(group["series_1/data"][...], b)
    group = vfs.open_group(write_tiff(tmp_path / "b.tif", [a[0], a[1], b[0], c[0], c[1], a[2]]))
    same(group["series_0/data"][...], a)


@pytest.mark.parametrize(
    "text",
    [
        '{"shape": [10, 32, 40]}',
        '{"shape": [10, 32, 40], "axes": "TYX"}',
        '{"shape": [5, 7, 3], "axes": "TYX"}',
        '{"shape": [4, 16, 20]}',
        "shape=(10, 8, 10)",
        "ImageJ=1.53t\nimages=4\nslices=4\n",
        "ImageJ=1.53t\nimages=0\nslices=0\n",
        "ImageJ=1.53t\nimages=9999999999\nslices=99999\nframes=100000\n",
    ],
)
def test_a_text_that_no_longer_fits_the_pages(tmp_path: Path, text: str) -> None:
    twin = frames_of((10, 16, 20), "u2")
    path = write_tiff(tmp_path / "a.tif", list(twin), description=text)
    with unwarned():
        group = vfs.open_group(path)
    assert list(group) == ["data"]
    same(group.main[...], twin)
    if "slices=0" not in text:
        warned(path, "text says", "uint16[10, 16, 20]", "not used")


@pytest.mark.parametrize("append", [False, True])
def test_pages_written_one_by_one_by_tifffile(tmp_path: Path, append: bool) -> None:
    """Each has a text of its own, which tells nothing but its size: they are one stack."""
    twin = frames_of((4, 16, 20), "u2")
    for k, (page, one) in enumerate(zip(twin, (None, "zlib", "lzw", "packbits"), strict=True)):
        tifffile.imwrite(tmp_path / "a.tif", page, compression=one, append=append and k > 0)
    if not append:
        with tifffile.TiffWriter(tmp_path / "a.tif") as file:
            for page in twin:
                file.write(page)
    check_boxes(tmp_path / "a.tif", twin, count=5)


def test_texts_that_are_none(tmp_path: Path) -> None:
    """What is no text of tifffile, though it begins like one, is ignored."""
    twin = frames_of((3, 6, 5), "u2")
    for text in (
        '{"shape": 3}',
        '{"shape": [3, -6, 5]}',
        '{"shape": [',
        '{"shape"' + "[" * 5000,
        '{"shape": [3.0, 6, 5]}',
    ):
        same(vfs.open(write_tiff(tmp_path / "a.tif", list(twin), description=text))[...], twin)


# strips and tiles that were never written


def _sparse(path: Path, pages: np.ndarray, values: Sequence[str], order: Any = "<", **how: Any) -> Path:
    """Tile 1 of every page was never written; GDAL_NODATA of each page."""
    with tifffile.TiffWriter(path, byteorder=order) as file:
        for page, value in zip(pages, values, strict=True):
            tags = [(42113, "s", 0, value, True)] if value else []
            file.write(page, tile=(16, 16), metadata=None, photometric="minisblack", extratags=tags, **how)
    with tifffile.TiffFile(path, mode="r+b") as file:
        for page in file.pages:
            for tag in (324, 325):
                page.tags[tag].overwrite([*page.tags[tag].value[:1], 0, *page.tags[tag].value[2:]])
    return path


@pytest.mark.parametrize("compression", [None, "zlib"])
@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize(
    ("dtype", "value", "fill"),
    [
        ("u1", "255", 255),
        ("u1", "255.0 ", 255),
        ("u1", "", 0),
        ("i2", "-32768", -32768),
        ("u8", "18446744073709551615", 18446744073709551615),
        ("f4", "nan", np.nan),
        ("f4", "-3.40282346638529e+38", np.finfo("f4").min),
        ("f8", "-inf", -np.inf),
    ],
)
def test_what_was_never_written_is_nodata(
    tmp_path: Path, dtype: str, value: str, fill: Any, order: str, compression: str | None
) -> None:
    twin = (frames_of((2, 32, 32), "u1") // 2).astype(dtype)
    path = _sparse(tmp_path / "a.tif", twin, [value] * 2, order, compression=compression)
    twin[:, :16, 16:] = fill
    check_boxes(path, twin, count=5)
    array = vfs.open(path)
    same(np.asarray(array.zarr()[...]), twin)


@pytest.mark.parametrize(
    ("dtype", "value"), [("u1", "-9999"), ("u2", "65536"), ("u1", "nan"), ("i2", "1.5"), ("f4", "1e39"), ("f4", "none")]
)
def test_nodata_that_the_pixels_cannot_hold(tmp_path: Path, dtype: str, value: str) -> None:
    twin = (frames_of((1, 32, 32), "u1") // 2).astype(dtype)
    array = warned(
        _sparse(tmp_path / "a.tif", twin, [value]), f"GDAL_NODATA says {value!r}", f"no number of {twin.dtype}"
    )
    twin[:, :16, 16:] = 0
    same(array[...], twin[0])


def test_nodata_of_several_pages_and_files(tmp_path: Path) -> None:
    twin = frames_of((3, 32, 32), "u1")
    refuses(_sparse(tmp_path / "a.tif", twin, ["255", "7", "7"]), "GDAL_NODATA '255' and '7'", kind=vfs.FormatError)
    paths = [_sparse(tmp_path / f"b{k}.tif", twin[k : k + 1], ["7"]) for k in range(3)]
    twin[:, :16, 16:] = 7
    check_boxes(paths, twin, count=5)
    whole = write_tiff(tmp_path / "c.tif", [twin[0]], tags={42113: (2, b"9\0", 0)})  # nothing is sparse: no matter
    check_boxes([whole, *paths], twin[[0, 0, 1, 2]], count=3)


# cut and empty files


def _ends(path: Path) -> list[int]:
    """Bytes at which each page of a file by `write_tiff` ends, pixels and directory."""
    with tifffile.TiffFile(path) as file:
        return [page.offset + 2 + 12 * len(page.tags) + 4 for page in file.pages]


@pytest.mark.parametrize("text", ["no text", "ImageJ", "tifffile"])
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("damage", ["pixels", "directory", "pointer", "before the next", "zeros"])
def test_a_file_that_was_cut_shows_its_whole_pages(tmp_path: Path, damage: str, plain: bool, text: str) -> None:
    twin = frames_of((6, 20, 37), "u2")
    path = write_tiff(tmp_path / "a.tif", list(twin), description=TEXTS[text])
    data, ends = path.read_bytes(), _ends(path)
    rest: dict[str, Callable[[], bytes]] = {
        "pixels": lambda: data[: ends[3] + 300],
        "directory": lambda: data[: ends[4] - 40],
        "pointer": lambda: data[: ends[3] - 2],
        "before the next": lambda: data[: ends[3]],
        "zeros": lambda: data[: ends[3]] + bytes(len(data) - ends[3]),
    }
    path.write_bytes(rest[damage]())
    told = text != "no text" and not plain
    counts = {"frames_missing": 2 if told else 1}
    kind = (vfs.FormatError, vfs.TruncatedSourceError)
    array = opens_incomplete(path, "a.tif", counts=counts, kind=kind, plain=plain).main  # type: ignore[arg-type]
    want = twin.copy()
    want[4:] = 0
    same(array[...], _shown(text, want) if told else twin[:4])
    assert array.valid.sum() == 4


@pytest.mark.parametrize("imagej", [False, True])
def test_planes_behind_one_directory_that_were_cut(tmp_path: Path, imagej: bool) -> None:
    """tifffile writes the other directories last: the planes that are whole are where its text says."""
    twin = frames_of((12, 16, 20), "u2")
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, twin, imagej=imagej, metadata={"axes": "TYX"}, photometric="minisblack")
    with tifffile.TiffFile(path) as file:
        at = file.series[0].dataoffset
        behind = file.pages[4].offset
    data = path.read_bytes()
    path.write_bytes(data[: at + 640 * 9 + 100])
    words = "says 12 planes, the file has 9"
    array = opens_incomplete(path, words, counts={"frames_missing": 3}, kind=vfs.TruncatedSourceError).main
    same(array[:9], twin[:9])
    assert array.valid.tolist() == [True] * 9 + [False] * 3
    path.write_bytes(data[:behind])
    same(opens_incomplete(path, counts={"frames_missing": 1}, kind=vfs.TruncatedSourceError).main[...], twin)


def test_pages_without_their_pixels(tmp_path: Path) -> None:
    """Directories first, then pixels, of which the last ones are lost; and a page that says impossible places."""
    twin = frames_of((6, 20, 37), "u2")
    path = write_tiff(tmp_path / "a.tif", list(twin), strip=8)
    data = bytearray(path.read_bytes())
    with tifffile.TiffFile(path) as file:
        at = data.index(struct.pack("<3I", *file.pages[2].dataoffsets))
    data[at : at + 4] = struct.pack("<I", len(data))
    path.write_bytes(data)
    group = opens_incomplete(path, "looks truncated", counts={"frames_missing": 1}, kind=vfs.TruncatedSourceError)
    twin[2] = 0
    same(group.main[...], twin)


@pytest.mark.parametrize("victim", [0, 1, 3])
@pytest.mark.parametrize("pages", [1, 3])
@pytest.mark.parametrize("left", [0, 6, 60, -20])
def test_a_damaged_file_of_a_sequence_is_blank(tmp_path: Path, left: int, pages: int, victim: int) -> None:
    twin = frames_of((4, pages, 8, 9), "u2")
    paths = [write_tiff(tmp_path / f"img_{k}.tif", list(twin[k])) for k in range(4)]
    paths[victim].write_bytes(paths[victim].read_bytes()[: left or None] if left else b"")
    keep = pages - 1 if left == -20 else 0
    for concatenate in (False, True):
        refuses(paths, paths[victim].name, "allow_incomplete", concatenate=concatenate, format="tiff")
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            array = vfs.open(paths, allow_incomplete=True, concatenate=concatenate, format="tiff")
        assert paths[victim].name in str(said[0].message)
        want = twin.copy()
        want[victim, keep:] = 0
        same(array[...], want.reshape(array.shape))
        assert array.valid.sum() == 3 * pages + keep
    for path in paths:
        path.write_bytes(b"")
    refuses(paths, "img_0.tif", allow_incomplete=True, format="tiff")


@pytest.mark.parametrize("compression", [65000, 65001, 65002])
def test_electron_events_are_named(tmp_path: Path, compression: int) -> None:
    """EER as plain TIFF: an error that names the file and the format; the sum of all events beside them can be seen."""
    events = frames_of((3, 16, 16), "u1") > 99
    path = write_tiff(tmp_path / "a.eer", list(events), compression=compression)
    refuses(path, "a.eer", str(compression), "format='eer'", kind=vfs.FormatError, format="tiff")
    total = frames_of((16, 16), "u1")
    path = tmp_path / "b.eer"
    with tifffile.TiffWriter(path) as file:
        for page in (total, *[np.zeros((16, 16), "u1")] * 3):
            file.write(page, metadata=None, photometric="minisblack")
    with tifffile.TiffFile(path, mode="r+b") as file:
        for page in file.pages[1:]:
            page.tags[259].overwrite(compression)
            page.tags[258].overwrite(1)
    refuses(path, "b.eer", "electron events", kind=vfs.FormatError, format="tiff")
    with pytest.warns(vfs.IncompleteWarning, match="electron events"):
        group = vfs.open_group(path, format="tiff")
    same(group["data"][...], total)


@pytest.mark.parametrize("damaged", ["first", "last"])
def test_values_of_tags_beyond_the_end_are_said(tmp_path: Path, damaged: str) -> None:
    """Half of a file could be gone, with a profile or a drawing, and it was called whole."""
    pages = frames_of((3, 5, 6), "u2")
    path = write_tiff(tmp_path / "a.tif", list(pages), tags={65000: (1, bytes(100), 100)})
    data = bytearray(path.read_bytes())
    entry = struct.pack("<HHI", 65000, 1, 100)
    at = data.find(entry) if damaged == "first" else data.rfind(entry)
    struct.pack_into("<I", data, at + len(entry), len(data) - 20)
    path.write_bytes(data)
    same(warned(path, "values of the tag 65000 lie beyond the end of the file")[...], pages)
