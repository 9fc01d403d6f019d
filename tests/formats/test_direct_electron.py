"""Movies of Direct Electron's server: each frame at its position in the scan, as the files beside the movie say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.conftest import SHARED
from tests.formats.frame_checks import frames_of, incomplete, refuses, same, warned
from vfs.testing.frame_writers import write_seq
from vfs.testing.stack_writers import write_mrc

SCAN = {"Scan - Enable": "Enable", "Scan - ROI Enable": "Disable", "Scan - Size X": 4, "Scan - Size Y": 3}
DETECTOR = (4, 6)


def movie(
    folder: Path, twin: np.ndarray, info: Mapping[str, Any], listed: np.ndarray | str | None = None, kind: str = "mrc"
) -> Path:
    """Write a movie and the files beside it; `listed`: [n, 2] x and y of each frame."""
    (folder / "run_info.txt").write_text("".join(f"{key:<40}= {value}\n" for key, value in info.items()))
    if listed is not None:
        text = listed if isinstance(listed, str) else "".join(f"{x},{y}\n" for x, y in listed)
        (folder / "run_scan_coordinates.csv").write_text(text)
    if kind == "seq":
        return write_seq(folder, twin, name="run_movie.seq")
    return write_mrc(folder, twin, 6, ispg=1, name="run_movie.mrc")


def opened(path: Path, **options: Any) -> vfs.VirtualArray:
    return vfs.open(path, **options)


@pytest.mark.parametrize("kind", ["mrc", "seq"])
@pytest.mark.parametrize("pattern", ["Random", "XY File", "Hilbert Curve", "Raster"])
def test_listed_positions(tmp_path: Path, pattern: str, kind: str) -> None:
    """Line k is x, y of frame k."""
    x, y = np.random.default_rng(1).permutation(np.mgrid[:4, :3].reshape(2, -1).T).T
    twin = frames_of((12, *DETECTOR), "u2")
    path = movie(tmp_path, twin, SCAN | {"Scan - Type": pattern}, np.stack([x, y], axis=1), kind)
    shown = np.empty((3, 4, *DETECTOR), "u2")
    shown[y, x] = twin
    array = opened(path)
    assert array.dims == ("scan_y", "scan_x", "y", "x")
    assert array.attrs["scan_order"] == "positions in run_scan_coordinates.csv"
    same(array[...], shown)
    same(array[1:, ::2, 1, ::-1], shown[1:, ::2, 1, ::-1])
    same(np.asarray(array.zarr()[...]), shown)
    same(opened(path, nav_shape=(3, 4))[...], shown)
    same(opened(path, nav_shape=12)[...], twin)  # another scan: as they were recorded
    same(opened(path, nav_shape=(2, 6), sync_offset=-1)[0, 1], twin[0])
    same(opened(path, roi=[11, 0])[...], shown.reshape(12, *DETECTOR)[[11, 0]])
    same(opened(path, roi=np.eye(3, 4, dtype=bool))[...], shown[np.arange(3), np.arange(3)])
    found = array.reduce(pixel=vfs.Masks(np.eye(24)[:1].reshape(1, *DETECTOR)), most=vfs.Max())
    same(found["pixel"].data[..., 0].astype("u2"), shown[..., 0, 0])
    some = array.reduce(roi=[7, 2], pixel=vfs.Masks(np.eye(24)[:1].reshape(1, *DETECTOR)))
    assert some["pixel"].data.ravel()[[2, 7]].tolist() == shown[..., 0, 0].ravel()[[2, 7]].tolist()
    with pytest.raises(vfs.OptionError, match="the files say the scan position of each frame"):
        opened(path, line_skip=1)


def test_positions_beyond_the_scan_are_said(tmp_path: Path) -> None:
    """Such as those that count from 1. A mark of UTF-8 is no number."""
    twin = frames_of((12, *DETECTOR), "u2")
    x, y = np.mgrid[:4, :3].reshape(2, -1)
    lines = "\ufeff" + "".join(f"{a},{b}\r\n" for a, b in zip(x + 1, y + 1, strict=True))
    path = movie(tmp_path, twin, SCAN | {"Scan - Type": "Random"}, lines)
    shown = warned(path, "its positions reach 4 × 5, the _info.txt says a scan of 3 × 4")[...]
    same(shown[1:, 1:], twin.reshape(4, 3, *DETECTOR).swapaxes(0, 1))


def test_a_part_that_is_scanned_at_random(tmp_path: Path) -> None:
    """Positions count from the corner of the part."""
    twin = frames_of((6, *DETECTOR), "u2")
    part = {"Scan - ROI Enable": "On", "Scan - ROI Size X": 2, "Scan - ROI Size Y": 3, "Scan - ROI Offset X": 1}
    info = SCAN | part | {"Scan - Type": "Raster", "Scan - ROI Type": "Random"}
    path = movie(tmp_path, twin, info, np.array([(1, 2), (0, 0), (1, 0), (0, 2), (1, 1), (0, 1)]))
    same(opened(path)[...], twin[[1, 2, 5, 4, 3, 0]].reshape(3, 2, *DETECTOR))


def test_positions_visited_again_and_never(tmp_path: Path) -> None:
    """All visits are shown, along a first axis; what was never visited is blank."""
    listed = np.array([(0, 0), (3, 0), (0, 2), (0, 0), (3, 0), (0, 0)])
    twin = frames_of((6, *DETECTOR), "u2") | 1
    array = opened(movie(tmp_path, twin, SCAN | {"Scan - Type": "XY File"}, listed))
    assert array.dims == ("t", "scan_y", "scan_x", "y", "x")
    shown = np.zeros((3, 3, 4, *DETECTOR), "u2")
    for t, y, x, frame in ((0, 0, 0, 0), (0, 0, 3, 1), (0, 2, 0, 2), (1, 0, 0, 3), (1, 0, 3, 4), (2, 0, 0, 5)):
        shown[t, y, x] = twin[frame]
    same(array[...], shown)
    same(array.valid, shown.any(axis=(-2, -1)))
    assert array.attrs["scan_order"].endswith("30 of 36 were not visited")


@pytest.mark.parametrize("repeats", [1, 2])
@pytest.mark.parametrize("each", [1, 2])
@pytest.mark.parametrize("pattern", ["Raster", "Serpentine", "Random"])
def test_repeats_and_frames_a_point(tmp_path: Path, pattern: str, each: int, repeats: int) -> None:
    places = np.arange(12).reshape(3, 4)
    if pattern == "Serpentine":
        places[1] = places[1, ::-1].copy()
    if pattern == "Random":
        places = np.random.default_rng(3).permutation(12)
    twin = frames_of((12 * repeats * each, *DETECTOR), "u2")
    info = SCAN | {"Scan - Type": pattern, "Scan - Repeats": repeats, "Scan - Camera Frames Per Point": each}
    listed = np.stack(np.divmod(places.ravel(), 4)[::-1], axis=1) if pattern == "Random" else None
    if pattern == "Random" and repeats * each == 4:
        listed = np.tile(listed, (2, 1))  # the list goes on through the repeats
    array = opened(movie(tmp_path, twin, info, listed))
    shown = np.empty((repeats, 12, each, *DETECTOR), "u2")
    shown[:, places.ravel()] = twin.reshape(shown.shape)
    shape = (*(repeats,) * (repeats > 1), 3, 4, *(each,) * (each > 1))
    same(array[...], shown.reshape(*shape, *DETECTOR))
    assert array.dims == (*("t",) * (repeats > 1), "scan_y", "scan_x", *("repeat",) * (each > 1), "y", "x")


@pytest.mark.parametrize(
    ("info", "said"),
    [
        ({"Scan - Type": "Random"}, "its scan is of type 'Random', and there is no run_scan_coordinates.csv beside it"),
        ({"Scan - ROI Enable": "On", "Scan - ROI Type": "Rectangular Spiral"}, "of type 'Rectangular Spiral'"),
        ({"Scan - Type": "Serpentine Interlaced"}, "of type 'Serpentine Interlaced'"),
        ({"Scan - Enable": "Disable", "Scan - Type": "Random"}, ""),
        ({"Scan - Enable": "Off"}, ""),
    ],
)
def test_frames_without_a_place_are_one_axis(tmp_path: Path, info: dict[str, Any], said: str) -> None:
    twin = frames_of((12, *DETECTOR), "u2")
    path = movie(tmp_path, twin, SCAN | info)
    array = warned(path, said, "the frames are one axis, in the order in which they were recorded") if said else None
    same((array or opened(path))[...], twin)
    same(opened(path, nav_shape=(3, 4))[...], twin.reshape(3, 4, *DETECTOR))  # nothing is left to say


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        ("0,0\nx,2\n", "run_scan_coordinates.csv: expected lines of two numbers, x,y"),
        ("0,0\n0,2,1\n", "expected lines of two numbers, x,y"),
        ("0,0,1\n0,2,1\n", "expected lines of two whole numbers, x,y"),
        ("0.5,0\n", "expected lines of two whole numbers, x,y"),
        ("-1,0\n", "expected positions from 0"),
        ("nan,0\n", "expected lines of two whole numbers, x,y"),
        ("1e300,0\n", "expected numbers of scan steps"),
        ("9000,9000\n0,0\n", "its 2 positions lie in a scan of 9001 × 9001"),
        ("", "expected positions from 0"),
    ],
)
def test_lists_that_are_none(tmp_path: Path, listed: str, said: str) -> None:
    twin = frames_of((12, *DETECTOR), "u2")
    same(warned(movie(tmp_path, twin, SCAN, listed), said, "the frames are one axis")[...], twin)


def test_stopped_and_surplus(tmp_path: Path) -> None:
    twin = frames_of((15, *DETECTOR), "u2")
    shown = np.concatenate([twin[:10], np.zeros((2, *DETECTOR), "u2")]).reshape(3, 4, *DETECTOR)
    same(warned(movie(tmp_path, twin[:10], SCAN), "says a scan of 3 × 4, 10 of 12 frames are stored")[...], shown)
    path = movie(tmp_path, twin, SCAN)
    warned(path, "15 frames are stored; 3 are not shown; that is 1 frame a line: line_skip=1 skips")
    same(opened(path, line_skip=1)[...], twin.reshape(3, 5, *DETECTOR)[:, :4])
    backwards = np.stack(np.divmod(np.arange(12)[::-1], 4)[::-1], axis=1)
    path = movie(tmp_path, twin[:10], SCAN, backwards)
    array = warned(path, "lists 12 positions", "has 10 frames: the others are blank")
    same(array[...], shown.reshape(12, *DETECTOR)[::-1].reshape(shown.shape))
    array = warned(movie(tmp_path, twin, SCAN, backwards), "15 frames: those without a position are not shown")
    same(array[...], twin[:12][::-1].reshape(shown.shape))
    assert array.group.attrs["vfs"]["incomplete"] == {"frames_left_out": 3}


def test_older_software_does_not_say_what_is_on(tmp_path: Path) -> None:
    twin = frames_of((6, *DETECTOR), "u2")
    array = opened(movie(tmp_path, twin, {"Scan - Size X": 3, "Scan - Size Y": 2, "Camera Name": "DESim"}))
    same(array[...], twin.reshape(2, 3, *DETECTOR))
    assert array.attrs["info"]["Camera Name"] == "DESim"
    sizes = {"Scan - Size X": 30, "Scan - Size Y": 20, "Scan - ROI Size X": 2, "Scan - ROI Size Y": 3}
    assert opened(movie(tmp_path, twin, sizes)).shape == (3, 2, *DETECTOR)
    for size, said in ((7, "says a scan of 7 × 7, 6 frames are stored: the frames are one axis"), (2, "of 2 × 2, 6")):
        array = warned(movie(tmp_path, twin, {"Scan - Size X": size, "Scan - Size Y": size}), said)
        assert array.dims == ("frame", "y", "x")
    summed = SCAN | {"Autosave Movie Sum Count": 2}
    same(warned(movie(tmp_path, twin, summed), "of 3 × 4, 6 frames are stored, 2 of which may be summed")[...], twin)


def test_a_packed_movie_knows_its_scan(tmp_path: Path) -> None:
    twin = frames_of((6, *DETECTOR), "u2")
    path = write_mrc(tmp_path, twin, 6, name="run_movie.mrc.gz")
    info = tmp_path / "run_info.txt"
    info.write_text("Scan - Size X = 3\nScan - Size Y = 2\n")
    same(opened(path, format="mrc")[...], twin.reshape(2, 3, *DETECTOR))
    info.write_text("Scan - Size X = 3\nScan - Size Y = 2\nScan - Type = Serpentine\n")
    turned = twin.reshape(2, 3, *DETECTOR).copy()
    turned[1] = turned[1, ::-1]
    same(opened(path, format="mrc")[...], turned)


def test_real_movies(oracle: dict[str, Any]) -> None:
    """A list visits 15 positions of 25 twice."""
    path = SHARED / oracle["mrc/de_Custom"]["files"][0]
    array, recorded = opened(path), opened(path, nav_shape=30)[...]
    assert array.shape == (2, 5, 5, 16, 16)
    x, y = np.loadtxt(path.with_name("Custom_scan_coordinates.csv"), delimiter=",", dtype=int).T
    same(array[...][np.repeat([0, 1], 15), y, x], recorded)
    assert array.valid.sum() == 30
    assert opened(SHARED / oracle["mrc/de_20241021_00405"]["files"][-1]).shape == (4, 8, 4, 8)


def test_files_beside_a_movie_may_be_named_with_it(tmp_path: Path) -> None:
    twin = frames_of((4, 5, 6), "u2")
    path = write_mrc(tmp_path, twin, 6, ispg=1, name="run_movie.mrc")
    (tmp_path / "run_info.txt").write_text("a = b")
    (tmp_path / "other_info.txt").write_text("a = b")
    same(vfs.open([path, tmp_path / "run_info.txt"])[...], twin)
    refuses([path, tmp_path / "other_info.txt"], "an MRC set is one file", kind=vfs.OptionError)


def test_movies_with_numbers_of_their_own(tmp_path: Path) -> None:
    """NAME_0_movie.mrc has NAME_info.txt and NAME_scan_coordinates.csv beside it, as the server writes them."""
    twin = frames_of((12, *DETECTOR), "u2")
    movie(tmp_path, twin, SCAN | {"Scan - Type": "Random"}, np.stack(np.divmod(np.arange(12)[::-1], 4)[::-1], axis=1))
    first, second = (tmp_path / "run_movie.mrc").rename(tmp_path / "run_0_movie.mrc"), tmp_path / "run_1_movie.mrc"
    same(opened(first)[...], twin[::-1].reshape(3, 4, *DETECTOR))
    second.write_bytes(first.read_bytes())
    same(warned(second, "is movie 1 of its acquisition", "the frames are one axis")[...], twin)
    (tmp_path / "run_1_info.txt").write_text("Scan - Size X = 6\nScan - Size Y = 2\nScan - Type = Serpentine\n")
    (tmp_path / "run_scan_coordinates.csv").unlink()
    assert opened(second).shape == (2, 6, *DETECTOR)


@pytest.mark.parametrize("kind", ["mrc", "seq"])
def test_an_info_of_another_run(tmp_path: Path, kind: str) -> None:
    """It says another size of images; a movie may be larger than what the server shows, which its software bins."""
    twin = frames_of((12, *DETECTOR), "u2")
    size = {"Image Size X (pixels)": 6, "Image Size Y (pixels)": 4}
    same(opened(movie(tmp_path, twin, SCAN | size, kind=kind))[...], twin.reshape(3, 4, *DETECTOR))
    other = {"Image Size X (pixels)": 3, "Image Size Y (pixels)": 2}
    said = "has images of 4 × 6 pixels, its _info.txt says 2 × 3: that belongs to another acquisition"
    array = incomplete(movie(tmp_path, twin, SCAN | other, kind=kind), said, kind=vfs.FormatError)
    same(array[...], twin.reshape(3, 4, *DETECTOR))
    binned = {"Autosave Movie Ignore Software Binning": "Enable"}
    same(opened(movie(tmp_path, twin, SCAN | other | binned, kind=kind))[...], twin.reshape(3, 4, *DETECTOR))
