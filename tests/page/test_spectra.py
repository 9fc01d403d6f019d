"""The page of spectra: windows with backgrounds, several at once, marks of elements, spectra that are kept."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal, localcontext
from importlib.resources import files
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import vfs
from tests.formats.hdf5_sets import write_events
from tests.page.support import Browsed, download
from vfs.page.pages import script

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


def test_spectra_are_taken_away_with_their_energies(browse: Browse, url: str) -> None:
    page = browse(url).open(f"detectors={FITS}&at=2,3").settled()
    page.press("k")
    page.click("scan", 4, 1)
    page.wait("vfs.frame.caption === '4, 1' && vfs.frame.status === 'exact' && vfs.frame.others.length === 5")
    head, *rows = csv.reader(io.StringIO(download(page, "Frame", "All lines (CSV)").decode()))
    assert head[0] == "energy loss (eV)"
    assert head[1:3] == ["4, 1", "kept: 2, 3"]
    assert [name.partition(" of ")[0] for name in head[3:]] == ["background", "above background"] * 2
    energies, now, kept = (np.array([float(row[k]) for row in rows]) for k in range(3))
    assert np.array_equal(energies, START + STEP * np.arange(SAMPLES))
    assert np.array_equal(now, spectra()[4, 1])
    assert np.array_equal(kept, spectra()[2, 3])
    assert np.allclose([float(row[4]) for row in rows[120:200]], ABOVE[4, 1], atol=1e-5)
    assert rows[0][3:] == [""] * 4
    text = download(page, "Frame", f"{head[4]} (EMSA .msa)").decode()
    values = np.array([line.split(",") for line in text.splitlines() if not line.startswith("#")], float)
    column = [(float(row[0]), float(row[4])) for row in rows if row[4]]
    assert np.allclose(values, column, rtol=1e-12)
    assert "#XUNITS      : eV" in text
    page.screenshot("spectra-out")
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
        for name, mark in (("constant", "10⁶"), ("decades", "200")):
            page.open(f"set={name}.zarr&frame=grey,log,0.5,always,0.1,99.9")
            page.wait(f"window.vfs && vfs.frame.status === 'exact' && written.includes('{mark}')")
            ticks = page.page.evaluate("() => written.filter((text) => /10[⁵⁶]$/.test(text))")
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


LAW = """
import { powerLaw, POWER_LAW } from "./powerlaw.js";
import { snippet } from "./python.js";
const sums = (cases) => cases.map(([a, b, e0, e1, e2, e3, e4]) => String(powerLaw(a, b, [e0, e1, e2])(e3, e4)));
window.law = { sums, snippet, POWER_LAW };
"""


def exact(a: float, b: float, *edges: float) -> Decimal:
    """Find the sum of A * E**-r over edges[3:], where those over edges[:2] and edges[1:3] are a and b, by bisection."""
    with localcontext() as context:
        context.prec = 40
        e0, e1, e2, e3, e4 = (Decimal(edge) / Decimal(edges[0]) for edge in edges)

        def log(low: Decimal, high: Decimal, p: Decimal) -> Decimal:  # of the integral of E**(p - 1)
            return p * low.ln() + ((((high / low).ln() * p).exp() - 1) / p).ln()

        def small(p: Decimal) -> bool:
            return log(e0, e1, p) - log(e1, e2, p) > wanted

        wanted, low, high = (Decimal(a) / Decimal(b)).ln(), Decimal("-1.1"), Decimal("1.3")
        while not small(low):
            low *= 2
        while small(high):
            high *= 2
        for _ in range(60):
            p = (low + high) / 2
            low, high = (p, high) if small(p) else (low, p)
        return (Decimal(a).ln() + log(e3, e4, p) - log(e0, e1, p)).exp()


def fits() -> Iterator[tuple[float, ...]]:
    """Give sums over two halves and energies: those of which something was wrong once, and random ones."""
    short = [779.875 + 0.25 * x for x in (96, 98, 100, 104, 144)]  # four samples before an edge
    yield from ((a, b, *short) for a, b in [(410, 383), (383, 410), (17, 21), (1, 3), (1, 1), (0.05, 2000.0)])
    yield 16268995.3894926, 2616705.668401648, *(400 + 0.5 * (x - 0.5) for x in (160, 190, 220, 240, 300))  # r = 60
    yield 300, 2, 1e-9, 40.0, 80.0, 90.0, 100.0  # almost from 0 on
    yield 5e-324, 51123.0, 1103.2, 1736.0, 2368.9, 2556.6, 3148.5  # from the least number to almost the largest
    yield 7, 7 / 3, 10.0, 30.0, 90.0, 100.0, 2000.0  # halves of the same length on a logarithmic axis
    for _ in range(120):
        start, step = 10 ** RNG.uniform(-1, 4), 10 ** RNG.uniform(-3, 1)
        half, gap, window = RNG.integers(1, 60, 3)
        about = 10 ** RNG.uniform(0, 6)
        samples = np.cumsum([0, half, half, gap, window])
        yield *(1.0 + RNG.poisson(about, 2)), *(start + step * samples)


@pytest.fixture
def modules(chromium: Any) -> Iterator[Any]:
    """A blank page with what `LAW` takes of the modules."""
    page = chromium.new_page()
    names = [one.name for one in files("vfs.page").joinpath("site").iterdir() if one.name.endswith(".js")]
    read = {name: files("vfs.page").joinpath("site", name).read_text() for name in names}
    page.evaluate(script(read | {"main.js": LAW}))
    yield page
    page.close()


def sums(modules: Any, cases: Sequence[tuple[float, ...]]) -> Iterator[np.ndarray]:
    """Give sums below power laws: as the page computes them, and as the Python does that it gives."""
    given = [[float(number) for number in case] for case in cases]
    yield np.array(modules.evaluate("(cases) => law.sums(cases)", given), float)
    names: dict[str, Any] = {"np": np}
    exec("\n".join(modules.evaluate("() => law.POWER_LAW")), names)
    yield np.array([names["power_law"](np.array([a]), np.array([b]), edges)[0] for a, b, *edges in given])


def test_one_power_law_in_the_page_and_in_its_python(modules: Any) -> None:
    cases = list(fits())
    wanted = np.array([float(exact(*case)) for case in cases])
    assert np.isfinite(wanted).all()
    for made in sums(modules, cases):
        assert np.allclose(made, wanted, rtol=1e-10, atol=0)


def test_no_power_law_where_a_sum_or_an_energy_is_not_above_0(modules: Any) -> None:
    good = [400.0, 420.0, 440.0, 450.0, 470.0]
    none = [(0, 3), (3, 0), (-1, 3), (3, -1), (0, 0), (np.nan, 3)]
    cases = [(a, b, *good) for a, b in none] + [(2, 1, -1.0, *good[1:]), (2, 1, 0.0, *good[1:]), (2, 1, *good)]
    for made in sums(modules, cases):
        assert np.isnan(made).tolist() == [True] * (len(cases) - 1) + [False]


def test_a_line_through_unsigned_sums(modules: Any, tmp_path: Path) -> None:
    """Their difference is below 0, which an unsigned integer cannot be."""
    with h5py.File(tmp_path / "falling.hspy", "w") as file:
        file["one/data"] = np.broadcast_to(np.arange(1000, 400, -1, dtype=np.uint16), (4, 5, 600))
        for k, name in enumerate(["y", "x", "Energy"]):
            file.create_group(f"one/axis-{k}").attrs.update({"name": name, "scale": 1.0, "navigate": k < 2})
    array = {"own": "one/data", "path": "one/data", "main": True, "shape": [4, 5, 600], "nav": 2, "picture": [0, 1]}
    window = {"kind": "rectangle", "y0": 0, "x0": 120, "y1": 1, "x1": 200}
    what = {"kind": "scan", "channels": [{"shape": window, "fit": {"model": "linear", "from": 20, "to": 100}}]}
    recipe = {"paths": [repr(str(tmp_path / "falling.hspy"))], "options": {}, "absent": [], "imports": []}
    told = [recipe, array, what | {"detector": window, "axis": None, "within": [], "blank": False}]
    names: dict[str, np.ndarray] = {}
    exec(modules.evaluate("(told) => law.snippet(...told)", told), names)
    assert not np.any(names["image1"])


def test_elements_that_the_file_lists_are_offered(browse: Browse, tmp_path: Path) -> None:
    path = write_events(tmp_path / "a.emd", np.random.default_rng(1).poisson(0.5, (1, 4, 5, 1000)))
    with h5py.File(path, "a") as file:
        text = '{"elementProperties": [{"element": "8"}], "elementSelection": [\n "8",\n "22"\n ]}'
        file["Data/EdsSpectrumQuantificationSettings/3946"] = [text]
    spectra_of = "Data/SpectrumStream/a1/Spectra"
    assert vfs.open(path, array=spectra_of).metadata["elements"].value == "O Ti"
    (signal,) = vfs.rsciio.file_reader(path, lazy=True, array=spectra_of)
    assert signal["metadata"]["Sample"]["elements"] == ["O", "Ti"]
    with vfs.serve(path, port=0, main=spectra_of) as server:
        page = browse(server.url)
        page.page.add_init_script(WRITTEN)
        page.open().settled()
        offered = page.named("button", "Mark the elements that the file lists")
        assert offered.inner_text() == "O Ti"
        offered.click()
        page.wait("location.hash.includes('elements=O+Ti') && written.some((one) => one.startsWith('Ti '))")
        assert not offered.is_visible()
        page.close()
