"""SEQ: what is peculiar to it. Versions, frame counts by size, time stamps, refusals by name,
Direct Electron's files and halves.
"""

from __future__ import annotations

import shutil
import struct
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import vfs
from tests.conftest import SHARED, same_values
from tests.formats.frame_checks import (
    arranged,
    check_boxes,
    frames_of,
    opens_incomplete,
    refuses,
    same,
)
from tests.formats.seq_sets import write_camera, write_config, write_halves, write_reference
from vfs.cli import app
from vfs.engine.array import ArrayReader
from vfs.formats.seq.halves import other_half
from vfs.sources.local import LocalSources
from vfs.testing.backends import CountingBackend
from vfs.testing.frame_writers import write_seq
from vfs.testing.inside import reader_of


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize("dtype", ["u1", "u2", "u4"])
def test_boxes(tmp_path: Path, version: int, dtype: str) -> None:
    twin = frames_of((7, 5, 6), dtype)
    path = write_seq(tmp_path, twin, version=version)
    check_boxes(path, twin, count=20)
    group = vfs.open_group(path)
    assert group["data"].dims == ("frame", "y", "x")
    same(group["timestamp_seconds"][...], np.full(7, 1_600_000_000, "u4"))
    same(group["timestamp_milliseconds"][...], np.arange(7, dtype="u2"))
    if version == 5:
        same(group["timestamp_microseconds"][...], np.arange(7, dtype="u2"))
    assert ("timestamp_microseconds" in group) == (version == 5)
    assert group.main.attrs["header"]["description"] == "made for a test"
    assert group.main.attrs["calibration"] == {"frame": {"scale": 1 / 400, "offset": 0.0, "unit": "s"}}


@pytest.mark.parametrize("record", [60, 64, 66, 68, 1000])
def test_records_with_little_room(tmp_path: Path, record: int) -> None:
    twin = frames_of((4, 5, 6), "u2")  # 60 bytes
    group = vfs.open_group(write_seq(tmp_path, twin, record=record))
    same(group["data"][...], twin)
    assert [name in group for name in ("timestamp_seconds", "timestamp_milliseconds", "timestamp_microseconds")] == [
        record >= 64,
        record >= 66,
        record >= 68,
    ]


@pytest.mark.parametrize("allocated", [0, 3, 1000, (1 << 32) - 1])
def test_frames_are_counted_by_size(tmp_path: Path, allocated: int) -> None:
    twin = frames_of((7, 5, 6), "u2")
    path = write_seq(tmp_path, twin, allocated=allocated)
    if allocated == 1000:
        group = opens_incomplete(path, "scan.seq", "says 1,000 images, 7 are stored", counts={"frames_missing": 993})
        same(group.main[...], twin)
    elif allocated == 3:
        with pytest.warns(vfs.IncompleteWarning, match="says 3 images, 7 are stored: all are shown"):
            same(vfs.open(path)[...], twin)
    else:
        same(vfs.open(path)[...], twin)


