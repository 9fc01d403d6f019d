"""The page in a headless Chromium: `scripts/bench page`.

The browser is started before; what is measured begins where a person would press Enter. What is on
the canvas is asked of the page itself (`window.vfs`) each time the browser draws.

Until a page can draw anything at all, the browser takes some time. So a bare page is opened, too: one
canvas, one script, one request for numbers that are ready. And the page is opened again when the server
has the image. The exact image is compared with reading all of the data once, as a whole and without
what the bare page takes; and of four times as much data, where reading is most of it. These take
turns, and medians count.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

import vfs
from scripts.benchmarks.rows import Row, Size
from vfs.testing import writers

LATENCY = 50  # ms, added each way
SWITCHES = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]
WATCH = """
window.seen = [];
(function look() {
  const scan = window.vfs && window.vfs.scan;
  const status = scan && scan.data ? scan.status : "";
  const last = window.seen.length ? window.seen[window.seen.length - 1] : null;
  if (status && (!last || last.status !== status)) window.seen.push({ status, at: performance.now() });
  requestAnimationFrame(look);
})();
"""
"""Notes when the state of the scan image changed, in ms since the page was asked for."""
BARE: Mapping[str, tuple[str, bytes]] = {
    "/": (
        "text/html",
        b"<!doctype html><html><head><meta charset=utf-8><script type=module src=bare.js></script></head>"
        b"<body><canvas id=c width=128 height=128></canvas></body></html>",
    ),
    "/bare.js": (
        "text/javascript",
        b"""const answer = await fetch("numbers");
const data = new Float64Array(await answer.arrayBuffer());
const canvas = document.getElementById("c");
const image = new ImageData(128, 128);
const out = new Uint32Array(image.data.buffer);
for (let i = 0; i < out.length; i++) out[i] = 0xff000000 | (data[i] * 0x010101);
canvas.getContext("2d").putImageData(image, 0, 0);
requestAnimationFrame(() => { window.drawn = performance.now(); });
""",
    ),
    "/numbers": ("application/octet-stream", (np.arange(128.0 * 128) % 256).tobytes()),
}
"""A page that only draws numbers: path -> type and body."""
OPENED = 7
"""Times that a page is opened, each by a new server."""
TIMES = 4
"""So many times the data are the larger scan."""
CLICK = """
([y, x]) => new Promise((done) => {
  const before = window.vfs.frame.data;
  const [top, left] = window.vfs.scan.onPage(y, x);
  const canvas = document.getElementById("scan");
  const how = { bubbles: true, clientX: left, clientY: top, pointerId: 1, isPrimary: true, button: 0, buttons: 1 };
  const began = performance.now();
  canvas.dispatchEvent(new PointerEvent("pointerdown", how));
  canvas.dispatchEvent(new PointerEvent("pointerup", { ...how, buttons: 0 }));
  (function look() {
    if (window.vfs.frame.data !== before) requestAnimationFrame(() => done(performance.now() - began));
    else requestAnimationFrame(look);
  })();
})
"""
"""Clicks at a position of the scan, and returns the ms until its frame was drawn."""
DRAG = """
(most) => new Promise((done) => {
  const { cy, cx, r1 } = window.vfs.state.detector;
  const [top, edge] = window.vfs.frame.onPage(cy, cx + r1);
  const middle = window.vfs.frame.onPage(cy, cx)[1];
  const canvas = document.getElementById("frame");
  const send = (type, share) =>
    canvas.dispatchEvent(new PointerEvent(type, { bubbles: true, clientX: middle + (edge - middle) * share,
      clientY: top, pointerId: 1, isPrimary: true, button: 0, buttons: type === "pointerup" ? 0 : 1 }));
  const began = performance.now();
  let moves = 0;
  send("pointerdown", 1);
  requestAnimationFrame(function move() {
    const took = performance.now() - began;
    if (took > most) {
      send("pointerup", 1);
      done([took, moves]);
      return;
    }
    moves += 1;
    send("pointermove", 0.75 + 0.25 * Math.cos(moves / 20));
    requestAnimationFrame(move);
  });
})
"""
"""Drags the edge of a ring for so many ms; returns the ms that it took, and the moves."""
COUNT = """
window.previews = 0;
window.last = null;
(function look() {
  const { data, status } = window.vfs.scan;
  if (status === "preview" && data !== window.last) { window.last = data; window.previews += 1; }
  requestAnimationFrame(look);
})();
"""


def rows(folder: Path, size: Size) -> Iterator[Row]:
    """See the module."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        print("bench: no playwright, so no page: scripts/test installs it", file=sys.stderr)
        return
    chromium = shutil.which("chromium")
    if chromium is None:
        print("bench: no Chromium, so no page: apt install chromium", file=sys.stderr)
        return
    side = 128 if size.seconds else 12
    source = _scan(folder, side, 256 if size.seconds else 64)
    rounds = OPENED if size.seconds else 1
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=SWITCHES)
        _read(source)  # into the page cache
        for late in (False, True):
            said = f", {LATENCY} ms each way" if late else ""
            turns = [
                (_read(source), _bare(browser), *_opened(browser, {"paths": source}, late))
                for _ in range(1 if late else rounds)
            ]
            once, bare, first, exact, again = (statistics.median(times) for times in zip(*turns, strict=True))
            yield Row(f"page: a first scan image{said}", first, "s", "" if said else "≤ 1 s")
            if not late:
                yield Row("page: reading all of it once", once, "s")
                yield Row("page: a bare page's picture", bare, "s")
                yield Row("page: the exact image", exact / once, "of reading all of it once", "≤ 1.3")
                rest = (exact - bare) / once
                yield Row("page: the exact image, after a bare page's", rest, "of reading all of it once", "≤ 1.3")
                yield Row("page: the exact image, opened again", again / once, "of reading all of it once")
            else:
                yield Row(f"page: the exact image{said}", exact, "s")
            with vfs.serve(source, port=0) as server, _page(browser, server.url, late) as page:
                yield from _looked(page, side, size, said)
        yield from _larger(browser, source, side, rounds)
        browser.close()


