"""What people and service managers get to see of mounts: the line that `vfs mount` keeps up to date, its log lines, the table of `vfs mounts`."""

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

from vfs.errors import printable
from vfs.mount.logs import Line
from vfs.mount.mounts import Found
from vfs.mount.status import Status
from vfs.tables import table
from vfs.tiling import size


class Terminal(logging.Handler):
    """Stderr with a line at its end that is kept up to date, as long as it is a terminal and we are in its foreground; else without that line."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(Line("vfs: %(message)s"))
        self._drawn = ""
        self._lock = threading.Lock()

    def emit(self, record: logging.LogRecord) -> None:
        self.say(self.format(record))

    def say(self, text: str) -> None:
        """Print lines above the status line."""
        with self._lock, suppress(OSError, ValueError):  # nobody sees it any more
            drawn = self._drawn
            self._draw("")
            print(text, file=sys.stderr, flush=True)
            self._draw(drawn)

    def show(self, status: Status) -> None:
        """Bring the status line up to date."""
        columns = shutil.get_terminal_size().columns
        with self._lock, suppress(OSError, ValueError):
            self._draw(f"vfs: {status.counts()}"[: columns - 1] if _in_front() else "")

    def end(self) -> None:
        """Take the status line away."""
        with self._lock, suppress(OSError, ValueError):
            self._draw("")

    def _draw(self, text: str) -> None:
        if self._drawn or text:
            sys.stderr.write(f"\r{text.ljust(len(self._drawn))}" + ("" if text else "\r"))  # no codes: any terminal does that
            sys.stderr.flush()
        self._drawn = text


def _in_front() -> bool:
    """True where stderr is a terminal and nobody else writes there: we are not in the background of its shell."""
    try:
        return os.isatty(2) and os.tcgetpgrp(2) == os.getpgrp()
    except OSError:
        return False


@contextmanager
def terminal(level: str) -> Iterator[Terminal]:
    """A terminal that log lines from a level on go to."""
    shown, root = Terminal(), logging.getLogger()
    before = root.level
    root.addHandler(shown)
    root.setLevel(level.upper())
    try:
        yield shown
    finally:
        root.removeHandler(shown)
        root.setLevel(before)


def tell_manager(text: str) -> None:
    """Tell the service manager that started us, if one did (`sd_notify(3)`): "READY=1", "STATUS=…"."""
    name = os.environ.get("NOTIFY_SOCKET", "")
    if name:
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as to:
            to.connect("\0" + name[1:] if name.startswith("@") else name)
            to.send(printable(text).encode())


def mounts_text(found: Sequence[Found], columns: int = 80) -> list[str]:
    """The table of `vfs mounts`: mount point, since when, bytes served, cache hits, errors, from what, and what is wrong; below, what
    its sets should hold and do not.

    Args:
        columns: characters of a line.
    """
    rows = [("MOUNTPOINT", "SINCE", "SERVED", "HITS", "ERRORS", "FROM")]
    for one in found:
        status, state = one.status, "" if one.state == "mounted" else f" ({_STATES[one.state]})"
        if status is None:
            rows.append((printable(one.point), "?", "?", "?", "?", f"?{state}"))
            continue
        pieces = status.hits + status.misses
        first, more = status.sources[:1], len(status.sources) - 1
        source = printable("".join(first)) + (f" and {more} more" if more > 0 else "") + state
        hits = f"{status.hits / pieces:.0%}" if pieces else "-"
        since = f"{datetime.fromtimestamp(status.since):%Y-%m-%d %H:%M}"
        rows.append((printable(one.point), since, size(status.bytes), hits, f"{status.errors:,}", source))
    if not found:
        return []
    heading, *below = table(rows, columns, indent="")
    warnings = [[f"  warning: {printable(text)}" for text in one.status.warnings] if one.status else [] for one in found]
    return [*heading, *(line for row, more in zip(below, warnings, strict=True) for line in (*row, *more))]


_STATES = {
    "detached": "taken away; served until nobody has anything of it open",
    "dead": "its server has ended; unmount it",
    "unknown": "nothing is known of it",
}


def mounts_json(found: Sequence[Found]) -> list[dict[str, Any]]:
    """What `vfs mounts --json` prints: what status.json says, and the mount's state and where that file is."""
    return [{"mountpoint": one.point, "state": one.state, "folder": one.folder, **(one.status.document() if one.status else {})} for one in found]
