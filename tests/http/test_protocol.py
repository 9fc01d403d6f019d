"""What a server answers, for every kind of key and of request."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import formatdate
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import fsspec
import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vfs
from tests.http.support import CORS, Asgi, Client, Reply, application_of
from tests.waiting import eventually
from vfs.contents.contents import Contents
from vfs.contents.face_folder import FaceFolder
from vfs.engine.cache import ChunkCache
from vfs.folder_tree.plans import folder, folder_tree
from vfs.http.conditions import Span, modified, names, wanted
from vfs.http.index import FolderPage, IndexRow, NumberedRows
from vfs.server import deciding
from vfs.testing.inside import set_of
from vfs.testing.writers import write_mib

SHAPE = (3, 5, 12, 20)
CHUNKS = (2, 3, -1, -1)
VALUES = np.arange(np.prod(SHAPE), dtype="u2").reshape(SHAPE)


def contents_of(path: Path, **options: Any) -> FaceFolder:
    """What a server of this set shows, in this process."""
    opened = set_of(vfs.open_group(path, backend="buffered", **options))
    return folder([opened], ChunkCache())


@pytest.fixture(scope="module")
def scan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("a scan")
    return write_mib(folder, VALUES.reshape(-1, 12, 20), frames_per_file=4, scan=SHAPE[:2])


@pytest.fixture(scope="module", params=[False, True], ids=["native", "no native"])
def served(scan: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Client, FaceFolder]]:
    options = {"chunks": CHUNKS}
    with (
        vfs.serve(scan, port=0, no_native=request.param, **options) as server,
        Client(server.url) as client,
    ):
        yield client, contents_of(scan, **options)


def every_key(contents: FaceFolder) -> list[str]:
    found = []
    for name, face in contents.faces.items():
        keys = getattr(face, "keys", lambda: [""])()
        found += [f"{name}/{key}" if key else name for key in keys]
    return found


def check_always(reply: Reply) -> None:
    """What is so of every response."""
    assert reply.headers[CORS] == "*"
    assert {"ETag", "Content-Range", "Content-Length"} <= set(
        reply.headers["access-control-expose-headers"].split(", ")
    )
    assert reply.headers["referrer-policy"] == "no-referrer"
    assert reply.headers["cache-control"] == "private, no-cache"
    assert reply.headers["accept-ranges"] == "bytes"
    assert ("location" in reply.headers) == (reply.status == 301)
    assert "transfer-encoding" not in reply.headers
    if reply.status != 304:
        assert "content-length" in reply.headers
    assert reply.status in (200, 206, 301, 304, 400, 401, 404, 405, 412, 416, 422)


def test_every_key_has_the_bytes_of_the_mount(served: tuple[Client, FaceFolder]) -> None:
    client, contents = served
    keys = every_key(contents)
    assert len(keys) > 20
    etags = {}
    for key in keys:
        expected = contents.at(key).get()
        assert expected is not None
        for method in ("GET", "HEAD"):
            reply = client.ask(key, method)
            check_always(reply)
            assert reply.status == 200
            assert int(reply.headers["content-length"]) == expected.nbytes
            assert reply.body == (expected if method == "GET" else b"")
            assert etags.setdefault(key, reply.headers["etag"]) == reply.headers["etag"]
            assert not reply.headers["etag"].startswith("W/")
    assert len(set(etags.values())) == len(keys)


@pytest.mark.parametrize(
    "key",
    [
        "none",
        "scan.zarr/none",
        "scan.zarr/data/.zattrs",  # what programs try
        "scan.npy/",
        "scan.npy/x",
        "metrics/",
        "t",
        "..",
        "../",
        "scan.zarr/../scan.npy",
        "scan.zarr//zarr.json",
        "scan.zarr/./zarr.json",
        "/scan.npy",
        "scan.npy\0",
        "\udcff\udcfe",
        "a" * 10_000,
    ],
)
def test_what_is_not_there_is_404(served: tuple[Client, FaceFolder], key: str) -> None:
    client, _ = served
    for method in ("GET", "HEAD"):
        reply = client.ask(key, method)
        check_always(reply)
        assert reply.status == 404
        assert "etag" not in reply.headers
        assert reply.body.count(b"\n") == (method == "GET")


@pytest.mark.parametrize(
    "key",
    [
        "scan.zarr/data/c/9/0/0/0",
        "scan.zarr/data/c/0/0/0/0/0",
        "scan.zarr/data/c/0/0",  # a chunk of an array with two axes
        "scan.zarr/data/c/00/0/0/0",
        "scan.zarr/data/c",
        "scan.zarr/data/c/0/0/0/0/",
        "scan.zarr/data/c/9/",
        "scan.zarr/data/x/",
        "scan.ome.zarr/0",
        "scan.zarr/data/c//0/0/0",
        "scan.zarr/data/0/0/0/0",
        "scan.zarr/data/0.0.0.0",
        "scan.zarr/data/x",
        "scan.zarr/old/c/0/0",
        "scan.v2.zarr/data/9/0/0/0",
        "scan.v2.zarr/data/c/0/0/0/0",
        "gone.zarr/data/c/0/0",
        "sub/gone.v2.zarr/0/0",
        "t/0123456789abcdef/gone.zarr/data/c/0/0",
    ],
)
def test_what_may_be_a_chunk_is_422(served: tuple[Client, FaceFolder], key: str) -> None:
    """Clients of zarr make fill values of 404. Whoever asks for this opened the array at another server here."""
    client, _ = served
    for method in ("GET", "HEAD"):
        assert client.ask(key, method).status == 422


def links_of(reply: Reply) -> list[str]:
    """What the links of a page lead to, but for those that lead out of its list."""
    listed = reply.body.decode().partition("<h1>")[2] or reply.body.decode().partition("<ul>")[2]
    return [unquote(part.partition('"')[0]) for part in listed.split('href="')[1:] if not part.startswith("../")]


def test_every_folder_is_listed_as_the_mount_lists_it(served: tuple[Client, FaceFolder]) -> None:
    """No name that a list or a document implies may be 404: clients of lists take that for an empty folder."""
    client, contents = served
    folders, files = [""], set()
    while folders:
        key = folders.pop()
        reply = client.ask(key)
        check_always(reply)
        assert (reply.status, reply.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert int(reply.headers["content-length"]) == len(reply.body)
        assert client.ask(key, "HEAD").headers["content-length"] == reply.headers["content-length"] or not key
        nodes = {name: contents.at(f"{key}{name}").node() for name in contents.at(key.removesuffix("/")).children()}
        assert sorted(links_of(reply)) == sorted(f"{name}/" if node.folder else name for name, node in nodes.items())  # type: ignore[union-attr]
        if key:
            assert len(reply.body) % 2 == 1
            date = f"{datetime.fromtimestamp(contents.at(key).time() // 10**9, UTC):%Y-%m-%d %H:%M}"
            for name, node in nodes.items():
                size = f"{node.size:,}" if node and not node.folder else ""
                assert f'{date} {size:>19} <a href="{name}' in reply.body.decode()
        folders += [f"{key}{name}/" for name, node in nodes.items() if node and node.folder]
        files |= {f"{key}{name}" for name, node in nodes.items() if node and not node.folder}
    assert files == set(every_key(contents))
    assert all(_stays(client, key) for key in ("", "scan.zarr/", "scan.v2.zarr/data/"))


@pytest.mark.parametrize(
    ("key", "to"),
    [
        ("scan.zarr", "./scan.zarr/"),
        ("scan.zarr/data", "./data/"),
        ("scan.v2.zarr/data", "./data/"),
    ],
)
def test_a_folder_without_a_slash_leads_to_the_one_with_it(
    served: tuple[Client, FaceFolder], key: str, to: str
) -> None:
    client, _ = served
    for method in ("GET", "HEAD"):
        reply = client.ask(key, method)
        check_always(reply)
        assert (reply.status, reply.headers["location"]) == (301, to)


def test_only_clients_of_lists_are_led_from_what_may_be_a_chunk(served: tuple[Client, FaceFolder]) -> None:
    client, _ = served
    agent = "Python/3.13 aiohttp/3.13"
    for key in ("scan.zarr/data/c", "scan.zarr/data/c/0", "scan.v2.zarr/data/0/0", "scan.ome.zarr/0"):
        assert client.ask(key, user_agent=agent).headers["location"] == f"./{key.rpartition('/')[2]}/"
        assert client.ask(key, user_agent=agent, range="bytes=0-9").status == 422
        assert client.ask(key).status == 422
    assert client.ask("scan.zarr/data/c/0/9", user_agent=agent).status == 422


def test_wget_is_shown_all_files_below_a_folder_in_one_list(served: tuple[Client, FaceFolder]) -> None:
    """By itself it follows five folders, and leaves out what is below."""
    client, contents = served
    keys = every_key(contents)
    for name in ("scan.zarr/", "scan.v2.zarr/", "scan.ome.zarr/", "scan.zarr/data/", "scan.v2.zarr/data/1/"):
        reply = client.ask(name, user_agent="Wget/1.21.3")
        assert reply.headers["vary"] == "user-agent, accept"
        assert int(reply.headers["content-length"]) == len(reply.body)
        assert sorted(links_of(reply)) == sorted(key.removeprefix(name) for key in keys if key.startswith(name))


@pytest.mark.parametrize("counts", [(1,), (9,), (10,), (11,), (1000,), (12, 1, 101), (3, 0)])
def test_the_length_of_a_list_is_that_of_its_parts(counts: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vfs.http.index.ROWS", 7)
    like = IndexRow("a#/c/", False, 12_345, 10**18)
    page = FolderPage("x", [IndexRow("d", True)], [NumberedRows(like, counts), NumberedRows(IndexRow("", True), (20,))])
    parts = [page.part(first) for first in range(0, page.rows, 7)]
    body = b"".join(parts)
    assert (len(body), len(body) % 2) == (page.length, 1)
    assert max(map(len, parts[1:-1] or [b""])) < 1000
    expected = [
        "../",
        "d/",
        *("a#/c/" + "/".join(map(str, at)) for at in np.ndindex(counts)),
        *(f"{n}/" for n in range(20)),
    ]
    assert ["../", *links_of(Reply(200, {}, body))] == expected


def test_a_long_list_is_sent_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vfs.http.index.ROWS", 40)
    monkeypatch.setattr(deciding, "ROWS", 40)
    np.save(tmp_path / "a.npy", np.zeros((100, 2), "u1"))
    contents = contents_of(tmp_path / "a.npy", chunks=(1, 2))
    asked = asyncio.run(Asgi(application_of(contents), "/a.zarr/data/c/").run())
    assert (asked.status, asked.ended, len(asked.sent)) == (200, True, 4)
    assert links_of(Reply(200, {}, asked.body)) == [f"{n}/" for n in range(100)]


def test_an_array_without_axes_or_elements_is_listed(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["one"], file["none"] = np.uint8(3), np.zeros((0, 4), "u1")
    with pytest.warns(vfs.IncompleteWarning, match="none"):
        contents = contents_of(tmp_path / "a.h5")
    for agent in ("x", "Wget"):
        for key, expected in (
            ("a.zarr/one/", ["zarr.json", "c"]),
            ("a.zarr/none/", ["zarr.json"]),
            ("a.v2.zarr/one/", [".zarray", ".zattrs", "0"]),
            ("a.v2.zarr/none/", [".zarray", ".zattrs"]),
        ):
            asked = asyncio.run(Asgi(application_of(contents), f"/{key}", user_agent=agent).run())
            assert sorted(links_of(Reply(asked.status, {}, asked.body))) == sorted(expected)


def test_lists_of_a_set_that_changed_are_422(tmp_path: Path) -> None:
    """rclone leaves out of its list each file whose size it is refused: it must be refused the list."""
    np.save(tmp_path / "a.npy", VALUES)
    contents = contents_of(tmp_path / "a.npy")
    np.save(tmp_path / "a.npy", VALUES[:1])
    for key in ("a.zarr/", "a.zarr/data/", "a.zarr/data/c/"):
        assert asyncio.run(Asgi(application_of(contents), f"/{key}").run()).status == 422


def test_files_say_when_their_sources_were_modified(served: tuple[Client, FaceFolder]) -> None:
    client, contents = served
    date = formatdate(contents.at("scan.npy").time() // 10**9, usegmt=True)
    for key in ["scan.npy", "scan.zarr/zarr.json", *["scan.zarr/data/c/0/0/0/0"] * 50]:  # once natively
        assert client.ask(key).headers["last-modified"] == date
    assert client.ask("scan.npy", if_modified_since=date).status == 200  # other bytes may have the same time
    assert modified(2**62) == modified(0) == ()  # a time that is still to come must not be said


def _stays(client: Client, key: str) -> bool:
    """Say whether a listing ends with "304": it changes once more when the disk of the scan's frames is found."""

    def same() -> bool:
        etag = client.ask(key).headers["etag"]
        return client.ask(key, if_none_match=etag).status == 304

    return eventually(same)


