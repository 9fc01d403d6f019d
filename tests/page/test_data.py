"""The panel in which a set is corrected: the picture follows what is typed and pressed, and only Save writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

import h5py
import numpy as np
import pytest
import tifffile

import vfs
from tests.page.support import Browsed, patterns, scan_in
from tests.waiting import eventually
from vfs.testing.writers import write_mib

Browse = Callable[..., Browsed]
FRAMES = patterns()
SCAN = FRAMES.shape[:2]


@pytest.fixture
def flat(tmp_path: Path) -> Path:
    """A scan of which only the time stamps tell the shape."""
    count = SCAN[0] * SCAN[1]
    times = np.arange(count) * 1_000_000 + np.arange(count) // SCAN[1] * 5_000_000
    return write_mib(tmp_path, FRAMES.reshape(count, 32, 32), hdr=False, times_ns=times.tolist())


@pytest.fixture
def page(browse: Browse, flat: Path) -> Iterator[Browsed]:
    with vfs.serve(flat, port=0, allow_describe=True, flip_y=True) as server:
        shown = browse(server.url).open()
        shown.wait("window.vfs && vfs.frame.status === 'exact'")
        shown.press("d")
        yield shown
        shown.close()


def field(page: Browsed, name: str) -> object:
    return page.named("textbox", name)


def test_a_guess_is_one_click_away(page: Browsed) -> None:
    guess = page.page.get_by_role("group", name="Guessed scan shapes").get_by_role("button").first
    guess.wait_for()
    assert "12 × 16 time stamps, sure" in guess.inner_text()
    page.screenshot("data-guess")
    guess.click()
    page.wait("vfs.scan.shape?.length === 2")
    page.settled()
    assert page.numbers("scan").shape == SCAN
    assert page.state("detector.kind") == "disk"
    page.screenshot("data-scan")


def test_frames_and_scans_turn(page: Browsed) -> None:
    page.named("textbox", "scan shape").fill("12, 16")
    page.wait("vfs.scan.shape?.length === 2")
    page.settled()
    page.press("Escape")
    page.named("button", "scan: swap rows and columns").click()
    page.wait("vfs.scan.shape[0] === 16")
    page.settled()
    page.named("button", "frame: turn by a right angle").click()
    page.wait("vfs.state.open.axes.includes('x, -y')")
    page.settled()
    y, x = page.state("at")
    np.testing.assert_array_equal(page.numbers("frame"), np.rot90(FRAMES[x, y, ::-1], -1))
    assert page.named("textbox", "order of the axes").input_value() == "scan_x, scan_y | x, -y"
    page.screenshot("data-turned")
    page.wait("location.hash.includes('x,+-y')")
    page.open(page.state("fragment")[1:]).settled()  # the address is the view
    assert page.numbers("scan").shape == SCAN[::-1]
    page.press("d")
    page.named("button", "As it is served").click()
    page.wait("vfs.state.open === null")
    page.named("button", "swap scan and frame").click()
    page.wait("document.querySelector('.top .about').textContent.includes('32 × 32 × 192')")
    assert page.named("textbox", "order of the axes").input_value() == "y, x | frame"
    page.named("button", "As it is served").click()
    page.wait("vfs.state.open === null")


def test_steps_are_typed_and_drawn(page: Browsed) -> None:
    page.named("textbox", "step along x").fill("0.05")
    page.named("textbox", "unit along x").fill("1/nm")
    page.wait("vfs.state.open?.calibration?.x?.unit === '1/nm'")
    page.settled()  # the set that was opened anew is shown
    page.named("textbox", "known distance").fill("3.1 1/nm")
    page.named("button", "draw the known distance in the frame").click()
    assert page.named("button", "draw the known distance in the frame").get_attribute("aria-pressed") == "true"
    page.drag("frame", (10, 0), (10, 31))
    page.page.mouse.up()
    page.named("button", "draw the known distance in the frame").click()
    page.wait("vfs.state.open.calibration.y")
    assert page.state("open.calibration.x.scale") == pytest.approx(0.1, rel=0.02)
    assert page.state("open.calibration.y.unit") == "1/nm"
    page.settled()
    page.screenshot("data-steps")


def test_steps_alone_compute_nothing_and_are_offered_for_the_other_axis(browse: Browse, tmp_path: Path) -> None:
    with vfs.serve(scan_in(tmp_path, patterns()), port=0) as server:
        page = browse(server.url).open().settled()
        page.wait("vfs.state.summary")
        page.press("d")
        page.page.wait_for_selector("[aria-label='step along scan_y']")
        asked: list[str] = []
        page.page.on("request", lambda request: asked.append(request.url.partition("/api/")[2].partition("/")[0]))
        page.named("textbox", "step along scan_y").fill("5")
        page.named("textbox", "unit along scan_y").fill("nm")
        page.wait("vfs.state.open?.calibration?.scan_y?.unit === 'nm'")
        page.named("button", "step along scan_x: 5 nm, as scan_y").click()
        page.wait("vfs.state.open.calibration.scan_x?.scale === 5")
        assert page.named("textbox", "step along scan_x").input_value() == "5"
        page.page.mouse.move(*page.at("scan", 2, 3))
        page.wait("document.querySelector('.scan-panel .readout').textContent.includes('10, 15 nm')")
        assert {*asked} == {"open"}
        page.settled()  # and goes on with the set as it is now
        page.click("scan", 4, 5)
        page.wait("vfs.frame.caption === '4, 5' && vfs.frame.status === 'exact'")
        assert np.array_equal(page.numbers("frame"), patterns()[4, 5])
        page.close()


def test_what_is_wrong_is_said_and_changes_nothing(page: Browsed) -> None:
    page.named("textbox", "order of the axes").fill("frame | y")
    page.page.locator(".field-said.wrong").wait_for()
    assert "each axis once" in page.page.inner_text(".field-said")
    assert page.state("open") is None
    page.screenshot("data-wrong")
    page.named("textbox", "order of the axes").fill("frame | -y, x")
    page.wait("vfs.state.open?.axes === 'frame | -y, x'")
    page.wait("document.querySelector('.field-said').textContent === ''")


def test_only_save_writes(page: Browsed, flat: Path) -> None:
    page.named("textbox", "scan shape").fill("12, 15")
    page.page.get_by_text("nav_shape 12,15 holds 180 frames").wait_for()
    page.named("textbox", "scan shape").fill("12, 16")
    page.wait("vfs.scan.shape?.[1] === 16 && !document.body.innerText.includes('holds 180 frames')")
    assert [one.name for one in flat.parent.iterdir()] == [flat.name]
    page.named("button", "Save as NAME.vfs.json beside the data").click()
    page.wait("document.querySelector('.field-said').textContent.startsWith('saved')")
    said = json.loads((flat.parent / f"{flat.stem}.vfs.json").read_text())
    assert said["options"] == {"nav_shape": "12, 16", "flip_y": True}
    np.testing.assert_array_equal(vfs.open(flat.parent / f"{flat.stem}.vfs.json")[...], FRAMES[:, :, ::-1])


def test_raw_bytes_become_a_picture_as_they_are_described(browse: Browse, flat: Path) -> None:
    (flat.parent / "pixels.bin").write_bytes(bytes(100) + FRAMES.astype(">u2").tobytes())
    with vfs.serve(flat.parent, tree=True, port=0) as server:
        page = browse(server.url, dark=False).open()
        page.page.get_by_title("pixels.bin").click()
        page.named("combobox", "format").select_option("raw")
        page.screenshot("data-raw-begin")
        page.named("combobox", "stored dtype").fill(">u2")
        page.named("textbox", "sig shape").fill("32,32")
        page.page.locator(".field-said.wrong").wait_for()
        page.named("checkbox", "open although something is missing").check()
        page.wait("window.vfs && vfs.frame.status === 'exact'")
        page.named("checkbox", "open although something is missing").uncheck()
        page.named("textbox", "file header").fill("100")
        page.wait("vfs.state.open?.file_header === 100 && !vfs.state.open.allow_incomplete")
        page.wait("vfs.frame.status === 'exact'")
        page.named("textbox", "scan shape").fill("12,16")
        page.wait("vfs.scan.shape?.length === 2")
        page.settled()
        y, x = page.state("at")
        np.testing.assert_array_equal(page.numbers("frame"), FRAMES[y, x])
        page.screenshot("data-raw")
        assert sorted(one.name for one in flat.parent.iterdir()) == ["pixels.bin", flat.name]
        page.close()


def test_the_address_of_what_does_not_open_says_why(browse: Browse, flat: Path) -> None:
    (flat.parent / "cut.npy").write_bytes(b"\x93NUMPY\x01\x00")
    with vfs.serve(flat.parent, tree=True, port=0) as server:
        page = browse(server.url).open("set=cut.npy")
        page.page.locator(".field-said.wrong").wait_for()
        assert "cut.npy: expected a .npy header, the file ends after 8 bytes" in page.page.inner_text(".field-said")
        page.close()


def test_numbered_files_are_one_stack(browse: Browse, tmp_path: Path) -> None:
    for k in range(12):
        tifffile.imwrite(tmp_path / f"img_{k}.tif", np.full((20, 30), k, "u2"))
    tifffile.imwrite(tmp_path / "other.tif", np.zeros((20, 30), "u2"))
    with vfs.serve(tmp_path, tree=True, port=0, allow_describe=True) as server:
        page = browse(server.url).open("set=img_3.zarr")
        page.wait("window.vfs && vfs.frame.status === 'exact'")
        page.press("d")
        page.named("checkbox", "open these files as one stack").check()
        page.wait("document.querySelector('.top .about').textContent.includes('12 × 20 × 30')")
        page.wait("vfs.frame.status === 'exact' && vfs.frame.data[0] === vfs.state.at[0]")
        page.named("button", "Save as NAME.vfs.json beside the data").click()
        page.wait("document.querySelector('.field-said').textContent.startsWith('saved ')")
        page.open("set=other.zarr").wait("window.vfs && vfs.frame.status === 'exact'")
        page.press("d")
        page.named("checkbox", "concatenate").wait_for()
        assert not page.named("checkbox", "open these files as one stack").count()
        page.close()
    (saved,) = tmp_path.glob("*.vfs.json")
    assert vfs.open(saved)[:, 0, 0].tolist() == list(range(12))


def test_single_files_of_a_stack(browse: Browse, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    for k in range(130):
        tifffile.imwrite(tmp_path / f"run/img_{k}.tif", np.full((20, 30), k, "u2"))
    with vfs.serve(tmp_path, tree=True, port=0) as server:
        page = browse(server.url).open("folder=run")
        entries = page.page.get_by_role("list", name="Folders and sets").get_by_role("button")
        page.page.get_by_text("stack of 130 files").wait_for()
        assert entries.count() == 1
        files = page.named("button", "Numbered images each by itself, not as one stack")
        files.focus()
        page.press("Enter")
        page.page.get_by_title("img_3\n20 × 30 · uint16").wait_for()
        page.wait("location.hash === '#folder=single~/run'")
        assert page.page.locator("h1").inner_text() == "run"
        assert page.page.get_by_role("navigation", name="Folder").inner_text().split() == ["All", "run"]
        assert files.get_attribute("aria-pressed") == "true"
        page.screenshot("single-files")
        page.page.get_by_role("searchbox", name="Find a set").fill("img_12")
        page.wait("document.querySelectorAll('.folder-list .entry').length === 11")  # of all, beyond the first hundred
        page.page.get_by_title("img_127\n").click()
        page.wait("window.vfs && vfs.frame.status === 'exact' && vfs.frame.data[0] === 127")
        found: dict[str, np.ndarray] = {}
        exec(page.text_of("Frame", "Python that makes it"), found)
        assert (found["frame"] == 127).all()
        address = page.text_of("Frame", "Address of the zarr array")
        assert urlopen(f"{address}/zarr.json", timeout=30).status == 200
        page.named("button", "All sets").click()
        files.click()
        page.page.get_by_text("stack of 130 files").wait_for()
        page.close()
    with vfs.serve(tmp_path, tree=True, single_files=True, port=0) as server:
        page = browse(server.url).open("folder=run")
        page.page.get_by_title("img_3\n").wait_for()
        assert not page.named("button", "Numbered images each by itself, not as one stack").count()
        page.close()


def test_arrays_are_hidden_and_brought_back(browse: Browse, flat: Path) -> None:
    with vfs.serve(flat.parent, tree=True, port=0, allow_describe=True) as server:
        page = browse(server.url, width=1700).open("set=scan.zarr")
        page.wait("window.vfs && vfs.frame.status === 'exact'")
        page.press("d", "s")
        listed = "document.querySelectorAll('.array-list .entry').length"
        page.wait(f"{listed} === 3")
        page.named("checkbox", "show timestamp").focus()
        page.press("Space")
        page.wait(f"vfs.state.open?.hide?.length === 1 && {listed} === 2")
        page.screenshot("data-hidden")
        page.named("button", "Save as NAME.vfs.json beside the data").click()
        page.wait("document.querySelector('.field-said').textContent.startsWith('saved ')")
        assert list(vfs.open_group(flat.parent / "scan.vfs.json")) == ["data", "exposure"]

        def arrays() -> int:  # the folder is looked at again within a second or two
            with urlopen(f"{server.url}api/set/scan.zarr") as known:
                return len(json.loads(known.read())["arrays"])

        assert eventually(lambda: arrays() == 2)
        page.open("set=scan.zarr").wait("window.vfs && vfs.frame.status === 'exact'")
        page.press("d", "s")
        page.wait(f"{listed} === 2")
        assert not page.named("checkbox", "show timestamp").is_checked()
        page.named("combobox", "main array").select_option("exposure")
        page.wait("vfs.state.open?.main === 'exposure' && vfs.state.array === 'exposure'")
        assert page.named("textbox", "step along frame").count() == 1
        page.page.locator(".array-list .entry").nth(1).click()  # the main one is the first
        page.wait("vfs.state.array === 'data'")
        assert page.named("textbox", "step along frame").count() == 0  # it would be that of the main array
        page.named("button", "take data as the main array").focus()
        page.press("Enter")
        page.wait("vfs.state.open?.main === 'data' && document.querySelector('[aria-label=\"step along frame\"]')")
        page.named("combobox", "main array").select_option("exposure")
        page.wait("vfs.state.array === 'exposure'")
        page.screenshot("data-main")
        page.named("button", "Save as NAME.vfs.json beside the data").click()
        page.wait("document.querySelector('.field-said').textContent.startsWith('saved ')")
        saved = vfs.open_group(flat.parent / "scan.vfs.json")
        assert (set(saved), saved.main.shape) == ({"data", "exposure"}, (192,))
        page.named("combobox", "main array").select_option("")
        page.wait("vfs.state.array === 'data'")
        page.named("checkbox", "show timestamp").check()
        page.wait(f"{listed} === 3")
        page.close()


def test_a_folder_shows_files_that_are_not_opened_yet(browse: Browse, flat: Path) -> None:
    entry = {"name": flat.name, "kind": "unopened", "key": flat.name}
    listed = {"path": "", "entries": [entry], "more": False, "tree": True}
    with vfs.serve(flat.parent, tree=True, port=0) as server:
        page = browse(server.url)
        page.page.route("**/api/list/**", lambda route: route.fulfill(json=listed))
        page.open()
        page.wait("document.querySelector('.looking:not([hidden])')")
        assert page.page.inner_text(".looking") == "Still looking; files not opened yet: 1"
        page.page.locator(".entry").click()
        page.settled()
        page.page.go_back()
        page.wait("document.querySelector('.looking:not([hidden])')?.offsetParent")
        page.page.unroute("**/api/list/**")
        page.wait("document.querySelector('.looking').hidden")
        assert page.page.inner_text(".entry .name") == "scan"
        page.close()


def test_a_folder_says_what_is_in_it(browse: Browse, flat: Path) -> None:
    np.save(flat.parent / "a_very_long_name_that_nobody_can_read_to_its_end_0042.npy", np.zeros((40, 50), "f4"))
    (flat.parent / "cut.npy").write_bytes(b"\x93NUMPY\x01\x00")
    (flat.parent / "below").mkdir()
    with vfs.serve(flat.parent, tree=True, port=0) as server:
        page = browse(server.url).open()
        page.wait("document.body.innerText.includes('192 × 32 × 32 · uint16')")
        page.wait("document.body.innerText.includes('40 × 50 · float32')")
        text = page.page.inner_text(".folder-list")
        assert "mib · 4" in text
        assert "cut.npy" in page.page.inner_text(".entry.broken")
        assert "expected" in page.page.inner_text(".entry.broken .about")
        page.screenshot("folder-tiles")
        page.named("combobox", "Order").select_option("largest")
        names = page.page.locator(".entry .name").all_inner_texts()
        assert [name.replace("\n", "")[:6] for name in names] == ["below", "scan", "a_very", "cut.np"]
        page.named("button", "As a list").click()
        page.screenshot("folder-list")
        page.named("searchbox", "Find a set").fill("0042")
        assert page.page.locator(".entry").count() == 1
        page.close()


def test_dead_pixels_of_the_mask_are_left_out_or_replaced(browse: Browse, tmp_path: Path) -> None:
    frames, mask = FRAMES.astype("u4"), np.zeros((32, 32), "u4")
    mask[:, 15:17], mask[3, 4] = 1, 2  # a gap through the disk, and a dead pixel
    frames[..., mask > 0] = 2**32 - 1
    with h5py.File(tmp_path / "scan_master.h5", "w") as file:
        file["entry/data/data"], file["entry/instrument/detector/pixel_mask"] = frames, mask
    with vfs.serve(tmp_path / "scan_master.h5", port=0) as server:
        page = browse(server.url).open().settled()
        for caption in ("vfs.scan.caption", "vfs.frame.caption"):
            assert page.page.evaluate(caption).endswith(" · without 65 masked pixels")
        shown = page.numbers("frame")
        assert np.isnan(shown[mask > 0]).all()
        assert page.page.evaluate("vfs.frame.contrast.hi") < 1e6  # as of good pixels
        names: dict[str, np.ndarray] = {}
        exec(page.text_of("Frame", "Python that makes it"), names)
        assert np.array_equal(names["frame"], shown, equal_nan=True)
        exec(page.text_of("Scan", "Python that makes it"), names)
        assert np.array_equal(names["image"], page.numbers("scan"))
        page.screenshot("masked-pixels")
        page.press("d")
        page.page.get_by_role("checkbox", name="replace the dead pixels of the mask").click()
        page.wait("vfs.state.open?.dead === 'mask' && !vfs.frame.caption.includes('masked')")
        page.settled()
        assert page.numbers("frame").max() < 1e6
        page.close()
