"""What a server refuses, and that it lives on with as little memory as before."""

from __future__ import annotations

import hmac
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import textwrap
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

import vfs
from tests.http.support import CORS, Client, connected, everything, memory_of
from tests.waiting import eventually
from vfs.errors import OptionError
from vfs.http.guard import Guard, RefusedError, choose_token
from vfs.server import servers
from vfs.sources import web_connection

MIB = 1 << 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shown")
    np.save(folder / "a.npy", np.arange(1 << 20, dtype="u2"))
    (folder / "secret.txt").write_text("secret")
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Any]:
    with vfs.serve(folder / "a.npy", port=0) as server:
        yield server


def lives(server: Any) -> bool:
    with urllib.request.urlopen(server.url + "a.npy") as answer:
        return len(answer.read()) == (2 << 20) + 128


def pid_of(server: Any) -> int:
    return next(one.pid for one in servers() if one.address == server.address)


def said(server: Any, request: bytes) -> bytes:
    """What a server says to bytes, until it closes the connection."""
    with connected(server.url) as connection:
        with suppress(BrokenPipeError, ConnectionResetError):  # it has closed the connection before the end
            connection.sendall(request)
        return everything(connection)


# the token


TARGETS = [
    *("/", "/a.npy", "/t", "/t/", "/t/x/a.npy"),
    *("/t/TOKE/a.npy", "/t/TOKENx/a.npy", "//t/TOKEN/a.npy", "/T/TOKEN/a.npy"),
]


@pytest.mark.parametrize(
    ("target", "method"),
    [
        (target, method)
        for target in TARGETS
        for method in ("GET", "HEAD", "OPTIONS", "POST", "PROPFIND")
        if (target, method) != ("/", "OPTIONS")  # whose answer is the same for everybody
    ],
)
def test_without_the_token_there_is_nothing(server: Any, target: str, method: str) -> None:
    token = server.token
    assert len(token) == 22
    with Client(server.url) as client:
        reply = client.raw(
            target.replace("TOKENx", token + "x").replace("TOKEN", token).replace("TOKE", token[:-1]), method
        )
        assert (reply.status, reply.headers[CORS]) == (401, "*")
        assert token.encode() not in reply.body
        assert reply.body.startswith(b"expected the token") or method == "HEAD"
        assert client.raw(f"/t/{token}").status == 404


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_browser_with_an_old_token_is_told_what_to_do(server: Any, method: str) -> None:
    firefox = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
    with Client(server.url) as client:
        text = client.raw("/t/old/?%3Cscript%3E=1", method)
        page = client.raw("/t/old/<script>alert(1)</script>?<script>", method, accept=firefox)
    assert (text.headers["content-type"], page.headers["content-type"]) == (
        "text/plain; charset=utf-8",
        "text/html; charset=utf-8",
    )
    assert page.status == 401
    own = {"content-type", "content-length", "content-security-policy", "date"}
    assert {k: v for k, v in page.headers.items() if k not in own} == {
        k: v for k, v in text.headers.items() if k not in own
    }
    assert "default-src 'none'" in page.headers["content-security-policy"]
    if method == "GET":
        assert b"vfs serve" in page.body
        assert b"vfs mounts" in page.body
        assert b"script>" not in page.body


def test_tokens_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    real = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: compared.append((a, b)) or real(a, b))
    guard = Guard("secret")
    for path in (b"/t/wrong/x", b"/x", b"/t/secret/x"):
        with suppress(RefusedError):
            guard.place(path)
    whole, cut = b"/t/secret/", b"/t/secret"
    wrong = [(b"/t/wrong/x", whole), (b"/t/wrong/x", cut), (b"/x", whole), (b"/x", cut)]
    assert compared == [*wrong, (whole, whole)]


