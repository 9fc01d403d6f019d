"""Makes the socket that a server listens on, or takes the one that the service manager listens on for it."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from vfs.errors import OptionError, ServeError, printable
from vfs.model.wording import option

PORT = 8765
"""The port without `port`; if it is taken, the next one that is free."""
FURTHER = 100  # so many ports are tried
FIRST_GIVEN = 3  # descriptor of the first socket that a service manager gives


def given() -> socket.socket | None:
    """Return the socket that the service manager listens on for this process, sd_listen_fds(3); None if it does not.

    Raises:
        ServeError: it gives several, or another kind.
    """
    count = os.environ.get("LISTEN_FDS", "") if os.environ.get("LISTEN_PID") == str(os.getpid()) else ""
    for name in ("LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"):
        os.environ.pop(name, None)  # it is for no other process
    if not count:
        return None
    try:
        found = socket.socket(fileno=FIRST_GIVEN)
    except OSError:
        found = None
    if found is not None and count == "1" and found.proto == socket.IPPROTO_TCP:
        found.set_inheritable(False)
        return found
    if found is not None:
        found.close()
    raise ServeError(errno.EINVAL, "LISTEN_FDS: expected one socket of TCP, as ListenStream=8765 makes it")


@contextmanager
def listening(host: str, port: int | None) -> Iterator[socket.socket]:
    """Listen on a host and port until the block ends.

    Raises:
        ServeError: that cannot be.
    """
    if port is not None and not 0 <= port < 1 << 16:
        raise OptionError(f"{option(port=port)}: expected 0 (a free one) to 65535")
    try:
        family, _, _, _, where = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError) as error:
        raise ServeError(
            errno.EADDRNOTAVAIL,
            f"{printable(host)}: expected a host of this machine: {getattr(error, 'strerror', None) or error}",
        ) from None
    for tried in [port] if port is not None else range(PORT, PORT + FURTHER):
        try:
            listener = _listener(family, (where[0], tried, *where[2:]))
            break
        except OSError as error:
            if error.errno != errno.EADDRINUSE or tried in (port, PORT + FURTHER - 1):
                hint = "; another program listens there" if error.errno == errno.EADDRINUSE else ""
                raise ServeError(
                    error.errno or errno.EIO,
                    f"{printable(host)}, port {tried}: cannot listen: {error.strerror}{hint}",
                ) from None
    with listener:
        yield listener


def _listener(family: socket.AddressFamily, where: Any) -> socket.socket:
    """Return a socket that listens somewhere: several may be bound there until one listens (`SO_REUSEADDR`).

    Raises:
        OSError: another one does, or nothing can.
    """
    # With the protocol named, asyncio sends short segments at once; else a body would wait 40 ms for the head's receipt
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        listener.listen()
    except BaseException:
        listener.close()
        raise
    return listener


def address(listener: socket.socket, host: str, encrypted: bool) -> str:
    """Return the address of a server as a URL, without the token."""
    name = listener.getsockname()
    shown = {"": "localhost", "0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)
    return f"{'https' if encrypted else 'http'}://{f'[{shown}]' if ':' in shown else shown}:{name[1]}/"
