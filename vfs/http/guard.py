"""Decides who may ask: checks the `Host` header, the site of a page and the token; turns paths of URLs into keys."""

from __future__ import annotations

import base64
import hmac
import ipaddress
import os
import re
import secrets
import socket
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from vfs.errors import OptionError, printable
from vfs.faces.absence import looks_like_chunk
from vfs.http.persons import MAX_TOKEN_LETTERS, NO_NAMES, Person, check_token, text_of
from vfs.model.wording import Word, option

KNOWN = 100
"""Most `Host` headers that are kept as checked."""
_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::([0-9]{1,5}))?")
_HOST = re.compile(r"(?:\[([^\s/?#@\[\]]+)\]|([^\s/?#@:\[\]]+))(?::\d{0,5})?")  # [IPv6] or a name, and perhaps a port
_FRAMER = re.compile(r"[a-z][a-z0-9+.-]*://(\[[0-9a-f:.]+\]|[a-z0-9.-]+|\*)(?::([0-9]{1,5}|\*))?")
_MAX_PORT = 65535
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class RefusedError(Exception):
    """A request that is not answered with data.

    Args:
        status: the status of the response.
        reason: one line for people.
        size: bytes of the file, if a range lies outside of it.
        allow: methods that go, if this one does not; None: those that go with files.
        retry_after: seconds after which it may be answered; None: nobody knows.
        login: a user name and a password may be sent.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        size: int | None = None,
        allow: str | None = None,
        retry_after: int | None = None,
        login: bool = False,
    ) -> None:
        super().__init__(reason)
        self.login = login
        self.retry_after = retry_after
        self.size = size
        self.allow = allow
        self.status = status
        self.reason = reason


class Place(NamedTuple):
    """What the path of a URL names.

    Attributes:
        key: path in the contents, "" for the root.
        slash: True if the path ends with a slash.
        person: who asks.
    """

    key: str
    slash: bool
    person: Person


class Guard:
    """Checks requests.

    Args:
        token: the token that paths begin with, as `/t/TOKEN/`, "" for none; or persons, each with one.
        host: the host that the server listens on.
        names: more names that clients may use for the server, such as that of a proxy; "*" for any, where the token is
            the secret.
        origins: the origins whose pages may read. Empty: with a token all, since the token is the secret; without one
            only the server's own.
        embed: the origins whose pages may show the server's page in a frame.
        logins: the token may also come in the `Authorization` header: nobody can read it on the way.

    Attributes:
        base: what every path begins with; "/" where each person has a path of their own.
    """

    def __init__(
        self,
        token: str | Sequence[Person],
        host: str = "127.0.0.1",
        names: Iterable[str] = (),
        origins: Sequence[str] = (),
        embed: Sequence[str] = (),
        logins: bool = False,
    ) -> None:
        self.logins = logins
        self.embed = embed
        self._salt = secrets.token_bytes(16)
        self.renew(token)
        own = socket.gethostname().lower()
        called = {*_LOOPBACK, host.lower(), own, own.partition(".")[0], *(name.lower() for name in names)}
        self._names = called - {""}  # it stands for all hosts of this machine, and for a header that is garbled
        self._origins = frozenset(origin.encode() for origin in origins)
        self._addresses = not is_loopback(host)
        self._known: set[bytes | None] = set()  # headers that were let in

    def renew(self, token: str | Sequence[Person]) -> None:
        """Let in who has another token, or these persons, and no longer who has what was one before."""
        persons = (Person("", token),) if isinstance(token, str) else tuple(token)
        self.base = persons[0].base.decode() if isinstance(token, str) else "/"
        self._first, self._has_token = persons[0], bool(persons[0].token)
        self._persons = {self._digest(person.token.encode()): person for person in persons}

    def knows(self, person: Person) -> bool:
        """Return True if somebody may ask, who once could."""
        return self._persons.get(self._digest(person.token.encode())) == person

    def _digest(self, token: bytes) -> bytes:
        """Return what persons are looked up by: how long that takes says nothing of their tokens."""
        return blake2b(token, key=self._salt, digest_size=16).digest()

    def _whose(self, raw: bytes) -> Person:
        """Return the only person who may be asking by a path of a URL: the token is yet to be compared."""
        token = raw[3 : MAX_TOKEN_LETTERS + 4].partition(b"/")[0] if raw.startswith(b"/t/") else b""
        return self._persons.get(self._digest(token), self._first)

    def check(self, method: str, headers: Mapping[bytes, bytes]) -> None:
        """Refuse a request under a foreign name; without a token, also one that a page of another site sends.

        Args:
            method: as it came.
            headers: names in lower case.

        Raises:
            RefusedError: see `check_host`, `check_site`.
        """
        host = headers.get(b"host")
        if host not in self._known:  # asked of every request: a call takes longer
            self.check_host(host)
        if not self._has_token and (b"sec-fetch-site" in headers or b"origin" in headers):
            self.check_site(method, headers)

    def allows(self, origin: bytes | None) -> bytes | None:
        """Return the value of `Access-Control-Allow-Origin` for pages of an origin; None: they may not read."""
        if self._has_token and not self._origins:
            return b"*"
        return origin if origin in self._origins else None

    @property
    def names_origins(self) -> bool:
        """True if answers differ by the origin of the page that asks."""
        return bool(self._origins)

    def check_site(self, method: str, headers: Mapping[bytes, bytes]) -> None:
        """Refuse a request that a page of another site makes a browser send.

        Browsers say whose page asks (Fetch Metadata: `Sec-Fetch-Site`; older ones only `Origin`, and not always), and
        no page can change that. Programs say nothing. That somebody follows a link to here is no request of a page:
        the other page sees nothing of what comes.

        Raises:
            RefusedError: it is of another site, and of no origin that may read.
        """
        origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site")
        if origin is None and site is None:
            return
        if origin in self._origins or site in (b"same-origin", b"none"):
            return
        if site is None and origin is not None and _is_own(origin, headers.get(b"host", b"")):
            return
        if origin is None and method in ("GET", "HEAD") and headers.items() >= _IS_FOLLOWED:
            return
        named = printable((origin or b"its name was not sent").decode("latin-1")[:100])
        raise RefusedError(
            403,
            f"a page of another site ({named}) may not read this server, which has no token: serve with one;"
            f" {option(cors=[Word('ORIGIN')])} lets that page in",
        )

    def check_host(self, host: bytes | None) -> None:
        """Refuse a `Host` that is not a name of this server.

        A page of another site could make a browser send requests here under its own name, after that name was made to
        mean this machine (DNS rebinding).

        Raises:
            RefusedError: it is not.
        """
        said = (host or b"").decode("latin-1")
        name = _without_port(said.lower())
        if name in self._names or (name and "*" in self._names) or (self._addresses and _is_address(name)):
            if len(self._known) < KNOWN:
                self._known.add(host)
            return
        raise RefusedError(
            400,
            f"the Host header names {printable(said[:100]) or 'nothing'}, which is no name of this server;"
            f" serving with {option(allow_host=[Word('NAME')])} lets it in",
        )

    def base_of(self, raw: bytes) -> str:
        """Return what the path of a URL begins with: the token, or "/" where that comes in a header."""
        base = self._whose(raw).base
        return base.decode() if raw.startswith(base) else "/"

    def place(self, raw: bytes, method: str = "GET", headers: Mapping[bytes, bytes] | None = None) -> Place:
        """Return what a path names.

        Args:
            raw: path of the URL, with its %-escapes.
            method, headers: see `check`.

        Raises:
            RefusedError: the token is wrong (401), or nothing has such a path (404; 422 if it looks like a chunk);
                see also `check_site`.
        """
        person = self._first if len(self._persons) == 1 else self._whose(raw)  # asked of every request, see `check`
        base = person.base
        if hmac.compare_digest(raw[: len(base)], base):
            raw = raw[len(base) :]
        elif hmac.compare_digest(raw, base[:-1]):
            raise RefusedError(404, "expected a slash after the token")
        elif self._has_token:
            # A page with a token of before asks again and again, and no browser should ask its user each time
            login = self.logins and not raw.startswith(b"/t/")
            found = self._logged_in(method, headers) if login and headers else None
            if found is None:
                also = ", or as the password of a login" if self.logins else ""
                raise RefusedError(401, f"expected the token of this server in the path: /t/TOKEN/…{also}", login=login)
            person, raw = found, raw.removeprefix(b"/")
        key = os.fsdecode(unquote_to_bytes(raw) if b"%" in raw else raw)
        slash, named = key.endswith("/") or not key, bool(key)
        key = key.removesuffix("/")
        if person.token and person.token in key:  # no error and no log may show it
            raise RefusedError(_absent(key), "the token stands twice in the path")
        if (named and not NO_NAMES.isdisjoint(key.split("/"))) or "\0" in key:
            raise RefusedError(_absent(key), f"nothing is called {printable(key[:200]) or '/'}")
        return Place(key, slash, person)

    def _logged_in(self, method: str, headers: Mapping[bytes, bytes]) -> Person | None:
        """Return who sent a token in the `Authorization` header of a request: as a password, or by itself.

        Raises:
            RefusedError: it is a password that a page of another site had a browser send.
        """
        kind, _, said = headers.get(b"authorization", b"").partition(b" ")
        if kind.lower() == b"basic":
            try:
                said = base64.b64decode(said.strip(), validate=True).partition(b":")[2]
            except ValueError:
                return None
        elif kind.lower() != b"bearer":
            return None
        person = self._persons.get(self._digest(said.strip()))
        if person is None or not hmac.compare_digest(said.strip(), person.token.encode()):
            return None
        if kind.lower() == b"basic":  # browsers send it by themselves
            self.check_site(method, headers)
        return person


_IS_FOLLOWED = {b"sec-fetch-mode": b"navigate", b"sec-fetch-dest": b"document"}.items()
"""Headers of a request by which a browser goes to a page, in a window of its own."""
_USUAL_PORTS = {"http": ":80", "https": ":443"}


def _is_own(origin: bytes, host: bytes) -> bool:
    """Return True if an origin is that of the server, which a client called by the `Host` header."""
    scheme, _, place = origin.decode("latin-1").lower().partition("://")
    return bool(place) and place == host.decode("latin-1").lower().removesuffix(_USUAL_PORTS.get(scheme, ""))


def _absent(key: str) -> int:
    """Return the status for a key that nothing has: zarr's clients take 404 for a chunk of fill values."""
    return 422 if looks_like_chunk(key) else 404


