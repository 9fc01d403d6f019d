"""Reads requests below `api/`: fields of the query, bodies in JSON. Writes the answers that are JSON."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from vfs.contents.rights import Rights
from vfs.errors import printable
from vfs.http.answers import Answer
from vfs.http.conditions import names
from vfs.http.guard import RefusedError
from vfs.http.reads import GoneError

MAX_BODY_BYTES = 64 << 10
"""Most bytes of the body of a request, but for numbers that become a file."""
MAX_ENTRIES = 1000
"""Most entries of a list that are sent at once."""
FIELDS = 20  # most fields of a query

_JSON = b"application/json"


class Request(NamedTuple):
    """A request below `api/`.

    Attributes:
        method: as it came; path: what follows `api/`, without a slash at its end.
        query: name -> text; headers: by lower-case name.
        client: name of the person, or address of the client; receive: gives messages of ASGI.
        rights: what the person may see; None: all that is served.
    """

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[bytes, bytes]
    client: str
    receive: Callable[[], Awaitable[Any]]
    rights: Rights | None = None


Answering = Callable[[str, Request, Answer], Awaitable[None]]
"""Answers a request, given what its path names."""


def query_of(raw: bytes) -> dict[str, str]:
    """Read the query of a URL.

    Raises:
        RefusedError: it is garbled, or has a field twice.
    """
    try:
        fields = parse_qsl(raw.decode("ascii"), True, True, max_num_fields=FIELDS) if raw else []
    except ValueError:
        raise RefusedError(400, "expected a query as in ?at=3,4&max=512") from None
    query = dict(fields)
    if len(query) < len(fields):
        raise RefusedError(400, "a field of the query is given twice")
    return query


def check_fields(request: Request, what: str, known: Collection[str]) -> None:
    """Check that a query has no other fields: with them, equal requests would not be known as equal.

    Raises:
        RefusedError: it has some.
    """
    unknown = [name for name in request.query if name not in known]
    if unknown:
        has = f"expected {', '.join(known)}" if known else "it has none"
        raise RefusedError(400, f"api/{what}: no field is called {printable(', '.join(unknown)[:80])}; {has}")


def page_of(request: Request) -> tuple[int, int]:
    """Read which entries of a list are asked for: the first one, and how many."""
    return number(request, "first", 0, 0, 1 << 40), number(request, "count", MAX_ENTRIES, 1, MAX_ENTRIES)


def number(request: Request, name: str, usual: int, least: int, most: int) -> int:
    """Read a number of the query.

    Raises:
        RefusedError: it is none, or out of range.
    """
    text = request.query.get(name)
    if text is None:
        return usual
    if not text.isascii() or not text.isdigit() or len(text) > 18 or not least <= int(text) <= most:
        raise RefusedError(400, f"{name}={printable(text[:40])}: expected a number from {least} to {most}")
    return int(text)


def flag(request: Request, name: str) -> bool:
    """Read a field of the query that is 1 for yes and 0 for no, as without it.

    Raises:
        RefusedError: it is neither.
    """
    return number(request, name, 0, 0, 1) == 1


def indices(request: Request, name: str) -> tuple[int, ...]:
    """Read indices of the query; none where it does not have the field.

    Raises:
        RefusedError: they are none.
    """
    text = request.query.get(name, "")
    if not text:
        return ()
    parts = text.split(",")
    if len(parts) > 64 or not all(part.isascii() and part.isdigit() and len(part) < 19 for part in parts):
        raise RefusedError(400, f"{name}={printable(text[:40])}: expected indices, as in {name}=3,4")
    return tuple(map(int, parts))


async def body_of(receive: Callable[[], Awaitable[Any]], most: int = MAX_BODY_BYTES) -> bytes:
    """Read the body of a request, of at most so many bytes.

    Args:
        receive: gives messages of ASGI.

    Raises:
        RefusedError: it is too long.
        GoneError: the client has gone away.
    """
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise GoneError
        part: bytes = message.get("body", b"")
        body += part
        if len(body) > most:
            raise RefusedError(413, f"a request has at most {most >> 10:,} KiB")
        if not message.get("more_body"):
            return bytes(body)


async def with_body(request: Request) -> Request:
    """Wait for the body of a request. Returns: the request, whose body comes at once when it is read.

    Raises: see `body_of`.
    """
    coming = [{"type": "http.request", "body": await body_of(request.receive), "more_body": False}]

    async def receive() -> Any:
        return coming.pop() if coming else await request.receive()

    return request._replace(receive=receive)


def read_json(body: bytes) -> Any:
    """Read a body.

    Raises:
        RefusedError: it is no JSON.
    """
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise RefusedError(400, "expected a body in JSON") from None


def has(request: Request, etag: bytes) -> bool:
    """Return True if the client has the bytes of this ETag already."""
    return names(request.headers.get(b"if-none-match", b""), etag, weak=True)


async def answer_json(answer: Answer, request: Request, value: Any) -> None:
    """Answer with a value that JSON can hold."""
    text = json.dumps(value, allow_nan=False).encode()
    tag = b'"%s"' % blake2b(text, digest_size=16).hexdigest().encode()
    if has(request, tag):
        await answer.headers(304, [(b"etag", tag)])
        return
    await answer.whole(200, text, _JSON, [(b"etag", tag)])