def test_files_of_which_one_is_cut_or_missing(tmp_path: Path) -> None:
    twin = frames_of((8, 5, 6), "u2")
    paths = [write_seq(tmp_path, twin[k : k + 2], name=f"part{k // 2}.seq") for k in (0, 2, 4, 6)]
    whole = paths[3].read_bytes()
    paths[3].write_bytes(whole[:-3])
    lost = {"frames_missing": 1, "bytes_left_over": (len(whole) - 8192) // 2 - 3}
    same(
        opens_incomplete(paths, f"part3.seq: {lost['bytes_left_over']} bytes are left over", counts=lost).main[...],
        twin[:7],
    )
    same(
        opens_incomplete(
            paths[::-1],
            f"part3.seq: {lost['bytes_left_over']} bytes are left over",
            counts=lost,
            kind=vfs.TruncatedSourceError,
        ).main[:1],
        twin[6:7],
    )
    paths[3].write_bytes(whole)
    paths[2].unlink()
    blank = twin.copy()
    blank[4:6] = 0
    group = opens_incomplete(
        [*paths[:2], paths[3]],
        "part2.seq: missing",
        counts={"files_missing": 1, "frames_missing": 2},
        kind=vfs.MissingSourceError,
    )
    same(group.main[...], blank)
    assert group.main.valid.tolist() == [True] * 4 + [False] * 2 + [True] * 2
    same(group["timestamp_milliseconds"][...], np.array([0, 1, 0, 1, 0, 0, 0, 1], "u2"))


def test_files_that_follow_each_other(tmp_path: Path) -> None:
    twin = frames_of((7, 5, 6), "u2")
    paths = [write_seq(tmp_path, part, name=f"part{k}.seq") for k, part in enumerate((twin[:2], twin[2:3], twin[3:]))]
    check_boxes(paths, twin)
    same(vfs.open_group(paths)["timestamp_milliseconds"][...], np.array([0, 1, 0, 0, 1, 2, 3], "u2"))
    other = write_seq(tmp_path, twin[:, :4], name="other.seq")
    refuses([*paths, other], "other.seq", "alike", kind=vfs.FormatError)


def test_side_files(tmp_path: Path) -> None:
    twin = frames_of((4, 5, 6), "u2")
    path = write_seq(tmp_path, twin)
    dark, gain = frames_of((5, 6), "f4"), np.linspace(1, 2, 30).reshape(5, 6)
    write_reference(tmp_path / "scan.seq.dark.mrc", dark)
    write_reference(tmp_path / "scan.seq.gain.mrc", gain)
    write_camera(tmp_path / "scan.seq.metadata", offset=(2, 3))
    maps = (
        '<BadPixelMap Rows="10" Columns="12"><Defect Row="4"/><Defect Columns="3-4"/><Defect Column="8"'
        ' Row="6"/><Defect Row="0"/></BadPixelMap>'
    )
    small = '<BadPixelMap Rows="9" Columns="11"><Defect Row="5"/></BadPixelMap>'
    binned = '<BadPixelMap Rows="50" Columns="50" Binning="2"><Defect Row="5"/></BadPixelMap>'
    write_config(tmp_path / "scan.seq.Config.Metadata.xml", small + maps + binned)
    mask = np.zeros((5, 6), bool)
    mask[2], mask[:, :2], mask[4, 5] = True, True, True
    group = vfs.open_group(path, nav_shape=(2, 2))
    same(group["dark"][...], dark)
    same(group["gain"][...], gain.astype("f4"))
    check_boxes(path, mask, path="bad_pixels")
    assert "left_out" not in group.main.attrs
    assert group.main.attrs["camera"]["offset_x"] == 3
    assert vfs.open(path).calibration["frame"]["scale"] == 1 / 800
    assert "frame" not in group.main.calibration  # a scan of other lines has no steps that anybody measured
    corrected = vfs.open(path, dark="dark", gain="gain", dead="bad_pixels")[1]
    np.testing.assert_allclose(corrected[~mask], ((twin[1] - dark) * gain)[~mask], rtol=1e-5)
    same(vfs.open(path, dark="dark", gain="gain", dead="mask")[1], corrected)
    same(group.main.masked_pixels, mask)
    assert (
        app.main(
            [
                "export",
                str(path),
                str(tmp_path / "out.zarr"),
                "--dark",
                "dark",
                "--gain",
                "gain",
                "--dead",
                "bad_pixels",
            ]
        )
        == 0
    )
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "out.zarr" / "data", mode="r")[1], corrected)


def test_binned_map_of_bad_pixels(tmp_path: Path) -> None:
    path = write_seq(tmp_path, frames_of((2, 5, 6), "u2"))
    write_camera(tmp_path / "scan.seq.metadata", offset=(4, 6), binning=2)
    both = (
        '<BadPixelMap Rows="20" Columns="24"/><BadPixelMap Rows="10" Columns="12" Binning="2"><Defect Row="3"'
        ' Column="4"/></BadPixelMap>'
    )
    write_config(tmp_path / "scan.seq.Config.Metadata.xml", both)
    mask = np.zeros((5, 6), bool)
    mask[1, 1] = True
    same(vfs.open_group(path)["bad_pixels"][...], mask)


