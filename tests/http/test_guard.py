"""Who may ask, decided without a server: names in `Host`, sites of pages, tokens in paths, and options of these."""

from __future__ import annotations

import base64
import ipaddress
import os
from pathlib import Path
from urllib.parse import quote_from_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfs.errors import OptionError
from vfs.http.guard import KNOWN, Guard, Place, RefusedError, choose_token, framer_of, is_loopback, name_of, origin_of
from vfs.http.persons import Person

TOKEN = "a-token_of.letters~0"
BASE = f"/t/{TOKEN}/".encode()
PORTS = st.sampled_from([None, 80, 443]) | st.integers(0, 65535)
NAMES = st.from_regex(r"[a-z0-9]([a-z0-9_-]{0,8}[a-z0-9])?(\.[a-z]{2,5})?", fullmatch=True)
V6 = st.ip_addresses(v=6)
SCHEMES = st.sampled_from(["http", "https", "vscode-webview", "chrome-extension"])


def lets_in(guard: Guard, host: bytes | None) -> bool:
    """Whether a header is let in, the first time and the next one."""
    refused = []
    for _ in range(2):
        try:
            guard.check("GET", {} if host is None else {b"host": host})
        except RefusedError as error:
            refused.append(error)
    assert all(one.status == 400 and one.reason.isprintable() and len(one.reason) < 400 for one in refused)
    assert len(refused) != 1
    return not refused


@given(name=NAMES, port=PORTS, upper=st.booleans(), other=NAMES)
def test_a_name_is_let_in_with_any_port(name: str, port: int | None, upper: bool, other: str) -> None:
    said = (name.upper() if upper else name) + ("" if port is None else f":{port}")
    guard = Guard("", names=[name_of(said)])
    assert lets_in(guard, said.encode())
    assert lets_in(guard, name.encode())
    for form in ("{}.x", "x{}", "[{}]", "{}:80:80", "{}:x", "x@{}", "{}/", "{}%", "{} "):
        assert not lets_in(guard, form.format(name).encode())
    assert lets_in(guard, other.encode()) == (other in guard._names)


@given(address=V6, port=PORTS)
def test_addresses_are_let_in_however_they_are_written(address: ipaddress.IPv6Address, port: int | None) -> None:
    behind = "" if port is None else f":{port}"
    forms = [f"[{address}]{behind}", f"[{address.exploded}]{behind}", f"[{address.exploded.upper()}]{behind}"]
    for said in forms:
        guard = Guard("", names=[name_of(said)])
        assert all(lets_in(guard, form.encode()) for form in forms)
        assert not lets_in(guard, str(address).encode())  # without brackets it would end in a port
        assert lets_in(Guard("", "::"), said.encode())
        assert lets_in(Guard(""), said.encode()) == (address == ipaddress.IPv6Address("::1"))


@pytest.mark.parametrize("host", ["", "0.0.0.0", "127.0.0.1", "localhost"])
def test_no_server_has_a_garbled_name(host: str) -> None:
    for garbled in (None, b"", b":80", b"[]", b"[::1", b"::1", b"[1.2.3.4]", b"[localhost]", b"a:80:80", b"[::1]x"):
        assert not lets_in(Guard("", host), garbled)
        assert not lets_in(Guard(TOKEN, host, names=["*"]), garbled)
    for name in (b"\xff", b"*", b"..", b"a"):
        assert not lets_in(Guard("", host), name)
        assert lets_in(Guard(TOKEN, host, names=["*"]), name)


def test_only_so_many_headers_are_kept() -> None:
    guard = Guard("", "0.0.0.0")
    assert all(lets_in(guard, b"10.0.0.%d:%d" % (k % 256, k)) for k in range(2 * KNOWN))
    assert len(guard._known) == KNOWN
    assert lets_in(guard, b"10.0.0.1:9999")


