"""What notebooks show of arrays and groups: whole pages of safe HTML, and no more reading than a small frame costs."""

from __future__ import annotations

import base64
import json
import os
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import vfs
from vfs.pictures import display
from vfs.testing.gatan_writers import write_dm
from vfs.testing.inside import reader_of
from vfs.testing.writers import write_mib, write_npy, write_raw

HOSTILE = "<script>alert('1')</script>\"><img src=x onerror=alert(2)>\n\x1b[31m&amp;"
TAGS = {"div", "table", "tr", "th", "td", "b", "br", "small", "svg", "title", "rect", "line", "img"}


class Page(HTMLParser):
    """The tags of a page with their attributes, and its text; every tag that needs it must be closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("br", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]

    def check(self) -> None:
        assert {tag for tag, _ in self.tags} <= TAGS
        for tag, attrs in self.tags:
            assert not any(name.startswith("on") or name in ("href", "class", "id") for name in attrs), (tag, attrs)
            assert all(
                "url" not in (value or "") and "http" not in (value or "")
                for name, value in attrs.items()
                if name != "src"
            )
            assert (attrs.get("src") or "data:image/png;base64,").startswith("data:image/png;base64,")


def page(shown: vfs.VirtualArray | vfs.VirtualGroup) -> Page:
    found = Page(shown._repr_html_())
    found.check()
    return found


def test_an_array_says_what_it_is(tmp_path: Path) -> None:
    path = write_mib(tmp_path, np.arange(24 * 64, dtype="u2").reshape(24, 8, 8) % 4000, frames_per_file=10, scan=(4, 6))
    shown = page(vfs.open(path, chunks=(1, 3, 8, 8)))
    for said in (
        "scan_y: 4, scan_x: 6, y: 8, x: 8",
        "uint16",
        "3.0 KiB",
        "1 × 3 × 8 × 8 (384 B, 8 chunks)",
        "3 files",
        "scan001.mib and 2 more",
        "scan_y 2, scan_x 3",
    ):
        assert said in shown.text
    scan, frame = (len([line for line in part if line == "line"]) for part in _drawings(shown))
    assert (scan, frame) == (5 + 3, 2 + 2)  # edges of 4 x 2 chunks of the scan, of one chunk of a frame
    (image,) = shown.of("img")
    assert base64.b64decode((image["src"] or "").partition(",")[2]).startswith(b"\x89PNG")
    calibrated = page(vfs.open(write_dm(tmp_path, np.zeros((12, 4, 5), "u2"), units=("1/nm", "1/nm", "s")))).text
    assert "1/nm" in calibrated
    metres = {"x": {"scale": 2e-9, "offset": -4e-8, "unit": "m"}}
    assert "x 2 nm from -40" in page(vfs.open(write_npy(tmp_path, np.zeros((4, 5))), calibration=metres)).text


def _drawings(shown: Page) -> list[list[str]]:
    """Tags of each drawing."""
    names = [tag for tag, _ in shown.tags]
    starts = [k for k, name in enumerate(names) if name == "svg"]
    return [names[a:b] for a, b in zip(starts, [*starts[1:], len(names)], strict=True)]


def test_a_group_lists_its_arrays(tmp_path: Path) -> None:
    path = write_mib(tmp_path, np.zeros((6, 8, 8), "u2"), scan=(2, 3))
    shown = page(vfs.open_group(path))
    for said in ("scan: mib, 3 arrays", "timestamp", "exposure", "scan_y: 2, scan_x: 3, y: 8, x: 8"):
        assert said in shown.text
    assert len(shown.of("img")) == 1


def test_names_from_files_stay_text(tmp_path: Path) -> None:
    folder = tmp_path / "hostile"
    folder.mkdir()
    write_raw(folder, np.zeros((2, 3, 4), "u1"))
    dims = [HOSTILE, "'y'", '"x"']
    blocks = [{"file": 0, "offset": 0, "origin": [0, 0, 0], "shape": [2, 3, 4]}]
    name = HOSTILE.replace("/", "").replace("\n", "") + ".vfs.json"
    said = {"vfs": 1, "dtype": "u1", "shape": [2, 3, 4], "dims": dims, "files": ["part0.bin"], "blocks": blocks}
    (folder / name).write_text(json.dumps(said))
    group = vfs.open_group(folder / name)
    object.__setattr__(
        reader_of(group.main).dataset,
        "attrs",
        {"calibration": {"'y'": {"scale": 2.0, "unit": HOSTILE}, '"x"': {"values": HOSTILE}}},
    )
    for shown in (page(group), page(group.main)):
        assert "<script>alert('1')</script>\"><img src=x onerror=alert(2)>" in shown.text
        assert "\x1b" not in shown.text
        assert len(shown.of("img")) <= 1


@pytest.mark.parametrize("shape", [(), (0, 3, 4), (7,), (2, 1, 1), (3, 100_000, 2), (1, 1, 1, 1, 2, 3), (2, 3, 4)])
def test_every_shape_is_shown(tmp_path: Path, shape: tuple[int, ...]) -> None:
    array = vfs.open(write_npy(tmp_path, np.zeros(shape, "u1")), chunks="64B")
    assert len(array._repr_html_()) < 60_000
    page(array)
    page(array.group)


def test_a_thumbnail_is_not_had_at_any_price(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_npy(tmp_path, np.zeros((2, 30, 40), "u2"))
    monkeypatch.setattr(display, "THUMBNAIL", 2399)
    assert page(vfs.open(path)).of("img") == []
    monkeypatch.setattr(display, "THUMBNAIL", 4096)  # a page of a disk
    assert len(page(vfs.open(path)).of("img")) == 1
    array = vfs.open(path, backend="buffered")
    os.remove(path)
    assert page(array).of("img") == []