def test_side_files_that_do_not_fit_are_named(tmp_path: Path) -> None:
    twin = frames_of((4, 5, 6), "u2")
    path = write_seq(tmp_path, twin)
    write_reference(tmp_path / "scan.seq.dark.mrc", np.ones((6, 5), "f4"))
    (tmp_path / "scan.seq.gain.mrc").write_bytes(struct.pack("<4i", 6, 5, 1, 2) + bytes(1000))
    (tmp_path / "scan.seq.metadata").write_bytes(bytes(100))
    (tmp_path / "scan.seq.Config.Metadata.xml").write_text("<Configuration>")
    group = vfs.open_group(path)
    same(group["data"][...], twin)
    left_out = group.main.attrs["left_out"]
    assert set(left_out) == {f"scan.seq.{name}" for name in ("dark.mrc", "gain.mrc", "metadata", "Config.Metadata.xml")}
    assert "6 × 5" in left_out["scan.seq.dark.mrc"]
    assert "truncated" in left_out["scan.seq.gain.mrc"]
    write_config(
        tmp_path / "scan.seq.Config.Metadata.xml",
        '<BadPixelMap Rows="10" Columns="10"><Defect Rows="7-x"/></BadPixelMap>',
    )
    assert "where in the sensor" in vfs.open(path).attrs["left_out"]["scan.seq.Config.Metadata.xml"]
    write_camera(tmp_path / "scan.seq.metadata")
    assert "7-x" in vfs.open(path).attrs["left_out"]["scan.seq.Config.Metadata.xml"]
    write_camera(tmp_path / "scan.seq.metadata", offset=(7, 0))
    assert "does not lie in it" in vfs.open(path).attrs["left_out"]["scan.seq.Config.Metadata.xml"]
    write_camera(tmp_path / "scan.seq.metadata", binning=4)
    assert "binning 4" in vfs.open(path).attrs["left_out"]["scan.seq.Config.Metadata.xml"]


def test_half_images_without_the_other_half(tmp_path: Path) -> None:
    twin = frames_of((6, 4, 5), "u2")
    paths = write_halves(tmp_path, twin, 3)
    record = paths[1].stat().st_size - paths[0].stat().st_size
    group = opens_incomplete(
        paths,
        "has 2 records of half images",
        "_Bottom_14-13-42.822.seq 3",
        counts={"bytes_left_over": record},
        segment=3,
    )
    same(group.main[...], twin)


@pytest.mark.filterwarnings("ignore:.*half images:vfs.IncompleteWarning")
def test_halves(tmp_path: Path) -> None:
    twin = frames_of((6, 4, 5), "u2")
    paths = write_halves(tmp_path, twin, 3)
    refuses(paths, "segment", "test.seq.Config.Metadata.xml", kind=vfs.OptionError)
    check_boxes(paths, twin, segment=3)
    write_config(
        tmp_path / "test.seq.Config.Metadata.xml", info='<SegmentPreBuffer Value="3"/><FrameRate Value="2000"/>'
    )
    write_reference(tmp_path / "test.seq.dark.mrc", np.ones((4, 5), "f4"))
    check_boxes(paths[::-1], twin)
    arranged(paths, twin)
    group = vfs.open_group(paths)
    same(group["timestamp_milliseconds"][...], np.repeat(np.arange(2, dtype="u2"), 3))
    same(group["dark"][...], np.ones((4, 5), "f4"))
    assert group.main.attrs["calibration"]["frame"]["scale"] == 1 / 2000
    assert vfs.open(paths[0], plain=True).shape == (2, 6, 5)
    assert vfs.open(paths[1], plain=True).shape == (3, 6, 5)
    assert vfs.open(paths[0], plain=True).attrs["calibration"]["frame"]["scale"] == 1 / 400
    refuses(paths, "segment=4", segment=4, kind=vfs.OptionError)
    refuses([*paths, paths[0]], "_Top_", segment=3, kind=vfs.OptionError)


