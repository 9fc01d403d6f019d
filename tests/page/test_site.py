"""The search of the site that `scripts/docs` builds: sections, found from file://, without a server."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import vfs
from tests.sessions import ROOT

PAGE = """<nav>Skip this nav</nav><article><section id="raw"><h1>Raw files<a class="headerlink">¶</a></h1>
<p>Numbers <code>u2</code></p><p>alone.</p><section id="gaps"><h2>Gaps</h2>
<table><tr><td>one</td><td>two</td></tr></table>
<script>no text</script><p>Gap: bytes <em>between</em> the images.</p></section></section></article><p>Not this.</p>"""


@pytest.fixture(scope="module")
def build() -> Any:
    spec = importlib.util.spec_from_file_location("build", ROOT / ".docs/build.py")
    assert spec is not None
    assert spec.loader is not None
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    return build


@pytest.fixture(scope="module")
def sections(build: Any, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    folder = tmp_path_factory.mktemp("site")
    (folder / "raw.html").write_text(PAGE)
    (folder / "changes.html").write_text(
        "<article><section id='c'><h1>Changes</h1><p>The gap is gone. Gap.</p></article>"
    )
    (folder / "genindex.html").write_text(PAGE)
    return build.sections(folder)


def test_every_public_name_has_an_entry(build: Any) -> None:
    made = re.findall(r"^### vfs\.(\w+)$", build.python(), re.M)
    assert sorted(made) == sorted([*vfs.__all__, "virtualizarr"])


def test_a_site_is_taken_apart_into_sections(sections: list[dict[str, str]]) -> None:
    assert sections == [
        {"page": "changes", "anchor": "", "heading": "Changes", "text": "The gap is gone. Gap."},
        {"page": "raw", "anchor": "", "heading": "Raw files", "text": "Numbers u2 alone."},
        {
            "page": "raw",
            "anchor": "gaps",
            "heading": "Raw files › Gaps",
            "text": "one two Gap: bytes between the images.",
        },
    ]


@pytest.mark.parametrize(
    ("question", "headings", "said"),
    [
        ("gap", ["Raw files › Gaps", "Changes"], "2 sections have “gap”."),
        ("gap between images?", ["Raw files › Gaps"], "One section has “gap between images?”."),
        ("numbers of images", ["Raw files › Gaps", "Raw files"], "No section has all"),
        ("twee", ["Raw files › Gaps"], "One section has “twee”."),
        ("t*o one", ["Raw files › Gaps"], "No section has all"),
        ("<b>", [], "No page has “<b>”."),
    ],
)
def test_sections_are_found_where_they_explain(
    question: str, headings: list[str], said: str, sections: list[dict[str, str]], chromium: Any, tmp_path: Path
) -> None:
    shutil.copy(ROOT / ".docs/_static/search.js", tmp_path)
    (tmp_path / "sections.js").write_text(f"window.SECTIONS = {json.dumps(sections)};")
    (tmp_path / "search.html").write_text(
        "<meta charset=utf-8><div id=found></div><script src=sections.js></script><script src=search.js></script>"
    )
    page = chromium.new_page()
    page.goto(f"file://{tmp_path}/search.html")
    page.evaluate("q => { location.search = '?q=' + encodeURIComponent(q) }", question)
    page.wait_for_function("document.querySelector('#found p')")
    assert page.locator("#found p").first.inner_text().startswith(said)
    links = page.locator("#found a").all()
    assert sorted(link.inner_text() for link in links) == sorted(headings)
    if headings and said[0].isdigit():
        assert [link.inner_text() for link in links] == headings
        assert links[0].get_attribute("href") == "raw.html#gaps"
        assert page.locator("mark").first.inner_text() == "Gap"
    page.close()
