"""What clients of network drives are told: properties of the tree that GET serves (RFC 4918, class 1)."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote
from xml.etree import ElementTree

import numpy as np
import pytest

import vfs
from tests.http.support import Client
from tests.waiting import eventually
from vfs.errors import printable
from vfs.http import webdav
from vfs.http.guard import RefusedError
from vfs.http.index import IndexRow
from vfs.testing.writers import write_mib, write_raw

VALUES = np.arange(15 * 12 * 20, dtype="u2").reshape(15, 12, 20)
ODD = "a b #1 %[x]é"
ASK = '<?xml version="1.0"?><a:propfind xmlns:a="DAV:">{}</a:propfind>'
DAV = "{DAV:}"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tree")
    write_mib(folder, VALUES, frames_per_file=4, scan=(3, 5))
    (folder / ODD / "deep").mkdir(parents=True)
    np.save(folder / ODD / "one.npy", VALUES)
    return folder


def test_a_login_opens_the_drive_without_the_token_in_its_path(client: Client) -> None:
    token = client.parts.path.split("/")[2]
    with Client(f"{client.parts.scheme}://{client.parts.netloc}/") as other:
        asked = other.raw("/", "PROPFIND", depth="1")
        assert (asked.status, asked.headers["www-authenticate"]) == (401, 'Basic realm="vfs", charset="UTF-8"')
        for name in ("", "you"):
            login = "Basic " + base64.b64encode(f"{name}:{token}".encode()).decode()
            listed = other.raw("/", "PROPFIND", depth="1", authorization=login)
            hrefs = [one.findtext(f"{DAV}href") or "" for one in ElementTree.fromstring(listed.body)]
            assert (listed.status, hrefs[0], hrefs) == (207, "/", [href for href in hrefs if token not in href])
            chunk = (
                next(
                    name
                    for href in hrefs
                    if (name := unquote(href[1:])).endswith(".zarr/") and "one" not in name and ".v2" not in name
                )
                + "data/c/0/0/0/0"
            )
            for _ in range(3):  # the second time, its headers are known; no thread lends itself to them
                read = other.raw(quote(f"/{chunk}"), authorization=login)
                assert (read.status, read.body) == (200, client.ask(chunk).body)
        assert other.raw(quote(f"/{chunk}")).status == 401
        assert other.raw("/t/another/", accept="text/html").status == 401
        assert "www-authenticate" not in other.raw("/t/another/").headers  # of a page that was left open


def test_who_watches_needs_no_token(client: Client) -> None:
    with Client(f"{client.parts.scheme}://{client.parts.netloc}/") as other:
        for path in ("/healthz", "/readyz"):
            reply = other.raw(path, host="10.0.0.7:8765")
            assert (reply.status, reply.body) == (200, b"ok\n")
            assert other.raw(path, "HEAD").body == b""
            assert other.raw(path, "POST").status == 401


@pytest.fixture(scope="module")
def client(tree: Path) -> Iterator[Client]:
    with vfs.serve(tree, port=0, tree=True, chunks="frames") as server, Client(server.url) as client:
        yield client


def properties(client: Client, key: str, depth: str = "1", body: str = "") -> dict[str, dict[str, str | None]]:
    """Path below the server's address -> name of a property that is there -> its text."""
    reply = client.ask(key, "PROPFIND", body.encode() or None, depth=depth)
    assert (reply.status, reply.headers["content-type"]) == (207, webdav.KIND.decode())
    found = {}
    for one in ElementTree.fromstring(reply.body):
        props: dict[str, str | None] = {}
        for state in one.findall(f"{DAV}propstat"):
            if state.findtext(f"{DAV}status") == "HTTP/1.1 200 OK":
                for prop in state.find(f"{DAV}prop") or ():
                    props[prop.tag] = prop.text if len(prop) == 0 else prop[0].tag
        href = one.findtext(f"{DAV}href") or ""
        assert href.startswith(client.parts.path)
        found[unquote(href.removeprefix(client.parts.path))] = props
    return found


def walked(client: Client, key: str) -> Iterator[tuple[str, dict[str, str | None]]]:
    for path, props in properties(client, key).items():
        if path != key:
            yield path, props
            if props[f"{DAV}resourcetype"]:
                yield from walked(client, path)