@pytest.mark.filterwarnings("ignore:.*half images:vfs.IncompleteWarning")
def test_a_half_stands_for_both(tmp_path: Path) -> None:
    """Records of half frames are nothing that a camera's program shows."""
    twin = frames_of((6, 4, 5), "u2")
    upper, lower = write_halves(tmp_path, twin, 3)
    for path in (upper, lower):
        same(vfs.open(path, segment=3)[...], twin)
    for name in ("test_Top_14-13-59.seq", "test_Top_09-13-42.780.seq", "other_Top_14-13-42.780.seq"):
        shutil.copy(upper, tmp_path / name)  # of no time, another run, another set
    same(vfs.open(lower, segment=3)[...], twin)
    with pytest.warns(vfs.IncompleteWarning, match="half frames .top., and is shown as it is stored; .*_Bottom_"):
        assert vfs.open(tmp_path / "test_Top_09-13-42.780.seq").shape == (2, 6, 5)
    shutil.copy(upper, tmp_path / "test_Top_14-13-43.001.seq")
    with pytest.warns(vfs.IncompleteWarning, match="half frames .bottom."):
        assert vfs.open(lower, segment=3).shape == (3, 6, 5)


def test_halves_around_midnight_belong_together(tmp_path: Path) -> None:
    paths = write_halves(tmp_path, frames_of((6, 4, 5), "u2"), 3)
    upper = paths[0].rename(tmp_path / "test_Top_23-59-59.990.seq")
    lower = paths[1].rename(tmp_path / "test_Bottom_00-00-00.031.seq")
    assert other_half(LocalSources(), str(upper)) == str(lower)
    assert other_half(LocalSources(), str(lower)) == str(upper)
    assert other_half(LocalSources(), str(tmp_path / "scan.seq")) is None


@pytest.mark.filterwarnings("ignore:.*half images:vfs.IncompleteWarning")
def test_halves_are_read_file_by_file(tmp_path: Path) -> None:
    """Not frame by frame, which would be a span a half frame."""
    twin = frames_of((60, 4, 5), "u2")
    array = vfs.open(write_halves(tmp_path, twin, 3), segment=3)
    counting = CountingBackend(reader_of(array).backend)
    array = ArrayReader(reader_of(array).dataset, counting)
    same(array[...], twin)
    assert len(counting.reads) == 2


@pytest.mark.filterwarnings("ignore:.*has 3 records of half images:vfs.IncompleteWarning")
@pytest.mark.filterwarnings("ignore:.*has 2 records of half images:vfs.IncompleteWarning")
@pytest.mark.parametrize("name", ["de_celeritas_64x64_prebuffer256", "de_single", "pims_norpix6"])
def test_real_files(oracle: dict[str, Any], name: str) -> None:
    entry = oracle[f"seq/{name}"]
    files = [file for file in entry["files"] if file.endswith(".seq")]
    arrays = entry["arrays"]
    for file in files:
        said = arrays[Path(file).name]
        # Its last five records hold nothing, not even a time
        lacks = pytest.warns(vfs.IncompleteWarning, match="10 are written") if name == "de_single" else nullcontext()
        with lacks:
            group = vfs.open_group(SHARED / file, plain=True)
        assert same_values(group["data"][...], said)
        stamps = [group[f"timestamp_{unit}"][:3].tolist() for unit in ("seconds", "milliseconds", "microseconds")]
        assert [list(stamp) for stamp in zip(*stamps, strict=True)] == said["header"]["timestamps"]
        if "test.seq.gain.mrc" in arrays:
            assert same_values(group["gain"][...], arrays["test.seq.gain.mrc"])
            assert same_values(group["dark"][...], arrays["test.seq.dark.mrc"])
            assert not group["bad_pixels"][...].any()  # the bad column lies outside of the frame
            assert "left_out" not in group.main.attrs
    if "assembled" in arrays:
        group = vfs.open_group([SHARED / file for file in files])
        assert same_values(group["data"][...], arrays["assembled"])
        assert same_values(group["dark"][...], arrays["test.seq.dark.mrc"])
        assert group["bad_pixels"].shape == (64, 64)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"compression": 1}, ("compressed", "JPEG")),
        ({"compression": 8}, ("H.264",)),
        ({"compression": 77}, ("method 77",)),
        ({"image_format": 101}, ("raw Bayer",)),
        ({"image_format": 200}, ("BGR colour",)),
        ({"image_format": 131}, ("packed monochrome",)),
        ({"image_format": 4711}, ("format 4711",)),
        ({"version": 2}, ("version 3 to 5", "found 2")),
        ({"version": 6}, ("found 6",)),
    ],
)
def test_refused_by_name(tmp_path: Path, options: dict[str, int], words: tuple[str, ...]) -> None:
    refuses(write_seq(tmp_path, frames_of((2, 3, 4), "u1"), **options), "scan.seq", *words, kind=vfs.FormatError)


