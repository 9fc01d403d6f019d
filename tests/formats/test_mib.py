"""MIB: what is peculiar to it. Every kind of pixels against numpy, the order of files, scans, time
stamps, and garbled headers.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vfs
from tests.conftest import SHARED, same_values
from tests.formats.frame_checks import BACKENDS, arranged, frames_of, incomplete, one_line, same, warned
from vfs.errors import (
    DecodeError,
    FormatError,
    MissingSourceError,
    OptionError,
    SourceError,
    TruncatedSourceError,
    VfsError,
)
from vfs.formats import detect
from vfs.formats.mib.decoders import RawDecoder, StampDecoder
from vfs.model.region import Region
from vfs.sets.describing import describe
from vfs.sources.local import LocalSources
from vfs.testing.inside import reader_of, set_of
from vfs.testing.writers import write_mib

KINDS: list[tuple[str, int | None, bool]] = [
    ("U08", None, False),
    ("U16", None, False),
    ("U32", None, False),
    ("u16", None, True),
]
KINDS += [("R64", depth, quad) for depth in (1, 6, 12, 24) for quad in (False, True)]
BITS = {1: 1, 6: 8, 12: 16, 24: 24}  # what the lanes of a word can hold (12 bits arrive in 16)


def make(n: int, kind: str = "U16", depth: int | None = None, quad: bool = False, seed: int = 0) -> np.ndarray:
    """Frames [n, y, x] of that kind, small and not square."""
    y, x = (6, 128) if not quad else (6, 256) if depth == 1 else (6, 32)
    bits = BITS[depth] if depth else int(kind[1:])
    dtype = (
        {"U08": "u1", "U16": "u2", "U32": "u4"}[kind.upper()]
        if not depth
        else {1: "u1", 6: "u1", 12: "u2", 24: "u4"}[depth]
    )
    return np.random.default_rng(seed).integers(0, 1 << bits, (n, y, x), dtype=np.uint64).astype(dtype)


def scanned(frames: np.ndarray, nav: tuple[int, ...], offset: int = 0) -> np.ndarray:
    """The twin of nav_shape and sync_offset."""
    out = np.zeros((math.prod(nav), *frames.shape[1:]), frames.dtype)
    for i in range(len(out)):
        if 0 <= i + offset < len(frames):
            out[i] = frames[i + offset]
    return out.reshape(nav + frames.shape[1:])


def equal(array: Any, expected: np.ndarray) -> None:
    assert array.dtype == expected.dtype
    np.testing.assert_array_equal(array.read(), expected)


# real files


def test_real_files_equal_the_oracle(oracle: dict[str, Any]) -> None:
    seen = 0
    for name, entry in oracle.items():
        if entry["format"] != "mib" or not name.startswith("mib/"):
            continue
        wanted = entry["arrays"]["frames"]
        for backend in BACKENDS:
            for file in entry["files"]:
                array = vfs.open(SHARED / file, backend=backend)
                assert array.dtype == np.dtype(wanted["dtype"]), name
                assert same_values(array.read().reshape(wanted["shape"]), wanted), name
        assert array.attrs["frames"] == wanted["shape"][0]
        seen += 1
    assert seen >= 13


def test_real_scan_shapes_and_stamps(oracle: dict[str, Any]) -> None:
    name = "002_merlin_test_roi_sig256x128_nav4x2_hot_pixel_52x_39y"
    group = vfs.open_group(SHARED / "mib" / f"nav4x2_{name}/{name}.mib")
    assert group.main.shape == (2, 4, 128, 256)
    assert group.main.dims == ("scan_y", "scan_x", "y", "x")
    stamps = group["timestamp"][...].astype("M8[ns]")
    assert stamps[0, 0] == np.datetime64("2024-07-02T11:46:44.035393175")
    assert (np.diff(stamps.ravel()) > np.timedelta64(0, "ns")).all()
    assert group["exposure"][...].tolist() == [[0.001] * 4] * 2
    # frames per trigger 1: no scan shape is known
    assert vfs.open(SHARED / "mib/nav4x2_001_4x2_6bit/001_4x2_6bit.hdr").shape == (8, 256, 256)
    assert vfs.open(
        SHARED / "mib/merlin_Single_9_Frame_CounterDepth_6_Rows_256/Single_9_Frame_CounterDepth_6_Rows_256.hdr"
    ).shape == (9, 256, 256)


# pixels


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("kind", "depth", "quad"), KINDS)
@pytest.mark.parametrize("per_file", [None, 1, 3])
@settings(max_examples=15)
@given(data=st.data())
def test_boxes(
    kind: str, depth: int | None, quad: bool, per_file: int | None, backend: str, tmp_path: Path, data: st.DataObject
) -> None:
    frames = make(7, kind, depth, quad)
    path = tmp_path / "scan.hdr"
    if not path.exists():
        write_mib(tmp_path, frames, kind=kind, depth=depth, quad=quad, frames_per_file=per_file)
    array = vfs.open(path, backend=backend)
    assert array.dims == ("frame", "y", "x")
    equal(array, frames)
    start = [data.draw(st.integers(0, n - 1)) for n in frames.shape]
    stop = [data.draw(st.integers(a, n)) for a, n in zip(start, frames.shape, strict=True)]
    region = Region(tuple(start), tuple(stop), tuple(data.draw(st.sampled_from([1, 1, 2, 5])) for _ in start))
    np.testing.assert_array_equal(array.read(region), frames[region.slices])
    at = tuple(data.draw(st.one_of(st.integers(-n, n - 1), st.slices(n))) for n in frames.shape)
    np.testing.assert_array_equal(array[at], frames[at])


@pytest.mark.parametrize(("kind", "depth", "quad"), [("U16", None, False), ("R64", 12, True)])
@pytest.mark.filterwarnings("ignore::vfs.IncompleteWarning")
def test_scans_with_a_missing_file(kind: str, depth: int | None, quad: bool, tmp_path: Path) -> None:
    frames = make(11, kind, depth, quad)
    path = write_mib(tmp_path, frames, kind=kind, depth=depth, quad=quad, frames_per_file=2, missing=[2])
    frames[4:6] = 0
    arranged(path, frames, allow_incomplete=True)


@pytest.mark.parametrize(("kind", "depth", "quad"), KINDS)
def test_flip_y(kind: str, depth: int | None, quad: bool, tmp_path: Path) -> None:
    frames = make(3, kind, depth, quad)
    array = vfs.open(write_mib(tmp_path, frames, kind=kind, depth=depth, quad=quad), flip_y=True)
    equal(array, frames[:, ::-1])
    assert array.attrs["rows"] == "top first"
    np.testing.assert_array_equal(array[1:, 1:4, 3:70:3], frames[1:, ::-1][:, 1:4, 3:70:3])


@pytest.mark.parametrize(
    ("layout", "shape"), [("  2x2G", (10, 18)), ("  1x1G", (3, 7)), ("   4x1", (2, 1024)), ("   Nx1", (5, 6))]
)
def test_integer_pixels_of_any_layout_and_gaps(layout: str, shape: tuple[int, int], tmp_path: Path) -> None:
    frames = np.random.default_rng(0).integers(0, 4096, (4, *shape), np.uint16)
    array = vfs.open(write_mib(tmp_path, frames, layout=layout, quad="2" in layout))
    equal(array, frames)
    assert array.attrs["sensor_layout"] == layout.strip()


@pytest.mark.parametrize("size", [384, 768, 1000, 5000])
@pytest.mark.parametrize("depth", [None, 12])
def test_header_sizes(size: int, depth: int | None, tmp_path: Path) -> None:
    frames = make(5, depth=depth)
    path = write_mib(
        tmp_path, frames, kind="R64" if depth else "U16", depth=depth, header_bytes=size, frames_per_file=2
    )
    group = vfs.open_group(path)
    equal(group.main, frames)
    assert group["exposure"][...].tolist() == [0.000555] * 5
    assert group.main.attrs["counter_depth"] == 12


def test_pixel_type_in_lower_case_and_counter_depth_of_the_hdr(tmp_path: Path) -> None:
    frames = make(3, "R64", 6)
    path = write_mib(tmp_path, frames, kind="r64", depth=6, extended=False)
    equal(vfs.open(path), frames)
    with pytest.raises(FormatError, match="counter depth"):
        vfs.open(tmp_path / "scan.mib", series=False)


# files


def test_files_come_by_sequence_number_not_by_name(tmp_path: Path) -> None:
    frames = make(9)
    write_mib(tmp_path, frames, frames_per_file=[2, 1, 4, 2], first_sequence=48)
    for old, new in [("scan001", "x7"), ("scan002", "x12"), ("scan003", "x1"), ("scan004", "x003")]:
        (tmp_path / f"{old}.mib").rename(tmp_path / f"{new}.mib")
    (tmp_path / "scan.hdr").rename(tmp_path / "x.hdr")
    for name in ["x.hdr", "x7.mib", "x003.mib"]:
        equal(vfs.open(tmp_path / name), frames)
    array = vfs.open([tmp_path / f"{n}.mib" for n in ("x1", "x003", "x12", "x7")])
    equal(array, frames)
    assert [Path(f).stem for f in array.files] == ["x7", "x12", "x1", "x003"]
    assert array.attrs["sequence_number"] == 48
    some = frames[:7].copy()  # a glob names exactly what it finds: x7 (frames 0 and 1) and x1 (3 to 6)
    some[2] = 0
    equal(
        incomplete(
            str(tmp_path / "x?.mib"),
            "x7.mib",
            "before x1.mib begins",
            "frame 2 of 7 is missing",
            kind=TruncatedSourceError,
        ),
        some,
    )


def counts(array: vfs.VirtualArray) -> dict[str, int]:
    """What the attributes of a set say is absent."""
    found: dict[str, int] = array.group.attrs["vfs"].get("incomplete", {})
    return found


def test_lost_files_are_named(tmp_path: Path) -> None:
    frames = make(15)
    path = write_mib(tmp_path, frames, frames_per_file=3, missing=[1, 3])
    array = incomplete(
        path, "scan002.mib and scan004.mib are missing, with frames 3 to 5, 9 to 11 of 15", kind=MissingSourceError
    )
    frames[3:6] = frames[9:12] = 0
    equal(array, frames)
    assert array.valid.tolist() == [n // 3 not in (1, 3) for n in range(15)]
    assert counts(array) == {"files_missing": 2, "frames_missing": 6}
    assert set_of(array.group).absent[0].files == tuple(str(tmp_path / f"scan00{k}.mib") for k in (2, 4))
    named = [tmp_path / f"scan00{k}.mib" for k in (1, 3)]
    equal(incomplete(named, "scan002.mib is missing", kind=MissingSourceError), frames[:9])
    equal(vfs.open(tmp_path / "scan003.mib", series=False), frames[6:9])


def test_the_first_file_is_lost(tmp_path: Path) -> None:
    """Where fewer than the .hdr says are stored, names and numbers tell how many are missing in front."""
    frames = make(12)
    path = write_mib(tmp_path, frames, frames_per_file=3, scan=(3, 4), missing=[0])
    array = incomplete(
        path,
        "says 12 frames",
        "scan002.mib begins with number 4",
        "the first 3 are missing, scan001.mib is missing",
        kind=MissingSourceError,
    )
    frames[:3] = 0
    equal(array, frames.reshape(3, 4, *frames.shape[1:]))
    assert counts(array) == {"files_missing": 1, "frames_missing": 3}
    (tmp_path / "scan004.mib").unlink()
    frames[9:] = 0
    with pytest.warns(vfs.IncompleteWarning, match="the first 3 are missing.*the last 3 are missing"):
        equal(vfs.open(path, allow_incomplete=True), frames.reshape(3, 4, *frames.shape[1:]))
    (tmp_path / "scan.hdr").unlink()
    array = warned(tmp_path / "scan003.mib", "scan002.mib: begins with frame number 4, scan001.mib is missing")
    equal(array, frames[3:9])  # no scan, all in order
    equal(vfs.open([tmp_path / "scan002.mib", tmp_path / "scan003.mib"]), frames[3:9])


@pytest.mark.parametrize(("prefix", "first"), [("scan", 48), ("scan001", 48), ("scan001", 4)])
def test_numbers_that_do_not_begin_with_one_are_no_loss(prefix: str, first: int, tmp_path: Path) -> None:
    frames = make(12)
    path = write_mib(tmp_path, frames, scan=(3, 4), prefix=prefix, first_sequence=first)
    equal(vfs.open(path), frames.reshape(3, 4, *frames.shape[1:]))
    path = write_mib(tmp_path, frames[:9], scan=(3, 4), prefix=prefix, first_sequence=first)
    equal(warned(path, "says 12 frames, 9 are stored: the last 3 are missing"), scanned(frames[:9], (3, 4)))  # stopped


def test_cut_files(tmp_path: Path) -> None:
    """Within a frame, at the end of the set: a warning. What others follow on: an error."""
    frames = make(6)
    path = write_mib(tmp_path, frames, frames_per_file=3)
    record = 384 + frames[0].nbytes
    os.truncate(tmp_path / "scan002.mib", 2 * record + 100)
    array = warned(
        path,
        "scan002.mib: ends within a frame: 100 bytes are not shown",
        "scan.hdr: says 6 frames, 5 are stored: the last one is missing",
    )
    equal(array, frames[:5])
    assert counts(array) == {"bytes_left_over": 100, "frames_missing": 1}
    os.truncate(tmp_path / "scan001.mib", 3 * record - 1)
    expected = frames[:5].copy()
    expected[2] = 0
    array = incomplete(
        path,
        "scan001.mib: ends too early, before scan002.mib begins: frame 2 of 6 is missing",
        kind=TruncatedSourceError,
    )
    equal(array, expected)
    assert "as 1 other does" in set_of(array.group).absent[1].said
    expected[:3] = 0
    for size in (500, 200):  # no whole frame, but its number says that there were some: what follows stays where it is
        os.truncate(tmp_path / "scan001.mib", size)
        equal(
            incomplete(path, "scan001.mib: ends too early", "frames 0 to 2 of 6", kind=TruncatedSourceError), expected
        )


def test_a_hdr_that_is_cut(tmp_path: Path) -> None:
    path = write_mib(tmp_path, make(4), scan=(2, 2))
    os.truncate(path, path.stat().st_size - 30)
    equal(warned(path, "scan.hdr: ends without a line 'End'"), make(4))


def test_series_is_the_stem_and_digits_only(tmp_path: Path) -> None:
    mine, other = make(4), make(2, seed=9)
    write_mib(tmp_path, mine, frames_per_file=2, prefix="scan_", hdr=False)
    write_mib(tmp_path, other, prefix="scan_10_other", hdr=False)
    write_mib(tmp_path, other, prefix="scan_2b", hdr=False)
    write_mib(tmp_path, other, prefix="scan", hdr=False)
    write_mib(tmp_path, other, prefix="myscan_3", hdr=False)
    equal(vfs.open(tmp_path / "scan_001.mib"), mine)
    equal(vfs.open(tmp_path / "scan_002.mib"), mine)
    equal(vfs.open(tmp_path / "scan_10_other.mib"), other)
    equal(vfs.open(tmp_path / "scan_002.mib", series=False), mine[2:])


def test_what_has_a_hdr_of_its_own_belongs_to_it(tmp_path: Path) -> None:
    one, ten, many = make(2, seed=1), make(3, seed=2), make(4, seed=3)
    write_mib(tmp_path, one, prefix="scan1")
    write_mib(tmp_path, ten, prefix="scan10")
    write_mib(tmp_path, many, prefix="scan", frames_per_file=2)
    for prefix, frames in [("scan1", one), ("scan10", ten), ("scan", many)]:
        equal(vfs.open(tmp_path / f"{prefix}.hdr"), frames)
    equal(vfs.open(tmp_path / "scan1.mib"), one)
    equal(vfs.open(tmp_path / "scan10.mib"), ten)
    equal(vfs.open(tmp_path / "scan002.mib"), many)


def test_hdr_with_a_separator_and_capitals(tmp_path: Path) -> None:
    frames = make(4)
    write_mib(tmp_path, frames, prefix="run_", frames_per_file=2, scan=(2, 2))
    (tmp_path / "run_.hdr").rename(tmp_path / "run.HDR")
    (tmp_path / "run_001.mib").rename(tmp_path / "run_001.MIB")
    for name in ["run.HDR", "run_001.MIB", "run_002.mib"]:
        equal(vfs.open(tmp_path / name), frames.reshape(2, 2, *frames.shape[1:]))


def test_links_stay_in_their_folder(tmp_path: Path) -> None:
    """A link is a member of the series beside the link, not of the one beside its target."""
    real, linked = tmp_path / "real", tmp_path / "linked"
    real.mkdir()
    linked.mkdir()
    frames = make(4)
    write_mib(real, frames, frames_per_file=1, hdr=False)
    for k in (1, 2):
        (linked / f"scan00{k}.mib").symlink_to(real / f"scan00{k}.mib")
    array = vfs.open(linked / "scan001.mib", follow_outside=True)
    equal(array, frames[:2])
    assert all(f.startswith(str(linked)) for f in array.files)


@pytest.mark.filterwarnings("ignore::vfs.IncompleteWarning")
def test_only_headers_are_read_to_open(tmp_path: Path) -> None:
    """One open, stat and read a file, and nothing else: 8,192 files open in little more than the
    time that this takes.
    """
    path = write_mib(tmp_path, make(130), frames_per_file=1)
    asked: dict[str, int] = {}

    def watch(name: str, real: Any) -> Any:
        def watched(*given: Any, **how: Any) -> Any:
            asked[name] = asked.get(name, 0) + 1
            return real(*given, **how)

        return watched

    equal(vfs.open(path), make(130))
    counts = []
    for files in (130, 30):
        with pytest.MonkeyPatch.context() as patch:
            for name in ("open", "stat", "lstat", "fstat", "pread", "readlink", "close"):
                patch.setattr(os, name, watch(name, getattr(os, name)))
            array = vfs.open(path)
        assert len(array.files) == files
        equal(array, make(130)[:files])
        counts.append(asked.copy())
        asked.clear()
        for k in range(31, 131):
            (tmp_path / f"scan{k:03d}.mib").unlink(missing_ok=True)
    more = {name: counts[0][name] - counts[1].get(name, 0) for name in counts[0]}
    assert {name: count for name, count in more.items() if count} == {
        "open": 100,
        "fstat": 100,
        "pread": 100,
        "close": 100,
    }


@pytest.mark.parametrize("kind", ["U16", "R64"])
def test_each_header_is_taken_by_its_own_words(kind: str, tmp_path: Path) -> None:
    """Headers that have the words of the one before at their places are not parsed; whatever else
    one may look like is seen.
    """
    frames = make(9, kind, 12 if kind == "R64" else None)
    # A digit more from the fifth on
    path = write_mib(tmp_path, frames, kind=kind, frames_per_file=1, first_sequence=999_996, hdr=False)
    array = vfs.open(path)
    equal(array, frames)
    assert array.attrs["sequence_number"] == 999_996
    changes = [
        ({"f1": "99x998"}, "expected a frame header"),
        ({"f1": " 99998"}, "expected a frame header"),
        ({"f0": "MQ2"}, "expected a frame header"),
    ]
    changes += [({field: word}, "belong together") for field, word in (("f2", "00640"), ("f4", "0064"), ("f6", "U32"))]
    if kind == "R64":
        changes += [
            ({"f-2": "6"}, "6 bits"),
            ({"f-2": "ab"}, "need a counter depth"),
            ({"f9": "2023\0" + "0" * 21}, "need a counter depth"),
        ]
    for fields, message in changes:
        kept = (tmp_path / "scan003.mib").read_bytes()
        rewrite(tmp_path / "scan003.mib", **fields)
        with pytest.raises(FormatError, match=message) as caught:
            vfs.open(path)
        assert "scan003.mib" in str(caught.value), fields
        (tmp_path / "scan003.mib").write_bytes(kept)
    equal(vfs.open(path), frames)


# scans and attributes


@pytest.mark.parametrize(
    ("scan", "per_trigger", "n", "nav"),
    [
        ((3, 4), 1, 12, (3, 4)),
        ((3, 4), 4, 9, (3, 4)),  # interrupted: blank at the end
        ((3, 4), 1, 14, (3, 4)),  # more than the scan shows
        ((1, 5), 1, 5, (1, 5)),
        (None, 4, 12, (3, 4)),
        (None, 1, 12, (12,)),
        (None, 12, 12, (12,)),
        (None, 5, 12, (12,)),  # lines that do not come out even would leave frames out
        ((0, 0), 3, 6, (2, 3)),
    ],
)
def test_scan_shape_of_the_hdr(
    scan: tuple[int, int] | None, per_trigger: int, n: int, nav: tuple[int, ...], tmp_path: Path
) -> None:
    frames = make(n)
    path = write_mib(tmp_path, frames, scan=scan, per_trigger=per_trigger)
    array = vfs.open(path) if math.prod(nav) == n else warned(path, "says")
    group = array.group
    equal(array, scanned(frames, nav))
    assert group["timestamp"].shape == group["exposure"].shape == nav
    assert group.main.dims == (("frame",) if len(nav) == 1 else ("scan_y", "scan_x")) + ("y", "x")
    equal(vfs.open(path, nav_shape=n) if n != 9 else warned(path, "says 12 frames", nav_shape=n), frames)


def test_interrupted_lines_are_blank_at_the_end(tmp_path: Path) -> None:
    frames = make(12)
    path = write_mib(tmp_path, frames, per_trigger=4)
    os.truncate(tmp_path / "scan.mib", 7 * (384 + frames[0].nbytes) + 5)
    equal(
        warned(path, "5 bytes are not shown", "says 12 frames, 7 are stored: the last 5 are missing"),
        scanned(frames[:7], (3, 4)),
    )


def test_attributes(tmp_path: Path) -> None:
    attrs = vfs.open(write_mib(tmp_path, make(3), scan=(1, 3))).attrs
    assert attrs["pixel_type"] == "U16"
    assert attrs["counter_depth"] == 12
    assert attrs["thresholds_keV"] == [12, 511, 0, 0, 0, 0, 0, 0]
    assert attrs["time"] == "2020-05-18T14:51:49.971626178Z"
    assert attrs["exposure_s"] == 0.000555
    assert attrs["hdr"]["ScanX"] == "3"
    assert attrs["hdr"]["Chip ID"] == "W556_B4, - , - , -"
    assert attrs["rows"] == "bottom first"
    assert "hdr" not in vfs.open(tmp_path / "scan.mib", series=False).attrs


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("extended", [True, False])
@pytest.mark.filterwarnings("ignore::vfs.IncompleteWarning")
def test_time_stamps_and_exposures(extended: bool, backend: str, tmp_path: Path) -> None:
    n = 9
    path = write_mib(tmp_path, make(n), frames_per_file=2, missing=[1], extended=extended, exposure_ns=1_500_000)
    group = vfs.open_group(path, backend=backend, nav_shape=(2, 5), sync_offset=-1, allow_incomplete=True)
    start = np.datetime64("2020-05-18T14:51:49.971626178" if extended else "2020-05-18T14:51:49.971626", "ns")
    times = (start + np.arange(n) * np.timedelta64(1, "ms")).astype(np.int64)
    seconds = np.full(n, 0.0015)
    times[2:4] = seconds[2:4] = 0
    stamps = group["timestamp"]
    assert reader_of(stamps).dataset.companion
    assert reader_of(stamps).dataset.conventions["units"] == "nanoseconds since 1970-01-01"
    np.testing.assert_array_equal(stamps[...], [[0, *times[:4]], times[4:]])
    np.testing.assert_array_equal(group["exposure"][...], [[0, *seconds[:4]], seconds[4:]])
    assert stamps[1, -1] == times[-1]
    np.testing.assert_array_equal(
        vfs.open_group(path, backend=backend, roi=[8, 0], allow_incomplete=True)["timestamp"][...], times[[8, 0]]
    )


@pytest.mark.parametrize(
    "text",
    [
        "1970-01-01T00:00:00Z",
        "2000-02-29T23:59:59.9Z",
        "1999-12-31T12:00:00.000000001Z",
        "2100-03-01T00:00:00.123456Z",
        "2024-12-31T23:59:59Z",
    ],
)
def test_times_are_those_of_numpy(text: str) -> None:
    out = np.zeros(1, np.int64)
    header = f"MQ1,1,00384,01,4,4,U16,1x1,01,,,MQ1A,{text},1ns,12,".encode().ljust(384, b"\0")
    StampDecoder(("f",), 384, False).decode(
        np.array([[0, 0, 384, 0, 1, 0, 1, 0]]), np.frombuffer(header, np.uint8), 0, out
    )
    assert out.view("M8[ns]")[0] == np.datetime64(text.rstrip("Z"), "ns")


@pytest.mark.parametrize(
    ("word", "seconds"), [("0.000555", 0.000555), ("1.000000E-3", 0.001), ("12", 12), ("5.5e+1", 55), (" 0.25", 0.25)]
)
def test_exposures_of_older_headers(word: str, seconds: float) -> None:
    out = np.zeros(1)
    header = f"MQ1,1,00384,01,4,4,U16,1x1,01,2020-01-01 00:00:00.0,{word},0".encode().ljust(384, b"\0")
    StampDecoder(("f",), 384, True).decode(
        np.array([[0, 0, 384, 0, 1, 0, 1, 0]]), np.frombuffer(header, np.uint8), 0, out
    )
    assert out[0] == pytest.approx(seconds, rel=1e-15)


def test_a_garbled_time_is_an_error_that_names_the_place(tmp_path: Path) -> None:
    path = write_mib(tmp_path, make(3))
    where = 2 * (384 + 6 * 128 * 2)
    with (tmp_path / "scan.mib").open("r+b") as file:
        file.seek(where)
        file.write(b"\0" * 384)
    group = vfs.open_group(path)
    equal(group.main, make(3))  # the pixels do not depend on it
    with pytest.raises(
        DecodeError, match=rf"scan\.mib: the frame header at byte {where:,} has no field that is a time.*timestamp"
    ):
        group["timestamp"][...]
    with pytest.raises(DecodeError, match="an exposure"):
        group["exposure"][2]
    assert group["exposure"][:2].tolist() == [0.000555] * 2


def test_xarray_decodes_the_times(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    group = vfs.open_group(write_mib(tmp_path, make(6), scan=(2, 3)))
    found = xarray.open_zarr(group.store(), consolidated=True)
    assert found.timestamp.values[1, 2] == np.datetime64("2020-05-18T14:51:49.976626178", "ns")
    assert found.timestamp.dims == ("scan_y", "scan_x")
    assert found.exposure.values.tolist() == [[0.000555] * 3] * 2


def test_datasets_and_decoders_pickle(tmp_path: Path) -> None:
    group = vfs.open_group(write_mib(tmp_path, make(6, "R64", 24, True), kind="R64", depth=24, quad=True))
    again = pickle.loads(pickle.dumps(group))
    equal(again.main, make(6, "R64", 24, True))
    np.testing.assert_array_equal(again["timestamp"][...], group["timestamp"][...])
    assert pickle.loads(pickle.dumps(RawDecoder(24))) == RawDecoder(24)


# bad input


def rewrite(path: Path, **fields: str) -> None:
    """Change fields of the first header of a file; the header keeps its size."""
    data = path.read_bytes()
    parts = data[:384].split(b",")
    for key, word in fields.items():
        parts[int(key[1:])] = word.encode("latin-1")
    path.write_bytes(b",".join(parts)[:384].ljust(384, b"\0") + data[384:])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"f1": "0x0001"}, "sequence number"),
        ({"f1": ""}, "sequence number"),
        ({"f1": "-00001"}, "sequence number"),
        ({"f1": "9" * 60}, "sequence number"),
        ({"f2": "00000"}, "header size"),
        ({"f2": "1000000000"}, "header size"),
        ({"f2": "-384"}, "header size"),
        ({"f3": "xx"}, "chips"),
        ({"f4": "0000"}, "pixels"),
        ({"f4": "1152921504606846976"}, "pixels"),
        ({"f5": "9" * 300}, "pixels"),
        ({"f5": "1000000"}, "at least one frame"),
        ({"f6": "F32"}, "U08, U16, U32 or R64"),
        ({"f6": "U64"}, "U08, U16, U32 or R64"),
        ({"f6": "R64", "f7": "   4x1", "f3": "04"}, "4 chips 4x1"),
        ({"f6": "R64", "f7": "   2x2", "f3": "02"}, "2 chips 2x2"),
        ({"f6": "R64", "f4": "0126"}, "whole words"),
    ],
)
def test_garbled_fields(fields: dict[str, str], message: str, tmp_path: Path) -> None:
    path = write_mib(tmp_path, make(2), hdr=False)
    rewrite(path, **fields)
    with pytest.raises((FormatError, vfs.TruncatedSourceError), match=message) as caught:
        vfs.open(path, format="mib")
    one_line(caught.value)
    assert "scan.mib" in str(caught.value)


def test_files_that_do_not_belong_together(tmp_path: Path) -> None:
    path = write_mib(tmp_path, make(4), frames_per_file=2, hdr=False)
    write_mib(tmp_path, make(2, "U32"), prefix="scan003", kind="U32", first_sequence=5, hdr=False)
    with pytest.raises(
        FormatError,
        match=r"scan003\.mib: holds .*U32.*U16.*series=False|scan00[12]\.mib: holds .*U16.*U32.*series=False",
    ):
        vfs.open(path)
    equal(vfs.open(path, series=False), make(4)[:2])
    raw = write_mib(tmp_path, make(2, "R64", 12), kind="R64", prefix="raw001", hdr=False)
    write_mib(tmp_path, make(2, "R64", 6), kind="R64", depth=6, prefix="raw002", first_sequence=3, hdr=False)
    with pytest.raises(FormatError, match="6 bits"):
        vfs.open(raw)


def test_frames_that_two_files_hold(tmp_path: Path) -> None:
    one = write_mib(tmp_path, make(4), prefix="scan1", hdr=False)
    write_mib(tmp_path, make(4), prefix="scan2", first_sequence=4, hdr=False)
    with pytest.raises(
        FormatError,
        match=r"scan2\.mib: its first frame is number 4, .*scan1\.mib has the numbers 1 to 4; .*series=False",
    ):
        vfs.open(one)
    with pytest.raises(FormatError, match="first frame is number 1"):
        vfs.open([one, one])


def test_a_sequence_number_out_of_the_world(tmp_path: Path) -> None:
    path = write_mib(tmp_path, make(4), frames_per_file=1, hdr=False)
    rewrite(tmp_path / "scan003.mib", f1="7000000000")
    with pytest.raises(FormatError, match=r"scan003\.mib: frames are numbered 1 to 7000000000, the files hold 4"):
        vfs.open(path)
    rewrite(tmp_path / "scan003.mib", f1="0900000")  # frames may be missing
    array = incomplete(path, "scan003.mib")
    assert array.shape == (900_000, 6, 128)
    np.testing.assert_array_equal(
        array[:5],
        np.concatenate([make(4)[:2], np.zeros((1, 6, 128), np.uint16), make(4)[3:], np.zeros((1, 6, 128), np.uint16)]),
    )
    np.testing.assert_array_equal(array[-1], make(4)[2])


def test_hdr_files_that_are_none(tmp_path: Path) -> None:
    path = write_mib(tmp_path, make(4), scan=(2, 2))
    path.write_text("ENVI\nsamples = 3\n")
    equal(warned(tmp_path / "scan.mib", "scan.hdr: expected a Merlin header file", "without these metadata"), make(4))
    equal(vfs.open(tmp_path / "scan.mib", series=False), make(4))
    for line, message in [
        ("ScanX:\t99999999999", "ScanX says '99999999999'"),
        ("ScanX:\tfour", "'four'"),
        ("ScanX:\t999999999", "too many"),
    ]:
        path.write_text(f"HDR,\t\nScanY:\t999999999\n{line}\nEnd\t")
        with pytest.raises(FormatError, match=message) as caught:
            vfs.open(path)
        one_line(caught.value)
    path.write_text("HDR,\t\nFrames in Acquisition (Number):\tinfinite\nEnd\t\n" + "x" * 1_000_000 + ":\t\n" * 100)
    equal(vfs.open(path), make(4))


def test_missing_and_unreadable_files(tmp_path: Path) -> None:
    path = write_mib(tmp_path, make(4), frames_per_file=2)
    (tmp_path / "scan003.mib").mkdir()
    with pytest.raises(SourceError, match=r"scan003\.mib: expected a file") as caught:
        vfs.open(path)
    one_line(caught.value)
    (tmp_path / "scan003.mib").rmdir()
    os.mkfifo(tmp_path / "scan003.mib")
    with pytest.raises(SourceError, match="expected a file"):
        vfs.open(path)
    (tmp_path / "scan003.mib").unlink()
    (tmp_path / "scan003.mib").symlink_to("nowhere")
    with pytest.raises(MissingSourceError, match=r"scan003\.mib"):
        vfs.open(path)
    (tmp_path / "scan003.mib").unlink()
    (tmp_path / "scan003.mib").symlink_to("scan003.mib")
    with pytest.raises(SourceError, match=r"scan003\.mib: cannot be opened"):
        vfs.open(path)
    (tmp_path / "scan003.mib").unlink()
    (tmp_path / "scan003.mib").touch()
    with pytest.raises(TruncatedSourceError, match=r"scan003\.mib: expected frames, found an empty file"):
        vfs.open(path)
    (tmp_path / "scan003.mib").write_bytes(b"\x89PNG" * 500)
    with pytest.raises(FormatError, match=r"scan003\.mib: expected a frame header"):
        vfs.open(path)
    for k in (1, 2, 3):
        (tmp_path / f"scan00{k}.mib").unlink()
    with pytest.raises(MissingSourceError, match=r"scan\.mib or scan<number>\.mib"):
        vfs.open(path)
    with pytest.raises(MissingSourceError, match="no such file"):
        vfs.open(tmp_path / "scan001.mib", format="mib")
    with pytest.raises(MissingSourceError, match="no such file"):
        vfs.open(tmp_path / "nowhere" / "scan001.mib", format="mib")


def test_wrong_sets_of_paths(tmp_path: Path) -> None:
    a, b = write_mib(tmp_path, make(2), prefix="a"), write_mib(tmp_path, make(2), prefix="b")
    with pytest.raises(OptionError, match=r"b\.hdr: .*second \.hdr"):
        vfs.open([a, b])
    with pytest.raises(OptionError, match=r"second \.hdr"):
        vfs.open([a, a])
    equal(vfs.open([a, tmp_path / "a.mib"]), make(2))


def test_a_file_that_shrank_is_an_error(tmp_path: Path) -> None:
    path = write_mib(tmp_path, make(4), kind="R64", quad=False)
    for backend in BACKENDS:
        write_mib(tmp_path, make(4), kind="R64")
        array = vfs.open(path, backend=backend)
        os.truncate(tmp_path / "scan.mib", 2500)
        with pytest.raises(SourceError, match=r"scan\.mib"):
            array.read()


def test_detected_by_content(tmp_path: Path) -> None:
    path = write_mib(tmp_path, make(1))
    assert detect(LocalSources(), str(path)).name == "mib"
    assert detect(LocalSources(), str(tmp_path / "scan.mib")).name == "mib"
    other = tmp_path / "frms.hdr"
    other.write_text("[measurementInfo]\ndarkFrames=1\n")
    with pytest.raises(VfsError):
        vfs.open(other, format="mib")


def test_what_a_stopped_scan_lacks_counts_once_in_any_scan_shape(tmp_path: Path) -> None:
    path = write_mib(tmp_path, np.ones((8, 4, 4), np.uint16), scan=(3, 4))  # it was stopped
    for nav, counts in (
        ((12,), {"frames_missing": 4}),
        ((2, 4), {"frames_missing": 4}),
        ((7,), {"frames_missing": 4, "frames_left_out": 1}),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", vfs.IncompleteWarning)
            assert vfs.open(path, nav_shape=nav).group.attrs["vfs"].get("incomplete", {}) == counts


@pytest.mark.parametrize("said", [True, False])
def test_frames_recorded_while_the_beam_returned(tmp_path: Path, said: bool) -> None:
    """One more frame a line than the scan has columns: left out where the .hdr says so, else by `line_skip`."""
    twin = make(40)
    path = write_mib(tmp_path, twin, scan=(5, 7), frames_per_file=16)
    shown = twin.reshape(5, 8, *twin.shape[1:])[:, :7]
    if said:
        path.write_text(path.read_text().replace("ScanX", "LineSkip:\t1\nScanX"))
        array = vfs.open(path)
        same(vfs.open(path, nav_shape=(5, 8))[...], twin.reshape(5, 8, *twin.shape[1:]))
    else:
        hint = "5 are not shown; that is 1 frame a line: line_skip=1 skips the end of each line"
        same(warned(path, f"says a scan of 5 × 7, 40 frames are stored: {hint}")[...], twin[:35].reshape(shown.shape))
        array = vfs.open(path, line_skip=1)
    same(array[...], shown)
    assert "incomplete" not in array.group.attrs["vfs"]
    same(pickle.loads(pickle.dumps(array))[...], shown)
    same(np.asarray(array.zarr()[1:, 2:5]), shown[1:, 2:5])
    sums = array.reduce(sum=vfs.Sum(), each=vfs.Masks(np.ones((1, *twin.shape[1:]))))
    same(sums["sum"].data.astype("f8"), shown.sum((0, 1), dtype="f8"))
    same(sums["each"].data.astype("f8").reshape(5, 7), shown.sum((2, 3), dtype="f8"))
    stamps = array.group["timestamp"][...]
    assert np.diff(stamps[:, 0]).tolist() == [8_000_000] * 4  # ns; a millisecond a frame
    for explicit in (False, True):
        description = tmp_path / f"{explicit}.vfs.json"
        description.write_text(json.dumps(describe(set_of(array.group), tmp_path, explicit=explicit)))
        same(vfs.open(description)[...], shown)


ACQUIRED, TRIGGERED = "Frames in Acquisition (Number):\t", "Frames per Trigger (Number):\t"


@pytest.mark.parametrize(
    ("stored", "says", "shape", "said"),
    [
        (35, "LineSkip:\t1\nScanX", (5, 7), ""),  # they were not recorded
        (39, "LineSkip:\t1\nScanX", (5, 7), ""),  # nor behind the last line
        (20, "LineSkip:\t1\nScanX", (5, 7), "says 40 frames, 20 are stored: the last 20 are missing"),
        (43, "LineSkip:\t1\nScanX", (5, 7), "3 are not shown"),
        (37, "ScanX", (5, 7), "37 frames are stored: 2 are not shown"),
        (40, f"{ACQUIRED}40\n{TRIGGERED}8\nScanX", (5, 7), ""),  # a trigger a line
        (40, f"{ACQUIRED}40\n{TRIGGERED}8\nLineSkip:\t0\nScanX", (5, 7), "40 frames are stored: 5 are not shown"),
        (40, f"{ACQUIRED}35\n{TRIGGERED}8\nScanX", (5, 7), "40 frames are stored: 5 are not shown"),
    ],
)
def test_lines_of_which_others_were_recorded(
    tmp_path: Path, stored: int, says: str, shape: tuple[int, int], said: str
) -> None:
    twin = make(stored)
    path = write_mib(tmp_path, twin, scan=(5, 7))
    path.write_text(re.sub("Frames in Acq.*", "", path.read_text()).replace("ScanX", says))
    array = warned(path, said) if said else vfs.open(path)
    skip = 0 if stored in (35, 37) or "5 are not" in said else 1
    same(array[...], scanned(twin, (5, 7 + skip))[:, :7])


@pytest.mark.parametrize(("stored", "shape"), [(40, (40,)), (37, (5, 7)), (42, (42,)), (35, (5, 7))])
def test_triggers_that_say_fewer_frames_than_are_stored(tmp_path: Path, stored: int, shape: tuple[int, ...]) -> None:
    twin = make(stored)
    path = write_mib(tmp_path, twin, per_trigger=7)
    text = path.read_text()
    assert f"Frames in Acquisition (Number):\t{stored}" in text
    path.write_text(text.replace(f"Acquisition (Number):\t{stored}", "Acquisition (Number):\t35"))
    said = {
        40: "says 35 frames, 40 are stored: all are shown, along one axis; that is 1 frame a line: nav_shape=(5, 7), ",
        37: "says a scan of 5 × 7, 37 frames are stored: 2 are not shown",
        42: "says 35 frames, 42 are stored: all are shown, along one axis",
    }
    array = warned(path, said[stored]) if stored in said else vfs.open(path)
    same(array[...], twin[: math.prod(shape)].reshape(*shape, *twin.shape[1:]))
    same(vfs.open(path, nav_shape=(stored,))[...], twin)  # nothing is left to say


@pytest.mark.parametrize("per_file", [None, 12])
@pytest.mark.parametrize("lost", [(5,), (4, 5, 6), (1, 9, 21), (22,)])
def test_frames_lost_within_a_file(tmp_path: Path, lost: tuple[int, ...], per_file: int | None) -> None:
    """Their numbers are missing in the frame headers; later frames stay where they belong."""
    twin = make(24)
    path = write_mib(tmp_path, twin, scan=(4, 6), frames_per_file=per_file)
    kept = np.setdiff1d(np.arange(24), lost)
    record = 384 + twin[0].nbytes
    for k, file in enumerate(sorted(tmp_path.glob("*.mib"))):
        held = file.read_bytes()
        first = k * (per_file or 0)
        here = [n - first for n in kept.tolist() if 0 <= n - first < len(held) // record]
        file.write_bytes(b"".join(held[n * record : (n + 1) * record] for n in here))
    twin[list(lost)] = 0
    array = warned(path, "by the numbers in its frame headers, ", "blank")
    same(array[...], twin.reshape(4, 6, *twin.shape[1:]))
    assert array.group.attrs["vfs"]["incomplete"] == {"frames_missing": len(lost)}
    assert (array.group["timestamp"][...] > 0).ravel().tolist() == (~np.isin(np.arange(24), lost)).tolist()


@pytest.mark.parametrize("numbers", [range(2, 20, 2), [1, 1, 2, 2, 3, 3, 4, 4, 5], [1, 2, 3, 2, 1, 6, 7, 8, 11]])
def test_numbers_that_do_not_count_frames(tmp_path: Path, numbers: Any) -> None:
    twin = make(9)
    path = write_mib(tmp_path, twin)
    file, record = tmp_path / "scan.mib", 384 + twin[0].nbytes
    raw = bytearray(file.read_bytes())
    for k, number in enumerate(numbers):
        raw[k * record + 4 : k * record + 10] = b"%06d" % number
    file.write_bytes(raw)
    same(vfs.open(path)[...], twin)


@pytest.mark.parametrize(
    ("stored", "hint", "skip"),
    [
        (39, "that is 1 frame a line but the last: line_skip=1 skips", 1),
        (43, "that are 2 frames a line but the last: line_skip=2 skips", 2),
        (45, "that are 2 frames a line: line_skip=2 skips", 2),
        (105, "that is the scan 3 times: nav_shape=(3, 5, 7) shows all", 0),
        (36, "1 is not shown", None),
    ],
)
def test_what_surplus_frames_may_be(tmp_path: Path, stored: int, hint: str, skip: int | None) -> None:
    twin = frames_of((stored, 2, 4), "u2")
    path = write_mib(tmp_path, twin, scan=(5, 7))
    said = warned(path, hint)
    same(said[...], twin[:35].reshape(5, 7, 2, 4))
    if skip:
        lines = [twin[(7 + skip) * k :][:7] for k in range(5)]
        same(vfs.open(path, line_skip=skip)[...], np.stack(lines))
    elif skip == 0:
        same(vfs.open(path, nav_shape=(3, 5, 7))[...], twin.reshape(3, 5, 7, 2, 4))


@pytest.mark.parametrize("per_file", [None, 12])
@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ({6: 6}, "number 6 follows 6"),  # once more, and one never
        ({6: 8, 7: 7}, "number 8 follows 6"),
        ({3: 20}, "number 20 follows 3"),
    ],
)
def test_numbers_that_repeat_or_go_back_are_told(
    tmp_path: Path, numbers: dict[int, int], said: str, per_file: int | None
) -> None:
    twin = make(24)
    path = write_mib(tmp_path, twin, scan=(4, 6), frames_per_file=per_file)
    file, record = tmp_path / ("scan001.mib" if per_file else "scan.mib"), 384 + twin[0].nbytes
    raw = bytearray(file.read_bytes())
    for k, number in numbers.items():
        raw[k * record + 4 : k * record + 10] = b"%06d" % number
    file.write_bytes(raw)
    array = warned(path, f"{file}: {said} in its frame headers: the frames are shown in the order of the file")
    same(array[...], twin.reshape(4, 6, *twin.shape[1:]))
