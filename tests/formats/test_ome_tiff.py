"""OME-TIFF: the oracle, planes in every order and file, sets with something missing, and documents
that are not what they should be.
"""

from __future__ import annotations

import itertools
import math
import os
import pickle
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.conftest import SHARED, same_values
from tests.formats.frame_checks import (
    BACKENDS,
    check_boxes,
    frames_of,
    one_line,
    opens_incomplete,
    refuses,
    same,
    warned,
)
from vfs.cli.report.documents import as_json
from vfs.formats import detect
from vfs.sources.local import LocalSources
from vfs.testing.inside import reader_of, set_of
from vfs.testing.tiff_writers import SHORT, ome_xml, write_ome_tiff, write_tiff

pytest.importorskip("tifffile", reason="reading TIFF needs tifffile")
pytest.importorskip("imagecodecs", reason="compressed TIFF needs imagecodecs")

ORDERS = ("XYZCT", "XYZTC", "XYCZT", "XYCTZ", "XYTZC", "XYTCZ")
SIZES = {"X": 7, "Y": 9, "Z": 4, "C": 3, "T": 2}


def _real() -> list[tuple[str, str, int]]:
    oracle = SHARED / "oracle.json"
    if not oracle.exists():
        return []
    import json

    sets = json.loads(oracle.read_text())["datasets"]
    return [
        (name, array, k)
        for name, e in sets.items()
        if e["format"] == "ome_tiff"
        for array in e["arrays"]
        if array.startswith("TCZYX/")
        for k in range(len(e["files"]))
    ]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("name", "array", "file"), _real() or [pytest.param("", "", 0, marks=pytest.mark.skip("no real files here"))]
)
def test_real_files(oracle: dict[str, Any], name: str, array: str, file: int, backend: str) -> None:
    """A set opens by any of its files, also where only the first one describes it."""
    entry = oracle[name]
    group = vfs.open_group(SHARED / entry["files"][file], backend=backend)
    several = sum(key.startswith("TCZYX/") for key in entry["arrays"]) > 1
    got = group[array.replace("TCZYX/image", "image_") + "/data" if several else "data"]
    assert same_values(got[...], entry["arrays"][array])
    assert got.dtype == np.dtype(entry["arrays"][array]["dtype"])
    assert got.dims == ("t", "c", "z", "y", "x", "s")[: got.ndim]
    assert detect(LocalSources(), str(SHARED / entry["files"][file])).name == "ome_tiff"


@pytest.mark.parametrize("describe", ["every", "first", "companion"])
@pytest.mark.parametrize("order", ORDERS)
def test_planes_in_any_order(tmp_path: Path, order: str, describe: Any) -> None:
    twin = frames_of((2, 3, 4, 9, 7), "u2")
    for files in (1, 5):
        path = write_ome_tiff(tmp_path, twin, files=files, order=order, describe=describe)
        check_boxes(path, twin, count=10)
    for member in sorted(tmp_path.glob("set_*.ome.tif")):
        same(vfs.open(member)[...], twin)
    array = vfs.open(path)
    assert (array.dims, reader_of(array).dataset.nav_ndim, len(array.files)) == (("t", "c", "z", "y", "x"), 3, 5)


STORED: list[dict[str, Any]] = [
    {},
    {"order_": ">", "big": True, "strip": 4, "gap": 3},
    {"tile": (16, 16)},
    {"tile": (16, 16), "compression": 8, "encode": zlib.compress},
    {"strip": 2, "compression": 8, "encode": zlib.compress},
]


@pytest.mark.parametrize("samples", ["", "chunky", "planar"])
@pytest.mark.parametrize("how", STORED, ids=range(len(STORED)))
def test_stored_in_any_way(tmp_path: Path, how: dict[str, Any], samples: str) -> None:
    twin = frames_of((2, 1, 2, 20, 18) + ((3,) if samples else ()), "u2")
    options = dict(how)
    order = options.pop("order_", "<")
    path = _write(tmp_path, twin, order, planar=samples == "planar", **options)
    check_boxes(path, twin, count=15)
    array = vfs.open(path)
    assert array.dims == ("t", "c", "z", "y", "x", "s")[: twin.ndim]
    frames = twin.reshape(4, *twin.shape[3:])
    same(vfs.open(path, nav_shape=(4,), sync_offset=1)[...], np.concatenate([frames[1:], frames[:1] * 0]))
    same(vfs.open(path, roi=[3, 0])[...], frames[[3, 0]])


