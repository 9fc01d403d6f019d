"""The page of other things than scans: containers, images, lines, numbers, folders, broken files, names with markup."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import h5py
import numpy as np
import pytest
import tifffile

import vfs
from tests.page.support import Browsed, patterns, plain, scan_in

Browse = Callable[..., Browsed]
MARKUP = "<img src=x onerror=document.title='seen'>&amp;"
RNG = np.random.default_rng(3)
COMPLEX = (RNG.normal(size=(6, 5)) + 1j * RNG.normal(size=(6, 5))).astype(np.complex64)
ODD = np.array([[np.nan, 1, 2], [np.inf, -np.inf, 3]], np.float32)
ARRAYS: dict[str, np.ndarray] = {
    "image": RNG.integers(0, 4096, (40, 60), np.uint16),
    "complex": COMPLEX,
    "bool": RNG.random((7, 9)) < 0.5,
    "odd": ODD,
    "pixel": np.array([[7.5]]),
    "line": np.sin(np.arange(300) / 20),
    "column": np.arange(500, dtype=np.float32)[:, None],
    "table": np.cumsum(RNG.normal(size=(90, 3)), axis=0),
    "number": np.array(42.25),
    "empty": np.zeros((0, 5)),
    "long": RNG.integers(-(1 << 40), 1 << 40, (4, 5)),
    MARKUP: np.eye(8, dtype=np.int8),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a container, a scan that will be cut, a movie, and a folder with a name that is markup."""
    made = tmp_path_factory.mktemp("tree")
    with h5py.File(made / "container.h5", "w") as file:
        for name, values in ARRAYS.items():
            file[name] = values
    scan_in(made, patterns())
    below = made / MARKUP.replace("/", "")
    below.mkdir()
    np.save(below / f"{MARKUP}.npy", np.arange(20.0).reshape(4, 5))
    return made


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    with vfs.serve(folder, tree=True, port=0) as server:
        yield server.url


def looked_at(browse: Browse, url: str, key: str, path: str, **more: str) -> Browsed:
    """Open the page on an array."""
    rest = "".join(f"&{name}={value}" for name, value in more.items())
    page = browse(url).open(f"set={plain(key)}&array={plain(path)}{rest}")
    page.wait(f"window.vfs && vfs.state.array === {path!r} && document.querySelector('.viewer:not([hidden])')")
    return page


def test_arrays_of_all_kinds(browse: Browse, url: str) -> None:
    page = looked_at(browse, url, "container.zarr", "image")
    for name in [name for name in ARRAYS if name not in ("empty", "complex", MARKUP)]:
        page.page.locator(".cells").get_by_role("button", name=re.compile(f"^{name} ")).click()
        page.wait(f"vfs.state.array === {name!r} && vfs.frame.status === 'exact'")
        expected = ARRAYS[name].astype(float)
        assert np.array_equal(page.numbers("frame").ravel(), expected.ravel(), equal_nan=True), name
        page.screenshot(f"kind-{name}")


def test_values_that_are_none(browse: Browse, url: str) -> None:
    page = looked_at(browse, url, "container.zarr", "odd")
    page.wait("vfs.frame.status === 'exact'")
    assert page.colour("frame", 0, 0)[3] == 0
    assert page.colour("frame", 1, 0) == (255, 255, 255, 255)
    assert page.colour("frame", 1, 1) == (0, 0, 0, 255)


PARTS = {"abs": np.abs, "phase": np.angle, "real": np.real, "imag": np.imag}


OVER_AT = """async ([down, right]) => {
    await new Promise((then) => requestAnimationFrame(() => requestAnimationFrame(then)));
    const over = document.querySelector(".frame-panel canvas.over");
    const box = over.getBoundingClientRect();
    const [top, left] = vfs.frame.onPage(-0.5, -0.5);
    const scale = over.width / box.width;
    const at = [(Math.max(0, left - box.left) + right) * scale, (Math.max(0, top - box.top) + down) * scale];
    return over.getContext("2d").getImageData(at[0], at[1], 1, 1).data[3];
}"""


