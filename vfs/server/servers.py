"""Lists the HTTP servers of this user, and ends them from any process."""

from __future__ import annotations

import errno
import os
import signal
import time
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlsplit

from vfs.errors import ServeError, printable
from vfs.serving.entry import alive, drop, entries
from vfs.serving.status import ServerStatus

PATIENCE = 10  # seconds that a server has to end


class FoundServer(NamedTuple):
    """A server that was found.

    Attributes:
        address: its URL without the token.
        status: the last status that it wrote; None if it is of another version of vfs.
        pid: its process.
        folder: the folder of its entry.
    """

    address: str
    status: ServerStatus | None
    pid: int
    folder: str


def servers() -> list[FoundServer]:
    """Return all HTTP servers of this user. Entries that dead servers left behind are removed."""
    found = []
    for folder, document, lock in entries("address"):
        if lock is not None:
            drop(folder, lock)
            continue
        try:
            status = ServerStatus.of(document)
        except ValueError:
            status = None
        found.append(FoundServer(document["address"], status, int(document.get("pid") or 0), folder))
    return sorted(found)


def is_address(text: str) -> bool:
    """Return True if a text is the address of a server and not a path: a URL, or HOST:PORT."""
    if text.startswith(("http://", "https://")):
        return True
    host, colon, port = text.rpartition(":")
    return bool(colon) and port.isdecimal() and "/" not in host and not os.path.lexists(text)


def end(address: str) -> None:
    """End a server of this user, and wait until it has ended.

    Args:
        address: its URL, with or without the token, or HOST:PORT.

    Raises:
        ServeError: there is no such server, or it does not end; or `address` is no address.
    """
    wanted = _place(address)
    known = servers()
    for one in known:
        if _place(one.address) == wanted and one.pid:
            with suppress(ProcessLookupError):
                os.kill(one.pid, signal.SIGTERM)
            until = time.monotonic() + PATIENCE
            while alive(one.folder) and time.monotonic() < until:
                time.sleep(0.01)
            if alive(one.folder):
                raise ServeError(errno.EBUSY, f"{one.address}: process {one.pid} does not end")
            return
    there = f"; there are {', '.join(one.address for one in known)}" if known else "; there is none"
    raise ServeError(errno.EINVAL, f"{printable(wanted)}: no server of yours has this address{there}")


def _place(address: str) -> str:
    """Return HOST:PORT of an address.

    Raises:
        ServeError: it is no address.
    """
    try:
        return urlsplit(address if "//" in address else f"//{address}").netloc.lower()
    except ValueError as error:
        raise ServeError(errno.EINVAL, f"{address}: expected a URL, or HOST:PORT: {error}") from None
