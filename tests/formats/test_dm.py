"""DM3 and DM4: what is peculiar to them. Tags, pixel types, thumbnails, stacks, spectra, 4D-STEM in both orders."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.conftest import SHARED, same_values
from tests.formats.frame_checks import arranged, check_boxes, frames_of, opens_incomplete, refuses, same
from tests.formats.sets import DM_SWAPPED, dm_set
from vfs.formats import dm
from vfs.formats.gatan_tags import StoredTag, plain, read_tags
from vfs.sets.describing import describe
from vfs.sources.local import LocalSources
from vfs.testing.gatan_writers import DATA_TYPES, tag_bytes, write_dm, write_tags
from vfs.testing.inside import reader_of, set_of

MAPS = {"Meta Data": {"Format": "Spectrum image"}}


def values(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Random elements of any dtype that these files know."""
    if dtype == "b1":
        return frames_of(shape, "u1") > 127
    if dtype.startswith("c"):
        return (frames_of(shape, "f8") + 1j * frames_of(shape, "f8", 1)).astype(dtype)
    return frames_of(shape, dtype)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("dtype", DATA_TYPES)
def test_pixels(tmp_path: Path, dtype: str, version: int, order: str) -> None:
    twin = values((3, 4, 5), dtype)
    path = write_dm(tmp_path, twin, version=version, order=order)
    check_boxes(path, twin, count=10)
    assert vfs.open(path).dims == ("frame", "y", "x")


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", [8, 23])
def test_colours_are_the_last_axis(tmp_path: Path, kind: int, order: str) -> None:
    twin = frames_of((4, 3, 5, 4), "u1")
    stored = twin[..., [2, 1, 0, 3]] if order == "<" else twin[..., [3, 0, 1, 2]]
    path = write_dm(tmp_path, np.ascontiguousarray(stored).view(f"{order}u4")[..., 0], colour=kind, order=order)
    check_boxes(path, twin)
    arranged(path, twin)
    assert vfs.open(path).dims == ("frame", "y", "x", "s")
    plain_one = write_dm(tmp_path, frames_of((4, 3, 5), "u1"), name="plain", order=order)
    refuses([path, plain_one], "plain", "holds uint8 [4, 3, 5] in colours")


def test_attributes(tmp_path: Path) -> None:
    path = write_dm(
        tmp_path,
        frames_of((3, 4), "u2"),
        tags={"Voltage": np.float64(200e3), "Text": "µm text", "Many": np.arange(5000), "Few": np.arange(3)},
    )
    array = vfs.open(path)
    assert array.dims == ("y", "x")
    assert array.attrs["calibration"] == {
        "y": {"scale": 1.0, "offset": -2.0, "unit": "nm"},
        "x": {"scale": 0.5, "offset": -1.0, "unit": "nm"},
    }
    assert array.attrs["tags"] == {"Voltage": 200e3, "Text": "µm text", "Few": [0, 1, 2]}
    assert array.attrs["name"] == "image 1"


def test_several_images_and_thumbnails(tmp_path: Path) -> None:
    small, large, line = frames_of((4, 5), "u2"), frames_of((6, 7), "f8"), frames_of((9,), "i4")
    group = vfs.open_group(write_dm(tmp_path, small, large, line))
    assert list(group) == ["image_1/data", "image_0/data", "image_2/data"]
    for name, twin in (("image_0/data", small), ("image_1/data", large), ("image_2/data", line)):
        same(group[name][...], twin)
    same(group.main[...], large)
    root = {
        "ImageList": [
            {"ImageData": {"Data": np.zeros(4, "u4"), "DataType": np.uint32(23), "Dimensions": [np.uint32(2)] * 2}}
        ]
    }
    assert vfs.open(write_tags(tmp_path / "alone.dm3", root)).shape == (2, 2, 4)  # nothing else is there: it is shown
    other = {"ImageData": {"Data": np.arange(4, dtype="u2"), "DataType": np.uint32(10), "Dimensions": [np.uint32(4)]}}
    root["ImageList"].append(other)
    assert vfs.open(write_tags(tmp_path / "unnamed.dm3", root)).shape == (4,)


