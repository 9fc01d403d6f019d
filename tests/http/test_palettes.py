"""Pixels that are indices into a palette: the array has the indices, pictures have the colours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.formats.frame_checks import same
from vfs.page.views import described, picture
from vfs.pictures.frames import FrameView, look
from vfs.testing.tiff_writers import write_tiff

tifffile = pytest.importorskip("tifffile")

INDICES = (np.arange(2 * 12 * 16).reshape(2, 12, 16) * 7 % 256).astype("u1")
PALETTE = np.random.default_rng(1).integers(0, 1 << 16, (3, 256))
EIGHT = (PALETTE >> 8).T.astype("u1")


def tags(palette: np.ndarray) -> dict[int, tuple[int, list[int], int]]:
    return {262: (3, [3], 1), 320: (3, palette.reshape(-1).tolist(), palette.size)}


def opened(folder: Path, palette: np.ndarray = PALETTE, order: Any = "<") -> vfs.VirtualArray:
    return vfs.open(write_tiff(folder / "a.tif", list(INDICES), order=order, tags=tags(palette)))


@pytest.mark.parametrize("order", ["<", ">"])
def test_pictures_have_the_colours(tmp_path: Path, order: Any) -> None:
    array = opened(tmp_path, order=order)
    same(array[...], INDICES)
    assert array.attrs["colour_map"][3] == bytes(EIGHT[3]).hex()
    reader = array._reader
    shown, side = picture(reader, [1], 512)
    same(shown, EIGHT[INDICES[1]])
    assert (side, described("data", reader, True)["shown"]) == (1, 3)
    half, side = picture(reader, [1], 8)  # means of colours, not of indices
    means = EIGHT[INDICES[1]].reshape(6, 2, 8, 2, 3).mean((1, 3))
    assert side == 2
    np.testing.assert_allclose(half, means, atol=0.5)
    view = FrameView.of(reader)
    seen = look(view, (0,), 100, 100)
    np.testing.assert_array_equal(seen.picture, EIGHT[INDICES[0]])
    assert (seen.low, seen.high) == (INDICES[0].min(), INDICES[0].max())  # figures are those of the array
    same(view.coloured(np.array([-1.0, 300.0, np.nan])), EIGHT[[0, 255, 0]])


def test_patterns_of_a_scan_are_numbers(tmp_path: Path) -> None:
    """Detectors are for numbers: a program gave these patterns its colours."""
    opened(tmp_path)
    array = vfs.open(tmp_path / "a.tif", nav_shape=(1, 2))
    assert array.attrs["colour_map"]
    same(picture(array._reader, [0, 1], 512)[0], INDICES[1])
    assert described("data", array._reader, True)["shown"] == 2
    assert vfs.export(array, tmp_path / "a.html") > 0


def test_palettes_that_were_written_with_8_bits(tmp_path: Path) -> None:
    array = opened(tmp_path, PALETTE >> 8)
    same(picture(array._reader, [0], 512)[0], EIGHT[INDICES[0]])


def test_greys_are_numbers(tmp_path: Path) -> None:
    array = opened(tmp_path, np.tile(np.arange(256) * 257, (3, 1)))
    same(picture(array._reader, [0], 512)[0], INDICES[0])


def test_pages_of_other_palettes_have_none(tmp_path: Path) -> None:
    """One attribute cannot say both; the indices are right."""
    paths = []
    for k, palette in enumerate((PALETTE, PALETTE[::-1])):
        paths.append(write_tiff(tmp_path / f"a{k}.tif", [INDICES[k]], tags=tags(palette)))
    array = vfs.open(paths)
    same(array[...], INDICES)
    assert "colour_map" not in array.attrs
    assert vfs.open(paths[1]).attrs["colour_map"][0] == bytes(EIGHT[0, ::-1]).hex()


@pytest.mark.parametrize("numbers", [[1, 2], list(range(3 * 512)), []])
def test_palettes_that_are_none(tmp_path: Path, numbers: list[int]) -> None:
    path = write_tiff(tmp_path / "a.tif", list(INDICES), tags={262: (3, [3], 1), 320: (3, numbers, len(numbers))})
    array = vfs.open(path)
    same(array[...], INDICES)
    assert "colour_map" not in array.attrs
    same(picture(array._reader, [0], 512)[0], INDICES[0])


def test_ome(tmp_path: Path) -> None:
    path = tmp_path / "a.ome.tif"
    tifffile.imwrite(path, INDICES[0], photometric="palette", colormap=PALETTE.astype("u2"), ome=True)
    array = vfs.open(path)
    same(picture(array._reader, [0, 0, 0], 512)[0], EIGHT[INDICES[0]])


@pytest.mark.parametrize("said", ["red", ["red"], [1, 2], [], ["ffffff"] * 300, {"0": "ffffff"}])
def test_attributes_of_that_name_that_are_no_colours(tmp_path: Path, said: Any) -> None:
    (tmp_path / "a.bin").write_bytes(INDICES[0].tobytes())
    about = {"vfs": 1, "dtype": "u1", "shape": [12, 16], "files": ["a.bin"], "attributes": {"colour_map": said}}
    about["blocks"] = [{"file": 0, "offset": 0, "origin": [0, 0], "shape": [12, 16]}]
    (tmp_path / "a.vfs.json").write_text(json.dumps(about))
    array = vfs.open(tmp_path / "a.vfs.json")
    assert array.attrs["colour_map"] == said
    same(picture(array._reader, [], 512)[0], INDICES[0])
