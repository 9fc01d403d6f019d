"""Makes the pictures of the manual: `pictures.py FOLDER`, with Chromium, from the examples that the tutorials use.

Each picture is a state of the page, by the address that holds it, or what a command or matplotlib makes.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Page, sync_playwright

import vfs
from tests.page.support import FLAGS
from vfs.cli.demo import SCAN, diffraction
from vfs.cli.demo import SIZE as SIZE_OF_DEMO
from vfs.testing import examples
from vfs.testing.recording import Recording
from vfs.testing.writers import write_mib

SIZE = (1120, 630)
EXACT = "() => window.vfs && vfs.scan.status === 'exact' && vfs.frame.status === 'exact'"
OXYGEN = "rectangle(0,312,1,361)-power(262,310)"  # what the page makes of "532 - 580", with its background
CARBON = "rectangle(0,64,1,113)-power(14,62)"
PATTERN = "frame=gray,gamma,0.4,always,0.1,99.9"


class Pictures:
    """Args: folder: where they go; browser: of playwright."""

    def __init__(self, folder: Path, browser: Any) -> None:
        self.folder, self.browser = folder, browser

    @contextmanager
    def page(self, url: str, view: str = "", dark: bool = False) -> Iterator[Page]:
        width, height = SIZE
        scheme = "dark" if dark else "light"
        context = self.browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        page = context.new_page()
        page.goto(f"{url}#{view}")
        yield page
        context.close()

    def take(
        self,
        name: str,
        url: str,
        view: str = "",
        then: Callable[[Page], None] | None = None,
        height: int = SIZE[1],
        wheel: bool = False,
    ) -> None:
        """Take one picture of the page, or of its upper part, once it shows exact images, or what `then` waits for.

        With a wheel of colours it is dark, and has all its colours but their last bit.
        """
        with self.page(url, view, dark=wheel) as page:
            page.wait_for_function(EXACT) if then is None else then(page)
            self.keep(name, page.screenshot(clip={"x": 0, "y": 0, "width": SIZE[0], "height": height}), wheel)

    def keep(self, name: str, shot: bytes, wheel: bool = False, colours: int = 104) -> None:
        """Save a picture as PNG, of few colours where it has no wheel: drawings and gray images, which stay small.

        The colours cover all that there are, few pixels of one as many: lines and marks keep theirs.
        """
        image = Image.open(io.BytesIO(shot)).convert("RGB")
        if wheel:
            image = image.point(lambda level: level & 0xFE)
        else:
            image = image.quantize(colours, method=Image.Quantize.MAXCOVERAGE, kmeans=2, dither=Image.Dither.NONE)
        image.save(self.folder / f"{name}.png", optimize=True)
        print(f"{name}.png {(self.folder / f'{name}.png').stat().st_size / 1000:.0f} kB")


def particles(pictures: Pictures, first: Path) -> None:
    """The microscopist: a series of frames becomes a scan, and images of it."""
    scan = "array=data&at=13,50&" + PATTERN
    with vfs.serve(first, port=0) as server:
        pictures.take("scan-flat", server.url, PATTERN)

        def guessed(page: Page) -> None:
            page.wait_for_function(EXACT)
            page.keyboard.press("d")
            page.get_by_role("group", name="Guessed scan shapes").get_by_role("button").first.wait_for()

        pictures.take("scan-guess", server.url, PATTERN, guessed)
    with vfs.serve(first, port=0, nav_shape=(64, 96)) as server:
        pictures.take("scan-bright", server.url, scan)
        pictures.take("scan-ring", server.url, scan + "&detector=ring(32,32,10,22)")
        several = "&detectors=disk(32,32,5);ring(32,32,9,14);ring(32,32,14,24)&arrange=tiles"
        pictures.take("scan-several", server.url, scan + several)
        pictures.take(
            "scan-selection", server.url, scan + "&detector=ring(32,32,10,22)&selection=disk(13,50,4)&how=mean"
        )
        pictures.take("page", server.url, scan + "&detector=center_of_mass(32,32,9)", wheel=True)
        moving(pictures, server.url, scan)


def moving(pictures: Pictures, url: str, view: str) -> None:
    """The recording on the first page: the cursor goes over the scan, then a ring is dragged over the pattern."""
    shots: list[bytes] = []
    with pictures.page(url, view + "&detector=disk(32,32,6)", dark=True) as page:
        page.wait_for_function(EXACT)

        def place(which: str, y: float, x: float) -> tuple[float, float]:
            down, across = page.evaluate("([w, y, x]) => vfs[w].onPage(y, x)", [which, y, x])
            return across, down

        def shoot() -> None:
            page.wait_for_timeout(80)
            shots.append(page.screenshot())

        page.mouse.move(*place("scan", 6, 6))
        page.mouse.down()
        for k in range(14):
            page.mouse.move(*place("scan", 6 + 0.9 * k, 6 + 3.5 * k))
            shoot()
        page.mouse.up()
        page.evaluate(f"() => {{ location.hash = {view + '&detector=ring(32,32,9,18)'!r} }}")
        page.wait_for_function(EXACT)
        shoot()
        page.mouse.move(*place("frame", 32, 32))
        page.mouse.down()
        for k in range(1, 15):
            page.mouse.move(*place("frame", 32 - 0.9 * k, 32 + 0.6 * k))
            shoot()
        page.mouse.up()
        page.wait_for_function(EXACT)
        shots += [page.screenshot()] * 3
    frames = [
        Image.open(io.BytesIO(shot)).convert("RGB").resize((896, 504), Image.Resampling.LANCZOS) for shot in shots
    ]
    path = pictures.folder / "moving.webp"
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=140, loop=0, quality=50, method=6)
    print(f"moving.webp {path.stat().st_size / 1000:.0f} kB")


def spectra(pictures: Pictures, maps: Path) -> None:
    """The spectroscopist: a window at an edge, its background, maps of two elements."""
    with vfs.serve(maps, port=0) as server:
        view = "array=data&at=11,31"
        pictures.take("map-first", server.url, view)
        pictures.take("map-oxygen", server.url, f"{view}&detectors={OXYGEN}&elements=C+O")
        pictures.take("map-colours", server.url, f"{view}&detectors={OXYGEN};{CARBON}&arrange=colours&elements=C+O")


def live(pictures: Pictures, first: Path, folder: Path) -> None:
    """The facility: a scan that is still being written."""
    files = sorted(first.parent.glob("*.mib"))
    instrument = Recording(files, folder / "now")
    instrument.write(31_000_000)
    with vfs.serve(instrument.paths[0], port=0, follow=True, nav_shape=(64, 96)) as server:

        def begun(page: Page) -> None:
            page.get_by_text("live").first.wait_for()
            page.wait_for_timeout(4000)

        pictures.take("live", server.url, PATTERN, begun)


def tree(pictures: Pictures, folder: Path) -> None:
    """The data engineer: the folder that `vfs demo --keep demo` leaves."""
    folder.mkdir()
    write_mib(folder, diffraction().reshape(-1, SIZE_OF_DEMO, SIZE_OF_DEMO), frames_per_file=50, scan=SCAN)
    with vfs.serve(folder, port=0, tree=True) as server:

        def listed(page: Page) -> None:
            page.get_by_text("12 × 16 × 64 × 64").wait_for()
            page.wait_for_timeout(2000)  # its small picture

        pictures.take("folder", server.url, "", listed, height=288)


def lantern(pictures: Pictures, folder: Path) -> None:
    """The developer: a movie of the format that the page on adding a format makes, in the page of vfs."""
    text = (Path(vfs.__file__).parent / "docs/adding-a-format.md").read_text()
    about = folder / "vfs_lantern-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: vfs-lantern\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[vfs.formats]\nlantern = vfs_lantern:FORMAT\n")
    code = next(block for block in text.split("```python\n") if block.startswith("# vfs_lantern.py"))
    (folder / "vfs_lantern.py").write_text(code.partition("```")[0])
    made = (
        "import sys; from pathlib import Path; import vfs_lantern; from vfs.testing.examples import patterns;"
        "print(vfs_lantern.write(Path(sys.argv[1]), patterns()[13, 40:60], per_file=8))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(folder), str(Path(vfs.__file__).parents[1])))}
    run: dict[str, Any] = {"env": environment, "capture_output": True, "text": True, "check": True}
    first = subprocess.run([sys.executable, "-c", made, str(folder)], **run).stdout.strip()
    vfs_ = [sys.executable, "-m", "vfs"]
    url = subprocess.run([*vfs_, "serve", first, "--port", "0", "--background"], **run).stdout.strip()
    try:
        pictures.take("lantern", url)
    finally:
        subprocess.run([*vfs_, "unmount", url], **run)


def figure(pictures: Pictures, first: Path) -> None:
    """What `plot` draws of results."""
    import matplotlib as mpl

    mpl.use("agg")
    scan = vfs.open(first, nav_shape=(64, 96), calibration={"scan_y": "2 nm", "scan_x": "2 nm"})
    made = scan.reduce(
        bright=vfs.Disk(32, 32, 5), dark=vfs.Ring(32, 32, 9, 20), centre=vfs.CenterOfMass(), mean=vfs.Mean()
    )
    drawn = io.BytesIO()
    made.plot().savefig(drawn, dpi=90, format="png")
    pictures.keep("results", drawn.getvalue(), colours=256)


def main(folder: Path) -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("pictures: there is no chromium (Debian: sudo apt install chromium)")
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="vfs-pictures-") as temporary, sync_playwright() as driver:
        top = Path(temporary) / "examples"
        first, maps = examples.write(top)
        pictures = Pictures(folder, driver.chromium.launch(executable_path=chromium, args=FLAGS))
        particles(pictures, first)
        spectra(pictures, maps)
        live(pictures, first, Path(temporary))
        tree(pictures, Path(temporary) / "demo")
        lantern(pictures, Path(temporary) / "lantern")
        figure(pictures, first)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
