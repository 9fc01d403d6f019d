"""Oxford's .ebsp: what is peculiar to it. Every version, the table of places, holes, the shape of the map."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vfs
from tests.formats.frame_checks import check_boxes, frames_of, incomplete, opens_incomplete, refuses, same, warned
from vfs.testing.backscatter_writers import write_ebsp


@pytest.mark.parametrize("version", range(1, 8))
@pytest.mark.parametrize("dtype", ["u1", "u2"])
def test_every_version(tmp_path: Path, version: int, dtype: str) -> None:
    twin = frames_of((3, 4, 5, 6), dtype)
    path = write_ebsp(tmp_path, twin, version=version)
    check_boxes(path, twin, count=5)
    group = vfs.open_group(path)
    assert group["data"].attrs["version"] == version
    step = {"scale": 1.5, "offset": 0.0, "unit": "um"}
    assert group["data"].calibration == {"scan_y": step, "scan_x": step}
    y, x = np.mgrid[:3, :4]
    same(group["beam_x"][...], x * 1.5)
    same(group["beam_y"][...], y * 1.5)
    assert ("map_x" in group) == (version > 4)
    if version > 4:
        same(group["map_x"][...], x.astype("i4"))
        same(group["map_y"][...], y.astype("i4"))


@pytest.mark.parametrize("dtype", ["u1", "u2"])
def test_the_first_version_has_no_beam_positions(tmp_path: Path, dtype: str) -> None:
    twin = frames_of((3, 4, 5, 6), dtype)
    group = vfs.open_group(write_ebsp(tmp_path, twin, version=0))
    assert [*group] == ["data"]
    assert group.main.dims == ("frame", "y", "x")
    same(group.main[...], twin.reshape(12, 5, 6))


def test_patterns_are_where_the_table_says(tmp_path: Path) -> None:
    twin = frames_of((5, 6, 4, 4), "u1")
    order = np.random.default_rng(3).permutation(30)
    check_boxes(write_ebsp(tmp_path, twin, order=order.tolist()), twin, count=20)


@pytest.mark.parametrize("left_out", [{0}, {29}, {0, 1, 6, 12, 13, 29}, set(range(6, 12))])
def test_positions_without_a_pattern_are_blank(tmp_path: Path, left_out: set[int]) -> None:
    twin = frames_of((5, 6, 4, 4), "u1") | 1
    path = write_ebsp(tmp_path, twin, order=[k for k in range(30) if k not in left_out])
    twin.reshape(30, 16)[list(left_out)] = 0
    words = f"{len(left_out)} of 30 positions of the map"
    group = opens_incomplete(path, "map.ebsp", words, counts={"frames_missing": len(left_out)})
    same(group.main[...], twin)
    same(group.main.valid, twin[:, :, 0, 0] > 0)


@pytest.mark.parametrize(("shape", "dims"), [((1, 7), ("scan_x",)), ((7, 1), ("frame",)), ((1, 1), ("frame",))])
def test_maps_without_rows(tmp_path: Path, shape: tuple[int, int], dims: tuple[str, ...]) -> None:
    twin = frames_of((*shape, 4, 4), "u1")
    array = vfs.open(write_ebsp(tmp_path, twin))
    assert array.dims == (*dims, "y", "x")
    same(array[...], twin.reshape(-1, 4, 4))


def test_beams_that_form_no_grid_are_one_axis(tmp_path: Path) -> None:
    twin = frames_of((3, 4, 4, 4), "u1")
    same(vfs.open(write_ebsp(tmp_path, twin, beams=False))[...], twin.reshape(12, 4, 4))
    path = write_ebsp(tmp_path, twin, version=1)
    whole = path.read_bytes()
    for beam in (np.nan, np.inf, 1e300, -7.3):
        path.write_bytes(whole[:-8] + np.float64(beam).tobytes())  # of the first position, which is stored last
        same(vfs.open(path)[...], twin.reshape(12, 4, 4))


@pytest.mark.parametrize("version", [2, 3, 4, 6])
@pytest.mark.parametrize(
    "lone", [{5: (False, False)}, {0: (True, False), 19: (False, True)}, dict.fromkeys(range(1, 19), (False, True))]
)
def test_beams_of_patterns_without_a_position_are_blank(
    tmp_path: Path, version: int, lone: dict[int, tuple[bool, bool]]
) -> None:
    twin = frames_of((4, 5, 5, 6), "u2")
    path = write_ebsp(tmp_path, twin, version=version, lone=lone, order=range(20))
    has = np.array([lone.get(k, (True, True)) for k in range(20)])
    with pytest.warns(vfs.IncompleteWarning, match=f"{(~has).sum(axis=0).max()} of 20 patterns have no beam_"):
        group = vfs.open_group(path)
    same(group.main[...].reshape(twin.shape), twin)
    for name, values, there in zip(("beam_x", "beam_y"), np.mgrid[:4, :5][::-1] * 1.5, has.T, strict=True):
        same(group[name][...].reshape(-1), np.where(there, values.reshape(-1), 0))
        same(group[name].valid.reshape(-1), there)


@pytest.mark.parametrize("version", [1, 2, 6])
@pytest.mark.parametrize("shape", [(4, 5), (9, 2), (2, 9)])
@pytest.mark.parametrize(("step", "turned"), [((2.0, 1.0), 0.0), ((0.1, 2.5), 0.0), (0.75, 0.0105), ((0.2, 0.1), -1.2)])
def test_steps_of_rows_and_columns_and_turned_scans(
    tmp_path: Path, version: int, shape: tuple[int, int], step: float | tuple[float, float], turned: float
) -> None:
    twin = frames_of((*shape, 3, 4), "u1")
    array = vfs.open(write_ebsp(tmp_path, twin, version=version, step=step, turned=turned))
    same(array[...], twin)
    rows, columns = step if isinstance(step, tuple) else (step, step)
    assert array.calibration["scan_y"] == {"scale": rows, "offset": 0.0, "unit": "um"}
    assert array.calibration["scan_x"] == {"scale": columns, "offset": 0.0, "unit": "um"}


def test_columns_and_rows_of_version_5_need_no_beams(tmp_path: Path) -> None:
    twin = frames_of((3, 4, 4, 4), "u1")
    path = write_ebsp(tmp_path, twin, beams=False, version=5, order=[k for k in range(12) if k not in (0, 6, 11)])
    twin.reshape(12, 4, 4)[[0, 6, 11]] = 0
    array = warned(path, "3 of 12 positions of the map")
    same(array[...], twin)
    assert array.dims == ("scan_y", "scan_x", "y", "x")
    assert "calibration" not in array.attrs
    path.write_bytes(path.read_bytes().replace((1).to_bytes(4, "little") * 2, (3).to_bytes(4, "little") * 2))
    same(warned(path, "3 of 12 positions of the map")[...], twin.reshape(12, 4, 4))


def test_cut(tmp_path: Path) -> None:
    twin = frames_of((3, 4, 5, 6), "u2")
    path = write_ebsp(tmp_path, twin)
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])  # the end of the first position's pattern
    twin[0, 0] = 0
    same(incomplete(path, "1 of 12 patterns end beyond", "truncated", kind=vfs.TruncatedSourceError)[...], twin)
    path.write_bytes(whole[: 8 + 12 * 8 + 30])
    refuses(path, "map.ebsp", "truncated", kind=vfs.TruncatedSourceError)
    path.write_bytes(whole[:40])
    refuses(path, "map.ebsp", "table of the places")


def test_a_large_table(tmp_path: Path) -> None:
    """One that is read in pieces; most of its patterns follow one another."""
    twin = frames_of((300, 500, 1, 2), "u1")
    array = vfs.open(write_ebsp(tmp_path, twin, order=[*range(70_000, 150_000), *range(70_000)]))
    same(array[...], twin)
    assert len(array.read((slice(139, 142), slice(498, 500)))) == 3


@pytest.mark.parametrize(
    ("at", "value", "word"),
    [
        (0, (-65, "<i8"), "version"),
        (8, (-5, "<i8"), "found the place -5"),
        (8, (60, "<i8"), "found the place 60"),
        (8, (1 << 62, "<i8"), "found the place"),
        (48, (1 << 62, "<i8"), "1 of 12 patterns"),
        (104, (1, "<i4"), "compressed"),
        (104, (7, "<i4"), "8 or 16 bits"),
        (108, (-1, "<i4"), "-1 × 6 pixels"),
        (112, (1 << 30, "<i4"), "8 or 16 bits"),
        (116, (29, "<i4"), "29 bytes"),
        (104 + 16 + 30 + 18 + 4, (4, "<i4"), "as the first one"),
        (104 + 16 + 30, (7, "u1"), "expected 0 or 1 in front of beam_x"),
    ],
)
def test_garbled(tmp_path: Path, at: int, value: tuple[int, str], word: str) -> None:
    path = write_ebsp(tmp_path, frames_of((3, 4, 5, 6), "u1"), order=range(12))
    raw = bytearray(path.read_bytes())
    made = np.array(value[0], value[1]).tobytes()
    raw[at : at + len(made)] = made
    path.write_bytes(raw)
    refuses(path, "map.ebsp", word)


def test_refused(tmp_path: Path) -> None:
    path = write_ebsp(tmp_path, frames_of((3, 4, 5, 6), "u1"))
    path.write_bytes(bytes(1 << 20))
    refuses(path, "map.ebsp", "found none")


def test_positions_that_share_a_pattern_are_told(tmp_path: Path) -> None:
    twin = frames_of((2, 3, 5, 6), "u1")
    path = write_ebsp(tmp_path, twin, beams=False)
    raw = bytearray(path.read_bytes())
    raw[8 + 8 * 4 : 8 + 8 * 5] = raw[8 + 8 * 3 : 8 + 8 * 4]
    path.write_bytes(raw)
    array = warned(path, "1 of 6 positions of the map show the same pattern as another one")
    same(array[3:5], twin.reshape(6, 5, 6)[[3, 3]])