def _write(folder: Path, twin: np.ndarray, byte_order: str, **options: Any) -> Path:
    from vfs.testing import tiff_writers

    whole = tiff_writers.write_tiff
    try:
        tiff_writers.write_tiff = lambda *a, **k: whole(*a, order=byte_order, **k)  # type: ignore[assignment]
        return write_ome_tiff(folder, twin, files=2, **options)
    finally:
        tiff_writers.write_tiff = whole


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "f4", "f8", "c8", "c16"])
def test_pixel_types(tmp_path: Path, dtype: str) -> None:
    twin = frames_of((1, 2, 1, 5, 6), "f8").astype(dtype) if dtype[0] in "fc" else frames_of((1, 2, 1, 5, 6), dtype)
    check_boxes(write_ome_tiff(tmp_path, twin), twin, count=5)


def test_bits(tmp_path: Path) -> None:
    twin = frames_of((1, 2, 1, 5, 13), "u1") > 99
    same(vfs.open(write_ome_tiff(tmp_path, twin))[...], twin.astype("u1"))


def test_the_document_decides_where_pages_leave_it_open(tmp_path: Path) -> None:
    """Pages without SampleFormat may be signed: the document says so. Pages with one are believed."""
    twin = frames_of((1, 2, 1, 5, 6), "i2")
    path = write_ome_tiff(tmp_path, twin)
    path.write_bytes(
        path.read_bytes().replace(
            (339).to_bytes(2, "little") + b"\3\0\1\0\0\0\2\0", (32000).to_bytes(2, "little") + b"\3\0\1\0\0\0\2\0"
        )
    )
    same(vfs.open(path)[...], twin)
    assert vfs.open(path, format="tiff").dtype == np.uint16
    path = _single(tmp_path, twin[0, :, 0], '<TiffData IFD="0" PlaneCount="2"/>', sizes=_sizes(twin), kind="uint16")
    with pytest.warns(vfs.IncompleteWarning, match="says pixels of type uint16, its pages hold int16: shown as these"):
        same(vfs.open(path)[...], twin)


def _sizes(image: np.ndarray) -> dict[str, int]:
    return {"X": image.shape[4], "Y": image.shape[3], "Z": image.shape[2], "C": image.shape[1], "T": image.shape[0]}


def _single(
    folder: Path,
    pages: Any,
    runs: str,
    *,
    sizes: dict[str, int] | None = None,
    kind: str = "uint16",
    name: str = "one.ome.tif",
    **options: Any,
) -> Path:
    """One file with these pages and TiffData elements."""
    xml = ome_xml(sizes or SIZES, kind, runs, **options)
    return write_tiff(folder / name, list(pages), description=xml)


@pytest.mark.parametrize(
    ("runs", "planes"),
    [
        ("<TiffData/>", range(24)),
        ('<TiffData IFD="2"/>', {0: 2}),
        ('<TiffData IFD="2" PlaneCount="3"/>', {0: 2, 1: 3, 2: 4}),
        ('<TiffData NumPlanes="2" FirstZ="1" FirstC="2" FirstT="1"/>', {21: 0, 22: 1}),
        ('<TiffData IFD="5" FirstT="1"/><TiffData IFD="6" FirstC="1"/>', {12: 5, 4: 6}),
        ('<TiffData IFD="1"/><TiffData IFD="3"/>', {0: 3}),
        ('<TiffData IFD="20" PlaneCount="99" FirstZ="3" FirstC="2" FirstT="1"/>', {23: 20}),
        ('<TiffData IFD="0" FirstZ="4"/><TiffData IFD="7"/>', {0: 7}),
    ],
)
def test_runs(tmp_path: Path, runs: str, planes: Any) -> None:
    """What TiffData elements say, and what they mean where they say less. Planes in the order XYZCT."""
    pages = frames_of((24, 9, 7), "u2")
    path = _single(tmp_path, pages, runs)
    twin = np.zeros((24, 9, 7), "u2")
    for plane, page in planes.items() if isinstance(planes, dict) else enumerate(planes):
        twin[plane] = pages[page]
    blank, ignored = 24 - len(planes), int('FirstZ="4"' in runs)
    left = 24 - len(planes)  # pages without a plane
    counts = {name: n for name, n in (("frames_missing", blank), ("frames_left_out", ignored + left)) if n}
    stopped = not blank or max(planes) + 1 == len(planes)
    if counts:
        words = f"{len(planes)} have a page: {'the last ' * stopped}{blank} are blank", *["begin outside"] * ignored
        words += (f"has no plane for {left} of 24 pages",) * stopped
        group = opens_incomplete(path, *words, counts=counts, kind=None if stopped else vfs.FormatError)
        assert group.main.valid.sum() == len(planes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vfs.IncompleteWarning)
        check_boxes(path, twin.reshape(2, 3, 4, 9, 7), count=3, allow_incomplete=True)
        attrs = vfs.open(path, allow_incomplete=True).attrs
    assert (attrs.get("planes_blank", 0), attrs.get("runs_ignored", 0)) == (blank, ignored)


