"""Writes a line for each answer into a file: who asked for what, when, and what came of it.

Lines are collected for a moment, so that an answer does not wait for them. Answers that need no interpreter have their
lines written by the threads that give them (`vfs.kernels.native.http.noting`), of the same parts.
"""

from __future__ import annotations

import json
import logging
import os
import time
from functools import lru_cache
from typing import NamedTuple

from vfs.errors import OptionError, printable
from vfs.http.index import quoted
from vfs.new_files import reopen

log = logging.getLogger("vfs.http")

TICK = 0.25
"""Seconds that lines wait, at most."""
MODE = 0o640  # permissions of a new file: it has names and paths
JSON_ENDING = ".jsonl"
"""Ending of files whose lines are JSON. Other files have words with spaces between them."""


class LineParts(NamedTuple):
    """What stands in a line around its time, who asked for what, its bytes and its milliseconds.

    Attributes:
        first: before the time; status: before the bytes, with a place for the status; took: before the milliseconds;
            last: behind these.
    """

    first: bytes
    status: bytes
    took: bytes
    last: bytes


TEXT = LineParts(b"", b" %d ", b" ", b"\n")
JSON = LineParts(b'{"time":"', b'","status":%d,"bytes":', b',"ms":', b"}\n")


class AccessLog:
    """Writes to a file, always at its end. All methods are called in the thread of the event loop.

    Args:
        path: the file. Nothing that a link leads to is opened.

    Attributes:
        fd: its descriptor, which stays the same.
        parts: what its lines consist of.

    Raises:
        OptionError: it cannot be written.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._json = path.endswith(JSON_ENDING)
        self.parts = JSON if self._json else TEXT
        self.fd = self._opened()
        self._lines: list[bytes] = []
        self._second, self._begin = 0, b""  # the time that lines begin with, and how
        self._fails = False
        self._asks = lru_cache(1 << 10)(self._say)

    def _opened(self) -> int:
        try:
            return reopen(self._path, os.O_APPEND, MODE)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise OptionError(f"{printable(self._path)}: expected a file that can be written: {reason}") from None

    def reopen(self) -> None:
        """Open the file of this name again: somebody may have given it another one.

        Raises:
            OptionError: it cannot be written; then lines go where they went.
        """
        fd = self._opened()
        self.write()
        os.dup2(fd, self.fd, inheritable=False)
        os.close(fd)

    def asks(self, name: str, address: str, method: str) -> bytes:
        """Return what lines say between the time and the path.

        Args:
            name: of a person; "" for nobody who is known. method: of the request.
        """
        return self._asks(name, address, method)

    def _say(self, name: str, address: str, method: str) -> bytes:
        words = (name or "-", address or "-", method)
        if not self._json:
            return f" {' '.join(words)} ".encode()
        told = dict(zip(("name", "address", "method"), words, strict=True))
        return b'",' + json.dumps(told, separators=(",", ":"))[1:-1].encode() + b',"path":"'

    def time(self) -> bytes:
        """Return what lines begin with now."""
        second = int(time.time())
        if second != self._second:
            said = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second)).encode()
            self._second, self._begin = second, self.parts.first + said
        return self._begin

    def add(self, asks: bytes, path: bytes, status: int, nbytes: int, seconds: float) -> None:
        """Add the line of an answer.

        Args:
            asks: see `asks`.
            path: its path without the token, quoted as in a URL; nbytes: of its body.
        """
        _, said, took, last = self.parts
        line = b"%b%b%b%b%d%b%.1f%b"
        self._lines.append(line % (self.time(), asks, path, said % status, nbytes, took, 1000 * seconds, last))

    def write(self) -> None:
        """Write the lines that wait. Those that a full disk refuses are lost, and the server's log says so once."""
        if not self._lines:
            return
        data, self._lines = b"".join(self._lines), []
        try:
            while data:
                data = data[os.write(self.fd, data) :]
            self._fails = False
        except OSError as error:
            if not self._fails:
                log.warning("%s: lines are lost: %s", printable(self._path), error.strerror)
            self._fails = True

    def close(self) -> None:
        """Write what waits, and close the file."""
        self.write()
        os.close(self.fd)


@lru_cache(1 << 12)
def path_of(key: str) -> bytes:
    """Return the path of a key as lines have it: quoted, so that it holds no space and no quotation mark."""
    return f"/{quoted(key)}".encode()
