"""Logs failed requests: the first ones of each kind line by line, the others as a count.

Copying from a mount of a damaged file gives an EIO for every page. The first `FIRST` lines of each
kind are written, with file and range. Further ones within `WINDOW` seconds are counted; the count is
written with the next line of that kind, or when the server ends. Lines are of one kind if they
differ only in numbers that stand alone (ranges, sizes), not in names of files.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

FIRST = 10  # lines of a kind
WINDOW = 60.0  # seconds
KINDS = 10_000  # at most so many kinds are counted, the latest ones

_NUMBERS = re.compile(r"(?<![^\s\[(])[\d,:]+(?![^\s,;:\])])")


class _Kind:
    __slots__ = ("left_out", "since", "written")

    def __init__(self, since: float) -> None:
        self.since = since
        self.written = 0
        self.left_out = 0


class Failures:
    """Writes lines into a log, but counts repeated ones. Threads may share it.

    Args:
        log: the log.
        clock: returns seconds.
    """

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self.log = log
        self.clock = clock
        self._lock = threading.Lock()
        self._kinds: OrderedDict[str, _Kind] = OrderedDict()

    def add(self, what: str, line: str, *, trace: bool = False) -> None:
        """Log that a request failed.

        Args:
            what: the reason, which names the file.
            line: the text to write: the request and the reason.
            trace: also write the traceback of the exception that is being handled.
        """
        name = _NUMBERS.sub("#", what)
        more = ""
        with self._lock:
            now = self.clock()
            kind = self._kinds.setdefault(name, _Kind(now))
            self._kinds.move_to_end(name)
            if now - kind.since >= WINDOW:
                more = self._count(kind)
                kind.since, kind.written, kind.left_out = now, 0, 0
            if kind.written >= FIRST:
                kind.left_out += 1
                return
            kind.written += 1
            if kind.written == FIRST:
                more += f" (more of this kind are only counted, for {WINDOW:.0f} seconds)"
            gone = self._kinds.popitem(last=False) if len(self._kinds) > KINDS else None
        if gone is not None:
            self._close(*gone)
        self.log.error("%s%s", line, more, exc_info=trace)

    def close(self) -> None:
        """Write the counts that were not written yet."""
        with self._lock:
            kinds, self._kinds = self._kinds, OrderedDict()
        for name, kind in kinds.items():
            self._close(name, kind)

    def _close(self, name: str, kind: _Kind) -> None:
        if kind.left_out:
            self.log.error("%s%s", name, self._count(kind))

    @staticmethod
    def _count(kind: _Kind) -> str:
        return f" (and {kind.left_out:,} more of this kind before)" if kind.left_out else ""