def test_planes_with_several_pages_and_pages_without_a_plane(tmp_path: Path) -> None:
    pages = frames_of((26, 9, 7), "u2")
    path = _single(tmp_path, pages, '<TiffData PlaneCount="24"/>')
    array = opens_incomplete(path, "has no plane for 2 of 26 pages", counts={"frames_left_out": 2}).main
    same(array[...], pages[:24].reshape(2, 3, 4, 9, 7))
    path = _single(tmp_path, pages[:25], '<TiffData PlaneCount="24"/><TiffData IFD="24" FirstZ="3"/>')
    said = "several pages for one plane, 1 time: the last of them is shown", "has no plane for 1 of 25 pages"
    array = opens_incomplete(path, *said, counts={"frames_left_out": 1}).main
    same(array[0, 0, :4], pages[[0, 1, 2, 24]])
    twice = '<TiffData PlaneCount="24"/><TiffData IFD="3" FirstZ="3"/>'
    same(vfs.open(_single(tmp_path, pages[:24], twice))[...], pages[:24].reshape(2, 3, 4, 9, 7))


def test_no_runs(tmp_path: Path) -> None:
    refuses(_single(tmp_path, frames_of((24, 9, 7), "u2"), ""), "has no image with TiffData", kind=vfs.FormatError)


def test_attributes(tmp_path: Path) -> None:
    group = vfs.open_group(write_ome_tiff(tmp_path, frames_of((2, 3, 4, 9, 7), "u2")))
    attrs = group.main.attrs
    assert attrs["name"] == "cells"
    steps = {"x": (0.5, "um"), "y": (0.25, "nm"), "z": (2.0, "um"), "t": (3.0, "ms")}
    assert attrs["calibration"] == {
        axis: {"scale": step, "offset": 0.0, "unit": unit} for axis, (step, unit) in steps.items()
    }
    assert attrs["channels"][2] == {"id": "Channel:0:2", "name": "dye 2", "samples_per_pixel": 1}


def test_smaller_versions(tmp_path: Path) -> None:
    twin = frames_of((1, 3, 1, 32, 20), "u2")
    runs = '<TiffData IFD="0" PlaneCount="3"/>'
    pages = list(twin[0, :, 0])
    xml = ome_xml(_sizes(twin), "uint16", runs)
    path = write_tiff(
        tmp_path / "a.ome.tif",
        pages,
        description=xml,
        smaller=[[p[::2, ::2], p[::4, ::4]] for p in pages],
        tile=(16, 16),
    )
    group = vfs.open_group(path)
    assert set(group) == {"data", "level_1/data", "level_2/data"}
    for name, step in (("data", 1), ("level_1/data", 2), ("level_2/data", 4)):
        check_boxes(path, twin[..., ::step, ::step], name, count=5)


