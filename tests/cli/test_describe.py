"""Descriptions that vfs writes open as the same arrays, in both forms."""

from __future__ import annotations

import json
import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vfs
from tests.conftest import SHARED
from tests.formats.description_sets import block_sets, link, same, values, write
from vfs.errors import OptionError
from vfs.faces.documents import plain_json
from vfs.sets import describing as module
from vfs.sets.describing import describe
from vfs.testing.inside import reader_of, set_of
from vfs.testing.writers import write_mib, write_npy, write_raw


def again(group: vfs.VirtualGroup, folder: Path, **options: Any) -> tuple[dict[str, Any], vfs.VirtualGroup]:
    """Describe a set, write it as JSON, open that: the arrays are the same, in all that a user sees of them."""
    described = describe(set_of(group), folder, **options)
    path = folder / "again.vfs.json"
    path.write_text(json.dumps(described, allow_nan=False))
    found = vfs.open_group(path, **({"follow_outside": True} if options.get("follow_outside") else {}))
    assert found.name == "again"
    assert set(found) <= set(group)
    for name in found:
        before, after = group[name], found[name]
        assert after.dims == before.dims
        assert reader_of(after).dataset.nav_ndim == reader_of(before).dataset.nav_ndim
        assert plain_json(after.attrs) == plain_json(before.attrs)
        assert plain_json(reader_of(after).dataset.conventions) == plain_json(reader_of(before).dataset.conventions)
        assert after.dtype == before.dtype
        assert np.array_equal(after[...], before[...], equal_nan=before.dtype.kind in "fc")
        assert np.array_equal(
            np.asarray(reader_of(after).fill), np.asarray(reader_of(before).fill), equal_nan=before.dtype.kind in "fc"
        )
    return described, found


def both(group: vfs.VirtualGroup, folder: Path) -> dict[str, Any]:
    """Both forms; the explicit one holds all arrays. Returns that."""
    _, short = again(group, folder)
    assert list(short) == list(group)
    assert {name: array.chunks for name, array in short.items()} == {
        name: array.chunks for name, array in group.items()
    }
    described, explicit = again(group, folder, explicit=True)
    assert list(explicit) == list(group)
    return described


FRAMES = values((12, 4, 5), "<u2")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"nav_shape": (3, 4)},
        {"nav_shape": (2, 4)},
        {"nav_shape": (4, 4), "sync_offset": -2},
        {"sync_offset": 3, "nav_shape": "3x4"},
        {"roi": [11, 0, 0, 4]},
        {"nav_shape": (4, 4), "roi": np.eye(4, dtype=bool), "sync_offset": 1},
        {"nav_shape": 16, "roi": [12, 15]},  # nothing but blank frames
        {"sync_offset": -12},
    ],
)
@pytest.mark.parametrize("gaps", [{}, {"file_header": 3, "frame_header": 5, "frame_footer": 2}])
def test_raw(tmp_path: Path, options: dict[str, Any], gaps: dict[str, int]) -> None:
    paths = write_raw(tmp_path, FRAMES, files=3, **gaps)
    group = vfs.open_group(paths, format="raw", dtype="<u2", sig_shape=(4, 5), **gaps, **options)
    described = both(group, tmp_path)
    assert set(described) >= {"dtype", "shape", "frames", "files"}
    assert described["files"] == ["part0.bin", "part1.bin", "part2.bin"][: len(described["files"])]


