"""What the tests of the page share: a real browser that looks at a real server."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.waiting import PATIENCE
from vfs.testing.writers import write_mib

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


class Browsed:
    """A page in a browser.

    Args:
        page: of playwright; url: of the server; folder: where pictures of the page go.

    Attributes:
        said: errors and warnings of the console, and requests to other servers.
    """

    def __init__(self, page: Any, url: str, folder: Path) -> None:
        self.page, self.url, self.folder = page, url, folder
        self.said: list[str] = []
        page.set_default_timeout(PATIENCE * 1000)
        page.on("console", lambda message: self._note(message.type, message.text))
        page.on("pageerror", lambda error: self.said.append(f"{error}"))
        page.on("request", lambda request: self._asked(request.url))

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and "willReadFrequently" not in text:  # `colour` reads pixels again and again
            self.said.append(text)

    def _asked(self, url: str) -> None:
        if not url.startswith((self.url, "blob:", "data:")):
            self.said.append(f"asked for {url}")

    def open(self, view: str = "") -> Browsed:
        """Open the page; `view` is what stands behind the # of its address."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.url}{'#' if view else ''}{view}")
        return self

    def wait(self, true: str) -> None:
        """Wait until an expression of JavaScript is true."""
        end = time.monotonic() + PATIENCE
        while not self.page.evaluate(f"() => Boolean({true})"):
            assert time.monotonic() < end, f"{true}: {self.page.inner_text('body')[:500]}"
            time.sleep(0.02)

    def settled(self) -> Browsed:
        """Wait until scan and frame are exact."""
        self.wait("window.vfs && vfs.scan.status === 'exact' && vfs.frame.status === 'exact'")
        return self

    def numbers(self, which: str, what: str = "data") -> np.ndarray:
        """Return the numbers behind a picture, float64[shape]."""
        got = self.page.evaluate(f"() => [Array.from(vfs.{which}.{what}), vfs.{which}.shape]")
        return np.array(got[0], float).reshape(got[1] if what == "data" else (*got[1], 2))

    def state(self, name: str) -> Any:
        return self.page.evaluate(f"() => vfs.state.{name}")

    def at(self, which: str, y: float, x: float) -> tuple[float, float]:
        """Return where on the page a place of a picture is: x and y, as the mouse has them.

        A row that was just shown or hidden gives the picture another size with one of the browser's next frames:
        the place counts once two frames agree on it.
        """
        script = """async ([which, y, x]) => {
            let before = "";
            for (;;) {
                await new Promise((then) => requestAnimationFrame(then));
                const place = vfs[which].onPage(y, x);
                if (String(place) === before) return place;
                before = String(place);
            }
        }"""
        down, across = self.page.evaluate(script, [which, float(y), float(x)])
        return across, down

    def click(self, which: str, y: float, x: float) -> None:
        self.page.mouse.click(*self.at(which, y, x))

    def drag(self, which: str, start: Sequence[float], stop: Sequence[float], steps: int = 5) -> None:
        """Press at a place of a picture and drag, without letting go. Only the last place is exact."""
        self.page.mouse.move(*self.at(which, *start))
        self.page.mouse.down()
        for k in range(1, steps):
            y, x = (a + (b - a) * k / steps for a, b in zip(start, stop, strict=True))
            down, across = self.page.evaluate(f"() => vfs.{which}.onPage({y}, {x})")
            self.page.mouse.move(across, down)
        self.page.mouse.move(*self.at(which, *stop))

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def named(self, role: Any, name: str, exact: bool = True) -> Any:
        """Find a control by its role and accessible name."""
        return self.page.get_by_role(role, name=name, exact=exact)

    def colour(self, which: str, y: float, x: float) -> tuple[int, ...]:
        """Return the colour of the canvas at a place of a picture: red, green, blue, opacity.

        What was asked of the page is drawn with the browser's next frame: what is asked for here comes after it.
        """
        script = """async ([which, y, x]) => {
            await new Promise((then) => requestAnimationFrame(then));
            const canvas = document.getElementById(which);
            const box = canvas.getBoundingClientRect();
            const [top, left] = vfs[which].onPage(y, x);
            const scale = canvas.width / box.width;
            const at = [Math.floor((left - box.left) * scale), Math.floor((top - box.top) * scale)];
            return Array.from(canvas.getContext("2d").getImageData(at[0], at[1], 1, 1).data);
        }"""
        return tuple(self.page.evaluate(script, [which, int(y), int(x)]))

    def text_of(self, panel: str, what: str) -> str:
        """Return the text that an entry of a panel's menu "take away" shows."""
        self.page.locator(f"summary[aria-label='{panel}: take away']").click()
        self.page.get_by_role("group", name=f"{panel}: take away").get_by_role("button", name=what).click()
        area = self.page.locator("dialog textarea")
        text: str = area.input_value()
        self.press("Escape")
        return text

    def close(self) -> None:
        """Close the page, before its server ends."""
        self.page.close()

    def screenshot(self, name: str) -> None:
        """Take a picture of the page, for people, into the folder of the test run."""
        self.page.screenshot(path=self.folder / f"{name}.png")