def test_all_that_is_listed_is_what_get_serves(client: Client) -> None:
    """Each name leads on, and each file has the size, the date and the ETag that GET says."""
    seen = dict(walked(client, ""))
    files = {path: props for path, props in seen.items() if not props[f"{DAV}resourcetype"]}
    assert {"scan.zarr/data/c/1/1/0/0", "scan.v2.zarr/data/1/1/0/0", f"{ODD}/one.npy", "scan.npy"} <= set(files)
    assert {"scan.zarr/", "scan.zarr/data/c/1/1/0/", f"{ODD}/", f"{ODD}/deep/"} <= set(seen) - set(files)
    for path, props in files.items():
        reply = client.ask(path, "HEAD")
        assert reply.status == 200
        assert props[f"{DAV}displayname"] == path.rpartition("/")[2]
        for name, header in (
            ("getcontentlength", "content-length"),
            ("getlastmodified", "last-modified"),
            ("getetag", "etag"),
            ("getcontenttype", "content-type"),
        ):
            assert props[DAV + name] == reply.headers[header], (path, name)


def test_chunks_are_listed_in_their_own_folder_only(client: Client) -> None:
    assert set(properties(client, "scan.zarr/data/")) == {
        *("scan.zarr/data/", "scan.zarr/data/zarr.json", "scan.zarr/data/c/"),
    }


@pytest.mark.parametrize("key", ["scan.zarr", "scan.zarr/"])
def test_a_folder_without_its_slash_is_the_folder(client: Client, key: str) -> None:
    ((path, props),) = properties(client, key, "0").items()
    assert (path, props[f"{DAV}resourcetype"]) == ("scan.zarr/", f"{DAV}collection")


def test_properties_by_name(client: Client) -> None:
    asked = '<a:prop><a:getetag/><a:quota-available-bytes/><b:x xmlns:b="urn:%s&amp;"/><y/></a:prop>'
    reply = client.ask("", "PROPFIND", ASK.format(asked).encode(), depth="0")
    (one,) = ElementTree.fromstring(reply.body)
    said = {
        state.findtext(f"{DAV}status"): [prop.tag for prop in state.find(f"{DAV}prop") or ()]
        for state in one.findall(f"{DAV}propstat")
    }
    assert said == {
        "HTTP/1.1 200 OK": [f"{DAV}quota-available-bytes"],
        "HTTP/1.1 404 Not Found": [f"{DAV}getetag", "{urn:%s&}x", "y"],
    }
    everything = properties(client, "scan.npy", "0", ASK.format("<a:allprop/>"))
    assert everything == properties(client, "scan.npy", "0")
    names = properties(client, "scan.npy", "0", ASK.format("<a:propname/>"))
    assert names["scan.npy"] == dict.fromkeys(everything["scan.npy"])
    more = properties(client, "", "0", ASK.format("<a:allprop/><a:include><a:quota-used-bytes/></a:include>"))
    assert more[""][f"{DAV}quota-used-bytes"] == "0"


@pytest.mark.parametrize("headers", [{}, {"depth": "infinity"}])
def test_all_of_a_folder_at_once_is_refused(client: Client, headers: dict[str, str]) -> None:
    """RFC 4918, section 9.1; a file has nothing below it."""
    for key in ("", "scan.zarr", f"{ODD}/"):
        reply = client.ask(key, "PROPFIND", **headers)
        assert reply.status == 403
        assert ElementTree.fromstring(reply.body)[0].tag == f"{DAV}propfind-finite-depth"
    assert client.ask("scan.npy", "PROPFIND", **headers).status == 207


def test_rust_object_stores_list_a_set_at_once(client: Client) -> None:
    """They ask for nothing less, and read no other answer."""
    agent = {"user_agent": "object_store/0.12", "depth": "infinity"}
    reply = client.ask("scan.zarr", "PROPFIND", **agent)
    found = {unquote(one.findtext(f"{DAV}href") or "") for one in ElementTree.fromstring(reply.body)}
    files = {path for path, props in walked(client, "scan.zarr/") if not props[f"{DAV}resourcetype"]}
    assert {path.removeprefix(client.parts.path) for path in found} == {*files, "scan.zarr/"}
    assert client.ask("", "PROPFIND", **agent).status == 403  # sets would be opened for it


