"""A browser for the tests of the page: Debian's Chromium, driven by playwright."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.page.support import FLAGS, Browsed


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser. It ends with each module: playwright's event loop would be in the way of other tests."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("THE PAGE WAS NOT TESTED: there is no chromium (Debian: sudo apt install chromium)")
    sync_api = pytest.importorskip("playwright.sync_api", reason="THE PAGE WAS NOT TESTED: pip install playwright")
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def browse(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Browsed]]:
    """Opens the page of a server in a window of its own: `browse(url)`. The console must stay silent."""
    folder = tmp_path_factory.getbasetemp() / "page"
    folder.mkdir(exist_ok=True)
    opened = []

    def browse(url: str, width: int = 1280, height: int = 720, dark: bool = True) -> Browsed:
        scheme = "dark" if dark else "light"
        context = chromium.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        browsed = Browsed(context.new_page(), url, Path(folder))
        opened.append((context, browsed))
        return browsed

    yield browse
    for context, browsed in opened:
        context.close()
        assert browsed.said == []
