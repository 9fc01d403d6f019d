"""Boxes of pictures and of their smaller versions, as the page asks for them, compared with numpy."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile

from tests.engine.support import halved
from tests.http.asking import ask, contents_of, frame, headers_of, records, refused, told
from tests.http.support import application_of
from vfs.page import tiles
from vfs.reduce import pyramid
from vfs.testing.tiff_writers import write_tiff

RNG = np.random.default_rng(8)
SHAPES = {
    "image": ((75, 90), {}),
    "stack": ((3, 75, 90), {"metadata": {"axes": "ZYX"}}),
    "channels": ((2, 3, 75, 90), {"metadata": {"axes": "TCYX"}}),
    "colours": ((2, 75, 90, 3), {"photometric": "rgb", "metadata": {"axes": "ZYXS"}}),
    "planar": ((3, 75, 90), {"photometric": "rgb", "planarconfig": "separate", "metadata": {"axes": "SYX"}}),
}
VALUES = {name: RNG.integers(0, 255, shape).astype("u1") for name, (shape, _) in SHAPES.items()}


@pytest.mark.parametrize("name", SHAPES)
def test_levels_of_pictures_are_means(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(pyramid, "COARSEST", 25)
    values = VALUES[name]
    tifffile.imwrite(tmp_path / "a.ome.tif", values, tile=(16, 32), **SHAPES[name][1])
    application = application_of(contents_of(tmp_path / "a.ome.tif"))
    (about,) = (one for one in told(application, "/api/set/a.zarr")["arrays"] if one["main"])
    levels = told(application, f"/api/array/a.zarr/{about['path']}")["levels"]
    sizes = [[75, 90], [38, 45], [19, 23]]
    assert [one.pop("ready") for one in levels] == [True, False, False]
    assert levels == [{"shape": size, "times": [2.0**k] * 2} for k, size in enumerate(sizes)]
    at = [n - 1 for n in (about["shape"][k] for k in about["where"])]
    lead = values.ndim - (3 if name in ("colours", "planar") else 2)
    picture = values[(-1,) * lead] if name != "planar" else np.moveaxis(values, 0, -1)
    for k in range(3):
        (high, wide), path = sizes[k], f"/api/frame/a.zarr/{about['path']}?level={k}&at={','.join(map(str, at))}"
        np.testing.assert_array_equal(frame(application, f"{path}&box=0,0,{high},{wide}")[0], picture)
        np.testing.assert_array_equal(
            frame(application, f"{path}&box=3,5,{high - 1},17")[0], picture[3 : high - 1, 5:17]
        )
        found, side = frame(application, f"{path}&box=2,3,17,20&bin=4")
        assert side == 4
        for y, x in np.ndindex(found.shape[:2]):
            expected = picture[2:17, 3:20][4 * y : 4 * y + 4, 4 * x : 4 * x + 4].mean((0, 1))
            np.testing.assert_allclose(found[y, x], expected, rtol=1e-6)
        picture = halved(picture) if picture.ndim == 2 else np.moveaxis(halved(np.moveaxis(picture, -1, 0)), 0, -1)


def test_boxes_of_what_has_no_levels_are_of_all_pixels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyramid, "COARSEST", 25)
    values = RNG.normal(size=(40, 50)) + 1j * RNG.normal(size=(40, 50))
    np.save(tmp_path / "a.npy", values)
    application = application_of(contents_of(tmp_path / "a.npy"))
    assert told(application, "/api/array/a.zarr/data")["levels"] == []
    path = "/api/frame/a.zarr/data?part=phase"
    np.testing.assert_array_equal(frame(application, f"{path}&box=1,2,30,40")[0], np.angle(values)[1:30, 2:40])


def test_boxes_that_are_none_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "MAX_NUMBERS", 1000)
    np.save(tmp_path / "a.npy", VALUES["image"])
    application = application_of(contents_of(tmp_path / "a.npy"))
    for query, said in {
        "box=0,0,76,90": "expected y0,x0,y1,x1 in 75 x 90 pixels",
        "box=5,5,5,6": "expected y0,x0,y1,x1",
        "box=0,0,75,90": "ask for less",
        "level=1&box=0,0,5,5": "level=1: data has 1, from 0 on",
        "level=0": "expected box=",
        "bin=2": "expected box=",
        "box=0,0,5,5&bin=0": "expected a number from 1",
        "box=1,2,3": "expected box=",
        "box=0,0,5,5&max=3": "neither max=",
    }.items():
        status, text = refused(application, f"/api/frame/a.zarr/data?{query}")
        assert (status, said in text) == (400, True), text


def test_planes_across_frames(tmp_path: Path) -> None:
    values = RNG.integers(0, 99, (3, 4, 5, 6)).astype("u1")
    np.save(tmp_path / "a.npy", values)
    application = application_of(contents_of(tmp_path / "a.npy"))
    path = "/api/frame/a.zarr/data"
    np.testing.assert_array_equal(frame(application, f"{path}?plane=1,3&at=2,4")[0], values[2, :, 4])
    np.testing.assert_array_equal(frame(application, f"{path}?plane=2,1&at=2,5")[0], values[2, :, :, 5].T)
    for plane in ("1", "1,1", "1,4", "0,1,2"):
        assert refused(application, f"{path}?plane={plane}&at=2,4")[0] == 400


def test_boxes_have_etags_of_their_own(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", VALUES["image"])
    application = application_of(contents_of(tmp_path / "a.npy"))
    asked = [ask(application, f"/api/frame/a.zarr/data{query}") for query in ("", "?box=0,0,5,5", "?box=0,0,5,6")]
    assert len({headers_of(one)["etag"] for one in asked}) == 3


def test_thumbnails_are_made_of_levels_that_are_at_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that the file holds; of computed ones if they are in the cache: a thumbnail costs no pass."""
    monkeypatch.setattr(pyramid, "COARSEST", 16)
    pages = [np.full((180 // k, 240 // k), k, "u1") for k in (1, 3, 9)]
    write_tiff(tmp_path / "slide.tif", pages[:1], smaller=[pages[1:]])
    np.save(tmp_path / "mask.npy", np.kron(np.ones((32, 32), bool), [[True, False], [False, False]]))

    def thumbnail(name: str) -> set[float]:
        (_, numbers), *_ = records(ask(application, f"/api/thumbnails/{name}.zarr?size=16&main=1").body)
        return set(np.unique(numbers[""]).tolist())

    def ready(name: str) -> list[bool]:
        return [one["ready"] for one in told(application, f"/api/array/{name}.zarr/data")["levels"]]

    application = application_of(contents_of(tmp_path / "slide.tif"))
    assert thumbnail("slide") == {9}
    assert ready("slide") == [True, True, True, False]
    (tmp_path / "levels").mkdir(mode=0o700)
    application = application_of(contents_of(tmp_path / "mask.npy", pyramid_cache=tmp_path / "levels"))
    assert thumbnail("mask") == {0.25}
    assert ready("mask") == [True, False, False]
    frame(application, "/api/frame/mask.zarr/data?level=1&box=0,0,32,32")
    assert thumbnail("mask") == {1}, "a level of masks has the first of four"
    assert ready("mask") == [True, True, False]
    application = application_of(contents_of(tmp_path / "mask.npy", pyramid_cache=tmp_path / "levels"))
    assert ready("mask") == [True, True, False], "what an earlier run kept"
    assert thumbnail("mask") == {1}


def test_a_small_picture_of_a_large_image_is_made_of_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """First of some of its tiles, from all over (`sampled`); then, where that is asked for (`whole`), of a level."""
    monkeypatch.setattr(pyramid, "COARSEST", 16)
    for module in ("vfs.pictures.small_frames", "vfs.pictures.frames"):
        monkeypatch.setattr(f"{module}.MAX_FRAME_BYTES", 6 * 16 * 16)
    image = np.kron(RNG.integers(0, 9, (6, 8)) * 20, np.ones((16, 16), int)).astype("u1")
    image[::2] += 10
    write_tiff(tmp_path / "large.tif", [image], tile=(16, 16), compression=8, encode=zlib.compress)
    application = application_of(contents_of(tmp_path / "large.tif"))

    def asked(more: str = "") -> tuple[dict[str, Any], np.ndarray]:
        (head, numbers), _ = records(ask(application, f"/api/thumbnails/large.zarr?size=16&main=1{more}").body)
        return head, numbers[""]

    head, numbers = asked()
    assert (head["sampled"], numbers.shape) == (True, (2, 3))
    np.testing.assert_array_equal(numbers, image[::16, ::16][[1, 4]][:, [1, 4, 6]] - 5.0)
    with monkeypatch.context() as few:
        few.setattr(tiles, "PASS", 6 * 8 * 16 * 16 - 1)
        assert "sampled" not in asked()[0]
    head, numbers = asked("&whole=1")
    assert "sampled" not in head
    np.testing.assert_array_equal(numbers, halved(halved(halved(image))))
    np.testing.assert_array_equal(asked()[1], numbers)  # it is kept
    application.contents.cache.clear()
    np.testing.assert_array_equal(asked()[1], numbers)
