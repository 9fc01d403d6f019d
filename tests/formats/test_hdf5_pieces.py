"""HDF5: numbered pieces (`data_000001` …) are one array of frames, in the order of their numbers."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.formats import hdf5_sets
from tests.formats.frame_checks import check_boxes, frames_of, incomplete, opens_incomplete, refuses, same, warned
from tests.formats.hdf5_sets import FILTERS
from vfs.testing.inside import reader_of

h5py = pytest.importorskip("h5py")

SHAPE = (8, 9)


def pieces(folder: Path, parts: dict[str, np.ndarray], way: str = "here", **options: Any) -> Path:
    """Write data sets, in a master or in files of their own to which it links."""
    with h5py.File(folder / "set_master.h5", "w", libver="latest") as master:
        group = master.create_group("entry/data")
        for name, values in parts.items():
            if options:
                options["chunks"] = (1, *SHAPE)[-values.ndim :]
            if way == "here":
                group.create_dataset(name, data=values, **options)
                continue
            with h5py.File(folder / f"{name}.h5", "w") as file:
                file.create_dataset("data", data=values, **options)
            if way == "linked":
                group[name] = h5py.ExternalLink(f"{name}.h5", "/data")
            else:
                layout = h5py.VirtualLayout(values.shape, values.dtype)
                layout[...] = h5py.VirtualSource(f"{name}.h5", "data", values.shape)
                group.create_virtual_dataset(name, layout)
    return folder / "set_master.h5"


def split(frames: np.ndarray, counts: list[int], digits: int = 6) -> dict[str, np.ndarray]:
    """Divide frames into pieces of so many; 0 stands for one frame without an axis for it."""
    found, at = {}, 0
    for n, count in enumerate(counts, 1):
        found[f"data_{n:0{digits}d}"] = frames[at : at + count] if count else frames[at]
        at += count or 1
    assert at == len(frames)
    return found


@pytest.mark.parametrize("way", ["here", "linked", "virtual"])
@pytest.mark.parametrize("counts", [[0, 0, 0], [1, 1, 1], [1, 0, 0, 1], [3, 3, 0], [0] * 12], ids=str)
def test_a_piece_of_two_axes_is_a_frame(tmp_path: Path, way: str, counts: list[int]) -> None:
    frames = frames_of((sum(n or 1 for n in counts), *SHAPE), "u2").astype(">u2")
    for options in ({}, FILTERS["gzip shuffle"]):
        path = pieces(tmp_path, split(frames, counts), way, **options)
        assert list(vfs.open_group(path)) == ["entry/data/data"]
        check_boxes(path, frames, path="entry/data/data", count=4)
        if options or way != "virtual" or max(counts) < 2:  # else a stored block is several frames
            same(vfs.open(path, nav_shape=(1, len(frames)))[0], frames)
            same(vfs.open(path, sync_offset=1)[:-1], frames[1:])


def test_rows_of_a_table_follow_on_each_other(tmp_path: Path) -> None:
    table = frames_of((11, 7), "f4")
    check_boxes(pieces(tmp_path, split(table, [4, 4, 3])), table, path="entry/data/data", count=6)


def test_a_master_may_be_named_with_its_pieces(tmp_path: Path) -> None:
    frames = frames_of((5, 4, 6), "u2")
    master = hdf5_sets.dectris(tmp_path, frames, 2)
    pieces = sorted(tmp_path.glob("scan_data*"))
    for named in ([master, *pieces], [*pieces[::-1], master]):
        same(vfs.open(named)[...], frames)
    same(vfs.open(str(tmp_path / "scan_*.h5"))[...], frames)
    other = hdf5_sets.written(tmp_path, "other.h5", data=(frames, {}))
    for named in ([master, other], [other, pieces[0]], pieces[:2]):
        refuses(named, "named by one file", kind=vfs.OptionError)


@pytest.mark.parametrize("digits", [1, 3, 6])
def test_linked_pieces_are_sorted_by_number(tmp_path: Path, digits: int) -> None:
    frames = frames_of((12, *SHAPE), "u2")
    same(vfs.open(pieces(tmp_path, split(frames, [0] * 12, digits), "linked"))[...], frames)
    if digits != 6:  # data sets of one file that have a number may be different things
        assert len(vfs.open_group(pieces(tmp_path, split(frames, [0] * 12, digits)))) == 12


@pytest.mark.parametrize(("counts", "each"), [([0] * 5, 1), ([4, 4, 4, 4, 2], 4)], ids=str)
@pytest.mark.parametrize("way", ["here", "linked"])
def test_a_hole_in_the_numbers_is_a_loss(tmp_path: Path, counts: list[int], each: int, way: str) -> None:
    frames = frames_of((sum(n or 1 for n in counts), *SHAPE), "u2")
    parts = split(frames, counts)
    del parts["data_000002"], parts["data_000003"]
    group = opens_incomplete(
        pieces(tmp_path, parts, way),
        "data_000002 is not there, but data_000004 is (and 1 more like it): frames are missing",
        kind=vfs.MissingSourceError,
        counts={"files_missing": 2, "frames_missing": 2 * each},
    )
    frames[each : 3 * each] = 0
    same(group["entry/data/data"][...], frames)
    with pytest.raises(vfs.MissingSourceError, match="data_000002"):
        vfs.open(tmp_path / "set_master.h5", array="entry/data/data")


def test_a_hole_of_unknown_size_is_a_loss(tmp_path: Path) -> None:
    parts = split(frames_of((7, *SHAPE), "u2"), [2, 1, 3, 1])
    del parts["data_000003"]
    group = opens_incomplete(
        pieces(tmp_path, parts),
        "stay apart: the number of frames in its missing pieces is not known (entry/data/data_000003 is not there",
        kind=vfs.MissingSourceError,
        counts={"files_missing": 1},
    )
    assert len(group) == 3


def test_pieces_that_do_not_fit_are_told(tmp_path: Path) -> None:
    frames = frames_of((4, *SHAPE), "u2")
    path = pieces(tmp_path, split(frames, [4]) | {"data_000002": frames[:2].astype("f4")})
    same(warned(path, "numbered pieces of entry/data/data stay apart: its pieces differ in type")[...], frames)
    path = pieces(tmp_path, {"data_000001": frames[0], "data_999999": frames[1]})
    warned(path, "stay apart: its pieces are numbered from 1 to 999,999")
    path = pieces(tmp_path, {"data_000043": frames[0], "data_000044": frames[1]})
    same(warned(path, "data_000043 is the first of its numbered pieces")[...], frames[:2])
    path = pieces(tmp_path, {"data_000003": frames[0]})
    same(warned(path, "data_000003 is the first of its numbered pieces")[...], frames[0])


def test_first_pieces_that_are_lost_are_missing_frames(tmp_path: Path) -> None:
    """The numbers begin with 1: the frames that are there stand where they would with all."""
    frames = frames_of((8, *SHAPE), "u2")
    path = pieces(tmp_path, split(frames, [3, 3, 2]))
    with h5py.File(path, "a") as file:
        del file["entry/data/data_000001"]
    said = ["data_000001 is not there, but data_000002 is", "frames are missing"]
    counts = {"files_missing": 1, "frames_missing": 3}
    shown = opens_incomplete(path, *said, counts=counts, kind=vfs.MissingSourceError).main[...]
    same(shown[3:], frames[3:])
    assert not shown[:3].any()
    with h5py.File(path, "a") as file:
        del file["entry/data/data_000002"]
    same(warned(path, "data_000003 is the first")[...], frames[6:])


@pytest.mark.parametrize("name", ["scale_factor", "add_offset", "_FillValue"])
def test_pieces_of_other_scales_stay_apart(tmp_path: Path, name: str) -> None:
    """One attribute holds for all frames of an array."""
    frames = frames_of((4, *SHAPE), "u2")
    path = pieces(tmp_path, split(frames, [2, 2]))
    for second, joined in ((3.0, True), (0.5, False), (None, False)):
        with h5py.File(path, "a") as file:
            for k, value in ((1, 3.0), (2, second)):
                attrs = file[f"entry/data/data_00000{k}"].attrs
                attrs.pop(name, None)
                if value is not None:
                    attrs[name] = value
        if joined:
            array = vfs.open(path)
            same(array[...], frames)
            assert reader_of(array).dataset.conventions[name] == 3.0
        else:
            same(warned(path, f"stay apart: its pieces differ in {name}")[...], frames[:2])


def test_pieces_come_before_longer_tables_without_nexus(tmp_path: Path) -> None:
    frames = frames_of((4, *SHAPE), "u2")
    for parts in (
        split(frames, [2, 2]),
        {"data_000001": frames},
        {"data_000001": frames, "data_000002": frames[:1] * 1.0},
    ):
        path = pieces(tmp_path, parts)
        with h5py.File(path, "a") as file:
            for group in ("entry", "entry/data"):
                file[group].attrs.clear()
            file["entry/sample/goniometer/omega"] = np.arange(100_000.0)
            file["entry/sample/data_000001"] = np.arange(200_000.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            same(vfs.open(path)[...], frames)


def test_attributes_of_the_whole_are_those_of_all_pieces(tmp_path: Path) -> None:
    path = pieces(tmp_path, split(frames_of((4, *SHAPE), "u2"), [2, 2]))
    with h5py.File(path, "a") as file:
        for k in (1, 2):
            file[f"entry/data/data_00000{k}"].attrs.update({"image_nr_low": 2 * k - 1, "units": "counts"})
    attrs = reader_of(vfs.open(path)).dataset.attrs
    assert attrs["units"] == "counts"
    assert "image_nr_low" not in attrs


def test_a_piece_that_was_never_written_is_blank(tmp_path: Path) -> None:
    frames = frames_of((3, *SHAPE), "u2")
    path = pieces(tmp_path, {"data_000002": frames})
    with h5py.File(path, "a") as file:
        file.create_dataset("entry/data/data_000001", shape=(2, *SHAPE), dtype="u2")
    same(vfs.open(path)[...], np.concatenate([np.zeros((2, *SHAPE), "u2"), frames]))


def test_a_piece_in_a_raw_file(tmp_path: Path) -> None:
    frames = frames_of((2, *SHAPE), "<u2")
    frames[1].tofile(tmp_path / "more.raw")
    path = pieces(tmp_path, {"data_000001": frames[0]})
    plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plan.set_external(b"more.raw", 0, frames[1].nbytes)
    with h5py.File(path, "a") as file:
        space = h5py.h5s.create_simple(SHAPE)
        h5py.h5d.create(file["entry/data"].id, b"data_000002", h5py.h5t.STD_U16LE, space, plan)
    same(vfs.open(path)[...], frames)


def numbered_images(folder: Path, frames: np.ndarray, lows: list[int], kind: str = "u2") -> Path:
    """Write three linked pieces of three frames that say which image is their first one."""
    path = pieces(folder, split(frames, [3, 3, 3]), "linked")
    for n, low in enumerate(lows, 1):
        with h5py.File(folder / f"data_{n:06d}.h5", "a") as file:
            file["data"].attrs["image_nr_low"] = np.array(low, kind)
            file["data"].attrs["image_nr_high"] = np.array(low + 2, kind)
    return path


@pytest.mark.parametrize("kind", ["u8", ">i4"])
@pytest.mark.parametrize(
    ("lows", "said"),
    [
        ([1, 7, 7], "data_000002 says that it begins with image 7, by its number it would begin with 4"),
        ([1, 4, 4], "data_000003 says that it begins with image 4, by its number it would begin with 7"),
        ([4, 1, 7], "(and 1 more like it): it belongs to another acquisition, or has another's name"),
        ([1, 4, 10], "data_000003 says that it begins with image 10"),
    ],
)
def test_a_piece_of_another_run_is_told(tmp_path: Path, lows: list[int], said: str, kind: str) -> None:
    frames = frames_of((9, *SHAPE), "u2")
    path = numbered_images(tmp_path, frames, lows, kind)
    same(incomplete(path, said, kind=vfs.FormatError)[...], frames)


@pytest.mark.parametrize("lows", [[1, 4, 7], [101, 104, 107], [1, 1, 1]])
def test_images_that_are_where_their_numbers_say(tmp_path: Path, lows: list[int]) -> None:
    frames = frames_of((9, *SHAPE), "u2")
    path = numbered_images(tmp_path, frames, lows)
    same(vfs.open(path)[...], frames)
    with h5py.File(path, "a") as file:
        del file["entry/data/data_000002"]
    if len({*lows}) > 1:
        incomplete(path, "data_000002 is not there", kind=vfs.MissingSourceError)


def test_a_linked_piece_of_another_kind_is_no_small_set(tmp_path: Path) -> None:
    """Its file is of another run: what is left of this one must not stand for all."""
    frames = frames_of((6, *SHAPE), "u2")
    for other, said in ((frames[:2].astype("u4"), "differ in type"), (frames[:2, :, :4], "differ in shape")):
        path = pieces(tmp_path, {"data_000001": frames[:4], "data_000002": other}, "linked")
        same(incomplete(path, f"stay apart: its pieces {said}", kind=vfs.FormatError)[...], frames[:4])


def test_fewer_images_than_the_master_says(tmp_path: Path) -> None:
    frames = frames_of((5, *SHAPE), "u2")
    path = pieces(tmp_path, split(frames, [3, 2]))
    with h5py.File(path, "a") as file:
        about = file.create_group("entry/instrument/detector/detectorSpecific")
        about["nimages"], about["ntrigger"] = np.uint32(2), np.uint64(4)
    group = opens_incomplete(path, "says 8 images", "5 are stored", counts={"frames_missing": 3})
    same(group.main[...], frames)
