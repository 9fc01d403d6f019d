"""`vfs serve` behind jupyter-server-proxy, under a prefix: page, links, zarr, ranges, errors, and the `Host` check."""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urljoin, urlsplit

import numpy as np
import pytest

import vfs
from tests.http.support import Client, Reply
from tests.page.support import Browsed, patterns, scan_in
from tests.waiting import eventually

from .clients import CHUNKS, HOME, Scan
from .compare import regions

if not os.environ.get("VFS_CLIENTS"):
    pytest.skip("foreign tools in full are opt-in: scripts/test --clients", allow_module_level=True)
if reason := json.loads((HOME / "clients.json").read_text()).get("jupyter-server-proxy"):
    pytest.skip(f"NOT TESTED BEHIND A PROXY: jupyter-server-proxy is not installed: {reason}", allow_module_level=True)

HUB = "hub.example.org"
"""A name that browsers may see; it is looked up nowhere."""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture
def scan(tmp_path: Path) -> Scan:
    return Scan.written(tmp_path)


class Jupyter:
    """A server of notebooks at a prefix, as a hub starts one for each user.

    Attributes:
        url: where it answers.
        headers: what lets a request in; login: the query that lets a browser in.
    """

    def __init__(self, folder: Path) -> None:
        token = secrets.token_hex()
        self.headers = {"Authorization": f"token {token}"}
        self.login = f"?token={token}"
        port = free_port()
        self.url = f"http://127.0.0.1:{port}/user/ada/"
        environment = os.environ | {
            **dict.fromkeys(("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "HOME"), str(folder)),
            "JUPYTER_TOKEN": token,
        }
        options = {
            "ServerApp.ip": "127.0.0.1",
            "ServerApp.port": port,
            "ServerApp.port_retries": 0,
            "ServerApp.base_url": "/user/ada/",
            "ServerApp.open_browser": False,
            "ServerApp.root_dir": folder,
            "ServerApp.allow_root": True,
            "ServerApp.allow_remote_access": True,  # else it refuses foreign names itself
        }
        command = [sys.executable, "-m", "jupyter_server", *(f"--{name}={value}" for name, value in options.items())]
        with (folder / "log").open("w") as log:
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)

    def answers(self) -> bool:
        assert self.process.poll() is None, "it has ended"
        try:
            with urllib.request.urlopen(urllib.request.Request(f"{self.url}api", headers=self.headers)):
                return True
        except OSError:  # of a server that is just getting ready, which may also close what it took
            return False

    def of(self, url: str) -> str:
        """Where it shows another server of this machine."""
        parts = urlsplit(url)
        return f"{self.url}proxy/{parts.port}{parts.path}"


@pytest.fixture(scope="module")
def jupyter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jupyter]:
    folder = tmp_path_factory.mktemp("jupyter")
    found = Jupyter(folder)
    try:
        assert eventually(found.answers), (folder / "log").read_text()
        yield found
    finally:
        found.process.terminate()
        found.process.wait(100)


def settled(body: bytes) -> bytes:
    """Return a body without what the page knows from the start: that becomes more while a server looks at its set."""
    return re.sub(rb'(<script type="application/json" id="first">).*?</script>', rb"\1", body)


def test_links_lead_to_every_file(jupyter: Jupyter, scan: Scan) -> None:
    with vfs.serve(scan.path, port=0, chunks=CHUNKS) as server:
        base = jupyter.of(server.url)
        with Client(base) as client:
            to_see, seen = [base], {}
            while to_see:
                url = to_see.pop()
                reply = client.raw(urlsplit(url).path, **jupyter.headers)
                assert reply.status == 200, url
                seen[url] = reply
                if reply.headers["content-type"].startswith("text/html"):
                    links = [part.partition('"')[0] for part in reply.body.decode().split('href="')[1:]]
                    to_see += {urljoin(url, link) for link in links} - seen.keys()
        assert all(url.startswith(base) for url in seen)
        with Client(server.url) as direct:
            for url, reply in seen.items():
                assert settled(reply.body) == settled(direct.ask(url.removeprefix(base)).body)
        assert {f"{base}scan.npy", f"{base}scan.zarr/zarr.json", f"{base}scan.v2.zarr/.zmetadata"} <= seen.keys()