def test_frames_that_run_on(tmp_path: Path) -> None:
    stream = b"".join(b"hd" + frame.tobytes() for frame in FRAMES)
    for k, (a, b) in enumerate([(0, 50), (50, 50), (50, 200), (200, len(stream))]):
        (tmp_path / f"f{k}.bin").write_bytes(b"file" + stream[a:b])
    paths = [tmp_path / f"f{k}.bin" for k in range(4)]
    how: dict[str, Any] = {
        "format": "raw",
        "dtype": "<u2",
        "sig_shape": "4,5",
        "running_on": True,
        "file_header": 4,
        "frame_header": 2,
    }
    described = both(vfs.open_group(paths, **how), tmp_path)
    assert described["frames"]["running_on"]
    both(vfs.open_group(paths, sync_offset=-1, nav_shape=(3, 5), **how), tmp_path)
    again(vfs.open_group(paths, roi=[0, 3], **how), tmp_path)
    with pytest.raises(OptionError, match="run across files have no explicit description"):
        describe(set_of(vfs.open_group(paths, roi=[0, 1, 2, 3], **how)), tmp_path, explicit=True)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["|u1", ">u2", "<f8", "<c8", "|b1"])
@pytest.mark.parametrize("shape", [(7,), (4, 5), (3, 4, 5), (2, 3, 4, 5)])
def test_npy(tmp_path: Path, shape: tuple[int, ...], dtype: str, order: Any) -> None:
    twin = values(shape, dtype)
    paths = [
        write_npy(tmp_path, np.asarray(part, order=order), name=f"a{k}.npy")
        for k, part in enumerate((twin, twin[::-1]))
    ]
    both(vfs.open_group(paths[0]), tmp_path)
    described = both(vfs.open_group(paths), tmp_path)
    assert ("pieces" in described["frames"]) is (order == "F" and len(shape) > 1)


@pytest.mark.filterwarnings("ignore::vfs.IncompleteWarning")
def test_mib(tmp_path: Path) -> None:
    """16-bit pixels are plain, with a file missing; the companions are read from headers and stay
    out of the explicit form.
    """
    frames = values((12, 4, 4), "<u2") & 0xFFF
    path = write_mib(tmp_path, frames, frames_per_file=3, scan=(3, 4), missing=[1])
    group = vfs.open_group(path, allow_incomplete=True)
    described, _ = again(group, tmp_path)
    assert described["files"] == ["scan.hdr"]
    explicit, found = again(group, tmp_path, explicit=True)
    array = explicit.get("arrays", {"data": explicit})["data"]
    assert array["frames"]["first_frame"] == [0, 6, 9]
    assert not found.main[0, 3].any()


def test_packed_pixels_have_a_short_form_only(tmp_path: Path) -> None:
    group = vfs.open_group(write_mib(tmp_path, values((2, 64, 64), "<u2") & 0xFFF, kind="R64", depth=12))
    again(group, tmp_path)
    with pytest.raises(
        OptionError, match=r"data: its elements are not plain numbers \(.*\); only the short description can be written"
    ):
        describe(set_of(group), tmp_path, explicit=True)


@settings(max_examples=40)
@given(st.data())
def test_blocks(data: st.DataObject) -> None:
    made = data.draw(block_sets())
    with TemporaryDirectory() as name:
        folder = Path(name)
        head, blocks = made.write(folder)
        described = both(vfs.open_group(write(folder, head | {"blocks": blocks})), folder)
        assert len(described["blocks"]) == len(blocks)
        same(vfs.open(folder / "again.vfs.json")[...], made.twin)


def test_blocks_in_a_scan(tmp_path: Path) -> None:
    twin = values((6, 4, 4), "<u2")
    (tmp_path / "a.bin").write_bytes(twin.tobytes())
    blocks = [
        {"file": 0, "offset": 32 * t + 16 * y, "origin": [t, 2 * y, 0], "shape": [1, 2, 4]}
        for t in range(6)
        for y in (0, 1)
    ]
    document = {
        "vfs": 1,
        "dtype": "<u2",
        "shape": [6, 3, 4],
        "files": ["a.bin"],
        "stored_shape": [1, 2, 4],
        "blocks": blocks,
    }
    for block in blocks[1::2]:
        block["shape"] = [1, 1, 4]
    path = write(tmp_path, document)
    group = vfs.open_group(path, nav_shape=(2, 2), sync_offset=1, chunks=(1, 1, 3, 4))
    same(group.main[...], twin[1:5, :3].reshape(2, 2, 3, 4))
    assert again(group, tmp_path)[0]["options"] == {"nav_shape": [2, 2], "sync_offset": 1, "chunks": [1, 1, 3, 4]}
    again(group, tmp_path, explicit=True)


