"""TVIPS: what is peculiar to it. Versions, several files, the scan found in the frame headers, these as companions."""

from __future__ import annotations

import math
import struct
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import vfs
from tests.conftest import SHARED, same_values
from tests.formats.frame_checks import (
    check_boxes,
    frames_of,
    incomplete,
    refuses,
    same,
    warned,
)
from tests.formats.sets import tvips_set
from vfs.model.layout.scan_order import FrameRuns, placed
from vfs.testing.frame_writers import write_tvips


@pytest.mark.parametrize("dtype", ["u1", "u2"])
@pytest.mark.parametrize(("version", "header_bytes"), [(1, 12), (2, 12), (2, 60), (2, 108), (2, 256)])
@pytest.mark.parametrize("per_file", [None, 3, (1, 6, 2)])
def test_boxes(tmp_path: Path, dtype: str, version: int, header_bytes: int, per_file: Any) -> None:
    twin = frames_of((9, 5, 7), dtype)
    path = write_tvips(tmp_path, twin, version=version, header_bytes=header_bytes, frames_per_file=per_file)
    check_boxes(path, twin, count=10)
    group = vfs.open_group(path)
    assert group["data"].dims == ("frame", "y", "x")
    same(group["counter"][...], np.arange(9, dtype="u4"))
    same(group["timestamp_seconds"][...], np.arange(9, dtype="u4") + np.uint32(1_600_000_000))
    same(group["timestamp_milliseconds"][...], np.arange(9, dtype="u4"))
    assert ("rotator_index" in group) == (header_bytes >= 60)
    assert ("scan_position_x" in group) == (header_bytes >= 108)
    unit = "1/nm" if header_bytes >= 28 else "nm"  # those of 28 bytes say that it is diffraction
    assert group.main.attrs["calibration"]["x"] == {"scale": 15_500, "offset": 0, "unit": unit}


def test_any_file_names_the_set(tmp_path: Path) -> None:
    twin = frames_of((10, 3, 4), "u2")
    write_tvips(tmp_path, twin, frames_per_file=4)
    for paths in (tmp_path / "scan_001.tvips", str(tmp_path / "*.tvips")):
        same(vfs.open(paths)[...], twin)


def test_the_scan_across_files(tmp_path: Path) -> None:
    path, twin, _ = tvips_set(tmp_path)
    group = vfs.open_group(path)
    assert group.main.attrs["scan_start"] == 2
    y, x = np.mgrid[:3, :4].astype("f4")
    same(group["scan_position_x"][...], x)
    same(group["scan_position_y"][...], y)
    same(group["rotator_index"][...], np.arange(1, 13, dtype="u4").reshape(3, 4))
    same(group["counter"][...], np.arange(2, 14, dtype="u4").reshape(3, 4))
    same(vfs.open(path, sync_offset=1)[0, 0], twin[0, 1])
    same(vfs.open(path, sync_offset=-2)[...], vfs.open(path, scan="none", nav_shape=(3, 4))[...])
    assert vfs.open(path, scan="none").shape == (14, 5, 7)


def test_the_first_file_ends_before_the_scan_starts(tmp_path: Path) -> None:
    frames = frames_of((10, 2, 3), "u1")
    path = write_tvips(tmp_path, frames, frames_per_file=(2, 3, 5), scan=(2, 4), scan_start=2)
    same(vfs.open(path)[...], frames[2:].reshape(2, 4, 2, 3))


def test_a_long_start_and_long_rows(tmp_path: Path) -> None:
    frames = frames_of((4000 + 2 * 5000 + 3, 1, 2), "u1")
    path = write_tvips(tmp_path, frames, frames_per_file=3777, scan=(2, 5000), scan_start=4000, header_bytes=76)
    same(vfs.open(path)[...], frames[4000:14000].reshape(2, 5000, 1, 2))


def test_only_a_row(tmp_path: Path) -> None:
    frames = frames_of((6, 2, 3), "u1")
    same(vfs.open(write_tvips(tmp_path, frames, scan=(1, 5), scan_start=1))[...], frames[1:].reshape(1, 5, 2, 3))