def test_folders_that_are_called_as_paths_of_the_server(tmp_path: Path) -> None:
    """What is listed in them is there; the server's own files and requests come first."""
    for name in ("api", "assets", "metrics", "api/other", "t"):
        (tmp_path / name).mkdir(parents=True)
        np.save(tmp_path / name / "in.npy", VALUES[0, 0] + len(name))
    with vfs.serve(tmp_path, tree=True, port=0) as server:
        client = Client(server.url)
        for name in ("api", "assets", "metrics", "api/other", "t"):
            assert b'href="in.npy"' in client.ask(f"{name}/").body
            body = client.ask(f"{name}/in.npy").body
            np.testing.assert_array_equal(np.load(io.BytesIO(body)), VALUES[0, 0] + len(name))
            key = f"{name}/in.zarr/data/c/0/0"
            assert client.ask(key).body == (VALUES[0, 0] + len(name)).tobytes()
            assert client.ask(f"{key}/9").status == 422
        assert client.ask("assets/style.css").headers["content-type"].startswith("text/css")
        assert client.ask("api/list/api").status == 200
        gone = client.ask("api/nothing")
        assert (gone.status, b"api/ has array, centre" in gone.body) == (404, True)
        assert client.ask("api/nothing", "POST").status == 405
        assert client.ask("assets/nothing.css").status == 404
        client.connection.close()