def test_complex_numbers(browse: Browse, url: str) -> None:
    page = looked_at(browse, url, "container.zarr", "complex")
    for part, made in PARTS.items():
        before = page.page.evaluate("() => vfs.frame.data && vfs.frame.data[0]")
        page.named("combobox", "Part of the complex numbers").select_option(part)
        page.wait(f"vfs.frame.data && (vfs.frame.data[0] !== {before or 0} || {part!r} === 'abs')")
        assert np.allclose(page.numbers("frame"), made(COMPLEX), rtol=1e-6)
        assert page.page.evaluate("() => vfs.frame.contrast.map") == ("cyclic" if part == "phase" else "grey")
        drawn = page.page.evaluate(OVER_AT, [14 + 20, 20])  # in the corner of the picture, where a wheel is
        assert (drawn > 0) == (part == "phase"), part


def test_an_empty_array_says_so(browse: Browse, url: str) -> None:
    page = looked_at(browse, url, "container.zarr", "empty")
    assert page.page.get_by_text("This array is empty: its shape is 0 × 5.").is_visible()


def test_names_with_markup_stay_names(browse: Browse, url: str) -> None:
    page = looked_at(browse, url, "container.zarr", MARKUP)
    page.wait("vfs.frame.status === 'exact' && document.querySelectorAll('.cells .entry').length === 12")
    page.press("m")
    page.page.locator("summary[aria-label='Frame: take away']").click()
    page.page.get_by_role("button", name="Python that makes it").locator("visible=true").click()
    assert page.page.evaluate("() => document.querySelectorAll('img').length") == 0
    assert MARKUP in page.page.title()
    assert page.page.locator("h1 + .about").inner_text().startswith(MARKUP)
    page.screenshot("markup")


def test_a_folder_and_back(browse: Browse, url: str, folder: Path) -> None:
    page = browse(url).open()
    named = [MARKUP.replace("/", ""), "container", "scan"]
    page.wait("document.querySelectorAll('.folder-list .entry').length === 3")
    page.wait("document.querySelectorAll('.folder-list .thumb canvas').length === 2")
    assert sorted(page.page.locator(".folder-list .name").all_text_contents()) == sorted(named)
    page.screenshot("folder")
    page.page.locator(".folder-list .entry:has(.name:text-is('scan'))").focus()
    np.save(folder / "appears.npy", np.eye(5))
    for count in (4, 3):  # it is looked at again, and what had the focus keeps it
        page.page.evaluate("() => dispatchEvent(new Event('focus'))")
        page.wait(f"document.querySelectorAll('.folder-list .entry').length === {count}")
        page.wait(f"document.querySelectorAll('.folder-list .thumb canvas').length === {count - 1}")  # before it goes
        assert page.page.evaluate("() => document.activeElement.querySelector('.name').textContent") == "scan"
        (folder / "appears.npy").unlink(missing_ok=True)
    page.page.locator(".folder-list .entry").first.focus()
    page.press("End", "Home", "Enter")
    page.wait("document.querySelectorAll('.crumb').length === 2")
    page.wait("document.querySelectorAll('.folder-list .entry').length === 1")
    page.page.locator(".folder-list .entry").click()
    page.wait("vfs.frame.status === 'exact'")
    assert np.array_equal(page.numbers("frame"), np.arange(20.0).reshape(4, 5))
    assert page.page.evaluate("() => document.querySelectorAll('img').length") == 0
    page.named("button", "All sets").click()
    page.wait("document.querySelectorAll('.crumb').length === 2 && !document.querySelector('.folder-list').hidden")
    page.page.go_back()
    page.wait("document.querySelector('.viewer:not([hidden])')")


def test_more_arrays_than_are_asked_for_at_once(browse: Browse, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "many.h5", "w") as file:
        for k in range(300):
            file[f"array{k:04}"] = np.full((2, 2), k, np.int16)
        file["detectorSpecific/table"] = np.arange(100)
    with vfs.serve(tmp_path / "many.h5", port=0) as server:
        page = looked_at(browse, server.url, "many.zarr", "array0007")
        page.wait("vfs.frame.status === 'exact' && document.querySelectorAll('.side .cells .entry').length > 5")
        assert page.page.evaluate("() => document.querySelectorAll('.side .cells .entry').length") < 60
        page.page.get_by_label("Find an array").fill("table")
        page.wait("document.querySelectorAll('.side .cells .entry').length === 1")
        assert page.page.locator(".side .cells .thumb svg").count() == 1, "no picture of what is none"
        page.page.get_by_label("Find an array").fill("0299")
        page.wait("document.querySelectorAll('.side .cells .entry').length === 1")
        page.wait("document.querySelectorAll('.side .cells .thumb canvas').length === 1")
        page.screenshot("many")
        page.page.locator(".side .cells .entry").press("Enter")
        page.wait("vfs.frame.data && vfs.frame.data[0] === 299")
        page.close()