@pytest.fixture
def look(browse: Callable[[str], Browsed], jupyter: Jupyter) -> Callable[[str], Browsed]:
    """Opens the page of a server by way of the proxy, in a browser that has logged in."""

    def look(url: str) -> Browsed:
        page = browse(jupyter.of(url))
        assert page.page.context.request.get(jupyter.url + "api" + jupyter.login).ok  # its cookie stays in the browser
        return page.open()

    return look


def detected(page: Browsed, header: Path) -> np.ndarray:
    """Compute the image of the page's detector with the library."""
    chosen = dict(page.state("detector"))
    made = {"disk": vfs.Disk, "ring": vfs.Ring}[chosen.pop("kind")](**chosen)
    return np.asarray(vfs.open(header).reduce(image=made)["image"].data)


def test_the_page(look: Callable[[str], Browsed], tmp_path: Path) -> None:
    frames = patterns()
    with vfs.serve(header := scan_in(tmp_path, frames), port=0) as server:
        page = look(server.url).settled()
        disk = detected(page, header)
        assert np.array_equal(page.numbers("scan"), disk)
        assert np.array_equal(page.numbers("frame"), frames[6, 8])
        for which, numbers in (("scan", disk), ("frame", frames[6, 8])):
            least, most = (np.unravel_index(at, numbers.shape) for at in (numbers.argmin(), numbers.argmax()))
            assert page.colour(which, *map(int, least))[0] < page.colour(which, *map(int, most))[0]
        page.click("scan", 3, 11)
        page.wait("vfs.frame.status === 'exact' && vfs.frame.caption === '3, 11'")
        assert np.array_equal(page.numbers("frame"), frames[3, 11])
        page.screenshot("proxied")
        page.press("3")
        page.wait("vfs.scan.status === 'exact' && vfs.scan.caption.startsWith('ring')")
        assert np.array_equal(page.numbers("scan"), detected(page, header))
        page.close()


def test_a_long_computation_is_seen_and_stopped(look: Callable[[str], Browsed], tmp_path: Path) -> None:
    np.lib.format.open_memmap(tmp_path / "long.npy", "w+", "u2", (256, 256, 1024, 1024))  # 128 GiB, none of it stored
    with vfs.serve(tmp_path / "long.npy", port=0) as server:
        page = look(server.url)
        page.wait("window.vfs && /^[0-9]+ %$/.test(vfs.scan.status)")
        with page.page.expect_response(re.compile("/api/stop/")) as stopped:
            page.press("3")
        assert stopped.value.json() == {"stopped": True}
        page.close()


def with_fsspec(url: str, headers: dict[str, str]) -> Any:
    import zarr

    return zarr.open(url, mode="r", storage_options={"client_kwargs": {"headers": headers}})["data"]


def with_obstore(url: str, headers: dict[str, str]) -> Any:
    import zarr
    from zarr.storage import ObjectStore

    options = {"default_headers": headers, "allow_http": True}
    store = pytest.importorskip("obstore.store").HTTPStore.from_url(url, client_options=options)
    return zarr.open(ObjectStore(store, read_only=True), mode="r")["data"]


def with_xarray(url: str, headers: dict[str, str]) -> Any:
    import xarray

    return xarray.open_zarr(url, storage_options={"client_kwargs": {"headers": headers}})["data"]


Opens = Callable[[str, dict[str, str]], Any]
each_way = pytest.mark.parametrize("opens", [with_fsspec, with_obstore, with_xarray])
each_face = pytest.mark.parametrize("face", ["scan.zarr", "scan.v2.zarr"])


