"""The status of a mount, and the thread that writes it down once a second."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from vfs.engine.chunking import size

log = logging.getLogger("vfs.fuse")

PERIOD = 1.0  # seconds between two reports
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end a mount."""


@dataclass(frozen=True)
class Status:
    """What a mount says of itself: the fields of `status.json`.

    The document has one more, `vfs`: 1, its version. A program should skip fields that it does not know.
    """

    mountpoint: str  # absolute, without links; bytes that are no UTF-8 as Python's surrogateescape spells them
    sources: tuple[str, ...]  # the file that names each data set, or the folder that is shown; the first 100
    device: str  # "0:57", as /proc/self/mountinfo has it
    pid: int  # of the server
    since: float  # when it answered first; seconds since 1970, in the document as "2026-11-21T07:00:28Z"
    requests: int  # that came to the server; the kernel answers many others from its memory
    reads: int  # those of them that wanted bytes
    bytes: int  # that reads were answered with
    hits: int  # decoded pieces that were in the cache
    misses: int  # decoded pieces that were not
    errors: int  # requests answered with EIO; the log says why
    cached: int  # bytes of decoded pieces in the cache now
    cache_size: int  # at most
    log: str | None  # file, of a mount in the background
    libfuse: int  # version
    warnings: tuple[str, ...]  # on what data sets should hold and do not; the first 100

    def document(self) -> dict[str, Any]:
        """Return the status as status.json has it."""
        return {
            "vfs": 1,
            **vars(self),
            "sources": list(self.sources),
            "warnings": list(self.warnings),
            "since": stamp(self.since),
        }

    def counts(self) -> str:
        """Say what was done, in a line for people."""
        pieces = self.hits + self.misses
        cache = f", {self.hits / pieces:.0%} of {pieces:,} pieces from the cache" if pieces else ""
        errors = "no errors" if not self.errors else "1 error" if self.errors == 1 else f"{self.errors:,} errors"
        return f"{size(self.bytes)} in {self.reads:,} reads{cache}, {errors}"

    def summary(self) -> str:
        """Say what was done from the beginning until now, and how long that is."""
        return f"{self.counts()}, in {timedelta(seconds=round(time.time() - self.since)) if self.since else 'no time'}"

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Status:
        """Make a status of the document of status.json.

        Raises:
            ValueError: it is no such document.
        """
        try:
            told = {name: document[name] for name in cls.__annotations__}
            return cls(
                **{
                    **told,
                    "sources": tuple(told["sources"]),
                    "warnings": tuple(told["warnings"]),
                    "since": datetime.fromisoformat(told["since"]).timestamp(),
                }
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"no status of a mount: {error!r}") from None


def stamp(seconds: float) -> str:
    """Return a time as status.json has it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


class Reporter:
    """Reports the status of a mount about each second in which something changed, from a thread of
    its own, and once at the end.

    Args:
        take: makes a status.
        write: is called first, before anybody hears that the mount is ready.
        watch: is called then. Whatever goes wrong in either is a line in the log.
    """

    def __init__(
        self, take: Callable[[], Status], write: Callable[[Status], None] | None, watch: Callable[[Status], None] | None
    ) -> None:
        self._take = take
        self._write = write
        self._watch = watch
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="status", daemon=True)

    def start(self, ready: Callable[[], None] | None = None) -> None:
        """Begin. `ready` is called once the status is written."""
        self.last = self._take()
        self._tell(self._write, self.last)
        if ready is not None:
            ready()
        self._tell(self._watch, self.last)
        self._thread.start()

    def end(self) -> Status:
        """Returns: the last status."""
        self._ending.set()
        if self._thread.ident is not None:  # else it has never begun
            self._thread.join()
        self._told(self._take())
        return self.last

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # `vfs.fuse.ending` takes them
        while not self._ending.wait(PERIOD):
            now = self._take()
            if now != self.last:
                self._told(now)

    def _told(self, status: Status) -> None:
        self.last = status
        self._tell(self._write, status)
        self._tell(self._watch, status)

    def _tell(self, whom: Callable[[Status], None] | None, status: Status) -> None:
        try:
            if whom is not None:
                whom(status)
        except Exception as error:
            log.warning("cannot tell how the mount does: %s", error)
