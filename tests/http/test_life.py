"""How servers begin and end, and what they say of themselves."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

import vfs
import vfs.fuse
from tests.cli.support import refused
from tests.http.support import Asgi, Client, application_of, connected, waiting
from tests.waiting import PATIENCE, eventually, until
from vfs.cli.app import main
from vfs.cli.browser import open_page
from vfs.contents import face_folder
from vfs.contents.shown import InFace
from vfs.engine.cache import ChunkCache
from vfs.folder_tree.plans import folder
from vfs.server import end, is_address, listening, servers
from vfs.server.how import ServeHow
from vfs.server.server import serve as serve_here
from vfs.serving.failures import FIRST
from vfs.testing.inside import set_of
from vfs.testing.writers import write_mib

VFS = (sys.executable, "-P", "-m", "vfs")
VALUES = np.arange(24 * 16 * 32, dtype="u2").reshape(24, 16, 32)


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    (tmp_path / "scan").mkdir()
    return write_mib(tmp_path / "scan", VALUES, frames_per_file=6, scan=(4, 6))


@pytest.fixture(autouse=True)
def runtime(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path_factory.mktemp("runtime")
    path.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(path))
    return path


def cli(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*VFS, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=250, **options
    )


@contextmanager
def foreground(*arguments: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`vfs serve` in the foreground, and its URL."""
    command = [*VFS, "serve", *map(str, arguments), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            yield running, running.stdout.readline().strip()
        finally:
            running.kill()


def own() -> list[str]:
    """The servers of this test; others of this user may run."""
    return [one.address for one in servers() if one.folder.startswith(os.environ["XDG_RUNTIME_DIR"])]


def listed(url: str) -> dict[str, Any]:
    """What `vfs mounts` says of a server; others of this user may run."""
    every = json.loads(cli("mounts", "--json").stdout)
    return next(one for one in every if one.get("address") == url.partition("t/")[0])


def listens(url: str) -> bool:
    parts = urlsplit(url)
    with socket.socket() as tried:
        return tried.connect_ex((parts.hostname or "", parts.port or 0)) == 0


def status_of(url: str, key: str) -> int:
    try:
        with urllib.request.urlopen(url + key) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def test_a_block(scan: Path) -> None:
    with vfs.serve(scan, port=0) as server:
        assert status_of(server.url, "scan.npy") == 200
        assert own() == [server.address]
        assert server.url == f"{server.address}t/{server.token}/"
        assert repr(server) == f"<vfs.Server {server.address}>"
        assert server.token not in repr(server)
    assert not listens(server.url)
    assert own() == []
    assert repr(server).endswith(", closed>")
    server.close()


def test_several_sets_and_options(scan: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "other.npy", VALUES)
    sets = [scan, tmp_path / "other.npy"]
    with vfs.serve(sets, port=0, dtype="f4", workers=1) as server, Client(server.url) as client:
        body = client.ask("").body.decode()
        assert [name in body for name in ("scan.zarr", "scan.npy", "other.v2.zarr", "other.npy")] == [True] * 4
        assert np.frombuffer(client.ask("scan.npy").body[128:], "f4").tolist() == VALUES.reshape(-1).tolist()


@pytest.mark.parametrize("how", ["kill", "exit", "fork"])
def test_a_server_ends_with_its_process(scan: Path, how: str) -> None:
    code = f"""
        import os, sys, signal, vfs
        server = vfs.serve({str(scan)!r}, port=0)
        print(server.url, flush=True)
        if {how!r} == "fork":
            if os.fork() == 0:
                server.close()
                os._exit(0)
            os.wait()
            import urllib.request
            print(len(urllib.request.urlopen(server.url + "scan.npy").read()), flush=True)
        sys.stdin.read()
    """
    command = [sys.executable, "-P", "-c", textwrap.dedent(code)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdin is not None
        url = running.stdout.readline().strip()
        assert listens(url)
        if how == "fork":  # a child that ends does not end what belongs to its parent
            assert int(running.stdout.readline()) == 128 + VALUES.nbytes
        if how == "kill":
            running.kill()
        running.stdin.close()
    assert eventually(lambda: not listens(url))
    assert eventually(lambda: own() == [])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_foreground_and_it_sums_up(scan: Path, number: signal.Signals) -> None:
    with foreground(scan) as (running, url):
        assert status_of(url, "scan.npy") == 200
        running.send_signal(number)
        _, err = running.communicate(timeout=250)
    assert running.returncode == 0
    first, zarr, last = err.splitlines()
    address = url.partition("t/")[0]
    assert first == f"vfs: 1 data set at {address}; Ctrl-C or `vfs unmount {address}` ends it"
    assert zarr == f'vfs: in Python: zarr.open("{url}scan.zarr")'
    assert last.startswith(f"vfs: {address}: 24.1 KiB in 1 reads")
    assert "no errors" in last


def test_a_second_signal_does_not_wait_for_clients(scan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patient = (
        "import sys, vfs.cli.app as app, vfs.server.server as s; s.PATIENCE = 600; sys.exit(app.main(sys.argv[1:]))"
    )
    monkeypatch.setattr(f"{__name__}.VFS", (sys.executable, "-P", "-c", patient))
    with foreground(scan) as (running, url), connected(url) as client:
        client.sendall(
            f"POST {urlsplit(url).path}api/compute HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n".encode()
        )
        assert status_of(url, "scan.npy") == 200  # the server has seen the request, which never ends
        running.send_signal(signal.SIGINT)
        assert eventually(lambda: not listens(url))
        assert running.poll() is None
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=250)
    assert running.returncode == 0


def test_background(scan: Path) -> None:
    done = cli("serve", scan, "--background", "--port", "0")
    url = done.stdout.strip()
    try:
        assert status_of(url, "scan.npy") == 200
        assert eventually(lambda: "24.1 KiB" in cli("mounts").stdout)
        found = listed(url)
        assert (found["state"], found["reads"], found["errors"]) == ("served", 1, 0)
        assert found["sources"] == [str(scan)]
        assert Path(found["log"]).exists()
        assert Path(found["folder"], "status.json").stat().st_mode & 0o077 == 0
    finally:
        ended = cli("unmount", url)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert not listens(url)
    assert urlsplit(url).netloc not in cli("mounts").stdout
    assert url.rpartition("/t/")[2].strip("/") not in Path(found["log"]).read_text()


@pytest.mark.parametrize("form", ["{url}", "{address}", "{place}", "--all"])
def test_a_server_is_ended_by_its_address(scan: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vfs.fuse, "mounts", list)  # else --all would end those of tests beside this one
    with vfs.serve(scan, port=0) as server, vfs.serve(scan, port=0) as other:
        place = urlsplit(server.url).netloc
        text = form.format(url=server.url + "scan.zarr", address=server.address, place=place)
        assert main(["unmount", text]) == 0
        assert not listens(server.url)
        assert listens(other.url) == (form != "--all")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        *((text, True) for text in ("http://x/", "https://x:1", "127.0.0.1:80", ":80")),
        *((text, False) for text in ("mnt", "/mnt:80", "a:b", "./x:1", "")),
    ],
)
def test_what_is_an_address(text: str, address: bool) -> None:
    assert is_address(text) == address


