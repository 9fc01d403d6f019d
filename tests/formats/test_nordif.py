"""NORDIF: what is peculiar to it. Which file names the set, bitmaps beside it, maps that were stopped."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vfs
from tests.conftest import SHARED
from tests.formats.frame_checks import check_boxes, frames_of, opens_incomplete, refuses, same, warned
from vfs.testing.backscatter_writers import write_bitmap, write_nordif

TWIN = frames_of((3, 4, 5, 6), "u1")


def test_either_file_names_the_set(tmp_path: Path) -> None:
    path = write_nordif(tmp_path, TWIN)
    check_boxes(path, TWIN, count=10)
    for named in (tmp_path / "Pattern.dat", [path, tmp_path / "Pattern.dat"], [tmp_path / "Pattern.dat", path]):
        same(vfs.open(named)[...], TWIN)
    array = vfs.open(path)
    assert array.dims == ("scan_y", "scan_x", "y", "x")
    assert array.calibration["scan_x"] == {"scale": 1.5, "offset": 0.0, "unit": "um"}
    assert array.attrs["settings"]["Microscope"]["Tilt angle"] == "70"
    refuses([path, path], "one at a time", kind=vfs.OptionError)


def test_bitmaps_are_companions(tmp_path: Path) -> None:
    points = {(10, 20): frames_of((5, 7), "u1", 1), (30, 5): frames_of((5, 7), "u1", 2)}
    backgrounds = {"acquisition": frames_of((5, 6), "u1", 3), "calibration": frames_of((4, 8), "u1", 4)}
    path = write_nordif(tmp_path, TWIN, points=points, backgrounds=backgrounds)
    group = vfs.open_group(path)
    same(group["calibration"][...], np.stack([*points.values()]))
    assert group["calibration"].attrs["points"] == [{"x": 10, "y": 20}, {"x": 30, "y": 5}]
    same(group["background"][...], backgrounds["acquisition"])
    same(group["calibration_background"][...], backgrounds["calibration"])
    write_bitmap(tmp_path / "Background acquisition pattern.bmp", backgrounds["acquisition"], upright=True)
    same(vfs.open_group(path)["background"][...], backgrounds["acquisition"])
    same(
        vfs.open(path, nav_shape=(4, 3), dark="background").read(),
        vfs.open(path, nav_shape=(4, 3)).read().astype("f4") - backgrounds["acquisition"],
    )


def test_the_static_background_beside_the_patterns_is_taken_away(tmp_path: Path) -> None:
    def cleaned(path: Path, **options: object) -> np.ndarray:
        made = vfs.open(path, **options).reduce(p=vfs.WithoutBackground("subtract", dtype="f8"))
        return np.asarray(made["p"].data)

    image = frames_of((5, 6), "u1", 3)
    for name in ("own", "none", "other"):
        (tmp_path / name).mkdir()
    path = write_nordif(tmp_path / "own", TWIN, backgrounds={"acquisition": image})
    same(cleaned(path), TWIN - image.astype("f8"))
    same(cleaned(path, axes="scan_y,scan_x|-y,x"), (TWIN - image.astype("f8"))[..., ::-1, :])
    derived = vfs.open_group(path, derive={"p": vfs.WithoutBackground("divide", dtype="f8")})["derived/p"]
    assert np.isfinite(derived[...]).any()
    np.testing.assert_array_equal(derived[...], np.where(image == 0, np.nan, TWIN / image.astype("f8")))
    for name, backgrounds in (("none", {}), ("other", {"acquisition": image[:4], "calibration": image})):
        path = write_nordif(tmp_path / name, TWIN, backgrounds=backgrounds)
        np.testing.assert_allclose(cleaned(path), TWIN - TWIN.mean(axis=(0, 1)))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda bitmap: bitmap.unlink(), ["(30,5).bmp", "calibration is not shown"]),
        (lambda bitmap: bitmap.write_bytes(b"BM" + bytes(60)), ["(30,5).bmp", "8 bits a pixel"]),
        (lambda bitmap: bitmap.write_bytes(bitmap.read_bytes()[:-1]), ["do not fit into its"]),
        (lambda bitmap: write_bitmap(bitmap, np.zeros((6, 6), "u1")), ["expected a bitmap of (5, 7) pixels"]),
    ],
)
def test_damaged_bitmaps_do_not_block_patterns(tmp_path: Path, change: object, words: list[str]) -> None:
    points = {(10, 20): frames_of((5, 7), "u1", 1), (30, 5): frames_of((5, 7), "u1", 2)}
    path = write_nordif(tmp_path, TWIN, points=points)
    change(tmp_path / "Calibration (30,5).bmp")  # type: ignore[operator]
    array = warned(path, *words)
    same(array[...], TWIN)
    assert "calibration" not in array.group


def test_maps_that_do_not_fit(tmp_path: Path) -> None:
    path = write_nordif(tmp_path, TWIN, map_shape=(4, 4))
    (tmp_path / "Pattern.dat").write_bytes(TWIN.tobytes()[:-7])
    found = opens_incomplete(
        path,
        "Pattern.dat",
        "11 of 16 patterns are stored",
        "23 bytes",
        counts={"frames_missing": 5, "bytes_left_over": 23},
    )
    same(found.main[:2], TWIN[:2])
    same(found.main[3], np.zeros((4, 5, 6), "u1"))
    path = write_nordif(tmp_path, TWIN, map_shape=(3, 3))
    opens_incomplete(path, "3 are not shown", "line_skip=1", counts={"frames_left_out": 3})
    same(vfs.open(path, line_skip=1)[...], TWIN[:, :3])


def test_refused(tmp_path: Path) -> None:
    path = write_nordif(tmp_path, TWIN)
    text = path.read_bytes()
    for old, new, word in (
        (b"6x5", b"6x0", "two numbers for Resolution in [Acquisition settings]"),
        (b"6x5", b"999999x999999", "truncated"),
        (b"3x4", b"many", "two numbers for Number of samples in [Area]"),
        (b"[Area]", b"[Arena]", "Number of samples in [Area]"),
    ):
        path.write_bytes(text.replace(old, new))
        refuses(path, "Setting.txt", word)
    path.write_bytes(text.replace(b"3x4", b"999999x999999"))
    with pytest.warns(vfs.IncompleteWarning, match="999,999 × 999,999"):
        assert vfs.open(path).shape == (999999, 999999, 5, 6)
    path.write_bytes(text)
    (tmp_path / "Pattern.dat").unlink()
    refuses(path, "Pattern.dat: no such file", kind=vfs.MissingSourceError)


def test_real_file() -> None:
    if not SHARED.exists():
        pytest.skip("no real files here")
    folder = SHARED / "raw/nordif_pattern"
    with pytest.warns(vfs.IncompleteWarning, match=r"Calibration \(425,447\)"):  # only the patterns are there
        array = vfs.open(folder / "Setting.txt")
    same(array[...], np.fromfile(folder / "Pattern.dat", "u1").reshape(3, 3, 60, 60))
