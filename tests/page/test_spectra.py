"""The page of spectra: windows with backgrounds, several at once, marks of elements, spectra that are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest

import vfs
from tests.page.support import Browsed

Browse = Callable[..., Browsed]
START, STEP, SAMPLES = 400.0, 0.5, 600  # eV, eV, of spectra
RNG = np.random.default_rng(8)
POWER = RNG.uniform(2, 4, (6, 8))
ABOVE = RNG.uniform(1, 5, (6, 8))  # what each sample of an edge has above the background
LINE = RNG.uniform(-0.01, 0.01, (6, 8))
FITS = "rectangle(0,120,1,200)-power(20,100);rectangle(0,420,1,500)-linear(300,400)"
WRITTEN = """
    window.written = [];
    const write = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
        written.push(String(text));
        return write.call(this, text, ...place);
    };
"""


def spectra() -> np.ndarray:
    """Make spectra without noise: a power law and an edge on it up to sample 250, then a straight line and a hump.

    Returns: float64[6, 8, SAMPLES], each sample the integral of the density over its step.
    """
    edges = START + (np.arange(SAMPLES + 1) - 0.5) * STEP
    r = POWER[..., None]
    made = np.diff(1e9 * edges ** (1 - r) / (1 - r), axis=-1)
    made[..., 110:250] += ABOVE[..., None]
    made[..., 250:] = 50 + LINE[..., None] * np.arange(250, SAMPLES)
    made[..., 420:500] += 2 * ABOVE[..., None]
    made[..., 540:580] = -1  # no power law goes through these
    return made


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = tmp_path_factory.mktemp("spectra") / "si.hspy"
    with h5py.File(path, "w") as file:
        file["one/data"] = spectra()
        for k, (name, unit, start, step) in enumerate(
            [("y", "nm", 0, 1), ("x", "nm", 0, 1), ("Energy", "eV", START, STEP)]
        ):
            about = {"name": name, "scale": float(step), "offset": float(start), "units": unit, "navigate": k < 2}
            file.create_group(f"one/axis-{k}").attrs.update(about)
    with vfs.serve(path, port=0) as server:
        yield server.url


def maps(page: Browsed) -> list[np.ndarray]:
    """Return the numbers of all images of the scan."""
    return [np.array(one).reshape(6, 8) for one in page.page.evaluate("() => vfs.state.maps.map((m) => [...m.data])")]


def test_backgrounds_are_taken_away(browse: Browse, url: str) -> None:
    page = browse(url).open(f"detectors={FITS}").settled()
    first, second = maps(page)
    assert np.allclose(first, 80 * ABOVE, rtol=1e-6)
    assert np.allclose(second, 160 * ABOVE, rtol=1e-9)
    page.wait("vfs.state.summary")
    page.screenshot("backgrounds")
    names: dict[str, np.ndarray] = {}
    exec(page.text_of("Scan", "Python that makes it"), names)
    assert np.allclose(names["image1"], first, rtol=1e-9)
    assert np.allclose(names["image2"], second, rtol=1e-12)
    page.press("b")  # power law -> linear
    page.wait("vfs.state.channels[0].fit.model === 'linear' && vfs.scan.status === 'exact'")
    assert not np.allclose(maps(page)[0], 80 * ABOVE, rtol=1e-3)
    page.press("b")
    page.wait("vfs.state.channels[0].fit === null && vfs.scan.status === 'exact'")
    assert np.allclose(maps(page)[0], spectra()[..., 120:200].sum(axis=-1), rtol=1e-13)
    page.close()


def test_a_background_is_drawn_below_the_spectrum(browse: Browse, url: str) -> None:
    page = browse(url).open(f"detectors={FITS}&at=2,3").settled()
    background, left = (np.array(page.page.evaluate(f"() => [...vfs.frame.others[{k}].data]"), float) for k in range(2))
    spectrum = spectra()[2, 3]
    assert np.allclose(background[20:100], spectrum[20:100], rtol=1e-6)
    assert np.allclose(left[120:200], ABOVE[2, 3], atol=1e-5)
    page.page.mouse.move(*page.at("frame", 0, 99.4))
    page.drag("frame", (0, 99.4), (0, 79.5))  # the upper end of the first background
    page.page.mouse.up()
    page.wait("vfs.state.channels[0].fit.to <= 81 && vfs.scan.status === 'exact'")
    assert np.allclose(maps(page)[0], 80 * ABOVE, rtol=1e-6)  # the same power law
    page.drag("frame", (0, 460), (0, 470))  # a press in another window chooses it
    page.page.mouse.up()
    page.wait("vfs.state.channels[1].shape.x0 === 430")
    assert page.state("channels")[1]["fit"] == {"model": "linear", "from": 310, "to": 410}
    field = page.named("textbox", "Detector")
    field.fill("580 - 600")  # elsewhere, of another width: the background is before it again
    field.press("Enter")
    page.wait("vfs.state.channels[1].shape.x0 === 360")
    assert page.state("channels")[1]["fit"] == {"model": "linear", "from": 240, "to": 340}
    field.fill("all")
    field.press("Enter")
    page.wait("vfs.state.channels[1].shape.kind === 'whole'")
    page.close()


def test_windows_in_colours_and_beside_each_other(browse: Browse, url: str) -> None:
    page = browse(url, dark=False).open("detector=rectangle(0,120,1,200)").settled()
    field = page.named("textbox", "Detector")
    assert field.input_value() == "460 to 499.5 eV"
    page.press("n")  # another one, in colours
    page.wait("vfs.state.channels.length === 2 && vfs.scan.status === 'exact'")
    field.fill("9 - 10 eV")
    field.press("Enter")
    assert "expected a window within 400 to " in field.evaluate("(one) => one.validationMessage")
    field.fill("0.61 - 0.6495 keV")
    field.press("Enter")
    page.wait("vfs.state.channels[1].shape.x0 === 420 && vfs.scan.status === 'exact'")
    both = maps(page)
    assert np.allclose(both[1], spectra()[..., 420:500].sum(axis=-1), rtol=1e-13)
    bright = np.unravel_index(np.argmax(both[1] / both[1].max() - both[0] / both[0].max()), (6, 8))
    red, green, *_ = page.colour("scan", *(int(k) for k in bright))
    assert green > red
    page.screenshot("windows-in-colours")
    page.page.locator(".scan-panel .stage").focus()
    page.press("t", "t")
    page.wait("document.querySelectorAll('.frame-box[data-tiles=\"2\"] .stage').length === 2")
    page.screenshot("windows-as-tiles")
    page.page.locator(".stage[data-place='0']").focus()
    page.press("Enter")  # chooses that tile
    page.wait("location.hash.includes('arrange=tiles') && !location.hash.includes('active')")
    page.press("Delete")
    page.wait("vfs.state.channels.length === 1 && vfs.scan.status === 'exact'")
    assert page.page.locator(".scan-panel .stage").count() == 1
    page.page.add_init_script(WRITTEN)
    page.open(f"detectors={FITS.split(';')[0]};rectangle(0,582,1,598)-power(540,580)&arrange=colours").settled()
    assert np.isnan(np.array(maps(page)[1], float)).all()
    page.wait("written.includes('691 to 698.5 eV: no background fits')")  # it adds nothing to the colours
    page.close()


def test_elements_and_spectra_that_are_kept(browse: Browse, url: str) -> None:
    page = browse(url)
    page.page.add_init_script(WRITTEN)
    page.open().settled()
    field = page.named("textbox", "Elements to mark")
    field.fill("ti, O")
    field.press("Enter")
    page.wait("location.hash.includes('elements=Ti+O') && written.includes('Ti L3 L2') && written.includes('O K')")
    assert page.page.evaluate("() => ['energy loss (eV)', 'intensity'].every((text) => written.includes(text))")
    page.named("combobox", "Marks").select_option("lines")
    page.wait("written.includes('Ti Lα Lβ')")
    field.fill("Xx")
    field.press("Enter")
    assert "expected symbols of elements" in field.evaluate("field => field.validationMessage")
    page.page.locator(".scan-panel .stage").focus()
    page.press("k", "ArrowRight")
    page.wait("vfs.frame.caption === '3, 5' && vfs.frame.others.length === 1")
    assert np.array_equal(page.page.evaluate("() => [...vfs.frame.others[0].data]"), spectra()[3, 4])
    page.screenshot("elements")
    page.named("button", "Leave kept spectra out").click()
    assert page.page.evaluate("() => vfs.frame.others.length") == 0
    page.named("combobox", "Marks").select_option("edges")
    field.fill("Ti O Au")
    field.press("Enter")
    page.named("button", "A window on each marked element, up to four").click()
    page.wait("vfs.state.channels.length === 2 && vfs.scan.status === 'exact'")
    windows = [(one["shape"]["x0"], one["shape"]["x1"], one["fit"]["model"]) for one in page.state("channels")]
    assert windows == [(108, 189, "power"), (264, 345, "power")]  # 40 eV from 453.8 and 532 eV on
    assert page.page.evaluate("() => vfs.scan.caption") == "Ti L3 · 454 to 494 eV above power law"
    assert page.page.locator(".banner").inner_text() == "These spectra hold no main line or edge of Au."
    page.screenshot("maps")
    page.close()


def test_the_ticks_of_a_logarithm_and_of_a_constant(browse: Browse, tmp_path: Path) -> None:
    np.save(tmp_path / "constant.npy", np.full(300, 1e6))
    np.save(tmp_path / "decades.npy", 10.0 ** np.linspace(0, 3.2, 300))
    for name, shape in (("blank", (20, 30)), ("large", (4, 2100)), ("scan", (3, 4, 12, 12))):
        np.save(tmp_path / f"{name}.npy", np.full(shape, np.nan))
    with vfs.serve(tmp_path, tree=True, port=0) as server:
        page = browse(server.url)
        page.page.add_init_script(WRITTEN)
        for name, mark in (("constant", "1e6"), ("decades", "200")):
            page.open(f"set={name}.zarr&frame=grey,log,0.5,always,0.1,99.9")
            page.wait(f"window.vfs && vfs.frame.status === 'exact' && written.includes('{mark}')")
            ticks = page.page.evaluate("() => written.filter((text) => /e[56]$/.test(text))")
            assert len(set(ticks)) > 3 or name == "decades"  # of a constant, too, all are different
        page.open("set=blank.zarr")
        page.wait("document.querySelector('.frame-panel.blank')")
        page.screenshot("blank")
        page.open("set=large.zarr")
        page.wait("document.querySelector('.frame-panel.blank') && vfs.frame.status === 'exact'")
        page.open("set=scan.zarr").settled()
        for keys, what in (("6", "centre of mass"), ("nt", "ring")):  # a wheel, and two images in colours
            page.press(*keys)
            page.wait(f"vfs.scan.status === 'exact' && vfs.scan.caption.startsWith('{what}')")
            assert page.page.locator(".scan-panel.blank").count() == 1
        page.close()