@pytest.mark.parametrize("fill", [math.nan, math.inf, -math.inf, 2.5])
def test_fill_values_and_attributes_that_json_does_not_have(tmp_path: Path, fill: float) -> None:
    (tmp_path / "a.bin").write_bytes(bytes(8))
    block = {"file": 0, "offset": 0, "origin": [0, 0], "shape": [1, 2]}
    said = {math.inf: "Infinity", -math.inf: "-Infinity"}.get(fill, "NaN" if math.isnan(fill) else fill)
    for dtype, value in (("<f4", said), ("<c8", [said, 1])):
        document = {
            "vfs": 1,
            "dtype": dtype,
            "shape": [2, 2],
            "files": ["a.bin"],
            "fill_value": value,
            "attributes": {"x": 1e999},
        }
        wide = {"shape": [1, 1]} if dtype == "<c8" else {}
        both(vfs.open_group(write(tmp_path, document | {"blocks": [block | wide]})), tmp_path)


def test_several_arrays(tmp_path: Path) -> None:
    for name in ("a.bin", "b.bin"):
        (tmp_path / name).write_bytes(FRAMES.tobytes())
    one = {"dtype": "<u2", "shape": [12, 4, 5], "frames": {}}
    flat = {
        "dtype": "<u2",
        "shape": [240],
        "sig_ndim": 0,
        "frames": {},
        "companion": True,
        "conventions": {"units": "s"},
    }
    shared = {
        "vfs": 1,
        "files": ["a.bin"],
        "group_attributes": {"ome": {"x": 1}},
        "arrays": {"data": one, "in/flat": flat},
    }
    described = both(vfs.open_group(write(tmp_path, shared)), tmp_path)
    assert described["files"] == ["a.bin"]
    assert described["group_attributes"] == {"ome": {"x": 1}}
    assert described["arrays"]["in/flat"]["companion"] is True
    own = {"vfs": 1, "files": ["a.bin"], "arrays": {"data": one, "other": one | {"files": ["b.bin"]}}}
    described = both(vfs.open_group(write(tmp_path, own)), tmp_path)
    assert described["arrays"]["other"]["files"] == ["b.bin"]


def test_what_the_short_form_keeps(tmp_path: Path) -> None:
    write_npy(tmp_path, FRAMES, name="a.npy")
    write_npy(tmp_path, np.ones((4, 5)), name="dark.npy")
    group = vfs.open_group(
        tmp_path / "a.npy",
        dark=str(tmp_path / "dark.npy"),
        gain=np.full((4, 5), 2.0),
        dead=[[1, 1]],
        dtype=np.float64,
        backend="buffered",
        sig_ndim=2,
    )
    described, found = again(group, tmp_path)
    assert described["files"] == ["a.npy"]
    assert described["options"] == {
        "backend": "buffered",
        "dark": "dark.npy",
        "dead": [[1, 1]],
        "dtype": "<f8",
        "gain": [[2.0] * 5] * 4,
        "sig_ndim": 2,
    }
    assert describe(set_of(found), tmp_path) == described  # of a set that was opened by a description: the same
    with pytest.raises(OptionError, match="an array that is converted"):
        describe(set_of(group), tmp_path, explicit=True)
    big = np.ones((300, 300))
    write_npy(tmp_path, np.ones((2, 300, 300), "u2"), name="big.npy")
    with pytest.raises(
        OptionError, match=r"gain: 90,000 numbers are too many for a description; save them beside the files"
    ):
        describe(set_of(vfs.open_group(tmp_path / "big.npy", gain=big)), tmp_path)