def test_a_scan_of_three_axes(browse: Browse, tmp_path: Path) -> None:
    frames = patterns()
    with vfs.serve(scan_in(tmp_path, frames), port=0, nav_shape=(2, 6, 16)) as server:
        page = browse(server.url).open().settled()
        page.named("slider", "t").press("ArrowLeft")
        page.wait("vfs.state.at[0] === 0 && vfs.frame.caption === '0, 3, 8'")
        page.settled()
        shape = page.state("detector")
        y, x = np.ogrid[:32, :32]
        inside = (y - shape["cy"]) ** 2 + (x - shape["cx"]) ** 2 < shape["r"] ** 2
        assert np.array_equal(page.numbers("scan"), frames[:6][..., inside].sum(axis=-1))
        assert np.array_equal(page.numbers("frame"), frames[3, 8])
        page.page.locator("summary[aria-label='Scan: take away']").click()
        page.page.get_by_role("button", name="Python that makes it").locator("visible=true").click()
        names: dict[str, np.ndarray] = {}
        exec(page.page.locator("dialog textarea").input_value(), names)
        assert np.array_equal(names["image"], page.numbers("scan"))
        page.screenshot("three-axes")
        page.close()


def test_a_movie(browse: Browse, tmp_path: Path) -> None:
    movie = RNG.integers(0, 50, (9, 12, 14), np.uint16)
    np.save(tmp_path / "movie.npy", movie)
    with vfs.serve(tmp_path / "movie.npy", port=0) as server:
        page = browse(server.url).open()
        page.wait("window.vfs && vfs.frame.status === 'exact'")
        page.press("ArrowRight")
        page.wait("vfs.frame.caption === String(vfs.state.at)")
        assert np.array_equal(page.numbers("frame"), movie[page.state("at")[0]])
        page.screenshot("movie")
        page.press("o")  # orthogonal views
        page.click("frame", 4, 9)
        page.wait("String(vfs.state.cross) === '4,9'")
        page.press("ArrowDown")
        page.wait("String(vfs.state.cross) === '5,9' && vfs.state.sides.every((one) => one?.data[0] !== undefined)")
        for side, expected in enumerate((movie[:, :, 9].T, movie[:, 5])):
            page.wait(f"String(vfs.state.sides[{side}].data) === '{','.join(map(str, expected.ravel()))}'")
        boxes = page.page.evaluate("""() => {
            const stages = [".frame-panel .stage", '[data-side="right"]', '[data-side="below"]'];
            const box = ({ left, top, right, bottom }) => [left, top, right, bottom];
            return stages.map((one) => box(document.querySelector(one).getBoundingClientRect()));
        }""")
        frame, right, below = (np.array(box) for box in boxes)
        assert right[:2] == pytest.approx([frame[2] + 6, frame[1]], abs=1)  # beside each other, in one scale
        assert below[:2] == pytest.approx([frame[0], frame[3] + 6], abs=1)
        assert np.divide(*(frame[2:] - frame[:2])) == pytest.approx(14 / 12, rel=0.02)
        assert np.divide(*(right[2:] - right[:2])) == pytest.approx(9 / 12, rel=0.02)
        at = (right[:2] + right[2:]) / 2
        page.page.mouse.click(*at)  # the frame in the middle
        page.wait("vfs.state.at[0] === 4 && vfs.frame.caption === '4'")
        page.screenshot("orthogonal")
        page.press("Escape")
        page.wait("vfs.state.cross === null && !document.querySelector('[data-side]')")
        page.close()