def test_a_stack_of_files_keeps_its_order(tmp_path: Path) -> None:
    frames = frames_of((6, 4, 5), "u2")
    paths = [write_dm(tmp_path, frame, name=f"f{n}", tags={"Text": "x" * n}) for n, frame in enumerate(frames)]
    same(vfs.open(paths)[...], frames)
    same(vfs.open(str(tmp_path / "f*.dm3"))[...], frames)
    same(vfs.open(paths[::-1])[...], frames[::-1])
    several = [write_dm(tmp_path, frames[k : k + 2], name=f"s{k}") for k in (0, 2, 4)]
    same(vfs.open(several)[...], frames)
    same(vfs.open(several, same_offset=True)[...], frames)
    assert vfs.open(several, nav_shape=(2, 3)).dims == ("scan_y", "scan_x", "y", "x")
    refuses([paths[0], several[0]], "s0.dm3", "they are no stack")
    with several[1].open("r+b") as file:
        file.truncate(1000)
    refuses(several, "s2.dm3", same_offset=True)


def test_a_stack_with_a_missing_file(tmp_path: Path) -> None:
    twin = frames_of((3, 4, 5), "u2")
    paths = [write_dm(tmp_path, twin[k], name=f"f{n}") for k, n in enumerate((1, 2, 4))]
    group = opens_incomplete(
        paths,
        "f3.dm3: missing",
        "(frame 2)",
        counts={"files_missing": 1, "frames_missing": 1},
        kind=vfs.MissingSourceError,
    )
    assert group.main.valid.tolist() == [True, True, False, True]
    same(group.main[...], np.insert(twin, 2, 0, axis=0))
    paths[1].write_bytes(paths[1].read_bytes()[:100])
    words = "f2.dm3: expected pixels from byte", "has 100; it looks truncated"
    group = opens_incomplete(
        paths[:2], *words, counts={"frames_missing": 1}, kind=vfs.TruncatedSourceError, same_offset=True
    )
    assert group.main.valid.tolist() == [True, False]
    same(group.main[0], twin[0])


@pytest.mark.parametrize(
    ("dtype", "order", "half", "shape"),
    [
        ("c8", "<", True, (6, 10)),
        ("c16", ">", True, (5, 4)),
        ("c8", ">", "square", (8, 8)),
        ("c8", "<", "square", (2, 2)),
    ],
)
def test_fourier_transforms_are_shown_whole(
    tmp_path: Path, dtype: str, order: str, half: bool | str, shape: tuple[int, int]
) -> None:
    ones = [np.fft.fft2(image).astype(dtype) for image in np.random.default_rng(0).random((4, *shape))]
    for k, one in enumerate(
        ones
    ):  # what follows from other numbers is equal to the last bit, and real where it must be
        ones[k] = (one + np.roll(one[::-1, ::-1], (1, 1), (0, 1)).conj()) / 2
    paths = [write_dm(tmp_path, one, half=half, order=order, name=f"f{k}") for k, one in enumerate(ones)]
    check_boxes(paths[0], ones[0], count=10)
    assert vfs.open(paths[0]).attrs["calibration"]["x"]["scale"] == 0.5
    same(vfs.open(paths)[...], np.stack(ones))
    complete = write_dm(tmp_path, ones[0], order=order, name="complete")
    refuses([paths[0], complete], "complete", "they are no stack")
    paths.pop(2).unlink()
    twin = np.stack([*ones[:2], ones[0] * 0, ones[3]])
    counts = {"files_missing": 1, "frames_missing": 1}
    found = opens_incomplete(paths, "f2.dm3", counts=counts, kind=vfs.MissingSourceError).main
    same(found[...], twin)


