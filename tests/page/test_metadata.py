"""What files say, on the page: a line under the name, and a tree that is searched and copied from, by keys too."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import numpy as np
import pytest

import vfs
from tests.page.support import Browsed
from vfs.testing.gatan_writers import write_dm
from vfs.testing.stack_writers import write_mrc

MARKUP = "<img src=x onerror=document.title='seen'>"
TAGS = {
    "Microscope Info": {"Voltage": 300000.0, "Operation Mode": "SCANNING", "Illumination Mode": "STEM NANOPROBE"},
    "Session Info": {"Microscope": MARKUP},
    "DigiScan": {"Sample Time": 10.0},
    **{f"tag {k}": k for k in range(2200)},
    "late": {"deep": {"Camera serial": "K3-0815"}},
}
COPIES = """() => {
    window.copied = [];
    navigator.clipboard.writeText = async (text) => { window.copied.push(text); };
}"""


@pytest.fixture
def page(browse: Callable[..., Browsed], tmp_path: Path) -> Iterator[Browsed]:
    path = write_dm(tmp_path, np.arange(2400, dtype="f4").reshape(40, 60), tags=TAGS, thumbnail=False)
    with vfs.serve(path, port=0) as server:
        shown = browse(server.url).open()
        shown.wait("window.vfs && vfs.frame.status === 'exact'")
        shown.page.evaluate(COPIES)
        yield shown


def test_a_line_says_what_people_ask_first(page: Browsed) -> None:
    assert page.page.locator(".acquired").inner_text() == f"300 kV STEM, 10 µs a pixel, {MARKUP}"
    assert page.page.title() != "seen"
    page.screenshot("said")


def test_all_that_files_say_is_asked_for_and_searched(page: Browsed) -> None:
    asked: list[str] = []
    page.page.on("request", lambda request: asked.append(request.url))
    page.named("button", "Metadata").click()
    page.wait("document.querySelectorAll('.tree .part').length === 3")
    parts = page.page.locator(".tree .part > summary > .key")
    assert parts.all_inner_texts() == ["Acquisition", "Metadata", "All that the files say"]
    assert "beam_energy\n300 keV" in page.page.locator(".tree").inner_text()
    assert not [url for url in asked if "original" in url]
    search = page.page.get_by_label("Search metadata")
    search.fill("serial")
    page.wait("document.querySelectorAll('.tree .leaf').length === 1")  # attributes end before it
    assert page.page.locator(".tree .leaf").inner_text().split("\n")[:2] == ["Camera serial", "K3-0815"]
    assert len([url for url in asked if "api/original/" in url]) == 1
    search.fill("nothing of the kind")
    page.wait("document.querySelector('.tree').innerText === 'Nothing found.'")
    search.fill("")
    page.wait("document.querySelectorAll('.tree .part').length === 3")
    assert not page.page.evaluate("() => document.querySelectorAll('.tree .part')[2].open")
    page.screenshot("metadata")


def test_values_and_trees_are_copied(page: Browsed) -> None:
    page.named("button", "Metadata").click()
    page.page.get_by_label("Search metadata").fill("serial")
    page.wait("document.querySelectorAll('.tree .leaf').length === 1")
    page.page.locator(".tree .leaf").hover()
    page.named("button", "Copy Camera serial").click()
    page.wait("copied.length === 1")
    page.named("button", "Copy deep").press("Enter")  # by a key, and nothing closes
    page.wait("copied.length === 2")
    page.named("button", "Copy what is shown").press("Enter")
    page.wait("copied.length === 3")
    value, below, shown = page.page.evaluate("() => copied")
    assert value == "K3-0815"
    assert json.loads(below) == {"Camera serial": "K3-0815"}
    assert list(json.loads(shown)) == ["All that the files say"]
    assert page.page.locator(".tree .leaf").count() == 1
    assert page.page.locator(".facts .said").inner_text() == "Metadata: copied"


def test_keys_open_the_tree(page: Browsed) -> None:
    page.press("m")
    page.wait("document.querySelectorAll('.tree .part').length === 3")
    page.page.locator(".tree .part").nth(2).locator("summary").first.press("Enter")
    page.wait("document.querySelectorAll('.tree .part')[2].querySelectorAll('summary').length > 1")
    assert page.page.evaluate("() => document.activeElement.textContent.startsWith('All that the files say')")
    assert page.page.evaluate("() => document.querySelectorAll('.tree .part')[2].open")
    page.press("Tab")
    assert page.page.evaluate("() => document.activeElement.getAttribute('aria-label')") == "Copy ApplicationBounds"


def test_a_file_that_is_gone_is_said(page: Browsed, tmp_path: Path) -> None:
    page.named("button", "Metadata").click()
    page.wait("document.querySelectorAll('.tree .part').length === 3")
    (tmp_path / "set.dm3").unlink()
    page.page.locator(".tree .part").nth(2).locator("summary").first.click()
    page.wait("document.querySelector('.facts .said').textContent.includes('set.dm3')")
    assert page.page.locator(".tree .part").count() == 2
    page.said.clear()  # the browser reports the answer 410, or 500


def test_sets_of_a_folder_say_all_too(tmp_path: Path) -> None:
    write_dm(tmp_path, np.ones((4, 6), "f4"), tags=TAGS, thumbnail=False)
    np.save(tmp_path / "plain.npy", np.ones(4))
    with vfs.serve(tmp_path, tree=True, port=0) as server:

        def said(path: str) -> dict[str, Any]:
            with urlopen(f"{server.url}api/{path}") as answer:
                return dict(json.loads(answer.read()))

        known = said("set/set.zarr")
        assert (known["original"], known["said"]) == (True, f"300 kV STEM, 10 µs a pixel, {MARKUP}")
        assert said("original/set.zarr")["ImageList"]["0"]["ImageTags"]["late"] == TAGS["late"]
        assert (said("set/plain.zarr")["original"], said("set/plain.zarr")["said"]) == (False, "")
        with pytest.raises(HTTPError, match="404"):
            said("original/plain.zarr")
        assert said("array/set.zarr/data")["recorded"]["beam_energy"] == "300 keV"


def test_what_is_said_of_each_frame_stands_beside_its_number(browse: Callable[..., Browsed], tmp_path: Path) -> None:
    tilts = [-24.0, 0.5, 24.25]
    frames = np.arange(3 * 4 * 6, dtype="i2").reshape(3, 4, 6)
    path = write_mrc(tmp_path, frames, 1)
    (tmp_path / "set.mrc.mdoc").write_text(
        "PixelSpacing = 3.5\n\n"
        + "\n".join(f"[ZValue = {k}]\nTiltAngle = {tilt}\nExposureDose = {k + 1}\n" for k, tilt in enumerate(tilts))
    )
    with vfs.serve(path, port=0) as server:
        page = browse(server.url).open("at=0")
        page.wait("window.vfs && vfs.frame.status === 'exact'")
        where = page.page.locator(".axis .where")
        page.wait("document.querySelector('.axis .where').textContent.includes('−24°')")
        assert where.inner_text().startswith("of 3 · −24° · ")
        page.page.get_by_role("slider", name="tilt").fill("2")
        page.wait("document.querySelector('.axis .where').textContent.startsWith('of 3 · 24.25° · ')")
        assert page.page.evaluate("() => vfs.state.at[0]") == 2
        top, bottom = (page.at("frame", y, 2)[1] for y in (3, 0))
        assert top < bottom, "row 0 is at the bottom, as 3dmod shows it"
        page.screenshot("tilt")
        page.close()