def test_names_of_files(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_npy(tmp_path / "in", FRAMES, name="a.npy")
    group = vfs.open_group(tmp_path / "in" / "a.npy")
    assert describe(set_of(group))["files"] == ["a.npy"]  # by default for the folder of the files
    assert describe(set_of(group), tmp_path)["files"] == ["in/a.npy"]
    other = tmp_path / "other"
    other.mkdir()
    for explicit in (False, True):
        with pytest.raises(OptionError, match=r"a.npy lies outside of .*other: write the description beside its files"):
            describe(set_of(group), other, explicit=explicit)
        again(group, other, explicit=explicit, follow_outside=True)
    link(tmp_path / "in" / "a.npy", other / "link.npy")
    with pytest.raises(OptionError, match="lies outside"):
        describe(set_of(vfs.open_group(other / "link.npy")), other)


def test_too_many_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ENTRIES", 3)
    (tmp_path / "a.bin").write_bytes(FRAMES.tobytes())
    blocks = [{"file": 0, "offset": 40 * t, "origin": [t, 0, 0], "shape": [1, 4, 5]} for t in range(4)]
    group = vfs.open_group(
        write(tmp_path, {"vfs": 1, "dtype": "<u2", "shape": [4, 4, 5], "files": ["a.bin"], "blocks": blocks})
    )
    with pytest.raises(OptionError, match="data: 4 blocks are too many for an explicit description"):
        describe(set_of(group), tmp_path, explicit=True)
    array = vfs.open_group(tmp_path / "a.bin", format="raw", dtype="<u2", sig_shape="4,5", roi=[3, 2, 1, 0])
    with pytest.raises(OptionError, match="data: frames in 4 places are too many"):
        describe(set_of(array), tmp_path, explicit=True)


def real_files() -> list[Path]:
    """Naming files of real sets, at most 64 MiB each."""
    known = (
        ".npy",
        ".hdr",
        ".mib",
        ".mrc",
        ".ser",
        ".blo",
        ".tvips",
        ".seq",
        ".tif",
        ".tiff",
        ".h5",
        ".hdf5",
        ".dm3",
        ".dm4",
        ".xml",
    )
    return [
        path
        for path in sorted(SHARED.rglob("*"))
        if path.suffix.lower() in known and path.is_file() and path.stat().st_size < 64 << 20
    ]


def explains(group: vfs.VirtualGroup, folder: Path) -> bool:
    """True where there is an explicit form; else the error names the other one."""
    try:
        describe(set_of(group), folder, explicit=True, follow_outside=True)
    except OptionError as error:
        if "only the short" not in str(error):
            raise
        return False
    return True


@pytest.mark.filterwarnings("ignore::vfs.IncompleteWarning")  # some were stopped
def test_real_files(tmp_path: Path) -> None:
    """Whatever opens can be described; where it says so, only in the short form."""
    if not SHARED.exists():
        pytest.skip(f"no real files here ({SHARED} is missing)")
    explicit = 0
    for path in real_files():
        try:
            group = vfs.open_group(path)
        except vfs.VfsError:
            continue
        if sum(array.nbytes for array in group.values()) > 64 << 20:
            continue
        again(group, tmp_path, follow_outside=True)
        if explains(group, tmp_path):
            again(group, tmp_path, explicit=True, follow_outside=True)
            explicit += 1
    assert explicit > 0


def test_a_description_of_an_incomplete_set_says_so(tmp_path: Path) -> None:
    path = write_mib(tmp_path, np.ones((12, 4, 4), np.uint16), frames_per_file=4, scan=(3, 4))
    (tmp_path / "scan002.mib").unlink()
    with pytest.warns(vfs.IncompleteWarning):
        group = vfs.open_group(path, allow_incomplete=True, array="data")
    said = tmp_path / "kept.vfs.json"
    said.write_text(json.dumps(describe(set_of(group), tmp_path, explicit=True)))
    with pytest.warns(
        vfs.IncompleteWarning, match="was written of a set that is incomplete: files missing 1, frames missing 4"
    ):
        again = vfs.open_group(said)
    assert again.attrs["vfs"]["incomplete"] == {"files_missing": 1, "frames_missing": 4}
    np.testing.assert_array_equal(again.main.valid, group.main.valid)