@pytest.mark.parametrize(
    "tags",
    [
        {"4D STEM Tags": {"Scan shape X": np.uint32(3), "Scan shape Y": np.uint32(2)}},
        {"Series": {"nimagesx": np.float32(3), "nimagesy": np.float32(2)}},
    ],
)
def test_tags_have_the_shape_of_a_scan(tmp_path: Path, tags: Mapping[str, Any]) -> None:
    twin = frames_of((6, 4, 5), "u2")
    array = vfs.open(write_dm(tmp_path, twin, tags=tags))
    same(array[...], twin.reshape(2, 3, 4, 5))
    assert array.dims == ("scan_y", "scan_x", "y", "x")
    same(vfs.open(write_dm(tmp_path, twin, tags=tags), nav_shape=(3, 2))[...], twin.reshape(3, 2, 4, 5))
    same(vfs.open(write_dm(tmp_path, twin[:5], tags=tags))[...], twin[:5])
    same(vfs.open([write_dm(tmp_path, twin, tags=tags, name=name) for name in "ab"])[...], np.concatenate([twin] * 2))


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("dtype", ["u2", "c8"])
def test_files_that_are_alike_around_their_pixels_are_not_parsed(
    tmp_path: Path, version: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = frames_of((6, 4, 5), "u2").astype(dtype)
    paths = [
        str(write_dm(tmp_path, frame, name=f"f{n}", tags={"Number": np.uint32(n)}, version=version))
        for n, frame in enumerate(frames)
    ]
    parsed: list[str] = []
    monkeypatch.setattr(dm, "read_tags", lambda *how: parsed.append(how[1]) or read_tags(*how))
    same(vfs.open(paths)[...], frames)
    assert parsed == paths[:1]
    longer = str(
        write_dm(
            tmp_path,
            frames[1],
            name="f1",
            tags={"Number": np.uint32(1), "Z": "behind the pixels, before those of the next"},
            version=version,
        )
    )
    parsed.clear()
    same(vfs.open(paths)[...], frames)
    assert parsed == [paths[0], longer]
    parsed.clear()
    other = {"u2": "i2", "c8": "f8"}[dtype]  # of the same length
    for made in (frames[2].reshape(5, 4), frames[2].real.astype(other), frames[2].reshape(2, 10)):
        write_dm(tmp_path, made, name="f2", version=version, tags={"Number": np.uint32(2)})
        refuses(paths, "f2", "they are no stack")
    (tmp_path / f"f2.dm{version}").unlink()
    refuses(paths, "f2", "no such file")


def test_100_000_frames(tmp_path: Path) -> None:
    twin = frames_of((100_000, 2, 3), "u1")
    array = vfs.open(write_dm(tmp_path, twin, version=4))
    assert array.shape == twin.shape
    same(array[99_999], twin[99_999])


@pytest.mark.parametrize("tags", [DM_SWAPPED, None])
def test_scans(tmp_path: Path, tags: Mapping[str, Any] | None) -> None:
    twin = frames_of((2, 3, 4, 5), "u2")
    stored = twin if tags else np.ascontiguousarray(twin.transpose(2, 3, 0, 1))
    path = write_dm(
        tmp_path,
        stored,
        version=4,
        tags=tags,
        units=("1/nm", "1/nm", "nm", "nm") if tags else ("nm", "nm", "1/nm", "1/nm"),
    )
    check_boxes(path, twin, count=80)
    frames = frames_of((6, 3, 4), "i4")
    scan = frames.reshape(2, 3, 3, 4)
    series = write_dm(
        tmp_path, scan if tags else np.ascontiguousarray(scan.transpose(2, 3, 0, 1)), tags=tags, name="series"
    )
    arranged(series, frames)
    array = vfs.open(path)
    assert array.dims == ("scan_y", "scan_x", "y", "x")
    assert [array.attrs["calibration"][d]["unit"] for d in array.dims] == ["nm", "nm", "1/nm", "1/nm"]
    same(vfs.open(path, signal_first=False)[...], stored)
    same(vfs.open(path, signal_first=True)[...], stored.transpose(2, 3, 0, 1))
    same(vfs.open(path, roi=np.array([5, 1]))[...], twin.reshape(6, 4, 5)[[5, 1]])


def test_one_pixel_of_a_scan_stored_as_maps_is_one_range(tmp_path: Path) -> None:
    stored = frames_of((4, 5, 20, 30), "u2")
    array = vfs.open(write_dm(tmp_path, stored))
    assert array.chunks[:2] == (20, 30)
    rows, covered = reader_of(array).dataset.layout.read_ranges(vfs.Region.box((0, 0, 1, 2), (20, 30, 2, 3)))
    assert (len(rows), covered) == (1, 600)
    rows, covered = reader_of(array).dataset.layout.read_ranges(vfs.Region.box((0, 0, 0, 0), (20, 30, 4, 5)))
    assert (len(rows), covered) == (20, 12_000)
    assert reader_of(array).dataset.layout.read_ranges(vfs.Region.whole(array.shape), 19)[1] == -1


def test_maps_have_a_short_description_only(tmp_path: Path) -> None:
    stored = frames_of((4, 5, 2, 3), "u2")
    path = write_dm(tmp_path, stored)
    with pytest.raises(vfs.OptionError, match="only the short one"):
        describe(set_of(vfs.open_group(path)), explicit=True)
    (tmp_path / "x.vfs.json").write_text(json.dumps(describe(set_of(vfs.open_group(path, sync_offset=1)), tmp_path)))
    same(vfs.open(tmp_path / "x.vfs.json")[0, 0], stored[:, :, 0, 1])


def test_spectra(tmp_path: Path) -> None:
    one = frames_of((9,), "f4")
    assert vfs.open(write_dm(tmp_path, one, units=("eV",))).dims == ("energy",)
    assert vfs.open(write_dm(tmp_path, one)).dims == ("x",)
    assert vfs.open(write_dm(tmp_path, frames_of((3, 9), "f4"), units=("keV", "nm"))).dims == ("scan_x", "energy")
    assert vfs.open(write_dm(tmp_path, frames_of((3, 9), "f4"), units=("keV", "s"))).dims == ("frame", "energy")
    maps = frames_of((7, 3, 4), "f4")
    path = write_dm(tmp_path, maps, tags=MAPS, name="maps")
    shown = np.ascontiguousarray(maps.transpose(1, 2, 0))
    check_boxes(path, shown)
    assert vfs.open(path).dims == ("scan_y", "scan_x", "energy")
    check_boxes(path, maps, signal_first=False)
    assert vfs.open(path, signal_first=False).dims == ("energy", "scan_y", "scan_x")


SPECTRUM_IMAGE: dict[str, Any] = {"Meta Data": {"Format": "Spectrum image"}}
CL: dict[str, Any] = {"Meta Data": {"Signal": "CL"}}


@pytest.mark.parametrize(
    ("units", "tags", "dims", "maps"),
    [  # units as stored, slowest axis first
        (("eV", "nm", "nm"), None, ("scan_y", "scan_x", "energy"), 1),
        (("keV", "µm", "µm"), None, ("scan_y", "scan_x", "energy"), 1),
        (("eV", "nm", "nm"), {"Meta Data": {"Format": "Image"}}, ("energy", "y", "x"), 0),  # EFTEM
        (("nm", "nm", "eV"), None, ("scan_y", "scan_x", "energy"), 0),
        (("nm", "nm", "eV"), SPECTRUM_IMAGE, ("scan_y", "scan_x", "energy"), 0),
        (("eV", "nm"), None, ("scan_x", "energy"), 1),
        (("nm", "eV", "nm"), None, ("scan_y", "energy", "scan_x"), 0),
        (("", "nm", "nm"), SPECTRUM_IMAGE, ("scan_y", "scan_x", "energy"), 1),
        (("nm", "µm", "µm"), SPECTRUM_IMAGE, ("scan_y", "scan_x", "wavelength"), 1),
        (("nm", "µm", "µm"), CL, ("scan_y", "scan_x", "wavelength"), 1),
        (("Å", "µm", "µm"), CL, ("scan_y", "scan_x", "wavelength"), 1),
        (("µm", "nm"), CL, ("scan_x", "wavelength"), 0),
        (("nm", "µm", "µm"), None, ("frame", "y", "x"), 0),
        (("s", "eV", "nm", "nm"), None, ("t", "energy", "scan_y", "scan_x"), 0),
        (("eV", "s", "nm", "nm"), None, ("t", "scan_y", "scan_x", "energy"), 1),
        # energy and momentum
        (("mrad", "eV", "nm", "nm"), None, ("scan_y", "scan_x", "q", "energy"), 2),
        (("eV", "1/Å", "nm", "nm"), SPECTRUM_IMAGE, ("scan_y", "scan_x", "energy", "q"), 2),
        (("nm", "nm", "mrad", "eV"), None, ("scan_y", "scan_x", "q", "energy"), 0),
        (("mrad", "eV", "nm"), None, ("scan_x", "q", "energy"), 2),
        (("mrad", "eV"), None, ("frame", "energy"), 0),
        # 4D-STEM
        (("", "", "", ""), None, ("scan_y", "scan_x", "y", "x"), 2),
        (("1/nm", "1/nm", "nm", "nm"), None, ("scan_y", "scan_x", "y", "x"), 2),
        (("nm", "nm", "1/nm", "1/nm"), None, ("scan_y", "scan_x", "y", "x"), 0),
        (("µm", "µm", "mrad", "mrad"), None, ("scan_y", "scan_x", "y", "x"), 0),
        (("", "", "mrad", "mrad"), None, ("scan_y", "scan_x", "y", "x"), 0),
        (("nm", "nm", "", ""), None, ("scan_y", "scan_x", "y", "x"), 0),
        (("", "", "nm", "nm"), None, ("scan_y", "scan_x", "y", "x"), 2),
        (("1/nm", "1/nm", "nm", "nm"), DM_SWAPPED, ("scan_y", "scan_x", "y", "x"), 0),
        (("mrad", "mrad", "nm"), None, ("scan_x", "y", "x"), 2),
        (("nm", "mrad", "mrad"), None, ("scan_x", "y", "x"), 0),
    ],
)
def test_units_and_tags_name_the_axes(
    tmp_path: Path, units: Sequence[str], tags: Mapping[str, Any] | None, dims: Sequence[str], maps: int
) -> None:
    stored = frames_of((2, 3, 4, 5)[: len(units)], "u2")
    array = vfs.open(write_dm(tmp_path, stored, version=4, tags=tags, units=units[::-1]))
    assert array.dims == dims
    same(array[...], np.moveaxis(stored, range(maps), range(-maps, 0)))


def test_frames_of_energy_and_momentum_stay_as_they_are_stored(tmp_path: Path) -> None:
    stored = frames_of((2, 3, 4, 5), "u2")
    array = vfs.open(write_dm(tmp_path, stored, units=("nm", "nm", "eV", "mrad")), signal_first=False)
    assert array.dims == ("q", "energy", "scan_y", "scan_x")
    same(array[...], stored)


def test_tags_of_all_types(tmp_path: Path) -> None:
    numbers = {d: np.array(3, d) for d in ("i2", "i4", "u2", "u4", "f4", "f8", "b1", "i1", "u1", "i8", "u8")}
    for version in (3, 4):
        for order in "<>":
            root = {
                **numbers,
                "record": (1, -2),
                "group": [np.int32(5), {"in": np.int32(6)}],
                "empty": {},
                "Data": np.arange(3),
                "pairs": np.array([1 + 2j], "c8"),
            }
            tags = read_tags(LocalSources(), str(write_tags(tmp_path / "x.dm3", root, version, order)))
            assert (tags.version, tags.order) == (version, order)
            assert [tags.root[d] for d in numbers] == [True if d == "b1" else 3 for d in numbers]
            assert tags.get("record") == [1, -2]
            assert tags.get("group/1/in") == 6
            assert tags.get("group/7/in", "none") == "none"
            assert tags.get("pairs") == [[1.0, 2.0]]
            assert isinstance(tags.get("Data"), StoredTag)
            assert len(plain(tags.root, 3)) == 3


def test_arrays_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.dm4"
    kind = b"%%%%" + struct.pack(">4Q", 3, 20, 10, 1 << 40)  # a terabyte of nothing
    path.write_bytes(struct.pack(">IQI", 4, 0, 1) + b"\1\0" + struct.pack(">QBH", 1, 21, 4) + b"long" + bytes(8) + kind)
    refuses(path, "'long'", "looks truncated")
    before = path.stat().st_size
    os.truncate(path, before + (1 << 40))
    assert read_tags(LocalSources(), str(path)).root["long"] == StoredTag(before, 1 << 40)
    refuses(path, "found none")


def test_tags_without_end(tmp_path: Path) -> None:
    def file(body: bytes) -> Path:
        path = tmp_path / "x.dm3"
        path.write_bytes(struct.pack(">III", 3, 0, 1) + b"\1\0" + body)
        return path

    refuses(file(struct.pack(">I", 1 << 31) + struct.pack(">BHBBI", 20, 0, 0, 0, 1) * 1000), "deep", format="dm")
    refuses(file(struct.pack(">I", 1 << 31) + struct.pack(">BHBBI", 20, 0, 0, 0, 0) * 210_000), "tags", format="dm")
    refuses(file(struct.pack(">I", 1 << 31)), "truncated", format="dm")
    refuses(file(struct.pack(">IBH", 1, 21, 60_000)), "name", format="dm")
    refuses(file(struct.pack(">IBH", 1, 21, 1) + b"a%%%%" + struct.pack(">I", 1 << 30)), "type", format="dm")
    refuses(file(struct.pack(">IBH", 1, 21, 1) + b"a%%%%" + struct.pack(">II", 1, 99)), "type", "99", format="dm")
    refuses(file(struct.pack(">IBH", 1, 21, 1) + b"a%%%?"), "mark", format="dm")
    refuses(file(struct.pack(">IBH", 1, 33, 0)), "33", format="dm")
    refuses(write_tags(tmp_path / "none.dm3", {"a": np.int32(1)}), "found none")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"DataType": np.uint32(5)}, ("half of a Fourier transform", "as many rows")),
        ({"DataType": np.uint32(77)}, ("77",)),
        (
            {"DataType": np.uint32(27), "Dimensions": [np.uint32(3), np.uint32(2)]},
            ("half of a Fourier transform", "even number of columns"),
        ),
        ({"DataType": "text"}, ("text",)),
        ({"DataType": np.uint32(7)}, ("take 4 bytes", "2")),
        ({"Dimensions": [np.uint32(3), np.uint32(0)]}, ("dimensions",)),
        ({"Dimensions": [np.uint32(1 << 31)] * 4}, ("but only",)),
        ({"Dimensions": [np.uint32(1)] * 9}, ("dimensions",)),
        ({"Dimensions": np.float64(2)}, ("dimensions",)),
        ({"Dimensions": [np.uint32(5), np.uint32(3)]}, ("but only 24 bytes",)),
        ({"Data": np.uint16(1)}, ("found none",)),
    ],
)
def test_refused(tmp_path: Path, change: Mapping[str, Any], words: tuple[str, ...]) -> None:
    data = {
        "Data": np.zeros(12, "u2"),
        "DataType": np.uint32(10),
        "Dimensions": [np.uint32(4), np.uint32(3)],
        "PixelDepth": np.uint32(2),
    }
    assert vfs.open(write_tags(tmp_path / "x.dm3", {"ImageList": [{"ImageData": data}]})).shape == (3, 4)
    refuses(write_tags(tmp_path / "x.dm3", {"ImageList": [{"ImageData": {**data, **change}}]}), "x.dm3", *words)