def test_an_address_of_nobody() -> None:
    with pytest.raises(vfs.ServeError, match=r"127\.0\.0\.1:1: no server of yours has this address; there is none"):
        end("http://127.0.0.1:1/")
    done = cli("unmount", "127.0.0.1:1")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


@pytest.mark.parametrize("address", ["http://[::1", "[::1:80", "http://a\u2100b:80"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(vfs.ServeError, match="expected a URL, or HOST:PORT: "):
        end(address)


def test_what_a_killed_server_left_is_cleared(scan: Path, runtime: Path) -> None:
    with foreground(scan) as (running, _):
        assert eventually(lambda: len(own()) == 1)
        running.kill()
        running.wait()
        assert list(runtime.rglob("status.json"))
        assert own() == []
    assert not list(runtime.rglob("status.json"))


def test_ports(scan: Path) -> None:
    with (
        listening.listening("127.0.0.1", None) as one,
        listening.listening("127.0.0.1", None) as other,
    ):  # before either has a client
        assert one.getsockname() != other.getsockname()
    with vfs.serve(scan) as first, vfs.serve(scan) as second:
        ports = [urlsplit(one.url).port or 0 for one in (first, second)]
        assert len({*ports, *range(8765, 8865)}) == 100  # free ones of these; other servers may come and go
        assert ports[0] != ports[1]
        with pytest.raises(vfs.ServeError, match=rf"port {ports[0]}: cannot listen: Address already in use; another"):
            vfs.serve(scan, port=ports[0])


def test_a_socket_of_the_service_manager(scan: Path) -> None:
    """It listens before the server does, and after: clients wait meanwhile."""
    code = """
        import os, sys
        os.dup2(int(sys.argv[1]), 3)
        os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
        os.execv(sys.executable, [sys.executable, "-P", "-m", "vfs", "serve", sys.argv[2], "--token", "none"])
    """
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        connected(f"http://127.0.0.1:{listener.getsockname()[1]}/"),
    ):
        port = listener.getsockname()[1]
        command = [sys.executable, "-P", "-c", textwrap.dedent(code), str(listener.fileno()), str(scan)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, pass_fds=[listener.fileno()]) as running:
            try:
                assert running.stdout is not None
                assert running.stdout.readline() == f"http://127.0.0.1:{port}/\n"
                assert status_of(f"http://127.0.0.1:{port}/", "scan.npy") == 200
            finally:
                running.terminate()
        assert listens(f"http://127.0.0.1:{port}/")


@pytest.mark.parametrize("given", ["file", "several", "datagrams"])
def test_what_is_no_socket_to_listen_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: str) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as datagrams, (tmp_path / "a").open("wb") as file:
        monkeypatch.setattr(listening, "FIRST_GIVEN", os.dup((file if given == "file" else datagrams).fileno()))
        monkeypatch.setenv("LISTEN_FDS", "2" if given == "several" else "1")
        monkeypatch.setenv("LISTEN_PID", str(os.getpid()))
        with pytest.raises(vfs.ServeError, match="LISTEN_FDS: expected one socket of TCP"):
            listening.given()
        assert "LISTEN_FDS" not in os.environ
        monkeypatch.setenv("LISTEN_FDS", "1")
        monkeypatch.setenv("LISTEN_PID", "1")
        assert listening.given() is None  # they are for another process


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--port", "65536"], "expected 0 (a free one) to 65535"),
        (["--host", "1::2::3"], "expected a host of this machine"),
        (["--host", "192.0.2.1"], "cannot listen"),
        (["--workers", "0"], "--workers 0: expected a number, at least 1"),
        (["--token", "/none"], "expected a file with a token"),
        (["--token", "/none", "--background"], "expected a file with a token"),
        (["--token", "none", "--host", "0.0.0.0"], "goes only with a host that just this machine reaches"),
        (["--tls-cert", "x"], "go together"),
        (["--cors", "example.org"], "--cors example.org: expected an origin, such as https://example.org"),
        (["--allow-host", "https://a.org"], "--allow-host https://a.org: expected a name, such as example.org"),
        (["--allow-host", "*", "--token", "none"], "goes only with a token"),
        (["--show-files"], "--show-files goes with --tree"),
        (["--cache-size", "x"], "--cache-size"),
    ],
)
def test_options_that_do_not_fit_are_one_line(
    scan: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["serve", scan, *(["--port", "0"] if "--port" not in arguments else []), *arguments]
    assert message in refused(capsys, *command)


def test_without_a_web_server_it_says_what_to_install(scan: Path, tmp_path: Path) -> None:
    (tmp_path / "uvicorn.py").write_text("raise ImportError('not here')")
    done = cli("serve", scan, "--port", "0", env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.returncode == 2
    assert done.stderr.startswith("vfs: serving needs uvicorn and httptools: ")
    assert done.stderr.endswith("pip install 'vfs[serve]' (not here)\n")


def test_a_thread_cannot_serve(scan: Path) -> None:
    errors = []

    def work() -> None:
        try:
            serve_here(folder([set_of(vfs.open_group(scan))], ChunkCache()), ServeHow())
        except vfs.ServeError as error:
            errors.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert errors == ["a server runs in the main thread; vfs.serve() starts a process for it"]


# what cannot be read


def test_a_source_that_breaks_and_comes_back(scan: Path) -> None:
    file = scan.parent / "scan002.mib"
    content, times = file.read_bytes(), file.stat()
    done = cli("serve", scan, "--background", "--port", "0", "--chunks", "1,1,-1,-1")
    url = done.stdout.strip()
    try:
        with Client(url) as client:
            key = "scan.zarr/data/c/1/1/0/0"
            expected = VALUES[7].tobytes()
            assert client.ask(key).body == expected
            os.truncate(file, 1000)
            assert eventually(lambda: client.ask("scan.zarr/data/c/1/2/0/0").status == 422)
            for _ in range(2 * FIRST):
                reply = client.ask("scan.zarr/data/c/1/2/0/0")
                assert (reply.status, reply.body.count(b"\n")) == (422, 1)
                assert b"scan002.mib" in reply.body
            file.write_bytes(content)
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
            assert eventually(lambda: client.ask(key).status == 200)
            assert client.ask(key).body == expected
            assert client.ask("scan.zarr/data/c/1/2/0/0").body == VALUES[8].tobytes()
        assert eventually(lambda: listed(url)["errors"] > 2 * FIRST)
        log = Path(listed(url)["log"])
    finally:
        cli("unmount", url)
    lines = [line for line in log.read_text().splitlines() if " ERROR " in line]
    assert 0 < len(lines) <= 4 * FIRST
    assert any("scan.zarr/data/c/1/2/0/0: " in line and "scan002.mib" in line for line in lines)


def test_a_source_that_is_gone_names_file_bytes_and_region(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, VALUES)
    with vfs.serve(path, port=0, accept_changes=True) as server, Client(server.url) as client:
        os.truncate(path, 5000)
        reply = client.ask("a.npy")
        assert reply.status == 422
        text = reply.body.decode()
        assert str(path) in text
        assert "24,704" in text
        assert "[reading data[" in text
        assert client.ask("a.zarr/zarr.json").status == 200


# threads


def contents(scan: Path) -> Any:
    return folder([set_of(vfs.open_group(scan, backend="buffered"))], ChunkCache())


def test_two_clients_of_one_chunk_decode_it_once(scan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown, read = contents(scan), []
    real, free = InFace.get, threading.Event()

    def slow(*arguments: Any) -> Any:
        read.append(arguments)
        assert free.wait(100)
        return real(*arguments)

    monkeypatch.setattr(InFace, "get", slow)
    application = application_of(shown, workers=4)
    key = "scan.zarr/data/c/0/0/0/0"

    async def both() -> list[Asgi]:
        asked = [asyncio.ensure_future(Asgi(application, f"/{key}").run()) for _ in range(5)]
        await until(lambda: waiting(application) == 5)
        free.set()
        return await asyncio.gather(*asked)

    done = asyncio.run(both())
    assert [one.body for one in done] == [real(shown.at(key))] * 5
    assert len(read) == 1


def test_an_error_reaches_all_who_wait_and_is_tried_again(scan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = contents(scan)
    real, fails = InFace.get, [True]

    def get(*arguments: Any) -> Any:
        assert eventually(lambda: waiting(application) == (3 if fails[0] else 2))
        if fails[0]:
            raise vfs.SourceError("scan001.mib: broken")
        return real(*arguments)

    monkeypatch.setattr(InFace, "get", get)
    application = application_of(shown)
    path = "/scan.zarr/data/c/0/0/0/0"

    async def ask(count: int) -> list[Asgi]:
        return await asyncio.gather(*(Asgi(application, path).run() for _ in range(count)))

    async def both() -> tuple[list[Asgi], list[Asgi]]:
        first = await ask(3)
        fails[0] = False
        return first, await ask(2)

    failed, done = asyncio.run(both())
    assert [(one.status, one.body) for one in failed] == [(422, b"scan001.mib: broken\n")] * 3
    assert [one.status for one in done] == [200, 200]


def test_clients_that_go_away_take_their_reads_with_them(scan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown, read = contents(scan), []
    real, free = InFace.get, threading.Event()

    def slow(*arguments: Any) -> Any:
        read.append(arguments[1])
        assert free.wait(100)
        return real(*arguments)

    monkeypatch.setattr(InFace, "get", slow)
    application = application_of(shown, workers=1)
    application.decisions._at_hand = lambda *_: None  # as if the bytes had to come from a disk

    async def leave() -> tuple[list[Asgi], Asgi]:
        clients = [Asgi(application, "/scan.npy", range=f"bytes={k}-{k + 9}") for k in range(20)]
        tasks = [asyncio.ensure_future(one.run()) for one in clients]
        await until(lambda: read)
        for one in clients:
            one.gone.set()
        await asyncio.wait_for(asyncio.gather(*tasks), PATIENCE)
        free.set()
        last = await Asgi(application, "/scan.npy", range="bytes=500-509").run()
        return clients, last

    clients, last = asyncio.run(leave())
    assert read == [0, 500]
    assert all(one.sent == [] for one in clients)
    assert last.status == 206


def test_what_is_in_memory_needs_no_thread(scan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(face_folder.LOOKS, "least", 600.0)
    shown = contents(scan)
    application = application_of(shown)

    async def ask(path: str, method: str = "GET", **headers: str) -> Asgi:
        return await Asgi(application, path, method, **headers).run()

    key = "/scan.zarr/data/c/0/0/0/0"
    first = asyncio.run(ask(key, range="bytes=0-9"))  # a part: the chunk is kept
    assert first.status == 206
    documents = ("/scan.zarr/zarr.json", "/scan.v2.zarr/.zmetadata")
    assert [asyncio.run(ask(path)).status for path in (*documents, "/scan.npy")] == [200] * 3  # faces are made

    def never(*_: Any) -> Any:
        raise AssertionError("a thread")

    monkeypatch.setattr(application.reads, "start", never)
    etag = {name.decode(): value.decode() for name, value in first.sent[0]["headers"]}["etag"]
    assert asyncio.run(ask(key)).body == VALUES.tobytes()
    assert asyncio.run(ask(key, if_none_match=etag)).status == 304
    for path in documents:
        assert asyncio.run(ask(path)).status == 200
    assert asyncio.run(ask("/scan.npy", "HEAD")).status == 200


def test_contents_go_to_another_process(scan: Path) -> None:
    """`vfs.serve` sends how sets were opened, not what was read of them."""
    opening = set_of(vfs.open_group(scan)).opening
    assert len(pickle.dumps(opening)) < 2000
    assert opening.version == pickle.loads(pickle.dumps(opening)).version


@pytest.mark.parametrize("snaps", [False, True])
@pytest.mark.parametrize("background", [False, True])
def test_a_browser_is_not_told_the_token(
    scan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, background: bool, snaps: bool
) -> None:
    """Other users can read its command line."""
    home, told = tmp_path / "home", tmp_path / "told"
    (home / "snap" if snaps else home).mkdir(parents=True)
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$@" > {told}.new; mv {told}.new {told}\n')
    browser.chmod(0o700)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("BROWSER", str(browser))
    if background:
        url = cli(scan, "--background", "--port", "0").stdout.strip()  # without a command: serve --open
        check_what_is_opened(url, told, home if snaps else None)
        assert cli("unmount", url).returncode == 0
    else:
        with foreground(scan, "--open") as (running, url):
            check_what_is_opened(url, told, home if snaps else None)
            running.terminate()
            running.communicate(timeout=250)
    assert not Path(told.read_text().strip().removeprefix("file://")).exists()
    assert [each.name for each in home.iterdir()] == ["snap"] * snaps


def check_what_is_opened(url: str, told: Path, home: Path | None) -> None:
    assert eventually(told.exists)
    opened = told.read_text().strip()
    assert opened.startswith("file:///")
    assert urlsplit(url).path.split("/")[2] not in opened
    path = Path(opened.removeprefix("file://"))
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert f'content="0; url={url}"' in path.read_text()
    assert home is None or path.parent.parent == home


def test_what_needs_no_token_is_opened_itself(scan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: told.append(url) or True)
    assert open_page("http://127.0.0.1:1/#set=x", "http://127.0.0.1:1/") == ""
    assert told == ["http://127.0.0.1:1/#set=x"]
    assert "no folder for a file" in open_page("http://127.0.0.1:1/t/secret/", "http://127.0.0.1:1/")
    assert len(told) == 1
