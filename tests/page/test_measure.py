"""The page measures: centres of mass as a potential, lines with length and angle, patterns of all positions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import h5py
import numpy as np
import pytest

import vfs
from tests.page.support import Browsed, figure

Browse = Callable[..., Browsed]
HEIGHT, WIDTH, TURN = 18, 24, 25.0
STEP = 0.05  # 1/nm, a pixel of frames


def bumps() -> np.ndarray:
    """Make a smooth potential, float64[HEIGHT, WIDTH]."""
    y, x = np.mgrid[:HEIGHT, :WIDTH].astype(float)
    return np.exp(-((y - 6) ** 2 + (x - 8) ** 2) / 12) - 0.7 * np.exp(-((y - 12) ** 2 + (x - 16) ** 2) / 9)


def frames() -> np.ndarray:
    """Make frames whose centres of mass are the gradient of `bumps`, turned back by TURN.

    Returns: float32[HEIGHT, WIDTH, 16, 16]: four pixels at the middle, weighted.
    """
    fy, fx = np.gradient(bumps())
    c, s = np.cos(np.deg2rad(TURN)), np.sin(np.deg2rad(TURN))
    y, x = -s * fx + c * fy, c * fx + s * fy
    made = np.zeros((HEIGHT, WIDTH, 16, 16), np.float32)
    v, u = 0.5 + y, 0.5 + x
    made[..., 7, 7], made[..., 7, 8] = (1 - v) * (1 - u), (1 - v) * u
    made[..., 8, 7], made[..., 8, 8] = v * (1 - u), v * u
    return made * 1000


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = tmp_path_factory.mktemp("field") / "field.hspy"
    with h5py.File(path, "w") as file:
        file["one/data"] = frames()
        axes = [("y", "nm", 0.4), ("x", "nm", 0.4), ("ky", "1/nm", STEP), ("kx", "1/nm", STEP)]
        for k, (name, unit, step) in enumerate(axes):
            about = {"name": name, "scale": step, "offset": 0.0, "units": unit, "navigate": k < 2}
            file.create_group(f"one/axis-{k}").attrs.update(about)
    with vfs.serve(path, port=0) as server:
        yield server.url


def test_the_potential_of_centres_of_mass(browse: Browse, url: str) -> None:
    page = browse(url).open("detector=center_of_mass(7.5,7.5,6)").settled()
    page.named("combobox", "Centre of mass").select_option("potential")
    page.wait("vfs.scan.caption.startsWith('centre of mass, potential (iCoM), turned by')")
    turn = page.page.evaluate("() => Number(/by (.*)°/.exec(vfs.scan.caption)[1].replace('−', '-'))")
    assert turn == pytest.approx(TURN, abs=1.5)  # differences of a grid have a little curl
    made = page.numbers("scan")
    expected = bumps() - bumps().mean()
    assert np.corrcoef(made.ravel(), expected.ravel())[0, 1] > 0.99
    assert made.max() - made.min() == pytest.approx(np.ptp(expected), rel=0.1)
    page.screenshot("potential")
    names: dict[str, np.ndarray] = {}
    exec(page.text_of("Scan", "Python that makes it"), names)
    assert np.allclose(names["image"], made, atol=1e-12)  # by numpy
    field = page.named("spinbutton", "Scan turned against frames, degrees")
    field.fill("115")
    field.press("Enter")
    page.wait("vfs.scan.caption.endsWith('turned by 115°') && location.hash.includes('turn=115')")
    assert abs(np.corrcoef(page.numbers("scan").ravel(), expected.ravel())[0, 1]) < 0.2  # nothing but curl
    page.named("combobox", "Centre of mass").select_option("x")
    page.wait("vfs.scan.caption === 'centre of mass, x, turned by 115°'")
    exec(page.text_of("Scan", "Python that makes it"), names)
    assert np.allclose(names["image"][..., 1], page.numbers("scan"), atol=1e-12)
    field.fill("")
    field.press("Enter")
    page.named("combobox", "Centre of mass").select_option("potential")
    page.named("button", "Data: correct scan, axes, steps").click()
    page.named("button", "frame: flip left and right").click()  # the centre of mass stays
    page.wait("vfs.scan.caption.endsWith('; flip x for less curl')")
    page.close()


def test_the_length_of_a_line_its_angle_and_its_numbers(browse: Browse, url: str) -> None:
    page = browse(url, dark=False).open("detector=disk(7.5,7.5,4)").settled()
    assert page.page.evaluate("() => vfs.scan.caption").endswith(" · 0.2 1/nm")
    radius = page.named("spinbutton", "Radius, 1/nm")
    assert radius.input_value() == "0.2"
    radius.fill("0.125")
    radius.press("Enter")
    page.wait("vfs.state.detector.r === 2.5 && vfs.scan.status === 'exact'")
    page.named("button", "ADF: annular dark field").click()
    inner, outer = (page.named("spinbutton", f"{which} radius, 1/nm") for which in ("Inner", "Outer"))
    for field, typed in ((outer, "0.31"), (inner, "0.12")):
        field.fill(typed)
        field.press("Enter")
    page.wait("vfs.state.detector.r0 === 2.4 && vfs.state.detector.r1 === 6.2")
    inner.fill("0.4")
    inner.press("Enter")
    assert "less than the outer radius" in inner.evaluate("field => field.validationMessage")
    inner.fill("0.12")
    inner.press("Enter")
    page.named("button", "Frame: line profile").click()
    page.drag("frame", (2, 3), (10, 9))
    page.page.mouse.up()
    said = page.page.get_by_label("Frame profile: length and angle")
    assert said.inner_text() == "0.5 1/nm (10 px) · d 2 nm · −53.1°"
    ends = page.named("textbox", "Frame profile: ends")
    assert ends.input_value() == "2, 3 to 10, 9"
    for typed, length in (("2, 3", "10 px"), ("2, 3 to 2, 27", "24 px"), ("2, 3 to 10, 9", "10 px")):
        ends.fill(typed)
        ends.press("Enter")
        assert ("expected y, x to y, x" in ends.evaluate("field => field.validationMessage")) is (typed == "2, 3")
        assert f"({length})" in said.inner_text()
        assert ("d 0.8333 nm" in said.inner_text()) is (length == "24 px")  # as people say it, also below 1 nm
    page.page.get_by_label("Frame profile: width in pixels").fill("3")
    with page.page.expect_download() as saved:
        page.named("button", "Frame profile: numbers as CSV").click()
    lines = Path(saved.value.path()).read_text().splitlines()
    assert lines[0] == "distance (1/nm),value"
    places = np.array([float(line.split(",")[0]) for line in lines[1:]])
    assert np.allclose(places, np.arange(11) * STEP)
    page.page.mouse.move(*page.at("frame", 7.5, 12))
    readout = page.page.get_by_label("Frame: value under the pointer").inner_text()
    assert "d 4." in readout  # about 4.5 pixels of 0.05 1/nm off the middle
    page.screenshot("measured")
    check_region(page)
    page.close()


def check_region(page: Browsed) -> None:
    """Measure a part of the frame, and compare with numpy."""
    page.page.locator(".frame-panel .stage").focus()
    page.press("r")
    field = page.named("textbox", "Frame region")
    field.fill("rectangle(5, 6, 11, 10)")
    field.press("Enter")
    frame = page.numbers("frame")
    part = frame[5:11, 6:10]
    page.named("combobox", "Frame region: plot").select_option("radial")
    with page.page.expect_download() as saved:
        page.named("button", "Frame region: numbers as CSV").click()
    rows = [line.split(",") for line in Path(saved.value.path()).read_text().splitlines()[1:]]
    found = {row[0].removeprefix("# "): float(row[1]) for row in rows[:6]}
    facts = {"n": part.size, "mean": part.mean(), "std": part.std(), "sum": part.sum()}
    assert found == pytest.approx(facts | {"min": part.min(), "max": part.max()}, rel=1e-12)
    centre = page.state("detector")
    y, x = np.ogrid[:16, :16]
    ring = np.floor(np.hypot(y - centre["cy"], x - centre["cx"]) + 0.5).astype(int)
    radial = [frame[ring == k].mean() for k in range(1, 8)]
    assert [float(row[1]) for row in rows[8:15]] == pytest.approx(radial, rel=1e-12)
    assert float(rows[8][0]) == pytest.approx(STEP)
    page.named("button", "Frame region: Fourier transform").click()
    with page.page.expect_download() as saved:
        page.named("button", "Frame: Fourier transform: numbers (.npy)").click()
    expected = np.abs(np.fft.fftshift(np.fft.fft2(part - part.mean())))
    assert np.allclose(np.load(saved.value.path()), expected, atol=1e-9 * expected.max())
    page.screenshot("transform")
    page.press("Escape")
    page.page.locator(".frame-panel .stage").focus()
    page.press("Escape")
    assert not field.is_visible()


def test_pixels_that_are_not_square(browse: Browse, url: str, tmp_path: Path) -> None:
    steps = {
        "ky": {"scale": 3 * STEP / 20, "unit": "1/angstrom"},
        "y": {"scale": 0.4000004, "unit": "nm"},
    }  # of y: rounded
    oblong = quote(json.dumps({"calibration": steps}))
    page = browse(url, dark=False).open(f"set=field.zarr&open={oblong}").settled()
    for which, expected in (("frame", 1.5), ("scan", 1)):
        (x0, y0), (x1, y1) = page.at(which, 2, 2), page.at(which, 10, 10)
        assert (y1 - y0) / (x1 - x0) == pytest.approx(expected, rel=1e-3)
    page.named("button", "Frame: line profile").click()
    page.drag("frame", (2, 3), (10, 12))  # 12 and 9 widths of a pixel
    page.page.mouse.up()
    said = page.page.get_by_label("Frame profile: length and angle")
    assert said.inner_text() == "0.75 1/nm (12.04 px) · d 1.333 nm · −53.1°"
    page.page.mouse.move(*page.at("frame", 4, 4))
    assert "· 0.3155 1/nm from the middle ·" in page.page.get_by_label("Frame: value under the pointer").inner_text()
    page.screenshot("oblong")
    bars = {}
    for panel in ("Frame", "Scan"):
        bars[panel] = re.findall(r">([\d.]+) (1/nm|nm)</text>", figure(page, panel, "SVG").decode())
    assert bars == {"Frame": [("0.2", "1/nm"), ("0.2", "1/nm")], "Scan": [("2", "nm")]}
    page.page.locator("summary[aria-label='Frame: take away']").click()
    with page.page.expect_download() as waiting:
        page.page.get_by_role("button", name="Image with its scale (TIFF)").locator("visible=true").click()
    waiting.value.save_as(tmp_path / "frame.tif")
    image = vfs.open(tmp_path / "frame.tif")
    np.testing.assert_array_equal(image[...], frames()[HEIGHT // 2, WIDTH // 2])
    steps = {dim: (axis["scale"], axis["unit"]) for dim, axis in image.calibration.items()}
    assert steps == {"y": (pytest.approx(3 * STEP / 2), "1/nm"), "x": (pytest.approx(STEP), "1/nm")}
    page.close()


def test_patterns_of_all_positions(browse: Browse, url: str) -> None:
    page = browse(url).open("detector=disk(7.5,7.5,4)").settled()
    page.named("button", "All positions").click()
    how = page.named("combobox", "Frames of the selection")
    for name, made in {"std": np.std, "max": np.max}.items():
        how.select_option(name)
        word = {"std": "standard deviation", "max": "maximum"}[name]
        page.wait(f"vfs.frame.caption === '{word} of all positions' && vfs.frame.status === 'exact'")
        assert np.allclose(page.numbers("frame"), made(frames().astype(float), axis=(0, 1)), rtol=1e-9)
    page.close()