def test_positions_are_images(tmp_path: Path) -> None:
    """Micro-Manager lists every position as an image in every file, and a file holds one of them."""
    twins = [frames_of((1, 2, 1, 6, 5), "u2", seed) for seed in range(3)]
    images = ""
    for k in range(3):
        one = ome_xml(
            _sizes(twins[k]),
            "uint16",
            f'<TiffData IFD="0" PlaneCount="2"><UUID FileName="pos{k}.ome.tif">urn:uuid:{k}</UUID></TiffData>',
        )
        images += one[one.index("<Image") : one.index("</OME>")]
    for k, twin in enumerate(twins):
        xml = f'<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" UUID="urn:uuid:{k}">{images}</OME>'
        write_tiff(tmp_path / f"pos{k}.ome.tif", list(twin[0, :, 0]), description=xml)
    for k in range(3):
        group = vfs.open_group(tmp_path / f"pos{k}.ome.tif")
        assert set(group) == {"image_0/data", "image_1/data", "image_2/data"}
        for j, twin in enumerate(twins):
            same(group[f"image_{j}/data"][...], twin)
    (tmp_path / "pos1.ome.tif").unlink()
    lost = {"files_missing": 1, "frames_missing": math.prod(twins[1].shape[:3])}
    group = opens_incomplete(
        tmp_path / "pos2.ome.tif", "names pos1.ome.tif: missing, 1 of 3 files", counts=lost, kind=vfs.MissingSourceError
    )
    same(group["image_2/data"][...], twins[2])
    assert group["image_1/data"].attrs["files_missing"] == ["pos1.ome.tif"]
    same(group["image_1/data"][...], np.zeros_like(twins[1]))


# sets with something missing or renamed


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("how", [{}, {"strip": 3, "gap": 1}, {"compression": 8, "encode": zlib.compress}])
def test_a_missing_file(tmp_path: Path, how: dict[str, Any], backend: str) -> None:
    """An error that names it; what is there can be shown at its place, what is not is blank then."""
    twin = frames_of((4, 1, 2, 9, 7), "u2")
    path = write_ome_tiff(tmp_path, twin, files=4, **how)
    (tmp_path / "set_2.ome.tif").unlink()
    words, counts = (
        "names set_2.ome.tif: missing, 1 of 4 files with 2 planes",
        {
            "files_missing": 1,
            "frames_missing": 2,
        },
    )
    group = opens_incomplete(path, words, counts=counts, kind=vfs.MissingSourceError, backend=backend)
    assert group.main.attrs["files_missing"] == ["set_2.ome.tif"]
    assert as_json(set_of(group))["missing"] == [str(tmp_path / "set_2.ome.tif")]
    blank = twin.copy()
    blank[2] = 0
    same(group.main[...], blank)
    assert group.main.valid[:, 0, 0].tolist() == [True, True, False, True]
    write_ome_tiff(tmp_path, twin, files=4, **how)  # it comes back
    with pytest.raises(vfs.SourceChangedError):
        pickle.loads(pickle.dumps(group))
    same(vfs.open(path, backend=backend)[...], twin)


def test_all_pixels_missing(tmp_path: Path) -> None:
    path = write_ome_tiff(tmp_path, frames_of((2, 3, 1, 9, 7, 3), "f4"), files=2, describe="companion")
    for file in tmp_path.glob("*.tif"):
        file.unlink()
    array = opens_incomplete(
        path, "2 of 2 files", counts={"files_missing": 2, "frames_missing": 6}, kind=vfs.MissingSourceError
    ).main
    assert (array.shape, array.dtype, array.dims) == ((2, 3, 1, 9, 7, 3), np.float32, ("t", "c", "z", "y", "x", "s"))
    assert not array[...].any()
    assert not array.valid.any()


def test_pages_that_a_file_does_not_have(tmp_path: Path) -> None:
    pages = frames_of((2, 9, 7), "u2")
    path = _single(tmp_path, pages, '<TiffData IFD="0" PlaneCount="4"/>')
    stopped = opens_incomplete(
        path, "the last 22 are blank, 2 of a page that its file does not have", counts={"frames_missing": 22}
    ).main
    assert stopped.attrs["pages_missing"] == 2
    same(stopped[0, 0, :2], pages)
    path = _single(
        tmp_path,
        pages,
        '<TiffData IFD="0" PlaneCount="1"/><TiffData IFD="7" FirstZ="1"/><TiffData IFD="1" FirstZ="2"/>',
    )
    array = opens_incomplete(path, "1 of a page", counts={"frames_missing": 22}, kind=vfs.TruncatedSourceError).main
    same(array[0, 0, :3], np.stack([pages[0], np.zeros_like(pages[0]), pages[1]]))