@pytest.mark.parametrize(
    ("unit", "scale", "want"),
    [
        *(("m", 5e-12, "nm"), ("angstrom", 0.05, "Å"), ("eV", 200, "keV"), ("au", 2.5e7, "×10⁹ au")),
        *(
            pytest.param(*one, marks=pytest.mark.thorough)
            for one in (("angstrom", 3.0, "nm"), ("um", 0.5, "µm"), ("eV", 1e-10, "eV"), ("s", 1e-6, "µs"))
        ),
    ],
)
def test_the_axis_of_a_line_has_the_unit_that_people_write(
    browse: Browse, tmp_path: Path, unit: str, scale: float, want: str
) -> None:
    with h5py.File(tmp_path / "line.hspy", "w") as file:
        file["Experiments/one/data"] = np.arange(100.0) * 2.5e6
        about = {"name": "place", "scale": scale, "offset": 0.0, "units": unit, "navigate": False}
        file.create_group("Experiments/one/axis-0").attrs.update(about)
    with vfs.serve(tmp_path / "line.hspy", port=0) as server:
        page = browse(server.url)
        page.page.add_init_script("""
            window.written = [];
            const write = CanvasRenderingContext2D.prototype.fillText;
            CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
                written.push(String(text));
                return write.call(this, text, ...place);
            };
        """)
        page.open()
        page.wait("window.vfs && vfs.frame.status === 'exact' && written.length")
        said = page.page.evaluate("() => written")
        assert f"place ({want})" in said
        assert {"intensity (×10⁸)", "0.5", "2"} <= {*said}
        page.close()


def test_spectra_of_a_scan(browse: Browse, tmp_path: Path) -> None:
    spectra = RNG.integers(0, 99, (6, 8, 900), np.uint16)
    with h5py.File(tmp_path / "si.hspy", "w") as file:
        file["one/data"] = spectra
        for k, (name, unit, navigate) in enumerate([("y", "nm", 1), ("x", "nm", 1), ("Energy", "eV", 0)]):
            about = {"name": name, "scale": 0.5, "offset": 100.0, "units": unit, "navigate": bool(navigate)}
            file.create_group(f"one/axis-{k}").attrs.update(about)
    with vfs.serve(tmp_path / "si.hspy", port=0) as server:
        page = browse(server.url).open().settled()
        assert page.page.locator(".frame-panel h2").inner_text() == "Spectrum"
        assert not page.named("button", "BF: bright field").is_visible()
        assert np.array_equal(page.numbers("scan"), spectra.sum(axis=-1))
        assert np.array_equal(page.numbers("frame"), spectra[3, 4])  # every channel, not binned
        page.wait("vfs.state.summary")
        page.drag("frame", (0, 200), (0, 299))
        page.wait("['preview', 'exact'].includes(vfs.scan.status)")
        page.page.mouse.up()
        page.settled()
        window = page.state("detector")
        assert (window["kind"], abs(window["x0"] - 200) < 3, abs(window["x1"] - 300) < 3) == ("rectangle", True, True)
        assert np.array_equal(page.numbers("scan"), spectra[..., window["x0"] : window["x1"]].sum(axis=-1))
        assert page.page.evaluate("() => vfs.scan.caption").endswith(" eV")
        page.press("ArrowRight", "]")
        page.wait(f"vfs.state.detector.x1 === {window['x1'] + 2}")
        page.settled().screenshot("spectra")
        page.open("detector=disk(3,3,3)").settled()
        assert page.state("detector")["kind"] == "whole"
        page.close()


def test_spectra_of_x_rays_begin_with_their_sum(browse: Browse, tmp_path: Path) -> None:
    spectra = RNG.poisson(0.001, (6, 8, 900)).astype(np.uint16)
    spectra[..., 5] = 50  # noise of the detector, near 0 eV
    spectra[2, 3, 400:403] = 7
    with h5py.File(tmp_path / "eds.hspy", "w") as file:
        file["one/data"] = spectra
        for k, (name, unit, scale) in enumerate([("y", "nm", 1.0), ("x", "nm", 1.0), ("Energy", "eV", 20.0)]):
            about = {"name": name, "scale": scale, "offset": 0.0, "units": unit, "navigate": k < 2}
            file.create_group(f"one/axis-{k}").attrs.update(about)
    with vfs.serve(tmp_path / "eds.hspy", port=0) as server:
        page = browse(server.url).open().settled()
        page.wait("vfs.frame.caption === 'sum of all positions'")
        assert np.array_equal(page.numbers("frame"), spectra.sum(axis=(0, 1)))
        page.named("button", "Window of channels").click()  # around the highest peak
        page.settled()
        assert page.page.evaluate("() => vfs.scan.caption").startswith("7.")  # keV, from 7.92
        assert np.array_equal(page.numbers("scan"), spectra[..., 396:405].sum(axis=-1))
        page.screenshot("x-rays")
        page.click("scan", 2, 3)
        page.wait("vfs.frame.caption === '2, 3' && vfs.frame.status === 'exact'")
        page.named("button", "All positions").click()
        page.page.locator(".scan-panel .stage").focus()
        page.press("ArrowDown")
        page.wait("vfs.frame.caption === '3, 3'")
        page.close()