def test_the_token_is_nowhere_but_in_the_url(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    command = [sys.executable, "-P", "-m", "vfs"]
    source = tmp_path / "b.npy"
    shutil.copy(folder / "a.npy", source)
    begun = subprocess.run(
        [*command, "serve", source, "--background", "--port", "0", "--log-level", "debug"],
        capture_output=True,
        text=True,
        check=True,
        timeout=250,
    )
    url = begun.stdout.strip()
    token = urlsplit(url).path.split("/")[2]
    try:
        os.truncate(source, 1000)
        with Client(url) as client:
            for key in ("b.npy", "none", "", "metrics", "b.zarr/data/c/0", f"t/{token}/b.npy"):
                assert token.encode() not in client.ask(key).body
            client.raw(f"/t/{token}x/b.npy")
        listed = [
            subprocess.run([*command, "mounts", *more], capture_output=True, text=True, timeout=250).stdout
            for more in ([], ["--json"])
        ]
        assert urlsplit(url).netloc in listed[0]
        assert any(urlsplit(url).netloc in one.get("address", "") for one in json.loads(listed[1]))
        assert not any(token in text for text in listed)
    finally:
        subprocess.run([*command, "unmount", url], check=True, timeout=250)
    kept = [path.read_text() for path in tmp_path.rglob("*") if path.is_file() and path != source]
    assert any("b.npy: changed after it was opened" in text for text in kept), kept
    assert any("GET b.npy 422" in text for text in kept), "debug logs every request"
    assert not any(token in text for text in kept)


def test_a_token_of_ones_own(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.touch(0o600)
    file.write_text("abc-def_123.~-456789\n")
    with vfs.serve(folder / "a.npy", port=0, token=str(file)) as server:
        assert server.token == "abc-def_123.~-456789"
        assert lives(server)
    with vfs.serve(folder / "a.npy", port=0, token="none") as server:
        assert server.token == ""
        assert lives(server)
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(server.url + "t/x")


@pytest.mark.parametrize(
    ("text", "mode", "message"),
    [
        ("short", 0o600, "at least 16 letters"),
        ("a" * 5000, 0o600, "found 4097 characters"),
        ("with a space in it, and more", 0o600, "expected a token of"),
        ("ä" * 20, 0o600, "not ASCII"),
        ("a" * 20, 0o644, "others may read this token; chmod 600"),
        (None, 0, "No such file"),
    ],
)
def test_tokens_that_will_not_do(tmp_path: Path, text: str | None, mode: int, message: str) -> None:
    file = tmp_path / "token"
    if text is not None:
        file.write_text(text)
        file.chmod(mode)
    with pytest.raises(OptionError, match=message):
        choose_token(str(file), "127.0.0.1")


def test_no_token_goes_only_with_loopback() -> None:
    for host in ("127.0.0.1", "localhost", "::1", "127.1.2.3"):
        assert choose_token("none", host) == ""
    for host in ("0.0.0.0", "::", "example.org", "10.0.0.1", ""):
        with pytest.raises(OptionError, match="just this machine"):
            choose_token("none", host)


# the host


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:1234", 200),
        ("127.0.0.1:9", 200),
        ("[::1]:8765", 200),
        (socket.gethostname(), 200),
        ("evil.example", 400),
        ("evil.example:80", 400),
        ("127.0.0.1.evil.example", 400),
        ("localhost.evil.example", 400),
        ("[127.0.0.1].evil.example", 400),
        ("[::1", 400),
        ("localhost:evil.example", 400),
        ("localhost:1@evil.example", 400),
        ("localhost:80:80", 400),
        ("10.1.2.3", 400),
        ("", 400),
    ],
)
def test_the_host_is_a_name_of_this_machine(server: Any, host: str, status: int) -> None:
    request = f"GET {urlsplit(server.url).path}a.zarr/zarr.json HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    answer = said(server, request.encode())
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert b"access-control-allow-origin: *" in answer