def test_renamed_files(tmp_path: Path) -> None:
    twin = frames_of((3, 1, 2, 9, 7), "u2")
    write_ome_tiff(tmp_path, twin, files=3)
    for k in range(3):
        os.rename(tmp_path / f"set_{k}.ome.tif", tmp_path / f"other {k}.tif")
    (tmp_path / "unrelated.tif").write_bytes(b"II*\0")
    for k in range(3):
        same(vfs.open(tmp_path / f"other {k}.tif")[...], twin)
    one = tmp_path / "one"
    one.mkdir()
    path = write_ome_tiff(one, twin)
    data = path.read_bytes()
    (one / "renamed.ome.tif").write_bytes(data.replace(b' UUID="urn', b' GUID="urn'))
    path.unlink()
    same(vfs.open(one / "renamed.ome.tif")[...], twin)


def test_members_are_told_by_their_uuid(tmp_path: Path) -> None:
    """Files that swapped their names; and another run's file under the right name, which is not read."""
    twin, other = frames_of((3, 1, 2, 9, 7), "u2"), frames_of((3, 1, 2, 9, 7), "u2", 5)
    path = write_ome_tiff(tmp_path, twin, files=3)
    os.rename(tmp_path / "set_1.ome.tif", tmp_path / "x")
    os.rename(tmp_path / "set_2.ome.tif", tmp_path / "set_1.ome.tif")
    os.rename(tmp_path / "x", tmp_path / "set_2.ome.tif")
    same(vfs.open(path)[...], twin)
    (tmp_path / "run").mkdir()
    write_ome_tiff(tmp_path / "run", other, files=3)
    data = (tmp_path / "run" / "set_2.ome.tif").read_bytes()
    (tmp_path / "set_2.ome.tif").write_bytes(data.replace(b"4000-8000-", b"4000-9000-"))
    ours, theirs = "urn:uuid:00000000-0000-4000-8000-000000000001", "urn:uuid:00000000-0000-4000-9000-000000000002"
    words = f"set_1.ome.tif is another file, with UUID urn:uuid:00000000-0000-4000-8000-000000000002, expected {ours}"
    counts = {"files_missing": 1, "frames_missing": 2}
    array = opens_incomplete(path, words, counts=counts, kind=vfs.MissingSourceError).main
    twin[1] = 0
    same(array[...], twin)
    os.rename(tmp_path / "set_2.ome.tif", tmp_path / "set_1.ome.tif")
    array = opens_incomplete(
        path, theirs, ours, counts={"files_missing": 2, "frames_missing": 4}, kind=vfs.MissingSourceError
    ).main
    twin[2] = 0
    same(array[...], twin)


@pytest.mark.parametrize("shared", [False, True])
def test_the_first_file_was_renamed(tmp_path: Path, shared: bool) -> None:
    """Files without UUIDs of their own, or with one for all: the opened one is the one that is missing."""
    twin = frames_of((3, 1, 2, 9, 7), "u2")
    path = write_ome_tiff(tmp_path, twin, files=3)
    for file in tmp_path.glob("set_*.ome.tif"):
        data = file.read_bytes().replace(b' UUID="urn', b' GUID="urn')
        if shared:
            data = file.read_bytes()
            for k in (1, 2):
                data = data.replace(b"00000000000%d" % k, b"000000000000")
        file.write_bytes(data)
    same(vfs.open(path)[...], twin)
    path.rename(tmp_path / "renamed.ome.tif")
    same(vfs.open(tmp_path / "renamed.ome.tif")[...], twin)
    refuses(tmp_path / "set_1.ome.tif", "set_0.ome.tif: missing", kind=vfs.MissingSourceError)