def test_fsspec_lists_what_it_can_open(served: tuple[Client, FaceFolder]) -> None:
    client, contents = served
    files = fsspec.filesystem("http")
    base = client.parts.geturl()
    listed = files.ls(base, detail=False)
    assert sorted(name.removesuffix("/") for name in listed) == sorted(base + name for name in contents.faces)
    assert f"{base}scan.zarr/zarr.json" in files.ls(f"{base}scan.zarr/", detail=False)


def test_markup_in_names_stays_text() -> None:
    entries = [IndexRow('<script>"x', False), IndexRow("a:b?c#d%", True), IndexRow("\udcff", False)]
    page = FolderPage("a<b", entries).part(0).decode()
    assert "<script>" not in page
    assert 'href="%3Cscript%3E%22x"' in page
    assert 'href="a%3Ab%3Fc%23d%25/"' in page
    assert 'href="%FF"' in page


KEYS = [
    "scan.npy",
    "scan.zarr/zarr.json",
    "scan.zarr/data/c/0/0/0/0",
    "scan.zarr/data/c/1/1/0/0",
    "scan.v2.zarr/.zgroup",
]
BYTES = st.one_of(st.integers(0, 40), st.integers(0, 20_000), st.integers(0, 10**17), st.just(2**64 - 1))


