"""Answers clients of WebDAV, which show the tree that GET serves as a drive (RFC 4918, class 1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

from vfs.contents.contents import Paths
from vfs.http import webdav
from vfs.http.answers import ForBody, Reply, Work, whole
from vfs.http.index import quoted
from vfs.server.folders import described


class _Written(NamedTuple):
    """Parts of an answer: the one that is sent next, the one behind it (None: there is none), and those that follow."""

    part: bytes
    following: bytes | None
    others: Iterator[bytes]


def propfind(contents: Paths, base: str, key: str, headers: Mapping[bytes, bytes]) -> ForBody:
    """Answer with properties of a path, and of what is in a folder.

    All of a tree at once is only for the client that asks for nothing less (object_store of Rust), and only in a data
    set, where files are known without opening others.

    Args:
        base: what paths of URLs begin with.

    Raises:
        RefusedError: the `Depth` header is garbled.
    """
    depth = webdav.depth_of(headers)
    deep = headers.get(b"user-agent", b"").startswith(b"object_store")

    def then(body: bytes) -> Work:
        asked = webdav.properties_of(body)

        def run() -> _Written | None:
            found = described(contents, key, depth, deep)
            if found is None:
                return None
            path = base + (quoted(key) + "/" * found.folder if key else "")
            parts = webdav.parts(asked, path, key.rpartition("/")[2] or "vfs", found.rows)
            return _Written(next(parts), next(parts, None), parts)

        return Work(key, object(), run, partial(_begun, key))

    return ForBody(key, then)


def _begun(key: str, made: _Written | None) -> Reply:
    if made is None:
        return whole("PROPFIND", 403, webdav.FINITE, webdav.KIND)
    about = [(b"content-type", webdav.KIND)]
    if made.following is None:
        about.append((b"content-length", b"%d" % len(made.part)))
    return _sent(key, made)._replace(about=about)


def _sent(key: str, made: _Written) -> Reply:
    """Send a part of an answer, and have the next ones made."""
    part, following, others = made
    if following is None:
        return Reply(207, [], memoryview(part))
    rest = Work(key, object(), lambda: _Written(following, next(others, None), others), partial(_sent, key))
    return Reply(207, [], memoryview(part), rest)