@pytest.mark.parametrize("per_file", [None, 7, 1])
@pytest.mark.parametrize(
    ("scan", "lost"),
    [*product(["position", "rotator"], [(5,), (3,), (4, 5, 6, 7), (5, 9, 10, 19)]), ("rotator", (22, 23))],
)
def test_lost_frames_leave_their_places_blank(
    tmp_path: Path, lost: tuple[int, ...], per_file: int | None, scan: str
) -> None:
    """The camera lost frames: the later ones stay in their places."""
    shape = (5, 5) if scan == "rotator" else (6, 4)
    twin = frames_of((math.prod(shape), 2, 3), "u1") | 1
    kept = np.setdiff1d(np.arange(len(twin)), lost)
    places = np.stack(np.divmod(kept, shape[1]), axis=1)
    path = write_tvips(tmp_path, twin[kept], scan=shape, positions=places, frames_per_file=per_file)
    # The counter in the headers counts stored frames: no file is missing
    twin[list(lost)] = 0
    with pytest.warns(vfs.IncompleteWarning, match=rf"{len(lost)} of {shape[0]} × {shape[1]} scan positions ha"):
        group = vfs.open_group(path, scan=scan)
    same(group.main[...], twin.reshape(*shape, 2, 3))
    same(group.main.valid, ~np.isin(np.arange(len(twin)), lost).reshape(shape))
    assert group.attrs["vfs"]["incomplete"] == {"frames_missing": len(lost)}
    columns = np.broadcast_to(np.arange(shape[1], dtype="f4"), shape)
    same(group["scan_position_x"][...], np.where(group.main.valid, columns, np.float32(0)))


@pytest.mark.parametrize("per_file", [None, 7, 1])
def test_a_last_row_that_was_not_finished_is_left_out(tmp_path: Path, per_file: int | None) -> None:
    twin = frames_of((24, 2, 3), "u1") | 1
    places = np.stack(np.divmod(np.arange(22), 4), axis=1)
    path = write_tvips(tmp_path, twin[:22], scan=(6, 4), positions=places, frames_per_file=per_file)
    same(warned(path, "its 2 frames are not shown")[...], twin[:20].reshape(5, 4, 2, 3))