@given(
    key=st.sampled_from(KEYS),
    first=st.none() | BYTES,
    last=st.none() | BYTES,
    unit=st.sampled_from(["bytes", "Bytes", "bytes ", "items"]),
)
def test_ranges(served: tuple[Client, FaceFolder], key: str, first: int | None, last: int | None, unit: str) -> None:
    client, contents = served
    expected = contents.at(key).get()
    assert expected is not None
    size = expected.nbytes
    reply = client.ask(key, range=f"{unit}={'' if first is None else first}-{'' if last is None else last}")
    check_always(reply)
    start = max(0, size - (last or 0)) if first is None else first
    stop = size if first is None or last is None else min(size, last + 1)
    if unit == "items" or (first is None and last is None) or (first is not None and last is not None and last < first):
        assert (reply.status, reply.body) == (200, expected)
    elif start >= stop:
        assert (reply.status, reply.headers["content-range"]) == (416, f"bytes */{size}")
    else:
        assert (reply.status, reply.body) == (206, expected[start:stop])
        assert reply.headers["content-range"] == f"bytes {start}-{stop - 1}/{size}"
        assert reply.headers["content-length"] == str(stop - start)


@pytest.mark.parametrize(
    "header",
    [
        "bytes=0-1,4-5",
        "bytes=",
        "bytes=a-b",
        "bytes=-",
        "bytes=1-2-3",
        "0-1",
        "",
        "bytes=0-1;",
        "bytes=" + "0-1," * 5000,
    ],
)
def test_other_ranges_get_the_whole_thing(served: tuple[Client, FaceFolder], header: str) -> None:
    client, contents = served
    reply = client.ask("scan.npy", range=header)
    check_always(reply)
    assert (reply.status, reply.body) == (200, contents.at("scan.npy").get())
    assert "content-range" not in reply.headers


