"""Tells clients apart behind proxies, which say in a header whom they ask for (RFC 7239, and what came before it)."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence

from vfs.errors import OptionError, printable
from vfs.http.persons import MAX_NAME_LETTERS
from vfs.model.wording import option

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_FOR = re.compile(r'(?:^|;)\s*for\s*=\s*"?([^";]+)"?', re.IGNORECASE)
_PORT = re.compile(r"\[([^\]]+)\](?::\d+)?|([0-9.]+):\d+")


def network_of(text: str) -> Network:
    """Return the addresses that a text names: "10.0.0.5", "10.0.0.0/8", "::1".

    Raises:
        OptionError: it names none.
    """
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        raise OptionError(
            f"{option(trust_proxy=printable(text))}: expected an address or a network, such as 10.0.0.5 or 10.0.0.0/8"
        ) from None


def client_of(peer: str, headers: Mapping[bytes, bytes], trusted: Sequence[Network]) -> str:
    """Return the address of a client.

    That is the last address which a trusted proxy names and which is no trusted proxy itself: those in front of it are
    what somebody says of himself.

    Args:
        peer: address at the other end of the connection.
        headers: of the request, by lower-case name.
        trusted: addresses of proxies.
    """
    if not trusted or not _is_in(peer, trusted):
        return peer
    said = headers.get(b"x-forwarded-for")
    if said is not None:
        named = said.decode("latin-1").split(",")
    else:
        parts = headers.get(b"forwarded", b"").decode("latin-1").split(",")
        named = [found[1] if (found := _FOR.search(part)) else "" for part in parts]
    last = peer
    for one in reversed(named):
        address = _address(one.strip())
        if not address:  # a name, or garbled: who named it is all that is known
            break
        last = address
        if not _is_in(address, trusted):
            break
    return last


def user_of(peer: str, headers: Mapping[bytes, bytes], trusted: Sequence[Network]) -> str:
    """Return the name of a user whom a trusted proxy has let in (`X-Remote-User`); "" if it names none.

    Args:
        peer, headers, trusted: see `client_of`.
    """
    said = headers.get(b"x-remote-user")
    if said is None or not _is_in(peer, trusted):
        return ""
    words = said.decode("utf-8", "replace").split()  # no space: the access log has some between its words
    return printable("_".join(words)[:MAX_NAME_LETTERS])


def _address(text: str) -> str:
    """Return an address without a port; "" if it is none."""
    found = _PORT.fullmatch(text)
    try:
        return str(ipaddress.ip_address(text if found is None else found[1] or found[2]))
    except ValueError:
        return ""


def _is_in(address: str, networks: Sequence[Network]) -> bool:
    try:
        one = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(one in network for network in networks)
