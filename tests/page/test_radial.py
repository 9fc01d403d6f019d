"""Radial means in the page: of the frame over rings or ellipses, a map over positions, the ellipse of a ring."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import vfs
from tests.page.support import Browsed, scan_in

CY, CX, RATIO, ANGLE = 23.3, 24.4, 1.06, 30.0
Browse = Callable[..., Browsed]


def distances(ratio: float = RATIO, angle: float = ANGLE, cy: float = CY, cx: float = CX) -> np.ndarray:
    """Return how far each pixel of a frame is from the centre, along the shorter axis of ellipses."""
    y, x = np.mgrid[:48, :48]
    turn = np.deg2rad(angle)
    along, across = (
        (x - cx) * np.cos(turn) + (y - cy) * np.sin(turn),
        (y - cy) * np.cos(turn) - (x - cx) * np.sin(turn),
    )
    found: np.ndarray = np.sqrt((along / ratio) ** 2 + across**2)
    return found


def distorted() -> np.ndarray:
    """Make patterns with a disk and a ring that is an ellipse: uint16[6, 8, 48, 48]."""
    far = distances()
    image = 60 * np.exp(-(((far - 14) / 1.3) ** 2)) + 200 / (1 + np.exp((far - 3.5) * 3)) + 20 * np.exp(-far / 15)
    bright = 0.3 + np.mgrid[:6, :8].sum(axis=0) / 14
    made: np.ndarray = np.random.default_rng(0).poisson(image * bright[..., None, None]).astype(np.uint16)
    return made


FRAMES = distorted()


@pytest.fixture(scope="module")
def header(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scan_in(tmp_path_factory.mktemp("rings"), FRAMES)


@pytest.fixture(scope="module")
def url(header: Path) -> Iterator[str]:
    with vfs.serve(header, port=0) as server:
        yield server.url


def plotted(page: Browsed) -> np.ndarray:
    """Return radius and mean of each ring that the page plots."""
    with page.page.expect_download() as saved:
        page.named("button", "Radial mean: numbers as CSV").click()
    head, *lines = Path(saved.value.path()).read_text().splitlines()
    assert head == "radius (px),mean"
    return np.array([[float(one or "nan") for one in line.split(",")] for line in lines])


def made_by_python(page: Browsed) -> np.ndarray:
    """Return the radial mean that the Python beside the plot makes."""
    page.named("button", "Radial mean: Python that makes it").click()
    names: dict[str, np.ndarray] = {}
    exec(page.page.locator("dialog textarea").input_value(), names)
    page.press("Escape")
    return names["means"]


def mapped(page: Browsed, header: Path) -> np.ndarray:
    """Return the map that vfs makes of the detector of the page."""
    shape = {name: value for name, value in page.state("detector").items() if name != "kind"}
    found: np.ndarray = vfs.open(header).reduce(r=vfs.RadialMean(**shape))["r"].data[..., 0]
    return found


def test_rings_of_a_frame_and_their_map(browse: Browse, url: str, header: Path) -> None:
    page = browse(url).open().settled()
    page.press("7")
    page.settled()
    found = page.state("detector")
    assert (found["cy"], found["cx"]) == pytest.approx((CY, CX), abs=0.3)  # of the disk that was found
    circles = np.floor(distances(1, 0, found["cy"], found["cx"])).astype(int)
    means = [FRAMES[3, 4][circles == k].mean() for k in range(circles.max() + 1)]
    rows = plotted(page)
    assert np.array_equal(rows[:, 0], np.arange(len(means)) + 0.5)
    assert np.array_equal(rows[:, 1], means)
    assert np.array_equal(made_by_python(page), means)
    assert np.array_equal(page.numbers("scan"), mapped(page, header))
    names: dict[str, np.ndarray] = {}
    exec(page.text_of("Scan", "Python that makes it"), names)
    assert np.array_equal(names["image"], page.numbers("scan"))
    strip = page.page.get_by_role("group", name="Radial mean: drag a window")
    box = strip.bounding_box()
    page.page.mouse.click(box["x"] + box["width"] * 0.7, box["y"] + box["height"] / 2)  # one ring
    page.wait("vfs.state.detector.r1 === vfs.state.detector.r0 + 1 && vfs.state.detector.r0 > 10")
    strip.focus()
    page.press("ArrowLeft", "]", "]")
    page.wait("vfs.state.detector.r1 === vfs.state.detector.r0 + 3")
    page.settled()
    r0 = int(page.state("detector")["r0"])
    exact = FRAMES[:, :, (circles >= r0) & (circles < r0 + 3)].mean(axis=-1)
    np.testing.assert_allclose(page.numbers("scan"), exact, rtol=1e-14)
    page.screenshot("radial")


def test_the_ellipse_of_a_ring(browse: Browse, url: str, header: Path) -> None:
    view = "detector=radial_mean(cy=23,cx=24,bins=1,r0=9,r1=19)"
    page = browse(url, dark=False).open(f"{view}&selection=rectangle(0,0,6,8)").settled()
    page.page.get_by_role("button", name="Radial mean: fit").click()
    page.settled()
    found = page.state("detector")
    assert (found["cy"], found["cx"]) == pytest.approx((CY, CX), abs=0.05)
    assert (found["ratio"], found["angle"]) == (pytest.approx(RATIO, abs=0.003), pytest.approx(ANGLE, abs=1))
    assert (found["r0"] + found["r1"]) / 2 == pytest.approx(14, abs=0.2)
    assert np.array_equal(page.numbers("scan"), mapped(page, header))
    rings = np.floor(distances(found["ratio"], found["angle"], found["cy"], found["cx"])).astype(int)
    means = np.bincount(rings.ravel(), FRAMES.mean(axis=(0, 1)).ravel()) / np.bincount(rings.ravel())
    np.testing.assert_allclose(plotted(page)[:, 1], means, rtol=1e-12)
    np.testing.assert_allclose(made_by_python(page), means, rtol=1e-12)
    page.screenshot("ellipse")
    angle = page.named("spinbutton", "Radial mean: angle of the longer axis, degrees from x towards larger y")
    angle.fill("120")
    angle.press("Enter")
    page.wait("vfs.state.detector.angle === -60")
    page.wait("vfs.state.summary")
    turned = page.state("detector")
    end = (turned["cy"], turned["cx"] + turned["r1"])
    turn, length = np.deg2rad(-60), turned["r1"] * turned["ratio"]
    page.drag("frame", (turned["cy"] + length * np.sin(turn), turned["cx"] + length * np.cos(turn)), end)
    preview = page.numbers("scan")
    page.page.mouse.up()
    page.settled()
    assert abs(page.state("detector")["angle"]) < 3
    assert np.corrcoef(preview.ravel(), page.numbers("scan").ravel())[0, 1] > 0.99
    np.testing.assert_allclose(preview, page.numbers("scan"), rtol=0.1)
    page.page.get_by_role("button", name="Radial mean: around the bright-field disk").click()
    page.wait("vfs.state.detector.ratio === 1")
    page.named("button", "Disk detector").click()
    page.settled()
    assert not page.page.get_by_role("group", name="Radial mean: drag a window").is_visible()
    field = page.page.get_by_label("Detector", exact=True).locator("visible=true").last
    field.fill("radial_mean(cy=23, cx=24, bins=3, r0=9, r1=19)")
    field.press("Enter")
    assert "expected 1 for bins" in field.evaluate("field => field.validationMessage")


def test_python_sets_a_radial_mean_as_the_detector(browse: Browse, header: Path) -> None:
    view = vfs.open(header).show()
    try:
        wanted = vfs.RadialMean(23.0, 24.5, bins=1, ratio=1.06, r0=9, r1=19)
        view.detector = wanted
        assert view.detector == wanted
        url, _, shown = view.url.partition("#")
        page = browse(url).open(f"{shown}&detector={view.widget.detector}").settled()
        kept = {"kind": "radial", "cy": 23.0, "cx": 24.5, "bins": 1, "ratio": 1.06, "angle": 0, "r0": 9, "r1": 19}
        assert page.state("detector") == kept
        page.close()
    finally:
        view.close()
