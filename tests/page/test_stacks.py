"""The page of stacks: channels, projections along axes."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import pytest
import tifffile

import vfs
from tests.page.support import Browsed, download
from vfs.reduce.spelling import read
from vfs.testing.event_writers import write_eer

Browse = Callable[..., Browsed]
REDUCED: dict[str, Any] = {"max": np.max, "sum": np.sum, "mean": np.mean, "min": np.min, "std": np.std}
CHANNELS = {"DAPI": 0x0000FFFF, "GFP": 0x00FF00FF, "mCherry": 0xFF0000FF - 2**32}


@pytest.fixture(scope="module")
def cells() -> np.ndarray:
    """uint16[t, c, z, y, x]"""
    return np.random.default_rng(8).poisson(60, (2, 3, 7, 20, 26)).astype(np.uint16)


@pytest.fixture(scope="module")
def url(cells: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = tmp_path_factory.mktemp("stacks") / "cells.ome.tif"
    said: dict[str, Any] = {"axes": "TCZYX", "Channel": {"Name": list(CHANNELS), "Color": list(CHANNELS.values())}}
    tifffile.imwrite(path, cells, photometric="minisblack", metadata=said)
    with vfs.serve(path, port=0) as server:
        yield server.url


def opened(browse: Browse, url: str, view: str = "") -> Browsed:
    page = browse(url).open(view)
    page.wait("window.vfs && vfs.frame.status === 'exact'")
    return page


def test_projections_along_axes(browse: Browse, url: str, cells: np.ndarray) -> None:
    page = opened(browse, url, "at=1,2,3")
    for how, made in REDUCED.items():
        if how == "max":
            page.press("j")
        else:
            page.named("combobox", "Projection").select_option(how)
        page.wait(f"vfs.frame.caption.startsWith({vfs_word(how)!r}) && vfs.frame.status === 'exact'")
        np.testing.assert_allclose(page.numbers("frame"), made(cells[1, 2].astype(float), axis=0), rtol=1e-12)
    page.named("combobox", "Projection").select_option("max")
    first, last = (page.named("spinbutton", f"z: {end} that is projected") for end in ("first", "last"))
    first.fill("2")
    last.fill("4")
    last.press("Enter")
    page.wait("vfs.frame.caption === 'maximum along z 2 to 4; t 1, c 2' && vfs.frame.status === 'exact'")
    assert np.array_equal(page.numbers("frame"), cells[1, 2, 2:5].max(axis=0))
    page.screenshot("projection")
    names: dict[str, np.ndarray] = {}
    exec(page.text_of("Frame", "Python that makes it"), names)
    assert np.array_equal(names["frame"], page.numbers("frame"))
    command = page.text_of("Frame", "Command that reduces all to a file")
    text = next(word for word in command.split("'") if word.startswith("max="))
    assert read(text)[1] == vfs.Max(over={"z": slice(2, 5)})
    page.named("button", "Project along t").click()
    page.wait("vfs.frame.caption === 'maximum along z 2 to 4 and t; c 2' && vfs.frame.status === 'exact'")
    assert np.array_equal(page.numbers("frame"), cells[:, 2, 2:5].max(axis=(0, 1)))
    page.wait("location.hash.includes('5,t)')")
    page = opened(browse, url, page.page.evaluate("() => location.hash.slice(1)"))
    page.wait("vfs.frame.caption === 'maximum along z 2 to 4 and t; c 2'")
    page.press("j")
    page.wait("vfs.frame.caption === 't 1, c 2, z 3' && vfs.frame.status === 'exact'")
    assert np.array_equal(page.numbers("frame"), cells[1, 2, 3])


def test_channels_begin_as_the_face_says_and_stay_colours_from_all_sides(
    browse: Browse, url: str, cells: np.ndarray
) -> None:
    page = opened(browse, url)
    with urlopen(f"{url}cells.ome.zarr/zarr.json") as told:
        said = json.load(told)["attributes"]["ome"]["omero"]
    assert page.state("at") == [0, 0, said["rdefs"]["defaultZ"]] == [0, 0, 3]
    windows = [(one["window"]["start"], one["window"]["end"]) for one in said["channels"]]
    page.wait("vfs.frame.contrast.mode === 'never'")
    assert page.page.evaluate("() => [vfs.frame.contrast.lo, vfs.frame.contrast.hi]") == list(windows[0])
    assert not page.named("slider", "c").is_visible()
    page.press("ArrowUp")
    page.wait("String(vfs.state.at) === '0,0,3'")  # along t, from its first
    page.press("ArrowDown")
    page.wait("String(vfs.state.at) === '1,0,3'")
    page.wait("vfs.frame.status === 'exact'")
    with tifffile.TiffFile(io.BytesIO(download(page, "Frame", "Image with its scale (TIFF)"))) as file:
        composite, about = file.asarray(), file.imagej_metadata or {}
    np.testing.assert_array_equal(composite, cells[1, :, 3])
    assert (about["mode"], about["channels"]) == ("composite", 3)
    assert about["Ranges"] == pytest.approx([end for window in windows for end in window])
    assert [table[:, -1].tolist() for table in about["LUTs"]] == [[0, 0, 255], [0, 255, 0], [255, 0, 0]]
    page.press("o")
    page.click("frame", 4, 9)
    page.wait("vfs.state.sides[0]?.data")
    page.screenshot("orthogonal-colours")
    place = """async () => {
        await new Promise((then) => setTimeout(then, 300));
        const canvas = document.querySelector('[data-side="below"] canvas');
        const scale = [canvas.height / 7, canvas.width / 26];
        return Array.from(canvas.getContext("2d").getImageData(9.5 * scale[1], 5.5 * scale[0], 1, 1).data);
    }"""
    at = cells[1, :, 5, 4, 9]
    share = [np.clip((value - low) / (high - low), 0, 1) for value, (low, high) in zip(at, windows, strict=True)]
    assert np.abs(np.array(page.page.evaluate(place))[[2, 1, 0]] - 255 * np.array(share)).max() <= 4
    page.press("Escape", "c")
    page.wait("vfs.state.layers.length === 0")
    page.named("slider", "c").press("ArrowRight")
    page.wait("String(vfs.state.at) === '1,1,3' && vfs.frame.caption === 't 1, c 1, z 3'")


def test_movies_of_events_begin_with_their_sum(browse: Browse, tmp_path: Path) -> None:
    events = np.random.default_rng(4).random((12, 64, 128)) < 0.03
    write_eer(tmp_path / "movie.eer", list(events))
    with vfs.serve(tmp_path / "movie.eer", port=0) as server:
        page = opened(browse, server.url)
        page.wait("vfs.frame.caption === 'sum of all positions' && vfs.frame.status === 'exact'")
        made = vfs.open(tmp_path / "movie.eer")[...].sum(axis=0)
        assert np.array_equal(page.numbers("frame"), made)
        page.screenshot("events")
        page.named("slider", "frame").press("ArrowRight")
        page.wait("vfs.frame.caption === String(vfs.state.at)")
        page.close()


def vfs_word(how: str) -> str:
    return {"max": "maximum", "min": "minimum", "std": "standard"}.get(how, how)


def test_a_stack_of_one_axis_is_projected_as_its_selection(browse: Browse, tmp_path: Path) -> None:
    movie = np.random.default_rng(2).integers(0, 50, (9, 12, 14), np.uint16)
    np.save(tmp_path / "movie.npy", movie)
    with vfs.serve(tmp_path / "movie.npy", port=0) as server:
        page = opened(browse, server.url)
        page.press("j")
        page.wait("vfs.frame.caption === 'maximum of all positions' && vfs.frame.status === 'exact'")
        assert np.array_equal(page.numbers("frame"), movie.max(axis=0))
        page.named("combobox", "Frames of the selection").select_option("min")
        page.wait("vfs.frame.caption === 'minimum of all positions' && vfs.frame.status === 'exact'")
        assert np.array_equal(page.numbers("frame"), movie.min(axis=0))
        page.close()


def test_projections_skip_nan(browse: Browse, tmp_path: Path) -> None:
    movie = np.random.default_rng(2).random((9, 12, 14)).astype("f4")
    movie[2, 3, 4] = movie[:, 0, 0] = np.nan
    np.save(tmp_path / "movie.npy", movie)
    with vfs.serve(tmp_path / "movie.npy", port=0) as server:
        page = opened(browse, server.url)
        skip = page.named("button", "Sums and projections leave NaN out")
        assert not skip.is_visible()
        page.press("j")
        page.wait("vfs.frame.caption === 'maximum of all positions' && vfs.frame.status === 'exact'")
        assert np.array_equal(page.numbers("frame"), movie.max(axis=0), equal_nan=True)
        skip.click()
        page.wait("!Number.isNaN(vfs.frame.data[3 * 14 + 4])")
        shown = page.numbers("frame")
        assert np.array_equal(shown, np.fmax.reduce(movie), equal_nan=True)
        found: dict[str, Any] = {}
        exec(page.text_of("Frame", "Python that makes it"), found)
        assert np.array_equal(found["frame"], shown, equal_nan=True)
        page.close()