@given(st.binary(max_size=40), st.integers(0, 100))
def test_any_range_header_can_be_read(header: bytes, size: int) -> None:
    span: Span | None = None
    with suppress(ValueError):
        span = wanted(header, size)
    assert span is None or 0 <= span.start < span.stop <= size


@pytest.mark.parametrize("key", KEYS)
def test_conditions(served: tuple[Client, FaceFolder], key: str) -> None:
    client, contents = served
    expected = contents.at(key).get()
    assert expected is not None
    etag = client.ask(key, "HEAD").headers["etag"]
    other = '"0123"'
    for method in ("GET", "HEAD"):
        whole = (200, expected if method == "GET" else b"")
        for header in (etag, f"W/{etag}", f"{other}, {etag}", "*", f" {etag} "):
            reply = client.ask(key, method, if_none_match=header)
            check_always(reply)
            assert (reply.status, reply.body, reply.headers["etag"]) == (304, b"", etag)
        assert client.ask(key, method, if_none_match=other)[::2] == whole
        for header in (etag, f"{other},{etag}", "*"):
            assert client.ask(key, method, if_match=header)[::2] == whole
        for header in (other, f"W/{etag}"):
            reply = client.ask(key, method, if_match=header)
            check_always(reply)
            assert reply.status == 412
    assert client.ask(key, range="bytes=0-4", if_range=etag)[::2] == (206, expected[:5])
    for header in (other, f"W/{etag}", "Mon, 23 Nov 2026 08:00:00 GMT"):
        assert client.ask(key, range="bytes=0-4", if_range=header)[::2] == (200, expected)
    assert client.ask(key, "HEAD", range="bytes=0-4").headers["content-length"] == str(expected.nbytes)