@each_way
@each_face
def test_zarr(jupyter: Jupyter, scan: Scan, opens: Opens, face: str) -> None:
    expected = np.load(scan.expected)
    with vfs.serve(scan.path, port=0, chunks=CHUNKS) as server:
        array = opens(jupyter.of(server.url) + face, jupyter.headers)
        for region in regions(expected.shape).values():
            assert np.array_equal(array[region], expected[region])


@pytest.mark.filterwarnings("ignore:Both zarr.json")  # the page to log in comes under every name
@each_way
@each_face
def test_zarr_that_cannot_be_read(jupyter: Jupyter, scan: Scan, opens: Opens, face: str) -> None:
    with vfs.serve(scan.path, port=0, chunks=CHUNKS) as server:
        url = jupyter.of(server.url) + face
        with pytest.raises(json.JSONDecodeError):
            opens(url, {})
        array = opens(url, jupyter.headers)
        os.truncate(scan.second, 1000)
        with pytest.raises(Exception, match="422"):
            np.asarray(array[:])


def test_ranges_and_statuses(jupyter: Jupyter, scan: Scan) -> None:
    with vfs.serve(scan.path, port=0, chunks=CHUNKS) as server:
        with Client(server.url) as direct, Client(jupyter.of(server.url)) as client:

            def ask(key: str, **headers: str) -> Reply:
                """The answer by way of the proxy, which is that without it."""
                there, here = (one.ask(key, **jupyter.headers, **headers) for one in (direct, client))
                assert (here.status, here.body) == (there.status, there.body)
                for name in ("content-range", "content-length", "etag"):
                    assert here.headers.get(name) == there.headers.get(name)
                return here

            whole = ask("scan.npy").body
            for asked, part in (("bytes=130-140", whole[130:141]), ("bytes=-7", whole[-7:]), ("bytes=9-", whole[9:])):
                reply = ask("scan.npy", range=asked)
                assert (reply.status, reply.body) == (206, part)
            assert ask("scan.npy", range=f"bytes={len(whole)}-").status == 416
            assert ask("scan.npy", if_none_match=ask("scan.npy").headers["etag"]).status == 304
            assert ask("absent").status == 404
            assert ask("scan.zarr/data/c/9/0/0/0").status == 422
            head = client.ask("scan.npy", "HEAD", **jupyter.headers)
            assert head.headers["content-length"] == "0"  # the proxy's mistake, see serve.md
            os.truncate(scan.second, 1000)
            assert ask("scan.zarr/data/c/2/0/0/0").status == 422
        with Client(jupyter.of(server.url.replace(server.token, "0" * 22))) as wrong:
            assert wrong.ask("scan.npy", **jupyter.headers).status == 401


def test_only_100_mib_at_once(jupyter: Jupyter, tmp_path: Path) -> None:
    most = 100 << 20
    np.lib.format.open_memmap(tmp_path / "large.npy", "w+", "u1", (2, 10_000, 10_000))  # none of it is stored
    with vfs.serve(tmp_path / "large.npy", port=0) as server, Client(jupyter.of(server.url)) as client:
        for last, status, size in ((most - 1, 206, most), (most, 599, None)):
            reply = client.ask("large.npy", range=f"bytes=0-{last}", **jupyter.headers)
            assert reply.status == status
            assert size in (None, len(reply.body))


def test_another_name_needs_to_be_allowed(jupyter: Jupyter, scan: Scan) -> None:
    for allowed, status in (((), 400), ((HUB,), 200)):
        with vfs.serve(scan.path, port=0, allow_host=allowed) as server:
            request = urllib.request.Request(
                jupyter.of(server.url) + "scan.zarr/zarr.json", headers=jupyter.headers | {"Host": HUB}
            )
            if status == 200:
                with urllib.request.urlopen(request) as answer:
                    assert answer.status == status
            else:
                with pytest.raises(HTTPError, match=f" {status}") as refused:
                    urllib.request.urlopen(request)
                with refused.value as answer:
                    assert HUB in answer.read().decode()
