"""The page in a frame of another page, as a notebook's cell shows it: what is looked at travels both ways."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import unquote
from urllib.request import Request, urlopen

import numpy as np
import pytest

import vfs
from vfs.api.showing import PROXIED
from vfs.api.viewing import NOTEBOOKS, View
from vfs.http.guard import framer_of
from vfs.server.process import REACH, finding
from vfs.testing.writers import write_mib

_PAGE = """<!doctype html><title>cell</title><body><script type="module">
import widget from "./view.js";
const held = {url: URL_, view: "array=data", detector: "", height: 500}, listeners = {};
const model = {
  get: (name) => held[name],
  set: (name, value) => (held[name] = value),  // not all notebooks take several
  save_changes: () => (window.saved = (window.saved || 0) + 1),
  on: (name, listener) => (listeners[name] = listener),
  off: (name) => delete listeners[name],
};
window.held = held;
window.want = (change) => listeners["msg:custom"](change);
window.end = widget.render({ model, el: document.body.appendChild(document.createElement("div")) });
window.listeners = listeners;
</script>"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def around(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder, and where a server of another origin shows its pages."""
    folder = tmp_path / "around"
    folder.mkdir()
    (folder / "view.js").write_text(REACH + files("vfs.api").joinpath("view.js").read_text())
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=folder))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    values = np.zeros((12, 32, 32), "u2")
    values[:, 10:22, 10:22] = 50
    return write_mib(tmp_path, values + np.arange(12, dtype="u2")[:, None, None])


def test_a_cell_and_its_page_tell_each_other_what_is_looked_at(
    chromium: Any, around: tuple[Path, str], scan: Path
) -> None:
    folder, where = around
    context = chromium.new_context()
    page = context.new_page()
    with vfs.serve(scan, port=0, nav_shape=(3, 4), embed=list(NOTEBOOKS)) as server:
        (folder / "index.html").write_text(_PAGE.replace("URL_", json.dumps(server.url)))
        page.goto(where)
        page.wait_for_function("window.held.detector.startsWith('disk(')")  # the one that the page found
        assert page.evaluate("window.held.view").startswith("set=scan.zarr&array=data&at=1,2")
        page.evaluate(
            "window.want({at: [2, 3], selection: 'rectangle(0,1,2,3)', detector: 'ring(16,15,4,9)'}),"
            "window.want({at: [9]}), window.want({detector: 'no shape'})"
        )
        page.wait_for_function("window.held.view.includes('selection=rectangle(0,1,2,3)')")
        assert "at=2,3" in page.evaluate("window.held.view")
        assert page.evaluate("window.held.detector") == "ring(16, 15, 4, 9)"
        inner = page.frames[1]
        assert inner.evaluate("window.vfs.state.detector.r1") == 9
        assert "expected" in inner.locator(".banner").inner_text()  # what is no shape is said there
        assert inner.evaluate("document.documentElement.style.colorScheme") == "light"
        page.evaluate("document.body.style.color = '#ddd'")  # a dark theme
        inner.wait_for_function("document.documentElement.style.colorScheme == 'dark'")
        assert inner.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(19, 21, 24)"
        page.evaluate(
            "document.body.dataset.vscodeThemeKind = 'vscode-dark',"  # it scrolls by what it hears of wheels
            "addEventListener('wheel', (event) => event.isTrusted || (window.turned = Math.sign(event.wheelDeltaY)))"
        )
        inner.locator("header.top").hover()
        page.mouse.wheel(0, 100)
        page.wait_for_function("window.turned === -1")
        page.evaluate("window.turned = 0")
        inner.locator("canvas").first.hover()
        page.mouse.wheel(0, 100)  # zooms the picture
        page.evaluate("window.want({selection: ''})")
        page.wait_for_function("!window.held.view.includes('selection')")
        page.evaluate("window.end()")
        assert page.evaluate("Object.keys(window.listeners)") == []
        assert page.evaluate("window.turned") == 0
    context.close()


def test_pages_of_other_origins_do_not_frame_it(chromium: Any, around: tuple[Path, str], scan: Path) -> None:
    folder, where = around
    context = chromium.new_context()
    page = context.new_page()
    with vfs.serve(scan, port=0, embed=["https://hub.example.org"]) as server:
        (folder / "index.html").write_text(_PAGE.replace("URL_", json.dumps(server.url)))
        with page.expect_console_message(lambda message: "frame-ancestors" in message.text):
            page.goto(where)
        assert page.evaluate("window.saved") is None
    context.close()