def is_loopback(host: str) -> bool:
    """Return True if only this machine reaches a host."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _without_port(host: str) -> str:
    """Return the name in a `Host` header in lower case, "" if it is garbled."""
    found = _HOST.fullmatch(host)
    if found is None:
        return ""
    return found[2] or _shortest(found[1])


def _shortest(address: str) -> str:
    """Return an address of IPv6 as browsers write it; "" if it is none."""
    try:
        return str(ipaddress.IPv6Address(address))
    except ValueError:
        return ""


def _parts(origin: str) -> tuple[str, str, str] | None:
    """Return the scheme, the name and the port with its colon of an origin in lower case; None if it is none.

    They are as browsers write them: the port is "" if it is the usual one.
    """
    found = _ORIGIN.fullmatch(origin)
    if found is None or int(found[4] or 0) > _MAX_PORT:
        return None
    name = found[3] or _shortest(found[2])
    port = f":{int(found[4])}" if found[4] else ""
    return (found[1], name, port.removesuffix(_USUAL_PORTS.get(found[1], ""))) if name else None


def origin_of(text: str) -> str:
    """Return an origin as browsers send it.

    Raises:
        OptionError: it is none, so that it would let in no page.
    """
    made = text.lower().removesuffix("/")
    if made == "null":
        return made
    parts = _parts(made)
    if parts is None:
        raise OptionError(f"{option(cors=text)}: expected an origin, such as https://example.org")
    scheme, name, port = parts
    return f"{scheme}://[{name}]{port}" if ":" in name else f"{scheme}://{name}{port}"


def framer_of(text: str) -> str:
    """Return an origin as a `frame-ancestors` of a page has it; * stands for all ports, or all hosts of a scheme.

    Raises:
        OptionError: it is none.
    """
    made = text.lower().removesuffix("/")
    found = _FRAMER.fullmatch(made)
    if not found or ((found[2] or "*") != "*" and int(found[2]) > _MAX_PORT):
        raise OptionError(
            f"{option(embed=text)}: expected an origin, such as https://hub.example.org or http://localhost:*"
        )
    return made


def name_of(text: str) -> str:
    """Return a name as `Host` headers have it, without a port; "*" stands for any.

    Raises:
        OptionError: it is none, so that it would let in no request.
    """
    if text == "*":
        return text
    parts = _parts(f"http://{text.lower()}")
    if parts is None:
        raise OptionError(f"{option(allow_host=text)}: expected a name, such as example.org")
    return parts[1]


def choose_token(wanted: str | None, host: str) -> str:
    """Return the token of a server; "" for none.

    Args:
        wanted: name of a file that holds the token, "none", or None for a new one.
        host: the host that the server listens on.

    Raises:
        OptionError: the file is not there or holds no token; or other machines reach the host, and
            there is to be no token.
    """
    if wanted is None:
        return secrets.token_urlsafe(16)
    if wanted == "none":
        if not is_loopback(host):
            raise OptionError(
                f"{option(token='none')} goes only with a host that just this machine reaches; others reach"
                f" {printable(host)}"
            )
        return ""
    token = text_of(wanted, False, MAX_TOKEN_LETTERS).strip()
    return check_token(token, printable(wanted))