def test_lists_of_etags() -> None:
    assert names(b'"a", "b"', b'"b"')
    assert not names(b'W/"b"', b'"b"')
    assert names(b'W/"b"', b'"b"', weak=True)
    assert not names(b"", b'"b"', weak=True)


@pytest.mark.parametrize("key", ["scan.npy", "none", ""])
def test_a_browser_may_ask_first(served: tuple[Client, FaceFolder], key: str) -> None:
    client, _ = served
    reply = client.ask(
        key,
        "OPTIONS",
        origin="https://example.org",
        access_control_request_method="GET",
        access_control_request_headers="range,cache-control",
    )
    check_always(reply)
    assert (reply.status, reply.body) == (200, b"")
    assert reply.headers["access-control-allow-headers"] == "range,cache-control"
    assert "GET" in reply.headers["access-control-allow-methods"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "MKCOL"])
def test_nothing_can_be_written(served: tuple[Client, FaceFolder], method: str) -> None:
    client, _ = served
    reply = client.ask("scan.zarr/zarr.json", method)
    check_always(reply)
    assert reply.status == 405
    assert reply.headers["allow"] == "GET, HEAD, OPTIONS, PROPFIND"
    assert b"read-only" in reply.body


def test_other_origins_can_be_kept_out(scan: Path) -> None:
    with vfs.serve(scan, port=0, cors=["https://A.org/", "https://b.org"]) as server, Client(server.url) as client:
        for origin, allowed in (("https://a.org", "https://a.org"), ("https://c.org", None), (None, None)):
            headers = {"origin": origin} if origin else {}
            for key in ("scan.npy", "none"):
                reply = client.ask(key, **headers)
                assert reply.headers.get(CORS) == allowed
                assert reply.headers["vary"] == "origin"


def test_metrics(served: tuple[Client, FaceFolder]) -> None:
    client, _ = served
    lines = [line for line in client.ask("metrics").body.decode().splitlines() if not line.startswith("#")]
    counts = {name: int(value) for name, value in map(str.split, lines)}
    client.ask("scan.npy")
    client.ask("none")
    again = client.ask("metrics")
    check_always(again)
    assert f"vfs_requests_total {counts['vfs_requests_total'] + 3}\n".encode() in again.body
    assert f"vfs_reads_total {counts['vfs_reads_total'] + 1}\n".encode() in again.body


# what an ETag stands for


def etag(client: Client, key: str) -> str:
    return client.ask(key, "HEAD").headers["etag"]


def test_an_etag_is_that_of_another_server_of_the_same(scan: Path, served: tuple[Client, FaceFolder]) -> None:
    found = []
    for options in ({"chunks": CHUNKS}, {"chunks": CHUNKS, "dtype": "f4"}):
        with vfs.serve(scan, port=0, **options) as server, Client(server.url) as client:
            found.append([etag(client, key) for key in KEYS])
    assert found[0] == [etag(served[0], key) for key in KEYS]
    assert not set(found[0]) & set(found[1])


@pytest.mark.parametrize("tree", [True, False])
def test_a_source_that_changes(tmp_path: Path, tree: bool) -> None:
    path = tmp_path / "a.npy"
    np.save(path, VALUES)
    with vfs.serve(tmp_path if tree else path, port=0, tree=tree) as server, Client(server.url) as client:
        before = etag(client, "a.npy")
        assert client.ask("a.npy").body == path.read_bytes()
        np.save(path, VALUES + 1)
        os.utime(path, ns=(1, 1))
        assert eventually(lambda: client.ask("a.npy", if_none_match=before).status != 304)
        reply = client.ask("a.npy", if_none_match=before)
        check_always(reply)
        if tree:
            assert (reply.status, reply.body) == (200, path.read_bytes())
            assert reply.headers["etag"] != before
            assert client.ask("a.npy", if_match=before).status == 412
            assert client.ask("a.npy", range="bytes=0-9", if_range=before).status == 200
        else:
            assert reply.status == 422
            assert "a.npy: changed after it was opened (it was written on " in reply.body.decode()
            path.unlink()
            assert eventually(lambda: b"a.npy: cannot be found any more: No such file" in client.ask("a.npy").body)