def _bare(browser: Any) -> float:
    """Return the seconds until a bare page has drawn its numbers."""

    class Answer(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            kind, body = BARE.get(self.path, ("text/plain", b""))
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with _page(browser, f"http://127.0.0.1:{server.server_port}/", False) as page:
            _until(page, "window.drawn")
            seconds = page.evaluate("window.drawn") / 1000
        server.shutdown()
    return float(seconds)


@contextmanager
def _page(browser: Any, url: str, late: bool) -> Iterator[Any]:
    """Open a page in a window of its own."""
    page = browser.new_page(viewport={"width": 1280, "height": 720})
    if late:
        _slow(page)
    page.add_init_script(WATCH)
    page.goto(url)
    yield page
    page.close()


def _opened(browser: Any, how: Mapping[str, Any], late: bool) -> tuple[float, float, float]:
    """Open the page of a new server.

    Returns: the seconds until a first scan image was drawn, and the exact one; these when it is opened again.
    """
    with vfs.serve(port=0, **how) as server:
        (first, exact), (_, again) = (_drawn(browser, server.url, late) for _ in range(2))
    return first, exact, again


def _drawn(browser: Any, url: str, late: bool) -> tuple[float, float]:
    with _page(browser, url, late) as page:
        _until(page, "window.seen.some((one) => one.status === 'exact')")
        seen = page.evaluate("window.seen")
    return seen[0]["at"] / 1000, next(one["at"] for one in seen if one["status"] == "exact") / 1000


def _larger(browser: Any, source: Path, side: int, rounds: int) -> Iterator[Row]:
    """Look at a scan of the same files, each several times: it takes no more of the page cache."""
    files = sorted(str(file) for file in source.parent.glob("*.mib"))
    array = vfs.open(source)
    sig, header = array.shape[2:], int(Path(files[0]).read_bytes()[:16].split(b",")[2])
    how = {"format": "raw", "stored_dtype": ">u2", "sig_shape": sig, "frame_header": header}
    nav, named = (2 * side, TIMES * side // 2), [[file for _ in range(TIMES) for file in files]]
    turns = [
        (
            _read(named[0], nav_shape=nav, **how),
            _opened(browser, {"paths": named, "nav_shape": nav, **how}, False)[1],
        )
        for _ in range(rounds)
    ]
    once, exact = (statistics.median(times) for times in zip(*turns, strict=True))
    yield Row("page: reading four times as much once", once, "s")
    yield Row("page: the exact image of four times as much", exact / once, "of reading all of it once", "≤ 1.3")


def _scan(folder: Path, side: int, pixels: int) -> Path:
    """Write a MIB scan: a disk that wanders, and noise."""
    y, x = np.ogrid[:pixels, :pixels]
    rng, kinds = np.random.default_rng(0), []
    for k in range(64):
        far = np.hypot(y - pixels / 2 - 3 * np.sin(k), x - pixels / 2 - 3 * np.cos(k)) / pixels
        kinds.append((2000 * (far < 0.16) + rng.poisson(20, far.shape)).astype("u2"))
    places = np.indices((side, side)).reshape(2, -1) // 8
    (folder / "page").mkdir()
    frames = np.stack(kinds)[(places[0] * 5 + places[1] * 3) % 64]
    return writers.write_mib(folder / "page", frames, frames_per_file=1024, scan=(side, side))


def _read(paths: Any, **how: Any) -> float:
    """Return the seconds that reading all of a set takes, as the server would."""
    array = vfs.open(paths, backend="buffered", **how)
    began = time.perf_counter()
    for _tile in array.tiles():
        pass
    return time.perf_counter() - began


def _slow(page: Any) -> None:
    """Have answers come later, as from far away."""
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    how = {"offline": False, "latency": 2 * LATENCY, "downloadThroughput": -1, "uploadThroughput": -1}
    session.send("Network.emulateNetworkConditions", how)


def _looked(page: Any, side: int, size: Size, said: str) -> Iterator[Row]:
    """Look at the page as a person does, and take the times."""
    _until(page, "window.seen.some((one) => one.status === 'exact')")
    chance = np.random.default_rng(1)
    times = [page.evaluate(CLICK, chance.integers(1, side - 1, 2).tolist()) for _ in range(30 if size.seconds else 2)]
    yield Row(f"page: click to frame, median{said}", statistics.median(times), "ms", "" if said else "≤ 50 ms")
    _until(page, "window.vfs.state.summary")
    page.evaluate(COUNT)
    seconds, moves = _drag(page, 3.0 if size.seconds else 0.2)
    previews = page.evaluate("window.previews")
    yield Row(f"page: previews while a ring is dragged{said}", previews / seconds, "a second", "≥ 20")
    yield Row(f"page: moves of the pointer{said}", moves / seconds, "a second")


def _until(page: Any, true: str) -> None:
    """Wait until an expression is true. The page's policy forbids the way in which Playwright itself waits."""
    end = time.monotonic() + 600
    while not page.evaluate(true):
        if time.monotonic() > end:
            raise RuntimeError(f"the page never came to {true}")
        time.sleep(0.05)


def _drag(page: Any, seconds: float) -> tuple[float, int]:
    """Drag the outer radius of a ring to and fro, a bit each time that the browser draws.

    Returns: the seconds that it took, and the moves.
    """
    page.keyboard.press("3")
    _until(page, "window.vfs.scan.status === 'exact'")
    took, moves = page.evaluate(DRAG, 1000 * seconds)
    return took / 1000, moves
