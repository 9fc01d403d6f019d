"""Says what a response is (`Reply`), or what is to be done before it is known (`Work`); writes one as ASGI says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from vfs.http.guard import RefusedError
from vfs.http.index import OLD

Headers = list[tuple[bytes, bytes]]
Usual = tuple[tuple[bytes, bytes], ...]

STEP = 1 << 20
"""Bytes that are handed on at once where they are encrypted, which copies them."""
METHODS = "GET, HEAD, OPTIONS, PROPFIND"
CLOSING = frozenset((400, 401, 403, 405))
"""Statuses of responses behind which the connection is closed."""
SHARED: Usual = (
    (
        b"access-control-expose-headers",
        b"Content-Range, Content-Length, Content-Encoding, ETag, Accept-Ranges, X-Vfs-Shape, X-Vfs-Dtype, X-Vfs-Bin,"
        b" X-Vfs-Stored",
    ),
    (b"cross-origin-resource-policy", b"cross-origin"),
)
"""Headers of responses that pages of other origins may read."""
CACHING = b"cache-control"
NO_CACHE = b"private, no-cache"
"""How answers are cached, unless they say so themselves: whoever keeps one asks each time if it is current."""
USUAL: Usual = (
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (CACHING, NO_CACHE),
    (b"accept-ranges", b"bytes"),
)
"""Headers of every response, beside those of CORS that depend on the request."""


_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self';"
    b" base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)


def policy(embed: Sequence[str] = ()) -> bytes:
    """Return the Content-Security-Policy of the page: it loads nothing from elsewhere and runs nothing that stands
    in names.

    Args:
        embed: origins whose pages may show it in a frame, besides its own.
    """
    return b" ".join([_POLICY, *(origin.encode() for origin in embed)])


@lru_cache(64)
def uncached(usual: Usual) -> Usual:
    """Return usual headers for an answer that says itself how it is cached."""
    return tuple(header for header in usual if header[0] != CACHING)


NOTHING = memoryview(b"")


class Reply(NamedTuple):
    """A response.

    Attributes:
        status: its status.
        about: its headers, beside those that every response to this client has. One that says how it is cached comes
            first, and takes the place of the usual one.
        body: its body, or the first part of it. This memory must not be used again: it may leave later.
        rest: makes the next part, a `Reply` of which only `body` and `rest` count; None: there is none.
    """

    status: int
    about: Headers
    body: memoryview = NOTHING
    rest: Work | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """What a thread must do before a request can be answered.

    Attributes:
        path: what it is done for, as a log names it.
        key: equal work has equal keys: one run does for all requests that wait for it.
        run: is called in a thread.
        then: decides how to go on, given what `run` returned. It is called in the thread of the event loop.
    """

    path: str
    key: Hashable
    run: Callable[[], Any]
    then: Callable[[Any], Reply | Work]


class ForBody(NamedTuple):
    """The request is answered once its body is there.

    Attributes:
        path: what is asked for, as a log names it.
        then: decides how to go on, given the body.
    """

    path: str
    then: Callable[[bytes], Reply | Work]


def whole(method: str, status: int, body: bytes, kind: bytes, headers: Headers | None = None) -> Reply:
    """Return a short response.

    Args:
        method: of the request.
        kind: content type of the body.
    """
    about = [(b"content-type", kind), (b"content-length", b"%d" % len(body)), *(headers or [])]
    return Reply(status, about, NOTHING if method == "HEAD" else memoryview(body))


def refusal(method: str, refused: RefusedError, browser: bool = False) -> Reply:
    """Return a response that says why there is no data, in one line of text.

    Args:
        method: of the request.
        browser: whoever asks shows HTML: if its token is wrong, it gets a page.
    """
    close = [(b"connection", b"close")] if refused.status in CLOSING else []
    allow = [(b"allow", (refused.allow or METHODS).encode())] if refused.status == 405 else []
    size = [(b"content-range", b"bytes */%d" % refused.size)] if refused.size is not None else []
    retry = [(b"retry-after", b"%d" % refused.retry_after)] if refused.retry_after is not None else []
    login = [(b"www-authenticate", b'Basic realm="vfs", charset="UTF-8"')] if refused.login else []
    if browser and refused.status == 401:
        about = [*close, *login, (b"content-security-policy", policy())]
        return whole(method, 401, OLD, b"text/html; charset=utf-8", about)
    text = f"{refused.reason}\n".encode("utf-8", "backslashreplace")
    return whole(method, refused.status, text, b"text/plain; charset=utf-8", [*close, *login, *allow, *size, *retry])


def options(request: Mapping[bytes, bytes], may: bool) -> Reply:
    """Return the response to a browser that asks if a page of another site may send a request.

    Args:
        request: headers of the request.
        may: the page may.
    """
    wanted = request.get(
        b"access-control-request-headers", b"Range, If-Match, If-None-Match, If-Range, Cache-Control, Content-Type"
    )
    allowed = [
        (b"access-control-allow-methods", b"GET, HEAD, POST, OPTIONS"),
        (b"access-control-allow-headers", wanted),
        (b"access-control-allow-private-network", b"true"),
        (b"access-control-max-age", b"7200"),
    ]
    drive = [(b"dav", b"1"), (b"ms-author-via", b"DAV")]  # Explorer opens no drive without the second one
    return Reply(200, [(b"allow", METHODS.encode()), *drive, *(allowed if may else []), (b"content-length", b"0")])


class Answer:
    """The response to a request.

    Args:
        method: method of the request.
        usual: headers that it has in any case.
        send: sends messages of ASGI.
        step: bytes of a body that are handed on at once; None: all.

    Attributes:
        status: its status, once it was begun; 0 before.
        sent: bytes of its body that were sent.
    """

    def __init__(
        self, method: str, usual: Usual, send: Callable[[Any], Awaitable[None]], step: int | None = None
    ) -> None:
        self.method = method
        self.status = self.sent = 0
        self._usual = usual
        self._send = send
        self._step = step

    async def begin(self, status: int, headers: Headers) -> None:
        """Send the status and headers; `send` must follow."""
        self.status = status
        usual = uncached(self._usual) if headers and headers[0][0] == CACHING else self._usual
        await self._send({"type": "http.response.start", "status": status, "headers": [*usual, *headers]})

    async def send(self, body: memoryview, last: bool) -> None:
        """Send a part of the body. Its memory must not be used again: it may leave later."""
        self.sent += body.nbytes
        for start in range(0, body.nbytes, self._step or max(1, body.nbytes)):
            step = body[start : start + self._step] if self._step else body
            more = not last or start + step.nbytes < body.nbytes
            await self._send({"type": "http.response.body", "body": step, "more_body": more})
        if not body.nbytes and last:
            await self.end()

    async def end(self) -> None:
        """End the response."""
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def headers(self, status: int, headers: Headers) -> None:
        """Send a response that has no body."""
        await self.begin(status, headers)
        await self.end()

    async def whole(self, status: int, body: bytes, kind: bytes, headers: Headers | None = None) -> None:
        """Send a short response, see `whole`."""
        await self.reply(whole(self.method, status, body, kind, headers))

    async def reply(self, reply: Reply) -> None:
        """Send a response whose body has one part."""
        await self.begin(reply.status, reply.about)
        await self.send(reply.body, last=True)
