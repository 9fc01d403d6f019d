"""Says what is known of a path before anything is read, and how a request for a file is answered then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from vfs.contents.shown import Shown
from vfs.faces.face import Node
from vfs.http import conditions
from vfs.http.answers import CACHING, Headers
from vfs.http.guard import RefusedError


class Looked(NamedTuple):
    """What is known of a path before anything is read.

    Attributes:
        node: what it is; version: that of its sources; etag: its ETag; time: when they were modified, nanoseconds
            since 1970.
    """

    node: Node
    version: bytes = b""
    etag: bytes = b""
    time: int = 0


def looked_at(key: str, shown: Shown) -> Looked | None:
    """Return what is known of a path. None if there is nothing."""
    node = shown.node()
    if node is None or node.folder:
        return node and Looked(node)
    version = shown.version()
    return Looked(node, version, conditions.etag_of(version, key), shown.time())


class AnswerPlan(NamedTuple):
    """How a request for a file is to be answered: status, headers, the bytes of the body (None: it has none)."""

    status: int
    about: Headers
    span: conditions.Span | None


def wanted(method: str, looked: Looked, headers: Mapping[bytes, bytes], caching: bytes) -> AnswerPlan:
    """Return how a request for a file is to be answered.

    Raises:
        RefusedError: it wants bytes that are not there, or of another state.
    """
    size, etag = looked.node.size, looked.etag
    kind = b"application/json" if looked.node.json else b"application/octet-stream"
    if not looked.version:  # these bytes may be others at any time: blank frames of a set that is still written
        caching = b"no-store"
    about = [(CACHING, caching), (b"etag", etag), (b"content-type", kind)]
    if looked.version:
        about += conditions.modified(looked.time)
    if conditions.matched(headers, etag):
        return AnswerPlan(304, about, None)
    if_range = headers.get(b"if-range")
    asked = headers.get(b"range") if if_range is None or if_range.strip() == etag else None
    if method == "HEAD":
        asked = None
    try:
        part = conditions.wanted(asked, size)
    except ValueError:
        raise RefusedError(416, f"the file has {size:,} bytes", size) from None
    span = part or conditions.Span(0, size)
    if part is not None:
        about.append((b"content-range", b"bytes %d-%d/%d" % (part.start, part.stop - 1, size)))
    about.append((b"content-length", b"%d" % (span.stop - span.start)))
    return AnswerPlan(200 if part is None else 206, about, None if method == "HEAD" else span)