def test_more_names_and_addresses() -> None:
    guard = Guard("", "0.0.0.0", ["hub.example.org"])
    for host in (b"hub.example.org", b"HUB.example.org:443", b"192.168.1.2:8765", b"[fe80::1]"):
        guard.check_host(host)
    for wrong in (b"example.org", b"other.example.org", None, b"\xff"):
        with pytest.raises(RefusedError):
            guard.check_host(wrong)
    any_name = Guard("secret", names=["*"])  # as of pages in notebooks, behind a proxy of which a kernel knows nothing
    any_name.check_host(b"hub.example.org:443")
    with pytest.raises(RefusedError):
        any_name.check_host(b"hub.example.org:80:80")


# requests that mean no good


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "%2e%2e/secret.txt",
        "..%2fsecret.txt",
        "a.zarr/../../secret.txt",
        "a.zarr/%2e%2e/%2e%2e/secret.txt",
        "a.zarr/..%5c..%5csecret.txt",
        "%2fetc%2fpasswd",
        "/etc/passwd",
        "a.zarr//etc/passwd",
        "secret.txt",
        "a.npy%00.txt",
        "%ff%fe",
        "a.zarr/data/c/-1",
        "a.zarr/data/c/1e3",
        "a.zarr/data/c/%D9%A3",
        "a.zarr/data/c/" + "9" * 5000,
        "%",
        "%zz",
        "?a.npy",
        "#a.npy",
        ";a.npy",
    ],
)
def test_no_path_is_the_name_of_a_file(server: Any, path: str) -> None:
    answer = said(
        server,
        f"GET {urlsplit(server.url).path}{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode(),
    )
    status = int(answer.split()[1])
    assert status in (400, 404, 422) or (path[0] in "?#" and status == 200)  # that is the list of what is shown
    assert b"secret.txt" not in answer.partition(b"\r\n\r\n")[2].replace(b"nothing is called", b"") or status == 404
    assert not answer.endswith(b"secret")
    assert b"root:" not in answer


def test_a_link_that_leads_outside_is_not_shown(folder: Path, tmp_path: Path) -> None:
    inside = tmp_path / "tree"
    inside.mkdir()
    shutil.copy(folder / "a.npy", inside / "a.npy")
    (inside / "out.npy").symlink_to(folder / "a.npy")
    (inside / "folder").symlink_to(folder)
    (inside / "passwd").symlink_to("/etc/passwd")
    with vfs.serve(inside, port=0, tree=True, show_files=True) as server, Client(server.url) as client:
        assert client.ask("a.npy").status == 200
        for key in ("out.npy", "out.zarr/zarr.json", "folder/a.npy", "passwd", "folder/secret.txt"):
            reply = client.ask(key)
            assert reply.status in (404, 422), key
            assert b"root:" not in reply.body
        assert client.ask("").body.count(b"<li>") == len(
            [name for name in ("a.zarr", "a.v2.zarr", "a.npy") if name.encode() in client.ask("").body]
        )


GARBAGE = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),  # TLS
    b"\0" * 1000,
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET http://\xff\xfe/ HTTP/1.1\r\n\r\n",
    b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"GET / HTTP/1.1\r\nbad header\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
    b"SSH-2.0-OpenSSH_9.6\r\n",
]


@pytest.mark.parametrize("request_", GARBAGE)
def test_garbage_is_refused(server: Any, request_: bytes) -> None:
    answer = said(server, request_)
    assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 401 "))
    for header in (b"access-control-allow-origin: *", b"access-control-expose-headers: ", b"cache-control: private"):
        assert answer.count(b"\r\n" + header) == 1
    assert lives(server)


