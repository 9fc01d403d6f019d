"""Writes one response, in the messages of ASGI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from vfs.http.guard import RefusedError
from vfs.http.index import OLD
from vfs.http.pages import POLICY

Headers = list[tuple[bytes, bytes]]
Usual = tuple[tuple[bytes, bytes], ...]

STEP = 1 << 20
"""Bytes that are handed on at once where they are encrypted, which copies them."""
METHODS = "GET, HEAD, OPTIONS"
SHARED: Usual = (
    (
        b"access-control-expose-headers",
        b"Content-Range, Content-Length, Content-Encoding, ETag, Accept-Ranges, X-Vfs-Shape, X-Vfs-Dtype, X-Vfs-Bin",
    ),
    (b"cross-origin-resource-policy", b"cross-origin"),
)
"""Headers of responses that pages of other origins may read."""
USUAL: Usual = (
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"private, no-cache"),
    (b"accept-ranges", b"bytes"),
)
"""Headers of every response, beside those of CORS that depend on the request."""


class Reply(NamedTuple):
    """A response that is known as a whole.

    Attributes:
        status: its status.
        usual: headers that many responses have.
        about: its other headers.
        body: its body. This memory must not be used again: it may leave later.
    """

    status: int
    usual: Usual
    about: Headers
    body: memoryview


class Answer:
    """The response to a request.

    Args:
        method: method of the request.
        usual: headers that it has in any case.
        send: sends messages of ASGI.
        step: bytes of a body that are handed on at once; None: all.

    Attributes:
        status: its status, once it was begun; 0 before.
    """

    def __init__(
        self, method: str, usual: Usual, send: Callable[[Any], Awaitable[None]], step: int | None = None
    ) -> None:
        self.method = method
        self.status = 0
        self._usual = usual
        self._send = send
        self._step = step

    async def begin(self, status: int, headers: Headers) -> None:
        """Send the status and headers; `send` must follow."""
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": [*self._usual, *headers]})

    async def send(self, body: memoryview, last: bool) -> None:
        """Send a part of the body. Its memory must not be used again: it may leave later."""
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
        """Send a short response.

        Args:
            kind: its content type.
        """
        about = [(b"content-type", kind), (b"content-length", b"%d" % len(body)), *(headers or [])]
        await self.begin(status, about)
        await self.send(memoryview(b"" if self.method == "HEAD" else body), last=True)

    async def refuse(self, refused: RefusedError, browser: bool = False) -> None:
        """Say why there is no data, in one line of text.

        Args:
            browser: whoever asks shows HTML: if its token is wrong, it gets a page.
        """
        close = [(b"connection", b"close")] if refused.status in (400, 401, 403, 405) else []
        allow = [(b"allow", (refused.allow or METHODS).encode())] if refused.status == 405 else []
        size = [(b"content-range", b"bytes */%d" % refused.size)] if refused.size is not None else []
        if browser and refused.status == 401:
            await self.whole(401, OLD, b"text/html; charset=utf-8", [*close, (b"content-security-policy", POLICY)])
            return
        text = f"{refused.reason}\n".encode("utf-8", "backslashreplace")
        await self.whole(refused.status, text, b"text/plain; charset=utf-8", [*close, *allow, *size])

    async def options(self, request: Mapping[bytes, bytes]) -> None:
        """Answer a browser that asks if a page of another site may send a request."""
        wanted = request.get(
            b"access-control-request-headers", b"Range, If-Match, If-None-Match, If-Range, Cache-Control, Content-Type"
        )
        allowed = [
            (b"access-control-allow-methods", b"GET, HEAD, POST, OPTIONS"),
            (b"access-control-allow-headers", wanted),
            (b"access-control-allow-private-network", b"true"),
            (b"access-control-max-age", b"7200"),
        ]
        may = any(name == b"access-control-allow-origin" for name, _ in self._usual)
        await self.headers(200, [(b"allow", METHODS.encode()), *(allowed if may else []), (b"content-length", b"0")])
