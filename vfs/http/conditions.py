"""Reads the headers that make a response depend on something: ranges, and ETags (RFC 9110, sections 13 and 14)."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Mapping
from email.utils import formatdate
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from vfs.errors import OptionError, printable
from vfs.http.guard import RefusedError
from vfs.model.wording import option

_ONE = re.compile(rb"bytes[ \t]*=[ \t]*(?:(\d{1,99})-(\d{1,99})?|-(\d{1,99}))[ \t]*", re.IGNORECASE)


_SECONDS = frozenset(("max-age", "s-maxage", "stale-while-revalidate", "stale-if-error"))
_WORDS = frozenset(
    (
        *("public", "private", "no-cache", "no-store", "no-transform", "immutable"),
        *("must-revalidate", "proxy-revalidate", "must-understand"),
    )
)
"""Directives of `Cache-Control` in answers, with seconds and without (RFC 9111, 8246, 5861)."""


def caching_of(text: str) -> bytes:
    """Return the value of a `Cache-Control` header.

    Raises:
        OptionError: it has a directive that no cache knows, or one without its seconds, or none at all.
    """
    said = []
    for part in text.lower().split(","):
        name, equals, seconds = part.strip().partition("=")
        if not (name in _SECONDS and seconds.isdecimal() and seconds.isascii()) and (equals or name not in _WORDS):
            raise OptionError(
                f"{option(cache_control=printable(text))}: expected directives with commas between them, such as"
                " public, max-age=3600"
            )
        said.append(name + equals + seconds)
    return ", ".join(said).encode()


class Span(NamedTuple):
    """The bytes of a response: from `start` to `stop`, half-open."""

    start: int
    stop: int


def wanted(header: bytes | None, size: int) -> Span | None:
    """Return the bytes that a `Range` header asks for.

    Returns: None for all of them: without a header, or if it has several ranges, another unit, or a
        mistake.

    Raises:
        ValueError: it asks for bytes that are not there.
    """
    found = _ONE.fullmatch(header) if header is not None else None
    if found is None:
        return None
    first, last, suffix = found.groups()
    if suffix is not None:
        start, stop = max(0, size - int(suffix)), size
    else:
        start = int(first)
        stop = size if last is None else min(size, int(last) + 1)
        if last is not None and int(last) < start:
            return None
    if start >= stop:
        raise ValueError
    return Span(start, stop)


def names(header: bytes, etag: bytes, weak: bool = False) -> bool:
    """Return True if a list of ETags has one, or is `*`.

    Args:
        weak: compare weakly, as `If-None-Match` does: a W/ in front does not matter.
    """
    if header.strip() == b"*":
        return True
    return any(each == etag or (weak and each == b"W/" + etag) for each in map(bytes.strip, header.split(b",")))


def etag_of(version: bytes, key: str) -> bytes:
    """Return the ETag of a file in one state of its sources.

    Args:
        version: see `vfs.contents.shown.Shown.version`; empty: no two answers are known to be equal.
        key: path of the file.
    """
    if not version:
        return b'"%s"' % secrets.token_hex(16).encode()
    above, coordinates = split(key)
    return b'"%s%s"' % (stem_of(version, above), coordinates.replace("/", ".").encode())


@lru_cache(1 << 10)
def stem_of(version: bytes, above: str) -> bytes:
    """Return what the ETags of all chunks of an array begin with."""
    digest = blake2b(version, digest_size=16)
    digest.update(above.encode("utf-8", "surrogateescape"))
    return digest.hexdigest().encode()


def split(key: str) -> tuple[str, str]:
    """Split a path into what chunks of one array share, and the coordinates at its end, with their slashes."""
    above = len(key.rstrip("/0123456789"))
    above = key.find("/", above) if "/" in key[above:] else len(key)
    return key[:above], key[above:]


def modified(changed: int) -> tuple[tuple[bytes, bytes], ...]:
    """Return the header that says when a file was modified, which programs give to their copies of it.

    No condition heeds it: other bytes may have the same time, and then another ETag.

    Args:
        changed: nanoseconds since 1970; 0 if nobody knows. A time that is still to come must not be said.
    """
    return _modified(changed // 10**9) if 0 < changed <= time.time_ns() else ()


@lru_cache(1 << 10)
def _modified(seconds: int) -> tuple[tuple[bytes, bytes], ...]:
    return ((b"last-modified", formatdate(seconds, usegmt=True).encode()),)


def matched(headers: Mapping[bytes, bytes], etag: bytes) -> bool:
    """Return True if the client has the bytes of this ETag already.

    Raises:
        RefusedError: it wants bytes of another ETag only.
    """
    match, none_match = headers.get(b"if-match"), headers.get(b"if-none-match")
    if match is not None and not names(match, etag):
        raise RefusedError(412, "the file has another ETag now")
    return none_match is not None and names(none_match, etag, weak=True)