@pytest.mark.filterwarnings("ignore::vfs.IncompleteWarning")
def test_a_frame_that_nobody_recorded_says_so(browse: Browse, tmp_path: Path) -> None:
    header = scan_in(tmp_path, patterns())
    for file in sorted(tmp_path.glob("*.mib"))[1:]:
        file.unlink()  # 64 of 192 frames are left
    with h5py.File(tmp_path / "parts.h5", "w") as file:
        made = file.create_dataset("data", (4, 5, 32, 32), np.uint8, chunks=(1, 1, 32, 32))
        made[1, 2] = RNG.integers(1, 99, (32, 32))
    for path, begin, empty in [(header, "2, 0", (9, 5)), (tmp_path / "parts.h5", "1, 2", (3, 3))]:
        with vfs.serve(path, port=0, allow_incomplete=True) as server:
            page = browse(server.url).open().settled()
            page.wait(f"vfs.frame.caption === '{begin}'")
            page.click("scan", *empty)
            page.wait("vfs.frame.status === 'not recorded'")
            assert np.isnan(page.numbers("frame")).all()
            assert page.page.locator(".frame-panel .stage").get_attribute("data-blank") == "Nothing was recorded here."
            page.screenshot("not-recorded")
            y, x = empty
            page.open(f"selection=rectangle({y},{x},{y + 1},{x + 2})")
            page.wait("window.vfs && vfs.frame.caption.startsWith('mean') && vfs.frame.status === 'not recorded'")
            page.open(f"at={y},{x}")
            page.wait("window.vfs && vfs.frame.status === 'not recorded'")
            page.page.locator(".scan-panel .stage").focus()
            page.press("Shift+ArrowUp", "Shift+ArrowLeft", *["ArrowRight"] * 2, "ArrowDown")
            page.wait("vfs.frame.caption === '1, 2' && vfs.frame.status === 'exact'")
            assert not page.page.locator(".frame-panel.blank").count()
            page.close()
    with h5py.File(tmp_path / "large.h5", "w") as file:
        made = file.create_dataset("data", (3, 2100, 2100), np.uint8, chunks=(1, 700, 700))
        made[1] = 7
    with vfs.serve(tmp_path / "large.h5", port=0) as server:
        page = browse(server.url).open("at=2")
        page.wait("window.vfs && vfs.frame.status === 'not recorded'")
        page.page.locator(".frame-panel .stage").focus()
        page.press(*["+"] * 8)  # as tiles
        page.wait("vfs.frame.status === 'not recorded' && document.querySelector('.frame-panel.blank')")
        page.page.locator(".axes input[type=range]").press("ArrowLeft")
        page.wait("vfs.frame.status === 'exact' && vfs.frame.caption === '1'")
        page.close()


