"""K2 IS: what is peculiar to it. Sectors that begin and end anywhere, the shutter flag, the checks
of every block, boxes of 12-bit pixels.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.conftest import SHARED, same_values
from tests.formats.frame_checks import (
    BACKENDS,
    check_boxes,
    incomplete,
    one_line,
    refuses,
    same,
    unwarned,
    warned,
)
from tests.formats.sets import K2IS_CROP, k2is_cropped, k2is_frames, k2is_set
from vfs.kernels import k2is
from vfs.testing.gatan_writers import write_k2is
from vfs.testing.inside import reader_of

BLOCK, FRAME = 22360, 22360 * 32


def change(path: Path, at: int, value: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(value)


def test_whole_frames_and_boxes(tmp_path: Path) -> None:
    frames = k2is_frames(2)
    path = write_k2is(tmp_path, frames)
    check_boxes(path, frames, count=8)
    array = vfs.open(path)
    assert array.dims == ("frame", "y", "x")
    assert array.attrs["tags"]["Microscope"] == "K2"
    for backend in BACKENDS:
        array = vfs.open(path, backend=backend)
        for y, x in ((929, 255), (0, 0), (1859, 2047), (930, 256)):
            assert array[1, y, x] == frames[1, y, x]
        same(array[0, 3:7, ::5], frames[0, 3:7, ::5])
        # Whole blocks, rows of the output that are not as wide as the frame
        same(array[:, 900:1000, 16:1040], frames[:, 900:1000, 16:1040])
        same(array[:, 5:1800:7, 17:1040], frames[:, 5:1800:7, 17:1040])
        # Whole blocks at odd places of the output, fewer than a band has
        same(array[1, 11:20, 5:301], frames[1, 11:20, 5:301])
    same(vfs.open(path, dtype="f4")[0, :40], frames[0, :40].astype("f4"))


def test_crop(tmp_path: Path) -> None:
    frames = k2is_frames(1)
    path = write_k2is(tmp_path, frames)
    same(vfs.open(path, crop=True)[...], frames[:, :1792, :1920])
    assert vfs.open(path, crop="true").shape == (1, 1792, 1920)
    assert vfs.open(path, crop="false").shape == (1, 1860, 2048)
    check_boxes(path, k2is_cropped(frames), crop=K2IS_CROP)
    same(vfs.open(path, crop=(915, 945, 248, 300))[...], k2is_cropped(frames))
    for bad in ("1,2,3", "0,1861,0,5", "5,5,0,9", "a", 7, "0,-1,0,5"):
        refuses(path, "crop", kind=vfs.OptionError, crop=bad)


@pytest.mark.parametrize(
    ("crop", "count"),
    [(False, 16), (True, 16), ((0, 930, 0, 256), 1), ((929, 931, 255, 257), 4), ((3, 4, 1, 2), 1), (K2IS_CROP, 4)],
)
def test_patches_make_up_a_frame_and_lie_in_one_band_each(tmp_path: Path, crop: Any, count: int) -> None:
    array = vfs.open(write_k2is(tmp_path, k2is_frames(1)), crop=crop)
    layout: Any = reader_of(array).dataset.layout
    seen, (y, x) = np.zeros(array.shape[1:], "i1"), layout.origin
    for patch in layout.patches:
        seen[patch.slices] += 1
        (top, left), (bottom, right) = patch.start, patch.stop
        assert ((top + y) // 930, (left + x) // 256) == ((bottom + y - 1) // 930, (right + x - 1) // 256)
    assert (seen == 1).all()
    assert len(layout.patches) == count


def test_reductions_check_blocks_and_show_missing_sectors_as_blank(tmp_path: Path) -> None:
    frames = k2is_frames(2)
    path = write_k2is(tmp_path, frames)
    change(tmp_path / "set_4.bin", FRAME + 20 * BLOCK, b"\0")
    for reduction in (vfs.Sum(), vfs.Max(), vfs.CenterOfMass()):
        with pytest.raises(vfs.DecodeError, match=r"set_4.bin: bytes 1,162,720 to 1,185,080"):
            vfs.open(path).reduce(it=reduction)
    (tmp_path / "set_4.bin").unlink()
    with pytest.warns(vfs.IncompleteWarning):
        array = vfs.open(path, allow_incomplete=True)
    frames[:, :, 768:1024] = 0
    same(array.reduce(it=vfs.Sum())["it"].data, frames.sum(0, dtype="u8"))
    same(array.reduce(it=vfs.Min())["it"].data, frames.min(0))


def test_what_a_scan_lacks(tmp_path: Path) -> None:
    frames = k2is_frames(6)
    path = write_k2is(tmp_path, frames)
    array = vfs.open(path, crop=K2IS_CROP, nav_shape=(2, 4), sync_offset=-1)
    assert array.valid.tolist() == [[False, True, True, True], [True, True, True, False]]


def test_any_file_names_the_set(tmp_path: Path) -> None:
    path, twin, options = k2is_set(tmp_path)
    bins = [tmp_path / f"set_{k}.bin" for k in range(1, 9)]
    for given in (bins[4], bins[::-1], [path, *bins], [str(tmp_path / "set_*")]):
        array = vfs.open(given, **options)
        same(array[...], twin)
        assert [Path(f).name for f in array.files] == [f"set_{k}.bin" for k in range(1, 9)]
    path.unlink()
    same(vfs.open(bins[0], **options)[...], twin)
    refuses(bins[:7], "eight", kind=vfs.OptionError)


@pytest.mark.parametrize(
    ("first", "last", "kept"),
    [
        ((0, 3, 31, 0, 1, 2, 5, 8), (0,) * 8, slice(1, 4)),
        ((5,) * 8, (0,) * 8, slice(1, 4)),
        ((0,) * 8, (1, 0, 0, 31, 9, 0, 0, 2), slice(0, 3)),
        ((32, 0, 0, 0, 0, 0, 0, 0), (0, 0, 32, 0, 0, 0, 0, 0), slice(1, 3)),
    ],
)
def test_sectors_begin_and_end_anywhere(
    tmp_path: Path, first: tuple[int, ...], last: tuple[int, ...], kept: slice
) -> None:
    frames = k2is_frames(4)
    path = write_k2is(tmp_path, frames, first=first, last=last)
    short = last.index(max(last)) + 1
    array = (
        warned(path, f"set_{short}.bin: ends before other sectors do: 1 frame is not shown", crop=K2IS_CROP)
        if any(last)
        else vfs.open(path, crop=K2IS_CROP)
    )
    same(array[...], k2is_cropped(frames)[kept])
    assert array.attrs["frame_id"] == 700 + kept.start


def test_sectors_that_share_no_frame(tmp_path: Path) -> None:
    path = write_k2is(tmp_path, k2is_frames(4), first=(40, 0, 33, 32, 0, 0, 0, 0), last=(0, 0, 0, 0, 64, 0, 0, 1))
    refuses(path, "no whole frame")


@pytest.mark.parametrize(("flag", "start"), [(0, 0), (1, 0), (3, 2), (5, 4)])
def test_a_scan_starts_a_frame_before_the_flag(tmp_path: Path, flag: int, start: int) -> None:
    frames = k2is_frames(6)
    path = write_k2is(tmp_path, frames, scan=(2, 2), shutter=flag)
    twin = np.zeros((4, *k2is_cropped(frames).shape[1:]), "u2")
    found = k2is_cropped(frames)[start : start + 4]
    twin[: len(found)] = found
    with (
        contextlib.nullcontext()
        if len(found) == 4
        else pytest.warns(vfs.IncompleteWarning, match="2 frames are stored from its start on: 2 are missing")
    ):
        array = vfs.open(path, crop=K2IS_CROP)
    assert array.dims == ("scan_y", "scan_x", "y", "x")
    same(array[...], twin.reshape(2, 2, *twin.shape[1:]))
    assert array.valid.sum() == len(found)
    with unwarned():
        same(vfs.open(path, crop=K2IS_CROP, sync_offset=1)[0, 0], k2is_cropped(frames)[start + 1])
    same(vfs.open(path, crop=K2IS_CROP, first_frame=0, nav_shape=(6,))[...], k2is_cropped(frames))
    refuses(path, "first_frame", kind=vfs.OptionError, first_frame=6)


def test_a_scan_that_never_started_says_so_and_a_series_does_not_ask(tmp_path: Path) -> None:
    frames = k2is_frames(3)
    path = write_k2is(tmp_path, frames, scan=(1, 3), shutter=9)
    refuses(path, "first_frame=0", "shutter")
    same(vfs.open(path, crop=K2IS_CROP, first_frame=0)[0], k2is_cropped(frames))
    series = write_k2is(tmp_path, frames, shutter=2, name="series_")
    same(vfs.open(series, crop=K2IS_CROP)[...], k2is_cropped(frames))


@pytest.mark.parametrize(
    ("at", "value", "word"),
    [
        (0, b"\0", "sync word"),
        (22, b"\1\1", "1860"),
        (36, b"\1", "22,360"),
        (28, b"\0\1", "place"),
        (27, b"\1", "frame"),
    ],
)
def test_a_damaged_block_is_an_error_wherever_it_is_needed(tmp_path: Path, at: int, value: bytes, word: str) -> None:
    frames = k2is_frames(3)
    path = write_k2is(tmp_path, frames)
    byte = FRAME + 7 * BLOCK  # sector 3, second frame: rows 0 to 929, columns 512 + 128 to 512 + 144
    change(tmp_path / "set_3.bin", byte + at, value)
    for backend in BACKENDS:
        array = vfs.open(path, backend=backend)
        same(array[::2], frames[::2])
        same(array[1, 930:], frames[1, 930:])
        same(array[1, :930, :640], frames[1, :930, :640])
        for cut in ((1, slice(0, 1), slice(655, 657)), (1, slice(920, 931), slice(640, 641)), (slice(None),)):
            with pytest.raises(vfs.DecodeError, match=r"set_3\.bin") as caught:
                array[cut]
            assert f"{byte:,} to {byte + BLOCK:,}" in one_line(caught.value)
            assert word in str(caught.value)


@pytest.mark.parametrize("lost", [1, 5, 32])
def test_lost_blocks_are_an_error_behind_them(tmp_path: Path, lost: int) -> None:
    frames = k2is_frames(4)
    path = write_k2is(tmp_path, frames)
    file = tmp_path / "set_2.bin"
    whole = file.read_bytes()
    file.write_bytes(whole[: FRAME + 3 * BLOCK] + whole[FRAME + (3 + lost) * BLOCK :])
    for backend in BACKENDS:
        array = vfs.open(path, crop=K2IS_CROP, backend=backend)
        assert array.shape[0] == 4
        same(array[0], k2is_cropped(frames)[0])
        for n in (2, 3):
            with pytest.raises(vfs.SourceError, match=r"set_2\.bin"):
                array[n]
    if lost == 32:  # the blocks are at their places, of another frame
        same(
            vfs.open(path, crop=K2IS_CROP, check_ids=False)[2][:, 8:], np.concatenate([k2is_cropped(frames)[3, :, 8:]])
        )


def test_ids_that_do_not_count_frames_are_not_compared(tmp_path: Path) -> None:
    frames = k2is_frames(3)
    path = write_k2is(tmp_path, frames)
    for sector in range(1, 9):
        for n in range(3):
            for block in range(32):
                change(tmp_path / f"set_{sector}.bin", n * FRAME + block * BLOCK + 24, struct.pack(">I", 5 + 10 * n))
    same(vfs.open(path, crop=K2IS_CROP)[...], k2is_cropped(frames))


def test_ids_begin_anew_after_the_last_one(tmp_path: Path) -> None:
    frames = k2is_frames(3)
    path = write_k2is(tmp_path, frames[:1], first_id=(1 << 32) - 1)
    assert vfs.open(path, crop=K2IS_CROP).attrs["frame_id"] == (1 << 32) - 1
    path = write_k2is(tmp_path, frames, first_id=0)
    for sector in range(1, 9):
        for block in range(32):
            change(tmp_path / f"set_{sector}.bin", block * BLOCK + 24, b"\xff" * 4)
        for n in (1, 2):
            for block in range(32):
                change(tmp_path / f"set_{sector}.bin", n * FRAME + block * BLOCK + 24, struct.pack(">I", n - 1))
    same(vfs.open(path, crop=K2IS_CROP)[...], k2is_cropped(frames))


def test_missing_and_foreign_files(tmp_path: Path) -> None:
    path, _, _ = k2is_set(tmp_path)
    (tmp_path / "set_4.bin").rename(tmp_path / "elsewhere")
    (tmp_path / "set_4.bin").write_bytes(b"nothing of the kind" * 5000)
    refuses(path, "set_4.bin", "expected a file of K2 IS blocks")
    (tmp_path / "set_4.bin").write_bytes(b"")
    refuses(path, "set_4.bin")
    # A copy of another sector cannot be told from the right one
    shutil.copy(tmp_path / "set_3.bin", tmp_path / "set_4.bin")
    path.write_bytes(path.read_bytes()[:40])
    refuses(path, "set_.gtg", "truncated")
    path.write_bytes(b"text")
    refuses(path, "set_.gtg")
    refuses(path, "set_.gtg", format="k2is")


@pytest.mark.parametrize("lost", [(1,), (2,), (1, 2), (3, 8)])
def test_missing_sectors(tmp_path: Path, lost: tuple[int, ...]) -> None:
    """Columns 248 to 299 are of the sectors 1 and 2."""
    path, twin, options = k2is_set(tmp_path)
    for k in lost:
        (tmp_path / f"set_{k}.bin").unlink()
    twin[..., :8] *= 1 not in lost
    twin[..., 8:] *= 2 not in lost
    words = f"expected eight sectors, set_{lost[0]}.bin " + (
        f"and set_{lost[1]}.bin are missing" if len(lost) > 1 else "is missing"
    )
    array = incomplete(path, "set_.gtg: ", words, kind=vfs.MissingSourceError, **options)
    assert array.group.attrs["vfs"]["incomplete"] == {"files_missing": len(lost)}
    for backend in BACKENDS:
        same(warned(path, backend=backend, allow_incomplete=True, **options)[...], twin)
    same(array[1, 3:, 2:9], twin[1, 3:, 2:9])
    assert array.valid.all()
    if lost == (3, 8):
        for k in (1, 2, 4, 5, 6, 7):
            (tmp_path / f"set_{k}.bin").unlink()
        refuses(path, "set_1.bin to 8.bin", kind=vfs.MissingSourceError, allow_incomplete=True, **options)


def test_sectors_that_are_cut(tmp_path: Path) -> None:
    path, twin, options = k2is_set(tmp_path)
    os.truncate(tmp_path / "set_5.bin", 2 * FRAME - 100)
    array = warned(
        path,
        "set_5.bin: 22,260 bytes are left over",
        "set_5.bin: ends before other sectors do: 2 frames are not shown",
        **options,
    )
    same(array[...], twin[:1])
    assert array.group.attrs["vfs"]["incomplete"] == {"bytes_left_over": 22260, "frames_left_out": 2}


def test_a_scan_that_was_stopped(tmp_path: Path) -> None:
    frames = k2is_frames(3)
    array = warned(
        write_k2is(tmp_path, frames, scan=(2, 2)),
        "says a scan of 2 × 2, 3 frames are stored from its start on: 1 is missing",
        crop=K2IS_CROP,
    )
    assert array.valid.tolist() == [[True, True], [True, False]]


def test_a_sector_of_another_recording(tmp_path: Path) -> None:
    path, _, _ = k2is_set(tmp_path)
    (tmp_path / "other").mkdir()
    write_k2is(tmp_path / "other", k2is_frames(3), first_id=9000)
    shutil.copy(tmp_path / "other" / "set_6.bin", tmp_path / "set_6.bin")
    refuses(path, "set_6.bin", "aligned", "9000")


def test_truncated(tmp_path: Path) -> None:
    path, twin, options = k2is_set(tmp_path)
    sector = tmp_path / "set_5.bin"
    whole = sector.read_bytes()
    for size in (30, BLOCK - 1, BLOCK, FRAME - 1):
        sector.write_bytes(whole[:size])
        refuses(path, "set_", kind=vfs.FormatError, **options)
    sector.write_bytes(b"")
    refuses(path, "set_5.bin is missing or empty", kind=vfs.MissingSourceError, **options)
    for size, frames in ((FRAME, 1), (FRAME + 1, 1), (2 * FRAME + 5 * BLOCK, 2), (3 * FRAME - 1, 2)):
        sector.write_bytes(whole[:size])
        for backend in BACKENDS:
            same(warned(path, "set_5.bin: ends", backend=backend, **options)[...], twin[:frames])
    sector.write_bytes(whole)
    whole = path.read_bytes()
    for size in range(0, len(whole) - 8, 5):
        path.write_bytes(whole[:size])
        refuses(path, "set_.gtg", format="k2is")


def test_sectors_that_shrink_after_opening(tmp_path: Path) -> None:
    path, _, options = k2is_set(tmp_path)
    array = vfs.open(path, backend="buffered", **options)
    with (tmp_path / "set_1.bin").open("r+b") as file:
        file.truncate(2 * FRAME + 100)
    with pytest.raises(vfs.SourceError, match=r"set_1\.bin"):
        array[2]


def test_absurd_scans_are_refused(tmp_path: Path) -> None:
    frames = k2is_frames(1)
    for size in ((0, 5), (1 << 31, 1 << 31)):
        refuses(write_k2is(tmp_path, frames, scan=size), "size of a scan")


def test_a_small_box_reads_headers_and_the_rows_it_wants(tmp_path: Path) -> None:
    array = vfs.open(write_k2is(tmp_path, k2is_frames(1)))
    rows, covered = reader_of(array).dataset.layout.read_ranges(vfs.Region.box((0, 700, 20), (1, 710, 30)))
    assert covered == 100
    assert (rows[:, 2] - rows[:, 1]).tolist() == [40, 240]
    assert reader_of(array).dataset.layout.read_ranges(vfs.Region.whole(array.shape), 100)[1] == -1


def test_real_block(oracle: dict[str, Any]) -> None:
    entry = oracle["k2is/single_block"]
    raw = np.fromfile(SHARED / entry["files"][0], np.uint8)
    rows = np.zeros((1, k2is.WIDE), np.int64)
    rows[0, [2, 4, 6, k2is.ROWS, k2is.COLS, k2is.ROW_STEP, k2is.COL_STEP]] = len(raw), 16, 930 * 16, 930, 16, 1, 1
    rows[0, k2is.BLOCK] = -1
    out = np.empty(930 * 16, np.uint16)
    assert k2is.unpack(rows, raw, 0, out) == (-1, k2is.GOOD)
    assert same_values(out.reshape(930, 16), entry["arrays"]["block"])
    rows[0, k2is.COLS] = 15  # the same, pixel by pixel
    slow = np.zeros(930 * 16, np.uint16)
    k2is.unpack(rows, raw, 0, slow)
    same(slow.reshape(930, 16)[:, :15], out.reshape(930, 16)[:, :15])
