"""The page of what is odd: names that are no UTF-8, addresses that somebody made up, scans without a disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tifffile

import vfs
from tests.page.support import Browsed, patterns, scan_in
from vfs.testing.backscatter_writers import write_ebsp
from vfs.testing.detector_writers import write_cbf

Browse = Callable[..., Browsed]
VALUES = np.arange(20.0).reshape(4, 5)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A tree with a scan of disks, one of noise, and names that are no UTF-8."""
    made = tmp_path_factory.mktemp("tree")
    scan_in(made, patterns())
    scan_in(made, np.random.default_rng(0).poisson(3, (6, 8, 32, 32)).astype("u2"), "noise")
    below = os.fsencode(made) + b"/caf\xe9 \xf0\x9f\x98\x80"
    os.mkdir(below)
    np.save(made / "plain.npy", VALUES)
    os.rename(made / "plain.npy", below + b"/\xff&+%41=\xc3\xa9.npy")
    with vfs.serve(made, tree=True, port=0) as server:
        yield server.url


def test_names_that_are_no_utf8_open(browse: Browse, url: str) -> None:
    page = browse(url).open()
    page.page.get_by_title("caf", exact=False).click()
    page.page.get_by_title("41=é", exact=False).click()
    for again in range(3):
        page.wait("vfs.frame.status === 'exact'")
        np.testing.assert_array_equal(page.numbers("frame"), VALUES)
        page.wait("location.hash.includes('array=data')")
        if again == 0:  # the address is the view
            page.open(page.page.evaluate("() => location.hash.slice(1)"))
        elif again == 1:
            page.page.reload()
    assert "%E9" in page.state("fragment")
    page.screenshot("no-utf8")


@pytest.mark.parametrize(
    "place",
    [
        "set=../../x",
        "folder=..",
        "folder=a/../..",
        "set=a/./b.zarr",
        "set=%2E%2E/x",
        "set=//evil.example/x",
        "folder=/",
        "set=a//b.zarr",
    ],
)
def test_no_address_leads_out(browse: Browse, url: str, place: str) -> None:
    page = browse(url)
    asked: list[str] = []
    page.page.on("request", lambda request: asked.append(request.url))
    page.open(place)
    page.page.locator(".banner.error").first.wait_for()
    assert "Nothing is called" in page.page.inner_text(".banner.error")
    paths = [one.removeprefix(url) for one in asked]  # the token before them may be any letters
    assert not [one for one in paths if ".." in one or one.startswith("x") or "/x" in one or "./b" in one]


ODD = (
    *(f"scan={name},log" for name in ("constructor", "__proto__", "toString", "hasOwnProperty~", "", "~", "NaN")),
    *(
        f"frame=grey,{curve},{gamma}"
        for curve, gamma in (("constructor", 1), ("gamma", 1e308), ("gamma", -1), ("gamma", "NaN"))
    ),
    *(
        f"scan=grey,linear,1,{mode},{rest}"
        for mode, rest in (("__proto__", "0,1"), ("never", "9,1"), ("always", "-5,1e9"))
    ),
    *(f"frame=grey,log,1,never,0,100,{low},{high}" for low, high in (("NaN", 1), (5, 1), (1, 1), ("-1e308", "1e308"))),
    *(f"at={at}" for at in ("NaN", "1e400,1", "-1,2", "1e300,1e300", "9" * 40 + ",0", "0.5,1", "__proto__,1", ",,,,")),
    *(
        f"{one}=constructor"
        for one in ("how", "side", "part", "detector", "selection", "folder", "__proto__", "toString")
    ),
    *(
        f"detector=disk({text})"
        for text in ("1,1,-5", "NaN,1,1", "1e308,1,1", "1,1,1e308", "__proto__=1,cx=1,cy=1", "", "1,2")
    ),
    *(f"detector=ring({text})" for text in ("1,1,-5,3", "1,1,5,3", "1,1,1e99,1e100")),
    *(
        f"selection={text}"
        for text in ("disk(1,1,-1)", "rectangle(5,5,1,1)", "rectangle(-1e9,-1e9,1e8,1e8)", "disk(1e300,1,1)")
    ),
    "detector=center_of_mass(1,1,-2)&side=constructor",
    "detector=point(1e300,NaN)&how=__proto__",
    "&=&==&%&%zz&at=%FF&detector=%E9",
)


def test_made_up_addresses_break_nothing(browse: Browse, url: str) -> None:
    page = browse(url).open("set=scan.zarr&array=data").settled()
    for odd in ODD:
        page.page.evaluate("(hash) => { location.hash = hash; }", f"set=scan.zarr&array=data&{odd}")
        page.wait("['exact', 'failed'].includes(vfs.frame.status)")  # a selection without a position is an error
    page.wait("vfs.scan.status === 'exact' || vfs.scan.status === 'failed'")
    page.page.evaluate("(hash) => { location.hash = hash; }", "set=scan.zarr&array=data")
    page.settled()
    wrong = [text for text in page.said if "Failed to load resource" not in text]  # a detector without a pixel is 400
    page.said.clear()
    assert wrong == []