@pytest.mark.parametrize("tree", [True, False])
def test_other_bytes_under_an_old_mtime_have_another_etag(tmp_path: Path, tree: bool) -> None:
    path = tmp_path / "a.npy"
    np.save(path, VALUES)
    mtime = path.stat().st_mtime_ns

    def asked(contents: Contents) -> tuple[bytes, bytes]:
        done = asyncio.run(Asgi(application_of(contents), "/a.npy").run())
        return dict(done.sent[0]["headers"])[b"etag"], done.body

    contents = folder_tree(tmp_path) if tree else contents_of(path)
    before = asked(contents)
    np.save(path, VALUES + 1)
    os.utime(path, ns=(mtime, mtime))
    for each in (contents, folder_tree(tmp_path) if tree else contents_of(path)):  # at once, and in another server
        etag, body = asked(each)
        assert body == path.read_bytes()
        assert etag != before[0]


def test_files_that_may_change_have_no_lasting_etag(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, VALUES)
    with vfs.serve(path, port=0, accept_changes=True) as server, Client(server.url) as client:
        assert etag(client, "a.npy") != etag(client, "a.npy")
        np.save(path, VALUES + 1)
        assert client.ask("a.npy").body == path.read_bytes()


# long bodies


def test_a_long_body_comes_in_pieces(scan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deciding, "WHOLE", 1000)
    monkeypatch.setattr(deciding, "PART", 700)
    contents = contents_of(scan, chunks=CHUNKS)
    for key in ("scan.npy", "scan.zarr/data/c/0/0/0/0"):
        expected = contents.at(key).get()
        assert expected is not None
        done = asyncio.run(Asgi(application_of(contents), f"/{key}").run())
        assert (done.status, done.body, done.ended) == (200, expected, True)
        done = asyncio.run(Asgi(application_of(contents), f"/{key}", range="bytes=100-2099").run())
        assert (done.status, done.body, done.ended) == (206, expected[100:2100], True)


@pytest.mark.parametrize("tree", [True, False])
@pytest.mark.parametrize("how", ["truncated", "changed", "changed, and its mtime put back"])
def test_a_source_that_breaks_in_a_long_body_breaks_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, tree: bool
) -> None:
    monkeypatch.setattr(deciding, "WHOLE", 1000)
    monkeypatch.setattr(deciding, "PART", 700)
    path = tmp_path / "a.npy"
    np.save(path, VALUES)
    expected = path.read_bytes()
    mtime = path.stat().st_mtime_ns
    contents = folder_tree(tmp_path) if tree else contents_of(path)
    assert asyncio.run(Asgi(application_of(contents), "/a.npy").run()).body == expected

    class Breaking(Asgi):
        async def send(self, message: Any) -> None:
            await super().send(message)
            if len(self.sent) == 2:
                if how == "truncated":
                    os.truncate(path, 1000)
                else:
                    path.write_bytes(bytes(len(expected)))
                    os.utime(path, ns=(mtime, 1 if how == "changed" else mtime))

    asked = asyncio.run(Breaking(application_of(contents), "/a.npy").run())
    assert asked.status == 200
    assert not asked.ended
    assert 700 <= len(asked.body) < len(expected)
    assert expected.startswith(asked.body)


def test_a_client_that_goes_away_ends_a_long_body(scan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deciding, "WHOLE", 100)
    monkeypatch.setattr(deciding, "PART", 70)

    class Leaving(Asgi):
        async def send(self, message: Any) -> None:
            await super().send(message)
            if len(self.sent) == 3:
                self.gone.set()

    asked = asyncio.run(Leaving(application_of(contents_of(scan)), "/scan.npy").run())
    assert not asked.ended
    assert len(asked.sent) < 10