@pytest.mark.parametrize("how", [{}, {"compression": 8, "encode": zlib.compress}])
@pytest.mark.parametrize("left", [0, 6, 100, -20, -150])
def test_a_member_that_was_cut(tmp_path: Path, left: int, how: dict[str, Any]) -> None:
    """Its whole pages are shown, the rest is blank."""
    twin = frames_of((3, 1, 2, 9, 7), "u2")
    path = write_ome_tiff(tmp_path, twin, files=3, describe="first", **how)
    for name in ("set_1.ome.tif", "set_2.ome.tif"):
        whole = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(whole[: left or None] if left else b"")
        lost = 1 if left < 0 else 2
        kind = (vfs.FormatError, vfs.TruncatedSourceError)
        array = opens_incomplete(path, name, counts={"frames_missing": lost}, kind=kind).main  # type: ignore[arg-type]
        want = twin.copy()
        want[int(name[4]), 0, 2 - lost :] = 0
        same(array[...], want)
        (tmp_path / name).write_bytes(whole)


def test_a_copy_with_another_name_is_read_itself(tmp_path: Path) -> None:
    twin = frames_of((1, 1, 2, 9, 7), "u2")
    path = write_ome_tiff(tmp_path, twin)
    copy = tmp_path / "copy.ome.tif"
    copy.write_bytes(path.read_bytes())
    assert vfs.open(copy).files == (str(copy),)


def test_files_of_two_sets(tmp_path: Path) -> None:
    twin = frames_of((3, 1, 2, 9, 7), "u2")
    path = write_ome_tiff(tmp_path, twin, files=3)
    same(vfs.open(str(tmp_path / "set_*.ome.tif"))[...], twin)
    other = write_ome_tiff(tmp_path, twin, name="other")
    refuses([path, other], "other.ome.tif", "does not belong to the set", kind=vfs.OptionError)


def test_the_describing_file_is_missing(tmp_path: Path) -> None:
    write_ome_tiff(tmp_path, frames_of((2, 1, 2, 9, 7), "u2"), files=2, describe="companion")
    (tmp_path / "set.companion.ome").unlink()
    refuses(tmp_path / "set_1.ome.tif", "set.companion.ome", "format='tiff'", kind=vfs.MissingSourceError)
    assert vfs.open(tmp_path / "set_1.ome.tif", format="tiff").shape == (2, 9, 7)


def test_describing_files_that_point_to_each_other(tmp_path: Path) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        xml = (
            f'<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06"><BinaryOnly MetadataFile="{other}.ome.tif"'
            ' UUID="x"/></OME>'
        )
        write_tiff(tmp_path / f"{name}.ome.tif", [frames_of((4, 4), "u1")], description=xml)
    refuses(tmp_path / "a.ome.tif", "b.ome.tif", kind=vfs.FormatError)


# documents that are not what they should be