def test_a_head_that_is_too_long(server: Any) -> None:
    pid, path = pid_of(server), urlsplit(server.url).path.encode()
    lives(server)
    before = memory_of(pid)
    long_line = b"GET " + path + b"a" * MIB + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
    one_header = b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\nRange: bytes=" + b"0-1," * (MIB // 4) + b"\r\n\r\n"
    headers = b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * (MIB // 6) + b"\r\n"
    endless = b"GET " + path + b" HTTP/1.1\r\nX: " + b"y" * 30 * MIB
    for request, status in ((long_line, b"414"), (one_header, b"431"), (headers, b"431"), (endless, b"431")):
        answer = said(server, request)
        assert not answer or answer.split()[1] == status  # empty: it closed before all was sent, and that broke reading
    assert lives(server)
    assert memory_of(pid) < before + 20 * MIB


def test_a_head_that_never_ends_is_cut_off(folder: Path) -> None:
    code = """
        import sys, vfs.server.connection as c
        c.SECONDS = 0.5
        from vfs.cli.app import main
        sys.exit(main())
    """
    command = [
        sys.executable,
        "-P",
        "-c",
        textwrap.dedent(code),
        "serve",
        folder / "a.npy",
        "--port",
        "0",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        try:
            assert running.stdout is not None
            url = running.stdout.readline().strip()
            path = urlsplit(url).path.encode()
            asked = b"GET " + path + b"a.zarr/zarr.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
            with connected(url) as kept:
                for _ in range(2):  # one that asks nothing more is kept while others are cut off
                    kept.sendall(asked)
                    while b"\n}" not in kept.recv(1 << 16):
                        pass
                    for begun in (b"", b"GET /", b"GET " + path + b"a.npy HTTP/1.1\r\nHost: local"):
                        with connected(url) as connection:
                            connection.sendall(begun)
                            assert everything(connection) == b""  # closed, without an answer
            with connected(url) as connection:  # a second request on a connection
                connection.sendall(asked + b"GET /")
                answer = everything(connection)
                assert answer.startswith(b"HTTP/1.1 200")
                assert answer.count(b"HTTP/1.1") == 1
        finally:
            running.terminate()
            running.communicate(timeout=250)


def test_thousands_of_requests_at_once(server: Any) -> None:
    path = urlsplit(server.url).path.encode()
    one = b"GET " + path + b"a.zarr/zarr.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET " + path + b"none HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with connected(server.url) as connection:
        sending = threading.Thread(target=connection.sendall, args=(one * 3000 + last,))
        sending.start()
        answer = everything(connection)
        sending.join()
    assert answer.count(b"HTTP/1.1 200 OK") == 3000
    assert answer.count(b"HTTP/1.1 404") == 1


def test_a_body_that_nobody_wants(server: Any) -> None:
    pid, path = pid_of(server), urlsplit(server.url).path.encode()
    lives(server)  # loads what decodes
    before = memory_of(pid)
    for method in (b"POST", b"GET"):
        head = (
            method + b" " + path + b"a.zarr/zarr.json HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50000000\r\n\r\n"
        )
        answer = said(server, head + bytes(50_000_000) + b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")
        assert not answer or answer.split()[1] in (b"200", b"405")
    assert lives(server)
    assert memory_of(pid) < before + 20 * MIB


def test_connections_that_are_left_open(server: Any) -> None:
    pid = pid_of(server)
    fds = len(os.listdir(f"/proc/{pid}/fd"))
    path = urlsplit(server.url).path.encode()
    left = [connected(server.url) for _ in range(100)]
    for k, connection in enumerate(left):
        connection.sendall([b"", b"GET /", b"GET " + path + b"a.npy HTTP/1.1\r\nHost: localhost\r\n\r\n"][k % 3])
    assert lives(server)
    for connection in left:
        connection.close()
    # Threads that answer natively may have come meanwhile, with five descriptors
    assert eventually(lambda: len(os.listdir(f"/proc/{pid}/fd")) <= fds + 5 + 2)


# encryption


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    if shutil.which("openssl") is None:
        pytest.skip("NO ENCRYPTION IS TESTED: there is no openssl to make a certificate")
    folder = tmp_path_factory.mktemp("certificate")
    cert, key = folder / "cert.pem", folder / "key.pem"
    make_certificate(cert, key)
    return cert, key


def make_certificate(cert: Path, key: Path) -> None:
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", cert),
        ],
        check=True,
        capture_output=True,
    )


def test_encrypted(folder: Path, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    cert, key = certificate
    with vfs.serve(folder / "a.npy", port=0, host="localhost", tls_cert=str(cert), tls_key=str(key)) as server:
        assert re.fullmatch(r"https://localhost:\d+/t/[\w-]{22}/", server.url)
        trusting = ssl.create_default_context(cafile=str(cert))
        with urllib.request.urlopen(server.url + "a.npy", context=trusting) as answer:
            assert answer.read() == (folder / "a.npy").read_bytes()
        plain = said(server, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200" not in plain
        # vfs reads it, too, if it trusts it
        with pytest.raises(vfs.VfsError, match="certificate is not trusted: self"):
            vfs.open(server.url + "a.npy")
        monkeypatch.setattr(web_connection, "_context", lambda: trusting)
        np.testing.assert_array_equal(vfs.open(server.url + "a.npy")[...], np.load(folder / "a.npy"))
        with _proxy() as (proxy, asked):
            monkeypatch.setenv("https_proxy", proxy)
            np.testing.assert_array_equal(vfs.open(server.url + "a.npy")[...], np.load(folder / "a.npy"))
        assert asked[0].startswith(f"CONNECT localhost:{server.url.split(':')[2].split('/')[0]} ".encode())


def test_a_hang_up_reads_certificate_and_token_again(
    folder: Path, certificate: tuple[Path, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    cert, key = (Path(shutil.copy(path, tmp_path)) for path in certificate)
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text("one-token-of-many")

    def shown(port: int) -> str:
        return ssl.get_server_certificate(("localhost", port))

    how = {"tls_cert": str(cert), "tls_key": str(key), "token": str(token)}
    with vfs.serve(folder / "a.npy", port=0, host="localhost", **how) as server:
        port = urlsplit(server.url).port or 0
        before, pid = shown(port), next(one.pid for one in servers() if one.address == server.address)
        text = cert.read_text()
        cert.write_text("garbled")
        os.kill(pid, signal.SIGHUP)
        heard = []
        assert eventually(lambda: heard.append(capfd.readouterr().err) or "what was read before" in "".join(heard))
        assert shown(port) == before
        cert.write_text(text)
        make_certificate(cert, key)
        token.write_text("another-token-of-many")
        os.kill(pid, signal.SIGHUP)
        assert eventually(lambda: shown(port) != before)
        trusting = ssl.create_default_context(cafile=str(cert))
        renewed = server.url.replace("one-", "another-")
        with urllib.request.urlopen(renewed + "a.npy", context=trusting) as answer:
            assert answer.read() == (folder / "a.npy").read_bytes()
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(server.url + "a.npy", context=trusting)


@contextmanager
def _proxy() -> Iterator[tuple[str, list[bytes]]]:
    """Lead to where CONNECT says. Yields the URL of the proxy, and the heads that came."""
    asked: list[bytes] = []

    def pass_on(one: socket.socket, other: socket.socket) -> None:
        with one, suppress(OSError):
            while data := one.recv(1 << 16):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)

    def lead() -> None:
        with suppress(OSError):
            while True:
                one, _ = listening.accept()
                head = one.recv(1 << 16)
                asked.append(head)
                host, _, port = head.split()[1].decode().rpartition(":")
                other = socket.create_connection((host, int(port)))
                one.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                for two in ((one, other), (other, one)):
                    threading.Thread(target=pass_on, args=two, daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=lead, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}", asked
        finally:
            listening.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("wrong", ["absent", "swapped", "empty", "one"])
def test_certificates_that_will_not_do(
    folder: Path, tmp_path: Path, certificate: tuple[Path, Path], wrong: str
) -> None:
    cert, key = certificate
    empty = tmp_path / "empty.pem"
    empty.touch()
    given: dict[str, Any] = {
        "absent": {"tls_cert": str(tmp_path / "none.pem"), "tls_key": str(key)},
        "swapped": {"tls_cert": str(key), "tls_key": str(cert)},
        "empty": {"tls_cert": str(empty), "tls_key": str(empty)},
        "one": {"tls_cert": str(cert)},
    }[wrong]
    with pytest.raises(vfs.ServeError, match=r"expected a certificate|go together"):
        vfs.serve(folder / "a.npy", port=0, **given)


# pages of other sites


def refused(guard: Guard, method: str = "GET", **headers: str) -> bool:
    """True if a request with these headers is refused, as one of another site."""
    named = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    found = None
    try:
        guard.check(method, {b"host": b"localhost:8765"} | named)
    except RefusedError as error:
        found = error
    assert found is None or (found.status == 403 and "cors=" in found.reason)
    return found is not None


FOLLOWED = {"sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
SITES: dict[str, tuple[dict[str, str], bool]] = {
    "a program": ({}, False),
    "the page": ({"origin": "http://localhost:8765", "sec_fetch_site": "same-origin"}, False),
    "the page, in an old browser": ({"origin": "http://localhost:8765"}, False),
    "the page, behind a proxy": ({"origin": "https://hub.example.org", "sec_fetch_site": "same-origin"}, False),
    "typed": ({"sec_fetch_site": "none", **FOLLOWED}, False),
    "a link": ({"sec_fetch_site": "cross-site", **FOLLOWED}, False),
    "a frame": ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "iframe"}, True),
    "an image": ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors"}, True),
    "another site": ({"origin": "https://evil.example", "sec_fetch_site": "cross-site"}, True),
    "another site, in an old browser": ({"origin": "https://evil.example"}, True),
    "another port of this machine": ({"origin": "http://localhost:1", "sec_fetch_site": "same-site"}, True),
    "another port, in an old browser": ({"origin": "http://localhost:1"}, True),
    "a sandbox": ({"origin": "null", "sec_fetch_site": "cross-site", **FOLLOWED}, True),
    "a name that begins alike": ({"origin": "http://localhost:8765.evil.example"}, True),
}


@pytest.mark.parametrize("who", SITES)
def test_without_a_token_other_sites_are_refused(who: str) -> None:
    headers, wrong = SITES[who]
    assert refused(Guard(""), **headers) == wrong
    assert not refused(Guard("a token of many letters"), **headers)
    assert not refused(Guard("", origins=[headers.get("origin", "")]), **headers) or "origin" not in headers


def test_a_form_of_another_site_is_refused() -> None:
    followed = {"sec_fetch_site": "cross-site", **FOLLOWED}
    assert refused(Guard(""), "POST", **followed)
    assert refused(Guard(""), "POST", origin="https://evil.example", **followed)


def test_pages_of_other_sites_read_nothing_without_a_token(folder: Path) -> None:
    with (
        vfs.serve(folder / "a.npy", port=0, token="none", cors=["https://a.org"]) as one,
        vfs.serve(folder / "a.npy", port=0, token="none") as other,
    ):
        for server, named in ((one, True), (other, False)):
            with Client(server.url) as client:
                for key in ("a.npy", "a.zarr/data/c/0", "a.zarr/zarr.json", "none", "", "api/list", "metrics"):
                    for method in ("GET", "OPTIONS"):
                        reply = client.ask(key, method, origin="https://evil.example")
                        assert reply.status == 403
                        assert not any("allow-origin" in name or "private" in name for name in reply.headers)
                    assert CORS not in client.ask(key).headers
                reply = client.ask("a.npy", origin="https://a.org", sec_fetch_site="cross-site")
                assert (reply.status, reply.headers.get(CORS)) == ((200, "https://a.org") if named else (403, None))
            assert b"access-control" not in said(server, b"\0\1\r\n\r\n") or named
            assert CORS.encode() not in said(server, b"\0\1\r\n\r\n")
            assert lives(server)
