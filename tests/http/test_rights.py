"""Persons who may see some folders of a tree: all else is, for them, not there."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfs
from tests.http.asking import ask, headers_of
from tests.http.support import Asgi, Client, answer, natively, request, talk
from tests.waiting import eventually
from vfs.contents.rights import Rights
from vfs.errors import ServeError
from vfs.folder_tree.plans import folder_tree
from vfs.http.answers import Answer
from vfs.http.guard import Guard
from vfs.http.persons import Person
from vfs.http.reads import Reads
from vfs.http.requests import Request
from vfs.model.open_options import OpenOptions
from vfs.page.streams import Stopping
from vfs.server.application import Application

ALL = Person("all", "all-token_of.letters~")
ADA = Person("ada", "ada-token_of.letters~", Rights(frozenset(("ada", "shared/2026 #1"))))
VALUES = np.arange(6 * 4 * 5, dtype="u2").reshape(6, 4, 5)
SEEN, HIDDEN = ("ada", "shared/2026 #1", "ada/below"), ("", "ben", "shared", "shared/2025", "ada2")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for folder in (*SEEN, *HIDDEN):
        (tmp_path / "data" / folder).mkdir(parents=True, exist_ok=True)
        np.save(tmp_path / "data" / folder / "a.npy", VALUES)
    return tmp_path / "data"


@pytest.fixture
def application(data: Path) -> Application:
    return Application(folder_tree(data, OpenOptions(chunks="frames")), Guard((ALL, ADA)), Reads(4))


def asked(
    application: Application, person: Person, path: str, method: str = "GET", **headers: str
) -> tuple[int, bytes]:
    body = {"POST": b'{"options": {}}' if path.startswith("api/open/") else b'{"results": {"a": "sum()"}}'}.get(
        method, b""
    )
    done = ask(application, person.base.decode() + path, method, body, **headers)
    return done.status, done.body


def url(folder: str, rest: str) -> str:
    return (f"{folder}/{rest}" if folder else rest).replace(" ", "%20").replace("#", "%23")


REQUESTS = [
    ("", "a.zarr/zarr.json", "GET"),
    ("", "a.zarr/data/c/1/0/0", "HEAD"),
    ("", "a.npy", "GET"),
    ("", "a.v2.zarr/.zmetadata", "GET"),
    ("", "a.zarr/", "GET"),
    ("", "a.zarr/data/", "PROPFIND"),
    ("", "a.npy", "PROPFIND"),
    ("api/set/", "a.zarr", "GET"),
    ("api/array/", "a.zarr/data", "GET"),
    ("api/frame/", "a.zarr/data?at=1", "GET"),
    ("api/thumbnails/", "a.zarr", "GET"),
    ("api/options/", "a.npy", "GET"),
    ("api/python/", "a.zarr", "GET"),
    ("api/compute/", "a.zarr/data", "POST"),
    ("api/open/", "a.zarr", "POST"),
    ("api/set/", "a.npy?file=1", "GET"),
]


@pytest.mark.parametrize(("above", "path", "method"), REQUESTS)
def test_what_lies_elsewhere_is_not_there(application: Application, above: str, path: str, method: str) -> None:
    """Nor does anything tell it from what nobody has, whoever looked at it before."""
    headers = {"depth": "1", "if_none_match": "*", "if_match": "*"} if above == "" else {"depth": "1"}
    for folder in SEEN:
        assert asked(application, ADA, above + url(folder, path), method, depth="1")[0] in (200, 207)
    for folder in HIDDEN:
        assert asked(application, ALL, above + url(folder, path), method, depth="1")[0] in (200, 207)
        found = asked(application, ADA, above + url(folder, path), method, **headers)
        none = asked(application, ADA, above + url("ben/none", path), method, **headers)
        assert found[0] == none[0] == (422 if "/c/" in path else 404)
        assert (
            found[1].replace(folder.encode(), b"") == none[1].replace(b"ben/none", b"")
            or method == "HEAD"
            or not folder
        )


@pytest.mark.parametrize(
    "path",
    [
        *("ada/../ben/a.npy", "ada/%2e%2e/ben/a.npy", "ada%2f..%2fben/a.npy", "ada//ben/a.npy", "/ben/a.npy"),
        *(
            "./ben/a.npy",
            "ben%2fa.npy",
            "%62en/a.npy",
            "ada/.%2e/ben/a.npy",
            "ada2/a.npy",
            "ad/a.npy",
            "ada\\..\\ben/a.npy",
        ),
        *("ben/a.npy/", "ben/", "ben", "ada%00/../ben/a.npy", "metrics", "metrics/", "api/list/ben", "api/list/ada2"),
        *(
            "api/list/ada/../ben",
            "api/list/ada%2f..%2fben",
            "api/list//ben",
            "api/nothing/ada",
            "ben/a.zarr/data/c/0/0/0",
        ),
        *("assets/../ben/a.npy", "assets/ben/a.npy", "api/set/ben/a.zarr", "api/frame/ada/../ben/a.zarr/data?at=0"),
        *("anew~0123456789abcdef/a.zarr/zarr.json", "anew~/a.zarr/zarr.json", "api/set/anew~0123456789abcdef/a.zarr"),
    ],
)
def test_no_way_around(application: Application, path: str) -> None:
    assert asked(application, ALL, "ben/a.npy")[0] == 200
    for method in ("GET", "HEAD", "PROPFIND"):
        status, body = asked(application, ADA, path, method, depth="1")
        assert status in (400, 404, 422), body
        assert b"NUMPY" not in body


def test_lists_have_only_what_may_be_seen(application: Application) -> None:
    ways = {"": ["ada", "shared"], "shared": ["2026 #1"], "ada": ["a", "below"]}
    for path, names in ways.items():
        for person in (ALL, ADA, ALL, ADA):  # equal requests of others share no answer
            status, body = asked(application, person, f"api/list/{path}")
            assert status == 200
            listed = sorted(one["name"] for one in json.loads(body)["entries"])
            assert (listed == names) == (person is ADA or path == "ada")
            assert set(names) <= set(listed)
        links = re.findall(rb'href="([^".]+)/"', asked(application, ADA, f"{path}/" if path else "")[1])
        assert links == [name.replace(" ", "%20").replace("#", "%23").encode() for name in names if name != "a"]
        status, body = asked(application, ADA, f"{path}/" if path else "", "PROPFIND", depth="1")
        assert status == 207
        assert b"ben" not in body
        assert b"2025" not in body
        assert (b"a.zarr" in body) == (path == "ada")


def test_counts_and_pages_of_the_server(application: Application) -> None:
    assert asked(application, ALL, "metrics")[0] == 200
    for path in ("", "assets/page.js", "assets/style.css"):
        assert asked(application, ADA, path)[0] == 200
    assert ask(application, "/healthz").status == 200


def test_a_set_opened_anew_is_seen_by_who_sees_the_set(application: Application) -> None:
    keys = {}
    for folder in ("ada", "ben"):
        status, body = asked(application, ALL, f"api/open/{folder}/a.zarr", "POST")
        assert status == 200
        keys[folder] = json.loads(body)["key"]
        for path in (f"{keys[folder]}/zarr.json", f"api/set/{keys[folder]}", f"api/frame/{keys[folder]}/data?at=0"):
            assert asked(application, ALL, path)[0] == 200
            assert asked(application, ADA, path)[0] == (200 if folder == "ada" else 404)
    status, body = asked(application, ADA, f"api/open/{keys['ben']}", "POST")
    assert status == 404
    etag = headers_of(ask(application, f"{ALL.base.decode()}{keys['ben']}/zarr.json"))["etag"]
    assert asked(application, ADA, f"{keys['ben']}/zarr.json", if_none_match=etag)[0] == 404


def test_nobody_stops_the_stream_of_somebody_else() -> None:
    stopping, said = Stopping(), list[Any]()

    async def keep(message: Any) -> None:
        said.append(message)

    async def stream(key: str, own: Request, to: Answer) -> None:
        other = Request("POST", "stop/1", {}, {}, "ben", own.receive)
        for one in (other, own):
            await stopping.stop("1", one, Answer("POST", (), keep))
        await stopping.until_stopped(_nothing, key, other._replace(query={"id": "1"}), to)  # ids are not shared

    async def _nothing(*_: Any) -> None:
        said.append("")

    own = Request("POST", "compute/a.zarr/data", {"id": "1"}, {}, "ada", Asgi(None, "/").receive)  # type: ignore[arg-type]
    asyncio.run(stopping.until_stopped(stream, "a.zarr/data", own, Answer("POST", (), keep)))
    assert [json.loads(bytes(one["body"]))["stopped"] for one in said if one and one.get("body")] == [False, True]
    assert said[-1] == ""


def test_a_lent_connection_answers_for_nobody_else(application: Application) -> None:
    chunk = "/ben/a.zarr/data/c/1/0/0"

    async def to(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await natively(application, reader, writer, f"t/{ALL.token}{chunk}") == (200, VALUES[1].tobytes())
        assert application.native is not None
        count = application.native.done[0]
        for _ in range(3):
            for path, status in ((chunk, 422), (chunk.replace("ben", "ada"), 200)):
                writer.write(request(f"t/{ADA.token}{path}"))
                assert (await answer(reader))[0] == status
        assert application.native.done[0] == count

    talk(application, to)


def test_folders_need_a_tree(tmp_path: Path, data: Path) -> None:
    file = tmp_path / "tokens"
    file.touch(0o600)
    file.write_text(f"ada {ADA.token} ada\n")
    with pytest.raises(ServeError, match="names folders, which goes only with tree=True"):
        vfs.serve(data / "a.npy", port=0, tokens=str(file))


def test_rights_change_while_a_server_runs(tmp_path: Path, data: Path) -> None:
    file = tmp_path / "tokens"
    file.touch(0o600)
    file.write_text(f"ada {ADA.token} ada ben\n")
    with vfs.serve(data, tree=True, port=0, tokens=str(file)) as server:
        url = f"{server.address}t/{ADA.token}/"
        with Client(url) as client:
            assert client.ask("ben/a.npy").status == 200
        file.write_text(f"ada {ADA.token} ada\n")

        def status(path: str) -> int:
            with Client(url) as client:
                return client.ask(path).status

        assert eventually(lambda: status("ben/a.npy") == 404)
        assert [status(path) for path in ("ada/a.npy", "ben/a.zarr/data/c/1/0/0", "")] == [200, 422, 200]


def test_rights_say_what_leads_to_folders() -> None:
    rights = Rights(frozenset(("a/b", "a/b/c", "d")))
    assert [path for path in ("", "a", "a/b", "a/b/x", "ab", "a/c", "d", "d/e", "b") if rights.shows(path)] == [
        *("", "a", "a/b", "a/b/x", "d", "d/e")
    ]
    assert [rights.sees(path) for path in ("", "a", "a/b", "d/e")] == [False, False, True, True]
    assert (rights.ways(""), rights.ways("a"), rights.ways("e")) == (["a", "d"], ["b"], [])