def test_a_scan_without_a_disk_says_so(browse: Browse, url: str) -> None:
    page = browse(url).open("set=noise.zarr&array=data").settled()
    assert "No bright-field disk was found" in page.page.inner_text(".banner.notice")
    found = page.state("detector")
    assert (found["cy"], found["cx"], found["r"]) == (15.5, 15.5, 4)
    page.screenshot("no-disk")
    page.named("button", "ADF: annular dark field").click()
    page.settled()
    page.open("set=scan.zarr&array=data").settled()
    assert not page.page.locator(".banner").count()


def test_marks_and_hot_pixels_of_a_pattern_leave_its_contrast_alone(browse: Browse, tmp_path: Path) -> None:
    frame = np.random.default_rng(0).poisson(40, (90, 120)).astype(np.int32)
    frame[5, 7:12] = 900_000
    frame[40:47] = -1
    frame[3, 3] = -2
    header = "# Pixel_size 172e-6 m x 172e-6 m\n# Detector_distance 0.2 m"
    write_cbf(tmp_path / "x_00001.cbf", frame, header=header)
    bits = np.where(frame < 0, 2**32 - 1, frame).astype(np.uint32)
    tifffile.imwrite(tmp_path / "bits.tif", bits)
    with vfs.serve([tmp_path / "x_00001.cbf", tmp_path / "bits.tif"], port=0) as server:
        for key, curve in (("x_00001.zarr", "gamma"), ("bits.zarr", "linear")):
            page = browse(server.url).open(f"set={key}")
            page.wait("window.vfs && vfs.frame.status === 'exact'")
            contrast = page.page.evaluate("() => vfs.frame.contrast")
            assert contrast["curve"] == curve
            assert 10 < contrast["lo"] < contrast["hi"] < 80
            assert float(page.named("slider", "Frame: upper limit").get_attribute("aria-valuemax")) < 300
            page.screenshot(f"marks-{curve}")
            page.close()


@pytest.mark.filterwarnings("ignore::vfs.IncompleteWarning")
def test_a_master_without_its_frames_says_so_first(browse: Browse, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x_master.h5", "w") as file:
        file["entry/data/data_000001"] = h5py.ExternalLink("x_data_000001.h5", "entry/data/data")
        file["entry/instrument/detector/geometry/orientation/value"] = np.arange(6.0)
        file["entry/instrument/detector/detectorSpecific/flatfield"] = np.ones((4, 5))
    with vfs.serve(tmp_path / "x_master.h5", port=0) as server:
        page = browse(server.url).open()
        page.wait("window.vfs && document.querySelector('.panels > .note:not([hidden])')")
        said = page.page.locator(".panels > .note").inner_text()
        assert said.endswith("links to x_data_000001.h5, which is missing")
        assert not page.page.locator(".frame-panel").is_visible()
        page.screenshot("without-frames")
        page.page.get_by_role("button", name="flatfield").first.click()
        page.wait("vfs.frame.status === 'exact'")
        assert page.numbers("frame").shape == (4, 5)
        page.close()


def test_backscatter_patterns_have_no_disk(browse: Browse, tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(20, 200, (4, 5, 24, 30), np.uint8)
    with vfs.serve(write_ebsp(tmp_path, values), port=0) as server:
        page = browse(server.url).open().settled()
        assert page.state("detector") == {"kind": "whole"}
        assert np.array_equal(page.numbers("scan"), values.sum(axis=(2, 3)))
        assert not page.page.locator(".banner").count()
        assert not page.named("button", "ADF: annular dark field").is_visible()
        assert page.page.evaluate("() => vfs.frame.contrast.curve") == "linear"
        page.screenshot("backscatter")
        page.named("button", "Rectangle detector").click()
        page.settled()
        page.page.get_by_label("Background of patterns").select_option("static-subtract")
        page.wait("vfs.frame.caption.endsWith('static background subtracted') && vfs.frame.status === 'exact'")
        shown = page.numbers("frame")
        np.testing.assert_array_equal(shown, (values[2, 2] - values.mean(axis=(0, 1))).astype("f4"))
        found: dict[str, Any] = {}
        exec(page.text_of("Frame", "Python that makes it"), found)
        np.testing.assert_array_equal(found["frame"], shown)
        page.press("v")
        page.wait("vfs.state.channels?.length === 3")
        page.settled()
        page.page.locator(".frame-panel .stage").first.focus()
        page.press("ArrowUp")  # by a cell
        page.wait("vfs.state.detector.y0 === 10")
        page.settled()
        first = values[..., 10:14, 6:12].sum(axis=(2, 3))
        np.testing.assert_array_equal(page.numbers("scan"), first)
        page.click("frame", 2, 20)  # the chosen detector comes to the cell
        page.wait("vfs.state.detector.y0 === 0 && vfs.state.detector.x0 === 18")
        page.settled()
        page.screenshot("virtual-backscatter")
        page.close()