@given(data=st.data())
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_few_headers_tell_where_frames_were_lost(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 400))
    places = np.array(sorted(data.draw(st.sets(st.integers(0, 500), min_size=count // 3 + 1, max_size=count))))
    cut, gap = data.draw(st.integers(0, len(places))), data.draw(st.integers(0, 9))  # frames that files lack
    frames = FrameRuns(np.array([0, cut + gap]), np.array([cut, len(places) - cut]))
    places[cut:] += gap
    read: list[int] = []

    def flat(numbers: np.ndarray) -> np.ndarray:
        read.extend(numbers.tolist())
        return places[numbers - gap * (numbers >= cut + gap)]

    found = placed(flat, frames, look=4)
    assert found is not None
    same(found.numbers(frames), places)
    assert len(read) == len(set(read))
    jumps = np.count_nonzero(np.diff(places) != 1)
    assert len(read) <= 4 + jumps * math.ceil(math.log2(len(places) + 1))
    assert placed(lambda numbers: flat(numbers).max() + 1 - flat(numbers), frames, look=4) is None or len(places) == 1


def test_scans_that_do_not_go_row_by_row(tmp_path: Path) -> None:
    """Winding, with one position visited twice: each frame is where its header says."""
    y, x = np.mgrid[:3, :4]
    x[1] = x[1, ::-1]
    places = np.stack([y.ravel(), x.ravel()], axis=1)
    twin = frames_of((12, 2, 3), "u1")
    shown = np.empty((3, 4, 2, 3), "u1")
    shown[y.ravel(), x.ravel()] = twin
    path = write_tvips(tmp_path, twin, scan=(3, 4), positions=places)
    same(vfs.open(path)[...], shown)
    same(vfs.open(path, nav_shape=12)[...], twin)  # as they were recorded
    same(vfs.open(path, nav_shape=(3, 4), roi=[4, 7])[...], shown.reshape(12, 2, 3)[[4, 7]])
    places[6] = places[5]
    shown[y.ravel()[5], x.ravel()[5]] = twin[6]
    shown[y.ravel()[6], x.ravel()[6]] = 0
    path = write_tvips(tmp_path, twin, scan=(3, 4), positions=places, name="twice")
    array = warned(path, "1 of 3 × 4 scan positions has no frame", "1 frame has the position of a later one")
    same(array[...], shown)


GRID = np.array(list(np.ndindex(3, 4)))
ORDERS = {
    "random": np.random.default_rng(0).permutation(GRID),
    "column by column": GRID[np.lexsort((GRID[:, 0], GRID[:, 1]))],
    "from the last": GRID[::-1],
    "from the bottom": np.stack([2 - GRID[:, 0], GRID[:, 1]], axis=1),
    "from the right": np.stack([GRID[:, 0], 3 - GRID[:, 1]], axis=1),
    "the first lost": GRID[1:],
    "the second lost": np.delete(GRID, 1, axis=0),
    "the first row lost": GRID[4:],
    "some at random": np.array([(2, 3), (0, 1), (1, 0)]),
}


@pytest.mark.parametrize("order", ORDERS)
def test_scans_that_begin_anywhere(tmp_path: Path, order: str) -> None:
    places = ORDERS[order]
    twin = frames_of((len(places), 2, 3), "u1") | 1
    shown = np.zeros((3, 4, 2, 3), "u1")
    shown[tuple(places.T)] = twin
    path, blank = write_tvips(tmp_path, twin, scan=(3, 4), positions=places), 12 - len(places)
    array = warned(path, f"{blank} of 3 × 4 scan positions ha") if blank else vfs.open(path)
    same(array[...], shown)
    if order == "random":  # what is recorded before and behind has the position (0, 0), which was visited between
        more, still = np.full((2, 2, 3), 7, "u1"), np.zeros((2, 2), int)
        twin, places = np.concatenate([more, twin, more]), np.concatenate([still, places, still])
        same(vfs.open(write_tvips(tmp_path, twin, scan=(3, 4), positions=places, name="more"))[...], shown)


def test_what_is_recorded_after_the_scan_is_no_row_of_it(tmp_path: Path) -> None:
    twin = frames_of((2 + 12 + 9, 2, 3), "u1")
    path = write_tvips(tmp_path, twin, scan=(3, 4), scan_start=2)
    same(vfs.open(path)[...], twin[2:14].reshape(3, 4, 2, 3))


def test_positions_that_are_of_no_scan(tmp_path: Path) -> None:
    path = write_tvips(tmp_path, frames_of((12, 2, 3), "u1"), scan=(3, 4))
    at = 256 + 4 * (108 + 6) + 68  # the frame after the first row
    raw = bytearray(path.read_bytes())
    raw[at : at + 8] = struct.pack("<2f", 900, 800)
    path.write_bytes(raw)
    assert vfs.open(path).shape == (12, 2, 3)
    assert vfs.open(path).attrs["scan_from"] is None


def test_the_rotator(tmp_path: Path) -> None:
    frames = frames_of((14, 2, 3), "u1")
    path = write_tvips(tmp_path, frames, scan=(3, 3), scan_start=2, header_bytes=60, frames_per_file=4)
    same(vfs.open(path, scan="rotator")[...], frames[2:11].reshape(3, 3, 2, 3))
    assert vfs.open(path).shape == (14, 2, 3)  # these frame headers have no positions
    path = write_tvips(tmp_path, frames, name="other", scan=(2, 4), scan_start=2)
    assert vfs.open(path, scan="rotator").shape == (14, 2, 3)  # not square


def test_real_file(oracle: dict[str, Any]) -> None:
    entry = oracle["tvips/tvips_2233"]
    path = SHARED / entry["files"][0]
    assert same_values(vfs.open(path)[...], entry["arrays"]["frames"])
    group = vfs.open_group(path, scan="rotator")
    assert group.main.shape == (2, 2, 3, 3)
    same(group["rotator_index"][...], np.array([[1, 2], [3, 4]], "u4"))
    same(group["faraday_cup"][...], np.full((2, 2), 23, "f4"))


def test_a_last_file_that_is_cut(tmp_path: Path) -> None:
    twin = frames_of((6, 3, 4), "u2")
    path = write_tvips(tmp_path, twin, frames_per_file=3)
    last = tmp_path / "scan_001.tvips"
    last.write_bytes(last.read_bytes()[:-1])
    array = warned(path, "scan_001.tvips: expected whole records of 132 bytes, found 2 and 131 bytes more")
    same(array[...], twin[:5])
    assert array.group.attrs["vfs"]["incomplete"] == {"bytes_left_over": 131}
    last.write_bytes(b"")
    same(warned(path, "scan_001.tvips", "found 0 and 0")[...], twin[:3])


@pytest.mark.parametrize(
    ("cut", "words"),
    [(1, "scan_000.tvips: expected whole records"), (132, "before scan_001.tvips begins: frame 2 is missing")],
)
def test_a_file_in_the_middle_that_is_cut(tmp_path: Path, cut: int, words: str) -> None:
    twin = frames_of((6, 3, 4), "u2")
    path = write_tvips(tmp_path, twin, frames_per_file=3)
    path.write_bytes(path.read_bytes()[:-cut])
    twin[2] = 0
    array = incomplete(path, words, kind=vfs.TruncatedSourceError)
    same(array[...], twin)
    assert array.group.attrs["vfs"]["incomplete"]["frames_missing"] == 1


@pytest.mark.parametrize("left", [256, 256 + 131])
def test_a_first_file_without_a_frame(tmp_path: Path, left: int) -> None:
    """Nothing tells how many frames are in front of those of the next file: they would get wrong numbers."""
    twin = frames_of((6, 3, 4), "u2")
    path = write_tvips(tmp_path, twin, frames_per_file=3)
    content = path.read_bytes()
    for begun in (content[:left], content[:left] + bytes(len(content) - left)):
        path.write_bytes(begun)
        with pytest.raises(vfs.TruncatedSourceError, match=r"scan_000\.tvips: expected whole records"):
            vfs.open(path, follow=True)
        same(incomplete(path, "scan_000.tvips", kind=vfs.TruncatedSourceError)[...], twin[3:])


def test_missing_files(tmp_path: Path) -> None:
    """The counter in the frame headers tells how many frames they held."""
    twin = frames_of((6, 3, 4), "u2")
    path = write_tvips(tmp_path, twin, frames_per_file=2)
    held = (tmp_path / "scan_001.tvips").read_bytes()
    (tmp_path / "scan_001.tvips").unlink()
    twin[2:4] = 0
    array = incomplete(
        path,
        "scan_001.tvips is missing, with frames 2 to 3; the series continues to scan_002",
        kind=vfs.MissingSourceError,
    )
    same(array[...], twin)
    assert array.valid.tolist() == [True, True, False, False, True, True]
    assert array.group.attrs["vfs"]["incomplete"] == {"files_missing": 1, "frames_missing": 2}
    refuses(tmp_path / "scan_007.tvips", "no such file", kind=vfs.MissingSourceError)
    (tmp_path / "scan_001.tvips").write_bytes(held)
    path.unlink()
    refuses(tmp_path / "scan_002.tvips", "scan_000.tvips", kind=vfs.MissingSourceError)


def test_a_file_that_is_missing_and_a_counter_that_does_not_count(tmp_path: Path) -> None:
    path = write_tvips(tmp_path, frames_of((6, 3, 4), "u2"), frames_per_file=2)
    for name, records in (("scan_000.tvips", 256), ("scan_002.tvips", 0)):
        content = bytearray((tmp_path / name).read_bytes())
        for k in range(2):
            content[records + 132 * k : records + 132 * k + 4] = bytes(4)
        (tmp_path / name).write_bytes(content)
    (tmp_path / "scan_001.tvips").unlink()
    refuses(path, "scan_001.tvips is missing", "do not tell", kind=vfs.MissingSourceError, allow_incomplete=True)


def test_a_scan_that_ends_within_a_row(tmp_path: Path) -> None:
    frames = frames_of((14, 5, 7), "u2")
    path = write_tvips(tmp_path, frames, scan=(3, 4), scan_start=2)
    path.write_bytes(path.read_bytes()[: -(108 + 70)])
    array = warned(path, "the scan ends within a row of 4: its 3 frames are not shown")
    same(array[...], frames[2:10].reshape(2, 4, 5, 7))
    same(vfs.open(path, nav_shape=(3, 4))[...].reshape(12, 5, 7)[:11], frames[2:13])


@pytest.mark.parametrize(
    ("at", "values", "word"),
    [
        (0, (255,), "256 bytes"),
        (4, (3,), "version"),
        (8, (0,), "positive"),
        (8, (-1,), "positive"),
        (8, ((1 << 31) - 1, (1 << 31) - 1), "2147483647"),
        (16, (32,), "8 or 16 bits"),
        (48, (-5,), "frame headers"),
        (48, ((1 << 31) - 1,), "records of"),
    ],
)
def test_garbled(tmp_path: Path, at: int, values: tuple[int, ...], word: str) -> None:
    path = write_tvips(tmp_path, frames_of((3, 4, 5), "u2"))
    raw = bytearray(path.read_bytes())
    raw[at : at + 4 * len(values)] = struct.pack(f"<{len(values)}i", *values)
    path.write_bytes(raw)
    refuses(path, "scan_000.tvips", word, format="tvips")


def test_refused(tmp_path: Path) -> None:
    path = write_tvips(tmp_path, frames_of((3, 4, 5), "u2"))
    refuses(path, "position or rotator or none", scan="spiral", kind=vfs.OptionError)
    other = tmp_path / "plain.tvips"
    other.write_bytes(path.read_bytes())
    assert vfs.open(other).shape == (3, 4, 5)
    refuses([path, other], "has no number", kind=vfs.OptionError)
    (tmp_path / "foreign.tvips").write_bytes(bytes(1000))
    refuses(tmp_path / "foreign.tvips", "foreign.tvips", kind=vfs.UnknownFormatError)


@pytest.mark.parametrize(("version", "header_bytes"), [(1, 12), (2, 60)])
@pytest.mark.parametrize("lost", [(5,), (3, 4, 5)])
@pytest.mark.parametrize("per_file", [None, 9])
def test_lost_frames_without_positions_are_told(
    tmp_path: Path, version: int, header_bytes: int, lost: tuple[int, ...], per_file: int | None
) -> None:
    twin = frames_of((12, 3, 4), "u2")
    path = write_tvips(tmp_path, twin, version=version, header_bytes=header_bytes, frames_per_file=per_file)
    record = header_bytes + twin[0].nbytes
    raw = path.read_bytes()
    kept = [raw[256 + k * record : 256 + (k + 1) * record] for k in range(per_file or 12) if k not in lost]
    path.write_bytes(raw[:256] + b"".join(kept))
    said = f"{len(lost)} frame{'s were' if len(lost) > 1 else ' was'} lost between others"
    same(warned(path, said)[...], np.delete(twin, lost, axis=0))
    same(warned(path, said, nav_shape=(3, 3))[0, 0], twin[0])


@pytest.mark.parametrize(("mode", "unit", "said"), [(1, "nm", "image"), (2, "1/nm", "diffraction"), (0, "nm", None)])
def test_pixels_of_diffraction_patterns_are_in_1_over_nm(
    tmp_path: Path, mode: int, unit: str, said: str | None
) -> None:
    array = vfs.open(write_tvips(tmp_path, frames_of((3, 4, 5), "u2"), mode=mode))
    assert [axis["unit"] for axis in array.calibration.values()] == ["s", unit, unit]
    found = {name: one.value for name, one in array.metadata.items()}
    assert (found.get("mode"), found.get("magnification")) == (said, 80 if mode == 1 else None)
    assert found["time"] == "2020-09-13T12:26:40+00:00"
    assert found["stage.alpha"] == pytest.approx(np.radians(4))
    pytest.importorskip("xarray")
    assert array.xarray().stage_alpha.values.tolist() == [4, 4, 4]


def test_headers_of_version_1_say_no_mode(tmp_path: Path) -> None:
    array = vfs.open(write_tvips(tmp_path, frames_of((3, 4, 5), "u2"), version=1))
    assert [axis["unit"] for axis in array.calibration.values()] == ["s", "nm", "nm"]
    assert array.metadata["time"].value == "2020-09-13T12:26:40+00:00"


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([0, 40, 80, 121, 160], 0.04),  # as near as its clock tells
        ([0, 40, 85, 120, 160], None),
        ([160, 120, 80, 40, 0], None),
        ([0, 0, 0, 0, 0], None),
    ],
)
def test_a_movie_of_even_steps_is_calibrated(tmp_path: Path, times: list[int], expected: float | None) -> None:
    stamps = [1_600_000_000_000 + one for one in times]
    path = write_tvips(tmp_path, frames_of((5, 2, 3), "u1"), frames_per_file=3, times=stamps)
    found = vfs.open(path).calibration.get("frame")
    assert found == (None if expected is None else {"scale": pytest.approx(expected), "offset": 0, "unit": "s"})