@pytest.mark.parametrize("name", ["../secret.ome.tif", "/etc/passwd", "sub/../../secret.ome.tif", "..", "sub/../.."])
def test_names_that_lead_out_of_the_folder(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    pages = frames_of((24, 9, 7), "u2")
    _single(tmp_path, pages, "<TiffData/>", name="secret.ome.tif")
    run = f'<TiffData IFD="0"><UUID FileName="{name}">urn:uuid:7</UUID></TiffData>'
    refuses(_single(folder, pages, run), "outside", kind=vfs.OutsideError)
    xml = (
        f'<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06"><BinaryOnly MetadataFile="{name}"'
        ' UUID="x"/></OME>'
    )
    refuses(write_tiff(folder / "b.ome.tif", pages, description=xml), "outside", kind=vfs.OutsideError)


def test_names_that_stay_in_the_folder(tmp_path: Path) -> None:
    pages = frames_of((24, 9, 7), "u2")
    (tmp_path / "sub").mkdir()
    _single(tmp_path / "sub", pages, "<TiffData/>", name="deep.ome.tif")
    for name in ("sub/deep.ome.tif", str(tmp_path / "sub" / "deep.ome.tif"), "./sub/../sub/deep.ome.tif"):
        run = f'<TiffData><UUID FileName="{name}">urn:uuid:7</UUID></TiffData>'
        (tmp_path / "a.companion.ome").write_text(ome_xml(SIZES, "uint16", run))
        same(vfs.open(tmp_path / "a.companion.ome")[...].reshape(24, 9, 7), pages)


BOMB = (
    '<!DOCTYPE OME [<!ENTITY a "aaaaaaaaaa">'
    + "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in itertools.pairwise("abcdefghij"))
    + "]>"
)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (BOMB + "<OME>&j;</OME>", "entities"),
        ('<!DOCTYPE OME [<!ENTITY a SYSTEM "file:///etc/passwd">]><OME>&a;</OME>', "entities"),
        ("<OME", "XML"),
        ("<OME></OME>", "no image"),
        ("<a>" * 200_000, "XML"),
        ("<a>" * 100_000 + "</a>" * 100_000, "expected OME-XML"),
        ("<svg></svg>OME>", "XML"),
        ("<OME><Image><Pixels/></Image></OME>", "SizeX"),
        (ome_xml(SIZES | {"T": 0}, "uint16", "<TiffData/>"), "SizeT"),
        (ome_xml(SIZES | {"T": 1 << 31}, "uint16", "<TiffData/>"), "SizeT"),
        (ome_xml(SIZES | {"T": (1 << 31) - 1, "Z": (1 << 31) - 1}, "uint16", "<TiffData/>"), "absurd"),
        (ome_xml(SIZES | {"T": (1 << 31) - 1}, "uint16", "<TiffData/>"), "garbled"),
        (ome_xml(SIZES | {"T": 1 << 20}, "uint16", '<TiffData PlaneCount="999999999999999"/>'), "garbled"),
        (ome_xml(SIZES, "uint16", '<TiffData IFD="-1"/>'), "IFD='-1'"),
        (ome_xml(SIZES, "uint16", '<TiffData IFD="1e3"/>'), "IFD='1e3'"),
        (ome_xml(SIZES, "uint16", f'<TiffData IFD="{"9" * 5000}"/>'), "IFD"),
        (ome_xml(SIZES, "uint16", '<TiffData FirstT="9"/>'), "outside"),
        (ome_xml(SIZES, "uint16", "<TiffData/>", order="XYZ"), "DimensionOrder"),
        (ome_xml(SIZES | {"X": 6}, "uint16", "<TiffData/>"), "(9, 6)"),
        (ome_xml(SIZES, "uint16", "<TiffData><UUID>urn:uuid:none</UUID></TiffData>", uuid="urn:uuid:x"), ""),
        (
            ome_xml(
                SIZES,
                "rainbow",
                "<TiffData><UUID FileName='x.tif'>u</UUID></TiffData><TiffData><UUID"
                " FileName='y.tif'>v</UUID></TiffData>",
            ),
            "rainbow",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:.*the last 21 are blank:vfs.IncompleteWarning")
def test_garbled_documents(tmp_path: Path, document: str, words: str) -> None:
    """In a file of pixels and in a companion file: one line, at once, or what the rest of it says."""
    pages = frames_of((3, 9, 7), "u2")
    for path in (write_tiff(tmp_path / "a.ome.tif", list(pages), description=document), tmp_path / "a.companion.ome"):
        if path.suffix == ".ome":
            path.write_text(document)
            if "<TiffData" in document:
                continue  # a companion has no pixels of its own: another complaint
        try:
            array = vfs.open(path, format="ome_tiff")
        except vfs.VfsError as error:
            text = one_line(error)
            assert words in text
            assert path.name in text
        else:
            assert not words
            assert array.shape == (2, 3, 4, 9, 7)


def test_the_label_of_a_slide_is_never_the_main_image(tmp_path: Path) -> None:
    tissue, label = frames_of((9, 7), "u2"), frames_of((20, 30), "u2")
    for names, expected in ((("tissue", "Label Image"), tissue), (("macro", "label image"), label)):
        images = "".join(
            f'<Image ID="Image:{k}" Name="{name}"><Pixels DimensionOrder="XYZCT" Type="uint16" SizeX="{page.shape[1]}"'
            f' SizeY="{page.shape[0]}" SizeZ="1" SizeC="1" SizeT="1"><TiffData IFD="{k}"/></Pixels></Image>'
            for k, (name, page) in enumerate(zip(names, (tissue, label), strict=True))
        )
        path = write_tiff(tmp_path / "a.ome.tif", [tissue, label], description=f"<OME>{images}</OME>")
        same(np.squeeze(vfs.open(path)[...]), expected)


def test_companion_without_names(tmp_path: Path) -> None:
    (tmp_path / "a.companion.ome").write_text(ome_xml(SIZES, "uint16", "<TiffData/>"))
    refuses(tmp_path / "a.companion.ome", "which file", kind=vfs.FormatError)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_companions_in_any_encoding(tmp_path: Path, encoding: str) -> None:
    twin = frames_of((2, 1, 2, 9, 7), "u2")
    path = write_ome_tiff(tmp_path, twin, files=2, describe="companion")
    text = (
        path.read_text()
        .replace("<OME ", "<OME\n  ")
        .replace("cells", "Zellen in µm")
        .replace("UTF-8", encoding.removesuffix("-sig").upper())
    )
    path.write_bytes(text.encode(encoding))
    assert detect(LocalSources(), str(path)).name == "ome_tiff"
    array = vfs.open(path)
    same(array[...], twin)
    assert array.attrs["name"] == "Zellen in µm"
    path.write_bytes(BOMB.encode("utf-16") + b"<OME/>")
    refuses(path, format="ome_tiff", kind=vfs.FormatError)


def test_planes_that_are_stored_differently(tmp_path: Path) -> None:
    twin = frames_of((2, 1, 2, 9, 7), "u2")
    path = write_ome_tiff(tmp_path, twin, files=2)
    second = tmp_path / "set_1.ome.tif"
    write_tiff(second, list(twin[1, 0]), strip=2)  # cut differently, but plain: the same array
    same(vfs.open(path)[...], twin)
    for how in ({"order": ">"}, {"compression": 8, "encode": zlib.compress}, {"tile": (16, 16)}):
        write_tiff(second, list(twin[1, 0]), **how)
        check_boxes(path, twin, count=5)
    write_tiff(second, [twin[1, 0, 0, :, :5], twin[1, 0, 1]])
    array = opens_incomplete(
        path, "set_1.ome.tif", "uint16[9, 5], expected uint16[9, 7]", counts={"frames_missing": 1}, kind=vfs.FormatError
    ).main
    twin[1, 0, 0] = 0
    same(array[...], twin)


def test_truncated_anywhere(tmp_path: Path) -> None:
    twin = frames_of((2, 1, 2, 3, 4), "u2")
    path = write_ome_tiff(tmp_path, twin, files=2)
    for victim in (path, tmp_path / "set_1.ome.tif"):
        whole = victim.read_bytes()
        for size in range(0, len(whole), 7):
            victim.write_bytes(whole[:size])
            assert victim.name in refuses(path, format="ome_tiff")
        victim.write_bytes(whole)
    same(vfs.open(path)[...], twin)


def test_a_tiff_without_a_document(tmp_path: Path) -> None:
    path = write_tiff(tmp_path / "a.ome.tif", [frames_of((4, 4), "u1")])
    assert detect(LocalSources(), str(path)).name == "tiff"
    refuses(path, "format='tiff'", format="ome_tiff", kind=vfs.FormatError)
    write_tiff(
        path,
        [frames_of((4, 4), "u1")],
        tags={259: (SHORT, [55555], 0)},
        description=ome_xml(SIZES, "uint8", "<TiffData/>"),
    )
    refuses(path, "55555", kind=vfs.FormatError)


def test_pickled(tmp_path: Path) -> None:
    twin = frames_of((2, 1, 2, 9, 7), "u2")
    same(pickle.loads(pickle.dumps(vfs.open(write_ome_tiff(tmp_path, twin, files=2))))[...], twin)


def test_pixels_in_the_text_are_said_or_left_to_others(tmp_path: Path) -> None:
    """OME-XML may hold pixels itself (BinData). It is not ours; beside images of pages such an image is named."""
    twin = frames_of((2, 1, 3, 5, 6), "u2")
    inside = '<BinData xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" Length="4">AAAA</BinData>'
    path = write_ome_tiff(tmp_path, twin, describe="companion")
    text = path.read_text()
    first = text.index("<TiffData")
    last = text.index("</Pixels>")
    bare = tmp_path / "a.ome"
    bare.write_text(text[:first] + inside + text[last:])
    with pytest.raises(vfs.UnknownFormatError):
        vfs.open(bare)
    image = text[text.index("<Image") : text.index("</Image>") + 8]
    other = image[: image.index("<TiffData")] + inside + image[image.index("</Pixels>") :]
    path.write_text(text.replace("</Image>", "</Image>" + other, 1))
    same(warned(path, "BinData", "image 1", "not shown")[...], twin)