def test_options_must_fit(tmp_path: Path) -> None:
    path, _, _ = dm_set(tmp_path)
    refuses(path, "signal_first", kind=vfs.OptionError, signal_first="maybe")
    maps = [write_dm(tmp_path, frames_of((2, 3, 4, 5), "u1"), name=n) for n in "ab"]
    refuses(maps, "stacked")


def test_truncated_maps(tmp_path: Path) -> None:
    """Of maps, part of every frame would be missing."""
    path = write_dm(tmp_path, frames_of((2, 3, 4, 5), "u2"), version=4)
    whole = path.read_bytes()
    for size in range(0, len(whole) - 8, 31):
        path.write_bytes(whole[:size])
        refuses(path, str(path), format="dm")


def test_tag_bytes_are_what_readers_know() -> None:
    assert tag_bytes(np.uint16(258)) == b"%%%%\0\0\0\1\0\0\0\4\2\1"
    assert tag_bytes({"a": {}}, 4) == b"\1\0" + bytes(7) + b"\1" + b"\x14\0\1a" + bytes(7) + b"\x0a" + b"\1\0" + bytes(
        8
    )


def test_real_files(oracle: dict[str, Any]) -> None:
    seen = 0
    for name, entry in oracle.items():
        if entry["format"] != "dm":
            continue
        for backend in ("mmap", "buffered"):
            group = vfs.open_group(SHARED / entry["files"][0], backend=backend, signal_first=False)
            assert len(group) == len(entry["arrays"])
            for key, array in entry["arrays"].items():
                found = group["data" if len(group) == 1 else f"image_{key.removeprefix('image')}/data"]
                assert same_values(found[...], array), (name, key)
        seen += 1
    assert seen == sum(entry["format"] == "dm" for entry in oracle.values()) > 0