@pytest.mark.parametrize(
    ("config", "at"),
    [
        ('<script type="application/json" id="jupyter-config-data">{"baseUrl": "/user/j%C3%B6%20b/"}</script>', ""),
        ("", f"user/j%C3%B6%20b/stable-{'53c2f3253b' * 4}/static/out/"),
    ],
    ids=["jupyter", "code-server"],
)
def test_a_cell_finds_its_page_behind_a_proxy_or_says_so(
    chromium: Any, around: tuple[Path, str], config: str, at: str
) -> None:
    folder, where = around
    frame = folder / unquote(at)
    frame.mkdir(parents=True, exist_ok=True)
    (folder / "view.js").rename(frame / "view.js")
    url = "http://127.0.0.1:1/t/x/"  # nobody listens: the kernel is elsewhere
    cell = _PAGE.replace("URL_", json.dumps(url)).replace(
        "<body>", f"<body>{config}{finding('<a href={0}>link</a><img src={0}>'.format, url)}"
    )
    (frame / "index.html").write_text(cell)
    context = chromium.new_context()
    page = context.new_page()
    page.goto(f"{where}{at}")
    page.wait_for_function("document.body.innerText.includes('install jupyter-server-proxy')")
    assert page.locator("a").get_attribute("href") == url
    assert page.locator("img").get_attribute("src") == url
    proxied = folder / "user" / "jö b" / "proxy" / "1" / "t" / "x"
    proxied.mkdir(parents=True)
    (proxied / "index.html").write_text("<!doctype html>the page")
    page.reload()
    page.frame_locator("iframe").get_by_text("the page").wait_for()
    page.wait_for_function("document.links[0].href.includes('proxy')")
    found = f"{where}user/j%C3%B6%20b/proxy/1/t/x/"
    assert page.frames[1].url == f"{found}#array=data"
    assert [link.get_attribute("href") for link in page.locator("a").all()] == [found] * 2
    assert page.locator("img").get_attribute("src") == found
    context.close()


@pytest.mark.parametrize("origin", ["example.org", "https://a b", "https://x; script-src *", "https://x'", "*", ""])
def test_what_is_no_origin_frames_nothing(origin: str) -> None:
    with pytest.raises(vfs.OptionError, match="expected an origin"):
        framer_of(origin)


def test_what_was_drawn_comes_back_as_objects(scan: Path) -> None:
    array = vfs.open(scan, nav_shape=(3, 4))
    view = array.show()
    try:
        assert isinstance(view, View)
        assert (view.detector, view.position, view.selection) == (None, (1, 2), None)
        view.widget.view = "set=scan.zarr&array=data&at=2,0&selection=disk(1,1,1.1)"
        view.widget.detector = "disk(16, 16, 5)"
        assert view.position == (2, 0)
        assert view.detector == vfs.Disk(16, 16, 5)
        chosen = view.selection
        assert chosen is not None
        assert chosen.tolist() == [[False, True, False, False], [True] * 3 + [False], [False, True, False, False]]
        results = array.reduce(roi=chosen, image=view.detector, pattern=vfs.Mean())
        assert results["pattern"].shape == (32, 32)
        view.position, view.selection = (0, 3), vfs.Rectangle(0, 1, 2, 3)
        view.detector = vfs.Ring(16, 16, 5, 9)
        assert (view.position, view.detector) == ((0, 3), vfs.Ring(16, 16, 5, 9))
        assert view.selection is not None
        assert np.argwhere(view.selection).tolist() == [[0, 1], [0, 2], [1, 1], [1, 2]]
        view.selection = None
        assert view.selection is None
        assert array.show()._server is view._server  # no more than one for a set
        with pytest.raises(vfs.RegionError, match="expected an index"):
            view.position = (3, 0)
        with pytest.raises(vfs.OptionError, match="expected a reduction"):
            view.detector = "disk"  # type: ignore[assignment]
        with pytest.raises(vfs.OptionError, match=r"expected vfs\.Rectangle"):
            view.selection = vfs.Point(0, 0)  # type: ignore[assignment]
    finally:
        view.close()
    again = array.show()
    assert again._server.running
    again.close()


@pytest.mark.parametrize("variable", PROXIED)
def test_a_server_of_a_kernel_is_reached_through_a_proxy(
    scan: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "1")
    with vfs.serve(scan, port=0) as server, vfs.serve(scan, port=0, token="none") as open_to_all:
        asked = Request(server.url, headers={"Host": "hub.example.org"})
        with urlopen(asked) as answer:
            assert answer.status == 200
        with pytest.raises(HTTPError, match="400"):  # no secret: a page of another site could ask so
            urlopen(Request(open_to_all.url, headers={"Host": "hub.example.org"}))


def test_without_anywidget_a_cell_still_shows_the_page(scan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anywidget", None)
    monkeypatch.setenv("JUPYTERHUB_SERVICE_PREFIX", "/user/ada/")
    view = vfs.show(scan, height=420)
    try:
        shown = view._repr_mimebundle_()["text/html"]
        place = view.url.partition("://")[2].partition(":")[2].replace("&", "&amp;")
        assert f'<iframe src="/user/ada/proxy/{place}"' in shown
        assert "height:420px" in shown
        with pytest.raises(vfs.DependencyError, match=r"pip install 'vfs\[notebook\]'"):
            view.detector  # noqa: B018
        link = view._server._repr_html_()
        assert f'href="/user/ada/proxy/{place.partition("#")[0]}"' in link
        assert f">{view._server.address}</a>" in link  # the token is not shown
        asked = Request(view.url.partition("#")[0], headers={"Host": "hub.example.org"})  # as a proxy passes it on
        with urlopen(asked) as answer:
            assert answer.status == 200
    finally:
        view.close()
