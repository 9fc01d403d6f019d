"""What `api/` answers: to requests of every kind, to clients that ask together, of sets that have changed."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.http.requests import fuzz, served
from tests.http.support import Asgi, application_of, waiting
from tests.waiting import until
from vfs.contents import face_folder
from vfs.contents.shown import Shown
from vfs.engine.cache import ChunkCache
from vfs.folder_tree.plans import folder
from vfs.page import pictures, views
from vfs.server.application import Application
from vfs.testing.inside import set_of
from vfs.testing.writers import write_mib

VALUES = np.random.default_rng(3).integers(0, 99, (4, 5, 30, 40)).astype("u2")
PATH = "/api/frame/a.zarr/data?at=1,1"


def of(path: Path, **options: Any) -> Application:
    return application_of(folder([set_of(vfs.open_group(path, backend="buffered", **options))], ChunkCache()))


def ask(application: Application, path: str, method: str = "GET", body: bytes = b"") -> Asgi:
    return asyncio.run(Asgi(application, path, method, body).run())


def test_any_request_is_answered(tmp_path: Path) -> None:
    with warnings.catch_warnings(action="ignore", category=vfs.IncompleteWarning):
        seen = fuzz(served(tmp_path), 15, seed=0, share=0.06)
    assert seen[200] > 10
    assert seen[400] > 40


SUM = json.dumps({"results": {"a": "sum()", "m": "mean()", "h": "max()"}}).encode()


def test_frames_that_are_single_numbers_are_added_up(tmp_path: Path) -> None:
    frames = np.arange(12 * 4).reshape(12, 2, 2).astype("u2")
    shown = of(write_mib(tmp_path, np.zeros((12, 64, 64), "u2") + frames.sum((1, 2))[:, None, None], scan=(3, 4)))
    done = ask(shown, "/api/compute/scan.zarr/exposure", "POST", SUM)
    assert done.status == 200
    size = int.from_bytes(done.body[:4], "little")
    head = json.loads(done.body[4 : 4 + size])
    assert [one["shape"] for one in head["results"]] == [[], [], []]
    expected = vfs.open_group(tmp_path / "scan.hdr")["exposure"][...]
    made = np.frombuffer(done.body, "<f8", 3, 4 + size)
    np.testing.assert_allclose(made, [expected.sum(), expected.mean(), expected.max()])


def test_a_client_that_has_nothing_gets_the_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "a.npy", VALUES)
    shown = of(tmp_path / "a.npy")
    etag = dict(ask(shown, PATH).sent[0]["headers"])[b"etag"].decode()
    real, go = shown.contents.at, threading.Event()

    def slow(path: str) -> Shown:
        assert go.wait(100)
        return real(path)

    monkeypatch.setattr(shown.contents, "at", slow)

    async def run() -> list[Asgi]:
        known = [{"if_none_match": etag}, {}, {"if_none_match": f'"x", W/{etag}'}, {"if_none_match": '"x"'}]
        asked = [Asgi(shown, PATH, **headers) for headers in known]
        running = [asyncio.ensure_future(one.run()) for one in asked]
        await until(lambda: waiting(shown) == len(asked))
        go.set()
        await asyncio.gather(*running)
        return asked

    asked = asyncio.run(run())
    assert [one.status for one in asked] == [304, 200, 304, 200]
    assert [len(one.body) for one in asked] == [0, 2400, 0, 2400]


def test_equal_pictures_are_read_once_however_they_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "a.npy", VALUES)
    shown, go, read = of(tmp_path / "a.npy"), threading.Event(), []

    def slow(*args: Any) -> Any:
        read.append(args)
        assert go.wait(100)
        return views.picture(*args)

    monkeypatch.setattr(pictures, "picture", slow)

    async def run() -> list[int]:
        ways = ("at=1,1", "max=8192&at=1,1", "at=01,1&part=abs", "at=1,1&max=08192", "at=1%2C1")
        asked = [Asgi(shown, f"/api/frame/a.zarr/data?{way}") for way in ways]
        running = [asyncio.ensure_future(one.run()) for one in asked]
        await until(lambda: waiting(shown) == len(asked))
        go.set()
        await asyncio.gather(*running)
        return [one.status for one in asked]

    assert asyncio.run(run()) == [200] * 5
    assert len(read) == 1


ASKED = (
    "set/a.zarr",
    "array/a.zarr/data",
    "python/a.zarr",
    "centre/a.zarr/data",
    "frame/a.zarr/data?at=1,1",
    "compute/a.zarr/data",
)


@pytest.mark.parametrize("how", ["replaced", "truncated", "removed"])
def test_a_set_that_has_changed_is_an_error_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    for name in ("least", "share"):  # files are looked at with every request
        monkeypatch.setattr(face_folder.LOOKS, name, 0)
    file = tmp_path / "a.npy"
    np.save(file, VALUES)
    shown = of(file)

    def answers() -> list[int]:
        return [
            ask(shown, f"/api/{one}", *(("POST", SUM) if one.startswith("compute") else ("GET",))).status
            for one in ASKED
        ]

    assert answers() == [200] * len(ASKED)
    if how == "replaced":
        np.save(tmp_path / "b.npy", VALUES[::-1])
        os.replace(tmp_path / "b.npy", file)
    elif how == "truncated":
        os.truncate(file, file.stat().st_size - 10)
    else:
        file.unlink()
    assert answers() == [422] * len(ASKED)
    body = ask(shown, "/api/thumbnails/a.zarr").body
    head = json.loads(body[4 : 4 + int.from_bytes(body[:4], "little")])
    assert "a.npy" in head["error"]
    assert ask(shown, "/api/list/").status == 200