@pytest.mark.parametrize(
    ("at", "values", "word"),
    [
        (0, (0xFEEE,), "begins with"),
        (548, (0,), "× 0 pixels"),
        (548, (1 << 31, 1 << 31), "2,147,483,648"),
        (552, (0,), "0 ×"),
        (556, (12,), "12 bits"),
        (556, (64,), "64 bits"),
        (564, (1,), "in 1 bytes"),
        (580, (0,), "0 from image to image"),
        (580, (23,), "23 from image to image"),
        (580, ((1 << 32) - 1,), "truncated"),
    ],
)
def test_garbled(tmp_path: Path, at: int, values: tuple[int, ...], word: str) -> None:
    path = write_seq(tmp_path, frames_of((2, 3, 4), "u2"))
    raw = bytearray(path.read_bytes())
    raw[at : at + 4 * len(values)] = struct.pack(f"<{len(values)}I", *values)
    path.write_bytes(raw)
    refuses(path, "scan.seq", word, format="seq")


def test_foreign(tmp_path: Path) -> None:
    (tmp_path / "foreign.seq").write_bytes(b"LOCUS some gene" * 100)
    refuses(tmp_path / "foreign.seq", "foreign.seq", kind=vfs.UnknownFormatError)


def test_metadata_names_its_sequence(tmp_path: Path) -> None:
    twin = frames_of((3, 8, 8), "u2")
    path = write_seq(tmp_path, twin)
    write_camera(tmp_path / "scan.seq.metadata")
    array = vfs.open(tmp_path / "scan.seq.metadata")
    same(array[...], twin)
    assert "camera" in array.attrs
    sides = [tmp_path / "scan.seq.metadata", tmp_path / "scan.seq.dark.mrc", tmp_path / "scan.seq.Config.Metadata.xml"]
    write_reference(sides[1], twin[0].astype("f4"))
    write_config(sides[2], "")
    for named in ([path, *sides], [sides[0], path], sides[:1] * 2):
        same(vfs.open(named)[...], twin)  # not twice
    write_camera(tmp_path / "other.seq.metadata")
    refuses([path, tmp_path / "other.seq.metadata"], "other.seq", kind=vfs.MissingSourceError)
    path.unlink()
    refuses(tmp_path / "scan.seq.metadata", "scan.seq.metadata", kind=vfs.UnknownFormatError)
    refuses(tmp_path / "scan.seq.metadata", "scan.seq", format="seq", kind=vfs.MissingSourceError)


@pytest.mark.filterwarnings("ignore::vfs.IncompleteWarning")
@pytest.mark.parametrize("part", [0.3, 0.999])
def test_a_frame_that_was_begun_in_a_file_of_full_size_is_none(tmp_path: Path, part: float) -> None:
    """Its time stamp, which comes behind the pixels, is missing."""
    twin = frames_of((6, 40, 30), "u2") + np.uint16(1)
    path = write_seq(tmp_path, twin)
    stride = vfs.open(path).attrs["header"]["true_image_size"]
    begin, size = path.stat().st_size - 6 * stride, path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(begin + 3 * stride + int(part * twin[0].nbytes))
        file.truncate(size)
    stopped = vfs.open(path, allow_incomplete=True, nav_shape=(6,))
    same(stopped.valid, np.arange(6) < 3)
    same(stopped[:3], twin[:3])
    assert not stopped[3:].any()
    followed = vfs.open(path, follow=True, nav_shape=(6,))
    assert followed.head == 3
    with pytest.raises(vfs.NotYetError):
        followed[3]
