"""A server between a client and `vfs serve` that hands on what each says, until it is told to break it."""

from __future__ import annotations

import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

HOP = ("connection", "keep-alive", "server", "date")


class Between:
    """Serves another server's contents at `url` as long as the block lasts.

    Attributes:
        cut: True breaks the connection in the middle of each body, also of one that is asked for from there on.
        gone: True closes each connection without an answer.
        token: asks with this token instead of that of the client; "" changes nothing.
        agents: the programs that have asked, as they call themselves.
    """

    def __init__(self, url: str) -> None:
        self.parts = urlsplit(url)
        self.cut = self.gone = False
        self.token = ""
        self.agents: set[str] = set()

    def __enter__(self) -> Between:
        between = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1

            def log_message(self, *args: Any) -> None:
                pass

            def do_GET(self) -> None:
                between._answer(self)

            do_HEAD = do_OPTIONS = do_GET  # noqa: N815

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.url = self.parts._replace(netloc=f"127.0.0.1:{self._server.server_port}").geturl()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _answer(self, asked: BaseHTTPRequestHandler) -> None:
        self.agents.add(asked.headers.get("user-agent", ""))
        if self.gone:
            asked.close_connection = True
            return
        path = asked.path
        if self.token:
            path = path.replace(self.parts.path, f"/t/{self.token}/")
        upstream = http.client.HTTPConnection(self.parts.netloc, timeout=250)
        upstream.request(asked.command, path, headers=dict(asked.headers))
        found = upstream.getresponse()
        body = found.read()
        upstream.close()
        asked.send_response_only(found.status)
        for name, value in found.getheaders():
            if name.lower() not in HOP:
                asked.send_header(name, value)
        if self.cut and asked.command == "GET":
            first, total = 0, len(body)
            if span := found.getheader("content-range"):
                first, total = int(span.split()[1].split("-")[0]), int(span.split("/")[1])
            body = body[: max(0, total // 2 - first)]
            asked.close_connection = True
        asked.end_headers()
        asked.wfile.write(body)
        asked.wfile.flush()