def test_a_single_frame_has_no_scan_and_a_movie_no_bright_field(browse: Browse, tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", np.arange(600.0).reshape(1, 20, 30))
    with vfs.serve(tmp_path / "one.npy", port=0) as server:
        page = browse(server.url).open()
        page.wait("window.vfs && vfs.frame.status === 'exact'")
        assert not page.page.locator(".scan-panel").is_visible()
        assert not page.page.locator(".axes").is_visible()
        page.close()
    movie = np.arange(3000.0).reshape(5, 20, 30)
    np.save(tmp_path / "movie.npy", movie)
    with vfs.serve(tmp_path / "movie.npy", port=0) as server:
        page = browse(server.url).open().settled()
        page.wait("vfs.state.summary")
        assert not page.named("button", "BF: bright field").is_visible()
        page.press("1", "3")  # no presets by keys, too
        page.named("button", "Rectangle detector").click()
        page.drag("frame", (2, 3), (8, 9))
        page.page.mouse.up()
        page.wait("vfs.state.detector.x1 === 10")
        page.settled()
        assert np.array_equal(page.numbers("scan"), movie[:, 2:9, 3:10].sum(axis=(1, 2)))
        page.close()


def test_a_source_that_breaks_while_it_is_looked_at(browse: Browse, tmp_path: Path) -> None:
    header = scan_in(tmp_path, patterns((12, 16), 64))
    with vfs.serve(header, port=0) as server:
        page = browse(server.url).open().settled()
        page.wait("vfs.state.summary")
        file = max(tmp_path.glob("*.mib"))
        os.truncate(file, file.stat().st_size // 2)
        page.page.locator(".scan-panel .stage").focus()
        page.press("Shift+ArrowDown")
        page.wait("document.querySelector('.banner.error')")
        banner = page.page.locator(".banner.error").first
        assert tmp_path.name in banner.inner_text() or file.name in banner.inner_text()
        page.screenshot("broken")
        page.named("button", "Metadata").click()  # the rest goes on
        assert page.page.get_by_role("complementary", name="Metadata").is_visible()
        page.press("l", "i")
        assert page.page.evaluate("() => vfs.scan.contrast.invert") is True
        page.named("button", "Dismiss").first.click()
        assert all("status of 4" in text for text in page.said)
        page.said.clear()
        page.close()


def test_a_server_that_is_gone(browse: Browse, folder: Path, tmp_path: Path) -> None:
    shutil.copy(next(folder.glob("container.h5")), tmp_path / "container.h5")
    with vfs.serve(tmp_path / "container.h5", port=0) as server:
        page = browse(server.url).open("set=container.zarr&array=image")
        page.wait("window.vfs && vfs.frame.status === 'exact'")
    page.page.locator(".entry").nth(3).click()
    page.wait("document.querySelector('.banner.error')")
    assert "does not answer" in page.page.locator(".banner.error").first.inner_text()
    assert all("ERR_CONNECTION" in text for text in page.said)
    page.said.clear()
    where = urlsplit(page.url)
    token = tmp_path / "token"
    token.write_text(where.path.split("/")[2])
    token.chmod(0o600)
    with vfs.serve(tmp_path / "container.h5", port=where.port, token=str(token)):
        page.page.locator(".entry").nth(1).click()
        page.wait("vfs.frame.status === 'exact' && !document.querySelector('.banner')")
        page.close()


def test_an_old_address_says_what_to_do_in_the_theme_of_the_browser(browse: Browse, url: str) -> None:
    page = browse(url)
    page.page.goto(f"{url[:-4]}old/")
    assert "each start makes a new one" in page.page.inner_text("body")
    assert page.page.evaluate("() => getComputedStyle(document.body).color") == "rgb(255, 255, 255)"  # it is dark
    page.said.clear()  # the status is 401
    page.close()


def test_what_is_wrong_is_said_in_a_banner(browse: Browse, url: str) -> None:
    page = browse(url).open("set=nothing.zarr")
    page.wait("document.querySelector('.banner.error')")
    assert "nothing.zarr" in page.page.locator(".banner.error").inner_text()
    assert all("status of 404" in text for text in page.said)
    page.said.clear()


def test_a_picture_whose_smallest_number_is_white(browse: Callable[..., Browsed], tmp_path: Path) -> None:
    """As Fiji and others show it; the numbers are those that are stored."""
    image = np.repeat(np.arange(40, dtype="u1"), 50).reshape(40, 50)
    tifffile.imwrite(tmp_path / "a.tif", image, photometric="miniswhite")
    tifffile.imwrite(tmp_path / "b.tif", image, photometric="minisblack")
    with vfs.serve([tmp_path / "a.tif", tmp_path / "b.tif"], port=0) as server:
        page = browse(server.url).open()
        page.wait("document.querySelectorAll('.folder-list .thumb canvas').length === 2")
        top = "(one) => one.getContext('2d').getImageData(5, 0, 1, 1).data[0]"
        thumbs = f"[...document.querySelectorAll('.folder-list .thumb canvas')].map({top})"
        assert page.page.evaluate(thumbs) == [255, 0]
        for name, colour in (("a", 255), ("b", 0)):
            page.open(f"set={name}.zarr")
            page.wait(f"window.vfs && vfs.frame.status === 'exact' && location.hash.includes('{name}.zarr')")
            assert page.colour("frame", 0, 5)[0] == colour
            assert np.array_equal(page.numbers("frame").reshape(image.shape), image)
        page.close()