@given(scheme=SCHEMES, name=NAMES | V6, port=PORTS, slash=st.booleans())
def test_origins_are_as_browsers_send_them(scheme: str, name: object, port: int | None, slash: bool) -> None:
    v6 = isinstance(name, ipaddress.IPv6Address)
    place, typed = (f"[{name}]", f"[{name.exploded}]") if isinstance(name, ipaddress.IPv6Address) else (name, name)
    usual = {"http": 80, "https": 443}.get(scheme)
    sent = f"{scheme}://{place}" + ("" if port in (None, usual) else f":{port}")
    given = f"{scheme}://{typed}" + ("" if port is None else f":{port:05}") + "/" * slash
    assert origin_of(given) == origin_of(given.upper()) == sent == origin_of(sent), v6
    guard = Guard("", origins=[origin_of(given)])
    guard.check("GET", {b"host": b"localhost", b"origin": sent.encode(), b"sec-fetch-site": b"cross-site"})
    assert guard.allows(sent.encode()) == sent.encode()
    assert (Guard(TOKEN).allows(sent.encode()), Guard("").allows(sent.encode())) == (b"*", None)
    assert guard.allows(b"null") is guard.allows(None) is guard.allows(sent.encode() + b"0") is None


GARBLED = ["", "**", "*.a", "a,b", "a;b", "a b", "b\xfccher.de", "a%2e", "a//", "a?", "u@a", "a:", "a:b", "a:65536"]


@pytest.mark.parametrize("name", [*GARBLED, "a:\uff11", "[::", "[]", "::1"])
def test_what_lets_in_nobody_is_refused(name: str) -> None:
    for option, make, text in (
        ("cors", origin_of, f"https://{name}"),
        ("allow_host", name_of, name),
        ("embed", framer_of, f"https://{name}"),
    ):
        with pytest.raises(OptionError, match=rf"^{option}='.*': expected an? ") as refused:
            make(text)
        assert str(refused.value).isprintable()


def test_what_stars_stand_for() -> None:
    assert name_of("*") == "*"
    assert [framer_of(text) for text in ("https://*", "HTTP://a:*/")] == ["https://*", "http://a:*"]
    assert origin_of("NULL") == "null"  # of files, and of frames in a sandbox
    for text in ("*", "https://*"):
        with pytest.raises(OptionError, match="expected an origin"):
            origin_of(text)


@given(keys=st.lists(st.binary(max_size=6), max_size=4), escaped=st.booleans())
def test_paths_are_keys(keys: list[bytes], escaped: bool) -> None:
    raw = b"/".join(keys)
    path = quote_from_bytes(raw, "" if escaped else "/").encode()
    names = raw.removesuffix(b"/").split(b"/") if raw else []
    wrong = b"\0" in raw or not {b"", b".", b".."}.isdisjoint(names)
    for guard, base in ((Guard(TOKEN), BASE), (Guard(""), b"/")):
        refused = found = None
        try:
            found = guard.place(base + path)[:2]
        except RefusedError as error:
            refused = error
        if wrong:
            assert refused is not None
            assert (refused.status in (404, 422), refused.reason.isprintable()) == (True, True)
        else:
            assert found == (os.fsdecode(raw.removesuffix(b"/")), raw[-1:] in (b"", b"/"))


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        ("", 401, "expected the token"),
        ("/", 401, "expected the token"),
        ("/t/", 401, "expected the token"),
        (f"/t/{TOKEN}", 404, "expected a slash"),
        (f"/t/{TOKEN.upper()}/a", 401, "expected the token"),
        (f"/t/{TOKEN}x/a", 401, "expected the token"),
        (f"//t/{TOKEN}/a", 401, "expected the token"),
        (f"/t/%61{TOKEN[1:]}/a", 401, "expected the token"),
        (f"/t/{TOKEN}/t/{TOKEN}/a", 404, "stands twice"),
        (f"/t/{TOKEN}/a/%61{TOKEN[1:]}/", 404, "stands twice"),
        (f"/t/{TOKEN}/{TOKEN}/0.0", 422, "stands twice"),
        (f"/t/{TOKEN}//", 404, "nothing is called /"),
        (f"/t/{TOKEN}/%2f", 404, "nothing is called /"),
        (f"/t/{TOKEN}/../0", 422, r"nothing is called \.\./0"),
        (f"/t/{TOKEN}/a%00%0a", 404, r"nothing is called a\\x00\\n"),
    ],
)
def test_paths_that_lead_nowhere(path: str, status: int, reason: str) -> None:
    with pytest.raises(RefusedError, match=reason) as refused:
        Guard(TOKEN).place(path.encode())
    assert refused.value.status == status
    assert TOKEN not in refused.value.reason


def header(kind: str, said: str) -> dict[bytes, bytes]:
    return {
        b"authorization": f"{kind} ".encode() + (base64.b64encode(said.encode()) if kind == "Basic" else said.encode())
    }