def test_obstore(tree: Path) -> None:
    obstore = pytest.importorskip("obstore")
    import zarr
    from zarr.storage import ObjectStore

    with vfs.serve(tree, port=0, tree=True, token="none") as server:
        store = obstore.store.HTTPStore.from_url(server.url, client_options={"allow_http": True})
        paths = {one["path"] for batch in obstore.list(store, "scan.zarr") for one in batch}
        assert {"scan.zarr/zarr.json", "scan.zarr/data/c/0/0/0/0"} <= paths
        assert "scan.zarr" in obstore.list_with_delimiter(store)["common_prefixes"]
        group = zarr.open_group(ObjectStore(store, read_only=True), path="scan.zarr", mode="r", use_consolidated=False)
        assert {"data", "timestamp"} <= set(group)
        np.testing.assert_array_equal(np.asarray(group["data"]).reshape(VALUES.shape), VALUES)


@pytest.mark.parametrize("name", ["._scan.npy", ".DS_Store", "desktop.ini", "Thumbs.db", "scan.zarr/data/._c", "nope"])
def test_what_desktops_try_is_not_there(client: Client, name: str) -> None:
    assert client.ask(name, "PROPFIND", depth="0").status == 404


def test_a_chunk_that_no_array_has_is_an_error(client: Client) -> None:
    assert client.ask("scan.zarr/data/c/9/0/0/0", "PROPFIND", depth="0").status == 422


def test_a_drive_is_read_only_and_says_so(client: Client) -> None:
    for key in ("", "scan.npy"):
        reply = client.ask(key, "OPTIONS")
        assert (reply.status, reply.headers["dav"], reply.headers["ms-author-via"]) == (200, "1", "DAV")
        assert reply.headers["allow"] == "GET, HEAD, OPTIONS, PROPFIND"
    for method in ("PROPPATCH", "LOCK", "UNLOCK", "MKCOL", "COPY", "MOVE", "PUT", "DELETE"):
        assert client.ask("scan.npy", method, b"x").status == 405


def test_explorer_asks_the_host_before_the_folder(client: Client) -> None:
    assert client.raw("/", "OPTIONS").headers["ms-author-via"] == "DAV"
    assert client.raw("/", "PROPFIND", depth="0").status == 401


PROBES = {
    "Explorer": (
        {"user_agent": "Microsoft-WebDAV-MiniRedir/10.0.19045", "translate": "f"},
        [
            *(("OPTIONS", "", None, 200), ("PROPFIND", "", "0", 207), ("PROPFIND", "", "1", 207)),
            *(("PROPFIND", "desktop.ini", "0", 404), ("PROPFIND", "scan.zarr/desktop.ini", "0", 404)),
            *(("PROPFIND", "AutoRun.inf", "0", 404), ("PROPFIND", "New folder", "0", 404)),
            *(("PROPFIND", "scan.npy", "0", 207), ("GET", "scan.npy", None, 200), ("LOCK", "scan.npy", None, 405)),
        ],
    ),
    "Finder": (
        {"user_agent": "WebDAVFS/3.0.0 (03008000) Darwin/22.6.0 (x86_64)"},
        [
            *(("OPTIONS", "", None, 200), ("PROPFIND", "", "0", 207), ("PROPFIND", "._.", "0", 404)),
            *(("PROPFIND", ".DS_Store", "0", 404), ("PROPFIND", ".metadata_never_index", "0", 404)),
            *(("PROPFIND", "", "1", 207), ("PROPFIND", "._scan.zarr", "0", 404), ("HEAD", "._scan.npy", None, 404)),
            *(("PROPFIND", "scan.zarr/.DS_Store", "0", 404), ("GET", "scan.npy", None, 200)),
        ],
    ),
}


