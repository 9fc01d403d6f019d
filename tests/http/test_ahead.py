"""What the server begins with before the page asks; and the bright-field disk that it begins with."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.http.support import Asgi, application_of
from tests.waiting import PATIENCE, until
from vfs.engine.cache import ChunkCache
from vfs.folder_tree.plans import folder, folder_tree
from vfs.page import ahead, computing
from vfs.page.centre import centre
from vfs.page.first_look import IMAGE
from vfs.reduce.bright_field import find_disk
from vfs.server.application import Application
from vfs.testing.inside import reader_of, set_of
from vfs.testing.writers import write_mib, write_npy

SCAN, SIZE = (12, 16), 24
Y, X = np.mgrid[:SIZE, :SIZE]


def disk(cy: float, cx: float, r: float) -> np.ndarray:
    return np.where(np.hypot(Y - cy, X - cx) < r, 100, 2).astype(np.uint16)


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    frames = np.stack([disk(11.2 + k % 3 / 10, 9.4, 5) for k in range(SCAN[0] * SCAN[1])])
    return write_mib(tmp_path, frames, scan=SCAN, frames_per_file=64)


def shown(*paths: Path, **options: Any) -> Application:
    groups = [vfs.open_group(path, backend="buffered", **options) for path in paths]
    return application_of(folder([set_of(group) for group in groups], ChunkCache()))


@pytest.mark.parametrize("wanted", [(11, 9, 5), (4, 18.5, 3), (12, 12, 8)])
def test_the_disk_is_found(wanted: tuple[float, float, float]) -> None:
    pattern = disk(*wanted).astype(float)
    pattern[22, 1] = 800  # one hot pixel
    assert find_disk(pattern, 1)[:3] == pytest.approx(wanted, abs=0.6)
    whole = find_disk(pattern, 4)
    assert whole.found
    assert whole[:3] == pytest.approx([(wanted[0] + 0.5) * 4 - 0.5, (wanted[1] + 0.5) * 4 - 0.5, wanted[2] * 4], abs=2)


def test_of_several_spots_the_brightest_is_the_disk() -> None:
    pattern = 12.0 * (np.hypot(Y - 5, X - 5) < 3) + 50.0 * (np.hypot(Y - 16, X - 16) < 6)
    pattern[1, 12:22:2] = 11  # many small ones
    assert find_disk(pattern, 1)[:3] == pytest.approx((16, 16, 6), abs=0.6)


def test_a_disk_with_a_slit_is_one_spot_and_a_ring_is_none() -> None:
    """Two runs in each row above the middle are connected below it, whichever comes first."""
    slit = disk(12, 12, 6).astype(float)
    slit[:12, 12] = 0
    assert find_disk(slit, 1)[:2] == pytest.approx((12, 12), abs=0.5)
    ring = ((np.hypot(Y - 12, X - 12) < 10) & (np.hypot(Y - 12, X - 12) > 6)).astype(float)
    assert not find_disk(ring * 100, 1).found


@pytest.mark.parametrize("value", [0.0, 7.0])
def test_where_nothing_is_brighter_the_disk_is_in_the_middle(value: float) -> None:
    assert find_disk(np.full((20, 30), value), 2) == (19.5, 29.5, 5.0, False)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("nav", [(1, 1), (3, 3)])
def test_pixels_whose_sum_no_float_holds(tmp_path: Path, nav: tuple[int, ...]) -> None:
    signs = np.where(np.arange(16) % 2, 1.0, -1.0) * np.ones((*nav, 16, 1))
    found = [
        centre(reader_of(vfs.open(write_npy(tmp_path, signs * size, name=f"{size}.npy"))), (), ChunkCache())
        for size in (1, 1.7e308)
    ]
    assert found[1] == found[0]


def test_the_disk_is_asked_for(scan: Path) -> None:
    application = shown(scan)
    found = told(application, "/api/centre/scan.zarr/data")
    assert [found[name] for name in ("cy", "cx", "r")] == pytest.approx([11.3, 9.4, 5], abs=0.5)
    assert told(shown(scan, nav_shape=(2, 6, 16)), "/api/centre/scan.zarr/data?within=1") == pytest.approx(
        found, abs=0.3
    )
    for path in ("data?within=1", "timestamp", "nothing", "data?within=a"):
        done = asyncio.run(Asgi(application, f"/api/centre/scan.zarr/{path}").run())
        assert done.status in (400, 404), path


def told(application: Application, path: str) -> Any:
    done = asyncio.run(Asgi(application, path).run())
    assert done.status == 200, done.body
    return json.loads(done.body)


async def page(application: Application) -> None:
    """Ask for the page, as a browser, `curl` or a crawler does."""
    assert (await Asgi(application, "/").run()).status == 200


def asked(application: Application, **more: Any) -> bytes:
    """The request that the page sends first."""
    found = vfs.open(application.contents.at("scan.zarr").source_files(False)[0])
    cy, cx, r, _ = centre(found._reader, (), ChunkCache())
    body = {"results": {IMAGE: f"disk({cy:g}, {cx:g}, {r:g})"}, "region": None, "within": [], "coarse": True}
    return json.dumps(body | more).encode()


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computing, "STEP", 2 * SCAN[1] * SIZE * SIZE * 2)
    monkeypatch.setattr(computing, "QUICK", 0)


@pytest.mark.usefixtures("small_steps")
def test_the_image_is_there_when_the_page_asks(scan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "PATIENCE", 600)  # kernels may have to be compiled
    application = shown(scan)

    async def look() -> bytes:
        await page(application)
        await until(lambda: application.api.ahead.made == SCAN[0] // 2)
        misses = application.contents.cache.misses
        done = await Asgi(application, "/api/compute/scan.zarr/data", "POST", asked(application)).run()
        assert application.contents.cache.misses == misses
        await page(application)  # again: nothing is left to be made
        return done.body

    body = asyncio.run(look())
    found = centre(vfs.open(scan)._reader, (), ChunkCache())
    expected = vfs.open(scan).reduce(image=vfs.Disk(*found[:3]))["image"].data
    for first in range(0, SCAN[0], 2):
        assert expected[first : first + 2].astype(float).tobytes() in body


@pytest.mark.usefixtures("small_steps")
def test_it_ends_where_nobody_asks(scan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "PATIENCE", 0.2)
    application = shown(scan)
    rows = computing.Computation._rows

    def slowly(self: Any, first: int) -> np.ndarray:
        time.sleep(0.1)
        return rows(self, first)

    monkeypatch.setattr(computing.Computation, "_rows", slowly)

    async def look() -> int:
        await page(application)
        await until(lambda: application.api.ahead._task.done())
        return int(application.api.ahead.made)

    assert asyncio.run(look()) < SCAN[0] // 2
    assert application.api.computing.waiting == 0


@pytest.mark.usefixtures("small_steps")
def test_another_computation_ends_it(scan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "PATIENCE", 600)
    application = shown(scan)
    met, meet, rows = threading.Event(), ahead.Ahead.met, computing.Computation._rows

    def waits(self: Any, first: int) -> np.ndarray:
        assert not application.api.ahead.made or met.wait(PATIENCE)
        return rows(self, first)

    monkeypatch.setattr(ahead.Ahead, "met", lambda *of: (meet(*of), met.set()))
    monkeypatch.setattr(computing.Computation, "_rows", waits)

    async def look() -> int:
        await page(application)
        await until(lambda: application.api.ahead.made >= 1)
        other = asked(application, results={IMAGE: "disk(1, 2, 3)"})
        done = await Asgi(application, "/api/compute/scan.zarr/data", "POST", other).run()
        assert done.status == 200
        assert application.api.ahead._task.done()
        return int(application.api.ahead.made)

    assert asyncio.run(look()) < SCAN[0] // 2


def test_nothing_is_begun_of_what_is_no_scan(scan: Path, tmp_path: Path) -> None:
    below = tmp_path / "below"
    below.mkdir()
    image = write_npy(below, np.zeros((30, 40)))
    movie = write_npy(tmp_path, np.zeros((5, 30, 40)), name="movie.npy")
    for application in (shown(image), shown(movie), shown(scan, image), application_of(folder_tree(tmp_path))):

        async def look(application: Application = application) -> int:
            await page(application)
            await until(lambda: application.api.ahead._task.done())
            return int(application.api.ahead.made)

        assert asyncio.run(look()) == 0


def test_kernels_are_loaded_and_the_page_knows_the_disk(scan: Path) -> None:
    application = shown(scan)

    async def look() -> bytes:
        application.api.load()
        await until(lambda: application.api.computing.waiting == 0)
        done = await Asgi(application, "/").run()
        return bytes(done.body)

    text = asyncio.run(look()).decode()
    first = json.loads(text.partition('id="first">')[2].partition("</script>")[0])
    found = told(application, "/api/centre/scan.zarr/data")
    assert first["centre"] == {"of": "scan.zarr/data", "within": [], **found}