def download(page: Browsed, panel: str, what: str) -> bytes:
    """Return the file that an entry of a panel's menu "take away" saves."""
    page.page.locator(f"summary[aria-label='{panel}: take away']").click()
    with page.page.expect_download() as waiting:
        page.page.get_by_role("group", name=f"{panel}: take away").get_by_role("button", name=what).click()
    return Path(waiting.value.path()).read_bytes()


def figure(page: Browsed, panel: str, kind: str, **how: str | bool) -> bytes:
    """Return the figure that the dialog of a panel saves; `how`: what is chosen in it, by the names of its fields."""
    page.page.locator(f"summary[aria-label='{panel}: take away']").click()
    page.page.get_by_role("button", name="Figure with bars and caption …").locator("visible=true").click()
    for name, value in how.items():
        field = page.page.locator("dialog").get_by_label(name.replace("_", " "))
        if isinstance(value, bool):
            field.set_checked(value)
        else:
            field.fill(value)
            field.press("Tab")
    with page.page.expect_download() as waiting:
        page.named("button", f"Save the figure as {kind}").click()
    page.press("Escape")
    return Path(waiting.value.path()).read_bytes()


def patterns(scan: tuple[int, int] = (12, 16), size: int = 32) -> np.ndarray:
    """Make diffraction patterns: a bright disk of radius 5.5 around (15.4, 16.2), which moves a little, on weak ground.

    Returns: uint16[scan_y, scan_x, size, size], the same in every call.
    """
    v, u = np.mgrid[-1 : 1 : scan[0] * 1j, -1 : 1 : scan[1] * 1j][..., None, None]
    y, x = np.mgrid[:size, :size]
    far = np.hypot(y - 15.4 - 0.8 * v, x - 16.2 - 0.8 * u)
    thick = np.exp(-4 * (v**2 + u**2))
    image = 200 * (1 - 0.7 * thick) / (1 + np.exp((far - 5.5) * 4)) + 20 * thick * np.exp(-far / 8) + 1
    made: np.ndarray = np.random.default_rng(5).poisson(image).astype(np.uint16)
    return made


def scan_in(folder: Path, frames: np.ndarray, prefix: str = "scan") -> Path:
    """Write a scan as an instrument does. Returns: its header file."""
    scan = (frames.shape[0], frames.shape[1])
    flat = frames.reshape(-1, *frames.shape[2:])
    write_mib(folder, flat, scan=scan, frames_per_file=len(flat) // 3, prefix=prefix)
    return folder / f"{prefix}.hdr"


def plain(text: str) -> str:
    """Write a file name's text as it stands in addresses of the page's state."""
    return re.sub(r"[^\w./-]", lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), text)
