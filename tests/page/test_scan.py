"""The page of a scan: what is on the screen, and the numbers behind it, against numpy and `vfs`."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import h5py
import numpy as np
import pytest
import tifffile
from PIL import Image

import vfs
from tests.http.support import application_of
from tests.page.support import Browsed, download, figure, patterns, scan_in
from vfs.engine.cache import ChunkCache
from vfs.folder_tree.plans import folder
from vfs.page.computing import Asked, Computation
from vfs.testing.inside import set_of

FRAMES = patterns()
Browse = Callable[..., Browsed]


@pytest.fixture(scope="module")
def header(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scan_in(tmp_path_factory.mktemp("scan"), FRAMES)


@pytest.fixture(scope="module")
def url(header: Path) -> Iterator[str]:
    with vfs.serve(header, port=0) as server:
        yield server.url


@pytest.fixture
def page(browse: Browse, url: str) -> Browsed:
    return browse(url).open().settled()


def reduced(header: Path, **reductions: Any) -> np.ndarray:
    """Compute one result with the library."""
    (result,) = vfs.open(header).reduce(**reductions).values()
    return np.asarray(result.data, float)


def detector(page: Browsed) -> dict[str, Any]:
    found: dict[str, Any] = page.state("detector")
    return found


def test_opens_on_the_bright_field(browse: Browse, url: str, header: Path) -> None:
    page, asked = browse(url), []
    page.page.on("request", lambda request: asked.append(request.post_data) if "/api/compute/" in request.url else None)
    page.open().settled()
    found = detector(page)
    assert found["kind"] == "disk"
    assert (found["cy"], found["cx"], found["r"]) == pytest.approx((15.4, 16.2, 5.5), abs=0.6)
    disk = vfs.Disk(cy=found["cy"], cx=found["cx"], r=found["r"])
    assert np.array_equal(page.numbers("scan"), reduced(header, image=disk))
    assert np.array_equal(page.numbers("frame"), FRAMES[6, 8])
    assert page.page.title() == "scan – data – vfs"
    ahead = application_of(folder([set_of(vfs.open_group(header, backend="buffered"))], ChunkCache())).api._look.image()
    assert ahead is not None
    assert Computation(ahead.array, Asked.of(json.loads(asked[0])), ahead.cache).key == ahead.key
    page.screenshot("opened")


@pytest.mark.parametrize(("width", "height", "dark"), [(1280, 720, False), (2560, 1440, True), (2560, 1440, False)])
def test_pictures_are_large_and_nothing_is_cut(browse: Browse, url: str, width: int, height: int, dark: bool) -> None:
    page = browse(url, width, height, dark).open().settled()
    for which in ("scan", "frame"):
        box = page.page.locator(f"#{which}").bounding_box()
        assert box["width"] > 0.47 * width
        assert box["height"] > 0.68 * height
    assert page.page.evaluate("() => document.documentElement.scrollHeight <= innerHeight")
    page.screenshot(f"opened-{width}-{'dark' if dark else 'light'}")


def test_canvas_shows_the_numbers(page: Browsed) -> None:
    frame = FRAMES[6, 8].astype(float)
    contrast = page.page.evaluate("() => vfs.frame.contrast")
    assert contrast["curve"] == "sqrt"
    for y, x in [(0, 0), (15, 16), (10, 20), (31, 31)]:
        level = 255 * np.sqrt(np.clip((frame[y, x] - contrast["lo"]) / (contrast["hi"] - contrast["lo"]), 0, 1))
        red, green, blue, opacity = page.colour("frame", y, x)
        assert red == green == blue
        assert red == pytest.approx(level, abs=1.5)
        assert opacity == 255


def test_click_on_the_scan_shows_its_frame(page: Browsed) -> None:
    page.click("scan", 2, 3)
    page.wait("vfs.frame.status === 'exact' && vfs.frame.caption === '2, 3'")
    assert np.array_equal(page.numbers("frame"), FRAMES[2, 3])
    page.drag("scan", (2, 3), (9, 12))
    page.page.mouse.up()
    page.wait("vfs.frame.caption === '9, 12'")
    assert np.array_equal(page.numbers("frame"), FRAMES[9, 12])
    page.wait("location.hash.includes('at=9,12')")


AT_ONCE = """async () => {
    while (window.vfs?.scan.status !== "exact") await new Promise((then) => requestAnimationFrame(then));
    document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "n", bubbles: true }));
}"""
"""Adds a detector as soon as the first image is there."""


def test_a_ring_that_is_dragged(page: Browsed, header: Path) -> None:
    page.open().page.evaluate(AT_ONCE)
    page.settled().press("Delete")
    page.wait("vfs.state.summary")
    page.named("button", "ADF: annular dark field").click()
    page.settled()
    ring = detector(page)
    start = (ring["cy"], ring["cx"] + ring["r0"])
    page.drag("frame", start, (start[0], start[1] + 3))
    assert page.page.evaluate("() => vfs.scan.status") in ("preview", "exact")
    preview = page.numbers("scan")
    page.page.mouse.up()
    page.wait(f"vfs.state.detector.r0 > {ring['r0'] + 2}")
    page.settled()
    ring = detector(page)
    exact = reduced(header, image=vfs.Ring(cy=ring["cy"], cx=ring["cx"], r0=ring["r0"], r1=ring["r1"]))
    assert np.array_equal(page.numbers("scan"), exact)
    assert np.corrcoef(preview.ravel(), exact.ravel())[0, 1] > 0.9
    page.screenshot("ring")


def test_a_new_detector_aborts_the_computation_before(page: Browsed) -> None:
    page.wait("vfs.state.summary")
    page.page.evaluate("""() => {
        const ask = window.fetch;
        window.aborted = 0;
        window.fetch = (address, how) => {
            if (!address.includes("api/compute") || window.aborted) return ask(address, how);
            window.accepted = how.headers.accept;
            return new Promise((_, fail) => how.signal.addEventListener("abort", () => {
                window.aborted += 1;
                fail(how.signal.reason);
            }));
        };
    }""")
    page.press("3")
    page.wait("vfs.scan.status === 'preview'")
    with page.page.expect_response(re.compile("/api/stop/")) as stopped:  # a proxy may not say that it was aborted
        page.press("2")
    page.settled()
    assert page.page.evaluate("() => window.aborted") == 1
    assert page.page.evaluate("() => window.accepted") == "text/event-stream"  # else a proxy may keep it to the end
    assert stopped.value.json() == {"stopped": False}  # the server was never asked
    assert page.page.locator(".banner").count() == 0


DRAWN = [
    ("Disk detector", (10, 10), (10, 14), lambda d: vfs.Disk(cy=d["cy"], cx=d["cx"], r=d["r"])),
    ("Ring detector", (16, 16), (16, 26), lambda d: vfs.Ring(cy=d["cy"], cx=d["cx"], r0=d["r0"], r1=d["r1"])),
    ("Rectangle detector", (4, 5), (12, 20), lambda d: vfs.Rectangle(y0=4, x0=5, y1=13, x1=21)),
    ("Point detector", (11, 13), (11, 13), lambda d: vfs.Point(y=11, x=13)),
]


def test_detectors_that_are_drawn(page: Browsed, header: Path) -> None:
    for tool, start, stop, made in DRAWN:
        page.named("button", tool).click()
        page.drag("frame", start, stop)
        page.page.mouse.up()
        page.settled()
        assert np.array_equal(page.numbers("scan"), reduced(header, image=made(detector(page)))), tool
        page.screenshot(tool.lower().replace(" ", "-"))


def test_a_polygon_that_is_bent(page: Browsed, header: Path) -> None:
    page.page.locator(".frame-panel button[aria-label^='Polygon detector']").click()
    page.drag("frame", (6, 8), (20, 24))
    page.page.mouse.up()
    page.drag("frame", (13, 7.2), (13, 2))  # an edge gets a corner
    page.page.mouse.up()
    page.settled()
    found = detector(page)
    assert (found["kind"], len(found["y"])) == ("polygon", 5)
    assert (13, 2) in zip(map(round, found["y"]), map(round, found["x"]), strict=True)
    shape = vfs.Polygon(y=found["y"], x=found["x"])
    assert np.array_equal(page.numbers("scan"), reduced(header, image=shape))
    page.page.get_by_label("Selection", exact=True).locator("visible=true").last.fill("polygon((1, 1, 9), (2, 12, 7))")
    page.press("Enter")
    page.settled()
    chosen = vfs.Polygon((1, 1, 9), (2, 12, 7)).inside((12, 16))
    np.testing.assert_allclose(page.numbers("frame"), FRAMES[chosen].mean(axis=0))
    found = {}
    exec(page.text_of("Frame", "Python that makes it"), found)
    assert np.array_equal(found["frame"], page.numbers("frame"))
    page.screenshot("polygon")


def test_a_detector_that_is_typed(page: Browsed, header: Path) -> None:
    field = page.named("textbox", "Detector")
    field.fill("ring(15, 16, 3, 9.5)")
    field.press("Enter")
    page.wait("vfs.scan.caption === 'ring(15, 16, 3, 9.5)' && vfs.scan.status === 'exact'")
    assert np.array_equal(page.numbers("scan"), reduced(header, image=vfs.Ring(15, 16, 3, 9.5)))
    field.fill("ring(15, 16)")
    field.press("Enter")
    assert "expected ring(cy, cx, r0, r1)" in field.evaluate("field => field.validationMessage")
    assert detector(page)["r1"] == 9.5


def test_centre_of_mass(page: Browsed, header: Path) -> None:
    page.named("button", "Centre of mass").click()
    page.settled()
    page.wait("vfs.scan.pairs")
    found = detector(page)
    exact = reduced(header, com=vfs.CenterOfMass(cy=found["cy"], cx=found["cx"], r=found["r"]))
    assert np.array_equal(page.numbers("scan", "pairs"), exact)
    page.screenshot("centre-of-mass")
    for side, numbers in {
        "x": exact[..., 1],
        "y": exact[..., 0],
        "magnitude": np.hypot(*np.moveaxis(exact, 2, 0)),
    }.items():
        page.named("combobox", "Centre of mass").select_option(side)
        assert np.allclose(page.numbers("scan"), numbers, rtol=1e-12)


SELECTED = {"mean": np.mean, "sum": np.sum, "max": np.max}


def test_a_selection_of_the_scan(page: Browsed) -> None:
    field = page.named("textbox", "Selection")
    field.fill("rectangle(2, 3, 7, 9)")
    field.press("Enter")
    words = {"mean": "mean", "sum": "sum", "max": "maximum"}
    frames = FRAMES[2:7, 3:9].reshape(-1, *FRAMES.shape[2:])
    for how, made in SELECTED.items():
        page.named("combobox", "Frames of the selection").select_option(how)
        page.wait(f"vfs.frame.caption === '{words[how]} of rectangle(2, 3, 7, 9)' && vfs.frame.status === 'exact'")
        assert np.allclose(page.numbers("frame"), made(frames, axis=0), rtol=1e-14)
    page.screenshot("selection")
    page.page.locator(".scan-panel .stage").focus()
    page.press("Escape")
    page.wait("vfs.frame.caption === '6, 8'")


def test_a_disk_of_positions(page: Browsed) -> None:
    page.named("button", "Disk of positions").click()
    page.named("combobox", "Frames of the selection").select_option("sum")
    page.press("Escape")
    page.named("button", "Disk of positions").click()
    page.drag("scan", (1, 1), (1, 4))  # outside of the disk that is there: a new one
    page.page.mouse.up()
    page.wait("vfs.state.selection.cy === 1 && vfs.frame.caption.startsWith('sum of disk(1, 1')")
    page.wait("vfs.frame.status === 'exact'")
    radius = page.state("selection.r")
    y, x = np.ogrid[:12, :16]
    inside = (y - 1) ** 2 + (x - 1) ** 2 < radius**2
    assert np.array_equal(page.numbers("frame"), FRAMES[inside].sum(axis=0))


def test_wheel_drag_and_double_click(page: Browsed) -> None:
    x, y = page.at("frame", 14, 17)  # in the middle, where no edge of the picture gets into the stage
    before = page.page.evaluate("() => vfs.frame.onPage(14, 17)")
    page.page.mouse.move(x, y)
    for _ in range(3):
        page.page.mouse.wheel(0, -200)
    page.wait("vfs.frame.onPage(5, 5)[1] - vfs.frame.onPage(4, 4)[1] > 30")
    assert page.page.evaluate("() => vfs.frame.onPage(14, 17)") == pytest.approx(before, abs=2)
    page.page.keyboard.down("Shift")
    here = page.page.evaluate("() => vfs.frame.onPage(4, 4)")
    page.page.mouse.down()
    page.page.mouse.move(x - 20, y - 30)
    page.page.mouse.up()
    page.page.keyboard.up("Shift")
    moved = page.page.evaluate("() => vfs.frame.onPage(4, 4)")
    assert [b - a for a, b in zip(here, moved, strict=True)] == pytest.approx([-30, -20], abs=1)
    page.screenshot("zoomed")
    page.page.mouse.dblclick(x, y)
    page.wait(f"Math.abs(vfs.frame.onPage(14, 17)[0] - {before[0]}) < 0.01")


def test_the_bottom_row_of_merlin_comes_first_and_is_below(page: Browsed) -> None:
    (_, first), (_, last) = page.at("frame", 0, 0), page.at("frame", FRAMES.shape[2] - 1, 0)
    assert first > last
    at = page.state("at")
    shown = FRAMES[tuple(at)].astype(float)
    bright, dark = (np.unravel_index(pick(shown), shown.shape) for pick in (np.argmax, np.argmin))
    assert sum(page.colour("frame", *bright)[:3]) > sum(page.colour("frame", *dark)[:3])
    assert np.array_equal(page.numbers("frame"), FRAMES[tuple(at)])  # and as stored in the numbers
    (_, above), (_, below) = page.at("scan", 0, 0), page.at("scan", 1, 0)
    assert above < below


def test_value_under_the_pointer(page: Browsed) -> None:
    page.page.mouse.move(*page.at("frame", 7, 11))
    readout = page.page.get_by_label("Frame: value under the pointer")
    assert readout.inner_text().split(" · ")[0] == "7, 11"
    assert readout.inner_text().split(" · ")[-1] == str(FRAMES[6, 8, 7, 11])


def test_a_frame_on_the_way_is_named_as_what_it_is(page: Browsed) -> None:
    held: list[Any] = []
    page.page.route("**/api/frame/**", lambda route: held.append(route))  # playwright marks it
    page.press("ArrowDown", "ArrowRight")
    page.wait("vfs.state.at.join() === '7,9'")
    while len(held) < 2:
        page.page.wait_for_timeout(10)
    first, second = held
    first.continue_()
    page.wait("vfs.frame.caption !== '6, 8'")
    assert page.page.evaluate("() => vfs.frame.caption") == "7, 8"
    assert np.array_equal(page.numbers("frame"), FRAMES[7, 8])
    second.continue_()
    page.wait("vfs.frame.caption === '7, 9'")
    assert np.array_equal(page.numbers("frame"), FRAMES[7, 9])


def test_keys(page: Browsed, header: Path) -> None:
    page.press("ArrowDown", "ArrowRight", "ArrowRight")
    page.wait("vfs.frame.caption === '7, 10'")
    page.press("Shift+ArrowLeft")
    page.wait("vfs.frame.caption === '7, 0'")
    assert np.array_equal(page.numbers("frame"), FRAMES[7, 0])
    page.press("l")
    assert page.page.evaluate("() => vfs.scan.contrast.curve") == "log"
    page.press("i")
    assert page.page.evaluate("() => vfs.scan.contrast.invert") is True
    page.press("a", "p")
    assert page.page.get_by_role("group", name="Scan profile").is_visible()
    page.press("Escape", "3", "]", "}", "[")
    page.wait("vfs.state.detector.kind === 'ring' && vfs.scan.status === 'exact'")
    page.page.locator(".frame-panel .stage").focus()
    before = detector(page)
    page.press("ArrowDown", "Shift+ArrowRight")
    page.settled()
    ring = detector(page)
    assert (ring["cy"], ring["cx"]) == pytest.approx((before["cy"] - 1, before["cx"] + 10))  # rows go up
    page.wait("vfs.scan.caption.includes(vfs.state.detector.cx) && vfs.scan.status === 'exact'")
    exact = reduced(header, image=vfs.Ring(cy=ring["cy"], cx=ring["cx"], r0=ring["r0"], r1=ring["r1"]))
    assert np.array_equal(page.numbers("scan"), exact)
    page.press("?")
    assert page.page.get_by_role("dialog", name="Keys").is_visible()
    page.screenshot("keys")
    page.press("Escape", "m")
    assert page.page.get_by_role("complementary", name="Metadata").is_visible()
    page.press("s")
    assert page.page.get_by_role("complementary", name="Arrays").is_visible()
    page.screenshot("all-sides")


def test_every_control_has_a_name_and_takes_the_focus(page: Browsed) -> None:
    page.press("m", "s")
    page.wait("document.querySelectorAll('.cells .entry').length === 3")
    wanted = page.page.evaluate("""() => {
        const controls = document.querySelectorAll("button, input, select, summary, [tabindex='0']");
        return [...controls].filter((one) => one.checkVisibility()).length;
    }""")
    seen, nameless = set(), []
    page.page.evaluate("() => document.activeElement.blur()")
    for _ in range(wanted + 3):
        page.press("Tab")
        name = page.page.evaluate("""() => {
            const one = document.activeElement;
            if (one === document.body) return null;
            one.dataset.seen ??= String(document.querySelectorAll("[data-seen]").length);
            return [one.dataset.seen, one.getAttribute("aria-label") || one.textContent.trim()];
        }""")
        if name:
            seen.add(name[0])
            nameless += [] if name[1] else [name[0]]
    assert not nameless
    assert len(seen) >= wanted - 2  # scrollable sides may or may not count


def test_contrast(page: Browsed, browse: Browse) -> None:
    page.page.locator("summary[aria-label='Scan: contrast']").press("Enter")
    sheet = page.page.get_by_role("group", name="Scan: contrast")
    sheet.get_by_label("Colour map").select_option("viridis")
    sheet.get_by_label("Scale").select_option("gamma")
    sheet.get_by_label("Gamma").press("ArrowRight")
    sheet.get_by_label("Upper percentile").fill("90")
    sheet.get_by_label("Upper percentile").press("Enter")
    sheet.get_by_label("Limits follow").select_option("once")
    sheet.get_by_label("Invert colours").check()
    image = page.numbers("scan")
    contrast = page.page.evaluate("() => vfs.scan.contrast")
    assert contrast["gamma"] == pytest.approx(0.55)
    ordered = np.sort(image.ravel())
    assert contrast["hi"] == ordered[int(np.ceil((len(ordered) - 1) * 0.9))]
    darkest = np.unravel_index(image.argmin(), image.shape)
    assert page.colour("scan", *darkest)[:3] == pytest.approx((0xFD, 0xE7, 0x25), abs=2)  # viridis ends in yellow
    page.screenshot("contrast")
    page.press("Escape")
    high = page.named("slider", "Scan: upper limit")
    high.press("ArrowLeft")
    contrast = page.page.evaluate("() => vfs.scan.contrast")
    assert contrast["mode"] == "never"
    page.wait(f"location.hash.includes('scan=viridis~,gamma') && location.hash.includes({contrast['hi']})")
    again = browse(page.url).open(page.page.url.partition("#")[2]).settled()
    assert again.page.evaluate("() => vfs.scan.contrast") == contrast
    assert "/t/" not in again.state("fragment")


def test_histogram_is_dragged(page: Browsed) -> None:
    handle = page.named("slider", "Frame: upper limit").bounding_box()
    before = page.page.evaluate("() => vfs.frame.contrast.hi")
    page.page.mouse.move(handle["x"] + 4, handle["y"] + 10)
    page.page.mouse.down()
    page.page.mouse.move(handle["x"] - 80, handle["y"] + 10)
    page.page.mouse.up()
    assert page.page.evaluate("() => vfs.frame.contrast.hi") < before
    page.press("a")
    page.wait(f"vfs.frame.contrast.hi === {before} || vfs.scan.contrast.mode === 'always'")


def test_sliders_and_playing(page: Browsed) -> None:
    slider = page.named("slider", "scan_y")
    slider.press("ArrowRight")
    page.wait("vfs.frame.caption === '7, 8'")
    index = page.named("spinbutton", "scan_x: index")
    index.fill("2")
    index.press("Enter")
    page.wait("vfs.frame.caption === '7, 2'")
    page.named("combobox", "Speed of playing").select_option("40")
    page.page.locator(".scan-panel .stage").focus()
    page.press(" ")
    page.wait("vfs.state.at[1] === 1")  # around the end
    page.press(" ")
    page.named("button", "Play along scan_y").press("Enter")
    page.wait("vfs.state.at[0] === 11")
    page.named("button", "Play along scan_y").press("Enter")
    page.wait("vfs.frame.caption === vfs.state.at.join(', ')")
    assert np.array_equal(page.numbers("frame"), FRAMES[tuple(page.state("at"))])


def test_line_profile(page: Browsed) -> None:
    page.named("button", "Frame: line profile").click()
    page.drag("frame", (5, 2), (5, 28), steps=8)
    page.page.mouse.up()
    assert page.page.get_by_role("group", name="Frame profile").is_visible()
    page.screenshot("profile")


def test_numbers_and_pictures_are_taken_away(page: Browsed, header: Path, tmp_path: Path) -> None:
    frame = np.load(io.BytesIO(download(page, "Frame", "Numbers (.npy)")))
    assert frame.dtype == np.uint16
    assert np.array_equal(frame, FRAMES[6, 8])
    assert np.array_equal(np.load(io.BytesIO(download(page, "Scan", "Numbers (.npy)"))), page.numbers("scan"))
    with tifffile.TiffFile(io.BytesIO(download(page, "Frame", "Image with its scale (TIFF)"))) as image:
        assert np.array_equal(image.asarray(), FRAMES[6, 8][::-1]), "the top row first"
    with tifffile.TiffFile(io.BytesIO(download(page, "Scan", "Image with its scale (TIFF)"))) as image:
        assert image.pages[0].dtype == np.uint32  # counts
        assert np.array_equal(image.asarray(), page.numbers("scan"))
    assert vfs.export(header, tmp_path / "mail.html")
    assert download(page, "Scan", "Page for a mail (HTML)") == (tmp_path / "mail.html").read_bytes()
    with h5py.File(io.BytesIO(download(page, "Frame", "Signal of HyperSpy (.hspy)"))) as file:
        (signal,) = file["Experiments"].values()
        assert np.array_equal(signal["data"], FRAMES[6, 8][::-1])
    with h5py.File(io.BytesIO(download(page, "Scan", "Signal of HyperSpy (.hspy)"))) as file:
        (signal,) = file["Experiments"].values()
        assert np.array_equal(signal["data"], page.numbers("scan"))
        assert signal["original_metadata/vfs"].attrs["reduction"].startswith("disk(15.1, 16.1, 5.5)")
    picture = np.asarray(Image.open(io.BytesIO(download(page, "Frame", "Picture (PNG)"))))
    assert picture.shape == (32, 32, 4)
    scan = np.asarray(Image.open(io.BytesIO(download(page, "Scan", "Picture (PNG)"))))
    for y, x in [(15, 16), (3, 16), (10, 20), (31, 5)]:
        assert tuple(picture[31 - y, x]) == page.colour("frame", y, x)  # the top row first, as it is seen
    assert tuple(scan[2, 3]) == page.colour("scan", 2, 3)
    shown = np.asarray(Image.open(io.BytesIO(figure(page, "Frame", "PNG"))).convert("RGB"))
    edge, pixel = 32, 1280 / 32  # of the figure
    for y, x in [(3, 16), (28, 5)]:  # where nothing is drawn above
        row, column = (int(edge + (at + 0.5) * pixel) for at in (31 - y, x))
        assert tuple(shown[row, column]) == page.colour("frame", y, x)[:3]
    bar = shown[edge : edge + 1280, edge + 1280 + 30, 0].astype(int)
    assert bar[0] == 255  # the largest number is at the top
    assert bar[-1] < 30
    assert (np.diff(bar) <= 0).all()
    drawn = ElementTree.fromstring(figure(page, "Frame", "SVG"))
    texts = [one.text for one in drawn.iterfind(".//{*}text")]
    assert "5 px" in texts
    assert f"detectors: {page.page.evaluate('() => vfs.scan.caption')}" in texts
    assert any(f"vfs {vfs.__version__}" in text for text in texts)
    assert len(list(drawn.iterfind(".//{*}image"))) == 2  # the frame and its bar
    plain = dict.fromkeys(("caption", "colour_bar", "cross,_detectors,_marks"), False)
    wide = {"length_of_the_scale_bar": "8", "width,_mm": "50", "dpi": "254"}
    drawn = ElementTree.fromstring(figure(page, "Frame", "SVG", **plain, **wide))
    assert drawn.get("width") == "50mm"
    assert [one.text for one in drawn.iterfind(".//{*}text")] == ["8 px"]
    with Image.open(io.BytesIO(figure(page, "Frame", "PNG"))) as small:  # with what was chosen before
        assert small.width == 500
        assert small.info["dpi"] == pytest.approx((254, 254))
    page.press("6")
    page.wait("vfs.scan.pairs && vfs.scan.status === 'exact'")
    figure(page, "Scan", "SVG", **dict.fromkeys(plain, True))
    wheel = ElementTree.fromstring(figure(page, "Scan", "SVG"))
    assert len(list(wheel.iterfind(".//{*}image"))) == 2  # the scan and the wheel, no bar


def test_the_wheel_of_colours_is_turned_over_as_the_frame_is(browse: Browse, header: Path, page: Browsed) -> None:
    """With `flip_y` the numbers have another sign along y; what is seen is the same."""
    places = [(0, 0), (0, 15), (11, 0), (11, 15), (2, 8), (9, 8), (6, 1)]
    seen = []
    with vfs.serve(header, port=0, flip_y=True) as server:
        for one in (page, browse(server.url).open().settled()):
            one.named("button", "Centre of mass").click()
            one.settled()
            one.wait("vfs.scan.pairs")
            seen.append([one.colour("scan", *place) for place in places])
            one.close()
    turned, straight = np.array(seen, int)
    assert np.abs(turned - straight).max() <= 6
    assert np.abs(turned[:2] - turned[2:4]).max() > 60  # above and below differ


def test_frames_that_are_drawn_upwards_turn_as_they_are_seen(page: Browsed) -> None:
    page.press("d")
    for label, turn in (
        ("turn by a right angle", lambda seen: np.rot90(seen, -1)),
        ("swap rows and columns", np.transpose),
    ):
        page.wait(
            "document.querySelectorAll('.data button[aria-label^=\"frame: \"]').length === 3"
        )  # but top and bottom
        page.named("button", f"frame: {label}").click()
        page.wait("vfs.state.open?.axes")
        page.settled()
        seen = FRAMES[tuple(page.state("at"))][::-1]
        np.testing.assert_array_equal(page.numbers("frame"), turn(seen))
        page.named("button", "As it is served").click()
        page.wait("vfs.state.open === null")
        page.settled()


def test_metadata_is_searched(page: Browsed) -> None:
    page.named("button", "Metadata").click()
    page.wait("document.querySelectorAll('.tree .leaf').length > 5")
    page.page.get_by_label("Search metadata").fill("exposure")
    page.wait("document.querySelectorAll('.tree .leaf').length === 2")
    assert page.page.locator(".tree .leaf .key").all_inner_texts() == ["exposure_time", "exposure_s"]
