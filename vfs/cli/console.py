"""Shows mounts and servers to people and service managers.

This module draws the status line and log lines of `vfs mount` and `vfs serve`, and the table of `vfs mounts`.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any

from vfs.cli.tables import table
from vfs.errors import printable, size
from vfs.fuse.mounts import Found
from vfs.server import FoundServer
from vfs.serving.logs import Line
from vfs.serving.status import ServerStatus, Status


class Terminal(logging.Handler):
    """Prints log lines on stderr, and keeps a status line below them up to date.

    The status line appears only while stderr is a terminal and this process is in its foreground.
    """

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(Line("vfs: %(message)s"))
        self._drawn = ""
        self._lock = threading.Lock()

    def emit(self, record: logging.LogRecord) -> None:
        self.say(self.format(record))

    def say(self, text: str) -> None:
        """Print lines above the status line."""
        with self._lock, suppress(OSError, ValueError):  # stderr is closed: nobody reads it
            drawn = self._drawn
            self._draw("")
            print(text, file=sys.stderr, flush=True)
            self._draw(drawn)

    def show(self, status: Status) -> None:
        """Draw the status line anew."""
        columns = shutil.get_terminal_size().columns
        with self._lock, suppress(OSError, ValueError):
            self._draw(f"vfs: {status.counts()}"[: columns - 1] if _in_front() else "")

    def end(self) -> None:
        """Remove the status line."""
        with self._lock, suppress(OSError, ValueError):
            self._draw("")

    def _draw(self, text: str) -> None:
        if self._drawn or text:
            # Spaces overwrite the old line, since not every terminal understands escape codes
            sys.stderr.write(f"\r{text.ljust(len(self._drawn))}" + ("" if text else "\r"))
            sys.stderr.flush()
        self._drawn = text


def _in_front() -> bool:
    """Return True if stderr is a terminal with this process in its foreground: no other one writes there."""
    try:
        return os.isatty(2) and os.tcgetpgrp(2) == os.getpgrp()
    except OSError:
        return False


@contextmanager
def terminal(level: str) -> Iterator[Terminal]:
    """Send log lines of a level and more severe ones to a `Terminal` until the block ends."""
    shown, root = Terminal(), logging.getLogger()
    before = root.level
    root.addHandler(shown)
    root.setLevel(level.upper())
    try:
        yield shown
    finally:
        root.removeHandler(shown)
        root.setLevel(before)


def under_manager() -> bool:
    """Return True if a service manager started this process, as `sd_notify(3)` tells."""
    return bool(os.environ.get("NOTIFY_SOCKET"))


def tell_manager(text: str) -> None:
    """Send a state ("READY=1", "STATUS=…") to the service manager, see `sd_notify(3)`.

    Does nothing if no service manager started this process.
    """
    name = os.environ.get("NOTIFY_SOCKET", "")
    if name:
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as to:
            to.connect("\0" + name[1:] if name.startswith("@") else name)
            to.send(printable(text).encode())


def mounts_text(found: Sequence[Found], servers: Sequence[FoundServer] = (), columns: int = 80) -> list[str]:
    """Return the lines of `vfs mounts`: a row for each mount and server, and its warnings about missing data.

    A row has the mount point or address, the start, bytes served, share of cache hits, errors, the
    sources, and the state of a mount that is not "mounted".

    Args:
        columns: characters of a line.
    """
    rows = [("WHERE", "SINCE", "SERVED", "HITS", "ERRORS", "FROM")]
    states = ["" if one.state == "mounted" else f" ({_STATES[one.state]})" for one in found]
    places: list[tuple[str, Status | None, str]] = [
        *((one.point, one.status, state) for one, state in zip(found, states, strict=True)),
        *((one.address, one.status, "") for one in servers),
    ]
    for place, status, state in places:
        if status is None:
            rows.append((printable(place), "?", "?", "?", "?", f"?{state}"))
            continue
        pieces = status.hits + status.misses
        first, more = status.sources[:1], len(status.sources) - 1
        source = printable("".join(first)) + (f" and {more} more" if more > 0 else "") + state
        hits = f"{status.hits / pieces:.0%}" if pieces else "-"
        since = f"{datetime.fromtimestamp(status.since):%Y-%m-%d %H:%M}"
        rows.append((printable(place), since, size(status.bytes), hits, f"{status.errors:,}", source))
    if not places:
        return []
    heading, *below = table(rows, columns, indent="")
    warnings = [_more(status) if status else [] for _, status, _ in places]
    return [*heading, *(line for row, more in zip(below, warnings, strict=True) for line in (*row, *more))]


def _more(status: Status) -> list[str]:
    """Return lines about a server: sets that are still being written, what it computed, and what its data sets lack."""
    live = [
        f"  live: {printable(name)}: {one['frames']:,} of {one['of'] or '?'} frames"
        for name, one in status.live.items()
    ]
    if isinstance(status, ServerStatus) and status.computed:
        live.append(f"  computed for its page: {size(status.computed)} of frames")
    return [*live, *(f"  warning: {printable(text)}" for text in status.warnings)]


_STATES = {
    "detached": "unmounted; served until all files open there are closed",
    "dead": "its server has ended; unmount it",
    "unknown": "its status cannot be read",
}


def mounts_json(found: Sequence[Found], servers: Sequence[FoundServer] = ()) -> list[dict[str, Any]]:
    """Return the list that `vfs mounts --json` prints.

    Each mount and server has the fields of its status.json, its state, and the folder that holds
    that file.
    """
    mounts = [
        {
            "mountpoint": one.point,
            "state": one.state,
            "folder": one.folder,
            **(one.status.document() if one.status else {}),
        }
        for one in found
    ]
    return mounts + [
        {
            "address": one.address,
            "state": "served",
            "folder": one.folder,
            **(one.status.document() if one.status else {}),
        }
        for one in servers
    ]
