"""Clients behind proxies are told apart by what these say: `vfs.http.proxies`."""

from __future__ import annotations

import pytest

from vfs.errors import OptionError
from vfs.http.proxies import client_of, network_of, user_of

TRUSTED = [network_of("10.0.0.0/8"), network_of("::1"), network_of("127.0.0.1")]


@pytest.mark.parametrize(
    ("peer", "header", "client"),
    [
        ("10.0.0.1", "x-forwarded-for: 192.0.2.7", "192.0.2.7"),
        ("::1", "x-forwarded-for: 192.0.2.7, 10.1.1.1", "192.0.2.7"),
        ("10.0.0.1", "x-forwarded-for: 198.51.100.1, 192.0.2.7", "192.0.2.7"),  # the first one says so of himself
        ("10.0.0.1", "x-forwarded-for: 192.0.2.7:51234", "192.0.2.7"),
        ("10.0.0.1", "x-forwarded-for: [2001:db8::7]:443,10.0.0.9", "2001:db8::7"),
        ("10.0.0.1", "x-forwarded-for: 10.0.0.9", "10.0.0.9"),  # behind no other
        ("10.0.0.1", "x-forwarded-for: 192.0.2.7, unknown", "10.0.0.1"),
        ("10.0.0.1", "x-forwarded-for: 192.0.2.7, , 10.0.0.9", "10.0.0.9"),
        ("10.0.0.1", "x-forwarded-for: ", "10.0.0.1"),
        ("10.0.0.1", 'forwarded: for=192.0.2.7;proto=https, For="[2001:db8::8]:99"', "2001:db8::8"),
        ("10.0.0.1", "forwarded: proto=https", "10.0.0.1"),
        ("10.0.0.1", "host: x", "10.0.0.1"),
        ("192.0.2.9", "x-forwarded-for: 192.0.2.7", "192.0.2.9"),  # nobody trusts this one
        ("", "x-forwarded-for: 192.0.2.7", ""),
    ],
)
def test_the_last_that_is_not_trusted(peer: str, header: str, client: str) -> None:
    name, _, value = header.partition(": ")
    assert client_of(peer, {name.encode(): value.encode()}, TRUSTED) == client
    assert client_of(peer, {name.encode(): value.encode()}, []) == peer


@pytest.mark.parametrize(
    ("peer", "said", "user"),
    [
        ("10.0.0.1", b"ada", "ada"),
        ("10.0.0.1", b" Ada  Lovelace\t", "Ada_Lovelace"),
        ("10.0.0.1", "J\u00fcrgen".encode(), "J\u00fcrgen"),
        ("10.0.0.1", b"a" * 1000, "a" * 64),
        ("10.0.0.1", b"", ""),
        ("192.0.2.9", b"ada", ""),  # nobody trusts this one
        ("", b"ada", ""),
    ],
)
def test_the_user_of_a_proxy(peer: str, said: bytes, user: str) -> None:
    headers = {b"x-remote-user": said, b"x-forwarded-for": b"10.0.0.1"}
    assert user_of(peer, headers, TRUSTED) == user
    assert user_of(peer, headers, []) == user_of(peer, {}, TRUSTED) == ""


def test_the_name_of_a_user_is_one_printable_word() -> None:
    name = user_of("::1", {b"x-remote-user": b"a\xc2\xa0b \x1b[2J\xe2\x80\xa8 \xff"}, TRUSTED)
    assert name.isprintable()
    assert not any(letter.isspace() for letter in name)


@pytest.mark.parametrize("text", ["", "proxy.example.org", "10.0.0.1/8", "10.0.0.0/33", "a\nb"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(OptionError, match=r"^trust_proxy=.*expected an address or a network") as refused:
        network_of(text)
    assert str(refused.value).isprintable()
