"""The page and its parts: files of `vfs/http/page`, kept in memory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from typing import Any, NamedTuple

POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self';"
    b" base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
"""Content-Security-Policy of the page: it loads nothing from elsewhere and runs nothing that stands in names."""
LINKS = b"<!-- links -->"
"""What stands in the page for the list of the data sets, which tools read."""
MODULES = b"<!-- modules -->"
"""What stands there for what says which modules will be needed.

Else a browser finds one after another, and from far away each takes a round trip.
"""
FIRST = b"<!-- first -->"
"""What stands there for the answers to what the page asks first, which else are two more round trips."""
_KINDS = {
    "html": b"text/html; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "svg": b"image/svg+xml",
}


class Asset(NamedTuple):
    """A file of the page.

    Attributes:
        body: its bytes; kind: its content type; etag: its ETag.
    """

    body: bytes
    kind: bytes
    etag: bytes


@cache
def assets() -> dict[str, Asset]:
    """Return the files of the page by their names."""
    found = {}
    for file in files("vfs.http").joinpath("page").iterdir():
        kind = _KINDS.get(file.name.rpartition(".")[2])
        if kind is not None:
            body = file.read_bytes()
            found[file.name] = Asset(body, kind, etag_of(body))
    return found


def page(links: bytes, first: Mapping[str, Any]) -> bytes:
    """Return the page.

    Args:
        links: to what is served; first: answers of the api that the page need not ask for.
    """
    found = assets()
    needed = b"\n".join(
        b'<link rel="modulepreload" href="assets/%s">' % name.encode() for name in sorted(found) if name.endswith(".js")
    )
    known = json.dumps(first).replace("<", "\\u003c").encode()  # no text in it can end the element that it stands in
    return found["index.html"].body.replace(MODULES, needed).replace(FIRST, known).replace(LINKS, links)


def etag_of(body: bytes) -> bytes:
    """Return an ETag of bytes."""
    return b'"%s"' % blake2b(body, digest_size=16).hexdigest().encode()