@pytest.mark.parametrize("said", [("Basic", f"me:{TOKEN}"), ("basic", f":{TOKEN}"), ("Bearer", TOKEN)])
def test_the_token_may_come_as_a_password(said: tuple[str, str]) -> None:
    guard, kind = Guard(TOKEN, logins=True), said[0].capitalize()
    headers = header(kind, said[1]) | {b"host": b"localhost"}
    headers[b"authorization"] = headers[b"authorization"].replace(kind.encode(), said[0].encode(), 1)
    assert guard.place(b"/a/b/", "GET", headers) == Place("a/b", True, Person("", TOKEN))
    assert guard.base_of(b"/a/b/") == "/"
    assert guard.place(f"/t/{TOKEN}/a".encode(), "GET", headers) == Place("a", False, Person("", TOKEN))
    elsewhere = headers | {b"origin": b"https://evil.example", b"sec-fetch-site": b"cross-site"}
    if kind == "Basic":  # a browser sends it by itself, whichever page asks
        with pytest.raises(RefusedError, match="another site"):
            guard.place(b"/a", "GET", elsewhere)
    else:
        assert guard.place(b"/a", "GET", elsewhere) == Place("a", False, Person("", TOKEN))
    with pytest.raises(RefusedError, match="expected the token") as refused:
        Guard(TOKEN).place(b"/a", "GET", headers)  # where others can read what is sent
    assert not refused.value.login


@pytest.mark.parametrize(
    "headers",
    [
        {},
        header("Basic", f"{TOKEN}:"),
        header("Basic", f"me:{TOKEN}x"),
        header("Basic", TOKEN),
        header("Bearer", f"{TOKEN} x"),
        header("Digest", TOKEN),
        {b"authorization": b"Basic \xff%%"},
        {b"authorization": b"Basic"},
        {b"authorization": b""},
    ],
)
def test_logins_that_are_refused(headers: dict[bytes, bytes]) -> None:
    guard = Guard(TOKEN, logins=True)
    for path, login in ((b"/a", True), (b"/", True), (b"/t/another/a", False)):
        with pytest.raises(RefusedError, match="as the password of a login") as refused:
            guard.place(path, "GET", headers)
        assert (refused.value.status, refused.value.login) == (401, login)


@given(
    port=st.sampled_from([80, 443, 8080]),
    host=st.sampled_from(["localhost", "[::1]", "127.0.0.1"]),
    upper=st.booleans(),
)
def test_a_page_of_the_server_itself_may_read(port: int, host: str, upper: bool) -> None:
    """As browsers say that name no site: by its origin, which has no usual port, and the header of the host."""
    for scheme, usual in (("http", 80), ("https", 443)):
        origin = origin_of(f"{scheme}://{host}:{port}").encode()
        for said in [f"{host}:{port}", *([host] if port == usual else [])]:
            headers = {b"host": (said.upper() if upper else said).encode(), b"origin": origin}
            Guard("").check("GET", headers)
            for other in (b"null", b"", origin + b"0", origin[:-1], b"x" + origin.partition(b":")[2]):
                with pytest.raises(RefusedError) as refused:
                    Guard("").check("GET", {**headers, b"origin": other})
                assert refused.value.status == 403


@pytest.mark.parametrize(
    ("name", "said"), [("a\0b", r"a\\x00b: .*null"), ("\ud800\n", r"\\ud800\\n: "), ("", ": .*No such")]
)
def test_files_of_tokens_that_cannot_be(name: str, said: str) -> None:
    with pytest.raises(OptionError, match=said) as refused:
        choose_token(name, "127.0.0.1")
    assert str(refused.value).isprintable()


def test_a_token_that_is_read_and_one_that_is_made(tmp_path: Path) -> None:
    file = tmp_path / "to ken"
    file.touch(0o600)
    file.write_text(f" {TOKEN}\r\n")
    assert choose_token(str(file), "0.0.0.0") == TOKEN
    made = {choose_token(None, "0.0.0.0") for _ in range(9)}
    assert len(made) == 9
    assert min(map(len, made)) >= 22


@given(st.ip_addresses())
def test_hosts_that_only_this_machine_reaches(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    assert is_loopback(str(address)) == is_loopback(address.exploded.upper()) == address.is_loopback
    assert is_loopback("LocalHost")
    assert not any(map(is_loopback, ("", "localhost.evil", "127.0.0.1.evil", "::1]", "0", "1.0.0.127")))
