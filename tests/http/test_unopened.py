"""Lists of a folder of which some files are not opened yet: people see what is known, programs wait for all."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.http.asking import ask, headers_of, told
from tests.http.support import Asgi, application_of
from tests.waiting import PATIENCE, eventually
from vfs.folder_tree import plans
from vfs.folder_tree.plans import folder_tree
from vfs.server.application import Application
from vfs.testing.writers import write_mib

BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Files whose names begin with b are opened once this is set."""
    let = threading.Event()
    real = plans.open_set

    def waiting(path: str, *how: Any) -> Any:
        if "/b" in path:
            let.wait()
        return real(path, *how)

    monkeypatch.setattr(plans, "open_set", waiting)
    yield let
    let.set()


@pytest.fixture
def application(tmp_path: Path) -> Application:
    for name in ("a", "b1", "b2"):
        np.save(tmp_path / f"{name}.npy", np.eye(5))
    return application_of(folder_tree(tmp_path), workers=8)


def kinds(listed: Any) -> list[tuple[str, str, str]]:
    return [(one["kind"], one["name"], one["key"]) for one in listed["entries"]]


def test_a_list_has_what_is_known_and_the_names_of_other_files(application: Application, held: threading.Event) -> None:
    unopened = [("unopened", f"b{k}.npy", f"b{k}.npy") for k in (1, 2)]
    path = "/api/list/?known=1"
    assert eventually(lambda: kinds(told(application, path)) == [("set", "a", "a.zarr"), *unopened])
    assert kinds(told(application, f"{path}&first=1&count=1")) == unopened[:1]
    held.set()
    assert eventually(lambda: kinds(told(application, path)) == [("set", n, f"{n}.zarr") for n in ("a", "b1", "b2")])
    assert ask(application, "/api/list/?known=2").status == 400


def test_pages_say_to_people_that_they_are_not_whole(application: Application, held: threading.Event) -> None:
    page = ask(application, "/", **BROWSER)
    assert (page.status, headers_of(page)["vary"]) == (200, "accept")
    assert b"<p>Still looking. " in page.body
    assert b'href="b1.zarr/"' not in page.body
    held.set()
    assert eventually(lambda: b"Still looking" not in ask(application, "/", **BROWSER).body)
    assert b'href="b2.zarr/"' in ask(application, "/", **BROWSER).body


def test_a_folder_below_loads_again_in_a_browser(tmp_path: Path, held: threading.Event) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("a", "b"):
        np.save(tmp_path / "sub" / f"{name}.npy", np.eye(5))
    application = application_of(folder_tree(tmp_path))
    page = ask(application, "/sub/", **BROWSER)
    assert (page.status, headers_of(page)["vary"]) == (200, "user-agent, accept")
    assert b'http-equiv="refresh"' in page.body
    assert len(page.body) == int(headers_of(page)["content-length"])
    held.set()
    assert eventually(lambda: b"refresh" not in ask(application, "/sub/", **BROWSER).body)


@pytest.mark.parametrize(
    ("path", "method", "headers"),
    [
        ("/", "GET", {}),
        ("/", "GET", {"accept": "text/html"}),  # neuroglancer
        ("/", "PROPFIND", {"depth": "1"}),
        ("/api/list/", "GET", {}),
    ],
)
def test_programs_get_a_list_once_it_is_whole(
    application: Application, held: threading.Event, path: str, method: str, headers: dict[str, str]
) -> None:
    async def run() -> bytes:
        coming = asyncio.create_task(Asgi(application, path, method, **headers).run())
        while b"in this list: 2 " not in (await Asgi(application, "/", **BROWSER).run()).body:
            await asyncio.sleep(0.005)  # all but those that are held are known
        assert not coming.done()
        held.set()
        return (await coming).body

    body = asyncio.run(run())
    assert all(f"{name}.zarr".encode() in body for name in ("a", "b1", "b2"))


def test_a_file_that_nobody_has_opened_leads_to_its_set(application: Application) -> None:
    """Also where another set has a face of that name."""
    assert kinds(told(application, "/api/list/"))
    for key in ("a", "b2"):
        assert told(application, f"/api/set/{key}.npy?file=1")["key"] == f"{key}.zarr"
    assert ask(application, "/api/set/none.npy?file=1").status == 404


def test_a_member_of_a_set_leads_to_it(tmp_path: Path) -> None:
    scan = write_mib(tmp_path, np.zeros((6, 16, 16), "u2"), frames_per_file=3)
    application = application_of(folder_tree(tmp_path))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [scan.name, "scan001.mib", "scan002.mib"]
    for name in names:
        assert told(application, f"/api/set/{name}?file=1")["key"] == "scan.zarr"


def test_a_drive_lists_etags_and_opens_no_set_for_them(application: Application) -> None:
    listed = ask(application, "/", "PROPFIND", depth="1").body.decode()
    assert application.contents.open_sets == (0, 0)
    for name in ("a", "b1", "b2"):
        etag = headers_of(ask(application, f"/{name}.npy", "HEAD"))["etag"]
        assert f"<D:getetag>{etag}</D:getetag>" in listed
    assert application.contents.open_sets[0] == 3
    assert ask(application, "/", "PROPFIND", depth="1").body.decode() == listed


def test_a_set_that_is_slow_to_open_holds_up_no_other(application: Application, held: threading.Event) -> None:
    """What holds it, as Python 3.11 does with cached properties, must not be shared by all."""
    assert eventually(lambda: len(told(application, "/api/list/?known=1")["entries"]) == 3)
    held.set()
    assert eventually(lambda: all(one["kind"] == "set" for one in told(application, "/api/list/")["entries"]))
    held.clear()

    async def run() -> bytes:
        slow = asyncio.create_task(Asgi(application, "/b1.zarr/zarr.json").run())
        while not application.reads._running:
            await asyncio.sleep(0.005)
        quick = await asyncio.wait_for(Asgi(application, "/a.zarr/data/c/0/0").run(), PATIENCE)
        assert not slow.done()
        held.set()
        assert (await slow).status == 200
        return quick.body

    assert asyncio.run(run()) == np.eye(5).tobytes()
