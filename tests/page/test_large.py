"""The page of images that are larger than a screen, and of images with channels."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import tifffile

import vfs
from tests.engine.support import halved
from tests.page.support import Browsed
from vfs.testing.tiff_writers import write_tiff
from vfs.testing.writers import write_npy

Browse = Callable[..., Browsed]


def far(page: Browsed) -> float:
    """Screen pixels of 100 pixels of the frame."""
    a, b = (page.page.evaluate(f"() => vfs.frame.onPage(0, {x})") for x in (0, 100))
    return float(b[1] - a[1])


def test_a_small_picture_of_a_large_image_is_replaced(browse: Browse, tmp_path: Path) -> None:
    """In a folder: that of tiles from all over by that of all pixels."""
    write_npy(tmp_path, np.eye(20), name="small.npy")
    packed = cache(lambda tile: zlib.compress(tile, 1))
    image = np.zeros((8300, 8300), "u2")
    image[:4096] = 500
    write_tiff(tmp_path / "large.tif", [image], tile=(512, 512), compression=8, encode=packed)
    with vfs.serve([tmp_path / "large.tif", tmp_path / "small.npy"], port=0) as server:
        page = browse(server.url).open()
        heights = "[...document.querySelectorAll('.folder-list .thumb canvas')].map((one) => one.height).sort().join()"
        page.wait(f"{heights} === '130,20'")
        page.close()


def two_fingers(page: Browsed, apart: tuple[int, int]) -> None:
    """Put two fingers on the frame, and change how far they are apart."""
    x, y = page.at("frame", 1150, 1300)
    session = page.page.context.new_cdp_session(page.page)
    for k, kind in enumerate(("touchStart", "touchMove", "touchMove")):
        width = apart[min(1, k)]
        points = [{"x": x - width, "y": y, "id": 1}, {"x": x + width, "y": y, "id": 2}]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def test_a_large_image_is_seen_as_fine_as_the_screen(browse: Browse, tmp_path: Path) -> None:
    values = np.random.default_rng(4).integers(0, 4096, (2, 2300, 2600)).astype("u2")
    values[:, 1000:1300] //= 2
    tifffile.imwrite(tmp_path / "large.tif", values, tile=(256, 256), photometric="minisblack")
    with vfs.serve(tmp_path / "large.tif", port=0) as server:
        page = browse(server.url)
        page.page.route("**/api/compute/**", lambda route: None)  # they are held
        page.open("at=0")
        page.wait("window.vfs && vfs.frame.status === 'binned 4 × 4' && vfs.scan.status === 'preview'")
        first, second = page.numbers("scan")  # of the frame that was seen about its sum, before it is computed
        assert abs(first / values[0].sum() - 1) < 1e-3
        assert np.isnan(second)
        page.page.unroute("**/api/compute/**")  # those that are held go on
        page.wait("vfs.scan.status === 'exact'")
        assert page.numbers("scan").tolist() == values.sum((1, 2)).tolist()
        rows = page.page.evaluate(
            "() => [0, 287, 574].map((row) => [...vfs.frame.data.slice(650 * row, 650 * (row + 1))])"
        )
        assert np.array_equal(rows, halved(halved(values[0]))[[0, 287, 574]])
        page.screenshot("large")
        page.press("z")  # larger text and lines: places under the pointer stay right
        page.wait("getComputedStyle(document.documentElement).getPropertyValue('--zoom') === '1.25'")
        x, y = page.at("frame", 1150, 1300)
        page.page.mouse.move(x, y)
        place = [round(k) for k in page.page.evaluate(SEEN, [x, y])]
        page.wait(f"document.querySelector('.frame-panel .readout').textContent.endsWith(' {values[0][tuple(place)]}')")
        for _ in range(8):
            page.page.mouse.wheel(0, -240)
        page.wait("vfs.frame.status === 'exact'")
        for at in ((1150, 1300), (1151, 1302), (1148, 1297)):
            assert grey(page, values[0], at)
        page.screenshot("large-near")
        page.page.locator(".axes input[type=range]").press("ArrowRight")
        page.wait("vfs.state.at[0] === 1 && vfs.frame.caption === '1' && vfs.frame.status === 'exact'")
        assert grey(page, values[1], (1150, 1300))
        before = page.at("frame", 1150, 1300)
        page.page.locator(".frame-panel .stage").focus()
        page.press("PageDown", "End")
        moved = page.at("frame", 1150, 1300)
        assert (moved[0] < before[0], moved[1] < before[1]) == (True, True)
        page.press("0")
        wide = far(page)
        two_fingers(page, (40, 80))
        assert 1.6 * wide < far(page) < 2.4 * wide
        page.press("0", "r")
        field = page.page.locator("input[aria-label='Frame region']")
        field.fill("rectangle(990, 500, 1310, 900)")
        field.press("Enter")
        part = values[1, 990:1310, 500:900]
        page.wait(f"document.querySelector('.frame-panel .region-row .said').textContent.includes('max {part.max()} ')")
        with page.page.expect_download() as saved:
            page.page.get_by_role("button", name="Frame region: all pixels").click()
        assert np.array_equal(np.load(saved.value.path()), part)
        page.page.locator("summary[aria-label='Frame: take away']").click()
        with page.page.expect_download() as saved:
            page.named("button", "Numbers (.npy)").locator("visible=true").click()
        assert np.array_equal(np.load(saved.value.path()), values[1])
        os.truncate(tmp_path / "large.tif", 5_000_000)
        asked: list[str] = []
        page.page.on("request", lambda request: asked.append(request.url))
        page.page.locator(".frame-panel .stage").focus()
        page.press("Escape", *"++++++", "End", "End", "PageDown", "PageDown")
        page.wait("document.querySelector('.banner.error')")
        page.page.evaluate(FRAMES, 20)
        assert 0 < len(asked) < 40, "what cannot be read is asked for once"
        assert all("status of 4" in text for text in page.said)
        page.said.clear()
        page.close()


def test_a_slide_is_seen_from_its_own_smaller_version(browse: Browse, tmp_path: Path) -> None:
    """Which the file holds, so that nothing is computed: in one piece, not in nine of a finer version."""
    values = np.random.default_rng(5).integers(0, 250, (545, 560)).astype("u1")
    sizes = [np.kron(values, np.ones((k, k), "u1"))[: 4356 * k // 8, : 4480 * k // 8] for k in (8, 4, 2, 1)]
    with tifffile.TiffWriter(tmp_path / "slide.ome.tif") as file:
        for k, one in enumerate(sizes):
            file.write(
                one, tile=(256, 256), compression="zlib", subfiletype=int(k > 0), **({} if k else {"subifds": 3})
            )
    with vfs.serve(tmp_path / "slide.ome.tif", port=0) as server:
        page = browse(server.url)
        asked: list[str] = []
        page.page.on("request", lambda request: asked.append(request.url))
        page.open()
        page.wait("window.vfs && vfs.frame.status.startsWith('binned') && vfs.frame.data.length === 545 * 560")
        found = page.numbers("frame")
        assert np.array_equal(found[:544], values[:544])
        assert np.array_equal(found[544], values[543]), "the file left out the rest of the last rows"
        assert any("level=3" in one for one in asked)
        assert not any("bin=2" in one for one in asked), "means of a finer version"
        page.close()


FRAMES = """async (count) => {
    for (let k = 0; k < count; k++) await new Promise((then) => requestAnimationFrame(then));
}"""
SEEN = """([x, y]) => {
    const [a, b] = [vfs.frame.onPage(0, 0), vfs.frame.onPage(1000, 1000)];
    return [(1000 * (y - a[0])) / (b[0] - a[0]), (1000 * (x - a[1])) / (b[1] - a[1])];
}"""


def grey(page: Browsed, picture: np.ndarray, at: tuple[int, int]) -> bool:
    """Compare the colour of the canvas at a place with the number of that pixel."""
    limits = page.page.evaluate("() => [vfs.frame.contrast.lo, vfs.frame.contrast.hi]")
    level = 255 * np.clip((float(picture[at]) - limits[0]) / (limits[1] - limits[0]), 0, 1)
    red, green, blue, opaque = page.colour("frame", *at)
    assert abs(red - level) <= 1, (at, red, level)
    return red == green == blue and opaque == 255


def test_channels_are_layers_in_their_colours(browse: Browse, tmp_path: Path) -> None:
    y, x = np.mgrid[:40, :60]
    values = np.stack([x * 60, y * 90, (x + y) * 40]).astype("u2")
    colours = [(255, 0, 0), (0, 255, 0), (80, 80, 255)]
    packed = [int.from_bytes(bytes((*one, 255)), "big", signed=False) - (1 << 32) * (one[0] > 127) for one in colours]
    names = ["Carbon", "Oxygen", "<b>Iron</b>"]
    said = {"axes": "CYX", "Channel": {"Name": names, "Color": packed}}
    tifffile.imwrite(tmp_path / "map.ome.tif", values, photometric="minisblack", metadata=said)
    with vfs.serve(tmp_path / "map.ome.tif", port=0) as server:
        page = browse(server.url).open()
        page.wait("window.vfs && vfs.frame.status === 'exact'")
        low, high = (np.percentile(values.reshape(3, -1), q, axis=1) for q in (0.1, 99.9))

        def expected(at: tuple[int, int], on: list[int]) -> np.ndarray:
            light = [np.clip((values[k][at] - low[k]) / (high[k] - low[k]), 0, 1) * np.array(colours[k]) for k in on]
            return np.clip(np.sum(light, axis=0), 0, 255)

        for at in ((0, 0), (20, 30), (39, 10), (5, 59)):
            assert np.abs(expected(at, [0, 1, 2]) - page.colour("frame", *at)[:3]).max() <= 4, at
        page.page.mouse.move(*page.at("frame", 20, 30))
        assert page.page.locator(".frame-panel .readout").inner_text().endswith("1800 1800 2000")
        assert not page.named("button", "Orthogonal views of the stack").is_visible()  # channels are no stack
        page.screenshot("channels")
        page.named("checkbox", "Oxygen: shown").press("Space")
        page.page.get_by_label("<b>Iron</b>: colour").fill("#00ffff")
        colours[2] = (0, 255, 255)
        for at in ((20, 30), (39, 10)):
            assert np.abs(expected(at, [0, 2]) - page.colour("frame", *at)[:3]).max() <= 4, at
        page.named("button", "<b>Iron</b>: its contrast and numbers").click()
        page.wait("vfs.frame.data[1] === 40")  # that of which numbers are measured
        page.page.wait_for_function("() => location.hash.includes('00ffff')")
        again = browse(server.url).open(page.page.evaluate("() => location.hash.slice(1)"))
        again.wait("window.vfs && vfs.frame.status === 'exact'")
        assert again.colour("frame", 20, 30) == page.colour("frame", 20, 30)
        page.press("c")  # one of them, as it is
        page.wait("vfs.state.layers.length === 0")
        assert len(set(page.colour("frame", 20, 30)[:3])) == 1
        for one in (page, again):
            one.close()