@pytest.mark.parametrize("who", PROBES)
def test_what_file_managers_ask_as_they_open_a_drive(client: Client, who: str) -> None:
    """As their specifications and logs of others have it (MS-WDV, webdavfs); no Windows or macOS is run here."""
    headers, asked = PROBES[who]
    for method, key, depth, status in asked:
        more = headers if depth is None else {**headers, "depth": depth}
        reply = client.ask(key, method, ASK.format("<a:allprop/>").encode() if method == "PROPFIND" else None, **more)
        assert (method, key, reply.status) == (method, key, status)
        if method == "OPTIONS":
            assert (reply.headers["dav"], reply.headers["ms-author-via"]) == ("1", "DAV")


BAD: dict[str, tuple[dict[str, str], bytes, int]] = {
    "depth": ({"depth": "2"}, b"", 400),
    "no XML": ({}, b"<a", 400),
    "another element": ({}, b'<a xmlns="DAV:"/>', 400),
    "another namespace": ({}, b"<propfind><prop/></propfind>", 400),
    "nothing asked": ({}, ASK.format("").encode(), 400),
    "entities": ({}, b'<!DOCTYPE a [<!ENTITY b "c">]>' + ASK.format("<a:allprop/>").encode(), 400),
    "an encoding": ({}, b'<?xml version="1.0" encoding="x-none"?><a/>', 400),
    "many names": ({}, ASK.format(f"<a:prop>{''.join(f'<a:p{n}/>' for n in range(101))}</a:prop>").encode(), 400),
    "long": ({}, b" " * 70_000, 413),
    "garbled": ({}, bytes(range(256)), 400),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_requests_have_one_line(client: Client, name: str) -> None:
    headers, body, status = BAD[name]
    reply = client.ask("", "PROPFIND", body or None, **{"depth": "0", **headers})
    assert reply.status == status
    assert reply.body.count(b"\n") == 1


def test_a_broken_set_is_an_error(tmp_path: Path) -> None:
    """What is refused is not left out of a listing of chunks: zarr would fill its place."""
    (path,) = write_raw(tmp_path, VALUES)
    options: dict[str, Any] = {"format": "raw", "dtype": "u2", "sig_shape": VALUES.shape[1:]}
    with vfs.serve(path, port=0, **options) as server, Client(server.url) as client:
        name = path.stem + ".zarr"
        assert client.ask(f"{name}/data/c/", "PROPFIND", depth="1").status == 207
        listed = set(properties(client, ""))
        os.truncate(path, 1000)
        assert eventually(lambda: client.ask(f"{name}/data/c/", "PROPFIND", depth="1").status == 422)
        assert set(properties(client, "")) == listed  # a copy that lacks a file would pass for whole
        assert client.ask(f"{path.stem}.npy").status == 422


def test_long_folders_come_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webdav, "PART", 1000)
    rows = [IndexRow("", True), *(IndexRow(f"{n}", False, n % 3, 5, etag=b'"%d"' % n) for n in range(5000))]
    made = list(webdav.parts(webdav.Properties(None), "/x/", "x", iter(rows)))
    assert len(made) > 100
    found = ElementTree.fromstring(b"".join(made))
    assert [one.findtext(f"{DAV}href") for one in found] == ["/x/", *(f"/x/{n}" for n in range(5000))]
    assert [tag.text for tag in found.iter(f"{DAV}getetag")] == [f'"{n}"' for n in range(5000)]


@pytest.mark.parametrize("name", ["a\udcff", "tab\t<&>", "\x01", "\ufffe", "é%s%(x)s"])
def test_any_name_is_xml(name: str) -> None:
    (made,) = webdav.parts(webdav.Properties(None), "/", "", [IndexRow(name, False, 1)])
    (one,) = ElementTree.fromstring(made)
    assert os.fsencode(name) == os.fsencode(unquote(one.findtext(f"{DAV}href") or "", errors="surrogateescape")[1:])
    (shown,) = one.iter(f"{DAV}displayname")
    assert shown.text == printable(name).replace("\ufffe", "\ufffd")


def test_depth() -> None:
    assert [webdav.depth_of({b"depth": said}) for said in (b"0", b"1", b" Infinity")] == [0, 1, None]
    assert webdav.depth_of({}) is None
    with pytest.raises(RefusedError):
        webdav.depth_of({b"depth": b""})
